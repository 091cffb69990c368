"""Is one model better than another on the same samples? The pass for joint influence sums.

Each sample's influence on the first area is known in its range of the first confidence, its influence on the second
in its range of the second. So samples travel once more: from the first ranges, with their influence in hand, to the
second, where the squares of the differences are added up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from abstain.core.pieces import combined, member_influences, offsets
from abstain.core.rows import rows_of_blocks
from abstain.engines.finish import Ask, Part, Place, _placed
from abstain.engines.ranges import Columns, RangeSums, together
from abstain.engines.slots import Bundle, Slots, bundled, by_slot


@dataclass(frozen=True)
class Paired:
    """The areas of two models on the same samples, and what is known about their difference (first - second)."""

    metric: str
    first: float
    second: float
    standard_error: float
    n: int
    own_errors: tuple[float, float]  # standard errors of either area by itself

    @property
    def difference(self) -> float:
        """First minus second: below zero when the first is better."""
        return self.first - self.second

    @property
    def z(self) -> float:
        """Difference in standard errors; 0 when there is no difference at all."""
        if not self.standard_error:
            return math.copysign(math.inf, self.difference) if self.difference else 0.0
        return self.difference / self.standard_error

    @property
    def p_value(self) -> float:
        """Two-sided, of no difference."""
        return math.erfc(abs(self.z) / math.sqrt(2))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Of the difference."""
        from scipy.special import ndtri

        half = float(ndtri((1 + level) / 2)) * self.standard_error
        return self.difference - half, self.difference + half

    def __repr__(self) -> str:
        return (
            f"{self.metric} {self.first:.6g} and {self.second:.6g}: difference {self.difference:.3g} "
            f"± {self.standard_error:.2g}, p = {self.p_value:.2g} (n = {self.n:,})"
        )


def paired(first: Sequence[Part], second: Sequence[Part], square: float, sums: RangeSums) -> Paired:
    """From the parts of both models and the sum of squared differences of influences."""
    W = float(sums.sums[0].sum())
    a, b = (math.fsum(part.area for part in parts) / W for parts in (first, second))
    own = [combined([part.pieces["area"] for part in parts])[1] for parts in (first, second)]
    return Paired("AURC", a, b, math.sqrt(square) / W, int(sums.count.sum()), (own[0], own[1]))


@dataclass(frozen=True)
class Standing:
    """A range's place in the whole, and what the ranges below it add to its members' influences."""

    place: Place
    const: float
    slope: float


def standings(parts: Sequence[Part], places: Sequence[Place]) -> list[Standing]:
    """Of all ranges, most confident first."""
    const, slope = offsets([p.pieces["area"] for p in parts])
    return [Standing(place, float(a), float(b)) for place, a, b in zip(places, const, slope)]


def influences(columns: Columns, standing: Standing, ask: Ask, tie: np.ndarray | None = None) -> np.ndarray:
    """Of each sample of a range on the area of the whole; of a `tie` (mass, loss sum) some samples are enough."""
    loss = columns.loss.astype(np.float64)
    if tie is None:
        values, at = np.unique(columns.confidence, return_inverse=True)
        weight = np.ones_like(loss) if columns.weight is None else columns.weight.astype(np.float64)
        sums = [np.bincount(at, x, len(values)) for x in (weight, weight * loss)]
    else:
        values, at, sums = tie[:1], np.zeros(len(loss), dtype=np.int64), [tie[:1], tie[1:2]]
    rows = _placed(rows_of_blocks(*sums), standing.place)
    return member_influences(
        rows, len(values) - 1 - at, loss, standing.const, standing.slope, ask.estimator, ask.ties
    )


def turned(columns: Columns, standing: Standing, ask: Ask, tie: np.ndarray | None = None) -> Columns:
    """The samples of a range of the first model as samples of the second, their first influence in hand."""
    if columns.extra is None:
        raise ValueError("turned: the second model's columns did not travel along")
    loss, confidence = columns.extra
    return Columns(loss, confidence, columns.weight, influences(columns, standing, ask, tie)[None, :])


def square_in(columns: Columns, standing: Standing, ask: Ask, tie: np.ndarray | None = None) -> float:
    """Sum of (w (IF of the first - IF of the second))^2 over a range of the second model."""
    if columns.extra is None:
        raise ValueError("square_in: the first influences did not travel along")
    gap = columns.extra[0] - influences(columns, standing, ask, tie)
    weight = 1.0 if columns.weight is None else columns.weight
    return float(np.sum((weight * gap) ** 2))


def turn_bundle(
    pieces: Sequence[Bundle], standing: Mapping[int, Standing], ask: Ask, slots: Slots
) -> list[Bundle]:
    """The samples of a bundle turned, and by bundles of the second model."""
    moved = [turned(columns, standing[number], ask) for number, columns in by_slot(pieces)]
    return bundled({None: together(moved)} if moved else {}, slots, keep=True)[0]


def square_bundle(pieces: Sequence[Bundle], standing: Mapping[int, Standing], ask: Ask) -> float:
    """The sum over a bundle of the second model."""
    return math.fsum(square_in(columns, standing[number], ask) for number, columns in by_slot(pieces))
