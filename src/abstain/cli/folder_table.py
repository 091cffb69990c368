"""What `abstain compare` prints for folders of logs: one row for each model and task."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import abstain
from abstain import _tables
from abstain.cli import options as opt
from abstain.cli import screen
from abstain.errors import AbstainError
from abstain.evaluation import compare_answers, evaluate_answers
from abstain.evaluation.graded import find_further_metric
from abstain.formats import Log, open_source
from abstain.formats.log_folders import LogFolder, RunLog, mean_correctness, read_log_folder
from abstain.formats.predictions import unnamed_predictions
from abstain.formats.safety import display_name, has_or_have, is_or_are, one_line
from abstain.metrics import by_name
from abstain.metrics.answer_metrics import is_answer_metric
from abstain.report.folder_page import Estimate, FolderRow, save_folder_page

_MAX_UNREAD = 5  # files that are named with the reason why they were not read
_MAX_FILE_NOTES = 10  # sentences of the logs themselves
_MAX_PLACES = 3  # models and tasks that a note lists
_ROLES_OF_SCORES = (
    "correct",
    "error",
    "loss",
    "labels",
    "prediction",
    "filter",
)  # which say what counts as right
_SHORTEST_NAME = 12  # characters of a model's name that fit on a line of the screen
_GAP = 3  # blanks between two columns of a table on the screen


def compare_folders(
    places: tuple[str, ...],
    read_options: opt.ReadOptions,
    output: opt.Output,
    *,
    metric: str,
    level: float,
    page: str | None = None,
    title: str = "",
) -> None:
    """Read the logs in folders and print a row for each model and task.

    Raises a usage error if no file can be read as a log. `read_options` are the options that say how files are read.
    `output` says in which form the result is written, and to which file. `page` is the HTML file that is written too,
    None for none, and `title` its headline.
    """
    with screen.show_working(f"reading {', '.join(map(display_name, places))}"):
        folder = read_log_folder(
            places,
            open_file=partial(open_source, format=read_options.format, limits=read_options.limits),
            make_log=partial(read_options.make_log, purpose="compared"),
        )
    if not folder.runs:
        reason = next(iter(folder.unread.values()), "It is empty.")
        raise click.UsageError(
            f"no file in {', '.join(places)} was read as a log. {reason} A folder with the parts of one table is read "
            f"by --engine files."
        )
    with screen.show_working("comparing"):
        folder_table = make_rows(folder, metric=metric, level=level)
    rows = folder_table.rows
    notes = folder_table.notes
    label = (find_further_metric(metric) or by_name(metric)).label
    if page:
        date = datetime.now(UTC).strftime("%d %B %Y")
        command = opt.typed_command()
        save_folder_page(
            rows,
            page,
            label=label,
            level=level,
            notes=[_without_folders(note, places) for note in notes],
            title=title,
            command=command,
            made=date,
        )
        opt.say(f"wrote {page}")
    cells: dict[str, list[Any]] = {
        "task": [row.task for row in rows],
        "model": [row.model for row in rows],
        "runs": [str(row.runs) for row in rows],
        "questions": [str(row.questions) for row in rows],
        "answers": [str(row.answers) for row in rows],
        "accuracy": [str(row.accuracy) for row in rows],
        "not answered": [row.unanswered_percent for row in rows],
        "rank": [row.rank for row in rows],
        label: [str(row.area) for row in rows],
        "confidence": [row.signal for row in rows],
    }
    records = [
        {**row._asdict(), "accuracy": row.accuracy._asdict(), "area": row.area._asdict()} for row in rows
    ]
    content = {"metric": metric, "level": level, "rows": records, "notes": notes, "unread": folder.unread}
    screen.deliver(
        output,
        result=None,
        quiet=str(len(rows)),
        draw=partial(
            draw_folder,
            rows=rows,
            label=label,
            notes=[_without_folders(note, places) for note in notes],
            level=level,
        ),
        json=json.dumps(content),
        columns=csv_columns(rows, label),
        latex=_tables.latex_table(cells),
    )


def csv_columns(rows: Sequence[FolderRow], label: str) -> dict[str, list[Any]]:
    """The columns of the CSV file, by title: one number in a cell, empty where it is undefined.

    `label` is the name of the metric in `area`. A row is one model on one task. Its `accuracy` and `area` (the metric
    that the user chose) are estimates with limits, each None where undefined; each becomes three columns:
    TITLE, "TITLE low" and "TITLE high". `signal` is the name of the confidence. `unanswered` is the share of questions
    without an answer, and `rank` a text such as "1-2", "" where the model is not ranked. All columns are as long as
    `rows`.
    """
    columns: dict[str, list[Any]] = {
        "task": [row.task for row in rows],
        "model": [row.model for row in rows],
        "runs": [row.runs for row in rows],
        "questions": [row.questions for row in rows],
        "answers": [row.answers for row in rows],
    }
    columns |= _limits_columns("accuracy", [row.accuracy for row in rows])
    columns["not answered"] = [row.unanswered for row in rows]
    columns["rank"] = [row.rank for row in rows]
    columns |= _limits_columns(label, [row.area for row in rows])
    columns["confidence"] = [row.signal for row in rows]
    return columns


def _limits_columns(title: str, estimates: Sequence[Estimate]) -> dict[str, list[float | str]]:
    """Three columns for numbers with intervals: the estimate, and its limits; empty cells where there is none."""

    def cells(values: Iterable[float | None]) -> list[float | str]:
        return ["" if value is None else value for value in values]

    return {
        title: cells(each.estimate for each in estimates),
        f"{title} low": cells(each.low for each in estimates),
        f"{title} high": cells(each.high for each in estimates),
    }


def _without_folders(note: str, places: tuple[str, ...]) -> str:
    """A sentence without the paths of the folders that were read: pages are passed on, and folders may be private."""
    for place in places:
        note = note.replace(f"{display_name(place).rstrip('/')}/", "")
    return note


class FolderTable(NamedTuple):
    """What is shown of a folder of logs."""

    rows: list[FolderRow]  # by task; within it by rank, and unranked ones by accuracy
    notes: list[str]  # sentences on what was not read and what could not be paired


def make_rows(folder: LogFolder, *, metric: str, level: float) -> FolderTable:
    """Measure each model on each task, and rank the models of a task by accuracy.

    `metric` is the metric that is shown besides, and `level` the confidence level of all intervals. A
    run is the log of one model on one task, with all its repetitions: `run.run_count` of them. `run.log.unanswered` is
    the share of questions without an answer, and `folder.unread` maps files that could not be read to the reason. Tasks
    come in the order of the folder, and within a task the best model first.
    """
    # which columns say what is right, then what the logs say of themselves
    notes = [*_describe_scores(folder.runs), *_list_file_notes(folder.runs)]
    tasks: dict[str, list[RunLog]] = {}
    for run in folder.runs:
        tasks.setdefault(run.task, []).append(run)
    rows = []
    for task, runs in tasks.items():
        ranks = _rank_models(task, runs, level)  # by model; not all have one
        notes += ranks.notes
        task_rows = []
        for run in runs:
            # the metric, and the confidence that ranks the answers
            ranked = _measure_area(run.log, metric, level)
            task_rows.append(
                FolderRow(
                    task=task,
                    model=run.model,
                    runs=run.run_count,
                    questions=run.log.questions,
                    answers=run.log.n,
                    accuracy=_measure_answers(run.log, "accuracy", level),
                    unanswered=run.log.unanswered,
                    rank=ranks.rank_of_model.get(run.model, ""),
                    signal=ranked.confidence_name,
                    area=ranked.area,
                )
            )
        # by rank, then by accuracy; models without a rank come last
        rows += sorted(task_rows, key=_place_in_ranking)
    if any(run.log.unanswered for run in folder.runs):
        # a metric of right, wrong and unattempted answers ranks nothing, and counts the unattempted by its own rule
        notes.append(
            "In the accuracy, unanswered questions count as wrong."
            if is_answer_metric(metric)
            else "Unanswered questions count as wrong and are ranked last unless --unanswered says otherwise."
        )
    if any(run.run_count > 1 for run in folder.runs):
        notes.append("Repeated runs of a model on a task are one row; answers to one question are a cluster.")
    if folder.unread:
        notes.append(f"{_tables.count_noun(len(folder.unread), 'file')} not read:")
        notes += [f"  {reason}" for reason in list(folder.unread.values())[:_MAX_UNREAD]]
        hidden_count = len(folder.unread) - _MAX_UNREAD
        if hidden_count > 0:
            hidden_files = _tables.count_noun(hidden_count, "other file")
            notes.append(f"  ... and {hidden_files}; --json lists all of them with their reasons.")
    return FolderTable(rows, notes)


def _place_in_ranking(row: FolderRow) -> tuple[float, ...]:
    """What the rows of a task are sorted by: the best and the worst rank that a model may have, then its accuracy."""
    ranks = [float(rank) for rank in row.rank.split("-")] if row.rank else [float("inf")]
    accuracy = row.accuracy.estimate
    return (ranks[0], ranks[-1], float("inf") if accuracy is None else -accuracy)


def _describe_scores(runs: Sequence[RunLog]) -> list[str]:
    """Which columns say what is right, and which filter of a reply was read: one sentence for all logs that agree.

    The sentences name up to `_MAX_PLACES` logs by task and model where the logs differ. Of the roles in
    `_ROLES_OF_SCORES` ("correct", "labels", "filter" ...), `column_of_role` maps each that a log has to its column, in
    words. At most `_MAX_FILE_NOTES`
    sentences, and how many more there are.
    """
    places: dict[str, list[str]] = {}  # by description: tasks and models
    for run in runs:
        columns = run.log.column_of_role
        description = "; ".join(f"{role}: {columns[role]}" for role in _ROLES_OF_SCORES if role in columns)
        places.setdefault(description, []).append(_name_run(run))
    places.pop("", None)  # logs that have none of these columns
    if len(places) == 1:
        return [f"{description}." for description in places]
    notes = []
    for description, names in places.items():
        listed = ", ".join(names[:_MAX_PLACES])
        if len(names) > _MAX_PLACES:
            listed += f" and {len(names) - _MAX_PLACES:,} more"
        notes.append(f"{listed}: {description}.")
    hidden_count = len(notes) - _MAX_FILE_NOTES
    if hidden_count > 0:
        more = (
            f"... and {_tables.count_noun(hidden_count, 'other choice')} of columns that say what is right."
        )
        notes = [*notes[:_MAX_FILE_NOTES], more]
    return notes


def _name_run(run: RunLog) -> str:
    """The task and the model of a log, for notes."""
    return " / ".join(display_name(name) for name in (run.task, run.model) if name)


def _list_file_notes(runs: Sequence[RunLog]) -> list[str]:
    """What the logs say of themselves, such as samples that are missing, after the names of task and model.

    At most `_MAX_FILE_NOTES` sentences, and how many more there are. The warning about samples that were left out comes
    in any case. A run is the log of one model on one task.
    """
    # the notes of the reader, and one on answers without a score, where there are such
    notes = [f"{_name_run(run)}: {note}" for run in runs for note in (*run.notes, *_unscored_note(run.log))]
    has_left_out = any("left out" in note for note in notes)  # words of all readers of logs
    hidden_count = len(notes) - _MAX_FILE_NOTES
    if hidden_count > 0:
        notes = [
            *notes[:_MAX_FILE_NOTES],
            f"... and {_tables.count_noun(hidden_count, 'other note')} of logs.",
        ]
    if has_left_out:
        notes.append("If samples were left out because a model failed on them, its accuracy is too high.")
    return notes


def _unscored_note(log: Log) -> list[str]:
    """A sentence on the answers of a log that have no score; empty if there are none."""
    count = int((~log.scored).sum())
    if not count:
        return []
    answers = _tables.count_noun(log.n, "answer")
    return [f"{count:,} of {answers} {has_or_have(count)} no score and {is_or_are(count)} left out."]


class _ModelRanks(NamedTuple):
    """Ranks of the models of one task."""

    rank_of_model: dict[str, str]  # such as "1" or "2-3"; empty where the models are not ranked
    notes: list[str]


def _rank_models(task: str, runs: list[RunLog], level: float) -> _ModelRanks:
    """Rank the models of a task by the mean correctness of each question.

    Models are paired by question where all have the same questions; otherwise a note says that they are not. Without
    the name of a task, only models that have the same questions are ranked, since others were asked something else. A
    model with one question shows no spread and is not ranked. A run is the log of one model on the task. `task` is ""
    where the logs do not name it. Returns ranks as text ("1", "2-3") by model, empty where nobody is ranked, and notes.
    """
    if len(runs) < 2:
        return _ModelRanks({}, notes=[])
    notes = []
    # by model, then by question: the mean correctness of its repeated answers, from 0 (wrong) to 1 (right)
    correctness_by_model = {run.model: mean_correctness(run.log) for run in runs}
    too_few = [model for model, correctness in correctness_by_model.items() if len(correctness) < 2]
    # the others of `too_few` have no scored answer at all (an empty dictionary), and get no note
    with_one_question = [model for model in too_few if correctness_by_model[model]]
    for model in too_few:
        del correctness_by_model[model]
    if with_one_question and task:  # the note begins with the name of the task
        listed = ", ".join(map(display_name, with_one_question))
        verb = "answered one question each and are"
        if len(with_one_question) == 1:
            verb = "answered one question and is"
        notes.append(f"{display_name(task)}: {listed} {verb} not ranked.")
    if len(correctness_by_model) < 2:
        return _ModelRanks({}, notes=notes)
    questions = list(next(iter(correctness_by_model.values())))
    is_paired = all(correctness.keys() == set(questions) for correctness in correctness_by_model.values())
    if not is_paired and not task:
        return _ModelRanks({}, notes=notes)
    entries: dict[str, Any] = {}
    for model, correctness in correctness_by_model.items():
        # paired means that place i is the same question in all arrays
        order = questions if is_paired else list(correctness)
        entries[model] = np.array([correctness[question] for question in order])
    try:
        comparison = compare_answers(entries, level=level, paired=is_paired)
    except AbstainError as error:
        reason = one_line(error).removeprefix("compare_answers: ")
        return _ModelRanks({}, notes=[*notes, f"{display_name(task)}: models are not ranked: {reason}"])
    if not is_paired:
        notes.append(
            f"{display_name(task)}: the models have different questions, so they are compared unpaired."
        )
    ranks = {contestant.name: str(contestant.ranks) for contestant in comparison.contestants}
    return _ModelRanks(ranks, notes)


def _measure_answers(log: Log, metric: str, level: float) -> Estimate:
    """Return a score of the answers of a log, such as "accuracy", with its interval; None where it is undefined.

    The accuracy is the share of right answers among all questions, answered or not. Answers to one question are a
    cluster. `metric` is a metric of right, wrong and unattempted answers; its limits are None too where there is one
    question.
    """
    rows = log.scored  # booleans: rows that have a grade, or need none since there is no answer
    if not rows.any():
        return Estimate(None, None, None)
    # the question of each row if one was asked several times, or the file's clusters; None where rows are independent
    cluster_of_row = log.find_clusters()
    answers = log.graded_answers()  # of these rows alone
    table = evaluate_answers(
        answers.right,
        answered=answers.attempted,
        unanswerable=answers.unanswerable,
        metrics=[metric],
        level=level,
        clusters=None if cluster_of_row is None else cluster_of_row[rows],
    )
    entry = table.entries[0]
    return Estimate(entry.estimate, entry.low, entry.high)


class _RankedBy(NamedTuple):
    """A metric, and the confidence that ranks."""

    confidence_name: str  # "" where no confidence could be used, and for a score of the answers
    area: Estimate


def _measure_area(log: Log, metric: str, level: float) -> _RankedBy:
    """Measure the ranking of a log by its first confidence; without an estimate where it has none or it is undefined.

    `metric` is one of the ranking ("aurc"), of calibration ("brier_score") or of the answers ("simpleqa_f"), which
    takes no confidence. `level` is the confidence level of the interval. The result has the name of the confidence, ""
    for none, and the estimate with its limits.
    """
    if is_answer_metric(metric):
        return _RankedBy(confidence_name="", area=_measure_answers(log, metric, level))
    not_measured = _RankedBy(confidence_name="", area=Estimate(None, None, None))
    if not log.has_confidence:
        return not_measured
    try:
        predictions = unnamed_predictions(log)  # the answers of the log, with all its confidences
        table = abstain.evaluate(**predictions.arguments(), metrics=[metric], level=level, progress=False)
    except AbstainError:
        return not_measured
    # of the first confidence, over all rows
    entry = next(entry for entry in table.entries if entry.group is None)
    return _RankedBy(entry.score, Estimate(entry.estimate, entry.low, entry.high))


def draw_folder(
    console: Console, rows: Sequence[FolderRow], label: str, notes: Sequence[str], level: float
) -> None:
    """Print a table for each task, with columns of the same width; columns that are empty throughout are left out.

    `console` is where the text goes; `label` is the name of the metric in `area`. A row is one model on one task, and
    `area` its metric that the user chose, such as AURC. Rows of one task must stand together, and there is at least one
    row. Where the screen is narrow, the names of models are broken into several lines.
    """
    rows_by_task: dict[str, list[FolderRow]] = {}
    for row in rows:
        rows_by_task.setdefault(row.task, []).append(row)
    models = _tables.count_noun(len({row.model for row in rows}), "model")
    console.print(Text(f"{models} on {_tables.count_noun(len(rows_by_task), 'task')}", style="bold"))
    console.print(
        Text(f"estimates with {level:.0%} intervals below; rank by accuracy within the task", style="dim")
    )
    # by title: a cell for each of `rows`; the column of the models' names is not among them
    columns = _screen_columns(console, rows, label)
    widths = {
        title: max(len(title), *(len(line) for cell in cells for line in cell.plain.split("\n")))
        for title, cells in columns.items()
    }
    # the column of the models' names gets the rest of the screen, but at least `_SHORTEST_NAME` characters
    room = console.width - sum(width + _GAP for width in widths.values())
    longest_name = max(len(name) for name in ("model", *(display_name(row.model) for row in rows)))
    model_width = min(longest_name, max(room, _SHORTEST_NAME))
    first_row = 0  # of the task, as an index of `rows`
    for task, task_rows in rows_by_task.items():
        console.print()
        console.print(Text(display_name(task) or "no task named", style="bold"))
        is_first = first_row == 0  # the titles stand above the first table, and hold for all
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=is_first)
        table.add_column("model", width=model_width, no_wrap=True)
        for title, width in widths.items():
            alignment: Any = "right" if title == "questions" else "left"
            table.add_column(Text(title), width=width, justify=alignment, no_wrap=True)
        for index, row in enumerate(task_rows, first_row):
            table.add_row(
                Text(_fold_name(display_name(row.model), model_width)),  # in lines of at most this width
                *(cells[index] for cells in columns.values()),
            )
        console.print(table)
        first_row += len(task_rows)
    console.print()
    screen.show_notes(console, notes)


def _screen_columns(console: Console, rows: Sequence[FolderRow], label: str) -> dict[str, list[Text]]:
    """The cells on the screen by title, but for the model's name; columns that are empty throughout are left out."""
    columns = {
        "questions": [_count_cell(row) for row in rows],
        "accuracy": [_estimate_cell(console, row.accuracy) for row in rows],
        "not answered": [Text(row.unanswered_percent if row.unanswered else "") for row in rows],
        "rank": [Text(row.rank) for row in rows],
        label: [_estimate_cell(console, row.area, below=row.signal) for row in rows],
    }
    return {title: cells for title, cells in columns.items() if {cell.plain for cell in cells} - {"", "-"}}


