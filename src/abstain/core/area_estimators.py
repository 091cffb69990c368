r"""The estimators of AURC: what a row adds to the area, and the weight a rank or a sample carries.

With rows (m, L, N, S) as in `rows`, no ties and unit weights, exchanging the two sums turns the terms of an area into
rank weights: :math:`\sum_t m_t S_t/N_t = \sum_i \ell_i \sum_{t \le s(i)} m_t/N_t`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal, get_args

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
from abstain.core.sorting import map_in_threads, pack_loss, sort_lines

# Differences of harmonic numbers and log-factorials that keep their last digits --------------------
#
# `H_b - H_a` by two calls of digamma loses everything when `b - a` is small beside `b`; here the difference is
# formed first. Only `+ - * /`, `log`, `log1p`, `where` and a short table are used, so every array library runs it.


_AT_ONCE = 1 << 18  # samples of a batch handled at a time
_SMALL = 32  # from here on, the first terms of the asymptotic series are exact to double precision


@functools.lru_cache(maxsize=1)
def _small_tables() -> tuple[np.ndarray, np.ndarray]:
    k = np.arange(1.0, _SMALL + 1)
    return np.concatenate([[0.0], np.cumsum(1 / k)]), np.concatenate([[0.0], np.cumsum(np.log(k))])


def _look_up(xp: Namespace, table: np.ndarray, index: Array) -> Array:
    if xp is np:
        return table[index.astype(np.int64)]
    values = xp.zeros_like(index)
    for k, value in enumerate(table):  # 33 selects: no gather, so it also traces and compiles
        values = xp.where(index == k, float(value), values)
    return values


def _split(xp: Namespace, table: np.ndarray, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """The part of the difference that a table of small numbers gives, and the ends of the part beyond it."""
    small = xp.asarray(_SMALL, dtype=low.dtype)
    part = _look_up(xp, table, xp.minimum(high, small)) - _look_up(xp, table, xp.minimum(low, small))
    return part, xp.maximum(low, small), xp.maximum(high, small)


def harmonic_difference(xp: Namespace, low: Array, high: Array) -> Array:
    """`H_high - H_low` for whole numbers `0 <= low <= high` held as floats, to a few units in the last digit."""
    part, a, b = _split(xp, _small_tables()[0], low, high)
    gap = b - a
    # H_k = ln k + gamma + 1/(2k) - 1/(12k^2) + 1/(120k^4) - 1/(252k^6) + 1/(240k^8) - ...; differences taken exactly
    u, v = 1 / a, 1 / b
    inverse = -gap * u * v  # 1/b - 1/a
    squares = inverse * (v + u)
    fourth = squares * (v * v + u * u)
    sixth = squares * (v**4 + u * u * v * v + u**4)
    eighth = fourth * (v**4 + u**4)
    large = xp.log1p(gap * u) + inverse / 2 - squares / 12 + fourth / 120 - sixth / 252 + eighth / 240
    return large + part


def has_only_single_samples(rows: Rows) -> bool:
    """Is every row one sample of weight 1? Then there are no ties to treat in one way or another."""
    return rows.xp is np and not rows.padded and bool(rows.mass.max() <= 1)


def harmonic_gain(rows: Rows) -> Array:
    """`H_N - H_(N - m)` of each row: what its block adds to a harmonic sum, 1/N for a lone sample."""
    if rows.xp is not np:
        return harmonic_difference(rows.xp, rows.accepted_mass - rows.mass, rows.accepted_mass)
    gain = safe_divide(np, rows.mass, rows.accepted_mass) if rows.padded else rows.mass / rows.accepted_mass
    tied = rows.mass > 1
    if tied.any():
        N = rows.accepted_mass[tied]
        gain[tied] = harmonic_difference(np, N - rows.mass[tied], N)
    return gain


def log_factorial_difference(xp: Namespace, low: Array, high: Array) -> Array:
    """`ln(high!) - ln(low!)` for whole numbers `0 <= low <= high` held as floats."""
    part, a, b = _split(xp, _small_tables()[1], low, high)
    gap = b - a
    u, v = 1 / a, 1 / b
    inverse = -gap * u * v
    cubes = inverse * (v * v + u * v + u * u)
    fifth = inverse * (v**4 + v**3 * u + v * v * u * u + v * u**3 + u**4)
    seventh = inverse * (v**6 + v**5 * u + v**4 * u**2 + v**3 * u**3 + v**2 * u**4 + v * u**5 + u**6)
    # Stirling: ln k! = (k + 1/2) ln k - k + ln(2 pi)/2 + 1/(12k) - 1/(360k^3) + 1/(1260k^5) - 1/(1680k^7)
    large = (a + 0.5) * xp.log1p(gap * u) + gap * (xp.log(b) - 1)
    return large + inverse / 12 - cubes / 360 + fifth / 1260 - seventh / 1680 + part


# The plug-in estimators of AURC: each is a mean, over thresholds, of what is accepted there ---------

Estimator = Literal["harmonic", "log", "loo", "sele", "2sele"]
Ties = Literal["threshold", "expected"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
TIES: tuple[Ties, ...] = get_args(Ties)
WHOLE_WEIGHTS_ONLY = ("log", "loo")  # these count neighbours, so a weight must mean a repetition


def _harmonic(r: Rows) -> Array:
    """A threshold at each sample: the selective risk there."""
    return r.mass * r.risk


def _sele(r: Rows) -> Array:
    """A threshold at each sample: the loss accepted there, per sample of the whole set (= AUGRC's mean rule)."""
    return r.mass * r.accepted_loss / r.total_mass


def _loo(r: Rows) -> Array:
    """A threshold at each sample: the selective risk of the *other* samples, 0 where there is none."""
    own, others = r.mass * r.accepted_loss - r.loss, r.accepted_mass - 1
    if r.xp is np and (others > 0).all():
        return own / others
    return safe_divide(r.xp, own, others)


def _log(r: Rows) -> Array:
    """Mean of -ln(1 - rank/(n+1)) over the ranks of the block, times its loss."""
    log_n1 = r.xp.log(r.total_mass + 1)
    return r.loss * (
        log_n1
        - safe_divide(r.xp, log_factorial_difference(r.xp, r.accepted_mass - r.mass, r.accepted_mass), r.mass)
    )


def _harmonic_expected(r: Rows) -> Array:
    """Random order within a block: its loss comes in evenly while the accepted mass grows from N - m to N."""
    if has_only_single_samples(r):
        return _harmonic(r)
    above, gain = r.accepted_mass - r.mass, harmonic_gain(r)
    share = r.xp.where(r.mass > 1, r.mass - above * gain, gain)
    return (r.accepted_loss - r.loss) * gain + r.loss * share / r.xp.where(r.mass > 0, r.mass, 1.0)


def _loo_expected(r: Rows) -> Array:
    return _harmonic_expected(r) - r.loss / r.total_mass


def _sele_expected(r: Rows) -> Array:
    return (r.mass * (r.accepted_loss - r.loss) + r.loss * (r.mass + 1) / 2) / r.total_mass


_TERMS: dict[str, dict[str, Callable[[Rows], Array]]] = {
    "threshold": {"harmonic": _harmonic, "log": _log, "loo": _loo, "sele": _sele},
    "expected": {"harmonic": _harmonic_expected, "log": _log, "loo": _loo_expected, "sele": _sele_expected},
}


def area_terms(rows: Rows, estimator: str = "harmonic", ties: str = "threshold") -> Array:
    """What each row adds to `W * AURC`; the sum may be taken in pieces."""
    if estimator == "2sele":
        return 2 * _TERMS[ties]["sele"](rows)
    return _TERMS[ties][estimator](rows)


def needs_whole_weights(estimator: str, ties: str) -> str:
    """The option that makes a weight mean a repetition, as the user wrote it; empty when any weight will do."""
    if estimator in WHOLE_WEIGHTS_ONLY:
        return f'estimator="{estimator}"'
    return 'ties="expected"' if ties == "expected" else ""


def needs_row_loss(estimator: str, ties: str) -> bool:
    """Do the terms read `rows.loss`? (It need not be made otherwise.)"""
    return ties == "expected" or estimator in WHOLE_WEIGHTS_ONLY


def area(rows: Rows, estimator: str = "harmonic", ties: str = "threshold") -> Array:
    """AURC of a table of rows, by one estimator."""
    return rows.xp.sum(area_terms(rows, estimator, ties), axis=-1) / rows.total_mass[..., 0]


# Weights of ranks and of samples: AURC is their weighted mean of losses ----------------------------
#
# Untied, rank r = 1 (least confident) ... n:
#
#     harmonic  H_n - H_{n-r}          log   -ln(1 - r/(n+1))
#     loo       H_{n-1} - H_{n-r}      sele  r/n              2sele  2r/n


def rank_weights(n: int, estimator: str = "harmonic") -> np.ndarray:
    """Weights of ranks 1 ... n without ties, ascending."""
    kept = n <= 1 << 16  # longer ones would fill the memory
    return _rank_weights(n, estimator) if kept else _rank_weights.__wrapped__(n, estimator)


@functools.lru_cache(maxsize=64)
def _rank_weights(n: int, estimator: str) -> np.ndarray:
    rank = np.arange(1.0, n + 1)
    weights = weight_of_rank(rank, np.asarray(float(n)), estimator)
    weights.flags.writeable = False
    return weights


def weight_of_rank(rank: np.ndarray, n: np.ndarray, estimator: str) -> np.ndarray:
    """Weight of a rank, 1 for the least confident of n, without ties."""
    above = n - rank  # samples strictly more confident
    if estimator == "harmonic":
        return np.asarray(harmonic_difference(np, above, n + 0 * above))
    if estimator == "loo":
        return np.asarray(harmonic_difference(np, above, n - 1 + 0 * above))
    if estimator == "log":
        return np.asarray(-np.log((above + 1) / (n + 1)))
    return np.asarray(rank / n * (2 if estimator == "2sele" else 1))


def row_weights(rows: Rows, estimator: str = "harmonic", ties: str = "threshold") -> Array:
    """The weight each member of a row's block carries; rows run from the most confident down."""
    xp = rows.xp
    if estimator == "2sele":
        return 2 * row_weights(rows, "sele", ties)
    if estimator == "sele":
        return (
            rows.total_mass - rows.accepted_mass + (rows.mass if ties == "threshold" else (rows.mass + 1) / 2)
        ) / rows.total_mass
    if ties == "threshold" and estimator != "log":
        return _threshold_weights(rows, estimator)
    above = rows.accepted_mass - rows.mass
    if estimator == "log":
        return xp.log(rows.total_mass + 1) - safe_divide(
            xp, log_factorial_difference(xp, above, rows.accepted_mass), rows.mass
        )
    # the rows may be a stretch of a longer table
    outside = harmonic_difference(
        xp, rows.accepted_mass[..., -1:], rows.total_mass + 0 * rows.accepted_mass[..., -1:]
    )
    outside = outside - (1 / rows.total_mass if estimator == "loo" else 0.0)
    if has_only_single_samples(rows):
        return _threshold_weights(rows, "harmonic") + outside
    gain = harmonic_gain(rows)
    from_below = xp.flip(xp.cumulative_sum(xp.flip(gain, axis=-1), axis=-1), axis=-1)
    own = xp.where(rows.mass > 1, 1 - safe_divide(xp, above * gain, rows.mass), gain)
    return from_below - gain + own + outside


def _threshold_weights(rows: Rows, estimator: str) -> Array:
    """Sum over the blocks at or below one's own of mass / accepted mass (self left out for `loo`)."""
    xp = rows.xp
    accepted = rows.accepted_mass - (1.0 if estimator == "loo" else 0.0)
    some = rows.padded or estimator == "loo"
    share = safe_divide(xp, rows.mass, accepted) if some else rows.mass / accepted
    from_below = xp.flip(xp.cumulative_sum(xp.flip(share, axis=-1), axis=-1), axis=-1)
    return (
        from_below - safe_divide(xp, xp.ones_like(accepted), accepted) if estimator == "loo" else from_below
    )


def sample_weights(
    xp: Namespace, confidence: Array, weight: Array | None, estimator: str, ties: str
) -> Array:
    """The weight of each sample along the last axis, in the order given."""
    order = xp.argsort(confidence, axis=-1, descending=True, stable=True)
    ranked = xp.take_along_axis(confidence, order, axis=-1)
    last = xp.ones_like(ranked[..., :1], dtype=xp.bool)
    ends = xp.concat([ranked[..., 1:] != ranked[..., :-1], last], axis=-1)
    wide = float_dtype(xp)
    if weight is not None:
        weight = xp.astype(xp.take_along_axis(weight, order, axis=-1), wide)
    rows = rows_from_sorted(xp, xp.zeros_like(ranked, dtype=wide), ends, weight)
    by_row = row_weights(rows, estimator, ties)
    # members read their weight where their block's row stands: at the next end of a run
    from_last = xp.flip(
        xp.broadcast_to(xp.arange(ranked.shape[-1], **device_keyword(ranked)), ranked.shape), axis=-1
    )
    nearest = xp.flip(
        running_max(xp, xp.flip(xp.where(ends, from_last, xp.zeros_like(from_last)), axis=-1)), axis=-1
    )
    values = xp.take_along_axis(by_row, ranked.shape[-1] - 1 - nearest, axis=-1)
    return xp.take_along_axis(values, xp.argsort(order, axis=-1), axis=-1)


# Areas of numpy samples by the fastest way that is exact --------------------------------------------
#
# Whatever the way, the rows are those of `rows.rows_from_samples`; the tests hold every one against every other.


def area_of_samples(
    loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None, estimator: str, ties: str
) -> np.ndarray | float:
    """AURC of samples along the last axis."""
    if loss.ndim > 1:
        return _batch_area(loss, confidence, weight, estimator, ties)
    samples = read_by_confidence(loss, confidence, weight)
    parts = iterate_rows(samples, needs_row_loss(estimator, ties))
    return math.fsum(float(np.sum(area_terms(rows, estimator, ties))) for rows in parts) / samples.total_mass


def _batch_area(
    loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None, estimator: str, ties: str
) -> np.ndarray:
    """AURC of every line."""
    keys = pack_loss(loss, confidence) if weight is None else None
    if keys is None:
        return np.asarray(area(rows_from_numpy(loss, confidence, weight), estimator, ties))
    unsorted, below, unpack = keys
    n = loss.shape[-1]
    flat = unsorted.reshape(-1, n)
    by_rank = np.ascontiguousarray(rank_weights(n, estimator)[::-1])

    def some(a: int, b: int) -> np.ndarray:
        sort_lines(flat[a:b])
        heads, own = flat[a:b].reshape(-1), unpack(flat[a:b])
        heads >>= heads.dtype.type(below)  # the keys are ours, and read only once
        totals = own @ by_rank
        goes_on = np.empty(own.shape, dtype=bool)  # is the next sample's confidence the same?
        np.equal(heads[1:], heads[:-1], out=goes_on.reshape(-1)[:-1])  # line by line would take much longer
        goes_on[:, -1] = False
        if goes_on.any():
            totals += _tie_correction(own, goes_on, estimator, ties)
        return totals / n

    step = max(1, _AT_ONCE // n)
    return np.concatenate(map_in_threads(some, len(flat), step, n)).reshape(loss.shape[:-1])


def _tie_correction(own: np.ndarray, goes_on: np.ndarray, estimator: str, ties: str) -> np.ndarray:
    """What ties change in each line's sum of terms: blocks of equals put in, their members taken out."""
    lines, n = own.shape
    in_run = goes_on.copy()
    in_run[:, 1:] |= goes_on[:, :-1]
    place = np.flatnonzero(in_run)
    last = np.flatnonzero(~goes_on.reshape(-1)[place])  # in `place`, where each run ends
    m = np.diff(last, prepend=-1)
    line, N = place // n, place % n + 1.0
    l = own.reshape(-1).take(place).astype(np.float64)
    sums = np.cumsum(own, axis=-1, dtype=np.uint32 if own.dtype == np.uint8 else np.float64)
    S = sums.reshape(-1).take(place).astype(np.float64)
    first = last - m + 1
    L = S[last] - S[first] + l[first]
    W = np.asarray([float(n)])
    member_rows = Rows(
        mass=np.ones_like(N), loss=l, accepted_mass=N, accepted_loss=S, total_mass=W, padded=False
    )
    members = area_terms(member_rows, estimator, ties)
    block_rows = Rows(
        mass=m.astype(np.float64),
        loss=L,
        accepted_mass=N[last],
        accepted_loss=S[last],
        total_mass=W,
        padded=False,
    )
    blocks = area_terms(block_rows, estimator, ties)
    return np.bincount(line[last], blocks, lines) - np.bincount(line, members, lines)


# The best any confidence could do: losses in ascending order, each sample its own block -------------
#
# Among equal losses the order does not matter, so they must not be grouped: grouping would give R^2 for 0/1 loss.


def oracle_rows(xp: Namespace, loss: Array, weight: Array | None) -> Rows:
    """Rows of samples ordered by loss, smallest on top; equal losses by weight, so that no order of entry shows."""
    wide = float_dtype(xp)
    loss = xp.astype(loss, wide)
    if weight is None:
        ranked = xp.sort(loss, axis=-1)
        return rows_from_sorted(xp, ranked, xp.ones_like(ranked, dtype=xp.bool))
    weight = xp.astype(weight, wide)
    for column in ("weight", "loss"):
        order = xp.argsort(weight if column == "weight" else loss, axis=-1, stable=True)
        loss, weight = xp.take_along_axis(loss, order, axis=-1), xp.take_along_axis(weight, order, axis=-1)
    return rows_from_sorted(xp, loss, xp.ones_like(loss, dtype=xp.bool), weight)


def oracle_area(xp: Namespace, loss: Array, weight: Array | None, estimator: str = "harmonic") -> Array:
    """AURC of the best ordering. Whole-number weights are repetitions, each copy a threshold of its own."""
    rows = oracle_rows(xp, loss, weight)
    whole = weight is None or bool(xp.all(xp.floor(rows.mass) == rows.mass))
    return area(rows, estimator, "expected" if whole else "threshold")


def remove_offset(loss: np.ndarray) -> np.ndarray:
    """Losses less their least one, where it is large beside how much they vary, along the last axis.

    Harmonic weights have mean 1, so an offset adds the same to an area, to its oracle and to the risk. It would only
    take digits from their differences.
    """
    if loss.dtype == bool:
        return loss
    values = loss.astype(np.float64, copy=False)
    least = values.min(axis=-1, keepdims=True)
    offset = np.where(np.abs(least) > np.ptp(values, axis=-1, keepdims=True), least, 0.0)
    return values - offset if offset.any() else loss


def zero_one_oracle_rows(errors: float, n: float) -> Rows:
    """The two rows of a 0/1 loss: all that is right on top, all errors below (read with ties="expected")."""
    m = np.asarray([n - errors, errors])
    error_loss = np.asarray([0.0, errors])
    return Rows(
        mass=m,
        loss=error_loss,
        accepted_mass=np.cumsum(m),
        accepted_loss=error_loss,
        total_mass=np.asarray([n]),
    )


def asymptotic_oracle(xp: Namespace, risk: Array) -> Array:
    """Population value for 0/1 loss: R + (1 - R) ln(1 - R)."""
    right = 1 - risk
    return risk + right * xp.log(xp.where(right > 0, right, xp.ones_like(right)))


# Sample weights by comparing every pair: no sort, so a compiler fuses it, and a soft comparison makes it smooth
#
# With :math:`A_{ij}` = "sample i is accepted at the threshold put at sample j", masses w of total W,
#
#     N_j = sum_i w_i A_ij          harmonic  alpha_i = sum_j w_j A_ij / N_j
#                                   sele      alpha_i = sum_j w_j A_ij / W
#                                   loo       alpha_i = sum_{j != i} A_ij / (N_j - 1)
#
# which are the sums of `weights` over blocks, written out over samples. A sample whose confidence is NaN compares
# false with everything: it is in no set, and its weight is 0. The cost is n^2: for batches, not for data sets.
# Few operations rather than few flops: on a GPU a batch's time is the number of kernels.


def accepts(confidence: Array) -> Array:
    """`A[..., i, j]`: is sample i at least as confident as sample j?"""
    return confidence[..., :, None] >= confidence[..., None, :]


def softly_accepts(xp: Namespace, confidence: Array, temperature: float) -> Array:
    """`A[..., i, j]` as a sigmoid of the difference over `temperature`; a sample always accepts itself."""
    difference = (confidence[..., :, None] - confidence[..., None, :]) / temperature
    smooth = 0.5 * (1 + xp.tanh(0.5 * difference))
    own = xp.eye(confidence.shape[-1], dtype=xp.bool, **device_keyword(confidence))
    return xp.where(own, xp.ones_like(smooth), smooth)


def pair_weights(xp: Namespace, A: Array, mass: Array | None, total: Array, estimator: str) -> Array:
    """Weight of each sample, from who is accepted where: true or false (equals together), or between 0 and 1.

    `total` is the mass of all, shape (..., 1). "loo" and "log" take no masses but 0 and 1.
    """
    if estimator in ("sele", "2sele"):
        weights = _sum(xp, A, mass, axis=-1) / total
        return 2 * weights if estimator == "2sele" else weights
    if estimator == "log":
        return _log_weights(xp, A, mass, total)
    N = _sum(xp, A, mass, axis=-2)
    one = 1.0 if mass is None else mass
    accepted = N - one if estimator == "loo" else N
    some = accepted > 0
    share = xp.where(some, one / xp.where(some, accepted, 1.0), 0.0)
    weights = _sum(xp, A, share, axis=-1)
    return weights - share if estimator == "loo" else weights


def _log_weights(xp: Namespace, A: Array, mass: Array | None, total: Array) -> Array:
    """-ln(1 - r/(W+1)), the mean over the ranks that a run of equals shares."""
    if A.dtype != xp.bool:
        return -xp.log1p(-_sum(xp, A, mass, axis=-1) / (total + 1))
    N = _sum(xp, A, mass, axis=-2)[..., None]
    m = _sum(xp, A & xp.matrix_transpose(A), mass, axis=-1)
    place = xp.astype(
        xp.arange(1, A.shape[-1] + 1, **device_keyword(A)), N.dtype
    )  # from the top: rank W + 1 - place
    shared = (place <= N) & (place > N - m[..., None])
    logs = xp.sum(xp.where(shared, xp.log(place), 0.0), axis=-1)
    some = m > 0
    return xp.where(some, xp.log(total + 1) - logs / xp.where(some, m, 1.0), 0.0)


def _sum(xp: Namespace, A: Array, values: Array | None, axis: int) -> Array:
    """Sum over one side of the pairs, each counted once or by the value of the sample on that side."""
    if values is None:
        if A.dtype != xp.bool:
            return xp.sum(A, axis=axis)
        return xp.astype(xp.sum(xp.astype(A, xp.int32), axis=axis), float_dtype(xp))
    values = values[..., :, None] if axis == -2 else values[..., None, :]
    return xp.sum(xp.where(A, values, 0.0) if A.dtype == xp.bool else A * values, axis=axis)
