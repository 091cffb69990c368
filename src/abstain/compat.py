"""The AURC numbers of other packages, under explicit names, so that you find the one you had and see why it
differs.

All take a loss and a confidence (higher = surer) for each sample; packages that ask for an uncertainty get
its negative. Ours, `abstain.aurc`, is the mean over samples of the selective risk at each one's confidence,
equal confidences accepted together. Functions marked *row order* sort and cumulate without regard to ties,
as the package does: equal confidences stand in the order of the rows, and shuffling the rows changes the
number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain.core.estimators import Estimator
from abstain.core.rows import rows_of
from abstain.errors import DtypeError, InputError, ShapeError
from abstain.metrics import augrc, aurc
from abstain.metrics._sample import prepare

__all__ = [
    "CompatRow",
    "CompatTable",
    "fd_shifts_augrc",
    "fd_shifts_aurc",
    "geifman_aurc",
    "literal_log_aurc",
    "lm_polygraph_rcc_auc",
    "mapie_one_minus_auarc",
    "origin_trapezoid_aurc",
    "row_order_aurc",
    "seapig_augrc",
    "seapig_aurc",
    "table",
    "torch_uncertainty_augrc",
    "torch_uncertainty_aurc",
]


class _Curve(NamedTuple):
    """Points from the most confident down."""

    coverage: np.ndarray
    risk: np.ndarray

    @property
    def generalised(self) -> np.ndarray:
        return np.asarray(self.risk * self.coverage)


def vectors(name: str, loss: Array, confidence: Array) -> tuple[np.ndarray, np.ndarray]:
    """Checked loss and confidence as numpy vectors."""
    sample = prepare(name, loss, confidence)
    if not sample.backend.host:
        raise DtypeError(
            f"{name}: takes arrays on the host, got one on a device. Copy it over first, `x.cpu()`."
        )
    if sample.loss.ndim != 1:
        raise ShapeError(f"{name}: takes one vector, got shape {sample.loss.shape}. Loop over the batch.")
    return sample.loss.astype(np.float64), sample.confidence


def _by_row_order(name: str, loss: Array, confidence: Array) -> _Curve:
    """One point per sample; equal confidences in the order of the rows."""
    losses, scores = vectors(name, loss, confidence)
    n = len(losses)
    count = np.arange(1, n + 1)
    return _Curve(count / n, np.cumsum(losses[np.argsort(-scores, kind="stable")]) / count)


def _by_distinct(name: str, loss: Array, confidence: Array) -> _Curve:
    """One point per distinct confidence."""
    losses, scores = vectors(name, loss, confidence)
    rows = rows_of(losses, scores)
    return _Curve(rows.N / rows.W, rows.risk)


def _trapezoid(coverage: np.ndarray, risk: np.ndarray) -> float:
    return float(np.trapezoid(risk, coverage))


def row_order_aurc(loss: Array, confidence: Array, /) -> float:
    r"""Sort and cumulate: the mean of the n prefix risks, *row order*; lower is better.

    .. math:: \frac1n \sum_{k=1}^n \frac1k \sum_{i \le k} \ell_{(i)}

    Without ties this is `abstain.aurc`. With ties it depends on the order of the rows:

    Parameters
    ----------
    loss : array, shape (n,)
        One loss per sample, on the host.
    confidence : array, shape (n,)
        Higher is surer.

    Returns
    -------
    float
        The area; lower is better.

    Examples
    --------
    >>> row_order_aurc([1, 0], [0.5, 0.5]), row_order_aurc([0, 1], [0.5, 0.5])
    (0.75, 0.25)
    """
    return float(np.mean(_by_row_order("row_order_aurc", loss, confidence).risk))


def mapie_one_minus_auarc(loss: Array, confidence: Array, /) -> float:
    """MAPIE's area under the accuracy-rejection curve, taken from one: the mean of the prefix risks, *row
    order*.

    Equal to `abstain.aurc` when no confidences tie.

    Parameters
    ----------
    loss : array, shape (n,)
        One loss per sample, on the host.
    confidence : array, shape (n,)
        Higher is surer.

    Returns
    -------
    float
        The area; lower is better.

    Examples
    --------
    >>> round(mapie_one_minus_auarc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.29667
    """
    return float(np.mean(_by_row_order("mapie_one_minus_auarc", loss, confidence).risk))


def lm_polygraph_rcc_auc(loss: Array, confidence: Array, /) -> float:
    """LM-Polygraph's risk-coverage area: the mean of the prefix risks, *row order*.

    Equal to `abstain.aurc` when no confidences tie. The package takes an uncertainty: pass its negative here.

    Parameters
    ----------
    loss : array, shape (n,)
        One loss per sample, on the host.
    confidence : array, shape (n,)
        Higher is surer.

    Returns
    -------
    float
        The area; lower is better.

    Examples
    --------
    >>> round(lm_polygraph_rcc_auc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.29667
    """
    return float(np.mean(_by_row_order("lm_polygraph_rcc_auc", loss, confidence).risk))


def torch_uncertainty_aurc(loss: Array, confidence: Array, /) -> float:
    """torch-uncertainty's AURC: trapezoids between coverage 1/n and 1, divided by 1 - 1/n, *row order*.

    The first and the last prefix risk count half; coverage below 1/n is left out and the rest stretched over
    it. With one sample there is no trapezoid, which is an error here (NaN there).

    Parameters
    ----------
    loss : array, shape (n,)
        One loss per sample, on the host.
    confidence : array, shape (n,)
        Higher is surer.

    Returns
    -------
    float
        The area; lower is better.

    Examples
    --------
    >>> round(torch_uncertainty_aurc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.32083
    """
    curve = _by_row_order("torch_uncertainty_aurc", loss, confidence)
    return _stretched("torch_uncertainty_aurc", curve.coverage, curve.risk)


def torch_uncertainty_augrc(loss: Array, confidence: Array, /) -> float:
    """torch-uncertainty's AUGRC: the same trapezoids over the generalised risk, *row order*.

    Parameters
    ----------
    loss : array, shape (n,)
        One loss per sample, on the host.
    confidence : array, shape (n,)
        Higher is surer.

    Returns
    -------
    float
        The area; lower is better.

    Examples
    --------
    >>> round(torch_uncertainty_augrc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.2
    """
    curve = _by_row_order("torch_uncertainty_augrc", loss, confidence)
    return _stretched("torch_uncertainty_augrc", curve.coverage, curve.generalised)


def _stretched(name: str, coverage: np.ndarray, risk: np.ndarray) -> float:
    if len(risk) < 2:
        raise InputError(f"{name}: needs at least 2 samples (it is 0/0 for one), got 1. Use `abstain.aurc`.")
    return _trapezoid(coverage, risk) / (1 - 1 / len(risk))


def fd_shifts_aurc(loss: Array, confidence: Array, /) -> float:
    """FD-Shifts' AURC: trapezoids over distinct confidences, the top risk held flat to coverage 0.

    Ties are accepted together, as in ours; the curve is joined by straight lines instead of averaged over
    samples. FD-Shifts prints it times 1000.

    Parameters
    ----------
    loss : array, shape (n,)
        One loss per sample, on the host.
    confidence : array, shape (n,)
        Higher is surer.

    Returns
    -------
    float
        The area; lower is better.

    Examples
    --------
    >>> round(fd_shifts_aurc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.25667
    """
    coverage, risk = _by_distinct("fd_shifts_aurc", loss, confidence)
    return _trapezoid(np.append(0.0, coverage), np.append(risk[0], risk))


def fd_shifts_augrc(loss: Array, confidence: Array, /) -> float:
    """FD-Shifts' AUGRC: trapezoids of the generalised risk over distinct confidences, from 0 at coverage 0.

    Ours (the mean rule) is larger by half a step: it takes the risk after a sample is accepted, not midway.
    FD-Shifts prints it times 1000.

    Parameters
    ----------
    loss : array, shape (n,)
        One loss per sample, on the host.
    confidence : array, shape (n,)
        Higher is surer.

    Returns
    -------
    float
        The area; lower is better.

    Examples
    --------
    >>> round(fd_shifts_augrc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.16
    """
    curve = _by_distinct("fd_shifts_augrc", loss, confidence)
    return _trapezoid(np.append(0.0, curve.coverage), np.append(0.0, curve.generalised))


def origin_trapezoid_aurc(loss: Array, confidence: Array, /) -> float:
    """Trapezoids through an added point (0, 0), as FixSelectiveClassification has them, *row order*.

    Pulls the curve to risk 0 at coverage 0: a wrong sample on top counts less than in ours (all wrong is not
    1).

    Parameters
    ----------
    loss : array, shape (n,)
        One loss per sample, on the host.
    confidence : array, shape (n,)
        Higher is surer.

    Returns
    -------
    float
        The area; lower is better.

    Examples
    --------
    >>> round(origin_trapezoid_aurc([1, 1, 1], [0.9, 0.8, 0.7]), 5)
    0.83333
    """
    coverage, risk = _by_row_order("origin_trapezoid_aurc", loss, confidence)
    return _trapezoid(np.append(0.0, coverage), np.append(0.0, risk))


def seapig_aurc(loss: Array, confidence: Array, /) -> float:
    """seapig's selective-risk area: trapezoids between coverage 1/n and 1, nothing below 1/n, *row order*.

    Up to 100 samples, beyond which the package thins the curve out. It takes an uncertainty: pass its
    negative.

    Parameters
    ----------
    loss : array, shape (n,)
        One loss per sample, on the host.
    confidence : array, shape (n,)
        Higher is surer.

    Returns
    -------
    float
        The area; lower is better.

    Examples
    --------
    >>> round(seapig_aurc([1, 1, 1], [0.9, 0.8, 0.7]), 5)
    0.66667
    """
    return _trapezoid(*_by_row_order("seapig_aurc", loss, confidence))


def seapig_augrc(loss: Array, confidence: Array, /) -> float:
    """seapig's generalised-risk area: trapezoids between coverage 1/n and 1, *row order*; else as
    `seapig_aurc`.

    Parameters
    ----------
    loss : array, shape (n,)
        One loss per sample, on the host.
    confidence : array, shape (n,)
        Higher is surer.

    Returns
    -------
    float
        The area; lower is better.

    Examples
    --------
    >>> round(seapig_augrc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.16
    """
    curve = _by_row_order("seapig_augrc", loss, confidence)
    return _trapezoid(curve.coverage, curve.generalised)


def geifman_aurc(loss: Array, confidence: Array, /) -> float:
    r"""Geifman's published RC_curve: the mean of prefix risks with a denominator one too large, *row order*.

    .. math:: \frac1n \Bigl(\frac{S_n}{n} + \sum_{k=1}^{n-1} \frac{S_k}{k+1}\Bigr)

    Right at full coverage, too small everywhere else: all wrong is not 1. Equal confidences leave in the
    order of the rows, so the earlier of two counts as the less confident.

    Parameters
    ----------
    loss : array, shape (n,)
        One loss per sample, on the host.
    confidence : array, shape (n,)
        Higher is surer.

    Returns
    -------
    float
        The area; lower is better.

    Examples
    --------
    >>> round(geifman_aurc([1, 1, 1], [0.9, 0.8, 0.7]), 5)
    0.72222
    """
    losses, scores = vectors("geifman_aurc", loss, confidence)
    n = len(losses)
    accepted = np.cumsum(losses[np.argsort(scores, kind="stable")][::-1])  # loss of the k most confident
    divisor = np.minimum(np.arange(1, n + 1) + 1, n)
    return float(np.mean(accepted / divisor))


def literal_log_aurc(loss: Array, confidence: Array, /) -> float:
    r"""Log weights with the literal rank among ties, :math:`r_i = \#\{j : g_j \le g_i\}`; lower is better.

    .. math:: \frac1n \sum_i -\ln\Bigl(1 - \frac{r_i}{n+1}\Bigr)\,\ell_i

    All members of a tie get the weight of its top rank, so that a constant confidence gives ln(n+1) times
    the risk. `abstain.aurc(estimator="log")` gives them the mean weight of their ranks. Without ties the two
    agree.

    Parameters
    ----------
    loss : array, shape (n,)
        One loss per sample, on the host.
    confidence : array, shape (n,)
        Higher is surer.

    Returns
    -------
    float
        The area; lower is better.

    Examples
    --------
    >>> round(literal_log_aurc([1, 1], [0.5, 0.5]), 5)  # ln 3
    1.09861
    """
    losses, scores = vectors("literal_log_aurc", loss, confidence)
    rows = rows_of(losses, scores)
    rank = rows.W - rows.N + rows.m
    return float(np.sum(-np.log1p(-rank / (rows.W + 1)) * rows.L) / rows.W[0])


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
    _Convention("literal_log_aurc", literal_log_aurc, "log weights, largest rank in a tie", False),
    _Convention("row_order_aurc", row_order_aurc, _MEAN, True),
    _Convention("mapie_one_minus_auarc", mapie_one_minus_auarc, _MEAN, True),
    _Convention("lm_polygraph_rcc_auc", lm_polygraph_rcc_auc, _MEAN, True),
    _Convention(
        "torch_uncertainty_aurc", torch_uncertainty_aurc, "trapezoid on [1/n, 1], over 1 - 1/n", True
    ),
    _Convention("fd_shifts_aurc", fd_shifts_aurc, "trapezoid over distinct, flat to coverage 0", False),
    _Convention("origin_trapezoid_aurc", origin_trapezoid_aurc, "trapezoid from an added (0, 0)", True),
    _Convention("seapig_aurc", seapig_aurc, "trapezoid on [1/n, 1] only", True),
    _Convention("geifman_aurc", geifman_aurc, "prefix risks, denominator off by one", True),
    _Convention(
        "abstain.augrc", lambda l, g: float(augrc(l, g)), "mean generalised risk over samples", False
    ),
    _Convention(
        "torch_uncertainty_augrc", torch_uncertainty_augrc, "trapezoid on [1/n, 1], over 1 - 1/n", True
    ),
    _Convention("fd_shifts_augrc", fd_shifts_augrc, "trapezoid over distinct, from (0, 0)", False),
    _Convention("seapig_augrc", seapig_augrc, "trapezoid on [1/n, 1] only", True),
)


@dataclass(frozen=True)
class CompatRow:
    """One convention's number.

    Parameters
    ----------
    name : str
        The function that gives it.
    value : float or None
        None where that convention has no number (one sample).
    rule : str
        In a few words.
    row_order : bool
        Do ties make it depend on the order of the rows?

    Examples
    --------
    >>> table([0, 1], [0.9, 0.5]).rows[0]
    CompatRow(name='abstain.aurc', value=0.25, rule='mean selective risk over samples, ties together', row_order=False)
    """

    name: str
    value: float | None
    rule: str
    row_order: bool


@dataclass(frozen=True)
class CompatTable:
    """Every convention's number on the same samples; `table[name]` is one of them.

    Parameters
    ----------
    rows : tuple of CompatRow
        One per convention.
    tied : bool
        Do confidences tie, so that numbers by row order are arbitrary?

    Examples
    --------
    >>> shown = table([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5])
    >>> shown.tied, round(shown["geifman_aurc"], 4)
    (False, 0.2367)
    """

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

    Parameters
    ----------
    loss : array, shape (n,)
        One loss per sample, on the host.
    confidence : array, shape (n,)
        Higher is surer.

    Returns
    -------
    CompatTable
        Printed, it says of each number how it comes about.

    Examples
    --------
    >>> shown = table([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5])
    >>> round(shown["abstain.aurc"], 5), round(shown["torch_uncertainty_aurc"], 5)
    (0.29667, 0.32083)
    """
    losses, scores = vectors("compat.table", loss, confidence)
    rows = tuple(_row(each, losses, scores) for each in _CONVENTIONS)
    return CompatTable(rows, len(np.unique(scores)) < len(scores))


def _row(convention: _Convention, loss: np.ndarray, confidence: np.ndarray) -> CompatRow:
    undefined = len(loss) < 2 and convention.name.startswith("torch_uncertainty")
    value = None if undefined else convention.function(loss, confidence)
    return CompatRow(convention.name, value, convention.rule, convention.row_order)
