"""The whole table: every score x loss x metric, each with its interval or the reason it has none."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from abstain import losses as loss_module
from abstain import scores as score_module
from abstain._arrays import Array, to_host
from abstain._check import check_fraction
from abstain.core import points
from abstain.core.rows import Blocks
from abstain.core.sorting import is_zero_one
from abstain.display import CurveLine, thinned
from abstain.errors import InfeasibleError, InputError, ShapeError
from abstain.evaluation.results import Entry, Evaluation, TopTies
from abstain.inference import interval, interval_from_blocks
from abstain.inference.results import Interval
from abstain.metrics.points import risk_coverage_curve
from abstain.metrics.registry import METRICS, Metric, by_name

LOGIT_SCORES = ("max_softmax", "softmax_margin", "negative_entropy", "max_logit")
_MAY_BE_RULED_OUT = ("cross_entropy", "top_k")  # a label of probability 0; fewer than k classes
DEFAULT_LOSSES = ("zero_one", "cross_entropy")
_ROUNDS_TO_ONE = 24 * np.log(2)  # above this key 1 + s is 1 in float32, and so is the softmax


class Vectors(NamedTuple):
    """Losses and confidences by name, all of one length, and what a reader should know of them."""

    losses: dict[str, np.ndarray]
    scores: dict[str, np.ndarray]
    notes: list[str]

    @property
    def n(self) -> int:
        """Samples."""
        return len(next(iter(self.scores.values())))


def named(name: str, argument: str, values: Any, default: str) -> dict[str, np.ndarray]:
    """A vector, or several by name, on the host and flat."""
    given = values if isinstance(values, Mapping) else {default: values}
    return {str(k): np.asarray(to_host(v)).reshape(-1) for k, v in given.items()}


def gather(
    name: str,
    logits: Array | None,
    labels: Array | None,
    probs: Array | None,
    loss: Any,
    confidence: Any,
    scores: Any,
    losses: Any,
) -> Vectors:
    """Losses and scores of one model, or the user's own, or both beside each other."""
    if logits is not None and probs is not None:
        raise InputError(f"{name}: takes logits or `probs=`, one of them, got both.")
    own_losses = {} if loss is None else named(name, "loss", loss, "loss")
    own_scores = {} if confidence is None else named(name, "confidence", confidence, "confidence")
    notes: list[str] = []
    if logits is None and probs is None:
        if not own_losses or not own_scores:
            raise InputError(
                f"{name}: needs logits and labels, `probs=` and labels, or `loss=` and `confidence=`."
            )
        if scores is not None or losses is not None:
            raise InputError(f"{name}: `scores=` and `losses=` read logits or probabilities, got none.")
    else:
        own_scores = {**score_vectors(logits, probs, scores), **own_scores}
        if labels is None and not own_losses:
            raise InputError(f"{name}: needs `labels` beside logits or probabilities (or your own `loss=`).")
        if labels is not None:
            own_losses = {**loss_vectors(logits, probs, labels, losses, notes), **own_losses}
        notes += _saturation_note(logits, probs)
    _same_length(name, own_losses, own_scores)
    return Vectors(own_losses, own_scores, notes)


def listed(wanted: Any, default: Sequence[Any], everything: Sequence[Any]) -> list[Any]:
    """The names asked for: none means the default, "all" everything, one may stand alone."""
    if wanted is None:
        return list(default)
    if isinstance(wanted, str):
        return list(everything) if wanted == "all" else [wanted]
    return list(wanted) if isinstance(wanted, Sequence) else [wanted]


def score_vectors(logits: Array | None, probs: Array | None, scores: Any) -> dict[str, np.ndarray]:
    """Confidences of one model, by name."""
    kind = "probs" if logits is None else "logits"
    allowed = [s for s in score_module.NAMES if kind in score_module.by_name(s).takes]
    found: dict[str, np.ndarray] = {}
    for wanted in listed(scores, [s for s in LOGIT_SCORES if s in allowed], allowed):
        score = score_module.by_name(wanted)
        found[score.name] = np.asarray(to_host(score(logits, probs=probs))).reshape(-1)
    return found


def loss_vectors(
    logits: Array | None, probs: Array | None, labels: Array, losses: Any, notes: list[str]
) -> dict[str, np.ndarray]:
    """Losses of one model, by name. One not asked for by name that this data rules out is noted and left out."""
    by_choice = losses is not None and losses != "all"
    found: dict[str, np.ndarray] = {}
    for wanted in listed(losses, DEFAULT_LOSSES, loss_module.NAMES):
        loss = loss_module.by_name(wanted)
        try:
            values = loss(logits, labels, probs=probs)
        except InputError as problem:
            if by_choice or loss.name not in _MAY_BE_RULED_OUT or not found:
                raise
            notes.append(f"{loss.name} left out: {problem}")
            continue
        found[loss.name] = np.asarray(to_host(values)).reshape(-1)
    return found


