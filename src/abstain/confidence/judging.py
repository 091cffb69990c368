"""Which candidate to keep: AURC of out-of-fold confidences, with paired tests corrected for their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from abstain._stored import Finite, Share, Within
from abstain.confidence.candidates import LearningData
from abstain.core.influence import RankedLoss
from abstain.core.rows import rank_confidences
from abstain.inference.differences import Tests, compare_sides, convert_to_one_error_size, side_from_samples
from abstain.inference.limits import make_interval
from abstain.inference.standard_errors import gather, spread_by_sample, summarise_samples
from abstain.metrics.definitions import AURC

_MIN_GAIN = (
    0.25  # standard errors by which a candidate must be below the baseline: less is as likely to be a loss
)
_CLEAR_GAIN = (
    0.5  # standard errors by which, with few rows, a model must be below the combination without labels
)
_ROUNDING = 1e-9  # relative difference of AURC within which the simpler candidate is preferred


@dataclass(frozen=True, kw_only=True)
class CandidateResult:
    """One candidate, judged by the confidences of rows that it was not fitted on.

    Attributes
    ----------
    name : str
        Of the candidate.
    aurc, low, high : float
        AURC and its interval.
    difference, difference_low, difference_high : float
        AURC minus that of the baseline, with an interval that is corrected for the number of candidates.
    standard_error : float
        Of the difference; 0 for the baseline, and where it cannot be estimated.
    p_value : float
        Two-sided, of no difference from the baseline, corrected for the number of candidates; 1 for the baseline.
    note : str
        Why there is no verdict; empty if there is one.

    Examples
    --------
    >>> import abstain
    >>> right = [True, True, False, True, False, False, True, True] * 20
    >>> number = [8, 7, 3, 6, 2, 1, 5, 4] * 20
    >>> learned = abstain.learn_confidence(right, signals={"number": number})
    >>> learned.candidates[0].name, round(learned.candidates[0].aurc, 4)
    ('baseline', 0.1034)
    """

    name: str
    aurc: Finite
    low: Finite
    high: Finite
    difference: Finite
    difference_low: Finite
    difference_high: Finite
    standard_error: Annotated[float, Within(0)]
    p_value: Share
    note: str = ""

    def is_proven(self, level: float) -> bool:
        """Is its AURC below that of the baseline, at this level?"""
        return self.p_value < 1 - level and self.difference < 0


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What one input adds to a learned confidence, measured on its logistic model; boosted trees are left out.

    Attributes
    ----------
    name : str
        Of the signal, feature or category, or "logits" or "probs".
    difference, low, high : float
        Out-of-fold AURC with all inputs minus that without this one, and its interval, corrected for the number of
        inputs: negative if the input helps.
    p_value : float
        Two-sided, of no difference, corrected for the number of inputs.

    Examples
    --------
    >>> part = Contribution(name="token", difference=-0.012, low=-0.022, high=-0.003, p_value=0.005)
    >>> part.difference
    -0.012
    """

    name: str
    difference: Finite
    low: Finite
    high: Finite
    p_value: Annotated[float, Within(0, 1)]


class Judged(NamedTuple):
    """AURC of several confidences with intervals, and tests of each but the first against the first."""

    aurc: list[float]
    low: list[float]
    high: list[float]
    tests: Tests


