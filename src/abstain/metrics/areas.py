"""Areas under the risk-coverage curve, beside the best any ordering could do, and the weights that make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args, overload

import numpy as np

from abstain._arrays import Array, ArrayLike, backend_of, float_dtype, is_concrete
from abstain._check import (
    check_choice,
    check_confidence,
    check_count,
    check_pair,
    check_weight,
    refuse_other_row_order,
)
from abstain.core import area_estimators as core
from abstain.core import device
from abstain.core.area_estimators import ESTIMATORS, TIES, Estimator, Ties, find_counting_option
from abstain.core.curve_points import exceeds, naurc_undefined, normalised_gain
from abstain.errors import InputError, ShapeError
from abstain.metrics._sample import Sample, Vector, by_group, prepare
from abstain.metrics.definitions import AURC, ESTIMATOR, TIE_RULE

Cdf = Callable[[Array], Array] | Array | None
Oracle = Literal["empirical", "asymptotic"]


def _check_area_options(function: str, estimator: str, ties: str) -> str:
    """Check the estimator and the rule for ties, and return the one that needs weights to be numbers of repetitions.

    That is an option that counts neighbours, as the user wrote it, such as `estimator="loo"`; empty if any weights will
    do. Raises InputError, in the name of `function`, for an unknown estimator or rule for ties.
    """
    check_choice(function, "estimator", estimator, ESTIMATORS)
    check_choice(function, "ties", ties, TIES)
    return find_counting_option(estimator, ties)


def _area_of(sample: Sample, estimator: str, ties: str) -> Array:
    """AURC of checked samples, computed on the device and in the array library of the input.

    `estimator` is a name in `area_estimators.ESTIMATORS`, such as "harmonic". `ties` is "threshold" or "expected":
    equal confidences are accepted together, or one by one in random order. On a GPU the check for NaN and infinite
    confidences may have been left to this function (`sample.has_unchecked_confidence`), since it costs a pass over
    them: they raise InputError.

    The value is a float, or an array with the shape of the leading axes, for batches. Samples that abstained are left
    out already.
    """
    loss = sample.loss
    confidence = sample.confidence
    backend = sample.backend
    if backend.is_host:  # numpy arrays
        return core.area_of_samples(loss, confidence, sample.weight, estimator, ties)
    # a faster way for 0/1 losses on a GPU; the function that reads the losses is called only if all else fits
    if device.supports(loss, confidence, sample.weight, sample.is_zero_one):
        value = device.area(backend.xp, loss, confidence, estimator, ties)
        # a confidence that is not finite makes the value NaN; this call raises the error for it
        if sample.has_unchecked_confidence and bool(backend.xp.isnan(value)):
            check_confidence(sample.name, backend, confidence)
        return value
    if sample.has_unchecked_confidence:
        check_confidence(sample.name, backend, confidence)
    return core.area(sample.rows(), estimator, ties)  # one row per distinct confidence


@by_group(lower_is_better=True)  # adds the keyword `groups`, and calls this for each group
def aurc(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    coverage: tuple[float, float] | None = None,
    sample_weight: ArrayLike | None = None,
    repetitions: bool = False,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""Area under the risk-coverage curve; lower is better.

    .. math:: \widehat{\mathrm{AURC}} = \frac{1}{n}\sum_i \hat\alpha_i\,\ell_i, \qquad
              \frac{1}{b-a}\int_a^b R(c)\,dc \ \text{ with coverage} = (a, b)

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        One loss and one confidence (higher = surer) per sample along the last axis; leading axes are batches.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights. "harmonic" is the classical empirical AURC, "loo" the least biased.
    ties : {"threshold", "expected"}
        "threshold": equal confidences are accepted together. "expected": mean over random orders of equals.
    coverage : (float, float), optional
        The mean selective risk between these two coverages alone, as shares of the answered samples; for the
        harmonic estimator with ties accepted together.
    sample_weight : array, optional
        Non-negative. "log", "loo" and ties="expected" need repetitions.
    repetitions : bool
        Is a weight a number of repetitions? Otherwise weights are relative: their scale has no meaning.
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
    >>> round(aurc([0, 0, 0, 1], [0.9, 0.8, 0.7, 0.1], coverage=(0.5, 1.0)), 6)  # risk 0 up to 0.75, then 1/4
    0.125
    """
    if coverage is not None:
        return _partial_aurc(
            loss, confidence, estimator, ties, coverage, sample_weight, repetitions, abstained
        )
    # Raises for unknown names. Returns an option such as 'estimator="loo"', for which weights must be repetitions or
    # all equal (`prepare` checks that), and "" where any weights will do.
    option_needing_repetitions = _check_area_options("aurc", estimator, ties)
    sample = prepare(
        "aurc",
        loss,
        confidence,
        sample_weight,
        abstained,
        counting_option=option_needing_repetitions,
        repetitions=repetitions,
        defers_confidence=True,
    )
    return sample.to_input_library(_area_of(sample, estimator, ties))


