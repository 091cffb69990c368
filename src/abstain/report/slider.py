"""The steps of the threshold slider: what is accepted at each threshold, in all and by group and class."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from abstain import Threshold
from abstain._tables import GROUPS_SHOWN
from abstain.core.sorting import is_zero_one
from abstain.evaluation.results import worst_first
from abstain.formats import Predictions, TextValues
from abstain.inference import interval
from abstain.inference.limits import student_quantile
from abstain.metrics import RiskCoverageCurve
from abstain.metrics.summaries import Scale
from abstain.report.certified import CertifiedSteps, threshold_text
from abstain.thresholds import clopper_pearson

Samples = tuple[np.ndarray, np.ndarray]  # losses and confidences of all samples, in the order of the file
_SLIDER_STEPS = 400  # for one model
_ALL_SLIDER_STEPS = 600  # for all models together
_MAX_CELLS = 10_000  # rows of groups and classes at all steps of all sliders: they take most of a page's size
MAX_SAMPLES_READ = (
    4e7  # by one computation for a page, summed over its steps or tests; above it, it is left out
)


@dataclass(frozen=True, kw_only=True)
class Slider:
    """What the threshold slider shows: one entry per step, from the strictest threshold to the most lenient.

    Attributes
    ----------
    threshold : list of float
        On the confidence; a sample is accepted if its confidence is at least this.
    threshold_text : list of str
        The threshold as people know it.
    coverage, risk : list of float
        Share of accepted samples, and their mean loss.
    low, high : list of float or None
        Limits of the risk.
    accepted : list of int
        How many samples are accepted.
    loss : list of float
        Their total loss.
    parts : list of Breakdown
        The same by group and by class.
    """

    threshold: list[float]
    threshold_text: list[str]
    coverage: list[float]
    risk: list[float]
    low: list[float | None]
    high: list[float | None]
    accepted: list[int]
    loss: list[float]
    parts: list[Breakdown]


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """At each step of the slider, the groups (or classes) with the largest error rates, and all others as one row.

    Attributes
    ----------
    by : str
        "group" or "true class".
    groups : int
        How many groups there are.
    names, totals : list
        Names and sample counts of the groups that are listed at some step.
    listed : list of list of int
        At each step, indices into `names`, worst first by the lower limit of the error rate.
    accepted, loss, risk, low, high : list of list
        At each step, the numbers of the listed groups, in the same order.
    unlisted : list of tuple
        At each step, the sum over all groups that are not listed: samples, accepted, loss, error rate.
    """

    by: str
    groups: int
    names: list[str]
    totals: list[int]
    listed: list[list[int]]
    accepted: list[list[int]]
    loss: list[list[float]]
    risk: list[list[float | None]]
    low: list[list[float | None]]
    high: list[list[float | None]]
    unlisted: list[tuple[int, int, float, float | None]]


def certified_point(curve: RiskCoverageCurve, rule: Threshold) -> int:
    """Index of the point of a model's curve at which a certified threshold of the same samples lies.

    The coverage of the rule is a share of the answered samples, that of the curve one of all samples.
    """
    coverage = rule.coverage * curve.coverage[-1]
    return int(np.argmin(np.abs(curve.coverage - coverage)))


def spread_points(curve: RiskCoverageCurve, low: float, points: int) -> np.ndarray:
    """Indices of points of a curve, about evenly spaced in coverage from `low` on."""
    grid = np.linspace(low, curve.coverage[-1], points)
    return np.unique(np.minimum(np.searchsorted(curve.coverage, grid - 1e-12), len(curve.coverage) - 1))


def make_slider(
    predictions: Predictions,
    curve: RiskCoverageCurve,
    samples: Samples,
    certified: CertifiedSteps,
    *,
    score: str,
    level: float,
    model_count: int,
) -> Slider:
    """Make the steps of the slider: at all distinct confidences or at some of them, and at each certified threshold.

    `samples` are losses and confidences of all samples, in the order of the file; samples on which the model abstained
    are never accepted. `curve` is their risk-coverage curve, from high to low confidence. `certified` are thresholds
    for several risks. `score` names the confidence, by which thresholds of class scores are written as plain values.
    `predictions` holds what a file says of one model: class scores or confidences, labels or losses, weights and
    groups. `level` is the two-sided confidence level, such as 0.95. With a larger `model_count`, or many groups, the
    slider has fewer steps.
    """
    loss, confidence = samples
    partitions = _partitions(predictions)
    listed_rows = sum(min(len(partition.names), GROUPS_SHOWN) for partition in partitions)
    max_steps = min(
        _SLIDER_STEPS, _ALL_SLIDER_STEPS // model_count, _MAX_CELLS // (model_count * max(1, listed_rows))
    )
    points = spread_points(curve, low=curve.coverage[-1] / max_steps, points=max_steps)
    points = np.union1d(points, [certified_point(curve, rule) for rule in certified.rules if rule.feasible])
    points = points.astype(np.int64)
    is_answered = np.ones(len(loss), dtype=bool) if predictions.abstained is None else ~predictions.abstained
    answered = np.flatnonzero(is_answered)
    most_confident_first = answered[np.argsort(-confidence[answered], kind="stable")]
    accepted_count = curve.count[points]
    threshold = curve.threshold[points].astype(np.float64)
    accepted_loss = np.append(0.0, np.cumsum(loss[most_confident_first]))[accepted_count]
    sorted_samples = (loss[most_confident_first], confidence[most_confident_first])
    low, high = _risk_limits(predictions, sorted_samples, accepted_count, accepted_loss, level)
    weight = np.ones(len(loss))
    if predictions.sample_weight is not None:
        weight = predictions.sample_weight.astype(np.float64)
    return Slider(
        threshold=threshold.tolist(),
        threshold_text=[threshold_text(predictions, score, value) for value in threshold],
        coverage=curve.coverage[points].tolist(),
        risk=curve.risk[points].tolist(),
        low=low.tolist(),
        high=high.tolist(),
        accepted=accepted_count.tolist(),
        loss=accepted_loss.tolist(),
        parts=[
            make_breakdown(partition, most_confident_first, loss, weight, accepted_count, level)
            for partition in partitions
        ],
    )


def _risk_limits(
    predictions: Predictions,
    sorted_samples: Samples,
    accepted_count: np.ndarray,
    accepted_loss: np.ndarray,
    level: float,
) -> np.ndarray:
    """Return lower and upper limits of the risk at each step, shape (2, steps); None where there are none.

    Clopper-Pearson limits for 0/1 losses, otherwise the interval of a mean if that is quick and at least 10 samples are
    accepted. Weighted samples have none. `sorted_samples` are losses and confidences of the answered samples, most
    confident first; at step k the first `accepted_count[k]` of them are accepted, with total loss `accepted_loss[k]`.
    `predictions` holds what a file says of one model: class scores or confidences, labels or losses, weights and
    groups. `level` is the two-sided confidence level, such as 0.95.
    """
    loss, confidence = sorted_samples
    if predictions.sample_weight is None and is_zero_one(loss):
        return np.asarray(clopper_pearson(accepted_loss, accepted_count, level))
    limits = np.full((2, len(accepted_count)), None)
    if predictions.sample_weight is None and float(accepted_count.sum()) <= MAX_SAMPLES_READ:
        for step in np.flatnonzero(accepted_count >= 10):
            count = accepted_count[step]
            risk = interval("risk", loss[:count], confidence[:count], level=level)
            limits[:, step] = risk.low, risk.high
    return limits


class Partition(NamedTuple):
    """A class or a group for each sample: its code, the name of each code, and what they are ("group", "class")."""

    codes: np.ndarray
    names: list[str]
    by: str


def make_breakdown(
    partition: Partition,
    most_confident_first: np.ndarray,
    loss: np.ndarray,
    weight: np.ndarray,
    accepted_count: np.ndarray,
    level: float,
) -> Breakdown:
    """At each step of the slider, list the worst groups by the lower limit of their mean loss, and sum up the others.

    Parameters
    ----------
    partition : Partition
        The group of each sample, as a code from 0, and the name of each code.
    most_confident_first : array of int
        Indices of the answered samples in this order.
    loss, weight : array, shape (samples,)
        Of all samples.
    accepted_count : array of int
        How many of `most_confident_first` are accepted at each step, ascending.
    level : float
        Confidence level of the limits.
    """
    group_count = len(partition.names)
    codes = partition.codes
    # sums over the accepted samples of each group; `_group_risks` reads them in this order
    summands = (
        np.ones(len(loss)),
        loss,
        weight,
        weight * loss,
        weight**2,
        (weight**2) * loss,
        (weight * loss) ** 2,
    )
    sums = np.zeros((len(summands), group_count))
    error_cost = _error_cost(loss)
    scale = Scale("normal" if bool((loss < 0).any()) else "log")
    group_sizes = np.bincount(codes, minlength=group_count)
    listed: list[np.ndarray] = []
    numbers: dict[str, list[Any]] = {
        name: [] for name in ("accepted", "loss", "risk", "low", "high", "unlisted")
    }
    for start, end in pairwise([0, *accepted_count]):
        newly_accepted = most_confident_first[start:end]
        for group_sums, values in zip(sums, summands):  # rows of `sums`, changed in place
            group_sums += np.bincount(
                codes[newly_accepted], weights=values[newly_accepted], minlength=group_count
            )
        accepted, accepted_loss, accepted_mass, weighted_loss = sums[:4]
        risk, low, high = _group_risks(sums, error_cost, scale, level)
        worst = worst_first(risk, low, high, lower_is_better=True)
        worst_listed = worst[:GROUPS_SHOWN]
        unlisted = worst[GROUPS_SHOWN:]
        unlisted_mass = float(accepted_mass[unlisted].sum())
        unlisted_risk = float(weighted_loss[unlisted].sum()) / unlisted_mass if unlisted_mass else None
        listed.append(worst_listed)
        numbers["accepted"].append(accepted[worst_listed].astype(int).tolist())
        numbers["loss"].append(round_six(accepted_loss[worst_listed]))
        numbers["risk"].append(_round_four(risk[worst_listed]))
        numbers["low"].append(_round_four(low[worst_listed]))
        numbers["high"].append(_round_four(high[worst_listed]))
        numbers["unlisted"].append(
            (
                int(group_sizes[unlisted].sum()),
                int(accepted[unlisted].sum()),
                float(accepted_loss[unlisted].sum()),
                unlisted_risk,
            )
        )
    ever_listed = np.unique(listed)
    return Breakdown(
        by=partition.by,
        groups=group_count,
        names=[partition.names[code] for code in ever_listed],
        totals=group_sizes[ever_listed].tolist(),
        listed=[np.searchsorted(ever_listed, worst_listed).tolist() for worst_listed in listed],
        **numbers,
    )


def _error_cost(loss: np.ndarray) -> float | None:
    """Return the loss of an error if all errors have the same; None for any other loss, 0 if there are no errors."""
    largest = float(loss.max())
    return largest if is_zero_one(loss / (largest or 1.0)) else None


def _group_risks(
    sums: np.ndarray, error_cost: float | None, scale: Scale, level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean loss of each group with its lower and upper limit; nan for groups without accepted samples.

    Errors of one cost have the exact limits of a proportion (with weights, of the effective number of draws). Other
    losses have Student's limits, and none if they do not vary: two equal losses do not prove that a group is bad.

    Parameters
    ----------
    sums : array, shape (7, groups)
        Sums over the accepted samples of each group, in this order: 1, loss, weight w, w loss, w^2, w^2 loss,
        w^2 loss^2.
    error_cost : float or None
        The loss of an error if every loss is 0 or this number; 0 if there are no errors, None for other losses.
    scale : Scale
        The scale on which Student's limits are symmetric around the mean: "normal", or "log" for losses that are not
        negative.
    level : float
        Confidence level.
    """
    mass, weighted_loss, squared_weight = sums[2:5]
    has_accepted = mass > 0
    risk, low, high = np.full((3, len(mass)), np.nan)
    mean = weighted_loss[has_accepted] / mass[has_accepted]
    # as many samples of equal weight would vary as much; the number of samples if there are no weights
    effective_n = mass[has_accepted] ** 2 / squared_weight[has_accepted]
    risk[has_accepted] = mean
    if error_cost is not None:
        error_share = mean / error_cost if error_cost else mean
        # many groups have the same counts, and the limits are computed once for each pair of counts
        counts, pair_index = np.unique([error_share * effective_n, effective_n], axis=1, return_inverse=True)
        errors, trials = counts
        limits = np.asarray(clopper_pearson(errors, trials, level)) * (error_cost if error_cost else 1.0)
        low[has_accepted], high[has_accepted] = limits[:, pair_index.reshape(-1)]
        return risk, low, high
    mass_sum, _, square_sum, square_loss_sum, square_loss2_sum = sums[2:, has_accepted]
    spread = square_loss2_sum - 2 * mean * square_loss_sum + mean**2 * square_sum
    varies = spread > 1e-12 * square_loss2_sum  # more than rounding error
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a single sample has the limits nan
        variance = np.where(varies, spread, np.nan) / mass_sum**2 * effective_n / (effective_n - 1)
        half_width = student_quantile(effective_n - 1, level) * np.sqrt(variance)
        scaled_half_width = half_width * scale.derivative(mean)  # by the derivative of the scale at the mean
        # the two numbers that lie so far from the mean on the scale
        limits = scale.shift(mean, np.stack([-scaled_half_width, scaled_half_width]))
        low[has_accepted], high[has_accepted] = limits
    return risk, low, high


