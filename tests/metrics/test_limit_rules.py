"""Honest intervals where there is next to nothing to see, for every metric; and findings of a red team."""

from __future__ import annotations

import math

import numpy as np
import pytest

import abstain
from abstain.core.rows import Blocks
from abstain.errors import InfeasibleError, InputError
from abstain.inference import (
    interval,
    interval_from_blocks,
    paired_difference,
)

OPTIONS = {
    "risk_at_coverage": {"coverage": 0.6},
    "coverage_at_risk": {"risk": 0.1},
    "fpr_at_tpr": {"tpr": 0.9},
}
METRICS = [
    *("aurc", "augrc", "risk", "oracle_aurc", "e_aurc", "naurc", "auroc", "prediction_rejection_ratio"),
    *("aupr_error", "aupr_success", "risk_at_coverage", "coverage_at_risk", "fpr_at_tpr"),
]
TOP = {"naurc": math.inf, "e_aurc": 1.0}
LOW = {"prediction_rejection_ratio": -1.0}


def cases():
    """Name, losses, confidences."""
    up = np.arange(40.0)
    one = np.zeros(40)
    for name, place in (("top", 39), ("middle", 20), ("bottom", 0)):
        l = one.copy()
        l[place] = 1
        yield f"one error, {name}", l, up
        yield f"one right, {name}", 1 - l, up
    half = np.repeat([1.0, 0.0], 20)
    yield "perfect", half, up
    yield "reversed", half, -up
    yield "all tied", half, np.ones(40)
    yield "all tied, one error", one + (up == 3), np.ones(40)
    yield "all right", one, up
    yield "all wrong", one + 1, up
    yield "all right, tied", one, np.ones(40)
    yield "all wrong, tied", one + 1, np.ones(40)
    for n in (2, 3):
        for bits in range(2**n):
            l = np.asarray([bits >> i & 1 for i in range(n)], dtype=float)
            yield f"n = {n}, losses {l.astype(int)}", l, np.arange(float(n))
            yield f"n = {n}, losses {l.astype(int)}, tied", l, np.ones(n)


def nothing_can_vary(metric, l, w):
    """All is covered for sure where even the upper limit of the risk of all, seen in no draw, is within 10%."""
    draws = len(l) if w is None else w.sum() ** 2 / (w @ w)
    return metric == "coverage_at_risk" and not l.any() and 1 - 0.025 ** (1 / draws) <= 0.1


@pytest.mark.parametrize("weighted", [None, "equal", "fractional"])
@pytest.mark.parametrize("metric", METRICS)
def test_interval_holds_the_estimate_in_range_and_has_a_width(metric, weighted):
    for name, l, g in cases():
        rng = np.random.default_rng(len(l))
        w = {None: None, "equal": np.full(len(l), 0.1), "fractional": rng.random(len(l)) + 0.5}[weighted]
        options = OPTIONS.get(metric, {})
        try:
            value = abstain.metrics.by_name(metric)(l, g, sample_weight=w, **options)
        except InfeasibleError:
            with pytest.raises(InfeasibleError):
                interval(metric, l, g, sample_weight=w, **options)
            continue
        found = interval(metric, l, g, sample_weight=w, **options)
        assert found.estimate == pytest.approx(value, abs=1e-12), name
        low, high = LOW.get(metric, 0.0), TOP.get(metric, 1.0)
        assert low <= found.low <= found.estimate + 1e-12, (name, found)
        assert found.estimate - 1e-12 <= found.high <= high, (name, found)
        if nothing_can_vary(metric, l, w):
            assert (found.low, found.high) == pytest.approx((1, 1), abs=1e-12), (name, found)
        else:
            assert found.high - found.low > 1e-3, (name, found)


@pytest.mark.parametrize("metric", METRICS)
def test_one_sample_is_refused(metric):
    with pytest.raises((InputError, InfeasibleError)):
        interval(metric, [1.0], [0.5], **OPTIONS.get(metric, {}))


def test_a_constant_confidence_says_nothing_of_auroc():
    """It was 0.5 with [0, 0.095], the limits of a reversed ranking; and the rejection ratio 0 with [-1, -0.81]."""
    l = np.repeat([1, 0], [30, 170])
    found = interval("auroc", l, np.ones(200))
    worst = 0.05 ** (1 / 30)  # thirty pairs, all tied: a share `worst` of all pairs at least is
    assert found.estimate == 0.5
    assert [found.low, found.high] == pytest.approx([worst / 2, 1 - worst / 2])
    ratio = interval("prediction_rejection_ratio", l, np.ones(200))
    assert [ratio.low, ratio.high] == pytest.approx([worst - 1, 1 - worst])
    useless = interval("naurc", l, np.ones(200))
    assert useless.estimate == pytest.approx(1)
    assert useless.low < 1 < useless.high


