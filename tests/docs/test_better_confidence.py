"""The page on better confidences shows the numbers of its figure."""

import importlib.util
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_sentences_about_the_figure_are_those_of_the_data(data_dir, monkeypatch):
    monkeypatch.setenv("ABSTAIN_DATA", str(data_dir))
    folder = ROOT / "docs" / "generate"
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    spec = importlib.util.spec_from_file_location("better_confidence", folder / "better_confidence.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    loss, confidences, _ = script.learn_and_judge()
    page = " ".join((ROOT / "docs" / "better-confidence.md").read_text(encoding="utf-8").split())
    sentences = re.split(r"(?<=\.) (?=[A-Z])", script.describe_areas(loss, confidences))
    assert len(sentences) == 4
    assert [sentence for sentence in sentences if sentence not in page] == []
