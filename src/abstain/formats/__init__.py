"""Prediction files of any common kind, read safely: no pickle, bounded memory, one clear line when bad.

Names are loaded on first use, so that the command line can list `FORMATS` and `ROLES` without loading numpy.

Where to look:

===============  ================================================================================================
for users        `read_files` (a file to `Predictions` or a `Log`), `predictions`, `logs`, `writing`
formats          `readers` (which reader a file goes to, and how to add one), `numpy_files`, `text_tables`,
                 `json_files`, `json_tables`, `arrow`, `tensor_files`, `tables` (in memory)
harness logs     `log_readers` (which harness wrote it, and how to add one), `log_rows`, and a file for each harness
roles            `roles` (what a column can be), `columns` (which column is which), `loaded_columns` and `answers`
                 (checks)
several files    `alignment` (one order of samples), `table_files` (tables of many files), `log_folders` (logs by
                 model and task), `file_evaluation` (`evaluate` of a path)
safety           `safety` (limits, damage), `parquet_pages`
===============  ================================================================================================
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see of the names that `__getattr__` loads
    from abstain._outputs import replacing
    from abstain._roles import ROLES
    from abstain.formats import answers as answers
    from abstain.formats import columns as columns
    from abstain.formats import file_evaluation as file_evaluation
    from abstain.formats import log_folders as log_folders
    from abstain.formats import read_files as read_files
    from abstain.formats import readers as readers
    from abstain.formats import roles as roles
    from abstain.formats import safety as safety
    from abstain.formats.columns import Column, OpenedTable, TextValues, UncertainError
    from abstain.formats.file_names import FORMATS
    from abstain.formats.logs import Log, Rules
    from abstain.formats.predictions import Predictions
    from abstain.formats.read_files import read_log, read_predictions
    from abstain.formats.readers import open_source
    from abstain.formats.safety import Limits
    from abstain.formats.writing import WRITABLE, write_predictions

__all__ = [
    "FORMATS",
    "ROLES",
    "WRITABLE",
    "Column",
    "Limits",
    "Log",
    "OpenedTable",
    "Predictions",
    "Rules",
    "TextValues",
    "UncertainError",
    "open_source",
    "read_log",
    "read_predictions",
    "replacing",
    "write_predictions",
]
_HOMES = {
    "FORMATS": "abstain.formats.file_names",
    "ROLES": "abstain._roles",
    "WRITABLE": "abstain.formats.writing",
    "Column": "abstain.formats.columns",
    "Limits": "abstain.formats.safety",
    "Log": "abstain.formats.logs",
    "Predictions": "abstain.formats.predictions",
    "Rules": "abstain.formats.logs",
    "OpenedTable": "abstain.formats.columns",
    "UncertainError": "abstain.formats.columns",
    "TextValues": "abstain.formats.columns",
    "open_source": "abstain.formats.readers",
    "read_log": "abstain.formats.read_files",
    "read_predictions": "abstain.formats.read_files",
    "replacing": "abstain._outputs",
    "write_predictions": "abstain.formats.writing",
}

if not TYPE_CHECKING:  # for type checkers a name that is not above is a mistake

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            value = getattr(importlib.import_module(_HOMES[name]), name)
            globals()[name] = value
            return value
        if importlib.util.find_spec(f"abstain.formats.{name}"):
            return importlib.import_module(f"abstain.formats.{name}")
        raise AttributeError(f"module 'abstain.formats' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
