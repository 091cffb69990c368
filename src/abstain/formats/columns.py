"""What a file holds, before anyone has decided what it means: named columns, loaded one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

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