def _count_cell(row: FolderRow) -> Text:
    """The number of questions; below it that of answers and of runs, where these differ."""
    cell = Text(f"{row.questions:,}")
    if row.answers != row.questions:
        cell.append(f"\n{_tables.count_noun(row.answers, 'answer')}", style="dim")
    if row.runs > 1:
        cell.append(f"\n{_tables.count_noun(row.runs, 'run')}", style="dim")
    return cell


def _estimate_cell(console: Console, estimate: Estimate, below: str = "") -> Text:
    """An estimate to three digits with its limits in the second line and `below`, if any, in the third."""
    if estimate.estimate is None:
        return Text("-")
    cell = Text(f"{estimate.estimate:.3f}")
    if estimate.low is not None and estimate.high is not None:
        limits = f"{estimate.low:.3f}{screen.range_dash(console)}{estimate.high:.3f}"
        cell.append(f"\n{limits}", style="dim")
    if below:
        cell.append(f"\n{display_name(below)}", style="dim")
    return cell


def _fold_name(name: str, width: int) -> str:
    """Break a long name into lines of at most `width` characters, after a mark such as / or _ where there is one.

    >>> _fold_name("ollama/llama3.1-instruct", 12).split("\\n")
    ['ollama/', 'llama3.1-', 'instruct']
    """
    lines = [""]
    # parts of the name, each up to and with its mark; the last one may have none
    for part in re.findall(r"[^/_\-.:,= ]*[/_\-.:,= ]|[^/_\-.:,= ]+", name):
        if len(lines[-1]) + len(part) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
        while len(lines[-1]) > width:  # a part that is too long for a line is cut anywhere
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return "\n".join(lines)


def holds_folder(files: tuple[str, ...]) -> bool:
    """True if one of the paths is a folder that is to be read file by file."""
    return any(Path(file).is_dir() for file in files)


def hold_several_tasks(files: tuple[str, ...], read_options: opt.ReadOptions) -> bool:
    """True if all files are logs of a harness and not all of the same task; False if one of them cannot be opened.

    A harness is a program that runs benchmarks. `read_options` are the options that say how files are read. The caller
    then compares the models task by task.
    """
    tasks = set()
    for path in files:
        try:
            source = open_source(path, format=read_options.format, limits=read_options.limits)
        except AbstainError:
            return False
        if not source.is_harness_log:
            return False
        tasks.add(source.facts.task)  # "" where the log does not name its task
    return len(tasks) > 1
