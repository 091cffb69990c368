"""The README stays true: its commands exist, its examples print what they show, its links lead somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import abstain

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_first_two_commands_are_demo_and_test():
    first_block = re.search(r"```\n(.*?)```", (ROOT / "README.md").read_text(), re.S).group(1)
    assert [line.split("#")[0].strip() for line in first_block.strip().splitlines()] == ["make demo", "make test"]


def test_examples_print_what_they_show():
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0


def test_every_name_the_readme_uses_exists():
    text = (ROOT / "README.md").read_text()
    for path in set(re.findall(r"abstain((?:\.[A-Za-z_]+)+)\(", text)):
        value = abstain
        for part in path.strip(".").split("."):
            value = getattr(value, part)
        assert callable(value)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
