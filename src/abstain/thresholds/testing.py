r"""The statistics behind a promise: p-values, the order in which thresholds are tested, exact limits of proportions.

The p-values are those of "the mean loss of the accepted samples is above r". Losses are scaled to [0, 1]. Everything
about the order of testing is fixed before a loss is seen.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain.core.sorting import RankedSamples

# p-values for "the mean loss of the accepted is above r" ------------------------------------------
#
# They are small when the losses seen are too low for that. Counts and sums come as arrays; a count of 0 proves nothing
# and has p-value 1.

CHUNK = 1 << 15  # samples at a time: temporaries stay in cache
ROUNDING = 1e-9  # a sum of floats that should be a whole number may lie this far (relatively) above it
STAKES_PER_COUNT = 4  # bets whose wealth is averaged for one p-value
LARGEST_LOG_WEALTH = 700.0  # exp of more overflows


def binomial(errors: np.ndarray, count: np.ndarray, risk: float) -> np.ndarray:
    r"""Exact p-values for a 0/1 loss: :math:`P(\mathrm{Bin}(N, r) \le \text{errors})`.

    `errors` and `count` (N) hold whole numbers of any dtype; `risk` is r. The p-value is 1 where the count is 0.

    >>> binomial(np.asarray([0, 1]), np.asarray([2, 2]), 0.5).tolist()
    [0.25, 0.75]
    """
    from scipy.special import bdtr

    trials = np.maximum(count, 1).astype(np.int64)
    return np.where(count > 0, bdtr(errors.astype(np.float64), trials, risk), 1.0)


def hoeffding_bentkus(loss_sum: np.ndarray, count: np.ndarray, risk: float) -> np.ndarray:
    r"""P-values for any loss in [0, 1], from the sum of N losses: the smaller of two bounds on one tail probability.

    .. math:: \min\{ e^{-N\,\mathrm{kl}(\hat R, r)},\; e\,P(\mathrm{Bin}(N, r) \le \lceil N \hat R \rceil) \}

    `loss_sum` holds sums of N losses, `count` the N (whole numbers; p-value 1 where it is 0), and r = `risk` lies
    inside (0, 1). Both bound the same tail of the same sum, for every law of the losses, so taking the smaller costs
    nothing.
    """
    has_samples = count > 0
    trials = np.where(has_samples, count, 1)
    mean = np.minimum(loss_sum / trials, risk)  # above r the first bound is 1, as at r
    positive_mean = np.where(mean > 0, mean, 1.0)  # any number: its term is 0
    kl_of_errors = np.where(mean > 0, mean * np.log(positive_mean / risk), 0.0)
    kl = kl_of_errors + (1 - mean) * np.log((1 - mean) / (1 - risk))
    hoeffding = np.exp(-trials * kl)
    whole_errors = np.ceil(loss_sum * (1 - ROUNDING))  # rounding must not turn 3 into 4
    bentkus = np.e * binomial(whole_errors, trials, risk)
    return np.where(has_samples, np.minimum(1.0, np.minimum(hoeffding, bentkus)), 1.0)


def betting(ranked: RankedSamples, count: np.ndarray, risk: float, largest_weight: float = 1.0) -> np.ndarray:
    r"""P-values by betting on low losses at fixed odds, 1 / wealth: sharper where the losses vary little.

    .. math:: p_N = 1 \Big/ \frac{1}{4}\sum_{\lambda\in\Lambda_N}\prod_{i \le N}(1 + \lambda w_i(r - \ell_i))

    `ranked` holds the samples, most confident first, with losses scaled to [0, 1]; `count` holds the N, rising; `risk`
    is r. All stakes are powers of 1/2 times 0.95 / ((1 - r) `largest_weight`), so that no factor is negative. The four
    in :math:`\Lambda_N` are neighbours; the smallest is the first that is at least the best stake for N losses of
    variance r (1 - r), the largest variance that there is. So N and r choose the stakes, no loss does, and the product
    has mean at most 1 when the (weighted) mean loss is r or more, whatever the law of the losses. With importance
    weights this holds as long as no weight of the whole population is above `largest_weight`.
    """
    if not len(count):
        return np.zeros(0)
    stakes = doubling_stakes(ranked.n, risk, largest_weight)  # rising
    # indices into `stakes` of the four that each count uses, the same that `wealth_p` takes below; shape (counts, 4)
    stakes_of_count = _indices_of_four_stakes(count, risk, stakes, largest_weight)
    # the largest count that uses each stake (0: none does); its log wealth is needed up to that count only
    last_count = np.zeros(len(stakes), dtype=np.int64)
    np.maximum.at(last_count, stakes_of_count, np.asarray(count)[:, None])
    # one row per count, one column per stake; columns that a count does not use may be 0 or unfinished
    log_wealths = log_wealth(ranked, count, risk, stakes, last_count)
    return wealth_p(log_wealths, count, risk, stakes, largest_weight)


def doubling_stakes(n: int, risk: float, largest_weight: float = 1.0) -> np.ndarray:
    """Return stakes for tests of up to n samples, rising by factors of two.

    The largest is 95% of what can be staked without going bankrupt at a loss of 1. `largest_weight` is the largest
    weight that a sample may have.
    """
    largest = 0.95 / ((1 - risk) * largest_weight)
    smallest = float(_smallest_stake(n, risk, largest_weight))
    doublings = math.ceil(math.log2(max(largest / smallest, 1.0)))
    return np.asarray(largest * 2.0 ** -np.arange(doublings, -1.0, -1.0))


def _smallest_stake(count: np.ndarray | int, risk: float, largest_weight: float) -> np.ndarray:
    """The best stake for a loss of the largest variance; smaller variances want up to eight times as much."""
    deviation = np.sqrt(risk * (1 - risk))
    return np.asarray(1.75 / (np.sqrt(np.maximum(count, 1)) * deviation * largest_weight))


def wealth_p(
    log_wealths: np.ndarray, count: np.ndarray, risk: float, stakes: np.ndarray, largest_weight: float = 1.0
) -> np.ndarray:
    """Compute p-values, shape (..., counts): 1 / the mean wealth of the four stakes that suit each count.

    `log_wealths`, shape (..., counts, stakes), is the log wealth of each stake after `count` samples, which started at
    0. `stakes` are the stakes that were bet, rising by factors of two. The four are neighbours among them: the first is
    the smallest that is at least the best stake for so many losses of the largest variance. So they depend on the count
    and the promised `risk` (on the scale [0, 1]) alone. `largest_weight` is the largest weight that a sample may have.
    The p-value is 1 where the count is 0, and at most 1.
    """
    # indices into `stakes`, shape (counts, 4)
    stakes_of_count = _indices_of_four_stakes(count, risk, stakes, largest_weight)
    log_wealth_of_four = np.take_along_axis(log_wealths, stakes_of_count, axis=-1)
    # cut off so that nothing overflows, and below at TINY so that nothing is divided by 0
    wealth = np.exp(np.minimum(log_wealth_of_four, LARGEST_LOG_WEALTH)).mean(axis=-1)
    return np.where(count > 0, np.minimum(1.0, 1.0 / np.maximum(wealth, TINY)), 1.0)


def _indices_of_four_stakes(
    count: np.ndarray, risk: float, stakes: np.ndarray, largest_weight: float
) -> np.ndarray:
    """Choose the four stakes that each count uses: indices into the rising `stakes`, shape (counts, 4).

    They are the first stake that suits a loss of the largest variance, and the three above it. Where there are fewer
    above it, the largest stake is repeated: the mean of their wealth is still a fair bet.
    """
    # for each count, the best stake if losses have the largest variance
    smallest = _smallest_stake(count, risk, largest_weight)
    last_index = len(stakes) - 1
    first_index = np.minimum(np.searchsorted(stakes, smallest), last_index)
    return np.minimum(first_index[..., None] + np.arange(STAKES_PER_COUNT), last_index)


def log_wealth(
    ranked: RankedSamples, count: np.ndarray, risk: float, stakes: np.ndarray, last_count: np.ndarray
) -> np.ndarray:
    r"""Log wealth after the `count` most confident samples: the sum of :math:`\log(1 + \lambda w_i (r - \ell_i))`.

    Parameters
    ----------
    ranked : RankedSamples
        The samples, most confident first; `weight` is None without weights.
    count : ndarray of int
        Numbers of most confident samples, rising; the array must not be empty.
    risk : float
        The r, for losses scaled to [0, 1].
    stakes : ndarray
        The :math:`\lambda`, so small that no factor is negative.
    last_count : ndarray of int
        For each stake, the largest count at which it is needed; entries for larger counts are not to be used.

    Returns
    -------
    ndarray, shape (counts, stakes)
    """
    log_wealths = np.zeros((len(count), len(stakes)))
    running_total = np.zeros(len(stakes))  # log wealth of each stake after the samples so far
    # samples start ... stop - 1 at a time, so that temporary arrays stay in cache
    for start in range(0, int(count[-1]), CHUNK):
        stop = min(start + CHUNK, int(count[-1]))
        rows = slice(*np.searchsorted(count, [start, stop], side="right"))  # start < count <= stop
        gain = risk - ranked.loss[start:stop].astype(np.float64)
        if ranked.weight is not None:
            gain *= ranked.weight[start:stop]
        # The chunk is divided where a count ends. Sums over these segments, then running sums, give the log wealth at
        # each count without an array of one value per sample and count.
        segment_stops = np.unique(np.append(count[rows] - start, stop - start))
        segment_starts = np.append(0, segment_stops[:-1])
        segment_of_row = np.searchsorted(segment_stops, count[rows] - start)
        for stake_index in np.flatnonzero(last_count > start):
            log_gains = np.log1p(stakes[stake_index] * gain)
            path = running_total[stake_index] + np.cumsum(np.add.reduceat(log_gains, segment_starts))
            log_wealths[rows, stake_index] = path[segment_of_row]
            running_total[stake_index] = path[-1]
    return log_wealths


def p_value_mean_above_zero(terms: np.ndarray, risk: float) -> np.ndarray:
    r"""P-values of "the mean of the terms is above 0" along the last axis, by betting.

    Terms x are independent and lie between -r and 1 - r, where r = `risk`. The p-value is 0 if r is 1 or more.

    .. math:: p = 1 / \sum_j 2^{-j} \prod_c (1 - \lambda_j x_c), \qquad \lambda_j = 0.98 \cdot 2^{1-j} / (1 - r)

    Half of the wealth is staked on the boldest bet, a quarter on one half as bold, and so on for eight bets; the part
    of 2^-8 that is in no bet is left out, which makes p a little larger. No factor is negative, as x is at most 1 - r.
    Where the terms vary little, as those of clusters do, bold bets are right. Where they vary much there are more
    terms, and the shares matter less.
    """
    if risk >= 1:
        return np.zeros(terms.shape[:-1])  # no loss exceeds its bound
    # of each of the eight stakes, from the boldest down, along a new last axis
    log_wealths = np.stack([np.log1p(-stake * terms).sum(axis=-1) for stake in bold_stakes(risk)], axis=-1)
    share_of_stake = 0.5 ** np.arange(1, 9)  # of the wealth at the start, for each of the eight stakes
    wealth = np.exp(np.minimum(log_wealths, LARGEST_LOG_WEALTH)) @ share_of_stake
    return np.minimum(1.0, 1.0 / np.maximum(wealth, TINY))


def bold_stakes(risk: float) -> np.ndarray:
    """Eight stakes for terms of at most 1 - r: nearly all that can be staked, then each half of the one before."""
    return np.asarray(0.98 / (1 - risk) * 0.5 ** np.arange(8))


def bounded(ranked: RankedSamples, count: np.ndarray, risk: float) -> np.ndarray:
    """P-values for losses in [0, 1]: twice the smaller of Hoeffding-Bentkus and betting.

    Which of the two is sharper depends on the variance; the factor pays for choosing.
    """
    by_concentration = hoeffding_bentkus(ranked.accepted_loss[count], count, risk)
    smaller = np.minimum(by_concentration, betting(ranked, count, risk))
    return np.minimum(1.0, 2 * smaller)


# The order of testing -----------------------------------------------------------------------------------------
#
# Which thresholds are tested, in which order, at which level. Nothing here sees a loss.
#
# **What is tested.** At rank k the threshold is put just above the (k+1)-th largest confidence :math:`\tau`, so that
# the accepted are the samples with :math:`g > \tau`, whole blocks of equals. Given :math:`\tau` and their number N,
# they are N independent draws from the population with :math:`g > \tau`; for a 0/1 loss their errors are binomial with
# the risk :math:`R(\tau)` of exactly the rule that is deployed. The null hypothesis at this rank is
# :math:`R(\tau) > r^*`, and a p-value is known for it.
#
# **In which order.** The ranks are fixed by n, r*, delta alone. They are visited from few accepted to many. Each rank j
# holds a part :math:`w_j \ge 0` of delta, :math:`\sum_j w_j = \delta`, and is tested at
#
# .. math:: \alpha_j = w_j + \alpha_{j-1}\,1(\text{rank } j-1 \text{ passed}),
#
# the fallback procedure: a test that passes hands its level on, a test that fails loses it. The parts above 0 sit
# on a few *starts*. A walk that began at the first start and never failed has all of delta when it comes to the end;
# one that began too early, where too few samples are accepted to prove anything, costs only its own share.
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
# successive walks can meet come from disjoint sets of parts, so they add up to at most delta: the union bound.
#
# **Starts inside a block.** A rank within a large block of equals accepts only what lies above the block, perhaps
# nothing. A set too small to pass even without any loss, :math:`(1-r^*)^N > \alpha_j`, is not tested but skipped, and
# its level goes on to the block itself. For the block h that is reached, :math:`P(p_h \le \alpha) \le \alpha` whatever
# lies above it; the one thing to show is that this and the chance to pass above h, when enough samples lie there, do
# not add up to more than :math:`\alpha` where both hypotheses are true. If the risk above h is high, nothing passes
# there; if it is near r*, passing at h does not depend on how many lie above. Evaluated exactly over a grid of all the
# numbers involved, the sum never exceeded :math:`\alpha` (the tests repeat this).


MAX_STARTS = 6  # more starts suit more kinds of risk profile, each with less level
FIRST_START_FACTOR = 1.5  # times the least number of samples that can prove anything at the start's own level
TINY = 1e-300  # in place of a wealth of 0, so that nothing is divided by it
SMALLEST_START_RATIO = 1.5  # ratio of neighbouring starts, at the least
ONLY_START_FACTOR = 1.3  # a single start, in units of the smallest number of samples that can prove anything
LAST_START_SHARE = 0.5  # share of all samples at the last start
RANK_GROWTH_SHARE = 0.02  # ranks grow by this share ...
LARGEST_STEP_IN_ROOTS = (
    6.0  # ... but by no more than so many square roots: the resolution follows the precision
)


def least_samples(risk: float, level: float) -> float:
    """How many samples without any loss prove a mean below `risk` at this level: (1 - r)^k <= level."""
    if risk <= 0:
        return math.inf
    if risk >= 1:
        return 1.0
    return math.log(level) / math.log1p(-risk)


class PlannedTests(NamedTuple):
    """Which ranks are tested, and the part of delta that each starts with."""

    # rising; to test rank k is to test a threshold that accepts the k most confident samples
    ranks: np.ndarray
    # positive at a few ranks where a sequence of tests starts, 0 elsewhere; they add up to delta
    parts_of_delta: np.ndarray


def plan(n: int, risk: float, delta: float, max_starts: int = MAX_STARTS) -> PlannedTests:
    """Plan which ranks of n samples to test, and the part of delta that each starts with.

    `risk` is the target, scaled to [0, 1]; delta the probability with which any test may pass wrongly; `max_starts` how
    many sequences of tests to start at most. Ranks rise up to n in steps of a fiftieth, and from rank 90,000 on of six
    square roots of the rank: the resolution follows the precision. There are none if n samples cannot prove anything.

    Examples
    --------
    >>> ranks, parts_of_delta = plan(1000, 0.05, 0.05)
    >>> ranks[:3].tolist(), ranks[-1].item(), round(parts_of_delta.sum().item(), 12)
    ([141, 143, 145], 1000, 0.05)
    """
    starts = choose_start_ranks(n, risk, delta, max_starts)  # rising ranks
    if not starts:  # no set of so few samples can prove anything
        return PlannedTests(ranks=np.zeros(0, dtype=np.int64), parts_of_delta=np.zeros(0))
    ranks = [starts[0]]
    while ranks[-1] < n:
        rank = ranks[-1]
        step = int(min(RANK_GROWTH_SHARE * rank, LARGEST_STEP_IN_ROOTS * math.sqrt(rank)))
        ranks.append(min(n, rank + max(1, step)))
    start_positions = np.searchsorted(ranks, starts)  # of the first rank that is at least as large
    starts_at_rank = np.bincount(start_positions, minlength=len(ranks))  # may be above 1: starts may be equal
    return PlannedTests(np.asarray(ranks), parts_of_delta=starts_at_rank * (delta / len(starts)))


def choose_start_ranks(n: int, risk: float, delta: float, max_starts: int = MAX_STARTS) -> list[int]:
    """Choose the ranks at which sequences of tests start: rising, evenly spaced on the logarithmic scale, at most n.

    There are at most `max_starts`, fewer if n is not much larger than the smallest number of samples that can prove
    anything at level delta, and none if n is smaller than that. The first start is a little above that number, the last
    at half of the samples. Neighbouring starts may be equal. `risk` is the target, scaled to [0, 1]; a target of 0 has
    no starts.
    """
    # so many samples without any loss would prove it: the k with (1 - risk)^k = delta, infinity for a risk of 0
    fewest_samples = least_samples(risk, delta)
    if fewest_samples > n:
        return []
    # so many that each may be at least 1.5 times the one before
    most_starts = int(math.log(n / fewest_samples) / math.log(SMALLEST_START_RATIO))
    start_count = max(1, min(max_starts, most_starts))
    if start_count == 1:
        return [min(n, math.ceil(ONLY_START_FACTOR * fewest_samples))]
    # each start has an equal share of delta, at which more samples are needed
    first_start = min(n, FIRST_START_FACTOR * least_samples(risk, delta / start_count))
    last_start = max(first_start, LAST_START_SHARE * n)
    return [min(n, math.ceil(start)) for start in np.geomspace(first_start, last_start, start_count)]


class Walk(NamedTuple):
    """For each rank: its level when it was tested, and whether it passed."""

    level: np.ndarray
    passed: np.ndarray


def walk(p_values: np.ndarray, parts_of_delta: np.ndarray, least_p_values: np.ndarray | None = None) -> Walk:
    """Run the fallback procedure along the last axis: a test that passes hands its level on to the next.

    Rank j is tested at its own level plus that of rank j - 1 if this passed or was skipped. It passes if its p-value is
    at most that level and the level is positive.

    Parameters
    ----------
    p_values : ndarray, shape (..., ranks)
        In the order of testing, from few accepted samples to many.
    parts_of_delta : ndarray, shape (ranks,)
        The level that each rank brings; they add up to delta.
    least_p_values : ndarray, optional
        The smallest p-value possible at each rank. Where even that cannot pass, the rank is skipped and its level goes
        on to the next.

    Examples
    --------
    >>> walk(np.asarray([0.01, 0.04, 0.2, 0.03]), np.asarray([0.03, 0.0, 0.0, 0.02])).passed.tolist()
    [True, False, False, False]
    >>> walk(np.asarray([0.01, 0.02, 0.02, 0.04]), np.asarray([0.03, 0.0, 0.0, 0.02])).level.tolist()
    [0.03, 0.03, 0.03, 0.05]
    >>> walk(np.asarray([1.0, 0.02]), np.asarray([0.03, 0.0]), np.asarray([1.0, 0.0])).passed.tolist()
    [False, True]
    """
    least_p_values = np.zeros_like(p_values) if least_p_values is None else least_p_values
    is_single = p_values.ndim == 1  # then plain numbers are much faster than arrays
    if is_single:
        p_by_rank = p_values.tolist()
        least_by_rank = least_p_values.tolist()
    else:
        p_by_rank = np.moveaxis(p_values, -1, 0)
        least_by_rank = np.moveaxis(least_p_values, -1, 0)
    level: Any = 0.0
    levels = []
    passed = []
    for own_part, p, smallest_possible_p in zip(parts_of_delta.tolist(), p_by_rank, least_by_rank):
        level = level + own_part
        passes = (p <= level) & (level > 0)
        levels.append(level)  # one number, or an array with an entry for each of the leading axes
        passed.append(passes)
        is_skipped = smallest_possible_p > level
        level = level * (passes | is_skipped)  # a test that fails loses its level
    if is_single:
        return Walk(np.asarray(levels, dtype=np.float64), np.asarray(passed, dtype=bool))
    shape = p_values.shape[:-1]
    return Walk(
        np.stack([np.broadcast_to(x, shape) for x in levels], axis=-1),
        np.stack([np.broadcast_to(x, shape) for x in passed], axis=-1),
    )


def coverage_p_value(accepted: np.ndarray, n: int, coverage: float) -> np.ndarray:
    """P-values of "a threshold at the k-th largest of n confidences accepts a share below c" of the population.

    They are P(Beta(k, n - k + 1) <= c). `accepted` holds the k, from 1 to n; `coverage` is c. Samples are independent
    and unweighted.
    """
    from scipy.special import betainc

    return np.asarray(betainc(accepted, np.maximum(n - accepted + 1, 1), coverage))


def drift_p_value(gap: float, n: float, m: float) -> float:
    """P-value of "n and m samples come from one law", by Kolmogorov and Smirnov (asymptotic law).

    `gap` is the largest difference between their distribution functions.
    """
    from scipy.special import kolmogorov

    return float(kolmogorov(math.sqrt(n * m / (n + m)) * gap))


def least_p_value(count: np.ndarray, risk: float) -> np.ndarray:
    """The p-value of that many samples without any loss: (1 - r)^N."""
    if risk >= 1:
        return np.where(count > 0, 0.0, 1.0)
    return np.asarray((1 - risk) ** count)


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

    x = np.asarray(hits, dtype=np.float64)
    n = np.asarray(trials, dtype=np.float64)
    tail = (1 - level) / 2
    # without hits the lower limit is 0, without misses the upper one is 1: the beta quantile does not exist there
    has_hits = x > 0
    has_misses = x < n
    low = betaincinv(np.where(has_hits, x, 1.0), np.where(has_hits, n - x + 1, 1.0), tail)
    high = betaincinv(np.where(has_misses, x + 1, 1.0), np.where(has_misses, n - x, 1.0), 1 - tail)
    return np.where(has_hits, low, 0.0), np.where(has_misses, high, 1.0)


def upper_limit(errors: float, trials: int, delta: float) -> float:
    """Exact upper limit of an error rate, which holds with probability 1 - delta; 1 if every trial is an error.

    `errors` is a whole number of errors among `trials` independent samples.
    """
    from scipy.special import betaincinv

    if errors >= trials:
        return 1.0
    return float(betaincinv(errors + 1, trials - errors, 1 - delta))


def coverage_band(coverage: float, n: float, delta: float) -> tuple[float, float]:
    """Limits of the coverage in the population, by Dvoretzky, Kiefer, Wolfowitz and Massart.

    They hold for all thresholds at once, so also for a threshold that was chosen on the same n samples.
    """
    half_width = math.sqrt(math.log(2 / delta) / (2 * n))
    return max(0.0, coverage - half_width), min(1.0, coverage + half_width)
