"""Answers with verbalised confidence: ties everywhere, and some answers are "I don't know".

With ABSTAIN_DATA set to a folder that has logits/: GPT-2's zero-shot answers on AG News. Without: a shy reader of
scikit-learn's digits (a strongly regularised logistic regression) stands in. Either way the *words* are ours: real
probabilities, rounded to what a language model would say ("90%", "80%", ...). Below 50% it says "I don't know".
"""

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import abstain


def answers() -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels of real answers."""
    if folder := os.environ.get("ABSTAIN_DATA"):
        with np.load(Path(folder) / "logits" / "agnews__gpt2_zeroshot__luferrer.npz") as data:
            return np.exp(abstain.scores.pooled_log_probs(data["logits"][None])), data["labels"]
    print("ABSTAIN_DATA is not set: GPT-2 is skipped, a reader of digits speaks instead.\n")
    X, y = load_digits(return_X_y=True)
    return cross_val_predict(LogisticRegression(C=0.05), X / 16, y, cv=5, method="predict_proba"), y


def main() -> abstain.Evaluation:
    probs, labels = answers()
    wrong = abstain.losses.zero_one(probs=probs, labels=labels)
    said = np.floor(probs.max(axis=1) * 10) / 10  # "90%": one of a few words
    silent = said < 0.5  # "I don't know"
    levels = np.unique(said[~silent])
    print(
        f'{len(said):,} questions, {silent.sum():,} times "I don\'t know", {len(levels)} words for the rest: {levels}\n'
    )

    # An abstention is not a wrong answer. It is never accepted, and it lowers the coverage.
    table = abstain.evaluate(loss=wrong, confidence=said, abstained=silent, metrics=["aurc", "risk", "auroc"])
    print(table)

    # Sort and cumulate breaks ties by the order of the rows; the definition does not.
    kept, rng = np.flatnonzero(~silent), np.random.default_rng(0)
    orders = [rng.permutation(kept) for _ in range(200)]
    by_rows = [abstain.compat.row_order_aurc(wrong[o], said[o]) for o in orders]
    print(f"\nSort and cumulate, rows shuffled: {min(by_rows):.4f} to {max(by_rows):.4f}.")
    for ties in ("threshold", "expected"):
        value = abstain.aurc(wrong, said, abstained=silent, ties=ties)
        print(f"abstain.aurc, any order: {value:.4f} (ties={ties!r})")
    return table


if __name__ == "__main__":
    main()
