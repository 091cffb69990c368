"""What is known of each row before its label: class scores, signals, features and categories, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from abstain import losses, scores
from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import ClassScores, check_class_scores
from abstain.confidence.logit_features import compute_logit_features
from abstain.errors import DtypeError, InputError, ShapeError
from abstain.metrics._sample import group_codes

MAX_LEVELS = (
    1000  # distinct values of one category; more are names of rows, from which nothing can be learned
)
MISSING_LEVEL = "(missing)"  # rows without a value of a category
PREDICTED_CLASS = "predicted class"  # the category made of `predicted=`

Columns = Mapping[str, ArrayLike]  # one array per name, one entry per row


@dataclass(frozen=True, eq=False, kw_only=True)
class InputTable:
    """Checked inputs of n rows, in the order of the rows.

    Attributes
    ----------
    row_count : int
        The number n of rows.
    signals : dict of ndarray, shape (n,)
        Confidences by name, higher = surer, NaN where missing.
    features : dict of ndarray, shape (n,)
        Other numbers by name, which need not rise with confidence (a length), NaN where missing.
    categories : dict of ndarray of str, shape (n,)
        Labels by name; a missing label is "(missing)".
    class_scores : ClassScores or None
        Logits or probabilities, shape (n, K).
    logit_features : ndarray, shape (n, columns), or None
        What `compute_logit_features` made of the class scores.
    predicted : ndarray of int, shape (n,), or None
        The column of each row's largest class score.
    runner_up : ndarray of int, shape (n,), or None
        The column of each row's second largest class score.
    known_scores : dict of ndarray, shape (n,)
        Scores that were computed already, by name and parameter; `compute_score` fills it.
    """

    row_count: int
    signals: dict[str, np.ndarray]
    features: dict[str, np.ndarray]
    categories: dict[str, np.ndarray]
    class_scores: ClassScores | None = None
    logit_features: np.ndarray | None = None
    predicted: np.ndarray | None = None
    runner_up: np.ndarray | None = None
    known_scores: dict[tuple[str, float], np.ndarray] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """Signals and features by name, signals first."""
        return {**self.signals, **self.features}

    @property
    def kind(self) -> str | None:
        """ "logits" or "probs", None without class scores."""
        return None if self.class_scores is None else self.class_scores.kind

    @property
    def class_count(self) -> int | None:
        """Number of classes, None without class scores."""
        return None if self.class_scores is None else int(self.class_scores.values.shape[-1])

    def take(self, rows: np.ndarray) -> InputTable:
        """The same inputs of some rows: indices from 0, or a mask of all rows; this table stays as it is.

        Every column has one entry per row; those made of class scores (`logit_features`, `predicted`, the predicted
        class, and `runner_up`, the class with the second largest score) are None without class scores.
        """
        class_scores = self.class_scores  # logits or probabilities
        if class_scores is not None:  # a named tuple: values of shape (n, classes), and their kind
            class_scores = class_scores._replace(values=class_scores.values[rows])
        return replace(
            self,
            # right for indices and for a mask
            row_count=len(np.arange(self.row_count)[rows]),
            signals={name: column[rows] for name, column in self.signals.items()},
            features={name: column[rows] for name, column in self.features.items()},
            categories={name: column[rows] for name, column in self.categories.items()},
            class_scores=class_scores,
            logit_features=None if self.logit_features is None else self.logit_features[rows],
            predicted=None if self.predicted is None else self.predicted[rows],
            runner_up=None if self.runner_up is None else self.runner_up[rows],
            # scores that `compute_score` has kept, by name and parameter
            known_scores={key: values[rows] for key, values in self.known_scores.items()},
        )

    def without(self, name: str) -> InputTable:
        """The same rows without the signal, feature or category of this name."""
        return replace(
            self,
            signals={key: column for key, column in self.signals.items() if key != name},
            features={key: column for key, column in self.features.items() if key != name},
            categories={key: column for key, column in self.categories.items() if key != name},
        )

    def compute_score(self, score: str, parameter: float) -> np.ndarray:
        """Return a score of the class scores, shape (n,), and keep it: the same call on `take(rows)` costs nothing.

        `score` is "max_softmax", whose parameter is the temperature (rank keys are returned), or
        "normalised_max_logit", whose parameter is the order p of the norm and which needs logits. A rank key orders
        samples as its score does, but does not round to the score's largest value. Without class scores there is no
        score to compute (AssertionError). The caller must not change the result, which is the kept array itself.
        """
        key = (score, parameter)  # the score alone: class scores of a table never change
        # computed once for all rows: `take` hands the kept scores on to the parts of a table
        if key not in self.known_scores:
            logits, probs = self.class_arguments()  # one of them is None
            if score == "max_softmax":
                values = scores.max_softmax(logits, probs=probs, temperature=parameter)
            else:
                values = scores.normalised_max_logit(logits, p=parameter)
            self.known_scores[key] = np.asarray(values)
        return self.known_scores[key]

    def class_arguments(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return (logits, None) or (None, probs), whichever there is."""
        assert self.class_scores is not None
        if self.class_scores.kind == "logits":
            return self.class_scores.values, None
        return None, self.class_scores.values


