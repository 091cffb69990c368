"""The command `abstain describe`: what a file holds, how it would be read, and the commands that evaluate it."""

from __future__ import annotations

import json
import shlex
import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.text import Text

import abstain
from abstain import _tables
from abstain._tables import count_noun
from abstain.cli import screen
from abstain.cli.dependent_rows import hints_at_dependent_rows
from abstain.cli.guessed_columns import GuessedColumns, varies
from abstain.cli.missing_confidences import measure_by_other_rule
from abstain.cli.options import (
    DocumentedCommand,
    InputFile,
    Output,
    ReadOptions,
    with_output_options,
    with_read_options,
)
from abstain.confidence import LearnedConfidence
from abstain.confidence.learn import MIN_OF_A_KIND
from abstain.errors import AbstainError, InputError
from abstain.evaluation import Evaluation
from abstain.formats import Log, OpenedTable, Predictions, TextValues, open_source
from abstain.formats.columns import UncertainError, as_texts
from abstain.formats.free_text import FreeTextError
from abstain.formats.json_files import NoTableError
from abstain.formats.loaded_columns import BlankOutcomesError
from abstain.formats.predictions import unnamed_predictions
from abstain.formats.safety import display_name, one_line
from abstain.report.certified import choose_threshold

_MAX_COLUMNS = 60  # that are listed
_MAX_TEXT = 24  # characters of a value that are printed
_MAX_COMMANDS = 4  # suggested for other columns
_METADATA_PREFIX = "metadata."  # of columns in which readers of logs put what a log says of each sample
_LEVEL = 0.95  # of the intervals
_MAX_ROWS_TO_TRY = 1_000_000  # in which a threshold is chosen to see whether there is one
_HOW_TO_STATE = (
    "State which column is which: -c correct=NAME -c confidence=NAME, or -c labels=NAME -c prediction=NAME "
    "-c confidence=NAME."
)


@click.command("describe", cls=DocumentedCommand)
@click.argument("file", type=InputFile(folders=True))
@with_read_options
@with_output_options
def describe(file: str, read_options: ReadOptions, output: Output) -> None:
    """What a file or the log of a harness holds: rows, questions, repeats, filters, scores and confidences.

    Logs of lm-evaluation-harness, Inspect, HELM (the folder of a run), promptfoo, UQLM, OpenAI evals, EvalEval,
    lighteval, SWE-bench and tau-bench are recognised by their content; for any other table, say which column is which.
    Fields inside objects of a JSON file have dotted names. At the end are the commands that evaluate the file.

    Examples:
      abstain describe samples_gsm8k.jsonl
      abstain describe run.eval -c correct=match
      abstain describe answers.parquet -c labels=truth -c prediction=answer
      abstain describe judged.json -c correct=judge.correct -c confidence=judge.confidence
    """
    try:
        description = describe_file(file, read_options)
    except NoTableError as error:  # a JSON file that holds neither a log nor a table
        if output.form is None:  # a person reads it: --json, --csv, --latex and --quiet are for programs
            for line in error.tree:  # what the file holds, a line per key
                click.echo(line)
        raise
    columns = description["columns"]  # cells of text by title, a row for each column of the file
    screen.deliver(
        output,
        result=None,  # every form of the output is given below
        quiet=str(description["rows"]),
        draw=partial(draw_description, description=description),
        json=json.dumps(description),
        columns=columns,
        latex=_tables.latex_table(columns),
    )


