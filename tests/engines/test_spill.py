"""Samples on disk: full disks, interruptions, memory budgets, and work that is resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import abstain
from abstain.engines import files
from tests.engines.test_files import pa

from .conftest import write_parts


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    g = rng.normal(0, 1, 30_000)
    return rng.random(30_000) < 0.3 / (1 + np.exp(g)), g


@pytest.fixture
def tiny_ranges(monkeypatch):
    import abstain.engines.files as files

    monkeypatch.setattr(files, "samples_that_fit", lambda *a: 2000)
    monkeypatch.setattr(files, "_fits_in_memory", lambda *a: False)


def test_more_groups_than_files_may_be_open(sample, tmp_path, monkeypatch):
    from abstain.engines import spill

    l, g = sample
    labels = np.random.default_rng(6).integers(0, 40, len(l))
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l, "kind": labels})
    monkeypatch.setattr(spill, "_MAX_OPEN_FILES", 7)
    original, most = spill.Spill.append, []

    def counted(self, number, columns):
        original(self, number, columns)
        most.append(len(self._files))

    monkeypatch.setattr(spill.Spill, "append", counted)
    found = files.aurc(path, groups="kind")
    assert max(most) == 7
    assert found.values == pytest.approx(abstain.aurc(l, g, groups=labels).values, rel=1e-12)


SCRIPT = """
import resource, signal, sys, time
from abstain.engines import files
files.samples_that_fit = lambda *a: 2000
files._fits_in_memory = lambda *a: False
{more}
print(repr(files.aurc({path!r}, {options})), flush=True)
"""


def run(path, options, more=""):
    code = textwrap.dedent(SCRIPT).format(path=path, options=options, more=textwrap.dedent(more))
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_full_disk_is_told_and_nothing_is_left(sample, tmp_path):
    """The kernel itself refuses to let any file grow beyond 4 kB."""
    l, g = sample
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l})
    (tmp_path / "spill").mkdir()
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    process = run(path, f"spill={str(tmp_path / 'spill')!r}", limit)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "SpillError" in errors
    assert "no room left for intermediate data" in errors
    assert os.listdir(tmp_path / "spill") == []


def interrupted(path, options):
    """Start, and send Ctrl-C once the second pass has done five files."""
    more = """
    original = files.Run.partition
    def slow(self, *a):
        read, seen = self.read, []
        def held(file):
            seen.append(file)
            yield from read(file)
            if len(seen) == 6:  # its samples are written, but not yet noted as done
                print("waiting", flush=True)
                time.sleep(60)
        self.read = held
        return original(self, *a)
    files.Run.partition = slow
    """
    process = run(path, options, more)
    assert process.stdout.readline().strip() == "waiting"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0


def test_ctrl_c_leaves_nothing_behind(sample, tmp_path):
    l, g = sample
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l})
    (tmp_path / "spill").mkdir()
    interrupted(path, f"spill={str(tmp_path / 'spill')!r}")
    assert os.listdir(tmp_path / "spill") == []


def test_an_interrupted_run_is_taken_up_again(sample, tmp_path, tiny_ranges, monkeypatch):
    l, g = sample
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l})
    keep = str(tmp_path / "keep")
    interrupted(path, f"resume={keep!r}")
    assert (tmp_path / "keep" / "progress.json").exists()
    from abstain.engines import files
    from abstain.formats.table_files import find_files

    seen = []
    original = files.Run.partition

    def counted(self, *a):
        read = self.read
        self.read = lambda file: (seen.append(file), read(file))[1]
        return original(self, *a)

    monkeypatch.setattr(files.Run, "partition", counted)
    assert files.aurc(path, resume=keep) == pytest.approx(abstain.aurc(l, g), rel=1e-13)
    assert len(seen) == len(find_files("test", path)) - 5  # five were done before
    assert not os.path.exists(keep)


def test_the_budget_is_obeyed(tmp_path):
    """Six million samples within 20 MB above what reading takes; peak of the process by the kernel's account."""
    import pyarrow.parquet as pq

    rng = np.random.default_rng(4)
    for k in range(6):
        g = rng.random(1_000_000, dtype=np.float32)
        pq.write_table(
            pa.table({"confidence": g, "loss": rng.random(1_000_000) < 0.1}), tmp_path / f"{k}.parquet"
        )
    code = f"""
from abstain.engines import files
value = files.aurc({str(tmp_path)!r}, memory="350MB", progress=False)
peak = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
print(value, peak)
"""
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    value, peak = done.stdout.split()
    assert int(peak) * 1024 < 350e6, (
        f"peak {int(peak) / 1024:.0f} MiB after {time.perf_counter() - started:.0f} s"
    )
    assert 0.09 < float(value) < 0.11


@pytest.mark.parametrize("groups", [None, "team"])
def test_work_is_taken_up_with_the_ranges_it_was_begun_with(sample, tmp_path, monkeypatch, groups):
    """Between the runs the memory to spare changes, and with it where ranges would be cut.

    The first run stops after three files, the second one as soon as it has saved how far it came.
    """
    from abstain.engines import files

    l, g = sample
    team = np.where(g > 0.3, "a", "b")
    (tmp_path / "data").mkdir()
    for k in range(6):
        some = slice(5000 * k, 5000 * (k + 1))
        table = pa.table({"confidence": g[some], "loss": l[some], "team": team[some]})
        pa.parquet.write_table(table, tmp_path / "data" / f"{k}.parquet")
    monkeypatch.setattr(files, "_fits_in_memory", lambda *a: False)
    monkeypatch.setattr(files, "samples_that_fit", lambda *a: 2000)
    stopped = []

    def note(*given):
        real(*given)
        if len(stopped) == 1 or (given[2] == 3 and not stopped):
            stopped.append(given[2])
            raise KeyboardInterrupt

    real = files._save_progress
    monkeypatch.setattr(files, "_save_progress", note)
    request = {"resume": str(tmp_path / "kept"), "groups": groups}
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            files.aurc(str(tmp_path / "data"), **request)
    assert stopped == [3, 4]
    monkeypatch.setattr(files, "samples_that_fit", lambda *a: 3500)
    found = files.aurc(str(tmp_path / "data"), **request)
    if groups is None:
        assert found == pytest.approx(abstain.aurc(l, g), rel=1e-12)
    else:
        for name, value in found.values.items():
            assert value == pytest.approx(abstain.aurc(l[team == name], g[team == name]), rel=1e-12)
