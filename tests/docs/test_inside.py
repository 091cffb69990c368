"""The page on how it works inside names the files a call really crosses, and the layers that are really checked."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import abstain

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "inside.md").read_text()


def files_crossed(call) -> set[str]:
    seen: set[str] = set()
    home = str(Path(abstain.__file__).parent)

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(home):
            seen.add(str(Path(frame.f_code.co_filename).relative_to(home)))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def test_aurc_crosses_the_files_of_the_page_and_no_more():
    aurc, rng = abstain.aurc, np.random.default_rng(0)
    crossed = files_crossed(lambda: aurc(rng.random(1000) < 0.1, rng.random(1000)))
    table = PAGE.split("From `abstain.aurc` to a number")[1].split("## Three ways to sort")[0]
    named = set(re.findall(r"`([\w/]+\.py)`", table)) - {"abstain/__init__.py"}
    assert crossed == named


def test_the_layers_are_those_that_are_checked():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    checked = [re.findall(r"abstain\.(\w+)", layer) for layer in contracts[0]["layers"]]
    text = PAGE.split("## The layers")[1].split("```text\n")[1].split("```")[0]
    shown = [re.split(r"\s{2,}", line.strip())[0].split(" | ") for line in text.splitlines()]
    assert shown == checked


def test_every_file_the_page_names_exists():
    named = re.findall(
        r"`((?:core|metrics|scores|engines|formats|cli|thresholds|inference|torch)/\w+\.py)`", PAGE
    )
    named += re.findall(r"`(tests/[\w/]+\.py)`", PAGE)
    assert len(named) > 20
    missing = [
        f for f in named if not (ROOT / (f if f.startswith("tests/") else f"src/abstain/{f}")).exists()
    ]
    assert not missing


def test_every_class_of_the_table_is_in_its_file():
    rows = re.findall(r"^\| `(\w+)` \| `([\w/]+\.py)` \|", PAGE, re.M)
    assert len(rows) > 5
    missing = [
        f"{name} in {file}"
        for name, file in rows
        if f"\nclass {name}" not in (ROOT / "src/abstain" / file).read_text()
    ]
    assert not missing


def test_file_names_are_unique():
    """The page says so: a search for a file name finds one file."""
    names = [path.name for path in (ROOT / "src/abstain").rglob("*.py") if path.name != "__init__.py"]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    "package",
    [
        "core",
        "metrics",
        "inference",
        "evaluation",
        "calibration",
        "thresholds",
        "cascades",
        "engines",
        "formats",
    ],
)
def test_every_file_has_a_test_file_of_its_name(package):
    sources = {path.stem.lstrip("_") for path in (ROOT / "src" / "abstain" / package).glob("*.py")} - {
        "init__"
    }
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / package).glob("test_*.py")}
    assert len(sources) >= 4
    assert sorted(sources - tests) == []