def describe_file(file: str, read_options: ReadOptions) -> dict[str, Any]:
    """Return all that the command prints, by the names of its JSON output.

    "rows" is the number of rows in the file, "read" how many of them were read; "taken" maps roles to columns, with
    "read as" for the kind of predictions if there is a confidence. Numbers of a log are None for other files, and a
    file that cannot be read as predictions has the reason among its notes. Raises DataError only if the file cannot be
    opened at all. `read_options` are the options that say how files are read.
    """
    source = open_source(file, format=read_options.format, limits=read_options.limits)
    log: Log | None = None
    # by role, in words: the name of a column, several names, or a name and an explanation in brackets
    column_by_role: dict[str, str] = {}
    notes = list(source.facts.notes)  # what the log of a harness says of itself; a plain table has none
    improving_command = None
    threshold_command = None
    is_free_text = False  # whether the answers would be compared word by word, and are sentences
    try:
        try:
            predictions = read_options.read(file, summarise=False)
            samples = count_noun(predictions.n, "sample")
            column_by_role = {"read as": f"{predictions.kind}, {samples}", **predictions.column_of_role}
            log = predictions.log
            improving_command = _suggest_improve(file, read_options, predictions)
            threshold_command = suggest_threshold(file, read_options, predictions)
        except UncertainError:  # perhaps only a confidence is missing
            log = read_options.read_log(file)
            column_by_role = log.column_of_role
        # the notes of a log begin with those of its source; price 1: a wrong one costs what a right one gains
        if log is not None:
            notes = [*log.notes, *answer_notes(log, price=1.0, level=_LEVEL)]
    except AbstainError as error:
        notes.append(one_line(error))
        is_free_text = isinstance(error, FreeTextError)
    # one entry per row in each column, except for shorter ones such as the names of classes
    row_count = max((column.shape[0] for column in source.columns.values() if column.shape), default=0)
    if column_by_role:
        notes += hints_at_dependent_rows(source, column_by_role, "the intervals are too narrow")
    has_confidence = "read as" in column_by_role
    guesses = None if source.is_harness_log or has_confidence else GuessedColumns(source)
    if guesses is not None and not column_by_role:  # it could not be read
        notes += _explain_unread(source, read_options, guesses, is_free_text=is_free_text)
    return {
        "file": source.path.name,
        "written by": _describe_origin(source),
        "rows": row_count,
        "read": None if log is None else log.n,
        "questions": None if log is None else log.questions,
        "accuracy": None if log is None else log.accuracy,
        "unanswered": None if log is None else log.unanswered,
        "taken": column_by_role,
        "columns": _describe_columns(source),
        "notes": notes,
        "commands": _suggest_commands(
            file, source, read_options, log=log, has_confidence=has_confidence, guesses=guesses
        ),
        "threshold": None if threshold_command is None else shlex.join(["abstain", *threshold_command]),
        "improve": improving_command,
    }


def _explain_unread(
    source: OpenedTable, read_options: ReadOptions, guesses: GuessedColumns, *, is_free_text: bool
) -> list[str]:
    """Return sentences on a plain table that could not be read: what it holds instead, and what the user can state.

    `guesses` are those about the columns of the opened file `source`, and `read_options` what the user stated already.
    `is_free_text` says that the error told of free text, which need not be told again.
    """
    # sentences, "" where they do not apply: the table is a summary, or one of its columns holds grades in words
    explained_summary = guesses.explain_summary()
    explained_grades = "" if "correct" in read_options.columns else guesses.explain_grades()
    explanation = explained_summary or explained_grades
    if not explanation and not is_free_text:
        explanation = guesses.explain_incomparable_answers() or _HOW_TO_STATE
    sentences = [explanation] if explanation else []
    if not explained_summary:
        consequence = "the intervals are too narrow"
        sentences += hints_at_dependent_rows(source, read_options.columns, consequence, named_only=True)
    return sentences


def _suggest_improve(file: str, read_options: ReadOptions, predictions: Predictions) -> str | None:
    """Return the command line that learns a better confidence, None where there is nothing to learn it from.

    That takes class scores with labels, or several confidences, and enough right and wrong rows. `predictions` are
    those of the file, read by `read_options`. None also where they are ranked by a learned confidence already
    (--confidence). `log` is None unless the file is one of questions and answers.
    """
    if predictions.learned is not None:
        return None
    options = read_options
    # unless the user named confidences of a log, a better one is learned from all that the log has: "*"
    if predictions.log is not None and "confidence" not in read_options.columns:
        options = read_options._replace(columns={**read_options.columns, "confidence": "*"})
    try:
        learnable = predictions
        if predictions.log is not None:
            # read again: learning keeps answers that lack some of the confidences
            learnable = options.read(file, summarise=False, purpose="learning")
        confidences = learnable.learning_inputs().get("signals", {})  # by name
        if not learnable.has_class_scores and len(confidences) < 2:
            return None
        # those of the file, or zero-one losses of class scores
        losses = learnable.own_or_zero_one_losses()
    except (AbstainError, click.UsageError):  # no labels, or no such columns
        return None
    wrong_count = int(np.sum(losses > 0))
    # too few right or wrong rows for `learn_confidence`; partly right ones count as wrong here
    if min(wrong_count, len(losses) - wrong_count) < MIN_OF_A_KIND:
        return None
    return shlex.join(["abstain", "improve", file, *options.flags(), "--save", "confidence.json"])


