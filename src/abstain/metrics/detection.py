"""Failure detection: does confidence tell right from wrong? All take 0/1 losses (1 = error)."""

from __future__ import annotations

from abstain._arrays import Array, is_concrete
from abstain._check import check_fraction
from abstain.core import points
from abstain.core.estimators import oracle_rows
from abstain.core.rows import Rows
from abstain.errors import InfeasibleError, InputError
from abstain.metrics._sample import Sample, by_group, prepare


def _zero_one_rows(
    name: str, loss: Array, confidence: Array, weight: Array | None, abstained: Array | None
) -> tuple[Sample, Rows]:
    sample = prepare(name, loss, confidence, weight, abstained)
    rows = sample.rows()
    if is_concrete(sample.loss):
        if not sample.is_zero_one():
            raise InputError(
                f"{name}: `loss` must be 0 (right) or 1 (wrong) for failure detection, got other values."
            )
        errors = rows.S[..., -1]
        if bool(rows.xp.any((errors == 0) | (errors == rows.W[..., 0]))):
            raise InfeasibleError(
                f"{name}: needs both right and wrong samples to tell them apart, got only one kind. "
                f"`abstain.aurc` is defined for either."
            )
    return sample, rows


@by_group(lower_is_better=False)
def auroc(
    loss: Array, confidence: Array, /, *, sample_weight: Array | None = None, abstained: Array | None = None
) -> Array:
    r"""Chance that a right sample is more confident than a wrong one; higher is better.

    .. math:: P(g_+ > g_-) + \tfrac12 P(g_+ = g_-)

    over pairs of a right sample (+) and a wrong one (-); a tie counts half.

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        0 (right) or 1 (wrong), and a confidence (higher = surer), per sample along the last axis; leading axes are
        batches. Both kinds must occur.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they are left out.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> auroc([0, 1, 0, 1], [0.9, 0.8, 0.8, 0.1])
    0.875
    """
    sample, rows = _zero_one_rows("auroc", loss, confidence, sample_weight, abstained)
    return sample.deliver(points.auroc(rows))


@by_group(lower_is_better=False)
def aupr_error(
    loss: Array, confidence: Array, /, *, sample_weight: Array | None = None, abstained: Array | None = None
) -> Array:
    r"""Average precision of finding the errors by low confidence; higher is better.

    .. math:: \sum_t (\mathrm{recall}_t - \mathrm{recall}_{t-1})\,\mathrm{precision}_t

    over thresholds from the least confident up. Whole blocks of equal confidence are found at once (the step rule, no
    interpolation).

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        0 (right) or 1 (wrong), and a confidence (higher = surer), per sample along the last axis; leading axes are
        batches. Both kinds must occur.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they are left out.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> aupr_error([0, 1, 0, 1], [0.9, 0.8, 0.7, 0.1])
    0.8333333333333333
    """
    sample, rows = _zero_one_rows("aupr_error", loss, confidence, sample_weight, abstained)
    return sample.deliver(points.average_precision(rows, of_errors=True))


@by_group(lower_is_better=False)
def aupr_success(
    loss: Array, confidence: Array, /, *, sample_weight: Array | None = None, abstained: Array | None = None
) -> Array:
    r"""Average precision of finding the right samples by high confidence; higher is better.

    .. math:: \sum_t (\mathrm{recall}_t - \mathrm{recall}_{t-1})\,\mathrm{precision}_t

    over thresholds from the most confident down. Whole blocks of equal confidence are found at once (the step rule, no
    interpolation).

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        0 (right) or 1 (wrong), and a confidence (higher = surer), per sample along the last axis; leading axes are
        batches. Both kinds must occur.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they are left out.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
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
    r"""Share of the errors accepted when at least a share `tpr` of the right samples is; lower is better.

    .. math:: \min_t \{ P(g \ge t \mid \ell = 1) : P(g \ge t \mid \ell = 0) \ge \mathrm{tpr} \}

    Equal confidences are accepted together.

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        0 (right) or 1 (wrong), and a confidence (higher = surer), per sample along the last axis; leading axes are
        batches. Both kinds must occur.
    tpr : float in (0, 1]
        The share of the right samples to accept at least.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they are left out.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> fpr_at_tpr([0, 1, 0, 1], [0.9, 0.8, 0.7, 0.1])
    0.5
    """
    share = check_fraction("fpr_at_tpr", "tpr", tpr)
    sample, rows = _zero_one_rows("fpr_at_tpr", loss, confidence, sample_weight, abstained)
    return sample.deliver(points.fpr_at_tpr(rows, share))


@by_group(lower_is_better=False)
def prediction_rejection_ratio(
    loss: Array, confidence: Array, /, *, sample_weight: Array | None = None, abstained: Array | None = None
) -> Array:
    r"""How much of the possible gain from rejecting is had: 1 as good as the oracle, 0 random; higher is better.

    .. math:: \mathrm{PRR} = \frac{A_{random} - A}{A_{random} - A_{oracle}}

    with A the area under the accepted loss per sample against coverage, and :math:`A_{random} = R/2` in closed form.
    For 0/1 loss it equals 2 AUROC - 1. Any loss will do; when all losses are equal the value is 0.
    Equal confidences come in evenly, which is the mean over their orders.

    Parameters
    ----------
    loss, confidence : array, shape (..., n)
        One loss and one confidence (higher = surer) per sample along the last axis; leading axes are batches.
    sample_weight : array, optional
        Non-negative; a sample counts as much as its weight.
    abstained : bool array, optional
        Samples never accepted; they are left out.
    groups : array, optional
        One label per sample: answers with a `Grouped` result.

    Returns
    -------
    float for numpy vectors; an array of the input's library, where the input lives, otherwise.

    Examples
    --------
    >>> prediction_rejection_ratio([0, 1, 0, 1], [0.9, 0.8, 0.8, 0.1])
    0.75
    """
    sample = prepare("prediction_rejection_ratio", loss, confidence, sample_weight, abstained)
    best = oracle_rows(sample.backend.full_xp, sample.loss, sample.weight)
    return sample.deliver(points.rejection_ratio(sample.rows(), best))
