"""The page of a leaderboard: up to hundreds of models ranked by one metric.

One self-contained HTML page like the report, with a table to search and sort, intervals, and one model compared with
all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abstain._tables import count_noun, count_samples, is_or_are
from abstain.calibration import calibration_error
from abstain.display import CurveLine, thinned
from abstain.errors import AbstainError, InputError
from abstain.evaluation import Comparison
from abstain.evaluation.comparison import VERDICTS_DEPEND_ON_TIES
from abstain.evaluation.graded import message_without_function
from abstain.formats import Log, Predictions, replacing
from abstain.inference import interval
from abstain.inference.ratios import estimate_from_answers
from abstain.inference.records import Interval
from abstain.metrics import risk_coverage_curve
from abstain.metrics.answer_metrics import (
    TARGETS,
    AnswerMetric,
    GradedAnswers,
    abstention_metrics,
    answer_metric,
    is_answer_metric,
    metrics_for_answers,
    score_at_target,
)
from abstain.metrics.definitions import by_name
from abstain.metrics.metric import Metric
from abstain.report.content import risk_where, short_names
from abstain.report.decision import describe_first_place
from abstain.report.markup import framed, list_items, text

_LINKS = {"table": "Table", "picked-section": "One model", "intervals": "Intervals"}
_CURVE_POINTS = 60
_CALIBRATION_COLUMN = "calibration error %"
_TARGET_COLUMN = "score at "  # and the confidence target
_ANSWERED_ONLY = ", answered only"  # after the metric of the ranking
_CONFIDENCE_SEPARATOR = " / "  # between a model and its confidence, where several are compared


def board(
    comparison: Comparison,
    *,
    curves: Mapping[str, CurveLine] | None = None,
    columns: Mapping[str, Mapping[str, float | None]] | None = None,
    groups: Mapping[str, Mapping[str, float | Interval | None]] | None = None,
    notes: Sequence[str] = (),
    title: str = "Leaderboard",
    command: str = "",
    made: str = "",
) -> str:
    """Make the page of a leaderboard.

    Parameters
    ----------
    comparison : Comparison
        The ranking, from `abstain.compare`.
    curves : dict of CurveLine, optional
        Risk-coverage curves by contestant; `abstain.display.thinned` makes them small.
    columns : dict of dict, optional
        More numbers by column and contestant: {"accuracy": {"a": 0.8, ...}, ...}; None for missing ones. A column
        whose name ends in "%" holds shares and is shown in percent.
    groups : dict of dict, optional
        The metric by group and contestant: {"law": {"a": 0.2, ...}, ...}; an `Interval` in place of a number shows its
        limits too. Groups are listed worst first by the limit that is closer to good.
    notes : sequence of str
        Sentences above the table.
    title, command, made : str
        The headline, the command that makes the page again, the date.

    Returns
    -------
    str
        One HTML document with scripts, styles and data inside.

    Raises
    ------
    InputError
        If `curves`, `columns` or `groups` have a name that is not in the comparison.

    Examples
    --------
    >>> import abstain
    >>> loss = [0, 0, 1, 0, 1, 0, 0, 1]
    >>> confidence = [8, 7, 3, 6, 2, 5, 4, 1]
    >>> comparison = abstain.compare({"good": (loss, confidence), "bad": (loss, confidence[::-1])})
    >>> "<title>Two models</title>" in board(comparison, title="Two models")
    True
    """
    curves = curves or {}
    columns = columns or {}
    groups = groups or {}
    _check_contestants("curves", curves, comparison)
    for values in columns.values():
        _check_contestants("columns", values, comparison)
    for group_values in groups.values():
        _check_contestants("groups", group_values, comparison)
    titles = _drop_shared_endings(comparison.names)
    short = short_names(titles.values())
    tiny = short_names(titles.values(), longest=20)  # for the figure on a phone
    models = []
    for contestant in comparison.contestants:
        name = contestant.name
        models.append(
            {
                "name": name,
                "short": short[titles[name]],
                "tiny": tiny[titles[name]],
                "estimate": contestant.estimate,
                "low": contestant.low,
                "high": contestant.high,
                "letters": contestant.group,
                "rank": [contestant.rank_low, contestant.rank_high],
                "curve": _curve_data(curves.get(name)),
                "more": [values.get(name) for values in columns.values()],
                "groups": [_with_limits(values.get(name)) for values in groups.values()],
            }
        )
    level = f"{comparison.level:.0%}"
    data = {  # the names that `assets/board.js` reads
        "label": comparison.label,
        "level": level,
        "lower": comparison.lower_is_better,
        "models": models,
        "columns": list(columns),
        "groups": list(groups),
        "equal": _find_equals(comparison),
    }
    direction = "lower" if comparison.lower_is_better else "higher"
    fields = {  # the fields of `assets/board.html`
        "verdict": text(_summary(comparison)),
        "notes": list_items([*notes, *_short_notes(comparison.notes)]),
        "label": text(comparison.label),
        "level": level,
        "way": direction,
        "about": _explain_columns(list(columns)),
        "again": f"<h2>Make this page again</h2><pre>{text(command)}</pre>" if command else "",
    }
    return framed(
        "board",
        title=title,
        subtitle=_subtitle(comparison, direction),
        made=made,
        links=_LINKS,
        data=data,
        fields=fields,
    )


def _drop_shared_endings(names: Sequence[str]) -> dict[str, str]:
    """Shorten names "model / confidence" by the words, divided by _, with which all confidences' names end.

    Returns name -> title, in the same order; the titles differ as the names do. If some name has another form, or all
    have the same confidence, every name stays as it is. Of each confidence at least one word stays.

    >>> list(_drop_shared_endings(["a / logit_confidence", "a / stated_confidence"]).values())
    ['a / logit', 'a / stated']
    """
    # (model, " / ", confidence); ("", "", name) for a name of another form
    parts = {name: name.rpartition(_CONFIDENCE_SEPARATOR) for name in names}
    words_of_confidences = [confidence.split("_") for _, separator, confidence in parts.values() if separator]
    has_other_names = len(words_of_confidences) < len(names)
    # the whole name of the only confidence would be the shared ending
    has_one_confidence = len(set(map(tuple, words_of_confidences))) < 2
    if has_other_names or has_one_confidence:
        return {name: name for name in names}
    shared_count = 0  # of words at the end of every confidence; the first word of each stays
    while all(len(words) > shared_count + 1 for words in words_of_confidences):
        if len({words[-1 - shared_count] for words in words_of_confidences}) > 1:
            break
        shared_count += 1
    return {
        name: model + separator + "_".join(confidence.split("_")[: confidence.count("_") + 1 - shared_count])
        for name, (model, separator, confidence) in parts.items()
    }


def _explain_columns(columns: Sequence[str]) -> str:
    """What the less known columns of the table are, as HTML; empty where there are none of them.

    `columns` are the titles of the table. The constants are what such titles begin or end with.
    """
    sentences = []
    if any(column.endswith(_ANSWERED_ONLY) for column in columns):  # such as "AURC, answered only"
        sentences.append(
            "Answered only: over the answers that have the confidence, without unanswered questions, so each model and "
            "confidence on answers of its own."
        )
    if _CALIBRATION_COLUMN in columns:
        sentences.append(
            "Calibration error: the gap between confidence and accuracy, root mean square, without the bias of small "
            "bins; 0 where a stated 80% is right in 80% of answers."
        )
    if any(column.startswith(_TARGET_COLUMN) for column in columns):  # such as "score at 0.75"
        sentences.append(
            "Score at t: right answers less t/(1 - t) times the wrong ones, per question: answering pays from a "
            "confidence of t on, and no answers at all have the score 0."
        )
    return f'<ul class="soft">{list_items(sentences)}</ul>' if sentences else ""


def _with_limits(value: float | Interval | None) -> list[float | None] | None:
    """The estimate and its two limits for the page's script; the limits of a plain number are None."""
    if value is None:
        return None
    if isinstance(value, Interval):
        return [value.estimate, value.low, value.high]
    return [float(value), None, None]


