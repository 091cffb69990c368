"""What a clinic reads: how good the answers are among the accepted, threshold by threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from abstain import _tables
from abstain._arrays import Array, to_host
from abstain._check import check_fraction
from abstain._stored import Stored, Within
from abstain.errors import InputError, ShapeError
from abstain.thresholds.testing import clopper_pearson

_NAME = "clinical_table"
Shares = Annotated[np.ndarray, Within(0, 1, nan=True)]
Counts = Annotated[np.ndarray, Within(0, dtype=int)]
_RATES = ("sensitivity", "specificity", "ppv", "npv", "prevalence")


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

    threshold: Annotated[np.ndarray, Within()]
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
        return _tables.frame(self.columns(), library)

    def grid(self) -> dict[str, list[str]]:
        """The table as text."""
        rates = {name: getattr(self, name).texts() for name in _RATES}
        threshold, coverage = [f"{t:.4g}" for t in self.threshold], [f"{c:.3f}" for c in self.coverage]
        return {"threshold": threshold, "coverage": coverage, **rates}

    def _head(self) -> str:
        return f"Among the accepted, positive = {self.positive!r}, n = {self.n}, level {self.level:g}"

    def __repr__(self) -> str:
        return f"{self._head()}\n{_tables.text(self.grid())}"

    def to_latex(self) -> str:
        """As a LaTeX table (booktabs)."""
        return _tables.latex(self.grid(), self._head(), "Of the accepted only, with exact intervals.")

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
        raise ShapeError(f"{_NAME}: needs one label, prediction and confidence each, got {shapes}.")
    g = g.astype(np.float64)
    if not np.isfinite(g).all():
        raise InputError(f"{_NAME}: `confidence` must be finite.")
    classes = np.unique(y)
    if not np.isin(positive, np.concatenate([classes, np.unique(p)])):
        known = f"the classes {classes.tolist()}"
        raise InputError(f"{_NAME}: `positive` must be one of {known}, got {positive!r}.")
    level = check_fraction(_NAME, "level", level, open_high=True)
    order = np.argsort(g, kind="stable")[::-1]
    falling = g[order]
    if thresholds is None:
        tenths = np.arange(1, 11)
        at = np.unique(falling[-(-len(g) * tenths // 10) - 1])
    else:
        at = np.atleast_1d(np.asarray(to_host(thresholds), dtype=np.float64))
    accepted = len(g) - np.searchsorted(falling[::-1], at, side="left")

    def count(mask: np.ndarray) -> np.ndarray:
        return np.append(0, np.cumsum(mask[order]))[accepted]

    is_pos, says_pos = y == positive, p == positive
    tp, fp = count(is_pos & says_pos), count(~is_pos & says_pos)
    fn, tn = count(is_pos & ~says_pos), count(~is_pos & ~says_pos)
    every = np.full(len(at), int(is_pos.sum()))
    shares = [
        (tp, tp + fn),
        (tn, tn + fp),
        (tp, tp + fp),
        (tn, tn + fn),
        (tp + fn, accepted),
        (tp + fn, every),
    ]
    rates: Any = [_rate(hits, of, level) for hits, of in shares]
    mix = {c: count(y == c) / np.maximum(accepted, 1) for c in classes.tolist()}
    told: Any = {"class_mix": mix, "positive": positive, "level": level, "n": len(g)}
    return ClinicalTable(at, accepted, accepted / len(g), *rates, **told)


def _rate(hits: np.ndarray, of: np.ndarray, level: float) -> Rate:
    low, high = clopper_pearson(hits, of, level)
    some = of > 0
    return Rate(np.where(some, hits / np.where(some, of, 1), np.nan), low, high, of)
