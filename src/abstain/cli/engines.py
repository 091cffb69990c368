"""Evaluations that do not go through memory, or take the short road through it, in the shape of the others."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from typing import Any

import click

from abstain.cli.options import Reading
from abstain.engines.locating import find_files, kind_of
from abstain.evaluation import Comparison, Entry, Evaluation, TopTies
from abstain.formats import Predictions
from abstain.formats.opening import column_names
from abstain.formats.roles import assign


def evaluated_bare(read: Predictions, metrics: list[str], level: float) -> Evaluation:
    """Intervals of the metrics asked for and nothing else: one sort each, no curve."""
    from abstain.inference import interval
    from abstain.metrics.registry import by_name

    assert read.loss is not None
    assert read.confidence is not None
    entries = []
    for name in metrics:
        metric = by_name(name)
        more: dict[str, Any] = {} if metric.smooth else {"replicates": 100}
        found = interval(metric.name, read.loss, read.confidence, level=level, **more, **dict(metric.options))
        entries.append(
            Entry("confidence", read.loss_name, metric.key, metric.label, metric.lower_is_better, found.estimate,
                  found.standard_error, found.low, found.high, found.method, read.n)
        )  # fmt: skip
    top = int((read.confidence == read.confidence.max()).sum())
    notes = (f"{top:,} of {read.n:,} samples tie at the top of confidence.",) if top > 1 else ()
    return Evaluation(tuple(entries), (), read.n, level, 0.0, (TopTies("confidence", top, read.n),), notes)


def evaluated_by(engine: str, file: str, how: Reading, options: dict[str, Any]) -> Evaluation:
    """Files, Dask or Spark compute; columns are found by the same names as in memory."""
    columns = _columns(file, how)
    if engine == "sketch":
        return _sketched(file, columns, options["level"])
    from abstain.engines.evaluating import engine as table_by

    module = importlib.import_module(f"abstain.engines.{engine}")
    outputs = {"logits": columns.pop("logits")} if "logits" in columns else {}
    asked = columns | {key: options[key] for key in ("metrics", "scores", "losses", "level")}
    means = {"memory": how.memory} if engine == "files" else {}
    table = table_by(lambda data, **own: module.evaluate(data, **own | outputs | means))(
        logits=os.path.abspath(file), **asked
    )
    return table if outputs else _renamed(table)


def _renamed(table: Evaluation) -> Evaluation:
    """The names that memory gives to columns of losses and confidences."""
    entries = tuple(replace(entry, score="confidence", loss="loss") for entry in table.entries)
    return replace(
        table, entries=entries, curves=tuple(("confidence", "loss", c) for _, _, c in table.curves)
    )


def compared_by_files(
    files: tuple[str, ...], names: list[str], how: Reading, options: dict[str, Any]
) -> Comparison:
    """Two tables of the same samples, range by range on disk."""
    from abstain.engines import files as engine
    from abstain.engines.ranking import ranked
    from abstain.metrics.registry import by_name

    metric = by_name(options["metric"][0])
    if len(files) != 2 or metric.name != "aurc" or options["unpaired"]:
        raise click.UsageError("--engine files compares two tables of the same samples by AURC.")
    columns = [_columns(file, how) for file in files]
    if any("logits" in own or "correct" in own for own in columns):
        raise click.UsageError("--engine files compares columns of losses and confidences.")
    first, second = ((own["confidence"], own["loss"]) for own in columns)
    weight = {key: columns[0][key] for key in ("sample_weight",) if key in columns[0]}
    found = engine.compare(
        files[0],
        other=files[1],
        first=first,
        second=second,
        memory=how.memory,
        **weight,
        **dict(metric.options),
    )
    return ranked((names[0], names[1]), found, metric, options["level"])


def _columns(file: str, how: Reading) -> dict[str, Any]:
    first = find_files("evaluate", file)[0]
    kind_of(first)  # an error that names the formats
    roles = assign(column_names(first, format=how.format), how.columns, how.kind)
    for role in ("abstained", "cluster"):  # left out, they would change the number without a word
        if role in roles:
            raise click.UsageError(
                f"engines do not read a column of {role} yet: leave {roles[role].names[0]!r} out of the table, or "
                f"evaluate one file in memory (--engine memory)."
            )
    found: dict[str, Any]
    if "logits" in roles and "labels" in roles:
        names = roles["logits"].names
        found = {"logits": names[0] if len(names) == 1 else list(names), "labels": roles["labels"].names[0]}
    else:
        kind = next((k for k in ("loss", "error", "correct") if k in roles), None)
        if kind is None or "confidence" not in roles:
            raise click.UsageError(
                "an engine reads columns of losses (or correct) and confidences, or of logits and labels."
            )
        key = "correct" if kind == "correct" else "loss"
        found = {key: roles[kind].names[0], "confidence": roles["confidence"].names[0]}
    for role, name in (("weight", "sample_weight"), ("group", "groups")):
        if role in roles:
            found[name] = roles[role].names[0]
    return found


def _sketched(file: str, columns: dict[str, Any], level: float) -> Evaluation:
    """A stream of constant size: the value lies for certain between the two ends."""
    from abstain.engines import Sketch
    from abstain.engines.asking import fields_for
    from abstain.engines.sources import batches

    if "logits" in columns:
        columns = {"label" if key == "labels" else key: value for key, value in columns.items()}
    score, loss_name = ("max_softmax", "zero_one") if "logits" in columns else ("confidence", "loss")
    fields = fields_for("evaluate", {key: value for key, value in columns.items() if key != "groups"})
    sketch = Sketch()
    for part in find_files("evaluate", file):
        for batch in batches("evaluate", part, fields):
            loss, confidence, weight = batch.columns.samples
            sketch.update(loss, confidence, sample_weight=weight)
    entries = tuple(
        Entry(score, loss_name, name, label, True, found.estimate, None, found.low, found.high, "certified",
              sketch.n)
        for name, label in (("aurc", "AURC"), ("augrc", "AUGRC"), ("risk", "risk"))
        for found in [getattr(sketch, name)()]
    )  # fmt: skip
    note = "The ends are no confidence interval: the value on these data lies between them for certain."
    return Evaluation(entries, (), sketch.n, level, 0.0, (), (note,))
