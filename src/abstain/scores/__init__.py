"""Confidence scores: one number for each sample from its logits or probabilities, higher = surer.

Input is stated, never guessed: logits are the first argument, probabilities come as `probs=`. Classes lie
along the last axis, leading axes are free (samples, pixels). One number per sample (a vector, or a last axis of length
1) is that of class 1 of a binary model: its log-odds, or its probability. Logits whose rows all lie in [0, 1] and sum
to one are refused as the probabilities they are. Scores on the softmax return exact rank keys
that do not saturate; `display` gives the number people know.
"""

from abstain.scores.catalogue import (
    ENSEMBLE_NAMES,
    NAMES,
    READING_NAMES,
    Score,
    Tuning,
    by_name,
    display,
    tune,
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

__all__ = ["max_softmax", "negative_entropy", "negative_gini", "probability_norm", "softmax_margin"]
__all__ += ["clamped_logit_entropy", "energy", "logit_margin", "logit_norm", "max_logit"]
__all__ += ["normalised_max_logit"]
__all__ += ["mean_max_softmax", "mutual_information", "pooled_log_probs", "predictive_entropy", "vote_share"]
__all__ += ["ENSEMBLE_NAMES", "NAMES", "READING_NAMES", "Score", "by_name", "display"]
__all__ += ["Saturation", "Tuning", "saturation", "tune"]
