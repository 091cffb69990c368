"""The results of inference: small frozen records with a readable repr."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from abstain import _plots, _tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _percent(level: float) -> str:
    return f"{100 * level:g}%"


@dataclass(frozen=True, repr=False)
class Interval(_tables.Notebook):
    """An estimate with its error bar.

    Parameters
    ----------
    metric : str
        What is estimated.
    estimate, standard_error : float
        The number and its error.
    low, high, level : float
        The ends of the interval, and the probability with which such an interval contains the true value.
    method : str
        How it was computed.
    n : int
        Number of samples.
    centre : str
        What the interval is centred at: "loo" (the leave-one-out estimate of the area, less biased), "estimate",
        "replicates" (bootstrap) or "bound" (a one-sided limit, because the sample has no spread).
    note : str
        A warning, such as how few errors the interval is based on; empty if there is none.

    Examples
    --------
    >>> interval = Interval(
    ...     metric="aurc",
    ...     estimate=0.1,
    ...     standard_error=0.02,
    ...     low=0.07,
    ...     high=0.15,
    ...     level=0.95,
    ...     method="log",
    ...     n=500,
    ... )
    >>> interval, 0.12 in interval
    (aurc 0.1, 95% interval [0.07, 0.15], standard error 0.02 (log, n = 500), True)
    """

    metric: str
    estimate: float
    standard_error: float
    low: float
    high: float
    level: float
    method: str
    n: int
    centre: str = "estimate"
    note: str = ""

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def _range(self) -> str:
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"

    def __repr__(self) -> str:
        centre_label = {"loo": ", centred at loo", "bound": ", one-sided bound"}.get(self.centre, "")
        note = f"; {self.note}" if self.note else ""
        return (
            f"{self.metric} {self.estimate:.4g}, {_percent(self.level)} interval "
            f"[{self.low:.4g}, {self.high:.4g}], standard error {self.standard_error:.2g} "
            f"({self.method}{centre_label}, n = {self.n}){note}"
        )


@dataclass(frozen=True, repr=False)
class GroupedIntervals(_tables.Notebook):
    """An interval for each group, and one for the unweighted mean over groups.

    Parameters
    ----------
    metric : str
        What is estimated.
    intervals : dict
        Interval of each group.
    macro : Interval
        Of the mean over groups, which are treated as independent.

    Examples
    --------
    >>> import abstain
    >>> by_group = abstain.inference.interval("risk", [0, 1, 0, 1], [4, 3, 2, 1], groups=["a", "a", "b", "b"])
    >>> by_group["a"].estimate, by_group.macro.estimate
    (0.5, 0.5)
    """

    metric: str
    intervals: dict[Any, Interval]
    macro: Interval

    def __getitem__(self, group: Any) -> Interval:
        return self.intervals[group]

    def __repr__(self) -> str:
        rows = [
            f"  {group!s:<16} {interval._range()}  (n = {interval.n})"
            for group, interval in self.intervals.items()
        ]
        return "\n".join([f"{self.metric} by group:", *rows, f"  macro {self.macro._range()}"])


@dataclass(frozen=True, repr=False)
class Difference(_tables.Notebook):
    """`estimate_a - estimate_b` with its error bar and the p-value of "no difference".

    Parameters
    ----------
    metric : str
        What is compared.
    difference, standard_error : float
        The difference and its error.
    low, high : float
        The ends of its interval.
    p_value : float
        Two-sided p-value of no difference.
    level : float
        Level of the interval.
    n : int
        Number of samples.
    estimate_a, estimate_b : float
        The metric of each model.
    paired : bool
        Are both models on the same samples?
    note : str
        Why there is no verdict; empty if there is one.
    planned : int or None
        Planned number of samples, if interval and p-value hold at every look; None for a single look.

    Examples
    --------
    >>> difference = Difference(
    ...     metric="aurc",
    ...     difference=-0.02,
    ...     standard_error=0.005,
    ...     low=-0.03,
    ...     high=-0.01,
    ...     p_value=6e-5,
    ...     level=0.95,
    ...     n=500,
    ...     estimate_a=0.1,
    ...     estimate_b=0.12,
    ...     paired=True,
    ... )
    >>> difference.significant
    True
    """

    metric: str
    difference: float
    standard_error: float
    low: float
    high: float
    p_value: float
    level: float
    n: int
    estimate_a: float
    estimate_b: float
    paired: bool
    note: str = ""
    planned: int | None = None

    @property
    def significant(self) -> bool:
        """Is zero outside the interval?"""
        return self.p_value < 1 - self.level

    def __repr__(self) -> str:
        kind = "paired" if self.paired else "unpaired"
        verdict = self.note or f"p = {self.p_value:.3g}"
        looks = "" if self.planned is None else f", at any time, planned for {self.planned:,}"
        return (
            f"{self.metric}: {self.estimate_a:.4g} - {self.estimate_b:.4g} = {self.difference:.3g}, "
            f"{_percent(self.level)} interval [{self.low:.3g}, {self.high:.3g}], "
            f"{verdict} ({kind}, n = {self.n}{looks})"
        )


@dataclass(frozen=True, repr=False)
class CurveBand(_tables.Notebook):
    """A band that contains the whole risk-coverage curve with probability about `level`.

    Parameters
    ----------
    coverage, risk : array, shape (m,)
        The curve.
    low, high : array, shape (m,)
        The band.
    level : float
        Probability with which the band contains the whole curve.
    method : str
        How it was computed.
    n : int
        Number of samples.

    Examples
    --------
    >>> CurveBand(np.array([0.5, 1]), np.array([0, 0.2]), np.zeros(2), np.array([0.1, 0.3]), 0.95, "bootstrap", 80)
    CurveBand(95% simultaneous, 2 coverages from 0.5 to 1, bootstrap, n = 80)
    """

    _shows_rows_spread_out: ClassVar[bool] = True

    coverage: np.ndarray
    risk: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float
    method: str
    n: int

    def frame(self, library: str | None = None) -> Any:
        """Return a table with one row per coverage; `library` is "pandas", "polars", "dict" or None (choose)."""
        names = ("coverage", "risk", "low", "high")
        return _tables.make_frame({name: getattr(self, name).tolist() for name in names}, library)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str = "",
        size: _plots.FigureSize | None = None,
        risk_scale: _plots.RiskScale = "linear",
    ) -> Axes:
        """Draw the curve and its band, and return the axes.

        Draws on `ax`, or on a new figure of this `size` ("column", "page" or inches; None for the screen). `name` is
        written beside the curve, unless it is empty. `risk_scale="log"` is for risks that span decades.
        """
        axes: Any = _plots.make_axes(ax, size=size)
        title = _tables.escape_controls(name)  # without characters that cannot be printed
        curve = (title, self.coverage, self.risk)
        # drawn around the curve of that name, an empty one too: of a band, `coverage`, `low` and `high` are read
        bands = {title: self}
        _plots.draw_curves(axes, [curve], "selective risk", bands=bands, risk_scale=risk_scale)
        return axes

    def __repr__(self) -> str:
        return (
            f"CurveBand({_percent(self.level)} simultaneous, {len(self.coverage)} coverages from "
            f"{self.coverage[0]:.3g} to {self.coverage[-1]:.3g}, {self.method}, n = {self.n})"
        )


@dataclass(frozen=True, repr=False)
class Influences(_tables.Notebook):
    """An estimate and the influence of each sample: `sqrt(sum((w * values)**2)) / sum(w)` is its standard error.

    Parameters
    ----------
    metric : str
        What is estimated.
    estimate : float
        The number.
    values : array, shape (n,)
        The influence of each sample.

    Examples
    --------
    >>> Influences("risk", 0.25, np.array([-0.25, 0.75, -0.25, -0.25]))
    Influences(risk 0.25, n = 4)
    """

    metric: str
    estimate: float
    values: np.ndarray

    def __repr__(self) -> str:
        return f"Influences({self.metric} {self.estimate:.4g}, n = {len(self.values)})"