def test_all_is_covered_only_where_its_upper_limit_is_within_the_risk():
    l = np.zeros(200)
    l[:5] = 1
    found = interval("coverage_at_risk", l, np.arange(200.0), risk=0.03)  # 5 of 200 are 2.5%
    assert (found.estimate, found.high) == (1.0, 1.0)
    assert found.low < 1
    certain = interval("coverage_at_risk", l, np.arange(200.0), risk=0.1)  # upper limit of 5 of 200: 5.3%
    assert (certain.low, certain.high) == (1.0, 1.0)


def test_errors_seen_keep_the_lower_limit_off_zero():
    rng = np.random.default_rng(0)
    g = rng.random(200)
    l = rng.random(200) < 0.8 * (1 - g) ** 3
    found = interval("risk_at_coverage", l, g, coverage=0.7)
    assert found.estimate > 0
    assert found.low > 0


# findings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
def test_the_scale_of_the_weights_does_not_show(metric):
    """Finding 1: weights that add up to 1 gave e_aurc 0.1887 with 0.0285 [7.6e-7, 1] and naurc 1.178 with 0 [0, 0]."""
    rng = np.random.default_rng(0)
    g, w = rng.random(200), rng.random(200)
    l = rng.random(200) < 0.5 * (1 - g)
    options = OPTIONS.get(metric, {})
    found = [interval(metric, l, g, sample_weight=w * by, **options) for by in (1.0, 1 / w.sum(), 1e-9, 1e12)]
    assert found[0].estimate == pytest.approx(
        abstain.metrics.by_name(metric)(l, g, sample_weight=w, **options), rel=1e-12
    )
    assert found[0].low < found[0].estimate < found[0].high
    for other in found[1:]:
        for field in ("estimate", "standard_error", "low", "high"):
            assert getattr(other, field) == pytest.approx(getattr(found[0], field), rel=1e-8)


@pytest.mark.parametrize("metric", ["oracle_aurc", "e_aurc", "naurc"])
def test_oracles_of_fractional_weights_spread_as_they_say(metric):
    """Finding 1: the influence against a bootstrap of the public function, which shares no code with it."""
    rng = np.random.default_rng(1)
    g, w = rng.random(400), rng.random(400)
    l = rng.random(400) < 0.5 * (1 - g)
    function = abstain.metrics.by_name(metric)
    drawn = [function(l[i], g[i], sample_weight=w[i]) for i in rng.integers(0, 400, (500, 400))]
    found = interval(metric, l, g, sample_weight=w / w.sum())
    assert found.standard_error == pytest.approx(np.std(drawn), rel=0.15)


def test_differences_do_not_read_mass_as_counts():
    """Finding 1: compare(metric="naurc", sample_weight=...) showed 0 and -0."""
    rng = np.random.default_rng(2)
    g, w = rng.random(300), rng.random(300)
    l = rng.random(300) < 0.6 * (1 - g)
    found = paired_difference(l, g, l, g + 0.4 * rng.random(300), metric="naurc", sample_weight=w / w.sum())
    assert found.difference < 0
    assert found.low < found.difference < found.high


@pytest.mark.parametrize(
    ("metric", "options", "words"),
    [
        ("risk_at_coverage", {"coverage": 2}, "coverage"),
        ("risk_at_coverage", {"coverage": 0}, "coverage"),
        ("fpr_at_tpr", {"tpr": 2}, "tpr"),
        ("coverage_at_risk", {"risk": math.nan}, "risk"),
        ("coverage_at_risk", {"risk": -1}, "risk"),
        ("aurc", {"loss_bound": -5}, "loss_bound"),
    ],
)
def test_options_are_checked(metric, options, words):
    """Finding 12."""
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=f"interval: `{words}`"):
        interval(metric, rng.random(50) < 0.3, rng.random(50), **options)


def test_losses_with_the_low_moments_of_zero_one_are_none():
    """Finding 15: .5, .5, .5, 1.5 have the sum and the sum of squares of a 0/1 loss."""
    table = Blocks.from_samples(np.asarray([0.5, 0.5, 0.5, 1.5]), np.arange(4.0))
    with pytest.raises(InputError, match="0/1"):
        interval_from_blocks("auroc", table)
    assert interval_from_blocks("risk", table).method == "log"


def test_clusters_across_groups_count_once_in_the_mean_over_groups():
    """Finding 10: every sample stands in both groups, so their mean knows no more than one of them."""
    rng = np.random.default_rng(3)
    g = rng.random(200)
    l = rng.random(200) < 0.6 * (1 - g)
    twice = [np.concatenate([x, x]) for x in (l, g)]
    groups, clusters = np.repeat(["a", "b"], 200), np.tile(np.arange(200), 2)
    found = interval("aurc", *twice, groups=groups, clusters=clusters).macro
    alone = interval("aurc", l, g, clusters=np.arange(200))
    assert found.standard_error == pytest.approx(alone.standard_error, rel=1e-9)
    assert [found.low, found.high] == pytest.approx([alone.low, alone.high], rel=1e-6)
    apart = interval("aurc", *twice, groups=groups).macro
    assert apart.standard_error == pytest.approx(
        interval("aurc", l, g).standard_error / math.sqrt(2), rel=1e-9
    )


