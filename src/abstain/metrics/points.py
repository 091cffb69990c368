"""The risk-coverage curve, numbers at one operating point, and failure detection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from abstain import _plots, _tables
from abstain._arrays import Array, ArrayLike, float_dtype, is_concrete, to_host
from abstain._check import check_fraction, check_nonnegative, check_risk, refuse_other_row_order
from abstain.core import curve_points
from abstain.core.rows import Rows, rows_from_sorted, sort_samples
from abstain.core.sorting import mark_run_ends, rank_samples
from abstain.errors import InfeasibleError, InputError
from abstain.metrics._sample import Sample, by_group, prepare
from abstain.metrics.definitions import MAX_REJECTION, TPR

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class RiskCoverageCurve(_tables.Notebook):
    """One point for each distinct confidence, from the most confident down.

    Attributes
    ----------
    coverage : array
        Share accepted.
    risk : array
        Mean loss of the accepted.
    generalised_risk : array
        Loss of the accepted per sample of the whole set.
    threshold : array
        Accept when `confidence >= threshold`.
    count : array
        Samples accepted.
    n : int
        Samples in all.
    abstained : float
        The share that can never be accepted.

    Examples
    --------
    >>> risk_coverage_curve([0, 1, 0], [0.9, 0.8, 0.8])
    RiskCoverageCurve(2 points, n = 3, risk 0 at coverage 0.3333 to 0.3333 at 1)
    """

    _shows_rows_spread_out: ClassVar[bool] = True

    coverage: Array
    risk: Array
    generalised_risk: Array
    threshold: Array
    count: Array
    n: int
    abstained: float

    @property
    def accuracy(self) -> Array:
        """One minus the risk, which is the accuracy-coverage curve when the loss is 0/1."""
        return 1 - self.risk

    def frame(self, library: str | None = None) -> Any:
        """One row per point."""
        names = ("coverage", "risk", "generalised_risk", "threshold", "count")
        return _tables.make_frame({name: to_host(getattr(self, name)).tolist() for name in names}, library)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str = "",
        size: _plots.FigureSize | None = None,
        risk_scale: _plots.RiskScale = "linear",
    ) -> Axes:
        """Draw selective risk against coverage and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        name : str
            Written beside the curve or in the legend; several curves on the same axes need one each.
        size : "column", "page" or (width, height) in inches, optional
            Of a new figure, for one or two columns of a journal; by default one for the screen.
        risk_scale : "linear" or "log"
            Of the vertical axis; "log" where risks span decades.
        """
        axes: Any = _plots.make_axes(ax, size=size)  # `ax` itself, or those of a new figure
        coverage = to_host(self.coverage)  # as numpy arrays, lowest coverage first
        risk = to_host(self.risk)
        drawn = _plots.select_drawn_points(coverage)  # indices of points, fewer than the curve may have
        # name, x and y; characters in the name that cannot be printed become escape sequences
        curve = (_tables.escape_controls(name), coverage[drawn], risk[drawn])
        _plots.draw_curves(axes, [curve], label="selective risk", risk_scale=risk_scale)
        return axes

    def __repr__(self) -> str:
        return (
            f"RiskCoverageCurve({len(self.coverage)} points, n = {self.n}, "
            f"risk {self.risk[0]:.4g} at coverage {self.coverage[0]:.4g} to "
            f"{self.risk[-1]:.4g} at {self.coverage[-1]:.4g})"
        )


@refuse_other_row_order  # InputError for pandas columns whose rows are in different orders
def risk_coverage_curve(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    sample_weight: ArrayLike | None = None,
    abstained: ArrayLike | None = None,
) -> RiskCoverageCurve:
    r"""Coverage, risk, generalised risk, threshold and count at every distinct confidence.

    .. math:: c(t) = P(g \ge t), \qquad R(t) = E[\ell \mid g \ge t]

    Equal confidences are one point: they are accepted together.

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        One loss and one confidence (higher = surer) per sample.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they count in the coverage.

    Returns
    -------
    RiskCoverageCurve
        Its arrays live where the input lives.

    Examples
    --------
    >>> curve = risk_coverage_curve([0, 1, 0], [0.9, 0.8, 0.8])
    >>> curve.coverage.round(3).tolist(), curve.risk.round(3).tolist(), curve.threshold.tolist()
    ([0.333, 1.0], [0.0, 0.333], [0.9, 0.8])
    """
    # the checked samples that were answered; ShapeError for a batch
    sample = prepare("risk_coverage_curve", loss, confidence, sample_weight, abstained, vector=True)
    # arrays with one entry per distinct confidence, most confident first; on the host numpy arrays
    points = _curve_on_host(sample) if sample.backend.is_host else _curve_on_device(sample)
    accepted_mass = points.accepted_mass
    accepted_loss = points.accepted_loss
    total_mass = float(sample.total_mass)  # of all samples, abstained ones included
    return RiskCoverageCurve(
        coverage=sample.to_input_library(accepted_mass / total_mass),
        risk=sample.to_input_library(accepted_loss / accepted_mass),
        generalised_risk=sample.to_input_library(accepted_loss / total_mass),
        threshold=sample.to_input_library(points.threshold),
        count=sample.to_input_library(points.count),
        n=np.shape(to_host(loss))[0],  # all samples, abstained ones included
        abstained=1 - float(sample.answered_mass) / total_mass,
    )


class _CurvePoints(NamedTuple):
    """Accepted mass, accepted loss, threshold and number of accepted samples, at each distinct confidence.

    Arrays with one entry per distinct confidence, most confident first.
    """

    accepted_mass: Array
    accepted_loss: Array
    threshold: Array
    count: Array


def _curve_on_host(sample: Sample) -> _CurvePoints:
    """The points of the risk-coverage curve of checked numpy arrays."""
    ranked = rank_samples(sample.loss, sample.confidence, sample.weight)
    count = ranked.row_stops()  # samples down to the last one of each distinct confidence
    return _CurvePoints(
        accepted_mass=ranked.accepted_mass[count],  # entry k is over the k most confident samples, from 0 on
        accepted_loss=ranked.accepted_loss[count],
        threshold=ranked.decode_keys(ranked.sorted_keys[count - 1]),  # sorted integers back to confidences
        count=count,
    )


def _curve_on_device(sample: Sample) -> _CurvePoints:
    """The points of the risk-coverage curve of checked vectors of another library than numpy, on their device.

    One point per distinct confidence, most confident first. Its threshold is that confidence, and its count that of the
    samples at least as confident.
    """
    xp = sample.backend.xp
    # most confident first
    loss, confidence, weight = sort_samples(xp, sample.loss, sample.confidence, sample.weight)
    is_last_of_ties = mark_run_ends(confidence, xp)
    # one row per sample; only the last of a tie has mass, that of the whole tie (none if all its weights are 0)
    rows = rows_from_sorted(xp, loss, is_last_of_ties, weight)
    last_of_ties = xp.nonzero(rows.mass > 0)[0]
    if weight is None:
        count = last_of_ties + 1
    else:  # samples of weight 0 do not count
        count = xp.take(xp.cumulative_sum(xp.astype(weight > 0, xp.int64)), last_of_ties)
    return _CurvePoints(
        accepted_mass=xp.take(rows.accepted_mass, last_of_ties),
        accepted_loss=xp.take(rows.accepted_loss, last_of_ties),
        threshold=xp.take(confidence, last_of_ties),
        count=count,
    )


@by_group(lower_is_better=True)  # adds the keyword `groups`, and calls this for each group
def risk(
    loss: ArrayLike,
    confidence: ArrayLike | None = None,
    /,
    *,
    sample_weight: ArrayLike | None = None,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""Mean loss over all answered samples (coverage 1 unless some abstained); lower is better.

    .. math:: R = \frac{\sum_i w_i \ell_i}{\sum_i w_i}

    Parameters
    ----------
    loss : array, shape (..., n)
        One loss per sample along the last axis; leading axes are batches.
    confidence : array, optional
        Not read; here so that all metrics are called alike.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they are left out.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> risk([0, 1, 0, 0, 1])
    0.4
    """
    # The answered samples, checked. The check takes a pair; the losses stand for confidences that were not passed.
    sample = prepare("risk", loss, loss if confidence is None else confidence, sample_weight, abstained)
    xp = sample.backend.xp
    weighted_loss = xp.astype(sample.loss, float_dtype(xp))  # the widest float of the library
    if sample.weight is not None:
        weighted_loss = weighted_loss * xp.astype(sample.weight, float_dtype(xp))
    return sample.to_input_library(xp.sum(weighted_loss, axis=-1) / sample.answered_mass)


