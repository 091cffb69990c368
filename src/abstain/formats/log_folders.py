"""Many logs at once: a folder of logs by model and task, repeated runs as one log, and one long table of models."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abstain._roles import normalise_name
from abstain.errors import AbstainError
from abstain.formats.columns import OpenedTable, TextValues, UncertainError, as_texts
from abstain.formats.file_names import model_name
from abstain.formats.helm_log import INSTANCES_FILE
from abstain.formats.logs import Log
from abstain.formats.safety import display_name, file_error, one_line

_MAX_FILES = 20_000  # in the folders that one command reads
# Endings of files beside logs. They are tried like all others, since content decides, and not worth a reason.
_NO_LOG_ENDINGS = (
    ".md",
    ".rst",
    ".html",
    ".htm",
    ".pdf",
    ".png",
    ".svg",
    ".py",
    ".sh",
    ".yaml",
    ".yml",
    ".toml",
)


_MODEL_COLUMNS = ("model", "model_name")  # of a plain table


class RunLog(NamedTuple):
    """The answers of one model to one task, of all its runs."""

    task: str
    model: str
    run_count: int
    log: Log
    notes: tuple[str, ...] = ()  # what the harnesses' files say of themselves, such as samples that they lack


class LogFolder(NamedTuple):
    """What was read of folders of logs."""

    runs: list[RunLog]  # by task, then by model, in the order of their names
    unread: dict[str, str]  # path -> why it was not read, in one line


def split_by_column(source: OpenedTable, name: str) -> dict[str, OpenedTable]:
    """Split one long table by the values of a column, such as the model: value -> the table of its rows.

    Values come in the order of the table. A column is loaded once for all parts, when the first part needs it.
    UncertainError where there is no such column, DataError where some column has another number of rows.

    >>> from abstain.formats.columns import Column
    >>> table = OpenedTable(Path("t.csv"), "csv", {"m": Column.of(TextValues.of("aba")), "x": Column.of(np.arange(3))})
    >>> {value: part.columns["x"].load().tolist() for value, part in split_by_column(table, "m").items()}
    {'a': [0, 2], 'b': [1]}
    """
    if name not in source.columns:
        raise UncertainError(
            f"has no column `{display_name(name)}` to divide it by; it has {source.list_columns()}.", source
        )
    texts = source.columns[name].as_texts()
    for other_name, column in source.columns.items():
        if column.shape[0] != len(texts):
            raise file_error(
                source.path,
                f"`{display_name(other_name)}` must have {len(texts):,} rows like `{display_name(name)}`.",
            )
    # A part selects its rows when one of its columns is loaded; the cache is shared by all parts.
    cached_columns = {
        column_name: replace(column, load=cache(column.load))
        for column_name, column in source.columns.items()
    }
    parts = {}
    for value in dict.fromkeys(texts.tolist()):
        row_numbers = np.flatnonzero(texts == value)
        # `rows` makes a column of these rows and reads nothing yet
        part_columns = {
            column_name: column.rows(row_numbers) for column_name, column in cached_columns.items()
        }
        parts[str(value)] = replace(source, columns=part_columns)
    return parts


def find_model_column(source: OpenedTable) -> str:
    """Return the column that names the model of each row: that of the log, or `model` of a plain table; "" for none."""
    if source.is_harness_log:
        return source.facts.model_column
    return next((name for name in source.columns if normalise_name(name) in _MODEL_COLUMNS), "")


def find_log_files(files_and_folders: Iterable[str | Path]) -> list[Path]:
    """Return the files in folders and in the folders inside them, in the order of their names; files stay themselves.

    Hidden files are left out. Of the folder of a HELM run, only the file with the scores is returned. DataError where
    there are more than `_MAX_FILES` (20,000), counted while walking, so that a disk is not read to its end. `_walk`
    yields the files of a folder and of the folders in it; of a file, the file itself, even if it does not exist.
    """
    paths: list[Path] = []
    for file_or_folder in files_and_folders:
        for path in _walk(Path(file_or_folder)):
            paths.append(path)
            if len(paths) > _MAX_FILES:
                raise file_error(
                    file_or_folder, f"holds more than {_MAX_FILES:,} files. Name the folders of the logs."
                )
    return paths


def _walk(file_or_folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, one folder after the other; the file itself where `file_or_folder` is one."""
    if not file_or_folder.is_dir():
        yield file_or_folder
        return
    if (file_or_folder / INSTANCES_FILE).is_file():
        yield file_or_folder / INSTANCES_FILE
        return
    for path in sorted(file_or_folder.iterdir()):
        if not path.name.startswith("."):
            yield from _walk(path)


