"""Triton kernels of `device`: per tile, count block ends and errors; then write the ends from their offsets."""

# mypy: ignore-errors
# (a kernel is compiled by Triton, not run by Python)

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _read(keys, n, TILE: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    inside = place < n
    key = tl.load(keys + place, mask=inside, other=0)
    following = tl.load(keys + place + 1, mask=place + 1 < n, other=0)
    end = inside & ((place + 1 == n) | ((key >> 1) != (following >> 1)))
    wrong = tl.where(inside, key & 1, 0).to(tl.int32)
    return place, end, wrong


@triton.jit
def count(keys, n, ends, errors, TILE: tl.constexpr):
    """Ends and errors of one tile."""
    _, end, wrong = _read(keys, n, TILE)
    tl.store(ends + tl.program_id(0), tl.sum(end.to(tl.int32), axis=0))
    tl.store(errors + tl.program_id(0), tl.sum(wrong, axis=0))


@triton.jit
def write(keys, n, ends_before, errors_before, places, counted, TILE: tl.constexpr):
    """Each end's place and the errors up to it."""
    place, end, wrong = _read(keys, n, TILE)
    slot = tl.load(ends_before + tl.program_id(0)) + tl.cumsum(end.to(tl.int32), axis=0) - 1
    seen = tl.load(errors_before + tl.program_id(0)) + tl.cumsum(wrong, axis=0)
    tl.store(places + slot, place, mask=end)
    tl.store(counted + slot, seen, mask=end)
