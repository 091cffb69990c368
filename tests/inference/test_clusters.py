"""Two crossed kinds of clusters: the variance by hand, nested kinds, every entrance, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import abstain
from abstain.errors import InputError, ShapeError
from abstain.inference import curve_band, influence, interval, paired_difference, standard_error
from abstain.inference.clusters import cluster_codes, two_way_unit_variance, two_way_variance
from abstain.inference.limits import UnitVariance
from tests.inference.test_coverage import FLOOR, SQUARE, holds, sim

N = 240


@pytest.fixture(scope="module")
def data():
    """Losses and confidences of two models, and the place (12) and week (20) of each sample, with shared effects."""
    rng = np.random.default_rng(3)
    place, week = rng.integers(0, 12, N), rng.integers(0, 20, N)
    effect = rng.normal(size=12)[place] + rng.normal(size=20)[week]
    confidences = rng.normal(size=(2, N)) - 0.5 * effect
    losses = rng.random((2, N)) < 1 / (1 + np.exp(0.5 + 1.5 * confidences - effect))
    return losses.astype(float), confidences, place, week


def squared_sums(values, labels):
    """Sum of squares of the sums of values over all samples with one label, times C / (C - 1) for C labels."""
    sums = [values[[other == label for other in labels]].sum() for label in set(labels)]
    return sum(total**2 for total in sums) * len(sums) / (len(sums) - 1)


def by_hand(values, place, week):
    """Variance of a mean of influences by place and week."""
    parts = [squared_sums(values, labels) for labels in (list(place), list(week), list(zip(place, week)))]
    return max(parts[0] + parts[1] - parts[2], parts[0], parts[1]) / len(values) ** 2


@pytest.mark.parametrize("metric", ["aurc", "risk", "auroc", "naurc"])
def test_standard_error_by_hand(data, metric):
    losses, confidences, place, week = data
    values = influence(metric, losses[0], confidences[0]).values
    got = standard_error(metric, losses[0], confidences[0], clusters=[place, week])
    assert got == pytest.approx(np.sqrt(by_hand(values, place, week)), rel=1e-10)


def test_difference_by_hand(data):
    losses, confidences, place, week = data
    values = [influence("aurc", l, g).values for l, g in zip(losses, confidences)]
    got = paired_difference(losses[0], confidences[0], losses[1], confidences[1], clusters=(place, week))
    assert got.standard_error == pytest.approx(
        np.sqrt(by_hand(values[0] - values[1], place, week)), rel=1e-10
    )
    comparison = abstain.compare(
        {"a": (losses[0], confidences[0]), "b": (losses[1], confidences[1])}, clusters=[place, week]
    )
    pair = comparison.pair("a", "b")
    assert (pair.low, pair.high, pair.p_value) == pytest.approx((got.low, got.high, got.p_value), rel=1e-12)


def test_unpaired_difference_adds_the_variances_of_both_sides(data):
    losses, confidences, place, week = data
    got = abstain.inference.unpaired_difference(
        losses[0], confidences[0], losses[1], confidences[1], clusters_a=[place, week], clusters_b=place
    )
    errors = [
        standard_error("aurc", losses[0], confidences[0], clusters=[place, week]),
        standard_error("aurc", losses[1], confidences[1], clusters=place),
    ]
    assert got.standard_error == pytest.approx(np.hypot(*errors), rel=1e-12)


@pytest.mark.parametrize(
    "metric", ["aurc", "risk", ("risk_at_coverage", {"coverage": 0.7}), ("coverage_at_risk", {"risk": 0.2})]
)
def test_a_kind_that_is_unique_or_nested_leaves_the_other(data, metric):
    losses, confidences, place, _ = data
    name, options = metric if isinstance(metric, tuple) else (metric, {})
    alone = interval(name, losses[0], confidences[0], clusters=place, **options)
    for inner in (np.arange(N), place * 2 + np.arange(N) % 2):
        for clusters in ([place, inner], [inner, place], np.stack([inner, place], axis=1)):
            assert interval(name, losses[0], confidences[0], clusters=clusters, **options) == alone


def test_limits_are_wider_than_by_either_kind(data):
    losses, confidences, place, week = data
    both = interval("aurc", losses[0], confidences[0], clusters=[place, week])
    for kind in (place, week):
        one = interval("aurc", losses[0], confidences[0], clusters=kind)
        assert both.standard_error >= one.standard_error
        assert both.low <= one.low
        assert both.high >= one.high


def test_the_variance_is_at_least_the_larger_one():
    assert two_way_variance(2.0, 3.0, 1.0) == 4.0
    assert two_way_variance(np.array([2.0, 1.0]), np.array([3.0, 1.0]), np.array([4.0, 5.0])).tolist() == [
        3.0,
        1.0,
    ]


@pytest.mark.parametrize(
    ("variance_of_intersections", "variance", "degrees_of_freedom"),
    [
        (1.0, 4.0, 2 * 4.0**2 / (0.8 + 0.72 + 0.1)),  # both kinds contribute
        (4.0, 3.0, 2 * 3.0**2 / (0.8 + 0.72 + 0.1)),  # the second kind alone, but known better than the first
        (1e-9, 5.0, 2 * 5.0**2 / (0.8 + 0.72 + 0.1)),
    ],
)
def test_degrees_of_freedom_of_two_kinds(variance_of_intersections, variance, degrees_of_freedom):
    # 10 and 25 degrees of freedom: 2 variance^2 / variance of the variance
    first = UnitVariance(variance=2.0, variance_of_variance=0.8, unit_count=30)
    second = UnitVariance(variance=3.0, variance_of_variance=0.72, unit_count=40)
    intersections = UnitVariance(variance=variance_of_intersections, variance_of_variance=0.1, unit_count=300)
    combined = two_way_unit_variance(first, second, intersections)
    assert combined.unit_count == 30
    assert combined.variance == pytest.approx(variance)
    assert combined.degrees_of_freedom() == pytest.approx(min(degrees_of_freedom, 29))


def test_two_kinds_are_known_at_least_as_well_as_the_kind_with_fewer_degrees_of_freedom():
    # without effects of places or weeks all three variances are alike, and the sum of their uncertainties is too much
    alike = UnitVariance(variance=1.0, variance_of_variance=0.1, unit_count=30)
    assert two_way_unit_variance(alike, alike, alike).degrees_of_freedom() == pytest.approx(20)
    known_less = UnitVariance(variance=1.0, variance_of_variance=0.2, unit_count=30)
    assert two_way_unit_variance(alike, known_less, alike).degrees_of_freedom() == pytest.approx(10)


def test_evaluate_groups_and_words(data):
    losses, confidences, place, week = data
    names = [f"place {code}" for code in place]
    table = abstain.evaluate(
        loss=losses[0],
        confidence=confidences[0],
        clusters=[names, week],
        groups=np.arange(N) % 2,
        metrics=["aurc"],
    )
    by_group = interval("aurc", losses[0], confidences[0], clusters=[place, week], groups=np.arange(N) % 2)
    whole = interval("aurc", losses[0], confidences[0], clusters=[place, week])
    for entry in table.entries:
        same = whole if entry.group is None else by_group[entry.group]
        assert (entry.low, entry.high) == pytest.approx((same.low, same.high), rel=1e-12)
    macro = by_group.macro
    values = sum(
        np.where(np.arange(N) % 2 == group, influence_of_group(losses[0], confidences[0], group), 0.0)
        for group in (0, 1)
    )
    assert macro.standard_error == pytest.approx(np.sqrt(by_hand(values, place, week)), rel=1e-10)


def influence_of_group(loss, confidence, group):
    """Influence of each sample on AURC of one group (every second sample), 0 for those outside it."""
    inside = np.arange(N) % 2 == group
    values = np.zeros(N)
    values[inside] = influence("aurc", loss[inside], confidence[inside]).values
    return values


def test_three_way_of_two_kinds_is_that_of_one_where_kinds_are_nested(data):
    losses, _, place, week = data
    right = 1 - losses[0]
    assert abstain.evaluation.three_way(
        right, clusters=[place, np.arange(N)]
    ) == abstain.evaluation.three_way(right, clusters=place)
    both = abstain.evaluation.three_way(right, price=2, clusters=[place, week])
    assert both.score.low < abstain.evaluation.three_way(right, price=2, clusters=week).score.low


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda l, g, c: interval("aurc", l, g, clusters=c, method="bootstrap"), InputError, "the bootstrap"),
        (
            lambda l, g, c: interval("aurc", l, g, clusters=c, strata=c[0]),
            InputError,
            "`strata` with one kind",
        ),
        (lambda l, g, c: interval("aurc", l, g, clusters=[*c, c[0]]), ShapeError, "two vectors of labels"),
        (lambda l, g, c: interval("aurc", l, g, clusters=[c[0], c[1][:-1]]), ShapeError, "two vectors"),
        (lambda l, g, c: curve_band(l, g, clusters=c), InputError, "curve_band: the bootstrap"),
        (lambda l, g, c: interval("risk", l, g, clusters=[c[0], np.zeros(N)]), InputError, "at least two"),
        (
            lambda l, g, c: abstain.select_threshold(l, g, risk=0.4, clusters=c),
            InputError,
            "one kind of clusters",
        ),
        (
            lambda l, g, c: abstain.evaluate("x", engine="files", clusters=c),
            InputError,
            "engines do not take",
        ),
    ],
)
def test_what_is_refused_is_named(data, call, error, words):
    losses, confidences, place, week = data
    with pytest.raises(error, match=words):
        call(losses[0], confidences[0], [place, week])


def test_codes():
    assert cluster_codes("f", None, 3) is None
    assert cluster_codes("f", ["b", "a", "b"], 3).tolist() == [1, 0, 1]
    crossed = cluster_codes("f", [["b", "a", "b", "a"], [7, 7, 5, 5]], 4)
    assert crossed.tolist() == [[1, 1], [0, 1], [1, 0], [0, 0]]
    assert cluster_codes("f", [["b", "a"], ["d", "d"]], 2).tolist() == [0, 0]  # b and a lie inside d


def test_crossed_effects_small():
    of_risk, of_difference = sim.crossed_covered(SQUARE, 20, 30, 80, 1, "risk")
    for shares in (of_risk, of_difference):
        assert holds(shares[0], 80, 0.92, 0.975)
        assert shares[3] < 0.8  # without clusters
        assert shares[2] < shares[0]


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["aurc", "risk"])
@pytest.mark.parametrize(("places", "weeks"), [(20, 30), (30, 50), (52, 80)])
@pytest.mark.parametrize("profile", [SQUARE, FLOOR], ids=lambda p: p.name)
def test_crossed_effects(profile, places, weeks, metric):
    of_metric, of_difference = sim.crossed_covered(profile, places, weeks, 1000, 2026, metric)
    for shares in (of_metric, of_difference):
        assert holds(shares[0], 1000, 0.92, 0.975)
        assert max(shares[1:]) < shares[0]


def test_forecasts_that_share_a_place_and_a_week(data_dir):
    """The table of docs/how-sure.md: two models of the FluSight hub."""
    parquet = pytest.importorskip("pyarrow.parquet")
    path = data_dir / "beyond" / "flusight.parquet"
    columns = {name: np.asarray(column) for name, column in parquet.read_table(path).to_pydict().items()}
    rows = {}
    for model in ("FluSight-ensemble", "FluSight-baseline"):
        (of_model,) = np.nonzero(columns["model"] == model)
        keys = [
            tuple(columns[name][row] for name in ("reference_date", "location", "horizon"))
            for row in of_model
        ]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        rows[model] = of_model[order]
    logs = {name: np.log1p(columns[name]) for name in ("median", "truth", "q025", "q975")}
    models = [
        (np.abs(logs["median"] - logs["truth"])[r], (logs["q025"] - logs["q975"])[r]) for r in rows.values()
    ]
    ensemble_rows = rows["FluSight-ensemble"]
    place = columns["location"][ensemble_rows]
    week = columns["target_end_date"][ensemble_rows]
    page = (Path(__file__).parents[2] / "docs" / "how-sure.md").read_text(encoding="utf-8")
    for name, clusters in {"none": None, "place": place, "week": week, "both": [place, week]}.items():
        area = interval("aurc", *models[0], clusters=clusters)
        difference = paired_difference(*models[0], *models[1], clusters=clusters)
        line = (
            f"| {name} | {area.estimate:.3f} [{area.low:.3f}, {area.high:.3f}] | {area.standard_error:.4f} | "
            f"{difference.difference:.3f} [{difference.low:.3f}, {difference.high:.3f}] | "
            f"{difference.standard_error:.4f} |"
        )
        assert line in page


def test_without_errors_a_point_of_the_curve_counts_clusters_not_samples():
    """Right answers of 12 patients are 12 draws, not 60: five alike say no more than one."""
    patients = np.arange(60) // 5
    confidence = np.random.default_rng(0).permutation(60).astype(float)
    point = interval("risk_at_coverage", np.zeros(60), confidence, coverage=1.0, clusters=patients)
    assert point.high == pytest.approx(1 - 0.025 ** (1 / 12))
    singles = interval("risk_at_coverage", np.zeros(60), confidence, coverage=1.0, clusters=np.arange(60))
    alone = interval("risk_at_coverage", np.zeros(60), confidence, coverage=1.0)
    assert singles.high == pytest.approx(alone.high)
    two_ways = np.stack([patients, np.arange(60) % 4], axis=1)  # 4 places are fewer draws than 12 patients
    crossed = interval("risk_at_coverage", np.zeros(60), confidence, coverage=1.0, clusters=two_ways)
    assert crossed.high == pytest.approx(1 - 0.025 ** (1 / 4))
