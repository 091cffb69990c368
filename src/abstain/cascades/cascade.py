"""`cascade`: who should answer, at what cost, with a promise on the risk."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from abstain._arrays import Array, to_host
from abstain._check import check_choice, check_fraction
from abstain._tables import html_table
from abstain.cascades.search import CUTS, MOST, Found, Setting, answerer, cuts_allowed, search, seed_of
from abstain.errors import DataError, InputError, ShapeError
from abstain.inference import interval
from abstain.metrics.groups import group_codes
from abstain.thresholds.calibration import Advice, Candidates, bisect, calibrate
from abstain.thresholds.threshold import Check, Reference, Threshold

if TYPE_CHECKING:
    from os import PathLike

FORMAT = "abstain cascade 1"
PERSON = "person"
_NAME = "cascade"
_LEVEL = 0.95  # of the interval of the cost
Promise = Literal["answered", "system"]
Stage = tuple[Array, Array, Any]  # loss, confidence, cost


@dataclass(frozen=True, eq=False)
class Cascade:
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

    Examples
    --------
    >>> import abstain
    >>> g = [i / 200 for i in range(200)]
    >>> rule = abstain.cascade({"only": ([x < 0.1 for x in g], g, 1.0)}, risk=0.2, person=(10.0, 0.0))
    >>> rule.decide({"only": [0.9, float("nan")]}).tolist()
    ['only', 'person']
    """

    names: tuple[str, ...]
    thresholds: dict[str, float] | None
    target: float
    delta: float
    promise: str
    n: int
    risk: float | None
    risk_upper: float | None
    coverage: float
    cost: float
    cost_interval: tuple[float, float]
    shares: dict[str, float]
    guarantee: str | None
    note: str
    person: tuple[float, float]
    bounded: tuple[float, float] = (0.0, 1.0)
    unit: str = ""
    scores: dict[str, str] = field(default_factory=dict)
    advice: Advice | None = None

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
        if not self.asked or self.thresholds is None:
            return f"leave everything to the {PERSON}"
        steps = []
        for name in self.asked:
            value = self.thresholds[name]
            steps.append(name if value == -math.inf else f"{name} if its confidence >= {value!r}")
        return ", else ".join([*steps, PERSON])

    def decide(self, confidences: Mapping[str, Array]) -> np.ndarray:
        """Who answers each sample, by name; a NaN is a stage that gave no answer, and passes on.

        With the confidences of the first stages only, the samples that these pass on go to the next stage that is
        asked, so that the dear stages need to see only what reaches them.

        >>> import abstain
        >>> rule = abstain.cascade(
        ...     {"a": ([0] * 300, range(300), 1.0), "b": ([0] * 300, range(300), 5.0)}, risk=0.2, person=(9.0, 0.0)
        ... )
        >>> rule.asked, rule.decide({"a": [7.0]}).tolist()
        (('a',), ['a'])
        """
        who = self._who(confidences)
        order = self.names[: len(confidences)]
        further = [name for name in self.asked if name not in order]
        return np.asarray([*order, *(further[:1] or [PERSON])])[who]

    def check(
        self,
        stages: Mapping[str, Any],
        /,
        *,
        person: float | Array | None = None,
        previous: Check | None = None,
    ) -> Check:
        """Does the promise still hold on later samples, in the order they came? Anytime-valid, as `Threshold.check`.

        The bet is on the loss of whoever answers; "drift" compares the shares that the stages answer with those of the
        calibration. Samples must be independent draws.

        Parameters
        ----------
        stages : dict
            (loss, confidence) by name, or what `cascade` took; a confidence of NaN is no answer.
        person : float or array, optional
            The person's error, where the promise speaks of it and it is not as stated.
        previous : Check, optional
            The last look of this series.

        Returns
        -------
        Check
        """
        who = self._who({name: entry[1] for name, entry in stages.items()})
        lost = np.broadcast_to(
            np.asarray(self.person[1] if person is None else to_host(person), float), who.shape
        )
        for j, name in enumerate(self.names):
            lost = np.where(who == j, np.asarray(to_host(stages[name][0]), dtype=np.float64), lost)
        return self._watch().check(lost, len(self.names) - who, previous=previous)

    def _watch(self) -> Threshold:
        """The same promise as a threshold on the place from the end at which a sample was answered, a person's 0."""
        places = np.arange(len(self.names), -1, -1.0)
        counts = np.cumsum([round(self.n * self.shares[name]) for name in (*self.names, PERSON)])
        nothing = Candidates(*(np.zeros(0) for _ in fields(Candidates)))
        value = None if self.thresholds is None else 0.0 if self.promise == "system" else 1.0
        return Threshold(
            value=value, form="risk", target=self.target, method="ltt", delta=self.delta, n=self.n,
            coverage=self.coverage, coverage_interval=(0.0, 1.0), risk=self.risk, risk_upper=self.risk_upper,
            guarantee=self.guarantee, note=self.note, bounded=self.bounded, table=nothing,
            reference=Reference(places, counts, self.n),
        )  # fmt: skip

    def _who(self, confidences: Mapping[str, Array]) -> np.ndarray:
        """Place of the stage that answers; the number of stages given where none does."""
        order = self.names[: len(confidences)]
        if not order or set(confidences) != set(order):
            raise InputError(
                f"Cascade: needs the confidences of {', '.join(self.names)}, or of the first of them, got "
                f"{', '.join(map(str, confidences)) or 'none'}."
            )
        g = [np.asarray(to_host(confidences[name]), dtype=np.float64) for name in order]
        if len({x.shape for x in g}) > 1 or g[0].ndim != 1:
            raise ShapeError(
                f"Cascade: confidences must be vectors of one length, got shapes {', '.join(str(x.shape) for x in g)}."
            )
        thresholds = [math.inf if self.thresholds is None else self.thresholds[name] for name in order]
        return answerer(g, thresholds)

    def to_json(self) -> str:
        """Everything needed to use the cascade and to check its promise, as strict JSON."""
        own = asdict(self)
        if self.thresholds is not None:  # JSON has no infinities
            own["thresholds"] = {k: v if math.isfinite(v) else str(v) for k, v in self.thresholds.items()}
        return json.dumps({"format": FORMAT, "rule": self.rule, **own}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Cascade:
        """The cascade that `to_json` wrote; a field that is missing or makes no sense is an error."""
        try:
            stored = json.loads(text)
            if not isinstance(stored, dict) or stored.get("format") != FORMAT:
                raise ValueError(f"must hold a stored cascade ({FORMAT!r})")
            return _restored(stored)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"Cascade.from_json: {error}.") from error

    def save(self, path: str | PathLike[str]) -> None:
        """Write JSON to a file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Cascade:
        """Read what `save` wrote."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))

    def facts(self) -> list[tuple[str, str]]:
        """What the repr and the HTML view show."""
        rows = [("rule", self.rule), ("asked for", f"risk {self.target:g} of {_WHOSE[self.promise]}")]
        if self.thresholds is not None:
            low, high = self.cost_interval
            rows.append(("risk", f"{self.risk:.4g}  (at most {self.risk_upper:.4g})"))
            rows.append(("coverage", f"{self.coverage:.4f}"))
            rows.append(
                ("cost", f"{self.cost:.4g} {self.unit}  [{low:.4g}, {high:.4g}]".replace("  [", " ["))
            )
            rows.append(("answered by", ", ".join(f"{k} {v:.1%}" for k, v in self.shares.items())))
        rows.append(("calibration", f"n = {self.n}, delta = {self.delta:g}"))
        rows.append(("guarantee", self.guarantee or "none"))
        rows += [("note", self.note)] if self.note else []
        return rows + ([("feasible", str(self.advice))] if self.advice is not None else [])

    def __repr__(self) -> str:
        head = "Cascade" if self.feasible else "Cascade: none keeps the promise"
        return "\n".join([head, *(f"  {name + ':':<13}{text}" for name, text in self.facts())])

    def _repr_html_(self) -> str:
        names, texts = zip(*self.facts())
        return html_table({"": names, "cascade": texts})


