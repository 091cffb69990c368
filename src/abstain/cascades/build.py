"""`cascade`: who should answer, at what cost, with a promise on the risk."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from abstain import losses
from abstain._arrays import Array, backend_of, to_host
from abstain._check import check_choice, check_fraction, check_mask
from abstain._stored import Finite, Share, Within
from abstain.cascades import search
from abstain.cascades.search import CUTS, MOST, Setting, answerer, first_answer
from abstain.core.sorting import is_zero_one
from abstain.errors import InputError, ShapeError
from abstain.inference import interval
from abstain.metrics._sample import group_codes
from abstain.thresholds.calibration import Advice, Candidates, bisect, calibrate
from abstain.thresholds.cut import STORABLE, Cut, Readings, Units, cut_between, read_confidences
from abstain.thresholds.monitoring import Check, Reference
from abstain.thresholds.promise import Evidence
from abstain.thresholds.record import (
    RecordParts,
    assumptions_of,
    facts_as_list,
    largest_cluster,
    voids_of,
)
from abstain.thresholds.rules import Origin, Promised, Threshold

PERSON = "person"
_NAME = "cascade"
_LEVEL = 0.95  # of the interval of the cost
_TOP = 0.999  # the largest risk asked for, on the scale [0, 1], where a smaller one cannot be certified
_STAGES = 19  # as many leave a grid of a million policies two of each stage
Promise = Literal["answered", "system"]
ByStage = Mapping[str, Any]
Stages = Mapping[str, Any]  # (loss, confidence, cost), or logits, probs, labels, score, cost by name
Person = tuple[float | Array, float | Array]  # cost, error
_Cost = Annotated[float, Within(infinite=True)]


@dataclass(frozen=True, eq=False, repr=False)
class Cascade(Promised):
    """Who answers: the first stage whose confidence reaches its threshold, otherwise a person.

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
    group_count : int or None
        In how many groups the promise holds, where groups were given.
    alternatives : (float, float) or None
        By these data the least cost of any policy of this risk and of a single stage, where a single stage was chosen.
    grid : int or None
        Thresholds tried at each stage, where fewer were allowed than asked for.
    clusters, largest : int, float, or None
        How many clusters there were, and the samples of the largest, where clusters were given.
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
    _number: ClassVar[int] = 2
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
    origins: dict[str, Origin] = field(default_factory=dict)

    @property
    def feasible(self) -> bool:
        """Is there a cascade that keeps the promise?"""
        return self.thresholds is not None

    @property
    def scores(self) -> dict[str, str]:
        """Which score each stage was calibrated with, where it is known."""
        return {name: cut.score for name, cut in self.cuts.items() if cut.score is not None}

    @property
    def asked(self) -> tuple[str, ...]:
        """The stages that may be asked."""
        return tuple(name for name in self.names if (self.thresholds or {}).get(name, math.inf) < math.inf)

    @property
    def rule(self) -> str:
        """What to do with a new sample, in one line."""
        values = {name: (self.thresholds or {})[name] for name in self.asked}
        steps = [k if v == -math.inf else f"{k} if its confidence >= {v!r}" for k, v in values.items()]
        return ", else ".join([*steps, PERSON]) if steps else f"leave everything to the {PERSON}"

    def made_from(self, origins: Mapping[str, Origin]) -> Cascade:
        """The same rule, which now knows the file behind each stage."""
        return replace(self, origins=dict(origins))

    def record_parts(self, saved_as: str) -> RecordParts:
        """What `abstain.thresholds.decision_record` says of it."""
        rule = [f"- Who answers: {self.rule}."]
        if self.feasible:
            low, high = self.cost_interval
            cost = f"cost {self.cost:.4g} [{low:.4g}, {high:.4g}] {self.unit}".strip()
            seen = f"coverage {self.coverage:.4f}, risk {self.risk:.4g}, {cost}, n = {self.n:,}"
            shares = ", ".join(f"{name} {share:.1%}" for name, share in self.shares.items())
            rule += [f"  On the calibration data: {seen}.", f"  Answered by: {shares}."]
        promise = [self.guarantee or "None: this rule promises nothing."]
        if self.note:
            promise.append(f"- Note: {self.note}")
        models = "models"
        assumptions = assumptions_of(self.clusters, models=models)
        if self.clusters is not None:
            assumptions.append(largest_cluster(self.largest))
        if self.promise == "system":
            assumptions.append(f"- The person's mean loss is {self.person[1]:g}, as was stated.")
        files = " ".join(f"later-{name}.csv" for name in self.names)
        return RecordParts(
            title="Decision record: which model answers, and when a person does",
            rule=rule,
            promise=promise,
            data=self._data_lines(),
            assumptions=assumptions,
            voids=voids_of(self.clusters, ", ".join(self.scores.values()) or "the confidences here", models),
            decide=f"abstain cascade {files} --apply {saved_as} --csv -o who.csv",
            check=f"abstain cascade {files} --check {saved_as} --state series.json",
            delta=self.delta,
        )

    def _data_lines(self) -> list[str]:
        """The data behind each stage and behind all of them, for the record."""
        lines = []
        for name in self.names:
            origin = self.origins.get(name, Origin("confidence", score=self.scores.get(name)))
            score = origin.score or "confidences of the user's own"
            known = [
                origin.data,
                origin.sha256 and f"SHA-256 {origin.sha256}",
                origin.loss and f"loss {origin.loss}",
            ]
            text = ", ".join([score, *filter(None, known)])
            lines += facts_as_list({f"stage {name}": text})
        low, high = self.bounded
        first = next(iter(self.origins.values()), Origin("confidence"))
        clusters = self.clusters and f"{self.clusters:,}, the largest of {self.largest:g} samples"
        return lines + facts_as_list(
            {
                "samples": f"{self.n:,}",
                "clusters": clusters,
                "losses": f"between {low:g} and {high:g}",
                "person": f"cost {self.person[0]:g} {self.unit}".strip() + f", mean loss {self.person[1]:g}",
                "asked for": f"risk {self.target:g} of {_WHOSE[self.promise]}, delta {self.delta:g}",
                "command": first.command and f"`{first.command}`",
                "abstain": first.version,
            }
        )

    def decide(
        self,
        confidences: ByStage | None = None,
        *,
        logits: ByStage | None = None,
        probs: ByStage | None = None,
        abstained: ByStage | None = None,
        units: Units | None = None,
    ) -> np.ndarray:
        """Who answers each sample, by name; a NaN is a stage that gave no answer, and passes on.

        Give every stage in one of `confidences`, `logits` and `probs`, each a dict by stage; class scores go to stages
        that know their score. With the first stages only, the samples that these pass on go to the next stage that is
        asked, so that the expensive stages need to see only what reaches them. Confidences of a score that saturates
        need `units`: "plain" or "key", as for `Threshold.accepts`. `abstained` marks samples without an answer.

        >>> import abstain
        >>> rule = abstain.cascade(
        ...     {"a": ([0] * 300, range(300), 1.0), "b": ([0] * 300, range(300), 5.0)}, risk=0.2, person=(9.0, 0.0)
        ... )
        >>> rule.asked, rule.decide({"a": [7.0]}).tolist()
        (('a',), ['a'])
        """
        columns = {"confidence": confidences, "logits": logits, "probs": probs}
        who = self._who(columns, abstained, units)
        order = self.names[: sum(len(column or {}) for column in columns.values())]
        further = [name for name in self.asked if name not in order]
        return np.asarray([*order, *(further[:1] or [PERSON])])[who]

    def check(
        self,
        stages: ByStage,
        /,
        *,
        person: Array = None,
        clusters: Array = None,
        previous: Check | None = None,
        abstained: ByStage | None = None,
        units: Units | None = None,
    ) -> Check:
        """Does the promise still hold on later samples, in the order they came? Anytime-valid, as `Threshold.check`.

        The bet is on the loss of whoever answers; "drift" compares the shares that the stages answer with those of the
        calibration. A promise that holds in every group is checked on the samples of one group at a time.

        Parameters
        ----------
        stages : dict
            (loss, confidence) by name, or what `cascade` took; a confidence of NaN is no answer. For stages that know
            their score also (loss, {"logits": ...}) or (loss, {"probs": ...}).
        person : float or array, optional
            The person's error, where the promise speaks of it and it is not as stated.
        clusters : array, optional
            As in the calibration.
        previous : Check, optional
            The last look of this series.
        abstained : dict, optional
            By stage, where it gave no answer.
        units : {"plain", "key"}, optional
            Of confidences of a score that saturates.

        Returns
        -------
        Check
        """
        if not isinstance(stages, Mapping) or set(stages) != set(self.names):
            names = ", ".join(map(str, stages)) or "none"
            raise InputError(f"Cascade.check: needs every stage ({', '.join(self.names)}), got {names}.")
        columns: dict[str, dict[str, Any]] = {"confidence": {}, "logits": {}, "probs": {}}
        stage_losses = {}
        for name, entry in stages.items():
            title = f"Cascade.check: stage {name!r}"
            if not isinstance(entry, (tuple, list)) or len(entry) < 2:
                raise InputError(f"{title} must be (loss, confidence).")
            stage_losses[name] = np.asarray(to_host(entry[0]), dtype=np.float64)
            values = entry[1] if isinstance(entry[1], Mapping) else {"confidence": entry[1]}
            for kind, array in values.items():
                check_choice(title, "kind", kind, tuple(columns))
                columns[kind][name] = array
        who = self._who(columns, abstained, units)
        for name, loss in stage_losses.items():
            if loss.shape != who.shape:
                rule = f"stage {name!r} needs one loss per sample"
                raise ShapeError(f"Cascade.check: {rule}, got shapes {loss.shape} and {who.shape}.")
        error = self.person[1] if person is None else to_host(person)
        lost = np.broadcast_to(np.asarray(error, dtype=np.float64), who.shape)
        for j, name in enumerate(self.names):
            lost = np.where(who == j, stage_losses[name], lost)
        return self._watch().check(lost, len(self.names) - who, clusters=clusters, previous=previous)

    def _watch(self) -> Threshold:
        """The same promise as a threshold on the place from the end at which a sample was answered, a person's 0."""
        counts = np.cumsum([round(self.n * self.shares[name]) for name in (*self.names, PERSON)])
        places = np.arange(len(self.names), -1, -1.0)
        seen = counts > 0
        value = 0.0 if self.promise == "system" else 1.0
        shared: Any = {f.name: getattr(self, f.name) for f in fields(Promised)}
        return Threshold(
            value=None if self.thresholds is None else value,
            form="risk",
            method="ltt",
            coverage_interval=(0.0, 1.0),
            evidence=Evidence(zero_one=self.zero_one),
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
            table=Candidates(*(np.zeros(0) for _ in fields(Candidates))),
            reference=Reference(places[seen], counts[seen], self.n),
            **shared,
        )

    def answers(
        self,
        name: str,
        /,
        confidence: Array = None,
        *,
        logits: Array = None,
        probs: Array = None,
        score: str | None = None,
        units: Units | None = None,
        abstained: Array = None,
    ) -> np.ndarray:
        """Which samples a stage answers if it is asked; arguments as for `Threshold.accepts`."""
        check_choice("Cascade", "stage", name, self.names)
        cut = self.cuts[name]
        title = f"Cascade: stage {name!r}"
        columns: Any = {"confidence": confidence, "logits": logits, "probs": probs, "units": units}
        readings = cut.read(title, **columns, score=score)
        values = np.where(np.isneginf(readings.values), np.nan, readings.values)
        if abstained is not None:
            if np.shape(to_host(abstained)) != values.shape:
                shapes = f"got shapes {np.shape(to_host(abstained))} and {values.shape}"
                raise ShapeError(f"{title}: `abstained` needs one mark per sample, {shapes}.")
            without_answer = check_mask(title, "abstained", backend_of(values), to_host(abstained), values)
            values = np.where(without_answer, np.nan, values)
        return cut.decide(title, readings._replace(values=values), (self.thresholds or {}).get(name))

    def _who(self, columns: dict[str, Any], abstained: ByStage | None, units: Units | None) -> np.ndarray:
        """Place of the stage that answers; the number of stages given where none does."""
        by_stage = [(name, kind) for kind, column in columns.items() for name in column or {}]
        order = self.names[: len(by_stage)]
        if not order or sorted(name for name, _ in by_stage) != sorted(order):
            stages = ", ".join(str(name) for name, _ in by_stage) or "none"
            raise InputError(
                f"Cascade: needs the confidences of {', '.join(self.names)}, or of the first of them, got {stages}."
            )
        if not set(abstained or {}) <= set(self.names):
            names = ", ".join(map(str, abstained or {}))
            raise InputError(
                f"Cascade: `abstained` must be a dict by stage ({', '.join(self.names)}), got {names}."
            )
        kinds = dict(by_stage)
        answers = []
        for name in order:
            column: Any = {kinds[name]: columns[kinds[name]][name]}
            if kinds[name] == "confidence" and self.cuts[name].source != "own":
                column["units"] = units
            away = None if abstained is None else abstained.get(name)
            answers.append(self.answers(name, **column, abstained=away))
        if len({x.shape for x in answers}) > 1 or answers[0].ndim != 1:
            shapes = ", ".join(str(x.shape) for x in answers)
            raise ShapeError(f"Cascade: confidences must be vectors of one length, got shapes {shapes}.")
        return first_answer(answers)

    def _rules(self) -> dict[str, Any]:
        low, high = self.bounded
        feasible = self.feasible
        comes_with = (self.risk, self.risk_upper, self.guarantee)
        thresholds = self.thresholds or dict.fromkeys(self.names)
        by_stage = tuple(self.cuts) == self.names and tuple(thresholds) == self.names
        if not by_stage or tuple(self.shares) != (*self.names, PERSON):
            return {"`thresholds`, `cuts` and `shares` must be by stage.": False}
        values = {k: None if v == math.inf else v for k, v in thresholds.items()}
        counts = [share * self.n for share in self.shares.values()]
        promise = None
        if feasible:
            promise = _guarantee(
                n=self.n,
                risk=self.target,
                delta=self.delta,
                promise=self.promise,
                error_rate=self.zero_one and self.bounded == (0.0, 1.0),
                group_count=self.group_count,
                largest=self.largest,
            )
        return {
            "`origins` must be by stage.": set(self.origins) <= set(self.names),
            "`shares` must add up to 1.": abs(sum(self.shares.values()) - 1) < 1e-9,
            "`shares` must count whole samples of `n`.": all(abs(x - round(x)) < 1e-6 for x in counts),
            "`coverage` must be the share of the stages.": abs(self.coverage + self.shares[PERSON] - 1)
            < 1e-9,
            "`cuts` must be those of `thresholds`.": all(
                cut.is_consistent(values[name]) for name, cut in self.cuts.items()
            ),
            "`target` must lie inside `bounded`.": low < self.target < high,
            "risk and guarantee must come with thresholds.": {feasible}
            == {x is not None for x in comes_with},
            "`guarantee` must say what these numbers promise.": self.guarantee == promise,
            "`note` must be that of these numbers.": self.note == self._note(),
            "`risk_upper` must be the `target`.": self.risk_upper in (None, self.target),
            "`clusters` and `largest` must come together.": (self.clusters is None) == (self.largest is None),
        }

    def _note(self) -> str:
        """Why there is no cascade, or why a single stage; whether a person alone would be cheaper; the grid."""
        sentences = []
        if not self.feasible:
            sentences.append(_NONE)
        elif self.alternatives is not None:
            best, alone = self.alternatives
            why = (
                "no cascade was certified that costs less"
                if best <= 0.98 * alone
                else "no cascade can help here"
            )
            costs = f"the best policy of this risk costs about {best:.4g}, the best single stage {alone:.4g}"
            sentences.append(f"{self.asked[0]!r} alone: {why}. By these data {costs}.")
        if self.feasible and self.cost > self.person[0]:
            sentences.append(f"Leaving everything to the person would cost less: {self.person[0]:.4g}.")
        if self.grid is not None:
            coarse = f"The grid was coarsened to {self.grid} thresholds by stage"
            sentences.append(f"{coarse}, for at most {MOST:,} policies.")
        return " ".join(sentences)

    def _facts(self) -> dict[str, str]:
        asked = {"asked for": f"risk {self.target:g} of {_WHOSE[self.promise]}"}
        if self.thresholds is None:
            return asked
        low, high = self.cost_interval
        return asked | {
            "risk": f"{self.risk:.4g}  (at most {self.risk_upper:.4g})",
            "cost": f"{self.cost:.4g}  [{low:.4g}, {high:.4g}]  {self.unit}".strip(),
            "coverage": f"{self.coverage:.4f}",
            "answered by": ", ".join(f"{k} {v:.1%}" for k, v in self.shares.items()),
        }


