"""Files that are damaged, endless or no files at all: one clear line, bounded memory, and Ctrl-C is obeyed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from abstain.engines import dask, files
from abstain.errors import DataError

ROWS = 20_000


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    g = rng.random(ROWS)
    return pa.table({"confidence": g, "loss": rng.random(ROWS) < 0.3 * (1 - g)})


def command(*arguments, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "abstain", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **more,
    )


MEASURED = """
import sys
from abstain.cli import main
try:
    main(sys.argv[2:])
finally:
    if sys.platform == "linux":
        with open("/proc/self/status") as status, open(sys.argv[1], "w") as peak:
            peak.write(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


def told(*arguments):
    """What a command says, its exit status, and the most memory it held (in bytes; 0 where there is no /proc).

    By the process's own account: what `wait4` reports begins with the memory of the process that started it.
    """
    with tempfile.NamedTemporaryFile("r") as peak:
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, peak.name, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.stdout, done.returncode, 1024 * int(peak.read() or 0)


def one_line(said):
    lines = [line for line in said.splitlines() if line.strip()]
    assert len(lines) == 1, said
    assert "Traceback" not in said
    return lines[0]


def cut_short(raw):
    return raw[: len(raw) // 3]


def wrong_pages(raw):
    return raw[:4] + b"\xff" * 36 + raw[40:]


def noise(raw):
    return raw[:6] + np.random.default_rng(1).bytes(3000)


def noise_alone(raw):
    return np.random.default_rng(1).bytes(3000)


def nothing(raw):
    return b""


@pytest.mark.parametrize("damage", [cut_short, wrong_pages, noise, nothing])
@pytest.mark.parametrize("name", ["files", "dask"])
def test_a_damaged_parquet_in_a_folder_is_named(name, damage, table, tmp_path, request):
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(damage((tmp_path / "a.parquet").read_bytes()))
    engine, where = files, {}
    if name == "dask":
        engine, where = dask, {"client": request.getfixturevalue("dask_client")}
    with pytest.raises(
        DataError, match=r"b\.parquet: cannot be read as parquet; it seems to be damaged"
    ) as caught:
        engine.aurc(tmp_path, **where)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", [cut_short, noise, noise_alone, nothing])
def test_a_damaged_arrow_file_is_named(damage, table, tmp_path):
    target = tmp_path / "a.arrow"
    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    target.write_bytes(damage(target.read_bytes()))
    with pytest.raises(
        DataError, match=r"a\.arrow: cannot be read as arrow; it seems to be damaged"
    ) as caught:
        files.aurc(target)
    assert "\n" not in str(caught.value)


def test_offsets_that_point_elsewhere_are_not_followed(tmp_path):
    """Lists of an Arrow file whose offsets reach far beyond its values."""
    batch = pa.record_batch({"z": pa.array([[1.0, 2.0], [3.0, 4.0]]), "label": pa.array([0, 1])})
    target = tmp_path / "a.arrow"
    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    right, wrong = (np.asarray([0, 2, end], dtype=np.int32).tobytes() for end in (4, 1 << 28))
    raw = target.read_bytes()
    assert raw.count(right) == 1
    target.write_bytes(raw.replace(right, wrong))
    with pytest.raises(DataError, match=r"a\.arrow: cannot be read as arrow"):
        files.aurc(target, logits="z", labels="label")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("engine", ["files", "dask"])
def test_a_pipe_is_refused_and_nobody_waits_for_it(engine, tmp_path):
    os.mkfifo(tmp_path / "p.parquet")
    process = command("evaluate", tmp_path / "p.parquet", "--engine", engine)
    try:
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "is not a regular file" in one_line(said)
    assert process.returncode not in (0, None)


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


def test_more_rows_than_memory_holds_are_refused_before_they_are_read(endless):
    said, status, peak = told("evaluate", endless)
    assert "200,000,000 rows, read and ranked, would take 8 GB" in one_line(said)
    assert status != 0
    assert peak < 4e9


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_files_engine_reads_them_within_its_budget(endless):
    code = f"""
from abstain.engines import files
print(files.risk({str(endless)!r}, memory="1GB", progress=False))
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    risk, peak = map(float, done.stdout.split())
    assert risk == 0.0
    assert 1024 * peak < 1e9


def test_lists_are_counted_before_they_are_unpacked(tmp_path):
    """Lists of four million equal numbers take a few bytes on disk."""
    from abstain.formats import Limits, read_predictions

    lists = pa.ListArray.from_arrays([0, 4_000_000, 8_000_000], np.zeros(8_000_000))
    pq.write_table(pa.table({"logits": lists, "label": [0, 1]}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    with pytest.raises(
        DataError, match=r"column `logits` would take 64 MB of memory, more than the limit of 50 MB"
    ):
        read_predictions(tmp_path / "a.parquet", limits=Limits(memory=50_000_000))


def test_a_long_name_of_a_group_costs_its_own_length_and_no_more(tmp_path):
    """Written once in a few kilobytes and repeated in every row, it would take 20 GB."""
    n = 200_000
    words = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["a" * 100_000])
    numbers = {"correct": np.ones(n), "confidence": np.full(n, 0.5)}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(numbers | {"group": words}), path, store_schema=False)
    assert pq.ParquetFile(path).schema_arrow.field("group").type == pa.string()
    output, status, peak = told("evaluate", path, "--engine", "files", "-q")
    assert (output.strip(), status) == ("0.0", 0)
    assert peak < 1e9


def test_columns_count_together(tmp_path):
    from abstain.formats import Limits, read_predictions

    n = 100_000
    levels = np.random.default_rng(0).integers(0, 50, n)
    pq.write_table(
        pa.table({f"logit_{k}": levels.astype(float) for k in range(9)} | {"label": np.zeros(n, int)}),
        tmp_path / "a.parquet",
    )
    with pytest.raises(
        DataError, match=r"its 7 columns would take 5.6 MB of memory, more than the limit of 5 MB"
    ):
        read_predictions(tmp_path / "a.parquet", limits=Limits(memory=5_000_000))
