"""Holding later data against a promise: looks, series of looks, and alarms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from abstain import _tables
from abstain._arrays import Array, to_host
from abstain._stored import Finite, Share, Stored, Within
from abstain.errors import InfeasibleError, InputError
from abstain.metrics._sample import group_codes, prepare
from abstain.thresholds.testing import clopper_pearson, drift_p_value

if TYPE_CHECKING:
    from abstain.thresholds.threshold import GroupThresholds, Threshold, Units

Count = Annotated[int, Within(0)]
_ALTERNATIVES = np.asarray([1.25, 1.5, 2.0, 3.0, 5.0])  # times the promised risk


@dataclass(frozen=True, eq=False)
class Reference:
    """The confidences of the calibration data, as counts at or above some of them: what later data are held against.

    With importance weights a sample counts as its share of the heaviest weight. That keeps the comparison valid
    whatever weights and confidences have in common: no sample moves a share by more than 1/n.
    """

    value: Annotated[np.ndarray, Within()]
    at_least: Annotated[np.ndarray, Within(0)]
    n: Annotated[float, Within(1)]

    def p_value(self, confidence: np.ndarray, scale: Callable[[Any], Any], most: float) -> float:
        """Of "these are distributed alike", over the confidences kept, which `scale` turns into later units.

        Up to `most` samples of one cluster may be one and the same.
        """
        m = len(confidence)
        later = m - np.searchsorted(np.sort(confidence), scale(self.value), side="left")
        return drift_p_value(np.abs(self.at_least / self.n - later / m).max(), self.n / most, m / most)


@dataclass(frozen=True)
class Check(Stored, _tables.Notebook):
    """What later data say about a promise. Pass it as `previous` to go on where it stopped.

    Attributes
    ----------
    n, accepted : int
        Samples of the whole series, and how many of them the threshold accepts.
    coverage, coverage_interval
        Share accepted, and its exact interval at level 1 - delta; where there are clusters, a wider one that counts
        as many samples as the largest held for one.
    risk : float or None
        Mean loss of the accepted; None when there is none.
    limit : float
        What was promised of the risk.
    risk_p, risk_alarm, alarm_after
        Anytime-valid p-value of "the promise holds"; whether it fell to delta at some time; after how many samples.
    drift_p, drift_alarm
        p-value of "the confidences are distributed as in calibration", for this look alone; whether some look of the
        series was beyond its share of delta.
    looks : int
        Calls of `check` in this series.
    delta, value : float
        Of the threshold.
    loss_sum, log_wealth, log_peak
        State from which the next look goes on.

    Examples
    --------
    >>> from abstain import select_threshold
    >>> t = select_threshold([0] * 99 + [1], list(range(100, 0, -1)), risk=0.2)
    >>> t.check([0, 0, 0], [90, 80, 70]).holds
    True
    """

    _noun: ClassVar[str] = "a check"

    n: Count = 0  # as it stands, a series that has not begun
    accepted: Count = 0
    coverage: Share = 0.0
    coverage_interval: tuple[Share, Share] = (0.0, 1.0)
    risk: Finite | None = None
    limit: Finite = 0.0
    risk_p: Share = 1.0
    risk_alarm: bool = False
    alarm_after: Count | None = None
    drift_p: Share = 1.0
    drift_alarm: bool = False
    looks: Count = 0
    delta: Share = 0.0
    loss_sum: Finite = 0.0
    log_wealth: tuple[Finite, ...] = (0.0,) * len(_ALTERNATIVES)
    log_peak: Finite = 0.0
    value: Annotated[float, Within(infinite=True)] = 0.0

    def _readable(self) -> dict[str, Any]:
        return {"holds": self.holds}

    def _rules(self) -> dict[str, Any]:
        bets = len(_ALTERNATIVES)
        alarmed = self.delta > 0 and self.log_peak >= -np.log(self.delta)
        wealth = np.logaddexp.reduce(self.log_wealth) - np.log(bets)
        return {
            f"`log_wealth` must hold {bets} numbers.": len(self.log_wealth) == bets,
            "`accepted` must be at most `n`.": self.accepted <= self.n,
            "`coverage` must be `accepted` of `n`.": self.coverage
            == (self.accepted / self.n if self.n else 0.0),
            "`loss_sum` must lie between 0 and `accepted`.": 0 <= self.loss_sum <= self.accepted,
            "`alarm_after` must come with `risk_alarm`.": (self.alarm_after is None) != self.risk_alarm,
            "`log_wealth` must not lie above `log_peak`.": wealth <= self.log_peak + 1e-6,
            "`risk_alarm` must say whether `log_peak` is beyond 1/delta.": self.risk_alarm == alarmed,
        }

    @property
    def holds(self) -> bool:
        """No alarm so far."""
        return not (self.risk_alarm or self.drift_alarm)

    def __repr__(self) -> str:
        low, high = self.coverage_interval
        risk = "-" if self.risk is None else f"{self.risk:.4g}"
        when = f" after {self.alarm_after} samples" if self.alarm_after is not None else ""
        return (
            f"Check: {'no alarm' if self.holds else 'ALARM'} (n = {self.n}, look {self.looks})\n"
            f"  risk {risk} of {self.accepted} accepted, promised at most {self.limit:.4g}: "
            f"p = {self.risk_p:.3g} at any time{', ALARM' + when if self.risk_alarm else ''}\n"
            f"  coverage {self.coverage:.4f} [{low:.4f}, {high:.4f}]; confidences as in calibration: "
            f"p = {self.drift_p:.3g}{', ALARM' if self.drift_alarm else ''}"
        )


@dataclass(frozen=True)
class GroupChecks(Stored, _tables.Notebook):
    """What later data say about the promise of each group.

    Attributes
    ----------
    checks : dict
        A `Check` by label.

    Examples
    --------
    >>> from abstain import select_threshold
    >>> loss, sure, site = [0] * 100, list(range(100)), ["a", "b"] * 50
    >>> rules = select_threshold(loss, sure, risk=0.2, groups=site)
    >>> rules.check([0, 0, 0], [99, 98, 97], ["a", "b", "a"]).holds
    True
    """

    _noun: ClassVar[str] = "checks by group"

    checks: dict[Any, Check]

    def __getitem__(self, label: Any) -> Check:
        return self.checks[label]

    @property
    def holds(self) -> bool:
        """No alarm in any group so far."""
        return all(check.holds for check in self.checks.values())

    def _readable(self) -> dict[str, Any]:
        return {"holds": self.holds}

    def __repr__(self) -> str:
        lines = [f"{label}: {check!r}" for label, check in self.checks.items()]
        return "\n".join(lines) or "no group to check"


def check_promise(
    rule: Threshold,
    loss: Array,
    given: np.ndarray,
    cut: float | None,
    scale: Callable[[Any], Any],
    *,
    clusters: Array,
    previous: Check | None,
) -> Check:
    """Do the work of `Threshold.check`; `scale` turns confidences of the calibration into the units of `cut`."""
    if rule.value is None:
        raise InfeasibleError("Threshold.check: there is no threshold to check; nothing is accepted.")
    sample = prepare("Threshold.check", to_host(loss), given)
    low, width = rule.bounded[0], rule.bounded[1] - rule.bounded[0]
    l, g = (sample.loss.astype(np.float64) - low) / width, sample.confidence
    if l.min() < 0 or l.max() > 1:
        message = f"`loss` must lie within bounded={rule.bounded}, as in calibration"
        raise InputError(f"Threshold.check: {message}.")
    # what is promised of the risk: the target, or the limit that was stated where there was no target
    stated = rule.bounded[1] if rule.risk_upper is None else rule.risk_upper
    limit = rule.target if rule.form == "risk" else stated
    before = previous or Check()
    both = (rule.value, limit, rule.delta), (before.value, before.limit, before.delta)
    if previous and both[0] != both[1]:
        mine, its = (f"value {value:g}, risk {risk:g}, delta {delta:g}" for value, risk, delta in both)
        message = f"`previous` must be a check of this threshold ({mine}), got one of {its}"
        raise InputError(f"Threshold.check: {message}. Begin a new series without `previous=`.")
    accepted = g >= cut
    watched = np.arange(len(l)) if rule.method == "crc" else np.flatnonzero(accepted)
    r = (limit - low) / width
    terms, watched = _by_cluster(rule, (l * accepted)[watched], watched, clusters, len(l), r)
    bets = _bet(terms, r, np.asarray(before.log_wealth))
    mixed = np.logaddexp.reduce(bets, axis=1) - np.log(bets.shape[1])
    peak = max(before.log_peak, float(mixed.max(initial=-np.inf)))
    crossed = np.flatnonzero(mixed >= -np.log(rule.delta))
    alarm_after = before.alarm_after
    if alarm_after is None and len(crossed):
        alarm_after = before.n + int(watched[crossed[0]]) + 1
    n, taken, looks = before.n + len(l), before.accepted + int(accepted.sum()), before.looks + 1
    lost = before.loss_sum + float(l[accepted].sum())
    most = rule.largest or 1.0
    low_share, high_share = clopper_pearson(taken / most, n / most, 1 - rule.delta)
    drift_p = rule.reference.p_value(g, scale, most)
    return Check(
        n=n,
        accepted=taken,
        coverage=taken / n,
        coverage_interval=(float(low_share), float(high_share)),
        risk=None if taken == 0 else low + width * lost / taken,
        limit=limit,
        risk_p=min(1.0, float(np.exp(-peak))),
        risk_alarm=bool(peak >= -np.log(rule.delta)),
        alarm_after=alarm_after,
        drift_p=drift_p,
        drift_alarm=before.drift_alarm or drift_p <= rule.delta / (looks * (looks + 1)),
        looks=looks,
        delta=rule.delta,
        loss_sum=lost,
        log_wealth=tuple(bets[-1].tolist()) if len(bets) else before.log_wealth,
        log_peak=peak,
        value=rule.value,
    )


def _by_cluster(
    rule: Threshold, l: np.ndarray, watched: np.ndarray, clusters: Array, n: int, r: float
) -> tuple[np.ndarray, np.ndarray]:
    """What is bet on in turn, and after which sample: samples, or r plus the mean of (l - r) over clusters."""
    if rule.clusters is None:
        return l, watched
    if clusters is None:
        raise InputError("Threshold.check: this rule promises for whole clusters: give `clusters=`.")
    labels, codes = group_codes("Threshold.check", clusters, (n,), "clusters")
    heaviest, most = float(np.bincount(codes).max()), rule.largest or 1.0
    if heaviest > most:
        message = f"a cluster must hold at most {most:g} samples, as in calibration, got {heaviest:g}"
        raise InputError(f"Threshold.check: {message}. Calibrate again with such clusters.")
    ends = np.zeros(len(labels), dtype=np.int64)
    np.maximum.at(ends, codes, np.arange(n))
    order = np.argsort(ends)  # a cluster is known when its last sample is
    sums = np.bincount(codes[watched], l - r, len(labels))
    return r + sums[order] / most, ends[order]


def _bet(l: np.ndarray, risk: float, start: np.ndarray) -> np.ndarray:
    """Log wealth of each bet after each loss, shape (losses, bets); none where no loss can break the promise."""
    r = max(risk, 1e-9)
    if r >= 1:
        return np.zeros((0, len(start)))
    stakes = (np.minimum(_ALTERNATIVES * r, (1 + r) / 2) - r) / (r * (1 - r))
    return np.asarray(start + np.cumsum(np.log1p(stakes * (l[:, None] - r)), axis=0))


def check_groups(
    rules: GroupThresholds,
    parts: list[tuple[Any, np.ndarray]],
    loss: Array,
    confidence: Array,
    *,
    clusters: Array,
    previous: GroupChecks | None,
    score: str | None,
    units: Units | None,
) -> GroupChecks:
    """The work of `GroupThresholds.check`; `parts` are the groups that are there, and where."""
    l, g = (np.asarray(to_host(x)) for x in (loss, confidence))
    c = None if clusters is None else np.asarray(to_host(clusters))
    found = {} if previous is None else dict(previous.checks)
    for label, mine in parts:
        if rules.thresholds[label].feasible:
            own = {"clusters": None if c is None else c[mine], "previous": found.get(label)}
            found[label] = rules.thresholds[label].check(l[mine], g[mine], **own, score=score, units=units)
    return GroupChecks(found)