_WHOSE = {"answered": "what the stages answer", "system": "all answers, the person's included"}


def cascade(
    stages: Stages,
    /,
    *,
    risk: float,
    person: Person,
    delta: float = 0.05,
    promise: Promise = "answered",
    bounded: tuple[float, float] = (0, 1),
    abstained: ByStage | None = None,
    clusters: Array | None = None,
    groups: Array | None = None,
    cuts: int = CUTS,
    unit: str = "",
    labels: Array | None = None,
    scores: ByStage | None = None,
    units: Units = "key",
    rng: int | np.random.Generator = 0,
) -> Cascade:
    r"""The cheapest cascade that keeps a promise on the risk; `thresholds` is None when none does.

    Stage j answers when it is asked and its confidence reaches its threshold, else the next is asked; what no stage
    answers goes to a person. Every stage that a sample reaches is paid.

    .. math:: P\left(E[\ell_{J} \mid J \le K] > r\right) \le \delta, \qquad J = \min\{j : g_j \ge t_j\}

    over calibration sets; for `promise="system"` the risk is :math:`E[\ell_J]` with the person as stage K + 1. The data
    must not have been used to train or tune the models or their confidences. Equal confidences are treated alike.

    Parameters
    ----------
    stages : dict
        By name, in the order in which they are asked (the cheapest first), on the same samples. Either class scores,
        {"logits": ..., "cost": ...} or {"probs": ..., "cost": ...}, with "score" where it is not "max_softmax" and
        "loss" where it is not that of `labels`; or (loss, confidence, cost) of your own. A cost is a number or one
        per sample.
    risk : float
        Largest risk.
    person : (cost, error)
        Of who answers what no stage does; numbers or one per sample. Both are stated, not tested.
    delta : float in (0, 1)
        The probability with which the promise may fail.
    promise : {"answered", "system"}
        Whose risk: that of what the stages answer, or of all answers with the person's.
    bounded : (float, float)
        Between which values losses lie, known beforehand. Losses that take these two values only are tested exactly.
    abstained : dict, optional
        By stage, where it gave no answer: such a sample passes on.
    clusters : array, optional
        One label per sample (patient, document): samples of one cluster are not independent.
    groups : array, optional
        One label per sample: the promise then holds in every group.
    cuts : int
        Thresholds to try at each stage; fewer where the grid would have more than a million policies.
    unit : str
        Of the costs; kept with the result.
    labels : array, optional
        True classes, for stages of class scores; their loss is zero_one.
    scores : dict, optional
        The score that the confidences of a stage are of, by stage.
    units : {"key", "plain"}
        Whether confidences with a name in `scores` are the rank keys that `abstain.scores` returns, or plain numbers.
    rng : int or Generator
        How the samples are split: a fifth of them chooses the order in which policies are tested on the others.

    Returns
    -------
    Cascade

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> hard = rng.random(8000)
    >>> small, large = (rng.random(8000) < p * hard for p in (0.5, 0.2))
    >>> rule = cascade({"small": (small, -hard, 1.0), "large": (large, -hard, 10.0)}, risk=0.15, person=(100.0, 0.0))
    >>> rule.asked, rule.risk < 0.15, rule.cost < 10
    (('small', 'large'), True, True)
    >>> logits = rng.normal(size=(1000, 2)) + [9.0, 0.0]
    >>> one = cascade({"one": {"logits": logits, "cost": 1.0}}, labels=[0] * 1000, risk=0.1, person=(50.0, 0.0))
    >>> one.decide(logits={"one": [[9.0, 0.0]]}).tolist()
    ['one']
    """
    level = check_fraction(_NAME, "delta", delta, open_high=True)
    by_sample = {"abstained": abstained, "clusters": clusters, "groups": groups}
    readings = readings_of(_NAME, stages, labels, scores, units)
    entries = {name: stage.entry for name, stage in readings.items()}
    setting = setting_of(_NAME, entries, person, promise, bounded, **by_sample)
    target, seed = setting.calibrations[0].scaled(float(risk)), search.seed_of(rng)
    if not 0 < target < 1:
        raise InputError(f"{_NAME}: `risk` must lie inside bounded={tuple(bounded)}, got {risk!r}.")
    allowed = search.cuts_allowed(setting.stages, cuts)

    def look(at: float) -> list[tuple[float, ...]]:
        return search.certify(setting, at, level, allowed, seed)  # the same split each time

    certified_policies = look(target)
    certified = bool(certified_policies)
    policies = certified_policies or [(math.inf,) * setting.stages]
    chosen = min(policies, key=lambda policy: measure(setting, policy, None).cost)
    measured = measure(setting, chosen, _LEVEL)
    share = np.bincount(answerer(setting.confidence, chosen), minlength=setting.stages + 1) / setting.n
    single = certified and sum(t < math.inf for t in chosen) == 1 < setting.stages
    bounds = (setting.unscaled(0.0), setting.unscaled(1.0))
    largest = None if setting.clusters is None else float(setting.largest)
    group_count = None if setting.groups is None else setting.group_count
    promised = _guarantee(
        n=setting.n,
        risk=float(risk),
        delta=level,
        promise=promise,
        error_rate=setting.zero_one and bounds == (0.0, 1.0),
        group_count=group_count,
        largest=largest,
    )
    rule = Cascade(
        names=setting.names,
        thresholds=dict(zip(setting.names, chosen)) if certified else None,
        target=float(risk),
        delta=level,
        promise=promise,
        n=setting.n,
        risk=measured.risk if certified else None,
        risk_upper=float(risk) if certified else None,
        coverage=measured.coverage,
        cost=measured.cost,
        cost_interval=(measured.cost_low, measured.cost_high),
        shares=dict(zip((*setting.names, PERSON), share.tolist())),
        guarantee=promised if certified else None,
        note=None,
        person=(float(setting.cost[-1].mean()), float(setting.unscaled(setting.loss[-1].mean()))),
        bounded=bounds,
        cuts=_cuts(setting, chosen, readings),
        zero_one=setting.zero_one,
        group_count=group_count,
        alternatives=search.least_costs(setting, target, allowed) if single else None,
        grid=allowed if allowed < cuts else None,
        unit=unit,
        advice=None if certified else _advice(setting, look, target, level),
        clusters=None if setting.clusters is None else int(setting.clusters.max()) + 1,
        largest=largest,
    )
    return replace(rule, note=rule._note())


