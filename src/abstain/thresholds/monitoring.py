"""Holding later data against a promise: looks, series of looks, and alarms."""

from __future__ import annotations

import base64
import binascii
import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np

from abstain import _tables
from abstain._arrays import Array, to_host
from abstain._stored import Finite, Share, Stored, Within
from abstain.errors import AbstainWarning, InfeasibleError, InputError
from abstain.inference.ratios import interval_of_mean
from abstain.metrics._sample import group_codes, prepare
from abstain.thresholds import bets
from abstain.thresholds.counted_rows import are_rows_seen, explained_by_chance, remember_rows
from abstain.thresholds.cut import NO_CONFIDENCE, CheckedConfidences
from abstain.thresholds.testing import clopper_pearson, drift_p_value

if TYPE_CHECKING:
    from abstain.thresholds.rules import Threshold

Count = Annotated[int, Within(0)]
_TESTS_SHARING_DELTA = 2  # the risk and the confidences share delta
CLUSTERS_REMEMBERED = 1_000_000  # by one series; 11 bytes of its file for each
FILES_REMEMBERED = 2_000  # by one series; 20 bytes of its file for each, so that the file stays below 50 kB
FILE_DIGITS = (
    16  # of a file's SHA-256 that are remembered: two files in 2,000 agree by chance once in 10^13 series
)
RECENT_COUNTED = 1_000  # the latest looks that hold so many counted samples are called recent ...
RECENT_LOOKS = 100  # ... but no more looks than this
_REFERENCE_POINTS = 512  # confidences that a rule remembers of its calibration
_EQUAL_COUNTS_BY_CHANCE = 1e-6  # a probability below which no chance explains that all counts are equal
_NEW_SERIES = "Begin a new series, in a new file; its false alarms are counted anew."


# Given the row numbers of the samples that count in a look, p-values of "these samples are as in calibration".
FurtherPValues = Callable[[np.ndarray], list[float]]


@dataclass(frozen=True, eq=False)
class Reference:
    """The confidences of the calibration data, as counts at or above some of them: what later data are held against.

    With importance weights a sample counts as its share of the heaviest weight. That keeps the comparison valid
    whatever weights and confidences have in common: no sample moves a share by more than 1/n.
    """

    value: Annotated[np.ndarray, Within()]
    at_least: Annotated[np.ndarray, Within(0)]
    n: Annotated[float, Within(1)]

    @classmethod
    def of(cls, confidences: np.ndarray) -> Reference:
        """Summarize the confidences of calibration samples without weights, in any order.

        Samples with a confidence of minus infinity gave no answer: they are counted in `n` alone.
        """
        rising, counts = np.unique(confidences[confidences > -np.inf], return_counts=True)
        falling = rising[::-1]
        at_least = np.cumsum(counts[::-1])
        rows = spread_rows(len(falling))
        return cls(falling[rows], at_least[rows].astype(np.float64), float(len(confidences)))

    def is_consistent(self, n: int) -> bool:
        """Do the confidences fall while the counts rise, up to all of the samples, of which there are at most `n`?

        There must be at least one confidence, and one count for each.
        """
        if not len(self.value) == len(self.at_least) > 0:
            return False
        values_fall = bool((np.diff(self.value) < 0).all())
        counts_rise = bool((np.diff(self.at_least) >= 0).all())
        return values_fall and counts_rise and bool((self.at_least <= self.n).all()) and self.n < n + 1

    def p_value(self, surely: np.ndarray, possibly: np.ndarray, m: int, largest_cluster: float) -> float:
        """Compute the p-value of "the confidences of m later samples are distributed as in calibration".

        `surely` and `possibly` count the later confidences at or above each `value`. They differ where rounding hides
        on which side one lies; the distance is then the smallest that the counts allow. Up to `largest_cluster` samples
        may be copies of one, so as many count as one. Of the n calibration samples `at_least` lie at or above each
        `value`. There must be a later sample (m > 0).
        """
        calibration_share = self.at_least / self.n
        distance = np.maximum(surely / m - calibration_share, calibration_share - possibly / m).max()
        return drift_p_value(max(0.0, float(distance)), self.n / largest_cluster, m / largest_cluster)

    def has_counts(self, at_least: np.ndarray, m: int, largest_cluster: float) -> bool:
        """Do m later samples have exactly the counts of the calibration samples, and does no chance explain that?

        `at_least` counts the later confidences at or above each `value`, and `self.at_least` those of the calibration,
        of which there are `self.n`. The values fall, so the counts rise. Where neighbouring values have one count, as
        those do that differ by rounding alone, the last of them is compared. Fresh samples would have exactly these
        counts with at most the probability that a multinomial law with these shares gives them. Up to `largest_cluster`
        samples may be copies of one, so as many count as one.
        """
        # positions of the last of each run of equal counts
        last_of_equals = np.append(np.flatnonzero(np.diff(at_least)), len(at_least) - 1)
        at_least_in_calibration = self.at_least[last_of_equals]
        if m != self.n or not np.array_equal(at_least[last_of_equals], at_least_in_calibration):
            return False
        from scipy.special import gammaln, xlogy

        draws = m / largest_cluster  # independent ones
        # of calibration samples between neighbouring values, and beyond the first and the last
        counts = np.diff(at_least_in_calibration, prepend=0.0, append=self.n) / largest_cluster
        # the log of the multinomial probability of these counts, with the shares `counts / draws`; no chance explains
        # what has a probability below one in a million
        log_orders = gammaln(draws + 1) - gammaln(counts + 1).sum()
        log_probability = log_orders + xlogy(counts, counts / draws).sum()
        return bool(log_probability < np.log(_EQUAL_COUNTS_BY_CHANCE))


def spread_rows(count: int) -> np.ndarray:
    """Return the rows of a summary of `count` sorted confidences: all of them, or some hundred from first to last."""
    return np.unique(np.linspace(0, count - 1, min(count, _REFERENCE_POINTS)).astype(np.int64))


def risk_alarm_level(delta: float) -> float:
    """The p-value at which the risk alarms: its share of delta."""
    return delta / _TESTS_SHARING_DELTA


def drift_alarm_level(delta: float, look: int) -> float:
    """The p-value at which the confidences of one look alarm: shares of delta that sum to half of it over all looks."""
    return delta / _TESTS_SHARING_DELTA / (look * (look + 1))


