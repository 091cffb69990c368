"""The sampled units behind a metric, the influence of each, and the standard error it makes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, to_host
from abstain._check import check_choice, check_fraction, check_nonnegative, check_risk
from abstain.core import influence as core_influence
from abstain.core.area_estimators import (
    ESTIMATORS,
    TIES,
    area_of_samples,
    needs_whole_weights,
    oracle_area,
    remove_offset,
)
from abstain.core.influence import BY_LOSS, METRICS, PIECE, AreaOptions
from abstain.core.rows import rank_confidences, read_by_confidence
from abstain.core.sorting import error_size, is_zero_one
from abstain.core.stretch import Sums, Totals, tables, tables_by, totals_of_samples
from abstain.errors import InfeasibleError, InputError, ShapeError
from abstain.inference.evidence import POINTS, Evidence, asked_for, evidence_of, evidence_spread, facts_of
from abstain.inference.limits import SCALED_BY_LOSS, Facts, Spread, spread_of
from abstain.inference.records import Influences
from abstain.metrics._sample import group_codes, prepare

NAMES = (*METRICS, *POINTS)
SMALLEST_LOSS = (
    1e-60  # sums of fourth powers of losses below this, or above its inverse, leave the range of floats
)
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
    error_size: float = (
        1.0  # losses are in units of this: c where all are 0 or c, a power of two for huge losses
    )
    ranked: core_influence.Ranked | None = None  # along the confidence, where that is known
    by_loss: core_influence.Ranked | None = None  # along the loss, the smallest first

    @property
    def area(self) -> AreaOptions:
        """The options that areas read."""
        return AreaOptions(**{k: v for k, v in self.options.items() if k in AreaOptions._fields})

    @property
    def mass(self) -> float:
        """Mass of the answered samples."""
        return float(len(self.loss) if self.weight is None else self.weight.sum())

    @property
    def whole(self) -> bool:
        """Are the weights repetitions, or all 1? (Relative weights over their unit are whole only if all are 1.)"""
        return self.weight is None or bool(np.all(self.weight == np.floor(self.weight)))

    @property
    def independent(self) -> bool:
        """Is every sample a draw of its own?"""
        return self.clusters is None and self.strata is None

    def mass_of(self, values: np.ndarray) -> np.ndarray:
        """Values of the answered samples times their weights."""
        return values if self.weight is None else self.weight * values

    @property
    def counted(self) -> int:
        """Samples, without those of no weight."""
        return self.n if self.whole_weight is None else int(np.count_nonzero(self.whole_weight))

    @property
    def sampled(self) -> int:
        """How many independent units were drawn: clusters if there are any, samples otherwise."""
        return self.counted if self.clusters is None else int(self.clusters.max()) + 1


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
    error_size: float | None = None,
    repetitions: bool = False,
) -> Units:
    """Check everything once. Losses that are 0 or one number c become 0/1 losses in units of c.

    `error_size`: c where it is known already, for a part of a data set that may hold no error.
    """
    name = metric_name(function, metric)
    options = check_options(function, name, options or {})
    loss, confidence = to_host(loss), to_host(confidence if confidence is not None else loss)
    sample_weight, abstained = to_host(sample_weight), to_host(abstained)
    whole = needs_whole_weights(options.get("estimator", "harmonic"), options.get("ties", "threshold"))
    sample = prepare(function, loss, confidence, sample_weight, abstained, whole, repetitions=repetitions)
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
    losses = sample.loss
    size = error_size_of(losses, error_size)
    if size is None:
        size = power_of_two_near(losses)
        losses = losses if size is None else losses / size
    elif size != 1:
        losses = losses != 0
        zero_one = True
    if name in ("e_aurc", "naurc") and options.get("estimator", "harmonic") == "harmonic":
        losses = remove_offset(losses)
    whole_weight = sample.every_weight
    units, strata = codes(function, "clusters", clusters, n), codes(function, "strata", strata, n)
    return Units(
        metric=name,
        loss=losses,
        confidence=sample.confidence,
        weight=sample.weight,
        kept=kept,
        n=n,
        total=float(sample.total),
        whole_weight=whole_weight,
        clusters=units,
        strata=strata,
        options=options,
        zero_one=zero_one,
        error_size=size or 1.0,
    )


def error_size_of(loss: np.ndarray, known: float | None = None) -> float | None:
    """The size of an error where losses are 0 or one number; `known`: that of the data set they are a part of."""
    if known is not None and bool(np.all(loss == known) or not loss.any()):
        return known
    return error_size(loss)


def power_of_two_near(loss: np.ndarray) -> float | None:
    """A unit for losses whose fourth powers would overflow or vanish; None where they are of an ordinary size."""
    largest = float(np.abs(loss).max()) if loss.dtype == np.float64 and len(loss) else 0.0
    if largest == 0 or SMALLEST_LOSS < largest < 1 / SMALLEST_LOSS:
        return None
    return float(2.0 ** math.floor(math.log2(largest)))


def check_options(function: str, metric: str, options: dict[str, Any]) -> dict[str, Any]:
    """The metric's own options, each checked."""
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
    checks = {"coverage": check_fraction, "tpr": check_fraction, "risk": check_nonnegative}
    return options | {k: check(function, k, options[k]) for k, check in checks.items() if k in options}


