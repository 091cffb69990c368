"""Everything the page shows, gathered from the library's own functions, and the same as JSON that is safe in a page."""

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
from abstain.core.area_estimators import Estimator
from abstain.core.sorting import is_zero_one
from abstain.errors import AbstainError, DataError, InputError
from abstain.evaluation import Comparison, Evaluation
from abstain.evaluation.chance import chance_warnings
from abstain.evaluation.results import GROUPS_SHOWN, worst_first
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
_SCORES = ("max_softmax", "softmax_margin", "negative_entropy", "max_logit")  # the last reads logits only
_WORK = 5e6  # samples times replicates that a band may cost
_STEPS = 400  # of the slider; all models together have four times as many at most
_POINTS = 600  # of a curve
_LOOKS = 4e7  # samples looked at for the limits of a loss that is not 0/1
Samples = tuple[np.ndarray, np.ndarray]  # losses and confidences
_PACKAGES = ["numpy", "scipy", "array-api-compat", "click", "rich", "pyarrow", "torch", "jax", "scikit-learn"]
_PACKAGES += ["pandas", "polars", "matplotlib", "distributed", "pyspark"]


def versions(*names: str) -> dict[str, str]:
    """Installed versions by package.

    Parameters
    ----------
    *names : str
        Packages; by default all that abstain can use, "not installed" among them.

    Returns
    -------
    dict of str to str
        abstain and python first.

    Examples
    --------
    >>> list(versions("numpy"))
    ['abstain', 'python', 'numpy']
    """
    found = {"abstain": abstain.__version__, "python": platform.python_version()}
    for name in names or _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if not names:
                found[name] = "not installed"
    return found


@dataclass(frozen=True)
class Slider:
    """What the threshold slider shows: one entry per step, from the strictest threshold to the one that accepts
    every answered sample."""

    threshold: list[float]
    shown: list[str]
    coverage: list[float]
    risk: list[float]
    low: list[float | None]
    high: list[float | None]
    accepted: list[int]
    loss: list[float]
    parts: list[Breakdown]


