"""Is A better than B? Differences of a metric, on the same samples or on different ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from abstain._arrays import Array
from abstain._check import check_fraction
from abstain.errors import ShapeError
from abstain.inference.influence import Units, error_of, gather, measure, values_of
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

    .. math:: z = \frac{T_A - T_B}{\sqrt{\sum_i D_i^2}/n}, \qquad D_i = \mathrm{IF}^A_i - \mathrm{IF}^B_i

    What makes a sample hard for both cancels in D, so this sees differences that two separate intervals hide.
    The p-value is two-sided, of "both have the same value in the population", by Student's t.

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
    value_a, pull_a = values_of(name, a)
    value_b, pull_b = values_of(name, b)
    error, _ = error_of(pull_a - pull_b, a)
    # influences of A and B are alike, so their differences are nearly symmetric, and t needs no help with long tails
    return _difference(a, (value_a, value_b), error, level, max(1.0, a.sampled - 1.0), a.n, True)


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
    """Metric of A minus metric of B on two *independent* test sets (Welch's degrees of freedom).

    >>> unpaired_difference([0, 1, 0], [3, 2, 1], [0, 1, 0], [3, 2, 1]).difference
    0.0
    """
    name = "unpaired_difference"
    level = check_fraction(name, "level", level, open_high=True)
    a = gather(name, metric, loss_a, confidence_a, sample_weight_a, abstained_a, clusters_a, None, options)
    b = gather(name, metric, loss_b, confidence_b, sample_weight_b, abstained_b, clusters_b, None, options)
    value_a, error_a = measure(name, a)[:2]
    value_b, error_b = measure(name, b)[:2]
    error = math.hypot(error_a, error_b)
    spread = error_a**4 / max(1, a.sampled - 1) + error_b**4 / max(1, b.sampled - 1)
    freedom = error**4 / spread if spread > 0 else 1.0
    return _difference(a, (value_a, value_b), error, level, freedom, a.n + b.n, False)


def _difference(
    units: Units,
    values: tuple[float, float],
    error: float,
    level: float,
    freedom: float,
    n: int,
    paired: bool,
) -> Difference:
    from scipy.special import stdtr, stdtrit

    gap = values[0] - values[1]
    scale = abs(values[0]) + abs(values[1])
    if error > 1e-13 * scale:
        p = float(2 * stdtr(freedom, -abs(gap) / error))
    else:  # no spread at all: equal, or different in every sample alike, as improbable as n heads in a row
        gap = 0.0 if abs(gap) <= 1e-13 * scale else gap
        p = 1.0 if gap == 0 else min(1.0, 2.0 ** (1 - min(1000, units.sampled)))
    reach = float(stdtrit(freedom, (1 + level) / 2)) * error
    return Difference(units.metric, gap, error, gap - reach, gap + reach, p, level, n, *values, paired)
