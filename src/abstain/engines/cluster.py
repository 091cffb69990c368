"""The plan as tasks for a cluster: small functions of one partition or one range, and the sums between them.

Whoever executes them (Dask, Spark) moves samples between machines; the driver sees histograms and sums only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from abstain.engines.finish import Ask, Part, Place, finish, finish_tie
from abstain.engines.items import nothing
from abstain.engines.local import check_whole, keyed_by_loss
from abstain.engines.locating import Stretch
from abstain.engines.ranges import Columns, RangeSums, cuts_for, split, together
from abstain.engines.sources import Fields, batches, check_finite, ready, scored
from abstain.engines.survey import Survey
from abstain.errors import DataError, InputError

SAMPLES_PER_RANGE = 4_000_000
SAMPLES_PER_PARTITION = 4_000_000
_PER_TASK = 1 << 16  # samples of a partition that enter the histogram


class Loader(NamedTuple):
    """How a partition becomes columns, anywhere: by name of columns, keyed by confidence or by loss."""

    name: str
    fields: Fields
    by_loss: bool = False
    other: Fields | None = None  # of a second model: its loss and confidence travel along

    def __call__(self, part: Any) -> Columns:
        """The samples of a stretch of a file, a pandas frame, an Arrow table or a batch of it."""
        columns = self._of_file(part) if isinstance(part, Stretch) else self._of_table(part)
        if self.other is not None:
            second = Loader(self.name, self.other)(part)
            columns = columns._replace(extra=np.stack([second.loss, second.confidence]).astype(np.float64))
        return keyed_by_loss(columns) if self.by_loss else columns

    def _of_file(self, stretch: Stretch) -> Columns:
        found = [b.columns for b in batches(self.name, stretch.file, self.fields, stretch=stretch)]
        return together(found) if found else Columns(np.empty(0, dtype=bool), np.empty(0, dtype=np.float32))

    def _of_table(self, table: Any) -> Columns:
        """Anything with named columns that numpy can read."""
        fields = self.fields

        def column(name: str) -> np.ndarray:
            values = table.column(name) if hasattr(table, "column") else table[name]
            array = np.asarray(values)
            if array.dtype.kind not in "biuf":  # a missing truth value makes objects of them all
                raise DataError(
                    f"{self.name}: `{name}` must hold numbers without a missing value, got {array.dtype}."
                )
            return array

        if fields.logits and fields.label:
            logits = np.stack([column(name) for name in fields.logits], axis=1)
            confidence, loss = scored(logits, column(fields.label), fields)
        else:
            confidence, loss = column(fields.confidence), column(fields.loss)
            check_finite(self.name, "a partition", 0, fields.confidence, confidence)
        check_finite(self.name, "a partition", 0, fields.loss, loss)
        return ready(loss, confidence, column(fields.weight).astype(np.float64) if fields.weight else None)


def survey_part(part: Any, load: Loader) -> Survey:
    """First pass over one partition."""
    return survey_columns(load(part))


def survey_columns(columns: Columns) -> Survey:
    """A histogram of some of the samples, scaled to all of them."""
    survey = Survey()
    survey.add(columns, None, max(1, columns.rows // _PER_TASK), np.random.default_rng(columns.rows))
    # one in so many: a partition counts by its samples, however many of them were looked at
    for group, items in survey.histogram.items():
        survey.histogram[group] = replace(
            items, sums=items.sums * (columns.rows / max(items.mass.sum(), 1.0))
        )
    return survey


def merge_surveys(surveys: Sequence[Survey]) -> Survey:
    """One survey of several."""
    return Survey().plus(surveys)


def plan_cuts(name: str, survey: Survey, ask: Ask, at_least: int) -> np.ndarray:
    """Where ranges start: as many as needed to keep each small, and enough to keep every worker busy."""
    rows = survey.rows.get(None, 0)
    if not rows:
        raise InputError(f"{name}: needs at least one sample, the data holds none.")
    check_whole(name, survey.whole, ask)
    ranges = max(-(-rows // SAMPLES_PER_RANGE), min(at_least, -(-rows // 10_000)))
    return cuts_for(survey.histogram.get(None, nothing()), min(ranges, 4096))


def split_part(part: Any, load: Loader, cuts: np.ndarray) -> tuple[list[Columns], RangeSums]:
    """Second pass over one partition: its samples by range, and their sums."""
    return split(load(part), cuts, keep=load.other is not None)


def sums_of(parts: Sequence[RangeSums]) -> RangeSums:
    """Sums over all partitions."""
    first, *others = parts
    for other in others:
        first = first.plus(other)
    return first


def place_of(sums: RangeSums, number: int) -> Place:
    """What lies above a range."""
    N, S = sums.above()[:, number]
    return Place(float(N), float(S), float(sums.sums[0].sum()))


def finish_range(pieces: Sequence[Columns], place: Place, ask: Ask) -> Part:
    """One range, brought together from all partitions."""
    return finish(together([p for p in pieces if p.rows]), place, ask)


def tied_part(sums: RangeSums, number: int, ask: Ask) -> Part:
    """A range of one confidence, from its sums."""
    return finish_tie(sums.sums[:, number], float(sums.low[number]), place_of(sums, number), ask)


def downwards(sums: RangeSums) -> list[int]:
    """Ranges that hold samples, most confident first."""
    return [int(i) for i in np.flatnonzero(sums.count)[::-1]]