class Stage(NamedTuple):
    """What one stage was given as: its confidences, their score, and (loss, confidence, cost)."""

    readings: Readings
    score: str | None
    entry: tuple[Array, Array, Any]


def readings_of(
    name: str, stages: Stages, labels: Array, scores: ByStage | None, units: Units
) -> dict[str, Stage]:
    """Confidences of every stage, computed from class scores where these are given."""
    if not isinstance(stages, Mapping) or not 0 < len(stages) <= _STAGES:
        rule = f"`stages` must be a dict of 1 to {_STAGES} stages, (loss, confidence, cost) by name"
        raise InputError(f"{name}: {rule}.")
    if PERSON in stages or not all(isinstance(s, str) for s in stages):
        raise InputError(f"{name}: stages must be named by words other than {PERSON!r}.")
    stated = dict(scores or {})
    if not set(stated) <= set(stages):
        raise InputError(f"{name}: `scores` must be a dict by stage, got {', '.join(map(str, stated))}.")
    result = {}
    for stage, entry in stages.items():
        title = f"{name}: stage {stage!r}"
        if isinstance(entry, Mapping):
            result[stage] = _stage_of_classes(title, entry, labels, stated.get(stage))
            continue
        loss, confidence, cost = _parts(title, "(loss, confidence, cost)", entry, 3)
        score = stated.get(stage)
        if score is not None:
            check_choice(title, "scores", score, STORABLE)
        readings = read_confidences(title, score, confidence=confidence, units=units if score else None)
        result[stage] = Stage(readings, score, (loss, confidence, cost))
    return result


