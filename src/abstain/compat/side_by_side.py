"""All conventions side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain.compat import conventions as c
from abstain.core.estimators import Estimator
from abstain.metrics import augrc, aurc


class _Convention(NamedTuple):
    name: str
    function: Callable[[Array, Array], float]
    rule: str
    row_order: bool


def _estimator(name: Estimator) -> Callable[[Array, Array], float]:
    return lambda loss, confidence: float(aurc(loss, confidence, estimator=name))


_MEAN = "mean of the n prefix risks"
_CONVENTIONS = (
    _Convention(
        "abstain.aurc", _estimator("harmonic"), "mean selective risk over samples, ties together", False
    ),
    _Convention('abstain.aurc(estimator="log")', _estimator("log"), "weights -ln(1 - r/(n+1))", False),
    _Convention(
        'abstain.aurc(estimator="loo")', _estimator("loo"), "selective risk of the other samples", False
    ),
    _Convention('abstain.aurc(estimator="sele")', _estimator("sele"), "weights r/n", False),
    _Convention('abstain.aurc(estimator="2sele")', _estimator("2sele"), "weights 2r/n", False),
    _Convention("literal_log_aurc", c.literal_log_aurc, "log weights, largest rank in a tie", False),
    _Convention("row_order_aurc", c.row_order_aurc, _MEAN, True),
    _Convention("mapie_one_minus_auarc", c.mapie_one_minus_auarc, _MEAN, True),
    _Convention("lm_polygraph_rcc_auc", c.lm_polygraph_rcc_auc, _MEAN, True),
    _Convention(
        "torch_uncertainty_aurc", c.torch_uncertainty_aurc, "trapezoid on [1/n, 1], over 1 - 1/n", True
    ),
    _Convention("fd_shifts_aurc", c.fd_shifts_aurc, "trapezoid over distinct, flat to coverage 0", False),
    _Convention("origin_trapezoid_aurc", c.origin_trapezoid_aurc, "trapezoid from an added (0, 0)", True),
    _Convention("seapig_aurc", c.seapig_aurc, "trapezoid on [1/n, 1] only", True),
    _Convention("geifman_aurc", c.geifman_aurc, "prefix risks, denominator off by one", True),
    _Convention(
        "abstain.augrc", lambda l, g: float(augrc(l, g)), "mean generalised risk over samples", False
    ),
    _Convention(
        "torch_uncertainty_augrc", c.torch_uncertainty_augrc, "trapezoid on [1/n, 1], over 1 - 1/n", True
    ),
    _Convention("fd_shifts_augrc", c.fd_shifts_augrc, "trapezoid over distinct, from (0, 0)", False),
    _Convention("seapig_augrc", c.seapig_augrc, "trapezoid on [1/n, 1] only", True),
)


@dataclass(frozen=True)
class CompatRow:
    """One convention's number; None where that convention has none (one sample)."""

    name: str
    value: float | None
    rule: str
    row_order: bool


@dataclass(frozen=True)
class CompatTable:
    """Every convention's number on the same samples; `table[name]` is one of them."""

    rows: tuple[CompatRow, ...]
    tied: bool

    def __getitem__(self, name: str) -> float | None:
        return {row.name: row.value for row in self.rows}[name]

    def __repr__(self) -> str:
        lines = [f"{'value':>9}  {'function':<32}rule"]
        for row in self.rows:
            value = "undefined" if row.value is None else f"{row.value:9.5f}"
            mark = " (here: depends on the row order)" if row.row_order and self.tied else ""
            lines.append(f"{value:>9}  {row.name:<32}{row.rule}{mark}")
        return "\n".join(lines)


def table(loss: Array, confidence: Array, /) -> CompatTable:
    """All conventions side by side on the same samples.

    >>> shown = table([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5])
    >>> round(shown["abstain.aurc"], 5), round(shown["torch_uncertainty_aurc"], 5)
    (0.29667, 0.32083)
    """
    losses, scores = c.vectors("compat.table", loss, confidence)
    rows = tuple(_row(each, losses, scores) for each in _CONVENTIONS)
    return CompatTable(rows, len(np.unique(scores)) < len(scores))


def _row(convention: _Convention, loss: np.ndarray, confidence: np.ndarray) -> CompatRow:
    undefined = len(loss) < 2 and convention.name.startswith("torch_uncertainty")
    value = None if undefined else convention.function(loss, confidence)
    return CompatRow(convention.name, value, convention.rule, convention.row_order)
