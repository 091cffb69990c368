"""Is A better than B? Differences of a metric, on the same samples or on different ones; of all pairs at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain._check import check_fraction
from abstain.errors import ShapeError
from abstain.inference.influence import Units, facts, gather, leave_one_out, pulls_of, spread_over, values_of
from abstain.inference.limits import Joint, Scale, contrast, freedom, moments, rests_on, scale_of
from abstain.inference.results import Difference


def paired_difference(
    loss_a: Array,
    confidence_a: Array,
    loss_b: Array,
    confidence_b: Array,
    /,
    *,
    metric: str | Callable[..., Any] = "aurc",
    level: float = 0.95,
    clusters: Array | None = None,
    strata: Array | None = None,
    sample_weight: Array | None = None,
    abstained_a: Array | None = None,
    abstained_b: Array | None = None,
    **options: Any,
) -> Difference:
    r"""Metric of A minus metric of B on the *same* samples, sample i of one being sample i of the other.

    .. math:: t = \frac{\phi(T_A) - \phi(T_B)}{\sqrt{\sum_i e_i^2}/n}, \qquad
              e_i = \phi'(T_A)\,\mathrm{IF}^A_i - \phi'(T_B)\,\mathrm{IF}^B_i

    What makes a sample hard for both cancels in e, so this sees differences that two separate intervals hide.
    :math:`\phi` is the metric's scale (the logarithm for AURC). The p-value is two-sided, of "both have the same
    value in the population", by Student's t with the degrees of freedom of e. With fewer than eleven effective errors
    on either side there is no verdict: the p-value is 1 and `note` says why.

    Parameters
    ----------
    loss_a, confidence_a, loss_b, confidence_b : array, shape (n,)
        Of each model; higher confidence = surer.
    metric : str or the function of that name
        One that has an influence function, see `influence`.
    level : float
        Of the interval.
    clusters, strata, sample_weight : array, optional
        As in `interval`; one for both models, since the samples are the same.
    abstained_a, abstained_b : array of bool, optional
        Samples that a model never accepts.
    **options
        The metric's own: `estimator`, `ties`, `oracle`.

    Returns
    -------
    Difference

    Examples
    --------
    >>> loss, sure = [0, 0, 1, 0, 1, 1], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    >>> paired_difference(loss, sure, loss, sure).p_value
    1.0
    """
    a = (loss_a, confidence_a, sample_weight, abstained_a, clusters, strata)
    b = (loss_b, confidence_b, sample_weight, abstained_b, clusters, strata)
    return _difference("paired_difference", metric, a, b, level, options)


def unpaired_difference(
    loss_a: Array,
    confidence_a: Array,
    loss_b: Array,
    confidence_b: Array,
    /,
    *,
    metric: str | Callable[..., Any] = "aurc",
    level: float = 0.95,
    clusters_a: Array | None = None,
    clusters_b: Array | None = None,
    sample_weight_a: Array | None = None,
    sample_weight_b: Array | None = None,
    abstained_a: Array | None = None,
    abstained_b: Array | None = None,
    **options: Any,
) -> Difference:
    """Metric of A minus metric of B on two *independent* test sets; see `paired_difference`.

    Parameters
    ----------
    loss_a, confidence_a, loss_b, confidence_b : array, one length per model
        Of each model; higher confidence = surer.
    metric : str or the function of that name
        One that has an influence function, see `influence`.
    level : float
        Of the interval.
    clusters_a, clusters_b, sample_weight_a, sample_weight_b : array, optional
        As in `interval`, of each model.
    abstained_a, abstained_b : array of bool, optional
        Samples that a model never accepts.
    **options
        The metric's own: `estimator`, `ties`, `oracle`.

    Returns
    -------
    Difference

    Examples
    --------
    >>> unpaired_difference([0, 1, 0], [3, 2, 1], [0, 1, 0], [3, 2, 1]).difference
    0.0
    """
    a = (loss_a, confidence_a, sample_weight_a, abstained_a, clusters_a, None)
    b = (loss_b, confidence_b, sample_weight_b, abstained_b, clusters_b, None)
    return _difference("unpaired_difference", metric, a, b, level, options)


Given = tuple[Array, Array, Array | None, Array | None, Array | None, Array | None]  # as `gather` takes them


def _difference(
    name: str, metric: Any, a: Given, b: Given, level: float, options: dict[str, Any]
) -> Difference:
    level, paired = check_fraction(name, "level", level, open_high=True), name == "paired_difference"
    one, other = (gather(name, metric, *columns, options=options) for columns in (a, b))
    if paired and one.n != other.n:
        raise ShapeError(
            f"{name}: A and B must be the same samples, got {one.n} and {other.n} of them. "
            f"Use `unpaired_difference` for different test sets."
        )
    sides = [side_of(units) for units in (one, other)]
    negative = bool((one.loss < 0).any() or (other.loss < 0).any())
    scale = scale_of(one.metric, one.zero_one and other.zero_one, negative)
    *numbers, note = (x[0] for x in compared(sides, np.asarray([0]), np.asarray([1]), scale, level, paired))
    gap, error, low, high, p = map(float, numbers)
    n = one.counted if paired else one.counted + other.counted
    values = sides[0].estimate, sides[1].estimate
    return Difference(one.metric, gap, error, low, high, p, level, n, *values, paired, note)


class Side(NamedTuple):
    """One model: its estimate, the less biased one that tests read, what each unit does to it, and its errors."""

    estimate: float
    centre: float
    error: float
    effective_errors: float
    errors: float
    risk: float
    units: int
    pulls: np.ndarray  # empty where the joint sums are known


def side_of(units: Units) -> Side:
    """Of checked samples."""
    values = values_of("paired_difference", units)
    pulls = pulls_of(values.influence, units)
    if units.clusters is not None:
        pulls = pulls * math.sqrt(len(pulls) / (len(pulls) - 1))
    reach = pulls_of(values.weight * spread_over(units, units.loss), units, False)
    square, loo = float(reach @ reach), leave_one_out(units)
    effective = float(np.sum(reach)) ** 2 / square if square > 0 else 0.0
    centre, error = values.estimate if loo is None else loo, math.sqrt(float(pulls @ pulls))
    known = facts(units)
    return Side(values.estimate, centre, error, effective, known.errors, known.risk, known.units, pulls)


def compared(
    sides: Sequence[Side],
    a: np.ndarray,
    b: np.ndarray,
    scale: Scale,
    level: float,
    paired: bool,
    known: tuple[Joint, Any] | None = None,
) -> tuple[np.ndarray, ...]:
    """Of the pairs (a, b): difference, standard error, limits, p-value, and why there is no verdict (or "").

    `known`: joint sums and number of units of the one pair, from wherever its samples are.
    """
    value, T, s, risk = np.asarray([(x.estimate, x.centre, x.error, x.risk) for x in sides]).T
    own = np.maximum(np.abs(value), np.abs(risk))  # an excess over the oracle may be rounding alone
    T = np.where(np.abs(T) <= _ROUNDING * own, 0.0, T)
    gap, size = value[a] - value[b], own[a] + own[b]
    held = np.asarray(scale.holds(T[a]) & scale.holds(T[b]) & (scale.name != "normal"))
    found = np.empty((4, len(a)))
    for chosen, which in ((scale, held), (Scale("normal"), ~held)):
        if which.any():
            i, j = a[which], b[which]
            joint, units = known or _joint(sides, i, j, chosen, T, paired)
            df = freedom(joint.second, joint.excess, units, 2.0)
            limits = contrast(chosen, (T[i], T[j]), (s[i], s[j]), joint.second, df, level)
            found[:, which] = joint.error, *limits
    error, low, high, p = found
    flat = error <= _ROUNDING * size  # no spread at all: equal, or different in every sample alike
    gap = np.where(flat & (np.abs(gap) <= _ROUNDING * size), 0.0, gap)
    low, high = np.where(flat, gap, np.minimum(low, gap)), np.where(flat, gap, np.maximum(high, gap))
    p = np.where(flat, np.where(gap == 0, 1.0, 0.0), p)
    weaker = [min(sides[i], sides[j], key=lambda side: side.effective_errors) for i, j in zip(a, b)]
    few = [rests_on(x.effective_errors, x.errors) for x in weaker]
    told = [f"{note}: too few to compare" if note and g != 0 else "" for note, g in zip(few, gap)]
    notes = np.asarray(told, dtype=object)
    return gap, error, low, high, np.where(notes == "", p, 1.0), notes


def _joint(
    sides: Sequence[Side], a: np.ndarray, b: np.ndarray, scale: Scale, T: np.ndarray, paired: bool
) -> tuple[Joint, Any]:
    """Sums over units of all pairs: of those on the same units by products of matrices, of others side by side."""
    used, place = np.unique(np.concatenate([a, b]), return_inverse=True)
    i, j = place[: len(a)], place[len(a) :]
    every, drawn = [sides[k].pulls for k in used], np.asarray([sides[k].units for k in used])
    scaled = [v * rate for v, rate in zip(every, scale.rate(T[used]))]
    if not paired:
        own = np.asarray([(*moments(x, n), v @ v, n) for x, v, n in zip(scaled, every, drawn)])
        second, excess, error2, units = (own[i] + own[j]).T
        return Joint(second, excess, np.sqrt(error2)), units
    v, x = np.stack(every), np.stack(scaled)
    x2 = x * x
    cubes, middle, fourths = (x2 * x) @ x.T, x2 @ x2.T, np.sum(x2 * x2, axis=1)
    sizes = fourths[i] + fourths[j]
    fourth = sizes - 4 * (cubes[i, j] + cubes[j, i]) + 6 * middle[i, j]
    second, error2 = (_squared_gap(y @ y.T, i, j) for y in (x, v))
    for k in np.flatnonzero(fourth < _RELATIVE * sizes):  # near twins: few digits are left
        gap, own = x[i[k]] - x[j[k]], v[i[k]] - v[j[k]]
        second[k], fourth[k], error2[k] = gap @ gap, np.sum(gap**4), own @ own
    n = np.maximum(drawn[i], drawn[j])
    return Joint(second, fourth - second**2 / n, np.sqrt(error2)), n


_ROUNDING = 1e-13
_RELATIVE = 1e-6  # below this share of its terms a difference of sums is worked out sample by sample


def _squared_gap(gram: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    r""":math:`\|x_i - x_j\|^2 = G_{ii} + G_{jj} - 2 G_{ij}`."""
    own = np.diag(gram)
    return np.asarray(np.maximum(own[i] + own[j] - 2 * gram[i, j], 0.0))
