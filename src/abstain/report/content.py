"""Everything the page shows, gathered from the library's own functions, and the same as JSON that is safe in a page."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import pairwise
from typing import Any

import numpy as np

import abstain
from abstain import scores
from abstain.core.estimators import Estimator
from abstain.errors import InputError
from abstain.evaluation import Comparison, Evaluation
from abstain.formats import Predictions, Words
from abstain.formats.limits import values_of
from abstain.formats.predictions import along_samples, full_pair
from abstain.inference import CurveBand, Interval, curve_band, interval
from abstain.metrics import RiskCoverageCurve, risk_coverage_curve
from abstain.thresholds import clopper_pearson

_PACKAGES = (
    "numpy", "scipy", "array-api-compat", "click", "rich", "plotly", "pyarrow", "torch", "jax", "scikit-learn",
    "pandas", "polars", "matplotlib", "distributed", "pyspark",
)  # fmt: skip


def versions(*names: str) -> dict[str, str]:
    """Installed versions by package (those given, or all that abstain can use)."""
    found = {"abstain": abstain.__version__, "python": platform.python_version()}
    for name in names or _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if not names:
                found[name] = "not installed"
    return found


# steps --------------------------------------------------------------------------------------------
#
# What the threshold slider shows: for each step the coverage, the risk with its limits, who is accepted.


_STEPS = 400
_CLASSES = 24  # more than these are shown as "all others"
_LOOKS = 4e7  # samples looked at for the limits of a loss that is not 0/1


@dataclass(frozen=True)
class Steps:
    """One entry per step, from the strictest threshold to the one that accepts every answered sample."""

    threshold: list[float]
    shown: list[str]
    coverage: list[float]
    risk: list[float]
    low: list[float | None]
    high: list[float | None]
    accepted: list[int]
    loss: list[float]
    classes: list[str]
    class_totals: list[int]
    by_class: list[list[int]]
    by: str


def steps_of(read: Predictions, loss: np.ndarray, confidence: np.ndarray, score: str, level: float) -> Steps:
    """At every distinct confidence, or at about 400 of them evenly in coverage."""
    own: Any = {"sample_weight": read.weight, "abstained": read.abstained}
    curve = risk_coverage_curve(loss, confidence, **own)
    grid = np.linspace(0, curve.coverage[-1], _STEPS + 1)[1:]
    keep = np.unique(np.minimum(np.searchsorted(curve.coverage, grid - 1e-12), len(curve.coverage) - 1))
    answered = np.ones(len(loss), dtype=bool) if read.abstained is None else ~read.abstained
    order = np.argsort(-confidence[answered], kind="stable")
    count = curve.count[keep]
    losses = np.concatenate([[0.0], np.cumsum(loss[answered][order], dtype=np.float64)])[count]
    low, high = _limits(read, loss[answered][order], confidence[answered][order], count, losses, level)
    classes, totals, by_class, by = _shares(read, answered, order, count)
    threshold = curve.threshold[keep].astype(np.float64)
    return Steps(
        threshold.tolist(), [_shown(score, t) for t in threshold], curve.coverage[keep].tolist(),
        curve.risk[keep].tolist(), low, high, count.tolist(), losses.tolist(), classes, totals, by_class, by,
    )  # fmt: skip


def _shown(score: str, key: float) -> str:
    """The number people know; where that would round to the end of its scale, its distance to it."""
    if score == "confidence" or not scores.by_name(score).saturates:
        return f"{key:.6g}"
    value = float(scores.display(score, key))
    if value < 0.9995 or score != "max_softmax":
        return f"{value:.4g}"
    return f"1 − {np.exp(-key):.2g}" if key < 700 else "1"


def _limits(
    read: Predictions,
    loss: np.ndarray,
    confidence: np.ndarray,
    count: np.ndarray,
    losses: np.ndarray,
    level: float,
) -> tuple[list[float | None], list[float | None]]:
    """Clopper-Pearson for 0/1 losses; the interval of a mean otherwise, as far as that stays quick."""
    if read.weight is None and bool(np.all((loss == 0) | (loss == 1))):
        low, high = clopper_pearson(losses, count, level)
        return low.tolist(), high.tolist()
    if read.weight is not None or float(count.sum()) > _LOOKS:
        return [None] * len(count), [None] * len(count)
    found = [None if k < 10 else interval("risk", loss[:k], confidence[:k], level=level) for k in count]
    return [None if f is None else f.low for f in found], [None if f is None else f.high for f in found]


def _shares(
    read: Predictions, answered: np.ndarray, order: np.ndarray, count: np.ndarray
) -> tuple[list[str], list[int], list[list[int]], str]:
    """How many of each class (or group) are accepted at each step."""
    named = _classes_of(read)
    if named is None:
        return [], [], [], ""
    codes, names, by = named
    totals = np.bincount(codes, minlength=len(names))
    largest = np.argsort(-totals, kind="stable")[:_CLASSES]
    shown = np.sort(largest) if len(names) <= _CLASSES else largest
    place = np.full(len(names), len(shown), dtype=np.int64)
    place[shown] = np.arange(len(shown))
    wide = len(shown) + (len(names) > len(shown))
    ranked = place[codes[answered][order]]
    edges = np.concatenate([[0], count])
    added = [np.bincount(ranked[a:b], minlength=wide) for a, b in pairwise(edges)]
    titles = [names[i] for i in shown] + (["all others"] if wide > len(shown) else [])
    return titles, np.bincount(place[codes], minlength=wide).tolist(), np.cumsum(added, axis=0).tolist(), by


def _classes_of(read: Predictions) -> tuple[np.ndarray, list[str], str] | None:
    """Codes and names: the true class where it is known, the group otherwise."""
    if read.labels is not None:
        labels = read.labels if read.labels.ndim == 1 else read.labels.argmax(axis=1)  # one-hot rows
        values, codes = np.unique(labels, return_inverse=True)
        numbers = [int(v) for v in values]
        inside = bool(read.classes) and min(numbers) >= 0 and max(numbers) < len(read.classes)
        return codes, [read.classes[k] if inside else str(k) for k in numbers], "true class"
    words = read.label_words or (read.groups if isinstance(read.groups, Words) else None)
    by = "true class" if read.label_words is not None else "group"
    if words is not None:
        used, codes = np.unique(words.codes, return_inverse=True)
        return codes, [words.values[int(k)] for k in used], by
    if isinstance(read.groups, np.ndarray):
        values, codes = np.unique(read.groups, return_inverse=True)
        return codes, [f"{v:g}" if values.dtype.kind == "f" else str(v) for v in values.tolist()], "group"
    return None


# content ------------------------------------------------------------------------------------------
#
# Everything the page shows, gathered from the library's own functions; nothing is computed here.


ESTIMATORS: tuple[Estimator, ...] = ("harmonic", "log", "loo", "sele")
_WORK = 5e6  # samples times replicates that a band may cost


@dataclass(frozen=True)
class ModelContent:
    """One model."""

    read: Predictions
    score: str
    loss: str
    zero_one: bool
    curve: RiskCoverageCurve
    band: CurveBand | None
    steps: Steps
    evaluation: Evaluation
    estimators: tuple[tuple[str, Interval], ...]
    distinct: int


@dataclass(frozen=True)
class Content:
    """All models and their comparison."""

    models: tuple[ModelContent, ...]
    comparison: Comparison | None
    level: float
    seed: int
    replicates: int


def gather(
    models: Sequence[Predictions],
    *,
    score: str = "max_softmax",
    loss: str = "zero_one",
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[str], None] = lambda what: None,
) -> Content:
    """Curves with bands, tables, the slider's steps and the ranking of some models."""
    if not models:
        raise InputError("report: needs at least one model.")
    replicates = int(np.clip(_WORK / max(m.n for m in models), 100, 1000))
    found = []
    for read in models:
        progress(read.name)
        with values_of(read.path):
            found.append(_model(read, score, loss, level, seed, replicates))
    progress("comparing")
    return Content(tuple(found), _compared(models, found, score, loss, level), level, seed, replicates)