def _stage_of_classes(title: str, entry: Mapping[str, Any], labels: Array, score: str | None) -> Stage:
    unknown = set(entry) - {"logits", "probs", "cost", "score", "loss"}
    if unknown or "cost" not in entry:
        wrong = f"got {', '.join(map(str, entry)) or 'nothing'}"
        raise InputError(f'{title} must hold "cost", "logits" or "probs" (and "score", "loss"), {wrong}.')
    if labels is None and "loss" not in entry:
        raise InputError(f"{title} has class scores: give `labels=`, or its own loss.")
    score = entry.get("score") or score or "max_softmax"
    columns: Any = {kind: entry.get(kind) for kind in ("logits", "probs")}
    readings = read_confidences(title, score, **columns)
    loss = entry.get("loss")
    if loss is None:
        loss = losses.zero_one(columns["logits"], labels, probs=columns["probs"])
    return Stage(readings, score, (loss, readings.values, entry["cost"]))


def _cuts(setting: Setting, policy: tuple[float, ...], stages: dict[str, Stage]) -> dict[str, Cut]:
    """Between which calibration samples each threshold lies."""
    cuts = {}
    for name, threshold, cal, confidence in zip(
        setting.names, policy, setting.calibrations, setting.confidence
    ):
        accepted = int(np.count_nonzero((confidence >= threshold) & (confidence > -math.inf)))
        cuts[name] = cut_between(cal.ranked, accepted or None, stages[name].readings, stages[name].score)
    return cuts


