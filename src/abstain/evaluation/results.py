"""What `evaluate`, `compare` and `expected_aurc` answer with: frozen numbers and the ways to show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from abstain import _tables
from abstain._stored import Stored
from abstain.display import CurveLine, IntervalDisplay, RiskCoverageDisplay
from abstain.errors import InfeasibleError, InputError
from abstain.inference.records import Interval
from abstain.losses import loss_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Kind = Literal["curves", "intervals"]
GROUPS_SHOWN = 24  # rows of a table of groups; the rest is counted below it


@dataclass(frozen=True)
class Entry(_tables.Printable):
    """One number of the table.

    Parameters
    ----------
    score, loss, metric : str
        Its place in the table.
    label : str
        The metric as people write it.
    lower_is_better : bool
        Which way is better.
    estimate : float or None
        None where it is undefined.
    standard_error, low, high : float or None
        Its error bar; None where there is none.
    method : str or None
        How the interval was made.
    n : int
        Samples that it is about.
    group : any
        The group that it is about; None for all samples.
    reason : str or None
        Why there is no estimate, or no interval.
    random_ties : float or None
        The area with equal confidences in random order, where that is more than a standard error away.
    note : str or None
        On how few errors it rests.

    Examples
    --------
    >>> Entry("max_softmax", "zero_one", "aurc", "AURC", True, 0.1, 0.02, 0.07, 0.14).cell
    '0.1 [0.07, 0.14]'
    """

    score: str
    loss: str
    metric: str
    label: str
    lower_is_better: bool
    estimate: float | None
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None
    method: str | None = None
    n: int = 0
    group: Any = None
    reason: str | None = None
    random_ties: float | None = None
    note: str | None = None

    def __repr__(self) -> str:
        where = "" if self.group is None else f" in group {self.group!r}"
        return f"{self.label} of {self.score} ({self.loss}{where}): {self.cell}"

    @property
    def cell(self) -> str:
        """The number as a table shows it."""
        if self.estimate is None or self.low is None:
            return self.shown_estimate
        limits = f"[{_tables.format_number(self.low, 3)}, {_tables.format_number(self.high, 3)}]"
        return f"{self.shown_estimate} {limits}{self.mark}"

    @property
    def shown_estimate(self) -> str:
        """The estimate alone, with the digits that a table shows."""
        return _tables.format_number(self.estimate)

    @property
    def mark(self) -> str:
        """A letter beside a number that depends on how ties are counted."""
        return "" if self.random_ties is None else " t"


@dataclass(frozen=True)
class TopTies:
    """How many samples share the largest confidence of a score.

    Parameters
    ----------
    score : str
        The score.
    tied : int
        How many tie at its top.
    n : int
        Of how many.

    Examples
    --------
    >>> TopTies("max_softmax", tied=250, n=1000)
    TopTies(score='max_softmax', tied=250, n=1000)
    """

    score: str
    tied: int
    n: int


@dataclass(frozen=True, repr=False)
class Evaluation(Stored):
    """What `evaluate` answers with: every score x loss x metric, each with its interval or the reason it has none.

    Parameters
    ----------
    entries : tuple of Entry
        The numbers.
    n : int
        Number of samples.
    level : float
        Of the intervals.
    curves : tuple of (score, loss, CurveLine)
        Risk-coverage curves to be drawn.
    abstained : float
        Share of samples never accepted.
    top_ties : tuple of TopTies
        Per score, where samples tie at its top.
    notes : tuple of str
        Sentences that a reader should see.

    Examples
    --------
    >>> import abstain
    >>> table = abstain.evaluate(loss=[0, 0, 1, 0], confidence=[0.9, 0.8, 0.2, 0.5], metrics=["aurc", "risk"])
    >>> table["confidence", "loss", "risk"].estimate, table.best("aurc").estimate
    (0.25, 0.0625)
    >>> table.frame("dict")["metric"]
    ['aurc', 'risk']
    """

    _noun: ClassVar[str] = "an evaluation"

    entries: tuple[Entry, ...]
    n: int
    level: float
    curves: tuple[tuple[str, str, CurveLine], ...] = ()
    abstained: float = 0.0
    top_ties: tuple[TopTies, ...] = ()
    notes: tuple[str, ...] = ()

    # what is in it ----------------------------------------------------------------------------------------

    @property
    def scores(self) -> tuple[str, ...]:
        """Names of the confidences."""
        return _unique(e.score for e in self.entries)

    @property
    def losses(self) -> tuple[str, ...]:
        """Names of the losses."""
        return _unique(e.loss for e in self.entries)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Keys of the metrics, as `metrics=` takes them."""
        return _unique(e.metric for e in self.entries)

    @property
    def groups(self) -> tuple[Any, ...]:
        """Labels of the groups; empty when none were given."""
        return _unique(e.group for e in self.entries if e.group is not None)

    def select(self, **wanted: Any) -> tuple[Entry, ...]:
        """Entries with these values of score, loss, metric and group (the whole set unless a group is named)."""
        wanted = {"group": None, **wanted}
        places = ("score", "loss", "metric", "group")
        known = {name: _unique(getattr(e, name) for e in self.entries) for name in places}
        for name, value in wanted.items():
            if name not in known or value not in known[name]:
                listed = ", ".join(map(repr, known.get(name, known)))
                raise InputError(f"Evaluation: no {name} {value!r} in this table, it has {listed}.")
        return tuple(e for e in self.entries if all(getattr(e, k) == v for k, v in wanted.items()))

    def __getitem__(self, place: tuple[str, str, str]) -> Entry:
        """The entry of (score, loss, metric) over all samples."""
        score, loss, metric = place
        return self.select(score=score, loss=loss, metric=metric)[0]

    def best(self, metric: str = "aurc", *, loss: str | None = None, group: Any = None) -> Entry:
        """The score with the best value of a metric; its interval says how sure that is (see `compare`)."""
        found = self.select(metric=metric, loss=loss or self.losses[0], group=group)
        ranked = _best_first(found)
        if not ranked:
            raise InfeasibleError(f"Evaluation.best: {metric} is undefined here: {found[0].reason}")
        return ranked[0]

    def by_group(
        self, metric: str | None = None, *, score: str | None = None, loss: str | None = None
    ) -> tuple[Entry, ...]:
        """One entry per group, the worst first.

        The worst is the group that is surely bad: with a metric where lower is better, that of the largest lower
        limit. A few samples that happen to be wrong do not lead, and a small group that is surely bad does. Groups
        without an interval come after those that have one, groups without an estimate last.

        Parameters
        ----------
        metric, score, loss : str, optional
            Of the entries; the first of this table unless named.
        """
        if not self.groups:
            raise InputError("Evaluation.by_group: no `groups=` were given to evaluate.")
        place = (score or self.scores[0], loss or self.losses[0], metric or self.metrics[0])
        self.select(score=place[0], loss=place[1], metric=place[2])  # names that are not there are refused
        entries = [e for e in self.entries if e.group is not None and (e.score, e.loss, e.metric) == place]
        columns = _tables.collect_columns(entries, ("estimate", "low", "high"))
        numbers = [np.asarray(column, dtype=np.float64) for column in columns.values()]  # None becomes nan
        order = worst_first(*numbers, lower_is_better=entries[0].lower_is_better)
        return tuple(entries[i] for i in order)

    def worst_group(
        self, metric: str = "aurc", *, score: str | None = None, loss: str | None = None
    ) -> Entry:
        """The group where a score does worst: the first of `by_group`."""
        if not self.groups:
            raise InputError("Evaluation.worst_group: no `groups=` were given to evaluate.")
        worst = self.by_group(metric, score=score, loss=loss)[0]
        if worst.estimate is None:
            raise InfeasibleError(f"Evaluation.worst_group: {metric} is undefined in every group.")
        return worst

    # ways to show it --------------------------------------------------------------------------------------

    def frame(self, library: str | None = None) -> Any:
        """One row per entry, as a pandas or polars frame, or a dict of columns when neither is installed."""
        used = {"group": bool(self.groups), "random_ties": any(e.mark for e in self.entries)}
        used["note"] = any(e.note for e in self.entries)
        names = [name for name in Entry.__dataclass_fields__ if used.get(name, True)]
        return _tables.make_frame(_tables.collect_columns(self.entries, names), library)

    def rows(self, loss: str, group: Any = None) -> list[tuple[Entry, ...]]:
        """The entries of each metric, score by score; a metric that no score has a value of is left out."""
        rows = [self.select(loss=loss, metric=metric, group=group) for metric in self.metrics]
        return [entries for entries in rows if _best_first(entries)]

    def grid(self, loss: str, group: Any = None) -> dict[str, list[str]]:
        """Metrics down, scores across, as text; the best of each row carries a star when there is a choice."""
        columns: dict[str, list[str]] = {name: [] for name in ("metric", *self.scores)}
        for entries in self.rows(loss, group):
            best = best_scores(entries, lambda e: e.shown_estimate)
            columns["metric"].append(entries[0].label)
            for e in entries:
                columns[e.score].append(e.cell + (" *" if e.score in best else ""))
        return columns

    def group_grid(self) -> dict[str, list[str]]:
        """The groups as text, the worst first: the first metric by the first score, and the risk beside it."""
        entries = self.by_group()[:GROUPS_SHOWN]
        columns = {"group": [str(e.group) for e in entries], "samples": [f"{e.n:,}" for e in entries]}
        columns[entries[0].label] = [e.cell for e in entries]
        if "risk" in self.metrics[1:]:
            risks = {e.group: e for e in self.by_group("risk")}
            columns["risk"] = [risks[e.group].cell for e in entries]
        return columns

    def group_title(self) -> str:
        """What the table of groups shows, and which groups it leaves out."""
        entries = self.by_group()
        first = entries[0]
        limit = "lower" if first.lower_is_better else "upper"
        order = f"by {limit} limit of {first.label} ({first.score}, {first.loss})"
        rest = entries[GROUPS_SHOWN:]
        if not rest:
            return f"groups, the worst first {order}"
        left_out = f"{len(rest):,} more groups with {sum(e.n for e in rest):,} samples are not listed"
        return f"the {GROUPS_SHOWN} worst of {len(entries):,} groups {order}; {left_out}"

    def __repr__(self) -> str:
        parts = [self._head()]
        for loss in self.losses:
            parts += [f"loss: {loss}", *_in_pieces(self.grid(loss))]
        if self.groups:
            parts += [self.group_title(), _tables.text_table(self.group_grid())]
        notes = [f"  - {note}" for note in self.remarks()]
        return "\n".join([*parts, *(["notes", *notes] if notes else [])])

    def _head(self) -> str:
        away = f", {self.abstained:.1%} abstained" if self.abstained else ""
        told = f"estimate [{self.level:.0%} interval], * best of its row"
        return f"Evaluation of {self.n} samples{away}; {told}"

    def undefined(self) -> list[str]:
        """Which numbers are absent, and why."""
        reasons: dict[str, str] = {}
        for e in self.entries:
            if e.reason and e.group is None:
                reasons.setdefault(f"{e.label}, {e.loss}", e.reason)
        return [f"{what}: {why}" for what, why in reasons.items()]

    def remarks(self) -> list[str]:
        """Why numbers are absent, and the notes."""
        return [*self.undefined(), *self.notes]

    def to_markdown(self) -> str:
        """One Markdown table per loss, one of the groups, and the notes below."""
        parts = [
            f"**{loss}** (n = {self.n})\n\n{_tables.markdown_table(self.grid(loss))}" for loss in self.losses
        ]
        if self.groups:
            parts.append(f"**{self.group_title()}**\n\n{_tables.markdown_table(self.group_grid())}")
        return "\n".join(parts) + "".join(f"\n- {note}" for note in self.remarks()) + "\n"

    def to_latex(self) -> str:
        """One LaTeX table (booktabs) per loss, and one of the groups."""
        about = f"n = {self.n}, {self.level:.0%} intervals"
        ties = "t depends on how ties are counted" if any(e.mark for e in self.entries) else ""
        marks = "; ".join(filter(None, ("* best of its row", ties)))
        tables = [
            _tables.latex_table(self.grid(loss), f"{loss} loss, {about}", marks) for loss in self.losses
        ]
        if self.groups:
            tables.append(_tables.latex_table(self.group_grid(), f"{self.group_title()}; {about}", ties))
        return "\n".join(tables)

    def _repr_html_(self) -> str:
        tables = {f"{loss} loss": self.grid(loss) for loss in self.losses}
        if self.groups:
            tables[self.group_title()] = self.group_grid()
        return _tables.html_page(self._head(), tables, self.remarks())

    def display(
        self, kind: Kind = "curves", *, metric: str = "aurc", loss: str | None = None
    ) -> RiskCoverageDisplay | IntervalDisplay:
        """The numbers behind `plot`: risk-coverage curves, or the intervals of one metric."""
        loss = loss or self.losses[0]
        if kind == "curves":
            lines = tuple(line for _, of, line in self.curves if of == loss)
            return RiskCoverageDisplay(lines, f"selective risk: {loss_words(loss)}")
        if kind != "intervals":
            raise InputError(f'Evaluation.plot: `kind` must be "curves" or "intervals", got {kind!r}.')
        found = [e for e in self.select(metric=metric, loss=loss) if e.estimate is not None]
        return _bars(found, "score", f"{found[0].label if found else metric}: {loss_words(loss)}")

    def plot(
        self, ax: Axes | None = None, *, kind: Kind = "curves", metric: str = "aurc", loss: str | None = None
    ) -> Axes:
        """Draw the risk-coverage curves (or kind="intervals": one metric with error bars); returns the axes."""
        return self.display(kind, metric=metric, loss=loss).plot(ax)


