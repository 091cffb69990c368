"""Predictions: what one file says about one model on one test set, checked and ready for `evaluate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from abstain import losses
from abstain import scores as score_module
from abstain._roles import COLUMN_NAMES, normalise_name
from abstain._tables import Printable
from abstain.evaluation import chance
from abstain.evaluation.vectors import DEFAULT_SCORES, expand_names
from abstain.formats.columns import Column, TextValues, Values, as_array
from abstain.formats.learning_columns import LENGTH_OF
from abstain.formats.logs import EVERY_ROW, Log, Rules
from abstain.formats.safety import count_noun, display_name, file_error, is_or_are, naming_file

if TYPE_CHECKING:
    from abstain.confidence import LearnedConfidence

_MAX_LISTED_MODELS = 6  # models that are named in one note
# Rule for unanswered questions -> (what it means, the other rule).
_UNANSWERED_RULES = {
    "wrong": ("count as wrong and are ranked last", "abstained"),
    "abstained": ("count as abstentions, and areas are over the coverage that is left", "wrong"),
}
LEARNED = "learned"
"""Name of a learned confidence among the confidences of a file."""
_MISSING_RULES = {"last": "ranked last", "left_out": "left out"}


class LossAndConfidence(NamedTuple):
    """The loss and the confidence of every sample, in the order of the rows."""

    loss: np.ndarray
    confidence: np.ndarray


class TrueAndGiven(NamedTuple):
    """The true class and the model's answer of every sample, by name where classes have names."""

    true_class: np.ndarray
    answer: np.ndarray