def suggest_threshold(
    file: str, read_options: ReadOptions, predictions: Predictions
) -> tuple[str, ...] | None:
    """Return the words of a command line, after `abstain`, that chooses a threshold; None if none would be found.

    The risk is half of the error rate of the answered samples, rounded to one digit, or three quarters of it where half
    cannot be promised; 0.05 if all answers are right, or if the file has other losses. In a file of very many rows half
    is not tried. `predictions` are the rows of `file` by `read_options`.
    """
    answered = predictions.without_abstentions()
    risks = ["0.05"]
    if predictions.is_graded:
        losses = answered.own_or_zero_one_losses()
        error_rate = float(np.average(losses, weights=answered.sample_weight))
        # as the user would type them, and as they are tried below
        risks = [f"{error_rate / 2:.1g}", f"{0.75 * error_rate:.2g}"] if error_rate else risks
    # groups that the user named are meant to be used, which takes this option
    by_group = ["--groups"] if "groups" in read_options.columns else []
    for risk in risks:
        # True if some threshold keeps this risk by the defaults of the command; large files are not tried
        if answered.n > _MAX_ROWS_TO_TRY or _is_feasible(answered, float(risk), by_group=bool(by_group)):
            return ("threshold", file, *read_options.flags(), *by_group, "--risk", risk)
    return None


def _is_feasible(answered: Predictions, risk: float, *, by_group: bool) -> bool:
    """Return whether some threshold keeps the risk of the accepted samples by the defaults of `abstain threshold`."""
    groups = answered.group_labels() if by_group else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return choose_threshold(answered, "max_softmax", "zero_one", groups=groups, risk=risk).feasible
    except AbstainError:
        return False


def _describe_origin(source: OpenedTable) -> str:
    """Return the harness that wrote a file, or its format and where in the file the table lies."""
    return f"{source.facts.tool}, `{display_name(source.place)}`" if source.place else source.facts.tool


def _describe_columns(source: OpenedTable) -> dict[str, list[str]]:
    """Make a table with a row for each column of a file: its name, kind, share present, distinct values, examples.

    The kind is "score" (it may say whether an answer is right), "signal" (it may be a confidence) or empty. At most
    `_MAX_COLUMNS` columns are listed. Returns cells of text by title. `source` is the opened file: its columns by name,
    with their types, and `facts`, what the log of a harness says of them, empty for a plain table.
    """
    rows = []
    for name, column in list(source.columns.items())[:_MAX_COLUMNS]:
        kind = ""
        if name in source.facts.possible_correctness_columns:
            kind = "score"
        elif name in source.facts.possible_confidence_columns:
            kind = "signal"
        try:
            values = column.load()
        except AbstainError:  # objects, or a mixture of texts and numbers
            content = "neither numbers nor text"
            if len(column.shape) > 1:
                inner = "records" if column.kind == "objects" else column.kind
                content = f"lists of {inner}, which are not read"
            rows.append((display_name(name), kind, "", "", content))
            continue
        share_present, distinct_count, content = _describe_values(values)
        # Only empty texts (""), or only missing numbers ("nothing"): the reader may have found something else in the
        # file's column, such as lists, and says so in its descriptions.
        if content in ("", "nothing"):
            content = source.facts.descriptions.get(name, content)
        rows.append((display_name(name), kind, share_present, distinct_count, content))
    titles = ("column", "kind", "present", "distinct", "holds")
    return {title: [str(row[index]) for row in rows] for index, title in enumerate(titles)}


