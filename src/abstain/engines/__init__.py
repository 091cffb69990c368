"""A billion predictions: a certified stream (`Sketch`), files larger than memory, Dask and Spark.

Sums by confidence merge by addition. So each engine cuts the confidence axis into ranges, finishes every range in the
process that holds its samples, and adds up the results. Each heavy dependency is loaded on first use.

Where to look:

===============  ===============================================================================================
for users        `engine` (the functions of all exact engines), `files`, `dask`, `spark`, `sketch`
samples          `read` (files and tables to columns), `ranges` (cut, split, add up, count), `histogram`, `spill`
results          `finish` (from a range to its part of every result, and all parts together), `paired` (two models)
clusters         `cluster` (the plan as tasks), executed by `dask` and `spark`
===============  ===============================================================================================

An engine of your own returns `Blocks`, a mergeable table with all sums that an error bar needs, for each score and
loss, or a whole `Evaluation`; see `abstain.evaluation.register_engine`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from abstain.core.rows import Blocks
    from abstain.engines import dask, files, spark
    from abstain.engines.sketch import Sketch

__all__ = ["Blocks", "Sketch", "dask", "files", "spark"]
_HOMES = {"Blocks": "abstain.core.rows", "Sketch": "abstain.engines.sketch"}

if not TYPE_CHECKING:  # for type checkers a name that is not above is a mistake

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'abstain.engines' has no attribute {name!r}")
        try:
            module = importlib.import_module(_HOMES.get(name, f"abstain.engines.{name}"))
        except ImportError as problem:  # so that hasattr is False where the extra is missing
            raise AttributeError(str(problem)) from problem
        return getattr(module, name) if name in _HOMES else module


def __dir__() -> list[str]:
    return sorted(__all__)
