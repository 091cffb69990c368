"""`abstain threshold FILE`."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from abstain import GroupThresholds, Threshold, _tables, scores, select_threshold
from abstain.cli.main import ALARM, INFEASIBLE
from abstain.cli.options import (
    Documented,
    InputFile,
    Output,
    ReadOptions,
    fraction,
    output,
    percent_hint,
    reading,
    shared,
)
from abstain.cli.screen import as_csv, deliver, show_notes, working, write
from abstain.errors import DataError
from abstain.formats import Predictions
from abstain.formats.limits import shown, values_of
from abstain.thresholds import Check, GroupChecks, decision_record, load_rule

_FACTS = ("value", "form", "target", "method", "delta", "n", "coverage", "risk", "risk_upper", "guarantee")


@click.command("threshold", cls=Documented)
@click.argument("file", type=InputFile())
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
@click.option("--record", metavar="FILE", type=click.Path(dir_okay=False),
              help="Write a page to be filed beside the rule: data, promise, assumptions, what voids it.")  # fmt: skip
@click.option("--check", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
              help="Hold this data against a saved rule.")  # fmt: skip
@click.option("--state", metavar="FILE", type=click.Path(dir_okay=False),
              help="With --check: go on where this file says, and keep where it stops.")  # fmt: skip
@reading
@output
def command(file: str, how: ReadOptions, out: Output, score: str, loss: str, groups: bool, save: str | None,
            record: str | None, check: str | None, state: str | None, **asked: Any) -> None:  # fmt: skip
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
      abstain threshold preds.npz --risk 0.05 --save rule.json --record rule.md
      abstain decide rule.json new.npz -o decided.csv
      abstain threshold later.npz --check rule.json --state series.json
          does the promise still hold? Each run goes on from the last.

    Samples of one cluster (a column `cluster`: patient, document) may depend on each other: whole clusters are
    then the unit of the promise.

    When no threshold can be certified, that is the answer: exit code 4. An alarm of --check is exit code 5.
    """
    if sum(given is not None for given in (asked["risk"], asked["coverage"], asked["cost"], check)) != 1:
        raise click.UsageError("give one of --risk, --coverage, --cost (or --check).")
    if (state and not check) or (check and (save or record)):
        raise click.UsageError("--state goes with --check; --save and --record go with a new rule.")
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
        hold_against(check, read, out, notes, state)
        return
    with working(f"choosing among {read.n:,} samples"), values_of(file):
        result = select_threshold(
            *read.samples(score, loss), **asked, groups=read.group_labels() if groups else None,
            sample_weight=read.sample_weight, clusters=read.clusters,
        )  # fmt: skip
    result = result.made_from(read.kind, **facts_of(file, read, score, loss))
    if save:  # before anything is printed, which may fail
        write(save, result.to_json())
    if record:
        write(record, decision_record(result, saved_as=save))
    if read.kind != "confidence" and (known := in_words(result, score)):
        notes = [" ".join([known, *notes])]
    rows = [{"group": str(g), **{name: getattr(t, name) for name in _FACTS}} for g, t in parts(result, "all")]
    deliver(
        out, result, lambda: "\n".join("none" if r["value"] is None else repr(r["value"]) for r in rows),
        lambda on: draw_facts(on, result, notes),
        csv=lambda: as_csv({name: [row[name] for row in rows] for name in rows[0]}),
        latex=lambda: latex(rows),
    )  # fmt: skip
    if not result.feasible:
        click.get_current_context().exit(INFEASIBLE)