def _check_contestants(argument: str, values: Mapping[str, Any], comparison: Comparison) -> None:
    """Raise InputError if values by name have a name that is not in the comparison."""
    unknown = [name for name in values if name not in comparison.names]
    if unknown:
        raise InputError(f"board: `{argument}` has {unknown[0]!r}, which is not in the comparison.")


def board_content(
    comparison: Comparison, models: Mapping[str, tuple[Predictions, str]], loss: str = "zero_one"
) -> dict[str, Any]:
    """Compute what `board` shows in addition to a ranking, from the files that were compared.

    Parameters
    ----------
    comparison : Comparison
        The ranking.
    models : dict of (Predictions, score)
        By the names of the ranking: the predictions, and the score they are ranked by.
    loss : str
        Computed from class scores, for files that have them.

    Returns
    -------
    dict
        `curves`, `columns` and `groups` of `board`.

    Examples
    --------
    >>> import numpy as np
    >>> import abstain
    >>> from abstain.formats import Predictions
    >>> loss = np.array([0.0, 1.0, 0.0, 0.0])
    >>> good = Predictions("good", "t.csv", "csv", 4, loss=loss, confidence=np.array([4.0, 1, 3, 2]))
    >>> bad = Predictions("bad", "t.csv", "csv", 4, loss=loss, confidence=np.array([1.0, 4, 3, 2]))
    >>> comparison = abstain.compare({"good": (loss, good.confidence), "bad": (loss, bad.confidence)})
    >>> models = {"good": (good, "confidence"), "bad": (bad, "confidence")}
    >>> board_content(comparison, models)["columns"]
    {'risk %': {'good': 0.25, 'bad': 0.25}, 'risk of the most confident 80%': {'good': 0.25, 'bad': 0.25}}
    """
    if is_answer_metric(comparison.metric):
        return _graded_content(comparison, models, loss)
    metric = by_name(comparison.metric)
    curves: dict[str, CurveLine] = {}
    columns: dict[str, dict[str, float | None]] = {}
    groups: dict[str, dict[str, float | Interval | None]] = {}
    for name, (predictions, score) in models.items():
        losses, confidence = predictions.loss_and_confidence(score, loss)
        weight = predictions.sample_weight
        abstained = predictions.abstained
        curve = risk_coverage_curve(losses, confidence, sample_weight=weight, abstained=abstained)
        curves[name] = thinned(name, curve.coverage, curve.risk, _CURVE_POINTS)
        numbers: dict[str, float | None] = {}
        if predictions.log is None or not predictions.log.is_graded:
            numbers["risk %"] = float(curve.risk[-1])
        else:
            numbers["accuracy %"] = predictions.log.accuracy
        numbers["risk of the most confident 80%"] = risk_where(curve, 0.8)
        if predictions.log is not None:  # the file is a log of answers, some of which may be missing
            numbers["unanswered %"] = predictions.log.unanswered
            ranked_answers = _ranked_answers(predictions, predictions.log)
            numbers[f"{comparison.label}{_ANSWERED_ONLY}"] = _answered_only(ranked_answers, metric)
            numbers |= _numbers_of_log(predictions.log, ranked_answers)
        for column, number in numbers.items():
            columns.setdefault(column, {})[name] = number
        labels = predictions.group_labels()
        for group in () if labels is None else np.unique(labels):
            in_group = labels == group
            part: dict[str, Any] = {
                "sample_weight": weight,
                "abstained": abstained,
                "clusters": predictions.clusters,
            }
            part = {key: None if values is None else values[in_group] for key, values in part.items()}
            groups.setdefault(str(group), {})[name] = _metric_interval(
                metric, losses[in_group], confidence[in_group], level=comparison.level, **part
            )
    shown_columns = {
        column: values
        for column, values in columns.items()
        if any(value is not None for value in values.values())
    }
    return {"curves": curves, "columns": shown_columns, "groups": groups}


