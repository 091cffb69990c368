"""The side-by-side page: our half of every value is computed again, theirs lies as near as the page says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import abstain

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "side-by-side.md").read_text()
ROW = re.compile(r"^\| ([\w-]+) \| ([^|]+) \| ([\d.]+) \| ([\d.]+) \(`([\w.]+)`\) \| (\S+) \|$", re.M)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("side_by_side", ROOT / "docs/generate/side_by_side.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    path = tmp_path_factory.mktemp("samples") / "samples.npz"
    generator.samples(path)
    with np.load(path) as data:
        return {
            label: (data[f"{name}/loss"], data[f"{name}/confidence"])
            for name, label in generator.LABELS.items()
        }


def test_values(samples):
    rows = ROW.findall(PAGE)
    assert len(rows) == 15
    for package, label, theirs, ours, name, _ in rows:
        function = (
            getattr(abstain.compat, name.removeprefix("compat.")) if "." in name else getattr(abstain, name)
        )
        assert f"{function(*samples[label]):.6f}" == ours
        row_order = package == "torch-uncertainty" and label.endswith(", ties")
        assert abs(float(theirs) - float(ours)) < (2e-4 if row_order else 2e-6)


def test_every_package_is_named_with_its_version():
    for package in ("mapie", "torch-uncertainty", "scikit-learn", "torchmetrics"):
        assert re.search(rf"^- \*\*{package}\*\* \d+\.\d+", PAGE, re.M)
    assert "fd-shifts" in PAGE
    assert "@" not in PAGE
