"""Predictions: what one file says about one model on one test set, checked and ready for `evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from abstain import losses, scores
from abstain._tables import Printable
from abstain.formats.columns import Column, Values, Words
from abstain.formats.logs import Log
from abstain.formats.safety import count_noun, display_name, file_error, naming_file


@dataclass(frozen=True, repr=False)
class Predictions(Printable):
    """Logits or probabilities with labels, or losses with confidences, and what goes along the samples.

    Parameters
    ----------
    name : str
        The model's name: that of the file unless stated.
    path, format : str
        Where it was read.
    n : int
        Number of samples.
    logits, probs : array, shape (n, classes), optional
    labels : array of int, shape (n,), optional
    loss, confidence : array, shape (n,), optional
        The columns of a plain table.
    abstained, sample_weight, clusters : array, shape (n,), optional
        As `evaluate` takes them.
    groups : array or Words, shape (n,), optional
    label_words : Words, optional
        Labels given as words where no class scores come with them.
    prediction : array or Words, shape (n,), optional
        The model's answers, where a plain table has them.
    loss_name : str
        "zero_one" where the losses were made from right and wrong, else "loss".
    classes : tuple of str
        Names of the classes, where they are known.
    used : dict
        Which column was taken for what.
    ids : Column, optional
        What tells the samples apart, loaded when files are put in one order.
    signals : dict of array, shape (n,)
        Where answers come with several confidences, all of them; `confidence` is the first.
    log : Log, optional
        The answers that this was made from.

    Examples
    --------
    >>> read = Predictions("mine", "t.csv", "csv", 3, loss=np.array([0.0, 1.0, 0.0]),
    ...                    confidence=np.array([0.9, 0.5, 0.7]))
    >>> read
    Predictions(mine, n = 3, confidence, from csv)
    >>> sorted(read.arguments())
    ['confidence', 'loss']
    """

    name: str
    path: str
    format: str
    n: int
    logits: np.ndarray | None = None
    probs: np.ndarray | None = None
    labels: np.ndarray | None = None
    loss: np.ndarray | None = None
    confidence: np.ndarray | None = None
    abstained: np.ndarray | None = None
    groups: Values | None = None
    sample_weight: np.ndarray | None = None
    clusters: np.ndarray | None = None
    label_words: Words | None = None
    prediction: Values | None = None
    loss_name: str = "loss"
    classes: tuple[str, ...] = ()
    used: dict[str, str] = field(default_factory=dict)
    ids: Column | None = None
    signals: dict[str, np.ndarray] = field(default_factory=dict)
    log: Log | None = None

    @property
    def kind(self) -> str:
        """What the ranking comes from: "logits", "probs" or "confidence"."""
        return "logits" if self.logits is not None else "probs" if self.probs is not None else "confidence"

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `abstain.evaluate`."""
        names = ("logits", "probs", "abstained", "sample_weight", "clusters")
        own: dict[str, Any] = {name: getattr(self, name) for name in names}
        own |= {"groups": self.group_labels(), "labels": None if self.kind == "confidence" else self.labels}
        if self.loss is not None:
            own["loss"] = {self.loss_name: self.loss}
        if self.confidence is not None:
            own["confidence"] = self.signals or {"confidence": self.confidence}
        return {name: value for name, value in own.items() if value is not None}

    def group_labels(self) -> np.ndarray | None:
        """Group names (or numbers) one per sample, as an array."""
        return None if self.groups is None else plain_values(self.groups)

    def class_scores(self) -> np.ndarray:
        """Logits or probabilities."""
        return np.asarray(self.probs if self.logits is None else self.logits)

    def ranked_by(self, score: str | None) -> np.ndarray:
        """A confidence for every sample: by a score where the file has class scores, its own column otherwise."""
        if self.kind == "confidence" or score is None:
            return np.asarray(self.signals.get(score or "", self.confidence))
        return np.asarray(scores.by_name(score)(self.logits, probs=self.probs))

    def samples(self, score: str, loss: str) -> tuple[np.ndarray, np.ndarray]:
        """Loss and confidence of every sample: by a score and a loss where the file has class scores, its own
        columns otherwise."""
        with naming_file(self.path):
            found = self.loss
            if self.kind != "confidence":
                found = losses.by_name(loss)(self.logits, self.labels, probs=self.probs)
            return np.asarray(found), self.ranked_by(score)

    def answers(self) -> tuple[np.ndarray, np.ndarray]:
        """The true class and the model's answer of every sample, by name where the classes have names."""
        labels = self.labels if self.label_words is None else self.label_words
        said = self.prediction
        if labels is None or (said is None and self.kind == "confidence"):
            raise file_error(
                self.path, "needs labels beside class scores, or columns of labels and predictions."
            )
        if said is not None:
            return plain_values(labels), plain_values(said)
        self.samples("max_softmax", "zero_one")  # which objects to labels that are no classes
        classes = np.asarray(labels)
        classes = classes.astype(int) if classes.ndim == 1 else classes.argmax(axis=1)  # one-hot rows
        return self._class_names()[classes], self.likeliest()

    def likeliest(self) -> np.ndarray:
        """The class of the largest score of every sample, by name where the classes have names."""
        return self._class_names()[self.class_scores().argmax(axis=1)]

    def _class_names(self) -> np.ndarray:
        return np.array(self.classes or range(self.class_scores().shape[1]))

    def answered(self) -> Predictions:
        """Without the samples that the model abstained on."""
        if self.abstained is None or not self.abstained.any():
            return self
        rows = ~self.abstained
        if not rows.any():
            raise file_error(self.path, "every sample has abstained; nothing is left to measure.")
        return self.rows(np.flatnonzero(rows))

    def rows(self, places: np.ndarray) -> Predictions:
        """Some of the samples, in this order."""
        chosen: Any = {k: v[places] for k, v in vars(self).items() if isinstance(v, np.ndarray | Words)}
        chosen["signals"] = {name: signal[places] for name, signal in self.signals.items()}
        chosen["ids"] = None if self.ids is None else self.ids.rows(places)
        return replace(self, n=len(places), **chosen)

    def __repr__(self) -> str:
        return f"Predictions({self.name}, n = {self.n}, {self.kind}, from {self.format})"


