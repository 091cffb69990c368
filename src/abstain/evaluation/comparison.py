"""What `compare` answers with: a ranking with ties, and every pair's difference."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from abstain import _tables
from abstain.display import IntervalDisplay
from abstain.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FORMAT = "abstain.Comparison/1"
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
        return json.dumps({"format": _FORMAT, **asdict(self)}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Comparison:
        """The comparison that `to_json` wrote."""
        data = json.loads(text)
        if not isinstance(data, dict) or data.pop("format", None) != _FORMAT:
            raise InputError(f"Comparison.from_json: not a comparison written by `to_json` ({_FORMAT}).")
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
