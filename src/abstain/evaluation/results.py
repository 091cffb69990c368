"""The results of `evaluate`, `compare` and `expected_aurc`: frozen numbers and the ways to show them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from abstain import _tables
from abstain._check import check_choice
from abstain._names import suggest_name
from abstain._plots import (
    MOST_DISTINCT_LINES,
    FigureSize,
    RiskScale,
    distinct_numbers,
    figure_inches,
    fit_text,
    make_panels,
)
from abstain._stored import Stored
from abstain.display import CurveLine, IntervalDisplay, RiskCoverageDisplay
from abstain.errors import InfeasibleError, InputError
from abstain.inference.records import Interval
from abstain.losses import loss_words
from abstain.scores.catalogue import score_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Kind = Literal["curves", "intervals"]
ComparisonKind = Literal["intervals", "differences", "curves"]
_OWN_LOSSES = ("own losses", "loss", "graded answers")  # names of losses that are no words for an axis
_CURVE_PANEL_HEIGHT = 2.3  # inches, of the curves above the differences in a figure of one column
STAR_LEGEND = "* best value of its row, not tested"
MISSING = "(missing)"  # the group of samples without a label; the group None is all samples


@dataclass(frozen=True)
class Entry(_tables.Printable):
    """One number of the table.

    Parameters
    ----------
    score, loss, metric : str
        Its place in the table: names of the confidence and the loss, and the key of the metric.
    label : str
        The metric as people write it, such as "AURC".
    lower_is_better : bool
        The direction of the metric.
    estimate : float or None
        The value; None where it is undefined.
    standard_error, low, high : float or None
        The standard error and the interval; None where there are none.
    method : str or None
        How the interval was computed.
    n : int
        Number of samples behind the value.
    group : any
        The group that the value describes; None for all samples.
    reason : str or None
        Why there is no estimate, or no interval.
    random_ties : float or None
        The area with equal confidences in random order, where that is more than a standard error away.
    note : str or None
        How few errors the value rests on, where they are few.

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
    def value(self) -> float:
        """The estimate as a float; raises InfeasibleError with the reason if the metric is undefined on these data."""
        if self.estimate is None:
            raise InfeasibleError(f"{self.label} of {self.score} ({self.loss}): {self.reason or 'undefined'}")
        return self.estimate

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
        """ " t" after a number that depends on how ties are counted, otherwise an empty string."""
        return "" if self.random_ties is None else " t"