def _describe_values(values: Any) -> tuple[str, str, str]:
    """Return, as text, the share of values present, the number of distinct ones, and examples or the range.

    `values` is one loaded column: texts, of which empty ones are absent, or an array of numbers, of which NaN is
    absent. The range is that of the finite numbers. An array of more axes, such as class scores, is described by its
    shape without the rows, and has no number of distinct values. There is at least one row.
    """
    if isinstance(values, TextValues):
        is_present = np.array([bool(text) for text in values.distinct_texts])[values.code_of_row]
        # `code_of_row` is the place of each row's text among `distinct_texts`; some of these are in no row
        texts = [values.distinct_texts[code] for code in np.unique(values.code_of_row[is_present])]
        return f"{is_present.mean():.1%}", f"{len(texts):,}", ", ".join(map(_clip, texts[:3]))
    if values.ndim != 1:
        return "100.0%", "", " x ".join(map(str, values.shape[1:])) + " numbers"
    is_present = ~np.isnan(values)
    present = np.asarray(values[is_present], np.float64)
    distinct_count = len(np.unique(present))
    finite = present[np.isfinite(present)]
    if not present.size:
        span = "nothing"
    elif not finite.size:
        span = "only infinite numbers"
    else:
        span = f"{finite.min():.4g} to {finite.max():.4g}"
        if len(finite) < len(present):
            span += f", {len(present) - len(finite):,} infinite"
        if distinct_count == 1:
            span += " (constant)"
    return f"{is_present.mean():.1%}", f"{distinct_count:,}", span


def _clip(text: str) -> str:
    """Cut a long text between words."""
    line = display_name(text)
    if len(line) <= _MAX_TEXT:
        return line
    start = line[:_MAX_TEXT]
    return f"{start.rpartition(' ')[0] or start} …"


def _suggest_commands(
    file: str,
    source: OpenedTable,
    read_options: ReadOptions,
    *,
    log: Log | None,
    has_confidence: bool,
    guesses: GuessedColumns | None,
) -> list[str]:
    """Return command lines that evaluate the file, first as it is read now; each was tried and gives a table.

    `source` is the opened file with its columns and what is known about them. `log` is the log of answers that was
    read, None if the file is not one or could not be read; `has_confidence` is True if it was read as predictions.
    `read_options` are the options that say how files are read, and `guesses` are those about the
    columns of a plain table that was not read as predictions, None for other files. At most `_MAX_COMMANDS` + 1 lines.
    """
    attempts = [read_options]  # options to try, in this order
    # each choice maps roles to names of columns
    if source.is_harness_log:
        choices = _other_columns(source, log, has_confidence)  # of right and wrong, or of the confidence
    else:
        choices = [] if guesses is None else guesses.choices()
    # columns with which the file is read now: a choice of them would be the first attempt once more
    column_by_role = {} if log is None else log.column_of_role
    attempts += [
        read_options._replace(
            columns=read_options.columns | columns,
            grades=read_options.grades or ({} if guesses is None else guesses.grades_of(columns)),
        )
        for columns in choices
        if any(column_by_role.get(role) != name for role, name in columns.items())
    ]
    # its values divide the rows into versions of the same answers; "" where there is no such column
    variant_column = source.facts.variant_column
    if variant_column and has_confidence:
        variants = dict.fromkeys(as_texts(source.columns[variant_column].load()).tolist())
        # without --only the first version is read, as in the first attempt
        attempts += [
            read_options._replace(only=read_options.only | {variant_column: value})
            for value in list(variants)[1:]
        ]
    lines: dict[str, None] = {}  # a set that keeps its order
    for attempt in attempts:
        # one line for the file as it is read now, and so many for other columns
        if len(lines) > _MAX_COMMANDS:
            break
        # the same options, or with rows left out that do not say right or wrong; None if they give no table
        working_attempt = _leave_out_unjudged(file, attempt)
        if working_attempt is not None:
            lines[shlex.join(["abstain", "evaluate", file, *working_attempt.flags()])] = None
    return list(lines)


def _leave_out_unjudged(file: str, attempt: ReadOptions) -> ReadOptions | None:
    """Return options with which `abstain evaluate` makes a table of this file; None if there is none by this attempt.

    They are those of the attempt, with rows left out that nobody has judged where these would be refused.
    """
    try:
        return attempt if _gives_table(file, attempt) else None
    except BlankOutcomesError:
        without_gaps = attempt._replace(missing="left_out")
        return without_gaps if _gives_table(file, without_gaps) else None


