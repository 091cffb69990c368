"""Rows that the shipped weights take for those they were learned on."""

from __future__ import annotations

import numpy as np
import pytest

from abstain.confidence.shipped_weights import load_shipped_weights


@pytest.fixture
def rows_like_those_of_learning():
    """A function of (n, seed): normal columns by role, with the rank correlations of the shipped file."""
    shipped = load_shipped_weights()
    count = len(shipped.signals)
    upper = np.zeros((count, count))
    upper[np.triu_indices(count, 1)] = 2 * np.sin(
        np.pi * shipped.correlation / 6
    )  # Pearson's from Spearman's
    correlation = np.eye(count) + upper + upper.T

    def draw(n=3000, seed=0):
        values = np.random.default_rng(seed).multivariate_normal(np.zeros(count), correlation, n)
        return dict(zip(shipped.signals, values.T))

    return draw