def worst_first(
    estimate: np.ndarray, low: np.ndarray, high: np.ndarray, *, lower_is_better: bool
) -> np.ndarray:
    """Places of groups along the last axis, the worst first by the limit that is nearer to good; nan comes last.

    Equal limits are ordered by the estimate.

    >>> estimate, low = np.array([0.5, 0.2, 0.3]), np.array([0.01, 0.1, 0.2])
    >>> worst_first(estimate, low, estimate, lower_is_better=True).tolist()
    [2, 1, 0]
    """
    if lower_is_better:
        return np.lexsort((-estimate, -low), axis=-1)
    return np.lexsort((estimate, high), axis=-1)


def best_scores(entries: Sequence[Entry], show: Callable[[Entry], str]) -> set[str]:
    """The scores with the best value of a row as far as its digits show; none where all values look the same.

    `show` writes the estimate as the table does: of two values that look equal, a star on one alone would mislead.
    """
    ranked = _best_first(entries)
    if not ranked or show(ranked[0]) == show(ranked[-1]):
        return set()
    return {e.score for e in ranked if show(e) == show(ranked[0])}


def _best_first(entries: Iterable[Entry]) -> list[Entry]:
    """Those that have a value; equals keep their order."""
    defined = [e for e in entries if e.estimate is not None]
    return sorted(defined, key=lambda e: (e.estimate or 0.0) * (1 if e.lower_is_better else -1))


