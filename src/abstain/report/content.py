"""The numbers of a report, gathered from the library's functions."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

import numpy as np

import abstain
from abstain import scores
from abstain.calibration import ReliabilityCurve, reliability_curve
from abstain.core.area_estimators import Estimator
from abstain.core.sorting import is_zero_one
from abstain.errors import AbstainError, DataError, InputError
from abstain.evaluation import Comparison, Evaluation
from abstain.evaluation.chance import chance_warnings
from abstain.formats import Predictions
from abstain.formats.alignment import OtherSamplesError, align_models, comparison_arguments
from abstain.formats.safety import naming_file
from abstain.inference import CurveBand, Interval, curve_band, interval
from abstain.metrics import RiskCoverageCurve, risk_coverage_curve
from abstain.metrics.definitions import by_name
from abstain.report.certified import CertifiedSteps, certify_steps
from abstain.report.slider import MAX_SAMPLES_READ, Samples, Slider, make_slider
from abstain.thresholds import ClinicalTable, clinical_table

ESTIMATORS: dict[Estimator, str] = {
    "harmonic": "the classical empirical AURC: the mean of all selective risks",
    "log": "weights -ln(1 - rank/(n + 1))",
    "loo": "leave-one-out: the least biased; intervals are centred here",
    "sele": "rank/n: this is the empirical AUGRC, a different area, shown for comparison",
}
_SCORES = ("max_softmax", "softmax_margin", "negative_entropy", "max_logit")  # the last one needs logits
_BAND_WORK = 5e6  # samples times bootstrap replicates that a band may take
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
        Packages, of which missing ones are left out; by default all that abstain can use, with "not installed" for
        those that are missing.

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
    certified : CertifiedSteps
        Thresholds that keep a promise, for several risks.
    reliability : ReliabilityCurve or None
        Accuracy against confidence; None unless the confidence may be read as a probability of being right.
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
    certified: CertifiedSteps
    reliability: ReliabilityCurve | None


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
    by_risk : Comparison or None
        Of several models by their risk when everything is answered; None for one model or several of its confidences.

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
    by_risk: Comparison | None = None


def gather(
    models: Sequence[Predictions],
    *,
    score: str = "max_softmax",
    loss: str = "zero_one",
    metrics: Sequence[str] | str | None = None,
    level: float = 0.95,
    risk: float | None = None,
    delta: float = 0.05,
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
    risk : float, optional
        The risk at which the page starts to choose a threshold; by default 5% or the smallest that can be promised.
    delta : float
        Probability with which the promise of a threshold may fail.
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
                    risk=risk,
                    delta=delta,
                    repetitions=repetitions,
                    rng=rng,
                    replicates=replicates,
                    model_count=len(models),
                )
            )
    progress("comparing")
    comparison_options: dict[str, Any] = {
        "score": score,
        "loss": loss,
        "level": level,
        "repetitions": repetitions,
        "paired": paired,
    }
    comparison = _compare_models(models, contents, metric="aurc", **comparison_options)
    by_risk = None
    if len({model.path for model in models}) > 1:  # confidences of one file have one risk
        by_risk = _compare_models(models, contents, metric="risk", **comparison_options)
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
        by_risk=by_risk,
    )


def _gather_model(
    predictions: Predictions,
    *,
    score: str,
    loss: str,
    level: float,
    metrics: Sequence[str] | str | None,
    risk: float | None,
    delta: float,
    repetitions: bool,
    rng: int,
    replicates: int,
    model_count: int,
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
    risk : float or None
        A risk that the user asks for, for which a threshold is chosen in addition to the usual ones.
    delta : float
        Probability with which the promise of a threshold may fail.
    repetitions : bool
        True if sample weights are numbers of repetitions.
    rng, replicates : int
        Seed and number of replicates of the band's bootstrap.
    model_count : int
        How many models the page shows: with more of them, each slider has fewer steps.

    Raises
    ------
    AbstainError
        If a name is unknown, or the file's values are invalid.
    """
    losses, confidence = predictions.loss_and_confidence(score, loss)
    class_score = score  # for files with class scores
    class_loss = loss
    columns: Any = {"sample_weight": predictions.sample_weight, "abstained": predictions.abstained}
    curve = risk_coverage_curve(losses, confidence, **columns)
    columns["clusters"] = predictions.clusters  # for intervals and bands; the curve does not depend on them
    band = None
    can_resample = not _has_two_kinds_of_clusters(predictions)
    if predictions.n >= 20 and not bool((losses < 0).any()) and can_resample:
        band = curve_band(
            losses, confidence, level=level, replicates=replicates, rng=rng, progress=False, **columns
        )
    shown_scores = None  # those of class scores
    shown_losses = None
    if not predictions.has_class_scores:
        score = next(iter(predictions.signals), "confidence")
        loss = predictions.loss_name
    else:
        usual_scores = _SCORES if predictions.kind == "logits" else _SCORES[:-1]
        shown_scores = list(dict.fromkeys([score, *usual_scores]))
        shown_losses = [loss]
    arguments = predictions.arguments(scores=shown_scores, losses=shown_losses)  # of `abstain.evaluate`
    arguments.pop("groups", None)  # they are shown by the slider instead
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
    evaluation = replace(evaluation, notes=predictions.with_sign_advice(evaluation.notes))
    samples = (losses.astype(np.float64), confidence)
    certified = certify_steps(
        predictions,
        score=class_score,
        loss=class_loss,
        delta=delta,
        full_risk=float(curve.risk[-1]),
        answered_share=float(curve.coverage[-1]),
        asked_risk=risk,
    )
    return ModelContent(
        predictions=predictions,
        score=score,
        loss=loss,
        zero_one=is_zero_one(losses),
        curve=curve,
        band=band,
        slider=make_slider(
            predictions, curve, samples, certified, score=score, level=level, model_count=model_count
        ),
        evaluation=evaluation,
        estimators=tuple(estimators),
        clinical=_two_class_table(predictions, score, level),
        best=_find_best_scores(predictions, evaluation, level=level, repetitions=repetitions),
        certified=certified,
        reliability=_measure_reliability(predictions, samples, score=score, level=level),
    )


