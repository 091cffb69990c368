"""select_threshold against oracles that share no code with it."""

import json
import subprocess
import sys
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abstain
from abstain.errors import DataError, InputError, ShapeError
from abstain.thresholds import testing
from abstain.thresholds.testing import plan, walk


def sample(n, seed=0, profile=lambda b: 0.3 * (1 - b), levels=None):
    rng = np.random.default_rng(seed)
    g = rng.random(n)
    wrong = rng.random(n) < profile(g)
    return wrong, g if levels is None else np.floor(g * levels) / levels


def exact_tail(errors, n, r):
    r = Fraction(r).limit_denominator(10**6)
    a, b = r.numerator, r.denominator
    return float(Fraction(sum(comb(n, j) * a**j * (b - a) ** (n - j) for j in range(errors + 1)), b**n))


# the pieces ---------------------------------------------------------------------------------------------------------


@given(st.integers(1, 60), st.integers(0, 60), st.sampled_from([0.01, 0.05, 0.1, 0.5]))
@settings(max_examples=60, deadline=None)
def test_binomial_p_value_is_the_sum_of_its_terms(n, errors, r):
    errors = min(errors, n)
    assert testing.binomial(np.asarray([errors]), np.asarray([n]), r)[0] == pytest.approx(
        exact_tail(errors, n, r), rel=1e-10
    )


def test_p_values_of_nothing_are_one():
    zero = np.asarray([0])
    assert testing.binomial(zero, zero, 0.1)[0] == 1
    assert testing.hoeffding_bentkus(np.asarray([0.0]), zero, 0.1)[0] == 1


def test_bounded_p_values_are_valid_and_useful():
    """At the boundary of the hypothesis each is below alpha at most alpha of the time; for low losses it is small."""
    from abstain.core.sorting import rank_samples

    rng = np.random.default_rng(0)
    counts = np.asarray([40, 150])
    for draw in (
        lambda: rng.beta(0.2, 1.8, 150),
        lambda: (rng.random(150) < 0.1) * 1.0,
        lambda: np.full(150, 0.1) + rng.normal(size=150) * 1e-3,
        lambda: 0.05 + 0.1 * rng.random(150),
    ):
        hb, bet = [], []
        for _ in range(2000):
            ranked = rank_samples(draw(), rng.random(150))
            hb.append(testing.hoeffding_bentkus(ranked.accepted_loss[counts], counts, 0.1))
            bet.append(testing.betting(ranked, counts, 0.1))
        for p in (np.asarray(hb), np.asarray(bet)):
            for alpha in (0.01, 0.05, 0.2):
                assert (p <= alpha).mean(axis=0).max() <= alpha + 3 * np.sqrt(alpha / 2000)
    ranked = rank_samples(np.full(150, 0.03), rng.random(150))
    assert testing.betting(ranked, counts, 0.1)[1] < 1e-3


def test_betting_equals_the_product_written_out():
    from abstain.core.sorting import rank_samples

    rng = np.random.default_rng(1)
    loss, g = rng.random(300) * 0.2, rng.random(300)
    ordered = loss[np.argsort(-g)]
    counts = np.asarray([10, 11, 120, 300])
    found = testing.betting(rank_samples(loss, g), counts, 0.2)
    scale, largest = 0.4, 0.95 / 0.8
    stakes = [largest]
    while stakes[0] > 1.75 / (300**0.5 * scale):
        stakes.insert(0, stakes[0] / 2)
    stakes = np.asarray(stakes)
    for k, p in zip(counts, found):
        first = min(np.searchsorted(stakes, 1.75 / (k**0.5 * scale)), len(stakes) - 1)
        used = stakes[np.minimum(first + np.arange(4), len(stakes) - 1)]
        wealth = np.mean([np.prod(1 + s * (0.2 - ordered[:k])) for s in used])
        assert p == pytest.approx(min(1.0, 1 / wealth), rel=1e-9)


