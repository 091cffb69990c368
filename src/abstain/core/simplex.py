r"""Odds against the winning class: the one form in which softmax quantities neither saturate nor underflow.

With the largest logit first and :math:`d_j = z_{\max} - z_j \ge 0` over the *other* classes, every quantity of a
softmax is a function of :math:`e_j = e^{-d_j}` and :math:`s = \sum_j e_j`:

    p_max = 1 / (1 + s)        p_j = e_j / (1 + s)

and a confident row is one with a tiny s. All sums are divided by the runner-up's :math:`e_2`, so that
they are of order one however tiny s is; the logarithm of a result is then `-d2` plus the logarithm of such a sum.
On numpy these sums do not depend on the order of the classes, to the last bit (`sum_in_any_order`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from abstain._arrays import Array, Namespace, float_dtype
from abstain._check import ClassScores
from abstain.core.rows import device_keyword
from abstain.core.sorting import map_in_threads

_FACTORIAL = [math.factorial(k) for k in range(12)]
_CHUNK = 1 << 17  # entries handled at a time on the host: temporaries stay in the cache
_ROWS_AT_ONCE = 1 << 12  # rows whose keys are computed at a time: with fewer, overhead would dominate
_TERMS_IN_ONE_SUM = 1 << 10  # terms in [0, 1] whose sum fits into 64 bits of units of 2^-52
_NARROW = 64  # with up to this many classes, it is faster to go class by class over many samples
_FAR = -1e4  # e^_FAR is 0 in every float, and 0 times _FAR is 0
_THREAD_MEMORY = threading.local()
KEY_AGREEMENT = 2.0**-36  # keys that differ by no more are those of one probability, computed in two ways
_LARGEST_DISTANCE = 1e300  # from here on, adding the logarithm of a float to a distance changes nothing


def sum_in_any_order(
    xp: Namespace, terms: Array, axis: int = -1, base: float = 1.0, out: Array | None = None
) -> Array:
    """Sum of terms in [0, 1] along an axis; on numpy independent of their order, to the last bit.

    `base=1.5` instead of 1 takes terms in [-1/2, 1/2], which it brings into [1, 2] too. Terms are float64 on numpy.
    `out` is an array of the shape of `terms` to work in, which is overwritten; with up to 2^10 terms it may be `terms`
    itself, and with more it may not, because `terms` is read again for what rounding left over. None: a new array.

    All floats in [1, 2) have the same exponent, so that their bits, read as an integer, rise by 1 for each 2^-52 (and 2
    has the next integer). Adding 1 to a term therefore rounds it to a whole number of units of 2^-52 in the bits of the
    sum. Whole numbers add exactly in any order. From their sum the bits of the base are subtracted, once for each
    term; all this is modulo 2^64, and the difference is small enough to be a signed 64-bit integer. Each term is off by
    half a unit at most. More than 2^10 terms take larger units, so that their sum fits into 64 bits, and what their
    rounding left over is added up the same way.
    """
    if xp is not np:
        return xp.sum(terms, axis=axis)
    count = terms.shape[axis]
    scale = 1.0  # by how much the unit is larger than 2^-52
    if count > _TERMS_IN_ONE_SUM:
        scale = 2.0 ** (count // _TERMS_IN_ONE_SUM).bit_length()
    unit = scale * 2.0**-52
    shifted = np.add(terms, base * scale, out=out)  # each rounded to a whole number of units
    # int64: the sum of the bits of `shifted`, less those of base * scale once for each term
    sum_in_units = _sum_of_bits(shifted, base * scale, axis)
    if scale == 1:
        return sum_in_units * unit
    shifted -= base * scale  # the terms rounded to the unit
    remainder = np.subtract(terms, shifted, out=shifted)  # exact, from -1/2 to 1/2 of a unit
    # again a float in whose bits the remainders are whole numbers, of unit^2
    remainder_base = 1.5 * scale * unit
    remainder += remainder_base
    remainder_in_units = _sum_of_bits(remainder, remainder_base, axis) * unit
    return (sum_in_units + remainder_in_units) * unit


def _sum_of_bits(shifted: np.ndarray, base: float, axis: int) -> np.ndarray:
    """Sum of `shifted - base` along an axis as int64, in units of the last bit; `shifted` have the exponent of `base`.

    The bits of a float, read as an integer, rise by 1 from one float to the next. The bits of `base` are subtracted as
    often as there are terms. Both sums may overflow 64 bits, and their difference is right all the same.
    """
    bits_of_bases = shifted.shape[axis] * int(np.float64(base).view(np.int64))
    bits = shifted.view(np.uint64).sum(axis=axis) - np.uint64(bits_of_bases % 2**64)
    return np.asarray(bits).view(np.int64)


def _cached(compute: Callable[[Odds], Array]) -> property:
    """A property computed when it is first read; `torch.compile` cannot trace the lock of functools.cached_property."""
    name = compute.__name__

    def get(odds: Odds) -> Array:
        if name not in odds.cache:
            odds.cache[name] = compute(odds)
        return odds.cache[name]

    return property(get, doc=compute.__doc__)


@dataclass
class Odds:
    """Rows of K classes relative to the winner, the class with the largest entry.

    Attributes
    ----------
    xp : module
        Array namespace.
    kind : str
        "logits" or "probs": what the entries are.
    temperature, order : float
        By which distances are divided, and the power p of `ratio_power_sum`.
    cache : dict
        Properties that have been computed already.
    largest_entry, winner, second_entry : array
        Largest entry of each row, its class (the first of equals), and the second largest entry.
    labels, label_entry : array or None
        Class of the label of each row, and its entry, if there are labels.
    log_ratios, ratios : array or None
        log(e_j / e_2) and e_j / e_2 of every class j; both are such that the winner adds nothing to a sum.
    axis : int
        Axis of the classes in `log_ratios` and `ratios`.
    buffers : sequence of array
        Two arrays of the shape of `ratios` that numpy may overwrite, or None.
    """

    xp: Namespace
    kind: str
    temperature: float
    order: float
    cache: dict[str, Array]
    largest_entry: Array
    winner: Array
    second_entry: Array
    labels: Array = None
    label_entry: Array = None
    log_ratios: Array = None
    ratios: Array = None
    axis: int = -1
    buffers: Sequence[Array] = (None, None)

    def distance(self, entry: Array) -> Array:
        """Distance d of a class from the winner, -log of its odds, from its entry; infinite for a probability of 0."""
        xp = self.xp
        if self.kind == "logits":
            return (self.largest_entry - entry) / self.temperature
        is_positive = entry > 0
        log_ratio = xp.log(self.largest_entry / xp.where(is_positive, entry, xp.ones_like(entry)))
        return xp.where(is_positive, log_ratio, xp.full_like(entry, float("inf"))) / self.temperature

    @_cached
    def runner_up_distance(self) -> Array:
        """Distance of the runner-up; infinite where no other class can occur (or beyond any float)."""
        return self.distance(self.second_entry)

    @_cached
    def runner_up_odds(self) -> Array:
        """Odds of the runner-up. A quotient has one rounding where the exponential of a logarithm has three."""
        if self.kind == "probs" and self.temperature == 1:
            return self.second_entry / self.largest_entry
        return self.xp.exp(-self.runner_up_distance)

    @_cached
    def is_correct(self) -> Array:
        """Is the winner the label?"""
        return self.labels == self.winner

    @_cached
    def label_distance(self) -> Array:
        """Distance d of the label, exactly 0 where it is the winner."""
        distance = self.distance(self.label_entry)
        return self.xp.where(self.is_correct, self.xp.zeros_like(distance), distance)

    @_cached
    def ratio_sum(self) -> Array:
        """Sum of e_j / e_2: from 1 to K - 1, or 0 where no other class can occur."""
        return self._total(self.ratios)

    @_cached
    def weighted_gap_sum(self) -> Array:
        """Sum of -x_j e_j / e_2, at least 0."""
        x = self.log_ratios
        if self.xp is not np or float(x.min()) < _FAR:
            x = self.xp.where(x > _FAR, x, self.xp.full_like(x, _FAR))
        # x e^x lies in [-1/e, 0]
        return -self._total(self.xp.multiply(x, self.ratios, **_out_keyword(self.buffers[0])), base=1.5)

    @_cached
    def ratio_square_sum(self) -> Array:
        """Sum of (e_j / e_2)^2."""
        return self._total(self.xp.multiply(self.ratios, self.ratios, **_out_keyword(self.buffers[0])))

    @_cached
    def ratio_power_sum(self) -> Array:
        """Sum of (e_j / e_2)^order."""
        is_positive = self.ratios > 0
        safe_ratio = self.xp.where(is_positive, self.ratios, self.xp.ones_like(self.ratios))
        return self._total(self.xp.where(is_positive, safe_ratio**self.order, self.xp.zeros_like(safe_ratio)))

    def _total(self, terms: Array, base: float = 1.0) -> Array:
        """Sum of terms over the classes: terms in [0, 1], or with `base=1.5` in [-1/2, 1/2].

        A buffer is overwritten, and so may be `terms`, which can be one.
        """
        may_overwrite_terms = terms.shape[self.axis] <= _TERMS_IN_ONE_SUM
        buffer = self.buffers[0] if may_overwrite_terms else self.buffers[1]
        return sum_in_any_order(self.xp, terms, self.axis, base, buffer)

    @_cached
    def odds_against_winner(self) -> Array:
        """Odds against the winner."""
        return self.runner_up_odds * self.ratio_sum

    @_cached
    def minus_log_p_max(self) -> Array:
        """-log p_max, which is log(1 + s) with s the odds against the winner."""
        return self.xp.log1p(self.odds_against_winner)


def _out_keyword(buffer: Array | None) -> dict[str, Array]:
    """The keyword `out=buffer`, if there is a buffer: allocating every temporary costs more than the arithmetic."""
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
    """Make the odds of rows of classes, relative to the winning class.

    Parameters
    ----------
    z : array of the library's widest floats
        Logits (-inf marks a class that cannot occur) or probabilities (of a row they need not add up to 1), by `kind`.
        Every row has at least one class that can occur; there is no NaN.
    kind : {"logits", "probs"}
        What the entries of `z` are.
    temperature : float
        Divides the logits (for probabilities: their logarithms).
    labels : array of int, optional
        Class number of the label of each row.
    order : float
        The power of `Odds.ratio_power_sum`.
    winner : array of int, optional
        Class of the largest entry of each row, the first of equals, if it is known.
    axis : int
        Axis of the classes: 0 or -1 for a numpy matrix, otherwise -1.
    buffers : sequence of three arrays of the shape of `z`, numpy only
        If they are passed, they and `z` are overwritten.
    """
    winner = xp.argmax(z, axis=axis) if winner is None else winner
    largest = _take_class(xp, z, winner, axis)  # not max(), whose gradient is divided among equals
    label_entry = None if labels is None else _take_class(xp, z, labels, axis)  # before `z` is overwritten
    in_place = buffers[0] is not None
    into_z = _out_keyword(z if in_place else None)
    into_buffer = _out_keyword(buffers[0])
    # Ratios are taken to the second largest entry; where no other class can occur, to the largest, so that they are 0.
    if kind == "probs":
        without_winner = _replace_winner(xp, z, winner, 0.0, axis, in_place=in_place)
        second = xp.max(without_winner, axis=axis)
        has_one_class = second == 0
        base = xp.expand_dims(xp.where(has_one_class, largest, second), axis=axis)
        ratio = xp.divide(without_winner, base, **into_z)  # 0 for the winner
        is_positive = ratio > 0
        log_ratio = xp.log(xp.where(is_positive, ratio, xp.ones_like(ratio)), **into_buffer)
        log_ratio = xp.where(is_positive, log_ratio, xp.full_like(log_ratio, -float("inf"))) / temperature
        ratio = ratio if temperature == 1 else xp.exp(log_ratio, **into_z)
    else:
        without_winner = _replace_winner(xp, z, winner, -float("inf"), axis, in_place=in_place)
        second = xp.max(without_winner, axis=axis)
        has_one_class = xp.isinf(largest - second)
        base = xp.expand_dims(xp.where(has_one_class, largest, second), axis=axis)
        log_ratio = xp.subtract(z, base, **into_z)
        if temperature != 1:
            log_ratio = xp.divide(log_ratio, temperature, **into_z)
        # the winner's exponential is not needed: e^0 is cheap and does not overflow
        log_ratio = _replace_winner(xp, log_ratio, winner, 0.0, axis, in_place=True)
        ratio = _replace_winner(xp, xp.exp(log_ratio, **into_buffer), winner, 0.0, axis, in_place=True)
    return Odds(
        xp=xp,
        kind=kind,
        temperature=temperature,
        order=order,
        cache={},
        largest_entry=largest,
        winner=winner,
        second_entry=second,
        labels=labels,
        label_entry=label_entry,
        log_ratios=log_ratio,
        ratios=ratio,
        axis=axis,
        buffers=buffers[1:],
    )


def _thread_buffers(size: int) -> np.ndarray:
    """Four buffers of at least `size` floats for this thread: allocating new ones would cost as much as the work."""
    if getattr(_THREAD_MEMORY, "buffers", np.empty((4, 0))).shape[1] < size:
        _THREAD_MEMORY.buffers = np.empty((4, size))
    return _THREAD_MEMORY.buffers


def _find_winners(rows: np.ndarray, z: np.ndarray, axis: int) -> np.ndarray:
    """Class of the largest entry of each row, the first of equals.

    `rows` has shape (samples, classes). `z` holds the same entries with the classes along `axis`: if that is 0 there
    are at most 64 classes, and they are searched one after the other, because numpy's argmax is slow on short rows.
    There is no NaN. The result has one int64 per sample.
    """
    if axis != 0:
        return rows.argmax(axis=-1)
    top = z.max(axis=0)
    has_winner = np.zeros(len(rows), dtype=bool)
    winner = np.zeros(len(rows), dtype=np.int8)  # class numbers below 64
    for entries in z[:-1]:  # one class after the other; if none of these wins, the last one does
        has_winner |= entries == top
        winner += ~has_winner  # one class further in the rows whose winner comes later
    return winner.astype(np.int64)


class RowNumber(NamedTuple):
    """A number of each row as a function of its odds, and the sums over classes it needs in addition to `ratio_sum`."""

    value: Callable[[Odds], Array]
    sums: tuple[str, ...] = ()


def _rank_key(log_complement: Callable[[Odds], Array], *sums: str) -> RowNumber:
    """Define a confidence -log(x) that ranks as 1 - x does but does not saturate, from a function for log(x).

    `sums` names the properties of `Odds` that the function reads, in addition to `ratio_sum`, and that are sums over
    classes.
    """
    return RowNumber(lambda odds: finite(odds.xp, -log_complement(odds)), sums)


def numbers_of_rows(
    class_scores: ClassScores,
    names: list[str],
    temperature: float = 1.0,
    labels: Array = None,
    order: float = 2.0,
) -> list[Array]:
    """Compute several numbers of every row, by their names in `NUMBERS`, in one pass over the class scores.

    On the host this goes chunk by chunk, in threads; the result of a row does not depend on its place among the rows,
    nor on the order of the classes. On a device all rows are computed at once.

    Parameters
    ----------
    class_scores : ClassScores
        Checked logits or probabilities, classes along the last axis.
    names : list of str
        Keys of `NUMBERS`. "zero_one", "cross_entropy" and "brier" need `labels`.
    temperature : float
        Divides the logits (for probabilities: their logarithms).
    labels : array of int, optional
        Class numbers, of the shape of the rows.
    order : float
        The p of "probability_norm".

    Returns
    -------
    list of array
        One array for each name, of the shape of the rows, in the library's widest float (boolean for "zero_one").
    """
    backend = class_scores.backend
    kind = class_scores.kind
    numbers = [NUMBERS[name] for name in names]
    if not backend.is_host:
        odds = odds_of(backend.xp, wide(backend.xp, class_scores.values), kind, temperature, labels, order)
        return [number.value(odds) for number in numbers]
    flat = class_scores.values.reshape(-1, class_scores.values.shape[-1])
    flat_labels = None if labels is None else labels.reshape(-1)
    class_count = flat.shape[-1]
    # few classes: put them along the first axis and go class by class over many samples, which is faster
    axis = 0 if class_count <= _NARROW else -1
    rows_per_chunk = max(1, _CHUNK // class_count)
    row_fields = ["largest_entry", "winner", "second_entry"]
    if flat_labels is not None:
        row_fields += ["labels", "label_entry"]
    # properties of Odds that are sums over classes: they are computed while a chunk's classes are in cache
    sum_names = {"ratio_sum"}.union(*(number.sums for number in numbers))
    sum_fields = sorted(sum_names)

    def reduce_chunk(start: int, stop: int, memory: np.ndarray) -> list[np.ndarray]:
        """Return one vector for each of `row_fields` and `sum_fields`, for the rows start, ..., stop - 1.

        All sums over classes are taken here. `memory` holds four buffers, which are overwritten: one for the entries
        `z`, three for `odds_of` to work in. `flat` and the other names are those of the enclosing function: `flat`
        holds the class scores, shape (rows, classes), and `axis` is where the classes go, 0 if they are few, otherwise
        -1. `kind` says whether these are "logits" or "probs"; `temperature` divides them, or the logarithms of "probs";
        `flat_labels` holds the right class of each row (None: no labels); `order` is the p of "probability_norm". Each
        of the fields is the name of an attribute of `Odds`.
        """
        # floats keep their type here: `z` below is float64
        rows = np.ascontiguousarray(flat[start:stop], dtype=None if flat.dtype.kind == "f" else np.float64)
        entries = rows.T if axis == 0 else rows
        z, *buffers = memory[:, : rows.size].reshape(4, *entries.shape)
        z[...] = entries
        chunk_labels = None if flat_labels is None else flat_labels[start:stop]
        winner = _find_winners(rows, z, axis)
        odds = odds_of(
            np, z, kind, temperature, chunk_labels, order, winner=winner, axis=axis, buffers=buffers
        )
        return [getattr(odds, name) for name in (*row_fields, *sum_fields)]

    def compute_rows(start: int, stop: int) -> list[np.ndarray]:
        """Compute the requested numbers of the rows start, ..., stop - 1: one vector for each name.

        `row_fields`, `sum_fields` (names of attributes of `Odds`) and `numbers` are those of the enclosing function.
        The former are computed chunk by chunk, `rows_per_chunk` rows at a time; `numbers` are functions of them.
        """
        # four buffers of this thread, used for every chunk
        memory = _thread_buffers(rows_per_chunk * class_count)
        with np.errstate(all="ignore"):  # infinities are intended: they become the ends of the scale
            chunks = [
                reduce_chunk(first, min(first + rows_per_chunk, stop), memory)
                for first in range(start, stop, rows_per_chunk)
            ]
            # one for each of `row_fields`, then one for each of `sum_fields`
            columns = [np.concatenate(column) for column in zip(*chunks)]
            row_columns: dict[str, Array] = dict(zip(row_fields, columns))
            odds = Odds(
                xp=np,
                kind=kind,
                temperature=temperature,
                order=order,
                # properties found here are not computed again: the sums over classes are known
                cache=dict(zip(sum_fields, columns[len(row_fields) :])),
                **row_columns,
            )
            return [number.value(odds) for number in numbers]

    rows_at_once = -(-_ROWS_AT_ONCE // rows_per_chunk) * rows_per_chunk  # whole chunks
    pieces = map_in_threads(
        compute_rows, item_count=len(flat), items_at_once=rows_at_once, elements_per_item=class_count
    )
    return [np.concatenate(column).reshape(class_scores.values.shape[:-1]) for column in zip(*pieces)]


def _take_class(xp: Namespace, x: Array, index: Array, axis: int = -1) -> Array:
    """Return the entry of each row of `x` at its class `index`, with the classes along `axis` (0 or -1)."""
    if xp is np and x.ndim == 2:  # many times faster than take_along_axis for short rows
        line = np.arange(len(index))
        return x[index, line] if axis == 0 else x[line, index]
    return xp.squeeze(xp.take_along_axis(x, xp.expand_dims(index, axis=axis), axis=axis), axis=axis)


def _replace_winner(
    xp: Namespace, x: Array, winner: Array, value: float, axis: int = -1, in_place: bool = False
) -> Array:
    """Return `x` with the entry of each row's winning class replaced by `value`.

    `winner` holds one class number per row, and the classes lie along `axis` (-1 unless `x` is a numpy array). With
    `in_place` a numpy array is changed and returned; arrays of other libraries never are.
    """
    if xp is not np:
        # `class_numbers` is 0, 1, ... along the last axis
        return xp.where(class_numbers(xp, x) == winner[..., None], xp.full_like(x, value), x)
    x = x if in_place else x.copy()
    if x.ndim == 2:  # faster than put_along_axis, which is faster than comparing every place
        line = np.arange(len(winner))
        x[(winner, line) if axis == 0 else (line, winner)] = value
    else:
        np.put_along_axis(x, np.expand_dims(winner, axis), value, axis=axis)
    return x


def class_numbers(xp: Namespace, x: Array) -> Array:
    """Class numbers 0 ... K-1 on the device of `x`, whose last axis has K classes."""
    return xp.arange(x.shape[-1], **device_keyword(x))


def winners(xp: Namespace, x: Array) -> Array:
    """Mask of each row's largest entry, the first of equals."""
    return class_numbers(xp, x) == xp.argmax(x, axis=-1)[..., None]


