# mypy: ignore-errors
"""Triton source of the loss of a batch: at most three kernels forward and one back, where plain torch launches fifty.

All share one float64 array `work`: five columns of n numbers (key, log-sum-exp, loss, weight, share), then the sum of
each program that weighs, at most 128, and a counter. Arguments that change from batch to batch are not specialised:
the short last batch of an epoch compiles nothing.
"""

from __future__ import annotations

from abstain.torch._triton_compat import jit, tl


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
def shares(work, n, LOO: tl.constexpr, MINE: tl.constexpr, STEP: tl.constexpr):
    """`share_at` each sample's confidence, for batches too large for every program to find them all."""
    j = tl.program_id(0) * MINE + tl.arange(0, MINE)
    own = tl.load(work + j, mask=j < n, other=float("nan"))
    tl.store(work + 4 * n + j, share_at(work, own, n, LOO, MINE, STEP), mask=j < n)


@jit(do_not_specialize=["n"])
def weigh(work, out, n, FACTOR: tl.constexpr, MEAN: tl.constexpr, NONE: tl.constexpr, LOO: tl.constexpr,
          SELE: tl.constexpr, ALONE: tl.constexpr, MINE: tl.constexpr, THEIRS: tl.constexpr):  # fmt: skip
    """`core.estimators.pair_weights` of each sample (over their number where MEAN), and the weighted losses, summed.

    The program that comes last adds up the sums of all, in their order: the result does not depend on who that is.
    """
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
    if MEAN:
        alpha = alpha / count
    alpha = alpha * FACTOR
    tl.store(work + 3 * n + i, alpha, mask=i < n)
    weighted = alpha * tl.load(work + 2 * n + i, mask=i < n, other=0.0)
    if NONE:
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
              SMOOTHING: tl.constexpr, DOUBLE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # fmt: skip
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
    if not DOUBLE:
        distance, scale = distance.to(tl.float32), scale.to(tl.float32)
    aim = tl.where(column[None, :] == label[:, None], 1.0, 0.0)
    if SMOOTHING != 0:
        aim = (1 - SMOOTHING) * aim.to(tl.float64) + SMOOTHING / classes.to(tl.float64)
    slope = scale[:, None] * (tl.exp(distance) - aim.to(distance.dtype))
    slope = tl.where((label != ignore_index)[:, None], slope, 0.0)
    tl.store(grad + at * classes + column[None, :], slope, mask=inside)
