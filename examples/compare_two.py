"""Compare two classifiers on the same samples: is one better, or could the difference be chance?

If ABSTAIN_DATA is a folder with logits/: two CIFAR-10 networks on the 10,000 test images.
Otherwise: two models of scikit-learn's handwritten digits, in five-fold cross-validation.
"""

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import abstain


def load_networks(folder: Path) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Published logits of two networks, and the labels; rows in the same order."""
    logits = {}
    for name in ("resnet20", "resnet56"):
        with np.load(folder / "logits" / f"cifar10__{name}__akamaster.npz") as data:
            logits[name] = data["logits"]
            labels = data["labels"]
    return logits, labels


def cross_validate_digits() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Log-probabilities of two models on images they were not trained on, and the labels."""
    X, y = load_digits(return_X_y=True)
    models = {
        "logistic": LogisticRegression(C=0.01, max_iter=2000),
        "forest": RandomForestClassifier(50, random_state=0),
    }
    logits = {}
    for name, model in models.items():
        probs = cross_val_predict(model, X / 16, y, cv=5, method="predict_proba")
        logits[name] = np.log(np.maximum(probs, 1e-12))
    return logits, y


def main() -> abstain.Comparison:
    folder = os.environ.get("ABSTAIN_DATA")
    if folder:
        logits, labels = load_networks(Path(folder))
    else:
        print("ABSTAIN_DATA is not set: the CIFAR-10 networks are skipped, two models of digits are used.\n")
        logits, labels = cross_validate_digits()
    result = abstain.compare(logits, labels)  # paired: both models answer the same samples
    print(result)
    return result


if __name__ == "__main__":
    main()
