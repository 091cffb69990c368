"""Commands about thresholds: `threshold` makes a rule or checks one, `decide` applies it, `clinical` tries them all."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from abstain import GroupThresholds, Threshold, _tables, scores, select_threshold
from abstain.cli import options as opt
from abstain.cli.main import INFEASIBLE
from abstain.cli.screen import dash, deliver, plain_table, put, show_notes, working, write
from abstain.cli.series import Look, hold_look, sha256_of
from abstain.errors import DataError
from abstain.formats import Predictions
from abstain.formats.safety import display_name, file_error, naming_file
from abstain.formats.writing import table_text, write_table
from abstain.report.content import clinical_of
from abstain.thresholds import Check, GroupChecks, decision_record, load_rule
from abstain.thresholds.calibration import Method

_FACTS = ("value", "form", "target", "method", "delta", "n", "coverage", "risk", "risk_upper", "guarantee")
_BOUNDED = "Losses lie between these, known beforehand."
# share of new confidences above all calibrated ones that is no chance: percentages for fractions
_ABOVE = 0.1
_GROUPS = "One threshold for each group, all promises at once."


@click.command("threshold", cls=opt.Documented)
@click.argument("file", type=opt.InputFile())
@click.option("--risk", type=click.FloatRange(min=0, min_open=True), help="Largest risk of the accepted.")
@opt.fraction("--coverage", "Smallest share to accept.")
@click.option("--cost", type=click.FloatRange(min=0), help="What a rejection costs, an error costing 1.")
@opt.fraction("--delta", "Chance that the promise fails.", 0.05)
@click.option("--method", type=click.Choice(get_args(Method)), default="ltt", help="How the promise is made.")
@opt.shared("score", "loss")
@click.option("--bounded", type=(float, float), default=(0.0, 1.0), metavar="LOW HIGH", help=_BOUNDED)
@click.option("--groups", "--per-group", "groups", is_flag=True, help=_GROUPS)
@opt.output_file("--save", kind="json", help="Keep the rule and its promise as JSON.")
@opt.output_file(
    "--record",
    kind="markdown",
    help="Write a page to be filed beside the rule: data, promise, assumptions, what voids it.",
)
@opt.input_file("--check", help="Hold this data against a saved rule.")
@opt.output_file(
    "--state",
    kind="json",
    verdict_first=True,
    help="With --check: go on where this file says, and keep where it stops.",
)
@opt.reading
@opt.output
def threshold(
    file: str, how: opt.ReadOptions, out: opt.Output, score: str, loss: str, groups: bool, **asked: Any
) -> None:
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
    save, record, check, state = (asked.pop(name) for name in ("save", "record", "check", "state"))
    if sum(given is not None for given in (asked["risk"], asked["coverage"], asked["cost"], check)) != 1:
        raise click.UsageError("give one of --risk, --coverage, --cost (or --check).")
    if (state and not check) or (check and (save or record)):
        raise click.UsageError("--state goes with --check; --save and --record go with a new rule.")
    (low, high), risk = asked["bounded"], asked["risk"]
    if risk is not None and not low < risk < high:
        hint = opt.percent_hint(risk)
        raise click.UsageError(f"--risk must lie between {low:g} and {high:g}, the bounds of the loss.{hint}")
    with working(f"reading {display_name(file)}"):
        whole = how.read(file)
    opt.tell_first(whole)
    read = whole.answered()
    away = whole.n - read.n
    notes = [f"{away:,} abstained samples left out: coverage is a share of the answered."] if away else []
    if groups and read.groups is None:
        raise click.UsageError("--groups needs a column of groups; name it with --column groups=NAME.")
    if check:
        hold_against(check, read, how.only, out, notes, state)
        return
    opt.no_names_for_own_confidences(read)
    asked |= {"groups": read.group_labels() if groups else None}
    with working(f"choosing among {read.n:,} samples"), naming_file(file):
        if read.kind == "confidence":
            columns: dict[str, Any] = {}
            samples: tuple[Any, ...] = read.samples(score, loss)
        else:
            columns = {
                read.kind: read.class_scores(),
                "labels": read.labels,
                "score": score,
                "loss_name": loss,
            }
            samples = ()
        columns |= {"sample_weight": read.sample_weight, "clusters": read.clusters}
        result = select_threshold(*samples, **columns, **asked)
    result = result.made_from(read.kind, **facts_of(file, read, score, loss))
    if save:  # before anything is printed, which may fail
        write(save, result.to_json())
    if record:
        write(record, decision_record(result, saved_as=save))
    if read.kind != "confidence" and (known := in_words(result, score)):
        notes = [" ".join([known, *notes])]
    rows = by_group(result, "all")
    columns = {"group": list(map(str, rows)), **_tables.collect_columns(list(rows.values()), _FACTS)}
    quiet = "\n".join("none" if value is None else repr(value) for value in columns["value"])
    drawn = partial(draw_facts, result=result, notes=notes)
    deliver(out, result, quiet, drawn, columns=columns, latex=latex(columns))
    if not result.feasible:
        click.get_current_context().exit(INFEASIBLE)


def by_group(result: Any, alone: str) -> dict[Any, Any]:
    """The threshold of each group, or the one of all under a name of its own."""
    return result.thresholds if isinstance(result, GroupThresholds) else {alone: result}


def in_words(result: Any, score: str) -> str:
    """The rule is in the score's rank key, which does not saturate; people know another number."""
    rules = [t for t in by_group(result, "").values() if t.value is not None]
    if not scores.by_name(score).saturates or not rules or min(t.value for t in rules) == float("-inf"):
        return ""
    plain = [(t.lies_above, float(scores.display(score, t.value))) for t in rules]
    known = ", ".join(f"{'above ' if above else ''}{x:.4g}" for above, x in plain)
    return f"The rule is in the rank key of {score}, which does not saturate; as a plain {score}: {known}."


