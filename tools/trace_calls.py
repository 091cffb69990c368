"""How far a call walks: the distinct source files of the package it enters, and its moves from file to file.

    python tools/trace_calls.py [--files]

Each call is made once to warm up (imports, tables that are kept) and once under a profiler. The table is the one in
docs/inside.md; --files names the files. The exit status is 1 when a call enters more files than its limit.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import abstain
from abstain.engines import files

PACKAGE = str(Path(abstain.__file__).parent)


class Walk(NamedTuple):
    files: list[str]  # in the order of the first visit
    moves: int


def walk_of(call: Callable[[], Any]) -> Walk:
    """Files entered by any thread; a move is a call of a function that stands in another file than the last one."""
    seen: dict[str, None] = {}
    last: dict[int, str] = {}
    moves = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal moves
        here, thread = frame.f_code.co_filename, threading.get_ident()
        if event == "call" and here.startswith(PACKAGE):
            seen.setdefault(here)
            moves += last.get(thread, here) != here
            last[thread] = here

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Walk([Path(name).relative_to(PACKAGE).as_posix() for name in seen], moves)


def calls(folder: Path) -> dict[str, tuple[int, Callable[[], Any]]]:
    """Each call with the most files it may enter."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2000, 10))
    labels = np.where(rng.random(2000) < 0.8, logits.argmax(axis=1), 0)
    loss = (logits.argmax(axis=1) != labels).astype(float)
    confidence = logits.max(axis=1)
    path = folder / "predictions.parquet"
    pq.write_table(pa.table({"confidence": confidence, "loss": loss}), path)
    return {
        "`aurc(loss, confidence)`": (7, lambda: abstain.aurc(loss, confidence)),
        "`select_threshold(loss, confidence, risk=0.2)`": (
            9,
            lambda: abstain.select_threshold(loss, confidence, risk=0.2),
        ),
        "`files.aurc(path)`": (11, lambda: files.aurc(path, progress=False)),
        "`evaluate(logits, labels)`": (22, lambda: abstain.evaluate(logits, labels, progress=False)),
    }


def main() -> int:
    over = False
    named = "--files" in sys.argv[1:]
    print("| call | files | limit | moves |\n| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for name, (limit, call) in calls(Path(folder)).items():
            call()
            walk = walk_of(call)
            over |= len(walk.files) > limit
            print(f"| {name} | {len(walk.files)} | {limit} | {walk.moves:,} |")
            if named:
                print("\n" + "\n".join(f"    {file}" for file in walk.files) + "\n")
    return 1 if over else 0


if __name__ == "__main__":
    raise SystemExit(main())
