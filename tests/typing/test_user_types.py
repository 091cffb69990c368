"""mypy and pyright see the real signatures, as `user_script.py` says line by line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import abstain

SCRIPT = Path(__file__).with_name("user_script.py")
SOURCE = Path(abstain.__file__).parents[1]
HEAVY = (
    "torch",
    "torchmetrics",
    "jax",
    "sklearn",
    "matplotlib",
    "pyarrow",
    "dask",
    "pyspark",
    "pandas",
    "scipy",
)


def _expected() -> dict[int, str]:
    lines = enumerate(SCRIPT.read_text(encoding="utf-8").splitlines(), 1)
    return {number: line.partition("  # ")[2] for number, line in lines if "  # " in line}


def _short(kind: str) -> str:
    """`a.b.Grouped` and `Grouped` are the same answer."""
    return re.sub(r"\b[\w.]+\.(?=\w)", "", kind)


def _mypy(folder: Path) -> dict[int, str]:
    skipped = ",".join(f"{name}.*" for name in HEAVY)  # minutes to read, and no part of the question
    settings = folder / "mypy.ini"
    settings.write_text(
        f"[mypy]\nstrict = true\nfollow_imports = silent\nmypy_path = {SOURCE.as_posix()}\n"
        f"[mypy-{skipped}]\nfollow_imports = skip\nignore_missing_imports = true\n"
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        settings,
        "--cache-dir",
        folder / "cache",
        SCRIPT,
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[int, str] = {}
    for number, kind, message in re.findall(r"user_script\.py:(\d+): (error|note): (.*)", done.stdout):
        if kind == "error":
            found[int(number)] = "error"
        elif shown := re.match(r'Revealed type is "(.*)"', message):
            found[int(number)] = _short(shown[1])
    return found


def _pyright(folder: Path) -> dict[int, str]:
    (folder / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(SOURCE)]}))
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--pythonpath",
        sys.executable,
        "--outputjson",
        "-p",
        str(folder),
    ]
    quiet = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    shutil.copy(SCRIPT, folder)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=quiet)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[int, str] = {}
    for message in json.loads(done.stdout)["generalDiagnostics"]:
        number = message["range"]["start"]["line"] + 1
        if message["severity"] == "error":
            found[number] = "error"
        elif shown := re.match(r'Type of ".*" is "(.*)"', message["message"]):
            found[number] = _short(shown[1])
    return found


@pytest.mark.parametrize("checker", [_mypy, _pyright], ids=["mypy", "pyright"])
def test_types_revealed_and_mistakes_reported(checker, tmp_path):
    found, expected = checker(tmp_path), _expected()
    assert len(expected) > 40
    wrong = {
        line: (expected.get(line), found.get(line))
        for line in sorted(expected.keys() | found.keys())
        if expected.get(line) != found.get(line)
    }
    assert not wrong, "line of user_script.py: (expected, found)"
