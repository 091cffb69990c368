r"""Influence functions: how much one sample moves a metric, by cumulative sums after the one sort.

For a metric T of the weights w, with W their sum, the influence of sample i is the derivative of T when a
little mass is taken evenly from all samples and given to i (Gateaux's derivative, at the sample):

.. math:: \mathrm{IF}_i = W\,\partial T/\partial w_i - \sum_j w_j\,\partial T/\partial w_j,
          \qquad \sum_i w_i\,\mathrm{IF}_i = 0

and the standard error is :math:`\sqrt{\sum_i (w_i \mathrm{IF}_i)^2} / W`. Every metric here is linear in the
losses once the ranking is given, so within a row of equal confidence the influence is `const + slope * loss`,
where the slope of an area is its rank weight. Rows lie along the last axis; leading axes are batches. numpy
only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abstain._arrays import Array
from abstain.core import detection
from abstain.core.estimators import area
from abstain.core.oracle import asymptotic_oracle
from abstain.core.rows import Rows
from abstain.core.special import harmonic_difference, log_factorial_difference
from abstain.core.weights import row_weights


class Influence(NamedTuple):
    """An estimate and, for each row, the influence `const + slope * loss` of a member of that row."""

    estimate: Array
    const: Array
    slope: Array

    def scaled(self, by: Array) -> Influence:
        """Estimate and influences times a number."""
        column = np.asarray(by)[..., None]
        return Influence(by * self.estimate, column * self.const, column * self.slope)


def minus(a: Influence, b: Influence) -> Influence:
    """Influence of a difference of two metrics of the same rows."""
    return Influence(a.estimate - b.estimate, a.const - b.const, a.slope - b.slope)


def ratio(a: Influence, b: Influence, least: Array) -> Influence:
    """Influence of the quotient a / b (delta method); value and influence 0 where `b` is at most `least`."""
    some = b.estimate > least
    unit = np.where(some, 1.0, 0.0) / np.where(some, b.estimate, 1.0)
    value = a.estimate * unit
    return minus(a, b.scaled(value)).scaled(unit)._replace(estimate=value)


def second_moment(influence: Influence, w2: Array, w2l: Array, w2ll: Array) -> Array:
    """Sum of (w IF)^2 from the rows' sums of w^2, w^2 l, w^2 l^2: at the row's mean loss, and around it."""
    mean = w2l / _some(w2)
    middle = influence.const + influence.slope * mean
    return np.sum(w2 * middle**2 + influence.slope**2 * np.maximum(w2ll - mean * w2l, 0.0), axis=-1)


def zero_one_fourth_moment(influence: Influence, rows: Rows) -> Array:
    """Sum of IF^4 over unweighted 0/1 losses."""
    right, wrong = influence.const, influence.const + influence.slope
    return np.sum((rows.m - rows.L) * right**4 + rows.L * wrong**4, axis=-1)


# areas ------------------------------------------------------------------------------------------------------


def of_area(rows: Rows, estimator: str = "harmonic", ties: str = "threshold") -> Influence:
    """AURC by any estimator; "sele" is AUGRC."""
    slope = row_weights(rows, estimator, ties)
    at_or_below, own = _mass_terms(rows, estimator, ties)
    const = own if at_or_below is None else own + np.cumsum(at_or_below[..., ::-1], axis=-1)[..., ::-1]
    return centred(rows, Influence(area(rows, estimator, ties), const, slope))


def centred(rows: Rows, raw: Influence) -> Influence:
    """Take the mean off the derivatives: mass given to one sample is taken from all."""
    mean = np.sum(rows.m * raw.const + rows.L * raw.slope, axis=-1, keepdims=True) / rows.W
    return raw._replace(const=raw.const - mean)


def _mass_terms(rows: Rows, estimator: str, ties: str) -> tuple[Array | None, Array]:
    """Derivative of `W * area` in a mass without loss: its effect on each row at or below, and on its own."""
    if estimator == "2sele":
        return None, 2 * _mass_terms(rows, "sele", ties)[1]
    if estimator == "sele":
        return None, (rows.S if ties == "threshold" else rows.S - rows.L / 2) / rows.W
    if estimator == "log":
        return _log_terms(rows)
    return _threshold_terms(rows, estimator) if ties == "threshold" else _expected_terms(rows)


def _threshold_terms(rows: Rows, estimator: str) -> tuple[Array, Array]:
    """Of m S / N (harmonic) and (m S - L) / (N - 1) (loo)."""
    loo = estimator == "loo"
    accepted = rows.N - (1.0 if loo else 0.0)
    some = accepted > 0
    per = np.where(some, 1.0, 0.0) / np.where(some, accepted, 1.0)
    own = rows.S * per
    return -(rows.m * rows.S - (rows.L if loo else 0.0)) * per * per, own


def _log_terms(rows: Rows) -> tuple[Array, Array]:
    """Of L (ln(W + 1) - D/m), D = ln N! - ln(N-m)!, factorials extended by the Gamma function."""
    above, mass = rows.N - rows.m, _some(rows.m)
    gain = harmonic_difference(np, above, rows.N)
    digamma = harmonic_difference(np, np.zeros_like(above), above) - np.euler_gamma
    mean_log = log_factorial_difference(np, above, rows.N) / mass
    return -rows.L * gain / mass, rows.L * (mean_log - digamma) / mass


def _expected_terms(rows: Rows) -> tuple[Array, Array]:
    """Of (S - L) g + L (1 - a g / m), a = N - m, g = H_N - H_a extended by the digamma function."""
    from scipy.special import polygamma

    above, mass, loss_above = rows.N - rows.m, _some(rows.m), rows.S - rows.L
    gain = harmonic_difference(np, above, rows.N)
    trigamma = polygamma(1, above + 1)
    change = polygamma(1, rows.N + 1) - trigamma
    mean_loss = rows.L / mass
    low = loss_above * change - mean_loss * (gain + above * change)
    return low, loss_above * trigamma + mean_loss * (gain * (above / mass + 1) - above * trigamma)


def _some(mass: Array) -> Array:
    return np.where(mass > 0, mass, 1.0)


# simple means and 0/1 losses --------------------------------------------------------------------------------


def of_risk(rows: Rows) -> Influence:
    """The mean loss: l - R."""
    risk = rows.S[..., -1:] / rows.W
    return Influence(risk[..., 0], -risk + 0 * rows.m, np.ones_like(rows.m))


def of_zero_one_oracle(rows: Rows, estimator: str, oracle: str = "empirical") -> Influence:
    """The oracle AURC of a 0/1 loss, a function of the risk alone: a straight line in the loss."""
    risk = of_risk(rows)
    if oracle == "asymptotic":  # R + (1-R) ln(1-R), of derivative -ln(1-R)
        right = 1 - risk.estimate
        rate = -np.log(np.where(right > 0, right, 1.0))
        return risk.scaled(rate)._replace(estimate=asymptotic_oracle(np, risk.estimate))
    errors = rows.S[..., -1:]
    m = np.concatenate([rows.W - errors, errors], axis=-1)
    L = np.concatenate([0 * errors, errors], axis=-1)
    best = of_area(Rows(m, L, np.cumsum(m, axis=-1), np.cumsum(L, axis=-1), rows.W), estimator, "expected")
    right, wrong = best.const[..., :1], best.const[..., 1:] + best.slope[..., 1:]
    none, every = errors == 0, errors == rows.W  # with one kind only, no sample of the other carries mass
    right, wrong = np.where(every, 0.0, right), np.where(none, 0.0, wrong)
    return Influence(best.estimate, right + 0 * rows.m, wrong - right + 0 * rows.m)


def of_auroc(rows: Rows) -> Influence:
    """Failure AUROC, 0/1 losses: DeLong's placements of errors among the right ones, and the reverse."""
    errors = rows.S[..., -1:]
    right = rows.W - errors
    value = detection.auroc(rows)
    own_right = rows.m - rows.L
    of_right = (errors - rows.S + rows.L / 2) / errors  # share of errors it beats
    of_error = (rows.N - rows.S - own_right / 2) / right  # share of right ones that beat it
    a = np.asarray(value)[..., None]
    const = rows.W / right * (of_right - a)
    return Influence(value, const, rows.W / errors * (of_error - a) - const)


def of_half_mass_area(rows: Rows) -> Influence:
    """The area behind the prediction rejection ratio: a block comes in evenly."""
    return centred(rows, raw_half_mass_area(rows))


def raw_half_mass_area(rows: Rows) -> Influence:
    """Its derivatives before their mean is taken off; the rows may be a stretch of a longer table."""
    slope = (rows.W - rows.N + rows.m / 2) / rows.W
    const = (rows.S - rows.L / 2) / rows.W
    return Influence(detection.half_mass_area(rows), const, slope)
