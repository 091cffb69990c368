"""From loaded columns to the fields of `Predictions`: checked, and refused in one clear line."""

from __future__ import annotations

from typing import Any

import numpy as np

from abstain.errors import DataError
from abstain.formats.columns import Source, Values, Words
from abstain.formats.limits import shown
from abstain.formats.roles import Choice, UncertainError

_TRUE, _FALSE = ("true", "1", "yes", "t"), ("false", "0", "no", "f")


class Building:
    """The loaded columns on their way to `Predictions`; each method checks one thing and says so."""

    def __init__(self, source: Source, loaded: dict[str, Values], classes: tuple[str, ...]) -> None:
        self.source, self.loaded, self.classes = source, loaded, classes
        self.notes: list[str] = []

    def fail(self, text: str) -> DataError:
        """An error that names the file."""
        return DataError(f"{shown(self.source.path)}: {text}")

    def numbers(self, role: str) -> np.ndarray:
        """A column of numbers; text is refused."""
        values = self.loaded[role]
        if isinstance(values, Words):
            bad = next((v for v in values.values if not _is_number(v)), "")
            raise self.fail(f"the {role} must be numbers, got text such as {shown(bad)!r}.")
        return values

    def truth(self, role: str) -> np.ndarray:
        """True or false for each row, from booleans, 0 and 1, or the words; an empty cell is NaN."""
        values = self.loaded[role]
        if isinstance(values, Words):
            table = np.array([_truth(v) for v in values.values])
            if np.any(table == 2):
                bad = values.values[int(np.argmax(table == 2))]
                raise self.fail(f"`{role}` must be true or false, got {shown(bad)!r}.")
            return table[values.codes]
        flat = values.reshape(-1).astype(np.float64)
        wrong = ~((flat == 0) | (flat == 1) | np.isnan(flat))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise self.fail(f"`{role}` must be 0 or 1, got {flat[at]:g} in row {at + 1}.")
        return flat

    def along(self, n: int) -> dict[str, Any]:
        """What goes along the samples, each of the right length."""
        found: dict[str, Any] = {}
        if "abstained" in self.loaded:
            found["abstained"] = np.nan_to_num(self.truth("abstained")).astype(bool)
        if "weight" in self.loaded:
            found["weight"] = self.numbers("weight").reshape(-1)
        if "cluster" in self.loaded:
            cluster = self.loaded["cluster"]
            found["clusters"] = cluster.codes if isinstance(cluster, Words) else cluster.reshape(-1)
        if "group" in self.loaded:
            found["groups"] = self.loaded["group"]
        if "confidence" in self.loaded:
            found["confidence"] = self.numbers("confidence").reshape(-1)
        for name, values in found.items():
            if len(values) != n:
                raise self.fail(f"`{name}` must have {n} rows as the rest, got {len(values)}.")
        return found

    def from_scores(self, kind: str) -> dict[str, Any]:
        """Logits or probabilities with labels."""
        scores = self.numbers(kind)
        if scores.ndim != 2:
            more = " For an ensemble use `abstain.expected_aurc` in Python." if scores.ndim == 3 else ""
            raise self.fail(f"the {kind} must have shape (samples, classes), got {scores.shape}.{more}")
        n, count = scores.shape
        if n == 0:
            raise self.fail("has no rows.")
        if count < 2:
            raise self.fail(
                f"the {kind} must have at least two classes, got one. One column p becomes 1 - p and p."
            )
        if self.classes and len(self.classes) != count:
            raise self.fail(f"has {len(self.classes)} class names for {count} classes.")
        labels = self.label_numbers(self.loaded["labels"], count)
        if len(labels) != n:
            raise self.fail(f"the labels must have {n} rows as the {kind}, got {len(labels)}.")
        return {"n": n, kind: scores, "labels": labels, "classes": self.classes, **self.along(n)}

    def label_numbers(self, labels: Values, count: int) -> np.ndarray:
        """Labels as class numbers; words need the order of the classes."""
        if isinstance(labels, np.ndarray):
            if self.classes and all(c.isdigit() for c in self.classes) and labels.ndim == 1:
                labels = Words.of(f"{v:g}" for v in labels.tolist())
            else:
                return labels
        if not self.classes:
            raise self.fail(
                "the labels are words, so the order of the classes must be known. "
                "State it with --classes first,second,... or a `classes` array in the file."
            )
        place = {name: k for k, name in enumerate(self.classes)}
        unknown = [v for v in labels.values if v not in place]
        used = set(np.unique(labels.codes).tolist())
        if any(labels.values.index(v) in used for v in unknown):
            raise self.fail(
                f"label {shown(unknown[0])!r} is none of the classes {shown(', '.join(self.classes))}."
            )
        return np.array([place.get(v, -1) for v in labels.values], dtype=np.int64)[labels.codes]

    def from_table(self, roles: dict[str, Choice]) -> dict[str, Any]:
        """A plain table: correct (or loss, or label and prediction) beside a confidence."""
        if "confidence" not in self.loaded:
            raise UncertainError(f"{shown(self.source.path)}: {self.missing(roles)}", self.source)
        loss, name = self.losses(roles)
        confidence = self.numbers("confidence")
        if confidence.ndim != 1 or loss.ndim != 1:
            raise self.fail(f"needs one confidence per row, got shape {confidence.shape}.")
        if len(confidence) == 0:
            raise self.fail("has no rows.")
        found = self.along(len(confidence))
        if len(loss) != len(confidence):
            raise self.fail(f"has {len(confidence)} confidences and {len(loss)} losses.")
        if "abstained" in found:  # what a model that refused would have said is not read: any number serves
            away = found["abstained"]
            loss, found["confidence"] = np.where(away, 0.0, loss), np.where(away, 0.0, confidence)
        labels = self.loaded.get("labels")
        return {
            "n": len(confidence), "loss": loss, "loss_name": name, **found, "classes": self.classes,
            "labels": labels if isinstance(labels, np.ndarray) and labels.ndim == 1 else None,
            "label_words": labels if isinstance(labels, Words) else None,
        }  # fmt: skip

    def losses(self, roles: dict[str, Choice]) -> tuple[np.ndarray, str]:
        """The losses of a plain table and their name."""
        for role, name in (("correct", "zero_one"), ("error", "zero_one"), ("loss", "loss")):
            if role in self.loaded:
                if role == "loss":
                    values = self.numbers(role)
                    return (values.astype(np.float64) if values.dtype.kind == "b" else values), name
                told = self.truth(role)
                return (1 - told if role == "correct" else told), name
        if "labels" in self.loaded and "prediction" in self.loaded:
            return self.disagree(self.loaded["labels"], self.loaded["prediction"]), "zero_one"
        raise UncertainError(f"{shown(self.source.path)}: {self.missing(roles)}", self.source)

    def disagree(self, labels: Values, prediction: Values) -> np.ndarray:
        """1 where the prediction is not the label."""
        if isinstance(labels, Words) != isinstance(prediction, Words) or len(labels) != len(prediction):
            raise self.fail("labels and predictions must be of one kind and length to be compared.")
        if isinstance(labels, Words) and isinstance(prediction, Words):
            place = {v: k for k, v in enumerate(labels.values)}
            same = np.array([place.get(v, -1) for v in prediction.values], dtype=np.int64)[prediction.codes]
            return (same != labels.codes).astype(np.float64)
        return np.asarray(labels != prediction).astype(np.float64)

    def missing(self, roles: dict[str, Choice]) -> str:
        """What to say when the columns do not make predictions."""
        has = self.source.listed()
        if "logits" in roles or "probs" in roles:
            what = "logits" if "logits" in roles else "probs"
            return f"has {what} and no labels. State them with --labels FILE or --column labels=NAME; it has {has}."
        if "array" in self.source.columns:
            return "holds an array without a name. State what it is with --as logits or --as probs, and --labels FILE."
        return (
            f"needs `logits` or `probs` with `labels`, or `correct` (or `loss`) with `confidence`, and has {has}. "
            f"State which is which with --column ROLE=NAME."
        )


def _truth(text: str) -> float:
    word = text.strip().lower()
    return 1.0 if word in _TRUE else 0.0 if word in _FALSE else np.nan if not word else 2.0


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
