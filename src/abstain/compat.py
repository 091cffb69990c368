"""The numbers of other packages, under explicit names: find the one you used and see why it differs.

All functions take a loss and a confidence (higher = surer) for each sample; for a package that takes an uncertainty,
pass its negative. Ours, `abstain.aurc`, is the mean over samples of the selective risk at each sample's confidence,
equal confidences accepted together. Functions that take equals in the order of the input sort and cumulate without
regard to ties, as the package does: equal confidences stay in the order of the input, and shuffling the samples changes
the number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, ArrayLike
from abstain._check import check_row_order
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
    "hle_calibration_error",
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


def check_vectors(name: str, loss: ArrayLike, confidence: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return losses (float64) and confidences as numpy vectors of the same length, at least 1, if they are valid.

    `name` is the function in error messages. The confidences are real numbers of any dtype. Raises DtypeError for
    arrays on a device, ShapeError or InputError for arrays that are not such vectors or not finite.
    """
    check_row_order(name, {"loss": loss, "confidence": confidence})  # raises for columns in different orders
    # the arrays checked and on one library, in the order of the input
    sample = prepare(name, loss, confidence, vector=True)
    if not sample.backend.is_host:
        raise DtypeError(
            f"{name}: takes arrays on the host, got one on a device. Copy it first, e.g. `x.cpu()`."
        )
    return sample.loss.astype(np.float64), sample.confidence


class Curve(NamedTuple):
    """Points of a curve, most confident first: the coverage at each, and the risk (or generalised risk) there."""

    coverage: np.ndarray
    risk: np.ndarray


def _curve_by_sample(name: str, loss: Array, confidence: Array) -> Curve:
    """Compute the curve with one point per sample; equal confidences stay in the order of the input."""
    losses, confidences = check_vectors(name, loss, confidence)
    most_confident_first = np.argsort(-confidences, kind="stable")
    accepted_count = np.arange(1, len(losses) + 1)
    accepted_loss = np.cumsum(losses[most_confident_first])
    return Curve(coverage=accepted_count / len(losses), risk=accepted_loss / accepted_count)


def _curve_by_confidence(name: str, loss: Array, confidence: Array) -> Curve:
    """Compute the curve with one point per distinct confidence."""
    losses, confidences = check_vectors(name, loss, confidence)
    rows = rows_from_numpy(losses, confidences)
    return Curve(coverage=rows.accepted_mass / rows.total_mass, risk=rows.risk)


def _with_generalised_risk(curve: Curve) -> Curve:
    """Replace the risk by the generalised risk, risk times coverage."""
    return Curve(curve.coverage, curve.risk * curve.coverage)


def _trapezoid_area(curve: Curve, extra_first_point: tuple[float, float] | None = None) -> float:
    """Compute the area below straight lines between the points, `extra_first_point` (coverage, risk) before them."""
    coverage, risk = curve
    if extra_first_point is not None:
        first_coverage, first_risk = extra_first_point
        coverage = np.append(first_coverage, coverage)
        risk = np.append(first_risk, risk)
    return float(np.trapezoid(y=risk, x=coverage))


def _mean_prefix_risk(name: str, loss: Array, confidence: Array) -> float:
    """Compute the mean of the risks of the 1, 2, ... n most confident samples, in input order among ties."""
    return float(np.mean(_curve_by_sample(name, loss, confidence).risk))


