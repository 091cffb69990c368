"""Right, wrong or not attempted: the score of a model that may decline to answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from abstain import _tables
from abstain._arrays import Array, to_host
from abstain._check import check_nonnegative
from abstain._stored import Stored
from abstain.errors import InputError
from abstain.inference import Interval, interval


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
        What a wrong answer costs, beside what a right one is worth.

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
        return _tables.frame(_tables.columns_of(rows, ("metric", "estimate", "low", "high", "n")), library)

    def __repr__(self) -> str:
        shares = ", ".join(
            f"{found.metric} {found.estimate:.1%} [{found.low:.1%}, {found.high:.1%}]"
            for found in (self.right, self.wrong, self.not_attempted)
        )
        found = self.score
        cost = f"a wrong answer costing {self.price:g}"
        return f"{shares}; score {found.estimate:.3g} [{found.low:.3g}, {found.high:.3g}], {cost}"


def three_way(
    correct: Array,
    *,
    answered: Array | None = None,
    price: float = 1.0,
    level: float = 0.95,
    clusters: Array | None = None,
) -> ThreeWay:
    r"""Shares of right, wrong and not attempted, and a score in which a wrong answer is worse than none.

    .. math:: \frac1n\sum_i a_i\,\bigl(c_i - p\,(1 - c_i)\bigr)

    With :math:`p = 0` the score is the accuracy over all questions, so that guessing costs nothing; at price p an
    answer pays if it is right with probability above :math:`p/(1+p)`.

    Parameters
    ----------
    correct : array, shape (n,)
        How right each answer is, from 0 to 1; not read where there is no answer.
    answered : array of bool, shape (n,), optional
        Which questions have an answer; by default all.
    price : float
        What a wrong answer costs.
    level : float
        Of the intervals.
    clusters : array, shape (n,), optional
        Answers to one question, which are not independent.

    Returns
    -------
    ThreeWay
        Each number with the interval that `abstain.inference.interval` gives for a mean.

    Examples
    --------
    >>> found = three_way([1] * 60 + [0] * 30 + [0] * 10, answered=[True] * 90 + [False] * 10, price=1)
    >>> found
    right 60.0% [50.2%, 69.2%], wrong 30.0% [21.7%, 39.5%], not attempted 10.0% [5.3%, 17.0%];
    score 0.3 [0.121, 0.479], a wrong answer costing 1
    """
    price = check_nonnegative("three_way", "price", price)
    try:
        c = np.asarray(to_host(correct), np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise InputError("three_way: `correct` must hold numbers from 0 to 1, got other values.") from None
    a = np.ones(len(c), bool) if answered is None else np.asarray(to_host(answered)).reshape(-1)
    if len(a) != len(c):
        raise InputError(f"three_way: `answered` must have {len(c)} values as `correct`, got {len(a)}.")
    if not np.isin(a, (False, True)).all():  # the word "no" would count as true
        raise InputError("three_way: `answered` must hold true or false for each question, got other values.")
    a = a.astype(bool)
    c = np.where(a, c, 0.0)
    if not ((c >= 0) & (c <= 1)).all():
        raise InputError("three_way: `correct` must lie between 0 and 1.")

    def mean(name: str, values: np.ndarray, metric: str = "risk_at_coverage", **options: Any) -> Interval:
        own = {"coverage": 1.0} if metric == "risk_at_coverage" else options
        found = interval(metric, values, np.zeros(len(c)), level=level, clusters=clusters, **own)
        return replace(found, metric=name, high=min(found.high, 1.0) if metric != "risk" else found.high)

    # how far it falls short of all right, which is a loss
    short = mean(
        "score", np.where(a, (1 + price) * (1 - c), 1.0), "risk", loss_bound=1 + price, method="normal"
    )
    low, high = max(-price, 1 - short.high), min(1.0, 1 - short.low)
    right, wrong = mean("right", c), mean("wrong", np.where(a, 1 - c, 0.0))
    if short.standard_error == 0 and short.estimate > 0:  # all wrong, or nothing attempted, so far
        low, high = max(-price, right.low - price * wrong.high), right.high - price * wrong.low
    score = replace(short, estimate=1 - short.estimate, low=low, high=high)
    return ThreeWay(right, wrong, mean("not attempted", (~a).astype(np.float64)), score, price)