def _numbers_of_log(log: Log, ranked_answers: _RankedAnswers | None) -> dict[str, float | None]:
    """Calibration error, scores at confidence targets and of abstention of a log of answers, by title of their columns.

    `ranked_answers` are those that have the confidence that ranks the log. A question without an answer is not
    attempted. The calibration error is None unless every confidence of an answer lies between 0 and 1. Scores of
    abstention only where the log says which questions are unanswerable. Empty for losses other than right and wrong.
    A score at a target of 0.75 is for answers that pay off from a confidence of 75% on.
    """
    if not log.is_graded:  # losses other than right and wrong
        return {}
    answers = log.graded_answers()
    numbers: dict[str, float | None] = {
        f"{_TARGET_COLUMN}{target:g}": score_at_target(target).value(answers) for target in TARGETS
    }
    for metric in abstention_metrics() if answers.unanswerable is not None else ():
        numbers[f"{metric.label} %"] = _value_if_defined(metric, answers)
    root_mean_square_gap = None  # between confidence and accuracy
    if ranked_answers is not None:
        with suppress(AbstainError):  # too few answers, or confidences that are no probabilities
            # 1 for a right answer, against the confidence that it is right
            gaps = calibration_error(1 - ranked_answers.losses, ranked_answers.confidence)
            root_mean_square_gap = gaps.root.estimate
    return {_CALIBRATION_COLUMN: root_mean_square_gap, **numbers}


