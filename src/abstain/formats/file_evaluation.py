"""`abstain.evaluate` of a path or a table, in memory or by an engine."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from abstain.errors import AbstainWarning, DataError, MemoryLimitError
from abstain.evaluation import Evaluation, evaluate, register_engine
from abstain.formats.answers import verdict_roles
from abstain.formats.predictions import Predictions
from abstain.formats.read_files import _class_scores_role, predictions_of, read_predictions
from abstain.formats.readers import column_names, is_helm_run
from abstain.formats.roles import ROLES, in_stated_order, role_of
from abstain.formats.safety import Limits, display_name, naming_file
from abstain.formats.table_files import find_files, table_format
from abstain.formats.tables import open_table

# a path given to `evaluate`


# how many times larger the values of a file are than the file, at least; the files that an engine reads
_GROWTH_IN_MEMORY = {".parquet": 2, ".arrow": 1, ".feather": 1, ".csv": 4}


def choose_engine(path: str | Path, memory: int = Limits().memory) -> str:
    """Folders, and files larger than the memory allowed, go to the engine that needs little of it."""
    if not os.path.isfile(path):
        return "memory" if str(path) == "-" or is_helm_run(path) else "files"
    times = _GROWTH_IN_MEMORY.get(Path(path).suffix.lower(), 0)
    return "files" if times * os.path.getsize(path) > memory else "memory"


def engine_can_read(path: str | Path) -> bool:
    """Can the engine of files read this file, where it proves too large for memory?"""
    return os.path.isfile(path) and Path(path).suffix.lower() in _GROWTH_IN_MEMORY


def engine_columns(
    path: str | Path,
    stated: Mapping[str, str],
    kind: str | None = None,
    format: str | None = None,  # noqa: A002
    refusal: Callable[[str], Exception] = DataError,
    classes: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The columns of a table (or of the first of a folder) that an engine is to read, by argument."""
    first = find_files("evaluate", path)[0]
    table_format(first)  # an error that names the formats
    source = column_names(first, format=format)
    named = {role_of(role) for role in stated}
    roles = verdict_roles(source, source.roles(stated, kind), named)
    for role in ("abstained", "clusters", "answered", "question"):  # left out, they would change the number
        if role in roles:
            raise refusal(
                f"engines do not read a column of {role} yet: leave {roles[role].names[0]!r} out of the table, or "
                f"evaluate one file in memory (--engine memory)."
            )
    one = {role: choice.names[0] for role, choice in roles.items()}
    found: dict[str, Any] = {role: one[role] for role in ("sample_weight", "groups") if role in one}
    by_logits = _class_scores_role(roles, named, labelled="labels" in roles) == "logits"
    loss = next((role for role in ("correct", "error", "loss") if role in roles), None)
    used = {"sample_weight", "groups"} | ({"logits", "labels"} if by_logits else {loss, "confidence"})
    for role in sorted(named - used - {"ids"}):
        raise refusal(
            f"engines do not use a column of {role} here: leave -c {role} out, or evaluate in memory."
        )
    if by_logits:
        by_class = in_stated_order(roles["logits"], classes)
        if by_class.suffixes and by_class.suffixes != classes:
            raise refusal(
                f"an engine reads numbers as labels, and columns named {by_class} do not say which number is which "
                f"class. State the names in the order of the numbers: --classes first,second,..."
            )
        several = list(by_class.names)
        return found | {"logits": several if len(several) > 1 else several[0], "labels": one["labels"]}
    if loss is None or "confidence" not in roles:
        raise refusal(
            "an engine reads columns of losses (or correct) and confidences, or of logits and labels."
        )
    if len(roles["confidence"].names) > 1:
        raise refusal("an engine ranks by one confidence: name one with -c confidence=NAME.")
    if "prediction" in one:
        told = (
            f"Engines do not read `{display_name(one['prediction'])}`: a row without a prediction counts as "
            f"an answer."
        )
        warnings.warn(told, AbstainWarning, stacklevel=2)
    return found | {"correct" if loss == "correct" else "loss": one[loss], "confidence": one["confidence"]}


def evaluate_with_engine(
    engine: str, path: str | Path, columns: dict[str, Any], **options: Any
) -> Evaluation:
    """The table by files, Dask or Spark, under the names that memory gives."""
    module = importlib.import_module(f"abstain.engines.{engine}")
    table: Evaluation = module.evaluate(os.path.abspath(path), **columns, **options)
    if "logits" in columns:
        return table
    entries = tuple(replace(entry, score="confidence", loss="loss") for entry in table.entries)
    curves = tuple(("confidence", "loss", curve) for _, _, curve in table.curves)
    return replace(table, entries=entries, curves=curves)


def evaluate_path(logits: str | Path, **arguments: Any) -> Evaluation:
    """`abstain.evaluate(path)`: what `abstain evaluate` does; arguments may name columns."""
    named_columns, classes, options = _sorted_arguments(arguments)
    engine = choose_engine(logits)
    if engine == "memory":
        try:
            read = read_predictions(logits, columns=named_columns, classes=classes)
        except MemoryLimitError:
            if not engine_can_read(logits):
                raise
            engine = "files"
    if engine == "files":
        columns = engine_columns(logits, named_columns, classes=classes)
        return evaluate_with_engine("files", logits, columns, **options)
    return _evaluate_read(read, options)


def evaluate_table(logits: Any, **arguments: Any) -> Evaluation:
    """`abstain.evaluate(frame)`: as a file of that content is evaluated; arguments may name columns."""
    named_columns, classes, options = _sorted_arguments(arguments)
    source = open_table(logits)
    name = str(source.path)
    read = predictions_of(source, name=name, path=name, columns=named_columns, classes=classes)
    return _evaluate_read(read, options)


def _sorted_arguments(arguments: dict[str, Any]) -> tuple[dict[str, str], tuple[str, ...], dict[str, Any]]:
    """Arguments of `evaluate` that name columns, the class names, and all the others."""
    named_columns = {
        role: name for role, name in arguments.items() if role in ROLES and isinstance(name, str)
    }
    options = {name: value for name, value in arguments.items() if name not in named_columns}
    classes = tuple(str(name) for name in options.pop("classes", ()))
    return named_columns, classes, options


def _evaluate_read(read: Predictions, options: dict[str, Any]) -> Evaluation:
    with naming_file(read.path):
        return evaluate(**{**read.arguments(), **options})


register_engine("path", evaluate_path)
register_engine("table", evaluate_table)