def judge(function: str, data: LearningData, confidences: Sequence[np.ndarray], level: float) -> Judged:
    """Compare confidences of the same rows by AURC, all against the first one, as one family of paired tests.

    `function` is named in messages, `level` is that of the intervals and of the family of tests. `data` holds the
    labelled rows: inputs, losses, targets from 1 (best) to 0 (worst), weights and clusters.
    """
    has_equal_weights = bool(np.all(data.weight == data.weight[0]))
    gathered = [
        gather(
            function,
            AURC,
            data.loss,
            confidence,
            sample_weight=None if has_equal_weights else data.weight,
            clusters=data.cluster,
        )
        for confidence in confidences
    ]
    samples = []
    for contestant in convert_to_one_error_size(function, gathered):
        ranked = RankedLoss(
            rank_confidences(contestant.answered_confidence),
            contestant.answered_loss,
            contestant.answered_weight,
        )
        samples.append(contestant._replace(ranked_by_confidence=ranked))
    sides = [side_from_samples(contestant) for contestant in samples]
    has_negative = any(bool((contestant.answered_loss < 0).any()) for contestant in samples)
    scale = AURC.scale_for(samples[0].zero_one, has_negative).scaled(samples[0].error_size)
    later_places = np.arange(1, len(sides))
    tests = Tests(*np.empty((len(Tests._fields), 0)))  # no other confidence, no test
    if len(later_places):
        tests = compare_sides(
            sides, a=later_places, b=np.zeros_like(later_places), scale=scale, level=level, paired=True
        )
    intervals = [
        make_interval(AURC, spread_by_sample(function, contestant), summarise_samples(contestant), level)
        for contestant in samples
    ]
    return Judged(
        aurc=[side.estimate for side in sides],
        low=[interval.low for interval in intervals],
        high=[interval.high for interval in intervals],
        tests=tests,
    )


def results_of(names: Sequence[str], judged: Judged) -> tuple[CandidateResult, ...]:
    """Put the judgement into one record per candidate; the first is the baseline."""
    results = []
    for place, name in enumerate(names):
        differs = {
            "difference": 0.0,
            "difference_low": 0.0,
            "difference_high": 0.0,
            "standard_error": 0.0,
            "p_value": 1.0,
        }
        note = ""
        if place > 0:
            test = place - 1
            differs = {
                "difference": float(judged.tests.difference[test]),
                "difference_low": float(judged.tests.low[test]),
                "difference_high": float(judged.tests.high[test]),
                "standard_error": float(np.nan_to_num(judged.tests.standard_error[test])),
                "p_value": float(judged.tests.p_adjusted[test]),
            }
            note = str(judged.tests.note[test])
        results.append(
            CandidateResult(
                name=name,
                aurc=judged.aurc[place],
                low=judged.low[place],
                high=judged.high[place],
                note=note,
                **differs,
            )
        )
    return tuple(results)


def choose_candidate(
    results: Sequence[CandidateResult],
    keep: str,
    level: float,
    *,
    is_few: bool = False,
    trusted: str | None = None,
) -> int:
    """Return the index of the candidate to keep; `results` are ordered from the simplest, the baseline, on.

    With `keep` "lowest" it is the one with the lowest AURC, the simplest of those within rounding; but the baseline if
    the difference is less than a quarter of its standard error. With "proven" it is the lowest among those proven
    better than the baseline at `level`, or the baseline if there is none.

    `is_few` says that the rows are too few to judge by: no margin is then asked for. `trusted` names a candidate that
    is known to be better from other data: with "lowest" the baseline is then out, unless these rows prove the trusted
    candidate worse.
    """
    eligible = [
        place
        for place, result in enumerate(results)
        if place == 0 or keep == "lowest" or result.is_proven(level)
    ]
    if trusted is not None and keep == "lowest":
        believed = next((result for result in results if result.name == trusted), None)
        if believed is not None and not (believed.p_value < 1 - level and believed.difference > 0):
            eligible.remove(0)
    lowest = min(results[place].aurc for place in eligible)
    best = next(place for place in eligible if results[place].aurc <= lowest * (1 + _ROUNDING))
    is_within_noise = -results[best].difference < _MIN_GAIN * results[best].standard_error
    if is_within_noise and not is_few and 0 in eligible:
        return 0
    return best


def is_clearly_lower(
    function: str, data: LearningData, confidence: np.ndarray, reference: np.ndarray
) -> bool:
    """Is the AURC of `confidence` below that of `reference` by at least half of the standard error of the difference?

    Both hold one confidence per row of `data`, the labelled rows. `function` is named in messages.
    """
    any_level = 0.95  # standard errors do not depend on it
    tests = judge(function, data, [reference, confidence], any_level).tests
    return float(tests.difference[0]) <= -_CLEAR_GAIN * float(np.nan_to_num(tests.standard_error[0]))
