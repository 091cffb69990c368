"""Rankings that are worse than chance: uncertainty taken for confidence, or errors taken for right answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from abstain.core import curve_points
from abstain.errors import InfeasibleError, InputError
from abstain.inference.intervals import interval_of_samples
from abstain.inference.standard_errors import CheckedSamples
from abstain.metrics import auroc
from abstain.metrics.definitions import AUROC, MEAN_LOSS

if TYPE_CHECKING:
    from abstain.evaluation.results import Entry

_PHRASE = "ranks worse than chance"
_END = "wrong samples have the higher values."
_LEVEL_OF_WARNING = 0.99  # of the interval that must lie below 1/2: chance alone rarely raises the warning
# more samples are tested only where they are ranked, or their AUROC is known, already
_MOST_SAMPLES_SORTED_FOR_AUROC = 1_000_000


def auroc_of_samples(samples: CheckedSamples) -> float | None:
    """AUROC of checked samples; None if losses are not 0/1, or if all answered samples are right or all wrong.

    Samples that are ranked by confidence already are not sorted again. None for more than
    `_MOST_SAMPLES_SORTED_FOR_AUROC`, a million, that are not ranked: sorting them would take too long.

    Parameters
    ----------
    samples : CheckedSamples
        Checked samples with the confidence that ranks them.
    """
    if not samples.zero_one:
        return None
    if samples.ranked_by_confidence is not None:
        # a row is a run of equal confidences; `accepted_loss` sums the losses of all samples down to it, surest first
        rows = samples.ranked_by_confidence.rows
        error_mass = float(rows.accepted_loss[-1])  # with all samples accepted; losses are 0 or 1
        if error_mass == 0 or error_mass == float(rows.total_mass[0]):  # of all answered samples
            return None
        return float(curve_points.auroc(rows))
    if len(samples.answered_loss) > _MOST_SAMPLES_SORTED_FOR_AUROC:
        return None
    try:
        return float(
            auroc(samples.answered_loss, samples.answered_confidence, sample_weight=samples.answered_weight)
        )
    except (InputError, InfeasibleError):  # all samples are right, or all are wrong
        return None


def worse_than_chance(
    name: str, samples: CheckedSamples, estimate: float | None, *, is_computed: bool = False
) -> str | None:
    """A warning if the interval of a ranking's AUROC lies entirely below 1/2, otherwise None.

    Parameters
    ----------
    name : str
        The score or the contestant, for the warning.
    samples : CheckedSamples
        Checked samples with the confidence that ranks them. Losses other than 0/1 have no AUROC and no warning.
    estimate : float or None
        Their AUROC, as `auroc_of_samples` or a table of results has it; None gives no warning.
    is_computed : bool
        Whether confidences and losses were computed from class scores, so that no column is mistaken for another.
    """
    # 1/2 is the AUROC of a random order; from there on no interval is needed
    if not samples.zero_one or estimate is None or estimate >= 0.5:
        return None
    try:
        # a changed copy: rankings from the computation of another metric are dropped, and made anew
        auroc_samples = samples._replace(metric=AUROC, ranked_by_confidence=None, ranked_by_loss=None)
        interval = interval_of_samples(
            auroc_samples,
            level=_LEVEL_OF_WARNING,  # 99%, so that chance alone rarely raises the warning
            method=None,  # the usual one of the metric
            loss_bound=None,
        )
    except (InputError, InfeasibleError):  # all samples are right, or all are wrong
        return None
    if interval.high >= 0.5:
        return None
    if is_computed:
        return (
            f"{_describe_ranking(name, interval.estimate, interval.low, interval.high)} {sign_advice(None)}"
        )
    loss = samples.answered_loss
    error_rate = float(np.average(loss, weights=samples.answered_weight))
    return _warning_sentence(name, interval.estimate, interval.low, interval.high, error_rate)


def warnings_of_entries(entries: Iterable[Entry]) -> list[str]:
    """Warnings like those of `worse_than_chance`, from a finished table whose samples are not at hand.

    One for each AUROC over all samples (group None) whose interval in the table, at the level of the table, lies below
    1/2. Most samples are wrong where the mean loss in the table is above 1/2: the warning says so then.
    """
    all_entries = list(entries)
    # the mean loss is the share of wrong samples, since only 0/1 losses have an AUROC
    error_rates = {
        (entry.score, entry.loss): entry.estimate
        for entry in all_entries
        if entry.metric == MEAN_LOSS.key and entry.group is None
    }
    warnings = []
    for entry in all_entries:
        if entry.metric != AUROC.key or entry.group is not None:
            continue
        if entry.estimate is not None and entry.high is not None and entry.high < 0.5:
            error_rate = error_rates.get((entry.score, entry.loss))  # None: the table has no mean loss
            warnings.append(_warning_sentence(entry.score, entry.estimate, entry.low, entry.high, error_rate))
    return warnings


def chance_warnings(notes: Iterable[str]) -> list[str]:
    """Of the notes of a table, those about rankings that are worse than chance."""
    return [note for note in notes if _PHRASE in note]


def sign_advice(name: str | None) -> str:
    """What to do about the sign of a confidence that ranks worse than chance.

    `name` is that of its column, with a minus sign before it where the user has changed the sign; None for a confidence
    that is computed from class scores. Without a minus sign the advice is the same for all columns.
    """
    if name is None:
        return "It is computed from the class scores, so its sign is right; another one may rank better."
    if name.startswith("-"):
        column = name.removeprefix("-")
        return (
            f"Its sign is changed already; if {column} is higher for surer answers, leave the minus sign out (command "
            f"line: -c confidence={column})."
        )
    return (
        "If the confidence measures uncertainty, as an entropy does, change its sign (command line: -c "
        "confidence=-NAME)."
    )


def with_sign_advice(notes: Iterable[str], confidence_names: Mapping[str, str | None]) -> list[str]:
    """The notes of a table or a comparison, with what applies to the sign of the confidence that ranks each name.

    A table calls a confidence by another name than the user does, such as "confidence" for the column "-entropy", so
    its warnings were made without knowing the column. `confidence_names` maps names in the table to names of
    confidences, as `sign_advice` takes them (None: computed from class scores). A note on another name, or about
    something else, stays as it is.
    """
    advised = []
    for note in notes:
        # a warning begins with the name in the table and "ranks worse than chance"; in other notes `phrase` is empty
        name, phrase, _ = note.partition(f" {_PHRASE} ")
        if phrase and name in confidence_names:
            # the warning ends with advice, which becomes that for this confidence
            advised.append(_change_advice(note, name, confidence_names[name]))
        else:
            advised.append(note)
    return advised


def _change_advice(warning: str, name: str, confidence_name: str | None) -> str:
    """The warning about `name`, made by `_warning_sentence`, with the advice for the confidence behind that name."""
    advice = sign_advice(confidence_name)
    if confidence_name is None:
        # no column is mistaken for another, so that a sentence about errors, between ranking and advice, goes too
        ranking, _, _ = warning.partition(_END)
        return f"{ranking}{_END} {advice}"
    # what a warning may end with: the advice for its own name, or that for any column without a minus sign
    for previous_advice in (sign_advice(name), sign_advice("")):
        warning = warning.replace(previous_advice, advice)
    return warning


def _describe_ranking(name: str, estimate: float, low: float | None, high: float | None) -> str:
    """The sentence that a ranking is worse than chance."""
    return f"{name} {_PHRASE} (AUROC {estimate:.3g}, interval {low:.3g} to {high:.3g}): {_END}"


def _warning_sentence(
    name: str, estimate: float, low: float | None, high: float | None, error_rate: float | None
) -> str:
    """The warning that the confidence `name` ranks worse than chance, with what may be the mistake.

    `estimate` is its AUROC, `low` and `high` are limits of that, which are numbers wherever a warning is made.
    `error_rate` is the share of wrong samples, None where it is not known. Above 1/2, it is named first that errors may
    have been taken for right answers; then comes what to do about the sign.
    """
    warning = f"{_describe_ranking(name, estimate, low, high)} "
    if error_rate is not None and error_rate > 0.5:
        warning += (
            f"{error_rate:.0%} are wrong: if the column holds 1 for an error, say so (command line: -c error=NAME; "
            f"Python: `loss=`). "
        )
    return warning + sign_advice(name)
