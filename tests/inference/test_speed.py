"""Error bars for the price of the sort: ratios measured in one run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location(
    "inference_speed", Path(__file__).parents[2] / "benchmarks" / "inference.py"
)
speed = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(speed)


@pytest.mark.slow
def test_an_interval_costs_at_most_twice_the_point_estimate():
    for name, (point, bar) in speed.interval_against_point(1_000_000, 15).items():
        assert bar <= 2 * point, name


@pytest.mark.slow
def test_a_replicate_is_faster_than_sorting_again():
    for name, (usual, ours) in speed.replicate_against_sorting(50_000, 25).items():
        assert usual >= 2.5 * ours, name
