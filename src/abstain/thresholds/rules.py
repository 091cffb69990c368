"""A threshold and what it promises: applied, stored, drawn, by group, and checked on later data.

Needs numpy and scipy only, so that a server can load and use it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from abstain import __version__, _tables, scores
from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import refuse_other_row_order
from abstain._plots import GREY, FigureSize, draw_legend, line_style, make_axes
from abstain._stored import Chance, Finite, Share, Stored, Within
from abstain._tables import html_table
from abstain.errors import DataError, InputError, ShapeError
from abstain.metrics._sample import group_codes, label_array, rows_of_groups
from abstain.thresholds.advice import Advice
from abstain.thresholds.calibration import TESTING_METHODS, Candidates, Form, Method, array_per_sample
from abstain.thresholds.cut import (
    NO_CONFIDENCE,
    CheckedConfidences,
    Cut,
    ScoreName,
    Source,
    Units,
    check_domain,
    is_learned,
    read_confidences,
    warn_of_fitted_rows,
)
from abstain.thresholds.monitoring import (
    Check,
    ConfidenceCheck,
    GroupChecks,
    PromiseToCheck,
    Reference,
    check_confidences,
    check_is_new,
    check_promise,
    check_promises,
)
from abstain.thresholds.promise import Goal, PromiseBasis, state_bound, write_guarantee, write_note
from abstain.thresholds.testing import binomial

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Kind = Literal["logits", "probs", "confidence"]
_RULE_CLASSES = {
    "Threshold": "one threshold",
    "GroupThresholds": "a threshold for each group",
    "JointThreshold": "a threshold with several promises",
    "JointGroupThresholds": "a threshold with several promises for each group",
}


@dataclass(frozen=True)
class Origin:
    """What a rule was made from, and in which numbers it speaks.

    Attributes
    ----------
    kind : {"logits", "probs", "confidence"}
        What the calibration data held.
    score, loss : str or None
        Their names in `abstain.scores` and `abstain.losses`; a score of None means confidences of the user's own.
    plain : float or None
        The threshold as the number people know (a probability, where `value` is a rank key).
    version : str
        Of abstain.
    data, sha256, command : str or None
        The name of the calibration file, its hash, and the command that was run.

    Examples
    --------
    >>> from abstain import select_threshold
    >>> probs = [[0.98, 0.02], [0.95, 0.05], [0.5, 0.5]]
    >>> rule = select_threshold(probs=probs, labels=[0, 0, 1], coverage=0.5, method="empirical")
    >>> rule.origin.score, round(rule.value, 4), round(rule.origin.plain, 4)
    ('max_softmax', 2.9957, 0.95)
    >>> rule.accepts([0.97, 0.5], units="plain").tolist()
    [True, False]
    """

    kind: Kind
    score: str | None = None
    loss: str | None = None
    plain: Annotated[float, Within(infinite=True)] | None = None
    version: str = __version__
    data: str | None = None
    sha256: str | None = None
    command: str | None = None

    def with_plain(self, value: float | None, source: Source) -> Origin:
        """The same, with the threshold `value` stored in `plain` as the number people know.

        `source` says what `value` is: "plain" for that number itself, else a rank key or a number that needs no change.
        """
        return replace(self, plain=_threshold_in_plain_numbers(self.score, value, source))


def _threshold_in_plain_numbers(score: str | None, value: float | None, source: Source) -> float | None:
    """The threshold `value` as the number people know: the same number, or what a rank key stands for."""
    if value is None or score is None or source == "plain":
        return value
    return float(scores.display(score, value))


def key_text(score: str | None, key: float) -> str:
    """Format a threshold on a rank key as the score's plain value; close to the end of its scale, as a distance.

    E.g. "1 − 3e-09" for a probability that would round to 1. Without a score, `key` is a confidence of the user's own.
    """
    if score is None or not scores.by_name(score).saturates:
        return f"{key:.6g}"
    value = float(scores.display(score, key))
    if value < 0.9995 or score != "max_softmax":
        return f"{value:.4g}"
    return f"1 − {np.exp(-key):.2g}" if key < 700 else "1"  # beyond 700 the exponential is 0


def plain_text(cut: Cut, value: float | None) -> str | None:
    """A threshold as the number that people know, where it is a rank key; None where it is not, or is not finite.

    A rank key stands in for a score that saturates (rounds to its largest value, such as 1, for many samples): it
    orders samples in the same way and does not. `cut.source` says what the confidences were read from: from "logits",
    "probs", "binary" (probabilities of class 1) and "key" such a score has keys; only from "plain" the threshold is the
    number that people know already.
    """
    if cut.score is None or not scores.by_name(cut.score).saturates or cut.source == "plain":
        return None
    # None accepts nothing, -inf everything, and +inf only keys of +inf: none of these has a number to show
    if value is None or not np.isfinite(value):
        return None
    return key_text(cut.score, value)


def _are_nearly_equal(stored: float | None, computed: float | None) -> bool:
    """Equal, or equal but for the last digits, which another machine may compute otherwise."""
    if stored == computed:
        return True
    return bool(stored and computed and abs(stored / computed - 1) < 1e-9)


def refuse_other_rule(name: str, record: Any) -> None:
    """Raise DataError if parsed JSON is a threshold, or several, of another class than `name`."""
    format_name = str(record.get("format")) if isinstance(record, dict) else ""
    stored_class = format_name.removeprefix("abstain.").partition("/")[0]
    if stored_class != name and stored_class in _RULE_CLASSES:
        described = _RULE_CLASSES[stored_class]
        raise DataError(
            f"{name}: the file holds {described} ({stored_class}). Load it with `abstain.thresholds.load_rule`."
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Promised(Stored):
    """A rule with a promise, and how it tells of both; the fields are explained where they are used."""

    _none: ClassVar[str]  # what to say where there is no rule
    _has_checksum: ClassVar[bool] = True

    target: Finite
    delta: Chance
    n: Annotated[int, Within(1)]
    coverage: Share
    risk: Finite | None
    risk_upper: Finite | None
    guarantee: str | None
    note: str | None
    bounded: tuple[Finite, Finite]
    advice: Advice | None = None
    clusters: Annotated[int, Within(1)] | None = None
    largest: Annotated[float, Within(0, closed=False)] | None = None

    @classmethod
    def _upgraded(cls, record: Any) -> Any:
        """The parsed JSON, unchanged; raises DataError for another kind of rule."""
        refuse_other_rule(cls.__name__, record)
        return record

    def facts(self: Any) -> list[tuple[str, str]]:
        """Return what the repr, the HTML view and the command show: pairs of a heading and a text."""
        facts = {
            "rule": self.rule,
            **self._facts(),
            "calibration": f"n = {self.n}, delta = {self.delta:g}",
            "guarantee": self.guarantee or "none",
            "note": self.note or None,
            "feasible": self.advice,
        }
        return [(name, str(text)) for name, text in facts.items() if text is not None]

    def _readable(self: Any) -> dict[str, Any]:
        return {"rule": self.rule}

    def _shown_facts(self) -> list[tuple[str, str]]:
        """Return the facts that the repr and the HTML view show."""
        return self.facts()

    def __repr__(self: Any) -> str:
        head = type(self).__name__ if self.feasible else f"{type(self).__name__}: {self._none}"
        return "\n".join([head, *(f"  {name + ':':<13}{text}" for name, text in self._shown_facts())])

    def _repr_html_(self) -> str:
        names, texts = zip(*self._shown_facts())
        return html_table({"": names, repr(self).partition("\n")[0]: texts})


def explain_rule(facts: list[tuple[str, str]], plain_rule: str | None) -> list[tuple[str, str]]:
    """The facts of a rule, of which the first is the rule itself, with `plain_rule` behind it; None adds nothing."""
    if plain_rule is None:
        return facts
    return [*facts[:1], ("that is", f"{plain_rule} (the rule compares its rank key)"), *facts[1:]]


@dataclass(frozen=True, eq=False, repr=False)
class Threshold(Promised):
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
    evidence : PromiseBasis
        What the promise rests on, besides the number of samples.
    cut : Cut
        The two blocks of calibration samples that the threshold lies between, their score, unit and precision: how
        later confidences are compared with it.
    table : Candidates
        The thresholds it was chosen from.
    reference : Reference
        The confidences of the calibration data, for `check`.
    advice : Advice or None
        What would be feasible, when nothing is.
    clusters, largest : int, float, or None
        How many calibration clusters there were, and how many samples the largest of them holds, where clusters were
        given.
    origin : Origin or None
        The score, the loss and the data behind it, where they are known.

    Examples
    --------
    >>> from abstain import select_threshold
    >>> t = select_threshold([0, 0, 1], [0.9, 0.8, 0.1], risk=0.2, method="empirical")
    >>> t.rule, round(t.coverage, 3), t.guarantee
    ('confidence >= 0.8', 0.667, None)
    """

    _noun: ClassVar[str] = "a stored threshold"
    _number: ClassVar[int] = 5
    _none: ClassVar[str] = "no feasible threshold"

    value: Annotated[float, Within(infinite=True)] | None
    form: Form
    method: Method
    coverage_interval: tuple[Share, Share]
    evidence: PromiseBasis
    cut: Cut
    table: Candidates
    reference: Reference
    origin: Origin | None = None

    @classmethod
    def _upgraded(cls, record: Any) -> Any:
        """The parsed JSON of format 4 in format 5, that of today; anything else unchanged.

        Only the advice differs, which a rule has that accepts nothing. Format 4 advised too few samples, so its number
        is dropped; `why_none`, the reason for there being no number, then says "few": these data are too few to tell.
        Raises DataError for another kind of rule.
        """
        record = super()._upgraded(record)  # raises it, and changes nothing
        if not isinstance(record, dict) or record.get("format") != f"abstain.{cls.__name__}/4":
            return record
        advice = record.get("advice")
        if isinstance(advice, dict):
            unknown = {"samples": None, "samples_coverage": None, "fewest": None}
            advice = {**advice, **unknown, "why_none": "few"}
        return {**record, "format": cls._format(), "advice": advice}

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

    @property
    def plain_rule(self) -> str | None:
        """The rule with the number that people know, such as "max_softmax above 0.523".

        None unless the rule compares rank keys (`plain_text`).
        """
        number = plain_text(self.cut, self.value)
        # just above a rejected confidence, which looks the same in a few digits, or at an accepted one
        comparison = "above" if self.lies_above else "at least"
        return None if number is None else f"{self.cut.score} {comparison} {number}"

    @property
    def bound(self) -> str:
        """What the promise bounds, as a clause: "the error rate of the accepted is at most 0.05"."""
        return state_bound(Goal(self.form, self.target, self.delta, self.method), self.evidence, self.bounded)

    def _shown_facts(self) -> list[tuple[str, str]]:
        """Return the facts, pairs of a heading and a text, with `plain_rule` behind the first, which is the rule."""
        return explain_rule(super()._shown_facts(), self.plain_rule)

    def made_from(self, kind: Kind, **facts: Any) -> Threshold:
        """Return the same rule, which now knows its score, its loss and its data.

        `kind` says what the calibration data held ("logits", "probs" or "confidence"); `facts` are further fields of
        `Origin`: score, loss, data, ... For a rule made from numbers that `abstain.scores` computed: they are taken for
        rank keys of `score`. `select_threshold(logits=..., labels=...)` makes a rule that knows more, the precision and
        the classes. Raises InputError if the rule is for another score or a learned confidence, or if a score is named
        for `kind` "confidence", whose unit is unknown. A rule that knows this score already also knows the unit of its
        confidences (`cut.source`), so any `kind` will do. A rank key orders samples as its score does, but does not
        round to the score's largest value. The rule's `cut` holds the score and the unit ("key": rank keys) of its
        confidences, and their range; a `cut.score` of None means numbers of the user's own.
        """
        origin = Origin(kind, **facts)
        cut = self.cut
        if origin.score != cut.score:
            if cut.score is not None or cut.learned is not None:
                raise InputError(f"made_from: this rule is for {cut.described}, got {origin.score}.")
            if kind == "confidence":
                remedy = "Calibrate with select_threshold(loss, confidence, score=..., units=...)"
                raise InputError(
                    f"made_from: confidences of a named score need their unit, got none. {remedy}."
                )
            confidence_range = np.asarray([cut.lowest, cut.highest])
            # raises InputError if these cannot be rank keys of this score
            check_domain("made_from", str(origin.score), source="key", values=confidence_range)
            cut = replace(cut, score=origin.score, source="key")
        # the origin also holds the threshold as the number people know, such as a probability
        return replace(self, cut=cut, origin=origin.with_plain(self.value, cut.source))

    def accepts(
        self,
        confidence: ArrayLike | None = None,
        *,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        score: ScoreName | None = None,
        units: Units | None = None,
    ) -> np.ndarray:
        """Which samples to accept; a NaN never is.

        Give `logits=` or `probs=` to a rule that knows its score, in any precision: a block of equal confidences that
        was rejected in calibration stays out, whatever form it comes in. Confidences of a score that saturates need
        `units`: "plain" for the number people know, "key" for what `abstain.scores` returns. Another `score`, another
        number of classes, values that cannot be of this score, and a precision too coarse for this threshold are
        refused. A rule for a learned confidence needs its values and, as `score`, that confidence: another is refused.
        The rule's `cut` reads the confidences and compares them with the threshold `value`.

        >>> from abstain import select_threshold
        >>> t = select_threshold([0, 0, 1], [0.9, 0.8, 0.1], risk=0.2, method="empirical")
        >>> t.accepts([0.95, 0.8, 0.3]).tolist()
        [True, True, False]
        """
        name = "Threshold.accepts"
        columns: Any = {"confidence": confidence, "logits": logits, "probs": probs, "units": units}
        return self.cut.decide(name, self.cut.read(name, **columns, score=score), self.value)

    @property
    def _is_certified_risk(self) -> bool:
        """Was a risk asked for, by a method that tests thresholds and so certifies it with probability 1 - delta?

        False for "crc", which bounds a mean over calibration sets, and for "empirical", which promises nothing.
        """
        return self.form == "risk" and self.method in TESTING_METHODS

    @property
    def lies_above(self) -> bool:
        """Is the threshold just above confidences that it rejects, rather than at one that it accepts?

        It is then the next floating-point number above the highest rejected confidence. Tests put it there; with
        clusters the tested thresholds are confidences of some clusters.
        """
        is_tested = self._is_certified_risk and self.clusters is None
        return is_tested and self.value not in (None, -np.inf)

    @refuse_other_row_order
    def check(
        self,
        loss: ArrayLike,
        confidence: ArrayLike | None = None,
        *,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        previous: Check | None = None,
        score: ScoreName | None = None,
        units: Units | None = None,
    ) -> Check:
        r"""Does the promise still hold on later samples, in the order they came?

        The risk test bets against the promise "the mean loss of the accepted is at most r", on each accepted sample in
        turn, at odds that belong to a few larger risks q. Bets start with the first sample, and new ones after every
        later sample s, with a share :math:`w_s` of the wealth; all shares add up to 1:

        .. math::

            E_t = \sum_s \frac{w_s}{|Q|} \sum_{q\in Q} \prod_{s < i\le t}
            \left(1 + \frac{q-r}{r(1-r)}(\ell_i - r)\right)

        While the promise holds, the wealth E has mean at most 1 at every time, so it ever reaches 2/delta with
        probability at most delta/2 (Ville): one may look after every sample, for ever, and stop at will. Since some
        bets are always young, a change after a good year is found nearly as soon as one in the first week. How the
        samples are divided into looks does not matter to this test.

        The confidences of each look are compared with those of the calibration, weighted as it was, by
        Kolmogorov-Smirnov; look j of a series is held against delta / (2 j (j + 1)), which sums to delta/2. So the
        whole series raises an alarm wrongly, by the risk or by the confidences, with probability at most delta.

        With `previous`, this is the next look of its series: give each sample once. A rule made from clusters bets on
        whole clusters, in the order in which they are complete, and each cluster once: samples of a cluster that an
        earlier look held are left out of everything, with a warning, and counted in `left_out`; a look that brings no
        new cluster is refused. What is tested is then the mean over the samples with which each cluster first came;
        put whole clusters into one look, and that is the promise. A series remembers its last million clusters, all
        groups together.

        Confidences, `logits`, `probs`, `score` and `units` are as in `accepts`. A look is a call of `check` that brings
        new samples.
        """
        columns: Any = {"confidence": confidence, "logits": logits, "probs": probs, "units": units}
        confidences = self.cut.read("Threshold.check", **columns, score=score)
        warn_of_fitted_rows("Threshold.check", score, confidences.values)
        # the series with this look; raises if there is no threshold, or `previous` is the check of another one
        check = check_promise(self, loss, confidences, clusters=clusters, previous=previous)
        check_is_new(check, previous)  # raises if earlier looks held all clusters of this one
        return check

    def check_confidences(
        self,
        confidence: ArrayLike | None = None,
        *,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        score: ScoreName | None = None,
        units: Units | None = None,
    ) -> ConfidenceCheck:
        """Are the confidences of later samples distributed as in calibration? For samples without labels.

        It says nothing about the risk, which needs labels: `check`. It is a single look, at level delta, and no part of
        a series. Give one of `confidence`, `logits` and `probs`. A `score`, if named, must be that of the rule.
        Confidences of a score that saturates need `units`: "plain" for the number people know, "key" for what
        `abstain.scores` returns. `cut.read` reads them, and raises InputError for numbers that cannot be those of this
        rule.

        >>> import numpy as np
        >>> from abstain import select_threshold
        >>> t = select_threshold([0] * 99 + [1], list(range(100, 0, -1)), risk=0.2)
        >>> t.check_confidences(np.arange(0.5, 100)).holds, t.check_confidences(np.arange(0.5, 50)).holds
        (True, False)
        """
        name = "Threshold.check_confidences"
        columns: Any = {"confidence": confidence, "logits": logits, "probs": probs, "units": units}
        return check_confidences(self, self.cut.read(name, **columns, score=score))

    def _rules(self) -> dict[str, Any]:
        """Return each rule that a stored threshold must keep, as the message to show, and whether it keeps it.

        They refuse a file whose rule would accept or promise something that was never tested: the caller raises
        DataError with the first message whose value is False. Later rules assume that the earlier ones hold, so they
        are left out once one fails.

        There are two tables. `table` has a row for each threshold that was looked at; `vars(table)` holds its columns,
        arrays by name. `reference` has two columns: `value`, falling calibration confidences, and `at_least`, how many
        calibration samples lie at or above each.
        """
        reference = self.reference
        table_lengths = {len(column) for column in vars(self.table).values()}  # of its columns
        # `abstain` never writes an empty reference, and later rules read its last row: it is refused here, too, with
        # the message for columns of unequal lengths
        reference_is_usable = len(reference.value) == len(reference.at_least) > 0
        if len(table_lengths) > 1 or not reference_is_usable:
            return {"columns of one table must have one length.": False}
        rules_of_numbers = self._rules_of_numbers()
        if not all(rules_of_numbers.values()):
            return rules_of_numbers
        return {**self._rules_of_test(), **self._rules_of_words()}

    def _rules_of_numbers(self) -> dict[str, Any]:
        """Return the rules on ranges, and on what must agree with the stored summary of the calibration data.

        Keys are the messages to show, values whether the rule is kept. `reference` holds falling confidences of the
        calibration and how many samples lie at or above each; its n counts weights over the heaviest one.

        `form` is "risk", "coverage" or "cost", and `target` how much of it was asked for; `bounded` are the bounds of
        the losses, and `cut` holds the two calibration confidences next to the threshold. `evidence` says what the
        promise rests on: `heaviest_sample` and `heaviest_cluster` are the largest weights of a sample and of a cluster
        over the mean weight of a sample, None without weights and without clusters. Target, risks and bounds are on the
        user's scale.
        """
        low, high = self.bounded
        reference = self.reference
        target_ranges = {"risk": (low, high), "coverage": (0.0, 1.0), "cost": (0.0, np.inf)}
        smallest_target, largest_target = target_ranges[self.form]
        target_fits = smallest_target <= self.target <= largest_target
        risks = [x for x in (self.risk, self.risk_upper) if x is not None]
        counts_everything = reference.at_least[-1] == reference.n
        lowest = float(reference.value[-1])
        # samples without a confidence rank last: then `lowest` stands for them, and is not in the range of the cut
        lowest_fits = self.cut.lowest == lowest or lowest <= NO_CONFIDENCE
        range_fits = self.cut.highest == reference.value[0] and lowest_fits
        has_weights = self.evidence.heaviest_sample is not None
        # one truth value if all of these fields are None, or none is
        cluster_field_is_none = {
            self.clusters is None,
            self.largest is None,
            self.evidence.heaviest_cluster is None,
        }
        sizes_fit = True  # do so many clusters hold n samples, if none is larger than the largest?
        if self.clusters is not None:
            largest_cluster = self.largest or 0
            sizes_fit = self.clusters <= self.n <= self.clusters * largest_cluster
        promises_nothing = (self.guarantee, self.coverage, self.risk) == (None, 0.0, None)
        return {
            "`bounded` must rise.": low < high,
            "`coverage_interval` must rise.": self.coverage_interval[0] <= self.coverage_interval[1],
            f"`target` must lie between {smallest_target:g} and {largest_target:g}.": target_fits,
            "risks must lie within `bounded`.": all(low - 1e-9 <= x <= high + 1e-9 for x in risks),
            "`reference` must fall and count up to `n`.": reference.is_consistent(self.n)
            and counts_everything,
            "`reference` must count every sample once.": has_weights or reference.n == self.n,
            "without a threshold nothing is accepted or promised.": self.value is not None
            or promises_nothing,
            "`clusters` and `largest` must come together.": len(cluster_field_is_none) == 1,
            "`clusters` and `largest` must fit `n`.": sizes_fit or has_weights,
            # the threshold lies above the highest rejected confidence, and at most at the lowest accepted one
            "`cut` must be that of `value`.": self.cut.is_consistent(self.value),
            "`cut` must have the range of `reference`.": range_fits,
            "`cut.rejected` must be just below `value`.": self._fits_rejected(),
        }

    def _fits_rejected(self) -> bool:
        """Is the highest rejected confidence (`cut.rejected`) the one that the threshold was put above?

        A tested threshold is the next number above it, in float64 or float32. Any other threshold is a confidence that
        it accepts, and only needs a rejected one if it does not accept everything.
        """
        if not self.lies_above:  # the threshold is not one that was put just above a rejected confidence
            # a rule without a threshold (None) accepts nothing, so it needs no rejected confidence
            return self.value is None or self.cut.rejected is not None or self.coverage == 1
        if self.cut.rejected is None:
            return False
        next_numbers = [float(np.nextafter(self.cut.rejected, np.inf))]
        if np.float32(self.cut.rejected) == self.cut.rejected:  # such confidences are ranked as float32
            next_numbers.append(float(np.nextafter(np.float32(self.cut.rejected), np.float32(np.inf))))
        return self.value in next_numbers

    def _rules_of_test(self) -> dict[str, Any]:
        """Return the rules on the table of candidates: the threshold passed, and its p-value fits the errors counted.

        Keys are the messages to show, values whether the rule is kept. The p-value is computed again where that is
        possible: for a 0/1 loss without weights or clusters.

        `form` is "risk", "coverage" or "cost", and `target` how much of it was asked for; `bounded` are the bounds of
        the losses. `evidence.zero_one` says whether the loss takes only these two values, `evidence.heaviest_sample` is
        None without sample weights. `table` has a row for each threshold that was looked at, from few accepted samples
        to many; its `risk` is on the user's scale, and its `level` is what the p-value was compared with. A test
        certifies exactly the target, so for a risk by the methods that test, "ltt" and "sgr" (`_is_certified_risk`),
        the certified bound `risk_upper` is the target.
        """
        table = self.table
        evidence = self.evidence
        low, high = self.bounded
        passed_rows = []  # of the table, those of this threshold; one if the file was written by `abstain`
        for row, value in enumerate(table.value):
            if value == self.value and table.passed[row]:
                passed_rows.append(row)
        # a coverage that no threshold is certain to reach: everything is accepted, by a value that is in no row
        accepts_everything = self.form == "coverage" and self.value == -np.inf
        is_tested = self._is_certified_risk and self.value is not None
        measured = [(table.coverage[row], table.risk[row]) for row in passed_rows]
        has_weights = evidence.heaviest_sample is not None
        # the last row accepts all samples, unless sequential tests stopped before it
        ends_with_all_samples = not self._is_certified_risk
        count_fits = True
        if ends_with_all_samples:
            count_fits = len(table) > 0 and int(table.accepted[-1]) == self.n
        shares_fit = has_weights or bool((table.coverage == table.accepted / self.n).all())
        p_value_fits = True
        scaled_target = (self.target - low) / (high - low)
        # a target at one of the bounds is not tested: the upper one is always kept, nothing proves the lower one
        if is_tested and passed_rows and 0 < scaled_target < 1:
            row = passed_rows[-1]
            p_value_fits = table.p_value[row] <= table.level[row] <= self.delta
            if evidence.zero_one and not has_weights and self.clusters is None:
                error_rate = (table.risk[row] - low) / (high - low)
                error_count = np.rint([error_rate * table.accepted[row]])
                # probability of so few errors or fewer, if the risk is the target
                p_value = float(binomial(error_count, table.accepted[[row]], scaled_target)[0])
                rounding = 1e-9 * p_value + 1e-300  # the second term for a p-value of 0
                p_value_fits &= abs(p_value - table.p_value[row]) <= rounding
        return {
            "`table` must not accept more than `n`.": not len(table) or int(table.accepted.max()) <= self.n,
            "`table` must count shares of `n`.": shares_fit and count_fits,
            "`value` must be one that passed in `table`.": self.value is None
            or bool(passed_rows)
            or accepts_everything,
            "`coverage` and `risk` must be those in `table`.": (self.coverage, self.risk) in measured
            or not measured,
            "the p-value in `table` must be that of its errors.": p_value_fits,
            "`risk_upper` must be the `target` that was tested.": not is_tested
            or self.risk_upper == self.target,
        }

    def _rules_of_words(self) -> dict[str, Any]:
        """Return the rules on stored sentences: each must be the one that is written again from the stored numbers.

        Keys are the messages to show, values whether the rule is kept.

        `form` is "risk", "coverage" or "cost", and `target` how much of it was asked for; `bounded` are the bounds of
        the losses. `evidence` says what the promise rests on besides the number of samples. `cut` holds the score of
        the confidences and their unit, `cut.source`. `origin`, None if the score is not known, holds the score too, and
        in `origin.plain` the threshold as the number that people know. `clusters` is the number of calibration
        clusters, None without clusters; `advice` says what would be feasible, None where there is a threshold. `method`
        is "ltt", "sgr", "crc" or "empirical".
        """
        goal = Goal(form=self.form, target=self.target, delta=self.delta, method=self.method)
        promise = None  # the sentence that these numbers give
        if self.feasible:
            promise = write_guarantee(goal, self.evidence, self.n, self.clusters, self.bounded)
        same_score = True
        plain_agrees = True
        if self.origin is not None:
            same_score = self.origin.score == self.cut.score
            expected_plain = None  # also without a threshold; another score fails by the rule on scores
            if same_score:
                expected_plain = _threshold_in_plain_numbers(self.cut.score, self.value, self.cut.source)
            # but for the last digits, which another machine may compute otherwise
            plain_agrees = _are_nearly_equal(self.origin.plain, expected_plain)
        return {
            "`guarantee` must say what these numbers promise.": self.guarantee == promise,
            "`note` must be that of these numbers.": self.note
            == write_note(goal, self.evidence, self.feasible),
            "`advice` must come without a threshold.": self.advice is None or not self.feasible,
            "`origin.score` must be the score of `cut`.": same_score,
            "`origin.plain` must be `value` in plain numbers.": plain_agrees,
        }

    def frame(self, library: str | None = None) -> Any:
        """The table of candidates as a data frame."""
        return self.table.frame(library)

    def plot(self, ax: Axes | None = None, *, size: FigureSize | None = None) -> Axes:
        """Draw risk against coverage: a line through all candidates, a dot for each that passed, target and choice.

        Draws on `ax`, or on a new figure of this `size` ("column", "page" or inches; None for the screen), and returns
        the axes.

        `form` is what was asked for ("risk", "coverage" or "cost"), `value` the threshold, None if none could be
        chosen. `table` has a row for each threshold that was looked at, from few accepted samples to many; `passed`
        marks those that could be chosen. A `guarantee` of None promises nothing. Risks are on the user's scale.
        """
        drawn: Any = make_axes(ax, size=size)
        table = self.table
        drawn.plot(table.coverage, table.risk, color=GREY, lw=1, label="calibration risk")
        passed_coverage = table.coverage[table.passed]
        passed_risk = table.risk[table.passed]
        drawn.plot(passed_coverage, passed_risk, ".", color=line_style(0).color, ms=4, label="passed")
        if self.form == "risk":
            drawn.axhline(
                self.target, color=line_style(1).color, ls="--", lw=1, label=f"target {self.target:g}"
            )
        if self.value is not None:
            chosen = f"chosen: {self.coverage:.0%} accepted"
            drawn.plot([self.coverage], [self.risk], "D", color=line_style(2).color, label=chosen)
        drawn.set(xlabel="coverage", ylabel="risk of the accepted", xlim=(0, 1), ylim=(0, None))
        title_without_guarantee = "no guarantee" if self.feasible else "no feasible threshold"
        title = "guaranteed" if self.guarantee else title_without_guarantee
        drawn.set_title(title, fontsize=drawn.xaxis.label.get_fontsize())
        drawn.grid(alpha=0.3)
        draw_legend(drawn)
        return drawn

    def _facts(self) -> dict[str, str]:
        """Return by heading what was asked for and, if there is a threshold, its coverage and risk.

        `form` is "risk", "coverage" or "cost", `target` how much of it was asked for, and `method` by what ("ltt",
        "sgr", "crc" or "empirical"). With a threshold, `risk` is the mean loss of the accepted calibration samples, on
        the user's scale, and `coverage` the share accepted; `coverage_interval` holds for all thresholds at once, at
        level 1 - delta. `risk_upper` is an upper limit of the risk, None where none
        is computed.
        """
        request = {"asked for": f"{self.form} = {self.target:g}, method {self.method}"}
        if self.value is None:  # no threshold keeps the promise
            return request
        low, high = self.coverage_interval
        bound = ""
        if self.risk_upper is not None:
            # A guarantee (a sentence; None: nothing is promised) may also be about something else than this bound:
            # a coverage, or with "crc" a mean over calibration sets. The bound is then an upper limit of the risk for
            # a threshold fixed beforehand, which is a little too small for one that the same data chose. The bound is
            # promised if tests ("ltt", "sgr") certified the risk.
            is_promised = self.guarantee is not None and self._is_certified_risk
            limit = f"{self.risk_upper:.4g}"
            bound = f"  (at most {limit})" if is_promised else f"  (upper limit {limit}, not promised)"
        return request | {
            "coverage": f"{self.coverage:.4f}  [{low:.4f}, {high:.4f}]",
            "risk": f"{self.risk:.4g}{bound}",
        }


