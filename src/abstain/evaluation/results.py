"""What `evaluate`, `compare` and `expected_aurc` answer with: frozen numbers and the ways to show them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from abstain import _tables
from abstain.display import CurveLine, IntervalDisplay, RiskCoverageDisplay
from abstain.errors import InfeasibleError, InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Entry:
    """One number of the table. Without an `estimate` (or without an interval) `reason` says why."""

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

    def __repr__(self) -> str:
        where = "" if self.group is None else f" in group {self.group!r}"
        return f"{self.label} of {self.score} ({self.loss}{where}): {self.cell}"

    @property
    def cell(self) -> str:
        """The number as a table shows it."""
        if self.estimate is None:
            return "-"
        if self.low is None:
            return _tables.number(self.estimate)
        return f"{self.estimate:.4g} [{self.low:.3g}, {self.high:.3g}]"


@dataclass(frozen=True)
class TopTies:
    """How many samples share the largest confidence of a score, and of how many."""

    score: str
    tied: int
    n: int


# results ------------------------------------------------------------------------------------------
#
# What `evaluate` answers with: every score x loss x metric, each with its interval or the reason it has
# none.


_FORMAT = "abstain.Evaluation/1"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The whole table. `abstained` is the share never accepted; `notes` are sentences a reader should see."""

    entries: tuple[Entry, ...]
    curves: tuple[tuple[str, str, CurveLine], ...]
    n: int
    level: float
    abstained: float
    top_ties: tuple[TopTies, ...]
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
        """Entries with these values of score, loss, metric and group (the whole set unless a group is
        named).
        """
        wanted = {"group": None, **wanted}
        for name, value in wanted.items():
            known: dict[str, tuple[Any, ...]] = {
                "score": self.scores,
                "loss": self.losses,
                "metric": self.metrics,
                "group": (None, *self.groups),
            }
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
        defined = [e for e in found if e.estimate is not None]
        if not defined:
            raise InfeasibleError(f"Evaluation.best: {metric} is undefined here: {found[0].reason}")
        sign = 1 if defined[0].lower_is_better else -1
        return min(defined, key=lambda e: sign * (e.estimate or 0.0))

    def worst_group(
        self, metric: str = "aurc", *, score: str | None = None, loss: str | None = None
    ) -> Entry:
        """The group where a score does worst."""
        score, loss = score or self.scores[0], loss or self.losses[0]
        if not self.groups:
            raise InputError("Evaluation.worst_group: no `groups=` were given to evaluate.")
        found = [self.select(score=score, loss=loss, metric=metric, group=g)[0] for g in self.groups]
        defined = [e for e in found if e.estimate is not None]
        if not defined:
            raise InfeasibleError(f"Evaluation.worst_group: {metric} is undefined in every group.")
        sign = 1 if defined[0].lower_is_better else -1
        return max(defined, key=lambda e: sign * (e.estimate or 0.0))

    # ways to show it --------------------------------------------------------------------------------------

    def frame(self, library: str | None = None) -> Any:
        """One row per entry, as a pandas or polars frame, or a dict of columns when neither is installed."""
        names = list(Entry.__dataclass_fields__)
        columns = {name: [getattr(e, name) for e in self.entries] for name in names}
        if not self.groups:
            del columns["group"]
        return _tables.frame(columns, library)

    def grid(self, loss: str, group: Any = None) -> dict[str, list[str]]:
        """Metrics down, scores across, as text; the best of each row carries a star when there is a
        choice.
        """
        columns: dict[str, list[str]] = {"metric": []}
        for score in self.scores:
            columns[score] = []
        for metric in self.metrics:
            found = self.select(loss=loss, metric=metric, group=group)
            if all(e.estimate is None for e in found):
                continue
            columns["metric"].append(found[0].label)
            choice = len({e.estimate for e in found}) > 1
            winner = self.best(metric, loss=loss, group=group).estimate if choice else None
            for e in found:
                star = " *" if winner is not None and e.estimate == winner else ""
                columns[e.score].append(e.cell + star)
        return columns

    def __repr__(self) -> str:
        parts = [self._head()]
        for loss in self.losses:
            parts += [f"loss: {loss}", *_in_pieces(self.grid(loss))]
        return "\n".join([*parts, *self._foot()])

    def _head(self) -> str:
        away = f", {self.abstained:.1%} abstained" if self.abstained else ""
        return (
            f"Evaluation of {self.n} samples{away}; estimate [{self.level:.0%} interval], * best of its row"
        )

    def _foot(self) -> list[str]:
        absent: dict[str, str] = {}
        for e in self.entries:
            if e.reason and e.group is None:
                absent.setdefault(f"{e.label}, {e.loss}", e.reason)
        lines = [f"  - {what}: {why}" for what, why in absent.items()]
        lines += [f"  - {note}" for note in self.notes]
        return ["notes", *lines] if lines else []

    def to_markdown(self) -> str:
        """One Markdown table per loss, and the notes below."""
        parts = [f"**{loss}** (n = {self.n})\n\n{_tables.markdown(self.grid(loss))}" for loss in self.losses]
        return "\n".join(parts) + "".join(f"\n{line.strip()}" for line in self._foot()[1:]) + "\n"

    def to_latex(self) -> str:
        """One LaTeX table (booktabs) per loss."""
        return "\n".join(
            _tables.latex(self.grid(loss), f"{loss} loss, n = {self.n}, {self.level:.0%} intervals")
            for loss in self.losses
        )

    def _repr_html_(self) -> str:
        import html

        tables = "".join(_tables.html_table(self.grid(loss), f"{loss} loss") for loss in self.losses)
        notes = "".join(
            f"<li>{html.escape(line.strip().removeprefix('- '))}</li>" for line in self._foot()[1:]
        )
        return f"<div><p>{html.escape(self._head())}</p>{tables}<ul>{notes}</ul></div>"

    def display(
        self,
        kind: Literal["curves", "intervals"] = "curves",
        *,
        metric: str = "aurc",
        loss: str | None = None,
    ) -> RiskCoverageDisplay | IntervalDisplay:
        """The numbers behind `plot`: risk-coverage curves, or the intervals of one metric."""
        loss = loss or self.losses[0]
        if kind == "curves":
            lines = [line for _, of, line in self.curves if of == loss]
            return RiskCoverageDisplay(tuple(lines), f"selective risk ({loss})")
        if kind != "intervals":
            raise InputError(f'Evaluation.plot: `kind` must be "curves" or "intervals", got {kind!r}.')
        found = [e for e in self.select(metric=metric, loss=loss) if e.estimate is not None]
        columns = ([getattr(e, k) for e in found] for k in ("score", "estimate", "low", "high"))
        names, values, low, high = (tuple(c) for c in columns)
        label = found[0].label if found else metric
        return IntervalDisplay(names, values, low, high, f"{label} ({loss})")

    def plot(
        self,
        ax: Axes | None = None,
        *,
        kind: Literal["curves", "intervals"] = "curves",
        metric: str = "aurc",
        loss: str | None = None,
    ) -> Axes:
        """Draw the risk-coverage curves (or kind="intervals": one metric with error bars); returns the
        axes.
        """
        return self.display(kind, metric=metric, loss=loss).plot(ax)

    def to_json(self) -> str:
        """The whole table as JSON; `from_json` gives it back."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, allow_nan=False, default=_plain)

    @classmethod
    def from_json(cls, text: str) -> Evaluation:
        """The table that `to_json` wrote."""
        data = json.loads(text)
        if not isinstance(data, dict) or data.pop("format", None) != _FORMAT:
            raise InputError(f"Evaluation.from_json: not an evaluation written by `to_json` ({_FORMAT}).")
        return cls(
            entries=tuple(Entry(**e) for e in data["entries"]),
            curves=tuple((s, l, line_from(c)) for s, l, c in data["curves"]),
            n=data["n"],
            level=data["level"],
            abstained=data["abstained"],
            top_ties=tuple(TopTies(**t) for t in data["top_ties"]),
            notes=tuple(data["notes"]),
        )


def line_from(data: dict[str, Any]) -> CurveLine:
    """A curve from its JSON form."""
    return CurveLine(data["name"], tuple(data["coverage"]), tuple(data["risk"]))


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):  # numpy scalars as group labels
        return value.item()
    raise TypeError(f"to_json: cannot write {type(value).__name__} (a group label?) as JSON")


def _unique(values: Any) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))


def _in_pieces(grid: dict[str, list[str]], across: int = 4) -> list[str]:
    """Wide tables are broken after a few scores, the metric column repeated."""
    names = [name for name in grid if name != "metric"]
    pieces = [names[i : i + across] for i in range(0, len(names), across)]
    return [_tables.text({"metric": grid["metric"], **{k: grid[k] for k in piece}}) for piece in pieces]


# comparison ---------------------------------------------------------------------------------------
#
# What `compare` answers with: a ranking with ties, and every pair's difference.


_COMPARISON_FORMAT = "abstain.Comparison/1"
_SENTENCES = 8  # more than these the repr only counts


@dataclass(frozen=True)
class Contestant:
    """One model or score. Its true rank lies in rank_low ... rank_high as far as the tests can tell.

    Contestants that share a letter of `group` cannot be told apart.
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


