"""Scores by name: what each takes, its label, and the way back from a rank key to the number people know.

Also many scores and losses in one pass (`outputs`), and the choice of a score's parameter on held-out data (`tune`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from abstain import losses as loss_functions
from abstain._arrays import Array, Namespace, backend_of, float_dtype
from abstain._check import as_real, check_choice, check_classes, check_labels
from abstain.core import area_estimators, simplex
from abstain.core.rows import rows_from_samples
from abstain.errors import DtypeError, InputError
from abstain.scores import ensemble, logits, softmax
from abstain.scores.softmax import Saturation, at_top

_BOTH = ("logits", "probs")
_ROUNDS_TO_ONE = 24 * float(np.log(2))  # above this key 1 + s is 1 in float32, and so is the softmax


def _itself(xp: Namespace, key: Array) -> Array:
    return key


def _below_one(xp: Namespace, key: Array) -> Array:
    return -xp.expm1(-key)


def _below_zero(xp: Namespace, key: Array) -> Array:
    return -xp.exp(-key)


@dataclass(frozen=True)
class Score:
    """A confidence score: call it with logits, or with `probs=`.

    Parameters
    ----------
    name, label : str
        In code and in pictures.
    function : callable
        From logits (or `probs=`) to one confidence per sample, higher = surer.
    takes : tuple of str
        Which of "logits" and "probs" it accepts.
    saturates : bool
        Would its plain number round to the end of its scale for confident samples (so that the function returns a rank
        key)?
    ensemble : bool
        Does it want members first?
    parameter : str, optional
        What `tune` varies, "p" or "temperature".
    back : callable
        From (library, rank key) to the number people know.

    Examples
    --------
    >>> by_name("max_logit")([[1.0, 3.0]]).tolist()
    [3.0]
    """

    name: str
    label: str
    function: Callable[..., Any]
    takes: tuple[str, ...]
    saturates: bool
    ensemble: bool = False
    parameter: str | None = None
    back: Callable[[Namespace, Array], Array] = _itself

    def __call__(self, logits: Array = None, /, *, probs: Array = None, **options: Any) -> Any:
        """One confidence for each sample, higher = surer."""
        if logits is None:
            return self.function(probs=probs, **options)
        return self.function(logits, probs=probs, **options)

    def __repr__(self) -> str:
        kind = "rank key" if self.saturates else "value"
        return f"Score({self.name!r}, {self.label}, takes {' or '.join(self.takes)}, returns its {kind})"


def _softmax(name: str, label: str, back: Callable[[Namespace, Array], Array], parameter: str) -> Score:
    return Score(name, label, getattr(softmax, name), _BOTH, True, False, parameter, back)


def _logits(name: str, label: str, parameter: str | None = None) -> Score:
    return Score(name, label, getattr(logits, name), ("logits",), False, False, parameter)


def _ensemble(name: str, label: str, back: Callable[[Namespace, Array], Array] = _itself) -> Score:
    return Score(name, label, getattr(ensemble, name), _BOTH, back is not _itself, True, None, back)


_SCORES = (
    _softmax("max_softmax", "Max softmax", _below_one, "temperature"),
    _logits("max_logit", "Max logit"),
    _softmax("softmax_margin", "Softmax margin", _below_one, "temperature"),
    _softmax("negative_entropy", "Negative entropy", _below_zero, "temperature"),
    _softmax("negative_gini", "Negative Gini", _below_zero, "temperature"),
    _logits("logit_norm", "Logit norm", "p"),
    _logits("normalised_max_logit", "Normalised max logit", "p"),
    _logits("energy", "Energy", "temperature"),
    Score("logit_margin", "Logit margin", logits.logit_margin, _BOTH, False),
)
_ENSEMBLE = (
    _ensemble("predictive_entropy", "Predictive entropy", _below_zero),
    _ensemble("mutual_information", "Mutual information", _below_zero),
    _ensemble("vote_share", "Vote share"),
    _ensemble("mean_max_softmax", "Mean max softmax", _below_one),
)
_READINGS = (
    _softmax("probability_norm", "Probability norm", _below_one, "p"),
    _logits("clamped_logit_entropy", "Clamped logit entropy"),
)
_BY_NAME = {score.name: score for score in (*_SCORES, *_ENSEMBLE, *_READINGS)}

NAMES = tuple(score.name for score in _SCORES)  # of one model
ENSEMBLE_NAMES = tuple(score.name for score in _ENSEMBLE)  # members first
# kept to repeat numbers of the population-AURC paper
READING_NAMES = tuple(score.name for score in _READINGS)


def by_name(score: str | Score | Callable[..., Any]) -> Score:
    """The score of that name; a function of your own is taken as one.

    Your function gets the logits, or the probabilities where only these are at hand, and gives one
    confidence for each sample, higher = surer.

    Parameters
    ----------
    score : str, Score or callable
        A name in `NAMES`, `ENSEMBLE_NAMES` or `READING_NAMES`; a score comes back as it is.

    Returns
    -------
    Score
        Call it with logits or `probs=`.

    Examples
    --------
    >>> by_name("max_logit")
    Score('max_logit', Max logit, takes logits, returns its value)
    >>> by_name(lambda z: z[..., 0]).name
    'custom score'
    """
    if isinstance(score, Score):
        return score
    if callable(score):
        return Score(*loss_functions.of_users("score", score), _BOTH, False)
    check_choice("scores.by_name", "score", score, tuple(_BY_NAME))
    return _BY_NAME[score]


def display(name: str | Score | Callable[..., Any], key: Array, /) -> Any:
    """The number people know for a rank key: a probability, a margin, a negative entropy.

    Scores that return their value itself come back unchanged. For showing only: this number saturates.

    Parameters
    ----------
    name : str, Score or callable
        The score that made the key.
    key : array
        What it returned.

    Returns
    -------
    array or float
        Probabilities, margins, negative entropies; values of unkeyed scores unchanged.

    Examples
    --------
    >>> display("max_softmax", 0.6931471805599453), display("max_softmax", 50.0)
    (0.5, 1.0)
    """
    score = by_name(name)
    backend = backend_of(key)
    values = as_real("display", "key", backend, key)
    if not score.saturates:
        return backend.deliver(values)
    if not backend.xp.isdtype(values.dtype, "real floating"):
        rule = f"`key` must hold floats as `{score.name}` returns them"
        raise DtypeError(f"display: {rule}, got {values.dtype}.")
    wide = backend.xp.astype(backend.asarray(values), float_dtype(backend.xp))
    return backend.deliver(score.back(backend.xp, wide))


@dataclass(frozen=True)
class Outputs:
    """Scores and losses of one model by name, where its logits live.

    refused: losses that this data rules out, each with its error. rounded: samples whose softmax is 1 in
    float32 (counted from logits). ties: ties at the top of the plain maximum (counted from probabilities).
    """

    scores: dict[str, Any]
    losses: dict[str, Any]
    refused: dict[str, InputError]
    rounded: int
    ties: Saturation | None


def outputs(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    scores: Sequence[str | Score | Callable[..., Any]] = (),
    losses: Sequence[str | loss_functions.Loss | Callable[..., Any]] = (),
    name: str = "outputs",
) -> Outputs:
    """Many scores and losses of concrete logits or probabilities, what they share in one pass.

    Each is equal to its own function's result, bit for bit.

    >>> found = outputs([[2.0, 0.0], [0.0, 40.0]], [0, 0], scores=["max_logit"], losses=["zero_one"])
    >>> found.scores["max_logit"].tolist(), found.losses["zero_one"].tolist(), found.rounded
    ([2.0, 40.0], [False, True], 1)
    """
    wanted = [by_name(score) for score in scores]
    measured = [loss_functions.by_name(loss) for loss in losses]
    classes = check_classes(name, logits, probs, like=labels)
    own = check_labels(name, classes, labels) if measured else None
    shared = [s.name for s in wanted if s is _BY_NAME.get(s.name) and classes.kind in s.takes]
    shared += [m.name for m in measured if m.function is getattr(loss_functions, m.name, None)]
    names = list(dict.fromkeys(["max_softmax", "max_logit", *(n for n in shared if n in simplex.NUMBERS)]))
    found = dict(zip(names, simplex.numbers_of_rows(classes, names, 1.0, own)))
    result = Outputs({}, {}, {}, 0, None)
    given = {name: found[name] for name in shared if name in found}
    for score in wanted:
        key = given.get(score.name)
        result.scores[score.name] = score(logits, probs=probs) if key is None else classes.deliver(key)
    for loss in measured:
        value = given.get(loss.name)
        try:
            if value is not None and loss.name == "cross_entropy":
                loss_functions.check_possible(classes, value)
            delivered = loss(logits, labels, probs=probs) if value is None else classes.deliver(value)
            result.losses[loss.name] = delivered
        except InputError as problem:
            result.refused[loss.name] = problem
    if classes.kind == "logits":
        rounded = classes.backend.xp.count_nonzero(found["max_softmax"] > _ROUNDS_TO_ONE)
        return replace(result, rounded=int(rounded))
    return replace(result, ties=Saturation(*at_top(found["max_logit"]), at_top(found["max_softmax"])[1]))


Metric = Callable[[Array, Array], Any]

_GRIDS: dict[str, tuple[float, ...]] = {
    "p": (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, float("inf")),
    "temperature": (*(t / 10 for t in range(1, 11)), 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0),
}


@dataclass(frozen=True)
class Tuning:
    """What was tried and what ranked best (lowest metric; the first of equals); made by `tune`.

    Attributes
    ----------
    name, parameter, metric : str
        The score, what was varied, and by what it was judged.
    best, value : float
        The best parameter and its metric.
    table : tuple of (parameter, metric)
        All that was tried.
    score : callable
        The tuned score, ready to be called on new logits.

    Examples
    --------
    >>> tune("energy", [[2.0, 0.0], [0.0, 1.0]], [0, 0], grid=[1.0]).score([[0.0, 0.0]]).round(4).tolist()
    [0.6931]
    """

    name: str
    parameter: str
    best: float
    value: float
    metric: str
    table: tuple[tuple[float, float], ...]
    score: Callable[..., Any]

    def __repr__(self) -> str:
        tried = ", ".join(f"{v:g}: {m:.6g}" for v, m in self.table)
        best = f"{self.parameter} = {self.best:g} with {self.metric} {self.value:.6g}"
        return f"Tuning({self.name}, best {best}; tried {tried})"


def tune(
    name: str | Score,
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    grid: Sequence[float] | None = None,
    loss: str | loss_functions.Loss | Callable[..., Any] = "zero_one",
    metric: str | Metric = "aurc",
) -> Tuning:
    """Choose p or temperature, whichever the score has, by the AURC of a loss on held-out data; lower is better.

    Tune on data that is not used to report the result: the smallest of many values is too good. The loss is
    that of the model's own prediction and does not change with the parameter.

    Parameters
    ----------
    name : str or Score
        A score with a parameter: p for the norms, temperature for the softmax scores and energy.
    logits, labels, probs : array
        As for the score and the loss.
    grid : sequence of float, optional
        Values to try; p in 1 ... 10 and infinity, temperatures 0.1 ... 10 unless given.
    loss : str or callable
        A name in `abstain.losses.NAMES` or a function `f(logits, labels)`.
    metric : {"aurc", "augrc"} or callable
        A function of (loss, confidence), lower is better.

    Returns
    -------
    Tuning
        The best value (the first of equals), all that was tried, and the tuned score.

    Examples
    --------
    >>> result = tune("energy", [[2.0, 0.0], [1.9, 1.8], [0.0, 1.0]], [0, 1, 1], grid=[0.1, 1.0])
    >>> result.best, round(result.value, 4)  # at 0.1 the error ranks second, at 1 first
    (0.1, 0.2778)
    """
    score = by_name(name)
    if score.parameter is None:
        told = f"got {score.name!r}, which has none"
        raise InputError(f"tune: `name` must be a score with a parameter, {told}.")
    least = 1.0 if score.name == "probability_norm" else 0.0  # whose order must be above 1
    every = [v for v in _GRIDS[score.parameter] if v > least] if grid is None else grid
    values = tuple(float(v) for v in every)
    if not values:
        raise InputError("tune: `grid` must hold at least one value, got none.")
    measured = loss_functions.by_name(loss)(logits, labels, probs=probs)
    if not callable(metric):
        check_choice("tune", "metric", metric, ("aurc", "augrc"))
        judge: Metric = functools.partial(_area, "harmonic" if metric == "aurc" else "sele")
    else:
        judge = metric
    confidences = (score(logits, probs=probs, **{score.parameter: v}) for v in values)
    table = tuple((v, float(judge(measured, c))) for v, c in zip(values, confidences))
    best, value = min(table, key=lambda row: row[1])
    label = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
    tuned = functools.partial(score, **{score.parameter: best})
    return Tuning(score.name, score.parameter, best, value, label, table, tuned)


def _area(estimator: str, loss: Array, confidence: Array) -> Any:
    backend = backend_of(loss, confidence)
    loss, confidence = (backend.xp.reshape(backend.asarray(x), (-1,)) for x in (loss, confidence))
    if backend.host:
        return area_estimators.area_of_samples(loss, confidence, None, estimator, "threshold")
    return area_estimators.area(rows_from_samples(backend.xp, loss, confidence), estimator, "threshold")
