"""What each threshold leads to: its cost (errors of different price, rejected cases that a human answers), and how good
the answers are among the accepted, as a clinic reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from abstain import _tables
from abstain._arrays import Array, to_host
from abstain._check import check_fraction, check_nonnegative
from abstain._plots import make_axes
from abstain._stored import Stored, Within
from abstain.core.curve_points import cheapest
from abstain.core.sorting import rank_samples
from abstain.errors import InputError, ShapeError
from abstain.metrics._sample import Sample, group_codes, prepare
from abstain.thresholds.testing import clopper_pearson

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME = "cost_curve"
Shares = Annotated[np.ndarray, Within(0, 1, nan=True)]
Counts = Annotated[np.ndarray, Within(0, dtype=int)]
_RATES = ("sensitivity", "specificity", "ppv", "npv", "prevalence")


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
    human_loss : ndarray
        The part of `reject_cost` that is the human's own errors; with `model_cost` it makes `system_loss`.
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
    human_loss: np.ndarray
    n: int

    @property
    def cost(self) -> np.ndarray:
        """What a sample costs on average."""
        return self.model_cost + self.reject_cost

    @property
    def system_loss(self) -> np.ndarray:
        """Loss of the answers given, by the model or by the human."""
        return self.model_cost + self.human_loss

    @property
    def best(self) -> int:
        """Row of the least cost; the largest coverage among equals."""
        return cheapest(self.cost)

    def columns(self) -> dict[str, list[Any]]:
        """Plain lists by name."""
        names = ("value", "coverage", "model_cost", "reject_cost", "human_loss", "system_loss", "cost")
        return {name: getattr(self, name).tolist() for name in names}

    def frame(self, library: str | None = None) -> Any:
        """A data frame with one row per threshold."""
        return _tables.make_frame(self.columns(), library)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Cost and its parts against coverage, the least marked; returns the axes."""
        drawn: Any = make_axes(ax)
        b = self.best
        drawn.plot(self.coverage, self.cost, color="C0", label="cost")
        drawn.plot(self.coverage, self.model_cost, color="C3", lw=1, ls=":", label="model errors")
        drawn.plot(self.coverage, self.reject_cost, color="0.5", lw=1, ls=":", label="rejections")
        if self.human_loss.any():
            drawn.plot(self.coverage, self.system_loss, color="C1", lw=1, ls="--", label="loss of the system")
        drawn.plot([self.coverage[b]], [self.cost[b]], "o", color="C2", label=f"least: {self.cost[b]:.4g}")
        drawn.set(xlabel="coverage of the model", ylabel="per sample", xlim=(0, 1), ylim=(0, None))
        drawn.legend(fontsize="small")
        return drawn

    def __repr__(self) -> str:
        b = self.best
        return (
            f"CostCurve({len(self.value)} thresholds, n = {self.n}): least cost {self.cost[b]:.4g} per sample at "
            f"confidence >= {self.value[b]:.6g}, coverage {self.coverage[b]:.4f} "
            f"(all rejected {self.cost[0]:.4g}, all accepted {self.cost[-1]:.4g})"
        )


def cost_curve(
    loss: Array,
    confidence: Array,
    /,
    *,
    cost: float | Array = 0.0,
    human_loss: float | Array = 0.0,
    sample_weight: Array | None = None,
) -> CostCurve:
    r"""What each threshold costs; lower is better.

    .. math:: C(t) = E[\ell\,1(g \ge t)] + E[(d + h)\,1(g < t)]

    with the loss :math:`\ell` of the model's answer, the cost d of handing a case over and the loss h of who answers it
    then. Equal confidences are accepted together.

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        One loss and one confidence (higher = surer) per sample.
    cost, human_loss : float or array
        d and h, one number or one per sample (`class_costs` makes them from a cost matrix). h is 0 for a mere
        rejection, 1 - accuracy for a human under 0/1 loss.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.

    Returns
    -------
    CostCurve

    Examples
    --------
    >>> curve = cost_curve([0, 0, 1], [0.9, 0.8, 0.1], cost=0.1, human_loss=0.05)
    >>> curve.cost.round(4).tolist()
    [0.15, 0.1, 0.05, 0.3333]
    >>> curve.value[curve.best].item()
    0.8
    """
    sample = prepare(_NAME, to_host(loss), to_host(confidence), to_host(sample_weight), vector=True)
    kept = None if sample_weight is None else np.asarray(to_host(sample_weight)) > 0
    d = _per_sample("cost", cost, sample, kept)
    h = _per_sample("human_loss", human_loss, sample, kept)
    ranked = [rank_samples(x, sample.confidence, sample.weight) for x in (sample.loss, d + h, h)]
    ends = ranked[0].row_stops()
    rows = np.append(0, ends)
    accepted, handed, human = (r.accepted_loss[rows] / sample.total for r in ranked)
    return CostCurve(
        value=np.append(np.inf, ranked[0].smallest_confidence(ends)),
        coverage=ranked[0].accepted_mass[rows] / sample.total,
        model_cost=accepted,
        reject_cost=handed[-1] - handed,
        human_loss=human[-1] - human,
        n=len(sample.loss),
    )


