"""From a user's options to what the plan is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict

from abstain._check import check_choice, check_fraction, check_nonnegative
from abstain.core.estimators import ESTIMATORS, TIES
from abstain.engines.finish import Ask
from abstain.engines.sources import Fields
from abstain.errors import InputError

Model = tuple[str, str]  # the columns of a model's confidence and loss
_COLUMNS = (
    "confidence",
    "loss",
    "correct",
    "sample_weight",
    "groups",
    "logits",
    "label",
    "score",
    "loss_name",
)
_OWN_NAMES = {"sample_weight": "weight", "groups": "group"}


class Reading(TypedDict, total=False):
    """Which columns to read; see `abstain.engines.files.evaluate`."""

    confidence: str
    loss: str
    correct: str | None
    logits: str | Sequence[str]
    label: str | None
    score: str
    loss_name: str
    sample_weight: str | None
    groups: str | None


class Asking(TypedDict, total=False):
    """Which weights an area has, and what equals mean, as in `abstain.aurc`; whether to show how far it is."""

    estimator: str
    ties: str
    progress: bool | None


class AreaOptions(Reading, Asking, total=False):
    """Options of a cluster's function that answers with one area."""


class Options(AreaOptions, total=False):
    """Options of a cluster's `evaluate`."""

    coverages: Sequence[float]
    risks: Sequence[float]
    points: int


class PairOptions(Asking, total=False):
    """Options of `compare`."""

    sample_weight: str | None


class Question(NamedTuple):
    """What a function was asked."""

    name: str
    fields: Fields
    ask: Ask
    progress: bool | None = None


class Pair(NamedTuple):
    """What `compare` was asked: the columns of either model."""

    name: str
    first: Fields
    second: Fields
    ask: Ask
    progress: bool | None = None


def question(name: str, options: Mapping[str, Any], *, spread: bool = True) -> Question:
    """Of `Options`, or of `AreaOptions` where nothing but the area is wanted."""
    own = dict(options)
    known = Options if spread else AreaOptions
    progress = own.pop("progress", None)
    asked = {key: own.pop(key) for key in known.__annotations__ if key not in _COLUMNS and key in own}
    return Question(name, fields_for(name, own), ask_for(name, spread=spread, **asked), progress)


def pair(name: str, first: Model, second: Model, options: Mapping[str, Any]) -> Pair:
    """Of the columns (confidence, loss) of two models, and `PairOptions`."""
    own = dict(options)
    progress, weight = own.pop("progress", None), own.pop("sample_weight", None)
    asked = {key: own.pop(key) for key in ("estimator", "ties") if key in own}
    if own:
        raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(own))!r}")
    for given in (first, second):
        if isinstance(given, str) or len(given) != 2:
            raise InputError(
                f"{name}: `first` and `second` must each name two columns, (confidence, loss), got {given!r}."
            )
    a, b = (Fields(confidence, loss, weight) for confidence, loss in (first, second))
    return Pair(name, replace(a, also=(b.confidence, b.loss)), b, ask_for(name, **asked), progress)


def ask_for(
    name: str,
    estimator: str = "harmonic",
    ties: str = "threshold",
    spread: bool = True,
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
    if "correct" in own:
        if "loss" in own:
            raise InputError(f"{name}: give `loss` or `correct`, not both.")
        own |= {"loss": own["correct"], "correct": True}
    logits = own.pop("logits", ())
    columns = (logits,) if isinstance(logits, str) else tuple(logits)
    if bool(columns) != bool(own.get("label")):
        raise InputError(f"{name}: `logits` and `label` must be given together.")
    return Fields(logits=columns, **own)
