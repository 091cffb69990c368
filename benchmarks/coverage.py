"""Does a 95% interval hold the truth 95% of the time? Seeded simulation, printed as markdown tables.

    python benchmarks/coverage.py                 every table, 10,000 runs a setting
    python benchmarks/coverage.py --runs 1000 --only clusters paired

Confidence has rank b ~ U(0, 1) and the chance of an error is a profile p(b), so every truth is known: the
loss accepted at coverage c is F(c), the integral of p over the top share c. All intervals are made by the
public functions.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from abstain.inference import curve_band, interval, paired_difference, unpaired_difference

Vector = np.ndarray


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


def true_aurc(profile: Profile, levels: int | None = None) -> float:
    """Mean selective risk over thresholds; with `levels` ties of equal mass."""
    c = _GRID if levels is None else np.arange(1, levels + 1) / levels
    return float(np.mean(profile.accepted(c) / c))


def true_value(metric: str, profile: Profile) -> float:
    """Population value without ties."""
    risk, aurc, augrc = (
        float(profile.accepted(np.asarray(1.0))),
        true_aurc(profile),
        float(np.mean(profile.accepted(_GRID))),
    )
    best = risk + (1 - risk) * math.log1p(-risk)
    auroc = 1 - (augrc - risk**2 / 2) / (risk * (1 - risk))
    return {
        "aurc": aurc,
        "augrc": augrc,
        "risk": risk,
        "oracle_aurc": best,
        "e_aurc": aurc - best,
        "naurc": (aurc - best) / (risk - best),
        "auroc": auroc,
        "prediction_rejection_ratio": 2 * auroc - 1,
        "risk_at_coverage": float(profile.accepted(np.asarray(0.7))) / 0.7,
    }[metric]


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
    truth = true_aurc(profile, levels) if metric == "aurc" else true_value(metric, profile)
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
    truth = true_aurc(profile)
    hits = np.zeros(2)
    for _ in range(runs):
        wrong, b, of = clustered_sample(profile, clusters, 10, rng)
        hits += truth in interval("aurc", wrong, b, clusters=of), truth in interval("aurc", wrong, b)
    return float(hits[0] / runs), float(hits[1] / runs)


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
    first: Profile, second: Profile, n: int, runs: int, seed: int, metric: str = "aurc"
) -> tuple[float, float]:
    """Share of runs with p < 5%: paired, and unpaired on the same data (which throws the pairing away)."""
    rng = np.random.default_rng([seed, n, *first.name.encode(), *second.name.encode()])
    hits = np.zeros(2)
    for _ in range(runs):
        data = pair(first, second, n, rng)
        hits += (
            paired_difference(*data, metric=metric).p_value < 0.05,
            unpaired_difference(*data, metric=metric).p_value < 0.05,
        )
    return float(hits[0] / runs), float(hits[1] / runs)


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


def metric_table(runs: int, seed: int) -> None:
    names = ("augrc", "risk", "oracle_aurc", "e_aurc", "naurc", "auroc", "prediction_rejection_ratio")
    lines = []
    for name in names:
        row = [
            percent(covered(p, n, None, runs, seed, name))
            for p in (PROFILES[0], PROFILES[3])
            for n in (200, 1000)
        ]
        lines.append([name, *row])
    few = max(200, runs // 10)
    row = [
        percent(covered(p, n, None, few, seed, "risk_at_coverage", coverage=0.7, replicates=500))
        for p in (PROFILES[0], PROFILES[3])
        for n in (200, 1000)
    ]
    lines.append([f"risk_at_coverage 0.7 ({few:,} runs)", *row])
    head = ["metric", *(f"`{p.name}`, n = {n}" for p in (PROFILES[0], PROFILES[3]) for n in (200, 1000))]
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


WORSE = Profile(".6(1-b)^1.6", lambda b: 0.6 * (1 - b) ** 1.6, lambda c: 0.6 * c**2.6 / 2.6)


def paired_table(runs: int, seed: int) -> None:
    lines = []
    for first, second in ((PROFILES[0], PROFILES[0]), (PROFILES[3], PROFILES[3]), (PROFILES[0], WORSE)):
        for n in (200, 1000, 5000):
            shares = [
                percent(x)
                for x in rejections(first, second, n, runs if n < 5000 else max(200, runs // 5), seed)
            ]
            gap = true_aurc(second) - true_aurc(first)
            lines.append([f"`{first.name}` and `{second.name}`", f"{gap:.4f}", f"{n:,}", *shares])
    head = ["A and B", "true difference", "n", "paired: p < 5% (%)", "unpaired on the same data (%)"]
    table(f"Differences of AURC, {runs:,} runs a cell (a fifth of that at n = 5,000)", head, lines)


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


TABLES: dict[str, tuple[Callable[[int, int], None], float]] = {
    "aurc": (aurc_table, 1),
    "few": (few_table, 0.5),
    "metrics": (metric_table, 0.5),
    "methods": (method_table, 0.5),
    "clusters": (cluster_table, 1),
    "paired": (paired_table, 1),
    "errors": (error_table, 0.2),
    "band": (band_table, 0.1),
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
