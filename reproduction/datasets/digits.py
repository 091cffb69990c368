"""A small real set that needs no download: scikit-learn's 1,797 handwritten digits, several classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from abstain.errors import MissingDependencyError
from abstain.paper.datasets.outputs import Outputs


def _classifiers(seed: int) -> dict[str, Callable[[], Any]]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier

    return {
        "logreg": lambda: LogisticRegression(C=0.1, max_iter=500),
        "naive-bayes": lambda: GaussianNB(var_smoothing=1e-2),
        "forest": lambda: RandomForestClassifier(100, max_depth=6, random_state=seed),
        "mlp-seed0": lambda: MLPClassifier((16,), max_iter=40, random_state=seed),
        "mlp-seed1": lambda: MLPClassifier((16,), max_iter=40, random_state=seed + 1),
    }


def digits_outputs(seed: int = 0, report: Callable[[str], None] = print) -> list[Outputs]:
    """Out-of-fold probabilities of five classifiers for all digits, as logits (their logarithms)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingDependencyError("the digits example", "scikit-learn", "paper") from None
    from sklearn.model_selection import cross_val_predict

    images, labels = load_digits(return_X_y=True)
    found = []
    for name, make in _classifiers(seed).items():
        report(f"digits, {name}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a network stopped early says so; that is meant
            probs = cross_val_predict(make(), images / 16, labels, cv=3, method="predict_proba", n_jobs=1)
        logits = np.log(np.maximum(probs, 1e-12))
        found.append(Outputs("digits", name, "", labels.astype(np.int64), logits=logits))
    return found
