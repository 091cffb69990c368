"""A billion predictions: a certified stream (`Sketch`), files larger than memory, Dask and Spark.

Blocks merge by addition, so each engine cuts the confidence axis into ranges, gives every range to whoever
has room, and finishes the pieces with the one core. Each heavy dependency is loaded on first use.

Where to look:

=====================  ==========================================================================================
the plan               `survey` (how confidences are spread), `ranges` (cut, split, add up), `finish` (a range's
                       part of every answer), `summary` (the parts together), `paired` (two models)
samples                `asking` (options), `sources` and `locating` (files), `labels` (groups), `pairing` (two models)
files                  `files`, `filerun`, `outofcore`, `counting`, `spill`, `budget`, `ahead`, `pairedfiles`
clusters               `clusterrun` (the passes), `cluster` (the tasks), `slots` (ranges of all groups);
                       `dask`, `daskrun`; `spark`, `sparkrun`, `sparkmoving`, `sparkwatch`
the sketch             `sketch`, `items`, `grouping`, `readings`, `results`
for users              `evaluating` and `ranking` (behind `abstain.evaluate` and `compare`), `answers`, `progress`,
                       `local`
=====================  ==========================================================================================
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from abstain.engines import dask, files, spark
    from abstain.engines.sketch import Sketch

__all__ = ["Sketch", "dask", "files", "spark"]

if not TYPE_CHECKING:  # for type checkers a name that is not above is a mistake

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'abstain.engines' has no attribute {name!r}")
        try:
            module = importlib.import_module(f"abstain.engines.{name.lower()}")
        except ImportError as problem:  # so that hasattr is False where the extra is missing
            raise AttributeError(str(problem)) from problem
        return module.Sketch if name == "Sketch" else module


def __dir__() -> list[str]:
    return sorted(__all__)
