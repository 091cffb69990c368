"""Metrics of graded answers: accuracy, SimpleQA's F, hallucination rate and other numbers that benchmarks report.

Each answer is right, wrong or not attempted, and no confidence is read. Every such metric is a ratio of two weighted
counts of questions, for example SimpleQA's F

    2 * right / (questions + right + wrong),

so a definition states the weights, and value, range and error bar follow from them. A score of your own is one more
object:

    minus_a_quarter = AnswerMetric(
        name="minus_a_quarter",
        label="score with 1/4 off",
        summary="Right answers less a quarter of the wrong ones, per question.",
        numerator={"right": 1.0, "wrong": -0.25},
    )
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import ArrayLike, to_host
from abstain._check import check_fraction, check_nonnegative
from abstain._names import suggest_name
from abstain.errors import InfeasibleError, InputError
from abstain.metrics.metric import write_number

TARGETS = (0.5, 0.75, 0.9)  # confidence targets that tables show
COUNTED = (
    "question",
    "right",
    "wrong",
    "attempted",
    "not_attempted",
    "unanswerable",
    "unanswerable_not_attempted",
)
"""What the weights of an `AnswerMetric` may refer to. "question" counts every question."""


class GradedAnswers(NamedTuple):
    """Checked answers to n questions, one entry per question.

    Attributes
    ----------
    right : ndarray of float
        How right the answer is, from 0 to 1; 0 where there is none.
    attempted : ndarray of bool
        Whether there is an answer.
    unanswerable : ndarray of bool or None
        Whether the question has no answer, so that not attempting it is right; None where this is not known.
    """

    right: np.ndarray
    attempted: np.ndarray
    unanswerable: np.ndarray | None = None

    def weighted_count(self, weights: Mapping[str, float]) -> np.ndarray:
        """What each question adds to a weighted count: the sum of the weights times what the question is.

        `weights` has names of `COUNTED` as keys. InputError for another name, and for the two about unanswerable
        questions where it is not known which these are.
        """
        total = np.zeros(len(self.right))
        for name, weight in weights.items():
            total = total + weight * self._column(name)
        return total

    def select(self, rows: np.ndarray) -> GradedAnswers:
        """The answers of a mask or of row numbers."""
        unanswerable = None if self.unanswerable is None else self.unanswerable[rows]
        return GradedAnswers(self.right[rows], self.attempted[rows], unanswerable)

    def _column(self, name: str) -> np.ndarray:
        """1 for each question that is what the name says, 0 for others; between them if an answer is partly right.

        `self.right` says how right each answer is, from 0 to 1, and is 0 where there is none. InputError for a name
        that is not in `COUNTED`, or that is about unanswerable questions where these are not known.
        """
        if name not in COUNTED:
            message = f"AnswerMetric: weights must be for {', '.join(COUNTED)}, got {name!r}."
            raise InputError(f"{message} {suggest_name(name, COUNTED)}".rstrip())
        if name.startswith("unanswerable") and self.unanswerable is None:
            raise InputError(
                "evaluate_answers: needs `unanswerable`, which questions have no answer, for this metric."
            )
        attempted = self.attempted.astype(np.float64)
        if name == "question":
            return np.ones(len(self.right))
        if name == "right":
            return self.right
        if name == "wrong":
            return attempted - self.right
        if name == "attempted":
            return attempted
        if name == "not_attempted":
            return 1 - attempted
        unanswerable = np.asarray(self.unanswerable, dtype=np.float64)
        if name == "unanswerable":
            return unanswerable
        # "unanswerable_not_attempted", the only name in `COUNTED` after these
        return unanswerable * (1 - attempted)


def kinds_of_question() -> GradedAnswers:
    """One question of each kind: right, wrong and not attempted, first answerable and then unanswerable ones."""
    return GradedAnswers(
        right=np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]),
        attempted=np.array([True, True, False, True, True, False]),
        unanswerable=np.array([False, False, False, True, True, True]),
    )


def grade_answers(
    function: str,
    correct: ArrayLike,
    answered: ArrayLike | None = None,
    unanswerable: ArrayLike | None = None,
) -> GradedAnswers:
    """Check what a user passes about answers; `function` begins the message of an error.

    `correct` says how right each answer is, from 0 to 1, and is ignored where there is no answer. `answered` and
    `unanswerable` hold one truth value per question; by default every question is answered, and it is not known which
    are unanswerable. InputError for other values or lengths, and where there is no question.
    """
    # one float per question, which may be NaN where there is no answer
    correctness = _as_numbers(function, "correct", correct)
    if not len(correctness):
        raise InputError(f"{function}: needs at least one question, got none.")
    attempted = np.ones(len(correctness), dtype=bool)
    if answered is not None:
        attempted = check_truth_values(function, "answered", answered, len(correctness))
    right = np.where(attempted, correctness, 0.0)
    if not ((right >= 0) & (right <= 1)).all():  # NaN is refused, too
        raise InputError(f"{function}: `correct` must lie between 0 and 1.")
    if unanswerable is None:
        return GradedAnswers(right, attempted)
    return GradedAnswers(
        right, attempted, check_truth_values(function, "unanswerable", unanswerable, len(correctness))
    )


def _as_numbers(function: str, argument: str, values: ArrayLike) -> np.ndarray:
    """Return a vector of float64, one per question; InputError, in the name of `function`, for other than numbers.

    Arrays of another shape are flattened. `argument` is the parameter of `function` that messages name.
    """
    if isinstance(values, Mapping):
        raise InputError(
            f"{function}: takes the answers of one model, got a dict. Use `compare_answers`, or call it for each model."
        )
    try:
        return np.asarray(to_host(values), dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise InputError(
            f"{function}: `{argument}` must hold numbers from 0 to 1, got other values."
        ) from None


def check_truth_values(function: str, argument: str, values: ArrayLike, n: int) -> np.ndarray:
    """Return n truth values, or raise InputError: the word "no" would count as true.

    `function` is the public function that messages name and `argument` its parameter. 0 and 1 are truth values, too.
    Arrays of another shape are flattened.
    """
    array = np.asarray(to_host(values)).reshape(-1)
    if len(array) != n:
        raise InputError(f"{function}: `{argument}` must have {n} values as `correct`, got {len(array)}.")
    if not np.isin(array, (False, True)).all():
        raise InputError(
            f"{function}: `{argument}` must hold true or false for each question, got other values."
        )
    return array.astype(bool)


def check_probabilities(function: str, confidence: ArrayLike, attempted: np.ndarray) -> np.ndarray:
    """Return one probability per question, 0 where it was not attempted; `function` begins the message of an error.

    `attempted` holds one truth value per question. InputError unless there are as many confidences and those of
    attempted questions lie between 0 and 1.
    """
    probabilities = _as_numbers(function, "confidence", confidence)
    if len(probabilities) != len(attempted):
        raise InputError(
            f"{function}: `confidence` must have {len(attempted)} values as `correct`, got {len(probabilities)}."
        )
    is_outside = attempted & ~((probabilities >= 0) & (probabilities <= 1))
    if is_outside.any():
        raise InputError(
            f"{function}: `confidence` must be a probability from 0 to 1, got {probabilities[is_outside][0]:g}. A "
            f"confidence on another scale can only be ranked."
        )
    return np.where(attempted, probabilities, 0.0)


@dataclass(frozen=True, kw_only=True)
class AnswerMetric:
    r"""A number about graded answers: a ratio of two weighted counts of questions.

    .. math:: T = \sum_q N_q / \sum_q D_q, \qquad \mathrm{IF}_q = (N_q - T D_q) / \bar D

    N and D are what a question adds to the two counts, IF its influence, from which the error bar follows.

    Parameters
    ----------
    name : str
        As commands and tables of numbers have it.
    label : str
        As people write it.
    summary : str
        One sentence for help and documentation.
    numerator, denominator : dict of float
        Weight by what is counted (`COUNTED`). By default the denominator counts all questions.
    lower_is_better : bool
        The direction.
    option : str
        A number that belongs to the name: "0.75" makes the key "score_at_target@0.75".

    Examples
    --------
    >>> half_off = AnswerMetric(
    ...     name="half_off", label="half off", summary="Right less half of wrong.",
    ...     numerator={"right": 1.0, "wrong": -0.5})
    >>> half_off.range
    (-0.5, 1.0)
    """

    name: str
    label: str
    summary: str
    numerator: Mapping[str, float]
    denominator: Mapping[str, float] = field(default_factory=lambda: {"question": 1.0})
    lower_is_better: bool = False
    option: str = ""

    def __post_init__(self) -> None:
        numerator, denominator = self._counts_of_kinds()
        if (denominator < 0).any() or (numerator[denominator == 0] != 0).any():
            raise InputError(
                f"AnswerMetric: the denominator of {self.name} must count every question that the numerator counts, "
                f"with weights of at least 0."
            )

    @property
    def key(self) -> str:
        """The name with its option."""
        return f"{self.name}@{self.option}" if self.option else self.name

    @property
    def full_label(self) -> str:
        """What tables call it."""
        return self.label

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value that any answers can have."""
        numerator, denominator = self._counts_of_kinds()
        is_counted = denominator > 0
        ratios = numerator[is_counted] / denominator[is_counted]
        return float(ratios.min()), float(ratios.max())

    def _counts_of_kinds(self) -> tuple[np.ndarray, np.ndarray]:
        """What one question of each kind (`kinds_of_question`) adds to the numerator, and to the denominator."""
        kinds = kinds_of_question()
        return kinds.weighted_count(self.numerator), kinds.weighted_count(self.denominator)

    @property
    def needs_unanswerable(self) -> bool:
        """Whether it must be known which questions are unanswerable."""
        return any(name.startswith("unanswerable") for name in (*self.numerator, *self.denominator))

    @property
    def tells_wrong_from_unanswered(self) -> bool:
        """Whether a wrong answer and no answer count differently, as in SimpleQA's F, and not as in the accuracy."""
        kinds = kinds_of_question()
        is_wrong = kinds.attempted & (kinds.right == 0)
        return any(
            not np.array_equal(counts[is_wrong], counts[~kinds.attempted])
            for counts in self._counts_of_kinds()
        )

    def value(self, answers: GradedAnswers) -> float:
        """The ratio; InfeasibleError where no question counts in the denominator."""
        denominator = math.fsum(answers.weighted_count(self.denominator))
        if denominator <= 0:
            counted = ", ".join(name.replace("_", " ") for name in self.denominator)
            raise InfeasibleError(f"{self.name}: undefined, since no question counts as {counted}.")
        return math.fsum(answers.weighted_count(self.numerator)) / denominator


