"""`abstain evaluate FILE`: who computes, and the table on the screen."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from abstain.cli.options import (
    Fraction,
    Names,
    Reading,
    known_loss,
    known_metric,
    known_score,
    no_folders,
    output,
    reading,
    taken,
)
from abstain.cli.screen import can_draw, console, estimate, plain_table, show_preview, span, working
from abstain.engines.read import find_files, kind_of
from abstain.evaluation import Comparison, Entry, Evaluation, TopTies
from abstain.formats import Predictions, open_source
from abstain.formats.columns import assign
from abstain.formats.limits import Limits, shown, values_of
from abstain.formats.readers import column_names


def evaluated_bare(read: Predictions, metrics: list[str], level: float) -> Evaluation:
    """Intervals of the metrics asked for and nothing else: one sort each, no curve."""
    from abstain.inference import interval
    from abstain.metrics.registry import by_name

    assert read.loss is not None
    assert read.confidence is not None
    entries = []
    for name in metrics:
        metric = by_name(name)
        found = interval(metric.name, read.loss, read.confidence, level=level, **dict(metric.options))
        entries.append(
            Entry("confidence", read.loss_name, metric.key, metric.label, metric.lower_is_better, found.estimate,
                  found.standard_error, found.low, found.high, found.method, read.n)
        )  # fmt: skip
    top = int((read.confidence == read.confidence.max()).sum())
    notes = (f"{top:,} of {read.n:,} samples tie at the top of confidence.",) if top > 1 else ()
    return Evaluation(tuple(entries), (), read.n, level, 0.0, (TopTies("confidence", top, read.n),), notes)


def evaluated_by(engine: str, file: str, how: Reading, options: dict[str, Any]) -> Evaluation:
    """Files, Dask or Spark compute; columns are found by the same names as in memory."""
    columns = _columns(file, how)
    if engine == "sketch":
        return _sketched(file, columns, options["level"])
    from abstain.engines.finish import engine as table_by

    module = importlib.import_module(f"abstain.engines.{engine}")
    outputs = {"logits": columns.pop("logits")} if "logits" in columns else {}
    asked = columns | {key: options[key] for key in ("metrics", "scores", "losses", "level")}
    means = {"memory": how.memory} if engine == "files" else {}
    table = table_by(lambda data, **own: module.evaluate(data, **own | outputs | means))(
        logits=os.path.abspath(file), **asked
    )
    return table if outputs else _renamed(table)


def _renamed(table: Evaluation) -> Evaluation:
    """The names that memory gives to columns of losses and confidences."""
    entries = tuple(replace(entry, score="confidence", loss="loss") for entry in table.entries)
    return replace(
        table, entries=entries, curves=tuple(("confidence", "loss", c) for _, _, c in table.curves)
    )


def compared_by_files(
    files: tuple[str, ...], names: list[str], how: Reading, options: dict[str, Any]
) -> Comparison:
    """Two tables of the same samples, range by range on disk."""
    from abstain.engines import files as engine
    from abstain.engines.paired import ranked
    from abstain.metrics.registry import by_name

    metric = by_name(options["metric"][0])
    if len(files) != 2 or metric.name != "aurc" or options["unpaired"]:
        raise click.UsageError("--engine files compares two tables of the same samples by AURC.")
    columns = [_columns(file, how) for file in files]
    if any("logits" in own or "correct" in own for own in columns):
        raise click.UsageError("--engine files compares columns of losses and confidences.")
    first, second = ((own["confidence"], own["loss"]) for own in columns)
    weight = {key: columns[0][key] for key in ("sample_weight",) if key in columns[0]}
    found = engine.compare(
        files[0],
        other=files[1],
        first=first,
        second=second,
        memory=how.memory,
        **weight,
        **dict(metric.options),
    )
    return ranked((names[0], names[1]), found, metric, options["level"])


def _columns(file: str, how: Reading) -> dict[str, Any]:
    first = find_files("evaluate", file)[0]
    kind_of(first)  # an error that names the formats
    roles = assign(column_names(first, format=how.format), how.columns, how.kind)
    for role in ("abstained", "cluster"):  # left out, they would change the number without a word
        if role in roles:
            raise click.UsageError(
                f"engines do not read a column of {role} yet: leave {roles[role].names[0]!r} out of the table, or "
                f"evaluate one file in memory (--engine memory)."
            )
    found: dict[str, Any]
    if "logits" in roles and "labels" in roles:
        names = roles["logits"].names
        found = {"logits": names[0] if len(names) == 1 else list(names), "labels": roles["labels"].names[0]}
    else:
        kind = next((k for k in ("loss", "error", "correct") if k in roles), None)
        if kind is None or "confidence" not in roles:
            raise click.UsageError(
                "an engine reads columns of losses (or correct) and confidences, or of logits and labels."
            )
        key = "correct" if kind == "correct" else "loss"
        found = {key: roles[kind].names[0], "confidence": roles["confidence"].names[0]}
    for role, name in (("weight", "sample_weight"), ("group", "groups")):
        if role in roles:
            found[name] = roles[role].names[0]
    return found


def _sketched(file: str, columns: dict[str, Any], level: float) -> Evaluation:
    """A stream of constant size: the value lies for certain between the two ends."""
    from abstain.engines import Sketch
    from abstain.engines.plan import fields_for
    from abstain.engines.read import batches

    if "logits" in columns:
        columns = {"label" if key == "labels" else key: value for key, value in columns.items()}
    score, loss_name = ("max_softmax", "zero_one") if "logits" in columns else ("confidence", "loss")
    fields = fields_for("evaluate", {key: value for key, value in columns.items() if key != "groups"})
    sketch = Sketch()
    for part in find_files("evaluate", file):
        for batch in batches("evaluate", part, fields):
            loss, confidence, weight = batch.columns.samples
            sketch.update(loss, confidence, sample_weight=weight)
    entries = tuple(
        Entry(score, loss_name, name, label, True, found.estimate, None, found.low, found.high, "certified",
              sketch.n)
        for name, label in (("aurc", "AURC"), ("augrc", "AUGRC"), ("risk", "risk"))
        for found in [getattr(sketch, name)()]
    )  # fmt: skip
    note = "The ends are no confidence interval: the value on these data lies between them for certain."
    return Evaluation(entries, (), sketch.n, level, 0.0, (), (note,))


# evaluating ---------------------------------------------------------------------------------------
#
# Behind `abstain evaluate`: who computes, and the table on the screen.


_METRIC = 15  # columns for the names of the metrics
_PLAIN_FROM = 1_000_000  # rows from which a bare table of losses takes the short road


def evaluated(file: str, how: Reading, options: dict[str, Any]) -> tuple[Any, Predictions | None]:
    """The evaluation of a file, and what was read (nothing, when an engine reads for itself)."""
    engine = options.pop("engine") or _engine(file, how)
    if engine == "memory":
        no_folders((file,))
    else:
        return evaluated_by(engine, file, how, options), None
    import abstain

    with working(f"reading {shown(file)}"):
        read = how.read(file)
    with working(f"evaluating {read.n:,} samples"), values_of(file):
        if _is_bare(read, options):
            return evaluated_bare(read, options["metrics"], options["level"]), read
        table = abstain.evaluate(
            **read.arguments(), metrics=options["metrics"], scores=options["scores"], losses=options["losses"],
            level=options["level"], progress=False,
        )  # fmt: skip
    return table, read


def _engine(file: str, how: Reading) -> str:
    """Folders, and files larger than the memory allowed, go to the engine that needs little of it."""
    from pathlib import Path

    path = Path(file)
    if path.is_dir():
        return "files"
    times = {".parquet": 2, ".arrow": 1, ".feather": 1, ".csv": 4}.get(path.suffix.lower(), 0)
    return "files" if times * path.stat().st_size > how.memory else "memory"


def _is_bare(read: Predictions, options: dict[str, Any]) -> bool:
    """Millions of losses with confidences and nothing else, and only areas asked for."""
    plain = read.kind == "confidence" and read.n >= _PLAIN_FROM and options["metrics"] is not None
    return plain and set(read.arguments()) == {"loss", "confidence"} and options["metrics"] != "all"


def draw_preview(file: str, how: Reading) -> None:
    """What a file holds and how it would be read."""
    no_folders((file,))
    source = open_source(file, format=how.format, limits=Limits(memory=how.memory))
    show_preview(source)
    read = how.read(file)
    on = console()
    on.print(Text(f"\nread as {read.kind}, {read.n:,} samples"))
    on.print(plain_table({"role": list(read.used), "column": list(read.used.values())}))


def draw_evaluation(on: Console, table: Any, read: Predictions | None) -> None:
    """The whole table, a piece of it at a time where the screen is narrow."""
    away = f", {table.abstained:.1%} abstained" if table.abstained else ""
    name = "" if read is None else f"{shown(read.name)}: "
    on.print(Text(f"{name}{table.n:,} samples{away}", style="bold"))
    on.print(Text(f"estimate, {table.level:.0%} interval below it; * best of its row", style="dim"))
    for loss in table.losses:
        on.print()
        for place, scores in enumerate(_pieces(on, table, loss)):
            if place:
                on.print()
            on.print(_piece(on, table, loss, scores))
    if table.groups:
        on.print()
        on.print(_groups(on, table))
    notes = [str(n) for n in table.notes] + _reasons(table)
    for note in dict.fromkeys(notes):
        on.print(Text(f"- {note}"))


def _pieces(on: Console, table: Any, loss: str) -> list[list[str]]:
    """Scores that fit beside each other, in pieces of about one size."""
    found = [e for e in table.entries if e.loss == loss and e.group is None]
    spans = [span(e.low, e.high, e.standard_error, can_draw(on)) for e in found]
    cell = 2 + max([12, *map(len, spans)])
    fit = max(1, (on.width - _METRIC) // cell)
    count = -(-len(table.scores) // fit)
    size = -(-len(table.scores) // count)
    return [list(table.scores[i : i + size]) for i in range(0, len(table.scores), size)]


def _heading(name: str) -> Text:
    """Long names break after an underscore."""
    return Text(name if len(name) <= 14 else name.replace("_", "_\n", 1))


def _piece(on: Console, table: Any, loss: str, scores: list[str]) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title_justify="left")
    drawn.add_column(Text(loss if loss == "loss" else f"{loss} loss"), max_width=_METRIC - 2)
    for score in scores:
        drawn.add_column(_heading(score), no_wrap=True)
    for metric in table.metrics:
        found = table.select(loss=loss, metric=metric)
        if all(e.estimate is None for e in found):
            continue
        values = {e.estimate for e in found if e.estimate is not None}
        best = table.best(metric, loss=loss).estimate if len(values) > 1 else None
        own = {e.score: e for e in found}
        cells = [_cell(on, own[s], best) for s in scores]
        drawn.add_row(Text(found[0].label), *cells)
    return drawn


def _cell(on: Console, entry: Any, best: float | None) -> Text:
    star = " *" if best is not None and entry.estimate == best else ""
    text = Text(estimate(entry.estimate, entry.standard_error) + star, style="bold" if star else "")
    below = span(entry.low, entry.high, entry.standard_error, can_draw(on))
    return text.append(f"\n{below}", style="not bold dim") if below else text


def _groups(on: Console, table: Any) -> Table:
    """The first metric and score within each group."""
    metric, loss, score = table.metrics[0], table.losses[0], table.scores[0]
    found = [table.select(metric=metric, loss=loss, score=score, group=g)[0] for g in table.groups]
    return plain_table(
        {
            "group": [shown(g) for g in table.groups],
            "samples": [f"{e.n:,}" for e in found],
            found[0].label: [estimate(e.estimate, e.standard_error) for e in found],
            f"{table.level:.0%} interval": [
                span(e.low, e.high, e.standard_error, can_draw(on)) or (e.reason or "") for e in found
            ],
        },
        right=("samples",),
    )


def _reasons(table: Any) -> list[str]:
    return [f"{e.label} ({e.loss}): {e.reason}" for e in table.entries if e.reason and e.group is None]


# evaluate -----------------------------------------------------------------------------------------
#
# `abstain evaluate FILE`.


_EPILOG = """\b
Examples:
  abstain evaluate preds.npz                      logits or probs, and labels
  abstain evaluate answers.csv                    columns correct, confidence
  abstain evaluate out.parquet -c confidence=p_max -c correct=is_right
  abstain evaluate logits.npy --as logits --labels labels.npy
  abstain evaluate preds.npz --metrics aurc,risk_at_coverage@0.9 --scores all
  abstain evaluate preds.npz --json -o table.json
  abstain evaluate predictions/                   a folder of tables
