"""A ranking that is worse than chance is told wherever it is shown, and chance alone hardly ever is."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.core.influence import RankedLoss
from abstain.core.rows import rank_confidences
from abstain.evaluation.chance import auroc_of_samples
from abstain.inference.standard_errors import gather
from abstain.metrics.definitions import by_name

SAID = "ranks worse than chance"


def entropies(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Losses, and an entropy that is higher where the answer is wrong."""
    rng = np.random.default_rng(seed)
    wrong = (rng.random(n) < 0.3).astype(float)
    return wrong, 0.6 * wrong + rng.random(n)


def pairs_won(wrong: np.ndarray, confidence: np.ndarray) -> float:
    """AUROC by its definition: of all pairs of a right and a wrong sample, those in which the right one is surer."""
    right, others = confidence[wrong == 0][:, None], confidence[wrong == 1][None, :]
    return float(np.mean((right > others) + 0.5 * (right == others)))


@pytest.mark.parametrize("metrics", [None, ["aurc"], ["aurc", "auroc"]])
def test_python_says_it(metrics):
    wrong, entropy = entropies()
    table = abstain.evaluate(loss=wrong, confidence={"entropy": entropy, "fixed": -entropy}, metrics=metrics)
    (said,) = [note for note in table.notes if SAID in note]
    assert said.startswith(f"entropy {SAID} (AUROC {pairs_won(wrong, entropy):.3g},")
    assert "change its sign" in said
    ranked = abstain.compare({"a": (wrong, entropy), "b": (wrong, -entropy)})
    assert [note.startswith("a ranks") for note in ranked.notes if SAID in note] == [True]


