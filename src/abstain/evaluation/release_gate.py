"""The release gate: may a new model replace the old one? Non-inferiority, superiority, equivalence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Unpack, get_args

from abstain import _tables
from abstain._check import check_choice, check_fraction, check_nonnegative, refuse_other_row_order
from abstain._stored import Chance, Finite, Stored
from abstain.errors import InputError
from abstain.evaluation.comparison import PairedOptions, compare, refuse_other_inputs
from abstain.evaluation.results import Comparison
from abstain.inference.limits import student_quantile

Question = Literal["non_inferior", "superior", "equivalent"]
Verdict = Literal["pass", "fail", "undecided"]
# Each limit may err with this share of the allowed error, 1 - level: limits rest on approximations for large samples,
# and by simulation (benchmarks/gate.py) limits that may err with 5% pass up to 5.4% of the models at the margin itself.
_USED_SHARE_OF_ERROR = 0.9
_POWER = 0.8  # probability of a verdict with as many samples as a verdict says are needed


@dataclass(frozen=True, repr=False)
class GateVerdict(Stored, _tables.Notebook):
    """What the data say about a release.

    Parameters
    ----------
    verdict : {"pass", "fail", "undecided"}
        "pass": the new model was shown to be good enough. "fail": it was shown not to be. "undecided": there are not
        enough data for either.
    question : {"non_inferior", "superior", "equivalent"}
        What had to be shown.
    margin : float
        By how much the metric may get worse, must get better, or may change.
    old, new : str
        Names of the models.
    metric, label : str
        What they are compared by, and its name in tables.
    lower_is_better : bool
        The direction of the metric.
    estimate_old, estimate_new, difference, standard_error : float
        The metric of each, that of the new model minus that of the old one, and its standard error.
    low, high : float
        One-sided limits of the difference: each holds with probability `level` (a little more, so that approximations
        do not use up the allowed error). Infinite where none can be given: then there is no verdict.
    level : float
        1 minus the probability to pass a model that is exactly at the margin.
    n : int
        Number of samples.
    more_needed : int or None
        About how many more samples lead to a verdict with probability 80%, if the difference seen is the true one;
        None if there is a verdict, or if no number can be given, as where the samples show no spread.
    note : str
        Why there is no verdict, such as too few errors; empty otherwise.
    planned : int or None
        Planned number of samples, if limits hold at every look; None for a single look.

    Examples
    --------
    >>> loss, sure = [0, 0, 1, 0, 1, 0, 0, 1] * 40, [8, 7, 3, 6, 2, 5, 4, 1] * 40
    >>> gate({"old": (loss, sure[::-1]), "new": (loss, sure)}, margin=0.01).verdict
    'pass'
    """

    _noun: ClassVar[str] = "the verdict of a gate"

    verdict: Verdict
    question: Question
    margin: Finite
    old: str
    new: str
    metric: str
    label: str
    lower_is_better: bool
    estimate_old: float
    estimate_new: float
    difference: float
    standard_error: float
    low: float
    high: float
    level: Chance
    n: int
    more_needed: int | None
    note: str
    planned: int | None = None

    @property
    def requirement(self) -> str:
        """What had to be shown, in words: "AURC must not rise by 0.002 or more"."""
        if self.question == "equivalent":
            return f"{self.label} must not change by {self.margin:g} or more"
        if self.question == "non_inferior":
            direction = "rise" if self.lower_is_better else "fall"
            return f"{self.label} must not {direction} by {self.margin:g} or more"
        direction = "fall" if self.lower_is_better else "rise"
        amount = f" by more than {self.margin:g}" if self.margin else ""
        return f"{self.label} must {direction}{amount}"

    @property
    def reason(self) -> str:
        """Why the verdict is what it is, in one sentence.

        `difference` is the metric of the new model minus that of the old one, `low` and `high` are its limits. `note`
        ("rests on about 3.2 effective errors ...") says why no verdict is possible; empty if one is.
        """
        limits = f"the difference is {self.difference:.3g} [{self.low:.3g}, {self.high:.3g}]"
        if not self._has_limits:
            limits = "no limits of the difference can be given"
        if self.verdict != "undecided":
            return f"{limits}."
        if self.note:
            return f"{limits}: not enough data, it {self.note}."
        if self.standard_error == 0:
            return f"{limits}: not enough data, the samples show no spread."
        if self.more_needed is None:  # the difference is exactly at the margin, or has no limits
            return f"{limits}: not enough data."
        rounded = int(float(f"{self.more_needed:.2g}"))  # a rough estimate: two digits
        return f"{limits}: not enough data, about {rounded:,} more samples are needed."

    @property
    def _has_limits(self) -> bool:
        """Whether both limits are numbers; they are infinite where none can be given."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def frame(self, library: str | None = None) -> Any:
        """One row with all fields; `library` is "pandas", "polars" or "dict", by default one that is installed."""
        names = [field.name for field in fields(self)]
        return _tables.make_frame(_tables.collect_columns([self], names), library)

    def _grid(self) -> dict[str, list[str]]:
        """The two models and their difference as columns of text, one line for each.

        `self.label` is the name of the metric, such as "AURC". `low` and `high` are limits of the difference, each of
        which holds with probability `level` on its own.
        """
        number = _tables.format_number
        difference = "-"
        limits = "-"
        if self._has_limits:  # False if `low` or `high` is infinite: then there is no verdict either
            difference = number(self.difference, digits=3)
            limits = f"[{number(self.low, digits=3)}, {number(self.high, digits=3)}]"
        return {
            "model": [self.old, self.new, f"{self.new} - {self.old}"],
            self.label: [number(self.estimate_old), number(self.estimate_new), difference],
            f"one-sided {self.level:.0%} limits": ["", "", limits],
        }

    def _head(self) -> str:
        return f"{self.verdict}: {self.new} against {self.old}, {self.requirement}"

    def __repr__(self) -> str:
        looks = "" if self.planned is None else f", at any time, planned for {self.planned:,}"
        return f"{self._head()}\n{self.reason} ({self.n:,} samples{looks})"

    def to_markdown(self) -> str:
        """A summary for a pull request or the page of a workflow run."""
        table = _tables.markdown_table(self._grid())
        reason = self.reason[:1].upper() + self.reason[1:]
        return f"### {self._head()}\n\n{table}\n{reason} ({self.n:,} samples)\n"

    def to_latex(self) -> str:
        """The two models and their difference as a LaTeX table (booktabs)."""
        return _tables.latex_table(self._grid(), self._head(), self.reason)


