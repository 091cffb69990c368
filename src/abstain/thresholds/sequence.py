r"""The order of testing: which thresholds are looked at, in which order, at which level. Nothing here sees a loss.

**What is tested.** At rank k the threshold is put just above the (k+1)-th largest confidence :math:`\tau`, so that
the accepted are the samples with :math:`g > \tau`, whole blocks of equals. Given :math:`\tau` and their number N,
they are N independent draws from the population with :math:`g > \tau`; for a 0/1 loss their errors are binomial with
the risk :math:`R(\tau)` of exactly the rule that is deployed. The null hypothesis at this rank is
:math:`R(\tau) > r^*`, and a p-value is known for it.

**In which order.** The ranks are fixed by n, r*, delta alone. They are visited from few accepted to many. Each rank j
holds a weight :math:`w_j \ge 0`, :math:`\sum_j w_j = \delta`, and is tested at

.. math:: \alpha_j = w_j + \alpha_{j-1}\,1(\text{rank } j-1 \text{ passed}),

the fallback procedure: who passes hands the level on, who fails loses it. Weights sit on a few *starts*. A walk that
began at the first start and never failed has all of delta when it comes to the end; one that began too early, where
too few samples are accepted to prove anything, costs only its own share.

**Why the risk is at most r\* with probability 1 - delta, for any distribution, monotone risk or not, ties or not.**
Break ties at random for the argument (not in the computation), so that the risk above t, R(t), is continuous in t.
Cut the axis where R crosses r*. Between two crossings the mean loss is exactly r*, and from a crossing down to any
point where R > r* it is above r*. Let the counts in these strata be given. They determine at which ranks the null
hypothesis is true, hence, walking down, at which rank a walk first meets a true one and with which level it comes
there at most. There the accepted samples are strata of mean r* and a last piece of mean above r*, so their losses are
stochastically at least those of independent draws of mean r*, and the p-value is at most alpha with probability at
most alpha. (Where a block of equals straddles a crossing, what is further known of the counts, that the walk did not
meet the hypothesis earlier, only moves mass towards the riskier piece.) The levels of the first true hypotheses that
successive walks can meet come from disjoint sets of weights, so they add up to at most delta: the union bound.

**Starts inside a block.** A rank within a large block of equals accepts only what lies above the block, perhaps
nothing. A set too small to pass even without any loss, :math:`(1-r^*)^N > \alpha_j`, is not tested but skipped, and
its level goes on to the block itself. For the block h that is reached, :math:`P(p_h \le \alpha) \le \alpha` whatever
lies above it; the one thing to show is that this and the chance to pass above h, when enough samples lie there, do
not add up to more than :math:`\alpha` where both hypotheses are true. If the risk above h is high, nothing passes
there; if it is near r*, passing at h does not depend on how many lie above. Evaluated exactly over a grid of all the
numbers involved, the sum never exceeded :math:`\alpha` (the tests repeat this).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

_STARTS = 6  # more starts find more kinds of risk profile, each with less level
_FIRST = 1.5  # times the least number of samples that can prove anything at the start's own level
_LAST = 0.5  # share of all samples where the last start stands
_STEP = 0.02  # ranks grow by this factor ...
_FINE = 6.0  # ... but by no more than this many square roots: the resolution follows the precision


class Plan(NamedTuple):
    """Ranks to visit, rising, and the weight each holds."""

    ranks: np.ndarray
    weights: np.ndarray


def least_samples(risk: float, level: float) -> float:
    """How many samples without any loss prove a mean below `risk` at this level: (1 - r)^k <= level."""
    if risk <= 0:
        return math.inf
    return 1.0 if risk >= 1 else math.log(level) / math.log1p(-risk)


def plan(n: int, risk: float, delta: float) -> Plan:
    """Ranks and weights for n samples: a few starts, then steps of a fiftieth.

    >>> ranks, weights = plan(1000, 0.05, 0.05)
    >>> ranks[:3].tolist(), ranks[-1].item(), round(weights.sum().item(), 12)
    ([141, 143, 145], 1000, 0.05)
    """
    least = least_samples(risk, delta)
    if least > n:
        return Plan(np.zeros(0, dtype=np.int64), np.zeros(0))
    starts = _starts(n, risk, delta, least)
    ranks = [starts[0]]
    while ranks[-1] < n:
        k = ranks[-1]
        ranks.append(min(n, k + max(1, int(min(_STEP * k, _FINE * math.sqrt(k))))))
    place = np.searchsorted(ranks, starts)
    return Plan(np.asarray(ranks), np.bincount(place, minlength=len(ranks)) * (delta / len(starts)))


def _starts(n: int, risk: float, delta: float, least: float) -> list[int]:
    """Evenly spaced on the logarithmic scale; fewer where there is little room."""
    room = n / least
    count = max(1, min(_STARTS, int(math.log(room) / math.log(1.5))))
    if count == 1:
        return [min(n, math.ceil(1.3 * least))]
    first = min(n, _FIRST * least_samples(risk, delta / count))
    return [min(n, math.ceil(s)) for s in np.geomspace(first, max(first, _LAST * n), count)]


class Walk(NamedTuple):
    """For each rank: its level when it was tested, and whether it passed."""

    level: np.ndarray
    passed: np.ndarray


def walk(p_values: np.ndarray, weights: np.ndarray, least_p: np.ndarray | None = None) -> Walk:
    """The fallback procedure along the last axis; where `least_p`, the smallest p possible, cannot pass: skipped.

    >>> walk(np.asarray([0.01, 0.04, 0.2, 0.03]), np.asarray([0.03, 0.0, 0.0, 0.02])).passed.tolist()
    [True, False, False, False]
    >>> walk(np.asarray([0.01, 0.02, 0.02, 0.04]), np.asarray([0.03, 0.0, 0.0, 0.02])).level.tolist()
    [0.03, 0.03, 0.03, 0.05]
    >>> walk(np.asarray([1.0, 0.02]), np.asarray([0.03, 0.0]), np.asarray([1.0, 0.0])).passed.tolist()
    [False, True]
    """
    least_p = np.zeros_like(p_values) if least_p is None else least_p
    alone = p_values.ndim == 1  # then plain numbers are much faster than arrays of none
    columns = [x.tolist() if alone else np.moveaxis(x, -1, 0) for x in (p_values, least_p)]
    held, level, passed = 0.0, [], []
    for weight, p, least in zip(weights.tolist(), *columns):
        held = held + weight
        ok = (p <= held) & (held > 0)
        level.append(held)
        passed.append(ok)
        held = held * (ok | (least > held))
    if not level:
        return Walk(np.zeros(p_values.shape), np.zeros(p_values.shape, dtype=bool))
    wide = p_values.shape[:-1]
    return Walk(
        np.stack([np.broadcast_to(x, wide) for x in level], axis=-1),
        np.stack([np.broadcast_to(x, wide) for x in passed], axis=-1),
    )


def least_p_value(count: np.ndarray, risk: float) -> np.ndarray:
    """The p-value of that many samples without any loss: (1 - r)^N."""
    return np.asarray((1 - risk) ** count) if risk < 1 else np.where(count > 0, 0.0, 1.0)
