"""A threshold and what it promises: applied, stored, drawn, by group, and checked on later data.

Needs numpy only, so that a server can load and use it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from abstain._arrays import Array, to_host
from abstain._tables import html_table
from abstain.display import axes
from abstain.errors import DataError, InfeasibleError, InputError, ShapeError
from abstain.metrics._sample import prepare
from abstain.metrics.groups import group_codes
from abstain.thresholds.calibration import Advice, Candidates
from abstain.thresholds.testing import clopper_pearson, drift_p_value

if TYPE_CHECKING:
    from os import PathLike

    from matplotlib.axes import Axes

FORMAT = "abstain threshold 1"
GROUPED_FORMAT = "abstain group thresholds 1"
_ALTERNATIVES = np.asarray([1.25, 1.5, 2.0, 3.0, 5.0])  # times the promised risk


@dataclass(frozen=True, eq=False)
class Reference:
    """The confidences of the calibration data, as counts at or above some of them: what later data are held against."""

    value: np.ndarray
    at_least: np.ndarray
    n: int

    def p_value(self, confidence: np.ndarray) -> float:
        """Of "these are distributed alike", over the confidences kept."""
        m = len(confidence)
        later = m - np.searchsorted(np.sort(confidence), self.value, side="left")
        return drift_p_value(np.abs(self.at_least / self.n - later / m).max(), self.n, m)


@dataclass(frozen=True)
class Check:
    """What later data say about a promise. Pass it as `previous` to go on where it stopped.

    Attributes
    ----------
    n, accepted : int
        Samples of the whole series, and how many of them the threshold accepts.
    coverage, coverage_interval
        Share accepted, and its exact interval at level 1 - delta.
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

    n: int = 0  # as it stands, a series that has not begun
    accepted: int = 0
    coverage: float = 0.0
    coverage_interval: tuple[float, float] = (0.0, 1.0)
    risk: float | None = None
    limit: float = 0.0
    risk_p: float = 1.0
    risk_alarm: bool = False
    alarm_after: int | None = None
    drift_p: float = 1.0
    drift_alarm: bool = False
    looks: int = 0
    delta: float = 0.0
    loss_sum: float = 0.0
    log_wealth: tuple[float, ...] = (0.0,) * len(_ALTERNATIVES)
    log_peak: float = 0.0
    value: float = 0.0

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


