"""What a file holds: named columns, loaded one by one, and which of them is which.

Names state it, flags override it, values are never looked at to guess.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from abstain.errors import DataError
from abstain.formats.limits import shown


@dataclass(frozen=True)
class Words:
    """A column of text: each distinct text once, and which one stands in each row."""

    codes: np.ndarray
    values: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Words:
        """From one text per row."""
        seen: dict[str, int] = {}
        codes = np.fromiter((seen.setdefault(t, len(seen)) for t in texts), dtype=np.int64)
        return cls(codes, tuple(seen))

    def __len__(self) -> int:
        return len(self.codes)

    def row(self, place: int) -> str:
        """The text in one row."""
        return self.values[int(self.codes[place])]


Values = np.ndarray | Words


@dataclass(frozen=True)
class Column:
    """A named array that is read when asked for. `shape` and `kind` are known beforehand."""

    shape: tuple[int, ...]
    kind: str
    load: Callable[[], Values] = field(repr=False)

    def __str__(self) -> str:
        return f"{' x '.join(map(str, self.shape)) or 'one'} {self.kind}"


@dataclass(frozen=True)
class Source:
    """An opened file."""

    path: Path
    format: str
    columns: dict[str, Column]
    classes: tuple[str, ...] = ()

    def listed(self, most: int = 8) -> str:
        """Its columns in words, for messages."""
        parts = [f"`{shown(name)}` ({column})" for name, column in list(self.columns.items())[:most]]
        more = len(self.columns) - most
        return ", ".join(parts) + (f" and {more} more" if more > 0 else "") or "no columns"

    def preview(self, rows: int = 3) -> dict[str, list[str]]:
        """Name, kind and first values of each column, for a table on the screen."""
        table: dict[str, list[str]] = {"column": [], "holds": [], "first values": []}
        for name, column in list(self.columns.items())[:20]:
            table["column"].append(shown(name))
            table["holds"].append(str(column))
            table["first values"].append(_first(column.load(), rows))
        return table


def _first(values: Values, rows: int) -> str:
    if isinstance(values, Words):
        return ", ".join(shown(values.row(i)) for i in range(min(rows, len(values))))
    if values.ndim == 0:
        return shown(values)
    if values.ndim == 1:
        return ", ".join(shown(f"{v:.4g}" if values.dtype.kind == "f" else v) for v in values[:rows])
    return shown(np.array2string(values[0].reshape(-1)[:4], precision=3, separator=", ")) + " ..."


def words_of_array(array: np.ndarray) -> Words:
    """Text from a numpy array of fixed-width strings."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "S":
        values, codes = np.unique(flat, return_inverse=True)
        return Words(codes.astype(np.int64), tuple(v.decode("utf-8") for v in values.tolist()))
    values, codes = np.unique(flat, return_inverse=True)
    return Words(codes.astype(np.int64), tuple(str(v) for v in values.tolist()))


# roles --------------------------------------------------------------------------------------------
#
# Which column is which. Names state it, flags override it, values are never looked at to guess.


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
    "group": ("group", "groups", "subgroup"),
    "weight": ("sample_weight", "sample_weights", "weight", "weights"),
    "cluster": ("cluster", "clusters"),
    "classes": ("classes", "class_names"),
}
ROLES = tuple(NAMES)
_SPREAD = {  # one column per class: logit_0, logit_1 ... or prob_cat, prob_dog ...
    "logits": re.compile(r"^(?:y_)?logits?_(.+)$"),
    "probs": re.compile(r"^(?:y_)?(?:probs?|proba|probability|p)_(.+)$"),
}


class UncertainError(DataError):
    """Two columns state the same thing, or none states what is needed; `source` is there to be shown."""

    def __init__(self, message: str, source: Source) -> None:
        super().__init__(message)
        self.source = source


@dataclass(frozen=True)
class Choice:
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


def assign(source: Source, stated: Mapping[str, str], kind: str | None = None) -> dict[str, Choice]:
    """Columns by role. `stated` holds role -> name or pattern; `kind` says what an array without a name is."""
    found = {role: _stated(source, role, pattern) for role, pattern in stated.items()}
    taken = {name for choice in found.values() for name in choice.names}
    for role, names in NAMES.items():
        if role not in found:
            matches = [c for c in source.columns if plain(c) in names and c not in taken]
            if len(matches) > 1:
                listed = " and ".join(f"`{shown(m)}`" for m in matches)
                raise UncertainError(
                    f"{shown(source.path)}: {listed} could both be the {role}. "
                    f"Say which: --column {role}={shown(matches[0])}",
                    source,
                )
            if matches:
                found[role] = Choice((matches[0],))
    for role in ("logits", "probs"):
        if role not in found:
            spread = _spread(source, role, taken)
            if spread is not None:
                found[role] = spread
    if kind is not None and "array" in source.columns and kind not in found:
        found[kind] = Choice(("array",))
    return found


def _stated(source: Source, role: str, pattern: str) -> Choice:
    if pattern in source.columns:
        return Choice((pattern,))
    matches = [c for c in source.columns if fnmatch.fnmatchcase(c, pattern)]
    if not matches:
        raise UncertainError(
            f"{shown(source.path)}: there is no column `{shown(pattern)}` for the {role}, "
            f"it has {source.listed()}.",
            source,
        )
    if len(matches) > 1 and role not in ("logits", "probs"):
        raise UncertainError(
            f"{shown(source.path)}: `{shown(pattern)}` must mean one column for the {role}, "
            f"got {len(matches)} of them.",
            source,
        )
    head = pattern.split("*")[0]
    return _in_class_order(matches, [m.removeprefix(head) for m in matches])


def _spread(source: Source, role: str, taken: set[str]) -> Choice | None:
    pairs = [(c, _SPREAD[role].match(plain(c))) for c in source.columns if c not in taken]
    hits = [(c, c[-len(m.group(1)) :]) for c, m in pairs if m]
    return _in_class_order(*map(list, zip(*hits))) if len(hits) > 1 else None


def _in_class_order(names: list[str], suffixes: list[str]) -> Choice:
    """By number where the names end in 0 ... K-1, in file order and named by their endings otherwise."""
    if len(names) == 1:
        return Choice((names[0],))
    if sorted(suffixes) == sorted(map(str, range(len(names)))):
        return Choice(tuple(sorted(names, key=lambda name: int(suffixes[names.index(name)]))))
    return Choice(tuple(names), tuple(suffixes))