@dataclass(frozen=True)
class Check(Stored, _tables.Notebook):
    """What later data say about a promise. Pass it as `previous` to continue the series.

    While the promise holds and the confidences are distributed as in calibration, the whole series raises an alarm,
    by the risk or by the confidences, with probability at most delta: half of it for each. An alarm stays.

    Attributes
    ----------
    n, accepted : int
        Samples of the whole series, and how many of them the threshold accepts.
    coverage, coverage_interval
        Share accepted, and its exact interval at level 1 - delta. With clusters it is wider: as many samples as the
        largest cluster had count as one.
    counted : int
        How many of the accepted the promise is about: all of them, unless it is about some of the samples only.
    risk, risk_interval
        Mean loss of the counted (None when there is none), and its interval at level 1 - delta: exact for a 0/1 loss,
        wider than needed for others. With clusters, that of a single look is the cluster interval of `evaluate`; that
        of several looks, of which no rows are kept, is wider than needed: as many samples as the largest cluster had
        count as one.
    recent_counted, recent_risk, recent_risk_interval
        The same of the recent looks alone: the latest that hold 1,000 counted samples, at most 100 looks.
    look_counted, look_loss_sum, look_risk, look_risk_interval
        The same of the last look alone; `look_loss_sum` is the summed loss of its counted samples, scaled to [0, 1],
        for 0/1 losses the number of errors. Risk and interval are None where nothing was counted in it, and in a series
        of an older format until its next look.
    limit : float
        The promised risk.
    risk_p : float
        Smallest p-value so far of "the promise holds". It may be looked at after every sample, and does not depend on
        how the samples are divided into looks.
    risk_alarm : bool
        Whether `risk_p` ever fell to delta / 2.
    risk_alarm_look, risk_alarm_p, alarm_after : int, float, int, or None
        The look of that alarm, `risk_p` at the end of that look, and after how many samples of the series it came,
        those that were not accepted included.
    alarm_counted, alarm_loss_sum : int, float, or None
        How many counted samples of that look came before the alarm, and their summed loss, scaled to [0, 1]; for 0/1
        losses the number of errors. None also in a series that an earlier version began.
    drift_p : float
        p-value of "the confidences are distributed as in calibration", of the last look alone.
    drift_alarm : bool
        Whether the p-value of some look j fell to its level, delta / (2 j (j + 1)).
    drift_alarm_look, drift_alarm_p : int, float, or None
        The first such look, and its p-value.
    looks : int
        Calls of `check` in this series that brought new samples.
    from_calibration : int
        About how many samples of the series are rows of the calibration data, which say nothing new; recognised look by
        look by their confidences, where no chance explains that so many are equal.
    left_out : int
        Samples left out of everything because an earlier look held their cluster.
    delta, value : float
        Of the threshold.
    counts_errors : bool
        Is each loss 0 or 1?
    loss_sum : float
        Summed loss of the counted, scaled to [0, 1].
    recent_looks : tuple of (int, float)
        Counted samples and their summed, scaled loss in each of the recent looks, oldest first.
    settled, log_wealth, log_peak
        How many terms (counted samples, or clusters) the bets against the promise were settled on, the log wealth of
        the bets at each of the odds, and the largest log of all wealth so far.
    clusters_seen : str
        64-bit fingerprints of the clusters of earlier looks, oldest first, in base64.
    files : tuple of str
        First 16 digits of the SHA-256 of the files that the command line counted.
    rows_seen : tuple of str
        Of each of the last 8 looks of the command line, 48-bit fingerprints of at most 64 of its rows, in base64.

    Examples
    --------
    >>> from abstain import select_threshold
    >>> t = select_threshold([0] * 99 + [1], list(range(100, 0, -1)), risk=0.2)
    >>> t.check([0, 0, 0], [90, 80, 70]).holds
    True
    """

    _noun: ClassVar[str] = "a check"
    _has_checksum: ClassVar[bool] = True
    _number: ClassVar[int] = 6
    _remedy: ClassVar[str] = _NEW_SERIES

    n: Count = 0  # the defaults are those of a series that has not begun
    accepted: Count = 0
    coverage: Share = 0.0
    coverage_interval: tuple[Share, Share] = (0.0, 1.0)
    counted: Count = 0
    risk: Finite | None = None
    risk_interval: tuple[Finite, Finite] | None = None
    recent_counted: Count = 0
    recent_risk: Finite | None = None
    recent_risk_interval: tuple[Finite, Finite] | None = None
    look_counted: Count = 0
    look_loss_sum: Finite = 0.0
    look_risk: Finite | None = None
    look_risk_interval: tuple[Finite, Finite] | None = None
    limit: Finite = 0.0
    risk_p: Share = 1.0
    risk_alarm: bool = False
    risk_alarm_look: Count | None = None
    risk_alarm_p: Share | None = None
    alarm_after: Count | None = None
    alarm_counted: Count | None = None
    alarm_loss_sum: Finite | None = None
    drift_p: Share = 1.0
    drift_alarm: bool = False
    drift_alarm_look: Count | None = None
    drift_alarm_p: Share | None = None
    looks: Count = 0
    left_out: Count = 0
    from_calibration: Count = 0
    delta: Share = 0.0
    loss_sum: Finite = 0.0
    recent_looks: tuple[tuple[Count, Finite], ...] = ()
    settled: Count = 0
    log_wealth: tuple[Finite, ...] = bets.first_log_wealth()
    log_peak: Finite = 0.0
    value: Annotated[float, Within(infinite=True)] = 0.0
    counts_errors: bool = False
    clusters_seen: str = ""
    files: tuple[str, ...] = ()
    rows_seen: tuple[str, ...] = ()

    @classmethod
    def _upgraded(cls, record: Any) -> Any:
        """The parsed JSON of formats 3 to 5 in format 6, which has more fields; anything else unchanged.

        An older record does not tell the values of these fields, so they say that nothing is known, and a series with
        an alarm is described in fewer words. A change of the current format number, 6, needs a change here too.
        """
        formats = [f"abstain.Check/{number}" for number in (3, 4, 5)]
        if not isinstance(record, dict) or record.get("format") not in formats:
            return record
        new_in_format_4: dict[str, Any] = {
            # counted samples of the alarmed look before the alarm, and their summed loss: None if not known
            "alarm_counted": None,
            "alarm_loss_sum": None,
            # samples recognised as calibration rows: format 3 did not look for them
            "from_calibration": 0,
            # is each loss known to be 0 or 1? Only words in `__repr__` depend on it, and the next look sets it.
            "counts_errors": False,
        }
        new_in_format_6: dict[str, Any] = {
            "look_counted": 0,
            "look_loss_sum": 0.0,
            "look_risk": None,
            "look_risk_interval": None,
        }
        recent_looks = record.get("recent_looks")
        last_look = recent_looks[-1] if isinstance(recent_looks, list) and recent_looks else None
        if isinstance(last_look, list) and len(last_look) == 2:  # its counted samples and their summed loss
            new_in_format_6["look_counted"], new_in_format_6["look_loss_sum"] = last_look
        # fields that the record has itself are kept
        return {"rows_seen": [], **new_in_format_4, **new_in_format_6, **record, "format": cls._format()}

    def _readable(self) -> dict[str, Any]:
        return {"holds": self.holds}

    def _rules(self) -> dict[str, Any]:
        """Return each rule that a stored check must keep, as the message to show, and whether it keeps it.

        `n` counts the samples of the series, `accepted` those of them that the threshold accepts, and `counted` those
        of the accepted that the promise is about. `from_calibration` of the n samples are rows of the calibration data.

        Bets against the promise were settled on `settled` terms, at most `n`: one for each counted sample (with method
        "crc" for each sample) or for each cluster. `log_wealth` is the log wealth of the bets now, at each of the odds.
        `log_peak` is the largest log of all wealth so far; all wealth includes what no bet holds yet, which is a
        function of `settled`. Where it reaches 2 / delta, the risk raises an alarm: `alarm_after` is the number of
        samples of the series up to then, `risk_alarm_look` its look, `risk_alarm_p` the p-value. Of that look,
        `alarm_counted` samples were counted up to the alarm, and lost `alarm_loss_sum`. A look is a call of `check`
        with new samples. All losses are scaled to [0, 1].
        """
        bet_count = len(bets.ALTERNATIVES)
        # a series that has not begun has a delta of 0, and no alarm
        has_peaked = self.delta > 0 and self.log_peak >= -np.log(risk_alarm_level(self.delta))
        log_total = float(bets.total_log_wealth(np.asarray(self.log_wealth), self.settled))
        # of each recent look: how many counted samples it had, and their summed loss
        recent_loss = sum(loss_sum for _, loss_sum in self.recent_looks)
        recent_counted = sum(counted for counted, _ in self.recent_looks)
        last_look = self.recent_looks[-1] if self.recent_looks else (0, 0.0)
        expected_coverage = self.accepted / self.n if self.n else 0.0
        # each set holds one truth value if all of its fields are there, or all are None
        has_risk_alarm_field = {
            value is not None for value in (self.alarm_after, self.risk_alarm_look, self.risk_alarm_p)
        }
        has_drift_alarm_field = {value is not None for value in (self.drift_alarm_look, self.drift_alarm_p)}
        alarm_looks = [look for look in (self.risk_alarm_look, self.drift_alarm_look) if look is not None]
        drift_alarm_fits = True
        if self.drift_alarm_p is not None:
            look_of_alarm = self.drift_alarm_look or 1  # that it is not None, another rule checks
            drift_alarm_fits = self.drift_alarm_p <= drift_alarm_level(self.delta, look_of_alarm)
        return {
            f"`log_wealth` must hold {bet_count} numbers.": len(self.log_wealth) == bet_count,
            "`accepted` must be at most `n`.": self.accepted <= self.n,
            "`coverage` must be `accepted` of `n`.": self.coverage == expected_coverage,
            "`counted` must be at most `accepted`.": self.counted <= self.accepted,
            "`loss_sum` must lie between 0 and `counted`.": 0 <= self.loss_sum <= self.counted,
            "`recent_looks` must hold at most 100 looks.": len(self.recent_looks) <= RECENT_LOOKS,
            "`recent_counted` must be those of `recent_looks`.": self.recent_counted
            == recent_counted
            <= self.counted,
            "`recent_looks` must not lose more than all looks.": recent_loss <= self.loss_sum + 1e-6,
            "`look_counted` and `look_loss_sum` must be the last of `recent_looks`.": last_look
            == (self.look_counted, self.look_loss_sum),
            "`settled` must be at most `n`.": self.settled <= self.n,
            "`from_calibration` must be at most `n`.": self.from_calibration <= self.n,
            # True also if both are None
            "`alarm_loss_sum` must lie between 0 and `alarm_counted`.": self._alarm_counts_fit(),
            "`risk_alarm_look`, `risk_alarm_p` and `alarm_after` must come with `risk_alarm`.": has_risk_alarm_field
            == {self.risk_alarm},
            "`drift_alarm_look` and `drift_alarm_p` must come with `drift_alarm`.": has_drift_alarm_field
            == {self.drift_alarm},
            "an alarm must come at one of the `looks`.": all(1 <= look <= self.looks for look in alarm_looks),
            "`drift_alarm_p` must lie below its level.": drift_alarm_fits,
            "`log_wealth` must not lie above `log_peak`.": log_total <= self.log_peak + 1e-6,
            "`risk_alarm` must say whether `log_peak` is beyond 2/delta.": self.risk_alarm == has_peaked,
            "`clusters_seen` must hold fingerprints in base64.": _are_fingerprints(self.clusters_seen),
            "`files` must hold 16 digits of SHA-256 hashes.": _are_hashes(self.files),
            "`rows_seen` must hold fingerprints in base64.": are_rows_seen(self.rows_seen),
        }

    def _alarm_counts_fit(self) -> bool:
        """Do the counts at the alarm of the risk come together, with the alarm, and within the counts of the series?"""
        if self.alarm_counted is None or self.alarm_loss_sum is None:
            return self.alarm_counted is None and self.alarm_loss_sum is None
        return (
            self.risk_alarm and 0 <= self.alarm_loss_sum <= self.alarm_counted + 1e-6 <= self.counted + 1e-6
        )

    @property
    def holds(self) -> bool:
        """No alarm so far."""
        return not (self.risk_alarm or self.drift_alarm)

    def _words_on_alarms(self) -> str:
        """Say what raised an alarm, the risk or the confidences, and what did not; "no alarm" where nothing did.

        A look is a call of `check` that brought new samples, numbered from 1.
        """
        if self.risk_alarm and self.drift_alarm:
            return (
                f"ALARM by the risk at look {self.risk_alarm_look} and by the confidences at look "
                f"{self.drift_alarm_look}"
            )
        if self.risk_alarm:
            return f"ALARM by the risk at look {self.risk_alarm_look}; confidences: no alarm"
        if self.drift_alarm:
            return f"ALARM by the confidences at look {self.drift_alarm_look}; risk: no alarm"
        return "no alarm"

    def _words_on_time_of_alarm(self) -> str:
        """Say when the alarm of the risk was raised: at which p-value, and on how many accepted samples of its look.

        That p-value is not the one at the end of the look, which is `risk_alarm_p`.
        """
        raised = f"raised when p fell to {risk_alarm_level(self.delta):g}"
        if self.alarm_counted is None or self.alarm_loss_sum is None:
            return f"{raised}, after {self.alarm_after:,} samples"
        if self.counts_errors:
            return f"{raised}, with {self.alarm_loss_sum:,.0f} of its first {self.alarm_counted:,} accepted wrong"
        return f"{raised}, after {self.alarm_counted:,} accepted samples of it"

    def _words_on_recent_risk(self) -> str:
        """After an alarm of the risk: words on whether the recent risk is above the promised one; else nothing.

        An interval that reaches below the promise takes nothing from an alarm, which rests on a stricter test of all
        samples in their order. The recent risk is that of the latest looks (calls of `check`), None if they counted no
        sample; `limit` is the promised risk.
        """
        if not self.risk_alarm or self.recent_risk is None or self.recent_risk_interval is None:
            return ""
        if self.recent_risk_interval[0] > self.limit:
            return f": above {self.limit:.4g}"
        if self.recent_risk > self.limit:
            return f": above {self.limit:.4g}, by an interval that includes it; the alarm stands"
        return f": not above {self.limit:.4g} now; the alarm stays in this series"

    def _words_on_last_look(self) -> str:
        """Describe the risk of the last look alone, which a longer good time before it hides in the other risks.

        A look is a call of `check` that brought new samples. `look_counted` of them are accepted and the promise is
        about them, `look_loss_sum` is their summed loss: the number of errors if each loss is 0 or 1 (`counts_errors`).
        `limit` is the promised risk. `delta` is positive in a series that has begun.
        """
        if self.look_counted == 0:
            return "this look: nothing accepted, so it says nothing about the risk"
        if self.counts_errors:
            text = f"this look: {self.look_loss_sum:,.0f} of {self.look_counted:,} accepted wrong"
        else:
            text = f"this look: {self.look_counted:,} accepted"
        if self.look_risk is None or self.look_risk_interval is None:
            return text  # a series of an older format
        text += f", risk {_with_limits(self.look_risk, self.look_risk_interval)}"
        if self.look_risk_interval[0] > self.limit and not self.risk_alarm:
            # an interval at level 1 - delta lies above the true risk with probability delta / 2
            text += (
                f": above {self.limit:.4g}. The series has no alarm, but look at these errors (about one look in "
                f"{2 / self.delta:.0f} is above by chance)"
            )
        return text

    def __repr__(self) -> str:
        """Say whether there is an alarm, and how risk, coverage and confidences compare with the promise."""
        return self.describe("this promise")

    def describe(self, promise: str) -> str:
        """The text of the repr, in which a promise about some answers only is called `promise`.

        A look is a call that brought new samples; `counted` are the accepted samples that the promise is about. A risk
        and its interval are None where nothing was counted, and shown as "-". An alarm comes with its look and p-value.
        """
        low, high = self.coverage_interval
        words_on_risk_alarm = ""
        if self.risk_alarm:
            p_value = self.risk_alarm_p or 0.0  # not None with an alarm; `or` is for type checkers
            words_on_risk_alarm = (
                f", ALARM at look {self.risk_alarm_look} ({_tables.p_value_text(p_value)} at its end), "
                f"{self._words_on_time_of_alarm()}"
            )
        words_on_drift_alarm = ""
        if self.drift_alarm:
            p_value = self.drift_alarm_p or 0.0
            words_on_drift_alarm = (
                f", ALARM at look {self.drift_alarm_look} ({_tables.p_value_text(p_value)})"
            )
        # in the last look, which may come after that alarm
        differ = self.looks > 0 and self.drift_p <= drift_alarm_level(self.delta, self.looks)
        recent_look_count = len(self.recent_looks)  # the last of all `looks`
        recent_range = f"look {self.looks}"
        if recent_look_count > 1:
            recent_range = f"looks {self.looks - recent_look_count + 1} to {self.looks}"
        which = ""  # of the accepted samples, if the promise is about some of them
        if self.counted < self.accepted:
            which = f" that {promise} is about (of {self.accepted})"
        drift_level = f" (limit {drift_alarm_level(self.delta, self.looks):.3g})" if self.looks else ""
        lines = [
            f"Check: {self._words_on_alarms()} (n = {self.n}, look {self.looks})",
            f"  risk {_with_limits(self.risk, self.risk_interval)} of {self.counted} accepted{which}, promised at most "
            f"{self.limit:.4g}: {_tables.p_value_text(self.risk_p)} at any time{words_on_risk_alarm}",
            f"  recent risk {_with_limits(self.recent_risk, self.recent_risk_interval)} of {self.recent_counted} "
            f"accepted in {recent_range}{self._words_on_recent_risk()}",
            f"  {self._words_on_last_look()}",
            f"  coverage {self.coverage:.4f} [{low:.4f}, {high:.4f}]; confidences {_as_in_calibration(differ)}: "
            f"{_tables.p_value_text(self.drift_p)} in this look{drift_level}{words_on_drift_alarm}",
        ]
        if self.clusters_seen:
            lines.append(
                "  intervals of the coverage and over several looks are wider than needed: as if samples of a cluster "
                "were copies of one"
            )
        if self.left_out:
            lines.append(f"  left out: {self.left_out} samples of clusters that an earlier look held")
        if self.from_calibration:
            lines.append(
                f"  note: about {self.from_calibration:,} of these samples are rows of the calibration data, by their "
                f"confidences: they say nothing about later data"
            )
        if self.risk_alarm:
            lines.append(
                "  order: samples were tested in the order of their rows; shuffle them if it is not time"
            )
        half = risk_alarm_level(self.delta)  # risk and confidences share delta equally
        lines.append(
            f"  false alarms: at most {self.delta:g} in the whole series, {half:g} by risk and {half:g} by confidences"
        )
        return "\n".join(lines)


