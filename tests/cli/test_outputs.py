"""What is written never destroys what is read, nor what a path stands for; nothing a file says reaches the terminal."""

from __future__ import annotations

import csv
import html
import io
import itertools
import json
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.cli.options import OutputFile
from abstain.cli.screen import make_console
from abstain.errors import DataError
from abstain.formats import Predictions, open_source, read_predictions, replacing, write_predictions

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


# every command and every pair of its outputs, found in the commands themselves: a new option cannot be forgotten

ALL = {name: cli.get_command(click.Context(cli), name) for name in cli.list_commands(click.Context(cli))}


def outputs_of(command):
    """The flags of a command's outputs, each by its longest spelling."""
    return [
        max(p.opts, key=len) for p in command.params if isinstance(p.type, OutputFile) and p.opts[0] != p.name
    ]


def smallest_call(command):
    """Arguments that a command cannot do without."""
    words = []
    for param in command.params:
        if param.required and not isinstance(param.type, OutputFile):
            words += [param.opts[-1]] * isinstance(param, click.Option) + ["t.csv"]
    return words


PAIRS = [
    (name, *pair) for name, command in ALL.items() for pair in itertools.combinations(outputs_of(command), 2)
]
ONE_FILE = {
    "itself": ("x", "x"),
    "a dot": ("x", "./x"),
    "a longer way": ("x", "folder/../x"),
    "a linked folder": ("folder/x", "same/x"),
    "a link to nothing yet": ("folder/x", "later"),
    "another case": ("x", "X"),
    "other accents": ("caf\u00e9", "cafe\u0301"),
    "one that is there": ("old", "./old"),
}


def test_the_pairs_of_outputs_are_found():
    assert ("compare", "--html", "--output") in PAIRS
    assert {pair for name, *pair in PAIRS if name == "threshold" for pair in [frozenset(pair)]} == {
        frozenset(pair) for pair in itertools.combinations(["--save", "--record", "--state", "--output"], 2)
    }


def test_every_file_that_a_command_writes_is_known_as_an_output():
    """A path that need not exist is an output, and whatever is shown as FILE has the type of a path."""
    for name, command in ALL.items():
        for param in command.params:
            place = (name, param.name)
            if isinstance(param.type, click.Path) and not param.type.exists:
                assert isinstance(param.type, OutputFile), place
            if param.metavar in ("FILE", "RULE", "OUT"):
                assert isinstance(param.type, click.Path), place


@pytest.mark.parametrize("way", ONE_FILE)
@pytest.mark.parametrize(("name", "one", "other"), PAIRS, ids="-".join)
def test_two_outputs_are_never_one_file(run, tmp_path, name, one, other, way):
    os.mkdir("folder")
    os.symlink("folder", "same")
    os.symlink("folder/x", "later")
    Path("old").write_text("old")
    before = sorted(tmp_path.rglob("*"))
    first, second = ONE_FILE[way]
    done = run(name, *smallest_call(ALL[name]), one, first, other, second)
    assert done.exit_code == 2, done.output
    assert "name the same file" in done.stderr.splitlines()[-1]
    assert sorted(tmp_path.rglob("*")) == before
    assert Path("old").read_text() == "old"


def test_a_device_may_take_two_outputs(run):
    done = run("threshold", "t.csv", "--coverage", "0.5", "--save", os.devnull, "--record", os.devnull)
    assert done.exit_code == 0, done.output


