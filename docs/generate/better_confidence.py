"""The figure of the page on better confidences, from a language model's answers in the folder llm/ of ABSTAIN_DATA.

python docs/generate/better_confidence.py    writes the figure, and prints the areas that the page shows
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq
from figures import STYLE

import abstain
from abstain.inference import curve_band

MODEL = "gpt-4.1-mini"
LABEL_COUNT = 2000  # rows that the confidence is learned from; the others judge it
# By names that the shipped weights do not know: these were learned on answers of this model, too.
SIGNALS = {
    "token probability": "logit_perplexity_confidence",
    "stated number": "verbal_numerical_confidence",
    "wording": "verbal_linguistic_confidence",
}
FIGURE = Path(__file__).parents[1] / "images" / "better-confidence.svg"


def read_answers() -> tuple[np.ndarray, dict[str, dict[str, np.ndarray]]]:
    """Return which answers are correct, and the keywords of `learn_confidence`; unanswered questions are left out."""
    table = pq.read_table(Path(os.environ["ABSTAIN_DATA"]) / "llm" / "mmlu_pro" / f"{MODEL}.parquet")
    columns = {name: table[name].to_numpy() for name in table.column_names}
    answered = np.array([answer is not None for answer in columns["extracted_answer"]])
    columns = {name: values[answered] for name, values in columns.items()}
    inputs = {
        "signals": {label: columns[column] for label, column in SIGNALS.items()},
        "features": {"length": columns["token_length"]},
        "categories": {"category": columns["category"]},
    }
    return columns["extracted_answer"] == columns["correct_answer"], inputs


def take_rows(inputs: dict[str, dict[str, Any]], rows: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return the same inputs for some rows."""
    return {
        keyword: {name: values[rows] for name, values in columns.items()}
        for keyword, columns in inputs.items()
    }


def main() -> None:
    correct, inputs = read_answers()
    shuffled = np.random.default_rng(0).permutation(len(correct))
    fit_rows = shuffled[:LABEL_COUNT]
    judged_rows = shuffled[LABEL_COUNT:]
    learned = abstain.learn_confidence(correct[fit_rows], **take_rows(inputs, fit_rows))
    judged = take_rows(inputs, judged_rows)
    loss = 1.0 - correct[judged_rows]
    confidences = {f"learned from {LABEL_COUNT:,} labels": learned(**judged)}
    for label, signal in judged["signals"].items():
        confidences[label] = np.nan_to_num(signal, nan=-1.0)  # ranked last
    print(learned)
    for label, confidence in confidences.items():
        together = abstain.aurc(loss, confidence)
        in_random_order = abstain.aurc(loss, confidence, ties="expected")
        print(f"{label}: AURC {together:.4f}, equal confidences in random order {in_random_order:.4f}")
    curves = {
        label: abstain.risk_coverage_curve(loss, confidence) for label, confidence in confidences.items()
    }
    first_label = next(iter(confidences))
    band = curve_band(loss, confidences[first_label], replicates=200, rng=0)
    with plt.rc_context(STYLE):
        figure, ax = plt.subplots()
        abstain.RiskCoverageDisplay.from_curves(curves, {first_label: band}).plot(ax)
        ax.set_ylabel("error rate of the answered")
        ax.set_ylim(0, 0.3)
        figure.savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
