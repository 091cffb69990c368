r"""Areas and their standard errors from stretches of the ranking handled apart.

A stretch is a run of rows (blocks) with what is accepted above it known: its part of the area is a plain sum.
The influence of its members, `const + slope * loss`, reads the rows *below* it only through two sums, so each
stretch reports its moments with those two left open and `combined` puts them in:

    sum w^2 (u + a + b l)^2 = sum w^2 (u^2 + 2 a u + 2 b u l + a^2 + 2 a b l + b^2 l^2),   u = const + slope *
    l
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from abstain.core.estimators import area_terms
from abstain.core.influence import _mass_terms, raw_half_mass_area
from abstain.core.rows import Rows
from abstain.core.weights import row_weights


class Piece(NamedTuple):
    """One stretch: its part of `W * area`, what it hands to the rows above, and sums over its members."""

    terms: float
    mass: float
    loss: float
    const_up: float
    slope_up: float
    centre: float  # sum of w u
    squares: np.ndarray  # sums of w^2 times u^2, u, u l, 1, l, l^2


def piece_of(
    rows: Rows, w2: np.ndarray, w2l: np.ndarray, w2ll: np.ndarray, estimator: str, ties: str = "threshold"
) -> Piece:
    """The sums of one stretch; `rows` hold N and S of the whole set, most confident first."""
    slope = row_weights(rows, estimator, ties)
    below, const = _mass_terms(rows, estimator, ties)
    const_up = slope_up = 0.0
    if below is not None:
        const = const + np.cumsum(below[::-1])[::-1]
        const_up = float(np.sum(below))
    if ties == "threshold" and estimator in ("harmonic", "loo"):
        slope_up = float(slope[0]) + _own_share(rows, estimator)
    terms = float(np.sum(area_terms(rows, estimator, ties)))
    return _piece(rows, (w2, w2l, w2ll), terms, const, slope)._replace(const_up=const_up, slope_up=slope_up)


def half_mass_piece(rows: Rows, w2: np.ndarray, w2l: np.ndarray, w2ll: np.ndarray) -> Piece:
    """The same for the area behind the rejection ratio and AUROC, whose influences read nothing from below."""
    line = raw_half_mass_area(rows)
    return _piece(rows, (w2, w2l, w2ll), float(line.estimate * rows.W[0]), line.const, line.slope)


def _piece(
    rows: Rows,
    squares: tuple[np.ndarray, np.ndarray, np.ndarray],
    terms: float,
    const: np.ndarray,
    slope: np.ndarray,
) -> Piece:
    w2, w2l, w2ll = squares
    square = np.sum(const * const * w2 + 2 * const * slope * w2l + slope * slope * w2ll)
    first = np.sum(const * w2 + slope * w2l)
    mixed = np.sum(const * w2l + slope * w2ll)
    sums = np.asarray([square, first, mixed, w2.sum(), w2l.sum(), w2ll.sum()])
    centre = float(np.sum(rows.m * const + rows.L * slope))
    return Piece(terms, float(rows.m.sum()), float(rows.L.sum()), 0.0, 0.0, centre, sums)


def _own_share(rows: Rows, estimator: str) -> float:
    """What leaving oneself out took off the slope of the top row; it is not taken off for the rows above."""
    others = float(rows.N[0]) - 1
    return 1 / others if estimator == "loo" and others > 0 else 0.0


class Line(NamedTuple):
    """Influences of the form `times * (area's influence) + const + slope * loss`: an area less its oracle."""

    times: float = 1.0
    const: float = 0.0
    slope: float = 0.0


def offsets(pieces: Sequence[Piece]) -> tuple[np.ndarray, np.ndarray]:
    """What each stretch's members add to their own `const` and `slope`; the mean influence is taken off."""
    a, b = (_from_below([getattr(p, name) for p in pieces]) for name in ("const_up", "slope_up"))
    mass, loss = np.asarray([p.mass for p in pieces]), np.asarray([p.loss for p in pieces])
    centre = np.sum([p.centre for p in pieces]) + np.sum(a * mass + b * loss)
    return a - centre / mass.sum(), b


def combined(pieces: Sequence[Piece], line: Line = Line()) -> tuple[float, float]:  # noqa: B008
    """Area of all stretches, most confident first, and the standard error of the line."""
    W = sum(p.mass for p in pieces)
    k = line.times
    a, b = offsets(pieces)
    a, b = k * a + line.const, k * b + line.slope
    uu, u, ul, w2, w2l, w2ll = np.stack([p.squares for p in pieces], axis=1)
    total = np.sum(k * k * uu + 2 * k * (a * u + b * ul) + a * a * w2 + 2 * a * b * w2l + b * b * w2ll)
    return float(np.sum([p.terms for p in pieces]) / W), float(np.sqrt(max(total, 0.0)) / W)


def member_influences(
    rows: Rows, row: np.ndarray, loss: np.ndarray, const: float, slope: float, estimator: str, ties: str
) -> np.ndarray:
    """The influence of each member of a stretch: `row` says where it stands, the offsets what lies below."""
    own_slope = row_weights(rows, estimator, ties)
    below, own = _mass_terms(rows, estimator, ties)
    if below is not None:
        own = own + np.cumsum(below[::-1])[::-1]
    return np.asarray(own[row] + const + (own_slope[row] + slope) * loss)


def _from_below(values: list[float]) -> np.ndarray:
    """For each stretch the sum over those below it."""
    x = np.asarray(values)
    return np.asarray(np.cumsum(x[::-1])[::-1] - x)
