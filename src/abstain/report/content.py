"""The numbers of a report: gathered from the library's functions, and prepared as JSON for the page's scripts."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import abstain
from abstain import scores
from abstain._tables import GROUPS_SHOWN
from abstain.core.area_estimators import Estimator
from abstain.core.sorting import is_zero_one
from abstain.errors import AbstainError, DataError, InputError
from abstain.evaluation import Comparison, Evaluation
from abstain.evaluation.chance import chance_warnings
from abstain.evaluation.results import worst_first
from abstain.formats import Predictions, Words
from abstain.formats.alignment import OtherSamplesError, align_models, comparison_arguments
from abstain.formats.safety import naming_file
from abstain.inference import CurveBand, Interval, curve_band, interval
from abstain.inference.limits import student_quantile
from abstain.metrics import RiskCoverageCurve, risk_coverage_curve
from abstain.metrics.definitions import by_name
from abstain.metrics.summaries import Scale
from abstain.thresholds import ClinicalTable, clinical_table, clopper_pearson

ESTIMATORS: dict[Estimator, str] = {
    "harmonic": "the classical empirical AURC: the mean of all selective risks",
    "log": "weights -ln(1 - rank/(n + 1))",
    "loo": "leave-one-out: the least biased; intervals are centred here",
    "sele": "rank/n: this is the empirical AUGRC, a different area, shown for comparison",
}
_SCORES = ("max_softmax", "softmax_margin", "negative_entropy", "max_logit")  # the last one needs logits
_BAND_WORK = 5e6  # samples times bootstrap replicates that a band may take
_SLIDER_STEPS = 400  # for one model; all models together have at most four times as many
_CURVE_POINTS = 600
_MAX_SAMPLES_READ = (
    4e7  # for the limits of a loss that is not 0/1, and for paired tests of scores: else omitted
)
Samples = tuple[np.ndarray, np.ndarray]  # losses and confidences
_PACKAGES = (
    "numpy",
    "scipy",
    "array-api-compat",
    "click",
    "rich",
    "pyarrow",
    "torch",
    "jax",
    "scikit-learn",
    "pandas",
    "polars",
    "matplotlib",
    "distributed",
    "pyspark",
)


def versions(*names: str) -> dict[str, str]:
    """Installed versions by package.

    Parameters
    ----------
    *names : str
        Packages; by default all that abstain can use, with "not installed" for those that are missing.

    Returns
    -------
    dict of str to str
        abstain and python first.

    Examples
    --------
    >>> list(versions("numpy"))
    ['abstain', 'python', 'numpy']
    """
    version_by_package = {"abstain": abstain.__version__, "python": platform.python_version()}
    for name in names or _PACKAGES:
        try:
            version_by_package[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if not names:
                version_by_package[name] = "not installed"
    return version_by_package


@dataclass(frozen=True, kw_only=True)
class Slider:
    """What the threshold slider shows: one entry per step, from the strictest threshold to the most lenient.

    Attributes
    ----------
    threshold : list of float
        On the confidence; a sample is accepted if its confidence is at least this.
    threshold_text : list of str
        The threshold as people know it.
    coverage, risk : list of float
        Share of accepted samples, and their mean loss.
    low, high : list of float or None
        Limits of the risk.
    accepted : list of int
        How many samples are accepted.
    loss : list of float
        Their total loss.
    parts : list of Breakdown
        The same by group and by class.
    """

    threshold: list[float]
    threshold_text: list[str]
    coverage: list[float]
    risk: list[float]
    low: list[float | None]
    high: list[float | None]
    accepted: list[int]
    loss: list[float]
    parts: list[Breakdown]


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """At each step of the slider, the groups (or classes) with the largest error rates, and all others as one row.

    Attributes
    ----------
    by : str
        "group" or "true class".
    groups : int
        How many groups there are.
    names, totals : list
        Names and sample counts of the groups that are listed at some step.
    listed : list of list of int
        At each step, indices into `names`, worst first by the lower limit of the error rate.
    accepted, loss, risk, low, high : list of list
        At each step, the numbers of the listed groups, in the same order.
    unlisted : list of tuple
        At each step, the sum over all groups that are not listed: samples, accepted, loss, error rate.
    """

    by: str
    groups: int
    names: list[str]
    totals: list[int]
    listed: list[list[int]]
    accepted: list[list[int]]
    loss: list[list[float]]
    risk: list[list[float | None]]
    low: list[list[float | None]]
    high: list[list[float | None]]
    unlisted: list[tuple[int, int, float, float | None]]


@dataclass(frozen=True, kw_only=True)
class ModelContent:
    """All that a page shows about one model.

    Attributes
    ----------
    predictions : Predictions
        What was read from its file.
    score, loss : str
        Names of the confidence and the loss of the curve.
    zero_one : bool
        True if all losses are 0 or 1.
    curve : RiskCoverageCurve
        The risk-coverage curve.
    band : CurveBand or None
        Its simultaneous band; None for fewer than 20 samples, negative losses, or two kinds of clusters (which cannot
        be drawn again).
    slider : Slider
        The steps of the threshold slider.
    evaluation : Evaluation
        The table of metrics.
    estimators : tuple of (name, Interval)
        AURC by each estimator.
    clinical : ClinicalTable or None
        For a model of two classes, with the second as the positive class.
    best : dict
        By (loss, metric), the score that a paired test finds better than all other scores.
    """

    predictions: Predictions
    score: str
    loss: str
    zero_one: bool
    curve: RiskCoverageCurve
    band: CurveBand | None
    slider: Slider
    evaluation: Evaluation
    estimators: tuple[tuple[str, Interval], ...]
    clinical: ClinicalTable | None
    best: dict[tuple[str, str], str]


@dataclass(frozen=True)
class Content:
    """All that a page shows; `gather` makes it.

    Parameters
    ----------
    models : tuple of ModelContent
        Curve, band, slider and tables of each model.
    comparison : Comparison or None
        Of the models, or of the scores of a single model; None if there is nothing to compare.
    level : float
        Confidence level of the intervals.
    rng : int
        Seed of the bands' bootstrap.
    replicates : int
        Bootstrap replicates of the bands.
    notes : tuple of str
        How the files were read: how refusals count, which models are not ranked.

    Examples
    --------
    >>> Content(models=(), comparison=None, level=0.95, rng=0, replicates=100).level
    0.95
    """

    models: tuple[ModelContent, ...]
    comparison: Comparison | None
    level: float
    rng: int
    replicates: int
    notes: tuple[str, ...] = ()


def gather(
    models: Sequence[Predictions],
    *,
    score: str = "max_softmax",
    loss: str = "zero_one",
    metrics: Sequence[str] | str | None = None,
    level: float = 0.95,
    repetitions: bool = False,
    rng: int = 0,
    progress: Callable[[str], None] = lambda what: None,
) -> Content:
    """Compute all that a report shows: curves with bands, tables, the steps of the slider, and the ranking.

    Parameters
    ----------
    models : sequence of Predictions
        From `abstain.formats.read_predictions`, one per model.
    score, loss : str
        The confidence and the loss of the curves, for files with class scores.
    metrics : sequence of str, "all", or None
        Names of metrics for the tables of scores, in addition to "aurc"; by default those of `evaluate`.
    level : float
        Confidence level of intervals and bands.
    repetitions : bool
        Are sample weights numbers of repetitions? The estimators "loo" and "log" of AURC need that.
    rng : int
        Seed of the bands' bootstrap.
    progress : callable
        Called with the name of each model before it is evaluated, and once before the comparison.

    Returns
    -------
    Content

    Raises
    ------
    InputError
        If there is no model, or a name of a score, loss or metric is unknown.
    DataError
        If files share only some of their sample ids.

    Examples
    --------
    >>> from abstain.formats import Predictions
    >>> predictions = Predictions("mine", "t.csv", "csv", 4, loss=np.array([0.0, 1.0, 0.0, 0.0]),
    ...                           confidence=np.array([0.9, 0.5, 0.7, 0.6]), loss_name="zero_one")
    >>> model = gather([predictions]).models[0]
    >>> model.slider.coverage, model.slider.risk[-1]
    ([0.25, 0.5, 0.75, 1.0], 0.25)
    """
    if not models:
        raise InputError("report: needs at least one model.")
    largest_n = max(model.n for model in models)
    replicates = int(np.clip(_BAND_WORK / largest_n, 100, 1000))
    slider_steps = min(_SLIDER_STEPS, 4 * _SLIDER_STEPS // len(models))
    models, paired = in_one_order(models)
    contents = []
    for predictions in models:
        progress(predictions.name)
        with naming_file(predictions.path):
            contents.append(
                _gather_model(
                    predictions,
                    score=score,
                    loss=loss,
                    level=level,
                    metrics=metrics,
                    repetitions=repetitions,
                    rng=rng,
                    replicates=replicates,
                    slider_steps=slider_steps,
                )
            )
    progress("comparing")
    comparison = _compare_models(
        models, contents, score=score, loss=loss, level=level, repetitions=repetitions, paired=paired
    )
    notes = []
    for content in contents:
        prefix = f"{content.predictions.name}: " if len(contents) > 1 else ""
        notes += [prefix + warning for warning in chance_warnings(content.evaluation.notes)]
        if _has_two_kinds_of_clusters(content.predictions):
            notes.append(
                f"{prefix}The curve has no band: bands are made by resampling one kind of clusters, got two."
            )
    return Content(
        models=tuple(contents),
        comparison=comparison,
        level=level,
        rng=rng,
        replicates=replicates,
        notes=tuple(notes),
    )


def _gather_model(
    predictions: Predictions,
    *,
    score: str,
    loss: str,
    level: float,
    metrics: Sequence[str] | str | None,
    repetitions: bool,
    rng: int,
    replicates: int,
    slider_steps: int,
) -> ModelContent:
    """Compute all that a report shows about one model.

    Parameters
    ----------
    predictions : Predictions
        What was read from the model's file: class scores, or a column of confidences.
    score, loss : str
        Names of the confidence and the loss that are computed from class scores. A file with a column of confidences
        keeps its own confidence and loss.
    level : float
        Confidence level of intervals and bands.
    metrics : sequence of str, "all", or None
        Names of metrics for the table of scores, in addition to "aurc"; None for those of `abstain.evaluate`.
    repetitions : bool
        True if sample weights are numbers of repetitions.
    rng, replicates : int
        Seed and number of replicates of the band's bootstrap.
    slider_steps : int
        About how many steps the threshold slider has at most.

    Raises
    ------
    AbstainError
        If a name is unknown, or the file's values are invalid.
    """
    losses, confidence = predictions.samples(score, loss)
    columns: Any = {"sample_weight": predictions.sample_weight, "abstained": predictions.abstained}
    curve = risk_coverage_curve(losses, confidence, **columns)
    columns["clusters"] = predictions.clusters  # for intervals and bands; the curve does not depend on them
    band = None
    can_resample = not _has_two_kinds_of_clusters(predictions)
    if predictions.n >= 20 and not bool((losses < 0).any()) and can_resample:
        band = curve_band(
            losses, confidence, level=level, replicates=replicates, rng=rng, progress=False, **columns
        )
    # the arguments of `abstain.evaluate`; groups are shown by the slider instead
    arguments = {name: value for name, value in predictions.arguments().items() if name != "groups"}
    if predictions.kind == "confidence":
        score = next(iter(predictions.signals), "confidence")
        loss = predictions.loss_name
    else:
        usual_scores = _SCORES if predictions.kind == "logits" else _SCORES[:-1]
        arguments["scores"] = list(dict.fromkeys([score, *usual_scores]))
    estimators = []
    for name in ESTIMATORS:
        try:
            estimate = interval(
                "aurc",
                losses,
                confidence,
                level=level,
                estimator=name,
                repetitions=repetitions,
                **columns,
            )
        except InputError:  # with relative weights there is one estimator only
            continue
        estimators.append((name, estimate))
    if metrics is not None and metrics != "all":
        metrics = list(dict.fromkeys(["aurc", *metrics]))  # the page's summary and figures need AURC
    evaluation = abstain.evaluate(
        **arguments, metrics=metrics, level=level, repetitions=repetitions, progress=False
    )
    samples = (losses.astype(np.float64), confidence)
    return ModelContent(
        predictions=predictions,
        score=score,
        loss=loss,
        zero_one=is_zero_one(losses),
        curve=curve,
        band=band,
        slider=_make_slider(predictions, curve, samples, score=score, level=level, max_steps=slider_steps),
        evaluation=evaluation,
        estimators=tuple(estimators),
        clinical=_two_class_table(predictions, score, level),
        best=_find_best_scores(predictions, evaluation, level=level, repetitions=repetitions),
    )


def _has_two_kinds_of_clusters(predictions: Predictions) -> bool:
    """Are there two crossed kinds of clusters, such as place and week?"""
    return predictions.clusters is not None and predictions.clusters.ndim == 2


def _two_class_table(predictions: Predictions, score: str, level: float) -> ClinicalTable | None:
    """Tabulate sensitivity and so on, with the second of two classes as the positive one.

    None if there are not exactly two classes, if labels are one-hot rows, if the file does not hold both true and
    predicted classes, if nothing was answered, and for weighted samples. `predictions` holds what a file says of one
    model: class scores or confidences, labels or losses, weights and groups. `level` is the two-sided confidence level,
    such as 0.95.
    """
    try:
        labels, _ = predictions.answered().answers()
    except DataError:  # no labels, no predicted classes, or nothing answered
        return None
    classes = predictions.classes or np.unique(labels).tolist()
    if len(classes) != 2 or labels.ndim > 1 or predictions.sample_weight is not None:
        return None
    return clinical_of(predictions, score, classes[1], level)


def clinical_of(predictions: Predictions, score: str, positive: Any, level: float) -> ClinicalTable:
    """Tabulate sensitivity, specificity and predictive values among accepted samples, at shares of the answered.

    A sample that the model refused to answer is never accepted but counts in every coverage: it gets a confidence below
    all others. Samples without a label are left out.

    `score` names the confidence that is computed from class scores, `positive` is a class as in the labels. Thresholds
    in the table are plain values of the score, not its rank keys. Raises DataError if the file does not hold both true
    and predicted classes. `predictions` holds what a file says of one model: class scores or confidences, labels or
    losses, weights and groups. `level` is the two-sided confidence level, such as 0.95. A rank key orders samples as
    its score does, but does not round to the score's largest value.
    """
    labels, _ = predictions.answers()
    if labels.dtype.kind == "f":
        has_label = ~np.isnan(labels)  # a refused sample may have no label
    else:
        has_label = labels != ""
    if not has_label.all():
        predictions = predictions.rows(np.flatnonzero(has_label))
    labels, predicted = predictions.answers()
    _, confidence = predictions.samples(score, loss="zero_one")
    confidence = confidence.astype(np.float64)
    thresholds = None
    if predictions.abstained is not None and predictions.abstained.any():
        answered = ~predictions.abstained
        answered_table = clinical_table(
            labels[answered], predicted[answered], confidence[answered], positive=positive, level=level
        )
        thresholds = answered_table.threshold
        confidence = np.where(answered, confidence, np.nextafter(confidence[answered].min(), -np.inf))
    table = clinical_table(
        labels, predicted, confidence, positive=positive, thresholds=thresholds, level=level
    )
    if predictions.kind == "confidence":
        return table
    plain_threshold = np.asarray(scores.display(score, table.threshold))  # people do not know the rank key
    return replace(table, threshold=plain_threshold)


def _find_best_scores(
    predictions: Predictions, evaluation: Evaluation, *, level: float, repetitions: bool
) -> dict[tuple[str, str], str]:
    """Return, by (loss, metric), the score that paired tests find better than every other score of the same model.

    A pair is missing if no score is better than all others, or if the metric is undefined for the loss. The result is
    empty if there is one score, or if the tests would take too long. `evaluation` says which scores, losses and metrics
    there are; `repetitions` is True if sample weights are numbers of repetitions. `predictions` holds what a file says
    of one model: class scores or confidences, labels or losses, weights and groups. `level` is the two-sided confidence
    level, such as 0.95.
    """
    # the paired tests of other metrics resample, which takes too long for a page
    metrics = [name for name in evaluation.metrics if by_name(name).is_smooth]
    test_count = len(evaluation.scores) * len(metrics) * len(evaluation.losses)
    best: dict[tuple[str, str], str] = {}
    if len(evaluation.scores) < 2 or predictions.n * test_count > _MAX_SAMPLES_READ:
        return best
    columns = comparison_arguments([replace(predictions, name=score) for score in evaluation.scores])
    for loss in evaluation.losses:
        entries = {score: predictions.samples(score, loss) for score in evaluation.scores}
        for metric in metrics:
            try:
                comparison = abstain.compare(
                    entries, metric=metric, level=level, repetitions=repetitions, **columns
                )
            except AbstainError:  # undefined for this loss, or because all answers are right
                continue
            if len(comparison.winners) == 1:
                best[loss, metric] = comparison.winners[0]
    return best


def _compare_models(
    models: Sequence[Predictions],
    contents: list[ModelContent],
    *,
    score: str,
    loss: str,
    level: float,
    repetitions: bool,
    paired: bool,
) -> Comparison | None:
    """Compare several models by AURC, or the scores of a single model; None if there is nothing to compare.

    `contents` are in the order of `models`. `score` and `loss` are names of the confidence and the loss for files with
    class scores. `paired`: row k is the same sample in all models. `level` is the two-sided confidence level, such as
    0.95. `repetitions` says that weights are numbers of repetitions.
    """
    contestants = [(model, score) for model in models]
    if len(models) == 1:
        contestants = [(replace(models[0], name=name), name) for name in contents[0].evaluation.scores]
    if len(contestants) < 2:
        return None
    entries = {model.name: model.samples(model_score, loss) for model, model_score in contestants}
    columns = comparison_arguments([model for model, _ in contestants], paired=paired)
    return abstain.compare(entries, level=level, paired=paired, repetitions=repetitions, **columns)


def in_one_order(models: Sequence[Predictions]) -> tuple[Sequence[Predictions], bool]:
    """Return the models with their rows in one order, and True; unchanged, and False, if they hold different samples.

    Raises DataError for files that share only some of their ids.
    """
    try:
        return align_models(models), True
    except OtherSamplesError:
        return models, False


# the slider


def risk_where(curve: RiskCoverageCurve, coverage: float) -> float | None:
    """The risk of the smallest accepted set that has at least this coverage; None if no threshold reaches it."""
    index = int(np.searchsorted(curve.coverage, coverage - 1e-12))
    return float(curve.risk[index]) if index < len(curve.coverage) else None


def _spread_points(curve: RiskCoverageCurve, low: float, points: int) -> np.ndarray:
    """Indices of points of a curve, about evenly spaced in coverage from `low` on."""
    grid = np.linspace(low, curve.coverage[-1], points)
    return np.unique(np.minimum(np.searchsorted(curve.coverage, grid - 1e-12), len(curve.coverage) - 1))


def _make_slider(
    predictions: Predictions,
    curve: RiskCoverageCurve,
    samples: Samples,
    *,
    score: str,
    level: float,
    max_steps: int,
) -> Slider:
    """Make the steps of the slider, at all distinct confidences or at about `max_steps` of them.

    `samples` are losses and confidences of all samples, in the order of the file; samples on which the model abstained
    are never accepted. `curve` is their risk-coverage curve, from high to low confidence. `score` names the confidence,
    by which thresholds of class scores are written as plain values. `predictions` holds what a file says of one model:
    class scores or confidences, labels or losses, weights and groups. `level` is the two-sided confidence level, such
    as 0.95.
    """
    loss, confidence = samples
    points = _spread_points(curve, low=curve.coverage[-1] / max_steps, points=max_steps)
    is_answered = np.ones(len(loss), dtype=bool) if predictions.abstained is None else ~predictions.abstained
    answered = np.flatnonzero(is_answered)
    most_confident_first = answered[np.argsort(-confidence[answered], kind="stable")]
    accepted_count = curve.count[points]
    threshold = curve.threshold[points].astype(np.float64)
    accepted_loss = np.append(0.0, np.cumsum(loss[most_confident_first]))[accepted_count]
    sorted_samples = (loss[most_confident_first], confidence[most_confident_first])
    low, high = _risk_limits(predictions, sorted_samples, accepted_count, accepted_loss, level)
    weight = np.ones(len(loss))
    if predictions.sample_weight is not None:
        weight = predictions.sample_weight.astype(np.float64)
    if predictions.kind == "confidence":
        threshold_text = [f"{value:.6g}" for value in threshold]
    else:
        threshold_text = [_format_threshold(score, key) for key in threshold]
    return Slider(
        threshold=threshold.tolist(),
        threshold_text=threshold_text,
        coverage=curve.coverage[points].tolist(),
        risk=curve.risk[points].tolist(),
        low=low.tolist(),
        high=high.tolist(),
        accepted=accepted_count.tolist(),
        loss=accepted_loss.tolist(),
        parts=[
            _make_breakdown(partition, most_confident_first, loss, weight, accepted_count, level)
            for partition in _partitions(predictions)
        ],
    )


def _format_threshold(score: str, key: float) -> str:
    """Format a threshold on a rank key as the score's plain value; close to the end of its scale, as a distance.

    E.g. "1 − 3e-09" for a probability that would round to 1.
    """
    if not scores.by_name(score).saturates:
        return f"{key:.6g}"
    value = float(scores.display(score, key))
    if value < 0.9995 or score != "max_softmax":
        return f"{value:.4g}"
    return f"1 − {np.exp(-key):.2g}" if key < 700 else "1"


def _risk_limits(
    predictions: Predictions,
    sorted_samples: Samples,
    accepted_count: np.ndarray,
    accepted_loss: np.ndarray,
    level: float,
) -> np.ndarray:
    """Return lower and upper limits of the risk at each step, shape (2, steps); None where there are none.

    Clopper-Pearson limits for 0/1 losses, otherwise the interval of a mean if that is quick and at least 10 samples are
    accepted. Weighted samples have none. `sorted_samples` are losses and confidences of the answered samples, most
    confident first; at step k the first `accepted_count[k]` of them are accepted, with total loss `accepted_loss[k]`.
    `predictions` holds what a file says of one model: class scores or confidences, labels or losses, weights and
    groups. `level` is the two-sided confidence level, such as 0.95.
    """
    loss, confidence = sorted_samples
    if predictions.sample_weight is None and is_zero_one(loss):
        return np.asarray(clopper_pearson(accepted_loss, accepted_count, level))
    limits = np.full((2, len(accepted_count)), None)
    if predictions.sample_weight is None and float(accepted_count.sum()) <= _MAX_SAMPLES_READ:
        for step in np.flatnonzero(accepted_count >= 10):
            count = accepted_count[step]
            risk = interval("risk", loss[:count], confidence[:count], level=level)
            limits[:, step] = risk.low, risk.high
    return limits


class Partition(NamedTuple):
    """A class or a group for each sample: its code, the name of each code, and what they are ("group", "class")."""

    codes: np.ndarray
    names: list[str]
    by: str


def _make_breakdown(
    partition: Partition,
    most_confident_first: np.ndarray,
    loss: np.ndarray,
    weight: np.ndarray,
    accepted_count: np.ndarray,
    level: float,
) -> Breakdown:
    """At each step of the slider, list the worst groups by the lower limit of their mean loss, and sum up the others.

    Parameters
    ----------
    partition : Partition
        The group of each sample, as a code from 0, and the name of each code.
    most_confident_first : array of int
        Indices of the answered samples in this order.
    loss, weight : array, shape (samples,)
        Of all samples.
    accepted_count : array of int
        How many of `most_confident_first` are accepted at each step, ascending.
    level : float
        Confidence level of the limits.
    """
    group_count = len(partition.names)
    codes = partition.codes
    # sums over the accepted samples of each group; `_group_risks` reads them in this order
    summands = (
        np.ones(len(loss)),
        loss,
        weight,
        weight * loss,
        weight**2,
        (weight**2) * loss,
        (weight * loss) ** 2,
    )
    sums = np.zeros((len(summands), group_count))
    error_cost = _error_cost(loss)
    scale = Scale("normal" if bool((loss < 0).any()) else "log")
    group_sizes = np.bincount(codes, minlength=group_count)
    listed: list[np.ndarray] = []
    numbers: dict[str, list[Any]] = {
        name: [] for name in ("accepted", "loss", "risk", "low", "high", "unlisted")
    }
    for start, end in pairwise([0, *accepted_count]):
        newly_accepted = most_confident_first[start:end]
        for group_sums, values in zip(sums, summands):  # rows of `sums`, changed in place
            group_sums += np.bincount(
                codes[newly_accepted], weights=values[newly_accepted], minlength=group_count
            )
        accepted, accepted_loss, accepted_mass, weighted_loss = sums[:4]
        risk, low, high = _group_risks(sums, error_cost, scale, level)
        worst = worst_first(risk, low, high, lower_is_better=True)
        worst_listed = worst[:GROUPS_SHOWN]
        unlisted = worst[GROUPS_SHOWN:]
        unlisted_mass = float(accepted_mass[unlisted].sum())
        unlisted_risk = float(weighted_loss[unlisted].sum()) / unlisted_mass if unlisted_mass else None
        listed.append(worst_listed)
        numbers["accepted"].append(accepted[worst_listed].astype(int).tolist())
        numbers["loss"].append(_round_six(accepted_loss[worst_listed]))
        numbers["risk"].append(_round_four(risk[worst_listed]))
        numbers["low"].append(_round_four(low[worst_listed]))
        numbers["high"].append(_round_four(high[worst_listed]))
        numbers["unlisted"].append(
            (
                int(group_sizes[unlisted].sum()),
                int(accepted[unlisted].sum()),
                float(accepted_loss[unlisted].sum()),
                unlisted_risk,
            )
        )
    ever_listed = np.unique(listed)
    return Breakdown(
        by=partition.by,
        groups=group_count,
        names=[partition.names[code] for code in ever_listed],
        totals=group_sizes[ever_listed].tolist(),
        listed=[np.searchsorted(ever_listed, worst_listed).tolist() for worst_listed in listed],
        **numbers,
    )


def _error_cost(loss: np.ndarray) -> float | None:
    """Return the loss of an error if all errors have the same; None for any other loss, 0 if there are no errors."""
    largest = float(loss.max())
    return largest if is_zero_one(loss / (largest or 1.0)) else None


def _group_risks(
    sums: np.ndarray, error_cost: float | None, scale: Scale, level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean loss of each group with its lower and upper limit; nan for groups without accepted samples.

    Errors of one cost have the exact limits of a proportion (with weights, of the effective number of draws). Other
    losses have Student's limits, and none if they do not vary: two equal losses do not prove that a group is bad.

    Parameters
    ----------
    sums : array, shape (7, groups)
        Sums over the accepted samples of each group, in this order: 1, loss, weight w, w loss, w^2, w^2 loss,
        w^2 loss^2.
    error_cost : float or None
        The loss of an error if every loss is 0 or this number; 0 if there are no errors, None for other losses.
    scale : Scale
        The scale on which Student's limits are symmetric around the mean: "normal", or "log" for losses that are not
        negative.
    level : float
        Confidence level.
    """
    mass, weighted_loss, squared_weight = sums[2:5]
    has_accepted = mass > 0
    risk, low, high = np.full((3, len(mass)), np.nan)
    mean = weighted_loss[has_accepted] / mass[has_accepted]
    # as many samples of equal weight would vary as much; the number of samples if there are no weights
    effective_n = mass[has_accepted] ** 2 / squared_weight[has_accepted]
    risk[has_accepted] = mean
    if error_cost is not None:
        error_share = mean / error_cost if error_cost else mean
        # many groups have the same counts, and the limits are computed once for each pair of counts
        counts, pair_index = np.unique([error_share * effective_n, effective_n], axis=1, return_inverse=True)
        errors, trials = counts
        limits = np.asarray(clopper_pearson(errors, trials, level)) * (error_cost if error_cost else 1.0)
        low[has_accepted], high[has_accepted] = limits[:, pair_index.reshape(-1)]
        return risk, low, high
    mass_sum, _, square_sum, square_loss_sum, square_loss2_sum = sums[2:, has_accepted]
    spread = square_loss2_sum - 2 * mean * square_loss_sum + mean**2 * square_sum
    varies = spread > 1e-12 * square_loss2_sum  # more than rounding error
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a single sample has the limits nan
        variance = np.where(varies, spread, np.nan) / mass_sum**2 * effective_n / (effective_n - 1)
        half_width = student_quantile(effective_n - 1, level) * np.sqrt(variance)
        scaled_half_width = half_width * scale.derivative(mean)  # by the derivative of the scale at the mean
        # the two numbers that lie so far from the mean on the scale
        limits = scale.shift(mean, np.stack([-scaled_half_width, scaled_half_width]))
        low[has_accepted], high[has_accepted] = limits
    return risk, low, high