def setting_of(
    name: str, stages: Stages, person: Person, promise: str, bounded: tuple[float, float], **labels: Any
) -> Setting:
    """Check everything once."""
    check_choice(name, "promise", promise, tuple(_WHOSE))
    away = labels.get("abstained") or {}
    if not set(away) <= set(stages):
        raise InputError(f"{name}: `abstained` must be a dict by stage, got {', '.join(map(str, away))}.")
    losses, confidences, costs, calibrations = [], [], [], []
    like: Any = None
    for stage, entry in stages.items():
        loss, confidence, cost = _parts(f"{name}: stage {stage!r}", "(loss, confidence, cost)", entry, 3)
        l, g = np.asarray(to_host(loss)), np.asarray(to_host(confidence))
        like = l if like is None else like
        if l.ndim != 1 or l.shape != like.shape or g.shape != like.shape:
            told = f"got {l.shape} and {g.shape} for {stage!r}, {like.shape} for the first"
            raise ShapeError(f"{name}: all stages need one loss and one confidence per sample, {told}.")
        given = np.ones(len(l), dtype=bool)
        if stage in away:
            given = ~check_mask(name, f"abstained[{stage!r}]", backend_of(l), to_host(away[stage]), l)
        cal: Any = calibrate(f"{name}: stage {stage!r}", l[given], g[given], None, bounded)
        calibrations.append(cal)
        losses.append(np.where(given, cal.scaled(l.astype(np.float64)), 0.0))
        confidences.append(np.where(given, g, -math.inf).astype(np.float64))
        costs.append(_per_sample(f"{name}: the cost of {stage!r}", cost, like))
    person_cost, person_error = _parts(f"{name}: `person`", "(cost, error)", person, 2)
    costs.append(_per_sample(f"{name}: the person's cost", person_cost, like))
    errors = _per_sample(f"{name}: the person's error", person_error, like, cal.low, cal.high)
    losses.append(cal.scaled(errors))
    system = promise == "system"
    zero_one = all(map(is_zero_one, losses if system else losses[:-1]))
    setting = Setting(tuple(stages), losses, confidences, costs, calibrations, system, zero_one)
    if labels.get("clusters") is not None:
        codes = group_codes(name, labels["clusters"], like.shape, "clusters")[1]
        setting = replace(setting, clusters=codes, largest=int(np.bincount(codes).max()))
    if labels.get("groups") is not None:
        known, codes = group_codes(name, labels["groups"], like.shape)
        setting = replace(setting, groups=codes, group_count=len(known))
    return setting


