"""After lm-evaluation-harness: AURC and risk at coverage next to the accuracies it reports.

Works on what `lm_eval.simple_evaluate(..., log_samples=True)` returns; the harness itself is not imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import AbstainError, InputError
from abstain.evaluation.graded import FurtherMetric, find_further_metric
from abstain.formats.answers import make_log
from abstain.formats.lm_eval_log import read_lm_eval
from abstain.formats.log_rows import make_log_source
from abstain.formats.logs import Log, Rules
from abstain.formats.safety import Limits
from abstain.inference import Interval, interval
from abstain.inference.ratios import estimate_from_answers
from abstain.metrics.answer_metrics import AnswerMetric, answer_metric

__all__ = ["add_selective"]


def add_selective(
    results: dict[str, Any],
    *,
    confidence: str | None = None,
    coverage: float = 0.8,
    unanswered: str = "abstained",
    metrics: Sequence[str] = (),
    level: float = 0.95,
) -> dict[str, Any]:
    """Add `aurc` and `risk_at_<coverage>` with standard error and interval to every task that has a confidence.

    The keys follow the harness: "aurc,none" and "aurc_stderr,none", then "aurc_low,none" and "aurc_high,none", for each
    filter. Repeats of one question are a cluster; equal confidences are accepted together.

    Parameters
    ----------
    results : dict
        The result of `simple_evaluate(..., log_samples=True)`; changed in place.
    confidence : str, optional
        The signal to rank by: "softmax", "softmax_norm", "margin", "loglikelihood" or "agreement";
        by default the first that a task has.
    coverage : float
        Share of the questions to answer, at least, for the risk.
    unanswered : {"abstained", "wrong"}
        How a reply counts in which the filter found no answer: never accepted and kept in the coverage, or wrong and
        ranked last.
    metrics : names
        Further metrics to add: of graded answers ("simpleqa_f", "score_at_target@0.75", as in
        `abstain.metrics.answer_metric`), also for tasks without a confidence, and of calibration ("calibration_error",
        "brier_score") for confidences that are probabilities ("softmax").
    level : float
        Level of the intervals.

    Returns
    -------
    dict
        The same `results`; `results["selective"]` says for each task which columns were used, or why it has no values.

    Examples
    --------
    >>> answers = [["-0.1", "-3.0"], ["-0.7", "-0.8"], ["-0.2", "-2.0"]]
    >>> samples = [{"doc_id": k, "filter": "none", "metrics": ["acc"], "acc": right, "resps": [],
    ...             "filtered_resps": [[x, "False"] for x in answers[k]]} for k, right in enumerate((1, 0, 1))]
    >>> extended = add_selective({"results": {"mine": {"acc,none": 2 / 3}}, "samples": {"mine": samples}})
    >>> round(extended["results"]["mine"]["aurc,none"], 4)
    0.1111
    >>> extended = add_selective(extended, metrics=["score_at_target@0.75"])
    >>> round(extended["results"]["mine"]["score_at_target@0.75,none"], 4)  # 2 right, and 1 wrong that costs 3
    -0.3333
    """
    if not isinstance(results.get("samples"), dict):
        raise InputError(
            "add_selective: `results` must have samples. Run simple_evaluate(..., log_samples=True)."
        )
    further_metrics = [_find_metric(name) for name in metrics]
    # Label in the results -> name and options of the metric.
    ranking_metrics: dict[str, tuple[str, dict[str, float]]] = {
        "aurc": ("aurc", {}),
        f"risk_at_{coverage:g}": ("risk_at_coverage", {"coverage": coverage}),
    }
    user_columns = {} if confidence is None else {"confidence": confidence}
    notes_of_task: dict[str, list[str]] = {}
    for task, samples in results["samples"].items():
        task_results = results.setdefault("results", {}).setdefault(task, {})
        notes = notes_of_task.setdefault(task, [])
        records = json.loads(json.dumps(samples, default=str))  # as the harness writes them to its log
        for filter_name in dict.fromkeys(str(record.get("filter") or "none") for record in records):
            try:
                log = _read_records(task, records, filter_name, user_columns, unanswered)
            except AbstainError as error:  # for example, nothing says right or wrong
                notes.append(str(error))
                continue
            notes += log.summary_lines()
            for further_metric in further_metrics:
                try:
                    result = interval_without_ranking(log, further_metric, level=level)
                except AbstainError as error:  # for example, a task without a confidence has no calibration
                    notes.append(str(error))
                else:
                    task_results |= _harness_values(further_metric.key, filter_name, result)
            if not log.has_confidence:  # no confidence to rank by
                continue
            for label, (metric, options) in ranking_metrics.items():
                try:
                    result = log_interval(log, metric, rules=log.rules, level=level, metric_options=options)
                except AbstainError as error:  # for example, more abstentions than that coverage allows
                    notes.append(str(error))
                else:
                    task_results |= _harness_values(label, filter_name, result)
    results["selective"] = notes_of_task
    return results


def _read_records(
    task: str, records: list[Any], filter_name: str, user_columns: Mapping[str, str], unanswered: str
) -> Log:
    """Return the answers of one task as one filter of the harness reads them.

    `records` are the task's samples as parsed JSON. `user_columns` is {"confidence": name} or empty. `unanswered` is
    "abstained" or "wrong". An answer without a confidence is ranked last. DataError where nothing says which answers
    are right, or where the named confidence does not exist.
    """
    path = Path(task)  # there is no file: messages show the task's name, and no other file can be loaded
    # rows, and facts such as which of their columns say right or wrong
    content = read_lm_eval(path, records, load_json=lambda other_path: None)
    # the same as columns, which are checked against the usual limits of size
    source = make_log_source(path, Limits(), content)
    # the column of filters is "filter" in all logs of this harness; its name is empty where there is none
    has_filters = bool(source.facts.variant_column)
    rules = Rules(only={"filter": filter_name} if has_filters else {}, unanswered=unanswered, missing="last")
    # by role, such as "correct" or "confidence": the columns that the user names, or else those that the harness says
    columns_of_role = source.find_roles(user_columns)
    # None: no second file holds the right answers, since the samples say which answers are right
    return make_log(source, columns_of_role, rules, right_answers=None)


def _harness_values(label: str, filter_name: str, result: Interval) -> dict[str, float]:
    """Return an interval under the harness's keys, such as "aurc_stderr,none"."""
    return {
        f"{label},{filter_name}": result.estimate,
        f"{label}_stderr,{filter_name}": result.standard_error,
        f"{label}_low,{filter_name}": result.low,
        f"{label}_high,{filter_name}": result.high,
    }