def _partial_aurc(
    loss: Array,
    confidence: Array,
    estimator: str,
    ties: str,
    coverage: tuple[float, float],
    sample_weight: Array | None,
    repetitions: bool,
    abstained: Array | None,
) -> Array:
    """Mean selective risk between two coverages, from the user's arguments of `aurc`.

    `loss` and `confidence` have one entry per sample, `coverage` holds the two coverages. Only for the default
    `estimator` and rule for `ties`; raises InputError for others. `sample_weight` is the weight of each sample (None: 1
    for all). `repetitions` says that weights are numbers of repetitions. `abstained` marks the samples without an
    answer (None: none). The result is in the array library of the input.
    """
    # Raises for unknown names. What it returns is not needed: the values that pass the next check take any weights.
    _check_area_options("aurc", estimator, ties)
    if (estimator, ties) != (ESTIMATOR.default, TIE_RULE.default):
        raise InputError(
            f'aurc: `coverage` needs estimator="{ESTIMATOR.default}" and ties="{TIE_RULE.default}", '
            f"got {estimator!r} and {ties!r}."
        )
    metric = AURC.with_checked_options("aurc", {"coverage": coverage})  # the definition of partial AURC
    # the checked samples that were answered; a coverage is a share of their mass
    sample = prepare("aurc", loss, confidence, sample_weight, abstained, repetitions=repetitions)
    return sample.to_input_library(metric.compute(sample.table()))