@dataclass(frozen=True)
class TopTies:
    """How many samples share the largest confidence of a score.

    Parameters
    ----------
    score : str
        Name of the score.
    tied : int
        Number of samples that share its largest value.
    n : int
        Number of all samples.

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
    """The result of `evaluate`: every score x loss x metric, each with its interval or the reason it has none.

    `table["aurc"]` is the entry of a metric where the table has one score and one loss,
    `table[score, loss, metric]` any entry over all samples, and `select` finds entries of groups too.

    Parameters
    ----------
    entries : tuple of Entry
        The numbers.
    n : int
        Number of samples.
    level : float
        Confidence level of the intervals.
    curves : tuple of (score, loss, CurveLine)
        Risk-coverage curves for `plot`.
    abstained : float
        Share of samples never accepted.
    top_ties : tuple of TopTies
        For each score, how many samples share its largest value.
    notes : tuple of str
        Warnings and remarks for the reader, a sentence each.
    clusters : tuple of int
        Number of clusters, for each kind of them; empty for independent samples.

    Examples
    --------
    >>> import abstain
    >>> table = abstain.evaluate(loss=[0, 0, 1, 0], confidence=[0.9, 0.8, 0.2, 0.5], metrics=["aurc", "risk"])
    >>> table["risk"].estimate, table.best("aurc").estimate
    (0.25, 0.0625)
    >>> table.frame("dict")["metric"]
    ['aurc', 'risk']
    """

    _noun: ClassVar[str] = "an evaluation"
    _number: ClassVar[int] = 2

    entries: tuple[Entry, ...]
    n: int
    level: float
    curves: tuple[tuple[str, str, CurveLine], ...] = ()
    abstained: float = 0.0
    top_ties: tuple[TopTies, ...] = ()
    notes: tuple[str, ...] = ()
    clusters: tuple[int, ...] = ()

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
        """Labels of the groups; empty when `evaluate` got no `groups=`."""
        return _unique(e.group for e in self.entries if e.group is not None)

    def select(self, **place: Any) -> tuple[Entry, ...]:
        """Entries with these values of `score`, `loss`, `metric` and `group`, in the order of the table.

        `select(metric="aurc", group="north")`: a field that is not passed may have any value, except the group, where
        only entries over all samples count. InputError for another field, and for a value that is not in this table.
        """
        place = {"group": None, **place}
        for field, value in place.items():
            if field not in ("score", "loss", "metric", "group"):
                raise InputError(f"Evaluation: takes score, loss, metric and group, got {field!r}.")
            present = _unique(getattr(entry, field) for entry in self.entries)  # each once, in their order
            if value not in present:
                listed = ", ".join(map(repr, present))
                message = f"Evaluation: no {field} {value!r} in this table, it has {listed}."
                # 'Did you mean "aurc"?', or an empty text
                suggestion = suggest_name(value, [name for name in present if isinstance(name, str)])
                raise InputError(f"{message} {suggestion}".rstrip())
        return tuple(
            entry
            for entry in self.entries
            if all(getattr(entry, field) == value for field, value in place.items())
        )

    def _select_some(self, **place: Any) -> tuple[Entry, ...]:
        """`select`, but InputError where no entry has all of these values together."""
        entries = self.select(**place)
        if not entries:
            *names, last_name = (f"{field} {value!r}" for field, value in place.items() if value is not None)
            raise InputError(f"Evaluation: this table has no entry of {', '.join(names)} and {last_name}.")
        return entries

    def __getitem__(self, key: str | tuple[str, str, str]) -> Entry:
        """The entry over all samples of (score, loss, metric), or of a metric alone where that is unique.

        InputError for an unknown name, another kind of key, or a metric with several entries.
        """
        if isinstance(key, tuple) and len(key) == 3:
            score, loss, metric = key
            # raises unless there is such an entry; a table has one at most
            return self._select_some(score=score, loss=loss, metric=metric)[0]
        if not isinstance(key, str):
            raise InputError(f"Evaluation: takes a metric or (score, loss, metric), got {key!r}.")
        entries = self.select(metric=key)  # over all samples, one for each score and loss
        if len(entries) > 1:
            keys = ", ".join(str((entry.score, entry.loss, entry.metric)) for entry in entries)
            raise InputError(
                f"Evaluation: {key!r} must be unique here, got {len(entries)} entries. Use one of {keys}."
            )
        return entries[0]

    def best(self, metric: str = "aurc", *, loss: str | None = None, group: Any = None) -> Entry:
        """The score with the best value of a metric; `compare` tests whether it is better than the others.

        By the first loss of the table unless `loss` names another, over all samples unless `group` names a group.
        InfeasibleError if the metric is undefined for every score.
        """
        entries = self._select_some(group=group, loss=loss or self.losses[0], metric=metric)
        best_first = _best_first(entries)
        if not best_first:
            raise InfeasibleError(f"Evaluation.best: {metric} is undefined here: {entries[0].reason}")
        return best_first[0]

    def by_group(
        self, metric: str | None = None, *, score: str | None = None, loss: str | None = None
    ) -> tuple[Entry, ...]:
        """One entry per group, the worst first.

        Groups are ordered by the limit of the interval that is closer to good: where lower is better, the group with
        the largest lower limit comes first. So a group with a few unlucky samples does not lead, and a small group
        that is certainly bad does. Groups without an interval come after those that have one, groups without an
        estimate last.

        Parameters
        ----------
        metric, score, loss : str, optional
            Which entries; by default the first metric, score and loss of this table.
        """
        if not self.groups:
            raise InputError("Evaluation.by_group: needs `groups=` in evaluate, got none.")
        place = (score or self.scores[0], loss or self.losses[0], metric or self.metrics[0])
        self._select_some(score=place[0], loss=place[1], metric=place[2])  # raises if there is no such entry
        entries = [
            entry
            for entry in self.entries
            if entry.group is not None and (entry.score, entry.loss, entry.metric) == place
        ]
        columns = _tables.collect_columns(entries, ("estimate", "low", "high"))
        numbers = [np.asarray(column, dtype=np.float64) for column in columns.values()]  # None becomes nan
        order = worst_first(*numbers, lower_is_better=entries[0].lower_is_better)
        return tuple(entries[i] for i in order)

    def worst_group(
        self, metric: str = "aurc", *, score: str | None = None, loss: str | None = None
    ) -> Entry:
        """The group where a score does worst: the first of `by_group`."""
        if not self.groups:
            raise InputError("Evaluation.worst_group: needs `groups=` in evaluate, got none.")
        worst = self.by_group(metric, score=score, loss=loss)[0]
        if worst.estimate is None:
            raise InfeasibleError(f"Evaluation.worst_group: {metric} is undefined in every group.")
        return worst

    # ways to show it --------------------------------------------------------------------------------------

    def frame(self, library: str | None = None) -> Any:
        """One row per entry, as a pandas or polars frame, or a dict of columns when neither is installed."""
        is_used = {
            "group": bool(self.groups),
            "random_ties": any(entry.mark for entry in self.entries),
            "note": any(entry.note for entry in self.entries),
        }
        columns = [field for field in Entry.__dataclass_fields__ if is_used.get(field, True)]
        return _tables.make_frame(_tables.collect_columns(self.entries, columns), library)

    def to_flat_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the numbers over all samples as plain floats by name, for loggers such as MLflow and Weights & Biases.

        A metric gives its value, and "_low" and "_high" after its name give the limits of its interval. Numbers without
        a value are left out, and so are groups; `frame` has both. The name of the score and of the loss come first,
        separated by "/", where the table has several. Loggers refuse "@" and ":", so "risk_at_coverage@0.8" becomes
        "risk_at_coverage_0.8" and "aurc:loo" becomes "aurc_loo". `prefix` is put before every name, e.g. "test/".

        >>> import abstain
        >>> table = abstain.evaluate(loss=[0, 0, 1, 0], confidence=[0.9, 0.8, 0.2, 0.5], metrics="risk_at_coverage@0.5")
        >>> sorted(table.to_flat_dict("test/"))
        ['test/risk_at_coverage_0.5', 'test/risk_at_coverage_0.5_high', 'test/risk_at_coverage_0.5_low']
        """
        numbers: dict[str, float] = {}
        for entry in self.entries:
            if entry.group is not None:
                continue
            parts = [entry.score] if len(self.scores) > 1 else []
            parts += [entry.loss] if len(self.losses) > 1 else []
            parts.append(re.sub("[@:]", "_", entry.metric))
            name = prefix + "/".join(parts)
            values = {name: entry.estimate, f"{name}_low": entry.low, f"{name}_high": entry.high}
            numbers |= {key: float(value) for key, value in values.items() if value is not None}
        return numbers

    def rows(self, loss: str, group: Any = None) -> list[tuple[Entry, ...]]:
        """The entries of each metric, one per score; a metric without a value for any score is left out."""
        rows = [self.select(loss=loss, metric=metric, group=group) for metric in self.metrics]
        return [entries for entries in rows if _best_first(entries)]

    def grid(self, loss: str, group: Any = None) -> dict[str, list[str]]:
        """The table of one loss as columns of text: "metric", then one column per score.

        There is a row for each metric with a value, over all samples or those of a group. The best score of a row has a
        star, unless all scores look the same.
        """
        columns: dict[str, list[str]] = {name: [] for name in ("metric", *self.scores)}
        for entries in self.rows(loss, group):  # a row is of one metric, with an entry for each score
            # names of scores; compared as the table writes them, so that numbers which look equal get the same mark
            best = best_scores(entries, lambda entry: entry.shown_estimate)
            columns["metric"].append(entries[0].label)
            for entry in entries:
                star = " *" if entry.score in best else ""
                columns[entry.score].append(f"{entry.cell}{star}")
        return columns

    def group_grid(self) -> dict[str, list[str]]:
        """The table of groups as columns of text, the worst group first and at most GROUPS_SHOWN of them.

        It shows number of samples, the first metric and the risk (if it is another metric of the table), all by the
        first score and loss. InputError without groups.
        """
        entries = self.by_group()[: _tables.GROUPS_SHOWN]  # of the first metric, the worst group first
        columns = {
            "group": [str(entry.group) for entry in entries],
            "samples": [f"{entry.n:,}" for entry in entries],
        }
        columns[entries[0].label] = [entry.cell for entry in entries]  # estimate and interval, as text
        if "risk" in self.metrics[1:]:
            risk_of_group = {entry.group: entry.cell for entry in self.by_group("risk")}
            columns["risk"] = [risk_of_group[entry.group] for entry in entries]
        return columns

    def group_title(self) -> str:
        """The title of the table of groups: what it is ordered by, and how many groups it leaves out."""
        entries = self.by_group()  # one entry for each group, the worst first
        worst = entries[0]
        # the limit that is closer to good, by which `by_group` orders
        limit = "lower" if worst.lower_is_better else "upper"
        order = f"by {limit} limit of {worst.label} ({worst.score}, {worst.loss})"
        hidden = entries[_tables.GROUPS_SHOWN :]
        if not hidden:
            return f"groups, the worst first {order}"
        hidden_samples = sum(entry.n for entry in hidden)
        summary = f"{len(hidden):,} more groups with {hidden_samples:,} samples are not listed"
        return f"the {_tables.GROUPS_SHOWN} worst of {len(entries):,} groups {order}; {summary}"

    def __repr__(self) -> str:
        parts = [self._head()]
        for loss in self.losses:
            parts += [f"loss: {loss}", *_in_pieces(self.grid(loss))]
        if self.groups:
            parts += [self.group_title(), _tables.text_table(self.group_grid())]
        notes = [f"  - {note}" for note in self.remarks()]
        return "\n".join([*parts, *(["notes", *notes] if notes else [])])

    def _head(self) -> str:
        abstained = f", {self.abstained:.1%} abstained" if self.abstained else ""
        legend = f"estimate [{self.level:.0%} interval], {STAR_LEGEND}"
        samples = f"{self.n} samples{_tables.in_clusters(self.clusters)}"
        return f"Evaluation of {samples}{abstained}; {legend}"

    def _sample_size(self) -> str:
        """The number of samples as a caption states it, with that of clusters."""
        return f"n = {self.n}{_tables.in_clusters(self.clusters)}"

    def undefined(self) -> list[str]:
        """Which numbers are absent, and why."""
        reasons: dict[str, str] = {}
        for e in self.entries:
            if e.reason and e.group is None:
                reasons.setdefault(f"{e.label}, {e.loss}", e.reason)
        return [f"{number}: {reason}" for number, reason in reasons.items()]

    def remarks(self) -> list[str]:
        """Why numbers are absent, and the notes."""
        return [*self.undefined(), *self.notes]

    def to_markdown(self) -> str:
        """One Markdown table per loss, one of the groups, and the notes below."""
        parts = [
            f"**{loss}** ({self._sample_size()})\n\n{_tables.markdown_table(self.grid(loss))}"
            for loss in self.losses
        ]
        if self.groups:
            parts.append(f"**{self.group_title()}**\n\n{_tables.markdown_table(self.group_grid())}")
        return "\n".join(parts) + "".join(f"\n- {note}" for note in self.remarks()) + "\n"

    def to_latex(self, name: str = "") -> str:
        """One LaTeX table (booktabs) per loss, and one of the groups; `name` is that of the model, for the captions.

        Numbers have as many digits as their standard errors leave meaningful. Each interval is below its estimate, so
        that four scores fit on a page; of more scores, the table is broken. Why numbers are absent, and the notes, are
        comments behind it.
        """
        model = f"{name}: " if name else ""
        about = f"{self._sample_size()}, {self.level:.0%} intervals below the estimates"
        has_tie_marks = any(entry.mark for entry in self.entries)  # " t" behind a number, or an empty text
        tie_legend = "t depends on how ties are counted" if has_tie_marks else ""
        legend = f"{STAR_LEGEND}; {tie_legend}" if has_tie_marks else STAR_LEGEND
        tables = []
        for loss in self.losses:
            kind = "losses" if loss == "loss" else f"{loss} loss"
            tables += [
                _tables.latex_table(columns, f"{model}{kind}, {about}", legend)
                # pieces of four scores, with the names of the metrics in each
                for columns in _split_columns(self._latex_grid(loss))
            ]
        if self.groups:
            caption = f"{model}{self.group_title()}; {about}"
            # no stars in this table, so that only ties need a legend; "" for none
            tables.append(_tables.latex_table(self._latex_group_grid(), caption, tie_legend))
        return "\n".join(tables) + _latex_comments(self.remarks())

    def _latex_grid(self, loss: str) -> dict[str, list[str]]:
        """The table of one loss as `grid` has it, with two cells for each metric: estimates, and intervals below."""
        columns: dict[str, list[str]] = {name: [] for name in ("metric", *self.scores)}
        for entries in self.rows(loss):  # a row is of one metric, with an entry for each score
            # names of scores, compared by their estimates as `_latex_cells` writes them: digits by the standard error
            best = best_scores(
                entries, lambda entry: _tables.format_estimate(entry.estimate, entry.standard_error)
            )
            columns["metric"] += [entries[0].label, ""]  # the line of the intervals has no label of its own
            for entry in entries:
                star = " *" if entry.score in best else ""
                # two cells: the estimate with its star, and the interval
                columns[entry.score] += _latex_cells(entry, star)
        return columns

    def _latex_group_grid(self) -> dict[str, list[str]]:
        """The table of groups as `group_grid` has it, with two cells for each number; InputError without groups."""
        entries = self.by_group()[: _tables.GROUPS_SHOWN]  # of the first metric, the worst group first
        columns: dict[str, list[str]] = {"group": [], "samples": [], entries[0].label: []}
        risk_of_group = {}
        # the first metric has a column already, whose title is the label of all its entries
        if "risk" in self.metrics[1:]:
            risk_of_group = {entry.group: entry for entry in self.by_group("risk")}
            columns["risk"] = []
        # two lines for each group: the estimate (`_latex_cells` returns both cells), and its interval below
        for entry in entries:
            columns["group"] += [str(entry.group), ""]
            columns["samples"] += [f"{entry.n:,}", ""]
            columns[entry.label] += _latex_cells(entry)
            if risk_of_group:
                columns["risk"] += _latex_cells(risk_of_group[entry.group])
        return columns

    def _repr_html_(self) -> str:
        tables = {f"{loss} loss": self.grid(loss) for loss in self.losses}
        if self.groups:
            tables[self.group_title()] = self.group_grid()
        return _tables.html_page(self._head(), tables, self.remarks())

    def display(
        self, kind: Kind = "curves", *, metric: str = "aurc", loss: str | None = None
    ) -> RiskCoverageDisplay | IntervalDisplay:
        """The numbers behind `plot`: risk-coverage curves, or with kind="intervals" the intervals of one metric.

        Both are of one loss, by default the first, and of all samples, not of groups. Scores have their labels, as the
        figure shows them. `metric` is only read for intervals; scores without a value are left out. Raises InputError
        for another kind, and for a loss or a metric that is not in this table.
        """
        if kind not in ("curves", "intervals"):
            raise InputError(f'Evaluation.plot: `kind` must be "curves" or "intervals", got {kind!r}.')
        loss = loss or self.losses[0]
        entries_of_loss = self.select(loss=loss)  # raises for an unknown loss
        # `style_numbers` (colour, line style) are places of scores in the table: a score looks the same in all figures
        if kind == "curves":
            curves = [(score, line) for score, curve_loss, line in self.curves if curve_loss == loss]
            return RiskCoverageDisplay(
                tuple(replace(line, name=score_words(score)) for score, line in curves),
                _axis_label("selective risk", loss),
                style_numbers=tuple(self.scores.index(score) for score, _ in curves),
            )
        self.select(metric=metric)  # raises for an unknown metric
        entries = [
            entry for entry in entries_of_loss if entry.metric == metric and entry.estimate is not None
        ]
        label = entries[0].label if entries else metric
        names = [score_words(entry.score) for entry in entries]
        style_numbers = [self.scores.index(entry.score) for entry in entries]
        return _bars(entries, names, _axis_label(label, loss), style_numbers=style_numbers)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        kind: Kind = "curves",
        metric: str = "aurc",
        loss: str | None = None,
        size: FigureSize | None = None,
        risk_scale: RiskScale = "linear",
    ) -> Axes:
        """Draw the risk-coverage curves (or kind="intervals": one metric with error bars); returns the axes.

        Draws on `ax`, or on a new figure of this `size` ("column", "page" or inches; None for the screen). Of several
        losses one is drawn, by default the first. `metric` is read for intervals only, and `risk_scale` ("linear" or
        "log") for curves only.
        """
        figure = self.display(kind, metric=metric, loss=loss)
        if isinstance(figure, RiskCoverageDisplay):
            return figure.plot(ax, size=size, risk_scale=risk_scale)
        return figure.plot(ax, size=size)