def log1p_over_x(xp: Namespace, x: Array, log1p_x: Array | None = None) -> Array:
    """log(1 + x) / x, 1 at 0; pass `log1p_x`, the numerator, if it is known already."""
    is_positive = x > 0
    log1p_x = xp.log1p(x) if log1p_x is None else log1p_x
    return xp.where(is_positive, log1p_x / xp.where(is_positive, x, xp.ones_like(x)), xp.ones_like(x))


def log_softmax(odds: Odds) -> Array:
    """Logarithms of all K probabilities; -inf where a class cannot occur."""
    distance = odds.runner_up_distance[..., None] - odds.log_ratios
    return -_replace_winner(odds.xp, distance, odds.winner, 0.0) - odds.minus_log_p_max[..., None]


def cross_entropy(odds: Odds) -> Array:
    """-log p of the label: d_label + log(1 + s), every digit kept when it is tiny."""
    return odds.label_distance + odds.minus_log_p_max


def brier(odds: Odds) -> Array:
    r"""Sum over classes of (p_k - 1[k = label])^2, computed from the odds e_j so that nothing cancels.

    e_j are the odds of the other classes against the winner (the class with the largest entry), and s their sum,
    `odds.odds_against_winner`. The result is (s^2 + sum e_j^2) / (1 + s)^2 if the label is the winner, otherwise
    ((1 + s - e_label)^2 + 1 + sum e_j^2 - e_label^2) / (1 + s)^2. `odds` must have labels. One value per row.
    """
    xp = odds.xp
    s = odds.odds_against_winner
    label_odds = xp.exp(-odds.label_distance)  # the distance of the label from the winner is -log of its odds
    # sum of e_j^2, from that of (e_j / e_2)^2, with e_2 the odds of the runner-up, the largest ones
    squares = odds.ratio_square_sum * odds.runner_up_odds**2
    if_correct = s**2 + squares
    # with these brackets a label that ties with the winner (its odds are 1) gives exactly s^2 + squares too
    if_wrong = (1 + (s - label_odds)) ** 2 + (1 + (squares - label_odds**2))
    return xp.where(odds.is_correct, if_correct, if_wrong) / (1 + s) ** 2


