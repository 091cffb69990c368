"""The numbers of one network on a test set, from its logits."""

from __future__ import annotations

import numpy as np

import abstain


def score_logits(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Accuracy, cross-entropy, and AURC of the MSP under 0/1 and cross-entropy loss (harmonic estimator).

    >>> numbers = score_logits(np.array([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), np.array([0, 1, 1]))
    >>> round(numbers["accuracy"], 4), round(numbers["aurc_01"], 4)  # only the least confident one is wrong
    (0.6667, 0.1111)
    """
    confidence = abstain.scores.max_softmax(logits)
    wrong = abstain.losses.zero_one(logits, labels)
    entropy = abstain.losses.cross_entropy(logits, labels)
    return {
        "accuracy": 1 - float(np.mean(wrong)),
        "nll": float(np.mean(entropy)),
        "aurc_01": float(abstain.aurc(wrong, confidence)),
        "aurc_ce": float(abstain.aurc(entropy, confidence)),
    }
