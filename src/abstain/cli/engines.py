"""Evaluations that do not go through memory, or take the short road through it, in the shape of the others."""

from __future__ import annotations

import importlib
from typing import Any

import click

from abstain.cli.options import Reading
from abstain.evaluation import Entry, Evaluation, TopTies
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
        return _sketched(file, how, columns, options["level"])
    module = importlib.import_module(f"abstain.engines.{engine}")
    found = module.evaluate(file, coverages=(0.8,), risks=(0.05,), **columns)
    if isinstance(found, dict):
        raise click.UsageError("groups are evaluated in memory only; leave --engine out.")
    return _table(found, columns, options)


def _columns(file: str, how: Reading) -> dict[str, Any]:
    roles = assign(column_names(file, format=how.format), how.columns, how.kind)
    if "logits" in roles and "labels" in roles:
        names = roles["logits"].names
        return {"logits": names[0] if len(names) == 1 else list(names), "label": roles["labels"].names[0]}
    loss = roles.get("loss") or roles.get("error")
    if loss is None or "confidence" not in roles:
        raise click.UsageError("an engine reads columns of losses and confidences, or of logits and labels.")
    found: dict[str, Any] = {"loss": loss.names[0], "confidence": roles["confidence"].names[0]}
    if "weight" in roles:
        found["sample_weight"] = roles["weight"].names[0]
    return found


def _table(summary: Any, columns: dict[str, Any], options: dict[str, Any]) -> Evaluation:
    from abstain.inference._scales import quantile
    from abstain.metrics.registry import METRICS, by_name

    wanted = options["metrics"] if isinstance(options["metrics"], list) else None
    score, loss = ("max_softmax", "zero_one") if "logits" in columns else ("confidence", "loss")
    entries = []
    for name, value in summary.values.items():
        if name not in METRICS or (wanted is not None and name not in wanted):
            continue
        metric, error = by_name(name), value.standard_error
        reach = None if error is None else quantile(summary.n, options["level"]) * error
        low = None if reach is None else value.estimate - reach
        high = None if reach is None else value.estimate + reach
        entries.append(
            Entry(score, loss, metric.key, metric.label, metric.lower_is_better, value.estimate, error, low, high,
                  "normal", summary.n)
        )  # fmt: skip
    if not entries:
        raise click.UsageError("this engine gives none of the metrics asked for.")
    return Evaluation(tuple(entries), (), summary.n, options["level"], 0.0, ())


def _sketched(file: str, how: Reading, columns: dict[str, Any], level: float) -> Evaluation:
    """A stream of constant size: the value lies for certain between the two ends."""
    from abstain.engines import Sketch

    read = how.read(file)
    if read.loss is None or read.confidence is None:
        raise click.UsageError("the sketch reads columns of losses and confidences.")
    sketch = Sketch()
    for start in range(0, read.n, 1 << 20):
        sketch.update(read.loss[start : start + (1 << 20)], read.confidence[start : start + (1 << 20)])
    entries = []
    for name, label in (("aurc", "AURC"), ("augrc", "AUGRC"), ("risk", "risk")):
        if hasattr(sketch, name):
            found = getattr(sketch, name)
            found = found() if callable(found) else found
            low, high = getattr(found, "low", None), getattr(found, "high", None)
            entries.append(Entry("confidence", read.loss_name, name, label, True, float(found), None, low, high,
                                 "certified", read.n))  # fmt: skip
    note = "The ends are no confidence interval: the value on these data lies between them for certain."
    return Evaluation(tuple(entries), (), read.n, level, 0.0, (), (note,))
