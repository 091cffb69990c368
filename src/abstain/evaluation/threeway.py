"""Right, wrong or not attempted: the score of a model that may decline to answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from abstain import _tables
from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import check_nonnegative
from abstain._stored import Stored
from abstain.errors import InputError
from abstain.inference import Interval, influence, interval, standard_error
from abstain.inference.clusters import cluster_codes, split_kinds, two_way_variance


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
    price = check_nonnegative("three_way", "price", price)
    try:
        correctness = np.asarray(to_host(correct), np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise InputError("three_way: `correct` must hold numbers from 0 to 1, got other values.") from None
    if answered is None:
        has_answer = np.ones(len(correctness), bool)
    else:
        has_answer = np.asarray(to_host(answered)).reshape(-1)
    if len(has_answer) != len(correctness):
        raise InputError(
            f"three_way: `answered` must have {len(correctness)} values as `correct`, got {len(has_answer)}."
        )
    if not np.isin(has_answer, (False, True)).all():  # the word "no" would count as true
        raise InputError("three_way: `answered` must hold true or false for each question, got other values.")
    has_answer = has_answer.astype(bool)
    rightness = np.where(has_answer, correctness, 0.0)
    if not ((rightness >= 0) & (rightness <= 1)).all():
        raise InputError("three_way: `correct` must lie between 0 and 1.")
    wrongness = np.where(has_answer, 1 - rightness, 0.0)

    def share(name: str, values: np.ndarray) -> Interval:
        """The interval of the mean of values between 0 and 1, one per question."""
        limits = interval(
            "risk_at_coverage", values, np.zeros(len(values)), coverage=1.0, level=level, clusters=clusters
        )
        return replace(limits, metric=name, high=min(limits.high, 1.0))

    right = share("right", rightness)
    wrong = share("wrong", wrongness)
    return ThreeWay(
        right=right,
        wrong=wrong,
        not_attempted=share("not attempted", (~has_answer).astype(np.float64)),
        score=_score(right, wrong, rightness, wrongness, price, clusters),
        price=price,
    )


def _correlation(x: np.ndarray, y: np.ndarray, clusters: np.ndarray | None) -> float | None:
    """Correlation of two means whose samples have the influences x and y; None if one of them has no spread.

    `clusters` are codes of one kind, shape (n,), of two crossed kinds, shape (n, 2), or None. With two kinds,
    covariances are those by the first kind plus those by the second less those by their intersections; such a
    correlation may leave [-1, 1] by chance, and is cut off there.
    """
    kinds: tuple[np.ndarray, ...] = (np.arange(len(x)),)
    if clusters is not None:
        kinds = split_kinds(clusters) if clusters.ndim == 2 else (clusters,)
    x_sums = [np.bincount(codes, x) for codes in kinds]
    y_sums = [np.bincount(codes, y) for codes in kinds]
    covariances = [float(x_of_kind @ y_of_kind) for x_of_kind, y_of_kind in zip(x_sums, y_sums)]
    x_variances = [float(x_of_kind @ x_of_kind) for x_of_kind in x_sums]
    y_variances = [float(y_of_kind @ y_of_kind) for y_of_kind in y_sums]
    covariance = covariances[0]
    x_variance = x_variances[0]
    y_variance = y_variances[0]
    if len(kinds) > 1:
        covariance = covariances[0] + covariances[1] - covariances[2]
        x_variance = float(two_way_variance(*x_variances))
        y_variance = float(two_way_variance(*y_variances))
    product_of_deviations = math.sqrt(x_variance * y_variance)
    if product_of_deviations == 0:
        return None
    return min(1.0, max(-1.0, covariance / product_of_deviations))


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
    its upper limit, and rho the correlation of the two; the upper limit takes the opposite distances. A share of zero
    still has an upper limit above zero, so a high price widens the interval even before the first wrong answer. (A
    symmetric interval would have no width there.)

    `rightness` and `wrongness` have one value per question, both 0 where there is no answer; `right` and `wrong` are
    the intervals of their means. rho is computed from the influences of the questions, or of clusters of them.
    """
    # the risk does not read the confidence, so any vector may stand for it
    influence_right = influence("risk", rightness, rightness).values
    influence_wrong = influence("risk", wrongness, wrongness).values
    codes = cluster_codes("three_way", clusters, len(rightness))
    rho = _correlation(influence_right, influence_wrong, codes)
    if rho is None:  # one share shows no spread; if every question was answered, the shares still sum to one
        rho = -1.0 if np.all(rightness + wrongness == 1) else 0.0

    def distance_to_limit(x: float, wrong_distance: float) -> float:
        y = price * wrong_distance
        return math.sqrt(max(x**2 + y**2 - 2 * rho * x * y, 0.0))

    estimate = right.estimate - price * wrong.estimate
    low = estimate - distance_to_limit(right.estimate - right.low, wrong.high - wrong.estimate)
    high = estimate + distance_to_limit(right.high - right.estimate, wrong.estimate - wrong.low)
    shortfall = (
        1 - rightness + price * wrongness
    )  # 1 less the score of each question: the same spread, at least 0
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
