"""Whole results: the table of one model, a comparison of many, an ensemble and its members."""

from abstain._engines import register_engine
from abstain.evaluation.comparison import compare, compare_answers
from abstain.evaluation.ensembles import expected_aurc
from abstain.evaluation.graded import TargetCurve, evaluate_answers, score_by_target
from abstain.evaluation.growing import ComparisonLook, ComparisonSeries, GrowingComparison
from abstain.evaluation.precision import precision_recall
from abstain.evaluation.release_gate import GateVerdict, gate, judge, two_sided_level
from abstain.evaluation.repeats import evaluate_repeats
from abstain.evaluation.results import Comparison, Contestant, Entry, Evaluation, ExpectedAURC, Pair, TopTies
from abstain.evaluation.table import evaluate, evaluate_blocks
from abstain.evaluation.threeway import ThreeWay, three_way

__all__ = [
    "Comparison",
    "ComparisonLook",
    "ComparisonSeries",
    "Contestant",
    "Entry",
    "Evaluation",
    "ExpectedAURC",
    "GateVerdict",
    "GrowingComparison",
    "Pair",
    "TargetCurve",
    "ThreeWay",
    "TopTies",
    "compare",
    "compare_answers",
    "evaluate",
    "evaluate_answers",
    "evaluate_blocks",
    "evaluate_repeats",
    "expected_aurc",
    "gate",
    "judge",
    "precision_recall",
    "register_engine",
    "score_by_target",
    "three_way",
    "two_sided_level",
]
