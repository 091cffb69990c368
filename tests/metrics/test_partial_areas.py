"""AURC between two coverages, and the rejection ratio up to a share rejected, against brute force."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import abstain
from abstain.errors import InputError
from abstain.inference import influence, interval, paired_difference
from abstain.metrics import by_name
from abstain.metrics.summaries import (
    best_accepted_area,
    best_partial_area,
    smallest_rejection_ratio,
    worst_accepted_area,
    worst_partial_area,
)

RANGES = [(0.7, 1.0), (0.0, 0.3), (0.25, 0.8), (0.5, 0.5001), (0.0, 1.0)]
REJECTIONS = [0.3, 0.5, 0.9, 1.0]


def accepted(loss, confidence, weight, mass):
    """Accepted loss when samples of mass `mass` are accepted: rows of equal confidence come in evenly."""
    total = 0.0
    for value in np.unique(confidence)[::-1]:
        row = confidence == value
        row_mass = weight[row].sum()
        share = min(1.0, mass / row_mass) if row_mass > 0 else 0.0
        total += share * (weight * loss)[row].sum()
        mass -= share * row_mass
        if mass <= 0:
            break
    return total


def partial_area(loss, confidence, weight, low, high):
    """The integral of the selective risk at the first threshold that reaches each coverage."""
    total, value = weight.sum(), 0.0
    for threshold in np.unique(confidence):
        inside = confidence >= threshold
        start, stop = weight[confidence > threshold].sum() / total, weight[inside].sum() / total
        width = min(stop, high) - max(start, low)
        if width > 0:
            value += width * (weight * loss)[inside].sum() / weight[inside].sum()
    return value / (high - low)


def exact_partial_area(loss, confidence, low, high):
    """The same of samples of equal weight, in rational numbers."""
    n, value = len(loss), Fraction(0)
    for threshold in np.unique(confidence):
        start, stop = int(np.sum(confidence > threshold)), int(np.sum(confidence >= threshold))
        width = min(Fraction(stop, n), high) - max(Fraction(start, n), low)
        if width > 0:
            value += width * Fraction(int(loss[confidence >= threshold].sum()), stop)
    return value / (high - low)


def rejection_ratio(loss, confidence, weight, max_rejection):
    """(random - actual) / (random - best), areas by exact integration of piecewise linear curves."""
    first, total = 1 - max_rejection, weight.sum()

    def area(order):
        ends = np.unique([first, 1.0, *(weight[order >= g].sum() / total for g in np.unique(order))])
        ends = ends[(ends >= first) & (ends <= 1)]
        heights = [accepted(loss, order, weight, c * total) / total for c in ends]
        return np.trapezoid(heights, ends)

    random = np.average(loss, weights=weight) * (1 - first**2) / 2
    return (random - area(confidence)) / (random - area(-loss))


def derivative(value, weight):
    step = 1e-6
    found = np.empty(len(weight))
    for i in range(len(weight)):
        up, down = weight.copy(), weight.copy()
        up[i] += step
        down[i] -= step
        found[i] = weight.sum() * (value(up) - value(down)) / (2 * step)
    return found - np.average(found, weights=weight)


def draw(seed, zero_one, tied):
    rng = np.random.default_rng(seed)
    confidence = rng.integers(0, 8, 37) / 8 if tied else rng.random(37)
    loss = (rng.random(37) < 0.8 * (1 - confidence)).astype(float) if zero_one else rng.exponential(1, 37)
    return loss, confidence, rng.random(37) + 0.3


@pytest.mark.parametrize("coverage", RANGES)
@pytest.mark.parametrize("zero_one", [True, False])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_partial_aurc(coverage, zero_one, tied, weighted):
    loss, confidence, w = draw(1, zero_one, tied)
    given = {"sample_weight": w} if weighted else {}
    w = w if weighted else np.ones(37)
    expected = partial_area(loss, confidence, w, *coverage)
    assert abstain.aurc(loss, confidence, coverage=coverage, **given) == pytest.approx(expected, abs=1e-12)
    assert interval("aurc", loss, confidence, coverage=coverage, **given).estimate == pytest.approx(
        expected, abs=1e-12
    )
    found = influence("aurc", loss, confidence, coverage=coverage, **given)
    numerical = derivative(lambda v: partial_area(loss, confidence, v, *coverage), w)
    if coverage[1] - coverage[0] > 0.01:  # narrower than a step of the derivative can see
        np.testing.assert_allclose(found.values, numerical, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("max_rejection", REJECTIONS)
@pytest.mark.parametrize("zero_one", [True, False])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_truncated_rejection_ratio(max_rejection, zero_one, tied, weighted):
    loss, confidence, w = draw(2, zero_one, tied)
    given = {"sample_weight": w} if weighted else {}
    w = w if weighted else np.ones(37)
    expected = rejection_ratio(loss, confidence, w, max_rejection)
    options = {"max_rejection": max_rejection, **given}
    found = influence("prediction_rejection_ratio", loss, confidence, **options)
    assert abstain.prediction_rejection_ratio(loss, confidence, **options) == pytest.approx(
        expected, rel=1e-11
    )
    assert found.estimate == pytest.approx(expected, rel=1e-11)
    numerical = derivative(lambda v: rejection_ratio(loss, confidence, v, max_rejection), w)
    np.testing.assert_allclose(found.values, numerical, atol=2e-6, rtol=2e-6)


def test_the_whole_range_is_the_whole_area():
    loss, confidence, w = draw(3, True, True)
    whole = interval("aurc", loss, confidence, sample_weight=w)
    partial = interval("aurc", loss, confidence, sample_weight=w, coverage=(0, 1))
    assert [partial.estimate, partial.low, partial.high] == pytest.approx(
        [whole.estimate, whole.low, whole.high]
    )
    assert abstain.prediction_rejection_ratio(loss, confidence, max_rejection=1.0) == pytest.approx(
        abstain.prediction_rejection_ratio(loss, confidence)
    )


def test_groups_batches_pairs_and_tables():
    loss, confidence, _ = draw(4, True, True)
    other = np.random.default_rng(0).random(37)
    ones, groups = np.ones(37), np.arange(37) % 2
    expected = [
        partial_area(loss[groups == k], confidence[groups == k], ones[groups == k], 0.6, 1) for k in (0, 1)
    ]
    assert abstain.aurc(loss, confidence, coverage=(0.6, 1), groups=groups).values == pytest.approx(
        dict(enumerate(expected))
    )
    batch = abstain.aurc(np.stack([loss, loss]), np.stack([confidence, other]), coverage=(0.6, 1))
    values = [partial_area(loss, g, ones, 0.6, 1) for g in (confidence, other)]
    assert batch == pytest.approx(np.asarray(values))
    pair = paired_difference(loss, confidence, loss, other, metric="aurc@0.6-1")
    assert pair.difference == pytest.approx(values[0] - values[1])
    table = abstain.evaluate(loss=loss, confidence=confidence, metrics=["aurc", "aurc@0.6-1"])
    entry = table["confidence", "loss", "aurc@0.6-1"]
    assert entry.label == "AURC 0.6-1"
    assert entry.estimate == pytest.approx(values[0])
    assert entry.low < entry.estimate < entry.high
    comparison = abstain.compare({"a": (loss, confidence), "b": (loss, other)}, metric="aurc@0.6-1")
    assert sorted(c.estimate for c in comparison.contestants) == pytest.approx(sorted(values))


def test_abstained_samples_are_left_out():
    loss, confidence, _ = draw(5, True, False)
    out = np.arange(37) % 5 == 0
    assert abstain.aurc(loss, confidence, coverage=(0.5, 1), abstained=out) == pytest.approx(
        abstain.aurc(loss[~out], confidence[~out], coverage=(0.5, 1))
    )


@pytest.mark.parametrize("coverage", RANGES)
@pytest.mark.parametrize("risk", [0.0, 0.02, 0.3, 0.75, 1.0])
def test_largest_and_smallest_areas(coverage, risk):
    n = 20_000
    loss = (np.arange(n) < risk * n).astype(float)
    first = np.arange(n, 0.0, -1)  # errors on top
    worst = abstain.aurc(loss, first, coverage=coverage)
    best = abstain.aurc(loss, -first, coverage=coverage)
    tolerance = 2e-3 if coverage[1] - coverage[0] > 0.01 else 0.1
    assert worst_partial_area(risk, *coverage) == pytest.approx(worst, abs=tolerance)
    assert best_partial_area(risk, *coverage) == pytest.approx(best, abs=tolerance)


@pytest.mark.parametrize("max_rejection", REJECTIONS)
@pytest.mark.parametrize("risk", [0.02, 0.3, 0.75, 0.98])
def test_largest_and_smallest_rejection_ratios(max_rejection, risk):
    n = 20_000
    loss = (np.arange(n) < risk * n).astype(float)
    on_top = np.arange(n, 0.0, -1)
    smallest = abstain.prediction_rejection_ratio(loss, on_top, max_rejection=max_rejection)
    assert smallest_rejection_ratio(risk, max_rejection) == pytest.approx(smallest, abs=2e-3)
    coverage = np.linspace(1 - max_rejection, 1, 20_001)
    from_bottom = np.trapezoid(np.maximum(coverage - (1 - risk), 0), coverage)
    assert best_accepted_area(risk, 1 - max_rejection) == pytest.approx(from_bottom, abs=1e-6)
    from_top = np.trapezoid(np.minimum(coverage, risk), coverage)
    assert worst_accepted_area(risk, 1 - max_rejection) == pytest.approx(from_top, abs=1e-6)


@pytest.mark.parametrize("max_rejection", REJECTIONS)
def test_no_losses_have_a_rejection_ratio_outside_the_range(max_rejection):
    metric = by_name("prediction_rejection_ratio").with_options(max_rejection=max_rejection)
    low, high = metric.range_for(is_zero_one=False, has_negative_loss=True)
    rng = np.random.default_rng(0)
    for shape in (0.02, 0.3, 3.0, 50.0):
        loss = rng.gamma(shape, size=400) - 0.1
        worst = metric(loss, loss)  # the largest losses on top
        assert low - 1e-9 <= worst < 0
        assert metric(loss, -loss) == pytest.approx(high)


def test_intervals_of_the_truncated_ratio_with_few_errors_or_none():
    confidence = np.arange(100.0)
    name = "prediction_rejection_ratio@0.5"
    one = interval(name, confidence == 3, confidence)
    assert -1 / 3 < one.low < 0.5 < 0.9 < one.estimate < one.high <= 1
    assert "1 in all" in one.note
    perfect = interval(name, confidence < 20, confidence)
    assert perfect.estimate == pytest.approx(1)
    assert 0.5 < perfect.low < 0.99
    constant = interval(name, confidence < 20, np.ones(100))
    assert constant.low < 0 < constant.high
    whole = interval("prediction_rejection_ratio", confidence % 7 == 0, confidence)
    truncated = interval("prediction_rejection_ratio@1", confidence % 7 == 0, confidence)
    assert (truncated.low, truncated.high) == pytest.approx((whole.low, whole.high))


def test_no_errors_and_all_errors():
    confidence = np.arange(100.0)
    below = interval("aurc@0.2-0.8", confidence < 10, confidence)  # errors beyond the upper coverage alone
    assert (below.estimate, below.low, below.centre) == (0.0, 0.0, "bound")
    assert below.high > 0.02
    none = interval("aurc@0.7-1", np.zeros(100), confidence)
    assert (none.estimate, none.low, none.centre) == (0.0, 0.0, "bound")
    assert 0 < none.high < interval("aurc", np.zeros(100), confidence).high
    every = interval("aurc@0.7-1", np.ones(100), confidence)
    assert every.low < 0.99
    assert [every.estimate, every.high] == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coverage": (0.8, 0.2)}, "0 <= low < high <= 1"),
        ({"coverage": 0.8}, "two coverages"),
        ({"coverage": (0.5, 1), "estimator": "loo"}, "needs estimator"),
        ({"coverage": (0.5, 1), "ties": "expected"}, "needs estimator"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(InputError, match=message):
        abstain.aurc([0, 1, 0], [3, 2, 1], **options)
    with pytest.raises(InputError, match="max_rejection"):
        abstain.prediction_rejection_ratio([0, 1, 0], [3, 2, 1], max_rejection=0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aurc@0.7", "after the @ two coverages with a dash between them must stand, such as aurc@0.8-1"),
        ("aurc@0.7,1", "two coverages with a dash"),
        ("aurc@80-100", "If these are percentages, divide by 100: 0.8 and 1"),
        ("aurc@0.8-1:loo", "aurc takes `coverage` or `estimator`, one of them, got both"),
        ("risk_at_coverage@x", "a number must stand"),
    ],
)
def test_names_that_cannot_be_read_say_what_is_wanted(name, message):
    with pytest.raises(InputError, match=message):
        by_name(name)


@pytest.mark.parametrize("n", [10, 30, 70, 100])
@pytest.mark.parametrize("tied", [False, True])
def test_ends_that_fall_on_a_sample_are_exact_whatever_their_rounding(n, tied):
    """Tenths of n samples, of weight 1, 0.1 and 0.3; a width of rounding errors would also change the interval."""
    rng = np.random.default_rng(n)
    confidence = rng.integers(0, n // 3, n) if tied else rng.permutation(n)
    loss = rng.random(n) < 0.3
    for first, last in ((k, m) for k in range(10) for m in (k + 1, 8, 10) if k < m):
        coverage = (first / 10, last / 10)
        expected = float(exact_partial_area(loss, confidence, Fraction(first, 10), Fraction(last, 10)))
        plain = interval("aurc", loss, confidence, coverage=coverage)
        assert plain.estimate == pytest.approx(expected, abs=1e-13)
        for weight in (0.1, 0.3):
            weighted = interval("aurc", loss, confidence, coverage=coverage, sample_weight=np.full(n, weight))
            assert weighted.estimate == pytest.approx(expected, abs=1e-13)
            assert (weighted.low, weighted.high) == pytest.approx((plain.low, plain.high), abs=1e-10)
