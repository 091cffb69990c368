r"""Closed-form limits of single points of the curve: risk at a coverage, coverage at a risk, FPR at a TPR.

A point depends on the ranking through the place of its cut, so its influence holds the local risk m there. For
the selective risk R at coverage c, with 1(i) saying that sample i is accepted,

.. math:: \mathrm{IF}_i = 1(i)\,(l_i - m)/c + m - R.

m is read in a window on either side of the cut, and the two squares are averaged: at a cliff either may be right.
Limits of a 0/1 loss are those of a proportion (Jeffreys) from as many draws as have this variance; of other
losses, Student's on the log scale. Where a block of equals is wider than the error of the cut, the threshold is
the block's, whatever the quantile does: then the limits at the blocks that the cut may fall into are joined.

What an engine carries: `Readings` at positions that depend on the totals alone (`positions`), that is, the sums
over all samples down to the first row that reaches each position, that row included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from abstain.inference.limits import degrees_of_freedom, student_quantile
from abstain.metrics import few_draws as few
from abstain.metrics.summaries import Scale, unseen

CUTS = 512
_Z = 1.959963984540054
FEW_BEYOND = (
    2.5  # right samples beyond the cut of an FPR, up to which its limits are those of order statistics
)


class Readings(NamedTuple):
    """Sums from the top down to a row, that row included, for each position; `m` is the mass of the row itself.

    `squares` holds w^2 l^j (j <= 2), `fourths` w^4 l^j (j <= 4), each as (j, position).
    """

    m: np.ndarray
    N: np.ndarray
    S: np.ndarray
    squares: np.ndarray
    fourths: np.ndarray

    def at(self, index: Any) -> Readings:
        """Some of the positions."""
        return Readings(*(x[..., index] for x in self))

    def each(self) -> list[Readings]:
        """The five readings of `positions`: at the cut, at its windows, at the limits of its error."""
        return [Readings(*(x[..., i, :] for x in self)) for i in range(5)]


class Whole(NamedTuple):
    """The data set: its mass, abstained included, and the sums over all of w^2 and w^4; number of units."""

    mass: float
    w2: float
    w4: float
    units: int
    zero_one: bool
    negative: bool = False


def positions(share: np.ndarray, mass: float, w2: float, units: int) -> np.ndarray:
    """Where to read for the cut at each share of a mass, from the top: the cut, its windows, its error; (5, shares).

    Windows are as wide as the standard error of the mass above a quantile, and of five samples at least.
    """
    cut, sd = share * mass, np.sqrt(share * (1 - share) * w2)
    h = np.maximum(sd, 5 * mass / units)
    return np.stack([cut, cut - h, cut + h, cut - _Z * sd, cut + _Z * sd])


def positions_along_right(tpr: np.ndarray, mass: float, w2: float, units: int) -> np.ndarray:
    """`positions` along the right samples; with few of them beyond the cut, its error is that of order statistics.

    How many of m right samples lie above the true cut is binomial. With few, the first and last place where that cut
    may stand are the binomial's quantiles; beyond the last right sample the limit is open, and all errors count.
    """
    from scipy.special import bdtrik

    at = positions(tpr, mass, w2, units)
    if not at.size or w2 <= 0:
        return at
    draws = mass**2 / w2
    few_beyond = draws * np.minimum(tpr, 1 - tpr) < 2 * FEW_BEYOND
    fewest, most = (np.ceil(bdtrik(tail, draws, tpr)) for tail in (0.025, 0.975))
    at[3] = np.where(few_beyond, fewest / draws * mass, at[3])
    at[4] = np.where(few_beyond, (most + 1) / draws * mass, at[4])
    return at


def coverages() -> np.ndarray:
    """The cuts, as shares of the answered samples, on which a coverage at a risk is looked for."""
    return np.arange(1, CUTS + 1) / CUTS


def risk_limits(
    found: Readings, share: np.ndarray, whole: Whole, level: float, more: float = 1.0, hull: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Limits of the selective risk at each cut, and whether the cut is a heavy block; `found` at `positions`.

    `more` multiplies the variance: what clusters add to it. `hull`: a cut into a heavy block may fall into its
    neighbours; a threshold, which is the block's, does not.
    """
    cut, above, below, first, last = found.each()
    low, high = _limits(cut, (_local(cut, above), _local(cut, below)), whole, level, more)
    tied = cut.m > np.maximum(np.sqrt(share * (1 - share) * whole.w2), 1.5 * whole.mass / whole.units)
    if tied.any():
        blocks = (cut, first, last) if hull else (cut,)
        ends = [_limits(block, (block.S / block.N,), whole, level, more) for block in blocks]
        low = np.where(tied, np.min([e[0] for e in ends], axis=0), low)
        high = np.where(tied, np.max([e[1] for e in ends], axis=0), high)
    return low, high, tied