def _parts(what: str, rule: str, entry: Any, count: int) -> Any:
    if not isinstance(entry, (tuple, list)) or len(entry) != count:
        raise InputError(f"{what} must be {rule}.")
    return entry


def _per_sample(what: str, x: Any, like: np.ndarray, low: float = 0.0, high: float = math.inf) -> np.ndarray:
    """A number or one per sample, finite and within bounds."""
    try:
        values = np.broadcast_to(np.asarray(to_host(x), dtype=np.float64), like.shape)
    except (TypeError, ValueError):
        raise ShapeError(f"{what} must be a number or one per sample, got {np.shape(x)}.") from None
    if not (np.isfinite(values).all() and values.min() >= low and values.max() <= high):
        raise InputError(f"{what} must be finite and between {low:g} and {high:g}.")
    return values


class Measured(NamedTuple):
    """Of a policy on some samples; intervals are NaN where none was asked for."""

    cost: float
    cost_low: float
    cost_high: float
    risk: float  # NaN where nothing is answered
    risk_low: float
    risk_high: float
    coverage: float


def measure(setting: Setting, policy: tuple[float, ...], level: float | None) -> Measured:
    """Cost and risk with their intervals, and coverage."""
    who = answerer(setting.confidence, policy)
    spoken = setting.spoken(who)
    codes = setting.clusters
    of_cost = mean_of(setting.spent(who, policy), codes, level)
    some = None if codes is None else codes[spoken]
    of_risk = mean_of(setting.unscaled(setting.lost(who)[spoken]), some, level)
    return Measured(*of_cost, *of_risk, float((who < setting.stages).mean()))