def _as_in_calibration(differ: bool) -> str:
    """Words after "confidences": whether they differ from those of the calibration."""
    return "differ from calibration" if differ else "as in calibration"


def _with_limits(risk: float | None, interval: tuple[float, float] | None) -> str:
    """The text of a risk and its interval; "-" where no sample was accepted."""
    if risk is None or interval is None:
        return "-"
    low, high = interval
    return f"{risk:.4g} [{low:.4g}, {high:.4g}]"


@dataclass(frozen=True)
class GroupChecks(Stored, _tables.Notebook):
    """What later data say about the promise of each group.

    Attributes
    ----------
    checks : dict
        A `Check` by label.
    files : tuple of str
        First 16 digits of the SHA-256 of the files that the command line counted.
    rows_seen : tuple of str
        Of each of the last 8 looks of the command line, 48-bit fingerprints of at most 64 of its rows, in base64.

    Examples
    --------
    >>> from abstain import select_threshold
    >>> loss, sure, site = [0] * 100, list(range(100)), ["a", "b"] * 50
    >>> rules = select_threshold(loss, sure, risk=0.2, groups=site)
    >>> rules.check([0, 0, 0], [99, 98, 97], ["a", "b", "a"]).holds
    True
    """

    _noun: ClassVar[str] = "checks by group"
    _has_checksum: ClassVar[bool] = True
    _number: ClassVar[int] = 4
    _remedy: ClassVar[str] = _NEW_SERIES

    checks: dict[Any, Check]
    files: tuple[str, ...] = ()
    rows_seen: tuple[str, ...] = ()

    @classmethod
    def _upgraded(cls, record: Any) -> Any:
        """The parsed JSON of format 3 in format 4, which also remembers rows; anything else unchanged."""
        if not isinstance(record, dict) or record.get("format") != "abstain.GroupChecks/3":
            return record
        return {**record, "rows_seen": [], "format": cls._format()}

    def __getitem__(self, label: Any) -> Check:
        return self.checks[label]

    @property
    def holds(self) -> bool:
        """No alarm in any group so far."""
        return all(check.holds for check in self.checks.values())

    def _readable(self) -> dict[str, Any]:
        return {"holds": self.holds}

    def _rules(self) -> dict[str, Any]:
        return {
            "`files` must hold 16 digits of SHA-256 hashes.": _are_hashes(self.files),
            "`rows_seen` must hold fingerprints in base64.": are_rows_seen(self.rows_seen),
        }

    def worst_first(self) -> list[Any]:
        """Labels of the groups, the worst first: those with an alarm before all others.

        Within both, groups are ordered by the lower limit of their risk interval minus the promised risk, the largest
        first. Groups without an accepted sample have no interval and come last.
        """

        def rank(label: Any) -> tuple[bool, float]:
            check = self.checks[label]
            has_no_alarm = check.holds  # False is sorted before True
            if check.risk_interval is None:  # no sample was accepted
                return has_no_alarm, np.inf
            lower_limit, _ = check.risk_interval
            promised_risk = check.limit
            return has_no_alarm, promised_risk - lower_limit  # the smallest first

        return sorted(self.checks, key=rank)

    def frame(self, library: str | None = None) -> Any:
        """A row for each group, the worst first: a pandas or polars frame (whichever is there), or a dict of lists.

        Worst are groups with an alarm. `library` is "pandas", "polars" or "dict"; None takes what is installed.
        """
        labels = self.worst_first()
        names = (  # of attributes of a `Check`, one column for each
            "holds",
            "risk",
            "limit",
            "recent_risk",
            "look_risk",
            "risk_p",
            "coverage",
            "drift_p",
            "n",
            "counted",
            "looks",
        )
        ordered = [self.checks[label] for label in labels]
        columns = {"group": list(map(str, labels)), **_tables.collect_columns(ordered, names)}
        return _tables.make_frame(columns, library)

    def __repr__(self) -> str:
        labels = self.worst_first()
        alarm_count = sum(not check.holds for check in self.checks.values())
        listed_labels = labels[: max(alarm_count, _tables.GROUPS_SHOWN)]  # every alarm is shown
        lines = [f"{label}: {self.checks[label].describe(f'promise {label}')}" for label in listed_labels]
        hidden_count = len(labels) - len(listed_labels)
        if hidden_count:
            lines.append(f"{hidden_count:,} more groups, none with an alarm, are in frame()")
        return "\n".join(lines) or "no group to check"


