"""`import abstain` loads numpy and nothing else; every public name is there, with or without the extras."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import abstain

SOURCE = Path(abstain.__file__).parents[1]
OPTIONAL = {"jax", "sklearn", "torch"}
FURTHER_MODULES = {
    "calibration",
    "compat",
    "confidence",
    "display",
    "errors",
    "evaluation",
}  # reachable, but not in `__all__`


def _fresh(code: str, python: str | Path = sys.executable) -> str:
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_and_first_number_load_numpy_only():
    heavy = "{'scipy', 'torch', 'jax', 'pandas', 'polars', 'matplotlib', 'pyarrow', 'sklearn', 'rich', 'click', 'array_api_compat'}"
    assert _fresh(f"import sys, abstain; print(sorted({heavy} & set(sys.modules)))") == "[]"
    code = f"import sys, abstain; abstain.aurc([0, 1], [1, 2]); print(sorted({heavy} & set(sys.modules)))"
    assert _fresh(code) == "[]"


def test_every_public_name_resolves_and_is_listed():
    assert sorted(abstain.__all__) == abstain.__all__, "keep the list sorted"
    for name in abstain.__all__:
        assert getattr(abstain, name) is not None
        assert name in dir(abstain)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = abstain.nothing


@pytest.mark.parametrize("package", ["abstain", "abstain.engines", "abstain.torch"])
def test_type_checkers_are_shown_the_names_that_load_lazily(package):
    """What stands under `if TYPE_CHECKING` is what `__all__` promises; a star stands for all that its module lists."""
    module = pytest.importorskip(package)
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    guarded = [
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    shown = {
        name
        for block in guarded
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        for name in (importlib.import_module(node.module).__all__ if alias.name == "*" else [alias.name])
    }
    assert shown - (OPTIONAL | FURTHER_MODULES if package == "abstain" else set()) == set(module.__all__)


# Without extras: an environment that holds the required dependencies and nothing else.

pytestmark = pytest.mark.xdist_group("bare-environment")


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    root = SOURCE.parent
    needed = ["numpy", "scipy", "array-api-compat", "click", "rich"]
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    subprocess.run([*install, "--constraint", root / "constraints.txt", *needed], check=True)
    return python


def test_the_bare_environment_is_bare(bare_python):
    code = (
        "import importlib.util as u; print([m for m in ('numpy', 'jax', 'torch', 'sklearn', 'pandas', 'pyarrow', "
        "'matplotlib', 'plotly', 'dask', 'pyspark') if u.find_spec(m)])"
    )
    assert _fresh(code, bare_python) == "['numpy']"


def test_help_without_extras(bare_python):
    shown = _fresh("import abstain; help(abstain)", bare_python)
    assert "Area under the risk-coverage curve" in shown
    assert "select_threshold" in shown


def test_star_import_without_extras(bare_python):
    code = (
        "from abstain import *; print(aurc([0, 0, 1], [0.9, 0.8, 0.1]), metrics.__name__, 'jax' in globals())"
    )
    assert _fresh(code, bare_python) == "0.1111111111111111 abstain.metrics False"


def test_optional_modules_are_absent_and_say_how_to_get_them(bare_python):
    assert not OPTIONAL & set(abstain.__all__)
    for name in sorted(OPTIONAL):
        asked = f"import abstain\nprint(hasattr(abstain, {name!r}))\ntry: abstain.{name}\nexcept AttributeError as e: print(e)"
        present, message = _fresh(asked, bare_python).split("\n", 1)
        assert present == "False"
        assert f"pip install '.[{name}]'" in message
        imported = f"try: from abstain import {name}\nexcept ImportError as e: print(e)"
        assert f"pip install '.[{name}]'" in _fresh(imported, bare_python)


def test_completion_and_inspection_without_extras(bare_python):
    listed = _fresh("import abstain; print(*dir(abstain))", bare_python).split()
    assert set(abstain.__all__) <= set(listed)
    members = _fresh(
        "import abstain, inspect; print(*(name for name, _ in inspect.getmembers(abstain)))", bare_python
    )
    assert set(abstain.__all__) <= set(members.split())
    assert not OPTIONAL & set(members.split())


def test_public_modules_can_be_inspected_without_extras(bare_python):
    code = """
import abstain, inspect, pydoc
for name in abstain.__all__:
    module = getattr(abstain, name)
    if inspect.ismodule(module):
        inspect.getmembers(module), pydoc.render_doc(module)
        print(name)
"""
    assert {"engines", "formats", "metrics", "report", "theory"} <= set(_fresh(code, bare_python).split())


def test_a_name_that_lives_in_a_module_is_pointed_to():
    assert len(abstain.__all__) < 40
    with pytest.raises(AttributeError, match=r"no attribute 'fpr_at_tpr'. It is in abstain.metrics"):
        _ = abstain.fpr_at_tpr
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = abstain.nothing