def _restored(stored: dict[str, Any]) -> Cascade:
    """From JSON, every field checked."""

    def must(ok: bool, what: str) -> None:
        if not ok:
            raise ValueError(f"{what} is malformed")

    def number(x: Any, what: str, low: float = -math.inf, high: float = math.inf) -> float:
        must(isinstance(x, (int, float)) and not isinstance(x, bool) and low <= x <= high, what)
        return float(x)

    def pair(name: str, low: float = -math.inf) -> tuple[float, float]:
        must(isinstance(stored[name], list) and len(stored[name]) == 2, name)
        a, b = (number(x, name, low) for x in stored[name])
        return a, b

    made = {f.name: stored[f.name] for f in fields(Cascade)}
    names, thresholds, shares = made["names"], made["thresholds"], made["shares"]
    must(isinstance(names, list) and len(set(names)) == len(names) > 0, "names")
    must(all(isinstance(name, str) for name in names), "names")
    must(made["promise"] in _WHOSE, "promise")
    must(isinstance(made["n"], int) and made["n"] > 0, "n")
    for name in ("note", "unit"):
        must(isinstance(made[name], str), name)
    must(made["guarantee"] is None or isinstance(made["guarantee"], str), "guarantee")
    must(isinstance(made["scores"], dict) and set(made["scores"]) <= set(names), "scores")
    must(isinstance(shares, dict) and set(shares) == {*names, PERSON}, "shares")
    made["shares"] = {k: number(v, "shares", 0.0, 1.0) for k, v in shares.items()}
    must(abs(sum(made["shares"].values()) - 1) < 1e-9, "shares")
    if thresholds is not None:
        must(isinstance(thresholds, dict) and list(thresholds) == names, "thresholds")
        made["thresholds"] = {
            k: float(v) if v in ("inf", "-inf") else number(v, "thresholds") for k, v in thresholds.items()
        }
    low, high = made["bounded"] = pair("bounded")
    must(low < high, "bounded")
    made["target"] = number(made["target"], "target", low, high)
    made["delta"] = number(made["delta"], "delta", 0.0, 1.0)
    made["coverage"] = number(made["coverage"], "coverage", 0.0, 1.0)
    made["cost"] = number(made["cost"], "cost", 0.0)
    for name in ("risk", "risk_upper"):
        must((made[name] is None) == (thresholds is None), name)
        made[name] = None if thresholds is None else number(made[name], name, low, high)
    advice = None if made["advice"] is None else Advice(**made["advice"])
    ends = {"cost_interval": pair("cost_interval", 0.0), "person": pair("person")}
    return Cascade(**{**made, **ends, "names": tuple(names), "advice": advice})


