"""The price of error bars: ratios measured in one run, to sorts that take as long on every processor."""

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
def test_an_interval_adds_at_most_four_tenths_of_a_merge_sort():
    for name, price in speed.interval_against_point(1_000_000, 15).items():
        assert price.added_merge_sorts <= 0.4, name


@pytest.mark.slow
def test_a_replicate_is_five_times_faster_than_sorting_again_by_merging():
    for name, price in speed.replicate_against_sorting(50_000, 25).items():
        assert price.merge_sorting >= 5 * price.ours, name
