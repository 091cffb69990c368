from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.confidence.candidates import LearningData, aurc_of, list_candidates, single_scores
from abstain.confidence.combinations import choose_combination
from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import read_inputs


def data_of(**inputs):
    table = read_inputs("test", **inputs)
    n = table.row_count
    target = (np.random.default_rng(0).random(n) < 0.7).astype(float)
    return LearningData(table, 1 - target, target, np.ones(n), None)


def names_of(data):
    profile = InputProfile.of(data.table, data.weight)
    combination = choose_combination(data.table, profile) if data.table.signals else None
    candidates = list_candidates(data.table, combination)
    return [candidate.name for candidate in candidates if candidate.by_default]


def test_inputs_decide_which_candidates_there_are():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(60, 3))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    signals = {"a": rng.random(60), "b": rng.random(60)}
    assert names_of(data_of(signals={"a": signals["a"]})) == ["baseline", "signals"]
    assert names_of(data_of(signals=signals)) == ["baseline", "combined", "signals"]
    assert names_of(data_of(logits=logits)) == ["baseline", "shrunk", "runner-up"]
    assert names_of(data_of(probs=probs)) == ["baseline", "shrunk", "runner-up"]
    many_classes = data_of(logits=rng.normal(size=(60, 101)))
    assert names_of(many_classes) == ["baseline", "shrunk", "class offsets"]
    assert names_of(data_of(logits=logits[:, :2])) == ["baseline", "shrunk", "class offsets"]
    both = data_of(logits=logits, signals={"a": signals["a"]})
    assert names_of(both) == ["baseline", "shrunk", "runner-up", "signals"]


def test_some_candidates_are_there_for_those_who_ask():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(60, 3))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    all_names = [candidate.name for candidate in list_candidates(data_of(logits=logits).table)]
    expected = ["baseline", "temperature", "p-norm", "logits", "class offsets", "shrunk", "runner-up"]
    assert all_names == expected
    expected.remove("p-norm")  # which needs logits
    assert [candidate.name for candidate in list_candidates(data_of(probs=probs).table)] == expected


def test_the_baseline_is_the_best_single_score():
    rng = np.random.default_rng(1)
    signals = {"a": rng.random(60), "b": rng.random(60), "constant": np.ones(60)}
    data = data_of(signals=signals)
    assert [score.label for score in single_scores(data.table)] == ["a", "b"]
    baseline = list_candidates(data.table)[0].fit(data, InputProfile.of(data.table, data.weight))
    areas = {name: abstain.aurc(data.loss, signals[name]) for name in ("a", "b")}
    assert baseline.single.label == min(areas, key=areas.get)


def test_areas_are_those_of_the_library():
    rng = np.random.default_rng(2)
    loss, confidence, weight = rng.random((3, 40))
    assert aurc_of(loss, confidence, np.ones(40)) == pytest.approx(abstain.aurc(loss, confidence))
    expected = abstain.aurc(loss, confidence, sample_weight=weight)
    assert aurc_of(loss, confidence, weight) == pytest.approx(expected)


def test_with_enough_rows_the_most_flexible_candidate_has_trees_and_the_combination_is_not_tried():
    rng = np.random.default_rng(3)
    many = {"a": rng.random(500), "b": rng.random(500)}
    assert names_of(data_of(signals=many)) == ["baseline", "signals"]
    for count, has_trees in ((499, False), (500, True)):
        for inputs in ({"signals": many}, {"logits": rng.normal(size=(500, 3))}):
            taken = {
                key: {name: column[:count] for name, column in value.items()}
                if isinstance(value, dict)
                else value[:count]
                for key, value in inputs.items()
            }
            data = data_of(**taken)
            model = list_candidates(data.table)[-1].fit(data, InputProfile.of(data.table, data.weight))
            assert (model.trees is not None) == has_trees
    alone = data_of(signals={"a": many["a"]})
    assert (
        list_candidates(alone.table)[-1].fit(alone, InputProfile.of(alone.table, alone.weight)).trees is None
    )
