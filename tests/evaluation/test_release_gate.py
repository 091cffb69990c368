"""The release gate: verdicts from limits, error rates at the margin, samples that are missing, exit codes in a shell."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.errors import InfeasibleError, InputError
from abstain.evaluation import GateVerdict, compare, gate, judge
from tests.inference.test_coverage import SQUARE, holds, sim

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gate.py"
_spec = importlib.util.spec_from_file_location("gate_by_simulation", SCRIPT)
gates = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = gates
_spec.loader.exec_module(gates)


@pytest.fixture(scope="module")
def models():
    """Losses and confidences on 2,000 samples; the true AURC of "new" is higher (worse) by 0.022."""
    loss_old, g_old, loss_new, g_new = sim.pair(SQUARE, sim.WORSE, 2000, np.random.default_rng(4))
    return {"old": (loss_old, g_old), "new": (loss_new, g_new)}


def with_limits(models, low, high, lower_is_better=True):
    """A comparison of "new" minus "old" with these limits, at 91%."""
    comparison = compare(models, level=0.91)
    pair = replace(comparison.pair("new", "old"), low=low, high=high, difference=(low + high) / 2, note="")
    return replace(comparison, pairs=(pair,), lower_is_better=lower_is_better)


@pytest.mark.parametrize(
    ("question", "low", "high", "verdict"),
    [
        ("non_inferior", -0.03, 0.009, "pass"),
        ("non_inferior", -0.03, 0.011, "undecided"),
        ("non_inferior", 0.011, 0.03, "fail"),
        ("superior", -0.03, -0.011, "pass"),
        ("superior", -0.03, -0.009, "undecided"),
        ("superior", -0.009, 0.03, "fail"),
        ("equivalent", -0.009, 0.009, "pass"),
        ("equivalent", -0.011, 0.009, "undecided"),
        ("equivalent", -0.009, 0.011, "undecided"),
        ("equivalent", 0.011, 0.02, "fail"),
        ("equivalent", -0.02, -0.011, "fail"),
    ],
)
def test_verdicts_from_limits(models, question, low, high, verdict):
    lower = judge(with_limits(models, low, high), "old", "new", margin=0.01, question=question)
    assert lower.verdict == verdict
    assert lower.level == pytest.approx(0.95)
    # where higher is better, the same limits with the other sign
    higher = with_limits(models, -high, -low, lower_is_better=False)
    assert judge(higher, "old", "new", margin=0.01, question=question).verdict == verdict
    assert (lower.more_needed is None) == (verdict != "undecided")


@pytest.mark.parametrize("question", ["non_inferior", "superior", "equivalent"])
@pytest.mark.parametrize(
    ("metric", "old_loss", "new_loss"),
    [("naurc", 0.0, 0.0), ("naurc", 1.0, 1.0), ("aurc", 0.3, 0.3), ("aurc", 0.3, 0.2), ("e_aurc", 0.7, 0.7)],
)
def test_without_limits_no_number_is_stated(question, metric, old_loss, new_loss):
    models = {name: (np.full(50, x), np.arange(50)) for name, x in (("a", old_loss), ("b", new_loss))}
    verdict = gate(models, margin=0.01, question=question, metric=metric)
    assert verdict.verdict == "undecided"
    reason = "no limits of the difference can be given: not enough data, the samples show no spread."
    assert verdict.reason == reason
    assert verdict.more_needed is None
    assert verdict._grid()["one-sided 95% limits"][-1] == "-"
    assert verdict._grid()[verdict.label][-1] == "-"
    for text in (repr(verdict), verdict.to_markdown(), verdict.to_latex()):
        assert "inf]" not in text
        assert "None" not in text
        assert "nan" not in text
    assert GateVerdict.from_json(verdict.to_json()) == verdict


def test_two_models_without_errors_pass_only_where_unseen_errors_could_not_matter():
    def verdict_of(n, metric):
        sure = np.random.default_rng(n).random((2, n))
        models = {"old": (np.zeros(n), sure[0]), "new": (np.zeros(n), sure[1])}
        return gate(models, margin=0.01, metric=metric)

    few = verdict_of(100, "risk")
    unseen = 1 - 0.045 ** (1 / 100)  # share of errors that a model without any in 100 may have
    assert few.verdict == "undecided"
    assert (few.low, few.high) == pytest.approx((-unseen, unseen), rel=0.3)
    assert few.reason.endswith("not enough data, the samples show no spread.")
    assert verdict_of(20000, "risk").verdict == "pass"
    assert verdict_of(20000, "aurc").verdict == "pass"


def test_models_that_do_the_same_with_few_errors_pass():
    loss = np.zeros(100)
    loss[7] = 1
    verdict = gate({"old": (loss, np.arange(100)), "new": (loss, np.arange(100))}, margin=0.01)
    assert (verdict.verdict, verdict.low, verdict.high) == ("pass", 0.0, 0.0)


def test_gate_is_the_interval_that_leaves_four_and_a_half_percent_on_either_side(models):
    verdict = gate(models, margin=0.002)
    with pytest.raises(TypeError, match="gate: takes no argument `paired`"):
        gate(models, margin=0.002, paired=False)
    difference = abstain.inference.paired_difference(*models["new"], *models["old"], level=0.91)
    got = (verdict.difference, verdict.low, verdict.high)
    assert got == pytest.approx((difference.difference, difference.low, difference.high), rel=1e-12)
    assert verdict.n == 2000
    assert GateVerdict.from_json(verdict.to_json()) == verdict
    assert gate(models, margin=0.2).verdict == "pass"
    assert gate(dict(reversed(models.items())), margin=0.002).old == "new"
    assert verdict.frame("dict")["verdict"] == [verdict.verdict]


def test_logits_probabilities_and_other_metrics(models):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    logits = rng.normal(size=(2, 400, 3))
    logits[:, np.arange(400), labels] += 2
    by_logits = gate({"a": logits[0], "b": logits[1]}, labels, margin=0.3, metric="auroc", scores="max_logit")
    assert by_logits.verdict == "pass"
    assert "AUROC" in by_logits.requirement
    assert "must not fall by 0.3" in by_logits.requirement
    probs = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    assert (
        gate(probs={"a": probs[0], "b": probs[1]}, labels=labels, margin=0.3, question="equivalent").verdict
        == "pass"
    )


def test_twins_are_equivalent_and_never_superior(models):
    twins = {"old": models["old"], "twin": models["old"]}
    assert gate(twins, margin=1e-6, question="equivalent").verdict == "pass"
    assert gate(twins, margin=1e-6).verdict == "pass"
    assert gate(twins, question="superior").verdict == "fail"


def test_few_errors_are_no_verdict():
    loss = np.zeros(500)
    loss[:3] = 1
    verdict = gate({"old": (loss, np.arange(500)), "new": (loss, np.arange(500)[::-1])}, margin=0.001)
    assert verdict.verdict == "undecided"
    assert "too few to compare" in verdict.reason
    assert verdict.more_needed is None


def test_as_many_samples_as_are_needed_lead_to_a_verdict_four_times_of_five():
    profiles = [gates.profile(0.0, 0.6, power) for power in (2.0, 1.9)]
    truth = gates.true_area(0.0, 0.6, 1.9) - gates.true_area(0.0, 0.6, 2.0)
    margin = truth + 0.01
    rng = np.random.default_rng(6)
    small = compare(dict(zip("ab", pairs_of(sim.pair(*profiles, 500, rng)))), level=0.91)
    # the verdict for 500 samples whose estimate is the true difference
    pair = small.pair("b", "a")
    shift = truth - pair.difference
    centred = replace(pair, difference=truth, low=pair.low + shift, high=pair.high + shift, note="")
    verdict = judge(replace(small, pairs=(centred,)), "a", "b", margin=margin)
    assert verdict.verdict == "undecided"
    needed = 500 + verdict.more_needed
    verdicts = [
        gate(dict(zip("ab", pairs_of(sim.pair(*profiles, needed, rng)))), margin=margin).verdict
        for _ in range(100)
    ]
    assert holds(verdicts.count("pass") / 100, 100, 0.75, 0.9)


def pairs_of(columns):
    """(loss, confidence) of two models from four columns."""
    return columns[:2], columns[2:]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"margin": 0}, "above 0"),
        ({"margin": -1}, "margin"),
        ({"margin": 0.1, "question": "best"}, "question"),
        ({"margin": 0.1, "level": 0.5}, "above 0.5"),
    ],
)
def test_what_is_refused_is_named(models, options, words):
    with pytest.raises(InputError, match=words):
        gate(models, **options)


def test_two_models_are_needed(models):
    three = {**models, "third": models["old"]}
    with pytest.raises(InputError, match="two models"):
        gate(three, margin=0.1)
    with pytest.raises(InputError, match=r"must have level 0\.91 or above, got 0\.9"):
        judge(compare(models, level=0.9), "old", "new", margin=0.1)
    with pytest.raises(InputError, match="takes two models, got 3"):
        judge(compare(three), "old", "new", margin=0.1)


def test_exit_codes_in_a_shell(models, tmp_path):
    for name, (loss, confidence) in models.items():
        np.savez(tmp_path / f"{name}.npz", correct=~loss, confidence=confidence, id=np.arange(2000))
    script = """
    abstain() { "$PYTHON" -m abstain "$@"; }
    abstain gate old.npz new.npz --margin 0.2 --quiet; echo $?
    abstain gate old.npz new.npz --superior --quiet; echo $?
    abstain gate old.npz new.npz --margin 0.023 --quiet; echo $?
    """
    environment = {
        "PYTHON": sys.executable,
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(filter(None, sys.path)),
    }
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["pass", "0", "fail", "6", "undecided", "7"], done.stderr


def test_a_metric_that_the_data_leave_undefined_is_no_verdict(models):
    loss, confidence = models["old"]
    without_errors = {"old": models["old"], "new": (np.zeros(len(loss)), confidence)}
    with pytest.raises(InfeasibleError, match="new: auroc needs both right and wrong"):
        gate(without_errors, margin=0.1, metric="auroc")
    # other metrics have values there, and say why there is no verdict
    verdict = gate(without_errors, margin=0.1, metric="aurc")
    assert verdict.verdict == "undecided"
    assert "too few to compare" in verdict.reason


def test_command_line(models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, (loss, confidence) in models.items():
        np.savez(f"{name}.npz", correct=~loss, confidence=confidence, id=np.arange(2000))

    def run(*options):
        return CliRunner().invoke(cli, ["gate", "old.npz", "new.npz", *options])

    assert run().exit_code == 2
    assert run("--margin", "0.1", "--column", "confidence=nowhere").exit_code == 3
    assert run("--margin", "0.1", "--planned", "100").exit_code == 2
    at_any_time = json.loads(run("--margin", "0.2", "--anytime", "--planned", "1500", "--json").stdout)
    assert at_any_time["planned"] == 1500
    assert at_any_time["high"] > gate(models, margin=0.2).high
    assert run("--margin", "0.2", "--equivalent", "-o", "verdict.json").exit_code == 0
    summary = run("--margin", "0.023", "--markdown").stdout
    assert summary.startswith("### undecided: new against old, AURC must not rise by 0.023 or more\n")
    assert "more samples are needed" in summary
    assert "| new - old |" in summary
    assert json.loads((tmp_path / "verdict.json").read_text())["question"] == "equivalent"


def test_error_rate_at_the_margin_small():
    for population in ("worse", "equal"):
        for share in gates.passes(population, 500, 150, 1).values():
            assert holds(share, 150, most=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("n", gates.SIZES)
@pytest.mark.parametrize("population", gates.POPULATIONS)
def test_error_rate_at_the_margin(population, n):
    for share in gates.passes(population, n, 2000, 2026).values():
        assert holds(share, 2000, most=0.05)
