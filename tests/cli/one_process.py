"""Runs `abstain evaluate` on many files in one process and says of each: exit code, output, growth of peak memory, and
seconds of processor time."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from pathlib import Path

import pyarrow.parquet  # noqa: F401
import torch  # noqa: F401

import abstain.evaluation  # noqa: F401
from abstain.cli import main


def peak() -> int:
    """The most memory this process held, in bytes; 0 where the system has no /proc and memory is not tested.

    `getrusage` would begin with the memory of the process that started this one.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    return 1024 * next(int(x.split()[1]) for x in status.read_text().splitlines() if x.startswith("VmHWM"))


def run(arguments: list[str]) -> dict[str, object]:
    out, err = io.StringIO(), io.StringIO()
    before = peak()
    start = time.process_time()
    code: object = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as stop:
            code = stop.code
    seconds = time.process_time() - start
    return {
        "code": code, "out": out.getvalue(), "err": err.getvalue(), "grew": peak() - before, "seconds": seconds,
    }  # fmt: skip


if __name__ == "__main__":
    calls = json.loads(sys.stdin.read())
    print(json.dumps([run(call) for call in calls]))
