r"""p-values for "the mean loss of the accepted is above r": small when the losses seen are too low for that.

Losses are scaled to [0, 1]. Counts and sums come as arrays; a count of 0 proves nothing and has p-value 1.
"""

from __future__ import annotations

import math

import numpy as np

from abstain.core.ranked import Ranked

_CHUNK = 1 << 15  # samples at a time: temporaries stay in cache
_ROUNDING = 1e-9  # a sum of floats that should be a whole number may lie this far (relatively) above it


def binomial(errors: np.ndarray, count: np.ndarray, risk: float) -> np.ndarray:
    r"""Exact for a 0/1 loss on whole counts: :math:`P(\mathrm{Bin}(N, r) \le \text{errors})`.

    >>> binomial(np.asarray([0, 1]), np.asarray([2, 2]), 0.5).tolist()
    [0.25, 0.75]
    """
    from scipy.special import bdtr

    some = count > 0
    return np.where(
        some, bdtr(errors.astype(np.float64), np.where(some, count, 1).astype(np.int64), risk), 1.0
    )


def hoeffding_bentkus(loss_sum: np.ndarray, count: np.ndarray, risk: float) -> np.ndarray:
    r"""For any loss in [0, 1]: the smaller of two tail bounds, each valid on its own for every data set at once.

    .. math:: \min\{ e^{-N\,\mathrm{kl}(\hat R, r)},\; e\,P(\mathrm{Bin}(N, r) \le \lceil N \hat R \rceil) \}

    Both are bounds on one tail probability of the same sum, so taking the smaller costs nothing.
    """
    some = count > 0
    k = np.where(some, count, 1)
    mean = np.minimum(loss_sum / k, risk)
    inside = np.where(mean > 0, mean, 1.0)
    kl = np.where(mean > 0, mean * np.log(inside / risk), 0.0) + (1 - mean) * np.log((1 - mean) / (1 - risk))
    whole = np.ceil(loss_sum * (1 - _ROUNDING))
    bentkus = np.e * binomial(whole, k, risk)
    return np.where(some, np.minimum(1.0, np.minimum(np.exp(-k * kl), bentkus)), 1.0)


def betting(ranked: Ranked, count: np.ndarray, risk: float, top_weight: float = 1.0) -> np.ndarray:
    r"""1 / wealth of a gambler who bets on low losses at fixed odds: sharper where the losses vary little.

    .. math:: p_N = 1 \Big/ \frac{1}{|\Lambda|}\sum_{\lambda\in\Lambda}\prod_{i \le N}(1 + \lambda w_i(r - \ell_i))

    The product has mean at most 1 when the (weighted) mean loss is r or more, whatever the law of the losses. The
    stakes are fixed by the counts alone. With importance weights this stays true as long as no weight of the whole
    population is above `top_weight`.
    """
    if not len(count):
        return np.zeros(0)
    stakes = ladder(ranked.n, risk, top_weight)
    picked = _picked(count, risk, stakes, top_weight)
    last = np.zeros(
        len(stakes), dtype=np.int64
    )  # up to which count a stake is looked at: large ones not for long
    np.maximum.at(last, picked, np.asarray(count)[:, None])
    return wealth_p(log_wealth(ranked, count, risk, stakes, last), count, risk, stakes, top_weight)


def ladder(n: int, risk: float, top_weight: float = 1.0) -> np.ndarray:
    """Stakes, rising by factors of two up to nearly all that can be staked."""
    largest = 0.95 / ((1 - risk) * top_weight)
    smallest = float(_least_stake(n, risk, top_weight))
    steps = math.ceil(math.log2(max(largest / smallest, 1.0)))
    return np.asarray(largest * 2.0 ** -np.arange(steps, -1.0, -1.0))


def _least_stake(count: np.ndarray | int, risk: float, top_weight: float) -> np.ndarray:
    """What would be right for a loss of the largest variance; smaller variances want up to eight times as much."""
    return np.asarray(1.75 / (np.sqrt(np.maximum(count, 1)) * np.sqrt(risk * (1 - risk)) * top_weight))


def wealth_p(
    logs: np.ndarray, count: np.ndarray, risk: float, stakes: np.ndarray, top_weight: float = 1.0
) -> np.ndarray:
    """From the log wealth of every stake, (..., counts, stakes), to p-values: four stakes that suit the count."""
    picked = _picked(count, risk, stakes, top_weight)
    wealth = np.exp(np.minimum(np.take_along_axis(logs, picked, axis=-1), 700.0)).mean(axis=-1)
    return np.where(count > 0, np.minimum(1.0, 1.0 / np.maximum(wealth, 1e-300)), 1.0)


def _picked(count: np.ndarray, risk: float, stakes: np.ndarray, top_weight: float) -> np.ndarray:
    """Which four stakes each count looks at; repeated at the end of the ladder, which is still a mean."""
    first = np.minimum(np.searchsorted(stakes, _least_stake(count, risk, top_weight)), len(stakes) - 1)
    return np.minimum(first[..., None] + np.arange(4), len(stakes) - 1)


def log_wealth(
    ranked: Ranked, count: np.ndarray, risk: float, stakes: np.ndarray, last: np.ndarray
) -> np.ndarray:
    """Sum of log(1 + stake * w (r - l)) over the first `count` samples, for rising counts; (counts, stakes).

    A stake is followed up to the count `last`; what lies beyond is not filled in.
    """
    total = np.zeros((len(count), len(stakes)))
    so_far = np.zeros(len(stakes))
    for a in range(0, int(count[-1]), _CHUNK):
        b = min(a + _CHUNK, int(count[-1]))
        rows = slice(*np.searchsorted(count, [a, b], side="right"))  # those with a < count <= b
        gain = risk - ranked.loss[a:b].astype(np.float64)
        if ranked.weight is not None:
            gain *= ranked.weight[a:b]
        ends = np.unique(np.append(count[rows] - a, b - a))
        starts, place = np.append(0, ends[:-1]), np.searchsorted(ends, count[rows] - a)
        for j in np.flatnonzero(last > a):
            path = so_far[j] + np.cumsum(np.add.reduceat(np.log1p(stakes[j] * gain), starts))
            total[rows, j] = path[place]
            so_far[j] = path[-1]
    return total


def bounded(ranked: Ranked, count: np.ndarray, risk: float) -> np.ndarray:
    """Twice the smaller of Hoeffding-Bentkus and betting: which is sharper depends on the variance."""
    sums = ranked.cum_loss[count]
    both = np.minimum(hoeffding_bentkus(sums, count, risk), betting(ranked, count, risk))
    return np.minimum(1.0, 2 * both)
