r"""The estimators of AURC: what a row adds to the area, and the weight of a rank or of a sample.

Formulas write m, L, N, S, W for `mass`, `loss`, `accepted_mass`, `accepted_loss`, `total_mass` of `rows.Rows`. Without
ties and with unit weights, exchanging the two sums turns the terms of an area into rank weights:
:math:`\sum_t m_t S_t/N_t = \sum_i \ell_i \sum_{t \le s(i)} m_t/N_t`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import numpy as np

from abstain._arrays import Array, Namespace, float_dtype, running_max
from abstain.core.rows import (
    Rows,
    device_keyword,
    iterate_rows,
    read_by_confidence,
    rows_from_numpy,
    rows_from_sorted,
    safe_divide,
)
from abstain.core.sorting import map_in_threads, mark_run_ends, pack_loss, sort_lines

# Differences of harmonic numbers and log-factorials that keep their last digits --------------------
#
# `H_b - H_a` by two calls of digamma loses all digits when `b - a` is small compared with `b`; here the difference is
# formed first. Only `+ - * /`, `log`, `log1p`, `where` and a short table are used, so it runs with every array library.


_SAMPLES_AT_ONCE = 1 << 18  # samples of a batch handled at a time
_TABLE_END = 32  # from here on, the first terms of the asymptotic series are exact to double precision


class _SmallTables(NamedTuple):
    """Harmonic numbers H_k, and ln(k!), for k = 0 ... 32."""

    harmonic: np.ndarray
    log_factorial: np.ndarray


@functools.lru_cache(maxsize=1)
def _small_tables() -> _SmallTables:
    """Harmonic numbers H_k, and ln(k!), for k = 0 ... 32."""
    k = np.arange(1.0, _TABLE_END + 1)
    return _SmallTables(
        harmonic=np.concatenate([[0.0], np.cumsum(1 / k)]),
        log_factorial=np.concatenate([[0.0], np.cumsum(np.log(k))]),
    )


def _look_up(xp: Namespace, table: np.ndarray, index: Array) -> Array:
    """`table[index]` for whole numbers held as floats."""
    if xp is np:
        return table[index.astype(np.int64)]
    values = xp.zeros_like(index)
    for k, value in enumerate(table):  # 33 selects: no gather, so it also traces and compiles
        values = xp.where(index == k, float(value), values)
    return values


class _SplitDifference(NamedTuple):
    """A difference f(high) - f(low) as `from_table + f(b) - f(a)`, where a <= b are both at least 32."""

    from_table: Array
    a: Array
    b: Array


def _split_at_table_end(xp: Namespace, table: np.ndarray, low: Array, high: Array) -> _SplitDifference:
    """Split the difference f(high) - f(low) at 32, where the `table` of the values f(0) ... f(32) ends.

    `low` and `high` are whole numbers held as floats, 0 <= low <= high. f(high) - f(low) is `from_table` plus
    f(b) - f(a), with a and b at least 32. The latter part, which the caller computes, is 0 where `high` is at most 32.
    """
    table_end = xp.asarray(_TABLE_END, dtype=low.dtype)
    value_at_high = _look_up(xp, table, xp.minimum(high, table_end))
    value_at_low = _look_up(xp, table, xp.minimum(low, table_end))
    return _SplitDifference(
        from_table=value_at_high - value_at_low, a=xp.maximum(low, table_end), b=xp.maximum(high, table_end)
    )


def harmonic_difference(xp: Namespace, low: Array, high: Array) -> Array:
    """`H_high - H_low`, H_k = 1 + 1/2 + ... + 1/k, for whole numbers `0 <= low <= high` held as floats.

    Accurate to a few units in the last digit. Differences between numbers up to 32 come from a table.
    Beyond 32, by the series H_k = ln k + gamma + 1/(2k) - 1/(12k^2) + 1/(120k^4) - 1/(252k^6) + 1/(240k^8) - ..., of
    which every term is differenced exactly between k = a and k = b.
    """
    # `low` and `high`, raised to 32, are a and b; `from_table` is the part of the difference below 32
    from_table, a, b = _split_at_table_end(xp, _small_tables().harmonic, low, high)
    distance = b - a
    u = 1 / a
    v = 1 / b
    # v^k - u^k for k = 1, 2, 4, 6, 8
    inverse = -distance * u * v
    squares = inverse * (v + u)
    fourth = squares * (v * v + u * u)
    sixth = squares * (v**4 + u * u * v * v + u**4)
    eighth = fourth * (v**4 + u**4)
    logarithms = xp.log1p(distance * u)  # ln b - ln a
    beyond_table = logarithms + inverse / 2 - squares / 12 + fourth / 120 - sixth / 252 + eighth / 240
    return beyond_table + from_table


def log_factorial_difference(xp: Namespace, low: Array, high: Array) -> Array:
    """`ln(high!) - ln(low!)` for whole numbers `0 <= low <= high` held as floats.

    Differences between numbers up to 32 come from a table.
    Beyond 32, by Stirling's series ln k! = (k + 1/2) ln k - k + ln(2 pi)/2 + 1/(12k) - 1/(360k^3) + 1/(1260k^5)
    - 1/(1680k^7), of which every term is differenced exactly between k = a and k = b.
    """
    # `low` and `high`, raised to 32, are a and b; `from_table` is the part of the difference below 32
    from_table, a, b = _split_at_table_end(xp, _small_tables().log_factorial, low, high)
    distance = b - a
    u = 1 / a
    v = 1 / b
    # v^k - u^k for k = 1, 3, 5, 7
    inverse = -distance * u * v
    cubes = inverse * (v * v + u * v + u * u)
    fifth = inverse * (v**4 + v**3 * u + v * v * u * u + v * u**3 + u**4)
    seventh = inverse * (v**6 + v**5 * u + v**4 * u**2 + v**3 * u**3 + v**2 * u**4 + v * u**5 + u**6)
    # (b + 1/2) ln b - (a + 1/2) ln a - (b - a)
    leading_terms = (a + 0.5) * xp.log1p(distance * u) + distance * (xp.log(b) - 1)
    return leading_terms + inverse / 12 - cubes / 360 + fifth / 1260 - seventh / 1680 + from_table


def has_only_single_samples(rows: Rows) -> bool:
    """Is every row one sample of weight 1? Then there are no ties, and the treatment of ties does not matter."""
    return rows.is_untied or (rows.xp is np and not rows.has_empty_rows and bool(rows.mass.max() <= 1))


def sum_inverse_positions(rows: Rows) -> Array:
    """The sum of 1/k over the positions k of each row's samples, counted from the most confident sample (k = 1).

    A row of mass m, a whole number, has the positions N - m + 1 ... N, where N is its accepted mass: the sum is
    H_N - H_(N - m), a difference of harmonic numbers. Rows without mass get 0.
    """
    if rows.xp is not np:
        return harmonic_difference(rows.xp, rows.accepted_mass - rows.mass, rows.accepted_mass)
    # a single sample has 1 / N, which needs no harmonic numbers
    if rows.has_empty_rows:  # the top rows may accept nothing
        sums = safe_divide(np, rows.mass, rows.accepted_mass)
    else:
        sums = rows.mass / rows.accepted_mass
    is_tied = rows.mass > 1
    if is_tied.any():
        N = rows.accepted_mass[is_tied]
        sums[is_tied] = harmonic_difference(np, N - rows.mass[is_tied], N)
    return sums


# The plug-in estimators of AURC: each is a mean, over thresholds, of what is accepted there ---------

Estimator = Literal["harmonic", "log", "loo", "sele", "2sele"]
Ties = Literal["threshold", "expected"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
TIES: tuple[Ties, ...] = get_args(Ties)
WHOLE_WEIGHTS_ONLY = ("log", "loo")  # these count samples, so a weight must mean a repetition


class BaseEstimator(NamedTuple):
    """An estimator without factors of its own, and the factor that makes another one of it."""

    name: str
    factor: float


_BASE_ESTIMATORS: dict[str, BaseEstimator] = {
    estimator: BaseEstimator(estimator, 1.0) for estimator in ESTIMATORS
}
_BASE_ESTIMATORS["2sele"] = BaseEstimator("sele", 2.0)  # of the paper's tables


def base_estimator(estimator: str) -> BaseEstimator:
    """The estimator that this one is a multiple of, and the factor: "sele" and 2 for "2sele", else itself and 1."""
    return _BASE_ESTIMATORS[estimator]


def _harmonic(rows: Rows) -> Array:
    """Terms m S / N: a threshold at each sample, with the selective risk there."""
    return rows.risk if rows.is_untied else rows.mass * rows.risk


def _sele(rows: Rows) -> Array:
    """Terms m S / W: a threshold at each sample, with the accepted loss per sample of the whole set (as in AUGRC)."""
    return rows.mass * rows.accepted_loss / rows.total_mass


def _loo(rows: Rows) -> Array:
    """Terms (m S - L) / (N - 1): a threshold at each sample, with the selective risk of the *other* samples.

    A row (the samples of one confidence) has mass m and loss L, and a threshold there accepts mass N and loss S. The
    term is 0 where no other sample is accepted. Weights are whole numbers of repetitions.
    """
    # added up over the m samples of the row: each leaves out its own loss
    loss_of_others = rows.mass * rows.accepted_loss - rows.loss
    mass_of_others = rows.accepted_mass - 1
    if rows.xp is np and (mass_of_others > 0).all():  # the usual case, faster without a guard
        return loss_of_others / mass_of_others
    return safe_divide(rows.xp, loss_of_others, mass_of_others)


def _log(rows: Rows) -> Array:
    """Loss of each row times the mean of -ln(1 - rank / (W + 1)) over the ranks of its samples, W the total mass.

    The rank counts from the least confident sample, so 1 - rank / (W + 1) is position / (W + 1) from the top. A row of
    mass m that ends at the accepted mass N has the positions N - m + 1 ... N, whose logarithms add up to
    ln(N!) - ln((N - m)!).
    """
    xp = rows.xp
    N = rows.accepted_mass
    mean_log_position = safe_divide(xp, log_factorial_difference(xp, N - rows.mass, N), rows.mass)
    return rows.loss * (xp.log(rows.total_mass + 1) - mean_log_position)


def _harmonic_expected(rows: Rows) -> Array:
    """Expected `_harmonic` terms (mass times selective risk) when a row's samples are accepted one by one at random.

    A row (the samples of one confidence) has mass m, a whole number, and loss L; a threshold there accepts mass N and
    loss S. The loss L is accepted evenly while the accepted mass k grows from N - m to N. With g the sum of 1/k over
    these positions, the term is (S - L) g + L (m - (N - m) g) / m.
    """
    if has_only_single_samples(rows):  # no ties, so there is only one order
        return _harmonic(rows)  # mass times selective risk
    xp = rows.xp
    mass_above = rows.accepted_mass - rows.mass
    g = sum_inverse_positions(rows)
    # m - (N - m) g, which equals g for a single sample but would cancel
    factor_of_mean_loss = xp.where(rows.mass > 1, rows.mass - mass_above * g, g)
    row_loss_term = rows.loss * factor_of_mean_loss / xp.where(rows.mass > 0, rows.mass, 1.0)
    return (rows.accepted_loss - rows.loss) * g + row_loss_term


def _loo_expected(rows: Rows) -> Array:
    """Expected `_loo` terms when the samples of a row are accepted in random order."""
    return _harmonic_expected(rows) - rows.loss / rows.total_mass


def _sele_expected(rows: Rows) -> Array:
    """Expected `_sele` terms, (m (S - L) + L (m + 1) / 2) / W, when the samples of a row come in random order."""
    loss_above = rows.accepted_loss - rows.loss
    return (rows.mass * loss_above + rows.loss * (rows.mass + 1) / 2) / rows.total_mass


_TERMS: dict[str, dict[str, Callable[[Rows], Array]]] = {
    "threshold": {"harmonic": _harmonic, "log": _log, "loo": _loo, "sele": _sele},
    "expected": {"harmonic": _harmonic_expected, "log": _log, "loo": _loo_expected, "sele": _sele_expected},
}


def area_terms(rows: Rows, estimator: str = "harmonic", ties: str = "threshold") -> Array:
    """What each row adds to `total_mass * AURC`; rows may be a part of the table, so sums may be taken in pieces.

    `estimator` is "harmonic", "loo", "log", "sele" or "2sele" (how a loss counts by its rank), `ties` "threshold"
    (equal confidences are accepted together) or "expected" (one by one, in random order); neither is checked here.
    """
    base, factor = base_estimator(estimator)  # "2sele" is 2 times "sele"; all others have the factor 1
    terms = _TERMS[ties][base](rows)
    return terms if factor == 1 else factor * terms


def find_counting_option(estimator: str, ties: str) -> str:
    """The option that counts neighbours and needs repetitions as weights, as the user wrote it; "" if there is none."""
    if estimator in WHOLE_WEIGHTS_ONLY:
        return f'estimator="{estimator}"'
    return 'ties="expected"' if ties == "expected" else ""


def needs_row_loss(estimator: str, ties: str) -> bool:
    """Does `area_terms` read `rows.loss`? If not, `iterate_rows` need not compute it."""
    return ties == "expected" or estimator in WHOLE_WEIGHTS_ONLY


def area(rows: Rows, estimator: str = "harmonic", ties: str = "threshold") -> Array:
    """AURC of the rows of a whole data set, by one estimator."""
    return rows.xp.sum(area_terms(rows, estimator, ties), axis=-1) / rows.total_mass[..., 0]


# Weights of ranks and of samples: AURC is the mean of the losses with these weights -----------------
#
# Without ties, for rank r = 1 (least confident) ... n:
#
#     harmonic  H_n - H_{n-r}          log   -ln(1 - r/(n+1))
#     loo       H_{n-1} - H_{n-r}      sele  r/n              2sele  2r/n

_LONGEST_CACHED = 1 << 16  # longer weights would fill the memory


def rank_weights(n: int, estimator: str = "harmonic") -> np.ndarray:
    """Weights of the ranks 1 (least confident) ... n without ties; read-only."""
    if n <= _LONGEST_CACHED:
        return _rank_weights(n, estimator)
    return _rank_weights.__wrapped__(n, estimator)


@functools.lru_cache(maxsize=64)
def _rank_weights(n: int, estimator: str) -> np.ndarray:
    rank = np.arange(1.0, n + 1)
    weights = weight_of_rank(rank, np.asarray(float(n)), estimator)
    weights.flags.writeable = False
    return weights


def weight_of_rank(rank: np.ndarray, n: np.ndarray, estimator: str) -> np.ndarray:
    """Weight of the sample of each rank (1 for the least confident of n) without ties.

    By `estimator`: "harmonic" H_n - H_(n-r), "loo" H_(n-1) - H_(n-r), "log" -ln(1 - r/(n+1)), "sele" r/n, "2sele"
    2r/n. `rank` and `n` are whole numbers held as floats, and broadcast.
    """
    base, factor = base_estimator(estimator)  # "2sele" is 2 times "sele"; all others have the factor 1
    above = n - rank  # how many samples are more confident
    if base == "harmonic":
        weight = harmonic_difference(np, above, n + 0 * above)  # `0 * above` gives n the shape of the ranks
    elif base == "loo":
        weight = harmonic_difference(np, above, n - 1 + 0 * above)
    elif base == "log":
        weight = -np.log((above + 1) / (n + 1))
    else:
        weight = rank / n
    return np.asarray(weight if factor == 1 else factor * weight)


def _sum_at_and_below(values: Array, xp: Namespace) -> Array:
    """For each row, the sum over it and all less confident rows."""
    return xp.flip(xp.cumulative_sum(xp.flip(values, axis=-1), axis=-1), axis=-1)


def row_weights(rows: Rows, estimator: str = "harmonic", ties: str = "threshold") -> Array:
    """The estimator's weight of a sample in each row, such that AURC is the mean of the losses with these weights.

    `rows` has one row per distinct confidence, most confident first; the result has one entry per row. A row of mass m
    ends at the accepted mass N; W is the total mass. The weight of a sample is a sum over the thresholds that accept
    it, which are those at its row and at all rows below: of m / N (harmonic), of m / (N - 1) without the sample itself
    (loo), of m / W (sele); for log it is -ln of its position over W + 1. With ties="expected" (equal confidences are
    accepted one by one in random order), and for log always, it is the mean over the positions in the row. Then, and
    for loo, masses are whole numbers of samples; otherwise they may be fractional.

    `rows` may be a part of a longer table. For harmonic and loo with ties="threshold" the sum over the rows below the
    part is left out here, since it depends on how these are tied; the caller adds it. All other weights are complete:
    what the positions below add to them follows from the total mass W alone.
    """
    xp = rows.xp
    base, factor = base_estimator(estimator)  # "2sele" is 2 times "sele"; all others have the factor 1
    if factor != 1:
        return factor * row_weights(rows, base, ties)
    if estimator == "sele":
        # of m samples in random order, a sample is accepted at its own threshold and on average at half the others
        thresholds_in_row = rows.mass if ties == "threshold" else (rows.mass + 1) / 2
        return (rows.total_mass - rows.accepted_mass + thresholds_in_row) / rows.total_mass
    if ties == "threshold" and estimator != "log":
        return _threshold_weights(rows, estimator)
    mass_above = rows.accepted_mass - rows.mass
    if estimator == "log":
        # sum of ln k over the positions k = N - m + 1 ... N of the row
        log_positions = log_factorial_difference(xp, mass_above, rows.accepted_mass)
        return xp.log(rows.total_mass + 1) - safe_divide(xp, log_positions, rows.mass)
    # From here on the samples are accepted one by one: the weight of the sample at position p is 1/p + ... + 1/W.
    # First the positions below the last of these rows: H_W - H_N, which is 0 where `rows` are the whole table.
    last_accepted = rows.accepted_mass[..., -1:]
    # `0 * last_accepted` only gives the total mass the same shape
    from_below_part = harmonic_difference(xp, last_accepted, rows.total_mass + 0 * last_accepted)
    if estimator == "loo":  # with one sample less the sum ends at 1 / (W - 1)
        from_below_part = from_below_part - 1 / rows.total_mass
    if has_only_single_samples(rows):  # no ties: the sum of 1 / N over the row and all of `rows` below it
        return _threshold_weights(rows, "harmonic") + from_below_part
    # sum of 1/p over the positions p = N - m + 1 ... N of the row, 0 for a row without mass
    g = sum_inverse_positions(rows)
    # Mean of 1/p + ... + 1/N over these positions: 1 - (N - m) g / m. For a single sample, m = 1, that is 1/N = g. A
    # row without mass gets 0; no sample has its weight.
    from_own_row = xp.where(rows.mass > 1, 1 - safe_divide(xp, mass_above * g, rows.mass), g)
    return _sum_at_and_below(g, xp) - g + from_own_row + from_below_part


def _threshold_weights(rows: Rows, estimator: str) -> Array:
    """For a sample in each row: the sum of m / N over its row and all rows below it, down to the last of `rows`.

    m is the mass of a row and N the mass accepted there. `rows` are most confident first and may be a part of a table;
    what the rows below the part add is left to the caller. `estimator` is "harmonic" or "loo". For "loo" the sample
    itself is left out: the sum of m / (N - 1), less 1 / (N - 1) of the sample's row; quotients with a denominator of 0
    count as 0.
    """
    xp = rows.xp
    if estimator == "loo":
        mass_of_others = rows.accepted_mass - 1.0
        share = safe_divide(xp, rows.mass, mass_of_others)
        share_of_sample = safe_divide(xp, xp.ones_like(mass_of_others), mass_of_others)
        return _sum_at_and_below(share, xp) - share_of_sample
    if rows.has_empty_rows:  # the top rows may accept nothing
        share = safe_divide(xp, rows.mass, rows.accepted_mass)
    else:
        share = rows.mass / rows.accepted_mass
    return _sum_at_and_below(share, xp)


def sample_weights(
    xp: Namespace, confidence: Array, weight: Array | None, estimator: str, ties: str
) -> Array:
    """Compute the estimator's weight of each sample along the last axis, in the order of `confidence`.

    AURC is the mean of the losses with these weights, times the samples' own `weight` (None: all 1). Samples of equal
    confidence get the same weight. Works with every array library, on the device of the arrays. `estimator` is
    "harmonic", "loo", "log", "sele" or "2sele" (how a loss counts by its rank), `ties` "threshold" (equal confidences
    are accepted together) or "expected" (one by one, in random order).
    """
    wide = float_dtype(xp)  # the widest float of the library, so that sums keep their digits
    n = confidence.shape[-1]
    order = xp.argsort(confidence, axis=-1, descending=True, stable=True)
    sorted_confidence = xp.take_along_axis(confidence, order, axis=-1)
    is_row_end = mark_run_ends(sorted_confidence, xp)
    if weight is not None:
        weight = xp.astype(xp.take_along_axis(weight, order, axis=-1), wide)
    no_loss = xp.zeros_like(sorted_confidence, dtype=wide)  # weights do not depend on the losses
    # as many rows as samples: that of a run of equal confidences is at its last sample, the others have no mass
    rows = rows_from_sorted(xp, no_loss, is_row_end, weight)
    weight_of_row = row_weights(rows, estimator, ties)
    # Find the end of each sample's run: the next end at or after its place. Places are counted from the last one, so
    # that the nearest end is the largest number seen so far when read backwards.
    place_from_last = xp.flip(
        xp.broadcast_to(xp.arange(n, **device_keyword(sorted_confidence)), sorted_confidence.shape), axis=-1
    )
    end_from_last = xp.where(is_row_end, place_from_last, xp.zeros_like(place_from_last))
    next_end_from_last = xp.flip(running_max(xp, xp.flip(end_from_last, axis=-1)), axis=-1)
    sorted_weights = xp.take_along_axis(weight_of_row, n - 1 - next_end_from_last, axis=-1)
    place_in_order = xp.argsort(order, axis=-1)  # of each sample of the input
    return xp.take_along_axis(sorted_weights, place_in_order, axis=-1)


# Areas of numpy samples in the fastest way that is exact --------------------------------------------
#
# All ways use the rows of `rows.rows_from_samples`; the tests compare each with every other.


def area_of_samples(
    loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None, estimator: str, ties: str
) -> np.ndarray | float:
    """AURC of samples along the last axis, in any order: a float, or an array of the shape of the leading axes.

    `weight` None means 1 for all. `estimator` is "harmonic", "loo", "log", "sele" or "2sele" (how a loss counts by its
    rank), `ties` "threshold" (equal confidences are accepted together) or "expected" (one by one, in random order).
    Nothing is checked.
    """
    if loss.ndim > 1:
        return _batch_area(loss, confidence, weight, estimator, ties)
    samples = read_by_confidence(loss, confidence, weight)
    # the rows (one per distinct confidence, most confident first), some thousand at a time; their own losses are only
    # summed where a term of this estimator reads them
    pieces = iterate_rows(samples, with_loss=needs_row_loss(estimator, ties))
    # the terms of all rows add up to (total mass) * AURC
    return math.fsum(float(area_terms(rows, estimator, ties).sum()) for rows in pieces) / samples.total_mass


def _batch_area(
    loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None, estimator: str, ties: str
) -> np.ndarray:
    """AURC of every data set of a batch, whose samples lie along the last axis: an array of the leading axes' shape.

    Losses that fit into one integer key with their confidence are sorted with it and multiplied by the weights of their
    ranks, as if there were no ties; ties are corrected afterwards. Other losses, and all with weights, are summed by
    distinct confidence. `weight` None means 1 for all. `estimator` is "harmonic", "loo", "log", "sele" or "2sele" (how
    a loss counts by its rank), `ties` "threshold" (equal confidences are accepted together) or "expected" (one by one,
    in random order).
    """
    # one unsigned key per sample, which ascends as confidences descend; None if confidence and loss do not fit into it
    packed = pack_loss(loss, confidence) if weight is None else None
    if packed is None:
        return np.asarray(area(rows_from_numpy(loss, confidence, weight), estimator, ties))
    loss_bits = packed.payload_bits  # the lowest bits of a key hold the loss
    unpack_loss = packed.unpack_loss
    n = loss.shape[-1]
    lines = packed.keys.reshape(-1, n)  # one line per data set
    weights_most_confident_first = np.ascontiguousarray(rank_weights(n, estimator)[::-1])

    def areas_of_lines(start: int, stop: int) -> np.ndarray:
        """AURC of the lines start, ..., stop - 1 of `lines`, whose keys are sorted in place and then overwritten.

        A line holds one key per sample of a data set: it ascends as the confidence descends, and its lowest `loss_bits`
        bits are the loss. `estimator`, `ties` and the other names are those of the enclosing function.
        """
        sort_lines(lines[start:stop])
        sorted_loss = unpack_loss(lines[start:stop])  # a new array: bytes for 0/1 losses, else float64
        keys = lines[start:stop].reshape(-1)
        keys >>= keys.dtype.type(loss_bits)  # what remains of a key is the confidence
        sum_of_terms = sorted_loss @ weights_most_confident_first  # n * AURC of each line, if it had no ties
        equals_next = np.empty(sorted_loss.shape, dtype=bool)
        # over all lines at once, which is much faster; the last sample of a line was compared with the next line
        np.equal(keys[1:], keys[:-1], out=equals_next.reshape(-1)[:-1])
        equals_next[:, -1] = False
        if equals_next.any():  # the terms of runs of equal confidence, less those of their samples one by one
            sum_of_terms += _tie_correction(sorted_loss, equals_next, estimator, ties)
        return sum_of_terms / n

    areas = map_in_threads(
        areas_of_lines,
        item_count=len(lines),
        items_at_once=max(1, _SAMPLES_AT_ONCE // n),
        elements_per_item=n,
    )
    return np.concatenate(areas).reshape(loss.shape[:-1])


def _tie_correction(
    sorted_loss: np.ndarray, equals_next: np.ndarray, estimator: str, ties: str
) -> np.ndarray:
    """What ties add to each data set's sum of area terms (n times its AURC), one number per line.

    This is the sum of the terms of all runs of equal confidence, less the terms that their samples would have if each
    had a confidence of its own. `sorted_loss` has one line of n losses per data set, most confident first: bytes for a
    0/1 loss, or floats. `equals_next` marks the samples that have the same confidence as the next sample of their line;
    at least one does, and never the last of a line. `estimator` is "harmonic", "loo", "log", "sele" or "2sele" (how a
    loss counts by its rank), `ties` "threshold" (equal confidences are accepted together) or "expected" (one by one, in
    random order).
    """
    line_count, n = sorted_loss.shape
    is_tied = equals_next.copy()
    is_tied[:, 1:] |= equals_next[:, :-1]
    tied_samples = np.flatnonzero(is_tied)  # indices into the flattened lines
    # of each run, indices into `tied_samples`, where runs follow each other without gaps
    last_of_run = np.flatnonzero(~equals_next.reshape(-1)[tied_samples])
    run_length = np.diff(last_of_run, prepend=-1)
    first_of_run = last_of_run - run_length + 1
    # of each tied sample: its line, and further down its position, its loss and the loss accepted down to it
    line = tied_samples // n
    accepted_mass = tied_samples % n + 1.0  # a sample's position in its line, from 1
    tied_loss = sorted_loss.reshape(-1).take(tied_samples).astype(np.float64)
    # bytes add up to exact counts of errors
    sum_dtype = np.uint32 if sorted_loss.dtype == np.uint8 else np.float64
    cumulative_loss = np.cumsum(sorted_loss, axis=-1, dtype=sum_dtype)
    accepted_loss = cumulative_loss.reshape(-1).take(tied_samples).astype(np.float64)
    run_loss = accepted_loss[last_of_run] - accepted_loss[first_of_run] + tied_loss[first_of_run]
    total_mass = np.asarray([float(n)])
    rows_of_samples = Rows(
        mass=np.ones_like(accepted_mass),
        loss=tied_loss,
        accepted_mass=accepted_mass,
        accepted_loss=accepted_loss,
        total_mass=total_mass,
        has_empty_rows=False,
    )
    rows_of_runs = Rows(
        mass=run_length.astype(np.float64),
        loss=run_loss,
        accepted_mass=accepted_mass[last_of_run],
        accepted_loss=accepted_loss[last_of_run],
        total_mass=total_mass,
        has_empty_rows=False,
    )
    terms_of_samples = area_terms(rows_of_samples, estimator, ties)
    terms_of_runs = area_terms(rows_of_runs, estimator, ties)
    run_sums = np.bincount(line[last_of_run], terms_of_runs, line_count)  # by line; 0 for a line without ties
    sample_sums = np.bincount(line, terms_of_samples, line_count)
    return run_sums - sample_sums


# The best that any confidence could do: losses in ascending order, each sample a row of its own ------
#
# Among equal losses the order does not matter, so they must not be grouped: grouping would give R^2 for 0/1 loss.


def oracle_rows(xp: Namespace, loss: Array, weight: Array | None) -> Rows:
    """Make rows of samples ordered by loss along the last axis, smallest on top, and by weight among equal losses.

    This is how the best possible confidence orders them. Each sample is a row of its own, also among equal losses.
    The order by weight only makes the result independent of the order of the input. `weight` None means 1 for all.
    """
    wide = float_dtype(xp)  # the widest float of the library, so that sums keep their digits
    loss = xp.astype(loss, wide)
    is_row_end = xp.ones_like(loss, dtype=xp.bool)  # every sample is a row
    if weight is None:
        return rows_from_sorted(xp, xp.sort(loss, axis=-1), is_row_end)
    weight = xp.astype(weight, wide)
    by_weight = xp.argsort(weight, axis=-1, stable=True)
    loss = xp.take_along_axis(loss, by_weight, axis=-1)
    weight = xp.take_along_axis(weight, by_weight, axis=-1)
    by_loss = xp.argsort(loss, axis=-1, stable=True)  # equal losses stay in the order of their weights
    loss = xp.take_along_axis(loss, by_loss, axis=-1)
    weight = xp.take_along_axis(weight, by_loss, axis=-1)
    return rows_from_sorted(xp, loss, is_row_end, weight)


def oracle_area(xp: Namespace, loss: Array, weight: Array | None, estimator: str = "harmonic") -> Array:
    """AURC of the best ordering. Whole-number weights are repetitions, each with a threshold of its own."""
    rows = oracle_rows(xp, loss, weight)
    has_whole_weights = weight is None or bool(xp.all(xp.floor(rows.mass) == rows.mass))
    return area(rows, estimator, "expected" if has_whole_weights else "threshold")


def subtract_large_offset(loss: np.ndarray) -> np.ndarray:
    """Subtract the smallest loss of each line (the last axis) where its size exceeds the range of the line's losses.

    For differences of areas only: harmonic weights have mean 1, so an offset adds the same to an area, to its oracle
    and to the risk, and would only take digits from their differences. Returns `loss` itself if nothing is subtracted,
    otherwise a new float64 array.
    """
    if loss.dtype == bool:  # whose sums are exact
        return loss
    values = loss.astype(np.float64, copy=False)
    smallest = values.min(axis=-1, keepdims=True)
    value_range = np.ptp(values, axis=-1, keepdims=True)
    offset = np.where(np.abs(smallest) > value_range, smallest, 0.0)
    return values - offset if offset.any() else loss


def zero_one_oracle_rows(errors: float, n: float) -> Rows:
    """The two rows of the best ordering of a 0/1 loss: all right samples on top, all `errors` errors of `n` below.

    Areas must be taken with ties="expected", since the samples of a row are not tied. A row may have no mass.
    """
    mass = np.asarray([n - errors, errors])
    loss = np.asarray([0.0, errors])
    return Rows(
        mass=mass,
        loss=loss,
        accepted_mass=np.cumsum(mass),
        accepted_loss=loss,  # nothing is added from above: the row on top has no loss
        total_mass=np.asarray([n]),  # shape (1,), as in all rows
    )


def asymptotic_oracle(xp: Namespace, risk: Array) -> Array:
    """Population AURC of the best ordering for 0/1 loss with risk R: R + (1 - R) ln(1 - R)."""
    accuracy = 1 - risk
    return risk + accuracy * xp.log(xp.where(accuracy > 0, accuracy, xp.ones_like(accuracy)))


# Sample weights by comparing every pair: no sort, so a compiler fuses it, and a soft comparison makes it smooth
#
# With :math:`A_{ij}` = "sample i is accepted at the threshold put at sample j", masses w of total W,
#
#     N_j = sum_i w_i A_ij          harmonic  alpha_i = sum_j w_j A_ij / N_j
#                                   sele      alpha_i = sum_j w_j A_ij / W
#                                   loo       alpha_i = sum_{j != i} A_ij / (N_j - 1)
#
# which are the sums of `row_weights` over rows, written out over samples. A sample whose confidence is NaN compares
# false with everything: no threshold accepts it, and its weight is 0. The cost is n^2: for batches, not for data sets.
# Few operations matter more than few flops: on a GPU a batch's time is the number of kernels.


def accepts(confidence: Array) -> Array:
    """`A[..., i, j]`: is sample i at least as confident as sample j?"""
    return confidence[..., :, None] >= confidence[..., None, :]


def softly_accepts(xp: Namespace, confidence: Array, temperature: float) -> Array:
    """`A[..., i, j]` as a sigmoid of the difference over `temperature`; a sample always accepts itself."""
    difference = (confidence[..., :, None] - confidence[..., None, :]) / temperature
    smooth = 0.5 * (1 + xp.tanh(0.5 * difference))
    is_same_sample = xp.eye(confidence.shape[-1], dtype=xp.bool, **device_keyword(confidence))
    return xp.where(is_same_sample, xp.ones_like(smooth), smooth)


def pair_weights(xp: Namespace, A: Array, mass: Array | None, total: Array, estimator: str) -> Array:
    """The estimator's weight of each sample, from which samples are accepted at which thresholds.

    `A[..., i, j]` says whether sample i is accepted at the threshold of sample j: booleans (ties are accepted
    together) or numbers between 0 and 1. `mass` holds the weights w_i (None: all 1; "loo" and "log" allow only 0 and
    1), `total` their sum W, shape (..., 1). The result has shape (..., i).

    With N_j = sum_i w_i A_ij: harmonic sum_j w_j A_ij / N_j; sele sum_j w_j A_ij / W; loo the sum of A_ij / (N_j - 1)
    over j other than i; log -ln(1 - r / (W + 1)) for rank r. A quotient counts as 0 where its denominator is 0.
    `_sum_pairs` sums A over one of its two last axes, each entry times the value of the sample on that axis.
    """
    base, factor = base_estimator(estimator)  # "2sele" is 2 times "sele"; all others have the factor 1
    if factor != 1:
        return factor * pair_weights(xp, A, mass, total, base)
    if estimator == "sele":
        return _sum_pairs(xp, A, mass, axis=-1) / total
    if estimator == "log":
        return _log_weights(xp, A, mass, total)
    accepted_mass = _sum_pairs(xp, A, mass, axis=-2)  # N_j: over all samples i that are accepted at j
    sample_mass = 1.0 if mass is None else mass
    if estimator == "loo":
        accepted_mass = accepted_mass - sample_mass  # N_j without sample j
    is_positive = accepted_mass > 0
    share = xp.where(is_positive, sample_mass / xp.where(is_positive, accepted_mass, 1.0), 0.0)
    weights = _sum_pairs(xp, A, share, axis=-1)  # over all thresholds j that accept i
    # the sum had the term j = i too, which is the share itself, since a sample accepts itself
    return weights - share if estimator == "loo" else weights


def _log_weights(xp: Namespace, A: Array, mass: Array | None, total: Array) -> Array:
    """The weights -ln(1 - r / (W + 1)), r the rank from the least confident sample; equal confidences share a mean.

    `A[..., i, j]` says whether sample i is accepted at the threshold of sample j. `mass` is 0 or 1 for each sample
    (None: all 1), `total` is W, their sum, shape (..., 1). If A holds numbers between 0 and 1 instead of booleans,
    there are no ties, and the rank of sample i is the sum of mass_j A_ij. A sample that no threshold accepts (its
    confidence is NaN) has weight 0.
    """
    if A.dtype != xp.bool:
        rank = _sum_pairs(xp, A, mass, axis=-1)  # over all j
        return -xp.log1p(-rank / (total + 1))
    # Rank r is position W + 1 - r from the top, and its weight is ln(W + 1) - ln(position). A sample and its ties share
    # the last positions of those that are accepted at its confidence.
    last_position = _sum_pairs(xp, A, mass, axis=-2)[..., None]  # how many samples are accepted at each
    tied_mass = _sum_pairs(xp, A & xp.matrix_transpose(A), mass, axis=-1)  # the sample itself included
    position = xp.astype(xp.arange(1, A.shape[-1] + 1, **device_keyword(A)), last_position.dtype)
    is_shared = (position <= last_position) & (position > last_position - tied_mass[..., None])
    sum_of_logs = xp.sum(xp.where(is_shared, xp.log(position), 0.0), axis=-1)
    has_mass = tied_mass > 0
    mean_log_position = sum_of_logs / xp.where(has_mass, tied_mass, 1.0)
    return xp.where(has_mass, xp.log(total + 1) - mean_log_position, 0.0)


def _sum_pairs(xp: Namespace, A: Array, values: Array | None, axis: int) -> Array:
    """Sum A over one of its two last axes, each entry times the value of the sample on that axis (None: 1)."""
    if values is None:
        if A.dtype != xp.bool:
            return xp.sum(A, axis=axis)
        return xp.astype(xp.sum(xp.astype(A, xp.int32), axis=axis), float_dtype(xp))
    values = values[..., :, None] if axis == -2 else values[..., None, :]
    if A.dtype == xp.bool:
        return xp.sum(xp.where(A, values, 0.0), axis=axis)
    return xp.sum(A * values, axis=axis)