def row_order_aurc(loss: ArrayLike, confidence: ArrayLike, /) -> float:
    r"""Sort and cumulate: the mean risk of the 1, 2, ... n most confident samples.

    Equal confidences stay in the order of the input.

    .. math:: \frac1n \sum_{k=1}^n \frac1k \sum_{i \le k} \ell_{(i)}

    Without ties this is `abstain.aurc`. With ties it depends on the order of the input, as the example shows.

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
    # checks and sorts the samples, stably, and averages the risks of the first 1, 2, ... n; the name is for messages
    return _mean_prefix_risk("row_order_aurc", loss, confidence)


def mapie_one_minus_auarc(loss: ArrayLike, confidence: ArrayLike, /) -> float:
    r"""One minus MAPIE's area under the accuracy-rejection curve: the mean of the prefix risks.

    Equal confidences stay in the order of the input.

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
    # checks and sorts the samples, stably, and averages the risks of the first 1, 2, ... n; the name is for messages
    return _mean_prefix_risk("mapie_one_minus_auarc", loss, confidence)


def lm_polygraph_rcc_auc(loss: ArrayLike, confidence: ArrayLike, /) -> float:
    r"""LM-Polygraph's risk-coverage area: the mean of the prefix risks.

    Equal confidences stay in the order of the input.

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
    # checks and sorts the samples, stably, and averages the risks of the first 1, 2, ... n; the name is for messages
    return _mean_prefix_risk("lm_polygraph_rcc_auc", loss, confidence)


def torch_uncertainty_aurc(loss: ArrayLike, confidence: ArrayLike, /) -> float:
    r"""torch-uncertainty's AURC: trapezoids between coverage 1/n and 1, divided by 1 - 1/n.

    Equal confidences stay in the order of the input.

    .. math:: \frac{1}{1 - 1/n} \int_{1/n}^1 r(c)\,dc

    The first and the last prefix risk count half. Coverage below 1/n is left out, and the area is scaled up to make up
    for it. With one sample there is no trapezoid, which is an error here (NaN in the package).

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
    name = "torch_uncertainty_aurc"  # for messages; InputError for a single sample
    # the curve has one point (coverage, risk) per sample, the first at coverage 1/n; its area is divided by 1 - 1/n
    return _scaled_trapezoid_area(name, _curve_by_sample(name, loss, confidence))


def torch_uncertainty_augrc(loss: ArrayLike, confidence: ArrayLike, /) -> float:
    r"""torch-uncertainty's AUGRC: trapezoids of the generalised risk between coverage 1/n and 1.

    Equal confidences stay in the order of the input.

    .. math:: \frac{1}{1 - 1/n} \int_{1/n}^1 c\,r(c)\,dc

    With one sample there is no trapezoid, which is an error here (NaN in the package).

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
    name = "torch_uncertainty_augrc"  # for messages; InputError for a single sample
    # the curve has one point (coverage, coverage times risk) per sample, the first at coverage 1/n; its area is divided
    # by 1 - 1/n
    return _scaled_trapezoid_area(name, _with_generalised_risk(_curve_by_sample(name, loss, confidence)))


def _scaled_trapezoid_area(name: str, curve: Curve) -> float:
    """Divide the trapezoid area by the coverage it spans, 1 - 1/n; raise InputError for a single sample."""
    n = len(curve.coverage)  # one point per sample, from coverage 1/n to 1
    if n < 2:
        raise InputError(f"{name}: needs at least 2 samples (it is 0/0 for one), got 1. Use `abstain.aurc`.")
    return _trapezoid_area(curve) / (1 - 1 / n)


def fd_shifts_aurc(loss: ArrayLike, confidence: ArrayLike, /) -> float:
    r"""FD-Shifts' AURC: trapezoids over distinct confidences, the risk at the top extended to coverage 0.

    .. math:: \int_0^1 r(c)\,dc

    Ties are accepted together, as in ours; but the points of the curve are joined by straight lines instead of averaged
    over samples. FD-Shifts prints it times 1000.

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
    # points (coverage, risk), one per distinct confidence
    curve = _curve_by_confidence("fd_shifts_aurc", loss, confidence)
    first_risk = curve.risk[0]  # of the most confident samples
    return _trapezoid_area(curve, extra_first_point=(0.0, first_risk))