@dataclass(frozen=True, repr=False)
class Predictions(Printable):
    """Logits or probabilities with labels, or losses with confidences, and what else is known of the samples.

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
    abstained, unanswerable, sample_weight, clusters : array, shape (n,), optional
        As `evaluate` takes them; two kinds of clusters have shape (n, 2).
    refused : array of bool, shape (n,), optional
        Questions without an answer that count as wrong and are ranked last. Columns of losses and confidences have
        these already; what is computed from class scores gets them when it is computed.
    groups : array or TextValues, shape (n,), optional
    cost : array, shape (n,), optional
        What each answer cost, where the user named a column for it; for cascades.
    label_words : TextValues, optional
        Labels given as words where no class scores come with them.
    prediction : array or TextValues, shape (n,), optional
        The model's answers, where a plain table has them.
    loss_name : str
        "zero_one" where the losses were made from right and wrong, else "loss".
    classes : tuple of str
        Names of the classes, where they are known.
    column_of_role : dict
        Role -> the column that was taken for it, in words: its name, several names, or a name with an explanation in
        brackets.
    ids : Column, optional
        What tells the samples apart, loaded when files are put in one order.
    signals : dict of array, shape (n,)
        Where answers come with several confidences, all of them; `confidence` is the first.
    gapped_signals : dict of array, shape (n,)
        The same confidences with NaN where an answer has none; a confidence is learned from them.
    features, categories : dict of array, shape (n,)
        Numbers that are no confidences, and labels, by column name; a confidence can be learned from them.
    log : Log, optional
        The answers that this was made from.
    learned : LearnedConfidence, optional
        What computed `confidence`, where that is a learned one (`with_confidence`).

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
    refused: np.ndarray | None = None
    groups: Values | None = None
    sample_weight: np.ndarray | None = None
    clusters: np.ndarray | None = None
    cost: np.ndarray | None = None
    unanswerable: np.ndarray | None = None
    label_words: TextValues | None = None
    prediction: Values | None = None
    loss_name: str = "loss"
    classes: tuple[str, ...] = ()
    column_of_role: dict[str, str] = field(default_factory=dict)
    ids: Column | None = None
    signals: dict[str, np.ndarray] = field(default_factory=dict)
    gapped_signals: dict[str, np.ndarray] = field(default_factory=dict)
    features: dict[str, np.ndarray] = field(default_factory=dict)
    categories: dict[str, np.ndarray] = field(default_factory=dict)
    log: Log | None = None
    learned: LearnedConfidence | None = None

    @property
    def kind(self) -> str:
        """What the ranking comes from: "logits", "probs" or "confidence"."""
        if self.logits is not None:
            return "logits"
        return "confidence" if self.probs is None else "probs"

    @property
    def has_class_scores(self) -> bool:
        """Whether there are logits or probabilities, from which losses and confidences are computed."""
        return self.kind != "confidence"

    @property
    def is_graded(self) -> bool:
        """Whether answers are right (loss 0), wrong (1) or partly right; False for losses of another kind.

        With class scores and labels they are, by the class of the largest score.
        """
        return self.has_class_scores or self.loss_name != "loss"

    def arguments(self, scores: Any = None, losses: Any = None) -> dict[str, Any]:
        """Return the keyword arguments of `abstain.evaluate`; those that the file does not have are left out.

        "loss" is {its name: array} and "confidence" is {name: array} with every confidence of the file;
        "has_confidence" is {name: array of bool} for those that some rows lack. Labels are passed only with class
        scores, from which losses are computed. "unanswerable" is left out where refusals count as wrong answers.

        `scores` and `losses` are those arguments of `evaluate`: names of what is computed from class scores, "all", or
        None for the default. They are passed on. Where refusals count as wrong, "loss" and "confidence" replace what
        `evaluate` computes from class scores, and "zero_one" is the only loss; DataError where another one is named.
        A refusal is a question without an answer: `refused` marks those that count as wrong (None: none do), and
        `abstained` those that count as abstentions.
        """
        if self.has_class_scores and self.refused is not None:
            # the same predictions with losses and confidences as columns, and without class scores
            by_columns = self._with_computed_columns(scores, losses)
            class_scores = {self.kind: self.class_scores(), "labels": self.labels}
            computed = {"scores": list(by_columns.signals), "losses": ["zero_one"]}
            return {**by_columns.arguments(), **class_scores, **computed}
        arguments: dict[str, Any] = {
            "scores": scores,
            "losses": losses,
            "logits": self.logits,
            "probs": self.probs,
            "abstained": self.abstained,
            "unanswerable": self._unanswerable_if_refusals_abstain(),  # None where refusals count as wrong
            "sample_weight": self.sample_weight,
            "clusters": self.clusters,
            "groups": self.group_labels(),
            "labels": self.labels if self.has_class_scores else None,
        }
        if self.loss is not None:
            arguments["loss"] = {self.loss_name: self.loss}
        if self.confidence is not None:
            # a file with a single confidence has no `signals`
            arguments["confidence"] = self.signals or {"confidence": self.confidence}
            # masks by name, of those confidences alone that some rows lack; an empty dict becomes None
            arguments["has_confidence"] = self._rows_with_own_confidence(arguments["confidence"]) or None
        return {name: value for name, value in arguments.items() if value is not None}

    def _with_computed_columns(self, scores: Any, losses: Any) -> Predictions:
        """Return the predictions with 0/1 losses and the confidences computed from class scores, instead of these.

        `scores` and `losses` are names, "all" or None for the default. DataError for a loss other than "zero_one".
        There must be class scores; `kind` is "logits" or "probs". Questions without an answer that count as wrong are
        wrong in the losses and ranked last by the confidences; `refused` still marks them. `expand_names` makes a list
        of what the user gave: its second argument for None, its third for "all".
        """
        # all names of scores that can be computed from logits, or from probabilities
        allowed_scores = [
            name for name in score_module.NAMES if self.kind in score_module.by_name(name).takes
        ]
        # "max_logit", the last of the default scores, cannot be computed from probabilities
        default_scores = [name for name in DEFAULT_SCORES if name in allowed_scores]
        signals = {
            score_module.by_name(score).name: self.compute_or_take_confidence(score)
            for score in expand_names(scores, default_scores, allowed_scores)
        }
        # None and "all" name no loss to check: the 0/1 loss is the only one
        for name in expand_names(losses, default=(), all_names=()):
            self.loss_and_confidence("max_softmax", name)  # raises for a loss other than "zero_one"
        return replace(
            self,
            logits=None,
            probs=None,
            loss=self.own_or_zero_one_losses(),
            loss_name="zero_one",
            signals=signals,
            confidence=next(iter(signals.values())),
        )

    def _rows_with_own_confidence(self, confidences: Iterable[str]) -> dict[str, np.ndarray]:
        """Return, for each of these confidences that some rows lack, which rows have one.

        `confidences` are names; the result maps names to masks. All other rows are ranked last by a number that the
        file does not hold: answers without a confidence, and questions without an answer that count as wrong.
        `gapped_signals` holds the confidences of a log by name, NaN where an answer has none, and `refused` (a mask or
        None) marks the questions without an answer that count as wrong. A confidence that every row has is not in the
        result.
        """
        mask_by_name = {}
        for name in confidences:
            has_own_confidence = np.ones(self.n, dtype=bool)
            if name in self.gapped_signals:
                has_own_confidence &= np.isfinite(self.gapped_signals[name])
            if self.refused is not None:
                has_own_confidence &= ~self.refused
            if not has_own_confidence.all():
                mask_by_name[name] = has_own_confidence
        return mask_by_name

    def name_of_ranking(self) -> str | None:
        """Return the name of the confidence that ranks the samples; None where it is computed from class scores."""
        if self.has_class_scores:
            return None
        return next(iter(self.signals), self.column_of_role.get("confidence", "confidence"))

    def with_sign_advice(self, notes: Iterable[str]) -> tuple[str, ...]:
        """Return notes of a table of this file, in which warnings about a direction know the name of the column.

        A single confidence is called "confidence" in a table, whichever its column.
        """
        column = "" if self.signals else self.column_of_role.get("confidence", "")
        return tuple(chance.with_sign_advice(notes, {"confidence": column} if column else {}))

    def with_own_confidence(self) -> Predictions | None:
        """Return only the samples that have the confidence that ranks them; None where there is none.

        All others are ranked last by a number that the file does not hold.
        """
        has_own = self.has_own_confidence()
        if has_own is None:
            return self
        return self.rows(np.flatnonzero(has_own)) if has_own.any() else None

    def has_own_confidence(self) -> np.ndarray | None:
        """Return which samples have the confidence that ranks them, as a mask; None where all have it."""
        name = self.name_of_ranking() or ""
        return self._rows_with_own_confidence([name]).get(name)

    def _unanswerable_if_refusals_abstain(self) -> np.ndarray | None:
        """Return `unanswerable`; None where refusals count as wrong answers, so that no abstention can be right."""
        return self.unanswerable if self.refused is None else None

    def graded_arguments(self) -> dict[str, Any]:
        """Return "correct", "answered" and "unanswerable" as `abstain.evaluation.evaluate_answers` takes them.

        "answered" is None where every question is answered, "unanswerable" where the file does not say it or where
        refusals count as wrong. For right and wrong answers only; those of class scores are computed.
        """
        return {
            "correct": 1 - self.own_or_zero_one_losses(),
            "answered": None if self.abstained is None else ~self.abstained,
            "unanswerable": self._unanswerable_if_refusals_abstain(),
        }

    def group_labels(self) -> np.ndarray | None:
        """Return the group's name (or number) of each sample, as an array."""
        return None if self.groups is None else as_array(self.groups)

    def class_scores(self) -> np.ndarray:
        """Return logits or, where there are none, probabilities."""
        return np.asarray(self.probs if self.logits is None else self.logits)

    def compute_or_take_confidence(self, score: str | None) -> np.ndarray:
        """Return a confidence for every sample: computed from class scores, or a column of the file.

        Where the file has class scores, `score` names how it is computed from them ("max_softmax", ...); None takes the
        file's own confidence, which must exist. Otherwise `score` names one of the file's confidences, and the first is
        taken for None or a name that it does not have. Questions without an answer that count as wrong are tied below
        all others.
        """
        if not self.has_class_scores or score is None:
            return np.asarray(self.signals.get(score or "", self.confidence))
        return self._rank_refused_last(np.asarray(score_module.by_name(score)(self.logits, probs=self.probs)))

    def _rank_refused_last(self, confidence: np.ndarray) -> np.ndarray:
        """Return a confidence in which questions without an answer that count as wrong are tied below all others.

        They get the next float below the smallest confidence of the others.
        """
        if self.refused is None or self.refused.all():
            return confidence
        below_all = np.nextafter(confidence[~self.refused].min(), confidence.dtype.type(-np.inf))
        return np.where(self.refused, below_all, confidence)

    def with_unanswered(self, rule: str) -> Predictions:
        """Return the predictions of class scores with questions without an answer counted by another rule.

        `rule` is "abstained" or "wrong". Unchanged where every question has an answer.
        """
        is_unanswered = self.abstained if self.refused is None else self.refused
        if rule == "wrong":
            return replace(self, abstained=None, refused=is_unanswered)
        return replace(self, abstained=is_unanswered, refused=None)

    def loss_and_confidence(self, score: str, loss: str) -> LossAndConfidence:
        """Return the loss and the confidence of every sample.

        Where the file has class scores, they are computed by the names of a score ("max_softmax", ...) and a loss
        ("zero_one", ...). Otherwise they are columns of the file: `loss` is ignored, and `score` may name one of
        several confidences. DataError names the file where values are invalid, or where questions without an answer
        count as wrong and the loss of class scores is another one than "zero_one". `refused` marks these questions,
        None where there are none. Columns of the file have them as wrong already. There must be labels with class
        scores, and otherwise columns of losses and confidences.
        """
        with naming_file(self.path):  # puts the file's name before the message of an error
            sample_loss = self.loss
            if self.has_class_scores:
                compute_loss = losses.by_name(loss)
                # one of logits and probabilities is None
                sample_loss = compute_loss(self.logits, self.labels, probs=self.probs)
            if self.has_class_scores and self.refused is not None:
                if compute_loss.name != "zero_one":
                    raise file_error(
                        self.path,
                        f"a refusal can count as wrong only where answers are right or wrong, and not with the loss "
                        f"{compute_loss.name}. Say --unanswered abstained.",
                    )
                sample_loss = np.asarray(sample_loss, dtype=bool) | self.refused
            return LossAndConfidence(
                loss=np.asarray(sample_loss), confidence=self.compute_or_take_confidence(score)
            )

    def own_or_zero_one_losses(self) -> np.ndarray:
        """Return the loss of every sample: zero-one losses of class scores, or else the file's column of losses."""
        return self.loss_and_confidence(score="max_softmax", loss="zero_one").loss

    def true_and_given_classes(self) -> TrueAndGiven:
        """Return the true class and the model's answer of every sample, by name where classes have names.

        The answer is the column of predictions, or else the class of the largest score. Labels that are words may be in
        `label_words` instead of `labels`. DataError where the file has neither class scores with labels nor columns of
        labels and predictions, or where labels are no classes. Both results have one entry per sample; classes without
        names are numbers from 0.
        """
        labels = self.labels if self.label_words is None else self.label_words
        if labels is None or (self.prediction is None and not self.has_class_scores):
            raise file_error(
                self.path, "needs labels with class scores, or columns of labels and predictions."
            )
        if self.prediction is not None:  # both are columns of the file, texts or numbers
            return TrueAndGiven(true_class=as_array(labels), answer=as_array(self.prediction))
        # Without predictions there are class scores, and labels are class numbers or one-hot rows.
        self.own_or_zero_one_losses()  # raises DataError for labels that are no classes
        true_classes = np.asarray(labels)
        if true_classes.ndim == 1:
            true_classes = true_classes.astype(int)
        else:  # one-hot rows
            true_classes = true_classes.argmax(axis=1)
        # names by class number; numbers where classes have no names
        return TrueAndGiven(true_class=self._class_names()[true_classes], answer=self.likeliest_classes())

    def likeliest_classes(self) -> np.ndarray:
        """Return the class of the largest score of every sample, by name where the classes have names."""
        return self._class_names()[self.class_scores().argmax(axis=1)]

    def _class_names(self) -> np.ndarray:
        """Return the names of the classes, or their numbers where they have no names."""
        return np.array(self.classes or range(self.class_scores().shape[1]))

    def learning_inputs(self) -> dict[str, Any]:
        """Return what a confidence can be learned from, as keyword arguments of `learn_confidence`.

        "logits" or "probs" where the file has class scores, "signals" (confidences by name, NaN where an answer has
        none), "features" (numbers that are no confidences) and "categories"; those that the file does not have are left
        out. All but class scores are dicts of one array per name.
        """
        # `gapped_signals` are those of a log, with NaN for a missing one; in `signals` it is ranked last or left out.
        # Both are empty for class scores and for a table with a single confidence.
        signals = self.gapped_signals or self.signals
        if not signals and self.confidence is not None:
            signals = {self._name_of_confidence(): self.confidence}
        inputs: dict[str, Any] = {
            "signals": signals,
            "features": self.features,
            "categories": self.categories,
        }
        inputs = {name: columns for name, columns in inputs.items() if columns}
        if self.has_class_scores:  # then `kind` is "logits" or "probs"
            inputs[self.kind] = self.class_scores()
        return inputs

    def _name_of_confidence(self) -> str:
        """Return the name of the only confidence: that of its column, or "confidence" where the name says just that.

        A learned confidence finds its inputs by these names, and must not take another column that is called
        confidence.
        """
        name = self.column_of_role.get("confidence", "confidence")
        return "confidence" if normalise_name(name) in COLUMN_NAMES["confidence"] else name

    def with_confidence(self, learned: LearnedConfidence, *, keep_others: bool = False) -> Predictions:
        """Return the predictions ranked by a learned confidence instead of class scores or the file's confidences.

        Class scores become 0/1 losses and predictions, since nothing else is read from them afterwards. With
        `keep_others`, the confidences of the file (max softmax where it has class scores) stay next to the learned one,
        which is the first. Questions without an answer stay ranked last.

        DataError names the file where it lacks an input of the learned confidence, or holds invalid values. These
        predictions stay as they are. `learned` is called with the inputs that it was learned from.
        """
        inputs = self.learning_inputs()
        self._refuse_missing_inputs(learned, inputs)  # raises with the options that name the columns
        with naming_file(self.path):  # puts the file's name before the message of an error
            # One number per sample. The mask of rows without an answer (None for none) leaves them out of the check
            # that the rows are like those that it was learned from.
            confidence = np.asarray(learned(**inputs, abstained=self._unanswered()))
        # below all others where a question without an answer counts as wrong
        confidence = self._rank_refused_last(confidence)
        signals = {LEARNED: confidence}  # "learned": confidences by name; the first ranks the answers
        if keep_others and self.has_class_scores:
            signals["max_softmax"] = self.compute_or_take_confidence("max_softmax")
        elif keep_others and self.signals:
            signals |= self.signals
        elif keep_others and self.confidence is not None:
            signals["confidence"] = self.confidence
        changes: dict[str, Any] = {"confidence": confidence, "signals": signals, "learned": learned}
        if self.has_class_scores:
            changes["prediction"] = self.likeliest_classes() if self.prediction is None else self.prediction
        if self.has_class_scores and self.labels is not None:
            changes["loss"] = self.own_or_zero_one_losses()  # of class scores: 0/1 losses
            changes["loss_name"] = "zero_one"
            if self.classes:
                changes["labels"] = self.true_and_given_classes().true_class  # names, as the predictions are
        return replace(self, logits=None, probs=None, **changes)

    def _unanswered(self) -> np.ndarray | None:
        """Return a mask of the samples without an answer, abstentions or counted as wrong; None where all have one."""
        masks = [mask for mask in (self.abstained, self.refused) if mask is not None]
        return np.logical_or.reduce(masks) if masks else None

    @property
    def tells_unanswered(self) -> bool:
        """Does a column say which samples have an answer, or does one have none?"""
        is_unanswered = self._unanswered()
        if is_unanswered is not None and is_unanswered.any():
            return True
        is_stated = self.column_of_role.get("answered", EVERY_ROW) != EVERY_ROW
        return is_stated or not self.column_of_role.keys().isdisjoint(("prediction", "abstained"))

    def _refuse_missing_inputs(self, learned: LearnedConfidence, inputs: Mapping[str, Any]) -> None:
        """Raise DataError, with the options that name the columns, where inputs of a learned confidence are missing.

        `inputs` maps arguments of `learn_confidence` to what this file holds: "logits" or "probs", and dicts of columns
        by name under "signals" (confidences), "features" and "categories". Only names are compared; further inputs are
        allowed.
        """
        # What it was learned from: names of confidences, features and categories, and class scores, where `kind` is
        # "logits" or "probs" and not None.
        profile = learned.model.profile
        names_by_role: dict[str, Sequence[str]] = {
            "confidence": profile.signal_names,
            "features": profile.features,
            "categories": tuple(profile.categories),
        }
        if profile.kind is not None:
            names_by_role[profile.kind] = (profile.kind,)
        present_names = {kind for kind in ("logits", "probs") if kind in inputs}
        for argument in ("signals", "features", "categories"):
            present_names |= set(inputs.get(argument, ()))
        missing = [name for names in names_by_role.values() for name in names if name not in present_names]
        if not missing:
            return
        for name in missing:
            column = name.removeprefix(LENGTH_OF)  # of a feature that is the length of a text
            other_name = column if name.startswith(LENGTH_OF) else f"{LENGTH_OF}{column}"
            if other_name in inputs.get("features", ()):
                holds, needed = (
                    ("text", "numbers") if other_name.startswith(LENGTH_OF) else ("numbers", "text")
                )
                raise file_error(
                    self.path,
                    f"column `{display_name(column)}` holds {holds}, and the learned confidence reads {needed} "
                    f"from it.",
                )
        options = []
        for role, names in names_by_role.items():
            if not set(names).isdisjoint(missing):
                # a feature "length of TEXT" is read from the column TEXT; `LENGTH_OF` is the prefix "length of "
                listed = ",".join(display_name(name).removeprefix(LENGTH_OF) for name in names)
                options.append(f"-c {role}={'NAME' if role == profile.kind else listed}")
        raise file_error(
            self.path,
            f"the learned confidence reads {', '.join(f'`{display_name(name)}`' for name in missing)}, which "
            f"{is_or_are(len(missing))} not read from this file. Name the columns: {' '.join(options)}.",
        )

    def without_abstentions(self) -> Predictions:
        """Return the predictions without the samples that the model abstained on; DataError where none is left."""
        if self.abstained is None or not self.abstained.any():
            return self
        if self.abstained.all():
            raise file_error(
                self.path, "the model abstained on every sample, so there is nothing to measure."
            )
        return self.rows(np.flatnonzero(~self.abstained))

    def rows(self, row_numbers: np.ndarray) -> Predictions:
        """Return only the samples of these row numbers (integers from 0), in this order.

        Selects the rows of every field that holds numbers or texts, so such a field must have one entry per sample.
        Confidences (`signals`, and `gapped_signals` with NaN for missing ones), features and categories are dicts of
        columns; ids may be absent. These predictions stay as they are, and the result keeps the whole log (`log`).
        """
        columns: dict[str, Any] = {
            name: values[row_numbers]
            for name, values in vars(self).items()
            if isinstance(values, np.ndarray | TextValues)
        }
        for field_name in ("signals", "gapped_signals", "features", "categories"):
            values_by_column = getattr(self, field_name)
            columns[field_name] = {name: values[row_numbers] for name, values in values_by_column.items()}
        # a column that is loaded later
        columns["ids"] = None if self.ids is None else self.ids.rows(row_numbers)
        return replace(self, n=len(row_numbers), **columns)

    def __repr__(self) -> str:
        return f"Predictions({self.name}, n = {self.n}, {self.kind}, from {self.format})"