@refuse_other_row_order
def gate(
    models: Any = None,
    labels: Any = None,
    *,
    margin: float = 0.0,
    question: Question = "non_inferior",
    probs: Any = None,
    level: float = 0.95,
    **options: Unpack[PairedOptions],
) -> GateVerdict:
    r"""May the new model replace the old one? Both are measured on the same samples.

    With D the metric of the new model minus that of the old one (the other way round where higher is better), and with
    one-sided limits of D, each at `level`:

    - "non_inferior" passes if the upper limit is below `margin`, and fails if the lower limit is not;
    - "superior" passes if the upper limit is below -`margin`, and fails if the lower limit is not;
    - "equivalent" passes if both limits lie between -`margin` and `margin`, and fails if both lie beyond one of them.

    Otherwise there are not enough data. A model whose true D is exactly at the margin passes with probability at most
    1 - level. To keep that in samples of a few hundred too, limits are computed at nine tenths of this error.

    Parameters
    ----------
    models : dict of arrays (..., K), or dict of (loss, confidence)
        The old model, then the new one, by name; as `compare` takes them.
    labels : array, optional
        Class indices of the samples, with logits or probabilities.
    margin : float
        In units of the metric; above 0, except that "superior" takes 0.
    question : {"non_inferior", "superior", "equivalent"}
        What must be shown.
    probs : dict of arrays (..., K)
        Probabilities instead of logits.
    level : float
        Of each one-sided limit, above 0.5.
    scores, losses, metric
        One confidence, one loss and one metric, by name, as in `compare`.
    sample_weight, repetitions, clusters, abstained, classes
        As in `compare`.
    anytime, planned
        As in `compare`, for a gate that is looked at again and again while samples come in.

    Returns
    -------
    GateVerdict

    Raises
    ------
    InfeasibleError
        Where a metric is undefined for one of the models, as AUROC without any error: there is nothing to judge. The
        command then exits with 4.
    InputError
        For bad input.

    Examples
    --------
    >>> loss, sure = [0, 0, 1, 0, 1, 0, 0, 1] * 40, [8, 7, 3, 6, 2, 5, 4, 1] * 40
    >>> gate({"old": (loss, sure), "new": (loss, sure[::-1])}, margin=0.01)
    fail: new against old, AURC must not rise by 0.01 or more
    the difference is 0.499 [0.418, 0.595]. (320 samples)
    """
    level = check_fraction("gate", "level", level, open_high=True)
    if level <= 0.5:
        raise InputError(f"gate: `level` must be above 0.5, got {level:g}.")
    outputs = models if probs is None else probs
    refuse_other_inputs("gate", outputs)
    if not isinstance(outputs, Mapping) or len(outputs) != 2:
        raise InputError("gate: takes a dict of two models, the old one and then the new one.")
    unknown = set(options) - set(PairedOptions.__annotations__)
    if unknown:
        raise TypeError(f"gate: takes no argument `{min(unknown)}`.")
    comparison = compare(models, labels, probs=probs, level=two_sided_level(level), **options)
    old, new = map(str, outputs)
    return judge(comparison, old, new, margin=margin, question=question, level=level)


