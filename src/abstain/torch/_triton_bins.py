# mypy: ignore-errors
"""Triton source of the binned update."""

from __future__ import annotations

from abstain.torch._triton_compat import jit, tl


@jit
def bin_of(x, offset, cells, mask):
    """`core.bins.BinMap.index`, number by number."""
    x = x + 0.0
    low = (x > 0) & (x <= 0.5)
    top = (x > 0.5) & (x <= 1)
    region = tl.where(x > 1, 3, tl.where(top, 2, tl.where(low, 1, 0)))
    distance = tl.where(top, 1 - x, tl.abs(x))
    bits = distance.to(tl.int64, bitcast=True)
    code = region * 2048 + (bits >> 52).to(tl.int32)
    fraction = (bits & 0xFFFFFFFFFFFFF).to(tl.float64) * 2.220446049250313e-16
    number = tl.load(cells + code, mask=mask, other=1.0)
    cell = tl.minimum(tl.floor(fraction * number), number - 1)
    falling = (region == 0) | (region == 2)
    rise = tl.where(falling, number - 1 - cell, cell).to(tl.int32)
    return tl.load(offset + code, mask=mask, other=0) + rise


@jit
def ordered(x):
    """float64 as int64 of the same order."""
    bits = (x + 0.0).to(tl.int64, bitcast=True)
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)


@jit
def general(confidence, place, loss, offset, cells, count, loss_sum, low, high, n, BLOCK: tl.constexpr):
    """One block of samples: counts and losses by atomics; extremes only where they would change something."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    key = ordered(tl.load(confidence + i, mask=mask, other=0.0).to(tl.float64))
    index = bin_of(tl.load(place + i, mask=mask, other=0.0).to(tl.float64), offset, cells, mask)
    one = tl.full((BLOCK,), 1, tl.int64)
    tl.atomic_add(count + index, one, mask=mask, sem="relaxed")
    own = tl.load(loss + i, mask=mask, other=0).to(tl.float64)
    tl.atomic_add(loss_sum + index, own, mask=mask & (own != 0), sem="relaxed")
    least, most = tl.load(low + index, mask=mask, other=0), tl.load(high + index, mask=mask, other=0)
    tl.atomic_min(low + index, key, mask=mask & (key < least), sem="relaxed")
    tl.atomic_max(high + index, key, mask=mask & (key > most), sem="relaxed")


# 0/1 losses of float32 confidences ------------------------------------------------------------------------------------
#
# Shared memory by hand. Bin b has two counts, right and wrong, at base + 8 b, and its least and most key at
# base + 8 (SIZE + 1) + 8 b; one bin more than there are takes what lies past the end of the samples.


@jit
def short_bin_of(x, table, mask):
    """The same bin from 32 bits: a float32's distance to 1 is exact, and so is the product of whole numbers.

    `table` holds 512 * first bin + number of bins. A distance of 0 has an octave of its own.
    """
    top = (x > 0.5) & (x <= 1)
    region = tl.where(x > 1, 3, tl.where(top, 2, tl.where(x > 0, 1, 0)))
    bits = tl.where(top, 1 - x, tl.abs(x)).to(tl.int32, bitcast=True)
    octave = tl.where(bits == 0, 0, (bits >> 23) + 896)
    entry = tl.load(table + region * 2048 + octave, mask=mask, other=1)
    number = entry & 511
    cell = (((bits & 0x7FFFFF) * number).to(tl.uint32) >> 23).to(tl.int32)
    falling = (region == 0) | (region == 2)
    return (entry >> 9) + tl.where(falling, number - 1 - cell, cell)


@jit
def shared_base(THREADS: tl.constexpr):
    """Reserve 46 KB (what is left of 48 KB serves Triton itself); its address, the same for every thread."""
    lane = tl.arange(0, THREADS)
    address = tl.inline_asm_elementwise(
        "{ .shared .align 16 .b8 abstain_bins[47104]; mov.u32 $0, abstain_bins; }",
        "=r,r",
        [lane],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    return tl.max(address, axis=0)


@jit
def shared_store(address, value):
    """st.shared of one word per element."""
    tl.inline_asm_elementwise(
        "{ st.shared.u32 [$1], $2; mov.u32 $0, 0; }",
        "=r,r,r",
        [address, value],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@jit
def shared_load(address):
    """ld.shared of one word per element."""
    return tl.inline_asm_elementwise(
        "ld.shared.u32 $0, [$1];", "=r,r", [address], dtype=tl.int32, is_pure=False, pack=1
    )


@jit
def shared_update(count, extremes, key):
    """Count one, and take its key as least and most; the extremes are read first, and seldom written."""
    tl.inline_asm_elementwise(
        """
        {
        .reg .s32 least, most;
        .reg .pred lower, higher;
        red.shared.add.u32 [$1], 1;
        ld.shared.v2.s32 {least, most}, [$2];
        setp.lt.s32 lower, $3, least;
        setp.gt.s32 higher, $3, most;
        @lower red.shared.min.s32 [$2], $3;
        @higher red.shared.max.s32 [$2+4], $3;
        mov.u32 $0, 0;
        }
        """,
        "=r,r,r,r",
        [count, extremes, key],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@jit
def lean(
    confidence,
    loss,
    table,
    count,
    errors,
    low,
    high,
    n,
    SIZE: tl.constexpr,
    SLOTS: tl.constexpr,
    THREADS: tl.constexpr,
    EACH: tl.constexpr,
):
    """Programs walk over the samples with their own bins in shared memory and add them up at the end."""
    BLOCK: tl.constexpr = THREADS * EACH
    FAR: tl.constexpr = 8 * (SIZE + 1)
    base = shared_base(THREADS)
    slot = tl.arange(0, SLOTS)
    here = base + 8 * tl.minimum(slot, SIZE)
    shared_store(here, slot * 0)
    shared_store(here + 4, slot * 0)
    shared_store(here + FAR, slot * 0 + 0x7FFFFFFF)
    shared_store(here + FAR + 4, slot * 0 - 0x7FFFFFFF)
    tl.debug_barrier()
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    start = tl.program_id(0).to(tl.int64) * BLOCK
    for begin in range(start, n, step):
        i = begin + tl.arange(0, BLOCK)
        mask = i < n
        x = tl.load(confidence + i, mask=mask, other=0.0) + 0.0
        error = tl.load(loss + i, mask=mask, other=0).to(tl.int32)
        index = tl.where(mask, short_bin_of(x, table, mask), SIZE)
        bits = x.to(tl.int32, bitcast=True)
        key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
        place = base + 8 * index
        shared_update(place + 4 * error, place + FAR, key)
    tl.debug_barrier()
    wrong = shared_load(here + 4)
    some = shared_load(here) + wrong
    kept = (slot < SIZE) & (some != 0)
    tl.atomic_add(count + slot, some.to(tl.int64), mask=kept, sem="relaxed")
    tl.atomic_add(errors + slot, wrong.to(tl.int64), mask=kept & (wrong != 0), sem="relaxed")
    least, most = shared_load(here + FAR), shared_load(here + FAR + 4)
    least = (least ^ ((least >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True).to(tl.float64)
    most = (most ^ ((most >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True).to(tl.float64)
    tl.atomic_min(low + slot, ordered(least), mask=kept, sem="relaxed")
    tl.atomic_max(high + slot, ordered(most), mask=kept, sem="relaxed")
