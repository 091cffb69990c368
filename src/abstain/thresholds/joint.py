"""One threshold that keeps several promises at once: applied, stored, recorded, and checked on later data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from abstain import _tables
from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import refuse_other_row_order
from abstain._stored import Chance, Stored, Within
from abstain.errors import InputError, ShapeError
from abstain.metrics._sample import group_codes, label_array
from abstain.thresholds.calibration import array_per_sample
from abstain.thresholds.cut import CheckedConfidences, Cut, ScoreName, Units, warn_of_fitted_rows
from abstain.thresholds.monitoring import GroupChecks, PromiseToCheck, Reference, check_promises
from abstain.thresholds.record import (
    NO_GROUP,
    RecordParts,
    check_command,
    decide_command,
    describe_clusters,
    explain_promise,
    list_advice,
    list_assumptions,
    list_facts,
    list_void_conditions,
    state_cluster_limit,
    state_rule,
)
from abstain.thresholds.rules import (
    GroupThresholds,
    Kind,
    Origin,
    Threshold,
    explain_rule,
    refuse_other_rule,
)

Count = Annotated[int, Within(0)]
_ROUNDING_OF_MEAN = (
    2.0**-40
)  # room for the rounding of a mean loss that is multiplied by the number of samples again


def predicted_classes(logits: Array | None, probs: Array | None) -> np.ndarray:
    """The class with the largest score, for each sample; one of `logits` and `probs` is given, shape (n, K)."""
    return np.argmax(np.asarray(to_host(probs if logits is None else logits)), axis=-1)


def membership_masks(
    function: str, among: Mapping[Any, ArrayLike] | None, names: list[Any], n: int
) -> dict[Any, np.ndarray | None]:
    """For each promise: which of n samples it is about, as a mask; None for a promise about all.

    `names` are the names of all promises, `among` the user's masks by promise, or None for no masks. Raises InputError
    for a mask of a promise that is not in `names`, or that is not of truth values; ShapeError unless there is one truth
    value per sample. `function` is named in messages.
    """
    masks: dict[Any, np.ndarray | None] = dict.fromkeys(names)
    for name, values in (among or {}).items():
        if name not in masks:
            promise_names = ", ".join(map(str, names))
            raise InputError(f"{function}: `among` must name promises ({promise_names}), got {name!r}.")
        mask = np.asarray(to_host(values))
        if mask.dtype != bool:
            raise InputError(f"{function}: `among` must hold truth values for {name!r}, got {mask.dtype}.")
        if mask.shape != (n,):
            raise ShapeError(
                f"{function}: `among` must hold one truth value per sample for {name!r}, got {mask.shape}, not ({n},)."
            )
        masks[name] = mask
    return masks


@dataclass(frozen=True, eq=False)
class Counted:
    """How many calibration samples a promise is about, and how many of them the threshold accepts.

    Both are None for a promise about all samples.
    """

    samples: Count | None = None
    accepted: Count | None = None

    @property
    def is_about_all(self) -> bool:
        """Is the promise about all samples, so that nothing is counted?"""
        return self.samples is None


def masks_of_classes(
    function: str, names: list[Any], predictions: np.ndarray | None
) -> dict[Any, np.ndarray]:
    """For each promise about a predicted class: which samples are predicted as that class.

    `names` are the promises' names, which must be numbers of classes; `predictions` the predicted class of each sample,
    None without class scores. Raises InputError, naming `function`, where masks cannot be made from these.
    """
    are_numbers = all(isinstance(name, (int, np.integer)) and not isinstance(name, bool) for name in names)
    if predictions is None or not are_numbers:
        raise InputError(
            f"{function}: promises about predicted classes need `among=`, or `logits=` or `probs=` and numbers of "
            f"classes as names."
        )
    return {name: predictions == name for name in names}


class JointRule(_tables.Notebook):
    """What every rule with several promises has: its promises by name, and what they share.

    `promises` holds one rule for each promise; all have the same thresholds, so that any of them stands for all.
    """

    promises: Mapping[Any, Any]
    delta: float

    @property
    def any_promise(self) -> Any:
        """Any of the promises, for what all share: thresholds, confidences and data."""
        return next(iter(self.promises.values()))

    @property
    def feasible(self) -> bool:
        """Is there a rule that keeps all promises?"""
        return bool(self.any_promise.feasible)

    @property
    def rule(self) -> str:
        """What to do with a new sample, in one line."""
        return str(self.any_promise.rule)

    @property
    def n(self) -> int:
        """Calibration samples."""
        return int(self.any_promise.n)

    @property
    def coverage(self) -> float:
        """Share of the calibration samples that are accepted."""
        return float(self.any_promise.coverage)

    @property
    def targets(self) -> dict[Any, float]:
        """The promised risk, by promise."""
        return {name: rule.target for name, rule in self.promises.items()}

    @property
    def advice(self) -> str:
        """What would be feasible, for each promise that cannot be kept even by itself; empty if there is none."""
        advice = {name: rule.advice for name, rule in self.promises.items() if rule.advice is not None}
        return " ".join(f"{name}: {text}" for name, text in advice.items())

    def frame(self, library: str | None = None) -> Any:
        """The promises as a pandas or polars frame (whichever is there), or a dict of lists."""
        return _tables.make_frame(self.columns(), library)

    def columns(self) -> dict[str, list[Any]]:
        """One row per promise, as lists by the name of the column."""
        raise NotImplementedError

    def facts(self) -> list[tuple[str, str]]:
        """Return what the repr and the command show: pairs of a heading and a text."""
        raise NotImplementedError

    def _facts_of_promises(self, risks: Mapping[Any, float | None]) -> list[tuple[str, str]]:
        """The rule, then each promise with its risk in calibration (None: not known), as a heading and a text.

        A promise that cannot be kept even by itself has `advice` on what would be feasible; all others have None. Its
        `target` is the promised risk, on the user's scale.
        """
        facts = [("rule", self.rule)]
        for name, rule in self.promises.items():
            risk = risks[name]
            observed = "" if risk is None else f": {risk:.4g} in calibration"
            facts.append((f"promise {name}", f"at most {rule.target:g}{observed}"))
            if rule.advice is not None:
                facts.append((f"feasible {name}", str(rule.advice)))
        return facts

    def _shown_facts(self) -> list[tuple[str, str]]:
        """Return the facts that the repr shows."""
        return self.facts()

    def __repr__(self) -> str:
        kind = type(self).__name__
        facts = self._shown_facts()
        width = max(len(heading) for heading, _ in facts) + 2
        head = kind if self.feasible else f"{kind}: nothing keeps all promises"
        return "\n".join([head, *(f"  {heading + ':':<{width}}{text}" for heading, text in facts)])


@dataclass(frozen=True, eq=False, repr=False)
class JointThreshold(JointRule, Stored):
    """One threshold that keeps several promises at once, with probability 1 - delta for all of them together.

    Attributes
    ----------
    promises : dict
        A `Threshold` by the name of each promise, with its own target, bounds and table; they share the value. In the
        record of a promise about some samples only, the others have exactly the target as their loss, which changes
        no promise; `risks` leaves them out.
    counted : dict
        `Counted` by the same names: how many samples each promise is about.
    delta : float
        The probability with which some promise may fail.
    by_class : bool
        Are the promises about predicted classes? Then their names are numbers of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from abstain import select_threshold
    >>> rng = np.random.default_rng(0)
    >>> sure = rng.random(3000)
    >>> wrong = rng.random(3000) < 0.2 * (1 - sure)
    >>> hours = np.where(wrong, rng.random(3000), 0.0)  # what an error costs, at most 1
    >>> rule = select_threshold(
    ...     losses={"errors": wrong, "hours": hours}, confidence=sure, risk={"errors": 0.05, "hours": 0.04}
    ... )
    >>> rule.feasible, rule.risks["errors"] < 0.05, rule.risks["hours"] < 0.04
    (True, True, True)
    >>> rule.accepts([0.99, 0.01]).tolist()
    [True, False]
    """

    _noun: ClassVar[str] = "a stored threshold with several promises"
    _has_checksum: ClassVar[bool] = True
    _number: ClassVar[int] = 1

    promises: dict[Any, Threshold]
    counted: dict[Any, Counted]
    delta: Chance
    by_class: bool = False

    @classmethod
    def _upgraded(cls, record: Any) -> Any:
        """The parsed JSON, unchanged; raises DataError for another kind of rule."""
        refuse_other_rule(cls.__name__, record)
        return record

    def __getitem__(self, name: Any) -> Threshold:
        return self.promises[name]

    @property
    def value(self) -> float | None:
        """Accept when the confidence is at least this; None when no threshold keeps all promises."""
        value: float | None = self.any_promise.value
        return value

    @property
    def note(self) -> str | None:
        """What to know besides; None if there is nothing to say."""
        if not self.feasible:
            return "No threshold keeps all promises; those with advice fail alone too."
        note: str | None = self.any_promise.note
        return note

    @property
    def coverage_interval(self) -> tuple[float, float]:
        """Of the coverage; it holds for all thresholds at once, at level 1 - delta."""
        low, high = self.any_promise.coverage_interval
        return low, high

    @property
    def cut(self) -> Cut:
        """How later confidences are compared with the threshold: the same for all promises."""
        cut: Cut = self.any_promise.cut
        return cut

    @property
    def plain_rule(self) -> str | None:
        """The rule with the number that people know; None unless it compares rank keys, as in `Threshold`."""
        plain_rule: str | None = self.any_promise.plain_rule
        return plain_rule

    def _shown_facts(self) -> list[tuple[str, str]]:
        """Return the facts, pairs of a heading and a text, with `plain_rule` behind the first, which is the rule."""
        return explain_rule(self.facts(), self.plain_rule)

    @property
    def reference(self) -> Reference:
        """The confidences of the calibration data."""
        reference: Reference = self.any_promise.reference
        return reference

    @property
    def risks(self) -> dict[Any, float | None]:
        """Mean loss of the accepted calibration samples that each promise is about; None where there are none.

        With sample weights, a promise about some samples only has None too: their weights are not stored.
        """
        return {name: self._risk_of(name) for name in self.promises}

    def _risk_of(self, name: Any) -> float | None:
        """Mean loss of the accepted samples that this promise is about; None where it is not known.

        `promises` holds one threshold per promise, `counted` how many calibration samples each is about, and how many
        of these are accepted (both None for a promise about all samples). `threshold.risk` is the mean loss of all
        accepted samples. When the threshold was chosen, each sample that the promise is not about got the target as its
        loss, which moves no mean across the target. This is undone here by counting samples. That needs equal weights:
        with sample weights (`heaviest_sample` is not None) it is not stored how much the counted samples weigh.
        """
        threshold = self.promises[name]
        counted = self.counted[name]
        if threshold.risk is None or counted.accepted is None:
            return threshold.risk
        has_weights = threshold.evidence.heaviest_sample is not None
        if not counted.accepted or has_weights:
            return None
        accepted_count = round(threshold.coverage * threshold.n)
        not_counted = accepted_count - counted.accepted  # accepted samples that the promise is not about
        counted_loss_sum = threshold.risk * accepted_count - threshold.target * not_counted
        # a count of errors is a whole number: the difference of two sums is that only up to rounding, also for no error
        if abs(counted_loss_sum - round(counted_loss_sum)) <= _ROUNDING_OF_MEAN * accepted_count:
            counted_loss_sum = round(counted_loss_sum)
        low, high = threshold.bounded  # of the loss; rounding may lead out of them
        return min(high, max(low, counted_loss_sum / counted.accepted))

    @property
    def guarantee(self) -> str | None:
        """What is promised, in words; None without a threshold, or if it was made from out-of-fold predictions.

        All promises share samples, clusters and weights, so these are read from one of them: `clusters` is the number
        of clusters (None without clusters), `largest` the samples in the largest, and `evidence.heaviest_sample` the
        largest sample weight over the mean one (None without weights).
        """
        any_threshold: Threshold = self.any_promise
        if any_threshold.guarantee is None:  # no threshold, or out-of-fold predictions
            return None
        calibration_data = f"{any_threshold.n} calibration samples"
        draws = "calibration and later data being independent draws from one population"
        if any_threshold.clusters is not None:
            calibration_data = f"{any_threshold.clusters} calibration clusters ({any_threshold.n} samples)"
            draws = (
                "calibration and later clusters being independent draws from one population, none larger than the "
                f"largest here ({any_threshold.largest:g})"
            )
        if any_threshold.evidence.heaviest_sample is not None:
            draws += ", if the sample weights are the exact density ratio of later to calibration data"
        # `bound`: what each promise bounds, joined by semicolons
        return (
            f"With probability at least {1 - self.delta:.4g} over the {calibration_data}, all of these hold at once: "
            f"{self.bound}; {draws}."
        )

    @property
    def bound(self) -> str:
        """What the promises bound, as clauses."""
        return "; ".join(self._promise_of(name) for name in self.promises)

    def _promise_of(self, name: Any) -> str:
        """State the promise called `name`, a predicted class or the user's name for a loss, in a few words."""
        target = self.promises[name].target  # the largest risk that it allows
        if self.by_class:
            return (
                f"the error rate of the accepted that are predicted as class {name} is at most {target:.4g}"
            )
        whom = "the accepted" if self.counted[name].is_about_all else "the accepted that it is about"
        return f"{name}: the mean loss of {whom} is at most {target:.4g}"

    def with_promises_by_class(self, by_class: bool) -> JointThreshold:
        """The same rule, which now knows whether its promises are named by numbers of predicted classes."""
        return replace(self, by_class=by_class)

    def made_from(self, kind: Kind, **facts: Any) -> JointThreshold:
        """The same rule, which now knows its score, its loss and its data: the fields of an `Origin` by name."""
        promises = {name: threshold.made_from(kind, **facts) for name, threshold in self.promises.items()}
        return replace(self, promises=promises)

    def accepts(
        self,
        confidence: ArrayLike | None = None,
        *,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        score: ScoreName | None = None,
        units: Units | None = None,
    ) -> np.ndarray:
        """Return True for each sample to accept; a NaN is never accepted.

        Give one of `confidence`, `logits` and `probs`. Confidences of a score that saturates need `units`: "plain" for
        the number people know, "key" for what `abstain.scores` returns. Raises InputError for another `score`, and for
        numbers that cannot be those of the rule. A score saturates if it rounds to its largest value, such as 1, for
        many samples.
        """
        # All promises are kept by one threshold: each is a `Threshold` with the same value and the same cut, which are
        # all that decides. They differ in targets and losses, so any of them serves.
        any_threshold: Threshold = self.any_promise
        return any_threshold.accepts(confidence, logits=logits, probs=probs, score=score, units=units)

    @refuse_other_row_order
    def check(
        self,
        losses: ArrayLike | Mapping[Any, ArrayLike],
        confidence: ArrayLike | None = None,
        *,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        among: Mapping[Any, ArrayLike] | None = None,
        clusters: ArrayLike | None = None,
        previous: GroupChecks | None = None,
        score: ScoreName | None = None,
        units: Units | None = None,
    ) -> GroupChecks:
        """Does each promise still hold on later samples, in the order they came?

        Each of k promises is tested at delta / k, so the whole series raises a false alarm, by any promise or by the
        confidences, with probability at most delta.

        Parameters
        ----------
        losses : array or dict of arrays
            One loss per sample: the same for all promises, or an array for each.
        confidence, logits, probs : array
            One of them: a number per sample, or class scores.
        among : dict of arrays of bool
            Which samples each promise is about, for the promises that are about some samples only. For promises about
            predicted classes give `logits=` or `probs=` instead.
        clusters : array, optional
            One label per sample, for a rule made from clusters.
        previous : GroupChecks, optional
            The check after the look before.
        score, units
            The score of the rule or None, and "plain" or "key" for confidences of a score that saturates.

        Returns
        -------
        GroupChecks
            A `Check` by the name of each promise.

        Raises
        ------
        InputError
            If there is no threshold, a promise lacks its loss or its samples, or the data do not fit the rule.
        """
        function = "JointThreshold.check"
        columns: Any = {"confidence": confidence, "logits": logits, "probs": probs, "units": units}
        # the cut knows the score of the rule, and raises for numbers that cannot be compared with its threshold
        confidences = self.cut.read(function, **columns, score=score)
        warn_of_fitted_rows(function, score, confidences.values)
        predictions = None if logits is None and probs is None else predicted_classes(logits, probs)
        # by promise: its later samples, and its threshold at delta / k
        to_check = self.promises_to_check(
            function, losses, confidences, predictions=predictions, among=among, clusters=clusters
        )
        # Tests each promise. Their number decides how many clusters each may remember in the series.
        return check_promises(to_check, previous, series_promise_count=len(to_check))

    def promises_to_check(
        self,
        function: str,
        losses: ArrayLike | Mapping[Any, ArrayLike],
        confidences: CheckedConfidences,
        predictions: np.ndarray | None,
        among: Mapping[Any, ArrayLike] | None,
        clusters: ArrayLike | None,
    ) -> dict[Any, PromiseToCheck]:
        """Return each promise with the later samples to test it on, by name; each is tested at delta / promises.

        Parameters
        ----------
        function : str
            The calling function, for messages.
        losses : array or dict of arrays
            One loss per sample: the same for all promises, or an array for each.
        confidences : CheckedConfidences
            Of the same samples, checked against the rule.
        predictions : ndarray or None
            The predicted class of each sample, where there are class scores.
        among : dict of arrays of bool, or None
            Which samples each promise is about.
        clusters : array or None
            One label per sample.

        Raises
        ------
        InputError
            If a promise lacks its loss or its samples, or is about all samples and got some.
        """
        names = list(self.promises)
        loss_by_name = losses_by_promise(function, losses, names)
        # without masks of the user: each promise is about the samples that are predicted as one class
        if self.by_class and among is None:
            among = masks_of_classes(function, names, predictions)
        # by promise: which samples it is about, None for one that got no mask
        masks = membership_masks(function, among, names, len(confidences.values))
        to_check = {}
        for name, threshold in self.promises.items():
            is_about_all = self.counted[name].is_about_all  # as in calibration
            has_mask = masks[name] is not None
            if has_mask == is_about_all:
                problem = (
                    f"one for {name!r}, which is about all samples"
                    if has_mask
                    else f"none for {name!r}, which is about some samples only"
                )
                raise InputError(f"{function}: `among` must fit the promises, got {problem}.")
            to_check[name] = PromiseToCheck(
                rule=replace(threshold, delta=self.delta / len(names)),
                loss=loss_by_name[name],
                confidences=confidences,
                clusters=clusters,
                is_counted=masks[name],
            )
        return to_check

    def columns(self) -> dict[str, list[Any]]:
        """One row per promise: its name, target, risk, and how many accepted samples it is about.

        All are calibration samples. `counted` holds that number, None for a promise about all samples: then it is the
        number of all accepted. A risk is None where no such sample is accepted, and for a promise about some samples of
        data with sample weights. All dicts have the order of `promises`.
        """
        accepted = round(self.coverage * self.n)
        counted = [self.counted[name].accepted for name in self.promises]
        return {
            "promise": list(self.promises),
            "target": list(self.targets.values()),
            "risk": list(self.risks.values()),
            "accepted": [accepted if count is None else count for count in counted],
        }

    def facts(self) -> list[tuple[str, str]]:
        """Return what the repr and the command show: pairs of a heading and a text."""
        facts = self._facts_of_promises(self.risks)
        if self.feasible:
            low, high = self.coverage_interval
            facts.append(("coverage", f"{self.coverage:.4f}  [{low:.4f}, {high:.4f}]"))
        facts.append(("calibration", f"n = {self.n}, delta = {self.delta:g}"))
        facts.append(("guarantee", self.guarantee or "none"))
        if self.note:
            facts.append(("note", self.note))
        return facts

    def _readable(self) -> dict[str, Any]:
        return {"rule": self.rule}

    def _rules(self) -> dict[str, Any]:
        """Return each rule that a stored record must keep, as the message to show, and whether it keeps it.

        `promises` holds one threshold per promise, `counted` how many calibration samples each is about. A threshold
        with several promises was asked for risks (`form`), by sequential tests (`method` "ltt").
        """
        # one entry if all promises have the same threshold (None: there is none) and calibration samples
        shared = {(rule.value, rule.delta, rule.n, rule.coverage) for rule in self.promises.values()}
        return {
            "there must be two promises.": len(self.promises) >= 2,
            "promises must share value, `delta`, `n` and coverage.": len(shared) == 1,
            # not at a part of it each: a threshold passes only where all promises are proved
            "promises must be at `delta`.": all(x.delta == self.delta for x in self.promises.values()),
            "promises must have been tested.": all(
                (x.form, x.method) == ("risk", "ltt") for x in self.promises.values()
            ),
            "`counted` must have the names of `promises`.": list(self.counted) == list(self.promises),
        }

    def record_parts(self, saved_as: str) -> RecordParts:
        """The parts of its decision record; `saved_as` is the name of the rule's file."""
        return _make_record({NO_GROUP: self}, self.guarantee, self.delta, saved_as)

    def record_lines(self, group: Any = NO_GROUP) -> list[str]:
        """Return Markdown list items that state the rule, and what it did on the calibration data.

        `group` is the label of the group that the rule is for, `NO_GROUP` without groups. A risk of None is not known,
        and is left out. If no threshold keeps all promises (not `feasible`), the only item says so.
        """
        # all promises share the threshold and the data, so the rule with any one of them states it for all
        rule_with_one_promise: Threshold = self.any_promise
        lines = [state_rule(rule_with_one_promise, self.rule, group)]
        if self.feasible:
            known_risks = {name: risk for name, risk in self.risks.items() if risk is not None}
            risks = ", ".join(f"risk of {name} {risk:.4g}" for name, risk in known_risks.items())
            lines.append(f"  On the calibration data: coverage {self.coverage:.4f}, n = {self.n:,}; {risks}.")
        return lines