def fd_shifts_augrc(loss: ArrayLike, confidence: ArrayLike, /) -> float:
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
    # points (coverage, coverage times risk), one per distinct confidence
    curve = _with_generalised_risk(_curve_by_confidence("fd_shifts_augrc", loss, confidence))
    return _trapezoid_area(curve, extra_first_point=(0.0, 0.0))


def origin_trapezoid_aurc(loss: ArrayLike, confidence: ArrayLike, /) -> float:
    r"""Trapezoids through an added point (0, 0), as FixSelectiveClassification has them.

    Equal confidences stay in the order of the input.

    .. math:: \int_0^1 r(c)\,dc, \qquad r(0) = 0

    The curve starts at risk 0 for coverage 0, so a wrong sample at the top counts less than in ours: if all samples are
    wrong, the area is not 1.

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
    # the curve has one point (coverage, risk) per sample, the first at coverage 1/n
    return _trapezoid_area(
        _curve_by_sample("origin_trapezoid_aurc", loss, confidence), extra_first_point=(0.0, 0.0)
    )


def seapig_aurc(loss: ArrayLike, confidence: ArrayLike, /) -> float:
    r"""seapig's selective-risk area: trapezoids between coverage 1/n and 1, nothing below 1/n.

    Equal confidences stay in the order of the input.

    .. math:: \int_{1/n}^1 r(c)\,dc

    This holds up to 100 samples; with more, the package leaves out points of the curve. It takes an uncertainty: pass
    its negative here.

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
    # the curve has one point (coverage, risk) per sample, the first at coverage 1/n
    return _trapezoid_area(_curve_by_sample("seapig_aurc", loss, confidence))


def seapig_augrc(loss: ArrayLike, confidence: ArrayLike, /) -> float:
    r"""seapig's generalised-risk area: trapezoids between coverage 1/n and 1, nothing below 1/n.

    Equal confidences stay in the order of the input.

    .. math:: \int_{1/n}^1 c\,r(c)\,dc

    This holds up to 100 samples; with more, the package leaves out points of the curve. It takes an uncertainty: pass
    its negative here.

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
    # the curve has one point (coverage, coverage times risk) per sample, the first at coverage 1/n
    return _trapezoid_area(_with_generalised_risk(_curve_by_sample("seapig_augrc", loss, confidence)))


def geifman_aurc(loss: ArrayLike, confidence: ArrayLike, /) -> float:
    r"""Geifman's published RC_curve: the mean of prefix risks with a denominator one too large.

    Equal confidences are accepted in reverse order of the input, the last one first.

    .. math:: \frac1n \Bigl(\frac{S_n}{n} + \sum_{k=1}^{n-1} \frac{S_k}{k+1}\Bigr)

    S_k is the loss of the k samples that are accepted first. The last term, at full coverage, is correct; all
    others are too small: if all samples are wrong, the result is not 1.

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
    losses, confidences = check_vectors("geifman_aurc", loss, confidence)
    n = len(losses)
    # reversed after sorting, unlike in the other functions: among equals the last sample comes first
    most_confident_first = np.argsort(confidences, kind="stable")[::-1]
    accepted_loss = np.cumsum(losses[most_confident_first])
    divisor = np.minimum(np.arange(1, n + 1) + 1, n)  # k + 1 instead of k, but n for the last
    return float(np.mean(accepted_loss / divisor))


def literal_log_aurc(loss: ArrayLike, confidence: ArrayLike, /) -> float:
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
    losses, confidences = check_vectors("literal_log_aurc", loss, confidence)
    # One row per distinct confidence, most confident first: its number of samples (`mass`), the sum of their losses,
    # and the number of samples down to it (`accepted_mass`). `total_mass`, a vector of one entry, is that of all.
    rows = rows_from_numpy(losses, confidences)
    rank = rows.total_mass - rows.accepted_mass + rows.mass  # how many samples are at most as confident
    weight = -np.log1p(-rank / (rows.total_mass + 1))
    return float(np.sum(weight * rows.loss) / rows.total_mass[0])


