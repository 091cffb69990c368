r"""Odds against the winning class: the one form in which softmax quantities neither saturate nor underflow.

With the largest logit on top and :math:`d_j = z_{\max} - z_j \ge 0` over the *other* classes, everything
that a softmax can tell is a function of :math:`e_j = e^{-d_j}` and :math:`s = \sum_j e_j`:

    p_max = 1 / (1 + s)        p_j = e_j / (1 + s)

and a confident row is one with a tiny s. All sums are kept relative to the runner-up's :math:`e_2`, so that
they are of order one however tiny s is; a result's logarithm is then `-d2` plus the logarithm of such a sum.
On numpy these sums do not depend on the order of the classes, to the last bit (`total`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from abstain._arrays import Array, Namespace, float_dtype
from abstain._check import Classes
from abstain.core.rows import device_keyword
from abstain.core.sorting import map_in_threads

_FACTORIAL = [math.factorial(k) for k in range(12)]
_CHUNK = 1 << 17  # entries handled at a time on the host: temporaries stay in the cache
_PIECE = 1 << 12  # rows whose keys are finished at a time: fewer would be all overhead
_FEW = 1 << 10  # terms in [0, 1] that add up in 64 bits of 2^-52 each
_NARROW = 64  # up to this many classes, one class after the other for many samples is faster
_FAR = -1e4  # e^_FAR is 0 in every float, and 0 times _FAR is 0
_OWN = threading.local()
_LONE = 1e300  # a distance no logarithm of a sum can add to


def total(xp: Namespace, terms: Array, axis: int = -1, base: float = 1.0, out: Array | None = None) -> Array:
    """Sum of terms in [0, 1]; on numpy free of their order, to the last bit.

    A float in [1, 2] is a whole number of units of 2^-52 in its bits, so adding 1 to a term leaves its
    nearest multiple of the unit in the bits of the sum, and whole numbers add exactly in any order (modulo
    2^64, where the bits of the 1 cancel). Each term is off by half a unit at most. More than 2^10 terms take
    larger units, and what their rounding left over is added up the same way. `base=1.5` takes terms in
    [-1/2, 1/2]. `out`: where to work, of the shape of `terms` (up to 2^10 it may be `terms`).
    """
    if xp is not np:
        return xp.sum(terms, axis=axis)
    count = terms.shape[axis]
    scale = 1.0 if count <= _FEW else 2.0 ** (count // _FEW).bit_length()
    unit = scale * 2.0**-52
    shifted = np.add(terms, base * scale, out=out)
    whole = _sum_of_bits(shifted, base * scale, axis)
    if scale == 1:
        return whole * unit
    shifted -= base * scale
    np.subtract(terms, shifted, out=shifted)  # exact, at most half a unit
    shifted += 1.5 * scale * unit
    return (whole + _sum_of_bits(shifted, 1.5 * scale * unit, axis) * unit) * unit


def _sum_of_bits(shifted: np.ndarray, base: float, axis: int) -> np.ndarray:
    start = shifted.shape[axis] * int(np.float64(base).view(np.int64))
    bits = shifted.view(np.uint64).sum(axis=axis) - np.uint64(start % 2**64)
    return np.asarray(bits).view(np.int64)


def _once(work: Callable[[Odds], Array]) -> property:
    """A property worked out when first asked for; functools.cached_property would have `torch.compile` enter a lock."""
    name = work.__name__

    def get(odds: Odds) -> Array:
        if name not in odds.known:
            odds.known[name] = work(odds)
        return odds.known[name]

    return property(get, doc=work.__doc__)


@dataclass
class Odds:
    """Rows of K classes, seen from the winner.

    top, second: the two largest entries. winner: index of the largest, the first of equals. labels, value: class
    indices and their entries, where there are labels. x: log(e_j / e_2) of every class, and ratio: e_j / e_2, with
    the winner left out of every sum. The rest follows when it is first asked for, and is kept in `known`.
    """

    xp: Namespace
    kind: str
    temperature: float
    order: float
    known: dict[str, Array]
    top: Array
    winner: Array
    second: Array
    labels: Array = None
    value: Array = None
    x: Array = None
    ratio: Array = None
    axis: int = -1
    buffers: Sequence[Array] = (None, None)

    def distance(self, entry: Array) -> Array:
        """-log of the odds of a class, from its entry."""
        xp = self.xp
        if self.kind == "logits":
            return (self.top - entry) / self.temperature
        some = entry > 0
        log = xp.log(self.top / xp.where(some, entry, xp.ones_like(entry)))
        return xp.where(some, log, xp.full_like(entry, float("inf"))) / self.temperature

    @_once
    def d2(self) -> Array:
        """Distance of the runner-up; infinite where no other class can occur (or beyond any float)."""
        return self.distance(self.second)

    @_once
    def e2(self) -> Array:
        """Odds of the runner-up. A quotient has one rounding where the exponential of a logarithm has three."""
        plain = self.kind == "probs" and self.temperature == 1
        return self.second / self.top if plain else self.xp.exp(-self.d2)

    @_once
    def won(self) -> Array:
        """Is the winner the label?"""
        return self.labels == self.winner

    @_once
    def own_d(self) -> Array:
        """Distance of the label."""
        own = self.distance(self.value)
        return self.xp.where(self.won, self.xp.zeros_like(own), own)

    @_once
    def r(self) -> Array:
        """Sum of e_j / e_2: from 1 to K - 1, or 0 where no other class can occur."""
        return self._total(self.ratio)

    @_once
    def gaps(self) -> Array:
        """Sum of -x_j e_j / e_2, at least 0."""
        x = self.x
        if self.xp is not np or float(x.min()) < _FAR:
            x = self.xp.where(x > _FAR, x, self.xp.full_like(x, _FAR))
        return -self._total(self.xp.multiply(x, self.ratio, **_into(self.buffers[0])), 1.5)

    @_once
    def squares(self) -> Array:
        """Sum of (e_j / e_2)^2."""
        return self._total(self.xp.multiply(self.ratio, self.ratio, **_into(self.buffers[0])))

    @_once
    def powers(self) -> Array:
        """Sum of (e_j / e_2)^order."""
        some = self.ratio > 0
        safe = self.xp.where(some, self.ratio, self.xp.ones_like(self.ratio))
        return self._total(self.xp.where(some, safe**self.order, self.xp.zeros_like(safe)))

    def _total(self, terms: Array, base: float = 1.0) -> Array:
        few = terms.shape[self.axis] <= _FEW  # then the terms themselves may be overwritten
        return total(self.xp, terms, self.axis, base, self.buffers[0 if few else 1])

    @_once
    def s(self) -> Array:
        """Odds against the winner."""
        return self.e2 * self.r

    @_once
    def log1p_s(self) -> Array:
        """-log p_max."""
        return self.xp.log1p(self.s)


def _into(buffer: Array | None) -> dict[str, Array]:
    """Where numpy is to put a result: fresh memory for every temporary costs more than the arithmetic."""
    return {} if buffer is None else {"out": buffer}


def odds_of(
    xp: Namespace,
    z: Array,
    kind: str = "logits",
    temperature: float = 1.0,
    labels: Array | None = None,
    order: float = 2.0,
    *,
    winner: Array | None = None,
    axis: int = -1,
    buffers: Sequence[Array] = (None, None, None),
) -> Odds:
    """Odds of rows of wide floats, with classes along an axis. With buffers to work in, `z` is overwritten.

    Of logits, -inf marks a class that cannot occur; of probabilities, each row counts relative to its own sum.
    """
    winner = xp.argmax(z, axis=axis) if winner is None else winner
    top = _at(xp, z, winner, axis)  # not max(), whose gradient is shared out among equals
    value = None if labels is None else _at(xp, z, labels, axis)
    probs = kind == "probs"
    here, there = ({}, {}) if buffers[0] is None else (_into(z), _into(buffers[0]))
    others = _with_winner(xp, z, winner, 0.0 if probs else -float("inf"), axis, bool(here))
    second = xp.max(others, axis=axis)
    lone = second == 0 if probs else xp.isinf(top - second)
    base = xp.expand_dims(xp.where(lone, top, second), axis=axis)
    if not probs:
        x = xp.subtract(z, base, **here)
        if temperature != 1:
            x = xp.divide(x, temperature, **here)
        x = _with_winner(xp, x, winner, 0.0, axis, True)  # where e^x is cheap: underflow is slow
        ratio = _with_winner(xp, xp.exp(x, **there), winner, 0.0, axis, True)
    else:
        ratio = xp.divide(others, base, **here)
        some = ratio > 0
        x = xp.log(xp.where(some, ratio, xp.ones_like(ratio)), **there)
        x = xp.where(some, x, xp.full_like(x, -float("inf"))) / temperature
        ratio = ratio if temperature == 1 else xp.exp(x, **here)
    known = top, winner, second, labels, value
    return Odds(xp, kind, temperature, order, {}, *known, x, ratio, axis, buffers[1:])


def _own_buffers(size: int) -> np.ndarray:
    """Four buffers of this thread's own: fresh ones would cost as much as the work."""
    if getattr(_OWN, "buffers", np.empty((4, 0))).shape[1] < size:
        _OWN.buffers = np.empty((4, size))
    return _OWN.buffers


