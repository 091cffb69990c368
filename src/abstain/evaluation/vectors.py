"""Losses and confidences by name, from logits, probabilities, a classifier or the user's own vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from abstain import losses as loss_module
from abstain import scores as score_module
from abstain._arrays import Array, to_host
from abstain._check import labels_to_indices
from abstain.errors import InputError, ShapeError
from abstain.scores.catalogue import outputs

LOGIT_SCORES = ("max_softmax", "softmax_margin", "negative_entropy", "max_logit")
DEFAULT_LOSSES = ("zero_one", "cross_entropy")
_MAY_BE_RULED_OUT = ("cross_entropy", "top_k")  # a label of probability 0; fewer than k classes
_RESPONSES = ("predict_proba", "decision_function")  # of a classifier, the first it has is read


class Vectors(NamedTuple):
    """Losses and confidences by name, all of one length, and what a reader should know of them."""

    losses: dict[str, np.ndarray]
    scores: dict[str, np.ndarray]
    notes: list[str]

    @property
    def n(self) -> int:
        """Samples."""
        return len(next(iter(self.scores.values())))


def listed(wanted: Any, default: Sequence[Any], everything: Sequence[Any]) -> list[Any]:
    """The names asked for: none means the default, "all" everything, one may stand alone."""
    if wanted is None:
        return list(default)
    if isinstance(wanted, str):
        return list(everything) if wanted == "all" else [wanted]
    return list(wanted) if isinstance(wanted, Sequence) else [wanted]


def flat(values: Array) -> np.ndarray:
    """One vector on the host."""
    return np.asarray(to_host(values)).reshape(-1)


def column_names(outputs: Array) -> list[Any] | None:
    """The class names in the columns of a data frame of logits or probabilities; None where columns are numbered."""
    columns = getattr(outputs, "columns", None)
    names = None if columns is None or callable(columns) else list(columns)
    return None if names == list(range(len(names or ()))) else names


def read_model(
    name: str,
    scores: Any,
    losses: Any,
    logits: Array = None,
    labels: Array = None,
    probs: Array = None,
    classes: Sequence[Any] | None = None,
) -> Vectors:
    """Scores and losses of one model, in one pass over its outputs.

    A loss that was not asked for by name and that this data rules out is noted and left out.
    """
    kind = "probs" if logits is None else "logits"
    if labels is not None:
        labels = labels_to_indices(name, labels, classes, column_names(probs if logits is None else logits))
    allowed = [s for s in score_module.NAMES if kind in score_module.by_name(s).takes]
    asked = listed(scores, [s for s in LOGIT_SCORES if s in allowed], allowed)
    measured = () if labels is None else listed(losses, DEFAULT_LOSSES, loss_module.NAMES)
    found = outputs(logits, labels, probs=probs, scores=asked, losses=measured, name=name)
    notes = []
    for loss, problem in found.refused.items():
        if losses not in (None, "all") or loss not in _MAY_BE_RULED_OUT or not found.losses:
            raise problem
        notes.append(f"{loss} left out: {problem}")
    vectors = Vectors(_own("loss", found.losses), _own("score", found.scores), notes)
    if found.ties is not None and found.ties.tied > 1:
        notes.append(found.ties.sentence)
    if found.rounded > 1:
        notes.append(
            f"{found.rounded:,} samples ({found.rounded / vectors.n:.1%}) have a softmax of exactly 1.0 in float32; "
            f"ranked here by the logits, they do not tie."
        )
    return vectors


def _own(name: str, given: Any) -> dict[str, np.ndarray]:
    given = given if given is None or isinstance(given, Mapping) else {name: given}
    return {str(k): flat(v) for k, v in (given or {}).items()}


def is_table(data: Any) -> bool:
    """Is this a data frame, an Arrow table or a `datasets.Dataset`, in memory and with named columns?"""
    named = hasattr(data, "columns") or hasattr(data, "column_names")
    return named and any(hasattr(data, method) for method in ("to_numpy", "to_arrow", "to_pandas"))


def names_column(argument: Any) -> bool:
    return argument is None or isinstance(argument, str)


def is_classifier(model: Any) -> bool:
    """Is this a classifier with the methods of scikit-learn's?"""
    return hasattr(model, "predict") and any(hasattr(model, name) for name in _RESPONSES)


def read_classifier(
    classifier: Any, X: Any, y: Any, probs: Any, classes: Any
) -> tuple[Array | None, Array, Array | None, Any]:
    """Logits, labels, probabilities and class names from a fitted classifier, its samples and their labels."""
    if X is None or y is None or probs is not None:
        raise InputError(
            "evaluate: a classifier needs samples and labels, `evaluate(classifier, X, y)`, and no `probs=`."
        )
    classes = getattr(classifier, "classes_", None) if classes is None else classes
    if hasattr(classifier, "predict_proba"):
        return None, y, np.asarray(classifier.predict_proba(X)), classes
    return np.asarray(classifier.decision_function(X)), y, None, classes


def gather_vectors(
    logits: Array | None,
    labels: Array | None,
    probs: Array | None,
    loss: Any,
    confidence: Any,
    classes: Any,
    **names: Any,
) -> Vectors:
    """Losses and scores of one model, or the user's own, or both beside each other."""
    if logits is not None and probs is not None:
        raise InputError("evaluate: takes logits or `probs=`, one of them, got both.")
    own_losses, own_scores = _own("loss", loss), _own("confidence", confidence)
    found = Vectors({}, {}, [])
    if logits is not None or probs is not None:
        if labels is None and not own_losses:
            raise InputError("evaluate: needs `labels` beside logits or probabilities (or your own `loss=`).")
        found = read_model("evaluate", **names, logits=logits, labels=labels, probs=probs, classes=classes)
    elif not own_losses or not own_scores:
        ways = "logits and labels, `probs=` and labels, or `loss=` and `confidence=`"
        raise InputError(f"evaluate: needs {ways}.")
    elif any(given is not None for given in names.values()):
        raise InputError(
            "evaluate: scores and losses by name are computed from logits or probabilities, got none."
        )
    found = Vectors(found.losses | own_losses, found.scores | own_scores, found.notes)
    lengths = {k: len(v) for k, v in (found.losses | found.scores).items()}
    if len(set(lengths.values())) != 1:
        told = ", ".join(f"{k} {v}" for k, v in lengths.items())
        raise ShapeError(f"evaluate: losses and confidences must be of one length, got {told}.")
    if 0 in lengths.values():
        raise InputError("evaluate: needs at least one sample, got none.")
    return found


def check_column(name: str, values: Array | None, n: int) -> np.ndarray | None:
    if values is None:
        return None
    column = flat(values)
    if len(column) != n:
        raise ShapeError(f"evaluate: `{name}` must have one value per sample, got {len(column)} for {n}.")
    return column
