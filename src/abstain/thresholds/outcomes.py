"""What each threshold leads to: its cost, and the rates that a clinic reads.

The cost counts errors of different price and rejected cases that a person answers. The clinical rates (sensitivity,
specificity, predictive values) are those of the accepted samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from abstain import _tables
from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import check_fraction, check_nonnegative, refuse_other_row_order
from abstain._plots import GREY, FigureSize, draw_legend, line_style, make_axes
from abstain._stored import Stored, Within
from abstain.core.curve_points import cheapest
from abstain.core.sorting import rank_samples
from abstain.errors import InputError, ShapeError
from abstain.inference.clusters import cluster_codes, split_two_way, two_way_variance
from abstain.metrics._sample import Sample, group_codes, prepare
from abstain.thresholds.testing import clopper_pearson

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FUNCTION_NAME = "cost_curve"  # in messages
Shares = Annotated[np.ndarray, Within(0, 1, nan=True)]
Counts = Annotated[np.ndarray, Within(0, dtype=int)]
CLINICAL_RATES = ("sensitivity", "specificity", "ppv", "npv", "prevalence")


@dataclass(frozen=True, eq=False)
class CostCurve(_tables.Notebook):
    """Cost per sample against the threshold, from "reject everything" to "accept everything"; lower is better.

    Attributes
    ----------
    value : ndarray
        Accept when `confidence >= value`; +infinity rejects everything.
    coverage : ndarray
        Share accepted.
    model_cost, reject_cost : ndarray
        The loss of the accepted, and what the rejected cost; their sum is `cost`.
    person_loss : ndarray
        The part of `reject_cost` that is the person's own errors; with `model_cost` it makes `system_loss`.
    n : int
        Samples in all.

    Examples
    --------
    >>> curve = cost_curve([0, 0, 1], [0.9, 0.8, 0.1], cost=0.1)
    >>> curve.best, curve.coverage[curve.best].round(3).item(), curve.cost.round(3).tolist()
    (2, 0.667, [0.1, 0.067, 0.033, 0.333])
    """

    value: np.ndarray
    coverage: np.ndarray
    model_cost: np.ndarray
    reject_cost: np.ndarray
    person_loss: np.ndarray
    n: int

    @property
    def cost(self) -> np.ndarray:
        """What a sample costs on average."""
        return self.model_cost + self.reject_cost

    @property
    def system_loss(self) -> np.ndarray:
        """Loss of the answers given, by the model or by the person."""
        return self.model_cost + self.person_loss

    @property
    def best(self) -> int:
        """Row of the least cost; the largest coverage among equals."""
        return cheapest(self.cost)

    def columns(self) -> dict[str, list[Any]]:
        """Plain lists by name."""
        names = ("value", "coverage", "model_cost", "reject_cost", "person_loss", "system_loss", "cost")
        return {name: getattr(self, name).tolist() for name in names}

    def frame(self, library: str | None = None) -> Any:
        """A data frame with one row per threshold."""
        return _tables.make_frame(self.columns(), library)

    def plot(self, ax: Axes | None = None, *, size: FigureSize | None = None) -> Axes:
        """Draw cost and its parts against coverage, with the least cost marked.

        Draws on `ax`, or on a new figure of this `size` ("column", "page" or inches; None for the screen), and returns
        the axes.

        At each threshold, `model_cost` is the loss of the model's answers, and `reject_cost` the cost of the rejected
        samples; `person_loss` is the part of `reject_cost` that is lost by the answers of the person who gets them.
        `cost` is `model_cost` plus `reject_cost`, and `system_loss` is `model_cost` plus `person_loss`. All are means
        over all samples, accepted or not.
        """
        drawn: Any = make_axes(ax, size=size)
        best = self.best  # the row with the least cost
        cost_colour = line_style(0).color
        drawn.plot(self.coverage, self.cost, color=cost_colour, label="cost")
        drawn.plot(
            self.coverage, self.model_cost, color=line_style(1).color, lw=1, ls="--", label="model errors"
        )
        drawn.plot(self.coverage, self.reject_cost, color=GREY, lw=1, ls=":", label="rejections")
        if self.person_loss.any():  # otherwise the loss of the system is the cost of the model's errors
            drawn.plot(
                self.coverage,
                self.system_loss,
                color=line_style(3).color,
                lw=1,
                ls="-.",
                label="loss of the system",
            )
        label = f"least: {self.cost[best]:.4g}"
        drawn.plot([self.coverage[best]], [self.cost[best]], "o", color=cost_colour, label=label)
        drawn.set(xlabel="coverage of the model", ylabel="per sample", xlim=(0, 1), ylim=(0, None))
        drawn.grid(alpha=0.3)
        draw_legend(drawn)
        return drawn

    def __repr__(self) -> str:
        best = self.best
        return (
            f"CostCurve({len(self.value)} thresholds, n = {self.n}): least cost {self.cost[best]:.4g} per sample at "
            f"confidence >= {self.value[best]:.6g}, coverage {self.coverage[best]:.4f} "
            f"(all rejected {self.cost[0]:.4g}, all accepted {self.cost[-1]:.4g})"
        )


@refuse_other_row_order
def cost_curve(
    loss: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    cost: float | ArrayLike = 0.0,
    person_loss: float | ArrayLike = 0.0,
    sample_weight: ArrayLike | None = None,
) -> CostCurve:
    r"""What each threshold costs; lower is better.

    .. math:: C(t) = E[\ell\,1(g \ge t)] + E[(d + h)\,1(g < t)]

    with the loss :math:`\ell` of the model's answer, the cost d of handing a case over and the loss h of the person who
    answers it then. Equal confidences are accepted together.

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        One loss and one confidence (higher = surer) per sample.
    cost, person_loss : float or array
        d and h, one number or one per sample (`class_costs` makes them from a cost matrix). h is 0 for a mere
        rejection, 1 - accuracy for a person under 0/1 loss.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.

    Returns
    -------
    CostCurve

    Examples
    --------
    >>> curve = cost_curve([0, 0, 1], [0.9, 0.8, 0.1], cost=0.1, person_loss=0.05)
    >>> curve.cost.round(4).tolist()
    [0.15, 0.1, 0.05, 0.3333]
    >>> curve.value[curve.best].item()
    0.8
    """
    sample = prepare(FUNCTION_NAME, to_host(loss), to_host(confidence), to_host(sample_weight), vector=True)
    # `prepare` leaves out samples of weight 0; so must the costs
    has_weight = None if sample_weight is None else np.asarray(to_host(sample_weight)) > 0
    handover_cost = _cost_of_each_sample("cost", cost, sample, has_weight)
    loss_of_person = _cost_of_each_sample("person_loss", person_loss, sample, has_weight)
    # most confident first; `accepted_loss[k]` and `accepted_mass[k]` sum loss and weight of the k most confident
    ranked = rank_samples(sample.loss, sample.confidence, sample.weight)
    block_stops = ranked.row_stops()  # samples at least as confident as each distinct confidence
    count = np.append(0, block_stops)  # accepted by each threshold; 0: everything is rejected

    def mean_over_rejected(values: np.ndarray) -> np.ndarray:
        """Sum of the rejected samples' values at each threshold, divided by the total weight of all samples."""
        accepted_sum = rank_samples(values, sample.confidence, sample.weight).accepted_loss[count]
        accepted_part = accepted_sum / sample.total_mass
        return np.asarray(accepted_part[-1] - accepted_part)

    return CostCurve(
        value=np.append(np.inf, ranked.smallest_confidence(block_stops)),
        coverage=ranked.accepted_mass[count] / sample.total_mass,
        model_cost=ranked.accepted_loss[count] / sample.total_mass,
        reject_cost=mean_over_rejected(handover_cost + loss_of_person),
        person_loss=mean_over_rejected(loss_of_person),
        n=len(sample.loss),
    )


