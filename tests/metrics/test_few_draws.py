"""Limits that rest on few errors, or on few right samples, against laws written down here again."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import abstain
import abstain.engines.files
from abstain.inference import interval
from abstain.metrics import few_draws as few

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "interval_coverage.py"
_spec = importlib.util.spec_from_file_location("coverage_of_few", SCRIPT)
sim = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = sim
_spec.loader.exec_module(sim)

TWO_KINDS = ("auroc", "prediction_rejection_ratio", "aupr_error", "aupr_success", "fpr_at_tpr", "naurc")


def sample(errors, n=400, seed=0):
    """So many errors, the unsure more often."""
    rng = np.random.default_rng([seed, errors])
    g = rng.random(n)
    l = np.zeros(n)
    l[rng.choice(n, errors, replace=False, p=(1.1 - g) / np.sum(1.1 - g))] = 1
    return l, g


def placements(l, g):
    """Share of right samples above each error, and of errors below each right sample, over all pairs."""
    above = (g[l == 0][None, :] > g[l == 1][:, None]) + 0.5 * (g[l == 0][None, :] == g[l == 1][:, None])
    return above.mean(axis=1), above.mean(axis=0)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("errors", [1, 2, 3, 5, 8])
def test_auroc_is_a_mean_of_few_placements(errors, flip, tied):
    """Each kind's variance is averaged with two draws of the largest one; limits are exact ones of a share."""
    l, g = sample(errors)
    g = np.round(g, 1) if tied else g
    l = 1 - l if flip else l
    mean = float(np.mean(placements(l, g)[0]))
    variance = 0.0
    for values in placements(l, g):
        k = len(values)
        own = (np.sum((values - mean) ** 2) + 2 * mean * (1 - mean)) / (k + 1) if k < 16 else np.var(values)
        variance += own / k
    draws = mean * (1 - mean) / variance
    low = stats.beta.ppf(0.025, mean * draws, (1 - mean) * draws + 1)
    high = stats.beta.ppf(0.975, mean * draws + 1, (1 - mean) * draws)
    found = interval("auroc", l, g)
    assert [found.estimate, found.low, found.high] == pytest.approx([mean, low, high], rel=1e-6)
    ratio = interval("prediction_rejection_ratio", l, g)
    assert [ratio.low, ratio.high] == pytest.approx([2 * low - 1, 2 * high - 1], rel=1e-6)


def test_from_sixteen_on_nothing_is_added():
    l, g = sample(17)
    found = interval("auroc", l, g)
    logits = [math.log(x / (1 - x)) for x in (found.low, found.estimate, found.high)]
    assert logits[2] - logits[1] == pytest.approx(logits[1] - logits[0], rel=1e-9)
    assert found.note == ""
    assert (
        few.share_for_few(16)
        == 0
        < few.share_for_few(15)
        < few.share_for_few(9)
        < few.share_for_few(8)
        == few.share_for_few(1)
        == 1
    )


@pytest.mark.parametrize("metric", TWO_KINDS)
def test_a_number_says_on_how_few_it_rests(metric):
    for flip, kind in ((False, "errors"), (True, "right samples")):
        l, g = sample(3)
        found = interval(metric, 1 - l if flip else l, g)
        assert f"effective {kind} (3 in all)" in found.note
        assert found.note.startswith("rests on about ")
        table = abstain.evaluate(loss=1 - l if flip else l, confidence=g, metrics=[metric])
        assert table.entries[0].note == found.note
        assert found.note in table.notes[0]
    assert interval(metric, *sample(100)).note == ""


def test_clusters_of_errors_are_few_draws():
    """Twelve errors that share three clusters say no more than three."""
    l, g = sample(3)
    four = [np.repeat(x, 4) for x in (l, g + 0.0)]
    found = interval("auroc", *four, clusters=np.repeat(np.arange(len(l)), 4))
    alone = interval("auroc", l, g)
    assert "about 3.0 effective errors" in found.note
    assert few.note_on_draws(10.97, 12) == "rests on about 10.9 effective errors (12 in all)"
    assert [found.low, found.high] == pytest.approx([alone.low, alone.high], abs=0.01)
    assert interval("auroc", *four).high - interval("auroc", *four).low < 0.8 * (found.high - found.low)


@pytest.mark.parametrize(("errors", "n"), [(1, 500), (3, 200), (499, 500)])
def test_the_risk_of_few_errors_has_the_limits_of_a_proportion(errors, n):
    """One error of 500 had an upper limit of 0.127."""
    l = np.zeros(n)
    l[:errors] = 1
    found = interval("risk", l, np.arange(float(n)))
    exact = stats.binomtest(errors, n).proportion_ci(0.95, "exact")
    jeffreys = stats.beta.ppf([0.025, 0.975], errors + 0.5, n - errors + 0.5)
    assert exact.low < found.low < found.estimate < found.high < exact.high
    assert [found.low, found.high] == pytest.approx(jeffreys, rel=1e-9)


