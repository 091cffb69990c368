"""What the engines must find, by sums over the definition: no code shared with them."""

from __future__ import annotations

import numpy as np


def by_definition(l, g, w):
    """AURC, its standard error, AUGRC, risk and curve from explicit sums over thresholds (no ranking code shared)."""
    l = l.astype(float)
    values = np.unique(g)
    at = np.searchsorted(values, g)
    m, s = np.bincount(at, w), np.bincount(at, w * l)
    N = np.array([m[k:].sum() for k in range(len(m))]) if len(m) < 300 else m[::-1].cumsum()[::-1]
    S = s[::-1].cumsum()[::-1]
    R, W = S / N, w.sum()
    T = float(np.sum(m * R) / W)
    alpha, drift = np.cumsum(m / N), np.cumsum(m / N * R)
    influence = R[at] - T + alpha[at] * l - drift[at]
    error = float(np.sqrt(np.sum((w * influence) ** 2)) / W)
    return {
        "aurc": T,
        "error": error,
        "augrc": float(np.sum(m * S) / W**2),
        "risk": float(np.sum(w * l) / W),
        "coverage": N / W,
        "curve": R,
    }


def oracle(l, w):
    """AURC of the best order, whole weights as repetitions."""
    ranked = np.sort(np.repeat(l.astype(float), w.astype(int)))
    return float(np.mean(np.cumsum(ranked) / np.arange(1, len(ranked) + 1)))


def influence(l, g, w):
    """By the definition, group by group (no code shared)."""
    T = N = S = 0.0
    values, at = np.unique(g, return_inverse=True)
    R, alpha, drift = (np.zeros(len(values)) for _ in range(3))
    m, s = np.bincount(at, w), np.bincount(at, w * l)
    for t in range(len(values) - 1, -1, -1):
        N, S = N + m[t], S + s[t]
        R[t] = S / N
        alpha[t], drift[t] = m[t] / N, m[t] / N * R[t]
        T += m[t] * R[t]
    T, alpha, drift = T / w.sum(), np.cumsum(alpha), np.cumsum(drift)
    return T, R[at] - T + alpha[at] * l - drift[at]
