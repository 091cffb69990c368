"""Tables and curves of graded answers, for models with or without a confidence.

`evaluate_answers` returns the same kind of result as `evaluate`, so that tables, JSON and pages are the same for both,
and `evaluate` takes the same metrics by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from abstain import _tables
from abstain._arrays import ArrayLike, to_host
from abstain._check import check_fraction, refuse_other_row_order
from abstain._plots import BAND_OPACITY, FigureSize, draw_legend, line_style, make_axes
from abstain._stored import Stored
from abstain.calibration.table_metrics import CALIBRATION_METRICS, CalibrationMetric
from abstain.errors import InfeasibleError, InputError
from abstain.evaluation.results import MISSING, Entry, Evaluation
from abstain.inference.clusters import cluster_codes, cluster_columns, cluster_counts
from abstain.inference.ratios import estimate_from_answers
from abstain.inference.records import Interval
from abstain.inference.standard_errors import CheckedSamples
from abstain.metrics._sample import group_codes, rows_of_groups
from abstain.metrics.answer_metrics import (
    ANSWER_METRIC_NAMES,
    AnswerMetric,
    GradedAnswers,
    answer_metric,
    check_probabilities,
    grade_answers,
    is_answer_metric,
    metrics_for_answers,
    score_at_target,
)
from abstain.metrics.definitions import by_name
from abstain.metrics.metric import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ANSWERS_COLUMN = "answers"  # the column of a table that no confidence ranks
# metrics of `evaluate` that are not of the ranking
_FURTHER_NAMES = (*ANSWER_METRIC_NAMES, *CALIBRATION_METRICS)
_FURTHER_ALIASES = {"ece": "calibration_error", "brier": "brier_score", "acc": "accuracy"}


@refuse_other_row_order
def evaluate_answers(
    correct: ArrayLike,
    *,
    answered: ArrayLike | None = None,
    unanswerable: ArrayLike | None = None,
    metrics: Sequence[str | AnswerMetric] | None = None,
    level: float = 0.95,
    clusters: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Evaluation:
    """The numbers that benchmarks of language models report, each with its interval; no confidence is needed.

    Parameters
    ----------
    correct : array, shape (n,)
        How right each answer is, from 0 to 1; ignored where there is no answer.
    answered : array of bool, shape (n,), optional
        Which questions were attempted; by default all.
    unanswerable : array of bool, shape (n,), optional
        Which questions have no answer, for abstention precision, recall and F1.
    metrics : names or AnswerMetric, optional
        Such as "accuracy", "simpleqa_f", "score_at_target@0.75"; by default all that apply.
    level : float
        Confidence level of the intervals.
    clusters : array, shape (n,), or two of them, optional
        One label per answer; answers with the same label (such as those to one question) are not independent. Two
        vectors are two kinds of clusters that cross.
    groups : array, shape (n,), optional
        One label per answer, such as its category: every number is also given within each group.

    Returns
    -------
    Evaluation
        As `evaluate` returns it, with one column, "answers". A metric that is undefined on these answers has a
        `reason`.

    Examples
    --------
    >>> table = evaluate_answers([1] * 60 + [0] * 40, answered=[True] * 90 + [False] * 10)
    >>> table["simpleqa_f"]
    F (SimpleQA) of answers (zero_one): 0.6316 [0.534, 0.722]
    >>> table["score_at_target@0.75"].estimate  # 0.6 right, 0.3 wrong, each of which costs 3
    -0.3
    """
    name = "evaluate_answers"
    level = check_fraction(name, "level", level, open_high=True)
    answers = grade_answers(name, correct, answered, unanswerable)
    n = len(answers.right)
    chosen = metrics_for_answers(answers)
    if metrics is not None:
        chosen = [answer_metric(metric, name) for metric in metrics]
    cluster_labels = cluster_columns(name, clusters, n)
    cluster_codes(name, cluster_labels, n)  # raises if there is not one label per answer
    entries = answer_entries(answers, chosen, level=level, clusters=cluster_labels)
    if groups is not None:
        labels, codes = group_codes(name, groups, (n,))
        for label, rows in zip(labels, rows_of_groups(codes, len(labels))):
            entries += answer_entries(
                answers.select(rows),
                chosen,
                level=level,
                clusters=None if cluster_labels is None else cluster_labels[rows],
                group=MISSING if label is None else label,
            )
    return Evaluation(
        entries=tuple(entries),
        n=n,
        level=level,
        abstained=1 - float(answers.attempted.mean()),
        clusters=cluster_counts(cluster_labels),
    )


def answer_entries(
    answers: GradedAnswers,
    metrics: Sequence[AnswerMetric],
    *,
    level: float,
    clusters: np.ndarray | None = None,
    group: Any = None,
    score: str = ANSWERS_COLUMN,
    loss: str = "zero_one",
) -> list[Entry]:
    """The numbers of graded answers as entries of a table: with an interval, or the reason why there is none.

    A number has no interval where there is a single question or cluster, and is None where it is undefined. `clusters`
    has one label per answer (two columns for two kinds that cross), or is None for independent answers.

    `group` is the group that the answers are of, None for all; `score` and `loss` name the place in the table (without
    a confidence, the column of answers). `level` is the two-sided confidence level, such as 0.95.
    """
    entries = []
    for metric in metrics:
        entry = _empty_entry(metric, len(answers.right), score=score, loss=loss, group=group)
        try:
            # the name of the function begins the message of an error, and is taken off again below
            estimated = estimate_from_answers("evaluate_answers", metric, answers, clusters)
        except (InputError, InfeasibleError) as problem:
            estimate = None  # stays so where `value` raises, too
            with suppress(InputError, InfeasibleError):  # one question alone has a value, but no interval
                estimate = metric.value(answers)
            entries.append(replace(entry, estimate=estimate, reason=message_without_function(problem)))
        else:
            entries.append(_with_interval(entry, estimated.interval(level)))
    return entries


def message_without_function(error: Exception) -> str:
    """The message of an error of this package without the name of the function, which begins it: "name: message"."""
    return str(error).partition(": ")[2]


def _empty_entry(
    metric: AnswerMetric | CalibrationMetric, n: int, *, score: str, loss: str, group: Any
) -> Entry:
    """An entry without a number, to be filled in by `dataclasses.replace`.

    `n` is the number of answers. `score`, `loss`, `group` (None: all answers) and the key of the metric are its place
    in the table.
    """
    return Entry(
        score=score,
        loss=loss,
        metric=metric.key,
        label=metric.full_label,
        lower_is_better=metric.lower_is_better,
        estimate=None,
        n=n,
        group=group,
    )


def _with_interval(entry: Entry, interval: Interval) -> Entry:
    """The entry with the numbers of an interval."""
    return replace(
        entry,
        estimate=interval.estimate,
        standard_error=interval.standard_error,
        low=interval.low,
        high=interval.high,
        method=interval.method,
    )


# metrics beside those of the ranking --------------------------------------------------------------------

FurtherMetric = AnswerMetric | CalibrationMetric  # what `evaluate` takes besides metrics of the ranking


def find_ranking_metric(metric: Any, function: str = "metrics.by_name") -> Metric:
    """The metric of the ranking with this name; InputError for an unknown one, which lists the further metrics, too."""
    return by_name(metric, function, _FURTHER_NAMES, _FURTHER_ALIASES)


def find_further_metric(metric: Any) -> FurtherMetric | None:
    """The metric of graded answers or of calibration with this name; None for metrics of the ranking and other names.

    InputError for a number after the name that is missing or not allowed.
    """
    if isinstance(metric, CalibrationMetric):
        return metric
    if isinstance(metric, str) and metric in CALIBRATION_METRICS:
        return CALIBRATION_METRICS[metric]
    return answer_metric(metric, "evaluate") if is_answer_metric(metric) else None


def holds_graded_answers(samples: CheckedSamples) -> bool:
    """Whether all losses of checked samples lie between 0 (right) and 1 (wrong)."""
    losses = samples.error_size * samples.answered_loss  # stored in units of the size of an error
    return bool(((losses >= 0) & (losses <= 1)).all())


def further_entries(
    metrics: Sequence[FurtherMetric],
    samples: CheckedSamples,
    *,
    unanswerable: np.ndarray | None = None,
    has_confidence: np.ndarray | None = None,
    is_computed: bool = False,
    probability: np.ndarray | None = None,
    level: float,
    score: str,
    loss: str,
    group: Any,
) -> list[Entry]:
    """Entries of metrics that do not read the ranking, for checked samples with one confidence.

    `samples` are the samples of a group (None: of all): a loss of 0 is a right answer, 1 a wrong one, between them
    partly right; samples that abstained are not attempted. `unanswerable` has a truth value for each sample, abstained
    ones included, or is None where it is not known which questions have no answer. `has_confidence` has a truth value
    for each sample as well: False where the confidence is a number that only ranks the sample, so that calibration
    leaves it out; None where all have a confidence of their own. `is_computed` says that the confidence was computed
    from class scores; calibration is then that of `probability` (one for each sample, abstained ones included), the
    largest class probability, and undefined without it. Where the samples have weights, other losses, or for
    calibration confidences that are no probabilities, an entry has the reason instead of a number. `level` is the
    two-sided confidence level, such as 0.95; `score`, `loss` and `group` are the place of the entries in the table.
    """
    if not metrics:
        return []
    attempted = (
        np.ones(samples.sample_count, dtype=bool) if samples.is_answered is None else samples.is_answered
    )
    losses = samples.error_size * samples.answered_loss.astype(np.float64)  # of the attempted answers, 0 to 1
    problem = ""  # why none of these metrics is defined here; empty if they are
    if samples.answered_weight is not None:
        problem = "takes every sample once, and these have weights"
    elif not holds_graded_answers(samples):
        problem = "needs losses from 0 (right) to 1 (wrong)"
    # metrics of graded answers count all samples
    right_of_all = samples.extend_to_all(1 - losses)  # 0 for samples that were not attempted
    answers = GradedAnswers(right=right_of_all, attempted=attempted, unanswerable=unanswerable)
    # metrics of calibration count attempted samples that have a confidence of their own
    has_own = np.ones(len(losses), dtype=bool) if has_confidence is None else has_confidence[attempted]
    clusters_with_own = None if samples.clusters is None else samples.clusters[attempted][has_own]
    entries = []
    for metric in metrics:
        entry = _empty_entry(metric, samples.sample_count, score=score, loss=loss, group=group)
        if problem:
            entries.append(replace(entry, reason=problem))
        elif isinstance(metric, AnswerMetric):
            entries += answer_entries(
                answers, [metric], level=level, clusters=samples.clusters, score=score, loss=loss, group=group
            )
        else:  # a metric of calibration
            if not has_own.any():
                entries.append(replace(entry, n=0, reason="no answer has a confidence of its own"))
                continue
            if is_computed and probability is None:
                reason = "of class scores, only max_softmax is a probability of being right"
                entries.append(replace(entry, reason=reason))
                continue
            calibrated = samples.answered_confidence
            if is_computed and probability is not None:
                calibrated = probability[attempted]
            try:
                right_with_own = 1 - losses[has_own]
                confidence_with_own = calibrated[has_own]
                interval = metric.measure(right_with_own, confidence_with_own, level, clusters_with_own)
            except InputError as error:
                entries.append(replace(entry, reason=message_without_function(error)))
            else:
                entries.append(replace(_with_interval(entry, interval), n=int(has_own.sum())))
    return entries


@dataclass(frozen=True, repr=False)
class TargetCurve(Stored, _tables.Notebook):
    """The score at each confidence target; made by `score_by_target`.

    Parameters
    ----------
    target : tuple of float
        Confidence targets t, ascending. A wrong answer costs t / (1 - t).
    score, low, high : tuple of float
        The score at each target, and the limits of its interval (one at a time, not all together).
    attempted : tuple of float
        Share of the questions answered at each target.
    level : float
        Confidence level of the intervals.
    n : int
        Number of questions.

    Examples
    --------
    >>> curve = score_by_target([1, 1, 0, 0], targets=[0.0, 0.5])
    >>> curve.score
    (0.5, 0.0)
    """

    _noun: ClassVar[str] = "a curve of scores by target"
    _shows_rows_spread_out: ClassVar[bool] = True

    target: tuple[float, ...]
    score: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    attempted: tuple[float, ...]
    level: float
    n: int

    def frame(self, library: str | None = None) -> Any:
        """One row per target; `library` is "pandas", "polars", "dict" or None (choose)."""
        names = ("target", "score", "low", "high", "attempted")
        return _tables.make_frame({name: list(getattr(self, name)) for name in names}, library)

    def plot(self, ax: Axes | None = None, *, name: str = "", size: FigureSize | None = None) -> Axes:
        """Draw the curve with its intervals as a band, and return the axes.

        `self.score`, `self.low` and `self.high` have one entry for each target in `self.target`, ascending. Draws on
        `ax`, or on a new figure of this `size` ("column", "page" or inches; None for the screen); InputError for both.
        `name` is shown in the legend; without one there is no legend.
        """
        axes: Any = make_axes(ax, size=size)
        style = line_style(len(axes.lines))  # that of the next curve: axes may hold curves already
        axes.plot(self.target, self.score, label=_tables.escape_controls(name) or None, **style._asdict())
        axes.fill_between(
            self.target, self.low, self.high, color=style.color, alpha=BAND_OPACITY, linewidth=0
        )
        axes.set(xlabel="confidence target t", ylabel="score: right - wrong t/(1-t)")
        axes.grid(alpha=0.3)
        if name:
            draw_legend(axes)
        return axes

    def __repr__(self) -> str:
        ends = (
            f"{self.score[0]:.3g} at target {self.target[0]:g} to {self.score[-1]:.3g} at {self.target[-1]:g}"
        )
        return f"TargetCurve({ends}, {len(self.target)} targets, n = {self.n})"


@refuse_other_row_order
def score_by_target(
    correct: ArrayLike,
    *,
    answered: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    targets: ArrayLike | None = None,
    level: float = 0.95,
    clusters: ArrayLike | None = None,
) -> TargetCurve:
    r"""The score at each confidence target t, where a wrong answer costs t / (1 - t) and no answer 0.

    .. math:: \text{right} - \frac{t}{1-t}\,\text{wrong}

    Parameters
    ----------
    correct : array, shape (n,)
        How right each answer is, from 0 to 1; ignored where there is no answer.
    answered : array of bool, shape (n,), optional
        Which questions were attempted; by default all.
    confidence : array, shape (n,), optional
        The probability of being right, as the model states it or as computed, from 0 to 1. If it is given, an answer
        counts at target t only where its confidence is at least t, as a model would do that knows the target. Otherwise
        the same answers count at every target.
    targets : array, optional
        By default 0, 0.01 ... 0.95.
    level : float
        Confidence level of the intervals.
    clusters : array, shape (n,), optional
        One label per answer; answers with the same label are not independent.

    Returns
    -------
    TargetCurve

    Examples
    --------
    >>> curve = score_by_target([1, 1, 0, 0], confidence=[0.9, 0.7, 0.6, 0.2], targets=[0.5, 0.75])
    >>> curve.score  # two right and one wrong of four; then one right
    (0.25, 0.25)
    """
    name = "score_by_target"
    level = check_fraction(name, "level", level, open_high=True)
    answers = grade_answers(name, correct, answered)
    probabilities = None if confidence is None else check_probabilities(name, confidence, answers.attempted)
    chosen = np.linspace(0.0, 0.95, 96) if targets is None else np.asarray(to_host(targets), np.float64)
    ascending_targets = np.sort(chosen.reshape(-1)).tolist()
    attempted_shares = []
    intervals: list[Interval] = []
    for target in ascending_targets:
        counted = answers
        if probabilities is not None:  # an answer below the target counts as not attempted
            attempted = answers.attempted & (probabilities >= target)
            counted = GradedAnswers(right=np.where(attempted, answers.right, 0.0), attempted=attempted)
        attempted_shares.append(float(counted.attempted.mean()))
        estimated = estimate_from_answers(name, score_at_target(target), counted, clusters)
        intervals.append(estimated.interval(level))
    return TargetCurve(
        target=tuple(ascending_targets),
        score=tuple(interval.estimate for interval in intervals),
        low=tuple(interval.low for interval in intervals),
        high=tuple(interval.high for interval in intervals),
        attempted=tuple(attempted_shares),
        level=level,
        n=len(answers.right),
    )
