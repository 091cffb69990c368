"""Figures of results: frozen numbers with `frame()` and `plot(ax)`. Only `plot` imports matplotlib."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from abstain import losses, scores
from abstain._arrays import ArrayLike, to_host
from abstain._outputs import check_ending, ending_of, replacing
from abstain._plots import (
    GREY,
    JOURNAL_FONT,
    SHOWN_POINTS,
    FigureSize,
    RiskScale,
    draw_curves,
    figure_inches,
    fit_text,
    letters_that_fit,
    line_style,
    make_axes,
    select_drawn_points,
    wrap_text,
)
from abstain._tables import escape_controls, make_frame
from abstain.errors import InputError, import_optional
from abstain.inference.records import CurveBand
from abstain.metrics.points import RiskCoverageCurve, risk_coverage_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CurveLine", "IntervalDisplay", "RiskCoverageDisplay", "save_figure", "thinned"]


_NAMES_SHARE_OF_WIDTH = 0.4  # of the width of a panel with error bars, for the names beside them
_AXIS_LABEL_SHARE_OF_WIDTH = (
    0.55  # of that width, for the label of the horizontal axis: about what the names leave
)
_SCREEN_FONT = 10.0  # points, of a figure without a size: matplotlib's default


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
    indices = select_drawn_points(coverage, points)  # at most `points`, ascending, without repeats
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
    style_numbers : tuple of int
        For each line, the number of its colour and dashes; empty: 0, 1, 2 ... in the order of the lines, or the numbers
        that follow where the axes have curves already.

    Examples
    --------
    >>> display = RiskCoverageDisplay.from_losses([0, 0, 1, 0], [0.9, 0.8, 0.2, 0.5], name="mine")
    >>> display.frame("dict")["risk"]
    [0.0, 0.0, 0.0, 0.25]
    """

    lines: tuple[CurveLine, ...]
    label: str = "selective risk"
    bands: tuple[tuple[str, CurveBand], ...] = ()
    style_numbers: tuple[int, ...] = ()

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
        return cls.from_losses(loss, confidence, **options)  # one curve

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
        is_new_figure = ax is None  # text is only fitted into our own figures
        ax = make_axes(ax, size=size)
        # Names come from the user, so that characters that cannot be printed are escaped. `self.bands` are pairs of a
        # line's name and the limits around it. `self.label` is that of the vertical axis.
        curves = [(escape_controls(line.name), line.coverage, line.risk) for line in self.lines]
        bands = {escape_controls(name): band for name, band in self.bands}
        draw_curves(ax, curves, self.label, bands, risk_scale=risk_scale, style_numbers=self.style_numbers)
        if is_new_figure:
            # A "column" or "page" may become higher to hold a legend; a size in inches, or a screen, may not.
            fit_text([ax], may_grow=isinstance(size, str))
        return ax


