"""Whole answers: one model's table, many models compared, an ensemble beside its members."""

from abstain.evaluation.comparison import Comparison, Contestant, Pair
from abstain.evaluation.engines import register_engine
from abstain.evaluation.ensembles import expected_aurc
from abstain.evaluation.entries import Entry, TopTies
from abstain.evaluation.members import ExpectedAURC, Quantity
from abstain.evaluation.ranking import compare
from abstain.evaluation.results import Evaluation
from abstain.evaluation.table import evaluate, evaluate_blocks

__all__ = [
    "Comparison",
    "Contestant",
    "Entry",
    "Evaluation",
    "ExpectedAURC",
    "Pair",
    "Quantity",
    "TopTies",
    "compare",
    "evaluate",
    "evaluate_blocks",
    "expected_aurc",
    "register_engine",
]