def log_mean(xp: Namespace, logs: Array) -> Array:
    """Logarithm of the mean over the first axis of numbers given by their logarithms."""
    largest = xp.max(logs, axis=0)
    offset = xp.where(xp.isinf(largest), xp.zeros_like(largest), largest)  # so that nothing overflows
    return offset + xp.log(xp.mean(xp.exp(logs - offset), axis=0))


def log_information(xp: Namespace, logs: Array) -> Array:
    r"""Logarithm of the mutual information between label and member of an ensemble; -inf where all members agree.

    `logs` holds the log-probabilities, shape (members, ..., classes), -inf for a class that cannot occur. The
    information is the mean over members m of KL(p_m || p), p being the mean of the p_m: a sum of terms p_j f(u) over
    classes j, with u = p_mj / p_j and f(u) = u ln u - u + 1 >= 0. No term is negative, so nothing cancels (entropies
    subtracted from one another would). f is computed by its series in ln u near u = 1; f(0) = 1.
    """
    mean_log = log_mean(xp, logs)  # ln p_j: the logarithm of the mean over members, the first axis
    is_possible = mean_log > -float("inf")
    log_u = xp.where(is_possible, logs - xp.where(is_possible, mean_log, 0.0), 0.0)
    is_possible_for_member = log_u > -float("inf")
    log_u = xp.where(is_possible_for_member, log_u, 0.0)
    # near u = 1: f = sum over k >= 2 of (k - 1) (ln u)^k / k!, by Horner's scheme; up to k = 11 that is all digits
    series = xp.zeros_like(log_u)
    for k in range(11, 1, -1):
        series = (series + (k - 1) / _FACTORIAL[k]) * log_u
    series = series * log_u
    f = xp.where(xp.abs(log_u) < 0.1, series, xp.exp(log_u) * log_u - xp.expm1(log_u))
    f = xp.where(is_possible_for_member, f, 1.0)  # f(0) = 1
    log_terms = xp.where(is_possible, mean_log, 0.0) + xp.log(f)
    log_terms = log_mean(xp, xp.where(is_possible, log_terms, -float("inf")))  # over members
    largest = xp.max(log_terms, axis=-1)
    offset = xp.where(xp.isinf(largest), xp.zeros_like(largest), largest)  # so that nothing underflows
    return offset + xp.log(sum_in_any_order(xp, xp.exp(log_terms - offset[..., None])))


