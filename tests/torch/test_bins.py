"""Constant memory: what bins say about samples they have not kept."""

from __future__ import annotations

import itertools

import array_api_compat.numpy as np_xp
import array_api_compat.torch as xp
import numpy as np
import pytest
import torch
from metric_cases import ARGUMENTS, metrics
from test_metrics import draw

import abstain
from abstain.core import confidence_bins
from abstain.core.confidence_bins import BinMap, disjoint_bins
from abstain.errors import InfeasibleError
from abstain.torch import AURC, EAURC, bin_state

NAMES = tuple(metrics())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("thresholds", [150, 4000])
def test_exact_value_lies_within_the_certified_bounds(name, thresholds):
    logits, target = draw(3000)
    exact, binned = metrics()[name], metrics(thresholds=thresholds)[name]
    for a in range(0, 3000, 700):
        binned.update(logits[a : a + 700], target[a : a + 700])
    exact.update(logits, target)
    found, value = binned.compute_bounds(), exact.compute().item()
    assert found.low.item() - 1e-12 <= value <= found.high.item() + 1e-12
    assert found.low.item() <= binned.compute().item() <= found.high.item()


@pytest.mark.parametrize("name", ["aurc", "augrc", "e_aurc", "naurc", "auroc", "risk_at_coverage"])
def test_more_bins_prove_more(name):
    logits, target = draw(3000)
    gaps = []
    for thresholds in (200, 2000, 20000):
        metric = metrics(thresholds=thresholds)[name]
        metric.update(logits, target)
        found = metric.compute_bounds()
        gaps.append((found.high - found.low).item())
    assert gaps[2] < 0.3 * gaps[0]


def test_memory_is_constant_and_update_adds_up():
    logits, target = draw(2000)
    once, often = AURC(thresholds=300), AURC(thresholds=300)
    once.update(logits, target)
    size = often.bin_count.numel()
    for a in range(0, 2000, 100):
        often.update(logits[a : a + 100], target[a : a + 100])
    assert often.bin_count.numel() == size
    assert int(often.bin_count.sum()) == 2000
    for x, y in zip(once._bin_state(), often._bin_state()):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("name", NAMES)
def test_ties_are_exact(name):
    """Verbalised confidences: a few values only, each in a bin of its own, so nothing is lost."""
    rng = np.random.default_rng(1)
    confidence = rng.choice([0.1, 0.5, 0.6, 0.9, 0.95, 1.0], 500)
    wrong = rng.random(500) > confidence
    metric = metrics(thresholds=2000)[name]
    metric.update(
        torch.zeros(500, dtype=torch.long), torch.tensor(wrong).long(), confidence=torch.tensor(confidence)
    )
    found = metric.compute_bounds()
    expected = getattr(abstain, name)(wrong, confidence, **ARGUMENTS.get(name, {}))
    assert found.low.item() == pytest.approx(expected, rel=1e-12)
    assert found.high.item() == pytest.approx(expected, rel=1e-12)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-12)


def test_saturated_confidence_is_still_certified():
    """Rank keys differ where probabilities have rounded to one; the bin of 1.0 is then no tie."""
    rng = np.random.default_rng(2)
    logits = torch.tensor(np.stack([rng.uniform(40, 80, 400), np.zeros(400)], axis=1))
    target = torch.tensor(rng.random(400) < 0.2).long()
    exact, binned = AURC(), AURC(thresholds=500)
    for metric in (exact, binned):
        metric.update(logits, target)
    found = binned.compute_bounds()
    assert found.low < exact.compute() < found.high


def test_losses_without_a_bound_get_no_certificate():
    logits, target = draw(300)
    metric = AURC(loss="cross_entropy", thresholds=3000)
    metric.update(logits, target)
    found = metric.compute_bounds()
    assert found.low is None
    assert found.high is None
    exact = AURC(loss="cross_entropy")
    exact.update(logits, target)
    assert metric.compute().item() == pytest.approx(exact.compute().item(), rel=0.02)
    other = EAURC(loss="brier", thresholds=3000)
    other.update(logits, target)
    with pytest.raises(InfeasibleError, match="thresholds=None"):
        other.compute()


