"""All metrics by name: what each needs, which way is better, how it is written.

A name may carry its one number after an @: "risk_at_coverage@0.8", "coverage_at_risk@0.05".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from abstain._check import check_choice
from abstain.core.estimators import ESTIMATORS
from abstain.errors import InputError
from abstain.metrics import areas, detection, points


@dataclass(frozen=True)
class Metric:
    """A metric and what a table or a law needs to know of it.

    needs_zero_one: defined for losses 0 (right) and 1 (wrong) only. needs_both: undefined when all are right
    or all are wrong. smooth: has an influence function, so that intervals need no resampling. argument: the
    name of its one number. bounded: the largest value a 0/1 loss can give.
    """

    name: str
    label: str
    function: Callable[..., Any] = field(repr=False)
    lower_is_better: bool
    needs_zero_one: bool = False
    needs_both: bool = False
    smooth: bool = True
    argument: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    bounded: float = 1.0

    @property
    def key(self) -> str:
        """The name with its options, as `by_name` reads it back."""
        given = dict(self.options)
        number = f"@{given.pop(self.argument):g}" if self.argument in given else ""
        return self.name + number + "".join(f":{v}" for v in given.values())

    @property
    def arrow(self) -> str:
        """Which way is better."""
        return "lower is better" if self.lower_is_better else "higher is better"

    def __call__(self, loss: Any, confidence: Any, /, **more: Any) -> Any:
        """The value, with this metric's own options."""
        return self.function(loss, confidence, **{**dict(self.options), **more})


_ALL = (
    Metric("aurc", "AURC", areas.aurc, True),
    Metric("augrc", "AUGRC", areas.augrc, True, bounded=0.5),
    Metric("e_aurc", "E-AURC", areas.e_aurc, True),
    Metric("naurc", "NAURC", areas.naurc, True, bounded=float("inf")),
    Metric("risk", "risk", points.risk, True),
    Metric("oracle_aurc", "oracle AURC", areas.oracle_aurc, True),
    Metric("auroc", "AUROC of failures", detection.auroc, False, True, True),
    Metric("prediction_rejection_ratio", "PRR", detection.prediction_rejection_ratio, False),
    Metric("aupr_error", "AUPR of errors", detection.aupr_error, False, True, True, False),
    Metric("aupr_success", "AUPR of successes", detection.aupr_success, False, True, True, False),
    Metric(
        "fpr_at_tpr", "FPR at TPR", detection.fpr_at_tpr, True, True, True, False, "tpr", (("tpr", 0.95),)
    ),
    Metric(
        "risk_at_coverage",
        "risk at coverage",
        points.risk_at_coverage,
        True,
        smooth=False,
        argument="coverage",
        options=(("coverage", 0.8),),
    ),
    Metric(
        "coverage_at_risk",
        "coverage at risk",
        points.coverage_at_risk,
        False,
        smooth=False,
        argument="risk",
        options=(("risk", 0.05),),
    ),
)
METRICS = {metric.name: metric for metric in _ALL}
ESTIMATED = ("aurc", "e_aurc", "naurc", "oracle_aurc")  # those that take `estimator=`


def by_name(metric: str | Metric) -> Metric:
    """The metric of that name, with the number after an @ and the estimator after a colon, if any.

    >>> by_name("risk_at_coverage@0.9").options
    (('coverage', 0.9),)
    >>> by_name("aurc:loo").key, by_name("auroc").arrow
    ('aurc:loo', 'higher is better')
    """
    if isinstance(metric, Metric):
        return metric
    text = getattr(metric, "__name__", metric)
    head, _, estimator = str(text).partition(":")
    name, _, number = head.partition("@")
    if name not in METRICS:
        raise InputError(
            f"metrics.by_name: unknown metric {text!r}, the known ones are {', '.join(METRICS)}."
        )
    found = METRICS[name]
    options = dict(found.options)
    if number:
        if found.argument is None:
            raise InputError(f"metrics.by_name: {name} takes no number, got {text!r}.")
        options[found.argument] = _as_number(text, number)
    if estimator:
        if name not in ESTIMATED:
            raise InputError(f"metrics.by_name: {name} takes no estimator, got {text!r}.")
        check_choice("metrics.by_name", "estimator", estimator, ESTIMATORS)
        options["estimator"] = estimator
    return _with(found, tuple(options.items()))


def _as_number(text: Any, number: str) -> float:
    try:
        return float(number)
    except ValueError:
        raise InputError(f"metrics.by_name: after the @ a number must stand, got {text!r}.") from None


def _with(metric: Metric, options: tuple[tuple[str, Any], ...]) -> Metric:
    from dataclasses import replace

    if options == metric.options and metric.argument is None:
        return metric
    given = dict(options)
    number = f" {given[metric.argument]:g}" if metric.argument else ""
    estimator = f" ({given['estimator']})" if "estimator" in given else ""
    return replace(metric, options=options, label=metric.label + number + estimator)
