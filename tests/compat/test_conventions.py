"""Every number that other packages print on the same points, and when it agrees with ours."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import abstain
from abstain import compat
from abstain.errors import InputError, ShapeError

CONFIDENCE = [0.9, 0.8, 0.7, 0.6, 0.5]
ERROR = [0, 1, 0, 0, 1]

FIVE_POINTS = {  # printed by the packages themselves on the five points, to five digits
    "abstain.aurc": 0.29667,
    "mapie_one_minus_auarc": 0.29667,
    "lm_polygraph_rcc_auc": 0.29667,
    "row_order_aurc": 0.29667,
    'abstain.aurc(estimator="log")': 0.25619,
    "literal_log_aurc": 0.25619,
    'abstain.aurc(estimator="sele")': 0.2,
    'abstain.aurc(estimator="2sele")': 0.4,
    'abstain.aurc(estimator="loo")': 0.21667,
    "torch_uncertainty_aurc": 0.32083,
    "fd_shifts_aurc": 0.25667,
    "origin_trapezoid_aurc": 0.25667,
    "seapig_aurc": 0.25667,
    "geifman_aurc": 0.23667,
    "abstain.augrc": 0.2,
    "torch_uncertainty_augrc": 0.2,
    "fd_shifts_augrc": 0.16,
    "seapig_augrc": 0.16,
}
ALL_WRONG = {
    "abstain.aurc": 1.0,
    "row_order_aurc": 1.0,
    "origin_trapezoid_aurc": 0.833,
    "seapig_aurc": 0.667,
    "geifman_aurc": 0.722,
    'abstain.aurc(estimator="log")': 0.789,
}
TIED = [0.9, 0.9, 0.9, 0.5, 0.5]
ORDERS = ([1, 0, 0, 0, 1], [0, 0, 1, 1, 0])
ROW_ORDER = [
    compat.row_order_aurc,
    compat.mapie_one_minus_auarc,
    compat.lm_polygraph_rcc_auc,
    compat.torch_uncertainty_aurc,
    compat.origin_trapezoid_aurc,
    compat.seapig_aurc,
    compat.geifman_aurc,
]
BLOCKWISE = [compat.fd_shifts_aurc, compat.fd_shifts_augrc, compat.literal_log_aurc]


def test_five_points():
    shown = compat.table(ERROR, CONFIDENCE)
    assert {row.name for row in shown.rows} == set(FIVE_POINTS)
    for name, value in FIVE_POINTS.items():
        assert shown[name] == pytest.approx(value, abs=5.1e-6), name
        function = getattr(compat, name, None)
        if function is not None:
            assert function(ERROR, CONFIDENCE) == shown[name]


def test_all_wrong():
    shown = compat.table([1, 1, 1], [0.9, 0.8, 0.7])
    for name, value in ALL_WRONG.items():
        assert shown[name] == pytest.approx(value, abs=5.1e-4), name


def test_ties_ours_is_one_number_and_theirs_are_many():
    for errors in ORDERS:
        assert abstain.aurc(errors, TIED) == pytest.approx(0.36, abs=1e-15)
        assert abstain.aurc(errors, TIED, ties="expected") == pytest.approx(0.355, abs=1e-15)
    for function in ROW_ORDER:
        first, second = (function(errors, TIED) for errors in ORDERS)
        assert abs(first - second) > 0.05, function.__name__
    for function in BLOCKWISE:
        assert function(ORDERS[0], TIED) == function(ORDERS[1], TIED), function.__name__


def test_ties_range_of_sort_and_cumulate():
    values = [
        compat.row_order_aurc(np.array(ORDERS[0])[list(order)], np.array(TIED)[list(order)])
        for order in itertools.permutations(range(5))
    ]
    assert min(values) == pytest.approx(0.197, abs=5.1e-4)
    assert max(values) == pytest.approx(0.547, abs=5.1e-4)
    assert np.mean(values) == pytest.approx(0.355, abs=1e-12)  # every order of equals as often as any other


def test_a_wrong_sample_on_top_tells_the_trapezoids_apart():
    errors, confidence = [1, 0, 0], [0.9, 0.8, 0.7]  # prefix risks 1, 1/2, 1/3
    inner = (1 + 1 / 2) / 2 / 3 + (1 / 2 + 1 / 3) / 2 / 3
    assert compat.seapig_aurc(errors, confidence) == pytest.approx(inner)
    assert compat.origin_trapezoid_aurc(errors, confidence) == pytest.approx(inner + 1 / 6)
    assert compat.fd_shifts_aurc(errors, confidence) == pytest.approx(inner + 1 / 3)
    assert compat.torch_uncertainty_aurc(errors, confidence) == pytest.approx(inner * 3 / 2)
    generalised = (1 / 3) * 2 / 3  # flat at 1/3 from coverage 1/3 to 1
    assert compat.seapig_augrc(errors, confidence) == pytest.approx(generalised)
    assert compat.fd_shifts_augrc(errors, confidence) == pytest.approx(generalised + 1 / 18)
    assert compat.torch_uncertainty_augrc(errors, confidence) == pytest.approx(generalised * 3 / 2)
    assert compat.geifman_aurc(errors, confidence) == pytest.approx((1 / 3 + 1 / 3 + 1 / 2) / 3)


def slow_blocks(loss, confidence):
    """(coverage, risk) at every distinct confidence, most confident first, by counting."""
    loss, confidence = np.asarray(loss, float), np.asarray(confidence)
    for t in sorted(set(confidence.tolist()), reverse=True):
        kept = confidence >= t
        yield kept.mean(), loss[kept].mean()


@pytest.mark.parametrize("seed", range(5))
def test_fd_shifts_and_literal_log_by_counting(seed):
    rng = np.random.default_rng(seed)
    loss, confidence = rng.random(30), rng.integers(0, 8, 30) / 8
    points = list(slow_blocks(loss, confidence))
    for start, heights, function in (
        (points[0][1], [r for _, r in points], compat.fd_shifts_aurc),
        (0.0, [c * r for c, r in points], compat.fd_shifts_augrc),
    ):
        area, left, height = 0.0, 0.0, start
        for (right, _), next_height in zip(points, heights):
            area += (right - left) * (height + next_height) / 2
            left, height = right, next_height
        assert function(loss, confidence) == pytest.approx(area, abs=1e-14)
    ranks = np.array([(confidence <= g).sum() for g in confidence])
    expected = np.mean(-np.log(1 - ranks / 31) * loss)
    assert compat.literal_log_aurc(loss, confidence) == pytest.approx(expected, abs=1e-14)
    constant = compat.literal_log_aurc(loss, np.ones(30))
    assert constant == pytest.approx(np.log(31) * loss.mean())


def test_without_ties_the_mean_rules_are_ours():
    rng = np.random.default_rng(9)
    loss, confidence = rng.random(200), rng.permutation(200) / 200
    for function in ROW_ORDER[:3]:
        assert function(loss, confidence) == pytest.approx(abstain.aurc(loss, confidence), abs=1e-14)
    assert compat.literal_log_aurc(loss, confidence) == pytest.approx(
        abstain.aurc(loss, confidence, estimator="log"), abs=1e-14
    )


def test_row_order_is_the_order_of_the_rows():
    """Stable: equals stay as given; Geifman's loop drops from the front, so there the later row is on top."""
    assert compat.row_order_aurc([1, 0, 0], [0.5, 0.5, 0.5]) == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert compat.geifman_aurc([1, 0, 0], [0.5, 0.5, 0.5]) == pytest.approx((1 / 3 + 0 + 0) / 3)
    assert compat.geifman_aurc([0, 0, 1], [0.5, 0.5, 0.5]) == pytest.approx((1 / 3 + 1 / 3 + 1 / 2) / 3)


def test_one_sample_and_bad_input():
    with pytest.raises(InputError, match="torch_uncertainty_aurc: needs at least 2 samples"):
        compat.torch_uncertainty_aurc([1], [0.5])
    shown = compat.table([1], [0.5])
    assert shown["torch_uncertainty_aurc"] is None
    assert shown["abstain.aurc"] == 1.0
    assert "undefined" in repr(shown)
    for function in (*ROW_ORDER, *BLOCKWISE, compat.table):
        with pytest.raises(InputError, match=r"finite, got nan at index 1"):
            function([1, 0], [0.5, np.nan])
        with pytest.raises(ShapeError):
            function([[1, 0]], [[0.5, 0.2]])


def test_table_reads_torch_and_says_what_depends_on_the_row_order():
    import torch

    shown = compat.table(torch.tensor(ORDERS[0]), torch.tensor(TIED))
    assert shown["abstain.aurc"] == pytest.approx(0.36, abs=1e-15)
    marked = [line for line in repr(shown).splitlines() if "depends on the row order" in line]
    assert len(marked) == sum(row.row_order for row in shown.rows) == 9
    assert "depends" not in repr(compat.table(ERROR, CONFIDENCE))
