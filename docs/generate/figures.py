"""Figures of the documentation, drawn by the build from the real model outputs that come with the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

import abstain
from abstain.inference import curve_band

STYLE = {
    "figure.figsize": (6.4, 3.6),
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "abstain",  # the same picture gives the same file
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def demo(name: str) -> tuple[np.ndarray, np.ndarray]:
    """0/1 losses and confidences of a bundled model."""
    with np.load(str(files("abstain") / "data" / "demo" / f"{name}.npz")) as data:
        probs, labels = data["probs"], data["labels"]
    return abstain.losses.zero_one(probs=probs, labels=labels), abstain.scores.max_softmax(probs=probs)


def curves(ax: plt.Axes) -> None:
    """Risk against coverage of the five bundled models, with a band around the best."""
    names = ("neural-network", "logistic-regression", "random-forest", "nearest-neighbours", "naive-bayes")
    found = {name: abstain.risk_coverage_curve(*demo(name)) for name in names}
    band = curve_band(*demo(names[0]), replicates=500, rng=0)
    abstain.RiskCoverageDisplay.from_curves(found, {names[0]: band}).plot(ax)
    ax.set_ylabel("error rate of the answered")


def threshold(ax: plt.Axes) -> None:
    """The threshold for an error rate of at most 3%."""
    abstain.select_threshold(*demo("neural-network"), risk=0.03).plot(ax)


def row_order(ax: plt.Axes) -> None:
    """Sort and cumulate on a thousand row orders of the same predictions, beside the one number of the definition."""
    loss, confidence = demo("nearest-neighbours")
    rng = np.random.default_rng(0)
    orders = (rng.permutation(len(loss)) for _ in range(1000))
    values = [abstain.compat.row_order_aurc(loss[o], confidence[o]) for o in orders]
    ax.hist(values, bins=40, color="0.75", label="sort and cumulate, 1,000 row orders")
    ax.axvline(abstain.aurc(loss, confidence), color="C0", lw=2, label="abstain.aurc, every order")
    ax.axvline(
        abstain.aurc(loss, confidence, ties="expected"), color="C1", lw=2, ls="--", label='ties="expected"'
    )
    ax.set(xlabel="AURC of a 7-nearest-neighbours reader of digits", yticks=[])
    ax.legend(fontsize="small")


FIGURES = {"curves": curves, "threshold": threshold, "row-order": row_order}


def draw_all(folder: Path) -> None:
    """Write every figure as an SVG file."""
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        for name, draw in FIGURES.items():
            figure, ax = plt.subplots()
            draw(ax)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            plt.close(figure)


if __name__ == "__main__":
    draw_all(Path(__file__).parents[1] / "_generated")
