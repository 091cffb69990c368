"""A threshold and what it promises: applied, stored, drawn, by group, and checked on later data.

Needs numpy only, so that a server can load and use it.
"""

from __future__ import annotations

import html
import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from abstain._arrays import Array, to_host
from abstain.errors import DataError, InfeasibleError, InputError, MissingDependencyError, ShapeError
from abstain.metrics._sample import prepare
from abstain.thresholds.calibration import COLUMNS, Advice, Candidates
from abstain.thresholds.testing import clopper_pearson

if TYPE_CHECKING:
    from os import PathLike

    from matplotlib.axes import Axes

    from abstain.thresholds.costs import CostCurve


@dataclass(frozen=True, eq=False)
class Reference:
    """The confidences of the calibration data, as counts at or above some of them: what later data are held against."""

    value: np.ndarray
    at_least: np.ndarray
    n: int


@dataclass(frozen=True, eq=False)
class Threshold:
    """Accept when `confidence >= value`; `value` is None when no threshold keeps the promise asked for.

    coverage, risk: on the calibration data. coverage_interval: holds for all thresholds at once, level 1 - delta.
    risk_upper: the certified bound when there is a guarantee on the risk; otherwise a limit at level 1 - delta for
    this one threshold, which the choice of the threshold makes a little too small. guarantee: what is promised, in
    words, or None. note: what to know besides. table: the thresholds it was chosen from. advice: what would be
    feasible, when nothing is.
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
        """Does the promise still hold on later data? See `abstain.thresholds.monitor`."""

        return check(self, loss, confidence, previous)

    def to_json(self) -> str:
        """Everything needed to use the threshold and to check its promise."""

        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Threshold:
        """The threshold that `to_json` wrote."""

        return from_json(text)

    def save(self, path: str | PathLike[str]) -> None:
        """Write JSON to a file."""
        from pathlib import Path

        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Threshold:
        """Read what `save` wrote."""
        from pathlib import Path

        return cls.from_json(Path(path).read_text(encoding="utf-8"))

    def frame(self, library: str | None = None) -> Any:
        """The table of candidates as a data frame."""
        return self.table.frame(library)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Risk against coverage at the candidates, the target and the choice; returns the axes."""

        return plot_threshold(self, ax)

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
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for name, text in self.facts()
        )
        return f"<table class='abstain-threshold'><tbody>{cells}</tbody></table>"


# monitor ------------------------------------------------------------------------------------------
#
# Does the promise still hold? A sequential test of the risk, and a two-sample test of the confidences.
#
# The risk test is a bet against the promise "the mean loss of the accepted is at most r", on each accepted sample in
# turn, at odds that belong to a few larger risks q:
#
# .. math:: E_t = \frac{1}{|Q|}\sum_{q\in Q}\prod_{i\le t}\Big(1 + \frac{q-r}{r(1-r)}(\ell_i - r)\Big)
#
# While the promise holds, the wealth E has mean at most 1 at every time, so it ever reaches 1/delta with probability
# at most delta (Ville): one may look after every sample, for ever, and stop at will. The confidences are compared
# with those of the calibration by Kolmogorov-Smirnov; look j of a series is held against delta / (j (j + 1)), which
# sums to delta.


_ALTERNATIVES = np.asarray([1.25, 1.5, 2.0, 3.0, 5.0])  # times the promised risk


@dataclass(frozen=True)
class Check:
    """How a threshold did on later data, all looks of a series together (pass it on as `previous=`).

    risk_p: anytime-valid p-value of "the promise holds"; risk_alarm: it fell to delta at some time, first after
    `alarm_after` samples. drift_p: of "the confidences are distributed as in calibration", for this look alone;
    drift_alarm: some look of the series was beyond its share of delta.
    """

    n: int
    accepted: int
    coverage: float
    coverage_interval: tuple[float, float]
    risk: float | None
    limit: float
    risk_p: float
    risk_alarm: bool
    alarm_after: int | None
    drift_p: float
    drift_alarm: bool
    looks: int
    delta: float
    loss_sum: float
    log_wealth: tuple[float, ...]
    log_peak: float
    value: float

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


