"""From what the user stated (logits, probabilities, or losses and confidences) to named vectors on the
host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from abstain import losses as loss_module
from abstain import scores as score_module
from abstain._arrays import Array
from abstain.errors import InputError, ShapeError
from abstain.inference._units import on_host

LOGIT_SCORES = ("max_softmax", "softmax_margin", "negative_entropy", "max_logit")
_MAY_BE_RULED_OUT = ("cross_entropy", "top_k")  # a label of probability 0; fewer than k classes
DEFAULT_LOSSES = ("zero_one", "cross_entropy")
_ROUNDS_TO_ONE = 24 * np.log(2)  # above this key 1 + s is 1 in float32, and so is the softmax


class Vectors(NamedTuple):
    """Losses and confidences by name, all of one length, and what a reader should know of them."""

    losses: dict[str, np.ndarray]
    scores: dict[str, np.ndarray]
    notes: list[str]

    @property
    def n(self) -> int:
        """Samples."""
        return len(next(iter(self.scores.values())))


def named(name: str, argument: str, values: Any, default: str) -> dict[str, np.ndarray]:
    """A vector, or several by name, on the host and flat."""
    given = values if isinstance(values, Mapping) else {default: values}
    return {str(k): np.asarray(on_host(v)).reshape(-1) for k, v in given.items()}


def gather(
    name: str,
    logits: Array | None,
    labels: Array | None,
    probs: Array | None,
    loss: Any,
    confidence: Any,
    scores: Any,
    losses: Any,
) -> Vectors:
    """Losses and scores of one model, or the user's own, or both beside each other."""
    if logits is not None and probs is not None:
        raise InputError(f"{name}: takes logits or `probs=`, one of them, got both.")
    own_losses = {} if loss is None else named(name, "loss", loss, "loss")
    own_scores = {} if confidence is None else named(name, "confidence", confidence, "confidence")
    notes: list[str] = []
    if logits is None and probs is None:
        if not own_losses or not own_scores:
            raise InputError(
                f"{name}: needs logits and labels, `probs=` and labels, or `loss=` and `confidence=`."
            )
        if scores is not None or losses is not None:
            raise InputError(f"{name}: `scores=` and `losses=` read logits or probabilities, got none.")
    else:
        own_scores = {**score_vectors(logits, probs, scores), **own_scores}
        if labels is None and not own_losses:
            raise InputError(f"{name}: needs `labels` beside logits or probabilities (or your own `loss=`).")
        if labels is not None:
            own_losses = {**loss_vectors(logits, probs, labels, losses, notes), **own_losses}
        notes += _saturation_note(logits, probs)
    _same_length(name, own_losses, own_scores)
    return Vectors(own_losses, own_scores, notes)


def listed(wanted: Any, default: Sequence[Any], everything: Sequence[Any]) -> list[Any]:
    """The names asked for: none means the default, "all" everything, one may stand alone."""
    if wanted is None:
        return list(default)
    if isinstance(wanted, str):
        return list(everything) if wanted == "all" else [wanted]
    return list(wanted) if isinstance(wanted, Sequence) else [wanted]


def score_vectors(logits: Array | None, probs: Array | None, scores: Any) -> dict[str, np.ndarray]:
    """Confidences of one model, by name."""
    kind = "probs" if logits is None else "logits"
    allowed = [s for s in score_module.NAMES if kind in score_module.by_name(s).takes]
    found: dict[str, np.ndarray] = {}
    for wanted in listed(scores, [s for s in LOGIT_SCORES if s in allowed], allowed):
        score = score_module.by_name(wanted)
        found[score.name] = np.asarray(on_host(score(logits, probs=probs))).reshape(-1)
    return found


def loss_vectors(
    logits: Array | None, probs: Array | None, labels: Array, losses: Any, notes: list[str]
) -> dict[str, np.ndarray]:
    """Losses of one model, by name. One not asked for by name that this data rules out is noted and left out."""
    by_choice = losses is not None and losses != "all"
    found: dict[str, np.ndarray] = {}
    for wanted in listed(losses, DEFAULT_LOSSES, loss_module.NAMES):
        loss = loss_module.by_name(wanted)
        try:
            values = loss(logits, labels, probs=probs)
        except InputError as problem:
            if by_choice or loss.name not in _MAY_BE_RULED_OUT or not found:
                raise
            notes.append(f"{loss.name} left out: {problem}")
            continue
        found[loss.name] = np.asarray(on_host(values)).reshape(-1)
    return found


def _saturation_note(logits: Array | None, probs: Array | None) -> list[str]:
    if probs is not None:
        found = score_module.saturation(probs=probs)
        return [found.sentence] if found.tied > 1 else []
    key = np.asarray(on_host(score_module.max_softmax(logits)))
    count = int(np.count_nonzero(key > _ROUNDS_TO_ONE))
    if count < 2:
        return []
    share = count / key.size
    return [
        f"{count:,} samples ({share:.1%}) have a softmax of exactly 1.0 in float32; ranked here by the "
        f"logits, they do not tie."
    ]


def _same_length(name: str, losses: dict[str, np.ndarray], scores: dict[str, np.ndarray]) -> None:
    lengths = {k: len(v) for k, v in {**losses, **scores}.items()}
    if len(set(lengths.values())) != 1:
        told = ", ".join(f"{k} {v}" for k, v in lengths.items())
        raise ShapeError(f"{name}: losses and confidences must be of one length, got {told}.")
    if 0 in lengths.values():
        raise InputError(f"{name}: needs at least one sample, got none.")
