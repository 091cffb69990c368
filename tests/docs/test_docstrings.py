"""Every function and class of the API reference says what it takes, what it gives, and shows an example that runs.

    python tests/docs/test_docstrings.py        lists what is missing, module by module

Doctests run in the default test run; here it is asked whether there is one.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "api.md"
MODULES = re.findall(r"automodule:: (\S+)", REFERENCE.read_text(encoding="utf-8"))
_NOTHING = (None, "None", inspect.Signature.empty)


def documented(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions, classes and callable objects of a module's section; aliases of types and constants are neither."""
    names = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]  # fmt: skip
    for name in names:
        value = getattr(module, name)
        if inspect.isclass(value) or (callable(value) and hasattr(value, "__name__")):
            yield name, value


def sections(text: str) -> dict[str, str]:
    """The underlined sections of a docstring."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.cleandoc(text), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def described(section: str) -> set[str]:
    """Names that a section describes: what stands before the colon of a line that is not indented."""
    heads = re.findall(r"^(\S[^:\n]*)", section, flags=re.MULTILINE)
    return {name.strip("`* ") for head in heads for name in head.split(",")}


def lacking(value: Any) -> list[str]:
    """What the docstring of a function or a class does not have."""
    text = value.__doc__ or ""
    if inspect.isclass(value) and "__doc__" not in vars(value):
        text = ""
    if not text.strip():
        return ["a docstring"]
    found = sections(text)
    try:
        signature = inspect.signature(value)
    except ValueError:  # an exception takes what `Exception` takes
        signature = inspect.Signature()
    taken = [
        p.name for p in signature.parameters.values()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and not p.name.startswith("_")
    ]  # fmt: skip
    told = {
        name
        for part in ("Parameters", "Other Parameters", "Attributes")
        for name in described(found.get(part, ""))
    }
    missing = []
    if inspect.isclass(value) and issubclass(value, BaseException):
        taken = []
    if unsaid := [name for name in taken if name not in told]:
        missing.append("Parameters" if not told else f"Parameters ({', '.join(unsaid)})")
    gives = not inspect.isclass(value) and signature.return_annotation not in _NOTHING
    if gives and not {"Returns", "Yields"} & set(found):
        missing.append("Returns")
    if ">>> " not in found.get("Examples", ""):
        missing.append("Examples")
    return missing


def missing_in(name: str) -> list[str]:
    module = importlib.import_module(name)
    return [
        f"{name}.{own}: {', '.join(gaps)}" for own, value in documented(module) if (gaps := lacking(value))
    ]


@pytest.mark.parametrize("name", MODULES)
def test_every_entry_of_the_reference_is_described(name):
    missing = missing_in(name)
    assert not missing, "\n" + "\n".join(missing)


def test_gaps_are_seen():
    def half(loss: list[float], confidence: list[float], *, level: float = 0.5) -> float:
        """Half.

        Parameters
        ----------
        loss, confidence : array
            Vectors.

        Examples
        --------
        half([1], [1])
        """
        return 0.5

    class Whole:
        """Whole.

        Attributes
        ----------
        size : int

        Examples
        --------
        >>> Whole(1)
        """

        def __init__(self, size: int) -> None: ...

    assert lacking(half) == ["Parameters (level)", "Returns", "Examples"]
    assert lacking(Whole) == []
    assert lacking(lambda: 0) == ["a docstring"]


def test_the_reference_is_not_empty():
    assert len(MODULES) > 15
    assert sum(1 for _ in documented(importlib.import_module("abstain.metrics"))) > 10


if __name__ == "__main__":
    for module_name in MODULES:
        try:
            print(*missing_in(module_name), sep="\n")
        except Exception as error:
            print(f"{module_name}: cannot be imported: {error}")
