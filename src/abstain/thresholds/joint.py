"""One threshold that keeps several promises at once: applied, stored, recorded, and checked on later data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from abstain import _tables
from abstain._arrays import Array, ArrayLike, to_host
from abstain._stored import Chance, Share, Stored, Within
from abstain.errors import InputError, ShapeError
from abstain.thresholds.cut import ScoreName, Units
from abstain.thresholds.monitoring import GroupChecks, check_is_new, check_promise, share_cluster_memory
from abstain.thresholds.record import (
    RecordParts,
    list_assumptions,
    list_facts,
    list_void_conditions,
    state_cluster_limit,
)
from abstain.thresholds.rules import Kind, Origin, Threshold

Count = Annotated[int, Within(0)]


def predicted_classes(logits: Array | None, probs: Array | None) -> np.ndarray:
    """The class with the largest score, for each sample; one of `logits` and `probs` is given, shape (n, K)."""
    return np.argmax(np.asarray(to_host(probs if logits is None else logits)), axis=-1)


def membership_masks(
    function: str, among: Mapping[Any, ArrayLike] | None, names: list[Any], n: int
) -> dict[Any, np.ndarray | None]:
    """For each promise: which of n samples it is about, as a mask; None for a promise about all.

    `among` are the user's masks by promise. Raises InputError for a mask of a promise that is not in `names`, or that
    is not of truth values; ShapeError unless there is one truth value per sample. `function` is named in messages.
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