AnyCheck = TypeVar("AnyCheck", bound=Check | GroupChecks)


def with_files(check: AnyCheck, hashes: Iterable[str]) -> AnyCheck:
    """The same check, which now remembers these files too; the oldest of too many are forgotten.

    `hashes` are SHA-256 in hexadecimal digits; the first 16 digits are kept.
    """
    files = (*check.files, *(digest[:FILE_DIGITS] for digest in hashes))
    return replace(check, files=files[max(0, len(files) - FILES_REMEMBERED) :])


def with_rows(check: AnyCheck, previous: Check | GroupChecks | None, fingerprints: np.ndarray) -> AnyCheck:
    """The same check, which remembers some of the rows of its last look, and those that the look before remembered.

    `fingerprints` are those of the rows of the last look, `previous` is the check before it.
    """
    rows_seen = () if previous is None else previous.rows_seen
    return replace(check, rows_seen=remember_rows(rows_seen, fingerprints))


def without_clusters(check: Check | GroupChecks) -> Check | GroupChecks:
    """The same check, which remembers no cluster."""
    if isinstance(check, Check):
        return replace(check, clusters_seen="")
    return replace(check, checks={group: replace(x, clusters_seen="") for group, x in check.checks.items()})


def keep_part_of_cluster_memory(check: Check, group_count: int) -> Check:
    """The same check, with an equal part of what a series remembers of its clusters.

    `group_count` is the number of groups, or of promises, that share the memory.
    """
    fingerprints = _decode_fingerprints(check.clusters_seen)
    return replace(check, clusters_seen=_encode_fingerprints(fingerprints, group_count=group_count))