def read_log_folder(
    files_and_folders: Iterable[str | Path],
    open_file: Callable[[Path], OpenedTable],
    make_log: Callable[[OpenedTable], Log],
) -> LogFolder:
    """Read all logs of folders: one `RunLog` for each model and task, in which repeated runs are epochs.

    Parameters
    ----------
    files_and_folders : iterable of paths
        Folders, and files.
    open_file : callable
        Opens a file.
    make_log : callable
        Makes the log of an opened file, or of a part of it.

    Returns
    -------
    LogFolder
        Runs are sorted by task, then by model. Files that are no logs, logs that cannot be read, and copies of another
        file of the same model and task are listed with the reason; none of them is an error.
    """
    # by task and model: one `_ReadRun` (task, model, log, notes) from each file
    runs_by_name: dict[tuple[str, str], list[_ReadRun]] = {}
    unread: dict[str, str] = {}
    paths = find_log_files(files_and_folders)
    copy_of = _find_copies(paths)  # file -> the first file with the same content
    names_by_path: dict[Path, list[tuple[str, str]]] = {}  # task and model of each log that was read
    for path in paths:
        try:
            # one run for each task and model that the file holds; raises AbstainError for a file that is no log
            read_runs = _read_file(path, open_file, make_log)
            names_by_path[path] = [(read_run.task, read_run.model) for read_run in read_runs]
            first_path = copy_of.get(path)  # None where the file is no copy
            if first_path is not None and names_by_path.get(first_path) == names_by_path[path]:
                unread[str(path)] = f"{path}: has the same content as {first_path}, which is counted once."
                continue
            if first_path is not None and first_path in names_by_path:
                # Its task or model is another one, such as by the name of its folder: both files count.
                note = f"{path.name} has the same content as {first_path}."
                read_runs = [read_run._replace(notes=(*read_run.notes, note)) for read_run in read_runs]
            for read_run in read_runs:
                runs_by_name.setdefault((read_run.task, read_run.model), []).append(read_run)
        except AbstainError as error:
            unread[str(path)] = one_line(error)
            # such as .md, .png or .py: whatever was found wrong with it as a table says nothing
            if path.suffix.lower() in _NO_LOG_ENDINGS:
                unread[str(path)] = f"{path}: is not a log: its name ends in {path.suffix}."
    # Files of one name that share no question are not repeated runs: their models are called by their folders too.
    runs_by_name = _tell_files_apart(runs_by_name)
    runs = [
        RunLog(
            task=task,
            model=model,
            run_count=len(read_runs),
            log=join_runs([read_run.log for read_run in read_runs]),  # each run is one epoch, counted from 1
            notes=_distinct_notes(read_runs),
        )
        for (task, model), read_runs in sorted(runs_by_name.items(), key=lambda item: item[0])
    ]
    return LogFolder(runs=runs, unread=unread)


