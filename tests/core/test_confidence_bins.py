"""Certified bounds against every order and tie structure a bin can hide."""

from __future__ import annotations

import itertools

import array_api_compat.torch as torch_xp
import numpy as np
import pytest
import torch

from abstain.core import confidence_bins
from abstain.core.confidence_bins import BinMap


def blocks_of(losses, ends):
    """Consecutive losses cut into tied blocks: `ends[i]` says whether a block ends after sample i."""
    block, out = [], []
    for loss, end in zip(losses, [*ends, True]):
        block.append(loss)
        if end:
            out.append(block)
            block = []
    return out


def sum_of_risks(blocks, N, S):
    """Sum over samples of the selective risk at their own threshold, by the definition."""
    value = 0.0
    for block in blocks:
        N, S = N + len(block), S + sum(block)
        value += len(block) * S / N
    return value


def sum_of_accepted(blocks, N, S):
    value = 0.0
    for block in blocks:
        S = S + sum(block)
        value += len(block) * S
    return value


def extremes(losses, N, S, measure):
    values = [
        measure(blocks_of(order, ends), N, S)
        for order in set(itertools.permutations(losses))
        for ends in itertools.product([False, True], repeat=len(losses) - 1)
    ]
    return min(values), max(values)


def two_bins(c, L, N, S, tie=False):
    """A bin of interest below one tied bin (N, S); ascending."""
    count, loss = np.array([c, N], float), np.array([L, S], float)
    low, high = np.array([0.1, 0.9]), np.array([0.1 if tie else 0.2, 0.9])
    return confidence_bins.disjoint_bins(np, count, loss, low, high)


