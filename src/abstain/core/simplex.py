r"""Odds against the winning class: the one form in which softmax quantities neither saturate nor underflow.

With the largest logit on top and :math:`d_j = z_{\max} - z_j \ge 0` over the *other* classes, everything
that a softmax can tell is a function of :math:`e_j = e^{-d_j}` and :math:`s = \sum_j e_j`:

    p_max = 1 / (1 + s)        p_j = e_j / (1 + s)

and a confident row is one with a tiny s. All sums are kept relative to the runner-up's :math:`e_2`, so that
they are of order one however tiny s is; a result's logarithm is then `-d2` plus the logarithm of such a sum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from abstain._arrays import Array, Namespace, float_dtype
from abstain.core.rows import beside

_FACTORIAL = [math.factorial(k) for k in range(12)]


class Odds(NamedTuple):
    """Rows of K classes along the last axis, seen from the winner.

    top: largest entry. winner: its index, the first of equals. d: distance of every class to the winner (its
    own entry is infinite, so that it drops out of every sum). d2: distance of the runner-up. ratio: e_j /
    e_2. e2, s.
    """

    top: Array
    winner: Array
    d: Array
    d2: Array
    ratio: Array
    e2: Array
    s: Array
    xp: Namespace


def _at(xp: Namespace, x: Array, index: Array) -> Array:
    return xp.take_along_axis(x, index[..., None], axis=-1)[..., 0]


def odds_of_logits(xp: Namespace, logits: Array, temperature: float = 1.0) -> Odds:
    """Odds of logits in wide floats; -inf marks a class that cannot occur."""
    winner = xp.argmax(logits, axis=-1)
    top = _at(xp, logits, winner)  # not max(), whose gradient is shared out among equals
    d = top[..., None] - logits
    return _odds(xp, top, winner, d if temperature == 1 else d / temperature, None)


def odds_of_probs(xp: Namespace, probs: Array, temperature: float = 1.0) -> Odds:
    """Odds of probabilities in wide floats. Each row counts relative to its own sum."""
    winner = xp.argmax(probs, axis=-1)
    top = _at(xp, probs, winner)
    some = probs > 0
    far = xp.full_like(probs, float("inf"))
    d = xp.where(some, xp.log(top[..., None] / xp.where(some, probs, xp.ones_like(probs))), far)
    return _odds(xp, top, winner, d / temperature, probs if temperature == 1 else None)


def _odds(xp: Namespace, top: Array, winner: Array, d: Array, probs: Array | None) -> Odds:
    d = _with_winner(xp, d, winner, float("inf"))
    d2 = xp.min(d, axis=-1)
    lone = xp.isinf(d2)  # no other class can occur (or the distance is beyond any float)
    start = xp.where(lone, xp.zeros_like(d2), d2)
    if probs is None:
        ratio, e2 = xp.exp(start[..., None] - d), xp.exp(-d2)
    else:  # divide rather than take the exponential of a logarithm: one rounding instead of three
        others = _with_winner(xp, probs, winner, 0.0)
        second = xp.max(others, axis=-1)
        ratio = others / xp.where(second > 0, second, xp.ones_like(second))[..., None]
        e2 = second / top
    s = e2 * xp.sum(ratio, axis=-1)
    return Odds(top, winner, d, d2, ratio, e2, s, xp)


def _with_winner(xp: Namespace, x: Array, winner: Array, value: float) -> Array:
    """`x` with the winner's entry replaced."""
    if xp is np:  # several times faster than comparing every place with the winner's
        x = x.copy()
        np.put_along_axis(x, winner[..., None], value, axis=-1)
        return x
    return xp.where(places(xp, x) == winner[..., None], xp.full_like(x, value), x)


def places(xp: Namespace, x: Array) -> Array:
    """Class numbers 0 ... K-1 beside `x`."""
    return xp.arange(x.shape[-1], **beside(x))


def winners(xp: Namespace, x: Array) -> Array:
    """Mask of each row's largest entry, the first of equals."""
    return places(xp, x) == xp.argmax(x, axis=-1)[..., None]


def log1p_ratio(xp: Namespace, x: Array) -> Array:
    """log(1 + x) / x, 1 at 0."""
    some = x > 0
    return xp.where(some, xp.log1p(x) / xp.where(some, x, xp.ones_like(x)), xp.ones_like(x))


def weighted(odds: Odds, factor: Array) -> Array:
    """Sum over the other classes of e_j / e_2 times a factor; classes that cannot occur count for nothing."""
    xp = odds.xp
    some = odds.ratio > 0
    return xp.sum(xp.where(some, odds.ratio * xp.where(some, factor, xp.zeros_like(factor)), 0.0), axis=-1)


