"""Several files of predictions put in one order of samples, so that models can be compared sample by sample."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abstain._tables import is_number
from abstain.errors import AbstainWarning, DataError
from abstain.formats.arrow import read_batches
from abstain.formats.columns import as_array, has_value, text_or_none
from abstain.formats.predictions import Predictions
from abstain.formats.readers import read_column_names
from abstain.formats.roles import RoleColumns
from abstain.formats.safety import count_noun, display_name, file_error
from abstain.formats.table_files import find_files, table_format

PAIRED_BY_POSITION = "No file has ids: rows are paired by position."
_UNPAIRED_REMEDY = "Different test sets can be compared with `abstain compare --unpaired`."
_LAST_REMEDY = "Every row must be in every file: rank such answers last instead, with --missing last."
_BATCH_ROW_COUNT = 1 << 16  # ids that are compared at a time
# Argument of `compare` -> makes the column of n samples for a model that has none.
_MAKE_DEFAULT_COLUMN: dict[str, Callable[[int], np.ndarray]] = {
    "sample_weight": np.ones,
    "clusters": np.arange,
    "abstained": lambda n: np.zeros(n, bool),
    "has_confidence": lambda n: np.ones(n, bool),
}


def comparison_arguments(models: Sequence[Predictions], *, paired: bool = True) -> dict[str, Any]:
    """Return weights, clusters and abstentions of models as `compare` takes them: argument -> {model name: array}.

    The arguments are "sample_weight", "clusters", "abstained" and "has_confidence". One is left out where no model has
    it. Where only some models have it, the others get weights of one, a mask without abstentions, or one in which all
    have a confidence of their own. They get the clusters of the first model that has some if the models are `paired`,
    on the same samples in the same order, and otherwise a cluster per row. Models must have different names.

    DataError where only some of `paired` models have weights.
    """
    arguments: dict[str, Any] = {}
    # by argument: a function of the number of rows that makes ones, a cluster per row, or a mask without abstentions
    for argument, make_default_column in _MAKE_DEFAULT_COLUMN.items():
        if argument == "has_confidence":
            column_of_model = {model.name: model.has_own_confidence() for model in models}
        else:  # `Predictions` has attributes of the same names; None where the file has no such column
            column_of_model = {model.name: getattr(model, argument) for model in models}
        owners = [name for name, column in column_of_model.items() if column is not None]
        if not owners:
            continue
        for model in models:
            if column_of_model[model.name] is not None:
                continue
            # Weights of one would contradict the weights that another model gives to the same samples.
            if paired and argument == "sample_weight":
                raise missing_weights_error(owners[0], model.name)
            if paired and argument == "clusters":  # the same samples are in the same clusters
                column_of_model[model.name] = column_of_model[owners[0]]
            else:
                column_of_model[model.name] = make_default_column(model.n)
        arguments[argument] = column_of_model
    return arguments


def missing_weights_error(owner: str, lacking: str) -> DataError:
    """Return the error for the names of two models on the same samples of which only the first has weights."""
    return DataError(
        f"{display_name(owner)} has weights and {display_name(lacking)} has none, but the same samples must have the "
        f"same weights: add the column to {display_name(lacking)} (-c sample_weight=NAME says what it is called), or "
        f"remove it from {display_name(owner)}."
    )


class OtherSamplesError(DataError):
    """Files that hold different samples, so that their rows cannot be paired.

    Examples
    --------
    >>> raise OtherSamplesError("a and b are not the same samples in the same order: they have no id in common.")
    Traceback (most recent call last):
    ...
    abstain.formats.alignment.OtherSamplesError: a and b are not the same samples in the same order: ...
    """


def align_models(models: Sequence[Predictions]) -> list[Predictions]:
    """Return the models with the same samples in the same order: matched by id, or by position where no file has ids.

    The models come in the order given. Where they have ids, rows are put in the order of the first model's rows, with a
    warning where that moves rows, and one where an id has another label in another model. Without ids rows stay where
    they are; a warning says so where no column of labels, groups or clusters confirms that rows correspond.

    DataError where only some models have ids, or where an id is repeated, empty or missing in one of the files.
    OtherSamplesError (a DataError) where they have no id in common or, without ids, differ in length, labels, groups
    or clusters.
    """
    if len(models) < 2:
        return list(models)
    ids_of_models = [sample_ids(model) for model in models]  # None for a model without ids
    without_ids = [model for model, ids in zip(models, ids_of_models) if ids is None]
    if not without_ids:
        return _match_by_id(models, [ids for ids in ids_of_models if ids is not None])
    if len(without_ids) < len(models):
        with_ids = [model for model, ids in zip(models, ids_of_models) if ids is not None]
        raise DataError(
            f"{display_name(without_ids[0].name)} has no ids and {display_name(with_ids[0].name)} has: rows are "
            f"matched by id in all files or in none. Name the column with -c ids=NAME, or remove the ids from the "
            f"other files."
        )
    return _match_by_position(models)


def _match_by_id(models: Sequence[Predictions], ids_of_models: Sequence[list[str]]) -> list[Predictions]:
    """Return the models in their order, each with its rows in the order of the first model's.

    A warning says where that moves rows, and another where an id has different labels in two models. `ids_of_models`
    holds the ids of each model, one per row and all different. OtherSamplesError where a model has no id in common with
    the first, DataError where some ids are in only one of the two.
    """
    first_model = models[0]
    row_of_id = {sample_id: row for row, sample_id in enumerate(ids_of_models[0])}  # rows of the first model
    matched = [first_model]
    for model, ids in zip(models[1:], ids_of_models[1:]):
        if row_of_id.keys().isdisjoint(ids):
            reason = f"they have no id in common (such as {display_name(ids[0])!r})"
            raise _other_samples_error(first_model, model, reason)
        _check_same_id_set(first_model, row_of_id, model, ids)
        # After this check both models have the same set of ids, each id once.
        # order[i]: the row of this model that has the id of row i of the first model
        order = np.argsort([row_of_id[sample_id] for sample_id in ids])
        moves_rows = (np.diff(order) < 0).any()
        if moves_rows:
            message = f"{display_name(model.name)} was put in the order of {display_name(first_model.name)} by its ids."
            warnings.warn(message, AbstainWarning, stacklevel=3)  # points to the caller of `align_models`
        reordered_model = model.rows(order)
        matched.append(reordered_model)
        problem = _find_other_labels(first_model, reordered_model, ids_of_models[0])
        if problem:
            warnings.warn(problem, AbstainWarning, stacklevel=3)
    return matched


def _find_other_labels(first: Predictions, second: Predictions, ids: Sequence[str]) -> str:
    """Return a sentence on samples to which two models give other labels; "" where there are none.

    The models hold the same samples in the same order, and `ids` are those of the samples. Labels of which one model
    has numbers and the other words are not compared.
    """
    # A model has its labels as class numbers (`labels`) or as texts (`label_words`); the other attribute may be None.
    for attribute in ("labels", "label_words"):
        columns = [getattr(model, attribute) for model in (first, second)]
        if any(column is None for column in columns):
            continue
        first_labels, second_labels = map(as_array, columns)
        if first_labels.shape != second_labels.shape or first_labels.ndim != 1:  # such as one-hot rows
            continue
        have_both_labels = has_value(columns[0]) & has_value(columns[1])  # a mask of rows
        rows = np.flatnonzero((first_labels != second_labels) & have_both_labels)
        if len(rows):
            # the first difference is the example in the sentence
            labels = [display_name(values[rows[0]]) for values in (first_labels, second_labels)]
            return (
                f"{display_name(first.name)} and {display_name(second.name)} have different labels for "
                f"{len(rows):,} of {count_noun(len(ids), 'id')}, first {display_name(ids[rows[0]])!r} ({labels[0]} and "
                f"{labels[1]}): check that these are the same samples."
            )
    return ""


def _check_same_id_set(
    first: Predictions, row_of_id: Mapping[str, int], second: Predictions, second_ids: Sequence[str]
) -> None:
    """Raise DataError for the first id that only one of two models has; the keys of `row_of_id` are the first's ids."""
    second_id_set = set(second_ids)
    for sample_id in row_of_id:
        if sample_id not in second_id_set:
            raise _missing_id_error(sample_id, first, second)
    for sample_id in second_ids:
        if sample_id not in row_of_id:
            raise _missing_id_error(sample_id, second, first)