def log_complement(odds: Odds) -> Array:
    r"""Logarithm of 1 - p_max = s / (1 + s), with s the odds against the winner; -inf if only one class can occur."""
    xp = odds.xp
    s = odds.odds_against_winner
    is_large = s >= 1  # there log s and log(1 + s) nearly cancel
    for_large = -xp.log1p(1 / xp.where(is_large, s, xp.ones_like(s)))
    log_s = xp.log(odds.ratio_sum) - odds.runner_up_distance
    from_odds = xp.where(is_large, for_large, log_s - odds.minus_log_p_max)
    return _prefer_probabilities(odds, odds.largest_entry, from_odds)


def _prefer_probabilities(odds: Odds, value: Array, from_odds: Array) -> Array:
    """Logarithm of 1 - `value`: computed from `value` itself where that agrees with `from_odds`, else `from_odds`.

    `value` is the largest probability of each row as the user gave it, or the difference of the two largest ones. Rows
    in which it is equal then have equal keys, as they should: the odds also depend on how the sum of all other
    probabilities was rounded. Close to 1, and for probabilities that do not add up to one as well as float64 can, the
    odds are more exact. For logits, and with a temperature, they are all there is.

    `from_odds` is the same logarithm by way of the odds of the other classes against the winner. A key is minus this
    logarithm: a confidence that ranks as `value` does but does not saturate at 1. Both arrays have one entry per row.
    """
    xp = odds.xp
    if odds.kind == "logits" or odds.temperature != 1:
        return from_odds
    from_value = xp.log1p(-xp.where(value < 1, value, xp.zeros_like(value)))
    agrees = xp.abs(from_value - from_odds) <= KEY_AGREEMENT  # 2^-36: one probability, computed in two ways
    return xp.where(agrees & (value < 1), from_value, from_odds)


