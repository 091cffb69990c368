"""The engines of `evaluate` by name: functions that evaluate data other than arrays in memory.

`abstain/__init__.py`, which may name every package, declares the module of each engine that comes with abstain. The
module is imported when its engine is first used, and registers its function here. So `abstain.evaluation` finds
engines without knowing the packages above it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from abstain._names import suggest_name
from abstain.errors import InputError

Engine = Callable[..., Any]
_ENGINES: dict[str, Engine] = {}
_MODULE_OF_ENGINE: dict[str, str] = {}  # for each engine that was declared: the module that registers it


def declare_engine(name: str, module: str) -> None:
    """Say which module registers an engine; it is imported when the engine is first used."""
    _MODULE_OF_ENGINE[name] = module


def register_engine(name: str, engine: Engine) -> None:
    """Make `evaluate(..., engine=name)` call this function.

    Parameters
    ----------
    name : str
        A plain word.
    engine : callable
        It is called with `level`, `metrics` (as `evaluate` takes them, or None for the default) and those of logits,
        labels, probs, loss, confidence, scores, losses, sample_weight, abstained, groups, clusters, classes and
        progress that the user passed. The first argument of `evaluate` (`logits`) may be anything that the engine
        reads, such as a file. It returns {(score name, loss name): Blocks}, or an `Evaluation`. `Blocks` are the
        samples summed up: for each distinct confidence their number and their losses.

    Returns
    -------
    None

    Examples
    --------
    >>> import numpy as np
    >>> from abstain.core.rows import Blocks
    >>> from abstain.evaluation import evaluate, register_engine
    >>> def stored(*, logits, **options):
    ...     return {("confidence", "loss"): Blocks.from_samples(np.asarray([0, 0, 1]), np.asarray(logits))}
    >>> register_engine("stored", stored)
    >>> evaluate([0.9, 0.8, 0.1], engine="stored", metrics="aurc")["aurc"].estimate
    0.1111111111111111
    """
    if not name.isidentifier():
        raise InputError(f"register_engine: `name` must be a plain word, got {name!r}.")
    _ENGINES[name] = engine  # replaces an engine of the same name


def find_engine(engine: str | Engine) -> Engine:
    """The engine of that name; a function is returned as it is.

    The module that registers a declared engine is imported on first use. InputError, with the known names and a
    suggestion, for a name that is neither registered nor declared.
    """
    if callable(engine):
        return engine
    # `_ENGINES`: registered functions by name; `_MODULE_OF_ENGINE`: modules that were declared to register one
    if engine not in _ENGINES and engine in _MODULE_OF_ENGINE:
        importlib.import_module(_MODULE_OF_ENGINE[engine])  # which calls `register_engine`
    if engine not in _ENGINES:
        names = sorted({*_ENGINES, *_MODULE_OF_ENGINE})
        # `suggest_name` returns 'Did you mean "files"?', or "" without a similar name
        message = f"evaluate: unknown engine {engine!r} (registered: {', '.join(names)})."
        raise InputError(f"{message} {suggest_name(engine, names)}".rstrip())
    return _ENGINES[engine]
