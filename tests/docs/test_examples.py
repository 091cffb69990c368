"""The examples are short, run, and find what their text says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = {"cascade_torch", "stream_segmentation", "verbalised_confidence"}


def run(name: str, capsys):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = module.main()
    return result, capsys.readouterr().out


@pytest.fixture(autouse=True)
def bundled_data_only(monkeypatch):
    monkeypatch.delenv("ABSTAIN_DATA", raising=False)


def test_scripts_of_under_sixty_lines():
    scripts = {path.stem: path for path in FOLDER.glob("*.py")}
    assert set(scripts) == SCRIPTS
    for path in scripts.values():
        assert len(path.read_text().splitlines()) < 60, path.name


def test_cascade_torch(capsys):
    (rule, wrong), out = run("cascade_torch", capsys)
    assert rule.stages_in_use == ("small", "large")
    assert rule.cost < 15  # less than the large network on every image
    assert wrong < 0.08
    assert "the large network saw" in out


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