@dataclass(frozen=True, eq=False)
class Threshold:
    """Accept when `confidence >= value`: what `select_threshold` gives.

    Attributes
    ----------
    value : float or None
        None when no threshold keeps the promise asked for.
    form, target, method, delta
        What was asked for: "risk", "coverage" or "cost", how much of it, and how.
    n : int
        Calibration samples.
    coverage, risk : float
        On the calibration data; the risk is None when there is no threshold.
    coverage_interval : (float, float)
        Holds for all thresholds at once, at level 1 - delta.
    risk_upper : float or None
        The certified bound when there is a guarantee on the risk; otherwise a limit at level 1 - delta for this one
        threshold, which the choice of the threshold makes a little too small.
    guarantee : str or None
        What is promised, in words.
    note : str or None
        What to know besides.
    bounded : (float, float)
        Between which values losses lie.
    table : Candidates
        The thresholds it was chosen from.
    reference : Reference
        The confidences of the calibration data, for `check`.
    advice : Advice or None
        What would be feasible, when nothing is.

    Examples
    --------
    >>> from abstain import select_threshold
    >>> t = select_threshold([0, 0, 1], [0.9, 0.8, 0.1], risk=0.2, method="empirical")
    >>> t.rule, round(t.coverage, 3), t.guarantee
    ('confidence >= 0.8', 0.667, None)
    """

    value: float | None
    form: str
    target: float
    method: str
    delta: float
    n: int
    coverage: float
    coverage_interval: tuple[float, float]
    risk: float | None
    risk_upper: float | None
    guarantee: str | None
    note: str | None
    bounded: tuple[float, float]
    table: Candidates
    reference: Reference
    advice: Advice | None = None

    @property
    def feasible(self) -> bool:
        """Is there a threshold?"""
        return self.value is not None

    @property
    def rule(self) -> str:
        """What to do with a new sample, in one line."""
        if self.value is None:
            return "accept nothing"
        return "accept everything" if self.value == -np.inf else f"confidence >= {self.value!r}"

    def accepts(self, confidence: Array) -> np.ndarray:
        """Which samples to accept; a NaN never is. Compared in double precision, as tested.

        >>> from abstain import select_threshold
        >>> t = select_threshold([0, 0, 1], [0.9, 0.8, 0.1], risk=0.2, method="empirical")
        >>> t.accepts([0.95, 0.8, 0.3]).tolist()
        [True, True, False]
        """
        g = np.asarray(to_host(confidence), dtype=np.float64)
        return np.zeros(g.shape, dtype=bool) if self.value is None else np.asarray(g >= self.value)

    def check(self, loss: Array, confidence: Array, *, previous: Check | None = None) -> Check:
        r"""Does the promise still hold on later samples, in the order they came?

        The risk test is a bet against the promise "the mean loss of the accepted is at most r", on each accepted
        sample in turn, at odds that belong to a few larger risks q:

        .. math:: E_t = \frac{1}{|Q|}\sum_{q\in Q}\prod_{i\le t}\left(1 + \frac{q-r}{r(1-r)}(\ell_i - r)\right)

        While the promise holds, the wealth E has mean at most 1 at every time, so it ever reaches 1/delta with
        probability at most delta (Ville): one may look after every sample, for ever, and stop at will. The confidences
        are compared with those of the calibration by Kolmogorov-Smirnov; look j of a series is held against
        delta / (j (j + 1)), which sums to delta. With `previous`, this is the next stretch of the same series.
        """
        if self.value is None:
            raise InfeasibleError("Threshold.check: there is no threshold to check; nothing is accepted.")
        sample = prepare("Threshold.check", to_host(loss), to_host(confidence))
        low, width = self.bounded[0], self.bounded[1] - self.bounded[0]
        l, g = (sample.loss.astype(np.float64) - low) / width, sample.confidence.astype(np.float64)
        if l.min() < 0 or l.max() > 1:
            told = f"`loss` must lie within bounded={self.bounded}, as in calibration"
            raise InputError(f"Threshold.check: {told}.")
        # what is promised of the risk: the target, or the limit that was stated where there was no target
        stated = self.bounded[1] if self.risk_upper is None else self.risk_upper
        limit = self.target if self.form == "risk" else stated
        before = previous or Check()
        if previous and (before.value, before.limit, before.delta) != (self.value, limit, self.delta):
            raise InputError(
                f"Threshold.check: `previous` must be a check of this threshold (value {self.value:g}, risk {limit:g}, "
                f"delta {self.delta:g}), got one of value {before.value:g}, risk {before.limit:g}, delta "
                f"{before.delta:g}. Begin a new series without `previous=`."
            )
        accepted = self.accepts(g)
        watched = np.arange(len(l)) if self.method == "crc" else np.flatnonzero(accepted)
        bets = _bet((l * accepted)[watched], (limit - low) / width, np.asarray(before.log_wealth))
        mixed = np.logaddexp.reduce(bets, axis=1) - np.log(bets.shape[1])
        peak = max(before.log_peak, float(mixed.max(initial=-np.inf)))
        crossed = np.flatnonzero(mixed >= -np.log(self.delta))
        alarm_after = before.alarm_after
        if alarm_after is None and len(crossed):
            alarm_after = before.n + int(watched[crossed[0]]) + 1
        n, taken, looks = before.n + len(l), before.accepted + int(accepted.sum()), before.looks + 1
        lost = before.loss_sum + float(l[accepted].sum())
        interval = clopper_pearson(taken, n, 1 - self.delta)
        drift_p = self.reference.p_value(g)
        return Check(
            n=n,
            accepted=taken,
            coverage=taken / n,
            coverage_interval=(float(interval[0]), float(interval[1])),
            risk=None if taken == 0 else low + width * lost / taken,
            limit=limit,
            risk_p=min(1.0, float(np.exp(-peak))),
            risk_alarm=bool(peak >= -np.log(self.delta)),
            alarm_after=alarm_after,
            drift_p=drift_p,
            drift_alarm=before.drift_alarm or drift_p <= self.delta / (looks * (looks + 1)),
            looks=looks,
            delta=self.delta,
            loss_sum=lost,
            log_wealth=tuple(bets[-1].tolist()) if len(bets) else before.log_wealth,
            log_peak=peak,
            value=self.value,
        )

    def to_json(self) -> str:
        """Everything needed to use the threshold and to check its promise, as strict JSON."""
        return json.dumps(_plain(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Threshold:
        """The threshold that `to_json` wrote."""
        return _threshold(_parsed(text))

    def save(self, path: str | PathLike[str]) -> None:
        """Write JSON to a file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Threshold:
        """Read what `save` wrote."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))

    def frame(self, library: str | None = None) -> Any:
        """The table of candidates as a data frame."""
        return self.table.frame(library)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Risk against coverage at the candidates (what passed drawn solid), the target and the choice."""
        drawn: Any = axes(ax)
        table = self.table
        drawn.plot(table.coverage, table.risk, color="0.6", lw=1, label="calibration risk")
        passed = table.coverage[table.passed], table.risk[table.passed]
        drawn.plot(*passed, ".", color="C0", ms=4, label="passed")
        if self.form == "risk":
            drawn.axhline(self.target, color="C3", ls="--", lw=1, label=f"target {self.target:g}")
        if self.value is not None:
            drawn.plot([self.coverage], [self.risk], "o", color="C2", label=f"chosen: {self.rule}")
        drawn.set(xlabel="coverage", ylabel="risk of the accepted", xlim=(0, 1), ylim=(0, None))
        without = "no guarantee" if self.feasible else "no feasible threshold"
        drawn.set_title("guaranteed" if self.guarantee else without)
        drawn.legend(fontsize="small")
        return drawn

    def facts(self) -> list[tuple[str, str]]:
        """What the repr and the HTML view show."""
        low, high = self.coverage_interval
        rows = [("rule", self.rule), ("asked for", f"{self.form} = {self.target:g}, method {self.method}")]
        if self.value is not None:
            rows.append(("coverage", f"{self.coverage:.4f}  [{low:.4f}, {high:.4f}]"))
            bound = "" if self.risk_upper is None else f"  (at most {self.risk_upper:.4g})"
            rows.append(("risk", f"{self.risk:.4g}{bound}"))
        rows.append(("calibration", f"n = {self.n}, delta = {self.delta:g}"))
        rows.append(("guarantee", self.guarantee or "none"))
        if self.note:
            rows.append(("note", self.note))
        if self.advice is not None:
            rows.append(("feasible", str(self.advice)))
        return rows

    def __repr__(self) -> str:
        head = "Threshold" if self.feasible else "Threshold: no feasible threshold"
        return "\n".join([head, *(f"  {name + ':':<13}{text}" for name, text in self.facts())])

    def _repr_html_(self) -> str:
        names, texts = zip(*self.facts())
        return html_table({"": names, repr(self).partition("\n")[0]: texts})


def _bet(l: np.ndarray, risk: float, start: np.ndarray) -> np.ndarray:
    """Log wealth of each bet after each loss, shape (losses, bets); none where no loss can break the promise."""
    r = max(risk, 1e-9)
    if r >= 1:
        return np.zeros((0, len(start)))
    stakes = (np.minimum(_ALTERNATIVES * r, (1 + r) / 2) - r) / (r * (1 - r))
    return np.asarray(start + np.cumsum(np.log1p(stakes * (l[:, None] - r)), axis=0))


@dataclass(frozen=True, eq=False)
class GroupThresholds:
    """One threshold per group, each at delta / groups, so that all guarantees hold together with 1 - delta.

    Attributes
    ----------
    thresholds : dict
        By label; samples without a label are the group None.
    delta : float
        The probability with which some promise may fail.

    Examples
    --------
    >>> from abstain import select_threshold
    >>> both = select_threshold(
    ...     [0, 1, 0, 0], [0.9, 0.2, 0.8, 0.7], coverage=0.5, method="empirical", groups=["a", "a", "b", "b"]
    ... )
    >>> both["a"].value, both.accepts([0.8, 0.8], ["a", "b"]).tolist()
    (0.9, [False, True])
    """

    thresholds: dict[Any, Threshold]
    delta: float

    def __getitem__(self, label: Any) -> Threshold:
        return self.thresholds[label]

    @property
    def feasible(self) -> bool:
        """Has every group a threshold?"""
        return all(t.feasible for t in self.thresholds.values())

    @property
    def guarantee(self) -> str | None:
        """The joint promise; None unless every group has one (a group without a threshold accepts nothing)."""
        some = [t for t in self.thresholds.values() if t.feasible]
        if not some or any(t.guarantee is None for t in some):
            return None
        silent = [str(g) for g, t in self.thresholds.items() if not t.feasible]
        tail = f" Nothing is accepted in: {', '.join(silent)}." if silent else ""
        return (
            f"With probability at least {1 - self.delta:.4g} over the calibration data, the promise of each of "
            f"{len(some)} groups holds, all at once (each was chosen at {some[0].delta:.4g}).{tail}"
        )

    def accepts(self, confidence: Array, groups: Array) -> np.ndarray:
        """Which samples to accept, each by its own group's threshold; an unknown group is an error."""
        g = np.asarray(to_host(confidence), dtype=np.float64)
        given = np.asarray(to_host(groups), dtype=object)
        if g.shape != given.shape:
            raise ShapeError(f"accepts: needs one group per confidence, got {g.shape} and {given.shape}.")
        labels, codes = group_codes("accepts", given.reshape(-1))
        result = np.zeros(g.shape, dtype=bool)
        for code, label in enumerate(labels):
            if label not in self.thresholds:
                known = f"those calibrated ({', '.join(map(str, self.thresholds))})"
                raise InputError(f"accepts: `groups` must be among {known}, got {label!r}.")
            mine = (codes == code).reshape(g.shape)
            result[mine] = self.thresholds[label].accepts(g[mine])
        return result

    def to_json(self) -> str:
        """All groups in one document; labels are kept as pairs, since JSON keys are strings only."""
        pairs = [[label, _plain(t)] for label, t in self.thresholds.items()]
        stored = {"format": GROUPED_FORMAT, "delta": self.delta, "thresholds": pairs}
        return json.dumps(stored, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> GroupThresholds:
        """What `to_json` wrote."""
        d = _parsed(text)
        if not isinstance(d, dict) or d.get("format") != GROUPED_FORMAT:
            raise DataError("GroupThresholds.from_json: must hold stored group thresholds.")
        return cls({label: _threshold(t) for label, t in d["thresholds"]}, d["delta"])

    def __repr__(self) -> str:
        lines = [
            f"  {label!s:<16} {t.rule:<32} coverage {t.coverage:.4f}  (n = {t.n})"
            for label, t in self.thresholds.items()
        ]
        return "\n".join(["GroupThresholds", *lines, f"  guarantee: {self.guarantee or 'none'}"])


# JSON has no infinities and no NaN: they are written as "inf", "-inf" and null. Python's `repr` of the rest is exact.


def _plain(x: Any) -> Any:
    if isinstance(x, Threshold):
        return {"format": FORMAT, "rule": x.rule, **{f.name: _plain(getattr(x, f.name)) for f in fields(x)}}
    if is_dataclass(x):
        return {f.name: _plain(getattr(x, f.name)) for f in fields(x)}
    if isinstance(x, (np.ndarray, tuple)):
        return [_plain(v) for v in np.asarray(x).tolist()]
    if isinstance(x, float) and not math.isfinite(x):
        return None if math.isnan(x) else str(x)
    return x


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, TypeError) as error:
        raise DataError(f"Threshold.from_json: not JSON: {error}.") from error


def _column(values: list[Any], kind: Any = np.float64) -> np.ndarray:
    return np.asarray([math.nan if x is None else float(x) for x in values], dtype=kind)


def _threshold(d: Any) -> Threshold:
    if not isinstance(d, dict) or d.get("format") != FORMAT:
        found = d.get("format") if isinstance(d, dict) else type(d).__name__
        raise DataError(f"Threshold.from_json: must hold a stored threshold ({FORMAT!r}), got {found!r}.")
    kinds = {"accepted": np.int64, "passed": np.bool_}
    try:
        made = {f.name: d[f.name] for f in fields(Threshold)}
        made["value"] = None if d["value"] is None else float(d["value"])
        for name in ("coverage_interval", "bounded"):
            low, high = d[name]
            made[name] = (low, high)
        columns = {f.name: d["table"][f.name] for f in fields(Candidates)}
        made["table"] = Candidates(**{k: _column(x, kinds.get(k, np.float64)) for k, x in columns.items()})
        known = d["reference"]
        made["reference"] = Reference(
            _column(known["value"]), _column(known["at_least"], np.int64), known["n"]
        )
        made["advice"] = None if d["advice"] is None else Advice(**d["advice"])
        return Threshold(**made)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise DataError(f"Threshold.from_json: a field is missing or malformed: {error!r}.") from error
