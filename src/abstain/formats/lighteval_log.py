"""Details of lighteval: a parquet file with one row per sample of a task, its metrics in a struct."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from abstain.formats.arrow import read_number_lists
from abstain.formats.columns import LogFacts, OpenedTable, TextValues
from abstain.formats.log_rows import (
    OPTION_CONFIDENCES,
    LogContent,
    Row,
    ScoredOption,
    assign_correct_role,
    confidences_of_options,
    float_or_none,
    names_of_columns_from_0_to_1,
)
from abstain.formats.safety import Limits

_METRICS_PREFIXES = ("metric.", "metrics.")  # structs of metrics, in current and in older versions
# Lists with the log-likelihood of each option, in current and in older versions.
_LOGLIKELIHOOD_COLUMNS = ("model_response.logprobs", "predictions", "pred_logits")
_RIGHT_OPTION_COLUMNS = ("doc.gold_index", "gold_index")
_TASK_IN_NAME = re.compile(r"details_(.+)_\d{4}-\d\d-\d\dT")


def is_lighteval_details(source: OpenedTable) -> bool:
    """Return whether a parquet file has the columns of lighteval's details: those of current or of older versions."""
    names = list(source.columns)
    has_metrics = any(name.startswith(_METRICS_PREFIXES) for name in names)
    has_structs = all(
        any(name.startswith(prefix) for name in names) for prefix in ("doc.", "model_response.")
    )
    has_older_columns = "full_prompt" in names and any(name in names for name in ("gold", "gold_index"))
    return has_metrics and (has_structs or has_older_columns)


def read_lighteval(source: OpenedTable, limits: Limits) -> LogContent:
    """Read the details that the harness lighteval writes for one task: one row per sample, a column for each metric.

    Samples of a multiple-choice task, which say the number of the right option (`gold_index`), have confidences from
    the log-likelihoods of their options. DataError where the file needs more memory than `limits` allow. `source` is
    the opened file. The result holds the rows, and facts that say which column has which role.
    """
    # such as "metric.acc", or "metrics.acc" in older versions: fields of a struct
    names = [name for name in source.columns if name.startswith(_METRICS_PREFIXES)]
    # name of a metric without the prefix ("acc") -> one number per row, or None
    metrics = {name.partition(".")[2]: _load_numbers(source, name) for name in names}
    row_count = next(iter(source.columns.values())).shape[0]
    # for each row the log-likelihoods of its options; None for a row, or all rows, without any
    loglikelihoods = _load_loglikelihoods(source, limits) or [None] * row_count
    rows: list[Row] = []
    for index, row_loglikelihoods in enumerate(loglikelihoods):
        row: Row = {"question": str(index)}  # samples are numbered
        for name, values in metrics.items():
            number = float_or_none(values[index])
            row[name] = None if number is None or np.isnan(number) else number
        if row_loglikelihoods is not None and len(row_loglikelihoods) > 1:
            # length 0: the file does not say how long the options are
            options = [ScoredOption(loglikelihood=number, length=0) for number in row_loglikelihoods]
            # columns such as "softmax" and "margin", of the option with the largest log-likelihood
            row |= confidences_of_options(options, is_normalised=False)
        rows.append(row)
    # those with all numbers from 0 to 1
    correctness_columns = names_of_columns_from_0_to_1(rows, list(metrics))
    match = _TASK_IN_NAME.match(source.path.name)
    facts = LogFacts(
        tool="lighteval",
        column_of_role={
            # "correct": the first preferred column, or the only one; left out where the user has to choose
            **assign_correct_role(
                correctness_columns,
                prefer=("acc", "loglikelihood_acc", "exact_match", "em", "extractive_match"),
            ),
            "question": "question",
        },
        possible_correctness_columns=correctness_columns,
        possible_confidence_columns=OPTION_CONFIDENCES,  # those that no row has are taken out later
        # Accuracy by normalised log-likelihoods judges another answer than these confidences are of.
        excluded_confidences_by_correctness={name: OPTION_CONFIDENCES for name in metrics if "norm" in name},
        task=match[1] if match else "",
        # the harness writes details/MODEL/DATE/details_TASK.parquet
        model=source.path.absolute().parent.parent.name if match else "",
    )
    return LogContent(rows, facts)


def _load_numbers(source: OpenedTable, name: str) -> list[Any]:
    """Return the values of a metric as a list, one per row; None throughout where the column holds text."""
    values = source.columns[name].load()
    if isinstance(values, TextValues) or values.ndim != 1:
        return [None] * len(values)
    return values.tolist()


def _load_loglikelihoods(source: OpenedTable, limits: Limits) -> list[list[float] | None] | None:
    """Return the log-likelihoods of the options of each row; None where the task has no options.

    A task of multiple choice has a column with the number of the right option and an accuracy among its metrics. A
    single row is None where its cell is null. DataError where the column needs more memory than `limits` allow.
    """
    # "doc.gold_index", or "gold_index" in older files
    has_right_option = any(name in source.columns for name in _RIGHT_OPTION_COLUMNS)
    # such as "metric.acc" or "metric.loglikelihood_acc"; the prefixes "metric." and "metrics." hold no "acc" themselves
    has_accuracy = any("acc" in name for name in source.columns if name.startswith(_METRICS_PREFIXES))
    if not has_right_option or not has_accuracy:
        return None
    # "model_response.logprobs", or "predictions" and "pred_logits" in older files: the first that holds lists of floats
    for name in _LOGLIKELIHOOD_COLUMNS:
        # Arrow's name of the type, such as list<element: double>
        kind = source.columns[name].kind if name in source.columns else ""
        is_list = kind.startswith(("list<", "large_list<"))
        if is_list and ("float" in kind or "double" in kind):
            return read_number_lists(source.path, name, limits)
    return None