def worst_first(
    estimate: np.ndarray, low: np.ndarray, high: np.ndarray, *, lower_is_better: bool
) -> np.ndarray:
    """Indices that order groups, the worst first, along the last axis of three arrays of one shape.

    Ordered by the limit of the interval that is closer to good (`low` where lower is better), so that only groups that
    are certainly bad lead; equal limits by the estimate. NaN, a number that is missing, comes last.

    >>> estimate, low = np.array([0.5, 0.2, 0.3]), np.array([0.01, 0.1, 0.2])
    >>> worst_first(estimate, low, estimate, lower_is_better=True).tolist()
    [2, 1, 0]
    """
    if lower_is_better:
        return np.lexsort((-estimate, -low), axis=-1)
    return np.lexsort((estimate, high), axis=-1)


def best_scores(entries: Sequence[Entry], show: Callable[[Entry], str]) -> set[str]:
    """Scores whose value looks best in a row of the table; empty where all values look the same.

    `show` writes an entry's estimate as the table does. Values are compared as written: if two look equal, both are
    marked.
    """
    ranked = _best_first(entries)
    if not ranked or show(ranked[0]) == show(ranked[-1]):
        return set()
    return {entry.score for entry in ranked if show(entry) == show(ranked[0])}


def _best_first(entries: Iterable[Entry]) -> list[Entry]:
    """The entries of one metric that have a value, the best first; equal ones keep their order."""
    defined = [entry for entry in entries if entry.estimate is not None]
    if not defined:
        return []
    higher_is_better = not defined[0].lower_is_better
    return sorted(defined, key=lambda entry: entry.estimate or 0.0, reverse=higher_is_better)


