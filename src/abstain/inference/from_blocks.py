"""Intervals from a block table, when the samples themselves are gone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from abstain._check import check_choice, check_fraction
from abstain.core import spread
from abstain.core.blocks import Blocks
from abstain.core.estimators import area
from abstain.errors import InputError
from abstain.inference._analytic import centre_of, choose_method, finish
from abstain.inference._units import BOOTSTRAP_ONLY, NAMES, Units
from abstain.inference.influence import Measured, freedom_of
from abstain.inference.results import Interval


def interval_from_blocks(
    metric: str, blocks: Blocks, /, *, level: float = 0.95, method: str | None = None, **options: Any
) -> Interval:
    """Interval from a mergeable block table (a stream, files, replicas); independent samples.

    AURC, AUGRC and risk of any loss; the other metrics of `interval` with an influence function for 0/1
    losses.

    >>> table = Blocks.from_samples(np.asarray([0, 0, 1, 1]), np.arange(4.0))
    >>> interval_from_blocks("risk", table, method="normal")
    risk 0.5, 95% interval [-0.2956, 1.296], standard error 0.25 (normal, n = 4)
    """
    check_choice("interval_from_blocks", "metric", metric, NAMES)
    level = check_fraction("interval_from_blocks", "level", level, open_high=True)
    moments = spread.moments_of_blocks(blocks)
    if metric in BOOTSTRAP_ONLY or not spread.has_row_form(metric, moments.zero_one):
        raise InputError(
            f"interval_from_blocks: {metric} of this loss needs the samples themselves, which a block table "
            f"has added up. Use `interval` on the samples."
        )
    found = spread.of_moments(metric, moments, spread.Options(**options))
    units = _units_of(metric, moments, int(blocks.count.sum()), options)
    method = choose_method(units, method)
    if method in ("bootstrap", "bca", "jackknife"):
        raise InputError(
            f'interval_from_blocks: `method="{method}"` needs the samples themselves. Use `interval`.'
        )
    n, loo = units.n, float(area(moments.rows, "loo", options.get("ties", "threshold")))
    error, freedom = math.sqrt(found.second) / units.total, freedom_of(n, found.second, found.fourth)
    measured = Measured(found.estimate, error, freedom, loo)
    return finish(units, measured, centre_of(units, measured, method), level, method)


def _units_of(metric: str, moments: spread.Moments, n: int, options: dict[str, Any]) -> Units:
    """Just enough of the samples behind a table to choose a scale: its losses, block by block."""
    rows = moments.rows
    loss = np.repeat([0.0, 1.0], [n - int(rows.S[-1]), int(rows.S[-1])]) if moments.zero_one else rows.L
    weight = None if bool(np.array_equal(moments.w2, rows.m)) else rows.m
    return Units(
        metric, loss, loss, weight, None, n, float(rows.W[0]), None, None, None, options, moments.zero_one
    )
