"""`abstain evaluate FILE`: who computes, and the table on the screen."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import abstain
from abstain.cli import options as opt
from abstain.cli import screen
from abstain.cli.describe import answer_notes, described, draw_description
from abstain.errors import MemoryLimitError
from abstain.evaluation import Entry, Evaluation
from abstain.evaluation.results import GROUPS_SHOWN, best_scores
from abstain.formats import Predictions
from abstain.formats.file_evaluation import choose_engine, engine_can_read, evaluate_with_engine
from abstain.formats.readers import is_helm_run
from abstain.formats.safety import display_name, naming_file
from abstain.formats.table_files import find_files

_METRIC = 15  # columns for the names of the metrics
_ENGINES = ["memory", "files", "dask", "spark", "sketch"]
_ENGINE = "Compute backend. By default memory, and files for a table whose values exceed --memory."
_SCORES = "Confidences computed from class scores, such as max_softmax, max_logit, or all."
_PRICE = "What a wrong answer costs beside a right one, where questions may go unanswered; 1 by default."
_REPETITIONS = "Sample weights are numbers of repetitions (aurc:loo and aurc:log need that), not relative."


@click.command("evaluate", cls=opt.Documented)
@click.argument("file", type=opt.InputFile(folders=True))
@opt.named("metrics", "Such as aurc, aurc:loo, augrc, auroc, risk_at_coverage@0.9, or all.", several=True)
@opt.named("scores", _SCORES, several=True)
@opt.named("losses", "Such as zero_one, cross_entropy, brier, or all.", several=True)
@opt.shared("level")
@click.option("--engine", type=click.Choice(_ENGINES), help=_ENGINE)
@click.option("--price", type=float, metavar="P", help=_PRICE)
@click.option("--repetitions", is_flag=True, help=_REPETITIONS)
@click.option("--preview", is_flag=True, help="Show what the file holds and how it would be read, and stop.")
@opt.reading
@opt.output
def evaluate(
    file: str,
    how: opt.ReadOptions,
    out: opt.Output,
    engine: str,
    preview: bool,
    price: float | None,
    **options: Any,
) -> None:
    """Everything about how well a model knows when it is wrong, as a table with intervals.

    FILE holds logits or probabilities with labels, or a plain table: correct (0/1) or loss, confidence, and
    if you like abstained and group. It may be a folder of tables, which an engine reads (--engine).

    Examples:
      abstain evaluate preds.npz                      logits or probs, and labels
      abstain evaluate answers.csv                    columns correct, confidence
      abstain evaluate out.parquet -c confidence=p_max -c correct=is_right
      abstain evaluate logits.npy --as logits --labels labels.npy
      abstain evaluate preds.npz --metric aurc,risk_at_coverage@0.9 --score all
      abstain evaluate preds.npz --json -o table.json
      abstain evaluate predictions/                   a folder of tables
    """
    chosen = engine is not None
    engine = engine or choose_engine(file, how.memory)
    if (engine == "memory" and not is_helm_run(file)) or preview:
        opt.no_folders((file,))
    if preview:
        draw_description(screen.console(), described(file, how))
        return
    read = None
    if engine != "memory" and price is not None:
        raise click.UsageError("--price is for files that are read in memory, not for --engine.")
    if engine == "memory":
        try:
            with screen.working(f"reading {display_name(file)}"):
                read = how.read(file, tell=False)
        except MemoryLimitError:
            if chosen or price is not None or not engine_can_read(file):
                raise
            engine = "files"
    if engine == "memory":
        assert read is not None
        opt.no_names_for_own_confidences(read)
        with screen.working(f"evaluating {read.n:,} samples"), naming_file(file):
            table = abstain.evaluate(**read.arguments(), **options, progress=False)
            if read.log is not None:
                more = [
                    *read.log.summary_lines(),
                    *answer_notes(read.log, 1.0 if price is None else price, options["level"]),
                ]
                table = replace(table, notes=(*more, *table.notes))
            if price is not None and (read.log is None or read.log.loss_name == "loss"):
                table = replace(table, notes=(*table.notes, price_note(read, price, options["level"])))
    elif engine == "sketch":
        table = sketched(file, how.engine_columns(file), options["level"])
    else:
        means = {"memory": how.memory} if engine == "files" else {}
        table = evaluate_with_engine(engine, file, how.engine_columns(file), **options, **means)

    metric = "aurc" if "aurc" in table.metrics else table.metrics[0]
    first = table[table.scores[0], table.losses[0], metric].estimate
    quiet = "-" if first is None else repr(float(first))
    screen.deliver(out, table, quiet, partial(draw_evaluation, table=table, read=read))


def price_note(read: Predictions, price: float, level: float) -> str:
    """Right, wrong and not attempted in a file without questions; refused where nothing is right or wrong."""
    if read.kind == "confidence" and read.loss_name == "loss":
        raise click.UsageError("--price is for right and wrong answers, and this file has losses.")
    if read.sample_weight is not None:
        raise click.UsageError(
            "--price takes every sample once, and this file has weights. Leave one of them out."
        )
    losses, _ = read.samples("max_softmax", "zero_one")
    answered = None if read.abstained is None else ~read.abstained
    score = abstain.three_way(1 - losses, answered=answered, price=price, level=level, clusters=read.clusters)
    return f"{score}."


def sketched(file: str, columns: dict[str, Any], level: float) -> Evaluation:
    """A stream of constant size: the value lies for certain between the two ends."""
    from abstain.engines import Sketch
    from abstain.engines.read import Loader, question

    if "groups" in columns:
        raise click.UsageError("a sketch has no groups: leave that column out, or use --engine files.")
    score, loss = ("max_softmax", "zero_one") if "logits" in columns else ("confidence", "loss")
    load = Loader("evaluate", question("evaluate", columns))
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


def draw_evaluation(on: Console, table: Evaluation, read: Predictions | None) -> None:
    """The whole table, a few scores at a time where the screen is narrow."""
    away = f", {table.abstained:.1%} abstained" if table.abstained else ""
    name = "" if read is None else f"{display_name(read.name)}: "
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
        on.print(Text(table.group_title(), style="dim"))
        on.print(_by_group(on, table))
    screen.show_notes(on, dict.fromkeys(table.remarks()))


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
    for entries in table.rows(loss):
        best = best_scores(entries, lambda e: screen.estimate(e.estimate, e.standard_error))
        marks = {e.score: e.mark + (" *" if e.score in best else "") for e in entries}
        shown_here = (e for e in entries if e.score in scores)
        cells = [entries[0].label, *(screen.stacked(on, e.estimate, e, marks[e.score]) for e in shown_here)]
        for column, cell in zip(columns.values(), cells):
            column.append(cell)
    return screen.plain_table(columns, first=_METRIC - 2)


def _by_group(on: Console, table: Evaluation) -> Table:
    """The first metric and score within each group, the worst group first."""
    entries = table.by_group()[:GROUPS_SHOWN]
    title = f"{entries[0].label} by {display_name(entries[0].score)}"
    return screen.plain_table(
        {
            "group": [display_name(e.group) for e in entries],
            "samples": [f"{e.n:,}" for e in entries],
            title: [screen.estimate(e.estimate, e.standard_error) for e in entries],
            f"{table.level:.0%} interval": [screen.span(on, e) or (e.reason or "") for e in entries],
        },
        right=("samples",),
    )
