# %% [markdown]
# # Detections: precision, recall, and a threshold for each class
#
# For an engineer with a detector that proposes boxes with scores. Somebody must choose the score from which boxes count.
#
# - **You have** the boxes with their scores and classes, and for each box whether a true box of its class overlaps with it.
# - **You want** a precision that you can promise, in every class.
# - **You do**: take a box as a sample (the loss is 1 if it is wrong, the confidence is its score) and an image as what is
#   drawn.
#
# If `ABSTAIN_DATA` is a folder with `beyond/`, these are the boxes with a score of at least 0.3 that two networks find on
# the 5,000 images of COCO val2017 (IoU of at least 0.60; calibration-framework, Apache-2.0; annotations CC BY 4.0).
# Otherwise boxes are simulated, and your numbers will differ from those on this page. The first line of output says which
# data were used.

# %%
import os
from collections import namedtuple
from pathlib import Path

import numpy as np

import abstain
from abstain.evaluation import precision_recall

Boxes = namedtuple("Boxes", "right score image category")  # one entry per box in each
# numbers of COCO
CLASSES = {1: "person", 3: "car", 7: "train", 17: "cat", 18: "dog", 25: "giraffe"}


def read_real(path):
    """Boxes of one network; classes that are not listed are called "other"."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    columns = {
        name: table[name].to_numpy() for name in ("matched", "score", "image", "cls")
    }
    names = np.array([CLASSES.get(number, "other") for number in columns["cls"].tolist()])
    return Boxes(
        columns["matched"], columns["score"].astype(float), columns["image"], names
    )


def simulate(seed, sharpness):
    """Boxes of 1,500 images; the boxes of one image are blurred together."""
    rng = np.random.default_rng(seed)
    image = np.repeat(np.arange(1500), rng.integers(1, 10, 1500))
    names = rng.choice(
        [*CLASSES.values(), "other"],
        len(image),
        p=[0.4, 0.2, 0.05, 0.05, 0.05, 0.05, 0.2],
    )
    blur = rng.normal(scale=0.8, size=1500)[image]
    score = rng.uniform(0.3, 1.0, len(image))
    right = rng.random(len(image)) < 1 / (1 + np.exp(-sharpness * (score - 0.6) + blur))
    return Boxes(right, score, image, names)


folder = Path(os.environ.get("ABSTAIN_DATA", "")) / "beyond"
print(
    "Data:",
    "boxes on COCO val2017, from ABSTAIN_DATA." if folder.exists() else "simulated.",
)
if folder.exists():
    files = {"Faster R-CNN": "faster-rcnn-resnet-50", "SSD": "ssd-resnet-50"}
    boxes = {
        name: read_real(folder / f"coco_{file}_iou60.parquet")
        for name, file in files.items()
    }
else:
    boxes = {
        "simulated A": simulate(1, sharpness=8.0),
        "simulated B": simulate(2, sharpness=12.0),
    }
for name, found in boxes.items():
    counts = f"{len(found.right):,} boxes on {len(np.unique(found.image)):,} images"
    print(f"{name}: {counts}, {found.right.mean():.1%} right")

# %% [markdown]
# ## Boxes of one image are not independent
#
# If an image is blurred, all of its boxes are worse. So the draws are images: `clusters=image`.

# %%
for name, found in boxes.items():
    for unit, clusters in (("images", found.image), ("boxes", None)):
        area = abstain.interval("aurc", ~found.right, found.score, clusters=clusters)
        interval = f"{area.estimate:.4f} [{area.low:.4f}, {area.high:.4f}]"
        print(f"{name:<13} AURC {interval}, {unit} as draws")

# %% [markdown]
# ## Precision, recall, F1
#
# `precision_recall` gives what people who detect report, with intervals by image. The recall is relative to the true boxes
# that the network finds with a score of at least 0.3. To count the others, add a row for each, right and with a confidence
# of 0.

# %%
print("               coverage  precision             recall                F1")
for name, found in boxes.items():
    table = precision_recall(
        found.right, found.score, thresholds=[0.3, 0.5, 0.7, 0.9], clusters=found.image
    )
    print(name)
    for threshold in table.scores:
        entries = {entry.metric: entry for entry in table.select(score=threshold)}
        cells = []
        for metric in ("precision", "recall", "f1"):
            entry = entries[metric]
            cells.append(f"{entry.estimate:.3f} [{entry.low:.3f}, {entry.high:.3f}]")
        coverage = f"{entries['coverage'].estimate:.2f}"
        print(f"  {threshold:<12} {coverage:<9} {'  '.join(cells)}")

# %% [markdown]
# The same score means different things for different networks. Compare networks at a coverage or by a curve, not at a score:

# %%
# Share of wrong boxes among the accepted, against coverage: two networks
curves = {
    name: abstain.risk_coverage_curve(~b.right, b.score) for name, b in boxes.items()
}
ax = abstain.RiskCoverageDisplay.from_curves(curves).plot(size=(6.4, 3.4))
_ = ax.set(
    ylabel="1 - precision",
    xlabel="coverage (share of the boxes with a score of at least 0.3)",
)

# %% [markdown]
# ## A threshold for each class, with a guarantee
#
# One threshold for all classes is too low for some and too high for others. This promises a precision of at least 65% in
# each of six classes, all at once with probability 90%, for whole images:

# %%
for name, found in boxes.items():
    listed = found.category != "other"
    rules = abstain.select_threshold(
        ~found.right[listed],
        found.score[listed],
        risk=0.35,
        delta=0.1,
        groups=found.category[listed],
        clusters=found.image[listed],
    )
    print(name)
    for label in rules.worst_first():
        rule = rules[label]
        verdict = "none"
        if rule.feasible:
            verdict = f"score >= {rule.value:.3f}, coverage {rule.coverage:.2f},"
            verdict += f" precision {1 - rule.risk:.2f}"
        print(f"  {label:<8} {rule.n:6,} boxes: {verdict}")

# %% [markdown]
# The worst class comes first. Where it says none, the boxes do not prove the promise, whatever precision they show: there
# are few boxes, several in one image, and a sixth of the 10% for each class. The precision in the table is that of these
# boxes; the promise is about later images.
#
# ## Does the promise hold on other images?
#
# Half of the images choose the threshold for people (second network), the other half check it, in 20 random splits. At most about two of
# twenty may fail.

# %%
found = list(boxes.values())[1]
people = found.category == "person"
wrong, sure, photo = ~found.right[people], found.score[people], found.image[people]
rng = np.random.default_rng(0)
photos = np.unique(photo)
broken = chosen = 0
for _ in range(20):
    calibration = np.isin(photo, rng.permutation(photos)[: len(photos) // 2])
    rule = abstain.select_threshold(
        wrong[calibration],
        sure[calibration],
        risk=0.35,
        delta=0.1,
        clusters=photo[calibration],
    )
    if rule.feasible:
        chosen += 1
        accepted = rule.accepts(sure[~calibration])
        broken += int(wrong[~calibration][accepted].mean() > 0.35)
print(f"{chosen} of 20 splits gave a threshold;", end=" ")
print(f"on the other half the promise was broken in {broken} of them")

# %% [markdown]
# ## What it says, and what it does not say
#
# - It says how many of the proposed boxes are right. It says nothing about objects that got no box at all.
# - It holds for images like those that chose the thresholds: the same cameras, places and seasons.
#
# Next: [ship a threshold](../ship.md), [figures for papers](../figures.md).