@pytest.mark.parametrize("extra", [{"sample_weight": np.ones(300)}, {"clusters": np.arange(300) // 3},
                                   {"abstained": np.arange(300) % 9 == 0}])  # fmt: skip
def test_weights_clusters_and_refusals(extra):
    wrong, entropy = entropies()
    table = abstain.evaluate(loss=wrong, confidence=entropy, metrics=["aurc"], **extra)
    assert any(SAID in note for note in table.notes)


@pytest.fixture
def files(tmp_path):
    wrong, entropy = entropies()
    for name, values in (("a", entropy), ("b", -entropy)):
        rows = [f"q{k},{1 - w:g},{v:.6f}" for k, (w, v) in enumerate(zip(wrong, values))]
        (tmp_path / f"{name}.csv").write_text("id,correct,entropy\n" + "\n".join(rows))
    return tmp_path


def test_every_command_says_it(files, monkeypatch):
    monkeypatch.chdir(files)
    stated = ["-c", "confidence=entropy"]
    for command in (
        ["evaluate", "a.csv"],
        ["evaluate", "a.csv", "--metric", "aurc"],
        ["evaluate", "a.csv", "--engine", "files"],
        ["compare", "a.csv", "b.csv", "--html", "board.html"],
        ["report", "a.csv", "-o", "one.html"],
        ["report", "a.csv", "b.csv", "-o", "two.html"],
    ):
        done = CliRunner().invoke(cli, [*command, *stated])
        assert done.exit_code == 0, done.output
        page = next((part for part in command if part.endswith(".html")), None)
        said = (files / page).read_text() if page else " ".join(done.stdout.split())
        assert SAID in said, command
        if command[0] == "compare":
            assert SAID in " ".join(done.stdout.split())


def test_the_remedy_works(files):
    told = []
    for name, sign in (("a", "-"), ("b", "")):
        done = CliRunner().invoke(
            cli, ["evaluate", str(files / f"{name}.csv"), "-c", f"confidence={sign}entropy", "--json"]
        )
        table = json.loads(done.stdout)
        assert not any(SAID in note for note in table["notes"])
        told.append([entry["estimate"] for entry in table["entries"]])
    assert told[0] == told[1]


@pytest.mark.parametrize("stated", ["correct=wrong", "error=wrong"])
def test_errors_that_are_stated_as_right_answers_are_named_as_a_reason(tmp_path, stated):
    wrong, entropy = entropies()
    rows = [f"{w:g},{-v:.6f}" for w, v in zip(wrong, entropy)]
    path = tmp_path / "a.csv"
    path.write_text("wrong,sure\n" + "\n".join(rows))
    arguments = ["evaluate", str(path), "-c", stated, "-c", "confidence=sure", "--metric", "aurc"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    is_mistaken = stated.startswith("correct")
    table = " ".join(done.stdout.split())
    assert ("are wrong: if the column holds 1 for an error, say so" in table) == is_mistaken
    assert ("its name says that it holds errors: -c error=wrong" in done.stderr) == is_mistaken
    by_engine = CliRunner().invoke(cli, ["evaluate", str(path), "-c", "loss=wrong", "-c", "confidence=-sure"])
    assert "if the column holds 1 for an error" not in by_engine.stdout  # most answers are right


def test_right_answers_that_are_stated_as_errors_are_noted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("correct,confidence\n1,0.9\n0,0.1\n1,0.8\n")
    done = CliRunner().invoke(cli, ["evaluate", str(path), "-c", "error=correct"])
    assert "its name says that it holds right answers: -c correct=correct" in done.stderr


@pytest.mark.parametrize("errors", [1, 2, 3, 5, 20])
def test_chance_alone_is_not_told(errors):
    rng = np.random.default_rng(errors)
    wrong = np.arange(200) < errors
    tables = (
        abstain.evaluate(loss=wrong.astype(float), confidence=rng.random(200), metrics=["risk"])
        for _ in range(60)
    )
    assert sum(any(SAID in note for note in table.notes) for table in tables) <= 2


def test_computed_scores_and_changed_signs_get_other_advice(files):
    rng = np.random.default_rng(6)
    labels = rng.integers(0, 2, 400)
    logits = rng.normal(size=(400, 2)) + 2 * np.eye(2)[labels]
    wrong = logits.argmax(axis=1) != labels
    logits += 40.0 * wrong[:, None]  # the largest logit is larger for wrong answers, the softmax is as before
    table = abstain.evaluate(logits, labels)
    (said,) = [note for note in table.notes if note.startswith(f"max_logit {SAID}")]
    assert "computed from the class scores" in said
    assert "change its sign" not in said
    np.savez(files / "z.npz", logits=logits, labels=labels)
    for command in (["threshold", str(files / "z.npz"), "--risk", "0.3", "--score", "max_logit"],
                    ["compare", str(files / "z.npz"), "--score", "max_logit,max_softmax"]):  # fmt: skip
        shown = " ".join(CliRunner().invoke(cli, command).output.split())
        assert SAID in shown
        assert "computed from the class scores" in shown
        assert "change its sign" not in shown
    for command in (["evaluate", str(files / "b.csv")], ["threshold", str(files / "b.csv"), "--risk", "0.2"]):
        done = CliRunner().invoke(cli, [*command, "-c", "confidence=-entropy"])
        shown = " ".join(done.output.split())
        assert "Its sign is changed already" in shown
        assert "-c confidence=entropy)" in shown


def test_the_direction_is_judged_on_the_answers_that_have_the_confidence(tmp_path):
    """Right answers without the confidence are ranked last by it, which says nothing of its direction."""
    rng = np.random.default_rng(7)
    rows = [f"{k},1,,{rng.random():.3f}" for k in range(200)]
    for k in range(200, 300):
        right = rng.random() < 0.5
        rows.append(f"{k},{int(right)},{0.5 * rng.random() + 0.5 * right:.3f},{rng.random():.3f}")
    path = tmp_path / "gaps.csv"
    path.write_text("\n".join(["id,correct,inner,stated", *rows]) + "\n")
    both = ["-c", "confidence=inner,stated"]
    table = json.loads(CliRunner().invoke(cli, ["evaluate", str(path), *both, "--json"]).stdout)
    auroc = next(e for e in table["entries"] if (e["score"], e["metric"]) == ("inner", "auroc"))
    assert auroc["high"] < 0.5
    assert not any(SAID in note for note in table["notes"])
    last = ["-c", "confidence=inner", "--missing", "last"]
    for command in (["compare", str(path), *both], ["threshold", str(path), *last, "--risk", "0.3"]):
        done = CliRunner().invoke(cli, command)
        assert done.exit_code in (0, 4), done.output
        assert SAID not in " ".join(done.output.split())
    turned = ["evaluate", str(path), "-c", "confidence=-inner", "--missing", "last", "--json"]
    assert any(SAID in note for note in json.loads(CliRunner().invoke(cli, turned).stdout)["notes"])


@pytest.mark.parametrize("weight", [None, [2, 1, 1, 3, 1, 2, 1, 1]])
def test_the_auroc_of_ranked_samples_is_that_of_sorted_ones(weight):
    loss, confidence = np.array([0, 0, 1, 0, 1, 1, 0, 0]), np.array([9, 8, 3, 7, 2, 7, 6, 5.0])
    samples = gather("compare", by_name("aurc"), loss, confidence, sample_weight=weight, repetitions=True)
    ranked = RankedLoss(
        rank_confidences(samples.answered_confidence), samples.answered_loss, samples.answered_weight
    )
    repetitions = 1 if weight is None else weight
    expected = pairs_won(np.repeat(loss, repetitions), np.repeat(confidence, repetitions))
    assert auroc_of_samples(samples) == pytest.approx(expected, abs=1e-15)
    assert auroc_of_samples(samples._replace(ranked_by_confidence=ranked)) == pytest.approx(
        expected, abs=1e-15
    )
    all_right = samples._replace(answered_loss=0 * samples.answered_loss, ranked_by_confidence=None)
    no_errors = RankedLoss(
        rank_confidences(samples.answered_confidence), 0.0 * samples.answered_loss, samples.answered_weight
    )
    assert auroc_of_samples(all_right) is None
    assert auroc_of_samples(all_right._replace(ranked_by_confidence=no_errors)) is None
