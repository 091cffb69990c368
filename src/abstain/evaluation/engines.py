"""Engines bring data that does not fit in memory to the table: each yields block tables, `evaluate` finishes
them.

An engine registers itself under a name, so that nothing here imports it before it is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from abstain.errors import InputError

# an engine gets every argument of `evaluate` by name, and answers with a block table per (score, loss), or with
# the finished Evaluation where it can do more than that
Engine = Callable[..., Any]
_ENGINES: dict[str, Engine] = {}


def register_engine(name: str, engine: Engine) -> None:
    """Make `evaluate(..., engine=name)` call this function.

    It is called with `level`, `metrics` (keys, or None for the default) and those of logits, labels, probs, loss,
    confidence, scores, losses, sample_weight, abstained, groups, clusters and progress that were given; the first
    argument of `evaluate` (`logits`) may be whatever the engine reads, a file for instance. It answers with
    {(score name, loss name): Blocks}, or with an `Evaluation`.
    """
    if not name.isidentifier():
        raise InputError(f"register_engine: `name` must be a plain word, got {name!r}.")
    _ENGINES[name] = engine


def find_engine(name: str | Engine) -> Engine:
    """The engine of that name, imported from `abstain.engines` on first use; a function stands for itself."""
    if callable(name):
        return name
    for module in ("abstain.engines", f"abstain.engines.{name}"):
        if name not in _ENGINES and name.isidentifier() and importlib.util.find_spec(module) is not None:
            importlib.import_module(module)
    if name not in _ENGINES:
        known = ", ".join(sorted(_ENGINES)) or "none"
        raise InputError(f"evaluate: unknown engine {name!r} (registered: {known}).")
    return _ENGINES[name]


def settings(**given: Any) -> dict[str, Any]:
    """Only what the user gave."""
    return {name: value for name, value in given.items() if value is not None}