def check(t: Threshold, loss: Array, confidence: Array, previous: Check | None = None) -> Check:
    """Later samples in the order they came; with `previous`, the next stretch of the same series."""
    if t.value is None:
        raise InfeasibleError("Threshold.check: there is no threshold to check; nothing is accepted.")
    l, g = _later(t, loss, confidence)
    accepted = t.accepts(g)
    watched = l * accepted if t.method == "crc" else l[accepted]
    limit = _limit(t)
    if previous is not None and (previous.value, previous.limit, previous.delta) != (t.value, limit, t.delta):
        raise InputError(
            f"Threshold.check: `previous` must be a check of this threshold (value {t.value:g}, risk {limit:g}, delta "
            f"{t.delta:g}), got one of value {previous.value:g}, risk {previous.limit:g}, delta {previous.delta:g}. "
            f"Begin a new series without `previous=`."
        )
    wealth, peak, crossed = _bet(watched, limit, t, previous)
    n = len(l) + (previous.n if previous else 0)
    taken = int(accepted.sum()) + (previous.accepted if previous else 0)
    lost = float(l[accepted].sum()) + (previous.loss_sum if previous else 0.0)
    looks = 1 + (previous.looks if previous else 0)
    low, high = clopper_pearson(taken, n, 1 - t.delta)
    drift_p = compare(t.reference, g)
    width = t.bounded[1] - t.bounded[0]
    return Check(
        n=n,
        accepted=taken,
        coverage=taken / n,
        coverage_interval=(float(low), float(high)),
        risk=None if taken == 0 else t.bounded[0] + width * lost / taken,
        limit=limit,
        risk_p=min(1.0, float(np.exp(-peak))),
        risk_alarm=bool(peak >= -np.log(t.delta)),
        alarm_after=_alarm_after(crossed, accepted, t, previous),
        drift_p=drift_p,
        drift_alarm=drift_p <= t.delta / (looks * (looks + 1)) or bool(previous and previous.drift_alarm),
        looks=looks,
        delta=t.delta,
        loss_sum=lost,
        log_wealth=tuple(wealth.tolist()),
        log_peak=peak,
        value=t.value,
    )


def _later(t: Threshold, loss: Array, confidence: Array) -> tuple[np.ndarray, np.ndarray]:
    sample = prepare("Threshold.check", to_host(loss), to_host(confidence))
    l = (sample.loss.astype(np.float64) - t.bounded[0]) / (t.bounded[1] - t.bounded[0])
    if l.min() < 0 or l.max() > 1:
        raise InputError(f"Threshold.check: `loss` must lie within bounded={t.bounded}, as in calibration.")
    return l, sample.confidence.astype(np.float64)


def _limit(t: Threshold) -> float:
    """What is promised of the risk: the target, or the limit that was stated where there was no target."""
    if t.form == "risk":
        return t.target
    return t.bounded[1] if t.risk_upper is None else t.risk_upper


def _bet(
    l: np.ndarray, limit: float, t: Threshold, previous: Check | None
) -> tuple[np.ndarray, float, int | None]:
    """Log wealth of each bet, the largest log of their mean so far, and at which of `l` it first reached 1/delta."""
    r = max((limit - t.bounded[0]) / (t.bounded[1] - t.bounded[0]), 1e-9)
    start = np.asarray(previous.log_wealth) if previous else np.zeros(len(_ALTERNATIVES))
    peak = previous.log_peak if previous else 0.0
    if r >= 1 or not len(l):
        return start, peak, None
    q = np.minimum(_ALTERNATIVES * r, (1 + r) / 2)
    stakes = (q - r) / (r * (1 - r))
    path = start + np.cumsum(np.log1p(stakes * (l[:, None] - r)), axis=0)
    mixed = np.logaddexp.reduce(path, axis=1) - np.log(len(stakes))
    over = np.flatnonzero(mixed >= -np.log(t.delta))
    return path[-1], max(peak, float(mixed.max())), int(over[0]) if len(over) else None


def _alarm_after(
    crossed: int | None, accepted: np.ndarray, t: Threshold, previous: Check | None
) -> int | None:
    if previous is not None and previous.alarm_after is not None:
        return previous.alarm_after
    if crossed is None:
        return None
    place = crossed if t.method == "crc" else int(np.flatnonzero(accepted)[crossed])
    return place + 1 + (previous.n if previous else 0)