def read_inputs(
    function: str,
    *,
    logits: ArrayLike | None = None,
    probs: ArrayLike | None = None,
    signals: Columns | None = None,
    features: Columns | None = None,
    categories: Columns | None = None,
    predicted: ArrayLike | None = None,
) -> InputTable:
    """Check the inputs of all rows and compute what the models read.

    `logits` or `probs` have shape (n, K), or (n,) for a binary model. `signals`, `features` and `categories` map names
    to vectors of n entries; `predicted` is one more category, the predicted class. `function` is named in messages.

    Raises InputError if there is no input at all, both logits and probabilities, a name that is used twice, an infinite
    number or a category with more than 1,000 values; ShapeError for different lengths; DtypeError for text among
    numbers.
    """
    lengths: dict[str, int] = {}  # number of rows by argument, all of which must be equal
    class_scores = None
    logit_features = None
    predicted_class = None
    runner_up = None
    if logits is not None or probs is not None:
        class_scores = check_class_scores(function, to_host(logits), to_host(probs))
        if class_scores.values.ndim != 2:
            raise ShapeError(
                f"{function}: `{class_scores.kind}` must have shape (samples, classes), "
                f"got shape {tuple(class_scores.values.shape)}."
            )
        logit_features, predicted_class, runner_up = compute_logit_features(class_scores)
        lengths[class_scores.kind] = len(predicted_class)
    numbers = {"signals": dict(signals or {}), "features": dict(features or {})}
    checked_numbers: dict[str, dict[str, np.ndarray]] = {}
    for argument, columns in numbers.items():
        checked_numbers[argument] = {}
        for name, column in columns.items():
            title = f"{argument}[{name!r}]"
            checked_numbers[argument][str(name)] = _read_numbers(function, title, column)
            lengths[title] = len(checked_numbers[argument][str(name)])
    labels_by_name = dict(categories or {})
    if predicted is not None:
        if class_scores is not None:
            raise InputError(f"{function}: class scores tell the predicted class, got `predicted` as well.")
        labels_by_name[PREDICTED_CLASS] = predicted
    checked_categories = {}
    for name, column in labels_by_name.items():
        title = f"categories[{name!r}]"
        checked_categories[str(name)] = _read_category(function, title, column)
        lengths[title] = len(checked_categories[str(name)])
    if not lengths:
        raise InputError(
            f"{function}: needs something to learn from, got no `logits`, `probs`, `signals`, `features` or "
            f"`categories`."
        )
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{title} {length}" for title, length in lengths.items())
        raise ShapeError(f"{function}: all inputs must have one entry per row, got {listed}.")
    names = [*checked_numbers["signals"], *checked_numbers["features"], *checked_categories]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(
            f"{function}: a name must stand for one input, got {repeated[0]!r} twice. Rename one of them."
        )
    return InputTable(
        row_count=next(iter(lengths.values())),
        signals=checked_numbers["signals"],
        features=checked_numbers["features"],
        categories=checked_categories,
        class_scores=class_scores,
        logit_features=logit_features,
        predicted=predicted_class,
        runner_up=runner_up,
    )


def _read_numbers(function: str, title: str, column: Array) -> np.ndarray:
    """Return one float per row, NaN where None or NaN stands for a gap; `title` names the column in messages.

    `function` is the public function that messages name. `column` is a list or an array of any library; truth values
    become 0 and 1, and texts in a list of mixed objects count as numbers if they can be read as such.
    """
    values = np.asarray(to_host(column))  # `to_host` copies a GPU array to main memory
    if values.ndim != 1:
        raise ShapeError(f"{function}: `{title}` must be a vector, got shape {values.shape}.")
    if values.dtype.kind in "USMmc":  # texts, dates, time spans, complex numbers
        raise DtypeError(
            f"{function}: `{title}` must hold numbers, got dtype {values.dtype}. Text goes into `categories`."
        )
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise DtypeError(
            f"{function}: `{title}` must hold numbers, and None or NaN for gaps, got other objects. "
            f"Text goes into `categories`."
        ) from None
    if np.isinf(numbers).any():
        index = int(np.flatnonzero(np.isinf(numbers))[0])
        raise InputError(
            f"{function}: `{title}` must be finite or missing, got {numbers[index]} at index {index}. "
            f"Write NaN where there is no value."
        )
    return numbers


def _read_category(function: str, title: str, column: Array) -> np.ndarray:
    """Return one text per row, "(missing)" for None and NaN; `title` names the column in messages.

    `function` is the public function that messages name. Numbers and truth values become their texts. Raises InputError
    for more than 1,000 different values.
    """
    # the different values, None for a missing one, and for each row the index of its value among them
    levels, codes = group_codes(function, column, argument=title)
    if len(levels) > MAX_LEVELS:
        raise InputError(
            f"{function}: `{title}` must have at most {MAX_LEVELS:,} different values, got {len(levels):,}. "
            f"Group rare values, or leave it out if it names single rows."
        )
    # MISSING_LEVEL is "(missing)"
    texts = np.asarray([MISSING_LEVEL if level is None else str(level) for level in levels], dtype=str)
    return np.asarray(texts[codes])