@pytest.mark.parametrize("n", [30, 100, 1000, 10_000, 10**7])
@pytest.mark.parametrize("risk", [0.01, 0.05, 0.1, 0.5])
def test_plan_spends_delta_and_never_starts_where_nothing_can_pass(n, risk):
    ranks, weights = plan(n, risk, 0.05)
    if (1 - risk) ** n > 0.05:
        assert len(ranks) == 0
        return
    assert weights.sum() == pytest.approx(0.05)
    assert (np.diff(ranks) > 0).all()
    assert ranks[-1] == n
    starts = ranks[weights > 0]
    assert ((1 - risk) ** starts <= weights[weights > 0] * 1.0001).all()


def brute_walk(p, w, least=None):
    """The fallback procedure as a story: carry what was won; what cannot pass is stepped over."""
    carried, out = 0.0, []
    for j, (pj, wj) in enumerate(zip(p, w)):
        level = carried + wj
        ok = level > 0 and pj <= level
        out.append(ok)
        carried = level if ok or (least is not None and least[j] > level) else 0.0
    return out


@given(st.lists(st.tuples(st.floats(0, 0.2), st.sampled_from([0.0, 0.01, 0.03])), min_size=1, max_size=12))
def test_walk_is_the_story(rows):
    p, w = (np.asarray(x) for x in zip(*rows))
    assert walk(p, w).passed.tolist() == brute_walk(p, w)
    assert walk(np.stack([p, p]), w).passed.tolist() == [brute_walk(p, w)] * 2
    least = p / 2
    assert walk(p, w, least).passed.tolist() == brute_walk(p, w, least)
    assert walk(p[None], w, least[None]).passed.tolist() == [brute_walk(p, w, least)]


# the whole, against a slow version ----------------------------------------------------------------------------------


def slow_ltt(wrong, g, risk, delta):
    """Sets of samples and exact sums only; the ranks and weights are taken as given."""
    ranks, weights = plan(len(g), risk, delta)
    falling = sorted(g, reverse=True)
    accepted_at = [
        [bool(x) for x, c in zip(wrong, g) if k >= len(g) or c > falling[min(k, len(g) - 1)]] for k in ranks
    ]
    p = [exact_tail(sum(a), len(a), risk) if a else 1.0 for a in accepted_at]
    passed = brute_walk(p, weights, [(1 - risk) ** len(a) for a in accepted_at])
    sizes = [len(a) for a, ok in zip(accepted_at, passed) if ok and a]
    return max(sizes, default=0)


@pytest.mark.parametrize("levels", [None, 7, 30])
@pytest.mark.parametrize("seed", range(6))
def test_default_method_equals_the_slow_version(seed, levels):
    wrong, g = sample(500, seed, lambda b: 0.35 * (1 - b), levels)
    t = abstain.select_threshold(wrong, g, risk=0.15, delta=0.1)
    expected = slow_ltt(wrong.tolist(), g.tolist(), 0.15, 0.1)
    assert int(t.accepts(g).sum()) == expected
    assert t.coverage == expected / 500
    assert t.coverage < 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["ltt", "sgr", "crc", "empirical"])
def test_what_is_reported_is_what_is_deployed(dtype, method):
    """On the calibration data the rule accepts exactly the samples that were counted, ties together."""
    for levels in (None, 11):
        wrong, g = sample(2000, 3, levels=levels)
        g = g.astype(dtype)
        t = abstain.select_threshold(wrong, g, risk=0.08, method=method)
        taken = t.accepts(g)
        assert taken.mean() == pytest.approx(t.coverage)
        assert wrong[taken].mean() == pytest.approx(t.risk)
        np.testing.assert_array_equal(taken, g >= t.value)  # by hand, in the data's own precision
        for value, accepted in zip(t.table.value, t.table.accepted):
            assert (g >= value).sum() == accepted


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_order_and_increasing_maps_do_not_matter(seed):
    wrong, g = sample(400, seed, lambda b: 0.1 * (1 - b), 40)
    order = np.random.default_rng(seed).permutation(400)
    a = abstain.select_threshold(wrong, g, risk=0.1)
    b = abstain.select_threshold(wrong[order], g[order], risk=0.1)
    c = abstain.select_threshold(wrong, np.exp(3 * g), risk=0.1)
    assert a.value == b.value
    assert a.coverage == b.coverage == c.coverage