def compare(reference: Reference, confidence: np.ndarray) -> float:
    """Kolmogorov-Smirnov p-value (asymptotic law) over the confidences kept of the calibration."""
    from scipy.special import kolmogorov

    n, m = reference.n, len(confidence)
    later = m - np.searchsorted(np.sort(confidence), reference.value, side="left")
    gap = np.abs(reference.at_least / n - later / m).max()
    return float(kolmogorov(np.sqrt(n * m / (n + m)) * gap))


# grouped ------------------------------------------------------------------------------------------
#
# A threshold for each group, all promises at once.


@dataclass(frozen=True, eq=False)
class GroupThresholds:
    """One threshold per group, each at delta / groups, so that all guarantees hold together with 1 - delta."""

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
        g, labels = np.asarray(to_host(confidence), dtype=np.float64), np.asarray(to_host(groups))
        if g.shape != labels.shape:
            raise ShapeError(f"accepts: needs one group per confidence, got {g.shape} and {labels.shape}.")
        result = np.zeros(g.shape, dtype=bool)
        for label in np.unique(labels):
            if label.item() not in self.thresholds:
                known = ", ".join(map(str, self.thresholds))
                raise InputError(
                    f"accepts: `groups` must be among those calibrated ({known}), got {label.item()!r}."
                )
            mine = labels == label
            result[mine] = self.thresholds[label.item()].accepts(g[mine])
        return result

    def to_json(self) -> str:
        """All groups in one document."""

        return group_to_json(self)

    @classmethod
    def from_json(cls, text: str) -> GroupThresholds:
        """What `to_json` wrote."""

        return cls(*group_from_json(text))

    def __repr__(self) -> str:
        lines = [
            f"  {label!s:<16} {t.rule:<32} coverage {t.coverage:.4f}  (n = {t.n})"
            for label, t in self.thresholds.items()
        ]
        return "\n".join(["GroupThresholds", *lines, f"  guarantee: {self.guarantee or 'none'}"])


# stored -------------------------------------------------------------------------------------------
#
# A threshold as JSON and back. numpy only.


FORMAT = "abstain threshold 1"
GROUPED_FORMAT = "abstain group thresholds 1"
_PLAIN = (
    "form", "target", "method", "delta", "n", "coverage", "risk", "risk_upper", "guarantee", "note",
)  # fmt: skip
_KINDS = {"accepted": np.int64, "passed": np.bool_}


def _write(x: float | None) -> float | str | None:
    """JSON has no infinities and no NaN; Python's `repr` of the rest is exact."""
    if x is None or (isinstance(x, float) and math.isnan(x)):
        return None
    return ("inf" if x > 0 else "-inf") if isinstance(x, float) and math.isinf(x) else x


def _read(x: Any, missing: float | None = None) -> Any:
    return missing if x is None else float(x) if isinstance(x, str) else x


def as_dict(t: Threshold) -> dict[str, Any]:
    """Plain values only."""
    return {
        "format": FORMAT,
        "rule": t.rule,
        "value": _write(t.value),
        **{name: getattr(t, name) for name in _PLAIN},
        "coverage_interval": list(t.coverage_interval),
        "bounded": list(t.bounded),
        "advice": None if t.advice is None else asdict(t.advice),
        "reference": {
            "value": [_write(v) for v in t.reference.value.tolist()],
            "at_least": t.reference.at_least.tolist(),
            "n": t.reference.n,
        },
        "table": {name: [_write(x) for x in column] for name, column in t.table.columns().items()},
    }


def to_json(t: Threshold) -> str:
    """Strict JSON."""
    return json.dumps(as_dict(t), allow_nan=False)


def _table(columns: dict[str, list[Any]]) -> Candidates:
    arrays: dict[str, Any] = {
        name: np.asarray([_read(x, math.nan) for x in columns[name]], dtype=_KINDS.get(name, np.float64))
        for name in COLUMNS
    }
    return Candidates(**arrays)


