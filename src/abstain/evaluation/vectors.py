"""Losses and confidences by name, from logits, probabilities, a classifier or the user's own vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from abstain import losses as loss_module
from abstain import scores as score_module
from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import labels_to_indices
from abstain.errors import InputError, ShapeError
from abstain.evaluation.guessing_note import note_on_guessing
from abstain.scores.catalogue import outputs

# the last from logits only
DEFAULT_SCORES = (
    "max_softmax",
    "softmax_margin",
    "negative_entropy",
    "max_logit",
)
DEFAULT_LOSSES = ("zero_one", "cross_entropy")
# Some data rule these losses out: a label of probability 0, fewer than k classes.
_LOSSES_THAT_MAY_BE_UNDEFINED = ("cross_entropy", "top_k")
_RESPONSE_METHODS = ("predict_proba", "decision_function")  # of a classifier; the first that it has is called


class Vectors(NamedTuple):
    """Losses and confidences of one data set by name, all of one length.

    `notes` are sentences that the reader of the result should see. `computed_scores` are the names of scores that were
    computed from class scores, `replaced_scores` those of them that the user's own confidences replaced. `probability`
    is the largest class probability of each sample, where "max_softmax" was computed. `guessing_note` is a sentence of
    its own for a model whose class scores are right no more often than guessing, and None for any other.
    """

    losses: dict[str, np.ndarray]
    scores: dict[str, np.ndarray]
    notes: tuple[str, ...]
    computed_scores: frozenset[str] = frozenset()
    replaced_scores: frozenset[str] = frozenset()
    probability: np.ndarray | None = None
    guessing_note: str | None = None

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(next(iter(self.scores.values())))


def expand_names(names: Any, default: Sequence[Any], all_names: Sequence[Any]) -> list[Any]:
    """Expand an argument such as `metrics=` to a list: None is `default`, "all" is `all_names`, one name is itself."""
    if names is None:
        return list(default)
    if isinstance(names, str):
        return list(all_names) if names == "all" else [names]
    return list(names) if isinstance(names, Sequence) else [names]


def flat(values: ArrayLike) -> np.ndarray:
    """An array of any shape and library as one numpy vector."""
    return np.asarray(to_host(values)).reshape(-1)


def column_names(model_outputs: ArrayLike) -> list[Any] | None:
    """The class names in the columns of a data frame of logits or probabilities; None where columns are numbered."""
    columns = getattr(model_outputs, "columns", None)
    if columns is None or callable(columns):
        return None
    names = list(columns)
    return None if names == list(range(len(names))) else names


def read_model(
    function: str,
    scores: Any,
    losses: Any,
    logits: Array = None,
    labels: Array = None,
    probs: Array = None,
    classes: Sequence[Any] | None = None,
    model_name: str = "",
) -> Vectors:
    """Compute scores and losses of one model in one pass over its outputs.

    Cross-entropy and top-k are undefined on some data (a label of probability 0, fewer than k classes). Where they are
    computed by default or as part of "all", they are then left out with a note; a loss that the user named raises its
    error. Further notes tell of samples that tie, and of those that only logits can order.

    Parameters
    ----------
    function : str
        The public function that errors name.
    scores, losses : names or functions, "all" or None
        What to compute; None is the default. Without `labels` there are no losses.
    logits, probs : array, shape (..., K)
        One of them.
    labels : array, shape (...), optional
        Class indices, or names from `classes` or from the columns of a data frame.
    model_name : str
        The model, for the note that its accuracy is that of guessing; "" for one without a name.
    """
    kind: Literal["logits", "probs"] = "probs" if logits is None else "logits"
    if labels is not None:
        model_outputs = probs if logits is None else logits
        labels = labels_to_indices(function, labels, classes, column_names(model_outputs))
    # names of the scores that can be computed from logits, or from probabilities
    allowed_scores = [name for name in score_module.NAMES if kind in score_module.by_name(name).takes]
    default_scores = [name for name in DEFAULT_SCORES if name in allowed_scores]
    # names or functions: of None the default ones, of "all" all
    requested_losses = [] if labels is None else expand_names(losses, DEFAULT_LOSSES, loss_module.NAMES)
    computed = outputs(
        logits,
        labels,
        probs=probs,
        scores=expand_names(scores, default_scores, allowed_scores),
        losses=requested_losses,
        name=function,
    )
    notes = []
    losses_are_default = losses is None or losses == "all"
    for loss, problem in computed.refused.items():  # the error of each loss that is undefined on these data
        may_be_left_out = losses_are_default and loss in _LOSSES_THAT_MAY_BE_UNDEFINED
        if not may_be_left_out or not computed.losses:  # without it, another loss must be left
            raise problem
        notes.append(f"{loss} left out: {problem}")
    guessing_note = None
    if labels is not None:
        guessing_note = note_on_guessing(model_name, probs if logits is None else logits, labels, kind)
    # samples that share the largest probability, which are counted where probabilities were passed
    if computed.ties is not None and computed.ties.tied > 1:
        notes.append(computed.ties.sentence)
    # one array or several by name become flat vectors by name; a single array is called "score"
    confidences = _vectors_by_name("score", computed.scores)
    if computed.rounded > 1:  # how many samples float32 would round to a softmax of 1
        sample_count = len(next(iter(confidences.values())))
        notes.append(
            f"{computed.rounded:,} samples ({computed.rounded / sample_count:.1%}) have a softmax of exactly 1.0 in "
            f"float32; ranked here by the logits, they do not tie."
        )
    probability = None
    if "max_softmax" in confidences:
        probability = np.asarray(score_module.display("max_softmax", confidences["max_softmax"]))
    return Vectors(
        losses=_vectors_by_name("loss", computed.losses),
        scores=confidences,
        notes=tuple(notes),
        computed_scores=frozenset(confidences),
        probability=probability,
        guessing_note=guessing_note,
    )


def _vectors_by_name(default_name: str, values: Any) -> dict[str, np.ndarray]:
    """Flat vectors by name from a dict of arrays, from one array (called `default_name`) or from None."""
    if values is None:
        return {}
    arrays = values if isinstance(values, Mapping) else {default_name: values}
    return {str(name): flat(array) for name, array in arrays.items()}


def is_table(data: Any) -> bool:
    """Is this a data frame, an Arrow table or a `datasets.Dataset`, in memory and with named columns?"""
    has_columns = hasattr(data, "columns") or hasattr(data, "column_names")
    return has_columns and any(hasattr(data, method) for method in ("to_numpy", "to_arrow", "to_pandas"))


def is_read_file(data: Any) -> bool:
    """Is this what `abstain.formats.read_predictions` returned? It is told by its method, from a higher layer."""
    return hasattr(data, "loss_and_confidence")


def may_name_columns(*arguments: Any) -> bool:
    """Can these arguments name columns of a table? None leaves the choice of the column to the reader."""
    return all(argument is None or isinstance(argument, str) for argument in arguments)


def is_classifier(model: Any) -> bool:
    """Is this a classifier with the methods of scikit-learn's?"""
    return hasattr(model, "predict") and any(hasattr(model, name) for name in _RESPONSE_METHODS)


