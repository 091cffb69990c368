"""Areas under the risk-coverage curve and its relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

from abstain._arrays import Array, bring, road_for
from abstain._check import check_choice, check_pair
from abstain.core import device, fast
from abstain.core.estimators import ESTIMATORS, TIES, Estimator, Ties, area, needs_whole_weights
from abstain.errors import InputError, ShapeError
from abstain.metrics._sample import Sample, prepare
from abstain.metrics.groups import Vector, by_group

Cdf = Callable[[Array], Array] | Array | None


def area_sample(
    name: str,
    loss: Array,
    confidence: Array,
    estimator: str,
    ties: str,
    weight: Array | None,
    abstained: Array | None,
) -> Sample:
    """Checked inputs of an area with its options."""
    check_choice(name, "estimator", estimator, ESTIMATORS)
    check_choice(name, "ties", ties, TIES)
    return prepare(name, loss, confidence, weight, abstained, needs_whole_weights(estimator, ties))


def area_of(sample: Sample, estimator: str, ties: str) -> Array:
    """AURC of a checked sample, by the road it is on."""
    if sample.road.host:
        return fast.area(sample.loss, sample.confidence, sample.weight, estimator, ties)
    if device.takes(sample.loss, sample.confidence, sample.weight, sample.is_zero_one):
        return device.area(sample.road.xp, sample.loss, sample.confidence, estimator, ties)
    return area(sample.rows(), estimator, ties)


@by_group(lower_is_better=True)
def aurc(
    loss: Array,
    confidence: Array,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    r"""Area under the risk-coverage curve; lower is better.

    .. math:: \widehat{\mathrm{AURC}} = \frac{1}{n}\sum_i \hat\alpha_i\,\ell_i

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        One loss and one confidence (higher = surer) per sample along the last axis; leading axes are batches.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights. "harmonic" is the classical empirical AURC, "loo" the least biased.
    ties : {"threshold", "expected"}
        "threshold": equal confidences are accepted together. "expected": mean over random orders of equals.
    sample_weight : array, optional
        Non-negative. "log", "loo" and ties="expected" take whole numbers (repetitions) only.
    abstained : bool array, optional
        Samples never accepted; the area is over the coverage that can be attained.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    References
    ----------
    Zhou, Van Landeghem, Popordanoska, Blaschko (ICML 2025), empirical AURC and its plug-in form.

    Examples
    --------
    >>> aurc([0, 0, 1], [0.9, 0.8, 0.1])  # selective risks 0, 0, 1/3
    0.1111111111111111
    >>> aurc([1, 0, 0, 0, 1], [0.9, 0.9, 0.9, 0.5, 0.5])  # ties are accepted together: 1/3 and 2/5
    0.36
    """
    sample = area_sample("aurc", loss, confidence, estimator, ties, sample_weight, abstained)
    return sample.deliver(area_of(sample, estimator, ties))


@by_group(lower_is_better=True)
def augrc(
    loss: Array,
    confidence: Array,
    /,
    *,
    ties: Ties = "threshold",
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    r"""Area under the generalised risk-coverage curve, by the mean rule; lower is better.

    .. math:: \mathrm{AUGRC} = \frac{1}{n}\sum_j \frac{1}{n}\sum_i \ell_i\,1(g_i \ge g_j)

    The generalised risk is the loss accepted per sample *of the whole set*; this is what SELE computes.

    >>> augrc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5])
    0.2
    """
    sample = area_sample("augrc", loss, confidence, "sele", ties, sample_weight, abstained)
    value = area_of(sample, "sele", ties)
    if abstained is not None:  # the loss accepted is per sample of the whole set, abstentions included
        kept = sample.rows().W[..., 0] if sample.loss.ndim > 1 or not sample.road.host else _kept_mass(sample)
        value = value * kept / sample.total
    return sample.deliver(value)


def _kept_mass(sample: Sample) -> float:
    return float(len(sample.loss) if sample.weight is None else sample.weight.sum())


@overload
def aurc_given_cdf(
    loss: Vector, confidence: Array, /, *, cdf: Cdf = None, sample_weight: Array | None = None
) -> float: ...
@overload
def aurc_given_cdf(
    loss: Array, confidence: Array, /, *, cdf: Cdf = None, sample_weight: Array | None = None
) -> Array: ...
def aurc_given_cdf(
    loss: Array,
    confidence: Array,
    /,
    *,
    cdf: Cdf = None,
    sample_weight: Array | None = None,
) -> Array:
    r"""The form AURC_a: losses weighted by :math:`-\ln(1 - G)`; lower is better.

    `cdf` is the CDF of the confidence, as a function of it or as its values at the samples. Without it G is
    estimated by r/(n+1), ties sharing the mean weight of their ranks, which is `aurc(estimator="log")`.

    >>> round(aurc_given_cdf([1, 0], [0.25, 0.75], cdf=lambda g: g), 6)  # -ln(0.75) / 2
    0.143841
    """
    if cdf is None:
        return aurc(loss, confidence, estimator="log", sample_weight=sample_weight)
    road = road_for(loss, confidence, sample_weight)
    loss, confidence = check_pair("aurc_given_cdf", road, loss, confidence)
    sample = prepare("aurc_given_cdf", loss, confidence, sample_weight)
    xp = road.xp
    values = bring(road, cdf(confidence) if callable(cdf) else cdf, loss)
    if tuple(values.shape) != tuple(loss.shape):
        raise ShapeError(
            f"aurc_given_cdf: `cdf` must give one value per sample, got shape {tuple(values.shape)}."
        )
    if bool(xp.any(~((values >= 0) & (values < 1)))):
        raise InputError(
            "aurc_given_cdf: `cdf` must lie in [0, 1) and not be NaN: at 1 the weight is infinite. Use r/(n+1)."
        )
    weights = -xp.log1p(-values)
    mass = xp.ones_like(weights) if sample_weight is None else bring(road, sample_weight, loss)
    return road.deliver(xp.sum(mass * weights * loss, axis=-1) / sample.total)
