"""`abstain evaluate FILE`: who computes, and the table on the screen."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import abstain
from abstain.cli import screen
from abstain.cli.options import Documented, Output, ReadOptions, known, no_folders, output, reading, shared
from abstain.engines.read import find_files, kind_of
from abstain.evaluation import Entry, Evaluation
from abstain.formats import Limits, Predictions, open_source
from abstain.formats.columns import assign
from abstain.formats.limits import shown, values_of
from abstain.formats.readers import column_names

_METRIC = 15  # columns for the names of the metrics


@click.command("evaluate", cls=Documented)
@click.argument("file", type=click.Path(exists=True))
@click.option("--metrics", callback=known("metrics", everything=True), metavar="A,B,...",
              help="Such as aurc, aurc:loo, augrc, auroc, risk_at_coverage@0.9, or all.")  # fmt: skip
@click.option("--scores", callback=known("scores", everything=True), metavar="A,B,...",
              help="Confidences computed from class scores, such as max_softmax, max_logit, or all.")  # fmt: skip
@click.option("--losses", callback=known("losses", everything=True), metavar="A,B,...",
              help="Such as zero_one, cross_entropy, brier.")  # fmt: skip
@shared("level")
@click.option("--engine", type=click.Choice(["memory", "files", "dask", "spark", "sketch"]),
              help="Who computes. By default memory, and files for a table larger than --memory.")  # fmt: skip
@click.option("--preview", is_flag=True, help="Show what the file holds and how it would be read, and stop.")
@reading
@output
def command(
    file: str, how: ReadOptions, out: Output, engine: str | None, preview: bool, **options: Any
) -> None:
    """Everything about how well a model knows when it is wrong, as a table with intervals.

    FILE holds logits or probabilities with labels, or a plain table: correct (0/1) or loss, confidence, and
    if you like abstained and group. It may be a folder of tables, which an engine reads (--engine).

    Examples:
      abstain evaluate preds.npz                      logits or probs, and labels
      abstain evaluate answers.csv                    columns correct, confidence
      abstain evaluate out.parquet -c confidence=p_max -c correct=is_right
      abstain evaluate logits.npy --as logits --labels labels.npy
      abstain evaluate preds.npz --metrics aurc,risk_at_coverage@0.9 --scores all
      abstain evaluate preds.npz --json -o table.json
      abstain evaluate predictions/                   a folder of tables
    """
    engine = engine or default_engine(file, how)
    if engine == "memory" or preview:
        no_folders((file,))
    if preview:
        draw_preview(file, how)
        return
    read = None
    if engine == "memory":
        with screen.working(f"reading {shown(file)}"):
            read = how.read(file)
        with screen.working(f"evaluating {read.n:,} samples"), values_of(file):
            table = abstain.evaluate(**read.arguments(), **options, progress=False)
    elif engine == "sketch":
        table = sketched(file, table_columns(file, how), options["level"])
    else:
        table = evaluated_by(engine, file, how, options)

    def one_number() -> str:
        metric = "aurc" if "aurc" in table.metrics else table.metrics[0]
        entry = table[table.scores[0], table.losses[0], metric]
        return "-" if entry.estimate is None else repr(float(entry.estimate))

    screen.deliver(out, table, one_number, lambda on: draw_evaluation(on, table, read))


def default_engine(file: str, how: ReadOptions) -> str:
    """Folders, and files larger than the memory allowed, go to the engine that needs little of it."""
    path = Path(file)
    if path.is_dir():
        return "files"
    times = {".parquet": 2, ".arrow": 1, ".feather": 1, ".csv": 4}.get(path.suffix.lower(), 0)
    return "files" if times * path.stat().st_size > how.memory else "memory"


def evaluated_by(engine: str, file: str, how: ReadOptions, options: dict[str, Any]) -> Evaluation:
    """Files, Dask or Spark compute; columns are found by the same names as in memory."""
    columns = table_columns(file, how)
    module = importlib.import_module(f"abstain.engines.{engine}")
    means = {"memory": how.memory} if engine == "files" else {}
    table: Evaluation = module.evaluate(os.path.abspath(file), **columns, **options, **means)
    if "logits" in columns:
        return table
    # the names that memory gives to columns of losses and confidences
    entries = tuple(replace(entry, score="confidence", loss="loss") for entry in table.entries)
    curves = tuple(("confidence", "loss", curve) for _, _, curve in table.curves)
    return replace(table, entries=entries, curves=curves)


def table_columns(file: str, how: ReadOptions) -> dict[str, Any]:
    """The columns of a table (or of the first of a folder) that an engine is to read, by argument."""
    first = find_files("evaluate", file)[0]
    kind_of(first)  # an error that names the formats
    roles = assign(column_names(first, format=how.format), how.columns, how.kind)
    for role in ("abstained", "clusters"):  # left out, they would change the number without a word
        if role in roles:
            raise click.UsageError(
                f"engines do not read a column of {role} yet: leave {roles[role].names[0]!r} out of the table, or "
                f"evaluate one file in memory (--engine memory)."
            )
    one = {role: choice.names[0] for role, choice in roles.items()}
    found: dict[str, Any] = {role: one[role] for role in ("sample_weight", "groups") if role in one}
    if "logits" in roles and "labels" in roles:
        several = list(roles["logits"].names)
        return found | {"logits": several if len(several) > 1 else several[0], "labels": one["labels"]}
    kind = next((k for k in ("loss", "error", "correct") if k in roles), None)
    if kind is None or "confidence" not in roles:
        raise click.UsageError(
            "an engine reads columns of losses (or correct) and confidences, or of logits and labels."
        )
    key = "correct" if kind == "correct" else "loss"
    return found | {key: one[kind], "confidence": one["confidence"]}


def sketched(file: str, columns: dict[str, Any], level: float) -> Evaluation:
    """A stream of constant size: the value lies for certain between the two ends."""
    from abstain.engines import Sketch
    from abstain.engines.read import Loader, question

    score, loss = ("max_softmax", "zero_one") if "logits" in columns else ("confidence", "loss")
    load = Loader("evaluate", question("evaluate", columns | {"groups": None}))
    sketch = Sketch()
    for part in find_files("evaluate", file):
        for groups in load.batches(part):
            values, confidence, weight = groups[None].samples
            sketch.update(values, confidence, sample_weight=weight)
    entries = []
    for name, label in (("aurc", "AURC"), ("augrc", "AUGRC"), ("risk", "risk")):
        found = getattr(sketch, name)()
        ends = (found.estimate, None, found.low, found.high)
        entries.append(Entry(score, loss, name, label, True, *ends, "certified", sketch.n))
    note = "The ends are no confidence interval: the value on these data lies between them for certain."
    return Evaluation(tuple(entries), sketch.n, level, notes=(note,))


def draw_preview(file: str, how: ReadOptions) -> None:
    """What a file holds and how it would be read."""
    screen.show_preview(open_source(file, format=how.format, limits=Limits(memory=how.memory)))
    read = how.read(file)
    on = screen.console()
    on.print(Text(f"\nread as {read.kind}, {read.n:,} samples"))
    on.print(screen.plain_table({"role": list(read.used), "column": list(read.used.values())}))


def draw_evaluation(on: Console, table: Evaluation, read: Predictions | None) -> None:
    """The whole table, a few scores at a time where the screen is narrow."""
    away = f", {table.abstained:.1%} abstained" if table.abstained else ""
    name = "" if read is None else f"{shown(read.name)}: "
    on.print(Text(f"{name}{table.n:,} samples{away}", style="bold"))
    on.print(Text(f"estimate, {table.level:.0%} interval below it; * best of its row", style="dim"))
    for loss in table.losses:
        on.print()
        for place, scores in enumerate(_that_fit(on, table, loss)):
            if place:
                on.print()
            on.print(_some_scores(on, table, loss, scores))
    if table.groups:
        on.print()
        on.print(_by_group(on, table))
    reasons = [f"{e.label} ({e.loss}): {e.reason}" for e in table.entries if e.reason and e.group is None]
    screen.show_notes(on, dict.fromkeys([*map(str, table.notes), *reasons]))


def _that_fit(on: Console, table: Evaluation, loss: str) -> list[tuple[str, ...]]:
    """Scores that fit beside each other, about as many each time."""
    spans = [screen.span(on, e) for e in table.entries if e.loss == loss and e.group is None]
    fit = max(1, (on.width - _METRIC) // (2 + max([12, *map(len, spans)])))
    times = -(-len(table.scores) // fit)
    size = -(-len(table.scores) // times)
    return [table.scores[i : i + size] for i in range(0, len(table.scores), size)]


def _some_scores(on: Console, table: Evaluation, loss: str, scores: tuple[str, ...]) -> Table:
    columns: dict[str, list[Any]] = {loss if loss == "loss" else f"{loss} loss": []}
    for score in scores:
        columns[score if len(score) <= 14 else score.replace("_", "_\n", 1)] = []
    for entries, best in table.rows(loss):
        cells = [entries[0].label, *(_cell(on, e, best) for e in entries if e.score in scores)]
        for column, cell in zip(columns.values(), cells):
            column.append(cell)
    return screen.plain_table(columns, first=_METRIC - 2)


def _cell(on: Console, entry: Entry, best: float | None) -> Text:
    star = " *" if best is not None and entry.estimate == best else ""
    text = Text(screen.estimate(entry.estimate, entry.standard_error) + star, style="bold" if star else "")
    below = screen.span(on, entry)
    return text.append(f"\n{below}", style="not bold dim") if below else text


def _by_group(on: Console, table: Evaluation) -> Table:
    """The first metric and score within each group."""
    first = {"metric": table.metrics[0], "loss": table.losses[0], "score": table.scores[0]}
    found = [table.select(group=g, **first)[0] for g in table.groups]
    return screen.plain_table(
        {
            "group": [shown(g) for g in table.groups],
            "samples": [f"{e.n:,}" for e in found],
            found[0].label: [screen.estimate(e.estimate, e.standard_error) for e in found],
            f"{table.level:.0%} interval": [screen.span(on, e) or (e.reason or "") for e in found],
        },
        right=("samples",),
    )