def _axis_label(quantity: str, loss: str) -> str:
    """A quantity with the loss that it is about, for an axis: "AURC (0/1 loss)".

    The loss is left out where the user passed losses without a name.
    """
    if loss in _OWN_LOSSES:
        return quantity
    return f"{quantity} (0/1 loss)" if loss == "zero_one" else f"{quantity} ({loss_words(loss)})"


def _bars(
    records: Sequence[Any],
    names: Sequence[str],
    label: str,
    notes: tuple[str, ...] = (),
    *,
    style_numbers: Sequence[int],
) -> IntervalDisplay:
    """Error bars of entries or contestants, one name and style number (colour, line style) for each.

    `label` is that of the axis; `notes` are written beside the names, one for each or none at all. Records have
    `estimate`, `low` and `high`, of which the limits may be None: then the point has no bar.
    """
    columns = _tables.collect_columns(records, ("estimate", "low", "high"))
    return IntervalDisplay(
        names=tuple(names),
        estimates=tuple(columns["estimate"]),
        low=tuple(columns["low"]),
        high=tuple(columns["high"]),
        label=label,
        notes=notes,
        style_numbers=tuple(style_numbers),
    )


def _unique(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))


def _latex_cells(entry: Entry, star: str = "") -> list[str]:
    """The estimate with its marks, and its interval, as two cells below each other."""
    estimate = _tables.format_estimate(entry.estimate, entry.standard_error)
    limits = _tables.format_limits(entry, separator=", ")
    return [f"{estimate}{entry.mark}{star}", f"[{limits}]" if limits else ""]


