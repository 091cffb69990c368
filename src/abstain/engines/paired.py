"""Two models on the same samples: their areas, and the error bar of the difference.

The influence of a sample on the first area is known in its range of the first confidence, its influence on the second
in its range of the second. So samples are moved once more: from the ranges of the first model to those of the second,
each with its first influence, and there the products of both are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from abstain.core.part_sums import effects_of_other_parts, stack_parts
from abstain.core.rows import rows_from_blocks
from abstain.engines.finish import Answer, EngineRequest, RangePosition, RangeResult, curve_area_of
from abstain.engines.ranges import Columns
from abstain.engines.read import Fields
from abstain.evaluation.comparison import Competitor, assemble_comparison
from abstain.evaluation.results import Comparison
from abstain.inference import evidence
from abstain.inference.differences import ComparedModel, compared_model_from_spread, less_biased_estimates
from abstain.inference.limits import DifferenceSums
from abstain.metrics.metric import Metric
from abstain.metrics.summaries import Scale


class PairRequest(NamedTuple):
    """What `compare` has to compute, and from which columns.

    `first` also names the columns of the second model, because both are read together. `titles` are the names of the
    models in the result.
    """

    function: str
    first: Fields
    second: Fields
    titles: tuple[str, str]
    metric: Metric
    request: EngineRequest


class RangeInfluence(NamedTuple):
    """What the influences of a range's samples need from outside the range.

    A sample also changes the risk of all rows below its range, by `constant + slope * loss`, from which the mean
    influence over all samples is subtracted already. `position` holds the mass and loss above the range, and the totals
    of the whole data set. `tie_sums` holds mass and loss of a range with one confidence, whose samples may be read a
    few at a time; None for other ranges.
    """

    position: RangePosition
    constant: float
    slope: float
    tie_sums: np.ndarray | None = None


def range_influences(
    results: Sequence[RangeResult], positions: Sequence[RangePosition], request: EngineRequest
) -> list[RangeInfluence]:
    """What each range needs from outside it to compute the influences of its samples; one item per range.

    `results` and `positions` are those of all ranges with samples (a range: the samples whose confidences lie between
    two thresholds), most confident first. `request` has one evidence request (an estimator and a rule for ties, with
    what to estimate by them), so the sums of a range are at index 0 of `RangeResult.evidence_parts`. The influence of a
    sample on the area includes what it does to the risk of all rows in the ranges below, which is linear in its loss:
    `constant + slope * loss`. The constant also subtracts the mean influence.
    """
    # the area under the curve that the models are compared by
    area = curve_area_of(request.evidence_requests[0])
    parts_of_ranges = [result.evidence_parts[0] for result in results]
    area_sums = [part.area_sums[area] for parts in parts_of_ranges for part in parts]
    # by part: what a sample in it does to the rows of the parts below is `constant + slope * loss`
    constants, slopes = effects_of_other_parts(stack_parts(area_sums))
    # A range may have several parts, at least one. The constant and slope of the last one are what lies below the whole
    # range; what its own parts add to each other is computed from the samples, in `influence_on_area`.
    index_of_last_part = np.cumsum([len(parts) for parts in parts_of_ranges]) - 1
    # These sums count losses in units of an error, the samples have them in the user's units. A constant is a loss and
    # is converted; a slope multiplies the sample's own loss and is not.
    totals = positions[0].totals  # of the whole data set, the same in every position
    # what one error costs in the user's units: c where all losses are 0 or c, otherwise 1
    error_size = totals.in_error_units().error_size
    return [
        RangeInfluence(position, error_size * float(constants[last]), float(slopes[last]))
        for position, last in zip(positions, index_of_last_part)
    ]


def influence_on_area(columns: Columns, outside: RangeInfluence, request: EngineRequest) -> np.ndarray:
    """The influence of each sample of a range on the area of the whole set, in the order of `columns`.

    A range is the samples whose confidences lie between two thresholds. The influence is the derivative of (total mass)
    * (area) in the weight of the sample, less its mean over all samples, which `outside.constant` subtracts. So
    influences times weights add up to 0, and a weight times an influence over the total mass is what the sample does to
    the area.

    `outside` holds what the other ranges add. For a range with one confidence, `columns` may hold only some of its
    samples: mass and loss of the row then come from `outside.tie_sums`. Otherwise `columns` must be the whole range.
    `request` says what to compute; its only evidence request has the estimator and the rule for ties of the area.
    """
    loss = columns.loss.astype(np.float64)
    if outside.tie_sums is None:
        distinct, place_of_sample = np.unique(columns.confidence, return_inverse=True)
        weight = np.ones_like(loss) if columns.weight is None else columns.weight.astype(np.float64)
        mass = np.bincount(place_of_sample, weight, len(distinct))
        loss_sum = np.bincount(place_of_sample, weight * loss, len(distinct))
    else:
        # one row; `tie_sums` is (mass, loss), and slices make arrays of one entry
        place_of_sample = np.zeros(len(loss), dtype=np.int64)
        mass = outside.tie_sums[:1]
        loss_sum = outside.tie_sums[1:2]
    # distinct confidences ascend up to here; `rows_from_blocks` reverses them, since rows are most confident first.
    # Their accepted mass and loss then include those of the ranges above.
    rows = outside.position.add_sums_above(rows_from_blocks(mass, loss_sum))
    row = len(mass) - 1 - place_of_sample  # of each sample, its row in `rows`
    # by row of this range: what a sample there does to the area is `constant + slope * loss`
    derivative = curve_area_of(request.evidence_requests[0]).derivative(rows)
    # the first terms are what the sample does to the rows of its own range
    constant = derivative.constant[row] + outside.constant
    slope = derivative.slope[row] + outside.slope
    return np.asarray(constant + slope * loss)


def pass_to_second_model(columns: Columns, outside: RangeInfluence, request: EngineRequest) -> Columns:
    """Samples of a range of the first model as samples of the second, with their first influence attached."""
    influence = influence_on_area(columns, outside, request)
    return columns.second_model()._replace(extra=influence[None, :])


def joint_sums(
    columns: Columns, outside: RangeInfluence, request: EngineRequest, scale_derivatives: tuple[float, float]
) -> np.ndarray:
    """Sums of (a - b)^2, e^2 and e^4 over the samples of a range of the second model.

    a and b are what a sample does to the first and the second area: its weight times its influence over the total mass.
    e is the same for the difference of both areas on the scale of the test (log, logit or plain):
    scale_derivatives[0] a - scale_derivatives[1] b, with the derivatives of that scale at the two areas.
    A range is the samples whose confidences lie between two thresholds. `columns.extra` holds the first influences;
    `outside` (what the second influences need from other ranges) and `request` are those of the second model.
    """
    assert columns.extra is not None  # `pass_to_second_model` attached the first influences
    weight_share = (1.0 if columns.weight is None else columns.weight) / outside.position.totals.total_mass
    a = weight_share * columns.extra[0]
    b = weight_share * influence_on_area(columns, outside, request)
    e = scale_derivatives[0] * a - scale_derivatives[1] * b
    return np.asarray([np.sum((a - b) ** 2), np.sum(e**2), np.sum(e**4)])


class PairComparison:
    """Two models whose areas are known: what the joint pass needs of them, and the comparison after it.

    `scale_derivatives` are the derivatives of the scale of the test (log, logit or plain) at the two areas.
    """

    def __init__(self, pair: PairRequest, first: Answer, second: Answer) -> None:
        """Find the scale of the test, and its derivatives (`scale_derivatives`) at the areas of the two answers.

        `pair` names the columns and the metric of both models, `first` and `second` are their answers. The scale is
        "log", "logit" or, for plain numbers, "normal". An answer has the totals and the area of one model, from which
        `self.models` has estimate and spread.
        """
        self.pair = pair
        self.answers = (first, second)
        self.models = (_model_of_answer(first, pair.metric), _model_of_answer(second, pair.metric))
        zero_one = first.totals.zero_one and second.totals.zero_one
        has_negative_loss = first.totals.has_negative_loss or second.totals.has_negative_loss
        # the scale of the metric, which the test uses where both areas lie inside its range
        self.scale = pair.metric.scale_for(zero_one, has_negative_loss)
        # shape (2,), the less biased estimate of the area of each model: the values that the test compares
        estimates = less_biased_estimates(self.models)
        # An area may lie outside the range, such as 0 for the logarithm. The test then takes plain numbers:
        # `compare_models`, which gets `self.scale`, decides so by the same rule.
        has_both_in_range = bool(np.all(self.scale.contains(estimates)))
        scale_of_test = self.scale if has_both_in_range else Scale("normal")
        first_derivative, second_derivative = scale_of_test.derivative(estimates)
        self.scale_derivatives = (float(first_derivative), float(second_derivative))

    def compare(self, sums: np.ndarray) -> Comparison:
        """The comparison, from three sums over all samples: of (a - b)^2, e^2 and e^4.

        a and b are what a sample does to the first and the second area: its weight times its influence over the total
        mass. e is the same for the difference of both areas on the scale of the test (log, logit or plain):
        scale_derivatives[0] a - scale_derivatives[1] b, with the derivatives of that scale at the two areas.

        Each of a, b and e adds up to 0 over all samples, and each is divided by the total mass already. So its sum of
        squares is a variance: that of the difference of the areas, and that of their difference on the scale.
        """
        level = self.pair.request.level
        n = self.answers[0].totals.sample_count
        # `model` holds the estimate and the spread of one area, `interval` its error bar
        competitors = [
            Competitor(name=title, model=model, interval=answer.interval(self.pair.metric), sample_count=n)
            for title, model, answer in zip(self.pair.titles, self.models, self.answers)
        ]
        variance_of_difference, variance_on_scale, sum_of_e4 = sums
        # arrays with one entry per pair of models, and there is one pair
        joint = DifferenceSums(
            variance_on_scale=np.asarray([variance_on_scale]),
            # the sum over samples of (e^2 - its mean)^2; the mean of e^2 is `variance_on_scale / n`
            variance_of_variance_on_scale=np.asarray([sum_of_e4 - variance_on_scale**2 / n]),
            standard_error=np.sqrt(np.asarray([variance_of_difference])),
            unit_count=n,
        )
        return assemble_comparison(
            competitors,
            metric=self.pair.metric,
            # plain numbers are taken where an area lies outside the range of this scale
            scale=self.scale,
            loss_name="own losses",  # shown in the table: each model has its column of losses
            level=level,
            paired=True,
            joint_sums=joint,
        )


def _model_of_answer(answer: Answer, metric: Metric) -> ComparedModel:
    """One model of a comparison; its influences are only known through the joint sums."""
    spread = evidence.spread_from_evidence(metric, answer.evidence[0])
    sample = evidence.summarise_totals(answer.totals.in_error_units())
    return compared_model_from_spread(metric, spread, sample, effects=())
