"""The note on accuracy and on the ranking alone: what it says, and that its test is that of a comparison by AUROC."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from abstain.evaluation import compare
from abstain.evaluation.comparison import MOST_CONTESTANTS_COMPARED_AGAIN


def models_of(error_rates: dict[str, float], auroc_noise: dict[str, float], n: int = 3000):
    """Contestants with these error rates, whose confidence finds errors the better the smaller the noise."""
    rng = np.random.default_rng(3)
    models = {}
    for name, rate in error_rates.items():
        loss = (rng.random(n) < rate).astype(float)
        models[name] = (loss, -loss + auroc_noise[name] * rng.normal(size=n))
    return models


def test_a_comparison_by_aurc_tells_accuracy_and_the_ranking_alone():
    models = models_of({"a": 0.1, "b": 0.3}, {"a": 1.0, "b": 0.5})
    result = compare(models)
    assert result.names == ("a", "b")  # more accurate
    by_auroc = compare(models, metric="auroc")
    assert by_auroc.names == ("b", "a")  # a better ranking
    note = result.notes[0]
    rates = " and ".join(f"{100 * np.mean(models[name][0]):.1f}" for name in "ab")
    areas = " and ".join(f"{by_auroc[name].estimate:.3f}" for name in "ab")
    p_value = by_auroc.pairs[0].p_adjusted
    assert note == (
        f"AURC includes accuracy ({rates}% wrong). By the ranking alone (AUROC {areas}) b is better "
        f"(p = {p_value:.2g})."
    )
    assert note in repr(result)
    assert note in result.to_json()


@pytest.mark.parametrize(
    "options", [{}, {"anytime": True}, {"paired": False}, {"clusters": np.arange(3000) // 3}]
)
def test_the_ranking_alone_is_tested_as_by_auroc(options):
    models = models_of({"a": 0.1, "b": 0.3, "c": 0.2}, {"a": 1.0, "b": 0.5, "c": 0.9})
    if options.get("paired") is False:
        models["a"] = tuple(column[:2000] for column in models["a"])
    result = compare(models, metric="augrc", **options)
    by_auroc = compare(models, metric="auroc", **options)
    different_count = sum(pair.different for pair in by_auroc.pairs)
    assert different_count > 0
    assert (
        f"{different_count} of 3 pairs differ significantly; {by_auroc.names[0]} is the best."
        in result.notes[0]
    )


def test_where_no_pair_differs_by_ranking_alone_that_is_said():
    models = models_of({"a": 0.1, "b": 0.3, "c": 0.2}, dict.fromkeys("abc", 0.7))
    assert "no two differ significantly" in compare(models).notes[0]


def test_pairs_without_a_verdict_are_counted_beside_those_that_were_tested():
    models = models_of({"few": 0.001, "b": 0.3, "c": 0.2}, dict.fromkeys(("few", "b", "c"), 0.7))
    by_auroc = compare(models, metric="auroc")
    notes = [pair.note for pair in by_auroc.pairs if pair.note]
    assert len(notes) == 2  # those with "few"
    assert not any(pair.different for pair in by_auroc.pairs)
    assert (
        f"no two differ significantly; on 2 of 3 pairs there is no verdict: it {notes[0]}."
        in compare(models).notes[0]
    )


def test_without_a_verdict_on_any_pair_that_is_said():
    models = models_of(dict.fromkeys("abc", 0.002), dict.fromkeys("abc", 0.7))
    by_auroc = compare(models, metric="auroc")
    assert all(pair.note for pair in by_auroc.pairs)
    assert f"there is no verdict: it {by_auroc.pairs[0].note}." in compare(models).notes[0]


def test_of_many_contestants_the_smallest_and_largest_auroc_are_told_without_a_second_comparison():
    names = [f"m{k}" for k in range(MOST_CONTESTANTS_COMPARED_AGAIN + 1)]
    rates = dict(zip(names, np.linspace(0.1, 0.3, len(names))))
    models = models_of(rates, dict(zip(names, np.linspace(1.5, 0.5, len(names)))))
    errors = {name: 100 * np.mean(loss) for name, (loss, _) in models.items()}
    areas = [roc_auc_score(loss, -confidence) for loss, confidence in models.values()]
    assert compare(models).notes[0] == (
        f"AURC includes accuracy ({min(errors.values()):.1f} to {max(errors.values()):.1f}% wrong). By the ranking "
        f"alone (AUROC {min(areas):.3f} to {max(areas):.3f}) their order may differ: compare by AUROC to see."
    )
    del models[names[0]]
    assert "pairs differ significantly" in compare(models).notes[0]


def test_losses_that_are_not_right_or_wrong_have_means_and_no_auroc():
    rng = np.random.default_rng(0)
    models = {name: (scale * rng.random(500), rng.random(500)) for name, scale in (("a", 1.0), ("b", 2.0))}
    (note,) = compare(models).notes
    assert note.startswith("AURC includes accuracy (mean loss 0.")
    assert "AUROC" not in note


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("count", [2, MOST_CONTESTANTS_COMPARED_AGAIN + 1])
def test_what_a_rule_ranks_last_does_not_count_in_the_ranking_alone(count, weighted):
    names = [f"m{k}" for k in range(count)]
    models = models_of(dict(zip(names, np.linspace(0.1, 0.3, count))), dict.fromkeys(names, 0.9))
    refused = {names[0]: np.arange(3000) % 4 == 0}  # these are perfectly ranked errors of the first model
    weight = np.arange(3000) % 3 if weighted else None
    entered = dict(models)
    loss, confidence = models[names[0]]
    entered[names[0]] = (
        np.where(refused[names[0]], 1.0, loss),
        np.where(refused[names[0]], confidence.min() - 1, confidence),
    )
    has_confidence = {name: ~refused.get(name, np.zeros(3000, bool)) for name in names}
    note = compare(entered, has_confidence=has_confidence, sample_weight=weight).notes[0]
    areas = {}
    for name, (own_loss, own_confidence) in entered.items():
        kept = has_confidence[name]
        areas[name] = roc_auc_score(
            own_loss[kept], -own_confidence[kept], sample_weight=None if weight is None else weight[kept]
        )
    assert "(AUROC of the answers that have a confidence: " in note
    if count > 2:
        assert f"{min(areas.values()):.3f} to {max(areas.values()):.3f}" in note
        return
    abstained = {name: ~mask for name, mask in has_confidence.items()}
    by_rule_abstained = compare(entered, abstained=abstained, metric="auroc", sample_weight=weight)
    assert all(f"{area:.3f}" in note for area in areas.values())
    assert f"(p = {by_rule_abstained.pairs[0].p_adjusted:.2g})" in note


@pytest.mark.parametrize("metric", ["aurc:loo", "aurc@0.8-1", "augrc"])
def test_areas_of_other_estimators_and_of_high_coverages_have_the_note_too(metric):
    models = models_of({"a": 0.1, "b": 0.3}, {"a": 1.0, "b": 0.5})
    result = compare(models, metric=metric)
    assert result.notes[0].startswith(f"{result.label} includes accuracy (")


@pytest.mark.parametrize("metric", ["auroc", "naurc", "risk", "prediction_rejection_ratio"])
def test_metrics_of_one_thing_alone_have_no_such_note(metric):
    models = models_of({"a": 0.1, "b": 0.3}, {"a": 1.0, "b": 0.5})
    assert compare(models, metric=metric).notes == ()


def test_scores_of_one_model_differ_by_ranking_alone_without_a_note():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 200)
    logits = rng.normal(size=(200, 4)) + 2 * np.eye(4)[labels]
    assert not any("includes accuracy" in note for note in compare(logits, labels, scores="all").notes)


def test_a_contestant_without_errors_has_no_auroc():
    loss = np.repeat([0.0, 1.0], 50)
    confidence = np.arange(100.0)
    (note,) = compare({"a": (0 * loss, confidence), "b": (loss, -confidence)}).notes
    assert note == "AURC includes accuracy (0.0 and 50.0% wrong)."
