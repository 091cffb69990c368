"""Comparisons while samples come in: looks, decisions, batches, merging, the stored state, and the command line."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.errors import DataError, InputError, ShapeError
from abstain.evaluation import ComparisonSeries, GrowingComparison
from tests.inference.test_coverage import SQUARE, sim

PLANNED = 2000


@pytest.fixture(scope="module")
def models():
    """Losses and confidences of two models on 3,000 samples, in the order in which they come; `old` is better."""
    loss_a, g_a, loss_b, g_b = sim.pair(SQUARE, sim.WORSE, 3000, np.random.default_rng(12))
    return {"old": (loss_a, g_a), "new": (loss_b, g_b)}


def first(models, n, start=0):
    """The samples from `start` to n of every model."""
    return {name: (loss[start:n], confidence[start:n]) for name, (loss, confidence) in models.items()}


def compare(models, n, **options):
    return abstain.compare(first(models, n), anytime=True, planned=PLANNED, **options)


def test_a_series_remembers_the_look_that_decided(models):
    series = ComparisonSeries.begin(compare(models, 300))
    assert not series.decided
    assert series.winner is None
    assert "open after 1 look, with 300 samples" in repr(series)
    for n in (1000, 2000, 3000):
        series = series.add(compare(models, n))
    verdicts = [look.pairs[0].different for look in series.looks]
    number = series.deciding_look("new", "old")
    assert number == 1 + verdicts.index(True)
    assert series.winner == "old"
    assert f"old is better than new: decided at look {number}" in repr(series)
    # a later look that does not tell them apart does not take the decision back
    undecided = replace(
        series.looks[-1], n=4000, pairs=(replace(series.looks[-1].pairs[0], different=False),)
    )
    assert replace(series, looks=(*series.looks, undecided)).winner == "old"


def test_higher_is_better_turns_the_winner_round(models):
    series = ComparisonSeries.begin(compare(models, 3000, metric="auroc"))
    assert series.winner == ("old" if series.looks[0].pairs[0].different else None)
    by_risk = ComparisonSeries.begin(compare(models, 3000))
    assert replace(by_risk, lower_is_better=False).winner == "new"


def test_several_models_are_decided_when_all_pairs_are(models):
    three = {**first(models, 3000), "random": (models["old"][0], np.random.default_rng(0).random(3000))}
    series = ComparisonSeries.begin(abstain.compare(three, anytime=True, planned=PLANNED))
    assert len(series.looks[0].pairs) == 3
    assert series.winner == "old"
    twin = {**first(models, 3000), "twin": (models["old"][0], models["old"][1])}
    series = ComparisonSeries.begin(abstain.compare(twin, anytime=True, planned=PLANNED))
    assert not series.decided
    assert series.winner is None


def test_batches_resumed_and_merged_give_the_comparison_of_all_samples(models):
    whole = compare(models, 3000)
    growing = GrowingComparison.begin(planned=PLANNED)
    for start in range(0, 3000, 500):
        growing = growing.add(first(models, start + 500, start))
        growing = GrowingComparison.from_json(growing.to_json())
    assert growing.comparison() == whole
    assert [look.n for look in growing.series.looks] == [500, 1000, 1500, 2000, 2500, 3000]
    assert growing.decided
    halves = [
        GrowingComparison.begin(planned=PLANNED).add(first(models, stop, stop - 1500))
        for stop in (1500, 3000)
    ]
    merged = halves[0].merge(halves[1])
    assert merged.comparison() == whole
    assert [look.n for look in merged.series.looks] == [3000]
    assert GrowingComparison.begin(planned=PLANNED).merge(halves[0]).n == 1500


def test_clusters_and_weights_are_kept(models):
    cluster = np.arange(3000) // 5
    weight = 1.0 + np.arange(3000) % 3
    growing = GrowingComparison.begin(planned=PLANNED)
    for start in (0, 1500):
        part = slice(start, start + 1500)
        growing = growing.add(
            first(models, start + 1500, start), clusters=cluster[part], sample_weight=weight[part]
        )
    expected = compare(models, 3000, clusters=cluster, sample_weight=weight)
    pair, same = growing.comparison().pair("old", "new"), expected.pair("old", "new")
    assert (pair.low, pair.high) == pytest.approx((same.low, same.high), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda m, s, g: s.add(compare(m, 200)), InputError, "all samples so far, at least 1,000"),
        (lambda m, s, g: s.add(compare(m, 2000, metric="augrc")), InputError, "same metric"),
        (lambda m, s, g: s.add(abstain.compare(first(m, 2000))), InputError, "same planned size"),
        (lambda m, s, g: ComparisonSeries.begin(abstain.compare(first(m, 900))), InputError, "anytime=True"),
        (lambda m, s, g: s.deciding_look("old", "older"), InputError, "no contestant 'older'"),
        (lambda m, s, g: s.deciding_look("old", "old"), InputError, "with itself"),
        (lambda m, s, g: g.add({"old": m["old"], "newer": m["new"]}), InputError, "the same models"),
        (lambda m, s, g: g.add({"old": m["old"]}), ShapeError, "at least two models"),
        (lambda m, s, g: g.add(m, clusters=np.arange(3000)), InputError, "every batch or for none"),
        (lambda m, s, g: g.add(m, sample_weight=np.ones(2)), ShapeError, "must have 3000 entries"),
        (lambda m, s, g: g.merge(GrowingComparison.begin(planned=7)), InputError, "same planned"),
        (
            lambda m, s, g: g.add({**m, "new": (m["new"][0], m["new"][1][:9])}),
            ShapeError,
            "of new 3000 .* 9 conf",
        ),
        (
            lambda m, s, g: g.add({**m, "new": (m["new"][0][:7], m["new"][1][:7])}),
            ShapeError,
            "of new 7 losses",
        ),
        (lambda m, s, g: g.add({**m, "new": m["new"][0]}), InputError, "dict with .loss, confidence."),
        (lambda m, s, g: g.add(list(m.values())), InputError, "dict with .loss, confidence."),
        (
            lambda m, s, g: g.add({**m, "new": (["no"] * 3000, m["new"][1])}),
            InputError,
            "of new must be numbers",
        ),
        (
            lambda m, s, g: ComparisonSeries.begin(compare(m, 900, clusters=np.arange(900) // 2)).add(
                compare(m, 1000)
            ),
            InputError,
            "share clusters, those of this one do not",
        ),
    ],
)
def test_what_is_refused_is_named(models, call, error, words):
    series = ComparisonSeries.begin(compare(models, 1000))
    growing = GrowingComparison.begin(planned=PLANNED).add(first(models, 1000))
    with pytest.raises(error, match=words):
        call(models, series, growing)


def test_clusters_may_be_shared_first_by_later_samples(models):
    growing = GrowingComparison.begin(planned=PLANNED).add(first(models, 500), clusters=np.arange(500))
    growing = growing.add(first(models, 1000, 500), clusters=np.arange(500))
    assert len(growing.series.looks) == 2
    assert growing.series.has_clusters


def test_models_and_clusters_are_matched_by_name_and_not_by_order_or_type(models):
    cluster = np.arange(1500) // 5
    growing = GrowingComparison.begin(planned=PLANNED).add(first(models, 1500), clusters=cluster)
    second = dict(reversed(first(models, 3000, 1500).items()))
    growing = growing.add(second, clusters=cluster.astype(float))
    expected = compare(models, 3000, clusters=np.tile(cluster, 2))
    assert growing.comparison().clusters == expected.clusters == (300,)
    pair, same = growing.comparison().pair("old", "new"), expected.pair("old", "new")
    assert (pair.low, pair.high) == pytest.approx((same.low, same.high), rel=1e-12)


def test_a_series_of_the_first_format_is_still_read(models):
    series = ComparisonSeries.begin(compare(models, 1000))
    record = json.loads(series.to_json())
    assert record.pop("has_clusters") is False
    del record["checksum"]
    record["format"] = "abstain.ComparisonSeries/1"
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    record["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    earlier = ComparisonSeries.from_json(json.dumps(record))
    assert earlier == series
    assert earlier.add(compare(models, 2000, clusters=np.arange(2000) // 2)).n == 2000


def test_an_edited_state_is_refused(models):
    text = ComparisonSeries.begin(compare(models, 1000)).to_json()
    with pytest.raises(DataError, match="checksum"):
        ComparisonSeries.from_json(text.replace('"n": 1000', '"n": 1001'))


def test_command_line(models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def look(n, *options):
        for name, (loss, confidence) in first(models, n).items():
            np.savez(f"{name}.npz", correct=~loss, confidence=confidence, id=np.arange(n))
        command = ["compare", "old.npz", "new.npz", "--anytime", "--planned", "2000", "--state", "run.json"]
        return CliRunner().invoke(cli, [*command, *options])

    done = look(300)
    assert done.exit_code == 0
    assert "open after 1 look" in done.stdout
    assert look(300, "-q").stdout == "open\n"
    done = look(3000)
    assert "old is better than new: decided at look 2" in " ".join(done.stdout.split())
    assert json.loads(look(3000, "--json").stdout)["planned"] == 2000
    series = ComparisonSeries.load("run.json")
    assert [look.n for look in series.looks] == [300, 3000]
    refused = look(200)
    assert refused.exit_code == 3
    assert "at least 3,000, got 200" in refused.stderr
    assert ComparisonSeries.load("run.json") == series
    for options in (["--state", "x.json"], ["--anytime", "--unpaired"], ["--planned", "5"]):
        assert CliRunner().invoke(cli, ["compare", "old.npz", "new.npz", *options]).exit_code == 2