def _saturation_note(logits: Array | None, probs: Array | None) -> list[str]:
    if probs is not None:
        found = score_module.saturation(probs=probs)
        return [found.sentence] if found.tied > 1 else []
    key = np.asarray(to_host(score_module.max_softmax(logits)))
    count = int(np.count_nonzero(key > _ROUNDS_TO_ONE))
    if count < 2:
        return []
    share = count / key.size
    return [
        f"{count:,} samples ({share:.1%}) have a softmax of exactly 1.0 in float32; ranked here by the "
        f"logits, they do not tie."
    ]


def _same_length(name: str, losses: dict[str, np.ndarray], scores: dict[str, np.ndarray]) -> None:
    lengths = {k: len(v) for k, v in {**losses, **scores}.items()}
    if len(set(lengths.values())) != 1:
        told = ", ".join(f"{k} {v}" for k, v in lengths.items())
        raise ShapeError(f"{name}: losses and confidences must be of one length, got {told}.")
    if 0 in lengths.values():
        raise InputError(f"{name}: needs at least one sample, got none.")


# engines ------------------------------------------------------------------------------------------
#
# Engines bring data that does not fit in memory to the table: each yields block tables, `evaluate` finishes
# them.
#
# An engine registers itself under a name, so that nothing here imports it before it is asked for.


# an engine gets every argument of `evaluate` by name, and answers with a block table per (score, loss), or with
# the finished Evaluation where it can do more than that
Engine = Callable[..., Any]
_ENGINES: dict[str, Engine] = {}


def register_engine(name: str, engine: Engine) -> None:
    """Make `evaluate(..., engine=name)` call this function.

    It is called with `level`, `metrics` (keys, or None for the default) and those of logits, labels, probs, loss,
    confidence, scores, losses, sample_weight, abstained, groups, clusters and progress that were given; the first
    argument of `evaluate` (`logits`) may be whatever the engine reads, a file for instance. It answers with
    {(score name, loss name): Blocks}, or with an `Evaluation`.
    """
    if not name.isidentifier():
        raise InputError(f"register_engine: `name` must be a plain word, got {name!r}.")
    _ENGINES[name] = engine


def find_engine(name: str | Engine) -> Engine:
    """The engine of that name, imported from `abstain.engines` on first use; a function stands for itself."""
    if callable(name):
        return name
    for module in ("abstain.engines", f"abstain.engines.{name}"):
        if name not in _ENGINES and name.isidentifier() and importlib.util.find_spec(module) is not None:
            importlib.import_module(module)
    if name not in _ENGINES:
        known = ", ".join(sorted(_ENGINES)) or "none"
        raise InputError(f"evaluate: unknown engine {name!r} (registered: {known}).")
    return _ENGINES[name]


def settings(**given: Any) -> dict[str, Any]:
    """Only what the user gave."""
    return {name: value for name, value in given.items() if value is not None}


# measuring ----------------------------------------------------------------------------------------
#
# One number of the table at a time: the estimate with its interval, or the reason there is none.


_NOT_ZERO_ONE = "needs a 0/1 loss"
_ONE_KIND = "needs both right and wrong samples, got only one kind"


class Plan(NamedTuple):
    """How to measure: level, replicates of the bootstrap (0: none), its seed."""

    level: float
    replicates: int
    rng: int
    clusters: np.ndarray | None = None


def entry_of_samples(
    metric: Metric,
    names: tuple[str, str],
    loss: np.ndarray,
    confidence: np.ndarray,
    columns: dict[str, Any],
    plan: Plan,
    group: Any = None,
) -> Entry:
    """Measure a metric on samples; `columns` are sample_weight, abstained and clusters."""
    if metric.needs_zero_one and not is_zero_one(loss):
        return _absent(metric, names, len(loss), group, _NOT_ZERO_ONE)
    own = {k: v for k, v in columns.items() if k != "clusters"}
    try:
        value = float(metric(loss, confidence, **own))
    except InfeasibleError as problem:
        return _absent(metric, names, len(loss), group, _ONE_KIND if metric.needs_both else _told(problem))
    if not metric.smooth and not plan.replicates:
        why = "no interval: the bootstrap is left out for this many samples; ask with `replicates=`"
        return _finished(metric, names, value, None, len(loss), group, why)
    more: dict[str, Any] = {} if metric.smooth else {"replicates": plan.replicates, "rng": plan.rng}
    try:
        found = interval(
            metric.name, loss, confidence, level=plan.level, **columns, **more, **dict(metric.options)
        )
    except InputError as problem:  # a value, but too little data for a spread
        return _finished(metric, names, value, None, len(loss), group, _told(problem))
    return _finished(metric, names, value, found, len(loss), group, None)