def _make_record(
    rules: Mapping[Any, JointThreshold], guarantee: str | None, delta: float, saved_as: str
) -> RecordParts:
    """Write the parts of the decision record of a rule with several promises, or of one such rule in each group.

    `rules` holds the rule of each group, or the only one under `NO_GROUP`. Groups share score, data and request, so
    these are read from the first; any of its promises has them. `origin` is where the rule comes from: score, data and
    command, None where not known. `guarantee` is what all rules promise together (None: nothing), `delta` the
    probability with which that may fail, and `saved_as` the name of the rule's file. `clusters` of a threshold is the
    number of calibration clusters, `largest` the samples of the largest; both None without clusters.
    """
    joint_rule = next(iter(rules.values()))
    any_threshold: Threshold = joint_rule.any_promise
    # None: nothing is known but that there were confidences
    origin = any_threshold.origin or Origin(kind="confidence")
    asked_for = ", ".join(f"{name} at most {target:g}" for name, target in joint_rule.targets.items())
    rule_lines: list[str] = []
    promise = ["None: no threshold keeps all promises."]
    if guarantee is not None:
        promise = _explain_joint_promise(rules, guarantee, delta)
    assumptions = list_assumptions(any_threshold.clusters)
    clusters = {}  # facts on the clusters of each group, by heading
    for group, rule in rules.items():
        rule_lines += rule.record_lines(group)
        of_group = "" if group == NO_GROUP else f" of group {group}"
        if group != NO_GROUP:
            promise.append(f"- {group}: {rule.guarantee or 'none'}")
        threshold: Threshold = rule.any_promise
        if threshold.clusters is not None:
            assumptions.append(state_cluster_limit(threshold.largest, group))
            sizes = describe_clusters(threshold.clusters, threshold.largest, origin.command)
            clusters[f"clusters{of_group}"] = sizes
    # `learned_name` is None unless the rule is for a learned confidence
    score = origin.score or any_threshold.cut.learned_name
    return RecordParts(
        title="Decision record: when the model's answer is accepted",
        rule=rule_lines,
        promise=promise,
        data=list_facts(  # a list item for each; what is None is left out
            {
                "file": origin.data,
                "SHA-256": origin.sha256,
                "samples": f"{sum(rule.n for rule in rules.values()):,}",
                **clusters,
                "input": origin.kind,
                "score": score or "confidences of the user's own",
                "asked for": f"{asked_for}, method ltt, delta {delta:g}",
                "command": None if origin.command is None else f"`{origin.command}`",
                "abstain": origin.version,
            }
        ),
        assumptions=assumptions,
        voids=list_void_conditions(any_threshold.clusters, score or "confidence"),
        decide=decide_command(saved_as, origin.command),
        check=check_command(saved_as, origin.command),
        delta=delta,
        would_help=[] if any(rule.feasible for rule in rules.values()) else list_advice(rules),
    )