def test_the_mean_over_groups_keeps_to_its_scale():
    """Finding 9: it was symmetric and normal; groups without an error widen it by their bounds."""
    rng = np.random.default_rng(4)
    g = rng.random(250)
    l, groups = rng.random(250) < 0.3 * (1 - g), np.arange(250) % 5
    found = interval("e_aurc", l, g, groups=groups).macro
    assert 0 < found.low < found.estimate < found.high
    assert found.high - found.estimate > found.estimate - found.low
    l[groups == 0] = False
    clean = interval("e_aurc", l, g, groups=groups)
    assert clean[0].centre == "bound"
    assert clean.macro.high - clean.macro.estimate > clean[0].high / 5
    for metric, options in OPTIONS.items():
        if metric != "fpr_at_tpr":
            assert interval(metric, l, g, groups=groups, **options).macro.low >= 0


@pytest.mark.parametrize("metric", ["aurc", "e_aurc", "augrc"])
def test_a_first_error_does_not_make_one_surer_than_none(metric):
    """Errors on top may have been missed whether or not an unsure sample was wrong; from sixteen on they count no more."""
    g = np.arange(200.0)
    none = interval(metric, np.zeros(200), g)
    one = interval(metric, g == 0, g)
    assert one.high >= none.high
    p = 1 - 0.05 ** (1 / 200)
    assert none.high == pytest.approx(p if metric == "augrc" else p * (1 - math.log(p)))
    rng = np.random.default_rng(0)
    l = rng.random(200) < 0.5 * (1 - g / 200)
    many = interval("aurc", l, g)
    middle = abstain.aurc(l, g, estimator="loo")
    assert math.sqrt(many.low * many.high) == pytest.approx(middle, rel=1e-9)  # symmetric on its scale again


def test_no_loss_at_all_gives_the_valid_bound():
    found = interval("aurc", np.zeros(100), np.arange(100.0))
    p = 1 - 0.05 ** (1 / 100)
    assert (found.low, found.estimate, found.centre) == (0.0, 0.0, "bound")
    assert found.high == pytest.approx(p * (1 - math.log(p)), rel=1e-12)
    assert interval("risk", np.zeros(100), np.arange(100.0)).high == pytest.approx(p, rel=1e-12)
    assert interval("aurc", np.zeros(100), np.arange(100.0), loss_bound=3).high == pytest.approx(
        3 * found.high
    )
    # the bound is attained by a population with risk p, all of it on top: P(no error) = 5%
    c = (np.arange(1_000_000) + 0.5) / 1_000_000
    assert np.mean(np.minimum(1, p / c)) == pytest.approx(found.high, rel=1e-5)
    assert (1 - p) ** 100 == pytest.approx(0.05)


def test_all_wrong_gives_the_mirror_bound():
    found = interval("aurc", np.ones(50), np.arange(50.0))
    r = 0.05 ** (1 / 50)
    assert (found.high, found.centre) == (1.0, "bound")
    assert found.low == pytest.approx(r + (1 - r) * math.log(1 - r))


@pytest.mark.parametrize("wrong", [0.0, 1.0])
@pytest.mark.parametrize(
    "metric", ["aurc", "augrc", "risk", "oracle_aurc", "e_aurc", "naurc", "prediction_rejection_ratio"]
)
def test_one_kind_of_sample_never_gives_an_interval_without_width(metric, wrong):
    found = interval(metric, np.full(30, wrong), np.arange(30.0))
    assert found.centre == "bound"
    assert found.low < found.high
    assert found.low <= found.estimate <= found.high


def test_perfect_ranking_bounds_auroc_by_disjoint_pairs():
    l = np.repeat([1, 0], [5, 45])
    found = interval("auroc", l, np.arange(50.0))
    assert (found.estimate, found.high, found.centre) == (1.0, 1.0, "bound")
    assert found.low == pytest.approx(0.05 ** (1 / 5))
    excess = interval("e_aurc", l, np.arange(50.0))
    assert excess.estimate == pytest.approx(0, abs=1e-12)
    order, missed = (1 - 0.05 ** (1 / 5)) * 0.1, 1 - 0.05 ** (1 / 50)  # of pairs, and errors that nobody saw
    q = max(order, missed)
    assert excess.high == pytest.approx(q * (1 - math.log(q)), rel=1e-9)
    twenty = interval("e_aurc", np.repeat([1, 0], [20, 180]), np.arange(200.0))
    order = (1 - 0.05 ** (1 / 20)) * 0.1
    assert twenty.high == pytest.approx(order * (1 - math.log(order)), rel=1e-9)


def test_clusters_weaken_the_bound():
    clusters = np.arange(100) // 10
    p = 1 - 0.05 ** (1 / 10)
    found = interval("risk", np.zeros(100), np.arange(100.0), clusters=clusters)
    assert found.high == pytest.approx(p)


def test_clusters_with_equal_shares_of_errors_have_limits():
    loss = np.arange(60) % 4 == 0
    clusters = np.arange(60) % 5  # three errors of twelve in each
    interval = abstain.inference.interval("risk", loss, np.arange(60), clusters=clusters)
    assert 0 <= interval.low < 0.25 < interval.high <= 1
