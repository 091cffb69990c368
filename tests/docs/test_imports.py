"""Scripts that no other test runs import names that exist: benchmarks, tools, examples, the reproduction."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "tools", "examples", "reproduction")
SCRIPTS = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def imported_names(script):
    """Pairs of a module and a name in it (None for the module itself) that a script imports, wherever it does."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                yield node.module, alias.name


def is_found(module, name):
    """Does `from module import name` work? Modules that need an extra which is not installed count as found."""
    try:
        loaded = importlib.import_module(module)
        if name is not None and not hasattr(loaded, name):
            importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError as error:
        return not str(error.name).startswith("abstain")
    return True


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_script_imports_what_exists(script):
    text = script.read_text(encoding="utf-8")
    # a script that borrows from the tests puts their folders on its path, and so names them
    borrowed = {path.stem for path in (ROOT / "tests").rglob("test_*.py") if f'"{path.parent.name}"' in text}
    for module, name in imported_names(script):
        if module.split(".")[0] == "abstain":
            assert is_found(module, name), f"{module} has no {name}"
        elif module.startswith("test_"):
            assert module in borrowed, f"no test file of those folders is called {module}"