def _explain_joint_promise(rules: Mapping[Any, JointThreshold], guarantee: str, delta: float) -> list[str]:
    """Lines of Markdown that state several promises in everyday words, then the full `guarantee`.

    `rules` holds the rule of each group, or the only one under `NO_GROUP`; `delta` is the probability with which any of
    their promises fails. With sample weights the promises are about reweighted data, and have no shorter form. At least
    one rule has a threshold, since there is a guarantee. The promises are the same in all rules; with `by_class` each
    is about the samples predicted as the class that is its name.
    """
    feasible = [rule for rule in rules.values() if rule.feasible]
    first = feasible[0]
    if first.any_promise.evidence.heaviest_sample is not None:
        return [guarantee]
    by_group = NO_GROUP not in rules
    promises = []
    for name, threshold in first.promises.items():
        if first.by_class:
            share = f"{100 * threshold.target:.4g}%"
            promises.append(f"at most {share} of the model's answers of class {name} are wrong")
        else:
            whose = "" if first.counted[name].is_about_all else " that it is about"
            promises.append(
                f"the mean of {name} over the model's answers{whose} is at most {threshold.target:.4g}"
            )
    count = f"{sum(rule.n for rule in feasible):,} cases"
    if by_group:
        count = f"the {count} of {len(feasible)} groups"
    elif first.any_promise.clusters is not None:
        count = f"{first.any_promise.clusters:,} clusters ({count})"
    kept = "rules that keep all promises in every group" if by_group else "a rule that keeps all promises"
    return explain_promise(
        f"all of these hold{' in each group' if by_group else ''}: {'; '.join(promises)}. It is not about a single "
        f"answer, the count of one month, or some kinds of cases only.",
        f"the {'rules were' if by_group else 'rule was'} made from {count}",
        kept,
        delta,
        guarantee,
    )


