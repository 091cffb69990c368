"""How often is a comparison decided that is looked at while samples come in? Seeded simulation, as markdown tables.

    python benchmarks/anytime.py                  every table, 2,000 runs a line
    python benchmarks/anytime.py --runs 100 --only equal

Populations are those of interval_coverage.py beside this file. There are 25 looks from 200 to 6,000 samples, each by
the factor 1.15 later than the one before; the planned size is 6,000.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from interval_coverage import PROFILES, Profile, clustered_sample, interval, pair, table

from abstain.inference import Difference, paired_difference

PLANNED = 6000
LOOKS = tuple(int(n) for n in np.geomspace(200, PLANNED, 25).round(-1))
POPULATIONS = ("plain", "confident errors", "ties", "clusters")


def equal_models(population: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Losses and confidences of two models of the same population on 6,000 samples, in the order in which they come.

    "ties" has 20 different confidences; "clusters" has ten samples each that are right or wrong together.
    """
    if population == "clusters":
        wrong_a, b_a, cluster = clustered_sample(PROFILES[0], PLANNED // 10, 10, rng)
        wrong_b, b_b, _ = clustered_sample(PROFILES[0], PLANNED // 10, 10, rng)
        return {"loss_a": wrong_a, "g_a": b_a, "loss_b": wrong_b, "g_b": b_b, "clusters": cluster}
    profile = PROFILES[3] if population == "confident errors" else PROFILES[0]
    wrong_a, b_a, wrong_b, b_b = pair(profile, profile, PLANNED, rng)
    if population == "ties":
        b_a = np.floor(20 * b_a)
        b_b = np.floor(20 * b_b)
    return {"loss_a": wrong_a, "g_a": b_a, "loss_b": wrong_b, "g_b": b_b}


def look(samples: dict[str, np.ndarray], n: int, anytime: bool = True) -> Difference:
    """The difference after the first n samples."""
    first = {name: values[:n] for name, values in samples.items()}
    planned = PLANNED if anytime else None
    return paired_difference(
        first["loss_a"],
        first["g_a"],
        first["loss_b"],
        first["g_b"],
        clusters=first.get("clusters"),
        anytime=anytime,
        planned=planned,
    )


def share_decided(population: str, runs: int, seed: int) -> tuple[float, float]:
    """Shares of runs of equal models that are ever decided at 5%: by intervals for every look, and for one look.

    The intervals for one look are tried in every tenth run only.
    """
    rng = np.random.default_rng([seed, *population.encode()])
    decided = 0
    decided_by_one_look = 0
    for run in range(runs):
        samples = equal_models(population, rng)
        decided += any(look(samples, n).significant for n in LOOKS)
        if run % 10 == 0:
            decided_by_one_look += any(look(samples, n, anytime=False).significant for n in LOOKS)
    return decided / runs, decided_by_one_look / math.ceil(runs / 10)


def width_ratio(population: str, runs: int, seed: int) -> float:
    """Width at the planned size over that of the interval for one look, the mean over runs."""
    rng = np.random.default_rng([seed, 1, *population.encode()])
    ratios = []
    for _ in range(runs):
        samples = equal_models(population, rng)
        for_every_look = look(samples, PLANNED)
        for_one_look = look(samples, PLANNED, anytime=False)
        ratios.append((for_every_look.high - for_every_look.low) / (for_one_look.high - for_one_look.low))
    return float(np.mean(ratios))


def interval_ever_wrong(profile: Profile, runs: int, seed: int) -> float:
    """Share of runs in which the interval of AURC, looked at 25 times, ever misses the truth."""
    from interval_coverage import true_values

    truth = true_values(profile, None)["aurc", None]
    rng = np.random.default_rng([seed, 2, *profile.name.encode()])
    misses = 0
    for _ in range(runs):
        b = rng.random(PLANNED)
        wrong = rng.random(PLANNED) < profile.chance(b)
        limits = [interval("aurc", wrong[:n], b[:n], anytime=True, planned=PLANNED) for n in LOOKS]
        misses += any(truth not in limit for limit in limits)
    return misses / runs


BETTER = tuple(
    Profile(f".6(1-b)^{p:g}", lambda b, p=p: 0.6 * (1 - b) ** p, lambda c, p=p: 0.6 * c ** (p + 1) / (p + 1))
    for p in (1.8, 1.6, 1.4)
)


def stopping_sizes(other: Profile, runs: int, seed: int, largest: int = 20_000) -> np.ndarray:
    """Samples at which each run decides that `other` differs from the first profile; infinite if not by `largest`.

    There is a look after every 5% more samples, from 200 on.
    """
    rng = np.random.default_rng([seed, 3, *other.name.encode()])
    sizes = np.full(runs, np.inf)
    for run in range(runs):
        wrong_a, b_a, wrong_b, b_b = pair(PROFILES[0], other, largest, rng)
        samples = {"loss_a": wrong_a, "g_a": b_a, "loss_b": wrong_b, "g_b": b_b}
        n = 200
        while n <= largest:
            if look(samples, n).significant:
                sizes[run] = n
                break
            n = int(n * 1.05)
    return sizes


def fixed_size(other: Profile, seed: int, power: float) -> int:
    """Samples of a design with one look that finds the difference with this probability at 5%."""
    from scipy.special import ndtri

    rng = np.random.default_rng([seed, 4, *other.name.encode()])
    large = 200_000
    wrong_a, b_a, wrong_b, b_b = pair(PROFILES[0], other, large, rng)
    difference = paired_difference(wrong_a, b_a, wrong_b, b_b)
    deviation = difference.standard_error * math.sqrt(large)
    return math.ceil(((ndtri(0.975) + ndtri(power)) * deviation / difference.difference) ** 2)


def equal_table(runs: int, seed: int) -> None:
    lines = []
    for population in POPULATIONS:
        shares = share_decided(population, runs, seed)
        ratio = width_ratio(population, max(20, runs // 20), seed)
        lines.append([population, *(f"{100 * share:.1f}" for share in shares), f"{ratio:.2f}"])
    head = ["population", "`anytime=True` (%)", "for one look (%)", "width at 6,000"]
    table(f"Equal models, ever decided in 25 looks, {runs:,} runs a line", head, lines)


def stop_table(runs: int, seed: int) -> None:
    lines = []
    for other in BETTER:
        sizes = stopping_sizes(other, runs // 10, seed)
        quartiles = [f"{size:,.0f}" for size in np.quantile(sizes, (0.25, 0.5, 0.75), method="nearest")]
        fixed = [f"{fixed_size(other, seed, power):,}" for power in (0.8, 0.95)]
        lines.append([f"`{other.name}`", *quartiles, *fixed])
    head = ["other model", "first quarter stops at", "median", "third quarter", "one look, power 80%", "95%"]
    table(f"True differences from `{PROFILES[0].name}`, samples, {runs // 10:,} runs a line", head, lines)


TABLES = {"equal": equal_table, "stop": stop_table}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--only", nargs="*", choices=list(TABLES), default=list(TABLES))
    arguments = parser.parse_args()
    for name in arguments.only:
        TABLES[name](arguments.runs, arguments.seed)