def test_an_output_is_never_where_standard_output_goes(run):
    """The shell has opened the file already: what is printed would be lost, or what is saved."""
    command = [sys.executable, "-m", "abstain", "threshold", "t.csv", "--coverage", "0.5", "--save", "x.json"]
    with open("x.json", "w") as target:
        done = subprocess.run(command, stdout=target, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "--save and standard output are the same file" in done.stderr


# the name of a file says its format

WRONG_NAMES = {
    "--save": "x.csv",
    "--save-rule": "x.csv",
    "--record": "x.html",
    "--state": "x.npz",
    "--html": "x.md",
    "--output": "x.xlsx",
}


@pytest.mark.parametrize(
    ("name", "flag"),
    [(name, flag) for name, command in ALL.items() for flag in outputs_of(command)],
    ids="-".join,
)
def test_a_name_that_promises_another_format_is_refused_before_any_work(run, name, flag):
    done = run(name, *smallest_call(ALL[name]), flag, WRONG_NAMES[flag])
    assert done.exit_code == 2, done.output
    assert f"{WRONG_NAMES[flag]}: its name must end in" in done.stderr
    assert not os.path.exists(WRONG_NAMES[flag])


@pytest.mark.parametrize("call", [["t.csv", "--json", "-o", "x.csv"], ["t.csv", "-q", "-o", "x.tex"]])
def test_a_form_and_a_name_that_disagree_are_refused(run, call):
    done = run("evaluate", *call)
    assert done.exit_code == 2
    assert "its name must end in" in done.stderr


def test_the_form_is_the_one_that_the_name_says(run):
    for name in ("x.json", "x.csv", "x.tex", "x.txt", "x"):
        assert run("evaluate", "t.csv", "--metric", "aurc", "-o", name).exit_code == 0
    assert json.loads(Path("x.json").read_text())["entries"]
    assert Path("x.csv").read_text().startswith("score,loss,metric")
    assert Path("x.tex").read_text().startswith("\\begin{table}")
    assert Path("x.txt").read_text() == Path("x").read_text()


@pytest.mark.parametrize("ending", ["", ".csv", ".tsv", ".json", ".jsonl", ".parquet", ".arrow", ".feather"])
def test_decisions_are_written_in_the_format_that_the_name_says(run, ending):
    Path("new.csv").write_text("id,confidence\na,0.9\nb,0.1\n")
    assert run("threshold", "t.csv", "--coverage", "0.5", "--save", "rule.json").exit_code == 0
    done = run("decide", "rule.json", "new.csv", "-o", f"d{ending}")
    assert done.exit_code == 0, done.output
    columns = open_source(f"d{ending}", format=None if ending else "csv").columns
    assert list(columns) == ["id", "confidence", "accepted"]
    assert [int(x) for x in columns["accepted"].load()] == [1, 0]


def test_no_column_of_the_user_is_replaced_by_a_decision(run):
    Path("new.csv").write_text("accepted,confidence\nno,0.9\nno,0.1\n")
    assert run("threshold", "t.csv", "--coverage", "0.5", "--save", "rule.json").exit_code == 0
    done = run("decide", "rule.json", "new.csv", "-o", "d.csv")
    assert done.exit_code == 3
    assert "new.csv: has a column `accepted` already" in done.stderr
    assert not os.path.exists("d.csv")
    assert run("decide", "rule.json", "new.csv", "--name", "accepted_now", "-o", "d.csv").exit_code == 0
    assert Path("d.csv").read_text() == "accepted,confidence,accepted_now\nno,0.9,1\nno,0.1,0\n"


def test_computed_columns_leave_those_of_the_user_alone(run):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 3))
    np.savez("cal.npz", logits=logits, labels=(logits.argmax(1) + (rng.random(200) < 0.1)) % 3)
    theirs = np.arange(200.0)
    np.savez("new.npz", logits=logits, prediction=theirs, max_softmax=theirs)
    assert run("threshold", "cal.npz", "--coverage", "0.5", "--save", "rule.json").exit_code == 0
    done = run("decide", "rule.json", "new.npz", "-o", "d.parquet")
    assert done.exit_code == 0, done.output
    columns = {name: column.load() for name, column in open_source("d.parquet").columns.items()}
    np.testing.assert_array_equal(columns["max_softmax"], theirs)
    assert 0 < columns["max_softmax_computed"].min() < columns["max_softmax_computed"].max() <= 1
    assert "the computed one is `max_softmax_computed`" in done.stderr


def test_a_read_only_file_is_not_replaced(run, monkeypatch):
    """Replacing would succeed in any folder that may be written to, whatever the mode of the file."""
    Path("x.json").write_text("old")
    monkeypatch.setattr(
        "abstain._outputs.os.access", lambda path, mode: mode != os.W_OK
    )  # for the superuser, too
    done = run("threshold", "t.csv", "--coverage", "0.5", "--save", "x.json")
    assert done.exit_code == 3
    assert "x.json: is read-only" in done.stderr
    assert Path("x.json").read_text() == "old"


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


# the terminal cannot take it: one line and an exit code, whatever is printed


def in_a_shell(command, **more):
    """A command in a process of its own, with real standard streams."""
    arguments = [sys.executable, "-m", "abstain", *command]
    return subprocess.run(arguments, stderr=subprocess.PIPE, **more)


@posix
@pytest.mark.parametrize(
    "command", [["evaluate", "t.csv"], ["evaluate", "t.csv", "--json"], ["--help"], ["version"]], ids=" ".join
)
def test_a_full_standard_output_is_one_line(run, command):
    with open("/dev/full", "wb") as full:
        done = in_a_shell(command, stdout=full)
    assert done.returncode == 3
    assert (
        done.stderr.decode()
        == "abstain: standard output: cannot be read or written (No space left on device).\n"
    )


@posix
@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", "t.csv", "-o"],
        ["compare", "t.csv", "t.csv", "--unpaired", "-q", "--html"],
        ["report", "t.csv", "-o"],
        ["threshold", "t.csv", "--coverage", "0.5", "--save"],
        ["threshold", "t.csv", "--coverage", "0.5", "--record"],
    ],
    ids=lambda command: f"{command[0]} {command[-1]}",
)
def test_a_full_output_device_is_one_line(run, command):
    done = run(*command, "/dev/full")
    assert done.exit_code == 3
    assert done.stderr.splitlines()[-1] == "abstain: /dev/full: cannot be written (No space left on device)."


