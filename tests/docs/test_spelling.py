"""No known misspelling in pages, docstrings or messages. Words of ours that look like one: docs/spelling.txt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXTS = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "docs",
    "src/abstain",
    "examples",
    "benchmarks",
    "tools",
]


def misspelt(*paths: str | Path) -> str:
    skip = "*/_build/*,*/_generated/*,*.npz,*.png,*.pyc,*.js,*.json,*.csv,*.svg"
    call = [
        "-m",
        "codespell_lib",
        "--ignore-words",
        str(ROOT / "docs/spelling.txt"),
        "--skip",
        skip,
        *map(str, paths),
    ]
    done = subprocess.run([sys.executable, *call], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode in (0, 65), done.stderr
    return done.stdout


def test_spelling():
    assert misspelt(*TEXTS) == ""


def test_a_misspelling_is_caught(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("The coverge is accross all treshold values.\n")
    assert misspelt(page).count("==>") >= 2
