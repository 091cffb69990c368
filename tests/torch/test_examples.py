"""The training examples run, learn something, and stay short."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "training"
NAMES = (
    "train_plain", "train_lightning", "train_huggingface", "train_optax", "tune_lightning", "tune_huggingface",
)  # fmt: skip


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_about_forty_lines(name):
    assert len((FOLDER / f"{name}.py").read_text().splitlines()) < 45


def test_all_examples_are_tested():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(NAMES)


def test_plain_learns(capsys):
    assert load("train_plain").main(epochs=6) < 0.01
    assert capsys.readouterr().out.count("95% interval") == 6


def test_lightning_stops_early_and_keeps_the_best(tmp_path):
    trainer = load("train_lightning").main(str(tmp_path), epochs=60)
    assert (tmp_path / "best.ckpt").exists()
    assert trainer.callbacks[0].rule.best < 0.1
    assert trainer.current_epoch < 60


def test_huggingface_evaluates_and_saves(tmp_path):
    trainer = load("train_huggingface").main(str(tmp_path), epochs=3)
    logged = [entry for entry in trainer.state.log_history if "eval_aurc" in entry]
    assert len(logged) >= 2
    assert logged[-1]["eval_aurc"] < logged[0]["eval_aurc"] + 2 * logged[0]["eval_aurc_se"]
    assert min(entry["eval_aurc"] for entry in logged) < 0.25  # a third of the labels by chance: 0.67
    assert any(tmp_path.glob("checkpoint-*"))


def test_lightning_tunes():
    found = load("tune_lightning").main()
    assert [epoch for epoch, _ in found.looks] == [5, 10, 15, 20]
    assert found.improved == (found.difference.high < 0)


def test_huggingface_tunes(tmp_path):
    found = load("tune_huggingface").main(str(tmp_path), epochs=4)
    assert [epoch for epoch, _ in found.looks] == [1, 2, 3, 4]
    assert found.improved == (found.difference.high < 0)


def test_optax_learns():
    assert load("train_optax").main() < 0.1
