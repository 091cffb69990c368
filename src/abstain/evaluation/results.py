"""What `evaluate` answers with: every score x loss x metric, each with its interval or the reason it has
none.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from abstain import _tables
from abstain.display import CurveLine, IntervalDisplay, RiskCoverageDisplay
from abstain.errors import InfeasibleError, InputError
from abstain.evaluation.entries import Entry, TopTies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