def _per_sample(argument: str, x: float | Array, sample: Sample, kept: np.ndarray | None) -> np.ndarray:
    values = np.asarray(to_host(x), dtype=np.float64)
    if values.ndim == 0:
        return np.full(len(sample.loss), check_nonnegative(_NAME, argument, values))
    if kept is not None and values.shape == kept.shape:
        values = values[kept]
    if values.shape != sample.loss.shape:
        rule = f"`{argument}` must be a number or one per sample"
        raise ShapeError(f"{_NAME}: {rule}, got shape {values.shape}.")
    return _costs(_NAME, argument, values)


def _costs(name: str, argument: str, values: np.ndarray) -> np.ndarray:
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise InputError(f"{name}: `{argument}` must be finite and at least 0 throughout.")
    return values


def class_costs(
    labels: Array, predictions: Array, /, *, errors: Array, rejections: Array | None = None
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
    matrix = np.asarray(errors, dtype=np.float64)
    y, p = np.asarray(to_host(labels)), np.asarray(to_host(predictions))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"class_costs: `errors` must be a square matrix, got shape {matrix.shape}.")
    if y.shape != p.shape or y.ndim != 1:
        both = f"{y.shape} and {p.shape}"
        raise ShapeError(f"class_costs: needs one label and one prediction each, got {both}.")
    if y.dtype.kind not in "iu" or p.dtype.kind not in "iu":
        both = f"{y.dtype} and {p.dtype}"
        raise InputError(f"class_costs: classes must be whole numbers 0 ... K-1, got {both}.")
    if y.size and (min(y.min(), p.min()) < 0 or max(y.max(), p.max()) >= len(matrix)):
        raise InputError(f"class_costs: classes must lie in 0 ... {len(matrix) - 1}.")
    _costs("class_costs", "errors", matrix)
    by_class = np.asarray(0.0 if rejections is None else to_host(rejections), dtype=np.float64)
    if by_class.shape not in ((), (len(matrix),)):
        rule = f"`rejections` must be a number or one for each of {len(matrix)} classes"
        raise ShapeError(f"class_costs: {rule}, got shape {by_class.shape}.")
    by_class = np.broadcast_to(_costs("class_costs", "rejections", by_class), len(matrix))
    return matrix[y, p], by_class[y].copy()


# What a clinic reads: how good the answers are among the accepted ------------------------------------


@dataclass(frozen=True, eq=False)
class Rate:
    """A proportion with its exact interval, one row per threshold; NaN where there is nothing to divide by."""

    value: Shares
    low: Shares
    high: Shares
    of: Counts  # how many samples the proportion is taken of

    def texts(self) -> list[str]:
        """For a table."""
        rows = zip(self.value, self.low, self.high, self.of)
        return [f"{x:.3f} [{low:.3f}, {high:.3f}]" if of else "-" for x, low, high, of in rows]


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
        """Plain lists by name."""
        result = {name: getattr(self, name).tolist() for name in ("threshold", "accepted", "coverage")}
        for name in (*_RATES, "positives_accepted"):
            rate: Rate = getattr(self, name)
            ends = (("", rate.value), ("_low", rate.low), ("_high", rate.high))
            result |= {name + end: values.tolist() for end, values in ends}
        return result | {f"share of {label}": share.tolist() for label, share in self.class_mix.items()}

    def frame(self, library: str | None = None) -> Any:
        """A data frame with one row per threshold."""
        return _tables.make_frame(self.columns(), library)

    def grid(self) -> dict[str, list[str]]:
        """The table as text."""
        rates = {name: getattr(self, name).texts() for name in _RATES}
        threshold, coverage = [f"{t:.4g}" for t in self.threshold], [f"{c:.3f}" for c in self.coverage]
        return {"threshold": threshold, "coverage": coverage, **rates}

    def _head(self) -> str:
        return f"Among the accepted, positive = {self.positive!r}, n = {self.n}, level {self.level:g}"

    def __repr__(self) -> str:
        return f"{self._head()}\n{_tables.text_table(self.grid())}"

    def to_latex(self) -> str:
        """As a LaTeX table (booktabs)."""
        return _tables.latex_table(self.grid(), self._head(), "Of the accepted only, with exact intervals.")

    def _repr_html_(self) -> str:
        return _tables.html_table(self.grid(), self._head())


