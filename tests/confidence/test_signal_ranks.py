from __future__ import annotations

import numpy as np
import pytest

from abstain.confidence.signal_ranks import RANK_COLUMNS, RankReference, rank_basis


def middle_rank(value, rows):
    known = rows[~np.isnan(rows)]
    return (np.mean(known < value) + np.mean(known <= value)) / 2


def test_ranks_are_shares_below_plus_half_of_the_equals():
    rows = np.array([3.0, 1.0, np.nan, 3.0, 7.0, -2.0])
    reference = RankReference.of(rows)
    expected = [middle_rank(value, rows) for value in (3.0, 1.0, 7.0, -2.0)]
    np.testing.assert_allclose(reference.rank(np.array([3.0, 1.0, 7.0, -2.0])), expected)
    assert reference.missing == pytest.approx(1 / 6)
    assert reference.rank(np.array([np.nan, 1e9, -1e9])).tolist() == [0.5, max(expected), min(expected)]
    assert reference.is_consistent


def test_many_values_are_summarised_closely_and_outliers_do_no_harm():
    rng = np.random.default_rng(0)
    rows = np.exp(rng.normal(size=5000))
    rows[0] = 1e6
    reference = RankReference.of(rows)
    assert len(reference.values) <= 257
    expected = np.array([middle_rank(value, rows) for value in rows[:300]])
    np.testing.assert_allclose(reference.rank(rows[:300]), expected, atol=2e-3)


def test_weights_are_repetitions():
    rows = np.array([1.0, 2.0, 5.0])
    weighted = RankReference.of(rows, np.array([1.0, 3.0, 0.0]))
    repeated = RankReference.of(np.array([1.0, 2.0, 2.0, 2.0]))
    assert weighted.values.tolist() == repeated.values.tolist()
    np.testing.assert_allclose(weighted.ranks, repeated.ranks)


def test_the_distance_is_that_of_kolmogorov_and_smirnov():
    reference = RankReference.of(np.arange(100.0))
    assert reference.distance(np.arange(100.0)) == pytest.approx(0, abs=1e-12)
    assert reference.distance(np.full(5, np.nan)) == 0
    assert reference.distance(np.arange(50.0, 100.0)) == pytest.approx(0.5, abs=0.01)


def with_tie(n, value, share, seed=0):
    """Random numbers from 0 to 1, a share of which is one value."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < share, value, rng.random(n))


@pytest.mark.parametrize("value", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("decimals", [1, 2, 15])
def test_rows_with_many_equals_differ_by_what_their_cumulative_shares_do(value, decimals):
    rows = np.round(with_tie(9000, value, 0.3), decimals)
    reference = RankReference.of(rows)
    assert reference.distance(rows) == pytest.approx(0, abs=1e-9)
    assert reference.distance(rows[:3000]) < 0.03  # a random part
    # with a tenth instead of three: the shares up to the value, or those above it, differ by about a fifth
    fewer = np.round(with_tie(9000, value, 0.1, seed=1), decimals)
    grid = np.unique([*rows, *fewer])
    shares = [np.searchsorted(np.sort(part), grid, side="right") / 9000 for part in (rows, fewer)]
    assert reference.distance(fewer) == pytest.approx(np.max(np.abs(shares[0] - shares[1])), abs=0.01)


def test_the_share_of_a_value_of_two_is_compared_as_it_is():
    reference = RankReference.of(np.array([0.0, 1.0] * 50))
    assert reference.distance(np.array([0.0] * 7 + [1.0] * 3)) == pytest.approx(0.2)
    assert reference.distance(np.array([0.5] * 10)) == pytest.approx(0.5)


def test_the_basis_is_straight_beyond_its_outer_knots_but_for_the_normal_score():
    ranks = np.array([0.0, 0.02, 0.04, 0.96, 0.98, 1.0])
    basis = rank_basis(ranks)
    assert basis.shape == (6, RANK_COLUMNS)
    np.testing.assert_allclose(
        basis[0] - 2 * basis[1] + basis[2],
        [0, 0, 0, 0, basis[0, -1] - 2 * basis[1, -1] + basis[2, -1]],
        atol=1e-12,
    )
    np.testing.assert_allclose((basis[3] - 2 * basis[4] + basis[5])[:-1], 0, atol=1e-12)
    assert np.isfinite(basis).all()
