"""Is one model better than another on the same samples? The pass for joint influence sums.

Each sample's influence on the first area is known in its range of the first confidence, its influence on the second
in its range of the second. So samples travel once more: from the first ranges, with their influence in hand, to the
second, where the products of both are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from abstain.core.influence import raw_line
from abstain.core.rows import rows_of_blocks
from abstain.core.stretch import offsets, stacked
from abstain.engines.finish import Answer, Ask, Finished, PairQuestion, Place
from abstain.engines.ranges import Columns
from abstain.evaluation.comparison import pair_of
from abstain.evaluation.results import Comparison, Contestant
from abstain.inference import evidence
from abstain.inference.differences import Side, compared
from abstain.inference.limits import Joint, Scale, scale_of


class Standing(NamedTuple):
    """A range's place in the whole, and what the ranges below it add to its members' influences.

    `tie`: mass and loss of a range of one confidence, which may be read a few samples at a time.
    """

    place: Place
    const: float
    slope: float
    tie: np.ndarray | None = None


def standings(parts: Sequence[Finished], places: Sequence[Place]) -> list[Standing]:
    """Of all ranges, most confident first."""
    const, slope = offsets(stacked([piece.stretches["area"] for part in parts for piece in part.parts[0]]))
    # what lies below a range lies below its last piece
    last = np.cumsum([len(part.parts[0]) for part in parts]) - 1
    return [Standing(place, float(a), float(b)) for place, a, b in zip(places, const[last], slope[last])]


def influences(columns: Columns, standing: Standing, ask: Ask) -> np.ndarray:
    """Of each sample of a range on the area of the whole."""
    loss, tie = columns.loss.astype(np.float64), standing.tie
    if tie is None:
        values, at = np.unique(columns.confidence, return_inverse=True)
        weight = np.ones_like(loss) if columns.weight is None else columns.weight.astype(np.float64)
        sums = [np.bincount(at, x, len(values)) for x in (weight, weight * loss)]
    else:
        values, at, sums = tie[:1], np.zeros(len(loss), dtype=np.int64), [tie[:1], tie[1:2]]
    rows = standing.place.of(rows_of_blocks(*sums))
    line, own = raw_line("area", rows, ask.kinds[0].estimator, ask.kinds[0].ties), len(values) - 1 - at
    return np.asarray(line.const[own] + standing.const + (line.slope[own] + standing.slope) * loss)


def turned(columns: Columns, standing: Standing, ask: Ask) -> Columns:
    """The samples of a range of the first model as samples of the second, their first influence in hand."""
    return columns.behind()._replace(extra=influences(columns, standing, ask)[None, :])


def joint_sums(columns: Columns, standing: Standing, ask: Ask, rates: tuple[float, float]) -> np.ndarray:
    """Sums over a range of the second model of (a - b)^2, e^2 and e^4.

    a and b are what a sample does to either area, e = rate_a a - rate_b b the same on the scale of the test.
    """
    assert columns.extra is not None  # the first influences travel along
    weight = (1.0 if columns.weight is None else columns.weight) / standing.place.total.W
    a, b = weight * columns.extra[0], weight * influences(columns, standing, ask)
    e = rates[0] * a - rates[1] * b
    return np.asarray([np.sum(x) for x in ((a - b) ** 2, e**2, e**4)])


class Pairing:
    """Two models whose areas are known: what the joint pass needs of them, and the comparison after it."""

    def __init__(self, asked: PairQuestion, first: Answer, second: Answer) -> None:
        self.asked, self.answers = asked, (first, second)
        self.sides = [_side(answer) for answer in self.answers]
        totals = [answer.total for answer in self.answers]
        self.scale = scale_of("aurc", all(t.zero_one for t in totals), any(t.negative for t in totals))
        held = all(self.scale.holds(side.centre) for side in self.sides)
        used = self.scale if held else Scale("normal")
        first_rate, second_rate = (float(used.rate(side.centre)) for side in self.sides)
        self.rates = first_rate, second_rate

    def compared(self, joint: np.ndarray) -> Comparison:
        """Best first; models that cannot be told apart share a letter. Of areas lower is better."""
        asked, level, n = self.asked, self.asked.ask.level, self.answers[0].total.n
        order = [0, 1] if self.sides[0].estimate <= self.sides[1].estimate else [1, 0]
        best, other = (asked.titles[i] for i in order)
        sums = Joint(joint[1:2], joint[2:] - joint[1:2] ** 2 / n, np.sqrt(joint[:1]))
        zero, one = np.asarray([0]), np.asarray([1])
        test = compared([self.sides[i] for i in order], zero, one, self.scale, level, True, (sums, n))
        pair = pair_of(best, other, [x[0] for x in test], test[4], 0, level, n)
        contestants = []
        for place, i in enumerate(order):
            own = self.answers[i].interval(asked.metric)
            ranks, letter = ((place + 1, place + 1), "ab"[place]) if pair.different else ((1, 2), "a")
            told = (own.estimate, own.standard_error, own.low, own.high)
            contestants.append(Contestant(asked.titles[i], *told, n, *ranks, letter))
        head = (asked.metric.key, asked.metric.label, True, "own losses")
        return Comparison(tuple(contestants), (pair,), *head, level, n, True)


def _side(answer: Answer) -> Side:
    found = evidence.evidence_spread("aurc", answer.evidence[0])
    centre = found.estimate if found.centre is None else found.centre
    errors = evidence.facts_of(answer.total).errors
    return Side(found.estimate, centre, found.error, found.effective_errors, errors, np.empty(0))
