"""Bad files: one clear line, exit code 3, no traceback, no code run, memory bounded."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from abstain.formats import Limits, read_predictions

sys.path.insert(0, str(Path(__file__).parent))
import malformed

pytestmark = pytest.mark.xdist_group("malformed")  # one process makes the damaged files

HERE = Path(__file__).parent
NAMES = [
    *malformed.small_files(Path("mark")), "zip-bomb.npz", "gz-bomb.csv.gz", "long-line-bomb.csv.gz",
    "blank-bomb.json.gz", "arrow-bomb.arrow", "parquet-bomb.parquet", "wide-bomb.csv.gz", "list-bomb.json",
    "stride-bomb.pt", "pickle-inside.pt", "text-bomb.csv.gz", "sheet-bomb.xlsx",
]  # fmt: skip


def run_all(calls):
    """What `evaluate` says of each file, all in one process."""
    done = subprocess.run(
        [sys.executable, HERE / "one_process.py"],
        input=json.dumps([["evaluate", *call] for call in calls]),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    mark = folder / "code-was-run"
    calls = malformed.write_all(folder, mark)
    assert sorted(calls) == sorted(NAMES)
    return dict(zip(calls, run_all([[str(folder / name), *more] for name, more in calls.items()]))), mark


def test_small_files_that_grow_are_refused_at_once(tmp_path):
    """Within seconds, and within the memory that any file may take: a sixteenth of --memory."""
    names = malformed.write_growing(tmp_path, free=50 * 10**6)
    assert len(names) > 25
    good = tmp_path / "good.csv"  # goes first, so that no hostile file pays for what is imported late
    good.write_text("correct,confidence\n1,0.9\n0,0.4\n")
    _, *answers = run_all(
        [[str(path), "--memory", "800MB"] for path in (good, *(tmp_path / n for n in names))]
    )
    for name, answer in zip(names, answers, strict=True):
        assert answer["code"] == 3, (name, answer)
        assert len(answer["err"].splitlines()) == 1, (name, answer["err"])
        assert name in answer["err"]
        assert answer["grew"] < 120 * 2**20, (name, answer["grew"])
        assert answer["seconds"] < 5, (name, answer["seconds"])


@pytest.mark.parametrize("packer", [gzip, lzma, bz2], ids=lambda module: module.__name__)
def test_a_table_that_packs_well_is_still_read(tmp_path, packer):
    """Three levels of confidence, nearly all right: about as little as a row of predictions can tell."""
    rng = np.random.default_rng(0)
    levels = rng.choice(["90", "95", "99"], 200_000)
    correct = (rng.random(200_000) < 0.97).astype(int)
    text = "correct,confidence\n" + "".join(f"{c},{g}\n" for c, g in zip(correct, levels))
    path = tmp_path / f"rows.csv.{ {gzip: 'gz', lzma: 'xz', bz2: 'bz2'}[packer] }"
    path.write_bytes(packer.compress(text.encode()))
    limits = Limits(memory=80 * 10**6)  # a sixteenth of it is half of what the cells take
    assert read_predictions(path, limits=limits).n == 200_000


@pytest.mark.parametrize("name", NAMES)
def test_one_clear_line_and_exit_code_3(answers, name):
    answer = answers[0][name]
    assert answer["code"] == 3, answer
    lines = answer["err"].splitlines()
    assert len(lines) == 1, answer["err"]
    assert lines[0].startswith("abstain: ")
    assert name in lines[0]
    assert len(lines[0]) < 600
    assert "Traceback" not in answer["err"] + answer["out"]
    assert answer["out"] == ""


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_bounded(answers, name):
    allowed = (
        160 * 2**20 if "bomb" in name else 100 * 2**20
    )  # bombs may fill the 50 MB they are allowed, and copies
    assert answers[0][name]["grew"] < allowed


def test_no_code_was_run(answers):
    assert not answers[1].exists()


def test_the_bombs_would_have_gone_off(tmp_path):
    import pickle

    mark = tmp_path / "mark"
    pickle.loads(pickle.dumps(malformed.Bomb(mark)))
    assert mark.exists()


def test_a_good_file_passes_the_same_harness(tmp_path):
    (tmp_path / "good.npz").write_bytes(malformed._good_npz())
    call = [["evaluate", str(tmp_path / "good.npz"), "--metrics", "aurc", "--quiet"]]
    done = subprocess.run(
        [sys.executable, HERE / "one_process.py"],
        input=json.dumps(call),
        capture_output=True,
        text=True,
        check=True,
    )
    (answer,) = json.loads(done.stdout)
    assert answer["code"] in (0, None)
    assert 0 <= float(answer["out"]) <= 1


@pytest.mark.parametrize("rest", ["", ",group"], ids=["not used", "as a group"])
def test_one_long_cell_costs_its_own_length(tmp_path, rest):
    """Fixed-width text would hold every cell at the length of the longest: a gigabyte here."""
    path = tmp_path / "t.csv"
    rows = [f"{k % 3 > 0:d},{k / 3000:.4f},{'ab'[k % 2]}" for k in range(3000)]
    path.write_text(
        "\n".join([f"correct,confidence,{rest[1:] or 'answer'}", *rows, "1,0.5," + "x" * 130_000])
    )
    call = ["evaluate", str(path), "--metric", "risk", "--memory", "50MB", "--quiet"]
    done = subprocess.run(
        [sys.executable, HERE / "one_process.py"],
        input=json.dumps([call]),
        capture_output=True,
        text=True,
        check=True,
    )
    (answer,) = json.loads(done.stdout)
    assert answer["code"] == 0, answer["err"]
    assert float(answer["out"]) == pytest.approx(1000 / 3001)
    assert answer["grew"] < 100 * 2**20
