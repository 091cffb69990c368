"""docs/json.md lists every field that the commands write, with its type and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from abstain.cli import cli

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
COMMANDS = {
    "abstain.Evaluation/2": ["evaluate", "a.npz", "--json"],
    "abstain.Comparison/4": ["compare", "a.npz", "b.npz", "--json"],
    "abstain.GateVerdict/1": ["gate", "a.npz", "b.npz", "--margin", "0.01", "--json"],
    "abstain.ClinicalTable/1": ["clinical", "a.npz", "--positive", "1", "--json"],
    "abstain.Threshold/5": ["threshold", "a.npz", "--risk", "0.1", "--json"],
    "abstain.LearnedConfidence/2": ["improve", "b.npz", "--json"],
    "abstain.Check/6": ["threshold", "b.npz", "--check", "rule.json", "--json"],
}
KINDS = {
    "record": dict,
    "text": str,
    "number": (int, float),
    "whole number": int,
    "true or false": bool,
    "null": type(None),
}


def fields(section: str) -> dict[str, str]:
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.M))


def of_that_kind(value: object, kind: str) -> bool:
    if kind.startswith("any"):
        return True
    if kind.startswith("list"):
        return isinstance(value, dict if "by name" in kind else list)
    choices = (part for part in re.split(r" or (?!false)", kind))
    return any(isinstance(value, KINDS[choice]) for choice in choices)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_is_what_the_command_writes(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    for file, signal in (("a", 2.0), ("b", 1.0)):
        logits = rng.normal(size=(200, 3))
        logits[np.arange(200), labels] += signal
        np.savez(f"{file}.npz", logits=logits, labels=labels)
    CliRunner().invoke(cli, ["threshold", "a.npz", "--risk", "0.3", "--save", "rule.json"])
    data = json.loads(CliRunner().invoke(cli, COMMANDS[name]).stdout)
    assert data["format"] == name
    (chapter,) = re.findall(rf"^## {re.escape(name)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    head, *parts = re.split(r"^### (\w+)\n", chapter, flags=re.M)
    told = [(data, fields(head))]
    for part, section in zip(parts[::2], parts[1::2]):
        assert data[part]
        held = data[part] if isinstance(data[part], list) else [data[part]]
        told += [(record, fields(section)) for record in held]
    for record, known in told:
        assert set(record) == set(known)
        wrong = {k: record[k] for k, kind in known.items() if not of_that_kind(record[k], kind)}
        assert not wrong


def test_another_number_of_the_layout_is_refused():
    from abstain import Comparison, compare
    from abstain.errors import InputError

    text = compare({"a": ([0, 1, 0, 1], [4, 3, 2, 1]), "b": ([0, 1, 0, 1], [1, 2, 3, 4])}).to_json()
    with pytest.raises(InputError):
        Comparison.from_json(text.replace("abstain.Comparison/4", "abstain.Comparison/99"))
