# mypy: ignore-errors
"""Triton sources: where blocks end in sorted keys, the binned update, and the loss of a batch.

Without Triton the sources can still be imported; they are then plain functions that nobody calls.
"""

from __future__ import annotations

try:
    import triton
    import triton.language as tl

    AVAILABLE, jit = True, triton.jit
except ImportError:

    def jit(function=None, **options):
        """Without Triton nothing is compiled."""
        return jit if function is None else function

    AVAILABLE, tl = False, None


# Where blocks end ---------------------------------------------------------------------------------------------------
#
# For `device`: per tile, count block ends and errors; then write the ends from their offsets.


@jit
def read_tile(keys, n, TILE: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    inside = place < n
    key = tl.load(keys + place, mask=inside, other=0)
    following = tl.load(keys + place + 1, mask=place + 1 < n, other=0)
    end = inside & ((place + 1 == n) | ((key >> 1) != (following >> 1)))
    wrong = tl.where(inside, key & 1, 0).to(tl.int32)
    return place, end, wrong


@jit
def count_ends(keys, n, ends, errors, TILE: tl.constexpr):
    """Ends and errors of one tile."""
    _, end, wrong = read_tile(keys, n, TILE)
    tl.store(ends + tl.program_id(0), tl.sum(end.to(tl.int32), axis=0))
    tl.store(errors + tl.program_id(0), tl.sum(wrong, axis=0))


@jit
def write_ends(keys, n, ends_before, errors_before, places, counted, TILE: tl.constexpr):
    """Each end's place and the errors up to it."""
    place, end, wrong = read_tile(keys, n, TILE)
    slot = tl.load(ends_before + tl.program_id(0)) + tl.cumsum(end.to(tl.int32), axis=0) - 1
    seen = tl.load(errors_before + tl.program_id(0)) + tl.cumsum(wrong, axis=0)
    tl.store(places + slot, place, mask=end)
    tl.store(counted + slot, seen, mask=end)


# Bins -----------------------------------------------------------------------------------------------------------------


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
# base + 8 (SIZE + 1) + 8 b; one bin more than there are takes what lies past the end of the samples. The last arguments
# of `tl.inline_asm_elementwise`: the result's type, whether it is pure, and how many elements it takes at a time.


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
    reserve: tl.constexpr = "{ .shared .align 16 .b8 abstain_bins[47104]; mov.u32 $0, abstain_bins; }"
    return tl.max(tl.inline_asm_elementwise(reserve, "=r,r", [lane], tl.int32, False, 1), axis=0)


@jit
def shared_store(address, value):
    """st.shared of one word per element."""
    store: tl.constexpr = "{ st.shared.u32 [$1], $2; mov.u32 $0, 0; }"
    tl.inline_asm_elementwise(store, "=r,r,r", [address, value], tl.int32, False, 1)


@jit
def shared_load(address):
    """ld.shared of one word per element."""
    return tl.inline_asm_elementwise("ld.shared.u32 $0, [$1];", "=r,r", [address], tl.int32, False, 1)


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
        tl.int32,
        False,
        1,
    )


@jit
def lean(confidence, loss, table, count, errors, low, high, n, SIZE: tl.constexpr, SLOTS: tl.constexpr):
    """Programs of 8 warps walk over the samples with their own bins in shared memory and add them up at the end."""
    THREADS: tl.constexpr = 256
    BLOCK: tl.constexpr = THREADS * 8
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


# The loss of a batch -------------------------------------------------------------------------------------------------
#
# At most three kernels forward and one back, where plain torch launches fifty. All share one float64 array `work`: five
# columns of n numbers (key, log-sum-exp, loss, weight, share), then the sum of each program that weighs, at most 128,
# and a counter. Arguments that change from batch to batch are not specialised: the short last batch of an epoch
# compiles nothing.