def _cost_of_each_sample(
    argument: str, values: float | Array, sample: Sample, has_weight: np.ndarray | None
) -> np.ndarray:
    """Return a cost for each sample of positive weight, from one number or from one cost per sample.

    `argument` is the user's name of `values`, for messages. `has_weight` marks the samples that `sample` holds among
    those the user gave (those of weight 0 were left out); None if it holds all. Costs may be given for all samples, or
    for those in `sample` alone. Raises ShapeError for another shape, InputError for a cost that is below 0 or not
    finite.
    """
    costs = np.asarray(to_host(values), dtype=np.float64)
    if costs.ndim == 0:  # one number; raises unless it is finite and at least 0
        return np.full(len(sample.loss), check_nonnegative(FUNCTION_NAME, argument, costs))
    if has_weight is not None and costs.shape == has_weight.shape:
        costs = costs[has_weight]
    if costs.shape != sample.loss.shape:
        rule = f"`{argument}` must be a number or one per sample"
        raise ShapeError(f"{FUNCTION_NAME}: {rule}, got shape {costs.shape}.")
    return _check_costs(FUNCTION_NAME, argument, costs)


def _check_costs(function: str, argument: str, costs: np.ndarray) -> np.ndarray:
    """Return the costs unchanged; raise InputError unless all are finite and at least 0."""
    if not (np.isfinite(costs).all() and (costs >= 0).all()):
        raise InputError(f"{function}: `{argument}` must be finite and at least 0 throughout.")
    return costs


