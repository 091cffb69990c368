"""What a file holds: named columns, loaded one by one, and which of them is which.

Names state it, flags override it, values are never looked at to guess.
"""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from abstain._check import sum_to_one, sum_tolerance
from abstain._tables import is_number
from abstain.errors import AbstainWarning, DataError, InputError
from abstain.formats.safety import counted, file_error, have, shown


@dataclass(frozen=True)
class Words:
    """A column of text: each distinct text once, and which one stands in each row.

    Parameters
    ----------
    codes : array of int, shape (n,)
        The text of row i is `values[codes[i]]`.
    values : tuple of str
        The distinct texts.

    Examples
    --------
    >>> words = Words.of(["law", "art", "law"])
    >>> words.values, words.codes.tolist(), words.row(2)
    (('law', 'art'), [0, 1, 0], 'law')
    """

    codes: np.ndarray
    values: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Words:
        """From one text per row."""
        seen: dict[str, int] = {}
        codes = np.fromiter((seen.setdefault(t, len(seen)) for t in texts), dtype=np.int64)
        return cls(codes, tuple(seen))

    @classmethod
    def of_array(cls, array: np.ndarray) -> Words:
        """From a numpy array of fixed-width strings (str or UTF-8 bytes)."""
        values, codes = np.unique(array.reshape(-1), return_inverse=True)
        texts = (v.decode("utf-8") if isinstance(v, bytes) else v for v in values.tolist())
        return cls(codes.astype(np.int64), tuple(texts))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: np.ndarray) -> Words:
        return Words(self.codes[rows], self.values)

    def row(self, place: int) -> str:
        """The text in one row."""
        return self.values[int(self.codes[place])]

    def numbered(self, order: Iterable[str]) -> np.ndarray:
        """The place of each row's text in some order of texts; -1 for one that is not there."""
        place = {text: k for k, text in enumerate(order)}
        return np.array([place.get(v, -1) for v in self.values], dtype=np.int64)[self.codes]

    def texts(self) -> np.ndarray:
        """One text per row, as an array of objects: of fixed width, a long one would cost n times."""
        return np.array(self.values, dtype=object)[self.codes]


Values = np.ndarray | Words


@dataclass(frozen=True)
class Column:
    """A named array of a file, read when asked for.

    Parameters
    ----------
    shape : tuple of int
        Known without reading the values.
    kind : str
        What it holds, for people: a dtype, "numbers" or "text".
    load : callable
        Reads the values.
    texts : Words, optional
        The cells of a table as they are written, where numbers would not keep them: 0012.

    Examples
    --------
    >>> print(Column((3, 10), "float32", load=lambda: np.zeros((3, 10))))
    3 x 10 float32
    """

    shape: tuple[int, ...]
    kind: str
    load: Callable[[], Values] = field(repr=False)
    texts: Words | None = field(default=None, repr=False)

    @classmethod
    def of(cls, values: Values) -> Column:
        """One value per row, read already."""
        return cls((len(values),), "text" if isinstance(values, Words) else "numbers", lambda: values)

    def rows(self, places: np.ndarray) -> Column:
        """The column with only these rows, in this order; a mask of rows does too."""
        texts = None if self.texts is None else self.texts[places]
        count = int(np.count_nonzero(places)) if places.dtype == bool else len(places)
        return Column((count, *self.shape[1:]), self.kind, lambda: self.load()[places], texts)

    def negated(self) -> Column:
        """The same numbers with the other sign; text stays, and is objected to where numbers are needed."""

        def load() -> Values:
            values = self.load()
            return values if isinstance(values, Words) else -np.asarray(values, np.float64)

        return Column(self.shape, self.kind, load)

    def as_texts(self) -> np.ndarray:
        """One text for each row, as it is written in the file; whole numbers without decimals."""
        return as_texts(self.texts or self.load())

    def __str__(self) -> str:
        return f"{' x '.join(map(str, self.shape)) or 'one'} {self.kind}"


def as_texts(values: Values) -> np.ndarray:
    """One text for each row."""
    if isinstance(values, Words):
        return values.texts()
    return np.array([text_of(v) for v in values.reshape(-1).tolist()], dtype=str)