def from_dict(d: dict[str, Any]) -> Threshold:
    """Back from plain values."""
    if not isinstance(d, dict) or d.get("format") != FORMAT:
        found = d.get("format") if isinstance(d, dict) else type(d).__name__
        raise DataError(f"Threshold.from_json: must hold a stored threshold ({FORMAT!r}), got {found!r}.")
    try:
        reference = d["reference"]
        return Threshold(
            value=_read(d["value"]),
            **{name: d[name] for name in _PLAIN},
            coverage_interval=(d["coverage_interval"][0], d["coverage_interval"][1]),
            bounded=(d["bounded"][0], d["bounded"][1]),
            advice=None if d["advice"] is None else Advice(**d["advice"]),
            reference=Reference(
                np.asarray([_read(v) for v in reference["value"]], dtype=np.float64),
                np.asarray(reference["at_least"], dtype=np.int64),
                reference["n"],
            ),
            table=_table(d["table"]),
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise DataError(f"Threshold.from_json: a field is missing or malformed: {error!r}.") from error


def parse(text: str) -> Any:
    """JSON text, or a clear error."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, TypeError) as error:
        raise DataError(f"Threshold.from_json: not JSON: {error}.") from error


def from_json(text: str) -> Threshold:
    """A threshold from what `to_json` wrote."""
    return from_dict(parse(text))


def group_to_json(g: GroupThresholds) -> str:
    """Labels are kept as pairs, since JSON keys are strings only."""
    pairs = [[label, as_dict(t)] for label, t in g.thresholds.items()]
    return json.dumps({"format": GROUPED_FORMAT, "delta": g.delta, "thresholds": pairs}, allow_nan=False)


def group_from_json(text: str) -> tuple[dict[Any, Threshold], float]:
    """Thresholds by label, and delta."""
    d = parse(text)
    if not isinstance(d, dict) or d.get("format") != GROUPED_FORMAT:
        raise DataError("GroupThresholds.from_json: must hold stored group thresholds.")
    return {label: from_dict(t) for label, t in d["thresholds"]}, d["delta"]


# drawing ------------------------------------------------------------------------------------------
#
# Pictures of thresholds and costs; matplotlib is imported here and nowhere else.


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingDependencyError("plot()", "matplotlib", "plot") from error
    return plt.subplots()[1]


def plot_threshold(t: Threshold, ax: Any = None) -> Any:
    """Risk against coverage at the candidates; what passed is drawn solid."""
    ax = _axes(ax)
    table = t.table
    ax.plot(table.coverage, table.risk, color="0.6", lw=1, label="calibration risk")
    ax.plot(table.coverage[table.passed], table.risk[table.passed], ".", color="C0", ms=4, label="passed")
    if t.form == "risk":
        ax.axhline(t.target, color="C3", ls="--", lw=1, label=f"target {t.target:g}")
    if t.value is not None:
        ax.plot([t.coverage], [t.risk], "o", color="C2", label=f"chosen: {t.rule}")
    ax.set(xlabel="coverage", ylabel="risk of the accepted", xlim=(0, 1), ylim=(0, None))
    ax.set_title("guaranteed" if t.guarantee else "no guarantee" if t.feasible else "no feasible threshold")
    ax.legend(fontsize="small")
    return ax


def plot_costs(curve: CostCurve, ax: Any = None) -> Any:
    """Cost and its parts against coverage, the least marked."""
    ax = _axes(ax)
    ax.plot(curve.coverage, curve.cost, color="C0", label="cost")
    ax.plot(curve.coverage, curve.model_cost, color="C3", lw=1, ls=":", label="model errors")
    ax.plot(curve.coverage, curve.reject_cost, color="0.5", lw=1, ls=":", label="rejections")
    if curve.human_loss.any():
        ax.plot(curve.coverage, curve.system_loss, color="C1", lw=1, ls="--", label="loss of the system")
    b = curve.best
    ax.plot([curve.coverage[b]], [curve.cost[b]], "o", color="C2", label=f"least: {curve.cost[b]:.4g}")
    ax.set(xlabel="coverage of the model", ylabel="per sample", xlim=(0, 1), ylim=(0, None))
    ax.legend(fontsize="small")
    return ax