def _model(
    read: Predictions, score: str, loss: str, level: float, seed: int, replicates: int
) -> ModelContent:
    losses, confidence = full_pair(read, score, loss)
    own: Any = {"sample_weight": read.weight, "abstained": read.abstained}
    curve = risk_coverage_curve(losses, confidence, **own)
    band = None
    if read.n >= 20 and not bool((losses < 0).any()):
        band = curve_band(losses, confidence, level=level, replicates=replicates, rng=seed, progress=False,
                          clusters=read.clusters, **own)  # fmt: skip
    score = "confidence" if read.kind == "confidence" else score
    return ModelContent(
        read=read,
        score=score,
        loss=read.loss_name if read.kind == "confidence" else loss,
        zero_one=bool(np.all((losses == 0) | (losses == 1))),
        curve=curve,
        band=band,
        steps=steps_of(read, losses.astype(np.float64), confidence, score, level),
        evaluation=abstain.evaluate(
            **_arguments(read, score),
            level=level,
            progress=False,
        ),
        estimators=_estimators(read, losses, confidence, level),
        distinct=len(curve.threshold),
    )


def _arguments(read: Predictions, score: str) -> dict[str, Any]:
    given = {name: value for name, value in read.arguments().items() if name != "groups"}
    if read.kind == "confidence":
        return given
    default = ["max_softmax", "softmax_margin", "negative_entropy"] + ["max_logit"] * (read.kind == "logits")
    return given | {"scores": list(dict.fromkeys([score, *default]))}


def _estimators(
    read: Predictions, loss: np.ndarray, confidence: np.ndarray, level: float
) -> tuple[tuple[str, Interval], ...]:
    own: Any = {"sample_weight": read.weight, "abstained": read.abstained, "clusters": read.clusters}
    found = []
    for name in ESTIMATORS:
        try:
            found.append((name, interval("aurc", loss, confidence, level=level, estimator=name, **own)))
        except InputError:  # weights that are no repetitions have one estimator only
            continue
    return tuple(found)


