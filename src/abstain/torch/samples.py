"""From predictions and targets to what every metric reads: a loss and a confidence per sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from abstain import losses, scores
from abstain._arrays import Array
from abstain._check import check_choice
from abstain.errors import DtypeError, InputError, ShapeError

INPUTS = ("logits", "probs")
_AT_ONCE = 1 << 25  # class scores worked on at a time: bounds the scratch memory of large images


class Reader:
    """How one metric turns `(preds, target, confidence)` into losses and confidences."""

    def __init__(self, name: str, loss: Any, score: Any, input: str, ignore_index: int | None) -> None:  # noqa: A002
        check_choice(name, "input", input, INPUTS)
        self.name, self.input, self.ignore_index = name, input, ignore_index
        self.loss = losses.by_name(loss)
        self.score = scores.by_name(score)
        if input not in self.score.takes:
            raise InputError(
                f'{name}: score="{self.score.name}" needs {self.score.takes[0]}, got input="{input}". '
                f'Pass the model\'s logits, or use score="max_softmax".'
            )

    @property
    def zero_one(self) -> bool:
        """Are the losses 0 or 1?"""
        return self.loss.name in ("zero_one", "top_k")

    def pieces(self, preds: Array, target: Array, confidence: Array | None) -> Iterator[tuple[Array, Array]]:
        """Losses and confidences of a batch, a bounded number of samples at a time; ignored targets left out."""
        self._check(preds, target, confidence)
        labels = not preds.is_floating_point()
        classes = 1 if labels else preds.shape[1]
        if not labels:
            preds = preds.detach().movedim(1, -1).flatten(0, -2)
        preds = preds.reshape(-1) if labels else preds
        target, confidence = (
            target.reshape(-1),
            None if confidence is None else confidence.detach().reshape(-1),
        )
        step = max(1, _AT_ONCE // classes)
        for a in range(0, target.shape[0], step):
            part = slice(a, a + step)
            yield self._read(preds[part], target[part], None if confidence is None else confidence[part])

    def _read(self, preds: Array, target: Array, confidence: Array | None) -> tuple[Array, Array]:
        if self.ignore_index is not None:
            kept = target != self.ignore_index
            preds, target = preds[kept], target[kept]
            confidence = None if confidence is None else confidence[kept]
        if target.shape[0] == 0:
            return target.new_zeros(0, dtype=self.loss_dtype(preds)), target.new_zeros(0, dtype=torch.float64)
        if not preds.is_floating_point():
            return (preds != target).to(torch.uint8), _rankable(confidence)
        given = {"logits": preds} if self.input == "logits" else {"probs": preds}
        loss = self.loss(given.get("logits"), target, probs=given.get("probs"))
        loss = loss.to(torch.uint8) if loss.dtype is torch.bool else loss.detach()
        key = self._scored(**given) if confidence is None else _rankable(confidence)
        return loss, key

    def _scored(self, logits: Array | None = None, probs: Array | None = None) -> Array:
        key: Array = self.score(logits, probs=probs) if logits is not None else self.score(probs=probs)
        return key

    def loss_dtype(self, preds: Array) -> torch.dtype:
        """What losses are kept in."""
        return torch.uint8 if self.zero_one else torch.float64

    def _check(self, preds: Array, target: Array, confidence: Array | None) -> None:
        if preds.is_floating_point():
            expected = preds.shape[:1] + preds.shape[2:]
            if preds.ndim < 2 or target.shape != expected:
                raise ShapeError(
                    f"{self.name}: `preds` must have shape (N, C, ...) and `target` (N, ...), got "
                    f"{tuple(preds.shape)} and {tuple(target.shape)}. Classes are axis 1."
                )
        elif confidence is None or not self.zero_one:
            raise DtypeError(
                f"{self.name}: `preds` of class numbers ({preds.dtype}) carry no confidence: pass `confidence=` "
                f'with loss="zero_one", or pass {self.input} of shape (N, C, ...).'
            )
        elif preds.shape != target.shape:
            raise ShapeError(
                f"{self.name}: `preds` and `target` must have one shape, got {tuple(preds.shape)} and "
                f"{tuple(target.shape)}."
            )
        if confidence is not None and confidence.shape != target.shape:
            raise ShapeError(
                f"{self.name}: `confidence` must have the shape of `target`, one number per sample (higher = "
                f"surer), got {tuple(confidence.shape)} and {tuple(target.shape)}."
            )


def _rankable(confidence: Array | None) -> Array:
    """A given confidence as it is; half precision as float32, which holds it exactly; whole numbers as float64."""
    assert confidence is not None
    if confidence.dtype in (torch.float32, torch.float64):
        return confidence
    return confidence.float() if confidence.is_floating_point() else confidence.double()
