"""Answers with verbalised confidence: ties everywhere, and some answers are "I don't know".

If ABSTAIN_DATA is a folder with logits/: GPT-2's zero-shot answers on AG News. Otherwise: a strongly regularised
logistic regression on scikit-learn's digits. In both cases the probabilities are real, and this script rounds them down
to what a language model would say ("90%", "80%", ...). Below 50% the answer is "I don't know".
"""

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import abstain


def load_answers() -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels of real answers."""
    if folder := os.environ.get("ABSTAIN_DATA"):
        with np.load(Path(folder) / "logits" / "agnews__gpt2_zeroshot__luferrer.npz") as data:
            return np.exp(abstain.scores.pooled_log_probs(data["logits"][None])), data["labels"]
    print("ABSTAIN_DATA is not set: GPT-2 is skipped, a model of digits is used.\n")
    X, y = load_digits(return_X_y=True)
    return cross_val_predict(LogisticRegression(C=0.05), X / 16, y, cv=5, method="predict_proba"), y


def main() -> abstain.Evaluation:
    probs, labels = load_answers()
    wrong = abstain.losses.zero_one(probs=probs, labels=labels)
    stated = np.floor(probs.max(axis=1) * 10) / 10  # "90%"
    abstained = stated < 0.5  # "I don't know"
    levels = np.unique(stated[~abstained])
    print(f'{len(stated):,} questions, {abstained.sum():,} times "I don\'t know",')
    print(f"{len(levels)} different confidences for the others: {levels}\n")

    # An abstention is not a wrong answer. It is never accepted, and it lowers the coverage.
    metrics = ["aurc", "risk", "auroc"]
    table = abstain.evaluate(loss=wrong, confidence=stated, abstained=abstained, metrics=metrics)
    print(table)

    # Sorting and cumulating breaks ties by the order of the rows; the definition does not.
    rng = np.random.default_rng(0)
    orders = [rng.permutation(np.flatnonzero(~abstained)) for _ in range(200)]
    by_row_order = [abstain.compat.row_order_aurc(wrong[order], stated[order]) for order in orders]
    print(f"\nSort and cumulate, rows shuffled: {min(by_row_order):.4f} to {max(by_row_order):.4f}.")
    for ties in ("threshold", "expected"):
        value = abstain.aurc(wrong, stated, abstained=abstained, ties=ties)
        print(f"abstain.aurc, any order: {value:.4f} (ties={ties!r})")
    return table


if __name__ == "__main__":
    main()
