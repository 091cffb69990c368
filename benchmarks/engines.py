"""Engines at scale: sketch, files, Dask, against DuckDB and Dask's own sort. Ratios from one run.

    python benchmarks/engines.py sketch --rows 1e9        stream generated in chunks, bounds against exact counting
    python benchmarks/engines.py files --rows 1e9 --memory 1GB
    python benchmarks/engines.py duckdb --rows 1e8        files against DuckDB's group-by-score, both within 2 GB
    python benchmarks/engines.py dask --rows 1e8          two workers against one
    python benchmarks/engines.py sort --rows 2e7          Dask plan against dask.dataframe's sort_values

Data is generated in chunks below --folder (default: a temporary folder) and removed afterwards. Memory is VmHWM of
the process that does the work, summed over its children; the generator runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CHUNK = 10_000_000


def chunk(seed, rows, shape):
    """One chunk of the stream: loss and confidence."""
    rng = np.random.default_rng([seed, 11])
    if shape == "distinct":  # float64: no two alike, nothing to count
        u = rng.random(rows)
        return rng.random(rows, dtype=np.float32) < 0.6 * u * u, 1 - u
    u = rng.random(rows, dtype=np.float32)
    if shape == "saturated":
        z = rng.normal(12, 8, rows).astype(np.float32)
        return rng.random(rows, dtype=np.float32) < 0.25 * np.exp(-np.abs(z) / 4), 1 / (1 + np.exp(-z))
    return rng.random(rows, dtype=np.float32) < 0.6 * u * u, 1 - u


def write_chunk(task):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder, number, rows, shape = task
    l, g = chunk(number, rows, shape)
    pq.write_table(
        pa.table({"confidence": g, "loss": l}),
        Path(folder) / f"part-{number:04d}.parquet",
        row_group_size=1 << 20,
        compression="NONE",
        use_dictionary=False,
    )


def generate(folder, rows, shape):
    """In a process of its own, so that its memory is nobody else's."""
    tasks = [(folder, k, min(CHUNK, rows - k * CHUNK), shape) for k in range(-(-rows // CHUNK))]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for _ in pool.imap(write_chunk, tasks):
            pass


def measured(code, *, timeout=7200):
    """Run code in a fresh process: (seconds, peak bytes of it and its children, what it printed last)."""
    wrapped = f"""
import json, resource, time
started = time.perf_counter()
{code}
seconds = time.perf_counter() - started
peak = [int(x.split()[1]) for x in open("/proc/self/status") if x.startswith("VmHWM")][0] * 1024
print("\\n" + json.dumps([seconds, peak + 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, answer]))
"""
    done = subprocess.run([sys.executable, "-c", wrapped], capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def line(what, seconds, peak, rows, more=""):
    print(
        f"{what:<34}{seconds:9.1f} s  {rows / seconds / 1e6:7.1f} M rows/s  peak {peak / 1e6:6.0f} MB  {more}",
        flush=True,
    )


FILES = """
from abstain.engines import files
answer = files.aurc({folder!r}, memory={memory!r}, progress=False)
"""
SKETCH = """
import sys; sys.path.insert(0, {here!r})
import pyarrow.parquet as pq, glob
from abstain.engines import Sketch
sketch = Sketch()
for file in sorted(glob.glob({folder!r} + "/*.parquet")):
    for batch in pq.ParquetFile(file, pre_buffer=False).iter_batches(1 << 22):
        sketch.update(batch.column("loss").to_numpy(zero_copy_only=False), batch.column("confidence").to_numpy())
found = sketch.aurc()
answer = [found.estimate, found.low, found.high, len(sketch.to_bytes())]
"""
DUCKDB = """
import duckdb, math
connection = duckdb.connect(config={{"memory_limit": {memory!r}, "temp_directory": {spill!r}}})
answer = connection.execute('''
    with blocks as
        (select confidence g, count(*) m, sum(loss::int) l from read_parquet('{folder}/*.parquet') group by 1),
    rows as (select m, sum(m) over (order by g desc) n, sum(l) over (order by g desc) s from blocks)
    select sum(m * s / n) / sum(m) from rows
''').fetchone()[0]
"""
GROUP_ONLY = """
import duckdb
connection = duckdb.connect(config={{"memory_limit": {memory!r}, "temp_directory": {spill!r}}})
answer = connection.execute('''
    select sum(m * m), count(*) from
    (select confidence g, count(*) m, sum(loss::int) l from read_parquet('{folder}/*.parquet') group by 1)
''').fetchone()[1]
"""


def run_sketch(folder, rows, options):
    seconds, peak, (estimate, low, high, size) = measured(
        SKETCH.format(folder=folder, here=str(Path(__file__).parent))
    )
    line(
        "sketch",
        seconds,
        peak,
        rows,
        f"AURC {estimate:.12g}, {size:,} bytes, gap {(high - low) / estimate:.1e} relative",
    )
    if options.check:
        _, _, truth = measured(FILES.format(folder=folder, memory="8GB"))
        inside = low <= truth <= high
        print(f"  exact {truth:.10g}: inside {inside}, point error {abs(estimate / truth - 1):.1e} relative")


def run_files(folder, rows, options):
    seconds, peak, value = measured(FILES.format(folder=folder, memory=options.memory))
    line(f"files, budget {options.memory}", seconds, peak, rows, f"AURC {value:.12g}")


def run_duckdb(folder, rows, options):
    spill = tempfile.mkdtemp(dir=options.folder)
    try:
        ours = min(measured(FILES.format(folder=folder, memory="2GB")) for _ in range(options.repeat))
        line("files, budget 2GB", *ours[:2], rows, f"AURC {ours[2]:.12g}")
        group = min(
            measured(GROUP_ONLY.format(folder=folder, memory="2GB", spill=spill))
            for _ in range(options.repeat)
        )
        line("DuckDB group by score, 2GB", *group[:2], rows, f"{group[2]:,} groups, no area yet")
        print(f"  group by score alone / files = {group[0] / ours[0]:.2f}")
        if options.check:
            whole = measured(DUCKDB.format(folder=folder, memory="2GB", spill=spill))
            line("DuckDB, the area itself, 2GB", *whole[:2], rows, f"AURC {whole[2]:.12g}")
            print(f"  DuckDB area / files = {whole[0] / ours[0]:.2f}")
    finally:
        shutil.rmtree(spill, ignore_errors=True)


def timed_dask(folder, workers, work):
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(lambda: __import__("abstain.engines.dask"))
        started = time.perf_counter()
        answer = work(folder, client)
        return time.perf_counter() - started, answer


def plan(folder, client):
    from abstain.engines import dask

    return dask.aurc(folder, client=client)


def sort_values(folder, client):
    """Sort by confidence and cumulate: what a Dask user would write."""
    import dask.dataframe as dd

    frame = dd.read_parquet(folder).sort_values("confidence", ascending=False)
    loss = frame["loss"].astype("float64").cumsum()
    n = frame["loss"].astype("float64") * 0 + 1
    return float((loss / n.cumsum()).mean().compute())


def sort_only(folder, client):
    """The sort alone, left on the workers."""
    import dask.dataframe as dd
    import distributed

    frame = dd.read_parquet(folder).sort_values("confidence", ascending=False).persist()
    distributed.wait(frame)
    return 0.0


def run_dask(folder, rows, options):
    times = {}
    for workers in (1, 2):
        best = min(timed_dask(folder, workers, plan) for _ in range(options.repeat))
        times[workers] = best[0]
        line(f"Dask plan, {workers} worker(s)", best[0], 0, rows, f"AURC {best[1]:.12g}")
    print(f"  one worker / two workers = {times[1] / times[2]:.2f}")


def run_sort(folder, rows, options):
    ours = min(timed_dask(folder, 2, plan) for _ in range(options.repeat))
    line("Dask plan, 2 workers", ours[0], 0, rows, f"AURC {ours[1]:.12g}")
    alone = timed_dask(folder, 2, sort_only)
    line("dask.dataframe sort_values alone", alone[0], 0, rows)
    theirs = timed_dask(folder, 2, sort_values)
    line("sort_values, cumsum and mean", theirs[0], 0, rows, f"AURC {theirs[1]:.12g}")
    print(f"  sort_values alone / plan = {alone[0] / ours[0]:.2f}, with the area {theirs[0] / ours[0]:.2f}")


WORK = {"sketch": run_sketch, "files": run_files, "duckdb": run_duckdb, "dask": run_dask, "sort": run_sort}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="+", choices=list(WORK))
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--shape", choices=["smooth", "saturated", "distinct"], default="smooth")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--folder", default=None, help="where to put the data")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="also compare with the exact or complete answer")
    options = parser.parse_args()
    rows = int(options.rows)
    folder = tempfile.mkdtemp(prefix="abstain-bench-", dir=options.folder)
    try:
        free = shutil.disk_usage(folder).free
        if free < 12 * rows:
            raise SystemExit(
                f"needs about {12 * rows / 1e9:.0f} GB in {folder}, {free / 1e9:.0f} GB are free"
            )
        generate(folder, rows, options.shape)
        size = sum(os.path.getsize(p) for p in Path(folder).glob("*"))
        print(f"{rows:,} rows, {options.shape}, {size / 1e9:.2f} GB of Parquet", flush=True)
        for what in options.what:
            WORK[what](folder, rows, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