def _bars(records: Sequence[Any], name: str, label: str, notes: tuple[str, ...] = ()) -> IntervalDisplay:
    columns = _tables.collect_columns(records, (name, "estimate", "low", "high"))
    names, values, low, high = map(tuple, columns.values())
    return IntervalDisplay(names, values, low, high, label, notes)


def _unique(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))


def _in_pieces(grid: dict[str, list[str]], across: int = 4) -> list[str]:
    """Wide tables are broken after a few scores, the metric column repeated."""
    first, *names = grid
    pieces = [names[i : i + across] for i in range(0, len(names), across)]
    return [_tables.text_table({k: grid[k] for k in (first, *piece)}) for piece in pieces]


# what `compare` answers with ------------------------------------------------------------------------------

_SENTENCES = 8  # more than these the repr only counts
_MARKS = (
    "Differences are from the first; their intervals and two-sided p-values are corrected for the number of pairs. "
    "Those that share a letter cannot be told apart."
)


@dataclass(frozen=True)
class Contestant:
    """One model or score of a comparison.

    Parameters
    ----------
    name : str
        The model or score.
    estimate, standard_error : float
        The metric and its error.
    low, high : float or None
        Its interval.
    n : int
        Number of samples.
    rank_low, rank_high : int
        Between which its true rank lies, as far as the tests can tell.
    group : str
        Letters; those that share one cannot be told apart.

    Examples
    --------
    >>> Contestant("a", 0.1, 0.01, 0.08, 0.12, 500, rank_low=1, rank_high=2, group="a").rank_high
    2
    """

    name: str
    estimate: float
    standard_error: float
    low: float | None
    high: float | None
    n: int
    rank_low: int
    rank_high: int
    group: str

    @property
    def ranks(self) -> str:
        """Its rank as a table shows it: "2", or "1-3" where the tests leave it open."""
        return str(self.rank_low) if self.rank_low == self.rank_high else f"{self.rank_low}-{self.rank_high}"


