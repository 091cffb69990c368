"""Repeated answers to the same questions, as agents' logs have them: how often right once, and how often every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from abstain._arrays import ArrayLike
from abstain._check import check_count, check_fraction, refuse_other_row_order
from abstain.errors import InputError
from abstain.evaluation.graded import answer_entries
from abstain.evaluation.results import Entry, Evaluation
from abstain.metrics._sample import group_codes
from abstain.metrics.answer_metrics import ANSWER_METRICS, AnswerMetric, GradedAnswers, grade_answers

_AT_LEAST_ONCE = AnswerMetric(
    name="pass_at",
    label="right at least once in",
    summary="Share of questions answered right at least once in k attempts (pass@k).",
    numerator={"right": 1.0},
)
_EVERY_TIME = AnswerMetric(
    name="pass_all",
    label="right every time of",
    summary="Share of questions answered right in all of k attempts (pass^k).",
    numerator={"right": 1.0},
)


@refuse_other_row_order
def evaluate_repeats(
    correct: ArrayLike,
    question: ArrayLike,
    *,
    answered: ArrayLike | None = None,
    k: int | Sequence[int] | None = None,
    level: float = 0.95,
    clusters: ArrayLike | None = None,
) -> Evaluation:
    r"""Accuracy, right at least once (pass@k) and right every time (pass^k), where questions were asked repeatedly.

    .. math:: \text{pass@}k = 1 - \binom{n-c}{k} / \binom{n}{k}, \qquad
              \text{pass}^k = \binom{c}{k} / \binom{n}{k}

    for a question with c right answers of n: the expectations over k of its attempts. They are averaged over questions,
    and the questions (or clusters of them) are the independent draws of the intervals.

    Parameters
    ----------
    correct : array, shape (n,)
        1 for a right answer, 0 for a wrong one.
    question : array, shape (n,)
        The name of the question of each answer.
    answered : array of bool, shape (n,), optional
        Which attempts gave an answer; one without counts as not right.
    k : int or several, optional
        Numbers of attempts; by default the smallest number that a question has.
    level : float
        Confidence level of the intervals.
    clusters : array, shape (n,), optional
        One label per answer, the same for all answers to a question: questions with one label, such as those of one
        document, are not independent of each other.

    Returns
    -------
    Evaluation
        With the metrics "accuracy", and for each k "pass_at@k" and "pass_all@k", in one column "answers".

    Examples
    --------
    >>> table = evaluate_repeats([1, 1, 1, 0, 0, 0], ["a", "a", "b", "b", "c", "c"])
    >>> [round(table[name].estimate, 4) for name in ("accuracy", "pass_at@2", "pass_all@2")]
    [0.5, 0.6667, 0.3333]
    """
    name = "evaluate_repeats"
    level = check_fraction(name, "level", level, open_high=True)
    answers = grade_answers(name, correct, answered)
    if not np.isin(answers.right, (0.0, 1.0)).all():
        raise InputError(f"{name}: `correct` must be 0 or 1, since k attempts are right or wrong.")
    _, question_codes = group_codes(name, question, answers.right.shape, "question")
    attempt_counts = np.bincount(question_codes).astype(np.float64)
    right_counts = np.bincount(question_codes, answers.right)
    smallest = int(attempt_counts.min())
    attempt_numbers = [smallest] if k is None else np.atleast_1d(np.asarray(k)).tolist()
    for number in attempt_numbers:
        if check_count(name, "k", number) > smallest:
            raise InputError(
                f"{name}: `k` must be at most {smallest}, the attempts at some question, got {number}."
            )
    question_clusters = None
    if clusters is not None:
        question_clusters = _label_of_question(name, clusters, question_codes)

    def entry_of(metric: AnswerMetric, share_by_question: np.ndarray) -> Entry:
        """The mean over questions with its interval."""
        shares = GradedAnswers(share_by_question, np.ones(len(share_by_question), dtype=bool))
        return answer_entries(shares, [metric], level=level, clusters=question_clusters)[0]

    entries = [entry_of(ANSWER_METRICS["accuracy"], right_counts / attempt_counts)]
    for number in attempt_numbers:
        wrong_counts = attempt_counts - right_counts
        times = "attempt" if number == 1 else "attempts"
        at_least_once = replace(
            _AT_LEAST_ONCE, option=str(number), label=f"{_AT_LEAST_ONCE.label} {number} {times}"
        )
        every_time = replace(_EVERY_TIME, option=str(number), label=f"{_EVERY_TIME.label} {number} {times}")
        entries.append(entry_of(at_least_once, 1 - _chance_of_all(wrong_counts, attempt_counts, int(number))))
        entries.append(entry_of(every_time, _chance_of_all(right_counts, attempt_counts, int(number))))
    note = (
        f"{len(answers.right):,} answers to {len(attempt_counts):,} questions; intervals are over questions."
    )
    return Evaluation(entries=tuple(entries), n=len(attempt_counts), level=level, notes=(note,))


def _chance_of_all(counted: np.ndarray, total: np.ndarray, k: int) -> np.ndarray:
    """By question: the chance that k attempts, drawn without repetition from `total`, are all among the `counted`."""
    chance = np.ones(len(total))
    for drawn in range(k):
        chance = chance * np.maximum(counted - drawn, 0.0) / (total - drawn)
    return chance


def _label_of_question(function: str, clusters: ArrayLike, question_codes: np.ndarray) -> np.ndarray:
    """The cluster of each question as a whole number; InputError where answers to one question have several."""
    _, cluster_codes = group_codes(function, clusters, question_codes.shape, "clusters")
    labels = np.zeros(int(question_codes.max()) + 1, dtype=np.int64)
    labels[question_codes] = cluster_codes
    if not np.array_equal(labels[question_codes], cluster_codes):
        raise InputError(f"{function}: `clusters` must be the same for all answers to a question.")
    return labels
