"""`score` is two things here: the constructor's choice of confidence, and scikit-learn's method of that name.

An attribute set in the constructor would hide the method, so this descriptor keeps the choice in the instance's own
dictionary (where scikit-learn looks for parameters, through `get_params`) and answers `est.score` with the method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ScoreParameter:
    """Reads as the method, writes as the parameter."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        return self.method if instance is None else self.method.__get__(instance, owner)

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__["score"] = value
