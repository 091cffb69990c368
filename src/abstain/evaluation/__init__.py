"""Whole answers: one model's table, many models compared, an ensemble beside its members."""

from abstain.evaluation.comparison import compare
from abstain.evaluation.ensembles import expected_aurc
from abstain.evaluation.results import Comparison, Contestant, Entry, Evaluation, ExpectedAURC, Pair, TopTies
from abstain.evaluation.table import evaluate, evaluate_blocks, register_engine
from abstain.evaluation.threeway import ThreeWay, three_way

__all__ = ["Comparison", "Contestant", "Entry", "Evaluation", "ExpectedAURC", "Pair", "ThreeWay", "TopTies"]
__all__ += ["compare", "evaluate", "evaluate_blocks", "expected_aurc", "register_engine", "three_way"]
