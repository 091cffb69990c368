"""The ICML 2025 paper on population AURC, reproduced: data, networks, training, studies, figures, tables, claims.

Everything here uses the public names of `abstain` only. `python -m reproduction --help`, from the root of the
repository, lists the commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abstain.errors import InputError, MissingDependencyError

Array = Any  # tensors and axes: their libraries are not followed by the type checker


class MissingPackageError(MissingDependencyError):
    """An experiment needs a package that is not installed; none of abstain's extras is made for it."""

    def __init__(self, feature: str, package: str) -> None:
        text = f"{feature} needs the package `{package}`, which is not installed. Run: pip install {package}"
        ImportError.__init__(self, text)


def check_choice(name: str, argument: str, value: str, choices: Sequence[str]) -> None:
    """One of a few words."""
    if value not in choices:
        listed = ", ".join(f'"{c}"' for c in choices)
        raise InputError(f"{name}: `{argument}` must be one of {listed}, got {value!r}.")
