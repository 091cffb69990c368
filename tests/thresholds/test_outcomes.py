"""Costs with and without a human, and the clinical table, against sums over samples."""

from fractions import Fraction

import numpy as np
import pytest

import abstain
from abstain.errors import InputError, ShapeError
from abstain.thresholds import ClinicalTable, clinical_table


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    g = rng.integers(0, 12, 300) / 12
    return rng.random(300) * (rng.random(300) < 0.5 * (1 - g)), g, rng.random(300), rng.random(300) * 0.2


def test_cost_curve_is_the_sum_over_samples(sample):
    loss, g, cost, human = sample
    curve = abstain.thresholds.cost_curve(loss, g, cost=cost, person_loss=human)
    for i, t in enumerate(curve.value):
        taken = g >= t
        assert curve.coverage[i] == pytest.approx(taken.mean())
        assert curve.cost[i] == pytest.approx((np.where(taken, loss, cost + human)).mean())
        assert curve.system_loss[i] == pytest.approx((np.where(taken, loss, human)).mean())
    assert curve.cost[curve.best] == pytest.approx(curve.cost.min())
    assert len(curve.value) == 1 + len(np.unique(g))
    assert curve.frame("dict")["cost"] == curve.cost.tolist()
    assert "least cost" in repr(curve)


def test_cost_curve_with_one_price_is_chow(sample):
    loss, g, *_ = sample
    curve = abstain.thresholds.cost_curve(loss, g, cost=0.1)
    assert curve.cost.min() == pytest.approx(abstain.metrics.rejection_cost(loss, g, cost=0.1))
    best = abstain.metrics.best_rejection(loss, g, cost=0.1)
    assert curve.value[curve.best] == best.threshold


def test_cost_curve_with_weights_is_repetition(sample):
    loss, g, cost, human = sample
    times = np.random.default_rng(1).integers(0, 4, len(g))
    a = abstain.thresholds.cost_curve(loss, g, cost=cost, person_loss=human, sample_weight=times)
    many = [np.repeat(x, times) for x in (loss, g, cost, human)]
    b = abstain.thresholds.cost_curve(many[0], many[1], cost=many[2], person_loss=many[3])
    np.testing.assert_allclose(a.cost, b.cost)
    np.testing.assert_array_equal(a.value, b.value)


def test_class_costs_read_the_matrix():
    loss, reject = abstain.thresholds.class_costs(
        [0, 1, 2, 1], [0, 0, 1, 1], errors=[[0, 1, 2], [3, 0, 4], [5, 6, 0]], rejections=[1, 2, 3]
    )
    assert loss.tolist() == [0, 3, 6, 0]
    assert reject.tolist() == [1, 2, 3, 2]
    with pytest.raises(InputError, match=r"0 \.\.\. 2"):
        abstain.thresholds.class_costs([3], [0], errors=np.ones((3, 3)))
    with pytest.raises(ShapeError):
        abstain.thresholds.class_costs([0], [0], errors=np.ones((2, 3)))
    with pytest.raises(InputError, match="whole numbers"):
        abstain.thresholds.class_costs(["a"], ["b"], errors=np.ones((2, 2)))


def test_bad_costs(sample):
    loss, g, *_ = sample
    with pytest.raises(InputError):
        abstain.thresholds.cost_curve(loss, g, cost=-1.0)
    with pytest.raises(ShapeError):
        abstain.thresholds.cost_curve(loss, g, cost=np.ones(3))
    with pytest.raises(InputError):
        abstain.thresholds.cost_curve(loss, g, cost=np.full(300, np.nan))


def test_clinical_table_counts_by_hand():
    rng = np.random.default_rng(2)
    y, p, g = rng.integers(0, 3, 400), rng.integers(0, 3, 400), rng.integers(0, 9, 400) / 8
    t = abstain.clinical_table(y, p, g, positive=2, thresholds=[0.0, 0.5, 1.0, 2.0])
    for i, at in enumerate([0.0, 0.5, 1.0, 2.0]):
        taken = g >= at
        yes, says = y[taken] == 2, p[taken] == 2
        assert t.accepted[i] == taken.sum()
        if not taken.any():
            assert np.isnan(t.sensitivity.value[i])
            assert (t.ppv.low[i], t.ppv.high[i]) == (0, 1)
            continue
        assert t.sensitivity.value[i] == pytest.approx(says[yes].mean())
        assert t.specificity.value[i] == pytest.approx((~says)[~yes].mean())
        assert t.ppv.value[i] == pytest.approx(yes[says].mean())
        assert t.npv.value[i] == pytest.approx((~yes)[~says].mean())
        assert t.prevalence.value[i] == pytest.approx(yes.mean())
        assert t.positives_accepted.value[i] == pytest.approx(taken[y == 2].mean())
        assert sum(share[i] for share in t.class_mix.values()) == pytest.approx(1)
        assert t.class_mix[1][i] == pytest.approx((y[taken] == 1).mean())
        assert t.sensitivity.low[i] <= t.sensitivity.value[i] <= t.sensitivity.high[i]
        assert t.sensitivity.of[i] == yes.sum()
    assert "positive = 2" in repr(t)
    np.testing.assert_array_equal(t.frame("dict")["npv"], t.npv.value)


