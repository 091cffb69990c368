"""Pictures of thresholds and costs; matplotlib is imported here and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from abstain.errors import MissingDependencyError

if TYPE_CHECKING:
    from abstain.thresholds.costs import CostCurve
    from abstain.thresholds.threshold import Threshold


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingDependencyError("plot()", "matplotlib", "plot") from error
    return plt.subplots()[1]


def plot_threshold(t: Threshold, ax: Any = None) -> Any:
    """Risk against coverage at the candidates; what passed is drawn solid."""
    ax = _axes(ax)
    table = t.table
    ax.plot(table.coverage, table.risk, color="0.6", lw=1, label="calibration risk")
    ax.plot(table.coverage[table.passed], table.risk[table.passed], ".", color="C0", ms=4, label="passed")
    if t.form == "risk":
        ax.axhline(t.target, color="C3", ls="--", lw=1, label=f"target {t.target:g}")
    if t.value is not None:
        ax.plot([t.coverage], [t.risk], "o", color="C2", label=f"chosen: {t.rule}")
    ax.set(xlabel="coverage", ylabel="risk of the accepted", xlim=(0, 1), ylim=(0, None))
    ax.set_title("guaranteed" if t.guarantee else "no guarantee" if t.feasible else "no feasible threshold")
    ax.legend(fontsize="small")
    return ax


def plot_costs(curve: CostCurve, ax: Any = None) -> Any:
    """Cost and its parts against coverage, the least marked."""
    ax = _axes(ax)
    ax.plot(curve.coverage, curve.cost, color="C0", label="cost")
    ax.plot(curve.coverage, curve.model_cost, color="C3", lw=1, ls=":", label="model errors")
    ax.plot(curve.coverage, curve.reject_cost, color="0.5", lw=1, ls=":", label="rejections")
    if curve.human_loss.any():
        ax.plot(curve.coverage, curve.system_loss, color="C1", lw=1, ls="--", label="loss of the system")
    b = curve.best
    ax.plot([curve.coverage[b]], [curve.cost[b]], "o", color="C2", label=f"least: {curve.cost[b]:.4g}")
    ax.set(xlabel="coverage of the model", ylabel="per sample", xlim=(0, 1), ylim=(0, None))
    ax.legend(fontsize="small")
    return ax
