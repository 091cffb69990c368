"""A better confidence without touching the model: learned from what is known of each row, with a proof."""

from abstain.confidence.judging import CandidateResult, Contribution
from abstain.confidence.learn import learn_confidence
from abstain.confidence.learned import LearnedConfidence

__all__ = ["CandidateResult", "Contribution", "LearnedConfidence", "learn_confidence"]
