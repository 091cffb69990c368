"""Samples on disk, range by range, where memory does not hold them."""

from __future__ import annotations

import errno
import itertools
import math
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from abstain.core.tally import Tally
from abstain.engines import ranges
from abstain.engines.finish import (
    EngineRequest,
    RangePosition,
    RangeResult,
    finish_counted,
    finish_range,
    finish_tie,
)
from abstain.engines.histogram import Histogram
from abstain.engines.ranges import COUNT, Columns, Survey, empty_sums
from abstain.errors import AbstainError, SpillError

MAX_RANGES = 512


class CountedRange(NamedTuple):
    """A range whose samples are counted instead of stored, and its first and last float32 value.

    `place` counts the ranges of its group from 0 for the least confident.
    """

    place: int
    window: tuple[float, float]


def choose_cuts_that_fit(
    histogram: Histogram, sample_count: int, samples_per_range: int, min_ranges: int = 1
) -> np.ndarray:
    """Ascending thresholds between ranges of about three quarters of `samples_per_range` samples each.

    Three quarters, so that few ranges turn out too large. `histogram` may be made of some of the `sample_count` samples
    only. At least `min_ranges` and otherwise at most MAX_RANGES ranges are aimed at.
    """
    range_count = -(-4 * sample_count // (3 * samples_per_range))
    return ranges.choose_cuts(histogram, max(min_ranges, min(MAX_RANGES, range_count)))


# samples on disk --------------------------------------------------------------------------------------------

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MAX_OPEN_FILES = 600  # below what systems allow a process
_HEADER = struct.Struct("<qq4s")  # samples, rows of `extra`, type of each column ("-": the column is None)
_NO_COLUMN = "-"


class Spill:
    """A folder with one file per range. A temporary folder is removed on exit, also after an error or Ctrl-C.

    A folder that the user named (`resume_folder`) is kept when the work is interrupted, so that it can go on later.
    """

    def __init__(self, parent: str | None = None, resume_folder: str | None = None) -> None:
        self._parent = parent
        self._resume_folder = resume_folder
        self._files: dict[int, BinaryIO] = {}
        self.range_numbers = itertools.count()
        self.folder = Path()

    def __enter__(self) -> Spill:
        if self._resume_folder is not None:
            self.folder = Path(self._resume_folder)
            self.folder.mkdir(parents=True, exist_ok=True)
        else:
            self.folder = Path(tempfile.mkdtemp(prefix="abstain-", dir=self._parent))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if self._resume_folder is None or error is None or isinstance(error, AbstainError):
            shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, number: int) -> Path:
        """The file of a range."""
        return self.folder / f"range-{number:05d}"

    def append(self, number: int, columns: Columns) -> None:
        """Write samples at the end of a range's file."""
        if columns.sample_count:
            with self._report_full_disk():
                _write_columns(self._open(number), columns)

    def _open(self, number: int) -> BinaryIO:
        """The open file of a range; if too many are open, the one opened first is closed."""
        if number not in self._files:
            if len(self._files) >= _MAX_OPEN_FILES:
                first_opened = next(iter(self._files))
                self._files.pop(first_opened).close()
            self._files[number] = open(self.path(number), "ab")  # noqa: SIM115
        return self._files[number]

    @contextmanager
    def _report_full_disk(self) -> Iterator[None]:
        """Turn an OSError inside the `with` block that means a full disk or quota into SpillError.

        The files themselves are removed on exit from this object (`Spill`), as the message says.
        """
        try:
            yield
        except OSError as error:
            if error.errno not in _DISK_FULL:
                raise
            raise SpillError(
                error.errno,
                f"files: no room left for intermediate data in {self.folder}. Everything written there is removed. "
                f"Name a larger disk with `spill=`, or allow more memory",
            ) from error

    def flush(self) -> dict[int, int]:
        """Write buffered data to disk, and return the size of each range's file in bytes."""
        with self._report_full_disk():
            for file in self._files.values():
                file.flush()
        return {_range_number(path): path.stat().st_size for path in self.folder.glob("range-*")}

    def rewind(self, sizes: dict[int, int]) -> None:
        """Discard what was written after `flush` returned these sizes."""
        self.close()
        for path in self.folder.glob("range-*"):
            with open(path, "r+b") as file:
                file.truncate(sizes.get(_range_number(path), 0))

    def close(self) -> None:
        """Close the files without removing them."""
        for file in self._files.values():
            with suppress(SpillError), self._report_full_disk():
                file.close()
        self._files = {}

    def pieces(self, number: int) -> Iterator[Columns]:
        """The samples of a range, in the pieces in which they were appended.

        A piece is a header (number of samples, rows of `extra`, a type for each of loss, confidence, weight and extra;
        "-" for a column that is None) and the columns one after another. Samples that were appended but not flushed may
        be missing.
        """
        with open(self.path(number), "rb") as file:
            while header := file.read(_HEADER.size):
                sample_count, extra_rows, types = _HEADER.unpack(header)
                # of loss, confidence, weight and extra, the fields of `Columns` in their order
                shapes = [(sample_count,), (sample_count,), (sample_count,), (extra_rows, sample_count)]
                # `types` is four bytes, each the letter of a numpy type
                columns = [
                    _read_column(file, chr(type_byte), shape) for type_byte, shape in zip(types, shapes)
                ]
                yield Columns(*columns)  # type: ignore[arg-type]

    def drop(self, number: int) -> None:
        """Remove the file of a range that is finished, unless the work may have to be resumed."""
        if self._resume_folder is None:
            self.path(number).unlink(missing_ok=True)