def log_interval(
    log: Log, metric: str, *, rules: Rules, level: float, metric_options: Mapping[str, Any]
) -> Interval:
    """Return a metric of answers with its interval, ranked by their first confidence.

    A log is the answers of one run, one row each; it must have a confidence. `rules` say how unanswered questions and
    missing confidences count. `level` is that of the interval, and `metric_options` are those of the metric, such as
    {"coverage": 0.8}. Repeats of one question are a cluster. An AbstainError where the log has no row to measure, or
    the metric is undefined for it.
    """
    # By name, of the rows that count: "loss", "confidence" (the first), and "abstained" and "clusters" where the log
    # has them. Rows are left out or ranked last by the rules.
    fields = log.fields(rules)
    columns = {name: fields[name] for name in ("abstained", "clusters") if name in fields}
    return interval(metric, fields["loss"], fields["confidence"], level=level, **columns, **metric_options)


def _find_metric(name: str) -> FurtherMetric:
    """The metric of graded answers or of calibration with this name; InputError, with the known ones, for another."""
    metric = find_further_metric(name)
    return answer_metric(name, "add_selective") if metric is None else metric


def interval_without_ranking(log: Log, metric: FurtherMetric, *, level: float) -> Interval:
    """Return a metric of graded answers or of calibration with its interval.

    A log is the answers of one run, one row each. A question without an answer is not attempted, and repeats of one
    question are a cluster. Calibration is that of the log's first confidence, over the answers that have one.
    InputError where the metric cannot be computed: losses other than right and wrong, no confidence, or one that is no
    probability. InfeasibleError where it is undefined. `level` is the two-sided confidence level, such as 0.95.
    """
    # losses that do not say right (0), wrong (1) or partly right
    if not log.is_graded:
        raise InputError(f"{metric.key}: needs right and wrong answers, and this task has other losses.")
    cluster_of_row = log.find_clusters()  # None where all rows are independent
    if isinstance(metric, AnswerMetric):
        # `log.scored` marks the rows with a grade or without an answer; `graded_answers` has one entry for each of them
        clusters = None if cluster_of_row is None else cluster_of_row[log.scored]
        return estimate_from_answers(metric.key, metric, log.graded_answers(), clusters).interval(level)
    if not log.has_confidence:
        raise InputError(f"{metric.key}: needs a confidence, and this task has none.")
    # the first of the log's confidences, which are by name
    confidence = next(iter(log.signals.values()))
    # a mask: answers with a grade and this confidence
    rows = log.scored & log.answered & np.isfinite(confidence)
    clusters = None if cluster_of_row is None else cluster_of_row[rows]
    return metric.measure(1 - log.loss[rows], confidence[rows], level, clusters)