def mean_of(values: np.ndarray, clusters: Array, level: float | None) -> tuple[float, float, float]:
    """A mean over samples; a constant has no spread."""
    if level is None or len(values) < 2:
        return float(values.mean()) if len(values) else math.nan, math.nan, math.nan
    if (values == values[0]).all():
        return (float(values[0]),) * 3
    found = interval("risk", values, values, clusters=clusters, level=level)
    return found.estimate, found.low, found.high


def _guarantee(
    *,
    n: int,
    risk: float,
    delta: float,
    promise: Promise,
    error_rate: bool,
    group_count: int | None,
    largest: float | None,
) -> str:
    """The promise of a cascade that exists."""
    whose = "what the stages answer"
    if promise == "system":
        whose = "all answers, the person's with the error stated,"
    where = "" if group_count is None else f", in each of {group_count} groups,"
    drawn = "independent draws from one population"
    if largest is not None:
        drawn += f" by clusters, none of which has more samples than the largest here ({largest:g})"
    return (
        f"With probability at least {1 - delta:.4g} over the {n} calibration samples, the "
        f"{'error rate' if error_rate else 'mean loss'} of {whose}{where} is at most {risk:.4g}, calibration and "
        f"later data being {drawn}. Nothing is promised about the cost."
    )


_NONE = "No cascade and no single stage can be certified at this risk and delta with these data."


def _advice(setting: Setting, look: Callable[[float], Any], target: float, delta: float) -> Advice:
    """The least risk that passes, and about how many samples the best policy seen would need."""
    risk = coverage = samples = None
    if look(_TOP):
        reached = bisect(lambda at: bool(look(at)), target, _TOP, relative=0.1)
        coverage = max(measure(setting, policy, None).coverage for policy in look(reached))
        risk = setting.unscaled(reached)
    grid = search.cuts_of(setting, search.cuts_allowed(setting.stages, 10))
    z = search.expected_z(setting, grid, target, setting.n).max()
    if z > 0:
        wanted = 2 * math.log(2 / delta)  # more than the square of the normal quantile at half of delta
        samples = max(setting.n + 1, int(float(f"{setting.n * wanted / z**2:.1e}")))
    return Advice(risk, coverage, samples)
