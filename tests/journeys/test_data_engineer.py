"""A data engineer: predictions of many jobs lie in a folder, larger than memory; a run is killed and taken up again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import abstain
from abstain.engines import files

PARTS, ROWS = 12, 20_000

SCRIPT = """
import sys, time
from abstain.engines import files
from abstain.engines.files import Run

# a slow disk: every part takes a while, so that there is something to interrupt
batches = Run.batches

def slow(self, stage, file):
    time.sleep(0.3 if stage == "partition" else 0)
    yield from batches(self, stage, file)

Run.batches = slow
print(files.aurc(sys.argv[1], resume=sys.argv[2], memory="50MB", progress=False))
"""


@pytest.fixture
def folder(tmp_path):
    """Twelve jobs of two regions, with what a job leaves behind; one is still being written."""
    rng = np.random.default_rng(0)
    everything = []
    for k in range(PARTS):
        sure = rng.random(ROWS)
        wrong = rng.random(ROWS) < 0.4 * (1 - sure) ** 2
        place = tmp_path / "predictions" / f"region={'north' if k % 2 else 'south'}"
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            pa.table({"confidence": sure, "loss": wrong.astype(float)}), place / f"job-{k:02d}.parquet"
        )
        everything.append((wrong, sure, np.full(ROWS, k % 2)))
    (tmp_path / "predictions" / "_SUCCESS").write_text("")
    (tmp_path / "predictions" / "region=north" / "_job-99.parquet").write_bytes(b"half written")
    return tmp_path, [np.concatenate(x) for x in zip(*everything)]


def test_a_killed_run_goes_on_where_it_was(folder):
    place, (wrong, sure, _) = folder
    data, keep = str(place / "predictions"), place / "keep"
    here = {**os.environ, "PYTHONPATH": str(Path(abstain.__file__).parents[1])}
    run = subprocess.Popen([sys.executable, "-c", SCRIPT, data, str(keep)], env=here, stdout=subprocess.PIPE)
    progress = keep / "progress.json"
    for _ in range(600):
        if progress.exists() or run.poll() is not None:
            break
        time.sleep(0.05)
    run.kill()  # the machine goes away: no signal that could be caught
    run.wait()
    assert progress.exists(), "nothing was kept"
    assert files.aurc(data, resume=str(keep), progress=False) == pytest.approx(
        abstain.aurc(wrong, sure), rel=1e-12
    )
    assert not keep.exists()  # what was kept is cleared away when the work is done


def test_by_region_and_from_the_terminal(folder):
    place, (wrong, sure, region) = folder
    data = str(place / "predictions")
    found = files.evaluate(data, groups="region", metrics=["aurc", "risk"], progress=False)
    for code, name in enumerate(("south", "north")):
        mine = region == code
        [entry] = found.select(metric="aurc", group=name)
        assert entry.estimate == pytest.approx(abstain.aurc(wrong[mine], sure[mine]), rel=1e-12)
    asked = [
        sys.executable,
        "-m",
        "abstain",
        "evaluate",
        data,
        "--engine",
        "files",
        "--metric",
        "aurc",
        "--json",
    ]
    here = {**os.environ, "PYTHONPATH": str(Path(abstain.__file__).parents[1])}
    told = json.loads(subprocess.run(asked, env=here, check=True, capture_output=True, text=True).stdout)
    assert told["entries"][0]["estimate"] == pytest.approx(abstain.aurc(wrong, sure), rel=1e-12)


def test_a_damaged_part_is_named(folder):
    place, _ = folder
    bad = place / "predictions" / "region=south" / "job-04.parquet"
    bad.write_bytes(bad.read_bytes()[:2000])
    asked = [sys.executable, "-m", "abstain", "evaluate", str(place / "predictions"), "--engine", "files"]
    here = {**os.environ, "PYTHONPATH": str(Path(abstain.__file__).parents[1])}
    run = subprocess.run(asked, env=here, capture_output=True, text=True)
    assert run.returncode == 3
    assert "job-04.parquet" in run.stderr
    assert "Traceback" not in run.stderr
