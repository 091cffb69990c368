"""The cost-risk curve: what its points are, its bands, its area, its picture."""

import numpy as np
import pytest

import abstain
from abstain.cascades.curve import find_cheapest
from abstain.errors import InputError
from abstain.formats import Predictions
from abstain.report import gather, page


def sample(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    g = rng.random((2, n))
    return {
        "small": (rng.random(n) < 0.6 * (1 - g[0]), g[0], 1.0),
        "large": (rng.random(n) < 0.3 * (1 - g[1]), g[1], 10.0),
    }


PERSON = (100.0, 0.0)


def test_the_cheapest_policy_for_each_risk_one_by_one():
    rng = np.random.default_rng(0)
    cost, risk = rng.random(50), rng.random(50)
    cost[-1], risk[-1] = 2.0, 1.0  # the person
    target = np.linspace(-0.1, 1, 30)
    for k, t in zip(find_cheapest(cost, risk, np.arange(50), target), target):
        keeps = [i for i in range(50) if risk[i] <= t]
        assert k == (min(keeps, key=lambda i: cost[i]) if keeps else 49)


def true_values(policy, n=400_000):
    """Cost and risk of thresholds in the population."""
    stages = sample(n, seed=99)
    small = stages["small"][1] >= policy[0]
    large = ~small & (stages["large"][1] >= policy[1])
    cost = (policy[0] < np.inf) + 10 * (~small).mean() * (policy[1] < np.inf) + 100 * (~small & ~large).mean()
    wrong = np.where(small, stages["small"][0], stages["large"][0])
    return cost, wrong[small | large].mean()


def test_points_are_near_the_population_and_bands_hold_it():
    curve = abstain.cascades.cost_risk_curve(sample(), person=PERSON, risks=(0.1, 0.3), points=7)
    held = []
    for k in range(7):
        cost, risk = true_values(curve.thresholds[k])
        held += [
            curve.cost_low[k] <= cost <= curve.cost_high[k],
            curve.risk_low[k] <= risk <= curve.risk_high[k],
        ]
        assert risk == pytest.approx(curve.target[k], abs=0.03)
    assert np.mean(held) >= 0.7
    assert (np.diff(curve.cost) < 0).all()


def test_bands_and_area_hold_the_truth_as_often_as_they_say():
    """60 data sets; the bands come from the half that did not choose."""
    held = []
    for seed in range(60):
        curve = abstain.cascades.cost_risk_curve(
            sample(1000, seed), person=PERSON, risks=(0.15, 0.3), points=3, cuts=20
        )
        costs = [true_values(p, 40_000)[0] for p in curve.thresholds]
        held.append([*((curve.cost_low <= costs) & (costs <= curve.cost_high)),
                     curve.area_interval[0] <= np.mean(costs) <= curve.area_interval[1]])  # fmt: skip
    assert (np.mean(held, axis=0) > 0.85).all()


def test_the_area_is_the_mean_cost_over_the_range():
    curve = abstain.cascades.cost_risk_curve(sample(), person=PERSON, risks=(0.1, 0.3), points=21)
    assert curve.area == pytest.approx(curve.cost.mean())
    assert curve.area_interval[0] < curve.area < curve.area_interval[1]


def test_a_cascade_is_below_its_stages_and_the_coin():
    curve = abstain.cascades.cost_risk_curve(sample(20_000), person=PERSON, risks=(0.1, 0.3))
    assert (curve.cost <= 1.02 * np.minimum(curve.alone["small"], curve.alone["large"])).all()
    ends = np.asarray(list(curve.everything.values()))
    assert ends[:, 1].tolist() == [1.0, 10.0]
    assert ends[:, 0] == pytest.approx([0.3, 0.15], abs=0.02)
    inside = (curve.target > 0.17) & (curve.target < 0.29)
    coin = np.interp(curve.target[inside], ends[::-1, 0], ends[::-1, 1])
    assert (curve.cost[inside] < coin).all()


def test_least_cost_and_least_risk():
    curve = abstain.cascades.cost_risk_curve(sample(), person=PERSON, risks=(0.1, 0.3))
    assert curve.cost_at(0.05) == np.inf
    assert curve.cost_at(0.3) == curve.cost.min()
    assert np.isnan(curve.risk_at(0.5))
    assert curve.risk_at(1000.0) == curve.target[0]
    middle = curve.cost_at(0.2)
    assert curve.risk_at(middle) <= 0.2


def test_below_every_risk_the_person_answers():
    curve = abstain.cascades.cost_risk_curve(sample(), person=PERSON, risks=(1e-9, 0.3), points=4)
    assert curve.cost[0] == 100.0
    assert curve.coverage[0] == 0
    assert np.isnan(curve.risk[0])


def test_the_system_counts_the_person():
    curve = abstain.cascades.cost_risk_curve(
        sample(), person=(100.0, 0.1), promise="system", risks=(0.12, 0.3), points=6
    )
    assert np.isfinite(curve.risk).all()
    with pytest.raises(InputError, match="must not go below"):  # the person errs more often than that
        abstain.cascades.cost_risk_curve(sample(), person=(100.0, 0.1), promise="system", risks=(0.001, 0.3))


def test_frame_picture_and_section():
    curve = abstain.cascades.cost_risk_curve(sample(500), person=PERSON, unit="USD", points=5, cuts=10)
    frame = curve.frame("dict")
    assert list(frame)[:3] == ["target", "cost", "cost_low"]
    assert len(frame["threshold of small"]) == 5
    drawn = curve.plot()
    assert drawn.get_ylabel() == "cost per sample USD"
    assert [text.get_text() for text in drawn.get_legend().get_texts()][:2] == ["cascade", "small alone"]
    section = curve.to_html()
    assert section.startswith('<section id="cascade"><h2>What an answer costs</h2><svg')
    assert "large alone" in section
    assert "USD" in repr(curve)


def test_the_report_takes_the_section():
    curve = abstain.cascades.cost_risk_curve(sample(500), person=PERSON, points=5, cuts=10)
    loss, confidence, _ = sample(500)["small"]
    read = Predictions("mine", "t.csv", "csv", 500, loss=loss.astype(float), confidence=confidence)
    section = curve.to_html()
    assert section in page(gather([read]), more=section)


def test_clusters_widen_the_bands():
    stages = {name: (np.repeat(l, 5), np.repeat(g, 5), c) for name, (l, g, c) in sample(600).items()}
    asked = {"person": PERSON, "risks": (0.15, 0.3), "points": 3}
    plain = abstain.cascades.cost_risk_curve(stages, **asked)
    wide = abstain.cascades.cost_risk_curve(stages, **asked, clusters=np.repeat(np.arange(600), 5))
    assert np.diff(wide.area_interval) / wide.area > 1.7 * np.diff(plain.area_interval) / plain.area


def test_too_few_samples_are_refused():
    with pytest.raises(InputError, match="at least two samples in each half"):
        abstain.cascades.cost_risk_curve({"a": ([0, 1], [0.1, 0.2], 1.0)}, person=PERSON)