def _partitions(predictions: Predictions) -> list[Partition]:
    """Return the partitions of the samples: by group if there are groups, by true class if it is known.

    Classes are called by the file's class names if these cover all labels, otherwise by their labels. `predictions`
    holds what a file says of one model: class scores or confidences, labels or losses, weights and groups.
    """
    labels = predictions.labels
    if labels is not None and labels.ndim > 1:
        labels = labels.argmax(axis=1)  # one-hot rows
    true_classes = labels if labels is not None else predictions.label_words
    partitions = []
    for values, by in ((predictions.groups, "group"), (true_classes, "true class")):
        if values is None:
            continue
        # `Words` are stored as codes into a list of texts
        distinct, codes = np.unique(
            values.codes if isinstance(values, Words) else values, return_inverse=True
        )
        class_names = predictions.classes
        if isinstance(values, Words):
            names = [values.values[int(code)] for code in distinct]
        elif by == "true class" and class_names and distinct[0] >= 0 and distinct[-1] < len(class_names):
            names = [class_names[int(code)] for code in distinct.tolist()]
        else:
            names = list(map(_format_label, distinct.tolist()))
        partitions.append(Partition(codes=codes.reshape(-1), names=names, by=by))
    return partitions


def _format_label(value: Any) -> str:
    """Format a numeric label with all digits, since 1234567 and 1234568 are different; nan is "none"."""
    return "none" if value != value else str(value).removesuffix(".0")


