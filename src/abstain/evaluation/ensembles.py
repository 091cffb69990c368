"""Ensembles and posterior samples: the members' mean AURC, that of their averaged prediction, and the gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from abstain._arrays import Array, to_host
from abstain._check import check_fraction, labels_to_indices, refuse_other_row_order
from abstain.core.rounding import SUM_ROUNDING
from abstain.display import CurveLine, thinned
from abstain.errors import InputError, ShapeError
from abstain.evaluation.results import ExpectedAURC
from abstain.evaluation.vectors import read_model
from abstain.inference import influence
from abstain.inference.differences import compare_models, compared_model_from_spread
from abstain.inference.limits import degrees_of_freedom, make_interval
from abstain.inference.records import Interval
from abstain.inference.standard_errors import Measured, error_size_of, gather, measure, power_sums
from abstain.metrics.definitions import by_name
from abstain.metrics.metric import Metric
from abstain.metrics.points import risk_coverage_curve
from abstain.metrics.summaries import EstimateSpread
from abstain.scores import pooled_log_probs

_CURVE_POINTS = 100  # of the members' mean curve


@refuse_other_row_order
def expected_aurc(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    losses: Any = "zero_one",
    loss: Array | None = None,
    confidence: Array | None = None,
    averaged: tuple[Array, Array] | None = None,
    score: Any = "max_softmax",
    metric: Any = "aurc",
    classes: Any = None,
    level: float = 0.95,
) -> ExpectedAURC:
    r"""Mean AURC over the members of an ensemble (or posterior samples), and the AURC of their averaged prediction.

    .. math:: E_f[\mathrm{AURC}(f)] \approx \frac1M \sum_m \mathrm{AURC}(f_m)

    By Fubini it is also the mean over ranks of the members' mean selective risk, members sharing thresholds by rank.

    Parameters
    ----------
    logits, probs : array, shape (M, n, K)
        One of them, members first. For binary models (M, n, 1) is enough: the log-odds or probabilities of class 1.
    labels : array, shape (n,)
        Class indices, or names from `classes`.
    losses : name or function
        The one loss computed from the outputs and labels.
    loss, confidence : array, shape (M, n), optional
        The members' own losses and confidences, instead of outputs and labels.
    averaged : (loss, confidence), optional
        Of the averaged predictor, where the members come as losses and confidences.
    score : name or function
        The confidence computed from probabilities or logits.
    metric : str
        Any with an influence function: "aurc", "aurc:loo", "augrc", "naurc" ...
    classes : sequence, optional
        The class names in the order of the columns, where labels are words or numbers other than 0 ... K-1.
    level : float
        Of the intervals.

    Returns
    -------
    ExpectedAURC
        Errors of the mean: over members :math:`s/\sqrt M`, over data from the mean of the influence functions;
        its interval adds the two squares. Lower is better. The gain is the mean minus the averaged prediction, tested
        as `inference.paired_difference` tests two models; a positive gain means that averaging helps.

    Examples
    --------
    >>> loss = [[0, 0, 1, 1], [0, 1, 0, 1]]
    >>> sure = [[4, 3, 2, 1], [4, 3, 2, 1]]
    >>> expected_aurc(loss=loss, confidence=sure).members  # prefix risks 0 0 1/3 1/2 and 0 1/2 1/3 1/2
    (0.20833333333333331, 0.3333333333333333)
    """
    level = check_fraction("expected_aurc", "level", level, open_high=True)
    chosen_metric = by_name(metric)
    if not chosen_metric.is_smooth:
        raise InputError(f"expected_aurc: {chosen_metric.name} has no influence function.")
    averaged_vectors: LossAndConfidence | None = None
    if confidence is not None:
        loss = np.asarray(to_host(loss))
        confidence = np.asarray(to_host(confidence))
        if loss.ndim != 2 or loss.shape != confidence.shape or loss.dtype.kind not in "biuf":
            raise ShapeError(
                f"expected_aurc: `loss` and `confidence` must be of shape (members, samples), got {loss.shape} and "
                f"{confidence.shape}."
            )
        members = list(zip(loss, confidence))
        loss_name = "own losses"
        if averaged is not None:
            averaged_vectors = (np.asarray(to_host(averaged[0])), np.asarray(to_host(averaged[1])))
    elif (probs is None) == (logits is None) or labels is None:
        raise InputError(
            "expected_aurc: takes logits or `probs=` of shape (members, samples, classes) with `labels`, or "
            "`loss=` and `confidence=` of shape (members, samples)."
        )
    else:
        labels = labels_to_indices("expected_aurc", labels, classes)
        averaged_logits = pooled_log_probs(logits, probs=probs)
        if logits is not None:
            members = [_read_member(labels, losses, score, logits=member)[1] for member in logits]
        else:
            assert probs is not None
            members = [_read_member(labels, losses, score, probs=member)[1] for member in probs]
        loss_name, averaged_vectors = _read_member(labels, losses, score, logits=averaged_logits)
    return _measure_ensemble(members, averaged_vectors, chosen_metric, loss_name, level)


LossAndConfidence = tuple[np.ndarray, np.ndarray]  # of one predictor: one value per sample in each


def _read_member(labels: Array, losses: Any, score: Any, **outputs: Array) -> tuple[str, LossAndConfidence]:
    """The name of the loss, and the loss and confidence vectors of one member, from its `logits=` or `probs=`.

    `losses` and `score` are one name or function each; `labels` are class indices.
    """
    vectors = read_model("expected_aurc", labels=labels, scores=[score], losses=[losses], **outputs)
    loss_name, loss = next(iter(vectors.losses.items()))
    confidence = next(iter(vectors.scores.values()))
    return loss_name, (loss, confidence)


def _measure_ensemble(
    members: list[LossAndConfidence],
    averaged_vectors: LossAndConfidence | None,
    metric: Metric,
    loss_name: str,
    level: float,
) -> ExpectedAURC:
    """The result of `expected_aurc` from the losses and confidences of all members.

    Parameters
    ----------
    members
        Loss and confidence vectors of each member, all of the same samples.
    averaged_vectors
        Those of the averaged prediction; None leaves it, and the gain, out.
    metric : Metric
        With an influence function.
    loss_name : str
        As the result shows it.

    The mean has two errors: over members (other members might have been trained) and over data. Its interval is made
    from the sum of both variances; the gain is tested with the error over data alone, since both sides have the same
    members. ShapeError if the averaged prediction has another number of samples.
    """
    # a member without an error takes the size of one from the other members
    error_size = error_size_of(np.concatenate([loss for loss, _ in members]))

    def measure_predictor(loss: np.ndarray, confidence: np.ndarray) -> Measured:
        """Estimate and spread of one predictor, in units of `error_size`, and what limits need of its sample."""
        samples = gather("expected_aurc", metric, loss, confidence, error_size=error_size)
        return measure("expected_aurc", samples)

    influences = [influence(metric, loss, confidence) for loss, confidence in members]
    estimates = np.array([member.estimate for member in influences])
    mean_influence = np.mean([member.values for member in influences], axis=0)
    n = len(mean_influence)
    error_data, data_freedom = _standard_error_of_mean(mean_influence)
    error_members = 0.0
    if len(estimates) > 1:
        error_members = float(np.std(estimates, ddof=1) / np.sqrt(len(estimates)))

    # estimates and influences above are in the user's units, spreads below in units of an error
    unit = error_size if error_size is not None and metric.scales_with_loss else 1.0
    spread, sample = _mean_of_members(
        [measure_predictor(*vectors) for vectors in members], has_one_size=error_size is not None
    )
    spread_over_data = spread._replace(
        estimate=float(estimates.mean()) / unit,
        variance=error_data**2 / unit**2,
        variance_of_variance=2 * error_data**4 / data_freedom / unit**4,
    )
    members_freedom = max(len(estimates) - 1, 1)
    # by Welch: an estimated variance V with f degrees of freedom has the variance 2 V^2 / f
    variance_of_variance = 2 * (error_members**4 / members_freedom + error_data**4 / data_freedom)
    spread_over_both = spread_over_data._replace(
        variance=(error_members**2 + error_data**2) / unit**2,
        variance_of_variance=variance_of_variance / unit**4,
    )
    mean = make_interval(metric, spread_over_both, sample, level)
    averaged = None
    gain = None
    curves = [_mean_curve(members)]
    if averaged_vectors is not None:
        if len(averaged_vectors[0]) != n:
            raise ShapeError(
                f"expected_aurc: `averaged` must have the members' {n} samples, got {len(averaged_vectors[0])}."
            )
        averaged_spread, averaged_sample = measure_predictor(*averaged_vectors)
        averaged = make_interval(metric, averaged_spread, averaged_sample, level)
        averaged_influence = influence(metric, *averaged_vectors).values
        models = [
            compared_model_from_spread(metric, spread_over_data, sample, effects=(mean_influence / n,)),
            compared_model_from_spread(
                metric, averaged_spread, averaged_sample, effects=(averaged_influence / n,)
            ),
        ]
        is_zero_one = sample.is_zero_one and averaged_sample.is_zero_one
        has_negative_loss = sample.has_negative_loss or averaged_sample.has_negative_loss
        scale = metric.scale_for(is_zero_one, has_negative_loss).scaled(unit)
        test = compare_models(
            models, a=np.asarray([0]), b=np.asarray([1]), scale=scale, level=level, paired=True
        )
        gain = Interval(
            metric=metric.key,
            estimate=float(test.difference[0]),
            standard_error=float(test.standard_error[0]),
            low=float(test.low[0]),
            high=float(test.high[0]),
            level=level,
            method="paired",
            n=n,
            note=str(test.note[0]),
        )
        curve = risk_coverage_curve(*averaged_vectors)
        curves.append(thinned("averaged prediction", curve.coverage, curve.risk))
    return ExpectedAURC(
        metric=metric.key,
        label=metric.full_label,
        loss=loss_name,
        level=level,
        n=n,
        members=tuple(estimates.tolist()),
        mean=mean,
        error_members=error_members,
        error_data=error_data,
        averaged=averaged,
        gain=gain,
        curves=tuple(curves),
    )


def _mean_of_members(measured: Sequence[Measured], has_one_size: bool) -> Measured:
    """The estimate of the members' mean with its variance, and the counts behind it, from those of each member.

    `measured` has, for each member, the spread of its estimate (`spread`) and the counts of its sample (`sample`). All
    members have the same samples, without weights and clusters. Estimate, variance and the variance of that are
    left as nan: the caller fills them in from the mean influence. Sums of contributions and all counts are plain means
    over members: the members err on the same samples, so together they rest on as many errors as one of them on
    average, not on the sum. (A contribution is what one sample adds to the estimate; their sum and the sum of their
    squares say on how many errors it rests.)

    `has_one_size` says that the errors of all members have one size, the common unit of their losses. Otherwise
    everything is turned into the user's units.
    """
    if not has_one_size:
        measured = [member.in_user_units() for member in measured]
    spreads = [member.spread for member in measured]
    samples = [member.sample for member in measured]
    less_biased_estimate = None  # of metrics that have none, and so no member
    if spreads[0].less_biased_estimate is not None:
        less_biased_estimate = float(np.mean([spread.less_biased_estimate for spread in spreads]))
    mean_spread = EstimateSpread(
        estimate=np.nan,
        variance=np.nan,
        variance_of_variance=np.nan,
        contribution_sum=float(np.mean([spread.contribution_sum for spread in spreads])),
        squared_contribution_sum=float(np.mean([spread.squared_contribution_sum for spread in spreads])),
        less_biased_estimate=less_biased_estimate,
    )
    # numbers of samples and of units (here each sample is one), and the size of an error, are the same for all members
    mean_sample = samples[0]._replace(
        is_zero_one=all(sample.is_zero_one for sample in samples),
        has_negative_loss=any(sample.has_negative_loss for sample in samples),
        risk=float(np.mean([sample.risk for sample in samples])),
        error_count=float(np.mean([sample.error_count for sample in samples])),
        right_count=float(np.mean([sample.right_count for sample in samples])),
        # disjoint pairs of an error and a right sample: as many as there are of the rarer kind
        pair_count=float(np.mean([sample.pair_count for sample in samples])),
        # without clusters each sample is a draw: of a member, these are its `error_count` and its `right_count`
        error_draws=float(np.mean([sample.error_draws for sample in samples])),
        right_draws=float(np.mean([sample.right_draws for sample in samples])),
        largest_loss=max(sample.largest_loss for sample in samples),
    )
    return Measured(mean_spread, mean_sample)


def _standard_error_of_mean(influence_values: np.ndarray) -> tuple[float, float]:
    """Standard error of a mean of influences, and its degrees of freedom."""
    n = len(influence_values)
    # sums of squares and of fourth powers; the values are read slice by slice
    square_sum, fourth_power_sum = power_sums(influence_values.__getitem__, n)
    standard_error = float(np.sqrt(square_sum)) / n
    return standard_error, degrees_of_freedom(square_sum, fourth_power_sum - square_sum**2 / n, n)


def _mean_curve(members: list[LossAndConfidence]) -> CurveLine:
    """The members' mean selective risk at a hundred evenly spaced coverages.

    Where a member cannot accept exactly a coverage, because of ties, its risk at the next larger one counts.
    `members` holds (loss, confidence) of each, one value per sample; selective risk is the mean loss of the accepted.
    """
    coverages = np.arange(1, _CURVE_POINTS + 1) / _CURVE_POINTS
    total_risk = np.zeros(_CURVE_POINTS)
    for loss, confidence in members:
        curve = risk_coverage_curve(loss, confidence)
        # the first point of the curve (its coverage rises) with at least this coverage, but for rounding
        place = np.searchsorted(curve.coverage, coverages * (1 - SUM_ROUNDING))
        last = len(curve.risk) - 1  # for a coverage of 1 that by rounding lies above the last one
        total_risk += curve.risk[np.minimum(place, last)]
    mean_risk = total_risk / len(members)
    return CurveLine("mean of members", tuple(coverages.tolist()), tuple(mean_risk.tolist()))