def score_at_target(target: float) -> AnswerMetric:
    r"""The score in which a wrong answer costs t / (1 - t), so that answering gains on average from confidence t on.

    .. math:: \text{right} - \frac{t}{1-t}\,\text{wrong}

    Parameters
    ----------
    target : float
        The confidence t above which an answer gains on average, from 0 to below 1. At 0 the score is the accuracy.

    Returns
    -------
    AnswerMetric

    Examples
    --------
    >>> score_at_target(0.75).numerator["wrong"]
    -3.0
    """
    # InputError unless 0 <= target < 1
    target = check_fraction("score_at_target", "target", target, open_low=False, open_high=True)
    price = target / (1 - target)
    # per question: by default the denominator counts all questions; and by default higher is better
    return AnswerMetric(
        name="score_at_target",
        label=f"score at target {target:g}",
        summary=f"Right answers less {price:.4g} times the wrong ones: answering pays from confidence {target:g} on.",
        numerator={"right": 1.0, "wrong": -price},
        option=write_number(target),  # the text after the @ in the key
    )


def score_at_price(price: float) -> AnswerMetric:
    """The score in which a right answer gains 1, a wrong one costs `price`, and none gives 0.

    Parameters
    ----------
    price : float
        What a wrong answer costs, at least 0. At price p, answering pays from confidence p / (1 + p) on.

    Returns
    -------
    AnswerMetric

    Examples
    --------
    >>> score_at_price(2).key
    'score_at_price@2'
    """
    price = check_nonnegative("score_at_price", "price", price)  # InputError below 0
    # per question: by default the denominator counts all questions; and by default higher is better
    return AnswerMetric(
        name="score_at_price",
        label=f"score at price {price:g}",
        summary=f"Right answers less {price:g} times the wrong ones, per question.",
        numerator={"right": 1.0, "wrong": -price},
        option=write_number(price),  # the text after the @ in the key
    )


