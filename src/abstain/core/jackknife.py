"""Every area with one sample left out, for all samples in O(n): the rows above stay, those below lose one
each.

A row's term is linear in its loss `L` and in the loss `S` accepted there. So the rows below the sample need
two running sums, of the terms with a loss taken as it is and of the terms with S = 1; only the sample's own
row is new.
"""

from __future__ import annotations

import numpy as np

from abstain.core import packed
from abstain.core.estimators import area_terms
from abstain.core.rows import Rows


def leave_one_out_areas(
    loss: np.ndarray, confidence: np.ndarray, estimator: str = "harmonic", ties: str = "threshold"
) -> np.ndarray:
    """AURC without sample i, for each i in the order given; unit weights, at least two samples."""
    order = packed.order_of(confidence)
    key, l = confidence[order], loss[order].astype(np.float64)
    ends = np.append(key[1:] != key[:-1], True)
    place = np.cumsum(ends) - ends
    m = np.bincount(place).astype(np.float64)
    L = np.bincount(place, l)
    N, S, W = np.cumsum(m), np.cumsum(L), np.asarray([len(l) - 1.0])

    def terms(m: np.ndarray, L: np.ndarray, N: np.ndarray, S: np.ndarray) -> np.ndarray:
        return np.asarray(area_terms(Rows(m, L, N, S, W), estimator, ties))

    before = np.cumsum(np.append(0.0, terms(m, L, N, S)))[:-1]
    one_less = np.maximum(N - 1, m)  # differs from N - 1 in the top row only, which is below nobody
    after = _sum_below(terms(m, L, one_less, S))
    per_unit = _sum_below(terms(m, np.zeros_like(L), one_less, np.ones_like(S)))
    own = terms(m[place] - 1, L[place] - l, N[place] - 1, S[place] - l)
    left_out = (before[place] + own + after[place] - l * per_unit[place]) / W
    back: np.ndarray = np.empty_like(left_out)
    back[order] = left_out
    return back


def _sum_below(x: np.ndarray) -> np.ndarray:
    """Sum over the rows strictly below each."""
    return np.append(np.cumsum(x[::-1])[::-1][1:], 0.0)
