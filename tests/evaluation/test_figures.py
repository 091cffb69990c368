"""Figures: sizes, labels, styles that do not depend on colour alone, names beside curves, files with text as text."""

from __future__ import annotations

from itertools import pairwise

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import abstain
from abstain import _plots
from abstain.display import CurveLine, IntervalDisplay, RiskCoverageDisplay, save_figure
from abstain.errors import DataError, InputError


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def curves(*ends: float, last_coverage: float = 1.0) -> RiskCoverageDisplay:
    """Straight curves from risk 0 to these risks, named a, b, c ..."""
    lines = []
    for name, end in zip("abcdefghijkl", ends):
        lines.append(CurveLine(name, coverage=(0.1, last_coverage), risk=(0.0, end)))
    return RiskCoverageDisplay(tuple(lines))


@pytest.fixture(scope="module")
def comparison():
    """Three models with one loss; the third ranks at random."""
    rng = np.random.default_rng(0)
    confidence = rng.random(2000)
    loss = (rng.random(2000) < 0.5 * (1 - confidence)).astype(float)
    noises = {"good": 0.0, "fair": 0.3, "poor": 30.0}
    return abstain.compare(
        {name: (loss, confidence + noise * rng.normal(size=2000)) for name, noise in noises.items()}
    )


# sizes


@pytest.mark.parametrize(("size", "inches"), [("column", (3.4, 2.5)), ("page", (7.0, 2.8)), ((5, 2), (5, 2))])
def test_a_figure_for_a_journal_has_its_size_and_small_fonts(size, inches):
    ax = curves(0.1, 0.3).plot(size=size)
    assert tuple(ax.figure.get_size_inches()) == pytest.approx(inches)
    assert ax.xaxis.label.get_fontsize() == 8
    assert {tick.get_fontsize() for tick in ax.get_xticklabels()} == {8}
    assert [text.get_fontsize() for text in ax.texts] == pytest.approx([7.2, 7.2])


def test_bars_grow_with_the_number_of_names():
    heights = []
    for count in (2, 10):
        values = (0.1,) * count
        ax = IntervalDisplay(tuple("abcdefghij"[:count]), values, values, values).plot(size="column")
        width, height = ax.figure.get_size_inches()
        assert width == pytest.approx(3.4)
        heights.append(height)
    assert heights[1] - heights[0] == pytest.approx(8 * 0.2)


@pytest.mark.parametrize("size", ["colum", (3,), (300, 200), (0, 2), 7, ("a", "b")])
def test_a_wrong_size_is_refused(size):
    with pytest.raises(InputError, match="`size` must be"):
        curves(0.1).plot(size=size)


def test_size_and_axes_exclude_each_other():
    ax = curves(0.1).plot()
    with pytest.raises(InputError, match="`ax` or `size`"):
        curves(0.1).plot(ax, size="column")


# styles


def test_lines_differ_without_colour_and_without_dashes():
    styles = [_plots.line_style(number) for number in range(20)]
    assert len(set(styles)) == 20
    for first, second in pairwise(styles):
        assert first.color != second.color
        assert first.linestyle != second.linestyle
    with matplotlib.rc_context({"axes.prop_cycle": matplotlib.cycler(color=["red", "blue"])}):
        assert [_plots.line_style(number).color for number in range(3)] == ["red", "blue", "red"]


def seen_with(deficiency: str, colour: str) -> np.ndarray:
    """A colour as people with complete protanopia or deuteranopia see it (Vienot, Brettel and Mollon 1999), as RGB."""
    red, green, blue = np.asarray(matplotlib.colors.to_rgb(colour)) ** 2.2
    red_share, blue_change = {"protan": (0.11238, 0.00401), "deutan": (0.29275, -0.02234)}[deficiency]
    yellow = red_share * red + (1 - red_share) * green  # they have one signal for both
    return np.clip([yellow, yellow, blue + blue_change * (red - green)], 0, 1) ** (1 / 2.2)


