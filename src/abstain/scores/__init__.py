"""Confidence scores: one number for each sample from its logits or probabilities, higher = surer.

You say what the input is: logits are the first argument, probabilities come as `probs=`. Classes lie along the last
axis; leading axes are free (samples, pixels). One number per sample (a vector, or a last axis of length 1) is that of
class 1 of a binary model: its log-odds, or its probability. Logits whose rows all lie in [0, 1] and sum to one are
refused: they are probabilities. Softmax scores return exact rank keys that do not saturate; `display` converts a key to
the familiar number.
"""

from abstain.scores.catalogue import (
    ENSEMBLE_NAMES,
    NAMES,
    READING_NAMES,
    Score,
    by_name,
    display,
)
from abstain.scores.ensemble import (
    mean_max_softmax,
    mutual_information,
    pooled_log_probs,
    predictive_entropy,
    vote_share,
)
from abstain.scores.logits import (
    clamped_logit_entropy,
    energy,
    logit_margin,
    logit_norm,
    max_logit,
    normalised_max_logit,
)
from abstain.scores.softmax import (
    Saturation,
    max_softmax,
    negative_entropy,
    negative_gini,
    probability_norm,
    saturation,
    softmax_margin,
)

__all__ = [
    "ENSEMBLE_NAMES",
    "NAMES",
    "READING_NAMES",
    "Saturation",
    "Score",
    "by_name",
    "clamped_logit_entropy",
    "display",
    "energy",
    "logit_margin",
    "logit_norm",
    "max_logit",
    "max_softmax",
    "mean_max_softmax",
    "mutual_information",
    "negative_entropy",
    "negative_gini",
    "normalised_max_logit",
    "pooled_log_probs",
    "predictive_entropy",
    "probability_norm",
    "saturation",
    "softmax_margin",
    "vote_share",
]
