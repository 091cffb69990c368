"""Does a 95% interval hold the truth 95% of the time? Seeded simulation, printed as markdown tables.

    python benchmarks/interval_coverage.py                 every table, 10,000 runs a setting
    python benchmarks/interval_coverage.py --runs 1000 --only clusters paired

Confidence has rank b ~ U(0, 1) and the chance of an error is a profile p(b), so every truth is known: the
loss accepted at coverage c is F(c), the integral of p over the top share c. All intervals are made by the
public functions.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from abstain.core.area_estimators import oracle_area
from abstain.core.part_sums import tables_from_samples, totals_from_samples
from abstain.evaluation import compare
from abstain.inference import Difference, curve_band, interval, paired_difference, unpaired_difference
from abstain.inference.evidence import estimate_interval, gather_evidence, request_for
from abstain.metrics import by_name

Vector = np.ndarray
Key = tuple[str, float | None]
SMOOTH = (
    *("aurc", "augrc", "risk", "oracle_aurc", "e_aurc", "naurc"),
    *("auroc", "prediction_rejection_ratio", "aupr_error", "aupr_success"),
)
PARTIAL = ("aurc@0.7-1", "aurc@0.2-0.8", "prediction_rejection_ratio@0.5")
ARGUMENT = {"risk_at_coverage": "coverage", "coverage_at_risk": "risk", "fpr_at_tpr": "tpr"}


class Profile(NamedTuple):
    """Chance of an error at rank b, and the loss accepted at coverage c."""

    name: str
    chance: Callable[[Vector], Vector]
    accepted: Callable[[Vector], Vector]


PROFILES = (
    Profile(".6(1-b)^2", lambda b: 0.6 * (1 - b) ** 2, lambda c: 0.2 * c**3),
    Profile(".3(1-b)^.5", lambda b: 0.3 * (1 - b) ** 0.5, lambda c: 0.2 * c**1.5),
    Profile(".2", lambda b: 0.2 + 0 * b, lambda c: 0.2 * c),
    Profile(".05+.5(1-b)^3", lambda b: 0.05 + 0.5 * (1 - b) ** 3, lambda c: 0.05 * c + 0.125 * c**4),
    Profile(".5(1-b)^9", lambda b: 0.5 * (1 - b) ** 9, lambda c: 0.05 * c**10),
)
SIZES = (200, 1000, 5000)
LEVELS = (None, 20)
_GRID = (np.arange(200_000) + 0.5) / 200_000


def sample(profile: Profile, n: int, levels: int | None, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Errors and confidences of n independent samples."""
    b = rng.random(n)
    wrong = rng.random(n) < profile.chance(b)
    return wrong, b if levels is None else np.floor(b * levels) / levels


def covered(
    profile: Profile,
    n: int,
    levels: int | None,
    runs: int,
    seed: int,
    metric: str = "aurc",
    **options: object,
) -> float:
    """Share of runs whose interval holds the truth."""
    rng = np.random.default_rng([seed, n, levels or 0, *profile.name.encode()])
    truth = true_values(profile, levels)[
        metric, next((options[k] for k in ARGUMENT.values() if k in options), None)
    ]
    hits = 0
    for _ in range(runs):
        found = interval(metric, *sample(profile, n, levels, rng), **options)
        hits += truth in found
    return hits / runs


def clustered_sample(
    profile: Profile, clusters: int, size: int, rng: np.random.Generator
) -> tuple[Vector, Vector, Vector]:
    """Errors shared within clusters: one draw decides for all members whether luck is against them."""
    b = rng.random((clusters, size))
    wrong = rng.random((clusters, 1)) < profile.chance(b)
    return wrong.reshape(-1), b.reshape(-1), np.repeat(np.arange(clusters), size)


def clusters_covered(profile: Profile, clusters: int, runs: int, seed: int) -> tuple[float, float]:
    """Coverage of the interval that knows the clusters of ten, and of the one that does not."""
    rng = np.random.default_rng([seed, clusters, *profile.name.encode()])
    truth = true_values(profile, None)["aurc", None]
    hits = np.zeros(2)
    for _ in range(runs):
        wrong, b, of = clustered_sample(profile, clusters, 10, rng)
        hits += truth in interval("aurc", wrong, b, clusters=of), truth in interval("aurc", wrong, b)
    return float(hits[0] / runs), float(hits[1] / runs)


