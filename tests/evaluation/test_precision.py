"""Precision, recall and F1 of the accepted: against counts by hand, by group, with clusters, and what is refused."""

import numpy as np
import pytest

from abstain.errors import InputError, ShapeError
from abstain.evaluation import evaluate_answers, precision_recall


def draw(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    score = rng.random(n)
    return rng.random(n) < 0.2 + 0.7 * score, score


def counts(right, score, threshold):
    """Precision, recall, F1 and coverage, counted."""
    accepted = [s >= threshold for s in score]
    hits = sum(1 for taken, hit in zip(accepted, right) if taken and hit)
    precision = hits / sum(accepted)
    recall = hits / sum(right)
    return precision, recall, 2 * precision * recall / (precision + recall), sum(accepted) / len(score)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.9])
def test_the_numbers_are_the_counts(threshold):
    right, score = draw()
    table = precision_recall(right, score, thresholds=[threshold])
    estimates = [table[metric].estimate for metric in ("precision", "recall", "f1", "coverage")]
    assert estimates == pytest.approx(counts(right.tolist(), score.tolist(), threshold))
    for metric in ("precision", "recall", "f1"):
        assert table[metric].low <= table[metric].estimate <= table[metric].high


def test_precision_is_the_accuracy_of_the_attempted():
    right, score = draw()
    table = precision_recall(right, score, thresholds=[0.6])
    answers = evaluate_answers(right, answered=score >= 0.6)["accuracy_given_attempted"]
    precision = table["precision"]
    assert (precision.estimate, precision.low, precision.high) == pytest.approx(
        (answers.estimate, answers.low, answers.high)
    )


def test_a_coverage_is_the_threshold_there():
    right, score = draw()
    value = np.sort(score)[-500]
    by_share = precision_recall(right, score, coverages=[0.25])
    by_value = precision_recall(right, score, thresholds=[value])
    assert by_share["f1"].estimate == by_value["f1"].estimate
    assert by_share["coverage"].estimate == 0.25


def test_groups_and_clusters():
    right, score = draw()
    kind = np.repeat(["cat", "dog"], 1000)
    image = np.repeat(np.arange(200), 10)
    table = precision_recall(right, score, thresholds=[0.3, 0.6], groups=kind, clusters=image)
    alone = precision_recall(right[1000:], score[1000:], thresholds=[0.3, 0.6], clusters=image[1000:])
    for column in ("at least 0.3", "at least 0.6"):
        [entry] = table.select(metric="f1", group="dog", score=column)
        [same] = alone.select(metric="f1", score=column)
        assert (entry.estimate, entry.low, entry.high) == (same.estimate, same.low, same.high)
    assert {entry.group for entry in table.by_group("f1", score="at least 0.6")} == {"cat", "dog"}
    repeated = precision_recall(np.repeat(right, 5), np.repeat(score, 5), thresholds=[0.6])["f1"]
    by_source = precision_recall(
        np.repeat(right, 5), np.repeat(score, 5), thresholds=[0.6], clusters=np.repeat(np.arange(2000), 5)
    )["f1"]
    once = precision_recall(right, score, thresholds=[0.6])["f1"]
    assert by_source.high - by_source.low == pytest.approx(once.high - once.low, rel=0.02)
    assert repeated.high - repeated.low < 0.6 * (once.high - once.low)


def test_the_intervals_cover():
    rng = np.random.default_rng(1)
    truth = 0.2 + 0.7 * 0.8  # the mean of 0.2 + 0.7 s for scores s between 0.6 and 1
    covered = 0
    for _ in range(300):
        right, score = draw(300, seed=int(rng.integers(1 << 30)))
        entry = precision_recall(right, score, thresholds=[0.6])["precision"]
        covered += entry.low <= truth <= entry.high
    assert 0.91 <= covered / 300 <= 0.985


@pytest.mark.parametrize("n", [10, 30, 100, 300, 1000])
def test_a_coverage_accepts_just_as_many_as_it_says(n):
    confidence = np.random.default_rng(n).permutation(n)
    shares = [count / n for count in range(1, n + 1, max(1, n // 100))]
    table = precision_recall(confidence % 2 == 0, confidence, coverages=shares)
    found = [entry.estimate * n for entry in table.entries if entry.metric == "coverage"]
    assert found == pytest.approx([share * n for share in shares], abs=1e-6)


def test_thresholds_that_are_nearly_equal_have_columns_of_their_own():
    table = precision_recall([1, 0, 1], [0.1, 0.12345679, 0.9], thresholds=[0.12345678, 0.1234568])
    found = [entry.estimate for entry in table.entries if entry.metric == "coverage"]
    assert found == pytest.approx([2 / 3, 1 / 3])


def test_nothing_accepted_is_told():
    table = precision_recall([1, 0], [0.5, 0.4], thresholds=[0.9])
    assert table["precision"].estimate is None
    assert table["recall"].estimate == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "one of them"),
        ({"thresholds": [0.5], "coverages": [0.5]}, "one of them"),
        ({"thresholds": []}, "at least one threshold"),
        ({"coverages": [1.5]}, "coverages"),
        ({"thresholds": [0.5, float("nan")]}, "must be numbers, got nan"),
        ({"thresholds": [0.5], "clusters": [1, 2, 3]}, "`clusters` must have one label per sample"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        precision_recall([1, 0], [0.5, 0.4], **options)
    with pytest.raises(ShapeError, match=r"`right` and `confidence` .* \(3,\) and \(2,\)"):
        precision_recall([1, 0, 1], [0.5, 0.4], thresholds=[0.1])
    for right, other in (
        ([1, 0.5], "0.5"),
        (["yes", "no"], "'yes'"),
        ([1, None], "None"),
        ([1, np.nan], "nan"),
    ):
        with pytest.raises(InputError, match=f"`right` must hold truth values, True or False, got {other}"):
            precision_recall(right, [0.5, 0.4], thresholds=[0.1])
    for columns in (("preds.npz", [0.5]), ([1], "preds.npz")):
        with pytest.raises(InputError, match=r"takes arrays, got the path 'preds\.npz'"):
            precision_recall(*columns, thresholds=[0.1])
