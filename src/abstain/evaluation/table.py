"""`evaluate`: every score x loss x metric, each with its interval or the reason it has none.

    logits -> scores and losses, in one pass -> one ranking per score -> Evidence per (score, loss, group) -> Entry

Engines deliver the same Evidence from data that does not fit in memory; `evaluation_of` makes the table of either.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from abstain import losses as loss_module
from abstain import scores as score_module
from abstain._arrays import Array, to_host
from abstain._check import check_fraction
from abstain._progress import bars
from abstain.core.estimators import oracle_area
from abstain.core.rows import Blocks, Ranking, ranking_of
from abstain.core.sorting import is_zero_one
from abstain.core.stretch import Totals, table_of_blocks, tables_by, totals_of, totals_of_samples
from abstain.display import CurveLine, thinned
from abstain.errors import InfeasibleError, InputError, ShapeError
from abstain.evaluation.results import Entry, Evaluation, TopTies
from abstain.inference import interval
from abstain.inference.evidence import Asked, Evidence, asked_for, estimate, evidence_of, part_of, together
from abstain.inference.results import Interval
from abstain.metrics._sample import prepare
from abstain.metrics.groups import group_codes
from abstain.metrics.registry import METRICS, Metric, by_name
from abstain.scores.registry import outputs

LOGIT_SCORES = ("max_softmax", "softmax_margin", "negative_entropy", "max_logit")
DEFAULT_LOSSES = ("zero_one", "cross_entropy")
DEFAULT_METRICS = (
    *("aurc", "augrc", "e_aurc", "naurc", "auroc", "risk"),
    *("risk_at_coverage", "coverage_at_risk"),
)
MISSING = "(missing)"  # the group of samples without a label; None stands for all samples
ONE_KIND = "needs both right and wrong samples, got only one kind"
_ANY_LOSS = ("aurc", "augrc", "e_aurc", "naurc", "risk")  # shown by default for losses other than 0/1
_MAY_BE_RULED_OUT = ("cross_entropy", "top_k")  # a label of probability 0; fewer than k classes
_BAR_FROM = 5_000_000  # samples from which on a bar is shown unasked


# what is given --------------------------------------------------------------------------------------------


class Vectors(NamedTuple):
    """Losses and confidences by name, all of one length, and what a reader should know of them."""

    losses: dict[str, np.ndarray]
    scores: dict[str, np.ndarray]
    notes: list[str]

    @property
    def n(self) -> int:
        """Samples."""
        return len(next(iter(self.scores.values())))


def listed(wanted: Any, default: Sequence[Any], everything: Sequence[Any]) -> list[Any]:
    """The names asked for: none means the default, "all" everything, one may stand alone."""
    if wanted is None:
        return list(default)
    if isinstance(wanted, str):
        return list(everything) if wanted == "all" else [wanted]
    return list(wanted) if isinstance(wanted, Sequence) else [wanted]


def metrics_for(wanted: Sequence[Metric] | None, zero_one: bool) -> list[Metric]:
    """The metrics asked for, or those shown by default for this kind of loss."""
    if wanted is not None:
        return list(wanted)
    return [by_name(m) for m in (DEFAULT_METRICS if zero_one else _ANY_LOSS)]


def _flat(values: Mapping[str, Array]) -> dict[str, np.ndarray]:
    return {str(name): np.asarray(to_host(value)).reshape(-1) for name, value in values.items()}


def read_model(
    name: str,
    logits: Array | None = None,
    labels: Array | None = None,
    probs: Array | None = None,
    scores: Any = None,
    losses: Any = None,
) -> Vectors:
    """Scores and losses of one model, in one pass over its outputs.

    A loss that was not asked for by name and that this data rules out is noted and left out.
    """
    kind = "probs" if logits is None else "logits"
    allowed = [s for s in score_module.NAMES if kind in score_module.by_name(s).takes]
    found = outputs(
        logits,
        labels,
        probs=probs,
        scores=listed(scores, [s for s in LOGIT_SCORES if s in allowed], allowed),
        losses=() if labels is None else listed(losses, DEFAULT_LOSSES, loss_module.NAMES),
        name=name,
    )
    notes = []
    for loss, problem in found.refused.items():
        if losses not in (None, "all") or loss not in _MAY_BE_RULED_OUT or not found.losses:
            raise problem
        notes.append(f"{loss} left out: {problem}")
    vectors = Vectors(_flat(found.losses), _flat(found.scores), notes)
    if found.ties is not None and found.ties.tied > 1:
        notes.append(found.ties.sentence)
    if found.rounded > 1:
        notes.append(
            f"{found.rounded:,} samples ({found.rounded / vectors.n:.1%}) have a softmax of exactly 1.0 in float32; "
            f"ranked here by the logits, they do not tie."
        )
    return vectors


def _gather(
    logits: Array | None, labels: Array | None, probs: Array | None, loss: Any, confidence: Any, **names: Any
) -> Vectors:
    """Losses and scores of one model, or the user's own, or both beside each other."""
    if logits is not None and probs is not None:
        raise InputError("evaluate: takes logits or `probs=`, one of them, got both.")
    own_losses, own_scores = (
        {} if given is None else _flat(given if isinstance(given, Mapping) else {default: given})
        for default, given in (("loss", loss), ("confidence", confidence))
    )
    found = Vectors({}, {}, [])
    if logits is None and probs is None:
        if not own_losses or not own_scores:
            raise InputError(
                "evaluate: needs logits and labels, `probs=` and labels, or `loss=` and `confidence=`."
            )
        if any(given is not None for given in names.values()):
            raise InputError("evaluate: `scores=` and `losses=` read logits or probabilities, got none.")
    else:
        if labels is None and not own_losses:
            raise InputError("evaluate: needs `labels` beside logits or probabilities (or your own `loss=`).")
        found = read_model("evaluate", logits, labels, probs, **names)
    found = Vectors({**found.losses, **own_losses}, {**found.scores, **own_scores}, found.notes)
    lengths = {k: len(v) for k, v in {**found.losses, **found.scores}.items()}
    if len(set(lengths.values())) != 1:
        told = ", ".join(f"{k} {v}" for k, v in lengths.items())
        raise ShapeError(f"evaluate: losses and confidences must be of one length, got {told}.")
    if 0 in lengths.values():
        raise InputError("evaluate: needs at least one sample, got none.")
    return found


