"""Bootstrap replicates against samples written out."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.core.bootstrap import Resampler
from abstain.inference.resampling import make_resampler, metric_of_draw
from abstain.inference.standard_errors import gather
from tests.inference.test_resampling import sample

METRICS = {
    "aurc": {},
    "augrc": {},
    "risk": {},
    "oracle_aurc": {},
    "e_aurc": {},
    "naurc": {},
    "auroc": {},
    "prediction_rejection_ratio": {},
    "aupr_error": {},
    "aupr_success": {},
    "fpr_at_tpr": {"tpr": 0.8},
    "risk_at_coverage": {"coverage": 0.6},
    "coverage_at_risk": {"risk": 0.3},
}


def written_out(samples, counts):
    """The resample as rows of samples."""
    order = np.argsort(-samples.answered_confidence, kind="stable")
    take = np.repeat(order, counts)
    return samples.answered_loss[take], samples.answered_confidence[take]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("levels", [None, 12])
@pytest.mark.parametrize("estimator", ["harmonic", "loo"])
def test_a_replicate_is_the_metric_of_the_resample(metric, levels, estimator):
    options = dict(METRICS[metric])
    if metric in ("aurc", "oracle_aurc", "e_aurc", "naurc"):
        options["estimator"] = estimator
    l, g = sample(60, 1, levels)
    samples = gather("interval", metric, l, g, options=options)
    source = make_resampler(samples)
    counts = source.counts(np.random.default_rng(0), 20)
    assert source.pair_counts is None
    assert (counts.sum(axis=1) == 60).all()
    ours = metric_of_draw(samples)(source.tabulate(counts))
    theirs = [abstain.metrics.by_name(metric)(*written_out(samples, c), **options) for c in counts]
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("metric", METRICS)
def test_drawing_cells_gives_the_metric_of_the_resample(metric):
    l, g = sample(400, 2, levels=5)
    samples = gather("interval", metric, l, g, options=METRICS[metric])
    source = make_resampler(samples)
    assert source.pair_counts is not None
    assert len(source.pair_counts) <= 10
    assert source.pair_counts.sum() == 400
    counts = source.counts(np.random.default_rng(0), 10)
    ours = metric_of_draw(samples)(source.tabulate(counts))
    theirs = [
        abstain.metrics.by_name(metric)(
            np.repeat(source.loss, c), np.repeat(source.confidence, c), **METRICS[metric]
        )
        for c in counts
    ]
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_clusters_are_drawn_whole_and_strata_keep_their_size():
    l, g = sample(60, 6)
    clusters, strata = np.arange(60) // 5, np.arange(60) // 20
    order = np.argsort(-g, kind="stable")
    rng = np.random.default_rng(0)
    whole = Resampler(l, g, clusters=clusters).counts(rng, 30)
    for c in range(12):
        members = whole[:, clusters[order] == c]
        assert (members == members[:, :1]).all()
    assert (whole.sum(axis=1) == 60).all()
    for kept in (Resampler(l, g, strata=strata), Resampler(l, g, clusters=clusters, strata=strata)):
        counts = kept.counts(rng, 30)
        for s in range(3):
            assert (counts[:, strata[order] == s].sum(axis=1) == 20).all()


def test_every_sample_is_drawn_equally_often():
    l, g = sample(30, 7)
    counts = Resampler(l, g).counts(np.random.default_rng(1), 20_000)
    # each count is Binomial(30, 1/30): mean 1, variance 29/30
    assert np.abs(counts.mean(axis=0) - 1).max() < 4.5 * np.sqrt(29 / 30 / 20_000)
    assert counts.var(axis=0) == pytest.approx(29 / 30, rel=0.08)
