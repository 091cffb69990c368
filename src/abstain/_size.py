"""Sizes of memory, read and written ("1GB" is 10^9 bytes and "1GiB" 2^30, everywhere), and how much of it is free."""

from __future__ import annotations

import os
import re

from abstain.errors import InputError

_PREFIXES = " KMGT"
_READING = 120 * 10**6  # decoded batches, their copies in the order of the ranges, the reader's own buffers
_LEAST = 48 * 10**6
_LOADED = 150 * 10**6  # numpy and pyarrow in memory, where the system does not say
_SIZE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)


def parse_size(name: str, size: str | float) -> int:
    """Bytes of a size such as "1GB", "512 MiB" or a number of bytes.

    >>> parse_size("f", "1GB"), parse_size("f", "2 MiB"), parse_size("f", 1.5e6)
    (1000000000, 2097152, 1500000)
    """
    found = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if found:
        size = float(found[1]) * (1024 if found[3] else 1000) ** _PREFIXES.index(found[2].upper() or " ")
    if isinstance(size, str) or not 1 <= size < 2**63:
        raise InputError(f'{name}: `memory` must be a size such as "1GB", got {size!r}.')
    return int(size)


def format_size(count: int) -> str:
    """Bytes for people.

    >>> format_size(3 * 10**9), format_size(10)
    ('3 GB', '10 B')
    """
    value, prefix = float(count), 0
    while value >= 999.5 and prefix < len(_PREFIXES) - 1:
        value, prefix = value / 1000, prefix + 1
    return f"{value:.3g} {_PREFIXES[prefix].strip().replace('K', 'k')}B"


def resident_bytes() -> int:
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


def free_bytes(memory: int) -> int:
    """Bytes of a budget that are neither in use nor needed for reading files."""
    return max(memory - resident_bytes() - _READING, _LEAST)