def calibration_notes(models: Mapping[str, tuple[Predictions, str]]) -> list[str]:
    """A sentence for each model whose calibration error is missing on a board, with the reason.

    `models` holds the predictions of each model and the name of a score, which is not read, by name in the ranking.
    Empty where no model has a calibration error, since the board has no such column then.
    """
    reasons: dict[str, str] = {}
    has_column = False
    for name, (predictions, _) in models.items():
        log = predictions.log
        ranked_answers = None if log is None or not log.is_graded else _ranked_answers(predictions, log)
        if ranked_answers is None:
            continue
        try:
            calibration_error(1 - ranked_answers.losses, ranked_answers.confidence)
        except AbstainError as error:
            confidence = ranked_answers.confidence
            outside_count = int(np.count_nonzero((confidence < 0) | (confidence > 1)))
            reasons[name] = message_without_function(error)
            if outside_count:
                values = count_noun(outside_count, "value")
                reasons[name] = f"{values} of the confidence {is_or_are(outside_count)} outside 0 to 1"
        else:
            has_column = True
    if not has_column:
        return []
    return [f"{name} has no calibration error: {reason.rstrip('.')}." for name, reason in reasons.items()]


def _graded_content(
    comparison: Comparison, models: Mapping[str, tuple[Predictions, str]], loss: str
) -> dict[str, Any]:
    """Compute what a board shows besides a ranking by a metric of graded answers: other metrics, and groups.

    `models` holds each model with the name of the score that ranks it, by name in the ranking. Returned are "curves"
    (none), "columns" (title -> model -> value, None if undefined) and "groups" (group -> model -> the ranking's metric
    with its interval, None if undefined). `loss` names what is computed from class scores. Graded answers are right,
    wrong or not attempted; no confidence counts. Groups are those of each model's own file.
    """
    metric = answer_metric(comparison.metric)
    answers_of_model: dict[str, GradedAnswers] = {}
    for name, (predictions, score) in models.items():  # `score` names the confidence of class scores
        losses = predictions.loss_and_confidence(score, loss).loss
        attempted = np.ones(predictions.n, dtype=bool)
        if predictions.abstained is not None:
            attempted = ~predictions.abstained
        answers_of_model[name] = GradedAnswers(
            right=np.where(attempted, 1 - losses, 0.0),  # from 0 to 1; 0 where there is no answer
            attempted=attempted,
            # Which questions have no right answer, None if unknown. Also None where refusals count as wrong: nobody
            # abstains then, so there are no scores of abstention.
            unanswerable=predictions.graded_arguments()["unanswerable"],
        )
    shown_metrics: dict[str, AnswerMetric] = {}  # by key: all that apply to some model, each once
    for answers in answers_of_model.values():
        for column_metric in metrics_for_answers(answers):
            shown_metrics.setdefault(column_metric.key, column_metric)
    shown_metrics.pop(metric.key, None)  # the metric of the ranking has a column already
    columns: dict[str, dict[str, float | None]] = {}
    groups: dict[str, dict[str, float | Interval | None]] = {}
    for name, (predictions, _) in models.items():
        answers = answers_of_model[name]
        for column_metric in shown_metrics.values():
            # values from 0 to 1 are shares: the page multiplies those of a column whose title ends in "%" by 100
            title = f"{column_metric.label} %" if column_metric.range == (0.0, 1.0) else column_metric.label
            columns.setdefault(title, {})[name] = _value_if_defined(column_metric, answers)
        labels = predictions.group_labels()
        for group in () if labels is None else np.unique(labels):
            rows = labels == group
            clusters = None if predictions.clusters is None else predictions.clusters[rows]
            group_interval: float | Interval | None = None
            with suppress(AbstainError):  # a group of one question, for example, has no interval
                estimated = estimate_from_answers("board", metric, answers.select(rows), clusters)
                group_interval = estimated.interval(comparison.level)
            groups.setdefault(str(group), {})[name] = group_interval
    return {"curves": {}, "columns": columns, "groups": groups}