@dataclass(frozen=True)
class Pair(_tables.Printable):
    """One contestant minus another.

    Parameters
    ----------
    a, b : str
        Their names.
    difference, standard_error : float
        The metric of `a` minus that of `b`, and its error.
    low, high : float
        The interval of the difference, corrected for the number of pairs: it leaves 0 out where `p_adjusted` is below
        1 - level.
    p_value, p_adjusted : float
        Two-sided; alone, and corrected after Holm for the number of pairs.
    different : bool
        Can they be told apart?
    samples_needed : int or None
        About how many would tell them apart with chance 80%; None if they differ.
    note : str
        Why there is no verdict, where there is none.

    Examples
    --------
    >>> Pair("a", "b", -0.02, 0.005, -0.03, -0.01, 6e-5, 6e-5, True, None).different
    True
    """

    a: str
    b: str
    difference: float
    standard_error: float
    low: float
    high: float
    p_value: float
    p_adjusted: float
    different: bool
    samples_needed: int | None
    note: str = ""

    def __repr__(self) -> str:
        both, p = f"{self.a} and {self.b}", f"(corrected p = {self.p_adjusted:.2g})"
        if self.note:
            return f"{both}: no verdict, it {self.note}"
        if self.different:
            return f"{both} differ by {self.difference:.3g} {p}"
        about = int(float(f"{self.samples_needed or 0:.2g}"))  # two digits are more than such a guess holds
        need = f"; about {about:,} samples would be needed" if about else ""
        return f"{both} cannot be told apart at this n {p}{need}"

    def swapped(self) -> Pair:
        """`b` minus `a`."""
        return replace(
            self,
            a=self.b,
            b=self.a,
            difference=0.0 - self.difference,
            low=0.0 - self.high,
            high=0.0 - self.low,
        )


