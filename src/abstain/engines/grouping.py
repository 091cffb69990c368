"""From samples to items: sort once, cut where the numbers are simplest, add up between the cuts."""

from __future__ import annotations

import sys

import numpy as np

from abstain._arrays import Array
from abstain.core import fast, packed
from abstain.engines.items import Items, bits_of, float_of, simplest_between


def items_of(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None, count: int) -> Items:
    """At most about `count` items of numpy samples; one per distinct confidence when there are that few."""
    if weight is None and fast.is_zero_one(loss):
        packing = packed.Packing(confidence)
        if packing.fits(1):
            return _zero_one_items(packing, loss, count)
    order = packed.order_of(confidence)[::-1]
    ranked = confidence[order].astype(np.float64, copy=False)
    l = loss[order].astype(np.float64)
    w = np.ones_like(l) if weight is None else weight[order].astype(np.float64)
    starts = _starts(ranked, count)
    columns = np.stack([w, w * l, w * w, w * w * l, w * w * l * l])
    return _cut(ranked, starts, np.add.reduceat(columns, starts, axis=1))


def _cut(ranked: np.ndarray, starts: np.ndarray, sums: np.ndarray) -> Items:
    ends = np.append(starts[1:], len(ranked)) - 1
    return Items(ranked[starts], ranked[ends], sums)


def _zero_one_items(packing: packed.Packing, loss: np.ndarray, count: int) -> Items:
    """The error bit rides below the key; only keys at cuts are turned back into numbers."""
    bits = loss.view(np.uint8) if loss.dtype == bool else loss
    keys = packed.sort_in_place(packing.pack(1, lambda a, b: bits[a:b].astype(np.uint8, copy=False)))
    errors = keys & keys.dtype.type(1)
    keys >>= keys.dtype.type(1)  # most confident first: 0 is the largest confidence
    runs = _run_starts(keys, count)
    if runs is None:
        values = packing.unpack(keys[_quantiles(len(keys), count)])
        bits = bits_in(packing, _up(_cuts(values[::-1]), values.dtype)).astype(np.uint64)
        top = np.uint64(packing.top)  # beyond 2^63 where confidences have both signs
        heads = (top - bits[bits <= top]).astype(keys.dtype)
        runs = np.unique(np.append(np.searchsorted(keys, heads, "right"), 0))
        runs = runs[runs < len(keys)]
    mass = np.diff(np.append(runs, len(keys))).astype(np.float64)
    wrong = np.add.reduceat(errors, runs).astype(np.float64)  # fewer than 2^32 at a time
    ends = np.append(runs[1:], len(keys)) - 1
    high, low = (packing.unpack(keys[at]).astype(np.float64) for at in (runs, ends))
    return Items(low[::-1], high[::-1], np.stack([mass, wrong])[:, ::-1])


def bits_in(packing: packed.Packing, values: np.ndarray) -> np.ndarray:
    """Ordered bits as this packing writes them."""
    return packed.ordered_bits(values.astype(packing.confidence.dtype), packing.negative)


def _quantiles(n: int, count: int) -> np.ndarray:
    return np.unique(np.linspace(0, n - 1, count + 1).astype(np.int64))


def _run_starts(ranked: np.ndarray, count: int) -> np.ndarray | None:
    """Where runs of equals start, when there are at most `count` of them."""
    new = np.empty(len(ranked), dtype=bool)
    new[0] = True
    np.not_equal(ranked[1:], ranked[:-1], out=new[1:])
    return np.flatnonzero(new) if np.count_nonzero(new) <= count else None


def _starts(ranked: np.ndarray, count: int) -> np.ndarray:
    runs = _run_starts(ranked, count)
    if runs is not None:
        return runs
    cuts = _cuts(ranked[_quantiles(len(ranked), count)])
    starts = np.unique(np.append(np.searchsorted(ranked, cuts, "left"), 0))
    return np.asarray(starts[starts < len(ranked)])


def _cuts(quantiles: np.ndarray) -> np.ndarray:
    """Thresholds (ascending, a stretch starts at each) between ascending quantiles; a heavy value gets its
    own."""
    bits = bits_of(quantiles)
    a, b = bits[:-1], bits[1:]
    differ = a != b
    simple = simplest_between(a[differ], b[differ])
    heavy = np.unique(a[~differ])
    return float_of(np.unique(np.concatenate([simple, heavy, heavy + np.uint64(1)])))


def _up(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The least number of `dtype` that is not below each value."""
    if dtype == np.float64:
        return values
    with np.errstate(over="ignore"):
        near = values.astype(dtype)
    return np.where(near < values, np.nextafter(near, dtype.type(np.inf)), near)


def items_of_tensor(loss: Array, confidence: Array, weight: Array | None, count: int) -> Items:
    """Items of torch tensors where they live: only the table of items comes to the host."""
    torch = sys.modules["torch"]
    ranked, order = torch.sort(confidence.double())
    l = loss.double()[order]
    w = torch.ones_like(l) if weight is None else weight.double()[order]
    n = len(l)
    places = torch.from_numpy(_quantiles(n, count)).to(ranked.device)
    new = torch.cat([torch.ones_like(ranked[:1], dtype=torch.bool), ranked[1:] != ranked[:-1]])
    if int(new.sum()) <= count:
        starts = torch.nonzero(new).reshape(-1)
    else:
        cuts = torch.from_numpy(_cuts(ranked[places].cpu().numpy())).to(ranked.device)
        starts = torch.unique(torch.cat([torch.zeros_like(places[:1]), torch.searchsorted(ranked, cuts)]))
        starts = starts[starts < n]
    ends = torch.cat([starts[1:], torch.full_like(starts[:1], n)])
    group = torch.repeat_interleave(torch.arange(len(starts), device=ranked.device), ends - starts)
    columns = torch.stack([w, w * l, w * w, w * w * l, w * w * l * l])
    sums = torch.zeros(5, len(starts), dtype=torch.float64, device=ranked.device).index_add_(
        1, group, columns
    )
    plain = weight is None and bool(torch.all(l * l == l))
    kept = sums[:2] if plain else sums
    return Items(*(x.cpu().numpy() for x in (ranked[starts], ranked[ends - 1], kept)))