@posix
def test_a_reader_that_leaves_is_no_traceback(run):
    reader, writer = os.pipe()
    os.close(reader)
    done = in_a_shell(["evaluate", "t.csv", "--json"], stdout=writer)
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == b""


@posix
def test_closed_streams_are_no_error(run):
    code = 'exec 1>&- 2>&-; exec "$0" -m abstain evaluate t.csv'
    assert subprocess.run(["/bin/sh", "-c", code, sys.executable]).returncode == 0


NAMES = {"accents": "café".encode(), "another script": "日本".encode(), "no text": b"bad\xff"}
TERMINALS = {
    "ascii": {"PYTHONIOENCODING": "ascii:strict"},
    "cp1252": {"PYTHONIOENCODING": "cp1252:strict"},
    "the C locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@posix
@pytest.mark.parametrize(
    ("name", "terminal"), [("accents", "ascii"), ("another script", "cp1252"), ("no text", "the C locale")]
)
def test_a_name_that_the_terminal_cannot_print_is_spelt_out(run, name, terminal):
    """One command that prints the name and writes it into every kind of file, and one that complains of it."""
    file = NAMES[name] + b".csv"
    Path(os.fsdecode(file)).write_text(TABLE.replace("a\n", "é日\n"), encoding="utf-8")
    environment = {**os.environ, **TERMINALS[terminal]}
    page = ["--html", NAMES[name] + b".html", "--csv"]
    record = ["--groups", "--save", NAMES[name] + b".json", "--record", "record.md"]
    for code, command in [
        (0, ["compare", file, "t.csv", "--unpaired", *page]),
        (0, ["threshold", file, "--coverage", "0.5", *record]),
        (2, ["evaluate", b"missing " + file]),
    ]:
        done = in_a_shell(command, stdout=subprocess.PIPE, env=environment)
        assert done.returncode == code, done.stderr
        assert b"Traceback" not in done.stderr
    assert b"SHA-256" in Path("record.md").read_bytes()


# terminal, spreadsheet, page, LaTeX: characters that steer are spelt out

STEERING = ["\x1b]0;owned\x07", "\x1b[31mred", "\x9b2J", "\u202eevil", "\u2066", "\u200f"]
EVIL = "".join(STEERING)


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
    for sequence in STEERING:
        assert sequence not in done.stdout + done.stderr


@posix
def test_nothing_that_steers_reaches_a_page(evil):
    """Neither its markup nor the data that its script puts into the page."""
    assert evil("report", "t.csv", f"{EVIL}.csv", "-o", "report.html", "--title", EVIL).exit_code == 0
    assert evil("compare", "t.csv", f"{EVIL}.csv", "--unpaired", "--html", "board.html").exit_code == 0
    assert evil("threshold", "t.csv", "--coverage", "0.5", "--groups", "--record", "record.md").exit_code == 0
    for name in ("report.html", "board.html", "record.md"):
        text = Path(name).read_text(encoding="utf-8")
        assert not [c for c in "".join(STEERING) if not c.isprintable() and c in text], name
        assert "\\u202eevil" in text, name
        data = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.S)
        cells = [html.unescape(cell) for cell in re.findall(r'data-csv="([^"]*)"', text)]
        for part in [*data, *cells]:  # as the page's script reads them
            decoded = json.dumps(json.loads(part), ensure_ascii=False)
            assert not [c for c in "".join(STEERING) if not c.isprintable() and c in decoded], name


def results_with(name):
    """A result of every kind that quotes a name of the user's."""
    loss = np.array([0.0, 1.0, 0.0, 0.0] * 10)
    confidence = np.arange(40.0)
    groups = np.array([name, "b"] * 20)
    labels = np.array([name, "b"] * 20)
    stages = {name: (loss, confidence, 1.0), "b": (1 - loss, confidence[::-1].copy(), 2.0)}
    rule = abstain.select_threshold(loss, confidence, coverage=0.5)
    grouped = abstain.select_threshold(loss, confidence, coverage=0.5, groups=groups)
    comparison = abstain.compare({name: (loss, confidence), "b": (loss, confidence[::-1].copy())})
    return [
        abstain.evaluate(loss=loss, confidence=confidence, groups=groups),
        comparison,
        comparison.pairs[0],
        rule.made_from("confidence", data=name),
        grouped,
        grouped.check(loss, confidence * 0.999, groups),
        abstain.aurc(loss, confidence, groups=groups),
        abstain.inference.interval(abstain.aurc, loss, confidence, groups=groups),
        abstain.clinical_table(labels, labels[::-1].copy(), confidence, positive=name),
        abstain.cascade(stages, person=(10, 0), risk=0.5),
        abstain.cascades.cost_risk_curve(stages, person=(10, 0)),
        Predictions(name, "t.csv", "csv", 40, loss=loss, confidence=confidence),
    ]