@by_group(lower_is_better=True)  # adds the keyword `groups`, and calls this for each group
def risk_at_coverage(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    coverage: float,
    sample_weight: ArrayLike | None = None,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""Selective risk at the least attainable coverage that is at least `coverage`; lower is better.

    .. math:: R(t) = \frac{\sum_i \ell_i 1(g_i \ge t)}{\sum_i 1(g_i \ge t)}

    Ties are accepted together, so the coverage reached may be larger than the one asked for.

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        One loss and one confidence (higher = surer) per sample along the last axis; leading axes are batches.
    coverage : float in (0, 1]
        The share of the samples to accept at least.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they count in the coverage.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> risk_at_coverage([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5], coverage=0.6)
    0.3333333333333333
    """
    requested = check_fraction("risk_at_coverage", "coverage", coverage)
    # checked, without abstained samples (in a batch these have weight 0)
    sample = prepare("risk_at_coverage", loss, confidence, sample_weight, abstained)
    # `total_mass` is that of all samples, abstained ones included; `is_reached`: does any threshold accept so much?
    value, is_reached = curve_points.risk_at_coverage(sample.rows(), sample.total_mass, requested)
    xp = sample.backend.xp
    if not is_concrete(is_reached):  # tracers of jax have no values: NaN instead of an error
        value = xp.where(is_reached, value, xp.nan)
    elif not bool(xp.all(is_reached)):
        raise InfeasibleError(
            f"risk_at_coverage: coverage {requested:g} cannot be reached, since abstained samples are never accepted. "
            f"Ask for at most the share that was answered."
        )
    return sample.to_input_library(value)


@by_group(lower_is_better=False)  # adds the keyword `groups`, and calls this for each group
def coverage_at_risk(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    risk: float,
    sample_weight: ArrayLike | None = None,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""Largest coverage whose selective risk is at most `risk`, 0 when no threshold does it; higher is better.

    .. math:: \max_t \{ P(g \ge t) : E[\ell \mid g \ge t] \le r \}

    Equal confidences are accepted together. This is the empirical figure and promises nothing about new data: see
    `select_threshold` for a guarantee.

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        One loss and one confidence (higher = surer) per sample along the last axis; leading axes are batches.
    risk : float
        The largest mean loss of the accepted, on the scale of `loss`.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they count in the coverage.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> coverage_at_risk([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5], risk=0.25)
    0.8
    """
    largest_risk = check_nonnegative("coverage_at_risk", "risk", risk)
    # the answered samples, checked; `total_mass` is that of all samples, abstained ones included
    sample = prepare("coverage_at_risk", loss, confidence, sample_weight, abstained)
    # losses are read only if they must be; tracers of jax have no values
    if largest_risk > 1 and is_concrete(sample.loss) and sample.is_zero_one():
        check_risk("coverage_at_risk", largest_risk)  # raises: no risk of 0/1 losses is above 1
    return sample.to_input_library(
        curve_points.coverage_at_risk(sample.rows(), sample.total_mass, largest_risk)
    )


@by_group(lower_is_better=True)  # adds the keyword `groups`, and calls this for each group
def rejection_cost(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    cost: float,
    threshold: float | None = None,
    sample_weight: ArrayLike | None = None,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""Chow's cost per sample, at `threshold` or (default) at the best one; lower is better.

    .. math:: C(t) = E[\ell\,1(g \ge t)] + d\,P(g < t)

    Equal confidences are accepted together. Rejecting everything is always among the choices, so the best cost is at
    most `cost`.

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        One loss and one confidence (higher = surer) per sample along the last axis; leading axes are batches.
    cost : float
        What a rejection costs, on the scale of `loss`.
    threshold : float, optional
        Accept when `confidence >= threshold`; without it the best one on these samples.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they cost what a rejection costs.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> rejection_cost([0, 0, 1], [0.9, 0.8, 0.1], cost=0.3)  # reject the last: 0.3 / 3
    0.09999999999999999
    """
    cost_of_rejection = check_nonnegative("rejection_cost", "cost", cost)
    sample = prepare("rejection_cost", loss, confidence, sample_weight, abstained)
    xp = sample.backend.xp
    # Abstained samples are dropped already, or in a batch have weight 0, so that none of them is accepted at any
    # threshold. Their mass is part of `sample.total_mass`, so that they count as rejected.
    if threshold is not None:
        if np.isnan(threshold):
            raise InputError("rejection_cost: `threshold` must be a number, got NaN.")
        wide = float_dtype(xp)  # float64 where there is one: a float32 just below 0.7 is not 0.7
        is_accepted = xp.astype(xp.astype(sample.confidence, wide) >= float(threshold), wide)
        accepted_mass = is_accepted if sample.weight is None else is_accepted * sample.weight
        rejected_mass = sample.total_mass - xp.sum(accepted_mass, axis=-1)
        total_cost = xp.sum(accepted_mass * sample.loss, axis=-1) + cost_of_rejection * rejected_mass
        return sample.to_input_library(total_cost / sample.total_mass)
    # the cost per sample with the threshold at each distinct confidence; infinite where a row has no mass
    costs = curve_points.rejection_costs(sample.rows(), sample.total_mass, cost_of_rejection)
    smallest = xp.min(costs, axis=-1)
    return sample.to_input_library(xp.minimum(smallest, xp.full_like(smallest, cost_of_rejection)))


@dataclass(frozen=True)
class RejectionPoint(_tables.Notebook):
    """The cheapest threshold, as `best_rejection` finds it.

    Attributes
    ----------
    threshold : float or None
        Accept when `confidence >= threshold`; None rejects everything.
    cost : float
        Chow's cost per sample there.
    coverage : float
        Share accepted.
    risk : float or None
        Mean loss of the accepted; None when nothing is.

    Examples
    --------
    >>> point = best_rejection([0, 0, 1], [0.9, 0.8, 0.1], cost=0.3)
    >>> point.threshold, round(point.coverage, 3), point.risk
    (0.8, 0.667, 0.0)
    """

    threshold: float | None
    cost: float
    coverage: float
    risk: float | None


@refuse_other_row_order  # InputError for pandas columns whose rows are in different orders
def best_rejection(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    cost: float,
    sample_weight: ArrayLike | None = None,
    abstained: ArrayLike | None = None,
) -> RejectionPoint:
    r"""The threshold of least Chow cost on this sample (the largest coverage among equals).

    .. math:: \arg\min_t\; E[\ell\,1(g \ge t)] + d\,P(g < t)

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        One loss and one confidence (higher = surer) per sample.
    cost : float
        What a rejection costs, on the scale of `loss`.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they cost what a rejection costs.

    Returns
    -------
    RejectionPoint

    Examples
    --------
    >>> best_rejection([0, 0, 1], [0.9, 0.8, 0.1], cost=0.3).threshold
    0.8
    """
    cost_of_rejection = check_nonnegative("best_rejection", "cost", cost)
    # points at each distinct confidence, most confident first; coverage and generalised risk are per sample of all
    curve = risk_coverage_curve(loss, confidence, sample_weight=sample_weight, abstained=abstained)
    cost_at_point = curve.generalised_risk + cost_of_rejection * (1 - curve.coverage)
    # the first choice is to reject everything; then come the points of the curve, most confident first
    costs = np.asarray([cost_of_rejection, *cost_at_point.tolist()])
    # index of the smallest; of equal ones the last: the largest coverage
    cheapest = curve_points.cheapest(costs)
    if cheapest == 0:  # reject everything
        return RejectionPoint(threshold=None, cost=cost_of_rejection, coverage=0.0, risk=None)
    point = cheapest - 1
    return RejectionPoint(
        threshold=float(curve.threshold[point]),
        cost=float(cost_at_point[point]),
        coverage=float(curve.coverage[point]),
        risk=float(curve.risk[point]),
    )


# Failure detection: does confidence tell right from wrong? All but the ratio take 0/1 losses (1 = error) ------------


def _zero_one_rows(
    name: str, loss: Array, confidence: Array, weight: Array | None, abstained: Array | None
) -> tuple[Sample, Rows]:
    """Check the inputs of a metric of 0/1 losses; return them with their rows, most confident first.

    The arguments are those of the public function `name`. Raises InputError for losses other than 0 and 1, and
    InfeasibleError unless both right and wrong samples occur in every line of a batch; values of jax tracers are not
    checked. `abstained` marks the samples without an answer (None: none).
    """
    sample = prepare(name, loss, confidence, weight, abstained)  # checked, without abstained samples
    rows = sample.rows()  # one per distinct confidence; arrays of shape (leading axes, rows)
    if is_concrete(sample.loss):  # not a jax tracer, which has no values
        if not sample.is_zero_one():
            raise InputError(
                f"{name}: `loss` must be 0 (right) or 1 (wrong) for failure detection, got other values."
            )
        error_mass = rows.accepted_loss[..., -1]  # with all samples accepted
        if bool(rows.xp.any((error_mass == 0) | (error_mass == rows.total_mass[..., 0]))):
            raise InfeasibleError(
                f"{name}: needs both right and wrong samples to tell them apart, got only one kind. "
                f"`abstain.aurc` is defined for either."
            )
    return sample, rows


@by_group(lower_is_better=False)  # adds the keyword `groups`, and calls this for each group
def auroc(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    sample_weight: ArrayLike | None = None,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""Chance that a right sample is more confident than a wrong one; higher is better.

    .. math:: P(g_+ > g_-) + \tfrac12 P(g_+ = g_-)

    over pairs of a right sample (+) and a wrong one (-); a tie counts half.

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        0 (right) or 1 (wrong), and a confidence (higher = surer), per sample along the last axis; leading axes are
        batches. Both kinds must occur.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they are left out.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> auroc([0, 1, 0, 1], [0.9, 0.8, 0.8, 0.1])
    0.875
    """
    # raises unless losses are 0 or 1 and both occur
    sample, rows = _zero_one_rows("auroc", loss, confidence, sample_weight, abstained)
    # `rows`: one per distinct confidence, most confident first
    return sample.to_input_library(curve_points.auroc(rows))


@by_group(lower_is_better=False)  # adds the keyword `groups`, and calls this for each group
def aupr_error(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    sample_weight: ArrayLike | None = None,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""Average precision of finding the errors by low confidence; higher is better.

    .. math:: \sum_t (\mathrm{recall}_t - \mathrm{recall}_{t-1})\,\mathrm{precision}_t

    over thresholds from the least confident up. Whole blocks of equal confidence are found at once (the step rule, no
    interpolation).

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        0 (right) or 1 (wrong), and a confidence (higher = surer), per sample along the last axis; leading axes are
        batches. Both kinds must occur.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they are left out.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> aupr_error([0, 1, 0, 1], [0.9, 0.8, 0.7, 0.1])
    0.8333333333333333
    """
    # raises unless losses are 0 or 1 and both occur
    sample, rows = _zero_one_rows("aupr_error", loss, confidence, sample_weight, abstained)
    # `rows`: one per distinct confidence, most confident first
    return sample.to_input_library(curve_points.average_precision(rows, of_errors=True))


@by_group(lower_is_better=False)  # adds the keyword `groups`, and calls this for each group
def aupr_success(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    sample_weight: ArrayLike | None = None,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""Average precision of finding the right samples by high confidence; higher is better.

    .. math:: \sum_t (\mathrm{recall}_t - \mathrm{recall}_{t-1})\,\mathrm{precision}_t

    over thresholds from the most confident down. Whole blocks of equal confidence are found at once (the step rule, no
    interpolation).

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        0 (right) or 1 (wrong), and a confidence (higher = surer), per sample along the last axis; leading axes are
        batches. Both kinds must occur.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they are left out.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> aupr_success([0, 1, 0, 1], [0.9, 0.8, 0.7, 0.1])
    0.8333333333333333
    """
    # raises unless losses are 0 or 1 and both occur
    sample, rows = _zero_one_rows("aupr_success", loss, confidence, sample_weight, abstained)
    # `rows`: one per distinct confidence, most confident first
    return sample.to_input_library(curve_points.average_precision(rows, of_errors=False))


@by_group(lower_is_better=True)  # adds the keyword `groups`, and calls this for each group
def fpr_at_tpr(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    tpr: float = TPR.default,
    sample_weight: ArrayLike | None = None,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""Share of the errors accepted when at least a share `tpr` of the right samples is; lower is better.

    .. math:: \min_t \{ P(g \ge t \mid \ell = 1) : P(g \ge t \mid \ell = 0) \ge \mathrm{tpr} \}

    Equal confidences are accepted together.

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        0 (right) or 1 (wrong), and a confidence (higher = surer), per sample along the last axis; leading axes are
        batches. Both kinds must occur.
    tpr : float in (0, 1]
        The share of the right samples to accept at least.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they are left out.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> fpr_at_tpr([0, 1, 0, 1], [0.9, 0.8, 0.7, 0.1])
    0.5
    """
    share = check_fraction("fpr_at_tpr", "tpr", tpr)
    # raises unless losses are 0 or 1 and both occur
    sample, rows = _zero_one_rows("fpr_at_tpr", loss, confidence, sample_weight, abstained)
    # `rows`: one per distinct confidence, most confident first
    return sample.to_input_library(curve_points.fpr_at_tpr(rows, share))


@by_group(lower_is_better=False)  # adds the keyword `groups`, and calls this for each group
def prediction_rejection_ratio(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    max_rejection: float = MAX_REJECTION.default,
    sample_weight: ArrayLike | None = None,
    abstained: ArrayLike | None = None,
) -> Array:
    r"""How much of the possible gain from rejecting is had: 1 as good as the oracle, 0 random; higher is better.

    .. math:: \mathrm{PRR} = \frac{A_{random} - A}{A_{random} - A_{oracle}}

    with A the area under the accepted loss per sample against coverage, and :math:`A_{random} = R/2` in closed form.
    For 0/1 loss it equals 2 AUROC - 1. Any loss will do; when all losses are equal the value is 0.
    Equal confidences come in evenly, which is the mean over their orders.

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        One loss and one confidence (higher = surer) per sample along the last axis; leading axes are batches.
    max_rejection : float in (0, 1]
        The largest share rejected: areas are taken over coverages from 1 - `max_rejection` to 1.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they are left out.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> prediction_rejection_ratio([0, 1, 0, 1], [0.9, 0.8, 0.8, 0.1])
    0.75
    """
    share = check_fraction("prediction_rejection_ratio", "max_rejection", max_rejection)
    # checked, without abstained samples (in a batch these have weight 0)
    sample = prepare("prediction_rejection_ratio", loss, confidence, sample_weight, abstained)
    # the samples in rows by confidence, and in the best possible order: by loss, the smallest first
    value = curve_points.rejection_ratio(sample.rows(), sample.rows_by_loss(), max_rejection=share)
    return sample.to_input_library(value)
