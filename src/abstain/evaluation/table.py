"""`evaluate`: every score x loss x metric, each with its interval or the reason it has none.

    logits -> scores and losses, in one pass -> one ranking per score -> Evidence per (score, loss, group) -> Entry

Engines deliver the same Evidence from data that does not fit in memory; `evaluation_of` makes the table of either.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain._check import check_fraction, check_risk, repetitions_error
from abstain._plots import select_drawn_points
from abstain._progress import progress_bars
from abstain.core.area_estimators import area, needs_whole_weights, oracle_area
from abstain.core.influence import Ranked, Reordered, best_ranked
from abstain.core.rows import CHUNK, Blocks, Ranking, Rows, rank_confidences
from abstain.core.stretch import Totals, tables_by
from abstain.display import CurveLine, thinned
from abstain.errors import InfeasibleError, InputError
from abstain.evaluation.chance import warnings_of_entries, worse_than_chance
from abstain.evaluation.results import Entry, Evaluation, TopTies
from abstain.evaluation.vectors import (
    Vectors,
    check_column,
    gather_vectors,
    is_classifier,
    is_table,
    listed,
    names_column,
    read_classifier,
)
from abstain.inference.evidence import POINTS, Asked, Evidence, Part, asked_for, estimate, part_of, together
from abstain.inference.intervals import evidence_of_blocks, interval_of_units
from abstain.inference.limits import interval_of
from abstain.inference.records import Interval
from abstain.inference.standard_errors import Units, check_options, facts, gather, spread_by_sample, totals
from abstain.metrics._sample import group_codes, prepare
from abstain.metrics.few_draws import ENOUGH
from abstain.metrics.registry import METRICS, Metric, by_name

MISSING = "(missing)"  # the group of samples without a label; None stands for all samples
ONE_KIND = "needs both right and wrong samples, got only one kind"
_ANY_LOSS = ("aurc", "augrc", "e_aurc", "naurc", "risk")  # shown by default for losses other than 0/1
DEFAULT_METRICS = (*_ANY_LOSS[:4], "auroc", "risk", "risk_at_coverage", "coverage_at_risk")
_BAR_FROM = 5_000_000  # samples from which on a bar is shown unasked


# what is given --------------------------------------------------------------------------------------------


def metrics_for(wanted: Sequence[Metric] | None, zero_one: bool) -> list[Metric]:
    """The metrics asked for, or those shown by default for this kind of loss."""
    if wanted is None:
        return [by_name(m) for m in (DEFAULT_METRICS if zero_one else _ANY_LOSS)]
    for metric in wanted:
        if (
            zero_one and metric.name == "coverage_at_risk"
        ):  # a risk of 5 means 5%, and would accept everything
            check_risk("evaluate", dict(metric.options)["risk"])
    return list(wanted)


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
        loss, confidence, scores, losses, sample_weight, abstained, groups, clusters, classes and progress that were
        given; the first argument of `evaluate` (`logits`) may be whatever the engine reads, a file for instance. It
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
    home = "abstain.formats" if name in ("path", "table") else "abstain.engines"
    for module in (home, f"abstain.engines.{name}"):
        if name not in _ENGINES and name.isidentifier() and importlib.util.find_spec(module) is not None:
            importlib.import_module(module)
    if name not in _ENGINES:
        known = ", ".join(sorted(_ENGINES)) or "none"
        raise InputError(f"evaluate: unknown engine {name!r} (registered: {known}).")
    return _ENGINES[name]


# from evidence to the table -------------------------------------------------------------------------------

Key = tuple[str, str, Any]  # score, loss, group (None: all samples)


def asked_of(metrics: Sequence[Metric]) -> list[Asked]:
    """What to gather for these metrics: one question for each estimator and rule for ties."""
    return [asked_for(kind) for kind in _by_estimator(metrics)] or [Asked()]


def _by_estimator(metrics: Sequence[Metric]) -> list[list[tuple[str, dict[str, Any]]]]:
    kinds: dict[tuple[Any, Any], list[tuple[str, dict[str, Any]]]] = {}
    for metric in metrics:
        options = dict(metric.options)
        kinds.setdefault((options.get("estimator"), options.get("ties")), []).append((metric.name, options))
    return list(kinds.values())


def evaluation_of(
    found: Mapping[Key, Sequence[Evidence]],
    *,
    metrics: Sequence[Metric] | None = None,
    level: float = 0.95,
    from_samples: Callable[[Key, Metric], Interval | None] = lambda key, metric: None,
    **shown: Any,
) -> Evaluation:
    """The table of any evidence: that of memory, of block tables, of engines.

    `found` holds, for each score, loss and group, evidence for every question of `asked_of(metrics_for(...))`.
    `from_samples` may answer what sums over rows cannot tell (clusters, oracles of other losses). What else an
    `Evaluation` shows (curves, notes ...) comes by name.
    """
    losses = dict.fromkeys(key[1] for key in found)
    zero_one = {
        name: all(e[0].total.right_or_wrong for key, e in found.items() if key[1] == name) for name in losses
    }
    rows = {
        key: [
            _entry(metric, key, evidence, level, partial(from_samples, key))
            for metric in metrics_for(metrics, zero_one[key[1]])
        ]
        for key, evidence in found.items()
    }
    shown["notes"] = [
        *shown.get("notes", ()),
        *warnings_of_entries(e for found in rows.values() for e in found),
    ]
    return _in_one_table(rows, level, **shown)


def _in_one_table(rows: Mapping[Key, Sequence[Entry]], level: float, **shown: Any) -> Evaluation:
    """Group by group and loss by loss: metrics down, scores across."""
    scores, losses, groups = (tuple(dict.fromkeys(key[i] for key in rows)) for i in range(3))
    tables = [[rows[s, l, g] for s in scores if (s, l, g) in rows] for g in groups for l in losses]
    entries = tuple(entry for columns in tables for across in zip(*columns) for entry in across)
    n = max((e.n for e in entries if e.group is None), default=0)
    tuples: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in shown.items()}
    return Evaluation(entries, n, level, **tuples | {"notes": (*tuples.get("notes", ()), *_few(entries))})


def _few(entries: Sequence[Entry]) -> Iterator[str]:
    """A sentence for each loss whose numbers rest on few errors, or on few right samples."""
    found: dict[str, list[Entry]] = {}
    for e in entries:
        if e.note and e.group is None:
            found.setdefault(e.loss, []).append(e)
    for loss, (first, *rest) in found.items():
        more = ""
        if rest:
            more = f", {len(rest)} more {'number' if len(rest) == 1 else 'numbers'} on fewer than {ENOUGH:g}"
        yield f"{first.label} of {first.score} ({loss}) {first.note}{more}."


def _entry(
    metric: Metric,
    key: Key,
    evidence: Sequence[Evidence],
    level: float,
    from_samples: Callable[[Metric], Interval | None],
) -> Entry:
    score, loss, group = key
    total = evidence[0].total
    n = total.n + total.idle[0]
    head = (score, loss, metric.key, metric.label, metric.lower_is_better)

    def without(reason: str, value: float | None = None) -> Entry:
        return Entry(*head, value, n=n, group=group, reason=reason)

    if metric.needs_zero_one and not total.right_or_wrong:
        return without("needs a 0/1 loss")
    if metric.needs_both and total.S in (0, total.W):
        return without(ONE_KIND)
    try:
        found = from_samples(metric)
        if found is None:
            options = {"estimator": "harmonic", "ties": "threshold"} | dict(metric.options)
            kind = (options["estimator"], options["ties"])
            fitting = next(e for e in evidence if (e.asked.estimator, e.asked.ties) == kind)
            found = estimate(metric.name, fitting, level=level, **options)
    except (InputError, InfeasibleError) as problem:
        return without(str(problem).partition(": ")[2])
    if n < 2:
        return without("needs at least two samples (or clusters) to see any spread, got one.", found.estimate)
    finite = np.isfinite([found.low, found.high]).all()  # a limit at infinity says nothing
    if not finite or (found.standard_error == 0 and found.centre != "bound" and found.method != "pointwise"):
        return without("no interval: the samples show no spread", found.estimate)
    spread = (found.standard_error, found.low, found.high, found.method)
    return Entry(*head, found.estimate, *spread, n=n, group=group, note=found.note or None)


def evaluate_blocks(
    tables: Mapping[tuple[str, str], Blocks],
    *,
    metrics: Sequence[str | Metric] | None = None,
    level: float = 0.95,
    abstained: float = 0.0,
    repetitions: bool = False,
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
    repetitions : bool
        Are the weights behind the masses numbers of repetitions?

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
        kinds = _by_estimator(metrics_for(wanted, blocks.zero_one))
        found[score, loss, None] = [evidence_of_blocks(blocks, kind, repetitions) for kind in kinds]
        rows = blocks.rows()
        curves.append((score, loss, thinned(score, rows.accepted_mass / rows.total_mass, rows.risk)))
        ties[score] = TopTies(score, int(blocks.count[-1]), int(blocks.count.sum()))
    return evaluation_of(
        found, metrics=wanted, level=level, curves=curves, top_ties=list(ties.values()), abstained=abstained
    )


# in memory ------------------------------------------------------------------------------------------------


def evaluate(
    logits: Any = None,
    labels: Any = None,
    y: Array | None = None,
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
    repetitions: bool = False,
    abstained: Array | None = None,
    clusters: Array | None = None,
    classes: Any = None,
    engine: Any = None,
    progress: bool | None = None,
) -> Evaluation:
    """Everything about how well a model knows when it is wrong, as one table with intervals.

    The logits are read once, every score is sorted once, and all metrics, losses and intervals of a score are read
    from that order: the whole table costs little more than its sorts.

    Parameters
    ----------
    logits, labels : arrays of shape (..., K) and (...)
        Model outputs and class indices. Probabilities come as `probs` instead of logits; rows that sum to one are
        refused here. A vector holds the log-odds of class 1 of a binary model, such as its decision values.
    y : array, optional
        The labels in `evaluate(classifier, X, y)`: a fitted classifier of scikit-learn (or one like it) is asked for
        its probabilities of X, or else its decision values. The prediction is the most probable class.
        `evaluate(table)` reads a data frame (pandas, polars), an Arrow table or a `datasets.Dataset` as a file of the
        same columns is read, and arguments may name them: `labels="truth"`.
    probs : array of shape (..., K), optional
        Probabilities, where there are no logits. A vector holds the probabilities of class 1 of a binary model.
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
        Of the intervals; each is the one that `abstain.inference.interval` gives for that number.
    groups : array, optional
        One label per sample: every number is also given within each group.
    sample_weight, abstained, clusters : arrays, optional
        Relative weights; samples the model refused (never accepted, kept in the coverage); who belongs together.
    repetitions : bool
        Is a weight a number of repetitions? "aurc:loo", "aurc:log" and random order within ties need that.
    classes : sequence, optional
        The class names in the order of the columns, where labels are words or numbers other than 0 ... K-1.
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
      risk    0.5 [0.167, 0.833]
    notes
      - AURC of confidence (loss) rests on about 2.1 effective errors (3 in all).
    >>> table.best("aurc").score
    'confidence'
    """
    level = check_fraction("evaluate", "level", level, open_high=True)
    wanted = None if metrics is None else [by_name(m) for m in listed(metrics, (), tuple(METRICS))]
    along = {"sample_weight": sample_weight, "abstained": abstained, "clusters": clusters, "groups": groups}
    if is_classifier(logits):
        logits, labels, probs, classes = read_classifier(logits, labels, y, probs, classes)
    elif y is not None:
        raise InputError(
            "evaluate: takes `y` after a fitted classifier and its samples only, got something else."
        )
    if engine is None and isinstance(logits, (str, os.PathLike)):
        engine = "path"
    elif (
        engine is None
        and is_table(logits)
        and all(names_column(x) for x in (labels, probs, loss, confidence))
    ):
        engine = "table"
    if engine is not None:
        model = {"logits": logits, "labels": labels, "probs": probs, "loss": loss, "confidence": confidence}
        given = {
            **model,
            **along,
            "scores": scores,
            "losses": losses,
            "progress": progress,
            "classes": classes,
        }
        given = {name: value for name, value in given.items() if value is not None}
        given |= {"repetitions": True} if repetitions else {}
        keys = None if wanted is None else [m.key for m in wanted]
        answer = _find_engine(engine)(**given, level=level, metrics=keys)
        if isinstance(answer, Evaluation):
            return answer
        return evaluate_blocks(answer, metrics=wanted, level=level, repetitions=repetitions)
    vectors = gather_vectors(logits, labels, probs, loss, confidence, classes, scores=scores, losses=losses)
    columns = {name: check_column(name, values, vectors.n) for name, values in along.items()}
    return _in_memory(vectors, columns, repetitions, wanted, level, progress)


class _Part(NamedTuple):
    """All samples, or those of a group: checked units of each loss, and the confidences of the answered ones."""

    losses: dict[str, Units]
    scores: dict[str, np.ndarray]
    totals: dict[str, Totals]


def _part(
    vectors: Vectors,
    columns: dict[str, np.ndarray | None],
    repetitions: bool,
    here: Any = slice(None),
    whole: dict[str, Units] | None = None,
) -> _Part:
    """Some of the samples; `whole`: all of them, from which a group without an error has the size of one."""
    along: dict[str, Any] = {name: x if x is None else x[here] for name, x in columns.items()}
    along["repetitions"] = repetitions
    some_loss, some_score = (next(iter(x.values()))[here] for x in (vectors.losses, vectors.scores))
    losses = {}
    for name, loss in vectors.losses.items():
        size = whole[name].error_size if whole and whole[name].zero_one else None
        losses[name] = gather("evaluate", "risk", loss[here], some_score, **along, error_size=size)
    del along["clusters"]
    checked = {k: prepare("evaluate", some_loss, g[here], **along) for k, g in vectors.scores.items()}
    confidences = {name: sample.confidence for name, sample in checked.items()}
    return _Part(losses, confidences, {name: totals(units) for name, units in losses.items()})


def _in_memory(
    vectors: Vectors,
    columns: dict[str, Any],
    repetitions: bool,
    wanted: list[Metric] | None,
    level: float,
    progress: bool | None,
) -> Evaluation:
    groups = columns.pop("groups")
    labels: list[Any] = []
    codes = np.empty(0)
    if groups is not None:
        labels, codes = group_codes("evaluate", groups, weight=columns["sample_weight"])
    named = [MISSING if label is None else label for label in labels]
    parts: dict[Any, _Part] = {None: _part(vectors, columns, repetitions)}
    for k, label in enumerate(named):
        parts[label] = _part(vectors, columns, repetitions, codes == k, parts[None].losses)
    whole = next(iter(parts[None].losses.values()))
    for metric in wanted or ():
        options = check_options("evaluate", metric.name, dict(metric.options))
        who = needs_whole_weights(options.get("estimator", "harmonic"), options.get("ties", "threshold"))
        if who and not whole.whole:
            raise repetitions_error("evaluate", who)
    if named and whole.kept is not None:
        codes = codes[whole.kept]
    metrics = {name: metrics_for(wanted, total.right_or_wrong) for name, total in parts[None].totals.items()}
    best: dict[Any, Ranked] = {}
    rows: dict[Key, list[Entry]] = {}
    curves: dict[tuple[str, str], CurveLine] = {}
    chance: list[str] = []
    shown_from = progress if progress or vectors.n >= _BAR_FROM else False
    with progress_bars(shown_from) as shown:
        for score, confidence in parts[None].scores.items():
            for group, ranking in _rankings(confidence, named, codes):
                part = parts[group]
                for name, units in part.losses.items():
                    if not units.zero_one and (group, name) not in best:
                        best[group, name] = best_ranked(units.loss, units.weight, units.whole)
                    own = units._replace(confidence=part.scores[score], by_loss=best.get((group, name)))
                    key = (score, name, group)
                    rows[key], line = _measured(key, own, part.totals[name], ranking, metrics[name], level)
                    if group is None:
                        known = next((e.estimate for e in rows[key] if e.metric == "auroc"), None)
                        warning = worse_than_chance(score, own, known)
                        chance += [] if warning is None else [warning]
                    curves.setdefault((name, score), line)  # that of all samples comes first
            shown.advance("evaluating", 1, len(vectors.scores))
    ties = [TopTies(k, int(np.count_nonzero(g == g.max())), len(g)) for k, g in vectors.scores.items()]
    notes = [f"{t.tied:,} of {t.n:,} samples tie at the top of {t.score}." for t in ties if t.tied > 1]
    notes += [
        f"t: {e.label} of {e.score} ({e.loss}) is {e.estimate:.4g} where equal confidences are accepted together, "
        f"and {e.random_ties:.4g} in random order: more than a standard error apart."
        for found in rows.values()
        for e in found
        if e.random_ties is not None and e.group is None
    ]
    total = next(iter(parts[None].totals.values()))
    return _in_one_table(
        rows,
        level,
        curves=[(s, l, curves[l, s]) for l in vectors.losses for s in vectors.scores],
        top_ties=ties,
        notes=[*chance, *vectors.notes, *notes],
        abstained=total.idle[1] / (total.W + total.idle[1]),
    )


def _rankings(confidence: np.ndarray, labels: list[Any], codes: np.ndarray) -> Iterator[tuple[Any, Ranking]]:
    """The order of all samples, and of each group, which stands in it already."""
    ranking = rank_confidences(confidence)
    yield None, ranking
    for k, label in enumerate(labels):
        mine = codes == k
        order = ranking.order[mine[ranking.order]]
        yield label, Ranking((np.cumsum(mine) - 1)[order], rank_confidences(confidence, order).row_stops)


def _measured(
    key: Key, units: Units, total: Totals, ranking: Ranking, metrics: list[Metric], level: float
) -> tuple[list[Entry], CurveLine]:
    """All metrics of one loss along one ranking, and its curve."""
    by_rows = units.zero_one and units.independent and units.kept is None
    asks = asked_of([m for m in metrics if by_rows or m.name in POINTS])
    if not by_rows:
        units, ranking = _ranked(units, ranking)
    if by_rows or asks != [Asked()]:
        evidence, N, S = _evidence(units, total, ranking, asks)
    else:
        assert units.ranked is not None
        evidence, (N, S) = [Evidence(total, asks[0], {}, (), {})], units.ranked.rows[2:4]
    known = facts(units, total)

    def from_samples(metric: Metric) -> Interval | None:
        """By the influence of each sample: clusters, abstentions, losses other than 0/1."""
        own = units._replace(metric=metric.name, options=dict(metric.options))
        if by_rows or (metric.name in POINTS and units.independent):
            return None
        if metric.name in POINTS:
            return interval_of_units(own, level, None, None)
        return interval_of(metric.name, spread_by_sample("evaluate", own), known, level)

    entries = [_entry(metric, key, evidence, level, from_samples) for metric in metrics]
    if units.whole and len(N) < len(units.loss):
        entries = [_with_ties(entry, N, units.error_size * S) for entry in entries]
    keep = select_drawn_points(N)
    return entries, thinned(key[0], N[keep] / units.total, units.error_size * S[keep] / N[keep])


def _with_ties(entry: Entry, N: np.ndarray, S: np.ndarray) -> Entry:
    """An area beside its value in random order, where the two are more than a standard error apart."""
    if entry.metric != "aurc" or entry.estimate is None or not entry.standard_error:
        return entry
    gap = gap_of_ties(N, S)
    return replace(entry, random_ties=entry.estimate + gap) if abs(gap) > entry.standard_error else entry


def gap_of_ties(N: np.ndarray, S: np.ndarray) -> float:
    """How much larger the area of rows is when samples of equal confidence are accepted one by one, in random order."""
    pieces = [slice(a, a + CHUNK + 1) for a in range(0, len(N), CHUNK)]
    tied = np.concatenate([[0], *(np.flatnonzero(np.diff(N[p]) > 1) + (p.start + 1) for p in pieces)])
    before = np.where(tied > 0, (N[tied - 1], S[tied - 1]), 0.0)  # the top row, and those that hold several
    rows = Rows(
        mass=N[tied] - before[0],
        loss=S[tied] - before[1],
        accepted_mass=N[tied],
        accepted_loss=S[tied],
        total_mass=N[-1:],
        padded=False,
    )
    return float(area(rows, ties="expected") - area(rows))


def _ranked(units: Units, ranking: Ranking) -> tuple[Units, Ranking]:
    """Units with their ranking; put in its order where nobody abstained, so that no influence has to be moved back."""
    if units.kept is not None:
        return units._replace(ranked=Ranked(ranking, units.loss, units.weight)), ranking
    order = ranking.order
    names = ("loss", "weight", "whole_weight", "clusters")  # the confidence is read for clusters alone
    moved = {k: getattr(units, k) for k in (names if units.independent else ("confidence", *names))}
    moved = {name: None if x is None else x[order] for name, x in moved.items()}
    ranking = Ranking(np.arange(len(order)), ranking.row_stops)
    ranked = Ranked(ranking, moved["loss"], moved["weight"], in_order=True)
    by_loss = None if units.by_loss is None else Reordered(units.by_loss, order)
    return units._replace(**moved, ranked=ranked, by_loss=by_loss), ranking


def _evidence(
    units: Units, total: Totals, ranking: Ranking, asks: list[Asked]
) -> tuple[list[Evidence], np.ndarray, np.ndarray]:
    """Evidence for every question, and mass and loss accepted at each row, from one walk along the ranking."""
    parts: list[list[Part]] = [[] for _ in asks]
    accepted = []
    for table in tables_by(ranking, units.loss, units.weight, units.zero_one):
        accepted.append((table.rows.accepted_mass, table.rows.accepted_loss))
        for asked, own in zip(asks, parts):
            own.append(part_of(table, total, asked))
    evidence = []
    for asked, own in zip(asks, parts):
        best = None
        if units.zero_one and not total.whole and "area" in asked.areas:
            best = float(oracle_area(np, units.loss.astype(np.float64), units.weight, asked.estimator))
        evidence.append(together(own, total, asked, best))
    N, S = (np.concatenate(column) for column in zip(*accepted))
    return evidence, N, S