def arrangements(groups):
    """Every order within each group, and every way to tie neighbours inside it: (loss, confidence) pairs."""
    per_group = []
    for loss in groups:
        orders = sorted(set(itertools.permutations(loss)))
        cuts = itertools.product([0, 1], repeat=len(loss) - 1)
        places = [np.concatenate([[0], np.cumsum(cut)]) for cut in cuts]
        per_group.append(list(itertools.product(orders, places)))
    for choice in itertools.product(*per_group):
        loss = np.concatenate([order for order, _ in choice])
        confidence = np.concatenate([-(100.0 * k + place) for k, (_, place) in enumerate(choice)])
        yield loss, confidence


@pytest.mark.parametrize(
    "groups", [[(0, 0, 1), (1, 0)], [(1,), (0, 1, 1), (0, 0)], [(0, 0, 0, 1)], [(1, 1), (0, 1, 0)]]
)
def test_points_are_bounded_over_all_arrangements(groups):
    """By brute force: no order and no ties within the bins gives a value outside; some give the ends of AUROC."""
    table = disjoint_bins(
        np_xp,
        np.asarray([float(len(g)) for g in groups][::-1]),
        np.asarray([float(sum(g)) for g in groups][::-1]),
        np.zeros(len(groups)),
        np.ones(len(groups)),
    )
    cases = list(arrangements(groups))
    for coverage in (0.2, 0.5, 0.8, 1.0):
        found = confidence_bins.risk_at_coverage(table, coverage)
        values = [abstain.risk_at_coverage(l, g, coverage=coverage) for l, g in cases]
        assert found.low - 1e-12 <= min(values)
        assert max(values) <= found.high + 1e-12
    for risk in (0.0, 0.25, 0.4, 0.6, 1.0):
        found = confidence_bins.coverage_at_risk(table, risk)
        values = [abstain.coverage_at_risk(l, g, risk=risk) for l, g in cases]
        assert found.low - 1e-12 <= min(values)
        assert max(values) <= found.high + 1e-12
    errors = sum(map(sum, groups))
    if 0 < errors < sum(map(len, groups)):
        found = confidence_bins.auroc(table)
        values = [abstain.auroc(l, g) for l, g in cases]
        assert min(values) == pytest.approx(found.low, abs=1e-12)
        assert max(values) == pytest.approx(found.high, abs=1e-12)


@pytest.mark.parametrize("domain", ["unit", "real"])
def test_torch_and_numpy_bin_alike(domain):
    """State made here merges with state made anywhere."""
    rng = np.random.default_rng(3)
    edges = np.concatenate([1 + np.arange(c) / c for c in range(1, 200)])  # where an octave may be cut
    close = np.concatenate([edges * (1 + e) for e in (-1e-12, -1e-15, 0, 1e-15, 1e-12)])
    wide = [close * 2.0**k for k in range(-6, 6)]
    g = np.concatenate([rng.random(1000), 1 - np.exp(-rng.random(1000) * 40), *wide])
    binmap = BinMap(2048, domain)
    np.testing.assert_array_equal(binmap.index(np_xp, g), binmap.index(xp, torch.tensor(g)).numpy())


def test_order_preserving_integers_go_there_and_back():
    x = torch.tensor(
        [-torch.inf, -1e300, -2.5, -1e-300, 0.0, 1e-300, 0.5, 1.0, 1e300, torch.inf], dtype=torch.float64
    )
    keys = bin_state.to_ordered_bits(x)
    assert torch.all(keys.diff() > 0)
    assert torch.equal(bin_state.from_ordered_bits(keys), x)


def test_bins_of_nothing_are_empty():
    state = bin_state.empty_state(10)
    bin_state.add(state, BinMap(200, "unit"), torch.zeros(0), torch.zeros(0))
    assert int(state.count.sum()) == 0