def crossed_sample(
    profile: Profile, places: int, weeks: int, models: int, rng: np.random.Generator
) -> tuple[Vector, Vector, Vector, Vector]:
    """One sample for each place in each week, whose confidence and luck depend on both.

    Each place, and each week, has its own effect on the rank of the confidence and on the luck of each model: 15% of
    the variance each (a Gaussian copula), so that a sample by itself follows the profile. Returns errors and
    confidences, shape (models, n), and the place and the week of each sample.
    """
    shared = math.sqrt(0.15)
    place, week = np.divmod(np.arange(places * weeks), weeks)
    of_place = shared * rng.standard_normal((2, models, places))[:, :, place]
    of_week = shared * rng.standard_normal((2, models, weeks))[:, :, week]
    own = math.sqrt(0.7) * rng.standard_normal((2, models, places * weeks))
    b, luck = ndtr(of_place + of_week + own)
    return luck < profile.chance(b), b, place, week


def crossed_covered(
    profile: Profile, places: int, weeks: int, runs: int, seed: int, metric: str = "aurc"
) -> tuple[Vector, Vector]:
    """Coverage by place and week, by place, by week, and without clusters: of a metric, and of a difference of AURC.

    The difference is that of two models of the same population, whose true difference is 0.
    """
    rng = np.random.default_rng([seed, places, weeks, *profile.name.encode()])
    truth = true_values(profile, None)[metric, None]
    hits = np.zeros((2, 4))
    for _ in range(runs):
        wrong, b, place, week = crossed_sample(profile, places, weeks, 2, rng)
        for column, clusters in enumerate(([place, week], place, week, None)):
            hits[0, column] += truth in interval(metric, wrong[0], b[0], clusters=clusters)
            difference = paired_difference(wrong[0], b[0], wrong[1], b[1], clusters=clusters)
            hits[1, column] += difference.low <= 0 <= difference.high
    return hits[0] / runs, hits[1] / runs


def pair(
    first: Profile, second: Profile, n: int, rng: np.random.Generator, alike: float = 0.8
) -> tuple[Vector, Vector, Vector, Vector]:
    """Two models on the same samples: ranks and luck correlate by `alike` (a Gaussian copula)."""
    from scipy.special import ndtr

    own = math.sqrt(1 - alike**2)
    shared = alike * rng.standard_normal((2, 1, n))
    b, luck = ndtr(shared + own * rng.standard_normal((2, 2, n)))
    return luck[0] < first.chance(b[0]), b[0], luck[1] < second.chance(b[1]), b[1]


def rejections(
    first: Profile,
    second: Profile,
    n: int,
    runs: int,
    seed: int,
    tests: Sequence[Callable[..., Difference]] = (paired_difference, unpaired_difference),
) -> list[float]:
    """Share of runs with p < 5%: paired, and unpaired on the same data (which throws the pairing away)."""
    rng = np.random.default_rng([seed, n, *first.name.encode(), *second.name.encode()])
    hits = np.zeros(len(tests))
    for _ in range(runs):
        data = pair(first, second, n, rng)
        hits += [test(*data).p_value < 0.05 for test in tests]
    return (hits / runs).tolist()


def error_ratio(
    profile: Profile,
    n: int,
    levels: int | None,
    runs: int,
    seed: int,
    metric: str = "aurc",
    **options: object,
) -> float:
    """Mean analytic standard error over the standard deviation of the estimates."""
    rng = np.random.default_rng([seed, n, levels or 0, *profile.name.encode()])
    estimates, errors = [], []
    for _ in range(runs):
        data = sample(profile, n, levels, rng)
        found = interval(metric, *data, method="normal", **options)
        estimates.append(found.estimate)
        errors.append(found.standard_error)
    return float(np.mean(errors) / np.std(estimates, ddof=1))


def band_covered(profile: Profile, n: int, runs: int, seed: int, replicates: int = 300) -> float:
    """Share of runs in which the whole true curve lies in the band."""
    rng = np.random.default_rng([seed, n, *profile.name.encode()])
    hits = 0
    for _ in range(runs):
        band = curve_band(*sample(profile, n, None, rng), replicates=replicates, rng=rng)
        truth = profile.accepted(band.coverage) / band.coverage
        hits += bool(np.all((band.low <= truth) & (truth <= band.high)))
    return hits / runs


# every metric, and how wide its interval is --------------------------------------------------------------


LINE = Profile(".3(1-b)", lambda b: 0.3 * (1 - b), lambda c: 0.15 * c**2)
THREE = (LINE, PROFILES[0], PROFILES[4])