def _tell_files_apart(
    runs_by_name: dict[tuple[str, str], list[_ReadRun]],
) -> dict[tuple[str, str], list[_ReadRun]]:
    """Return the runs by task and model, where files of one name that share no question are no runs of one model.

    Such files, like `output.json` in the folders of several evaluations, are called by their folders too, from the
    first folder in which they differ. Models that the logs name themselves keep their names. Keys are (task, model);
    the result is a new dict. `folder_of_name` is the folder of a file after which the model is called, None where the
    log names its model.
    """
    told_apart: dict[tuple[str, str], list[_ReadRun]] = {}
    for (task, model), read_runs in runs_by_name.items():
        folders = [read_run.folder_of_name for read_run in read_runs if read_run.folder_of_name is not None]
        # some log names its model, or all files share questions: these are repeated runs of one model
        # (`_some_share_no_question`: have two of the logs no question in common?)
        if len(folders) < len(read_runs) or not _some_share_no_question([run.log for run in read_runs]):
            told_apart.setdefault((task, model), []).extend(read_runs)
            continue
        common_folder = os.path.commonpath(folders)
        for folder, read_run in zip(folders, read_runs):
            name = (folder.relative_to(common_folder) / model).as_posix()
            told_apart.setdefault((task, name), []).append(read_run._replace(model=name))
    return told_apart


def _some_share_no_question(logs: Sequence[Log]) -> bool:
    """Return whether two of the logs have no question in common; False where one does not name its questions."""
    question_sets = []
    for log in logs:
        if log.question is None:
            return False
        question_sets.append(set(as_texts(log.question).tolist()))
    return any(first.isdisjoint(second) for first, second in combinations(question_sets, 2))


def _find_copies(paths: Sequence[Path]) -> dict[Path, Path]:
    """Return file -> the first file with the same content, for each file that is not itself the first.

    Only files of one size are read. The score files of HELM runs are left out: runs with equal scores may be of other
    models, which other files of their folders say. `paths` are in the order in which files count: the first one of
    equal files stays. Files that do not exist are passed over.
    """
    paths_by_size: dict[int, list[Path]] = {}
    for path in paths:
        if path.name != INSTANCES_FILE and path.is_file():  # the name of every file of HELM's scores
            paths_by_size.setdefault(path.stat().st_size, []).append(path)
    copy_of = {}
    for paths_of_size in paths_by_size.values():
        if len(paths_of_size) < 2:
            continue
        first_path_of_digest: dict[str, Path] = {}
        for path in paths_of_size:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            first_path = first_path_of_digest.setdefault(digest, path)  # this file, if it is the first
            if first_path != path:
                copy_of[path] = first_path
    return copy_of


def _distinct_notes(runs: list[_ReadRun]) -> tuple[str, ...]:
    """The notes on all runs, each once, in the order in which they first occur."""
    return tuple(dict.fromkeys(note for read_run in runs for note in read_run.notes))


class _ReadRun(NamedTuple):
    """The answers of one model to one task in one file."""

    task: str
    model: str
    log: Log
    notes: tuple[str, ...]  # of the file
    folder_of_name: Path | None = (
        None  # of the file by which the model is called; None where the log names its model
    )


def _read_file(
    path: Path, open_file: Callable[[Path], OpenedTable], make_log: Callable[[OpenedTable], Log]
) -> list[_ReadRun]:
    """Return the logs of one file: of each task and of each model that it holds.

    A model without a name is called by the file; in a HELM run, whose files always have the same names, by the folder.
    `open_file` opens a file as a table, and `make_log` makes the log of a table. Raises what these two raise, and
    DataError where the file has losses from which no accuracy follows, those outside 0 to 1.
    """
    source = open_file(path)
    model = source.facts.model  # facts are what a harness's file says of itself; empty for a plain table
    parts = {model: source}  # by model: the table of its rows; one model, unless a column names several
    model_column = find_model_column(source)  # its name, or "" where the table has none
    if model_column:
        parts = split_by_column(source, model_column)
    read_runs = []
    notes = source.facts.notes
    is_helm_run = path.name == INSTANCES_FILE  # "per_instance_stats.json"
    file_name = path.absolute().parent.name if is_helm_run else model_name(path)
    for part_model, part in parts.items():
        log = make_log(part)
        _check_losses_from_0_to_1(log)
        read_run = _ReadRun(
            task=source.facts.task,
            model=part_model or file_name,
            log=log,
            notes=notes,
            folder_of_name=None if part_model or is_helm_run else path.absolute().parent,
        )
        if log.task is None:  # no column of tasks: one task, which the log may name
            read_runs.append(read_run)
            continue
        # one text per row; `select_answers` keeps the rows of a mask
        tasks = as_texts(log.task)
        read_runs += [
            read_run._replace(task=str(task), log=select_answers(log, tasks == task))
            for task in dict.fromkeys(tasks.tolist())
        ]
    return read_runs


