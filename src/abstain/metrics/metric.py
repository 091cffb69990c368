"""A metric as an object: what it is called, what it needs, its value, its influence, and how its interval is made.

All metrics of the package are `Metric` objects in `definitions`; everything else reads their fields and names none of
them. A user's own metric is one more object:

    mine = Metric(
        name="late_risk",
        label="late risk",
        summary="Mean selective risk in which high coverages count more.",
        lower_is_better=True,
        value=late_risk,                # (rows, options) -> float
        influence=late_risk_influence,  # (rows, options) -> RowInfluence
    )

It can be passed wherever a metric's name can.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from abstain._arrays import Array, ArrayLike, to_host
from abstain._check import check_choice, check_risk
from abstain.core.area_estimators import find_counting_option
from abstain.core.influence import (
    Area,
    AreaDerivative,
    AreaUnderCurve,
    BestArea,
    MetricDerivative,
    RowInfluence,
    zero_one_oracle,
)
from abstain.core.rows import Rows
from abstain.errors import InfeasibleError, InputError
from abstain.metrics._sample import CurveTable, measure_groups, prepare
from abstain.metrics.limit_rules import LimitRule
from abstain.metrics.summaries import Scale

Options = Mapping[str, Any]


def write_number(value: Any) -> str:
    """A number as short as it can be read back: "0.9". (A named function, so that options are equal when unpickled.)"""
    short = show_number(value)
    return short if float(short) == value else repr(float(value))


def show_number(value: Any) -> str:
    """A number with up to six digits, for tables: 1/3 is "0.333333"."""
    return f"{value:g}"


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option of a metric, and the only place of its default.

    Attributes
    ----------
    name : str
        The keyword of the metric's function.
    default
        Its value where none is given.
    is_required : bool
        Must a function call state it? (Where a metric is called by its name alone, as in a table, the default holds.)
    is_part_of_name : bool
        Is it written in the metric's name even where it has its default?
    choices : tuple of str
        The words it can be; empty for a number. In a metric's name words follow a colon, numbers an @.
    check : callable or None
        `check(function, option, value)` returns a valid number or raises InputError.
    read, write, show : callable
        From the text after the @ to the value; back, without the loss of a digit; and from the value to the text that
        labels in tables have.

    Examples
    --------
    >>> Option(name="tpr", default=0.95).write(0.9)
    '0.9'
    """

    name: str
    default: Any
    is_required: bool = False
    is_part_of_name: bool = False
    choices: tuple[str, ...] = ()
    check: Callable[[str, str, Any], Any] | None = None
    read: Callable[[str], Any] = float
    write: Callable[[Any], str] = write_number
    show: Callable[[Any], str] = show_number

    def checked(self, function: str, value: Any) -> Any:
        """The value as the metric reads it; InputError in the name of `function` where it is none."""
        if self.choices:
            check_choice(function, self.name, value, self.choices)
            return value
        return value if self.check is None else self.check(function, self.name, value)


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a metric needs of the samples.

    Attributes
    ----------
    zero_one : bool
        Losses that are 0 (right) or 1 (wrong).
    both_kinds : bool
        At least one right and one wrong sample.
    order_by_loss : bool
        The best possible order, which for losses other than 0/1 is a second ranking.
    risk_within_losses : bool
        A `risk` option of at most 1 where losses are 0/1.
    """

    zero_one: bool = False
    both_kinds: bool = False
    order_by_loss: bool = False
    risk_within_losses: bool = False


NO_NEEDS = Needs()
NO_RULE = LimitRule()


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One number of a risk-coverage curve, and everything that anyone needs to know about it.

    Give `name`, `label`, `summary`, `lower_is_better`, `value` and, if it can be had, `influence`; the other fields
    have defaults that suit a metric of which nothing more is known. The metrics of this package are of the subclasses
    `AreaMetric` and `PointMetric`.

    Parameters
    ----------
    name : str
        As code calls it: "aurc".
    label : str
        As tables and pictures show it: "AURC".
    summary : str
        One plain sentence without its full stop, for help texts and glossaries.
    lower_is_better : bool
        The direction.
    value : callable
        `value(rows, options)` returns the metric of `Rows`: one row per distinct confidence, most confident first.
    influence : callable, optional
        `influence(rows, options)` returns a `RowInfluence`. Without it intervals come from the jackknife, which
        computes the value once for every sample, or from the bootstrap.
    options : tuple of Option
        The options that `value` and `influence` read.
    is_nonnegative : bool
        Is the value at least 0 where no loss is negative? Its interval is then symmetric on the log scale.
    zero_one_range : (float, float), optional
        The range of values for 0/1 losses; the interval is then symmetric on the logit of that range.
    scales_with_loss : bool
        Is the value multiplied by c when all losses are?
    needs : Needs
        What it needs of the samples.
    shown_for : {"any loss", "zero_one", "on request"}
        For which losses `evaluate` shows it when no metrics are named.
    limit_rule : LimitRule
        What its limits allow for where few errors, or none, were seen.
    settings : tuple of (str, value)
        Options that were set by `with_options`.

    Examples
    --------
    >>> from abstain.metrics import by_name
    >>> by_name("aurc").with_options(estimator="loo").key
    'aurc:loo'
    """

    name: str
    label: str
    summary: str
    lower_is_better: bool
    value: Callable[[Rows, Options], Any] | None = None
    influence: Callable[[Rows, Options], RowInfluence] | None = None
    options: tuple[Option, ...] = ()
    is_nonnegative: bool = False
    zero_one_range: tuple[float, float] | None = None
    scales_with_loss: bool = False
    needs: Needs = NO_NEEDS
    shown_for: Literal["any loss", "zero_one", "on request"] = "on request"
    limit_rule: LimitRule = NO_RULE
    settings: tuple[tuple[str, Any], ...] = ()

    # names and options

    @property
    def key(self) -> str:
        """The name with its options, as `by_name` reads it back: "risk_at_coverage@0.9", "aurc:loo"."""
        return self.name + "".join(
            f":{value}" if option.choices else f"@{option.write(value)}"
            for option, value in self._written_options()
        )

    @property
    def full_label(self) -> str:
        """The label with the options that were set."""
        return self.label + "".join(
            f" ({value})" if option.choices else f" {option.show(value)}"
            for option, value in self._written_options()
        )

    def _written_options(self) -> list[tuple[Option, Any]]:
        """Options that belong in the name: those that were set, and numbers without which the name says nothing."""
        chosen = dict(self.settings)
        return [
            (option, chosen.get(option.name, option.default))
            for option in self.options
            if option.name in chosen or option.is_part_of_name
        ]

    @property
    def option_values(self) -> dict[str, Any]:
        """The value of every option, set or default."""
        return {option.name: option.default for option in self.options} | dict(self.settings)

    def with_options(self, **values: Any) -> Metric:
        """This metric with some options set; InputError for an option it does not have or a value out of range."""
        return self.with_checked_options("Metric.with_options", values)

    def with_checked_options(self, function: str, values: Options, requires_all: bool = False) -> Metric:
        """This metric with some options set, with errors in the name of the user's `function`.

        `values` are by the name of the option and replace those set before; without any, the metric itself is returned.
        InputError for an option it does not have and for a value out of range. With `requires_all`, options that a
        function call must state have to be among `values` or set already.
        """
        option_names = [option.name for option in self.options]  # all that the metric takes
        for name in values:
            if name not in option_names:
                listed = ", ".join(f"`{option_name}`" for option_name in option_names) or "none"
                raise InputError(f"{function}: `{name}` is no option of {self.name} (its options: {listed}).")
        chosen = dict(self.settings)  # options that were set before
        for option in self.options:
            if option.name in values:
                # a valid value, or InputError
                chosen[option.name] = option.checked(function, values[option.name])
            elif requires_all and option.is_required and option.name not in chosen:
                raise InputError(f"{function}: {self.name} needs `{option.name}=`, got none.")
        if not values:
            return self
        # in the order of the metric's options, so that equal settings are equal tuples
        ordered = tuple(
            (option.name, chosen[option.name]) for option in self.options if option.name in chosen
        )
        return replace(self, settings=ordered)

    @property
    def rule(self) -> LimitRule:
        """What its limits allow for where few errors, or none, were seen; it may depend on the options."""
        return self.limit_rule

    @property
    def counting_option(self) -> str:
        """An option that counts neighbours and needs repetitions as weights, such as `estimator="loo"`; "" if none."""
        return ""

    # value

    @property
    def __name__(self) -> str:
        """The name, as functions have one."""
        return self.name

    def __call__(
        self,
        loss: ArrayLike,
        confidence: ArrayLike,
        /,
        *,
        sample_weight: ArrayLike | None = None,
        repetitions: bool = False,
        abstained: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Any:
        """The value for losses and confidences, with this metric's options.

        `loss` and `confidence` (higher = surer) have one entry per sample. `sample_weight` is the weight of each sample
        (None: 1 for all). `repetitions` says that weights are numbers of repetitions. `abstained` marks the samples
        without an answer (None: none). With `groups`, one label per sample, returns a `Grouped` result.

        Raises InputError for inputs that no metric takes, for losses other than 0/1 where the metric needs these, and
        for weights that are not repetitions where an option counts neighbours (`self.counting_option`). Raises
        InfeasibleError where the metric needs right and wrong samples and only one kind occurs.
        """
        if groups is not None:  # `measure_groups` calls this function for each group, with `groups` left out
            options = {"sample_weight": sample_weight, "repetitions": repetitions, "abstained": abstained}
            return measure_groups(
                self, (loss, confidence), groups, options=options, lower_is_better=self.lower_is_better
            )
        # `to_host` copies arrays to numpy, and None stays None. Of the result: checked numpy arrays, without the
        # samples that abstained or have weight 0 (in a batch these have weight 0).
        sample = prepare(
            self.name,
            loss=to_host(loss),
            confidence=to_host(confidence),
            sample_weight=to_host(sample_weight),
            abstained=to_host(abstained),
            counting_option=self.counting_option,  # one that needs weights to be repetitions, or ""
            repetitions=repetitions,
        )
        self.check_losses(self.name, sample.loss, sample.is_zero_one())
        value = self.compute(sample.table())  # the table has one row per distinct confidence
        # a float, or a numpy array for a batch: the inputs are numpy arrays now, whatever library they came from
        return sample.to_input_library(value)

    def check_losses(self, function: str, loss: np.ndarray, is_zero_one: bool) -> None:
        """Raise an error, in the name of `function`, where losses are not what the metric needs.

        `is_zero_one` says that all of them are 0 or 1. InputError for other losses where these are needed, or a
        requested risk above 1; InfeasibleError unless both right and wrong samples occur where both are needed. What is
        needed stands in `self.needs`; by default it is nothing, and any losses will do. `loss` holds at least one
        number.
        """
        options = self.option_values
        # "asymptotic": the best order is taken from a formula in the risk, not from the losses
        if options.get("oracle") == "asymptotic" and not is_zero_one:
            raise InputError(
                f'{function}: oracle="asymptotic" holds for 0/1 loss only. Use oracle="empirical".'
            )
        # A mean of 0/1 losses is at most 1, so a larger requested risk is a mistake. Only metrics with an option `risk`
        # have this need. That it is a number and at least 0 was checked when the option was set.
        if is_zero_one and self.needs.risk_within_losses:
            check_risk(function, options["risk"])  # InputError above 1
        if self.needs.zero_one and not is_zero_one:
            raise InputError(
                f"{function}: {self.name} needs `loss` to be 0 (right) or 1 (wrong), got other values."
            )
        if self.needs.both_kinds and (loss.all() or not loss.any()):  # all wrong, or all right
            raise InfeasibleError(
                f"{function}: {self.name} needs both right and wrong samples, got only one kind."
            )

    def compute(self, table: CurveTable) -> Any:
        """The value for one table; for a batch of tables an array of values, with the shape of the leading axes.

        All arrays of `table.rows` have the shape (leading axes, rows). The metrics of this package, which have no
        function `self.value`, are of subclasses with a `compute` of their own.
        """
        assert self.value is not None
        rows = table.rows  # one row per distinct confidence, most confident first
        if rows.mass.ndim == 1:
            return self.value(rows, self.option_values)
        # a user's function takes one table at a time, without the rows of mass 0 that fill up a batch
        values = [
            self.value(_table_of_batch(rows, index), self.option_values)
            for index in np.ndindex(rows.mass.shape[:-1])
        ]
        return np.asarray(values, dtype=np.float64).reshape(rows.mass.shape[:-1])

    # error bar; subclasses override these properties by fields of the same name

    @property
    def reads_area(self) -> bool:
        """Does the value depend on the ranking, and not on the losses alone?"""
        return True

    @property
    def is_centred_on_leave_one_out(self) -> bool:
        """Is its interval built around the leave-one-out version of the area, where that exists?"""
        return False

    @property
    def drops_loss_offset(self) -> bool:
        """Does a number added to all losses change nothing, with the harmonic estimator?"""
        return False

    @property
    def deletion(self) -> Literal["area", "mean"] | None:
        """How the value without one sample is computed for all samples at once: as a curve area, as the mean loss."""
        return None

    @property
    def is_per_sample_of_all(self) -> bool:
        """Is the value a share of all samples, so that samples that abstained make it smaller?"""
        return False

    @property
    def reads_best_curve_area(self) -> bool:
        """Does it read the AURC of the best order? (Of 0/1 losses with relative weights that is a second sort.)"""
        return False

    def best_area_for_zero_one(
        self, total_mass: float, error_mass: float, known_area: float | None = None
    ) -> BestArea | None:
        """The best area of 0/1 losses; None where it is not read, or where `derivative` knows the formula itself.

        `known_area` is the best AURC of samples with relative weights, None for whole weights.
        """
        return None

    @property
    def is_smooth(self) -> bool:
        """Is there an influence function, so that an interval needs no resampling?"""
        return self.influence is not None

    @property
    def area(self) -> Area:
        """The sum over the rows of the ranking that this metric is made of."""
        return OwnArea(metric=self)

    def derivative(self, area: float, risk: float, best: BestArea | None) -> MetricDerivative:
        """The metric and its derivatives, from its area, the risk and the best possible area."""
        return MetricDerivative(area)

    @property
    def logit_range(self) -> tuple[float, float] | None:
        """The range on whose logit the interval of 0/1 losses is symmetric, if so; it may depend on the options."""
        return self.zero_one_range

    def scale_for(self, is_zero_one: bool, has_negative_loss: bool) -> Scale:
        """The scale on which its interval is symmetric, for a kind of loss."""
        logit_range = self.logit_range
        if is_zero_one and logit_range is not None:
            return Scale("logit", *logit_range)
        if self.is_nonnegative and not has_negative_loss:
            return Scale("log")
        return Scale("normal")

    def range_for(self, is_zero_one: bool, has_negative_loss: bool) -> tuple[float, float]:
        """The values that it can take, for a kind of loss."""
        logit_range = self.logit_range
        if is_zero_one and logit_range is not None:
            return logit_range
        if self.is_nonnegative and not has_negative_loss:
            return 0.0, math.inf
        return -math.inf, math.inf


def _table_of_batch(rows: Rows, index: tuple[int, ...]) -> Rows:
    """One table of a batch, without the rows that have no mass."""
    has_mass = rows.mass[index] > 0
    return Rows.accumulate(rows.mass[index][has_mass], rows.loss[index][has_mass])


@dataclass(frozen=True)
class OwnArea(Area):
    """A metric with its own value and influence functions, which need the whole table at once.

    Losses are stored in units of `loss_unit` (the size of an error, where all losses are 0 or one number). A metric
    that does not simply scale with the loss is computed from losses in the user's units.
    """

    metric: Metric
    loss_unit: float = 1.0
    is_additive: ClassVar[bool] = False

    @property
    def needs_both_kinds(self) -> bool:
        """Is it defined only for 0/1 losses with both right and wrong samples?"""
        return self.metric.needs.both_kinds

    def with_loss_unit(self, loss_unit: float) -> Area:
        """The area of losses that are stored in units of `loss_unit`; for areas that scale with the loss the same."""
        return self if self.metric.scales_with_loss else replace(self, loss_unit=loss_unit)

    def derivative(self, rows: Rows, error_mass: float = math.nan) -> AreaDerivative:
        """Compute (total mass) * (value of the metric), and the derivative of that product in the weight of a sample.

        So the metric is handled as areas are, though it may be no area; a caller divides by the total mass (the sum of
        the sample weights) and subtracts the mean influence. The derivative is `constant + slope * loss` for a sample
        of each row, up to a number that all samples share. Both come from the functions of the metric's definition,
        `self.metric.value` and `self.metric.influence`. `rows` must be the whole ranking: one row per distinct
        confidence, most confident first. Their losses times `self.loss_unit` are those from which the metric is to be
        computed; the unit is 1 unless the metric does not scale with the loss. `error_mass` is not read: all areas take
        the same arguments, and only `PrecisionArea` needs it.
        """
        metric = self.metric
        assert metric.value is not None
        assert metric.influence is not None
        if self.loss_unit != 1:  # back to the user's units
            rows = rows._replace(
                loss=rows.loss * self.loss_unit, accepted_loss=rows.accepted_loss * self.loss_unit
            )
        value = float(metric.value(rows, metric.option_values))
        # `constant` and `slope` have one entry per row, or are one number for all rows
        row_influence = metric.influence(rows, metric.option_values)
        constant = np.broadcast_to(np.asarray(row_influence.constant, dtype=np.float64), rows.mass.shape)
        slope = np.broadcast_to(np.asarray(row_influence.slope, dtype=np.float64), rows.mass.shape)
        return AreaDerivative(
            mass_times_area=value * float(rows.total_mass[0]),
            constant=constant,
            slope=slope * self.loss_unit,  # for losses as they are stored
        )


def _call_public_function(metric: Metric, loss: Array, confidence: Array, arguments: dict[str, Any]) -> Any:
    """The value by the public function of the metric's name, which knows faster ways than a table of rows."""
    function = getattr(importlib.import_module("abstain.metrics"), metric.name)
    chosen = dict(metric.settings)
    for option in metric.options:
        if option.is_required:  # by the function; the metric has a default for it
            chosen.setdefault(option.name, option.default)
    # the AURC of the best order reads losses alone
    if "confidence" not in inspect.signature(function).parameters:
        return function(loss, **(chosen | arguments))
    return function(loss, confidence, **(chosen | arguments))


@dataclass(frozen=True, kw_only=True)
class AreaMetric(Metric):
    """A metric that is a smooth function of an area, the risk, and the best possible value of that area.

    Parameters
    ----------
    value_of_table : callable
        `value_of_table(table, options)` returns the value for `CurveTable`s, batches of them included.
    make_area : callable
        `make_area(options)` returns the `Area`.
    from_area : callable
        `from_area(area, risk, best, options)` returns the `MetricDerivative`.
    make_limit_rule : callable, optional
        `make_limit_rule(options)` returns the `LimitRule`, where it depends on the options.
    make_range : callable, optional
        `make_range(options)` returns `zero_one_range`, where it depends on the options.
    variants : tuple of (str, Metric)
        Options that make it a metric with a definition of its own, and that definition.
    reads_area : bool
        False for metrics of the risk or the best area alone, which any area will do for.
    is_centred_on_leave_one_out : bool
        Is its interval built around the leave-one-out version of the area, where that exists?
    drops_loss_offset : bool
        Does a number added to all losses change nothing? (With the harmonic estimator.)
    deletion : {"area", "mean"}, optional
        How its value without one sample is computed exactly for all samples at once, for the jackknife: as a curve
        area, or as the mean loss.
    is_per_sample_of_all : bool
        Is the value a share of all samples, so that samples that abstained make it smaller?
    full_range : (float, float), optional
        The range of values for 0/1 losses, where it is not `zero_one_range`; by default [0, 1].
    range_for_all_losses : bool
        Does that range hold for all losses?
    """

    value_of_table: Callable[[CurveTable, Options], Any]
    make_area: Callable[[Options], Area]
    from_area: Callable[[float, float, BestArea | None, Options], MetricDerivative]
    make_limit_rule: Callable[[Options], LimitRule] | None = None
    make_range: Callable[[Options], tuple[float, float]] | None = None
    variants: tuple[tuple[str, Metric], ...] = field(default=(), repr=False, compare=False)
    reads_area: bool = True
    is_centred_on_leave_one_out: bool = False
    drops_loss_offset: bool = False
    deletion: Literal["area", "mean"] | None = None
    is_per_sample_of_all: bool = False
    full_range: tuple[float, float] = (0.0, 1.0)
    range_for_all_losses: bool = False

    def __call__(self, loss: ArrayLike, confidence: ArrayLike, /, **arguments: Any) -> Any:
        """The value for losses and confidences, with this metric's options.

        `loss` and `confidence` (higher = surer) have one entry per sample, `arguments` are keywords such as
        `sample_weight`, `abstained` and `groups`.
        """
        return _call_public_function(self, loss, confidence, arguments)

    def compute(self, table: CurveTable) -> Any:
        """The value for one table, or (metrics of this package) for a batch of tables along the leading axes."""
        return self.value_of_table(table, self.option_values)

    @property
    def is_smooth(self) -> bool:
        """Is there an influence function, so that an interval needs no resampling?"""
        return True

    @property
    def area(self) -> Area:
        """The sum over the rows of the ranking that this metric is made of."""
        return self.make_area(self.option_values)

    def derivative(self, area: float, risk: float, best: BestArea | None) -> MetricDerivative:
        """The metric and its derivatives, from its area, the risk and the best possible area."""
        return self.from_area(area, risk, best, self.option_values)

    def with_checked_options(self, function: str, values: Options, requires_all: bool = False) -> Metric:
        """This metric with some options set, with errors in the name of the user's `function`.

        `values` are by the name of the option. Some options, such as AURC's `coverage`, make it a metric with a
        definition of its own: `self.variants` holds pairs of such an option's name and that `Metric`, which then takes
        the other values. With `requires_all`, options that a function call must state have to be among `values` or set
        already. InputError for an option that the metric or the variant does not have, and for a value out of range.
        """
        for name, variant in self.variants:
            if values.get(name) is not None:  # None is no valid value, and is refused below
                option_names = [option.name for option in variant.options]
                # an option of this metric that the variant lacks; `variant` itself raises for names that neither has
                for other in values:
                    if other not in option_names and any(option.name == other for option in self.options):
                        raise InputError(
                            f"{function}: {self.name} takes `{name}` or `{other}`, one of them, got both."
                        )
                return variant.with_checked_options(function, values, requires_all)
        return super().with_checked_options(function, values, requires_all)

    @property
    def rule(self) -> LimitRule:
        """What its limits allow for where few errors, or none, were seen; it may depend on the options."""
        if self.make_limit_rule is None:
            return self.limit_rule
        return self.make_limit_rule(self.option_values)

    @property
    def logit_range(self) -> tuple[float, float] | None:
        """See `Metric.logit_range`."""
        return self.zero_one_range if self.make_range is None else self.make_range(self.option_values)

    @property
    def reads_best_curve_area(self) -> bool:
        """Does it read the AURC of the best order? (Of 0/1 losses with relative weights that is a second sort.)"""
        return self.needs.order_by_loss and isinstance(self.area, AreaUnderCurve)

    def best_area_for_zero_one(
        self, total_mass: float, error_mass: float, known_area: float | None = None
    ) -> BestArea | None:
        """The area of the best order of 0/1 losses, errors last, from the total mass and the mass of the errors.

        None where the metric does not compare with the best order, and where its area is not that under the
        risk-coverage curve: `AreaMetric.derivative` then computes the best area from the risk. `known_area` is the best
        AURC of samples whose weights are fractions, which the two masses do not determine; None for whole weights. The
        result holds the area and its influence, a straight line in the loss.
        """
        area = self.area
        if not self.needs.order_by_loss or not isinstance(area, AreaUnderCurve):
            return None
        # "empirical": the best order of these samples; "asymptotic": its limit for many samples of this risk
        oracle = self.option_values.get("oracle", "empirical")
        return zero_one_oracle(
            total_mass, error_mass, estimator=area.estimator, oracle=oracle, known_area=known_area
        )

    def range_for(self, is_zero_one: bool, has_negative_loss: bool) -> tuple[float, float]:
        """The values that it can take, for a kind of loss."""
        if is_zero_one or self.range_for_all_losses:
            return self.logit_range or self.full_range  # the latter where limits are not on a logit scale
        return super().range_for(is_zero_one, has_negative_loss)

    @property
    def counting_option(self) -> str:
        """An option that counts neighbours and needs repetitions as weights, such as `estimator="loo"`; "" if none."""
        options = self.option_values
        return find_counting_option(options.get("estimator", ""), options.get("ties", ""))


@dataclass(frozen=True, kw_only=True)
class PointMetric(Metric):
    """A point of the curve, cut at a coverage, a risk or a true positive rate.

    It depends on the ranking through the place of the cut, so it has no influence function; its limits are closed
    forms in `inference.point_limits`.

    Parameters
    ----------
    value_of_table : callable
        `value_of_table(table, options)` returns the value for `CurveTable`s, batches of them included.
    cut_at : {"coverage", "risk", "tpr"}
        The option that places the cut.
    """

    value_of_table: Callable[[CurveTable, Options], Any]
    cut_at: Literal["coverage", "risk", "tpr"]

    def __call__(self, loss: ArrayLike, confidence: ArrayLike, /, **arguments: Any) -> Any:
        """The value for losses and confidences, with this metric's options.

        `loss` and `confidence` (higher = surer) have one entry per sample, `arguments` are keywords such as
        `sample_weight`, `abstained` and `groups`.
        """
        return _call_public_function(self, loss, confidence, arguments)

    def compute(self, table: CurveTable) -> Any:
        """The value for one table, or (metrics of this package) for a batch of tables along the leading axes."""
        return self.value_of_table(table, self.option_values)

    @property
    def cut(self) -> float:
        """Where the cut is placed."""
        return float(self.option_values[self.cut_at])
