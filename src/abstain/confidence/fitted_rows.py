"""Recognise the rows that a confidence was fitted on, so that no threshold is certified on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from abstain._stored import Share, Within

_MAX_STORED = 20_000  # confidences that are remembered; an overlap shows in a sample as well
_MANTISSA_BITS = 20  # to which confidences are rounded, so that float32 inputs give the same numbers
_OVERLAP = 0.01  # share of known rows above which data count as those of the fit; real data repeat a few rows
_CHANCE_FACTOR = 4.0  # times the share that fresh rows would reach by chance
_MIN_KNOWN = 3  # one or two equal rows may be chance in any data


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedRows:
    """Confidences of the rows that a confidence was fitted on, those that occur once.

    Attributes
    ----------
    confidences : ndarray
        Rounded, increasing. At most 20,000: with more, those below `largest_hash` in a fixed pseudo-random order.
    largest_hash : float
        In [0, 1]: rows whose pseudo-random number is not below it are not stored, and not asked about.
    chance : float
        Share of fresh rows whose confidence would be among these by chance. By Good and Turing's rule it is twice the
        number of confidences that occur twice, over the number of rows.
    """

    confidences: Annotated[np.ndarray, Within()]
    largest_hash: Share
    chance: Share

    @classmethod
    def of(cls, confidence: np.ndarray) -> FittedRows:
        """Remember the confidences that only one row of a fit has; of more than 20,000, a random part of so many.

        `share_known` looks for them among new rows; a confidence that several rows share would be there in any data.
        `confidence` has one number per row. `largest_hash` says which part it is: the confidences with a smaller
        pseudo-random number, 1 for all. New rows are thinned out in the same way before they are compared, so that
        `chance`, a share of the compared rows, is the same for any part. There must be at least one row.
        """
        # rounded to 20 binary digits, so that the same rows are recognised from float32 inputs too
        distinct, counts = np.unique(_round(confidence), return_counts=True)
        single = distinct[counts == 1]
        # The share of fresh rows that by chance have one of these confidences. By Good and Turing's rule it is the
        # share of rows in pairs: those whose confidence occurs twice.
        chance = min(1.0, 2.0 * int(np.sum(counts == 2)) / len(confidence))
        largest_hash = 1.0
        if len(single) > _MAX_STORED:
            hashes = _pseudo_random(single)  # a number in [0, 1) for each confidence, the same in every call
            # the smallest number that is not stored: exactly `_MAX_STORED` (20,000) are below it
            largest_hash = float(np.partition(hashes, _MAX_STORED)[_MAX_STORED])
            single = single[hashes < largest_hash]
        return cls(confidences=single, largest_hash=largest_hash, chance=chance)

    def share_known(self, confidence: np.ndarray) -> float:
        """Share of new rows that are recognised as rows of the fit; 0 if no more are than chance explains.

        `confidence` has one number per new row. Confidences that several new rows share are left out, and those that
        would not have been stored: their pseudo-random number is not below `largest_hash`. `chance` is the share of
        fresh rows whose confidence is among the stored ones by chance. The caller refuses the rows if the share is
        above 0. The share is one of the rows that are compared, not of all.
        """
        distinct, counts = np.unique(_round(confidence), return_counts=True)  # rounded as the stored ones are
        single = distinct[(counts == 1) & (_pseudo_random(distinct) < self.largest_hash)]
        if not len(single):  # no row can be recognised
            return 0.0
        recognised_count = int(np.isin(single, self.confidences).sum())  # `confidences`: the stored ones
        share = recognised_count / len(single)
        # real data repeat a few rows (`_OVERLAP`, 1%), and the expected chance itself is uncertain (the factor, 4)
        largest_by_chance = max(_OVERLAP, _CHANCE_FACTOR * self.chance)
        # one or two equal rows (fewer than `_MIN_KNOWN`, 3) may be chance in any data
        may_be_chance = recognised_count < _MIN_KNOWN or share <= largest_by_chance
        return 0.0 if may_be_chance else share


def _round(confidence: np.ndarray) -> np.ndarray:
    """Round to 20 binary digits; numbers beyond 1e300, such as that of rows without a confidence, become 1e300."""
    mantissa, exponent = np.frexp(np.clip(np.asarray(confidence, dtype=np.float64), -1e300, 1e300))
    return np.ldexp(np.rint(np.ldexp(mantissa, _MANTISSA_BITS)), exponent - _MANTISSA_BITS)


def _pseudo_random(values: np.ndarray) -> np.ndarray:
    """A pseudo-random number in [0, 1) for each float, always the same for the same float."""
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)
    # the finaliser of the SplitMix64 generator: three rounds of shifting and multiplying by its constants
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits = bits ^ (bits >> np.uint64(31))
    return np.asarray((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53)
