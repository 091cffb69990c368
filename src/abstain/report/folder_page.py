"""The page of a folder of logs: one row for each model and task, with accuracy, rank and area."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from abstain._tables import count_noun
from abstain.formats import replacing
from abstain.report.content import short_names
from abstain.report.markup import Cell, estimate_cell, framed, html_table, list_items, name_cells, text

_NO_TASK = "no task named"


class Estimate(NamedTuple):
    """A number with its interval; all three are None where it is undefined."""

    estimate: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.estimate is None:
            return "-"
        limits = "" if self.low is None else f" [{self.low:.3g}, {self.high:.3g}]"
        return f"{self.estimate:.4g}{limits}"


class FolderRow(NamedTuple):
    """One model on one task."""

    task: str
    model: str
    runs: int
    questions: int
    answers: int
    accuracy: Estimate
    unanswered: float  # share of the questions without an answer, which count as wrong in the accuracy
    rank: str  # among the models of the task, by accuracy; "" where there is one model
    signal: str  # name of the confidence that `area` is of; "" where there is none
    area: Estimate  # the metric that the user chose, such as AURC; its numbers are None if undefined

    @property
    def unanswered_percent(self) -> str:
        """The share of the questions without an answer, such as "32.7%"; "<0.1%" of a share that would read 0.0%."""
        if 0 < self.unanswered < 0.0005:
            return "<0.1%"
        return f"{self.unanswered:.1%}"


def folder_page(
    rows: Sequence[FolderRow],
    *,
    label: str,
    level: float,
    notes: Sequence[str] = (),
    title: str = "Leaderboard",
    command: str = "",
    made: str = "",
) -> str:
    """Make the page of a folder of logs.

    Parameters
    ----------
    rows : sequence of FolderRow
        One for each model and task, those of a task together; at least one.
    label : str
        Name of the metric in `area`, such as "AURC".
    level : float
        Confidence level of the intervals.
    notes : sequence of str
        Sentences on what was read and how.
    title, command, made : str
        The headline, the command that makes the page again, the date.

    Returns
    -------
    str
        One HTML document with scripts, styles and data inside.

    Examples
    --------
    >>> accuracy = Estimate(0.8, 0.7, 0.9)
    >>> row = FolderRow("law", "small", 1, 40, 40, accuracy, 0.0, "", "stated", Estimate(0.1, 0.05, 0.2))
    >>> "<title>Runs</title>" in folder_page([row], label="AURC", level=0.95, title="Runs")
    True
    """
    tasks: dict[str, list[FolderRow]] = {}  # by name of the task, "" where the logs do not name it
    for row in rows:
        tasks.setdefault(row.task, []).append(row)
    models = {row.model for row in rows}
    links = {"table": "Tasks", "intervals": "Intervals"}  # id of a section -> title of the link to it
    fields = {  # the fields of `assets/folder.html`
        "verdict": text(_describe_winners(tasks)),
        "notes": f'<ul class="notes">{list_items([note.strip() for note in notes])}</ul>' if notes else "",
        "level": f"{level:.0%}",
        "tables": "".join(_task_table(task, task_rows, label, level) for task, task_rows in tasks.items()),
        "again": f"<h2>Make this page again</h2><pre>{text(command)}</pre>" if command else "",
    }
    return framed(
        "folder",
        title=title,
        subtitle=f"{count_noun(len(models), 'model')} on {count_noun(len(tasks), 'task')}",
        made=made,
        links=links,
        data={"level": f"{level:.0%}", "tasks": _task_data(tasks)},
        fields=fields,
    )


def save_folder_page(rows: Sequence[FolderRow], path: str | Path, **options: Any) -> None:
    """Write the page of a folder of logs to a file, completely or not at all; `options` are those of `folder_page`."""
    written = folder_page(rows, **options).encode("utf-8")
    with replacing(path) as stream:
        stream.write(written)


def _describe_winners(tasks: dict[str, list[FolderRow]]) -> str:
    """Which models rank first on the most tasks, in one or more sentences.

    Only tasks count on which some model is known to be worse than the first; models that may share rank 1 count as
    first. Sentences on the tasks where every model may be the first, and on those without a ranking, come after that.
    `tasks` maps each task to its rows, one for each model. The `rank` of a row is a text by accuracy: "1", "1-3" where
    the tests leave it open, or "" where the model is not ranked.
    """
    first_count: dict[str, int] = {}  # by model: on how many tasks it is first
    decided_count = 0
    undecided_count = 0
    for task_rows in tasks.values():
        # the best rank that each model may have: "1" of "1-3", "" of a model without a rank
        first_ranks = [row.rank.partition("-")[0] for row in task_rows]
        winners = [row.model for row, first_rank in zip(task_rows, first_ranks) if first_rank == "1"]
        if not winners:  # nobody is ranked on this task
            continue
        if not set(first_ranks) - {"1", ""}:  # every ranked model may be the first
            undecided_count += 1
            continue
        decided_count += 1
        for model in winners:
            first_count[model] = first_count.get(model, 0) + 1
    ranked_count = decided_count + undecided_count
    if not ranked_count:
        return "No task has two models that can be compared."
    sentences = []
    if decided_count:
        largest_count = max(first_count.values())
        best = [model for model, count in first_count.items() if count == largest_count]
        named = f"{len(best)} models" if len(best) > 3 else " and ".join(best)
        verb = "holds" if len(best) == 1 else "each hold"
        decided_tasks = count_noun(decided_count, "task")
        sentences.append(
            f"{named} {verb} the first rank, alone or shared, on {largest_count} of {decided_tasks}."
        )
    if undecided_count:
        where = f"On {count_noun(undecided_count, 'other task')},"
        if not decided_count:
            where = f"Models are ranked on {undecided_count} of {count_noun(len(tasks), 'task')};"
        sentences.append(f"{where} no model can be told apart from the first.")
    unranked_count = len(tasks) - ranked_count
    if unranked_count and decided_count:
        verb = "has" if unranked_count == 1 else "have"
        unranked_tasks = count_noun(unranked_count, "other task")
        sentences.append(f"{unranked_tasks} {verb} no two models that can be compared.")
    return " ".join(sentences)


def _task_table(task: str, rows: Sequence[FolderRow], label: str, level: float) -> str:
    """Make a card with the table of one task, as HTML; columns that are empty throughout are left out.

    A row is one model on one task: `accuracy` and `area` are estimates with limits, None where undefined; `area` is the
    metric called `label` (such as AURC), and `signal` the name of the confidence that it ranks by, if any; `rank` is by
    accuracy ("1-3"; "" without a rank). The order of the columns here is that of the page. `level` is the confidence
    level of the intervals.
    """
    name_cell = name_cells(row.model for row in rows)
    columns: dict[str, list[str | Cell]] = {
        "model": [name_cell[row.model] for row in rows],
        "accuracy": [estimate_cell(row.accuracy, places=3) for row in rows],
        "not answered": [text(row.unanswered_percent) for row in rows],
        "rank": [text(row.rank) for row in rows],
        text(label): [estimate_cell(row.area, places=3) for row in rows],
        "confidence": [text(row.signal) for row in rows],
        "runs": [_count_cell(row.runs) for row in rows],
        "questions": [_count_cell(row.questions) for row in rows],
        "answers": [_count_cell(row.answers) for row in rows],
    }
    if not any(row.unanswered for row in rows):
        del columns["not answered"]
    if not any(row.rank for row in rows):
        del columns["rank"]
    if all(row.area.estimate is None for row in rows):
        del columns[text(label)]
    if not any(row.signal for row in rows):
        del columns["confidence"]
    if all(row.runs == 1 for row in rows):
        del columns["runs"]
    if all(row.answers == row.questions for row in rows):
        del columns["answers"]
    head = list(columns)
    texts = ("rank", "model", "confidence")
    numbers = [index for index, name in enumerate(head) if name not in texts]  # aligned to the right
    caption = f"{text(task or _NO_TASK)}, with {level:.0%} intervals; rank by accuracy"
    table = html_table(head, list(zip(*columns.values())), caption, number_columns=numbers)
    return f'<div class="card">{table}</div>'


def _count_cell(count: int) -> Cell:
    """A whole number with separators of thousands on the page, without in the CSV file."""
    return Cell(f"{count:,}", csv=(str(count),))


def _task_data(tasks: dict[str, list[FolderRow]]) -> list[dict[str, Any]]:
    """Return the accuracies for the figure, by the names that `assets/folder.js` reads.

    `tasks` maps each task to its rows, one for each model. Of a model there are its name, a short name for the figure,
    and the estimate of the accuracy with its limits. Models without an accuracy are left out.
    """
    short = short_names((row.model for rows in tasks.values() for row in rows), longest=28)
    data = []
    for task, rows in tasks.items():
        models = [
            {"name": row.model, "short": short[row.model], **row.accuracy._asdict()}
            for row in rows
            if row.accuracy.estimate is not None
        ]
        data.append({"task": task or _NO_TASK, "models": models})
    return data