def _measure_reliability(
    predictions: Predictions, samples: Samples, *, score: str, level: float
) -> ReliabilityCurve | None:
    """Accuracy against confidence with a band, where the confidence may be read as a probability of being right.

    That is the largest class probability, or a column of confidences that all lie between 0 and 1; the losses must be
    0 or 1. Otherwise None, as for weighted samples, two kinds of clusters and too few answers. `samples` are losses and
    confidences of all samples (for class scores, rank keys of `score`); those on which the model abstained are left
    out. `score` names the confidence, and `level` is the probability that the band holds the accuracies of all bins.
    `predictions.log` holds the questions and answers that they were made from, None for a plain table.
    """
    losses, confidence = samples
    # what `reliability_curve` can take: no weights, and one kind of clusters at most
    has_plain_columns = predictions.sample_weight is None and not _has_two_kinds_of_clusters(predictions)
    is_probability = not predictions.has_class_scores or score == "max_softmax"
    if not (is_zero_one(losses) and has_plain_columns and is_probability):
        return None
    clusters = predictions.clusters
    if predictions.log is not None and score in predictions.log.signals:
        # In `samples` questions without an answer may count as wrong, with a confidence below all others, and rows may
        # be left out for lack of another confidence. So the rows are taken from the log.
        log = predictions.log
        confidence = log.signals[score]  # NaN where a row lacks it
        # rows with an answer that has a grade and this confidence
        is_answered = log.scored & log.answered & np.isfinite(confidence)
        losses = log.loss
        clusters = log.find_clusters()  # one for each row of the log; None where answers are independent
    else:
        is_answered = np.ones(len(losses), dtype=bool)
        # at most one of them is set, by how refusals count
        for is_unanswered in (predictions.abstained, predictions.refused):
            if is_unanswered is not None:
                is_answered &= ~is_unanswered
    probability = confidence[is_answered].astype(np.float64)
    if predictions.has_class_scores:  # the rank key of the score becomes its plain value
        probability = np.asarray(scores.display(score, probability), dtype=np.float64)
    if not len(probability) or probability.min() < 0 or probability.max() > 1:
        return None
    answered_clusters = None if clusters is None else clusters[is_answered]
    try:
        return reliability_curve(
            1 - losses[is_answered], probability, level=level, clusters=answered_clusters
        )
    except AbstainError:  # too few answers or clusters
        return None