@pytest.mark.parametrize("deficiency", ["protan", "deutan"])
def test_colours_are_told_apart_with_colour_blindness(deficiency):
    seen = [seen_with(deficiency, _plots.line_style(number).color) for number in range(5)]
    distances = []
    for place, colour in enumerate(seen):
        distances += [np.abs(colour - other).max() for other in seen[:place]]
    assert min(distances) > 0.15
    # the check itself: a green and an orange that these people confuse
    assert np.abs(seen_with("deutan", "#5aa02c") - seen_with("deutan", "#b47d2c")).max() < 0.15


# names


def test_names_are_beside_the_ends_of_curves():
    ax = curves(0.1, 0.3, 0.2).plot()
    assert ax.get_legend() is None
    ends = {text.get_text(): text.xy for text in ax.texts}
    assert ends == {"a": (1.0, 0.1), "b": (1.0, 0.3), "c": (1.0, 0.2)}
    ax = curves(0.29, 0.3, 0.31).plot()
    ax.figure.draw_without_rendering()
    boxes = sorted(text.get_window_extent().extents[[1, 3]].tolist() for text in ax.texts)
    assert len(boxes) == 3
    assert all(upper[0] > lower[1] for lower, upper in pairwise(boxes))  # none overlap


@pytest.mark.parametrize(
    "display",
    [
        curves(0.3, 0.3),  # which name belongs to which curve could not be seen
        curves(0.1, 0.3, last_coverage=0.8),
        curves(*np.linspace(0.1, 1, 9)),
        RiskCoverageDisplay((CurveLine("a name that is too long for one column", (0.1, 1), (0, 0.1)),)),
    ],
)
def test_a_legend_where_names_would_be_hard_to_read(display):
    ax = display.plot(size="column")
    assert not ax.texts
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [line.name for line in display.lines]


def test_a_later_curve_gets_its_name_too():
    ax = curves(0.1).plot()
    abstain.risk_coverage_curve([1, 0, 1, 0], [1, 2, 3, 4]).plot(ax, name="later")
    assert {text.get_text() for text in ax.texts} == {"a", "later"}
    ax.axhline(0.2, label="limit")
    abstain.risk_coverage_curve([1, 1, 1, 0], [1, 2, 3, 4]).plot(ax, name="last")
    assert not ax.texts
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"a", "later", "last", "limit"}


@pytest.mark.parametrize("seed", range(3))
def test_spreading_keeps_gap_and_order_and_moves_little(seed):
    rng = np.random.default_rng(seed)
    positions = rng.uniform(0, 30, size=6)
    spread = _plots.spread_out(positions, 4.0)
    order = np.argsort(positions)
    assert (np.diff(spread[order]) > 4.0 - 1e-9).all()
    moved = ((spread - positions) ** 2).sum()
    starts = rng.uniform(-5, 25, size=(5000, 1))
    gaps = 4.0 + rng.exponential(1.0, size=(5000, 5)) * rng.integers(0, 2, size=(5000, 5))
    others = np.concatenate([starts, starts + np.cumsum(gaps, axis=1)], axis=1)
    assert ((others - positions[order]) ** 2).sum(axis=1).min() >= moved - 1e-9  # no arrangement moves less
    apart = np.array([0.0, 40.0, 20.0])
    assert _plots.spread_out(apart, 4.0).tolist() == apart.tolist()


# scales


def test_a_log_scale_shows_small_risks_and_survives_zero():
    ax = curves(0.5, 0.002).plot(risk_scale="log")
    assert ax.get_yscale() == "log"
    bottom, top = ax.get_ylim()
    assert 0.0005 < bottom < 0.002
    assert 0.5 < top < 1
    with pytest.raises(InputError, match="no risk is above 0"):
        curves(0.0).plot(risk_scale="log")
    with pytest.raises(InputError, match="`risk_scale` must be"):
        curves(0.1).plot(risk_scale="logarithmic")


