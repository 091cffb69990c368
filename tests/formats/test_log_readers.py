"""Logs are recognised by their content, and no harness is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))
from written import (
    archive,
    inspect_json,
    inspect_members,
)

from abstain.formats import read_log


@pytest.fixture
def put(tmp_path):
    def write(name: str, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


def test_names_do_not_matter(put):
    import gzip

    for name in ("run.zip", "run", "run.eval"):
        assert read_log(put(name, archive(inspect_members()))).tool == "Inspect"
    packed = gzip.compress(json.dumps(inspect_json()).encode())
    assert read_log(put("log.json.gz", packed)).n == 6
    assert read_log(put("log", json.dumps(inspect_json()).encode())).n == 6


def test_no_harness_is_imported(put):
    path = put("run.json", inspect_json())
    code = f"import sys; from abstain.formats import read_log; read_log({str(path)!r}); " \
           "assert not {'inspect_ai', 'lm_eval', 'helm', 'uqlm'} & set(sys.modules)"  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=True)
