"""Figures of results: frozen numbers with `frame()` and `plot(ax)`. Only `plot` imports matplotlib."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from abstain import losses, scores
from abstain._arrays import ArrayLike, to_host
from abstain._outputs import check_ending, ending_of, replacing
from abstain._plots import (
    GREY,
    SHOWN_POINTS,
    FigureSize,
    RiskScale,
    draw_curves,
    line_style,
    make_axes,
    select_drawn_points,
)
from abstain._tables import escape_controls, make_frame
from abstain.errors import InputError, import_optional
from abstain.inference.records import CurveBand
from abstain.metrics.points import RiskCoverageCurve, risk_coverage_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CurveLine", "IntervalDisplay", "RiskCoverageDisplay", "save_figure", "thinned"]


@dataclass(frozen=True)
class CurveLine:
    """One curve: selective risk at each coverage, most confident samples first.

    Parameters
    ----------
    name : str
        Written beside the curve, or in the legend.
    coverage, risk : tuple of float
        The points.

    Examples
    --------
    >>> CurveLine("mine", coverage=(0.5, 1.0), risk=(0.0, 0.25)).risk[-1]
    0.25
    """

    name: str
    coverage: tuple[float, ...]
    risk: tuple[float, ...]


def thinned(name: str, coverage: np.ndarray, risk: np.ndarray, points: int = SHOWN_POINTS) -> CurveLine:
    """Reduce a curve to about `points` points, evenly spaced in coverage, the first and the last included.

    Parameters
    ----------
    name : str
        The name of the line.
    coverage, risk : array, shape (m,)
        The curve, in ascending order of coverage.
    points : int
        About how many to keep.

    Returns
    -------
    CurveLine

    Examples
    --------
    >>> thinned("mine", np.linspace(0.001, 1, 1000), np.linspace(0, 0.3, 1000), points=3).coverage
    (0.001, 0.501, 1.0)
    """
    indices = select_drawn_points(coverage, points)
    return CurveLine(name, tuple(coverage[indices].tolist()), tuple(risk[indices].tolist()))


@dataclass(frozen=True)
class RiskCoverageDisplay:
    """Risk-coverage curves in one figure; a sample is accepted when its confidence is at least a threshold.

    Parameters
    ----------
    lines : tuple of CurveLine
        The curves.
    label : str
        Label of the vertical axis.
    bands : tuple of (name, CurveBand)
        Drawn around the curve of that name.

    Examples
    --------
    >>> display = RiskCoverageDisplay.from_losses([0, 0, 1, 0], [0.9, 0.8, 0.2, 0.5], name="mine")
    >>> display.frame("dict")["risk"]
    [0.0, 0.0, 0.0, 0.25]
    """

    lines: tuple[CurveLine, ...]
    label: str = "selective risk"
    bands: tuple[tuple[str, CurveBand], ...] = ()

    @classmethod
    def from_predictions(
        cls, labels: ArrayLike, probs: ArrayLike, /, *, score: str = "max_softmax", **options: Any
    ) -> RiskCoverageDisplay:
        """Make the curve of the 0/1 loss.

        Labels are class indices. Probabilities have shape (n, K), or (n,) for those of class 1 of a binary model.
        `score` names the confidence that is computed from them. Options are those of `from_losses`: `name`,
        `sample_weight`, `abstained`. Raises InputError if labels or probabilities are invalid.

        >>> RiskCoverageDisplay.from_predictions([1, 0, 0], [0.9, 0.8, 0.1]).lines[0].risk[-1]
        0.3333333333333333
        """
        class_probs = np.asarray(to_host(probs), dtype=np.float64)
        if class_probs.ndim == 1:
            class_probs = np.stack([1 - class_probs, class_probs], axis=-1)
        try:
            loss = losses.zero_one(probs=class_probs, labels=to_host(labels))
            confidence = scores.by_name(score)(probs=class_probs)
        except InputError as error:
            raise InputError(
                f"RiskCoverageDisplay.from_predictions: {error} Losses and confidences go to `from_losses`."
            ) from error
        return cls.from_losses(loss, confidence, **options)

    @classmethod
    def from_losses(
        cls,
        loss: ArrayLike,
        confidence: ArrayLike,
        /,
        *,
        name: str = "",
        sample_weight: ArrayLike | None = None,
        abstained: ArrayLike | None = None,
    ) -> RiskCoverageDisplay:
        """Make the curve of one vector of losses and confidences; `name` is shown in the legend.

        `sample_weight` is the mass of each sample (None: 1 for all). `abstained` marks the samples without an answer
        (None: none).
        """
        curve = risk_coverage_curve(loss, confidence, sample_weight=sample_weight, abstained=abstained)
        return cls.from_curves({name: curve})

    @classmethod
    def from_curves(
        cls, curves: dict[str, RiskCoverageCurve], bands: dict[str, CurveBand] | None = None
    ) -> RiskCoverageDisplay:
        """Draw curves by name, with bands from `abstain.inference.curve_band` around some of them."""
        lines = tuple(thinned(name, curve.coverage, curve.risk) for name, curve in curves.items())
        return cls(lines, bands=tuple((bands or {}).items()))

    def frame(self, library: str | None = None) -> Any:
        """Return a data frame with one row per point: name, coverage, risk."""
        columns: dict[str, list[Any]] = {"name": [], "coverage": [], "risk": []}
        for line in self.lines:
            columns["name"] += [line.name] * len(line.coverage)
            columns["coverage"] += line.coverage
            columns["risk"] += line.risk
        return make_frame(columns, library)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        size: FigureSize | None = None,
        risk_scale: RiskScale = "linear",
    ) -> Axes:
        """Draw the curves and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        size : "column", "page" or (width, height) in inches, optional
            Of a new figure, for one or two columns of a journal, with fonts of 8 points; by default one for the
            screen.
        risk_scale : "linear" or "log"
            Of the vertical axis; "log" where risks span decades.

        Returns
        -------
        matplotlib axes
            Curves differ by colour and by dashes. Their names are at their right ends where these are far enough
            apart, otherwise in a legend.
        """
        ax = make_axes(ax, size=size)
        curves = [(escape_controls(line.name), line.coverage, line.risk) for line in self.lines]
        bands = {escape_controls(name): band for name, band in self.bands}
        draw_curves(ax, curves, self.label, bands, risk_scale=risk_scale)
        return ax


@dataclass(frozen=True)
class IntervalDisplay:
    """Estimates with their error bars, one line each.

    Parameters
    ----------
    names : tuple of str
        One per estimate, the first on top.
    estimates : tuple of float
        The points.
    low, high : tuple of float or None
        Ends of the intervals; None where there is none.
    label : str
        Label of the horizontal axis.
    notes : tuple of str
        Text after each name; empty for none.
    reference : float or None
        Where a grey vertical line is drawn, such as 0 for differences; None for no line.

    Examples
    --------
    >>> bars = IntervalDisplay(("a", "b"), (0.1, 0.2), (0.05, None), (0.2, None), "AURC")
    >>> bars.frame("dict")["high"]
    [0.2, None]
    """

    names: tuple[str, ...]
    estimates: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    label: str = ""
    notes: tuple[str, ...] = ()
    reference: float | None = None

    def frame(self, library: str | None = None) -> Any:
        """Return a data frame with one row per name."""
        columns = {"name": self.names, "estimate": self.estimates, "low": self.low, "high": self.high}
        return make_frame(columns, library)

    def plot(self, ax: Axes | None = None, *, size: FigureSize | None = None) -> Axes:
        """Draw on `ax`, or on a new figure, and return the axes; the first name is on top.

        `size` is that of a new figure: "column" or "page" for one or two columns of a journal, with a height for the
        number of names, or (width, height) in inches; None for the screen.
        """
        row_inches = 0.32 if size is None else 0.2  # the fonts of a figure for a journal are smaller
        ax = make_axes(ax, size=size, height=0.7 + row_inches * len(self.names))
        colour = line_style(0).color
        if self.reference is not None:
            ax.axvline(self.reference, color=GREY, linewidth=1)
        heights = range(len(self.names), 0, -1)
        for height, estimate, low, high in zip(heights, self.estimates, self.low, self.high):
            if low is not None and high is not None:
                ax.plot([low, high], [height, height], color=colour, linewidth=2, solid_capstyle="butt")
            ax.plot([estimate], [height], "o", color=colour, markersize=5)
        labels = list(self.names)
        if self.notes:
            labels = [f"{name}  {note}" for name, note in zip(self.names, self.notes)]
        ax.set_yticks(list(heights), [escape_controls(label) for label in labels])
        ax.set_ylim(0.4, len(self.names) + 0.6)
        ax.set_xlabel(self.label)
        ax.grid(axis="x", alpha=0.3)
        return ax


def save_figure(ax: Axes, path: Any) -> None:
    """Write the figure of `ax` to a .pdf, .svg or .png file, whole or not at all.

    Text stays text in PDF and SVG, so that it can be searched, edited and read aloud; PNG has 300 pixels to the inch.
    The same figure, made again, gives the same file.

    Parameters
    ----------
    ax : matplotlib axes
        What a `plot` returned; of several panels, any one.
    path : str or Path
        Where to write. DataError for another ending, and where no file can be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> display = RiskCoverageDisplay.from_losses([0, 0, 1, 0], [0.9, 0.8, 0.2, 0.5], name="mine")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_figure(display.plot(size="column"), Path(folder) / "curve.svg")
    ...     ">mine</text>" in (Path(folder) / "curve.svg").read_text()
    True
    """
    check_ending(path, "figure")
    ending = ending_of(path).removeprefix(".")
    matplotlib: Any = import_optional("matplotlib", "Plotting", "plot")
    # type 42 keeps letters as letters; a fixed salt keeps the names inside an SVG file the same in every run
    settings = {"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "abstain"}
    without_date: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    figure: Any = ax.figure
    with matplotlib.rc_context(settings), replacing(path) as stream:
        figure.figure.savefig(stream, format=ending, dpi=300, metadata=without_date.get(ending))