def log_softmax(odds: Odds) -> Array:
    """Logarithms of all K probabilities; -inf where a class cannot occur."""
    xp = odds.xp
    d = _with_winner(xp, odds.d, odds.winner, 0.0)
    return -d - xp.log1p(odds.s)[..., None]


def _own_distance(odds: Odds, labels: Array) -> tuple[Array, Array]:
    """Distance of each row's label to the winner, and whether it is the winner."""
    xp = odds.xp
    won = labels == odds.winner
    d = _at(xp, odds.d, labels)
    return xp.where(won, xp.zeros_like(d), d), won


def cross_entropy(odds: Odds, labels: Array) -> Array:
    """-log p of the label: d_label + log(1 + s), every digit kept when it is tiny."""
    d, _ = _own_distance(odds, labels)
    return d + odds.xp.log1p(odds.s)


def brier(odds: Odds, labels: Array) -> Array:
    r"""Sum over classes of (p_k - 1[k = label])^2, written with e_j so that nothing cancels."""
    xp, s = odds.xp, odds.s
    d, won = _own_distance(odds, labels)
    e = xp.exp(-d)
    squares = xp.sum((odds.ratio * odds.e2[..., None]) ** 2, axis=-1)
    lost = (1 + (s - e)) ** 2 + 1 + (squares - e**2)
    return xp.where(won, s**2 + squares, lost) / (1 + s) ** 2


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
    count = terms.shape[-1]
    return log_mean(xp, xp.moveaxis(terms, -1, 0)) + float(np.log(count))  # a sum over classes, not a mean


def log_complement(odds: Odds) -> Array:
    r"""Logarithm of 1 - p_max = s / (1 + s); -inf for a row without doubt."""
    xp = odds.xp
    log_s = xp.log(xp.sum(odds.ratio, axis=-1)) - odds.d2
    large = odds.s >= 1  # there log s and log(1 + s) nearly cancel
    return xp.where(
        large, -xp.log1p(1 / xp.where(large, odds.s, xp.ones_like(odds.s))), log_s - xp.log1p(odds.s)
    )


def log_margin_complement(odds: Odds) -> Array:
    r"""Logarithm of 1 - (p_(1) - p_(2)) = (s + e_2) / (1 + s)."""
    xp = odds.xp
    margin = -xp.expm1(-odds.d2) / (1 + odds.s)
    small = margin < 0.5  # there the logarithm is that of a number close to 1
    far = xp.log(1 + xp.sum(odds.ratio, axis=-1)) - odds.d2 - xp.log1p(odds.s)
    return xp.where(small, xp.log1p(-xp.where(small, margin, xp.zeros_like(margin))), far)


def log_entropy(odds: Odds) -> Array:
    r"""Logarithm of the entropy log(1 + s) + sum d_j e_j / (1 + s)."""
    xp, s = odds.xp, odds.s
    own = xp.sum(odds.ratio, axis=-1) * log1p_ratio(xp, s)
    return xp.log(own + weighted(odds, odds.d) / (1 + s)) - odds.d2


def log_gini(odds: Odds) -> Array:
    r"""Logarithm of the Gini impurity 1 - sum p_j^2 = (2 s + s^2 - sum e_j^2) / (1 + s)^2."""
    xp, s = odds.xp, odds.s
    pairs = xp.sum(odds.ratio * (2 + s[..., None] - odds.ratio * odds.e2[..., None]), axis=-1)
    return xp.log(pairs) - odds.d2 - 2 * xp.log1p(s)


def log_norm_complement(odds: Odds, p: float) -> Array:
    r"""Logarithm of 1 - ||softmax||_p for p > 1, where -log ||.||_p = log(1 + s) - log(1 + sum e_j^p) / p."""
    xp, s = odds.xp, odds.s
    power = xp.where(odds.ratio > 0, odds.ratio * odds.e2[..., None], 0.0) ** (p - 1)
    inner = xp.sum(odds.ratio * power, axis=-1)  # sum e_j^p, relative to e_2
    gap = xp.sum(odds.ratio, axis=-1) * log1p_ratio(xp, s)
    if p < float("inf"):
        gap = gap - inner * log1p_ratio(xp, inner * odds.e2) / p
    loss = gap * odds.e2  # -log of the norm
    some = loss > 0
    bend = xp.where(some, -xp.expm1(-loss) / xp.where(some, loss, xp.ones_like(loss)), xp.ones_like(loss))
    return xp.log(gap * bend) - odds.d2


def finite(xp: Namespace, key: Array) -> Array:
    """Rank keys with the infinities replaced by the largest finite numbers: they tie on top (or at the
    bottom).
    """
    most = xp.finfo(key.dtype).max
    return xp.where(key > most, most, xp.where(key < -most, -most, key))


def wide(xp: Namespace, x: Array) -> Array:
    """`x` in the widest float of its library."""
    return xp.astype(x, float_dtype(xp))
