"""Every error and warning that `abstain` raises.

AbstainError
├── InputError (ValueError)         a value that no definition covers: NaN, empty, negative weight ...
│   ├── ShapeError                  lengths or dimensions that do not fit
│   ├── DtypeError (TypeError)      object arrays, complex numbers, logits where probabilities are meant
│   └── DataError                   a file that cannot be read as predictions
├── InfeasibleError (ValueError)    the question has no answer on this data
├── SpillError (OSError)            the disk for intermediate data is full
└── MissingDependencyError (ImportError)
AbstainWarning (UserWarning)
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = [
    "AbstainError",
    "AbstainWarning",
    "DataError",
    "DtypeError",
    "InfeasibleError",
    "InputError",
    "MissingDependencyError",
    "ShapeError",
    "SpillError",
]


class AbstainError(Exception):
    """Base of all errors raised on purpose by this package."""


class InputError(AbstainError, ValueError):
    """An argument's value breaks the rule the message states."""


class ShapeError(InputError):
    """Lengths or dimensions do not fit together."""


class DtypeError(InputError, TypeError):
    """The kind of values is wrong: objects, complex numbers, logits for probabilities."""


class DataError(InputError):
    """A file does not hold readable predictions."""


class InfeasibleError(AbstainError, ValueError):
    """The question has no answer on this data (a coverage nobody can reach, say)."""


class SpillError(AbstainError, OSError):
    """The folder for intermediate data cannot take any more; what was written there is removed."""


class MissingDependencyError(AbstainError, ImportError):
    """An optional dependency is not installed; the message holds the install line."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package `{package}`, which is not installed. "
            f"Run: pip install 'abstain[{extra}]'"
        )


class AbstainWarning(UserWarning):
    """Something the user should know before trusting a number."""


def needed(module: str, feature: str, extra: str) -> Any:
    """An optional module, imported when it is needed; where it is missing, the error has the install line."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(feature, module.partition(".")[0], extra) from error