def _leaves_rows_out(model: Predictions) -> bool:
    """Return whether answers without a confidence were left out of this model, by the rule for them."""
    log = model.log  # None for a plain table and for class scores
    return log is not None and log.rules.missing == "left_out" and log.share_without_confidence > 0


def _missing_id_error(sample_id: str, owner: Predictions, lacking: Predictions) -> DataError:
    """Return the error for an id that one model (`owner`) has and another (`lacking`) has not.

    Where the other file has the id in a row without a confidence, which the rule "left_out" for missing confidences
    removed, the message advises to rank such answers last; otherwise it advises an unpaired comparison.
    """
    if _leaves_rows_out(lacking):
        ids_of_log = lacking.log.row_ids() if lacking.log is not None else None  # of all rows of the file
        if ids_of_log is not None and sample_id in ids_of_log.as_texts().tolist():
            return DataError(
                f"{display_name(lacking.name)} has no confidence for id {display_name(sample_id)!r}, so that "
                f"--missing left_out leaves the row out, and {display_name(owner.name)} has it. {_LAST_REMEDY}"
            )
    return DataError(
        f"{display_name(owner.name)} has id {display_name(sample_id)!r} and {display_name(lacking.name)} has not: "
        f"every id must be in every file. {_UNPAIRED_REMEDY}"
    )