@dataclass(frozen=True)
class Breakdown:
    """Who is answered: at each step the classes (or groups) of the largest error rates, and the others together.

    `listed` holds places in `names`, the worst first by the lower limit of the error rate. The fields below it stand
    in the same order; `unlisted` adds up what is not listed at that step: samples, accepted, loss, error rate.
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


@dataclass(frozen=True)
class ModelContent:
    """One model."""

    read: Predictions
    score: str
    loss: str
    zero_one: bool
    curve: RiskCoverageCurve
    band: CurveBand | None
    steps: Slider
    evaluation: Evaluation
    estimators: tuple[tuple[str, Interval], ...]
    clinical: ClinicalTable | None  # of two classes, the second looked for
    best: dict[tuple[str, str], str]  # by loss and metric, the score that a test tells apart from all others


@dataclass(frozen=True)
class Content:
    """All that a page shows; `gather` makes it.

    Parameters
    ----------
    models : tuple of ModelContent
        Curve, band, slider and tables of each model.
    comparison : Comparison or None
        Of the models, or of the scores of a single one; None where there is nothing to compare.
    level : float
        Of the intervals.
    rng : int
        Seed of the bands' bootstrap.
    replicates : int
        Of the curves' bands.
    notes : tuple of str
        How the files were read: what refusals count as, which models are not ranked.

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
    level: float = 0.95,
    rng: int = 0,
    progress: Callable[[str], None] = lambda what: None,
) -> Content:
    """Curves with bands, tables, the slider's steps and the ranking of some models.

    Parameters
    ----------
    models : sequence of Predictions
        What `abstain.formats.read_predictions` gave, one per model.
    score, loss : str
        The confidence and the loss of the curves, where there are class scores.
    level : float
        Of intervals and bands.
    rng : int
        Seed of the bands' bootstrap.
    progress : callable
        Called with the name of each model before work on it begins, and once before the comparison.

    Returns
    -------
    Content

    Examples
    --------
    >>> from abstain.formats import Predictions
    >>> read = Predictions("mine", "t.csv", "csv", 4, loss=np.array([0.0, 1.0, 0.0, 0.0]),
    ...                    confidence=np.array([0.9, 0.5, 0.7, 0.6]), loss_name="zero_one")
    >>> model = gather([read]).models[0]
    >>> model.steps.coverage, model.steps.risk[-1]
    ([0.25, 0.5, 0.75, 1.0], 0.25)
    """
    if not models:
        raise InputError("report: needs at least one model.")
    replicates = int(np.clip(_WORK / max(m.n for m in models), 100, 1000))
    models, paired = in_one_order(models)
    found = []
    for read in models:
        progress(read.name)
        with naming_file(read.path):
            steps = min(_STEPS, 4 * _STEPS // len(models))
            found.append(_model(read, score, loss, level, rng, replicates, steps))
    progress("comparing")
    ranked = _compared(models, found, score, loss, level, paired=paired)
    notes = tuple(
        f"{m.read.name}: {note}" if len(found) > 1 else note
        for m in found
        for note in chance_warnings(m.evaluation.notes)
    )
    return Content(tuple(found), ranked, level, rng, replicates, notes=notes)


def _model(
    read: Predictions, score: str, loss: str, level: float, rng: int, replicates: int, steps: int
) -> ModelContent:
    losses, confidence = read.samples(score, loss)
    own: Any = {"sample_weight": read.sample_weight, "abstained": read.abstained}
    curve = risk_coverage_curve(losses, confidence, **own)
    own["clusters"] = read.clusters
    band = None
    if read.n >= 20 and not bool((losses < 0).any()):
        how: Any = {"level": level, "replicates": replicates, "rng": rng, "progress": False}
        band = curve_band(losses, confidence, **how, **own)
    given = {name: value for name, value in read.arguments().items() if name != "groups"}
    if read.kind == "confidence":
        score, loss = next(iter(read.signals), "confidence"), read.loss_name
    else:
        usual = _SCORES if read.kind == "logits" else _SCORES[:-1]
        given["scores"] = list(dict.fromkeys([score, *usual]))
    estimators = []
    for name in ESTIMATORS:
        try:
            found = interval("aurc", losses, confidence, level=level, estimator=name, **own)
        except InputError:  # weights that are no repetitions have one estimator only
            continue
        estimators.append((name, found))
    evaluation = abstain.evaluate(**given, level=level, progress=False)
    return ModelContent(
        read=read,
        score=score,
        loss=loss,
        zero_one=is_zero_one(losses),
        curve=curve,
        band=band,
        steps=_slider(read, curve, (losses.astype(np.float64), confidence), score, level, steps),
        evaluation=evaluation,
        estimators=tuple(estimators),
        clinical=_clinical(read, score, level),
        best=_told_apart(read, evaluation, level),
    )


def _clinical(read: Predictions, score: str, level: float) -> ClinicalTable | None:
    """None for more than two classes, where answers are not known, and where samples have weights."""
    try:
        labels = read.answered().answers()[0]
    except DataError:
        return None
    classes = read.classes or np.unique(labels).tolist()
    if len(classes) != 2 or labels.ndim > 1 or read.sample_weight is not None:
        return None
    return clinical_of(read, score, classes[1], level)


def clinical_of(read: Predictions, score: str, positive: Any, level: float) -> ClinicalTable:
    """Among the accepted, at coverages of the answered; a refused case is never accepted and kept in every share."""
    labels = read.answers()[0]
    known = labels == labels if labels.dtype.kind == "f" else labels != ""  # a refused case may have no label
    read = read if known.all() else read.rows(np.flatnonzero(known))
    labels, said = read.answers()
    confidence = read.samples(score, "zero_one")[1].astype(np.float64)
    at = None
    if read.abstained is not None and read.abstained.any():
        some = ~read.abstained
        given = (x[some] for x in (labels, said, confidence))
        at = clinical_table(*given, positive=positive, level=level).threshold
        confidence = np.where(some, confidence, np.nextafter(confidence[some].min(), -np.inf))
    found = clinical_table(labels, said, confidence, positive=positive, thresholds=at, level=level)
    if read.kind == "confidence":
        return found
    return replace(found, threshold=np.asarray(scores.display(score, found.threshold)))  # which people know


def _told_apart(read: Predictions, found: Evaluation, level: float) -> dict[tuple[str, str], str]:
    """Where one score is better than every other of the same model, by a paired test."""
    smooth = [name for name in found.metrics if by_name(name).is_smooth]
    best: dict[tuple[str, str], str] = {}
    if len(found.scores) < 2 or read.n * len(found.scores) * len(smooth) * len(found.losses) > _LOOKS:
        return best
    more = comparison_arguments([replace(read, name=score) for score in found.scores])
    for loss in found.losses:
        entries = {score: read.samples(score, loss) for score in found.scores}
        for metric in smooth:
            try:
                ranked = abstain.compare(entries, metric=metric, level=level, **more)
            except AbstainError:  # undefined for this loss, or where all are right
                continue
            if len(ranked.winners) == 1:
                best[loss, metric] = ranked.winners[0]
    return best


def _compared(
    models: Sequence[Predictions],
    found: list[ModelContent],
    score: str,
    loss: str,
    level: float,
    *,
    paired: bool,
) -> Comparison | None:
    """Models with each other where there are several, the scores of one model otherwise."""
    by = [(model, score) for model in models]
    if len(models) == 1:
        by = [(replace(models[0], name=name), name) for name in found[0].evaluation.scores]
    if len(by) < 2:
        return None
    entries = {model.name: model.samples(score, loss) for model, score in by}
    rivals = [model for model, _ in by]
    return abstain.compare(entries, level=level, paired=paired, **comparison_arguments(rivals))


def in_one_order(models: Sequence[Predictions]) -> tuple[Sequence[Predictions], bool]:
    """The models in one order, and True; as they are, and False, where their files hold different samples.

    Files that share only some of their ids are neither: that is an error.
    """
    try:
        return align_models(models), True
    except OtherSamplesError:
        return models, False


# the slider


def risk_where(curve: RiskCoverageCurve, coverage: float) -> float | None:
    """The risk of the smallest set of that coverage; None where too many abstain for one."""
    at = int(np.searchsorted(curve.coverage, coverage - 1e-12))
    return float(curve.risk[at]) if at < len(curve.coverage) else None


def _spaced(curve: RiskCoverageCurve, low: float, points: int) -> np.ndarray:
    """Places on a curve about evenly apart in coverage, each the first that reaches its share."""
    grid = np.linspace(low, curve.coverage[-1], points)
    return np.unique(np.minimum(np.searchsorted(curve.coverage, grid - 1e-12), len(curve.coverage) - 1))


def _slider(
    read: Predictions, curve: RiskCoverageCurve, samples: Samples, score: str, level: float, steps: int
) -> Slider:
    """At every distinct confidence, or at about so many of them evenly in coverage."""
    loss, confidence = samples
    places = _spaced(curve, curve.coverage[-1] / steps, steps)
    answered = np.flatnonzero(np.ones(len(loss), dtype=bool) if read.abstained is None else ~read.abstained)
    order = answered[np.argsort(-confidence[answered], kind="stable")]
    count, threshold = curve.count[places], curve.threshold[places].astype(np.float64)
    lost = np.append(0.0, np.cumsum(loss[order]))[count]
    limits = _limits(read, (loss[order], confidence[order]), count, lost, level)
    columns = {"threshold": threshold, "coverage": curve.coverage[places], "risk": curve.risk[places]}
    columns |= {"low": limits[0], "high": limits[1], "accepted": count, "loss": lost}
    shown = [f"{t:.6g}" if read.kind == "confidence" else _shown(score, t) for t in threshold]
    weight = np.ones(len(loss)) if read.sample_weight is None else read.sample_weight.astype(np.float64)
    parts = [_breakdown(p, order, loss, weight, count, level) for p in _partitions(read)]
    return Slider(**{name: x.tolist() for name, x in columns.items()}, shown=shown, parts=parts)


def _shown(score: str, key: float) -> str:
    """The number people know; where that would round to the end of its scale, its distance to it."""
    if not scores.by_name(score).saturates:
        return f"{key:.6g}"
    value = float(scores.display(score, key))
    if value < 0.9995 or score != "max_softmax":
        return f"{value:.4g}"
    return f"1 − {np.exp(-key):.2g}" if key < 700 else "1"


def _limits(
    read: Predictions, samples: Samples, count: np.ndarray, lost: np.ndarray, level: float
) -> np.ndarray:
    """Clopper-Pearson for 0/1 losses; the interval of a mean otherwise, as far as that stays quick; else None."""
    loss, confidence = samples
    if read.sample_weight is None and is_zero_one(loss):
        return np.asarray(clopper_pearson(lost, count, level))
    found = np.full((2, len(count)), None)
    if read.sample_weight is None and float(count.sum()) <= _LOOKS:
        for j in np.flatnonzero(count >= 10):
            own = interval("risk", loss[: count[j]], confidence[: count[j]], level=level)
            found[:, j] = own.low, own.high
    return found


class Partition(NamedTuple):
    """A class or group of each sample: its code, the name of each code, and what they are."""

    codes: np.ndarray
    names: list[str]
    by: str


def _breakdown(
    partition: Partition,
    order: np.ndarray,
    loss: np.ndarray,
    weight: np.ndarray,
    count: np.ndarray,
    level: float,
) -> Breakdown:
    """At each step the worst classes (or groups) by the lower limit of their error rate."""
    groups = len(partition.names)
    codes = partition.codes
    columns = (
        np.ones(len(loss)),
        loss,
        weight,
        weight * loss,
        weight**2,
        (weight**2) * loss,
        (weight * loss) ** 2,
    )
    sums = np.zeros((len(columns), groups))
    cost = (
        float(loss.max()) if is_zero_one(loss / (loss.max() or 1.0)) else None
    )  # of an error, where all cost the same
    scale = Scale("normal" if bool((loss < 0).any()) else "log")
    sizes = np.bincount(codes, minlength=groups)
    listed: list[np.ndarray] = []
    numbers: dict[str, list[Any]] = {
        name: [] for name in ("accepted", "loss", "risk", "low", "high", "unlisted")
    }
    for start, end in pairwise([0, *count]):
        accepted = order[start:end]
        for total, values in zip(sums, columns):
            total += np.bincount(codes[accepted], values[accepted], groups)
        risk, low, high = _group_risks(sums, cost, scale, level)
        worst = worst_first(risk, low, high, lower_is_better=True)
        worst_listed = worst[:GROUPS_SHOWN]
        unlisted = worst[GROUPS_SHOWN:]
        unlisted_mass = float(sums[2, unlisted].sum())
        unlisted_risk = float(sums[3, unlisted].sum()) / unlisted_mass if unlisted_mass else None
        listed.append(worst_listed)
        numbers["accepted"].append(sums[0, worst_listed].astype(int).tolist())
        numbers["loss"].append(_short(sums[1, worst_listed]))
        numbers["risk"].append(_known(risk[worst_listed]))
        numbers["low"].append(_known(low[worst_listed]))
        numbers["high"].append(_known(high[worst_listed]))
        numbers["unlisted"].append(
            (
                int(sizes[unlisted].sum()),
                int(sums[0, unlisted].sum()),
                float(sums[1, unlisted].sum()),
                unlisted_risk,
            )
        )
    ever_listed = np.unique(listed)
    return Breakdown(
        by=partition.by,
        groups=groups,
        names=[partition.names[i] for i in ever_listed],
        totals=sizes[ever_listed].tolist(),
        listed=[np.searchsorted(ever_listed, worst_listed).tolist() for worst_listed in listed],
        **numbers,
    )


def _error_cost(loss: np.ndarray) -> float | None:
    """What an error costs, where all cost the same; None for any other loss."""
    largest = float(loss.max())
    if largest == 0:
        largest = 1.0
    return largest if largest > 0 and is_zero_one(loss / largest) else None


def _group_risks(
    sums: np.ndarray, cost: float | None, scale: Scale, level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean loss of each group with its limits, each on its own; nan where nobody is accepted.

    Errors of one cost have the exact limits of a proportion (weights by as many equal draws). Other losses have
    Student's, and none where they do not vary: two equal losses are no proof of a bad group.
    """
    mass, lost, square = sums[2:5]
    accepted_any = mass > 0
    risk, low, high = np.full((3, len(mass)), np.nan)
    mean = lost[accepted_any] / mass[accepted_any]
    draws = mass[accepted_any] ** 2 / square[accepted_any]
    risk[accepted_any] = mean
    if cost is not None:
        share = mean / cost if cost else mean
        (errors, trials), place = np.unique([share * draws, draws], axis=1, return_inverse=True)
        limits = (cost or 1.0) * np.asarray(
            clopper_pearson(errors, trials, level)
        )  # many groups share theirs
        low[accepted_any], high[accepted_any] = limits[:, place.reshape(-1)]
        return risk, low, high
    in_group = sums[2:, accepted_any]
    spread = in_group[4] - 2 * mean * in_group[3] + mean**2 * in_group[2]
    varies = spread > 1e-12 * in_group[4]  # more than rounding
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        variance = np.where(varies, spread, np.nan) / in_group[0] ** 2 * draws / (draws - 1)
        step = student_quantile(draws - 1, level) * np.sqrt(variance) * scale.rate(mean)
        low[accepted_any], high[accepted_any] = scale.shifted(mean, np.stack([-step, step]))
    return risk, low, high


def _partitions(read: Predictions) -> list[Partition]:
    """Codes and names: the groups where there are any, and the true class where it is known."""
    labels = read.labels
    if labels is not None and labels.ndim > 1:
        labels = labels.argmax(axis=1)  # one-hot rows
    found = []
    classes = labels if labels is not None else read.label_words
    for values, by in ((read.groups, "group"), (classes, "true class")):
        if values is None:
            continue
        used, codes = np.unique(values.codes if isinstance(values, Words) else values, return_inverse=True)
        if isinstance(values, Words):
            names = [values.values[int(k)] for k in used]
        elif by == "group":
            names = list(map(_title, used.tolist()))
        else:
            inside = bool(read.classes) and used[0] >= 0 and used[-1] < len(read.classes)
            names = [read.classes[int(k)] if inside else _title(k) for k in used.tolist()]
        found.append(Partition(codes.reshape(-1), names, by))
    return found


def _title(value: Any) -> str:
    """A number as people write it: every digit, since 1234567 and 1234568 are two sites."""
    return "none" if value != value else str(value).removesuffix(".0")


def short_names(names: Iterable[str], longest: int = 40) -> dict[str, str]:
    """Names cut to so many letters that still differ: the end is kept too, and a number added where that is the same.

    The same set of names is cut in the same way whatever its order.

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
    """Plain values for the page's scripts."""
    zero_one = all(m.zero_one for m in content.models)
    noun = "error rate" if zero_one else "mean loss"
    names = [m.read.name for m in content.models]
    ranked = content.comparison.names if content.comparison is not None and len(names) > 1 else names
    whole = round(content.level, 2) == content.level
    return {
        "level": f"{content.level:.0%}" if whole else f"{content.level:.1%}",
        "zero_one": zero_one,
        "words": {
            "risk": f"selective risk: {noun} of the answered",
            "generalised": f"generalised risk: {'errors' if zero_one else 'loss'} answered, per sample of all",
        },
        "best": names.index(ranked[0]),  # the model the slider starts with
        "models": [_model_data(m, short_names(names)[m.read.name]) for m in content.models],
        "forest": _forest(content),
    }


def _model_data(model: ModelContent, short: str) -> dict[str, Any]:
    curve, steps = model.curve, asdict(model.steps)
    places = _spaced(curve, curve.coverage[0], _POINTS)
    start = int(np.searchsorted(steps["coverage"], 0.8 * steps["coverage"][-1] - 1e-12))
    data = {"name": model.read.name, "short": short, "n": model.read.n, "steps": steps}
    data["start"] = min(start, len(steps["coverage"]) - 1)
    for view, values in (("risk", curve.risk), ("generalised", curve.generalised_risk)):
        line = {"coverage": _short(curve.coverage[places]), "value": _short(values[places])}
        data[view] = line | {"band": _band(model, view)}
    return data


def _band(model: ModelContent, view: str) -> dict[str, Any] | None:
    """Generalised risk is risk times coverage, and so is its band at a fixed coverage."""
    band = model.band
    if band is None:
        return None
    scale = band.coverage if view == "generalised" else np.ones_like(band.coverage)
    some = band.coverage >= model.curve.coverage[0] - 1e-12  # below it no threshold accepts anybody
    values = {"coverage": band.coverage, "low": band.low * scale, "high": band.high * scale}
    return {name: _short(v[some]) for name, v in values.items()}


def _known(values: np.ndarray) -> list[float | None]:
    """Four digits, None for nan: JSON has none."""
    return [float(f"{v:.4g}") if np.isfinite(v) else None for v in values.tolist()]


def _short(values: np.ndarray) -> list[float]:
    """Six digits are more than a screen shows."""
    return [float(f"{v:.6g}") for v in values.tolist()]


def _forest(content: Content) -> list[dict[str, Any]]:
    """AURC of every model by each of its scores."""
    rows = []
    for k, model in enumerate(content.models):
        table = model.evaluation
        for score in table.scores:
            entry = table[score, table.losses[0], "aurc"]
            if entry.estimate is None:
                continue
            row = {"model": model.read.name, "score": score, "colour": k, "first": score == model.score}
            rows.append(row | {end: getattr(entry, end) for end in ("estimate", "low", "high")})
    return rows
