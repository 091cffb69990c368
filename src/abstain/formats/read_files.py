"""From a file to `Predictions` or a `Log`.

A file is read as one of three kinds: class scores with labels, answers of a language model, or a plain table of losses
and confidences. Every option of the user is obeyed for every kind of file, or refused.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abstain._roles import role_of
from abstain.errors import AbstainWarning, DataError, InputError
from abstain.formats.answers import (
    add_repeats,
    count_models,
    find_refusals,
    is_log,
    keep_stated_verdict,
    load_unjudged,
    make_log,
    select_rows,
    take_rows,
)
from abstain.formats.columns import (
    Column,
    OpenedTable,
    TextValues,
    UncertainError,
    Values,
    add_derived_columns,
    as_array,
)
from abstain.formats.file_names import model_name
from abstain.formats.learning_columns import LEARNING_ROLES, load_learning_columns, refuse_truth_as_input
from abstain.formats.loaded_columns import LoadedColumns
from abstain.formats.logs import Log, Rules, make_distinct
from abstain.formats.predictions import Predictions
from abstain.formats.readers import open_source
from abstain.formats.roles import RoleColumns, order_by_stated_classes
from abstain.formats.safety import Limits, display_name, file_error, list_names

# Roles whose columns are used, by the kind of file.
_COMMON_ROLES = {
    "labels",
    "abstained",
    "unanswerable",
    "answerable",
    "groups",
    "sample_weight",
    "clusters",
    "ids",
    "confidence",
    "cost",
    *LEARNING_ROLES,
}
_CLASS_SCORE_ROLES = _COMMON_ROLES | {"answered", "classes", "task", "epoch"}
_TABLE_ROLES = _COMMON_ROLES | {"correct", "loss", "error", "prediction", "classes"}
_ANSWER_ROLES = _TABLE_ROLES - {"classes"} | {"answered", "question", "task", "epoch"}
_KIND_DESCRIPTIONS = {
    "class scores": "takes right and wrong from its labels; name your own with -c correct=NAME -c confidence=NAME",
    "a plain table": "has one row per sample, its loss and its confidence",
    "answers": "has no class scores",
}


def read_predictions(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    kind: str | None = None,
    labels: str | Path | None = None,
    classes: tuple[str, ...] = (),
    name: str | None = None,
    format: str | None = None,  # noqa: A002
    limits: Limits | None = None,
    tolerance: float | None = None,
    rules: Rules | None = None,
    purpose: str = "one file",
) -> Predictions:
    """Read a file of predictions: npz, npy, csv, tsv, xlsx, json, jsonl, parquet, arrow, feather, safetensors, pt.

    Parameters
    ----------
    path : str or Path
        The file; "-" is standard input.
    columns : mapping of role to column name, optional
        For columns whose names do not say their role: `{"confidence": "p_max", "labels": "truth", "probs": "class_*"}`.
    kind : {"logits", "probs", "confidence"}, optional
        What the one array of an npy file is.
    labels : str or Path, optional
        A second file that holds the labels.
    classes : tuple of str, optional
        Class names in the order of the class scores, needed when labels are words. Where the columns carry these names
        themselves (`prob_cat`), in the order of the numbers that the labels are.
    name : str, optional
        The model's name; by default that of the file.
    format : str, optional
        One of `FORMATS`, where neither the file's name nor its first bytes say it.
    limits : Limits, optional
        What the file may cost; 4 GB of memory by default.
    tolerance : float, optional
        How far a row of probabilities may be from summing to one; it is divided by its sum. By default what rounding
        to 2, 3 or 4 decimals explains.
    rules : Rules, optional
        Which rows to read; for answers of language models also how refusals, missing and stated confidences count.
    purpose : {"one file", "compared", "cascade", "learning"}
        What it is read for, which decides how unanswered questions and missing confidences count where `rules` leave
        that open (`abstain.formats.logs.DEFAULTS`).

    Returns
    -------
    Predictions
        Checked; `arguments()` are those of `abstain.evaluate`.

    Raises
    ------
    DataError
        One line that names the file, what is wrong and what to do. Nothing in a file is ever executed, and
        no more memory is taken than `limits` allow.

    Examples
    --------
    >>> import abstain, tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "answers.csv"
    ...     _ = path.write_text("is_right,confidence\\n1,0.9\\n0,0.2\\n1,0.7\\n")
    ...     read = read_predictions(path, columns={"correct": "is_right"})
    >>> read
    Predictions(answers, n = 3, confidence, from csv)
    >>> abstain.evaluate(**read.arguments(), metrics=["risk"]).best("risk").estimate
    0.3333333333333333
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(
            f"read_predictions: `path` must be that of a file, got {type(path).__name__}. A table in memory is read by "
            f"`abstain.evaluate(table)`; arrays need no reading."
        )
    limits = limits or Limits()
    source = open_source(path, format=format, limits=limits)
    return make_predictions(
        source,
        columns=columns,
        kind=kind,
        labels=labels,
        classes=classes,
        name=name or model_name(path),
        path=str(path),
        limits=limits,
        tolerance=tolerance,
        rules=rules,
        purpose=purpose,
    )