class PanelLayout(NamedTuple):
    """The texts of a panel with error bars, broken into lines, and the inches that it needs with them."""

    row_labels: list[str]
    axis_label: str
    height: float


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
    style_numbers : tuple of int
        For each name, the number of its colour, as in `RiskCoverageDisplay`; empty: all have the first colour.

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
    style_numbers: tuple[int, ...] = ()

    def frame(self, library: str | None = None) -> Any:
        """Return a data frame with one row per name."""
        columns = {"name": self.names, "estimate": self.estimates, "low": self.low, "high": self.high}
        return make_frame(columns, library)

    def plot(self, ax: Axes | None = None, *, size: FigureSize | None = None) -> Axes:
        """Draw on `ax`, or on a new figure, and return the axes; the first name is on top.

        `size` is that of a new figure: "column" or "page" for one or two columns of a journal, with a height for the
        number of names, or (width, height) in inches; None for the screen.
        """
        if ax is not None:
            ax = make_axes(ax, size=size)  # raises where there is a `size` too
            # The names beside the rows, and the label of the horizontal axis, as they are: the user's figure keeps its
            # size, so that they are not broken into lines.
            self.draw(ax, self._row_labels(), self.label)
            return ax
        panel_width, _ = figure_inches(size, width=None, height=None)
        layout = self.layout(size, panel_width)  # the height, and the texts broken into lines
        ax = make_axes(size=size, height=layout.height)
        self.draw(ax, layout.row_labels, layout.axis_label)
        fit_text([ax])
        return ax

    def layout(self, size: FigureSize | None, panel_width: float) -> PanelLayout:
        """Texts and height for a panel of this width in inches, in a figure of this size.

        `size` is the user's ("column", "page", a pair of inches), None for the screen: it decides the size of the font.
        The result has the names beside the rows and the label of the axis, broken into lines, and the height in inches.
        There is at least one row.
        """
        # in points
        font_size = _SCREEN_FONT if size is None else JOURNAL_FONT
        # names may take 40% of the width, the label of the axis 55%
        name_letters = letters_that_fit(_NAMES_SHARE_OF_WIDTH * panel_width, font_size)
        row_labels = [wrap_text(label, name_letters) for label in self._row_labels()]
        axis_label = wrap_text(
            self.label, letters_that_fit(_AXIS_LABEL_SHARE_OF_WIDTH * panel_width, font_size)
        )
        # inches, by the size of the font: of a row, and of each further line of a name
        row_height, line_height = (0.32, 0.17) if size is None else (0.2, 0.13)
        # rows are evenly spaced: the name with the most lines decides
        most_breaks = max(label.count("\n") for label in row_labels)
        rows_height = (row_height + line_height * most_breaks) * len(row_labels)
        further_lines = max(0, axis_label.count("\n") - 1)  # the margin has room for two lines
        axis_height = 0.7 + line_height * further_lines  # numbers and label below the rows
        return PanelLayout(row_labels, axis_label, height=rows_height + axis_height)

    def _row_labels(self) -> list[str]:
        """What is written beside each row: its name, and its note if there are notes."""
        labels = list(self.names)
        if self.notes:
            labels = [f"{name}  {note}" for name, note in zip(self.names, self.notes, strict=True)]
        return [escape_controls(label) for label in labels]

    def draw(self, ax: Axes, row_labels: list[str], axis_label: str) -> None:
        """Draw points and bars on `ax`, the first on top, with one of `row_labels` for each.

        Labels are written as they are: lines are not broken here, and neither fonts nor the size of the figure change.
        `low` and `high` are the ends of the intervals, None for a point without one; every point has an estimate.
        `reference`, such as 0 for differences, is where a vertical line is drawn (None: no line). `style_numbers` are
        numbers of colours, one per point; empty means the first colour for all.
        """
        if self.reference is not None:
            ax.axvline(self.reference, color=GREY, linewidth=1)
        heights = range(len(self.names), 0, -1)  # vertical coordinates of the rows: n ... 1
        style_numbers = self.style_numbers or (0,) * len(self.names)
        for height, estimate, low, high, style_number in zip(
            heights, self.estimates, self.low, self.high, style_numbers, strict=True
        ):
            colour = line_style(style_number).color
            if low is not None and high is not None:  # None: the point has no interval
                ax.plot([low, high], [height, height], color=colour, linewidth=2, solid_capstyle="butt")
            ax.plot([estimate], [height], "o", color=colour, markersize=5)
        ax.set_yticks(list(heights), row_labels)
        ax.set_ylim(0.4, len(self.names) + 0.6)
        ax.set_xlabel(axis_label)
        ax.grid(axis="x", alpha=0.3)


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
    matplotlib: Any = import_optional("matplotlib", feature="Plotting", extra="plot")
    # type 42 keeps letters as letters; a fixed salt keeps the names inside an SVG file the same in every run
    settings = {"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "abstain"}
    without_date: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    figure: Any = ax.figure.figure  # the whole figure, also where the axes are in a subfigure
    # `replacing` writes a temporary file, which replaces the old file only when all is written
    with matplotlib.rc_context(settings), replacing(path) as stream:
        figure.savefig(stream, format=ending, dpi=300, metadata=without_date.get(ending))
