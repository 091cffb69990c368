"""Scores by name: what each takes, its label, and how to convert a rank key to the familiar number.

Also many scores and losses in one pass (`outputs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from abstain import losses as loss_functions
from abstain._arrays import Array, ArrayLike, Namespace, backend_of, float_dtype
from abstain._check import as_real, check_choice, check_class_scores, check_labels
from abstain.core import simplex
from abstain.errors import DtypeError, InputError
from abstain.scores import ensemble, logits, softmax
from abstain.scores.softmax import Saturation, count_ties_at_top

_LOGITS_OR_PROBS = ("logits", "probs")
# above this key of `max_softmax`, 1 - p_max is below 2^-24 and the softmax rounds to 1 in float32
_ROUNDS_TO_ONE = 24 * float(np.log(2))

# Names that people use for a score. They are not accepted; the error message suggests the score's own name.
_FAMILIAR_NAMES = {
    "msp": "max_softmax",
    "softmax": "max_softmax",
    "softmax_response": "max_softmax",
    "sr": "max_softmax",
    "max_prob": "max_softmax",
    "max_probability": "max_softmax",
    "margin": "softmax_margin",
    "probability_margin": "softmax_margin",
    "entropy": "negative_entropy",
    "softmax_entropy": "negative_entropy",
    "gini": "negative_gini",
    "doctor": "negative_gini",
    "mls": "max_logit",
    "maxlogit": "max_logit",
    "norm": "logit_norm",
    "p_norm": "logit_norm",
    "maxlogit_pnorm": "normalised_max_logit",
    "free_energy": "energy",
    "negative_energy": "energy",
    "logsumexp": "energy",
    "bald": "mutual_information",
    "mi": "mutual_information",
    "ensemble_entropy": "predictive_entropy",
    "votes": "vote_share",
    "variation_ratio": "vote_share",
}


def _keep_value(xp: Namespace, key: Array) -> Array:
    """Return the key: it is the familiar number already."""
    return key


def _one_minus_exp(xp: Namespace, key: Array) -> Array:
    """Convert a key -ln(1 - x) to x, a number that is at most 1."""
    return -xp.expm1(-key)


def _minus_exp(xp: Namespace, key: Array) -> Array:
    """Convert a key -ln(-x) to x, a number that is at most 0."""
    return -xp.exp(-key)


@dataclass(frozen=True)
class Score:
    """A confidence score: call it with logits, or with `probs=`.

    Parameters
    ----------
    name, label : str
        Its name in code and in plots.
    function : callable
        Computes one confidence per sample from logits (or `probs=`), higher = surer.
    takes : tuple of str
        Which of "logits" and "probs" it accepts.
    saturates : bool
        True if the plain number rounds to the end of its scale for confident samples; the function then returns a rank
        key.
    ensemble : bool
        True if the input has the ensemble's members along the first axis.
    parameter : str, optional
        The name of its parameter, "p" or "temperature", if it has one.
    to_display : callable
        Converts (array library, rank key) to the familiar number: a probability, a margin, a negative entropy.

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
    to_display: Callable[[Namespace, Array], Array] = _keep_value

    def __call__(
        self, logits: ArrayLike | None = None, *, probs: ArrayLike | None = None, **options: Any
    ) -> Any:
        """Compute one confidence for each sample, higher = surer."""
        if logits is None:
            return self.function(probs=probs, **options)
        return self.function(logits, probs=probs, **options)

    def __repr__(self) -> str:
        result = "rank key" if self.saturates else "value"
        return f"Score({self.name!r}, {self.label}, takes {' or '.join(self.takes)}, returns its {result})"


def _softmax_score(
    name: str, label: str, to_display: Callable[[Namespace, Array], Array], parameter: str
) -> Score:
    """Define the score whose function in `scores.softmax` has this name; it returns a rank key and has a parameter.

    `label` is for plots, `to_display` converts a key to the familiar number, `parameter` is the name of its parameter.
    The familiar number saturates: for sure samples it rounds to the end of its scale, where they tie. The rank key
    orders samples as that number would with unlimited digits, and does not round to one value. `saturates=True` tells
    users of the score that it returns such a key, so that `to_display` has to be applied before a number is shown.
    """
    return Score(
        name=name,
        label=label,
        function=getattr(softmax, name),
        takes=_LOGITS_OR_PROBS,
        saturates=True,
        parameter=parameter,
        to_display=to_display,
    )


def _logit_score(
    name: str, label: str, parameter: str | None = None, takes: tuple[str, ...] = ("logits",)
) -> Score:
    """Define the score whose function in `scores.logits` has this name; it returns the familiar number itself.

    No rank key (another number of the same order) stands in for that number, because it does not saturate: sure samples
    keep different values. `saturates=False` tells users of the score that its result can be shown as it is. `label` is
    for plots, `parameter` is the name of its parameter, if it has one; `takes` says which of logits and probabilities
    it accepts.
    """
    return Score(
        name=name,
        label=label,
        function=getattr(logits, name),
        takes=takes,
        saturates=False,
        parameter=parameter,
    )


