"""The calibration data of a threshold, and the table of thresholds that were tried on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from abstain._arrays import Array, to_host
from abstain._stored import Within
from abstain._tables import make_frame
from abstain.core.sorting import RankedSamples, is_zero_one, rank_samples
from abstain.errors import InputError, ShapeError
from abstain.metrics._sample import prepare
from abstain.thresholds import testing

Form = Literal["risk", "coverage", "cost"]
Method = Literal["ltt", "sgr", "crc", "empirical"]
# Methods that certify a risk by tests. "crc" bounds a mean over calibration sets, "empirical" promises nothing.
TESTING_METHODS: tuple[Method, ...] = ("ltt", "sgr")


class ClusteredSamples(NamedTuple):
    """The samples in the order given, and the cluster that each of them belongs to."""

    loss: np.ndarray  # scaled to [0, 1]
    confidence: np.ndarray
    weight: np.ndarray
    cluster_of_sample: np.ndarray  # from 0 to cluster_count - 1
    cluster_count: int
    heaviest_cluster_mass: float  # total weight of the heaviest cluster

    def weighted_sum_by_cluster(self, values: np.ndarray, clusters: np.ndarray) -> np.ndarray:
        """Sum of sample weight times value over the samples of each of these clusters.

        `values` has one entry per sample, `clusters` holds numbers of clusters.
        """
        return np.bincount(self.cluster_of_sample, self.weight * values, self.cluster_count)[clusters]


class Calibration(NamedTuple):
    """Calibration samples, most confident first, with losses scaled from two bounds, stated by the user, to [0, 1]."""

    ranked: RankedSamples
    lower_loss_bound: float  # on the user's scale
    upper_loss_bound: float
    clusters: ClusteredSamples | None = None  # the same samples in the order given; None without clusters

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.ranked.n

    def to_unit_scale(self, loss: float) -> float:
        """Convert a loss, or a mean of losses, from the user's scale to [0, 1]."""
        return (loss - self.lower_loss_bound) / (self.upper_loss_bound - self.lower_loss_bound)

    def to_user_scale(self, scaled_loss: float) -> float:
        """Convert a loss, or a mean of losses, from [0, 1] to the user's scale."""
        return self.lower_loss_bound + scaled_loss * (self.upper_loss_bound - self.lower_loss_bound)

    def p_values(self, count: np.ndarray, scaled_risk: float) -> np.ndarray:
        """Compute p-values of "the mean loss of the `count` most confident samples is above the risk".

        The counts must rise; `scaled_risk` is on the scale [0, 1] of the losses. With weights, the test assumes that no
        weight of the population is above the largest here. A count of 0 and a risk of 0 have p-value 1, a risk of 1 or
        more has p-value 0.

        `ranked.weight` is None without weights, `ranked.zero_one` says whether every loss is 0 or 1.
        `ranked.accepted_loss[k]` is the summed loss of the k most confident, 0 for k = 0.
        """
        if scaled_risk >= 1:  # no loss exceeds its bound
            return np.where(count > 0, 0.0, 1.0)
        if not scaled_risk > 0:  # nothing proves that there is no loss at all
            return np.ones(np.shape(count))
        if self.ranked.weight is not None:
            largest_weight = float(self.ranked.weight.max())
            # by bets against the risk, which take any losses in [0, 1] and weights
            return testing.betting(self.ranked, count, scaled_risk, largest_weight=largest_weight)
        if self.ranked.zero_one:  # an exact test of the number of errors
            return testing.binomial(self.ranked.accepted_loss[count], count, scaled_risk)
        # any losses in [0, 1]: twice the smaller of two p-values, one of them by betting
        return testing.bounded(self.ranked, count, scaled_risk)

    def coverage(self, count: np.ndarray) -> np.ndarray:
        """Share of the total weight in the `count` most confident samples."""
        return np.asarray(self.ranked.accepted_mass[count] / self.ranked.accepted_mass[-1], dtype=np.float64)

    def risk(self, count: np.ndarray) -> np.ndarray:
        """Mean loss of the `count` most confident samples on the user's scale; 0 where the count is 0."""
        mass = self.ranked.accepted_mass[count]
        mean = np.where(mass > 0, self.ranked.accepted_loss[count] / np.where(mass > 0, mass, 1), 0.0)
        return self.lower_loss_bound + mean * (self.upper_loss_bound - self.lower_loss_bound)


