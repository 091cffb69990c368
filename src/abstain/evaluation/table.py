"""The whole table: every score x loss x metric, with intervals."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from abstain._arrays import Array
from abstain._check import check_fraction
from abstain.display import CurveLine, thinned
from abstain.errors import InputError, ShapeError
from abstain.evaluation import engines, inputs
from abstain.evaluation.entries import Entry, TopTies
from abstain.evaluation.measuring import Plan, entry_of_blocks, entry_of_samples
from abstain.evaluation.results import Evaluation
from abstain.inference._units import on_host
from abstain.metrics.curve import risk_coverage_curve
from abstain.metrics.registry import METRICS, Metric, by_name

DEFAULT_METRICS = (
    "aurc",
    "augrc",
    "e_aurc",
    "naurc",
    "auroc",
    "risk",
    "risk_at_coverage",
    "coverage_at_risk",
)
_ANY_LOSS = ("aurc", "augrc", "e_aurc", "naurc", "risk")  # shown by default for losses other than 0/1
_BOOTSTRAP_UP_TO = 200_000
_REPLICATES = 500


def evaluate(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    loss: Any = None,
    confidence: Any = None,
    scores: Any = None,
    losses: Any = None,
    metrics: Any = None,
    level: float = 0.95,
    groups: Array | None = None,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
    clusters: Array | None = None,
    engine: Any = None,
    replicates: int | None = None,
    rng: int = 0,
    progress: bool | None = None,
) -> Evaluation:
    """Everything about how well a model knows when it is wrong, as one table with intervals.

    Parameters
    ----------
    logits, labels : arrays of shape (..., K) and (...)
        Model outputs and class indices. Probabilities come as `probs=` instead of logits.
    loss, confidence : array or dict of arrays
        Your own losses and confidences (higher = surer), alone or beside logits and labels.
    scores : names or functions, "all", optional
        Confidences computed from the model; by default max_softmax, softmax_margin, negative_entropy and,
        from logits, max_logit.
    losses : names or functions, "all", optional
        By default zero_one and cross_entropy.
    metrics : names, "all", optional
        As in `abstain.metrics.registry`: "aurc", "aurc:loo", "risk_at_coverage@0.9". By default areas, AUROC
        and two operating points for 0/1 losses, areas and risk for others.
    level : float
        Of the intervals.
    groups : array, optional
        One label per sample: every number is also given within each group.
    sample_weight, abstained, clusters : arrays, optional
        Weights; samples the model refused (never accepted, kept in the coverage); who belongs together.
    engine : str, optional
        Who computes, where data does not fit in memory: see `register_engine`. The first argument is then whatever
        that engine reads. A path alone goes to "files", which works in memory or on disk by the size of the data.
    replicates, rng
        Of the bootstrap, for metrics without an influence function: 500, or none above 200,000 samples.
    progress : bool, optional
        Show a progress bar; by default for long work.

    Returns
    -------
    Evaluation
        With `frame()`, `best()`, `plot()`, `to_markdown()`, `to_latex()`, `to_json()`. A number that is
        undefined on this data is absent and says why; it is never NaN.

    Examples
    --------
    >>> table = evaluate(loss=[0, 0, 1, 0, 1, 1], confidence=[9, 8, 7, 6, 5, 4], metrics=["aurc", "risk"])
    >>> table
    Evaluation of 6 samples; estimate [95% interval], * best of its row
    loss: loss
      metric  confidence
      AURC    0.2472 [0.00696, 1]
      risk    0.5 [0.109, 0.891]
    >>> table.best("aurc").score
    'confidence'
    """
    level = check_fraction("evaluate", "level", level, open_high=True)
    wanted = None if metrics is None else [by_name(m) for m in inputs.listed(metrics, (), tuple(METRICS))]
    if engine is None and isinstance(logits, (str, os.PathLike)):
        engine = "files"
    if engine is not None:
        given = engines.settings(
            logits=logits, labels=labels, probs=probs, loss=loss, confidence=confidence, scores=scores,
            losses=losses, sample_weight=sample_weight, abstained=abstained, groups=groups, clusters=clusters,
            progress=progress,
        )  # fmt: skip
        keys = None if wanted is None else [m.key for m in wanted]
        answer = engines.find_engine(engine)(**given, level=level, metrics=keys)
        return (
            answer if isinstance(answer, Evaluation) else evaluate_blocks(answer, metrics=wanted, level=level)
        )
    vectors = inputs.gather("evaluate", logits, labels, probs, loss, confidence, scores, losses)
    columns = {
        "sample_weight": _column("sample_weight", sample_weight, vectors.n),
        "abstained": _column("abstained", abstained, vectors.n),
        "clusters": _column("clusters", clusters, vectors.n),
    }
    if replicates is None:
        replicates = _REPLICATES if vectors.n <= _BOOTSTRAP_UP_TO else 0
    plan = Plan(level, replicates, rng)
    parts = [(None, np.ones(vectors.n, dtype=bool)), *_group_masks(groups, vectors.n)]
    entries = _measure_all(vectors, columns, parts, wanted, plan, progress)
    curves = _curves(vectors, columns)
    notes = list(vectors.notes)
    ties = tuple(_top_ties(name, g) for name, g in vectors.scores.items())
    notes += [f"{t.tied:,} of {t.n:,} samples tie at the top of {t.score}." for t in ties if t.tied > 1]
    return Evaluation(tuple(entries), curves, vectors.n, level, _away(columns, vectors.n), ties, tuple(notes))


def evaluate_blocks(
    tables: Any, *, metrics: Sequence[str | Metric] | None = None, level: float = 0.95, abstained: float = 0.0
) -> Evaluation:
    """The table from block tables by (score, loss), as an engine yields them."""
    entries: list[Entry] = []
    curves: list[tuple[str, str, CurveLine]] = []
    count = 0
    for (score, loss), blocks in tables.items():
        count = max(count, int(blocks.count.sum()))
        zero_one = blocks.zero_one
        wanted = _for_loss(None if metrics is None else [by_name(m) for m in metrics], zero_one)
        entries += [entry_of_blocks(metric, (score, loss), blocks, level) for metric in wanted]
        rows = blocks.rows()
        curves.append((score, loss, thinned(score, rows.N / rows.W, rows.risk)))
    if not entries:
        raise InputError("evaluate: the engine gave no tables.")
    ties = {s: TopTies(s, int(b.count[-1]), int(b.count.sum())) for (s, _), b in tables.items()}
    return Evaluation(tuple(entries), tuple(curves), count, level, abstained, tuple(ties.values()))


def _for_loss(wanted: list[Metric] | None, zero_one: bool) -> list[Metric]:
    if wanted is not None:
        return wanted
    return [by_name(m) for m in (DEFAULT_METRICS if zero_one else _ANY_LOSS)]


def _measure_all(
    vectors: inputs.Vectors,
    columns: dict[str, np.ndarray | None],
    parts: list[tuple[Any, np.ndarray]],
    wanted: list[Metric] | None,
    plan: Plan,
    progress: bool | None,
) -> list[Entry]:
    jobs = [
        (group, mask, loss, score, metric)
        for group, mask in parts
        for loss, l in vectors.losses.items()
        for metric in _for_loss(wanted, _is_zero_one(l))
        for score in vectors.scores
    ]
    slow = sum(not job[-1].smooth for job in jobs) * plan.replicates * vectors.n
    entries = []
    with _bar(len(jobs), progress if progress is not None else slow > 2e8) as step:
        for group, mask, loss, score, metric in jobs:
            whole = group is None
            l, g = vectors.losses[loss], vectors.scores[score]
            own = {k: v if v is None or whole else v[mask] for k, v in columns.items()}
            entries.append(
                entry_of_samples(
                    metric, (score, loss), l if whole else l[mask], g if whole else g[mask], own, plan, group
                )
            )
            step()
    return entries


def _is_zero_one(loss: np.ndarray) -> bool:
    return bool(np.all((loss == 0) | (loss == 1)))


@contextmanager
def _bar(total: int, shown: bool) -> Iterator[Any]:
    if not shown:
        yield lambda: None
        return
    from rich.progress import Progress

    with Progress(transient=True) as bar:
        task = bar.add_task("evaluating", total=total)
        yield lambda: bar.advance(task)


def _column(name: str, values: Array | None, n: int) -> np.ndarray | None:
    if values is None:
        return None
    column = np.asarray(on_host(values)).reshape(-1)
    if len(column) != n:
        raise ShapeError(f"evaluate: `{name}` must have one value per sample, got {len(column)} for {n}.")
    return column


def _group_masks(groups: Array | None, n: int) -> list[tuple[Any, np.ndarray]]:
    labels = _column("groups", groups, n)
    return [] if labels is None else [(label.item(), labels == label) for label in np.unique(labels)]


def _curves(
    vectors: inputs.Vectors, columns: dict[str, np.ndarray | None]
) -> tuple[tuple[str, str, CurveLine], ...]:
    own = {k: columns[k] for k in ("sample_weight", "abstained")}
    found = []
    for loss, l in vectors.losses.items():
        for score, g in vectors.scores.items():
            curve = risk_coverage_curve(l, g, **own)
            found.append((score, loss, thinned(score, curve.coverage, curve.risk)))
    return tuple(found)


def _top_ties(name: str, confidence: np.ndarray) -> TopTies:
    return TopTies(name, int(np.count_nonzero(confidence == confidence.max())), len(confidence))


def _away(columns: dict[str, np.ndarray | None], n: int) -> float:
    mask, weight = columns["abstained"], columns["sample_weight"]
    if mask is None:
        return 0.0
    mass = np.ones(n) if weight is None else weight
    return float(np.sum(mass * mask.astype(bool)) / np.sum(mass))
