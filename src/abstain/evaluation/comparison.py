"""Is A better than B? Many models, or many scores of one model, ranked with ties.

`compare` reads and checks the samples. `assemble_comparison` makes the `Comparison`, for samples in memory and for
engines alike.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np

from abstain._arrays import Array
from abstain._check import check_fraction, refuse_other_row_order
from abstain._plots import select_drawn_points
from abstain._roles import COLUMN_NAMES, normalise_name
from abstain.core.influence import RankedLoss
from abstain.core.rounding import DIFFERENCE_ROUNDING
from abstain.core.rows import rank_confidences
from abstain.display import CurveLine, thinned
from abstain.errors import InfeasibleError, InputError, ShapeError
from abstain.evaluation.accuracy_note import INCLUDE_ACCURACY, describe_accuracy, differ
from abstain.evaluation.chance import auroc_of_samples, worse_than_chance
from abstain.evaluation.crossing_note import (
    LOW_COVERAGES,
    corrected_level,
    describe_crossings,
)
from abstain.evaluation.graded import message_without_function
from abstain.evaluation.results import Comparison, Contestant, Pair
from abstain.evaluation.table import gap_of_ties, notes_on_few_clusters
from abstain.evaluation.vectors import flat, is_read_file, is_table, read_model
from abstain.inference.anytime import AnytimeRule, check_anytime
from abstain.inference.clusters import check_one_kind, cluster_codes, cluster_columns, cluster_counts
from abstain.inference.differences import (
    AnytimeTest,
    ComparedModel,
    Tests,
    compare_models,
    compared_model_from_samples,
    convert_to_one_error_size,
)
from abstain.inference.limits import DifferenceSums, make_interval
from abstain.inference.ratios import AnswerEstimate, estimate_from_answers, scale_of_answers
from abstain.inference.records import Interval
from abstain.inference.standard_errors import (
    CheckedSamples,
    check_has_test,
    gather,
    spread_by_sample,
    summarise_samples,
)
from abstain.losses import by_name as loss_by_name
from abstain.metrics.answer_metrics import AnswerMetric, answer_metric, check_truth_values, grade_answers
from abstain.metrics.definitions import AURC, AUROC, by_name
from abstain.metrics.metric import Metric
from abstain.metrics.summaries import Scale
from abstain.scores.catalogue import by_name as score_by_name
from abstain.theory import samples_to_tell_apart

VERDICTS_DEPEND_ON_TIES = "verdicts depend on how equal confidences are counted"
MOST_CONTESTANTS_COMPARED_AGAIN = (
    10  # of more, no note compares by a second metric: that costs as much as the comparison itself
)
_HOW_TO_PASS_READ_FILE = (
    '`read.loss_and_confidence("max_softmax", "zero_one")` of each, with `abstained`, `sample_weight` and `clusters` '
    "by model where the files have them"
)
_CHANGED_VERDICTS_SHOWN = 5  # of the verdicts that depend on ties; the others are counted


def groups_of_equals(different: np.ndarray) -> list[list[int]]:
    """List the largest sets in which no two members differ; every member is in at least one of them.

    `different[i, j]` says whether contestants i and j differ (symmetric, the diagonal is not read). The sets are lists
    of indices. They are found by insert and absorb: each different pair splits every set that holds both, and sets that
    lie inside another are dropped.

    >>> groups_of_equals(np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool))
    [[0, 1], [1, 2]]
    """
    sets = [frozenset(range(len(different)))]
    for a, b in np.argwhere(np.triu(different, 1)):
        split = [members for members in sets if a in members and b in members]
        unsplit = [members for members in sets if not (a in members and b in members)]
        parts = {members - {int(member)} for members in split for member in (a, b)}
        # an unsplit set lies inside no other: it did not before, and parts are smaller than what they are parts of
        sets = unsplit + [part for part in parts if not any(part < larger for larger in (*unsplit, *parts))]
    return sorted(sorted(members) for members in sets)


class PairedOptions(TypedDict, total=False):
    """Options of `compare` that functions built on a paired comparison pass on, for type checkers; explained there."""

    scores: Any
    losses: Any
    metric: Any
    sample_weight: Any
    repetitions: bool
    clusters: Any
    abstained: Any
    has_confidence: Any
    classes: Any
    anytime: bool
    planned: int | None


@refuse_other_row_order
def compare(
    models: Any = None,
    labels: Any = None,
    *,
    probs: Any = None,
    scores: Any = "max_softmax",
    losses: Any = "zero_one",
    metric: Any = "aurc",
    level: float = 0.95,
    sample_weight: Any = None,
    repetitions: bool = False,
    clusters: Any = None,
    abstained: Any = None,
    has_confidence: Any = None,
    classes: Any = None,
    paired: bool = True,
    anytime: bool = False,
    planned: int | None = None,
) -> Comparison:
    r"""Rank models (or scores) by a metric, and say which of them the data cannot distinguish.

    .. math:: t_{ab} = \frac{\phi(T_a) - \phi(T_b)}{\|x_a - x_b\|}, \qquad
              x_a = (\phi'(T_a)\, w_i\,\mathrm{IF}^a_i / W)_i

    Each contestant is sorted once for its influence function; all pairs then follow from a few products of
    matrices. :math:`\phi` is the metric's scale. P-values are two-sided, Student's t, corrected after Holm for the
    number of pairs. Intervals of differences are corrected too: they cover together with probability `level`, and
    leave 0 out exactly where the corrected p-value is below 1 - level. A pair with fewer than eleven effective
    errors on either side gets no verdict, and says so.

    Parameters
    ----------
    models : dict of arrays (..., K), one array, or dict of (loss, confidence)
        Logits by model name; the logits of one model, to compare `scores`; or, without `labels`, each contestant's
        own losses and confidences.
    labels : array, optional
        Class indices of the same samples for all; with `paired=False` a dict of labels by name.
    probs : dict of arrays (..., K), or one array
        Probabilities instead of logits. A vector holds those of class 1 of a binary model, and a vector of logits its
        log-odds.
    scores : name(s) or function(s)
        Several, with several models, compare every combination, "model / score".
    losses : name or function
        The one loss that all contestants are measured by, such as "cross_entropy".
    metric : str
        It must have an influence function: aurc ("aurc:loo"), augrc, e_aurc, naurc, auroc, risk,
        prediction_rejection_ratio.
    level : float
        Of intervals and tests.
    sample_weight : array, optional
        The mass of each sample, relative to the others; the same for all models on the same samples.
    repetitions : bool
        Is a weight a number of repetitions? "aurc:loo" and "aurc:log" need that.
    clusters : array, or [array, array], optional
        One label per sample: samples of one cluster are not independent. Two vectors, `[location, week]`, are two
        kinds of clusters that cross.
    abstained : bool array, or dict of them by model, optional
        Samples a model refused: never accepted, kept in the coverage.
    has_confidence : bool array, or dict of them by model, optional
        Which samples have a confidence of their own. The others have a number that only ranks them, as unanswered
        questions that are ranked last: the note on the ranking alone, and warnings about it, leave them out.
    classes : sequence, optional
        The class names in the order of the columns, where labels are words or numbers other than 0 ... K-1.
    paired : bool
        False: every contestant has its own test set (Welch's test; weights and clusters by name).
    anytime : bool
        For results that are looked at again and again while samples come in: intervals and tests hold at every look.
        Intervals are about one and a half times as wide as for one look.
    planned : int, optional
        With `anytime`: the number of samples at which one hopes to stop, where intervals are narrowest. Choose it
        before the first look and keep it. Default: 1,000.

    Returns
    -------
    Comparison
        Best first, with `frame()`, `pairs_frame()`, `pair(a, b)`, `winners`, `plot()`, `to_markdown()` ...

    Examples
    --------
    >>> loss = [0, 0, 1, 0, 1, 1, 0, 0]
    >>> good, bad = [9, 8, 3, 7, 2, 1, 6, 5], [1, 2, 3, 4, 5, 6, 7, 8]
    >>> compare({"good": (loss, good), "bad": (loss, bad)}).names
    ('good', 'bad')
    """
    level = check_fraction("compare", "level", level, open_high=True)
    anytime_rule = check_anytime("compare", anytime, planned, level)
    if anytime_rule is not None and not paired:
        raise InputError("compare: takes `anytime=True` for the same samples only, got paired=False.")
    compared_metric = by_name(metric)
    check_has_test("compare", compared_metric)
    loss_name = "own losses"
    if labels is not None:
        loss_name = _name_of_one_loss(losses)
        if compared_metric.needs.zero_one and loss_name not in ("zero_one", "top_k"):
            raise InputError(f"compare: {compared_metric.name} needs a 0/1 loss, got {losses!r}.")
    if models is not None and probs is not None:
        names = [
            f" ({', '.join(map(str, outputs_by_name))})" if isinstance(outputs_by_name, Mapping) else ""
            for outputs_by_name in (models, probs)
        ]
        raise InputError(
            f"compare: takes models{names[0]} or `probs=`{names[1]}, one of them, got both. Turn the logits into "
            f"probabilities, or give the losses and confidences of each model without `labels`."
        )
    kind: Literal["logits", "probs"] = "logits" if probs is None else "probs"
    outputs = models if probs is None else probs
    refuse_other_inputs("compare", outputs)
    gathered = _gather_contestants(
        outputs,
        kind,
        {
            "labels": labels,
            "sample_weight": sample_weight,
            "clusters": clusters,
            "abstained": abstained,
            "has_confidence": has_confidence,
        },
        repetitions=repetitions,
        scores=scores,
        losses=losses,
        metric=compared_metric,
        paired=paired,
        classes=classes,
    )
    if len(gathered.samples_by_name) < 2:
        raise InputError(f"compare: needs at least two contestants, got {len(gathered.samples_by_name)}.")
    comparison = _compare_samples(gathered, compared_metric, loss_name, level, paired, anytime_rule)
    if labels is None:
        return comparison
    notes = (*comparison.notes, *gathered.guessing_notes)
    return replace(comparison, score=_name_of_one_score(scores), notes=notes)


# inputs ---------------------------------------------------------------------------------------------------


def _name_of_one_loss(losses: Any) -> str:
    """Name the loss that `compare` was given, a name or a function; a list of several is an error."""
    if isinstance(losses, (list, tuple)):
        raise InputError(
            f"compare: `losses` must be one name or function, got {losses!r}. Call it once for each."
        )
    return loss_by_name(losses).name


def _name_of_one_score(scores: Any) -> str:
    """Name the score that all contestants have; "" where there are several."""
    requested = scores if isinstance(scores, (list, tuple)) else [scores]
    if len(requested) != 1 or requested[0] == "all":
        return ""
    return score_by_name(requested[0]).name


class GatheredContestants(NamedTuple):
    """The contestants of a comparison that were read and checked.

    `samples_by_name` holds the checked samples of each, with losses in one common unit and `ranked_by_confidence` set.
    `own_by_name` holds the same samples, where those without a confidence of their own count as abstentions; it is
    `samples_by_name` itself where all samples have one. `guessing_notes` has a sentence for each model whose accuracy
    is that of guessing.
    """

    samples_by_name: dict[str, CheckedSamples]
    own_by_name: dict[str, CheckedSamples]
    guessing_notes: tuple[str, ...]


def _gather_contestants(
    models: Any,
    kind: str,
    columns: Mapping[str, Any],
    *,
    repetitions: bool,
    scores: Any,
    losses: Any,
    metric: Metric,
    paired: bool,
    classes: Any,
) -> GatheredContestants:
    """Check the samples of each contestant and sort them once, for influences and interval alike.

    Parameters
    ----------
    models
        Outputs by model name, the outputs of one model, or without labels (loss, confidence) by model name.
    kind : "logits" or "probs"
        What the outputs are.
    columns
        The user's labels, sample_weight, clusters, abstained and has_confidence, each None, one for all models, or a
        dict by model name. With `paired=False` all but labels must be None or dicts.
    repetitions : bool
        Whether weights are numbers of repetitions.
    scores, losses, classes
        What to compute from the outputs: names or functions of scores, the one loss, and the class names.
    metric : Metric
        What contestants are compared by.

    Returns
    -------
    GatheredContestants
        With samples by name of the contestant: "model", "score" or "model / score".

    Raises
    ------
    InputError
        For arguments that do not fit each other.
    ShapeError
        If paired contestants have different numbers of samples.
    """
    if not isinstance(models, Mapping):
        if models is None or columns["labels"] is None:
            raise InputError("compare: takes a dict of models, or the logits of one model with `labels`.")
        models = {"": models}  # one model without a name: contestants are called by their scores alone
    for argument, column in columns.items():
        may_be_shared = paired or argument == "labels"
        if not may_be_shared and column is not None and not isinstance(column, Mapping):
            raise InputError(f"compare: with paired=False `{argument}` must be a dict by contestant.")
    if paired and isinstance(columns["labels"], Mapping):
        _check_same_labels({name: _column_of_model("compare", columns["labels"], name) for name in models})
    titles: list[str] = []
    checked: list[CheckedSamples] = []
    has_own_by_title: dict[
        str, np.ndarray | None
    ] = {}  # of each sample: has it a confidence of its own? None: all
    guessing_notes: list[str] = []
    for model_name, model in models.items():
        model_columns = {
            argument: _column_of_model("compare", column, model_name) for argument, column in columns.items()
        }
        labels = model_columns.pop("labels")
        clusters = model_columns.pop("clusters")
        has_own = model_columns.pop("has_confidence")
        flat_columns: dict[str, Any] = {
            name: None if column is None else flat(column) for name, column in model_columns.items()
        }
        with naming_model("compare", str(model_name)):
            entered = _losses_and_confidences(str(model_name), model, kind, labels, scores, losses, classes)
            if entered.guessing_note is not None:
                guessing_notes.append(entered.guessing_note)
            for title, (loss, confidence) in entered.vectors_by_title.items():
                flat_loss = flat(loss)
                columns_of_clusters = cluster_columns("compare", clusters, len(flat_loss))
                if columns_of_clusters is not None and columns_of_clusters.shape != (len(flat_loss), 2):
                    columns_of_clusters = columns_of_clusters.reshape(-1)
                samples = gather(
                    "compare",
                    metric,
                    flat_loss,
                    flat(confidence),
                    **flat_columns,
                    clusters=columns_of_clusters,
                    repetitions=repetitions,
                )
                titles.append(title)
                checked.append(samples)
                if has_own is not None:
                    has_own = check_truth_values("compare", "has_confidence", has_own, len(flat_loss))
                has_own_by_title[title] = has_own
    contestants: dict[str, CheckedSamples] = {}
    for title, samples in zip(titles, convert_to_one_error_size("compare", checked)):
        contestants[title] = _ranked(samples)
    if paired and len({samples.input_count for samples in contestants.values()}) > 1:
        counts = ", ".join(f"{title} {samples.input_count}" for title, samples in contestants.items())
        raise ShapeError(
            f"compare: the contestants must see the same samples, got {counts}. Or use paired=False."
        )
    if paired and any(samples.weights_of_all is not None for samples in contestants.values()):
        weights_by_title = {title: samples.weights_of_input for title, samples in contestants.items()}
        _check_same_column("compare", "weights", weights_by_title)
    if paired:
        clusters_by_title = {title: samples.clusters for title, samples in contestants.items()}
        _check_same_column("compare", "clusters", clusters_by_title)
    own_by_name = contestants
    if any(has_own is not None and not has_own.all() for has_own in has_own_by_title.values()):
        own_by_name = {
            title: _only_with_confidence(samples, has_own_by_title[title])
            for title, samples in contestants.items()
        }
    return GatheredContestants(contestants, own_by_name, tuple(guessing_notes))


def _ranked(samples: CheckedSamples) -> CheckedSamples:
    """The samples with `ranked_by_confidence` set."""
    ranked = RankedLoss(
        rank_confidences(samples.answered_confidence), samples.answered_loss, samples.answered_weight
    )
    return samples._replace(ranked_by_confidence=ranked)


def _only_with_confidence(samples: CheckedSamples, has_own: np.ndarray | None) -> CheckedSamples:
    """The same samples, where those without a confidence of their own count as abstentions; the others are ranked anew.

    `has_own` has one truth value per sample of the input, those of weight 0 included; None where all have one.
    """
    if has_own is None or has_own.all():
        return samples
    # `has_weight` marks the samples of the input whose weight is not 0, None: all. `samples` holds these alone, and its
    # columns `answered_...` those of them that did not abstain (`is_answered`; None: all).
    has_own = has_own if samples.has_weight is None else has_own[samples.has_weight]
    is_answered = np.ones(len(has_own), bool) if samples.is_answered is None else samples.is_answered
    kept = has_own[is_answered]  # of the answered samples
    weight = samples.answered_weight
    # `weights_of_all` and `clusters` stay: they have entries for samples that abstained, too
    samples_with_own = samples._replace(
        answered_loss=samples.answered_loss[kept],
        answered_confidence=samples.answered_confidence[kept],
        answered_weight=None if weight is None else weight[kept],
        is_answered=is_answered & has_own,
        ranked_by_confidence=None,
    )
    return _ranked(samples_with_own) if kept.any() else samples_with_own  # nothing cannot be ranked


@contextmanager
def naming_model(function: str, name: str) -> Iterator[None]:
    """Begin messages about bad input with the name of the model that it is of; "" for a model without a name."""
    try:
        yield
    except (InputError, InfeasibleError) as problem:
        if not name:
            raise
        raise type(problem)(f"{function}: {name}: {message_without_function(problem)}") from problem


def refuse_other_inputs(function: str, models: Any) -> None:
    """Raise InputError, in the name of `function`, for a file, a table or a dict where a model's arrays should be.

    `models` are the outputs by name, or in a list, or those of a single model without a name. Outputs are arrays, a
    pair of them, or a table in memory with a column for each class, none of which is named like one of right and wrong.
    """
    # the keys begin a part of the message: "NAME: ", or "" for the single model
    output_by_name = {"": models}
    if isinstance(models, Mapping):
        output_by_name = {f"{name}: ": output for name, output in models.items()}
    elif isinstance(models, (list, tuple)):
        output_by_name = {f"{place}: ": output for place, output in enumerate(models)}
    command_name = function.partition("_")[0]  # "compare" for the function compare_answers, too
    command = f"Use the command `abstain {command_name} FILE FILE`"
    for name, output in output_by_name.items():
        if isinstance(output, (str, os.PathLike)):
            raise InputError(
                f"{function}: takes arrays, got the path {os.fspath(output)!r}. {command}, or read each file with "
                f"`abstain.formats.read_predictions`, and pass {_HOW_TO_PASS_READ_FILE}."
            )
        if is_read_file(output):
            raise InputError(
                f"{function}: {name}takes arrays, got {type(output).__name__}. Pass {_HOW_TO_PASS_READ_FILE}; or use "
                f"the command `abstain {command_name} FILE FILE`, which also matches rows by their ids."
            )
        if is_table(output) and not _holds_numbers_alone(output):
            raise InputError(
                f"{function}: {name}takes arrays, got a table. Pass its columns, "
                f'`(1 - table["correct"], table["confidence"])`; or write each table to a file. {command} then.'
            )
        if isinstance(output, Mapping) and name:
            kind = next((key for key in ("probs", "logits") if key in output), None)
            argument = "probs={...: array}" if kind == "probs" else "{...: array}"
            remedy = (
                f"`{function}({argument}, labels=labels)`" if kind else "`(loss, confidence)`, two arrays"
            )
            raise InputError(f"{function}: {name}takes arrays, got a dict. Pass {remedy}.")


def _holds_numbers_alone(table: Any) -> bool:
    """Are all columns of a table in memory numbers, of which none states by its name what right and wrong are?

    Such a table may hold class scores, one column per class.
    """
    names = {normalise_name(str(name)) for name in getattr(table, "columns", ())}
    stating_truth = {name for role in ("correct", "loss", "error", "labels") for name in COLUMN_NAMES[role]}
    return bool(names) and names.isdisjoint(stating_truth)


def _check_same_labels(labels_by_model: Mapping[Any, Any]) -> None:
    """Raise InputError if models that are compared on the same samples have different labels.

    Labels of different lengths are left to the check of the numbers of samples.
    """
    first_name, *other_names = labels_by_model
    first_labels = np.asarray(labels_by_model[first_name])
    for name in other_names:
        labels = np.asarray(labels_by_model[name])
        if labels.shape == first_labels.shape and not np.array_equal(labels, first_labels):
            agreeing = np.mean(labels == first_labels)
            raise InputError(
                f"compare: {first_name} and {name} are not the same samples in the same order: {agreeing:.1%} of their "
                f"labels agree. Put the samples in one order and give one array of labels for all; or pass "
                f"paired=False, which takes them for different test sets."
            )


def _check_same_column(function: str, noun: str, column_by_name: Mapping[str, np.ndarray | None]) -> None:
    """Raise InputError if contestants on the same samples have different clusters or weights, as `noun` says.

    `column_by_name` holds the number of the cluster, or the weight, of each sample, by contestant; None: no such
    column, which no other contestant may have then. The message is in the name of `function`.
    """
    first_name, *other_names = column_by_name
    first_column = column_by_name[first_name]
    for name in other_names:
        column = column_by_name[name]
        if first_column is None or column is None:
            has_same = first_column is column
        else:
            has_same = np.array_equal(first_column, column)
        if not has_same:
            raise InputError(
                f"{function}: the contestants see the same samples, so they must have the same {noun}; those of "
                f"{first_name} and {name} differ. Give one array for all."
            )


def _column_of_model(function: str, column: Any, model_name: Any) -> Any:
    """Pick one model's part of an argument: `column[model_name]` if it is a dict, otherwise all of it.

    InputError, in the name of `function`, if the dict has nothing for the model.
    """
    if not isinstance(column, Mapping):
        return column
    if model_name not in column:
        names = ", ".join(map(str, column))
        raise InputError(f"{function}: the dict has nothing for {model_name!r}, it has {names}.")
    return column[model_name]


class EnteredModel(NamedTuple):
    """What one model enters a comparison with.

    `vectors_by_title` holds losses and confidences by name of the contestant. `guessing_note` is a sentence if the
    accuracy of the model is that of guessing, otherwise None.
    """

    vectors_by_title: dict[str, tuple[Array, Array]]
    guessing_note: str | None


def _losses_and_confidences(
    model_name: str,
    model: Any,
    kind: str,
    labels: Array | None,
    scores: Any,
    requested_loss: Any,
    classes: Any,
) -> EnteredModel:
    """Loss and confidence vectors of each contestant that a model enters, by the contestant's name.

    `kind` is "probs" for a model that was passed as `probs=`, otherwise "logits". Without `labels` the model must be a
    pair (loss, confidence), not passed as `probs=`; it enters once, and InputError is raised for anything else. With
    labels the model is its logits or probabilities, which enter once per score (`scores` are names or functions, "all",
    or None for the default); `requested_loss` is the name of one loss, or a function, and `classes` names the columns
    (None: labels are their numbers). A contestant is called after
    the model, after the score if `model_name` is empty, or "model / score" if there are several scores. The result has
    a sentence, too, if the model is right no more often than guessing (`guessing_note`, otherwise None).
    """
    if labels is None:
        if kind == "probs" or not (isinstance(model, (tuple, list)) and len(model) == 2):
            raise InputError("compare: without `labels` a model must be (loss, confidence).")
        return EnteredModel({model_name: (model[0], model[1])}, guessing_note=None)
    # computes scores and loss; raises InputError for outputs, labels or names that are not valid
    vectors = read_model(
        "compare",
        labels=labels,
        scores=scores,
        losses=[requested_loss],
        classes=classes,
        model_name=model_name,
        **{kind: model},
    )
    # `vectors.losses` and `vectors.scores` hold vectors by name; the requested loss is the only one
    loss = next(iter(vectors.losses.values()))
    contestants = {}
    for score, confidence in vectors.scores.items():
        if not model_name:
            title = score
        elif len(vectors.scores) > 1:
            title = f"{model_name} / {score}"
        else:
            title = model_name
        contestants[title] = (loss, confidence)
    return EnteredModel(contestants, vectors.guessing_note)


# the comparison -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Competitor:
    """What a comparison needs of one contestant.

    Parameters
    ----------
    name : str
        As tables show it.
    model : ComparedModel
        Estimate and influences, in the user's units.
    interval : Interval
        Of its own metric.
    sample_count : int
        Samples, without those of weight zero.
    """

    name: str
    model: ComparedModel
    interval: Interval
    sample_count: int


def assemble_comparison(
    competitors: Sequence[Competitor],
    *,
    metric: Metric | AnswerMetric,
    scale: Scale,
    loss_name: str,
    level: float,
    paired: bool,
    joint_sums: DifferenceSums | None = None,
    anytime_rule: AnytimeRule | None = None,
) -> Comparison:
    """Rank competitors, test all pairs as one family and put everything into a `Comparison`.

    This is the only place that makes a comparison: samples in memory, files, Dask and Spark all come here.

    Parameters
    ----------
    competitors
        In the order in which the user passed them; those with equal estimates keep it.
    metric, loss_name
        What the estimates are.
    scale
        On which differences are tested, in the user's units.
    level
        Of intervals and tests.
    paired
        Are the samples of all competitors the same?
    joint_sums
        Sums over the two influences of each sample, where an engine has added them up; None otherwise.
        Only for two competitors. Otherwise they are computed from the influences in `model`.
    anytime_rule
        The rule by which tests hold at every look; None for a single look. The intervals of the competitors must have
        been made by it already.
    """
    sample_count = max(competitor.sample_count for competitor in competitors)
    sign = 1 if metric.lower_is_better else -1
    ranking = sorted(competitors, key=lambda competitor: sign * competitor.model.estimate)
    first, second = np.triu_indices(len(ranking), 1)
    tests = compare_models(
        [competitor.model for competitor in ranking],
        a=first,
        b=second,
        scale=scale,
        level=level,
        paired=paired,
        known_sums=joint_sums,
        anytime_test=None if anytime_rule is None else AnytimeTest(anytime_rule, sample_count),
    )
    pairs = tuple(
        pair_of(
            ranking[i].name,
            ranking[j].name,
            tests=tests,
            place=place,
            level=level,
            sample_count=max(ranking[i].sample_count, ranking[j].sample_count),
            anytime_rule=anytime_rule,
        )
        for place, (i, j) in enumerate(zip(first, second))
    )
    # different[i, j]: do the contestants of ranks i and j differ, after correction for the number of pairs?
    different = np.zeros((len(ranking), len(ranking)), dtype=bool)
    different[first, second] = tests.p_adjusted < 1 - level
    different |= different.T
    letters = _letters_of_equals(different)
    contestants = []
    for place, competitor in enumerate(ranking):
        interval = competitor.interval
        width = interval.high - interval.low
        # limits without any width, but for rounding, are those of samples that show no spread
        has_limits = DIFFERENCE_ROUNDING * abs(interval.estimate) < width < math.inf
        contestants.append(
            Contestant(
                name=competitor.name,
                estimate=competitor.model.estimate,
                standard_error=competitor.model.standard_error if width > 0 else 0.0,
                low=interval.low if has_limits else None,
                high=interval.high if has_limits else None,
                n=interval.n,
                rank_low=1 + int(different[place, :place].sum()),
                rank_high=len(ranking) - int(different[place, place + 1 :].sum()),
                group=letters[place],
            )
        )
    return Comparison(
        contestants=tuple(contestants),
        pairs=pairs,
        metric=metric.key,
        label=metric.full_label,
        lower_is_better=metric.lower_is_better,
        loss=loss_name,
        level=level,
        n=sample_count,
        paired=paired,
        planned=None if anytime_rule is None else anytime_rule.planned,
        entered=tuple(competitor.name for competitor in competitors),
    )


def _letters_of_equals(different: np.ndarray) -> list[str]:
    """For each contestant, one letter per largest set of equals that it belongs to: "a", "ab", and "(27)" after "z"."""
    letters = [""] * len(different)
    for place, members in enumerate(groups_of_equals(different)):
        letter = chr(ord("a") + place) if place < 26 else f"({place + 1})"
        for member in members:
            letters[member] += letter
    return letters


def _compare_samples(
    gathered: GatheredContestants,
    metric: Metric,
    loss_name: str,
    level: float,
    paired: bool,
    anytime_rule: AnytimeRule | None,
) -> Comparison:
    """Compare checked samples in memory, and note verdicts that depend on ties and rankings worse than chance.

    `gathered` holds each contestant's samples with `ranked_by_confidence` set, with losses in one common unit; what is
    said of the ranking alone is about those that have a confidence of their own (`gathered.own_by_name`).
    `loss_name` is shown in the result. `anytime_rule` is the rule by which tests hold at every look; None: a single
    look. If ties change some AURC by more than its standard error, all pairs are tested again with equal confidences in
    random order, and a note says which verdicts change.
    """
    samples_by_name, own_by_name, _ = gathered
    interval_level = level
    anytime_test = None
    if anytime_rule is not None:
        any_samples = next(iter(samples_by_name.values()))
        check_one_kind("compare", any_samples.clusters, "`anytime=True`")
        anytime_test = AnytimeTest(
            anytime_rule, max(samples.sample_count for samples in samples_by_name.values())
        )
        interval_level = float(anytime_test.level_of_one_look(level))

    def compare_by(
        compared_metric: Metric,
        tested_level: float = level,
        samples_by_name: Mapping[str, CheckedSamples] = samples_by_name,
    ) -> tuple[list[Competitor], Comparison]:
        """The competitors in the order of the input, and their comparison by this metric with tests at this level.

        A competitor is one contestant with its estimate, its influences and its own interval, which is at
        `interval_level`. All but the metric and the level of the tests is taken from the enclosing function.
        """
        competitors = [
            _competitor_of_samples(name, samples._replace(metric=compared_metric), interval_level)
            for name, samples in samples_by_name.items()
        ]
        comparison = assemble_comparison(
            competitors,
            metric=compared_metric,
            scale=_scale_of_samples(compared_metric, list(samples_by_name.values())),
            loss_name=loss_name,
            level=tested_level,
            paired=paired,
            anytime_rule=anytime_rule,
        )
        return competitors, comparison

    competitors, comparison = compare_by(metric)
    models_by_name = {competitor.name: competitor.model for competitor in competitors}
    notes = []
    aurocs = {name: auroc_of_samples(samples) for name, samples in own_by_name.items()}
    can_compare_again = len(samples_by_name) <= MOST_CONTESTANTS_COMPARED_AGAIN
    # The ranking of all samples does not explain an area that ends at a lower coverage.
    _, highest_coverage = metric.option_values.get("coverage") or (0.0, 1.0)
    if (
        metric.name in INCLUDE_ACCURACY
        and highest_coverage == 1
        and differ([model.risk for model in models_by_name.values()])
    ):
        can_rank_errors = all(_has_right_and_wrong(samples) for samples in own_by_name.values())
        by_ranking_alone = None
        if can_rank_errors and can_compare_again:
            by_ranking_alone = compare_by(AUROC, samples_by_name=own_by_name)[1]
        notes.append(
            describe_accuracy(
                comparison,
                risks={name: model.risk for name, model in models_by_name.items()},
                are_error_rates=all(samples.zero_one for samples in samples_by_name.values()),
                aurocs=aurocs,
                by_ranking_alone=by_ranking_alone,
                leaves_out_ranked_last=own_by_name is not samples_by_name,
            )
        )
    may_cross = metric == AURC and anytime_rule is None and can_compare_again
    if may_cross and any(pair.different for pair in comparison.pairs):
        crossings = describe_crossings(
            comparison,
            {
                coverage: compare_by(AURC.with_options(coverage=(0, coverage)), corrected_level(level))[1]
                for coverage in LOW_COVERAGES
            },
        )
        if crossings is not None:
            notes.append(crossings)
    warnings = [worse_than_chance(name, own_by_name[name], aurocs[name]) for name in comparison.names]
    notes += [warning for warning in warnings if warning is not None]
    ties_matter = [
        _ties_matter(samples, models_by_name[name].standard_error)
        for name, samples in samples_by_name.items()
    ]
    if metric == AURC and any(ties_matter):
        models_in_random_order = [
            compared_model_from_samples(
                samples_by_name[name]._replace(metric=metric.with_options(ties="expected"))
            )
            for name in comparison.names
        ]
        first, second = np.triu_indices(len(comparison.names), 1)
        tests = compare_models(
            models_in_random_order,
            a=first,
            b=second,
            scale=_scale_of_samples(metric, list(samples_by_name.values())),
            level=level,
            paired=paired,
            anytime_test=anytime_test,
        )
        notes.append(_note_on_ties(comparison.pairs, tests, level))
    curves = tuple(_curve_of_samples(name, samples_by_name[name]) for name in comparison.names)
    clusters = cluster_counts(next(iter(samples_by_name.values())).clusters) if paired else ()
    notes += notes_on_few_clusters(clusters)
    return replace(comparison, notes=tuple(notes), curves=curves, clusters=clusters)


def _competitor_of_samples(name: str, samples: CheckedSamples, interval_level: float) -> Competitor:
    """One contestant by `samples.metric`; `interval_level` is the confidence level of its own interval."""
    return Competitor(
        name=name,
        model=compared_model_from_samples(samples),
        interval=make_interval(
            samples.metric, spread_by_sample("compare", samples), summarise_samples(samples), interval_level
        ),
        sample_count=samples.sample_count,
    )


def _has_right_and_wrong(samples: CheckedSamples) -> bool:
    """Are the answered samples right or wrong (losses 0 and 1), and are there some of both?"""
    return samples.zero_one and bool(0 < np.count_nonzero(samples.answered_loss) < len(samples.answered_loss))


def _curve_of_samples(name: str, samples: CheckedSamples) -> CurveLine:
    """The risk-coverage curve of checked samples with `ranked_by_confidence` set, in the user's unit of the loss."""
    assert samples.ranked_by_confidence is not None
    rows = samples.ranked_by_confidence.rows
    drawn = select_drawn_points(rows.accepted_mass)
    coverage = rows.accepted_mass[drawn] / samples.total_mass
    risk = samples.error_size * rows.accepted_loss[drawn] / rows.accepted_mass[drawn]
    return thinned(name, coverage, risk)


def _scale_of_samples(metric: Metric, contestants: Sequence[CheckedSamples]) -> Scale:
    """The scale on which differences of the metric are tested, in the user's units of the loss."""
    zero_one = all(samples.zero_one for samples in contestants)
    negative = any(bool((samples.answered_loss < 0).any()) for samples in contestants)
    scale = metric.scale_for(zero_one, negative)
    if metric.scales_with_loss:
        return scale.scaled(contestants[0].error_size)
    return scale


def _ties_matter(samples: CheckedSamples, standard_error: float) -> bool:
    """Is AURC with equal confidences in random order more than a standard error away from AURC as it is?

    False for relative weights, unless all are equal: the area in random order is only defined for weights that are
    repetitions. False also if no two samples have the same confidence, and if the samples were not ranked.

    `standard_error` is that of AURC as it is, in the user's units of the loss.
    """
    ranked = samples.ranked_by_confidence
    if not samples.has_whole_weights or ranked is None:
        return False
    has_ties = ranked.row_of_sample is not None  # None: every sample is a row, with a confidence of its own
    if not has_ties:
        return False
    # AURC in random order minus AURC as it is, from sums over the samples down to each row, most confident first;
    # losses, and so the gap, are in units of `error_size`, the loss of one error
    gap = gap_of_ties(accepted_mass=ranked.rows.accepted_mass, accepted_loss=ranked.rows.accepted_loss)
    return abs(samples.error_size * gap) > standard_error


def _note_on_ties(pairs: Sequence[Pair], random_order_tests: Tests, level: float) -> str:
    """Name the pairs whose verdict would change if equal confidences came in random order.

    `pairs` are judged with equal confidences accepted together; `random_order_tests` has one test per pair, in the same
    order, of the areas in random order. `level` is the two-sided confidence level, such as 0.95.
    """
    different = random_order_tests.p_adjusted < 1 - level
    changed = []
    for pair, is_different, difference in zip(pairs, different, random_order_tests.difference):
        # differences are a minus b, so AURC of a is the lower one where the sign is negative; 0: not significant
        sign_together = np.sign(pair.difference) if pair.different else 0
        sign_in_random_order = np.sign(difference) if is_different else 0
        if sign_together == sign_in_random_order:
            continue
        if sign_in_random_order == 0:
            verdict = "cannot be told apart"
        else:
            verdict = f"{pair.a if sign_in_random_order < 0 else pair.b} is lower"
        changed.append(
            f"{pair.a} against {pair.b} ({pair.difference:.3g}; in random order {difference:.3g}, {verdict})"
        )
    if not changed:
        return "Some areas depend on how equal confidences are counted; no verdict between two of them does."
    listed = "; ".join(changed[:_CHANGED_VERDICTS_SHOWN])
    if len(changed) > _CHANGED_VERDICTS_SHOWN:
        listed += f" and {len(changed) - _CHANGED_VERDICTS_SHOWN} more"
    # "2 of 3 verdicts depend on how equal confidences are counted: ..."
    return f"{len(changed)} of {len(pairs)} {VERDICTS_DEPEND_ON_TIES}: {listed}."


def pair_of(
    name_a: str,
    name_b: str,
    tests: Tests,
    place: int,
    level: float,
    sample_count: int,
    anytime_rule: AnytimeRule | None,
) -> Pair:
    """Make the `Pair` of two contestants from the tests of all pairs.

    `tests` holds one value per pair in each array, and `place` is the index of this pair. `sample_count` is the larger
    number of samples of the two. `samples_needed`, how many would show the difference with probability 80%, is scaled
    up from it; None if the pair differs already, has no difference or no standard error, or has a note that there is no
    verdict (p-values without a verdict are 1).

    `anytime_rule` (None: a single look) is the rule by which tests hold at every look, an evaluation of the data that
    came in so far; the samples needed are then those of such a test. `level` is two-sided, such as 0.95.
    """
    is_open = tests.p_adjusted >= 1 - level  # pairs that the tests cannot distinguish
    difference = float(tests.difference[place])
    standard_error = float(tests.standard_error[place])
    note = str(tests.note[place])
    samples_needed = None
    if is_open[place] and difference != 0 and standard_error > 0 and not note:
        corrected_level = 1 - (1 - level) / int(is_open.sum())  # Holm's correction for the pairs still open
        if anytime_rule is not None:
            # how much wider an interval for every look is changes slowly with n: the planned number is near enough
            planned_count = max(sample_count, anytime_rule.planned)
            # that of an interval for one look which is as wide as the one for every look
            corrected_level = float(anytime_rule.level_of_one_look(corrected_level, n=planned_count))
        samples_needed = samples_to_tell_apart(
            difference, standard_error, sample_count, level=corrected_level
        )
    return Pair(
        a=name_a,
        b=name_b,
        difference=difference,
        standard_error=standard_error,
        low=float(tests.low[place]),
        high=float(tests.high[place]),
        p_value=float(tests.p_value[place]),
        p_adjusted=float(tests.p_adjusted[place]),
        different=not is_open[place],
        samples_needed=samples_needed,
        note=note,
    )


# graded answers -------------------------------------------------------------------------------------------


@refuse_other_row_order
def compare_answers(
    models: Mapping[str, Any],
    *,
    metric: str | AnswerMetric = "accuracy",
    unanswerable: Any = None,
    level: float = 0.95,
    clusters: Any = None,
    paired: bool = True,
) -> Comparison:
    """Rank models by accuracy or another metric of graded answers, and say which the data cannot tell apart.

    Parameters
    ----------
    models : dict
        By name: how right each answer is, from 0 to 1; or a pair (correct, answered), where `answered` says which
        questions were attempted.
    metric : str or AnswerMetric
        Such as "accuracy", "simpleqa_f" or "score_at_target@0.75".
    unanswerable : array of bool, shape (n,), optional
        Which questions have no answer, for abstention precision, recall and F1. With `paired=False` a dict by model.
    level : float
        Confidence level of intervals and tests.
    clusters : array, shape (n,), optional
        One label per answer: answers with the same label are not independent. With `paired=False` a dict by model.
    paired : bool
        Whether all models answered the same questions in the same order. That sees much smaller differences.

    Returns
    -------
    Comparison
        Best first. P-values are two-sided and corrected for the number of pairs; where two models cannot be told apart,
        `samples_needed` estimates how many questions would.

    Examples
    --------
    >>> good, bad = [1] * 70 + [0] * 30, [1] * 40 + [0] * 60
    >>> comparison = compare_answers({"bad": bad, "good": good})
    >>> comparison.names, comparison.pair("good", "bad").different
    (('good', 'bad'), True)
    """
    name = "compare_answers"
    level = check_fraction(name, "level", level, open_high=True)
    compared_metric = answer_metric(metric, name)
    refuse_other_inputs(name, models)
    if not isinstance(models, Mapping) or len(models) < 2:
        raise InputError(f"{name}: needs a dict of at least two models.")
    if not paired and clusters is not None and not isinstance(clusters, Mapping):
        raise InputError(f"{name}: with paired=False `clusters` must be a dict by model.")
    if not paired and unanswerable is not None and not isinstance(unanswerable, Mapping):
        raise InputError(f"{name}: with paired=False `unanswerable` must be a dict by model.")
    answers_by_name = {}
    clusters_by_name = {}
    for model_name, model in models.items():
        correct, answered = model if isinstance(model, tuple) else (model, None)
        without_answer = _column_of_model(name, unanswerable, model_name)
        clusters_by_name[str(model_name)] = _column_of_model(name, clusters, model_name)
        with naming_model(name, str(model_name)):
            answers_by_name[str(model_name)] = grade_answers(name, correct, answered, without_answer)
    counts = {model_name: len(answers.right) for model_name, answers in answers_by_name.items()}
    if paired and len(set(counts.values())) > 1:
        listed = ", ".join(f"{model_name} {count}" for model_name, count in counts.items())
        raise ShapeError(
            f"{name}: the models must answer the same questions, got {listed}. Or use paired=False."
        )
    if paired:
        _check_same_column(
            name,
            "clusters",
            {
                model_name: cluster_codes(name, model_clusters, counts[model_name])
                for model_name, model_clusters in clusters_by_name.items()
            },
        )
    competitors = []
    for model_name, answers in answers_by_name.items():
        estimated = estimate_from_answers(name, compared_metric, answers, clusters_by_name[model_name])
        competitors.append(competitor_of(model_name, estimated, level))
    comparison = assemble_comparison(
        competitors,
        metric=compared_metric,
        scale=scale_of_answers(compared_metric),
        loss_name="graded answers",
        level=level,
        paired=paired,
    )
    first_clusters = next(iter(clusters_by_name.values()))
    if not paired or first_clusters is None:
        return comparison
    columns = cluster_columns(name, first_clusters, next(iter(counts.values())))
    return replace(comparison, clusters=cluster_counts(columns))


def competitor_of(name: str, estimated: AnswerEstimate, level: float) -> Competitor:
    """One model of a comparison by a metric of graded answers."""
    return Competitor(
        name=name,
        model=estimated.as_compared_model(),
        interval=estimated.interval(level),
        sample_count=estimated.question_count,
    )
