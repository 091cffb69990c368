"""A threshold and what it promises: applied, stored, drawn, by group, and checked on later data.

Needs numpy only, so that a server can load and use it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from abstain import __version__, _tables, scores
from abstain._arrays import Array, to_host
from abstain._check import check_choice
from abstain._plots import axes
from abstain._stored import Chance, Finite, Share, Stored, Within, parsed, text_of
from abstain._tables import html_table
from abstain.errors import InputError, ShapeError
from abstain.metrics._sample import group_codes, label_array
from abstain.thresholds.calibration import Advice, Candidates, Form, Method
from abstain.thresholds.monitoring import Check, GroupChecks, Reference, check_groups, check_promise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Units = Literal["plain", "key"]
_SCORES = (*scores.NAMES, *scores.ENSEMBLE_NAMES, *scores.READING_NAMES)


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
    >>> t = select_threshold([0, 0, 1], [4.0, 3.0, 0.7], coverage=0.5, method="empirical")
    >>> rule = t.made_from("probs", score="max_softmax")
    >>> rule.value, round(rule.origin.plain, 4), rule.accepts([0.97, 0.5]).tolist()
    (3.0, 0.9502, [True, False])
    """

    kind: Literal["logits", "probs", "confidence"]
    score: str | None = None
    loss: str | None = None
    plain: Annotated[float, Within(infinite=True)] | None = None
    version: str = __version__
    data: str | None = None
    sha256: str | None = None
    command: str | None = None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Promised(Stored):
    """A rule with a promise, and how it tells of both; the fields are explained where they are used."""

    _none: ClassVar[str]  # what to say where there is no rule

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
    largest: Annotated[float, Within(0, ends=False)] | None = None

    def facts(self: Any) -> list[tuple[str, str]]:
        """What the repr, the HTML view and the command show."""
        told = {"rule": self.rule, **self._facts(), "calibration": f"n = {self.n}, delta = {self.delta:g}"}
        told |= {"guarantee": self.guarantee or "none", "note": self.note or None, "feasible": self.advice}
        return [(name, str(text)) for name, text in told.items() if text is not None]

    def _readable(self: Any) -> dict[str, Any]:
        return {"rule": self.rule}

    def _speaks_of(self, *numbers: float) -> bool:
        return self.guarantee is None or all(f"{x:.4g}" in self.guarantee for x in numbers)

    def __repr__(self: Any) -> str:
        head = type(self).__name__ if self.feasible else f"{type(self).__name__}: {self._none}"
        return "\n".join([head, *(f"  {name + ':':<13}{text}" for name, text in self.facts())])

    def _repr_html_(self) -> str:
        names, texts = zip(*self.facts())
        return html_table({"": names, repr(self).partition("\n")[0]: texts})


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
    table : Candidates
        The thresholds it was chosen from.
    reference : Reference
        The confidences of the calibration data, for `check`.
    advice : Advice or None
        What would be feasible, when nothing is.
    clusters, largest : int, float, or None
        How many calibration clusters there were, and how much the largest of them weighs, where clusters were given.
    origin : Origin or None
        The score, the loss and the data behind it, where they were stated (`made_from`; the command line does).

    Examples
    --------
    >>> from abstain import select_threshold
    >>> t = select_threshold([0, 0, 1], [0.9, 0.8, 0.1], risk=0.2, method="empirical")
    >>> t.rule, round(t.coverage, 3), t.guarantee
    ('confidence >= 0.8', 0.667, None)
    """

    _noun: ClassVar[str] = "a stored threshold"
    _number: ClassVar[int] = 2
    _none: ClassVar[str] = "no feasible threshold"

    value: Annotated[float, Within(infinite=True)] | None
    form: Form
    method: Method
    coverage_interval: tuple[Share, Share]
    table: Candidates
    reference: Reference
    origin: Origin | None = None

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

    def made_from(self, kind: Literal["logits", "probs", "confidence"], **facts: Any) -> Threshold:
        """The same rule, which now knows its score, its loss and its data (see `Origin`)."""
        origin = Origin(kind, **facts)
        return replace(self, origin=replace(origin, plain=self._plain(origin.score)))

    def _plain(self, score: str | None) -> float | None:
        """The threshold as the number people know."""
        if self.value is None or score is None:
            return self.value
        return float(scores.display(score, self.value))

    def accepts(
        self,
        confidence: Array = None,
        *,
        logits: Array = None,
        probs: Array = None,
        score: str | None = None,
        units: Units | None = None,
    ) -> np.ndarray:
        """Which samples to accept; a NaN never is. Compared in double precision, as tested.

        Confidences are the numbers the rule was made from. A rule that knows its score (`origin`) takes `logits=` or
        `probs=` as well, and reads confidences as the plain numbers of that score unless `units="key"` is said;
        another `score=` is refused. Plain numbers are compared up to rounding, four times the precision of their type:
        so a block of equal confidences that was rejected when it was tested stays out.

        >>> from abstain import select_threshold
        >>> t = select_threshold([0, 0, 1], [0.9, 0.8, 0.1], risk=0.2, method="empirical")
        >>> t.accepts([0.95, 0.8, 0.3]).tolist()
        [True, True, False]
        """
        classes = {"logits": logits, "probs": probs}
        g, cut, _ = self._comparable("Threshold.accepts", score, units, confidence, **classes)
        return np.zeros(g.shape, dtype=bool) if cut is None else np.asarray(g >= cut)

    def _comparable(
        self, name: str, score: str | None, units: Units | None, confidence: Array, **classes: Array
    ) -> tuple[np.ndarray, float | None, Callable[[Any], Any]]:
        """Confidences, from where on they are accepted, and what turns those of the calibration into their units."""
        own = None if self.origin is None else self.origin.score
        mine = own or "confidences of your own"
        if score is not None and score != own:
            remedy = "Calibrate a rule for it, or give what this one is for."
            raise InputError(f"{name}: this rule is for {mine}, got {score}. {remedy}")
        if units is not None:
            check_choice(name, "units", units, ("plain", "key"))
        if (confidence is None) == all(x is None for x in classes.values()):
            raise InputError(f"{name}: takes confidences, or `logits=` or `probs=`, one of them.")
        if confidence is None:
            if own is None:
                raise InputError(f"{name}: this rule is for {mine}, got logits or probabilities.")
            confidence, units = scores.by_name(own)(classes["logits"], probs=classes["probs"]), "key"
        given = np.asarray(to_host(confidence))
        g = given.astype(np.float64)
        if own is None or units == "key" or not scores.by_name(own).saturates:
            return g, self.value, lambda x: x
        kind = given.dtype if given.dtype.kind == "f" else np.dtype(np.float64)
        slack = 4 * float(np.finfo(kind).eps)
        shown = functools.partial(_shown, own, slack=-slack)
        cut = self.value
        if cut is not None and cut > -np.inf:
            rejected = np.nextafter(cut, -np.inf)
            cut = float(_shown(own, rejected, slack) if self.lies_above else shown(cut))
        return _plain_numbers(name, own, g, kind, self.value, cut), cut, shown

    @property
    def lies_above(self) -> bool:
        """Is the threshold just above confidences that it rejects, rather than at one that it accepts?"""
        tested = self.form == "risk" and self.method in ("ltt", "sgr") and self.clusters is None
        return tested and self.value not in (None, -np.inf)

    def check(
        self,
        loss: Array,
        confidence: Array,
        *,
        clusters: Array = None,
        previous: Check | None = None,
        score: str | None = None,
        units: Units | None = None,
    ) -> Check:
        r"""Does the promise still hold on later samples, in the order they came?

        The risk test is a bet against the promise "the mean loss of the accepted is at most r", on each accepted
        sample in turn, at odds that belong to a few larger risks q:

        .. math:: E_t = \frac{1}{|Q|}\sum_{q\in Q}\prod_{i\le t}\left(1 + \frac{q-r}{r(1-r)}(\ell_i - r)\right)

        While the promise holds, the wealth E has mean at most 1 at every time, so it ever reaches 2/delta with
        probability at most delta/2 (Ville): one may look after every sample, for ever, and stop at will. The
        confidences of each look are compared with those of the calibration, weighted as it was, by Kolmogorov-Smirnov;
        look j of a series is held against delta / (2 j (j + 1)), which sums to delta/2. So the whole series raises an
        alarm wrongly, by the risk or by the confidences, with probability at most delta.

        With `previous`, this is the next look of its series: give each sample once. A rule made from clusters bets on
        whole clusters, in the order in which they are complete, and each cluster once: samples of a cluster that an
        earlier look held are left out of everything and counted in `left_out`. What is tested is then the mean over
        the samples with which each cluster first came; put whole clusters into one look, and that is the promise. A
        series remembers its last million clusters, all groups together. `score` and `units` as in `accepts`.
        """
        given, cut, scale = self._comparable("Threshold.check", score, units, confidence)
        return check_promise(self, loss, given, cut, scale, clusters=clusters, previous=previous)

    def _rules(self) -> dict[str, Any]:
        """What would make a stored rule accept or promise something that was never tested."""
        (low, high), table, known, origin = self.bounded, self.table, self.reference, self.origin
        lengths = {len(column) for column in vars(table).values()}
        if len(lengths) > 1 or len(known.value) != len(known.at_least) or not len(known.value):
            return {"columns of one table must have one length.": False}
        span = {"risk": (low, high), "coverage": (0.0, 1.0), "cost": (0.0, np.inf)}[self.form]
        risks = [x for x in (self.risk, self.risk_upper) if x is not None]
        rising = self.coverage_interval[0] <= self.coverage_interval[1]
        falling = bool((np.diff(known.value) < 0).all() and (np.diff(known.at_least) >= 0).all())
        chosen = [k for k, v in enumerate(table.value) if v == self.value and table.passed[k]]
        found = [(table.coverage[k], table.risk[k]) for k in chosen]
        told = [self.target, *([] if self.method == "crc" else [1 - self.delta])]
        tested = self.form == "risk" and self.method in ("ltt", "sgr") and self.value is not None
        untested = self.form == "coverage" and self.value == -np.inf  # whatever comes, none of it rejected
        nothing = (self.guarantee, self.coverage, self.risk) == (None, 0.0, None)
        score, plain = (None, self.value) if origin is None else (origin.score, origin.plain)
        expected = self._plain(score if score in _SCORES else None)
        agree = plain == expected or bool(plain and expected and abs(plain / expected - 1) < 1e-9)
        return {
            "`bounded` must rise.": low < high,
            "`coverage_interval` must rise.": rising,
            f"`target` must lie between {span[0]:g} and {span[1]:g}.": span[0] <= self.target <= span[1],
            "risks must lie within `bounded`.": all(low - 1e-9 <= x <= high + 1e-9 for x in risks),
            "`table` must not accept more than `n`.": not len(table) or int(table.accepted.max()) <= self.n,
            "`reference` must fall and count up to `n`.": falling
            and known.at_least[-1] == known.n < self.n + 1,
            "without a threshold nothing is accepted or promised.": self.value is not None or nothing,
            "`value` must be one that passed in `table`.": self.value is None or bool(chosen) or untested,
            "`coverage` and `risk` must be those in `table`.": (self.coverage, self.risk) in found
            or not found,
            "`guarantee` must speak of `target` and `delta`.": self._speaks_of(*told),
            "`risk_upper` must be the `target` that was tested.": not tested
            or self.risk_upper == self.target,
            "`clusters` and `largest` must come together.": (self.clusters is None) == (self.largest is None),
            "`origin.score` must be the name of a score.": score is None or score in _SCORES,
            "`origin.plain` must be `value` in plain numbers.": agree,
        }

    def frame(self, library: str | None = None) -> Any:
        """The table of candidates as a data frame."""
        return self.table.frame(library)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Risk against coverage at the candidates (what passed drawn solid), the target and the choice."""
        drawn: Any = axes(ax)
        table = self.table
        drawn.plot(table.coverage, table.risk, color="0.6", lw=1, label="calibration risk")
        passed = table.coverage[table.passed], table.risk[table.passed]
        drawn.plot(*passed, ".", color="C0", ms=4, label="passed")
        if self.form == "risk":
            drawn.axhline(self.target, color="C3", ls="--", lw=1, label=f"target {self.target:g}")
        if self.value is not None:
            drawn.plot([self.coverage], [self.risk], "o", color="C2", label=f"chosen: {self.rule}")
        drawn.set(xlabel="coverage", ylabel="risk of the accepted", xlim=(0, 1), ylim=(0, None))
        without = "no guarantee" if self.feasible else "no feasible threshold"
        drawn.set_title("guaranteed" if self.guarantee else without)
        drawn.legend(fontsize="small")
        return drawn

    def _facts(self) -> dict[str, str]:
        asked = {"asked for": f"{self.form} = {self.target:g}, method {self.method}"}
        if self.value is None:
            return asked
        low, high = self.coverage_interval
        bound = "" if self.risk_upper is None else f"  (at most {self.risk_upper:.4g})"
        found = {
            "coverage": f"{self.coverage:.4f}  [{low:.4f}, {high:.4f}]",
            "risk": f"{self.risk:.4g}{bound}",
        }
        return asked | found


