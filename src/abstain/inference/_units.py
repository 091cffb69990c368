"""The sampled units behind a metric: checked vectors on the host, with who belongs to whom."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, host_view, is_cupy, is_torch
from abstain._check import check_choice
from abstain.core import fast
from abstain.core.estimators import ESTIMATORS, TIES, needs_whole_weights
from abstain.core.spread import METRICS, Options
from abstain.errors import InfeasibleError, InputError, ShapeError
from abstain.metrics._sample import prepare

BOOTSTRAP_ONLY = ("risk_at_coverage", "coverage_at_risk", "aupr_error", "aupr_success", "fpr_at_tpr")
NAMES = (*METRICS, *BOOTSTRAP_ONLY)
_AREAS = ("aurc", "oracle_aurc", "e_aurc", "naurc")
_TAKES = {
    **dict.fromkeys(_AREAS, ("estimator", "ties", "oracle")),
    "aurc": ("estimator", "ties"),
    "augrc": ("ties",),
    "oracle_aurc": ("estimator", "oracle"),
    "risk_at_coverage": ("coverage",),
    "coverage_at_risk": ("risk",),
    "fpr_at_tpr": ("tpr",),
}
_TWO_KINDS = ("auroc", "aupr_error", "aupr_success", "fpr_at_tpr")


class Units(NamedTuple):
    """Answered samples as vectors; `kept` marks them among all `n`, `total` is the mass of all."""

    metric: str
    loss: np.ndarray
    confidence: np.ndarray
    weight: np.ndarray | None
    kept: np.ndarray | None
    n: int
    total: float
    whole_weight: np.ndarray | None  # of all n samples, abstained ones included
    clusters: np.ndarray | None  # codes 0 ... of all n samples
    strata: np.ndarray | None
    options: dict[str, Any]
    zero_one: bool

    @property
    def area(self) -> Options:
        """The options that areas read."""
        return Options(**{k: v for k, v in self.options.items() if k in Options._fields})

    @property
    def mass(self) -> float:
        """Mass of the answered samples."""
        return float(len(self.loss) if self.weight is None else self.weight.sum())

    @property
    def sampled(self) -> int:
        """How many independent units were drawn: clusters if there are any, samples otherwise."""
        return self.n if self.clusters is None else int(self.clusters.max()) + 1


def metric_name(function: str, metric: Any) -> str:
    """A metric by its name or by the function of that name."""
    name = getattr(metric, "__name__", metric)
    check_choice(function, "metric", name, NAMES)
    return str(name)


def on_host(x: Array) -> Array:
    """`x` as numpy; device arrays are copied over."""
    if x is None:
        return None
    view = host_view(x)
    if view is not None:
        return view
    if is_torch(x):
        return x.detach().cpu().numpy()
    return x.get() if is_cupy(x) else np.asarray(x)


def gather(
    function: str,
    metric: Any,
    loss: Array,
    confidence: Array,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
    clusters: Array | None = None,
    strata: Array | None = None,
    options: dict[str, Any] | None = None,
) -> Units:
    """Check everything once."""
    name = metric_name(function, metric)
    options = _check_options(function, name, options or {})
    loss, confidence = on_host(loss), on_host(confidence if confidence is not None else loss)
    sample_weight, abstained = on_host(sample_weight), on_host(abstained)
    whole = needs_whole_weights(options.get("estimator", "harmonic"), options.get("ties", "threshold"))
    sample = prepare(function, loss, confidence, sample_weight, abstained, whole)
    if sample.loss.ndim != 1:
        raise ShapeError(
            f"{function}: takes one vector, got shape {tuple(np.shape(loss))}. Loop over the batch."
        )
    n = len(loss)
    kept = None
    if len(sample.loss) != n:
        kept = np.ones(n, dtype=bool) if abstained is None else ~np.asarray(abstained, dtype=bool)
        kept &= True if sample_weight is None else np.asarray(sample_weight) > 0
    zero_one = fast.is_zero_one(sample.loss)
    _check_kind(function, name, sample.loss, zero_one, options)
    return Units(
        name,
        sample.loss,
        sample.confidence,
        sample.weight,
        kept,
        n,
        float(sample.total),
        None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64),
        codes(function, "clusters", clusters, n),
        codes(function, "strata", strata, n),
        options,
        zero_one,
    )


def _check_options(function: str, metric: str, options: dict[str, Any]) -> dict[str, Any]:
    takes = _TAKES.get(metric, ())
    for name in options:
        if name not in takes:
            known = ", ".join(f"`{t}`" for t in takes) or "none"
            raise InputError(f"{function}: `{name}` is no option of {metric} (its options: {known}).")
    check_choice(function, "estimator", options.get("estimator", "harmonic"), ESTIMATORS)
    check_choice(function, "ties", options.get("ties", "threshold"), TIES)
    check_choice(function, "oracle", options.get("oracle", "empirical"), ("empirical", "asymptotic"))
    for needed in ("coverage", "risk"):
        if needed in takes and needed not in options:
            raise InputError(f"{function}: {metric} needs `{needed}=`, got none.")
    return options


def _check_kind(
    function: str, metric: str, loss: np.ndarray, zero_one: bool, options: dict[str, Any]
) -> None:
    if options.get("oracle") == "asymptotic" and not zero_one:
        raise InputError(f'{function}: oracle="asymptotic" holds for 0/1 loss only. Use oracle="empirical".')
    if metric in _TWO_KINDS:
        if not zero_one:
            raise InputError(
                f"{function}: {metric} needs `loss` to be 0 (right) or 1 (wrong), got other values."
            )
        if loss.all() or not loss.any():
            raise InfeasibleError(
                f"{function}: {metric} needs both right and wrong samples, got only one kind."
            )


def codes(function: str, argument: str, labels: Array | None, n: int) -> np.ndarray | None:
    """Labels of any kind as whole numbers 0, 1, ..."""
    if labels is None:
        return None
    values = np.asarray(on_host(labels))
    if values.shape != (n,):
        raise ShapeError(
            f"{function}: `{argument}` must have one label per sample, got shape {values.shape} for {n}."
        )
    return np.unique(values, return_inverse=True)[1]