class NoConfidenceError(DataError):
    """A file of answers none of which has the confidence that the user named, so that its model cannot be ranked.

    Examples
    --------
    >>> raise NoConfidenceError("b.csv: no answer has `stated`.")
    Traceback (most recent call last):
    ...
    abstain.formats.read_files.NoConfidenceError: b.csv: no answer has `stated`.
    """


def make_predictions(
    source: OpenedTable,
    *,
    name: str,
    path: str,
    columns: Mapping[str, str] | None = None,
    kind: str | None = None,
    labels: str | Path | None = None,
    classes: tuple[str, ...] = (),
    limits: Limits | None = None,
    tolerance: float | None = None,
    rules: Rules | None = None,
    purpose: str = "one file",
) -> Predictions:
    """Make predictions of the columns of a file or table that is open already.

    Parameters
    ----------
    source : OpenedTable
        The opened file or table, whose columns are loaded here.
    name, path : str
        The model's name, and where it was read, for messages.
    columns : mapping, optional
        Role -> column name or pattern, as the user states it.
    kind : {"logits", "probs", "confidence"}, optional
        The role of an array without a name.
    labels : str or Path, optional
        A second file with the labels, or with the right answers where the first holds answers.
    classes : tuple of str
        Class names as the user states them.
    limits : Limits, optional
        What the second file may cost.
    tolerance : float, optional
        How far a row of probabilities may be from summing to one.
    rules : Rules, optional
        Which rows to read, and how refusals and missing confidences count.
    purpose : {"one file", "compared", "cascade", "learning"}
        What it is read for, which decides what `rules` leave open.

    Raises
    ------
    DataError
        Columns are missing or invalid, or an option has no effect on this kind of file.
    """
    limits = limits or Limits()
    rules = rules or Rules()
    user_columns = columns or {}
    stated_roles = {role_of(role) for role in user_columns}
    check_kind(source, kind)
    source = add_derived_columns(source, user_columns)
    # Of correct, error and loss, only the one that the user named stays, if any.
    roles = keep_stated_verdict(source, source.find_roles(user_columns, kind), stated_roles)
    class_scores_role = find_class_scores_role(
        roles, stated_roles, has_labels=labels is not None or "labels" in roles
    )
    if class_scores_role == "logits":
        roles.pop("probs", None)  # logits say all that probabilities say
    options = _UserOptions(
        source=source,
        class_scores_role=class_scores_role,
        stated_roles=stated_roles,
        tolerance=tolerance,
        classes=classes,
        rules=rules,
    )
    is_learning = purpose == "learning"
    if labels is None or is_learning:
        refuse_truth_as_input(source, roles, is_learning=is_learning)
    if _says_what_is_right(source, roles, has_labels=labels is not None or "labels" in roles):
        _note_several_models(source, roles, rules)
    roles = add_repeats(
        source, roles, rules, has_class_scores=bool(class_scores_role), stated_roles=stated_roles
    )
    if not class_scores_role and is_log(source, roles, rules):
        options.check_obeyed("answers", used_roles=_ANSWER_ROLES)
        right_answers = None if labels is None else open_source(labels, limits=limits)
        log = make_log(
            source, roles, rules, right_answers=right_answers, stated_roles=stated_roles, purpose=purpose
        )
        if not log.has_confidence:
            raise UncertainError(_explain_no_confidence(log), source)
        if purpose != "one file":
            check_ranked(log)
        return Predictions(
            name=name,
            path=path,
            format=source.format,
            column_of_role=log.column_of_role,
            log=log,
            **log.fields(),
        )
    if class_scores_role:
        # Task and epoch make ids distinct, and serve nothing else.
        used_roles = _CLASS_SCORE_ROLES if "ids" in roles else _CLASS_SCORE_ROLES - {"task", "epoch"}
        options.check_obeyed("class scores", used_roles=used_roles | {class_scores_role})
    else:
        options.check_obeyed("a plain table", used_roles=_TABLE_ROLES, has_labels="labels" in roles)
        if labels is not None and "confidence" in roles:
            raise file_error(
                source.path, "--labels needs class scores or a column of predictions (-c prediction=NAME)."
            )
    second_file_labels = None if labels is None else _load_labels(labels, limits)
    fields = _load_fields(options, roles, second_file_labels)
    if class_scores_role and (rules.refusals or rules.unanswered):
        _count_unanswered(fields, options, purpose)
    if labels is not None:
        fields["column_of_role"]["labels"] = display_name(Path(labels).name)
    return Predictions(name=name, path=path, format=source.format, **fields)


