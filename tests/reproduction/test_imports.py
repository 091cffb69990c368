"""The experiments use public names of abstain only: what `__all__` of each module lists, whether imported or reached."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

HOME = Path(__file__).parents[2] / "reproduction"
PUBLIC = {
    "compat", "display", "engines", "errors", "evaluation", "formats", "inference", "jax", "losses", "metrics",
    "scores", "sklearn", "theory", "thresholds", "torch",
}  # fmt: skip


def hidden(path: str) -> bool:
    """Does a dotted path below abstain pass through a module or a name that is not public?"""
    here: object = importlib.import_module("abstain")
    for i, name in enumerate(path.split(".")[1:]):
        if not isinstance(here, ModuleType):
            return False  # an attribute of a public object
        listed = getattr(here, "__all__", None)
        optional = i == 0 and name in PUBLIC  # modules that need an extra are not for `from abstain import *`
        if name.startswith("_") or (listed is not None and name not in listed and not optional):
            return True
        here = getattr(here, name)
        if i == 0 and isinstance(here, ModuleType) and name not in PUBLIC:
            return True
    return False


def used(source: str) -> set[str]:
    """Dotted paths below abstain that a file imports or reaches."""
    tree, names, found = ast.parse(source), {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "abstain":
                    names[alias.asname or "abstain"] = alias.name if alias.asname else "abstain"
                    found.add(alias.name)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "abstain":
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                found.add(f"{node.module}.{alias.name}")
    for node in ast.walk(tree):
        chain = []
        while isinstance(node, ast.Attribute):
            chain.append(node.attr)
            node = node.value
        if chain and isinstance(node, ast.Name) and node.id in names:
            found.add(".".join([names[node.id], *reversed(chain)]))
    return found


@pytest.mark.parametrize("path", sorted(HOME.rglob("*.py")), ids=lambda p: str(p.relative_to(HOME)))
def test_public_names_only(path):
    assert [name for name in sorted(used(path.read_text())) if hidden(name)] == []


def test_the_check_finds_what_is_private():
    assert used("import abstain\nabstain.core.rows.Rows") >= {"abstain.core.rows.Rows"}
    for source in (
        "from abstain._arrays import Array",
        "from abstain.core import rows",
        "import abstain.core",
        "from abstain.theory.weights import x",
        "import abstain\nabstain._check.check_choice('a')",
        "from abstain.inference import _analytic",
        "from abstain import theory\ntheory._series.x",
    ):
        assert [name for name in used(source) if hidden(name)], source
    for source in ("import abstain\nabstain.losses.zero_one(1)", "from abstain.errors import DataError"):
        assert not [name for name in used(source) if hidden(name)], source