"""


@click.command("evaluate", epilog=_EPILOG)
@click.argument("file", type=click.Path(exists=True))
@click.option("--metrics", type=Names(known_metric), metavar="A,B,...",
              help="Such as aurc, aurc:loo, augrc, auroc, risk_at_coverage@0.9, or all.")  # fmt: skip
@click.option("--scores", type=Names(known_score), metavar="A,B,...",
              help="Confidences computed from class scores, such as max_softmax, max_logit, or all.")  # fmt: skip
@click.option(
    "--losses", type=Names(known_loss), metavar="A,B,...", help="Such as zero_one, cross_entropy, brier."
)
@click.option("--level", type=Fraction(), default=0.95, show_default=True, help="Of the intervals.")
@click.option("--engine", type=click.Choice(["memory", "files", "dask", "spark", "sketch"]),
              help="Who computes. By default memory, and files for a table larger than --max-memory.")  # fmt: skip
@click.option("--preview", is_flag=True, help="Show what the file holds and how it would be read, and stop.")
@reading
@output
def command(file: str, **options: Any) -> None:
    """Everything about how well a model knows when it is wrong, as a table with intervals.

    FILE holds logits or probabilities with labels, or a plain table: correct (0/1) or loss, confidence, and
    if you like abstained and group. It may be a folder of tables, which an engine reads (--engine).
    """
    from abstain.cli.screen import as_csv, deliver

    how, out = taken(options)
    if options.pop("preview"):
        draw_preview(file, how)
        return
    table, read = evaluated(file, how, options)
    forms = {
        "json": table.to_json,
        "csv": lambda: as_csv(table.frame("dict")),
        "latex": table.to_latex,
        "quiet": lambda: _one_number(table),
    }
    deliver(out, forms, lambda on: draw_evaluation(on, table, read))


def _one_number(table: Any) -> str:
    metric = "aurc" if "aurc" in table.metrics else table.metrics[0]
    entry = table.select(score=table.scores[0], loss=table.losses[0], metric=metric)[0]
    return "-" if entry.estimate is None else repr(float(entry.estimate))