def _says_what_is_right(source: OpenedTable, roles: Mapping[str, RoleColumns], *, has_labels: bool) -> bool:
    """Return whether a file says which answers are right, by its own columns or by labels; else nothing is measured.

    `source` is the opened file. Text in a column of errors does not count: most often it is of calls that failed.
    """
    has_verdict = "correct" in roles or "loss" in roles
    if "error" in roles:
        has_verdict |= source.columns[roles["error"].names[0]].kind != "text"
    return has_verdict or (has_labels and any(role in roles for role in ("prediction", "logits", "probs")))


def _note_several_models(source: OpenedTable, roles: Mapping[str, RoleColumns], rules: Rules) -> None:
    """Warn where a file holds the rows of several models, by a column without another role, and all are read as one.

    `roles` maps each role to its columns, and `rules.only` (column name -> value) selects the rows. `source` is the
    opened file.
    """
    # the number of models among the selected rows, and the column that names them; 1 where no column does
    # (the mask of the selected rows is None for all rows)
    model_count, name = count_models(source, roles, select_rows(source, rules).mask)
    if model_count > 1:
        message = (
            f"{display_name(source.path.name)} holds {model_count:,} models by `{display_name(name)}`, which are "
            f"measured as one: compare them with `abstain compare --by {display_name(name)}`, or read one with "
            f"--only {display_name(name)}=VALUE."
        )
        warnings.warn(message, AbstainWarning, stacklevel=3)  # the caller of `make_predictions`


