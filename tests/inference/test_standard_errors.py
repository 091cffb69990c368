"""Standard errors: clusters, abstentions, and metrics without an influence."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.inference import influence, standard_error
from tests.metrics.test_sample_influence import blocks_of, derivative, draw


def test_abstained_samples_keep_the_error_of_the_rest_except_for_augrc():
    rng = np.random.default_rng(1)
    n = 300
    g, l, out = rng.random(n), rng.random(n) < 0.3, rng.random(n) < 0.2
    for metric in ("aurc", "naurc", "auroc", "risk"):
        alone = standard_error(metric, l[~out], g[~out])
        assert standard_error(metric, l, g, abstained=out) == pytest.approx(alone, rel=1e-9)
        assert influence(metric, l, g, abstained=out).values[out].tolist() == [0.0] * int(out.sum())
    # AUGRC is a mean over all of what a threshold accepts: the derivative of its definition, abstentions at the bottom
    found = influence("augrc", l, g, abstained=out)

    def augrc(w):
        kept = w * ~out
        return sum(m * S for m, _, _, S in blocks_of(kept[~out], l[~out] * 1.0, g[~out])) / (
            kept.sum() * w.sum()
        )

    assert found.estimate == pytest.approx(abstain.augrc(l, g, abstained=out), rel=1e-12)
    np.testing.assert_allclose(found.values, derivative(augrc, np.ones(n)), rtol=1e-5, atol=1e-7)


def test_standard_error_adds_up_clusters_first():
    w, l, g = draw(6)
    clusters = np.arange(len(l)) // 4
    values = influence("aurc", l, g, sample_weight=w).values
    sums = [sum((w * values)[clusters == c]) for c in range(6)]
    by_hand = np.sqrt(np.sum(np.square(sums)) * 6 / 5) / w.sum()
    assert standard_error("aurc", l, g, sample_weight=w, clusters=clusters) == pytest.approx(
        by_hand, rel=1e-12
    )


def test_singleton_clusters_change_nothing_but_the_small_sample_factor():
    _, l, g = draw(6)
    n = len(l)
    alone = standard_error("aurc", l, g, clusters=np.arange(n))
    assert alone == pytest.approx(standard_error("aurc", l, g) * np.sqrt(n / (n - 1)), rel=1e-10)


@pytest.mark.parametrize("metric", ["risk_at_coverage", "coverage_at_risk", "fpr_at_tpr"])
def test_no_influence_for_quantile_like_metrics(metric):
    option = {"risk_at_coverage": {"coverage": 0.5}, "coverage_at_risk": {"risk": 0.1}}.get(metric, {})
    with pytest.raises(abstain.errors.InputError, match="Use `interval`"):
        standard_error(metric, [0, 1, 0], [3, 2, 1], **option)
