"""Speed of the command line, each line as a ratio to what it is held against, in one run.

1. `abstain --help` against `python -c "import click"` (whole processes, best of several).
2. `abstain evaluate` of 10 million rows of parquet (confidence, loss), AURC with its interval, against reading
   the file with pyarrow plus one np.sort of the confidences; start-up aside (both in this process).

    python benchmarks/cli.py [--rows 10000000] [--loss float|zero_one]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def best(work, times: int) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def help_ratio(times: int = 15) -> tuple[float, float]:
    def run(*command: str) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    own = best(lambda: run(sys.executable, "-m", "abstain", "--help"), times)
    click = best(lambda: run(sys.executable, "-c", "import click"), times)
    return own, click


def write_table(path: Path, rows: int, loss: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    confidence = rng.random(rows)
    wrong = rng.random(rows) < 0.3 * (1 - confidence)
    values = wrong.astype(np.float64) if loss == "zero_one" else wrong * rng.random(rows)
    pq.write_table(pa.table({"confidence": confidence, "loss": values}), path)


def evaluate_ratio(rows: int, loss: str, times: int = 5) -> tuple[float, float]:
    import pyarrow.parquet as pq

    from abstain.cli import cli

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_table(path, rows, loss)

        def own() -> None:
            with contextlib.redirect_stdout(io.StringIO()):
                cli(["evaluate", str(path), "--metrics", "aurc"], standalone_mode=False)

        def floor() -> None:
            np.sort(pq.read_table(path)["confidence"].to_numpy())

        own(), floor()  # imports and page cache
        pairs = [(best(own, 1), best(floor, 1)) for _ in range(times)]  # in turns: other work hits both alike
    return min(p[0] for p in pairs), min(p[1] for p in pairs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    given = parser.parse_args()
    own, other = help_ratio()
    print(f"abstain --help {own:.3f} s, import click {other:.3f} s: {own / other:.2f}x (at most 4x)")
    for loss in ("float", "zero_one"):
        own, other = evaluate_ratio(given.rows, loss)
        print(
            f"evaluate --metrics aurc, {given.rows:,} rows, {loss} loss: {own:.3f} s, "
            f"read + np.sort {other:.3f} s: {own / other:.2f}x (at most 3x)"
        )


if __name__ == "__main__":
    main()