def _check_losses_from_0_to_1(log: Log) -> None:
    """Raise DataError where a loss lies outside 0 (right) to 1 (wrong): folders are compared by accuracy."""
    losses = log.losses_with_unanswered_wrong(log.scored)
    if losses.size and not (losses.min() >= 0 and losses.max() <= 1):
        raise file_error(
            log.path,
            "needs right and wrong answers, and has losses outside 0 to 1. To compare files by such losses, name the "
            "files instead of their folder.",
        )


def select_answers(log: Log, rows: np.ndarray) -> Log:
    """Return a log with only the rows of a mask, and only the confidences that one of these rows has."""
    columns: dict[str, Any] = {
        name: values[rows]
        for name, values in vars(log).items()
        if isinstance(values, np.ndarray | TextValues)
    }
    signals = {name: signal[rows] for name, signal in log.signals.items() if np.isfinite(signal[rows]).any()}
    ids = None if log.ids is None else log.ids.rows(rows)
    return replace(log, signals=signals, ids=ids, **columns)


def join_runs(logs: Sequence[Log]) -> Log:
    """Return the logs of repeated runs of one model and task as one, in which the run is the epoch.

    Answers to one question are repeats of each other, whichever run they are of. Confidences that some run lacks are
    NaN there. Without questions, the rows of each run are taken for the same questions in the same order. Columns that
    serve neither scores nor confidences are left out. A single log is returned unchanged.

    All losses lie between 0 (right) and 1 (wrong). Runs whose losses have different names ("zero_one" if they are 0 and
    1 only, "partial_credit", or "loss" for a column of losses) together have "partial_credit". The rules are those of
    the first run, since all runs were read by the same options. Its notes, and which columns it used, stand for all.
    There must be at least one log. Epochs are numbered from 1 in the order of the logs.
    """
    if len(logs) == 1:
        return logs[0]
    first_log = logs[0]
    questions: list[str] = []
    for log in logs:
        numbers = [str(number) for number in range(1, log.n + 1)]
        questions += numbers if log.question is None else as_texts(log.question).tolist()
    names = dict.fromkeys(name for log in logs for name in log.signals)
    signals = {
        name: np.concatenate([log.signals.get(name, np.full(log.n, np.nan)) for log in logs])
        for name in names
    }
    loss_names = {log.loss_name for log in logs}
    return Log(
        path=first_log.path,
        tool=first_log.tool,
        loss=np.concatenate([log.loss for log in logs]),
        answered=np.concatenate([log.answered for log in logs]),
        signals=signals,
        question=TextValues.of(questions),
        epoch=np.repeat(np.arange(1, len(logs) + 1), [log.n for log in logs]),
        loss_name=first_log.loss_name if len(loss_names) == 1 else "partial_credit",
        rules=first_log.rules,
        column_of_role=first_log.column_of_role,
        notes=first_log.notes,
    )


def mean_correctness(log: Log) -> dict[str, float]:
    """Return question -> mean correctness of its scored rows, from 0 to 1; a missing answer counts as wrong, with 0.

    Questions without a name are numbered from 1. Questions without a scored row are left out. A question may have
    several rows, one per run. Losses must lie between 0 (right) and 1 (wrong).
    """
    numbers = [str(number) for number in range(1, log.n + 1)]
    names = numbers if log.question is None else as_texts(log.question).tolist()
    values_by_question: dict[str, list[float]] = {}
    scored = log.scored  # a mask; rows without an answer are in it, with a loss of 1
    names_of_scored = np.array(names, dtype=object)[scored].tolist()
    correctness_of_scored = (1 - log.losses_with_unanswered_wrong(scored)).tolist()
    for name, correctness in zip(names_of_scored, correctness_of_scored):
        values_by_question.setdefault(name, []).append(correctness)
    return {name: sum(values) / len(values) for name, values in values_by_question.items()}
