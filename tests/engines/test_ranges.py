"""Ranges that are counted instead of sorted: the same answers, within the same budget."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.core import tally
from abstain.engines import files
from abstain.engines.histogram import Histogram, empty_histogram, histogram_of, merge_histograms
from abstain.engines.ranges import Columns, choose_window, collect_columns, split_into_ranges
from abstain.errors import DataError

from .conftest import told

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def counts_small_data(monkeypatch):
    """Take the counted road from a thousand samples on, and tell whether it was taken."""
    monkeypatch.setattr(files, "_MIN_COUNTED", 1000)
    monkeypatch.setattr(files, "_MIN_FOR_PARTIAL_SURVEY", 1000)
    monkeypatch.setattr(files, "samples_that_fit", lambda *a: 3000)
    monkeypatch.setattr(files, "_fits_in_memory", lambda *a: False)
    seen = []
    real = tally.Tally.add
    monkeypatch.setattr(tally.Tally, "add", lambda self, l, g: (seen.append(len(l)), real(self, l, g))[1])
    return seen


def dense(n, rng):
    return (1 - rng.integers(0, 3000, n) * 2.0**-24).astype(np.float32)


def shapes():
    rng = np.random.default_rng(8)
    n = 40_000
    tail = np.where(rng.random(n) < 0.2, rng.random(n), 1).astype(np.float32)
    return {
        "all dense": dense(n, rng),
        "a sparse tail below": np.where(tail < 1, tail, dense(n, rng)),
        "sparse above and below": np.where(tail < 1, 4 * tail - 1, dense(n, rng)).astype(np.float32),
        "one heavy tie": np.where(rng.random(n) < 0.6, np.float32(1), dense(n, rng)),
        "negative": -dense(n, rng),
        "sorted": np.sort(np.where(tail < 1, tail, dense(n, rng))),
    }


def write(folder, loss, confidence, parts=5, **more):
    table = pa.table({"confidence": confidence, "loss": loss, **more})
    step = -(-len(loss) // parts)
    for k in range(parts):
        pq.write_table(table.slice(k * step, step), folder / f"part-{k}.parquet", row_group_size=1500)
    return str(folder)


def area_by_hand(loss, confidence):
    """Mean over samples of the error rate among those at least as confident."""
    values, place = np.unique(-confidence, return_inverse=True)
    count = np.bincount(place, minlength=len(values))
    wrong = np.bincount(place, weights=loss, minlength=len(values))
    return float(np.sum(count * np.cumsum(wrong) / np.cumsum(count)) / len(loss))


@pytest.mark.parametrize("shape", shapes())
def test_counted_and_sorted_ranges_give_the_whole(shape, tmp_path, counts_small_data):
    g = shapes()[shape]
    loss = np.random.default_rng(1).random(len(g)) < 0.3
    loss &= g < np.quantile(g, 0.95)
    folder = write(tmp_path, loss, g)
    assert files.aurc(folder) == pytest.approx(area_by_hand(loss, g), rel=1e-13)
    assert sum(counts_small_data) == len(g)
    found = told(files, folder, coverages=(0.1, 0.5, 1.0), risks=(0.05, 0.2), points=50)
    for metric in ("aurc", "augrc", "risk", "e_aurc", "naurc", "auroc"):
        assert found[metric].estimate == pytest.approx(abstain.metrics.by_name(metric)(loss, g), rel=1e-10), (
            metric
        )
    memory = abstain.evaluate(loss=loss, confidence=g, metrics=["aurc"])["confidence", "loss", "aurc"]
    assert found["aurc"].standard_error == pytest.approx(memory.standard_error, rel=1e-8)
    for coverage, risk in found.risk_at_coverage.items():
        assert risk == pytest.approx(abstain.risk_at_coverage(loss, g, coverage=coverage), rel=1e-12)
    for risk, coverage in found.coverage_at_risk.items():
        assert coverage == pytest.approx(abstain.coverage_at_risk(loss, g, risk=risk), rel=1e-12)
    curve = found.curve
    for threshold, coverage, risk in zip(curve.threshold, curve.coverage, curve.risk, strict=True):
        taken = g >= threshold
        assert coverage == pytest.approx(taken.mean(), rel=1e-12)
        assert risk == pytest.approx(loss[taken].mean(), rel=1e-12)


def test_groups_have_tallies_of_their_own(tmp_path, counts_small_data):
    rng = np.random.default_rng(2)
    g = dense(30_000, rng)
    team = np.where(rng.random(len(g)) < 0.7, "a", "b")
    g[team == "b"] -= np.float32(0.25)
    loss = rng.random(len(g)) < 0.2
    found = files.aurc(write(tmp_path, loss, g, team=team), groups="team")
    for name in ("a", "b"):
        expected = area_by_hand(loss[team == name], g[team == name])
        assert found.values[name] == pytest.approx(expected, rel=1e-13)
    assert sum(counts_small_data) == len(g)


@pytest.mark.parametrize("columns", ["wide", "real losses", "weights", "one wide file"])
def test_what_cannot_be_counted_is_sorted(columns, tmp_path, counts_small_data):
    rng = np.random.default_rng(3)
    g, loss = dense(20_000, rng), rng.random(20_000) < 0.3
    more = {}
    if columns == "wide":
        g = g.astype(np.float64)
    elif columns == "real losses":
        loss = rng.random(len(g))
    elif columns == "weights":
        more["w"] = np.ones(len(g))
    folder = write(tmp_path, loss, g, **more)
    if columns == "one wide file":
        table = pq.read_table(tmp_path / "part-3.parquet")
        wide = table.set_column(0, "confidence", table["confidence"].cast("double"))
        pq.write_table(wide, tmp_path / "part-3.parquet")
    weight = {"sample_weight": "w"} if more else {}
    assert files.aurc(folder, **weight) == pytest.approx(area_by_hand(loss, g), rel=1e-12)
    assert not counts_small_data


def test_work_that_can_be_taken_up_again_is_not_counted(tmp_path, counts_small_data):
    rng = np.random.default_rng(4)
    g, loss = dense(20_000, rng), rng.random(20_000) < 0.3
    (tmp_path / "data").mkdir()
    folder = write(tmp_path / "data", loss, g)
    found = files.aurc(folder, resume=str(tmp_path / "kept"))
    assert found == pytest.approx(area_by_hand(loss, g), rel=1e-13)
    assert not counts_small_data


def test_a_nan_that_the_survey_did_not_see_is_still_an_error(tmp_path):
    rng = np.random.default_rng(5)
    g = dense(40_000, rng)
    g[23_456] = np.nan
    folder = write(tmp_path, rng.random(len(g)) < 0.3, g, parts=10)
    with pytest.raises(DataError, match=r"part-5.*row 3456"):
        files.aurc(folder)


@pytest.mark.parametrize("ranges", [2, 12, 13, 14, 300])
def test_every_sample_goes_to_its_range(ranges):
    rng = np.random.default_rng(9)
    for dtype in (np.float32, np.float64):
        g = rng.integers(0, 1000, 5000).astype(dtype)
        cuts = np.sort(rng.choice(1000, ranges - 1, replace=False)).astype(np.float64)
        parts, sums = split_into_ranges(Columns(g > 500, g), cuts)
        bounds = [-np.inf, *cuts, np.inf]
        assert len(parts) == ranges
        for k, part in enumerate(parts):
            own = [x for x in g.tolist() if bounds[k] <= x < bounds[k + 1]]
            assert part.confidence.tolist() == own
            assert (sums.count[k], sums.sums[1, k]) == (len(own), sum(x > 500 for x in own))


# ---------------------------------------------------------------- which stretch


def histogram(confidence):
    zeros = np.zeros(len(confidence), dtype=bool)
    return merge_histograms(
        [empty_histogram(), histogram_of(zeros, confidence.astype(np.float32), None, 4096)], 4096
    )


def inside(ends, confidence):
    return float(np.mean((confidence >= ends[0]) & (confidence <= ends[1])))


def test_the_window_holds_most_samples_that_its_room_allows():
    rng = np.random.default_rng(6)
    g = 1 - rng.random(1 << 18, dtype=np.float32)
    for room in (48 << 20, 64 << 20, 200 << 20):
        ends = choose_window(histogram(g), 10**9, room)
        assert ends is not None
        assert 0.9 * room < tally.bytes_between(*ends) <= room + 8
        octaves = room / 8 / 2**23  # between 1/2 and 1 lie as many numbers as between 1/4 and 1/2
        best = 1 - 2.0**-octaves if octaves > 1 else octaves / 2
        assert inside(ends, g) == pytest.approx(best, abs=0.02)


def test_the_window_leaves_out_what_is_sparse():
    g = 1 - np.random.default_rng(6).random(1 << 18, dtype=np.float32)
    ends = choose_window(histogram(g), 10**8, 4 << 30)
    assert ends is not None
    # from 2^-(k+1) to 2^-k there are 1e8 / 2^(k + 1) samples on 2^23 numbers: more than half a sample each to 2^-4
    assert ends[0] == pytest.approx(2.0**-4, rel=0.01)
    assert choose_window(histogram(g), 10**6, 4 << 30) is None


def test_two_neighbours_in_the_sample_do_not_draw_the_window_to_them():
    rng = np.random.default_rng(7)
    few = (2.0 ** -rng.uniform(1, 30, 3000)).astype(np.float32)
    few[:20] = np.nextafter(few[20:40], np.float32(1))  # chance brings some very close together
    g = np.concatenate([1 - rng.random(200_000, dtype=np.float32) * np.float32(0.01), few])
    ends = choose_window(histogram(g), 10**8, 4 << 30)
    assert ends is not None
    assert ends[0] > 0.9


@pytest.mark.parametrize("rows", [1 << 32, 1 << 40])
def test_no_window_where_a_counter_could_overflow(rows):
    g = dense(10_000, np.random.default_rng(0))
    assert choose_window(histogram(g), (1 << 32) - 1, 1 << 30) is not None
    assert choose_window(histogram(g), rows, 1 << 30) is None


def test_no_window_over_nothing():
    assert choose_window(Histogram(np.empty(0), np.empty(0), np.empty((2, 0))), 10, 1 << 20) is None


@pytest.mark.filterwarnings("error")
def test_gathering_widens_what_is_there_and_nothing_else():
    first = Columns(np.asarray([True, False]), np.asarray([0.5, 0.25], dtype=np.float32))
    second = Columns(np.asarray([0.75]), np.asarray([1e300]))
    found = collect_columns([first, second], 1_000_000)
    assert found.loss.tolist() == [1, 0, 0.75]
    assert found.confidence.tolist() == [0.5, 0.25, 1e300]