def _ensemble_score(
    name: str, label: str, to_display: Callable[[Namespace, Array], Array] = _keep_value
) -> Score:
    """Define the score whose function in `scores.ensemble` has this name; its input has members along the first axis.

    A function whose plain number saturates (rounds to the end of its scale) returns a rank key instead, which orders
    samples as the number does; `to_display`, passed for these alone, converts a key to the number. The default returns
    the value unchanged. `saturates` tells users of the score whether it returns a key.
    """
    return Score(
        name=name,
        label=label,
        function=getattr(ensemble, name),
        takes=_LOGITS_OR_PROBS,
        saturates=to_display is not _keep_value,
        ensemble=True,
        to_display=to_display,
    )


_ONE_MODEL_SCORES = (
    _softmax_score("max_softmax", "Max softmax", _one_minus_exp, "temperature"),
    _logit_score("max_logit", "Max logit"),
    _softmax_score("softmax_margin", "Softmax margin", _one_minus_exp, "temperature"),
    _softmax_score("negative_entropy", "Negative entropy", _minus_exp, "temperature"),
    _softmax_score("negative_gini", "Negative Gini", _minus_exp, "temperature"),
    _logit_score("logit_norm", "Logit norm", "p"),
    _logit_score("normalised_max_logit", "Normalised max logit", "p"),
    _logit_score("energy", "Energy", "temperature"),
    _logit_score("logit_margin", "Logit margin", takes=_LOGITS_OR_PROBS),
)
_ENSEMBLE_SCORES = (
    _ensemble_score("predictive_entropy", "Predictive entropy", _minus_exp),
    _ensemble_score("mutual_information", "Mutual information", _minus_exp),
    _ensemble_score("vote_share", "Vote share"),
    _ensemble_score("mean_max_softmax", "Mean max softmax", _one_minus_exp),
)
_READING_SCORES = (
    _softmax_score("probability_norm", "Probability norm", _one_minus_exp, "p"),
    _logit_score("clamped_logit_entropy", "Clamped logit entropy"),
)
_BY_NAME = {score.name: score for score in (*_ONE_MODEL_SCORES, *_ENSEMBLE_SCORES, *_READING_SCORES)}

NAMES = tuple(score.name for score in _ONE_MODEL_SCORES)
# their input has members along the first axis
ENSEMBLE_NAMES = tuple(score.name for score in _ENSEMBLE_SCORES)
# second readings of the population-AURC paper's score table, kept to reproduce its numbers
READING_NAMES = tuple(score.name for score in _READING_SCORES)