def graded_predictions(log: Log, *, name: str, unanswered: str | None = None) -> Predictions:
    """Return the answers of a log as predictions that are not ranked: every answer has the same confidence.

    Every row that was scored is kept: it has a grade, or needs none since there is no answer. Questions without an
    answer are abstentions, or wrong where `unanswered` is "wrong". DataError where answers have losses other than right
    and wrong, or where no row was scored. `name` is that of the model. `log.scored` is a mask of the rows that have a
    grade or no answer, `log.answered` one of the rows with an answer.
    """
    if not log.is_graded:
        raise file_error(log.path, "needs right and wrong answers, and has other losses.")
    if not log.scored.any():
        raise file_error(log.path, "no answer was scored. Name another column with -c correct=NAME.")
    # `Log.fields` makes keyword arguments of `Predictions` and needs a confidence; a constant one ranks nothing.
    unranked_log = replace(log, signals={"answers": np.zeros(log.n)})
    # These rules keep every row that was scored: other rules refuse a log in which no question was answered.
    rules = replace(log.rules, unanswered="wrong", missing="last")
    fields = unranked_log.fields(rules) | {"signals": {}}
    if unanswered != "wrong":  # "abstained" or None
        rules = replace(rules, unanswered="abstained")
        fields.pop("refused", None)  # the mask of questions without an answer that count as wrong
        fields["abstained"] = ~log.answered[log.scored]  # both are masks of the log's rows
    return Predictions(
        name=name,
        path=log.path,
        format=log.tool,
        column_of_role=log.column_of_role,
        log=replace(log, rules=rules),
        **fields,
    )


