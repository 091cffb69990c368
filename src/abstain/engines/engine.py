"""The functions that every engine offers: `evaluate`, single numbers, the curve and `compare`, with one vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Unpack

from abstain._check import check_fraction, check_risk
from abstain.core.area_estimators import Estimator, Ties
from abstain.display import CurveLine
from abstain.engines.finish import NO_SPREAD, Answer, Ask, PairQuestion, ask_for
from abstain.engines.read import ColumnOptions, Fields, question, questions
from abstain.errors import InputError
from abstain.evaluation.results import Comparison, Entry, Evaluation
from abstain.evaluation.table import MISSING, Key, evaluation_of, metrics_for
from abstain.evaluation.vectors import listed
from abstain.metrics._sample import Grouped
from abstain.metrics.definitions import AURC, METRICS, by_name
from abstain.metrics.metric import Metric, PointMetric
from abstain.metrics.points import RiskCoverageCurve

FUNCTIONS = ["augrc", "aurc", "compare", "coverage_at_risk", "e_aurc", "evaluate", "naurc"]
FUNCTIONS += ["risk", "risk_at_coverage", "risk_coverage_curve"]
_POINTS = 400  # of the curve that an evaluation shows


class EngineOptions(ColumnOptions, total=False):
    """Columns, and what an engine may take: files memory, spill and resume, Dask a client, Spark a session."""

    memory: str | float
    spill: str | None
    resume: str | None
    client: Any
    session: Any
    progress: bool | None


@dataclass(frozen=True)
class Engine:
    """The functions of every engine, from the two that differ.

    Parameters
    ----------
    name : str
        What it is called in messages.
    answers, compared : callables
        `answers(name, data, fields, ask, **means)` gives the answer for each group (None: all samples),
        `compared(question, data, **means)` a comparison.
    means : names
        Options of `answers`.
    pair_means : names
        Options of `compared`.
    """

    name: str
    answers: Callable[..., Mapping[Any, Answer]]
    compared: Callable[..., Comparison]
    means: tuple[str, ...]
    pair_means: tuple[str, ...]

    def _asked(self, function: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """The name for messages, the columns, and the engine's own options."""
        given = {key: value for key, value in options.items() if value is not None}
        means = {key: given.pop(key) for key in self.means if key in given}
        return f"{self.name}.{function}", given, means

    def _value(
        self, function: str, data: Any, options: Mapping[str, Any], metric: Metric, **more: str
    ) -> float | Grouped:
        """One number, or one for each group; an area by the shortest way: sort and add up."""
        name, columns, means = self._asked(function, options)
        metric = metric.with_checked_options(name, more)
        ask = ask_for(name, [metric], alone=not isinstance(metric, PointMetric))
        fields = question(name, columns)
        found = self.answers(name, data, fields, ask, **means)
        is_zero_one = all(answer.total.zero_one for answer in found.values())
        if metric.needs.risk_within_losses and is_zero_one:
            check_risk(name, metric.option_values["risk"])
        if not fields.group:
            return found[None].value(metric)
        values = {group: found[group].value(metric) for group in in_order(found)}
        counts = {group: found[group].total.n for group in values}
        return Grouped(function, values, counts, metric.lower_is_better)

    def evaluate(
        self, data: Any, /, *, metrics: Any = None, level: float = 0.95, **options: Unpack[EngineOptions]
    ) -> Evaluation:
        """Every metric with its interval, and the curve, exactly, of data that stay where they are.

        Parameters
        ----------
        data
            What the engine reads. All: a file, a folder, a glob or a list of Parquet, Arrow (feather, ipc) or CSV
            files (Spark: Parquet or CSV), which every worker can read. Dask: also a Dask DataFrame, or futures of
            pandas frames or Arrow tables. Spark: also a DataFrame.
        metrics : names, "all", optional
            As in `abstain.evaluate`: "aurc", "aurc:loo", "risk_at_coverage@0.9".
        level : float
            Of the intervals.
        **options
            Columns: `confidence`, `loss` (called so unless said), `sample_weight` (relative weights, or with
            `repetitions=True` numbers of repetitions), `groups`; `correct` names a column
            of 1 (right) and 0 in place of the losses. Instead of both: `labels` and `logits` (columns, or one column
            of lists, "logits" unless said), with `scores` (names of `abstain.scores`, "max_softmax") and `losses` (of
            `abstain.losses`, "zero_one"). Dask and Spark take at most 2,000 groups: their answers come to one process.
            Files: `memory`, the budget of this process ("1GB"); `spill`, a folder for intermediate data (as large as
            the columns read), removed afterwards, also after an error; `resume`, a folder that keeps them when the
            work is interrupted, so that the same call takes it up again.
            Dask: `client`, a Client or an address; otherwise the current one, or a local cluster for this call.
            Spark: `session`, needed to read a path when none is active.
            `progress`: show how far the work is; by default on a terminal, when it is long.

        Returns
        -------
        Evaluation
            The table that `abstain.evaluate` gives for samples in memory, groups as entries of their own.

        Examples
        --------
        `predictions` is a file with the losses 0, 0, 1 at the confidences 0.9, 0.8, 0.7.

        >>> from abstain.engines import files
        >>> files.evaluate(predictions, metrics=["aurc"])["confidence", "loss", "aurc"].estimate
        0.1111111111111111
        """
        name, columns, means = self._asked("evaluate", options)
        level = check_fraction(name, "level", level, open_high=True)
        wanted = None if metrics is None else [by_name(m) for m in listed(metrics, (), tuple(METRICS))]
        ask = ask_for(name, metrics_for(None, True) if wanted is None else wanted, level)
        found: dict[Key, Answer] = {}
        curves: list[tuple[str, str, CurveLine]] = []
        for fields in questions(name, columns):
            names = (fields.confidence, fields.loss)
            alone = replace(fields, group=None)
            whole = self.answers(name, data, alone, replace(ask, curve=_POINTS), **means)[None]
            found[*names, None] = whole
            curves.append((*names, whole.line(names[0])))
            parts = self.answers(name, data, fields, ask, **means) if fields.group else {}
            found |= {(*names, MISSING if g is None else g): parts[g] for g in in_order(parts)}
        table = evaluation_of(
            {key: answer.evidence for key, answer in found.items()},
            metrics=wanted,
            level=level,
            curves=curves,
            from_samples=lambda key, metric: found[key].measured(metric),
        )
        return replace(table, entries=tuple(_with_reason(entry, found) for entry in table.entries))

    def aurc(
        self,
        data: Any,
        /,
        *,
        estimator: Estimator = "harmonic",
        ties: Ties = "threshold",
        **options: Unpack[EngineOptions],
    ) -> float | Grouped:
        """Area under the risk-coverage curve; lower is better.

        Parameters
        ----------
        data, **options
            As in `evaluate`.
        estimator, ties : str
            As in `abstain.aurc`.

        Returns
        -------
        float or Grouped

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.aurc(predictions)  # losses 0, 0, 1 at the confidences 0.9, 0.8, 0.7
        0.1111111111111111
        """
        return self._value("aurc", data, options, METRICS["aurc"], estimator=estimator, ties=ties)

    def augrc(
        self, data: Any, /, *, ties: Ties = "threshold", **options: Unpack[EngineOptions]
    ) -> float | Grouped:
        """Area under the generalised risk-coverage curve, by the mean rule; lower is better.

        Parameters
        ----------
        data, **options
            As in `evaluate`.
        ties : str
            As in `abstain.augrc`.

        Returns
        -------
        float or Grouped

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.augrc(predictions)  # losses 0, 0, 1 at the confidences 0.9, 0.8, 0.7
        0.1111111111111111
        """
        return self._value("augrc", data, options, METRICS["aurc"], estimator="sele", ties=ties)

    def e_aurc(
        self, data: Any, /, *, estimator: Estimator = "harmonic", **options: Unpack[EngineOptions]
    ) -> float | Grouped:
        """Excess AURC over the best ordering of the same losses; lower is better.

        Parameters
        ----------
        data, **options
            As in `evaluate`.
        estimator : str
            As in `abstain.e_aurc`.

        Returns
        -------
        float or Grouped

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.e_aurc(predictions)  # losses 0, 0, 1 at the confidences 0.9, 0.8, 0.7
        0.0
        """
        return self._value("e_aurc", data, options, METRICS["e_aurc"], estimator=estimator)

    def naurc(
        self, data: Any, /, *, estimator: Estimator = "harmonic", **options: Unpack[EngineOptions]
    ) -> float | Grouped:
        """Normalised AURC: 0 for the best ordering, 1 for a useless confidence; lower is better.

        Parameters
        ----------
        data, **options
            As in `evaluate`.
        estimator : str
            As in `abstain.naurc`.

        Returns
        -------
        float or Grouped

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.naurc(predictions)  # losses 0, 0, 1 at the confidences 0.9, 0.8, 0.7
        0.0
        """
        return self._value("naurc", data, options, METRICS["naurc"], estimator=estimator)

    def risk(self, data: Any, /, **options: Unpack[EngineOptions]) -> float | Grouped:
        """Mean loss; lower is better.

        Parameters
        ----------
        data, **options
            As in `evaluate`.

        Returns
        -------
        float or Grouped

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.risk(predictions)  # losses 0, 0, 1
        0.3333333333333333
        """
        return self._value("risk", data, options, METRICS["risk"])

    def risk_at_coverage(
        self, data: Any, /, *, coverage: float, **options: Unpack[EngineOptions]
    ) -> float | Grouped:
        """Selective risk at the least attainable coverage that is at least `coverage`; lower is better.

        Parameters
        ----------
        data, **options
            As in `evaluate`.
        coverage : float
            In (0, 1].

        Returns
        -------
        float or Grouped

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.risk_at_coverage(predictions, coverage=0.5)  # two of three are accepted
        0.0
        """
        return self._value("risk_at_coverage", data, options, by_name(f"risk_at_coverage@{coverage!r}"))

    def coverage_at_risk(
        self, data: Any, /, *, risk: float, **options: Unpack[EngineOptions]
    ) -> float | Grouped:
        """Largest coverage whose selective risk is at most `risk`, 0 when no threshold does it; higher is better.

        Parameters
        ----------
        data, **options
            As in `evaluate`.
        risk : float
            At least 0.

        Returns
        -------
        float or Grouped

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.coverage_at_risk(predictions, risk=0.2)  # two of three are accepted
        0.6666666666666666
        """
        return self._value("coverage_at_risk", data, options, by_name(f"coverage_at_risk@{risk!r}"))

    def risk_coverage_curve(
        self, data: Any, /, *, points: int = 1000, **options: Unpack[EngineOptions]
    ) -> RiskCoverageCurve | dict[Any, RiskCoverageCurve]:
        """The risk-coverage curve in about `points` exact points, evenly spaced in coverage.

        Parameters
        ----------
        data, **options
            As in `evaluate`.
        points : int
            About how many; Dask and Spark take 200,000 over all groups.

        Returns
        -------
        RiskCoverageCurve, or a dict of them by group

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.risk_coverage_curve(predictions).risk.round(3).tolist()  # losses 0, 0, 1
        [0.0, 0.0, 0.333]
        """
        name, columns, means = self._asked("risk_coverage_curve", options)
        fields = question(name, columns)
        found = self.answers(name, data, fields, Ask(curve=int(points), thresholds=True), **means)
        return {g: found[g].points() for g in in_order(found)} if fields.group else found[None].points()

    def compare(
        self,
        data: Any,
        /,
        *,
        first: tuple[str, str],
        second: tuple[str, str],
        names: tuple[str, str] = ("first", "second"),
        estimator: Estimator = "harmonic",
        ties: Ties = "threshold",
        level: float = 0.95,
        sample_weight: str | None = None,
        repetitions: bool = False,
        **means: Any,
    ) -> Comparison:
        """Is the first model's AURC lower than the second's on the same samples?

        Parameters
        ----------
        data
            As in `evaluate`, with the columns of both models.
        first, second : (str, str)
            The columns (confidence, loss) of each model.
        names : (str, str)
            What the models are called in the answer.
        estimator, ties : str
            As in `abstain.aurc`.
        level : float
            Of the intervals.
        sample_weight : str, optional
            A column of relative weights.
        repetitions : bool
            Are the weights numbers of repetitions?
        **means
            As in `evaluate`, but for `resume`. Files: also `other`, files that hold the second model's columns, sample
            by sample in the same order, and `ids`, the column that must agree row by row (found by its name where it is
            not stated); intermediate data takes about 40 bytes for each sample.

        Returns
        -------
        Comparison
            As of `abstain.compare`: both areas with their intervals, their difference with interval and p-value.

        Examples
        --------
        >>> from abstain.engines import files
        >>> both = ("confidence", "loss")
        >>> files.compare(predictions, first=both, second=both).pair("first", "second").p_value
        1.0
        """
        name = f"{self.name}.compare"
        for given in (first, second):
            if isinstance(given, str) or len(given) != 2:
                raise InputError(
                    f"{name}: `first` and `second` must each name two columns, (confidence, loss), got {given!r}."
                )
        for unknown in sorted(set(means) - set(self.pair_means)):
            raise TypeError(f"{name}() got an unexpected keyword argument {unknown!r}")
        a, b = (
            Fields(confidence, loss, sample_weight, repetitions=repetitions)
            for confidence, loss in (first, second)
        )
        options = {"estimator": estimator, "ties": ties}
        AURC.with_checked_options(name, options)
        defaults = AURC.option_values
        changed = {option: value for option, value in options.items() if value != defaults[option]}
        metric = AURC.with_checked_options(name, changed)
        ask = ask_for(name, [metric], check_fraction(name, "level", level, open_high=True))
        pair = PairQuestion(name, replace(a, also=tuple(second)), b, names, metric, replace(ask, paired=True))
        return self.compared(pair, data, **{key: value for key, value in means.items() if value is not None})

    def on(self, **means: Any) -> Callable[..., Evaluation]:
        """The function that `abstain.evaluate(data, engine=...)` calls, with these means."""

        def evaluation(*, logits: Any = None, **given: Any) -> Evaluation:
            if logits is None:
                raise InputError("evaluate: give the data first, e.g. `evaluate('folder', engine='files')`.")
            for refused in ("probs", "abstained", "clusters"):
                if given.get(refused) is not None:
                    raise InputError(f"evaluate: engines do not take `{refused}` yet. Evaluate it in memory.")
            return self.evaluate(logits, **means, **given)

        return evaluation


def _with_reason(entry: Entry, found: Mapping[Key, Answer]) -> Entry:
    graded = not found[entry.score, entry.loss, entry.group].total.in_error_units().zero_one
    by_loss = by_name(entry.metric).needs.order_by_loss
    return replace(entry, reason=NO_SPREAD) if graded and by_loss and entry.low is None else entry


def in_order(names: Iterable[Any]) -> list[Any]:
    """Groups by name, the missing one last, whatever partition they were first met in."""
    return sorted(names, key=lambda name: (name is None, name))
