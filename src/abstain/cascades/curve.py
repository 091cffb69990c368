"""What an answer costs at each risk: the cost-risk curve of a cascade, beside its stages alone."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from abstain._arrays import Array
from abstain._check import check_fraction
from abstain._plots import axes
from abstain._tables import Notebook, frame, html_table, number, visible
from abstain.cascades.build import (
    ByStage,
    Measured,
    Person,
    Promise,
    Stages,
    mean_of,
    measure,
    readings_of,
    setting_of,
)
from abstain.cascades.search import CUTS, Tables, answerer, cuts_allowed, cuts_of, seed_of
from abstain.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME = "cost_risk_curve"


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
    _rows_all_along: ClassVar[bool] = True

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
        columns: Any = {name: getattr(self, name).tolist() for name in ("target", *Measured._fields)}
        columns |= {f"threshold of {name}": x.tolist() for name, x in zip(self.names, self.thresholds.T)}
        return frame(columns, library)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Cost against the risk asked for, with its band, the stages alone, and what a coin between them gives."""
        drawn: Any = axes(ax)
        drawn.fill_between(self.target, self.cost_low, self.cost_high, color="C0", alpha=0.25, lw=0)
        drawn.plot(self.target, self.cost, color="C0", label="cascade")
        for k, (name, cost) in enumerate(self.alone.items(), 1):
            drawn.plot(self.target, cost, color=f"C{k}", lw=1, ls="--", label=f"{visible(name)} alone")
        ends = np.asarray(list(self.everything.values()))
        drawn.plot(ends[:, 0], ends[:, 1], "o:", color="0.5", lw=1, ms=4, label="a coin between the stages")
        drawn.set(xlabel="risk", ylabel=f"cost per sample {visible(self.unit)}".strip(), ylim=(0, None))
        drawn.set_xlim(min(self.target[0], ends[:, 0].min()), max(self.target[-1], ends[:, 0].max()))
        drawn.legend(fontsize="small")
        return drawn

    def to_html(self) -> str:
        """A section for a page (`more=` of `abstain.report.save_page`): the picture, and a table of some risks."""
        drawn: Any = self.plot()
        text = io.StringIO()
        drawn.figure.savefig(text, format="svg", metadata={"Date": None})
        some = np.unique(np.linspace(0, len(self.target) - 1, 7).astype(np.int64))
        columns = {"risk": self.target, "cost": self.cost, "from": self.cost_low, "to": self.cost_high}
        columns |= {f"{name} alone": cost for name, cost in self.alone.items()}
        table = html_table({name: [number(x[k]) for k in some] for name, x in columns.items()}, repr(self))
        picture = text.getvalue()[text.getvalue().index("<svg") :]
        return f'<section id="cascade"><h2>What an answer costs</h2>{picture}{table}</section>'

    def __repr__(self) -> str:
        low, high = self.area_interval
        told = f"mean cost {self.area:.4g} [{low:.4g}, {high:.4g}] {self.unit}".strip()
        over = f"over risks from {self.target[0]:.4g} to {self.target[-1]:.4g}"
        return f"CostRiskCurve({', '.join(self.names)}, n = {self.n}): {told} {over}"


def cost_risk_curve(
    stages: Stages,
    /,
    *,
    person: Person,
    risks: tuple[float, float] | None = None,
    promise: Promise = "answered",
    bounded: tuple[float, float] = (0, 1),
    abstained: ByStage | None = None,
    clusters: Array | None = None,
    points: int = 60,
    cuts: int = CUTS,
    level: float = 0.95,
    unit: str = "",
    labels: Array | None = None,
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
    level = check_fraction(_NAME, "level", level, open_high=True)
    entries = {name: stage.entry for name, stage in readings_of(_NAME, stages, labels, None, "key").items()}
    by_sample = {"abstained": abstained, "clusters": clusters}
    setting = setting_of(_NAME, entries, person, promise, bounded, **by_sample)
    first, second = setting.split(0.5, seed_of(rng))
    if min(first.n, second.n) < 2:
        raise InputError(f"{_NAME}: needs at least two samples in each half, got {first.n} and {second.n}.")
    tables = Tables(first, cuts_of(first, cuts_allowed(setting.stages, cuts)))
    count, cost = tables.answers().reshape(-1), tables.costs().reshape(-1) / first.n
    lost = tables.smooth_losses().reshape(-1)
    seen = setting.unscaled(np.where(count > 0, lost / np.maximum(count, 1.0), 1.0))
    least, most = risks or (float(seen[count > 0].min()), float(seen[np.argmin(cost)]))
    if setting.system and least < seen.min():
        raise InputError(f"{_NAME}: `risks` must not go below {seen.min():.4g}, the least that is seen.")
    target = np.linspace(least, most, points)

    def policies(among: np.ndarray) -> list[tuple[float, ...]]:
        return [tables.thresholds(k) for k in cheapest(cost, seen, among, target)]

    chosen = policies(np.arange(cost.size))
    measured = {policy: measure(second, policy, level) for policy in set(chosen)}
    found: dict[str, Any] = dict(zip(Measured._fields, np.asarray([measured[p] for p in chosen]).T))
    everything, alone = {}, {}
    for j, name in enumerate(setting.names):
        full = measure(second, tables.thresholds(tables.alone(j)[0]), None)
        everything[name] = full.risk, full.cost
        alone[name] = np.asarray([measure(second, policy, None).cost for policy in policies(tables.alone(j))])
    each = sum(second.spent(answerer(second.confidence, policy), policy) for policy in chosen) / points
    area, low, high = mean_of(np.asarray(each), second.clusters, level)
    found |= {"target": target, "thresholds": np.asarray(chosen), "alone": alone, "everything": everything}
    found |= {"area": area, "area_interval": (low, high), "level": level}
    return CostRiskCurve(**found, names=setting.names, n=setting.n, unit=unit)


def cheapest(cost: np.ndarray, risk: np.ndarray, among: np.ndarray, target: np.ndarray) -> np.ndarray:
    """For each target the cheapest policy of that risk; the last policy of all, a person alone, where there is none."""
    order = among[np.argsort(cost[among], kind="stable")]
    best = np.minimum.accumulate(risk[order])
    place = np.searchsorted(-best, -target, side="left")
    return np.where(place < len(order), order[np.minimum(place, len(order) - 1)], cost.size - 1)
