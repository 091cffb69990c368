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
from abstain.inference.differences import Side, less_biased_estimates, side_from_spread
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

    A sample also changes the risk of all rows below it, by `constant + slope * loss`. `tie_sums` holds mass and loss of
    a range with one confidence, whose samples may be read a few at a time; None for other ranges.
    """

    position: RangePosition
    constant: float
    slope: float
    tie_sums: np.ndarray | None = None


def range_influences(
    results: Sequence[RangeResult], positions: Sequence[RangePosition], request: EngineRequest
) -> list[RangeInfluence]:
    """What each range needs from outside it to compute the influences of its samples; one item per range.

    `results` and `positions` are those of all ranges with samples, most confident first; `request` has one evidence
    request. The influence of a sample on the area includes what it does to the risk of all rows in the ranges below,
    which is linear in its loss: `constant + slope * loss`. The constant also subtracts the mean influence.
    """
    area = curve_area_of(request.evidence_requests[0])
    sums_of_ranges = [part.area_sums[area] for result in results for part in result.parts[0]]
    constants, slopes = effects_of_other_parts(stack_parts(sums_of_ranges))
    # A range may have several parts. The offset of the last one is what lies below the whole range; what its own parts
    # add to each other is computed from the samples, in `influence_on_area`.
    last_parts = (
        np.cumsum([len(result.parts[0]) for result in results]) - 1
    )  # index of each range's last part
    # these sums count losses in units of an error, the samples have them in the user's units
    error_size = positions[0].totals.in_error_units().error_size
    return [
        RangeInfluence(position, error_size * float(constants[last]), float(slopes[last]))
        for position, last in zip(positions, last_parts)
    ]


def influence_on_area(columns: Columns, outside: RangeInfluence, request: EngineRequest) -> np.ndarray:
    """The influence of each sample of a range on the area of the whole set, in the order of `columns`.

    `outside` holds what the other ranges add. For a range with one confidence, `columns` may hold only some of its
    samples: mass and loss of the row then come from `outside.tie_sums`. Otherwise `columns` must be the whole range.
    `request` says what to compute.
    """
    loss = columns.loss.astype(np.float64)
    if outside.tie_sums is None:
        distinct, row_of_sample = np.unique(columns.confidence, return_inverse=True)
        weight = np.ones_like(loss) if columns.weight is None else columns.weight.astype(np.float64)
        mass = np.bincount(row_of_sample, weight, len(distinct))
        row_loss = np.bincount(row_of_sample, weight * loss, len(distinct))
    else:
        row_of_sample = np.zeros(len(loss), dtype=np.int64)
        mass = outside.tie_sums[:1]
        row_loss = outside.tie_sums[1:2]
    rows = outside.position.shift(rows_from_blocks(mass, row_loss))
    derivative = curve_area_of(request.evidence_requests[0]).derivative(rows)
    row = len(mass) - 1 - row_of_sample  # rows are most confident first, distinct confidences ascend
    constant = derivative.constant[row] + outside.constant
    slope = derivative.slope[row] + outside.slope
    return np.asarray(constant + slope * loss)


def pass_to_second_model(columns: Columns, outside: RangeInfluence, request: EngineRequest) -> Columns:
    """Samples of a range of the first model as samples of the second, with their first influence attached."""
    influence = influence_on_area(columns, outside, request)
    return columns.second_model()._replace(extra=influence[None, :])


def joint_sums(
    columns: Columns, outside: RangeInfluence, request: EngineRequest, rates: tuple[float, float]
) -> np.ndarray:
    """Sums of (a - b)^2, e^2 and e^4 over the samples of a range of the second model.

    a and b are what a sample does to the first and the second area: its weight times its influence over the total mass.
    e = rate_a a - rate_b b is the same on the scale of the test, with `rates` = (rate_a, rate_b) the derivatives of
    that scale at the two areas. `columns.extra` holds the first influences; `outside` and `request` are those of the
    second model.
    """
    assert columns.extra is not None  # `pass_to_second_model` attached the first influences
    weight = (1.0 if columns.weight is None else columns.weight) / outside.position.totals.total_mass
    a = weight * columns.extra[0]
    b = weight * influence_on_area(columns, outside, request)
    e = rates[0] * a - rates[1] * b
    return np.asarray([np.sum((a - b) ** 2), np.sum(e**2), np.sum(e**4)])


class PairComparison:
    """Two models whose areas are known: what the joint pass needs of them, and the comparison after it.

    `rates` are the derivatives of the scale of the test at the two areas.
    """

    def __init__(self, pair: PairRequest, first: Answer, second: Answer) -> None:
        """Find the scale of the test, and its derivatives (`rates`) at the areas of the two answers.

        `pair` names the columns and the metric of both models.
        """
        self.pair = pair
        self.answers = (first, second)
        self.sides = (_side(first, pair.metric), _side(second, pair.metric))
        zero_one = first.totals.zero_one and second.totals.zero_one
        has_negative_loss = first.totals.has_negative_loss or second.totals.has_negative_loss
        self.scale = pair.metric.scale_for(zero_one, has_negative_loss)
        estimates = less_biased_estimates(self.sides)
        # a scale such as the logarithm may be undefined at an area of 0; then differences are tested unscaled
        used_scale = self.scale if bool(np.all(self.scale.contains(estimates))) else Scale("normal")
        first_rate, second_rate = used_scale.derivative(estimates)
        self.rates = (float(first_rate), float(second_rate))

    def compare(self, sums: np.ndarray) -> Comparison:
        """The comparison, from three sums over all samples: of (a - b)^2, e^2 and e^4.

        a and b are what a sample does to the first and the second area, and e is their difference on the scale of the
        test, rates[0] a - rates[1] b.
        """
        level = self.pair.request.level
        n = self.answers[0].totals.sample_count
        competitors = [
            Competitor(name=title, side=side, interval=answer.interval(self.pair.metric), sample_count=n)
            for title, side, answer in zip(self.pair.titles, self.sides, self.answers)
        ]
        squared_difference, second, fourth = sums
        joint = DifferenceSums(
            variance_on_scale=np.asarray([second]),
            # the sum over samples of (e^2 - its mean)^2
            variance_of_variance_on_scale=np.asarray([fourth - second**2 / n]),
            standard_error=np.sqrt(np.asarray([squared_difference])),
            unit_count=n,
        )
        return assemble_comparison(
            competitors,
            metric=self.pair.metric,
            scale=self.scale,
            loss_name="own losses",
            level=level,
            paired=True,
            joint_sums=joint,
        )


def _side(answer: Answer, metric: Metric) -> Side:
    """One model of a comparison; its influences are only known through the joint sums."""
    spread = evidence.spread_from_evidence(metric, answer.evidence[0])
    sample = evidence.summarise_totals(answer.totals.in_error_units())
    return side_from_spread(metric, spread, sample, effects=())