def topped(base: Profile, share: float, chance: float) -> Profile:
    """A profile that is wrong with this chance in its most confident share."""
    name = f"{base.name}, top {share:.0%} wrong by {chance:g}"
    return Profile(
        name, lambda b: np.where(b > 1 - share, chance, base.chance(b)), lambda c: np.full_like(c, np.nan)
    )


def power(height: float, at: float) -> Profile:
    """Errors that fade as a power of the rank."""
    name = f"{height:g}(1-b)".removeprefix("0") + (f"^{at:g}" if at != 1 else "")
    return Profile(name, lambda b: height * (1 - b) ** at, lambda c: height * c ** (at + 1) / (at + 1))


TOPS = ((0.01, 1.0), (0.02, 0.5), (0.02, 1.0), (0.03, 0.6))
HARD = tuple(topped(base, *top) for base in (power(0.14, 1), power(0.2, 2), power(0.8, 9)) for top in TOPS)
# thirty or forty other errors are enough to look sure, and one sample in seven holds none of the two on top
UNSEEN = tuple(topped(base, *top) for base in (power(0.3, 1), power(0.6, 2)) for top in TOPS[:2])


class Found(NamedTuple):
    """Share of runs that hold the truth, mean width over the true sampling range, errors it rests on.

    `spread`: mean standard error over the standard deviation of the estimates. `forced`: mean width over that of an
    interval that knows everything but the block it is in (`block_width`), where that is wider than the range.
    `mean_width`: in the metric's own units.
    """

    covered: float
    width: float
    errors: float
    spread: float
    forced: float
    mean_width: float


def keys_of(profile: Profile) -> list[Key]:
    """Every metric, points at two coverages, at half the risk, and at a TPR of 95%."""
    risk = round(float(np.mean(profile.chance(_GRID))), 6)
    points: list[Key] = [("risk_at_coverage", 0.5), ("risk_at_coverage", 0.8), ("coverage_at_risk", risk / 2)]
    return [*((name, None) for name in (*SMOOTH, *PARTIAL)), *points, ("fpr_at_tpr", 0.95)]


def blocks(profile: Profile, levels: int | None) -> tuple[Vector, Vector]:
    """Mass and errors of the population by level, or by a fine grid of ranks; most confident first."""
    m, f = np.full(len(_GRID), 1 / len(_GRID)), profile.chance(1 - _GRID) / len(_GRID)
    return (
        (m, f) if levels is None else (m.reshape(levels, -1).sum(axis=1), f.reshape(levels, -1).sum(axis=1))
    )


def block_width(profile: Profile, levels: int, key: Key, n: int) -> float:
    """Mean width that ties force on a 95% interval of a point.

    The point is that of the block where a share (of errors, of mass, of right samples) passes a number. An interval
    that keeps its word at either end may leave a further block out only where a test at 2.5% says on which side of the
    number that block's share lies, and no test says so more often than the share's own error allows. To the steps
    that it must take in, the error of the value within its block is added.
    """
    metric, at = key
    m, f = blocks(profile, levels)
    N, S = np.cumsum(m), np.cumsum(f)
    before, right = np.append(0.0, N[:-1]), np.append(0.0, (N - S)[:-1]) / (1 - S[-1])
    share, draws, value, size = {
        "coverage_at_risk": (S / N, n * N, N, np.full(levels, n)),
        "risk_at_coverage": (before, np.full(levels, n), S / N, n * N),
        "fpr_at_tpr": (right, np.full(levels, n * (1 - S[-1])), S / S[-1], np.full(levels, n * S[-1])),
    }[metric]
    reached = share <= at if metric == "coverage_at_risk" else share < at - 1e-9
    apart = np.abs(share - at) / np.maximum(np.sqrt(share * (1 - share) / draws), 1e-12)
    not_told = ndtr(ndtri(0.975) - apart)
    steps = np.abs(np.diff(value, prepend=0.0 if metric == "coverage_at_risk" else value[0]))
    here = max(int(np.flatnonzero(reached)[-1]), 0) if reached.any() else 0
    own = 2 * ndtri(0.975) * math.sqrt(value[here] * (1 - value[here]) / size[here])
    return float(steps @ not_told) + own


