"""expected_aurc: members, their average, and the gain, against direct computation and simulation."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

import abstain
from abstain.evaluation import ExpectedAURC, expected_aurc

matplotlib.use("Agg")


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def ensemble(members=5, n=100, k=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    shared = rng.normal(size=(n, k)) + 2 * np.eye(k)[labels]
    return softmax(shared + 1.5 * rng.normal(size=(members, n, k))), labels


PROBS, LABELS = ensemble()


@pytest.mark.parametrize("loss", ["zero_one", "cross_entropy", "brier"])
def test_members_average_and_gain_by_hand(loss):
    found = expected_aurc(probs=PROBS, labels=LABELS, losses=loss)
    single = getattr(abstain.losses, loss)

    def area(p):
        return abstain.aurc(single(probs=p, labels=LABELS), np.max(p, axis=-1))

    members = [area(p) for p in PROBS]
    assert found.members == pytest.approx(members, rel=1e-9)
    assert found.mean.estimate == pytest.approx(np.mean(members), rel=1e-12)
    assert found.error_members == pytest.approx(np.std(members, ddof=1) / np.sqrt(5), rel=1e-9)
    assert found.averaged.estimate == pytest.approx(area(PROBS.mean(axis=0)), rel=1e-9)
    assert found.gain.estimate == pytest.approx(np.mean(members) - found.averaged.estimate, abs=1e-12)
    assert found.mean.standard_error == pytest.approx(
        np.hypot(found.error_members, found.error_data), rel=1e-12
    )


def test_error_over_data_is_that_of_the_mean_influence():
    found = expected_aurc(probs=PROBS, labels=LABELS)
    pulls = [
        abstain.inference.influence(
            "aurc", abstain.losses.zero_one(probs=p, labels=LABELS), np.max(p, axis=-1)
        ).values
        for p in PROBS
    ]
    assert found.error_data == pytest.approx(np.linalg.norm(np.mean(pulls, axis=0)) / 100, rel=1e-9)


@pytest.mark.parametrize("metric", ["auroc", "aupr_success", "aurc"])
def test_limits_do_not_depend_on_the_order_of_members(metric):
    rng = np.random.default_rng(0)
    losses = rng.random((3, 60)) < np.array([[0.03], [0.3], [0.5]])
    confidences = rng.random((3, 60))
    found, turned = (
        expected_aurc(loss=losses[order], confidence=confidences[order], metric=metric).mean
        for order in ([0, 1, 2], [2, 1, 0])
    )
    assert (found.low, found.high) == pytest.approx((turned.low, turned.high), rel=1e-9)


def test_fubini_the_mean_curve_has_the_mean_area():
    """100 samples without ties: coverages 1/100 ... 1 are the ranks, so the mean of the curve is the mean AURC."""
    found = expected_aurc(probs=PROBS, labels=LABELS)
    assert np.mean(found.curves[0].risk) == pytest.approx(found.mean.estimate, rel=1e-12)
    assert np.mean(found.curves[1].risk[:]) > 0


def test_errors_over_data_against_simulation():
    """Fixed members, fresh samples: the spread of mean, averaged and gain is what one sample predicts."""
    rng = np.random.default_rng(12)
    means, averages, gains, errors = [], [], [], []
    for _ in range(300):
        n, k = 400, 3
        labels = rng.integers(0, k, n)
        x = rng.normal(size=(n, k)) + 1.5 * np.eye(k)[labels]
        tilt = np.array([[0.0, 0.0, 0.0], [0.8, 0.0, -0.8], [-0.8, 0.8, 0.0]])  # three fixed predictors
        found = expected_aurc(x[None] + tilt[:, None, :], labels)
        means.append(found.mean.estimate)
        averages.append(found.averaged.estimate)
        gains.append(found.gain.estimate)
        errors.append((found.error_data, found.averaged.standard_error, found.gain.standard_error))
    predicted = np.sqrt(np.mean(np.square(errors), axis=0))
    spread = np.array([np.std(means), np.std(averages), np.std(gains)])
    assert spread == pytest.approx(predicted, rel=0.15)  # 300 runs: 4% of spread, and n = 400 is not infinite


def test_equal_members_gain_nothing():
    same = np.broadcast_to(PROBS[:1], PROBS.shape)
    found = expected_aurc(probs=same, labels=LABELS)
    assert found.error_members == 0
    assert found.gain.estimate == pytest.approx(0, abs=1e-12)
    assert found.gain.standard_error == pytest.approx(0, abs=1e-12)


def test_logits_say_the_same_as_probabilities():
    a, b = expected_aurc(probs=PROBS, labels=LABELS), expected_aurc(np.log(PROBS) + 3, LABELS)
    assert a.members == pytest.approx(b.members, rel=1e-9)
    assert a.averaged.estimate == pytest.approx(b.averaged.estimate, rel=1e-9)


def test_own_losses_and_confidences():
    loss = np.array([abstain.losses.zero_one(probs=p, labels=LABELS) for p in PROBS])
    sure = PROBS.max(axis=-1)
    alone = expected_aurc(loss=loss, confidence=sure)
    assert alone.averaged is None
    assert alone.gain is None
    assert "not given" in repr(alone)
    pooled = PROBS.mean(axis=0)
    given = expected_aurc(
        loss=loss, confidence=sure, averaged=(abstain.losses.zero_one(probs=pooled, labels=LABELS), pooled.max(axis=-1))
    )  # fmt: skip
    assert given.gain.estimate == pytest.approx(
        expected_aurc(probs=PROBS, labels=LABELS).gain.estimate, rel=1e-9
    )
    other = expected_aurc(loss=loss, confidence=sure, metric="auroc")
    assert other.members[0] == pytest.approx(abstain.auroc(loss[0], sure[0]))


def test_one_member_has_no_error_over_members():
    found = expected_aurc(probs=PROBS[:1], labels=LABELS)
    assert found.error_members == 0
    assert found.mean.standard_error == pytest.approx(found.error_data)


def test_object():
    import matplotlib.pyplot as plt

    found = expected_aurc(probs=PROBS, labels=LABELS)
    assert ExpectedAURC.from_json(found.to_json()) == found
    assert found.frame("dict")["name"] == [*(f"member {k}" for k in range(5)), "mean", "averaged", "gain"]
    assert len(found.plot().lines) == 2
    plt.close("all")
    assert "over members" in repr(found)
    with pytest.raises(abstain.errors.InputError, match="to_json"):
        ExpectedAURC.from_json("{}")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"probs": PROBS}, "labels"),
        ({"probs": PROBS, "logits": PROBS, "labels": LABELS}, "takes logits or"),
        ({"loss": [0, 1], "confidence": [1, 2]}, "members, samples"),
        ({"loss": "zero_one", "confidence": PROBS[:, :, 0]}, "members, samples"),
        ({"probs": PROBS, "labels": LABELS, "metric": "risk_at_coverage"}, "influence"),
        ({"probs": PROBS[0], "labels": LABELS}, "members"),
        ({"loss": [[0, 1]], "confidence": [[1, 2]], "averaged": ([0], [1])}, "samples"),
    ],
)
def test_bad_input_is_refused(given, words):
    with pytest.raises(abstain.errors.InputError, match=words):
        expected_aurc(**given)


@pytest.mark.data
def test_real_seeds(data_dir):
    """Five heads on one encoder: averaging them gains, clearly."""
    stored = [np.load(data_dir / "logits" / f"amazon2023__minilm-mlp-seed{s}.npz") for s in range(5)]
    found = expected_aurc(logits=np.stack([z["logits"] for z in stored]), labels=stored[0]["labels"])
    assert found.members == pytest.approx([0.22867, 0.23122, 0.23569, 0.22587, 0.2329], abs=1e-5)
    assert found.gain.low > 0


def test_members_and_the_averaged_predictor_have_the_intervals_of_one_model():
    rng = np.random.default_rng(5)
    for errors in (0, 1, 20):
        loss, confidence = np.zeros(80), rng.random(80)
        loss[:errors] = 1
        both = np.stack([loss, loss]), np.stack([confidence, confidence])
        found = abstain.evaluation.expected_aurc(
            loss=both[0], confidence=both[1], averaged=(loss, confidence)
        )
        truth = abstain.inference.interval("aurc", loss, confidence)
        for own in (found.mean, found.averaged):
            assert (own.estimate, own.low, own.high) == pytest.approx((truth.estimate, truth.low, truth.high))
        assert found.mean.low >= 0
        assert found.mean.high > found.mean.estimate  # no error among 80 is no proof that there are none
