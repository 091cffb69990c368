"""Paired and unpaired differences, and the band around a curve."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import stdtr

import abstain
from abstain.errors import InputError, ShapeError
from abstain.inference import curve_band, influence, interval, paired_difference, unpaired_difference
from abstain.metrics import by_name


def models(n=400, seed=0):
    rng = np.random.default_rng(seed)
    b = rng.random(n)
    wrong = rng.random(n) < 0.6 * (1 - b) ** 2
    return wrong, b, wrong ^ (rng.random(n) < 0.05), b + 0.3 * rng.random(n)


@pytest.mark.parametrize(
    "metric", ["aurc", "augrc", "risk", "e_aurc", "naurc", "auroc", "prediction_rejection_ratio"]
)
def test_identical_inputs_have_no_difference(metric):
    la, ga, _, _ = models()
    found = paired_difference(la, ga, la, ga, metric=metric)
    assert (found.difference, found.p_value, found.standard_error) == (0.0, 1.0, 0.0)
    assert (found.low, found.high) == (0.0, 0.0)
    monotone = paired_difference(la, ga, la, np.exp(ga), metric=metric)  # the same ranking
    assert (monotone.difference, monotone.p_value) == (0.0, 1.0)


@pytest.mark.parametrize(
    "metric",
    ["aurc@0.8-1", "aurc:loo", "risk_at_coverage@0.7", "coverage_at_risk@0.05", "fpr_at_tpr@0.9", "augrc"],
)
def test_results_name_the_metric_with_its_options(metric):
    loss_a, confidence_a, loss_b, confidence_b = models()
    found = interval(metric, loss_a, confidence_a)
    assert found.metric == metric
    assert repr(found).startswith(f"{metric} 0.")
    groups = np.arange(len(loss_a)) % 2
    assert repr(interval(metric, loss_a, confidence_a, groups=groups)).startswith(f"{metric} by group:")
    bootstrapped = interval(metric, loss_a, confidence_a, method="bootstrap", replicates=100, rng=0)
    assert bootstrapped.metric == metric
    if by_name(metric).is_smooth:
        found = paired_difference(loss_a, confidence_a, loss_b, confidence_b, metric=metric)
        assert repr(found).startswith(f"{metric}: 0.")
        assert influence(metric, loss_a, confidence_a).metric == metric


@pytest.mark.parametrize(
    ("metric", "instead"),
    [
        ("risk_at_coverage@0.7", "aurc@0.7-1"),
        ("risk_at_coverage@1", "aurc@0.8-1"),
        ("fpr_at_tpr", "aurc@0.8-1"),
    ],
)
@pytest.mark.parametrize("function", ["paired_difference", "unpaired_difference", "compare"])
def test_points_of_the_curve_have_no_test_and_the_message_says_what_has(metric, instead, function):
    arguments = models()
    test = abstain.compare if function == "compare" else getattr(abstain.inference, function)
    if function == "compare":
        arguments = [{"a": arguments[:2], "b": arguments[2:]}]
    rule = rf"^{function}: .*one point of the curve.*such as {instead}, or by .* with its interval"
    with pytest.raises(InputError, match=rule):
        test(*arguments, metric=metric)
    by_name(instead)  # is a metric


@pytest.mark.parametrize("metric", ["aurc", "naurc", "auroc"])
def test_paired_by_hand(metric):
    data = models()
    found = paired_difference(*data, metric=metric)
    a, b = influence(metric, *data[:2]), influence(metric, *data[2:])
    error = math.sqrt(np.sum((a.values - b.values) ** 2)) / 400
    assert found.difference == pytest.approx(a.estimate - b.estimate, rel=1e-12)
    assert found.standard_error == pytest.approx(error, rel=1e-12)
    T = [a.estimate, b.estimate]
    if metric == "aurc":
        T = [abstain.aurc(*data[:2], estimator="loo"), abstain.aurc(*data[2:], estimator="loo")]
    rate = (lambda t: 1 / (t * (1 - t))) if metric == "auroc" else (lambda t: 1 / t)
    phi = (lambda t: math.log(t / (1 - t))) if metric == "auroc" else math.log
    e = (a.values * rate(T[0]) - b.values * rate(T[1])) / 400
    E2, E4 = np.sum(e**2), np.sum(e**4)
    freedom = 2 * E2**2 / (E4 - E2**2 / 400)
    t = (phi(T[0]) - phi(T[1])) / math.sqrt(np.sum(e**2))
    # the p-value of the two limits is that of a t test on the scale, up to the curvature of the scale
    assert found.p_value == pytest.approx(2 * stdtr(freedom, -abs(t)), rel=0.05)
    assert found.significant == (not found.low <= 0 <= found.high)
    assert found.significant == (found.p_value < 0.05)


@pytest.mark.parametrize("seed", range(30))
def test_the_p_value_is_the_level_at_which_a_limit_is_zero(seed):
    rng = np.random.default_rng(seed)
    b = rng.random(300)
    l = rng.random(300) < 0.6 * (1 - b) ** 2
    data = (l, b + 0.05 * rng.standard_normal(300), l, b + 0.05 * seed / 10 * rng.standard_normal(300))
    p = paired_difference(*data).p_value
    for level in (1 - p * 1.001, 1 - p * 0.999):
        if 0 < level < 1:
            found = paired_difference(*data, level=level)
            assert (found.low <= 0 <= found.high) == (level > 1 - p)


def test_few_effective_errors_give_no_verdict():
    rng = np.random.default_rng(0)
    b = rng.random(200)
    many, few = rng.random(200) < 0.6 * (1 - b), b > 0.97
    found = paired_difference(many, b, few, b)
    assert (found.p_value, found.significant) == (1.0, False)
    k = 200 - np.sort(np.flatnonzero(few[np.argsort(b)])[::-1])  # places from the top, the most confident 1
    alpha = np.asarray([np.sum(1 / np.arange(i, 201)) for i in k])
    effective = alpha.sum() ** 2 / np.sum(alpha**2)
    assert (
        found.note
        == f"rests on about {np.floor(10 * effective) / 10:.1f} effective errors ({few.sum()} in all): too few to compare"
    )
    assert found.note in repr(found)
    assert paired_difference(many, b, many, b**2 + 0.1 * rng.random(200)).note == ""


@pytest.mark.parametrize("kind", ["ties", "weights", "clusters"])
def test_few_effective_errors_give_no_verdict_whatever_the_sample(kind):
    rng = np.random.default_rng(1)
    n = 300
    b = rng.random(n)
    many, few, more = rng.random(n) < 0.6 * (1 - b), b > 0.96, {}
    w, of = np.ones(n), np.arange(n)
    if kind == "ties":
        b = np.floor(20 * b)
        few &= rng.random(n) < 0.7
    elif kind == "weights":
        w = rng.lognormal(0, 1, n)
        more = {"sample_weight": w}
    else:
        of = rng.integers(0, 20, n)
        more = {"clusters": of}
    found = paired_difference(many, b, few, b, **more)
    alpha = [sum(w[b == t].sum() / w[b >= t].sum() for t in np.unique(b[b <= x])) for x in b]
    z = np.bincount(of, w * alpha * few)
    effective, errors = z.sum() ** 2 / (z @ z), (w @ few) ** 2 / (w**2 @ few)
    assert effective < 11
    told = f"rests on about {np.floor(10 * effective) / 10:.1f} effective errors ({errors:.0f} in all): too few to compare"
    assert (found.note, found.p_value, found.significant) == (told, 1.0, False)


def test_swapping_changes_the_sign_only():
    la, ga, lb, gb = models(seed=1)
    one, other = paired_difference(la, ga, lb, gb), paired_difference(lb, gb, la, ga)
    assert other.difference == -one.difference
    assert (other.low, other.high, other.p_value) == (-one.high, -one.low, one.p_value)


def test_pairing_pays_when_models_agree():
    data = models(seed=2)
    assert paired_difference(*data).standard_error < 0.7 * unpaired_difference(*data).standard_error


def test_unpaired_by_hand():
    data = models(seed=3)
    found = unpaired_difference(*data)
    errors = [
        abstain.inference.standard_error("aurc", *data[:2]),
        abstain.inference.standard_error("aurc", *data[2:]),
    ]
    assert found.standard_error == pytest.approx(math.hypot(*errors), rel=1e-9)
    assert found.n == 800
    small = unpaired_difference(data[0], data[1], data[2][:50], data[3][:50])
    assert small.n == 450


def test_clusters_and_weights_in_pairs():
    data = models(seed=4)
    clusters, w = np.arange(400) // 8, np.random.default_rng(0).random(400) + 0.5
    found = paired_difference(*data, clusters=clusters, sample_weight=w)
    D = (
        influence("aurc", *data[:2], sample_weight=w).values
        - influence("aurc", *data[2:], sample_weight=w).values
    )
    sums = np.asarray([np.sum((w * D)[clusters == c]) for c in range(50)])
    assert found.standard_error == pytest.approx(math.sqrt(np.sum(sums**2) * 50 / 49) / w.sum(), rel=1e-10)


def test_right_everywhere_against_wrong_everywhere():
    g = np.arange(10.0)
    found = paired_difference(np.zeros(10), g, np.ones(10), g)
    assert found.difference == -1
    assert found.p_value == 1  # a model without an error may have had luck: ten samples do not say
    assert "0.0 effective errors (0 in all)" in found.note


def test_one_side_may_abstain():
    data = models(seed=5)
    out = np.random.default_rng(1).random(400) < 0.2
    found = paired_difference(*data, abstained_b=out)
    assert found.estimate_b == pytest.approx(abstain.aurc(*data[2:], abstained=out))
    assert found.standard_error > 0


def test_different_lengths_point_to_the_unpaired_test():
    la, ga, lb, gb = models()
    with pytest.raises(ShapeError, match="unpaired_difference"):
        paired_difference(la, ga, lb[:-1], gb[:-1])


# bands --------------------------------------------------------------------------------------------------


def test_band_holds_the_empirical_curve_and_narrows():
    l, g, _, _ = models(2000, 6)
    band = curve_band(l, g, replicates=400, rng=1)
    curve = abstain.risk_coverage_curve(l, g)
    at = np.searchsorted(curve.coverage, band.coverage - 1e-12)
    np.testing.assert_allclose(band.risk, curve.risk[at], rtol=1e-12)
    assert ((band.low <= band.risk) & (band.risk <= band.high)).all()
    assert (band.low >= 0).all()
    wider = curve_band(l, g, level=0.99, replicates=400, rng=1)
    assert (wider.high >= band.high).all()
    few = curve_band(l[:200], g[:200], replicates=400, rng=1)
    assert (few.high - few.low).mean() > 2 * (band.high - band.low).mean()
    assert repr(band).startswith("CurveBand(95% simultaneous")


def test_band_is_wider_than_a_pointwise_interval():
    l, g, _, _ = models(1000, 7)
    band = curve_band(l, g, coverage=[0.3, 0.5, 1.0], replicates=500, rng=1)
    point = abstain.inference.interval("risk", l, g)
    assert band.high[-1] > point.high
    assert band.low[-1] < point.low


def test_band_with_ties_losses_weights_and_clusters():
    rng = np.random.default_rng(8)
    l, g = rng.exponential(1, 300), rng.integers(0, 5, 300) / 5
    band = curve_band(
        l, g, clusters=np.arange(300) // 3, sample_weight=rng.integers(1, 3, 300), replicates=300
    )
    assert np.isfinite(band.low).all()
    assert ((band.low <= band.risk) & (band.risk <= band.high)).all()
    with pytest.raises(InputError, match="negative"):
        curve_band(l - 5, g)
    with pytest.raises(InputError, match="coverage"):
        curve_band(l, g, coverage=[0.5, 1.5])


@pytest.mark.parametrize("metric", ["e_aurc", "naurc"])
@pytest.mark.filterwarnings("error")
def test_rounding_alone_is_no_difference(metric):
    rng = np.random.default_rng(0)
    for n in (40, 60, 150):
        perfect = [(l, rng.random(n) - 2 * l) for l in (rng.random((2, n)) < 0.3)]
        equal = [(np.full(n, 0.3), rng.integers(0, 9, n)) for _ in range(2)]
        for (la, ga), (lb, gb) in (perfect, equal):
            found = paired_difference(la, ga, lb, gb, metric=metric)
            assert found.difference == pytest.approx(0, abs=1e-14)
            assert found.p_value > 0.99


def test_a_sample_without_weight_is_no_draw_of_a_difference():
    rng = np.random.default_rng(3)
    la, lb = (rng.random((2, 30)) < 0.6).astype(float)
    ga, gb = rng.random((2, 30))
    weight = rng.integers(0, 3, 30)
    some = weight > 0
    columns = (la, ga, lb, gb)
    for difference in (
        lambda x, w: paired_difference(*x, sample_weight=w),
        lambda x, w: unpaired_difference(*x, sample_weight_a=w, sample_weight_b=w),
    ):
        found = difference(columns, weight)
        alone = difference([x[some] for x in columns], weight[some])
        assert (found.low, found.high, found.p_value) == pytest.approx((alone.low, alone.high, alone.p_value))


def test_every_answer_counts_the_samples_that_have_a_weight():
    rng = np.random.default_rng(3)
    g, w = rng.random(80), rng.integers(0, 3, 80).astype(float)
    l = (rng.random(80) < 0.5 * (1 - g)).astype(float)
    some = int(np.count_nonzero(w))
    assert 40 < some < 80
    for method in (None, "bootstrap"):
        assert abstain.inference.interval("aurc", l, g, sample_weight=w, method=method).n == some
    assert abstain.inference.curve_band(l, g, sample_weight=w, replicates=100).n == some
    assert paired_difference(l, g, l, -g, sample_weight=w).n == some
    apart = unpaired_difference(l, g, l, -g, sample_weight_a=w, sample_weight_b=w)
    assert apart.n == 2 * some
    compared = abstain.compare({"a": (l, g), "b": (l, -g)}, sample_weight=w)
    assert (compared.n, compared["a"].n) == (some, some)


# the interval and the verdict --------------------------------------------------------------------------------

SMOOTH = ("aurc", "augrc", "risk", "e_aurc", "naurc", "auroc", "prediction_rejection_ratio", "aupr_error")


def equal_models(rng, n, expected, few_right=False):
    """Two models with about so many errors (or right samples), all anywhere; both kinds in either."""
    while True:
        first, second = rng.random((2, n)) < expected / n
        if first.any() and second.any():
            return [(1 - l if few_right else l) * 1.0 for l in (first, second)]


def agrees(test, level=0.95):
    return (test.low <= 0 <= test.high) == (test.p_value >= 1 - level)


@pytest.mark.parametrize("few_right", [False, True])
@pytest.mark.parametrize("metric", SMOOTH)
def test_an_interval_without_a_verdict_holds_zero(metric, few_right):
    """The interval left 0 out in 12 to 46% of runs in which the verdict was "too few to compare"."""
    rng = np.random.default_rng(5)
    out = 0
    for run in range(40):
        a, b = equal_models(rng, 300, 3 if run % 2 else 12, few_right)
        test = paired_difference(a, rng.random(300), b, rng.random(300), metric=metric)
        assert agrees(test), test
        assert not (test.note and test.significant)
        out += not test.low <= 0 <= test.high
    assert out <= 6


@pytest.mark.parametrize("metric", ["aurc", "auroc", "naurc"])
def test_models_that_cannot_be_compared_keep_the_limits_of_each(metric):
    """With three errors each, the difference is known no better than the two numbers taken apart."""
    rng = np.random.default_rng(6)
    a, b = equal_models(rng, 300, 3)
    g, h = rng.random((2, 300))
    test = paired_difference(a, g, b, h, metric=metric)
    one, other = interval(metric, a, g), interval(metric, b, h)
    assert test.note
    assert test.p_value == 1
    assert test.low <= one.low - other.high + 1e-12
    assert test.high >= one.high - other.low - 1e-12


def test_the_estimates_never_contradict_the_test():
    """The interval is built around less biased areas than those it is printed with; near 0 the two may differ."""
    rng = np.random.default_rng(7)
    for _ in range(60):
        g = rng.random(60)
        a, b = rng.random((2, 60)) < 0.5
        for level in (0.5, 0.8, 0.95):
            assert agrees(paired_difference(a, g, b, rng.random(60), level=level), level)


@pytest.mark.parametrize("metric", ["aurc", "risk"])
@pytest.mark.parametrize("difference", [paired_difference, unpaired_difference])
def test_losses_below_zero_are_not_counted_as_errors(metric, difference):
    """Losses of both signs cancel in the number of effective errors; a constant added to all changes no difference."""
    rng = np.random.default_rng(0)
    la, ga, lb, gb = rng.normal(size=(4, 2000))
    la -= 0.1 * ga
    la, lb = la - la.mean() - 0.06, lb - lb.mean() + 0.06
    found = difference(la, ga, lb, gb, metric=metric)
    shifted = difference(la - 9, ga, lb - 9, gb, metric=metric)
    assert found.note == shifted.note == ""
    assert found.p_value == pytest.approx(shifted.p_value, rel=1e-6)
    assert found.p_value < 0.01