def _has_two_kinds_of_clusters(predictions: Predictions) -> bool:
    """Are there two crossed kinds of clusters, such as place and week?"""
    return predictions.clusters is not None and predictions.clusters.ndim == 2


def _two_class_table(predictions: Predictions, score: str, level: float) -> ClinicalTable | None:
    """Tabulate sensitivity and so on, with the second of two classes as the positive one.

    None if there are not exactly two classes, if labels are one-hot rows, if the file does not hold both true and
    predicted classes, if nothing was answered, and for weighted samples. `predictions` holds what a file says of one
    model: class scores or confidences, labels or losses, weights and groups. `level` is the two-sided confidence level,
    such as 0.95. `score` names the confidence that is computed from class scores. "Second" is by the file's own list of
    classes, or else by the sorted labels.
    """
    try:
        labels, _ = predictions.without_abstentions().true_and_given_classes()
    except DataError:  # no labels, no predicted classes, or nothing answered
        return None
    classes = predictions.classes or np.unique(labels).tolist()
    if len(classes) != 2 or labels.ndim > 1 or predictions.sample_weight is not None:
        return None
    return clinical_of(predictions, score, classes[1], level)


def clinical_of(predictions: Predictions, score: str, positive: Any, level: float) -> ClinicalTable:
    """Tabulate sensitivity, specificity and predictive values among accepted samples, at shares of the answered.

    A sample that the model refused to answer is never accepted but counts in every coverage: it gets a confidence below
    all others. Samples without a label are left out. `predictions` are those of one file, `positive` is a class as in
    its labels, and `level` the two-sided confidence level. `score` names the confidence that is computed from class
    scores: a rank key, which orders samples as the score does without rounding. The thresholds in the table are plain
    values of the score. Raises DataError if the file does not hold both true and predicted classes. The shares are
    100%, 90% ... 10% of the answered samples. Weights are not read.
    """
    labels, _ = predictions.true_and_given_classes()
    if labels.dtype.kind == "f":  # numbers; a missing one is NaN, a missing word ""
        has_label = ~np.isnan(labels)  # a refused sample may have no label
    else:
        has_label = labels != ""
    if not has_label.all():
        predictions = predictions.rows(np.flatnonzero(has_label))
    labels, predicted = predictions.true_and_given_classes()
    _, confidence = predictions.loss_and_confidence(score, loss="zero_one")
    confidence = confidence.astype(np.float64)
    thresholds = None  # `clinical_table` takes those of its usual shares
    if predictions.abstained is not None and predictions.abstained.any():
        answered = ~predictions.abstained
        # made for its thresholds alone: those that accept certain shares of the answered samples
        answered_table = clinical_table(
            labels[answered], predicted[answered], confidence[answered], positive=positive, level=level
        )
        thresholds = answered_table.threshold
        below_all_others = np.nextafter(confidence[answered].min(), -np.inf)
        confidence = np.where(answered, confidence, below_all_others)
    table = clinical_table(
        labels,
        predicted,
        confidence,
        positive=positive,
        thresholds=thresholds,
        level=level,
        clusters=predictions.clusters,
    )
    if not predictions.has_class_scores:
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
    level, such as 0.95. A paired test compares two scores on the same samples.
    """
    # Metrics with an influence function; paired tests of others resample, which takes too long for a page.
    metrics = [name for name in evaluation.metrics if by_name(name).is_smooth]
    # work is measured in samples times tests, with a limit of 4e7
    test_count = len(evaluation.scores) * len(metrics) * len(evaluation.losses)
    best: dict[tuple[str, str], str] = {}
    if len(evaluation.scores) < 2 or predictions.n * test_count > MAX_SAMPLES_READ:
        return best
    # weights, clusters and abstentions by name of the contestant: each score is one, on the same samples
    columns = comparison_arguments([replace(predictions, name=score) for score in evaluation.scores])
    for loss in evaluation.losses:
        entries = {score: predictions.loss_and_confidence(score, loss) for score in evaluation.scores}
        for metric in metrics:
            try:
                comparison = abstain.compare(
                    entries, metric=metric, level=level, repetitions=repetitions, **columns
                )
            except AbstainError:  # undefined for this loss, or because all answers are right
                continue
            # winners: all that may be the best, as far as the tests can tell; one of them is better than all others
            if len(comparison.winners) == 1:
                best[loss, metric] = comparison.winners[0]
    return best


def _compare_models(
    models: Sequence[Predictions],
    contents: list[ModelContent],
    *,
    metric: str,
    score: str,
    loss: str,
    level: float,
    repetitions: bool,
    paired: bool,
) -> Comparison | None:
    """Compare several models by a metric, or the scores of a single model; None if there is nothing to compare.

    `contents` are in the order of `models`. `score` and `loss` are names of the confidence and the loss for files with
    class scores. `paired`: row k is the same sample in all models, as it is for the scores of a single model. `level`
    is the two-sided confidence level, such as 0.95. `repetitions` says that weights are numbers of repetitions. Names
    of models must differ. Raises what `abstain.compare` raises, such as for a metric that is undefined.
    """
    contestants = [(model, score) for model in models]
    if len(models) == 1:  # its scores are the contestants, each under its own name
        score_names = contents[0].evaluation.scores
        contestants = [(replace(models[0], name=name), name) for name in score_names]
    if len(contestants) < 2:
        return None
    entries = {model.name: model.loss_and_confidence(model_score, loss) for model, model_score in contestants}
    # weights, clusters and abstentions by name of the contestant, as far as the files have them
    columns = comparison_arguments([model for model, _ in contestants], paired=paired)
    return abstain.compare(
        entries, metric=metric, level=level, paired=paired, repetitions=repetitions, **columns
    )


def in_one_order(models: Sequence[Predictions]) -> tuple[Sequence[Predictions], bool]:
    """Return the models with their rows in one order, and True; unchanged, and False, if they hold different samples.

    Raises DataError for files that share only some of their ids.
    """
    try:
        return align_models(models), True
    except OtherSamplesError:
        return models, False


def risk_where(curve: RiskCoverageCurve, coverage: float) -> float | None:
    """The risk of the smallest accepted set that has at least this coverage; None if no threshold reaches it."""
    index = int(np.searchsorted(curve.coverage, coverage - 1e-12))
    return float(curve.risk[index]) if index < len(curve.coverage) else None


def short_names(names: Iterable[str], longest: int = 40) -> dict[str, str]:
    """Shorten names to at most `longest` characters so that they still differ.

    The start and the end of a name are kept, and a number is added if that is not enough. The result for a set of
    names does not depend on their order. Returns name -> short name, sorted by name, each name once.

    >>> list(short_names(["a-long-name-for-one", "a-long-name-for-two", "b"], 12).values())
    ['a-long…r-one', 'a-long…r-two', 'b']
    >>> list(short_names(["same start, middle one, same end", "same start, middle two, same end"], 12).values())
    ['same s… end1', 'same s… end2']
    """

    def cut(name: str, suffix: str = "") -> str:
        # the start, "…", the end and the suffix: `longest` characters together
        if len(name) + len(suffix) <= longest:
            return name + suffix
        head = longest // 2
        tail = longest - head - 1 - len(suffix)
        return f"{name[:head]}…{name[len(name) - tail :]}{suffix}"

    shortened = {name: cut(name) for name in sorted(set(names))}
    use_count = Counter(shortened.values())
    last_number: Counter[str] = Counter()  # of the names that are shortened alike
    for name, short in shortened.items():
        if use_count[short] > 1:
            last_number[short] += 1
            shortened[name] = cut(name, suffix=str(last_number[short]))
    return shortened