def _check_kind(
    function: str, metric: str, loss: np.ndarray, zero_one: bool, options: dict[str, Any]
) -> None:
    if options.get("oracle") == "asymptotic" and not zero_one:
        raise InputError(f'{function}: oracle="asymptotic" holds for 0/1 loss only. Use oracle="empirical".')
    if zero_one and "risk" in options:
        check_risk(function, options["risk"])
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
    """Labels of any kind as whole numbers 0, 1, ...; missing ones (None, NaN) are one label."""
    if labels is None:
        return None
    shape = np.shape(to_host(labels))
    if shape != (n,):
        raise ShapeError(
            f"{function}: `{argument}` must have one label per sample, got shape {shape} for {n}."
        )
    return group_codes(function, labels)[1]


# influence ----------------------------------------------------------------------------------------
#
# Influence of each sample, and the standard error it makes.


def influence(
    metric: str | Callable[..., Any],
    loss: Array,
    confidence: Array,
    /,
    *,
    sample_weight: Array | None = None,
    repetitions: bool = False,
    abstained: Array | None = None,
    **options: Any,
) -> Influences:
    r"""What each sample does to a metric, to first order, in the order given.

    .. math:: T(\hat F) - T(F) \approx \frac1n \sum_i \mathrm{IF}_i, \qquad \sum_i w_i\,\mathrm{IF}_i = 0

    Parameters
    ----------
    metric : str or the function of that name
        aurc, augrc, risk, oracle_aurc, e_aurc, naurc, auroc or prediction_rejection_ratio.
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.
    sample_weight : array, optional
        The mass of each sample, relative to the others.
    repetitions : bool
        Is a weight a number of repetitions? Values then count each; a weighted row is still one draw.
    abstained : array of bool, optional
        Samples that are never accepted: their influence is 0, except on AUGRC, whose loss is per sample of the
        whole set.
    **options
        The metric's own: `estimator`, `ties`, `oracle`.

    Returns
    -------
    Influences
        Samples of equal confidence stand and fall together: each is told what its block does.

    Examples
    --------
    >>> influence("risk", [0, 0, 1, 1], [0.9, 0.8, 0.7, 0.6]).values.tolist()
    [-0.5, -0.5, 0.5, 0.5]
    """
    units = gather(
        "influence",
        metric,
        loss,
        confidence,
        sample_weight,
        abstained,
        options=options,
        repetitions=repetitions,
    )
    values = values_of("influence", units)
    size = units.error_size if units.metric in SCALED_BY_LOSS else 1.0
    return Influences(units.metric, size * values.estimate, size * values.influence)


