"""Failure detection: does confidence tell right from wrong? All take 0/1 losses (1 = error)."""

from __future__ import annotations

from abstain._arrays import Array, is_concrete
from abstain._check import check_fraction
from abstain.core import points
from abstain.core.estimators import oracle_rows
from abstain.core.rows import Rows
from abstain.errors import InfeasibleError, InputError
from abstain.metrics._sample import Sample, prepare
from abstain.metrics.groups import by_group


def _zero_one_rows(
    name: str, loss: Array, confidence: Array, weight: Array | None, abstained: Array | None
) -> tuple[Sample, Rows]:
    sample = prepare(name, loss, confidence, weight, abstained)
    xp = sample.backend.xp
    rows = sample.rows()
    if is_concrete(sample.loss):
        if not sample.is_zero_one():
            raise InputError(
                f"{name}: `loss` must be 0 (right) or 1 (wrong) for failure detection, got other values."
            )
        errors = rows.S[..., -1]
        if bool(xp.any((errors == 0) | (errors == rows.W[..., 0]))):
            raise InfeasibleError(
                f"{name}: needs both right and wrong samples to tell them apart, got only one kind. "
                f"`abstain.aurc` is defined for either."
            )
    return sample, rows


@by_group(lower_is_better=False)
def auroc(
    loss: Array,
    confidence: Array,
    /,
    *,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    r"""Chance that a right sample is more confident than a wrong one; higher is better.

    .. math:: P(g_+ > g_-) + \tfrac12 P(g_+ = g_-)

    >>> auroc([0, 1, 0, 1], [0.9, 0.8, 0.8, 0.1])
    0.875
    """
    sample, rows = _zero_one_rows("auroc", loss, confidence, sample_weight, abstained)
    return sample.deliver(points.auroc(rows))


@by_group(lower_is_better=False)
def aupr_error(
    loss: Array,
    confidence: Array,
    /,
    *,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    """Average precision of finding the errors by low confidence; higher is better.

    Whole blocks of equal confidence are found at once (the step rule, no interpolation).

    >>> aupr_error([0, 1, 0, 1], [0.9, 0.8, 0.7, 0.1])
    0.8333333333333333
    """
    sample, rows = _zero_one_rows("aupr_error", loss, confidence, sample_weight, abstained)
    return sample.deliver(points.average_precision(rows, of_errors=True))


@by_group(lower_is_better=False)
def aupr_success(
    loss: Array,
    confidence: Array,
    /,
    *,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    """Average precision of finding the right samples by high confidence; higher is better.

    >>> aupr_success([0, 1, 0, 1], [0.9, 0.8, 0.7, 0.1])
    0.8333333333333333
    """
    sample, rows = _zero_one_rows("aupr_success", loss, confidence, sample_weight, abstained)
    return sample.deliver(points.average_precision(rows, of_errors=False))


@by_group(lower_is_better=True)
def fpr_at_tpr(
    loss: Array,
    confidence: Array,
    /,
    *,
    tpr: float = 0.95,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    """Share of the errors accepted when at least a share `tpr` of the right samples is; lower is better.

    >>> fpr_at_tpr([0, 1, 0, 1], [0.9, 0.8, 0.7, 0.1])
    0.5
    """
    share = check_fraction("fpr_at_tpr", "tpr", tpr)
    sample, rows = _zero_one_rows("fpr_at_tpr", loss, confidence, sample_weight, abstained)
    return sample.deliver(points.fpr_at_tpr(rows, share))


@by_group(lower_is_better=False)
def prediction_rejection_ratio(
    loss: Array,
    confidence: Array,
    /,
    *,
    sample_weight: Array | None = None,
    abstained: Array | None = None,
) -> Array:
    r"""How much of the possible gain from rejecting is had: 1 as good as the oracle, 0 random; higher is better.

    .. math:: \mathrm{PRR} = \frac{A_{random} - A}{A_{random} - A_{oracle}}

    with A the area under the accepted loss per sample against coverage, and :math:`A_{random} = R/2` in closed form.
    For 0/1 loss it equals 2 AUROC - 1. Any loss will do; when all losses are equal the value is 0.

    >>> prediction_rejection_ratio([0, 1, 0, 1], [0.9, 0.8, 0.8, 0.1])
    0.75
    """
    sample = prepare("prediction_rejection_ratio", loss, confidence, sample_weight, abstained)
    best = oracle_rows(sample.backend.full_xp, sample.loss, sample.weight)
    return sample.deliver(points.rejection_ratio(sample.rows(), best))
