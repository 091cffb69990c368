"""`abstain.evaluate(data, engine=...)`: the table of an evaluation from summaries of data that stays where it is.

The first argument is what the engine reads; `loss`, `confidence`, `sample_weight` and `groups` are names of columns.
With `labels` (a column) the model's outputs are read from the column "logits", one list per sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from abstain.display import CurveLine, thinned
from abstain.engines.summary import Summary
from abstain.errors import InputError
from abstain.evaluation.entries import Entry
from abstain.evaluation.results import Evaluation
from abstain.evaluation.table import _for_loss
from abstain.inference._scales import Scale, fits, quantile
from abstain.metrics.registry import Metric, by_name

Evaluate = Callable[..., Any]
_POINTS = 400
_LOGIT = {"auroc": (0.0, 1.0), "risk": (0.0, 1.0), "prediction_rejection_ratio": (-1.0, 1.0)}  # of 0/1 losses


def engine(summarise: Evaluate) -> Callable[..., Evaluation]:
    """The function that `evaluate` calls, from an engine's own `evaluate`."""

    def evaluation(
        *, logits: Any = None, level: float = 0.95, metrics: Sequence[str] | None = None, **given: Any
    ) -> Evaluation:
        if logits is None:
            raise InputError("evaluate: give the data first, e.g. `evaluate('folder', engine='files')`.")
        wanted = None if metrics is None else [by_name(m) for m in metrics]
        entries: list[Entry] = []
        curves: list[tuple[str, str, CurveLine]] = []
        count = 0
        for names, columns in _questions(given):
            whole = {key: value for key, value in columns.items() if key != "groups"}
            found = _summaries(summarise, logits, whole, wanted)
            if "groups" in columns:
                found |= _summaries(summarise, logits, columns, wanted)
            for group, summary in found.items():
                entries += _entries(names, summary, wanted, level, group)
            count, curve = found[None].n, found[None].curve
            if curve is not None:
                curves.append((*names, thinned(names[0], curve.coverage, curve.risk)))
        return Evaluation(tuple(entries), tuple(curves), count, level, 0.0, ())

    return evaluation


def _questions(given: dict[str, Any]) -> list[tuple[tuple[str, str], dict[str, Any]]]:
    """(score, loss) names and the columns that give them."""
    refused = [name for name in ("probs", "abstained", "clusters") if given.get(name) is not None]
    if refused:
        raise InputError(f"evaluate: engines do not take `{refused[0]}` yet. Evaluate it in memory.")
    more = {key: given[key] for key in ("sample_weight", "groups") if given.get(key) is not None}
    if given.get("labels") is None:
        confidence, loss = given.get("confidence") or "confidence", given.get("loss") or "loss"
        return [((confidence, loss), {"confidence": confidence, "loss": loss, **more})]
    scores, losses = _listed(given.get("scores"), "max_softmax"), _listed(given.get("losses"), "zero_one")
    return [
        ((s, l), {"logits": "logits", "label": given["labels"], "score": s, "loss_name": l, **more})
        for s, l in product(scores, losses)
    ]


def _listed(names: Any, default: str) -> list[str]:
    return [default] if names is None else [names] if isinstance(names, str) else list(names)


def _summaries(
    summarise: Evaluate, data: Any, columns: dict[str, Any], wanted: list[Metric] | None
) -> dict[Any, Summary]:
    """One summary for each group (None: all samples), with a pass for every estimator that was asked for."""
    metrics = [*_for_loss(wanted, True), *_for_loss(wanted, False)]
    options = [dict(m.options) for m in metrics]
    ask = {
        "coverages": sorted({o["coverage"] for o in options if "coverage" in o}),
        "risks": sorted({o["risk"] for o in options if "risk" in o}),
    }
    kinds = {(o.get("estimator", "harmonic"), o.get("ties", "threshold")) for o in options} or {
        ("harmonic", "threshold")
    }
    result: dict[Any, Summary] = {}
    for estimator, ties in sorted(kinds):
        answer = summarise(data, estimator=estimator, ties=ties, points=_POINTS, **ask, **columns)
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


def _entries(
    names: tuple[str, str], summary: Summary, wanted: list[Metric] | None, level: float, group: Any
) -> list[Entry]:
    zero_one = "auroc" in summary.values
    return [_entry(metric, names, summary, level, group) for metric in _for_loss(wanted, zero_one)]


def _entry(metric: Metric, names: tuple[str, str], summary: Summary, level: float, group: Any) -> Entry:
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
        return Entry(*head, None, reason="not worked out by this engine for this loss", **more)
    if not found.standard_error:
        return Entry(*head, found.estimate, reason="no interval: no standard error here", **more)
    centre = summary.loo if metric.name == "aurc" and summary.loo else found.estimate
    bounded = metric.name in _LOGIT and "auroc" in summary.values
    scale = Scale("logit", *_LOGIT[metric.name]) if bounded else Scale("log")
    scale = scale if fits(scale, centre) else Scale("normal")
    low, high = scale.around(centre, found.standard_error, quantile(summary.n - 1, level))
    return Entry(*head, found.estimate, found.standard_error, low, high, scale.name, **more)
