"""Box plots of batch estimates under each confidence score."""

from __future__ import annotations

from typing import Any

from abstain._arrays import Array
from abstain.paper.figures.style import COLOURS, NAMES
from abstain.paper.study.scores import SCORES


def boxes(axis: Array, models: list[dict[str, Any]], loss: str) -> None:
    """For every score one box per estimator (5, 25, 50, 75, 95 percent) and a bar at the population value."""
    study = models[0]["scores"]
    scores = [s for s in SCORES if s in study]
    for i, score in enumerate(scores):
        here = study[score][loss]
        for k, name in enumerate(NAMES):
            low, first, middle, third, high = here["estimators"][name]["quantiles"]
            drawn = axis.bxp(
                [{"whislo": low, "q1": first, "med": middle, "q3": third, "whishi": high}],
                positions=[i + 0.16 * (k - 2)], widths=0.13, showfliers=False, patch_artist=True,
                medianprops={"color": "black", "linewidth": 0.8}, manage_ticks=False,
                whiskerprops={"linewidth": 0.5}, capprops={"linewidth": 0.5},
            )  # fmt: skip
            drawn["boxes"][0].set(
                facecolor=COLOURS[name], linewidth=0.4, label=NAMES[name] if i == 0 else None
            )
        axis.hlines(here["population"], i - 0.45, i + 0.45, color="black", linestyle="--", linewidth=0.9)
    axis.set_xticks(range(len(scores)), [SCORES[s] for s in scores], rotation=40, ha="right", fontsize=6)
    axis.tick_params(axis="y", labelsize=7)
    axis.grid(axis="y", alpha=0.25, linewidth=0.5)
