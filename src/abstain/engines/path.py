"""A path given to `evaluate`: one file in memory as `abstain.formats` reads it, larger data by the engine for files."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from abstain.engines.read import find_files, kind_of
from abstain.errors import DataError
from abstain.evaluation import Evaluation, evaluate, register_engine
from abstain.formats import ROLES, Limits, read_predictions
from abstain.formats.columns import assign
from abstain.formats.limits import values_of
from abstain.formats.readers import column_names


def engine_for(path: str | Path, memory: int = Limits().memory) -> str:
    """Folders, and files larger than the memory allowed, go to the engine that needs little of it."""
    if not os.path.isfile(path):
        return "memory" if str(path) == "-" else "files"
    times = {".parquet": 2, ".arrow": 1, ".feather": 1, ".csv": 4}.get(Path(path).suffix.lower(), 0)
    return "files" if times * os.path.getsize(path) > memory else "memory"


def engine_columns(
    path: str | Path,
    stated: Mapping[str, str],
    kind: str | None = None,
    format: str | None = None,  # noqa: A002
    refusal: Callable[[str], Exception] = DataError,
) -> dict[str, Any]:
    """The columns of a table (or of the first of a folder) that an engine is to read, by argument."""
    first = find_files("evaluate", path)[0]
    kind_of(first)  # an error that names the formats
    roles = assign(column_names(first, format=format), stated, kind)
    for role in ("abstained", "clusters"):  # left out, they would change the number without a word
        if role in roles:
            raise refusal(
                f"engines do not read a column of {role} yet: leave {roles[role].names[0]!r} out of the table, or "
                f"evaluate one file in memory (--engine memory)."
            )
    one = {role: choice.names[0] for role, choice in roles.items()}
    found: dict[str, Any] = {role: one[role] for role in ("sample_weight", "groups") if role in one}
    if "logits" in roles and "labels" in roles:
        several = list(roles["logits"].names)
        return found | {"logits": several if len(several) > 1 else several[0], "labels": one["labels"]}
    loss = next((role for role in ("loss", "error", "correct") if role in roles), None)
    if loss is None or "confidence" not in roles:
        raise refusal(
            "an engine reads columns of losses (or correct) and confidences, or of logits and labels."
        )
    return found | {"correct" if loss == "correct" else "loss": one[loss], "confidence": one["confidence"]}


def evaluate_by(engine: str, path: str | Path, columns: dict[str, Any], **options: Any) -> Evaluation:
    """The table by files, Dask or Spark, under the names that memory gives."""
    module = importlib.import_module(f"abstain.engines.{engine}")
    table: Evaluation = module.evaluate(os.path.abspath(path), **columns, **options)
    if "logits" in columns:
        return table
    entries = tuple(replace(entry, score="confidence", loss="loss") for entry in table.entries)
    curves = tuple(("confidence", "loss", curve) for _, _, curve in table.curves)
    return replace(table, entries=entries, curves=curves)


def evaluate_path(logits: str | Path, **given: Any) -> Evaluation:
    """`abstain.evaluate(path)`: what `abstain evaluate` does; arguments may name columns."""
    stated = {role: name for role, name in given.items() if role in ROLES and isinstance(name, str)}
    options = {name: value for name, value in given.items() if name not in stated}
    if engine_for(logits) == "files":
        return evaluate_by("files", logits, engine_columns(logits, stated), **options)
    read = read_predictions(logits, columns=stated)
    with values_of(read.path):
        return evaluate(**read.arguments(), **options)


register_engine("path", evaluate_path)
