"""What the threshold slider shows: for each step the coverage, the risk with its limits, who is accepted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from abstain import scores
from abstain.formats import Predictions, Words
from abstain.inference import interval
from abstain.metrics import risk_coverage_curve
from abstain.thresholds import clopper_pearson

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
