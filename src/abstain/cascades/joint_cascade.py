"""One cascade that keeps several promises at once: applied, stored, recorded, and checked on later data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from abstain._arrays import ArrayLike
from abstain._stored import Chance, Stored, parse_json, read_record_text
from abstain.cascades.cascade_rule import Cascade, LaterAnswers, state_draws
from abstain.cascades.inputs import PERSON, PROMISES, ByStage, Stage, masks_by_promise
from abstain.errors import DataError, InputError
from abstain.thresholds.cut import Cut, Units
from abstain.thresholds.joint import JointRule, losses_by_promise, masks_of_classes, predicted_classes
from abstain.thresholds.monitoring import GroupChecks, PromiseToCheck, check_promises
from abstain.thresholds.record import RecordParts
from abstain.thresholds.rules import Origin


def class_masks_by_stage(
    function: str, names: Sequence[Any], stages: Mapping[str, Stage], promise: str
) -> dict[Any, dict[str, np.ndarray]]:
    """For each promise about a predicted class: by stage, which samples that stage predicts as the class.

    `names` are numbers of classes. Raises InputError, naming `function`, if a stage has no class scores, or if the
    promise includes the person (`promise` "system"), whose answers are not known. The result is by promise, then by
    stage: a mask of the samples, in which the person has no part. `stage.predictions` is None without class scores.
    """
    if promise == "system":
        raise InputError(
            f'{function}: promises about predicted classes take promise="answered", got "system". The person\'s '
            f"answers are not known."
        )
    masks: dict[Any, dict[str, np.ndarray]] = {name: {} for name in names}
    for stage_name, stage in stages.items():
        # by class: which samples this stage predicts as the class; raises without predictions
        of_stage = masks_of_classes(f"{function}: stage {stage_name!r}", list(names), stage.predictions)
        for name, mask in of_stage.items():
            masks[name][stage_name] = mask
    return masks


@dataclass(frozen=True, eq=False, repr=False)
class JointCascade(JointRule, Stored):
    """A cascade that keeps several promises at once, with probability 1 - delta for all of them together.

    Attributes
    ----------
    promises : dict
        A `Cascade` by the name of each promise, with its own target, risk and bounds; they share thresholds and costs.
    delta : float
        The probability with which some promise may fail.
    by_class : bool
        Are the promises about the answers that name a class? Then their names are numbers of classes.

    Examples
    --------
    >>> import abstain
    >>> g = [i / 400 for i in range(400)]
    >>> wrong, costly = [x < 0.1 for x in g], [x < 0.05 for x in g]
    >>> rule = abstain.cascade(
    ...     {"only": ({"errors": wrong, "costly": costly}, g, 1.0)},
    ...     risk={"errors": 0.2, "costly": 0.15},
    ...     person=(10.0, 0.0),
    ... )
    >>> rule.feasible, rule.risks["costly"] <= 0.15, rule.decide({"only": [0.9, float("nan")]}).tolist()
    (True, True, ['only', 'person'])
    """

    _noun: ClassVar[str] = "a stored cascade with several promises"
    _has_checksum: ClassVar[bool] = True
    _number: ClassVar[int] = 2

    promises: dict[Any, Cascade]
    delta: Chance
    by_class: bool = False

    def __getitem__(self, name: Any) -> Cascade:
        return self.promises[name]

    @property
    def shared(self) -> Cascade:
        """Any of the promises, for what all share: thresholds, stages, costs and shares."""
        first: Cascade = self.any_promise
        return first

    @property
    def names(self) -> tuple[str, ...]:
        """The stages in the order in which they are asked."""
        return self.shared.names

    @property
    def thresholds(self) -> dict[str, float] | None:
        """By stage: it answers when its confidence is at least this; None when nothing keeps all promises."""
        return self.shared.thresholds

    @property
    def stages_in_use(self) -> tuple[str, ...]:
        """The stages that may be asked."""
        return self.shared.stages_in_use

    @property
    def scores(self) -> dict[str, str]:
        """Which score each stage was calibrated with, where it is known."""
        return self.shared.scores

    @property
    def cuts(self) -> dict[str, Cut]:
        """By stage: how later confidences are compared with its threshold."""
        return self.shared.cuts

    @property
    def origins(self) -> dict[str, Origin]:
        """By stage: its calibration file, where that was stated."""
        return self.shared.origins

    @property
    def cost(self) -> float:
        """Per sample, the person's included."""
        return self.shared.cost

    @property
    def shares(self) -> dict[str, float]:
        """Share of the samples that each stage and the person answer."""
        return self.shared.shares

    @property
    def note(self) -> str | None:
        """What to know besides: why there is none, or why a single stage was returned."""
        return self.shared.note

    @property
    def risks(self) -> dict[Any, float | None]:
        """By promise: the mean loss of the calibration answers that it is about; None without a cascade."""
        return {name: rule.risk for name, rule in self.promises.items()}

    @property
    def guarantee(self) -> str | None:
        """What is promised, in words; None without a cascade.

        All promises share samples, groups and clusters, so these are read from any of them (`shared`): `group_count` is
        the number of groups (None without groups), `largest` the size of the largest cluster (None without clusters).
        `promises` holds by name a `Cascade` each, `delta` is the probability with which some promise may fail.
        """
        shared = self.shared
        if not shared.feasible:
            return None
        sentences = "; ".join(self._promise_of(name) for name in self.promises)
        where = "" if shared.group_count is None else f" in each of {shared.group_count} groups"
        # such as "independent draws from one population"
        draws = state_draws(shared.largest)
        return (
            f"With probability at least {1 - self.delta:.4g} over the {shared.n} calibration samples, all of these "
            f"hold at once{where}: {sentences}; calibration and later data being {draws}. Nothing is promised about "
            f"the cost."
        )

    def _promise_of(self, name: Any) -> str:
        """State the promise called `name` in a few words.

        Where promises are by class, `name` is a predicted class, and the promise is never about the person's answers
        (`promise` "system"), whose classes are not known. Otherwise `name` is the user's name for a loss. `target` is
        the largest risk that the promise allows.
        """
        rule = self.promises[name]
        if self.by_class:
            return f"the error rate of the stages' answers of class {name} is at most {rule.target:.4g}"
        # "answered": "what the stages answer"; "system": "all answers, the person's included"
        answers_in_words = PROMISES[rule.promise]
        # a number: the promise is about some of these answers; None: about all
        if rule.counted_answers is not None:
            answers_in_words = f"the answers that it is about, among {answers_in_words},"
        return f"{name}: the mean loss of {answers_in_words} is at most {rule.target:.4g}"

    def made_from(self, origins: Mapping[str, Origin]) -> JointCascade:
        """The same rule, which now knows the file behind each stage."""
        return replace(self, promises={name: rule.made_from(origins) for name, rule in self.promises.items()})

    def decide(self, confidences: ByStage | None = None, **columns: Any) -> np.ndarray:
        """Who answers each sample, by name; `columns` are `logits`, `probs`, `abstained`, `scores` and `units`."""
        return self.shared.decide(confidences, **columns)

    def answers(self, name: str, /, confidence: ArrayLike | None = None, **columns: Any) -> np.ndarray:
        """Return True for each sample that the stage called `name` answers if it is asked.

        `columns` are `logits`, `probs`, `score`, `units` and `abstained`: class scores in place of a confidence, the
        name of its score, its unit, and a mask of the samples without an answer. NaN is no answer.
        """
        return self.shared.answers(name, confidence, **columns)

    def check(
        self,
        stages: ByStage,
        /,
        *,
        among: Mapping[Any, Any] | None = None,
        person: Any = None,
        clusters: ArrayLike | None = None,
        previous: GroupChecks | None = None,
        abstained: ByStage | None = None,
        scores: ByStage | None = None,
        units: Units | None = None,
    ) -> GroupChecks:
        """Does each promise still hold on later samples, in the order they came?

        Each of k promises is tested at delta / k, so the whole series raises a false alarm, by any promise or by what
        the stages answer and how sure they are, with probability at most delta. A promise that holds in every group is
        checked on the samples of one group at a time.

        Parameters
        ----------
        stages : dict
            (loss, confidence) by name; the loss is that of all promises, or a dict by promise. The confidence may be
            class scores, {"logits": ...} or {"probs": ...}; NaN is no answer.
        among : dict, optional
            For promises about some samples or answers: by promise a mask of the samples, or of the answers by stage.
            Promises about the answers that name a class
            need none where every stage has class scores.
        person : float, array or dict of them, optional
            The person's loss, of all promises or by promise; by default the means stated in calibration.
        clusters, previous, abstained, scores, units
            One cluster label per sample; what this method returned at the look before; by stage, where it gave no
            answer and which learned confidence it reads; "plain" or "key" for confidences of a score that saturates.

        Returns
        -------
        GroupChecks
            A `Check` by the name of each promise.

        Raises
        ------
        InputError, ShapeError
            If a stage or a promise lacks something, or the arrays do not fit.
        """
        function = "JointCascade.check"
        names = list(self.promises)
        later = self.shared.read_later_answers(stages, abstained, scores, units)
        losses_of_stage = {}  # by stage, the losses of each promise
        for stage, loss in later.losses.items():
            losses_of_stage[stage] = losses_by_promise(f"{function}: stage {stage!r}", loss, names)
        person_losses = losses_by_promise(f"{function}: `person`", person, names)
        counted = self._find_counted(function, later, among)
        to_check = {}
        for name, rule in self.promises.items():
            stage_losses = {stage: losses[name] for stage, losses in losses_of_stage.items()}
            threshold = replace(rule.as_threshold(), delta=self.delta / len(names))
            to_check[name] = PromiseToCheck(
                threshold,
                loss=rule.loss_of_answers(later.answering, stage_losses, person_losses[name]),
                # for this threshold, the confidence is the number of stages from the one that answers to the end
                confidences=threshold.cut.read(function, confidence=later.stages_left),
                clusters=clusters,
                is_counted=counted[name],
                further_p_values=partial(rule.compare_stages, later),
            )
        return check_promises(to_check, previous, series_promise_count=len(names))

    def _find_counted(
        self, function: str, later: LaterAnswers, among: Mapping[Any, Any] | None
    ) -> dict[Any, np.ndarray | None]:
        """For each promise: is it about the answer to each later sample? None for a promise about all answers.

        `among` holds the user's masks by promise: of the samples that it is about, or by stage of the answers. Without
        it, promises about classes read the class scores of the stages from `later.columns`: by "logits" or "probs",
        then by stage. `later.answering` is the index of the stage that answers each sample, the number of stages for
        the person. `rule.counted_answers` is None for a promise about all answers. Raises InputError, naming
        `function`, if a promise about some answers has no masks, or the reverse.
        """
        # "answered" (the answers of the stages) or "system" (the person's too); the same for all promises
        whose_answers = self.shared.promise
        names = list(self.promises)
        if among is None and self.by_class:  # a promise's name is the number of a class
            masks_by_class: dict[Any, dict[str, np.ndarray]] = {name: {} for name in names}
            for stage in self.names:
                class_scores = [later.columns[kind].get(stage) for kind in ("logits", "probs")]
                predictions = None
                if any(array is not None for array in class_scores):
                    predictions = predicted_classes(*class_scores)
                of_stage = masks_of_classes(f"{function}: stage {stage!r}", names, predictions)
                for name, mask in of_stage.items():
                    masks_by_class[name][stage] = mask
            among = masks_by_class
        sample_count = len(later.answering)
        # By promise: a mask for each stage and one for the person, or None for a promise about all answers. The person
        # may be left out of `among` for "answered" only; the mask is then False for all samples.
        masks = masks_by_promise(function, among, names, self.names, sample_count, whose_answers)
        counted: dict[Any, np.ndarray | None] = {}
        for name, rule in self.promises.items():
            masks_of_promise = masks[name]
            is_about_all = rule.counted_answers is None
            has_masks = masks_of_promise is not None
            if has_masks == is_about_all:
                problem = (
                    f"one for {name!r}, which is about all answers"
                    if has_masks
                    else f"none for {name!r}, which is about some answers only"
                )
                raise InputError(f"{function}: `among` must fit the promises, got {problem}.")
            counted[name] = None
            if masks_of_promise is not None:
                # in the order of `later.answering`: 0 is the first stage, the number of stages the person
                mask_of_answerer = [masks_of_promise[answerer] for answerer in (*self.names, PERSON)]
                # for each sample, the entry in the mask of the one who answers it
                counted[name] = np.choose(later.answering, mask_of_answerer)
        return counted

    def columns(self) -> dict[str, list[Any]]:
        """One row per promise: its name, target, risk, and how many answers it is about.

        A promise about some answers only has their number in `counted_answers`. It is None for one about all answers:
        those of the stages (`promise` "answered"), or the person's too ("system"), which are as many as there are
        samples. The answers are those to calibration samples, and so are the risks, which are None without a cascade.
        `coverage` is the share of the samples that the stages answer. `targets` and `risks` are by promise, in the
        order of `promises`. The caller makes a data frame or a table of the columns.
        """
        shared = self.shared  # any of the promises: all have the same samples, coverage and `promise`
        all_answers = shared.n if shared.promise == "system" else round(shared.coverage * shared.n)
        counted = [rule.counted_answers for rule in self.promises.values()]
        return {
            "promise": list(self.promises),
            "target": list(self.targets.values()),
            "risk": list(self.risks.values()),
            "answers": [all_answers if count is None else count for count in counted],
        }

    def facts(self) -> list[tuple[str, str]]:
        """Return what the repr and the command show: pairs of a heading and a text."""
        facts = self._facts_of_promises(self.risks)
        shared = self.shared  # any of the promises, for what all share
        if self.feasible:
            facts += shared.facts_of_use()
        facts.append(("calibration", f"n = {self.n}, delta = {self.delta:g}"))
        facts.append(("guarantee", self.guarantee or "none"))
        if shared.note:
            facts.append(("note", shared.note))
        return facts

    def _readable(self) -> dict[str, Any]:
        return {"rule": self.rule}

    def _rules(self) -> dict[str, Any]:
        """Return each rule that a stored record must keep, as the message to show, and whether it keeps it.

        `promises` holds one cascade per promise. All have the same thresholds, stages and costs, with other losses. The
        caller raises DataError with the message of a rule that is not kept; each cascade checks itself too.
        """
        rules = list(self.promises.values())
        # one entry if all agree; `rule.rule` states the thresholds in words, `rule.promise` is "answered" or "system"
        shared = {(rule.rule, rule.names, rule.delta, rule.n, rule.cost, rule.promise) for rule in rules}
        return {
            "there must be two promises.": len(rules) >= 2,
            "promises must share thresholds, stages, `delta`, `n` and cost.": len(shared) == 1,
            "promises must be at `delta`.": all(rule.delta == self.delta for rule in rules),
        }

    def record_parts(self, saved_as: str) -> RecordParts:
        """The parts of its decision record; `saved_as` is the name of the rule's file.

        A risk on the calibration data is None without a cascade, and left out; then `risks` is not shown. `targets` are
        the promised risks. `shared` is any of the promises, which have the rule in common.
        """
        risks = [f"risk of {name} {risk:.4g}" for name, risk in self.risks.items() if risk is not None]
        targets = [f"risk of {name} at most {target:g}" for name, target in self.targets.items()]
        return self.shared.write_record(
            saved_as,
            risks=", ".join(risks),
            promised=[self._promise_in_words(name) for name in self.promises],
            guarantee=self.guarantee,
            asked_for=", ".join(targets),
        )

    def _promise_in_words(self, name: Any) -> str:
        """State the promise called `name`, a predicted class or the user's name for a loss, in everyday words."""
        rule = self.promises[name]
        if self.by_class:
            return f"at most {100 * rule.target:.4g}% of the models' answers of class {name} are wrong"
        whose = "all answers, the person's included," if rule.promise == "system" else "the models' answers"
        about = "" if rule.counted_answers is None else " that it is about"
        return f"the mean of {name} over {whose}{about} is at most {rule.target:.4g}"


def load_cascade(path: Any) -> Cascade | JointCascade:
    """The cascade that `save` or the command line wrote, with one promise or several.

    Parameters
    ----------
    path : str or path
        A JSON file.

    Returns
    -------
    Cascade or JointCascade
        Every field checked; anything else in the file is a `DataError`. The field "format" says which of the two it is.

    Examples
    --------
    >>> import abstain, tempfile
    >>> g = [i / 200 for i in range(200)]
    >>> rule = abstain.cascade({"only": ([x < 0.1 for x in g], g, 1.0)}, risk=0.2, person=(10.0, 0.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rule.save(folder + "/rule.json")
    ...     load_cascade(folder + "/rule.json").rule == rule.rule
    True
    """
    text = read_record_text(path)
    record = parse_json("load_cascade", text)
    format_name = str(record.get("format")) if isinstance(record, dict) else ""
    if format_name.startswith("abstain.JointCascade/"):
        return JointCascade.from_json(text)
    if "Threshold" in format_name:
        raise DataError(
            f"load_cascade: {Path(path).name[:60]!r} holds a threshold, not a cascade. Load it with "
            f"`abstain.thresholds.load_rule`."
        )
    return Cascade.from_json(text)