class ClassifierOutputs(NamedTuple):
    """Outputs of a classifier, one of `logits` and `probs`; the other is None. `classes` are names in column order."""

    logits: Array | None
    probs: Array | None
    classes: Any


def read_classifier(classifier: Any, X: Any, y: Any, probs: Any, classes: Any) -> ClassifierOutputs:
    """Compute the outputs of a fitted classifier for its samples `X`, whose labels are `y`.

    Probabilities come from `predict_proba`; without that method logits come from `decision_function`, a vector for two
    classes. The names of the classes are those that the user passed, otherwise the classifier's `classes_`. `probs` is
    what the user passed: InputError unless it is None, or if samples or labels are missing.
    """
    if X is None or y is None or probs is not None:
        raise InputError(
            "evaluate: a classifier needs samples and labels, `evaluate(classifier, X, y)`, and no `probs=`."
        )
    if classes is None:
        classes = getattr(classifier, "classes_", None)
    if hasattr(classifier, "predict_proba"):
        return ClassifierOutputs(logits=None, probs=np.asarray(classifier.predict_proba(X)), classes=classes)
    return ClassifierOutputs(logits=np.asarray(classifier.decision_function(X)), probs=None, classes=classes)


def gather_vectors(
    logits: ArrayLike | None,
    labels: ArrayLike | None,
    probs: ArrayLike | None,
    loss: Any,
    confidence: Any,
    classes: Any,
    scores: Any,
    losses: Any,
) -> Vectors:
    """Losses and confidences by name: computed from a model's outputs, the user's own, or both together.

    Parameters
    ----------
    logits, probs : array, shape (..., K), optional
        Outputs of the model, one of them.
    labels : array, shape (...), optional
        Class indices, or names from `classes`. Not needed if the user passes losses.
    loss, confidence : array or dict of arrays, optional
        The user's own; an array gets the name "loss" or "confidence". They replace computed ones of the same name.
    classes, scores, losses
        Class names, and which scores and losses to compute; None is the default.

    InputError where an argument is missing or excludes another, or there is no sample; ShapeError where the lengths
    differ.
    """
    if logits is not None and probs is not None:
        raise InputError("evaluate: takes logits or `probs=`, one of them, got both.")
    user_losses = _vectors_by_name("loss", loss)
    user_scores = _vectors_by_name("confidence", confidence)
    computed = Vectors(losses={}, scores={}, notes=())
    if logits is not None or probs is not None:
        if labels is None and not user_losses:
            raise InputError("evaluate: needs `labels` with logits or probabilities (or your own `loss=`).")
        computed = read_model(
            "evaluate",
            scores=scores,
            losses=losses,
            logits=logits,
            labels=labels,
            probs=probs,
            classes=classes,
        )
    elif not user_losses or not user_scores:
        raise InputError(
            "evaluate: needs logits and labels, `probs=` and labels, or `loss=` and `confidence=`."
        )
    elif scores is not None or losses is not None:
        raise InputError(
            "evaluate: scores and losses by name are computed from logits or probabilities, got none."
        )
    vectors = Vectors(  # the user's own replace computed ones of the same name
        losses=computed.losses | user_losses,
        scores=computed.scores | user_scores,
        notes=computed.notes if computed.guessing_note is None else (computed.guessing_note, *computed.notes),
        computed_scores=computed.computed_scores,
        replaced_scores=computed.computed_scores & user_scores.keys(),
        probability=computed.probability,
    )
    lengths = {name: len(values) for name, values in (vectors.losses | vectors.scores).items()}
    if len(set(lengths.values())) != 1:
        counts = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ShapeError(f"evaluate: losses and confidences must be of one length, got {counts}.")
    if 0 in lengths.values():
        raise InputError("evaluate: needs at least one sample, got none.")
    return vectors


def check_column(argument: str, values: ArrayLike | None, n: int) -> np.ndarray | None:
    """An argument with one value per sample as a vector; ShapeError unless there are `n` values.

    `argument` is its name in `evaluate`, such as "groups". Two kinds of clusters, an array of shape (n, 2), are
    returned as they are; None stays None.
    """
    if values is None:
        return None
    if argument == "clusters" and isinstance(values, np.ndarray) and values.shape == (n, 2):
        return values
    column = flat(values)
    if len(column) != n:
        raise ShapeError(f"evaluate: `{argument}` must have one value per sample, got {len(column)} for {n}.")
    return column
