"""The picture of the README, from the model outputs that come with the package: `python docs/generate/first_look.py`.

It is committed, because the README shows it without a build of the site.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import abstain
from abstain.inference import curve_band

STYLE = {
    "figure.figsize": (6.4, 3.6),
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
FIRST_COVERAGE = 0.05  # where the lines begin: below it a curve has fewer than 500 images
RISK = 0.01


def load_samples(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the 0/1 losses and the confidences of one of the two bundled networks on CIFAR-10."""
    with np.load(str(files("abstain") / "data" / f"cifar10_resnet18_{name}.npz")) as data:
        logits = data["logits"].astype(np.float64)
        labels = data["labels"]
    return abstain.losses.zero_one(logits, labels), abstain.scores.max_softmax(logits)


def percent_from(coverage: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
    """Return coverages from `FIRST_COVERAGE` on, and the values that belong to them, in percent."""
    is_shown = np.asarray(coverage) >= FIRST_COVERAGE
    return [100 * np.asarray(column)[is_shown] for column in (coverage, *values)]


def draw(ax: plt.Axes) -> None:
    """Draw the curves of both networks, the threshold for an error rate of at most 1%, and labels for them."""
    samples_a = load_samples("aurc")
    curve_a = abstain.risk_coverage_curve(*samples_a)
    curve_b = abstain.risk_coverage_curve(*load_samples("ce"))
    band = curve_band(*samples_a, replicates=500, rng=0)
    rule = abstain.select_threshold(*samples_a, risk=RISK)
    error_rate = float(curve_a.risk[-1])
    rule_coverage = 100 * rule.coverage

    coverage, low, high = percent_from(band.coverage, band.low, band.high)
    ax.fill_between(coverage, low, high, color="C0", alpha=0.18, lw=0)
    ax.plot(*percent_from(curve_b.coverage, curve_b.risk), "0.55", ls="--")
    ax.plot(*percent_from(curve_a.coverage, curve_a.risk), "C0", lw=2)
    ax.plot([0, rule_coverage, rule_coverage], [100 * RISK, 100 * RISK, 0], color="C3", lw=1, ls=":")
    ax.plot(rule_coverage, 100 * rule.risk, "o", color="C3", zorder=4)
    ax.plot(100, 100 * error_rate, "o", color="C0", zorder=4, clip_on=False)
    arrow = {"arrowstyle": "-", "color": "0.5", "lw": 0.8}
    ax.annotate(
        f"answer everything:\n{error_rate:.1%} wrong",
        xy=(100, 100 * error_rate),
        xytext=(84, 4.45),
        ha="right",
        va="center",
        arrowprops=arrow,
    )
    ax.annotate(
        f"answer {rule.coverage:.0%}:\nat most {RISK:.0%} wrong,\nguaranteed with 95%",
        xy=(rule_coverage, 100 * rule.risk),
        xytext=(62, 2.35),
        ha="center",
        va="center",
        color="C3",
        arrowprops=arrow,
    )
    ax.text(22, 0.16, "network A", color="C0", va="center")
    ax.text(22, 0.45, "network B", color="0.35", va="center")
    ax.text(6, 1.25, "shaded: 95% band of network A", color="C0", va="center")
    ax.set(xlabel="share of images answered (%)", ylabel="wrong among the answered (%)")
    ax.set(xlim=(0, 100), ylim=(0, 5))


if __name__ == "__main__":
    with plt.rc_context(STYLE):
        figure, ax = plt.subplots()
        draw(ax)
        # without the version of matplotlib, so that the same picture gives the same file
        figure.savefig(
            Path(__file__).parents[1] / "images" / "first-look.png", dpi=130, metadata={"Software": None}
        )
