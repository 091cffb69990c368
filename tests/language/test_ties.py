"""Where equal confidences decide the number, the table says so; where they decide a verdict, the comparison does."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import abstain
from abstain.evaluation.table import gap_of_ties


def in_random_order(loss: list[int], confidence: list[int]) -> float:
    """AURC averaged over every order of the samples that their confidences allow."""
    areas = []
    for order in itertools.permutations(range(len(loss))):
        if all(confidence[a] >= confidence[b] for a, b in itertools.pairwise(order)):
            found = np.cumsum([loss[i] for i in order]) / np.arange(1, len(loss) + 1)
            areas.append(found.mean())
    return float(np.mean(areas))


@pytest.mark.parametrize("seed", range(8))
def test_random_order_is_the_mean_over_all_orders(seed):
    rng = np.random.default_rng(seed)
    loss, confidence = rng.integers(0, 2, 6).tolist(), rng.integers(0, 3, 6).tolist()
    blocks = sorted(set(confidence), reverse=True)
    N = np.array([sum(c >= b for c in confidence) for b in blocks], float)
    S = np.array([sum(l for l, c in zip(loss, confidence) if c >= b) for b in blocks], float)
    value = abstain.aurc(loss, confidence) + gap_of_ties(N, S)
    assert value == pytest.approx(in_random_order(loss, confidence), abs=1e-12)


def stated(n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Confidences in words: two values, right in half and in nine tenths of the cases."""
    rng = np.random.default_rng(1)
    sure = rng.random(n) < 0.5
    return (rng.random(n) > np.where(sure, 0.9, 0.5)).astype(float), sure.astype(float)


def test_the_table_marks_an_area_that_depends_on_ties():
    loss, sure = stated()
    fine = sure + 1e-3 * np.random.default_rng(2).random(len(sure))
    table = abstain.evaluate(
        loss={"zero_one": loss}, confidence={"words": sure, "numbers": fine}, metrics=["aurc", "risk"]
    )
    words, numbers = (table[name, "zero_one", "aurc"] for name in ("words", "numbers"))
    assert words.random_ties == pytest.approx(abstain.aurc(loss, sure, ties="expected"), abs=1e-12)
    assert abs(words.random_ties - words.estimate) > words.standard_error
    assert numbers.random_ties is None
    assert table["words", "zero_one", "risk"].random_ties is None
    assert words.cell.endswith(" t")
    assert not numbers.cell.endswith(" t")
    (note,) = [n for n in table.notes if n.startswith("t: ")]
    assert "AURC of words" in note
    assert f"{words.random_ties:.4g} in random order" in note
    assert abstain.Evaluation.from_json(table.to_json()) == table


@pytest.mark.parametrize("along", ["abstained", "clusters"])
def test_it_is_marked_beside_abstentions_and_clusters_too(along):
    loss, sure = stated()
    more = (
        {"abstained": np.arange(4000) % 10 == 0}
        if along == "abstained"
        else {"clusters": np.arange(4000) // 2}
    )
    entry = abstain.evaluate(loss=loss, confidence=sure, metrics="aurc", **more)["confidence", "loss", "aurc"]
    kept = {"abstained": more["abstained"]} if along == "abstained" else {}
    assert entry.random_ties == pytest.approx(abstain.aurc(loss, sure, ties="expected", **kept), abs=1e-12)


def test_a_verdict_that_depends_on_ties_is_told():
    loss, sure = stated(8000)
    rng = np.random.default_rng(5)
    fine = sure + rng.random(len(sure))  # the words with their ties broken at random
    found = abstain.compare({"words": (loss, sure), "tokens": (loss, fine)})
    tied = abstain.inference.paired_difference(loss, sure, loss, fine)
    loose = abstain.inference.paired_difference(loss, sure, loss, fine, ties="expected")
    changes = (tied.p_value < 0.05) * np.sign(tied.difference) != (loose.p_value < 0.05) * np.sign(
        loose.difference
    )
    assert changes  # the sample was made so
    (note,) = found.notes
    assert "1 of 1 verdicts depend on how equal confidences are counted" in note
    assert note in repr(found)
    calm = abstain.compare({"a": (loss, fine), "b": (loss, rng.random(len(loss)))})
    assert calm.notes == ()
