"""The promise on real model outputs: 100 random calibration/test splits per model, table and picture.

ABSTAIN_DATA=... python benchmarks/thresholds_real.py [--plot docs/images/thresholds_real.png]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from rich.progress import track

import abstain

SPLITS = 100
DELTA = 0.05
MODELS = {  # file: target risks
    "cifar10__resnet20__akamaster": (0.01, 0.02, 0.05),
    "cifar10__wrn28-1__karanchahal": (0.01, 0.02, 0.05),
    "cifar100__resnet20__karanchahal": (0.02, 0.05, 0.10),
    "cifar100__vgg19_bn__chenyaofo_luferrer": (0.02, 0.05, 0.10),
    "imagenet5k__efficientnet-lite2": (0.02, 0.05, 0.10),
    "amazon2023__tfidf-logreg": (0.05, 0.10, 0.20),
    "agnews__gpt2_zeroshot__luferrer": (0.10, 0.20),
}
METHODS = ("ltt", "sgr", "empirical")


def load(folder, name):
    z = np.load(folder / "logits" / f"{name}.npz")
    logits = z["logits"].astype(np.float64) if "logits" in z.files else None
    labels = z["labels"].astype(np.int64)
    probs = None if logits is not None else z["probs"]
    g = abstain.scores.max_softmax(logits) if logits is not None else abstain.scores.max_softmax(probs=probs)
    return (logits if probs is None else probs).argmax(1) != labels, g


def redrawn(wrong, g, risk, method, seed):
    """Risk over the whole file of a threshold calibrated on draws from it, with replacement."""
    some = np.random.default_rng(10_000 + seed).integers(0, len(wrong), len(wrong) // 2)
    t = abstain.select_threshold(wrong[some], g[some], risk=risk, delta=DELTA, method=method)
    taken = t.accepts(g)
    return wrong[taken].mean() if taken.any() else 0.0


def study(folder):
    rows = []
    for name, risks in track(MODELS.items(), description="models"):
        wrong, g = load(folder, name)
        n = len(wrong)
        for risk in risks:
            got = {m: [] for m in METHODS}
            best = []
            for seed in range(SPLITS):
                order = np.random.default_rng(seed).permutation(n)
                cal, test = order[: n // 2], order[n // 2 :]
                best.append(abstain.coverage_at_risk(wrong[test], g[test], risk=risk))
                for m in METHODS:
                    t = abstain.select_threshold(wrong[cal], g[cal], risk=risk, delta=DELTA, method=m)
                    taken = t.accepts(g[test])
                    test_risk = wrong[test][taken].mean() if taken.any() else 0.0
                    got[m].append((taken.mean(), test_risk, redrawn(wrong, g, risk, m, seed)))
            for m in METHODS:
                c, r, whole = np.asarray(got[m]).T
                over = (float((whole > risk).mean()), float((r > risk).mean()))
                rows.append((name, n // 2, risk, m, over, float(c.mean()), float(np.mean(best)), c, r))
    return rows


def report(rows):
    print(
        "| model | n calibration | r* | method | true risk > r* | risk on the test half > r* | mean coverage "
        "| best on the test half |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, n, risk, m, over, coverage, best, *_ in rows:
        print(
            f"| {name} | {n} | {risk:.0%} | {m} | {over[0]:.2f} | {over[1]:.2f} | {coverage:.3f} | {best:.3f} |"
        )


def draw(rows, path):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = [name for name in MODELS if any(r[0] == name for r in rows)]
    fig, axes = plt.subplots(2, 4, figsize=(15, 7), layout="constrained")
    for ax, name in zip(axes.flat, names):
        for row in rows:
            if row[0] == name:
                style = {"ltt": ("C0", "o"), "sgr": ("C2", "^"), "empirical": ("C3", "x")}[row[3]]
                ax.scatter(row[7], row[8], s=8, c=style[0], marker=style[1], alpha=0.5, label=row[3])
                ax.axhline(row[2], color="0.4", lw=0.6, ls="--")
        ax.set_title(name.rsplit("__", 1)[0] if name.count("__") > 1 else name, fontsize=9)
        ax.set(xlabel="coverage (test half)", ylabel="risk of the accepted (test half)")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    kept = dict(zip(labels, handles))
    axes.flat[-1].axis("off")
    axes.flat[-1].legend(
        kept.values(), kept.keys(), loc="center", title="one dot per split, dashed: target risks"
    )
    fig.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    found = study(Path(os.environ["ABSTAIN_DATA"]))
    report(found)
    if options.plot:
        draw(found, options.plot)
