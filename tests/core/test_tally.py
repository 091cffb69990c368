"""Counting in place of sorting: blocks against a dictionary of Python numbers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from abstain.core import tally
from abstain.core.tally import Tally, bytes_between, values_between


def blocks_of(counted):
    """{confidence: (samples, wrong)} in the order the tally gives them."""
    found = {}
    for number in range(len(counted.totals())):
        section = counted.section(number)
        for g, m, w in zip(*(c.tolist() for c in section), strict=True):
            assert g not in found
            found[g] = (m, w)
    return found


def by_hand(loss, confidence, low, high):
    pairs = [(float(g) + 0.0, bool(l)) for l, g in zip(loss, confidence, strict=True) if low <= g <= high]
    samples, wrong = Counter(g for g, _ in pairs), Counter(g for g, l in pairs if l)
    return {g: (samples[g], wrong[g]) for g in sorted(samples, reverse=True)}


def sample(kind, n, rng):
    """Numbers that lie close together in float32, so that windows over them are small."""
    k = rng.integers(0, 5000, n)
    g = {
        "below one": 1 - k * 2.0**-24,
        "few": 1 - (k % 7) / 1024,
        "around one": 1 + (k - 2500) * 2.0**-24,
        "around zero": (k - 2500) * 2.0**-149,
        "negative": -1 - k * 2.0**-23,
        "signed zeros": rng.choice([0.0, -0.0, 2.0**-149, -(2.0**-149)], n),
    }[kind].astype(np.float32)
    return rng.random(n) < 0.3, g


@pytest.mark.parametrize(
    "kind", ["below one", "few", "around one", "around zero", "negative", "signed zeros"]
)
@pytest.mark.parametrize("share", [(0.0, 1.0), (0.2, 0.9), (0.5, 0.5)])
def test_blocks_inside_and_samples_outside(kind, share, monkeypatch):
    monkeypatch.setattr(tally, "CHUNK", 1000)
    loss, g = sample(kind, 4321, np.random.default_rng(3))
    low, high = (float(np.sort(g)[round(s * (len(g) - 1))]) for s in share)
    counted = Tally(low, high)
    elsewhere = counted.add(loss, g)
    assert elsewhere.tolist() == [i for i, x in enumerate(g) if not low <= x <= high]
    expected = by_hand(loss, g, low, high)
    assert list(blocks_of(counted).items()) == list(expected.items())
    assert counted.span() == (min(expected), max(expected))
    assert counted.totals().sum(axis=0).tolist() == [sum(c) for c in zip(*expected.values(), strict=True)]


@pytest.mark.parametrize("far", [-3e38, -1.0, -0.0, 0.0, 2.0**-149, 0.4, 1.5, 3e38])
def test_what_lies_far_away_is_handed_back(far):
    g = np.asarray([far, 0.9995], dtype=np.float32)
    counted = Tally(0.999, 1.0)
    assert counted.add(np.asarray([True, False]), g).tolist() == [0]
    assert list(blocks_of(counted).values()) == [(1, 0)]


def test_a_window_across_zero_has_its_numbers_in_order():
    tiny = float(np.nextafter(np.float32(0), np.float32(1)))
    counted = Tally(-3 * tiny, 2 * tiny)
    g = np.asarray([-3, -2, -1, 0, 1, 2, 3, -4], dtype=np.float32) * np.float32(tiny)
    g[3] = -0.0
    elsewhere = counted.add(np.asarray([1, 0, 0, 1, 0, 1, 1, 1], dtype=bool), g)
    assert elsewhere.tolist() == [6, 7]
    assert list(blocks_of(counted)) == [k * tiny for k in (2, 1, 0, -1, -2, -3)]
    assert [w for _, w in blocks_of(counted).values()] == [1, 0, 1, 0, 0, 1]


def test_counts_add_up_over_calls_and_stretches(monkeypatch):
    monkeypatch.setattr(tally, "SECTION", 64)
    rng = np.random.default_rng(0)
    g = (1 - rng.integers(0, 5000, 20_000) * 2.0**-24).astype(np.float32)
    loss = rng.random(len(g)) < 0.4
    once, twice = Tally(g.min(), 1.0), Tally(g.min(), 1.0)
    once.add(loss, g)
    twice.add(loss[:7000], g[:7000])
    twice.add(loss[7000:], g[7000:])
    assert len(once.totals()) > 50
    assert blocks_of(once) == blocks_of(twice) == by_hand(loss, g, 0, 1)


@pytest.mark.parametrize("low", [0.99999, -1.00001, -3e-43, 1e30])
def test_values_are_counted_as_nextafter_walks(low):
    high, steps = np.float32(low), 0
    while steps < 500:
        high, steps = np.nextafter(high, np.float32(np.inf)), steps + 1
    walked = 500 + int(low < 0 <= high)  # on the way through zero the bits of -0 have a place, never taken
    assert int(values_between(np.asarray(low), high)) == walked
    assert bytes_between(low, float(high)) == 8 * (walked + 1)


def test_half_a_word_holds_as_many_samples_as_promised():
    counted = Tally(1.0, 1.0)
    counted._words[0] = np.uint64(tally.MAX_SAMPLES - 1) + (np.uint64(tally.MAX_SAMPLES - 1) << np.uint64(32))
    counted.add(np.asarray([True]), np.asarray([1.0], dtype=np.float32))
    assert blocks_of(counted) == {1.0: (2**32 - 1, 2**32 - 1)}
