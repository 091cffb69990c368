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


# text that fits


def drawn_texts(figure) -> list:
    """All texts of a figure that can be seen: titles, axis labels, numbers inside the axes' limits, names, legends."""
    figure.draw_without_rendering()
    texts = []
    for ax in figure.axes:
        texts += [ax.xaxis.label, ax.yaxis.label, *ax.texts]
        texts += [title for title in (ax.title, ax._left_title) if title.get_text()]
        texts += [] if ax.get_legend() is None else ax.get_legend().get_texts()
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [text for text in texts if text.get_text()]


def check_texts(figure) -> None:
    """No text of the figure is cut by its edge, and no two overlap."""
    width, height = figure.bbox.size
    boxes = [(text.get_text(), text.get_window_extent()) for text in drawn_texts(figure)]
    for name, box in boxes:
        assert min(box.x0, box.y0) >= -0.5, name  # half a pixel of rounding
        assert box.x1 <= width + 0.5, name
        assert box.y1 <= height + 0.5, name
    for place, (name, box) in enumerate(boxes):
        for other_name, other in boxes[:place]:
            apart = box.x0 >= other.x1 or other.x0 >= box.x1 or box.y0 >= other.y1 or other.y0 >= box.y1
            assert apart, f"{name!r} overlaps {other_name!r}"