def test_jumps_of_the_first_few_samples_do_not_flatten_the_figure():
    coverage = (0.001, 0.01, 0.05, 0.5, 1.0)
    jump = RiskCoverageDisplay((CurveLine("a", coverage, risk=(8.0, 0.4, 0.2, 0.25, 0.3)),)).plot()
    assert 0.3 < jump.get_ylim()[1] < 0.35
    small_jump = RiskCoverageDisplay((CurveLine("a", coverage, risk=(0.44, 0.4, 0.2, 0.25, 0.3)),)).plot()
    assert 0.44 < small_jump.get_ylim()[1] < 0.5


# comparisons


def test_differences_are_those_of_the_pairs(comparison):
    frame = comparison.display("differences").frame("dict")
    assert tuple(frame["name"]) == ("fair", "poor")
    for name, estimate, low, high in zip(*(frame[key] for key in ("name", "estimate", "low", "high"))):
        pair = comparison.pair(name, "good")
        assert (estimate, low, high) == (pair.difference, pair.low, pair.high)
    ax = comparison.plot(kind="differences", names=["poor", "fair"])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["poor"]
    assert ax.get_xlabel() == "AURC\nminus that of fair"


def test_curves_of_a_comparison_are_those_of_the_samples(comparison):
    assert tuple(line.name for line in comparison.curves) == comparison.names
    loss = [0.0, 5.0, 0.0, 5.0, 5.0]  # in another unit than 1
    confidence = [9.0, 8.0, 7.0, 7.0, 1.0]
    small = abstain.compare({"a": (loss, confidence), "b": (loss, confidence[::-1])}, metric="risk")
    (line,) = (line for line in small.curves if line.name == "a")
    assert line.coverage == pytest.approx((0.2, 0.4, 0.8, 1.0))
    assert line.risk == pytest.approx((0.0, 2.5, 2.5, 3.0))
    assert abstain.Comparison.from_json(small.to_json()).curves == small.curves


def test_two_panels_in_one_call(comparison):
    left, right = comparison.plot_panels()
    assert left.figure is right.figure
    assert tuple(left.figure.get_size_inches()) == pytest.approx((7.0, 2.8))
    assert len(left.lines) == 3
    assert [text.get_text() for text in right.get_yticklabels()] == ["fair", "poor"]
    assert [panel.get_title(loc="left") for panel in (left, right)] == ["(a)", "(b)"]


def test_what_a_comparison_cannot_draw(comparison):
    with pytest.raises(InputError, match="`kind` must be"):
        comparison.plot(kind="pie")
    with pytest.raises(InputError, match="no contestant 'god'"):
        comparison.plot(names=["god"])
    with pytest.raises(InputError, match="needs two contestants"):
        comparison.plot(kind="differences", names=["good"])
    graded = abstain.evaluation.compare_answers({"a": [1] * 60 + [0] * 40, "b": [1] * 40 + [0] * 60})
    with pytest.raises(InputError, match="no curves"):
        graded.plot_panels()


# files


def test_text_stays_text_in_vector_files(tmp_path):
    for folder in ("first", "again"):
        (tmp_path / folder).mkdir()
        for ending in ("svg", "pdf", "png"):
            ax = curves(0.1, 0.3).plot(size="column")
            ax.set_title("a title of its own")
            save_figure(ax, tmp_path / folder / f"figure.{ending}")
    assert ">a title of its own</text>" in (tmp_path / "first/figure.svg").read_text()
    pdf = (tmp_path / "first/figure.pdf").read_bytes()
    assert b"/Type0" in pdf  # a font of type 42
    assert b"/Type3" not in pdf  # letters as shapes
    for first in (tmp_path / "first").iterdir():
        assert (tmp_path / "again" / first.name).read_bytes() == first.read_bytes()
    for name in ("figure", "figure.docx"):
        with pytest.raises(DataError, match="must end in"):
            save_figure(ax, tmp_path / name)