def calibrate(
    function: str,
    loss: Array,
    confidence: Array,
    sample_weight: Array | None,
    bounded: tuple[float, float],
    clusters: np.ndarray | None = None,
) -> Calibration:
    """Check the calibration data, scale losses to [0, 1] and sort by confidence.

    A loss that takes only its two bounds becomes a 0/1 loss (dtype bool), which is tested exactly.

    Parameters
    ----------
    function : str
        Name of the calling function, for messages.
    loss, confidence, sample_weight : array, shape (n,)
        As the user gave them; the weights may be None. Samples of weight 0 are left out.
    bounded : (float, float)
        Between which values losses lie, known beforehand.
    clusters : ndarray, optional
        Cluster of each sample, as whole numbers.

    Raises
    ------
    InputError
        If `bounded` is not a rising pair, or a loss lies outside.
    """
    sample = prepare(function, to_host(loss), to_host(confidence), to_host(sample_weight), vector=True)
    low, high = _check_bounds(function, bounded)
    smallest = float(sample.loss.min())
    largest = float(sample.loss.max())
    if smallest < low or largest > high:
        raise InputError(
            f"{function}: `loss` must lie within bounded=({low:g}, {high:g}), got values from {smallest:g} to "
            f"{largest:g}. No guarantee is possible without a bound that is known beforehand: pass "
            f"bounded=(low, high), or clip the loss and speak of the clipped one."
        )
    scaled_loss = sample.loss
    if (low, high) != (0.0, 1.0):
        scaled_loss = (scaled_loss.astype(np.float64) - low) / (high - low)
    if is_zero_one(scaled_loss):
        scaled_loss = scaled_loss.astype(bool, copy=False)
    clustered = None
    if clusters is not None:
        if sample_weight is not None:  # `prepare` has left the samples of weight 0 out of `sample`
            clusters = clusters[np.asarray(to_host(sample_weight)) > 0]
        cluster_of_sample = np.unique(clusters, return_inverse=True)[1]
        weight = np.ones(len(clusters)) if sample.weight is None else np.asarray(sample.weight, np.float64)
        clustered = ClusteredSamples(
            loss=scaled_loss.astype(np.float64),
            confidence=np.asarray(sample.confidence, np.float64),
            weight=weight,
            cluster_of_sample=cluster_of_sample,
            cluster_count=int(cluster_of_sample.max()) + 1,
            heaviest_cluster_mass=float(np.bincount(cluster_of_sample, weight).max()),
        )
    return Calibration(
        ranked=rank_samples(scaled_loss, sample.confidence, sample.weight),  # most confident first
        lower_loss_bound=low,
        upper_loss_bound=high,
        clusters=clustered,
    )


def array_per_sample(function: str, argument: str, values: Array, shape: tuple[int, ...]) -> np.ndarray:
    """Return these values as an array; raise ShapeError unless it has this shape, that of the confidences.

    It must be called before rows are picked by their numbers, which would leave further values out without a word.
    `function` and `argument` are named in the message.
    """
    array = np.asarray(to_host(values))
    if array.shape != shape:
        raise ShapeError(
            f"{function}: `{argument}` must hold one value per sample, got shape {array.shape}, not {shape}."
        )
    return array


def _check_bounds(function: str, bounded: tuple[float, float]) -> tuple[float, float]:
    """Return the two bounds of the loss as floats; raise InputError unless they are finite and rising."""
    try:
        low, high = (float(bound) for bound in bounded)
    except (TypeError, ValueError):
        raise InputError(f"{function}: `bounded` must be a pair (low, high), got {bounded!r}.") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(f"{function}: `bounded` must be finite and rising, got ({low:g}, {high:g}).")
    return low, high


@dataclass(frozen=True, eq=False)
class Candidates:
    """One row per threshold that was looked at, from few accepted to many.

    Attributes
    ----------
    value : ndarray
        Accept when `confidence >= value`.
    accepted : ndarray
        Samples at or above it.
    coverage, risk : ndarray
        Share of the samples accepted, and their mean loss.
    p_value, level : ndarray
        Of "the risk here is above the target", and what it was compared with; both NaN where nothing was tested.
    passed : ndarray
        Could be chosen.

    Examples
    --------
    >>> from abstain import select_threshold
    >>> table = select_threshold([0, 0, 1], [0.9, 0.8, 0.1], risk=0.2, method="empirical").table
    >>> table
    Candidates(3 thresholds, 2 passed)
    >>> table.value.tolist(), table.passed.tolist()
    ([0.9, 0.8, 0.1], [True, True, False])
    """

    value: Annotated[np.ndarray, Within(infinite=True)]
    accepted: Annotated[np.ndarray, Within(1, dtype=int)]
    coverage: Annotated[np.ndarray, Within(0, 1)]
    risk: Annotated[np.ndarray, Within()]
    p_value: Annotated[np.ndarray, Within(0, 1, nan=True)]
    level: Annotated[np.ndarray, Within(0, 1, nan=True)]
    passed: Annotated[np.ndarray, Within(dtype=bool)]

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        return f"Candidates({len(self)} thresholds, {int(self.passed.sum())} passed)"

    def columns(self) -> dict[str, list[Any]]:
        """Plain lists by name."""
        return {name: values.tolist() for name, values in vars(self).items()}

    def frame(self, library: str | None = None) -> Any:
        """A pandas or polars frame (whichever is there), or a dict of lists."""
        return make_frame(self.columns(), library)
