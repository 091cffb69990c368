"""Compare every stored CIFAR-10 model and write the page docs/cifar10-comparison.md.

    ABSTAIN_DATA=folder python benchmarks/compare_cifar10.py

The folder holds logits/cifar10__*.npz, each with `logits` or `probs`, and `labels`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

import abstain

HEAD = """# Twenty-five CIFAR-10 models compared

This page compares public outputs of real models on the 10,000 test images. Which of these models knows best when it is
wrong, and which differences would persist on another test set? A script writes the page:

    ABSTAIN_DATA=folder python benchmarks/compare_cifar10.py

It calls `abstain.compare` for each table below. AURC uses the maximum softmax probability, ranked from the logits (so
that nothing saturates), with 0/1 loss; lower is better. Intervals are on the log scale. Differences are tested on the
same images, sample by sample. Their intervals and p-values have Holm's correction for the number of pairs.

How to read the tables: `rank` is the range of true ranks that the tests allow for a model. Models that share a letter
in `group` do not differ significantly. Names are model / publisher. One caution: resnet20 / laodao is better than most
models of its kind, and its checkpoint was chosen by accuracy, perhaps on these same images. No interval can correct for
that.
"""


def read(folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, logits and labels of each file; probabilities become logits by their logarithm."""
    for path in sorted(folder.glob("cifar10__*.npz")):
        with np.load(path) as stored:
            name = path.stem.removeprefix("cifar10__").replace("__", " / ")
            if "logits" in stored:
                yield name, stored["logits"], stored["labels"]
                continue
            with np.errstate(divide="ignore"):
                yield name, np.log(stored["probs"].astype(np.float64)), stored["labels"]


def by_order(folder: Path) -> list[tuple[dict[str, np.ndarray], np.ndarray]]:
    """Models that saw the images in one order, together; the largest group first."""
    groups: dict[bytes, tuple[dict[str, np.ndarray], np.ndarray]] = {}
    for name, logits, labels in read(folder):
        models, _ = groups.setdefault(labels.tobytes(), ({}, labels))
        models[name] = logits
    return sorted(groups.values(), key=lambda group: -len(group[0]))


def table(found: abstain.Comparison) -> str:
    return "\n".join(found.to_markdown().split("\n")[2:])


def neighbours(found: abstain.Comparison, count: int) -> str:
    """The first pairs of neighbours in the ranking that cannot be told apart."""
    pairs = [found.pair(a, b) for a, b in pairwise(found.names)]
    undecided = [pair for pair in pairs if not pair.different]
    return "\n".join(f"- {pair.sentence(found.level)}." for pair in undecided[:count])


def clear_pairs(found: abstain.Comparison) -> str:
    different = sum(pair.different for pair in found.pairs)
    return f"{different} of the {len(found.pairs)} pairs differ at the corrected 5% level."


def winners(models: dict[str, np.ndarray], labels: np.ndarray) -> str:
    rows = ["| metric | loss | best | may be the best |", "| --- | --- | --- | --- |"]
    for metric, loss in (
        ("aurc", "zero_one"),
        ("augrc", "zero_one"),
        ("naurc", "zero_one"),
        ("auroc", "zero_one"),
        ("risk", "zero_one"),
        ("aurc", "brier"),
    ):
        found = abstain.compare(models, labels, metric=metric, losses=loss)
        best = found.contestants[0]
        rows.append(
            f"| {found.label} | {loss} | {best.name} ({best.estimate:.4g}) | {', '.join(found.winners)} |"
        )
    return "\n".join(rows)


def page(folder: Path) -> str:
    (models, labels), *others = by_order(folder)
    main = abstain.compare(models, labels)
    parts = [
        HEAD,
        f"## {len(models)} models on the same images in the same order\n",
    ]
    parts += [clear_pairs(main), "", table(main), "Neighbours in this ranking:\n", neighbours(main, 6)]
    everyone = {name: z for group, _ in [(models, labels), *others] for name, z in group.items()}
    own_labels = {name: l for group, l in [(models, labels), *others] for name in group}
    loose = abstain.compare(everyone, own_labels, paired=False)
    parts += [
        f"\n## All {len(everyone)} without pairing\n",
        f"The outputs of {len(others)} more models are stored in other orders, which were not published, so they "
        "cannot be paired. This table treats every model as if it had its own test set. The images were in fact "
        "the same, so these tests are conservative. Compare the letters with those above to see how much pairing "
        "helps.\n",
        clear_pairs(loose) + "\n",
        table(loose),
        "## The winner depends on the question\n",
        winners(models, labels),
        "\n## Scores of one model\n",
        "The same comparison between confidence scores of one model, resnet56 / akamaster:\n",
        table(abstain.compare(models["resnet56 / akamaster"], labels, scores="all")),
    ]
    return "\n".join(parts).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("ABSTAIN_DATA"))
    parser.add_argument("--output", type=Path, default=Path("docs/cifar10-comparison.md"))
    given = parser.parse_args()
    if given.data is None:
        parser.error("give --data, or set ABSTAIN_DATA to the folder that holds logits/")
    text = page(Path(given.data) / "logits")
    given.output.write_text(text)
    print(f"{given.output}: {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()
