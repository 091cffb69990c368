"""The metrics of this package, one definition each, and the table in which they are found by name.

To add a metric, write its definition here (or anywhere, and call `register_metric`). `interval`, the bootstrap,
`evaluate`, `compare`, the engines, the command line, the report and the laws in the tests read the fields of these
objects; no other file names a metric.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from abstain._check import check_fraction, check_nonnegative
from abstain._names import suggest_name
from abstain.core import curve_points
from abstain.core.area_estimators import ESTIMATORS, TIES, area, asymptotic_oracle
from abstain.core.curve_points import exceeds, naurc_undefined, normalised_gain
from abstain.core.influence import (
    AcceptedLossArea,
    Area,
    AreaUnderCurve,
    BestArea,
    MetricDerivative,
    PartialArea,
    PrecisionArea,
)
from abstain.errors import InputError
from abstain.metrics._sample import CurveTable
from abstain.metrics.limit_rules import (
    AreaRule,
    ExcessRule,
    GeneralisedAreaRule,
    LimitRule,
    NormalisedAreaRule,
    OracleRule,
    PartialAreaRule,
    PlacementRule,
    PointRule,
    PrecisionRule,
    RiskRule,
    TruncatedPlacementRule,
)
from abstain.metrics.metric import (
    AreaMetric,
    Metric,
    Needs,
    Option,
    Options,
    PointMetric,
    show_number,
    write_number,
)
from abstain.metrics.summaries import best_accepted_area

# Options -----------------------------------------------------------------------------------------------------


def _check_coverage_range(function: str, option: str, value: Any) -> tuple[float, float]:
    """The user's `value` of an option as a pair of coverages, the lower one first.

    Raises InputError, in the name of `function`, unless it is two numbers with 0 <= low < high <= 1.
    """
    try:
        low, high = (float(end) for end in value)
    except (TypeError, ValueError):
        low = np.nan  # fails the comparison below
        high = np.nan
    if not 0 <= low < high <= 1:
        hint = ""
        if 0 <= low < high and 1 < high <= 100:
            hint = f" If these are percentages, divide by 100: {low / 100:g} and {high / 100:g}."
        raise InputError(
            f"{function}: `{option}` must be two coverages (low, high) with 0 <= low < high <= 1, got {value!r}.{hint}"
        )
    return low, high


def _read_coverage_range(text: str) -> tuple[float, float]:
    """From "0.7-1" to (0.7, 1.0); ValueError for anything but two numbers with a dash between them."""
    low, high = re.split(r"(?<![eE])-", text, maxsplit=1)  # "1e-07-0.5": the first dash is part of a number
    return float(low), float(high)


def _write_coverage_range(value: tuple[float, float]) -> str:
    return f"{write_number(value[0])}-{write_number(value[1])}"


def _show_coverage_range(value: tuple[float, float]) -> str:
    return f"{show_number(value[0])}-{show_number(value[1])}"


ESTIMATOR = Option(name="estimator", default="harmonic", choices=ESTIMATORS)
TIE_RULE = Option(name="ties", default="threshold", choices=TIES)
ORACLE = Option(name="oracle", default="empirical", choices=("empirical", "asymptotic"))
COVERAGE_RANGE = Option(
    name="coverage",
    default=(0.0, 1.0),
    check=_check_coverage_range,
    read=_read_coverage_range,
    write=_write_coverage_range,
    show=_show_coverage_range,
)
MAX_REJECTION = Option(name="max_rejection", default=1.0, check=check_fraction)
COVERAGE = Option(name="coverage", default=0.8, check=check_fraction, is_required=True, is_part_of_name=True)
RISK = Option(name="risk", default=0.05, check=check_nonnegative, is_required=True, is_part_of_name=True)
TPR = Option(name="tpr", default=0.95, check=check_fraction, is_part_of_name=True)


# AURC --------------------------------------------------------------------------------------------------------


def _curve_area(options: Options) -> Area:
    return AreaUnderCurve(options["estimator"], options.get("ties", TIE_RULE.default))


def _aurc(table: CurveTable, options: Options) -> Any:
    return np.asarray(area(table.rows, options["estimator"], options.get("ties", TIE_RULE.default)))


def _area_itself(area: float, risk: float, best: BestArea | None, options: Options) -> MetricDerivative:
    return MetricDerivative(area)


def _partial_area(options: Options) -> Area:
    low, high = options["coverage"]
    return PartialArea(low, high)


def _partial_aurc(table: CurveTable, options: Options) -> Any:
    low, high = options["coverage"]
    return curve_points.partial_area(table.rows, low, high)


def _partial_area_rule(options: Options) -> LimitRule:
    low, high = options["coverage"]
    return PartialAreaRule(low, high)


PARTIAL_AURC = AreaMetric(
    name="aurc",
    label="AURC",
    summary="the mean selective risk between two coverages",
    lower_is_better=True,
    options=(COVERAGE_RANGE,),
    value_of_table=_partial_aurc,
    make_area=_partial_area,
    from_area=_area_itself,
    is_nonnegative=True,
    scales_with_loss=True,
    make_limit_rule=_partial_area_rule,
)

AURC = AreaMetric(
    name="aurc",
    label="AURC",
    summary="the mean selective risk over all thresholds: the area under the risk-coverage curve",
    lower_is_better=True,
    options=(ESTIMATOR, TIE_RULE, COVERAGE_RANGE),
    variants=(("coverage", PARTIAL_AURC),),
    value_of_table=_aurc,
    make_area=_curve_area,
    from_area=_area_itself,
    is_nonnegative=True,
    scales_with_loss=True,
    is_centred_on_leave_one_out=True,
    deletion="area",
    limit_rule=AreaRule(),
    shown_for="any loss",
)


# AUGRC -------------------------------------------------------------------------------------------------------


def _augrc(table: CurveTable, options: Options) -> Any:
    rows = table.rows
    return area(rows, "sele", options["ties"]) * rows.total_mass[..., 0] / table.total_mass


def _generalised_area(options: Options) -> Area:
    return AreaUnderCurve("sele", options["ties"])


AUGRC = AreaMetric(
    name="augrc",
    label="AUGRC",
    summary="the mean generalised risk: errors answered per sample of all",
    lower_is_better=True,
    options=(TIE_RULE,),
    value_of_table=_augrc,
    make_area=_generalised_area,
    from_area=_area_itself,
    is_nonnegative=True,
    scales_with_loss=True,
    deletion="area",
    is_per_sample_of_all=True,
    limit_rule=GeneralisedAreaRule(),
    shown_for="any loss",
)


# AURC and the best possible order ----------------------------------------------------------------------------


def _risk(table: CurveTable, options: Options) -> Any:
    return np.asarray(table.rows.accepted_loss[..., -1] / table.rows.total_mass[..., 0])


def _oracle_aurc(table: CurveTable, options: Options) -> Any:
    """AURC in the order of the losses, or its population value for 0/1 losses."""
    if options["oracle"] == "asymptotic":
        return np.asarray(asymptotic_oracle(np, _risk(table, options)))
    ties = "expected" if table.has_whole_weights else "threshold"
    return np.asarray(area(table.rows_by_loss(), options["estimator"], ties))


def _best_aurc(table: CurveTable, options: Options) -> Any:
    """The smallest AURC of these losses; with relative weights the order by loss is not always the best one."""
    best = _oracle_aurc(table, options)
    if options["oracle"] == "asymptotic" or not table.has_weights:
        return best
    return np.minimum(best, _aurc(table, options))


def _e_aurc(table: CurveTable, options: Options) -> Any:
    return _aurc(table, options) - _best_aurc(table, options)


def _naurc(table: CurveTable, options: Options) -> Any:
    best = _best_aurc(table, options)
    return normalised_gain(np, _aurc(table, options) - best, _risk(table, options), best)


def _excess_from_area(area: float, risk: float, best: BestArea | None, options: Options) -> MetricDerivative:
    assert best is not None
    return MetricDerivative(area - best.area, per_best=-1.0).including(best)


def _oracle_from_area(area: float, risk: float, best: BestArea | None, options: Options) -> MetricDerivative:
    assert best is not None
    return MetricDerivative(best.area, per_area=0.0, per_best=1.0).including(best)


def _naurc_from_area(area: float, risk: float, best: BestArea | None, options: Options) -> MetricDerivative:
    assert best is not None
    if not exceeds(risk, best.area) and exceeds(area, best.area):
        raise naurc_undefined("this estimator")
    return _normalised(area, risk, best, random_per_risk=1.0, at_best=0.0, factor=1.0)


def _normalised(
    area: float, risk: float, best: BestArea, *, random_per_risk: float, at_best: float, factor: float
) -> MetricDerivative:
    """The metric `at_best + factor * x`, x = (area - best) / (random - best), with its derivatives (delta method).

    `random`, the area of a random order, is `random_per_risk * risk`. Where it is no larger than the best area, all
    losses are equal and no order is better than another: the value is 0, and no sample has an influence.

    The influence of a sample of loss l is `constant + slope * l`, from the risk in `random`, plus `per_area` and
    `per_best` times its influences on the area and on the best area. Where the influence on the best area is itself a
    line in the loss, `best` holds that line, and `including(best)` adds `per_best` times it to `constant` and `slope`.
    """
    random = random_per_risk * risk
    best_gain = random - best.area
    if not exceeds(random, best.area):  # larger, but for rounding
        # no influence of the area, whose share is 1 by default; the other shares are 0 by default
        return MetricDerivative(estimate=0.0, per_area=0.0)
    x = (area - best.area) / best_gain
    # derivative of the metric in the risk by way of `random`; the risk itself has the influence l - risk
    per_risk = -factor * x * random_per_risk / best_gain
    return MetricDerivative(
        estimate=at_best + factor * x,
        per_area=factor / best_gain,
        constant=-per_risk * risk,
        slope=per_risk,
        per_best=factor * (x - 1) / best_gain,
    ).including(best)


E_AURC = AreaMetric(
    name="e_aurc",
    label="E-AURC",
    summary="AURC less that of the best possible ranking of the same answers",
    lower_is_better=True,
    options=(ESTIMATOR, TIE_RULE, ORACLE),
    needs=Needs(order_by_loss=True),
    value_of_table=_e_aurc,
    make_area=_curve_area,
    from_area=_excess_from_area,
    is_nonnegative=True,
    scales_with_loss=True,
    drops_loss_offset=True,
    limit_rule=ExcessRule(),
    shown_for="any loss",
)

NAURC = AreaMetric(
    name="naurc",
    label="NAURC",
    summary="AURC between the best possible ranking (0) and a random one (1)",
    lower_is_better=True,
    options=(ESTIMATOR, TIE_RULE, ORACLE),
    needs=Needs(order_by_loss=True),
    value_of_table=_naurc,
    make_area=_curve_area,
    from_area=_naurc_from_area,
    is_nonnegative=True,
    drops_loss_offset=True,
    full_range=(0.0, np.inf),
    limit_rule=NormalisedAreaRule(),
    shown_for="any loss",
)

ORACLE_AURC = AreaMetric(
    name="oracle_aurc",
    label="oracle AURC",
    summary="the AURC of the best possible ranking of the same answers",
    lower_is_better=True,
    options=(ESTIMATOR, ORACLE),
    needs=Needs(order_by_loss=True),
    value_of_table=_oracle_aurc,
    make_area=_curve_area,
    from_area=_oracle_from_area,
    reads_area=False,
    is_nonnegative=True,
    scales_with_loss=True,
    limit_rule=OracleRule(),
)


# risk --------------------------------------------------------------------------------------------------------


def _any_area(options: Options) -> Area:
    return AreaUnderCurve(ESTIMATOR.default, TIE_RULE.default)


def _risk_from_area(area: float, risk: float, best: BestArea | None, options: Options) -> MetricDerivative:
    return MetricDerivative(risk, per_area=0.0, constant=-risk, slope=1.0)


MEAN_LOSS = AreaMetric(
    name="risk",
    label="risk",
    summary="the mean loss when everything is answered",
    lower_is_better=True,
    value_of_table=_risk,
    make_area=_any_area,
    from_area=_risk_from_area,
    deletion="mean",
    reads_area=False,
    is_nonnegative=True,
    zero_one_range=(0.0, 1.0),
    scales_with_loss=True,
    limit_rule=RiskRule(),
    shown_for="any loss",
)


# failure detection -------------------------------------------------------------------------------------------

_RIGHT_AND_WRONG = Needs(zero_one=True, both_kinds=True)


def _accepted_loss_area(options: Options) -> Area:
    return AcceptedLossArea()


def _auroc(table: CurveTable, options: Options) -> Any:
    return curve_points.auroc(table.rows)


def _auroc_from_area(area: float, risk: float, best: BestArea | None, options: Options) -> MetricDerivative:
    """AUROC is 1 - x/2 for 0/1 losses, whose best area is R^2/2 and whose random area is R/2."""
    best = BestArea(risk**2 / 2, -(risk**2), risk)
    return _normalised(area, risk, best, random_per_risk=0.5, at_best=1.0, factor=-0.5)


AUROC = AreaMetric(
    name="auroc",
    label="AUROC of failures",
    summary="the chance that a right answer is more confident than a wrong one (0.5 by chance)",
    lower_is_better=False,
    needs=_RIGHT_AND_WRONG,
    value_of_table=_auroc,
    make_area=_accepted_loss_area,
    from_area=_auroc_from_area,
    zero_one_range=(0.0, 1.0),
    limit_rule=PlacementRule(0.0, 1.0),
    shown_for="zero_one",
)


def _rejection_ratio(table: CurveTable, options: Options) -> Any:
    return curve_points.rejection_ratio(table.rows, table.rows_by_loss(), options.get("max_rejection", 1.0))


def _rejection_ratio_from_area(
    area: float, risk: float, best: BestArea | None, options: Options
) -> MetricDerivative:
    """1 - x, with the best area R^2/2 for 0/1 losses."""
    best = best or BestArea(risk**2 / 2, -(risk**2), risk)
    return _normalised(area, risk, best, random_per_risk=0.5, at_best=1.0, factor=-1.0)


def _truncated_area(options: Options) -> Area:
    return AcceptedLossArea(from_coverage=1 - options["max_rejection"])


def _truncated_ratio_from_area(
    area: float, risk: float, best: BestArea | None, options: Options
) -> MetricDerivative:
    """1 - x, with areas from coverage a = 1 - max_rejection on; the random area is R (1 - a^2) / 2."""
    first = 1 - options["max_rejection"]
    if best is None:
        best = _best_truncated_area(risk, first)
    return _normalised(area, risk, best, random_per_risk=(1 - first**2) / 2, at_best=1.0, factor=-1.0)


def _best_truncated_area(risk: float, first: float) -> BestArea:
    """`best_accepted_area` with its influence: its derivative with respect to the risk, times l - R."""
    per_risk = min(risk, 1 - first)  # errors come in from coverage 1 - R on, or from the first coverage on
    return BestArea(best_accepted_area(risk, first), -per_risk * risk, per_risk)


def _truncated_range(options: Options) -> tuple[float, float]:
    """The values that the ratio can take at any risk; those of 0/1 losses bound those of all losses."""
    return 1 - 2 / options["max_rejection"], 1.0


def _truncated_rule(options: Options) -> LimitRule:
    low, high = _truncated_range(options)
    return TruncatedPlacementRule(low, high, options["max_rejection"])


TRUNCATED_REJECTION_RATIO = AreaMetric(
    name="prediction_rejection_ratio",
    label="PRR",
    summary="the gain over random rejection up to a share rejected, as a share of the largest possible gain",
    lower_is_better=False,
    options=(MAX_REJECTION,),
    needs=Needs(order_by_loss=True),
    value_of_table=_rejection_ratio,
    make_area=_truncated_area,
    from_area=_truncated_ratio_from_area,
    make_range=_truncated_range,
    range_for_all_losses=True,
    make_limit_rule=_truncated_rule,
)

REJECTION_RATIO = AreaMetric(
    name="prediction_rejection_ratio",
    label="PRR",
    summary="prediction rejection ratio: the gain over random rejection, as a share of the largest possible gain "
    "(0 by chance; with 0/1 losses 2 AUROC - 1)",
    lower_is_better=False,
    options=(MAX_REJECTION,),
    variants=(("max_rejection", TRUNCATED_REJECTION_RATIO),),
    needs=Needs(order_by_loss=True),
    value_of_table=_rejection_ratio,
    make_area=_accepted_loss_area,
    from_area=_rejection_ratio_from_area,
    zero_one_range=(-1.0, 1.0),
    range_for_all_losses=True,
    limit_rule=PlacementRule(-1.0, 1.0),
)


def _aupr_error(table: CurveTable, options: Options) -> Any:
    return curve_points.average_precision(table.rows, of_errors=True)


def _precision_of_errors(options: Options) -> Area:
    return PrecisionArea(of_errors=True)


def _aupr_error_from_area(
    area: float, risk: float, best: BestArea | None, options: Options
) -> MetricDerivative:
    """The area over the share of errors, the risk, which has influence l - R."""
    value = area / risk
    return MetricDerivative(value, per_area=1 / risk, constant=value, slope=-value / risk)


AUPR_ERROR = AreaMetric(
    name="aupr_error",
    label="AUPR of errors",
    summary="the mean precision when low confidence is taken for an error (by chance the error rate)",
    lower_is_better=False,
    needs=_RIGHT_AND_WRONG,
    value_of_table=_aupr_error,
    make_area=_precision_of_errors,
    from_area=_aupr_error_from_area,
    zero_one_range=(0.0, 1.0),
    limit_rule=PrecisionRule(hits_are_errors=True),
)


def _aupr_success(table: CurveTable, options: Options) -> Any:
    return curve_points.average_precision(table.rows, of_errors=False)


def _precision_of_successes(options: Options) -> Area:
    return PrecisionArea(of_errors=False)


def _aupr_success_from_area(
    area: float, risk: float, best: BestArea | None, options: Options
) -> MetricDerivative:
    """The area over the share of right samples, 1 - R."""
    right = 1 - risk
    value = area / right
    return MetricDerivative(
        value, per_area=1 / right, constant=value * (right - 1) / right, slope=value / right
    )


AUPR_SUCCESS = AreaMetric(
    name="aupr_success",
    label="AUPR of successes",
    summary="the mean precision when high confidence is taken for a right answer (by chance the accuracy)",
    lower_is_better=False,
    needs=_RIGHT_AND_WRONG,
    value_of_table=_aupr_success,
    make_area=_precision_of_successes,
    from_area=_aupr_success_from_area,
    zero_one_range=(0.0, 1.0),
    limit_rule=PrecisionRule(hits_are_errors=False),
)


# points of the curve -----------------------------------------------------------------------------------------


def _fpr_at_tpr(table: CurveTable, options: Options) -> Any:
    return curve_points.fpr_at_tpr(table.rows, options["tpr"])


FPR_AT_TPR = PointMetric(
    name="fpr_at_tpr",
    label="FPR at TPR",
    summary="the share of wrong answers accepted when that share of right ones is (by chance the same share)",
    lower_is_better=True,
    options=(TPR,),
    needs=_RIGHT_AND_WRONG,
    value_of_table=_fpr_at_tpr,
    cut_at="tpr",
    limit_rule=PointRule(),
)


def _risk_at_coverage(table: CurveTable, options: Options) -> Any:
    return curve_points.risk_at_coverage(table.rows, table.total_mass, options["coverage"])[0]


RISK_AT_COVERAGE = PointMetric(
    name="risk_at_coverage",
    label="risk at coverage",
    summary="the risk if only that share is answered, the most confident",
    lower_is_better=True,
    options=(COVERAGE,),
    value_of_table=_risk_at_coverage,
    cut_at="coverage",
    scales_with_loss=True,
    shown_for="zero_one",
)


def _coverage_at_risk(table: CurveTable, options: Options) -> Any:
    return curve_points.coverage_at_risk(table.rows, table.total_mass, options["risk"])


COVERAGE_AT_RISK = PointMetric(
    name="coverage_at_risk",
    label="coverage at risk",
    summary="the largest share that can be answered with that risk",
    lower_is_better=False,
    options=(RISK,),
    needs=Needs(risk_within_losses=True),
    value_of_table=_coverage_at_risk,
    cut_at="risk",
    shown_for="zero_one",
)


# the table ---------------------------------------------------------------------------------------------------

_DEFINITIONS: tuple[Metric, ...] = (
    AURC,
    AUGRC,
    E_AURC,
    NAURC,
    AUROC,
    MEAN_LOSS,
    ORACLE_AURC,
    REJECTION_RATIO,
    AUPR_ERROR,
    AUPR_SUCCESS,
    FPR_AT_TPR,
    RISK_AT_COVERAGE,
    COVERAGE_AT_RISK,
)
METRICS: dict[str, Metric] = {metric.name: metric for metric in _DEFINITIONS}
_NAMES_IN_PACKAGE = tuple(METRICS)


def metrics_shown_for(is_zero_one: bool) -> list[Metric]:
    """The metrics that a table shows when none are named, for 0/1 losses or for others."""
    shown = ("any loss", "zero_one") if is_zero_one else ("any loss",)  # and not those shown "on request"
    return [metric for metric in METRICS.values() if metric.shown_for in shown]


def register_metric(metric: Metric) -> Metric:
    """Add a metric to the table in which metrics are found by name, and return it.

    Registering a metric of the same name again replaces it, unless that is a metric of this package.

    Parameters
    ----------
    metric : Metric
        The definition.

    Returns
    -------
    Metric
        The same object.

    Raises
    ------
    InputError
        If it is no `Metric`, if its name is empty or has an @, a colon or a comma in it (which separate options and
        metrics where users write names), or if the package has a metric of this name.

    Examples
    --------
    >>> def top_risk(rows, options):
    ...     return float(rows.risk[0])
    >>> metric = Metric(
    ...     name="top_risk", label="top risk", summary="the risk at the top", lower_is_better=True, value=top_risk
    ... )
    >>> by_name(register_metric(metric).name)([1, 0, 0], [0.9, 0.5, 0.1])
    1.0
    >>> del METRICS["top_risk"]  # for the other examples
    """
    if not isinstance(metric, Metric):
        raise InputError(f"register_metric: `metric` must be an abstain.Metric, got {type(metric).__name__}.")
    if not metric.name or any(mark in metric.name for mark in "@:,"):
        raise InputError(
            f"register_metric: the name must not be empty and must have no @, colon or comma, got {metric.name!r}."
        )
    if metric.name in _NAMES_IN_PACKAGE:  # those of the package alone, without registered ones
        raise InputError(f"register_metric: {metric.name!r} is a metric of abstain. Choose another name.")
    METRICS[metric.name] = metric  # the table of all metrics by name
    return metric


def load(path: str) -> Metric:
    """Import a metric from "package.module:object" or "folder/file.py:object" and register it.

    Parameters
    ----------
    path : str
        The module, or a file whose name ends in .py, and the name of the `Metric` in it, with a colon between. A module
        that is not installed is looked for in the current folder.

    Returns
    -------
    Metric
        The registered metric.

    Raises
    ------
    InputError
        If the module cannot be imported, or holds no `Metric` of that name.

    Examples
    --------
    >>> load("math:pi")
    Traceback (most recent call last):
        ...
    abstain.errors.InputError: metrics.load: 'math:pi' must be an abstain.Metric, got float.
    """
    module_name, _, object_name = path.rpartition(":")
    try:
        if module_name.endswith(".py"):
            module = _import_file(module_name)  # ImportError where there is no such file
        else:
            module = _import_module(module_name)  # or a file below the current folder
        metric = getattr(module, object_name)
    # ValueError: without a colon the module's name is empty
    except (ImportError, AttributeError, ValueError) as problem:
        raise InputError(f"metrics.load: cannot import {path!r}: {problem}.") from None
    if not isinstance(metric, Metric):
        raise InputError(f"metrics.load: {path!r} must be an abstain.Metric, got {type(metric).__name__}.")
    return register_metric(metric)


def _import_module(name: str) -> ModuleType:
    """Import a module by its name, such as "package.module"; where there is none, run its file.

    The file is package/module.py in the current folder. Raises ImportError where there is neither.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        file = Path(*name.split(".")).with_suffix(".py")
        missing = problem.name or ""
        # otherwise the module is there, and something that it imports is missing
        is_module_itself = name == missing or name.startswith(f"{missing}.")
        if not is_module_itself or not file.is_file():
            raise
        return _import_file(str(file))


