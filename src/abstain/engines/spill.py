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
from abstain.engines.finish import Ask, Finished, Place, finish, finish_counted, finish_tie
from abstain.engines.histogram import Histogram
from abstain.engines.ranges import COUNT, Columns, Survey, no_sums
from abstain.errors import AbstainError, SpillError

MOST_RANGES = 512
Window = tuple[int, tuple[float, float]]  # the number of the range that is counted, and its ends


def cuts_that_fit(histogram: Histogram, rows: int, fit: int, least: int = 1) -> np.ndarray:
    """Ranges of about three quarters of what fits, so that few turn out too full."""
    return ranges.cuts_for(histogram, max(least, min(MOST_RANGES, -(-4 * rows // (3 * fit)))))


# samples on disk --------------------------------------------------------------------------------------------

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MOST_OPEN = 600  # files, below what systems allow a process
_HEAD = struct.Struct("<qq4s")  # samples, extra columns, the type of each column ("-": there is none)


class Spill:
    """A folder with one file per range. A temporary folder is removed on leaving, also by an error or Ctrl-C.

    A folder named by the user is kept when the work is interrupted, so that it can be taken up again.
    """

    def __init__(self, parent: str | None = None, keep_at: str | None = None) -> None:
        self._keep_at, self._parent = keep_at, parent
        self._files: dict[int, BinaryIO] = {}
        self.numbers = itertools.count()  # of ranges
        self.folder = Path()

    def __enter__(self) -> Spill:
        if self._keep_at is not None:
            self.folder = Path(self._keep_at)
            self.folder.mkdir(parents=True, exist_ok=True)
        else:
            self.folder = Path(tempfile.mkdtemp(prefix="abstain-", dir=self._parent))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if self._keep_at is None or error is None or isinstance(error, AbstainError):
            shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, number: int) -> Path:
        """Where a range lies."""
        return self.folder / f"range-{number:05d}"

    def append(self, number: int, columns: Columns) -> None:
        """Add samples to a range."""
        if columns.rows:
            with self._room():
                _write(self._open(number), columns)

    def _open(self, number: int) -> BinaryIO:
        """The file of a range; the one that was opened first makes way when there are many."""
        if number not in self._files:
            if len(self._files) >= _MOST_OPEN:
                self._files.pop(next(iter(self._files))).close()
            self._files[number] = open(self.path(number), "ab")  # noqa: SIM115
        return self._files[number]

    @contextmanager
    def _room(self) -> Iterator[None]:
        """A full disk is told."""
        try:
            yield
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise SpillError(
                error.errno,
                f"files: no room left for intermediate data in {self.folder}. Everything written there is removed. "
                f"Name a larger disk with `spill=`, or allow more memory",
            ) from error

    def flush(self) -> dict[int, int]:
        """Make what was written last; sizes of the files so far."""
        with self._room():
            for file in self._files.values():
                file.flush()
        return {int(p.name[6:]): p.stat().st_size for p in self.folder.glob("range-*")}

    def rewind(self, sizes: dict[int, int]) -> None:
        """Forget what was written after `flush` gave these sizes."""
        self.close()
        for path in self.folder.glob("range-*"):
            size = sizes.get(int(path.name[6:]), 0)
            with open(path, "r+b") as file:
                file.truncate(size)

    def close(self) -> None:
        """Close the files; they stay."""
        for file in self._files.values():
            with suppress(SpillError), self._room():
                file.close()
        self._files = {}

    def pieces(self, number: int) -> Iterator[Columns]:
        """The samples of a range as they were written."""
        with open(self.path(number), "rb") as file:
            while head := file.read(_HEAD.size):
                rows, extra, kinds = _HEAD.unpack(head)
                shapes = (*3 * [(rows,)], (extra, rows))
                yield Columns(*(_read(file, chr(k), shape) for k, shape in zip(kinds, shapes)))  # type: ignore[arg-type]

    def drop(self, number: int) -> None:
        """Remove a range that is done with, unless the work may have to be taken up again."""
        if self._keep_at is None:
            self.path(number).unlink(missing_ok=True)


def _write(file: BinaryIO, columns: Columns) -> None:
    kinds = "".join("-" if c is None else c.dtype.char for c in columns)
    file.write(_HEAD.pack(columns.rows, 0 if columns.extra is None else len(columns.extra), kinds.encode()))
    for column in columns:
        if column is not None:
            np.ascontiguousarray(column).tofile(file)


def _read(file: BinaryIO, kind: str, shape: tuple[int, ...]) -> np.ndarray | None:
    return None if kind == "-" else np.fromfile(file, kind, math.prod(shape)).reshape(shape)


# samples by range -------------------------------------------------------------------------------------------


class Range(NamedTuple):
    """Samples of one range on disk, or counted: its number, its sums, where it stands, whether it is one tie."""

    number: int
    sums: np.ndarray
    low: float
    tied: bool
    place: Place
    counted: bool = False

    @property
    def rows(self) -> int:
        """Number of samples."""
        return int(self.sums[COUNT])


class Shelf:
    """Samples of one ranking on disk, by range; ranges that turn out too full are cut again.

    The samples of the range that is `counted` (its number and its ends) are not written at all.
    """

    def __init__(
        self, spill: Spill, cuts: np.ndarray, counted: Window | None = None, keep: bool = False
    ) -> None:
        self.spill, self.cuts, self._keep = spill, cuts, keep
        self._counted = None if counted is None else counted[0]
        self._tally = None if counted is None else Tally(*counted[1])
        self.numbers = [next(spill.numbers) for _ in range(len(cuts) + 1)]
        self.sums = no_sums(len(cuts) + 1)

    def add(self, columns: Columns) -> None:
        """Put samples where they belong."""
        if self._tally is not None:
            columns = columns.take(self._tally.add(columns.loss, columns.confidence))
        parts, sums = ranges.split(columns, self.cuts, keep=self._keep)
        self.sums = self.sums.plus(sums)
        for number, part in zip(self.numbers, parts):
            self.spill.append(number, part)

    def ranges(self, fit: int, top: Place | None = None) -> Iterator[Range]:
        """All ranges that hold samples, most confident first, none too full unless it is one tie or counted.

        `top` is where they stand if they are part of a longer ranking.
        """
        self.spill.flush()
        self.spill.close()
        if self._counted is not None and self._tally is not None:
            ranges.put_counts(self.sums, self._counted, self._tally)
        top = top or Place(0.0, 0.0, self.sums.total())
        above = self.sums.above()
        for at in np.flatnonzero(self.sums.count)[::-1].tolist():
            place = Place(top.N + float(above[0, at]), top.S + float(above[1, at]), top.total)
            known = (self.sums.sums[:, at], float(self.sums.low[at]), bool(self.sums.tied[at]))
            found = Range(self.numbers[at], *known, place, at == self._counted)
            if found.counted or found.tied or found.rows <= fit:
                yield found
            else:
                yield from self._refined(found, fit)

    def _refined(self, full: Range, fit: int) -> Iterator[Range]:
        survey, rng = Survey(), np.random.default_rng(1)
        for piece in self.spill.pieces(full.number):
            survey.add({None: piece}, max(1, full.rows // ranges.SURVEYED), rng)
        cuts = cuts_that_fit(survey.histogram[None], full.rows, fit, least=2)
        lower = Shelf(self.spill, cuts, keep=self._keep)
        for piece in self.spill.pieces(full.number):
            lower.add(piece)
        self.spill.drop(full.number)
        yield from lower.ranges(fit, full.place)

    def read(self, part: Range) -> Iterator[Columns]:
        """A range in one piece, a tie in as many as it was written in."""
        if part.tied:
            yield from self.spill.pieces(part.number)
        else:
            yield ranges.gathered(self.spill.pieces(part.number), part.rows)

    def finished(self, fit: int, ask: Ask, tick: Callable[[int], None]) -> tuple[list[Range], list[Finished]]:
        """All ranges that hold samples, most confident first, and what they come to."""
        ranges, parts = [], []
        for part in self.ranges(fit):
            ranges.append(part)
            parts += self._finished(part, ask)
            tick(part.rows)
        return ranges, parts

    def _finished(self, part: Range, ask: Ask) -> list[Finished]:
        if part.counted and self._tally is not None:
            tally, self._tally = self._tally, None  # its memory is wanted for the ranges below
            return finish_counted(tally, part.place, ask)
        if part.tied:
            return [finish_tie(part.sums, part.low, part.place, ask)]
        return [finish(next(self.read(part)), part.place, ask)]
