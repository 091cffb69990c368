"""The README starts with the two commands that matter, and what it shows is what a reader gets."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from blocks import blocks_of, run_page
from click.testing import CliRunner

import abstain
from abstain.cli import cli

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def test_first_two_commands_are_demo_and_test():
    first_block = re.search(r"```\n(.*?)```", README.read_text(), re.S).group(1)
    assert [line.split("#")[0].strip() for line in first_block.strip().splitlines()] == [
        "make demo",
        "make test",
    ]


def test_every_name_the_readme_uses_exists():
    text = README.read_text()
    for path in set(re.findall(r"abstain((?:\.[A-Za-z_]+)+)\(", text)):
        value = abstain
        for part in path.strip(".").split("."):
            value = getattr(value, part)
        assert callable(value)


def sessions(page: Path) -> list[tuple[list[str], list[str]]]:
    """Each command of a page's console blocks as (words after `abstain`, lines of output that the page shows)."""
    commands: list[tuple[list[str], list[str]]] = []
    for block in blocks_of(page):
        if block.language != "console":
            continue
        for line in block.text.splitlines():
            if line.startswith("$ "):
                program, *words = shlex.split(line[2:])
                assert program == "abstain", line
                commands.append((words, []))
            else:
                commands[-1][1].append(" ".join(line.split()))
    return commands


def missing_lines(page: Path) -> list[str]:
    """Lines that the page shows below a command and that the command does not print there.

    What is shown must be all that is printed, in order, but for empty lines, the rules of tables, and cuts: "..." on a
    line of its own, or at the end of a line, stands for any text up to what is shown next.
    """
    missing = []
    for words, shown_lines in sessions(page):
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output
        printed_lines = [" ".join(line.split()) for line in done.output.splitlines()]
        printed_lines = [line for line in printed_lines if line.strip("─ ")]
        place = 0
        after_cut = False
        for shown in shown_lines:
            if shown == "...":
                after_cut = True
                continue
            start = shown.removesuffix(" ...")
            matches = [
                index
                for index in range(place, len(printed_lines))
                if printed_lines[index] == shown
                or (start != shown and printed_lines[index].startswith(start))
            ]
            if not matches or (matches[0] > place and not after_cut):
                missing.append(shown)
                continue
            place = matches[0] + 1
            after_cut = start != shown
        if place < len(printed_lines) and not after_cut:
            missing.append(f"... (uncut: {printed_lines[place]})")
    return missing


def test_the_commands_print_what_the_readme_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(sessions(README)) >= 5
    assert missing_lines(README) == []


def test_a_line_that_no_command_prints_is_caught(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```console\n$ abstain demo --copy .\n...\nwrote a network\n...\n```\n")
    assert missing_lines(page) == ["wrote a network"]


def test_a_cut_that_is_not_marked_is_caught(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    command = "```console\n$ abstain demo --copy .\n"
    page.write_text(f"{command}wrote cifar10_resnet18_ce.npz\n...\n```\n")
    assert missing_lines(page) == ["wrote cifar10_resnet18_ce.npz"]  # a line before it was left out
    page.write_text(f"{command}wrote cifar10_resnet18_aurc.npz\nwrote cifar10_resnet18_ce.npz\n```\n")
    assert "next:" in missing_lines(page)[0]  # and lines after it
    page.write_text(f"{command}wrote cifar10_resnet18_aurc.npz ...\n```\n")
    assert missing_lines(page) == []


def test_the_first_session_needs_only_the_files_of_the_first_command(tmp_path, monkeypatch):
    """A reader who has run `abstain demo --copy .` can paste the session into a fresh Python."""
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(cli, sessions(README)[0][0])
    page = tmp_path / "page.md"
    (session,) = [block for block in blocks_of(README) if block.language == "pycon"]
    page.write_text(f"```pycon\n{session.text}```\n")
    assert run_page(page, {}) == []


def test_the_readme_is_short():
    assert len(README.read_text().splitlines()) <= 160


def test_the_numbers_of_the_picture_are_those_of_the_caption(monkeypatch):
    """The script draws them from the bundled outputs. Pixels may differ between versions of matplotlib."""
    import matplotlib.pyplot as plt

    monkeypatch.syspath_prepend(ROOT / "docs/generate")
    import first_look

    _figure, ax = plt.subplots()
    first_look.draw(ax)
    drawn = " ".join(text.get_text() for text in ax.texts)
    plt.close("all")
    caption = README.read_text()
    for number in ("4.8%", "84%", "1%", "95%"):
        assert number in drawn
        assert number in caption
    assert "docs/images/first-look.png" in caption
    assert (ROOT / "docs/images/first-look.png").stat().st_size < 100_000