_HLE_BIN_SIZE = 100  # answers per bin in the published code


def hle_calibration_error(correct: ArrayLike, confidence: ArrayLike, /) -> float:
    r"""RMS calibration error as Humanity's Last Exam reports it: bins of 100 by confidence, the last one left out.

    .. math:: \sqrt{\sum_{k=1}^{K-1} \frac{100}{n} (\bar p_k - \bar y_k)^2}, \qquad K = \lfloor n/100 \rfloor

    Three things to know about this number. The published loop ends before the last bin, which holds the most confident
    100 to 199 answers, but still divides by all n; with fewer than 200 answers nothing is counted and the result is 0.
    Equal confidences, of which stated ones have many, are split between bins as numpy's default sort leaves them, which
    depends on the order of the input (and on the version of numpy). And sampling error is not subtracted, so calibrated
    confidences get about 0.05. `abstain.calibration.calibration_error` has none of the three.

    Parameters
    ----------
    correct : array, shape (n,)
        1 for a right answer, 0 for a wrong one.
    confidence : array, shape (n,)
        The stated probability, from 0 to 1. (HLE prints the result times 100.)

    Returns
    -------
    float
        Lower is better.

    Raises
    ------
    InputError
        With fewer than 100 answers, where the published code fails.

    Examples
    --------
    >>> correct = [1] * 100 + [0] * 100
    >>> stated = [0.9] * 100 + [0.2] * 100
    >>> round(hle_calibration_error(correct, stated), 6)  # of the two bins only the less confident one counts
    0.141421
    """
    # float vectors of one length, checked to be finite; the name is for messages
    right, stated = check_vectors("hle_calibration_error", correct, confidence)
    n = len(right)
    bin_count = n // _HLE_BIN_SIZE
    if bin_count == 0:
        raise InputError(
            f"hle_calibration_error: needs at least {_HLE_BIN_SIZE} answers, got {n}. Use "
            f"`abstain.calibration.calibration_error`."
        )
    least_confident_first = np.argsort(stated)  # not a stable sort, as in the published code
    # indices of the answers, one line per bin; the last bin is left out
    counted = least_confident_first[: (bin_count - 1) * _HLE_BIN_SIZE].reshape(bin_count - 1, _HLE_BIN_SIZE)
    # of each bin: mean stated probability less the share of right answers
    gap = stated[counted].mean(axis=1) - right[counted].mean(axis=1)
    return float(np.sqrt(np.sum(_HLE_BIN_SIZE / n * gap**2)))


_MEAN_PREFIX_RISK = "mean of the n prefix risks"
_RULE_OF_ESTIMATOR: dict[Any, str] = {
    "log": "weights -ln(1 - r/(n+1))",
    "loo": "selective risk of the other samples",
    "sele": "weights r/n",
    "2sele": "weights 2r/n",
}


class _Convention(NamedTuple):
    """A function of losses and confidences, and its rule in words.

    `depends_on_row_order` says whether the order of equal confidences in the input changes the number.
    """

    function: Callable[[Array, Array], float]
    rule: str
    depends_on_row_order: bool


