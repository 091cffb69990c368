"""Samples by group: the names a column holds, and the samples of each. A missing name is None."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from abstain.engines.ranges import Columns
from abstain.errors import DataError


class Labels(NamedTuple):
    """The group of each sample is `names[codes[i]]`."""

    names: list[Any]
    codes: np.ndarray

    def take(self, index: np.ndarray) -> Labels:
        """Of some of the samples."""
        return Labels(self.names, self.codes[index])


def labels_of(name: str, field: str, column: Any) -> Labels:
    """The groups in a column of an Arrow table or a frame; a NaN is a missing name."""
    import pyarrow as pa

    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        column = pa.array(column, from_pandas=True)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_nested(column.type):
        raise DataError(f"{name}: `{field}` must hold names or numbers of groups, got {column.type}.")
    encoded = column.dictionary_encode()
    found = [None if value != value else value for value in encoded.dictionary.to_pylist()]
    place: dict[Any, int] = {}
    own = np.asarray([place.setdefault(value, len(place)) for value in [*found, None]])
    codes = encoded.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
    return Labels(list(place), own[codes])


def by_label(columns: Columns, labels: Labels | None) -> Iterator[tuple[Any, Columns]]:
    """The samples of each group that has any; without labels all of them, under None."""
    if labels is None:
        yield None, columns
        return
    small = np.uint16 if len(labels.names) <= 1 << 16 else np.int64  # short keys are sorted by counting
    columns = columns.take(np.argsort(labels.codes.astype(small), kind="stable"))
    sizes = np.bincount(labels.codes, minlength=len(labels.names))
    for label, size, end in zip(labels.names, sizes, np.cumsum(sizes)):
        if size:
            yield label, columns.take(slice(end - size, end))
