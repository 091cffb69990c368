"""The README starts with the two commands that matter, and names nothing that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

import abstain
from abstain.cli import cli

ROOT = Path(__file__).parents[2]


def test_first_two_commands_are_demo_and_test():
    first_block = re.search(r"```\n(.*?)```", (ROOT / "README.md").read_text(), re.S).group(1)
    assert [line.split("#")[0].strip() for line in first_block.strip().splitlines()] == [
        "make demo",
        "make test",
    ]


def test_every_name_the_readme_uses_exists():
    text = (ROOT / "README.md").read_text()
    for path in set(re.findall(r"abstain((?:\.[A-Za-z_]+)+)\(", text)):
        value = abstain
        for part in path.strip(".").split("."):
            value = getattr(value, part)
        assert callable(value)


def test_the_demo_prints_what_the_readme_shows(tmp_path):
    shown = re.search(r"```console\n\$ abstain demo\n(.*?)```", (ROOT / "README.md").read_text(), re.S).group(
        1
    )
    done = CliRunner().invoke(cli, ["demo", "-o", str(tmp_path / "report.html")])
    assert done.exit_code == 0
    printed = [" ".join(line.split()) for line in done.output.splitlines()]
    for line in shown.splitlines():
        words = " ".join(line.split())
        assert words == "..." or any(words in own for own in printed), line