def _gives_table(file: str, attempt: ReadOptions) -> bool:
    """True if `abstain evaluate` makes a table of this file with these options: with a confidence, or without.

    BlankOutcomesError where it refuses rows that do not say right or wrong: the caller tries again without these. Usage
    errors are not caught. Warnings are silent, since this is only an attempt; its numbers are not used, so any level of
    the intervals will do (`_LEVEL`, 0.95).
    """
    # imported here, because that module imports this one
    from abstain.cli.evaluate import evaluate_predictions, evaluate_unranked

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                predictions = attempt.read(file, summarise=False)
            except UncertainError:  # perhaps there is no confidence
                options = {"metrics": None, "level": _LEVEL}
                return evaluate_unranked(file, attempt, price=None, options=options) is not None
            evaluate_predictions(predictions, price=None, level=_LEVEL, metrics=["aurc"])
    except BlankOutcomesError:  # an AbstainError, too
        raise
    except AbstainError:
        return False
    return True


def _other_columns(source: OpenedTable, log: Log | None, has_confidence: bool) -> list[dict[str, str]]:
    """Return choices of columns, by role, that could be read instead; each is one more way to evaluate the file.

    Other columns that say whether an answer is right if the file has a confidence or could not be read, otherwise
    columns of numbers that could be the confidence. `source` is the log of a known tool, and its `facts` are what the
    tool says of the columns; `log` are its answers, None if they could not be read. The likeliest come first.
    """
    correctness_columns = source.facts.possible_correctness_columns
    if log is None:
        return [{"correct": name} for name in correctness_columns[:_MAX_COMMANDS]]
    if not has_confidence:
        # columns of metadata with at least two different numbers; readers of logs store numbers alone under this prefix
        candidates = [
            name
            for name, column in source.columns.items()
            if name.startswith(_METADATA_PREFIX) and varies(column.load())
        ]
        return [{"confidence": name} for name in candidates[:_MAX_COMMANDS]]
    # an explanation in brackets may follow the name of the column
    used_scorer = log.column_of_role["correct"].split(" (")[0] if "correct" in log.column_of_role else ""
    other_scorers = [name for name in correctness_columns if name != used_scorer]
    # one command fewer, because the first one that is suggested reads the scorer in use
    return [{"correct": name} for name in other_scorers[: _MAX_COMMANDS - 1]]


def draw_description(console: Console, description: dict[str, Any]) -> None:
    """Print a description on the screen: what `describe_file` returned, by the names of the JSON output.

    `console` is where the text goes. "rows" is the number of rows in the file, "read" of those that were read from a
    log (None for other files), "taken" the columns by role, "commands" the command lines to suggest, the first for the
    file as it is read now; "threshold" and "improve" are one command line each, or None.
    """
    title = f"{display_name(description['file'])}: {description['written by']}, "
    title += count_noun(description["rows"], "row")
    if description["read"] not in (None, description["rows"]):
        title += f", {description['read']:,} read"
    if description["questions"] is not None:
        title += f", {count_noun(description['questions'], 'question')}"
    console.print(Text(title, style="bold"))
    console.print()
    columns = {  # only the log of a harness says of what kind its columns are
        title: cells for title, cells in description["columns"].items() if title != "kind" or any(cells)
    }
    console.print(screen.plain_table(columns, right=("present", "distinct")))
    column_by_role = dict(description["taken"])
    if column_by_role:
        kind = column_by_role.pop("read as", "answers without a confidence")
        console.print(Text(f"\nread as {kind}"))
        console.print(
            screen.plain_table({"role": list(column_by_role), "column": list(column_by_role.values())})
        )
    console.print()
    screen.show_notes(console, description["notes"])
    if description["commands"]:
        console.print(Text("commands that evaluate it:"))
    for line in description["commands"]:
        console.print(Text(f"  {line}"), soft_wrap=True)
    if description["commands"] and "read as" in description["taken"]:  # it has a confidence, which these need
        how_it_is_read = description["commands"][0].removeprefix("abstain evaluate ")
        console.print(Text("then:"))
        if description["threshold"]:
            console.print(Text(f"  {description['threshold']}"), soft_wrap=True)
        console.print(Text(f"  abstain report {how_it_is_read} -o report.html"), soft_wrap=True)
    if description["improve"]:
        console.print(Text("a better confidence may be learned from what the file holds:"))
        console.print(Text(f"  {description['improve']}"), soft_wrap=True)