def short_names(names: Iterable[str], longest: int = 40) -> dict[str, str]:
    """Shorten names to at most `longest` characters so that they still differ.

    The start and the end of a name are kept, and a number is added if that is not enough. The result for a set of
    names does not depend on their order.

    >>> list(short_names(["a-long-name-for-one", "a-long-name-for-two", "b"], 12).values())
    ['a-long…r-one', 'a-long…r-two', 'b']
    >>> list(short_names(["same start, middle one, same end", "same start, middle two, same end"], 12).values())
    ['same s… end1', 'same s… end2']
    """

    def cut(name: str, suffix: str = "") -> str:
        if len(name) + len(suffix) <= longest:
            return name + suffix
        head = longest // 2
        tail = longest - head - 1 - len(suffix)
        return f"{name[:head]}…{name[len(name) - tail :]}{suffix}"

    shortened = {name: cut(name) for name in sorted(set(names))}
    used = Counter(shortened.values())
    numbers: Counter[str] = Counter()
    for name, short in shortened.items():
        if used[short] > 1:
            numbers[short] += 1
            shortened[name] = cut(name, str(numbers[short]))
    return shortened


# the numbers behind the charts, as JSON


def embedded(content: Content) -> dict[str, Any]:
    """Return the data that the page's scripts read (`assets/page.js`): dicts, lists, text and numbers.

    The scripts depend on these names. Models are in the order of `content.models`.
    """
    zero_one = all(model.zero_one for model in content.models)
    risk_noun = "error rate" if zero_one else "mean loss"
    loss_noun = "errors" if zero_one else "loss"
    names = [model.predictions.name for model in content.models]
    ranked = names
    if content.comparison is not None and len(names) > 1:
        ranked = list(content.comparison.names)
    short = short_names(names)
    is_whole_percent = round(content.level, 2) == content.level
    return {
        "level": f"{content.level:.0%}" if is_whole_percent else f"{content.level:.1%}",
        "zero_one": zero_one,
        "words": {
            "risk": f"selective risk: {risk_noun} of the answered",
            "generalised": f"generalised risk: {loss_noun} of the answered, per sample of all",
        },
        "best": names.index(ranked[0]),  # the model that the slider starts with
        "models": [_model_data(model, short[model.predictions.name]) for model in content.models],
        "forest": _forest_data(content),
    }