@pytest.mark.parametrize("c", range(1, 6))
@pytest.mark.parametrize(("N", "S"), [(0, 0), (1, 0), (1, 1), (4, 1), (7, 7), (50, 3)])
def test_zero_one_bounds_are_sharp_over_all_orders_and_ties(c, N, S):
    for L in range(c + 1):
        losses = [1] * L + [0] * (c - L)
        least, greatest = extremes(losses, N, S, sum_of_risks)
        bins, top = two_bins(c, L, N, S), S if N else 0
        result = confidence_bins.aurc(bins)
        assert result.low * (N + c) == pytest.approx(top + least, abs=1e-12)
        assert result.high * (N + c) == pytest.approx(top + greatest, abs=1e-12)
        assert result.low - 1e-15 <= result.estimate <= result.high + 1e-15

        least, greatest = extremes(losses, N, S, sum_of_accepted)
        result = confidence_bins.augrc(bins)
        assert result.low * (N + c) ** 2 == pytest.approx(N * S + least, abs=1e-12)
        assert result.high * (N + c) ** 2 == pytest.approx(N * S + greatest, abs=1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_bounded_losses_lie_within_and_fractional_masses_are_wider(seed):
    rng = np.random.default_rng(seed)
    most = float(rng.choice([0.5, 1.0, 3.0]))
    c, N = int(rng.integers(1, 6)), int(rng.integers(0, 6))
    losses = list(rng.choice([0, most, 0.3 * most, 0.77 * most], size=c))
    S = float(rng.uniform(0, N * most))
    whole = two_bins(c, sum(losses), N, S)
    for measure, area, power, top in (
        (sum_of_risks, confidence_bins.aurc, 1, S),
        (sum_of_accepted, confidence_bins.augrc, 2, N * S),
    ):
        least, greatest = extremes(losses, N, S, measure)
        result = area(whole, most)
        scale = (N + c) ** power
        assert result.low * scale <= top + least + 1e-12
        assert result.high * scale >= top + greatest - 1e-12
        wide = area(whole._replace(has_whole_mass=False), most)
        assert wide.low <= result.low + 1e-14
        assert wide.high >= result.high - 1e-14
        assert area(whole, None).low is None


def position_bounds(c, L, N, S, most):
    """The formula by positions, one member at a time."""
    ks = range(N + 1, N + c + 1)
    low = {k: (S + max(0.0, L - most * (N + c - k))) / k for k in ks}
    high = {k: (S + min(L, most * (k - N))) / k for k in ks}
    return (
        sum(min(low[k] for k in ks if k >= p) for p in ks),
        sum(max(high[k] for k in ks if k >= p) for p in ks),
    )


@pytest.mark.parametrize("seed", range(20))
def test_closed_forms_agree_with_the_sum_over_positions(seed):
    rng = np.random.default_rng(seed)
    c, N, most = int(rng.integers(1, 400)), int(rng.integers(0, 1000)), 2.0
    S = float(rng.uniform(0, most * N))
    L = 2.0 * int(rng.integers(0, c + 1))  # whole multiples of the largest loss: no rounding of positions
    low, high = position_bounds(c, L, N, S, most)
    result = confidence_bins.aurc(two_bins(c, L, N, S), most)
    assert result.low * (N + c) == pytest.approx(S + low, rel=1e-12)
    assert result.high * (N + c) == pytest.approx(S + high, rel=1e-12)
    L = float(rng.uniform(0, most * c))
    low, high = position_bounds(c, L, N, S, most)
    result = confidence_bins.aurc(two_bins(c, L, N, S), most)
    assert result.low * (N + c) <= S + low + 1e-9
    assert result.high * (N + c) >= S + high - 1e-9
    assert result.high - result.low <= (high - low) / (N + c) * 1.5 + most / (N + c)


def test_a_bin_of_one_value_is_exact():
    result = confidence_bins.aurc(two_bins(10, 4, 10, 1, tie=True))
    assert result.low == result.high == result.estimate == pytest.approx((1 + 10 * 5 / 20) / 20)


def test_ties_of_wrong_below_right_are_inside_the_bounds():
    """Ten right samples above, ten tied wrong ones: 10 x 1/2, more than any untied order gives."""
    result = confidence_bins.aurc(two_bins(10, 10, 10, 0))
    assert result.high * 20 == pytest.approx(5.0)
    assert result.low * 20 == pytest.approx(sum(j / (10 + j) for j in range(1, 11)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("domain", ["unit", "real"])
def test_the_map_bins_bound_the_truth_and_torch_agrees(weighted, domain):
    rng = np.random.default_rng(5)
    n = 4000
    g = np.concatenate([rng.uniform(0.3, 1, n // 2), np.ones(n // 4), 1 - rng.exponential(1e-6, n // 4)])
    l = (rng.uniform(size=n) < 0.5 * (1 - g) + 0.05).astype(float)
    w = rng.exponential(size=n) if weighted else np.ones(n)
    bins = BinMap(2048, domain)

    def state(xp, g, w, l):
        place = bins.index(xp, g)
        host = np.asarray(place)
        low, high = np.full(bins.size, np.inf), np.full(bins.size, -np.inf)
        np.minimum.at(low, host, np.asarray(g))
        np.maximum.at(high, host, np.asarray(g))
        c, L = (np.bincount(host, np.asarray(x), bins.size) for x in (w, w * l))
        return confidence_bins.disjoint_bins(
            xp, *(xp.asarray(x) for x in (c, L, low, high)), whole=not weighted
        )

    truth = pairwise_aurc(l, g, w)
    ours = confidence_bins.aurc(state(np, g, w, l))
    assert ours.low <= truth <= ours.high
    assert ours.estimate == pytest.approx(truth, rel=2e-2)
    theirs = confidence_bins.aurc(state(torch_xp, *(torch.from_numpy(x) for x in (g, w, l))))
    np.testing.assert_allclose([float(x) for x in theirs], [float(x) for x in ours], rtol=1e-12)


def pairwise_aurc(l, g, w):
    accepted = g[None, :] >= g[:, None]
    return float(np.sum(w * (accepted @ (w * l)) / (accepted @ w)) / w.sum())


@pytest.mark.parametrize("domain", ["unit", "real"])
def test_the_map_never_falls_and_isolates_one(domain):
    rng = np.random.default_rng(0)
    specials = [
        0.0,
        -0.0,
        5e-324,
        1.0,
        np.nextafter(1, 0),
        np.nextafter(1, 2),
        0.5,
        np.nextafter(0.5, 1),
        -5e-324,
    ]
    wide = rng.choice([-1, 1], 20000) * np.exp(rng.normal(0, 30, 20000))
    x = np.sort(np.concatenate([specials, wide, rng.uniform(0, 1, 20000), 1 - rng.exponential(1e-5, 20000)]))
    bins = BinMap(8192, domain)
    place = bins.index(np, x)
    assert place.min() >= 0
    assert place.max() < bins.size <= 1.1 * 8192
    assert np.all(np.diff(place) >= 0)
    assert np.array_equal(place, bins.index(torch_xp, torch.from_numpy(x)).numpy())
    ones = place[x == 1]
    below = place[(x < 1)]
    assert below.max() < ones.min()
    if domain == "real":
        assert place[x > 1].min() > ones.max()


def test_float32_probabilities_next_to_one_have_bins_of_their_own():
    near = np.float32(1) - np.arange(0, 64, dtype=np.float32) * np.float32(2**-24)
    assert len(np.unique(BinMap(1 << 15, "unit").index(np, near))) == 64


@pytest.mark.parametrize("seed", range(20))
def test_risk_at_a_position_is_bounded(seed):
    rng = np.random.default_rng(seed)
    c, N = 4, int(rng.integers(0, 4))
    losses, S = list(rng.integers(0, 2, c)), int(rng.integers(0, N + 1))
    position = int(rng.integers(N + 1, N + c + 1))
    seen = []
    for order in set(itertools.permutations(losses)):
        for ends in itertools.product([False, True], repeat=c - 1):
            n, s = N, S
            for block in blocks_of(order, ends):
                n, s = n + len(block), s + sum(block)
                if n >= position:
                    seen.append(s / n)
                    break
    one = np.ones(1)
    low, high = confidence_bins.risk_between(
        np, position * one, N * one, S * one, c * one, sum(losses) * one, 1.0
    )
    assert low[0] == pytest.approx(min(seen), abs=1e-12)
    assert high[0] == pytest.approx(max(seen), abs=1e-12)
