"""A metric that is defined in this file alone works wherever the name of a metric does.

It is the area under the risk-coverage curve with weight 2c: the mean selective risk, in which high coverages count
more. Everything is held against brute force over the samples, which shares no code with the package.
"""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.core.rows import Blocks
from abstain.errors import InputError
from abstain.inference import (
    influence,
    interval,
    interval_from_blocks,
    paired_difference,
    standard_error,
    unpaired_difference,
)
from abstain.metrics import METRICS, Metric, Option, RowInfluence


def late_area(rows, options):
    """Sum over rows of the selective risk times the share of coverage, weighted by 2c in the middle of the row."""
    middle = (rows.accepted_mass - rows.mass / 2) / rows.total_mass
    return float(np.sum(rows.mass * 2 * middle * rows.risk) / rows.total_mass[0])


def late_area_influence(rows, options):
    """W^2 T / 2 is the sum of m (N - m/2) S/N: a member moves its row's m, and N and S at and below its row."""
    m, N, S, W = rows.mass, rows.accepted_mass, rows.accepted_loss, rows.total_mass[0]
    per_loss = m * (N - m / 2) / N
    per_mass = m * (m / 2) * S / N**2  # of N in (N - m/2) S/N
    own_row = (N - m) * S / N
    total = 2 * float(np.sum(per_loss * S)) / W**2

    def from_here_down(values):
        return np.cumsum(values[::-1])[::-1]

    constant = 2 / W * (own_row + from_here_down(per_mass)) - 2 * total
    return RowInfluence(constant=constant, slope=2 / W * from_here_down(per_loss))


MINE = Metric(
    name="late_area",
    label="late area",
    summary="the mean selective risk, in which high coverages count more",
    lower_is_better=True,
    value=late_area,
    influence=late_area_influence,
    is_nonnegative=True,
    scales_with_loss=True,
)
WITHOUT_INFLUENCE = Metric(
    name="late_area_slow",
    label="late area",
    summary="the same without its influence function",
    lower_is_better=True,
    value=late_area,
    is_nonnegative=True,
    scales_with_loss=True,
)


def brute_force(loss, confidence, weight=None):
    """The definition, threshold by threshold over the samples."""
    weight = np.ones(len(loss)) if weight is None else weight
    total = weight.sum()
    value = 0.0
    for threshold in np.unique(confidence):
        accepted = confidence >= threshold
        above = confidence > threshold
        risk = (weight * loss)[accepted].sum() / weight[accepted].sum()
        start, stop = weight[above].sum() / total, weight[accepted].sum() / total
        value += risk * (stop**2 - start**2)  # the integral of 2c
    return value


def numerical_influence(loss, confidence, weight):
    step = 1e-6
    derivative = np.empty(len(loss))
    for i in range(len(loss)):
        up, down = weight.copy(), weight.copy()
        up[i] += step
        down[i] -= step
        change = brute_force(loss, confidence, up) - brute_force(loss, confidence, down)
        derivative[i] = weight.sum() * change / (2 * step)
    return derivative - np.average(derivative, weights=weight)


@pytest.fixture(params=["zero_one", "graded", "two sizes"])
def sample(request):
    rng = np.random.default_rng(3)
    confidence = rng.integers(0, 25, 120) / 25
    loss = (rng.random(120) < 0.7 * (1 - confidence)).astype(float)
    if request.param == "graded":
        loss = rng.exponential(1 - 0.8 * confidence)
    if request.param == "two sizes":
        loss *= 2.5
    return loss, confidence, rng.random(120) + 0.2


@pytest.mark.parametrize("weighted", [False, True])
def test_value_influence_and_standard_error(sample, weighted):
    loss, confidence, weight = sample
    given = {"sample_weight": weight} if weighted else {}
    w = weight if weighted else np.ones(len(loss))
    expected = numerical_influence(loss, confidence, w)
    assert MINE(loss, confidence, **given) == pytest.approx(brute_force(loss, confidence, w), rel=1e-12)
    influences = influence(MINE, loss, confidence, **given)
    assert influences.estimate == pytest.approx(brute_force(loss, confidence, w), rel=1e-12)
    np.testing.assert_allclose(influences.values, expected, rtol=1e-6, atol=1e-6)
    error = np.sqrt(np.sum((w * expected) ** 2)) / w.sum()
    assert standard_error(MINE, loss, confidence, **given) == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_interval_by_samples_by_rows_and_by_blocks(sample, weighted):
    loss, confidence, weight = sample
    weight = weight if weighted else None
    by_rows = interval(MINE, loss, confidence, sample_weight=weight)
    blocks = interval_from_blocks(MINE, Blocks.from_samples(loss, confidence, weight))
    assert by_rows.low < by_rows.estimate < by_rows.high
    assert by_rows.method == "log"
    assert [blocks.estimate, blocks.low, blocks.high] == pytest.approx(
        [by_rows.estimate, by_rows.low, by_rows.high], rel=1e-9
    )
    # within strata, here a single one, the variance has n - 1 in the denominator
    by_samples = interval(MINE, loss, confidence, sample_weight=weight, strata=np.zeros(len(loss)))
    enlargement = np.sqrt(len(loss) / (len(loss) - 1))
    assert by_samples.estimate == pytest.approx(by_rows.estimate, rel=1e-9)
    assert by_samples.standard_error == pytest.approx(enlargement * by_rows.standard_error, rel=1e-9)