def _column(name: str, values: Array | None, n: int) -> np.ndarray | None:
    if values is None:
        return None
    column = np.asarray(to_host(values)).reshape(-1)
    if len(column) != n:
        raise ShapeError(f"evaluate: `{name}` must have one value per sample, got {len(column)} for {n}.")
    return column


# engines --------------------------------------------------------------------------------------------------

# An engine brings data that does not fit in memory. It gets every argument of `evaluate` by name, and answers with
# a block table per (score, loss), or with the finished Evaluation.
Engine = Callable[..., Any]
_ENGINES: dict[str, Engine] = {}


def register_engine(name: str, engine: Engine) -> None:
    """Make `evaluate(..., engine=name)` call this function.

    Parameters
    ----------
    name : str
        A plain word.
    engine : callable
        It is called with `level`, `metrics` (keys, or None for the default) and those of logits, labels, probs,
        loss, confidence, scores, losses, sample_weight, abstained, groups, clusters and progress that were given;
        the first argument of `evaluate` (`logits`) may be whatever the engine reads, a file for instance. It
        answers with {(score name, loss name): Blocks}, or with an `Evaluation` (see `evaluation_of`).

    Returns
    -------
    None

    Examples
    --------
    >>> from abstain.core.rows import Blocks
    >>> def stored(*, logits, **rest):
    ...     return {("confidence", "loss"): Blocks.from_samples(np.asarray([0, 0, 1]), np.asarray(logits))}
    >>> register_engine("stored", stored)
    >>> evaluate([0.9, 0.8, 0.1], engine="stored", metrics="aurc")["confidence", "loss", "aurc"].estimate
    0.1111111111111111
    """
    if not name.isidentifier():
        raise InputError(f"register_engine: `name` must be a plain word, got {name!r}.")
    _ENGINES[name] = engine


def _find_engine(name: str | Engine) -> Engine:
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


# from evidence to the table -------------------------------------------------------------------------------

Key = tuple[str, str, Any]  # score, loss, group (None: all samples)
_SUMS_SUFFICE = ("aurc", "augrc", "risk", "risk_at_coverage", "coverage_at_risk")  # for losses other than 0/1


def asked_of(metrics: Sequence[Metric]) -> list[Asked]:
    """What to gather for these metrics: one question for each estimator and rule for ties."""
    kinds: dict[tuple[Any, Any], list[tuple[str, dict[str, Any]]]] = {}
    for metric in metrics:
        options = dict(metric.options)
        kinds.setdefault((options.get("estimator"), options.get("ties")), []).append((metric.name, options))
    return [asked_for(asked) for asked in kinds.values()]


