"""The sketch: certified, mergeable in any order, storable, within its size."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import abstain
from abstain.engines import Sketch
from abstain.errors import DataError, InputError

N = 1_000_000


def smooth(rng):
    g = rng.random(N)
    return rng.random(N) < 0.6 * (1 - g) ** 2, g


def heavily_tied(rng):
    g = np.round(rng.beta(5, 1, N), 5)  # more distinct values than the sketch has room for
    return rng.random(N) < 0.5 * (1 - g) + 0.01, g


def saturated(rng):
    z = rng.normal(12, 8, N)
    return rng.random(N) < 0.25 * np.exp(-np.abs(z) / 4), (1 / (1 + np.exp(-z))).astype(np.float32)


def one_heavy_value(rng):
    """Half of all samples at one confidence in the middle, the rest all different."""
    g = np.where(rng.random(N) < 0.5, 1 / 3, rng.random(N))
    return rng.random(N) < 0.6 * (1 - g) ** 2, g


def sorted_by_loss(rng):
    l, g = smooth(rng)
    order = np.argsort(l, kind="stable")
    return l[order], g[order]


def sorted_by_confidence(rng):
    l, g = smooth(rng)
    order = np.argsort(g)
    return l[order], g[order]


def moving_away(rng):
    """A hundredth spread wide, then everything in a place that looked like nothing."""
    g = rng.random(N)
    g[N // 100 :] = 0.7 + 1e-9 * g[N // 100 :]
    rank = np.argsort(np.argsort(g)) / N
    return rng.random(N) < 0.3 * (1 - rank) ** 4, g


def skewed(rng):
    g = np.exp(rng.normal(0, 15, N))
    rank = np.argsort(np.argsort(g)) / N
    return rng.random(N) < 0.3 * (1 - rank) ** 4, g


@pytest.mark.parametrize(
    "shape",
    [
        smooth,
        heavily_tied,
        saturated,
        one_heavy_value,
        sorted_by_loss,
        sorted_by_confidence,
        moving_away,
        skewed,
    ],
    ids=lambda f: f.__name__,
)
def test_a_megabyte_certifies_three_digits_and_estimates_four(shape):
    l, g = shape(np.random.default_rng(7))
    sketch = Sketch()
    for a in range(0, N, 1 << 17):
        sketch.update(l[a : a + (1 << 17)], g[a : a + (1 << 17)])
    truth = abstain.aurc(l, g)
    found = sketch.aurc()
    assert found.low <= truth <= found.high
    assert found.gap <= 1e-3 * truth
    assert abs(found.estimate - truth) <= (1e-5 if shape is smooth else 1e-4) * truth
    assert len(sketch.to_bytes()) <= 1_000_000
    found, truth = sketch.augrc(), abstain.augrc(l, g)
    assert found.low <= truth <= found.high
    assert found.gap <= 1e-3 * truth


def test_merging_in_any_order_and_tree_keeps_the_bounds_true():
    rng = np.random.default_rng(1)
    parts = []
    for k in range(4):
        g = rng.beta(k + 1, 2, 60_000)
        parts.append((rng.random(len(g)) < (1 - g) ** 2, g))
    l, g = (np.concatenate(x) for x in zip(*parts))
    truth = abstain.aurc(l, g)
    sketches = []
    for part in parts:
        sketch = Sketch(size=60_000)
        sketch.update(*part)
        sketches.append(sketch)
    seen = []
    for order in itertools.islice(itertools.permutations(sketches), 0, 24, 5):
        a, b, c, d = order
        for whole in (a.merge(b).merge(c).merge(d), a.merge(b).merge(c.merge(d)), a.merge(b, c, d)):
            found = whole.aurc()
            assert found.low <= truth <= found.high
            assert whole.n == len(l)
            seen.append(found.gap)
    assert max(seen) < 0.02 * truth
    assert max(seen) < 2.5 * min(seen)


def test_few_distinct_values_are_exact_however_they_come():
    rng = np.random.default_rng(2)
    g = rng.integers(0, 500, 50_000) / 7.0
    l = rng.random(50_000) < 0.3
    whole = Sketch()
    for part in np.array_split(np.arange(50_000), 23):
        piece = Sketch()
        piece.update(l[part], g[part])
        whole = whole.merge(piece)
    assert whole.exact
    found = whole.aurc()
    assert found.gap == pytest.approx(0, abs=1e-15)
    assert found.estimate == pytest.approx(abstain.aurc(l, g), rel=1e-12)
    curve, truth = whole.curve(), abstain.risk_coverage_curve(l, g)
    np.testing.assert_allclose(curve.coverage, truth.coverage, rtol=1e-12)
    np.testing.assert_allclose(curve.risk, truth.risk, rtol=1e-12)
    np.testing.assert_array_equal(curve.threshold, truth.threshold)
    for coverage in (0.001, 0.5, 0.77, 1.0):
        found = whole.risk_at_coverage(coverage)
        assert found.gap == pytest.approx(0, abs=1e-15)
        assert found.estimate == pytest.approx(abstain.risk_at_coverage(l, g, coverage=coverage), rel=1e-12)


def test_many_small_updates_equal_one_large():
    rng = np.random.default_rng(3)
    g, l = rng.random(5000), rng.random(5000) < 0.2
    one, many = Sketch(), Sketch()
    one.update(l, g)
    for a in range(0, 5000, 50):
        many.update(l[a : a + 50], g[a : a + 50])
    many.update(np.empty(0), np.empty(0))
    assert one.aurc() == many.aurc()
    assert one.n == many.n == 5000


def test_stored_and_read_back_it_answers_the_same():
    rng = np.random.default_rng(4)
    sketch = Sketch(size=50_000)
    sketch.update(rng.exponential(1, 30_000), rng.normal(0, 1, 30_000), sample_weight=rng.random(30_000))
    for again in (Sketch.from_bytes(sketch.to_bytes()), Sketch.from_json(sketch.to_json())):
        assert again.aurc() == sketch.aurc()
        assert again.risk_at_coverage(0.3) == sketch.risk_at_coverage(0.3)
        assert again.n == sketch.n
        assert again.merge(sketch).n == 60_000
    with pytest.raises(DataError, match="from_bytes"):
        Sketch.from_bytes(b"something else")


def test_the_curve_is_bounded_where_it_is_not_known():
    rng = np.random.default_rng(5)
    sketch = Sketch(size=8192)
    l, g = rng.random(100_000) < 0.3, rng.random(100_000)
    for a in range(0, 100_000, 40_000):
        sketch.update(l[a : a + 40_000], g[a : a + 40_000])
    curve = sketch.curve()
    for k in range(0, len(curve.threshold), 10):
        kept = g >= curve.threshold[k]
        if kept.any():
            assert curve.coverage_low[k] - 1e-12 <= kept.mean() <= curve.coverage_high[k] + 1e-12
            assert curve.risk_low[k] - 1e-12 <= l[kept].mean() <= curve.risk_high[k] + 1e-12


def test_negative_losses_have_no_certificate_and_say_so():
    sketch = Sketch()
    sketch.update([-1.0, 2.0, 0.5], [0.1, 0.2, 0.3])
    found = sketch.aurc()
    assert found.low is None
    assert found.high is None
    assert found.gap is None
    assert "no certificate" in repr(found)
    assert found.estimate == pytest.approx(abstain.aurc([-1.0, 2.0, 0.5], [0.1, 0.2, 0.3]))


@pytest.mark.parametrize("weighted", [False, True])
def test_tensors_are_sketched_where_they_live(weighted):
    torch = pytest.importorskip("torch")
    from abstain.engines.histogram import histogram_of, histogram_of_tensor

    rng = np.random.default_rng(6)
    l, g, w = rng.random(30_000) < 0.3, rng.random(30_000).astype(np.float32), rng.random(30_000)
    weight = w if weighted else None
    ours = histogram_of(l, g, weight, 800)
    tensors = (torch.from_numpy(x) for x in (l, g))
    theirs = histogram_of_tensor(*tensors, None if weight is None else torch.from_numpy(w), 800)
    assert theirs.mass.sum() == pytest.approx(ours.mass.sum())
    for items in (ours, theirs):
        assert len(items) <= 1700
        assert np.all(items.low[1:] > items.high[:-1])  # cut, not overlapping
    sketch = Sketch()
    sketch.update(torch.from_numpy(l), torch.from_numpy(g))
    assert sketch.aurc().estimate == pytest.approx(abstain.aurc(l, g), rel=1e-9)


def test_bad_input_is_told():
    sketch = Sketch()
    with pytest.raises(InputError, match=r"Sketch\.aurc: needs at least one sample"):
        sketch.aurc()
    with pytest.raises(InputError, match="must be finite, got nan at index 1"):
        sketch.update([0, 1], [0.5, np.nan])
    with pytest.raises(InputError, match="at least 4096"):
        Sketch(size=10)


def test_all_of_a_stream_of_fractional_weights_is_coverage_one():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        loss, confidence, weight = rng.random(300) < 0.2, rng.random(300), rng.random(300)
        sketch = Sketch()
        sketch.update(loss, confidence, sample_weight=weight)
        assert sketch.risk_at_coverage(1.0).estimate == pytest.approx(np.average(loss, weights=weight))
    sketch = Sketch()
    sketch.update(np.arange(20) == 9, -np.arange(20), sample_weight=np.full(20, 0.1))
    assert sketch.risk_at_coverage(0.5).estimate == pytest.approx(0.1)


@pytest.mark.parametrize("scale", [1e15, 1e22, 1e100])
def test_huge_whole_weights_are_shares_like_any_other(scale):
    sketch = Sketch()
    sketch.update([0, 1, 0, 1], [4, 3, 2, 1], sample_weight=np.full(4, scale))
    assert [sketch.risk_at_coverage(c).estimate for c in (0.25, 0.5, 0.75, 1.0)] == pytest.approx(
        [0, 1 / 2, 1 / 3, 1 / 2]
    )


def _stored_sketch():
    rng = np.random.default_rng(7)
    sketch = Sketch(size=8192)
    sketch.update(rng.exponential(1, 5000), rng.normal(0, 1, 5000), sample_weight=rng.random(5000))
    return sketch


def test_a_damaged_sketch_is_refused_whatever_the_damage():
    whole = _stored_sketch().to_bytes()
    damaged = [whole[:k] for k in (16, 18, 22, 40, 200, len(whole) - 8, len(whole) - 1)] + [whole + bytes(8)]
    flipped = (20, 24, 40, 90, 300, len(whole) // 2, len(whole) - 1)
    damaged += [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in flipped]
    for stored in damaged:
        with pytest.raises(DataError, match=r"Sketch.from_bytes: "):
            Sketch.from_bytes(stored)
    text = _stored_sketch().to_json()
    content = json.loads(text)
    swapped = content | {"low": content["high"], "high": content["low"]}
    for stored in (
        text[:-20],
        "[]",
        "3",
        json.dumps(swapped),
        json.dumps(content | {"losses": [9, 0]}),
        text.replace("5000", "4000"),
    ):
        with pytest.raises(DataError, match=r"Sketch.from_json: "):
            Sketch.from_json(stored)


def test_a_sketch_of_another_version_is_refused_by_its_version():
    sketch = _stored_sketch()
    whole = sketch.to_bytes()
    with pytest.raises(DataError, match=r"version 3, got version '1'\. Make the sketch again"):
        Sketch.from_bytes(whole.replace(b"abstain.Sketch.3\n", b"abstain.Sketch.1\n"))
    old = {k: v for k, v in json.loads(sketch.to_json()).items() if k not in ("version", "checksum")}
    with pytest.raises(DataError, match=r"version 3, got version '1'"):
        Sketch.from_json(json.dumps(old))
    indented = json.dumps(json.loads(sketch.to_json()), indent=1, sort_keys=True)
    assert Sketch.from_json(indented).aurc() == sketch.aurc()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tensors_with_a_gradient_are_sketched_and_searched_for_thresholds(dtype):
    torch = pytest.importorskip("torch")
    loss = torch.tensor([0.0, 1, 0, 1], requires_grad=True)
    confidence = torch.tensor([0.75, 0.125, 0.5, 0.25], dtype=getattr(torch, dtype), requires_grad=True)
    sketch = Sketch()
    sketch.update(loss, confidence, sample_weight=torch.tensor([1.0, 2, 1, 1], requires_grad=True))
    plain = ([0, 1, 0, 1], [0.75, 0.125, 0.5, 0.25])
    assert sketch.aurc().estimate == pytest.approx(abstain.aurc(*plain, sample_weight=[1, 2, 1, 1]))
    assert abstain.select_threshold(loss, confidence, cost=0.4).value == 0.5


def test_nested_lists_are_flattened_as_arrays_are():
    loss, confidence = [[0, 1], [1, 0]], [[0.5, 0.6], [0.7, 0.8]]
    of_lists, of_arrays = Sketch(), Sketch()
    of_lists.update(loss, confidence)
    of_arrays.update(np.array(loss), np.array(confidence))
    assert of_lists.n == of_arrays.n == 4
    assert of_lists.aurc() == of_arrays.aurc()
