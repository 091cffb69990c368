"""All metrics by name: what each needs, which way is better, how it is written.

A name may carry its one number after an @: "risk_at_coverage@0.8", "coverage_at_risk@0.05".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from abstain._check import check_choice
from abstain.core.area_estimators import ESTIMATORS, TIES
from abstain.errors import InputError
from abstain.metrics import areas, points


@dataclass(frozen=True)
class Metric:
    """A metric and what a table or a law needs to know of it.

    needs_zero_one: defined for losses 0 (right) and 1 (wrong) only. needs_both: undefined when all are right
    or all are wrong. smooth: has an influence function, so that intervals need no resampling. options: its one
    number, if it takes one, and the estimator, if one was asked for.
    """

    name: str
    label: str
    function: Callable[..., Any] = field(repr=False)
    lower_is_better: bool
    options: tuple[tuple[str, Any], ...] = ()
    needs_zero_one: bool = False
    needs_both: bool = False
    smooth: bool = True

    @property
    def key(self) -> str:
        """The name with its options, as `by_name` reads it back."""
        return self.name + "".join(f":{v}" if isinstance(v, str) else f"@{v:g}" for _, v in self.options)

    def __call__(self, loss: Any, confidence: Any, /, **more: Any) -> Any:
        """The value, with this metric's own options."""
        return self.function(loss, confidence, **{**dict(self.options), **more})


_AT_COVERAGE, _AT_RISK, _AT_TPR = (("coverage", 0.8),), (("risk", 0.05),), (("tpr", 0.95),)
_ALL = (
    Metric("aurc", "AURC", areas.aurc, True),
    Metric("augrc", "AUGRC", areas.augrc, True),
    Metric("e_aurc", "E-AURC", areas.e_aurc, True),
    Metric("naurc", "NAURC", areas.naurc, True),
    Metric("risk", "risk", points.risk, True),
    Metric("oracle_aurc", "oracle AURC", areas.oracle_aurc, True),
    Metric("auroc", "AUROC of failures", points.auroc, False, (), True, True),
    Metric("prediction_rejection_ratio", "PRR", points.prediction_rejection_ratio, False),
    Metric("aupr_error", "AUPR of errors", points.aupr_error, False, (), True, True),
    Metric("aupr_success", "AUPR of successes", points.aupr_success, False, (), True, True),
    Metric("fpr_at_tpr", "FPR at TPR", points.fpr_at_tpr, True, _AT_TPR, True, True, False),
    Metric("risk_at_coverage", "risk at coverage", points.risk_at_coverage, True, _AT_COVERAGE, smooth=False),
    Metric("coverage_at_risk", "coverage at risk", points.coverage_at_risk, False, _AT_RISK, smooth=False),
)
METRICS = {metric.name: metric for metric in _ALL}
ESTIMATED = ("aurc", "e_aurc", "naurc", "oracle_aurc")  # those that take `estimator=` and `ties=`


def by_name(metric: str | Metric) -> Metric:
    """The metric of that name, with the number after an @ and the estimator or the tie rule after a colon, if any.

    >>> by_name("risk_at_coverage@0.9").options
    (('coverage', 0.9),)
    >>> by_name("aurc:loo").key
    'aurc:loo'
    >>> by_name("aurc:loo:expected").options
    (('estimator', 'loo'), ('ties', 'expected'))
    """
    if isinstance(metric, Metric):
        return metric
    text = getattr(metric, "__name__", metric)
    head, *chosen = str(text).split(":")
    name, _, number = head.partition("@")
    if name not in METRICS:
        raise InputError(
            f"metrics.by_name: unknown metric {text!r}, the known ones are {', '.join(METRICS)}."
        )
    found = METRICS[name]
    options: dict[str, Any] = dict(found.options)
    if number:
        if not options:
            raise InputError(f"metrics.by_name: {name} takes no number, got {text!r}.")
        try:
            options = dict.fromkeys(options, float(number))
        except ValueError:
            raise InputError(f"metrics.by_name: after the @ a number must stand, got {text!r}.") from None
    for word in chosen:
        if name not in ESTIMATED:
            raise InputError(f"metrics.by_name: {name} takes no estimator, got {text!r}.")
        check_choice("metrics.by_name", "estimator", word, (*ESTIMATORS, *TIES))
        options["ties" if word in TIES else "estimator"] = word
    told = "".join(f" ({v})" if isinstance(v, str) else f" {v:g}" for v in options.values())
    return replace(found, options=tuple(options.items()), label=found.label + told) if options else found
