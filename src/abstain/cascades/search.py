r"""All policies of a grid by cumulative sums, the order in which to test them, and the tests.

A policy is one threshold per stage. Stage j answers the samples that passed every stage before it and whose confidence
reaches its threshold, so whatever adds up over samples (losses, costs, log wealth) is known for every policy of a grid
from K histograms of 1, 2, ..., K dimensions and their running sums.

**Why the promise holds.** The samples are split at random. Cuts, estimates and the order of testing come from the first
part alone; given that part, the hypotheses "the risk of this policy is above r" are a fixed sequence, each tested on
the second part at the same level until one is not rejected. The first true one is rejected with at most that
probability, and whatever is returned stands before it or is false. Single stages are tested on all samples by their own
sequences (`thresholds.testing`), each with a share of delta. The shares add up to delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from abstain.thresholds import testing
from abstain.thresholds.calibration import Calibration, learn_then_test

MOST = 10**6  # policies of a grid
CUTS = 80  # by stage, where as many policies are allowed
_FIRST = 0.2  # of the samples choose the order of testing; the others test
_START = (8.0, 0.1)  # the first policy tested is to be safe by these standard errors, and this share of r
_SHARES = (0.1, 0.55, 0.35)  # of delta: all stages but the last, the last, the cascades
_APART = 10  # samples between two cuts, at least
_HOLD = 0.1  # penalty on the square of a coefficient, which a few samples outweigh
_FITTED = 20_000  # samples to fit a smooth loss to


@dataclass(frozen=True, eq=False)
class Setting:
    """What a cascade is chosen on: losses scaled to [0, 1]; the last loss and the last cost are the person's.

    A stage that gave no answer has a confidence of minus infinity.
    """

    names: tuple[str, ...]
    loss: list[np.ndarray]
    confidence: list[np.ndarray]
    cost: list[np.ndarray]
    calibrations: list[Calibration]  # each stage by itself, sorted
    system: bool  # is the person's loss part of the promise?
    zero_one: bool  # are all losses that the promise speaks of 0 or 1?
    clusters: np.ndarray | None = None  # codes 0, 1, ...
    largest: int = 1  # samples of the largest cluster
    groups: np.ndarray | None = None  # codes 0, 1, ...
    group_count: int = 1

    def unscaled(self, risk: Any) -> Any:
        """A mean loss on the user's scale."""
        return self.calibrations[0].unscaled(risk)

    @property
    def stages(self) -> int:
        """How many."""
        return len(self.names)

    @property
    def n(self) -> int:
        """Samples."""
        return len(self.loss[0])

    def take(self, rows: np.ndarray) -> Setting:
        """Some of the samples."""
        own: Any = {name: [x[rows] for x in getattr(self, name)] for name in ("loss", "confidence", "cost")}
        own |= {k: None if (x := getattr(self, k)) is None else x[rows] for k in ("clusters", "groups")}
        return replace(self, **own)

    def split(self, share: float, seed: int) -> tuple[Setting, Setting]:
        """Two parts at random, clusters in one piece."""
        units = np.arange(self.n) if self.clusters is None else self.clusters
        first = (np.random.default_rng(seed).random(int(units.max()) + 1) < share)[units]
        return self.take(np.flatnonzero(first)), self.take(np.flatnonzero(~first))

    def by_group(self) -> list[Setting]:
        """The samples of each group; all of them where there are none."""
        if self.groups is None:
            return [self]
        return [self.take(np.flatnonzero(self.groups == code)) for code in range(self.group_count)]

    def lost(self, who: np.ndarray) -> np.ndarray:
        """The loss of whoever answers."""
        return np.choose(who, self.loss)

    def spoken(self, who: np.ndarray) -> np.ndarray:
        """Which samples the promise speaks of."""
        return (who < self.stages) | self.system

    def spent(self, who: np.ndarray, thresholds: Sequence[float]) -> np.ndarray:
        """What each sample costs: every stage it reaches, and the person if nobody answered."""
        total = np.where(who == self.stages, self.cost[-1], 0.0)
        for j, threshold in enumerate(thresholds):
            if threshold < math.inf:
                total += np.where(who >= j, self.cost[j], 0.0)
        return total


def answerer(confidence: Sequence[np.ndarray], thresholds: Sequence[float]) -> np.ndarray:
    """Which stage answers each sample; their number where none does."""
    return first_answer([(g >= t) & (g > -math.inf) for g, t in zip(confidence, thresholds)])


