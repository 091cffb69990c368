"""`abstain threshold FILE`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from abstain import Threshold, _tables, scores, select_threshold
from abstain.cli.main import INFEASIBLE
from abstain.cli.options import (
    Documented,
    Output,
    ReadOptions,
    fraction,
    output,
    percent_hint,
    reading,
    shared,
)
from abstain.cli.screen import as_csv, deliver, show_notes, working, write
from abstain.formats import Predictions
from abstain.formats.limits import shown, values_of

_FACTS = ("value", "form", "target", "method", "delta", "n", "coverage", "risk", "risk_upper", "guarantee")


@click.command("threshold", cls=Documented)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--risk", type=click.FloatRange(min=0, min_open=True), help="Largest risk of the accepted.")
@fraction("--coverage", "Smallest share to accept.")
@click.option("--cost", type=click.FloatRange(min=0), help="What a rejection costs, an error costing 1.")
@fraction("--delta", "Chance that the promise fails.", 0.05)
@click.option("--method", type=click.Choice(["ltt", "sgr", "crc", "empirical"]), default="ltt",
              help="How the promise is made.")  # fmt: skip
@shared("score", "loss")
@click.option("--bounded", type=(float, float), default=(0.0, 1.0), metavar="LOW HIGH",
              help="Losses lie between these, known beforehand.")  # fmt: skip
@click.option("--groups", "--per-group", "groups", is_flag=True,
              help="One threshold for each group, all promises at once.")  # fmt: skip
@click.option("--save", metavar="FILE", type=click.Path(dir_okay=False),
              help="Keep the rule and its promise as JSON.")  # fmt: skip
@click.option("--check", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
              help="Hold this data against a saved rule.")  # fmt: skip
@reading
@output
def command(file: str, how: ReadOptions, out: Output, score: str, loss: str, groups: bool, save: str | None,
            check: str | None, **asked: Any) -> None:  # fmt: skip
    """Choose the threshold below which to abstain; say what it promises.

    FILE is calibration data: not used to train the model. Accept a sample when its confidence is at least
    the threshold.

    Examples:
      abstain threshold preds.npz --risk 0.05
          risk of the accepted at most 5%, with probability 95%
      abstain threshold answers.csv --risk 0.1 --delta 0.01
      abstain threshold preds.npz --coverage 0.8
      abstain threshold preds.npz --cost 0.2
          a rejection costs 0.2, an error 1
      abstain threshold preds.npz --risk 0.05 --save rule.json
      abstain threshold later.npz --check rule.json
          does the promise still hold?

    When no threshold can be certified, that is the answer: exit code 4.
    """
    if sum(given is not None for given in (asked["risk"], asked["coverage"], asked["cost"], check)) != 1:
        raise click.UsageError("give one of --risk, --coverage, --cost (or --check).")
    (low, high), risk = asked["bounded"], asked["risk"]
    if risk is not None and not low < risk < high:
        raise click.UsageError(
            f"--risk must lie between {low:g} and {high:g}, the bounds of the loss.{percent_hint(risk)}"
        )
    with working(f"reading {shown(file)}"):
        whole = how.read(file)
    read = whole.answered()
    away = whole.n - read.n
    notes = [f"{away:,} abstained samples left out: coverage is a share of the answered."] if away else []
    if groups and read.groups is None:
        raise click.UsageError("--groups needs a column of groups; name it with --column groups=NAME.")
    if check:
        hold_against(check, read, score, loss, out, notes)
        return
    with working(f"choosing among {read.n:,} samples"), values_of(file):
        result = select_threshold(
            *read.samples(score, loss), **asked, groups=read.group_labels() if groups else None,
            sample_weight=read.sample_weight,
        )  # fmt: skip
    if read.kind != "confidence" and (known := in_words(result, score)):
        notes = [" ".join([known, *notes])]
    rows = [{"group": str(g), **{name: getattr(t, name) for name in _FACTS}} for g, t in parts(result, "all")]
    deliver(
        out, result, lambda: "\n".join("none" if r["value"] is None else repr(r["value"]) for r in rows),
        lambda on: draw_facts(on, result, notes),
        csv=lambda: as_csv({name: [row[name] for row in rows] for name in rows[0]}),
        latex=lambda: latex(rows),
    )  # fmt: skip
    if save:
        write(save, result.to_json())
    if not result.feasible:
        click.get_current_context().exit(INFEASIBLE)


def parts(result: Any, alone: str) -> list[tuple[Any, Threshold]]:
    """The threshold of each group, or the one of all under a name of its own."""
    return list(getattr(result, "thresholds", {alone: result}).items())


def in_words(result: Any, score: str) -> str:
    """The rule is in the score's rank key, which does not saturate; people know another number."""
    values = [t.value for _, t in parts(result, "") if t.value is not None]
    if not scores.by_name(score).saturates or not values or min(values) == float("-inf"):
        return ""
    known = ", ".join(f"{float(scores.display(score, v)):.4g}" for v in values)
    return f"The rule is in the rank key of {score}, which does not saturate; as a plain {score}: {known}."


def latex(rows: list[dict[str, Any]]) -> str:
    names = ("group", "value", "coverage", "risk", "risk_upper", "n")
    texts = {name: [row[name] for row in rows] for name in names}
    return _tables.latex(
        {
            name.replace("_", " "): [
                str(v) if isinstance(v, (str, int)) else _tables.number(v) for v in values
            ]
            for name, values in texts.items()
        }
    )


def draw_facts(on: Console, result: Any, notes: list[str]) -> None:
    """What was chosen and what it promises."""
    for label, threshold in parts(result, ""):
        title = "Threshold" if threshold.feasible else "No feasible threshold"
        on.print(Text(title + (f" for group {shown(label)}" if label != "" else ""), style="bold"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column()
        for name, text in threshold.facts():
            grid.add_row(Text(name), Text(text))
        on.print(grid)
    if hasattr(result, "thresholds"):
        on.print(Text(f"together: {result.guarantee or 'no guarantee'}"))
    show_notes(on, notes)


def hold_against(rule: str, read: Predictions, score: str, loss: str, out: Output, notes: list[str]) -> None:
    """Hold later data against a saved rule."""
    saved = Threshold.from_json(Path(rule).read_text(encoding="utf-8", errors="replace"))
    with values_of(read.path):
        result = saved.check(*read.samples(score, loss))
    facts = asdict(result) | {"holds": result.holds}

    def draw(on: Console) -> None:
        on.print(Text(repr(result)))
        show_notes(on, notes)

    deliver(
        out, result, lambda: "holds" if result.holds else "alarm", draw, json=lambda: json.dumps(facts),
        csv=lambda: as_csv({name: [value] for name, value in facts.items()}), latex=lambda: repr(result),
    )  # fmt: skip
