"""Archives of runs and of test samples: what is put in comes out, and what is there stays."""

from __future__ import annotations

import numpy as np
import pytest

from abstain.errors import DataError
from reproduction.kept import (
    RUNS_ARCHIVE,
    SAMPLES_ARCHIVE,
    Samples,
    keep_runs,
    keep_samples,
    read_runs,
    read_samples,
)


def run(name: str, value: float) -> dict[str, object]:
    return {"name": name, "finished": True, "exact": value, "log": [{"epoch": 1, "accuracy": value}]}


def samples(seed: int, count: int, *, cross_entropy: bool) -> Samples:
    rng = np.random.default_rng(seed)
    losses = rng.exponential(size=count) if cross_entropy else None
    return Samples(rng.integers(0, 60_000, count), rng.integers(0, 2, count).astype(float), losses)


def test_runs_come_back_with_their_logs_rounded(tmp_path):
    keep_runs([run("b", 1 / 3), run("a", 2 / 3)], tmp_path)
    first, second = read_runs(tmp_path)
    assert (first["name"], second["name"]) == ("a", "b")
    assert second["exact"] == 1 / 3
    assert second["log"] == [{"epoch": 1, "accuracy": 0.3333333}]


def test_a_run_of_the_same_name_replaces_the_one_that_was_there(tmp_path):
    keep_runs([run("a", 0.1), run("b", 0.2)], tmp_path)
    keep_runs([run("a", 0.3)], tmp_path)
    assert [(r["name"], r["exact"]) for r in read_runs(tmp_path)] == [("a", 0.3), ("b", 0.2)]


@pytest.mark.parametrize("cross_entropy", [False, True])
def test_samples_come_back_whatever_their_number(tmp_path, cross_entropy):
    written = {
        name: samples(seed, count, cross_entropy=cross_entropy)
        for seed, (name, count) in enumerate({"long": 1003, "short": 1, "middle": 77}.items())
    }
    keep_samples({"long": written["long"]}, tmp_path)
    keep_samples({"short": written["short"], "middle": written["middle"]}, tmp_path)
    kept = read_samples(tmp_path)
    assert list(kept) == ["long", "middle", "short"]
    for name, one in kept.items():
        np.testing.assert_array_equal(one.rank, written[name].rank)
        np.testing.assert_array_equal(one.wrong, written[name].wrong)
        if cross_entropy:
            np.testing.assert_allclose(one.cross_entropy, written[name].cross_entropy, rtol=2**-24)
        else:
            assert one.cross_entropy is None


def test_samples_with_and_without_cross_entropy_do_not_mix(tmp_path):
    keep_samples({"a": samples(0, 5, cross_entropy=True)}, tmp_path)
    with pytest.raises(DataError, match="of all runs or of none"):
        keep_samples({"b": samples(1, 5, cross_entropy=False)}, tmp_path)


def test_the_bytes_do_not_depend_on_what_was_added_first(tmp_path):
    contents = []
    for order in (("a", "b"), ("b", "a")):
        folder = tmp_path / "".join(order)
        for name in order:
            keep_runs([run(name, 0.5)], folder)
            keep_samples({name: samples(ord(name), 20, cross_entropy=True)}, folder)
        contents.append([(folder / file).read_bytes() for file in (RUNS_ARCHIVE, SAMPLES_ARCHIVE)])
    assert contents[0] == contents[1]


def test_without_archives_there_is_nothing(tmp_path):
    assert read_runs(tmp_path) == []
    assert read_samples(tmp_path) == {}
    keep_samples({}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_numbers_are_those_of_the_samples():
    three = Samples(np.array([0, 2, 1]), np.array([1.0, 0.0, 0.0]), np.array([3.0, 1.0, 2.0]))
    assert three.numbers() == pytest.approx({
        "accuracy": 2 / 3, "aurc_01": 1 / 9, "nll": 2.0, "aurc_ce": (1 + 1.5 + 2) / 3,
    })  # fmt: skip