def _model_data(model: ModelContent, short_name: str) -> dict[str, Any]:
    """Return the curves and the slider of one model, by the names that the page's scripts read.

    "start" is the step at which the slider stands first: the first that accepts 80% of all that can be accepted.
    `model` holds everything that the page shows of one model.
    """
    curve = model.curve
    slider = asdict(model.slider)
    points = _spread_points(curve, low=curve.coverage[0], points=_CURVE_POINTS)
    start_step = int(np.searchsorted(slider["coverage"], 0.8 * slider["coverage"][-1] - 1e-12))
    data = {
        "name": model.predictions.name,
        "short": short_name,
        "n": model.predictions.n,
        "steps": slider,
        "start": min(start_step, len(slider["coverage"]) - 1),
    }
    for view, values in (("risk", curve.risk), ("generalised", curve.generalised_risk)):
        data[view] = {
            "coverage": _round_six(curve.coverage[points]),
            "value": _round_six(values[points]),
            "band": _band_data(model, view),
        }
    return data


def _band_data(model: ModelContent, view: str) -> dict[str, Any] | None:
    """Return the band of a curve, None if there is none; `view` is "risk" or "generalised".

    Generalised risk is risk times coverage, and so are its limits. `model` holds everything that the page shows of one
    model.
    """
    band = model.band
    if band is None:
        return None
    factor = band.coverage if view == "generalised" else np.ones_like(band.coverage)
    is_reached = band.coverage >= model.curve.coverage[0] - 1e-12  # no threshold accepts fewer samples
    return {
        "coverage": _round_six(band.coverage[is_reached]),
        "low": _round_six((band.low * factor)[is_reached]),
        "high": _round_six((band.high * factor)[is_reached]),
    }


def _round_four(values: np.ndarray) -> list[float | None]:
    """Round to four digits; nan becomes None, since JSON has no nan."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values.tolist()]


def _round_six(values: np.ndarray) -> list[float]:
    """Round to six digits, more than a screen shows."""
    return [float(f"{value:.6g}") for value in values.tolist()]


def _forest_data(content: Content) -> list[dict[str, Any]]:
    """Return AURC with its interval, for each model by each of its scores, in the order of the models.

    "first" marks the score of the model's curve, "colour" is the model's index. Undefined values are left out; limits
    may be None. `content` holds everything that the page shows.
    """
    rows = []
    for index, model in enumerate(content.models):
        table = model.evaluation
        for score in table.scores:
            entry = table[score, table.losses[0], "aurc"]
            if entry.estimate is None:
                continue
            rows.append(
                {
                    "model": model.predictions.name,
                    "score": score,
                    "colour": index,
                    "first": score == model.score,
                    "estimate": entry.estimate,
                    "low": entry.low,
                    "high": entry.high,
                }
            )
    return rows
