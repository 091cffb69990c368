"""select_threshold against oracles that share no code with it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abstain
from abstain.errors import DataError, InputError, ShapeError


def sample(n, seed=0, profile=lambda b: 0.3 * (1 - b), levels=None):
    rng = np.random.default_rng(seed)
    g = rng.random(n)
    wrong = rng.random(n) < profile(g)
    return wrong, g if levels is None else np.floor(g * levels) / levels


# the pieces ---------------------------------------------------------------------------------------------------------


# the whole, against a slow version ----------------------------------------------------------------------------------


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


# no feasible threshold ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("top", [0, 1, 30])
def test_one_large_block_is_no_obstacle(top):
    """All confidences alike but for a few on top: the ranks inside the block hand their level on to it."""
    g = np.append(np.linspace(2, 3, top), np.full(1000 - top, 0.5))
    wrong = np.arange(1000) % 50 == 49
    t = abstain.select_threshold(wrong, g, risk=0.05)
    assert t.coverage == 1


@pytest.mark.parametrize("method", ["ltt", "sgr"])
def test_extremes(method):
    one = abstain.select_threshold([0], [0.5], risk=0.1, method=method)
    assert one.value is None
    assert (one.advice.samples, one.advice.why_none, one.advice.fewest) == (None, "few", 29)
    right = abstain.select_threshold(np.zeros(500), np.arange(500.0), risk=0.05, method=method)
    assert right.coverage == 1
    assert right.rule == "accept everything"
    wrong = abstain.select_threshold(np.ones(500), np.arange(500.0), risk=0.05, method=method)
    assert wrong.value is None
    assert abstain.select_threshold(np.zeros(500), np.arange(500.0), risk=0.0, method=method).value is None


# the three failures of the published SGR ----------------------------------------------------------------------------


# other forms --------------------------------------------------------------------------------------------------------


def test_groups_are_corrected():
    wrong, g = sample(3000, 6, lambda b: 0.1 * (1 - b))
    labels = np.where(np.arange(3000) < 2000, "a", "b")
    both = abstain.select_threshold(wrong, g, risk=0.05, groups=labels, delta=0.1)
    alone = abstain.select_threshold(wrong[:2000], g[:2000], risk=0.05, delta=0.05)
    assert both["a"].value == alone.value
    taken = both.accepts(g, labels)
    np.testing.assert_array_equal(taken[:2000], alone.accepts(g[:2000]))
    assert "all at once" in both.guarantee
    assert abstain.thresholds.GroupThresholds.from_json(both.to_json()).to_json() == both.to_json()
    with pytest.raises(InputError, match="'z'"):
        both.accepts([0.5], ["z"])
    with pytest.raises(ShapeError):
        abstain.select_threshold(wrong, g, risk=0.05, groups=labels[:5])


@pytest.mark.parametrize("count", [598, 602])
def test_columns_of_another_length_are_refused_with_groups_too(count):
    """Rows of a group are picked by their numbers, which would leave further values out without a word."""
    wrong, g = sample(600, 6)
    groups = np.where(np.arange(600) < 300, "a", "b")
    with pytest.raises(ShapeError, match="`confidence` must hold one value per sample"):
        abstain.select_threshold(wrong, np.resize(g, count), risk=0.3, groups=groups)
    with pytest.raises(ShapeError, match="`sample_weight` must hold one value per sample"):
        abstain.select_threshold(wrong, g, risk=0.3, groups=groups, sample_weight=np.ones(count))
    rules = abstain.select_threshold(wrong, g, risk=0.3, groups=groups)
    with pytest.raises(ShapeError, match="`loss` must hold one value per sample"):
        rules.check(np.resize(wrong, count), g, groups)


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
        (
            {"risk": 0.1, "delta": 0.95},
            "the promise fails: give 0.05 for a promise that holds with probability 95%",
        ),
        ({"risk": 0.1, "delta": 0.9, "groups": ["a", "b"]}, "`delta` must lie in .* give 0.1"),
        ({"risk": {"x": 0.1, "y": 0.2}, "delta": 0.95}, "give 0.05"),
        ({"risk": 0.1, "method": "magic"}, "method"),
        ({"coverage": 1.5}, "coverage"),
        ({"coverage": 0.5, "method": "crc"}, "coverage"),
        ({"risk": float("nan")}, "risk"),
        ({"risk": 5}, "`risk` must be below 1, the largest possible loss, got 5. Write 0.05 for 5%."),
        ({"risk": 1}, "`risk` must be below 1, the largest possible loss, got 1. Write 0.01 for 1%."),
        ({"risk": 1, "method": "sgr"}, "below 1"),
        ({"risk": 1, "method": "empirical"}, "below 1"),
        ({"risk": 1, "clusters": [1, 2]}, "below 1"),
        ({"risk": {"x": 0.1, "y": 1}}, "below 1"),
        ({"risk": -1}, "`risk` must be at least 0, the smallest possible loss, got -1"),
        ({"risk": 5, "bounded": (0, 2)}, "`risk` must be below 2, the largest possible loss, got 5.$"),
        ({"risk": 2, "bounded": (0, 2)}, "below 2"),
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


# definitions written out ---------------------------------------------------------------------------------------------


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
