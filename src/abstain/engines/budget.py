"""How many samples fit: a memory budget for the whole process, obeyed by the size of the ranges."""

from __future__ import annotations

import os
import re

from abstain.engines.finish import Ask
from abstain.errors import InputError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_READING = 120 * 10**6  # decoded batches, their copies in the order of the ranges, the reader's own buffers
_LEAST = 48 * 10**6
_LOADED = 150 * 10**6  # numpy and pyarrow in memory, where the system does not say


def bytes_of(name: str, memory: str | float) -> int:
    """A size such as "1GB", "512 MiB" or a number of bytes.

    >>> bytes_of("f", "1GB"), bytes_of("f", "2 MiB")
    (1000000000, 2097152)
    """
    if isinstance(memory, (int, float)):
        return int(memory)
    found = re.fullmatch(r"\s*([\d.]+)\s*([KMGT]?)(i?)B?\s*", memory, re.IGNORECASE)
    if not found:
        raise InputError(f'{name}: `memory` must be a size such as "1GB", got {memory!r}.')
    unit = found[2].upper()
    scale = 1024 ** " KMGT".index(unit or " ") if found[3] else _UNITS[unit]
    return int(float(found[1]) * scale)


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