def answer_notes(log: Log, price: float, level: float, learned: LearnedConfidence | None = None) -> list[str]:
    """Return sentences about a log: shares right, wrong and not attempted, and AURC if refusals count the other way.

    Refusals, questions without an answer, count as abstentions or as wrong, as the log's rules say. `price` is what a
    wrong answer costs if a right one gains 1; `level` is the confidence level of the intervals. `learned` ranks the
    answers next to the confidences of the log, of which there is at least one then. Empty for a log of losses, and for
    one question or cluster.
    """
    if not log.is_graded:
        return []
    rows = log.scored  # booleans: rows that have a grade, or need none since there is no answer
    # the question of each row if one was asked several times, or the file's clusters; None where rows are independent
    cluster_of_row = log.find_clusters()
    try:
        three_way = abstain.evaluation.three_way(
            1 - log.losses_with_unanswered_wrong(rows),
            answered=log.answered[rows],
            price=price,
            level=level,
            clusters=None if cluster_of_row is None else cluster_of_row[rows],
        )
    except InputError:  # one question has no interval
        return []
    # answers that are left out of the ranking count in the shares
    has_left_out = learned is None and log.rules.missing != "last" and log.share_without_confidence > 0
    counted_rows = f"all {int(rows.sum()):,} answers: " if has_left_out else ""
    # the text of `three_way` is the three shares and the score at this price, with intervals
    notes = [f"{counted_rows}{three_way}."]
    # `log.unanswered` is the share of questions without an answer
    if log.has_confidence and log.unanswered and log.answered[rows].any():
        notes.append(_describe_areas_by_opposite_rule(log, level, learned))
    if learned is None:  # every answer has a learned confidence, so that none is missing
        # Answers without a confidence are ranked last or left out. By the rule that is not in use: the AURC of each
        # confidence, if some answer lacks one, and which of two confidences is better, if that changes.
        by_other_rule = measure_by_other_rule(log, "aurc", level)
        notes += [*by_other_rule.area_sentences, *by_other_rule.verdict_sentences]
    return notes


def _describe_areas_by_opposite_rule(log: Log, level: float, learned: LearnedConfidence | None) -> str:
    """Return a sentence with the AURC of each confidence of a log if questions without an answer count the other way.

    `log.rules.unanswered` says how they count now: as "abstained" or as "wrong". `learned` is ranked next to the
    confidences of the log, of which there must be one; None for no learned one. `level` is the confidence level of the
    intervals. Neither the log nor its rules are changed.
    """
    opposite: Any = "wrong" if log.rules.unanswered == "abstained" else "abstained"
    predictions = unnamed_predictions(log, rules=replace(log.rules, unanswered=opposite))
    if learned is not None:
        predictions = predictions.with_confidence(learned, keep_others=True)
    evaluation = abstain.evaluate(**predictions.arguments(), metrics="aurc", level=level)
    row_count = int(log.scored.sum())  # rows that have a grade, or need none since there is no answer
    # fewer where the log's rules leave out answers without a confidence
    measured_rows = "" if predictions.n == row_count else f", on {predictions.n:,} of {row_count:,} rows"
    return describe_areas_by_rule(evaluation, opposite, measured_rows)


def describe_areas_by_rule(evaluation: Evaluation, rule: str, measured_rows: str = "") -> str:
    """Return a sentence with the AURC of each confidence, for questions without an answer counted by a rule.

    `rule` is "abstained" or "wrong"; `measured_rows`, such as ", on 90 of 100 rows", follows it: "" where all rows were
    measured. Every entry of the evaluation is an AURC, with its interval in `cell`.
    """
    treatment = {"wrong": "wrong and ranked last", "abstained": "abstentions"}[rule]
    areas = ", ".join(
        f"{entry.score} {entry.cell.removesuffix(entry.mark)}"  # without " t", the mark of ties in a table
        for entry in evaluation.entries
        if entry.group is None
    )
    return f"AURC with unanswered questions as {treatment}{measured_rows}: {areas}."
