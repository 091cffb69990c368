"""`abstain.evaluate` of a path or of a table: in memory, or by an engine where a file is too large for that."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abstain._roles import COLUMN_NAMES, ROLES, normalise_name, role_of
from abstain.confidence import LearnedConfidence
from abstain.errors import AbstainWarning, DataError, MemoryLimitError
from abstain.evaluation import Evaluation, evaluate, register_engine
from abstain.evaluation.chance import with_sign_advice
from abstain.formats.alignment import read_text_batches
from abstain.formats.answers import columns_of_repeats, keep_stated_verdict
from abstain.formats.learning_columns import LEARNING_ROLES
from abstain.formats.predictions import LEARNED, Predictions, graded_predictions, reading_notes
from abstain.formats.python_words import advising_in_python, in_python_words
from abstain.formats.read_files import find_class_scores_role, make_predictions, read_predictions
from abstain.formats.readers import is_helm_run, read_column_names
from abstain.formats.roles import RoleColumns, order_by_stated_classes
from abstain.formats.safety import HOW_TO_READ_FOLDER, Limits, display_name, naming_file
from abstain.formats.table_files import find_files, table_format
from abstain.formats.tables import open_table
from abstain.metrics.answer_metrics import AnswerMetric, is_answer_metric

# File ending -> how many times larger the values are in memory than the file, at least; engines read these files.
_GROWTH_IN_MEMORY = {".parquet": 2, ".arrow": 1, ".feather": 1, ".csv": 4}
_MAX_COMPARED_IDS = 4_000_000  # rows whose ids are compared; as hashes they take 32 MB
_SAVED_TABLE = "path_of_the_saved_table"  # for advice: what `read_predictions` reads of a table in memory
# Roles that engines cannot read; ignoring such a column would change the number.
_ROLES_ENGINES_REFUSE = ("abstained", "clusters", "answered", "question")


def choose_engine(path: str | Path, memory: int = Limits().memory) -> str:
    """Return "files" (the engine that reads tables piece by piece) or "memory" for a path.

    "files" for folders and globs, and for parquet, arrow and csv files whose values would need more than `memory` bytes
    by their size on disk. "memory" for other files, standard input ("-") and the folder of a HELM run.
    """
    if not os.path.isfile(path):
        is_read_in_memory = str(path) == "-" or is_helm_run(path)
        return "memory" if is_read_in_memory else "files"
    growth = _GROWTH_IN_MEMORY.get(Path(path).suffix.lower(), 0)
    return "files" if growth * os.path.getsize(path) > memory else "memory"


def engine_can_read(path: str | Path) -> bool:
    """Return whether the engine "files" can read this file, where it proves too large for memory."""
    return os.path.isfile(path) and Path(path).suffix.lower() in _GROWTH_IN_MEMORY


def _refusal_of_folder(path: str | Path, refusal: Callable[[str], Exception]) -> Callable[[str], Exception]:
    """Make a refusal that says what else can be done with a folder whose tables engines do not read."""
    start = f"{display_name(str(path))} is a folder, which an engine reads as the parts of one table:"
    return lambda message: refusal(f"{start} {message} {HOW_TO_READ_FOLDER}")


def engine_columns(
    path: str | Path,
    stated: Mapping[str, str],
    kind: str | None = None,
    format: str | None = None,  # noqa: A002
    refusal: Callable[[str], Exception] = DataError,
    classes: tuple[str, ...] = (),
    learned: LearnedConfidence | None = None,
) -> dict[str, Any]:
    """Find the columns of a table that an engine is to read.

    Parameters
    ----------
    path : str or Path
        A parquet, arrow or csv file, or a folder or glob of them, of which the first has the columns of all.
    stated : mapping
        Role -> name of a column, as the user states it.
    kind : str, optional
        The role of an array without a name; the tables of engines have none.
    format : str, optional
        "parquet", "arrow" or "csv", where the file's name does not say it.
    refusal : callable
        Makes the exception from a message where engines cannot read what the user asks for.
    classes : tuple of str
        Class names in the order of the labels' numbers, as the user states them.
    learned : LearnedConfidence, optional
        Ranks the rows instead of a column; its inputs are read from the columns of their names.

    Returns
    -------
    dict
        Argument of an engine's `evaluate` ("logits" and "labels", or "correct" or "loss" and "confidence", with
        "sample_weight" and "groups" where the table has them) -> name of a column, or a list of names for the logits.
        "confidence" is `learned` where that is given.

    Raises
    ------
    Exception
        What `refusal` returns: a column that engines do not read or use, no losses or confidences, several
        confidences, or ids that repeat among the first four million rows. DataError for a path without files, or files
        of another format.
    """
    if os.path.isdir(path):
        refusal = _refusal_of_folder(path, refusal)
    first_file, *later_files = find_files("evaluate", path)
    table_format(first_file)  # raises DataError for formats that engines do not read
    source = read_column_names(first_file, format=format)
    stated_roles = {role_of(role) for role in stated}
    # Of correct, error and loss, only the one that the user named stays, if any.
    roles = keep_stated_verdict(source, source.find_roles(stated, kind), stated_roles)
    for role in _ROLES_ENGINES_REFUSE:
        if role in roles:
            raise refusal(
                f"engines do not read a column of {role} yet: leave {roles[role].names[0]!r} out of the table, or "
                f"evaluate one file in memory (--engine memory)."
            )
    for name in columns_of_repeats(source, roles):
        if _has_repeats([first_file, *later_files], name):
            raise refusal(
                f"rows of one `{display_name(name)}` are a cluster, and engines do not read clusters yet: leave the "
                f"column out of the table, or evaluate one file in memory (--engine memory)."
            )
    for file in later_files:
        _check_later_file(file, first_file, set(source.columns), set(roles), refusal)
    columns: dict[str, Any] = {
        role: roles[role].names[0] for role in ("sample_weight", "groups") if role in roles
    }
    class_scores_role = find_class_scores_role(roles, stated_roles, has_labels="labels" in roles)
    loss_role = next((role for role in ("correct", "error", "loss") if role in roles), None)
    used_roles = {"sample_weight", "groups", "ids"}
    used_roles |= {"logits", "labels"} if class_scores_role == "logits" else {str(loss_role), "confidence"}
    if learned is not None:
        used_roles |= {"confidence", *LEARNING_ROLES}
        _check_inputs(learned, set(source.columns), refusal)
        columns["confidence"] = learned
    unused_roles = sorted(stated_roles - used_roles)
    if unused_roles:
        raise refusal(
            f"engines do not use a column of {unused_roles[0]} here: leave -c {unused_roles[0]} out, or evaluate in "
            f"memory."
        )
    if class_scores_role == "logits":
        columns["logits"] = _find_logit_columns(roles["logits"], refusal, classes)
        columns["labels"] = roles["labels"].names[0]
        return columns
    if loss_role is None or ("confidence" not in roles and learned is None):
        raise refusal(
            "an engine reads columns of losses (or correct) and confidences, or of logits and labels."
        )
    if learned is None and len(roles["confidence"].names) > 1:
        raise refusal("an engine ranks by one confidence: name one with -c confidence=NAME.")
    if "prediction" in roles:
        name = display_name(roles["prediction"].names[0])
        message = f"Engines do not read `{name}`: a row without a prediction counts as an answer."
        warnings.warn(message, AbstainWarning, stacklevel=2)
    columns["correct" if loss_role == "correct" else "loss"] = roles[loss_role].names[0]
    if learned is None:
        columns["confidence"] = roles["confidence"].names[0]
    return columns


def _has_repeats(files: Sequence[str], name: str) -> bool:
    """Return whether several rows have one value in a column of ids or questions, and not all have the same.

    Looked at are the first `_MAX_COMPARED_IDS` (4 million) rows or a few more, in the order of the files, since whole
    batches are read; a repeat among later rows is not found.
    Whole numbers may begin anew in each file, as row numbers do. False where one of these values is missing, or one
    of these files has no such column. A column with one value throughout, such as one prompt for all rows, is not taken
    for ids.
    """
    hashes = []
    row_count = 0
    for file in files:
        if row_count >= _MAX_COMPARED_IDS:
            break
        if name not in read_column_names(file).columns:
            return False
        for values in read_text_batches([file], name):
            if not set(values).isdisjoint(("", "None")):  # texts that stand for a missing value
                return False
            # one whole number in two files is no repeat
            keys = [(file, value) if value.isdecimal() else value for value in values]
            # Hashes take less memory than texts. Two texts may share one, but the result is only advice.
            hashes.append(np.fromiter(map(hash, keys), np.int64, len(keys)))
            row_count += len(values)
            if row_count >= _MAX_COMPARED_IDS:
                break
    return row_count > 0 and 1 < len(np.unique(np.concatenate(hashes))) < row_count


def _check_later_file(
    file: str,
    first_file: str,
    first_names: set[str],
    first_roles: set[str],
    refusal: Callable[[str], Exception],
) -> None:
    """Raise what `refusal` makes of a message where a later file of a table has a column that would be ignored.

    Engines look for roles in the first file alone. A later file must not add a column that states by its name a role
    that changes the result: weights, groups, or one that engines refuse. `first_names` are the names of the columns of
    `first_file`, and `first_roles` the roles that it has or that the user named. `refusal` makes an exception.
    """
    for name in read_column_names(file).columns:
        if name in first_names:
            continue
        # engines refuse columns of abstentions, clusters, answered questions and questions
        for role in ("sample_weight", "groups", *_ROLES_ENGINES_REFUSE):
            # `COLUMN_NAMES`: role -> names of columns that state it, in lower case with underscores
            states_role = normalise_name(name) in COLUMN_NAMES[role]
            if role in first_roles or not states_role:
                continue
            raise refusal(
                f"{display_name(file)} has a column {display_name(name)!r} and "
                f"{display_name(first_file)} has not: all files of a table must have the same columns."
            )


def _check_inputs(
    learned: LearnedConfidence, column_names: set[str], refusal: Callable[[str], Exception]
) -> None:
    """Raise what `refusal` makes of a message where a table lacks a column of an input of a learned confidence.

    Class scores are inputs as well, but have columns of other names. `refusal` makes an exception.
    """
    profile = learned.model.profile  # names and kinds of the inputs from which it was learned
    # `numbers` are confidences and features, `categories` are inputs that hold words, such as a topic
    for name in (*profile.numbers, *profile.categories):
        if name not in column_names:
            raise refusal(
                f"an engine reads each input of a learned confidence from the column of its name, and there is no "
                f"column {display_name(name)!r}: evaluate in memory (--engine memory), or learn it from this table."
            )


def _find_logit_columns(
    logit_columns: RoleColumns, refusal: Callable[[str], Exception], classes: tuple[str, ...]
) -> str | list[str]:
    """Return the column that holds all logits of a row, or the columns of each class in the order of the class numbers.

    `classes` are the class names that the user stated, in the order of the class numbers; () for none. Raises what
    `refusal` makes of a message where the columns are named after classes and `classes` does not say their order.
    """
    # the same columns, unless `classes` are the class names of all of them: then in that order
    ordered = order_by_stated_classes(logit_columns, classes)
    # `suffixes` are the class names in the names of the columns; empty where these end in the class numbers
    if ordered.suffixes and ordered.suffixes != classes:
        raise refusal(
            f"an engine reads numbers as labels, and columns named {ordered} do not say which number is which class. "
            f"State the names in the order of the numbers: --classes first,second,..."
        )
    return list(ordered.names) if len(ordered.names) > 1 else ordered.names[0]  # one column: lists of numbers


def evaluate_with_engine(
    engine: str, path: str | Path, columns: dict[str, Any], **options: Any
) -> Evaluation:
    """Evaluate a table by the engine "files", "dask" or "spark".

    `columns` maps arguments of the engine's `evaluate` to names of columns: "logits" and "labels", or "confidence" (a
    learned confidence instead of a name computes it) and "loss" or "correct". `options` are its other arguments
    (metrics, level, ...). An engine names the score and the loss of its result after the columns; here they are called
    "confidence" (or `LEARNED`) and "loss". Nothing is renamed for class scores.
    """
    module = importlib.import_module(f"abstain.engines.{engine}")
    # Workers of an engine may run in another folder, so that they need the whole path.
    evaluation: Evaluation = module.evaluate(os.path.abspath(path), **columns, **options)
    if "logits" in columns:  # all scores are computed from them
        # A note on a score that ranks worse than chance advises to change the sign of its column. Here there is no such
        # column, which None as value says: the note then says that the sign is right. Other notes stay as they are.
        notes = with_sign_advice(evaluation.notes, dict.fromkeys(evaluation.scores))
        return replace(evaluation, notes=tuple(notes))
    # the notes need no change: the engine made them with the name of the column of confidences
    score = LEARNED if isinstance(columns["confidence"], LearnedConfidence) else "confidence"
    # an entry for each metric of each score and loss, of which there is one here
    entries = tuple(replace(entry, score=score, loss="loss") for entry in evaluation.entries)
    curves = tuple((score, "loss", curve) for _score, _loss, curve in evaluation.curves)
    return replace(evaluation, entries=entries, curves=curves)


def evaluate_path(logits: str | Path, **arguments: Any) -> Evaluation:
    """Evaluate a file as `abstain evaluate` does: `abstain.evaluate(path)`.

    `logits` is the path: the first argument of `evaluate`. `arguments` are the others; one whose name is a role and
    whose value is a text names a column (`labels="truth"`), `classes` are class names. The file is read in memory, or
    by the engine "files" where it is a folder or too large. DataError names the file where it cannot be read.
    """
    with advising_in_python():
        return _evaluate_path(logits, _split_arguments(arguments))


def _evaluate_path(path: str | Path, column_arguments: _Arguments) -> Evaluation:
    """Evaluate a file in memory, or by the engine "files"; errors give the advice of the command line.

    `column_arguments` are those of `evaluate`, sorted: `columns` by role, `classes`, and all other `options`.
    """
    # "files" for a folder, or a file that is too large by its size on disk
    if choose_engine(path) == "memory":
        try:
            predictions = read_predictions(
                path, columns=column_arguments.columns, classes=column_arguments.classes
            )
        except MemoryLimitError:  # its values prove too large once decompressed
            if not engine_can_read(path):
                raise
            # otherwise the engine "files" reads it below
        else:
            return _evaluate_predictions(predictions, column_arguments.options)
    # the engine's own arguments, such as "confidence" and "loss", with names of columns
    columns = engine_columns(path, column_arguments.columns, classes=column_arguments.classes)
    return evaluate_with_engine("files", path, columns, **column_arguments.options)  # piece by piece


def evaluate_table(logits: Any, **arguments: Any) -> Evaluation:
    """Evaluate a data frame as a file of that content: `abstain.evaluate(frame)`.

    `logits` is the table (pandas, polars, pyarrow, datasets): the first argument of `evaluate`. `arguments` are the
    others; one whose name is a role and whose value is a text names a column (`labels="truth"`), `classes` are class
    names. DataError where the table does not hold predictions.
    """
    column_arguments = _split_arguments(arguments)  # `columns` by role, `classes`, and all other `options`
    # errors name arguments of Python instead of options of the command line
    with advising_in_python(_SAVED_TABLE):
        source = open_table(logits)
        name = str(source.path)  # that of the table in messages, since there is no file
        predictions = make_predictions(
            source, name=name, path=name, columns=column_arguments.columns, classes=column_arguments.classes
        )
        return _evaluate_predictions(predictions, column_arguments.options, path=_SAVED_TABLE)


def evaluate_read(logits: Predictions, **arguments: Any) -> Evaluation:
    """Evaluate what `read_predictions` returned: `abstain.evaluate(read)`.

    `logits` is the first argument of `evaluate`. `arguments` are the others, which replace those of the file.
    """
    with advising_in_python():
        return _evaluate_predictions(logits, arguments)


class _Arguments(NamedTuple):
    """Arguments of `evaluate`, sorted."""

    columns: dict[str, str]  # role -> name of a column
    classes: tuple[str, ...]
    options: dict[str, Any]  # all others


def _split_arguments(arguments: dict[str, Any]) -> _Arguments:
    """Tell arguments of `evaluate` that name columns (a role with a text) from all others.

    The argument `classes` holds the names of the classes, in a sequence (not None), unless it is a text: that names a
    column. Two texts in a list for `clusters` name the columns of two kinds of clusters, as one text with a comma does.
    """
    columns = {role: name for role, name in arguments.items() if role in ROLES and isinstance(name, str)}
    clusters = arguments.get("clusters")
    names_of_clusters = list(clusters) if isinstance(clusters, (list, tuple)) else []
    if len(names_of_clusters) == 2 and all(isinstance(name, str) for name in names_of_clusters):
        columns["clusters"] = ",".join(names_of_clusters)
    options = {name: value for name, value in arguments.items() if name not in columns}
    # `ROLES` has "classes", so that a text is in `columns` already and only a sequence is left here
    classes = tuple(str(name) for name in options.pop("classes", ()))
    return _Arguments(columns=columns, classes=classes, options=options)


def _evaluate_predictions(
    predictions: Predictions, options: dict[str, Any], path: str = "path"
) -> Evaluation:
    """Evaluate predictions; options replace the arguments that they make, and errors name the file.

    The first notes say how the file was read: which columns were taken for what, and which rows were left out or count
    in a way that the user can change; `path` stands in them for what `read_predictions` reads.
    """
    with naming_file(predictions.path):
        evaluation = evaluate(**{**predictions.arguments(), **options})
        # The samples are those of the file, and no option replaces a column of it. Then accuracy and the like are taken
        # over all questions, those included that the ranking leaves out for want of a confidence.
        if options.keys().isdisjoint(predictions.arguments()):
            evaluation = with_scores_of_all_questions(evaluation, predictions, options.get("metrics"))
    # `log` holds the questions and answers that the columns were made from; None for a plain table and class scores
    log = predictions.log
    how_read = reading_notes([predictions]) if log is None else log.summary_lines()
    # options of the command line in these sentences become arguments of Python
    in_python = [in_python_words(note, path) for note in how_read]
    # a note on a ranking worse than chance gets the advice for the file's own column of confidences
    notes = [*in_python, *predictions.with_sign_advice(evaluation.notes)]
    return replace(evaluation, notes=tuple(notes))


def with_scores_of_all_questions(
    evaluation: Evaluation, predictions: Predictions, requested_metrics: Any = None
) -> Evaluation:
    """Return the table with its benchmark scores (accuracy, not attempted, ...) taken over all questions of a log.

    They need no confidence, so an answer without one counts in them, though the ranking leaves it out; a note says so.
    `evaluation` was made of `predictions`; it is returned as it is where the ranking has every row, and for files other
    than logs of right and wrong answers. `requested_metrics` are names of metrics or the user's own, or None. The
    entries of all questions take the places of those of the same metric and group, under the same names of the score
    and of the loss.
    """
    log = predictions.log
    requested = [requested_metrics] if isinstance(requested_metrics, str) else list(requested_metrics or ())
    own_metrics = {metric.key: metric for metric in requested if isinstance(metric, AnswerMetric)}
    metrics = [
        own_metrics.get(key, key) for key in evaluation.metrics if key in own_metrics or is_answer_metric(key)
    ]
    # other numbers of rows: these predictions are a selection of the rows of the log, which holds all of them
    if not metrics or log is None or not log.is_graded or predictions.n != log.fields()["n"]:
        return evaluation
    graded = graded_predictions(log, name="", unanswered=log.rules.unanswered)
    if graded.n == predictions.n:
        return evaluation
    of_all = evaluate(**graded.arguments(), metrics=metrics, level=evaluation.level, progress=False)
    replaced = {(entry.metric, entry.group): entry for entry in of_all.entries}
    entries = [
        replace(replaced.get((entry.metric, entry.group), entry), score=entry.score, loss=entry.loss)
        for entry in evaluation.entries
    ]
    listed = ", ".join(dict.fromkeys(entry.label for entry in of_all.entries))
    note = f"On all {graded.n:,} questions, not on the {predictions.n:,} of the ranking: {listed}."
    return replace(evaluation, entries=tuple(entries), notes=(note, *evaluation.notes))


register_engine("path", evaluate_path)
register_engine("table", evaluate_table)
register_engine("predictions", evaluate_read)