def evaluation_of(
    found: Mapping[Key, Sequence[Evidence]],
    *,
    metrics: Sequence[Metric] | None = None,
    level: float = 0.95,
    curves: Sequence[tuple[str, str, CurveLine]] = (),
    top_ties: Sequence[TopTies] = (),
    notes: Sequence[str] = (),
    abstained: float = 0.0,
    from_samples: Callable[[Key, Metric], Interval | None] = lambda key, metric: None,
) -> Evaluation:
    """The table of any evidence: that of memory, of block tables, of engines.

    `found` holds, for each score, loss and group, evidence for every question of `asked_of(metrics_for(...))`.
    `from_samples` may answer where sums over rows cannot (clusters, oracles of losses other than 0/1).
    """
    scores, losses, groups = (tuple(dict.fromkeys(key[i] for key in found)) for i in range(3))
    zero_one = {
        name: all(e[0].total.zero_one for (_, l, _), e in found.items() if l == name) for name in losses
    }
    entries = [
        _entry(metric, key, found[key], level, from_samples)
        for group in groups
        for loss in losses
        for metric in metrics_for(metrics, zero_one[loss])
        for key in [(score, loss, group) for score in scores]
        if key in found
    ]
    n = max((e.n for e in entries if e.group is None), default=0)
    return Evaluation(tuple(entries), tuple(curves), n, level, abstained, tuple(top_ties), tuple(notes))


def _entry(
    metric: Metric,
    key: Key,
    evidence: Sequence[Evidence],
    level: float,
    from_samples: Callable[[Key, Metric], Interval | None],
) -> Entry:
    score, loss, group = key
    total = evidence[0].total
    n = total.n + total.idle[0]

    def entry(value: float | None, *spread: Any, reason: str | None = None) -> Entry:
        head = (score, loss, metric.key, metric.label, metric.lower_is_better, value)
        return Entry(*head, *spread, n=n, group=group, reason=reason)

    if metric.needs_zero_one and not total.zero_one:
        return entry(None, reason="needs a 0/1 loss")
    if metric.needs_both and total.S in (0, total.W):
        return entry(None, reason=ONE_KIND)
    found, reason = None, None
    for measure in (from_samples, lambda key, metric: _from_sums(metric, evidence, level)):
        try:
            found = found or measure(key, metric)
        except (InputError, InfeasibleError) as problem:
            reason = reason or str(problem).partition(": ")[2]
    if found is None or reason:
        return entry(found and found.estimate, reason=reason)
    if n < 2:
        reason = "needs at least two samples (or clusters) to see any spread, got one."
        return entry(found.estimate, reason=reason)
    finite = np.isfinite([found.low, found.high]).all()  # a limit at infinity says nothing
    if not finite or (found.standard_error == 0 and found.centre != "bound" and found.method != "pointwise"):
        return entry(found.estimate, reason="no interval: the samples show no spread")
    return entry(found.estimate, found.standard_error, found.low, found.high, found.method)


def _from_sums(metric: Metric, evidence: Sequence[Evidence], level: float) -> Interval:
    options = dict(metric.options)
    kind = (options.get("estimator", "harmonic"), options.get("ties", "threshold"))
    fitting = next(e for e in evidence if (e.asked.estimator, e.asked.ties) == kind)
    return estimate(metric.name, fitting, level=level, **options)


def evaluate_blocks(
    tables: Mapping[tuple[str, str], Blocks],
    *,
    metrics: Sequence[str | Metric] | None = None,
    level: float = 0.95,
    abstained: float = 0.0,
) -> Evaluation:
    """The table from block tables by (score, loss), as an engine yields them.

    Parameters
    ----------
    tables : dict of Blocks
        By names of score and loss.
    metrics : names, optional
        As in `evaluate`.
    level : float
        Of the intervals.
    abstained : float
        Share of samples never accepted, to be shown.

    Returns
    -------
    Evaluation
        As `evaluate` gives it; what sums by confidence cannot tell is absent and says why.

    Examples
    --------
    >>> from abstain.core.rows import Blocks
    >>> blocks = Blocks.from_samples(np.asarray([0, 0, 1]), np.asarray([0.9, 0.8, 0.1]))
    >>> evaluate_blocks({("mine", "zero_one"): blocks}, metrics=["aurc"])["mine", "zero_one", "aurc"].estimate
    0.1111111111111111
    """
    if not tables:
        raise InputError("evaluate: the engine gave no tables.")
    wanted = None if metrics is None else [by_name(m) for m in metrics]
    found, curves, ties = {}, [], {}
    for (score, loss), blocks in tables.items():
        table, n = table_of_blocks(blocks), int(blocks.count.sum())
        whole = bool(np.all(blocks.mass == np.floor(blocks.mass)))
        total = totals_of([table], n, blocks.zero_one, bool((blocks.loss_sum < 0).any()), whole)
        asks = asked_of(metrics_for(wanted, blocks.zero_one))
        found[score, loss, None] = [evidence_of([table], total, asked) for asked in asks]
        curves.append((score, loss, thinned(score, table.rows.N / total.W, table.rows.risk)))
        ties[score] = TopTies(score, int(blocks.count[-1]), n)
    return evaluation_of(
        found, metrics=wanted, level=level, curves=curves, top_ties=list(ties.values()), abstained=abstained
    )