def _latex_comments(notes: Iterable[str]) -> str:
    """A line for each note that LaTeX does not print."""
    return "".join(f"% {' '.join(note.split())}\n" for note in notes)


def _in_pieces(grid: dict[str, list[str]]) -> list[str]:
    """The text of a table, which is broken after a few scores."""
    return [_tables.text_table(columns) for columns in _split_columns(grid)]


def _split_columns(grid: dict[str, list[str]], scores_per_piece: int = 4) -> list[dict[str, list[str]]]:
    """Break a wide table after a few scores, and repeat its first column, the metrics, in each piece."""
    metric_column, *scores = grid
    pieces = []
    for start in range(0, len(scores), scores_per_piece):
        columns = (metric_column, *scores[start : start + scores_per_piece])
        pieces.append({name: grid[name] for name in columns})
    return pieces


# the result of `compare` ------------------------------------------------------------------------------

_MOST_DECIMALS = 12  # in the columns of a comparison
_MOST_EXTRA_DECIMALS = 1  # of differences, beyond those of the estimates
_MAX_SENTENCES = 8  # about pairs that cannot be told apart; more are only counted
_MARKS = (
    "Differences are from the first; their intervals and two-sided p-values are corrected for the number of pairs. "
    "Contestants that share a letter cannot be told apart."
)


