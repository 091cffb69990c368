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
_FEWEST_TO_JUDGE = 50  # samples; in fewer of them, no share says that confidences are coarse
_CHANCE_FACTOR = 2  # times the number to expect by chance, and three standard deviations more


class CountedAgain(NamedTuple):
    """How many of the rows that a series remembers of earlier looks are in a new file."""

    found: int
    remembered: int
    holds_whole_look: bool  # all that is remembered of some look, and no chance explains it


def explained_by_chance(found_count: int, remembered_count: int, shared_count: int, n: int) -> bool:
    """May `found_count` of the `remembered_count` remembered values be among n new ones by chance?

    Values that many samples share would be found in any data. How likely that is, the new samples show: it is the share
    of them whose value another one has, `shared_count` of n.
    """
    # pairs of equal samples are counted by chance: allow for three pairs, and three standard deviations, more
    shared_at_most = min(1.0, (shared_count + 6 + 3 * np.sqrt(shared_count)) / n)
    expected_at_most = shared_at_most * remembered_count
    largest_by_chance = _CHANCE_FACTOR * expected_at_most + 3 * np.sqrt(expected_at_most)
    return found_count < _FEWEST_FOUND or found_count <= largest_by_chance


def share_too_coarse(confidence: np.ndarray) -> float:
    """The share of samples with the confidence of another one, where this hides rows of the calibration; otherwise 0.

    A rule remembers confidences of its calibration, to notice when later data hold the same rows. Where many samples
    share a confidence, all that it remembers would be found among any data. `confidence` holds finite numbers, one for
    each sample; fewer than 50 are too few to judge, and give 0.
    """
    n = len(confidence)
    _, counts = np.unique(confidence, return_counts=True)
    shared_count = int(counts[counts > 1].sum())
    # would it be chance if n of n remembered confidences were found? The answer hardly depends on how many there are
    is_by_chance = n >= _FEWEST_TO_JUDGE and explained_by_chance(n, n, shared_count=shared_count, n=n)
    return shared_count / n if is_by_chance else 0.0


def fingerprint_rows(confidence: np.ndarray, ids: Sequence[str] | None) -> np.ndarray:
    """Return a fingerprint of each row: 48 bits of a hash of its confidence and, where the file has ids, of its id.

    A fingerprint is an integer, in a uint64 array. Labels are no part of it, because they may be corrected between two
    exports. Rows with equal confidences and ids have equal fingerprints.
    """
    numbers = np.asarray(confidence, dtype=np.float64) + 0.0  # -0 becomes 0
    texts = [""] * len(numbers) if ids is None else ids
    bytes_of_numbers = map(bytes, numbers.view("V8"))  # the 8 bytes of each number
    digests = [
        hashlib.blake2b(number + text.encode("utf-8", "replace"), digest_size=_FINGERPRINT_BYTES).digest()
        for number, text in zip(bytes_of_numbers, texts, strict=True)
    ]
    return _unpack_fingerprints(b"".join(digests))


def remember_rows(rows_seen: tuple[str, ...], fingerprints: np.ndarray) -> tuple[str, ...]:
    """Return what a series remembers after a look with these rows; `rows_seen` is what it remembered before.

    Of the rows that no other row of the look equals, those with the smallest fingerprints are kept: a random sample,
    the same in whatever order the rows come.
    """
    distinct, counts = np.unique(fingerprints, return_counts=True)  # rising
    kept = distinct[counts == 1][:ROWS_REMEMBERED]
    # a fingerprint is stored as the lower bytes of its integer, the highest of them first
    kept_bytes = kept.astype(">u8").view(np.uint8).reshape(-1, 8)[:, -_FINGERPRINT_BYTES:].tobytes()
    return (*rows_seen, base64.b64encode(kept_bytes).decode("ascii"))[-LOOKS_REMEMBERED:]


def find_counted_again(rows_seen: tuple[str, ...], fingerprints: np.ndarray) -> CountedAgain | None:
    """Find the remembered rows of earlier looks among these new ones; None if chance explains as many.

    The caller refuses a file that holds a whole earlier look, and only warns of single rows. A look is one call of a
    check that counted new rows. `rows_seen` holds, for each of the latest looks, fingerprints of some of its rows, in
    base64. `fingerprints` has one entry per new row; equal rows have equal ones. The result counts fingerprints of all
    looks: those in the new rows, and those that are remembered; `holds_whole_look` says that the new rows hold all that
    is remembered of some look.
    """
    distinct, counts = np.unique(fingerprints, return_counts=True)
    shared_count = int(counts[counts > 1].sum())  # new rows that another new row equals

    def by_chance(found_count: int, remembered_count: int) -> bool:
        """Are so many found in any data? The more new rows equal another one, the more are."""
        return explained_by_chance(found_count, remembered_count, shared_count, n=len(fingerprints))

    remembered_of_looks = [_unpack_fingerprints(base64.b64decode(text)) for text in rows_seen]
    holds_whole_look = False
    for remembered in remembered_of_looks:
        count = len(remembered)
        all_are_new_rows = bool(np.isin(remembered, distinct).all())
        # fewer than 20 remembered rows do not stand for a whole look
        has_enough = count >= _FEWEST_OF_WHOLE_LOOK
        if has_enough and all_are_new_rows and not by_chance(count, remembered_count=count):
            holds_whole_look = True
    remembered_of_all = np.empty(0, dtype=np.uint64)
    if remembered_of_looks:
        remembered_of_all = np.unique(np.concatenate(remembered_of_looks))
    found_count = int(np.isin(remembered_of_all, distinct).sum())
    if not holds_whole_look and by_chance(found_count, remembered_count=len(remembered_of_all)):
        return None
    return CountedAgain(
        found=found_count, remembered=len(remembered_of_all), holds_whole_look=holds_whole_look
    )


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
