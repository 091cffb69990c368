"""Columns by role, loaded: each check says what is wrong."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain._check import rows_sum_to_one, sum_tolerance
from abstain._tables import is_number
from abstain.errors import AbstainWarning
from abstain.formats.columns import Source, UncertainError, Values, Words, filled
from abstain.formats.roles import RoleColumns
from abstain.formats.safety import count_noun, display_name, file_error, has_or_have

TRUTH = dict.fromkeys(("true", "1", "yes", "t"), 1.0) | dict.fromkeys(("false", "0", "no", "f"), 0.0)
TRUTH[""] = np.nan
PLAIN = (
    "Write plain numbers, without % signs or units. Leave a cell without one empty, and say --missing left_out or "
    "--missing last."
)


# columns by role, loaded: each check says what is wrong

_PREDICTED_FROM = 8  # rows from which a binary probability that is never below one half is another's
_ROUNDED = 0.1  # sums of rounded probabilities that are further from one are nobody's rounding


@dataclass(frozen=True)
class Loaded:
    """The columns of a file on their way to `Predictions`; each method checks one thing and says so."""

    source: Source
    roles: dict[str, RoleColumns]
    values: dict[str, Values]
    classes: tuple[str, ...] = ()
    stated: Set[str] = frozenset()
    tolerance: float | None = None
    classes_stated: bool = False

    def class_scores(self, kind: str) -> dict[str, Any]:
        """Logits or probabilities with labels."""
        found = self.by_class(kind)
        if found.ndim != 2:
            more = " For an ensemble use `abstain.expected_aurc` in Python." if found.ndim == 3 else ""
            raise self.error(f"the {kind} must have shape (samples, classes), got {found.shape}.{more}")
        n, count = found.shape
        if n == 0:
            raise self.error("has no rows.")
        if count == 0:
            raise self.error(f"the {kind} must have a column for each class, got none.")
        if self.classes and len(self.classes) != count:
            raise self.error(f"has {len(self.classes)} class names for {count} classes.")
        labels = self.label_numbers()
        if len(labels) != n:
            raise self.error(f"the labels must have {n} rows as the {kind}, got {len(labels)}.")
        if labels.ndim == 1 and {"correct", "error"} & self.values.keys():
            alone = (found == found.max(axis=1, keepdims=True)).sum(axis=1) == 1
            self.check_verdict(found.argmax(axis=1) != labels, alone)
        found = self.summing_to_one(found) if kind == "probs" else found
        return {"n": n, kind: found, "labels": labels, "classes": self.classes, **self.along(n)}

    def by_class(self, kind: str) -> np.ndarray:
        """Logits or probabilities, a column for each class; one column is that of class 1 of a binary model."""
        values = self.numbers(kind)
        if values.ndim != 1 and values.shape[-1] != 1:
            if kind == "logits" and values.size and values.min() >= 0 and values.max() <= 1:
                self.refuse_probabilities(values)
            return values
        if values.ndim > 2 or not len(values):
            return values
        of_class_1 = values.reshape(-1).astype(np.float64)
        name = display_name(self.roles[kind].names[0])
        if kind == "probs" and len(of_class_1) >= _PREDICTED_FROM and of_class_1.min() >= 0.5:
            raise self.error(
                f"`{name}` is never below 0.5, as the probability of the prediction would be, and not that of class 1. "
                f"State it as a confidence, -c confidence={name}, beside a column of right and wrong answers."
            )
        self.check_prediction(of_class_1 > (0.5 if kind == "probs" else 0.0), name)
        what = "probability" if kind == "probs" else "log-odds"
        message = f"{display_name(self.source.path)}: `{name}` is taken for the {what} of class 1 of a binary model."
        warnings.warn(message, AbstainWarning, stacklevel=5)
        if kind == "probs":
            return np.stack([1 - of_class_1, of_class_1], axis=1)
        return np.stack([-of_class_1 / 2, of_class_1 / 2], axis=1)

    def refuse_probabilities(self, values: np.ndarray) -> None:
        """Logits whose rows sum to one have been through the softmax."""
        if rows_sum_to_one(np, values, sum_tolerance(values)):
            pattern = "NAME" if len(self.roles["logits"].names) == 1 else "PATTERN"
            raise self.error(
                f"its logits lie in [0, 1] and sum to one in every row, so they are probabilities. State them as "
                f"-c probs={pattern}, or --as probs for an array without a name."
            )

    def check_prediction(self, answers_1: np.ndarray, name: str) -> None:
        """A column of predictions of 0 and 1 must not contradict the class that a binary model's number answers."""
        prediction = self.values.get("prediction")
        if not isinstance(prediction, np.ndarray) or prediction.shape != answers_1.shape:
            return
        against = (prediction == 1) != answers_1
        if set(np.unique(prediction).tolist()) <= {0, 1} and against.any():
            column = display_name(self.roles["prediction"].names[0])
            raise self.error(
                f"`{column}` contradicts `{name}` in {int(against.sum()):,} rows, first in row "
                f"{int(np.argmax(against)) + 1}: `{name}` must be that of class 1. Leave one of them out."
            )

    def summing_to_one(self, probs: np.ndarray) -> np.ndarray:
        """Probabilities that were rounded when they were written are divided by their sums, and that is told."""
        total = probs.sum(axis=1, keepdims=True, dtype=np.float64)
        off = float(np.abs(total - 1).max())
        if off <= sum_tolerance(probs) or not np.isfinite(off):
            return probs  # `evaluate` objects to numbers that are not finite
        if off > (self.tolerance if self.tolerance is not None else _explained_by_rounding(probs)):
            row = int(np.argmax(np.abs(total - 1)))
            rounded = f"; if they are rounded, allow it: --tolerance {_rounded_up(off)}" if off <= 0.5 else ""
            raise self.error(
                f"each row of probabilities must sum to one, got {float(total[row, 0]):.6g} in row {row + 1:,}. If "
                f"they are logits, say so: -c logits=NAME, or --as logits for an array without a name{rounded}."
            )
        told = (
            f"{display_name(self.source.path)}: rows of probabilities were divided by their sums, which are "
            f"off by up to"
        )
        warnings.warn(f"{told} {off:.2g} (rounded numbers?).", AbstainWarning, stacklevel=4)
        return np.asarray(probs / total)

    def check_verdict(self, wrong: np.ndarray, known: Any = True) -> None:
        """A column of right and wrong must not contradict the labels, unless it was stated to count."""
        if "abstained" in self.values:
            known = known & (self.truth("abstained") != 1)
        for role in {"correct", "error"} & self.values.keys() - self.stated:
            truth = self.truth(role)
            said = truth == (role == "correct")  # is it said to be right?
            if said.shape != wrong.shape or not (against := known & (said == wrong) & ~np.isnan(truth)).any():
                continue
            name = display_name(self.roles[role].names[0])
            raise self.error(
                f"`{name}` contradicts the labels in {int(against.sum()):,} rows, first in row "
                f"{int(np.argmax(against)) + 1}. Leave one of them out, or say that it counts: --column {role}={name}."
            )

    def plain_table(self) -> dict[str, Any]:
        """Correct (or loss, or label and prediction) beside a confidence."""
        if "confidence" not in self.values:
            raise UncertainError(self.missing(), self.source)
        loss, name = self.losses()
        confidence = self.numbers("confidence")
        if confidence.ndim != 1 or loss.ndim != 1:
            raise self.error(f"needs one confidence per row, got shape {confidence.shape}.")
        if len(confidence) == 0:
            raise self.error("has no rows.")
        found = self.along(len(confidence), loss=loss)
        self.check_complete(confidence, found.get("abstained"))
        if "abstained" in found:  # what a model that refused would have said is not read: any number serves
            away = found["abstained"]
            found |= {"loss": np.where(away, 0.0, loss), "confidence": np.where(away, 0.0, confidence)}
        labels, found["prediction"] = self.values.get("labels"), self.values.get("prediction")
        if isinstance(labels, Words):
            found["label_words"] = labels
        elif labels is not None and labels.ndim == 1:
            found["labels"] = labels
        return {"n": len(confidence), "loss_name": name, "classes": self.classes, **found}

    def check_complete(self, confidence: np.ndarray, abstained: np.ndarray | None) -> None:
        """A row of a plain table that the model answered must have a confidence."""
        missing = np.isnan(confidence.astype(np.float64))
        if abstained is not None:
            missing &= ~abstained
        if missing.any():
            count = int(missing.sum())
            raise self.error(
                f"{count_noun(count, 'row')} {has_or_have(count)} no confidence, first row "
                f"{int(np.argmax(missing)) + 1:,}. "
                f"Leave such rows out with --missing left_out, or rank them last with --missing last."
            )

    def losses(self) -> tuple[np.ndarray, str]:
        """The losses of a plain table and their name."""
        held = self.values
        labels, prediction = held.get("labels"), held.get("prediction")
        if labels is not None and prediction is not None and _comparable(labels, prediction):
            against = self.disagreement(labels, prediction)
            self.check_verdict(against == 1, ~np.isnan(against))
        if "correct" in held:
            return 1 - self.truth("correct"), "zero_one"
        if "error" in held:
            return self.truth("error"), "zero_one"
        if "loss" in held:
            values = self.numbers("loss")
            return values.astype(np.float64) if values.dtype.kind == "b" else values, "loss"
        if "labels" in held and "prediction" in held:
            return self.disagreement(held["labels"], held["prediction"]), "zero_one"
        raise UncertainError(self.missing(), self.source)

    def disagreement(self, labels: Values, prediction: Values) -> np.ndarray:
        """1 where the prediction is not the label; NaN where there is no label, so that nobody knows."""
        if not _comparable(labels, prediction):
            raise self.error("labels and predictions must be of one kind and length to be compared.")
        if isinstance(labels, Words) and isinstance(prediction, Words):
            wrong = labels.codes != prediction.numbered(labels.values)
        else:
            wrong = np.asarray(labels != prediction)
        return np.where(filled(labels), wrong, np.nan)

    def along(self, n: int, **found: Any) -> dict[str, Any]:
        """What goes along the samples, each of the right length."""
        if (refused := self.refused()) is not None:
            found["abstained"] = refused
        if "clusters" in self.values:
            clusters = self.values["clusters"]
            # names, not codes: a cluster of this file may come again in another one
            found["clusters"] = clusters.texts() if isinstance(clusters, Words) else clusters.reshape(-1)
        if "groups" in self.values:
            found["groups"] = self.values["groups"]
        for role in ("sample_weight", "confidence"):
            if role in self.values:
                found[role] = self.numbers(role).reshape(-1)
        self.check_lengths(n, found)
        return found

    def check_lengths(self, n: int, columns: Mapping[str, Values]) -> None:
        """As many rows everywhere."""
        for name, values in columns.items():
            if len(values) != n:
                raise self.error(f"`{display_name(name)}` must have {n} rows as the rest, got {len(values)}.")

    def refused(self) -> np.ndarray | None:
        """Where the model abstained, if a column of `abstained` or `answered` says so.

        An empty cell says that it did not abstain, or that it did not answer.
        """
        masks = []
        if "abstained" in self.values:
            masks.append(np.nan_to_num(self.truth("abstained")).astype(bool))
        if "answered" in self.values:
            masks.append(np.nan_to_num(self.truth("answered")) == 0)
        return np.any(masks, axis=0) if masks else None

    def label_numbers(self) -> np.ndarray:
        """Labels as class numbers; words need the order of the classes."""
        labels = self.values["labels"]
        classes = self.classes
        if isinstance(labels, np.ndarray):
            if labels.ndim != 1 or not classes:
                return labels
            classes = _numbers_at_end(classes)
            if not classes and self.classes_stated:
                return labels
            if not classes:
                names = display_name(", ".join(self.classes[:3])) + (", ..." if len(self.classes) > 3 else "")
                raise self.error(
                    f"the labels are numbers and the columns are named {names}, so nothing says which number is which "
                    f"class. State the names in the order of the numbers: --classes first,second,..."
                )
            labels = Words.of(f"{v:.17g}" for v in labels.tolist())
        if not classes:
            raise self.error(
                "the labels are words, so the order of the classes must be known. "
                "State it with --classes first,second,... or a `classes` array in the file."
            )
        columns = labels.numbered(classes)
        if (columns < 0).any():
            unknown = labels.row(int(np.argmin(columns)))
            raise self.error(
                f"label {display_name(unknown)!r} is none of the classes {display_name(', '.join(classes))}."
            )
        return columns

    def numbers(self, role: str) -> np.ndarray:
        """A column of numbers; text is refused."""
        values = self.values[role]
        if isinstance(values, Words):
            bad = next((v for v in values.values if not is_number(v)), None)
            if bad is None:
                raise self.error(f"the {role} must be numbers, got numbers in quotes. Write them without.")
            raise self.error(f"the {role} must be numbers, got text such as {display_name(bad)!r}. {PLAIN}")
        return values

    def truth(self, role: str) -> np.ndarray:
        """1 for true and 0 for false in each row, from booleans, 0 and 1, or the words; an empty cell is NaN."""
        values = self.values[role]
        if isinstance(values, Words):
            for word in values.values:
                if word.strip().lower() not in TRUTH:
                    raise self.error(f"`{role}` must be true or false, got {display_name(word)!r}.")
            return np.array([TRUTH[word.strip().lower()] for word in values.values])[values.codes]
        flat = values.reshape(-1).astype(np.float64)
        wrong = ~((flat == 0) | (flat == 1) | np.isnan(flat))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise self.error(f"`{role}` must be 0 or 1, got {flat[at]:g} in row {at + 1}.")
        return flat

    def missing(self) -> str:
        """What to say when the columns do not make predictions."""
        has = self.source.listed()
        if what := next((role for role in ("logits", "probs") if role in self.roles), None):
            return f"has {what} and no labels. State them with --labels FILE or --column labels=NAME; it has {has}."
        if "array" in self.source.columns:
            return "holds an array without a name. State what it is with --as logits or --as probs, and --labels FILE."
        return (
            f"needs `logits` or `probs` with `labels`, or `correct` (or `loss`) with `confidence`, and has {has}. "
            f"State which is which with --column ROLE=NAME."
        )

    def error(self, text: str) -> Exception:
        """An objection that names the file."""
        return file_error(self.source.path, text)


