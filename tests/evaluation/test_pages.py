"""The generated pages say what the code computes today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def script(name):
    path = ROOT / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_choose_your_number_is_up_to_date():
    page = script("choose_tables").page()
    assert page == (ROOT / "docs" / "choose.md").read_text()
    assert "<!-- table" not in page


@pytest.mark.data
def test_cifar10_comparison_is_up_to_date(data_dir):
    page = script("compare_cifar10").page(data_dir / "logits")
    assert page == (ROOT / "docs" / "cifar10-comparison.md").read_text()


@pytest.mark.data
def test_what_68_language_models_showed_is_up_to_date(data_dir):
    made = script("language_models")
    page = (ROOT / "docs" / "language-results.md").read_text()
    shown = page.partition(made.START)[2].partition(made.END)[0]
    assert shown.strip() == made.page(data_dir / "llm" / "mmlu_pro").strip()
