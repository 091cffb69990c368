"""Right, wrong or not attempted: the score of a model that may decline to answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from abstain import _tables
from abstain._arrays import Array, to_host
from abstain._check import check_nonnegative
from abstain._stored import Stored
from abstain.errors import InputError
from abstain.inference import Interval, influence, interval, standard_error
from abstain.metrics._sample import group_codes


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
        return _tables.make_frame(
            _tables.collect_columns(rows, ("metric", "estimate", "low", "high", "n")), library
        )

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
        The shares with the limits of proportions, the score with limits that combine those of the right and of
        the wrong share. With no wrong answer seen the score may still be as low as the wrong answers that a sample
        of this size can miss would make it.

    Examples
    --------
    >>> three_way([1] * 60 + [0] * 30 + [0] * 10, answered=[True] * 90 + [False] * 10, price=1)
    right 60.0% [50.2%, 69.2%], wrong 30.0% [21.7%, 39.5%], not attempted 10.0% [5.3%, 17.0%];
    score 0.3 [0.117, 0.466], a wrong answer costing 1
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

    def share(name: str, values: np.ndarray) -> Interval:
        limits = interval(
            "risk_at_coverage", values, np.zeros(len(values)), coverage=1.0, level=level, clusters=clusters
        )
        return replace(limits, metric=name, high=min(limits.high, 1.0))

    wrongness = np.where(a, 1 - c, 0.0)
    right = share("right", c)
    wrong = share("wrong", wrongness)
    return ThreeWay(
        right=right,
        wrong=wrong,
        not_attempted=share("not attempted", (~a).astype(np.float64)),
        score=_score(right, wrong, c, wrongness, price, clusters),
        price=price,
    )


def _score(
    right: Interval,
    wrong: Interval,
    rightness: np.ndarray,
    wrongness: np.ndarray,
    price: float,
    clusters: Array | None,
) -> Interval:
    r"""Interval of `right - price * wrong` from the limits of the two shares.

    .. math:: \mathrm{low} = s - \sqrt{x^2 + y^2 - 2\rho\,x y}

    with x the distance of the right share to its lower limit, y the price times the distance of the wrong share to
    its upper limit, and rho the correlation of the two; the upper limit takes the opposite distances. A share of
    which nothing was seen still has an upper limit, so a high price shows in the interval before the first wrong
    answer does. (A symmetric interval has no width for what was not seen.)
    """
    influence_right = influence("risk", rightness, rightness).values
    influence_wrong = influence("risk", wrongness, wrongness).values
    if clusters is not None:
        _, cluster = group_codes("three_way", clusters, rightness.shape, "clusters")
        influence_right = np.bincount(cluster, influence_right)
        influence_wrong = np.bincount(cluster, influence_wrong)
    spread = math.sqrt(float(influence_right @ influence_right) * float(influence_wrong @ influence_wrong))
    if spread > 0:
        rho = float(influence_right @ influence_wrong) / spread
    else:  # one share shows no spread; if every question was answered, the shares still sum to one
        rho = -1.0 if np.all(rightness + wrongness == 1) else 0.0

    def distance(of_right: float, of_wrong: float) -> float:
        priced = price * of_wrong
        return math.sqrt(max(of_right**2 + priced**2 - 2 * rho * of_right * priced, 0.0))

    estimate = right.estimate - price * wrong.estimate
    low = estimate - distance(right.estimate - right.low, wrong.high - wrong.estimate)
    high = estimate + distance(right.high - right.estimate, wrong.estimate - wrong.low)
    shortfall = 1 - rightness + price * wrongness
    return Interval(
        metric="score",
        estimate=estimate,
        standard_error=standard_error("risk", shortfall, shortfall, clusters=clusters),
        low=max(low, -price),
        high=min(high, 1.0),
        level=right.level,
        method="limits of both shares",
        n=right.n,
    )