def _compared(
    models: Sequence[Predictions], found: list[ModelContent], score: str, loss: str, level: float
) -> Comparison | None:
    """Models with each other where there are several, the scores of one model otherwise."""
    if len(models) == 1:
        read = models[0]
        if read.kind == "confidence":
            return None
        scores = [name for name in found[0].evaluation.scores if name != "confidence"]
        entries = {name: full_pair(read, name, loss) for name in scores}
        own: Any = {"sample_weight": read.weight, "clusters": read.clusters, "abstained": read.abstained}
        return abstain.compare(entries, level=level, **own)
    entries = {m.name: full_pair(m, score, loss) for m in models}
    paired = same_samples(models)
    columns = {"sample_weight": "weight", "clusters": "clusters", "abstained": "abstained"}
    along: Any = {name: along_samples(models, column) for name, column in columns.items()}
    return abstain.compare(entries, level=level, paired=paired, **along)


def same_samples(models: Sequence[Predictions]) -> bool:
    """One length and, where labels are known, the same labels in the same order."""
    labels = [m.labels for m in models if m.labels is not None]
    alike = all(np.array_equal(labels[0], other) for other in labels[1:])
    return alike and len({m.n for m in models}) == 1


# embedded -----------------------------------------------------------------------------------------
#
# The numbers behind the charts and the slider, as JSON that is safe inside a page.


_POINTS = 600


def embedded(content: Content) -> dict[str, Any]:
    """Plain values for the page's scripts."""
    zero_one = all(m.zero_one for m in content.models)
    noun = "error rate" if zero_one else "mean loss"
    return {
        "level": f"{content.level:.0%}"
        if round(content.level, 2) == content.level
        else f"{content.level:.1%}",
        "zero_one": zero_one,
        "words": {
            "risk": f"selective risk: {noun} of the answered",
            "generalised": f"generalised risk: {'errors' if zero_one else 'loss'} answered, per sample of all",
        },
        "best": _best(content),
        "models": [_model_data(m) for m in content.models],
        "forest": _forest(content),
    }


def _best(content: Content) -> int:
    """The model the slider starts with."""
    names = [m.read.name for m in content.models]
    ranked = content.comparison.names if content.comparison is not None and len(names) > 1 else names
    return names.index(ranked[0])


def _model_data(model: ModelContent) -> dict[str, Any]:
    curve, steps = model.curve, asdict(model.steps)
    grid = np.linspace(curve.coverage[0], curve.coverage[-1], _POINTS)
    keep = np.unique(np.minimum(np.searchsorted(curve.coverage, grid - 1e-12), len(curve.coverage) - 1))
    covered = _short(curve.coverage[keep])
    start = int(np.searchsorted(steps["coverage"], 0.8 * steps["coverage"][-1] - 1e-12))
    views = {"risk": curve.risk[keep], "generalised": curve.generalised_risk[keep]}
    return {
        "name": model.read.name,
        "n": model.read.n,
        "start": min(start, len(steps["coverage"]) - 1),
        "steps": steps,
        **{
            view: {"coverage": covered, "value": _short(values), "band": _band(model, view)}
            for view, values in views.items()
        },
    }


def _band(model: ModelContent, view: str) -> dict[str, Any] | None:
    """Generalised risk is risk times coverage, and so is its band at a fixed coverage."""
    band = model.band
    if band is None:
        return None
    scale = band.coverage if view == "generalised" else np.ones_like(band.coverage)
    some = band.coverage >= model.curve.coverage[0] - 1e-12  # below it no threshold accepts anybody
    values = (band.coverage, band.low * scale, band.high * scale)
    return dict(zip(("coverage", "low", "high"), (_short(v[some]) for v in values)))


def _short(values: np.ndarray) -> list[float]:
    """Six digits are more than a screen shows."""
    return [float(f"{v:.6g}") for v in values.tolist()]


def _forest(content: Content) -> list[dict[str, Any]]:
    rows = []
    for k, model in enumerate(content.models):
        found = model.evaluation
        for score in found.scores:
            entry = found[score, found.losses[0], "aurc"]
            if entry.estimate is None:
                continue
            alone = len(content.models) == 1
            rows.append(
                {
                    "model": model.read.name, "score": score, "colour": k, "first": score == model.score,
                    "label": score if alone else f"{_clipped(model.read.name)} · {score}",
                    "estimate": entry.estimate, "low": entry.low, "high": entry.high,
                }
            )  # fmt: skip
    return rows


def _clipped(name: str, most: int = 28) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def safe_json(data: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever strings it holds.

    >>> safe_json({"name": "</script><script>"})
    '{"name": "\\\\u003c/script\\\\u003e\\\\u003cscript\\\\u003e"}'
    """
    text = json.dumps(_finite(data), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _finite(data: Any) -> Any:
    """What has overflowed is not there: JSON knows no infinity."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