def true_rejection_ratio(m: Vector, f: Vector, first: float) -> float:
    """Gain over random rejection, from coverage `first` on, as a share of the largest possible gain.

    `m` and `f` are mass and errors of the population's blocks, most confident first; blocks come in evenly.
    """
    coverage = np.linspace(first, 1.0, 200_001)
    risk = float(f.sum())
    accepted = np.interp(coverage, np.append(0.0, np.cumsum(m)), np.append(0.0, np.cumsum(f)))
    actual = np.trapezoid(accepted, coverage)
    best = np.trapezoid(np.maximum(coverage - (1 - risk), 0.0), coverage)
    random = risk * (1 - first**2) / 2
    return float((random - actual) / (random - best))


@lru_cache
def true_values(profile: Profile, levels: int | None) -> dict[Key, float]:
    """Population values, by sums over blocks."""
    m, f = blocks(profile, levels)
    N, S = np.cumsum(m), np.cumsum(f)
    risk, right = float(S[-1]), m - f
    best = risk + (1 - risk) * math.log1p(-risk)
    aurc, auroc = float(np.sum(m * S / N)), float(np.sum(right * (risk - S + f / 2)) / (risk * (1 - risk)))
    found: dict[Key, float] = {
        ("aurc", None): aurc,
        ("augrc", None): float(np.sum(m * S)),
        ("risk", None): risk,
        ("oracle_aurc", None): best,
        ("e_aurc", None): aurc - best,
        ("naurc", None): (aurc - best) / (risk - best),
        ("auroc", None): auroc,
        ("prediction_rejection_ratio", None): 2 * auroc - 1,
        ("aupr_error", None): float(np.sum(f * (risk - S + f) / (1 - N + m)) / risk),
        ("aupr_success", None): float(np.sum(right * (N - S) / N) / (1 - risk)),
    }
    for low, high in ((0.7, 1.0), (0.2, 0.8)):
        inside = np.clip(np.minimum(N, high) - np.maximum(N - m, low), 0.0, None)
        found[f"aurc@{low:g}-{high:g}", None] = float(np.sum(inside * S / N)) / (high - low)
    found["prediction_rejection_ratio@0.5", None] = true_rejection_ratio(m, f, 0.5)
    for metric, at in keys_of(profile):
        if metric == "risk_at_coverage":
            k = int(np.searchsorted(N, at - 1e-9))
            found[metric, at] = float(S[k] / N[k])
        elif metric == "coverage_at_risk":
            found[metric, at] = float(np.max(np.where(at >= S / N, N, 0.0)))
        elif metric == "fpr_at_tpr":
            k = int(np.searchsorted((N - S) / (1 - risk), at - 1e-9))
            found[metric, at] = float(S[k] / risk)
    return found


def errors_behind(key: Key, truth: dict[Key, float], n: int, profile: Profile) -> float:
    """Errors expected among the samples that a number is made of; effective ones for an area between two coverages.

    An error at coverage c has the weight ln(high / max(c, low)) in that area, 0 above `high`: those just below it count
    for little, so that as many errors of equal weight as (sum w)^2 / sum w^2 would say as much.
    """
    metric, at = key
    if metric.startswith("aurc@"):
        low, high = (float(end) for end in metric.partition("@")[2].split("-"))
        coverage = _GRID[high > _GRID]
        weight = np.log(high / np.maximum(coverage, low))
        chance = profile.chance(1 - coverage) / len(_GRID)
        return n * float((weight @ chance) ** 2 / (weight**2 @ chance))
    if metric == "risk_at_coverage":
        return n * at * truth[key]
    return n * truth[key] * at if metric == "coverage_at_risk" else n * truth["risk", None]