@dataclass(frozen=True, repr=False)
class Comparison(Stored):
    """What `compare` answers with: contestants, best first, and all pairs.

    Parameters
    ----------
    contestants : tuple of Contestant
        Best first.
    pairs : tuple of Pair
        All of them; p-values are two-sided. They and the intervals are corrected for the number of pairs.
    metric, label, loss : str
        What they are ranked by.
    lower_is_better : bool
        Which way is better.
    level : float
        Of intervals and tests.
    n : int
        Number of samples.
    paired : bool
        Are they the same samples?
    notes : tuple of str
        Verdicts that depend on how ties are counted.

    Examples
    --------
    >>> import abstain
    >>> loss, sure = [0, 0, 1, 0, 1, 0, 0, 1], [8, 7, 3, 6, 2, 5, 4, 1]
    >>> found = abstain.compare({"good": (loss, sure), "bad": (loss, sure[::-1])})
    >>> found.names, len(found.pairs)
    (('good', 'bad'), 1)
    """

    _noun: ClassVar[str] = "a comparison"

    contestants: tuple[Contestant, ...]
    pairs: tuple[Pair, ...]
    metric: str
    label: str
    lower_is_better: bool
    loss: str
    level: float
    n: int
    paired: bool
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Best first."""
        return tuple(c.name for c in self.contestants)

    @property
    def winners(self) -> tuple[str, ...]:
        """All that may be the best, as far as the tests can tell."""
        return tuple(c.name for c in self.contestants if c.rank_low == 1)

    def __getitem__(self, name: str) -> Contestant:
        for c in self.contestants:
            if c.name == name:
                return c
        raise InputError(f"Comparison: no {name!r} in it, it has {', '.join(self.names)}.")

    def pair(self, a: str, b: str) -> Pair:
        """The difference of two of them, `a` minus `b`."""
        self[a], self[b]
        for p in self.pairs:
            if {p.a, p.b} == {a, b}:
                return p if p.a == a else p.swapped()
        raise InputError(f"Comparison: {a!r} cannot be compared with itself.")

    # ways to show it --------------------------------------------------------------------------------------

    def frame(self, library: str | None = None) -> Any:
        """One row per contestant, best first; beside it how it differs from the best."""
        columns = _tables.collect_columns(self.contestants, list(Contestant.__dataclass_fields__))
        names = {"low": "difference_low", "high": "difference_high"}
        for field in ("difference", "low", "high", "p_value", "p_adjusted"):
            columns[names.get(field, field)] = [p and getattr(p, field) for p in self.from_best()]
        return _tables.make_frame(columns, library)

    def pairs_frame(self, library: str | None = None) -> Any:
        """One row per pair."""
        return _frame(self.pairs, Pair, library)

    def from_best(self) -> list[Pair | None]:
        """How each differs from the best one, in the order of the ranking; None for that one itself."""
        return [None, *(self.pair(name, self.names[0]) for name in self.names[1:])]

    def grid(self) -> dict[str, list[str]]:
        """The ranking as text, with the differences from the best one."""
        names = ("rank", "name", self.label, f"{self.level:.0%} interval", "difference", "p", "group")
        number = _tables.format_number
        limits = ["-" if c.low is None else f"[{number(c.low)}, {number(c.high)}]" for c in self.contestants]
        apart = [
            ("-", "-")
            if p is None
            else (
                f"{number(p.difference, 3)} [{number(p.low, 3)}, {number(p.high, 3)}]",
                number(p.p_adjusted, 2),
            )
            for p in self.from_best()
        ]
        rows = [
            (c.ranks, c.name, number(c.estimate), of, *own, c.group)
            for c, of, own in zip(self.contestants, limits, apart)
        ]
        return dict(zip(names, map(list, zip(*rows))))

    def _head(self) -> str:
        kind = f"the same {self.n} samples" if self.paired else "different test sets"
        way = "lower is better" if self.lower_is_better else "higher is better"
        corrected = f"Holm-corrected at {self.level:.0%}"
        return f"Comparison by {self.label} ({self.loss}, {way}) on {kind}, {corrected}"

    def sentences(self) -> list[str]:
        """What can be said of neighbours in the ranking that share a group."""
        neighbours = (self.pair(a, b) for a, b in zip(self.names, self.names[1:]))
        return [repr(p) for p in neighbours if not p.different]

    def __repr__(self) -> str:
        told = self.sentences()
        more = [f"  ... and {len(told) - _SENTENCES} more such neighbours"] if len(told) > _SENTENCES else []
        lines = [f"  {s}" for s in told[:_SENTENCES]]
        notes = [f"  - {note}" for note in self.notes]
        return "\n".join([self._head(), _tables.text_table(self.grid()), *lines, *more, *notes])

    def to_markdown(self) -> str:
        """The ranking as a Markdown table; those that share a letter cannot be told apart."""
        return f"{self._head()}\n\n{_tables.markdown_table(self.grid())}\n{_MARKS}\n"

    def to_latex(self) -> str:
        """The ranking as a LaTeX table (booktabs)."""
        return _tables.latex_table(self.grid(), self._head(), _MARKS)

    def _repr_html_(self) -> str:
        return _tables.html_page(
            "", {self._head(): self.grid()}, [_MARKS, *self.sentences()[:_SENTENCES], *self.notes]
        )

    def display(self) -> IntervalDisplay:
        """The numbers behind `plot`."""
        letters = tuple(c.group for c in self.contestants)
        return _bars(self.contestants, "name", f"{self.label}: {loss_words(self.loss)}", letters)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Estimates with intervals, best on top, the group's letters beside the name; returns the axes."""
        return self.display().plot(ax)