def test_no_result_shows_characters_that_steer():
    for result in results_with(EVIL):
        kinds = ["__repr__", "_repr_html_", "to_latex", "to_markdown", "to_html"]
        for text in [getattr(result, kind)() for kind in kinds if hasattr(result, kind)]:
            assert not [c for c in EVIL if not c.isprintable() and c in text], type(result)


def test_names_without_such_characters_are_shown_as_they_are():
    for plain, evil in zip(results_with("Zürich 日本"), results_with(EVIL)):
        assert ("Zürich 日本" in repr(plain)) == ("u202e" in repr(evil)), type(plain)


# pages and records are passed on: they name files, not the folders of their author


@posix
def test_no_page_names_the_folders_of_its_author(run, tmp_path):
    for part in ("a", "b"):
        os.mkdir(part)
        os.link("t.csv", f"{part}/t.csv")
    files = [str(tmp_path / part / "t.csv") for part in ("a", "b")]
    assert run("compare", *files, "--html", str(tmp_path / "board.html")).exit_code == 0
    assert run("report", *files, "-o", str(tmp_path / "report.html")).exit_code == 0
    rule = ["--save", str(tmp_path / "rule.json"), f"--record={tmp_path / 'record.md'}"]
    assert run("threshold", files[0], "--coverage", "0.5", *rule).exit_code == 0
    cost = ["--cost", "1,2", "--person-cost", "9", "--person-error", "0", "--risk", "0.6"]
    page = ["--save", str(tmp_path / "cascade.json"), "--record", str(tmp_path / "cascade.md")]
    assert run("cascade", *files, *cost, *page).exit_code == 0
    for name in ("board.html", "report.html", "record.md", "rule.json", "cascade.md", "cascade.json"):
        text = Path(name).read_text()
        assert str(tmp_path) not in text, name
        assert tmp_path.name not in text, name
    assert "a/t" in Path("board.html").read_text()
    assert "abstain decide rule.json" in Path("record.md").read_text()


def test_text_on_the_console_steers_nothing():
    seen = io.StringIO()
    make_console(file=seen).print(EVIL)
    spelt = "\\x1b]0;owned\\x1b[31mred\\x9b2J\\u202eevil\\u2066\\u200f\n"  # rich drops the bell by itself
    assert seen.getvalue() == spelt


@posix
def test_formulas_are_defused_in_tables_for_spreadsheets_and_that_is_told(evil):
    done = evil("evaluate", "t.csv", "--metric", "aurc", "--csv")
    cells = [cell for row in csv.reader(io.StringIO(done.stdout)) for cell in row]
    assert "'=HYPERLINK(1)" in cells
    assert not [c for c in cells if c.startswith(("=", "+", "@"))]
    assert "as a formula does" in done.stderr
    done = evil("convert", "t.csv", "safe.tsv")
    assert "as a formula does" in done.stderr
    assert "\t=" not in Path("safe.tsv").read_text()


def test_numbers_are_no_formulas(run):
    np.savez("t.npz", loss=np.array([-1.5, 2.0, 0.5]), confidence=np.array([-3.0, -2.0, -1.0]))
    done = run("convert", "t.npz", "t2.csv")
    assert "formula" not in done.output
    assert Path("t2.csv").read_text() == "confidence,loss\n-3.0,-1.5\n-2.0,2.0\n-1.0,0.5\n"


def test_no_infinite_limit_is_printed(run):
    """The NAURC of a model without any error has no upper limit."""
    confidence = np.arange(50.0)
    np.savez("right.npz", loss=np.zeros(50), confidence=confidence)
    np.savez("other.npz", loss=np.arange(50) % 4 == 0, confidence=confidence)
    shown = run("compare", "right.npz", "other.npz", "--metric", "naurc")
    assert shown.exit_code == 0
    assert "too few to compare" in re.sub(r"\s+", " ", shown.stdout)
    assert "inf" not in shown.stdout
    judged = run("gate", "right.npz", "other.npz", "--metric", "naurc", "--margin", "0.01")
    assert judged.exit_code == 7
    assert "no limits of the difference can be given: not enough data, it rests" in judged.stdout
    assert "inf" not in judged.stdout
    undefined = run("gate", "right.npz", "other.npz", "--metric", "auroc", "--margin", "0.01")
    assert (undefined.exit_code, undefined.stdout) == (4, "")
    assert "right: auroc needs both right and wrong samples" in undefined.stderr
