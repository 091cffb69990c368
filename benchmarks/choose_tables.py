"""Compute the tables of docs/choose.md and write the page.

    python benchmarks/choose_tables.py

Every number comes from `abstain.theory`: no simulation, no data.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

from abstain import theory

POPULATIONS = {
    "steep, .5(1-b)^9": "steep",
    "quadratic, .6(1-b)^2": "quadratic",
    "root, .3(1-b)^.5": "root",
    "floor, .05+.5(1-b)^3": "floor",
    "unrelated, .2": "unrelated",
}
SIZES = (8, 32, 128, 512, 2048, 10_000)
TEMPLATE = Path(__file__).with_name("choose_template.md")


@functools.cache
def expected(n: int, name: str) -> theory.ExpectedBias:
    return theory.expected_bias(n, name)


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def head(names: list[str]) -> list[str]:
    return [row(names), row(["---", *["---:"] * (len(names) - 1)])]


def population_table() -> str:
    lines = head(
        [
            "profile (chance of an error given b)",
            "risk",
            "AURC",
            "AUGRC",
            "standard deviation of AURC at n = 1,000",
        ]
    )
    for title, name in POPULATIONS.items():
        p = theory.populations.NAMED[name]
        sd = theory.expected_bias(1000, p).standard_deviation
        lines.append(row([title, f"{p.risk:.4g}", f"{p.aurc:.4g}", f"{p.augrc:.4g}", f"{sd:.2g}"]))
    return "\n".join(lines)


def bias_table(estimator: str) -> str:
    """Bias in percent of AURC, and in brackets in percent of the estimate's standard deviation."""
    lines = head(["profile", *(f"n = {n:,}" for n in SIZES)])
    for title, name in POPULATIONS.items():
        cells = []
        for n in SIZES:
            answer = expected(n, name)
            bias = answer.bias[estimator]
            cells.append(
                f"{_percent(bias / answer.aurc)} ({_percent(abs(bias) / answer.standard_deviation)})"
            )
        lines.append(row([title.partition(",")[0], *cells]))
    return "\n".join(lines)


def _percent(share: float) -> str:
    if abs(share) < 5e-5:
        return "0%"
    return f"{100 * share:.2g}%" if abs(share) < 0.1 else f"{100 * share:.0f}%"


def size_table() -> str:
    lines = head(["profile", *(f"width {w:.0%} of AURC" for w in (0.5, 0.2, 0.1, 0.05))])
    for title, name in POPULATIONS.items():
        plans = [theory.plan_sample_size(width=w, curve=name, relative=True) for w in (0.5, 0.2, 0.1, 0.05)]
        lines.append(row([title.partition(",")[0], *(f"{p.n:,}" for p in plans)]))
    return "\n".join(lines)


def apart_table() -> str:
    """Samples to tell two models apart whose AURC differs by so much, at two strengths of agreement."""
    gaps = (0.2, 0.1, 0.05, 0.02)
    lines = head(["profile", *(f"{g:.0%} apart" for g in gaps)])
    for title, name in POPULATIONS.items():
        answer = theory.expected_bias(1, name)
        cells = []
        for gap in gaps:  # two models whose errors are half shared: the variance of the difference is sigma^2
            needed = theory.samples_to_tell_apart(gap * answer.aurc, answer.standard_deviation, 1)
            cells.append(f"{float(f'{needed:.2g}'):,.0f}")
        lines.append(row([title.partition(",")[0], *cells]))
    return "\n".join(lines)


def page() -> str:
    text = TEMPLATE.read_text()
    tables = {
        "populations": population_table(),
        "harmonic": bias_table("harmonic"),
        "log": bias_table("log"),
        "loo": bias_table("loo"),
        "sele": bias_table("sele"),
        "sizes": size_table(),
        "apart": apart_table(),
    }
    for name, table in tables.items():
        text = text.replace(f"<!-- table: {name} -->", table)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/choose.md"))
    given = parser.parse_args()
    given.output.write_text(page())
    print(f"{given.output} written")


if __name__ == "__main__":
    main()