def _match_by_position(models: Sequence[Predictions]) -> list[Predictions]:
    """Return the models unchanged, for files without ids.

    OtherSamplesError where their lengths, labels, groups, clusters or unanswerable questions differ; a warning where
    no such column is in all models, so that nothing confirms that the rows are the same samples.
    """
    first_model = models[0]
    for model in models[1:]:
        if model.n != first_model.n:  # `n` is the number of rows
            reason = f"they have {first_model.n:,} and {model.n:,} rows and no ids"
            # whether the rule "left_out" removed answers without a confidence from one of them
            if _leaves_rows_out(first_model) or _leaves_rows_out(model):
                raise OtherSamplesError(
                    f"{display_name(first_model.name)} and {display_name(model.name)} do not have the same rows left: "
                    f"{reason}, once --missing left_out has removed answers without a confidence. {_LAST_REMEDY}"
                )
            raise _other_samples_error(first_model, model, reason)
    # the name of a column that all models have and that is equal in all; None where there is none
    confirming_column = check_shared_columns_equal(models)
    if confirming_column is None:
        message = (
            "Nothing in the files says that their rows are the same samples in the same order: they have no ids, so "
            "rows are paired by position. Add a column `id` to match them."
        )
        # names the line that called `align_models`
        warnings.warn(message, AbstainWarning, stacklevel=3)
    return list(models)


def check_shared_columns_equal(models: Sequence[Predictions]) -> str | None:
    """Check that the columns that describe samples, and not answers, are equal row by row in all models that have them.

    They are labels, groups, clusters and which questions are unanswerable. Returns the first in this order ("labels",
    "groups", "clusters", "unanswerable") that every model has, which confirms that their rows are the same samples;
    None where no column is in every model. OtherSamplesError where such a column differs between two models. Models
    must have the same number of rows.
    """
    confirming_column = None
    # A model has its labels as class numbers (`labels`) or as texts (`label_words`); an attribute may be None.
    for attribute in ("labels", "label_words", "groups", "clusters", "unanswerable"):
        title = "labels" if attribute == "label_words" else attribute
        models_with_column = [model for model in models if getattr(model, attribute) is not None]
        columns = [as_array(getattr(model, attribute)) for model in models_with_column]
        for model, column in zip(models_with_column[1:], columns[1:]):
            # a number that is missing in both, NaN, is no difference; texts have none
            are_floats = column.dtype.kind == columns[0].dtype.kind == "f"
            if not np.array_equal(column, columns[0], equal_nan=are_floats):
                raise _other_samples_error(models_with_column[0], model, f"they have different {title}")
        if len(columns) == len(models) and confirming_column is None:
            confirming_column = title
    return confirming_column


