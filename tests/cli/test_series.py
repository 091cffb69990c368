"""A series of checks on the command line: nothing lost, nothing counted twice, and an alarm told whatever fails."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain import _outputs
from abstain.cli import cli
from abstain.errors import DataError

ROWS = 40
CHECK = ("--check", "rule.json", "--state", "series.json")


def write_answers(path, seed, *, error=0.02, n=ROWS, least_confidence=0.0):
    rng = np.random.default_rng(seed)
    confidence = least_confidence + (1 - least_confidence) * rng.random(n)
    lines = [f"{int(rng.random() > error)},{g!r},{k % 2}" for k, g in enumerate(confidence.tolist())]
    path.write_text("\n".join(["correct,confidence,half", *lines]))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_answers(tmp_path / "calibration.csv", 0, n=600)
    assert call("threshold", "calibration.csv", "--risk", "0.1", "--save", "rule.json").exit_code == 0
    write_answers(
        tmp_path / "bad.csv", 1, error=0.9, least_confidence=0.9
    )  # alarms at whichever look it comes
    for k in range(3):
        write_answers(tmp_path / f"good{k}.csv", 10 + k)
    return tmp_path


def call(*arguments):
    return CliRunner().invoke(cli, list(arguments), prog_name="abstain")


def look(name, *more):
    return call("threshold", name, *CHECK, *more)


def state(folder):
    return abstain.thresholds.Check.load(folder / "series.json")


def run_in_process(arguments, start=None):
    """The command in a process of its own, forked so that nothing needs importing again."""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if start is not None:
        start.wait()
    cli(list(arguments), prog_name="abstain")


def start_look(name, start=None):
    process = multiprocessing.get_context("fork").Process(
        target=run_in_process, args=(("threshold", name, *CHECK), start)
    )
    process.start()
    return process


def looks_at_the_same_time(folder, count):
    """Exit codes of that many processes on one state, one of them with an alarm."""
    names = [f"day{k}.csv" for k in range(count - 1)]
    for k, name in enumerate(names):
        write_answers(folder / name, 100 + k)
    start = multiprocessing.get_context("fork").Event()
    processes = [start_look(name, start) for name in ("bad.csv", *names)]
    start.set()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def check_nothing_is_lost(folder, count):
    codes = looks_at_the_same_time(folder, count)
    series = state(folder)
    print(
        f"{count} processes on one state: {series.looks} looks, n = {series.n}, alarm kept: {not series.holds}"
    )
    assert (series.looks, series.n, len(series.files)) == (count, count * ROWS, count)
    assert series.drift_alarm
    assert codes[0] == 5
    assert set(codes) <= {0, 5}
    assert codes.count(5) == count - series.drift_alarm_look + 1  # every look from the alarm on tells it
    assert sorted(x.name for x in folder.iterdir() if x.name.startswith(".")) == []


def test_looks_at_the_same_time_are_all_counted(folder):
    check_nothing_is_lost(folder, 8)


@pytest.mark.slow
def test_fifty_looks_at_the_same_time_are_all_counted(folder):
    check_nothing_is_lost(folder, 50)


def test_the_portable_lock_keeps_looks_apart(folder, monkeypatch):
    monkeypatch.setattr(_outputs, "fcntl", None)
    check_nothing_is_lost(folder, 6)


def kill_at_random_moments(folder, times):
    """Kill as many looks with SIGKILL; the state must be readable and hold every look that had finished."""
    rng = np.random.default_rng(3)
    begun = time.monotonic()
    first = start_look("good0.csv")
    first.join()
    duration = time.monotonic() - begun
    expected = 1
    finished = 0
    for k in range(times):
        write_answers(folder / "today.csv", 1000 + k)
        process = start_look("today.csv")
        process.join(rng.random() * 1.2 * duration)
        process.kill()
        process.join()
        series = state(folder)  # raises unless it is whole
        assert series.looks == len(series.files) == series.n // ROWS
        if process.exitcode in (0, 5):
            finished += 1
            assert series.looks == expected + 1
        assert series.looks in (expected, expected + 1)
        expected = series.looks
    print(
        f"killed {times} times: {finished} had finished, {expected - 1} looks are kept, the state was always valid"
    )
    return finished, expected - 1


def test_killed_looks_leave_a_valid_state(folder):
    _, kept = kill_at_random_moments(folder, 12)
    look("good1.csv")  # no lock is in its way
    assert state(folder).looks == kept + 2


@pytest.mark.slow
def test_two_hundred_killed_looks_leave_a_valid_state(folder):
    finished, kept = kill_at_random_moments(folder, 200)
    assert 0 < finished <= kept < 200


@pytest.mark.parametrize(
    "name", ["series.json", "a-name-of-more-letters-than-a-temporary-file-takes-of-it.json"]
)
def test_temporary_files_of_killed_runs_are_removed(folder, monkeypatch, name):
    target = folder / name
    with monkeypatch.context() as patch:
        # as if the process were killed: the file stays where it is
        patch.setattr("pathlib.Path.unlink", lambda *a, **b: None)
        patch.setattr("pathlib.Path.replace", lambda *a, **b: None)
        with _outputs.replacing(target) as stream:
            stream.write(b"half of it")
    (left_behind,) = folder.glob(".*.part")
    two_hours_ago = time.time() - 7200
    os.utime(left_behind, (two_hours_ago, two_hours_ago))
    in_use = folder / left_behind.name.replace(left_behind.name.split(".")[-2], "fedcba9876543210")
    in_use.write_text("half of it")
    with _outputs.locked(target):
        assert list(folder.glob(".*.part")) == [in_use]


def test_a_file_is_counted_once(folder):
    assert look("good0.csv").exit_code == 0
    (folder / "renamed.csv").write_bytes((folder / "good0.csv").read_bytes())
    again = look("renamed.csv", "--json")
    assert again.exit_code == 0
    assert "renamed.csv was counted in this series before" in again.stderr
    assert json.loads(again.stdout)["looks"] == 1
    assert look("good1.csv").exit_code == 0
    assert (state(folder).looks, state(folder).n) == (2, 2 * ROWS)
    assert look("bad.csv").exit_code == 5
    assert look("good0.csv", "--quiet").stdout.strip() == "alarm"  # the verdict of the series, which stands
    assert state(folder).looks == 3


def test_other_rows_of_one_file_are_other_data(folder):
    for half, looks in (("0", 1), ("1", 2), ("0", 2)):
        assert look("good0.csv", "--only", f"half={half}").exit_code == 0
        assert (state(folder).looks, state(folder).n) == (looks, looks * ROWS // 2)


def test_calibration_data_are_no_later_data(folder):
    (folder / "renamed.csv").write_bytes((folder / "calibration.csv").read_bytes())
    for options in ((), ("--state", "series.json")):
        refused = call("threshold", "renamed.csv", "--check", "rule.json", *options)
        assert refused.exit_code == 3
        assert "the rule was made from these data" in refused.stderr
        assert refused.stderr.count("\n") == 1
    assert not (folder / "series.json").exists()
    told = call("threshold", "calibration.csv", "--check", "rule.json", "--only", "half=0")
    assert told.exit_code == 3  # these rows are calibration rows
    assert "--only must leave those rows out" in told.stderr


@pytest.mark.parametrize("names", ["patient", "number"])
def test_clusters_of_two_files_are_told_apart_by_their_names(folder, names):
    """Not by their place in the file: other patients count, the same ones are left out."""

    def write(path, first, count=60):
        rng = np.random.default_rng(first)
        who = [f"{'p' * (names == 'patient')}{first + k // 2}" for k in range(2 * count)]
        rows = [f"{int(rng.random() > 0.02)},{rng.random()!r},{name}" for name in who]
        (folder / path).write_text("\n".join(["correct,confidence,cluster", *rows]))

    write("patients.csv", 0, 400)
    assert call("threshold", "patients.csv", "--risk", "0.2", "--save", "rule.json").exit_code == 0
    write("one.csv", 1000)
    write("two.csv", 1040)
    write("same.csv", 1010, 20)
    assert json.loads(look("one.csv", "--json").stdout)["n"] == 120
    second = look("two.csv", "--json")
    assert (json.loads(second.stdout)["n"], json.loads(second.stdout)["left_out"]) == (200, 40)
    assert "note: 40 of 120 samples are left out" in second.stderr
    refused = look("same.csv")
    assert refused.exit_code == 3
    assert "a cluster that no earlier look held, got none" in refused.stderr
    assert state(folder).looks == 2


def refuse_to_sync(descriptor):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("trouble", ["no folder", "a folder", "full disk", "locked", "damaged", "output"])
def test_an_alarm_is_told_whatever_fails(folder, monkeypatch, trouble):
    """The verdict comes first and an alarm is exit code 5; without an alarm the trouble is the exit code."""
    options = ["--check", "rule.json", "--state", "series.json"]
    message = "series.json"
    if trouble == "no folder":
        options[-1] = "nowhere/series.json"
    elif trouble == "a folder":
        (folder / "series.json").mkdir()
    elif trouble == "full disk":
        monkeypatch.setattr(os, "fsync", refuse_to_sync)
        message = "No space left"
    elif trouble == "locked":
        monkeypatch.setattr(_outputs, "LOCK_SECONDS", 0.1)
        monkeypatch.setattr(_outputs, "_lock_by_system", lambda lock: None)
        message = "another run has held its lock .series.json.lock"
    elif trouble == "damaged":
        (folder / "series.json").write_text("{")
    else:
        options += ["-o", "/dev/full"]
        message = "/dev/full: cannot be written"
    before = (folder / "series.json").read_bytes() if trouble == "damaged" else None
    for name, code, verdict in (("good0.csv", 3, "Check: no alarm"), ("bad.csv", 5, "Check: ALARM")):
        result = call("threshold", name, *options)
        assert result.exit_code == code, result.stderr
        assert message in result.stderr
        assert "Traceback" not in result.stderr
        if trouble == "output":
            assert state(folder).holds == (code == 3)  # the look is kept all the same
        else:
            assert verdict in result.stdout
            assert "this look is not saved in" in result.stderr
    if before is not None:
        assert (folder / "series.json").read_bytes() == before


def test_a_state_that_was_read_and_cannot_be_written_still_counts_for_the_verdict(folder, monkeypatch):
    assert look("bad.csv").exit_code == 5
    monkeypatch.setattr(os, "fsync", refuse_to_sync)
    later = look("good0.csv")
    assert later.exit_code == 5
    assert "ALARM at look 1" in later.stdout
    assert state(folder).looks == 1


def test_a_lock_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(_outputs, "LOCK_SECONDS", 0.05)
    with _outputs.locked(tmp_path / "x.json"):
        with (
            pytest.raises(
                DataError, match=r"x.json: another run has held its lock .x.json.lock for 0.05 seconds"
            ),
            _outputs.locked(tmp_path / "x.json"),
        ):
            pass
        with _outputs.locked(tmp_path / "y.json"):  # of another file
            pass
    with _outputs.locked(tmp_path / "x.json"):
        pass
    os.symlink(tmp_path / "x.json", tmp_path / "link.json")
    with (
        _outputs.locked(tmp_path / "link.json"),
        pytest.raises(DataError, match="another run"),
        _outputs.locked(tmp_path / "x.json"),
    ):
        pass


def test_a_state_of_an_earlier_version_is_refused_in_one_line(folder):
    """The verdict of the look itself is still printed; the old file stays as it is."""
    look("good0.csv")
    path = folder / "series.json"
    old = path.read_text().replace("abstain.Check/6", "abstain.Check/2")
    path.write_text(old)
    refused = look("good1.csv")
    assert refused.exit_code == 3
    assert "Check: no alarm" in refused.stdout
    lines = [line for line in refused.stderr.splitlines() if "abstain.Check/2" in line]
    assert len(lines) == 1
    assert lines[0].endswith("Begin a new series, in a new file; its false alarms are counted anew.")
    assert path.read_text() == old


# rows that an earlier look held --------------------------------------------------------------------------------------


def grow(folder, name, *parts):
    """An export with the rows of these files, the newest first."""
    header, *_ = (folder / parts[0]).read_text().splitlines()
    rows = [row for part in reversed(parts) for row in (folder / part).read_text().splitlines()[1:]]
    (folder / name).write_text("\n".join([header, *rows]))


@pytest.mark.parametrize("groups", [False, True])
def test_an_export_that_grows_is_not_counted_again(folder, groups):
    options = ("-c", "groups=half") if groups else ()
    if groups:
        call("threshold", "calibration.csv", "--risk", "0.1", "--groups", "--save", "rule.json", *options)
    assert look("good0.csv", *options).exit_code == 0
    assert look("good1.csv", *options).exit_code == 0
    before = (folder / "series.json").read_text()
    grow(folder, "all.csv", "good0.csv", "good1.csv", "good2.csv")
    refused = look("all.csv", *options)
    assert refused.exit_code == 3
    assert "all.csv: holds the rows of an earlier look again (80 of the 80" in refused.stderr
    assert "Give only the rows that came since." in refused.stderr
    assert (folder / "series.json").read_text() == before
    assert look("good2.csv", *options).exit_code == 0  # the new rows alone


def test_some_rows_of_earlier_looks_are_told(folder):
    look("good0.csv")
    lines = (folder / "good0.csv").read_text().splitlines()
    (folder / "overlap.csv").write_text(
        "\n".join(lines[:31] + (folder / "good1.csv").read_text().splitlines()[1:])
    )
    seen = look("overlap.csv")
    assert seen.exit_code == 0
    assert "30 of 40 rows that the series remembers of earlier looks are in overlap.csv too" in seen.stderr
    assert state(folder).n == 110


def test_equal_confidences_are_no_equal_rows_but_equal_ids_are(folder):
    """Ten confidences that every look has: only the ids tell rows apart."""
    for k in range(2):
        lines = [f"q{40 * k + row},1,{0.5 + row % 10 / 20}" for row in range(40)]
        (folder / f"coarse{k}.csv").write_text("\n".join(["id,correct,confidence", *lines]))
    for name in ("coarse0.csv", "coarse1.csv"):
        seen = look(name)
        assert seen.exit_code in (0, 5)  # the confidences are not those of the calibration
        assert "earlier look" not in seen.stderr
    grow(folder, "all.csv", "coarse0.csv", "coarse1.csv")
    (folder / "all.csv").write_text((folder / "all.csv").read_text() + "\nnew,1,0.7")
    assert "holds the rows of an earlier look again" in look("all.csv").stderr


@pytest.mark.parametrize("labels", [True, False])
def test_calibration_rows_in_another_file_are_no_later_data(folder, labels):
    lines = (folder / "calibration.csv").read_text().splitlines()
    columns = slice(None) if labels else slice(1, None)
    rows = [",".join(line.split(",")[columns]) for line in (lines[0], *lines[:300:-1])]
    (folder / "again.csv").write_text("\n".join(rows))
    more = CHECK if labels else CHECK[:2]
    refused = call("threshold", "again.csv", *more)
    assert refused.exit_code == 3
    assert "rows that the rule was made from, which proves nothing about it" in refused.stderr
    assert refused.stdout == ""
    assert not (folder / "series.json").exists()
    mixed = [*rows, *(",".join(line.split(",")[columns]) for line in later_rows(folder))]
    (folder / "mixed.csv").write_text("\n".join(mixed))
    told = call("threshold", "mixed.csv", *more)
    assert told.exit_code in (0, 5)
    assert "are rows of the calibration data" in told.stdout


@pytest.mark.parametrize("labels", [True, False])
def test_shuffled_calibration_rows_of_rounded_confidences_are_refused(folder, labels):
    """Other rows than all of them cannot be told from later ones, which a note says."""
    rng = np.random.default_rng(5)
    lines = [f"{int(rng.random() > 0.02)},{rng.beta(8, 1):.2f}" for _ in range(600)]
    header = "correct,confidence"
    (folder / "rounded.csv").write_text("\n".join([header, *lines]))
    call("threshold", "rounded.csv", "--risk", "0.1", "--save", "rule.json")
    column = slice(0 if labels else 1, None)
    later = [",".join(line.split(",")[column]) for line in (header, *reversed(lines))]
    (folder / "again.csv").write_text("\n".join(later) + "\n\n")
    refused = call("threshold", "again.csv", "--check", "rule.json")
    assert refused.exit_code == 3
    assert "rows that the rule was made from" in refused.stderr
    (folder / "part.csv").write_text("\n".join(later[:401]))
    told = call("threshold", "part.csv", "--check", "rule.json")
    assert told.exit_code == 0
    assert "cannot be recognised among these" in " ".join(told.stdout.split())
    assert "cannot be recognised" not in look("good0.csv").stdout


def later_rows(folder):
    write_answers(folder / "later.csv", 77, n=600)
    return (folder / "later.csv").read_text().splitlines()[1:]