def check_promise(
    rule: Threshold,
    loss: Array,
    confidences: CheckedConfidences,
    *,
    clusters: Array,
    previous: Check | None,
    is_counted: np.ndarray | None = None,
    further_p_values: FurtherPValues | None = None,
) -> Check:
    """Test a rule's promise on later samples, and return the check of the whole series so far.

    One call is a look: it adds its samples to those of `previous`, the check after the look before (None at the
    first). The risk is tested by bets against the promise, the confidences are compared with those of the calibration.

    Parameters
    ----------
    rule : Threshold
    loss : array, shape (n,)
        In the order in which the samples came, on the scale of the calibration.
    confidences : CheckedConfidences
        The confidences of the same samples, already checked against the rule.
    clusters : array or None
        One label per sample. Samples of clusters that an earlier look held are left out, with a warning; if these are
        all, no look is counted.
    previous : Check or None
    is_counted : ndarray of bool, optional
        Which samples the promise is about, for a promise on some of the accepted (not for method "crc"); by default
        all.
    further_p_values : callable, optional
        Compares more of these samples with the calibration than `confidences` show; see `FurtherPValues`.

    Raises
    ------
    InfeasibleError
        If the rule has no threshold.
    InputError
        For a loss out of range, or a `previous` of another threshold or promise.
    """
    if rule.value is None:
        raise InfeasibleError("Threshold.check: there is no threshold to check; nothing is accepted.")
    low, high = rule.bounded
    sample = prepare("Threshold.check", to_host(loss), confidences.values)
    scaled_loss = (sample.loss.astype(np.float64) - low) / (high - low)
    if scaled_loss.min() < 0 or scaled_loss.max() > 1:
        raise InputError(
            f"Threshold.check: `loss` must lie within bounded={rule.bounded}, as in calibration."
        )
    limit = _promised_risk(rule)  # on the user's scale
    before = previous or Check()  # without arguments: a series that has not begun
    if previous:
        _check_same_series(rule, limit, previous)  # raises for another threshold or promise
    look = _select_new_clusters(rule, clusters, len(scaled_loss), before)
    left_out = len(scaled_loss) - len(look.rows)
    if left_out:
        message = f"{left_out} of {len(scaled_loss)} samples are left out, because an earlier look held their cluster"
        warnings.warn(f"Threshold.check: {message}.", AbstainWarning, stacklevel=3)
    if not len(look.rows):
        return replace(before, left_out=before.left_out + left_out)
    scaled_loss = scaled_loss[look.rows]
    confidences = confidences.take(look.rows)
    from_calibration = count_calibration_rows(rule, confidences)
    if from_calibration:
        message = (
            f"about {from_calibration:,} of {len(scaled_loss):,} samples are rows of the calibration data, by their "
            f"confidences"
        )
        remedy = "They say nothing about later data: check with data that came after the calibration."
        warnings.warn(f"Threshold.check: {message}. {remedy}", AbstainWarning, stacklevel=3)
    accepted = rule.cut.decide("Threshold.check", confidences, rule.value)
    counted = accepted if is_counted is None else accepted & is_counted[look.rows]
    scaled_limit = (limit - low) / (high - low)
    risk_fields = _test_risk(
        scaled_loss,
        counted,
        look.cluster_codes,
        before,
        risk=scaled_limit,
        delta=rule.delta,
        largest_cluster=rule.largest or 1.0,
        # "crc" promises the loss per sample of all, accepted or not
        terms_of="all" if rule.method == "crc" else "counted",
    )
    p_values = [_compare_confidences(rule, confidences)]  # of "these are distributed as in calibration"
    if further_p_values is not None:
        p_values += further_p_values(look.rows)
    drift_fields = _test_drift(rule, p_values, before)
    n = before.n + len(scaled_loss)
    accepted_count = before.accepted + int(accepted.sum())
    counted_in_look = int(counted.sum())
    loss_in_look = float(scaled_loss[counted].sum())
    counted_count = before.counted + counted_in_look
    loss_sum = before.loss_sum + loss_in_look
    recent_looks = _keep_recent((*before.recent_looks, (counted_in_look, loss_in_look)))
    recent_counted = sum(counted_of_look for counted_of_look, _ in recent_looks)
    recent_loss_sum = sum(loss_of_look for _, loss_of_look in recent_looks)
    codes = None if look.cluster_codes is None else look.cluster_codes[counted]
    in_look = _estimate_risk_of_look(rule, scaled_loss[counted], codes)
    recent = in_look
    if len(recent_looks) > 1:
        recent = _estimate_risk(rule, recent_loss_sum, recent_counted)
    all_time = in_look
    if before.looks > 0:
        all_time = _estimate_risk(rule, loss_sum, counted_count)
    return Check(
        n=n,
        accepted=accepted_count,
        coverage=accepted_count / n,
        coverage_interval=_share_interval(rule, accepted_count, n),
        counted=counted_count,
        risk=all_time.risk,
        risk_interval=all_time.interval,
        recent_counted=recent_counted,
        recent_risk=recent.risk,
        recent_risk_interval=recent.interval,
        recent_looks=recent_looks,
        look_counted=counted_in_look,
        look_loss_sum=loss_in_look,
        look_risk=in_look.risk,
        look_risk_interval=in_look.interval,
        limit=limit,
        looks=before.looks + 1,
        left_out=before.left_out + left_out,
        from_calibration=before.from_calibration + from_calibration,
        delta=rule.delta,
        loss_sum=loss_sum,
        value=rule.value,
        counts_errors=_counts_errors(rule, scaled_loss[counted], is_counted is not None, before),
        clusters_seen=look.clusters_seen,
        files=before.files,
        rows_seen=before.rows_seen,
        **risk_fields,
        **drift_fields,
    )


def _counts_errors(rule: Threshold, loss: np.ndarray, is_about_some: bool, before: Check) -> bool:
    """Is each loss 0 or 1, so that their sum is a number of errors?

    `loss` holds those of this look that are counted, `before` is the series without it. For a promise about some
    samples only, the rule does not tell: there the others had the target as their loss. So it is read off the losses of
    the series, all of which must be 0 or 1.
    """
    if rule.bounded != (0.0, 1.0) or not is_about_some:
        return rule.evidence.zero_one and rule.bounded == (0.0, 1.0)
    return bool(np.isin(loss, (0.0, 1.0)).all()) and (before.looks == 0 or before.counts_errors)


def _share_interval(rule: Threshold, hits: float, trials: int) -> tuple[float, float]:
    """Exact interval of a share, `hits` of `trials` later samples, at level 1 - delta of the rule.

    With clusters, as many samples as the largest cluster had in calibration count as one.
    """
    largest_cluster = rule.largest or 1.0
    low, high = clopper_pearson(hits / largest_cluster, trials / largest_cluster, 1 - rule.delta)
    return float(low), float(high)


