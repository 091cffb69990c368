"""Every code block of the README and the documentation runs, and prints what it shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from blocks import blocks_of, run_page
from setups import SETUPS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LONGEST_LINE = 104  # characters of code in a column of 832 pixels


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_code_of_the_page(page, reader):
    names = reader | SETUPS.get(page.name, dict)()
    problems = run_page(page, names)
    assert not problems, "\n".join(problems)


def too_long(page: Path) -> list[str]:
    """Lines of code blocks that do not fit the page on a screen of 1400 pixels (docs/_static/page.css)."""
    return [
        f"{page.name}:{block.line + index}"
        for block in blocks_of(page)
        for index, line in enumerate(block.text.splitlines())
        if len(line) > LONGEST_LINE
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_code_fits_the_page(page):
    assert too_long(page) == []


def test_a_long_line_is_caught(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"```\nshort\n{'x' * 105}\n```\n")
    assert too_long(page) == ["page.md:3"]


def test_the_first_page_needs_nothing_but_a_fresh_python(tmp_path):
    session = [block.text for block in blocks_of(ROOT / "docs" / "index.md") if block.language == "pycon"]
    assert len(session) == 1
    page = tmp_path / "page.txt"
    page.write_text(session[0])
    call = [sys.executable, "-m", "doctest", "-o", "NORMALIZE_WHITESPACE", str(page)]
    done = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```pycon\n>>> 1 + 1\n3\n```\n", "Expected"),
        ("```python\n1 + 1\n# 3\n```\n", "shows"),
        ("```python\nprint('a')\n# b\n```\n", "shows"),
        ("```python\nmissing\n```\n", "NameError"),
        ("```python {no-run}\nx = 1\n```\n", "must say why"),
        ("```\n>>> 1 + 1\n3\n```\n", "fenced as pycon"),
        ("```pycon\n1 + 1\n```\n", "without a prompt"),
    ],
)
def test_a_false_page_is_caught(tmp_path, text, complaint):
    page = tmp_path / "page.md"
    page.write_text(text)
    assert complaint in run_page(page, {})[0]


def test_a_true_page_passes(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```pycon\n>>> x = 2\n>>> x\n2\n```\n```python\nx + 1\n# 3\n\n# a remark\ny = x\n# another\n```\n"
        "```python {no-run}\n# needs a GPU\nx.cuda()\n```\n"
    )
    assert run_page(page, {}) == []
