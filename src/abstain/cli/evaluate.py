"""The command `abstain evaluate`: choose the compute backend, and print the table."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

import abstain
from abstain._roles import role_of
from abstain._tables import GROUPS_SHOWN, count_noun, count_samples, format_estimate
from abstain.cli import options as opt
from abstain.cli import screen
from abstain.cli.dependent_rows import hints_in_file
from abstain.cli.describe import (
    answer_notes,
    describe_areas_by_rule,
    describe_file,
    draw_description,
    suggest_threshold,
)
from abstain.confidence import LearnedConfidence
from abstain.errors import AbstainError, MemoryLimitError
from abstain.evaluation import Entry, Evaluation
from abstain.evaluation.results import STAR_LEGEND, best_scores
from abstain.formats import Predictions
from abstain.formats.columns import UncertainError
from abstain.formats.file_evaluation import (
    choose_engine,
    engine_can_read,
    evaluate_with_engine,
    with_scores_of_all_questions,
)
from abstain.formats.file_names import model_name
from abstain.formats.logs import Log
from abstain.formats.predictions import LEARNED, graded_predictions, reading_notes
from abstain.formats.readers import is_helm_run
from abstain.formats.roles import TRUTH_ROLES
from abstain.formats.safety import display_name, naming_file
from abstain.formats.table_files import find_files
from abstain.metrics import by_name
from abstain.metrics.answer_metrics import is_answer_metric

_SHORTEST_CELL = 12  # columns of the screen for a number with its mark
_LONGEST_TITLE = 14  # characters; a longer name of a score is broken at its first underscore
_METRIC_WIDTH = 15  # columns of the screen for the names of the metrics
_ENGINES = ["memory", "files", "dask", "spark", "sketch"]
_SKETCH_METRICS = ("aurc", "augrc", "risk")  # that a sketch can bound
_ENGINE_HELP = "Compute backend. By default memory, and files for a table whose values exceed --memory."
_METRICS_HELP = (
    "Metrics, e.g. aurc, aurc:loo, aurc@0.8-1 (between two coverages), risk_at_coverage@0.9, or all; "
    "listed below."
)
_SCORES_HELP = "Confidences computed from class scores, e.g. max_softmax, max_logit, or all."
_LOSSES_HELP = "Losses computed from class scores, e.g. zero_one, cross_entropy, brier, or all."
_CROSS_ENTROPY_LEGEND = (
    "the same with the loss -ln(probability of the true class), which is no share of errors; "
    "--loss zero_one leaves it out"
)
_PRICE_HELP = (
    "What a wrong answer costs if a right one gains 1, for files with unanswered questions. 1 by default."
)
_PREVIEW_HELP = "Only show what the file holds and how it would be read."


@click.command("evaluate", cls=opt.DocumentedCommand, context_settings={"allow_extra_args": True})
@click.argument("file", type=opt.InputFile(folders=True))
@opt.name_option("metrics", _METRICS_HELP, several=True)
@opt.name_option("scores", _SCORES_HELP, several=True)
@opt.name_option("losses", _LOSSES_HELP, several=True)
@opt.shared_options("level")
@click.option("--engine", type=click.Choice(_ENGINES), help=_ENGINE_HELP)
@click.option("--price", type=float, metavar="P", help=_PRICE_HELP)
@opt.shared_options("repetitions")
@click.option("--preview", is_flag=True, help=_PREVIEW_HELP)
@opt.with_read_options
@opt.with_output_options
def evaluate(
    file: str,
    read_options: opt.ReadOptions,
    output: opt.Output,
    engine: str | None,
    preview: bool,
    price: float | None,
    **options: Any,
) -> None:
    """How well a model knows when it is wrong: all metrics in one table, with intervals.

    FILE holds logits or probabilities with labels, or a plain table with the columns correct (0/1) or loss,
    confidence, and optionally abstained and group. It may be a folder of tables, which an engine reads (--engine).
    Without any confidence, the table has accuracy and other scores of right, wrong and unattempted questions.

    Examples:
      abstain evaluate preds.npz                      logits or probs, and labels
      abstain evaluate answers.csv                    columns correct, confidence
      abstain evaluate out.parquet -c confidence=p_max -c correct=is_right
      abstain evaluate logits.npy --as logits --labels labels.npy
      abstain evaluate preds.npz --metric aurc,risk_at_coverage@0.9 --score all
      abstain evaluate graded.csv --metric accuracy,simpleqa_f
      abstain evaluate preds.npz --json -o table.json
      abstain evaluate predictions/                   a folder of tables
    """
    opt.refuse_unanswered_as_wrong(options["metrics"] or (), read_options.unanswered)
    further_files = click.get_current_context().args
    if further_files:
        raise click.UsageError(
            f"evaluate takes one file, got {1 + len(further_files)}. To rank several: "
            f"{shlex.join(['abstain', 'compare', file, *further_files])}"
        )
    chosen_engine = engine or choose_engine(file, read_options.memory)
    if (chosen_engine == "memory" and not is_helm_run(file)) or preview:
        opt.refuse_folders((file,))
    if preview:
        draw_description(screen.make_console(), describe_file(file, read_options))
        return
    predictions = None  # of a file that is read in memory
    uncertain = None  # why such a file could not be read
    if chosen_engine != "memory" and price is not None:
        raise click.UsageError("--price is for files that are read in memory, not for --engine.")
    if chosen_engine == "memory":
        try:
            with screen.show_working(f"reading {display_name(file)}"):
                predictions = read_options.read(file, summarise=False, keep_others=True)
        except MemoryLimitError:
            if engine is not None or price is not None or not engine_can_read(file):
                raise
            chosen_engine = "files"
        except UncertainError as error:
            uncertain = error.with_traceback(None)  # which would keep what was read in memory
    if uncertain is not None:  # perhaps there is no confidence
        unranked = evaluate_unranked(file, read_options, price, options)
        if unranked is None:
            raise uncertain
        table, predictions = unranked
        table = _add_hints(table, file, read_options, predictions)
        first_estimate = table.entries[0].estimate
        quiet = "-" if first_estimate is None else repr(float(first_estimate))
        draw = partial(draw_evaluation, table=table, predictions=predictions)
        screen.deliver(output, table, quiet=quiet, draw=draw)
        return
    if chosen_engine == "memory":
        assert predictions is not None
        opt.refuse_unused_names(predictions)
        samples = count_noun(predictions.n, "sample")
        with screen.show_working(f"evaluating {samples}"), naming_file(file):
            table = evaluate_predictions(predictions, price, **options)
            table = _add_hints(table, file, read_options, predictions)
    elif chosen_engine == "sketch":
        table = evaluate_by_sketch(file, read_options.engine_columns(file), options["level"])
    else:
        if chosen_engine == "files":
            options["memory"] = read_options.memory
        table = evaluate_with_engine(chosen_engine, file, read_options.engine_columns(file), **options)

    metric = "aurc" if "aurc" in table.metrics else table.metrics[0]
    estimate = table[table.scores[0], table.losses[0], metric].estimate
    quiet = "-" if estimate is None else repr(float(estimate))
    draw = partial(draw_evaluation, table=table, predictions=predictions)
    model = display_name(file if predictions is None else predictions.name)
    latex = table.to_latex(model) if output.form == "latex" else None
    screen.deliver(output, table, quiet=quiet, draw=draw, latex=latex)
    is_standard_input = file == "-"  # which cannot be read a second time
    if chosen_engine == "memory" and output.is_screen and not is_standard_input:
        assert predictions is not None
        suggest_after(file, read_options, predictions)


def _add_hints(
    table: Evaluation, file: str, read_options: opt.ReadOptions, predictions: Predictions
) -> Evaluation:
    """Return the table with a note on a column whose name and values are those of patients or the like.

    `predictions` are the rows of `file` by `read_options`, of which the table was made.
    """
    consequence = "the intervals are too narrow"
    hints = hints_in_file(file, read_options, predictions, consequence, named_only=True)
    return replace(table, notes=(*table.notes, *hints))


def suggest_after(file: str, read_options: opt.ReadOptions, predictions: Predictions) -> None:
    """Print what to run after a table of `file`, on stderr: a threshold, a page, and the meaning of the numbers.

    The commands repeat the options for reading the file, as the user typed them (`read_options.flags()`).
    `suggest_threshold` returns the words of a command line, or None where no threshold would be found. Then the first
    of the three suggestions is missing. `predictions` are the rows of `file` by `read_options`.
    """
    threshold_command = suggest_threshold(file, read_options, predictions)
    purposes = (
        {}
        if threshold_command is None
        else {threshold_command: "below which confidence should it not answer?"}
    )
    opt.suggest_commands(  # the words of each command after `abstain` -> what it is for
        {
            **purposes,
            ("report", file, *read_options.flags(), "-o", "report.html"): "curves and thresholds on one page",
            ("evaluate", "--help"): "what each number means",
        }
    )


def evaluate_predictions(
    predictions: Predictions,
    price: float | None,
    *,
    level: float,
    scores: Any = None,
    losses: Any = None,
    **options: Any,
) -> Evaluation:
    """Evaluate a file that was read in memory, with notes about unanswered questions.

    `price` is what a wrong answer costs if a right one gains 1; None if the user did not state it (1 for logs, and no
    note for other files). The other options are those of `abstain.evaluate`. Raises a usage error if there is a price
    and the file has losses or weights. `predictions` holds what a file says of one model: class scores or confidences,
    labels or losses, weights and groups.

    Notes are printed in their order. Each step below puts its own before those that are there, except for the price of
    a plain table, which comes last.
    """
    arguments = predictions.arguments(scores=scores, losses=losses)
    table = abstain.evaluate(**arguments, level=level, **options, progress=False)
    # of a log: accuracy and the like over all questions, also over answers that the ranking leaves out
    table = with_scores_of_all_questions(table, predictions, options.get("metrics"))
    # all notes of the table; those on a ranking worse than chance say what to do about the sign of its column
    notes = predictions.with_sign_advice(table.notes)
    # first a note if the learned confidence was fitted on some of these rows
    table = replace(table, notes=(*opt.fitted_rows_notes(predictions), *notes))
    log = predictions.log  # the questions and answers that the columns were made from; None for a plain table
    if log is not None:
        log_price = 1.0 if price is None else price
        other_notes = answer_notes(log, price=log_price, level=level, learned=predictions.learned)
        log_notes = [*log.summary_lines(), *other_notes]
        table = replace(table, notes=(*log_notes, *table.notes))
        # without --metric, and for right and wrong answers: accuracy, and what repeated answers add to it
        if options.get("metrics") is None and log.is_graded:
            table = _add_repeats(table, log, level)
    if _has_unanswered_class_scores(predictions):
        table = replace(table, notes=(*_refusal_notes(predictions, price, level, scores), *table.notes))
    elif price is not None and (log is None or not log.is_graded):
        table = replace(table, notes=(*table.notes, price_note(predictions, price, level)))
    return table


def _has_unanswered_class_scores(predictions: Predictions) -> bool:
    """Whether a file has class scores and some of its rows have no answer."""
    is_unanswered = predictions.abstained if predictions.refused is None else predictions.refused
    return predictions.has_class_scores and is_unanswered is not None and bool(is_unanswered.any())


def _refusal_notes(predictions: Predictions, price: float | None, level: float, scores: Any) -> list[str]:
    """Sentences on class scores of which some rows have no answer: how these count, shares, and AURC counted otherwise.

    `price` is what a wrong answer costs if a right one gains 1; None counts as 1. `scores` are the requested ones, as
    in `abstain.evaluate`; `level` is the confidence level of the intervals. No AURC where every row has no answer.
    Shares are those of right, wrong and unattempted rows. Weighted samples get none, since shares count every sample
    once; with a `price`, `price_note` refuses them by a usage error. The caller made sure that a row has no answer.
    """
    # `refused` marks rows without an answer that count as wrong; None where they count as abstentions
    rule = "abstained" if predictions.refused is None else "wrong"
    other_rule = "wrong" if rule == "abstained" else "abstained"
    notes = reading_notes([predictions])  # how the rows without an answer count
    if predictions.sample_weight is None or price is not None:
        # The shares tell "not attempted" from "wrong", whatever rule the table has. The note has these three shares and
        # the score at the price.
        shares_of = predictions.with_unanswered("abstained")
        notes.append(price_note(shares_of, 1.0 if price is None else price, level))
    by_other_rule = predictions.with_unanswered(other_rule)
    if by_other_rule.abstained is not None and by_other_rule.abstained.all():
        return notes
    evaluation = abstain.evaluate(
        **by_other_rule.arguments(scores=scores, losses=["zero_one"]),
        metrics=["aurc"],
        level=level,
        progress=False,
    )
    return [*notes, describe_areas_by_rule(evaluation, other_rule)]


def _add_repeats(table: Evaluation, log: Log, level: float) -> Evaluation:
    """Add accuracy, right at least once and right every time to the table of a log whose questions were asked often.

    They rank nothing, so that they are the same in the column of every confidence. All rows of the log count that have
    a grade, or need none since there is no answer; a note says how many where these are not the rows of the ranking,
    which leaves out answers without a confidence.
    The table is returned as it is where not every question was asked more than once, or answers are partly right
    (`repeated_entries` is empty then).
    """
    # every such row as right or wrong; `log.rules.unanswered` says how rows without an answer count
    graded = graded_predictions(log, name="", unanswered=log.rules.unanswered)
    repeats = repeated_entries(graded, level)
    if not repeats:
        return table
    accuracy = abstain.evaluation.evaluate_answers(
        **graded.graded_arguments(), metrics=["accuracy"], level=level, clusters=graded.clusters
    )
    entries = [
        replace(entry, score=score, loss=table.losses[0])  # a log has one loss
        for entry in (*accuracy.entries, *repeats)
        for score in table.scores
    ]
    notes = table.notes
    if graded.n != table.n:
        # titles of the metrics, each once
        listed = ", ".join(dict.fromkeys(entry.label for entry in entries))
        notes = (f"On all {graded.n:,} answers, not on the {table.n:,} of the ranking: {listed}.", *notes)
    return replace(table, entries=(*table.entries, *entries), notes=notes)


class UnrankedEvaluation(NamedTuple):
    """The table of a file without any confidence, and the answers that it was made from."""

    table: Evaluation
    predictions: Predictions


def evaluate_unranked(
    file: str, read_options: opt.ReadOptions, price: float | None, options: Mapping[str, Any]
) -> UnrankedEvaluation | None:
    """Evaluate a file of right and wrong answers without any confidence; None if it is not such a file.

    `price` and `options` are options of the command. None also if the user named a confidence or asks for metrics that
    need one. Repeated answers to the same questions add pass@k and pass^k. `read_options` are the options that say how
    files are read. DataError where a column that the user states cannot say right or wrong, such as a score above 1.
    """
    requested_metrics = options["metrics"]  # names, "all", or None without --metric
    # `columns` maps roles to the columns that the user named
    if "confidence" in read_options.columns or requested_metrics == "all":
        return None
    # some metric needs a confidence
    if not all(is_answer_metric(metric) for metric in requested_metrics or ()):
        return None
    try:
        log = read_options.read_log(file)
        if log.has_confidence or not log.is_graded:
            return None
        predictions = graded_predictions(log, name=model_name(file), unanswered=read_options.unanswered)
    except UncertainError:  # nothing says right or wrong: the caller knows more of what is missing
        return None
    except AbstainError:
        # A column cannot say right or wrong. If the user named it, the message says what can be done. TRUTH_ROLES are
        # the roles of columns from which right and wrong follow ("correct", "loss", "labels", "error").
        if set(TRUTH_ROLES).isdisjoint(map(role_of, read_options.columns)):
            return None
        raise
    answers: dict[str, Any] = {
        **predictions.graded_arguments(),
        "level": options["level"],
        "clusters": predictions.clusters,
        "groups": predictions.group_labels(),
    }
    shown_metrics = requested_metrics
    if requested_metrics is None and read_options.unanswered == "wrong" and log.unanswered:
        # all others that are shown by default tell wrong answers from unanswered ones
        shown_metrics = ["accuracy"]
    table = abstain.evaluation.evaluate_answers(**answers, metrics=shown_metrics)
    entries = list(table.entries)
    if price is not None:
        # the mean score where a right answer gains 1 and a wrong one costs `price`
        at_price = abstain.metrics.score_at_price(price)
        opt.refuse_unanswered_as_wrong([at_price], read_options.unanswered)
        entries += abstain.evaluation.evaluate_answers(**answers, metrics=[at_price]).entries
    repeats = repeated_entries(predictions, options["level"]) if requested_metrics is None else []
    notes = [
        "No confidence is read, so nothing is ranked: name a column with -c confidence=NAME for risk-coverage curves.",
        *log.summary_lines(),
    ]
    table = replace(table, entries=(*entries, *repeats), notes=tuple(notes))
    return UnrankedEvaluation(table, predictions)


def repeated_entries(predictions: Predictions, level: float) -> list[Entry]:
    """Right at least once and right every time, if one model was asked each question of a log more than once; else [].

    `predictions` holds every row of the log that has a grade, or needs none since there is no answer; each cluster of
    them is a question with its repeats. `level` is the confidence level of the intervals. Nothing for partly right
    answers.
    """
    log = predictions.log
    # without a column of questions, clusters are something else than repeats of a question
    if log is None or log.question is None or log.model_count > 1 or predictions.clusters is None:
        return []
    graded = predictions.graded_arguments()  # "correct" (0 to 1) and "answered" (None: all)
    # `clusters` holds the question of each row
    attempt_counts = np.unique(predictions.clusters.astype(str), return_counts=True)[1]
    if attempt_counts.min() < 2 or not np.isin(graded["correct"], (0.0, 1.0)).all():
        return []
    table = abstain.evaluation.evaluate_repeats(
        graded["correct"], predictions.clusters, answered=graded["answered"], level=level
    )
    # both callers have the accuracy already, with an interval of its own
    return [entry for entry in table.entries if entry.metric != "accuracy"]


def price_note(predictions: Predictions, price: float, level: float) -> str:
    """Make a sentence with the shares of rows right, wrong and not attempted, for a file that is no log of questions.

    `price` is what a wrong answer costs if a right one gains 1, `level` the confidence level of the intervals.

    Raises a usage error if the file has losses instead of right and wrong answers, or weights. `predictions` holds what
    a file says of one model: class scores or confidences, labels or losses, weights and groups.
    """
    if not predictions.is_graded:
        raise click.UsageError("--price is for right and wrong answers, and this file has losses.")
    if predictions.sample_weight is not None:
        raise click.UsageError(
            "--price takes every sample once, and this file has weights. Leave one of them out."
        )
    graded = predictions.graded_arguments()
    # the three shares with intervals, and the score at this price; its text is one sentence without the full stop
    three_way = abstain.evaluation.three_way(
        graded["correct"],
        answered=graded["answered"],
        price=price,
        level=level,
        clusters=predictions.clusters,
    )
    return f"{three_way}."


def evaluate_by_sketch(file: str, columns: dict[str, Any], level: float) -> Evaluation:
    """Evaluate a table in constant memory: each value is certain to lie between the two limits.

    `file` is a table or a folder of tables. `columns` are names of columns by argument of an engine ("loss",
    "confidence", "sample_weight", or "logits" and "labels"). `level` is only passed on to the table, since the limits
    are no confidence interval. Raises a usage error if there are groups. Of class scores it takes the 0/1 loss and max
    softmax.
    """
    from abstain.engines import Sketch
    from abstain.engines.read import Loader, parse_one_pair

    if "groups" in columns:
        raise click.UsageError("a sketch has no groups: leave that column out, or use --engine files.")
    has_class_scores = "logits" in columns
    score = "max_softmax" if has_class_scores else "confidence"  # its name in the table
    # with --confidence a saved model stands in the place of the column
    if isinstance(columns.get("confidence"), LearnedConfidence):
        score = LEARNED
    # reads the columns of a file in batches, and computes losses and confidences of class scores
    loader = Loader("evaluate", parse_one_pair("evaluate", columns))
    sketch = Sketch()
    for part in find_files("evaluate", file):
        for columns_by_group in loader.batches(part):
            # without groups there is one group, None; `samples` holds three arrays, the weights perhaps None
            loss, confidence, weight = columns_by_group[None].samples
            sketch.update(loss, confidence, sample_weight=weight)
    entries = []
    for name in _SKETCH_METRICS:
        metric = by_name(name)
        bounds = getattr(sketch, name)()  # e.g. `sketch.aurc()`: an estimate with certain limits
        entries.append(
            Entry(
                score=score,
                loss="zero_one" if has_class_scores else "loss",
                metric=name,
                label=metric.label,
                lower_is_better=metric.lower_is_better,
                estimate=bounds.estimate,
                standard_error=None,
                low=bounds.low,
                high=bounds.high,
                method="certified",
                n=sketch.n,
            )
        )
    note = "The limits are not a confidence interval: the value on these data certainly lies between them."
    return Evaluation(entries=tuple(entries), n=sketch.n, level=level, notes=(note,))


def draw_evaluation(console: Console, table: Evaluation, predictions: Predictions | None) -> None:
    """Print the table, with as many scores at a time as fit on the screen.

    `console` is where the text goes. `predictions` are the rows that the table was made from, of which only the model's
    name is read; None where an engine read the file.
    """
    title = count_samples(table.n, table.clusters)
    if predictions is not None:
        title = f"{display_name(predictions.name)}: {title}"
    if table.abstained:  # the share of samples without an answer
        title += f", {table.abstained:.1%} abstained"
    console.print(Text(title, style="bold"))
    console.print(Text(f"estimate, {table.level:.0%} interval below it; {STAR_LEGEND}", style="dim"))
    for loss in table.losses:
        if loss == "cross_entropy" and len(table.losses) > 1:
            console.print()
            console.print(Text(_CROSS_ENTROPY_LEGEND, style="dim"))
        for scores in _split_scores(console, table, loss):
            console.print()
            console.print(_scores_table(console, table, loss, scores))
    if table.groups:  # names of the groups, empty without any
        console.print()
        console.print(Text(table.group_title(), style="dim"))
        console.print(_groups_table(console, table))
    # why numbers are absent, and notes; a sentence that occurs twice is printed once
    screen.show_notes(console, dict.fromkeys(table.remarks()))


def _split_scores(console: Console, table: Evaluation, loss: str) -> list[tuple[str, ...]]:
    """Split the scores of a table into runs of about equal length whose columns fit on the width of the screen.

    `console` is where the text goes. The order stays; a run has at least one score, however narrow the screen is. A
    table has at least one score.
    """
    # A column of the screen is as wide as its longest cell, which is that of an interval, or the shortest width of a
    # number. All widths are in characters; `_METRIC_WIDTH`, of the first column, counts the blanks after it.
    limits = [
        screen.format_limits(console, entry)
        for entry in table.entries
        if entry.loss == loss and entry.group is None
    ]
    blanks_between_columns = 2
    column_width = blanks_between_columns + max([_SHORTEST_CELL, *map(len, limits)])
    fitting_count = max(1, (console.width - _METRIC_WIDTH) // column_width)
    run_count = -(-len(table.scores) // fitting_count)  # rounded up
    run_length = -(-len(table.scores) // run_count)
    return [table.scores[start : start + run_length] for start in range(0, len(table.scores), run_length)]


def _scores_table(console: Console, table: Evaluation, loss: str, scores: tuple[str, ...]) -> Table:
    """Make a table of all metrics of one loss, with one column for each of `scores`.

    A star marks the best of all scores of the evaluation in a row, also of those that are not in this table. `console`
    is where the text goes. A row is a metric; `scores` are in the order of `table.scores`, which a row's entries have.
    """
    columns: dict[str, list[Any]] = {loss if loss == "loss" else f"{loss} loss": []}
    for score in scores:
        title = score if len(score) <= _LONGEST_TITLE else score.replace("_", "_\n", 1)
        columns[title] = []
    for entries in table.rows(loss):  # for each metric, its entries: one for each score of the evaluation
        # names of the scores with the best number as it is shown; several where they look the same
        best = best_scores(entries, lambda entry: format_estimate(entry.estimate, entry.standard_error))
        cells: list[Any] = [entries[0].label]
        for entry in entries:
            if entry.score in scores:
                # `entry.mark` is " t" where tied confidences matter, otherwise ""
                mark = entry.mark + (" *" if entry.score in best else "")
                cells.append(screen.stacked_cell(console, entry.estimate, entry, mark))
        for column, cell in zip(columns.values(), cells):
            column.append(cell)
    blanks_between_columns = 2  # `_METRIC_WIDTH` counts them, too
    return screen.plain_table(columns, first_width=_METRIC_WIDTH - blanks_between_columns)


def _groups_table(console: Console, table: Evaluation) -> Table:
    """Make a table of the first metric and score within each group, worst group first, at most `GROUPS_SHOWN`.

    `console` is where the text goes. The evaluation must have groups.
    """
    entries = table.by_group()[:GROUPS_SHOWN]
    title = f"{entries[0].label} by {display_name(entries[0].score)}"
    return screen.plain_table(
        {
            "group": [display_name(entry.group) for entry in entries],
            "samples": [f"{entry.n:,}" for entry in entries],
            title: [format_estimate(entry.estimate, entry.standard_error) for entry in entries],
            f"{table.level:.0%} interval": [
                # where there is no interval, the reason why
                screen.format_limits(console, entry) or (entry.reason or "")
                for entry in entries
            ],
        },
        right=("samples",),
    )
