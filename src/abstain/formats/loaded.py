"""The columns of a file by role, loaded and on their way to `Predictions`; each check says what is wrong."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain._check import sum_tolerance
from abstain._tables import is_number
from abstain.errors import AbstainWarning
from abstain.formats.columns import TRUTH, RoleColumns, Source, UncertainError, Values, Words
from abstain.formats.limits import file_error, shown

_ROUNDED = 0.1  # sums of rounded probabilities that are further from one are nobody's rounding


def load(source: Source, role: str, choice: RoleColumns) -> Values:
    """The values of one role, a column for each class where there are several."""
    parts = [source.columns[name].load() for name in choice.names]
    if len(parts) == 1:
        return parts[0]
    for name, part in zip(choice.names, parts):
        if isinstance(part, Words) or part.ndim != 1:
            raise file_error(source.path, f"column `{shown(name)}` must hold numbers for the {role}.")
    if len({len(part) for part in parts}) > 1:
        raise file_error(source.path, f"the columns of the {role} must have one length.")
    return np.stack(parts, axis=1)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Loaded:
    """The columns of a file on their way to `Predictions`; each method checks one thing and says so."""

    source: Source
    roles: dict[str, RoleColumns]
    values: dict[str, Values]
    classes: tuple[str, ...] = ()
    stated: Set[str] = frozenset()
    tolerance: float | None = None

    def class_scores(self, kind: str) -> dict[str, Any]:
        """Logits or probabilities with labels."""
        found = self.numbers(kind)
        if found.ndim != 2:
            more = " For an ensemble use `abstain.expected_aurc` in Python." if found.ndim == 3 else ""
            raise self.error(f"the {kind} must have shape (samples, classes), got {found.shape}.{more}")
        n, count = found.shape
        if n == 0:
            raise self.error("has no rows.")
        if count < 2:
            raise self.error(
                f"the {kind} must have at least two classes, got one. One column p becomes 1 - p and p."
            )
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

    def summing_to_one(self, probs: np.ndarray) -> np.ndarray:
        """Probabilities that were rounded when they were written are divided by their sums, and that is told."""
        total = probs.sum(axis=1, keepdims=True, dtype=np.float64)
        off, allowed = float(np.abs(total - 1).max()), self.tolerance
        if not sum_tolerance(probs) < off <= (_ROUNDED if allowed is None else allowed):
            return probs  # as it is; where that is too far off, `evaluate` objects
        if allowed is None:
            some = probs[:10_000].astype(np.float64)
            digits = (d for d in (2, 3, 4) if np.abs(some * 10**d - np.rint(some * 10**d)).max() < 1e-4)
            if off > 0.5 * probs.shape[1] * 10.0 ** -next(digits, 9) * (1 + 1e-9):
                return probs
        told = f"{shown(self.source.path)}: rows of probabilities were divided by their sums, which are off by up to"
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
            name = shown(self.roles[role].names[0])
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
        if "abstained" in found:  # what a model that refused would have said is not read: any number serves
            away = found["abstained"]
            found |= {"loss": np.where(away, 0.0, loss), "confidence": np.where(away, 0.0, confidence)}
        labels, found["prediction"] = self.values.get("labels"), self.values.get("prediction")
        if isinstance(labels, Words):
            found["label_words"] = labels
        elif labels is not None and labels.ndim == 1:
            found["labels"] = labels
        return {"n": len(confidence), "loss_name": name, "classes": self.classes, **found}

    def losses(self) -> tuple[np.ndarray, str]:
        """The losses of a plain table and their name."""
        held = self.values
        labels, prediction = held.get("labels"), held.get("prediction")
        if labels is not None and prediction is not None and _comparable(labels, prediction):
            self.check_verdict(self.disagreement(labels, prediction) == 1)
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
        """1 where the prediction is not the label."""
        if not _comparable(labels, prediction):
            raise self.error("labels and predictions must be of one kind and length to be compared.")
        if isinstance(labels, Words) and isinstance(prediction, Words):
            return (labels.codes != prediction.numbered(labels.values)).astype(np.float64)
        return np.asarray(labels != prediction).astype(np.float64)

    def along(self, n: int, **found: Any) -> dict[str, Any]:
        """What goes along the samples, each of the right length."""
        if (refused := self.refused()) is not None:
            found["abstained"] = refused
        if "clusters" in self.values:
            clusters = self.values["clusters"]
            found["clusters"] = clusters.codes if isinstance(clusters, Words) else clusters.reshape(-1)
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
                raise self.error(f"`{shown(name)}` must have {n} rows as the rest, got {len(values)}.")

    def refused(self) -> np.ndarray | None:
        """Where the model abstained, if a column says so; an empty cell says that it did not."""
        return np.nan_to_num(self.truth("abstained")).astype(bool) if "abstained" in self.values else None

    def label_numbers(self) -> np.ndarray:
        """Labels as class numbers; words need the order of the classes."""
        labels = self.values["labels"]
        if isinstance(labels, np.ndarray):
            if labels.ndim != 1 or not self.classes or not all(c.isdigit() for c in self.classes):
                return labels
            labels = Words.of(f"{v:g}" for v in labels.tolist())
        if not self.classes:
            raise self.error(
                "the labels are words, so the order of the classes must be known. "
                "State it with --classes first,second,... or a `classes` array in the file."
            )
        found = labels.numbered(self.classes)
        if (found < 0).any():
            unknown, known = labels.row(int(np.argmin(found))), ", ".join(self.classes)
            raise self.error(f"label {shown(unknown)!r} is none of the classes {shown(known)}.")
        return found

    def numbers(self, role: str) -> np.ndarray:
        """A column of numbers; text is refused."""
        values = self.values[role]
        if isinstance(values, Words):
            bad = next((v for v in values.values if not is_number(v)), None)
            if bad is None:
                raise self.error(f"the {role} must be numbers, got numbers in quotes. Write them without.")
            raise self.error(f"the {role} must be numbers, got text such as {shown(bad)!r}.")
        return values

    def truth(self, role: str) -> np.ndarray:
        """1 for true and 0 for false in each row, from booleans, 0 and 1, or the words; an empty cell is NaN."""
        values = self.values[role]
        if isinstance(values, Words):
            for word in values.values:
                if word.strip().lower() not in TRUTH:
                    raise self.error(f"`{role}` must be true or false, got {shown(word)!r}.")
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


def _comparable(labels: Values, prediction: Values) -> bool:
    return isinstance(labels, Words) == isinstance(prediction, Words) and len(labels) == len(prediction)