@dataclass(frozen=True, eq=False)
class JointThreshold(Stored, _tables.Notebook):
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

    @property
    def _first(self) -> Threshold:
        """Any of the promises, for what all share: value, confidences and data."""
        return next(iter(self.promises.values()))

    def __getitem__(self, name: Any) -> Threshold:
        return self.promises[name]

    @property
    def value(self) -> float | None:
        """Accept when the confidence is at least this; None when no threshold keeps all promises."""
        return self._first.value

    @property
    def feasible(self) -> bool:
        """Is there a threshold?"""
        return self._first.feasible

    @property
    def rule(self) -> str:
        """What to do with a new sample, in one line."""
        return self._first.rule

    @property
    def n(self) -> int:
        """Calibration samples."""
        return self._first.n

    @property
    def coverage(self) -> Share:
        """Share of the calibration samples that are accepted."""
        return self._first.coverage

    @property
    def targets(self) -> dict[Any, float]:
        """The promised risk, by promise."""
        return {name: threshold.target for name, threshold in self.promises.items()}

    @property
    def risks(self) -> dict[Any, float | None]:
        """Mean loss of the accepted calibration samples that each promise is about; None where there are none.

        With sample weights, a promise about some samples only has None too: their weights are not stored.
        """
        return {name: self._risk_of(name) for name in self.promises}

    def _risk_of(self, name: Any) -> float | None:
        """Mean loss of the accepted samples that this promise is about; None where it is not known.

        `promises` holds one threshold per promise, `counted` how many calibration samples each is about.
        """
        threshold = self.promises[name]
        counted = self.counted[name]
        if threshold.risk is None or counted.accepted is None:
            return threshold.risk
        if not counted.accepted or threshold.evidence.heaviest_sample is not None:
            return None
        accepted = round(threshold.coverage * threshold.n)
        # the other accepted samples have the target as their loss
        counted_loss = threshold.risk * accepted - threshold.target * (accepted - counted.accepted)
        low, high = threshold.bounded
        return min(high, max(low, counted_loss / counted.accepted))

    @property
    def guarantee(self) -> str | None:
        """What is promised, in words; None without a threshold."""
        if not self.feasible:
            return None
        first = self._first
        calibration_data = f"{first.n} calibration samples"
        draws = "calibration and later data being independent draws from one population"
        if first.clusters is not None:
            calibration_data = f"{first.clusters} calibration clusters ({first.n} samples)"
            draws = (
                "calibration and later clusters being independent draws from one population, none larger than the "
                f"largest here ({first.largest:g})"
            )
        if first.evidence.heaviest_sample is not None:
            draws += ", if the sample weights are the exact density ratio of later to calibration data"
        sentences = [self._promise_of(name) for name in self.promises]
        return (
            f"With probability at least {1 - self.delta:.4g} over the {calibration_data}, all of these hold at once: "
            f"{'; '.join(sentences)}; {draws}."
        )

    def _promise_of(self, name: Any) -> str:
        """State one promise in a few words."""
        target = self.promises[name].target
        if self.by_class:
            return (
                f"the error rate of the accepted that are predicted as class {name} is at most {target:.4g}"
            )
        whom = "the accepted" if self.counted[name].samples is None else "the accepted that it is about"
        return f"{name}: the mean loss of {whom} is at most {target:.4g}"

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
        return self._first.accepts(confidence, logits=logits, probs=probs, score=score, units=units)

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
            One of them, as in `accepts`.
        among : dict of arrays of bool
            Which samples each promise is about, for the promises that are about some samples only. For promises about
            predicted classes give `logits=` or `probs=` instead.
        clusters : array, optional
            One label per sample, for a rule made from clusters.
        previous : GroupChecks, optional
            The check after the look before.
        score, units
            As in `accepts`.

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
        names = list(self.promises)
        columns: Any = {"confidence": confidence, "logits": logits, "probs": probs, "units": units}
        confidences = self._first.cut.read(function, **columns, score=score)
        loss_by_name = losses_by_promise(function, losses, names)
        if self.by_class and among is None:
            if logits is None and probs is None:
                raise InputError(
                    f"{function}: promises about predicted classes need `logits=`, `probs=` or `among=`."
                )
            predictions = predicted_classes(logits, probs)
            among = {name: predictions == name for name in names}
        masks = membership_masks(function, among, names, len(confidences.values))
        checks = {} if previous is None else dict(previous.checks)
        for name, threshold in self.promises.items():
            if (masks[name] is None) != (self.counted[name].samples is None):
                rule = "is about some samples only" if masks[name] is None else "is about all samples"
                raise InputError(
                    f"{function}: `among` must fit the promises, got none for {name!r}, which {rule}."
                )
            check = check_promise(
                replace(threshold, delta=self.delta / len(names)),
                loss_by_name[name],
                confidences,
                clusters=clusters,
                previous=checks.get(name),
                counts=masks[name],
            )
            checks[name] = share_cluster_memory(check, group_count=len(names))
        series = GroupChecks(checks, files=() if previous is None else previous.files)
        check_is_new(series, previous)
        return series

    def columns(self) -> dict[str, list[Any]]:
        """One row per promise: its name, target, risk, and how many accepted samples it is about."""
        accepted = round(self.coverage * self.n)
        counted = [self.counted[name].accepted for name in self.promises]
        return {
            "promise": list(self.promises),
            "target": list(self.targets.values()),
            "risk": list(self.risks.values()),
            "accepted": [accepted if count is None else count for count in counted],
        }

    def frame(self, library: str | None = None) -> Any:
        """The promises as a pandas or polars frame (whichever is there), or a dict of lists."""
        return _tables.make_frame(self.columns(), library)

    def facts(self) -> list[tuple[str, str]]:
        """Return what the repr and the command show: pairs of a heading and a text."""
        facts = [("rule", self.rule)]
        for name, threshold in self.promises.items():
            risk = self._risk_of(name)
            seen = "" if risk is None else f": {risk:.4g} in calibration"
            facts.append((f"promise {name}", f"at most {threshold.target:g}{seen}"))
            if threshold.advice is not None:
                facts.append((f"feasible {name}", str(threshold.advice)))
        if self.feasible:
            low, high = self._first.coverage_interval
            facts.append(("coverage", f"{self.coverage:.4f}  [{low:.4f}, {high:.4f}]"))
        facts.append(("calibration", f"n = {self.n}, delta = {self.delta:g}"))
        facts.append(("guarantee", self.guarantee or "none"))
        if not self.feasible:
            facts.append(("note", "No threshold keeps all promises; those with advice fail alone too."))
        return facts

    def __repr__(self) -> str:
        head = "JointThreshold" if self.feasible else "JointThreshold: no feasible threshold"
        width = max(len(name) for name, _ in self.facts()) + 2
        return "\n".join([head, *(f"  {name + ':':<{width}}{text}" for name, text in self.facts())])

    def _readable(self) -> dict[str, Any]:
        return {"rule": self.rule}

    def _rules(self) -> dict[str, Any]:
        """Return each rule that a stored record must keep, as the message to show, and whether it keeps it.

        `promises` holds one threshold per promise, `counted` how many calibration samples each is about.
        """
        shared = {(rule.value, rule.delta, rule.n, rule.coverage) for rule in self.promises.values()}
        return {
            "there must be two promises.": len(self.promises) >= 2,
            "promises must share value, `delta`, `n` and coverage.": len(shared) == 1,
            "promises must be at `delta`.": all(x.delta == self.delta for x in self.promises.values()),
            "promises must have been tested.": all(
                (x.form, x.method) == ("risk", "ltt") for x in self.promises.values()
            ),
            "`counted` must have the names of `promises`.": list(self.counted) == list(self.promises),
        }

    def record_parts(self, saved_as: str) -> RecordParts:
        """The parts of its decision record; `saved_as` is the name of the rule's file."""
        first = self._first
        origin = first.origin or Origin("confidence")
        asked_for = ", ".join(f"{name} at most {target:g}" for name, target in self.targets.items())
        rule_lines = [f"- Accept: {self.rule}. All other cases go to a person."]
        if self.feasible:
            risks = ", ".join(f"{name} {risk:.4g}" for name, risk in self.risks.items() if risk is not None)
            rule_lines.append(
                f"  On the calibration data: coverage {self.coverage:.4f}, n = {self.n:,}; {risks}."
            )
        assumptions = list_assumptions(first.clusters)
        if first.clusters is not None:
            assumptions.append(state_cluster_limit(first.largest))
        clusters = None
        if first.clusters is not None:
            clusters = f"{first.clusters:,}, the largest of {first.largest:g} samples"
        return RecordParts(
            title="Decision record: when the model's answer is accepted",
            rule=rule_lines,
            promise=[self.guarantee or "None: no threshold keeps all promises."],
            data=list_facts(
                {
                    "file": origin.data,
                    "SHA-256": origin.sha256,
                    "samples": f"{self.n:,}",
                    "clusters": clusters,
                    "input": origin.kind,
                    "score": origin.score or "confidences of the user's own",
                    "asked for": f"{asked_for}, method ltt, delta {self.delta:g}",
                    "command": None if origin.command is None else f"`{origin.command}`",
                    "abstain": origin.version,
                }
            ),
            assumptions=assumptions,
            voids=list_void_conditions(first.clusters, origin.score or "confidence"),
            decide=f"abstain decide {saved_as} new.csv -o decided.csv",
            check=f"abstain threshold later.csv --check {saved_as} --state series.json",
            delta=self.delta,
        )


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
