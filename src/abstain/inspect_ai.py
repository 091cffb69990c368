"""Inside Inspect: AURC and risk at coverage of its own scores, and a scorer that logs how sure the model was.

A confidence is a number in a score's metadata; `with_confidence` puts one there. Where Inspect repeats samples
(epochs), those of one question are a cluster. Needs `inspect_ai`, which is imported here only.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from abstain.errors import InputError, MissingDependencyError
from abstain.formats.inspect_log import GRADES
from abstain.formats.log_rows import MEAN_TOKEN_LOGPROB, SEQUENCE_LOGPROB, token_signals
from abstain.formats.logs import Log, Rules
from abstain.lm_eval import interval_of

try:
    from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, accuracy, metric, scorer, stderr
    from inspect_ai.solver import TaskState
except ImportError as problem:
    raise MissingDependencyError("abstain.inspect_ai", "inspect_ai", "inspect") from problem

__all__ = ["aurc", "risk_at_coverage", "with_confidence"]

# all epochs, where this version of Inspect can hand them over; older ones hand over one score per sample
_every_epoch: Any = metric(scores="unreduced") if "scores" in inspect.signature(metric).parameters else metric


@_every_epoch  # type: ignore[untyped-decorator]
def aurc(confidence: str = "confidence", unanswered: str = "abstained", level: float = 0.95) -> Metric:
    """AURC with its interval; lower is better. See `abstain.aurc`.

    Equal confidences are accepted together. Epochs of one sample are a cluster.

    Parameters
    ----------
    confidence : str
        The number in the score's metadata, or in the sample's, by which answers are ranked.
    unanswered : {"abstained", "wrong"}
        A score of "N": never accepted and kept in the coverage, or wrong and ranked last.
    level : float
        Of the interval.

    Returns
    -------
    Metric
        With the values `aurc`, `aurc_low`, `aurc_high`.

    Examples
    --------
    >>> from inspect_ai.scorer import SampleScore, Score  # doctest: +SKIP
    >>> scores = [Score(value=v, metadata={"confidence": c}) for v, c in (("C", 0.9), ("I", 0.2), ("C", 0.5))]
    >>> aurc()([SampleScore(score=s) for s in scores])["aurc"]  # doctest: +SKIP
    0.1111111111111111
    """
    return functools.partial(_measured, "aurc", "aurc", confidence, unanswered, level, {})


@_every_epoch  # type: ignore[untyped-decorator]
def risk_at_coverage(
    coverage: float = 0.8, confidence: str = "confidence", unanswered: str = "abstained", level: float = 0.95
) -> Metric:
    """Error rate of the surest answers with its interval; lower is better. See `abstain.risk_at_coverage`.

    Parameters
    ----------
    coverage : float
        The share of all samples to answer, at least.
    confidence, unanswered, level
        As in `aurc`.

    Returns
    -------
    Metric
        With the values `risk_at_0.8`, `risk_at_0.8_low`, `risk_at_0.8_high` (of that coverage).

    Examples
    --------
    >>> from inspect_ai.scorer import SampleScore, Score  # doctest: +SKIP
    >>> scores = [Score(value=v, metadata={"confidence": c}) for v, c in (("C", 0.9), ("I", 0.2), ("C", 0.5))]
    >>> risk_at_coverage(0.6)([SampleScore(score=s) for s in scores])["risk_at_0.6"]  # doctest: +SKIP
    0.0
    """
    options = {"coverage": coverage}
    return functools.partial(
        _measured, "risk_at_coverage", f"risk_at_{coverage:g}", confidence, unanswered, level, options
    )


def _measured(
    metric_name: str,
    label: str,
    confidence: str,
    unanswered: str,
    level: float,
    options: dict[str, Any],
    scores: list[SampleScore],
) -> dict[str, float]:
    grades = [s.score.value for s in scores]
    known = [isinstance(g, (str, bool, int, float)) for g in grades]
    if not all(known):
        raise InputError(
            f"abstain.inspect_ai: a score must be one number or letter, got {grades[known.index(False)]!r}."
        )
    right = np.array([GRADES.get(g, np.nan) if isinstance(g, str) else float(g) for g in grades])
    places = [(s.score.metadata or {}, s.sample_metadata or {}) for s in scores]
    sure = np.array([next((float(m[confidence]) for m in p if confidence in m), np.nan) for p in places])
    if not np.isfinite(sure).any():
        raise InputError(
            f"abstain.inspect_ai: no score has a number {confidence!r} in its metadata. "
            f"Wrap the scorer: with_confidence(match(), ...)."
        )
    ids = np.unique([str(s.sample_id) for s in scores], return_inverse=True)[1]
    asked = None if all(s.sample_id is None for s in scores) else ids
    log = Log(
        "Inspect", "Inspect", 1 - right, np.array([g != "N" for g in grades]), {confidence: sure}, asked
    )
    rules = Rules(unanswered=unanswered, missing="last")
    found = interval_of(log, rules, metric_name, level, options)
    return {label: found.estimate, f"{label}_low": found.low, f"{label}_high": found.high}


@scorer(metrics=[accuracy(), stderr(), aurc(), risk_at_coverage()])  # type: ignore[untyped-decorator]
def with_confidence(
    inner: Scorer, confidence: str | Callable[[TaskState], float | None] = "mean_token_logprob"
) -> Scorer:
    r"""A scorer that logs, beside another scorer's verdict, how sure the model was.

    Parameters
    ----------
    inner : Scorer
        What says right or wrong: `match()`, `choice()` ...
    confidence : str or callable
        "mean_token_logprob" or "sequence_logprob" of the reply (generate with logprobs=True), a regular expression with
        one group that finds a stated number in it (r"confidence: *(\d+)"), or a function of the task's state.

    Returns
    -------
    Scorer
        Its metadata has "confidence", where there is one.

    Examples
    --------
    >>> from inspect_ai.scorer import match  # doctest: +SKIP
    >>> scorer = with_confidence(match(), r"confidence: *(\d+)")  # doctest: +SKIP
    """
    find = confidence if callable(confidence) else functools.partial(_found, confidence)

    async def score(state: TaskState, target: Target) -> Score | None:
        told = await inner(state, target)
        sure = find(state)
        if told is None or sure is None:
            return told
        return told.model_copy(update={"metadata": {**(told.metadata or {}), "confidence": float(sure)}})

    return score


def _found(how: str, state: TaskState) -> float | None:
    if how in (MEAN_TOKEN_LOGPROB, SEQUENCE_LOGPROB):
        choices = state.output.choices
        logprobs = choices[0].logprobs if choices else None
        return token_signals([t.logprob for t in logprobs.content] if logprobs else None).get(how)
    stated = re.findall(how, state.output.completion)
    return float(stated[-1]) if stated else None