def reading_notes(models: Sequence[Predictions]) -> list[str]:
    """How refusals and missing confidences of these models were counted, for every table and page that shows them."""
    logs = [(display_name(m.name), m.log) for m in models if m.log is not None]
    unanswered = {name: log.unanswered for name, log in logs if log.unanswered}
    missing = {name: log.without_confidence for name, log in logs if log.without_confidence}
    notes = []
    for rule, (meaning, other) in _UNANSWERED.items():
        shares = {
            name: unanswered[name]
            for name, log in logs
            if name in unanswered and log.rules.unanswered == rule
        }
        if shares:
            notes.append(
                f"Unanswered questions {meaning} (--unanswered {other} for the other view): {_shares(shares)}."
            )
    for rule, meaning in (("last", "ranked last"), ("left_out", "left out")):
        shares = {name: missing[name] for name, log in logs if name in missing and log.rules.missing == rule}
        if shares:
            notes.append(f"Answers without a confidence are {meaning}: {_shares(shares)}.")
    for model in models:
        if (
            model.abstained is not None
            and model.abstained.any()
            and display_name(model.name) not in unanswered
        ):
            share = 1 - float(model.abstained.mean())
            notes.append(
                f"{display_name(model.name)} answered {share:.1%} of the samples; areas are over the coverage it "
                f"can attain."
            )
    return notes


_UNANSWERED = {
    "wrong": ("count as wrong and are ranked last", "abstained"),
    "abstained": ("count as abstentions, and areas are over the coverage that is left", "wrong"),
}
_LISTED = 6  # models that are named in one note


def _shares(shares: Mapping[str, float]) -> str:
    """The largest shares with their models."""
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{name} {share:.1%}" for name, share in ranked[:_LISTED])
    rest = len(ranked) - _LISTED
    return listed + (f" and {count_noun(rest, 'other model')}" if rest > 0 else "")


def plain_values(values: Values) -> np.ndarray:
    """One value per sample, as an array."""
    return values.texts() if isinstance(values, Words) else values
