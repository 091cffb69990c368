"""Bets that start anew: their wealth written out in exact fractions, false alarms, and detection after a good time."""

from fractions import Fraction

import numpy as np
import pytest

from abstain.thresholds import bets


def test_wealth_is_the_recursion_in_exact_fractions():
    """Each bet is followed alone, in fractions; the shares it starts with are those of `wealth_not_yet_bet`."""
    losses = [Fraction(k % 3 == 0) for k in range(12)]
    r = Fraction(1, 10)
    kept = [Fraction(float(bets.wealth_not_yet_bet(k))) for k in range(len(losses) + 1)]
    expected = []
    for multiple in (Fraction(5, 4), Fraction(3, 2), Fraction(2), Fraction(3), Fraction(5)):
        stake = (multiple * r - r) / (r * (1 - r))
        if multiple == 5:  # 5 r = 1/2 is less than (1 + r) / 2, so no bet is capped here
            assert multiple * r < (1 + r) / 2
        wealth = Fraction(1, 10)
        for k, loss in enumerate(losses):
            wealth = wealth * (1 + stake * (loss - r)) + (kept[k] - kept[k + 1]) / 5
        expected.append(float(wealth))
    terms = np.asarray(losses, dtype=float)
    log_wealth = bets.settle(terms, 0.1, np.asarray(bets.first_log_wealth()), 0)
    assert np.exp(log_wealth[-1]) == pytest.approx(expected, rel=1e-12)
    total = float(bets.total_log_wealth(log_wealth[-1], len(losses)))
    assert np.exp(total) == pytest.approx(sum(expected) + float(kept[-1]), rel=1e-12)


def test_all_wealth_is_one_at_the_start_and_on_average():
    """At exactly the promise the mean of the total wealth stays 1: summed over all 2^8 outcomes of eight samples."""
    outcomes = (np.arange(256)[:, None] >> np.arange(8)) & 1
    r = 0.2
    chance = np.prod(np.where(outcomes == 1, r, 1 - r), axis=1)
    start = np.asarray(bets.first_log_wealth())
    assert np.exp(bets.total_log_wealth(start, 0)) == pytest.approx(1.0)
    totals = [
        np.exp(bets.total_log_wealth(bets.settle(row.astype(float), r, start, 0)[-1], 8)) for row in outcomes
    ]
    assert chance @ np.asarray(totals) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("parts", [[7, 13, 80], [1] * 10 + [90]])
def test_terms_may_come_in_parts(parts):
    terms = np.random.default_rng(0).random(100)
    start = np.asarray(bets.first_log_wealth())
    whole = bets.settle(terms, 0.3, start, 0)
    log_wealth = start
    settled = 0
    for size in parts:
        log_wealth = bets.settle(terms[settled : settled + size], 0.3, log_wealth, settled)[-1]
        settled += size
    assert log_wealth == pytest.approx(whole[-1], abs=1e-12)


def test_a_change_after_a_good_time_is_found_soon():
    """After 300,000 samples at half the promise, three times the promise takes fewer than 1,000 to reach 40."""
    rng = np.random.default_rng(1)
    delays = []
    for _ in range(10):
        start = np.asarray(bets.first_log_wealth())
        good = bets.settle((rng.random(300_000) < 0.015).astype(float), 0.03, start, 0)
        bad = bets.settle((rng.random(2000) < 0.09).astype(float), 0.03, good[-1], 300_000)
        totals = bets.total_log_wealth(bad, 300_001 + np.arange(2000))
        delays.append(int(np.argmax(totals >= np.log(40))))
    assert min(delays) > 0
    assert np.median(delays) < 1000


def test_a_promise_of_the_largest_loss_cannot_break():
    start = np.asarray(bets.first_log_wealth())
    assert bets.settle(np.ones(3), 1.0, start, 0).shape == (0, 5)
    assert np.isfinite(bets.settle(np.ones(3), 0.0, start, 0)).all()
