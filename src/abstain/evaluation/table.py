"""`evaluate`: every score x loss x metric, each with its interval or the reason it has none.

    logits -> scores and losses, in one pass -> one ranking per score -> Evidence per (score, loss, group) -> Entry

Engines compute the same Evidence from data that does not fit in memory; `evaluation_of` makes the table from either.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import ArrayLike, to_host
from abstain._check import check_fraction, check_risk, refuse_other_row_order, repetitions_error
from abstain._engines import find_engine
from abstain._names import suggest_name
from abstain._plots import select_drawn_points
from abstain._progress import progress_bars
from abstain._roles import ROLES, UNCERTAINTY
from abstain.calibration.table_metrics import CALIBRATION_METRICS
from abstain.core.area_estimators import area, oracle_area
from abstain.core.influence import AreaUnderCurve, RankedLoss, ReorderedLoss, ranked_by_loss
from abstain.core.part_sums import Totals, tables_along_ranking
from abstain.core.rows import Blocks, Ranking, Rows, rank_confidences
from abstain.core.sorting import CHUNK
from abstain.display import CurveLine, thinned
from abstain.errors import InfeasibleError, InputError
from abstain.evaluation.chance import auroc_of_samples, warnings_of_entries, worse_than_chance
from abstain.evaluation.graded import (
    FurtherMetric,
    evaluate_answers,
    find_further_metric,
    find_ranking_metric,
    further_entries,
    holds_graded_answers,
    message_without_function,
)
from abstain.evaluation.results import MISSING, Entry, Evaluation, TopTies
from abstain.evaluation.vectors import (
    Vectors,
    check_column,
    expand_names,
    gather_vectors,
    is_classifier,
    is_read_file,
    is_table,
    may_name_columns,
    read_classifier,
)
from abstain.inference.clusters import cluster_columns, cluster_counts
from abstain.inference.evidence import (
    Evidence,
    EvidenceRequest,
    PartSummary,
    estimate_interval,
    merge_parts,
    request_for,
    summarise_part,
)
from abstain.inference.intervals import evidence_of_blocks, interval_of_samples
from abstain.inference.limits import make_interval
from abstain.inference.records import Interval
from abstain.inference.standard_errors import (
    CheckedSamples,
    gather,
    spread_by_sample,
    summarise_samples,
    totals_of_samples,
)
from abstain.metrics._sample import group_codes, prepare, rows_of_groups
from abstain.metrics.answer_metrics import AnswerMetric, abstention_metrics, check_truth_values
from abstain.metrics.definitions import AURC, AUROC, METRICS, by_name, metrics_shown_for
from abstain.metrics.few_draws import ENOUGH
from abstain.metrics.metric import Metric, PointMetric

ONE_KIND = "needs both right and wrong samples, got only one kind"
_PROGRESS_FROM = 5_000_000  # samples; from this number on a progress bar is shown by default
_TOLD_TIES = 0.05  # share of the samples that tie, from which on a note says so
_FEW_CLUSTERS = 20  # with fewer, a note says why intervals are wide
_ONE_UNIT = "needs at least two samples (or clusters) to see any spread, got one."  # why there is no interval


# metrics --------------------------------------------------------------------------------------------


def metrics_for(requested_metrics: Sequence[Metric] | None, zero_one: bool) -> list[Metric]:
    """The metrics that the user asked for, or those shown by default for this kind of loss.

    `requested_metrics` is None where the user named no metrics. `zero_one` says that losses are 0 (right) or 1 (wrong);
    InputError where a metric at a given risk, such as "coverage_at_risk@5", is then asked for a risk above 1: that most
    likely means 5%, and would accept everything.
    """
    if requested_metrics is None:
        return metrics_shown_for(zero_one)
    for metric in requested_metrics:
        # such a metric has an option `risk`, a target for the mean loss, which must not lie above the largest loss
        if zero_one and metric.needs.risk_within_losses:
            check_risk("evaluate", metric.option_values["risk"])  # raises if it is above 1
    return list(requested_metrics)


# from evidence to the table -------------------------------------------------------------------------------

Key = tuple[str, str, Any]  # score, loss, group (None: all samples)


def requests_for(metrics: Sequence[Metric]) -> list[EvidenceRequest]:
    """What evidence to gather for these metrics: one request for each pair of estimator and rule for ties.

    Metrics with functions of their own have a request of their own, because they need the whole table at once.
    """
    return [request_for(same_kind) for same_kind in _by_estimator(metrics)] or [EvidenceRequest()]


def _by_estimator(metrics: Sequence[Metric]) -> list[list[Metric]]:
    """Group metrics by estimator and rule for ties, and by whether they can be summed over parts of the ranking.

    The estimator is the formula of an area ("harmonic", "loo", ...), the rule says how equal confidences count
    ("threshold": together, "expected": in random order). Metrics of one list can be computed from one request for
    evidence, the sums that a metric is made of. Lists and their members keep the order of `metrics`; a metric without
    such options counts as of the kind (None, None).
    """
    metrics_by_kind: dict[tuple[Any, ...], list[Metric]] = {}
    for metric in metrics:
        options_set = dict(metric.settings)  # values by name, of the options that were set
        # points of the curve are read from sums; other metrics are functions of an area, which says how it is summed
        is_additive = isinstance(metric, PointMetric) or metric.area.is_additive
        kind = (options_set.get("estimator"), options_set.get("ties"), is_additive)
        metrics_by_kind.setdefault(kind, []).append(metric)
    return list(metrics_by_kind.values())


def evaluation_of(
    evidence_by_key: Mapping[Key, Sequence[Evidence]],
    *,
    metrics: Sequence[Metric] | None = None,
    level: float = 0.95,
    from_samples: Callable[[Key, Metric], Interval | None] = lambda key, metric: None,
    curves: Sequence[tuple[str, str, CurveLine]] = (),
    top_ties: Sequence[TopTies] = (),
    abstained: float = 0.0,
) -> Evaluation:
    """Make the table from evidence (sums over a ranking that error bars are computed from).

    Parameters
    ----------
    evidence_by_key
        For each score, loss and group (None: all samples), the evidence of that ranking: one item for each estimator
        and rule for ties among the metrics. The order of the keys is the order of the table.
    metrics : sequence of Metric, optional
        By default those for the kind of each loss: a loss that is 0/1 in all groups gets more of them.
    level : float
        Two-sided confidence level of the intervals.
    from_samples : callable
        `from_samples(key, metric)` returns the interval of a metric where sums over rows are not enough (clusters,
        oracles of losses other than 0/1), and None where the evidence is.
    curves, top_ties, abstained
        Shown with the table: risk-coverage curves by score and loss, how many samples share the largest confidence of
        each score, and the share of samples that abstained.
    """
    is_zero_one: dict[str, bool] = {}  # by loss: are the losses 0/1 in all groups?
    for (_, loss, _), evidence in evidence_by_key.items():
        # 0/1 in the user's units; all items of one key have the same totals
        is_zero_one[loss] = is_zero_one.get(loss, True) and evidence[0].totals.is_right_or_wrong
    entries_by_key: dict[Key, list[Entry]] = {}
    for key, evidence in evidence_by_key.items():
        # an entry reads the item that was gathered for its metric; undefined numbers become entries with a reason
        entries_by_key[key] = [
            _entry(metric, key, evidence, level, partial(from_samples, key))
            for metric in metrics_for(metrics, is_zero_one[key[1]])
        ]
    all_entries = [entry for entries in entries_by_key.values() for entry in entries]
    return _make_evaluation(
        entries_by_key,
        level,
        curves=curves,
        top_ties=top_ties,
        notes=warnings_of_entries(all_entries),
        abstained=abstained,
    )


def _make_evaluation(
    entries_by_key: Mapping[Key, Sequence[Entry]],
    level: float,
    *,
    curves: Sequence[tuple[str, str, CurveLine]],
    top_ties: Sequence[TopTies],
    notes: Sequence[str],
    abstained: float,
    clusters: tuple[int, ...] = (),
) -> Evaluation:
    """Make the `Evaluation`, with entries in the order of the printed table: by group, then loss, metric and score.

    The entries of one key (score, loss, group) must be in the order of the metrics, the same for all scores. Groups,
    losses and scores keep the order in which the keys name them. Notes on few errors are added to `notes`. `clusters`
    counts the clusters of each kind. `level` is the two-sided confidence level, such as 0.95. `curves` are triples of
    score, loss and curve, and `abstained` is the share of all samples on which the model abstained, by weight.
    """
    scores = dict.fromkeys(score for score, _, _ in entries_by_key)
    losses = dict.fromkeys(loss for _, loss, _ in entries_by_key)
    groups = dict.fromkeys(group for _, _, group in entries_by_key)
    entries: list[Entry] = []
    for group in groups:
        for loss in losses:
            # the entries of each score, in the order of the metrics
            columns = [
                entries_by_key[score, loss, group]
                for score in scores
                if (score, loss, group) in entries_by_key  # an engine may have measured some pairs only
            ]
            for entries_of_metric in zip(*columns):  # one entry of each score
                entries += entries_of_metric
    return Evaluation(
        entries=tuple(entries),
        # of an entry over all samples; a metric of calibration may count fewer than the others
        n=max((entry.n for entry in entries if entry.group is None), default=0),
        level=level,
        curves=tuple(curves),
        abstained=abstained,
        top_ties=tuple(top_ties),
        notes=(*notes, *_notes_on_few_errors(entries)),
        clusters=clusters,
    )


def _notes_on_few_errors(entries: Sequence[Entry]) -> Iterator[str]:
    """A sentence for each loss whose numbers rest on few errors, or on few right samples.

    The `note` of such an entry says how many, as in "rests on about 2.0 effective errors (3 in all)", which are fewer
    than `ENOUGH`; it is None for other entries. The sentence quotes the first number over all samples and counts the
    others; groups are left out.
    """
    entries_by_loss: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.note and entry.group is None:
            entries_by_loss.setdefault(entry.loss, []).append(entry)
    for loss, entries_with_note in entries_by_loss.items():
        quoted = entries_with_note[0]
        sentence = f"{quoted.label} of {quoted.score} ({loss}) {quoted.note}"
        additional = len(entries_with_note) - 1
        if additional:
            numbers = "number" if additional == 1 else "numbers"
            sentence += f", {additional} more {numbers} on fewer than {ENOUGH:g}"
        yield f"{sentence}."


def _entry(
    metric: Metric,
    key: Key,
    evidence: Sequence[Evidence],
    level: float,
    from_samples: Callable[[Metric], Interval | None],
) -> Entry:
    """One number of the table: with its interval, or without an interval or a value and the reason why.

    Parameters
    ----------
    key
        Score, loss and group.
    evidence
        Sums over this ranking, one item for each estimator and rule for ties; the first that covers the metric is used.
    from_samples : callable
        Returns the metric's interval where the evidence is not enough, otherwise None.

    Errors about the metric (InputError, InfeasibleError) become the reason, without the name of the function.
    """
    score, loss, group = key
    total = evidence[0].totals
    n = total.sample_count + total.abstained.sample_count
    make_entry = partial(
        Entry,
        score=score,
        loss=loss,
        metric=metric.key,
        label=metric.full_label,
        lower_is_better=metric.lower_is_better,
        n=n,
        group=group,
    )
    if metric.needs.zero_one and not total.is_right_or_wrong:
        return make_entry(estimate=None, reason="needs a 0/1 loss")
    if metric.needs.both_kinds and total.loss_sum in (0, total.total_mass):
        return make_entry(estimate=None, reason=ONE_KIND)
    try:
        interval = from_samples(metric)
        if interval is None:
            # where none covers the metric, the first leads to an error that says what is missing
            gathered = next((item for item in evidence if item.request.covers(metric)), evidence[0])
            interval = estimate_interval(metric, gathered, level=level)
    except (InputError, InfeasibleError) as problem:
        return make_entry(estimate=None, reason=message_without_function(problem))
    estimate = interval.estimate
    if n < 2:
        return make_entry(estimate=estimate, reason=_ONE_UNIT)
    # limits from counts ("bound") and limits of one point of the curve do not rest on the standard error
    has_spread = interval.standard_error != 0 or interval.centre == "bound" or interval.method == "pointwise"
    has_limits = all(math.isfinite(limit) for limit in (interval.low, interval.high))
    if not has_spread or not has_limits:
        return make_entry(estimate=estimate, reason="no interval: the samples show no spread")
    return make_entry(
        estimate=estimate,
        standard_error=interval.standard_error,
        low=interval.low,
        high=interval.high,
        method=interval.method,
        note=interval.note or None,
    )


def evaluate_blocks(
    tables: Mapping[tuple[str, str], Blocks],
    *,
    metrics: Sequence[str | Metric] | None = None,
    level: float = 0.95,
    abstained: float = 0.0,
    repetitions: bool = False,
) -> Evaluation:
    """Make the table from block tables by (score, loss), as an engine returns them.

    Parameters
    ----------
    tables : dict of Blocks
        By names of score and loss; a table has one row per distinct confidence, with sums over its samples.
    metrics : names, optional
        Names of metrics such as "aurc", "aurc:loo", "risk_at_coverage@0.9"; by default those that suit the losses.
    level : float
        Confidence level of the intervals.
    abstained : float
        Share of samples never accepted; it is only shown.
    repetitions : bool
        Whether the weights behind the masses are numbers of repetitions.

    Returns
    -------
    Evaluation
        As `evaluate` returns it; a number that needs the samples themselves has no value, and `reason` says so.

    Examples
    --------
    >>> from abstain.core.rows import Blocks
    >>> blocks = Blocks.from_samples(np.asarray([0, 0, 1]), np.asarray([0.9, 0.8, 0.1]))
    >>> evaluate_blocks({("mine", "zero_one"): blocks}, metrics=["aurc"])["mine", "zero_one", "aurc"].estimate
    0.1111111111111111
    """
    if not tables:
        raise InputError("evaluate: needs at least one table from the engine, got none.")
    requested_metrics = None if metrics is None else [by_name(metric) for metric in metrics]
    evidence: dict[Key, list[Evidence]] = {}
    curves: list[tuple[str, str, CurveLine]] = []
    top_ties: dict[str, TopTies] = {}
    for (score, loss), blocks in tables.items():
        # metrics in lists: those with one estimator and one rule for ties, whose sums can be computed together
        kinds = _by_estimator(metrics_for(requested_metrics, blocks.zero_one))
        evidence[score, loss, None] = [evidence_of_blocks(blocks, kind, repetitions) for kind in kinds]
        rows = blocks.rows()  # sums over the samples down to each confidence, the highest first
        # `thinned` keeps as many points as a figure shows; `rows.risk` is the mean loss of the accepted
        curves.append((score, loss, thinned(score, rows.accepted_mass / rows.total_mass, rows.risk)))
        # Blocks are in ascending order of confidence, so that the last one holds the ties at the top. They are those of
        # the score, the same for every loss.
        top_ties[score] = TopTies(score, tied=int(blocks.count[-1]), n=int(blocks.count.sum()))
    return evaluation_of(
        evidence,
        metrics=requested_metrics,
        level=level,
        curves=curves,
        top_ties=list(top_ties.values()),
        abstained=abstained,
    )


# in memory ------------------------------------------------------------------------------------------------


@refuse_other_row_order
def evaluate(
    logits: Any = None,
    labels: Any = None,
    y: ArrayLike | None = None,
    *,
    probs: ArrayLike | None = None,
    loss: Any = None,
    confidence: Any = None,
    scores: Any = None,
    losses: Any = None,
    metrics: Any = None,
    level: float = 0.95,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    repetitions: bool = False,
    abstained: ArrayLike | None = None,
    unanswerable: ArrayLike | None = None,
    has_confidence: Any = None,
    clusters: ArrayLike | None = None,
    classes: Any = None,
    engine: Any = None,
    progress: bool | None = None,
    **columns: str,
) -> Evaluation:
    """How well a model knows when it is wrong: all metrics of all scores and losses, with intervals, as one table.

    The logits are read once and every score is sorted once, so the whole table costs little more than its sorts.

    Parameters
    ----------
    logits, labels : arrays of shape (..., K) and (...)
        Model outputs and class indices. Pass probabilities as `probs`; rows that sum to one are an error here. A
        vector is the log-odds of class 1 of a binary model, such as its decision values.
    y : array, optional
        The labels in `evaluate(classifier, X, y)`, where a fitted classifier of scikit-learn (or one like it) computes
        probabilities of X, or else decision values. The prediction is the most probable class.
        `evaluate(table)` reads a data frame (pandas, polars), an Arrow table or a `datasets.Dataset` as it reads a
        file of the same columns, and arguments may name the columns: `labels="truth"`. Notes say how it was read.
        `evaluate(read)` takes what `abstain.formats.read_predictions` returned.
    probs : array of shape (..., K), optional
        Probabilities instead of logits. A vector is the probabilities of class 1 of a binary model.
    loss, confidence : array or dict of arrays
        Your own losses and confidences (higher = surer), alone or in addition to logits and labels. A loss of 0 (right)
        to 1 (wrong) without any confidence gives the table of `abstain.evaluation.evaluate_answers`.
    scores : names or functions, "all", optional
        Confidences computed from the model; by default max_softmax, softmax_margin, negative_entropy and,
        from logits, max_logit.
    losses : names or functions, "all", optional
        By default zero_one and cross_entropy.
    metrics : names, "all", optional
        As in `abstain.metrics.by_name`: "aurc", "aurc:loo", "risk_at_coverage@0.9". By default areas, AUROC
        and two operating points for 0/1 losses, areas and risk for others. Metrics of graded answers ("accuracy",
        "simpleqa_f", as in `abstain.metrics.answer_metric`) and of calibration ("brier_score", "calibration_error")
        can be asked for, too.
    level : float
        Confidence level of the intervals; each is the one that `abstain.inference.interval` gives for that number.
    groups : array, optional
        One label per sample: every number is also given within each group.
    sample_weight, abstained : arrays, optional
        Relative weights; samples the model refused (never accepted, kept in the coverage).
    unanswerable : array of bool, optional
        Which questions have no answer, so that refusing them is right: adds abstention recall, precision and F1.
    has_confidence : array of bool, or dict of them by confidence, optional
        Which samples have a confidence of their own. The others have a number in `confidence` that only ranks them (as
        a file's rows without a confidence have): metrics of the ranking use it, metrics of calibration do not.
    clusters : array, or [array, array], optional
        One label per sample: samples of one cluster are not independent. Two vectors, `[location, week]`, are two
        kinds of clusters that cross.
    repetitions : bool
        Whether a weight is a number of repetitions. "aurc:loo", "aurc:log" and random order within ties need that.
    classes : sequence, optional
        The class names in the order of the columns, where labels are words or numbers other than 0 ... K-1.
    engine : str, optional
        Compute backend for data that does not fit in memory: "files", "dask", "spark", or one of your own (see
        `register_engine`). The first argument is then whatever that engine reads. A path alone is read in memory or
        by "files", depending on the size of the data.
    progress : bool, optional
        Show a progress bar; by default for long work.
    **columns : str
        Names of further columns of a file or a table: `correct="is_right"`, `prediction="answer"`, `ids="case"`.

    Returns
    -------
    Evaluation
        With `frame()`, `best()`, `plot()`, `to_markdown()`, `to_latex()`, `to_json()`. A number that is
        undefined on this data is None with a `reason`; it is never NaN.

    Examples
    --------
    >>> table = evaluate(loss=[0, 0, 1, 0, 1, 1], confidence=[9, 8, 7, 6, 5, 4], metrics=["aurc", "risk"])
    >>> table
    Evaluation of 6 samples; estimate [95% interval], * best value of its row, not tested
    loss: loss
      metric  confidence
      AURC    0.2472 [0.00696, 1]
      risk    0.5 [0.167, 0.833]
    notes
      - AURC of confidence (loss) rests on about 2.0 effective errors (3 in all).
    >>> table.best("aurc").score
    'confidence'
    """
    level = check_fraction("evaluate", "level", level, open_high=True)
    requested_metrics = None
    further_metrics: list[FurtherMetric] = []
    if metrics is not None:
        metric_names = expand_names(metrics, default=(), all_names=tuple(METRICS))
        requested_metrics, further_metrics = _split_metrics(metric_names)
    if is_classifier(logits):
        # `evaluate(classifier, X, y)`: here `labels` is X
        outputs = read_classifier(logits, X=labels, y=y, probs=probs, classes=classes)
        logits, probs, classes = outputs
        labels = y
    elif y is not None:
        raise InputError(
            "evaluate: takes `y` after a fitted classifier and its samples only, got something else."
        )
    sample_columns = {
        "sample_weight": sample_weight,
        "abstained": abstained,
        "unanswerable": unanswerable,
        "clusters": clusters,
        "groups": groups,
    }
    if isinstance(logits, dict) or isinstance(probs, dict):
        raise InputError(
            "evaluate: takes the outputs of one model, got a dict. Use `compare`, or call it for each model."
        )
    if engine is None and isinstance(logits, (str, os.PathLike)):
        engine = "path"
    elif engine is None and is_table(logits) and may_name_columns(labels, probs, loss, confidence):
        engine = "table"
    elif engine is None and is_read_file(logits):
        engine = "predictions"
    if columns:
        _check_named_columns(columns, is_read=engine in ("path", "table"))
    if engine is not None:
        arguments = {
            **columns,
            "logits": logits,
            "labels": labels,
            "probs": probs,
            "loss": loss,
            "confidence": confidence,
            "scores": scores,
            "losses": losses,
            "classes": classes,
            "progress": progress,
            "has_confidence": has_confidence,
            **sample_columns,
        }
        passed = {name: value for name, value in arguments.items() if value is not None}
        if repetitions:
            passed["repetitions"] = True
        engine_metrics = None
        if requested_metrics is not None:  # by key where the engine can find them by name
            engine_metrics = [
                metric.key if metric.name in METRICS else metric
                for metric in (*requested_metrics, *further_metrics)
            ]
        result = find_engine(engine)(**passed, level=level, metrics=engine_metrics)
        if isinstance(result, Evaluation):
            return result
        return evaluate_blocks(result, metrics=requested_metrics, level=level, repetitions=repetitions)
    is_ranked = any(argument is not None for argument in (logits, probs, confidence))
    has_one_loss = loss is not None and not isinstance(loss, Mapping)
    if has_confidence is not None and not is_ranked:
        raise InputError("evaluate: `has_confidence` says which samples have a `confidence`, got none.")
    if has_one_loss and not is_ranked and not requested_metrics and sample_weight is None:
        return _evaluate_without_confidence(
            loss,
            abstained,
            further_metrics or None,
            unanswerable=unanswerable,
            level=level,
            clusters=clusters,
            groups=groups,
        )
    vectors = gather_vectors(
        logits=logits,
        labels=labels,
        probs=probs,
        loss=loss,
        confidence=confidence,
        classes=classes,
        scores=scores,
        losses=losses,
    )
    sample_columns["clusters"] = cluster_columns("evaluate", clusters, vectors.n)
    checked_columns = {name: check_column(name, column, vectors.n) for name, column in sample_columns.items()}
    return _evaluate_in_memory(
        vectors,
        checked_columns,
        has_confidence=_check_has_confidence(has_confidence, vectors),
        repetitions=repetitions,
        requested_metrics=requested_metrics,
        further_metrics=further_metrics,
        level=level,
        progress=progress,
    )


def _check_named_columns(columns: Mapping[str, Any], *, is_read: bool) -> None:
    """Raise unless these arguments of `evaluate` name columns of a file or a table that is read.

    Keys are arguments that `evaluate` has no place for where it gets arrays. TypeError for one that is no role of a
    column, InputError for the others. `is_read`: the first argument is a path or a table.
    """
    for name, value in columns.items():
        if name not in (*ROLES, UNCERTAINTY):
            suggestion = suggest_name(name, ROLES)  # 'Did you mean "labels"?', or an empty text
            raise TypeError(f"evaluate() got an unexpected keyword argument {name!r}. {suggestion}".rstrip())
        if not isinstance(value, str) or not is_read:
            # the name of a column where arrays were passed, otherwise a value that is no name
            got = "arrays" if isinstance(value, str) else f"{type(value).__name__} for it"
            raise InputError(
                f"evaluate: `{name}` must be the name of a column of a file or a table, got {got}. Arrays go in "
                f"as `loss` (1 - correct) and `confidence`, or as class scores with `labels`."
            )


def _check_has_confidence(has_confidence: Any, vectors: Vectors) -> dict[str, np.ndarray]:
    """Return the argument of `evaluate` as truth values by the name of the confidence.

    A confidence that is not listed is one that every sample has. InputError for names that are no confidences and for
    values other than true and false, one for each sample.
    """
    if has_confidence is None:
        return {}
    # one argument is that of every confidence; `vectors.scores` holds these by name
    by_score = (
        has_confidence
        if isinstance(has_confidence, Mapping)
        else dict.fromkeys(vectors.scores, has_confidence)
    )
    unknown = [name for name in by_score if name not in vectors.scores]
    if unknown:
        raise InputError(
            f"evaluate: `has_confidence` names {unknown[0]!r}, which is no confidence; there are: "
            f"{', '.join(vectors.scores)}."
        )
    return {
        name: check_truth_values("evaluate", "has_confidence", mask, vectors.n)
        for name, mask in by_score.items()
    }


def _split_metrics(metrics: Sequence[Any]) -> tuple[list[Metric], list[FurtherMetric]]:
    """Metrics of the ranking, and those of graded answers and of calibration, from names or definitions.

    InputError for an unknown name.
    """
    ranking_metrics: list[Metric] = []
    further_metrics: list[FurtherMetric] = []
    for metric in metrics:
        further = find_further_metric(metric)  # of graded answers or of calibration
        if further is None:  # a metric of the ranking, or an unknown name, which raises
            ranking_metrics.append(find_ranking_metric(metric))
        else:
            further_metrics.append(further)
    return ranking_metrics, further_metrics


def _evaluate_without_confidence(
    loss: ArrayLike,
    abstained: ArrayLike | None,
    metrics: Sequence[FurtherMetric] | None,
    *,
    unanswerable: ArrayLike | None,
    level: float,
    clusters: ArrayLike | None,
    groups: ArrayLike | None,
) -> Evaluation:
    """The table of graded answers from losses of 0 (right) to 1 (wrong); `metrics` None means all that apply.

    InputError for other losses, and where a metric needs a confidence. `level` is the two-sided confidence level, such
    as 0.95.
    """
    losses = np.asarray(to_host(loss), dtype=np.float64)
    answered = None  # all
    if abstained is not None:
        answered = ~np.asarray(to_host(abstained)).astype(bool)
    answer_metrics: list[AnswerMetric] = []
    for metric in metrics or ():
        if not isinstance(metric, AnswerMetric):
            raise InputError(f"evaluate: {metric.key} needs `confidence=`, got none.")
        answer_metrics.append(metric)
    if not ((losses >= 0) & (losses <= 1)).all():
        raise InputError(
            "evaluate: needs `confidence=` for losses other than 0 (right) to 1 (wrong), got none."
        )
    return evaluate_answers(
        1 - losses,  # how right each answer is
        answered=answered,
        metrics=None if metrics is None else answer_metrics,
        unanswerable=unanswerable,
        level=level,
        clusters=clusters,
        groups=groups,
    )


class _SamplesOfGroup(NamedTuple):
    """All samples, or those of one group, checked, by the name of the loss or the score.

    The samples with each loss have some confidence, and no ranking yet; confidences are those of the answered samples.
    """

    samples_by_loss: dict[str, CheckedSamples]
    confidence_by_score: dict[str, np.ndarray]
    totals_by_loss: dict[str, Totals]


def _check_samples(
    vectors: Vectors,
    columns: Mapping[str, np.ndarray | None],
    repetitions: bool,
    rows: np.ndarray | slice,
    all_samples: _SamplesOfGroup | None = None,
) -> _SamplesOfGroup:
    """Check the samples of these rows once for every loss and once for every score.

    `columns` are sample_weight, abstained and clusters, each None or with one value per sample of the whole data (two
    for two kinds of clusters). `rows` selects the samples: all of them, or those of a group. For a group, `all_samples`
    is the result for all samples: it tells the size of an error (the value of a loss that is 0 or one number), because
    the group may have no error. Losses are checked with any of the scores, and scores with any of the losses. Invalid
    values raise. `repetitions` says that weights are numbers of repetitions. Totals are sums of weights and losses over
    the answered samples, and of weights over those that abstained.
    """
    selected: dict[str, Any] = {
        name: None if column is None else column[rows] for name, column in columns.items()
    }
    clusters = selected.pop("clusters")
    # `vectors.losses` and `vectors.scores` hold one vector of the whole data by name
    any_loss = next(iter(vectors.losses.values()))[rows]
    any_confidence = next(iter(vectors.scores.values()))[rows]
    samples_by_loss = {}
    for name, loss in vectors.losses.items():
        error_size = None  # found from the losses themselves
        if all_samples is not None and all_samples.samples_by_loss[name].zero_one:
            error_size = all_samples.samples_by_loss[name].error_size
        samples_by_loss[name] = gather(
            "evaluate",
            "risk",  # any metric without options: `samples.metric` is replaced by each one that is measured
            loss[rows],
            any_confidence,
            **selected,
            clusters=clusters,
            repetitions=repetitions,
            error_size=error_size,
        )
    confidences = {}
    for name, confidence in vectors.scores.items():
        # checks the confidence, and drops samples that abstained or have weight 0
        sample = prepare("evaluate", any_loss, confidence[rows], **selected, repetitions=repetitions)
        confidences[name] = sample.confidence
    return _SamplesOfGroup(
        samples_by_loss=samples_by_loss,
        confidence_by_score=confidences,
        totals_by_loss={name: totals_of_samples(samples) for name, samples in samples_by_loss.items()},
    )


def _evaluate_in_memory(
    vectors: Vectors,
    columns: dict[str, np.ndarray | None],
    *,
    has_confidence: Mapping[str, np.ndarray],
    repetitions: bool,
    requested_metrics: list[Metric] | None,
    further_metrics: Sequence[FurtherMetric],
    level: float,
    progress: bool | None,
) -> Evaluation:
    """Evaluate losses and confidences in memory: one sort per score, shared by all losses, groups and metrics.

    `columns` are sample_weight, abstained, unanswerable, clusters and groups, each None or with one value per sample;
    "unanswerable" and "groups" are removed from it. `has_confidence` says which samples have a confidence of their own,
    by the name of the confidence; one that is not in it is one that every sample has. `requested_metrics` None means
    the default for each kind of loss, with the metrics of abstention where it is known which questions are
    unanswerable; `further_metrics` are requested ones that do not read the ranking. `progress` None means a
    progress bar for many samples only. InputError where a metric needs weights that are repetitions.
    """
    groups = columns.pop("groups")
    unanswerable = columns.pop("unanswerable")
    clusters = columns["clusters"]
    if unanswerable is not None:
        unanswerable = check_truth_values("evaluate", "unanswerable", unanswerable, vectors.n)
    group_names: list[Any] = []
    codes = np.empty(0, dtype=np.intp)
    if groups is not None:
        labels, codes = group_codes("evaluate", groups, weight=columns["sample_weight"])
        group_names = [MISSING if label is None else label for label in labels]
    all_samples = _check_samples(vectors, columns, repetitions, slice(None))
    any_samples = next(iter(all_samples.samples_by_loss.values()))
    # samples of weight 0 were dropped, and are in no group
    checked_rows = slice(None) if any_samples.has_weight is None else any_samples.has_weight
    samples_of_group: dict[Any, _SamplesOfGroup] = {None: all_samples}
    unanswerable_of_group = {None: None if unanswerable is None else unanswerable[checked_rows]}
    rows_of_group: dict[Any, slice | np.ndarray] = {None: checked_rows}
    for name, rows in zip(group_names, rows_of_groups(codes, len(group_names))):
        samples_of_group[name] = _check_samples(vectors, columns, repetitions, rows, all_samples)
        unanswerable_of_group[name] = None if unanswerable is None else unanswerable[rows]
        rows_of_group[name] = rows
    _check_repetitions(requested_metrics or (), any_samples)
    if group_names:
        codes = codes[checked_rows]
        if any_samples.is_answered is not None:
            codes = codes[any_samples.is_answered]  # rankings hold the answered samples only
    metrics = {
        loss: metrics_for(requested_metrics, total.is_right_or_wrong)
        for loss, total in all_samples.totals_by_loss.items()
    }
    further_metrics_of_loss = dict.fromkeys(all_samples.samples_by_loss, further_metrics)
    if requested_metrics is None and unanswerable is not None:
        further_metrics_of_loss = {
            loss: abstention_metrics() if holds_graded_answers(samples) else []
            for loss, samples in all_samples.samples_by_loss.items()
        }
    # samples ranked by their loss, the order of the oracle, by group and name of the loss; for losses other than 0/1
    best_order: dict[tuple[Any, str], RankedLoss] = {}
    entries: dict[Key, list[Entry]] = {}
    curves: dict[tuple[str, str], CurveLine] = {}
    warnings: list[str] = []
    # by score, the share of the answered samples that share their confidence with others
    tied_of_score: dict[str, float] = {}
    show_progress = progress if progress or vectors.n >= _PROGRESS_FROM else False
    with progress_bars(show_progress) as bars:
        for score, confidence in all_samples.confidence_by_score.items():
            for group, ranking in _rankings(confidence, group_names, codes):
                group_samples = samples_of_group[group]
                has_own = has_confidence.get(score)
                # the user's own that replace computed ones are these for all samples that have one
                is_computed = score in vectors.computed_scores and (
                    score not in vectors.replaced_scores or has_own is not None
                )
                probability = vectors.probability if score == "max_softmax" else None
                for loss, samples_with_loss in group_samples.samples_by_loss.items():
                    if not samples_with_loss.zero_one and (group, loss) not in best_order:
                        best_order[group, loss] = ranked_by_loss(
                            samples_with_loss.answered_loss,
                            samples_with_loss.answered_weight,
                            samples_with_loss.has_whole_weights,
                        )
                    samples = samples_with_loss._replace(
                        answered_confidence=group_samples.confidence_by_score[score],
                        ranked_by_loss=best_order.get((group, loss)),
                    )
                    key = (score, loss, group)
                    entries[key], curve = _measure(
                        key, samples, group_samples.totals_by_loss[loss], ranking, metrics[loss], level
                    )
                    entries[key] += further_entries(
                        further_metrics_of_loss[loss],
                        samples,
                        unanswerable=unanswerable_of_group[group],
                        has_confidence=None if has_own is None else has_own[rows_of_group[group]],
                        is_computed=is_computed,
                        probability=None if probability is None else probability[rows_of_group[group]],
                        level=level,
                        score=score,
                        loss=loss,
                        group=group,
                    )
                    if group is None:
                        tied_of_score[score] = _tied_share(ranking)
                        curves[score, loss] = curve
                        auroc = next(
                            (entry.estimate for entry in entries[key] if entry.metric == AUROC.key), None
                        )
                        ranked_samples: CheckedSamples | None = samples
                        if has_own is not None and not has_own.all():
                            # the others are ranked by a number that is none of this confidence
                            ranked_samples = _samples_with_confidence(
                                vectors.losses[loss], vectors.scores[score], columns, repetitions, has_own
                            )
                            auroc = None
                        if auroc is None and ranked_samples is not None:
                            auroc = auroc_of_samples(ranked_samples)
                        warning = None
                        if ranked_samples is not None:
                            warning = worse_than_chance(score, ranked_samples, auroc, is_computed=is_computed)
                        if warning is not None:
                            warnings.append(warning)
            bars.advance("evaluating", 1, len(vectors.scores))
    scores_of_rows = {score: confidence[checked_rows] for score, confidence in vectors.scores.items()}
    top_ties = [
        TopTies(score, int(np.count_nonzero(confidence == confidence.max())), len(confidence))
        for score, confidence in scores_of_rows.items()
    ]
    any_total = next(iter(all_samples.totals_by_loss.values()))
    abstained_mass = any_total.abstained.mass
    counts_of_clusters = cluster_counts(None if clusters is None else clusters[checked_rows])
    return _make_evaluation(
        entries,
        level,
        curves=[(score, loss, curves[score, loss]) for loss in vectors.losses for score in vectors.scores],
        top_ties=top_ties,
        notes=[
            *warnings,
            *vectors.notes,
            *_notes_on_calibration(entries),
            *_notes_on_ties(top_ties, entries),
            *_note_on_tied(tied_of_score),
            *notes_on_few_clusters(counts_of_clusters),
        ],
        abstained=abstained_mass / (any_total.total_mass + abstained_mass),
        clusters=counts_of_clusters,
    )


def _samples_with_confidence(
    loss: np.ndarray,
    confidence: np.ndarray,
    columns: Mapping[str, np.ndarray | None],
    repetitions: bool,
    has_own: np.ndarray,
) -> CheckedSamples | None:
    """The checked samples that have a confidence of their own; None where these do not have right and wrong answers.

    `columns` are sample_weight, abstained and clusters of all samples, or None; `has_own` is a mask of all samples.
    `repetitions` says that weights are numbers of repetitions. They are checked for AUROC, which needs both kinds.
    """
    own_columns = {name: None if column is None else column[has_own] for name, column in columns.items()}
    try:
        return gather(
            "evaluate", AUROC, loss[has_own], confidence[has_own], **own_columns, repetitions=repetitions
        )
    except (InputError, InfeasibleError):
        # all of them abstained or have no weight; or all are right, or all wrong
        return None


def _notes_on_calibration(entries: Mapping[Key, Sequence[Entry]]) -> list[str]:
    """A sentence for each confidence that some answers lack, with the number of answers that its calibration is of.

    `entries` are those of a table, by confidence, loss and group (None: all samples). The result is empty where no
    metric of calibration was asked for, and where all answers have every confidence. Groups are left out.
    """
    notes: dict[str, str] = {}
    for (score, _loss, group), entries_of_key in entries.items():
        # metrics of the ranking count all samples, those of calibration only samples that have the confidence
        sample_count = max((entry.n for entry in entries_of_key), default=0)
        for entry in entries_of_key:
            if group is None and entry.metric in CALIBRATION_METRICS and entry.n < sample_count:
                notes[score] = (
                    f"Calibration of {score} is measured on the {entry.n:,} of {sample_count:,} samples that have it."
                )
    return list(notes.values())


def _check_repetitions(metrics: Sequence[Metric], samples: CheckedSamples) -> None:
    """Raise InputError if a metric needs weights that are numbers of repetitions and the weights are relative."""
    for metric in metrics:
        if metric.counting_option and not samples.has_whole_weights:
            raise repetitions_error("evaluate", metric.counting_option)


def _tied_share(ranking: Ranking) -> float:
    """The share of the samples of a ranking that have the same confidence as another one."""
    sizes = np.diff(ranking.row_stops, prepend=0)
    return float(sizes[sizes > 1].sum()) / len(ranking.order)


def notes_on_few_clusters(cluster_counts: Sequence[int]) -> list[str]:
    """A sentence where there are few clusters of a kind, which makes intervals wide; otherwise none.

    `cluster_counts` has the number of clusters of each kind, and is empty for independent samples.
    """
    fewest = min(cluster_counts, default=_FEW_CLUSTERS)
    if not 1 < fewest < _FEW_CLUSTERS:  # fewer than 20; a single cluster gives no interval at all
        return []
    return [
        f"{fewest} clusters are few: how much they differ is itself uncertain, and intervals are wider for that than "
        f"those of a bootstrap, which would be too narrow."
    ]


def _note_on_tied(tied_of_score: Mapping[str, float]) -> list[str]:
    """A sentence on scores by which a noticeable share of the samples ties; empty if there is none."""
    listed = [f"{share:.0%} by {score}" for score, share in tied_of_score.items() if share >= _TOLD_TIES]
    if not listed:
        return []
    return [
        f"Samples that have the same confidence as another one: {', '.join(listed)}. They are accepted together."
    ]


def _notes_on_ties(top_ties: Sequence[TopTies], entries_by_key: Mapping[Key, Sequence[Entry]]) -> list[str]:
    """A sentence for each score with ties at its top, and for each area that depends on how ties are counted.

    Those areas have `random_ties`, the value with equal confidences in random order. Groups are left out.
    """
    notes = [
        f"{ties.tied:,} of {ties.n:,} samples tie at the top of {ties.score}."
        for ties in top_ties
        if ties.tied > 1
    ]
    for entries in entries_by_key.values():
        notes += [
            f"t: {entry.label} of {entry.score} ({entry.loss}) is {entry.estimate:.4g} where equal confidences are "
            f"accepted together, and {entry.random_ties:.4g} in random order: more than a standard error apart."
            for entry in entries
            if entry.random_ties is not None and entry.group is None
        ]
    return notes


def _rankings(
    confidence: np.ndarray, group_names: Sequence[Any], codes: np.ndarray
) -> Iterator[tuple[Any, Ranking]]:
    """The ranking of all samples (group None), then that of each group, taken from it without sorting again.

    A `Ranking` is an order of samples (indices, most confident first) and where runs of equal confidence stop in it
    (`row_stops`). `codes` holds the place of each sample's group in `group_names`, with as many values as `confidence`.
    The order of a group refers to its own samples, numbered from 0 in the order of the data.
    """
    ranking = rank_confidences(confidence)
    yield None, ranking
    if not group_names:
        return
    place_in_group = np.empty(len(codes), dtype=np.intp)  # of each sample, among those of its own group
    for rows in rows_of_groups(codes, len(group_names)):
        place_in_group[rows] = np.arange(len(rows))
    ranked_codes = codes[ranking.order]
    # `rows_of_groups` lists the indices of each code, rising: `places` are those of the group's samples in the ranking
    # of all samples, so that they are most confident first
    for name, places in zip(group_names, rows_of_groups(ranked_codes, len(group_names))):
        order = ranking.order[places]
        group_ranking = rank_confidences(confidence, order)  # the order is known: nothing is sorted
        yield name, Ranking(place_in_group[order], group_ranking.row_stops)


def _measure(
    key: Key, samples: CheckedSamples, total: Totals, ranking: Ranking, metrics: list[Metric], level: float
) -> tuple[list[Entry], CurveLine]:
    """The entries of all metrics of one loss along one ranking, and the risk-coverage curve.

    Parameters
    ----------
    key
        Score, loss and group, for the entries.
    samples : CheckedSamples
        The checked samples, in the order of the data, with losses in units of `error_size`.
    total : Totals
        Sums over these samples.
    ranking : Ranking
        Their order, most confident first.

    Independent 0/1 losses are summed over rows of equal confidence (evidence). Clusters, abstentions and other losses
    need the influence of each sample, except for points of the curve of independent samples. Samples that all belong to
    one cluster, as those of a group may, get numbers without intervals.
    """
    has_one_cluster = samples.clusters is not None and samples.unit_count < 2
    if has_one_cluster:
        samples = samples._replace(clusters=None)
    sums_suffice = samples.zero_one and samples.has_independent_samples and samples.is_answered is None
    requests = requests_for([metric for metric in metrics if sums_suffice or isinstance(metric, PointMetric)])
    if not sums_suffice:
        samples, ranking = _in_ranking_order(samples, ranking)
    nothing_requested = requests == [EvidenceRequest()]  # what `requests_for` returns for no metrics
    if sums_suffice or not nothing_requested:
        evidence, accepted_mass, accepted_loss = _gather_evidence(samples, total, ranking, requests)
    else:
        assert samples.ranked_by_confidence is not None
        no_evidence = Evidence(
            totals=total, request=requests[0], area_sums={}, accepted_sums=None, mass_within_risk={}
        )
        evidence = [no_evidence]
        accepted_mass = samples.ranked_by_confidence.rows.accepted_mass
        accepted_loss = samples.ranked_by_confidence.rows.accepted_loss
    sample = summarise_samples(samples, total)

    def from_samples(metric: Metric) -> Interval | None:
        """The interval from the influence of each sample; None where the evidence is enough."""
        is_point = isinstance(metric, PointMetric)
        if is_point and samples.has_independent_samples:
            return None
        if metric.is_smooth and sums_suffice:
            return None
        metric_samples = samples._replace(metric=metric)
        if not metric.is_smooth:  # no influence function: a point of the curve of clustered samples
            return interval_of_samples(metric_samples, level, None, None)
        return make_interval(metric, spread_by_sample("evaluate", metric_samples), sample, level)

    entries = [_entry(metric, key, evidence, level, from_samples) for metric in metrics]
    if has_one_cluster:
        entries = [_without_interval(entry, _ONE_UNIT) for entry in entries]
    has_ties = len(accepted_mass) < len(samples.answered_loss)
    if samples.has_whole_weights and has_ties:
        entries = [
            _with_random_ties(entry, accepted_mass, samples.error_size * accepted_loss) for entry in entries
        ]
    drawn = select_drawn_points(accepted_mass)
    coverage = accepted_mass[drawn] / samples.total_mass
    risk = samples.error_size * accepted_loss[drawn] / accepted_mass[drawn]
    score, _loss, _group = key
    return entries, thinned(score, coverage, risk)


def _without_interval(entry: Entry, reason: str) -> Entry:
    """A number without its interval, and the reason why; an entry without a number is returned as it is."""
    if entry.estimate is None:
        return entry
    return replace(entry, standard_error=None, low=None, high=None, method=None, note=None, reason=reason)


def _with_random_ties(entry: Entry, accepted_mass: np.ndarray, accepted_loss: np.ndarray) -> Entry:
    """Add to an AURC its value with ties in random order, where the two are more than a standard error apart.

    `accepted_mass` and `accepted_loss` are cumulated over rows of distinct confidence, most confident first.
    """
    if entry.metric != AURC.key or entry.estimate is None or not entry.standard_error:
        return entry
    gap = gap_of_ties(accepted_mass, accepted_loss)
    if abs(gap) <= entry.standard_error:
        return entry
    return replace(entry, random_ties=entry.estimate + gap)


def gap_of_ties(accepted_mass: np.ndarray, accepted_loss: np.ndarray) -> float:
    """How much larger AURC is when samples of equal confidence are accepted one by one, in random order.

    Both arrays are cumulated over rows of distinct confidence, most confident first; masses are numbers of samples.
    A row of one sample adds the same to both areas, so such rows are left out (but for the first row, which is always
    taken, so that the table is not empty).
    """
    tied_rows = [np.zeros(1, dtype=np.intp)]  # the first row
    for start in range(0, len(accepted_mass), CHUNK):  # in parts of CHUNK rows, to save memory
        # of the rows start + 1 to start + CHUNK: parts overlap by one entry, so that no row is left out
        mass_of_rows = np.diff(accepted_mass[start : start + CHUNK + 1])
        tied_rows.append(np.flatnonzero(mass_of_rows > 1) + (start + 1))
    tied = np.concatenate(tied_rows)
    # what is accepted above each of these rows: nothing above the first
    mass_above = np.where(tied > 0, accepted_mass[tied - 1], 0.0)
    loss_above = np.where(tied > 0, accepted_loss[tied - 1], 0.0)
    # as a part of the whole table: sums count from its top, and the total mass is that of all its rows
    rows = Rows(
        mass=accepted_mass[tied] - mass_above,
        loss=accepted_loss[tied] - loss_above,
        accepted_mass=accepted_mass[tied],
        accepted_loss=accepted_loss[tied],
        total_mass=accepted_mass[-1:],  # an array, like the others: `Rows` may be a batch of tables
        has_empty_rows=False,
    )
    # "threshold": equal confidences are accepted together; "expected": mean over all orders of equal ones
    return float(area(rows, ties="expected") - area(rows, ties="threshold"))


def _in_ranking_order(samples: CheckedSamples, ranking: Ranking) -> tuple[CheckedSamples, Ranking]:
    """Samples sorted by a ranking, with the ranked loss attached, and the ranking of the sorted samples.

    Influences of sorted samples need not be moved back to the order of the data, which saves time; their sums do not
    depend on the order. Confidences are sorted only for clusters: points of the curve of clustered samples alone read
    them later. Otherwise `answered_confidence` of the result is in the old order, and must not be read.
    `ranking.row_stops` says where runs of equal confidence stop, which sorting does not change.

    `samples` holds the checked samples of one call: loss (divided by `error_size`), confidence and weight of the
    answered ones; weights and clusters of all. Clusters of two kinds have two columns, and one line per sample. There
    are no strata, since `evaluate` takes none.
    """
    if samples.is_answered is not None:  # some abstained
        # `weights_of_all` and `clusters` have entries for these too, which a ranking of the answered ones cannot sort:
        # the samples stay in the order of the data
        return samples._replace(
            ranked_by_confidence=RankedLoss(ranking, samples.answered_loss, samples.answered_weight)
        ), ranking
    order = ranking.order
    # every sample was answered: columns of answered samples, like those of all, have one entry (or None) per sample
    fields = ["answered_loss", "answered_weight", "weights_of_all", "clusters"]
    if not samples.has_independent_samples:  # there are clusters
        fields.append("answered_confidence")
    sorted_columns: dict[str, Any] = {}
    for field in fields:
        column = getattr(samples, field)
        sorted_columns[field] = None if column is None else column[order]
    sorted_ranking = Ranking(np.arange(len(order)), ranking.row_stops)
    # `in_order` says that the samples stand in the order of the ranking
    ranked = RankedLoss(
        sorted_ranking, sorted_columns["answered_loss"], sorted_columns["answered_weight"], in_order=True
    )
    by_loss = None
    if samples.ranked_by_loss is not None:
        # The same ranking by loss, with the influence of each sample in the new order; metrics that compare with the
        # best order, such as E-AURC, read it.
        by_loss = ReorderedLoss(samples.ranked_by_loss, order)
    return samples._replace(
        **sorted_columns, ranked_by_confidence=ranked, ranked_by_loss=by_loss
    ), sorted_ranking


class _EvidenceAlongRanking(NamedTuple):
    """Evidence for each request, and mass and loss accepted at each row (distinct confidence), most confident first."""

    evidence: list[Evidence]
    accepted_mass: np.ndarray
    accepted_loss: np.ndarray


def _gather_evidence(
    samples: CheckedSamples, total: Totals, ranking: Ranking, requests: list[EvidenceRequest]
) -> _EvidenceAlongRanking:
    """Gather the evidence for every request along one ranking: the sums that estimates and intervals are made of.

    A request lists areas and points of the curve. The ranking is read once in parts, and each part is summarised for
    every request that can be summed over parts. Requests that cannot (metrics with functions of their own) then get the
    whole table at once. `total` holds the sums over all `samples`, whose losses were divided by their `error_size`.
    """
    parts: list[list[PartSummary]] = [[] for _ in requests]  # for each request, a summary of each part
    accepted_mass = []  # for each part: the mass accepted down to each of its rows, from the top of the ranking
    accepted_loss = []
    # each table holds the rows of one part: a row is all samples of one confidence
    for table in tables_along_ranking(
        ranking, samples.answered_loss, samples.answered_weight, samples.zero_one
    ):
        accepted_mass.append(table.rows.accepted_mass)
        accepted_loss.append(table.rows.accepted_loss)
        for request, request_parts in zip(requests, parts):
            if request.is_additive:
                request_parts.append(summarise_part(table, total, request))
    for request, request_parts in zip(requests, parts):
        if not request.is_additive:
            whole_table = tables_along_ranking(
                ranking,
                samples.answered_loss,
                samples.answered_weight,
                samples.zero_one,
                size=len(samples.answered_loss),  # all samples in one part
            )
            request_parts.append(summarise_part(next(whole_table), total, request))
    evidence = []
    for request, request_parts in zip(requests, parts):
        # The area under the curve of the best order, all errors last, with which some metrics compare that area; areas
        # of other kinds are compared with none. It is computed here for 0/1 losses with relative weights alone: with
        # whole weights it follows from the risk, and areas of other losses do not come from evidence.
        best_area = None  # in units of `error_size`, like all sums here
        has_area_under_curve = any(isinstance(area, AreaUnderCurve) for area in request.areas)
        if samples.zero_one and not total.has_whole_weights and has_area_under_curve:
            loss = samples.answered_loss.astype(np.float64)
            best_area = float(oracle_area(np, loss, samples.answered_weight, request.estimator))
        evidence.append(merge_parts(request_parts, total, request, best_area))
    return _EvidenceAlongRanking(
        evidence=evidence,
        accepted_mass=np.concatenate(accepted_mass),
        accepted_loss=np.concatenate(accepted_loss),
    )