def unnamed_predictions(log: Log, rules: Rules | None = None) -> Predictions:
    """The answers of a log with its confidences, for measuring only: no name, format or log is stored with them.

    `rules` say how unanswered questions and missing confidences count; by default those that the log was read by.
    """
    return Predictions(name="", path=log.path, format="", **log.fields(rules))


def reading_notes(models: Sequence[Predictions]) -> list[str]:
    """Return a sentence for each way in which refusals and missing confidences of these models were counted.

    A sentence lists the share of questions of each model that it applies to; there are none where every model answered
    everything with a confidence. In a log, `unanswered` and `share_without_confidence` are shares from 0 to 1, and
    `rules` say how these rows count. Models without a log, such as those with class scores, may have abstentions:
    `abstained` and `refused` (that count as wrong) are masks of the samples, or None. Where a learned confidence is the
    only one, every answer has it.
    """
    logs = {display_name(model.name): model.log for model in models if model.log is not None}
    ranked_by_learned = {display_name(model.name) for model in models if list(model.signals) == [LEARNED]}
    # Of class scores, those that count as wrong; their abstentions are listed below. A `_Part` is a number of rows and
    # of all rows, which is written as a share; `_part_of_rows` makes it of a share and a mask of all rows.
    refused_parts = {
        display_name(model.name): _Part(int(model.refused.sum()), model.n)
        for model in models
        if model.log is None and model.refused is not None and model.refused.any()
    }
    notes = []
    # rule ("wrong" or "abstained") -> what it means in words, and the other rule
    for rule, (meaning, other_rule) in _UNANSWERED_RULES.items():
        parts = {
            name: _part_of_rows(log.unanswered, log.scored)
            for name, log in logs.items()
            if log.unanswered and log.rules.unanswered == rule
        }
        if rule == "wrong":
            parts |= refused_parts
        if parts:
            notes.append(
                f"Unanswered questions {meaning} (--unanswered {other_rule} for the other view): "
                f"{_list_parts(parts)}."
            )
    for rule, meaning in _MISSING_RULES.items():  # "last" or "left_out", and what it means in words
        parts = {
            name: _part_of_rows(log.share_without_confidence, log.answered & log.scored)
            for name, log in logs.items()
            if log.share_without_confidence and log.rules.missing == rule and name not in ranked_by_learned
        }
        if parts:
            notes.append(f"Answers without a confidence are {meaning}: {_list_parts(parts)}.")
    for model in models:
        name = display_name(model.name)
        is_listed_above = name in logs and logs[name].unanswered
        if model.abstained is not None and model.abstained.any() and not is_listed_above:
            answered_share = 1 - float(model.abstained.mean())  # the largest coverage that it can have
            notes.append(
                f"{name} answered {answered_share:.1%} of the samples; areas are over the coverage it can attain."
            )
    return notes