def text_of(value: Any) -> str | None:
    """A name or number as text; None for everything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, (str, int, float)) else None


@dataclass(frozen=True)
class LogFacts:
    """What the log of a harness says of its columns; each may be overruled.

    Parameters
    ----------
    tool : str
        Who wrote it.
    roles : dict
        Role -> column, unless stated otherwise; no "correct" where several columns could say it.
    scorers, signals : tuple of str
        Columns that say how right an answer is, and columns that are confidences.
    worded : tuple of str
        Columns that grade answers by words whose meaning has to be stated.
    answered : dict
        Scorer -> column that says whether there was an answer, where scorers differ in that.
    not_with : dict
        Scorer -> signals that belong to another scorer's answer.
    variant : str
        A column that names filters: the same answers, read in several ways.
    task : str
        What was asked, where the file tells.
    about : dict
        Column -> what it is, in words.
    notes : tuple of str
        What to know before trusting a number.

    Examples
    --------
    >>> LogFacts("Inspect", {"correct": "match"}, ("match",)).roles
    {'correct': 'match'}
    """

    tool: str
    roles: dict[str, str]
    scorers: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    worded: tuple[str, ...] = ()
    answered: dict[str, str] = field(default_factory=dict)
    not_with: dict[str, tuple[str, ...]] = field(default_factory=dict)
    variant: str = ""
    task: str = ""
    about: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """An opened file, as `open_source` gives it.

    Parameters
    ----------
    path : Path
    format : str
        One of `FORMATS`.
    columns : dict of str to Column
    classes : tuple of str
        Names of the classes, where the file tells them beside its columns.
    log : LogFacts, optional
        Where a harness wrote it.

    Examples
    --------
    >>> column = Column((2,), "numbers", load=lambda: np.array([0.5, 0.25]))
    >>> source = Source(Path("t.csv"), "csv", {"confidence": column})
    >>> source.listed()
    '`confidence` (2 numbers)'
    >>> source.preview()
    {'column': ['confidence'], 'holds': ['2 numbers'], 'first values': ['0.5, 0.25']}
    """

    path: Path
    format: str
    columns: dict[str, Column]
    classes: tuple[str, ...] = ()
    log: LogFacts | None = None

    @property
    def facts(self) -> LogFacts:
        """What the log of a harness says of its columns; nothing where it is a plain table."""
        return self.log or LogFacts(self.format, {})

    def roles(self, stated: Mapping[str, str], kind: str | None = None) -> dict[str, RoleColumns]:
        """Columns by role. `stated` holds role -> name or pattern; `kind` says what an array without a name is."""
        stated = _each_role_once(stated)
        known = {role: column for role, column in self.facts.roles.items() if role not in stated}
        found = {role: _stated(self, role, pattern) for role, pattern in {**known, **stated}.items()}
        if self.log is not None:  # a log says itself what is what; other names are not looked at
            return found
        taken = {name for choice in found.values() for name in choice.names}
        for role, names in NAMES.items():
            matches = [c for c in self.columns if plain(c) in names and c not in taken]
            if role in found or not matches:
                continue
            if len(matches) > 1 and role != "ids":  # each of them would do
                listed = " and ".join(f"`{shown(m)}`" for m in matches)
                raise UncertainError(
                    f"{listed} could both be the {role}. Say which: --column {role}={shown(matches[0])}", self
                )
            found[role] = RoleColumns((matches[0],))
        for role, pattern in _PER_CLASS.items():
            pairs = [(c, pattern.match(plain(c))) for c in self.columns if c not in taken]
            hits = {c: c[-len(m.group(1)) :] for c, m in pairs if m}
            if role not in found and len(hits) > 1:
                found[role] = _in_class_order(list(hits), list(hits.values()))
        if kind is not None and "array" in self.columns and kind not in found:
            found[kind] = RoleColumns(("array",))
        return found

    def load(self, role: str, choice: RoleColumns) -> Values:
        """The values of one role, a column for each class where there are several."""
        parts = [self.columns[name].load() for name in choice.names]
        if len(parts) == 1:
            return parts[0]
        for name, part in zip(choice.names, parts):
            if isinstance(part, Words) or part.ndim != 1:
                raise file_error(self.path, f"column `{shown(name)}` must hold numbers for the {role}.")
        if len({len(part) for part in parts}) > 1:
            raise file_error(self.path, f"the columns of the {role} must have one length.")
        return np.stack(parts, axis=1)  # type: ignore[arg-type]

    def listed(self, most: int = 8) -> str:
        """Its columns in words, for messages."""
        parts = [f"`{shown(name)}` ({column})" for name, column in list(self.columns.items())[:most]]
        more = len(self.columns) - most
        return ", ".join(parts) + (f" and {more} more" if more > 0 else "") or "no columns"

    def preview(self, rows: int = 3) -> dict[str, list[str]]:
        """Name, kind and first values of each column, for a table on the screen."""
        some = list(self.columns.items())[:20]
        return {
            "column": [shown(name) for name, _ in some],
            "holds": [str(column) for _, column in some],
            "first values": [_first(column.load(), rows) for _, column in some],
        }


def _first(values: Values, rows: int) -> str:
    if isinstance(values, Words):
        return ", ".join(shown(values.row(i)) for i in range(min(rows, len(values))))
    if values.ndim <= 1:
        some = values.reshape(-1)[:rows]
        return ", ".join(shown(f"{v:.4g}" if some.dtype.kind == "f" else v) for v in some)
    return shown(np.array2string(values[0].reshape(-1)[:4], precision=3, separator=", ")) + " ..."


# role -> names that state it, compared without case and with - . and blanks as _
NAMES: dict[str, tuple[str, ...]] = {
    "logits": ("logits", "y_logits", "logit"),
    "probs": ("probs", "probabilities", "probability", "y_probs", "y_prob", "y_proba", "proba", "pred_probs"),
    "labels": ("labels", "label", "y_true", "y", "target", "targets", "true_label", "ground_truth"),
    "prediction": ("prediction", "predictions", "predicted", "pred", "y_pred", "predicted_label"),
    "correct": ("correct", "is_correct"),
    "loss": ("loss", "losses"),
    "error": ("error", "errors", "wrong", "is_error"),
    "confidence": ("confidence", "confidences", "conf"),
    "abstained": ("abstained", "abstain", "refused"),
    "answered": ("answered",),
    "question": ("question_id", "question_index", "doc_id"),
    "task": ("task",),
    "epoch": ("epoch",),
    "groups": ("groups", "group", "subgroup"),
    "sample_weight": ("sample_weight", "sample_weights", "weight", "weights"),
    "clusters": ("clusters", "cluster"),
    "classes": ("classes", "class_names"),
    "ids": ("id", "ids", "sample_id", "row_id", "example_id", "image_id", "question_id", "uid", "index"),
}
TRUTH = dict.fromkeys(("true", "1", "yes", "t"), 1.0) | dict.fromkeys(("false", "0", "no", "f"), 0.0)
TRUTH[""] = np.nan
PLAIN = (
    "Write plain numbers, without % signs or units. Leave a cell without one empty, and say --missing left_out or "
    "--missing last."
)
AGREEMENT = "agreement"  # a confidence made from the answers to repeated questions
ROLES = tuple(NAMES)
"""What a column can be: the arguments of `evaluate`, and what they can be made from."""
_PER_CLASS = {  # one column per class: logit_0, logit_1 ... or prob_cat, prob_dog ...
    "logits": re.compile(r"^(?:y_)?logits?_(.+)$"),
    "probs": re.compile(r"^(?:y_)?(?:probs?|proba|probability|p)_(.+)$"),
}


class UncertainError(DataError):
    """Two columns state the same thing, or none states what is needed; `source` is there to be shown.

    Examples
    --------
    >>> raise UncertainError("`p` and `conf` could both be the confidence.", Source(Path("t.csv"), "csv", {}))
    Traceback (most recent call last):
    ...
    abstain.formats.columns.UncertainError: t.csv: `p` and `conf` could both be the confidence.
    """

    def __init__(self, text: str, source: Source) -> None:
        super().__init__(f"{shown(source.path)}: {text}")
        self.source = source


@dataclass(frozen=True)
class RoleColumns:
    """Columns of one role, in class order, and the class names their own names carry."""

    names: tuple[str, ...]
    suffixes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if len(self.names) > 3:
            return f"{shown(self.names[0])} ... {shown(self.names[-1])} ({len(self.names)} columns)"
        return ", ".join(map(shown, self.names))


def plain(name: str) -> str:
    """A name as it is compared."""
    return re.sub(r"[\s.\-/]+", "_", name.strip().lower())


def states_truth(name: str) -> str | None:
    """The role of a column whose name says that it holds the truth (labels, correct, loss, error); else None."""
    for role in ("labels", "correct", "loss", "error"):
        if plain(name) in (role, *NAMES[role]):
            return role
    return None


def role_of(name: str) -> str:
    """The role that a name states.

    >>> role_of("group"), role_of("y_true")
    ('groups', 'labels')
    """
    for role, names in NAMES.items():
        if plain(name) in (role, *names):
            return role
    raise InputError(f"a column's role must be one of {', '.join(ROLES)}, got {name!r}.")


def with_changed_signs(source: Source, stated: Mapping[str, str]) -> Source:
    """The source with a column `-NAME` for each stated confidence of that name: the values of NAME, times -1."""
    columns = dict(source.columns)
    for name in _each_role_once(stated).get("confidence", "").split(","):
        plain_name = name.strip().removeprefix("-")
        if name.strip() not in columns and name.strip().startswith("-") and plain_name in columns:
            columns[name.strip()] = columns[plain_name].negated()
    return replace(source, columns=columns)


def _each_role_once(columns: Mapping[str, str]) -> dict[str, str]:
    """Columns by role; two names of one role are refused."""
    by_role: dict[str, str] = {}
    for title, pattern in columns.items():
        role = role_of(title)
        if role in by_role:
            raise InputError(
                f"columns: {role} is given twice, {by_role[role]!r} and {pattern!r}. Name one column."
            )
        by_role[role] = pattern
    return by_role


def _stated(source: Source, role: str, pattern: str) -> RoleColumns:
    if pattern in source.columns or (role, pattern) == ("confidence", AGREEMENT):
        return RoleColumns((pattern,))
    if role == "confidence" and ("," in pattern or fnmatch.filter(source.columns, pattern)):
        parts = [fnmatch.filter(source.columns, p) if "*" in p else [p] for p in pattern.split(",")]
        return RoleColumns(tuple(_stated(source, role, p.strip()).names[0] for found in parts for p in found))
    matches = [c for c in source.columns if fnmatch.fnmatchcase(c, pattern)]
    if not matches:
        raise UncertainError(
            f"there is no column `{shown(pattern)}` for the {role}, it has {source.listed()}.", source
        )
    if len(matches) > 1 and role not in _PER_CLASS:
        raise UncertainError(
            f"`{shown(pattern)}` must mean one column for the {role}, got {len(matches)} of them.", source
        )
    head = pattern.split("*")[0]
    return _in_class_order(matches, [m.removeprefix(head) for m in matches])


def in_stated_order(columns: RoleColumns, classes: tuple[str, ...]) -> RoleColumns:
    """The columns in the order of the stated class names, where these are the names that the columns have."""
    if not classes or sorted(classes) != sorted(columns.suffixes):
        return columns
    place = dict(zip(columns.suffixes, columns.names))
    return RoleColumns(tuple(place[name] for name in classes), tuple(classes))


def _in_class_order(names: list[str], suffixes: list[str]) -> RoleColumns:
    """Those that end in 0 ... K-1 by number, where there are such; else all in file order, named by their endings."""
    if len(names) == 1:
        return RoleColumns((names[0],))
    numbered = {int(end): name for end, name in zip(suffixes, names) if end.isdecimal()}
    if len(numbered) > 1 and sorted(numbered) == list(range(len(numbered))):  # beside them, say, logit_scale
        return RoleColumns(tuple(numbered[k] for k in range(len(numbered))))
    return RoleColumns(tuple(names), tuple(suffixes))


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
        name = shown(self.roles[kind].names[0])
        if kind == "probs" and len(of_class_1) >= _PREDICTED_FROM and of_class_1.min() >= 0.5:
            raise self.error(
                f"`{name}` is never below 0.5, as the probability of the prediction would be, and not that of class 1. "
                f"State it as a confidence, -c confidence={name}, beside a column of right and wrong answers."
            )
        self.check_prediction(of_class_1 > (0.5 if kind == "probs" else 0.0), name)
        what = "probability" if kind == "probs" else "log-odds"
        message = f"{shown(self.source.path)}: `{name}` is taken for the {what} of class 1 of a binary model."
        warnings.warn(message, AbstainWarning, stacklevel=5)
        if kind == "probs":
            return np.stack([1 - of_class_1, of_class_1], axis=1)
        return np.stack([-of_class_1 / 2, of_class_1 / 2], axis=1)

    def refuse_probabilities(self, values: np.ndarray) -> None:
        """Logits whose rows sum to one have been through the softmax."""
        if sum_to_one(np, values, sum_tolerance(values)):
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
            column = shown(self.roles["prediction"].names[0])
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
                f"{counted(count, 'row')} {have(count)} no confidence, first row {int(np.argmax(missing)) + 1:,}. "
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
                raise self.error(f"`{shown(name)}` must have {n} rows as the rest, got {len(values)}.")

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
                names = shown(", ".join(self.classes[:3])) + (", ..." if len(self.classes) > 3 else "")
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
            raise self.error(f"label {shown(unknown)!r} is none of the classes {shown(', '.join(classes))}.")
        return columns

    def numbers(self, role: str) -> np.ndarray:
        """A column of numbers; text is refused."""
        values = self.values[role]
        if isinstance(values, Words):
            bad = next((v for v in values.values if not is_number(v)), None)
            if bad is None:
                raise self.error(f"the {role} must be numbers, got numbers in quotes. Write them without.")
            raise self.error(f"the {role} must be numbers, got text such as {shown(bad)!r}. {PLAIN}")
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


def filled(values: Values) -> np.ndarray:
    """True where a row holds anything."""
    if isinstance(values, Words):
        return np.array([bool(v.strip()) for v in values.values], bool)[values.codes]
    return ~np.isnan(np.asarray(values, np.float64).reshape(-1))


def _comparable(labels: Values, prediction: Values) -> bool:
    if isinstance(labels, Words) or isinstance(prediction, Words):
        return isinstance(labels, Words) and isinstance(prediction, Words) and len(labels) == len(prediction)
    return labels.ndim == 1 and labels.shape == prediction.shape
