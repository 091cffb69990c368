r"""The plug-in estimators of AURC: each is a mean, over thresholds, of what is accepted there.

With rows (m, L, N, S) as in `rows`, no ties and unit weights, exchanging the two sums turns each term below into
the rank weights of `weights`: :math:`\sum_t m_t S_t/N_t = \sum_i \ell_i \sum_{t \le s(i)} m_t/N_t`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from abstain._arrays import Array
from abstain.core.rows import Rows
from abstain.core.special import harmonic_difference, log_factorial_difference

Estimator = Literal["harmonic", "log", "loo", "sele", "2sele"]
Ties = Literal["threshold", "expected"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
TIES: tuple[Ties, ...] = get_args(Ties)
WHOLE_WEIGHTS_ONLY = ("log", "loo")  # these count neighbours, so a weight must mean a repetition


def _harmonic(r: Rows) -> Array:
    """A threshold at each sample: the selective risk there."""
    return r.m * r.risk


def _sele(r: Rows) -> Array:
    """A threshold at each sample: the loss accepted there, per sample of the whole set (= AUGRC's mean rule)."""
    return r.m * r.S / r.W


def _loo(r: Rows) -> Array:
    """A threshold at each sample: the selective risk of the *other* samples, 0 where there is none."""
    others = r.N - 1
    some = others > 0
    return r.xp.where(some, r.m * r.S - r.L, 0.0) / r.xp.where(some, others, 1.0)


def _log(r: Rows) -> Array:
    """Mean of -ln(1 - rank/(n+1)) over the ranks of the block, times its loss."""
    some = r.m > 0
    log_n1 = r.xp.log(r.W + 1)
    mean_log = log_factorial_difference(r.xp, r.N - r.m, r.N) / r.xp.where(some, r.m, 1.0)
    return r.xp.where(some, r.L * (log_n1 - mean_log), 0.0)


def _harmonic_expected(r: Rows) -> Array:
    """Random order within a block: its loss comes in evenly while the accepted mass grows from N - m to N."""
    above = r.N - r.m
    gain = harmonic_difference(r.xp, above, r.N)
    lone = r.m <= 1
    share = r.xp.where(lone, r.m / r.xp.where(r.N > 0, r.N, 1.0), r.m - above * gain)
    return (r.S - r.L) * gain + r.L * share / r.xp.where(r.m > 0, r.m, 1.0)


def _loo_expected(r: Rows) -> Array:
    return _harmonic_expected(r) - r.L / r.W


def _sele_expected(r: Rows) -> Array:
    return (r.m * (r.S - r.L) + r.L * (r.m + 1) / 2) / r.W


_TERMS: dict[str, dict[str, Callable[[Rows], Array]]] = {
    "threshold": {"harmonic": _harmonic, "log": _log, "loo": _loo, "sele": _sele},
    "expected": {"harmonic": _harmonic_expected, "log": _log, "loo": _loo_expected, "sele": _sele_expected},
}


def area_terms(rows: Rows, estimator: str = "harmonic", ties: str = "threshold") -> Array:
    """What each row adds to `W * AURC`; the sum may be taken in pieces."""
    if estimator == "2sele":
        return 2 * _TERMS[ties]["sele"](rows)
    return _TERMS[ties][estimator](rows)


def needs_whole_weights(estimator: str, ties: str) -> str:
    """The option that makes a weight mean a repetition, as the user wrote it; empty when any weight will do."""
    if estimator in WHOLE_WEIGHTS_ONLY:
        return f'estimator="{estimator}"'
    return 'ties="expected"' if ties == "expected" else ""


def reads_block_loss(estimator: str, ties: str) -> bool:
    """Do the terms read `rows.L`? (It need not be made otherwise.)"""
    return ties == "expected" or estimator in WHOLE_WEIGHTS_ONLY


def area(rows: Rows, estimator: str = "harmonic", ties: str = "threshold") -> Array:
    """AURC of a table of rows, by one estimator."""
    return rows.xp.sum(area_terms(rows, estimator, ties), axis=-1) / rows.W[..., 0]