def clinical_table(
    labels: Array,
    predictions: Array,
    confidence: Array,
    /,
    *,
    positive: Any = 1,
    thresholds: Array | None = None,
    level: float = 0.95,
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

    Returns
    -------
    ClinicalTable

    Examples
    --------
    >>> t = clinical_table([1, 1, 0, 0], [1, 0, 0, 0], [0.9, 0.2, 0.8, 0.7], thresholds=[0.0, 0.5])
    >>> t.sensitivity.value.tolist(), t.npv.value.round(3).tolist(), t.coverage.tolist()
    ([0.5, 1.0], [0.667, 1.0], [1.0, 0.75])
    """
    y, p, g = (np.asarray(to_host(x)) for x in (labels, predictions, confidence))
    if y.ndim != 1 or y.shape != p.shape or y.shape != g.shape or not len(y):
        shapes = f"{y.shape}, {p.shape}, {g.shape}"
        raise ShapeError(f"clinical_table: needs one label, prediction and confidence each, got {shapes}.")
    g = g.astype(np.float64)
    if not np.isfinite(g).all():
        raise InputError("clinical_table: `confidence` must be finite.")
    for what, given in (("labels", y), ("predictions", p)):
        if None in group_codes("clinical_table", given, argument=what)[0]:
            raise InputError(
                f"clinical_table: `{what}` must all be known. Leave out the samples without one."
            )
    classes = np.unique(y)
    if not np.isin(positive, np.concatenate([classes, np.unique(p)])):
        known = f"the classes {classes.tolist()}"
        raise InputError(f"clinical_table: `positive` must be one of {known}, got {positive!r}.")
    level = check_fraction("clinical_table", "level", level, open_high=True)
    order = np.argsort(g, kind="stable")[::-1]
    falling = g[order]
    if thresholds is None:
        tenths = np.arange(1, 11)
        at = np.unique(falling[-(-len(g) * tenths // 10) - 1])
    else:
        at = np.atleast_1d(np.asarray(to_host(thresholds), dtype=np.float64))
        if at.ndim != 1 or np.isnan(at).any():
            raise InputError("clinical_table: `thresholds` must be numbers, one or a vector of them.")
    accepted = len(g) - np.searchsorted(falling[::-1], at, side="left")

    def count(mask: np.ndarray) -> np.ndarray:
        return np.append(0, np.cumsum(mask[order]))[accepted]

    is_pos, says_pos = y == positive, p == positive
    tp, fp = count(is_pos & says_pos), count(~is_pos & says_pos)
    fn, tn = count(is_pos & ~says_pos), count(~is_pos & ~says_pos)
    every = np.full(len(at), int(is_pos.sum()))
    hits = (tp, tn, tp, tn, tp + fn, tp + fn)
    among = (tp + fn, tn + fp, tp + fp, tn + fn, accepted, every)
    rates: Any = [_rate(x, of, level) for x, of in zip(hits, among)]
    mix = {c: count(y == c) / np.maximum(accepted, 1) for c in classes.tolist()}
    told: Any = {"class_mix": mix, "positive": positive, "level": level, "n": len(g)}
    return ClinicalTable(at, accepted, accepted / len(g), *rates, **told)


def _rate(hits: np.ndarray, of: np.ndarray, level: float) -> Rate:
    low, high = clopper_pearson(hits, of, level)
    some = of > 0
    return Rate(np.where(some, hits / np.where(some, of, 1), np.nan), low, high, of)