def standard_error(
    metric: str | Callable[..., Any],
    loss: Array,
    confidence: Array,
    /,
    *,
    sample_weight: Array | None = None,
    repetitions: bool = False,
    abstained: Array | None = None,
    clusters: Array | None = None,
    **options: Any,
) -> float:
    r"""Standard error of a metric, for the price of its sort.

    .. math:: \mathrm{se} = \frac1W \sqrt{\textstyle\sum_c (\sum_{i \in c} w_i \mathrm{IF}_i)^2}

    Without `clusters` every sample (a weighted row counts as one) is its own. With C clusters the square is
    multiplied by C / (C - 1).

    Parameters
    ----------
    metric : str or the function of that name
        One that has an influence function, see `influence`.
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.
    sample_weight, repetitions, abstained, clusters : optional
        As in `interval`.
    **options
        The metric's own: `estimator`, `ties`, `oracle`.

    Returns
    -------
    float

    Examples
    --------
    >>> round(standard_error("risk", [0, 0, 1, 1], [0.9, 0.8, 0.7, 0.6]), 3)  # sqrt(0.25 / 4)
    0.25
    """
    units = gather(
        "standard_error",
        metric,
        loss,
        confidence,
        sample_weight,
        abstained,
        clusters,
        options=options,
        repetitions=repetitions,
    )
    size = units.error_size if units.metric in SCALED_BY_LOSS else 1.0
    return size * measure("standard_error", units)[0].error


def measure(function: str, units: Units) -> tuple[Spread, Facts]:
    """Estimate with the sums of its influences, and what limits must know of the sample."""
    needs_influence(function, units.metric)
    if units.independent and units.kept is None and (units.zero_one or units.metric not in BY_LOSS):
        found = evidence(units)
        return evidence_spread(units.metric, found, units.area.oracle), facts_of(found.total)
    return spread_by_sample(function, units), facts(units)


def spread_by_sample(function: str, units: Units) -> Spread:
    """The same from the influence of each sample: clusters, strata, oracles of losses other than 0/1."""
    if units.ranked is None:
        ranking = rank_confidences(units.confidence)
        units = units._replace(ranked=core_influence.Ranked(ranking, units.loss, units.weight))
    values = values_of(function, units)
    if units.independent:
        count, powers = units.sampled, power_sums(values.at, units.n, units.whole_weight, units.total)
        reach = values.reach[0] / units.total, values.reach[1] / units.total**2
    else:
        pulls = pulls_of(values.influence, units)
        count, powers = len(pulls), power_sums(pulls.__getitem__, len(pulls))
        z = pulls_of(values.weight * spread_over(units, units.loss), units, False)
        reach = float(np.sum(z)), float(z @ z)
    wrong = math.nan
    if units.zero_one:
        of_errors = pulls_of(values.influence * spread_over(units, units.loss), units, False)
        wrong = float(of_errors @ of_errors)
    grown = 1.0 if units.clusters is None else count / (count - 1)
    sums = Sums(
        second=grown * powers[0],
        fourth=grown**2 * powers[1],
        reach=reach[0],
        reach2=reach[1],
        wrong=grown * wrong,
    )
    return spread_of(values.estimate, sums, count, leave_one_out(units))


def power_sums(
    at: Callable[[slice], np.ndarray], n: int, weight: np.ndarray | None = None, total: float = 1.0
) -> tuple[float, float]:
    """Sums of second and fourth powers of w x / W, a cacheful of x at a time."""
    second, fourth = [], []
    for a in range(0, n, PIECE):
        here = slice(a, a + PIECE)
        square = np.square((at(here) if weight is None else at(here) * weight[here]) / total)
        second.append(float(np.sum(square)))
        fourth.append(float(square @ square))
    return math.fsum(second), math.fsum(fourth)


def evidence(units: Units) -> Evidence:
    """All that its error bar reads, of independent samples."""
    found = (
        tables(read_by_confidence(units.loss, units.confidence, units.weight), units.zero_one)
        if units.ranked is None
        else tables_by(units.ranked.ranking, units.loss, units.weight, units.zero_one)
    )
    best = None
    if units.zero_one and not units.whole and units.metric in ("oracle_aurc", "e_aurc", "naurc"):
        best = float(oracle_area(np, units.loss.astype(np.float64), units.weight, units.area.estimator))
    return evidence_of(found, totals(units), asked_for([(units.metric, units.options)]), best)