def test_clinical_table_defaults_to_deciles_and_takes_words():
    rng = np.random.default_rng(3)
    y = np.asarray(["ill", "well"])[rng.integers(0, 2, 200)]
    t = abstain.clinical_table(y, y, rng.random(200), positive="ill")
    assert t.coverage.round(2).tolist() == [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    assert (t.sensitivity.value == 1).all()
    with pytest.raises(InputError, match="positive"):
        abstain.clinical_table(y, y, rng.random(200), positive="dead")
    with pytest.raises(ShapeError):
        abstain.clinical_table(y, y[:5], rng.random(200), positive="ill")


@pytest.mark.data
def test_handing_over_to_people_beats_either_alone(data_dir):
    """CIFAR-10H: the model with people behind it errs less than the model and costs less than people alone."""
    human = np.load(data_dir / "images" / "cifar10h_human_probs.npz")
    probs = human[human.files[0]]
    z = np.load(data_dir / "logits" / "cifar10__resnet20__akamaster.npz")
    labels = z["labels"].astype(int)
    if probs.shape != (10000, 10):
        probs = next(human[k] for k in human.files if human[k].shape == (10000, 10))
    wrong = z["logits"].argmax(1) != labels
    curve = abstain.thresholds.cost_curve(
        wrong,
        abstain.scores.max_softmax(z["logits"]),
        cost=0.02,
        person_loss=1 - probs[np.arange(10000), labels],
    )
    b = curve.best
    assert curve.cost[b] < 0.6 * min(curve.cost[0], curve.cost[-1])
    assert curve.system_loss[b] < 0.5 * wrong.mean()
    assert curve.system_loss[b] < curve.system_loss[0]


def _cheapest(loss, confidence, cost):
    """Threshold of the least cost in exact arithmetic; the largest coverage (the lowest threshold) among equals."""
    options = {None: cost * len(loss)}
    for t in sorted(set(confidence), reverse=True):
        options[t] = sum((Fraction(l) if g >= t else cost) for l, g in zip(loss, confidence))
    least = min(options.values())
    return [t for t, paid in options.items() if paid == least][-1]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_cheapest_threshold_has_the_largest_coverage_among_equals(library):
    asarray = np.asarray if library == "numpy" else pytest.importorskip("torch").as_tensor
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(1, 40))
        tenths = rng.integers(0, 11, n)
        confidence, cost = rng.integers(0, 15, n).astype(float), int(rng.integers(1, 10))
        truth = _cheapest([Fraction(int(x), 10) for x in tenths], confidence.tolist(), Fraction(cost, 10))
        loss = asarray(tenths / 10)
        assert abstain.metrics.best_rejection(loss, asarray(confidence), cost=cost / 10).threshold == truth
        curve = abstain.thresholds.cost_curve(loss, asarray(confidence), cost=cost / 10)
        assert curve.value[curve.best] == (np.inf if truth is None else truth)
        assert abstain.select_threshold(loss, asarray(confidence), cost=cost / 10).value == truth


def test_costs_that_make_no_sense_are_refused():
    with pytest.raises(ShapeError, match=r"cost_curve: takes one vector, got shape \(2, 3\)"):
        abstain.thresholds.cost_curve(np.zeros((2, 3)), np.zeros((2, 3)))
    for rejections in (-1, [0, -1], np.nan, [0, np.inf]):
        with pytest.raises(InputError, match="class_costs: `rejections` must be finite and at least 0"):
            abstain.thresholds.class_costs([0, 1], [1, 1], errors=[[0, 1], [1, 0]], rejections=rejections)
    with pytest.raises(ShapeError, match="`rejections` must be a number or one for each of 2 classes"):
        abstain.thresholds.class_costs([0, 1], [1, 1], errors=[[0, 1], [1, 0]], rejections=[1, 2, 3])