def every_metric(
    profile: Profile,
    n: int,
    levels: int | None,
    runs: int,
    seed: int,
    weights: Callable[[np.random.Generator, int], Vector] | None = None,
    only: Sequence[str] | None = None,
) -> dict[Key, Found]:
    """Coverage and width of every metric's default interval; all of one sample from one sort of it."""
    rng = np.random.default_rng([seed, n, levels or 0, *profile.name.encode()])
    truth, keys = true_values(profile, levels), [k for k in keys_of(profile) if only is None or k[0] in only]
    metrics = [
        by_name(name).with_options(**({} if at is None else {ARGUMENT[name]: at})) for name, at in keys
    ]
    request = request_for(metrics)
    seen: dict[Key, list[tuple[float, ...]]] = {key: [] for key in keys}
    for _ in range(runs):
        wrong, g = sample(profile, n, levels, rng)
        w = None if weights is None else weights(rng, n)
        if not 0 < wrong.sum() < n:
            continue
        best = None if w is None else float(oracle_area(np, wrong * 1.0, w))
        evidence = gather_evidence(
            tables_from_samples(wrong, g, w), totals_from_samples(wrong, w, True), request, best
        )
        for key, metric in zip(keys, metrics):
            found = estimate_interval(metric, evidence)
            seen[key].append((found.estimate, found.low, found.high, found.standard_error))
    result = {}
    for key, rows in seen.items():
        value, low, high, error = np.asarray(rows).T
        range_ = np.diff(np.quantile(value, [0.025, 0.975]))[0]
        inside = np.mean((low - 1e-12 <= truth[key]) & (truth[key] <= high + 1e-12))
        width = float(np.mean(high - low) / range_) if range_ > 0 else math.inf
        deviation = float(np.std(value, ddof=1))
        spread = float(np.mean(error)) / deviation if deviation > 0 else math.inf
        tied = levels is not None and key[0] in ARGUMENT
        needed = max(range_, block_width(profile, levels, key, n)) if tied else range_
        forced = float(np.mean(high - low) / needed) if needed > 0 else math.inf
        result[key] = Found(
            covered=float(inside),
            width=width,
            errors=errors_behind(key, truth, n, profile),
            spread=spread,
            forced=forced,
            mean_width=float(np.mean(high - low)),
        )
    return result


# few of a kind -------------------------------------------------------------------------------------------

EXPECTED = (1, 2, 3, 5, 8)
FEW_METRICS = (
    *("auroc", "prediction_rejection_ratio", "aupr_error", "aupr_success"),
    *("fpr_at_tpr", "naurc", "risk"),
)


def rare(expected: float, n: int, shape: str, few_right: bool = False) -> Profile:
    """A few errors (or right samples) among n: anywhere, where they belong, on the wrong side, or 15% of them there."""
    density = {
        "anywhere": lambda b: np.ones_like(b),
        "square": lambda b: 3 * (1 - b) ** 2,
        "steep": lambda b: 10 * (1 - b) ** 9,
        "some on top": lambda b: 8.5 * (1 - b) ** 9 + np.where(b > 0.9, 1.5, 0.0),
        "very steep": lambda b: 31 * (1 - b) ** 30,
        "reversed": lambda b: 3 * b**2,
    }[shape]

    def chance(b: Vector) -> Vector:
        if few_right:
            return 1 - np.minimum(density(1 - b) * expected / n, 1.0)
        return np.minimum(density(b) * expected / n, 1.0)

    kind = "right" if few_right else "wrong"
    return Profile(f"{expected:g} {kind}, {shape}", chance, lambda c: np.full_like(c, np.nan))


RARE_SHAPES = ("anywhere", "square", "steep", "some on top", "very steep", "reversed")


def uneven(rng: np.random.Generator, n: int) -> Vector:
    """Weights of which a few are large."""
    return rng.lognormal(0, 1, n)


def fractions(rng: np.random.Generator, n: int) -> Vector:
    return rng.random(n)


def clustered_metric(
    profile: Profile, clusters: int, runs: int, seed: int, metric: str, heavy: bool = False, **options: float
) -> float:
    """Coverage of the interval that knows the clusters; `heavy`: of unequal sizes and with uneven weights."""
    rng = np.random.default_rng([seed, clusters, *profile.name.encode()])
    truth = true_values(profile, None)[metric, next(iter(options.values()), None)]
    hits = 0
    for _ in range(runs):
        sizes = rng.integers(1, 10, clusters) if heavy else np.full(clusters, 5)
        of = np.repeat(np.arange(clusters), sizes)
        b = rng.random(len(of))
        wrong = rng.random(clusters)[of] < profile.chance(b)
        w = uneven(rng, len(of)) if heavy else None
        hits += truth in interval(metric, wrong, b, clusters=of, sample_weight=w, **options)
    return hits / runs


