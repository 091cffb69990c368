"""Inside Inspect: AURC and risk at coverage of its scores, and a scorer that logs a confidence.

A confidence is a number in a score's metadata; `with_confidence` puts one there. Where Inspect repeats samples
(epochs), those of one question are a cluster. Needs `inspect_ai`, which is imported here only.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from abstain._check import check_choice
from abstain.calibration.table_metrics import CALIBRATION_METRICS
from abstain.errors import DataError, InfeasibleError, InputError, MissingDependencyError
from abstain.evaluation import evaluate_repeats
from abstain.formats.inspect_log import GRADES
from abstain.formats.log_rows import MEAN_TOKEN_LOGPROB, SEQUENCE_LOGPROB, summarise_token_logprobs
from abstain.formats.logs import MIN_ROWS_TO_JUDGE_SCALE, Log, Rules, find_fractions
from abstain.inference import Interval
from abstain.lm_eval import interval_without_ranking, log_interval
from abstain.metrics import answer_metric

try:
    from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, accuracy, metric, scorer, stderr
    from inspect_ai.solver import TaskState
except ImportError as error:
    raise MissingDependencyError("abstain.inspect_ai", "inspect_ai", "inspect") from error

__all__ = ["answer_score", "aurc", "calibration_error", "pass_k", "risk_at_coverage", "with_confidence"]

# Current versions of Inspect can pass the scores of all epochs to a metric; older ones pass one score per sample.
_can_pass_all_epochs = "scores" in inspect.signature(metric).parameters
_register_metric_of_all_epochs: Any = metric(scores="unreduced") if _can_pass_all_epochs else metric


@_register_metric_of_all_epochs  # type: ignore[untyped-decorator]
def aurc(confidence: str = "confidence", unanswered: str = "abstained", level: float = 0.95) -> Metric:
    """AURC with its interval; lower is better. See `abstain.aurc`.

    Equal confidences are accepted together, and a score without a confidence is ranked last. Epochs of one sample are a
    cluster.

    Parameters
    ----------
    confidence : str
        Name of the number in the score's metadata, or in the sample's, by which answers are ranked.
    unanswered : {"abstained", "wrong"}
        How a score of "N" (no answer) counts: never accepted and kept in the coverage, or wrong and ranked last.
    level : float
        Level of the interval.

    Returns
    -------
    Metric
        With the values `aurc`, `aurc_low`, `aurc_high`; without any value while there are too few answers.

    Examples
    --------
    >>> from inspect_ai.scorer import SampleScore, Score  # doctest: +SKIP
    >>> scores = [Score(value=v, metadata={"confidence": c}) for v, c in (("C", 0.9), ("I", 0.2), ("C", 0.5))]
    >>> aurc()([SampleScore(score=s) for s in scores])["aurc"]  # doctest: +SKIP
    0.1111111111111111
    """

    def measure(scores: list[SampleScore]) -> dict[str, float]:
        # the decorator asks Inspect for one score per sample and epoch (older versions pass one per sample)
        log = _make_log(scores, confidence)  # losses, and the number to rank by, one row per score
        rules = Rules(unanswered=unanswered, missing="last")  # without a confidence: ranked last
        # {"aurc": ..., "aurc_low": ..., "aurc_high": ...}; empty while there are too few answers
        return _measure_if_defined(
            log,
            rows=log.scored,  # a mask: scores that are a grade or no answer
            label="aurc",
            compute_interval=lambda: log_interval(log, "aurc", rules=rules, level=level, metric_options={}),
        )

    return measure


@_register_metric_of_all_epochs  # type: ignore[untyped-decorator]
def risk_at_coverage(
    coverage: float = 0.8, confidence: str = "confidence", unanswered: str = "abstained", level: float = 0.95
) -> Metric:
    """Error rate of the most confident answers with its interval; lower is better. See `abstain.risk_at_coverage`.

    A score without a confidence is ranked last.

    Parameters
    ----------
    coverage : float
        Share of all samples to answer, at least.
    confidence : str
        Name of the number in the score's metadata, or in the sample's, by which answers are ranked.
    unanswered : {"abstained", "wrong"}
        How a score of "N" (no answer) counts: never accepted and kept in the coverage, or wrong and ranked last.
    level : float
        Level of the interval.

    Returns
    -------
    Metric
        With the values `risk_at_0.8`, `risk_at_0.8_low`, `risk_at_0.8_high` (of that coverage); without any value while
        there are too few answers.

    Examples
    --------
    >>> from inspect_ai.scorer import SampleScore, Score  # doctest: +SKIP
    >>> scores = [Score(value=v, metadata={"confidence": c}) for v, c in (("C", 0.9), ("I", 0.2), ("C", 0.5))]
    >>> risk_at_coverage(0.6)([SampleScore(score=s) for s in scores])["risk_at_0.6"]  # doctest: +SKIP
    0.0
    """

    def measure(scores: list[SampleScore]) -> dict[str, float]:
        # the decorator asks Inspect for one score per sample and epoch (older versions pass one per sample)
        log = _make_log(scores, confidence)  # losses, and the number to rank by, one row per score
        rules = Rules(unanswered=unanswered, missing="last")  # without a confidence: ranked last
        options = {"coverage": coverage}
        # the estimate and its two limits under this label; empty while there are too few answers
        return _measure_if_defined(
            log,
            rows=log.scored,  # a mask: scores that are a grade or no answer
            label=f"risk_at_{coverage:g}",
            compute_interval=lambda: log_interval(
                log, "risk_at_coverage", rules=rules, level=level, metric_options=options
            ),
        )

    return measure


@_register_metric_of_all_epochs  # type: ignore[untyped-decorator]
def answer_score(name: str = "simpleqa_f", level: float = 0.95, unanswerable: str = "unanswerable") -> Metric:
    """A score of graded answers with its interval, such as SimpleQA's F; no confidence is needed.

    A score of "N" (no answer) is not attempted. Epochs of one sample are a cluster.

    Parameters
    ----------
    name : str
        As in `abstain.metrics.answer_metric`: "accuracy_given_attempted", "simpleqa_f", "hallucination_rate",
        "omniscience_index", "score_at_target@0.75", "abstention_f1" ...
    level : float
        Level of the interval.
    unanswerable : str
        Name of the truth value in the score's metadata, or in the sample's, that says whether a question has no answer;
        read for abstention recall, precision and F1 only.

    Returns
    -------
    Metric
        With the values `NAME`, `NAME_low`, `NAME_high`.

    Examples
    --------
    >>> from inspect_ai.scorer import SampleScore, Score  # doctest: +SKIP
    >>> scores = [SampleScore(score=Score(value=v)) for v in ("C", "C", "I", "N")]  # doctest: +SKIP
    >>> answer_score("simpleqa_f")(scores)["simpleqa_f"]  # 2 * 2 / (4 + 3)  # doctest: +SKIP
    0.5714285714285714
    """
    # InputError, whose message begins with "answer_score", for an unknown name
    chosen_metric = answer_metric(name, "answer_score")

    def measure(scores: list[SampleScore]) -> dict[str, float]:
        # the decorator asks Inspect for one score per sample and epoch (older versions pass one per sample)
        log = _make_log(scores, None)  # losses, one row per score; None: no confidence is read
        if chosen_metric.needs_unanswerable:  # abstention recall, precision and F1
            log = replace(log, unanswerable=_find_unanswerable(scores, unanswerable))
        # the estimate and its two limits under the metric's name; empty while there are too few answers
        return _measure_if_defined(
            log,
            rows=log.scored,  # a mask: scores that are a grade or no answer
            label=chosen_metric.key,
            compute_interval=lambda: interval_without_ranking(log, chosen_metric, level=level),
        )

    return measure


@_register_metric_of_all_epochs  # type: ignore[untyped-decorator]
def calibration_error(confidence: str = "confidence", scale: str = "fraction", level: float = 0.95) -> Metric:
    """Calibration error of a confidence with its interval; lower is better. See `abstain.calibration`.

    Parameters
    ----------
    confidence : str
        Name of the number in the score's metadata, or in the sample's.
    scale : {"fraction", "percent"}
        Whether that number is a probability from 0 to 1 or a percentage.
    level : float
        Level of the interval.

    Returns
    -------
    Metric
        With the values `calibration_error`, `calibration_error_low`, `calibration_error_high`.

    Examples
    --------
    >>> from inspect_ai.scorer import SampleScore, Score  # doctest: +SKIP
    >>> scores = [Score(value=v, metadata={"confidence": 0.8}) for v in "CCCCI" * 20]  # doctest: +SKIP
    >>> calibration_error()([SampleScore(score=s) for s in scores])["calibration_error"]  # doctest: +SKIP
    0.0
    """

    check_choice("calibration_error", "scale", scale, ("fraction", "percent"))

    def measure(scores: list[SampleScore]) -> dict[str, float]:
        # the decorator asks Inspect for one score per sample and epoch (older versions pass one per sample)
        log = _make_log(scores, confidence)
        if scale == "percent":
            numbers = log.signals[confidence]  # the log's confidences, by name
            # a sentence if they are all fractions, which cannot be percentages; "" if not, or if there are few
            problem = find_fractions(confidence, numbers, min_rows_to_judge=MIN_ROWS_TO_JUDGE_SCALE)
            if problem:
                raise InputError(f'calibration_error: {problem} Leave scale="percent" out.')
            log = replace(log, signals={confidence: numbers / 100})
        metric = CALIBRATION_METRICS["calibration_error"]
        # the estimate and its two limits; empty while there are too few answers with a confidence
        return _measure_if_defined(
            log,
            rows=log.scored & log.answered & np.isfinite(log.signals[confidence]),
            label=metric.key,
            compute_interval=lambda: interval_without_ranking(log, metric, level=level),
        )

    return measure


@_register_metric_of_all_epochs  # type: ignore[untyped-decorator]
def pass_k(k: int = 1, level: float = 0.95) -> Metric:
    """Right at least once in k epochs (pass@k) and right in all of them (pass^k), with intervals over samples.

    Parameters
    ----------
    k : int
        Number of epochs, at most as many as the task has.
    level : float
        Level of the intervals.

    Returns
    -------
    Metric
        With the values `pass_at@K` and `pass_all@K`, each with `_low` and `_high`.

    Examples
    --------
    >>> from inspect_ai.scorer import SampleScore, Score  # doctest: +SKIP
    >>> scores = [SampleScore(score=Score(value=v), sample_id=s) for v, s in zip("CICC", "aabb")]  # doctest: +SKIP
    >>> pass_k(2)(scores)["pass_all@2"]  # doctest: +SKIP
    0.5
    """

    def measure(scores: list[SampleScore]) -> dict[str, float]:
        # the decorator asks Inspect for one score per sample and epoch (older versions pass one per sample)
        log = _make_log(scores, None)  # losses, one row per score; None: no confidence is read
        rows = log.scored  # a mask: scores that are a grade or no answer
        question = _question_of_row(log)  # a number for each row, equal for the epochs of one sample
        epoch_counts = np.unique(question[rows], return_counts=True)[1]  # of the samples that were scored
        if len(epoch_counts) < 2:  # of a run that has just begun
            return {}
        if epoch_counts.min() < k:  # some question does not have its epochs yet
            return {}
        # An entry for each metric: accuracy, pass@k and pass^k. A correctness is 1 for right, 0 for wrong or no answer.
        table = evaluate_repeats(
            1 - log.losses_with_unanswered_wrong(rows),
            question[rows],
            answered=log.answered[rows],
            k=k,
            level=level,
        )
        values: dict[str, float] = {}
        for entry in table.entries:
            # Inspect has an accuracy of its own; an estimate is None where it is undefined
            if entry.metric == "accuracy" or entry.estimate is None:
                continue
            values[entry.metric] = entry.estimate
            if entry.low is not None and entry.high is not None:
                values |= {f"{entry.metric}_low": entry.low, f"{entry.metric}_high": entry.high}
        return values

    return measure


def _make_log(scores: list[SampleScore], confidence: str | None) -> Log:
    """Return Inspect's scores as a log of answers, one row per score (several per sample where there are epochs).

    `confidence` names the number in the metadata to rank by, NaN for a score without it; None: no confidence is read. A
    score is a number from 0 (wrong) to 1 (right), or a letter: "C" right, "I" wrong, "P" half right, "N" no answer, any
    other not scored (NaN). Scores of one sample id are repeats of one question.

    InputError where a score is neither a number nor a text, or where no score has the confidence.
    """
    grades = [sample_score.score.value for sample_score in scores]
    for grade in grades:
        if not isinstance(grade, (str, bool, int, float)):
            raise InputError(f"abstain.inspect_ai: a score must be one number or letter, got {grade!r}.")
    # GRADES maps the letters "C", "I", "P" and "N" to numbers; "N" is 0 there, and counts by `answered` below
    correctness = [GRADES.get(grade, np.nan) if isinstance(grade, str) else float(grade) for grade in grades]
    signals = {}
    if confidence is not None:
        signals[confidence] = np.array(
            [_find_confidence(sample_score, confidence) for sample_score in scores]
        )
        if not np.isfinite(signals[confidence]).any():
            raise InputError(
                f"abstain.inspect_ai: no score has a number {confidence!r} in its metadata. "
                f"Wrap the scorer: with_confidence(match(), ...)."
            )
    question_numbers = None
    if any(sample_score.sample_id is not None for sample_score in scores):
        sample_ids = [str(sample_score.sample_id) for sample_score in scores]
        question_numbers = np.unique(sample_ids, return_inverse=True)[1]  # equal for scores of one sample
    return Log(
        path="Inspect",
        tool="Inspect",
        loss=1 - np.array(correctness),
        answered=np.array([grade != "N" for grade in grades]),
        signals=signals,
        question=question_numbers,
    )


def _question_of_row(log: Log) -> np.ndarray:
    """Return a number for the question of each row; scores without sample ids are of as many questions."""
    return np.arange(log.n) if log.question is None else np.asarray(log.question)


def _measure_if_defined(
    log: Log, rows: np.ndarray, label: str, compute_interval: Callable[[], Interval]
) -> dict[str, float]:
    """Return an interval as {label: estimate, label_low: ..., label_high: ...}; empty where it has too few answers.

    `log` holds the answers, one row per score, and `rows` is a mask of those that the metric reads. Inspect also
    computes metrics while a run is under way, and an error would end the run. Mistakes in the task, such as a
    confidence that no score has, still raise.
    """
    # a number for each row, equal for rows of one question; an interval needs two questions
    if len(np.unique(_question_of_row(log)[rows])) < 2:
        return {}
    try:
        return _label_limits(label, compute_interval())  # as the dict above
    except (InfeasibleError, DataError):  # for example, nothing was answered so far
        return {}


def _label_limits(label: str, result: Interval) -> dict[str, float]:
    """Return an estimate and its limits under the names that Inspect's log shows."""
    return {label: result.estimate, f"{label}_low": result.low, f"{label}_high": result.high}