def parts(result: Any, alone: str) -> list[tuple[Any, Threshold]]:
    """The threshold of each group, or the one of all under a name of its own."""
    return list((result.thresholds if isinstance(result, GroupThresholds) else {alone: result}).items())


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
        kind = type(threshold).__name__
        title = kind if threshold.feasible else f"No feasible {kind.lower()}"
        on.print(Text(title + (f" for group {shown(label)}" if label != "" else ""), style="bold"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column()
        for name, text in threshold.facts():
            grid.add_row(Text(name), Text(text))
        on.print(grid)
    if isinstance(result, GroupThresholds):
        on.print(Text(f"together: {result.guarantee or 'no guarantee'}"))
    show_notes(on, notes)


def facts_of(file: str, read: Predictions, score: str, loss: str) -> dict[str, Any]:
    """What a rule is to know of the data that it was made from."""
    context = click.get_current_context()
    with Path(file).open("rb") as stream:
        found = {"data": Path(file).name, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}
    found["command"] = shlex.join(["abstain", *context.meta.get("abstain.arguments", [])])
    by_score = {"loss": read.loss_name} if read.kind == "confidence" else {"score": score, "loss": loss}
    return {**found, **by_score}


def stated(name: str) -> Any:
    """An option's value if it was given, None where it is the default."""
    context = click.get_current_context()
    given = context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE
    return context.params[name] if given else None


def fitting(rule: str, saved: Threshold | GroupThresholds, kind: str, score: str | None) -> str | None:
    """The score by which a file of this kind is held against a rule: the rule's own. Anything else is refused.

    A column of confidences has the plain numbers of a score if `--score` says so.
    """
    origin = parts(saved, "")[0][1].origin
    own = None if origin is None else origin.score
    if score is not None and score != own:
        raise DataError(
            f"{shown(rule)}: this rule is for {own or 'a column of confidences'}, not for {score}."
        )
    if own is None and kind != "confidence":
        raise DataError(
            f"{shown(rule)}: this rule is for a column of confidences, and the file holds {kind}."
        )
    if own is not None and kind == "confidence" and score is None:
        told = f"this rule is for {own} of class scores, and the file holds a column of confidences"
        raise DataError(f"{shown(rule)}: {told}. If these are plain {own} numbers, say --score {own}.")
    if own is not None and kind not in (*scores.by_name(own).takes, "confidence"):
        raise DataError(f"{shown(rule)}: this rule is for {own}, which needs logits; the file holds {kind}.")
    return own


def hold_against(rule: str, read: Predictions, out: Output, notes: list[str], state: str | None) -> None:
    """Hold later data against a saved rule."""
    saved = load_rule(rule)
    own = fitting(rule, saved, read.kind, stated("score"))
    origin = parts(saved, "")[0][1].origin
    loss = (origin and origin.loss) or "zero_one"
    if stated("loss") not in (None, loss):
        raise DataError(f"{shown(rule)}: this rule is for the loss {loss}, not for {stated('loss')}.")
    grouped = isinstance(saved, GroupThresholds)
    if grouped and read.groups is None:
        raise DataError(f"{shown(rule)}: this rule is per group, and the file has no column of groups.")
    kind: Any = GroupChecks if grouped else Check
    given: dict[str, Any] = {"units": None if read.kind == "confidence" else "key", "clusters": read.clusters}
    given["previous"] = kind.load(state) if state and Path(state).exists() else None
    with values_of(read.path):
        samples = read.samples(own or "max_softmax", loss)
        result: Any = saved.check(*samples, *((read.group_labels(),) if grouped else ()), **given)
    show_check(result, out, notes, state)


def show_check(result: Check | GroupChecks, out: Output, notes: list[str], state: str | None) -> None:
    """What later data say, kept for the next look; an alarm has an exit code of its own."""
    if state:
        write(state, result.to_json())
    rows = [
        {"group": str(g), **asdict(c), "holds": c.holds}
        for g, c in (result.checks if isinstance(result, GroupChecks) else {"all": result}).items()
    ]

    def draw(on: Console) -> None:
        on.print(Text(repr(result)))
        show_notes(on, notes)

    deliver(
        out, result, lambda: "holds" if result.holds else "alarm", draw,
        csv=lambda: as_csv({name: [row[name] for row in rows] for name in rows[0]}), latex=lambda: repr(result),
    )  # fmt: skip
    if not result.holds:
        click.get_current_context().exit(ALARM)
