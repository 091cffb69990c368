"""`cascade`: who should answer, at what cost, with a promise on the risk."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np

from abstain._arrays import Array, backend_of, to_host
from abstain._check import check_choice, check_fraction, check_mask
from abstain._stored import Finite, Share, Within
from abstain.cascades import search
from abstain.cascades.search import CUTS, MOST, Setting, answerer
from abstain.core.sorting import is_zero_one
from abstain.errors import InputError, ShapeError
from abstain.inference import interval
from abstain.metrics._sample import group_codes
from abstain.scores import display
from abstain.thresholds.calibration import Advice, Candidates, bisect, calibrate
from abstain.thresholds.monitoring import Check, Reference
from abstain.thresholds.threshold import Promised, Threshold, Units

PERSON = "person"
_NAME = "cascade"
_LEVEL = 0.95  # of the interval of the cost
_TOP = 0.999  # the largest risk asked for, on the scale [0, 1], where a smaller one cannot be certified
_STAGES = 19  # as many leave a grid of a million policies two of each stage
Promise = Literal["answered", "system"]
ByStage = Mapping[str, Any]
Stages = Mapping[str, tuple[Array, Array, Any]]  # loss, confidence, cost
Person = tuple[float | Array, float | Array]  # cost, error


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
    scores : dict
        Which confidence each stage was calibrated with, where that was said.
    clusters, largest : int, float, or None
        How many clusters there were, and the samples of the largest, where clusters were given.

    Examples
    --------
    >>> import abstain
    >>> g = [i / 200 for i in range(200)]
    >>> rule = abstain.cascade({"only": ([x < 0.1 for x in g], g, 1.0)}, risk=0.2, person=(10.0, 0.0))
    >>> rule.decide({"only": [0.9, float("nan")]}).tolist()
    ['only', 'person']
    """

    _noun: ClassVar[str] = "a stored cascade"
    _none: ClassVar[str] = "none keeps the promise"

    names: tuple[str, ...]
    thresholds: dict[str, Annotated[float, Within(infinite=True)]] | None
    promise: Promise
    cost: Finite
    cost_interval: tuple[Finite, Finite]
    shares: dict[str, Share]
    person: tuple[Finite, Finite]
    unit: str = ""
    scores: dict[str, str] = field(default_factory=dict)

    @property
    def feasible(self) -> bool:
        """Is there a cascade that keeps the promise?"""
        return self.thresholds is not None

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

    def decide(self, confidences: ByStage, *, units: Units = "key") -> np.ndarray:
        """Who answers each sample, by name; a NaN is a stage that gave no answer, and passes on.

        With the confidences of the first stages only, the samples that these pass on go to the next stage that is
        asked, so that the dear stages need to see only what reaches them. Confidences are the numbers that the cascade
        was made from (of a score of `abstain.scores` its rank key), or with `units="plain"` the probabilities and
        margins that people know, for the stages whose `scores` are known.

        >>> import abstain
        >>> rule = abstain.cascade(
        ...     {"a": ([0] * 300, range(300), 1.0), "b": ([0] * 300, range(300), 5.0)}, risk=0.2, person=(9.0, 0.0)
        ... )
        >>> rule.asked, rule.decide({"a": [7.0]}).tolist()
        (('a',), ['a'])
        """
        who = self._who(confidences, units)
        order = self.names[: len(confidences)]
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
    ) -> Check:
        """Does the promise still hold on later samples, in the order they came? Anytime-valid, as `Threshold.check`.

        The bet is on the loss of whoever answers; "drift" compares the shares that the stages answer with those of the
        calibration. A promise that holds in every group is checked on the samples of one group at a time.

        Parameters
        ----------
        stages : dict
            (loss, confidence) by name, or what `cascade` took; a confidence of NaN is no answer.
        person : float or array, optional
            The person's error, where the promise speaks of it and it is not as stated.
        clusters : array, optional
            As in the calibration.
        previous : Check, optional
            The last look of this series.

        Returns
        -------
        Check
        """
        who = self._who({name: entry[1] for name, entry in stages.items()})
        error = self.person[1] if person is None else to_host(person)
        lost = np.broadcast_to(np.asarray(error, dtype=np.float64), who.shape)
        for j, name in enumerate(self.names):
            lost = np.where(who == j, np.asarray(to_host(stages[name][0]), dtype=np.float64), lost)
        return self._watch().check(lost, len(self.names) - who, clusters=clusters, previous=previous)

    def _watch(self) -> Threshold:
        """The same promise as a threshold on the place from the end at which a sample was answered, a person's 0."""
        counts = np.cumsum([round(self.n * self.shares[name]) for name in (*self.names, PERSON)])
        places = np.arange(len(self.names), -1, -1.0)
        some = counts > 0
        own: Any = {f.name: getattr(self, f.name) for f in fields(Promised)}
        return Threshold(
            value=None if self.thresholds is None else 0.0 if self.promise == "system" else 1.0,
            form="risk",
            method="ltt",
            coverage_interval=(0.0, 1.0),
            table=Candidates(*(np.zeros(0) for _ in fields(Candidates))),
            reference=Reference(places[some], counts[some], self.n),
            **own,
        )

    def _who(self, confidences: ByStage, units: Units = "key") -> np.ndarray:
        """Place of the stage that answers; the number of stages given where none does."""
        check_choice("Cascade", "units", units, get_args(Units))
        order = self.names[: len(confidences)]
        if not order or set(confidences) != set(order):
            told = f"{', '.join(self.names)}, or of the first of them, got {', '.join(map(str, confidences)) or 'none'}"
            raise InputError(f"Cascade: needs the confidences of {told}.")
        g = [np.asarray(to_host(confidences[name]), dtype=np.float64) for name in order]
        if len({x.shape for x in g}) > 1 or g[0].ndim != 1:
            shapes = ", ".join(str(x.shape) for x in g)
            raise ShapeError(f"Cascade: confidences must be vectors of one length, got shapes {shapes}.")
        values = [(self.thresholds or {}).get(name, math.inf) for name in order]
        if units == "plain":
            named = zip(values, (self.scores.get(name) for name in order))
            values = [float(display(score, v)) if score and math.isfinite(v) else v for v, score in named]
        return answerer(g, values)

    def _rules(self) -> dict[str, Any]:
        low, high = self.bounded
        some, beside = self.feasible, (self.risk, self.risk_upper, self.guarantee)
        return {
            "`thresholds` must be by stage.": not some or tuple(self.thresholds or ()) == self.names,
            "`shares` must be by stage.": tuple(self.shares) == (*self.names, PERSON),
            "`shares` must add up to 1.": abs(sum(self.shares.values()) - 1) < 1e-9,
            "`scores` must be by stage.": set(self.scores) <= set(self.names),
            "`target` must lie inside `bounded`.": low < self.target < high,
            "risk and guarantee must come with thresholds.": {some} == {x is not None for x in beside},
            "`guarantee` must speak of `target` and `delta`.": self._speaks_of(self.target, 1 - self.delta),
            "`risk_upper` must be the `target`.": self.risk_upper in (None, self.target),
        }

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
    scores: ByStage | None = None,
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
        By name, in the order in which they are asked (the cheapest first): loss, confidence and cost on the same
        samples. A cost is a number or one per sample.
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
    scores : dict, optional
        Name of each stage's confidence score; kept with the result.
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
    """
    level = check_fraction(_NAME, "delta", delta, open_high=True)
    labels = {"abstained": abstained, "clusters": clusters, "groups": groups}
    setting = setting_of(_NAME, stages, person, promise, bounded, **labels)
    target, seed = setting.calibrations[0].scaled(float(risk)), search.seed_of(rng)
    if not 0 < target < 1:
        raise InputError(f"{_NAME}: `risk` must lie inside bounded={tuple(bounded)}, got {risk!r}.")
    allowed = search.cuts_allowed(setting.stages, cuts)

    def look(at: float) -> list[tuple[float, ...]]:
        return search.certify(setting, at, level, allowed, seed)  # the same split each time

    found = look(target)
    policies = found or [(math.inf,) * setting.stages]
    chosen = min(policies, key=lambda policy: measure(setting, policy, None).cost)
    own, certified = measure(setting, chosen, _LEVEL), bool(found)
    told = [_why(setting, chosen, own.cost, target, allowed) if certified else _NONE]
    if allowed < cuts:
        coarse = f"The grid was coarsened to {allowed} thresholds by stage"
        told.append(f"{coarse}, for at most {MOST:,} policies.")
    share = np.bincount(answerer(setting.confidence, chosen), minlength=setting.stages + 1) / setting.n
    return Cascade(
        names=setting.names,
        thresholds=dict(zip(setting.names, chosen)) if certified else None,
        target=float(risk),
        delta=level,
        promise=promise,
        n=setting.n,
        risk=own.risk if certified else None,
        risk_upper=float(risk) if certified else None,
        coverage=own.coverage,
        cost=own.cost,
        cost_interval=(own.cost_low, own.cost_high),
        shares=dict(zip((*setting.names, PERSON), share.tolist())),
        guarantee=_guarantee(setting, float(risk), level) if certified else None,
        note=" ".join(filter(None, told)),
        person=(float(setting.cost[-1].mean()), float(setting.unscaled(setting.loss[-1].mean()))),
        bounded=(setting.unscaled(0.0), setting.unscaled(1.0)),
        unit=unit,
        scores=dict(scores or {}),
        advice=None if certified else _advice(setting, look, target, level),
        clusters=None if setting.clusters is None else int(setting.clusters.max()) + 1,
        largest=None if setting.clusters is None else float(setting.largest),
    )


def setting_of(
    name: str, stages: Stages, person: Person, promise: str, bounded: tuple[float, float], **labels: Any
) -> Setting:
    """Check everything once."""
    check_choice(name, "promise", promise, tuple(_WHOSE))
    if not isinstance(stages, Mapping) or not 0 < len(stages) <= _STAGES:
        rule = f"`stages` must be a dict of 1 to {_STAGES} stages, (loss, confidence, cost) by name"
        raise InputError(f"{name}: {rule}.")
    if PERSON in stages or not all(isinstance(s, str) for s in stages):
        raise InputError(f"{name}: stages must be named by words other than {PERSON!r}.")
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


def _guarantee(setting: Setting, risk: float, delta: float) -> str:
    plain = setting.zero_one and setting.unscaled(1.0) == 1 and setting.unscaled(0.0) == 0
    whose = "all answers, the person's with the error stated," if setting.system else "what the stages answer"
    where = f", in each of {setting.group_count} groups," if setting.groups is not None else ""
    drawn = "independent draws from one population"
    if setting.clusters is not None:
        drawn += f" by clusters, none of which has more samples than the largest here ({setting.largest})"
    return (
        f"With probability at least {1 - delta:.4g} over the {setting.n} calibration samples, the "
        f"{'error rate' if plain else 'mean loss'} of {whose}{where} is at most {risk:.4g}, calibration and later data "
        f"being {drawn}. Nothing is promised about the cost."
    )


_NONE = "No cascade and no single stage can be certified at this risk and delta with these data."


def _why(setting: Setting, chosen: tuple[float, ...], cost: float, target: float, cuts: int) -> str:
    """Why a single stage was returned, if one was; that a person alone would be cheaper."""
    asked, told = [name for name, t in zip(setting.names, chosen) if t < math.inf], ""
    if len(asked) == 1 < setting.stages:
        best, alone = search.least_costs(setting, target, cuts)
        helped = best <= 0.98 * alone
        why = "no cascade was certified that costs less" if helped else "no cascade can help here"
        costs = f"the best policy of this risk costs about {best:.4g}, the best single stage {alone:.4g}"
        told = f"{asked[0]!r} alone: {why}. By these data {costs}."
    person = float(setting.cost[-1].mean())
    less = f"{told} Leaving everything to the person would cost less: {person:.4g}."
    return told if cost <= person else less


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
