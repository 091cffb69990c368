"""Scores by name: what each takes, how it is labelled, and the way back from a rank key to the number people
know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from abstain._arrays import Array, Namespace, bring, float_dtype, road_for
from abstain._check import as_real, check_choice
from abstain.errors import DtypeError
from abstain.scores import ensemble, logits, softmax

_BOTH = ("logits", "probs")


def _itself(xp: Namespace, key: Array) -> Array:
    return key


def _below_one(xp: Namespace, key: Array) -> Array:
    return -xp.expm1(-key)


def _below_zero(xp: Namespace, key: Array) -> Array:
    return -xp.exp(-key)


@dataclass(frozen=True)
class Score:
    """A confidence score: call it with logits, or with `probs=`.

    takes: which of "logits" and "probs" it accepts. saturates: would its plain number round to the end of
    its scale for confident samples (so that the function returns a rank key)? ensemble: does it want members
    first? parameter: what `tune` varies, "p" or "temperature".
    """

    name: str
    label: str
    function: Callable[..., Any]
    takes: tuple[str, ...]
    saturates: bool
    ensemble: bool = False
    parameter: str | None = None
    back: Callable[[Namespace, Array], Array] = _itself

    def __call__(self, logits: Array | None = None, /, *, probs: Array | None = None, **options: Any) -> Any:
        """One confidence for each sample, higher = surer."""
        if logits is None:
            return self.function(probs=probs, **options)
        return self.function(logits, probs=probs, **options)

    def __repr__(self) -> str:
        kind = "rank key" if self.saturates else "value"
        return f"Score({self.name!r}, {self.label}, takes {' or '.join(self.takes)}, returns its {kind})"


_SCORES = (
    Score("max_softmax", "Max softmax", softmax.max_softmax, _BOTH, True, False, "temperature", _below_one),
    Score("max_logit", "Max logit", logits.max_logit, ("logits",), False),
    Score(
        "softmax_margin",
        "Softmax margin",
        softmax.softmax_margin,
        _BOTH,
        True,
        False,
        "temperature",
        _below_one,
    ),
    Score(
        "negative_entropy",
        "Negative entropy",
        softmax.negative_entropy,
        _BOTH,
        True,
        False,
        "temperature",
        _below_zero,
    ),
    Score(
        "negative_gini",
        "Negative Gini",
        softmax.negative_gini,
        _BOTH,
        True,
        False,
        "temperature",
        _below_zero,
    ),
    Score("logit_norm", "Logit norm", logits.logit_norm, ("logits",), False, False, "p"),
    Score(
        "normalised_max_logit",
        "Normalised max logit",
        logits.normalised_max_logit,
        ("logits",),
        False,
        False,
        "p",
    ),
    Score("energy", "Energy", logits.energy, ("logits",), False, False, "temperature"),
    Score("logit_margin", "Logit margin", logits.logit_margin, _BOTH, False),
)
_ENSEMBLE = (
    Score(
        "predictive_entropy",
        "Predictive entropy",
        ensemble.predictive_entropy,
        _BOTH,
        True,
        True,
        None,
        _below_zero,
    ),
    Score(
        "mutual_information",
        "Mutual information",
        ensemble.mutual_information,
        _BOTH,
        True,
        True,
        None,
        _below_zero,
    ),
    Score("vote_share", "Vote share", ensemble.vote_share, _BOTH, False, True),
    Score(
        "mean_max_softmax", "Mean max softmax", ensemble.mean_max_softmax, _BOTH, True, True, None, _below_one
    ),
)
_READINGS = (
    Score(
        "probability_norm", "Probability norm", softmax.probability_norm, _BOTH, True, False, "p", _below_one
    ),
    Score("clamped_logit_entropy", "Clamped logit entropy", logits.clamped_logit_entropy, ("logits",), False),
)
_BY_NAME = {score.name: score for score in (*_SCORES, *_ENSEMBLE, *_READINGS)}

NAMES = tuple(score.name for score in _SCORES)
"""Scores of one model."""
ENSEMBLE_NAMES = tuple(score.name for score in _ENSEMBLE)
"""Scores of an ensemble, members first."""
READING_NAMES = tuple(score.name for score in _READINGS)
"""Other readings of scores in the population-AURC paper, kept to repeat its numbers."""


def by_name(score: str | Score | Callable[..., Any]) -> Score:
    """The score of that name; a function of your own is taken as one.

    Your function gets the logits, or the probabilities where only these are at hand, and gives one
    confidence for each sample, higher = surer.

    >>> by_name("max_logit")
    Score('max_logit', Max logit, takes logits, returns its value)
    >>> by_name(lambda z: z[..., 0]).name
    'custom score'
    """
    if isinstance(score, Score):
        return score
    if callable(score):
        name = getattr(score, "__name__", "custom score")
        return Score("custom score" if name == "<lambda>" else name, name, _own(score), _BOTH, False)
    check_choice("scores.by_name", "score", score, tuple(_BY_NAME))
    return _BY_NAME[score]


def _own(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(logits: Array | None = None, /, *, probs: Array | None = None, **options: Any) -> Any:
        return function(probs if logits is None else logits, **options)

    return call


def display(name: str | Score | Callable[..., Any], key: Array, /) -> Any:
    """The number people know for a rank key: a probability, a margin, a negative entropy.

    Scores that return their value itself come back unchanged. For showing only: this number saturates.

    >>> display("max_softmax", 0.6931471805599453), display("max_softmax", 50.0)
    (0.5, 1.0)
    """
    score = by_name(name)
    road = road_for(key)
    values = as_real("display", "key", road, key)
    if score.saturates and not road.xp.isdtype(values.dtype, "real floating"):
        raise DtypeError(
            f"display: `key` must hold floats as `{score.name}` returns them, got {values.dtype}."
        )
    if not score.saturates:
        return road.deliver(values)
    wide = road.xp.astype(bring(road, values), float_dtype(road.xp))
    return road.deliver(score.back(road.xp, wide))
