"""The first pass: how the confidences are spread, so that ranges can be cut that hold about as much each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from abstain.engines.grouping import items_of
from abstain.engines.items import Items, joined, nothing
from abstain.engines.ranges import Columns

SURVEYED = 1 << 20  # samples the histogram is made of
_RESOLUTION = 1 << 12  # its items


@dataclass
class Survey:
    """What the first pass learns: how confidences are spread, per group; whether losses are 0/1, weights
    whole."""

    rows: dict[Any, int] = field(default_factory=dict)
    histogram: dict[Any, Items] = field(default_factory=dict)
    zero_one: bool = True
    wide: bool = False
    whole: bool = True
    weighted: bool = False

    def add(self, columns: Columns, group: Any, stride: int, rng: np.random.Generator) -> None:
        """Take every `stride`-th sample into the histogram, from a random start."""
        self.rows[group] = self.rows.get(group, 0) + columns.rows
        self.zero_one &= columns.loss.dtype == bool
        self.wide |= columns.confidence.dtype != np.float32
        if columns.weight is not None:
            self.weighted = True
            self.whole &= bool(np.all(columns.weight == np.floor(columns.weight)))
        some = columns.confidence[int(rng.integers(stride)) :: stride]
        if len(some):
            fresh = items_of(np.zeros(len(some), dtype=bool), np.ascontiguousarray(some), None, _RESOLUTION)
            known = self.histogram.get(group, nothing())
            self.histogram[group] = joined([known, fresh], _RESOLUTION)

    def plus(self, others: Iterable[Survey]) -> Survey:
        """The survey of all samples together."""
        result = Survey()
        for part in (self, *others):
            for group, rows in part.rows.items():
                result.rows[group] = result.rows.get(group, 0) + rows
            for group, items in part.histogram.items():
                known = result.histogram.get(group, nothing())
                result.histogram[group] = joined([known, items], _RESOLUTION)
            result.zero_one &= part.zero_one
            result.wide |= part.wide
            result.whole &= part.whole
            result.weighted |= part.weighted
        return result
