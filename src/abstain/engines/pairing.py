"""Reading two models side by side, from the columns of one table or from two that hold the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from abstain.engines.locating import Stretch
from abstain.engines.ranges import Columns
from abstain.engines.sources import BATCH, Fields, batch_of, parts_of
from abstain.errors import DataError

_WEIGHT = "__abstain_weight"
Piece = tuple[str, int, Any]  # a file, the number of a row of it, and a table from there on


def paired_batches(
    name: str, file: str, first: Fields, second: Fields, size: int = BATCH, stretch: Stretch | None = None
) -> Iterator[Columns]:
    """The samples of one model with those of another in tow; `first` reads the columns of both."""
    for start, part in parts_of(name, file, first, size, stretch):
        yield beside(*(batch_of(name, file, start, part, fields).columns for fields in (first, second)))


def batches_in_step(
    name: str, files: Sequence[str], others: Sequence[str], first: Fields, second: Fields, size: int = BATCH
) -> Iterator[Columns]:
    """The same where the other model's columns lie in other files, sample by sample; weights are the first's."""
    unweighted = replace(second, weight=None)
    sides = _pieces(name, files, first, size), _pieces(name, others, unweighted, size)
    for (file, start, part), (other, row, more) in _in_step(name, *sides):
        if first.weight:
            more = more.select(unweighted.names).append_column(_WEIGHT, part.column(first.weight))
        own = replace(second, weight=_WEIGHT if first.weight else None)
        yield beside(
            batch_of(name, file, start, part, first).columns, batch_of(name, other, row, more, own).columns
        )


def _pieces(name: str, files: Sequence[str], fields: Fields, size: int) -> Iterator[Piece]:
    for file in files:
        for start, part in parts_of(name, file, fields, size, None):
            yield file, start, part


def _in_step(name: str, first: Iterator[Piece], second: Iterator[Piece]) -> Iterator[tuple[Piece, Piece]]:
    """Tables of equal length from both."""
    a, b = next(first, None), next(second, None)
    while a is not None and b is not None:
        rows = min(a[2].num_rows, b[2].num_rows)
        if rows:
            yield (*a[:2], a[2].slice(0, rows)), (*b[:2], b[2].slice(0, rows))
        a, b = (_beyond(piece, rows) or next(side, None) for piece, side in ((a, first), (b, second)))
    if a is not None or b is not None:
        raise DataError(
            f"{name}: the files of both models must hold the same samples, but one side has more of them "
            f"(it goes on in {(a or b or ('',))[0]})."
        )


def _beyond(piece: Piece, rows: int) -> Piece | None:
    """What is left of a table."""
    file, start, table = piece
    return (file, start + rows, table.slice(rows)) if table.num_rows > rows else None


def beside(first: Columns, second: Columns) -> Columns:
    """Samples of one model with loss and confidence of another in tow."""
    return first._replace(extra=np.stack([second.loss, second.confidence]).astype(np.float64))
