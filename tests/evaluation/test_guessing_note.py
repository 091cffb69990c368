"""The note on accuracy that is that of guessing: its chance is that of permuted labels, and good models never get it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.evaluation.guessing_note import note_on_guessing

SAID = "are labels and class scores in the same order?"


def good_model(class_count: int = 10, sample_count: int = 3000, strength: float = 4.0, seed: int = 0):
    """Logits that are right most of the time, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, class_count, sample_count)
    logits = rng.normal(size=(sample_count, class_count))
    logits[np.arange(sample_count), labels] += strength
    return logits, labels


def scrambled(labels):
    """The same labels in another order."""
    return np.random.default_rng(7).permutation(labels)


def as_probs(logits):
    """Softmax."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("class_count", [2, 4, 10, 100])
def test_scrambled_labels_are_noted_and_the_right_order_is_not(class_count):
    logits, labels = good_model(class_count, sample_count=5000)
    chance = abstain.evaluate(logits, scrambled(labels), metrics=["aurc"]).notes
    (note,) = [note for note in chance if SAID in note]
    assert note.startswith("accuracy is that of guessing (")
    assert f"{1 / class_count:.0%}"[:-1] in note
    assert not any(SAID in note for note in abstain.evaluate(logits, labels, metrics=["aurc"]).notes)


def test_chance_is_the_mean_over_orders_of_the_labels():
    rng = np.random.default_rng(0)
    labels = rng.choice(3, size=4000, p=[0.7, 0.2, 0.1])
    predicted = rng.choice(3, size=4000, p=[0.5, 0.3, 0.2])
    shares = [np.mean(rng.permutation(labels) == predicted) for _ in range(200)]
    note = note_on_guessing("m", np.eye(3)[predicted], labels, "probs")
    assert note.startswith("m: accuracy is that of guessing")
    chance = float(re.search(r"([\d.]+)% by chance", note)[1]) / 100
    assert chance == pytest.approx(np.mean(shares), abs=0.002)


def test_labels_that_are_one_off_are_below_guessing():
    logits, labels = good_model()
    (note,) = [note for note in abstain.evaluate(logits, (labels + 1) % 10).notes if SAID in note]
    assert "below that of guessing" in note


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_binary_models_with_one_column_and_one_hot_labels(kind):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 4000)
    log_odds = rng.normal(size=4000) + 2 * (2 * labels - 1)
    values = log_odds if kind == "logits" else 1 / (1 + np.exp(-log_odds))
    assert note_on_guessing("", values, labels, kind) is None
    assert note_on_guessing("", values[:, None], labels, kind) is None
    assert SAID in note_on_guessing("", values, scrambled(labels), kind)
    logits, labels = good_model()
    assert note_on_guessing("", logits, np.eye(10)[labels], "logits") is None
    assert SAID in note_on_guessing("", logits, np.eye(10)[scrambled(labels)], "logits")


def test_one_class_alone_and_few_samples_are_not_judged():
    labels = np.arange(3000) % 10 == 0
    always_one = np.tile([2.0, 0.0], (3000, 1))
    assert note_on_guessing("", always_one, labels.astype(int), "logits") is None
    logits, labels = good_model(2, sample_count=40)
    assert note_on_guessing("", logits, scrambled(labels), "logits") is None


def test_a_weak_model_is_hardly_ever_noted():
    notes = [note_on_guessing("", *good_model(10, 400, 0.5, seed), "logits") for seed in range(100)]
    assert sum(note is not None for note in notes) == 0


def test_compare_names_the_model_that_guesses():
    logits, labels = good_model()
    other, _ = good_model(seed=1)
    notes = abstain.compare({"good": logits, "shuffled": other}, labels).notes
    (note,) = [note for note in notes if SAID in note]
    assert note.startswith("shuffled: ")
    assert not any(SAID in note for note in abstain.compare({"a": logits, "b": logits + 0.1}, labels).notes)
    words = np.array(list("abcdefghij"))
    notes = abstain.compare(logits, words[scrambled(labels)], scores="all", classes=list(words)).notes
    assert [note.startswith("accuracy") for note in notes if SAID in note] == [True]
    by_probs = abstain.compare(probs={"a": as_probs(logits), "b": as_probs(other)}, labels=labels).notes
    assert [note.startswith("b: ") for note in by_probs if SAID in note] == [True]


@pytest.mark.parametrize(
    "command", [["evaluate", "bad.npz"], ["compare", "good.npz", "bad.npz", "--unpaired"]]
)
def test_the_commands_say_it(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    logits, labels = good_model()
    np.savez("good.npz", logits=logits, labels=labels)
    np.savez("bad.npz", logits=logits, labels=scrambled(labels))
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert SAID in " ".join(done.stdout.split())