def count_calibration_rows(rule: Threshold, confidences: CheckedConfidences) -> int:
    """About how many new samples are rows of the calibration data, by their confidences; 0 where chance explains them.

    A rule remembers up to 512 confidences of its calibration, in `rule.reference`, and how many samples lie at or above
    each. If all of these counts are equal, the new data are the calibration data, in whatever order and file. If some
    of the confidences occur among the new ones, more than by chance, that share of the calibration rows is taken to be
    there. Samples without a confidence are left out; they have a NaN, an infinity or the number `NO_CONFIDENCE`.
    `rule.cut` compares new confidences with those of the calibration, in whatever unit and precision they come. Two
    count as equal if rounding alone may make the difference.
    """
    remembered = rule.reference.value
    remembered = remembered[np.isfinite(remembered) & (remembered > NO_CONFIDENCE)]
    has_confidence = np.isfinite(confidences.values) & (confidences.values > NO_CONFIDENCE)
    n = int(has_confidence.sum())
    if not n or not len(remembered):
        return 0
    # equal confidences of both may differ by rounding, so those count that possibly lie at or above
    _, at_least = rule.cut.count_at_least("Threshold.check", confidences, rule.reference.value)
    if rule.reference.has_counts(at_least, len(confidences.values), largest_cluster=rule.largest or 1.0):
        return n
    matches = rule.cut.find_equal(confidences.take(np.flatnonzero(has_confidence)), remembered)
    found_count = int(matches.is_found.sum())  # of the remembered confidences
    # where many new samples share a confidence with another new one, remembered ones are found by chance
    if explained_by_chance(found_count, len(remembered), shared_count=matches.shared_count, n=n):
        return 0
    return min(n, round(rule.n * found_count / len(remembered)))  # the same share of all calibration rows


class RiskEstimate(NamedTuple):
    """The mean loss of later samples on the user's scale, and its interval; None twice without a sample."""

    risk: float | None
    interval: tuple[float, float] | None


def _estimate_risk(rule: Threshold, loss_sum: float, counted: int) -> RiskEstimate:
    """Return the mean loss of the counted samples on the user's scale, and its interval at level 1 - delta.

    `loss_sum` is the sum of their losses, scaled to [0, 1]. The interval is that of as many errors, which need not be a
    whole number: no loss in [0, 1] of the same mean varies more than a 0/1 loss. Risk and interval are None if no
    sample is counted. `rule` is the threshold that is checked; it has the bounds of the losses on the user's scale
    (`bounded`), delta, and the size of the largest calibration cluster: as many samples count as one for the interval.
    """
    if counted == 0:
        return RiskEstimate(risk=None, interval=None)
    low, high = rule.bounded
    scaled_low, scaled_high = _share_interval(rule, hits=loss_sum, trials=counted)
    interval = (low + (high - low) * scaled_low, low + (high - low) * scaled_high)
    return RiskEstimate(low + (high - low) * loss_sum / counted, interval)


def _estimate_risk_of_look(
    rule: Threshold, scaled_loss: np.ndarray, cluster_codes: np.ndarray | None
) -> RiskEstimate:
    """Return the mean loss of the counted samples of one look on the user's scale, and its interval.

    `scaled_loss` are their losses, scaled to [0, 1], and `cluster_codes` the numbers of their clusters, None without
    clusters. With at least two clusters the interval is that of a mean over clusters, as `evaluate` gives it; otherwise
    that of `_estimate_risk`.
    """
    estimate = _estimate_risk(rule, float(scaled_loss.sum()), len(scaled_loss))
    if cluster_codes is None or len(np.unique(cluster_codes)) < 2:
        return estimate
    low, high = rule.bounded  # of the loss on the user's scale
    of_mean = interval_of_mean(
        "Threshold.check", "risk", scaled_loss, level=1 - rule.delta, clusters=cluster_codes
    )
    return RiskEstimate(
        risk=estimate.risk, interval=(low + (high - low) * of_mean.low, low + (high - low) * of_mean.high)
    )


