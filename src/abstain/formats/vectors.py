"""Losses and confidences of a file, for the commands that need one of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from abstain.errors import DataError
from abstain.formats.limits import shown, values_of
from abstain.formats.predictions import Predictions


class Pair(NamedTuple):
    """One loss and one confidence per answered sample, and what goes along them."""

    loss: np.ndarray
    confidence: np.ndarray
    groups: np.ndarray | None
    weight: np.ndarray | None
    left_out: int
    own: bool  # is the confidence a column of the file, rather than a score's rank key?


def pair_of(read: Predictions, score: str, loss: str) -> Pair:
    """By a score and a loss where the file has class scores, its own columns otherwise."""
    own: Any = read.arguments()
    if read.kind == "confidence":
        losses, confidence = read.loss, read.confidence
    else:
        from abstain import losses as known
        from abstain import scores

        with values_of(read.path):
            losses = np.asarray(known.by_name(loss)(read.logits, read.labels, probs=read.probs))
            confidence = np.asarray(scores.by_name(score)(read.logits, probs=read.probs))
    if losses is None or confidence is None:
        raise DataError(f"{shown(read.path)}: has no losses or no confidences.")
    groups, weight = own.get("groups"), read.weight
    if read.abstained is None or not read.abstained.any():
        return Pair(losses, confidence, groups, weight, 0, read.kind == "confidence")
    kept = ~read.abstained
    if not kept.any():
        raise DataError(f"{shown(read.path)}: every sample has abstained; nothing is left to measure.")
    return Pair(
        losses[kept],
        confidence[kept],
        None if groups is None else groups[kept],
        None if weight is None else weight[kept],
        int((~kept).sum()),
        read.kind == "confidence",
    )


def full_pair(read: Predictions, score: str, loss: str) -> tuple[np.ndarray, np.ndarray]:
    """Loss and confidence of every sample, abstained ones included (to be passed on with their mask)."""
    pair = pair_of(replace(read, abstained=None), score, loss)
    return pair.loss, pair.confidence


def along_samples(models: Sequence[Predictions], column: str) -> dict[str, np.ndarray] | None:
    """A column of all models by name, as `compare` takes it; None when nobody has it."""
    given = {m.name: getattr(m, column) for m in models}
    if all(values is None for values in given.values()):
        return None
    makers: dict[str, Callable[[int], np.ndarray]] = {
        "weight": np.ones,
        "abstained": lambda n: np.zeros(n, dtype=bool),
        "clusters": np.arange,
    }
    plain = makers[column]
    return {m.name: plain(m.n) if given[m.name] is None else given[m.name] for m in models}
