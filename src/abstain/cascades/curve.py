"""The cost-risk curve: what an answer costs at each risk, by a cascade and by each of its stages alone."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from abstain._arrays import ArrayLike
from abstain._check import check_fraction, refuse_other_row_order
from abstain._plots import BAND_OPACITY, GREY, FigureSize, draw_legend, line_style, make_axes
from abstain._tables import Notebook, escape_controls, format_number, html_table, make_frame
from abstain.cascades.inputs import ByStage, Person, Promise, Stages, collect_data, read_stages
from abstain.cascades.measuring import PolicyMeasures, mean_with_limits, measure_policy
from abstain.cascades.search import (
    DEFAULT_CUTS,
    PolicyGrid,
    choose_cuts,
    draw_split_seed,
    find_answering_stage,
    limit_cuts,
)
from abstain.errors import InputError, import_optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FUNCTION_NAME = "cost_risk_curve"  # in messages


@dataclass(frozen=True, eq=False)
class CostRiskCurve(Notebook):
    """The least cost for each risk, over all policies of a grid; lower is better.

    Attributes
    ----------
    names : tuple of str
        The stages.
    target : ndarray
        Risks asked for, rising. The policy of each was chosen on one half of the samples.
    thresholds : ndarray, shape (targets, stages)
        Those policies; infinity where a stage is not asked.
    cost, cost_low, cost_high : ndarray
        Per sample, with a band that holds at each point by itself; from the other half.
    risk, risk_low, risk_high, coverage : ndarray
        Likewise; the risk is NaN where nothing is answered.
    alone : dict
        Cost of each stage by itself, for the same targets.
    everything : dict
        Risk and cost of each stage answering all it can: tossing a coin between two of them gives the straight line
        between these points.
    area, area_interval : float, (float, float)
        Mean cost over the risks asked for: the area under the curve divided by the width of that range.
    level : float
        Of bands and interval.
    n : int
        Samples in all.
    unit : str
        Of the costs.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> g = rng.random(2000)
    >>> stages = {"small": (rng.random(2000) > g, g, 1.0), "large": (rng.random(2000) > 0.5 + g / 2, g, 10.0)}
    >>> curve = cost_risk_curve(stages, person=(100.0, 0.0), risks=(0.2, 0.4))
    >>> bool(curve.cost[0] > curve.cost[-1]), curve.area_interval[0] < curve.area < curve.area_interval[1]
    (True, True)
    """

    names: tuple[str, ...]
    _shows_rows_spread_out: ClassVar[bool] = True

    target: np.ndarray
    thresholds: np.ndarray
    cost: np.ndarray
    cost_low: np.ndarray
    cost_high: np.ndarray
    risk: np.ndarray
    risk_low: np.ndarray
    risk_high: np.ndarray
    coverage: np.ndarray
    alone: dict[str, np.ndarray]
    everything: dict[str, tuple[float, float]]
    area: float
    area_interval: tuple[float, float]
    level: float
    n: int
    unit: str = ""

    def cost_at(self, risk: float) -> float:
        """The least cost found for this risk; infinite below the smallest asked for."""
        below = self.target <= risk
        return float(self.cost[below].min()) if below.any() else math.inf

    def risk_at(self, cost: float) -> float:
        """The least risk asked for whose policy costs no more than this; NaN where none does."""
        within = self.cost <= cost
        return float(self.target[within].min()) if within.any() else math.nan

    def frame(self, library: str | None = None) -> Any:
        """One row per risk asked for."""
        columns: Any = {name: getattr(self, name).tolist() for name in ("target", *PolicyMeasures._fields)}
        columns |= {f"threshold of {name}": x.tolist() for name, x in zip(self.names, self.thresholds.T)}
        return make_frame(columns, library)

    def plot(self, ax: Axes | None = None, *, size: FigureSize | None = None) -> Axes:
        """Draw cost against the risk asked for, with its band, the stages alone, and a coin tossed between stages.

        `target` are the risks asked for, rising; the costs are those of the policy that was chosen for each, and in
        `alone`, by stage, those of the best policy that asks this stage only. Draws on `ax`, or on a new figure of this
        `size` ("column", "page" or inches; None for the screen), and returns the axes. Costs are per sample, in `unit`;
        `cost_low` and `cost_high` are the limits of the band, one entry per risk as `cost` has.
        """
        drawn: Any = make_axes(ax, size=size)
        cascade_colour = line_style(0).color
        drawn.fill_between(
            self.target, self.cost_low, self.cost_high, color=cascade_colour, alpha=BAND_OPACITY, lw=0
        )
        drawn.plot(self.target, self.cost, color=cascade_colour, label="cascade")
        for line_number, (name, cost) in enumerate(self.alone.items(), start=1):
            label = f"{escape_controls(name)} alone"
            drawn.plot(self.target, cost, lw=1, label=label, **line_style(line_number)._asdict())
        # `everything` holds the risk and cost of each stage by itself if it answers all it can. A coin that chooses
        # between two stages lies on the line between them.
        coin_risk, coin_cost = np.asarray(list(self.everything.values())).T
        drawn.plot(coin_risk, coin_cost, "o:", color=GREY, lw=1, ms=4, label="a coin between the stages")
        drawn.set(
            xlabel="risk", ylabel=f"cost per sample {escape_controls(self.unit)}".strip(), ylim=(0, None)
        )
        drawn.set_xlim(min(self.target[0], coin_risk.min()), max(self.target[-1], coin_risk.max()))
        drawn.grid(alpha=0.3)
        draw_legend(drawn)
        return drawn

    def to_html(self) -> str:
        """Return an HTML section with the picture and a table of seven risks.

        It can be added to a report by `more=` of `abstain.report.save_page`. Costs are per sample; `target` are the
        risks asked for, `cost_low` and `cost_high` are the limits of the costs, and `alone` holds by stage the cost of
        the best policy that asks this stage only. All have one entry per risk. The picture is an SVG inside the page.
        """
        drawn: Any = self.plot()
        svg_file = io.StringIO()
        drawn.figure.savefig(svg_file, format="svg", metadata={"Date": None})
        import_optional("matplotlib.pyplot", feature="Plotting", extra="plot").close(drawn.figure)
        rows_in_table = np.unique(np.linspace(0, len(self.target) - 1, 7).astype(np.int64))  # evenly spaced
        columns = {"risk": self.target, "cost": self.cost, "from": self.cost_low, "to": self.cost_high}
        columns |= {f"{name} alone": cost for name, cost in self.alone.items()}
        cells = {}
        for name, values in columns.items():
            cells[name] = [format_number(value) for value in values[rows_in_table]]
        table = html_table(cells, repr(self))  # columns by heading, and the caption
        svg_text = svg_file.getvalue()
        picture = svg_text[svg_text.index("<svg") :]  # without the XML declaration
        return f'<section id="cascade"><h2>What an answer costs</h2>{picture}{table}</section>'

    def __repr__(self) -> str:
        low, high = self.area_interval
        mean_cost = f"mean cost {self.area:.4g} [{low:.4g}, {high:.4g}] {self.unit}".strip()
        risk_range = f"over risks from {self.target[0]:.4g} to {self.target[-1]:.4g}"
        return f"CostRiskCurve({', '.join(self.names)}, n = {self.n}): {mean_cost} {risk_range}"


@refuse_other_row_order
def cost_risk_curve(
    stages: Stages,
    /,
    *,
    person: Person,
    risks: tuple[float, float] | None = None,
    promise: Promise = "answered",
    bounded: tuple[float, float] = (0, 1),
    abstained: ByStage | None = None,
    clusters: ArrayLike | None = None,
    points: int = 60,
    cuts: int = DEFAULT_CUTS,
    level: float = 0.95,
    unit: str = "",
    labels: ArrayLike | None = None,
    rng: int | np.random.Generator = 0,
) -> CostRiskCurve:
    r"""The least cost of an answer for each risk, over all policies of a grid; lower is better.

    .. math:: C(r) = E[\mathrm{cost}(\pi_r)], \qquad \pi_r = \arg\min_{\pi : R(\pi) \le r} E[\mathrm{cost}(\pi)]

    Policies are chosen on one half of the samples and measured on the other, so that the bands are not too low from the
    choice. Nothing is promised; that is what `cascade` is for.

    Parameters
    ----------
    stages, person, promise, bounded, abstained, clusters, cuts, unit, labels
        As for `cascade`.
    risks : (float, float), optional
        The range of risks; by default from the least to that of the cheapest policy, as the first half has it.
    points : int
        Risks in that range.
    level : float
        Of the bands, each point by itself, and of the interval of the area.
    rng : int or Generator
        How the samples are split.

    Returns
    -------
    CostRiskCurve

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> g = rng.random(2000)
    >>> curve = cost_risk_curve({"only": (rng.random(2000) > g, g, 1.0)}, person=(10.0, 0.0), risks=(0.1, 0.5))
    >>> curve.target[[0, -1]].tolist(), bool(abs(curve.cost_at(0.1) - 9) < 1), curve.risk_at(2.0) > 0.3
    ([0.1, 0.5], True, True)
    """
    level = check_fraction(FUNCTION_NAME, "level", level, open_high=True)
    described = read_stages(FUNCTION_NAME, stages, labels, scores=None, units="key")
    entries = {
        name: stage.loss_confidence_cost for name, stage in described.items()
    }  # (loss, confidence, cost)
    data = collect_data(
        FUNCTION_NAME, entries, person, promise, bounded, abstained=abstained, clusters=clusters
    )
    choosing, measuring = data.split(first_share=0.5, seed=draw_split_seed(rng))
    if min(choosing.sample_count, measuring.sample_count) < 2:
        counts = f"{choosing.sample_count} and {measuring.sample_count}"
        raise InputError(f"{FUNCTION_NAME}: needs at least two samples in each half, got {counts}.")
    grid = PolicyGrid(choosing, choose_cuts(choosing, limit_cuts(data.stage_count, cuts)))
    cost = grid.total_costs().reshape(-1) / choosing.sample_count
    risk, has_answers = _smoothed_risks(grid)
    if risks is None:
        least_risk = float(risk[has_answers].min())
        largest_risk = float(risk[np.argmin(cost)])
    else:
        least_risk, largest_risk = risks
    if data.promise_includes_person and least_risk < risk.min():
        raise InputError(
            f"{FUNCTION_NAME}: `risks` must not go below {risk.min():.4g}, the least that is seen."
        )
    target = np.linspace(least_risk, largest_risk, points)

    def choose_policies(candidates: np.ndarray) -> list[tuple[float, ...]]:
        return [grid.thresholds_of(policy) for policy in find_cheapest(cost, risk, candidates, target)]

    chosen = choose_policies(np.arange(cost.size))
    measures_by_policy = {policy: measure_policy(measuring, policy, level) for policy in set(chosen)}
    measures = np.asarray([measures_by_policy[policy] for policy in chosen]).T
    measure_columns: dict[str, Any] = dict(zip(PolicyMeasures._fields, measures))
    everything = {}
    alone = {}
    for stage, name in enumerate(data.names):
        single_stage_policies = grid.single_stage_policies(stage)
        # the first has a threshold of minus infinity: the stage answers all it can
        answer_all = measure_policy(measuring, grid.thresholds_of(single_stage_policies[0]), level=None)
        everything[name] = (answer_all.risk, answer_all.cost)
        single_stage_chosen = choose_policies(single_stage_policies)
        alone[name] = np.asarray(
            [measure_policy(measuring, policy, level=None).cost for policy in single_stage_chosen]
        )
    cost_of_samples = np.zeros(measuring.sample_count)
    for policy in chosen:
        answering = find_answering_stage(measuring.confidences, policy)
        cost_of_samples += measuring.cost_of_answers(answering, policy)
    area, area_low, area_high = mean_with_limits(cost_of_samples / points, measuring.clusters, level)
    return CostRiskCurve(
        **measure_columns,
        names=data.names,
        target=target,
        thresholds=np.asarray(chosen),
        alone=alone,
        everything=everything,
        area=area,
        area_interval=(area_low, area_high),
        level=level,
        n=data.sample_count,
        unit=unit,
    )


def _smoothed_risks(grid: PolicyGrid) -> tuple[np.ndarray, np.ndarray]:
    """Risk of every policy by smoothed losses, on the user's scale, and whether the policy answers anything.

    A policy is one threshold per stage; both arrays have one entry per policy, the last of which asks no stage. The
    risk is the mean loss of the answers that the promise counts, the largest possible loss if there are none.
    """
    count = grid.count_counted_answers().reshape(-1)
    total_loss = grid.sum_of_expected_losses().reshape(-1)
    scaled_risk = np.where(count > 0, total_loss / np.maximum(count, 1.0), 1.0)
    return grid.data.to_user_scale(scaled_risk), count > 0


def find_cheapest(
    cost: np.ndarray, risk: np.ndarray, candidates: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """Find, for each target risk, the flat index of the cheapest candidate whose risk is at most that.

    A policy is one threshold per stage; a flat index counts the policies of the grid from 0. If no candidate keeps a
    risk, the result is the last policy of the grid, which leaves everything to the person. `candidates` must not be
    empty.

    Parameters
    ----------
    cost, risk : ndarray
        Of every policy of the grid, flat. The last policy asks no stage.
    candidates : ndarray of int
        Flat indices of the policies to choose from.
    target : ndarray
        Risks asked for, in any order, on the scale of `risk`.
    """
    cheapest_first = candidates[np.argsort(cost[candidates], kind="stable")]
    # The cheapest policy that keeps a target is the first in this order with a risk of at most that, which is where the
    # running minimum of the risks first is. The minimum falls, so its negative rises and can be searched.
    least_risk_so_far = np.minimum.accumulate(risk[cheapest_first])
    position = np.searchsorted(-least_risk_so_far, -target, side="left")
    last_position = len(cheapest_first) - 1  # a larger position means that no candidate keeps the risk
    leave_all_to_person = cost.size - 1  # flat index of the last policy
    return np.where(
        position <= last_position, cheapest_first[np.minimum(position, last_position)], leave_all_to_person
    )
