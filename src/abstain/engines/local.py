"""The plan in one piece: samples that fit in memory, finished as one range."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from abstain.core.estimators import needs_whole_weights
from abstain.engines.finish import Ask, Place, finish, finish_tie
from abstain.engines.ranges import Columns, RangeSums, split
from abstain.engines.summary import Summary, summarise
from abstain.errors import InputError


def is_whole(weight: np.ndarray | None) -> bool:
    """Are the weights repetitions?"""
    return weight is None or bool(np.all(weight == np.floor(weight)))


def check_whole(name: str, whole: bool, ask: Ask) -> None:
    """Some estimators count neighbours."""
    who = needs_whole_weights(ask.estimator, ask.ties)
    if who and not whole:
        raise InputError(f"{name}: {who} takes whole-number weights only (a weight means a repetition).")


def oracle_ask(ask: Ask, whole: bool) -> Ask:
    """The question of the pass keyed by loss."""
    ties = "expected" if whole else "threshold"
    return replace(ask, by_loss=True, ties=ties, coverages=(), risks=(), points=0)


def needs_oracle_pass(ask: Ask, zero_one: bool, weighted: bool) -> bool:
    """0/1 losses of unit weight have a closed form."""
    return ask.spread and not (zero_one and not weighted)


def keyed_by_loss(columns: Columns) -> Columns:
    """Confidence replaced by minus the loss: the order of the oracle."""
    loss = columns.loss.astype(np.float64)
    return Columns(loss, -loss, columns.weight)


def summary_of(name: str, columns: Columns, ask: Ask) -> Summary:
    """All answers about samples at hand."""
    whole = is_whole(columns.weight)
    check_whole(name, whole, ask)
    sums = split(columns, np.empty(0))[1]
    oracle = None
    if needs_oracle_pass(ask, columns.loss.dtype == bool, columns.weight is not None):
        by_loss = keyed_by_loss(columns)
        oracle = [_one_part(by_loss, split(by_loss, np.empty(0))[1], oracle_ask(ask, whole))]
    return summarise(sums, [_one_part(columns, sums, ask)], ask, oracle)


def _one_part(columns: Columns, sums: RangeSums, ask: Ask):  # type: ignore[no-untyped-def]
    place = Place(0.0, 0.0, float(sums.sums[0, 0]))
    if sums.tied[0]:
        return finish_tie(sums.sums[:, 0], float(sums.low[0]), place, ask)
    return finish(columns, place, ask)
