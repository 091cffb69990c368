"""Commands shown on the pages exist, with the options shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from blocks import FENCE, blocks_of

from abstain.cli import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = ("abstain", "make", "python")
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)


def commands(page: Path) -> list[list[str]]:
    """Words of each command line in a fenced or an indented block, settings and prompts dropped."""
    lines = re.findall(r"^ {4}(\S.*)$", FENCE.sub("", page.read_text()), re.M)
    for block in blocks_of(page):
        if block.language in ("", "bash", "sh", "shell", "console", "text"):
            lines += block.text.splitlines()
    found = []
    for line in lines:
        plain = re.sub(r"\s#.*", "", line).strip().removeprefix("$ ")
        try:
            words = shlex.split(plain)
        except ValueError:
            continue
        while words and re.match(r"[A-Z_]+=", words[0]):
            words.pop(0)
        if len(words) > 1 and words[0] in SHELL:
            found.append(words)
    return found


def wrong(words: list[str]) -> str | None:
    """What is wrong with a command; None if nothing."""
    program, first, *rest = words
    if program == "make":
        return None if first in TARGETS else f"no target {first}"
    if program == "python":
        script = first.endswith(".py")
        return f"no script {first}" if script and not (ROOT / first).exists() else None
    command = cli.get_command(click.Context(cli), first) if not first.startswith("-") else cli
    if command is None:
        return f"no command {first}"
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        inner = command.get_command(click.Context(command), rest.pop(0))
        if inner is None:
            return f"no such part of {first}"
        command = inner
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {
        "--help",
        "-h",
    }
    unknown = [
        word for word in rest if word.startswith("-") and word.split("=")[0] not in known and word != "-"
    ]
    return f"no option {unknown}" if unknown and command is not cli else None


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_of_the_page(page):
    problems = [f"{' '.join(words)}: {wrong(words)}" for words in commands(page) if wrong(words)]
    assert problems == []


@pytest.mark.parametrize(
    "line",
    ["abstain evaluat x.npz", "abstain evaluate x.npz --colour", "make tets", "python benchmarks/no.py"],
)
def test_a_wrong_command_is_caught(tmp_path, line):
    page = tmp_path / "page.md"
    page.write_text(f"```\nABSTAIN_DATA=x {line}   # remark\n```\n\n    {line}\n")
    assert [bool(wrong(words)) for words in commands(page)] == [True, True]


def test_the_readme_shows_commands():
    assert ["make", "demo"] in commands(ROOT / "README.md")
    assert any(words[:2] == ["abstain", "threshold"] for words in commands(ROOT / "README.md"))
