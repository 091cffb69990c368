"""The AURC numbers of other packages, under explicit names: find the one you had and see why it differs.

All take a loss and a confidence (higher = surer) for each sample; packages that ask for an uncertainty get its
negative. Ours, `abstain.aurc`, is the mean over samples of the selective risk at each one's confidence, equal
confidences accepted together. Functions marked *row order* sort and cumulate without regard to ties, as the package
does: equal confidences stand in the order of the rows, and shuffling the rows changes the number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from abstain._arrays import Array
from abstain.core.rows import rows_from_numpy
from abstain.errors import DtypeError, InputError
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


def vectors(name: str, loss: Array, confidence: Array) -> tuple[np.ndarray, np.ndarray]:
    """Checked loss and confidence as numpy vectors."""
    sample = prepare(name, loss, confidence, vector=True)
    if not sample.backend.host:
        raise DtypeError(
            f"{name}: takes arrays on the host, got one on a device. Copy it over first, `x.cpu()`."
        )
    return sample.loss.astype(np.float64), sample.confidence


Curve = tuple[np.ndarray, np.ndarray]  # coverage and risk, from the most confident down


def _by_row_order(name: str, loss: Array, confidence: Array) -> Curve:
    """One point per sample; equal confidences in the order of the rows."""
    losses, confidences = vectors(name, loss, confidence)
    n = len(losses)
    count = np.arange(1, n + 1)
    return count / n, np.cumsum(losses[np.argsort(-confidences, kind="stable")]) / count


def _by_distinct(name: str, loss: Array, confidence: Array) -> Curve:
    """One point per distinct confidence."""
    rows = rows_from_numpy(*vectors(name, loss, confidence))
    return rows.accepted_mass / rows.total_mass, rows.risk


def _generalised(curve: Curve) -> Curve:
    coverage, risk = curve
    return coverage, risk * coverage


def _trapezoid(curve: Curve, start: tuple[Any, Any] = ((), ())) -> float:
    """The area below straight lines, from an added point on where one is given."""
    coverage, risk = (np.append(first, rest) for first, rest in zip(start, curve))
    return float(np.trapezoid(risk, coverage))


def row_order_aurc(loss: Array, confidence: Array, /) -> float:
    r"""Sort and cumulate: the mean of the n prefix risks, *row order*; lower is better.

    .. math:: \frac1n \sum_{k=1}^n \frac1k \sum_{i \le k} \ell_{(i)}

    Without ties this is `abstain.aurc`. With ties it depends on the order of the rows:

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> row_order_aurc([1, 0], [0.5, 0.5]), row_order_aurc([0, 1], [0.5, 0.5])
    (0.75, 0.25)
    """
    return float(np.mean(_by_row_order("row_order_aurc", loss, confidence)[1]))


def mapie_one_minus_auarc(loss: Array, confidence: Array, /) -> float:
    r"""MAPIE's area under the accuracy-rejection curve, taken from one: the mean of the prefix risks, *row order*.

    .. math:: \frac1n \sum_{k=1}^n \frac{S_k}{k}

    with :math:`S_k` the loss of the k most confident. Equal to `abstain.aurc` when no confidences tie.

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> round(mapie_one_minus_auarc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.29667
    """
    return float(np.mean(_by_row_order("mapie_one_minus_auarc", loss, confidence)[1]))


def lm_polygraph_rcc_auc(loss: Array, confidence: Array, /) -> float:
    r"""LM-Polygraph's risk-coverage area: the mean of the prefix risks, *row order*.

    .. math:: \frac1n \sum_{k=1}^n \frac{S_k}{k}

    with :math:`S_k` the loss of the k most confident. Equal to `abstain.aurc` when no confidences tie. The package
    takes an uncertainty: pass its negative here.

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> round(lm_polygraph_rcc_auc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.29667
    """
    return float(np.mean(_by_row_order("lm_polygraph_rcc_auc", loss, confidence)[1]))


def torch_uncertainty_aurc(loss: Array, confidence: Array, /) -> float:
    r"""torch-uncertainty's AURC: trapezoids between coverage 1/n and 1, divided by 1 - 1/n, *row order*.

    .. math:: \frac{1}{1 - 1/n} \int_{1/n}^1 r(c)\,dc

    The first and the last prefix risk count half; coverage below 1/n is left out and the rest stretched over
    it. With one sample there is no trapezoid, which is an error here (NaN there).

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> round(torch_uncertainty_aurc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.32083
    """
    return _stretched("torch_uncertainty_aurc", _by_row_order("torch_uncertainty_aurc", loss, confidence))


def torch_uncertainty_augrc(loss: Array, confidence: Array, /) -> float:
    r"""torch-uncertainty's AUGRC: the same trapezoids over the generalised risk, *row order*.

    .. math:: \frac{1}{1 - 1/n} \int_{1/n}^1 c\,r(c)\,dc

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> round(torch_uncertainty_augrc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.2
    """
    name = "torch_uncertainty_augrc"
    return _stretched(name, _generalised(_by_row_order(name, loss, confidence)))


def _stretched(name: str, curve: Curve) -> float:
    n = len(curve[0])
    if n < 2:
        raise InputError(f"{name}: needs at least 2 samples (it is 0/0 for one), got 1. Use `abstain.aurc`.")
    return _trapezoid(curve) / (1 - 1 / n)


def fd_shifts_aurc(loss: Array, confidence: Array, /) -> float:
    r"""FD-Shifts' AURC: trapezoids over distinct confidences, the top risk held flat to coverage 0.

    .. math:: \int_0^1 r(c)\,dc

    Ties are accepted together, as in ours; the curve is joined by straight lines instead of averaged over
    samples. FD-Shifts prints it times 1000.

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> round(fd_shifts_aurc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.25667
    """
    curve = _by_distinct("fd_shifts_aurc", loss, confidence)
    return _trapezoid(curve, start=(0.0, curve[1][0]))


def fd_shifts_augrc(loss: Array, confidence: Array, /) -> float:
    r"""FD-Shifts' AUGRC: trapezoids of the generalised risk over distinct confidences, from 0 at coverage 0.

    .. math:: \int_0^1 c\,r(c)\,dc

    Ours (the mean rule) is larger by half a step: it takes the risk after a sample is accepted, not midway.
    FD-Shifts prints it times 1000.

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> round(fd_shifts_augrc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.16
    """
    return _trapezoid(_generalised(_by_distinct("fd_shifts_augrc", loss, confidence)), start=(0.0, 0.0))


def origin_trapezoid_aurc(loss: Array, confidence: Array, /) -> float:
    r"""Trapezoids through an added point (0, 0), as FixSelectiveClassification has them, *row order*.

    .. math:: \int_0^1 r(c)\,dc, \qquad r(0) = 0

    Pulls the curve to risk 0 at coverage 0: a wrong sample on top counts less than in ours (all wrong is not 1).

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> round(origin_trapezoid_aurc([1, 1, 1], [0.9, 0.8, 0.7]), 5)
    0.83333
    """
    return _trapezoid(_by_row_order("origin_trapezoid_aurc", loss, confidence), start=(0.0, 0.0))


def seapig_aurc(loss: Array, confidence: Array, /) -> float:
    r"""seapig's selective-risk area: trapezoids between coverage 1/n and 1, nothing below 1/n, *row order*.

    .. math:: \int_{1/n}^1 r(c)\,dc

    Up to 100 samples, beyond which the package thins the curve out. It takes an uncertainty: pass its
    negative.

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> round(seapig_aurc([1, 1, 1], [0.9, 0.8, 0.7]), 5)
    0.66667
    """
    return _trapezoid(_by_row_order("seapig_aurc", loss, confidence))


def seapig_augrc(loss: Array, confidence: Array, /) -> float:
    r"""seapig's generalised-risk area: trapezoids between coverage 1/n and 1, *row order*; else as `seapig_aurc`.

    .. math:: \int_{1/n}^1 c\,r(c)\,dc

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> round(seapig_augrc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5)
    0.16
    """
    return _trapezoid(_generalised(_by_row_order("seapig_augrc", loss, confidence)))


def geifman_aurc(loss: Array, confidence: Array, /) -> float:
    r"""Geifman's published RC_curve: the mean of prefix risks with a denominator one too large, *row order*.

    .. math:: \frac1n \Bigl(\frac{S_n}{n} + \sum_{k=1}^{n-1} \frac{S_k}{k+1}\Bigr)

    Right at full coverage, too small everywhere else: all wrong is not 1. Equal confidences leave in the
    order of the rows, so the earlier of two counts as the less confident.

    Parameters
    ----------
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> round(geifman_aurc([1, 1, 1], [0.9, 0.8, 0.7]), 5)
    0.72222
    """
    losses, confidences = vectors("geifman_aurc", loss, confidence)
    n = len(losses)
    accepted = np.cumsum(losses[np.argsort(confidences, kind="stable")][::-1])  # loss of the k most confident
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
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    >>> round(literal_log_aurc([1, 1], [0.5, 0.5]), 5)  # ln 3
    1.09861
    """
    rows = rows_from_numpy(*vectors("literal_log_aurc", loss, confidence))
    rank = rows.total_mass - rows.accepted_mass + rows.mass
    return float(np.sum(-np.log1p(-rank / (rows.total_mass + 1)) * rows.loss) / rows.total_mass[0])


_MEAN = "mean of the n prefix risks"
_ESTIMATORS: dict[Any, str] = {
    "log": "weights -ln(1 - r/(n+1))",
    "loo": "selective risk of the other samples",
    "sele": "weights r/n",
    "2sele": "weights 2r/n",
}
# name: the function, its rule, and whether equal confidences stand in the order of the rows
_CONVENTIONS: dict[str, tuple[Callable[[Array, Array], float], str, bool]] = {
    "abstain.aurc": (aurc, "mean selective risk over samples, ties together", False),
    **{
        f'abstain.aurc(estimator="{e}")': (partial(aurc, estimator=e), rule, False)
        for e, rule in _ESTIMATORS.items()
    },
    "literal_log_aurc": (literal_log_aurc, "log weights, largest rank in a tie", False),
    "row_order_aurc": (row_order_aurc, _MEAN, True),
    "mapie_one_minus_auarc": (mapie_one_minus_auarc, _MEAN, True),
    "lm_polygraph_rcc_auc": (lm_polygraph_rcc_auc, _MEAN, True),
    "torch_uncertainty_aurc": (torch_uncertainty_aurc, "trapezoid on [1/n, 1], over 1 - 1/n", True),
    "fd_shifts_aurc": (fd_shifts_aurc, "trapezoid over distinct, flat to coverage 0", False),
    "origin_trapezoid_aurc": (origin_trapezoid_aurc, "trapezoid from an added (0, 0)", True),
    "seapig_aurc": (seapig_aurc, "trapezoid on [1/n, 1] only", True),
    "geifman_aurc": (geifman_aurc, "prefix risks, denominator off by one", True),
    "abstain.augrc": (augrc, "mean generalised risk over samples", False),
    "torch_uncertainty_augrc": (torch_uncertainty_augrc, "trapezoid on [1/n, 1], over 1 - 1/n", True),
    "fd_shifts_augrc": (fd_shifts_augrc, "trapezoid over distinct, from (0, 0)", False),
    "seapig_augrc": (seapig_augrc, "trapezoid on [1/n, 1] only", True),
}


@dataclass(frozen=True)
class CompatRow:
    """One convention's number.

    Attributes
    ----------
    name : str
        The function.
    value : float or None
        None where that convention has none (one sample).
    rule : str
        How it is worked out, in words.
    row_order : bool
        Do equal confidences stand in the order of the rows?

    Examples
    --------
    >>> table([0, 1], [0.9, 0.8]).rows[0]
    CompatRow(name='abstain.aurc', value=0.25, rule='mean selective risk over samples, ties together', row_order=False)
    """

    name: str
    value: float | None
    rule: str
    row_order: bool


@dataclass(frozen=True)
class CompatTable:
    """Every convention's number on the same samples; `table[name]` is one of them.

    Attributes
    ----------
    rows : tuple of CompatRow
        One for each convention.
    tied : bool
        Do any confidences tie?

    Examples
    --------
    >>> table([0, 1], [0.9, 0.8])["seapig_aurc"]
    0.125
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
    loss, confidence : array, shape (n,)
        Of each sample; higher confidence = surer.

    Returns
    -------
    CompatTable
        One row for each convention; `table(...)[name]` is one number.

    Examples
    --------
    >>> shown = table([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5])
    >>> round(shown["abstain.aurc"], 5), round(shown["torch_uncertainty_aurc"], 5)
    (0.29667, 0.32083)
    """
    losses, confidences = vectors("compat.table", loss, confidence)
    rows = []
    for name, (function, rule, row_order) in _CONVENTIONS.items():
        undefined = len(losses) < 2 and name.startswith("torch_uncertainty")
        rows.append(CompatRow(name, None if undefined else function(losses, confidences), rule, row_order))
    return CompatTable(tuple(rows), len(np.unique(confidences)) < len(confidences))
