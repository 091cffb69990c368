"""A learned confidence of logits as a module: the same numbers as in numpy, on any device."""

from __future__ import annotations

import torch

from abstain.confidence import LearnedConfidence
from abstain.confidence.logit_features import features_of_rows
from abstain.errors import InputError


class ConfidenceHead(torch.nn.Module):  # type: ignore[misc]
    """Computes a confidence that `abstain.learn_confidence` learned from logits, inside a network.

    Its weights are buffers: they move with the module and are not trained.

    Parameters
    ----------
    learned : LearnedConfidence
        Learned from logits alone: "logits", "class offsets", a temperature or max softmax was kept.

    Raises
    ------
    InputError
        If the confidence reads signals, features or categories, or was learned from probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> import abstain
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(2000, 3)) * [3.0, 1.0, 1.0]
    >>> right = rng.random(2000) < np.where(logits.argmax(1) == 0, 0.95, 0.5)
    >>> learned = abstain.learn_confidence(right, logits=logits)
    >>> head = ConfidenceHead(learned)
    >>> confidence = head(torch.tensor(logits))
    >>> bool(np.allclose(confidence.numpy(), learned(logits=logits), atol=1e-6))
    True
    """

    slopes: torch.Tensor
    constant: torch.Tensor

    def __init__(self, learned: LearnedConfidence) -> None:
        super().__init__()
        if learned.inputs != ("logits",):
            raise InputError(
                f"ConfidenceHead: the confidence must be learned from logits alone, got {', '.join(learned.inputs)}."
            )
        self.class_count = learned.model.profile.class_count
        self.fingerprint = learned.fingerprint
        self.temperature = 1.0
        linear = learned.model.linear
        single = learned.model.single
        self.has_features = False
        self.has_classes = False
        slopes = torch.zeros(0, dtype=torch.float64)
        constant = 0.0
        if linear is not None:
            self.has_features = linear.with_logits
            self.has_classes = linear.with_classes
            slopes = torch.as_tensor(linear.weights / linear.scale, dtype=torch.float64)
            constant = float(linear.intercept - (linear.weights / linear.scale) @ linear.centre)
        elif single is not None and single.score == "max_softmax":
            self.temperature = 1.0 if single.parameter is None else float(single.parameter)
        else:
            raise InputError(
                f"ConfidenceHead: the confidence must be a model of logits or max softmax, got {learned.kept!r}."
            )
        self.is_linear = linear is not None
        self.register_buffer("slopes", slopes)
        self.register_buffer("constant", torch.tensor(constant, dtype=torch.float64))

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        """Return one confidence per row of logits, shape (n, K), higher = surer, in double precision.

        Raises InputError if the number of classes is not that of learning.
        """
        if logits.ndim != 2 or logits.shape[1] != self.class_count:
            raise InputError(
                f"ConfidenceHead: `logits` must have shape (n, {self.class_count}), got {tuple(logits.shape)}."
            )
        rows = logits.double()
        if not self.is_linear:
            return _max_softmax_key(rows / self.temperature)
        columns = []
        if self.has_features:
            columns.append(features_of_rows(torch, rows, has_size=True))
        if self.has_classes:
            predicted = rows.argmax(1)
            columns.append(torch.nn.functional.one_hot(predicted, logits.shape[1]).double())
        return self.constant + torch.cat(columns, 1) @ self.slopes


def _max_softmax_key(logits: torch.Tensor) -> torch.Tensor:
    """-log(1 - p) of the largest softmax probability p of each row: it orders rows as p does and does not saturate."""
    largest, predicted = logits.max(1)
    is_prediction = torch.nn.functional.one_hot(predicted, logits.shape[1]).bool()
    others = logits.masked_fill(is_prediction, float("-inf"))
    log_odds = largest - torch.logsumexp(others, 1)
    # log(1 + e^x); beyond the threshold it is x to all digits
    return torch.nn.functional.softplus(log_odds, threshold=40.0)
