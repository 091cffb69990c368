"""Which candidate to keep: AURC of out-of-fold confidences within folds, by paired tests corrected for their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from abstain._stored import Finite, Share, Within
from abstain.confidence.candidates import LearningData
from abstain.inference.differences import (
    ComparedModel,
    Tests,
    compare_models,
    compared_model_from_samples,
    compared_model_from_spread,
    convert_to_one_error_size,
)
from abstain.inference.limits import make_interval
from abstain.inference.standard_errors import CheckedSamples, gather, spread_by_sample, summarise_samples
from abstain.metrics.definitions import AURC
from abstain.metrics.summaries import EstimateSpread, Scale

# Standard errors by which a candidate must be below the baseline: with less, what is kept is often kept by chance.
# Chosen on simulated rows with nothing to learn and on every second file of logits.
_LEAST_GAIN_OVER_BASELINE = 0.5
# Standard errors by which, with few rows, a model must be below the combination without labels.
_LEAST_GAIN_OVER_COMBINATION = 0.5
_LARGEST_ROUNDING = 1e-9  # relative difference of AURC within which the simpler candidate is preferred


@dataclass(frozen=True, kw_only=True)
class CandidateResult:
    """One candidate, judged by the confidences of rows that it was not fitted on.

    Attributes
    ----------
    name : str
        Of the candidate.
    aurc, low, high : float
        AURC within folds, averaged over them, and its interval.
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
    >>> number = [8, 7, 4, 6, 2, 1, 5, 3] * 20
    >>> learned = abstain.learn_confidence(right, signals={"number": number})
    >>> learned.candidates[0].name, round(learned.candidates[0].aurc, 4)
    ('baseline', 0.1312)
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
    """What one input adds to a learned confidence: the kept model is fitted again without it.

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


def judge(
    function: str, data: LearningData, confidences: Sequence[np.ndarray], level: float, fold: np.ndarray
) -> Judged:
    """Compare confidences of the same rows by AURC, all against the first one, as one family of paired tests.

    AURC is the mean over folds of that within each fold: only rows that were scored by the same model are compared. A
    model that was fitted without a wrong row is too sure of rows like it, which a model that was fitted with it is not;
    compared across folds, every fitted confidence would look worse than it is.

    `confidences` are those of the candidates, the baseline first, each with one entry per row. `fold` is the fold of
    each row. `function` is named in messages, `level` is that of the intervals and of the family of tests. `data` holds
    the labelled rows: inputs, losses, targets from 1 (best) to 0 (worst), weights and clusters.

    The result has one AURC and one interval per confidence, and one test per confidence but the first. A spread is an
    estimate with its variance. `error_size` is the loss of one error, and estimates are first made in units of it.
    """
    has_equal_weights = bool(np.all(data.weight == data.weight[0]))  # they count as no weights
    # for each confidence: the checked rows, with losses divided by `error_size` (c where all losses are 0 or c)
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
    samples = convert_to_one_error_size(function, gathered)  # the same `error_size` for all
    # the variance within a fold needs two clusters, so all rows become one fold if some fold has a single cluster
    fold = _merge_folds_of_one_cluster(fold, data.cluster)
    # counts of rows, errors and independent draws, on which intervals depend, and `error_size`
    summaries = [summarise_samples(contestant) for contestant in samples]
    # one entry per confidence in each of these lists, in the order of `confidences`
    spreads = []  # AURC of each confidence and its variance, with losses divided by `error_size`
    models = []  # the same in the user's units, and what each row (or cluster) does to the AURC
    for contestant, summary in zip(samples, summaries, strict=True):
        spread, unit_effects = _spread_within_folds(function, contestant, fold)
        spreads.append(spread)
        # one vector of effects, since there is one kind of clusters at most
        models.append(compared_model_from_spread(AURC, spread, summary, effects=(unit_effects,)))
    has_negative = any(bool((contestant.answered_loss < 0).any()) for contestant in samples)
    # AURC is compared on a log scale, or on a plain one if losses below 0 may make it negative
    # (`zero_one`: all losses are 0 or 1 in units of one error)
    scale_in_units_of_error = AURC.scale_for(samples[0].zero_one, has_negative)
    scale = scale_in_units_of_error.scaled(samples[0].error_size)  # in the user's units, as the models are
    intervals = [  # in the user's units too
        make_interval(AURC, spread, summary, level)
        for spread, summary in zip(spreads, summaries, strict=True)
    ]
    return Judged(
        aurc=[model.estimate for model in models],
        low=[interval.low for interval in intervals],
        high=[interval.high for interval in intervals],
        tests=_test_against_first(models, scale, level),
    )


def _test_against_first(models: Sequence[ComparedModel], scale: Scale, level: float) -> Tests:
    """Test each model but the first against the first, on the same rows: one entry per test in every field.

    Fields are empty if there is one model only. `scale` is that of the tests, in the user's units as the models are.
    """
    later_places = np.arange(1, len(models))
    if not len(later_places):
        return Tests(*np.empty((len(Tests._fields), 0)))
    return compare_models(
        models, a=later_places, b=np.zeros_like(later_places), scale=scale, level=level, paired=True
    )


def _merge_folds_of_one_cluster(fold: np.ndarray, cluster: np.ndarray | None) -> np.ndarray:
    """Return the folds, or one fold for all rows if some fold has a single cluster, whose spread is unknown.

    `fold` and `cluster` hold the fold and the cluster of each row; without clusters (None) the folds stay as they are.
    """
    if cluster is None:
        return fold
    cluster_counts = [len(np.unique(cluster[fold == number])) for number in np.unique(fold)]
    return fold if min(cluster_counts) > 1 else np.zeros_like(fold)


def _spread_within_folds(
    function: str, samples: CheckedSamples, fold: np.ndarray
) -> tuple[EstimateSpread, np.ndarray]:
    """Return the mean AURC within folds, with its variance, and what each row or cluster does to it.

    The folds count by their mass; `fold` is the fold of each row. Losses in `samples` were divided by their
    `error_size`: c where all are 0 or c (`samples.zero_one`). The first result (estimate, a less biased estimate,
    variance, and how well these are known) is for such losses, the second in the user's units: one entry per row, or
    per cluster where there are clusters, so that the sum of their squares is the variance. `function` is named in
    messages. No row abstains, and none has weight 0, so `samples.answered_loss` has an entry for every row.
    """
    weight = samples.weights_of_all
    mass = np.ones(samples.sample_count) if weight is None else weight
    estimate = 0.0
    less_biased_estimate = 0.0
    effects_by_fold = []  # one vector per fold
    for number in np.unique(fold):
        rows = np.flatnonzero(fold == number)
        share = float(mass[rows].sum() / mass.sum())  # of the mass of all rows
        part = gather(  # a part without errors does not show how large an error is, so the size is passed on
            function,
            AURC,
            samples.error_size * samples.answered_loss[rows],
            samples.answered_confidence[rows],
            sample_weight=None if weight is None else weight[rows],
            clusters=None if samples.clusters is None else samples.clusters[rows],
            error_size=samples.error_size if samples.zero_one else None,
        )
        # AURC of this fold and the effect of each of its rows or clusters, in the user's units
        model = compared_model_from_samples(part)
        estimate += share * model.estimate
        less_biased_estimate += share * model.less_biased_estimate
        # one vector, since there is one kind of clusters at most; units come fold by fold in every confidence
        effects_by_fold.append(share * model.unit_effects[0])
    unit = samples.error_size  # the loss of one error
    effect_of_each = np.concatenate(effects_by_fold)
    # Estimate and variance are those within folds. The other fields say how well the variance is known and on how many
    # errors the estimate rests; as an approximation, they are those of all rows ranked together.
    spread = spread_by_sample(function, samples)._replace(
        estimate=estimate / unit,
        less_biased_estimate=less_biased_estimate / unit,
        variance=float(effect_of_each @ effect_of_each) / unit**2,
    )
    # the fields that were replaced are in units of one error; the effects are in the user's units
    return spread, effect_of_each


def results_of(names: Sequence[str], judged: Judged) -> tuple[CandidateResult, ...]:
    """Put the judgement into one record per candidate; the first is the baseline.

    `judged.aurc`, `low` and `high` have one entry per name. `judged.tests` has one entry per name but the first: its
    AURC minus that of the baseline, the interval, the corrected p-value, and a note where there is no verdict. The
    order of `names` is that of the confidences that were judged.
    """
    results = []
    for index, name in enumerate(names):
        # the baseline is compared with nothing: no difference from itself
        differs = {
            "difference": 0.0,
            "difference_low": 0.0,
            "difference_high": 0.0,
            "standard_error": 0.0,
            "p_value": 1.0,
        }
        note = ""
        if index > 0:
            test = index - 1  # the baseline has no test, so the first test is that of the second candidate
            differs = {
                "difference": float(judged.tests.difference[test]),
                "difference_low": float(judged.tests.low[test]),
                "difference_high": float(judged.tests.high[test]),
                # NaN where it cannot be estimated
                "standard_error": float(np.nan_to_num(judged.tests.standard_error[test])),
                "p_value": float(judged.tests.p_adjusted[test]),
            }
            note = str(judged.tests.note[test])
        results.append(
            CandidateResult(
                name=name,
                aurc=judged.aurc[index],
                low=judged.low[index],
                high=judged.high[index],
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
    the difference is less than half of its standard error. With "proven" it is the lowest among those proven
    better than the baseline at `level`, or the baseline if there is none.

    `is_few` says that the rows are too few to judge by: no margin is then asked for. `trusted` names a candidate that
    is known to be better from other data: with "lowest" the baseline is then out, unless these rows prove the trusted
    candidate worse.

    `difference` of a result is its AURC minus that of the baseline, and `p_value` the two-sided one of no difference,
    corrected for the number of candidates.
    """
    baseline = 0  # its index among the results
    eligible = [
        index
        for index, result in enumerate(results)
        if index == baseline or keep == "lowest" or result.is_proven(level)
    ]
    if trusted is not None and keep == "lowest":
        trusted_result = next((result for result in results if result.name == trusted), None)
        if trusted_result is not None:  # it was tried on these rows
            is_proven_worse = trusted_result.p_value < 1 - level and trusted_result.difference > 0
            if not is_proven_worse:
                eligible.remove(baseline)  # the trusted candidate and all others stay
    lowest = min(results[index].aurc for index in eligible)
    rounding = _LARGEST_ROUNDING * abs(lowest)  # a billionth of it; `abs` since losses may be negative
    best = next(index for index in eligible if results[index].aurc <= lowest + rounding)
    gain = -results[best].difference  # by how much its AURC is below that of the baseline
    # both are 0 for the baseline itself, which is returned either way
    is_within_noise = gain < _LEAST_GAIN_OVER_BASELINE * results[best].standard_error  # 0.5
    if is_within_noise and not is_few and baseline in eligible:
        return baseline
    return best


def is_clearly_lower(
    function: str, data: LearningData, confidence: np.ndarray, reference: np.ndarray, fold: np.ndarray
) -> bool:
    """Is the AURC of `confidence` below that of `reference` by at least half of the standard error of the difference?

    Both hold one confidence per row of `data`, the labelled rows; `fold` is the fold of each row, and `function` is
    named in messages. AURC is compared within folds. A standard error that cannot be estimated counts as 0; with one of
    0 the answer is True also if both are equal.
    """
    any_level = 0.95  # standard errors do not depend on it
    tests = judge(function, data, [reference, confidence], any_level, fold).tests
    difference = float(tests.difference[0])  # the AURC of `confidence` minus that of `reference`
    standard_error = float(np.nan_to_num(tests.standard_error[0]))  # NaN where it cannot be estimated
    # `_LEAST_GAIN_OVER_COMBINATION` is 0.5
    return difference <= -_LEAST_GAIN_OVER_COMBINATION * standard_error
