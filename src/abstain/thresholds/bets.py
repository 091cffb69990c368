r"""Bets against a promised risk that start anew with every sample, so that a long good time does not make them slow.

A bet that began on the first day has lost nearly all of its wealth after a good year, and must win it back before it
can alarm. Here only half of the wealth is bet on the first sample. The other half is kept, and a part of it starts new
bets after every later sample, so that some bets are always young.

**Why false alarms stay rare for ever.** Each bet multiplies its wealth by a factor of mean at most 1 while the promise
holds, and moving kept wealth into new bets leaves the total as it is. So the total, bets and kept wealth together, is a
nonnegative supermartingale that starts at 1: the chance that it ever reaches 1/a is at most a (Ville).

**Why the state stays small.** Bets at the same odds win and lose together whenever they began, so their wealth is
stored as one sum. No old bet has to be dropped, and the state is one number for each of the odds and the number of
settled terms.
"""

from __future__ import annotations

import numpy as np

ALTERNATIVES = np.asarray([1.25, 1.5, 2.0, 3.0, 5.0])  # risks to bet on, times the promised risk
FIRST_BETS = 0.5  # share of the wealth that is bet on the first term: a bad start is found at a cost of log 2
KEPT_SCALE = 100.0  # terms after which the kept wealth begins to be handed out noticeably
LEAST_RISK = 1e-9  # a promised risk of 0 is tested as this, which avoids dividing by 0


def first_log_wealth() -> tuple[float, ...]:
    """Log wealth of the bets at each of the odds before the first term: equal parts of what is bet at once."""
    return (float(np.log(FIRST_BETS / len(ALTERNATIVES))),) * len(ALTERNATIVES)


def wealth_not_yet_bet(settled: np.ndarray | int) -> np.ndarray:
    r"""Wealth that no bet holds once k terms are settled: :math:`\frac{1}{2} / (1 + \log(1 + k/100))`.

    It falls so slowly that the part which starts new bets after term k is about :math:`1/(2k \log^2 k)`: a change after
    k good samples is found at a cost of log k and a little more, whatever k is.
    """
    return np.asarray((1 - FIRST_BETS) / (1 + np.log1p(np.asarray(settled) / KEPT_SCALE)))


def total_log_wealth(log_wealth: np.ndarray, settled: np.ndarray | int) -> np.ndarray:
    """Log of all wealth, in bets (`log_wealth`, last axis: odds) and kept, once `settled` terms are settled."""
    return np.logaddexp(np.logaddexp.reduce(log_wealth, axis=-1), np.log(wealth_not_yet_bet(settled)))


def settle(terms: np.ndarray, risk: float, log_wealth: np.ndarray, settled: int) -> np.ndarray:
    r"""Settle the bets on further terms; return the log wealth at each of the odds after each term.

    The bets at one of the odds stake on one risk q above the promised risk r. A term x in [0, 1] multiplies their
    wealth by :math:`1 + \frac{q - r}{r(1 - r)}(x - r)`; then new bets join them. After each term, a part of the wealth
    that no bet holds yet (`wealth_not_yet_bet`, a function of the number of settled terms) is handed out to new bets,
    an equal share at each of the odds.

    Parameters
    ----------
    terms : ndarray, shape (m,)
        Losses, or sums over clusters, in [0, 1], in the order in which they came.
    risk : float
        The promised risk r, scaled to [0, 1].
    log_wealth : ndarray, shape (odds,)
        Log wealth of the bets at each of the odds before these terms.
    settled : int
        How many terms were settled before.

    Returns
    -------
    ndarray, shape (m, odds)
        It has no rows if r is 1: no loss can break the promise then.
    """
    odds_count = len(ALTERNATIVES)
    positive_risk = max(risk, LEAST_RISK)  # r, which must not be 0 where it divides
    if positive_risk >= 1:
        return np.zeros((0, odds_count))
    # the risks q, one for each of the odds: 1.25 r to 5 r, but at most halfway from r to 1, so that no term takes more
    # than half of the wealth
    alternatives = np.minimum(ALTERNATIVES * positive_risk, (1 + positive_risk) / 2)
    stakes = (alternatives - positive_risk) / (positive_risk * (1 - positive_risk))
    # row t: the log of what the terms up to t multiply a bet by that was there before all of them
    log_factors = np.cumsum(np.log1p(stakes * (terms[:, None] - positive_risk)), axis=0)
    handed_out = -np.diff(wealth_not_yet_bet(settled + np.arange(len(terms) + 1)))  # after each term
    # A bet that began after term s has grown by the factors since: exp(log_factors[t] - log_factors[s]). So it is
    # counted as if it had begun before all terms with its wealth divided by exp(log_factors[s]).
    starts = np.log(handed_out / odds_count)[:, None] - log_factors
    # row t: the log of what all bets that began up to t are counted with
    log_starts_so_far = np.logaddexp.accumulate(np.vstack([log_wealth, starts]), axis=0)[1:]
    return np.asarray(log_factors + log_starts_so_far)
