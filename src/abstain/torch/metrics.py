"""torchmetrics metrics for selective classification: AURC and its relatives, exact or in constant memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import abstain.metrics as functional
from abstain._arrays import Array
from abstain._check import check_choice, check_fraction, check_nonnegative
from abstain.core import bin_points, binning
from abstain.core.binning import Bins, Certified
from abstain.core.estimators import ESTIMATORS, TIES, area
from abstain.core.oracle import zero_one_oracle_rows
from abstain.errors import AbstainWarning, InfeasibleError, InputError
from abstain.torch.state import SelectiveMetric


class _Area(SelectiveMetric):
    """Metrics built on AURC with an estimator and a tie rule."""

    def __init__(self, *, estimator: str = "harmonic", ties: str = "threshold", **kwargs: Any) -> None:
        name = type(self).__name__
        check_choice(name, "estimator", estimator, ESTIMATORS)
        check_choice(name, "ties", ties, TIES)
        super().__init__(**kwargs)
        if self.thresholds is not None and (estimator != "harmonic" or ties != "threshold"):
            raise InputError(
                f'{name}: bins certify estimator="harmonic" with ties="threshold" only, got "{estimator}" and '
                f'"{ties}". Use thresholds=None.'
            )
        self.estimator, self.ties = estimator, ties

    def options(self) -> dict[str, Any]:
        """Arguments of the function."""
        return {"estimator": self.estimator, "ties": self.ties}


class AURC(_Area):
    """Area under the risk-coverage curve; lower is better. See `abstain.aurc`.

    Options as in `SelectiveMetric`, and

    Parameters
    ----------
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
    ties : {"threshold", "expected"}

    Examples
    --------
    >>> import torch
    >>> metric = AURC()
    >>> metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 1, 1]))
    >>> metric.compute()  # the least sure of three is wrong: risks 0, 0, 1/3
    tensor(0.1111, dtype=torch.float64)
    """

    function = "aurc"

    def exact(self, loss: Array, confidence: Array) -> Array:
        """AURC of all samples."""
        return functional.aurc(loss, confidence, **self.options())

    def binned(self, table: Bins) -> Certified:
        """AURC of bins."""
        return binning.aurc(table, self.most)


class EAURC(_Area):
    """Excess AURC over the best ordering of the same losses; lower is better. See `abstain.e_aurc`.

    Options as in `SelectiveMetric`, `estimator` and `ties` as in `AURC`. With `thresholds`, 0/1 loss only: other
    losses would need a second pass ordered by loss.
    """

    function = "e_aurc"

    def exact(self, loss: Array, confidence: Array) -> Array:
        """E-AURC of all samples."""
        return functional.e_aurc(loss, confidence, **self.options())

    def binned(self, table: Bins) -> Certified:
        """E-AURC of bins: the oracle of a 0/1 loss needs the counts alone."""
        best = self._oracle(table)
        return _each(binning.aurc(table, 1.0), lambda x: x - best)

    def _oracle(self, table: Bins) -> float:
        if not self.reader.zero_one:
            raise InfeasibleError(
                f"{type(self).__name__}: bins know the best ordering of 0/1 losses only. Use thresholds=None."
            )
        mass, errors = (float(x) for x in binning.total(table))
        return float(area(zero_one_oracle_rows(errors, mass), "harmonic", "expected"))


class NAURC(EAURC):
    """Normalised AURC, 0 for the best ordering, 1 for a useless one; lower is better. See `abstain.naurc`.

    Options as in `SelectiveMetric`, `estimator` and `ties` as in `AURC`. With `thresholds`, 0/1 loss only.
    """

    function = "naurc"

    def exact(self, loss: Array, confidence: Array) -> Array:
        """NAURC of all samples."""
        return functional.naurc(loss, confidence, **self.options())

    def binned(self, table: Bins) -> Certified:
        """NAURC of bins."""
        best = self._oracle(table)
        mass, errors = (float(x) for x in binning.total(table))
        room = errors / mass - best
        if room <= 1e-14 * errors / mass:  # all right or all wrong: no ordering is better than another
            return _each(binning.aurc(table, 1.0), lambda x: 0 * x)
        return _each(binning.aurc(table, 1.0), lambda x: (x - best) / room)


class AUGRC(SelectiveMetric):
    """Area under the generalised risk-coverage curve; lower is better. See `abstain.augrc`.

    Options as in `SelectiveMetric`.
    """

    function = "augrc"

    def exact(self, loss: Array, confidence: Array) -> Array:
        """AUGRC of all samples."""
        return functional.augrc(loss, confidence)

    def binned(self, table: Bins) -> Certified:
        """AUGRC of bins."""
        return binning.augrc(table, self.most)


class RiskAtCoverage(SelectiveMetric):
    """Selective risk at a coverage; lower is better. See `abstain.risk_at_coverage`.

    Options as in `SelectiveMetric`, and

    Parameters
    ----------
    coverage : float
        The share of samples to accept at least.
    """

    function = "risk_at_coverage"

    def __init__(self, *, coverage: float, **kwargs: Any) -> None:
        self.coverage = check_fraction("RiskAtCoverage", "coverage", coverage)
        super().__init__(**kwargs)

    def options(self) -> dict[str, Any]:
        """Arguments of the function."""
        return {"coverage": self.coverage}

    def exact(self, loss: Array, confidence: Array) -> Array:
        """Risk of all samples at the coverage."""
        return functional.risk_at_coverage(loss, confidence, coverage=self.coverage)

    def binned(self, table: Bins) -> Certified:
        """Risk of bins at the coverage."""
        return bin_points.risk_at_coverage(table, self.coverage, self.most)


class CoverageAtRisk(SelectiveMetric):
    """Largest coverage within a risk; higher is better. See `abstain.coverage_at_risk`.

    Options as in `SelectiveMetric`, and

    Parameters
    ----------
    risk : float
        The selective risk to stay within, on the samples seen: no promise about new data.
    """

    function = "coverage_at_risk"
    higher_is_better = True
    plot_upper_bound = 1.0

    def __init__(self, *, risk: float, **kwargs: Any) -> None:
        self.risk = check_nonnegative("CoverageAtRisk", "risk", risk)
        super().__init__(**kwargs)

    def options(self) -> dict[str, Any]:
        """Arguments of the function."""
        return {"risk": self.risk}

    def exact(self, loss: Array, confidence: Array) -> Array:
        """Coverage of all samples within the risk."""
        return functional.coverage_at_risk(loss, confidence, risk=self.risk)

    def binned(self, table: Bins) -> Certified:
        """Coverage of bins within the risk."""
        return bin_points.coverage_at_risk(table, self.risk, self.most)


class FailureAUROC(SelectiveMetric):
    """Chance that a right sample is surer than a wrong one; higher is better. See `abstain.auroc`.

    While only right or only wrong samples have been seen it is undefined: nan, with a warning, so that a batch
    without errors does not end a run.

    Options as in `SelectiveMetric`.
    """

    function = "auroc"
    higher_is_better = True
    plot_upper_bound = 1.0

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not self.reader.zero_one:
            raise InputError(
                f'FailureAUROC: `loss` must be 0/1, got "{self.reader.loss.name}". Use loss="zero_one".'
            )

    def exact(self, loss: Array, confidence: Array) -> Array:
        """AUROC of all samples."""
        if bool(loss.all()) or not bool(loss.any()):
            return _undefined(confidence)
        return functional.auroc(loss, confidence)

    def binned(self, table: Bins) -> Certified:
        """AUROC of bins."""
        mass, errors = binning.total(table)
        if not 0 < float(errors) < float(mass):
            value = _undefined(mass)
            return Certified(value, value, value)
        return bin_points.auroc(table)


def _each(value: Certified, work: Callable[[Array], Array]) -> Certified:
    """An increasing function of a certified number."""
    return Certified(*(None if x is None else work(x) for x in value))


def _undefined(like: Array) -> Array:
    warnings.warn(
        "FailureAUROC: only one kind of sample (right or wrong) has been seen; nan. `AURC` is defined for either.",
        AbstainWarning,
        stacklevel=3,
    )
    return like.new_full((), float("nan")).double()