def test_bootstrap_and_jackknife_agree_with_the_influence(sample):
    loss, confidence, weight = sample
    error = standard_error(MINE, loss, confidence)
    bootstrap = interval(MINE, loss, confidence, method="bootstrap", replicates=400, rng=0)
    assert bootstrap.estimate == pytest.approx(brute_force(loss, confidence), rel=1e-12)
    assert bootstrap.standard_error == pytest.approx(error, rel=0.15)
    assert interval(MINE, loss, confidence, method="jackknife").standard_error == pytest.approx(error)
    by_deletion = interval(WITHOUT_INFLUENCE, loss, confidence)
    assert by_deletion.method == "jackknife"
    assert by_deletion.estimate == pytest.approx(brute_force(loss, confidence), rel=1e-12)
    assert by_deletion.standard_error == pytest.approx(error, rel=0.05)
    weighted = interval(WITHOUT_INFLUENCE, loss, confidence, sample_weight=weight)
    assert weighted.standard_error == pytest.approx(
        standard_error(MINE, loss, confidence, sample_weight=weight), rel=0.1
    )


def test_deletion_is_exact():
    rng = np.random.default_rng(0)
    confidence, loss = rng.integers(0, 6, 15) / 6, rng.random(15)
    clusters = np.arange(15) % 5
    without = [brute_force(loss[clusters != c], confidence[clusters != c]) for c in range(5)]
    expected = np.sqrt(np.sum((without - np.mean(without)) ** 2) * 4 / 5)
    found = interval(WITHOUT_INFLUENCE, loss, confidence, clusters=clusters)
    assert found.standard_error == pytest.approx(expected, rel=1e-10)


def test_clusters_and_groups(sample):
    loss, confidence, _ = sample
    clusters = np.arange(len(loss)) // 3
    expected = numerical_influence(loss, confidence, np.ones(len(loss)))
    sums = np.bincount(clusters, expected)
    error = np.sqrt(len(sums) / (len(sums) - 1) * sums @ sums) / len(loss)
    assert interval(MINE, loss, confidence, clusters=clusters).standard_error == pytest.approx(
        error, rel=1e-6
    )
    groups = np.where(np.arange(len(loss)) % 2, "odd", "even")
    values = {name: brute_force(loss[groups == name], confidence[groups == name]) for name in ("even", "odd")}
    by_group = interval(MINE, loss, confidence, groups=groups)
    assert {name: found.estimate for name, found in by_group.intervals.items()} == pytest.approx(values)
    assert by_group.macro.estimate == pytest.approx(np.mean(list(values.values())))
    assert MINE(loss, confidence, groups=groups).values == pytest.approx(values)


def test_paired_and_unpaired_differences(sample):
    loss, confidence, _ = sample
    rng = np.random.default_rng(1)
    other = confidence + 0.5 * rng.random(len(loss))
    gap = brute_force(loss, confidence) - brute_force(loss, other)
    ones = np.ones(len(loss))
    one, two = (numerical_influence(loss, g, ones) for g in (confidence, other))
    paired = paired_difference(loss, confidence, loss, other, metric=MINE)
    assert paired.difference == pytest.approx(gap, rel=1e-9)
    assert paired.standard_error == pytest.approx(np.sqrt(np.sum((one - two) ** 2)) / len(loss), rel=1e-5)
    unpaired = unpaired_difference(loss, confidence, loss, other, metric=MINE)
    assert unpaired.standard_error == pytest.approx(np.sqrt(np.sum(one**2 + two**2)) / len(loss), rel=1e-5)


