"""Figures of the documentation, drawn by the build from the real model outputs that come with the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

import abstain
from abstain.display import save_figure
from abstain.inference import curve_band

STYLE = {
    "figure.figsize": (6.4, 3.6),
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "abstain",  # the same picture gives the same file
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}

NAMES = ("neural-network", "logistic-regression", "random-forest", "nearest-neighbours", "naive-bayes")
ON_PAGE = (6.4, 3.6)  # inches, of a figure in the text of this site


def demo(name: str) -> tuple[np.ndarray, np.ndarray]:
    """0/1 losses and confidences of a bundled model."""
    with np.load(str(files("abstain") / "data" / "demo" / f"{name}.npz")) as data:
        probs, labels = data["probs"], data["labels"]
    return abstain.losses.zero_one(probs=probs, labels=labels), abstain.scores.max_softmax(probs=probs)


def curves() -> Any:
    """Risk against coverage of the five bundled models, with a band around the best."""
    drawn = {name: abstain.risk_coverage_curve(*demo(name)) for name in NAMES}
    band = curve_band(*demo(NAMES[0]), replicates=500, rng=0)
    ax = abstain.RiskCoverageDisplay.from_curves(drawn, {NAMES[0]: band}).plot(size=ON_PAGE)
    ax.set_ylabel("error rate of the answered")
    return ax


def one_column() -> Any:
    """Two models with a band, as docs/figures.md draws them for one column."""
    drawn = {name: abstain.risk_coverage_curve(*demo(name)) for name in ("neural-network", "naive-bayes")}
    band = curve_band(*demo("neural-network"), replicates=500, rng=0)
    ax = abstain.RiskCoverageDisplay.from_curves(drawn, {"neural-network": band}).plot(size="column")
    ax.set_ylabel("error rate of the answered")
    return ax


def log_scale() -> Any:
    """The same two models on a logarithmic scale."""
    drawn = {name: abstain.risk_coverage_curve(*demo(name)) for name in ("neural-network", "naive-bayes")}
    ax = abstain.RiskCoverageDisplay.from_curves(drawn).plot(size="column", risk_scale="log")
    ax.set_ylabel("error rate of the answered")
    return ax


def compare_all() -> abstain.Comparison:
    """The five bundled models, compared by AURC."""
    return abstain.compare({name: demo(name) for name in NAMES})


def panels() -> Any:
    """Curves and differences of the five models, as wide as a page."""
    return compare_all().plot_panels()[0]


def ranking() -> Any:
    """AURC of the five models with intervals."""
    return compare_all().plot(size="column")


def threshold() -> Any:
    """The threshold for an error rate of at most 3%."""
    return abstain.select_threshold(*demo("neural-network"), risk=0.03).plot(size="column")


def row_order() -> Any:
    """Sort and cumulate on a thousand row orders of the same predictions, beside the one number of the definition."""
    loss, confidence = demo("nearest-neighbours")
    rng = np.random.default_rng(0)
    orders = (rng.permutation(len(loss)) for _ in range(1000))
    values = [abstain.compat.row_order_aurc(loss[order], confidence[order]) for order in orders]
    together = abstain.aurc(loss, confidence)
    in_random_order = abstain.aurc(loss, confidence, ties="expected")
    _, ax = plt.subplots()
    ax.hist(values, bins=40, color="0.75", label="sort and cumulate, 1,000 row orders")
    ax.axvline(together, color="C0", lw=2, label="abstain.aurc, every order")
    ax.axvline(in_random_order, color="C1", lw=2, ls="--", label='ties="expected"')
    ax.set(xlabel="AURC of a 7-nearest-neighbours reader of digits", yticks=[])
    ax.legend(fontsize="small")
    return ax


FIGURES = {
    "curves": curves,
    "one-column": one_column,
    "log-scale": log_scale,
    "panels": panels,
    "ranking": ranking,
    "threshold": threshold,
    "row-order": row_order,
}


def draw_all(folder: Path) -> None:
    """Write every figure as an SVG file."""
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        for name, draw in FIGURES.items():
            save_figure(draw(), folder / f"{name}.svg")
            plt.close("all")


if __name__ == "__main__":
    draw_all(Path(__file__).parents[1] / "_generated")
