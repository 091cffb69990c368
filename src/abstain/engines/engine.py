"""The functions that every engine offers: `evaluate`, single numbers, the curve and `compare`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Unpack

from abstain._check import check_count, check_fraction, check_risk
from abstain.core.area_estimators import Estimator, Ties
from abstain.display import CurveLine
from abstain.engines.finish import REASON_FOR_NO_INTERVAL, Answer, EngineRequest, make_request
from abstain.engines.paired import PairRequest
from abstain.engines.read import ColumnOptions, Fields, parse_columns, parse_one_pair
from abstain.errors import InputError
from abstain.evaluation.results import MISSING, Comparison, Entry, Evaluation
from abstain.evaluation.table import Key, evaluation_of, metrics_for
from abstain.evaluation.vectors import expand_names
from abstain.metrics._sample import Grouped
from abstain.metrics.definitions import AURC, METRICS, by_name
from abstain.metrics.metric import Metric, PointMetric
from abstain.metrics.points import RiskCoverageCurve

FUNCTIONS = [
    "augrc",
    "aurc",
    "compare",
    "coverage_at_risk",
    "e_aurc",
    "evaluate",
    "naurc",
    "risk",
    "risk_at_coverage",
    "risk_coverage_curve",
]
_CURVE_POINTS = 400  # of the curve that an evaluation shows


class EngineOptions(ColumnOptions, total=False):
    """Columns, and options of an engine: files memory, spill and resume, Dask a client, Spark a session."""

    memory: str | float
    spill: str | None
    resume: str | None
    client: Any
    session: Any
    progress: bool | None


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The functions that every engine offers, made from the two in which engines differ.

    Parameters
    ----------
    name : str
        What it is called in messages.
    answer : callable
        `answer(function, data, fields, request, **options)` returns the answer for each group (None: all samples).
    compare_pair : callable
        `compare_pair(pair_request, data, **options)` returns a comparison of two models.
    options, pair_options : names
        The keyword options of `answer` and of `compare_pair`.
    """

    name: str
    answer: Callable[..., Mapping[Any, Answer]]
    compare_pair: Callable[..., Comparison]
    options: tuple[str, ...]
    pair_options: tuple[str, ...]

    def _separate_options(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Separate keyword arguments, without those that are None, into columns and the engine's options."""
        columns = {name: value for name, value in arguments.items() if value is not None}
        engine_options = {name: columns.pop(name) for name in self.options if name in columns}
        return columns, engine_options

    def _estimate(
        self,
        function: str,
        data: Any,
        arguments: Mapping[str, Any],
        metric: Metric,
        **metric_options: str,
    ) -> float | Grouped:
        """The estimate of one metric, or one for each group, without error bar.

        Parameters
        ----------
        function : str
            Name of the public function, such as "aurc"; in errors it follows that of the engine: "files.aurc".
        data
            What the engine reads: files or, by Dask and Spark, also a frame.
        arguments
            The user's keyword arguments, None where not passed: columns and options of the engine.
        metric, **metric_options
            The metric, and options of it to check and set, such as `estimator`.

        Raises
        ------
        InputError
            The target risk of `coverage_at_risk` is above 1, though all losses are 0/1.
        """
        full_name = f"{self.name}.{function}"
        # by name, without those that are None: names of columns, and options of the engine such as `memory`
        columns, engine_options = self._separate_options(arguments)
        # the same metric with these options; raises for an unknown option or value
        metric = metric.with_checked_options(full_name, metric_options)
        # An area without error bar is found by sorting and adding up alone. A `PointMetric`, such as the risk at a
        # coverage, is read from its interval, so its error bar is computed too.
        request = make_request([metric], estimate_only=not isinstance(metric, PointMetric))
        # names of the columns to read; raises for unknown arguments, and for more than one pair of score and loss
        fields = parse_one_pair(full_name, columns)
        # by group; without a column of groups all samples are the group None
        answers = self.answer(full_name, data, fields, request, **engine_options)
        is_zero_one = all(answer.totals.zero_one for answer in answers.values())
        # True for `coverage_at_risk`: for 0/1 losses a target risk above 1 is a mistake, perhaps a percentage
        if metric.needs.risk_within_losses and is_zero_one:
            check_risk(full_name, metric.option_values["risk"])
        if not fields.group:
            return answers[None].value(metric)
        values = {group: answers[group].value(metric) for group in sort_groups(answers)}
        sample_counts = {group: answers[group].totals.sample_count for group in values}
        return Grouped(
            metric=function, values=values, counts=sample_counts, lower_is_better=metric.lower_is_better
        )

    def evaluate(
        self, data: Any, /, *, metrics: Any = None, level: float = 0.95, **options: Unpack[EngineOptions]
    ) -> Evaluation:
        """Exact metrics with their intervals, and the curve, of data that stay where they are.

        Parameters
        ----------
        data
            What the engine reads. All: a file, a folder, a glob or a list of Parquet, Arrow (feather, ipc) or CSV
            files (Spark: Parquet or CSV), which every worker can read. Dask: also a Dask DataFrame, or futures of
            pandas frames or Arrow tables. Spark: also a DataFrame.
        metrics : names, metrics, "all", optional
            As in `abstain.evaluate`: "aurc", "aurc:loo", "risk_at_coverage@0.9", or a `Metric` of your own. That needs
            the table of distinct confidences in the memory of one process, about 100 bytes each.
        level : float
            Confidence level of the intervals.
        **options
            Columns: `confidence` and `loss` (default: columns of these names), `sample_weight` (relative weights, or
            with `repetitions=True` numbers of repetitions), `groups`. `correct` names a column of 1 (right) and 0
            instead of the losses. Instead of confidence and loss: `labels` and `logits` (columns, or one column of
            lists, by default "logits"), with `scores` (names of `abstain.scores`, by default "max_softmax") and
            `losses` (of `abstain.losses`, by default "zero_one"). `confidence` may also be a `LearnedConfidence`: its
            inputs are read from the columns of their names, and logits from those of `logits`. Whether the inputs are
            distributed as in learning is not checked here. Dask and Spark take at most 2,000 groups, because
            the results of all come to one process.
            Files: `memory`, the budget of this process ("1GB"); `spill`, a folder for intermediate data (as large as
            the columns read), removed afterwards, also after an error; `resume`, a folder that keeps them when the
            work is interrupted, so that the same call goes on where it stopped.
            Dask: `client`, a Client or an address; otherwise the current one, or a local cluster for this call.
            Spark: `session`, needed to read a path when none is active.
            `progress`: show a progress bar; by default for long work on a terminal.

        Returns
        -------
        Evaluation
            The table that `abstain.evaluate` returns for samples in memory, with entries for each group.

        Examples
        --------
        `predictions` is a file with the losses 0, 0, 1 at the confidences 0.9, 0.8, 0.7.

        >>> from abstain.engines import files
        >>> files.evaluate(predictions, metrics=["aurc"])["aurc"].estimate
        0.1111111111111111
        """
        function = f"{self.name}.evaluate"
        columns, engine_options = self._separate_options(options)
        level = check_fraction(function, "level", level, open_high=True)
        requested_metrics = None
        if metrics is not None:
            metric_names = expand_names(metrics, default=(), all_names=tuple(METRICS))
            requested_metrics = [by_name(metric) for metric in metric_names]
        # the kind of the losses is not known yet; the default for 0/1 losses includes that for others
        request = make_request(requested_metrics or metrics_for(None, zero_one=True), level)
        answers: dict[Key, Answer] = {}
        curves: list[tuple[str, str, CurveLine]] = []
        for fields in parse_columns(function, columns):
            score = fields.confidence
            loss = fields.loss
            ungrouped = replace(fields, group=None)
            with_curve = replace(request, curve_points=_CURVE_POINTS)
            whole = self.answer(function, data, ungrouped, with_curve, **engine_options)[None]
            answers[score, loss, None] = whole
            curves.append((score, loss, whole.line(score)))
            if fields.group:
                by_group = self.answer(function, data, fields, request, **engine_options)
                for group in sort_groups(by_group):
                    answers[score, loss, MISSING if group is None else group] = by_group[group]
        table = evaluation_of(
            {key: answer.evidence for key, answer in answers.items()},
            metrics=requested_metrics,
            level=level,
            curves=curves,
            from_samples=lambda key, metric: answers[key].interval_beyond_evidence(metric),
        )
        default_metrics = [*metrics_for(None, zero_one=True), *metrics_for(None, zero_one=False)]
        shown_metrics = requested_metrics or default_metrics
        metric_of_key = {metric.key: metric for metric in shown_metrics}
        entries = [
            _explain_missing_interval(entry, metric_of_key[entry.metric], answers) for entry in table.entries
        ]
        return replace(table, entries=tuple(entries))

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
            The data (a file, a folder, a glob or a list of files; Dask and Spark: also a frame), and the options that
            name its columns and the resources to use; `evaluate` lists them all.
        estimator : str
            The rank weights of the losses. "harmonic" is the classical empirical AURC, "loo" the least biased; "log",
            "sele" and "2sele" are others.
        ties : str
            "threshold": equal confidences are accepted together; "expected": one by one, the mean over their orders.

        Returns
        -------
        float or Grouped
            With `groups`, the metric within each group, by label.

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.aurc(predictions)  # losses 0, 0, 1 at the confidences 0.9, 0.8, 0.7
        0.1111111111111111
        """
        # checks the options, reads the data, and returns one number or one for each group
        return self._estimate(
            function="aurc", data=data, arguments=options, metric=AURC, estimator=estimator, ties=ties
        )

    def augrc(
        self, data: Any, /, *, ties: Ties = "threshold", **options: Unpack[EngineOptions]
    ) -> float | Grouped:
        """Area under the generalised risk-coverage curve, by the mean rule; lower is better.

        The generalised risk is the accepted loss per sample of the whole set, and the mean rule is its mean over all
        samples, with the threshold at each in turn.

        Parameters
        ----------
        data, **options
            The data (a file, a folder, a glob or a list of files; Dask and Spark: also a frame), and the options that
            name its columns and the resources to use; `evaluate` lists them all.
        ties : str
            "threshold": equal confidences are accepted together; "expected": one by one, the mean over their orders.

        Returns
        -------
        float or Grouped
            With `groups`, the metric within each group, by label.

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.augrc(predictions)  # losses 0, 0, 1 at the confidences 0.9, 0.8, 0.7
        0.1111111111111111
        """
        # The AUGRC is the AURC by the mean rule, estimator "sele". It is requested so because a request takes its
        # estimator from the option `estimator`, which the metric "augrc" does not have.
        return self._estimate(
            function="augrc", data=data, arguments=options, metric=AURC, estimator="sele", ties=ties
        )

    def e_aurc(
        self, data: Any, /, *, estimator: Estimator = "harmonic", **options: Unpack[EngineOptions]
    ) -> float | Grouped:
        """Excess AURC over the best ordering of the same losses; lower is better.

        Parameters
        ----------
        data, **options
            The data (a file, a folder, a glob or a list of files; Dask and Spark: also a frame), and the options that
            name its columns and the resources to use; `evaluate` lists them all.
        estimator : str
            The rank weights of the losses. "harmonic" is the classical empirical AURC, "loo" the least biased; "log",
            "sele" and "2sele" are others.

        Returns
        -------
        float or Grouped
            With `groups`, the metric within each group, by label.

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.e_aurc(predictions)  # losses 0, 0, 1 at the confidences 0.9, 0.8, 0.7
        0.0
        """
        # checks the options, reads the data, and returns one number or one for each group
        return self._estimate(
            function="e_aurc", data=data, arguments=options, metric=METRICS["e_aurc"], estimator=estimator
        )

    def naurc(
        self, data: Any, /, *, estimator: Estimator = "harmonic", **options: Unpack[EngineOptions]
    ) -> float | Grouped:
        """Normalised AURC: 0 for the best ordering, 1 for a useless confidence; lower is better.

        Parameters
        ----------
        data, **options
            The data (a file, a folder, a glob or a list of files; Dask and Spark: also a frame), and the options that
            name its columns and the resources to use; `evaluate` lists them all.
        estimator : str
            The rank weights of the losses. "harmonic" is the classical empirical AURC, "loo" the least biased; "log",
            "sele" and "2sele" are others.

        Returns
        -------
        float or Grouped
            With `groups`, the metric within each group, by label.

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.naurc(predictions)  # losses 0, 0, 1 at the confidences 0.9, 0.8, 0.7
        0.0
        """
        # checks the options, reads the data, and returns one number or one for each group
        return self._estimate(
            function="naurc", data=data, arguments=options, metric=METRICS["naurc"], estimator=estimator
        )

    def risk(self, data: Any, /, **options: Unpack[EngineOptions]) -> float | Grouped:
        """Mean loss; lower is better.

        Parameters
        ----------
        data, **options
            The data (a file, a folder, a glob or a list of files; Dask and Spark: also a frame), and the options that
            name its columns and the resources to use; `evaluate` lists them all.

        Returns
        -------
        float or Grouped
            With `groups`, the metric within each group, by label.

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.risk(predictions)  # losses 0, 0, 1
        0.3333333333333333
        """
        # checks the options, reads the data, and returns one number or one for each group
        return self._estimate(function="risk", data=data, arguments=options, metric=METRICS["risk"])

    def risk_at_coverage(
        self, data: Any, /, *, coverage: float, **options: Unpack[EngineOptions]
    ) -> float | Grouped:
        """Selective risk at the least attainable coverage that is at least `coverage`; lower is better.

        Parameters
        ----------
        data, **options
            The data (a file, a folder, a glob or a list of files; Dask and Spark: also a frame), and the options that
            name its columns and the resources to use; `evaluate` lists them all.
        coverage : float
            Between 0 (excluded) and 1.

        Returns
        -------
        float or Grouped
            With `groups`, the metric within each group, by label.

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.risk_at_coverage(predictions, coverage=0.5)  # two of three are accepted
        0.0
        """
        # a metric's name may end in its option; `by_name` raises InputError for a coverage out of range
        metric = by_name(f"risk_at_coverage@{coverage}")
        return self._estimate(function="risk_at_coverage", data=data, arguments=options, metric=metric)

    def coverage_at_risk(
        self, data: Any, /, *, risk: float, **options: Unpack[EngineOptions]
    ) -> float | Grouped:
        """Largest coverage whose selective risk is at most `risk`, 0 when no threshold does it; higher is better.

        Parameters
        ----------
        data, **options
            The data (a file, a folder, a glob or a list of files; Dask and Spark: also a frame), and the options that
            name its columns and the resources to use; `evaluate` lists them all.
        risk : float
            At least 0.

        Returns
        -------
        float or Grouped
            With `groups`, the metric within each group, by label.

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.coverage_at_risk(predictions, risk=0.2)  # two of three are accepted
        0.6666666666666666
        """
        # a metric's name may end in its option; `by_name` raises InputError for a risk out of range, and `_estimate`
        # for one above 1 where all losses are 0/1
        metric = by_name(f"coverage_at_risk@{risk}")
        return self._estimate(function="coverage_at_risk", data=data, arguments=options, metric=metric)

    def risk_coverage_curve(
        self, data: Any, /, *, points: int = 1000, **options: Unpack[EngineOptions]
    ) -> RiskCoverageCurve | dict[Any, RiskCoverageCurve]:
        """The risk-coverage curve in about `points` exact points, evenly spaced in coverage.

        Parameters
        ----------
        data, **options
            The data (a file, a folder, a glob or a list of files; Dask and Spark: also a frame), and the options that
            name its columns and the resources to use; `evaluate` lists them all.
        points : int
            About how many; Dask and Spark take at most 200,000 over all groups.

        Returns
        -------
        RiskCoverageCurve, or a dict of them by group

        Examples
        --------
        >>> from abstain.engines import files
        >>> files.risk_coverage_curve(predictions).risk.round(3).tolist()  # losses 0, 0, 1
        [0.0, 0.0, 0.333]
        """
        function = f"{self.name}.risk_coverage_curve"
        # by name, without those that are None: names of columns, and options of the engine such as `memory`
        columns, engine_options = self._separate_options(options)
        fields = parse_one_pair(function, columns)
        # No metric: the default evidence request has neither areas nor points. Thresholds come with the number of
        # samples accepted at each.
        request = EngineRequest(curve_points=check_count(function, "points", points), with_thresholds=True)
        # by group; without a column of groups all samples are the group None
        answers = self.answer(function, data, fields, request, **engine_options)
        if fields.group:
            return {group: answers[group].curve() for group in sort_groups(answers)}
        return answers[None].curve()

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
        **options: Any,
    ) -> Comparison:
        """Is the first model's AURC lower than the second's on the same samples?

        Parameters
        ----------
        data
            As in `evaluate`, with the columns of both models.
        first, second : (str, str)
            The columns (confidence, loss) of each model.
        names : (str, str)
            What the models are called in the result.
        estimator : str
            The rank weights of the losses. "harmonic" is the classical empirical AURC, "loo" the least biased; "log",
            "sele" and "2sele" are others.
        ties : str
            "threshold": equal confidences are accepted together; "expected": one by one, the mean over their orders.
        level : float
            Confidence level of the intervals.
        sample_weight : str, optional
            A column of relative weights.
        repetitions : bool
            Whether the weights are numbers of repetitions.
        **options
            As in `evaluate`, except `resume`. Files: also `other`, files that hold the second model's columns, sample
            by sample in the same order, and `ids`, the column that must agree row by row (by default found by its
            name); intermediate data takes about 40 bytes for each sample.

        Returns
        -------
        Comparison
            As from `abstain.compare`: both areas with their intervals, their difference with interval and p-value.

        Examples
        --------
        >>> from abstain.engines import files
        >>> both = ("confidence", "loss")
        >>> files.compare(predictions, first=both, second=both).pair("first", "second").p_value
        1.0
        """
        function = f"{self.name}.compare"
        for model_columns in (first, second):
            if isinstance(model_columns, str) or len(model_columns) != 2:
                raise InputError(
                    f"{function}: `first` and `second` must each name two columns, (confidence, loss), got "
                    f"{model_columns!r}."
                )
            if not all(isinstance(column, str) for column in model_columns):
                raise InputError(
                    f"{function}: `first` and `second` must name columns, got "
                    f"{type(model_columns[0]).__name__}. Store a learned confidence as a column first."
                )
        unknown = sorted(set(options) - set(self.pair_options))
        if unknown:
            raise TypeError(f"{function}() got an unexpected keyword argument {unknown[0]!r}")
        first_fields, second_fields = (
            Fields(confidence, loss, sample_weight, repetitions=repetitions)
            for confidence, loss in (first, second)
        )
        metric_options = {"estimator": estimator, "ties": ties}
        AURC.with_checked_options(function, metric_options)  # raises for an unknown value
        changed = {name: value for name, value in metric_options.items() if value != AURC.option_values[name]}
        metric = AURC.with_checked_options(function, changed)  # so that its key does not name defaults
        level = check_fraction(function, "level", level, open_high=True)
        request = make_request([metric], level)
        pair = PairRequest(
            function=function,
            first=replace(first_fields, further_columns=tuple(second)),
            second=second_fields,
            titles=names,
            metric=metric,
            request=replace(request, compares_two_models=True),
        )
        engine_options = {name: value for name, value in options.items() if value is not None}
        return self.compare_pair(pair, data, **engine_options)

    def evaluator(self, **engine_options: Any) -> Callable[..., Evaluation]:
        """The function that `abstain.evaluate(data, engine=...)` calls, with these options of the engine.

        `abstain.evaluate` passes its first argument as `logits`: here the data that the engine reads. The function
        raises InputError without it, and for arguments that engines do not take.
        """

        def evaluate_data(*, logits: Any = None, **arguments: Any) -> Evaluation:
            """`self.evaluate`, which raises TypeError for arguments that nothing takes; None means not passed."""
            if logits is None:
                raise InputError("evaluate: give the data first, e.g. `evaluate('folder', engine='files')`.")
            for argument in ("probs", "abstained", "unanswerable", "has_confidence", "clusters"):
                if arguments.get(argument) is not None:
                    raise InputError(
                        f"evaluate: engines do not take `{argument}` yet. Evaluate it in memory."
                    )
            return self.evaluate(logits, **engine_options, **arguments)

        return evaluate_data


def _explain_missing_interval(entry: Entry, metric: Metric, answers: Mapping[Key, Answer]) -> Entry:
    """Give an entry without an interval the right reason, if the metric is compared with the best order of the losses.

    For losses other than 0/1 engines compute the value of such a metric but no standard error. Other entries are
    returned unchanged, also those without a value, which have their reason already. The keys of `answers` are the
    names of score and loss, and the group (None without groups).
    """
    totals = answers[entry.score, entry.loss, entry.group].totals
    # `order_by_loss`: the metric is compared with the best order. Losses of 0 and one number c are 0/1 losses in units
    # of c, for which that order has a closed form.
    needs_samples = metric.needs.order_by_loss and not totals.in_error_units().zero_one
    if needs_samples and entry.low is None and entry.estimate is not None:
        return replace(entry, reason=REASON_FOR_NO_INTERVAL)
    return entry


def sort_groups(groups: Iterable[Any]) -> list[Any]:
    """Groups sorted by name, the missing one last, so that the order does not depend on the partitions."""
    return sorted(groups, key=lambda group: (group is None, group))
