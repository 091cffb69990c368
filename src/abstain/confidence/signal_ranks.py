"""A signal as its rank among the rows that a confidence was learned on, and smooth functions of that rank.

Ranks make signals of any unit comparable (a probability, a stated percentage, a number of tokens), and numbers far out
of range, such as parsing errors, become the first or last rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.special import ndtri

from abstain._stored import Within

MIDDLE_RANK = 0.5  # of a row without the signal
_EVEN_VALUES = 225  # stored values of a signal at even shares of the rows
_TAIL_VALUES = 16  # more towards either end, in equal ratios: an extreme row must not blur the highest ranks
_MAX_REFERENCE_VALUES = _EVEN_VALUES + 2 * _TAIL_VALUES
_ROUNDING_OF_SHARES = 1e-9
# Knots of the splines, as ranks: 5%, 27.5%, 50%, 72.5% and 95% of the rows, where Harrell places five knots.
_KNOTS = np.asarray([0.05, 0.275, 0.5, 0.725, 0.95])
_OUTERMOST_RANK = 1e-3  # normal scores of ranks beyond it would follow single rows
RANK_COLUMNS = len(_KNOTS)  # that `rank_basis` returns


@dataclass(frozen=True, eq=False, kw_only=True)
class RankReference:
    """The distribution of one signal in the rows that a confidence was learned on.

    Attributes
    ----------
    values : ndarray
        Some values of the signal, increasing: all distinct ones, or at most 257 of them if there are more.
    ranks : ndarray
        Of each value: share of the rows below it plus half of the share that are equal to it.
    missing : float
        Share of the rows without the signal.

    Examples
    --------
    >>> reference = RankReference.of(np.array([1.0, 2.0, 2.0, np.nan]))
    >>> reference.values.tolist(), reference.ranks.round(3).tolist(), reference.missing
    ([1.0, 2.0], [0.167, 0.667], 0.25)
    """

    values: Annotated[np.ndarray, Within()]
    ranks: Annotated[np.ndarray, Within(0, 1)]
    missing: Annotated[float, Within(0, 1)]

    @classmethod
    def of(cls, signal: np.ndarray, weight: np.ndarray | None = None) -> RankReference:
        """Summarise a signal, one float per row with NaN where it is missing; some value must be there.

        `weight` is the mass of each row, by default 1. Rows of weight 0 do not count. All distinct values are stored,
        or some 257 of them if there are more; infinite values count as missing.
        """
        mass = np.ones(len(signal)) if weight is None else weight
        is_present = np.isfinite(signal) & (mass > 0)
        # distinct values in increasing order, and for each row the index of its value among them
        distinct, code = np.unique(signal[is_present], return_inverse=True)
        mass_of_value = np.bincount(code, weights=mass[is_present], minlength=len(distinct))
        present_mass = mass_of_value.sum()
        # of each value: the share of the mass below it and half of its own
        ranks = (np.cumsum(mass_of_value) - 0.5 * mass_of_value) / present_mass
        stored = distinct
        stored_ranks = ranks
        if len(distinct) > _MAX_REFERENCE_VALUES:
            # ranks at which values are stored: even ones, and more of them towards either end
            even = np.linspace(ranks[0], ranks[-1], _EVEN_VALUES)  # 225, and 16 in each tail
            low_tail = np.geomspace(ranks[0], 1 / _EVEN_VALUES, _TAIL_VALUES)
            high_tail = 1 - np.geomspace(1 - ranks[-1], 1 / _EVEN_VALUES, _TAIL_VALUES)
            positions = np.concatenate([even, low_tail, high_tail])
            # The values whose ranks are nearest to these. Between them ranks are interpolated later. Both neighbours of
            # a value that many rows share are among them, so that its share can be compared with that in new rows.
            half_way = 0.5 * (ranks[1:] + ranks[:-1])
            nearest = np.unique(np.searchsorted(half_way, positions))
            stored = distinct[nearest]
            stored_ranks = ranks[nearest]
        return cls(values=stored, ranks=stored_ranks, missing=float(1 - present_mass / mass.sum()))

    def rank(self, signal: np.ndarray) -> np.ndarray:
        """Return the rank of each value among the reference rows, from 0 to 1; the middle rank for NaN.

        Between stored values ranks are interpolated; beyond them they are those of the lowest and highest value.
        """
        is_known = np.isfinite(signal)
        ranks = np.interp(np.where(is_known, signal, self.values[0]), self.values, self.ranks)
        return np.where(is_known, ranks, MIDDLE_RANK)

    def distance(self, signal: np.ndarray) -> float:
        """Largest difference between the cumulative distribution of a signal and that of the reference rows.

        It lies between 0 and 1 and ignores rows where the signal is missing; 0 if all are. The shares of rows below and
        up to each stored value are compared. Where only some values are stored, the means of these two shares are: a
        rank is the share of the reference rows below a value plus half of the share that are equal to it.
        """
        sorted_values = np.sort(signal[np.isfinite(signal)])
        if not len(sorted_values):
            return 0.0
        below = np.searchsorted(sorted_values, self.values, side="left") / len(sorted_values)
        up_to = np.searchsorted(sorted_values, self.values, side="right") / len(sorted_values)
        # for each stored value the share of the reference rows up to it; None if only some values are stored
        reference_up_to = self._shares_up_to_values()
        if reference_up_to is None:
            return float(np.max(np.abs((below + up_to) / 2 - self.ranks)))
        reference_below = np.concatenate([[0.0], reference_up_to[:-1]])
        return float(max(np.max(np.abs(below - reference_below)), np.max(np.abs(up_to - reference_up_to))))

    def _shares_up_to_values(self) -> np.ndarray | None:
        """For each value the share of the reference rows up to it; None if they do not follow from the ranks.

        They do if all values are stored. A rank is the mean of the share below a value, which is then the share up to
        the value before it, and the share up to the value itself. So each share is twice the rank less the share
        before it. That the last one is 1, and none is below the one before it, shows that all values are stored.
        """
        signs = np.where(np.arange(len(self.ranks)) % 2 == 0, 1.0, -1.0)
        shares = signs * np.cumsum(signs * 2 * self.ranks)
        is_rising = bool(np.all(np.diff(shares, prepend=0.0) >= -_ROUNDING_OF_SHARES))
        return shares if is_rising and abs(shares[-1] - 1) <= _ROUNDING_OF_SHARES else None

    @property
    def is_consistent(self) -> bool:
        """Are values and ranks increasing, and of one length that is not 0?"""
        has_rows = len(self.values) == len(self.ranks) > 0
        return has_rows and bool(np.all(np.diff(self.values) > 0) and np.all(np.diff(self.ranks) >= 0))


def rank_basis(ranks: np.ndarray) -> np.ndarray:
    """Return smooth functions of ranks in [0, 1]: shape (n, 5).

    The columns are the rank itself, three terms of a natural cubic spline (cubic between the knots, straight below the
    first and above the last) and the normal score, which tells the highest ranks apart, where confidence matters most.
    """
    last_knot = _KNOTS[-1]
    cubes_above = np.maximum(ranks[:, None] - _KNOTS, 0.0) ** 3
    terms = (cubes_above[:, :-1] - cubes_above[:, -1:]) / (last_knot - _KNOTS[:-1])
    normal_score = ndtri(np.clip(ranks, _OUTERMOST_RANK, 1 - _OUTERMOST_RANK))
    return np.column_stack([ranks, terms[:, :-1] - terms[:, -1:], normal_score])