def _other_samples_error(first: Predictions, second: Predictions, reason: str) -> OtherSamplesError:
    """Return the error for two models whose rows cannot be paired."""
    return OtherSamplesError(
        f"{display_name(first.name)} and {display_name(second.name)} are not the same samples in the same order: "
        f"{reason}. {_UNPAIRED_REMEDY}"
    )


def sample_ids(model: Predictions) -> list[str] | None:
    """Return one id per sample as text, all different; None where the file has no ids.

    DataError where an id is empty or NaN, or occurs in several rows, or where there is not one id for each sample.
    """
    if model.ids is None:
        return None
    ids = model.ids.as_texts().tolist()  # `model.ids` is a column that is read from the file only here
    if len(ids) != model.n:
        raise file_error(
            model.path, f"the ids must have {model.n:,} rows like the other columns, got {len(ids):,}."
        )
    for row, sample_id in enumerate(ids, start=1):  # messages count rows from 1
        if sample_id in ("", "nan"):  # a missing number becomes the text "nan"
            raise file_error(
                model.path, f"row {row:,} has no id, so rows cannot be matched by id. Fill it in."
            )
    if len(set(ids)) < len(ids):
        repeated_id, count = Counter(ids).most_common(1)[0]
        raise file_error(
            model.path,
            f"id {display_name(repeated_id)!r} is in {count:,} rows, so rows cannot be matched by id. Number the "
            f"repeats in a column and name it (-c epoch=NAME), keep one of each (--only NAME=VALUE), or name another "
            f"column (-c ids=NAME).",
        )
    return ids


def check_same_ids(first_path: str | Path, second_path: str | Path, stated: Mapping[str, str]) -> bool:
    """Check that two large tables have the same ids row by row, without loading either table whole.

    Parameters
    ----------
    first_path, second_path : str or Path
        Each a file, a folder or a glob of parquet, arrow or csv files. The first file has the columns of all.
    stated : mapping
        Role -> column name, where the user named columns: {"ids": "case"}.

    Returns
    -------
    bool
        True where the ids agree, False where neither table has ids.

    Raises
    ------
    DataError
        Only one table has ids, ids differ, or one table is longer.
    """
    first_files = find_files("compare", first_path)  # "compare" is the command that its messages name
    second_files = find_files("compare", second_path)
    # The name of the column of ids or, where there is none, of questions; None without either. One table may have ids
    # and the other questions: only the values count.
    first_column = _find_id_column(read_column_names(first_files[0]).find_roles(stated))
    second_column = _find_id_column(read_column_names(second_files[0]).find_roles(stated))
    if first_column is None and second_column is None:
        return False
    if first_column is None or second_column is None:
        lacking_path = first_path if first_column is None else second_path
        raise file_error(
            lacking_path, "has no ids, but the other table has. Name the column with -c ids=NAME."
        )
    row_count = 0  # rows of both tables that were compared and agree
    batches = _pair_batches(
        read_text_batches(first_files, first_column), read_text_batches(second_files, second_column)
    )
    for first_ids, second_ids in batches:
        # Only in the last pair, where one table is longer; then all rows of the shorter table are in `row_count`.
        if len(first_ids) != len(second_ids):
            raise DataError(
                f"{display_name(first_path)} and {display_name(second_path)} must have the same number of rows: one "
                f"ends at row {row_count:,}."
            )
        # The first difference. Rows are matched by id only in memory, which is what `abstain compare` does by default.
        difference = next(_differing_rows(first_ids, second_ids, row_count), None)
        if difference is not None:
            row, first_id, second_id = difference  # rows are counted from 1
            raise DataError(
                f"row {row:,} has id {display_name(first_id)!r} in {display_name(first_path)} and "
                f"{display_name(second_id)!r} in {display_name(second_path)}: an engine pairs rows by position. "
                f"Sort both by id, or compare them in memory."
            )
        row_count += len(first_ids)
    return True


