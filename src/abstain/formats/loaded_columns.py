"""Columns of a file by role, loaded: each check says what is wrong, and the result is what `Predictions` holds."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from abstain._check import rows_sum_to_one, sum_tolerance
from abstain._roles import COLUMN_NAMES, normalise_name
from abstain._tables import is_number
from abstain.errors import AbstainWarning, DataError
from abstain.formats.columns import (
    TRUTH_WORDS,
    OpenedTable,
    TextValues,
    UncertainError,
    Values,
    has_value,
    split_computed_name,
)
from abstain.formats.roles import RoleColumns
from abstain.formats.safety import (
    MAX_LISTED_NAMES,
    count_noun,
    display_name,
    file_error,
    has_or_have,
    list_names,
)

HOW_TO_WRITE_NUMBERS = (
    "Write plain numbers, without % signs or units. Leave a cell without one empty, and say --missing left_out or "
    "--missing last."
)
"""Remedy for text in a column of numbers."""
# Cells of a column of numbers that say that there is none, in lower case; an empty one is among them.
_MISSING_MARKS = ("", "-", "--", "\N{EN DASH}", "n/a", "#n/a", "na", "nan", "none", "null")
# Words in the name of a column that say that larger is better, and words that say that it is a loss nevertheless.
_SCORE_WORDS = {
    "score", "scores", "reward", "acc", "accuracy", "correct", "correctness", "match", "f1", "rouge", "rougel", "bleu",
    "success", "right", "pass", "passed", "precision", "recall", "grade", "rating", "quality", "similarity",
}  # fmt: skip
_LOSS_WORDS = {
    "loss",
    "error",
    "err",
    "brier",
    "crps",
    "nll",
    "perplexity",
    "risk",
    "penalty",
    "distance",
    "wer",
    "log",
}
# From so many rows on, a probability that is never below one half is that of the prediction and not of class 1.
_MIN_ROWS_TO_JUDGE_PROBABILITY = 8
# So many right answers and no wrong one: perhaps the labels are a copy of the predictions.
_MIN_ROWS_TO_DOUBT_LABELS = 50
MAX_GRADES = 6
"""Different words or numbers of a column that are asked about as grades."""
_MAX_ROUNDING = 0.1  # sums of probabilities that are further from one are not explained by rounding
_CALLER_OF_READ_PREDICTIONS = 6  # frames up from where a column of one class is loaded, for warnings
_MAX_ROWS_TO_FIND_DECIMALS = 10_000  # looked at to see to how many decimals probabilities are rounded


_BLANK_LABELS = ("", "nan")  # the text of an empty cell, and of one among numbers


class BlankOutcomesError(DataError):
    """A plain table in which some rows do not say how wrong their answer is, because a cell is empty.

    Examples
    --------
    >>> raise BlankOutcomesError("b.csv: 3 rows have nothing in `correct`, first row 4.")
    Traceback (most recent call last):
    ...
    abstain.formats.loaded_columns.BlankOutcomesError: b.csv: 3 rows have nothing in `correct`, first row 4.
    """


def explain_grades(column: str, words: Iterable[str]) -> str:
    """Return a sentence that asks what the words or numbers of a column of grades mean, with the options to say it."""
    all_words = sorted(set(words) - {""})
    listed = all_words[:MAX_LISTED_NAMES]
    grades = ",".join(f"{display_name(word)}=MEANING" for word in listed)
    kind = "numbers" if all(map(is_number, listed)) else "words"
    return (
        f"`{display_name(column)}` grades by {kind} ({list_names(all_words)}). Say what each means, "
        f"right, wrong or unanswered: -c correct={shlex.quote(display_name(column))} --grades {shlex.quote(grades)}"
    )


def is_missing_mark(text: str) -> bool:
    """Return whether a cell of a column of numbers says that there is none: it is empty, N/A, nan, - or the like."""
    return text.strip().lower() in _MISSING_MARKS


def numbers_with_missing_marks_or_none(words: TextValues, format_name: str) -> np.ndarray | None:
    """Return the numbers of a column of a text table that holds numbers and marks such as N/A or -, which become NaN.

    None where it holds any other text or no number, and for formats other than csv and tsv, in which a number has a
    type of its own. `words` are the cells of the column: each distinct text once, and `code_of_row`, the index of each
    row's text among these. The result has one float per row.
    """
    if format_name not in ("csv", "tsv"):
        return None
    numbers = []
    for text in words.distinct_texts:
        if is_missing_mark(text):
            numbers.append(np.nan)
        elif is_number(text) and "_" not in text:  # Python reads 1_0 as ten, people do not
            numbers.append(float(text))
        else:
            return None
    values = np.array(numbers)  # one per distinct text
    return None if np.isnan(values).all() else values[words.code_of_row]


class NamedLosses(NamedTuple):
    """One loss per row, and what the losses are."""

    loss: np.ndarray  # NaN where an answer was not scored
    name: str  # "zero_one" (0 right, 1 wrong), "partial_credit" (1 less a score from 0 to 1) or "loss" (any numbers)


@dataclass(frozen=True)
class LoadedColumns:
    """The loaded columns of a file on their way to `Predictions`.

    Parameters
    ----------
    source : OpenedTable
        The file.
    roles : dict
        Role -> the columns it was loaded from, for messages.
    values_by_role : dict
        Role -> its values, one row per sample.
    classes : tuple of str
        Class names in the order of the class scores.
    stated_roles : set of str
        Roles whose columns the user named.
    tolerance : float, optional
        How far a row of probabilities may be from summing to one; by default what rounding explains.
    has_stated_classes : bool
        Whether the class names are the user's or the file's, and not endings of column names.
    """

    source: OpenedTable
    roles: dict[str, RoleColumns]
    values_by_role: dict[str, Values]
    classes: tuple[str, ...] = ()
    stated_roles: Set[str] = frozenset()
    tolerance: float | None = None
    has_stated_classes: bool = False

    def class_score_fields(self, kind: str) -> dict[str, Any]:
        """Check class scores with their labels, and return them as keyword arguments of `Predictions`.

        `kind` is "logits" or "probs"; values of that role and of "labels" must be loaded. Rounded probabilities are
        divided by their sums. Labels are class numbers (NaN for an empty cell) or one-hot rows. The result also has the
        columns of single samples (groups, weights, ...), which `sample_fields` collects. DataError where shapes, class
        names or values do not fit together, or where a column of right and wrong contradicts the labels.
        `values_by_role` maps roles ("labels", ...) to loaded columns. `classes` are the class names in the order of the
        class scores, empty where they are not known. `error` makes a DataError that names the file.
        """
        scores = self.load_class_scores(kind)
        if scores.ndim != 2:
            is_ensemble = scores.ndim == 3
            hint = " For an ensemble use `abstain.evaluation.expected_aurc` in Python." if is_ensemble else ""
            raise self.error(f"the {kind} must have shape (samples, classes), got {scores.shape}.{hint}")
        n, class_count = scores.shape
        if n == 0:
            raise self.error("has no rows.")
        if class_count == 0:
            raise self.error(f"the {kind} must have a column for each class, got none.")
        if self.classes and len(self.classes) != class_count:
            raise self.error(f"has {len(self.classes)} class names for {class_count} classes.")
        labels = self.labels_as_class_numbers()  # from 0, NaN where a cell is empty; or one-hot rows
        if len(labels) != n:
            raise self.error(f"the labels must have {n} rows like the {kind}, got {len(labels)}.")
        if labels.ndim == 1:  # class numbers, and not one-hot rows
            is_wrong = scores.argmax(axis=1) != labels
            if {"correct", "error"} & self.values_by_role.keys():
                # Where several classes tie for the largest score, the file's predictions may be any of them.
                has_one_maximum = (scores == scores.max(axis=1, keepdims=True)).sum(axis=1) == 1
                self.refuse_contradicted_correctness(is_wrong, is_known=has_one_maximum & has_value(labels))
            self.warn_if_never_wrong(np.where(has_value(labels), is_wrong, np.nan))
        if kind == "probs":
            scores = self.normalise_rounded(scores)  # raises where sums are too far from one
        return {"n": n, kind: scores, "labels": labels, "classes": self.classes, **self.sample_fields(n)}

    def load_class_scores(self, kind: str) -> np.ndarray:
        """Return logits or probabilities (`kind` is "logits" or "probs") with a column for each class.

        A single column is that of class 1 of a binary model, which a warning says; both columns are made from it:
        1 - p and p for probabilities, -s/2 and s/2 for log-odds s. An empty array, or one of three dimensions, is
        returned unchanged for the caller to refuse.

        DataError where values are text, where logits are probabilities, or where a single column cannot be that of
        class 1: a probability that is never below one half (judged from `_MIN_ROWS_TO_JUDGE_PROBABILITY`, 8, rows on),
        or one that contradicts a column of predictions. Classes are numbered from 0. `roles` maps each role to the
        names of its columns.
        """
        values = self.require_numbers(kind)
        self.refuse_missing_class_scores(values, kind)  # NaN, of which no class is the likeliest
        if values.ndim != 1 and values.shape[-1] != 1:  # a column for each class
            # this method raises only if rows sum to one; logits may happen to lie between 0 and 1
            if kind == "logits" and values.size and values.min() >= 0 and values.max() <= 1:
                self.refuse_probabilities_as_logits(values)
            return values
        if values.ndim > 2 or not len(values):  # the caller refuses it
            return values
        score_of_class_1 = values.reshape(-1).astype(np.float64)
        name = display_name(self.roles[kind].names[0])
        can_be_judged = len(score_of_class_1) >= _MIN_ROWS_TO_JUDGE_PROBABILITY
        if kind == "probs" and can_be_judged and score_of_class_1.min() >= 0.5:
            raise self.error(
                f"`{name}` is never below 0.5, so it seems to be the probability of the prediction and not of class 1. "
                f"Name it as a confidence, -c confidence={name}, with a column of right and wrong answers."
            )
        boundary = 0.5 if kind == "probs" else 0.0  # of class 1 being the likelier one
        self.refuse_contradicted_score(predicts_1=score_of_class_1 > boundary, name=name)
        meaning = "probability" if kind == "probs" else "log-odds"
        message = f"{display_name(self.source.path)}: `{name}` is taken for the {meaning} of class 1 of a binary model."
        warnings.warn(message, AbstainWarning, stacklevel=_CALLER_OF_READ_PREDICTIONS)
        if kind == "probs":
            return np.stack([1 - score_of_class_1, score_of_class_1], axis=1)
        # two logits whose difference is the log-odds
        return np.stack([-score_of_class_1 / 2, score_of_class_1 / 2], axis=1)

    def refuse_missing_class_scores(self, values: np.ndarray, kind: str) -> None:
        """Raise DataError where a row of class scores holds NaN or an empty cell, so that it has no confidence."""
        if not values.size or not np.isnan(values.min()):  # NaN propagates
            return
        is_missing = np.isnan(values).reshape(len(values), -1).any(axis=1)
        count = int(is_missing.sum())
        raise self.error(
            f"{count_noun(count, 'row')} of `{kind}` {'holds' if count == 1 else 'hold'} NaN or an empty cell, first "
            f"row {int(np.argmax(is_missing)) + 1:,}. Such a row has no confidence: leave it out of the file."
        )

    def refuse_probabilities_as_logits(self, logits: np.ndarray) -> None:
        """Raise DataError where every row of `logits` sums to one: they are probabilities.

        The caller has found that they all lie in [0, 1]; this check does not repeat that.
        """
        if rows_sum_to_one(np, logits, sum_tolerance(logits)):
            pattern = "NAME" if len(self.roles["logits"].names) == 1 else "PATTERN"
            raise self.error(
                f"its logits lie in [0, 1] and sum to one in every row, so they are probabilities. State them as "
                f"-c probs={pattern}, or --as probs for an array without a name."
            )

    def refuse_contradicted_score(self, predicts_1: np.ndarray, name: str) -> None:
        """Raise DataError where a column of predictions of 0 and 1 contradicts a binary model's score.

        `predicts_1` says for each row whether the score in column `name` predicts class 1. Nothing is checked where
        there are no predictions, or where they are words or other numbers than 0 and 1. `values_by_role` maps roles
        ("labels", ...) to loaded columns (arrays of numbers, or texts), `roles` to their names. `error` makes a
        DataError that names the file; rows in messages count from 1.
        """
        prediction = self.values_by_role.get("prediction")
        if not isinstance(prediction, np.ndarray) or prediction.shape != predicts_1.shape:
            return  # there is none, it holds words, or it has another length, which is refused elsewhere
        contradicts = (prediction == 1) != predicts_1
        if set(np.unique(prediction).tolist()) <= {0, 1} and contradicts.any():
            prediction_name = display_name(self.roles["prediction"].names[0])
            row_count = count_noun(int(contradicts.sum()), "row")
            first_row = int(np.argmax(contradicts)) + 1
            raise self.error(
                f"`{prediction_name}` contradicts `{name}` in {row_count}, first in row {first_row}: `{name}` must be "
                f"the score of class 1. Leave one of them out."
            )

    def normalise_rounded(self, probs: np.ndarray) -> np.ndarray:
        """Divide rows of rounded probabilities by their sums, with a warning.

        `probs` has shape (samples, classes), at least one of each. It is returned unchanged where all rows sum to one
        up to the precision of its dtype, or where a number is not finite (which `evaluate` refuses). DataError where a
        row sum is further from one than `self.tolerance` (the user's) or, where that is None, than rounding explains:
        `_rounding_tolerance` finds from the decimals how far a sum may be off, 0 where no rounding is seen.
        """
        row_sums = probs.sum(axis=1, keepdims=True, dtype=np.float64)
        largest_deviation = float(np.abs(row_sums - 1).max())
        # `sum_tolerance`: what the precision of the dtype explains
        if largest_deviation <= sum_tolerance(probs) or not np.isfinite(largest_deviation):
            return probs
        tolerance = _rounding_tolerance(probs) if self.tolerance is None else self.tolerance
        if largest_deviation > tolerance:
            raise self.error(self.explain_row_sums(row_sums[:, 0]))
        message = (
            f"{display_name(self.source.path)}: rows of probabilities were divided by their sums, which are off by up "
            f"to {largest_deviation:.2g} (rounded numbers?)."
        )
        # `stacklevel`: the warning names the line that called `read_predictions`
        warnings.warn(message, AbstainWarning, stacklevel=_CALLER_OF_READ_PREDICTIONS)
        return np.asarray(probs / row_sums)

    def explain_row_sums(self, row_sums: np.ndarray) -> str:
        """Return the message for probabilities whose sums, one per row, are too far from one, with what to state.

        It shows the sum that is farthest from one, and the columns where there is one per class. `roles` maps each role
        to the names of its columns. `stated_roles` are the roles whose columns the user named; those of other roles
        were guessed from their names, so that the confidence may be among them. Rows in the message count from 1.
        """
        deviations = np.abs(row_sums - 1)
        worst_row = int(np.argmax(deviations))
        largest_deviation = float(deviations[worst_row])
        hint = ""
        if largest_deviation <= 0.5:  # farther off, they are no rounded probabilities
            # with one digit, and not below the deviation
            hint = f"; if they are rounded, allow it: --tolerance {_round_up(largest_deviation)}"
        columns = ""
        remedy = ""
        percent = ""
        if np.abs(row_sums - 100).max() <= 1:  # all of them
            percent = "If they are percentages, divide by 100. "
        names = self.roles["probs"].names
        if len(names) > 1:
            listed = ", ".join(f"`{display_name(name)}`" for name in names[:MAX_LISTED_NAMES])
            columns = f" ({listed}{', ...' if len(names) > MAX_LISTED_NAMES else ''})"
            if "probs" not in self.stated_roles:
                remedy = " If one of the columns is the confidence, name it: -c confidence=NAME."
        return (
            f"each row of probabilities{columns} must sum to one, got {float(row_sums[worst_row]):.6g} in row "
            f"{worst_row + 1:,}. {percent}If they are logits, say so: -c logits=NAME, or --as logits for an array "
            f"without a name{hint}.{remedy}"
        )

    def refuse_contradicted_correctness(
        self, is_wrong: np.ndarray, is_known: np.ndarray | bool = True
    ) -> None:
        """Raise DataError where a column of correct or error contradicts the labels, unless the user named that column.

        `is_wrong` says for each row whether the prediction differs from the label, and `is_known` (a mask, or True for
        all rows) where that is certain. Rows that abstained, or whose cell is empty, do not count. A column of another
        length is not checked here.

        `values_by_role` holds the loaded columns, `roles` the names of these columns, `stated_roles` the roles whose
        columns the user named. `error` makes a DataError that names the file; rows in messages count from 1.
        """
        if "abstained" in self.values_by_role:
            is_known = is_known & (self.require_truth_values("abstained") != 1)
        # `correct` and `error`, where the file has them; a column that the user named wins over the labels
        for role in ({"correct", "error"} & self.values_by_role.keys()) - self.stated_roles:
            if role == "correct" and self.holds_partial_credit():  # numbers other than 0 and 1
                continue  # an answer that is partly right contradicts neither
            truth = self.require_truth_values(role)  # 1 yes, 0 no, NaN for an empty cell
            value_of_right = 1 if role == "correct" else 0
            is_called_right = truth == value_of_right
            if is_called_right.shape != is_wrong.shape:
                continue
            # called right and wrong by the label, or the other way round
            contradicts = is_known & (is_called_right == is_wrong) & ~np.isnan(truth)
            if contradicts.any():
                name = display_name(self.roles[role].names[0])
                raise self.error(
                    f"`{name}` contradicts the labels in {count_noun(int(contradicts.sum()), 'row')}, first in row "
                    f"{int(np.argmax(contradicts)) + 1}. Leave one of them out, or name the one to use: "
                    f"--column {role}={name}."
                )

    def warn_if_never_wrong(self, label_loss: np.ndarray) -> None:
        """Warn where the prediction of every row is its label: perhaps the labels are a copy of the predictions.

        `label_loss` is 1 where a prediction differs from the label, 0 where it is equal, NaN where there is no label.
        With fewer than `_MIN_ROWS_TO_DOUBT_LABELS` (50) labels there is no warning, since a model may be right in all
        rows. `roles` maps each role to the names of its columns.
        """
        known_count = int((~np.isnan(label_loss)).sum())
        if known_count < _MIN_ROWS_TO_DOUBT_LABELS or np.nansum(label_loss) > 0:
            return
        name = display_name(self.roles["labels"].names[0]) if "labels" in self.roles else "labels"
        message = (
            f"{display_name(self.source.path)}: all {known_count:,} predictions equal the labels. Is `{name}` the "
            f"column of predictions?"
        )
        warnings.warn(message, AbstainWarning, stacklevel=_CALLER_OF_READ_PREDICTIONS)

    def plain_table_fields(self) -> dict[str, Any]:
        """Check losses with their confidences, and return them as keyword arguments of `Predictions`.

        Losses come from columns of correct, error, loss, or labels with predictions. Loss and confidence are set to
        zero where the model abstained, since they are never used there. UncertainError where there is no confidence or
        no loss, DataError where values are invalid, missing, contradictory or of different lengths. An UncertainError
        is a DataError that carries the file (`source`), so that the command line can guess the missing columns.
        `values_by_role` maps roles ("labels", ...) to loaded columns; `classes` are the class names, if any.
        """
        if "confidence" not in self.values_by_role:
            raise UncertainError(self.explain_missing(), self.source)
        losses = self.find_losses()
        loss = losses.loss  # NaN where a cell is empty
        confidence = self.require_numbers("confidence")
        if confidence.ndim != 1 or loss.ndim != 1:
            raise self.error(f"needs one confidence per row, got shape {confidence.shape}.")
        if len(confidence) == 0:
            raise self.error("has no rows.")
        # The loss, and the file's other columns of single samples: the confidence, abstentions, weights, groups, ...
        fields = self.sample_fields(len(confidence), loss=loss)
        abstained = fields.get("abstained")
        self.check_answers_have_loss(loss, abstained)
        self.check_answers_have_confidence(confidence, abstained)
        if abstained is not None:
            fields["loss"] = np.where(abstained, 0.0, loss)
            fields["confidence"] = np.where(abstained, 0.0, confidence)
        fields["prediction"] = self.values_by_role.get("prediction")
        labels = self.values_by_role.get("labels")
        # one-hot labels are left out: no prediction here is compared with them
        if isinstance(labels, TextValues):
            fields["label_words"] = labels
        elif labels is not None and labels.ndim == 1:
            fields["labels"] = labels
        return {"n": len(confidence), "loss_name": losses.name, "classes": self.classes, **fields}

    def check_answers_have_loss(self, loss: np.ndarray, abstained: np.ndarray | None) -> None:
        """Raise BlankOutcomesError where an empty cell of correct, error, loss or labels hides how wrong an answer is.

        `loss` is NaN there; `abstained` is a mask, or None where the model answered every row. `values_by_role` maps
        roles ("labels", ...) to loaded columns, `roles` to their names. BlankOutcomesError is a DataError that callers
        recognise; its text is that of `error`, which names the file. Rows in messages count from 1.
        """
        is_missing = np.isnan(np.asarray(loss, np.float64))
        if abstained is not None:
            is_missing &= ~abstained
        if not is_missing.any():
            return
        # The losses came from the first of these roles that the file has.
        role = next(role for role in ("correct", "error", "loss", "labels") if role in self.values_by_role)
        remedy = "Fill them in, or name a column that says which rows have no answer: -c abstained=NAME."
        if role == "correct":
            # `write_grades` returns what the user can type: "0=wrong,1=right"
            remedy = (
                f"If these are questions without an answer, say what each value means: --grades "
                f"{self.write_grades(role)},=unanswered. If nobody has judged them yet, leave them out: "
                f"--missing left_out."
            )
        row_count = count_noun(int(is_missing.sum()), "row")
        error = self.error(
            f"{row_count} {has_or_have(int(is_missing.sum()))} nothing in `{display_name(self.roles[role].names[0])}`, "
            f"first row {int(np.argmax(is_missing)) + 1:,}. {remedy}"
        )
        raise BlankOutcomesError(str(error))

    def write_grades(self, role: str) -> str:
        """Return what `--grades` takes for a column of truth values: "0=wrong,1=right", in the words of the column."""
        values = self.values_by_role[role]
        if not isinstance(values, TextValues):
            return "0=wrong,1=right"
        grades = {0.0: "wrong", 1.0: "right"}
        words = [text for text in values.distinct_texts if text.strip()]
        return ",".join(f"{display_name(text)}={grades[TRUTH_WORDS[text.strip().lower()]]}" for text in words)

    def check_answers_have_confidence(self, confidence: np.ndarray, abstained: np.ndarray | None) -> None:
        """Raise DataError where a row that the model answered has no confidence.

        `confidence` is NaN where a row has none; `abstained` is a mask, or None where the model answered every row.
        `error` makes a DataError that names the file.
        """
        is_missing = np.isnan(confidence.astype(np.float64))
        if abstained is not None:
            is_missing &= ~abstained
        if is_missing.any():
            count = int(is_missing.sum())
            first_row = int(np.argmax(is_missing)) + 1
            raise self.error(
                f"{count_noun(count, 'row')} {has_or_have(count)} no confidence, first row {first_row:,}. "
                f"Leave such rows out with --missing left_out, or rank them last with --missing last."
            )

    def find_losses(self) -> NamedLosses:
        """Return one loss per row, and their name: "zero_one" (0 right, 1 wrong), "partial_credit" or "loss".

        Partial credit is 1 less a correctness between 0 and 1; "loss" are any numbers, larger where an answer is worse.

        They come from the first of correct, error, loss, or labels with predictions; NaN where the cell, or the label,
        is empty. UncertainError where there is none of them. DataError where values are invalid, or where correct or
        error contradicts labels and predictions. `values_by_role` maps roles ("labels", ...) to loaded columns.
        """
        labels = self.values_by_role.get("labels")
        prediction = self.values_by_role.get("prediction")
        # Checks alone; the losses follow below. Comparable are words with words, and numbers with numbers. Others
        # matter only where nothing else gives losses: `zero_one_loss` refuses them below.
        if labels is not None and prediction is not None and _are_comparable(labels, prediction):
            label_loss = self.zero_one_loss(labels, prediction)
            self.refuse_contradicted_correctness(is_wrong=label_loss == 1, is_known=~np.isnan(label_loss))
            self.warn_if_never_wrong(label_loss)
        if "correct" in self.values_by_role:
            return self.read_correctness()
        if "error" in self.values_by_role:
            return NamedLosses(self.require_truth_values("error"), name="zero_one")
        if "loss" in self.values_by_role:
            self.refuse_score_as_loss()  # raises if the column's name says that larger is better
            return NamedLosses(self.require_numbers("loss"), name="loss")
        if labels is not None and prediction is not None:
            return NamedLosses(self.zero_one_loss(labels, prediction), name="zero_one")
        # a DataError after which the command line may ask for the missing columns
        raise UncertainError(self.explain_missing(), self.source)

    def read_correctness(self) -> NamedLosses:
        """Return the losses 1 - correctness of a column from 0 (wrong) to 1 (right), NaN where empty, and their name.

        The name is "zero_one", or "partial_credit" where some answer is neither right nor wrong. DataError where
        numbers lie outside 0 to 1, or words are no truth values. `values_by_role` maps roles ("labels", ...) to loaded
        columns: arrays of numbers, or `TextValues`. Rows in messages count from 1.
        """
        values = self.values_by_role["correct"]
        if isinstance(values, TextValues):
            return NamedLosses(1 - self.require_truth_values("correct"), name="zero_one")
        loss = 1 - np.asarray(values, np.float64).reshape(-1)
        scored_loss = loss[~np.isnan(loss)]
        if scored_loss.size and not (scored_loss.min() >= 0 and scored_loss.max() <= 1):
            farthest_row = int(np.nanargmax(np.abs(loss - 0.5)))  # outside of 0 to 1; the message shows it
            # for few numbers, some below 0: how to say what each means; otherwise ""
            remedy = self._explain_grades_by_numbers(1 - scored_loss) or (
                "Divide a score by its maximum (-c correct=NAME/10), or name another column."
            )
            raise self.error(
                f"correctness must lie between 0 (wrong) and 1 (right), got {1 - loss[farthest_row]:g} in row "
                f"{farthest_row + 1:,}. {remedy}"
            )
        return NamedLosses(loss, name="partial_credit" if self.holds_partial_credit() else "zero_one")

    def _explain_grades_by_numbers(self, correctness: np.ndarray) -> str:
        """Return the sentence that asks what each number of the column of correctness means.

        That is where some are below 0, so that no maximum makes them shares: -1, 0 and 1, or preferences 0, 1 and 2
        less 1. "" where none is negative, or where more than `MAX_GRADES`, 6, differ. `correctness` holds the numbers
        without gaps, at least one. `roles` maps each role to the names of its columns; such a name may be a computation
        (`preference-1`), and the numbers that are asked about are then those of the column itself.
        """
        if correctness.min() >= 0:
            return ""
        name = self.roles["correct"].names[0]
        computed = split_computed_name(name)  # `preference-1`; None for a plain name
        if computed is not None and computed.operation == "-":
            name = computed.column
            correctness = correctness + computed.number
        numbers = np.unique(correctness)
        return (
            explain_grades(name, [f"{number:g}" for number in numbers]) if len(numbers) <= MAX_GRADES else ""
        )

    def holds_partial_credit(self) -> bool:
        """Return whether the column of correctness holds numbers other than 0 and 1."""
        values = self.values_by_role["correct"]
        if isinstance(values, TextValues):
            return False
        numbers = np.asarray(values, np.float64)
        return not np.isin(numbers[~np.isnan(numbers)], (0, 1)).all()

    def refuse_score_as_loss(self) -> None:
        """Raise DataError where the user named a column as the loss whose name says that larger is better."""
        name = self.roles["loss"].names[0]
        words = set(re.split(r"[^a-z0-9]+", name.lower()))
        if "loss" in self.stated_roles and words & _SCORE_WORDS and not words & _LOSS_WORDS:
            raise self.error(
                f"`{display_name(name)}` is named as the loss, which is larger where an answer is worse, and its name "
                f"says that larger is better. State -c correct={display_name(name)} for a score from 0 (wrong) to 1 "
                f"(right), or rename the column if it is a loss."
            )

    def zero_one_loss(self, labels: Values, prediction: Values) -> np.ndarray:
        """Return 1 where the prediction is not the label, 0 where it is, NaN where there is no label.

        DataError unless both are words, or both are numbers, and they have one length. Words are equal if their texts
        are; a missing prediction of a known label is wrong.
        """
        if not _are_comparable(labels, prediction):
            raise self.error("labels and predictions must be of one kind and length to be compared.")
        if isinstance(labels, TextValues) and isinstance(prediction, TextValues):
            # A label's code is its position in the distinct labels; a prediction that is no label has the position -1.
            is_wrong = labels.code_of_row != prediction.positions_in(labels.distinct_texts)
        else:
            is_wrong = np.asarray(labels != prediction)
        return np.where(has_value(labels), is_wrong, np.nan)

    def sample_fields(self, n: int, **fields: Any) -> dict[str, Any]:
        """Add the columns of single samples to `fields`, and return them: abstentions, clusters, groups, weights ...

        Keys are keyword arguments of `Predictions`; columns that the file lacks are left out. DataError where any
        column, those passed as `fields` included, does not have `n` rows, or where weights, costs or confidences are
        text. `values_by_role` maps roles ("labels", ...) to loaded columns: arrays of numbers, or `TextValues`. Masks
        are True where the model abstained, or where a question has no answer.
        """
        abstained = self.find_abstentions()
        if abstained is not None:
            fields["abstained"] = abstained
        unanswerable = self.find_unanswerable()
        if unanswerable is not None:
            fields["unanswerable"] = unanswerable
        if "clusters" in self.values_by_role:
            self.refuse_missing_clusters()
            clusters = self.values_by_role["clusters"]
            # Names and not codes: a cluster of this file may occur in another file too.
            if isinstance(clusters, TextValues):
                fields["clusters"] = clusters.texts()
            else:  # two columns are two kinds of clusters
                fields["clusters"] = clusters if clusters.shape == (n, 2) else clusters.reshape(-1)
        if "groups" in self.values_by_role:
            fields["groups"] = self.values_by_role["groups"]
        for role in ("sample_weight", "cost", "confidence"):
            if role in self.values_by_role:
                fields[role] = self.require_numbers(role).reshape(-1)  # raises for text
        self.check_lengths(n, fields)
        return fields

    def refuse_missing_clusters(self) -> None:
        """Raise DataError where the cell of a cluster is empty: rows of unknown clusters are not one cluster.

        `values_by_role` maps roles ("labels", ...) to loaded columns, `roles` to their names. The role of clusters must
        be among them. Clusters may be texts, numbers of shape (n,), or two columns of shape (n, 2).
        """
        clusters = self.values_by_role["clusters"]
        if isinstance(clusters, TextValues) or clusters.ndim == 1:
            columns = [clusters]
        else:  # two kinds of clusters, words or numbers
            columns = [
                TextValues.of(
                    "" if name != name else str(name) for name in column
                )  # NaN is not equal to itself
                for column in clusters.T.tolist()
            ]
        # `has_value`: for each row, is the cell neither empty nor NaN? One empty cell of two is enough.
        is_missing = ~np.all([has_value(column) for column in columns], axis=0)
        if is_missing.any():
            count = int(is_missing.sum())
            # `roles` gives the name of the column, or both names with a comma
            raise self.error(
                f"{count_noun(count, 'row')} {has_or_have(count)} nothing in `{display_name(self.roles['clusters'])}`, "
                f"the clusters, first row {int(np.argmax(is_missing)) + 1:,}. Give each a name of its own if it is "
                f"independent of the others, or leave these rows out of the file."
            )

    def check_lengths(self, n: int, columns: Mapping[str, Values]) -> None:
        """Raise DataError where a column does not have n rows."""
        for name, values in columns.items():
            if len(values) != n:
                raise self.error(
                    f"`{display_name(name)}` must have {n} rows like the other columns, got {len(values)}."
                )

    def find_abstentions(self) -> np.ndarray | None:
        """Return where the model abstained by the columns `abstained` or `answered`; None where there is neither.

        An empty cell of `abstained` means that it did not abstain, one of `answered` that it did not answer.
        """
        masks = []
        if "abstained" in self.values_by_role:
            masks.append(np.nan_to_num(self.require_truth_values("abstained")).astype(bool))
        if "answered" in self.values_by_role:
            masks.append(np.nan_to_num(self.require_truth_values("answered")) == 0)
        return np.any(masks, axis=0) if masks else None

    def find_unanswerable(self) -> np.ndarray | None:
        """Return for each row whether its question has no answer, so that not answering it is right.

        By the columns `unanswerable` or `answerable`; None where there is neither. A column that the user did not name
        and that does not say true or false in every row is left out with a warning. DataError where the user named such
        a column, or where the two columns contradict each other. `values_by_role` maps roles ("labels", ...) to loaded
        columns, and `stated_roles` are the roles whose columns the user named.
        """
        masks = []  # of unanswerable questions, one by each column that the file has
        for role, value_of_unanswerable in (("unanswerable", 1.0), ("answerable", 0.0)):
            if role not in self.values_by_role:
                continue
            try:
                truth = self.require_truth_values(role)  # 1 true, 0 false, NaN for an empty cell
                if np.isnan(truth).any():
                    row = int(np.argmax(np.isnan(truth))) + 1
                    raise self.error(f"`{role}` must be true or false in every row, got none in row {row}.")
            except DataError as problem:
                if role in self.stated_roles:
                    raise
                # one call deeper than where class scores are loaded
                warnings.warn(
                    f"{problem} The column is left out.",
                    AbstainWarning,
                    stacklevel=_CALLER_OF_READ_PREDICTIONS + 1,
                )
            else:
                masks.append(truth == value_of_unanswerable)
        if not masks:
            return None
        if not np.array_equal(masks[0], masks[-1]):  # of a single mask, both are the same
            raise self.error("`unanswerable` and `answerable` contradict each other. Leave one of them out.")
        return np.asarray(masks[0])

    def labels_as_class_numbers(self) -> np.ndarray:
        """Return labels as class numbers: positions in the order of the class scores.

        Labels that are words are looked up in the class names. Labels that are numbers are class numbers already, and
        one-hot rows are returned as they are; but where the classes are named by numbers (`prob_1`, `prob_2`), numbers
        are looked up in these. DataError where the order of the classes is not known (labels are words and there are no
        class names, or labels are numbers and columns are named by words), or where a label is none of the classes.
        `values_by_role` maps roles ("labels", ...) to loaded columns; `classes` are the class names in the order of the
        class scores, empty where there are none. Numbers start from 0, and are not checked against the number of
        classes here.
        """
        labels = self.values_by_role["labels"]
        if isinstance(labels, TextValues):
            if not self.classes:
                raise self.error(
                    "the labels are words, so the order of the classes must be known. "
                    "State it with --classes first,second,... or a `classes` array in the file."
                )
            return self.look_up_labels(labels, self.classes)  # positions in `classes`
        is_one_hot = labels.ndim != 1
        if is_one_hot or not self.classes:  # without names, numbers are those of the columns
            return labels
        numbers_in_names = _trailing_numbers(self.classes)  # ("1", "2") of prob_1 and prob_2; empty for words
        if numbers_in_names:
            labels_as_texts = TextValues.of(f"{label:.17g}" for label in labels.tolist())  # 1.0 becomes "1"
            return self.look_up_labels(labels_as_texts, numbers_in_names)
        if self.has_stated_classes:  # they were stated in the order of the class numbers
            return labels
        names = display_name(", ".join(self.classes[:3]))
        if len(self.classes) > 3:
            names += ", ..."
        raise self.error(
            f"the labels are numbers and the columns are named {names}, so nothing says which number is which "
            f"class. State the names in the order of the numbers: --classes first,second,..."
        )

    def look_up_labels(self, labels: TextValues, classes: tuple[str, ...]) -> np.ndarray:
        """Return the position of each label among the classes; DataError where a label is none of them.

        With empty cells the positions are float64, NaN for an empty one, as numbers with empty cells are read;
        otherwise they are integers. Blanks around the names of classes do not count. `_BLANK_LABELS` are "" and "nan".
        """
        class_numbers = labels.positions_in(map(str.strip, classes))  # -1 where it is none
        is_blank = (class_numbers < 0) & (labels.positions_in(_BLANK_LABELS) >= 0)
        is_unknown = (class_numbers < 0) & ~is_blank
        if is_unknown.any():
            unknown_label = labels.row(int(np.argmax(is_unknown)))
            raise self.error(
                f"label {display_name(unknown_label)!r} is not one of the classes {display_name(', '.join(classes))}."
            )
        return np.where(is_blank, np.nan, class_numbers) if is_blank.any() else class_numbers

    def require_numbers(self, role: str) -> np.ndarray:
        """Return the values of a role, which must be numbers; DataError where they are text, even numbers in quotes.

        True and false are 1 and 0. `values_by_role` maps roles ("labels", ...) to loaded columns, and must have this
        one. Numbers are returned as they are, in their shape and type, with NaN where a cell is empty.
        """
        values = self.values_by_role[role]
        if isinstance(values, TextValues):
            # some answers may lack a confidence; the other roles must have a number in each row
            if role == "confidence":
                # of texts such as 0.5 and N/A in a csv file; None where there is any other text
                numbers = numbers_with_missing_marks_or_none(values, self.source.format)
                if numbers is not None:
                    return numbers
            texts = sorted(values.distinct_texts, key=is_missing_mark)  # marks last: another word tells more
            for text in texts:
                if not is_number(text):
                    raise self.error(
                        f"the {role} must be numbers, got text such as {display_name(text)!r}. {HOW_TO_WRITE_NUMBERS}"
                    )
            raise self.error(f"the {role} must be numbers, got numbers in quotes. Remove the quotes.")
        return values.astype(np.float64) if values.dtype.kind == "b" else values

    def require_truth_values(self, role: str) -> np.ndarray:
        """Return 1 for true and 0 for false in each row as float64; NaN for an empty cell.

        The values of the role must be booleans, 0 and 1, or words of `TRUTH_WORDS` (true, yes, t, 1, false, no, f, 0,
        and "" for NaN) in any case; DataError otherwise. `values_by_role` maps roles ("labels", ...) to loaded columns,
        `roles` to their names. `TextValues` hold each distinct text once, and in `code_of_row` the index of each row's
        text.
        """
        values = self.values_by_role[role]
        if isinstance(values, TextValues):
            words = [text.strip().lower() for text in values.distinct_texts]
            for text, word in zip(values.distinct_texts, words):
                if word not in TRUTH_WORDS:
                    if role == "correct":  # other words may be grades, whose meaning the user can state
                        raise self.error(explain_grades(str(self.roles[role]), values.distinct_texts))
                    remedy = " Name another column with -c correct=NAME." if role == "error" else ""
                    raise self.error(f"`{role}` must be true or false, got {display_name(text)!r}.{remedy}")
            return np.array([TRUTH_WORDS[word] for word in words])[values.code_of_row]
        numbers = values.reshape(-1).astype(np.float64)
        is_invalid = ~((numbers == 0) | (numbers == 1) | np.isnan(numbers))
        if is_invalid.any():
            row = int(np.argmax(is_invalid))
            raise self.error(f"`{role}` must be 0 or 1, got {numbers[row]:g} in row {row + 1}.")
        return numbers

    def explain_missing(self) -> str:
        """Return the message for a file whose columns do not make predictions: what it has, and what to state.

        The cases: class scores without labels, an array without a name (readers call it "array"), and everything else.
        `roles` maps each role ("labels", "confidence", ...) to its columns, and `stated_roles` are those that the user
        named. `source` is the file, with its columns by name; `list_columns` lists their names as one text. The caller
        puts the name of the file before the message.
        """
        listed = self.source.list_columns()
        for role in ("logits", "probs"):
            if role in self.roles:
                remedy = "State them with --labels FILE or --column labels=NAME"
                return f"has {role} and no labels. {remedy}; it has {listed}."
        # a column whose name is one for right and wrong answers, and that the user named as something else
        for role in sorted(self.stated_roles & self.roles.keys()):
            for name in self.roles[role].names:
                if role != "correct" and normalise_name(name) in COLUMN_NAMES["correct"]:
                    return (
                        f"`{display_name(name)}` is named as the {role}, so it cannot be the column of right and wrong "
                        f"answers too. Name another column for one of them; it has {listed}."
                    )
        if "array" in self.source.columns:
            return "holds an array without a name. State what it is with --as logits or --as probs, and --labels FILE."
        return (
            f"needs `logits` or `probs` with `labels`, or `correct` (or `loss`) with `confidence`, and has {listed}. "
            f"State which is which with --column ROLE=NAME."
        )

    def error(self, text: str) -> Exception:
        """Return a DataError that names the file."""
        return file_error(self.source.path, text)


def _rounding_tolerance(probs: np.ndarray) -> float:
    """Return how far a row may be from summing to one because its numbers have 2, 3 or 4 decimals; at most 0.1.

    Each number of a row is off by at most half a unit of the last decimal. Zero where they have more decimals.
    """
    first_rows = probs[:_MAX_ROWS_TO_FIND_DECIMALS].astype(np.float64)
    for decimals in (2, 3, 4):
        scaled = first_rows * 10**decimals
        if np.abs(scaled - np.rint(scaled)).max() < 1e-4:
            return min(_MAX_ROUNDING, 0.5 * probs.shape[1] * 10.0**-decimals * (1 + 1e-9))
    return 0.0


def _round_up(value: float) -> str:
    """Return the smallest number with one digit that is not below `value`, as a user would write it."""
    unit = 10.0 ** np.floor(np.log10(value))
    return f"{np.ceil(value / unit) * unit:.1g}"


def _trailing_numbers(classes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the numbers in the names of numbered classes (0, 1 or class_0, class_1); empty where names are words.

    It is empty too where the names have different words before their numbers. Leading zeros are dropped.

    >>> _trailing_numbers(("class_2", "class_10")), _trailing_numbers(("cat", "dog2"))
    (('2', '10'), ())
    """
    prefixes = set()
    numbers = []
    for name in classes:
        match = re.fullmatch(r"(\D*)(\d+)", name, re.ASCII)
        if match is None:
            return ()
        prefixes.add(match.group(1))
        numbers.append(str(int(match.group(2))))
    return tuple(numbers) if len(prefixes) == 1 else ()


def _are_comparable(labels: Values, prediction: Values) -> bool:
    """Return whether labels and predictions are both words or both numbers, and have one length."""
    if isinstance(labels, TextValues) or isinstance(prediction, TextValues):
        return (
            isinstance(labels, TextValues)
            and isinstance(prediction, TextValues)
            and len(labels) == len(prediction)
        )
    return labels.ndim == 1 and labels.shape == prediction.shape