def _load_fields(
    options: _UserOptions, roles: dict[str, RoleColumns], second_file_labels: Values | None
) -> dict[str, Any]:
    """Load class scores or a plain table, and return keyword arguments of `Predictions` (not name, path and format).

    `options.class_scores_role` is "logits" or "probs" for class scores, "" for a plain table. `roles` maps each role
    ("labels", "confidence", ...) to its columns; only these are loaded. `second_file_labels` are the labels of a second
    file, or None; they replace those of the file. Class names come from the user, else from the file, else from the
    endings of the columns' names.

    DataError where columns are missing, invalid or of different lengths, or where no row has the values that the user
    selects by.
    """
    source = options.source
    class_scores_role = options.class_scores_role
    if class_scores_role:
        roles = {
            **roles,
            class_scores_role: order_by_stated_classes(roles[class_scores_role], options.classes),
        }
    selection = select_rows(source, options.rules)
    selected_rows = selection.mask
    ids = source.columns[roles["ids"].names[0]] if "ids" in roles else None
    loaded_roles = {
        role: role_columns for role, role_columns in roles.items() if role not in ("ids", *LEARNING_ROLES)
    }
    unread_class_scores = {"logits", "probs"} - {class_scores_role}  # large, and of no use without labels
    values = {
        role: source.load(role, role_columns)
        for role, role_columns in loaded_roles.items()
        if role not in unread_class_scores
    }
    learning_columns = load_learning_columns(source, roles)
    if second_file_labels is not None:
        values["labels"] = second_file_labels
    stated_classes = options.classes or _list_class_names(values.pop("classes", None)) or source.classes
    if selected_rows is not None:
        values = take_rows(source, values, selected_rows)
        learning_columns = {
            role: take_rows(source, columns, selected_rows) for role, columns in learning_columns.items()
        }
        ids = None if ids is None else ids.rows(selected_rows)
    column_classes = roles[class_scores_role].suffixes if class_scores_role else ()
    loaded_columns = LoadedColumns(
        source=source,
        roles=loaded_roles,
        values_by_role=values,
        classes=stated_classes or column_classes,
        stated_roles=options.stated_roles,
        tolerance=options.tolerance,
        has_stated_classes=bool(stated_classes),
    )
    if class_scores_role:
        fields = loaded_columns.class_score_fields(class_scores_role)
        if options.rules.refusals:
            is_refusal = _find_refusing_classes(options, fields)
            fields["abstained"] = is_refusal | np.asarray(fields.get("abstained", False))
    else:
        fields = loaded_columns.plain_table_fields()
    for columns in learning_columns.values():
        loaded_columns.check_lengths(fields["n"], columns)
    fields |= learning_columns
    fields["ids"] = None if ids is None else _distinct_ids(ids, values)
    fields["column_of_role"] = {role: str(loaded_roles[role]) for role in values if role in loaded_roles}
    fields["column_of_role"] |= selection.value_of_column
    return fields


def _find_refusing_classes(options: _UserOptions, fields: Mapping[str, Any]) -> np.ndarray:
    """Return for each row of class scores whether its likeliest class is one that the user says means abstention.

    `fields` are keyword arguments of `Predictions`, with class scores and the names of the classes; classes without
    names are numbered from 0. DataError where a refusal is no class. `options` are what the user stated:
    `rules.refusals` are the names (or patterns) of such classes, at least one, and `class_scores_role` is "logits" or
    "probs". `find_refusals` gives a mask of the names that match one of them.
    """
    class_scores = np.asarray(fields[options.class_scores_role])  # "logits" or "probs"
    classes = fields["classes"] or tuple(str(number) for number in range(class_scores.shape[1]))
    names = TextValues.of(classes)  # one row per class
    for refusal in options.rules.refusals:
        if not find_refusals(names, [refusal]).any():
            raise file_error(
                options.source.path,
                f"--refusals names {display_name(refusal)!r}, which is not one of the classes: {list_names(classes)}.",
            )
    means_abstention = find_refusals(names, options.rules.refusals)  # for each class
    return means_abstention[class_scores.argmax(axis=1)]


