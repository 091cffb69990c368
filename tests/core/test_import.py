"""`import abstain` loads numpy and nothing else; every public name is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import abstain


def _fresh(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_import_and_first_number_load_numpy_only():
    heavy = "{'scipy', 'torch', 'jax', 'pandas', 'polars', 'matplotlib', 'pyarrow', 'sklearn', 'rich', 'click', 'array_api_compat'}"
    assert _fresh(f"import sys, abstain; print(sorted({heavy} & set(sys.modules)))") == "[]"
    code = f"import sys, abstain; abstain.aurc([0, 1], [1, 2]); print(sorted({heavy} & set(sys.modules)))"
    assert _fresh(code) == "[]"


def test_every_public_name_resolves_and_is_listed():
    assert sorted(abstain._HOME) == list(abstain._HOME), "keep the list sorted"
    for name in abstain.__all__:
        assert getattr(abstain, name) is not None
        assert name in dir(abstain)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = abstain.nothing