def test_array_libraries_lists_and_scaled_losses_agree():
    torch = pytest.importorskip("torch")
    wrong, g = sample(1000, 5, lambda b: 0.1 * (1 - b))
    t = abstain.select_threshold(wrong, g, risk=0.1)
    for loss, conf in (
        (wrong.tolist(), g.tolist()),
        (wrong.astype(int), g),
        (wrong.astype(np.float32), g),
        (torch.from_numpy(wrong), torch.from_numpy(g)),
    ):
        assert abstain.select_threshold(loss, conf, risk=0.1).value == t.value
    scaled = abstain.select_threshold(wrong * 8.0 - 3, g, risk=0.1 * 8 - 3, bounded=(-3, 5))
    assert scaled.value == t.value
    assert scaled.risk == pytest.approx(8 * t.risk - 3)


# no feasible threshold ----------------------------------------------------------------------------------------------


def test_no_feasible_threshold_says_what_would_be():
    wrong, g = sample(200, 1)
    t = abstain.select_threshold(wrong, g, risk=0.02)
    assert t.value is None
    assert not t.feasible
    assert t.guarantee is None
    assert t.risk is None
    assert not t.accepts(g).any()
    assert t.rule == "accept nothing"
    assert "no feasible threshold" in repr(t)
    assert t.advice.risk > 0.02
    again = abstain.select_threshold(wrong, g, risk=t.advice.risk)
    assert again.feasible
    assert again.coverage == pytest.approx(t.advice.coverage)
    assert not abstain.select_threshold(wrong, g, risk=t.advice.risk * 0.9).feasible


def test_the_number_of_samples_advised_mostly_suffices():
    hits = []
    for seed in range(20):
        wrong, g = sample(400, seed)
        t = abstain.select_threshold(wrong, g, risk=0.04)
        if t.value is None and t.advice.samples is not None:
            more = sample(2 * t.advice.samples, 100 + seed)
            hits.append(abstain.select_threshold(*more, risk=0.04).feasible)
    assert len(hits) >= 10
    assert np.mean(hits) >= 0.7


@pytest.mark.parametrize("top", [0, 1, 30])
def test_one_large_block_is_no_obstacle(top):
    """All confidences alike but for a few on top: the ranks inside the block hand their level on to it."""
    g = np.append(np.linspace(2, 3, top), np.full(1000 - top, 0.5))
    wrong = np.arange(1000) % 50 == 49
    t = abstain.select_threshold(wrong, g, risk=0.05)
    assert t.coverage == 1


def test_hopeless_models_are_told_so():
    rng = np.random.default_rng(0)
    t = abstain.select_threshold(rng.random(5000) < 0.3, rng.random(5000), risk=0.01)
    assert t.value is None
    assert t.advice.samples is None
    assert "model has to improve" in repr(t)


@pytest.mark.parametrize("method", ["ltt", "sgr"])
def test_extremes(method):
    one = abstain.select_threshold([0], [0.5], risk=0.1, method=method)
    assert one.value is None
    assert one.advice.samples >= 29
    right = abstain.select_threshold(np.zeros(500), np.arange(500.0), risk=0.05, method=method)
    assert right.coverage == 1
    assert right.rule == "accept everything"
    wrong = abstain.select_threshold(np.ones(500), np.arange(500.0), risk=0.05, method=method)
    assert wrong.value is None
    assert abstain.select_threshold(np.ones(50), np.arange(50.0), risk=1.0, method=method).coverage == 1
    assert abstain.select_threshold(np.zeros(500), np.arange(500.0), risk=0.0, method=method).value is None