def read_row_weights(function: str, sample_weight: ArrayLike | None, row_count: int) -> np.ndarray:
    """Return the mass of each row as floats, shape (row_count,); ones if `sample_weight` is None.

    Raises ShapeError unless there is one entry per row, and InputError unless all are finite and not negative, and one
    of them is positive. `function` is the public function that messages name. NaN is not finite, and refused too.
    """
    if sample_weight is None:
        return np.ones(row_count)
    weight = np.asarray(to_host(sample_weight), dtype=np.float64)
    if weight.shape != (row_count,):
        raise ShapeError(
            f"{function}: `sample_weight` must have one entry per row, got shape {weight.shape}."
        )
    if not np.isfinite(weight).all() or bool((weight < 0).any()) or not weight.any():
        raise InputError(f"{function}: `sample_weight` must be finite, not negative and not all 0.")
    return weight


def read_losses(
    function: str,
    table: InputTable,
    *,
    correct: ArrayLike | None = None,
    loss: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    predicted: ArrayLike | None = None,
) -> np.ndarray:
    """Return the loss of each row, from exactly one of three descriptions of the outcome.

    `correct` says whether the prediction is right, `loss` is any finite loss, `labels` are true classes, which are
    compared with `predicted` or with the largest class score of the table. The result is 0 for right and 1 for wrong,
    but for `loss`, which is returned as floats. `predicted` is read with `labels` only. Raises InputError, DtypeError
    or ShapeError, which name `function`, for anything else. `table` holds the inputs of all rows: signals
    (confidences), other numbers and categories by name, and class scores.
    """
    stated = [
        name
        for name, value in (("correct", correct), ("loss", loss), ("labels", labels))
        if value is not None
    ]
    if len(stated) != 1:
        listed = ", ".join(stated) or "none"
        raise InputError(f"{function}: give exactly one of `correct`, `loss`, `labels`, got {listed}.")
    if labels is not None:  # this call checks their shape too
        return _losses_of_labels(function, table, labels, predicted)
    values = np.asarray(to_host(correct if loss is None else loss))
    if values.shape != (table.row_count,):
        raise ShapeError(
            f"{function}: `{stated[0]}` must have one entry per row, got shape {values.shape} "
            f"for {table.row_count} rows."
        )
    if values.dtype.kind not in "biuf":  # booleans, whole numbers, floats
        raise DtypeError(f"{function}: `{stated[0]}` must hold numbers, got dtype {values.dtype}.")
    numbers = values.astype(np.float64)
    if correct is not None:
        if not np.isin(numbers, (0.0, 1.0)).all():
            wrong_value = _first_not_0_or_1(numbers)  # as text for the message
            raise InputError(
                f"{function}: `correct` must be True or False (1 or 0) for each row, got {wrong_value}. "
                f"Leave rows without a label out, and pass other losses as `loss=`."
            )
        return 1.0 - numbers
    if not np.isfinite(numbers).all():
        raise InputError(f"{function}: `loss` must be finite, got NaN or infinity. Leave such rows out.")
    return numbers


def _first_not_0_or_1(numbers: np.ndarray) -> str:
    """The first of the numbers that is neither 0 nor 1, as text."""
    return f"{numbers[~np.isin(numbers, (0.0, 1.0))][0]:g}"


def _losses_of_labels(
    function: str, table: InputTable, labels: ArrayLike, predicted: ArrayLike | None
) -> np.ndarray:
    """0/1 losses of the predicted class: that of the largest class score, or without class scores that in `predicted`.

    0 is right, 1 is wrong. `function` is the public function that messages name. `table` holds the inputs of all rows:
    signals (confidences), other numbers and categories by name, and class scores. The caller has refused `predicted`
    beside class scores, and has checked that `predicted` has one entry per row.
    """
    if table.class_scores is not None:
        logits, probs = table.class_arguments()  # one of them is None
        return np.asarray(losses.zero_one(logits, to_host(labels), probs=probs), dtype=np.float64)
    if predicted is None:
        raise InputError(
            f"{function}: `labels` need a prediction to be compared with, got no `logits`, `probs` or `predicted`. "
            f"Pass `correct=` instead."
        )
    true_class = np.asarray(to_host(labels))
    predicted_class = np.asarray(to_host(predicted))
    if true_class.shape != predicted_class.shape:
        raise ShapeError(
            f"{function}: `labels` and `predicted` must have one entry per row, got shapes {true_class.shape} "
            f"and {predicted_class.shape}."
        )
    return np.asarray(true_class != predicted_class, dtype=np.float64)
