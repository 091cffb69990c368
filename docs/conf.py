"""Sphinx: `python -m sphinx -W --keep-going -b html docs docs/_build/html`. Nothing is fetched from the network."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE / "generate")]

import abstain  # noqa: E402

project = "abstain"
author = "The abstain developers"
copyright = "2026, the abstain developers"  # noqa: A001
version = release = abstain.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml"]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_generated", "generate"]
default_role = "code"  # docstrings write names in single backticks
nitpicky = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the parameter lists say it in words
autodoc_inherit_docstrings = False
# The docstrings do not need these packages.
autodoc_mock_imports = ["torch", "torchmetrics", "jax", "dask", "distributed", "pyspark"]
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False

html_theme = "furo"
html_title = f"abstain {version}"
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["page.css"]
html_js_files = ["access.js"]
templates_path: list[str] = []


def setup(app: object) -> None:
    """Draw the figures before the pages are read, and leave some members out of the reference."""
    app.connect("builder-inited", lambda _: _draw())  # type: ignore[attr-defined]
    app.connect("autodoc-skip-member", _skip)  # type: ignore[attr-defined]


def _draw() -> None:
    import figures

    figures.draw_all(HERE / "_generated")


def _skip(app: object, kind: str, name: str, value: object, skip: bool, options: object) -> bool | None:
    """Leave out what scikit-learn adds to every estimator, and fields that the class describes itself."""
    is_sklearn_request = re.fullmatch(r"set_\w+_request", name) is not None
    is_tuple_field = type(value).__name__ == "_tuplegetter"
    is_builtin = isinstance(value, types.BuiltinMethodType)  # the default of a field that is a function
    return True if is_sklearn_request or is_tuple_field or is_builtin else None
