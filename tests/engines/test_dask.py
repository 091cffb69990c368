"""Dask: interruptions and damaged data on workers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.engines.test_hostile import ROWS, command, one_line, told, wrong_pages


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    g = rng.random(ROWS)
    return pa.table({"confidence": g, "loss": rng.random(ROWS) < 0.3 * (1 - g)})


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    """200 million rows in less than two megabytes."""
    path = tmp_path_factory.mktemp("endless") / "bomb.parquet"
    part = pa.table({"confidence": np.full(20_000_000, 0.5), "loss": np.zeros(20_000_000)})
    with pq.ParquetWriter(path, part.schema, compression="zstd") as writer:
        for _ in range(10):
            writer.write_table(part, row_group_size=20_000_000)
    assert path.stat().st_size < 2e6
    return path


def test_a_damaged_page_on_workers_of_our_own_is_one_line(table, tmp_path):
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(wrong_pages((tmp_path / "a.parquet").read_bytes()))
    said, status, _ = told("evaluate", tmp_path, "--engine", "dask")
    assert "b.parquet: cannot be read as parquet" in one_line(said)
    assert status != 0


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no groups of processes here")
@pytest.mark.parametrize("later", [0.0, 1.5])
def test_ctrl_c_on_dask_is_one_word(later, endless, request):
    """As a terminal sends it: to the command and to the workers it has just started; another cluster has the port."""
    psutil = pytest.importorskip("psutil")
    with contextlib.suppress(OSError):  # taken already, then
        request.addfinalizer(socket.create_server(("", 8787)).close)
    process = command("evaluate", endless, "--engine", "dask", start_new_session=True)
    try:
        until = time.monotonic() + 60
        while not psutil.Process(process.pid).children(recursive=True) and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(later)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert one_line(said) == "Aborted!"
    assert process.returncode not in (0, None)