_WHOSE = {"answered": "what the stages answer", "system": "all answers, the person's included"}


def cascade(
    stages: Mapping[str, Stage],
    /,
    *,
    risk: float,
    person: tuple[float | Array, float | Array],
    delta: float = 0.05,
    promise: Promise = "answered",
    bounded: tuple[float, float] = (0, 1),
    abstained: Mapping[str, Array] | None = None,
    clusters: Array | None = None,
    groups: Array | None = None,
    cuts: int = CUTS,
    unit: str = "",
    scores: Mapping[str, str] | None = None,
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
    check_choice(_NAME, "promise", promise, ("answered", "system"))
    setting = setting_of(_NAME, stages, person, promise, bounded, abstained, clusters, groups)
    low, high = (float(b) for b in bounded)
    target = (float(risk) - low) / (high - low)
    if not 0 < target < 1:
        raise InputError(f"{_NAME}: `risk` must lie inside bounded=({low:g}, {high:g}), got {risk!r}.")
    seed = seed_of(rng)  # every look at the data makes the same split
    allowed = cuts_allowed(setting.stages, cuts)

    def look(at: float) -> Found:
        return search(setting, at, level, allowed, seed)

    found = look(target)
    costs = [_mean_cost(setting, policy) for policy in found.policies]
    thresholds = found.policies[int(np.argmin(costs))] if costs else (math.inf,) * setting.stages
    who = answerer(setting.confidence, thresholds)
    spent, lost = setting.spent(who, thresholds), low + (high - low) * setting.lost(who)
    spoken = np.ones(setting.n, bool) if setting.system else who < setting.stages
    names = (*setting.names, PERSON)
    result = Cascade(
        names=setting.names,
        thresholds=dict(zip(setting.names, thresholds)) if costs else None,
        target=float(risk),
        delta=level,
        promise=promise,
        n=setting.n,
        risk=float(lost[spoken].mean()) if costs else None,
        risk_upper=float(risk) if costs else None,
        coverage=float((who < setting.stages).mean()),
        cost=float(spent.mean()),
        cost_interval=mean_interval(spent, setting.clusters),
        shares=dict(zip(names, (np.bincount(who, minlength=len(names)) / setting.n).tolist())),
        guarantee=_guarantee(setting, float(risk), level, (low, high)) if costs else None,
        note="",
        person=(float(setting.cost[-1].mean()), low + (high - low) * float(setting.loss[-1].mean())),
        bounded=(low, high),
        unit=unit,
        scores=dict(scores or {}),
        advice=None if costs else _advice(setting, found, look, target, level, (low, high)),
    )
    told = [_why(result, found, setting)]
    if allowed < cuts:
        told.append(
            f"The grid was coarsened to {allowed} thresholds by stage: at most {MOST:,} policies are tried."
        )
    return replace(result, note=" ".join(filter(None, told)))


def setting_of(
    name: str,
    stages: Mapping[str, Stage],
    person: tuple[float | Array, float | Array],
    promise: str,
    bounded: tuple[float, float],
    abstained: Mapping[str, Array] | None,
    clusters: Array | None,
    groups: Array | None,
) -> Setting:
    """Check everything once."""
    if not isinstance(stages, Mapping) or not stages:
        raise InputError(f'{name}: `stages` must be a dict such as {{"small": (loss, confidence, cost)}}.')
    if PERSON in stages or not all(isinstance(s, str) for s in stages):
        raise InputError(f"{name}: stages must be named by words other than {PERSON!r}.")
    if 2 ** len(stages) > MOST:
        raise InputError(f"{name}: takes at most {int(math.log2(MOST))} stages, got {len(stages)}.")
    unknown = set(abstained or ()) - set(stages)
    if unknown:
        raise InputError(f"{name}: `abstained` must be by stage, got {', '.join(map(str, unknown))}.")
    losses, confidences, costs, calibrations = [], [], [], []
    n = None
    for stage, entry in stages.items():
        try:
            loss, confidence, cost = entry
        except (TypeError, ValueError):
            raise InputError(f"{name}: stage {stage!r} must be (loss, confidence, cost).") from None
        l, g = (np.asarray(to_host(x)) for x in (loss, confidence))
        n = len(l) if n is None and l.ndim == 1 else n
        if l.shape != (n,) or g.shape != (n,):
            raise ShapeError(
                f"{name}: all stages need one loss and one confidence for each of {n} samples, got {l.shape} and "
                f"{g.shape} for {stage!r}."
            )
        given = ~_mask(name, stage, (abstained or {}).get(stage), l)
        cal = calibrate(f"{name}: stage {stage!r}", l[given], g[given], None, bounded)
        calibrations.append(cal)
        losses.append(np.zeros(n))
        losses[-1][given] = cal.scaled(l[given].astype(np.float64))
        confidences.append(np.full(n, -math.inf))
        confidences[-1][given] = g[given]
        costs.append(_per_sample(name, f"cost of {stage!r}", cost, l))
    try:
        person_cost, person_error = person
    except (TypeError, ValueError):
        raise InputError(f"{name}: `person` must be (cost, error), got {person!r}.") from None
    costs.append(_per_sample(name, "person's cost", person_cost, l))
    low, high = calibrations[0].low, calibrations[0].high
    losses.append((_per_sample(name, "person's error", person_error, l, low, high) - low) / (high - low))
    codes = group_codes(name, clusters, l.shape)[1] if clusters is not None else None
    labels, of_group = group_codes(name, groups, l.shape) if groups is not None else ([None], None)
    largest = 1 if codes is None else int(np.bincount(codes).max())
    return Setting(
        tuple(stages), losses, confidences, costs, calibrations, promise == "system", codes, largest, of_group,
        len(labels),
    )  # fmt: skip


def _mask(name: str, stage: str, given: Array | None, like: np.ndarray) -> np.ndarray:
    if given is None:
        return np.zeros(like.shape, dtype=bool)
    mask = np.asarray(to_host(given))
    if mask.shape != like.shape or mask.dtype != bool:
        raise ShapeError(f"{name}: `abstained` of {stage!r} must be one True or False per sample.")
    return mask


def _per_sample(
    name: str, what: str, x: Any, like: np.ndarray, low: float = 0.0, high: float = math.inf
) -> np.ndarray:
    """A number or one per sample, finite and within bounds."""
    try:
        values = np.asarray(to_host(x), dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: {what} must be a number or one per sample, got {x!r}.") from None
    if values.shape not in ((), like.shape):
        raise ShapeError(f"{name}: {what} must be a number or one per sample, got shape {values.shape}.")
    if not (np.isfinite(values).all() and (values >= low).all() and (values <= high).all()):
        span = f"between {low:g} and {high:g}" if high < math.inf else f"at least {low:g}"
        raise InputError(f"{name}: {what} must be finite and {span} throughout.")
    return np.broadcast_to(values, like.shape)


def mean_interval(
    values: np.ndarray, clusters: np.ndarray | None, level: float = _LEVEL
) -> tuple[float, float]:
    """Of a mean over samples; a constant has no spread."""
    first = float(values[0])
    if (values == first).all():
        return first, first
    found = interval("risk", values, values, clusters=clusters, level=level)
    return found.low, found.high


def _mean_cost(setting: Setting, policy: tuple[float, ...]) -> float:
    return float(setting.spent(answerer(setting.confidence, policy), policy).mean())


def _guarantee(setting: Setting, risk: float, delta: float, bounded: tuple[float, float]) -> str:
    noun = "error rate" if setting.zero_one and bounded == (0.0, 1.0) else "mean loss"
    whose = {False: "what the stages answer", True: "all answers, the person's with the error stated,"}
    where = f", in each of {setting.group_count} groups," if setting.groups is not None else ""
    drawn = "calibration and later data being independent draws from one population"
    if setting.clusters is not None:
        drawn = (
            "clusters of calibration and later data being independent draws from one population, none with more "
            f"samples than the largest seen here ({setting.largest})"
        )
    return (
        f"With probability at least {1 - delta:.4g} over the {setting.n} calibration samples, the {noun} of "
        f"{whose[setting.system]}{where} is at most {risk:.4g}, {drawn}. Nothing is promised about the cost."
    )


def _why(result: Cascade, found: Found, setting: Setting) -> str:
    """Why there is none, or why a single stage; that a person alone would be cheaper."""
    if not result.feasible:
        return "No cascade and no single stage can be certified at this risk and delta with these data."
    told = ""
    if setting.stages > 1 and len(result.asked) == 1:
        told = f"{result.asked[0]!r} alone: no cascade was certified that costs less."
        if found.cheapest > 0.98 * found.cheapest_alone:
            told = (
                f"{result.asked[0]!r} alone: no cascade can help here. By the estimates of the first part the best "
                f"costs {found.cheapest:.4g}, the best single stage {found.cheapest_alone:.4g}."
            )
    if result.cost > result.person[0]:
        told += f" Leaving everything to the person would cost less: {result.person[0]:.4g}."
    return told.strip()


def _advice(
    setting: Setting, found: Found, look: Any, target: float, delta: float, bounded: tuple[float, float]
) -> Advice:
    """The least risk that passes, and about how many samples the best policy seen would need."""
    low, high = bounded

    def passes(risk: float) -> bool:
        return bool(look(risk).policies)

    reached = None
    if passes(0.999):
        reached = bisect(passes, target, 0.999, relative=0.02)
    coverage = None
    if reached is not None:
        policies = look(reached).policies
        coverage = max(float((answerer(setting.confidence, p) < setting.stages).mean()) for p in policies)
        reached = low + (high - low) * reached
    needed = None
    if found.z > 0:
        normal = math.sqrt(2 * math.log(1 / (0.35 * delta)))  # an upper bound of the quantile
        needed = max(setting.n + 1, math.ceil(setting.n * (normal / found.z) ** 2))
        digits = 10 ** max(0, len(str(needed)) - 2)
        needed = math.ceil(needed / digits) * digits
    return Advice(reached, coverage, needed)