def macro_covered(
    profile: Profile, n: int, runs: int, seed: int, metric: str, shared: bool = False, **options: float
) -> float:
    """Coverage of the mean over five groups; `shared`: every cluster has one sample in each group."""
    rng = np.random.default_rng([seed, n, *profile.name.encode()])
    truth = true_values(profile, None)[metric, next(iter(options.values()), None)]
    hits = 0
    groups = np.arange(n) % 5
    clusters = np.arange(n) // 5 if shared else None
    for _ in range(runs):
        b = rng.random(n)
        luck = np.repeat(rng.random(n // 5), 5) if shared else rng.random(n)
        hits += (
            truth
            in interval(
                metric, luck < profile.chance(b), b, groups=groups, clusters=clusters, **options
            ).macro
        )
    return hits / runs


def heavy_losses(rng: np.random.Generator, n: int) -> tuple[Vector, Vector]:
    """Losses with a long tail, larger where the confidence is low."""
    b = rng.random(n)
    return rng.lognormal(0, 1, n) * (1.2 - b), b


def heavy_covered(n: int, runs: int, seed: int, metric: str, **options: float) -> float:
    """Coverage for a loss with a long tail; the truth from four million draws."""
    import abstain

    rng = np.random.default_rng(seed)
    truth = float(
        abstain.metrics.by_name(metric)(*heavy_losses(np.random.default_rng(0), 4_000_000), **options)
    )
    return float(np.mean([truth in interval(metric, *heavy_losses(rng, n), **options) for _ in range(runs)]))


# differences ---------------------------------------------------------------------------------------------


def as_good(profile: Profile, share: float, chance: float, levels: int | None = None) -> Profile:
    """A model of the same AURC that is wrong in its most confident share."""
    want = true_values(profile, levels)["aurc", None]
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        found = topped(power(middle, 2), share, chance)
        low, high = (middle, high) if true_values(found, levels)["aurc", None] < want else (low, middle)
    return found._replace(name=f"as good, top {share:.0%} wrong by {chance:g}")


KINDS = ("plain", "ties", "weights", "clusters")
UNLIKE = ((0.02, 0.5), (0.03, 0.3))


def verdicts(
    first: Profile, second: Profile, n: int, runs: int, seed: int, kind: str = "plain"
) -> tuple[float, float]:
    """Share of runs with p < 5%, and without a verdict; `kind`: plain, ties, weights or clusters."""
    rng = np.random.default_rng([seed, n, *kind.encode(), *second.name.encode()])
    hits = np.zeros(2)
    for _ in range(runs):
        la, ga, lb, gb = pair(first, second, n, rng)
        more: dict[str, Vector] = {}
        if kind == "ties":
            ga, gb = np.floor(20 * ga), np.floor(20 * gb)
        elif kind == "weights":
            more = {"sample_weight": uneven(rng, n)}
        elif kind == "clusters":  # five samples share their luck
            of = np.repeat(np.arange(n // 5), 5)
            ga = rng.random(n)
            gb = np.argsort(np.argsort(ga + 0.1 * rng.standard_normal(n))) / n + 0.5 / n
            luck = rng.random((2, n // 5))
            luck[1] = np.where(rng.random(n // 5) < 0.5, luck[0], luck[1])
            la, lb, more = luck[0][of] < first.chance(ga), luck[1][of] < second.chance(gb), {"clusters": of}
        found = paired_difference(la, ga, lb, gb, **more)
        hits += found.p_value < 0.05, bool(found.note)
    return float(hits[0] / runs), float(hits[1] / runs)


def family_of_ten(profile: Profile, other: Profile, n: int, runs: int, seed: int) -> float:
    """Share of runs in which `compare` tells any two of ten models apart, five of either kind, all equally good."""
    rng = np.random.default_rng([seed, n])
    hits = 0
    for _ in range(runs):
        models = {}
        for k in range(5):
            data = pair(profile, other, n, rng)
            models |= {f"a{k}": data[:2], f"b{k}": data[2:]}
        hits += any(p.different for p in compare(models).pairs)
    return hits / runs


def difference_covered(first: Profile, second: Profile, n: int, runs: int, seed: int, alike: float) -> float:
    """Coverage of the true difference of AURC."""
    rng = np.random.default_rng([seed, n])
    truth = true_values(first, None)["aurc", None] - true_values(second, None)["aurc", None]
    found = (paired_difference(*pair(first, second, n, rng, alike)) for _ in range(runs))
    return float(np.mean([x.low <= truth <= x.high for x in found]))


# tables ------------------------------------------------------------------------------------------------


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def table(title: str, head: list[str], lines: list[list[str]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{' --- |' * len(head)}", flush=True)
    for line in lines:
        print(f"| {' | '.join(line)} |", flush=True)


def aurc_table(runs: int, seed: int) -> None:
    lines = []
    for profile in PROFILES:
        for n in SIZES:
            errors = n * float(profile.accepted(np.asarray(1.0)))
            shares = [percent(covered(profile, n, levels, runs, seed)) for levels in LEVELS]
            lines.append([f"`{profile.name}`", f"{n:,}", f"{errors:.0f}", *shares])
    head = ["chance of error at rank b", "n", "errors expected", "continuous (%)", "20 levels (%)"]
    table(f"AURC, default interval, {runs:,} runs a cell", head, lines)


def few_table(runs: int, seed: int) -> None:
    lines = []
    for profile in (PROFILES[0], PROFILES[3], PROFILES[4]):
        for errors in (3, 5, 10, 20):
            n = round(errors / float(profile.accepted(np.asarray(1.0))))
            lines.append(
                [f"`{profile.name}`", str(n), str(errors), percent(covered(profile, n, None, runs, seed))]
            )
    table(
        f"AURC with few errors, {runs:,} runs a cell",
        ["chance of error", "n", "errors expected", "covered (%)"],
        lines,
    )


def kinds_table(runs: int, seed: int) -> None:
    for few_right in (False, True):
        for n in (100, 500, 2000):
            lines = []
            for shape in RARE_SHAPES:
                for expected in EXPECTED:
                    profile = rare(expected, n, shape, few_right)
                    found = every_metric(profile, n, None, runs, seed, only=FEW_METRICS)
                    cells = [f"{percent(x.covered)} ({x.mean_width:.2g})" for x in found.values()]
                    lines.append([shape, str(expected), *cells])
            kind = "right samples" if few_right else "errors"
            head = ["where they are", f"{kind} expected", *(name for name, _ in found)]
            table(f"Few {kind}, n = {n:,}: covered (%) and mean width, {runs:,} runs a cell", head, lines)


def metric_table(runs: int, seed: int) -> None:
    cells = [(p, n) for p in (PROFILES[0], LINE) for n in (200, 1000)]
    columns = [every_metric(p, n, None, runs, seed) for p, n in cells]
    keys = [key for key in keys_of(PROFILES[0]) if key[0] not in ("aurc", "coverage_at_risk")]
    lines = [
        [name if at is None else f"{name} {at:g}", *(percent(c[name, at].covered) for c in columns)]
        for name, at in keys
    ]
    head = ["metric", *(f"`{p.name}`, n = {n}" for p, n in cells)]
    table(f"Other metrics, default interval, {runs:,} runs a cell", head, lines)


def method_table(runs: int, seed: int) -> None:
    lines = []
    for method in ("log", "normal", "jackknife", "bootstrap", "bca"):
        count = runs if method in ("log", "normal", "jackknife") else max(200, runs // 10)
        row = [percent(covered(p, 200, None, count, seed, method=method, replicates=1000)) for p in PROFILES]
        lines.append([f"{method} ({count:,} runs)", *row])
    table("AURC by method, n = 200, continuous", ["method", *(f"`{p.name}`" for p in PROFILES)], lines)


def cluster_table(runs: int, seed: int) -> None:
    lines = []
    for profile in (PROFILES[0], PROFILES[3]):
        for clusters in (50, 200):
            shares = [percent(x) for x in clusters_covered(profile, clusters, runs, seed)]
            lines.append([f"`{profile.name}`", str(clusters), *shares])
    head = ["chance of error", "clusters of ten", "`clusters=` given (%)", "naive (%)"]
    table(f"AURC with errors shared within clusters, {runs:,} runs a cell", head, lines)


def crossed_table(runs: int, seed: int) -> None:
    lines = []
    for profile in (PROFILES[0], PROFILES[3]):
        for places, weeks in ((20, 30), (30, 50), (52, 80)):
            for title, metric in (("AURC", "aurc"), ("risk", "risk")):
                of_metric, of_difference = crossed_covered(profile, places, weeks, runs, seed, metric)
                lines.append([f"`{profile.name}`", f"{places} x {weeks}", title, *map(percent, of_metric)])
            lines.append(
                [f"`{profile.name}`", f"{places} x {weeks}", "difference", *map(percent, of_difference)]
            )
    head = ["chance of error", "places x weeks", "of", "both (%)", "place (%)", "week (%)", "none (%)"]
    table(f"Samples that share a place or a week, {runs:,} runs a cell", head, lines)


WORSE = Profile(".6(1-b)^1.6", lambda b: 0.6 * (1 - b) ** 1.6, lambda c: 0.6 * c**2.6 / 2.6)


def paired_table(runs: int, seed: int) -> None:
    lines = []
    for first, second in ((PROFILES[0], PROFILES[0]), (PROFILES[3], PROFILES[3]), (PROFILES[0], WORSE)):
        for n in (200, 1000, 5000):
            shares = [percent(x) for x in rejections(first, second, n, runs, seed)]
            gap = true_values(second, None)["aurc", None] - true_values(first, None)["aurc", None]
            lines.append([f"`{first.name}` and `{second.name}`", f"{gap:.4f}", f"{n:,}", *shares])
    head = ["A and B", "true difference", "n", "paired: p < 5% (%)", "unpaired on the same data (%)"]
    table(f"Differences of AURC, {runs:,} runs a cell", head, lines)


def error_table(runs: int, seed: int) -> None:
    lines = []
    for profile in PROFILES:
        row = [f"{error_ratio(profile, n, lev, runs, seed):.3f}" for n in (500, 2000) for lev in LEVELS]
        lines.append([f"`{profile.name}`", *row])
    head = [
        "chance of error",
        *(f"n = {n}, {'20 levels' if lev else 'continuous'}" for n in (500, 2000) for lev in LEVELS),
    ]
    table(f"Mean analytic standard error / standard deviation over {runs:,} samples", head, lines)


def band_table(runs: int, seed: int) -> None:
    lines = [
        [f"`{p.name}`", *(percent(band_covered(p, n, runs, seed)) for n in (200, 1000))] for p in PROFILES
    ]
    table(
        f"Whole curve inside the 95% band, {runs:,} runs a cell",
        ["chance of error", "n = 200", "n = 1000"],
        lines,
    )


def width_table(runs: int, seed: int) -> None:
    for profile in THREE:
        for levels in LEVELS:
            lines: dict[Key, list[str]] = {}
            for n in SIZES:
                for key, found in every_metric(profile, n, levels, runs, seed).items():
                    few = "" if found.errors >= 15 else " (few)"
                    beside = "" if found.forced == found.width else f" ({found.forced:.2f})"
                    lines.setdefault(key, []).append(
                        f"{percent(found.covered)}, {found.width:.2f}{beside}{few}"
                    )
            ties = "continuous" if levels is None else f"{levels} levels"
            rows = [[name if at is None else f"{name} {at:g}", *row] for (name, at), row in lines.items()]
            table(
                f"`{profile.name}`, {ties}: covered (%), width over the true range (over what ties force)",
                ["metric", *map(str, SIZES)],
                rows,
            )


AREAS = ("aurc", "e_aurc", "naurc")


def hard_table(runs: int, seed: int) -> None:
    lines = []
    for profile in (*(as_good(PROFILES[0], *x) for x in UNLIKE), *HARD, *UNSEEN):
        found = every_metric(profile, 200, None, 8 * runs, seed, only=AREAS)
        lines.append([f"`{profile.name}`", *(percent(found[m, None].covered) for m in AREAS)])
    table(f"Confident errors, n = 200, {8 * runs:,} runs a cell", ["chance of error", *AREAS], lines)
    lines = []
    for kind in KINDS:
        for n in (200, 1000):
            for top in UNLIKE:
                other = as_good(PROFILES[0], *top, 20 if kind == "ties" else None)
                shares = verdicts(PROFILES[0], other, n, runs, seed, kind)
                lines.append([kind, f"{n:,}", f"`{other.name}`", *map(percent, shares)])
    head = ["kind", "n", "other model", "p < 5% (%)", "no verdict (%)"]
    table(f"`{PROFILES[0].name}` and a model as good, {runs:,} runs a cell", head, lines)
    lines = [
        [f"`{other.name}`", percent(family_of_ten(PROFILES[0], other, 200, runs, seed))]
        for other in (as_good(PROFILES[0], *UNLIKE[0]), PROFILES[0])
    ]
    head = ["the other five", "any two told apart (%)"]
    table(f"Ten models as good, five of them `{PROFILES[0].name}`, {runs:,} runs a cell", head, lines)


TABLES: dict[str, tuple[Callable[[int, int], None], float]] = {
    "aurc": (aurc_table, 1),
    "few": (few_table, 0.5),
    "kinds": (kinds_table, 0.2),
    "metrics": (metric_table, 0.5),
    "methods": (method_table, 0.5),
    "clusters": (cluster_table, 1),
    "crossed": (crossed_table, 0.5),
    "paired": (paired_table, 1),
    "errors": (error_table, 0.2),
    "band": (band_table, 0.1),
    "width": (width_table, 0.2),
    "hard": (hard_table, 0.2),
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--only", nargs="*", choices=list(TABLES), default=list(TABLES))
    given = parser.parse_args()
    for name in given.only:
        make, part = TABLES[name]
        make(max(200, int(given.runs * part)), given.seed)