# in memory ------------------------------------------------------------------------------------------------


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
    progress: bool | None = None,
) -> Evaluation:
    """Everything about how well a model knows when it is wrong, as one table with intervals.

    The logits are read once, every score is sorted once, and all metrics, losses and intervals of a score are read
    from that order: the whole table costs little more than its sorts.

    Parameters
    ----------
    logits, labels : arrays of shape (..., K) and (...)
        Model outputs and class indices. Probabilities come as `probs` instead of logits.
    probs : array of shape (..., K), optional
        Probabilities, where there are no logits.
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
        Of the intervals; each is the one that `abstain.interval` gives for that number.
    groups : array, optional
        One label per sample: every number is also given within each group.
    sample_weight, abstained, clusters : arrays, optional
        Weights; samples the model refused (never accepted, kept in the coverage); who belongs together.
    engine : str, optional
        Who computes, where data does not fit in memory: see `register_engine`. The first argument is then whatever
        that engine reads. A path alone goes to "files", which works in memory or on disk by the size of the data.
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
    along = {"sample_weight": sample_weight, "abstained": abstained, "clusters": clusters, "groups": groups}
    if engine is None and isinstance(logits, (str, os.PathLike)):
        engine = "files"
    if engine is not None:
        model = {"logits": logits, "labels": labels, "probs": probs, "loss": loss, "confidence": confidence}
        given = {**model, **along, "scores": scores, "losses": losses, "progress": progress}
        given = {name: value for name, value in given.items() if value is not None}
        keys = None if wanted is None else [m.key for m in wanted]
        answer = _find_engine(engine)(**given, level=level, metrics=keys)
        if isinstance(answer, Evaluation):
            return answer
        return evaluate_blocks(answer, metrics=wanted, level=level)
    vectors = _gather(logits, labels, probs, loss, confidence, scores=scores, losses=losses)
    columns = {name: _column(name, values, vectors.n) for name, values in along.items()}
    return _Memory(vectors, columns, wanted, level).evaluation(progress)


class _Memory:
    """Checked vectors of all answered samples, and what each group of them holds."""

    def __init__(
        self,
        vectors: Vectors,
        columns: dict[str, np.ndarray | None],
        wanted: list[Metric] | None,
        level: float,
    ) -> None:
        self.vectors, self.columns, self.wanted, self.level = vectors, columns, wanted, level
        weight, away, groups = (columns[k] for k in ("sample_weight", "abstained", "groups"))
        some_loss, some_score = next(iter(vectors.losses.values())), next(iter(vectors.scores.values()))
        checked = {k: prepare("evaluate", l, some_score, weight, away) for k, l in vectors.losses.items()}
        self.losses = {name: sample.loss for name, sample in checked.items()}
        self.scores = {
            k: prepare("evaluate", some_loss, g, weight, away).confidence for k, g in vectors.scores.items()
        }
        self.weight = next(iter(checked.values())).weight
        self.answered = np.ones(vectors.n, dtype=bool) if away is None else ~away.astype(bool)
        if weight is not None:
            self.answered &= weight > 0
        self.labels, self.codes = ([], None) if groups is None else group_codes("evaluate", groups)
        self.labels = [MISSING if label is None else label for label in self.labels]

    def evaluation(self, progress: bool | None) -> Evaluation:
        found: dict[Key, list[Evidence]] = {}
        curves: dict[tuple[str, str], CurveLine] = {}
        totals = {(None, name): self._total(loss, None) for name, loss in self.losses.items()}
        work = len(self.scores) * len(self.losses)
        with bars(progress if progress or self.vectors.n >= _BAR_FROM else False) as shown:
            for score, confidence in self.scores.items():
                rankings = dict(self._rankings(confidence))
                for name, loss in self.losses.items():
                    for group, ranking in rankings.items():
                        if (group, name) not in totals:
                            totals[group, name] = self._total(loss, group, ranking.order)
                        total = totals[group, name]
                        cell, line = self._cell(ranking, loss, total, totals[None, name].zero_one)
                        found[score, name, group] = cell
                        if group is None:
                            curves[score, name] = thinned(score, line[0] / _mass(total), line[1] / line[0])
                    shown.advance("evaluating", 1, work)
        ties = [
            TopTies(name, int(np.count_nonzero(g == g.max())), len(g))
            for name, g in self.vectors.scores.items()
        ]
        notes = [f"{t.tied:,} of {t.n:,} samples tie at the top of {t.score}." for t in ties if t.tied > 1]
        total = next(iter(totals.values()))
        return evaluation_of(
            found,
            metrics=self.wanted,
            level=self.level,
            curves=[(s, l, curves[s, l]) for l in self.losses for s in self.scores],
            top_ties=ties,
            notes=[*self.vectors.notes, *notes],
            abstained=total.idle[1] / _mass(total),
            from_samples=self._from_samples,
        )

    def _rankings(self, confidence: np.ndarray) -> Iterator[tuple[Any, Ranking]]:
        """The order of all samples, and of each group, which stands in it already."""
        ranking = ranking_of(confidence)
        yield None, ranking
        if self.codes is not None:
            codes = self.codes[self.answered][ranking.order]
            by_group = ranking.order[np.argsort(codes, kind="stable")]
            parts = np.split(by_group, np.cumsum(np.bincount(codes, minlength=len(self.labels)))[:-1])
            for label, order in zip(self.labels, parts):
                if len(order):
                    yield label, ranking_of(confidence, order)

    def _total(self, loss: np.ndarray, group: Any, members: np.ndarray | slice = slice(None)) -> Totals:
        own = loss[members]
        idle = ~self.answered & self._of(group)
        w = np.ones(1) if self.columns["sample_weight"] is None else self.columns["sample_weight"]
        w = np.broadcast_to(w, idle.shape)[idle].astype(np.float64)
        away = (len(w), float(w.sum()), float((w**2).sum()), float((w**4).sum()))
        weight = None if self.weight is None else self.weight[members]
        return totals_of_samples(own, weight, is_zero_one(own), away)

    def _of(self, group: Any) -> np.ndarray:
        """Which of all samples belong to a group."""
        if group is None or self.codes is None:
            return np.ones(self.vectors.n, dtype=bool)
        return np.asarray(self.codes == self.labels.index(group))

    def _cell(
        self, ranking: Ranking, loss: np.ndarray, total: Totals, zero_one: bool
    ) -> tuple[list[Evidence], tuple[np.ndarray, np.ndarray]]:
        """Evidence for every question, and the curve as mass and loss accepted, from one walk along the ranking."""
        asks = asked_of(metrics_for(self.wanted, zero_one))
        parts: list[list[Any]] = [[] for _ in asks]
        curve = []
        for table in tables_by(ranking, loss, self.weight, total.zero_one):
            for asked, own in zip(asks, parts):
                own.append(part_of(table, total, asked))
            curve.append((table.rows.N, table.rows.S))
        N, S = (np.concatenate(column) for column in zip(*curve))
        evidence = []
        for asked, own in zip(asks, parts):
            best = None
            if not total.whole and total.zero_one and "area" in asked.areas:
                members = ranking.order
                best = float(
                    oracle_area(np, loss[members].astype(float), self.weight[members], asked.estimator)
                )
            evidence.append(together(own, total, asked, best))
        return evidence, (N, S)

    def _from_samples(self, key: Key, metric: Metric) -> Interval | None:
        """Where sums over rows cannot tell: clusters, and oracles of losses other than 0/1."""
        score, name, group = key
        loss, confidence = self.vectors.losses[name], self.vectors.scores[score]
        idle = not self.answered.all()
        graded = not (is_zero_one(loss) or metric.name in _SUMS_SUFFICE)
        if self.columns["clusters"] is None and not graded and not (idle and metric.name == "augrc"):
            return None
        here = slice(None) if group is None else self._of(group)
        along = {k: v if v is None else v[here] for k, v in self.columns.items() if k != "groups"}
        options = dict(metric.options)
        return interval(metric.name, loss[here], confidence[here], level=self.level, **along, **options)


def _mass(total: Totals) -> float:
    """Of all samples, abstained included."""
    return total.W + total.idle[1]
