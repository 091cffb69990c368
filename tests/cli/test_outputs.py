"""What is written never destroys what is read, nor what a path stands for; nothing a file says reaches the terminal."""

from __future__ import annotations

import csv
import io
import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from abstain.cli import cli
from abstain.cli.screen import console
from abstain.errors import DataError
from abstain.formats import read_predictions, replacing, write_predictions

posix = pytest.mark.skipif(os.name == "nt", reason="no pipes, devices or such names there")
TABLE = "correct,confidence,group\n" + "\n".join(
    f"{k % 4 > 0:d},{k / 97:.5f},{'ab'[k % 2]}" for k in range(97)
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TABLE)
    return lambda *arguments: CliRunner().invoke(cli, list(arguments), prog_name="abstain")


SAME = {"itself": "t.csv", "a dot": "./t.csv", "a link": "link.csv", "a hard link": "hard.csv"}


@pytest.mark.parametrize("way", SAME)
@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", "t.csv", "--csv", "-o"],
        ["compare", "t.csv", "t.csv", "-o"],
        ["threshold", "t.csv", "--coverage", "0.5", "--save"],
        ["report", "t.csv", "-o"],
        ["convert", "t.csv"],
    ],
    ids=lambda command: command[0],
)
def test_an_output_is_never_an_input(run, tmp_path, command, way):
    os.symlink("t.csv", "link.csv")
    os.link("t.csv", "hard.csv")
    done = run(*command, SAME[way])
    assert done.exit_code == 3
    assert "must not be written over" in done.output
    assert (tmp_path / "t.csv").read_text() == TABLE


def test_an_output_is_no_part_of_a_folder_that_is_read(run, tmp_path):
    os.mkdir("parts")
    os.rename("t.csv", "parts/t.csv")
    done = run("evaluate", "parts", "--csv", "-o", "parts/t.csv")
    assert done.exit_code == 3
    assert (tmp_path / "parts/t.csv").read_text() == TABLE
    assert run("evaluate", "parts", "--metric", "aurc", "--csv", "-o", "parts.csv").exit_code == 0


def test_predictions_are_not_written_over_their_own_file(run, tmp_path):
    with pytest.raises(DataError, match="must not be written over"):
        write_predictions(read_predictions("t.csv"), tmp_path / "t.csv")


def test_a_link_stays_a_link_and_what_it_points_at_is_written(run):
    Path("old.txt").write_text("old")
    os.symlink("old.txt", "link.txt")
    assert run("evaluate", "t.csv", "-q", "-o", "link.txt").exit_code == 0
    assert os.path.islink("link.txt")
    assert float(Path("old.txt").read_text()) > 0


@posix
def test_a_pipe_is_written_to(run):
    os.mkfifo("pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append(Path("pipe").read_text()), daemon=True)
    reader.start()
    assert run("evaluate", "t.csv", "-q", "-o", "pipe").exit_code == 0
    reader.join(10)
    assert float(got[0]) > 0
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


@posix
def test_a_device_is_written_to(tmp_path):
    main, other = os.openpty()
    with replacing(os.ttyname(other)) as stream:
        stream.write(b"all of it\n")
    assert os.read(main, 100).strip() == b"all of it"
    os.close(main)
    os.close(other)


@posix
@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_the_mode_of_a_file_is_kept(run, mode):
    Path("out.txt").write_text("old")
    os.chmod("out.txt", mode)
    assert run("evaluate", "t.csv", "-q", "-o", "out.txt").exit_code == 0
    assert stat.S_IMODE(os.stat("out.txt").st_mode) == mode


IMPOSSIBLE = ["t.csv/out.txt", "nowhere/out.txt", "n" * 300, "/proc/out.txt", "/proc/self/status"]


@pytest.mark.parametrize("place", IMPOSSIBLE)
@pytest.mark.parametrize(
    "command", [["evaluate", "t.csv", "-q", "-o"], ["threshold", "t.csv", "--coverage", "0.5", "--save"]]
)
def test_an_impossible_place_is_one_line(run, command, place):
    done = run(*command, place)
    assert done.exit_code in (2, 3)
    assert isinstance(done.exception, SystemExit)
    assert "Traceback" not in done.output
    assert len(done.stderr.splitlines()[-1]) < 600


# terminal and spreadsheet

EVIL = "\x1b]0;owned\x07\x1b[31mred\x9b2J"


@pytest.fixture
def evil(run):
    rows = TABLE.replace("a\n", f"{EVIL}\n").replace("b\n", "=HYPERLINK(1)\n")
    Path("t.csv").write_text(rows, encoding="utf-8")
    Path(f"{EVIL}.csv").write_text(TABLE)
    return run


COMMANDS = [
    ["evaluate", "t.csv"], ["evaluate", "t.csv", "--csv"], ["evaluate", "t.csv", "--latex"],
    ["evaluate", "t.csv", "--preview"], ["compare", "t.csv", f"{EVIL}.csv", "--unpaired"],
    ["compare", "t.csv", f"{EVIL}.csv", "--unpaired", "--csv"], ["compare", "t.csv", f"{EVIL}.csv", "--unpaired", "-q"],
    ["compare", "t.csv", f"{EVIL}.csv", "--unpaired", "--latex"],
    ["threshold", "t.csv", "--coverage", "0.5", "--groups"],
    ["threshold", "t.csv", "--coverage", "0.5", "--groups", "--csv"],
    ["evaluate", f"{EVIL}-missing.csv"], ["evaluate", "t.csv", "-c", f"labels={EVIL}"],
    ["evaluate", f"{EVIL}.csv", "-c", "prediction=group"], ["describe", "t.csv"], ["describe", f"{EVIL}.csv"],
    ["evaluate", "t.csv", "--metric", EVIL], ["convert", "t.csv", f"{EVIL}.tsv"],
]  # fmt: skip


@posix
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c).replace(EVIL, "evil"))
@pytest.mark.parametrize("terminal", [False, True], ids=["piped", "terminal"])
def test_no_escape_sequence_reaches_the_terminal(evil, command, terminal, monkeypatch):
    if terminal:  # colours are rich's own then, and only they
        monkeypatch.setenv("FORCE_COLOR", "1")
    done = evil(*command)
    for sequence in ("\x1b]", "\x07", "\x9b", "\x1b[31mred"):
        assert sequence not in done.stdout + done.stderr


def test_text_on_the_console_steers_nothing():
    seen = io.StringIO()
    console(file=seen).print(EVIL)
    assert seen.getvalue() == "\\x1b]0;owned\\x1b[31mred\\x9b2J\n"  # rich drops the bell by itself


@posix
def test_formulas_are_defused_in_tables_for_spreadsheets_and_that_is_told(evil):
    done = evil("evaluate", "t.csv", "--metric", "aurc", "--csv")
    cells = [cell for row in csv.reader(io.StringIO(done.stdout)) for cell in row]
    assert "'=HYPERLINK(1)" in cells
    assert not [c for c in cells if c.startswith(("=", "+", "@"))]
    assert "begin as a formula does" in done.stderr
    done = evil("convert", "t.csv", "safe.tsv")
    assert "begin as a formula does" in done.stderr
    assert "\t=" not in Path("safe.tsv").read_text()


def test_numbers_are_no_formulas(run):
    np.savez("t.npz", loss=np.array([-1.5, 2.0, 0.5]), confidence=np.array([-3.0, -2.0, -1.0]))
    done = run("convert", "t.npz", "t2.csv")
    assert "formula" not in done.output
    assert Path("t2.csv").read_text() == "confidence,loss\n-3.0,-1.5\n-2.0,2.0\n-1.0,0.5\n"