def two_sided_level(level: float) -> float:
    """Level of the comparison (a two-sided interval) that a gate needs whose one-sided limits hold at `level`.

    A limit at `level` errs with probability 1 - level. The limits of the comparison are approximations for large
    samples and err a little more often than they state, so the comparison may use only 90% of that.

    Parameters
    ----------
    level : float
        Of the gate, above 0.5 and below 1.

    Returns
    -------
    float

    Examples
    --------
    >>> round(two_sided_level(0.95), 4)  # 4.5% beyond either limit
    0.91
    """
    allowed_error = 1 - level  # of each one-sided limit
    # the simulation in benchmarks/gate.py sets the share; larger ones let too many models pass at the margin itself
    stated_error = _USED_SHARE_OF_ERROR * allowed_error
    return 1 - 2 * stated_error


def judge(
    comparison: Comparison,
    old: str,
    new: str,
    *,
    margin: float,
    question: Question = "non_inferior",
    level: float = 0.95,
) -> GateVerdict:
    """The verdict of a gate from a comparison of two models.

    Parameters
    ----------
    comparison : Comparison
        Of two models, at `two_sided_level(level)` or above; InputError otherwise. (With more models, limits would be
        corrected for several pairs.)
    old, new : str
        Names of the contestants.
    margin : float
        In units of the metric; above 0, except that "superior" takes 0.
    question : {"non_inferior", "superior", "equivalent"}
        What must be shown, see `gate`.
    level : float
        Of each one-sided limit, as in `gate`.

    Returns
    -------
    GateVerdict

    Examples
    --------
    >>> import abstain
    >>> loss, sure = [0, 0, 1, 0, 1, 0, 0, 1] * 40, [8, 7, 3, 6, 2, 5, 4, 1] * 40
    >>> comparison = abstain.compare({"a": (loss, sure), "b": (loss, sure)}, level=two_sided_level(0.95))
    >>> judge(comparison, "a", "b", margin=0.01, question="equivalent").verdict
    'pass'
    """
    check_choice("gate", "question", question, get_args(Question))
    margin = check_nonnegative("gate", "margin", margin)
    if margin == 0 and question != "superior":
        raise InputError(
            f'gate: `margin` must be above 0 for "{question}", got 0. Say what change is tolerable.'
        )
    if len(comparison.contestants) != 2:
        raise InputError(f"gate: takes two models, got {len(comparison.contestants)}.")
    if comparison.level < two_sided_level(level) - 1e-9:
        raise InputError(
            f"gate: the comparison must have level {two_sided_level(level):g} or above, got {comparison.level:g}. "
            f"Compare with `level=two_sided_level({level:g})`."
        )
    pair = comparison.pair(new, old)  # new minus old
    sign = 1.0 if comparison.lower_is_better else -1.0
    worsening = sign * pair.difference
    has_limits = all(math.isfinite(limit) for limit in (pair.low, pair.high))
    if all(contestant.low is None for contestant in comparison.contestants):
        has_limits = False
    limits = (pair.low, pair.high) if has_limits else (-math.inf, math.inf)
    low, high = sorted(sign * limit for limit in limits)  # of the worsening
    can_decide = has_limits and not pair.note
    verdict: Verdict = "undecided"
    more_needed = None
    if can_decide:
        verdict = _verdict(question, low, high, margin)
    if can_decide and verdict == "undecided" and pair.standard_error > 0:
        more_needed = _more_samples(
            question, worsening, low, high, margin, pair.standard_error, comparison.n, level
        )
    return GateVerdict(
        verdict=verdict,
        question=question,
        margin=margin,
        old=old,
        new=new,
        metric=comparison.metric,
        label=comparison.label,
        lower_is_better=comparison.lower_is_better,
        estimate_old=comparison[old].estimate,
        estimate_new=comparison[new].estimate,
        difference=pair.difference,
        standard_error=pair.standard_error,
        low=limits[0],
        high=limits[1],
        level=level,
        n=comparison.n,
        more_needed=more_needed,
        note=pair.note,
        planned=comparison.planned,
    )