@by_group(lower_is_better=True)  # adds the keyword `groups`, and calls this for each group
def augrc(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    ties: Ties = "threshold",
    sample_weight: ArrayLike | None = None,
    repetitions: bool = False,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""Area under the generalised risk-coverage curve, by the mean rule; lower is better.

    .. math:: \mathrm{AUGRC} = \frac{1}{n}\sum_j \frac{1}{n}\sum_i \ell_i\,1(g_i \ge g_j)

    The generalised risk is the loss accepted per sample *of the whole set*; this is what SELE computes.

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        One loss and one confidence (higher = surer) per sample along the last axis; leading axes are batches.
    ties : {"threshold", "expected"}
        "threshold": equal confidences are accepted together. "expected": mean over random orders of equals.
    sample_weight : array, optional
        Non-negative; ties="expected" needs repetitions.
    repetitions : bool
        Is a weight a number of repetitions? Otherwise weights are relative: their scale has no meaning.
    abstained : bool array, optional
        Samples never accepted; they count in the whole set.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> augrc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5])
    0.2
    """
    # Raises for unknown names. Returns an option such as 'estimator="loo"', for which weights must be repetitions or
    # all equal (`prepare` checks that), and "" where any weights will do.
    option_needing_repetitions = _check_area_options("augrc", "sele", ties)
    sample = prepare(
        "augrc",
        loss,
        confidence,
        sample_weight,
        abstained,
        counting_option=option_needing_repetitions,
        repetitions=repetitions,
    )
    # "sele" weighs the loss at rank r of n (1 is the least confident) by r / n: AUGRC of the answered samples
    value = _area_of(sample, "sele", ties)
    if abstained is not None:
        # `value` divides by the answered mass twice: in the mean over thresholds, which lie at the answered samples
        # alone, and in the accepted loss per sample. The second division has to be by the mass of all samples.
        value = value * sample.answered_mass / sample.total_mass
    return sample.to_input_library(value)


@overload
def aurc_given_cdf(
    loss: Vector,
    confidence: Array,
    /,
    *,
    cdf: Cdf = None,
    sample_weight: Array | None = None,
    repetitions: bool = False,
) -> float: ...
@overload
def aurc_given_cdf(
    loss: Array,
    confidence: Array,
    /,
    *,
    cdf: Cdf = None,
    sample_weight: Array | None = None,
    repetitions: bool = False,
) -> Array: ...
@refuse_other_row_order  # InputError for pandas columns whose rows are in different orders
def aurc_given_cdf(
    loss: Array,
    confidence: Array,
    /,
    *,
    cdf: Cdf = None,
    sample_weight: Array | None = None,
    repetitions: bool = False,
) -> Array:
    r"""The form AURC_a: losses weighted by :math:`-\ln(1 - G)`; lower is better.

    .. math:: \mathrm{AURC}_a = -\frac1n \sum_i \ell_i \ln(1 - G(g_i))

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        One loss and one confidence (higher = surer) per sample along the last axis; leading axes are batches.
    cdf : callable or array, optional
        The CDF G of the confidence, as a function of it or as its values at the samples, in [0, 1). Without it G
        is estimated by r/(n+1), ties sharing the mean weight of their ranks: that is `aurc(estimator="log")`.
    sample_weight : array, optional
        Non-negative; without `cdf` they must be repetitions.
    repetitions : bool
        Is a weight a number of repetitions? Otherwise weights are relative: their scale has no meaning.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> round(aurc_given_cdf([1, 0], [0.25, 0.75], cdf=lambda g: g), 6)  # -ln(0.75) / 2
    0.143841
    """
    if cdf is None:
        return aurc(loss, confidence, estimator="log", sample_weight=sample_weight, repetitions=repetitions)
    backend = backend_of(loss, confidence, sample_weight)
    xp = backend.xp
    # `cdf` is evaluated at all samples; `sample` leaves out those of weight 0, and is read for the weights alone
    loss, confidence = check_pair("aurc_given_cdf", backend, loss, confidence)
    sample = prepare("aurc_given_cdf", loss, confidence, sample_weight, repetitions=repetitions)
    values = backend.asarray(cdf(confidence) if callable(cdf) else cdf, loss)
    if tuple(values.shape) != tuple(loss.shape):
        raise ShapeError(
            f"aurc_given_cdf: `cdf` must give one value per sample, got shape {tuple(values.shape)}."
        )
    if bool(xp.any(~((values >= 0) & (values < 1)))):
        raise InputError(
            "aurc_given_cdf: `cdf` must lie in [0, 1) and not be NaN: at 1 the weight is infinite. Use r/(n+1)."
        )
    weighted_loss = -xp.log1p(-values) * loss  # losses times -ln(1 - G)
    # of all samples: `sample.weight` leaves out those of weight 0, which `loss` still has
    if sample.all_weights is not None:
        weighted_loss = weighted_loss * sample.all_weights
    # `total_mass` is the sum of the weights, or the number of samples
    return backend.to_input_library(xp.sum(weighted_loss, axis=-1) / sample.total_mass)


# AURC beside the best any ordering of the same losses could do ------------------------------------


class _AreaAndBest(NamedTuple):
    """AURC, the AURC of the best order of the same losses, and the risk; each an array of the shape of the batch."""

    area: Array
    best: Array
    risk: Array


def _area_and_best(sample: Sample, estimator: str, ties: str, oracle: str) -> _AreaAndBest:
    """AURC of checked samples, the AURC of the best order of their losses, and their risk.

    `estimator` is a name such as "harmonic"; `ties` says whether equal confidences are accepted together ("threshold")
    or one by one in random order ("expected"). `oracle="empirical"` takes the best order of these losses, "asymptotic"
    its limit for many samples. From losses with a large common offset this is subtracted if the estimator is
    "harmonic", whose weights have mean 1: it changes all three results alike, and their differences keep more digits.
    Not so for the public function "oracle_aurc", whose value is the best area itself. Raises InputError, in the name of
    `sample.name`, for another `oracle`, and for "asymptotic" with losses other than 0/1.
    """
    check_choice(sample.name, "oracle", oracle, get_args(Oracle))
    if oracle == "asymptotic" and not sample.is_zero_one():
        raise InputError(
            f'{sample.name}: oracle="asymptotic" is R + (1-R) ln(1-R), which holds for 0/1 loss only. '
            f'Use oracle="empirical".'
        )
    xp = sample.backend.xp
    returns_best_itself = sample.name == "oracle_aurc"  # the public function that was called
    if estimator == "harmonic" and sample.backend.is_host and not returns_best_itself:
        sample = sample._replace(loss=core.subtract_large_offset(sample.loss))
    if sample.backend.is_host and sample.weight is None and sample.loss.ndim == 1 and sample.is_zero_one():
        # the best order has two rows, the right samples and then the errors, each a threshold of its own ("expected")
        sample_count = float(len(sample.loss))
        error_count = float(np.count_nonzero(sample.loss))
        risk: Array = np.asarray(error_count / sample_count)
        best_rows = core.zero_one_oracle_rows(error_count, sample_count)
        best: Array = core.area(best_rows, estimator, ties="expected")
    else:
        rows = sample.rows()  # one per distinct confidence; the last one has all samples accepted
        risk = rows.accepted_loss[..., -1] / rows.total_mass[..., 0]
        # `full_xp` has the array-API functions that plain numpy lacks
        best = core.oracle_area(sample.backend.full_xp, sample.loss, sample.weight, estimator)
    if oracle == "asymptotic":
        best = core.asymptotic_oracle(xp, risk)
    area = _area_of(sample, estimator, ties)
    if oracle == "empirical" and sample.weight is not None and not returns_best_itself:
        # with relative weights the order by loss is not always the very best one
        best = xp.minimum(xp.asarray(best), xp.asarray(area))
    return _AreaAndBest(area, best, risk)


@by_group(lower_is_better=True)  # adds the keyword `groups`, and calls this for each group
def oracle_aurc(
    loss: ArrayLike,
    /,
    *,
    estimator: Estimator = "harmonic",
    oracle: Oracle = "empirical",
    sample_weight: ArrayLike | None = None,
    repetitions: bool = False,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""AURC of the best possible ordering of these losses (smallest on top); lower is better.

    .. math:: \mathrm{AURC}^* = \frac1n\sum_{k=1}^n \frac1k \sum_{j\le k} \ell_{(j)}

    Equal losses are not tied: each sample is a threshold of its own.

    Parameters
    ----------
    loss : array, shape (..., n)
        One loss per sample along the last axis; leading axes are batches.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights.
    oracle : {"empirical", "asymptotic"}
        "asymptotic": the population value for 0/1 loss, R + (1-R) ln(1-R).
    sample_weight : array, optional
        Non-negative. "log" and "loo" need repetitions.
    repetitions : bool
        Is a weight a number of repetitions? Otherwise weights are relative: their scale has no meaning.
    abstained : bool array, optional
        Samples never accepted; they are left out.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> round(oracle_aurc([0, 0, 1]), 6)
    0.111111
    """
    # Raises for unknown names. Returns an option such as 'estimator="loo"', for which weights must be repetitions or
    # all equal (`prepare` checks that), and "" where any weights will do.
    option_needing_repetitions = _check_area_options("oracle_aurc", estimator, "threshold")
    sample = prepare(
        "oracle_aurc",
        loss,
        loss,  # in the place of the confidence, on which the best area does not depend
        sample_weight,
        abstained,
        counting_option=option_needing_repetitions,
        repetitions=repetitions,
    )
    # what stands in the place of the confidence is sorted, and other libraries than numpy may not sort truth values
    if not sample.backend.is_host:
        xp = sample.backend.xp
        sample = sample._replace(confidence=xp.astype(sample.loss, float_dtype(xp)))
    return sample.to_input_library(_area_and_best(sample, estimator, "threshold", oracle).best)