def test_a_missing_label_is_not_a_negative_case():
    for labels, answers in (([1, 0, np.nan], [1, 0, 0]), (["a", None, "b"], ["a", "b", "b"])):
        for y, p in ((labels, answers), (answers, labels)):
            with pytest.raises(InputError, match="must all be known"):
                clinical_table(y, p, [0.9, 0.8, 0.7], positive=labels[0])


def test_thresholds_of_a_clinical_table():
    """To accept everything is a threshold that `select_threshold` gives; what is no number is none."""
    table = clinical_table([1, 0], [1, 0], [0.9, 0.8], thresholds=[-np.inf, np.inf])
    assert table.accepted.tolist() == [2, 0]
    assert ClinicalTable.from_json(table.to_json()).to_json() == table.to_json()
    for wrong in ([np.nan], [[0.5]]):
        with pytest.raises(InputError, match="thresholds"):
            clinical_table([1, 0], [1, 0], [0.9, 0.8], thresholds=wrong)


def test_clinical_limits_count_patients_where_clusters_are_given():
    """Five equal pictures of each of 40 patients: the limits of 40 draws, whatever the rate, and never narrower."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 40)
    said = np.where(rng.random(40) < 0.2, 1 - truth, truth)
    confidence = rng.random(40)
    five_times = [np.repeat(values, 5) for values in (truth, said, confidence, np.arange(40))]
    patients = five_times.pop()
    options = {"positive": 1, "thresholds": [0.0, 0.5]}
    clustered = clinical_table(*five_times, clusters=patients, **options)
    once = clinical_table(truth, said, confidence, **options)
    for name in ("sensitivity", "specificity", "ppv", "npv", "prevalence"):
        rate, expected = getattr(clustered, name), getattr(once, name)
        assert rate.value == pytest.approx(expected.value)
        # C / (C - 1) of C clusters is the only difference from C single draws
        assert rate.low == pytest.approx(expected.low, abs=0.03)
        assert rate.high == pytest.approx(expected.high, abs=0.03)
    alone = clinical_table(*five_times, **options)
    assert (clustered.sensitivity.high - clustered.sensitivity.low)[0] > 1.9 * (
        alone.sensitivity.high - alone.sensitivity.low
    )[0]
    singles = clinical_table(truth, said, confidence, clusters=np.arange(40), **options)
    assert (singles.ppv.low <= once.ppv.low + 1e-12).all()
    two_kinds = np.stack([patients, np.arange(200) % 7], axis=1)
    crossed = clinical_table(*five_times, clusters=two_kinds, **options)
    assert (crossed.npv.low <= clustered.npv.low + 1e-12).all()
    one_patient = clinical_table(truth, said, confidence, clusters=np.zeros(40, dtype=int), **options)
    assert (one_patient.ppv.low[0], one_patient.ppv.high[0]) == (0.0, 1.0)  # one draw says nothing


@pytest.mark.parametrize(
    "clusters",
    [
        [0, 0, 1, 1],
        [[0, 0], [0, 1], [1, 0], [1, 1]],  # two kinds that cross
    ],
)
def test_clinical_limits_where_every_cluster_has_the_same_rate(clusters):
    """Clusters that do not vary at all would be more draws than trials: the limits are those without clusters."""
    sample = ([1, 0, 0, 1], [1, 1, 1, 1], [0.9, 0.8, 0.7, 0.6])  # every cluster has one positive case of two
    clustered = clinical_table(*sample, clusters=np.asarray(clusters), thresholds=[0.0]).ppv
    alone = clinical_table(*sample, thresholds=[0.0]).ppv
    assert clustered.value.tolist() == [0.5]
    assert (clustered.low[0], clustered.high[0]) == pytest.approx((alone.low[0], alone.high[0]))


def test_thresholds_that_would_round_to_1_are_shown_as_their_distance():
    confidence = np.array([0.5, 0.996, 1 - 3e-9, 1.0])
    table = clinical_table([1, 0, 1, 0], [1, 0, 1, 0], confidence, thresholds=confidence)
    assert table.grid()["threshold"] == ["0.5", "0.996", "1 − 3e-09", "1"]
    assert "1 $-$ 3e-09" in table.to_latex()