def attempt_notes(models: Sequence[Predictions]) -> list[str]:
    """A sentence with the share of questions that each model did not attempt; none where all attempted everything."""
    parts = {
        display_name(model.name): _Part(int(model.abstained.sum()), model.n)
        for model in models
        if model.abstained is not None and model.abstained.any()
    }
    if not parts:
        return []
    return [f"Not attempted, so neither right nor wrong: {_list_parts(parts)}."]


class _Part(NamedTuple):
    """Some rows of a model, at least one.

    >>> print(_Part(3, 25), _Part(1, 12_031), sep=", ")
    12.0%, 1 of 12,031
    """

    row_count: int
    total: int

    def __str__(self) -> str:
        share = f"{self.row_count / self.total:.1%}"
        return f"{self.row_count:,} of {self.total:,}" if share == "0.0%" else share


def _part_of_rows(share: float, rows: np.ndarray) -> _Part:
    """Return how many of the rows of a mask a share of them is."""
    total = int(rows.sum())
    return _Part(round(share * total), total)


def _list_parts(part_of_model: Mapping[str, _Part]) -> str:
    """Return the models with the largest shares in words ("a 12.0%, b 3.5%"), and how many models are not listed."""
    ranked = sorted(part_of_model.items(), key=lambda item: -item[1].row_count / item[1].total)
    listed = ", ".join(f"{name} {part}" for name, part in ranked[:_MAX_LISTED_MODELS])
    hidden_count = len(ranked) - _MAX_LISTED_MODELS
    if hidden_count > 0:
        listed += f" and {count_noun(hidden_count, 'other model')}"
    return listed
