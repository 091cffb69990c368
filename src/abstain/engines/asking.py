"""From a user's options to what the plan is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from abstain._check import check_choice, check_fraction, check_nonnegative
from abstain.core.estimators import ESTIMATORS, TIES
from abstain.engines.finish import Ask
from abstain.engines.sources import Fields
from abstain.errors import InputError

_COLUMNS = ("confidence", "loss", "sample_weight", "groups", "logits", "label", "score", "loss_name")
_OWN_NAMES = {"sample_weight": "weight", "groups": "group"}


def ask_for(
    name: str,
    estimator: str,
    ties: str,
    spread: bool,
    coverages: Sequence[float] = (),
    risks: Sequence[float] = (),
    points: int = 0,
) -> Ask:
    """Checked options."""
    check_choice(name, "estimator", estimator, ESTIMATORS)
    check_choice(name, "ties", ties, TIES)
    shares = tuple(check_fraction(name, "coverages", c) for c in coverages)
    limits = tuple(check_nonnegative(name, "risks", r) for r in risks)
    return Ask(estimator, ties, spread, shares, limits, int(points))


def fields_for(name: str, options: Mapping[str, Any]) -> Fields:
    """Names of columns; those not given keep their defaults."""
    unknown = sorted(set(options) - set(_COLUMNS))
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument {unknown[0]!r}")
    own = {_OWN_NAMES.get(key, key): value for key, value in options.items() if value is not None}
    logits = own.pop("logits", ())
    columns = (logits,) if isinstance(logits, str) else tuple(logits)
    if bool(columns) != bool(own.get("label")):
        raise InputError(f"{name}: `logits` and `label` must be given together.")
    return Fields(logits=columns, **own)