def _frame(records: Sequence[Any], kind: Any, library: str | None) -> Any:
    return _tables.make_frame(_tables.collect_columns(records, list(kind.__dataclass_fields__)), library)


# what `expected_aurc` answers with ------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ExpectedAURC(Stored, _tables.Notebook):
    """The mean over members, and what averaging their predictions gains.

    Parameters
    ----------
    metric, label, loss : str
        What is measured.
    level : float
        Of the intervals.
    n : int
        Number of samples.
    members : tuple of float
        The metric of each member.
    mean : Interval
        Their mean; it carries both errors.
    error_members, error_data : float
        Other members could have been drawn, and other samples.
    averaged, gain : Interval or None
        The averaged predictor, and the mean less it (positive when ensembling helps), with the error over data for
        these members.
    curves : tuple of CurveLine
        To be drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import abstain
    >>> logits = np.random.default_rng(0).normal(size=(3, 50, 4))  # three members
    >>> found = abstain.expected_aurc(logits=logits, labels=np.arange(50) % 4)
    >>> len(found.members), bool(min(found.members) < found.mean.estimate < max(found.members))
    (3, True)
    """

    _noun: ClassVar[str] = "an expected area"

    metric: str
    label: str
    loss: str
    level: float
    n: int
    members: tuple[float, ...]
    mean: Interval
    error_members: float
    error_data: float
    averaged: Interval | None
    gain: Interval | None
    curves: tuple[CurveLine, ...]

    def _rows(self) -> dict[str, Interval]:
        named = {"mean": self.mean, "averaged": self.averaged, "gain": self.gain}
        return {name: found for name, found in named.items() if found is not None}

    def __repr__(self) -> str:
        told = {name: f"{q.estimate:.4g} [{q.low:.4g}, {q.high:.4g}]" for name, q in self._rows().items()}
        told.setdefault("averaged", "not given")
        errors = f"{self.error_members:.2g} over members, {self.error_data:.2g} over data"
        lines = [f"  members   {told.pop('mean')}, standard error {errors}"]
        lines += [f"  {name:<9} {text}" for name, text in told.items()]
        head = f"Expected {self.label} of {len(self.members)} members, {self.n} samples ({self.loss})"
        return "\n".join([head, *lines])

    def frame(self, library: str | None = None) -> Any:
        """One row per member, then the mean, the averaged predictor and the gain."""
        rows = self._rows()
        members = len(self.members)
        columns: dict[str, list[Any]] = {"name": [*(f"member {k}" for k in range(members)), *rows]}
        bars = ("estimate", "standard_error", "low", "high")
        for name, column in _tables.collect_columns(list(rows.values()), bars).items():
            columns[name] = [*(self.members if name == "estimate" else [None] * members), *column]
        return _tables.make_frame(columns, library)

    def display(self) -> RiskCoverageDisplay:
        """The curves behind `plot`: the members' mean selective risk at each coverage, and the averaged one."""
        return RiskCoverageDisplay(self.curves, f"selective risk: {loss_words(self.loss)}")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the members' mean curve and the averaged predictor's; returns the axes."""
        return self.display().plot(ax)
