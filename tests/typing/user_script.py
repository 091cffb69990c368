"""What a user writes, with what a type checker must say of the line: its type, or that it is an error.

Read by `test_user_types`; the functions are never called.
"""

from typing import reveal_type

import numpy as np
import numpy.typing as npt

import abstain
from abstain.engines import Sketch, files
from abstain.inference import interval

loss: npt.NDArray[np.float64] = np.asarray([0.0, 1.0])
confidence = [0.9, 0.8]
groups = ["a", "b"]
logits = np.zeros((2, 3))


def right_calls() -> None:
    reveal_type(abstain.aurc(loss, confidence))  # float
    reveal_type(abstain.aurc([0, 1], confidence, estimator="loo", ties="expected"))  # float
    reveal_type(abstain.metrics.aurc(loss, confidence, sample_weight=[1, 2]))  # float
    reveal_type(abstain.aurc(loss, confidence, groups=groups))  # Grouped
    reveal_type(abstain.aurc(loss, confidence, groups=groups).worst)  # float
    reveal_type(abstain.risk(loss))  # float
    reveal_type(abstain.naurc(loss, confidence, oracle="asymptotic"))  # float
    reveal_type(abstain.auroc(loss, confidence))  # float
    reveal_type(abstain.risk_at_coverage(loss, confidence, coverage=0.8))  # float
    reveal_type(abstain.coverage_at_risk(loss, confidence, risk=0.05, groups=groups))  # Grouped
    reveal_type(abstain.risk_coverage_curve(loss, confidence))  # RiskCoverageCurve
    reveal_type(abstain.risk_coverage_curve((0, 1), range(2)))  # RiskCoverageCurve
    reveal_type(abstain.metrics.aurc_given_cdf(loss, confidence))  # float
    reveal_type(abstain.aurc(loss, confidence, groups=None))  # Any
    reveal_type(abstain.metrics.best_rejection(loss, confidence, cost=0.3).threshold)  # float | None
    reveal_type(abstain.evaluate(logits, [0, 1]))  # Evaluation
    reveal_type(abstain.evaluate(logits, [0, 1]).best("aurc").estimate)  # float | None
    reveal_type(abstain.evaluate(logits, [0, 1]).best("aurc").value)  # float
    reveal_type(abstain.compare({"a": logits, "b": logits}, [0, 1]))  # Comparison
    reveal_type(abstain.evaluation.expected_aurc(logits[None], [0, 1]))  # ExpectedAURC
    reveal_type(interval("aurc", loss, confidence))  # Interval
    reveal_type(interval("risk_at_coverage", loss, confidence, coverage=0.8, method="bootstrap"))  # Interval
    reveal_type(interval(abstain.aurc, loss, confidence, groups=groups))  # GroupedIntervals
    reveal_type(abstain.select_threshold(loss, confidence, risk=0.05))  # Threshold
    reveal_type(abstain.select_threshold(loss, confidence, risk=0.05, groups=groups))  # GroupThresholds
    reveal_type(abstain.select_threshold(loss, confidence, risk=0.05).value)  # float | None
    reveal_type(files.aurc("predictions.parquet"))  # float | Grouped
    reveal_type(Sketch().standard_error())  # float
    reveal_type(abstain.engines.Sketch().n)  # int
    reveal_type(abstain.torch.AURCLoss())  # AURCLoss
    reveal_type(abstain.theory.estimator_bias(8, "quadratic"))  # float
    reveal_type(abstain.compat.geifman_aurc(loss, confidence))  # float


def mistakes() -> None:
    abstain.aurrc(loss, confidence)  # error
    abstain.torch.AURRC()  # error
    print(abstain.engines.hadoop)  # error
    abstain.aurc(1, 2, 3, nonsense=4)  # error
    abstain.aurc(loss)  # error
    abstain.aurc(3.0, confidence)  # error
    abstain.risk_coverage_curve(loss, 0.9)  # error
    abstain.select_threshold(loss, 0.9, risk=0.05)  # error
    abstain.scores.max_softmax(0.5)  # error
    abstain.aurc(loss, confidence, estimator="harmonics")  # error
    abstain.naurc(loss, confidence, oracle="best")  # error
    abstain.coverage_at_risk(loss, confidence, risk="5%")  # error
    abstain.coverage_at_risk(loss, confidence)  # error
    abstain.select_threshold(loss, confidence, risk="5%")  # error
    abstain.select_threshold(loss, confidence, risk="5%", groups=groups)  # error
    abstain.select_threshold(loss, confidence, risk=0.05, method="magic")  # error
    interval("aurc", loss, confidence, method="magic")  # error
    interval("aurc", loss, confidence, nonsense=4)  # error
    abstain.evaluate(logits, [0, 1], nonsense=4)  # error
    abstain.theory.estimator_bias(8, "quadratic", estimator="harmonics")  # error