_DEFINITIONS = (
    AnswerMetric(
        name="accuracy",
        label="accuracy",
        summary="Share of all questions answered right; a question that is not attempted is not right.",
        numerator={"right": 1.0},
    ),
    AnswerMetric(
        name="wrong",
        label="wrong",
        summary="Share of all questions answered wrong.",
        numerator={"wrong": 1.0},
        lower_is_better=True,
    ),
    AnswerMetric(
        name="not_attempted",
        label="not attempted",
        summary="Share of all questions without an answer.",
        numerator={"not_attempted": 1.0},
        lower_is_better=True,
    ),
    AnswerMetric(
        name="accuracy_given_attempted",
        label="accuracy given attempted",
        summary="Share of the attempted questions answered right.",
        numerator={"right": 1.0},
        denominator={"attempted": 1.0},
    ),
    AnswerMetric(
        name="simpleqa_f",
        label="F (SimpleQA)",
        summary="Harmonic mean of accuracy and accuracy given attempted, as SimpleQA reports it.",
        numerator={"right": 2.0},
        denominator={"question": 1.0, "attempted": 1.0},
    ),
    AnswerMetric(
        name="hallucination_rate",
        label="hallucination rate",
        summary="Share of wrong answers among the questions that were not answered right (AA-Omniscience).",
        numerator={"wrong": 1.0},
        denominator={"wrong": 1.0, "not_attempted": 1.0},
        lower_is_better=True,
    ),
    AnswerMetric(
        name="omniscience_index",
        label="Omniscience index",
        summary="100 times right less wrong, per question (AA-Omniscience); from -100 to 100.",
        numerator={"right": 100.0, "wrong": -100.0},
    ),
    AnswerMetric(
        name="abstention_recall",
        label="abstention recall",
        summary="Share of the unanswerable questions that were not attempted.",
        numerator={"unanswerable_not_attempted": 1.0},
        denominator={"unanswerable": 1.0},
    ),
    AnswerMetric(
        name="abstention_precision",
        label="abstention precision",
        summary="Share of unanswerable questions among those that were not attempted.",
        numerator={"unanswerable_not_attempted": 1.0},
        denominator={"not_attempted": 1.0},
    ),
    AnswerMetric(
        name="abstention_f1",
        label="abstention F1",
        summary="Harmonic mean of abstention precision and recall.",
        numerator={"unanswerable_not_attempted": 2.0},
        denominator={"unanswerable": 1.0, "not_attempted": 1.0},
    ),
)
ANSWER_METRICS: dict[str, AnswerMetric] = {metric.name: metric for metric in _DEFINITIONS}
"""The metrics without an option, by name; `score_at_target@T` and `score_at_price@P` take a number."""
_MAKERS_BY_NAME = {
    "score_at_target": score_at_target,
    "score_at_price": score_at_price,
}  # names with a number
ANSWER_METRIC_NAMES = (*ANSWER_METRICS, *_MAKERS_BY_NAME)
"""The names of all metrics of graded answers; those that take a number stand without it."""