def first_answer(answers: Sequence[np.ndarray]) -> np.ndarray:
    """The first stage that would answer each sample; their number where none would."""
    who = np.full(len(answers[0]), len(answers))
    for j in reversed(range(len(answers))):
        who[answers[j]] = j
    return who


def seed_of(rng: int | np.random.Generator) -> int:
    """Of the split: other numbers than those that the same seed may have made the samples with."""
    return int(np.random.default_rng(rng).integers(2**32))


# every policy of a grid ---------------------------------------------------------------------------


class Tables:
    """Samples counted by the cuts of every stage.

    Policy i of a stage with c cuts answers at or above cut i, the first of which is minus infinity (whatever it has an
    answer to); i = c asks the stage nothing. Bin 0 holds the samples without an answer, bin b those that the policies
    0 ... b-1 answer.
    """

    def __init__(self, setting: Setting, cuts: Sequence[np.ndarray]) -> None:
        self.setting, self.cuts = setting, cuts
        self.shape = tuple(len(c) + 1 for c in cuts)
        both = zip(cuts, setting.confidence)
        self.bins = [np.searchsorted(c[1:], g, side="right") + (g > -math.inf) for c, g in both]
        self.cells = [self.bins[0]]
        for size, b in zip(self.shape[1:], self.bins[1:]):
            self.cells.append(self.cells[-1] * size + b)
        self.counts = [self.histogram(j) for j in range(len(cuts))]

    def histogram(self, j: int, values: np.ndarray | None = None) -> np.ndarray:
        """Sums over samples by the bins of stages 0 ... j."""
        shape = self.shape[: j + 1]
        return np.bincount(self.cells[j], values, minlength=math.prod(shape)).reshape(shape)

    def passed(self, histogram: np.ndarray) -> np.ndarray:
        """Over the samples that all these stages pass on, for every policy."""
        for axis in range(histogram.ndim):
            histogram = np.cumsum(histogram, axis=axis)
        return self._spread(histogram)

    def answered(self, histogram: np.ndarray) -> np.ndarray:
        """Over the samples that the last of these stages answers, for every policy."""
        stays = self.passed(histogram)
        last = stays.take([-1], axis=histogram.ndim - 1)
        return last - stays

    def total(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Sum over samples of the value of whoever answers; the person's is counted if the promise speaks of it."""
        found = np.zeros(self.shape)
        for j in range(len(self.shape)):
            found += self.answered(self.histogram(j, values[j]))
        return found + self.passed(self.histogram(j, values[-1])) if self.setting.system else found

    def answers(self) -> np.ndarray:
        """How many samples the promise speaks of."""
        everyone = np.full(self.shape, float(self.setting.n))
        return everyone if self.setting.system else everyone - self.passed(self.counts[-1])

    def costs(self) -> np.ndarray:
        """What all samples cost; a stage that is never asked costs nothing."""
        found = np.zeros(self.shape)
        for j, size in enumerate(self.shape):
            asked = self._spread((np.arange(size) < size - 1).reshape((1,) * j + (size,)))
            cost = self.setting.cost[j]
            found += asked * (self.passed(self.histogram(j - 1, cost)) if j else float(cost.sum()))
        return found + self.passed(self.histogram(j, self.setting.cost[-1]))

    def smooth_losses(self) -> np.ndarray:
        """As `total` of the losses, each replaced by a logistic regression on the ranks of the stages so far."""
        found = np.zeros(self.shape)
        middles = [_mid_ranks(b, size) for b, size in zip(self.bins, self.shape)]
        for j, loss in enumerate(self.setting.loss[:-1]):
            rows = np.flatnonzero(self.bins[j])
            rows = rows[:: max(1, len(rows) // _FITTED)]
            ranks = [m[b[rows]] for m, b in zip(middles[: j + 1], self.bins)]
            fitted = logistic(_features(ranks), loss[rows])
            axes = [m.reshape((1,) * i + (-1,) + (1,) * (j - i)) for i, m in enumerate(middles[: j + 1])]
            score = sum(c * f for c, f in zip(fitted, _features(axes)))
            found += self.answered(self.counts[j] * _expit(np.asarray(score)))
        return found + self.passed(self.histogram(j, self.setting.loss[-1])) if self.setting.system else found

    def thresholds(self, policy: int) -> tuple[float, ...]:
        """By stage; infinity where it is never asked."""
        places = np.unravel_index(policy, self.shape)
        return tuple(float(np.append(c, math.inf)[i]) for c, i in zip(self.cuts, places))

    def alone(self, j: int) -> np.ndarray:
        """The policies that ask stage j only."""
        places = [np.arange(size) if i == j else size - 1 for i, size in enumerate(self.shape)]
        return np.asarray(np.ravel_multi_index(places, self.shape))

    def _spread(self, table: np.ndarray) -> np.ndarray:
        return table.reshape(table.shape + (1,) * (len(self.shape) - table.ndim))


def cuts_of(setting: Setting, cuts: int) -> list[np.ndarray]:
    """Quantiles of each stage's confidences, minus infinity first; no more than one for ten samples."""
    found = []
    cuts = max(1, min(cuts, setting.n // _APART))
    for g in setting.confidence:
        ranked = np.sort(g[g > -math.inf])
        places = (np.arange(1, cuts) * len(ranked)) // cuts
        found.append(np.append(-math.inf, np.unique(ranked[places]) if len(ranked) else ()))
    return found


def cuts_allowed(stages: int, cuts: int) -> int:
    """As many, or fewer if the grid would have more than a million policies."""
    return min(cuts, int(MOST ** (1 / stages) * (1 + 1e-12)) - 1)


def _mid_ranks(bins: np.ndarray, size: int) -> np.ndarray:
    """The mean rank in a bin, from -1/2 (no answer, or the least sure) to 1/2."""
    mass = np.bincount(bins, minlength=size).astype(np.float64)
    mass[0] = 0.0
    return (np.cumsum(mass) - mass / 2) / max(1.0, mass.sum()) - 0.5


def _features(ranks: Sequence[np.ndarray]) -> list[np.ndarray]:
    """1, each rank, its square, and products of two."""
    pairs = [ranks[i] * ranks[k] for i in range(len(ranks)) for k in range(i + 1)]
    return [np.ones_like(ranks[0]), *ranks, *pairs]


def _expit(x: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(x / 2)


def logistic(features: Sequence[np.ndarray], loss: np.ndarray) -> np.ndarray:
    """Coefficients of a logistic regression of losses in [0, 1], slightly held back, by Newton's method."""
    X = np.stack(features, axis=1)
    hold = np.full(X.shape[1], _HOLD)
    fitted = np.zeros(X.shape[1])
    for _ in range(25):
        p = _expit(X @ fitted)
        curve = (X * (p * (1 - p))[:, None]).T @ X + np.diag(hold)
        step = np.linalg.solve(curve, X.T @ (loss - p) - hold * fitted)
        fitted += step
        if np.abs(step).max() < 1e-6:
            break
    return fitted


# which to test, in which order ----------------------------------------------------------------------


def expected_z(first: Setting, cuts: Sequence[np.ndarray], risk: float, samples: float) -> np.ndarray:
    """By how many standard errors of so many independent samples each policy keeps the promise, by smoothed losses;
    the least over groups."""
    found = np.asarray(math.inf)
    for part in first.by_group():
        if not part.n:
            continue
        tables = Tables(part, cuts)
        count = tables.answers()
        gap = risk * count - tables.smooth_losses()
        spread = np.sqrt(risk * (1 - risk) * np.where(count > 0, count, 1.0) * first.n / samples)
        found = np.minimum(found, np.where(count > 0, gap / spread, -math.inf))
    return found


def frontier(cost: np.ndarray, z: np.ndarray, among: np.ndarray | None = None) -> np.ndarray:
    """Policies that no cheaper one is as safe as, from the safest to the cheapest; ties by their place."""
    every = np.arange(cost.size) if among is None else among
    every = every[z.reshape(-1)[every] > -math.inf]
    c, safety = cost.reshape(-1)[every], z.reshape(-1)[every]
    order = np.lexsort((-safety, c))
    best = np.maximum.accumulate(safety[order])
    return every[order[safety[order] > np.append(-math.inf, best[:-1])]][::-1]


def policy_p_values(tables: Tables, path: np.ndarray, risk: float, level: float) -> np.ndarray:
    """Of "the risk is above r" for policies on a path; with clusters those beyond the first failure are 1."""
    setting = tables.setting
    if setting.clusters is not None:
        return _cluster_p_values(tables, path, risk, level)
    count = tables.answers().reshape(-1)[path]
    lost = tables.total(setting.loss).reshape(-1)[path]
    if setting.zero_one:
        return testing.binomial(np.rint(lost), count, risk)
    stakes = testing.ladder(setting.n, risk)
    gains = ([np.log1p(stake * (risk - x)) for x in setting.loss] for stake in stakes)
    logs = np.stack([tables.total(gain).reshape(-1)[path] for gain in gains], axis=-1)
    bounds = testing.hoeffding_bentkus(lost, count, risk), testing.wealth_p(logs, count, risk, stakes)
    return np.minimum(1.0, 2 * np.minimum(*bounds))


def _cluster_p_values(tables: Tables, path: np.ndarray, risk: float, level: float) -> np.ndarray:
    """A bet on each cluster as a whole, which weighs as much as it has answers."""
    setting = tables.setting
    codes = np.unique(np.asarray(setting.clusters), return_inverse=True)[1]
    p = np.ones(len(path))
    top = float(setting.largest)
    stakes = testing.ladder(int(codes.max()) + 1, risk, top)
    for k, policy in enumerate(path):
        who = answerer(setting.confidence, tables.thresholds(policy))
        spoken = setting.spoken(who).astype(np.float64)
        size = np.bincount(codes, spoken)
        gain = (risk * size - np.bincount(codes, spoken * setting.lost(who)))[size > 0]
        logs = np.log1p(stakes * gain[:, None]).sum(axis=0)
        p[k] = testing.wealth_p(logs[None], np.asarray([len(gain)]), risk, stakes, top)[0]
        if p[k] > level:
            break
    return p


# the search -------------------------------------------------------------------------------------------


def shares_of(stages: int) -> list[float]:
    """Of delta, for each stage by itself and then for cascades."""
    if stages == 1:
        return [1.0, 0.0]
    early, last, joint = _SHARES
    return [*[early / (stages - 1)] * (stages - 1), last, joint]


def certify(setting: Setting, risk: float, delta: float, cuts: int, seed: int) -> list[tuple[float, ...]]:
    """Everything that can be certified; `risk` is scaled to [0, 1]."""
    *alone, joint = shares_of(setting.stages)
    policies: list[tuple[float, ...]] = []
    exact = not setting.system and setting.clusters is None and setting.groups is None
    if exact:  # the sequence of a single stage needs no split
        for j, cal in enumerate(setting.calibrations):
            value = learn_then_test(cal, risk, delta * alone[j]).value
            if value is not None:
                policies.append(tuple(value if i == j else math.inf for i in range(setting.stages)))
    first, second = setting.split(_FIRST, seed)
    if not (first.n and second.n):
        return policies
    grid = cuts_of(first, cuts)
    units = second.n if second.clusters is None else len(np.unique(second.clusters))
    z = expected_z(first, grid, risk, units)
    cost = Tables(first, grid).costs() / first.n
    by_group = [Tables(part, grid) for part in second.by_group()]
    tables = by_group[0]
    paths = [(frontier(cost, z), joint)]
    if not exact:
        paths += [(frontier(cost, z, tables.alone(j)), share) for j, share in enumerate(alone)]
    # estimates of many samples err by more than chance, so a share of r counts beside standard errors
    start = max(_START[0], _START[1] * math.sqrt(units * risk / (1 - risk)))
    for path, share in paths:
        expected = z.reshape(-1)[path]
        path = path[expected <= max(start, expected.min(initial=math.inf))]
        if not (share and len(path)):
            continue
        p = np.max([policy_p_values(t, path, risk, delta * share) for t in by_group], axis=0)
        passed = np.flatnonzero(testing.walk(p, delta * share * (np.arange(len(path)) == 0)).passed)
        policies += [tables.thresholds(path[k]) for k in passed[-1:]]
    return policies


def least_costs(setting: Setting, risk: float, cuts: int) -> tuple[float, float]:
    """Of all policies that keep the risk by smoothed losses, and of those that ask one stage only; infinite if none."""
    grid = cuts_of(setting, cuts)
    tables = Tables(setting, grid)
    keeps = expected_z(setting, grid, risk, setting.n) >= 0
    cost = np.where(keeps, tables.costs() / setting.n, math.inf).reshape(-1)
    return float(cost.min()), min(float(cost[tables.alone(j)].min()) for j in range(setting.stages))
