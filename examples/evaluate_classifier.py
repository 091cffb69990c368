"""Evaluate a classifier: how well does it know when it is wrong?

Data: scikit-learn's handwritten digits (1,797 images), a logistic regression trained on 300 of them.
"""

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import abstain


def main() -> abstain.Evaluation:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=300, stratify=y, random_state=0)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X_train, y_train)

    # Logits rather than probabilities: they do not saturate.
    logits = model.decision_function(X_test)
    table = abstain.evaluate(logits, y_test, losses=["zero_one"], metrics=["aurc", "augrc", "auroc", "risk"])
    print(table)

    best = table.best("aurc")
    print(f"\nBest score by AURC: {best.score}.")
    loss = abstain.losses.zero_one(logits, y_test)
    confidence = abstain.scores.by_name(best.score)(logits)
    by_digit = abstain.aurc(loss, confidence, groups=y_test)
    print(f"Hardest digit: {by_digit.worst_group}, AURC {by_digit.worst:.4f} (mean {by_digit.macro:.4f}).")
    return table


if __name__ == "__main__":
    main()