def near_models(names):
    """Models of an error rate about 0.3 whose areas differ little, with the name of the 0/1 loss in their labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 4000)
    signal = 2 * np.eye(5)[labels]
    logits = {
        name: rng.normal(size=(4000, 5)) + (1 - 0.03 * place) * signal for place, name in enumerate(names)
    }
    return abstain.compare(logits, labels)


@pytest.mark.parametrize("size", ["column", "page"])
@pytest.mark.parametrize(
    "names",
    [
        ("resnet20", "resnet26", "resnet32"),
        ("a", "b"),
        tuple(f"cifar100__{model}__karanchahal / negative_entropy" for model in ("resnet20", "resnet32")),
        ("onewordwithoutaplacetobreakitthatislongerthanacolumniswide", "b"),
        tuple("abcdefgh"),
    ],
)
def test_no_text_is_cut_and_none_overlap(names, size):
    result = near_models(names)
    for kind in ("intervals", "differences", "curves"):
        check_texts(result.plot(kind=kind, size=size).figure)
    check_texts(result.plot_panels(size=size)[0].figure)
    plt.close("all")


def test_texts_of_the_scores_of_one_model_fit_a_column():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 1000)
    table = abstain.evaluate(rng.normal(size=(1000, 5)) + np.eye(5)[labels], labels)
    for loss in table.losses:
        check_texts(table.plot(size="column", loss=loss).figure)
        check_texts(table.plot(kind="intervals", size="column", loss=loss).figure)


def test_the_check_itself_finds_overlaps_and_cuts():
    figure, ax = plt.subplots(figsize=(1, 1))
    ax.set_xlabel("a label that is much longer than this figure is wide")
    with pytest.raises(AssertionError, match="a label"):
        check_texts(figure)
    figure, ax = plt.subplots()
    ax.set_xticks([0, 0.01, 1], ["zero", "nearly zero", "one"])
    with pytest.raises(AssertionError, match="overlaps"):
        check_texts(figure)


def test_panels_of_a_column_are_below_each_other(comparison):
    top, bottom = comparison.plot_panels(size="column")
    assert top.get_position().y0 > bottom.get_position().y1
    assert top.figure.get_size_inches()[0] == pytest.approx(3.4)
    left, right = comparison.plot_panels(size="page")
    assert left.get_position().x1 < right.get_position().x0


def colours(ax, names) -> dict[str, str]:
    """The colour of each curve or error bar by its name."""
    by_name = {line.get_label(): line.get_color() for line in ax.lines if line.get_label() in names}
    rows = {
        tick: label.get_text().split("  ")[0] for tick, label in zip(ax.get_yticks(), ax.get_yticklabels())
    }
    points = [line for line in ax.lines if line.get_marker() == "o"]
    return by_name | {rows[line.get_ydata()[0]]: line.get_color() for line in points}


def test_a_model_has_one_colour_in_all_figures():
    names = ("poor", "fair", "good")
    result = near_models(names[::-1])
    entered = near_models(names[::-1]).entered
    assert entered == ("good", "fair", "poor")
    turned = abstain.compare(
        {
            name: ([0, 0, 1, 0, 1, 0], confidence)
            for name, confidence in (("b", [1, 2, 6, 4, 5, 3]), ("a", [6, 5, 1, 4, 2, 3]))
        }
    )
    assert turned.names == ("a", "b")
    curve_colours = colours(turned.plot(kind="curves"), turned.names)
    assert curve_colours == {"b": _plots.line_style(0).color, "a": _plots.line_style(1).color}
    assert colours(turned.plot(), turned.names) == curve_colours
    assert colours(turned.plot(kind="differences"), turned.names) == {"b": curve_colours["b"]}
    assert colours(result.plot(kind="curves", names=["poor"]), names) == {"poor": _plots.line_style(2).color}
    risk_curves = {
        name: abstain.risk_coverage_curve([0, 0, 1, 0, 1, 0], confidence)
        for name, confidence in (("b", [1, 2, 6, 4, 5, 3]), ("a", [6, 5, 1, 4, 2, 3]))
    }
    assert colours(RiskCoverageDisplay.from_curves(risk_curves).plot(), turned.names) == curve_colours


def many_models(count: int):
    """A comparison of many models with long names and nearly equal curves."""
    rng = np.random.default_rng(0)
    loss = (rng.random(400) < 0.3).astype(float)
    return abstain.compare(
        {f"resnet{k} / negative_entropy": (loss, -loss + rng.normal(size=400)) for k in range(count)}
    )


def curve_lines(ax) -> list:
    return [line for line in ax.lines if line.get_label().startswith("resnet")]


@pytest.mark.parametrize("names", [None, (0, 4, 8), (0, 5), (1, 2)])
def test_lines_that_are_shown_together_differ_by_colour_and_by_dashes(names):
    result = many_models(12)
    shown = None if names is None else [f"resnet{k} / negative_entropy" for k in names]
    curve_panel, difference_panel = result.plot_panels(names=shown, size="column")
    lines = curve_lines(curve_panel)
    assert len(lines) == (5 if names is None else len(names))
    assert len({line.get_color() for line in lines}) == len(lines)
    assert len({str(line._unscaled_dash_pattern) for line in lines}) == len(lines)
    # a model looks the same in both panels; long names are broken into lines
    colour_of = {line.get_label().replace(" ", ""): line.get_color() for line in lines}
    rows = dict(zip(difference_panel.get_yticks(), difference_panel.get_yticklabels()))
    points = [line for line in difference_panel.lines if line.get_marker() == "o"]
    assert len(points) == len(lines) - 1
    for point in points:
        name = "".join(rows[point.get_ydata()[0]].get_text().split())
        assert point.get_color() == colour_of[name]


@pytest.mark.parametrize("risk_scale", ["linear", "log"])
def test_a_legend_covers_no_curve(risk_scale):
    ax, below = many_models(12).plot_panels(size="column", risk_scale=risk_scale)
    ax.figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    for line in curve_lines(ax):
        points = ax.transData.transform(np.column_stack([line.get_xdata(), line.get_ydata()]))
        assert not any(box.contains(*point) for point in points)
    assert below.get_tightbbox().y1 <= box.y0
    check_texts(ax.figure)


def test_a_small_figure_has_numbers_that_do_not_touch():
    rng = np.random.default_rng(0)
    loss = (rng.random(10_000) < 0.07).astype(float)
    models = {f"ResNet-{k}": (loss, -3 * loss + rng.normal(size=10_000)) for k in (32, 44, 56)}
    left, _ = abstain.compare(models).plot_panels(size=(3.4, 1.9))
    check_texts(left.figure)


def test_an_axis_names_its_loss_in_brackets():
    labels = np.arange(300) % 3
    logits = np.random.default_rng(0).normal(size=(300, 3)) + 2 * np.eye(3)[labels]
    result = abstain.compare({"a": logits, "b": logits[:, ::-1] * 0.5 + logits}, labels)
    assert result.display("differences").label.startswith("AURC (0/1 loss)\nminus that of ")
    by_entropy = abstain.compare({"a": logits, "b": 2 * logits}, labels, losses="cross_entropy")
    assert by_entropy.display("intervals").label == "AURC (Cross-entropy)"
