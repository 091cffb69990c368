r"""Limits that rest on few errors, or on few right samples.

AUROC is the mean, over the errors, of their placements: the share of right samples above each one. With k errors it is
known from k draws, however many right samples there are, and with one error no spread is seen at all. The same holds
with the two kinds exchanged. So below `FEW` draws of a kind

- the variance gets what too few draws hide (`variance_beyond_seen`): each kind's own variance is shrunk towards the
  largest one that its range allows, as if two more draws had shown that one;
- limits are quantiles of a Beta law (shares) or of a Gamma law (means of rank weights), not of a normal one;
- the number is marked with how few it rests on (`note_on_draws`).

All of this fades out until there are twice `FEW` draws, so that no limit jumps with one more error.
"""

from __future__ import annotations

import math
from typing import Any

FEW = 8.0  # draws of a kind up to which limits allow in full for what so few cannot show
# effective errors for a verdict on a difference; with ten, models of 20 confidence levels are told apart too often
ENOUGH = 11.0


def share_for_few(draws: float) -> float:
    """Share, from 0 to 1, of the allowance for few draws that applies: 1 up to FEW draws, 0 from twice as many.

    Also 0 without any draw, where other rules apply.
    """
    if draws <= 0:
        return 0.0
    return min(1.0, max(0.0, 2 * FEW / draws - 1))


def variance_beyond_seen(largest_of_one_draw: float, seen: float, draws: float) -> float:
    """What a kind of sample adds to the variance of an estimate beyond the part `seen`, which its few draws show.

    `largest_of_one_draw` is the variance of one draw at its largest. Two draws of that size are averaged with the k
    that were seen: k / (k + 1) of the part seen, and 2 largest / (k (k + 1)).
    """
    if draws <= 0:
        return 0.0
    return share_for_few(draws) * max(2 * largest_of_one_draw / draws - seen, 0.0) / (draws + 1)


def beta_limits(share: Any, draws: Any, level: float, pseudo: float = 1.0) -> tuple[Any, Any]:
    """Lower and upper limit of a share seen in so many draws; the number of draws need not be whole.

    `pseudo` counts are added on the side that a limit moves towards, and 1 - `pseudo` on the other: 1 gives the exact
    limits (Clopper and Pearson); 0.5 gives those of Jeffreys, which are narrower and hold on average. `level` is the
    two-sided confidence level, such as 0.95. `share`, from 0 to 1, and `draws`, at least 0, are numbers or arrays.
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2  # the probability that each limit leaves out
    hits = share * draws
    misses = (1 - share) * draws
    # a Beta law needs counts above 0, also where there are no hits or no misses
    opposite_pseudo = max(1 - pseudo, 1e-12)
    low = betaincinv(hits + opposite_pseudo, misses + pseudo, tail)
    high = betaincinv(hits + pseudo, misses + opposite_pseudo, 1 - tail)
    return low, high


def gamma_limits(mean: float, draws: float, level: float, added: float = 0.0) -> tuple[float, float]:
    """Lower and upper limit of a mean of so many positive draws that vary as much as their mean.

    `added` is added to the mean for the upper limit. `level` is two-sided, such as 0.95.
    """
    from scipy.special import gammaincinv

    low_quantile = float(gammaincinv(draws, (1 - level) / 2)) / draws  # of a mean of 1
    return mean * low_quantile, (mean + added) / max(low_quantile, 1e-300)


def mix_limit(few_limit: float, usual_limit: float, share: float) -> float:
    """A limit between the one for few draws and the usual one; `share`, from 0 to 1, is how much the first counts.

    With a share of 0 the limit for few draws may be NaN.
    """
    return usual_limit if share == 0 else share * few_limit + (1 - share) * usual_limit


def note_on_draws(draws: float, count: float, kind: str = "errors") -> str:
    """A note on how few errors (or right samples) a number rests on; empty where they are enough for a verdict."""
    if draws >= ENOUGH:
        return ""
    # rounded down, so that 10.97 does not read as the 11 that are enough
    tenths = math.floor(10 * draws + 1e-9)
    return f"rests on about {tenths / 10:.1f} effective {kind} ({count:.0f} in all)"