def test_the_cut_of_few_right_samples_is_bracketed_by_order_statistics():
    """With one right sample its place says next to nothing of the 5% quantile: 0.545 had [0.501, 0.588]."""
    rng = np.random.default_rng(1)
    l = np.ones(500)
    l[0] = 0
    found = interval("fpr_at_tpr", l, rng.random(500))
    assert found.low < 0.01
    assert found.high == 1
    l[:200] = 0  # enough right samples beyond the cut: the limits of before
    many = interval("fpr_at_tpr", l, rng.random(500))
    assert many.high - many.low < 0.2


@pytest.mark.parametrize("few_right", [False, True])
def test_few_of_a_kind_small(few_right):
    """AUROC covered 10 to 26% with one error; with one right sample FPR at TPR about 9% and NAURC 33% (anywhere, n = 300)."""
    for shape, expected in (("anywhere", 1), ("some on top", 3), ("square", 8)):
        profile = sim.rare(expected, 200, shape, few_right)
        found = sim.every_metric(profile, 200, None, 150, 1, only=TWO_KINDS)
        for (metric, _), x in found.items():
            assert x.covered >= 0.91 - 3 * math.sqrt(0.91 * 0.09 / 150), (metric, shape, expected, x)


@pytest.mark.slow
@pytest.mark.parametrize("few_right", [False, True])
@pytest.mark.parametrize("n", [100, 500, 2000])
@pytest.mark.parametrize("shape", sim.RARE_SHAPES)
def test_few_of_a_kind(shape, n, few_right):
    for expected in sim.EXPECTED:
        found = sim.every_metric(sim.rare(expected, n, shape, few_right), n, None, 2000, 2026, only=TWO_KINDS)
        for (metric, _), x in found.items():
            assert x.covered >= 0.91, (metric, expected, x)


# rare expensive errors ------------------------------------------------------------------------------------


def costs(rng, n=300):
    """One sample in a hundred costs 20 wherever it stands; cheap errors cost 1 and are unsure."""
    b, luck = rng.random((2, n))
    return np.where(luck < 0.01, 20.0, (luck < 0.01 + 0.2 * (1 - b)) * 1.0), b


def test_areas_of_rare_expensive_errors_hold_and_say_on_how_few_they_rest():
    """AURC covered 86%, NAURC 81.5%, without a note. One sample in twenty holds no expensive error: nothing shows it."""
    rng = np.random.default_rng(1)
    truth = {"aurc": 20 * 0.01 + 0.2 / 4, "augrc": 20 * 0.01 / 2 + 0.2 / 6}
    hits = dict.fromkeys(truth, 0)
    for _ in range(300):
        l, g = costs(rng)
        for metric, value in truth.items():
            found = interval(metric, l, g)
            hits[metric] += found.low <= value <= found.high
            weight = np.argsort(np.argsort(g)) + 1.0  # AUGRC weighs a loss by its rank
            worth = np.sum(weight * l) ** 2 / np.sum((weight * l) ** 2)
            if metric == "augrc":
                assert bool(found.note) == (worth < 11)
                assert (
                    not found.note or f"about {np.floor(10 * worth) / 10:.1f} effective errors" in found.note
                )
    assert all(x / 300 >= 0.90 - 3 * math.sqrt(0.1 * 0.9 / 300) for x in hits.values()), hits


def test_missed_errors_are_as_large_as_the_bound_says():
    rng = np.random.default_rng(2)
    l, g = costs(rng)
    assert 15 < l.max() == 20
    default, larger = interval("aurc", l, g), interval("aurc", l, g, loss_bound=100)
    assert default.high < larger.high
    assert default.low == larger.low


def test_files_widen_as_memory_does(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    l, g = costs(np.random.default_rng(3))
    pq.write_table(pa.table({"loss": l, "confidence": g}), tmp_path / "x.parquet")
    metrics = ["aurc", "augrc", "risk"]
    truth = abstain.evaluate(loss=l, confidence=g, metrics=metrics)
    found = abstain.engines.files.evaluate(tmp_path, metrics=metrics)
    for one, other in zip(truth.entries, found.entries):
        assert [other.low, other.high] == pytest.approx([one.low, one.high], rel=1e-9)
        assert other.note == one.note
    assert truth.entries[0].note