def _first_largest(rows: np.ndarray, z: np.ndarray, axis: int) -> np.ndarray:
    """Place of each row's largest entry, the first of equals. numpy's argmax takes its time on short rows."""
    if axis != 0:
        return rows.argmax(axis=-1)
    top = z.max(axis=0)
    seen, place = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=np.int8)
    for entries in z[:-1]:
        seen |= entries == top
        place += ~seen
    return place.astype(np.int64)


class RowNumber(NamedTuple):
    """A number of each row as a function of its odds, and the sums over classes it needs beside `r`."""

    value: Callable[[Odds], Array]
    sums: tuple[str, ...] = ()


def _key(log_distance: Callable[[Odds], Array], *sums: str) -> RowNumber:
    return RowNumber(lambda odds: finite(odds.xp, -log_distance(odds)), sums)


def numbers_of_rows(
    classes: Classes, names: list[str], temperature: float = 1.0, labels: Array = None, order: float = 2.0
) -> list[Array]:
    """Numbers of every row by their names in `NUMBERS`, all in one pass; on the host chunk by chunk, in threads.

    There every row is worked on alone, so its result does not depend on where it stands.
    """
    backend, kind = classes.backend, classes.kind
    wanted = [NUMBERS[name] for name in names]
    if not backend.host:
        odds = odds_of(backend.xp, wide(backend.xp, classes.values), kind, temperature, labels, order)
        return [number.value(odds) for number in wanted]
    flat = classes.values.reshape(-1, classes.values.shape[-1])
    own = None if labels is None else labels.reshape(-1)
    count = flat.shape[-1]
    axis = 0 if count <= _NARROW else -1
    step = max(1, _CHUNK // count)
    entries = ["top", "winner", "second"] + ([] if own is None else ["labels", "value"])
    sums = ["r", *{name for number in wanted for name in number.sums}]

    def chunk(a: int, b: int, memory: np.ndarray) -> list[np.ndarray]:
        rows = np.ascontiguousarray(flat[a:b], dtype=None if flat.dtype.kind == "f" else np.float64)
        z, *buffers = memory[:, : rows.size].reshape(4, *(rows.T if axis == 0 else rows).shape)
        z[...] = rows.T if axis == 0 else rows
        mine, winner = None if own is None else own[a:b], _first_largest(rows, z, axis)
        odds = odds_of(np, z, kind, temperature, mine, order, winner=winner, axis=axis, buffers=buffers)
        return [getattr(odds, name) for name in (*entries, *sums)]

    def piece(a: int, b: int) -> list[np.ndarray]:
        memory = _own_buffers(step * count)
        with np.errstate(all="ignore"):  # infinities are meant: they become the ends of the scale
            chunks = [chunk(i, min(i + step, b), memory) for i in range(a, b, step)]
            whole = [np.concatenate(part) for part in zip(*chunks)]
            of_rows: dict[str, Array] = dict(zip(entries, whole))
            odds = Odds(np, kind, temperature, order, dict(zip(sums, whole[len(entries) :])), **of_rows)
            return [number.value(odds) for number in wanted]

    found = map_in_threads(piece, len(flat), -(-_PIECE // step) * step, count)
    return [np.concatenate(part).reshape(classes.values.shape[:-1]) for part in zip(*found)]


def _at(xp: Namespace, x: Array, index: Array, axis: int = -1) -> Array:
    if xp is np and x.ndim == 2:  # many times faster than take_along_axis for short rows
        line = np.arange(len(index))
        return x[index, line] if axis == 0 else x[line, index]
    return xp.squeeze(xp.take_along_axis(x, xp.expand_dims(index, axis=axis), axis=axis), axis=axis)


def _with_winner(
    xp: Namespace, x: Array, winner: Array, value: float, axis: int = -1, in_place: bool = False
) -> Array:
    """`x` with the winner's entry replaced, on numpy in place if told so."""
    if xp is not np:
        return xp.where(places(xp, x) == winner[..., None], xp.full_like(x, value), x)
    x = x if in_place else x.copy()
    if x.ndim == 2:  # faster than put_along_axis, which is faster than comparing every place
        line = np.arange(len(winner))
        x[(winner, line) if axis == 0 else (line, winner)] = value
    else:
        np.put_along_axis(x, np.expand_dims(winner, axis), value, axis=axis)
    return x


def places(xp: Namespace, x: Array) -> Array:
    """Class numbers 0 ... K-1 beside `x`."""
    return xp.arange(x.shape[-1], **device_keyword(x))


def winners(xp: Namespace, x: Array) -> Array:
    """Mask of each row's largest entry, the first of equals."""
    return places(xp, x) == xp.argmax(x, axis=-1)[..., None]


def log1p_ratio(xp: Namespace, x: Array, log1p: Array | None = None) -> Array:
    """log(1 + x) / x, 1 at 0."""
    some = x > 0
    log1p = xp.log1p(x) if log1p is None else log1p
    return xp.where(some, log1p / xp.where(some, x, xp.ones_like(x)), xp.ones_like(x))


def log_softmax(odds: Odds) -> Array:
    """Logarithms of all K probabilities; -inf where a class cannot occur."""
    xp = odds.xp
    d = odds.d2[..., None] - odds.x
    return -_with_winner(xp, d, odds.winner, 0.0) - odds.log1p_s[..., None]


def cross_entropy(odds: Odds) -> Array:
    """-log p of the label: d_label + log(1 + s), every digit kept when it is tiny."""
    return odds.own_d + odds.log1p_s


def brier(odds: Odds) -> Array:
    r"""Sum over classes of (p_k - 1[k = label])^2, written with e_j so that nothing cancels."""
    xp, s = odds.xp, odds.s
    e = xp.exp(-odds.own_d)
    squares = odds.squares * odds.e2**2
    lost = (1 + (s - e)) ** 2 + (1 + (squares - e**2))  # of a tied winner just s^2 + squares
    return xp.where(odds.won, s**2 + squares, lost) / (1 + s) ** 2


def log_mean(xp: Namespace, logs: Array) -> Array:
    """Logarithm of the mean over the first axis of numbers given by their logarithms."""
    most = xp.max(logs, axis=0)
    start = xp.where(xp.isinf(most), xp.zeros_like(most), most)
    return start + xp.log(xp.mean(xp.exp(logs - start), axis=0))


def log_information(xp: Namespace, logs: Array) -> Array:
    r"""Logarithm of the mutual information between label and member, from log p of each member (first axis).

    The mean over members of KL(p_m || p) is a sum of terms p_j f(u), u = p_mj / p_j, f(u) = u ln u - u + 1
    >= 0: none is negative, so nothing cancels (entropies subtracted from one another would).
    """
    mean = log_mean(xp, logs)
    some = mean > -float("inf")
    gap = xp.where(some, logs - xp.where(some, mean, 0.0), 0.0)
    here = gap > -float("inf")
    gap = xp.where(here, gap, 0.0)
    series = xp.zeros_like(gap)
    for k in range(11, 1, -1):  # f = sum over k >= 2 of (k - 1) gap^k / k!
        series = (series + (k - 1) / _FACTORIAL[k]) * gap
    series = series * gap
    f = xp.where(xp.abs(gap) < 0.1, series, xp.exp(gap) * gap - xp.expm1(gap))
    terms = xp.where(some, mean, 0.0) + xp.log(xp.where(here, f, 1.0))
    terms = log_mean(xp, xp.where(some, terms, -float("inf")))  # over members
    most = xp.max(terms, axis=-1)
    start = xp.where(xp.isinf(most), xp.zeros_like(most), most)
    return start + xp.log(total(xp, xp.exp(terms - start[..., None])))


def log_complement(odds: Odds) -> Array:
    r"""Logarithm of 1 - p_max = s / (1 + s); -inf for a row without doubt."""
    xp, s = odds.xp, odds.s
    large = s >= 1  # there log s and log(1 + s) nearly cancel
    near = -xp.log1p(1 / xp.where(large, s, xp.ones_like(s)))
    return xp.where(large, near, xp.log(odds.r) - odds.d2 - odds.log1p_s)


def log_margin_complement(odds: Odds) -> Array:
    r"""Logarithm of 1 - (p_(1) - p_(2)) = (s + e_2) / (1 + s)."""
    xp = odds.xp
    margin = -xp.expm1(-odds.d2) / (1 + odds.s)
    small = margin < 0.5  # there the logarithm is that of a number close to 1
    far = xp.log(1 + odds.r) - odds.d2 - odds.log1p_s
    return xp.where(small, xp.log1p(-xp.where(small, margin, xp.zeros_like(margin))), far)


def log_entropy(odds: Odds) -> Array:
    r"""Logarithm of the entropy log(1 + s) + sum d_j e_j / (1 + s)."""
    xp, s = odds.xp, odds.s
    d2 = xp.where(odds.d2 < _LONE, odds.d2, xp.zeros_like(odds.d2))
    own = odds.r * log1p_ratio(xp, s, odds.log1p_s)
    return xp.log(own + (d2 * odds.r + odds.gaps) / (1 + s)) - odds.d2


def log_gini(odds: Odds) -> Array:
    r"""Logarithm of the Gini impurity 1 - sum p_j^2 = (2 s + s^2 - sum e_j^2) / (1 + s)^2."""
    pairs = odds.r * (2 + odds.s) - odds.e2 * odds.squares
    return odds.xp.log(pairs) - odds.d2 - 2 * odds.log1p_s


def log_norm_complement(odds: Odds) -> Array:
    r"""Logarithm of 1 - ||softmax||_p, p > 1 the odds' order: -log ||.||_p = log(1 + s) - log(1 + sum e_j^p) / p."""
    xp, p = odds.xp, odds.order
    gap = odds.r * log1p_ratio(xp, odds.s, odds.log1p_s)
    if p < float("inf"):
        inner = odds.powers * odds.e2 ** (p - 1)  # sum e_j^p, relative to e_2
        gap = gap - inner * log1p_ratio(xp, inner * odds.e2) / p
    loss = gap * odds.e2  # -log of the norm
    some = loss > 0
    bend = xp.where(some, -xp.expm1(-loss) / xp.where(some, loss, xp.ones_like(loss)), xp.ones_like(loss))
    return xp.log(gap * bend) - odds.d2


def finite(xp: Namespace, key: Array) -> Array:
    """Rank keys with the infinities replaced by the largest finite numbers: they tie on top (or at the bottom)."""
    most = xp.finfo(key.dtype).max
    return xp.where(key > most, most, xp.where(key < -most, -most, key))


def wide(xp: Namespace, x: Array) -> Array:
    """`x` in the widest float of its library."""
    return xp.astype(x, float_dtype(xp))


NUMBERS = {
    "max_softmax": _key(log_complement),
    "softmax_margin": _key(log_margin_complement),
    "negative_entropy": _key(log_entropy, "gaps"),
    "negative_gini": _key(log_gini, "squares"),
    "probability_norm": _key(log_norm_complement, "powers"),
    "max_logit": RowNumber(lambda odds: odds.top),
    "logit_margin": RowNumber(lambda odds: finite(odds.xp, odds.d2)),
    "energy": RowNumber(lambda odds: odds.top + odds.temperature * odds.log1p_s),
    "zero_one": RowNumber(lambda odds: ~odds.won),
    "cross_entropy": RowNumber(cross_entropy),
    "brier": RowNumber(brier, ("squares",)),
}