def by_name(score: str | Score | Callable[..., Any]) -> Score:
    """Look up a score by its name, or wrap your own function as one.

    Your function gets the logits, or the probabilities if there are no logits, and returns one confidence for each
    sample, higher = surer.

    Parameters
    ----------
    score : str, Score or callable
        A name in `NAMES` (scores of one model), `ENSEMBLE_NAMES` (of an ensemble) or `READING_NAMES` (two other
        readings of the population-AURC paper's table of scores, kept to reproduce its numbers), a function, or a
        `Score`, which is returned unchanged.

    Returns
    -------
    Score
        Call it with logits or `probs=`.

    Raises
    ------
    InputError
        If there is no score of that name. The message suggests a similar one ("msp" is called "max_softmax").

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
        wrapped = loss_functions.wrap_user_function("score", score)  # `call` takes logits and probs=
        return Score(
            name=wrapped.name,
            label=wrapped.label,
            function=wrapped.call,
            takes=_LOGITS_OR_PROBS,
            # The result can be shown as it is. Scores that saturate return a rank key: a number that orders samples as
            # a probability does, without rounding to 1, and that `display` converts.
            saturates=False,
        )
    check_name("scores.by_name", score, tuple(_BY_NAME))  # raises the InputError
    return _BY_NAME[score]


def score_words(name: str) -> str:
    """Return the label of a score for axes and legends; a user's own confidence keeps its name.

    >>> score_words("max_softmax"), score_words("stated")
    ('Max softmax', 'stated')
    """
    return _BY_NAME[name].label if name in _BY_NAME else name


def check_name(function: str, score: Any, names: Sequence[str]) -> None:
    """Raise InputError unless `score` is one of `names`; the message suggests the one that was probably meant.

    `function` is the name of the caller, for the message.
    """
    if score in names:
        return
    familiar_names = {familiar: name for familiar, name in _FAMILIAR_NAMES.items() if name in names}
    check_choice(function, "score", score, names, familiar_names)


def display(name: str | Score | Callable[..., Any], key: Array, /) -> Array:
    """Convert a rank key to the familiar number: a probability, a margin, a negative entropy.

    A rank key orders samples as that number does, but does not round to the end of its scale for confident samples.
    Scores that return their value instead of a key are left unchanged. Use the result for display only: it saturates.

    Parameters
    ----------
    name : str, Score or callable
        The score that computed the key.
    key : array
        The keys it returned.

    Returns
    -------
    array or float
        Probabilities, margins, negative entropies; the values of scores without a key unchanged.

    Raises
    ------
    DtypeError
        If a rank key is not an array of floats.

    Examples
    --------
    >>> display("max_softmax", 0.6931471805599453), display("max_softmax", 50.0)
    (0.5, 1.0)
    """
    score = by_name(name)
    backend = backend_of(key)
    values = as_real("display", "key", backend, key)
    if not score.saturates:  # then the score returns its value, not a rank key
        return backend.to_input_library(values)
    # whole numbers are refused: no score returns them as keys, so they are something else
    if not backend.xp.isdtype(values.dtype, "real floating"):
        rule = f"`key` must hold floats as `{score.name}` returns them"
        raise DtypeError(f"display: {rule}, got {values.dtype}.")
    # in the widest float of the library, so that no digit of the key is lost
    wide_key = backend.xp.astype(backend.asarray(values), float_dtype(backend.xp))
    return backend.to_input_library(score.to_display(backend.xp, wide_key))


@dataclass(frozen=True)
class Outputs:
    """Scores and losses of one model by name, on the device of its logits.

    Attributes
    ----------
    scores, losses : dict
        One array, with one value per sample, for each name.
    refused : dict
        The losses that these data do not allow, each with its error.
    rounded : int
        How many samples have a softmax of exactly 1 in float32; counted if logits were passed, else 0.
    ties : Saturation or None
        Ties at the largest probability; counted if probabilities were passed.
    """

    scores: dict[str, Any]
    losses: dict[str, Any]
    refused: dict[str, InputError]
    rounded: int
    ties: Saturation | None


def outputs(
    logits: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    *,
    probs: ArrayLike | None = None,
    scores: Sequence[str | Score | Callable[..., Any]] = (),
    losses: Sequence[str | loss_functions.Loss | Callable[..., Any]] = (),
    name: str = "outputs",
) -> Outputs:
    """Compute many scores and losses of concrete logits or probabilities; what they share is computed once.

    Each result equals that of its own function, bit for bit.

    Parameters
    ----------
    logits, probs : array, shape (..., K)
        Classes along the last axis; exactly one of the two.
    labels : array, shape (...)
        Class indices; needed if there are losses.
    scores, losses : sequence of str, Score, Loss or callable
        What to compute; see `scores.by_name` and `losses.by_name`.
    name : str
        The function to name in error messages.

    Returns
    -------
    Outputs
        Results by name. A loss that raises InputError is listed in `refused` instead.

    >>> computed = outputs([[2.0, 0.0], [0.0, 40.0]], [0, 0], scores=["max_logit"], losses=["zero_one"])
    >>> computed.scores["max_logit"].tolist(), computed.losses["zero_one"].tolist(), computed.rounded
    ([2.0, 40.0], [False, True], 1)
    """
    requested_scores = [by_name(score) for score in scores]
    requested_losses = [loss_functions.by_name(loss) for loss in losses]
    class_scores = check_class_scores(name, logits, probs, like=labels)
    class_indices = check_labels(name, class_scores, labels) if requested_losses else None

    # Built-in scores and losses with a formula in `simplex` are computed together, in one pass over the rows. All
    # others (also a user's own under the name of a built-in one) are called one by one.
    builtin_names = [
        score.name
        for score in requested_scores
        if score is _BY_NAME.get(score.name) and class_scores.kind in score.takes
    ]
    builtin_names += [
        loss.name for loss in requested_losses if loss.function is getattr(loss_functions, loss.name, None)
    ]
    in_one_pass = [builtin for builtin in builtin_names if builtin in simplex.NUMBERS]
    # each name once; the first two are always needed to count ties
    columns = list(dict.fromkeys(["max_softmax", "max_logit", *in_one_pass]))
    values = simplex.numbers_of_rows(class_scores, columns, temperature=1.0, labels=class_indices)
    values_by_name = dict(zip(columns, values))

    computed_scores = {}
    for score in requested_scores:
        if score.name in in_one_pass:
            computed_scores[score.name] = class_scores.to_input_library(values_by_name[score.name])
        else:
            computed_scores[score.name] = score(logits, probs=probs)

    computed_losses = {}
    refused_losses = {}
    for loss in requested_losses:
        try:
            if loss.name in in_one_pass:
                if loss.name == "cross_entropy":
                    loss_functions.check_possible(class_scores, values_by_name[loss.name])
                computed_losses[loss.name] = class_scores.to_input_library(values_by_name[loss.name])
            else:
                computed_losses[loss.name] = loss(logits, labels, probs=probs)
        except InputError as error:
            refused_losses[loss.name] = error

    rounded_count = 0
    ties = None
    if class_scores.kind == "logits":
        is_rounded = values_by_name["max_softmax"] > _ROUNDS_TO_ONE
        rounded_count = int(class_scores.backend.xp.count_nonzero(is_rounded))
    else:
        # for probabilities, "max_logit" is the largest probability
        by_probability = count_ties_at_top(values_by_name["max_logit"])
        by_key = count_ties_at_top(values_by_name["max_softmax"])
        ties = replace(by_probability, repaired=by_key.tied)
    return Outputs(
        scores=computed_scores,
        losses=computed_losses,
        refused=refused_losses,
        rounded=rounded_count,
        ties=ties,
    )