@by_group(lower_is_better=True)  # adds the keyword `groups`, and calls this for each group
def e_aurc(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    oracle: Oracle = "empirical",
    sample_weight: ArrayLike | None = None,
    repetitions: bool = False,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""Excess AURC over the best ordering of the same losses; lower is better, 0 is perfect ranking.

    .. math:: \mathrm{E\text{-}AURC} = \mathrm{AURC} - \mathrm{AURC}^*

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        One loss and one confidence (higher = surer) per sample along the last axis; leading axes are batches.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights, for the area and for the oracle.
    ties : {"threshold", "expected"}
        "threshold": equal confidences are accepted together. "expected": mean over random orders of equals.
    oracle : {"empirical", "asymptotic"}
        "asymptotic": the population value for 0/1 loss, R + (1-R) ln(1-R).
    sample_weight : array, optional
        Non-negative. "log", "loo" and ties="expected" need repetitions.
    repetitions : bool
        Is a weight a number of repetitions? Otherwise weights are relative: their scale has no meaning.
    abstained : bool array, optional
        Samples never accepted; the area is over the coverage that can be attained.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> e_aurc([0, 0, 1], [0.9, 0.8, 0.1])
    0.0
    """
    # Raises for unknown names. Returns an option such as 'estimator="loo"', for which weights must be repetitions or
    # all equal (`prepare` checks that), and "" where any weights will do.
    option_needing_repetitions = _check_area_options("e_aurc", estimator, ties)
    sample = prepare(
        "e_aurc",
        loss,
        confidence,
        sample_weight,
        abstained,
        counting_option=option_needing_repetitions,
        repetitions=repetitions,
    )
    areas = _area_and_best(sample, estimator, ties, oracle)  # AURC, and that of the best order
    return sample.to_input_library(areas.area - areas.best)


@by_group(lower_is_better=True)  # adds the keyword `groups`, and calls this for each group
def naurc(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    oracle: Oracle = "empirical",
    sample_weight: ArrayLike | None = None,
    repetitions: bool = False,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""Normalised AURC: 0 for the best ordering, 1 for a useless confidence; lower is better.

    .. math:: \mathrm{NAURC} = \frac{\mathrm{AURC} - \mathrm{AURC}^*}{R - \mathrm{AURC}^*}

    R is the risk and AURC* the AURC of the best order. When every loss is the same (all right, all wrong) no ordering
    can do better or worse: the value is 0. Estimators by which the best order exceeds R ("2sele" of many errors) give
    an InfeasibleError.

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        One loss and one confidence (higher = surer) per sample along the last axis; leading axes are batches.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights, for the area and for the oracle.
    ties : {"threshold", "expected"}
        "threshold": equal confidences are accepted together. "expected": mean over random orders of equals.
    oracle : {"empirical", "asymptotic"}
        "asymptotic": the population value for 0/1 loss, R + (1-R) ln(1-R).
    sample_weight : array, optional
        Non-negative. "log", "loo" and ties="expected" need repetitions.
    repetitions : bool
        Is a weight a number of repetitions? Otherwise weights are relative: their scale has no meaning.
    abstained : bool array, optional
        Samples never accepted; the area is over the coverage that can be attained.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> naurc([0, 0, 0], [0.9, 0.8, 0.1])
    0.0
    """
    # Raises for unknown names. Returns an option such as 'estimator="loo"', for which weights must be repetitions or
    # all equal (`prepare` checks that), and "" where any weights will do.
    option_needing_repetitions = _check_area_options("naurc", estimator, ties)
    sample = prepare(
        "naurc",
        loss,
        confidence,
        sample_weight,
        abstained,
        counting_option=option_needing_repetitions,
        repetitions=repetitions,
    )
    area, best, risk = _area_and_best(sample, estimator, ties, oracle)
    xp = sample.backend.xp
    # The best order is no better than the mean, and yet the area exceeds that of the best one. Tracers of jax have no
    # values to compare.
    if is_concrete(sample.loss) and bool(xp.any(~exceeds(risk, best) & exceeds(area, best))):
        raise naurc_undefined(f'estimator="{estimator}"')
    # (area - best) / (risk - best), and 0 where nothing can be gained
    return sample.to_input_library(normalised_gain(xp, area - best, risk, best))


# The weights themselves: what makes AURC a weighted mean of losses --------------------------------


def rank_weights(n: int, /, *, estimator: Estimator = "harmonic") -> np.ndarray:
    r"""Weights of ranks 1 (least confident) to n, without ties.

    harmonic :math:`H_n - H_{n-r}`, log :math:`-\ln(1-r/(n+1))`, loo :math:`H_{n-1}-H_{n-r}`, sele :math:`r/n`, 2sele
    :math:`2r/n`. AURC is the mean of weight times loss.

    Parameters
    ----------
    n : int
        How many samples.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights.

    Returns
    -------
    ndarray, shape (n,)
        The weight of rank r is at index r - 1. It is a copy, which may be changed.

    Examples
    --------
    >>> rank_weights(3).round(4).tolist()
    [0.3333, 0.8333, 1.8333]
    """
    check_choice("rank_weights", "estimator", estimator, ESTIMATORS)
    sample_count = check_count("rank_weights", "n", n)  # InputError unless it is a whole number of at least 1
    return core.rank_weights(sample_count, estimator).copy()  # the original is cached


@overload
def weights(
    confidence: Vector,
    /,
    *,
    estimator: Estimator = ...,
    ties: Ties = ...,
    sample_weight: ArrayLike | None = None,
    repetitions: bool = False,
) -> np.ndarray: ...
@overload
def weights(
    confidence: ArrayLike,
    /,
    *,
    estimator: Estimator = ...,
    ties: Ties = ...,
    sample_weight: ArrayLike | None = None,
    repetitions: bool = False,
) -> Array: ...
@refuse_other_row_order  # InputError for pandas columns whose rows are in different orders
def weights(
    confidence: ArrayLike,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    sample_weight: ArrayLike | None = None,
    repetitions: bool = False,
) -> Array:
    r"""Weight :math:`\hat\alpha_i` of each sample, in the order given: AURC is the mean of weight times loss.

    .. math:: \hat\alpha_i = \sum_{j:\, g_j \le g_i} \frac{1}{\#\{k: g_k \ge g_j\}}

    for "harmonic" with ties="threshold" and unit weights; `rank_weights` has the others.

    Parameters
    ----------
    confidence : array, shape (..., n)
        Higher = surer; leading axes are batches.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights.
    ties : {"threshold", "expected"}
        "threshold": equal confidences are accepted together. "expected": mean over random orders of equals.
    sample_weight : array, optional
        Non-negative. "log", "loo" and ties="expected" need repetitions.
    repetitions : bool
        Is a weight a number of repetitions? Otherwise weights are relative: their scale has no meaning.

    Returns
    -------
    array of the shape of `confidence`, where the input lives.

    Examples
    --------
    >>> weights([0.9, 0.1, 0.9]).round(4).tolist()  # 1/3 for all three, 2/2 more for the two on top
    [1.3333, 0.3333, 1.3333]
    """
    # Raises for unknown names. Returns an option such as 'estimator="loo"', for which weights must be repetitions or
    # all equal (`check_weight` checks that), and "" where any weights will do.
    option_needing_repetitions = _check_area_options("weights", estimator, ties)
    backend = backend_of(confidence, sample_weight)
    # the check takes a pair; there is no loss here
    _, checked_confidence = check_pair("weights", backend, confidence, confidence)
    weight = None  # stands for 1 for all
    if sample_weight is not None:
        # the confidence stands for the loss, whose shape the weights must have
        weight = check_weight(
            "weights", backend, sample_weight, checked_confidence, option_needing_repetitions, repetitions
        )
    # `full_xp` has the array-API functions that plain numpy lacks
    rank_weight = core.sample_weights(backend.full_xp, checked_confidence, weight, estimator, ties)
    return backend.to_input_library(rank_weight)
