"""evaluate reads the logits once and sorts every score once; each cell is the interval of its own samples."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import abstain
from abstain.core import simplex, sorting
from abstain.evaluation import evaluate
from abstain.metrics import METRICS, by_name

ALL = tuple(METRICS)


def model(n=300, k=5, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), labels] += rng.exponential(2.0, n)
    return logits, labels


def counted(monkeypatch, home, name):
    """Calls of a function, as a list that grows."""
    calls, own = [], getattr(home, name)

    def count(*given, **more):
        calls.append(len(given[0]) if isinstance(given[0], np.ndarray) else None)
        return own(*given, **more)

    monkeypatch.setattr(home, name, count)
    return calls


def test_every_score_is_sorted_once_for_all_losses_and_metrics(monkeypatch):
    logits, labels = model()
    sorts = counted(monkeypatch, sorting, "sort_in_place")
    evaluate(logits, labels, metrics="all", losses=["zero_one", "cross_entropy", "brier"])
    assert len(sorts) == 4 + 2  # and each loss other than 0/1 once, for the best order there is
    sorts.clear()
    evaluate(logits, labels, losses="zero_one", groups=labels)
    assert len(sorts) == 4  # a group stands in the order of all


def test_the_logits_are_read_once(monkeypatch):
    logits, labels = model()
    passes = counted(monkeypatch, simplex, "numbers_of_rows")
    evaluate(logits, labels)
    assert len(passes) == 1


WAYS = ("plain", "weights", "fractions", "abstained", "both", "clusters", "everything")


@pytest.mark.parametrize("way", WAYS)
def test_every_cell_is_the_interval_of_its_samples(way):
    rng = np.random.default_rng(11)
    n = 240
    confidence = {"fine": rng.random(n), "coarse": rng.integers(0, 12, n) / 12.0}
    loss = {"wrong": rng.random(n) < 0.5 * (1 - confidence["fine"]), "cost": rng.exponential(1, n).round(1)}
    groups = rng.integers(0, 2, n)
    along = {}
    if way in ("weights", "both"):
        along["sample_weight"] = rng.integers(0, 4, n)
    if way in ("fractions", "everything"):
        along["sample_weight"] = rng.exponential(1, n)
    if way in ("abstained", "both", "everything"):
        along["abstained"] = rng.random(n) < 0.15
    if way in ("clusters", "everything"):
        along["clusters"] = np.arange(n) // 6
    metrics = [m for m in ALL if m != "fpr_at_tpr"] + ["fpr_at_tpr@0.9", "aurc:sele", "risk_at_coverage@0.5"]
    table = evaluate(loss=loss, confidence=confidence, metrics=metrics, groups=groups, **along)
    assert len(table.entries) == 3 * 2 * 2 * len(metrics)
    checked = 0
    for e in table.entries:
        here = slice(None) if e.group is None else groups == e.group
        own = {k: v[here] for k, v in along.items()}
        metric = by_name(e.metric)
        given = loss[e.loss][here], confidence[e.score][here]
        if e.estimate is None:
            with pytest.raises((abstain.errors.InputError, abstain.errors.InfeasibleError)):
                abstain.inference.interval(metric, *given, **own)
            continue
        found = abstain.inference.interval(metric, *given, **own)
        assert e.estimate == pytest.approx(found.estimate, rel=1e-9, abs=1e-12)
        if e.low is None:
            assert e.reason
            continue
        assert (e.low, e.high) == pytest.approx((found.low, found.high), rel=1e-9, abs=1e-12), e
        assert e.standard_error == pytest.approx(found.standard_error, rel=1e-8, abs=1e-12)
        checked += 1
    assert checked > 0.7 * len(table.entries)


def test_memory_grows_with_the_scores_not_with_the_cells():
    rng = np.random.default_rng(0)
    n = 100_000
    loss = {"wrong": rng.random(n) < 0.2, "cost": rng.exponential(1, n)}
    peaks = []
    for count in (2, 10):
        confidence = {str(k): rng.random(n) for k in range(count)}
        tracemalloc.start()
        evaluate(loss=loss, confidence=confidence, progress=False)
        peaks.append(tracemalloc.get_traced_memory()[1] / (8 * n))  # in columns of float64
        tracemalloc.stop()
    assert peaks[0] < 45
    assert peaks[1] - peaks[0] < 8 * 1.5  # eight scores more, sixteen cells
