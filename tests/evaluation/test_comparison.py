"""compare: all pairs equal the paired test, the correction keeps its promise, the groups are the largest cliques."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest

import abstain
from abstain._tables import format_p_value
from abstain.errors import InputError, ShapeError
from abstain.evaluation import (
    Comparison,
    compare,
    compare_answers,
    comparison,
    evaluate,
    evaluate_answers,
    gate,
)
from abstain.formats import Predictions
from abstain.inference import differences, paired_difference, unpaired_difference
from abstain.metrics.summaries import Scale

matplotlib.use("Agg")


def contestants(n=400, seed=0, noise=(0.1, 0.3, 1.0, 3.0)):
    """The same samples seen through more and more noise."""
    rng = np.random.default_rng(seed)
    beta = rng.random(n)
    loss = (rng.random(n) < 0.6 * (1 - beta) ** 2).astype(float)
    return {f"noise {s}": (loss, beta + s * rng.normal(size=n)) for s in noise}


def level_after_holm(p_values: list[float], k: int, level: float = 0.95) -> float:
    """The level of the k-th interval: Bonferroni's, or that of Holm's step where only Holm rejects."""
    alpha, m = 1 - level, len(p_values)
    if m * p_values[k] < alpha:
        return 1 - alpha / m
    for step, i in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[i] * (m - step) >= alpha:
            break
        if i == k:
            return 1 - alpha / (m - step)
    return 1 - alpha / m


@pytest.mark.parametrize("metric", ["aurc", "aurc:loo", "augrc", "e_aurc", "naurc", "auroc", "risk"])
@pytest.mark.parametrize("extra", ["plain", "weights", "clusters"])
def test_all_pairs_equal_the_paired_test(metric, extra):
    models = contestants()
    if metric == "risk":  # losses must differ for a risk to differ
        rng = np.random.default_rng(1)
        models = {k: (np.where(rng.random(400) < 0.1, 1 - l, l), g) for k, (l, g) in models.items()}
    columns = {
        "plain": {},
        "weights": {"sample_weight": np.random.default_rng(2).integers(1, 4, 400), "repetitions": True},
        "clusters": {"clusters": np.repeat(np.arange(40), 10)},
    }[extra]
    found = compare(models, metric=metric, **columns)
    name, _, estimator = metric.partition(":")
    options = {"estimator": estimator} if estimator else {}
    assert len(found.pairs) == 6
    for k, pair in enumerate(found.pairs):
        own_level = level_after_holm([p.p_value for p in found.pairs], k)
        sides = (*models[pair.a], *models[pair.b])
        truth = paired_difference(*sides, metric=name, level=own_level, **columns, **options)
        assert pair.difference == pytest.approx(truth.difference, rel=1e-9, abs=1e-14)
        assert pair.standard_error == pytest.approx(truth.standard_error, rel=1e-8)
        assert (pair.low, pair.high) == pytest.approx((truth.low, truth.high), rel=1e-7)
        assert pair.p_value == pytest.approx(truth.p_value, rel=1e-6)
    for c in found.contestants:
        own = abstain.inference.interval(name, *models[c.name], **columns, **options)
        assert (c.low, c.high) == pytest.approx((own.low, own.high), rel=1e-9)
        assert c.estimate == pytest.approx(own.estimate, rel=1e-12)
        assert c.standard_error == pytest.approx(own.standard_error, rel=1e-9)


@pytest.mark.parametrize("metric", ["aurc", "augrc"])
def test_models_that_abstained(metric):
    models = contestants(noise=(0.1, 1.0))
    away = {"noise 0.1": np.arange(400) % 5 == 0, "noise 1.0": np.arange(400) % 7 == 0}
    pair = compare(models, metric=metric, abstained=away).pair("noise 0.1", "noise 1.0")
    (a, b), (mask_a, mask_b) = models.values(), away.values()
    truth = paired_difference(*a, *b, metric=metric, abstained_a=mask_a, abstained_b=mask_b)
    assert pair.difference == pytest.approx(truth.difference, rel=1e-9)
    assert pair.standard_error == pytest.approx(truth.standard_error, rel=1e-9)
    assert pair.p_value == pytest.approx(truth.p_value, rel=1e-7)


def test_unpaired_pairs_equal_welch():
    models = {
        k: (l[: 400 - 50 * i], g[: 400 - 50 * i]) for i, (k, (l, g)) in enumerate(contestants().items())
    }
    found = compare(models, paired=False)
    assert not found.paired
    for k, pair in enumerate(found.pairs):
        own_level = level_after_holm([p.p_value for p in found.pairs], k)
        truth = unpaired_difference(*models[pair.a], *models[pair.b], level=own_level)
        assert pair.standard_error == pytest.approx(truth.standard_error, rel=1e-9)
        assert pair.p_value == pytest.approx(truth.p_value, rel=1e-7)
        assert (pair.low, pair.high) == pytest.approx((truth.low, truth.high), rel=1e-7)
    with pytest.raises(abstain.errors.ShapeError, match="paired=False"):
        compare(models)


def test_unpaired_logits_take_labels_by_name():
    rng = np.random.default_rng(3)
    logits = {"a": rng.normal(size=(50, 3)), "b": rng.normal(size=(70, 3))}
    labels = {"a": rng.integers(0, 3, 50), "b": rng.integers(0, 3, 70)}
    found = compare(logits, labels, paired=False)
    for k in logits:
        own = abstain.aurc(
            abstain.losses.zero_one(logits[k], labels[k]), abstain.scores.max_softmax(logits[k])
        )
        assert found[k].estimate == pytest.approx(own)
        assert found[k].n == len(labels[k])
    with pytest.raises(abstain.errors.InputError, match="nothing for 'b'"):
        compare(logits, {"a": labels["a"]}, paired=False)
    with pytest.raises(abstain.errors.InputError, match="dict by contestant"):
        compare(logits, labels, paired=False, sample_weight=np.ones(50))


def test_models_whose_labels_differ_are_not_paired():
    rng = np.random.default_rng(3)
    logits = {"a": rng.normal(size=(50, 3)), "b": rng.normal(size=(50, 3))}
    labels = rng.integers(0, 3, 50)
    both = compare(logits, {"a": labels, "b": labels.copy()})
    assert both.pairs == compare(logits, labels).pairs
    other_order = {"a": labels, "b": labels[::-1]}
    with pytest.raises(
        abstain.errors.InputError, match=r"a and b are not the same samples.*% of their labels agree"
    ):
        compare(logits, other_order)
    assert not compare(logits, other_order, paired=False).paired


def test_twins_cannot_be_told_apart_and_near_twins_keep_their_digits():
    loss, confidence = contestants()["noise 0.1"]
    found = compare({"a": (loss, confidence), "twin": (loss, confidence * 2)})
    pair = found.pair("a", "twin")
    assert pair.p_value == 1
    assert pair.samples_needed is None
    assert "-0" not in repr(found)  # 0 has no sign, whichever of the two comes first
    assert found.winners == ("a", "twin")
    assert found["a"].group == found["twin"].group == "a"
    nudged = confidence.copy()
    order = np.argsort(confidence)
    right, wrong = order[loss[order] == 0][50], order[loss[order] == 1][20]
    nudged[right], nudged[wrong] = confidence[wrong], confidence[right]
    near = compare({"a": (loss, confidence), "near": (loss, nudged)}).pair("a", "near")
    truth = paired_difference(loss, confidence, loss, nudged)
    assert near.standard_error == pytest.approx(truth.standard_error, rel=1e-9)
    rows = np.random.default_rng(0).normal(size=(3, 1000))
    rows[1] = rows[0] + 1e-9 * rows[2]
    models = [
        differences.ComparedModel(
            estimate=1.0,
            less_biased_estimate=1.0,
            standard_error=float(np.linalg.norm(row)),
            effective_draws=99.0,
            few_draws_note="",
            risk=0.5,
            unit_count=1000,
            limits_at_level=lambda level: (0.0, 2.0),
            unit_effects=(row,),
        )
        for row in rows
    ]
    a, b = np.triu_indices(3, 1)
    errors = differences.compare_models(models, a, b, Scale("log"), 0.95, True).standard_error
    for i, j, error in zip(a, b, errors):
        assert error == pytest.approx(np.linalg.norm(rows[i] - rows[j]), rel=1e-9)


# Holm -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_holm_against_its_definition(seed):
    p = np.random.default_rng(seed).random(7) ** 3
    p[3] = p[1]
    corrected = differences.holm(p)
    for level in np.linspace(0.001, 0.999, 400):
        rejected = set()
        for k, i in enumerate(np.argsort(p, kind="stable")):  # step down until the first failure
            if p[i] > level / (len(p) - k):
                break
            rejected.add(int(i))
        sure = {i for i in range(7) if corrected[i] < level - 1e-9}
        maybe = {i for i in range(7) if corrected[i] <= level + 1e-9}
        assert sure <= rejected <= maybe


def test_interval_and_corrected_p_say_the_same():
    """Seven models, 21 pairs: 0 lies outside an interval exactly where the corrected p-value is below 5%."""
    uncorrected_only = 0
    by_holm_alone = 0
    for seed in range(8):
        models = contestants(n=2000, seed=seed, noise=(0.1, 0.15, 0.2, 0.3, 0.32, 0.4, 1.0))
        for pair in compare(models).pairs:
            assert pair.different == (pair.p_adjusted < 0.05) == (not pair.low <= 0 <= pair.high)
            uncorrected_only += pair.p_value < 0.05 <= pair.p_adjusted
            by_holm_alone += pair.p_adjusted < 0.05 <= 21 * pair.p_value
    assert uncorrected_only  # here an interval of the pair alone would contradict the verdict
    assert by_holm_alone  # and here Bonferroni's


@pytest.mark.slow
def test_intervals_of_all_pairs_cover_together():
    """Four models of known areas: all six differences lie inside their intervals in about 95% of runs."""
    noise = (0.1, 0.25, 0.4, 0.8)
    large = compare(contestants(n=1_000_000, seed=99, noise=noise))
    inside = 0
    runs = 2000
    for seed in range(runs):
        pairs = compare(contestants(n=400, seed=seed, noise=noise)).pairs
        truths = [large.pair(p.a, p.b).difference for p in pairs]
        inside += all(p.low <= truth <= p.high for p, truth in zip(pairs, truths))
    assert inside / runs > 0.94


def test_family_of_equals_is_rarely_split():
    """Four equal models: the chance of any false difference stays at or below 5%."""
    rng = np.random.default_rng(7)
    runs, n, false = 600, 300, 0
    for _ in range(runs):
        beta = rng.random(n)
        loss = (rng.random(n) < 0.5 * (1 - beta)).astype(float)
        models = {str(k): (loss, beta + 0.3 * rng.normal(size=n)) for k in range(4)}
        false += any(p.different for p in compare(models).pairs)
    assert false / runs < 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)
    assert false > 0  # it is a test, not a constant


def test_a_real_difference_is_found_and_ranked():
    found = compare(contestants(4000, noise=(3.0, 0.1, 0.1001)))
    assert found.names[-1] == "noise 3.0"
    assert found.pair("noise 0.1", "noise 3.0").different
    assert not found.pair("noise 0.1", "noise 0.1001").different
    assert set(found.winners) == {"noise 0.1", "noise 0.1001"}
    assert [c.group for c in found.contestants] == ["a", "a", "b"]
    assert [(c.rank_low, c.rank_high) for c in found.contestants] == [(1, 2), (1, 2), (3, 3)]
    higher = compare(contestants(4000, noise=(3.0, 0.1)), metric="auroc")
    assert higher.names == ("noise 0.1", "noise 3.0")
    assert not higher.lower_is_better


def test_the_samples_said_to_be_needed_do_tell_them_apart():
    """Draw that many: the difference is then found in most cases."""
    small = compare(contestants(200, seed=4, noise=(0.1, 0.11)))
    pair = small.pairs[0]
    assert not pair.different
    assert "cannot be told apart" in repr(small)
    rounded = int(float(f"{pair.samples_needed:.2g}"))
    assert f"about {rounded:,} samples in all would show this difference in 4 of 5 such comparisons" in repr(
        small
    )
    sigma = pair.standard_error * np.sqrt(200)
    z = pair.difference / (sigma / np.sqrt(pair.samples_needed))
    assert abs(z) == pytest.approx(1.96 + 0.8416, abs=0.01)


# groups ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_groups_are_the_largest_sets_without_a_difference(seed):
    rng = np.random.default_rng(seed)
    m = 6
    different = np.triu(rng.random((m, m)) < 0.4, 1)
    different |= different.T
    fine = [
        set(s)
        for size in range(1, m + 1)
        for s in combinations(range(m), size)
        if not any(different[a, b] for a, b in combinations(s, 2))
    ]
    largest = [s for s in fine if not any(s < other for other in fine)]
    found = [set(s) for s in comparison.groups_of_equals(different)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, largest))


def test_letters_are_shared_exactly_by_those_that_cannot_be_told_apart():
    found = compare(contestants(3000, noise=(0.1, 0.2, 0.4, 0.6, 1.0, 2.0)))
    for p in found.pairs:
        shared = set(found[p.a].group) & set(found[p.b].group)
        assert bool(shared) != p.different


# inputs ---------------------------------------------------------------------------------------------------


def logits_of(seed=0, n=200, k=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    return {name: rng.normal(size=(n, k)) + 2 * np.eye(k)[labels] for name in "AB"}, labels


def test_models_scores_and_losses():
    models, labels = logits_of()
    found = compare(models, labels, losses="cross_entropy", metric="augrc")
    truth = abstain.augrc(
        abstain.losses.cross_entropy(models["A"], labels), abstain.scores.max_softmax(models["A"])
    )
    assert found["A"].estimate == pytest.approx(truth)
    assert found.loss == "cross_entropy"
    scores = compare(models["A"], labels, scores=["max_softmax", "energy", "max_logit"])
    assert set(scores.names) == {"max_softmax", "energy", "max_logit"}
    both = compare(models, labels, scores=["max_softmax", "energy"])
    assert set(both.names) == {f"{m} / {s}" for m in "AB" for s in ("max_softmax", "energy")}
    assert len(compare(models, labels, scores="all").names) == 2 * len(abstain.scores.NAMES)
    probs = {k: np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) for k, z in models.items()}
    same = compare(probs=probs, labels=labels)
    assert same["B"].estimate == pytest.approx(compare(models, labels)["B"].estimate, rel=1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, y: compare({"A": m["A"]}, y), "at least two"),
        (lambda m, y: compare(m), "must be"),
        (lambda m, y: compare(m["A"]), "dict of models"),
        (lambda m, y: compare(labels=y), "dict of models"),
        (lambda m, y: compare(m, y, probs=m), "one of them"),
        (lambda m, y: compare(probs=m), "without `labels`"),
        (lambda m, y: compare(m, y, metric="risk_at_coverage"), "no paired test"),
        (lambda m, y: compare(m, y, metric="auroc", losses="brier"), "0/1 loss"),
        (lambda m, y: compare(m, y, level=95), "fraction"),
        (lambda m, y: compare(m, y, clusters=np.zeros(200)), "two clusters"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(abstain.errors.InputError, match=words):
        call(*logits_of())


# the object -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found():
    return compare(contestants())


def test_json_round_trip(found):
    assert Comparison.from_json(found.to_json()) == found
    with pytest.raises(abstain.errors.InputError, match="not a comparison"):
        Comparison.from_json("{}")


def test_frames(found):
    assert found.frame("dict")["name"] == list(found.names)
    assert len(found.pairs_frame("pandas")) == 6
    assert found.frame("polars").height == 4


def test_pair_may_be_asked_either_way(found):
    a, b = found.names[:2]
    forward, back = found.pair(a, b), found.pair(b, a)
    assert forward.difference == -back.difference
    assert (forward.low, forward.high) == (-back.high, -back.low)
    assert forward.p_value == back.p_value
    for bad in ((a, a), (a, "nobody")):
        with pytest.raises(abstain.errors.InputError):
            found.pair(*bad)


def test_texts(found):
    assert all(name in repr(found) for name in found.names)
    assert found.to_markdown().count("\n| ") == 6
    assert found.to_latex().count(r" \\") == 5
    nasty = compare({"<script>": contestants()["noise 0.1"], "b": contestants()["noise 1.0"]})
    assert "<script>" not in nasty._repr_html_()


def test_plot(found):
    import matplotlib.pyplot as plt

    ax = found.plot()
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert labels[0].startswith(found.names[0])
    assert ax.get_yticks()[0] > ax.get_yticks()[-1]  # best on top
    assert found.display().frame("dict")["estimate"] == [c.estimate for c in found.contestants]
    plt.close("all")


@pytest.mark.data
def test_real_models(data_dir):
    """The ResNets of one author on CIFAR-10: deeper is better, and neighbours are hard to tell apart."""
    stored = {
        d: np.load(data_dir / "logits" / f"cifar10__resnet{d}__akamaster.npz") for d in (20, 32, 44, 56)
    }
    labels = stored[20]["labels"]
    found = compare({str(d): z["logits"] for d, z in stored.items()}, labels)
    assert found.names == ("56", "44", "32", "20")
    assert found.pair("56", "20").different
    assert not found.pair("56", "44").different
    assert found.pair("56", "44").samples_needed > 10_000


# p-values, sentences and captions


def test_no_p_value_reads_as_its_limit():
    assert [format_p_value(p) for p in (0.0501, 0.0499, 0.05004, 0.049999, 3e-9, 0.5)] == [
        "0.0501",
        "0.0499",
        "0.05004",
        "0.049999",
        "3e-09",
        "0.5",
    ]
    assert format_p_value(0.1004, level=0.9) == "0.1004"
    assert format_p_value(0.0501, level=0.9) == "0.05"
    assert format_p_value(0.0099999999999999, level=0.99) == "0.0099999999999999"


def test_a_p_value_that_underflows_is_not_zero_in_any_form():
    loss = np.repeat([0.0, 1.0], 100_000)
    result = compare({"best": (loss, -loss + 1e-6 * np.arange(200_000)), "worst": (loss, loss)})
    assert result.pairs[0].p_adjusted == 0
    assert result.grid()["p"] == ["-", "<1e-300"]
    assert "(corrected p < 1e-300)" in result.pairs[0].sentence()
    assert r"\textless{}$1\times10^{-300}$" in result.to_latex() or r"\textless{}1" in result.to_latex()
    assert "<1e-300" in result.to_markdown()


def test_undecided_pairs_with_the_best_and_neighbours_are_told_and_the_others_counted():
    rng = np.random.default_rng(0)
    loss = (rng.random(400) < 0.3).astype(float)
    confidence = rng.normal(size=400)
    models = {str(place): (loss, confidence + 0.01 * rng.normal(size=400)) for place in range(4)}
    result = compare(models)
    assert not any(pair.different for pair in result.pairs)
    names = result.names
    told = [(names[0], names[1]), (names[0], names[2]), (names[0], names[3])]
    told += [(names[1], names[2]), (names[2], names[3])]
    sentences = result.sentences()
    assert len(sentences) == len(told) + 1
    for (first, second), sentence in zip(told, sentences):
        assert sentence.startswith(f"{first} and {second} cannot be told apart")
    assert sentences[-1] == "1 more pair cannot be told apart either"
    many = compare({str(place): (loss, confidence + 0.01 * rng.normal(size=400)) for place in range(9)})
    assert len(many.sentences()) == 9
    assert (
        many.sentences()[-1]
        == f"{sum(not pair.different for pair in many.pairs) - 8} more pairs cannot be told apart either"
    )


def test_the_caption_names_the_score_and_entries_keep_their_order():
    models, labels = logits_of()
    result = compare(models, labels, scores="energy")
    assert result.score == "energy"
    assert "AURC of energy (zero_one, lower is better)" in result.to_latex().replace(r"\_", "_")
    assert result.entered == tuple(models)
    assert compare(models, labels, scores=["energy", "max_softmax"]).score == ""
    assert compare(models["A"], labels, scores="all").score == ""
    assert compare(contestants()).score == ""


def test_numbers_of_a_column_have_the_same_decimals(found):
    grid = found.grid()
    for title in (found.label, f"{found.level:.0%} interval", "difference"):
        numbers = re.findall(r"\d+\.(\d+)", " ".join(grid[title]))
        assert len({len(decimals) for decimals in numbers}) == 1
    assert r"\phantom{0}" not in found.to_latex()


def test_contestants_without_spread_have_no_interval():
    equal = compare({"a": (np.full(50, 0.3), range(50)), "b": (np.full(50, 0.3), range(50))})
    assert [(c.low, c.high, c.standard_error) for c in equal.contestants] == [(None, None, 0.0)] * 2
    wrong = np.random.default_rng(0).random(200) < 0.2
    undefined = compare({"a": (wrong * 0, range(200)), "b": (wrong, range(200))}, metric="naurc")
    assert undefined["a"].low is None
    assert undefined["b"].low < undefined["b"].estimate < undefined["b"].high
    for text in (repr(equal), repr(undefined), undefined.to_markdown(), undefined.to_latex()):
        assert "inf]" not in text
        assert "-inf" not in text


def test_equal_models_get_one_sentence_and_no_test():
    models = contestants(300)
    name = next(iter(models))
    result = compare({"one": models[name], "two": models[name]})
    assert result.pairs[0].is_equal
    assert result.pairs[0].swapped().is_equal
    assert result.sentences() == [
        "one and two are equal throughout these data by this metric: there is no difference to test"
    ]
    assert result.grid()["p"] == ["-", "-"]
    assert "[" not in result.grid()["difference"][1]


def test_notes_are_in_every_form_of_a_comparison():
    rng = np.random.default_rng(0)
    models = {name: (rng.random(500) < rate, rng.random(500)) for name, rate in (("a", 0.2), ("b", 0.3))}
    result = compare(models)
    (note,) = [note for note in result.notes if note.startswith("AURC includes accuracy")]
    assert f"\n- {note}\n" in result.to_markdown()
    assert f"\n% {note}\n" in result.to_latex()
    assert note in repr(result)


N_BAD = 40
OWN = {"a": (np.arange(N_BAD) % 3 == 0, np.arange(N_BAD)), "b": (np.arange(N_BAD) % 4 == 0, np.arange(N_BAD))}
LOGITS = np.random.default_rng(0).normal(size=(N_BAD, 3))
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
LABELS = np.arange(N_BAD) % 3
READ = Predictions("mine", "t.csv", "csv", 40, loss=OWN["b"][0], confidence=np.arange(40.0))
ANSWERS = {name: 1.0 - loss for name, (loss, _) in OWN.items()}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: compare({**OWN, "b": (OWN["b"][0], range(30))}),
            ShapeError,
            r"compare: b: .* \(40,\) and \(30,\)",
        ),
        (
            lambda: compare({"a": LOGITS, "b": LOGITS[:30]}, LABELS),
            ShapeError,
            "compare: b: `labels` must be one",
        ),
        (
            lambda: compare({"a": LOGITS, "b": PROBS}, LABELS),
            InputError,
            "compare: b: .* Pass probabilities as `probs=`",
        ),
        (
            lambda: compare(probs={"a": PROBS, "b": LOGITS}, labels=LABELS),
            InputError,
            "compare: b: .* logits, pass",
        ),
        (
            lambda: compare({"a": LOGITS}, LABELS, probs={"b": PROBS}),
            InputError,
            r"models \(a\) or `probs=` \(b\)",
        ),
        (lambda: compare({"a": OWN["a"], "b": LABELS}), InputError, "compare: b: without `labels`"),
        (
            lambda: compare("a.npz", "b.npz"),
            InputError,
            r"'a.npz'. Use the command `abstain compare FILE FILE`",
        ),
        (lambda: compare(["a.npz", "b.npz"]), InputError, "abstain compare FILE FILE"),
        (
            lambda: compare({"a": "a.npz", "b": Path("b.npz")}),
            InputError,
            "read each file with .*read_predictions",
        ),
        (
            lambda: compare({"a": READ, "b": READ}),
            InputError,
            r"a: takes arrays, got Predictions. Pass `read.loss_and_confidence\(",
        ),
        (
            lambda: compare(
                {"a": pd.DataFrame({"correct": [1, 0], "confidence": [0.9, 0.1]}), "b": OWN["b"]}
            ),
            InputError,
            r"a: takes arrays, got a table. Pass its columns, `\(1 - table",
        ),
        (
            lambda: compare({"a": {"probs": PROBS}, "b": {"probs": PROBS}}, LABELS),
            InputError,
            r"a: takes arrays, got a dict. Pass `compare\(probs={",
        ),
        (
            lambda: compare({"a": {"loss": [1]}, "b": OWN["b"]}),
            InputError,
            r"got a dict. Pass `\(loss, confidence\)`",
        ),
        (lambda: gate({"a": "a.npz", "b": "b.npz"}, margin=1), InputError, "abstain gate FILE FILE"),
        (lambda: compare_answers({"a": "a.npz", "b": "b.npz"}), InputError, "abstain compare FILE FILE"),
        (lambda: compare_answers({**ANSWERS, "b": ["no"] * 40}), InputError, "compare_answers: b: `correct`"),
        (
            lambda: compare_answers({**ANSWERS, "b": (ANSWERS["b"], [True] * 9)}),
            InputError,
            "compare_answers: b: `answered` must have 40",
        ),
        (
            lambda: compare_answers(ANSWERS, clusters={"a": range(40), "b": range(40, 0, -1)}),
            InputError,
            "those of a and b differ",
        ),
        (lambda: compare_answers(ANSWERS, clusters={"a": range(40)}), InputError, "nothing for 'b'"),
        (
            lambda: evaluate_answers(ANSWERS),
            InputError,
            "answers of one model, got a dict. Use `compare_answers`",
        ),
        (
            lambda: evaluate({"a": LOGITS, "b": LOGITS}, LABELS),
            InputError,
            "one model, got a dict. Use `compare`",
        ),
    ],
)
def test_bad_input_is_told_with_the_model_that_it_is_of(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_model_without_any_confidence_of_its_own_is_ranked_last_and_said_nothing_of():
    rng = np.random.default_rng(0)
    confidence = rng.random(400)
    loss = (rng.random(400) < 0.6 * (1 - confidence)).astype(float)
    nothing = np.zeros(400, dtype=bool)
    comparison = compare(
        {"good": (loss, confidence), "silent": (np.ones(400), np.zeros(400))},
        has_confidence={"good": ~nothing, "silent": nothing},
    )
    assert comparison.names == ("good", "silent")
    assert not any("ranks worse than chance" in note for note in comparison.notes)
