"""Right, wrong or not attempted: the score of a model that may decline to answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from abstain import _tables
from abstain._arrays import ArrayLike
from abstain._check import check_fraction, refuse_other_row_order
from abstain._stored import Stored
from abstain.inference.ratios import estimate_from_answers
from abstain.inference.records import Interval
from abstain.metrics.answer_metrics import ANSWER_METRICS, AnswerMetric, grade_answers, score_at_price


@dataclass(frozen=True, repr=False)
class ThreeWay(Stored, _tables.Notebook):
    """Shares of right, wrong and not attempted, and the score at a price of wrong answers.

    Parameters
    ----------
    right, wrong, not_attempted : Interval
        Shares of all questions.
    score : Interval
        Mean of 1 for a right answer, -price for a wrong one and 0 for none.
    price : float
        What a wrong answer costs, in units of what a right one is worth.

    Examples
    --------
    >>> three_way([1, 1, 0, 0], answered=[True, True, True, False]).not_attempted.estimate
    0.25
    """

    _noun: ClassVar[str] = "a three-way score"

    right: Interval
    wrong: Interval
    not_attempted: Interval
    score: Interval
    price: float

    def frame(self, library: str | None = None) -> Any:
        """A row for each of the four numbers."""
        rows = [self.right, self.wrong, self.not_attempted, self.score]
        return _tables.make_frame(
            _tables.collect_columns(rows, ("metric", "estimate", "low", "high", "n")), library
        )

    def __repr__(self) -> str:
        shares = ", ".join(
            f"{share.metric} {share.estimate:.1%} [{share.low:.1%}, {share.high:.1%}]"
            for share in (self.right, self.wrong, self.not_attempted)
        )
        score = f"score {self.score.estimate:.3g} [{self.score.low:.3g}, {self.score.high:.3g}]"
        return f"{shares}; {score}, a wrong answer costing {self.price:g}"


@refuse_other_row_order  # InputError for pandas columns whose rows are in different orders
def three_way(
    correct: ArrayLike,
    *,
    answered: ArrayLike | None = None,
    price: float = 1.0,
    level: float = 0.95,
    clusters: ArrayLike | None = None,
) -> ThreeWay:
    r"""Shares of right, wrong and not attempted, and a score in which a wrong answer is worse than none.

    .. math:: \frac1n\sum_i a_i\,\bigl(c_i - p\,(1 - c_i)\bigr)

    With :math:`p = 0` the score is the accuracy over all questions, so that guessing costs nothing; at price p an
    answer pays if it is right with probability above :math:`p/(1+p)`.

    Parameters
    ----------
    correct : array, shape (n,)
        How right each answer is, from 0 to 1; ignored where there is no answer.
    answered : array of bool, shape (n,), optional
        Which questions have an answer; by default all.
    price : float
        What a wrong answer costs, in units of what a right one is worth.
    level : float
        Confidence level of the intervals.
    clusters : array, shape (n,), or two of them, optional
        One label per answer; answers with the same label (such as those to one question) are not independent. Two
        vectors are two kinds of clusters that cross.

    Returns
    -------
    ThreeWay
        The shares with the limits of proportions, the score with limits that combine those of the right and of
        the wrong share. Without a wrong answer in the data, the lower limit of the score still allows for the wrong
        answers that a sample of this size can miss.

    Examples
    --------
    >>> three_way([1] * 60 + [0] * 30 + [0] * 10, answered=[True] * 90 + [False] * 10, price=1)
    right 60.0% [50.2%, 69.2%], wrong 30.0% [21.7%, 39.5%], not attempted 10.0% [5.3%, 17.0%];
    score 0.3 [0.117, 0.466], a wrong answer costing 1
    """
    level = check_fraction("three_way", "level", level, open_high=True)
    answers = grade_answers("three_way", correct, answered)

    def measure(metric: AnswerMetric, name: str) -> Interval:
        """The interval of a metric of these answers, under the name that a sentence has for it."""
        # raises where there are too few answers or clusters for an interval
        interval = estimate_from_answers("three_way", metric, answers, clusters).interval(level)
        return replace(interval, metric=name)

    # shares of all questions
    return ThreeWay(
        right=measure(ANSWER_METRICS["accuracy"], "right"),
        wrong=measure(ANSWER_METRICS["wrong"], "wrong"),
        not_attempted=measure(ANSWER_METRICS["not_attempted"], "not attempted"),
        score=measure(score_at_price(price), "score"),  # raises for a negative price
        price=float(price),
    )
