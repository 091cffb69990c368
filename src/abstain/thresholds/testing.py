r"""What a promise rests on: p-values of "the mean loss of the accepted is above r", the order in which thresholds are
tested, and exact limits of proportions.

Losses are scaled to [0, 1]. Everything about the order of testing is fixed before a loss is seen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain.core.sorting import RankedSamples

# p-values for "the mean loss of the accepted is above r" ------------------------------------------
#
# Small when the losses seen are too low for that. Counts and sums come as arrays; a count of 0 proves nothing and has
# p-value 1.

_CHUNK = 1 << 15  # samples at a time: temporaries stay in cache
_ROUNDING = 1e-9  # a sum of floats that should be a whole number may lie this far (relatively) above it


def binomial(errors: np.ndarray, count: np.ndarray, risk: float) -> np.ndarray:
    r"""Exact for a 0/1 loss on whole counts: :math:`P(\mathrm{Bin}(N, r) \le \text{errors})`.

    >>> binomial(np.asarray([0, 1]), np.asarray([2, 2]), 0.5).tolist()
    [0.25, 0.75]
    """
    from scipy.special import bdtr

    trials = np.maximum(count, 1).astype(np.int64)
    return np.where(count > 0, bdtr(errors.astype(np.float64), trials, risk), 1.0)


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


def betting(ranked: RankedSamples, count: np.ndarray, risk: float, top_weight: float = 1.0) -> np.ndarray:
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
    # to which count a stake is looked at: not far for large ones
    last = np.zeros(len(stakes), dtype=np.int64)
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
    ranked: RankedSamples, count: np.ndarray, risk: float, stakes: np.ndarray, last: np.ndarray
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


def mean_above(terms: np.ndarray, risk: float) -> np.ndarray:
    r"""For "the mean of the terms is above 0" along the last axis, terms from -r to 1 - r: 1 / wealth of a gambler.

    .. math:: p = 1 / \sum_j 2^{-j} \prod_c (1 - \lambda_j x_c), \qquad \lambda_j = 0.98 \cdot 2^{1-j} / (1 - r)

    Half of the stake on the boldest bet, a quarter on one half as bold, and so on: where the terms vary little, as
    those of clusters do, bold bets are right; where they vary much there are more terms, and the shares matter less.
    """
    if risk >= 1:
        return np.zeros(terms.shape[:-1])  # no loss can be above its bound
    logs = np.stack([np.log1p(-stake * terms).sum(axis=-1) for stake in bold_stakes(risk)], axis=-1)
    wealth = np.exp(np.minimum(logs, 700.0)) @ 0.5 ** np.arange(1, 9)
    return np.minimum(1.0, 1.0 / np.maximum(wealth, 1e-300))


def bold_stakes(risk: float) -> np.ndarray:
    """From nearly all that can be staked on terms of at most 1 - r, each half of the one before."""
    return np.asarray(0.98 / (1 - risk) * 0.5 ** np.arange(8))


def bounded(ranked: RankedSamples, count: np.ndarray, risk: float) -> np.ndarray:
    """Twice the smaller of Hoeffding-Bentkus and betting: which is sharper depends on the variance."""
    sums = ranked.accepted_loss[count]
    both = np.minimum(hoeffding_bentkus(sums, count, risk), betting(ranked, count, risk))
    return np.minimum(1.0, 2 * both)


# sequence -----------------------------------------------------------------------------------------
#
# The order of testing: which thresholds are looked at, in which order, at which level. Nothing here sees a loss.
#
# **What is tested.** At rank k the threshold is put just above the (k+1)-th largest confidence :math:`\tau`, so that
# the accepted are the samples with :math:`g > \tau`, whole blocks of equals. Given :math:`\tau` and their number N,
# they are N independent draws from the population with :math:`g > \tau`; for a 0/1 loss their errors are binomial with
# the risk :math:`R(\tau)` of exactly the rule that is deployed. The null hypothesis at this rank is
# :math:`R(\tau) > r^*`, and a p-value is known for it.
#
# **In which order.** The ranks are fixed by n, r*, delta alone. They are visited from few accepted to many. Each rank j
# holds a weight :math:`w_j \ge 0`, :math:`\sum_j w_j = \delta`, and is tested at
#
# .. math:: \alpha_j = w_j + \alpha_{j-1}\,1(\text{rank } j-1 \text{ passed}),
#
# the fallback procedure: who passes hands the level on, who fails loses it. Weights sit on a few *starts*. A walk that
# began at the first start and never failed has all of delta when it comes to the end; one that began too early, where
# too few samples are accepted to prove anything, costs only its own share.
#
# **Why the risk is at most r\* with probability 1 - delta, for any distribution, monotone risk or not, ties or not.**
# Break ties at random for the argument (not in the computation), so that the risk above t, R(t), is continuous in t.
# Cut the axis where R crosses r*. Between two crossings the mean loss is exactly r*, and from a crossing down to any
# point where R > r* it is above r*. Let the counts in these strata be given. They determine at which ranks the null
# hypothesis is true, hence, walking down, at which rank a walk first meets a true one and with which level it comes
# there at most. There the accepted samples are strata of mean r* and a last piece of mean above r*, so their losses are
# stochastically at least those of independent draws of mean r*, and the p-value is at most alpha with probability at
# most alpha. (Where a block of equals straddles a crossing, what is further known of the counts, that the walk did not
# meet the hypothesis earlier, only moves mass towards the riskier piece.) The levels of the first true hypotheses that
# successive walks can meet come from disjoint sets of weights, so they add up to at most delta: the union bound.
#
# **Starts inside a block.** A rank within a large block of equals accepts only what lies above the block, perhaps
# nothing. A set too small to pass even without any loss, :math:`(1-r^*)^N > \alpha_j`, is not tested but skipped, and
# its level goes on to the block itself. For the block h that is reached, :math:`P(p_h \le \alpha) \le \alpha` whatever
# lies above it; the one thing to show is that this and the chance to pass above h, when enough samples lie there, do
# not add up to more than :math:`\alpha` where both hypotheses are true. If the risk above h is high, nothing passes
# there; if it is near r*, passing at h does not depend on how many lie above. Evaluated exactly over a grid of all the
# numbers involved, the sum never exceeded :math:`\alpha` (the tests repeat this).


_STARTS = 6  # more starts find more kinds of risk profile, each with less level
_FIRST = 1.5  # times the least number of samples that can prove anything at the start's own level
_LAST = 0.5  # share of all samples where the last start stands
_STEP = 0.02  # ranks grow by this factor ...
_FINE = 6.0  # ... but by no more than this many square roots: the resolution follows the precision


def least_samples(risk: float, level: float) -> float:
    """How many samples without any loss prove a mean below `risk` at this level: (1 - r)^k <= level."""
    if risk <= 0:
        return math.inf
    return 1.0 if risk >= 1 else math.log(level) / math.log1p(-risk)


def plan(n: int, risk: float, delta: float, most: int = _STARTS) -> tuple[np.ndarray, np.ndarray]:
    """Ranks to visit of n samples, rising, and the weight each holds: a few starts, then steps of a fiftieth.

    >>> ranks, weights = plan(1000, 0.05, 0.05)
    >>> ranks[:3].tolist(), ranks[-1].item(), round(weights.sum().item(), 12)
    ([141, 143, 145], 1000, 0.05)
    """
    least = least_samples(risk, delta)
    if least > n:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    starts = _starts(n, risk, delta, least, most)
    ranks = [starts[0]]
    while ranks[-1] < n:
        k = ranks[-1]
        ranks.append(min(n, k + max(1, int(min(_STEP * k, _FINE * math.sqrt(k))))))
    place = np.searchsorted(ranks, starts)
    return np.asarray(ranks), np.bincount(place, minlength=len(ranks)) * (delta / len(starts))


def _starts(n: int, risk: float, delta: float, least: float, most: int) -> list[int]:
    """Evenly spaced on the logarithmic scale; fewer where there is little room."""
    room = n / least
    count = max(1, min(most, int(math.log(room) / math.log(1.5))))
    if count == 1:
        return [min(n, math.ceil(1.3 * least))]
    first = min(n, _FIRST * least_samples(risk, delta / count))
    return [min(n, math.ceil(s)) for s in np.geomspace(first, max(first, _LAST * n), count)]


class Walk(NamedTuple):
    """For each rank: its level when it was tested, and whether it passed."""

    level: np.ndarray
    passed: np.ndarray


def walk(p_values: np.ndarray, weights: np.ndarray, least_p: np.ndarray | None = None) -> Walk:
    """The fallback procedure along the last axis; where `least_p`, the smallest p possible, cannot pass: skipped.

    >>> walk(np.asarray([0.01, 0.04, 0.2, 0.03]), np.asarray([0.03, 0.0, 0.0, 0.02])).passed.tolist()
    [True, False, False, False]
    >>> walk(np.asarray([0.01, 0.02, 0.02, 0.04]), np.asarray([0.03, 0.0, 0.0, 0.02])).level.tolist()
    [0.03, 0.03, 0.03, 0.05]
    >>> walk(np.asarray([1.0, 0.02]), np.asarray([0.03, 0.0]), np.asarray([1.0, 0.0])).passed.tolist()
    [False, True]
    """
    least_p = np.zeros_like(p_values) if least_p is None else least_p
    alone = p_values.ndim == 1  # then plain numbers are much faster than arrays of none
    columns = [x.tolist() if alone else np.moveaxis(x, -1, 0) for x in (p_values, least_p)]
    held, level, passed = 0.0, [], []
    for weight, p, least in zip(weights.tolist(), *columns):
        held = held + weight
        ok = (p <= held) & (held > 0)
        level.append(held)
        passed.append(ok)
        held = held * (ok | (least > held))
    if alone:
        return Walk(np.asarray(level, dtype=np.float64), np.asarray(passed, dtype=bool))
    wide = p_values.shape[:-1]
    return Walk(*(np.stack([np.broadcast_to(x, wide) for x in rows], axis=-1) for rows in (level, passed)))


def coverage_p_value(accepted: np.ndarray, n: int, coverage: float) -> np.ndarray:
    """Of "a threshold at the k-th largest confidence of n accepts a smaller share": P(Beta(k, n - k + 1) <= c)."""
    from scipy.special import betainc

    return np.asarray(betainc(accepted, np.maximum(n - accepted + 1, 1), coverage))


def drift_p_value(gap: float, n: float, m: float) -> float:
    """Kolmogorov-Smirnov (asymptotic law) of "n and m samples come from one law", by the largest gap of shares."""
    from scipy.special import kolmogorov

    return float(kolmogorov(math.sqrt(n * m / (n + m)) * gap))


def least_p_value(count: np.ndarray, risk: float) -> np.ndarray:
    """The p-value of that many samples without any loss: (1 - r)^N."""
    return np.asarray((1 - risk) ** count) if risk < 1 else np.where(count > 0, 0.0, 1.0)


# Exact intervals of proportions, and a band that holds for all thresholds at once -----------------


def clopper_pearson(hits: Array, trials: Array, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    r"""Exact two-sided interval of a proportion; [0, 1] where there are no trials.

    .. math:: [B^{-1}_{\alpha/2}(x, n - x + 1),\; B^{-1}_{1-\alpha/2}(x + 1, n - x)], \qquad \alpha = 1 - \mathrm{level}

    with the quantiles of the beta distribution.

    Parameters
    ----------
    hits, trials : array or int
        Successes, and out of how many.
    level : float in (0, 1)
        The probability with which the interval holds the true proportion, at least.

    Returns
    -------
    low, high : ndarray

    Examples
    --------
    >>> low, high = clopper_pearson(0, 10)
    >>> round(low.item(), 4), round(high.item(), 4)
    (0.0, 0.3085)
    """
    from scipy.special import betaincinv

    x, n = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    tail = (1 - level) / 2
    inside_low, inside_high = x > 0, x < n
    low = betaincinv(np.where(inside_low, x, 1.0), np.where(inside_low, n - x + 1, 1.0), tail)
    high = betaincinv(np.where(inside_high, x + 1, 1.0), np.where(inside_high, n - x, 1.0), 1 - tail)
    return np.where(inside_low, low, 0.0), np.where(inside_high, high, 1.0)


def upper_limit(errors: float, trials: int, delta: float) -> float:
    """Exact one-sided upper limit of an error rate."""
    from scipy.special import betaincinv

    return 1.0 if errors >= trials else float(betaincinv(errors + 1, trials - errors, 1 - delta))


def coverage_band(coverage: float, n: float, delta: float) -> tuple[float, float]:
    """Dvoretzky-Kiefer-Wolfowitz: all thresholds at once, so a threshold chosen on the same data is covered."""
    half = math.sqrt(math.log(2 / delta) / (2 * n))
    return max(0.0, coverage - half), min(1.0, coverage + half)