@jit(do_not_specialize=["n", "ignore_index"])
def read_rows(logits, target, work, n, classes, stride, ignore_index,
              SMOOTHING: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # fmt: skip
    """Of each row: `loss._minus_odds_against` (NaN where ignored), log-sum-exp, and cross-entropy.

    A target out of range has loss NaN: asking the host to raise an error would make it wait.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    here = row < n
    inside = here[:, None] & (column[None, :] < classes)
    at = logits + row.to(tl.int64)[:, None] * stride + column[None, :]
    z = tl.load(at, mask=inside, other=float("-inf")).to(tl.float64)
    top = tl.max(z, axis=1)
    winner = tl.argmax(z, axis=1)
    others = inside & (column[None, :] != winner[:, None])
    s = tl.sum(tl.where(others, tl.exp(z - top[:, None]), 0.0), axis=1)
    label = tl.load(target + row, mask=here, other=0)
    wanted = label != ignore_index
    rest = tl.log(1.0 + s)
    own = tl.sum(tl.where(column[None, :] == label[:, None], z, 0.0), axis=1)
    loss = (top - own) + rest
    if SMOOTHING != 0:
        mean = tl.sum(tl.where(inside, z, 0.0), axis=1) / classes
        loss = (1 - SMOOTHING) * loss + SMOOTHING * ((top - mean) + rest)
    loss = tl.where((label >= 0) & (label < classes), loss, float("nan"))
    tl.store(work + row, tl.where(wanted, -s, float("nan")), mask=here)
    tl.store(work + n + row, top + rest, mask=here)
    tl.store(work + 2 * n + row, tl.where(wanted, loss, 0.0), mask=here)
    if tl.program_id(0) == 0:
        tl.store(work + 5 * n + 128, 0.0)


@jit
def share_at(work, own, n, LOO: tl.constexpr, SIZE: tl.constexpr, STEP: tl.constexpr):
    """One over the samples accepted at each of these confidences (the sample itself left out for `loo`)."""
    N = tl.zeros((SIZE,), tl.int32)
    for begin in range(0, n, STEP):
        i = begin + tl.arange(0, STEP)
        other = tl.load(work + i, mask=i < n, other=float("nan"))
        N += tl.sum((other[None, :] >= own[:, None]).to(tl.int32), axis=1)
    if LOO:
        N -= 1
    return tl.where(N > 0, 1.0 / tl.where(N > 0, N, 1).to(tl.float64), 0.0)


@jit(do_not_specialize=["n"])
def shares(work, n, LOO: tl.constexpr, MINE: tl.constexpr):
    """`share_at` each sample's confidence, for batches too large for every program to find them all."""
    j = tl.program_id(0) * MINE + tl.arange(0, MINE)
    own = tl.load(work + j, mask=j < n, other=float("nan"))
    tl.store(work + 4 * n + j, share_at(work, own, n, LOO, MINE, 128), mask=j < n)


@jit(do_not_specialize=["n"])
def weigh(
    work, out, n, ESTIMATOR: tl.constexpr, REDUCTION: tl.constexpr, ALONE: tl.constexpr, MINE: tl.constexpr
):
    """`core.estimators.pair_weights` of each sample (over their number for "mean"), and the weighted losses, summed.

    The program that comes last adds up the sums of all, in their order: the result does not depend on who that is.
    """
    LOO: tl.constexpr = ESTIMATOR == "loo"
    SELE: tl.constexpr = ESTIMATOR == "sele" or ESTIMATOR == "2sele"
    THEIRS: tl.constexpr = 128
    i = tl.program_id(0) * MINE + tl.arange(0, MINE)
    own = tl.load(work + i, mask=i < n, other=float("nan"))
    alpha = tl.zeros((MINE,), tl.float64)
    total = tl.zeros((1,), tl.int32)
    for begin in range(0, n, THEIRS):
        j = begin + tl.arange(0, THEIRS)
        other = tl.load(work + j, mask=j < n, other=float("nan"))
        accepted = own[:, None] >= other[None, :]
        if SELE:
            alpha += tl.sum(accepted.to(tl.float64), axis=1)
        else:
            if ALONE:
                part = share_at(work, other, n, LOO, THEIRS, 32)
            else:
                part = tl.load(work + 4 * n + j, mask=j < n, other=0.0)
            alpha += tl.sum(tl.where(accepted, part[None, :], 0.0), axis=1)
        total += tl.sum((other == other).to(tl.int32), axis=0)
    if LOO:
        if ALONE:
            mine = share_at(work, own, n, LOO, MINE, 32)
        else:
            mine = tl.load(work + 4 * n + i, mask=i < n, other=0.0)
        alpha -= tl.where(own == own, mine, 0.0)
    count = tl.maximum(total, 1).to(tl.float64)
    if SELE:
        alpha = alpha / count
    if REDUCTION == "mean":
        alpha = alpha / count
    if ESTIMATOR == "2sele":
        alpha = alpha * 2
    tl.store(work + 3 * n + i, alpha, mask=i < n)
    weighted = alpha * tl.load(work + 2 * n + i, mask=i < n, other=0.0)
    if REDUCTION == "none":
        tl.store(out + i, weighted, mask=i < n)
    else:
        tl.store(work + 5 * n + tl.program_id(0), tl.sum(weighted, axis=0))
        tl.debug_barrier()
        # releases what was stored, acquires what the others stored
        before = tl.atomic_add(work + 5 * n + 128, 1.0)
        if before == tl.num_programs(0) - 1:
            k = tl.arange(0, 128)
            sums = tl.load(work + 5 * n + k, mask=k < tl.num_programs(0), other=0.0, cache_modifier=".cg")
            tl.store(out, tl.sum(sums, axis=0))


@jit(do_not_specialize=["n", "step", "ignore_index"])
def gradients(logits, target, work, upstream, grad, n, classes, stride, step, ignore_index,
              SMOOTHING: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # fmt: skip
    """Upstream times weight times (softmax - target) of each row; 0 where ignored."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    here = row < n
    inside = here[:, None] & (column[None, :] < classes)
    at = row.to(tl.int64)[:, None]
    z = tl.load(logits + at * stride + column[None, :], mask=inside, other=float("-inf")).to(tl.float64)
    distance = z - tl.load(work + n + row, mask=here, other=0.0)[:, None]
    scale = tl.load(work + 3 * n + row, mask=here, other=0.0)
    scale = scale * tl.load(upstream + row * step, mask=here, other=0.0).to(tl.float64)
    label = tl.load(target + row, mask=here, other=0)
    scale = tl.where((label >= 0) & (label < classes), scale, float("nan"))
    if logits.dtype.element_ty != tl.float64:
        distance, scale = distance.to(tl.float32), scale.to(tl.float32)
    aim = tl.where(column[None, :] == label[:, None], 1.0, 0.0)
    if SMOOTHING != 0:
        aim = (1 - SMOOTHING) * aim.to(tl.float64) + SMOOTHING / classes.to(tl.float64)
    slope = scale[:, None] * (tl.exp(distance) - aim.to(distance.dtype))
    slope = tl.where((label != ignore_index)[:, None], slope, 0.0)
    tl.store(grad + at * classes + column[None, :], slope, mask=inside)