def _count_unanswered(fields: dict[str, Any], options: _UserOptions, purpose: str) -> None:
    """Mark the rows of class scores without an answer as "refused" instead of "abstained" where they count as wrong.

    `fields` are keyword arguments of `Predictions`, changed in place. The rules of the user decide, or else the purpose
    of reading. DataError where rows without an answer are to count as wrong and every row has an answer, or in a
    cascade, which computes its confidences from the class scores. `purpose` says what the file is read for ("one file",
    "compared", "cascade", ...); each has a default for questions without an answer. `options.refusal` makes the
    DataError from the option and the reason. "abstained" and "refused" are masks of the rows.
    """
    if options.rules.settled(purpose).unanswered != "wrong":
        return
    if purpose == "cascade":
        raise options.refusal("--unanswered wrong", "the next model of a cascade gets what a model refuses")
    if "abstained" not in fields:
        reason = f"every row has an answer, that of its {options.class_scores_role}"
        raise options.refusal(
            "--unanswered wrong", f"{reason}, unless --refusals names classes that are none"
        )
    fields["refused"] = fields.pop("abstained")


def _distinct_ids(ids: Column, values: Mapping[str, Values]) -> Column:
    """Return a column of ids that appends task and epoch where ids repeat.

    `values` holds the loaded columns by role. The new ids are computed when the column is loaded, which happens only
    where files are put in one order. They may repeat still. The ids are returned unchanged where the file has neither
    tasks nor epochs.
    """
    columns = {role: values[role] for role in ("task", "epoch") if role in values}
    if not columns:
        return ids

    def load() -> Values:
        # appends ", task NAME" to each id where some repeat, and then ", epoch NUMBER" where some repeat still
        return TextValues.of(make_distinct(ids.as_texts().tolist(), columns))

    # one text per row; `kind` is for messages alone
    return Column(shape=ids.shape, kind=ids.kind, load=load)


def check_kind(source: OpenedTable, kind: str | None) -> None:
    """Raise DataError where the user says what the array without a name is (`--as`), and the columns have names."""
    if kind is not None and "array" not in source.columns:
        raise file_error(
            source.path,
            f"--as is for an array without a name, and the columns have names: {source.list_columns()}. Name one with "
            f"-c {kind}=NAME.",
        )


def check_ranked(log: Log) -> None:
    """Raise NoConfidenceError where no scored answer of a model has any of the confidences that were read.

    Such a model cannot be ranked next to others. A log without any scored answer passes.
    """
    is_measured = log.answered & log.scored
    has_rank = any(bool((np.isfinite(signal) & is_measured).any()) for signal in log.signals.values())
    if is_measured.any() and not has_rank:
        listed = ", ".join(f"`{display_name(name)}`" for name in log.signals)
        raise NoConfidenceError(f"{display_name(log.path)}: no answer has {listed}.")


def find_class_scores_role(
    roles: Mapping[str, RoleColumns], stated_roles: Set[str], *, has_labels: bool
) -> str:
    """Return "logits" or "probs" where a file is to be read as class scores with labels; otherwise "".

    Logits come before probabilities, since they hold the same and more. Where the user named both a confidence and a
    column of correct, error or loss, these count more than class scores of the same file.

    `roles` maps each role ("labels", "confidence", ...) to its columns, `stated_roles` are the roles whose columns the
    user named, and `has_labels` says whether this file or a second one holds labels. Roles that the user did not name
    were guessed from the names of the columns.
    """
    names_own_columns = "confidence" in stated_roles and bool(stated_roles & {"correct", "loss", "error"})
    if names_own_columns or not has_labels:
        return ""
    for role in ("logits", "probs"):
        if role in roles:
            return role
    return ""


