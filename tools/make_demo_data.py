"""Make the data of `abstain demo`: five classifiers of scikit-learn's digits, their real outputs on held-out images.

Run `python tools/make_demo_data.py`; it writes src/abstain/data/demo/*.npz (seeded, the same every time up to
the versions of numpy and scikit-learn). Training takes 300 of the 1,797 images only, so that there are errors
to abstain from.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FOLDER = Path(__file__).parent.parent / "src/abstain/data/demo"
MODELS = {
    "neural-network": make_pipeline(
        StandardScaler(), MLPClassifier((64,), max_iter=400, alpha=1e-2, random_state=0)
    ),
    "logistic-regression": make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000)),
    "random-forest": RandomForestClassifier(200, random_state=0),
    "nearest-neighbours": KNeighborsClassifier(7),
    "naive-bayes": GaussianNB(var_smoothing=1e-3),
}


def main() -> None:
    """Train, predict, write."""
    digits = load_digits()
    train_x, test_x, train_y, test_y = train_test_split(
        digits.data, digits.target, train_size=300, test_size=1200, stratify=digits.target, random_state=0
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, model in MODELS.items():
        probs = model.fit(train_x, train_y).predict_proba(test_x).astype(np.float32)
        probs /= probs.sum(axis=1, keepdims=True, dtype=np.float32)
        np.savez_compressed(
            FOLDER / f"{name}.npz",
            probs=probs,
            labels=test_y.astype(np.uint8),
            classes=np.array([str(d) for d in range(10)]),
        )
        print(f"{name:<20} accuracy {np.mean(probs.argmax(1) == test_y):.4f}")


if __name__ == "__main__":
    main()
