r"""Does the promise still hold? A sequential test of the risk, and a two-sample test of the confidences.

The risk test is a bet against the promise "the mean loss of the accepted is at most r", on each accepted sample in
turn, at odds that belong to a few larger risks q:

.. math:: E_t = \frac{1}{|Q|}\sum_{q\in Q}\prod_{i\le t}\Big(1 + \frac{q-r}{r(1-r)}(\ell_i - r)\Big)

While the promise holds, the wealth E has mean at most 1 at every time, so it ever reaches 1/delta with probability at
most delta (Ville): one may look after every sample, for ever, and stop at will. The confidences are compared with those
of the calibration by Kolmogorov-Smirnov; look j of a series is held against delta / (j (j + 1)), which sums to delta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abstain._arrays import Array, to_host
from abstain.errors import InfeasibleError, InputError
from abstain.metrics._sample import prepare
from abstain.thresholds.intervals import clopper_pearson
from abstain.thresholds.threshold import Reference, Threshold

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