@dataclass(frozen=True, kw_only=True)
class _UserOptions:
    """What the user said about a file; an option that its kind of file cannot obey is refused.

    Parameters
    ----------
    source : OpenedTable
    class_scores_role : str
        "logits" or "probs" for class scores, otherwise "".
    stated_roles : set of str
        Roles whose columns the user named.
    tolerance : float or None
        How far a row of probabilities may be from summing to one; None where the user did not say.
    classes : tuple of str
        Class names in the order of the class scores; empty where the user did not state them.
    rules : Rules
        Which rows to read, and how answers are counted.
    """

    source: OpenedTable
    class_scores_role: str
    stated_roles: Set[str]
    tolerance: float | None
    classes: tuple[str, ...]
    rules: Rules

    def check_obeyed(self, kind: str, *, used_roles: Set[str], has_labels: bool = False) -> None:
        """Raise DataError for an option of the user that this kind of file would ignore.

        The options are columns of roles that are not used (`stated_roles` are those that the user named), a tolerance
        without probabilities, class names without classes, and rules for answers where there are class scores.

        Parameters
        ----------
        kind : {"class scores", "answers", "a plain table"}
            What the file is read as, for messages; `class_scores_role` says whether it has class scores.
        used_roles : set of str
            Roles whose columns this kind of file uses.
        has_labels : bool
            Whether a plain table has labels, so that class names make sense for it.

        `refusal(option, reason)` makes the DataError. The first problem is reported; the user mends one at a time.
        """
        unused_roles = sorted(self.stated_roles - used_roles)
        if unused_roles:
            # such as "the file is read as a plain table, which has one row per sample, ..."
            reason = f"the file is read as {kind}, which {_KIND_DESCRIPTIONS[kind]}"
            raise self.refusal(f"-c {unused_roles[0]}", reason)
        if self.tolerance is not None and self.class_scores_role != "probs":
            raise self.refusal("--tolerance", "it is for probabilities")
        # `class_scores_role` is "logits" or "probs", and "" where the file is not read as class scores
        may_have_classes = self.class_scores_role or (kind == "a plain table" and has_labels)
        if self.classes and not may_have_classes:
            raise self.refusal("--classes", "it is for class scores, or labels with predictions")
        if self.class_scores_role:
            self.check_rules()

    def check_rules(self) -> None:
        """Raise DataError for rules that have no effect on class scores, where each row has an answer and a confidence.

        These are `grades`, `scale`, `outside` and `missing`. `rules.only`, which selects rows, and `rules.refusals`,
        which may name classes, are allowed, and so is `rules.unanswered`, which says how refusals count. Rules that the
        user did not state are empty or None. The file must be read as class scores: `class_scores_role` is "logits" or
        "probs". `refusal(option, reason)` makes the DataError.
        """
        remedy = "name your own with -c correct=NAME -c confidence=NAME"
        if self.rules.grades:
            reason = f"right and wrong come from the labels and the {self.class_scores_role}; {remedy}"
            raise self.refusal("--grades", reason)
        if self.rules.scale or self.rules.outside:
            raise self.refusal("--scale", f"the confidence comes from the {self.class_scores_role}; {remedy}")
        if self.rules.missing:
            raise self.refusal("--missing", f"every row has {self.class_scores_role}")

    def refusal(self, option: str, reason: str) -> DataError:
        """Return the error for an option that has no effect."""
        return file_error(self.source.path, f"{option} has no effect here: {reason}. Leave it out.")


def read_log(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    labels: str | Path | None = None,
    format: str | None = None,  # noqa: A002
    limits: Limits | None = None,
    rules: Rules | None = None,
) -> Log:
    """Read the answers of a language model: the log of a harness, or a table whose columns are stated.

    Parameters
    ----------
    path : str or Path
        A file, or the folder of a HELM run.
    columns : mapping of role to column name, optional
        For columns whose names do not say their role: `{"correct": "grade", "confidence": "stated"}`.
    labels : str or Path, optional
        A second file that holds the right answers: one for each row, or by question where both files name questions.
    format : str, optional
        One of `FORMATS`, where neither the file's name nor its first bytes say it.
    limits : Limits, optional
        What each file may cost; 4 GB of memory by default.
    rules : Rules, optional
        Which rows to read, and how refusals, missing and stated confidences count.

    Returns
    -------
    Log
        With or without confidences; `read_predictions` needs one.

    Raises
    ------
    DataError
        One line that names the file, what is wrong and what to do.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "graded.csv"
    ...     _ = path.write_text("grade\\nA\\nB\\nC\\nA\\n")
    ...     grades = {"A": "right", "B": "wrong", "C": "unanswered"}
    ...     log = read_log(path, columns={"correct": "grade"}, rules=Rules(grades=grades))
    >>> log.accuracy, log.unanswered
    (0.5, 0.25)
    """
    limits = limits or Limits()
    source = open_source(path, format=format, limits=limits)
    right_answers = None if labels is None else open_source(labels, limits=limits)
    user_columns = columns or {}
    stated_roles = {role_of(role) for role in user_columns}
    source = add_derived_columns(source, user_columns)
    rules = rules or Rules()
    return make_log(
        source,
        add_repeats(source, source.find_roles(user_columns), rules, stated_roles=stated_roles),
        rules,
        right_answers=right_answers,
        stated_roles=stated_roles,
    )