def _partitions(predictions: Predictions) -> list[Partition]:
    """Return the partitions of the samples: by group if there are groups, by true class if it is known.

    Classes are called by the file's class names if these cover all labels, otherwise by their labels. `predictions`
    holds what a file says of one model: class scores or confidences, labels or losses, weights and groups.
    """
    labels = predictions.labels
    if labels is not None and labels.ndim > 1:
        labels = labels.argmax(axis=1)  # one-hot rows
    true_classes = labels if labels is not None else predictions.label_words
    partitions = []
    for values, by in ((predictions.groups, "group"), (true_classes, "true class")):
        if values is None:
            continue
        # `TextValues` are stored as codes into a list of texts
        distinct, codes = np.unique(
            values.code_of_row if isinstance(values, TextValues) else values, return_inverse=True
        )
        class_names = predictions.classes
        if isinstance(values, TextValues):
            names = [values.distinct_texts[int(code)] for code in distinct]
        elif by == "true class" and class_names and distinct[0] >= 0 and distinct[-1] < len(class_names):
            names = [class_names[int(code)] for code in distinct.tolist()]
        else:
            names = list(map(_format_label, distinct.tolist()))
        partitions.append(Partition(codes=codes.reshape(-1), names=names, by=by))
    return partitions


def _format_label(value: Any) -> str:
    """Format a numeric label with all digits, since 1234567 and 1234568 are different; nan is "none"."""
    return "none" if value != value else str(value).removesuffix(".0")


def round_six(values: np.ndarray) -> list[float]:
    """Round to six digits, more than a screen shows; whole numbers become int, which is shorter as JSON."""
    rounded = [float(f"{value:.6g}") for value in values.tolist()]
    return [int(value) if value.is_integer() else value for value in rounded]


def _round_four(values: np.ndarray) -> list[float | None]:
    """Round to four digits; nan becomes None, since JSON has no nan."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values.tolist()]
