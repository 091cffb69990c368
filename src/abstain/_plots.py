"""Drawing for every result that has a `plot`. matplotlib is imported when something is drawn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from abstain._check import check_choice
from abstain.errors import InputError, import_optional

FigureSize = Literal["column", "page"] | tuple[float, float]
RiskScale = Literal["linear", "log"]

SHOWN_POINTS = 201  # points of a curve that are drawn; more would not be visible

# Width and height in inches. Journals print one of two columns at 3.3 to 3.5 inches (84 to 90 mm), both at 6.9 to 7.2.
_SIZES = {"column": (3.4, 2.5), "page": (7.0, 2.8)}
JOURNAL_FONT = (
    8.0  # points, of a figure with one of these sizes; the captions of most journals have 8 or 9 points
)
_ON_SCREEN = (6.4, 4.0)  # inches, of a figure without a size

# Blue, vermilion, green, pink and black after Okabe and Ito: told apart with the common kinds of colour blindness. The
# blue is darker than theirs, since people without red receptors confuse theirs with the pink. Their yellow and light
# colours are left out: too pale for a thin line on white. The order of the first four is that of the HTML report.
_COLOURS = ("#005F9E", "#D55E00", "#009E73", "#D27FB2", "#000000")
# solid, dashed, dotted, dash-dot, dash-dot-dot: as many as colours
_DASHES = ("-", "--", ":", "-.", (0, (6.4, 1.6, 1, 1.6, 1, 1.6)))
MOST_DISTINCT_LINES = len(_COLOURS)  # that differ by colour and by dashes
GREY = "0.45"  # for what is not a result: a diagonal, zero, candidates
BAND_OPACITY = 0.18

_CURVE_MARK = "abstain-curve"  # identifies the lines of `draw_curves` among other artists of the axes
_BELOW_MARK = "abstain-legend-below"  # a legend that `fit_text` moved below the axes
_NAME_MARK = "abstain-name"  # identifies the names that `name_curves` wrote beside them
_LINE_SPACING = 1.25  # heights of the font between two lines of text
_LARGEST_SHIFT = 1.3  # lines of text by which a name may stand above or below the end of its curve
_CLOSEST_ENDS = (
    0.3  # lines of text; the names of curves that end closer together could be swapped by the reader
)
_WIDEST_NAME = 0.4  # of the width of the axes; a longer name would leave too little room for the curves
_LETTER_WIDTH = 0.55  # heights of the font: the mean width of a letter in the fonts of matplotlib
_MOST_NAMES = 8  # a column of more names beside a figure is as hard to match with curves as a legend
_HIGHEST_LEGEND = (
    0.4  # of the height of the axes; below them a higher one would leave too little room for the curves
)
_FEWEST_TICKS = 2  # an axis with one number has no scale
_TICK_GAP = 0.5  # heights of the font between the numbers of an axis
_MOST_REDRAWS = 8  # while text is fitted: wrapped labels change the layout, and so the room for others

_SETTLED_COVERAGE = 0.05  # share of the samples from which on one sample hardly moves a curve
_FAR_ABOVE = (
    1.5  # times the largest settled value; a curve this far above it at first would flatten all others
)


class LineStyle(NamedTuple):
    """How one line of several is drawn, so that it differs by colour and by dashes."""

    color: str
    linestyle: str | tuple[float, tuple[float, ...]]


def line_style(number: int) -> LineStyle:
    """Return colour and dashes of the line with this number, from 0 on.

    The first five lines differ by colour and by dashes, the first twenty-five by both together, and neighbours by each.
    A user who has set a colour cycle in matplotlib's `rcParams` gets these colours instead.
    """
    matplotlib = import_optional("matplotlib", feature="Plotting", extra="plot")
    cycle = matplotlib.rcParams["axes.prop_cycle"]
    colours: Sequence[str] = _COLOURS
    if cycle != matplotlib.rcParamsDefault["axes.prop_cycle"]:
        colours = cycle.by_key().get("color", _COLOURS)
    colour_round = number // len(colours)  # how often all colours were used before
    colour_place = number % len(colours)
    dashes = _DASHES[(colour_place + colour_round) % len(_DASHES)]  # a colour comes back with other dashes
    return LineStyle(color=colours[colour_place], linestyle=dashes)


def distinct_numbers(numbers: Sequence[int]) -> list[int]:
    """Return the numbers of lines as they are, or counted from 0 if two of the lines would look alike.

    Lines look alike if they have the same colour or the same dashes. The numbers differ, and their order is kept.

    >>> distinct_numbers([2, 0]), distinct_numbers([8, 0, 4])
    ([2, 0], [2, 0, 1])
    """
    # indices of the colours (5 of them) and of the dashes (5) that `line_style` gives these numbers, unless the user
    # has set other colours
    colours = {number % len(_COLOURS) for number in numbers}
    dashes = {(number // len(_COLOURS) + number % len(_COLOURS)) % len(_DASHES) for number in numbers}
    if len(colours) == len(dashes) == len(numbers):
        return list(numbers)
    ascending = sorted(numbers)
    return [ascending.index(number) for number in numbers]


def make_axes(
    ax: Any = None, *, size: FigureSize | None = None, width: float | None = None, height: float | None = None
) -> Any:
    """Return `ax`, or the axes of a new figure if it is None.

    Parameters
    ----------
    ax : Axes, optional
        The user's axes. They are returned as they are, and a `size` beside them raises InputError.
    size : "column", "page" or (width, height) in inches, optional
        Of a new figure; it sets all fonts to 8 points. None is a figure for the screen, in matplotlib's fonts.
    width, height : float, optional
        In inches, where the content decides: `height` replaces that of every size but a pair, `width` only that of the
        figure for the screen.
    """
    if ax is not None:
        if size is not None:
            raise InputError(
                "plot: takes `ax` or `size`, one of them, got both. Set the size where you make the axes."
            )
        return ax
    return make_panels(1, size=size, width=width, height=height)[0]


def make_panels(
    count: int,
    *,
    size: FigureSize | None = None,
    width: float | None = None,
    height: float | None = None,
    ratios: Sequence[float] | None = None,
    stacked: bool = False,
) -> list[Any]:
    """Return the axes of a new figure with `count` panels; `size`, `width` and `height` are those of `make_axes`.

    Panels are side by side, the left one first, or if `stacked` below each other, the top one first. `ratios` are their
    relative widths or, if stacked, heights; None makes them equal.
    """
    inches = figure_inches(size, width, height)  # (width, height) of the whole figure
    plt = import_optional("matplotlib.pyplot", feature="Plotting", extra="plot")
    row_count, column_count = (count, 1) if stacked else (1, count)
    _, grid = plt.subplots(
        row_count,
        column_count,
        figsize=inches,
        layout="constrained",
        squeeze=False,
        height_ratios=ratios if stacked else None,
        width_ratios=None if stacked else ratios,
    )
    panels = list(grid.flat)
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        if size is not None:
            panel.tick_params(which="both", labelsize=JOURNAL_FONT)  # 8 points
            for text in (panel.xaxis.label, panel.yaxis.label, panel.title):
                text.set_fontsize(JOURNAL_FONT)
    return panels


def figure_inches(size: FigureSize | None, width: float | None, height: float | None) -> tuple[float, float]:
    """Width and height of a new figure in inches.

    `size` is the user's: "column", "page", a pair (width, height) in inches, or None for a figure on the screen.
    `width` and `height` are those that fit what is plotted, in inches; None where it fits any. On the screen both are
    used. A named size has the width of a column or page of a journal, so that only the height may follow the content. A
    pair is used as it is. Raises InputError for another `size`.
    """
    if size is None:
        return width or _ON_SCREEN[0], height or _ON_SCREEN[1]  # 6.4 by 4 inches by default
    if isinstance(size, str):
        check_choice("plot", "size", size, tuple(_SIZES))
        preset_width, preset_height = _SIZES[size]  # "column" or "page"
        return preset_width, height or preset_height
    rule = 'plot: `size` must be "column", "page" or (width, height) in inches'
    try:
        user_width, user_height = (float(length) for length in size)
    except (TypeError, ValueError):
        raise InputError(f"{rule}, got {size!r}.") from None
    # a hundred inches: pixels or millimetres were meant
    if not (0 < user_width < 100 and 0 < user_height < 100):
        raise InputError(f"{rule}, got {size!r}.")
    return user_width, user_height


def small_font(ax: Any) -> float:
    """Return the size in points of legends and of names beside curves: a little below that of the axis labels."""
    return 0.9 * float(ax.xaxis.label.get_fontsize())


def draw_legend(ax: Any) -> None:
    """Draw a legend of all named artists; the samples are long enough to show dashes."""
    ax.legend(fontsize=small_font(ax), handlelength=3)


def select_drawn_points(coverage: np.ndarray, points: int = SHOWN_POINTS) -> np.ndarray:
    """Return indices of about `points` points, evenly spaced in coverage, the first and the last included.

    `coverage` is in ascending order.
    """
    grid = np.linspace(coverage[0], coverage[-1], points)
    return np.unique(np.minimum(np.searchsorted(coverage, grid), len(coverage) - 1))


def draw_curves(
    ax: Any,
    curves: Sequence[tuple[str, Any, Any]],
    label: str,
    bands: Mapping[str, Any] | None = None,
    *,
    risk_scale: RiskScale = "linear",
    style_numbers: Sequence[int] = (),
) -> None:
    """Draw risk-coverage curves on `ax`, each with its name at its right end where there is room, else in a legend.

    Parameters
    ----------
    ax : Axes
        Curves drawn on it before keep their styles.
    curves : sequence of (name, coverage, risk)
        A curve with an empty name is drawn without one.
    label : str
        Of the vertical axis.
    bands : mapping from a curve's name to an object with `coverage`, `low` and `high`, optional
        Shaded around their curves, in the same colour; a band without a curve is ignored.
    risk_scale : "linear" or "log"
        Of the vertical axis. A linear one starts a little below zero, so that a curve on zero is visible in its full
        width, and leaves out the jumps of a curve below 5% coverage where they are far above the rest. A logarithmic
        one has no zero: curves leave it at the bottom. InputError if no risk is positive.
    style_numbers : sequence of int
        For each curve, the number of its `line_style`; by default it is one more than that of the curve before.
    """
    check_choice("plot", "risk_scale", risk_scale, ("linear", "log"))
    first_number = _count_curves(ax)  # those that an earlier call drew on these axes
    numbers = style_numbers or range(first_number, first_number + len(curves))
    for number, (name, coverage, risk) in zip(numbers, curves, strict=True):
        style = line_style(number)
        # `_CURVE_MARK` tells these lines from others on the axes, for the functions below
        (line,) = ax.plot(
            coverage, risk, linewidth=1.5, label=name or None, gid=_CURVE_MARK, **style._asdict()
        )
        band = (bands or {}).get(name)
        if band is not None:
            ax.fill_between(
                band.coverage,
                band.low,
                band.high,
                color=line.get_color(),
                alpha=BAND_OPACITY,
                linewidth=0,
            )
    ax.set(xlabel="coverage", ylabel=label, xlim=(0, 1))
    if risk_scale == "log":
        _set_log_limits(ax)
    else:
        # of everything on the axes; losses may be negative
        low = float(ax.dataLim.intervaly[0]) if curves else 0.0
        high = _highest_risk(ax, bands or {}) if curves else 1.0
        bottom = min(0.0, low)
        margin = 0.03 * (high - bottom) if high > bottom else 0.03  # all risks are 0
        ax.set_ylim(bottom - margin, high + 2 * margin)
    ax.grid(alpha=0.3)
    name_curves(ax)  # at their ends, or in a legend


def _count_curves(ax: Any) -> int:
    """How many curves `draw_curves` has drawn on these axes."""
    return len([line for line in ax.lines if line.get_gid() == _CURVE_MARK])


def _highest_risk(ax: Any, bands: Mapping[str, Any]) -> float:
    """The largest value that the vertical axis must show, of all curves on it and of these bands.

    At very small coverages a risk is the mean of few losses, and one of them can be far above everything else. If so,
    values at coverages below `_SETTLED_COVERAGE` (5%) are ignored: the curve comes in from above. `bands` maps names of
    curves to objects with arrays `coverage` and `high`, the upper edge. `ax` has a curve or a band.
    """
    highest = float(ax.dataLim.intervaly[1])  # matplotlib extends it by every line and band that is drawn
    settled_values: list[float] = []
    parts = [(line.get_xdata(), line.get_ydata()) for line in ax.lines if line.get_gid() == _CURVE_MARK]
    parts += [(band.coverage, band.high) for band in bands.values()]
    for coverage, values in parts:
        is_settled = np.asarray(coverage) >= _SETTLED_COVERAGE
        settled_values += np.asarray(values, dtype=float)[is_settled].tolist()
    highest_settled = max(settled_values, default=highest)
    # `_FAR_ABOVE` is 1.5
    would_flatten_others = highest_settled > 0 and highest > _FAR_ABOVE * highest_settled
    return highest_settled if would_flatten_others else highest


def _set_log_limits(ax: Any) -> None:
    """Make the vertical axis logarithmic, from below the smallest positive risk of a curve to above the largest value.

    Raises InputError if no curve has a positive risk.
    """
    # of the curves that `draw_curves` has drawn; other lines on the axes have no such mark
    risks = [np.asarray(line.get_ydata(), dtype=float) for line in ax.lines if line.get_gid() == _CURVE_MARK]
    positive = np.concatenate([risk[risk > 0] for risk in risks]) if risks else np.array([])
    if not len(positive):
        raise InputError("plot: `risk_scale` must be \"linear\" where no risk is above 0, got 'log'.")
    ax.set_yscale("log", nonpositive="clip")
    highest = max(float(ax.dataLim.intervaly[1]), float(positive.max()))  # bands reach above the curves
    room_below, room_above = 1.5, 1.3  # factors
    ax.set_ylim(float(positive.min()) / room_below, highest * room_above)


def name_curves(ax: Any) -> None:
    """Write the name of each curve beside its right end, or draw a legend where that would be hard to read.

    Names stand at the ends if all curves reach full coverage, no two end at nearly the same risk, no name is too long
    or has to move far from its end to keep clear of the others, and nothing else on the axes has a name.
    """
    # names and a legend of an earlier call: there may be more curves now
    for text in list(ax.texts):
        if text.get_gid() == _NAME_MARK:
            text.remove()
    if ax.get_legend() is not None:
        ax.get_legend().remove()
    named_artists, _ = ax.get_legend_handles_labels()
    if not named_artists:
        return
    # for each name how many points above the end of its curve it stands; None where a legend is easier to read
    shifts = _name_shifts(ax, named_artists)
    if shifts is None:
        draw_legend(ax)
        return
    colors = import_optional("matplotlib.colors", feature="Plotting", extra="plot")
    # all of them are curves that reach full coverage
    for line, shift in zip(named_artists, shifts):
        # thin letters need contrast
        darker = tuple(0.75 * channel for channel in colors.to_rgb(line.get_color()))
        ax.annotate(
            line.get_label(),
            xy=(1.0, line.get_ydata()[-1]),
            xytext=(4, shift),  # points to the right of the end, and above it
            textcoords="offset points",
            verticalalignment="center",
            fontsize=small_font(ax),  # points, a little smaller than the axis labels
            color=darker,
            annotation_clip=False,
            gid=_NAME_MARK,
        )


def _name_shifts(ax: Any, named_artists: Sequence[Any]) -> list[float] | None:
    """How far each name is written above the end of its curve, in points; None where a legend is easier to read.

    That is the case if there are many names or long ones, if one belongs to no curve or to one that ends before full
    coverage, and if ends lie close together or names would have to move far from them.
    """
    if len(named_artists) > _MOST_NAMES:  # 8
        return None
    for artist in named_artists:
        # not a curve, or one that ends before full coverage, by more than 1%
        if artist.get_gid() != _CURVE_MARK or artist.get_xdata()[-1] < 0.99:
            return None
    line_height = _LINE_SPACING * small_font(ax)  # 1.25 heights of the font, in points, as all lengths below
    points_per_pixel = 72 / ax.figure.dpi
    longest_name = max(len(artist.get_label()) for artist in named_artists)  # letters
    axes_width = points_per_pixel * ax.get_window_extent().width
    # a letter is .55 of the font's height wide on average; a name may take 40% of the axes
    if longest_name * _LETTER_WIDTH * small_font(ax) > _WIDEST_NAME * axes_width:
        return None
    ends_in_pixels = [ax.transData.transform((1.0, artist.get_ydata()[-1]))[1] for artist in named_artists]
    ends = points_per_pixel * np.asarray(ends_in_pixels)
    if not np.isfinite(ends).all():  # a risk of 0 on a logarithmic axis
        return None
    # Names of curves that end within 0.3 lines of text could be swapped by the reader.
    if len(ends) > 1 and float(np.diff(np.sort(ends)).min()) < _CLOSEST_ENDS * line_height:
        return None
    # `spread_out` moves names until they are a line apart; none may move by more than 1.3 lines
    shifts = spread_out(ends, line_height) - ends
    if float(np.abs(shifts).max()) > _LARGEST_SHIFT * line_height:
        return None
    return [float(shift) for shift in shifts]


def spread_out(positions: np.ndarray, least_gap: float) -> np.ndarray:
    """Move positions as little as possible (in squares) until neighbours are `least_gap` apart; their order stays.

    With the gaps before it taken off, each position may not be below the one before: an isotonic regression. Positions
    come in any order, and are returned in the same; at least one is needed. Equal ones stay in their order.

    >>> spread_out(np.array([0.0, 10.0, 1.0]), 3.0).tolist()
    [-1.0, 10.0, 2.0]
    """
    from scipy.optimize import isotonic_regression  # here, because metrics are used without scipy

    order = np.argsort(positions, kind="stable")
    gaps_before = least_gap * np.arange(len(positions))
    spread = np.empty(len(positions))
    spread[order] = isotonic_regression(positions[order] - gaps_before).x + gaps_before
    return spread


# text that fits the figure -------------------------------------------------------------------------------------------


def wrap_text(text: str, width: int) -> str:
    """Break a text into lines of at most `width` characters, if possible after spaces, "_", "/", "." and "-".

    Line breaks that it has already are kept.

    >>> wrap_text("resnet32__karanchahal / entropy", 12).splitlines()
    ['resnet32__', 'karanchahal', '/ entropy']
    """
    lines = []
    for given_line in text.split("\n"):
        line = ""
        # a word, and what follows it: separators, blanks or the end of the line
        for word in re.findall(r"[^\s_/.-]*(?:[_/.-]+|\s+|$)", given_line):
            if line and len(line) + len(word.rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += word
            while len(line.rstrip()) > width:  # a word that is longer than a line
                lines.append(line[:width])
                line = line[width:]
        lines.append(line.rstrip())
    return "\n".join(lines)


def letters_that_fit(inches: float, font_size: float) -> int:
    """About how many letters of this font size, in points, have room in this width; at least one."""
    return max(1, int(72 * inches / (_LETTER_WIDTH * font_size)))


def fit_text(panels: Sequence[Any], *, may_grow: bool = False) -> None:
    """Make the numbers on the axes, the axis labels and the legends of a new figure fit into it without overlaps.

    `panels` are all axes of the figure. An axis whose numbers touch gets fewer. Labels, and names in legends, that are
    longer than their room are broken into lines. A legend that covers a curve moves below the axes,
    and the figure becomes higher if it `may_grow`: its height is not the user's.
    """
    figure = panels[0].figure
    for _ in range(_MOST_REDRAWS):  # 8: a change makes room for others, or takes it
        figure.draw_without_rendering()  # also lays the panels out
        changes = [_thin_ticks(axis) for panel in panels for axis in (panel.xaxis, panel.yaxis)]
        changes += [_wrap_axis_labels(panel, panels) for panel in panels]
        changes += [_wrap_legend(panel) for panel in panels]
        # Each helper changes the figure and returns whether it did. Texts come first: the legend needs its final size.
        if not any(changes):
            changes = [_uncover_curves(panel, may_grow=may_grow) for panel in panels]
        if not any(changes):
            return


def _thin_ticks(axis: Any) -> bool:
    """Give an axis fewer numbers if some touch; returns whether it did. Ticks that were set one by one are kept.

    The caller draws the figure again and repeats this while it returns True, so that each call need not go far.
    """
    ticker = import_optional("matplotlib.ticker", feature="Plotting", extra="plot")
    locator = axis.get_major_locator()
    if not isinstance(locator, ticker.MaxNLocator):
        return False
    along = 0 if axis.axis_name == "x" else 1  # index of the coordinate that runs along this axis
    low, high = sorted(axis.get_view_interval())
    ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    boxes = [tick.label1.get_window_extent() for tick in ticks if tick.label1.get_text()]
    if len(boxes) < _FEWEST_TICKS:  # 2
        return False
    intervals = sorted((box.min[along], box.max[along]) for box in boxes)
    # pixels that must be free between two: half the height of the font
    gap = _TICK_GAP * ticks[0].label1.get_fontsize() * axis.figure.dpi / 72
    if all(end + gap <= start for (_, end), (start, _) in pairwise(intervals)):
        return False
    # the locator counts bins between ticks, one fewer than ticks; one of these ticks is to go
    fewer = ticker.MaxNLocator(
        max(_FEWEST_TICKS - 1, len(boxes) - 2), steps=[1, 2, 2.5, 5, 10], min_n_ticks=_FEWEST_TICKS
    )
    places = [place for place in fewer.tick_values(low, high) if low <= place <= high]
    # The first of these that helps: fewer ticks at round numbers, shorter numbers, every second tick.
    if len(places) < len(boxes):
        axis.set_major_locator(fewer)
    elif not isinstance(axis.get_major_formatter(), ticker.FuncFormatter):
        # "0" instead of "0.0000"
        axis.set_major_formatter(
            ticker.FuncFormatter(lambda value, _: f"{value:g}".replace("-", "\N{MINUS SIGN}"))
        )
    elif len(places) > _FEWEST_TICKS:
        axis.set_major_locator(ticker.FixedLocator(places[::2]))
    else:
        return False
    return True


def _wrap_axis_labels(panel: Any, panels: Sequence[Any]) -> bool:
    """Break the labels of a panel's axes into lines where they are longer than their room; returns whether it did.

    The room is centred on the axis, as the label is, and ends at the edge of the figure or halfway to the next panel.
    `panels` are all panels of the figure, `panel` itself included.
    """
    changed = False
    # `along` is the coordinate that runs along the axis, 0 for x and 1 for y
    for along, label in enumerate((panel.xaxis.label, panel.yaxis.label)):
        axes_box = panel.get_window_extent()
        edges = [0.0, float(panel.figure.bbox.max[along])]  # pixels, as all lengths here
        for other in panels:
            other_box = other.get_window_extent()
            if other_box.min[along] >= axes_box.max[along]:
                edges.append((axes_box.max[along] + other_box.min[along]) / 2)
            elif other_box.max[along] <= axes_box.min[along]:
                edges.append((axes_box.min[along] + other_box.max[along]) / 2)
        centre = (axes_box.min[along] + axes_box.max[along]) / 2
        room = 2 * min(abs(edge - centre) for edge in edges)
        label_box = label.get_window_extent()
        length = label_box.max[along] - label_box.min[along]
        if length > room:
            # in letters: what fits, in proportion
            longest_line = max(len(line) for line in label.get_text().split("\n"))
            label.set_text(wrap_text(label.get_text(), max(1, int(longest_line * room / length))))
            changed = True
    return changed


def _wrap_legend(panel: Any) -> bool:
    """Break the names in a legend that is wider than its panel into lines; returns whether it did."""
    legend = panel.get_legend()
    if legend is None:
        return False
    excess = legend.get_window_extent().width - panel.get_window_extent().width  # pixels
    if excess <= 0:
        return False
    texts = legend.get_texts()
    widest = max(texts, key=lambda text: text.get_window_extent().width)
    width = widest.get_window_extent().width
    longest_line = max(len(line) for line in widest.get_text().split("\n"))
    if longest_line == 1:  # one letter per line cannot be broken
        return False
    # letters of a line that fit; in any case fewer than now, so that the next call finds a narrower legend
    letters = max(1, int(longest_line * (width - excess) / width))
    for text in texts:
        text.set_text(wrap_text(text.get_text(), min(letters, longest_line - 1)))
    return True


def _uncover_curves(panel: Any, *, may_grow: bool) -> bool:
    """Move a legend that covers a curve below the axes and their label; returns whether it did.

    The figure becomes as much higher if it `may_grow`. Otherwise only a low legend is moved, so that the axes keep most
    of their height.
    """
    legend = panel.get_legend()
    if (
        legend is None
        or legend.get_gid() == _BELOW_MARK
        or not _covers_curve(panel, legend.get_window_extent())
    ):
        return False
    transforms = import_optional("matplotlib.transforms", feature="Plotting", extra="plot")
    figure = panel.figure
    # from the bottom of the axes to the bottom of the label of the horizontal axis
    pixels_below = panel.get_window_extent().y0 - panel.xaxis.label.get_window_extent().y0
    legend_height = legend.get_window_extent().height + small_font(panel) * figure.dpi / 72  # with a gap
    if may_grow:
        figure.set_figheight(figure.get_figheight() + legend_height / figure.dpi)
    # 40% of the height of the axes
    elif legend_height > _HIGHEST_LEGEND * panel.get_window_extent().height:
        return False
    shift = transforms.ScaledTranslation(0, -pixels_below / figure.dpi, figure.dpi_scale_trans)  # in inches
    legend.set_loc("upper left")
    legend.set_bbox_to_anchor((0, 0), transform=panel.transAxes + shift)
    legend.set_gid(_BELOW_MARK)  # so that it is not moved again
    return True


def _covers_curve(panel: Any, box: Any) -> bool:
    """Is a point of a curve inside a box, in pixels?"""
    for line in panel.lines:
        if line.get_gid() == _CURVE_MARK:
            points = panel.transData.transform(np.column_stack([line.get_xdata(), line.get_ydata()]))
            across = (box.x0 <= points[:, 0]) & (points[:, 0] <= box.x1)
            if (across & (box.y0 <= points[:, 1]) & (points[:, 1] <= box.y1)).any():
                return True
    return False
