"""From the columns of a file of answers to a `Log`: right or wrong, answered or refused, and the confidences."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from abstain._names import suggest_name
from abstain._roles import normalise_name
from abstain._tables import is_number
from abstain.errors import AbstainError, AbstainWarning
from abstain.formats.columns import (
    TRUTH_WORDS,
    Column,
    OpenedTable,
    TextValues,
    UncertainError,
    Values,
    as_texts,
    has_value,
    split_computed_name,
    text_or_none,
)
from abstain.formats.free_text import FreeTextError, are_sentences, is_free_text, is_seldom
from abstain.formats.learning_columns import LEARNING_ROLES, load_learning_columns
from abstain.formats.loaded_columns import (
    HOW_TO_WRITE_NUMBERS,
    LoadedColumns,
    NamedLosses,
    explain_grades,
    is_missing_mark,
    numbers_with_missing_marks_or_none,
)
from abstain.formats.log_folders import find_model_column
from abstain.formats.log_rows import LETTERS_SUFFIX, agreement
from abstain.formats.logs import (
    EVERY_ROW,
    LOSS_OF_GRADE,
    MIN_ROWS_TO_JUDGE_SCALE,
    SCALES,
    Log,
    Rules,
    find_fractions,
)
from abstain.formats.roles import RoleColumns, truth_role_of
from abstain.formats.safety import (
    count_noun,
    display_name,
    file_error,
    has_or_have,
    is_or_are,
    list_names,
)

ANSWER_ROLES = ("prediction", "answered", "question", "task", "epoch")
"""Roles that make a table one of answers, where it has no class scores."""
_MOST_SIMILAR_COMPARED = 1000  # values among which one similar to a wrong one is looked for
_VERDICT_ROLES = ("correct", "error", "loss")
_ANSWER_COLUMN = "answer"  # in which readers of logs put the text of an answer
_TASK_ID = "task_id"  # normalised name of a column that names the question of an agent or of a test of code
# of columns that number the trials of a task or the repeats of a question
_TRIAL_NAME = re.compile("(trial|repeat|repetition|run|attempt)(_(index|number|id))?")
_MAX_MEAN_ROWS_OF_TASK_ID = 50  # with more rows of each, a task is rather a kind of questions
_QUESTION_COLUMNS = ("question", "prompt", "prompts")  # of a second file with right answers
_TEXT_OF_NAN = "nan"  # what `as_texts` makes of an empty cell in a column of numbers


def keep_stated_verdict(
    source: OpenedTable, roles: Mapping[str, RoleColumns], stated_roles: Set[str]
) -> dict[str, RoleColumns]:
    """Return the roles without the columns of right and wrong that the user did not choose.

    A file may have columns of the roles correct, error and loss, which all say how wrong an answer is. Where the user
    named one of them, the others are dropped; otherwise all stay.

    `roles` maps each role ("labels", "confidence", ...) to its columns, `stated_roles` are the roles whose columns the
    user named. DataError, which names the file of `source`, where the user named several of the three.
    """
    stated_verdicts = [role for role in _VERDICT_ROLES if role in stated_roles]  # of correct, error and loss
    if len(stated_verdicts) > 1:
        raise file_error(
            source.path,
            f"{' and '.join(stated_verdicts)} both say how wrong an answer is. Name one of them with -c.",
        )
    if not stated_verdicts:
        return dict(roles)
    return {
        role: columns for role, columns in roles.items() if role not in _VERDICT_ROLES or role in stated_roles
    }


def columns_of_repeats(source: OpenedTable, roles: Mapping[str, RoleColumns]) -> list[str]:
    """Return the names of columns whose values may repeat because rows belong together: `question`, ids, `task_id`.

    Empty for the log of an evaluation harness, which says itself what its questions are, and where `roles` (role -> its
    columns) has columns of clusters or questions. Columns with another role are left out. Only the names of columns in
    the opened file are looked at. The order is the order in which the caller tries them.
    """
    if source.is_harness_log or "clusters" in roles or "question" in roles:
        return []
    names_with_other_role = {
        name for role, columns in roles.items() if role != "ids" for name in columns.names
    }
    names = [name for name in source.columns if normalise_name(name) == "question"]
    names += roles["ids"].names if "ids" in roles else ()
    names += [name for name in source.columns if normalise_name(name) == _TASK_ID]
    return [name for name in names if name not in names_with_other_role]


def add_repeats(
    source: OpenedTable,
    roles: Mapping[str, RoleColumns],
    rules: Rules,
    *,
    has_class_scores: bool = False,
    stated_roles: Set[str] = frozenset(),
) -> dict[str, RoleColumns]:
    """Return the roles with the column whose repeats say which rows are of one question, where no role says it yet.

    Rows of one question depend on each other, and intervals that ignore it are too narrow. The column is the first of
    `columns_of_repeats` (`question`, ids, `task_id`) with repeats and without gaps. It becomes the role "question" in a
    table with tasks or epochs and without class scores, and otherwise the role "clusters", with a warning that says so.
    `task_id` next to a column that numbers the trials of each task makes that column the role "epoch", and so does a
    column of questions that repeat. One id in several tasks, by the role "task" or a column called `task_name`, is
    several questions. Ids of questions that stand for several texts of a column `question` are replaced by that column,
    with a warning, unless the user named them.

    `roles` maps each role ("labels", "confidence", ...) to its columns, and `rules.only` (column name -> value) selects
    the rows. `source` is the opened file, and `stated_roles` are the roles whose columns the user named.
    """
    row_mask = select_rows(source, rules).mask  # None for all rows

    def count_pairs(*names: str) -> int:
        """Return how many different combinations of values the selected rows of columns hold."""
        texts = [as_texts(source.columns[column].load()) for column in names]
        selected_texts = [(column if row_mask is None else column[row_mask]).tolist() for column in texts]
        return len(set(zip(*selected_texts)))

    if "question" in roles and "question" not in stated_roles and not source.is_harness_log:
        roles = _replace_ids_of_several_texts(source, roles, count_pairs)

    task_roles = {"task": roles["task"]} if "task" in roles else _find_task_names(source, roles)
    trial_column = _find_trial_column(source, roles)  # "" where there is none
    if "question" in roles and "epoch" not in roles and trial_column and not source.is_harness_log:
        names = [column for role in ("question", "task") if role in roles for column in roles[role].names]
        row_count = source.columns[trial_column].shape[0] if row_mask is None else int(row_mask.sum())
        if count_pairs(*names) < row_count == count_pairs(*names, trial_column):
            roles = {**roles, "epoch": RoleColumns((trial_column,))}
    # whether a column `question` does not tell which rows are of one question
    has_uninformative_question_column = False
    for name in columns_of_repeats(source, roles):
        if len(source.columns[name].shape) != 1:  # a matrix
            continue
        values = source.columns[name].load()
        values = values if row_mask is None else values[row_mask]
        if not has_value(values).all():
            continue
        question_count = _count_distinct(values)
        is_task_id = normalise_name(name) == _TASK_ID
        question_roles = {"question": RoleColumns((name,))}
        if task_roles and not is_task_id:  # one name in two tasks is two questions
            question_count = count_pairs(name, task_roles["task"].names[0])
            question_roles |= task_roles
        if not 1 < question_count < len(values):  # all values are equal, or none repeats
            has_uninformative_question_column |= normalise_name(name) == "question"
            continue
        if is_task_id and trial_column and count_pairs(name, trial_column) == len(values):
            question_roles |= {"epoch": RoleColumns((trial_column,))}
        elif is_task_id:
            mean_row_count = len(values) / question_count
            if has_uninformative_question_column or mean_row_count > _MAX_MEAN_ROWS_OF_TASK_ID:
                continue  # the task is then a kind of questions, and not one question
        # Tasks and epochs make this a table of answers (`is_log`), where repeats of a question become a cluster later.
        if not has_class_scores and ({"task", "epoch"} & {*roles, *question_roles}):
            return {**roles, **question_roles}
        message = (
            f"`{display_name(name)}` has {question_count:,} values in {count_noun(len(values), 'row')}: rows with one "
            f"value are taken as a cluster. Name other clusters with -c clusters=NAME (a column of row numbers: none)."
        )
        warnings.warn(message, AbstainWarning, stacklevel=4)
        return {**roles, "clusters": RoleColumns((name,))}
    return dict(roles)


def _replace_ids_of_several_texts(
    source: OpenedTable, roles: Mapping[str, RoleColumns], count_pairs: Callable[..., int]
) -> dict[str, RoleColumns]:
    """Return the roles with a column `question` in place of ids that stand for several of its texts, with a warning.

    Such ids were numbered anew in every part of the file. `count_pairs` counts the different combinations of values of
    columns in the rows that are read. The roles stay as they are where each id has one text. `roles` maps each role to
    its columns and must have "question", the ids of questions; it is not changed.
    """
    used_names = {name for columns in roles.values() for name in columns.names}
    # a column that is called `question` and holds the text of the question; "" for none
    text_name = next((name for name in source.columns if normalise_name(name) == "question"), "")
    if not text_name or text_name in used_names or len(source.columns[text_name].shape) != 1:
        return dict(roles)
    texts = source.columns[text_name].load()
    if not isinstance(texts, TextValues) or not has_value(texts).all():
        return dict(roles)
    id_names = roles["question"].names
    task_names = roles["task"].names if "task" in roles else ()  # an id may occur in several tasks
    if count_pairs(*id_names, *task_names, text_name) == count_pairs(*id_names, *task_names):
        return dict(roles)
    listed = display_name(id_names[0])
    message = (
        f"one `{listed}` stands for several texts of `{display_name(text_name)}`, so that it is no id of a question: "
        f"rows with one text are taken as one question. If the texts are variants of one question, name the ids: "
        f"-c question={listed}."
    )
    # names the line that called `read_predictions`
    warnings.warn(message, AbstainWarning, stacklevel=5)
    # The same column may also have the role "ids", by which rows of several files are matched; drop that role too.
    kept = {role: columns for role, columns in roles.items() if role != "ids" or columns.names != id_names}
    return {**kept, "question": RoleColumns((text_name,))}


def _find_task_names(source: OpenedTable, roles: Mapping[str, RoleColumns]) -> dict[str, RoleColumns]:
    """Return the role "task" with a column called `task_name` that has no other role; empty where there is none."""
    used_names = {name for columns in roles.values() for name in columns.names}
    for name, column in source.columns.items():
        if normalise_name(name) == "task_name" and name not in used_names and len(column.shape) == 1:
            return {"task": RoleColumns((name,))}
    return {}


def _find_trial_column(source: OpenedTable, roles: Mapping[str, RoleColumns]) -> str:
    """Return the column that numbers the trials of a task: that of the epochs, or one called `trial`; "" for none."""
    if "epoch" in roles:
        return roles["epoch"].names[0]
    used_names = {name for columns in roles.values() for name in columns.names}
    candidates = [
        name
        for name, column in source.columns.items()
        if _TRIAL_NAME.fullmatch(normalise_name(name)) and len(column.shape) == 1
    ]
    return next((name for name in candidates if name not in used_names), "")


def is_log(source: OpenedTable, roles: Mapping[str, RoleColumns], rules: Rules) -> bool:
    """Return whether a file is to be read as one of answers.

    So it is where an evaluation harness wrote it, where it has a column that only answers have (`ANSWER_ROLES`), where
    the user changed any of the `rules` (options on how answers count), or where the user named several confidences or
    one that is no column of the file ("agreement", which is computed from the answers). `roles` maps each role
    ("labels", "confidence", ...) to its columns. `source` is the opened file.
    """
    has_changed_rules = rules != Rules()  # `Rules()` are the defaults
    if source.is_harness_log or has_changed_rules:
        return True
    if any(role in roles for role in ANSWER_ROLES):  # "prediction", "answered", "question", "task", "epoch"
        return True
    confidence_names = roles["confidence"].names if "confidence" in roles else ()
    has_computed_confidence = any(name not in source.columns for name in confidence_names)
    return len(confidence_names) > 1 or has_computed_confidence


def make_log(
    source: OpenedTable,
    roles: Mapping[str, RoleColumns],
    rules: Rules,
    *,
    right_answers: OpenedTable | None,
    stated_roles: Set[str] = frozenset(),
    purpose: str = "one file",
) -> Log:
    """Load the columns of a file of answers and choose the rows to read.

    Parameters
    ----------
    source : OpenedTable
        The opened file, whose columns are loaded here.
    roles : mapping
        Role ("correct", "prediction", "confidence", ...) -> its columns in the file. Not changed.
    rules : Rules
        Which rows to read, and how refused answers and missing confidences count.
    right_answers : OpenedTable or None
        A second file that holds the right answers; they count more than the scores of a harness.
    stated_roles : set of str
        Roles whose columns the user named.
    purpose : {"one file", "compared", "cascade"}
        What the log is read for, which decides what `rules` leave open.

    Raises
    ------
    DataError
        Nothing says which answers are right, two columns contradict each other, columns differ in length, no row has
        the values of `rules.only`, or `right_answers` come with a file that has no predictions.
    """
    roles = keep_stated_verdict(source, roles, stated_roles)
    if right_answers is not None:
        if "prediction" not in roles or "correct" in stated_roles:
            raise file_error(
                source.path,
                "--labels needs a column of predictions and no other column that says right or wrong. Name the "
                "predictions with -c prediction=NAME, or leave --labels out.",
            )
        if source.is_harness_log:
            roles.pop("correct", None)
        verdicts = None if "correct" in roles else _load_verdicts(right_answers, source, roles)
        if verdicts is not None:  # they become a column of the file
            column_name = right_answers.path.name
            source = replace(source, columns={**source.columns, column_name: Column.of(verdicts)})
            roles["correct"] = RoleColumns((column_name,))
            right_answers = None
    grade_column = roles["correct"].names[0] if "correct" in roles else ""
    # the user says what its letters mean
    if rules.grades and f"{grade_column}{LETTERS_SUFFIX}" in source.columns:
        roles["correct"] = RoleColumns((f"{grade_column}{LETTERS_SUFFIX}",))
    if grade_column in source.facts.answered_column_by_correctness:
        roles.setdefault(
            "answered", RoleColumns((source.facts.answered_column_by_correctness[grade_column],))
        )
    selection = select_rows(source, rules)
    selected_rows = selection.mask
    columns_used = dict(selection.value_of_column)
    # Ids are loaded later, and only where files are put in one order.
    ids = source.columns[roles["ids"].names[0]] if "ids" in roles else None
    # Class scores say nothing of answers, and may be large.
    unread_roles = ("ids", "classes", "logits", "probs", *LEARNING_ROLES)
    loaded_roles = {role: columns for role, columns in roles.items() if role not in unread_roles}
    learning_columns = load_learning_columns(source, roles)
    values = {
        role: source.load(role, columns) for role, columns in loaded_roles.items() if role != "confidence"
    }
    confidence_names = _find_confidence_names(source, loaded_roles, grade_column)
    confidence_columns = {
        name: source.columns[name].load() for name in confidence_names if name in source.columns
    }
    replies = _load_replies(source, roles, rules)
    if right_answers is not None:
        values["labels"] = _load_right_answers(right_answers, values)
        _refuse_flags_as_answers(right_answers, values["labels"], values["prediction"])
        columns_used["labels"] = display_name(right_answers.path.name)
    if selected_rows is not None:
        values = take_rows(source, values, selected_rows)
        confidence_columns = take_rows(source, confidence_columns, selected_rows)
        learning_columns = {
            role: take_rows(source, columns, selected_rows) for role, columns in learning_columns.items()
        }
        if replies is not None:
            replies = take_rows(source, {_ANSWER_COLUMN: replies}, selected_rows)[_ANSWER_COLUMN]
        ids = None if ids is None else ids.rows(selected_rows)
    answers = LoadedAnswers(
        source=source,
        roles=loaded_roles,
        values_by_role=values,
        stated_roles=stated_roles,
        rules=rules,
        purpose=purpose,
        replies=replies,
    )
    # "agreement" may be no column of the file; None says that it is computed from the answers.
    log = answers.make_log({name: confidence_columns.get(name) for name in confidence_names})
    for columns in learning_columns.values():
        answers.check_lengths(log.n, columns)
    return replace(
        log,
        column_of_role=log.column_of_role | columns_used,
        ids=ids,
        model_count=count_models(source, roles, selected_rows).model_count,
        **learning_columns,
    )


class ModelCount(NamedTuple):
    """How many models the rows of a file are of."""

    model_count: int  # 1 where no column says it
    column: str  # which names the model of each row; "" where there is none


def count_models(
    source: OpenedTable, roles: Mapping[str, RoleColumns], row_mask: np.ndarray | None
) -> ModelCount:
    """Count the models of the selected rows (None: all) by a column that names them and has no other role."""
    name = find_model_column(source)  # "" where there is none
    if not name or any(name in columns.names for columns in roles.values()):
        return ModelCount(model_count=1, column="")
    texts = source.columns[name].as_texts()
    model_count = len(np.unique(texts if row_mask is None else texts[row_mask]))
    return ModelCount(model_count=model_count, column=name)


def _load_replies(source: OpenedTable, roles: Mapping[str, RoleColumns], rules: Rules) -> Values | None:
    """Load the replies of a harness's log, the texts in which refusals such as "I don't know" are looked for.

    None where nothing is looked for (no `rules.refusals`), where the refusals are looked for in a column of predictions
    instead, and for a plain table. The replies serve nothing else: the log says itself which questions have an answer.
    """
    if not rules.refusals or "prediction" in roles or not source.is_harness_log:
        return None
    column = source.columns.get(_ANSWER_COLUMN)
    return None if column is None else column.load()


def _find_confidence_names(
    source: OpenedTable, roles: Mapping[str, RoleColumns], grade_column: str
) -> tuple[str, ...]:
    """Return the confidences to read: those that the user named one by one, or those of the harness's log.

    `grade_column` is the column that says how right an answer is, "" for none. Left out of those of the log are the
    confidences of another answer than the one it judges, columns that say right or wrong, and the right and the given
    answers. Empty for a plain table in which the user named none. `roles` maps each role to its columns; `source.facts`
    is what the log of a harness says of its columns (empty for a plain table).
    """
    # What the user typed as * (all confidences of the log) is treated like no choice, below.
    if "confidence" in roles and not _are_all_confidences_of_log(source, roles["confidence"].names):
        return roles["confidence"].names
    excluded = set(source.facts.excluded_confidences_by_correctness.get(grade_column, ()))
    for role in ("correct", "error", "loss", "labels", "prediction"):
        for name in roles[role].names if role in roles else ():
            excluded.add(name)
            computed = split_computed_name(name)
            if computed is not None:  # "score/10" is computed from the column "score"
                excluded.add(computed.column)
    return tuple(name for name in source.facts.possible_confidence_columns if name not in excluded)


def _are_all_confidences_of_log(source: OpenedTable, names: tuple[str, ...]) -> bool:
    """Return whether these are all confidences of a log that has several, as *, and not some that the user chose."""
    names_of_log = source.facts.possible_confidence_columns
    return len(names_of_log) > 1 and names == names_of_log


def load_unjudged(
    source: OpenedTable, roles: Mapping[str, RoleColumns], rules: Rules, *, allow_several: bool = False
) -> dict[str, Any]:
    """Return "confidence", "abstained" and "gapped_signals" of new answers whose truth is not known yet.

    A decision rule is applied to them later. `roles` maps each role ("labels", "confidence", ...) to its columns and
    must hold "confidence". Each confidence is converted by the scale that `rules.scale` states; "gapped_signals" holds
    them by name, NaN where missing. "confidence" is the first of them, with the lowest float in rows that abstained or
    have none. A row without the first confidence counts as abstained unless `rules.missing` is "last", or
    `allow_several` is set, since a learned confidence allows gaps.

    DataError for `rules.grades`, which need the truth, for several confidences unless `allow_several` is set, and for
    columns of different lengths. `source` is the opened file.
    """
    if rules.grades:
        raise file_error(
            source.path, "--grades has no effect here: new answers are not graded yet. Leave it out."
        )
    first_name, *further_names = roles["confidence"].names
    if further_names and not allow_several:
        raise file_error(source.path, "a rule uses one confidence. Name it with -c confidence=NAME.")
    # they say which rows are answered; questions with predictions also give the agreement of repeated answers
    answer_roles = {
        role: columns
        for role, columns in roles.items()
        if role in ("prediction", "answered", "abstained", "question")
    }
    values = {role: source.load(role, columns) for role, columns in answer_roles.items()}
    answers = LoadedAnswers(
        source=source,
        roles=answer_roles,
        values_by_role=values,
        rules=rules,
        # the texts that the model wrote; None unless refusals such as "I don't know" are looked for in them
        replies=_load_replies(source, roles, rules),
    )
    confidences = {}  # confidence by name, one number per row
    for name in (first_name, *further_names):
        # The only name that may be no column is "agreement": without a column, it is computed from the answers.
        column = source.columns[name].load() if name in source.columns else None
        # Few new answers may all have stated 1% or less, so that nothing is said of their scale.
        confidences[name] = answers.convert_confidence(
            name, column, min_rows_to_judge=MIN_ROWS_TO_JUDGE_SCALE
        )
    confidence = confidences[first_name]  # the one by which the rule accepts
    answers.check_lengths(len(confidence), {**values, **confidences})
    has_confidence = np.isfinite(confidence)
    counts_without_confidence = rules.missing == "last" or allow_several
    is_candidate = np.ones(len(confidence), bool) if counts_without_confidence else has_confidence
    answered = answers.find_answered(is_candidate)  # the candidates with an answer, a mask of rows
    lowest = np.finfo(np.float64).min  # only a rule that accepts everything accepts it
    return {
        "confidence": np.where(answered & has_confidence, confidence, lowest),
        "abstained": ~answered,
        "gapped_signals": {
            name: np.where(np.isfinite(column), column, np.nan) for name, column in confidences.items()
        },
    }


class SelectedRows(NamedTuple):
    """Which rows of a file are read, and why."""

    mask: np.ndarray | None  # one truth value per row; None for all rows
    value_of_column: dict[str, str]  # by column that selects rows: its value in words, with the other filters


def select_rows(source: OpenedTable, rules: Rules) -> SelectedRows:
    """Find the rows to read: those that hold the values of `rules.only` (column name -> value as text).

    A harness may read each answer with several filters (ways to find the answer in a reply). Each filter then has rows
    of its own, and the column `source.facts.variant_column` holds its name ("" where there is no such column). Only the
    rows of one filter are read: that which `rules.only` states, or else the first of each task in the file.

    UncertainError where a stated column does not exist, DataError where no row has the stated value. `source` is the
    opened file. The result holds the mask of rows (None for all) and, for a summary, each column's value in words.
    """
    value_of_column = dict(rules.only)  # the value that a row must have to be read
    descriptions = {}  # column -> its value in words for a summary, where that is more than the value
    selected = None  # a mask of rows; None for all rows
    filter_column = source.facts.variant_column  # "" where each answer is read in one way
    if filter_column:
        filters = as_texts(source.columns[filter_column].load())
        chosen_filters = {value_of_column.get(filter_column, "")}
        # Rows of a stated filter are selected in the loop below.
        if filter_column not in value_of_column:
            first_filters = _first_filter_of_task(source, filters)  # of the task of each row
            selected = filters == first_filters
            chosen_filters = set(first_filters.tolist())
        names = dict.fromkeys(filters.tolist())  # without repeats, in the order of the file
        descriptions[filter_column] = ", ".join(
            display_name(name) for name in names if name in chosen_filters
        )
        other_filters = ", ".join(display_name(name) for name in names if name not in chosen_filters)
        if other_filters:
            descriptions[filter_column] += f" (others: {other_filters})"
    for name, value in value_of_column.items():
        if name not in source.columns:
            raise UncertainError(
                f"has no column `{display_name(name)}`; it has {source.list_columns()}.", source
            )
        texts = as_texts(source.columns[name].load())
        matches = texts == value
        if not matches.any():
            present = np.unique(texts).tolist()
            # 'Did you mean "history"?', or an empty text; among very many values it would take long to find
            suggestion = suggest_name(value, present[:_MOST_SIMILAR_COMPARED])
            message = (
                f"no row has {display_name(value)!r} in column `{display_name(name)}`, which holds "
                f"{list_names(present)}. {suggestion}"
            )
            raise file_error(source.path, message.rstrip())
        selected = matches if selected is None else selected & matches
    in_words = {name: display_name(value) for name, value in value_of_column.items()} | descriptions
    return SelectedRows(mask=selected, value_of_column=in_words)


def _first_filter_of_task(source: OpenedTable, filters: np.ndarray) -> np.ndarray:
    """Return for each row the filter that stands first among the rows of its task.

    `filters` names the filter of each row. A log without a column of tasks is one task.
    """
    task_column = source.facts.column_of_role.get("task", "")
    tasks = as_texts(source.columns[task_column].load()).tolist() if task_column else [""] * len(filters)
    filter_of_task: dict[str, str] = {}
    return np.array(
        [filter_of_task.setdefault(task, name) for task, name in zip(tasks, filters.tolist())], dtype=object
    )


def take_rows(source: OpenedTable, columns: Mapping[str, Values], selected: np.ndarray) -> dict[str, Values]:
    """Return the rows of a mask of each column; DataError where a column has another length than the mask.

    Texts that only other rows hold are dropped: checks of words must not fail for rows that are not read.
    """
    rows_of_column: dict[str, Values] = {}
    for name, values in columns.items():
        if len(values) != len(selected):
            raise file_error(
                source.path,
                f"`{display_name(name)}` must have {len(selected):,} rows like the other columns, got {len(values):,}.",
            )
        rows = values[selected]
        rows_of_column[name] = rows.without_unused_texts() if isinstance(rows, TextValues) else rows
    return rows_of_column


def _load_verdicts(
    right_answers: OpenedTable, source: OpenedTable, roles: Mapping[str, RoleColumns]
) -> np.ndarray | None:
    """Return 1 for a right and 0 for a wrong answer from a second file that holds these instead of right answers.

    They are in a column of 0 and 1, or of texts for these, whose name says that it tells right from wrong, without a
    column of labels; an empty text gives NaN. None for any other file, and where an answer of the first file (`source`)
    is such a word itself: then these may be right answers. `roles` maps each role to its columns in the first file, and
    must have "prediction". The result has one entry per row of the first file, matched by question where both have it.
    """
    if "labels" in right_answers.find_roles(stated={}):
        return None
    names = [name for name in right_answers.columns if truth_role_of(name) == "correct"]
    if len(names) != 1:
        return None
    # the file without its other columns, so that the verdicts are read as if they were the right answers
    verdict_column = replace(
        right_answers,
        columns={
            name: column
            for name, column in right_answers.columns.items()
            if name in (*names, *_QUESTION_COLUMNS)
        },
    )
    values = {role: source.load(role, roles[role]) for role in ("prediction", "question") if role in roles}
    texts = [text.strip().lower() for text in as_texts(_load_right_answers(verdict_column, values)).tolist()]
    texts = ["" if text == _TEXT_OF_NAN else text for text in texts]  # an empty cell among numbers
    answers = {text.strip().lower() for text in as_texts(values["prediction"]).tolist()}
    if not set(texts) <= TRUTH_WORDS.keys() or not answers.isdisjoint(set(texts) - {""}):
        return None
    return np.array([TRUTH_WORDS[text] for text in texts])


def _refuse_flags_as_answers(right_answers: OpenedTable, labels: Values, prediction: Values) -> None:
    """Raise DataError where the right answers of a second file are all 0 or 1, and no answer is: no row would be right.

    Such a column most likely says which answers are right. Rows need not be as many in both. Values are compared as
    texts, whole numbers without decimals; right answers that are empty texts do not count.
    """
    distinct_labels = set(as_texts(labels).tolist()) - {"", _TEXT_OF_NAN}
    if (
        distinct_labels
        and distinct_labels <= {"0", "1"}
        and distinct_labels.isdisjoint(as_texts(prediction).tolist())
    ):
        raise file_error(
            right_answers.path,
            "the right answers are all 0 and 1, which no answer is. If they say which answers are right (1) and wrong "
            "(0), call the column `correct`.",
        )


def _load_right_answers(right_answers: OpenedTable, values: Mapping[str, Values]) -> Values:
    """Return the right answers from a second file, one for each row of the first.

    `values` holds the loaded columns of the first file by role. Answers are matched by question where both files name
    the questions, and are words then. Otherwise they are taken in the order of the rows, their number unchecked here,
    and are numbers where the predictions are numbers too. The second file has a column whose name says that it holds
    labels, or a single column besides the questions; UncertainError otherwise. DataError where a question has no right
    answer, or two.
    """
    question_column = next((name for name in _QUESTION_COLUMNS if name in right_answers.columns), None)
    label_columns = right_answers.find_roles(stated={}).get("labels")
    # no name says it: all columns besides the questions, of which there must be one
    if label_columns is None:
        label_columns = RoleColumns(tuple(name for name in right_answers.columns if name != question_column))
    if len(label_columns.names) != 1:
        raise UncertainError(
            f"must have one column of right answers, got {right_answers.list_columns()}.", right_answers
        )
    labels = right_answers.load("labels", label_columns)
    texts = as_texts(labels).tolist()
    if question_column is None or "question" not in values:
        if isinstance(labels, np.ndarray) and isinstance(values.get("prediction"), np.ndarray):
            return labels  # both are numbers, and are compared as such
        return TextValues.of(texts)
    # the questions of the second file, in the order of `texts`
    answered_questions = as_texts(right_answers.load("question", RoleColumns((question_column,)))).tolist()
    answer_of_question: dict[str, str] = {}
    for question, answer in zip(answered_questions, texts):
        # A question may occur several times, with the same answer each time.
        if answer_of_question.setdefault(question, answer) != answer:
            raise file_error(
                right_answers.path,
                f"has two answers to {display_name(question)!r}: {display_name(answer_of_question[question])!r} and "
                f"{display_name(answer)!r}.",
            )
    questions = as_texts(values["question"]).tolist()  # of the rows of the first file
    questions_without_answer = [question for question in questions if question not in answer_of_question]
    if questions_without_answer:
        raise file_error(
            right_answers.path,
            f"has no answer to {count_noun(len(questions_without_answer), 'question')}, such as "
            f"{display_name(questions_without_answer[0])!r}.",
        )
    return TextValues.of(answer_of_question[question] for question in questions)


def _says_yes(values: Values) -> np.ndarray:
    """Return for each row whether a column such as `answered` or `abstained` says yes.

    A column that holds only 0 and 1, or only words for yes and no (`TRUTH_WORDS`), is taken by its values, and an empty
    cell is no. In any other column, a row that holds anything says yes: a text that is not blank, a number that is not
    NaN.
    """
    if isinstance(values, TextValues):
        # 1 for true, 0 for false, NaN for an empty cell, None for any other word
        truths = [TRUTH_WORDS.get(text.strip().lower()) for text in values.distinct_texts]
        if None not in truths:
            return np.array(truths)[values.code_of_row] == 1
        return has_value(values)
    numbers = np.asarray(values).reshape(-1)
    if np.all(np.isin(numbers, (0, 1)) | np.isnan(numbers)):
        return numbers == 1
    return has_value(values)


@dataclass(frozen=True)
class LoadedAnswers(LoadedColumns):
    """The loaded columns of a file of answers on their way to a `Log`.

    Parameters
    ----------
    rules : Rules
        How answers are counted.
    purpose : str
        A key of `logs.DEFAULTS`.
    replies : array or TextValues, optional
        The answers of a log without a column of predictions, where refusals are looked for.
    """

    rules: Rules = field(default_factory=Rules)
    purpose: str = "one file"
    replies: Values | None = None

    def make_log(self, confidence_columns: Mapping[str, Values | None]) -> Log:
        """Grade the answers, convert the confidences and make the log.

        `confidence_columns` maps the name of each confidence to its column; None for the agreement of repeated answers,
        which is computed here. A confidence that no row has is left out with a note, unless the user named confidences
        and no row has any of them. One that is equal in all rows is left out with a note, unless the user named it and
        not all confidences of the log.

        The log's rules are those of the user (`self.rules`); where they leave open how unanswered questions and missing
        confidences count, the purpose of reading (`self.purpose`) decides. DataError where grades, scales or values are
        invalid, or where columns differ in length.
        """
        is_stated = "confidence" in self.roles  # the user named the confidences
        self.check_scales(confidence_columns)
        losses = self.grade_answers()
        loss = losses.loss
        confidences = {
            name: self.convert_confidence(name, column) for name, column in confidence_columns.items()
        }
        self.check_lengths(len(loss), {**self.values_by_role, **confidences})
        # Only a grade that the user says to mean so tells that there is no answer; an empty one is no verdict.
        may_be_answered = ~self.find_graded_unanswered() if self.rules.grades else np.ones(len(loss), bool)
        answered = self.find_answered(may_be_answered)
        # A number beside a question without an answer or a score ranks nothing; without any such answers, all rows say
        # what there is.
        rows = answered & ~np.isnan(loss)
        if not rows.any():
            rows = np.ones(len(loss), bool)
        absent = [name for name, confidence in confidences.items() if not np.isfinite(confidence[rows]).any()]
        dropped = absent
        if is_stated and len(absent) == len(confidences):
            dropped = []  # nothing else to rank by; the caller raises an error that says so
        constant = []
        # nobody named a confidence: all those of the log are read
        if not is_stated or _are_all_confidences_of_log(self.source, self.roles["confidence"].names):
            constant = [
                name
                for name, confidence in confidences.items()
                if name not in absent and _is_constant(confidence)
            ]
        notes = [
            *self.source.facts.notes,
            *self.note_refusals(),
            *self.note_free_text(loss),
            *self.note_results_inside(loss),
            *(f"no answer has `{display_name(name)}`." for name in dropped),
            *(
                f"`{display_name(name)}` is the same in every row, so it cannot rank answers."
                for name in constant
            ),
        ]
        ranking = {
            name: confidence
            for name, confidence in confidences.items()
            if name not in dropped and name not in constant
        }
        purpose = self.purpose
        if purpose == "one file" and len(ranking) > 1:
            purpose = "several confidences"
        log = Log(
            path=str(self.source.path),
            tool=self.source.facts.tool,
            loss=loss,
            answered=answered,
            signals=ranking,
            loss_name=losses.name,
            rules=self.rules.settled(purpose, losses.name),
            absent=tuple(absent) if is_stated else (),
            **self.optional_log_columns(),
        )
        log = replace(log, column_of_role=self.describe_columns(log.signals))
        return replace(log, notes=(*notes, *_describe_counts(log)))

    def note_results_inside(self, loss: np.ndarray) -> list[str]:
        """Return a sentence on verdicts of objects inside records without one, such as the tests of a suite of tests.

        Fields of objects inside a record are columns whose names end with that of the verdict: `tests.a.success` beside
        `success`. `loss` is NaN in rows without a verdict. No sentence for the log of a harness. `self.roles` maps each
        role to its columns ("correct": the verdict), `self.source` is the opened file. The result holds one sentence or
        none.
        """
        is_unscored = np.isnan(loss)
        if self.source.is_harness_log or "correct" not in self.roles or not is_unscored.any():
            return []
        verdict = self.roles["correct"].names[0]
        inner_columns = [name for name in self.source.columns if name.endswith(f".{verdict}")]
        result_count = 0
        for name in inner_columns:
            with suppress(AbstainError):  # objects, or a mixture of texts and numbers
                is_present = has_value(self.source.columns[name].load())
                # A column of another length, as after a selection of rows, does not count.
                result_count += int(is_present.sum()) if len(is_present) == len(is_unscored) else 0
        if not result_count:
            return []
        return [
            f"{count_noun(result_count, 'further result')} {is_or_are(result_count)} in objects inside the records "
            f"(`{display_name(inner_columns[0])}`{' and others' if len(inner_columns) > 1 else ''}) and not read: give "
            f"each a record of its own."
        ]

    def optional_log_columns(self) -> dict[str, Any]:
        """Return the optional columns of a `Log` by field name; None for a column that the file does not have.

        Tasks become the groups where there are several tasks and no column of groups. Epochs that are words become the
        numbers of the distinct words, since epochs only tell repeats apart; clusters that are words become an array of
        texts. DataError where weights or costs are words, or a cluster is missing. `values_by_role` maps roles
        ("labels", ...) to loaded columns.
        """
        names = ("question", "task", "groups", "labels", "prediction", "epoch", "clusters")
        columns: dict[str, Any] = {name: self.values_by_role.get(name) for name in names}
        if isinstance(columns["epoch"], TextValues):
            columns["epoch"] = columns["epoch"].code_of_row  # a number for each distinct word
        if columns["clusters"] is not None:
            self.refuse_missing_clusters()  # raises DataError
        if isinstance(columns["clusters"], TextValues):
            columns["clusters"] = columns["clusters"].texts()
        for name in ("sample_weight", "cost"):
            is_present = name in self.values_by_role
            columns[name] = self.require_numbers(name).reshape(-1) if is_present else None
        columns["unanswerable"] = self.find_unanswerable()  # a mask, or None
        task = columns["task"]
        # `columns` is a new dictionary: `self.values_by_role` keeps its groups.
        if task is not None and columns["groups"] is None and _count_distinct(task) > 1:
            columns["groups"] = task
        return columns

    def check_scales(self, confidence_names: Iterable[str]) -> None:
        """Raise DataError for a scale of a column that is no confidence here, and for `--outside` without a scale."""
        for name in self.rules.scale:
            if name and name not in confidence_names:
                listed = ", ".join(map(display_name, confidence_names)) or "none"
                raise self.error(
                    f"--scale names `{display_name(name)}`, which is not one of the confidences: {listed}."
                )
        if self.rules.outside is not None and not self.rules.scale:
            raise self.error("--outside needs --scale, which says the range of the stated numbers.")

    def grade_answers(self) -> NamedLosses:
        """Return one loss per row, and what the losses are: "zero_one", "partial_credit" or "loss".

        They come from the first that applies: the words of `rules.grades`, a numeric column of correctness between 0
        and 1 (partial credit where some are neither), or columns of correct, error, loss, or labels and predictions.
        NaN where an answer was not scored, or where its grade means that there is no answer.

        UncertainError where nothing says right or wrong, DataError where values are invalid or contradict each other.
        """
        if self.rules.grades:
            return NamedLosses(self.grade_by_words(), name="zero_one")  # 0 right, 1 wrong
        correct = self.values_by_role.get("correct")  # the loaded column of this role
        is_log = self.source.is_harness_log  # written by an evaluation harness
        if is_log and correct is None and "labels" not in self.values_by_role:
            raise UncertainError(_explain_missing_score(self.source), self.source)
        if is_log and isinstance(correct, np.ndarray):
            # The score of a harness counts even where it contradicts labels and predictions.
            self.refuse_empty_correctness(correct)
            return self.read_correctness()  # from the column of correctness alone
        return self.find_losses()  # raises DataError where columns contradict each other

    def refuse_empty_correctness(self, correct: np.ndarray) -> None:
        """Raise DataError where the user named a column of a log that has no number in any row, such as one of lists.

        `correct` holds the numbers of the role "correct", NaN where there is none. `stated_roles` are the roles whose
        columns the user named, and `roles` the names of these columns.
        """
        if "correct" not in self.stated_roles or not np.isnan(correct).all():
            return
        name = str(self.roles["correct"])
        # what the log says of a column, in words, by its name; most columns have none
        descriptions = self.source.facts.descriptions
        content = f" ({descriptions[name]})" if name in descriptions else ""
        raise self.error(
            f"no answer was scored: `{display_name(name)}` has no number in any row{content}. Name another column with "
            f"-c correct=NAME."
        )

    def grade_by_words(self) -> np.ndarray:
        """Return the loss of each row from the words of the column of correctness: 0 right, 1 wrong, NaN no answer.

        `rules.grades` maps each word (or number, as text) to "right", "wrong" or "unanswered". An empty cell is no
        verdict (NaN as well), unless `rules.grades` say what the empty text means. DataError where there is no such
        column, or where it holds a word that `rules.grades` lack.
        """
        words, meanings = self.require_grades()
        for word, meaning in zip(words.distinct_texts, meanings):  # meanings are "right", ..., "" for unknown
            if word and not meaning:  # an empty cell needs no meaning
                raise self.error(
                    f"--grades does not say what {display_name(word)!r} means. Say right, wrong or unanswered."
                )
        # `LOSS_OF_GRADE`: "right" 0, "wrong" 1, "unanswered" NaN
        loss_of_word = [LOSS_OF_GRADE.get(meaning, np.nan) for meaning in meanings]
        return np.array(loss_of_word)[words.code_of_row]

    def find_graded_unanswered(self) -> np.ndarray:
        """Return for each row whether its grade means "unanswered" by `rules.grades`."""
        words, meanings = self.require_grades()
        return np.array([meaning == "unanswered" for meaning in meanings], bool)[words.code_of_row]

    def require_grades(self) -> tuple[TextValues, list[str]]:
        """Return the column of correctness as words, and what each distinct word means by `rules.grades` ("" unknown).

        The meanings are "right", "wrong" and "unanswered", the values of `rules.grades`; DataError where the file has
        no column of correctness. In a column of numbers, a number is written without needless decimals, so that 2, 2.0
        and the user's grade "2.0" are one; NaN is an empty text. In a column of texts, a cell must be written as the
        grade is. `values_by_role` maps roles ("labels", ...) to loaded columns.
        """
        column = self.values_by_role.get("correct")
        if column is None:
            raise self.error("--grades needs a column of grades. Name it with -c correct=NAME.")
        grades = dict(self.rules.grades)  # word or number as the user wrote it -> meaning
        if isinstance(column, TextValues):
            words = column
        else:  # grades that are numbers: 1 for right, 2 for wrong; NaN is an empty cell
            texts = as_texts(np.asarray(column, np.float64)).tolist()
            words = TextValues.of("" if text == "nan" else text for text in texts)
            for word, meaning in self.rules.grades.items():
                if is_number(word):
                    # of a float, `text_or_none` is always a text: "2" of 2.0
                    grades[str(text_or_none(float(word)))] = meaning
        return words, [grades.get(word, "") for word in words.distinct_texts]

    def find_answered(self, is_candidate: np.ndarray) -> np.ndarray:
        """Return for each row whether it is a candidate and has an answer.

        A row has no answer where its prediction is empty or one of `rules.refusals` (texts such as "I don't know"), the
        column `answered` says no, or the column `abstained` says yes; columns that the file lacks do not count
        (`values_by_role` holds the loaded columns). DataError where there are refusals and no predictions.
        `is_candidate` is a mask of rows and is not changed.
        """
        answered = is_candidate
        if self.rules.refusals:
            answered = answered & ~find_refusals(self.require_replies(), self.rules.refusals)
        if "prediction" in self.values_by_role:
            answered = answered & has_value(self.values_by_role["prediction"])
        if "answered" in self.values_by_role:
            answered = answered & _says_yes(self.values_by_role["answered"])
        if "abstained" in self.values_by_role:
            answered = answered & ~_says_yes(self.values_by_role["abstained"])
        return answered

    def require_replies(self) -> Values:
        """Return the texts in which refusals are looked for: the predictions, or the answers of a log."""
        replies = self.values_by_role.get("prediction", self.replies)
        if replies is None:
            raise self.error("--refusals needs a column of predictions. Name it with -c prediction=NAME.")
        return replies

    def note_refusals(self) -> list[str]:
        """Return a sentence that counts the predictions that are refusals by their words; [] without `refusals`."""
        if not self.rules.refusals:
            return []
        replies = self.require_replies()
        counts = {text: int(find_refusals(replies, [text]).sum()) for text in self.rules.refusals}
        listed = ", ".join(f"{display_name(text)} {count:,}" for text, count in counts.items())
        return [f"predictions that are refusals by their words: {listed}."]

    def note_free_text(self, loss: np.ndarray) -> list[str]:
        """Return a sentence where right and given answers are free text, and almost none is equal; otherwise [].

        Equality then says little of which answers are right; "almost none" is below 5% (`is_seldom`). `loss` is 0 where
        the two are equal, 1 where they differ, NaN where there is no right answer. Nothing is said where another column
        says right or wrong. FreeTextError (a DataError) where most of the given answers are sentences and the user
        named neither column: their names alone do not say that the two are meant to be compared word by word.
        `values_by_role` maps roles ("labels", ...) to loaded columns, `roles` to their names.
        """
        labels = self.values_by_role.get("labels")
        prediction = self.values_by_role.get("prediction")
        if any(role in self.values_by_role for role in ("correct", "error", "loss")):
            return []
        if not isinstance(labels, TextValues) or not isinstance(prediction, TextValues):
            return []
        if not is_free_text(prediction):
            return []
        is_compared = ~np.isnan(loss) & has_value(prediction)
        # without any comparison there is nothing to warn of, so that the share counts as 1
        right_share = 1 - float(loss[is_compared].mean()) if is_compared.any() else 1.0
        if not is_seldom(right_share):
            return []
        name_by_role = {
            role: display_name(self.roles[role]) for role in ("prediction", "labels") if role in self.roles
        }
        sentence = (
            f"{' and '.join(f'`{name}`' for name in name_by_role.values())} are equal in {right_share:.1%} of the "
            f"answers. Free text is seldom equal word by word: name a judge's verdict with -c correct=NAME, or compare "
            f"answers that were extracted."
        )
        # right answers of a second file (--labels) have no column here, and were named by the user, too
        are_named_by_user = len(name_by_role) < 2 or bool(self.stated_roles & name_by_role.keys())
        if self.source.is_harness_log or are_named_by_user or not are_sentences(prediction):
            return [sentence]
        options = " ".join(f"-c {role}={shlex.quote(name)}" for role, name in name_by_role.items())
        raise FreeTextError(
            f"{display_name(self.source.path)}: {sentence} To compare them all the same, name them: {options}"
        )

    def convert_confidence(
        self, name: str, values: Values | None, *, min_rows_to_judge: int = 1
    ) -> np.ndarray:
        """Return one confidence per row as float64, NaN where it is missing.

        `name` is the confidence's name and `values` its column; None for the agreement of repeated answers, which is
        computed here. `rules.scale` maps names of confidences ("" for all) to the scale on which the model stated them:
        "percent", "fraction" or "mixed". Percentages become fractions of 1. Numbers outside the scale become NaN where
        `rules.outside` is "missing", and otherwise raise DataError. So do at least `min_rows_to_judge` percentages none
        of which exceeds 1, which are fractions, and text. Without a scale, numbers stay as they are.
        Minus infinity stays: whatever reads a confidence takes a number that is not finite as missing, and ranks it
        last. Plus infinity would be the largest confidence, and raises DataError.
        """
        if values is None:
            return self.compute_agreement()
        if isinstance(values, TextValues):
            texts = [text for text in values.distinct_texts if text]  # each different text once
            if not texts:  # all cells are empty
                return np.full(len(values), np.nan)
            # numbers, with NaN for marks such as N/A; None where another text is among them
            numbers_or_none = numbers_with_missing_marks_or_none(values, self.source.format)
            if numbers_or_none is None:
                # Where all texts are numbers, quotes made them text, and any of them is an example.
                texts.sort(key=is_missing_mark)  # marks last: another word tells more
                invalid_text = next((text for text in texts if not is_number(text)), texts[0])
                raise self.error(
                    f"the confidence `{display_name(name)}` must be numbers, got {display_name(invalid_text)!r}. "
                    f"{HOW_TO_WRITE_NUMBERS}"
                )
            values = numbers_or_none
        numbers = np.asarray(values, np.float64).reshape(-1)
        infinite_count = int(np.isposinf(numbers).sum())
        if infinite_count:
            raise self.error(
                f"the confidence `{display_name(name)}` must be finite, got infinity in "
                f"{count_noun(infinite_count, 'row')}. Leave the cell empty where there is no confidence."
            )
        scale_name = self.rules.scale.get(name, self.rules.scale.get(""))  # of this confidence, or of all
        if scale_name is None:
            return numbers
        scale = SCALES[scale_name]  # from 0 to `scale.highest`
        is_outside = np.isfinite(numbers) & ~((numbers >= 0) & (numbers <= scale.highest))
        if is_outside.any() and self.rules.outside != "missing":
            example = _farthest_from_zero(numbers[is_outside])
            raise self.error(
                f"{is_outside.sum():,} of {np.isfinite(numbers).sum():,} values of `{display_name(name)}` lie outside "
                f"0 to {scale.highest:g} (such as {example:g}), so the column is not a stated {scale_name}. "
                f"Count them as missing with --outside missing, state another --scale, or leave it out to rank the "
                f"column as it is."
            )
        if scale_name == "percent":
            # a sentence where the numbers seem to be fractions; otherwise ""
            problem = find_fractions(name, numbers[~is_outside], min_rows_to_judge=min_rows_to_judge)
            if problem:
                raise self.error(f"{problem} State --scale fraction.")
        # Numbers above `percent_above` are percentages: all of a percent scale, none of a fraction scale.
        fractions = np.where(numbers > scale.percent_above, numbers / 100, numbers)
        return np.where(is_outside, np.nan, fractions)

    def compute_agreement(self) -> np.ndarray:
        """Return for each row the share of the answers to its question that equal its own; NaN for an empty answer.

        UncertainError where the file has no column of questions or of predictions.
        """
        if "question" not in self.values_by_role or "prediction" not in self.values_by_role:
            raise UncertainError("agreement needs -c question=NAME and -c prediction=NAME.", self.source)
        questions = as_texts(self.values_by_role["question"]).tolist()
        predictions = as_texts(self.values_by_role["prediction"]).tolist()
        answers = [prediction or None for prediction in predictions]
        return np.array(agreement(questions, answers), dtype=np.float64)

    def describe_columns(self, confidence_names: Iterable[str]) -> dict[str, str]:
        """Return for each role, in words, the column that was taken for it or the default that applies.

        A summary of the log lists them. `confidence_names` are those of the log. The column of correctness is followed
        by the other columns that could have been used. A column that the log explains is followed by that explanation.
        `roles` maps each role to its columns, `rules` say how answers count, and `source.facts` is what a harness's log
        says of its columns (nothing for a plain table).
        """
        facts = self.source.facts
        column_of_role = {}  # role -> words for people
        for role, columns in self.roles.items():
            name = str(columns)  # the names of the columns with commas; often there is one
            column_of_role[role] = (
                f"{name} ({facts.descriptions[name]})" if name in facts.descriptions else name
            )
        column_of_role["confidence"] = ", ".join(map(display_name, confidence_names)) or "none"
        grade_column = str(self.roles["correct"]) if "correct" in self.roles else ""
        other_correctness_columns = [
            name for name in facts.possible_correctness_columns if name != grade_column
        ]
        if other_correctness_columns and "correct" in column_of_role:
            column_of_role["correct"] += f" (others: {list_names(other_correctness_columns)})"
        if self.rules.grades:
            answered = "by the grade"
        elif self.rules.refusals:
            answered = "wherever the prediction is neither empty nor a refusal"
        elif "prediction" in self.roles:
            answered = "wherever the prediction is not empty"
        # `Predictions.tells_unanswered` looks for this constant, "every row"
        else:
            answered = EVERY_ROW
        # Defaults for roles that no column has; others keep what is said above.
        column_of_role.setdefault("answered", answered)
        column_of_role.setdefault("question", "every row counts as another one")
        column_of_role.setdefault("epoch", "none")
        column_of_role.setdefault("task", display_name(facts.task or "one"))
        return column_of_role


def find_refusals(values: Values, refusals: Sequence[str]) -> np.ndarray:
    """Return for each row whether its text is one of `refusals`, in which * stands for any text.

    Case, blanks and the marks . ! " ' at the ends do not count. `refusals` holds at least one text.

    >>> find_refusals(TextValues.of(["IDK.", "A", "I don't  know that"]), ["idk", "I don't know*"]).tolist()
    [True, False, True]
    """
    words = values if isinstance(values, TextValues) else TextValues.of(as_texts(values).tolist())
    # Each different text is matched once; `code_of_row` is the number of a row's text among them.
    # `_plain_text` makes lower case and removes what does not count; `re.escape` has turned * into \*
    patterns = [re.escape(_plain_text(refusal)).replace(r"\*", ".*") for refusal in refusals]
    pattern = re.compile("|".join(patterns))
    is_refusal = [pattern.fullmatch(_plain_text(text)) is not None for text in words.distinct_texts]
    return np.array(is_refusal, bool)[words.code_of_row]


def _plain_text(text: str) -> str:
    """Return a text in lower case, with single blanks, and without marks at its ends."""
    return " ".join(text.split()).casefold().strip(" .!\"'")


def _farthest_from_zero(numbers: np.ndarray) -> float:
    """Return the number farthest from 0."""
    return float(numbers[np.abs(numbers).argmax()])


def _is_constant(confidence: np.ndarray) -> bool:
    """Return whether all finite values are equal; False where there are none."""
    finite = confidence[np.isfinite(confidence)]
    return bool(finite.size) and bool(finite.min() == finite.max())


def _count_distinct(values: Values) -> int:
    """Return the number of distinct values."""
    return len(np.unique(values.code_of_row if isinstance(values, TextValues) else values))


def _explain_missing_score(source: OpenedTable) -> str:
    """Return the message for a harness's log of which no column was chosen to say which answers are right.

    It lists the scores that could say so, or the words of a column that grades by words, and the option to state.
    `source` is the opened file: its columns by name, with their types. `source.facts` is what the log says of its
    columns; `word_grade_columns` are those that grade answers by words whose meaning the user has to state.
    """
    facts = source.facts
    if facts.possible_correctness_columns:
        return (
            f"several scores could say right or wrong: {list_names(facts.possible_correctness_columns)}. State one: "
            f"-c correct={display_name(facts.possible_correctness_columns[0])}"
        )
    if facts.word_grade_columns:
        grade_column = facts.word_grade_columns[0]
        words = as_texts(source.columns[grade_column].load()).tolist()
        return explain_grades(grade_column, words)
    return (
        "holds nothing from 0 to 1 that says right or wrong. State right answers with --labels FILE, or a column with "
        f"-c correct=NAME; it has {source.list_columns()}."
    )


def _describe_counts(log: Log) -> list[str]:
    """Return a sentence for each way in which rows of the log count specially, and the option that changes it.

    These are rows without a score, without an answer, without one of the confidences, and repeats of a question. No
    sentence where there are no such rows. `log.scored` and `log.answered` are masks of rows, and `log.signals` are the
    confidences by name. `log.rules` must have no open choices (`Rules.settled`).
    """
    notes = []
    unscored_count = int((~log.scored).sum())
    if unscored_count:
        lacking = "score"
        if "labels" in log.column_of_role and "correct" not in log.column_of_role:
            lacking = f"label (`{log.column_of_role['labels']}`)"
        remedy = ""
        if log.rules.grades:  # then these are rows with an empty grade
            remedy = " (--grades =unanswered if an empty grade says that there is no answer)"
        notes.append(
            f"{unscored_count:,} of {count_noun(log.n, 'answer')} {has_or_have(unscored_count)} no {lacking} and "
            f"{is_or_are(unscored_count)} left out{remedy}."
        )
    unanswered_count = int((~log.answered).sum())
    row_word = "question" if log.questions == log.n else "row"  # a question may have several rows
    if unanswered_count:
        if log.rules.unanswered == "abstained":
            meaning = "abstentions: never accepted, kept in the coverage"
            other_rule = "wrong"
        else:
            meaning = "wrong, ranked last"
            other_rule = "abstained"
        notes.append(
            f"{unanswered_count:,} of {count_noun(log.n, row_word)} ({unanswered_count / log.n:.1%}) "
            f"{has_or_have(unanswered_count)} no answer and {is_or_are(unanswered_count)} taken as {meaning} "
            f"(--unanswered {other_rule} for the other way)."
        )
    scored_answers = log.answered & log.scored
    for name, signal in log.signals.items():
        is_missing = ~np.isfinite(signal) & scored_answers
        count = int(is_missing.sum())
        if count:
            treatment = "left out (--missing last ranks them last)"
            if log.rules.missing == "last":
                treatment = "ranked last by it (--missing left_out leaves them out)"
            notes.append(
                f"{count_noun(count, 'answer')} {has_or_have(count)} no `{display_name(name)}` and {is_or_are(count)} "
                f"{treatment}{_describe_difference(log, is_missing, scored_answers & ~is_missing)}."
            )
    if log.rules.missing == "left_out" and log.rules.unanswered == "abstained" and unanswered_count:
        # a share of the scored answers; those that lack a confidence are left out
        left_out_count = round(log.share_without_confidence * scored_answers.sum())
        read_count = int(log.scored.sum()) - left_out_count
        if left_out_count:
            notes.append(
                f"Coverages are shares of the {read_count:,} rows that are left, of which "
                f"{unanswered_count / read_count:.1%} are abstentions: left-out answers are in no coverage, and "
                f"unanswered questions are in all (--missing last keeps every question)."
            )
    task_count = 0 if log.task is None else _count_distinct(log.task)
    if task_count > 1:
        notes.append(
            f"{task_count:,} tasks are one sample: every row counts once, so that long tasks weigh more."
        )
    if log.find_clusters() is not None and log.question is not None:
        # `log.questions` is the number of different questions
        notes.append(
            f"{count_noun(log.questions, 'question')} in {count_noun(log.n, 'row')}: repeats of one question are a "
            f"cluster."
        )
    return notes


def _describe_difference(log: Log, without: np.ndarray, others: np.ndarray) -> str:
    """How right the answers without a confidence are and how right the others are, after a colon.

    `without` and `others` are masks of scored answers. Empty for losses other than right and wrong, and where all
    answers are without a confidence.
    """
    if not log.is_graded or not others.any():
        return ""
    shares = [1 - float(log.losses_with_unanswered_wrong(rows).mean()) for rows in (without, others)]
    return f": {shares[0]:.1%} of them are right, of the others {shares[1]:.1%}"
