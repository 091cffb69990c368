"""Predictions: what one file says about one model on one test set, checked and ready for `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abstain.errors import DataError
from abstain.formats.columns import Choice, Source, UncertainError, Values, Words, assign
from abstain.formats.limits import Limits, shown, values_of
from abstain.formats.readers import open_source

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


# predictions --------------------------------------------------------------------------------------
#
# Predictions: what one file says about one model on one test set, ready for `evaluate`.


@dataclass(frozen=True, repr=False)
class Predictions:
    """Logits or probabilities with labels, or losses with confidences, and what goes along the samples.

    `used` says which column was taken for what; `label_words` holds labels given as words where no class
    scores come with them.
    """

    name: str
    path: str
    format: str
    n: int
    logits: np.ndarray | None = None
    probs: np.ndarray | None = None
    labels: np.ndarray | None = None
    loss: np.ndarray | None = None
    confidence: np.ndarray | None = None
    abstained: np.ndarray | None = None
    groups: Values | None = None
    weight: np.ndarray | None = None
    clusters: np.ndarray | None = None
    label_words: Words | None = None
    loss_name: str = "loss"
    classes: tuple[str, ...] = ()
    used: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What the ranking comes from: "logits", "probs" or "confidence"."""
        return "logits" if self.logits is not None else "probs" if self.probs is not None else "confidence"

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `abstain.evaluate`."""
        own: dict[str, Any] = {
            "logits": self.logits, "probs": self.probs, "labels": self.labels if self.kind != "confidence" else None,
            "abstained": self.abstained, "sample_weight": self.weight, "clusters": self.clusters,
            "groups": group_labels(self.groups),
        }  # fmt: skip
        if self.loss is not None:
            own["loss"] = {self.loss_name: self.loss}
        if self.confidence is not None:
            own["confidence"] = {"confidence": self.confidence}
        return {name: value for name, value in own.items() if value is not None}

    def __repr__(self) -> str:
        return f"Predictions({self.name}, n = {self.n}, {self.kind}, from {self.format})"


def group_labels(groups: Values | None) -> np.ndarray | None:
    """Group names (or numbers) one per sample, as an array."""
    if isinstance(groups, Words):
        return (
            np.array(groups.values, dtype=str)[groups.codes] if len(groups.values) <= 10_000 else groups.codes
        )
    return groups


def read_predictions(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    kind: str | None = None,
    labels: str | Path | None = None,
    classes: tuple[str, ...] = (),
    name: str | None = None,
    format: str | None = None,  # noqa: A002
    limits: Limits | None = None,
) -> Predictions:
    """Read a file of predictions: npz, npy, csv, tsv, json, jsonl, parquet, arrow, feather, safetensors, pt.

    Parameters
    ----------
    columns : mapping of role to column name, optional
        Where the names do not say it: `{"confidence": "p_max", "labels": "truth", "probs": "class_*"}`.
    kind : {"logits", "probs", "confidence"}, optional
        What the one array of an npy file is.
    labels : path, optional
        A second file that holds the labels.
    classes : names, optional
        Class names in the order of the class scores, needed when labels are words.

    Raises
    ------
    DataError
        One line that names the file, what is wrong and what to do. Nothing in a file is ever executed, and
        no more memory is taken than `limits` allow.
    """
    limits = limits or Limits()
    source = open_source(path, format=format, limits=limits)
    roles = assign(source, columns or {}, kind)
    loaded = {role: _load(source, role, choice) for role, choice in roles.items() if _wanted(role, roles)}
    if labels is not None:
        loaded["labels"] = _labels_of(labels, limits)
    scores = next((r for r in ("logits", "probs") if r in loaded and "labels" in loaded), None)
    names = _class_names(classes, loaded.pop("classes", None), roles.get(scores or ""), source)
    built = Building(source, loaded, names)
    fields = built.from_scores(scores) if scores else built.from_table(roles)
    used = {role: str(roles[role]) for role in loaded if role in roles}
    if labels is not None:
        used["labels"] = shown(Path(labels).name)
    return Predictions(
        name=name or Path(path).name.split(".")[0] or Path(path).name,
        path=str(path), format=source.format, used=used, notes=tuple(built.notes), **fields,
    )  # fmt: skip


def _wanted(role: str, roles: dict[str, Choice]) -> bool:
    """Logits say all that probabilities say, so these are not read beside them."""
    return not (role == "probs" and "logits" in roles)


def _load(source: Source, role: str, choice: Choice) -> Values:
    if len(choice.names) == 1:
        return source.columns[choice.names[0]].load()
    parts = [source.columns[name].load() for name in choice.names]
    for name, part in zip(choice.names, parts):
        if isinstance(part, Words) or part.ndim != 1:
            raise DataError(f"{shown(source.path)}: column `{shown(name)}` must hold numbers for the {role}.")
    if len({len(part) for part in parts}) > 1:
        raise DataError(f"{shown(source.path)}: the columns of the {role} must have one length.")
    return np.stack(parts, axis=1)  # type: ignore[arg-type]


def _labels_of(path: str | Path, limits: Limits) -> Values:
    source = open_source(path, limits=limits)
    roles = assign(source, {}, "labels")
    if "labels" not in roles and len(source.columns) == 1:
        return next(iter(source.columns.values())).load()
    if "labels" not in roles:
        raise UncertainError(
            f"{shown(path)}: must have a column of labels, it has {source.listed()}.", source
        )
    return _load(source, "labels", roles["labels"])


def _class_names(
    stated: tuple[str, ...], inside: Values | None, choice: Choice | None, source: Source
) -> tuple[str, ...]:
    if stated:
        return stated
    if isinstance(inside, Words):
        return tuple(inside.row(i) for i in range(len(inside)))
    if inside is not None:
        return tuple(str(x) for x in np.asarray(inside).reshape(-1).tolist())
    return source.classes or (choice.suffixes if choice else ())


# vectors ------------------------------------------------------------------------------------------
#
# Losses and confidences of a file, for the commands that need one of each.


class Pair(NamedTuple):
    """One loss and one confidence per answered sample, and what goes along them."""

    loss: np.ndarray
    confidence: np.ndarray
    groups: np.ndarray | None
    weight: np.ndarray | None
    left_out: int
    own: bool  # is the confidence a column of the file, rather than a score's rank key?


def pair_of(read: Predictions, score: str, loss: str) -> Pair:
    """By a score and a loss where the file has class scores, its own columns otherwise."""
    own: Any = read.arguments()
    if read.kind == "confidence":
        losses, confidence = read.loss, read.confidence
    else:
        from abstain import losses as known
        from abstain import scores

        with values_of(read.path):
            losses = np.asarray(known.by_name(loss)(read.logits, read.labels, probs=read.probs))
            confidence = np.asarray(scores.by_name(score)(read.logits, probs=read.probs))
    if losses is None or confidence is None:
        raise DataError(f"{shown(read.path)}: has no losses or no confidences.")
    groups, weight = own.get("groups"), read.weight
    if read.abstained is None or not read.abstained.any():
        return Pair(losses, confidence, groups, weight, 0, read.kind == "confidence")
    kept = ~read.abstained
    if not kept.any():
        raise DataError(f"{shown(read.path)}: every sample has abstained; nothing is left to measure.")
    return Pair(
        losses[kept],
        confidence[kept],
        None if groups is None else groups[kept],
        None if weight is None else weight[kept],
        int((~kept).sum()),
        read.kind == "confidence",
    )


def full_pair(read: Predictions, score: str, loss: str) -> tuple[np.ndarray, np.ndarray]:
    """Loss and confidence of every sample, abstained ones included (to be passed on with their mask)."""
    pair = pair_of(replace(read, abstained=None), score, loss)
    return pair.loss, pair.confidence


def along_samples(models: Sequence[Predictions], column: str) -> dict[str, np.ndarray] | None:
    """A column of all models by name, as `compare` takes it; None when nobody has it."""
    given = {m.name: getattr(m, column) for m in models}
    if all(values is None for values in given.values()):
        return None
    makers: dict[str, Callable[[int], np.ndarray]] = {
        "weight": np.ones,
        "abstained": lambda n: np.zeros(n, dtype=bool),
        "clusters": np.arange,
    }
    plain = makers[column]
    return {m.name: plain(m.n) if given[m.name] is None else given[m.name] for m in models}
