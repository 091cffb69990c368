"""Everything the page shows, gathered from the library's own functions; nothing is computed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import abstain
from abstain.core.estimators import Estimator
from abstain.errors import InputError
from abstain.evaluation import Comparison, Evaluation
from abstain.formats import Predictions
from abstain.formats.limits import values_of
from abstain.formats.vectors import along_samples, full_pair
from abstain.inference import CurveBand, Interval, curve_band, interval
from abstain.metrics import RiskCoverageCurve, risk_coverage_curve
from abstain.report.steps import Steps, steps_of

ESTIMATORS: tuple[Estimator, ...] = ("harmonic", "log", "loo", "sele")
REPLICATES = 200  # of the bootstrap, for metrics without an influence function
_FEW = 200_000  # samples above which those metrics come without an interval
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
            rng=seed,
            replicates=REPLICATES if read.n <= _FEW else 0,
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
