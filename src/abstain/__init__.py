"""Know when not to predict.

Every metric is a weighted mean of losses, and a sample's weight depends only on how the confidences rank it.

The names here are those that most users need; the rest is in the modules (`abstain.metrics`, `abstain.thresholds` ...).
Names are loaded on first use, so that `import abstain` costs little more than `import numpy`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from abstain._engines import declare_engine

if TYPE_CHECKING:  # what type checkers and editors see of the names that `__getattr__` loads
    from abstain import calibration as calibration
    from abstain import (
        cascades,
        engines,
        formats,
        inference,
        losses,
        metrics,
        report,
        scores,
        theory,
        thresholds,
    )
    from abstain import compat as compat
    from abstain import confidence as confidence
    from abstain import display as display
    from abstain import errors as errors
    from abstain import evaluation as evaluation
    from abstain import jax as jax
    from abstain import sklearn as sklearn
    from abstain import torch as torch
    from abstain.cascades import Cascade, cascade
    from abstain.confidence import combine_signals, learn_confidence
    from abstain.display import RiskCoverageDisplay
    from abstain.evaluation import Comparison, Evaluation, compare, evaluate
    from abstain.inference import Interval, interval, paired_difference
    from abstain.metrics import (
        Metric,
        augrc,
        aurc,
        auroc,
        coverage_at_risk,
        e_aurc,
        naurc,
        prediction_rejection_ratio,
        register_metric,
        risk,
        risk_at_coverage,
        risk_coverage_curve,
    )
    from abstain.thresholds import (
        Threshold,
        clinical_table,
        decision_record,
        load_rule,
        select_threshold,
    )

__version__ = "0.1.0"

_MODULES_IN_ALL = (
    "cascades",
    "engines",
    "formats",
    "inference",
    "losses",
    "metrics",
    "report",
    "scores",
    "theory",
    "thresholds",
)
# reachable as `abstain.NAME`; not for `from abstain import *`, since few users name them
_MODULES_NOT_IN_ALL = (
    "calibration",
    "compat",
    "confidence",
    "display",
    "errors",
    "evaluation",
)
_MODULES_THAT_NEED_EXTRAS = ("jax", "sklearn", "torch")  # not for `from abstain import *` either
_MODULE_OF_NAME = {
    "Cascade": "cascades",
    "Comparison": "evaluation",
    "Evaluation": "evaluation",
    "Interval": "inference",
    "Metric": "metrics",
    "RiskCoverageDisplay": "display",
    "Threshold": "thresholds",
    "augrc": "metrics",
    "aurc": "metrics",
    "auroc": "metrics",
    "cascade": "cascades",
    "clinical_table": "thresholds",
    "combine_signals": "confidence",
    "compare": "evaluation",
    "coverage_at_risk": "metrics",
    "decision_record": "thresholds",
    "e_aurc": "metrics",
    "evaluate": "evaluation",
    "interval": "inference",
    "learn_confidence": "confidence",
    "load_rule": "thresholds",
    "naurc": "metrics",
    "paired_difference": "inference",
    "prediction_rejection_ratio": "metrics",
    "register_metric": "metrics",
    "risk": "metrics",
    "risk_at_coverage": "metrics",
    "risk_coverage_curve": "metrics",
    "select_threshold": "thresholds",
}

__all__ = [
    "Cascade",
    "Comparison",
    "Evaluation",
    "Interval",
    "Metric",
    "RiskCoverageDisplay",
    "Threshold",
    "augrc",
    "aurc",
    "auroc",
    "cascade",
    "cascades",
    "clinical_table",
    "combine_signals",
    "compare",
    "coverage_at_risk",
    "decision_record",
    "e_aurc",
    "engines",
    "evaluate",
    "formats",
    "inference",
    "interval",
    "learn_confidence",
    "load_rule",
    "losses",
    "metrics",
    "naurc",
    "paired_difference",
    "prediction_rejection_ratio",
    "register_metric",
    "report",
    "risk",
    "risk_at_coverage",
    "risk_coverage_curve",
    "scores",
    "select_threshold",
    "theory",
    "thresholds",
]

declare_engine("path", "abstain.formats.file_evaluation")  # `evaluate("predictions.parquet")`
declare_engine("table", "abstain.formats.file_evaluation")  # `evaluate(frame)`
declare_engine("predictions", "abstain.formats.file_evaluation")  # `evaluate(read_predictions(...))`
declare_engine("files", "abstain.engines.files")
declare_engine("dask", "abstain.engines.dask")
declare_engine("spark", "abstain.engines.spark")

if not TYPE_CHECKING:  # for type checkers a name that is not above is a mistake

    def __getattr__(name: str) -> Any:
        """Import a module of the package, or a name from its module, on first use.

        Python calls this for a name that the package does not have yet. Any other name raises AttributeError.
        """
        if name in _MODULE_OF_NAME:
            value = getattr(importlib.import_module(f"abstain.{_MODULE_OF_NAME[name]}"), name)
            globals()[name] = value  # found there from now on, without this function
            return value
        # An imported module is an attribute of the package from then on.
        if name in (*_MODULES_IN_ALL, *_MODULES_NOT_IN_ALL, *_MODULES_THAT_NEED_EXTRAS):
            try:
                return importlib.import_module(f"abstain.{name}")
            except ImportError as problem:  # so that hasattr(abstain, "jax") is False where jax is missing
                raise AttributeError(str(problem)) from problem
        # `_where_else` returns a hint such as ". It is in abstain.metrics", or ""
        raise AttributeError(f"module 'abstain' has no attribute {name!r}{_where_else(name)}")


def _where_else(name: str) -> str:
    """A hint where a public name that is not at the top level can be found; empty if no module has it."""
    # as in `from abstain import _tables`, which asks here before it imports the file
    if name.startswith("_"):
        return ""
    for module in ("metrics", "thresholds", "inference", "evaluation", "cascades", "confidence"):
        if name in importlib.import_module(f"abstain.{module}").__all__:
            return f". It is in abstain.{module}"
    return ""


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES_NOT_IN_ALL, *_MODULES_THAT_NEED_EXTRAS, "__version__"])