@refuse_other_row_order
def class_costs(
    labels: ArrayLike, predictions: ArrayLike, /, *, errors: ArrayLike, rejections: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Loss of each answer and cost of each rejection, from costs by class: what `cost_curve` takes.

    Parameters
    ----------
    labels, predictions : array of int, shape (n,)
        The true classes and the model's answers, 0 ... K-1.
    errors : array, shape (K, K)
        errors[y, p] is the cost of answering p where y is true.
    rejections : float or array, shape (K,), optional
        The cost of handing over a case of each class, or of any; 0 when left out.

    Returns
    -------
    loss, cost : ndarray, shape (n,)
        errors[y, p] and rejections[y] of each sample.

    Examples
    --------
    >>> class_costs([0, 1, 1], [0, 0, 1], errors=[[0, 1], [10, 0]], rejections=[0.1, 0.5])
    (array([ 0., 10.,  0.]), array([0.1, 0.5, 0.5]))
    """
    cost_matrix = np.asarray(errors, dtype=np.float64)
    true_class = np.asarray(to_host(labels))
    predicted_class = np.asarray(to_host(predictions))
    if cost_matrix.ndim != 2 or cost_matrix.shape[0] != cost_matrix.shape[1]:
        raise ShapeError(f"class_costs: `errors` must be a square matrix, got shape {cost_matrix.shape}.")
    class_count = len(cost_matrix)
    _check_classes(true_class, predicted_class, class_count)  # raises unless they are whole numbers 0 ... K-1
    _check_costs("class_costs", "errors", cost_matrix)  # raises for a cost that is below 0 or not finite
    rejection_costs = np.asarray(0.0 if rejections is None else to_host(rejections), dtype=np.float64)
    if rejection_costs.shape not in ((), (class_count,)):
        rule = f"`rejections` must be a number or one for each of {class_count} classes"
        raise ShapeError(f"class_costs: {rule}, got shape {rejection_costs.shape}.")
    _check_costs("class_costs", "rejections", rejection_costs)
    rejection_cost_of_class = np.broadcast_to(rejection_costs, class_count)
    return cost_matrix[true_class, predicted_class], rejection_cost_of_class[true_class]


def _check_classes(labels: np.ndarray, predictions: np.ndarray, class_count: int) -> None:
    """Raise ShapeError unless both are vectors of one length, InputError unless of whole numbers 0 ... class_count - 1.

    They may be empty.
    """
    if labels.shape != predictions.shape or labels.ndim != 1:
        shapes = f"{labels.shape} and {predictions.shape}"
        raise ShapeError(f"class_costs: needs one label and one prediction each, got {shapes}.")
    if labels.dtype.kind not in "iu" or predictions.dtype.kind not in "iu":
        dtypes = f"{labels.dtype} and {predictions.dtype}"
        raise InputError(f"class_costs: classes must be whole numbers 0 ... K-1, got {dtypes}.")
    if not labels.size:
        return
    smallest = min(labels.min(), predictions.min())
    largest = max(labels.max(), predictions.max())
    if smallest < 0 or largest >= class_count:
        raise InputError(f"class_costs: classes must lie in 0 ... {class_count - 1}.")


# What a clinic reads: how good the answers are among the accepted ------------------------------------


@dataclass(frozen=True, eq=False)
class Rate:
    """A proportion with its exact interval, one row per threshold; NaN where there is nothing to divide by."""

    value: Shares
    low: Shares
    high: Shares
    of: Counts  # how many samples the proportion is taken of

    def texts(self) -> list[str]:
        """Each proportion with its interval as text; a dash where there is nothing to divide by."""
        texts = []
        for value, low, high, count in zip(self.value, self.low, self.high, self.of):
            texts.append(f"{value:.3f} [{low:.3f}, {high:.3f}]" if count else "-")
        return texts


@dataclass(frozen=True, eq=False)
class ClinicalTable(Stored):
    """Among the accepted, one row per threshold: rates for the positive class, and the mix of true classes.

    Each rate is a `Rate`: `value`, `low`, `high` and the number `of` samples it is taken of, as arrays.

    Attributes
    ----------
    threshold, accepted, coverage : ndarray
        Accept when `confidence >= threshold`; how many samples that takes, and what share.
    sensitivity, specificity, ppv, npv, prevalence : Rate
        Of the accepted only: a positive case that was handed over is neither found nor missed by the model.
    positives_accepted : Rate
        What share of the positive cases the model answers at all.
    class_mix : dict
        Share of each true class among the accepted.
    positive
        The class the rates speak of.
    level : float
        At which each interval holds on its own.
    n : int
        Samples in all.

    Examples
    --------
    >>> t = clinical_table([1, 1, 0, 0], [1, 0, 0, 0], [0.9, 0.2, 0.8, 0.7], thresholds=[0.5])
    >>> t.accepted.tolist(), t.positives_accepted.value.tolist()
    ([3], [0.5])
    """

    _noun: ClassVar[str] = "a clinical table"

    threshold: Annotated[np.ndarray, Within(infinite=True)]
    accepted: Counts
    coverage: Shares
    sensitivity: Rate
    specificity: Rate
    ppv: Rate
    npv: Rate
    prevalence: Rate
    positives_accepted: Rate
    class_mix: dict[Any, Shares]
    positive: Any
    level: float
    n: int

    def columns(self) -> dict[str, list[Any]]:
        """Return one list per column, by name: thresholds, coverage, each rate with its limits, and the class mix."""
        result = {name: getattr(self, name).tolist() for name in ("threshold", "accepted", "coverage")}
        for name in (*CLINICAL_RATES, "positives_accepted"):
            rate: Rate = getattr(self, name)
            result[name] = rate.value.tolist()
            result[f"{name}_low"] = rate.low.tolist()
            result[f"{name}_high"] = rate.high.tolist()
        return result | {f"share of {label}": share.tolist() for label, share in self.class_mix.items()}

    def frame(self, library: str | None = None) -> Any:
        """A data frame with one row per threshold."""
        return _tables.make_frame(self.columns(), library)

    def grid(self) -> dict[str, list[str]]:
        """The table as text."""
        rates = {name: getattr(self, name).texts() for name in CLINICAL_RATES}
        return {
            "threshold": [_threshold_text(threshold) for threshold in self.threshold],
            "coverage": [f"{coverage:.3f}" for coverage in self.coverage],
            **rates,
        }

    def _head(self) -> str:
        return f"Among the accepted, positive = {self.positive!r}, n = {self.n}, level {self.level:g}"

    def __repr__(self) -> str:
        return f"{self._head()}\n{_tables.text_table(self.grid())}"

    def to_latex(self) -> str:
        """As a LaTeX table (booktabs)."""
        return _tables.latex_table(self.grid(), self._head(), "Of the accepted only, with exact intervals.")

    def _repr_html_(self) -> str:
        return _tables.html_table(self.grid(), self._head())


def _threshold_text(threshold: float) -> str:
    """Four digits of a threshold; one that is below 1 and would round to it is its distance, such as "1 − 3e-09"."""
    text = f"{threshold:.4g}"
    return f"1 − {1 - threshold:.2g}" if text == "1" and threshold < 1 else text


@refuse_other_row_order
def clinical_table(
    labels: ArrayLike,
    predictions: ArrayLike,
    confidence: ArrayLike,
    /,
    *,
    positive: Any = 1,
    thresholds: ArrayLike | None = None,
    level: float = 0.95,
    clusters: ArrayLike | None = None,
) -> ClinicalTable:
    """Sensitivity, specificity, PPV, NPV and class mix among the accepted, with exact (Clopper-Pearson) intervals.

    A sample is accepted when its confidence is at least the threshold, so equal confidences go together. With true and
    false positives and negatives counted among the accepted: sensitivity = TP / (TP + FN), specificity =
    TN / (TN + FP), PPV = TP / (TP + FP), NPV = TN / (TN + FN).

    Parameters
    ----------
    labels, predictions, confidence : array, shape (n,)
        The true class, the model's answer, and how sure it is (higher = surer).
    positive
        The class that is looked for; more than two classes are read as this one against the rest.
    thresholds : array, optional
        Those of coverage 100%, 90%, ..., 10% when left out.
    level : float in (0, 1)
        Of each interval on its own; they are not joint.
    clusters : array, shape (n,) or (n, 2), optional
        The cluster of each sample, such as its patient; two columns for two kinds of clusters. An interval is then that
        of as many independent draws as have the variance of the rate, and never narrower than without clusters.

    Returns
    -------
    ClinicalTable

    Examples
    --------
    >>> t = clinical_table([1, 1, 0, 0], [1, 0, 0, 0], [0.9, 0.2, 0.8, 0.7], thresholds=[0.0, 0.5])
    >>> t.sensitivity.value.tolist(), t.npv.value.round(3).tolist(), t.coverage.tolist()
    ([0.5, 1.0], [0.667, 1.0], [1.0, 0.75])
    """
    true_class = np.asarray(to_host(labels))
    predicted_class = np.asarray(to_host(predictions))
    confidence = _check_clinical_sample(true_class, predicted_class, np.asarray(to_host(confidence)))
    classes = np.unique(true_class)
    if not np.isin(positive, np.concatenate([classes, np.unique(predicted_class)])):
        rule = f"`positive` must be one of the classes {classes.tolist()}"
        raise InputError(f"clinical_table: {rule}, got {positive!r}.")
    level = check_fraction("clinical_table", "level", level, open_high=True)
    n = len(confidence)
    most_confident_first = np.argsort(confidence, kind="stable")[::-1]
    falling_confidence = confidence[most_confident_first]
    if thresholds is None:
        tenths = np.arange(1, 11)
        samples_accepted = -(-n * tenths // 10)  # rounded up
        threshold = np.unique(falling_confidence[samples_accepted - 1])
    else:
        threshold = np.atleast_1d(np.asarray(to_host(thresholds), dtype=np.float64))
        if threshold.ndim != 1 or np.isnan(threshold).any():
            raise InputError("clinical_table: `thresholds` must be numbers, one or a vector of them.")
    accepted = n - np.searchsorted(falling_confidence[::-1], threshold, side="left")

    def count_accepted(mask: np.ndarray) -> np.ndarray:
        """How many samples of the mask each threshold accepts."""
        return np.append(0, np.cumsum(mask[most_confident_first]))[accepted]

    codes = cluster_codes("clinical_table", clusters, n)
    sample_clusters = None if codes is None else codes[most_confident_first]

    def rate(is_hit: np.ndarray, is_trial: np.ndarray, *, of_accepted: bool = True) -> Rate:
        """The share of hits among the accepted trials, or of accepted hits among all trials, at each threshold.

        Both masks have one entry per sample, in the order given. `accepted` holds how many samples each threshold
        accepts, and `count_accepted` counts those of a mask. `most_confident_first` are the positions of the samples by
        falling confidence; `sample_clusters` holds their clusters in that order, None without clusters. `_rate` adds
        the interval at `level`.
        """
        hits = count_accepted(is_hit & is_trial)
        trials = count_accepted(is_trial) if of_accepted else np.full(len(threshold), int(is_trial.sum()))
        if sample_clusters is None:
            return _rate(hits, trials, level)
        draws = np.empty(len(threshold))
        for place, count in enumerate(accepted):  # all masks below are in the order of falling confidence
            was_accepted = np.arange(n) < count
            trial = is_trial[most_confident_first] & (was_accepted | (not of_accepted))
            hit = (is_hit & is_trial)[most_confident_first] & was_accepted
            draws[place] = _independent_draws(hit, trial, sample_clusters)
        return _rate(hits, trials, level, draws)

    is_positive = true_class == positive
    says_positive = predicted_class == positive
    every_sample = np.ones(n, dtype=bool)
    class_mix = {}
    for label in classes.tolist():
        class_mix[label] = count_accepted(true_class == label) / np.maximum(accepted, 1)
    return ClinicalTable(
        threshold=threshold,
        accepted=accepted,
        coverage=accepted / n,
        sensitivity=rate(says_positive, is_positive),
        specificity=rate(~says_positive, ~is_positive),
        ppv=rate(is_positive, says_positive),
        npv=rate(~is_positive, ~says_positive),
        prevalence=rate(is_positive, every_sample),
        positives_accepted=rate(is_positive, is_positive, of_accepted=False),
        class_mix=class_mix,
        positive=positive,
        level=level,
        n=n,
    )


def _check_clinical_sample(labels: np.ndarray, predictions: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """Return the confidences as floats, after checking that each sample has a label, prediction and confidence.

    Raises ShapeError unless all three are vectors of one length above 0, InputError if a confidence is not finite or a
    label or prediction is missing (None or NaN).
    """
    if labels.ndim != 1 or not labels.shape == predictions.shape == confidence.shape or not len(labels):
        shapes = f"{labels.shape}, {predictions.shape}, {confidence.shape}"
        raise ShapeError(f"clinical_table: needs one label, prediction and confidence each, got {shapes}.")
    confidence = confidence.astype(np.float64)
    if not np.isfinite(confidence).all():
        raise InputError("clinical_table: `confidence` must be finite.")
    for argument, values in (("labels", labels), ("predictions", predictions)):
        distinct_labels, _ = group_codes("clinical_table", values, argument=argument)
        if None in distinct_labels:  # stands for all missing values
            raise InputError(
                f"clinical_table: `{argument}` must all be known. Leave out the samples without one."
            )
    return confidence


def _rate(hits: np.ndarray, trials: np.ndarray, level: float, draws: np.ndarray | None = None) -> Rate:
    """The proportion of hits among trials with its exact interval; where there are no trials NaN, and from 0 to 1.

    Arrays have one entry per threshold, those of the result too; its `of` holds the trials. `draws`, where samples
    depend on each other, is an array of floats: how many independent draws vary as much as the trials, 0 without
    trials, 1 if all are of one cluster, and otherwise perhaps a fraction. None: each sample is one draw. `level` is the
    confidence level of each interval.
    """
    has_trials = trials > 0
    value = np.where(has_trials, hits / np.where(has_trials, trials, 1), np.nan)
    if draws is None:
        low, high = clopper_pearson(hits, trials, level)
    else:
        # the same share of so many draws; of 0 draws the interval is [0, 1]
        low, high = clopper_pearson(np.where(has_trials, value, 0.0) * draws, draws, level)
        low = np.where(draws > 1, low, 0.0)  # one cluster does not say how much clusters vary
        high = np.where(draws > 1, high, 1.0)
    return Rate(value=value, low=low, high=high, of=trials)


def _independent_draws(is_hit: np.ndarray, is_trial: np.ndarray, clusters: np.ndarray) -> float:
    """How many independent draws vary as much as the share of hits among trials; at most the number of trials.

    All arrays have one entry per sample, and every hit is a trial. Where all trials are hits, or none is, nothing shows
    how much clusters vary, and clusters of equal size count as one draw each. Where the share lies between and is the
    same in every cluster, each trial is one draw. 0 without trials; 1 if all are of one cluster. `clusters` holds the
    number of each sample's cluster, from 0, or has two columns for two kinds of clusters.
    """
    trial_count = int(is_trial.sum())
    if not trial_count:
        return 0.0
    share = float(is_hit.sum()) / trial_count
    # codes of the clusters; for two kinds, those by the first kind, by the second, and by the pairs of both
    kinds = [clusters] if clusters.ndim == 1 else list(split_two_way(clusters))
    variances = []  # of the number of hits, with the clusters of each kind
    draws_by_size = []
    for codes in kinds:
        trials_of_cluster = np.bincount(codes[is_trial]).astype(np.float64)
        hits_of_cluster = np.bincount(codes[is_trial], weights=is_hit[is_trial])
        cluster_count = int(np.count_nonzero(trials_of_cluster))
        if cluster_count < 2:
            return 1.0
        deviations = hits_of_cluster - share * trials_of_cluster
        variances.append(float(deviations @ deviations) * cluster_count / (cluster_count - 1))
        # how many clusters of equal size would vary as much
        draws_by_size.append(trial_count**2 / float(trials_of_cluster @ trials_of_cluster))
    if share in (0.0, 1.0):
        return min(draws_by_size)
    # with two kinds of clusters: the sum of both less that of the pairs, and at least that of each kind
    variance = variances[0] if len(kinds) == 1 else float(two_way_variance(*variances))
    if variance == 0:  # every cluster has the same share of hits
        return float(trial_count)
    # m independent draws have a share with the variance share (1 - share) / m; here it is variance / trial_count^2
    return min(share * (1 - share) * trial_count**2 / variance, float(trial_count))