def _value_if_defined(metric: AnswerMetric, answers: GradedAnswers) -> float | None:
    """The metric of one model's answers; None where it is undefined, for example if nothing was attempted."""
    try:
        return metric.value(answers)
    except AbstainError:
        return None


class _RankedAnswers(NamedTuple):
    """The answers of a log that have the confidence that ranks them; unanswered questions are not among them."""

    losses: np.ndarray
    confidence: np.ndarray
    sample_weight: np.ndarray | None


def _ranked_answers(predictions: Predictions, log: Log) -> _RankedAnswers | None:
    """Return the answers that have the confidence that ranks them, whichever other confidences they have.

    `predictions` are ranked by one confidence, the first of `signals`, and were made from `log`. None where they have
    no confidence, or no answer has it. Returned are losses, confidences and weights (None without) of these answers.
    """
    if not predictions.signals:
        return None
    name, confidence = next(iter(predictions.signals.items()))
    losses = np.asarray(predictions.loss)
    weight = predictions.sample_weight
    if name in log.signals:  # a log has all rows; its predictions may lack those without another confidence
        confidence = log.signals[name]
        losses = log.loss
        weight = log.sample_weight
        # NaN is a missing confidence; `scored` says whether a row has a grade, or needs none since there is no answer
        rows = log.scored & log.answered & np.isfinite(confidence)
    else:  # a learned confidence, which every answer has
        rows = np.ones(predictions.n, dtype=bool)
        # Both mark questions without an answer, and at most one of them is set: `abstained` where these count as
        # abstentions, `refused` where they count as wrong.
        for is_unanswered in (predictions.abstained, predictions.refused):
            if is_unanswered is not None:
                rows &= ~is_unanswered
    if not rows.any():
        return None
    return _RankedAnswers(losses[rows], confidence[rows], None if weight is None else weight[rows])


def _answered_only(answers: _RankedAnswers | None, metric: Metric) -> float | None:
    """Return the metric over these answers; None if there are none, or if it is undefined."""
    if answers is None:
        return None
    return _metric_value(
        metric,
        answers.losses,
        answers.confidence,
        sample_weight=answers.sample_weight,
        abstained=None,
    )