def _local(cut: Readings, near: Readings) -> np.ndarray:
    """Mean loss between two readings."""
    gap = cut.N - near.N
    return np.where(gap == 0, cut.S / cut.N, (cut.S - near.S) / np.where(gap == 0, 1.0, gap))


def _power(p: int, cut: Readings, local: np.ndarray, whole: Whole) -> np.ndarray:
    """Sum of v^p over all samples, v = w (1(accepted) (l - m) / N + (m - R) / W)."""
    sums, total = (cut.squares, whole.w2) if p == 2 else (cut.fourths, whole.w4)
    away = (local - cut.S / cut.N) / whole.mass
    const, slope = away - local / cut.N, 1 / cut.N
    inside = sum(math.comb(p, j) * const ** (p - j) * slope**j * sums[j] for j in range(p + 1))
    return np.maximum(inside + away**p * (total - sums[0]), 0.0)


def _limits(
    cut: Readings, local: Sequence[np.ndarray], whole: Whole, level: float, more: float
) -> tuple[np.ndarray, np.ndarray]:
    """Limits of the risk above a cut, the powers of its influences averaged over what its local risk may be."""
    risk = cut.S / cut.N
    second, fourth = (
        more ** (p // 2) * np.mean([_power(p, cut, m, whole) for m in local], axis=0) for p in (2, 4)
    )
    if whole.zero_one:
        size = _draws(risk, second, fourth, whole, level)
        return proportion(risk, size, cut.N**2 / cut.squares[0], level)
    scale = Scale("log") if not whole.negative else Scale("normal")
    step = student_quantile(_freedom(second, fourth, whole), level) * np.sqrt(second)
    some = scale.holds(risk)  # a risk of 0 has no logarithm
    steps = step * scale.rate(np.where(some, risk, 1.0))
    low, high = (np.where(some, scale.shifted(risk, sign * steps), risk + sign * step) for sign in (-1, 1))
    return (low if whole.negative else np.maximum(low, 0.0)), high


def proportion(
    share: np.ndarray, size: np.ndarray, draws: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Jeffreys limits of a proportion seen in `size` draws; exact one-sided ones where it is 0 or 1 of `draws`."""
    tail = (1 - level) / 2
    share = np.where(np.abs(share - 0.5) > 0.5 - 1e-12, np.round(share), share)  # 0 or 1, but for rounding
    within = few.beta_limits(share, size, level, pseudo=0.5)
    far = unseen(draws, 1 - tail)
    none, every = share < 1e-12, share > 1 - 1e-12  # sums of weights round
    low = np.where(none, 0.0, np.where(every, 1 - far, within[0]))
    high = np.where(every, 1.0, np.where(none, far, within[1]))
    return np.clip(np.minimum(low, share), 0.0, 1.0), np.clip(np.maximum(high, share), 0.0, 1.0)


def pointwise_level(level: float, span: float, cuts: int) -> float:
    r"""Level of pointwise limits that hold at all of so many cuts together with probability `level`.

    The mean loss of the first N samples, standardised, is Brownian motion over the root of its time: stationary in
    ln N. Its largest absolute value on a span L = ln(N_last / N_first) exceeds q with probability

    .. math:: 2\,\Phi(-q) + L\,q\,\varphi(q)

    up to smaller terms. Few cuts are better served by Bonferroni's bound.
    """
    from scipy.special import ndtr

    low, high = 0.0, 40.0
    for _ in range(60):
        q = (low + high) / 2
        exceeds = 2 * ndtr(-q) + span * q * math.exp(-q * q / 2) / math.sqrt(2 * math.pi)
        low, high = (q, high) if exceeds > 1 - level else (low, q)
    return 1 - max((1 - level) / cuts, 2 * float(ndtr(-high)))


def coverage_limits(
    readings: Readings, whole: Whole, risk: float, level: float, design_effect: float = 1.0
) -> tuple[float, float]:
    """Limits of the largest coverage within the risk, as a share of the answered samples.

    They invert the limits of the selective risk at the cuts of `coverages`: the lower limit is the largest coverage
    whose upper limit of the risk is within `risk`, the upper limit the largest one whose lower limit is.
    `design_effect` multiplies the variance, for clusters. `whole` describes the answered samples alone.
    """
    risk_low, risk_high, tied = risk_limits(readings, coverages(), whole, level, design_effect, hull=False)
    reached = readings.N[0] / whole.mass
    reached = np.where(reached > 1 - 1e-12, 1.0, reached)  # sums of weights round
    size = np.asarray(whole.mass**2 / whole.w2 / design_effect)
    return (
        _largest_coverage(risk_high, risk, reached, tied, size, level, upper=False),
        _largest_coverage(risk_low, risk, reached, tied, size, level, upper=True),
    )


def _largest_coverage(
    risk_limit: np.ndarray,
    risk: float,
    reached: np.ndarray,
    tied: np.ndarray,
    size: np.ndarray,
    level: float,
    upper: bool,
) -> float:
    """The last cut whose limit is within the risk, refined between cuts; `reached` is the coverage at each cut.

    The mass above a tied block is a proportion of `size` draws, so its own limit is taken.
    """
    within = np.flatnonzero(risk_limit <= risk)
    if not len(within):  # what lies above all that was seen may still be within the risk
        return float(unseen(size, (1 + level) / 2)) if upper else 0.0
    k = int(within[-1])
    end = float(reached[k])
    if tied[k] and end < 1:
        return float(proportion(np.asarray(end), size, size, level)[upper])
    if k + 1 < len(risk_limit) and not tied[k + 1]:
        part = (risk - risk_limit[k]) / (risk_limit[k + 1] - risk_limit[k])
        end += part * float(reached[k + 1] - reached[k])
    return min(end, 1.0)


def scaled_by_answered_share(
    value: float, limits: tuple[float, float], answered: float, draws: float, level: float
) -> tuple[float, float]:
    """Limits of a coverage of all samples from those of the coverage `value` among the answered.

    The answered share is a proportion of `draws` draws. How many answer and how the answered are ranked vary
    independently, so the distances to the two pairs of limits add up as squares.
    """
    share_limits = proportion(np.asarray(answered), np.asarray(draws), np.asarray(draws), level)
    distances = [
        math.hypot(answered * (limit - value), value * (float(share_limit) - answered))
        for limit, share_limit in zip(limits, share_limits)
    ]
    return answered * value - distances[0], answered * value + distances[1]


def fpr_limits(
    found: Readings, tpr: float, whole: Whole, errors: Sequence[float], level: float, more: float = 1.0
) -> tuple[float, float]:
    r"""Limits of the share F of errors accepted where a share `tpr` of the right ones is.

    .. math:: v_i = w_i (1(i) - F)/E \text{ for errors}, \qquad -\rho\, w_i (1(i) - A)/H \text{ for the rest},

    with E and H the masses of the two kinds, A the share of the right ones accepted and rho the errors per right
    sample at the cut, in shares of either kind. `found`: at `positions` of the right; `errors`: sums of w, w^2, w^4.
    """
    cut, above, below, first, last = found.each()
    E, E2, E4 = errors
    H, H2, H4 = whole.mass - E, whole.w2 - E2, whole.w4 - E4
    tied = cut.m[0] > max(math.sqrt(tpr * (1 - tpr) * H2), 1.5 * whole.mass / whole.units)

    def rho(near: Readings) -> np.ndarray:
        right = (cut.N - cut.S) - (near.N - near.S)
        none = np.abs(right) <= 1e-12 * H  # sums of weights round
        return np.where(none, 0.0, (cut.S - near.S) / E * H / np.where(none, 1.0, right))

    def power(p: int, at: Readings) -> Any:
        """Sum of v^p; a threshold that is a block's does not move, and the rest do nothing."""
        sums, wrong, right = (at.squares, E2, H2) if p == 2 else (at.fourths, E4, H4)
        F, A = at.S / E, (at.N - at.S) / H
        own = (1 - F) ** p * sums[1] + F**p * (wrong - sums[1])
        rest = (1 - A) ** p * (sums[0] - sums[1]) + A**p * (right - sums[0] + sums[1])
        moved = 0.0 if tied else (rho(above) ** p + rho(below) ** p) / 2
        return more ** (p // 2) * (own / E**p + moved * rest / H**p)

    error_draws = np.asarray(E**2 / E2 / more)
    limits = []
    for at in (cut, first, last) if tied else (cut,):
        size = _draws(at.S / E, power(2, at), power(4, at), whole, level)
        limits.append(proportion(at.S / E, size, error_draws, level))
    low = float(min(x[0][0] for x in limits))
    high = float(max(x[1][0] for x in limits))
    beyond = H**2 / H2 * min(tpr, 1 - tpr)
    share = min(1.0, max(0.0, 2 - beyond / FEW_BEYOND))
    if share > 0:
        # the cut stands between two right samples, at each of which the errors above are a plain proportion
        few_low = float(proportion(first.S / E, error_draws, error_draws, level)[0][0])
        few_high = float(proportion(last.S / E, error_draws, error_draws, level)[1][0])
        low = few.mixed(min(few_low, low), low, share)
        high = few.mixed(max(few_high, high), high, share)
    return low, high


def _draws(
    share: np.ndarray, second: np.ndarray, fourth: np.ndarray, whole: Whole, level: float
) -> np.ndarray:
    """Draws of a proportion with this variance; fewer where weights make the variance itself uncertain."""
    size = share * (1 - share) / np.where(second > 0, second, 1.0)
    if whole.w2 == whole.mass:
        return size
    return (
        size
        * (student_quantile(math.inf, level) / student_quantile(_freedom(second, fourth, whole), level)) ** 2
    )


def _freedom(second: np.ndarray, fourth: np.ndarray, whole: Whole) -> Any:
    return degrees_of_freedom(second, fourth - second**2 / whole.units, whole.units)