def _shown(score: str, key: Any, slack: float) -> Any:
    """Rank keys as plain numbers, moved by what rounding may have done to the same numbers elsewhere."""
    plain = np.asarray(scores.display(score, np.asarray(key, np.float64)))
    return plain + slack * np.maximum(1.0, np.abs(plain))


def _plain_numbers(
    name: str, score: str, g: np.ndarray, kind: np.dtype[Any], value: float | None, cut: float | None
) -> np.ndarray:
    """Confidences that are plain numbers of this score; rank keys, which go further, are refused."""
    top = float(scores.display(score, np.finfo(np.float64).max)) + 0.0
    if bool((g > top).any()) or (top == 1 and bool((g < 0).any())):
        rule = f"a plain {score} is {'at most 0' if top == 0 else 'from 0 to 1'}, got {g.max():g}"
        remedy = (
            'Say units="key" for rank keys, as `abstain.scores` gives them, or give `logits=` or `probs=`.'
        )
        raise InputError(f"{name}: {rule}. {remedy}")
    if cut is None or value is None or not np.isfinite(value):
        return g
    if cut > top or kind.type(scores.display(score, value)) == top:
        near = f"the threshold lies too near {top:g} to be told from it in {kind}"
        raise InputError(f'{name}: {near}. Give `logits=`, or rank keys with units="key".')
    return g


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
    _number: ClassVar[int] = 2

    thresholds: dict[Any, Threshold]
    delta: Chance

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

    def made_from(self, kind: Literal["logits", "probs", "confidence"], **facts: Any) -> GroupThresholds:
        """The same rules, which now know their score, their loss and their data."""
        return replace(self, thresholds={g: t.made_from(kind, **facts) for g, t in self.thresholds.items()})

    def accepts(
        self,
        confidence: Array = None,
        groups: Array = None,
        *,
        logits: Array = None,
        probs: Array = None,
        score: str | None = None,
        units: Units | None = None,
    ) -> np.ndarray:
        """Which samples to accept, each by its own group's threshold; an unknown group is an error.

        Confidences, logits or probabilities as in `Threshold.accepts`.
        """
        columns = {"confidence": confidence, "logits": logits, "probs": probs}
        given: dict[str, Any] = {k: np.asarray(to_host(x)) for k, x in columns.items() if x is not None}
        shapes = [x.shape if k == "confidence" else x.shape[:-1] for k, x in given.items()]
        result = np.zeros(shapes[0] if shapes else (), dtype=bool)
        for label, mine in self._parts("accepts", groups, result.shape):
            own = {k: x[mine] for k, x in given.items()}
            result[mine] = self.thresholds[label].accepts(**own, score=score, units=units)
        return result

    def check(
        self,
        loss: Array,
        confidence: Array,
        groups: Array,
        *,
        clusters: Array = None,
        previous: GroupChecks | None = None,
        score: str | None = None,
        units: Units | None = None,
    ) -> GroupChecks:
        """`Threshold.check` within each group, at its own delta: some group alarms wrongly with at most `delta`.

        A group that is not there this time keeps its last look; one without a threshold has nothing to check.
        """
        parts = self._parts("check", groups, np.shape(to_host(confidence)))
        given: Any = {"clusters": clusters, "previous": previous, "score": score, "units": units}
        return check_groups(self, parts, loss, confidence, **given)

    def _parts(self, name: str, groups: Array, shape: tuple[int, ...]) -> list[tuple[Any, np.ndarray]]:
        """Each known group that is there, and where."""
        given = label_array(groups).astype(object)
        if shape != given.shape:
            raise ShapeError(f"{name}: needs one group per confidence, got {shape} and {given.shape}.")
        labels, codes = group_codes(name, given.reshape(-1))
        for label in labels:
            if label not in self.thresholds:
                known = f"those calibrated ({', '.join(map(str, self.thresholds))})"
                raise InputError(f"{name}: `groups` must be among {known}, got {label!r}.")
        return [(label, (codes == code).reshape(shape)) for code, label in enumerate(labels)]

    def _rules(self) -> dict[str, Any]:
        shared = sum(t.delta for t in self.thresholds.values())
        return {
            "there must be a group.": self.thresholds,
            "groups must share `delta`.": shared <= self.delta * (1 + 1e-9),
        }

    def __repr__(self) -> str:
        lines = ["GroupThresholds"]
        for label, t in self.thresholds.items():
            lines.append(f"  {label!s:<16} {t.rule:<32} coverage {t.coverage:.4f}  (n = {t.n})")
        return "\n".join([*lines, f"  guarantee: {self.guarantee or 'none'}"])


def load_rule(path: Any) -> Threshold | GroupThresholds:
    """The rule, or the rules by group, that `save` or the command line wrote.

    Parameters
    ----------
    path : str or path
        A JSON file.

    Returns
    -------
    Threshold or GroupThresholds
        Every field checked; anything else is a `DataError`.

    Examples
    --------
    >>> import tempfile
    >>> from abstain import select_threshold
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     select_threshold([0, 0, 1], [0.9, 0.8, 0.1], coverage=0.5, method="empirical").save(folder + "/rule.json")
    ...     load_rule(folder + "/rule.json").rule
    'confidence >= 0.8'
    """
    text = text_of(path)
    found = parsed("load_rule", text)
    grouped = isinstance(found, dict) and found.get("format") == GroupThresholds._format()
    return GroupThresholds.from_json(text) if grouped else Threshold.from_json(text)
