"""Versions of everything that has a say in a number."""

from __future__ import annotations

import platform
from importlib import metadata

import abstain

_PACKAGES = (
    "numpy", "scipy", "array-api-compat", "click", "rich", "plotly", "pyarrow", "torch", "jax", "scikit-learn",
    "pandas", "polars", "matplotlib", "distributed", "pyspark",
)  # fmt: skip


def versions(*names: str) -> dict[str, str]:
    """Installed versions by package (those given, or all that abstain can use)."""
    found = {"abstain": abstain.__version__, "python": platform.python_version()}
    for name in names or _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if not names:
                found[name] = "not installed"
    return found