def _verdict(question: Question, low: float, high: float, margin: float) -> Verdict:
    """The verdict from limits of the worsening: how much worse the metric of the new model is than the old one's."""
    if question == "equivalent":
        if -margin < low and high < margin:
            return "pass"
        return "fail" if low >= margin or high <= -margin else "undecided"
    largest_allowed = margin if question == "non_inferior" else -margin
    if high < largest_allowed:
        return "pass"
    return "fail" if low >= largest_allowed else "undecided"


def _more_samples(
    question: Question,
    worsening: float,
    low: float,
    high: float,
    margin: float,
    standard_error: float,
    n: int,
    level: float,
) -> int | None:
    """About how many more samples lead to a verdict with probability 80%, if the worsening seen is the true one.

    `worsening` is how much worse the metric of the new model is than that of the old one, negative if it is better, and
    `low` and `high` are its limits at n samples, each one-sided at `level`. By `question`, it must be shown to be below
    the margin ("non_inferior"), below minus the margin ("superior"), or between both ("equivalent"). There is a verdict
    once the bound (for "equivalent" the nearer one) lies outside the limits. For that, the distance from the estimate
    to the limit, plus the error of the estimate itself, must shrink to the distance from the estimate to the bound.
    Both shrink with the root of the number of samples. None if the estimate is exactly at the bound.
    """
    if question == "equivalent":
        bound = margin if worsening >= 0 else -margin  # the nearer of the two bounds
    else:
        bound = margin if question == "non_inferior" else -margin
    distance = abs(bound - worsening)
    if distance == 0:
        return None
    limit = high if worsening < bound else low  # the one between the estimate and the bound
    # no closer than a symmetric interval has it: the log scale may put one limit closer than the other
    to_limit = max(abs(limit - worsening), _normal_quantile(level) * standard_error)
    power = _POWER  # probability of a verdict, 80%
    if question == "equivalent" and abs(worsening) < margin:
        power = (1 + _POWER) / 2  # both limits must lie inside: each may fail with half of 1 - _POWER
    needed = n * ((to_limit + _normal_quantile(power) * standard_error) / distance) ** 2
    return max(1, math.ceil(needed - n))


def _normal_quantile(probability: float) -> float:
    """Quantile of the standard normal distribution."""
    return float(student_quantile(math.inf, 2 * probability - 1))  # its level is that of a two-sided interval
