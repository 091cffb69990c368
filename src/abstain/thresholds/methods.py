"""How a threshold is chosen: from the calibration data to the number of samples it accepts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from abstain.core.points import cheapest as least_cost
from abstain.core.points import reaches
from abstain.thresholds._calibration import Calibration
from abstain.thresholds.candidates import Candidates, tabulate
from abstain.thresholds.sequence import least_p_value, plan, walk

_SHOWN = 400  # rows of the table where nothing is tested rank by rank


class Choice(NamedTuple):
    """How many calibration samples are accepted (None: no threshold), from which value on, out of which table."""

    accepted: int | None
    value: float | None
    table: Candidates


def _largest(count: np.ndarray, value: np.ndarray, passed: np.ndarray, table: Candidates) -> Choice:
    good = np.flatnonzero(passed & (count > 0))
    if not len(good):
        return Choice(None, None, table)
    best = good[np.argmax(count[good])]
    return Choice(int(count[best]), float(value[best]), table)


def learn_then_test(cal: Calibration, risk: float, delta: float) -> Choice:
    """Sequential tests from several starts (see `sequence`); `risk` is scaled to [0, 1]."""
    ranks, weights = plan(cal.n, risk, delta)
    count, value = cal.ranked.cut(ranks)
    p = cal.p_values(count, risk)
    level, passed = walk(p, weights, least_p_value(count, risk))
    return _largest(count, value, passed, tabulate(cal, count, value, passed, p, level))


def sgr(cal: Calibration, risk: float, delta: float) -> Choice:
    """Geifman & El-Yaniv's binary search over ranks, each of its steps at delta / steps.

    Put right on three counts: errors are counted, not rounded from a mean; only a threshold whose own bound holds is
    returned; and what is bounded is what is deployed (whole blocks of equal confidences).
    """
    steps = max(1, math.ceil(math.log2(cal.n)))
    low, high = 0, cal.n
    seen: list[tuple[int, float, float, bool]] = []
    for _ in range(steps):
        middle = (low + high + 1) // 2
        count, value = (x[0] for x in cal.ranked.cut(np.asarray([middle])))
        p = float(cal.p_values(np.asarray([count]), risk)[0])
        passed = p <= delta / steps
        seen.append((int(count), float(value), p, passed))
        low, high = (middle, high) if passed else (low, max(low, middle - 1))
    seen.sort()
    counts, values, p_values, oks = (np.asarray(column) for column in zip(*seen))
    table = tabulate(cal, counts, values, oks, p_values, np.full(len(seen), delta / steps))
    return _largest(counts, values, oks, table)


def _curve(cal: Calibration, good: np.ndarray, ends: np.ndarray) -> Choice:
    """The largest of all blocks where `good` holds, and a table of some hundred of them.

    Here the threshold is the smallest confidence accepted: no test has spoken of the gap below it.
    """
    chosen = int(ends[np.flatnonzero(good)[-1]]) if good.any() else None
    shown = np.unique(np.linspace(0, len(ends) - 1, _SHOWN).astype(np.int64))
    count = ends[shown] if chosen is None else np.union1d(ends[shown], chosen)
    value = cal.ranked.values_at(count)
    passed = good[np.searchsorted(ends, count)]
    table = tabulate(cal, count, value, passed)
    return Choice(chosen, None if chosen is None else float(value[count == chosen][0]), table)


def empirical(cal: Calibration, risk: float) -> Choice:
    """The largest coverage whose risk on the calibration data is at most `risk`: a description, not a promise."""
    ends = cal.ranked.block_ends()
    allowed = risk * cal.ranked.cum_weight[ends]
    return _curve(cal, cal.ranked.cum_loss[ends] <= allowed * (1 + 1e-12), ends)


def conformal(cal: Calibration, risk: float) -> Choice:
    r"""Conformal risk control of the loss of the accepted per sample: :math:`(S_t + 1)/(n + 1) \le r`.

    S only grows as more are accepted, so no multiple testing is needed; what is bounded is a mean over calibration
    sets as well as over later samples.
    """
    ends = cal.ranked.block_ends()
    return _curve(cal, (cal.ranked.cum_loss[ends] + 1) / (cal.n + 1) <= risk, ends)


def at_coverage(cal: Calibration, coverage: float, delta: float | None) -> Choice:
    """The least coverage that is at least `coverage`: on the calibration data, or (with delta) of the population.

    The coverage of `g >= g_(k)`, k-th largest of n, is at least Beta(k, n - k + 1) distributed, ties or not.
    """
    ends = cal.ranked.block_ends()
    if delta is None:
        enough = reaches(cal.coverage(ends), coverage)
    else:
        from scipy.special import betainc

        enough = betainc(ends, np.maximum(cal.n - ends + 1, 1), coverage) <= delta
    if not enough.any():
        return Choice(cal.n, -math.inf, _curve(cal, ends == cal.n, ends).table)
    chosen = int(ends[np.flatnonzero(enough)[0]])
    return _curve(cal, ends == chosen, ends)


def cheapest(cal: Calibration, cost: float) -> Choice:
    """Least loss of the accepted plus `cost` (scaled) for each rejected; the largest coverage among equals."""
    ends = cal.ranked.block_ends()
    rows = np.append(0, ends)  # 0: all rejected
    loss, mass = cal.ranked.cum_loss[rows], cal.ranked.cum_weight[rows]
    best = least_cost(loss + cost * (mass[-1] - mass)) - 1
    return _curve(cal, np.arange(len(ends)) == best, ends)