@dataclass(frozen=True)
class Contestant:
    """One model or score of a comparison.

    Parameters
    ----------
    name : str
        The model or score.
    estimate, standard_error : float
        The metric and its standard error.
    low, high : float or None
        Limits of its interval; None where the samples show no spread, so that there is none.
    n : int
        Number of samples.
    rank_low, rank_high : int
        The tests leave its true rank between these two.
    group : str
        Letters; contestants that share one cannot be told apart.

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
        """The rank as a table shows it: "2", or "1-3" where the tests leave it open."""
        return str(self.rank_low) if self.rank_low == self.rank_high else f"{self.rank_low}-{self.rank_high}"


@dataclass(frozen=True)
class Pair(_tables.Printable):
    """One contestant minus another.

    Parameters
    ----------
    a, b : str
        Names of the contestants.
    difference, standard_error : float
        The metric of `a` minus that of `b`, and its standard error.
    low, high : float
        The interval of the difference, corrected for the number of pairs: it excludes 0 exactly where `p_adjusted` is
        below 1 - level.
    p_value, p_adjusted : float
        Two-sided; of this pair alone, and corrected after Holm for the number of pairs.
    different : bool
        Whether the corrected p-value is below 1 - level.
    samples_needed : int or None
        About how many samples would show the difference with probability 80%, at (1 - level) divided by the number of
        pairs that do not differ yet; None if it shows already.
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
        return self.sentence()

    @property
    def is_equal(self) -> bool:
        """Whether every sample (or cluster) adds the same to the metric of both, so that there is nothing to test."""
        return self.difference == self.standard_error == self.low == self.high == 0

    def sentence(self, level: float = 0.95) -> str:
        """The verdict in words; `level` is that of the comparison, so that no p-value is rounded to its limit.

        `note` says why there is no verdict, such as "rests on about 3.2 effective errors (5 in all): too few to
        compare"; it is empty if there is one.
        """
        names = f"{self.a} and {self.b}"
        if self.is_equal:
            return f"{names} are equal throughout these data by this metric: there is no difference to test"
        p_value = f"(corrected {_tables.p_value_text(self.p_adjusted, level)})"
        if self.note:
            return f"{names}: no verdict, it {self.note}"
        if self.different:
            return f"{names} differ by {self.difference:.3g} {p_value}"
        need = f"; {self.need}" if self.need else ""  # how many samples would show the difference, in words
        return f"{names} cannot be told apart at this n {p_value}{need}"

    @property
    def need(self) -> str:
        """How many samples would show the difference, in words; empty if it shows already or there is no number."""
        if not self.samples_needed:
            return ""
        rounded = int(float(f"{self.samples_needed:.2g}"))  # a rough estimate: two digits at most
        return f"about {rounded:,} samples in all would show this difference in 4 of 5 such comparisons"

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
    """The result of `compare`: contestants, best first, and all pairs.

    Parameters
    ----------
    contestants : tuple of Contestant
        Best first.
    pairs : tuple of Pair
        All of them; p-values are two-sided. P-values and intervals are corrected for the number of pairs.
    metric, label, loss : str
        What the contestants are ranked by.
    lower_is_better : bool
        The direction of the metric.
    level : float
        Confidence level of intervals and tests.
    n : int
        Number of samples.
    paired : bool
        Whether all contestants saw the same samples.
    notes : tuple of str
        For AURC and AUGRC, how accurate the contestants are, and whether their rankings alone differ (by AUROC);
        verdicts that depend on how ties are counted; rankings that are worse than chance.
    planned : int or None
        Planned number of samples, if intervals and p-values hold at every look; None for a single look.
    curves : tuple of CurveLine
        Risk-coverage curves, one per contestant, best first; empty where they were not made: comparisons of answers
        without a confidence, and of data outside memory.
    score : str
        The confidence of all contestants, such as "max_softmax"; empty where they differ in it, or it has no name.
    entered : tuple of str
        The contestants in the order in which they were passed; figures give each the colour of its place in it.
    clusters : tuple of int
        Number of clusters, for each kind of them; empty for independent samples and for different test sets.

    Examples
    --------
    >>> import abstain
    >>> loss, sure = [0, 0, 1, 0, 1, 0, 0, 1], [8, 7, 3, 6, 2, 5, 4, 1]
    >>> comparison = abstain.compare({"good": (loss, sure), "bad": (loss, sure[::-1])})
    >>> comparison.names, len(comparison.pairs)
    (('good', 'bad'), 1)
    """

    _noun: ClassVar[str] = "a comparison"
    _number: ClassVar[int] = 4

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
    planned: int | None = None
    curves: tuple[CurveLine, ...] = ()
    score: str = ""
    entered: tuple[str, ...] = ()
    clusters: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Best first."""
        return tuple(c.name for c in self.contestants)

    @property
    def winners(self) -> tuple[str, ...]:
        """All contestants that may be the best, as far as the tests can tell."""
        return tuple(c.name for c in self.contestants if c.rank_low == 1)

    def __getitem__(self, name: str) -> Contestant:
        """The contestant of that name; InputError, with a suggestion, if there is none."""
        for contestant in self.contestants:
            if contestant.name == name:
                return contestant
        message = f"Comparison: no contestant {name!r}, it has {', '.join(self.names)}."
        raise InputError(f"{message} {suggest_name(name, self.names)}".rstrip())

    def pair(self, a: str, b: str) -> Pair:
        """The difference of two contestants, `a` minus `b`; InputError for a name that is not there."""
        for name in (a, b):
            self[name]  # raises if there is no such contestant
        for pair in self.pairs:
            if {pair.a, pair.b} == {a, b}:
                return pair if pair.a == a else pair.swapped()
        raise InputError(f"Comparison: {a!r} cannot be compared with itself.")

    # ways to show it --------------------------------------------------------------------------------------

    def frame(self, library: str | None = None) -> Any:
        """One row per contestant, best first: its fields, and its difference from the best one (None for the best).

        `library` is "pandas", "polars" or "dict"; by default one that is imported already, or else installed.
        """
        columns = _tables.collect_columns(self.contestants, list(Contestant.__dataclass_fields__))
        pairs = self.from_best()  # of each contestant minus the best one; None for the best
        column_of_field = {  # fields of `Pair`, and the columns that hold them
            "difference": "difference",
            "low": "difference_low",
            "high": "difference_high",
            "p_value": "p_value",
            "p_adjusted": "p_adjusted",
        }
        for field, column in column_of_field.items():
            columns[column] = [None if pair is None else getattr(pair, field) for pair in pairs]
        return _tables.make_frame(columns, library)

    def pairs_frame(self, library: str | None = None) -> Any:
        """One row per pair."""
        return _frame(self.pairs, Pair, library)

    def from_best(self) -> list[Pair | None]:
        """The difference of each contestant from the best one, in the order of the ranking; None for the best."""
        return [None, *(self.pair(name, self.names[0]) for name in self.names[1:])]

    def grid(self) -> dict[str, list[str]]:
        """The ranking as columns of text, best first, with the differences from the best contestant.

        "p" is the p-value corrected for the number of pairs. A dash stands for a missing interval, for the difference
        of the best contestant from itself, and for the p-value of contestants that are equal throughout. The
        numbers of a column have the same decimals.
        """
        contestants = self.contestants
        pairs = self.from_best()  # of each contestant minus the best one; None for the best
        # as many decimals as show two digits of the smallest standard error
        decimals = _decimals_for([contestant.standard_error for contestant in contestants])
        pair_decimals = _decimals_for([pair.standard_error for pair in pairs if pair is not None])
        # a pair that is nearly equal has a tiny standard error, which must not widen the whole column
        pair_decimals = min(pair_decimals, decimals + _MOST_EXTRA_DECIMALS)

        def number(value: float) -> str:
            return _tables.format_fixed(value, decimals)

        def difference(value: float) -> str:
            return _tables.format_fixed(value, pair_decimals)

        limits = [
            "-" if low is None or high is None else f"[{number(low)}, {number(high)}]"
            for low, high in ((contestant.low, contestant.high) for contestant in contestants)
        ]
        differences = []
        p_values = []
        for pair in pairs:
            if pair is None:
                differences.append("-")
                p_values.append("-")
            elif pair.is_equal:
                differences.append(difference(pair.difference))
                p_values.append("-")
            else:
                interval = ""  # where none can be given, such as that of NAURC without any error
                if math.isfinite(pair.low) and math.isfinite(pair.high):
                    interval = f" [{difference(pair.low)}, {difference(pair.high)}]"
                differences.append(difference(pair.difference) + interval)
                p_values.append(_tables.format_p_value(pair.p_adjusted, self.level))
        return {
            # "2", or "1-3" where the tests leave it open
            "rank": [contestant.ranks for contestant in contestants],
            "name": [contestant.name for contestant in contestants],
            self.label: [number(contestant.estimate) for contestant in contestants],
            f"{self.level:.0%} interval": limits,
            "difference": differences,
            "p": p_values,
            # letters, such as "ab": contestants that share one cannot be told apart
            "group": [contestant.group for contestant in contestants],
        }

    def _head(self) -> str:
        samples = "different test sets"
        if self.paired:
            samples = f"the same {self.n} samples{_tables.in_clusters(self.clusters)}"
        direction = "lower is better" if self.lower_is_better else "higher is better"
        correction = f"Holm-corrected at {self.level:.0%}"
        looks = "" if self.planned is None else f", at any time, planned for {self.planned:,}"
        what = f"{self.label} of {self.score}" if self.score else self.label
        return f"Comparison by {what} ({self.loss}, {direction}) on {samples}, {correction}{looks}"

    def sentences(self) -> list[str]:
        """Sentences about pairs that cannot be told apart: at most `_MAX_SENTENCES`, and how many more there are.

        Pairs with the best contestant come first, then neighbours in the ranking; other pairs are only counted.
        """
        best = self.names[0]  # `names` are best first
        best_with_others = [self.pair(best, name) for name in self.names[1:]]
        neighbours = [self.pair(a, b) for a, b in zip(self.names[1:], self.names[2:])]
        undecided = [pair for pair in [*best_with_others, *neighbours] if not pair.different]
        sentences = [pair.sentence(self.level) for pair in undecided[:_MAX_SENTENCES]]
        # `self.pairs` holds all pairs; those that are not shown are only counted
        hidden_count = sum(not pair.different for pair in self.pairs) - len(sentences)
        if hidden_count:
            sentences.append(f"{_tables.count_noun(hidden_count, 'more pair')} cannot be told apart either")
        return sentences

    def __repr__(self) -> str:
        lines = [f"  {sentence}" for sentence in self.sentences()]
        notes = [f"  - {note}" for note in self.notes]
        return "\n".join([self._head(), _tables.text_table(self.grid()), *lines, *notes])

    def to_markdown(self) -> str:
        """The ranking as a Markdown table, with the notes below; those that share a letter cannot be told apart."""
        notes = "".join(f"- {note}\n" for note in self.notes)
        table = f"{self._head()}\n\n{_tables.markdown_table(self.grid())}\n{_MARKS}\n"
        return f"{table}\n{notes}" if notes else table

    def to_latex(self, name: str = "") -> str:
        """The ranking as a LaTeX table (booktabs); the notes are comments behind it.

        `name` is that of the model whose scores are compared, for the caption; empty for several models.
        """
        caption = f"{name}: {self._head()}" if name else self._head()
        return _tables.latex_table(self.grid(), caption, _MARKS) + _latex_comments(self.notes)

    def _repr_html_(self) -> str:
        return _tables.html_page("", {self._head(): self.grid()}, [_MARKS, *self.sentences(), *self.notes])

    def display(
        self, kind: ComparisonKind = "intervals", *, names: Sequence[str] | None = None
    ) -> RiskCoverageDisplay | IntervalDisplay:
        """The numbers behind `plot`.

        Parameters
        ----------
        kind : "intervals", "differences" or "curves"
            Estimates with their intervals and the letters of their groups; differences from the best contestant, with
            intervals that are corrected for the number of pairs; or risk-coverage curves.
        names : sequence of str, optional
            Contestants to show, in any order; by default all. Best first in the figure. With "differences", they are
            from the best of these.

        Raises
        ------
        InputError
            For another kind, a name that is not there, differences of fewer than two, and curves of a comparison that
            has none.
        """
        check_choice("Comparison.plot", "kind", kind, ("intervals", "differences", "curves"))
        # `self[name]` is the contestant, and raises InputError for a name that is not there
        requested_names = set(self.names if names is None else [self[name].name for name in names])
        contestants = [contestant for contestant in self.contestants if contestant.name in requested_names]
        shown_names = [contestant.name for contestant in contestants]
        # By number a contestant gets its colour and dashes: its place in the order in which all were passed to the
        # comparison. Only if two of those shown would look alike, numbers count those shown alone.
        style_numbers = self._style_numbers(shown_names)
        if kind == "intervals":
            letters = tuple(contestant.group for contestant in contestants)
            label = _axis_label(self.label, self.loss)
            return _bars(contestants, shown_names, label, letters, style_numbers=style_numbers)
        if kind == "differences":
            if len(contestants) < 2:
                raise InputError(f"Comparison.plot: a difference needs two contestants, got {shown_names}.")
            best = shown_names[0]
            # name minus best
            differences = [self.pair(name, best) for name in shown_names[1:]]
            return IntervalDisplay(
                names=tuple(shown_names[1:]),
                estimates=tuple(pair.difference for pair in differences),
                low=tuple(pair.low for pair in differences),
                high=tuple(pair.high for pair in differences),
                label=f"{_axis_label(self.label, self.loss)}\nminus that of {best}",  # two lines: names may be long
                reference=0.0,
                style_numbers=tuple(style_numbers[1:]),
            )
        if not self.curves:
            raise InputError(
                "Comparison.plot: this comparison has no curves. Compare samples in memory, or draw "
                '`kind="differences"`.'
            )
        # `self.curves` are best first, as the contestants are
        lines = tuple(line for line in self.curves if line.name in requested_names)
        return RiskCoverageDisplay(
            lines,
            _axis_label("selective risk", self.loss),
            style_numbers=tuple(self._style_numbers([line.name for line in lines])),
        )

    def _style_numbers(self, shown_names: Sequence[str]) -> list[int]:
        """The numbers of the contestants' colours and dashes: their places in the order of the input.

        They are the same in all figures, unless two that are shown together would look alike: then only those that are
        shown are counted.
        """
        entered = self.entered or self.names
        return distinct_numbers([entered.index(name) for name in shown_names])

    def plot(
        self,
        ax: Axes | None = None,
        *,
        kind: ComparisonKind = "intervals",
        names: Sequence[str] | None = None,
        size: FigureSize | None = None,
        risk_scale: RiskScale = "linear",
    ) -> Axes:
        """Draw estimates with intervals, differences from the best contestant, or curves; returns the axes.

        Draws on `ax`, or on a new figure of this `size` ("column", "page" or inches; None for the screen). `kind` is
        "intervals", "differences" or "curves"; `names` are the contestants to show (None: all). The best is on top, its
        group's letters beside the name: contestants that share a letter cannot be told apart. `risk_scale` ("linear" or
        "log") is read for curves only.
        """
        figure = self.display(kind, names=names)
        if isinstance(figure, RiskCoverageDisplay):
            return figure.plot(ax, size=size, risk_scale=risk_scale)
        return figure.plot(ax, size=size)

    def plot_panels(
        self,
        *,
        names: Sequence[str] | None = None,
        size: FigureSize | None = "page",
        risk_scale: RiskScale = "linear",
    ) -> tuple[Axes, Axes]:
        """Draw a figure with two panels: (a) risk-coverage curves, (b) differences from the best contestant.

        The panels are side by side, or below each other with size="column" and where the figure is higher than wide.

        Parameters
        ----------
        names : sequence of str, optional
            Contestants to show; by default the five best, which is as many as differ by colour and by dashes.
        size : "page", "column" or (width, height) in inches, optional
            "page" is as wide as the page of a journal; None is a figure for the screen.
        risk_scale : "linear" or "log"
            Of the vertical axis of the curves; "log" where risks span decades.

        Returns
        -------
        two matplotlib axes
            The left (or upper) and the right (or lower) panel, of one figure. `abstain.display.save_figure` writes it.
        """
        panel_names = self.names[:MOST_DISTINCT_LINES] if names is None else tuple(names)
        curves = self.display("curves", names=panel_names)
        differences = self.display("differences", names=panel_names)
        assert isinstance(curves, RiskCoverageDisplay)
        assert isinstance(differences, IntervalDisplay)
        width, height = figure_inches(size, width=None, height=None)
        stacked = size == "column" or height > width
        # labels broken into lines that fit beside the panel, and the height in inches that they need; 0.45 is the share
        # of the right panel by `relative_widths` below
        layout = differences.layout(size, panel_width=width if stacked else 0.45 * width)
        if stacked:
            heights = (_CURVE_PANEL_HEIGHT, layout.height)  # inches
            curve_panel, difference_panel = make_panels(
                2, size=size, height=sum(heights), ratios=heights, stacked=True
            )
        else:
            relative_widths = (1.2, 1.0)
            curve_panel, difference_panel = make_panels(2, size=size, ratios=relative_widths)
        curves.plot(curve_panel, risk_scale=risk_scale)
        differences.draw(difference_panel, layout.row_labels, layout.axis_label)
        for letter, panel in (("a", curve_panel), ("b", difference_panel)):
            panel.set_title(f"({letter})", loc="left", fontsize=panel.xaxis.label.get_fontsize())
        # may make the figure higher, unless the user gave its height or it is for the screen
        fit_text([curve_panel, difference_panel], may_grow=isinstance(size, str))
        return curve_panel, difference_panel


def _decimals_for(standard_errors: Sequence[float]) -> int:
    """Decimals that show two digits of the smallest standard error above 0; four if there is none."""
    positive = [error for error in standard_errors if 0 < error < math.inf]
    if not positive:
        return 4
    return min(_MOST_DECIMALS, max(0, 1 - math.floor(math.log10(min(positive)))))


def _frame(records: Sequence[Any], kind: Any, library: str | None) -> Any:
    return _tables.make_frame(_tables.collect_columns(records, list(kind.__dataclass_fields__)), library)


# the result of `expected_aurc` ------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ExpectedAURC(Stored, _tables.Notebook):
    """The result of `expected_aurc`: the mean over members, and what averaging their predictions gains.

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
        Their mean; its interval includes both errors below.
    error_members, error_data : float
        Standard errors of the mean: from drawing other members, and from drawing other samples.
    averaged, gain : Interval or None
        The averaged prediction, and the mean minus it (positive when averaging helps), a paired difference over the
        samples for these members.
    curves : tuple of CurveLine
        Risk-coverage curves for `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> import abstain
    >>> logits = np.random.default_rng(0).normal(size=(3, 50, 4))  # three members
    >>> ensemble = abstain.evaluation.expected_aurc(logits, np.arange(50) % 4)
    >>> len(ensemble.members), bool(min(ensemble.members) < ensemble.mean.estimate < max(ensemble.members))
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

    def _intervals(self) -> dict[str, Interval]:
        """The intervals that there are, by name: the averaged prediction and the gain may be missing."""
        named = {"mean": self.mean, "averaged": self.averaged, "gain": self.gain}
        return {name: interval for name, interval in named.items() if interval is not None}

    def __repr__(self) -> str:
        texts = {"averaged": "not given"}  # replaced below if there is an averaged prediction
        for name, interval in self._intervals().items():
            texts[name] = f"{interval.estimate:.4g} [{interval.low:.4g}, {interval.high:.4g}]"
        errors = f"{self.error_members:.2g} over members, {self.error_data:.2g} over data"
        lines = [f"  members   {texts.pop('mean')}, standard error {errors}"]
        lines += [f"  {name:<9} {text}" for name, text in texts.items()]
        head = f"Expected {self.label} of {len(self.members)} members, {self.n} samples ({self.loss})"
        return "\n".join([head, *lines])

    def frame(self, library: str | None = None) -> Any:
        """One row per member, then the mean, the averaged predictor and the gain; members have an estimate only."""
        intervals = self._intervals()
        member_names = [f"member {place}" for place in range(len(self.members))]
        columns: dict[str, list[Any]] = {"name": [*member_names, *intervals]}
        fields = ("estimate", "standard_error", "low", "high")
        for field, column in _tables.collect_columns(list(intervals.values()), fields).items():
            member_values = self.members if field == "estimate" else [None] * len(self.members)
            columns[field] = [*member_values, *column]
        return _tables.make_frame(columns, library)

    def display(self) -> RiskCoverageDisplay:
        """The curves behind `plot`: the members' mean selective risk at each coverage, and the averaged one."""
        return RiskCoverageDisplay(self.curves, _axis_label("selective risk", self.loss))

    def plot(
        self,
        ax: Axes | None = None,
        *,
        size: FigureSize | None = None,
        risk_scale: RiskScale = "linear",
    ) -> Axes:
        """Draw the members' mean curve and the averaged predictor's; returns the axes.

        Draws on `ax`, or on a new figure of this `size` ("column", "page" or inches; None for the screen).
        `risk_scale="log"` is for risks that span decades.
        """
        return self.display().plot(ax, size=size, risk_scale=risk_scale)