def log_margin_complement(odds: Odds) -> Array:
    r"""Logarithm of 1 - (p_(1) - p_(2)) = (s + e_2) / (1 + s), p_(1) and p_(2) being the two largest probabilities.

    s is the sum of the odds of the other classes against the winner, e_2 = exp(-d_2) those of the runner-up
    (`odds.runner_up_distance` is d_2), `odds.ratio_sum` is s / e_2 and `odds.minus_log_p_max` is log(1 + s).
    `odds.largest_entry` and `odds.second_entry` are the two largest entries as the user gave them: logits, or the
    probabilities themselves.
    """
    xp = odds.xp
    margin = -xp.expm1(-odds.runner_up_distance) / (1 + odds.odds_against_winner)  # (1 - e_2) / (1 + s)
    is_small = margin < 0.5  # there the result is the logarithm of a number close to 1
    for_small = xp.log1p(-xp.where(is_small, margin, xp.zeros_like(margin)))
    # log(s + e_2) - log(1 + s), with e_2 taken out of the first sum
    for_large = xp.log(1 + odds.ratio_sum) - odds.runner_up_distance - odds.minus_log_p_max
    from_odds = xp.where(is_small, for_small, for_large)
    return _prefer_probabilities(odds, odds.largest_entry - odds.second_entry, from_odds)


