"""How often does the release gate pass a model that is exactly at the margin? Seeded simulation, as a markdown table.

    python benchmarks/gate.py                  2,000 runs a line
    python benchmarks/gate.py --runs 100

The chance of an error at rank b is floor + height (1 - b)^power, whose AURC is floor + height / (power + 1)^2. The
margin is the true difference between two such models, so that a gate at 95% must pass at most 5% of them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from interval_coverage import Profile, pair, table

from abstain.evaluation import compare, judge, two_sided_level

SIZES = (500, 2000, 8000)


def profile(floor: float, height: float, power: float) -> Profile:
    """A profile with the chance of an error floor + height (1 - b)^power."""
    return Profile(
        f"{floor:g}+{height:g}(1-b)^{power:g}" if floor else f"{height:g}(1-b)^{power:g}",
        lambda b: floor + height * (1 - b) ** power,
        lambda c: floor * c + height * c ** (power + 1) / (power + 1),
    )


POPULATIONS = {  # (floor, height, power) of the old and of the new model
    "worse": ((0.0, 0.6, 2.0), (0.0, 0.6, 1.4)),
    "worse, confident errors": ((0.05, 0.5, 3.0), (0.05, 0.5, 2.0)),
    "better": ((0.0, 0.6, 1.4), (0.0, 0.6, 2.0)),
    "equal": ((0.0, 0.6, 2.0), (0.0, 0.6, 2.0)),
}


def true_area(floor: float, height: float, power: float) -> float:
    """AURC of such a model."""
    return floor + height / (power + 1) ** 2


def passes(population: str, n: int, runs: int, seed: int) -> dict[str, float]:
    """Share of runs that pass, by question; for each question whose margin the population is exactly at."""
    old, new = POPULATIONS[population]
    difference = true_area(*new) - true_area(*old)
    rng = np.random.default_rng([seed, n, *population.encode()])
    questions = {"superior": 0.0}
    if difference > 0:
        questions = {"non_inferior": difference, "equivalent": difference}
    elif difference < 0:
        questions = {"superior": -difference, "equivalent": -difference}
    counts = dict.fromkeys(questions, 0)
    for _ in range(runs):
        loss_old, g_old, loss_new, g_new = pair(profile(*old), profile(*new), n, rng)
        comparison = compare(
            {"old": (loss_old, g_old), "new": (loss_new, g_new)}, level=two_sided_level(0.95)
        )
        for question, margin in questions.items():
            verdict = judge(comparison, "old", "new", margin=margin, question=question)
            counts[question] += verdict.verdict == "pass"
    return {question: count / runs for question, count in counts.items()}


def gate_table(runs: int, seed: int) -> None:
    lines = []
    for population in POPULATIONS:
        shares = [passes(population, n, runs, seed) for n in SIZES]
        lines += [
            [population, question.replace("_", "-"), *(f"{100 * share[question]:.1f}" for share in shares)]
            for question in shares[0]
        ]
    head = ["new model", "question", *(f"n = {n:,} (%)" for n in SIZES)]
    table(f"Models exactly at the margin that pass, {runs:,} runs a line", head, lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=2026)
    arguments = parser.parse_args()
    gate_table(arguments.runs, arguments.seed)
