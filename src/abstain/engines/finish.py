"""Finishing a range: from its samples, and the mass and loss above it, to its part of every answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from abstain.core import detection, stream
from abstain.core.binning import harmonic_spread
from abstain.core.blocks import Blocks
from abstain.core.estimators import area_terms, reads_block_loss
from abstain.core.oracle import oracle_rows
from abstain.core.pieces import Piece, half_mass_piece, piece_of
from abstain.core.points import reaches
from abstain.core.rows import Rows
from abstain.core.spread import Moments, moments_of_blocks, moments_of_samples
from abstain.core.tally import Counted
from abstain.engines.ranges import Columns


@dataclass(frozen=True)
class Ask:
    """What to work out. `spread`: standard errors, AUGRC and rejection ratio beside the area."""

    estimator: str = "harmonic"
    ties: str = "threshold"
    spread: bool = True
    coverages: tuple[float, ...] = ()
    risks: tuple[float, ...] = ()
    points: int = 0  # points of the curve, over all ranges
    by_loss: bool = False  # the oracle's pass: confidence is minus the loss, every sample a block of its own

    @property
    def area_only(self) -> bool:
        """Nothing but one number?"""
        return not (self.spread or self.coverages or self.risks or self.points or self.by_loss)


class Place(NamedTuple):
    """Where a range stands: mass and loss above it, mass of the whole set."""

    N: float
    S: float
    W: float


@dataclass(frozen=True)
class Part:
    """A range's part of the answers. Points of the curve are columns (threshold, mass accepted, loss,
    count)."""

    area: float
    pieces: dict[str, Piece] = field(default_factory=dict)
    half: float = 0.0
    at_coverage: dict[float, tuple[float, float]] = field(default_factory=dict)
    at_risk: dict[float, float] = field(default_factory=dict)
    curve: np.ndarray | None = None
    count: int = 0
    loo: float = 0.0  # the same area by the least biased weights: where intervals are centred


def finish(columns: Columns, place: Place, ask: Ask) -> Part:
    """The part of a range with samples."""
    if ask.by_loss:
        return _oracle_part(columns, place, ask)
    if ask.area_only:
        return Part(_area(columns, place, ask))
    if ask.points:
        blocks = Blocks.from_samples(*columns.samples)
        return _part(moments_of_blocks(blocks), blocks.confidence[::-1], blocks.count[::-1], place, ask)
    return _part(moments_of_samples(*columns.samples), None, None, place, ask)


def finish_tie(sums: np.ndarray, confidence: float, place: Place, ask: Ask) -> Part:
    """The part of a range that is one tie, from its sums alone (in the order of `ranges.SUMS`)."""
    m, L, w2, w2l, w2ll = (sums[i : i + 1] for i in range(5))
    moments = Moments(Rows(m, L, m, L, m), w2, w2l, w2ll, False)
    if ask.by_loss:  # equal losses are not one block: any order among them gives the same area
        return _oracle_of_tie(moments, place, ask)
    return _part(moments, np.asarray([confidence]), sums[5:6], place, ask)


def finish_counted(blocks: Counted, place: Place, ask: Ask) -> Part:
    """The part of blocks that were counted, not sorted."""
    m, L = blocks.mass, blocks.wrong
    rows = Rows(m, L, np.cumsum(m), np.cumsum(L), m, np, False)
    if ask.area_only:
        return Part(float(np.sum(area_terms(_placed(rows, place), ask.estimator, ask.ties))))
    return _part(Moments(rows, m, L, L, True), blocks.confidence.astype(np.float64), m, place, ask)


def _placed(rows: Rows, place: Place) -> Rows:
    return Rows(rows.m, rows.L, rows.N + place.N, rows.S + place.S, np.asarray([place.W]), np, False)


def _area(columns: Columns, place: Place, ask: Ask) -> float:
    """A sum over pieces that stay in cache."""
    samples = stream.sort_once(*columns.samples)
    pieces = stream.pieces(samples, reads_block_loss(ask.estimator, ask.ties))
    return math.fsum(
        float(np.sum(area_terms(_placed(rows, place), ask.estimator, ask.ties))) for rows in pieces
    )


def _part(
    moments: Moments, threshold: np.ndarray | None, count: np.ndarray | None, place: Place, ask: Ask
) -> Part:
    rows = _placed(moments.rows, place)
    columns = (moments.w2, moments.w2l, moments.w2ll)
    pieces, half = {}, 0.0
    if ask.spread:
        pieces = {"area": piece_of(rows, *columns, ask.estimator, ask.ties)}
        pieces["sele"] = piece_of(rows, *columns, "sele", ask.ties)
        pieces["half"] = half_mass_piece(rows, *columns)
        half = pieces["half"].terms / place.W
    share = rows.N / place.W
    found = {}
    for coverage in ask.coverages:
        reach = reaches(share, coverage)
        if reach.any():
            first = int(np.argmax(reach))
            found[coverage] = (float(rows.N[first]), float(rows.S[first]))
    feasible = {}
    for risk in ask.risks:
        good = reaches(-rows.risk, -risk)
        feasible[risk] = float(np.max(np.where(good, rows.N, 0.0)))
    area = pieces["area"].terms if pieces else float(np.sum(area_terms(rows, ask.estimator, ask.ties)))
    samples = 0 if count is None else int(count.sum())
    loo = float(np.sum(area_terms(rows, "loo", ask.ties))) if ask.spread else 0.0
    curve = _points(rows, threshold, count, place, ask)
    return Part(area, pieces, half, found, feasible, curve, samples, loo)


def _points(
    rows: Rows, threshold: np.ndarray | None, count: np.ndarray | None, place: Place, ask: Ask
) -> np.ndarray | None:
    """Rows nearest to evenly spaced coverages, first and last included."""
    if threshold is None or count is None or not ask.points:
        return None
    step = place.W / ask.points
    tick = np.floor(rows.N / step)
    keep = np.diff(tick, prepend=math.floor(place.N / step)) > 0
    keep[0] |= place.N == 0  # the most confident block is always shown
    keep[-1] |= reaches(rows.N[-1] / place.W, 1.0)  # and so is coverage 1
    return np.stack([threshold, rows.N, rows.S, np.cumsum(count)])[:, keep]


def _oracle_part(columns: Columns, place: Place, ask: Ask) -> Part:
    import array_api_compat.numpy as xp

    rows = oracle_rows(xp, columns.loss, columns.weight)
    w = rows.m
    l = rows.L / np.where(w > 0, w, 1.0)
    return _oracle_of(Moments(rows, w * w, w * w * l, w * w * l * l, False), place, ask)


def _oracle_of(moments: Moments, place: Place, ask: Ask) -> Part:
    rows = _placed(moments.rows, place)
    piece = piece_of(rows, moments.w2, moments.w2l, moments.w2ll, ask.estimator, ask.ties)
    return Part(piece.terms, {"area": piece}, float(detection.half_mass_area(rows)))


def _oracle_of_tie(moments: Moments, place: Place, ask: Ask) -> Part:
    """All losses equal: whole masses are spread over their positions; other masses as if very small."""
    part = _oracle_of(moments, place, ask)
    if ask.ties == "expected" or ask.estimator != "harmonic":
        return part
    return replace(part, area=float(np.sum(harmonic_spread(_placed(moments.rows, place)))))