def check_same_weights(first_path: str | Path, second_path: str | Path, column: str) -> None:
    """Check that two large tables have the same weights row by row, without loading either table whole.

    `column` is the name of the weights in both tables. A second table without it is not checked (the first of its files
    tells, since all have the same columns), and neither are lengths (see `check_same_ids`). DataError where weights
    differ by more than the rounding of 32-bit numbers.
    """
    first_files = find_files("compare", first_path)
    second_files = find_files("compare", second_path)
    if column not in read_column_names(second_files[0]).columns:
        return
    row_count = 0  # rows that were compared before the current batch
    batches = _pair_batches(read_text_batches(first_files, column), read_text_batches(second_files, column))
    for first_weights, second_weights in batches:
        for row, first, second in _differing_rows(first_weights, second_weights, row_count):
            # The texts differ, but may be one number: 0.1 as a 32-bit number is 0.10000000149.
            if not _are_numbers_about_equal(first, second):
                raise DataError(
                    f"row {row:,} has weight {display_name(first)} in {display_name(first_path)} and "
                    f"{display_name(second)} in {display_name(second_path)}, but the same samples must have the same "
                    f"weights. Give both tables one column of weights."
                )
        row_count += len(first_weights)


def _differing_rows(
    first_texts: Sequence[str], second_texts: Sequence[str], rows_before: int
) -> Iterator[tuple[int, str, str]]:
    """Yield the number of each row in which two lists of texts differ, counted from 1, with both texts.

    `rows_before` is the number of rows of the table before these. Equal lists, the usual case, are compared as a whole.
    The lists have one length.
    """
    if first_texts == second_texts:
        return
    for row, (first, second) in enumerate(zip(first_texts, second_texts), start=rows_before + 1):
        if first != second:
            yield row, first, second


def _are_numbers_about_equal(first: str, second: str) -> bool:
    """Return whether two texts are numbers that are equal within the rounding of 32-bit numbers."""
    return is_number(first) and is_number(second) and math.isclose(float(first), float(second), rel_tol=1e-6)


def _pair_batches(
    first_batches: Iterator[list[str]], second_batches: Iterator[list[str]]
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the texts of two tables, row by row beside each other, in pairs of lists of one length.

    Where one table is longer, the last pair is an empty list and further texts of the longer table.
    """
    first_texts: list[str] = []  # texts that are read and not yielded yet
    second_texts: list[str] = []
    while True:
        # Read the next batch where all texts were yielded; batches are never empty, so [] is the end of a table.
        first_texts = first_texts or next(first_batches, [])
        second_texts = second_texts or next(second_batches, [])
        size = min(len(first_texts), len(second_texts))
        if size == 0:  # a table has ended
            break
        yield first_texts[:size], second_texts[:size]
        first_texts = first_texts[size:]
        second_texts = second_texts[size:]
    if first_texts or second_texts:
        yield first_texts, second_texts


def _find_id_column(roles: Mapping[str, RoleColumns]) -> str | None:
    """Return the column of ids, or of questions where there are no ids; None where there is neither."""
    for role in ("ids", "question"):
        if role in roles:
            return roles[role].names[0]
    return None


def read_text_batches(files: Sequence[str], column: str) -> Iterator[list[str]]:
    """Yield the values of a column as lists of texts: the first file from top to bottom, then the next file.

    `column` is the name of the column in every file. A missing value is the text "None", and a whole number has no
    decimals ("2" of 2.0). No list is empty. DataError where a file is damaged or lacks the column.
    """
    for file in files:
        batches = read_batches(
            Path(file),
            table_format(file),
            choose_columns=lambda schema: [column],
            max_rows=_BATCH_ROW_COUNT,
            # all of them
            row_groups=None,
        )
        for batch in batches:
            if batch.num_rows:  # an empty list would look like the end of the table
                yield [str(text_or_none(value)) for value in batch.column(0).to_pylist()]
