"""A better confidence without touching the model: learned from what is known of each row, with a proof."""

from abstain.confidence.combine import combine_signals
from abstain.confidence.judging import CandidateResult, Contribution
from abstain.confidence.learn import learn_confidence
from abstain.confidence.learn_and_select import LearnedRule, learn_and_select
from abstain.confidence.learned import LearnedConfidence

__all__ = [
    "CandidateResult",
    "Contribution",
    "LearnedConfidence",
    "LearnedRule",
    "combine_signals",
    "learn_and_select",
    "learn_confidence",
]
