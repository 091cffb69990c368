"""Parse and format sizes of memory ("1GB" is 10^9 bytes, "1GiB" 2^30), and find how much of a budget is free."""

from __future__ import annotations

import os
import re

from abstain.errors import InputError

_PREFIXES = " KMGT"  # the index of a prefix is the power of 1000 or 1024; a blank stands for none
_READING_BYTES = 120 * 10**6  # decoded batches, their copies in the order of the ranges, the reader's buffers
_MIN_FREE_BYTES = 48 * 10**6
_IMPORTED_BYTES = 150 * 10**6  # numpy and pyarrow, where the system does not report the memory in use
_SIZE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)


def parse_size(function: str, size: str | float) -> int:
    """Return the bytes of a size such as "1GB" (10^9), "512 MiB" (2^20 each) or a number of bytes.

    Raises InputError, which names `function` and its argument `memory`, for anything else.

    >>> parse_size("f", "1GB"), parse_size("f", "2 MiB"), parse_size("f", 1.5e6)
    (1000000000, 2097152, 1500000)
    """
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match:
        # such as "512", "M" and "i", of which the last two may be empty
        number, prefix, binary = match.groups()
        base = 1024 if binary else 1000
        power = _PREFIXES.index(prefix.upper() or " ")  # no prefix is 0, K is 1, M is 2 ...
        size = float(number) * base**power
    # still text: it did not match; a number that is NaN is refused too
    if isinstance(size, str) or not 1 <= size < 2**63:
        raise InputError(f'{function}: `memory` must be a size such as "1GB", got {size!r}.')
    return int(size)


def format_size(count: int) -> str:
    """Write a number of bytes with a decimal prefix and three digits.

    >>> format_size(3 * 10**9), format_size(10)
    ('3 GB', '10 B')
    """
    value = float(count)
    power = 0
    # From 999.5 on, three digits would read 1e+03. `_PREFIXES` holds " ", "K", "M" ...
    while value >= 999.5 and power < len(_PREFIXES) - 1:
        value /= 1000
        power += 1
    prefix = _PREFIXES[power].strip().replace("K", "k")  # empty for plain bytes
    return f"{value:.3g} {prefix}B"


def resident_bytes() -> int:
    """Bytes this process occupies now: from Linux, elsewhere from psutil, or an estimate without either."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        try:
            import psutil
        except ImportError:
            return _IMPORTED_BYTES
        return int(psutil.Process().memory_info().rss)


def free_bytes(memory: int) -> int:
    """Bytes of the budget `memory` that are neither in use nor needed for reading files."""
    return max(memory - resident_bytes() - _READING_BYTES, _MIN_FREE_BYTES)