def entry_of_blocks(metric: Metric, names: tuple[str, str], blocks: Blocks, level: float) -> Entry:
    """Measure a metric on a block table, as far as sums by confidence can tell."""
    n = int(blocks.count.sum())
    rows = blocks.rows()
    if not metric.smooth:
        options = dict(metric.options)
        if metric.name == "risk_at_coverage":
            value = float(points.risk_at_coverage(rows, rows.W[0], options["coverage"])[0])
        elif metric.name == "coverage_at_risk":
            value = float(points.coverage_at_risk(rows, rows.W[0], options["risk"]))
        else:
            return _absent(metric, names, n, None, "needs the samples themselves")
        return _finished(metric, names, value, None, n, None, "no interval: the bootstrap needs the samples")
    zero_one = blocks.zero_one
    if metric.needs_zero_one and not zero_one:
        return _absent(metric, names, n, None, _NOT_ZERO_ONE)
    if metric.needs_both and rows.S[-1] in (0, rows.W[0]):
        return _absent(metric, names, n, None, _ONE_KIND)
    try:
        found = interval_from_blocks(metric.name, blocks, level=level, **dict(metric.options))
    except InputError as problem:
        return _absent(metric, names, n, None, _told(problem))
    return _finished(metric, names, found.estimate, found, n, None, None)


def _absent(metric: Metric, names: tuple[str, str], n: int, group: Any, reason: str) -> Entry:
    score, loss = names
    return Entry(
        score, loss, metric.key, metric.label, metric.lower_is_better, None, n=n, group=group, reason=reason
    )


def _finished(
    metric: Metric,
    names: tuple[str, str],
    value: float,
    found: Interval | None,
    n: int,
    group: Any,
    reason: str | None,
) -> Entry:
    score, loss = names
    head = (score, loss, metric.key, metric.label, metric.lower_is_better, value)
    if found is None:
        return Entry(*head, n=n, group=group, reason=reason)
    told = np.isfinite([found.low, found.high]).all()  # a limit at infinity says nothing
    if not told or (found.standard_error == 0 and found.centre != "bound"):
        return Entry(*head, n=n, group=group, reason="no interval: the samples show no spread")
    spread = (found.standard_error, found.low, found.high, found.method)
    return Entry(*head, *spread, n=n, group=group)


def _told(problem: Exception) -> str:
    """An error's message without the function it came from."""
    return str(problem).partition(": ")[2] or str(problem)


# table --------------------------------------------------------------------------------------------
#
# The whole table: every score x loss x metric, with intervals.


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
    wanted = None if metrics is None else [by_name(m) for m in listed(metrics, (), tuple(METRICS))]
    if engine is None and isinstance(logits, (str, os.PathLike)):
        engine = "files"
    if engine is not None:
        given = settings(
            logits=logits, labels=labels, probs=probs, loss=loss, confidence=confidence, scores=scores,
            losses=losses, sample_weight=sample_weight, abstained=abstained, groups=groups, clusters=clusters,
            progress=progress,
        )  # fmt: skip
        keys = None if wanted is None else [m.key for m in wanted]
        answer = find_engine(engine)(**given, level=level, metrics=keys)
        return (
            answer if isinstance(answer, Evaluation) else evaluate_blocks(answer, metrics=wanted, level=level)
        )
    vectors = gather("evaluate", logits, labels, probs, loss, confidence, scores, losses)
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
    vectors: Vectors,
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
    column = np.asarray(to_host(values)).reshape(-1)
    if len(column) != n:
        raise ShapeError(f"evaluate: `{name}` must have one value per sample, got {len(column)} for {n}.")
    return column


def _group_masks(groups: Array | None, n: int) -> list[tuple[Any, np.ndarray]]:
    labels = _column("groups", groups, n)
    return [] if labels is None else [(label.item(), labels == label) for label in np.unique(labels)]


def _curves(
    vectors: Vectors, columns: dict[str, np.ndarray | None]
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
