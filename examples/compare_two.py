"""Compare two classifiers on the same samples: is the first better, or only luckier?

With ABSTAIN_DATA set to a folder that has logits/: two CIFAR-10 networks on the 10,000 test images.
Without: two readers of scikit-learn's handwritten digits, in five-fold cross-validation.
"""

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import abstain


def networks(folder: Path) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Published outputs of two networks, rows in the same order."""
    outputs = {}
    for name in ("resnet20", "resnet56"):
        with np.load(folder / "logits" / f"cifar10__{name}__akamaster.npz") as data:
            outputs[name], labels = data["logits"], data["labels"]
    return outputs, labels


def readers() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Log-probabilities of images a model was not trained on."""
    X, y = load_digits(return_X_y=True)
    models = {
        "logistic": LogisticRegression(C=0.01, max_iter=2000),
        "forest": RandomForestClassifier(50, random_state=0),
    }
    probs = {k: cross_val_predict(m, X / 16, y, cv=5, method="predict_proba") for k, m in models.items()}
    return {k: np.log(np.maximum(p, 1e-12)) for k, p in probs.items()}, y


def main() -> abstain.Comparison:
    folder = os.environ.get("ABSTAIN_DATA")
    if folder:
        outputs, labels = networks(Path(folder))
    else:
        print(
            "ABSTAIN_DATA is not set: the CIFAR-10 networks are skipped, two readers of digits compared instead.\n"
        )
        outputs, labels = readers()
    result = abstain.compare(outputs, labels)  # paired: what is hard is hard for both
    print(result)
    return result


if __name__ == "__main__":
    main()
