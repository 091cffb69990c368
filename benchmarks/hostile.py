"""What hostile files cost: processor time and memory of `abstain evaluate` until each is refused.

Every file of tests/cli/malformed.py, made at full size for the default limit of memory, each in a process of its own.
Memory is the most that the process held (VmHWM) above what it holds for a good file of a few rows; torch and pyarrow
are loaded only for the files that need them, which is why those have 100 to 200 MB more.

    python benchmarks/hostile.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests" / "cli"), str(ROOT / "tests" / "formats")]
import malformed  # noqa: E402
import test_parquet_pages  # noqa: E402

FREE = 270 * 10**6  # a little more than any file may take: a sixteenth of 4 GB
SECONDS = 5.0
MEGABYTES = 300
CHILD = """
import sys, time
from abstain.cli import main
code = None
start = time.process_time()
try:
    main(sys.argv[1:])
except SystemExit as stop:
    code = stop.code
seconds = time.process_time() - start
with open("/proc/self/status", encoding="ascii") as file:
    peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
print(f"\\n{code} {seconds} {peak}")
"""


class Cost(NamedTuple):
    """What one call took: exit code, seconds of processor time, megabytes at the peak, and what it said."""

    code: str
    seconds: float
    megabytes: float
    message: str


def measured(*arguments: str) -> Cost:
    """One call of `abstain` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, timeout=300, check=True
    )
    code, seconds, peak = done.stdout.splitlines()[-1].split()
    return Cost(code, float(seconds), int(peak) / 1000, done.stderr.strip())


def main() -> None:
    """Print the table; exit code 1 where a file is not refused, or costs too much."""
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "good.csv").write_text("correct,confidence\n1,0.5\n0,0.25\n")
        base = measured("evaluate", str(folder / "good.csv"), "-q").megabytes
        small = folder / "small"
        growing = folder / "growing"
        small.mkdir()
        growing.mkdir()
        calls = {small / file: more for file, more in malformed.write_all(small, folder / "mark").items()}
        calls |= {growing / file: [] for file in malformed.write_growing(growing, FREE)}
        texts = growing / "texts.parquet"
        lying = growing / "understated.parquet"
        lying.write_bytes(test_parquet_pages.understated(texts.read_bytes(), texts))
        calls[lying] = []
        calls[growing / "rows.csv.gz (--engine files)"] = ["--engine", "files"]
        print(f"A good file takes {base:.0f} MB.\n\n| file | kB | exit | CPU s | MB above | said |")
        print("| --- | ---: | ---: | ---: | ---: | --- |")
        for path, more in calls.items():
            file = Path(str(path).split(" (")[0])
            cost = measured("evaluate", str(file), *more)
            above = cost.megabytes - base
            refused = cost.code == "3" and len(cost.message.splitlines()) == 1
            failed += not refused or cost.seconds > SECONDS or above > MEGABYTES
            told = cost.message.split(": ", 2)[-1].replace("|", "\\|")[:90]
            size = file.stat().st_size / 1000
            print(
                f"| {path.name} | {size:,.1f} | {cost.code} | {cost.seconds:.1f} | {above:.0f} | {told} |",
                flush=True,
            )
        assert not (folder / "mark").exists(), "code was run"
    print(f"\n{len(calls)} files, {failed} not refused within {SECONDS:g} s and {MEGABYTES} MB.")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
