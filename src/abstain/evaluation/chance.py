"""Rankings that are worse than chance: most often a confidence with the wrong sign, such as an entropy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from abstain.errors import InfeasibleError, InputError
from abstain.inference.intervals import interval_of_units
from abstain.inference.standard_errors import Units
from abstain.metrics import auroc

if TYPE_CHECKING:
    from abstain.evaluation.results import Entry

_PHRASE = "ranks worse than chance"
_LEVEL = 0.99  # of the interval that must lie below 1/2, so that chance alone rarely raises the warning
_ALWAYS_TESTED = 1_000_000  # samples up to which a ranking is tested even where its AUROC was not asked for


def worse_than_chance(name: str, units: Units, estimate: float | None = None) -> str | None:
    """A warning where the AUROC of a ranking lies below 1/2 with all of its interval; else None.

    Parameters
    ----------
    name : str
        Of the score or the contestant.
    units : Units
        Checked samples with the confidence that ranks them; only a 0/1 loss has an AUROC.
    estimate : float, optional
        The AUROC, where it is known already.
    """
    if not units.zero_one:
        return None
    try:
        if estimate is None:
            if len(units.loss) > _ALWAYS_TESTED:
                return None
            estimate = float(auroc(units.loss, units.confidence, sample_weight=units.weight))
        if estimate >= 0.5:
            return None
        asked = units._replace(metric="auroc", options={}, ranked=None, by_loss=None)
        limits = interval_of_units(asked, _LEVEL, None, None)
    except (InputError, InfeasibleError):  # all samples are right, or all are wrong
        return None
    return _sentence(name, limits.estimate, limits.low, limits.high) if limits.high < 0.5 else None


def warnings_of_entries(entries: Iterable[Entry]) -> list[str]:
    """The same from a finished table whose samples are not at hand, by the intervals that it shows."""
    return [
        _sentence(e.score, e.estimate, e.low, e.high)
        for e in entries
        if e.metric == "auroc"
        and e.group is None
        and e.estimate is not None
        and e.high is not None
        and e.high < 0.5
    ]


def chance_warnings(notes: Iterable[str]) -> list[str]:
    """Of the notes of a table, those about rankings that are worse than chance."""
    return [note for note in notes if _PHRASE in note]


def _sentence(name: str, estimate: float, low: float | None, high: float | None) -> str:
    return (
        f"{name} {_PHRASE} (AUROC {estimate:.3g}, interval {low:.3g} to {high:.3g}): wrong samples have the higher "
        f"values. If it rises with doubt, as an entropy does, change its sign (command line: -c confidence=-NAME)."
    )