def _keep_recent(looks: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    """Return the latest of these looks, oldest first: as few as hold 1,000 counted samples, and at most 100.

    A look is the number of its counted samples (accepted ones that the promise is about) and their summed loss. All
    looks are returned if there are at most 100 and they hold fewer counted samples. There must be a look.
    """
    counted = 0
    earliest = max(0, len(looks) - RECENT_LOOKS)
    # from the latest to the earliest; `oldest_recent` is the last position that was visited
    for oldest_recent in range(len(looks) - 1, earliest - 1, -1):
        counted_in_look, _loss_sum = looks[oldest_recent]
        counted += counted_in_look
        if counted >= RECENT_COUNTED:
            break
    return looks[oldest_recent:]


def _test_risk(
    scaled_loss: np.ndarray,
    counted: np.ndarray,
    codes: np.ndarray | None,
    before: Check,
    *,
    risk: float,
    delta: float,
    largest_cluster: float,
    terms_of: Literal["counted", "all"],
) -> dict[str, Any]:
    """Continue the bets against the promised risk; return the fields of `Check` that describe them, by name.

    The p-value is 1 / the largest total wealth so far; an alarm, once raised, stays.

    Parameters
    ----------
    scaled_loss : ndarray
        Loss of each sample of this look (this call of `check`), scaled to [0, 1], in the order they came.
    counted : ndarray of bool
        Which of these samples the rule accepts and the promise is about.
    codes : ndarray or None
        Cluster of each sample, numbered from 0; None without clusters.
    before : Check
        The series before this look; it holds the wealth so far.
    risk : float
        The promised risk, scaled to [0, 1].
    delta : float
        The probability with which the whole series may raise a false alarm; half of it is for the risk.
    largest_cluster : float
        Samples of the largest calibration cluster, 1 without clusters.
    terms_of : {"counted", "all"}
        Whether the promise is about the mean loss of the counted samples, or of all samples, of which those that are
        not counted lose nothing.
    """
    rows = np.flatnonzero(counted) if terms_of == "counted" else np.arange(len(scaled_loss))
    loss_of_counted = scaled_loss * counted  # 0 for samples that are not counted
    # one term for each of `rows`, or for each cluster
    terms = _make_terms(loss_of_counted[rows], rows, codes, risk, largest_cluster)
    log_wealths = bets.settle(terms.values, risk, np.asarray(before.log_wealth), before.settled)
    settled = before.settled + 1 + np.arange(len(log_wealths))  # how many terms were settled after each
    log_totals = bets.total_log_wealth(log_wealths, settled)  # of bets and kept wealth, after each term
    log_peak = max(before.log_peak, float(log_totals.max(initial=-np.inf)))
    risk_p = min(1.0, float(np.exp(-log_peak)))
    alarm_log_wealth = -np.log(risk_alarm_level(delta))  # a p-value of delta / 2
    fields = {
        "risk_p": risk_p,
        "log_peak": log_peak,
        "settled": before.settled + len(log_wealths),
        "log_wealth": tuple(log_wealths[-1].tolist()) if len(log_wealths) else before.log_wealth,
        "risk_alarm": before.risk_alarm,
        "risk_alarm_look": before.risk_alarm_look,
        "risk_alarm_p": before.risk_alarm_p,
        "alarm_after": before.alarm_after,
        "alarm_counted": before.alarm_counted,
        "alarm_loss_sum": before.alarm_loss_sum,
    }
    if not before.risk_alarm and log_peak >= alarm_log_wealth:
        first_term = int(np.argmax(log_totals >= alarm_log_wealth))
        samples_so_far = int(terms.known_after_row[first_term]) + 1  # of this look
        counted_so_far = counted[:samples_so_far]
        fields |= {
            "risk_alarm": True,
            "risk_alarm_look": before.looks + 1,
            "risk_alarm_p": risk_p,
            "alarm_after": before.n + samples_so_far,
            "alarm_counted": int(counted_so_far.sum()),
            "alarm_loss_sum": float(scaled_loss[:samples_so_far][counted_so_far].sum()),
        }
    return fields


def _compare_confidences(rule: Threshold, confidences: CheckedConfidences) -> float:
    """Return the p-value of "the confidences of this look are distributed as in calibration".

    `rule` is the threshold that is checked: `rule.reference` are the calibration confidences, and `rule.cut` compares
    later ones with them, which gives two counts where rounding hides the order. `confidences` are those of the new
    samples, with their source and precision.
    """
    calibration_confidences = rule.reference.value  # some hundred of them, falling
    # how many new confidences lie at or above each of these, at least and at most
    surely, possibly = rule.cut.count_at_least("Threshold.check", confidences, calibration_confidences)
    # as many samples as the largest calibration cluster had may be copies of one; without clusters each counts as one
    largest_cluster = rule.largest or 1.0
    return rule.reference.p_value(
        surely, possibly, m=len(confidences.values), largest_cluster=largest_cluster
    )


def _test_drift(rule: Threshold, p_values: Sequence[float], before: Check) -> dict[str, Any]:
    """Join the comparisons of this look with the calibration; return the fields of `Check` about them.

    `p_values` holds one for each comparison, of "these later samples are distributed as in calibration". The p-value of
    all is the smallest times their number (Bonferroni). Look j (the j-th call of `check` that brings new samples)
    alarms if it is at most delta / (2 j (j + 1)), with the delta of the `rule`: these levels sum to delta / 2. An alarm
    of an earlier look (in `before`, the series so far) stays: the first look with an alarm and its p-value are kept,
    None before that. There must be a p-value.
    """
    drift_p = min(1.0, len(p_values) * min(p_values))
    fields = {
        "drift_p": drift_p,
        "drift_alarm": before.drift_alarm,
        "drift_alarm_look": before.drift_alarm_look,
        "drift_alarm_p": before.drift_alarm_p,
    }
    look_number = before.looks + 1
    if not before.drift_alarm and drift_p <= drift_alarm_level(rule.delta, look_number):
        fields |= {"drift_alarm": True, "drift_alarm_look": look_number, "drift_alarm_p": drift_p}
    return fields


@dataclass(frozen=True)
class ConfidenceCheck(Stored, _tables.Notebook):
    """What later samples without labels say: are their confidences distributed as in calibration?

    Attributes
    ----------
    n, accepted : int
        Samples, and how many of them the threshold accepts.
    coverage : float
        Share accepted.
    drift_p : float
        p-value of "the confidences are distributed as in calibration".
    delta : float
        Of the threshold: `drift_p` is held against it.
    from_calibration : int
        About how many samples are rows of the calibration data, which say nothing new.

    Examples
    --------
    >>> from abstain import select_threshold
    >>> t = select_threshold([0] * 99 + [1], list(range(100, 0, -1)), risk=0.2)
    >>> t.check_confidences([90.5, 80.5, 15.5]).holds
    True
    """

    _noun: ClassVar[str] = "a check of confidences"

    n: Annotated[int, Within(1)]
    accepted: Count
    coverage: Share
    drift_p: Share
    delta: Share
    from_calibration: Count = 0

    @property
    def holds(self) -> bool:
        """Is there no alarm, that is, is `drift_p` above `delta`?"""
        return self.drift_p > self.delta

    def _readable(self) -> dict[str, Any]:
        return {"holds": self.holds}

    def __repr__(self) -> str:
        """Say whether the confidences changed, and that this says nothing about the risk.

        There is an alarm where `drift_p` is at most `delta`; `holds` says that there is none. `from_calibration` is
        about how many of the n samples are rows of the calibration data.
        """
        verdict = "no alarm" if self.holds else "ALARM"
        lines = [
            f"Check of the confidences alone: {verdict} (n = {self.n})",
            f"  coverage {self.coverage:.4f}; confidences {_as_in_calibration(differ=not self.holds)}: "
            f"{_tables.p_value_text(self.drift_p)}, an alarm from {self.delta:g} down",
            "  without labels, this says nothing about the risk, and it is no part of a series",
        ]
        if self.from_calibration:
            lines.append(
                f"  note: about {self.from_calibration:,} of these samples are rows of the calibration data"
            )
        return "\n".join(lines)


def check_confidences(rule: Threshold, confidences: CheckedConfidences) -> ConfidenceCheck:
    """Compare confidences of later samples, already checked against the rule, with those of the calibration.

    The result holds the p-value of "they are distributed as in calibration", which is an alarm at delta or below.
    `rule.reference` holds some hundred calibration confidences, and how many samples lie at or above each. `rule.cut`
    compares new confidences with the threshold and with these. Raises InfeasibleError if the rule has no threshold,
    InputError without a sample or for a NaN.
    """
    if rule.value is None:
        raise InfeasibleError(
            "Threshold.check_confidences: there is no threshold to check; nothing is accepted."
        )
    name = "Threshold.check_confidences"
    values = confidences.values
    # called for its checks of the confidences alone, so any loss will do
    prepare(name, np.zeros(values.shape), values, vector=True)
    accepted = rule.cut.decide(name, confidences, rule.value)
    # two counts at each calibration confidence, since rounding may hide on which side of it a new one lies
    surely, possibly = rule.cut.count_at_least(name, confidences, rule.reference.value)
    return ConfidenceCheck(
        n=len(values),
        accepted=int(accepted.sum()),
        coverage=float(accepted.mean()),
        drift_p=rule.reference.p_value(
            surely,
            possibly,
            m=len(values),
            # samples of the largest calibration cluster; without clusters each sample is independent
            largest_cluster=rule.largest or 1.0,
        ),
        delta=rule.delta,
        from_calibration=count_calibration_rows(rule, confidences),
    )


def check_is_new(check: Check | GroupChecks, previous: Check | GroupChecks | None) -> None:
    """Raise InputError if `check` counts no more looks than `previous`: earlier looks held all of its clusters.

    A look is a call of `check` that brings new samples. Both are of one series, `previous` the check before the last
    call (None at the first), which is counted as no looks. Checks by group count the looks of all groups.
    """

    def count_looks(series: Check | GroupChecks | None) -> int:
        if isinstance(series, GroupChecks):
            return sum(group_check.looks for group_check in series.checks.values())
        return 0 if series is None else series.looks

    # a call that brings only clusters that are known is not counted, so the number of looks stays the same
    if count_looks(check) == count_looks(previous):
        message = "must hold a cluster that no earlier look held, got none"
        remedy = "Give a cluster when it is complete, under a name that no other cluster has."
        raise InputError(f"Threshold.check: `clusters` {message}. {remedy}")


def _promised_risk(rule: Threshold) -> float:
    """Return the risk to test: the target, or else the stated limit of the risk, or else the bound of the loss."""
    if rule.form == "risk":
        return rule.target
    return rule.bounded[1] if rule.risk_upper is None else rule.risk_upper


def _check_same_series(rule: Threshold, limit: float, previous: Check) -> None:
    """Raise InputError for a series that was begun with another threshold or another promise.

    A series is the checks of one promise on later data, call after call; its alarm levels hold only for one threshold
    and one promise. `rule` has a threshold (its `value` is not None). `limit` is the risk that it promises, on the
    user's scale; `previous` is the last check of the series, which holds the threshold, the promised risk and the delta
    that it was begun with.
    """
    # equal, not close: a stored series holds the same floats
    expected = (rule.value, limit, rule.delta)
    actual = (previous.value, previous.limit, previous.delta)
    if expected != actual:
        ours, theirs = ("value {:g}, risk {:g}, delta {:g}".format(*x) for x in (expected, actual))
        message = f"`previous` must be a check of this threshold ({ours}), got one of {theirs}"
        raise InputError(
            f"Threshold.check: {message}. Begin a new series: without `previous=`, or in a new file for --state."
        )


class _Look(NamedTuple):
    """The samples of one call of `check` that count."""

    rows: np.ndarray  # positions of these samples among those of the call
    cluster_codes: np.ndarray | None  # of these samples, numbered from 0 without gaps; None without clusters
    clusters_seen: str  # fingerprints of the clusters of this call and all before, in base64


def _select_new_clusters(rule: Threshold, clusters: Array, n: int, before: Check) -> _Look:
    """Select the samples whose cluster no earlier look held: a bet on a cluster is settled once.

    `clusters` are the labels of the n samples of this look, or None; `before` is the series so far, which holds the
    fingerprints of its clusters in base64 (`clusters_seen`). A rule made without clusters selects all samples, and
    warns if there are labels. Raises InputError if a rule made from clusters gets none, or one larger than the largest
    in calibration. A look is a call of `check` that brings new samples. `rule` is the threshold that is checked, with
    its promise; `clusters` of the rule is their number in calibration, `largest` the samples of the largest, both None
    without clusters.

    In the result, `rows` are the positions of the selected samples among the n, and `cluster_codes` their clusters.
    """
    if rule.clusters is None:
        if clusters is not None:
            message = "this rule was made without clusters: its samples count as independent"
            warnings.warn(f"Threshold.check: {message}.", AbstainWarning, stacklevel=4)
        return _Look(rows=np.arange(n), cluster_codes=None, clusters_seen=before.clusters_seen)
    if clusters is None:
        raise InputError(
            "Threshold.check: this rule promises for whole clusters: give `clusters=`, on the command line "
            "-c clusters=NAME."
        )
    # the distinct labels, and for each sample the position of its own among them
    labels, codes = group_codes("Threshold.check", clusters, (n,), "clusters")
    largest = float(np.bincount(codes).max())
    # samples of the largest calibration cluster; with clusters never None, `or` is for type checkers
    size_limit = rule.largest or 1.0
    if largest > size_limit:
        message = f"a cluster must hold at most {size_limit:g} samples, as in calibration, got {largest:g}"
        raise InputError(f"Threshold.check: {message}. Calibrate again with such clusters.")
    seen = _decode_fingerprints(before.clusters_seen)
    fingerprints = _hash_labels(labels)  # one per cluster
    is_new = ~np.isin(fingerprints, seen)
    rows = np.flatnonzero(is_new[codes])
    return _Look(
        rows=rows,
        cluster_codes=np.unique(codes[rows], return_inverse=True)[1],  # numbered anew, without gaps
        # in base64; beyond a million, the oldest are forgotten
        clusters_seen=_encode_fingerprints(np.append(seen, fingerprints[is_new])),
    )


def _hash_labels(labels: list[Any]) -> np.ndarray:
    """Return a fingerprint of each label, an unsigned integer: 64 bits of a hash of its text.

    17, 17.0 and "17" are one label, because files differ in how they write them. A label of None is the empty text.
    """

    def label_text(label: Any) -> str:
        if label is None:
            return ""
        return str(int(label) if isinstance(label, float) and label.is_integer() else label)

    digests = [hashlib.blake2b(label_text(label).encode(), digest_size=8).digest() for label in labels]
    return np.frombuffer(b"".join(digests), dtype="<u8")


def _encode_fingerprints(fingerprints: np.ndarray, group_count: int = 1) -> str:
    """Encode the latest fingerprints (64-bit integers, one per cluster, oldest first) in base64; forget older ones.

    A series remembers `CLUSTERS_REMEMBERED` of them, an equal part for each of its `group_count` groups.
    """
    limit = CLUSTERS_REMEMBERED // group_count
    latest = fingerprints[max(0, len(fingerprints) - limit) :]
    return base64.b64encode(latest.astype("<u8").tobytes()).decode("ascii")


def _decode_fingerprints(text: str) -> np.ndarray:
    """Return the 64-bit integers in a base64 text; raises ValueError if it is none."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<u8")


def _are_fingerprints(text: str) -> bool:
    """Is this the base64 text of at most as many fingerprints as a series remembers?"""
    try:
        return len(_decode_fingerprints(text)) <= CLUSTERS_REMEMBERED
    except (binascii.Error, ValueError):
        return False


def _are_hashes(files: tuple[str, ...]) -> bool:
    """Are these first digits of SHA-256 hashes, at most as many as a series remembers?"""
    hexadecimal = set("0123456789abcdef")
    return len(files) <= FILES_REMEMBERED and all(
        len(x) == FILE_DIGITS and set(x) <= hexadecimal for x in files
    )


class BetTerms(NamedTuple):
    """Numbers between 0 and 1 to bet on in turn, whose mean is at most the promised risk while the promise holds."""

    values: np.ndarray
    known_after_row: np.ndarray  # number of the look's sample, from 0, after which each term is known


def _make_terms(
    scaled_loss: np.ndarray,
    rows: np.ndarray,
    codes: np.ndarray | None,
    risk: float,
    largest_cluster: float,
) -> BetTerms:
    """Make the terms to bet on in turn: the losses themselves, or one term for each cluster.

    The term of a cluster is r plus the sum of (l - r) over its samples in `rows`, divided by `largest_cluster`, the
    number of samples of the largest calibration cluster; so it lies in [0, 1], and is r if none of them is in `rows`.
    Clusters come in the order in which they are complete. The result tells for each term the row of the look after
    which it is known. A look is one call of `check`; it must have a row.

    Parameters
    ----------
    scaled_loss : ndarray
        The loss l of each of `rows`, scaled to [0, 1].
    rows : ndarray of int
        Which samples of the look are tested.
    codes : ndarray or None
        Cluster of each sample of the look, numbered from 0 without gaps.
    risk : float
        The promised risk r, scaled to [0, 1].
    """
    if codes is None:
        return BetTerms(values=scaled_loss, known_after_row=rows)
    cluster_count = int(codes.max()) + 1
    last_row = np.zeros(cluster_count, dtype=np.int64)  # of each cluster, tested or not
    np.maximum.at(last_row, codes, np.arange(len(codes)))
    order = np.argsort(last_row)  # a cluster is complete with its last sample
    excess = np.bincount(codes[rows], scaled_loss - risk, cluster_count)
    return BetTerms(values=risk + excess[order] / largest_cluster, known_after_row=last_row[order])


class PromiseToCheck(NamedTuple):
    """One promise of a series of checks, and the later samples to test it on, in the order in which they came."""

    rule: Threshold
    loss: Array  # one per sample, on the scale of the calibration
    confidences: CheckedConfidences  # already checked against the rule
    clusters: Array | None  # one label per sample, for a rule made from clusters
    is_counted: np.ndarray | None = None  # of bool: which samples the promise is about; None: all
    further_p_values: FurtherPValues | None = None  # of what else is compared with the calibration


def check_promises(
    to_check: Mapping[Any, PromiseToCheck], previous: GroupChecks | None, series_promise_count: int
) -> GroupChecks:
    """Test each of these promises on its later samples, and return the checks of the whole series by the same names.

    One call is a look at later data. A promise that is in `previous`, the checks after the look before (None at the
    first), but not in `to_check` keeps its last check. `series_promise_count` counts all promises of the series, with
    or without samples now; each has an equal part of the clusters that the series may remember. `is_counted` says which
    samples a promise is about (None: all); `further_p_values` is a function that compares more of them with the
    calibration than their confidences (None: nothing). Raises InputError if the samples do not fit a rule, or if
    earlier looks held all of their clusters.
    """
    checks = {} if previous is None else dict(previous.checks)
    for name, promise in to_check.items():
        # the series of this promise, with this look; None before its first look
        check = check_promise(
            promise.rule,
            promise.loss,
            promise.confidences,
            clusters=promise.clusters,
            previous=checks.get(name),
            is_counted=promise.is_counted,
            further_p_values=promise.further_p_values,
        )
        # forgets the oldest clusters beyond this part
        checks[name] = keep_part_of_cluster_memory(check, group_count=series_promise_count)
    before = previous or GroupChecks({})
    # what the command line remembers, files and rows that were counted, is passed on unchanged
    series = GroupChecks(checks, files=before.files, rows_seen=before.rows_seen)
    if to_check:
        check_is_new(series, previous)  # raises if no promise had a look with a new cluster
    return series
