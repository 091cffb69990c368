"""One version, and an archive that holds what it should and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import abstain

ROOT = Path(__file__).parents[2]


def test_one_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M).group(1)
    assert cited == abstain.__version__
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()
    assert f"## {abstain.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_extra_of_the_readme_exists():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    readme = (ROOT / "README.md").read_text()
    named = re.search(r"any of: ([\w ]+)", readme).group(1).split()
    apart = re.findall(
        r"pip install '\.\[(\w+)\]'", readme
    )  # such as those that want an environment of their own
    assert {*named, *apart} == set(extras)


@pytest.mark.slow
def test_wheel_and_source_archive(tmp_path):
    """Built, opened, installed into empty environments, and the demo run there."""
    build = [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    wheel, archive = next(tmp_path.glob("*.whl")), next(tmp_path.glob("*.tar.gz"))
    inside = zipfile.ZipFile(wheel).namelist()
    assert "abstain/data/demo/neural-network.npz" in inside
    assert "abstain/py.typed" in inside
    assert not [name for name in inside if "tests/" in name or "__pycache__" in name]
    assert not [name for name in inside if "paper" in name or "reproduction" in name]
    assert wheel.stat().st_size < 1_500_000
    with tarfile.open(archive) as opened:
        packed = opened.getnames()
    assert any(name.endswith("tests/core/test_laws.py") for name in packed)
    assert any(name.endswith("reproduction/results/paired.json") for name in packed)
    assert not [name for name in packed if "__pycache__" in name or "/.venv/" in name]
    done = subprocess.run(
        ["sh", str(ROOT / "tools/check_dist.sh"), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok:") == 2
