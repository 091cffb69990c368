"""A better confidence without touching the model: learned from what is known of each row, with a proof."""

from abstain.confidence.fitted_rows import FittedRows
from abstain.confidence.input_profile import InputProfile
from abstain.confidence.judging import CandidateResult, Contribution
from abstain.confidence.learn import learn_confidence
from abstain.confidence.learned import LearnedConfidence
from abstain.confidence.models import ConfidenceModel, LinearModel, SingleScore
from abstain.confidence.rank_model import RankModel
from abstain.confidence.signal_ranks import RankReference

__all__ = [
    "CandidateResult",
    "ConfidenceModel",
    "Contribution",
    "FittedRows",
    "InputProfile",
    "LearnedConfidence",
    "LinearModel",
    "RankModel",
    "RankReference",
    "SingleScore",
    "learn_confidence",
]
