"""How much fits in memory, and samples on disk, range by range, where it does not."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np

from abstain.engines.finish import Ask
from abstain.engines.ranges import Columns, gathered
from abstain.errors import AbstainError, SpillError

__all__ = ["Spill", "SpillError"]


_READING = 120 * 10**6  # decoded batches, their copies in the order of the ranges, the reader's own buffers
_LEAST = 48 * 10**6
_LOADED = 150 * 10**6  # numpy and pyarrow in memory, where the system does not say


def resident() -> int:
    """Bytes this process occupies now: from Linux, from psutil elsewhere, or what numpy and pyarrow take."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        try:
            import psutil
        except ImportError:
            return _LOADED
        return int(psutil.Process().memory_info().rss)


def per_sample(ask: Ask, zero_one: bool, wide: bool) -> int:
    """Bytes at the peak of finishing a range, for each of its samples."""
    stored = (8 if wide else 4) + (1 if zero_one else 8)
    if ask.area_only and zero_one:  # the keys, and once more while they are sorted in threads
        return stored + (20 if wide else 11)
    if ask.area_only:
        return stored + 72
    return stored + (170 if zero_one and not ask.points else 260)


def free(memory: int) -> int:
    """Bytes of the budget that are neither in use nor needed for reading."""
    return max(memory - resident() - _READING, _LEAST)


def samples_that_fit(memory: int, ask: Ask, zero_one: bool, wide: bool) -> int:
    """Samples a range may hold."""
    return max(1 << 14, int(0.9 * free(memory)) // per_sample(ask, zero_one, wide))


def room_for_counters(memory: int) -> int:
    """Bytes that may go to counting, which leaves the larger part to the ranges that must be sorted."""
    return int(0.45 * free(memory))


# spill --------------------------------------------------------------------------------------------
#
# Samples on disk, range by range: written in turn, read back whole, and gone afterwards whatever happens.


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MOST_OPEN = 600  # files, below what systems allow a process
_TYPES = ("?", "<f4", "<f8")
_EXTRA = 16  # the bit from which on the number of extra columns is written


class Spill:
    """A folder with one file per range. A temporary folder is removed on leaving, also by an error or Ctrl-C.

    A folder named by the user is kept when the work is interrupted, so that it can be taken up again.
    """

    def __init__(self, parent: str | None = None, keep_at: str | None = None) -> None:
        self._keep_at, self._parent = keep_at, parent
        self._files: dict[int, BinaryIO] = {}
        self.folder = Path()

    def __enter__(self) -> Spill:
        if self._keep_at is not None:
            self.folder = Path(self._keep_at)
            self.folder.mkdir(parents=True, exist_ok=True)
        else:
            self.folder = Path(tempfile.mkdtemp(prefix="abstain-", dir=self._parent))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        interrupted = kind is not None and not (error is not None and isinstance(error, AbstainError))
        if self._keep_at is None or not interrupted:
            shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, number: int) -> Path:
        """Where a range lies."""
        return self.folder / f"range-{number:05d}"

    def append(self, number: int, columns: Columns) -> None:
        """Add samples to a range."""
        if not columns.rows:
            return
        try:
            _write(self._open(number), columns)
        except OSError as error:
            raise self._full(error) from error

    def _open(self, number: int) -> BinaryIO:
        """The file of a range; the one that was opened first makes way when there are many."""
        if number not in self._files:
            if len(self._files) >= _MOST_OPEN:
                self._files.pop(next(iter(self._files))).close()
            self._files[number] = open(self.path(number), "ab")  # noqa: SIM115
        return self._files[number]

    def _full(self, error: OSError) -> OSError:
        if error.errno not in _NO_ROOM:
            return error
        return SpillError(
            error.errno,
            f"files: no room left for intermediate data in {self.folder}. Everything written there is removed. "
            f"Name a larger disk with `spill=`, or allow more memory",
        )

    def flush(self) -> dict[int, int]:
        """Make what was written last; sizes of the files so far."""
        try:
            for file in self._files.values():
                file.flush()
        except OSError as error:
            raise self._full(error) from error
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
            try:
                file.close()
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
        self._files = {}

    def read(self, number: int, rows: int) -> Columns:
        """All samples of a range."""
        return gathered(self.pieces(number), rows)

    def pieces(self, number: int):  # type: ignore[no-untyped-def]
        """The samples of a range as they were written."""
        with open(self.path(number), "rb") as file:
            while head := file.read(16):
                yield _read(file, np.frombuffer(head, dtype="<i8"))

    def drop(self, number: int) -> None:
        """Remove a range that is done with."""
        self.path(number).unlink(missing_ok=True)


def _write(file: BinaryIO, columns: Columns) -> None:
    code = 0
    for place, array in enumerate(columns):  # four bits each: which type, 0 where there is no such column
        if array is not None:
            kind = _TYPES.index("?" if array.dtype == bool else f"<f{array.dtype.itemsize}")
            code |= (kind + 1) << (4 * place)
    extra = 0 if columns.extra is None else len(columns.extra)
    file.write(np.asarray([columns.rows, code | extra << _EXTRA], dtype="<i8").tobytes())
    for array in columns:
        if array is not None:
            np.ascontiguousarray(array).tofile(file)


def _read(file: BinaryIO, head: np.ndarray) -> Columns:
    rows, code = (int(x) for x in head)
    arrays: list[np.ndarray | None] = []
    for place, shape in enumerate([(rows,)] * 3 + [(code >> _EXTRA, rows)]):
        kind = code >> (4 * place) & 15
        count = rows * (shape[0] if place == 3 else 1)
        arrays.append(np.fromfile(file, _TYPES[kind - 1], count).reshape(shape) if kind else None)
    return Columns(*arrays)  # type: ignore[arg-type]