def _import_file(path: str) -> ModuleType:
    """Run a Python file as a module; raise ImportError if there is no such file."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise ImportError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_name(
    metric: str | Metric | Callable[..., Any],
    function: str = "metrics.by_name",
    further_names: Sequence[str] = (),
    aliases: Mapping[str, str] | None = None,
) -> Metric:
    """The metric of a name, with the number after an @ and the words after colons as its options.

    Parameters
    ----------
    metric : str, Metric or function
        A name such as "aurc", "risk_at_coverage@0.9" or "aurc:loo:expected"; the public function of that name; or a
        metric, which comes back as it is.
    function : str
        Who asks, for the message of an error.
    further_names : sequence of str
        Names of other metrics that the caller knows; the message lists them, too.
    aliases : mapping, optional
        Other name -> the name in `further_names` that the message suggests for it.

    Returns
    -------
    Metric

    Raises
    ------
    InputError
        For an unknown name, or for options that the metric does not take.

    Examples
    --------
    >>> by_name("risk_at_coverage@0.9").settings
    (('coverage', 0.9),)
    >>> by_name("aurc:loo").key
    'aurc:loo'
    >>> by_name("aurc:loo:expected").settings
    (('estimator', 'loo'), ('ties', 'expected'))
    """
    if isinstance(metric, Metric):
        return metric
    text = str(getattr(metric, "__name__", metric))  # of a function, its name
    head, *words = text.split(":")
    name, at, number = head.partition("@")
    if name not in METRICS:
        known_names = (*METRICS, *further_names)
        message = f"{function}: unknown metric {text!r}, the known ones are {', '.join(known_names)}."
        raise InputError(" ".join(filter(None, [message, suggest_name(name, known_names, aliases)])))
    definition = METRICS[name]
    values: dict[str, Any] = {}  # by name of the option
    if at:
        option = _option_after_at(definition)  # the one that a number sets
        if option is None:
            raise InputError(f"{function}: {name} takes no number, got {text!r}.")
        try:
            values[option.name] = option.read(number)
        except ValueError:
            wanted = "a number must stand"
            if option is COVERAGE_RANGE:
                wanted = f"two coverages with a dash between them must stand, such as {name}@0.8-1"
            raise InputError(f"{function}: after the @ {wanted}, got {text!r}.") from None
    for word in words:
        # raises InputError for a word that no option takes
        option_of_word = _option_of_word(definition, word, text, function)
        values[option_of_word.name] = word
    return definition.with_checked_options(function, values) if values else definition


def _option_after_at(metric: Metric) -> Option | None:
    """The option whose number is written after an @ in the metric's name; None where it takes none."""
    numbers = [option for option in metric.options if not option.choices]
    return numbers[0] if numbers else None


def _option_of_word(metric: Metric, word: str, text: str, function: str) -> Option:
    """The option of a metric that a word after a colon sets, as "loo" in "aurc:loo" sets the estimator.

    `text` is the whole name as the user wrote it. Raises InputError, in the name of `function`, where no option of the
    metric takes words, or none takes this one; the message speaks of the estimator, which such words set as a rule.
    """
    # options that are words have choices; options that are numbers have none
    options_of_words = [option for option in metric.options if option.choices]
    if not options_of_words:
        raise InputError(f"{function}: {metric.name} takes no estimator, got {text!r}.")
    for option in options_of_words:
        if word in option.choices:
            return option
    choices = [choice for option in options_of_words for choice in option.choices]
    listed = ", ".join(f'"{choice}"' for choice in choices)
    message = f"{function}: `estimator` must be one of {listed}, got {word!r}."
    # the suggestion is empty where no choice is similar
    raise InputError(" ".join(filter(None, [message, suggest_name(word, choices)])))
