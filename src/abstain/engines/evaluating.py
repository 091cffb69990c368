"""`abstain.evaluate(data, engine=...)`: the table of an evaluation from summaries of data that stays where it is.

The first argument is what the engine reads; `loss`, `confidence`, `sample_weight` and `groups` are names of columns.
`progress` is the engine's own.
With `labels` (a column) the model's outputs are read from the column "logits", one list per sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from abstain import losses, scores
from abstain.display import CurveLine, thinned
from abstain.engines.summary import Summary
from abstain.errors import InputError
from abstain.evaluation.entries import Entry
from abstain.evaluation.inputs import listed
from abstain.evaluation.measuring import _ONE_KIND
from abstain.evaluation.results import Evaluation
from abstain.evaluation.table import _for_loss
from abstain.inference._scales import Scale, fits, quantile
from abstain.metrics.registry import METRICS, Metric, by_name

Evaluate = Callable[..., Any]
_POINTS = 400
_MISSING = "(missing)"  # the group of samples without a name; None stands for all samples in an evaluation
_LOGIT = {"auroc": (0.0, 1.0), "risk": (0.0, 1.0), "prediction_rejection_ratio": (-1.0, 1.0)}  # of 0/1 losses


def engine(summarise: Evaluate) -> Callable[..., Evaluation]:
    """The function that `evaluate` calls, from an engine's own `evaluate`."""

    def evaluation(
        *, logits: Any = None, level: float = 0.95, metrics: Sequence[str] | None = None, **given: Any
    ) -> Evaluation:
        if logits is None:
            raise InputError("evaluate: give the data first, e.g. `evaluate('folder', engine='files')`.")
        wanted = None if metrics is None else [by_name(m) for m in listed(metrics, (), tuple(METRICS))]
        entries: list[Entry] = []
        curves: list[tuple[str, str, CurveLine]] = []
        count = 0
        for names, columns in _questions(given):
            whole, parts = _found(summarise, logits, columns, wanted)
            count, curve, zero_one = whole.n, whole.curve, "auroc" in whole.values
            for group, summary in {None: whole, **parts}.items():
                entries += [
                    _entry(metric, names, summary, level, group, zero_one)
                    for metric in _for_loss(wanted, zero_one)
                ]
            if curve is not None:
                curves.append((*names, thinned(names[0], curve.coverage, curve.risk)))
        return Evaluation(tuple(entries), tuple(curves), count, level, 0.0, ())

    return evaluation


def _questions(given: dict[str, Any]) -> list[tuple[tuple[str, str], dict[str, Any]]]:
    """(score, loss) names and the columns that give them."""
    refused = [name for name in ("probs", "abstained", "clusters") if given.get(name) is not None]
    if refused:
        raise InputError(f"evaluate: engines do not take `{refused[0]}` yet. Evaluate it in memory.")
    more = {key: given[key] for key in ("sample_weight", "groups", "progress") if given.get(key) is not None}
    if given.get("labels") is None:
        confidence, key = (
            given.get("confidence") or "confidence",
            "correct" if given.get("correct") else "loss",
        )
        loss = given.get(key) or "loss"
        return [((confidence, loss), {"confidence": confidence, key: loss, **more})]
    takes_logits = [s for s in scores.NAMES if "logits" in scores.by_name(s).takes]
    asked = listed(given.get("scores"), ["max_softmax"], takes_logits)
    return [
        ((s, l), {"logits": "logits", "label": given["labels"], "score": s, "loss_name": l, **more})
        for s, l in product(asked, listed(given.get("losses"), ["zero_one"], losses.NAMES))
    ]


def _found(
    summarise: Evaluate, data: Any, columns: dict[str, Any], wanted: list[Metric] | None
) -> tuple[Summary, dict[Any, Summary]]:
    """The summary of all samples, with a curve, and those of the groups, by name."""
    plain = {key: value for key, value in columns.items() if key != "groups"}
    whole = _summaries(summarise, data, plain | {"points": _POINTS}, wanted)[None]
    if "groups" not in columns:
        return whole, {}
    parts = _summaries(summarise, data, columns, wanted)
    ordered = sorted(parts, key=lambda group: (group is None, group))
    return whole, {_MISSING if group is None else group: parts[group] for group in ordered}


def _summaries(
    summarise: Evaluate, data: Any, options: dict[str, Any], wanted: list[Metric] | None
) -> dict[Any, Summary]:
    """One summary for each group (None: all samples), with a pass for every estimator that was asked for."""
    metrics = [*_for_loss(wanted, True), *_for_loss(wanted, False)]
    asked = [dict(m.options) for m in metrics]
    ask = {
        "coverages": sorted({o["coverage"] for o in asked if "coverage" in o}),
        "risks": sorted({o["risk"] for o in asked if "risk" in o}),
    }
    kinds = {(o.get("estimator", "harmonic"), o.get("ties", "threshold")) for o in asked} or {
        ("harmonic", "threshold")
    }
    result: dict[Any, Summary] = {}
    for estimator, ties in sorted(kinds):
        answer = summarise(data, estimator=estimator, ties=ties, **ask, **options)
        for group, summary in (answer if isinstance(answer, dict) else {None: answer}).items():
            known = result.setdefault(group, summary)
            values = {_named(name, estimator, ties): value for name, value in summary.values.items()}
            result[group] = replace(known, values=known.values | values)
    return result


def _named(name: str, estimator: str, ties: str) -> str:
    """Areas by other weights are kept under the name with its options."""
    plain = name in ("risk", "auroc", "prediction_rejection_ratio") or (estimator, ties) == (
        "harmonic",
        "threshold",
    )
    return name if plain else f"{name}/{estimator}/{ties}"


def _entry(
    metric: Metric, names: tuple[str, str], summary: Summary, level: float, group: Any, zero_one: bool
) -> Entry:
    options = dict(metric.options)
    head = (*names, metric.key, metric.label, metric.lower_is_better)
    more: dict[str, Any] = {"n": summary.n, "group": group}
    if metric.name in ("risk_at_coverage", "coverage_at_risk"):
        points = getattr(summary, metric.name)
        value = points[next(iter(v for k, v in options.items() if k in ("coverage", "risk")))]
        return Entry(*head, value, reason="no interval: the bootstrap needs the samples", **more)
    estimator, ties = options.get("estimator", "harmonic"), options.get("ties", "threshold")
    found = summary.values.get(_named(metric.name, estimator, ties))
    if found is None:
        reason = (
            _ONE_KIND if zero_one and metric.needs_both else "not worked out by this engine for this loss"
        )
        return Entry(*head, None, reason=reason, **more)
    if not found.standard_error:
        return Entry(*head, found.estimate, reason="no interval: no standard error here", **more)
    centre = summary.loo if metric.name == "aurc" and summary.loo else found.estimate
    bounded = metric.name in _LOGIT and zero_one
    scale = Scale("logit", *_LOGIT[metric.name]) if bounded else Scale("log")
    scale = scale if fits(scale, centre) else Scale("normal")
    low, high = scale.around(centre, found.standard_error, quantile(summary.n - 1, level))
    return Entry(*head, found.estimate, found.standard_error, low, high, scale.name, **more)
