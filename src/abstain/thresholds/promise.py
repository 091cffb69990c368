"""What a threshold promises, and what else to know of it, in words made from its numbers.

A stored rule is checked by writing its sentences again, so every number in a sentence comes from a stored field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from abstain._stored import Within
from abstain.thresholds.calibration import TESTING_METHODS, Calibration, Form, Method

Weight = Annotated[float, Within(0, closed=False)]

_INDEPENDENT_SAMPLES = "calibration and later data being independent draws from one population"
_INDEPENDENT_CLUSTERS = (
    "calibration and later clusters being independent draws from one population, whatever samples of one cluster have "
    "in common, and none larger than the largest here ({largest:g})"
)
_WEIGHTS_ARE_DENSITY_RATIO = (
    "if the sample weights are, up to a factor, the exact density ratio of later to calibration data, and no weight "
    "of that population is larger than the largest seen here ({top:.4g} times the mean)"
)
OUT_OF_FOLD = (
    "Calibrated on out-of-fold predictions: each came from a model other than the one deployed (trained on a part of "
    "the data), so no guarantee carries over. For one, hold out data (cv=0.25) or calibrate a fitted model "
    "(cv='prefit')."
)


class Goal(NamedTuple):
    """What was asked for: "risk", "coverage" or "cost", how much of it, how surely, and by which method."""

    form: Form
    target: float
    delta: float
    method: Method

    @property
    def is_certified_risk(self) -> bool:
        """Is it a risk, by a method ("ltt", "sgr") whose tests certify it with probability 1 - delta?"""
        return self.form == "risk" and self.method in TESTING_METHODS


@dataclass(frozen=True, kw_only=True)
class PromiseBasis:
    """What the promise of a threshold rests on, besides the number of samples.

    Attributes
    ----------
    zero_one : bool
        Does the loss take the two ends of its bounds only?
    heaviest_sample, heaviest_cluster : float or None
        The largest weight of a sample and of a cluster, over the mean weight of a sample, where there were sample
        weights and clusters.
    out_of_fold : bool
        Were the predictions made by other models than the one deployed? Then nothing is promised.
    """

    zero_one: bool
    heaviest_sample: Weight | None = None
    heaviest_cluster: Weight | None = None
    out_of_fold: bool = False

    @classmethod
    def of(cls, calibration: Calibration) -> PromiseBasis:
        """Describe calibration data.

        `calibration` holds the samples, most confident first (`ranked`), with losses scaled to [0, 1]; a loss that
        takes only its two bounds is `zero_one`. The heaviest sample and the heaviest cluster are both stated as
        multiples of the mean weight of a sample (None without weights, and without clusters): without weights, the
        heaviest cluster is the number of samples in the largest one.
        """
        weight = calibration.ranked.weight
        heaviest_cluster = None
        if calibration.clusters is not None:
            # one entry per sample; all 1 without sample weights
            weight_of_sample = calibration.clusters.weight
            mean_sample_weight = float(weight_of_sample.mean())
            heaviest_cluster = calibration.clusters.heaviest_cluster_mass / mean_sample_weight
        return cls(
            zero_one=bool(calibration.ranked.zero_one),
            heaviest_sample=None if weight is None else float(weight.max() / weight.mean()),
            heaviest_cluster=heaviest_cluster,
        )


def state_bound(goal: Goal, basis: PromiseBasis, bounded: tuple[float, float]) -> str:
    """State what a threshold bounds, as a clause: "the error rate of the accepted is at most 0.05".

    `goal` is what was asked for; its `form` is "risk" or "coverage", and its `method` "crc" bounds a mean loss per
    sample. In `basis`, `zero_one` says that the loss takes only its two bounds, which are `bounded`, and
    `heaviest_sample` is None without sample weights. `_risk_noun` is "error rate" for a 0/1 loss, else "mean loss".
    """
    if goal.form == "coverage":
        return f"at least a share {goal.target:.4g} of later samples is accepted"
    if goal.method == "crc":
        return f"the loss of the accepted per sample of all (accepted or not) is at most {goal.target:.4g}"
    among = "" if basis.heaviest_sample is None else " among later data"
    return f"the {_risk_noun(basis, bounded)} of the accepted{among} is at most {goal.target:.4g}"


def _risk_noun(basis: PromiseBasis, bounded: tuple[float, float]) -> str:
    """What the mean of this loss is called; `zero_one` losses take only the two values `bounded`."""
    return "error rate" if basis.zero_one and bounded == (0.0, 1.0) else "mean loss"


def write_guarantee(
    goal: Goal, basis: PromiseBasis, n: int, clusters: int | None, bounded: tuple[float, float]
) -> str | None:
    """Write the sentence that states what a threshold promises; None if it promises nothing.

    `goal` is what was asked for, `basis` describes the calibration data, of n samples. `clusters` is the number of
    calibration clusters, None without clusters; `bounded` are the bounds of the loss. Stored rules are checked by
    writing the sentence again, so changing a word makes stored rules unreadable.

    A cost, the method "empirical" and a coverage with sample weights only describe the calibration data. A risk is
    certified by tests (methods "ltt" and "sgr"), or bounded on average by conformal risk control ("crc", which takes no
    sample weights). In `basis`, `heaviest_sample` and `heaviest_cluster` are the largest weight of a sample and of a
    cluster over the mean weight of a sample, None without weights and without clusters; `zero_one` says that the loss
    takes only its two bounds, and `out_of_fold` that other models made the predictions than the one deployed.
    """
    form, _target, delta, method = goal  # "risk", "coverage" or "cost"; how much; the chance to fail; by what
    has_weights = basis.heaviest_sample is not None
    describes_calibration_only = (
        form == "cost" or method == "empirical" or (form == "coverage" and has_weights)
    )
    if describes_calibration_only or basis.out_of_fold:
        return None
    # a clause, such as "the error rate of the accepted is at most 0.05"
    bound = state_bound(goal, basis, bounded)
    calibration_data = f"{n} calibration samples"
    draws = _INDEPENDENT_SAMPLES  # the assumption in words
    if clusters is not None:
        calibration_data = f"{clusters} calibration clusters ({n} samples)"
        draws = _INDEPENDENT_CLUSTERS.format(largest=basis.heaviest_cluster)
    chance = f"With probability at least {1 - delta:.4g} over the {calibration_data},"
    if form == "coverage":
        return f"{chance} {bound}, {draws}. Nothing is promised about the risk."
    if method == "crc":
        sets = calibration_data.replace(" calibration", "")
        # `_risk_noun` is "error rate" for a 0/1 loss, else "mean loss"
        return (
            f"On average over calibration sets of {sets}, {bound}, {draws}. This is not the "
            f"{_risk_noun(basis, bounded)} of the accepted, which may be larger, and no probability of failure is "
            f"stated."
        )
    if has_weights:
        what = _WEIGHTS_ARE_DENSITY_RATIO.format(top=basis.heaviest_sample)
        what += f", {draws}" if clusters is not None else ""
        return f"{chance} {bound}, {what}."
    promise = f"{chance} {bound}, {draws}"
    if method == "sgr":
        return f"{promise}, and the risk never falling as coverage grows (the search skips what it does not test)."
    ties = "ties are accepted or rejected together"
    return f"{promise}. Nothing is assumed about the shape of the risk; {ties}."


# By "cost" or the method: the note on a threshold that exists, and on there being none. None: nothing to say.
_NOTES_BY_METHOD = {
    "cost": (
        "Least cost on the calibration data itself; later data will cost a little more.",
        "Rejecting everything is cheapest on the calibration data.",
    ),
    "empirical": (
        "Chosen on the calibration risk itself, which errs on the low side; about half of such thresholds exceed the "
        "target.",
        "At no threshold is the calibration risk at most the target.",
    ),
    "crc": (None, "Even the smallest block of samples has too much loss for the target."),
}
_COVERAGE_IS_ESTIMATE = "With importance weights the coverage is an estimate; nothing is promised."
_NOTES_ON_TESTED_RISK = (None, "No threshold can be certified at this risk and delta with these data.")


def write_note(goal: Goal, basis: PromiseBasis, feasible: bool) -> str | None:
    """Write a remark on how the threshold was chosen, or on why there is none; None if there is nothing to say.

    `goal` is what was asked for: its `form` is "risk", "coverage" or "cost", its `method` "ltt", "sgr", "crc" or
    "empirical". `basis` describes the calibration data: `heaviest_sample` is None without sample weights, `out_of_fold`
    says that predictions came from other models than the one deployed. `feasible` says whether there is a threshold.
    """
    if basis.out_of_fold:
        return OUT_OF_FOLD
    if goal.form == "coverage":
        return None if basis.heaviest_sample is None else _COVERAGE_IS_ESTIMATE
    what_decided = "cost" if goal.form == "cost" else goal.method
    # pairs of sentences, None where there is nothing to say; "ltt" and "sgr" have no entry of their own
    note_on_threshold, note_on_none = _NOTES_BY_METHOD.get(what_decided, _NOTES_ON_TESTED_RISK)
    return note_on_threshold if feasible else note_on_none
