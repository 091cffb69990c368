"""From samples or a block table to an estimate with its influences: per sample, or as the sums an error bar
needs.

Two roads, held against each other by the tests. `spread` needs only sums over rows, so 0/1 losses take the
packed sort that carries no index. `values` gives each sample's own influence, in the order given, for what
must be added up in other ways: clusters, paired comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from abstain.core import fast, packed
from abstain.core import influence as of
from abstain.core.blocks import Blocks
from abstain.core.influence import Influence
from abstain.core.rows import Rows, rows_of_blocks

METRICS = ("aurc", "augrc", "risk", "oracle_aurc", "e_aurc", "naurc", "auroc", "prediction_rejection_ratio")
_BY_LOSS = ("oracle_aurc", "e_aurc", "naurc", "prediction_rejection_ratio")  # read a second ranking, by loss
_TINY = 1e-14


class Options(NamedTuple):
    """What an area is: which rank weights, what equals mean, which oracle."""

    estimator: str = "harmonic"
    ties: str = "threshold"
    oracle: str = "empirical"


DEFAULT = Options()


class Moments(NamedTuple):
    """Rows with the sums of w^2, w^2 l and w^2 l^2 in each."""

    rows: Rows
    w2: np.ndarray
    w2l: np.ndarray
    w2ll: np.ndarray
    zero_one: bool


class Spread(NamedTuple):
    """An estimate, and sums of the squares and fourth powers of its influences (None where rows do not tell)."""

    estimate: float
    second: float
    fourth: float | None


def moments_of_blocks(blocks: Blocks) -> Moments:
    """Moments of a mergeable table."""
    w2, w2l, w2ll = (np.asarray(c)[::-1] for c in (blocks.w2, blocks.w2l, blocks.w2ll))
    return Moments(rows_of_blocks(blocks.mass, blocks.loss_sum), w2, w2l, w2ll, blocks.zero_one)


def moments_of_samples(loss: np.ndarray, confidence: np.ndarray, weight: np.ndarray | None = None) -> Moments:
    """Moments of numpy vectors, by the fastest road that is exact."""
    if weight is not None:
        return moments_of_blocks(Blocks.from_samples(loss, confidence, weight))
    rows = fast.rows_of(loss, confidence)
    if fast.is_zero_one(loss):  # l^2 = l
        return Moments(rows, rows.m, rows.L, rows.L, True)
    if len(rows.m) == len(loss):  # no ties: a row is a sample
        return Moments(rows, rows.m, rows.L, rows.L * rows.L, False)
    return moments_of_blocks(Blocks.from_samples(loss, confidence))


def has_row_form(metric: str, zero_one: bool) -> bool:
    """Is the influence a straight line in the loss within each row? (Else every sample is needed.)"""
    return zero_one or metric not in _BY_LOSS


def of_moments(metric: str, moments: Moments, options: Options = DEFAULT) -> Spread:
    """Estimate and sums of influences from rows; see `has_row_form`."""
    line = of_rows(metric, moments.rows, options)
    second = float(of.second_moment(line, moments.w2, moments.w2l, moments.w2ll))
    single = moments.zero_one and np.array_equal(moments.w2, moments.rows.m)
    fourth = float(of.zero_one_fourth_moment(line, moments.rows)) if single else None
    return Spread(float(line.estimate), second, fourth)


def of_rows(metric: str, rows: Rows, options: Options = DEFAULT) -> Influence:
    """Influence as a line in the loss for each row; batches allowed. Oracles: 0/1 losses only."""
    parts: dict[str, Callable[[], Influence]] = {
        "area": lambda: of.of_area(rows, options.estimator, options.ties),
        "augrc": lambda: of.of_area(rows, "sele", options.ties),
        "risk": lambda: of.of_risk(rows),
        "oracle": lambda: of.of_zero_one_oracle(rows, options.estimator, options.oracle),
        "auroc": lambda: of.of_auroc(rows),
    }
    if metric == "prediction_rejection_ratio":  # 0/1 loss: 2 AUROC - 1
        errors = rows.S[..., -1:]
        both = (errors > 0) & (errors < rows.W)
        with np.errstate(invalid="ignore", divide="ignore"):
            twice = parts["auroc"]().scaled(2.0)
        estimate = np.where(
            both[..., 0], twice.estimate - 1, 0.0
        )  # one kind only: nothing to gain, by convention 0
        return Influence(estimate, np.where(both, twice.const, 0.0), np.where(both, twice.slope, 0.0))
    return _combine(metric, parts)


def values(
    metric: str,
    loss: np.ndarray,
    confidence: np.ndarray,
    weight: np.ndarray | None = None,
    options: Options = DEFAULT,
) -> tuple[float, np.ndarray]:
    """Estimate and the influence of each sample, in the order given."""
    zero_one = fast.is_zero_one(loss)
    ranked = _Ranked(loss, confidence, weight)
    if has_row_form(metric, zero_one):
        line = ranked.spread_out(of_rows(metric, ranked.rows, options))
        return float(line.estimate), line.const
    by_loss = _Ranked(loss, -loss.astype(np.float64), weight)
    best = by_loss.rows
    whole = weight is None or bool(np.all(weight == np.floor(weight)))
    if not whole:
        by_loss = _Ranked(loss, -loss.astype(np.float64), weight, grouped=False)
        best = by_loss.rows
    parts: dict[str, Callable[[], Influence]] = {
        "area": lambda: ranked.spread_out(of.of_area(ranked.rows, options.estimator, options.ties)),
        "risk": lambda: ranked.spread_out(of.of_risk(ranked.rows)),
        "oracle": lambda: by_loss.spread_out(
            of.of_area(best, options.estimator, "expected" if whole else "threshold")
        ),
        "half": lambda: ranked.spread_out(of.of_half_mass_area(ranked.rows)),
        "half_best": lambda: by_loss.spread_out(of.of_half_mass_area(best)),
    }
    line = _combine(metric, parts)
    return float(line.estimate), line.const


def _combine(metric: str, part: dict[str, Callable[[], Influence]]) -> Influence:
    """Each metric from its parts."""
    if metric in ("risk", "auroc", "augrc") and metric in part:
        return part[metric]()
    if metric == "aurc":
        return part["area"]()
    if metric == "oracle_aurc":
        return part["oracle"]()
    if metric == "prediction_rejection_ratio":
        random = part["risk"]().scaled(0.5)
        least = 1e-15 * np.abs(random.estimate)
        return of.ratio(of.minus(random, part["half"]()), of.minus(random, part["half_best"]()), least)
    best = part["oracle"]()
    excess = of.minus(part["area"](), best)
    if metric == "e_aurc":
        return excess
    risk = part["risk"]()
    return of.ratio(excess, of.minus(risk, best), _TINY * np.abs(risk.estimate))


class _Ranked:
    """Samples in the order of a key, with the rows they fall into and the way back."""

    def __init__(
        self, loss: np.ndarray, key: np.ndarray, weight: np.ndarray | None, grouped: bool = True
    ) -> None:
        self.order = packed.order_of(key)
        ranked = key[self.order]
        ends = np.ones(len(ranked), dtype=bool)
        if grouped:
            np.not_equal(ranked[1:], ranked[:-1], out=ends[:-1])
        self.place = np.cumsum(ends) - ends
        self.loss = loss[self.order].astype(np.float64)
        w = np.ones(len(ranked)) if weight is None else weight[self.order].astype(np.float64)
        m, L = (np.bincount(self.place, x, minlength=self.place[-1] + 1) for x in (w, w * self.loss))
        N, S = np.cumsum(m), np.cumsum(L)
        self.rows = Rows(m, L, N, S, N[-1:], np, False)

    def spread_out(self, line: Influence) -> Influence:
        """One influence per sample, in the order given, held as constants."""
        own = line.const[self.place] + line.slope[self.place] * self.loss
        back = np.empty_like(own)
        back[self.order] = own
        return Influence(line.estimate, back, np.zeros_like(back))