def _find_confidence(sample_score: SampleScore, name: str) -> float:
    """Return the number of that name in the metadata of the score, or else of the sample; NaN where there is none."""
    value = _find_in_metadata(sample_score, name)
    return float("nan") if value is None else float(value)


def _find_unanswerable(scores: list[SampleScore], name: str) -> np.ndarray:
    """Return for each score whether its question has no answer, by the truth value of that name in the metadata.

    InputError where a score and its sample lack it, or where it is neither true nor false.
    """
    # from the score's metadata, or else the sample's; None where neither has it
    values = [_find_in_metadata(sample_score, name) for sample_score in scores]
    for value in values:
        if value not in (True, False):
            raise InputError(
                f"abstain.inspect_ai: the metadata of every sample must say true or false under {name!r}, "
                f"got {value!r}."
            )
    return np.array(values, dtype=bool)


def _find_in_metadata(sample_score: SampleScore, name: str) -> Any:
    """Return the value of that name in the metadata of the score, or else of the sample; None where there is none."""
    for metadata in (sample_score.score.metadata or {}, sample_score.sample_metadata or {}):
        if name in metadata:
            return metadata[name]
    return None


@scorer(metrics=[accuracy(), stderr(), aurc(), risk_at_coverage()])  # type: ignore[untyped-decorator]
def with_confidence(
    inner: Scorer, confidence: str | Callable[[TaskState], float | None] = "mean_token_logprob"
) -> Scorer:
    r"""Make a scorer that adds the model's confidence to another scorer's verdict.

    Parameters
    ----------
    inner : Scorer
        The scorer that says right or wrong: `match()`, `choice()` ...
    confidence : str or callable
        "mean_token_logprob" or "sequence_logprob" of the reply (generate with logprobs=True), a regular expression with
        one group that finds a stated number in it (r"confidence: *(\d+)"), or a function of the task's state.

    Returns
    -------
    Scorer
        The inner scorer's score, with "confidence" in its metadata where there is one.

    Examples
    --------
    >>> from inspect_ai.scorer import match  # doctest: +SKIP
    >>> scorer = with_confidence(match(), r"confidence: *(\d+)")  # doctest: +SKIP
    """
    # The decorator names the metrics that Inspect reports where a task uses this scorer.
    # takes the task's state and returns a number, or None where the reply has no confidence
    read_confidence = confidence if callable(confidence) else functools.partial(_read_reply, confidence)

    async def score(state: TaskState, target: Target) -> Score | None:
        inner_score = await inner(state, target)
        model_confidence = read_confidence(state)
        if inner_score is None or model_confidence is None:
            return inner_score
        metadata = {**(inner_score.metadata or {}), "confidence": float(model_confidence)}
        return inner_score.model_copy(update={"metadata": metadata})

    return score


def _read_reply(source: str, state: TaskState) -> float | None:
    """Return the confidence of the model's reply; None where there is none.

    `source` is "mean_token_logprob" or "sequence_logprob" (None where the reply came without token log-probabilities),
    or a regular expression with one group, whose last match in the reply is the stated number. ValueError where that
    match is no number.
    """
    if source in (MEAN_TOKEN_LOGPROB, SEQUENCE_LOGPROB):
        choices = state.output.choices
        logprobs = choices[0].logprobs if choices else None
        token_logprobs = [token.logprob for token in logprobs.content] if logprobs else None
        # a dict with both confidences, empty without token log-probabilities
        return summarise_token_logprobs(token_logprobs).get(source)
    stated_numbers = re.findall(source, state.output.completion)
    return float(stated_numbers[-1]) if stated_numbers else None