def _explained_by_rounding(probs: np.ndarray) -> float:
    """How far a row may be from summing to one because its numbers were rounded to 2, 3 or 4 decimals; at most 0.1."""
    some = probs[:10_000].astype(np.float64)
    for decimals in (2, 3, 4):
        scaled = some * 10**decimals
        if np.abs(scaled - np.rint(scaled)).max() < 1e-4:
            return min(_ROUNDED, 0.5 * probs.shape[1] * 10.0**-decimals * (1 + 1e-9))
    return 0.0


def _rounded_up(value: float) -> str:
    """A number with one digit that is no smaller, as a user would write it."""
    size = 10.0 ** np.floor(np.log10(value))
    return f"{np.ceil(value / size) * size:.1g}"


def _numbers_at_end(classes: tuple[str, ...]) -> tuple[str, ...]:
    """The numbers in the names of numbered classes (0, 1 or class_0, class_1); nothing where names are words.

    >>> _numbers_at_end(("class_2", "class_10")), _numbers_at_end(("cat", "dog2"))
    (('2', '10'), ())
    """
    parts = [re.fullmatch(r"(\D*)(\d+)", name, re.ASCII) for name in classes]
    found_all = all(parts) and len({part.group(1) for part in parts if part}) == 1
    return tuple(str(int(part.group(2))) for part in parts if part) if found_all else ()


def _comparable(labels: Values, prediction: Values) -> bool:
    if isinstance(labels, Words) or isinstance(prediction, Words):
        return isinstance(labels, Words) and isinstance(prediction, Words) and len(labels) == len(prediction)
    return labels.ndim == 1 and labels.shape == prediction.shape
