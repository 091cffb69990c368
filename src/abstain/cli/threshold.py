"""`abstain threshold FILE`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from abstain.cli.options import (
    Fraction,
    Names,
    Output,
    Reading,
    known_loss,
    known_score,
    output,
    reading,
    taken,
)
from abstain.cli.screen import as_csv, deliver, working
from abstain.formats.limits import shown, values_of
from abstain.formats.predictions import Pair, pair_of


def _pair(file: str, how: Reading, options: dict[str, Any]) -> tuple[Pair, str]:
    with working(f"reading {shown(file)}"):
        read = how.read(file)
    pair = pair_of(read, options["score"][0], options["loss"][0])
    note = (
        f"{pair.left_out:,} abstained samples left out: coverage is a share of the answered."
        if pair.left_out
        else ""
    )
    return pair, note


def chosen(file: str, how: Reading, options: dict[str, Any]) -> tuple[Any, str]:
    """The threshold (one per group when asked for), and what to know besides."""
    from abstain import select_threshold

    pair, note = _pair(file, how, options)
    if options["per_group"] and pair.groups is None:
        raise click.UsageError("--per-group needs a column of groups; name it with --column group=NAME.")
    form = {name: options[name] for name in ("risk", "coverage", "cost") if options[name] is not None}
    with working(f"choosing among {len(pair.loss):,} samples"), values_of(file):
        result = select_threshold(
            pair.loss, pair.confidence, **form, delta=options["delta"], method=options["method"],
            bounded=options["bounded"], groups=pair.groups if options["per_group"] else None, sample_weight=pair.weight,
        )  # fmt: skip
    known = None if pair.own else in_words(result, options["score"][0])
    return result, " ".join(filter(None, (known, note)))


def in_words(result: Any, score: str) -> str | None:
    """The rule is in the score's rank key, which does not saturate; people know another number."""
    from abstain import scores

    values = [t.value for t in getattr(result, "thresholds", {"": result}).values() if t.value is not None]
    if not scores.by_name(score).saturates or not values or min(values) == float("-inf"):
        return None
    shown_values = ", ".join(f"{float(scores.display(score, v)):.4g}" for v in values)
    return f"The rule is in the rank key of {score}, which does not saturate; as a plain {score}: {shown_values}."


def forms_of(result: Any) -> dict[str, Callable[[], str]]:
    """The result as text."""
    rows = _rows(result)
    return {
        "json": result.to_json,
        "csv": lambda: as_csv({name: [row[name] for row in rows] for name in rows[0]}),
        "latex": lambda: _latex(rows),
        "quiet": lambda: "\n".join("none" if row["value"] is None else repr(row["value"]) for row in rows),
    }


def _rows(result: Any) -> list[dict[str, Any]]:
    parts = getattr(result, "thresholds", {"all": result})
    names = ("value", "form", "target", "method", "delta", "n", "coverage", "risk", "risk_upper", "guarantee")
    return [{"group": str(g), **{name: getattr(t, name) for name in names}} for g, t in parts.items()]


def _latex(rows: list[dict[str, Any]]) -> str:
    from abstain import _tables

    shown_columns = ("group", "value", "coverage", "risk", "risk_upper", "n")
    columns = {c.replace("_", " "): [_text(row[c]) for row in rows] for c in shown_columns}
    return _tables.latex(columns)


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def draw_facts(on: Console, result: Any, note: str) -> None:
    """What was chosen and what it promises."""
    for label, threshold in getattr(result, "thresholds", {"": result}).items():
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
    if note:
        on.print(Text(f"- {note}"))


def checked(file: str, how: Reading, options: dict[str, Any], out: Output) -> None:
    """Hold later data against a saved rule."""
    from dataclasses import asdict
    from pathlib import Path

    from abstain import Threshold

    rule = Threshold.from_json(Path(options["check"]).read_text(encoding="utf-8", errors="replace"))
    pair, note = _pair(file, how, options)
    with values_of(file):
        result = rule.check(pair.loss, pair.confidence)
    facts = asdict(result) | {"holds": result.holds}
    import json

    forms = {
        "json": lambda: json.dumps(facts),
        "csv": lambda: as_csv({name: [value] for name, value in facts.items()}),
        "latex": lambda: repr(result),
        "quiet": lambda: "holds" if result.holds else "alarm",
    }
    deliver(out, forms, lambda on: on.print(Text(repr(result) + (f"\n- {note}" if note else ""))))


# threshold ----------------------------------------------------------------------------------------
#
# `abstain threshold FILE`.


_EPILOG = """\b
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


@click.command("threshold", epilog=_EPILOG)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--risk", type=click.FloatRange(min=0, min_open=True), help="Largest risk of the accepted.")
@click.option("--coverage", type=Fraction(), help="Smallest share to accept.")
@click.option("--cost", type=click.FloatRange(min=0), help="What a rejection costs, an error costing 1.")
@click.option(
    "--delta", type=Fraction(), default=0.05, show_default=True, help="Chance that the promise fails."
)
@click.option("--method", type=click.Choice(["ltt", "sgr", "crc", "empirical"]), default="ltt", show_default=True,
              help="How the promise is made.")  # fmt: skip
@click.option(
    "--score",
    type=Names(known_score, False),
    default="max_softmax",
    show_default=True,
    help="Where there are class scores.",
)
@click.option(
    "--loss",
    type=Names(known_loss, False),
    default="zero_one",
    show_default=True,
    help="Where there are class scores.",
)
@click.option("--bounded", type=(float, float), default=(0.0, 1.0), show_default=True, metavar="LOW HIGH",
              help="Losses lie between these, known beforehand.")  # fmt: skip
@click.option("--per-group", is_flag=True, help="One threshold for each group, all promises at once.")
@click.option(
    "--save", metavar="FILE", type=click.Path(dir_okay=False), help="Keep the rule and its promise as JSON."
)
@click.option(
    "--check",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Hold this data against a saved rule.",
)
@reading
@output
def command(file: str, **options: Any) -> None:
    """Choose the threshold below which to abstain; say what it promises.

    FILE is calibration data: not used to train the model. Accept a sample when its confidence is at least
    the threshold.
    """

    how, out = taken(options)
    if sum(options[name] is not None for name in ("risk", "coverage", "cost", "check")) != 1:
        raise click.UsageError("give one of --risk, --coverage, --cost (or --check).")
    low, high = options["bounded"]
    if options["risk"] is not None and not low < options["risk"] < high:
        hint = (
            f" Write {options['risk'] / 100:g} for {options['risk']:g}%."
            if 1 <= options["risk"] < 100
            else ""
        )
        raise click.UsageError(f"--risk must lie between {low:g} and {high:g}, the bounds of the loss.{hint}")
    if options["check"]:
        checked(file, how, options, out)
        return
    result, note = chosen(file, how, options)
    from abstain.cli.screen import deliver

    deliver(out, forms_of(result), lambda on: draw_facts(on, result, note))
    if options["save"]:
        from abstain.formats import replacing

        with replacing(options["save"]) as stream:
            stream.write(result.to_json().encode())
        click.echo(f"wrote {click.format_filename(options['save'])}", err=True)
    if not result.feasible:
        from abstain.cli.main import INFEASIBLE

        click.get_current_context().exit(INFEASIBLE)