def totals(units: Units) -> Totals:
    """Of samples in memory, those that abstained beside them."""
    found = totals_of_samples(units.loss, units.weight, units.zero_one)
    found = found._replace(error_size=units.error_size)
    if units.kept is None:
        return found
    idle = np.ones(units.n) if units.whole_weight is None else units.whole_weight
    idle = idle[~units.kept]
    idle = idle[idle > 0]
    mass, w2, w4 = (float(np.sum(idle**p)) for p in (1, 2, 4))
    return found._replace(idle=(len(idle), mass, w2, w4))


def facts(units: Units, total: Totals | None = None) -> Facts:
    """What limits must know of the sample: of clusters as many as there are, the largest beside the mean one."""
    found = facts_of(total or totals(units))._replace(units=units.sampled)
    if units.clusters is None:
        return found
    sizes = np.bincount(units.clusters, units.whole_weight)
    share = units.sampled / units.n
    facts_of_clusters = found._replace(
        draws=units.sampled,
        pairs=max(1.0, share * found.pairs),
        heaviest=float(sizes.max() / sizes.mean()),
    )
    if not units.zero_one:
        return facts_of_clusters
    loss = units.loss.astype(np.float64)
    return facts_of_clusters._replace(
        error_draws=_draws_of(pulls_of(spread_over(units, loss), units, False)),
        right_draws=_draws_of(pulls_of(spread_over(units, 1 - loss), units, False)),
    )


def _draws_of(masses: np.ndarray) -> float:
    """As many equal draws would say as much: (sum m)^2 / sum m^2."""
    square = float(masses @ masses)
    return float(np.sum(masses)) ** 2 / square if square > 0 else 0.0


def leave_one_out(units: Units) -> float | None:
    """The leave-one-out estimate, around which intervals of AURC are built; of unit weights only."""
    unit = units.weight is None or bool((units.weight == 1).all())
    if units.metric != "aurc" or not unit or units.area.estimator in ("sele", "2sele"):
        return None
    if units.ranked is not None:
        return units.ranked.plain_area("loo", units.area.ties)
    return float(area_of_samples(units.loss, units.confidence, None, "loo", units.area.ties))


def needs_influence(function: str, metric: str) -> None:
    """Points of the curve depend on the local risk at their cut: no influence to give for each sample."""
    if metric in POINTS:
        raise InputError(
            f"{function}: {metric} has no influence function of its own. Use `interval`, which takes the local risk "
            f"at the cut from its neighbours."
        )


def values_of(function: str, units: Units) -> core_influence.Values:
    """Estimate, influences and rank weights of all n samples, those that abstained included."""
    needs_influence(function, units.metric)
    found = core_influence.values(
        units.metric, units.loss, units.confidence, units.weight, units.area, units.ranked, units.by_loss
    )
    if units.kept is None:
        return found
    share, estimate, own = units.mass / units.total, found.estimate, found.influence
    if units.metric == "augrc":  # share * (AUGRC of the answered): both factors move
        idle, own, estimate = -share * estimate, (1 - share) * estimate + own, share * estimate
    else:
        idle, own = 0.0, own / share
    own = spread_over(units, own, idle)
    return replace(
        found,
        estimate=estimate,
        at=own.__getitem__,
        n=units.n,
        weigh=lambda: spread_over(units, found.weight),
    )


def spread_over(units: Units, values: np.ndarray, idle: float = 0.0) -> np.ndarray:
    """Values of the answered samples among all n."""
    if units.kept is None:
        return values
    every = np.full(units.n, idle)
    every[units.kept] = values
    return every


def pulls_of(values: np.ndarray, units: Units, centred: bool = True) -> np.ndarray:
    """What each independent unit adds up to, w times the values over W; less the mean of its stratum."""
    pulls = (values if units.whole_weight is None else values * units.whole_weight) / units.total
    strata = units.strata
    if units.clusters is not None:
        if units.sampled < 2:
            raise InputError("standard_error: `clusters` must name at least two clusters, got one.")
        pulls = np.bincount(units.clusters, pulls)
        if strata is not None:
            strata = np.zeros(units.sampled, dtype=np.int64)
            strata[units.clusters] = units.strata
    if strata is not None and centred:
        pulls = pulls - (np.bincount(strata, pulls) / np.bincount(strata))[strata]
    return np.asarray(pulls)
