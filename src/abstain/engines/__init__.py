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
from typing import Any

_HOME = {"Sketch": "sketch"}
_MODULES = ("dask", "files", "spark")

__all__ = ["Sketch", "dask", "files", "spark"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"abstain.engines.{_HOME[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"abstain.engines.{name}")
    raise AttributeError(f"module 'abstain.engines' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