@dataclass(frozen=True, eq=False)
class GroupThresholds(Stored, _tables.Notebook):
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

    _noun: ClassVar[str] = "stored thresholds of groups"
    _has_checksum: ClassVar[bool] = True
    _number: ClassVar[int] = 4

    thresholds: dict[Any, Threshold]
    delta: Chance

    @classmethod
    def _upgraded(cls, record: Any) -> Any:
        """The parsed JSON, unchanged; raises DataError for another kind of rule."""
        refuse_other_rule(cls.__name__, record)
        return record

    def __getitem__(self, label: Any) -> Threshold:
        return self.thresholds[label]

    @property
    def feasible(self) -> bool:
        """Has every group a threshold?"""
        return all(t.feasible for t in self.thresholds.values())

    @property
    def guarantee(self) -> str | None:
        """The joint promise; None if no group has a threshold, or one that has a threshold promises nothing.

        Groups without a threshold accept nothing; the sentence names them. All groups were chosen at the same level,
        their equal share of `delta`. A rule is `feasible` if it has a threshold.
        """
        feasible = {group: rule for group, rule in self.thresholds.items() if rule.feasible}
        if not feasible or any(rule.guarantee is None for rule in feasible.values()):
            return None
        infeasible_groups = [str(group) for group, rule in self.thresholds.items() if not rule.feasible]
        remark = ""
        if infeasible_groups:
            remark = f" Nothing is accepted in: {', '.join(infeasible_groups)}."
        level_of_each = next(iter(feasible.values())).delta
        promises = f"each of {len(feasible)} groups holds, all at once (each was"
        if len(feasible) == 1:
            promises = f"group {next(iter(feasible))} holds (it was"
        # all groups were asked for the same, but where one has errors another may have losses between 0 and 1
        bound = "; ".join(dict.fromkeys(rule.bound for rule in feasible.values()))
        return (
            f"With probability at least {1 - self.delta:.4g} over the calibration data, the promise of {promises} "
            f"chosen at {level_of_each:.4g}): {bound}.{remark}"
        )

    def made_from(self, kind: Kind, **facts: Any) -> GroupThresholds:
        """The same rules, which now know their score, their loss and their data: the fields of an `Origin` by name."""
        return replace(self, thresholds={g: t.made_from(kind, **facts) for g, t in self.thresholds.items()})

    @refuse_other_row_order
    def accepts(
        self,
        confidence: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        score: ScoreName | None = None,
        units: Units | None = None,
    ) -> np.ndarray:
        """Return True for each sample to accept by its own group's threshold; a NaN is never accepted.

        Give one of `confidence`, `logits` and `probs`, and one label per sample in `groups`. Confidences of a score
        that saturates need `units`: "plain" for the number people know, "key" for what `abstain.scores` returns. A
        `score`, if named, must be that of the rules. Raises InputError for a group that was not calibrated, and for
        numbers that cannot be those of the rule; ShapeError unless there is one group per sample. A score saturates if
        it rounds to its largest value, such as 1, for many samples. A rule's `cut` compares confidences with its
        threshold, `value`, which is None for a group in which nothing is accepted.
        """
        name = "GroupThresholds.accepts"
        columns = {"confidence": confidence, "logits": logits, "probs": probs}
        confidences = self._read_shared_score(name, score, units, columns)
        shape = confidences.values.shape
        confidences = confidences.flattened()
        decisions = np.zeros(confidences.values.shape, dtype=bool)
        # `rows` are the positions of the group's samples among the flattened ones
        for group, rows in self._find_groups("accepts", groups, shape).items():
            rule = self.thresholds[group]
            # returned unchanged; raises if they cannot be compared with the calibration of this group
            group_confidences = rule.cut.refuse_incomparable(name, confidences.take(rows))
            decisions[rows] = rule.cut.decide(name, group_confidences, rule.value)
        return decisions.reshape(shape)

    @refuse_other_row_order
    def check(
        self,
        loss: ArrayLike,
        confidence: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        previous: GroupChecks | None = None,
        score: ScoreName | None = None,
        units: Units | None = None,
    ) -> GroupChecks:
        """Does the promise of each group still hold on later samples, in the order they came?

        Each group is tested at its own delta, so some group raises a false alarm with probability at most `delta`. A
        group without later samples keeps its last check; one without a threshold (not `feasible`) has nothing to check.

        Give the loss of each sample, one of `confidence`, `logits` and `probs`, and one label per sample in `groups`
        (and in `clusters`, for rules made from clusters). `previous` is the last check of the series. Confidences of a
        score that saturates need `units`, "plain" or "key". Raises InputError for a group that was not calibrated, and
        ShapeError unless there is one loss per sample. A score saturates if it rounds to its largest value, such as 1,
        for many samples.
        """
        name = "GroupThresholds.check"
        columns = {"confidence": confidence, "logits": logits, "probs": probs}
        # with their unit and precision; raises for another score than that of the rules
        confidences = self._read_shared_score(name, score, units, columns)
        warn_of_fitted_rows(name, score, confidences.values)
        shape = confidences.values.shape
        confidences = confidences.flattened()
        losses = np.asarray(to_host(loss)).reshape(-1)
        # raises unless there is one loss per sample
        array_per_sample(name, "loss", losses, shape=confidences.values.shape)
        cluster_labels = None if clusters is None else label_array(clusters)
        if clusters is not None:
            # raises unless there is one label per sample
            group_codes(name, clusters, losses.shape, "clusters")
        to_check = {}
        # `rows` are the positions of the group's samples among the flattened ones
        for group, rows in self._find_groups("check", groups, shape).items():
            rule = self.thresholds[group]
            if rule.feasible:
                to_check[group] = PromiseToCheck(
                    rule,
                    loss=losses[rows],
                    # those of this group, unchanged; the cut raises if they cannot be compared with the threshold
                    confidences=rule.cut.refuse_incomparable(name, confidences.take(rows)),
                    clusters=None if cluster_labels is None else cluster_labels[rows],
                )
        return check_promises(to_check, previous, series_promise_count=len(self.thresholds))

    def _read_shared_score(
        self, name: str, score: ScoreName | None, units: Units | None, columns: dict[str, Any]
    ) -> CheckedConfidences:
        """Read the confidences of samples of all groups, which share one score; raise InputError for another score.

        `columns` are `confidence`, `logits` and `probs`, one of them not None. `name` is the calling function. `score`
        is the one that the user names, or a learned confidence; None stands for the score of the rules. A rule's `cut`
        knows its score, and which numbers can be compared with its threshold.
        """
        cut = next(iter(self.thresholds.values())).cut  # of any group: all have the same score
        cut.check_score(name, score)  # raises for another one
        if is_learned(score):  # its values have one unit only
            return read_confidences(name, score, **columns, units=None)
        return read_confidences(name, cut.score, **columns, units=units)

    def _find_groups(self, name: str, groups: Array, shape: tuple[int, ...]) -> dict[Any, np.ndarray]:
        """Return, by label, where the samples of each group stand in the flattened confidences (numbers from 0).

        `shape` is that of the confidences. Raises ShapeError unless there is one label per confidence, InputError for a
        label that is no key of `self.thresholds` (groups in which nothing is accepted are keys, too). `name` is the
        calling method, for messages.
        """
        group_labels = label_array(groups).astype(object)
        if shape != group_labels.shape:
            raise ShapeError(f"{name}: needs one group per confidence, got {shape} and {group_labels.shape}.")
        # the distinct labels, and for each sample the position of its own among them
        labels, codes = group_codes(name, group_labels.reshape(-1))
        unknown = [label for label in labels if label not in self.thresholds]
        if unknown:
            calibrated = ", ".join(map(str, self.thresholds))
            raise InputError(
                f"{name}: `groups` must be among those calibrated ({calibrated}), got {unknown[0]!r}."
            )
        # `rows_of_groups`: for each label, the positions of its samples
        return dict(zip(labels, rows_of_groups(codes, len(labels))))

    def _rules(self) -> dict[str, Any]:
        """Return each rule that stored thresholds must keep, as the message to show, and whether they keep it.

        `cut` holds the score of a threshold's confidences (None: the user's own), the form they came in (`source`) and
        the number of classes (None without class scores). Each threshold fails with probability at most its own delta,
        so their sum bounds the probability that any does.
        """
        total_delta = sum(threshold.delta for threshold in self.thresholds.values())
        cuts = [threshold.cut for threshold in self.thresholds.values()]
        score_forms = {(cut.source, cut.score, cut.classes) for cut in cuts}
        return {
            "there must be a group.": bool(self.thresholds),
            "groups must share one score.": len(score_forms) == 1,
            "groups must share `delta`.": total_delta <= self.delta * (1 + 1e-9),  # but for rounding
        }

    def worst_first(self) -> list[Any]:
        """Labels of the groups, the worst first: those without a threshold, then by the upper limit of the coverage.

        So a group leads that is certainly accepted less, not one with a few unlucky samples.
        """

        def rank(label: Any) -> tuple[bool, float, float]:
            threshold = self.thresholds[label]
            return threshold.feasible, threshold.coverage_interval[1], threshold.coverage

        return sorted(self.thresholds, key=rank)

    def frame(self, library: str | None = None) -> Any:
        """A row for each group, the worst first: a pandas or polars frame (whichever is there), or a dict of lists."""
        labels = self.worst_first()
        ordered = [self.thresholds[label] for label in labels]
        names = ("value", "coverage", "risk", "risk_upper", "n")
        columns = {"group": list(map(str, labels)), **_tables.collect_columns(ordered, names)}
        columns["coverage_low"] = [threshold.coverage_interval[0] for threshold in ordered]
        columns["coverage_high"] = [threshold.coverage_interval[1] for threshold in ordered]
        return _tables.make_frame(columns, library)

    def __repr__(self) -> str:
        """List the threshold and coverage of each group, the worst first, and then the joint promise.

        Groups beyond the first 24 (`_tables.GROUPS_SHOWN`) are counted in one line. A group without a threshold has
        coverage 0.
        """
        labels = self.worst_first()  # those without a threshold first
        lines = [f"{type(self).__name__}, the worst group first by the upper limit of its coverage"]
        for label in labels[: _tables.GROUPS_SHOWN]:
            threshold = self.thresholds[label]
            low, high = threshold.coverage_interval
            numbers = f"coverage {threshold.coverage:.4f} [{low:.4f}, {high:.4f}]"
            # with the number that people know, if the rule compares rank keys (else `plain_rule` is None)
            rule = threshold.plain_rule or threshold.rule
            lines.append(f"  {label!s:<16} {rule:<32} {numbers}  (n = {threshold.n})")
        hidden = labels[_tables.GROUPS_SHOWN :]
        if hidden:
            hidden_samples = sum(self.thresholds[label].n for label in hidden)
            lines.append(
                f"  {len(hidden):,} more groups with {hidden_samples:,} samples are in frame(), all with a larger limit"
            )
        return "\n".join([*lines, f"  guarantee: {self.guarantee or 'none'}"])