def _explain_no_confidence(log: Log) -> str:
    """Return a message for answers without a confidence: their accuracy, and how to state one."""
    return (
        f"holds no confidence to rank by: accuracy {log.accuracy:.4g} of {log.n:,} rows. {' '.join(log.notes)} State a "
        f"column with -c confidence=NAME; `abstain describe` lists what there is."
    )


def read_unlabelled(
    path: str | Path,
    *,
    columns: Mapping[str, str],
    kind: str | None,
    format: str | None,  # noqa: A002
    limits: Limits,
    classes: tuple[str, ...] = (),
    tolerance: float | None = None,
    rules: Rules | None = None,
    to_learn: bool = False,
) -> tuple[Predictions, dict[str, np.ndarray]]:
    """Read a file whose truth is not known yet, so that a decision rule can accept or reject each row.

    Parameters
    ----------
    path : str or Path
        The file; "-" is standard input.
    columns : mapping
        Role -> column name or pattern, as the user states it.
    kind : {"logits", "probs", "confidence"} or None
        The role of an array without a name.
    format : str or None
        One of `FORMATS`; None to find it by the file's name or first bytes.
    limits : Limits
        What the file may cost.
    classes : tuple of str
        Class names as the user states them.
    tolerance : float, optional
        How far a row of probabilities may be from summing to one.
    rules : Rules, optional
        How refusals, missing and stated confidences count; the same as when the decision rule was made.
    to_learn : bool
        A learned confidence is to rank the rows: several confidences, features and categories are read too.

    Returns
    -------
    predictions : Predictions
        Logits, probabilities or a confidence (the first of these that the file has), with abstentions, groups, class
        names and ids where it has them; no labels or losses.
    other_columns : dict of arrays
        All columns of the file but logits and probabilities, by name, to be written next to the decisions.

    Raises
    ------
    DataError
        The file has none of the three, values are invalid, or an option has no effect here.
    """
    source = open_source(path, format=format, limits=limits)
    check_kind(source, kind)
    source = add_derived_columns(source, columns)
    roles = source.find_roles(columns, kind)
    output_role = next((role for role in ("logits", "probs", "confidence") if role in roles), None)
    if output_role is None:
        raise UncertainError(f"needs logits, probs or a confidence, got {source.list_columns()}.", source)
    roles[output_role] = order_by_stated_classes(roles[output_role], classes)
    rules = rules or Rules()
    class_scores_role = "" if output_role == "confidence" else output_role
    options = _UserOptions(
        source=source,
        class_scores_role=class_scores_role,
        stated_roles=frozenset(),
        tolerance=tolerance,
        classes=classes,
        rules=rules,
    )
    # raises for options that the file would ignore: --classes without class scores, --grades with them, ...
    options.check_obeyed("answers", used_roles=frozenset())
    if rules.only:
        raise file_error(path, "--only has no effect here: a rule decides every row. Leave it out.")
    # answers of a log, or a table with rules for answers: refusals and gaps count as when the decision rule was made
    if not class_scores_role and is_log(source, roles, rules):
        fields: dict[str, Any] = load_unjudged(source, roles, rules, allow_several=to_learn)
    else:
        fields = _load_outputs(source, roles, output_role, tolerance)
    if to_learn:
        fields |= load_learning_columns(source, roles)
    fields["column_of_role"] = {  # only of what says which rows have an answer
        role: str(roles[role]) for role in ("prediction", "answered", "abstained") if role in roles
    }
    fields["groups"] = source.load("groups", roles["groups"]) if "groups" in roles else None
    classes_in_file = source.load("classes", roles["classes"]) if "classes" in roles else None
    # those that the user states, those of a column or of the file, or else the ends of the columns' names
    fields["classes"] = (
        classes or _list_class_names(classes_in_file) or source.classes or roles[output_role].suffixes
    )
    if rules.refusals and class_scores_role:
        is_refusal = _find_refusing_classes(options, fields)
        is_abstained = False if fields["abstained"] is None else fields["abstained"]
        fields["abstained"] = is_refusal | is_abstained
    id_columns = next((roles[role] for role in ("question", "ids") if role in roles), None)
    fields["ids"] = None if id_columns is None else source.columns[id_columns.names[0]]
    score_names: set[str] = set()
    for role in ("logits", "probs"):
        if role in roles:
            score_names.update(roles[role].names)
    other_columns = {
        name: as_array(column.texts or column.load())
        for name, column in source.columns.items()
        if name not in score_names
    }
    predictions = Predictions(
        name=model_name(path), path=str(path), format=source.format, n=len(fields[output_role]), **fields
    )
    return predictions, other_columns


