"""The examples are short, run, and find what their text says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples"
SEVEN = {
    "cascade_torch",
    "clinic_threshold",
    "compare_two",
    "evaluate_classifier",
    "fine_tune",
    "stream_segmentation",
    "verbalised_confidence",
}


def run(name: str, capsys):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = module.main()
    return result, capsys.readouterr().out


@pytest.fixture(autouse=True)
def bundled_data_only(monkeypatch):
    monkeypatch.delenv("ABSTAIN_DATA", raising=False)


def test_seven_scripts_of_under_sixty_lines():
    scripts = {path.stem: path for path in FOLDER.glob("*.py")}
    assert set(scripts) == SEVEN
    for path in scripts.values():
        assert len(path.read_text().splitlines()) < 60, path.name


def test_cascade_torch(capsys):
    (rule, wrong), out = run("cascade_torch", capsys)
    assert rule.stages_in_use == ("small", "large")
    assert rule.cost < 15  # less than the large network on every image
    assert wrong < 0.08
    assert "the large network saw" in out


def test_evaluate_classifier(capsys):
    table, out = run("evaluate_classifier", capsys)
    (risk,) = {entry.estimate for entry in table.select(metric="risk")}
    assert 0.04 < risk < 0.10
    for entry in table.select(metric="aurc"):
        assert entry.low < entry.estimate < entry.high
        assert entry.estimate < risk / 3  # it knows when it is wrong
    assert "Hardest digit" in out


def test_compare_two(capsys):
    result, out = run("compare_two", capsys)
    assert "the CIFAR-10 networks are skipped" in out
    assert result.names == ("forest", "logistic")
    assert result.pair("forest", "logistic").p_value < 1e-6


@pytest.mark.data
def test_compare_two_networks(capsys, data_dir, monkeypatch):
    monkeypatch.setenv("ABSTAIN_DATA", str(data_dir))
    result, out = run("compare_two", capsys)
    assert "skipped" not in out
    assert result.names == ("resnet56", "resnet20")


def test_clinic_threshold(capsys):
    threshold, out = run("clinic_threshold", capsys)
    assert threshold.feasible
    assert threshold.risk <= threshold.target == 0.05
    assert "At most 0.5% errors: no threshold" in out
    assert "sensitivity" in out


def test_fine_tune(capsys):
    difference, out = run("fine_tune", capsys)
    assert out.count("paired, n = 1297") == 2
    assert difference.low < difference.high
    assert 0 < difference.estimate_a < 0.02  # both networks read digits well
    assert 0 < difference.estimate_b < 0.02


def test_stream_segmentation(capsys):
    sketch, _ = run("stream_segmentation", capsys)
    assert sketch.n == 427 * 320
    assert len(sketch.to_bytes()) <= 100_000
    area = sketch.aurc()
    assert area.low <= area.estimate <= area.high < sketch.risk().estimate < 0.2


def check_words(table, out):
    """Shuffled rows give many numbers around the mean over all orders; the table has the one of the definition."""
    assert 0.005 < table.abstained < 0.5
    low, high = (float(x) for x in out.split("rows shuffled: ")[1].split(".\n")[0].split(" to "))
    expected = float(out.split("(ties='expected')")[0].rsplit(" ", 2)[1])
    assert low < expected < high
    assert np.isclose(
        table.best("aurc").estimate, float(out.split("any order: ")[1].split(" ")[0]), atol=1e-4
    )


def test_verbalised_confidence(capsys):
    table, out = run("verbalised_confidence", capsys)
    assert "GPT-2 is skipped" in out
    check_words(table, out)


@pytest.mark.data
def test_verbalised_confidence_of_gpt2(capsys, data_dir, monkeypatch):
    monkeypatch.setenv("ABSTAIN_DATA", str(data_dir))
    table, out = run("verbalised_confidence", capsys)
    assert "skipped" not in out
    assert table.n == 7600
    check_words(table, out)