def log_entropy(odds: Odds) -> Array:
    r"""Logarithm of the entropy of each row, log(1 + s) + sum d_j e_j / (1 + s).

    d_j >= 0 are the distances of the other classes from the winner, e_j = exp(-d_j) their odds, s the sum of these
    (`odds.odds_against_winner`), and d_2 and e_2 belong to the runner-up. Both terms are divided by e_2 first, whose
    logarithm -d_2 is added at the end, so that nothing underflows. `odds.ratio_sum` is the sum of e_j / e_2, and
    `odds.weighted_gap_sum` that of (d_j - d_2) e_j / e_2. -inf for a row with a single possible class.
    """
    xp = odds.xp
    s = odds.odds_against_winner
    # An infinite distance (no other class can occur) would make the second term NaN, one beyond 1e300 infinite. Any
    # number will do instead: beside such a distance, which is subtracted at the end, the logarithm of the sum vanishes.
    is_moderate = odds.runner_up_distance < _LARGEST_DISTANCE
    d2 = xp.where(is_moderate, odds.runner_up_distance, xp.zeros_like(odds.runner_up_distance))
    # log(1 + s) / e_2, as s / e_2 * log(1 + s) / s; `minus_log_p_max` is log(1 + s), known already. The quotient
    # log(1 + s) / s, which tends to 1, is what `log1p_over_x` returns.
    first_term = odds.ratio_sum * log1p_over_x(xp, s, log1p_x=odds.minus_log_p_max)
    second_term = (d2 * odds.ratio_sum + odds.weighted_gap_sum) / (1 + s)
    return xp.log(first_term + second_term) - odds.runner_up_distance