def _range_number(path: Path) -> int:
    return int(path.name.removeprefix("range-"))


def _write_columns(file: BinaryIO, columns: Columns) -> None:
    """Write a header (see `_HEADER`) and the columns that are not None; `Spill.pieces` reads them back."""
    types = "".join(_NO_COLUMN if column is None else column.dtype.char for column in columns)
    extra_rows = 0 if columns.extra is None else len(columns.extra)
    file.write(_HEADER.pack(columns.sample_count, extra_rows, types.encode()))
    for column in columns:
        if column is not None:
            np.ascontiguousarray(column).tofile(file)


def _read_column(file: BinaryIO, dtype_char: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """The next column of an open file, as numbers of the numpy type `dtype_char`; None if that says there is none."""
    if dtype_char == _NO_COLUMN:
        return None
    return np.fromfile(file, dtype_char, math.prod(shape)).reshape(shape)


# samples by range -------------------------------------------------------------------------------------------


class StoredRange(NamedTuple):
    """A range whose samples are on disk or counted.

    `sums` are its column of `RangeSums.sums`, `low` its smallest confidence. `is_tied`: it holds one confidence only.
    """

    number: int
    sums: np.ndarray
    low: float
    is_tied: bool
    position: RangePosition
    is_counted: bool = False

    @property
    def sample_count(self) -> int:
        """Number of samples."""
        return int(self.sums[COUNT])


class RangeFiles:
    """Samples of one ranking on disk, by range; ranges that turn out too large are cut again.

    `cuts` are ascending thresholds; a range starts at each, and one more below the first. Samples of the range
    `counted_range` are counted by confidence and not stored. Samples of ranges that can hold only one confidence are
    not stored either, because their sums are enough to finish them, unless `keep_tied_samples`: a comparison of two
    models reads every sample again.
    """

    def __init__(
        self,
        spill: Spill,
        cuts: np.ndarray,
        counted_range: CountedRange | None = None,
        keep_tied_samples: bool = False,
    ) -> None:
        """Number the ranges between `cuts`, ascending thresholds, and make counters for the one that is counted.

        A range is the samples whose confidences lie between two thresholds; the first lies below all cuts. Each gets a
        number in `spill`, the folder of intermediate data, where all objects draw from one count. Of `counted_range`
        memory holds numbers of samples and errors by confidence instead of the samples (None: no range is counted).
        Samples of a range that can hold only one confidence are stored if `keep_tied_samples`; otherwise their sums are
        enough.
        """
        self.spill = spill
        self.cuts = cuts
        self._keep_tied_samples = keep_tied_samples
        # its place among the ranges of this object, from 0 for the least confident
        self._counted_place = None if counted_range is None else counted_range.place
        # counters for each float32 from the first to the last of its window
        self._tally = None if counted_range is None else Tally(*counted_range.window)
        range_count = len(cuts) + 1
        self.numbers = [next(spill.range_numbers) for _ in range(range_count)]
        self.sums = empty_sums(range_count)

    def add(self, columns: Columns) -> None:
        """Write samples to the files of their ranges, and add them to the sums."""
        if self._tally is not None:
            not_counted = self._tally.add(columns.loss, columns.confidence)
            columns = columns.take(not_counted)
        parts, sums = ranges.split_into_ranges(columns, self.cuts, keep_tied_samples=self._keep_tied_samples)
        self.sums = self.sums.merge(sums)
        for number, part in zip(self.numbers, parts):
            self.spill.append(number, part)

    def stored_ranges(
        self, samples_per_range: int, top: RangePosition | None = None
    ) -> Iterator[StoredRange]:
        """All ranges that hold samples, most confident first; call it once, after the last `add`.

        A second call would add the counted samples to the sums again. A range with more than `samples_per_range`
        samples is cut again, unless it is counted or holds one confidence. A range is the samples whose confidences lie
        between two thresholds. `top` is the position of the range that these ranges are parts of (mass and loss above
        it, totals of the whole ranking); None if they are the whole ranking.

        `numbers` are the numbers of the ranges in `spill`, least confident first, as are the columns of `sums`;
        `_tally` counts the samples of the range at `_counted_place` (both None where none is counted).
        """
        self.spill.flush()
        self.spill.close()
        # for type checkers: either both are None or none is
        if self._counted_place is not None and self._tally is not None:
            # samples that were counted are not in the sums yet
            ranges.add_counts(self.sums, self._counted_place, self._tally)
        top = top or RangePosition(mass_above=0.0, loss_above=0.0, totals=self.sums.totals())
        # by range, least confident first: mass and loss in the more confident ranges of this object
        mass_above, loss_above = self.sums.above()
        for place in np.flatnonzero(self.sums.count)[::-1].tolist():
            stored = StoredRange(
                number=self.numbers[place],
                sums=self.sums.sums[:, place],
                low=float(self.sums.low[place]),
                is_tied=bool(self.sums.is_tied[place]),
                position=RangePosition(
                    mass_above=top.mass_above + float(mass_above[place]),
                    loss_above=top.loss_above + float(loss_above[place]),
                    totals=top.totals,
                ),
                is_counted=place == self._counted_place,
            )
            if stored.is_counted or stored.is_tied or stored.sample_count <= samples_per_range:
                yield stored
            else:
                yield from self._cut_again(stored, samples_per_range)

    def _cut_again(self, large: StoredRange, samples_per_range: int) -> Iterator[StoredRange]:
        """Cut a range that is too large into at least two, and yield these, most confident first.

        Its file is read twice, for a histogram and to write the samples to new files, and then removed. A range is the
        samples whose confidences lie between two thresholds. It may hold at most about `samples_per_range` samples: new
        ranges with more are cut again, unless they hold one confidence. Of a new range that can hold only one
        confidence the sums are stored, and the samples only if this object keeps tied samples.
        """
        survey = Survey()
        rng = np.random.default_rng(1)
        # every so many samples enter the histogram: all of them, or about a million, so that it is never empty
        stride = max(1, large.sample_count // ranges.SURVEY_SAMPLES)
        for piece in self.spill.pieces(large.number):
            survey.add({None: piece}, stride=stride, rng=rng)
        cuts = choose_cuts_that_fit(
            survey.histograms[None], large.sample_count, samples_per_range, min_ranges=2
        )
        smaller_ranges = RangeFiles(self.spill, cuts, keep_tied_samples=self._keep_tied_samples)
        for piece in self.spill.pieces(large.number):
            smaller_ranges.add(piece)
        self.spill.drop(large.number)
        # the mass and loss above the large range also lie above the new ones
        yield from smaller_ranges.stored_ranges(samples_per_range, top=large.position)

    def read(self, stored: StoredRange) -> Iterator[Columns]:
        """The samples of a range in one piece; those of a tie, which may be large, in the pieces written."""
        pieces = self.spill.pieces(stored.number)
        if stored.is_tied:
            yield from pieces
        else:
            yield ranges.collect_columns(pieces, stored.sample_count)

    def finish(
        self, samples_per_range: int, request: EngineRequest, advance: Callable[[int], None]
    ) -> tuple[list[StoredRange], list[RangeResult]]:
        """Finish all ranges that hold samples; returns the ranges and their results, both most confident first.

        A range is the samples whose confidences lie between two thresholds, on disk or counted by confidence. A counted
        range may have several results, every other range has one. `advance` is called with the number of samples of
        each finished range, for the progress bar. `samples_per_range` is how many samples fit in memory at once: larger
        ranges are cut again first. `request` says what to compute.
        """
        stored_ranges = []
        results = []
        for stored in self.stored_ranges(samples_per_range):
            stored_ranges.append(stored)
            results += self._finish_range(stored, request)  # a list of results
            advance(stored.sample_count)
        return stored_ranges, results

    def _finish_range(self, stored: StoredRange, request: EngineRequest) -> list[RangeResult]:
        """The results of one range: from its counters, which are freed, from its sums if it is a tie, or from disk."""
        if stored.is_counted and self._tally is not None:
            tally = self._tally
            self._tally = None  # free its memory for the ranges below as soon as it is read
            return finish_counted(tally, stored.position, request)
        if stored.is_tied:
            return [finish_tie(stored.sums, stored.low, stored.position, request)]
        return [finish_range(next(self.read(stored)), stored.position, request)]
