"""The promise, by simulation and on real data; what a cascade is worth; how long it takes (benchmarks/cascades.py)."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "cascades.py"
spec = importlib.util.spec_from_file_location("cascades_bench", SCRIPT)
bench = importlib.util.module_from_spec(spec)
sys.modules["cascades_bench"] = bench
spec.loader.exec_module(bench)

FLAT = [name for name in bench.SETTINGS if "everywhere" in name]


@pytest.mark.parametrize("name", FLAT)
def test_no_more_is_certified_than_delta_where_everything_breaks_the_promise(name):
    """Every policy is a hair too risky, so whatever is certified is a violation; 60 data sets."""
    found = bench.held(bench.SETTINGS[name], 60)
    assert found.violated == found.certified
    assert found.violated * 60 <= binom.ppf(0.999, 60, bench.DELTA)


@pytest.mark.parametrize("name", ["two stages, dependent", "8 levels of ties", "clusters of 10", "groups"])
def test_the_promise_is_kept_and_something_is_certified(name):
    found = bench.held(bench.SETTINGS[name], 40)
    assert found.violated * 40 <= binom.ppf(0.999, 40, bench.DELTA)
    assert found.certified > 0.5


def test_a_test_without_its_level_would_be_caught(monkeypatch):
    """The simulation can fail: with ten times the level, violations are far above delta."""
    from abstain.cascades import search

    monkeypatch.setattr(search, "DELTA_SHARES", (1.0, 5.5, 3.5))
    assert bench.held(bench.SETTINGS["two stages, risk .2 everywhere"], 60).violated > 0.3


def test_worth_it_on_a_few_pairs(data_dir, monkeypatch):
    monkeypatch.setenv("ABSTAIN_DATA", str(data_dir))
    ratio = [w.cascade / w.single for w in bench.worth_of_pairs(6, risks=(0.3, 0.4))]
    assert np.mean(ratio) < 1.0
    assert max(ratio) < 1.2
    chain = bench.TRIOS[0]
    everything = np.arange(12032)
    found = bench.worth(chain, 0.2, everything, everything, 0)
    assert found.cascade < 0.9 * found.single
    assert found.oracle <= found.cascade


def test_real_promise_on_a_few_sets(data_dir, monkeypatch):
    monkeypatch.setenv("ABSTAIN_DATA", str(data_dir))
    found = bench.real(bench.TRIOS[0], 0.2, 15)
    assert found.violated * 15 <= binom.ppf(0.999, 15, bench.DELTA)
    assert found.certified == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", list(bench.SETTINGS))
def test_promise_held_over_2000_data_sets(name):
    assert bench.held(bench.SETTINGS[name], 2000).violated <= bench.DELTA


@pytest.mark.slow
@pytest.mark.parametrize("chain", bench.TRIOS, ids=" then ".join)
def test_promise_held_on_real_questions(chain, data_dir, monkeypatch):
    monkeypatch.setenv("ABSTAIN_DATA", str(data_dir))
    assert bench.real(chain, 0.2 if len(chain) == 2 else 0.3, 500).violated <= bench.DELTA


@pytest.mark.slow
def test_worth_it_on_fifty_pairs(data_dir, monkeypatch):
    monkeypatch.setenv("ABSTAIN_DATA", str(data_dir))
    ratio = np.asarray([w.cascade / w.single for w in bench.worth_of_pairs(50)])
    assert ratio.mean() <= 0.92
    assert (ratio > 1.03).mean() <= 0.03
    assert np.mean(bench.worth_of_one(20)) <= 0.80


@pytest.mark.slow
def test_a_million_samples_in_fifteen_merge_sorts():
    assert bench.speed() <= 15
