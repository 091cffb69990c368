# mypy: ignore-errors
"""Triton source of the batch weights: three small kernels where plain torch would launch forty."""

from __future__ import annotations

from abstain.torch._triton_compat import jit, tl


@jit
def odds_keys(
    logits, target, keys, n, classes, stride, ignore_index, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """`confidence._minus_odds_against` of each row; NaN where the target is ignored."""
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
    wanted = tl.load(target + row, mask=here, other=0) != ignore_index
    tl.store(keys + row, tl.where(wanted, -s, float("nan")), mask=here)


@jit
def shares(keys, share, n, LOO: tl.constexpr, MINE: tl.constexpr, THEIRS: tl.constexpr):
    """One over the samples accepted at each sample's confidence (the sample itself left out for `loo`)."""
    j = tl.program_id(0) * MINE + tl.arange(0, MINE)
    own = tl.load(keys + j, mask=j < n, other=float("nan"))
    N = tl.zeros((MINE,), tl.int32)
    for begin in range(0, n, THEIRS):
        i = begin + tl.arange(0, THEIRS)
        other = tl.load(keys + i, mask=i < n, other=float("nan"))
        N += tl.sum((other[None, :] >= own[:, None]).to(tl.int32), axis=1)
    accepted = N - LOO
    value = tl.where(accepted > 0, 1.0 / tl.where(accepted > 0, accepted, 1).to(tl.float64), 0.0)
    tl.store(share + j, value, mask=j < n)


@jit
def pair_weights(
    keys,
    share,
    weights,
    n,
    factor,
    MEAN: tl.constexpr,
    LOO: tl.constexpr,
    SELE: tl.constexpr,
    MINE: tl.constexpr,
    THEIRS: tl.constexpr,
):
    """`core.pairwise.pair_weights` of each sample, divided by the samples that count where MEAN."""
    i = tl.program_id(0) * MINE + tl.arange(0, MINE)
    own = tl.load(keys + i, mask=i < n, other=float("nan"))
    alpha = tl.zeros((MINE,), tl.float64)
    total = tl.zeros((1,), tl.int32)
    for begin in range(0, n, THEIRS):
        j = begin + tl.arange(0, THEIRS)
        other = tl.load(keys + j, mask=j < n, other=float("nan"))
        accepted = own[:, None] >= other[None, :]
        if SELE:
            alpha += tl.sum(accepted.to(tl.float64), axis=1)
        else:
            part = tl.load(share + j, mask=j < n, other=0.0)
            alpha += tl.sum(tl.where(accepted, part[None, :], 0.0), axis=1)
        total += tl.sum((other == other).to(tl.int32), axis=0)
    if LOO:
        alpha -= tl.where(own == own, tl.load(share + i, mask=i < n, other=0.0), 0.0)
    count = tl.maximum(total, 1).to(tl.float64)
    if SELE:
        alpha = alpha / count
    if MEAN:
        alpha = alpha / count
    tl.store(weights + i, alpha * factor, mask=i < n)
