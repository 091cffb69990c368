"""A cascade as a rule: who answers a new sample, what is promised, stored, recorded, and checked on later data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from abstain._arrays import ArrayLike, backend_of, to_host
from abstain._check import check_choice, check_mask, refuse_other_row_order
from abstain._stored import Finite, Share, Within
from abstain.cascades.inputs import PERSON, PROMISES, ByStage, Promise, check_by_stage
from abstain.cascades.later_commands import later_command
from abstain.cascades.search import MAX_POLICIES, first_stage_that_answers
from abstain.errors import InputError, ShapeError
from abstain.thresholds.calibration import Candidates
from abstain.thresholds.cut import CheckedConfidences, Cut, ScoreName, Units, warn_of_fitted_rows
from abstain.thresholds.monitoring import Check, Reference, check_is_new, check_promise
from abstain.thresholds.promise import PromiseBasis
from abstain.thresholds.record import (
    NO_GROUP,
    RecordParts,
    describe_clusters,
    explain_promise,
    list_advice,
    list_assumptions,
    list_facts,
    list_void_conditions,
    state_cluster_limit,
)
from abstain.thresholds.rules import Origin, Promised, Threshold, plain_text

# A cascade is worth having if it costs at most this share of what the best single stage costs.
WORTHWHILE_COST_SHARE = 0.98
NOTHING_CERTIFIED = "No cascade and no single stage can be certified at this risk and delta with these data."
_Cost = Annotated[float, Within(infinite=True)]


class LaterAnswers(NamedTuple):
    """Who answers each later sample, and what the user gave for each stage.

    `answering` is the index of the stage that answers each sample; the number of stages means the person. `stages_left`
    counts the stages from that one to the end; 0: the person answers. `losses` holds what the user gave, by stage, and
    `columns` maps "confidence", "logits" and "probs" to arrays by stage, and `confidences` holds, by stage, what was
    read from them; NaN where the stage gives no answer.
    """

    answering: np.ndarray
    stages_left: np.ndarray
    losses: dict[str, Any]
    columns: dict[str, dict[str, Any]]
    confidences: dict[str, CheckedConfidences]


@dataclass(frozen=True, eq=False, repr=False)
class Cascade(Promised):
    """A rule for who answers: the first stage whose confidence reaches its threshold, otherwise a person.

    Attributes
    ----------
    names : tuple of str
        The stages in the order in which they are asked.
    thresholds : dict or None
        By stage: it answers when its confidence is at least this; minus infinity where it answers all it can, infinity
        where it is never asked (and never paid). None when nothing keeps the promise asked for.
    target, delta, promise
        What was asked for: the risk, the probability with which it may be exceeded, and whose risk it is.
    n : int
        Calibration samples.
    risk, risk_upper : float or None
        On the calibration data; the certified bound.
    coverage : float
        Share of the samples that some stage answers.
    cost : float
        Per sample, the person's included.
    cost_interval : (float, float)
        Of the cost, at level 0.95; the policy was chosen on the same data, and no cost is promised.
    shares : dict
        Share of the samples that each stage and the person answer.
    guarantee : str or None
        What is promised, in words.
    note : str
        What to know besides: why there is none, or why a single stage was returned.
    advice : Advice or None
        What would be feasible, when nothing is.
    person : (float, float)
        Mean cost and mean error of the person, as stated.
    bounded : (float, float)
        Between which values losses lie.
    unit : str
        Of the costs.
    cuts : dict
        By stage: the two blocks of calibration samples that its threshold lies between, their score, unit and
        precision (`abstain.thresholds.Cut`).
    zero_one : bool
        Do the losses that the promise speaks of take the two ends of their bounds only?
    counted_answers : int or None
        How many answers to calibration samples the promise is about, where it is about some answers only; then `risk`
        is that of these answers. None: it is about all.
    group_count : int or None
        In how many groups the promise holds, where groups were given.
    alternatives : (float, float) or None
        By these data the least cost of any policy of this risk and of a single stage, where a single stage was chosen.
    grid : int or None
        Thresholds tried at each stage, where fewer were allowed than asked for.
    clusters, largest : int, float, or None
        How many clusters there were, and the samples of the largest, where clusters were given.
    references : dict
        By stage in use: a summary of the confidences of the calibration samples that reached it, for later checks.
    origins : dict
        By stage: its calibration file, where that was stated (`made_from`; the command line does).

    Examples
    --------
    >>> import abstain
    >>> g = [i / 200 for i in range(200)]
    >>> rule = abstain.cascade({"only": ([x < 0.1 for x in g], g, 1.0)}, risk=0.2, person=(10.0, 0.0))
    >>> rule.decide({"only": [0.9, float("nan")]}).tolist()
    ['only', 'person']
    """

    _noun: ClassVar[str] = "a stored cascade"
    _number: ClassVar[int] = 6
    _none: ClassVar[str] = "none keeps the promise"

    names: tuple[str, ...]
    thresholds: dict[str, Annotated[float, Within(infinite=True)]] | None
    promise: Promise
    cost: Finite
    cost_interval: tuple[Finite, Finite]
    shares: dict[str, Share]
    person: tuple[Finite, Finite]
    cuts: dict[str, Cut]
    zero_one: bool
    group_count: Annotated[int, Within(1)] | None = None
    alternatives: tuple[_Cost, _Cost] | None = None
    grid: Annotated[int, Within(1)] | None = None
    unit: str = ""
    references: dict[str, Reference] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    counted_answers: Annotated[int, Within(0)] | None = None

    @property
    def feasible(self) -> bool:
        """Is there a cascade that keeps the promise?"""
        return self.thresholds is not None

    @property
    def scores(self) -> dict[str, str]:
        """Which score each stage was calibrated with, where it is known."""
        return {name: cut.score for name, cut in self.cuts.items() if cut.score is not None}

    @property
    def stages_in_use(self) -> tuple[str, ...]:
        """The stages that may be asked."""
        return tuple(name for name in self.names if (self.thresholds or {}).get(name, math.inf) < math.inf)

    @property
    def rule(self) -> str:
        """What to do with a new sample, in one line.

        A stage answers if its confidence reaches its threshold; otherwise the next one is asked, and the person at the
        end. `stages_in_use` are the stages that are ever asked, in their order; none without a cascade. Promises
        that share a cascade are compared by this text.
        """
        return self._list_conditions({})

    @property
    def plain_rule(self) -> str | None:
        """The rule with the numbers that people know, such as probabilities; None unless some stage has rank keys."""
        plain = {}
        # by stage; None without a cascade: then no stage is in use
        thresholds = self.thresholds or {}
        for name in self.stages_in_use:
            cut = self.cuts[name]
            # None unless the confidences of the stage are rank keys and the threshold is finite
            number = plain_text(cut, thresholds[name])
            if number is not None:
                # a threshold just above a rejected confidence looks the same as that in a few digits
                comparison = "at least" if thresholds[name] == cut.accepted else "above"
                plain[name] = f"its {cut.score} is {comparison} {number}"
        return self._list_conditions(plain) if plain else None

    def _list_conditions(self, plain: Mapping[str, str]) -> str:
        """When each stage in use answers, and then the person; `plain` holds by stage a condition in other words.

        A stage that `plain` lacks is described by its threshold; with a threshold of minus infinity it has no
        condition. `thresholds` is None without a cascade: then no stage is in use, and "person" (`PERSON`) answers
        everything.
        """
        thresholds = self.thresholds or {}
        conditions = []
        for name in self.stages_in_use:
            threshold = thresholds[name]
            answers_all_it_can = threshold == -math.inf  # it passes on only what it has no answer for
            condition = plain.get(name, f"its confidence >= {threshold!r}")
            conditions.append(name if answers_all_it_can else f"{name} if {condition}")
        if not conditions:
            return f"leave everything to the {PERSON}"
        return ", else ".join([*conditions, PERSON])

    def made_from(self, origins: Mapping[str, Origin]) -> Cascade:
        """The same rule, which now knows the file behind each stage."""
        return replace(self, origins=dict(origins))

    def record_parts(self, saved_as: str) -> RecordParts:
        """Return what `abstain.thresholds.decision_record` says of this cascade, section by section.

        `saved_as` is the name of the file with the rule, for the commands on the page. `target` is the promised risk,
        `risk` that on the calibration samples: None if nothing was certified, and then it is not shown.
        """
        return self.write_record(
            saved_as,
            risks="none" if self.risk is None else f"risk {self.risk:.4g}",
            promised=[self._bound_in_words()],
            guarantee=self.guarantee,
            asked_for=f"risk {self.target:g}",
        )

    def _bound_in_words(self) -> str:
        """What is promised, in everyday words, without the groups in which it holds."""
        whose = "all answers, the person's included," if self.promise == "system" else "the models' answers"
        if self.counted_answers is not None:
            whose += " that it is about"
        if self.zero_one and self.bounded == (0.0, 1.0):
            return f"at most {100 * self.target:.4g}% of {whose} are wrong"
        return f"the mean loss of {whose} is at most {self.target:.4g}"

    def _explain_promise(self, promised: list[str], guarantee: str) -> list[str]:
        """Lines of Markdown that state the promises in everyday words, then the full `guarantee`.

        `promised` holds a clause for each promise. `group_count` is None without groups, `clusters` without clusters.
        """
        where = "" if self.group_count is None else f" in each of {self.group_count} groups"
        bounds = promised[0] + where
        if len(promised) > 1:
            bounds = f"all of these hold{where}: {'; '.join(promised)}"
        count = f"{self.n:,} cases"
        if self.clusters is not None:
            count = f"{self.clusters:,} clusters ({count})"
        # the first goes on after "In the long run,", the second before ", drawn at random", and at least a share
        # 1 - delta of all such data lead to the third
        return explain_promise(
            f"{bounds}. It is not about a single answer, the count of one month, or some kinds of cases only.",
            f"the rule was made from {count}",
            "a rule that keeps its promise" if len(promised) == 1 else "a rule that keeps all promises",
            self.delta,
            guarantee,
        )

    def write_record(
        self, saved_as: str, *, risks: str, promised: list[str], guarantee: str | None, asked_for: str
    ) -> RecordParts:
        """Write the parts of the decision record of a cascade with one promise or several.

        `saved_as` is the name of the file with the rule. `risks` says what each promise's risk was on the calibration
        data, `promised` what is promised in everyday words, a clause for each promise, `guarantee` the full sentence
        (None: nothing is promised), and `asked_for` the largest risks. `origins` holds by stage
        its calibration file and the command that was run, as far as they were stated; `scores` by stage the name of its
        confidence score, where it has one. `shares` holds by stage, and then for the person, the share of the samples
        that it answers. `clusters` is the number of calibration clusters, `largest` the samples of the largest; both
        None without clusters. `person` is (cost, mean loss), `promise` "answered" or "system", and `feasible` says
        whether a cascade was certified. The result holds lists of Markdown lines; the caller puts them together.
        """
        rule = [f"- Who answers: {self.plain_rule or self.rule}."]
        if self.plain_rule is not None:
            rule.append(f"  In the rule's file, as rank keys: {self.rule}.")
        if self.feasible:
            low, high = self.cost_interval
            cost = f"cost {self.cost:.4g} [{low:.4g}, {high:.4g}] {self.unit}".strip()
            observed = f"coverage {self.coverage:.4f}, {risks}, {cost}, n = {self.n:,}"
            answered_by = ", ".join(f"{answerer} {share:.1%}" for answerer, share in self.shares.items())
            rule += [f"  On the calibration data: {observed}.", f"  Answered by: {answered_by}."]
        promise = ["None: this rule promises nothing."]
        if guarantee is not None:
            promise = self._explain_promise(promised, guarantee)
        if self.note:
            promise += ["", f"- Note: {self.note}"]
        # Markdown list items on what the promise assumes; `list_void_conditions` gives those on what ends it
        assumptions = list_assumptions(self.clusters, models="models")
        if self.clusters is not None:
            samples_in_largest_cluster = self.largest
            assumptions.append(state_cluster_limit(samples_in_largest_cluster))
        if self.promise == "system":  # the promise includes the person's answers
            _person_cost, person_loss = self.person
            assumptions.append(f"- The person's mean loss is {person_loss:g}, as was stated.")
        # of `abstain cascade`, after the later files and how they are read
        apply_options = ("--apply", saved_as, "--csv", "-o", "who.csv")
        check_options = ("--check", saved_as, "--state", "series.json")
        return RecordParts(
            title="Decision record: which model answers, and when a person does",
            rule=rule,
            promise=promise,
            data=self._data_lines(asked_for),
            assumptions=assumptions,
            voids=list_void_conditions(
                self.clusters,
                ", ".join(dict.fromkeys(self.scores.values())) or "the confidences here",
                "models",
            ),
            decide=later_command(self.names, self.origins, action=apply_options, has_truth=False),
            check=later_command(self.names, self.origins, action=check_options, has_truth=True),
            delta=self.delta,
            # advice is listed by group; here all samples are one group
            would_help=[] if self.feasible else list_advice({NO_GROUP: self}),
        )

    def _data_lines(self, asked_for: str) -> list[str]:
        """Return Markdown list items on the data behind each stage, then on what all stages share.

        `origins` holds by stage where it comes from: score, loss, file and command, each None if not known. A stage
        without one is described by its score alone: the name in `scores`, or that of the learned confidence which its
        cut was made for. `asked_for` says which risks were asked for, `delta` is the probability with which the promise
        may fail. `clusters` is the number of calibration clusters, None without clusters. Facts that are None or empty
        are left out (by `list_facts`). `bounded` is (least, largest loss), `person` (cost, mean loss); costs are in
        `unit`.
        """
        lines = []
        for name in self.names:
            origin = self.origins.get(name, Origin(kind="confidence", score=self.scores.get(name)))
            # `learned_name` is None unless the stage was calibrated with a learned confidence
            score = origin.score or self.cuts[name].learned_name or "confidences of the user's own"
            facts = [score]
            if origin.data:
                facts.append(origin.data)
            if origin.sha256:
                facts.append(f"SHA-256 {origin.sha256}")
            if origin.loss:
                facts.append(f"loss {origin.loss}")
            lines += list_facts({f"stage {name}": ", ".join(facts)})
        least_loss, largest_loss = self.bounded
        person_cost, person_loss = self.person
        # all origins have the same command and version; without any, nothing is known but that there were confidences
        first_origin = next(iter(self.origins.values()), Origin(kind="confidence"))
        cluster_sizes = None
        if self.clusters is not None:
            cluster_sizes = describe_clusters(self.clusters, self.largest, first_origin.command)
        # PROMISES has the words: "answered" is "what the stages answer"
        return lines + list_facts(
            {
                "samples": f"{self.n:,}",
                "clusters": cluster_sizes,
                "losses": f"between {least_loss:g} and {largest_loss:g}",
                "person": f"cost {person_cost:g} {self.unit}".strip() + f", mean loss {person_loss:g}",
                "asked for": f"{asked_for} of {PROMISES[self.promise]}, delta {self.delta:g}",
                "command": None if not first_origin.command else f"`{first_origin.command}`",
                "abstain": first_origin.version,
            }
        )

    def decide(
        self,
        confidences: ByStage | None = None,
        *,
        logits: ByStage | None = None,
        probs: ByStage | None = None,
        abstained: ByStage | None = None,
        scores: ByStage | None = None,
        units: Units | None = None,
    ) -> np.ndarray:
        """Who answers each sample, by name; a NaN is a stage that gave no answer, and passes on.

        Give every stage in one of `confidences`, `logits` and `probs`, each a dict by stage; class scores go to stages
        that know their score. With the first stages only, the samples that these pass on go to the next stage that is
        asked, so that the expensive stages need to see only what reaches them. Confidences of a score that saturates
        (rounds to its largest value, such as 1, for many samples) need `units`: "plain" for the number people know,
        "key" for what `abstain.scores` returns. `abstained` marks samples without an answer.
        `scores` holds, by stage, the learned confidence of stages that were calibrated with one. The result has one
        name per sample: that of a stage, or "person". InputError unless the stages given are the first ones, ShapeError
        for different lengths.

        >>> import abstain
        >>> rule = abstain.cascade(
        ...     {"a": ([0] * 300, range(300), 1.0), "b": ([0] * 300, range(300), 5.0)}, risk=0.2, person=(9.0, 0.0)
        ... )
        >>> rule.stages_in_use, rule.decide({"a": [7.0]}).tolist()
        (('a',), ['a'])
        """
        columns = {"confidence": confidences, "logits": logits, "probs": probs}
        # by stage, in the order of the stages; raises unless these are the first ones of the cascade
        read = self._read_stages(columns, abstained, scores, units)
        # index of the stage that answers each sample; the number of stages in `read` where none of them answers
        answering = self._find_answering_stage(read)
        # samples that no given stage answers go to the next stage in use, or to the person (PERSON, "person")
        later_stages = [name for name in self.stages_in_use if name not in read]
        next_to_ask = later_stages[0] if later_stages else PERSON
        return np.asarray([*read, next_to_ask])[answering]

    @refuse_other_row_order
    def check(
        self,
        stages: ByStage,
        /,
        *,
        person: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        previous: Check | None = None,
        abstained: ByStage | None = None,
        scores: ByStage | None = None,
        units: Units | None = None,
    ) -> Check:
        """Does the promise still hold on later samples, in the order they came?

        The whole series of checks raises a false alarm with probability at most delta, however often one looks. The
        risk is tested on the loss of each answer, a stage's or the person's; "drift" compares with the calibration the
        shares that the stages answer, and the confidences of each stage on the samples that reach it. A promise that
        holds in every group is checked on the samples of one group at a time.

        Parameters
        ----------
        stages : dict
            (loss, confidence) by name, or what `cascade` took; a confidence of NaN is no answer. For stages that know
            their score also (loss, {"logits": ...}) or (loss, {"probs": ...}).
        person : float or array, optional
            The person's loss, one number or one per sample; by default the mean stated in calibration. It matters only
            for promise="system".
        clusters : array, optional
            One label per sample, for a cascade that was calibrated with clusters.
        previous : Check, optional
            The last look of this series.
        abstained : dict, optional
            By stage, where it gave no answer.
        scores : dict, optional
            By stage, the learned confidence of stages that were calibrated with one.
        units : {"plain", "key"}, optional
            Of confidences of a score that saturates.

        Returns
        -------
        Check

        Raises
        ------
        InputError, ShapeError
            If a stage is missing or unknown, or its arrays do not fit.
        """
        if self.counted_answers is not None:
            remedy = "Call `check` of the rule that holds all promises"
            raise InputError(f"Cascade.check: this promise is one of several, about some answers. {remedy}.")
        later = self.read_later_answers(stages, abstained, scores, units)
        loss = self.loss_of_answers(later.answering, later.losses, person)
        # A threshold with the promise of this cascade, for losses on the user's scale. What it takes for a confidence
        # is the number of stages from the one that answers to the end, 0 for the person. It accepts the answers of
        # stages, from 1 on, or for promise="system" all answers, from 0 on.
        threshold = self.as_threshold()
        check = check_promise(
            threshold,
            loss,
            threshold.cut.read("Cascade.check", confidence=later.stages_left),
            clusters=clusters,
            previous=previous,
            further_p_values=partial(self.compare_stages, later),
        )
        check_is_new(check, previous)
        return check

    def compare_stages(self, later: LaterAnswers, rows: np.ndarray) -> list[float]:
        """Return the p-values of `compare_by_stage`."""
        return list(self.compare_by_stage(later, rows).values())

    def compare_by_stage(self, later: LaterAnswers, rows: np.ndarray) -> dict[str, float]:
        """Return, for each stage in use, the p-value of "its confidences are distributed as in calibration".

        Compared are the samples of these row numbers that reach the stage, with the calibration samples that did. A
        stage that none of them reaches is left out. `later.answering` is the index of the stage that answers each
        sample, the number of stages for the person. `references` holds, by stage in use, some calibration confidences
        and how many samples lie at or above each; `cuts` compares later confidences with them. A sample without an
        answer of the stage lies below all of them, and counts among `m` and `reference.n` alone. `largest` is the size
        of the largest calibration cluster, None without clusters.
        """
        p_values = {}
        for stage, name in enumerate(self.names):
            reached = rows[later.answering[rows] >= stage]  # no stage before this one answers them
            reference = self.references.get(name)
            if reference is None or not len(reached):
                continue
            values = later.confidences[name].values  # NaN where the stage gave no answer
            with_answer = later.confidences[name].take(reached[~np.isnan(values[reached])])
            # how many lie at or above each calibration confidence, at least and at most: rounding may hide the order
            surely, possibly = self.cuts[name].count_at_least("Cascade.check", with_answer, reference.value)
            # As many samples as the largest cluster had may be copies of one, of those that reached this stage at most
            # all: `reference.n`. Without clusters, each sample counts by itself (1).
            largest_cluster = min(self.largest or 1.0, reference.n)
            p_values[name] = reference.p_value(
                surely, possibly, m=len(reached), largest_cluster=largest_cluster
            )
        return p_values

    def read_later_answers(
        self, stages: ByStage, abstained: ByStage | None, scores: ByStage | None, units: Units | None
    ) -> LaterAnswers:
        """Find who answers each later sample, from what the user gave to `check`, whose arguments these are.

        `stages` holds by stage (loss, confidence), where the confidence may be {"logits": ...} or {"probs": ...};
        `abstained`, by stage, a mask of the samples without an answer; `scores`, by stage, the learned confidence of
        stages that were calibrated with one; `units` is "plain" or "key". In the result, `answering` is the index of
        the stage that answers each sample, the number of stages for the person. Losses are not checked.

        Raises InputError if a stage is missing or unknown or is not (loss, confidence), ShapeError if the confidences
        of the stages differ in length. The person is no stage: its index is the number of stages.
        """
        if not isinstance(stages, Mapping) or set(stages) != set(self.names):
            names = ", ".join(map(str, stages)) if isinstance(stages, Mapping) else type(stages).__name__
            names = names or "none"
            raise InputError(f"Cascade.check: needs every stage ({', '.join(self.names)}), got {names}.")
        # by kind of array, then by stage: each stage comes in one of the three
        columns: dict[str, dict[str, Any]] = {"confidence": {}, "logits": {}, "probs": {}}
        stage_losses = {}
        for name, entry in stages.items():
            title = f"Cascade.check: stage {name!r}"
            # what `cascade` took will do: (loss, confidence, cost), of which the cost is not read
            if not isinstance(entry, (tuple, list)) or len(entry) < 2:
                raise InputError(f"{title} must be (loss, confidence).")
            loss, confidence = entry[:2]
            stage_losses[name] = loss
            array_by_kind = confidence if isinstance(confidence, Mapping) else {"confidence": confidence}
            for kind, array in array_by_kind.items():
                check_choice(title, "kind", kind, tuple(columns))
                columns[kind][name] = array
        # the checked confidences by stage; NaN where it gives no answer
        read = self._read_stages(columns, abstained, scores, units)
        for name, score in (scores or {}).items():
            # this method is one more call between the warning and the user
            warn_of_fitted_rows(f"Cascade.check: stage {name!r}", score, read[name].values, stacklevel=5)
        answering = self._find_answering_stage(read)
        return LaterAnswers(
            answering=answering,
            # how many stages there are from the one that answers to the end; 0: the person answers
            stages_left=len(self.names) - answering,
            losses=stage_losses,
            columns=columns,
            confidences=read,
        )

    def loss_of_answers(
        self, answering: np.ndarray, stage_losses: Mapping[str, Any], person: ArrayLike | None
    ) -> np.ndarray:
        """Return the loss of the answer to each sample, on the user's scale.

        `answering` is the index of the stage that answers each sample, the number of stages for the person.
        `stage_losses` holds by stage one loss per sample, whether it answers or not. `person` is the person's loss, a
        number or one per sample; None: the mean stated in calibration. Raises ShapeError for another number of losses,
        of a stage or of the person. Losses of answers that are not given are not read, and may be NaN.
        """
        _, stated_loss = self.person
        person_loss = stated_loss if person is None else to_host(person)
        # the person's at first; then, for each stage, that of the samples which it answers
        try:
            loss_of_answer = np.broadcast_to(np.asarray(person_loss, dtype=np.float64), answering.shape)
        except ValueError as error:
            shapes = f"got shapes {np.shape(person_loss)} and {answering.shape}"
            raise ShapeError(f"Cascade.check: `person` needs one loss per sample, {shapes}.") from error
        for stage, name in enumerate(self.names):
            loss = np.asarray(to_host(stage_losses[name]), dtype=np.float64)
            if loss.shape != answering.shape:
                rule = f"stage {name!r} needs one loss per sample"
                raise ShapeError(f"Cascade.check: {rule}, got shapes {loss.shape} and {answering.shape}.")
            loss_of_answer = np.where(answering == stage, loss, loss_of_answer)
        return loss_of_answer

    def as_threshold(self) -> Threshold:
        """The same promise as a `Threshold`, so that it is monitored by the same code.

        The confidence of a sample is the number of stages from the one that answered it to the end: K for the first
        of K stages, 1 for the last, 0 for the person. The threshold is 1, so that every answer of a stage counts as
        accepted, or 0 if the promise includes the person's answers.

        The result serves for checks of later samples alone. These do not read the table of candidates and the coverage
        interval, which say nothing here. `method="ltt"` means that the promise is about the mean loss of the accepted
        samples. The cut states float64 and no ties, so that these whole numbers are compared exactly; `rejected` is not
        read then. In the reference, each of these confidences stands with the number of calibration samples at or above
        it; confidences must fall, and counts may repeat, as after a stage that answers nothing. Without thresholds
        nothing is certified: the value is None, and a check refuses such a rule. `zero_one` says that every loss is one
        of the two in `bounded`. `shares` holds by stage, and then for the person, the share of the `n` calibration
        samples that it answers; `promise` is "answered" or "system".
        """
        # of calibration samples, in the order in which the answerers are asked; n times a share is a whole number
        answered_so_far = np.cumsum([round(self.n * self.shares[name]) for name in (*self.names, PERSON)])
        # in the same order: K for the first, 0 for the person
        stages_left = np.arange(len(self.names), -1, -1.0)
        # False for the first stages if they answer nothing: the reference begins at the largest confidence that occurs
        has_samples = answered_so_far > 0
        value = 0.0 if self.promise == "system" else 1.0
        # what a cascade and a threshold have in common: target, delta, n, coverage, risk, guarantee, ...
        promise_fields: Any = {f.name: getattr(self, f.name) for f in fields(Promised)}
        empty_columns = {f.name: np.zeros(0) for f in fields(Candidates)}
        return Threshold(
            value=None if self.thresholds is None else value,
            form="risk",
            method="ltt",
            coverage_interval=(0.0, 1.0),
            evidence=PromiseBasis(zero_one=self.zero_one),
            # of the numbers of stages left: "own" numbers, of no score with a name
            cut=Cut(
                accepted=value,
                rejected=None,
                tied=False,
                source="own",
                score=None,
                dtype="float64",
                precision="float64",
                classes=None,
                lowest=0.0,
                highest=float(len(self.names)),
            ),
            table=Candidates(**empty_columns),
            reference=Reference(
                value=stages_left[has_samples], at_least=answered_so_far[has_samples], n=self.n
            ),
            **promise_fields,
        )

    def answers(
        self,
        name: str,
        /,
        confidence: ArrayLike | None = None,
        *,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        score: ScoreName | None = None,
        units: Units | None = None,
        abstained: ArrayLike | None = None,
    ) -> np.ndarray:
        """Return True for each sample that the stage called `name` answers if it is asked.

        Give one of `confidence`, `logits` and `probs`. Confidences of a score that saturates need `units`: "plain" for
        the number people know, "key" for what `abstain.scores` returns. A `score`, if named, must be that of the stage.
        A confidence of NaN or minus infinity, or True in `abstained`, is no answer. Raises InputError for an unknown
        stage and for numbers that cannot be those of its score, ShapeError for another length of `abstained`. A score
        saturates if it rounds to its largest value, such as 1, for many samples.
        """
        check_choice("Cascade", "stage", name, self.names)  # raises for an unknown stage
        # `_read_stage` raises unless exactly one of the three arrays is given
        columns = {"confidence": confidence, "logits": logits, "probs": probs, "units": units, "score": score}
        confidences = self._read_stage(name, columns, abstained)  # NaN where the stage gives no answer
        # True where the confidence reaches the threshold; nowhere for a stage that is never asked, and not for NaN
        return self._accepted_by(name, confidences)

    def _accepted_by(self, name: str, confidences: CheckedConfidences) -> np.ndarray:
        """Return True for each sample that this stage answers, by its confidences (NaN: no answer)."""
        threshold = (self.thresholds or {}).get(name)
        return self.cuts[name].decide(f"Cascade: stage {name!r}", confidences, threshold)

    def _read_stage(
        self, name: str, columns: Mapping[str, Any], abstained: ArrayLike | None
    ) -> CheckedConfidences:
        """Read the confidences of later samples at one stage; NaN where it gives no answer.

        `columns` holds an array as "confidence", "logits" or "probs" (the others may be None), and perhaps "units"
        ("plain" or "key") and "score". `abstained` marks samples without an answer; None: no marks. Raises InputError
        for numbers that cannot be those of the stage, ShapeError unless `abstained` has one mark per sample. `cuts`
        knows by stage the score, the unit and the precision of the calibration confidences.
        """
        title = f"Cascade: stage {name!r}"
        confidences = self.cuts[name].read(title, **columns)  # raises if they cannot be those of this stage
        # a confidence of minus infinity is no answer
        values = np.where(np.isneginf(confidences.values), np.nan, confidences.values)  # a copy
        if abstained is not None:
            if np.shape(to_host(abstained)) != values.shape:
                shapes = f"got shapes {np.shape(to_host(abstained))} and {values.shape}"
                raise ShapeError(f"{title}: `abstained` needs one mark per sample, {shapes}.")
            without_answer = check_mask(title, "abstained", backend_of(values), to_host(abstained), values)
            values = np.where(without_answer, np.nan, values)
        return confidences._replace(values=values)

    def _find_answering_stage(self, confidences: Mapping[str, CheckedConfidences]) -> np.ndarray:
        """Index of the stage that answers each sample; the number of stages given where none does.

        `confidences` are those of the first stages, in their order; NaN where a stage gives no answer.
        """
        return first_stage_that_answers([self._accepted_by(name, read) for name, read in confidences.items()])

    def _read_stages(
        self, columns: dict[str, Any], abstained: ByStage | None, scores: ByStage | None, units: Units | None
    ) -> dict[str, CheckedConfidences]:
        """Read the confidences of later samples by stage, in the order of the stages; NaN where one gives no answer.

        `columns` maps "confidence", "logits" and "probs" to a dict by stage, or None; each stage is in one of them.
        `abstained` holds by stage a mask of the samples without an answer, `scores` the learned confidence of stages
        that were calibrated with one; both may be None or lack stages. `units`, "plain" or "key", are those of
        confidences that a score with a name computed. Raises InputError if the stages given are not the first ones of
        this cascade, ShapeError if their arrays differ in length.

        `cuts` holds by stage the two calibration confidences next to its threshold, and which numbers they are:
        `has_own_numbers` means those of no score with a name, which have one unit only.
        """
        # pairs of a stage and "confidence", "logits" or "probs"; a stage given twice is listed twice, and refused
        kind_of_stage: list[tuple[str, str]] = []
        for kind, column_of_stage in columns.items():
            if column_of_stage is not None and not isinstance(column_of_stage, Mapping):
                raise InputError(
                    f"Cascade: takes a dict of {kind} by stage ({', '.join(self.names)}), got "
                    f"{type(column_of_stage).__name__}."
                )
            kind_of_stage += [(name, kind) for name in column_of_stage or {}]
        # so many stages were given, and they must be the first ones
        stages_given = self.names[: len(kind_of_stage)]
        if not stages_given or sorted(name for name, _ in kind_of_stage) != sorted(stages_given):
            stages = ", ".join(str(name) for name, _ in kind_of_stage) or "none"
            raise InputError(
                f"Cascade: needs the confidences of {', '.join(self.names)}, or of the first of them, got {stages}."
            )
        no_answer_by_stage = check_by_stage("Cascade", "abstained", abstained, self.names)
        kinds = dict(kind_of_stage)  # by stage: "confidence", "logits" or "probs"
        read = {}
        for name in stages_given:
            kind = kinds[name]
            arguments: Any = {kind: columns[kind][name]}
            if kind == "confidence" and not self.cuts[name].has_own_numbers:
                arguments["units"] = units
            if scores is not None:
                arguments["score"] = scores.get(name)  # None: the score of the stage
            without_answer = no_answer_by_stage.get(name)
            # in float64, with their unit and precision; NaN where the stage gives no answer
            read[name] = self._read_stage(name, arguments, without_answer)
        shapes = [confidences.values.shape for confidences in read.values()]
        if len(set(shapes)) > 1 or len(shapes[0]) != 1:
            listed = ", ".join(map(str, shapes))
            raise ShapeError(f"Cascade: confidences must be vectors of one length, got shapes {listed}.")
        return read

    def _rules(self) -> dict[str, Any]:
        """Return each rule that a stored cascade must keep, as the message to show, and whether it keeps it.

        `references` holds by stage in use some calibration confidences, falling, and how many samples lie at or above
        each. `origins` holds by stage where its calibration data came from, where that was stated. A promise about some
        answers only has their number in `counted_answers`, all others None. `group_count` is the number of groups in
        which the promise holds, None without groups. `clusters` is the number of calibration clusters, `largest` the
        samples of the largest; both None without clusters. Later rules look up every stage by name, so they are left
        out if a stage is missing. The caller raises DataError with the message of the first rule that is not kept.
        `feasible` says whether a cascade was certified. `zero_one` says that every loss is one of the two in
        `bounded`. `target` is the promised risk; `risk`, that on the calibration samples, `risk_upper` (the target
        again) and `guarantee` are None without a cascade.
        """
        least_loss, largest_loss = self.bounded  # the bounds of the losses
        feasible = self.feasible
        # {True} or {False} if these fields are given together, as they must be
        has_promise_field = {value is not None for value in (self.risk, self.risk_upper, self.guarantee)}
        # by stage; None for each if no cascade keeps the promise
        thresholds = self.thresholds or dict.fromkeys(self.names)
        is_by_stage = tuple(self.cuts) == self.names and tuple(thresholds) == self.names
        if not is_by_stage or tuple(self.shares) != (*self.names, PERSON):
            return {"`thresholds`, `cuts` and `shares` must be by stage.": False}
        # a stage that is never asked has a threshold of infinity, and a cut without a threshold
        value_of_cut = {name: None if value == math.inf else value for name, value in thresholds.items()}
        # how many of the n samples each stage and the person answer
        sample_counts = [share * self.n for share in self.shares.values()]
        promise = None
        if feasible:
            promise = state_guarantee(
                n=self.n,
                risk=self.target,
                delta=self.delta,
                promise=self.promise,
                error_rate=self.zero_one and self.bounded == (0.0, 1.0),
                is_about_some=self.counted_answers is not None,
                group_count=self.group_count,
                largest=self.largest,
            )
        return {
            "`origins` must be by stage.": set(self.origins) <= set(self.names),
            "`references` must fall and count up to `n`.": set(self.references) <= set(self.names)
            and all(reference.is_consistent(self.n) for reference in self.references.values()),
            "`shares` must add up to 1.": abs(sum(self.shares.values()) - 1) < 1e-9,
            "`shares` must count whole samples of `n`.": all(
                abs(count - round(count)) < 1e-6 for count in sample_counts
            ),
            "`coverage` must be the share of the stages.": abs(self.coverage + self.shares[PERSON] - 1)
            < 1e-9,
            # a cut holds the lowest accepted and the highest rejected confidence: its threshold must lie between them
            "`cuts` must be those of `thresholds`.": all(
                cut.is_consistent(value_of_cut[name]) for name, cut in self.cuts.items()
            ),
            "`counted_answers` must be at most `n`.": (self.counted_answers or 0) <= self.n,
            "`target` must lie inside `bounded`.": least_loss < self.target < largest_loss,
            "risk and guarantee must come with thresholds.": has_promise_field == {feasible},
            "`guarantee` must say what these numbers promise.": self.guarantee == promise,
            "`note` must be that of these numbers.": self.note == self.write_note(),
            "`risk_upper` must be the `target`.": self.risk_upper in (None, self.target),
            "`clusters` and `largest` must come together.": (self.clusters is None) == (self.largest is None),
        }

    def write_note(self) -> str:
        """Write the remarks on this cascade from its stored numbers; empty if there is nothing to say.

        They say why there is no cascade, or why a single stage was chosen; whether a person alone would be cheaper;
        and whether the grid was coarsened. Stored cascades are checked by writing the note again.

        `alternatives` is None unless a single stage was chosen where there are several. `grid` is the number of
        thresholds tried at each stage, None if as many were tried as asked for. `person` is (cost, loss), as stated.
        All costs are per sample; `cost` is that of this cascade, with the person's part in it. Changing a word makes
        stored cascades unreadable. A policy is one threshold per stage.
        """
        sentences = []
        if not self.feasible:
            sentences.append(NOTHING_CERTIFIED)
        elif self.alternatives is not None:  # a single stage was chosen: why no cascade of several?
            # the least cost of any policy, and of one that asks a single stage, by these data
            best_cost, single_stage_cost = self.alternatives
            # `WORTHWHILE_COST_SHARE`: a cascade is worth its trouble if it costs at most this share of a single stage
            if best_cost <= WORTHWHILE_COST_SHARE * single_stage_cost:
                why = "no cascade was certified that costs less"  # one would, but needs more samples for its test
            else:
                why = "no cascade can help here"
            costs = (
                f"the best policy of this risk costs about {best_cost:.4g}, "
                f"the best single stage {single_stage_cost:.4g}"
            )
            sentences.append(f"{self.stages_in_use[0]!r} alone: {why}. By these data {costs}.")
        person_cost, _person_loss = self.person
        if self.feasible and self.cost > person_cost:
            sentences.append(f"Leaving everything to the person would cost less: {person_cost:.4g}.")
        if self.grid is not None:  # fewer thresholds were tried than asked for
            coarse = f"The grid was coarsened to {self.grid} thresholds by stage"
            sentences.append(f"{coarse}, for at most {MAX_POLICIES:,} policies.")
        return " ".join(sentences)

    def _facts(self) -> dict[str, str]:
        """Return the texts that the repr shows, by heading; only the request if there is no cascade (no thresholds)."""
        request = {"asked for": f"risk {self.target:g} of {PROMISES[self.promise]}"}
        if self.thresholds is None:
            return request
        risk = {"risk": f"{self.risk:.4g}  (at most {self.risk_upper:.4g})"}
        return request | risk | dict(self.facts_of_use())

    def facts_of_use(self) -> list[tuple[str, str]]:
        """Return the cost per sample with its interval, the coverage, and who answers: a heading and a text of each."""
        low, high = self.cost_interval
        answered_by = ", ".join(f"{answerer} {share:.1%}" for answerer, share in self.shares.items())
        return [
            ("cost", f"{self.cost:.4g}  [{low:.4g}, {high:.4g}]  {self.unit}".strip()),
            ("coverage", f"{self.coverage:.4f}"),
            ("answered by", answered_by),
        ]


def state_guarantee(
    *,
    n: int,
    risk: float,
    delta: float,
    promise: Promise,
    error_rate: bool,
    is_about_some: bool,
    group_count: int | None,
    largest: float | None,
) -> str:
    """Write the sentence that states what a cascade promises.

    `risk` is on the user's scale, and `error_rate` says whether to call it an error rate or a mean loss. `promise` is
    "answered" (about what the stages answer) or "system" (about all answers). `is_about_some` says that the promise is
    about some of these answers only. `group_count` is None without groups, `largest`, the size of the largest cluster,
    None without clusters. Stored cascades are checked by writing the sentence again, so changing a word makes them
    unreadable. `delta` is the probability with which the promise may fail.
    """
    whose = "what the stages answer"
    if promise == "system":
        whose = "all answers, the person's with the error stated,"
    which = " that it is about" if is_about_some else ""
    which += "" if group_count is None else f", in each of {group_count} groups,"
    # such as "independent draws from one population"
    drawn = state_draws(largest)
    return (
        f"With probability at least {1 - delta:.4g} over the {n} calibration samples, the "
        f"{'error rate' if error_rate else 'mean loss'} of {whose}{which} is at most {risk:.4g}, calibration and "
        f"later data being {drawn}. Nothing is promised about the cost."
    )


def state_draws(largest: float | None) -> str:
    """What a promise assumes of calibration and later data; `largest` is the size of the largest cluster, if any."""
    drawn = "independent draws from one population"
    if largest is None:
        return drawn
    return f"{drawn} by clusters, none of which has more samples than the largest here ({largest:g})"