def _load_outputs(
    source: OpenedTable, roles: Mapping[str, RoleColumns], output_role: str, tolerance: float | None
) -> dict[str, Any]:
    """Load the model's outputs, and where it abstained, as keyword arguments of `Predictions`.

    `output_role` is "logits", "probs" or "confidence" and a key of `roles`, which maps each role to its columns. A
    single column of class scores is that of class 1 of a binary model and becomes two columns, with a warning. Rounded
    probabilities are divided by their sums; `tolerance` says how far a sum may be from one, None what rounding
    explains. "abstained" is a mask of the rows, None where the file does not say it. DataError where values are
    invalid. `source` is the opened file. Labels are not read here.
    """
    loaded_roles = {role: roles[role] for role in (output_role, "abstained") if role in roles}
    values = {role: source.load(role, role_columns) for role, role_columns in loaded_roles.items()}
    loaded_columns = LoadedColumns(
        source=source, roles=loaded_roles, values_by_role=values, tolerance=tolerance
    )
    if output_role == "confidence":
        outputs = loaded_columns.require_numbers(output_role)
    else:
        outputs = loaded_columns.load_class_scores(output_role)
    if output_role == "probs" and outputs.ndim == 2:  # not for an array without rows, or of three dimensions
        outputs = loaded_columns.normalise_rounded(outputs)
    return {output_role: outputs, "abstained": loaded_columns.find_abstentions()}


def _load_labels(path: str | Path, limits: Limits) -> Values:
    """Load the labels of a second file: its column of labels, its array without a name, or its only column.

    UncertainError where it has several columns and none is named as labels. `limits` bounds the memory and the number
    of columns that a file may take.
    """
    source = open_source(path, limits=limits)
    label_columns = source.find_roles({}, "labels").get("labels") or RoleColumns(tuple(source.columns))
    if len(label_columns.names) > 1:
        raise UncertainError(f"must have a column of labels, got {source.list_columns()}.", source)
    return source.load("labels", label_columns)


def _list_class_names(values: Values | None) -> tuple[str, ...]:
    """Return the class names that a file holds in an array; empty where it holds none."""
    if values is None:
        return ()
    return tuple(map(str, as_array(values).reshape(-1).tolist()))
