"""The figure of the page on better confidences, from a language model's answers in the folder llm/ of ABSTAIN_DATA.

python docs/generate/better_confidence.py    writes the figure, and prints the sentences on AURC that the page shows
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq
from figures import STYLE

import abstain
from abstain.confidence import LearnedConfidence
from abstain.inference import curve_band

MODEL = "gpt-4.1-mini"
LABEL_COUNT = 2000  # rows that the confidence is learned from; the others judge it
LEARNED = f"learned from {LABEL_COUNT:,} labels"
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


class JudgedConfidences(NamedTuple):
    """Losses of the answers that nothing was learned from, and the confidences to compare, the learned one first."""

    loss: np.ndarray
    confidences: dict[str, np.ndarray]
    learned: LearnedConfidence


def learn_and_judge() -> JudgedConfidences:
    """Learn a confidence from 2,000 answers of the model and apply it, and each signal, to the others."""
    correct, inputs = read_answers()
    shuffled = np.random.default_rng(0).permutation(len(correct))
    fit_rows = shuffled[:LABEL_COUNT]
    judged_rows = shuffled[LABEL_COUNT:]
    learned = abstain.learn_confidence(correct[fit_rows], **take_rows(inputs, fit_rows))
    judged = take_rows(inputs, judged_rows)
    confidences = {LEARNED: learned(**judged)}
    for label, signal in judged["signals"].items():
        confidences[label] = np.nan_to_num(signal, nan=-1.0)  # ranked last
    return JudgedConfidences(1.0 - correct[judged_rows], confidences, learned)


def describe_areas(loss: np.ndarray, confidences: dict[str, np.ndarray]) -> str:
    """The sentences of the page on AURC and on ties, with the numbers of these confidences."""
    together = {label: abstain.aurc(loss, confidence) for label, confidence in confidences.items()}
    expected = {
        label: abstain.aurc(loss, confidence, ties="expected") for label, confidence in confidences.items()
    }
    best = min(SIGNALS, key=lambda label: together[label])
    best_expected = min(SIGNALS, key=lambda label: expected[label])
    gain = 1 - together[LEARNED] / together[best]
    gain_expected = 1 - expected[LEARNED] / expected[best_expected]
    return (
        f"The confidence was learned from {LABEL_COUNT:,} answers and is shown on {len(loss):,} others. "
        f"The best single signal, the {best}, has an AURC of {together[best]:.3f}, the learned one "
        f"{together[LEARNED]:.3f}. The stated number has {together['stated number']:.3f}, but "
        f"{expected['stated number']:.3f} if equal confidences come in random order. Measured by that, the learned "
        f"confidence is {gain_expected:.0%} better than the best single signal instead of {gain:.0%}."
    )


def main() -> None:
    loss, confidences, learned = learn_and_judge()
    print(learned)
    print(describe_areas(loss, confidences))
    curves = {
        label: abstain.risk_coverage_curve(loss, confidence) for label, confidence in confidences.items()
    }
    band = curve_band(loss, confidences[LEARNED], replicates=200, rng=0)
    with plt.rc_context(STYLE):
        figure, ax = plt.subplots()
        abstain.RiskCoverageDisplay.from_curves(curves, {LEARNED: band}).plot(ax)
        ax.set_ylabel("error rate of the answered")
        ax.set_ylim(0, 0.3)
        figure.savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
