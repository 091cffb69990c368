"""All errors and warnings that `abstain` raises.

AbstainError
├── InputError (ValueError)         a value outside the definition: NaN, empty, a negative weight ...
│   ├── ShapeError                  lengths or dimensions that do not fit
│   ├── DtypeError (TypeError)      object arrays, complex numbers, logits instead of probabilities
│   └── DataError                   a file that cannot be read as predictions
│       └── MemoryLimitError        a file whose values exceed the memory limit, but fit its size on disk
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
    "MemoryLimitError",
    "MissingDependencyError",
    "ShapeError",
    "SpillError",
]


class AbstainError(Exception):
    """Base of all errors raised on purpose by this package.

    Examples
    --------
    >>> import abstain
    >>> try:
    ...     abstain.aurc([0, 1], [0.5])
    ... except AbstainError as error:
    ...     print(type(error).__name__)
    ShapeError
    """


class InputError(AbstainError, ValueError):
    """The value of an argument breaks the rule that the message states.

    Examples
    --------
    >>> import abstain
    >>> abstain.risk_at_coverage([0, 1], [0.9, 0.5], coverage=80)
    Traceback (most recent call last):
    ...
    abstain.errors.InputError: risk_at_coverage: `coverage` must lie in (0, 1], got 80. ...
    """


class ShapeError(InputError):
    """Lengths or dimensions do not fit together.

    Examples
    --------
    >>> import abstain
    >>> abstain.aurc([0, 1, 0], [0.9, 0.5])
    Traceback (most recent call last):
    ...
    abstain.errors.ShapeError: aurc: ...
    """


class DtypeError(InputError, TypeError):
    """The values have the wrong type: objects, complex numbers, logits instead of probabilities.

    Examples
    --------
    >>> import abstain
    >>> abstain.aurc([0, 1], [0.9, 1j])
    Traceback (most recent call last):
    ...
    abstain.errors.DtypeError: aurc: ...
    """


class DataError(InputError):
    """A file does not hold readable predictions.

    Examples
    --------
    >>> import abstain
    >>> abstain.formats.read_predictions("nowhere.csv")
    Traceback (most recent call last):
    ...
    abstain.errors.DataError: nowhere.csv: there is no such file.
    """


class MemoryLimitError(DataError):
    """The values of a file take more memory than is allowed; an engine may still be able to read it.

    Examples
    --------
    >>> issubclass(MemoryLimitError, DataError)
    True
    """


class InfeasibleError(AbstainError, ValueError):
    """The question has no answer on these data, e.g. a coverage that no threshold reaches.

    Examples
    --------
    >>> import abstain
    >>> abstain.auroc([0, 0], [0.9, 0.5])
    Traceback (most recent call last):
    ...
    abstain.errors.InfeasibleError: auroc: ...
    """


class SpillError(AbstainError, OSError):
    """The disk for intermediate data is full; what was written there is removed.

    Examples
    --------
    >>> raise SpillError("no room left for intermediate data in /tmp")
    Traceback (most recent call last):
    ...
    abstain.errors.SpillError: no room left for intermediate data in /tmp
    """


class MissingDependencyError(AbstainError, ImportError):
    """An optional dependency is not installed; the message holds the install line.

    Examples
    --------
    >>> raise MissingDependencyError("Plotting", "matplotlib", "plot")
    Traceback (most recent call last):
    ...
    abstain.errors.MissingDependencyError: Plotting needs the package `matplotlib`, which is not installed.
    Run: pip install '.[plot]' in a checkout of the repository
    """

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package `{package}`, which is not installed. Run: {install_line(extra)}"
        )


def install_line(extra: str) -> str:
    """Return the line that installs an extra.

    Nothing is published under the name of this package yet, and anyone who registers that name could run code on the
    machine of a user who installs it. So until there is a release the line installs from a checkout.

    >>> install_line("torch")
    "pip install '.[torch]' in a checkout of the repository"
    """
    return f"pip install '.[{extra}]' in a checkout of the repository"


class AbstainWarning(UserWarning):
    """Something the user should know before trusting a number.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", AbstainWarning)
    ...     warnings.warn("few errors: the interval is wide", AbstainWarning)
    >>> caught[0].category.__name__
    'AbstainWarning'
    """


def import_optional(module: str, feature: str, extra: str) -> Any:
    """Import and return an optional module.

    Raises MissingDependencyError with the install line of `extra` if it is not installed; `feature` is the part of
    the library that needs it, for the message.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(feature, module.partition(".")[0], extra) from error
