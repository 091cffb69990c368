"""The note on curves that cross: whom it names, by which test, and when it is silent."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.evaluation import compare
from abstain.evaluation.comparison import MOST_CONTESTANTS_COMPARED_AGAIN
from abstain.evaluation.crossing_note import LOW_COVERAGES


def crossing_models(n: int = 4000):
    """ "accurate" makes fewer errors, but some of them with the highest confidence; "careful" makes none there."""
    rng = np.random.default_rng(0)
    confidence = rng.random(n)
    careful = (rng.random(n) < 0.95 * (1 - confidence) ** 1.5).astype(float)
    accurate = (rng.random(n) < 0.1).astype(float)
    return {"accurate": (accurate, confidence), "careful": (careful, confidence + 1e-9 * rng.random(n))}


def crossing_notes(comparison):
    return [note for note in comparison.notes if note.startswith("Not at every coverage")]


@pytest.mark.parametrize("paired", [True, False])
def test_it_names_the_model_that_is_better_at_low_coverage(paired):
    models = crossing_models()
    comparison = compare(models, paired=paired)
    assert comparison.names == ("accurate", "careful")
    (note,) = crossing_notes(comparison)
    low_areas = {name: abstain.aurc(*models[name], coverage=(0, 0.5)) for name in models}
    difference_of = abstain.inference.paired_difference if paired else abstain.inference.unpaired_difference
    at_low = difference_of(*models["careful"], *models["accurate"], metric="aurc@0-0.5")
    assert at_low.difference < 0
    assert note == (
        f"Not at every coverage: if at most 50% are answered, careful is better than accurate (AURC 0-0.5 "
        f"{low_areas['careful']:.4g} against {low_areas['accurate']:.4g}, p = {at_low.p_value:.2g})."
    )
    assert note in repr(comparison)


def test_other_metrics_many_contestants_and_anytime_have_no_such_note():
    models = crossing_models()
    for options in ({"metric": "auroc"}, {"metric": "aurc@0-0.25"}, {"anytime": True}):
        assert crossing_notes(compare(models, **options)) == []
    copy_count = MOST_CONTESTANTS_COMPARED_AGAIN // len(models) + 1
    many = {f"{name} {k}": model for name, model in models.items() for k in range(copy_count)}
    assert crossing_notes(compare(many)) == []


def test_an_area_at_low_coverage_is_not_explained_by_the_ranking_at_all_coverages():
    assert not any(
        "By the ranking alone" in note for note in compare(crossing_models(), metric="aurc@0-0.5").notes
    )


def test_curves_that_do_not_cross_have_no_note():
    rng = np.random.default_rng(1)
    assert len(LOW_COVERAGES) == 3
    for _ in range(20):
        loss = (rng.random(1000) < 0.2).astype(float)
        models = {
            name: (loss, noise * rng.normal(size=1000) - loss)
            for name, noise in (("good", 0.6), ("bad", 1.2))
        }
        comparison = compare(models)
        assert comparison.pairs[0].different
        assert crossing_notes(comparison) == []
