"""AURC_a against AURC_p over many models: are they equal, and what does a t-test say?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import abstain
from abstain.paper.datasets.outputs import LOSSES, Outputs


def two_forms(outputs: Outputs) -> dict[str, dict[str, float]]:
    """Both forms on one model's whole test set: AURC_p (harmonic weights) and AURC_a (-ln(1-G), G = r/(n+1))."""
    confidence = outputs.score()
    forms = {}
    for kind in LOSSES:
        loss = outputs.loss(kind)
        forms[kind] = {"p": abstain.aurc(loss, confidence), "a": abstain.aurc_given_cdf(loss, confidence)}
    return forms


def t_tests(p: Sequence[float], a: Sequence[float]) -> dict[str, float]:
    """Two-sided p-values of "same mean": unpaired (as in the paper) and paired, and the largest difference.

    The unpaired test weighs the difference against the spread *between models*, which is a thousand times larger
    than any difference within one; the paired test looks at the differences themselves.
    """
    from scipy.special import stdtr

    first, second = np.asarray(p, dtype=np.float64), np.asarray(a, dtype=np.float64)
    n, gap = len(first), first - second
    pooled = (np.var(first, ddof=1) + np.var(second, ddof=1)) / 2
    unpaired = float(np.mean(gap) / np.sqrt(2 * pooled / n))
    paired = float(np.mean(gap) / np.sqrt(np.var(gap, ddof=1) / n))
    return {
        "models": n,
        "unpaired_p": float(2 * stdtr(2 * n - 2, -abs(unpaired))),
        "paired_p": float(2 * stdtr(n - 1, -abs(paired))),
        "mean_difference": float(np.mean(gap)),
        "largest_difference": float(np.max(np.abs(gap))),
        "largest_relative": float(np.max(np.abs(gap) / first)),
        "share_p_above_a": float(np.mean(gap > 0)),
    }


def expected_gap(n: int) -> float:
    """Mean weight that AURC_a lacks: 1 - mean(-ln(1 - r/(n+1))), about (ln(2 pi n)/2 - 1)/n.

    AURC_p minus AURC_a is this times the mean loss of the samples it falls on, the most confident ones.
    """
    return float(1 - np.mean(abstain.rank_weights(n, estimator="log")))


def equivalence_study(forms: dict[str, dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Tests for each loss from the two forms of every model."""
    tests = {}
    for kind in LOSSES:
        pairs = [form[kind] for form in forms.values()]
        tests[kind] = t_tests([f["p"] for f in pairs], [f["a"] for f in pairs])
    return tests