@pytest.mark.parametrize("metric", [MINE, WITHOUT_INFLUENCE], ids=["with influence", "jackknifed"])
def test_evaluate_shows_it_beside_the_others(metric, sample):
    loss, confidence, weight = sample
    groups = np.arange(len(loss)) % 2
    table = abstain.evaluate(
        loss=loss, confidence=confidence, sample_weight=weight, groups=groups, metrics=[metric, "aurc"]
    )
    entry = table["confidence", "loss", metric.name]
    alone = interval(metric, loss, confidence, sample_weight=weight)
    assert entry.label == "late area"
    assert [entry.estimate, entry.low, entry.high] == pytest.approx([alone.estimate, alone.low, alone.high])
    assert table["confidence", "loss", "aurc"].estimate == pytest.approx(
        abstain.aurc(loss, confidence, sample_weight=weight), rel=1e-12
    )


def test_compare_ranks_by_it(sample):
    loss, confidence, _ = sample
    noise = np.random.default_rng(2).random(len(loss))
    result = abstain.compare({"good": (loss, confidence), "noise": (loss, noise)}, metric=MINE)
    assert result.metric == "late_area"
    assert {c.name: c.estimate for c in result.contestants} == pytest.approx(
        {"good": brute_force(loss, confidence), "noise": brute_force(loss, noise)}
    )
    pair = paired_difference(loss, confidence, loss, noise, metric=MINE)
    assert abs(result.pairs[0].difference) == pytest.approx(abs(pair.difference))


def test_a_metric_that_does_not_scale_with_the_loss_reads_losses_in_the_users_units():
    def share_above_half(rows, options):
        return float(np.sum(rows.mass * (rows.risk > options["limit"])) / rows.total_mass[0])

    metric = Metric(
        name="share_above",
        label="share above",
        summary="the share of thresholds with a risk above a limit",
        lower_is_better=True,
        value=share_above_half,
        options=(Option(name="limit", default=0.5, is_part_of_name=True),),
    )
    rng = np.random.default_rng(4)
    confidence, loss = rng.random(50), 10.0 * (rng.random(50) < 0.3)
    expected = np.mean([loss[confidence >= g].mean() > 2.0 for g in confidence])
    bound = metric.with_options(limit=2.0)
    assert bound.key == "share_above@2"
    assert bound(loss, confidence) == pytest.approx(expected)
    assert interval(bound, loss, confidence).estimate == pytest.approx(expected)
    assert interval(metric, loss, confidence, limit=2.0, method="bootstrap").estimate == pytest.approx(
        expected
    )


def test_registered_metrics_are_found_by_name(sample):
    loss, confidence, _ = sample
    abstain.register_metric(MINE)
    try:
        assert interval("late_area", loss, confidence) == interval(MINE, loss, confidence)
        assert abstain.evaluate(loss=loss, confidence=confidence, metrics="late_area").metrics == (
            "late_area",
        )
    finally:
        del METRICS["late_area"]
    with pytest.raises(InputError, match='Did you mean "aurc"'):
        interval("AURC", loss, confidence)


def test_a_metric_is_imported_by_its_path(tmp_path, monkeypatch):
    (tmp_path / "own_metrics.py").write_text(
        "from abstain import Metric\n"
        "def top(rows, options):\n    return float(rows.risk[0])\n"
        "TOP = Metric(name='top_risk', label='top', summary='risk at the top', lower_is_better=True, value=top)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert abstain.metrics.load("own_metrics:TOP").name == "top_risk"
        assert abstain.metrics.by_name("top_risk")([1, 0, 0], [3, 2, 1]) == 1.0
    finally:
        METRICS.pop("top_risk", None)
    for path in ("own_metrics:NONE", "nothing_here:TOP", "own_metrics:top", "own_metrics"):
        with pytest.raises(InputError, match=r"metrics\.load"):
            abstain.metrics.load(path)


@pytest.mark.parametrize("name", ["aurc", "with@number", "with:colon", ""])
def test_names_that_cannot_be_registered(name):
    metric = Metric(name=name, label="", summary="", lower_is_better=True, value=late_area)
    with pytest.raises(InputError, match="register_metric"):
        abstain.register_metric(metric)
    with pytest.raises(InputError, match=r"must be an abstain\.Metric"):
        abstain.register_metric("aurc")


@pytest.mark.parametrize("is_comparison", [True, False])
def test_without_an_influence_there_is_no_paired_test_and_the_message_says_so(is_comparison):
    loss, confidence = np.arange(40) % 4 == 0, np.arange(40.0)
    test = abstain.inference.paired_difference
    arguments = [loss, confidence, loss, -confidence]
    if is_comparison:
        test = abstain.compare
        arguments = [{"a": (loss, confidence), "b": (loss, -confidence)}]
    with pytest.raises(InputError, match=r"no influence function, which a test needs.*`influence=`"):
        test(*arguments, metric=WITHOUT_INFLUENCE)