_CONVENTIONS = {
    "abstain.aurc": _Convention(
        aurc, "mean selective risk over samples, ties together", depends_on_row_order=False
    ),
    **{
        f'abstain.aurc(estimator="{estimator}")': _Convention(
            partial(aurc, estimator=estimator), rule, depends_on_row_order=False
        )
        for estimator, rule in _RULE_OF_ESTIMATOR.items()
    },
    "literal_log_aurc": _Convention(
        literal_log_aurc, "log weights, largest rank in a tie", depends_on_row_order=False
    ),
    "row_order_aurc": _Convention(row_order_aurc, _MEAN_PREFIX_RISK, depends_on_row_order=True),
    "mapie_one_minus_auarc": _Convention(mapie_one_minus_auarc, _MEAN_PREFIX_RISK, depends_on_row_order=True),
    "lm_polygraph_rcc_auc": _Convention(lm_polygraph_rcc_auc, _MEAN_PREFIX_RISK, depends_on_row_order=True),
    "torch_uncertainty_aurc": _Convention(
        torch_uncertainty_aurc, "trapezoid on [1/n, 1], over 1 - 1/n", depends_on_row_order=True
    ),
    "fd_shifts_aurc": _Convention(
        fd_shifts_aurc, "trapezoid over distinct, flat to coverage 0", depends_on_row_order=False
    ),
    "origin_trapezoid_aurc": _Convention(
        origin_trapezoid_aurc, "trapezoid from an added (0, 0)", depends_on_row_order=True
    ),
    "seapig_aurc": _Convention(seapig_aurc, "trapezoid on [1/n, 1] only", depends_on_row_order=True),
    "geifman_aurc": _Convention(
        geifman_aurc, "prefix risks, denominator off by one", depends_on_row_order=True
    ),
    "abstain.augrc": _Convention(augrc, "mean generalised risk over samples", depends_on_row_order=False),
    "torch_uncertainty_augrc": _Convention(
        torch_uncertainty_augrc, "trapezoid on [1/n, 1], over 1 - 1/n", depends_on_row_order=True
    ),
    "fd_shifts_augrc": _Convention(
        fd_shifts_augrc, "trapezoid over distinct, from (0, 0)", depends_on_row_order=False
    ),
    "seapig_augrc": _Convention(seapig_augrc, "trapezoid on [1/n, 1] only", depends_on_row_order=True),
}


@dataclass(frozen=True)
class CompatRow:
    """The number of one convention.

    Attributes
    ----------
    name : str
        The function.
    value : float or None
        Its value; None if it is undefined (for a single sample).
    rule : str
        How it is computed, in words.
    row_order : bool
        True if the number depends on the order of equal confidences in the input.

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
    """The numbers of all conventions on the same samples; `table[name]` is one of them.

    Attributes
    ----------
    rows : tuple of CompatRow
        One for each convention.
    tied : bool
        True if any confidences are equal.

    Examples
    --------
    >>> table([0, 1], [0.9, 0.8])["seapig_aurc"]
    0.125
    """

    rows: tuple[CompatRow, ...]
    tied: bool

    def __getitem__(self, name: str) -> float | None:
        values = {row.name: row.value for row in self.rows}
        return values[name]

    def __repr__(self) -> str:
        lines = [f"{'value':>9}  {'function':<32}rule"]
        for row in self.rows:
            value = "undefined" if row.value is None else f"{row.value:9.5f}"
            warning = " (here: depends on the row order)" if row.row_order and self.tied else ""
            lines.append(f"{value:>9}  {row.name:<32}{row.rule}{warning}")
        return "\n".join(lines)


def table(loss: ArrayLike, confidence: ArrayLike, /) -> CompatTable:
    """Compute the numbers of all conventions on the same samples.

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
    >>> conventions = table([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5])
    >>> round(conventions["abstain.aurc"], 5), round(conventions["torch_uncertainty_aurc"], 5)
    (0.29667, 0.32083)
    """
    losses, confidences = check_vectors("compat.table", loss, confidence)
    rows = []
    # name -> its function of losses and confidences, its rule in words, and whether the order of ties counts
    for name, convention in _CONVENTIONS.items():
        # torch-uncertainty needs two samples; all other conventions are defined for one
        is_undefined = len(losses) < 2 and name.startswith("torch_uncertainty")
        value = None if is_undefined else convention.function(losses, confidences)
        row = CompatRow(
            name=name, value=value, rule=convention.rule, row_order=convention.depends_on_row_order
        )
        rows.append(row)
    has_ties = len(np.unique(confidences)) < len(confidences)
    return CompatTable(rows=tuple(rows), tied=has_ties)