@dataclass(frozen=True, eq=False, repr=False)
class JointGroupThresholds(GroupThresholds):
    """One threshold per group, each of which keeps several promises; all hold together with probability 1 - delta.

    Attributes
    ----------
    thresholds : dict
        A `JointThreshold` by label, at delta / groups each; samples without a label are the group None.
    delta : float
        The probability with which some promise may fail in some group.

    Examples
    --------
    >>> import numpy as np
    >>> from abstain import select_threshold
    >>> sure = np.random.default_rng(0).random(600)
    >>> wrong, costly = sure < 0.1, sure < 0.05
    >>> rules = select_threshold(
    ...     losses={"errors": wrong, "costly": costly},
    ...     confidence=sure,
    ...     risk={"errors": 0.1, "costly": 0.08},
    ...     groups=["north", "south"] * 300,
    ... )
    >>> rules["north"].feasible, rules.accepts([0.99, 0.01], ["north", "south"]).tolist()
    (True, [True, False])
    """

    _noun: ClassVar[str] = "stored thresholds of groups with several promises"
    _number: ClassVar[int] = 1

    thresholds: dict[Any, JointThreshold]  # type: ignore[assignment]

    def with_promises_by_class(self, by_class: bool) -> JointGroupThresholds:
        """The same rules, which now know whether their promises are named by numbers of predicted classes."""
        thresholds = {label: rule.with_promises_by_class(by_class) for label, rule in self.thresholds.items()}
        return replace(self, thresholds=thresholds)

    @refuse_other_row_order
    def check(
        self,
        losses: ArrayLike | Mapping[Any, ArrayLike],
        confidence: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        among: Mapping[Any, ArrayLike] | None = None,
        clusters: ArrayLike | None = None,
        previous: GroupChecks | None = None,
        score: ScoreName | None = None,
        units: Units | None = None,
    ) -> GroupChecks:
        """Does each promise of each group still hold on later samples, in the order they came?

        Every promise of a group is tested at an equal share of the group's delta, so the whole series raises a false
        alarm with probability at most `delta`. A group without later samples keeps its last checks; one without a
        threshold has nothing to check.

        `losses` holds one loss per sample, the same for all promises or an array for each; `among` by promise a mask of
        the samples that it is about. Give one of `confidence`, `logits` and `probs`, and one label per sample in
        `groups` (and in `clusters`, for rules made from clusters). `previous` is the check after the look before.
        Returns a `Check` by "group: promise". Raises InputError for a group that was not calibrated, and for data that
        do not fit the rules.
        """
        function = "GroupThresholds.check"
        columns = {"confidence": confidence, "logits": logits, "probs": probs}
        # with their unit and precision; raises for another score than that of the rules
        confidences = self._read_shared_score(function, score, units, columns).flattened()
        warn_of_fitted_rows(function, score, confidences.values)
        n = len(confidences.values)
        predictions = None if logits is None and probs is None else predicted_classes(logits, probs)
        names = list(next(iter(self.thresholds.values())).promises)
        loss_by_name = losses_by_promise(function, losses, names)
        masks = membership_masks(function, among, names, n)
        if clusters is not None:
            group_codes(function, clusters, (n,), "clusters")  # raises unless there is one label per sample
        to_check: dict[Any, PromiseToCheck] = {}
        # `rows` are the numbers of the group's samples; raises for a group without a rule
        for group, rows in self._find_groups("check", groups, (n,)).items():
            rule = self.thresholds[group]
            if not rule.feasible:  # no threshold
                continue
            masks_of_group = None
            if among is not None:  # a mask of None: the promise is about all samples
                masks_of_group = {name: mask[rows] for name, mask in masks.items() if mask is not None}
            promises = rule.promises_to_check(
                function,
                losses={
                    # raises unless there is one loss per sample
                    name: array_per_sample(function, "losses", loss, (n,))[rows]
                    for name, loss in loss_by_name.items()
                },
                # those of this group, unchanged; the rule's cut raises if they cannot be compared with its threshold
                confidences=rule.cut.refuse_incomparable(function, confidences.take(rows)),
                predictions=None if predictions is None else predictions[rows],
                among=masks_of_group,
                clusters=None if clusters is None else label_array(clusters)[rows],
            )
            to_check |= {f"{group}: {name}": promise for name, promise in promises.items()}
        return check_promises(to_check, previous, series_promise_count=len(self.thresholds) * len(names))

    def frame(self, library: str | None = None) -> Any:
        """A row for each promise of each group, the worst group first, as a data frame or a dict of lists.

        Worst are groups without a threshold (`value` is None), then those with the lowest upper limit of the coverage.
        `library` is "pandas", "polars" or "dict"; None takes a library that is installed, else the dict.
        """
        columns: dict[str, list[Any]] = {"group": [], "value": [], "coverage": [], "n": []}
        for group in self.worst_first():
            rule = self.thresholds[group]  # with all promises of this group
            columns_of_promises = rule.columns()  # one entry per promise in each: its name, target, risk, ...
            for name, values in columns_of_promises.items():
                columns.setdefault(name, []).extend(values)
            # what all promises of the group share is repeated in each row
            shared = {"group": str(group), "value": rule.value, "coverage": rule.coverage, "n": rule.n}
            for name, value in shared.items():
                columns[name] += [value] * len(rule.promises)
        return _tables.make_frame(columns, library)

    def _rules(self) -> dict[str, Any]:
        """Return each rule that stored thresholds must keep, as the message to show, and whether they keep it."""
        # the names in their order, which must be the same, too
        promise_names = {tuple(rule.promises) for rule in self.thresholds.values()}
        # checks of later data are stored under these names, so no two may be equal
        check_names = {
            f"{group}: {name}" for group, rule in self.thresholds.items() for name in rule.promises
        }
        return {
            **super()._rules(),
            "groups must have the same promises.": len(promise_names) == 1,
            "groups and promises must differ as text.": len(check_names)
            == sum(len(rule.promises) for rule in self.thresholds.values()),
        }

    def record_parts(self, saved_as: str) -> RecordParts:
        """The parts of its decision record; `saved_as` is the name of the rules' file."""
        return _make_record(self.thresholds, self.guarantee, self.delta, saved_as)


def losses_by_promise(
    function: str, losses: ArrayLike | Mapping[Any, ArrayLike], names: list[Any]
) -> dict[Any, Array]:
    """The loss of each sample by promise; one array is that of every promise.

    Raises InputError if a dict has other names than the promises. `function` is named in messages.
    """
    if not isinstance(losses, Mapping):
        return dict.fromkeys(names, losses)
    if set(losses) != set(names):
        expected = ", ".join(map(str, names))
        actual = ", ".join(map(str, losses))
        raise InputError(
            f"{function}: `losses` must have the names of the promises ({expected}), got {actual}."
        )
    return {name: losses[name] for name in names}