def log_gini(odds: Odds) -> Array:
    r"""Logarithm of the Gini impurity 1 - sum p_j^2 = (2 s + s^2 - sum e_j^2) / (1 + s)^2."""
    pairs = odds.ratio_sum * (2 + odds.odds_against_winner) - odds.runner_up_odds * odds.ratio_square_sum
    return odds.xp.log(pairs) - odds.runner_up_distance - 2 * odds.minus_log_p_max


def log_norm_complement(odds: Odds) -> Array:
    r"""Logarithm of 1 - ||softmax||_p of each row, where p > 1 is `odds.order`; p may be infinite.

    e_j are the odds of the other classes against the winner, s their sum (`odds.odds_against_winner`), and
    e_2 = exp(-d_2) the largest of them, that of the runner-up. With
    -log ||softmax||_p = log(1 + s) - log(1 + sum e_j^p) / p = m, this is log(1 - exp(-m)). Sums are divided by e_2, so
    that nothing underflows: `odds.ratio_sum` and `odds.ratio_power_sum` are those of e_j / e_2 and of (e_j / e_2)^p.
    """
    xp = odds.xp
    p = odds.order
    # log(1 + s) / e_2, written as s / e_2 * log(1 + s) / s, where `minus_log_p_max` is log(1 + s), known already; the
    # second logarithm likewise, which is 0 for infinite p. `log1p_over_x` is log(1 + x) / x, which tends to 1.
    m_over_e2 = odds.ratio_sum * log1p_over_x(xp, odds.odds_against_winner, log1p_x=odds.minus_log_p_max)
    if p < float("inf"):
        powers_over_e2 = odds.ratio_power_sum * odds.runner_up_odds ** (p - 1)  # sum e_j^p, divided by e_2
        m_over_e2 = m_over_e2 - powers_over_e2 * log1p_over_x(xp, powers_over_e2 * odds.runner_up_odds) / p
    m = m_over_e2 * odds.runner_up_odds
    is_positive = m > 0
    safe_m = xp.where(is_positive, m, xp.ones_like(m))
    complement_per_m = xp.where(is_positive, -xp.expm1(-m) / safe_m, xp.ones_like(m))  # tends to 1 as m to 0
    return xp.log(m_over_e2 * complement_per_m) - odds.runner_up_distance


