"""Histograms of confidences: overlapping bins, rounding, both signs."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.engines import Sketch
from abstain.engines.histogram import Histogram, as_bins, merge_histograms


@pytest.mark.parametrize("seed", range(40))
def test_overlapping_histogram_bound_every_arrangement(seed):
    """Random bins that overlap at will, filled with random samples, against the definition."""
    rng = np.random.default_rng(seed)
    losses, places, lows, highs, sums = [], [], [], [], []
    for _ in range(int(rng.integers(2, 8))):
        a, b = np.sort(rng.integers(0, 12, 2)).astype(float)
        count = int(rng.integers(1, 6))
        inside = rng.integers(a, b + 1, count).astype(float)
        l = rng.choice([0.0, 1.0] if seed % 2 else [0.0, 0.4, 1.5], count)
        losses.append(l), places.append(inside)
        lows.append(inside.min()), highs.append(inside.max()), sums.append([count, l.sum()])
    order = np.lexsort((highs, lows))
    items = Histogram(np.array(lows)[order], np.array(highs)[order], np.array(sums, float)[order].T)
    l, g = np.concatenate(losses), np.concatenate(places)
    most = max(l.max(), 1.0)
    from abstain.core import confidence_bins

    for whole in (True, False):
        bins = as_bins(items, most, whole)
        for area, metric in ((confidence_bins.aurc, abstain.aurc), (confidence_bins.augrc, abstain.augrc)):
            found = area(bins, most)
            truth = metric(l, g)
            assert found.low - 1e-12 <= truth <= found.high + 1e-12
    fewer = merge_histograms([items], 2)
    assert len(fewer) <= 2
    found = confidence_bins.aurc(as_bins(fewer, most, True), most)
    assert found.low - 1e-12 <= abstain.aurc(l, g) <= found.high + 1e-12


@pytest.mark.parametrize(("low", "high"), [(-0.3, 1.0), (-1.0, 1e-3), (-3.0, 3.0), (-2.0, -1.0)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_confidences_of_both_signs(low, high, kind):
    rng = np.random.default_rng(0)
    g = rng.uniform(low, high, 50_000).astype(kind)
    l = rng.random(50_000) < 0.1
    sketch = Sketch(size=8192)
    sketch.update(l, g)
    found, truth = sketch.aurc(), abstain.aurc(l, g)
    assert found.low <= truth <= found.high
    assert found.gap < 0.1


def test_rounding_of_weights_proves_no_loss():
    """Bounds as sums of weights leave them where the truth is 0: what is left over is no proof."""
    from abstain.core.confidence_bins import Bracket
    from abstain.engines.sketch import certified

    assert certified(Bracket(np.asarray(1e-3), np.asarray(3e-17), np.asarray(2e-3))).low == 0
    assert certified(Bracket(np.asarray(1e-3), np.asarray(9e-4), np.asarray(2e-3))).low == 9e-4
