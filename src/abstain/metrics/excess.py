"""AURC beside the best any ordering of the same losses could do."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from abstain._arrays import Array, full_namespace, is_concrete
from abstain._check import check_choice
from abstain.core.estimators import Estimator, Ties, area
from abstain.core.oracle import asymptotic_oracle, oracle_area, zero_one_oracle_rows
from abstain.errors import InfeasibleError, InputError
from abstain.metrics._sample import Sample
from abstain.metrics.areas import area_of, area_sample
from abstain.metrics.groups import by_group

Oracle = Literal["empirical", "asymptotic"]


def _excess_parts(sample: Sample, estimator: str, ties: str, oracle: str) -> tuple[Array, Array, Array]:
    """AURC, oracle AURC and risk of one sample."""
    xp = np if sample.road.host else sample.road.xp
    if sample.road.host and sample.weight is None and sample.loss.ndim == 1 and sample.is_zero_one():
        n, errors = float(len(sample.loss)), float(np.count_nonzero(sample.loss))
        risk: Array = np.asarray(errors / n)
        best: Array = area(zero_one_oracle_rows(errors, n), estimator, "expected")
    else:
        rows = sample.rows()
        risk = rows.S[..., -1] / rows.W[..., 0]
        best = _best(sample, estimator)
    if oracle == "asymptotic":
        _zero_one_only(sample)
        best = asymptotic_oracle(xp, risk)
    return area_of(sample, estimator, ties), best, risk


def _best(sample: Sample, estimator: str) -> Array:
    return oracle_area(full_namespace(sample.road), sample.loss, sample.weight, estimator)


def _zero_one_only(sample: Sample) -> None:
    if not sample.is_zero_one():
        raise InputError(
            f'{sample.name}: oracle="asymptotic" is R + (1-R) ln(1-R), which holds for 0/1 loss only. '
            f'Use oracle="empirical".'
        )


@by_group(lower_is_better=True)
def oracle_aurc(
    loss: Array,
    confidence: Array | None = None,
    /,
    *,
    estimator: Estimator = "harmonic",
    oracle: Oracle = "empirical",
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    r"""AURC of the best possible ordering of these losses (smallest on top); `confidence` is not read.

    .. math:: \mathrm{AURC}^* = \frac1n\sum_{k=1}^n \frac1k \sum_{j\le k} \ell_{(j)}

    >>> round(oracle_aurc([0, 0, 1]), 6)
    0.111111
    """
    same = loss if confidence is None else confidence
    check_choice("oracle_aurc", "oracle", oracle, get_args(Oracle))
    sample = area_sample("oracle_aurc", loss, same, estimator, "threshold", sample_weight, abstained)
    return sample.deliver(_excess_parts(sample, estimator, "threshold", oracle)[1])


@by_group(lower_is_better=True)
def e_aurc(
    loss: Array,
    confidence: Array,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    oracle: Oracle = "empirical",
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    r"""Excess AURC over the best ordering of the same losses; lower is better, 0 is perfect ranking.

    .. math:: \mathrm{E\text{-}AURC} = \mathrm{AURC} - \mathrm{AURC}^*

    `oracle="asymptotic"` takes the population value for 0/1 loss, R + (1-R) ln(1-R), instead of the empirical one.

    >>> e_aurc([0, 0, 1], [0.9, 0.8, 0.1])
    0.0
    """
    check_choice("e_aurc", "oracle", oracle, get_args(Oracle))
    sample = area_sample("e_aurc", loss, confidence, estimator, ties, sample_weight, abstained)
    value, best, _ = _excess_parts(sample, estimator, ties, oracle)
    return sample.deliver(value - best)


@by_group(lower_is_better=True)
def naurc(
    loss: Array,
    confidence: Array,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    oracle: Oracle = "empirical",
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    r"""Normalised AURC: 0 for the best ordering, 1 for a useless confidence; lower is better.

    .. math:: \mathrm{NAURC} = \frac{\mathrm{AURC} - \mathrm{AURC}^*}{R - \mathrm{AURC}^*}

    When every loss is the same (all right, all wrong) no ordering can do better or worse: the value is 0.
    Estimators by which the best order exceeds R ("2sele" of many errors) give an InfeasibleError.

    >>> naurc([0, 0, 0], [0.9, 0.8, 0.1])
    0.0
    """
    check_choice("naurc", "oracle", oracle, get_args(Oracle))
    sample = area_sample("naurc", loss, confidence, estimator, ties, sample_weight, abstained)
    value, best, risk = _excess_parts(sample, estimator, ties, oracle)
    xp = np if sample.road.host else sample.road.xp
    room = risk - best
    some = room > 1e-14 * xp.abs(risk)
    if is_concrete(sample.loss) and bool(xp.any(~some & (value - best > 1e-12 * xp.abs(best)))):
        raise InfeasibleError(
            f'naurc: by estimator="{estimator}" the best order of these losses is no better than their mean, so there '
            f'is nothing to divide the excess by. Use estimator="harmonic", or `abstain.e_aurc`.'
        )
    return sample.deliver(xp.where(some, value - best, 0.0) / xp.where(some, room, 1.0))