def is_answer_metric(metric: Any) -> bool:
    """Whether this is an `AnswerMetric`, or the name of one."""
    if isinstance(metric, AnswerMetric):
        return True
    name = str(metric).partition("@")[0]
    return name in ANSWER_METRIC_NAMES


def answer_metric(metric: str | AnswerMetric, function: str = "answer_metric") -> AnswerMetric:
    """Find a metric of graded answers by its name.

    Parameters
    ----------
    metric : str or AnswerMetric
        A name such as "accuracy", "simpleqa_f" or "score_at_target@0.75"; a metric comes back as it is.
    function : str
        Who asks, for the message of an error.

    Returns
    -------
    AnswerMetric

    Raises
    ------
    InputError
        For an unknown name, or a number that is missing, not one, or not allowed.

    Examples
    --------
    >>> answer_metric("simpleqa_f").label
    'F (SimpleQA)'
    """
    if isinstance(metric, AnswerMetric):
        return metric
    name, at, number = str(metric).partition("@")
    if name in ANSWER_METRICS and not at:  # the metrics without a number, by name
        return ANSWER_METRICS[name]
    if name in ANSWER_METRICS:
        raise InputError(f"{function}: {name} takes no number, got {metric!r}.")
    if name not in _MAKERS_BY_NAME:  # the functions that make a metric from a number, by name
        message = (
            f"{function}: unknown metric {metric!r}, the known ones are {', '.join(ANSWER_METRIC_NAMES)}."
        )
        # the suggestion is empty where no name is similar
        raise InputError(f"{message} {suggest_name(name, ANSWER_METRIC_NAMES)}".rstrip())
    try:
        price_or_target = float(number)
    except ValueError:
        raise InputError(
            f"{function}: {name} needs a number after an @, got {metric!r}. Write {name}@0.75."
        ) from None
    return _MAKERS_BY_NAME[name](price_or_target)  # raises InputError for a number out of range


def abstention_metrics() -> list[AnswerMetric]:
    """Abstention recall, precision and F1: the metrics that need to know which questions are unanswerable."""
    return [metric for metric in _DEFINITIONS if metric.needs_unanswerable]


def metrics_for_answers(answers: GradedAnswers) -> list[AnswerMetric]:
    """The metrics that a table shows by default.

    Those about attempts only where some question was not attempted, those about unanswerable questions only where it is
    known which these are. `answers` has one entry per question; the order of the metrics is that of the table.
    """
    names = ["accuracy"]
    if not answers.attempted.all():
        names += ["wrong", "not_attempted", "accuracy_given_attempted", "simpleqa_f", "hallucination_rate"]
    names.append("omniscience_index")
    chosen = [ANSWER_METRICS[name] for name in names]
    chosen += [score_at_target(target) for target in TARGETS]  # confidence targets 0.5, 0.75 and 0.9
    if answers.unanswerable is not None:
        chosen += abstention_metrics()  # recall, precision and F1 of not attempting the unanswerable
    return chosen
