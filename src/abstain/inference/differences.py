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
from abstain.inference.limits import Joint, Scale, contrast, freedom, scale_of, too_few
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
    name = "paired_difference"
    level = check_fraction(name, "level", level, open_high=True)
    a = gather(name, metric, loss_a, confidence_a, sample_weight, abstained_a, clusters, strata, options)
    b = gather(name, metric, loss_b, confidence_b, sample_weight, abstained_b, clusters, strata, options)
    if a.n != b.n:
        raise ShapeError(
            f"{name}: A and B must be the same samples, got {a.n} and {b.n} of them. "
            f"Use `unpaired_difference` for different test sets."
        )
    return _difference(a, b, level, a.n, True)


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
    name = "unpaired_difference"
    level = check_fraction(name, "level", level, open_high=True)
    a = gather(name, metric, loss_a, confidence_a, sample_weight_a, abstained_a, clusters_a, None, options)
    b = gather(name, metric, loss_b, confidence_b, sample_weight_b, abstained_b, clusters_b, None, options)
    return _difference(a, b, level, a.n + b.n, False)


def _difference(a: Units, b: Units, level: float, n: int, paired: bool) -> Difference:
    sides = [side_of(units) for units in (a, b)]
    one, other = np.asarray([0]), np.asarray([1])
    scale = scale_of(a.metric, a.zero_one and b.zero_one, bool((a.loss < 0).any() or (b.loss < 0).any()))
    *numbers, note = (x[0] for x in compared(sides, one, other, scale, level, paired))
    gap, error, low, high, p = map(float, numbers)
    values = sides[0].estimate, sides[1].estimate
    return Difference(a.metric, gap, error, low, high, p, level, n, *values, paired, note)


class Side(NamedTuple):
    """One model: its estimate, the less biased one that tests read, what each unit does to it, and its errors."""

    estimate: float
    centre: float
    error: float
    effective_errors: float
    errors: float
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
    return Side(values.estimate, centre, error, effective, facts(units).errors, pulls)


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
    value, T, s = np.asarray([(x.estimate, x.centre, x.error) for x in sides]).T
    gap, size = value[a] - value[b], np.abs(value[a]) + np.abs(value[b])
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
    flat = error <= 1e-13 * size  # no spread at all: equal, or different in every sample alike
    gap = np.where(flat & (np.abs(gap) <= 1e-13 * size), 0.0, gap)
    low, high = np.where(flat, gap, np.minimum(low, gap)), np.where(flat, gap, np.maximum(high, gap))
    p = np.where(flat, np.where(gap == 0, 1.0, 0.0), p)
    weaker = [min(sides[i], sides[j], key=lambda side: side.effective_errors) for i, j in zip(a, b)]
    told = [too_few(x.effective_errors, x.errors) if g != 0 else "" for x, g in zip(weaker, gap)]
    notes = np.asarray(told, dtype=object)
    return gap, error, low, high, np.where(notes == "", p, 1.0), notes


def _joint(
    sides: Sequence[Side], a: np.ndarray, b: np.ndarray, scale: Scale, T: np.ndarray, paired: bool
) -> tuple[Joint, Any]:
    """Sums over units of all pairs: of those on the same units by products of matrices, of others side by side."""
    used, place = np.unique(np.concatenate([a, b]), return_inverse=True)
    i, j = place[: len(a)], place[len(a) :]
    every = [sides[k].pulls for k in used]
    scaled = [v * rate for v, rate in zip(every, scale.rate(T[used]))]
    if not paired:
        own = [(x @ x, np.sum(x**4) - (x @ x) ** 2 / len(x), v @ v, len(v)) for x, v in zip(scaled, every)]
        second, excess, error2, units = (np.asarray(own)[i] + np.asarray(own)[j]).T
        return Joint(second, excess, np.sqrt(error2)), units
    v, x = np.stack(every), np.stack(scaled)
    second, error2 = _squares(x)[i, j], _squares(v)[i, j]
    x2 = x * x
    cubes, middle, fourths = (x2 * x) @ x.T, x2 @ x2.T, np.sum(x2 * x2, axis=1)
    terms = fourths[i] + fourths[j]
    fourth = terms - 4 * (cubes[i, j] + cubes[j, i]) + 6 * middle[i, j]
    for k in np.flatnonzero(fourth < _RELATIVE * terms):  # near twins: few digits are left
        fourth[k] = np.sum((x[i[k]] - x[j[k]]) ** 4)
    n = v.shape[1]
    return Joint(second, fourth - second**2 / n, np.sqrt(error2)), n


_RELATIVE = 1e-6  # below this share of its terms a difference of sums is worked out sample by sample


def _squares(x: np.ndarray) -> np.ndarray:
    r"""Of all pairs of rows: :math:`\|x_a - x_b\|^2 = G_{aa} + G_{bb} - 2 G_{ab}`, one product for all."""
    gram = x @ x.T
    own = np.diag(gram)
    square = own[:, None] + own[None, :] - 2 * gram
    for a, b in np.argwhere(np.triu(square < _RELATIVE * (own[:, None] + own[None, :]), 1)):
        gap = x[a] - x[b]
        square[a, b] = square[b, a] = gap @ gap
    np.fill_diagonal(square, 0.0)
    return np.maximum(square, 0.0)
