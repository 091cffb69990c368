"""From the parts of all ranges to the answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from abstain.core.influence import of_zero_one_oracle
from abstain.core.pieces import Line, combined
from abstain.core.rows import Rows
from abstain.engines.finish import Ask, Part
from abstain.engines.ranges import RangeSums
from abstain.errors import InfeasibleError
from abstain.metrics.curve import RiskCoverageCurve


@dataclass(frozen=True)
class Value:
    """An estimate and its standard error (None where it was not worked out)."""

    estimate: float
    standard_error: float | None = None

    def __float__(self) -> float:
        return self.estimate

    def __repr__(self) -> str:
        error = "" if self.standard_error is None else f" ± {self.standard_error:.2g}"
        return f"{self.estimate:.6g}{error}"


@dataclass(frozen=True)
class Summary:
    """Exact answers over a data set. Lower is better for all values but auroc and
    prediction_rejection_ratio."""

    n: int
    mass: float
    values: dict[str, Value]
    risk_at_coverage: dict[float, float] = field(default_factory=dict)
    coverage_at_risk: dict[float, float] = field(default_factory=dict)
    curve: RiskCoverageCurve | None = None
    ranges: int = 1
    loo: float | None = None  # AURC by the least biased weights: where its interval is centred

    def __getitem__(self, metric: str) -> Value:
        return self.values[metric]

    def frame(self) -> list[dict[str, Any]]:
        """One record per metric, ready for a data frame."""
        return [
            {"metric": name, "estimate": v.estimate, "standard_error": v.standard_error}
            for name, v in self.values.items()
        ]

    def __repr__(self) -> str:
        lines = [f"  {name:<28}{value!r}" for name, value in self.values.items()]
        lines += [f"  {f'risk at coverage {c:g}':<28}{r:.6g}" for c, r in self.risk_at_coverage.items()]
        lines += [f"  {f'coverage at risk {r:g}':<28}{c:.6g}" for r, c in self.coverage_at_risk.items()]
        return "\n".join([f"n = {self.n:,}", *lines])


def summarise(sums: RangeSums, parts: Sequence[Part], ask: Ask, oracle: Sequence[Part] | None) -> Summary:
    """`parts` and `oracle` from the most confident range (the smallest losses) down, ranges without samples
    left out."""
    mass, loss, w2, w2l, w2ll, count, graded = (float(x) for x in sums.sums.sum(axis=1))
    values = {"aurc": Value(math.fsum(p.area for p in parts) / mass)}
    if ask.spread:
        values = _with_errors(np.asarray([mass, loss, w2, w2l, w2ll]), parts, ask)
        if graded == 0 and mass == count == w2:  # then the sum of (w - 1)^2 is 0: every weight is 1
            values |= _zero_one_oracle(mass, loss, parts, ask, values)
        elif oracle is not None:
            values |= _oracle(mass, loss, parts, oracle, values)
    return Summary(
        int(count),
        float(mass),
        values,
        {c: _at_coverage(parts, c) for c in ask.coverages},
        {r: max(p.at_risk[r] for p in parts) / mass for r in ask.risks},
        _curve(parts, float(mass), int(count)) if ask.points else None,
        len(parts),
        math.fsum(p.loo for p in parts) / mass if ask.spread else None,
    )


def _with_errors(totals: np.ndarray, parts: Sequence[Part], ask: Ask) -> dict[str, Value]:
    mass, loss, w2, w2l, w2ll = totals
    risk = loss / mass
    spread = math.sqrt(max(w2ll - 2 * risk * w2l + risk * risk * w2, 0.0)) / mass
    return {
        "risk": Value(float(risk), float(spread)),
        "aurc": Value(*combined([p.pieces["area"] for p in parts])),
        "augrc": Value(*combined([p.pieces["sele"] for p in parts])),
    }


def _zero_one_oracle(
    mass: float, loss: float, parts: Sequence[Part], ask: Ask, values: dict[str, Value]
) -> dict[str, Value]:
    """The oracle of a 0/1 loss is a function of the risk: its influence is a straight line in the loss."""
    one = np.asarray([mass])
    best = of_zero_one_oracle(Rows(one, np.asarray([loss]), one, np.asarray([loss]), one), ask.estimator)
    oracle, const, slope = float(best.estimate), float(best.const[0]), float(best.slope[0])
    pieces = [p.pieces["area"] for p in parts]
    excess = values["aurc"].estimate - oracle
    risk = values["risk"].estimate
    room = risk - oracle
    result = {"oracle_aurc": Value(oracle, combined(pieces, Line(0.0, const, slope))[1])}
    result["e_aurc"] = Value(excess, combined(pieces, Line(1.0, -const, -slope))[1])
    if room <= 1e-14 * risk:  # all right or all wrong: no order is better than another
        return result | {"naurc": Value(0.0, 0.0), "prediction_rejection_ratio": Value(0.0, 0.0)}
    ratio = excess / room  # delta method: (excess' - ratio * (risk' - oracle')) / room
    line = Line(1 / room, (-const - ratio * (-risk - const)) / room, (-slope - ratio * (1 - slope)) / room)
    result["naurc"] = Value(ratio, combined(pieces, line)[1])
    return result | _separation(risk, parts)


def _separation(risk: float, parts: Sequence[Part]) -> dict[str, Value]:
    """Rejection ratio and AUROC of a 0/1 loss: (R/2 - A) / (R/2 - R^2/2), and the mean of that with 1."""
    half = [p.pieces["half"] for p in parts]
    most = risk * (1 - risk) / 2
    ratio = (risk / 2 - math.fsum(p.half for p in parts)) / most
    rate = (0.5 - ratio * (0.5 - risk)) / most  # derivative in the risk, itself of influence l - R
    error = combined(half, Line(-1 / most, -rate * risk, rate))[1]
    return {"auroc": Value((1 + ratio) / 2, error / 2), "prediction_rejection_ratio": Value(ratio, error)}


def _oracle(
    mass: float, loss: float, parts: Sequence[Part], oracle: Sequence[Part], values: dict[str, Value]
) -> dict[str, Value]:
    """From the second pass, keyed by loss."""
    best = math.fsum(p.area for p in oracle) / mass
    risk = loss / mass
    excess, room = values["aurc"].estimate - best, risk - best
    some = room > 1e-14 * abs(risk)
    half, half_best = (math.fsum(p.half for p in side) for side in (parts, oracle))
    gain, most = risk / 2 - half, risk / 2 - half_best
    return {
        "oracle_aurc": Value(best),
        "e_aurc": Value(excess),
        "naurc": Value(excess / room if some else 0.0),
        "prediction_rejection_ratio": Value(gain / most if most > 1e-15 * abs(risk) / 2 else 0.0),
    }


def _at_coverage(parts: Sequence[Part], coverage: float) -> float:
    found = [part.at_coverage[coverage] for part in parts if coverage in part.at_coverage]
    if found:
        N, S = min(found)
        return S / N
    raise InfeasibleError(f"risk_at_coverage: coverage {coverage:g} cannot be reached.")


def _curve(parts: Sequence[Part], mass: float, n: int) -> RiskCoverageCurve:
    columns, done = [], 0.0
    for part in parts:
        if part.curve is not None:
            points = part.curve.copy()
            points[3] += done
            columns.append(points)
        done += part.count
    threshold, N, S, count = np.concatenate(columns, axis=1)
    return RiskCoverageCurve(N / mass, S / N, S / mass, threshold, count.astype(np.int64), n, 0.0)