def _metric_value(
    metric: Metric,
    losses: np.ndarray,
    confidence: np.ndarray,
    *,
    sample_weight: np.ndarray | None,
    abstained: np.ndarray | None,
) -> float | None:
    """The value of a metric; None if it is undefined, e.g. if all answers are right.

    The columns, with one entry per sample, are checked already, so that every error of the package means "undefined".
    `abstained` marks the samples without an answer, None if all have one; `sample_weight` is None for equal weights.
    """
    try:
        return float(metric(losses, confidence, sample_weight=sample_weight, abstained=abstained))
    except AbstainError:
        return None


def _metric_interval(
    metric: Metric, losses: np.ndarray, confidence: np.ndarray, **options: Any
) -> float | Interval | None:
    """The interval of a metric; its value alone if there is no interval, None if it is undefined.

    `options` are those of `abstain.interval`: level, the confidence level, and sample_weight, abstained and clusters,
    which have one entry per sample or are None. All of them must be given.
    """
    try:
        return interval(metric, losses, confidence, **options)
    except AbstainError:  # a single sample or cluster, for example
        weight = options["sample_weight"]
        return _metric_value(metric, losses, confidence, sample_weight=weight, abstained=options["abstained"])


def save_board(comparison: Comparison, path: str | Path, **options: Any) -> None:
    """Write the page to a file, completely or not at all.

    Parameters
    ----------
    comparison : Comparison
        The ranking.
    path : str or Path
        The HTML file.
    **options
        Those of `board`.

    Examples
    --------
    >>> import tempfile
    >>> import abstain
    >>> loss = [0, 0, 1, 0, 1, 0, 0, 1]
    >>> confidence = [8, 7, 3, 6, 2, 5, 4, 1]
    >>> comparison = abstain.compare({"good": (loss, confidence), "bad": (loss, confidence[::-1])})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_board(comparison, f"{folder}/board.html", title="Two models")
    """
    encoded_page = board(comparison, **options).encode("utf-8")
    with replacing(path) as stream:
        stream.write(encoded_page)


def _curve_data(curve: CurveLine | None) -> dict[str, list[float]] | None:
    """A curve for the page's script, rounded to four digits; None if there is none."""
    if curve is None:
        return None
    return {
        "coverage": [round(coverage, 4) for coverage in curve.coverage],
        "risk": [float(f"{risk:.4g}") for risk in curve.risk],
    }


def _find_equals(comparison: Comparison) -> list[list[int]]:
    """Return for each contestant, best first, the indices in the ranking of those it cannot be told apart from."""
    place = {name: index for index, name in enumerate(comparison.names)}
    equals: list[list[int]] = [[] for _ in place]
    for pair in comparison.pairs:
        if not pair.different:
            equals[place[pair.a]].append(place[pair.b])
            equals[place[pair.b]].append(place[pair.a])
    return [sorted(places) for places in equals]


def _summary(comparison: Comparison) -> str:
    """Which model leads, and how many others the tests cannot tell apart from it."""
    rival_count = len(comparison.winners) - 1
    verdict = "every other model can be told apart from it"
    if rival_count:
        verdict = f"{count_noun(rival_count, 'other model')} cannot be told apart from it"
    return f"{describe_first_place(comparison)}; {verdict}."


def _short_notes(notes: Sequence[str]) -> list[str]:
    """Notes of a comparison; the list of verdicts that depend on ties is cut off after their number."""
    shortened = []
    for note in notes:
        count, separator, _ = note.partition(f"{VERDICTS_DEPEND_ON_TIES}: ")
        shortened.append(f"{count}{VERDICTS_DEPEND_ON_TIES}." if separator else note)
    return shortened


def _subtitle(comparison: Comparison, direction: str) -> str:
    models = count_noun(len(comparison.names), "model")
    data = "different test sets"
    if comparison.paired:
        data = f"the same {count_samples(comparison.n, comparison.clusters)}"
    return f"{models} by {comparison.label} ({direction} is better) on {data}"