def latex(columns: dict[str, list[Any]]) -> str:
    def cell(value: Any) -> str:
        return str(value) if isinstance(value, (str, int)) else _tables.format_number(value)

    names = ("group", "value", "coverage", "risk", "risk_upper", "n")
    return _tables.latex_table({name.replace("_", " "): list(map(cell, columns[name])) for name in names})


def draw_facts(on: Console, result: Any, notes: list[str]) -> None:
    """What was chosen and what it promises."""
    for label, rule in by_group(result, "").items():
        kind = type(rule).__name__
        title = kind if rule.feasible else f"No feasible {kind.lower()}"
        on.print(Text(title + (f" for group {display_name(label)}" if label != "" else ""), style="bold"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column()
        for name, text in rule.facts():
            grid.add_row(Text(name), Text(text))
        on.print(grid)
    if isinstance(result, GroupThresholds):
        on.print(Text(f"together: {result.guarantee or 'no guarantee'}"))
    show_notes(on, notes)


def facts_of(file: str, read: Predictions, score: str, loss: str) -> dict[str, Any]:
    """What a rule is to know of the data that it was made from."""
    by_score = {"loss": read.loss_name} if read.kind == "confidence" else {"score": score, "loss": loss}
    return {"data": Path(file).name, "sha256": sha256_of(file), "command": opt.typed(), **by_score}


def first_of(rule: Threshold | GroupThresholds) -> Threshold:
    """The rule itself, or that of the first group: what every group shares."""
    return next(iter(by_group(rule, "").values()))


def columns_for(read: Predictions, score: str | None) -> dict[str, Any]:
    """What a file holds, as a rule of this score takes it; a column of confidences of a score holds plain numbers."""
    if read.kind != "confidence":
        return {read.kind: read.class_scores()}
    confidence = read.ranked_by(score)
    return {"confidence": confidence} if score is None else {"confidence": confidence, "units": "plain"}


def fitting(rule: str, own: str | None, kind: str, score: str | None, *, plain: bool = True) -> str | None:
    """The score by which a file of this kind is held against a rule: the rule's own. Anything else is refused.

    A column of confidences has the plain numbers of a score if `--score` says so, where these will do.
    """
    told = ""
    if score is not None and score != own:
        told = f"{own or 'a column of confidences'}, not for {score}"
    elif own is None and kind != "confidence":
        told = f"a column of confidences, and the file holds {kind}"
    elif own is not None and kind == "confidence" and not (plain and score):
        told = f"{own} of class scores, and the file holds a column of confidences"
        told += f". If these are plain {own} numbers, say --score {own}" if plain else ""
    elif own is not None and kind not in (*scores.by_name(own).takes, "confidence"):
        told = f"{own}, which needs logits; the file holds {kind}"
    if told:
        raise DataError(f"{display_name(rule)}: this rule is for {told}.")
    return own


def hold_against(
    rule: str, read: Predictions, only: dict[str, str], out: opt.Output, notes: list[str], state: str | None
) -> None:
    """Hold later data against a saved rule."""
    saved = load_rule(rule)
    first = first_of(saved)
    score = fitting(rule, first.cut.score, read.kind, opt.stated("score"))
    loss = (first.origin and first.origin.loss) or "zero_one"
    if opt.stated("loss") not in (None, loss):
        raise DataError(
            f"{display_name(rule)}: this rule is for the loss {loss}, not for {opt.stated('loss')}."
        )
    grouped = isinstance(saved, GroupThresholds)
    if grouped and read.groups is None:
        raise DataError(
            f"{display_name(rule)}: this rule is per group, and the file has no column of groups."
        )
    columns: dict[str, Any] = {"clusters": read.clusters}
    if grouped:
        columns["groups"] = read.group_labels()
    opt.tell_unread(read, "sample_weight")
    with naming_file(read.path):
        losses = read.samples(score or "max_softmax", loss)[0]
        columns |= columns_for(read, score)

    def check(previous: Any) -> Any:
        with naming_file(read.path):
            return saved.check(losses, previous=previous, **columns)

    calibration = [first.origin.sha256] if first.origin and first.origin.sha256 else []
    look = Look(files=[str(read.path)], only=only, calibration=calibration, state=state)
    hold_look(check, GroupChecks if grouped else Check, look, out, notes)


@click.command("decide", cls=opt.Documented)
@click.argument("rule", type=click.Path(exists=True, dir_okay=False))
@click.argument("file", type=opt.InputFile())
@opt.named("scores", "Says that a column of confidences holds plain numbers of this score.")
@opt.reading
@click.option("--name", "added", default="accepted", help="Name of the column that is added.")
@opt.output_file(
    "-o", "--output", "path", kind="table", help="Write the table there instead of to the screen."
)
def decide(
    rule: str, file: str, how: opt.ReadOptions, score: str | None, added: str, path: str | None
) -> None:
    """Apply a saved rule to new data, which needs no labels: one more column, `accepted`, 1 or 0.

    RULE is what `abstain threshold --save` wrote. It knows its score: class scores are reduced by it, anything
    else is refused. The table that is written holds the columns of FILE, class scores aside: CSV on the screen,
    in a file what its name says (.csv, .tsv, .json, .jsonl, .parquet, .arrow, .feather). No column of FILE is
    replaced.

    Examples:
      abstain decide rule.json new.csv -o decided.csv
      abstain decide rule.json new.npz > decided.csv
      abstain decide rule.json new.parquet -o decided.parquet
      abstain decide rule.json table.csv --column confidence=p_max --score max_softmax
    """
    saved = load_rule(rule)
    with working(f"reading {display_name(file)}"):
        read, rest = how.read_unlabelled(file)
    name = fitting(rule, first_of(saved).cut.score, read.kind, score)
    by_sample: dict[str, Any] = {}
    if isinstance(saved, GroupThresholds):
        if read.groups is None:
            raise DataError(
                f"{display_name(rule)}: this rule is per group, and {display_name(file)} has no groups."
            )
        by_sample["groups"] = read.group_labels()
    told: dict[str, Any] = {}
    with naming_file(file):
        confidence = read.ranked_by(name)
        if name is not None and read.kind != "confidence":
            told = {"prediction": read.likeliest(), name: scores.display(name, confidence)}
        accepted = saved.accepts(**columns_for(read, name), **by_sample)
    top = max(float(rule.reference.value.max()) for rule in by_group(saved, "").values())
    if (above := float((confidence > top).mean())) > _ABOVE:
        opt.say(
            f"note: {above:.0%} of the confidences lie above all calibration data ({top:g}). Is it one scale?"
        )
    if read.abstained is not None:
        accepted &= ~read.abstained
    kept = {name: x for name, x in rest.items() if x.shape in ((len(accepted),), (len(accepted), 1))}
    columns = with_added(file, kept, told, {added: accepted.astype(int)})
    if path is None:
        put(None, table_text(columns))
    else:
        write_table(columns, path)
        opt.say(f"wrote {path}")
    click.echo(f"accepted {int(accepted.sum()):,} of {len(accepted):,} ({accepted.mean():.1%})", err=True)


def with_added(
    file: str, kept: dict[str, Any], computed: dict[str, Any], decision: dict[str, Any]
) -> dict[str, np.ndarray]:
    """The user's columns and ours; none of the user's is replaced.

    A computed column whose name is taken gets another name, which is said. The decision is read by programs under the
    name that was asked for, so there a taken name is refused.
    """
    for name in decision:
        if name in kept:
            raise file_error(
                file,
                f"has a column `{display_name(name)}` already, which is not replaced. Name the new one with --name.",
            )
    columns = dict(kept)
    for name, values in computed.items():
        free = name
        while free in columns or free in decision:
            free += "_computed"
        if free != name:
            opt.say(
                f"note: {display_name(file)} has a column `{name}`, which stays; the computed one is `{free}`."
            )
        columns[free] = values
    return {name: np.asarray(values).reshape(-1) for name, values in (columns | decision).items()}


@click.command("clinical", cls=opt.Documented)
@click.argument("file", type=opt.InputFile())
@click.option("--positive", required=True, metavar="CLASS", help="The class that is looked for.")
@opt.shared("score", "level")
@opt.reading
@opt.output
def clinical(
    file: str, how: opt.ReadOptions, out: opt.Output, positive: str, score: str, level: float
) -> None:
    """Sensitivity, specificity and predictive values among the accepted, threshold by threshold.

    FILE holds class scores with labels, or columns of labels, predictions and confidences. One row for each share
    of 100%, 90% ... 10% of the answered; every interval is exact on its own. A refused case counts in the coverage.

    Examples:
      abstain clinical scans.npz --positive 1
      abstain clinical scans.csv --positive ill --latex
    """
    read = how.read(file)
    opt.tell_first(read)
    labels = read.answered().answers()[0]
    wanted: Any = float(positive) if labels.dtype.kind in "biuf" and _tables.is_number(positive) else positive
    with naming_file(file):
        table = replace(clinical_of(read, score, wanted, level), positive=positive)
    grid = table.grid()
    opt.tell_unread(read, "sample_weight", "clusters")

    def draw(on: Any) -> None:
        told = f"Among the accepted, positive: {positive}, {table.n:,} samples, {level:.0%} intervals below"
        on.print(Text(told, style="bold"))
        below = {
            k: [re.sub(r" \[(.*), (.*)\]", rf"\n\1{dash(on)}\2", cell) for cell in v] for k, v in grid.items()
        }
        on.print(plain_table({name: cells for name, cells in below.items() if name != "prevalence"}))

    deliver(out, table, "\n".join(grid["sensitivity"]), draw)