def finite(xp: Namespace, key: Array) -> Array:
    """Rank keys with infinities replaced by the largest finite numbers: they tie at the top (or at the bottom)."""
    largest = xp.finfo(key.dtype).max
    return xp.where(key > largest, largest, xp.where(key < -largest, -largest, key))


def wide(xp: Namespace, x: Array) -> Array:
    """`x` in the widest float of its library."""
    return xp.astype(x, float_dtype(xp))


NUMBERS = {
    "max_softmax": _rank_key(log_complement),
    "softmax_margin": _rank_key(log_margin_complement),
    "negative_entropy": _rank_key(log_entropy, "weighted_gap_sum"),
    "negative_gini": _rank_key(log_gini, "ratio_square_sum"),
    "probability_norm": _rank_key(log_norm_complement, "ratio_power_sum"),
    "max_logit": RowNumber(lambda odds: odds.largest_entry),
    "logit_margin": RowNumber(lambda odds: finite(odds.xp, odds.runner_up_distance)),
    "energy": RowNumber(lambda odds: odds.largest_entry + odds.temperature * odds.minus_log_p_max),
    "zero_one": RowNumber(lambda odds: ~odds.is_correct),
    "cross_entropy": RowNumber(cross_entropy),
    "brier": RowNumber(brier, ("ratio_square_sum",)),
}