# the three failures of the published SGR ----------------------------------------------------------------------------


def test_sgr_counts_errors_and_does_not_floor_them():
    """int(m * mean) loses an error where the quotient is rounded down; the true count must be tested."""
    lost = [(m, e) for m in range(64, 400) for e in range(m // 2) if int(m * (e / m)) != e]
    assert lost  # the published rounding does lose errors
    for m, e in lost[:20]:
        wrong = np.zeros(2 * m, dtype=bool)
        wrong[m - e : m] = (
            True  # e errors among the m most confident: the first step of the search tests these
        )
        t = abstain.select_threshold(wrong, -np.arange(2.0 * m), risk=0.5, method="sgr")
        row = t.table.accepted.tolist().index(m)
        assert t.table.p_value[row] == pytest.approx(exact_tail(e, m, 0.5), rel=1e-9)
        assert t.table.p_value[row] > exact_tail(e - 1, m, 0.5) * 1.0001


def test_sgr_never_returns_a_threshold_whose_bound_misses_the_target():
    """The published search returns its last step; where no step passes there must be no threshold."""
    misses = 0
    for seed in range(40):
        wrong, g = sample(300, seed)
        t = abstain.select_threshold(wrong, g, risk=0.05, method="sgr")
        steps = int(np.ceil(np.log2(300)))
        if t.value is None:
            misses += 1
            continue
        taken = t.accepts(g)
        assert exact_tail(int(wrong[taken].sum()), int(taken.sum()), 0.05) <= 0.05 / steps
    assert misses > 0


def test_sgr_bounds_what_it_deploys_under_ties():
    """A block that straddles the rank tested is left out whole: its errors cannot come in by the back door."""
    g = np.concatenate([np.full(64, 0.9), np.full(1000, 0.5)])
    wrong = np.concatenate([np.zeros(64), np.zeros(500), np.ones(500)]).astype(bool)
    t = abstain.select_threshold(wrong, g, risk=0.1, delta=0.2, method="sgr")
    assert t.value is not None
    np.testing.assert_array_equal(t.accepts([0.9, 0.5]), [True, False])
    assert t.coverage == 64 / 1064
    for value, accepted, p in zip(t.table.value, t.table.accepted, t.table.p_value):
        taken = g >= value
        assert taken.sum() == accepted
        assert p == pytest.approx(
            exact_tail(int(wrong[taken].sum()), int(accepted), 0.1), rel=1e-9, abs=1e-300
        )


# other forms --------------------------------------------------------------------------------------------------------


def test_empirical_is_the_largest_block_within_the_risk():
    wrong, g = sample(500, 2, levels=25)
    t = abstain.select_threshold(wrong, g, risk=0.1, method="empirical")
    good = [v for v in np.unique(g) if wrong[g >= v].mean() <= 0.1]
    assert t.value == min(good)
    assert t.guarantee is None
    assert t.coverage == abstain.coverage_at_risk(wrong, g, risk=0.1)


def test_crc_is_the_definition():
    wrong, g = sample(500, 2, levels=25)
    t = abstain.select_threshold(wrong, g, risk=0.05, method="crc")
    good = [v for v in np.unique(g) if (wrong[g >= v].sum() + 1) / 501 <= 0.05]
    assert t.value == min(good)
    assert "per sample of all" in t.guarantee
    assert "not the error rate of the accepted" in t.guarantee


def test_coverage_form_with_and_without_certainty():
    wrong, g = sample(1000, 2)
    plain = abstain.select_threshold(wrong, g, coverage=0.5, method="empirical")
    assert plain.coverage == 0.5
    sure = abstain.select_threshold(wrong, g, coverage=0.5)
    assert 0.5 < sure.coverage < 0.55
    assert "accepted" in sure.guarantee
    assert abstain.select_threshold(wrong, g, coverage=1.0).value == -np.inf
    short = 0
    for seed in range(2000):
        conf = np.random.default_rng(seed).random(60)
        short += 1 - abstain.select_threshold(np.zeros(60), conf, coverage=0.5, delta=0.1).value < 0.5
    assert short / 2000 <= 0.1 + 3 * np.sqrt(0.09 / 2000)
    assert short / 2000 > 0.04  # and not by being timid


def test_cost_form_agrees_with_the_metric():
    wrong, g = sample(700, 4, levels=30)
    t = abstain.select_threshold(wrong, g, cost=0.1)
    assert t.value == abstain.best_rejection(wrong, g, cost=0.1).threshold
    assert t.guarantee is None
    nothing = abstain.select_threshold(np.ones(9), np.arange(9.0), cost=0.1)
    assert nothing.value is None
    dear = abstain.select_threshold(wrong * 20.0, g, cost=2.0)  # costs need no bound
    assert dear.value == t.value


def test_groups_are_corrected():
    wrong, g = sample(3000, 6, lambda b: 0.1 * (1 - b))
    labels = np.where(np.arange(3000) < 2000, "a", "b")
    both = abstain.select_threshold(wrong, g, risk=0.05, groups=labels, delta=0.1)
    alone = abstain.select_threshold(wrong[:2000], g[:2000], risk=0.05, delta=0.05)
    assert both["a"].value == alone.value
    taken = both.accepts(g, labels)
    np.testing.assert_array_equal(taken[:2000], alone.accepts(g[:2000]))
    assert "all at once" in both.guarantee
    assert abstain.GroupThresholds.from_json(both.to_json()).to_json() == both.to_json()
    with pytest.raises(InputError, match="'z'"):
        both.accepts([0.5], ["z"])
    with pytest.raises(ShapeError):
        abstain.select_threshold(wrong, g, risk=0.05, groups=labels[:5])


def test_importance_weights_say_what_is_left_and_count():
    wrong, g = sample(4000, 7, lambda b: 0.1 * (1 - b))
    w = 0.5 + g  # later data are surer
    t = abstain.select_threshold(wrong, g, risk=0.05, sample_weight=w)
    taken = t.accepts(g)
    assert t.coverage == pytest.approx(w[taken].sum() / w.sum())
    assert t.risk == pytest.approx((w * wrong)[taken].sum() / w[taken].sum())
    assert "exact density ratio" in t.guarantee
    assert "largest seen here" in t.guarantee
    assert abstain.select_threshold(wrong, g, risk=0.05, sample_weight=9 * w).value == pytest.approx(t.value)
    with pytest.raises(InputError, match="sample_weight"):
        abstain.select_threshold(wrong, g, risk=0.05, sample_weight=w, method="sgr")


# bad input ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one"),
        ({"risk": 0.1, "cost": 1}, "exactly one"),
        ({"risk": 0.1, "delta": 0}, "delta"),
        ({"risk": 0.1, "delta": 1}, "delta"),
        ({"risk": 0.1, "method": "magic"}, "method"),
        ({"coverage": 1.5}, "coverage"),
        ({"coverage": 0.5, "method": "crc"}, "coverage"),
        ({"risk": float("nan")}, "risk"),
        ({"risk": 5}, r"`risk` must lie in \[0, 1\], the bounds of the loss, got 5. Write 0.05 for 5%."),
        ({"risk": -1}, r"`risk` must lie in \[0, 1\]"),
        ({"risk": 5, "bounded": (0, 2)}, r"`risk` must lie in \[0, 2\]"),
        ({"risk": 5, "method": "crc"}, "Write 0.05"),
        ({"risk": 101, "method": "empirical"}, "risk"),
        ({"risk": 0.1, "bounded": (1, 0)}, "bounded"),
        ({"risk": 0.1, "bounded": 3}, "bounded"),
        ({"cost": -1}, "cost"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        abstain.select_threshold([0, 1], [0.3, 0.5], **options)


def test_losses_beyond_the_bound_are_refused():
    with pytest.raises(InputError, match="bounded"):
        abstain.select_threshold([0.0, 2.5], [0.3, 0.5], risk=0.1)
    with pytest.raises(InputError, match="finite"):
        abstain.select_threshold([0, 1], [0.3, np.nan], risk=0.1)
    with pytest.raises(ShapeError):
        abstain.select_threshold(np.zeros((2, 3)), np.zeros((2, 3)), risk=0.1)


# keeping it ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"risk": 0.1}, {"risk": 0.001}, {"coverage": 1.0}, {"cost": 0.1}, {"risk": 0.1, "method": "empirical"}],
)
def test_json_round_trip_is_exact(tmp_path, options):
    wrong, g = sample(500, 8, lambda b: 0.1 * (1 - b))
    t = abstain.select_threshold(wrong, g.astype(np.float32), **options)
    t.save(tmp_path / "t.json")
    back = abstain.Threshold.load(tmp_path / "t.json")
    assert back.to_json() == t.to_json()
    assert back.value == t.value
    assert back.guarantee == t.guarantee
    np.testing.assert_array_equal(back.accepts(g), t.accepts(g))
    np.testing.assert_array_equal(back.table.p_value, t.table.p_value)
    assert back.table.accepted.dtype == t.table.accepted.dtype
    json.loads(t.to_json(), parse_constant=lambda c: pytest.fail(f"not JSON: {c}"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "abstain threshold 1"}', "null"])
def test_broken_json_is_refused(text):
    with pytest.raises(DataError):
        abstain.Threshold.from_json(text)


def test_serving_needs_numpy_only(tmp_path):
    wrong, g = sample(500, 8, lambda b: 0.1 * (1 - b))
    abstain.select_threshold(wrong, g, coverage=0.5).save(tmp_path / "t.json")
    code = (
        "import sys, abstain; t = abstain.Threshold.load(sys.argv[1]); print(t.accepts([0.0, 1.0]).tolist(), "
        "sorted(m for m in ('scipy', 'sklearn', 'matplotlib', 'pandas', 'torch') if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "t.json"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[False, True] []"


def test_views_are_escaped_and_drawn():
    import matplotlib as mpl

    mpl.use("Agg")
    wrong, g = sample(800, 8, lambda b: 0.1 * (1 - b))
    t = abstain.select_threshold(wrong, g, risk=0.05)
    page = t._repr_html_()
    assert "&gt;=" in page
    assert ">=" not in page.replace("&gt;=", "")
    ax = t.plot()
    assert ax.get_xlabel() == "coverage"
    mpl.pyplot.close("all")
    columns = t.frame("dict")
    assert columns["accepted"] == t.table.accepted.tolist()


def test_coverage_of_fractional_weights_is_met_by_the_share_asked_for():
    loss, confidence = np.zeros(20), 20.0 - np.arange(20)
    chosen = abstain.select_threshold(
        loss, confidence, coverage=0.5, method="empirical", sample_weight=np.full(20, 0.1)
    )
    assert chosen.value == 11


# definitions written out ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_conformal_leaves_room_for_the_sample_to_come(seed):
    """The largest threshold with (S + 1)/(n + 1) <= r, found by trying all of them."""
    loss, g = sample(60, seed)
    r = 0.06
    good = [t for t in g if (sum(loss[g >= t]) + 1) / 61 <= r]
    chosen = abstain.select_threshold(loss, g, risk=r, method="crc")
    assert chosen.value == (min(good) if good else None)
    edge = (sum(loss[g >= chosen.value]) + 1) / 61
    assert abstain.select_threshold(loss, g, risk=edge * (1 - 1e-9), method="crc").value != chosen.value


@pytest.mark.parametrize(("n", "coverage"), [(50, 0.6), (200, 0.8), (30, 0.2)])
def test_coverage_with_probability_is_a_sum_of_binomial_terms(n, coverage):
    """k samples suffice when k or more of n fall into a set of that coverage with probability at most delta."""
    loss, g = sample(n, 1)

    def falls(k):
        return sum(comb(n, j) * coverage**j * (1 - coverage) ** (n - j) for j in range(k, n + 1))

    least = next(k for k in range(1, n + 1) if falls(k) <= 0.05)
    chosen = abstain.select_threshold(loss, g, coverage=coverage, delta=0.05)
    assert round(chosen.coverage * n) == least
    assert chosen.value == np.sort(g)[::-1][least - 1]


@pytest.mark.parametrize(
    ("total", "n", "r"), [(1.5, 40, 0.1), (0.0, 25, 0.2), (3.2, 90, 0.05), (8.0, 100, 0.15)]
)
def test_hoeffding_bentkus_is_the_smaller_of_two_bounds(total, n, r):
    mean = min(total / n, r)
    kl = (mean * np.log(mean / r) if mean else 0.0) + (1 - mean) * np.log((1 - mean) / (1 - r))
    bentkus = np.e * exact_tail(int(np.ceil(total)), n, r)
    found = testing.hoeffding_bentkus(np.asarray([total]), np.asarray([n]), r)[0]
    assert found == pytest.approx(min(1.0, np.exp(-n * kl), bentkus), rel=1e-9)


def test_the_better_of_two_bounds_has_its_price():
    from abstain.core.sorting import rank_samples

    ranked, count = (
        rank_samples(np.random.default_rng(2).random(80) * 0.2, np.arange(80.0)),
        np.asarray([10, 40, 80]),
    )
    both = [
        testing.hoeffding_bentkus(ranked.accepted_loss[count], count, 0.3),
        testing.betting(ranked, count, 0.3),
    ]
    assert testing.bounded(ranked, count, 0.3) == pytest.approx(np.minimum(1, 2 * np.min(both, axis=0)))


def test_the_band_of_coverage_is_that_of_massart():
    """Half its width h solves 2 exp(-2 n h^2) = delta."""
    low, high = testing.coverage_band(0.5, 500.0, 0.05)
    assert 2 * np.exp(-2 * 500 * ((high - low) / 2) ** 2) == pytest.approx(0.05)
    assert testing.coverage_band(0.01, 500.0, 0.05)[0] == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["ltt", "sgr"])
@pytest.mark.parametrize("loss", [[0, 1, 1], [0.2, 0.7, 0.4]])
def test_targets_at_the_ends_of_the_loss(loss, method):
    """Nothing proves that there is no loss at all; that it is within its bound needs no proof, ties or not."""
    assert not abstain.select_threshold(loss, [0.5] * 3, risk=0, method=method).feasible
    assert abstain.select_threshold(loss, [0.5] * 3, risk=1, method=method).rule == "accept everything"
    if method == "ltt":
        assert abstain.select_threshold(loss, [1, 2, 3], risk=1, clusters=[1, 1, 2]).coverage == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"risk": [0.1]}, "`risk` must be a number"),
        ({"risk": "much"}, "`risk` must be a number"),
        ({"cost": 0.1, "bounded": 3}, "`bounded` must be a pair"),
        ({"risk": 0.1, "clusters": [1, 2]}, "`clusters` must be a vector"),
    ],
)
def test_the_argument_that_is_wrong_is_named(options, words):
    with pytest.raises(InputError, match=words):
        abstain.select_threshold([0, 1, 0], [0.9, 0.8, 0.7], **options)


def test_equal_weights_that_add_up_with_rounding_are_stored():
    t = abstain.select_threshold(np.zeros(60), np.arange(60.0), risk=0.2, sample_weight=np.full(60, 0.1))
    assert abstain.Threshold.from_json(t.to_json()).to_json() == t.to_json()
