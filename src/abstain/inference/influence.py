"""The sampled units behind a metric, the influence of each, and the standard error it makes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, to_host
from abstain._check import check_choice
from abstain.core import influence as core_influence
from abstain.core.areas import area_spread
from abstain.core.estimators import ESTIMATORS, TIES, needs_whole_weights
from abstain.core.influence import METRICS, Options
from abstain.core.sorting import is_zero_one
from abstain.errors import InfeasibleError, InputError, ShapeError
from abstain.inference.results import Influences
from abstain.metrics._sample import prepare

BOOTSTRAP_ONLY = ("risk_at_coverage", "coverage_at_risk", "aupr_error", "aupr_success", "fpr_at_tpr")
NAMES = (*METRICS, *BOOTSTRAP_ONLY)
_AREAS = ("aurc", "oracle_aurc", "e_aurc", "naurc")
_TAKES = {
    **dict.fromkeys(_AREAS, ("estimator", "ties", "oracle")),
    "aurc": ("estimator", "ties"),
    "augrc": ("ties",),
    "oracle_aurc": ("estimator", "oracle"),
    "risk_at_coverage": ("coverage",),
    "coverage_at_risk": ("risk",),
    "fpr_at_tpr": ("tpr",),
}
_TWO_KINDS = ("auroc", "aupr_error", "aupr_success", "fpr_at_tpr")


class Units(NamedTuple):
    """Answered samples as vectors; `kept` marks them among all `n`, `total` is the mass of all."""

    metric: str
    loss: np.ndarray
    confidence: np.ndarray
    weight: np.ndarray | None
    kept: np.ndarray | None
    n: int
    total: float
    whole_weight: np.ndarray | None  # of all n samples, abstained ones included
    clusters: np.ndarray | None  # codes 0 ... of all n samples
    strata: np.ndarray | None
    options: dict[str, Any]
    zero_one: bool

    @property
    def area(self) -> Options:
        """The options that areas read."""
        return Options(**{k: v for k, v in self.options.items() if k in Options._fields})

    @property
    def mass(self) -> float:
        """Mass of the answered samples."""
        return float(len(self.loss) if self.weight is None else self.weight.sum())

    @property
    def sampled(self) -> int:
        """How many independent units were drawn: clusters if there are any, samples otherwise."""
        return self.n if self.clusters is None else int(self.clusters.max()) + 1


def metric_name(function: str, metric: Any) -> str:
    """A metric by its name or by the function of that name."""
    name = getattr(metric, "__name__", metric)
    check_choice(function, "metric", name, NAMES)
    return str(name)


def gather(
    function: str,
    metric: Any,
    loss: Array,
    confidence: Array,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
    clusters: Array | None = None,
    strata: Array | None = None,
    options: dict[str, Any] | None = None,
) -> Units:
    """Check everything once."""
    name = metric_name(function, metric)
    options = _check_options(function, name, options or {})
    loss, confidence = to_host(loss), to_host(confidence if confidence is not None else loss)
    sample_weight, abstained = to_host(sample_weight), to_host(abstained)
    whole = needs_whole_weights(options.get("estimator", "harmonic"), options.get("ties", "threshold"))
    sample = prepare(function, loss, confidence, sample_weight, abstained, whole)
    if sample.loss.ndim != 1:
        raise ShapeError(
            f"{function}: takes one vector, got shape {tuple(np.shape(loss))}. Loop over the batch."
        )
    n = len(loss)
    kept = None
    if len(sample.loss) != n:
        kept = np.ones(n, dtype=bool) if abstained is None else ~np.asarray(abstained, dtype=bool)
        kept &= True if sample_weight is None else np.asarray(sample_weight) > 0
    zero_one = is_zero_one(sample.loss)
    _check_kind(function, name, sample.loss, zero_one, options)
    return Units(
        name,
        sample.loss,
        sample.confidence,
        sample.weight,
        kept,
        n,
        float(sample.total),
        None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64),
        codes(function, "clusters", clusters, n),
        codes(function, "strata", strata, n),
        options,
        zero_one,
    )


def _check_options(function: str, metric: str, options: dict[str, Any]) -> dict[str, Any]:
    takes = _TAKES.get(metric, ())
    for name in options:
        if name not in takes:
            known = ", ".join(f"`{t}`" for t in takes) or "none"
            raise InputError(f"{function}: `{name}` is no option of {metric} (its options: {known}).")
    check_choice(function, "estimator", options.get("estimator", "harmonic"), ESTIMATORS)
    check_choice(function, "ties", options.get("ties", "threshold"), TIES)
    check_choice(function, "oracle", options.get("oracle", "empirical"), ("empirical", "asymptotic"))
    for needed in ("coverage", "risk"):
        if needed in takes and needed not in options:
            raise InputError(f"{function}: {metric} needs `{needed}=`, got none.")
    return options


def _check_kind(
    function: str, metric: str, loss: np.ndarray, zero_one: bool, options: dict[str, Any]
) -> None:
    if options.get("oracle") == "asymptotic" and not zero_one:
        raise InputError(f'{function}: oracle="asymptotic" holds for 0/1 loss only. Use oracle="empirical".')
    if metric in _TWO_KINDS:
        if not zero_one:
            raise InputError(
                f"{function}: {metric} needs `loss` to be 0 (right) or 1 (wrong), got other values."
            )
        if loss.all() or not loss.any():
            raise InfeasibleError(
                f"{function}: {metric} needs both right and wrong samples, got only one kind."
            )


def codes(function: str, argument: str, labels: Array | None, n: int) -> np.ndarray | None:
    """Labels of any kind as whole numbers 0, 1, ..."""
    if labels is None:
        return None
    values = np.asarray(to_host(labels))
    if values.shape != (n,):
        raise ShapeError(
            f"{function}: `{argument}` must have one label per sample, got shape {values.shape} for {n}."
        )
    return np.unique(values, return_inverse=True)[1]


# influence ----------------------------------------------------------------------------------------
#
# Influence of each sample, and the standard error it makes.


_MANY = 1 << 17  # samples from which sums over rows replace single influences for losses other than 0/1


def influence(
    metric: str | Callable[..., Any],
    loss: Array,
    confidence: Array,
    /,
    *,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
    **options: Any,
) -> Influences:
    r"""What each sample does to a metric, to first order, in the order given.

    .. math:: T(\hat F) - T(F) \approx \frac1n \sum_i \mathrm{IF}_i, \qquad \sum_i w_i\,\mathrm{IF}_i = 0

    Metrics: aurc, augrc, risk, oracle_aurc, e_aurc, naurc, auroc, prediction_rejection_ratio, with their own
    options (`estimator`, `ties`, `oracle`). Abstained samples have influence 0, except on AUGRC, whose loss
    is per sample of the whole set.

    >>> influence("risk", [0, 0, 1, 1], [0.9, 0.8, 0.7, 0.6]).values.tolist()
    [-0.5, -0.5, 0.5, 0.5]
    """
    units = gather("influence", metric, loss, confidence, sample_weight, abstained, options=options)
    return Influences(units.metric, *values_of("influence", units))


def standard_error(
    metric: str | Callable[..., Any],
    loss: Array,
    confidence: Array,
    /,
    *,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
    clusters: Array | None = None,
    **options: Any,
) -> float:
    r"""Standard error of a metric, for the price of its sort.

    .. math:: \mathrm{se} = \frac1W \sqrt{\textstyle\sum_c (\sum_{i \in c} w_i \mathrm{IF}_i)^2}

    Without `clusters` every sample (a weighted row counts as one) is its own. With C clusters the square is
    multiplied by C / (C - 1).

    >>> round(standard_error("risk", [0, 0, 1, 1], [0.9, 0.8, 0.7, 0.6]), 3)  # sqrt(0.25 / 4)
    0.25
    """
    units = gather(
        "standard_error", metric, loss, confidence, sample_weight, abstained, clusters, options=options
    )
    return measure("standard_error", units).standard_error


class Measured(NamedTuple):
    """Estimate, standard error and its degrees of freedom; the leave-one-out estimate where it came for free."""

    estimate: float
    standard_error: float
    freedom: float
    loo: float | None = None


def measure(function: str, units: Units) -> Measured:
    """Estimate and standard error by the fastest road."""
    needs_influence(function, units.metric)
    single = units.clusters is None and units.strata is None and units.kept is None and units.weight is None
    by_rows = units.zero_one or (units.n > _MANY and core_influence.has_row_form(units.metric, False))
    if not (single and by_rows):
        estimate, values = values_of(function, units)
        return Measured(estimate, *error_of(values, units))
    loo = None
    found: Any = None
    if units.metric == "aurc" and units.area == core_influence.DEFAULT:
        found = area_spread(units.loss, units.confidence, units.zero_one)
        loo = None if found is None else found.loo
    if found is None:
        moments = core_influence.moments_of_samples(units.loss, units.confidence)
        found = core_influence.of_moments(units.metric, moments, units.area)
    error = math.sqrt(found.second) / units.n
    return Measured(found.estimate, error, freedom_of(units.n, found.second, found.fourth), loo)


def freedom_of(count: int, second: float, fourth: float | None) -> float:
    r"""Degrees of freedom of a spread estimated from `count` draws, by Satterthwaite's rule.

    A sum of squares of draws of kurtosis :math:`\kappa` varies like one of :math:`2n/(\kappa - 1)` normal ones: when
    a few samples (confident errors, say) make most of the spread, it is known no better than from those few.
    """
    if fourth is None or second <= 0:
        return max(1.0, count - 1.0)
    kurtosis = count * fourth / second**2
    return max(1.0, min(count - 1.0, 2 * count / (kurtosis - 1) if kurtosis > 1 else math.inf))


def needs_influence(function: str, metric: str) -> None:
    """Some metrics depend on the density at a quantile: no influence function there."""
    if metric in BOOTSTRAP_ONLY:
        raise InputError(
            f"{function}: {metric} has no influence function to rely on. "
            f'Use `interval(..., method="bootstrap")`.'
        )


def values_of(function: str, units: Units) -> tuple[float, np.ndarray]:
    """Estimate and influences of all n samples, those that abstained included."""
    needs_influence(function, units.metric)
    estimate, own = core_influence.values(
        units.metric, units.loss, units.confidence, units.weight, units.area
    )
    if units.kept is None:
        return estimate, own
    share = units.mass / units.total
    if units.metric == "augrc":  # share * (AUGRC of the answered): both factors move
        idle, own, estimate = -share * estimate, (1 - share) * estimate + own, share * estimate
    else:
        idle, own = 0.0, own / share
    values = np.full(units.n, idle)
    values[units.kept] = own
    return estimate, values


def error_of(values: np.ndarray, units: Units) -> tuple[float, float]:
    """Standard error and its degrees of freedom from influences.

    They are added up within clusters first, and their mean is taken off within strata.
    """
    pulls = values if units.whole_weight is None else values * units.whole_weight
    strata = units.strata
    if units.clusters is not None:
        if units.sampled < 2:
            raise InputError("standard_error: `clusters` must name at least two clusters, got one.")
        pulls = np.bincount(units.clusters, pulls)
        if strata is not None:
            strata = np.zeros(units.sampled, dtype=np.int64)
            strata[units.clusters] = units.strata
    if strata is not None:
        pulls = pulls - (np.bincount(strata, pulls) / np.bincount(strata))[strata]
    count, squares = len(pulls), np.square(pulls)
    second = float(np.sum(squares))
    grown = 1.0 if units.clusters is None else count / (count - 1)
    return math.sqrt(second * grown) / units.total, freedom_of(count, second, float(squares @ squares))