@dataclass(frozen=True)
class Pair:
    """`a` minus `b`. `samples_needed`: about how many would tell them apart with chance 80%; None if they differ."""

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

    def __repr__(self) -> str:
        if self.different:
            return (
                f"{self.a} and {self.b} differ by {self.difference:.3g} (corrected p = {self.p_adjusted:.2g})"
            )
        need = f"; about {_about(self.samples_needed)} samples would be needed" if self.samples_needed else ""
        return f"{self.a} and {self.b} cannot be told apart at this n (corrected p = {self.p_adjusted:.2g}){need}"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Contestants, best first, and all pairs. P-values are two-sided and corrected after Holm."""

    contestants: tuple[Contestant, ...]
    pairs: tuple[Pair, ...]
    metric: str
    label: str
    lower_is_better: bool
    loss: str
    level: float
    n: int
    paired: bool

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
            if (p.a, p.b) == (a, b):
                return p
            if (p.a, p.b) == (b, a):
                swapped = asdict(p) | {
                    "a": a,
                    "b": b,
                    "difference": -p.difference,
                    "low": -p.high,
                    "high": -p.low,
                }
                return Pair(**swapped)
        raise InputError(f"Comparison: {a!r} cannot be compared with itself.")

    # ways to show it --------------------------------------------------------------------------------------

    def frame(self, library: str | None = None) -> Any:
        """One row per contestant, best first."""
        return _tables.frame(_columns(self.contestants, Contestant), library)

    def pairs_frame(self, library: str | None = None) -> Any:
        """One row per pair."""
        return _tables.frame(_columns(self.pairs, Pair), library)

    def grid(self) -> dict[str, list[str]]:
        """The ranking as text."""
        return {
            "rank": [_span(c) for c in self.contestants],
            "name": [c.name for c in self.contestants],
            self.label: [f"{c.estimate:.4g}" for c in self.contestants],
            f"{self.level:.0%} interval": [_interval(c) for c in self.contestants],
            "group": [c.group for c in self.contestants],
        }

    def _head(self) -> str:
        kind = f"the same {self.n} samples" if self.paired else "different test sets"
        way = "lower is better" if self.lower_is_better else "higher is better"
        return (
            f"Comparison by {self.label} ({self.loss}, {way}) on {kind}, Holm-corrected at {self.level:.0%}"
        )

    def sentences(self) -> list[str]:
        """What can be said of neighbours in the ranking that share a group."""
        return [repr(p) for p in self._neighbours() if not p.different]

    def _neighbours(self) -> list[Pair]:
        return [self.pair(a, b) for a, b in zip(self.names, self.names[1:])]

    def __repr__(self) -> str:
        told = self.sentences()
        more = [f"  ... and {len(told) - _SENTENCES} more such neighbours"] if len(told) > _SENTENCES else []
        lines = [f"  {s}" for s in told[:_SENTENCES]]
        return "\n".join([self._head(), _tables.text(self.grid()), *lines, *more])

    def to_markdown(self) -> str:
        """The ranking as a Markdown table; those that share a letter cannot be told apart."""
        return f"{self._head()}\n\n{_tables.markdown(self.grid())}"

    def to_latex(self) -> str:
        """The ranking as a LaTeX table (booktabs)."""
        return _tables.latex(self.grid(), self._head())

    def _repr_html_(self) -> str:
        import html

        notes = "".join(f"<li>{html.escape(s)}</li>" for s in self.sentences()[:_SENTENCES])
        return f"<div>{_tables.html_table(self.grid(), self._head())}<ul>{notes}</ul></div>"

    def display(self) -> IntervalDisplay:
        """The numbers behind `plot`."""
        columns = (
            [getattr(c, k) for c in self.contestants] for k in ("name", "estimate", "low", "high", "group")
        )
        names, values, low, high, groups = (tuple(c) for c in columns)
        return IntervalDisplay(names, values, low, high, f"{self.label} ({self.loss})", groups)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Estimates with intervals, best on top, the group's letters beside the name; returns the axes."""
        return self.display().plot(ax)

    def to_json(self) -> str:
        """The whole comparison as JSON; `from_json` gives it back."""
        return json.dumps({"format": _COMPARISON_FORMAT, **asdict(self)}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Comparison:
        """The comparison that `to_json` wrote."""
        data = json.loads(text)
        if not isinstance(data, dict) or data.pop("format", None) != _COMPARISON_FORMAT:
            raise InputError(
                f"Comparison.from_json: not a comparison written by `to_json` ({_COMPARISON_FORMAT})."
            )
        data["contestants"] = tuple(Contestant(**c) for c in data["contestants"])
        data["pairs"] = tuple(Pair(**p) for p in data["pairs"])
        return cls(**data)


def _about(count: int) -> str:
    """Two digits are more than such a guess holds."""
    return f"{int(float(f'{count:.2g}')):,}"


def _span(c: Contestant) -> str:
    return str(c.rank_low) if c.rank_low == c.rank_high else f"{c.rank_low}-{c.rank_high}"


def _interval(c: Contestant) -> str:
    return "-" if c.low is None else f"[{c.low:.4g}, {c.high:.4g}]"


def _columns(rows: tuple[Any, ...], kind: Any) -> dict[str, list[Any]]:
    return {name: [getattr(row, name) for row in rows] for name in kind.__dataclass_fields__}


# members ------------------------------------------------------------------------------------------
#
# What `expected_aurc` answers with: the members, their mean, the averaged predictor and the gain.


_EXPECTED_FORMAT = "abstain.ExpectedAURC/1"


@dataclass(frozen=True)
class Quantity:
    """An estimate with its standard error and interval."""

    estimate: float
    standard_error: float
    low: float
    high: float

    def __repr__(self) -> str:
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True, repr=False)
class ExpectedAURC:
    """The mean over members, and what averaging their predictions gains.

    `mean` carries both errors: `error_members` (other members could have been drawn) and `error_data` (other
    samples could have been). `averaged` and `gain` (mean less averaged, positive when ensembling helps) carry the
    error over data, for these members.
    """

    metric: str
    label: str
    loss: str
    level: float
    n: int
    members: tuple[float, ...]
    mean: Quantity
    error_members: float
    error_data: float
    averaged: Quantity | None
    gain: Quantity | None
    curves: tuple[CurveLine, ...]

    def __repr__(self) -> str:
        head = (
            f"Expected {self.label} of {len(self.members)} members, {self.n} samples ({self.loss})\n"
            f"  members   {self.mean!r}, standard error {self.error_members:.2g} over members, "
            f"{self.error_data:.2g} over data"
        )
        if self.averaged is None:
            return head + "\n  averaged  not given"
        return f"{head}\n  averaged  {self.averaged!r}\n  gain      {self.gain!r}"

    def frame(self, library: str | None = None) -> Any:
        """One row per member, then the mean, the averaged predictor and the gain."""
        rows: list[tuple[str, float, float | None, float | None, float | None]] = [
            (f"member {k}", value, None, None, None) for k, value in enumerate(self.members)
        ]
        for name, q in (("mean", self.mean), ("averaged", self.averaged), ("gain", self.gain)):
            if q is not None:
                rows.append((name, q.estimate, q.standard_error, q.low, q.high))
        names = ("name", "estimate", "standard_error", "low", "high")
        return _tables.frame({name: [row[i] for row in rows] for i, name in enumerate(names)}, library)

    def display(self) -> RiskCoverageDisplay:
        """The curves behind `plot`: the members' mean selective risk at each coverage, and the averaged one."""
        return RiskCoverageDisplay(self.curves, f"selective risk ({self.loss})")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the members' mean curve and the averaged predictor's; returns the axes."""
        return self.display().plot(ax)

    def to_json(self) -> str:
        """As JSON; `from_json` gives it back."""
        return json.dumps({"format": _EXPECTED_FORMAT, **asdict(self)}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> ExpectedAURC:
        """What `to_json` wrote."""
        data = json.loads(text)
        if not isinstance(data, dict) or data.pop("format", None) != _EXPECTED_FORMAT:
            raise InputError(f"ExpectedAURC.from_json: not written by `to_json` ({_EXPECTED_FORMAT}).")
        for name in ("mean", "averaged", "gain"):
            data[name] = None if data[name] is None else Quantity(**data[name])
        data["members"] = tuple(data["members"])
        data["curves"] = tuple(line_from(c) for c in data["curves"])
        return cls(**data)
