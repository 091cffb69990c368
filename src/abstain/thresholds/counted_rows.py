"""Rows that a series of checks has counted: found again in an export that grows, by a few fingerprints of each look."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ROWS_REMEMBERED = 64  # of each look; 8 bytes of the file of a series for each
LOOKS_REMEMBERED = 8  # the latest ones
_FINGERPRINT_BYTES = (
    6  # of a fingerprint: one of 10 million other rows has the same one with a probability of 4e-8
)
# So many remembered rows, all of them in one file, say that the file holds the look.
_FEWEST_OF_WHOLE_LOOK = 20
_FEWEST_FOUND = 3  # remembered values among the new ones: one or two may be chance in any data
_CHANCE_FACTOR = 2  # times the number that chance explains at most


class CountedAgain(NamedTuple):
    """How many of the rows that a series remembers of earlier looks are in a new file."""

    found: int
    remembered: int
    holds_whole_look: bool  # all that is remembered of some look, and no chance explains it


def explained_by_chance(found_count: int, remembered_count: int, shared_count: int, n: int) -> bool:
    """May so many of the remembered values be among n new ones by chance?

    Values that many samples share would be found in any data. How likely that is, the new samples show: it is the share
    of them whose value another one has, `shared_count` of n.
    """
    # pairs of equal samples are counted by chance: allow for three pairs, and three standard deviations, more
    shared_at_most = min(1.0, (shared_count + 6 + 3 * np.sqrt(shared_count)) / n)
    return found_count < _FEWEST_FOUND or found_count <= _CHANCE_FACTOR * shared_at_most * remembered_count


def fingerprint_rows(confidence: np.ndarray, ids: Sequence[str] | None) -> np.ndarray:
    """Return a fingerprint of each row: 48 bits of a hash of its confidence and, where the file has ids, of its id.

    Labels are no part of it, because they are corrected. Rows with equal confidences and ids have equal fingerprints.
    """
    numbers = np.asarray(confidence, dtype=np.float64) + 0.0  # -0 becomes 0
    texts = [""] * len(numbers) if ids is None else ids
    parts = [
        hashlib.blake2b(number + text.encode("utf-8", "replace"), digest_size=_FINGERPRINT_BYTES).digest()
        for number, text in zip(map(bytes, numbers.view("V8")), texts, strict=True)
    ]
    return _unpack_fingerprints(b"".join(parts))


def remember_rows(rows_seen: tuple[str, ...], fingerprints: np.ndarray) -> tuple[str, ...]:
    """Return what a series remembers after a look with these rows; `rows_seen` is what it remembered before.

    Of the rows that no other row of the look equals, those with the smallest fingerprints are kept: a random sample,
    the same in whatever order the rows come.
    """
    distinct, counts = np.unique(fingerprints, return_counts=True)
    kept = distinct[counts == 1][:ROWS_REMEMBERED]
    kept_bytes = kept.astype(">u8").view(np.uint8).reshape(-1, 8)[:, -_FINGERPRINT_BYTES:].tobytes()
    return (*rows_seen, base64.b64encode(kept_bytes).decode("ascii"))[-LOOKS_REMEMBERED:]


def find_counted_again(rows_seen: tuple[str, ...], fingerprints: np.ndarray) -> CountedAgain | None:
    """Find the remembered rows of earlier looks among these new ones; None if chance explains as many."""
    distinct, counts = np.unique(fingerprints, return_counts=True)
    shared_count = int(counts[counts > 1].sum())
    looks = [_unpack_fingerprints(base64.b64decode(text)) for text in rows_seen]
    holds_whole_look = False
    for remembered in looks:
        is_whole = len(remembered) >= _FEWEST_OF_WHOLE_LOOK and bool(np.isin(remembered, distinct).all())
        if is_whole and not explained_by_chance(
            len(remembered), len(remembered), shared_count, len(fingerprints)
        ):
            holds_whole_look = True
    pool = np.unique(np.concatenate(looks)) if looks else np.empty(0, dtype=np.uint64)
    found_count = int(np.isin(pool, distinct).sum())
    if not holds_whole_look and explained_by_chance(found_count, len(pool), shared_count, len(fingerprints)):
        return None
    return CountedAgain(found=found_count, remembered=len(pool), holds_whole_look=holds_whole_look)


def are_rows_seen(rows_seen: tuple[str, ...]) -> bool:
    """Are these base64 texts of at most as many fingerprints and looks as a series remembers?"""
    try:
        lengths = [len(base64.b64decode(text, validate=True)) for text in rows_seen]
    except (binascii.Error, ValueError):
        return False
    return len(rows_seen) <= LOOKS_REMEMBERED and all(
        length % _FINGERPRINT_BYTES == 0 and length <= _FINGERPRINT_BYTES * ROWS_REMEMBERED
        for length in lengths
    )


def _unpack_fingerprints(packed: bytes) -> np.ndarray:
    """Return the fingerprints in these bytes as 64-bit integers."""
    rows = np.frombuffer(packed, dtype=np.uint8).reshape(-1, _FINGERPRINT_BYTES)
    wide = np.zeros((len(rows), 8), dtype=np.uint8)
    wide[:, 8 - _FINGERPRINT_BYTES :] = rows
    return wide.view(">u8").reshape(-1).astype(np.uint64)
