"""What a file holds: named columns, loaded one by one, and which of them is which.

Names state it, flags override it, values are never looked at to guess.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import DataError
from abstain.formats.roles import (
    _PER_CLASS,
    AGREEMENT,
    NAMES,
    RoleColumns,
    _each_role_once,
    _in_class_order,
    plain,
)
from abstain.formats.safety import display_name, file_error


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
                listed = " and ".join(f"`{display_name(m)}`" for m in matches)
                raise UncertainError(
                    f"{listed} could both be the {role}. Say which: --column {role}={display_name(matches[0])}",
                    self,
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
                raise file_error(
                    self.path, f"column `{display_name(name)}` must hold numbers for the {role}."
                )
        if len({len(part) for part in parts}) > 1:
            raise file_error(self.path, f"the columns of the {role} must have one length.")
        return np.stack(parts, axis=1)  # type: ignore[arg-type]

    def listed(self, most: int = 8) -> str:
        """Its columns in words, for messages."""
        parts = [f"`{display_name(name)}` ({column})" for name, column in list(self.columns.items())[:most]]
        more = len(self.columns) - most
        return ", ".join(parts) + (f" and {more} more" if more > 0 else "") or "no columns"

    def preview(self, rows: int = 3) -> dict[str, list[str]]:
        """Name, kind and first values of each column, for a table on the screen."""
        some = list(self.columns.items())[:20]
        return {
            "column": [display_name(name) for name, _ in some],
            "holds": [str(column) for _, column in some],
            "first values": [_first(column.load(), rows) for _, column in some],
        }


def _first(values: Values, rows: int) -> str:
    if isinstance(values, Words):
        return ", ".join(display_name(values.row(i)) for i in range(min(rows, len(values))))
    if values.ndim <= 1:
        some = values.reshape(-1)[:rows]
        return ", ".join(display_name(f"{v:.4g}" if some.dtype.kind == "f" else v) for v in some)
    return display_name(np.array2string(values[0].reshape(-1)[:4], precision=3, separator=", ")) + " ..."


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
        super().__init__(f"{display_name(source.path)}: {text}")
        self.source = source


def with_changed_signs(source: Source, stated: Mapping[str, str]) -> Source:
    """The source with a column `-NAME` for each stated confidence of that name: the values of NAME, times -1."""
    columns = dict(source.columns)
    for name in _each_role_once(stated).get("confidence", "").split(","):
        plain_name = name.strip().removeprefix("-")
        if name.strip() not in columns and name.strip().startswith("-") and plain_name in columns:
            columns[name.strip()] = columns[plain_name].negated()
    return replace(source, columns=columns)


def _stated(source: Source, role: str, pattern: str) -> RoleColumns:
    if pattern in source.columns or (role, pattern) == ("confidence", AGREEMENT):
        return RoleColumns((pattern,))
    if role == "confidence" and ("," in pattern or fnmatch.filter(source.columns, pattern)):
        parts = [fnmatch.filter(source.columns, p) if "*" in p else [p] for p in pattern.split(",")]
        return RoleColumns(tuple(_stated(source, role, p.strip()).names[0] for found in parts for p in found))
    matches = [c for c in source.columns if fnmatch.fnmatchcase(c, pattern)]
    if not matches:
        raise UncertainError(
            f"there is no column `{display_name(pattern)}` for the {role}, it has {source.listed()}.", source
        )
    if len(matches) > 1 and role not in _PER_CLASS:
        raise UncertainError(
            f"`{display_name(pattern)}` must mean one column for the {role}, got {len(matches)} of them.",
            source,
        )
    head = pattern.split("*")[0]
    return _in_class_order(matches, [m.removeprefix(head) for m in matches])


def filled(values: Values) -> np.ndarray:
    """True where a row holds anything."""
    if isinstance(values, Words):
        return np.array([bool(v.strip()) for v in values.values], bool)[values.codes]
    return ~np.isnan(np.asarray(values, np.float64).reshape(-1))
