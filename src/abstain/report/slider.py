"""The steps of the threshold slider: what is accepted at each threshold, in all and by group and class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from abstain._tables import GROUPS_SHOWN
from abstain.core.sorting import is_zero_one
from abstain.evaluation.results import worst_first
from abstain.formats import Predictions, TextValues
from abstain.inference.clusters import cluster_codes, split_two_way, two_way_variance
from abstain.inference.intervals import SMALLEST_DESIGN_EFFECT
from abstain.inference.point_limits import AcceptedSums, WeightTotals, limits_at_threshold
from abstain.metrics import RiskCoverageCurve
from abstain.report.certified import CertifiedSteps, border_text, certified_point, rule_border

Samples = tuple[np.ndarray, np.ndarray]  # losses and confidences of all samples, in the order of the file
_SLIDER_STEPS = 400  # for one model
_ALL_SLIDER_STEPS = 600  # for all models together
GROUPS_UNFOLDED = 10  # rows of a table of groups that are shown at first
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
        Limits of the risk at a threshold that was fixed beforehand.
    accepted : list of int
        How many samples are accepted, without those of weight 0.
    loss : list of float
        Their total loss without weights: for 0/1 losses, how many of the accepted samples are wrong.
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


class GroupSum(NamedTuple):
    """Sums over several groups: all their samples, the accepted ones, and the loss and mean loss of these."""

    samples: int
    accepted: int
    loss: float
    risk: float | None


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
    folded : list of tuple
        The same over all groups but the first `GROUPS_UNFOLDED`, which the page shows before the reader asks for more.
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
    unlisted: list[GroupSum]
    folded: list[GroupSum]


def spread_points(curve: RiskCoverageCurve, lowest_coverage: float, point_count: int) -> np.ndarray:
    """Indices of at most `point_count` points of a curve, about evenly spaced in coverage from the lowest one on."""
    grid = np.linspace(lowest_coverage, curve.coverage[-1], point_count)
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
    are never accepted, and those of weight 0 do not count. `curve` is the risk-coverage curve of the others, from high
    to low confidence. Coverages and risks are weighted; beside them the page shows how many samples are accepted and
    how many of these are wrong, as counts without weights. `certified` are thresholds
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
    first_coverage = curve.coverage[-1] / max_steps  # that of the strictest step
    points = spread_points(curve, lowest_coverage=first_coverage, point_count=max_steps)
    points = np.union1d(points, [certified_point(curve, rule) for rule in certified.rules if rule.feasible])
    points = points.astype(np.int64)
    texts = {int(point): border_text(predictions, score, curve, int(point)) for point in points}
    for rule in certified.rules:  # the same number as in the words of the rule
        if rule.feasible and rule.value != -np.inf:
            texts[certified_point(curve, rule)] = rule_border(rule, predictions, score, curve)
    weight = np.ones(len(loss))
    if predictions.sample_weight is not None:
        weight = predictions.sample_weight.astype(np.float64)
    is_in_curve = weight > 0  # as in `curve.count`
    if predictions.abstained is not None:
        is_in_curve &= ~predictions.abstained
    in_curve = np.flatnonzero(is_in_curve)
    most_confident_first = in_curve[np.argsort(-confidence[in_curve], kind="stable")]
    accepted_count = curve.count[points]
    threshold = curve.threshold[points].astype(np.float64)
    # at step k the first accepted_count[k] samples are accepted, and this is their total loss, without weights
    accepted_loss = np.append(0.0, np.cumsum(loss[most_confident_first]))[accepted_count]

    def break_down(partition: Partition, **options: Any) -> Breakdown:
        """The same steps by group; of a partition into a single group, the limits of all samples together.

        `accepted_count` says how many samples of `most_confident_first` (indices) are accepted at each step. `options`
        are others of `make_breakdown`, such as `digits`.
        """
        return make_breakdown(
            partition,
            most_confident_first,
            loss,
            weight,
            predictions.clusters,
            accepted_count,
            level,
            **options,
        )

    low, high = _risk_limits(predictions, len(loss), len(points), break_down)
    return Slider(
        threshold=threshold.tolist(),
        threshold_text=list(texts.values()),
        coverage=curve.coverage[points].tolist(),
        risk=curve.risk[points].tolist(),
        low=low,
        high=high,
        accepted=accepted_count.tolist(),
        loss=accepted_loss.tolist(),
        parts=list(map(break_down, partitions)),
    )


def _risk_limits(
    predictions: Predictions,
    sample_count: int,
    step_count: int,
    break_down: Callable[..., Breakdown],
) -> tuple[list[float | None], list[float | None]]:
    """Return the lower and the upper limits of the risk at each step, for a threshold that was fixed beforehand.

    They are those of `abstain.evaluate` for the accepted samples alone, by their weights and clusters. Limits of the
    risk at a coverage would be others: its threshold moves with the sample, which tells most where many samples tie
    below the threshold. There are none (None) for clusters of so many samples that a page would have to wait for them.
    `break_down` takes the samples in groups, and returns the numbers of the groups at each step, rounded to `digits`.
    It knows weights, clusters and the accepted samples.
    """
    no_limits: list[float | None] = [None] * step_count
    # with clusters every step takes another pass over them
    if predictions.clusters is not None and sample_count * step_count > MAX_SAMPLES_READ:
        return no_limits, no_limits
    everything = break_down(Partition(np.zeros(sample_count, dtype=np.intp), ["all"], by="group"), digits=12)
    # lists of the limits of the listed groups at each step: there is one group
    return [limits[0] for limits in everything.low], [limits[0] for limits in everything.high]


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
    clusters: np.ndarray | None,
    accepted_count: np.ndarray,
    level: float,
    digits: int = 4,
) -> Breakdown:
    """At each step of the slider, list the worst groups by the lower limit of their mean loss, and sum up the others.

    Parameters
    ----------
    partition : Partition
        The group of each sample, as a code from 0, and the name of each code.
    most_confident_first : array of int
        Indices of the answered samples of positive weight, in this order.
    loss, weight : array, shape (samples,)
        Of all samples.
    clusters : array or None
        The cluster of each sample, with two columns for two kinds of clusters; None if all samples are independent.
    accepted_count : array of int
        How many of `most_confident_first` are accepted at each step, ascending.
    level : float
        Confidence level of the limits.
    digits : int
        To which risks and limits are rounded: they take most of a page's size.
    """
    group_count = len(partition.names)
    codes = partition.codes
    error_cost = _error_cost(loss)
    unit = error_cost or 1.0  # of losses: errors of one cost become 0/1 losses
    in_units = loss / unit
    # sums over the accepted samples of each group; `_group_risks` reads all but the first two, in this order
    summands = [np.ones(len(loss)), loss, weight, weight * in_units]
    with np.errstate(over="ignore"):  # without finite squares there are no limits
        summands += [weight**2 * in_units**power for power in range(3)]
        summands += [weight**4 * in_units**power for power in range(5)]
    sums = np.zeros((len(summands), group_count))
    all_weights = WeightTotals(
        total_mass=float(weight.sum()),
        squared_weight_sum=float(np.sum(weight**2)),
        fourth_power_weight_sum=float(np.sum(weight**4)),
        unit_count=len(weight),
        zero_one=error_cost is not None,
        has_negative_loss=bool((loss < 0).any()),
    )
    cluster_sums = []
    if clusters is not None:
        numbers_of_clusters = cluster_codes("report", clusters, len(loss))
        assert numbers_of_clusters is not None
        kinds = (
            [numbers_of_clusters]
            if numbers_of_clusters.ndim == 1
            else list(split_two_way(numbers_of_clusters))
        )
        cluster_sums = [_ClusterSums(partition, kind, weight, weight * in_units) for kind in kinds]
    group_sizes = np.bincount(codes, minlength=group_count)
    listed: list[np.ndarray] = []
    numbers: dict[str, list[Any]] = {
        name: [] for name in ("accepted", "loss", "risk", "low", "high", "unlisted", "folded")
    }
    for start, end in pairwise([0, *accepted_count]):
        newly_accepted = most_confident_first[start:end]
        for group_sums, values in zip(sums, summands):  # rows of `sums`, changed in place
            group_sums += np.bincount(
                codes[newly_accepted], weights=values[newly_accepted], minlength=group_count
            )
        for one_kind in cluster_sums:
            one_kind.add(newly_accepted)
        accepted, accepted_loss, accepted_mass, weighted_loss = sums[:4]
        risk, low, high = unit * _group_risks(sums, all_weights, cluster_sums, level)
        worst = worst_first(risk, low, high, lower_is_better=True)
        worst_listed = worst[:GROUPS_SHOWN]
        listed.append(worst_listed)
        numbers["accepted"].append(accepted[worst_listed].astype(int).tolist())
        numbers["loss"].append(round_six(accepted_loss[worst_listed]))
        numbers["risk"].append(_round_to(digits, risk[worst_listed]))
        numbers["low"].append(_round_to(digits, low[worst_listed]))
        numbers["high"].append(_round_to(digits, high[worst_listed]))
        for name, first in (("unlisted", GROUPS_SHOWN), ("folded", GROUPS_UNFOLDED)):
            summed_groups = worst[first:]
            mass = float(accepted_mass[summed_groups].sum())
            numbers[name].append(
                GroupSum(
                    samples=int(group_sizes[summed_groups].sum()),
                    accepted=int(accepted[summed_groups].sum()),
                    loss=float(accepted_loss[summed_groups].sum()),
                    risk=unit * float(weighted_loss[summed_groups].sum()) / mass if mass else None,
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


class _SumsOfSquares(NamedTuple):
    """Sums over the clusters of each group of samples, shape (groups,) each.

    `square_sum` is the sum of squares of what each cluster adds to the weighted loss less its mean, times C / (C - 1)
    for C clusters: a variance. `squared_mass_sum` is the sum of the squared masses of the clusters, and `cluster_count`
    their number.
    """

    square_sum: np.ndarray
    squared_mass_sum: np.ndarray
    cluster_count: np.ndarray


class _ClusterSums:
    """Weight and weighted loss of the accepted samples of each cluster within each group, as more are accepted.

    `cluster` has the number of each sample's cluster; `weight` and `weighted_loss` have one entry per sample, too. A
    partition divides all samples into groups: `codes` has the number of each sample's group.
    """

    def __init__(
        self, partition: Partition, cluster: np.ndarray, weight: np.ndarray, weighted_loss: np.ndarray
    ) -> None:
        group_and_cluster = np.stack([partition.codes, cluster])
        part, part_of_sample = np.unique(group_and_cluster, axis=1, return_inverse=True)
        self.group_of_part = part[0]  # a part is the samples that are both in one group and in one cluster
        self.part_of_sample = part_of_sample.reshape(-1)
        self.group_count = len(partition.names)
        self.values = (weight, weighted_loss)
        # mass and weighted loss of the accepted samples of each part, shape (2, parts)
        self.sums = np.zeros((2, len(self.group_of_part)))

    def add(self, newly_accepted: np.ndarray) -> None:
        """Accept further samples, given by their indices."""
        for part_sums, values in zip(self.sums, self.values):
            part_sums += np.bincount(
                self.part_of_sample[newly_accepted],
                weights=values[newly_accepted],
                minlength=len(self.group_of_part),
            )

    def sums_of_squares(self, risk: np.ndarray) -> _SumsOfSquares:
        """Return sums of squares over the clusters of each group, among the samples that are accepted so far.

        `risk` is the mean loss of each group, nan where none of its samples is accepted: its sum of squares is nan too.
        A part is the samples that are both in one group and in one cluster; `self.group_of_part` has the number of its
        group. Mass is weight. Nothing is changed: `add` accepts samples. All results have shape (groups,).
        """
        # two rows with one entry per part: weight and weighted loss of its accepted samples
        mass, loss = self.sums
        # of each part: its weighted loss less what samples with the mean loss of its group would have
        deviation = loss - mass * risk[self.group_of_part]
        by_group = partial(np.bincount, self.group_of_part, minlength=self.group_count)  # sums over parts
        # clusters with accepted samples, in each group; C / (C - 1) makes the sum of squares an unbiased variance
        count = by_group(weights=(mass > 0).astype(np.float64))
        inflation = count / np.maximum(count - 1, 1)
        return _SumsOfSquares(
            square_sum=inflation * by_group(weights=deviation**2),
            squared_mass_sum=by_group(weights=mass**2),
            cluster_count=count,
        )


def _group_risks(
    sums: np.ndarray, all_weights: WeightTotals, cluster_sums: Sequence[_ClusterSums], level: float
) -> np.ndarray:
    """Return the mean loss of each group with its lower and upper limit, shape (3, groups), in units of an error.

    The limits are those of `abstain.evaluate` for the risk of the accepted samples of the group, at a threshold that is
    fixed. Groups without accepted samples have the risk nan. There are no limits (nan) for a single cluster, and where
    losses other than errors do not vary: two equal losses do not prove that a group is bad.

    Parameters
    ----------
    sums : array, shape (12, groups)
        Sums over the accepted samples of each group, in this order: 1, loss in the user's units, and with losses l in
        units of an error and weights w: w, w l, w^2 l^j for j = 0, 1, 2, and w^4 l^j for j = 0 ... 4.
    all_weights : WeightTotals
        Sums of the weights of all samples.
    cluster_sums : sequence of _ClusterSums
        Empty for independent samples; one for clusters; three for two kinds of clusters and their intersections.
    level : float
        Confidence level.
    """
    count, _, mass, weighted_loss = sums[:4]  # of the accepted samples of each group
    squared_weight_moments = sums[4:7]  # sums of w^2, w^2 l and w^2 l^2
    fourth_power_moments = sums[7:12]  # sums of w^4 l^j, j = 0 ... 4
    result = np.full((3, sums.shape[1]), np.nan)
    has_accepted = mass > 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # empty groups, huge losses
        risk = weighted_loss / mass
        result[0] = risk
        w2, w2_l, w2_l2 = squared_weight_moments
        square_sum = w2_l2 - 2 * risk * w2_l + risk**2 * w2  # of the squares of weight * (loss - risk)
        varies = square_sum > 1e-12 * w2_l2  # more than rounding error
        # Clusters multiply the variance by `design_effect`. Where all accepted 0/1 losses are equal, no variance is
        # seen: the number of draws is then divided by `cluster_effect`. Both are 1 without clusters.
        design_effect, cluster_effect = np.ones((2, sums.shape[1]))
        has_limits = has_accepted if all_weights.zero_one else has_accepted & varies
        if cluster_sums:
            by_kind = [
                one_kind.sums_of_squares(np.where(has_accepted, risk, 0.0)) for one_kind in cluster_sums
            ]
            variance = by_kind[0].square_sum
            if len(by_kind) > 1:
                variance = two_way_variance(*(one_kind.square_sum for one_kind in by_kind))
            design_effect = np.where(varies, np.maximum(variance / square_sum, SMALLEST_DESIGN_EFFECT), 1.0)
            # effective numbers are mass^2 / (sum of squares), so samples over clusters is this ratio
            cluster_effect = np.max([one_kind.squared_mass_sum / w2 for one_kind in by_kind], axis=0)
            fewest_clusters = np.min([one_kind.cluster_count for one_kind in by_kind], axis=0)
            has_limits = has_limits & (fewest_clusters > 1)
        # many groups have the same sums, and the limits are computed once for each
        columns = np.vstack(
            [
                count,
                mass,
                weighted_loss,
                squared_weight_moments,
                fourth_power_moments,
                design_effect,
                cluster_effect,
            ]
        )
        distinct, index = np.unique(columns[:, has_limits], axis=1, return_inverse=True)
        distinct_count, distinct_mass, distinct_loss = distinct[:3]
        accepted = AcceptedSums(
            row_mass=distinct_mass,  # only read where the threshold moves
            accepted_mass=distinct_mass,
            accepted_loss=distinct_loss,
            squared_weight_moments=distinct[3:6],
            fourth_power_moments=distinct[6:11],
        )
        # The degrees of freedom of a limit are those of the accepted samples of the group. The sums over all weights
        # stay: they say whether weights are 1, and have no other effect at a threshold that is fixed.
        weights_of_group = all_weights._replace(unit_count=distinct_count)
        limits = limits_at_threshold(
            accepted, weights_of_group, level, design_effect=distinct[11], cluster_effect=distinct[12]
        )
    result[1:, has_limits] = np.stack(limits)[:, index.reshape(-1)]
    return result


def _partitions(predictions: Predictions) -> list[Partition]:
    """Return the partitions of the samples: by group if there are groups, by true class if it is known.

    Classes are called by the file's class names if these cover all labels, otherwise by their labels. `predictions`
    holds what a file says of one model: class scores or confidences, labels or losses, weights and groups. A partition
    has a code from 0 for each sample, the name of each code, and what they are ("group" or "true class").
    """
    labels = predictions.labels
    if labels is not None and labels.ndim > 1:
        labels = labels.argmax(axis=1)  # one-hot rows
    true_classes = labels if labels is not None else predictions.label_words  # numbers, else words
    partitions = []
    for values, by in ((predictions.groups, "group"), (true_classes, "true class")):
        if values is None:
            continue
        # `TextValues` are stored as codes into a list of texts
        distinct, codes = np.unique(
            values.code_of_row if isinstance(values, TextValues) else values, return_inverse=True
        )
        class_names = predictions.classes
        # words name themselves; class numbers are looked up; all other numbers are written as they are
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


def _round_to(digits: int, values: np.ndarray) -> list[float | None]:
    """Round to this many digits; nan becomes None, since JSON has no nan."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values.tolist()]
