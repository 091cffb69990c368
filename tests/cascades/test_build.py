"""`cascade`: what it takes, what it answers, and how it is applied, stored and checked."""

import math

import numpy as np
import pytest

import abstain
from abstain.cascades import cascade
from abstain.errors import InputError, ShapeError


def sample(n=4000, seed=0, small=0.5, large=0.2):
    rng = np.random.default_rng(seed)
    hard = rng.random(n)
    mine, theirs = (hard + 0.2 * rng.normal(size=n) for _ in range(2))
    return {
        "small": (rng.random(n) < small * hard, -mine, 1.0),
        "large": (rng.random(n) < large * hard, -theirs, 10.0),
    }


RULE = {"risk": 0.15, "person": (100.0, 0.0)}


def test_it_is_cheaper_than_either_stage_alone():
    stages = sample(20_000)
    rule = cascade(stages, **RULE)
    for name, (loss, g, cost) in stages.items():
        t = abstain.select_threshold(loss, g, risk=0.15, delta=0.025)
        alone = cost + 100.0 * (g < t.value).mean()
        assert rule.cost < 0.8 * alone, name


def test_many_samples_do_not_start_too_late():
    """With a million samples estimates err by many standard errors: the first policy tested must be safe all the same."""
    rng = np.random.default_rng(0)
    g, n = rng.random((3, 10**6)), 10**6
    told = enumerate(zip((0.6, 0.4, 0.2), (1.0, 10.0, 30.0)))
    stages = {str(j): (rng.random(n) < p * (1 - g[j]), g[j], cost) for j, (p, cost) in told}
    rule = cascade(stages, **RULE, cuts=50)
    assert rule.stages_in_use == ("0", "1", "2")
    assert rule.cost < 10


def test_decide_is_the_rule_and_nan_passes_on():
    rule = cascade(sample(), **RULE)
    t = rule.thresholds
    up, down = np.nextafter(t["small"], np.inf), np.nextafter(t["small"], -np.inf)
    g = {"small": [up, t["small"], down, np.nan], "large": [0.0, 0.0, 0.0, np.nan]}
    assert rule.decide(g).tolist() == ["small", "small", "large", "person"]
    # stage by stage: what the first passes on goes to the next that is asked
    assert rule.decide({"small": g["small"]}).tolist() == ["small", "small", "large", "large"]
    with pytest.raises(InputError, match="confidences of small, large, or of the first of them, got large"):
        rule.decide({"large": [0.0]})
    with pytest.raises(ShapeError, match="one length"):
        rule.decide({"small": [0.0], "large": [0.0, 1.0]})


def test_plain_numbers_of_a_known_score():
    """A rule made from rank keys of max_softmax decides the same by the probabilities that people know."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 3000)
    logits = [rng.normal(size=(3000, 3)) + s * np.eye(3)[y] for s in (1.5, 3.0)]
    key = [abstain.scores.max_softmax(z) for z in logits]
    stages = {name: (z.argmax(1) != y, g, c) for name, z, g, c in zip("ab", logits, key, (1.0, 9.0))}
    rule = cascade(stages, risk=0.12, person=(50.0, 0.0), scores=dict.fromkeys("ab", "max_softmax"))
    plain = {name: (np.exp(z) / np.exp(z).sum(1, keepdims=True)).max(1) for name, z in zip("ab", logits)}
    assert rule.stages_in_use == ("a", "b")
    assert (
        rule.decide(plain, units="plain") == rule.decide(dict(zip("ab", key)), units="key")
    ).mean() > 0.999
    with pytest.raises(InputError, match="`units` must be one of"):
        rule.decide(plain, units="percent")


def test_none_says_why_and_what_would_do():
    rule = cascade(sample(), risk=0.001, person=(100.0, 0.0))
    assert rule.thresholds is None
    assert not rule.feasible
    assert rule.guarantee is None
    assert rule.risk is None
    assert "can be certified" in rule.note
    assert 0.001 < rule.advice.risk < 0.2
    assert cascade(sample(), risk=rule.advice.risk, person=(100.0, 0.0)).feasible
    assert rule.decide({"small": [9.0], "large": [9.0]}).tolist() == ["person"]
    assert (rule.coverage, rule.cost, rule.shares["person"]) == (0.0, 100.0, 1.0)
    assert "none keeps the promise" in repr(rule)


def test_what_would_be_needed_is_about_enough():
    """Where a policy looks good enough but too few samples say so, a few times the number named does."""
    rule = cascade(sample(150), risk=0.1, person=(100.0, 0.0))
    assert rule.thresholds is None
    needed = rule.advice.samples
    assert 150 < needed < 5000
    more = [cascade(sample(3 * needed, seed), risk=0.1, person=(100.0, 0.0)).feasible for seed in range(1, 6)]
    assert sum(more) >= 4


def test_a_single_stage_where_no_cascade_can_help():
    """The cheap stage is noise and the risk lies below the dear one's error: the dear one alone, and it is said."""
    rng = np.random.default_rng(0)
    g, noise = rng.random(6000), rng.random(6000)
    stages = {
        "noise": (rng.random(6000) < 0.9, noise, 1.0),
        "good": (rng.random(6000) < 0.4 * (1 - g), g, 10.0),
    }
    rule = cascade(stages, risk=0.1, person=(100.0, 0.0))
    assert rule.stages_in_use == ("good",)
    assert rule.thresholds["noise"] == math.inf
    assert "'good' alone: no cascade can help here" in rule.note
    assert rule.cost == pytest.approx(
        10 + 100 * rule.shares["person"]
    )  # the stage that is not asked is not paid


def test_a_person_who_is_cheap_is_named():
    rule = cascade(sample(), risk=0.15, person=(0.5, 0.0))
    assert "Leaving everything to the person would cost less: 0.5" in rule.note


def test_ties_are_answered_together():
    stages = {name: (loss, np.round(g * 3) / 3, c) for name, (loss, g, c) in sample().items()}
    rule = cascade(stages, **RULE)
    who = rule.decide({name: g for name, (_, g, _) in stages.items()})
    for value in np.unique(stages["small"][1]):
        assert len(set(who[stages["small"][1] == value] == "small")) == 1


def test_the_person_counts_where_the_promise_speaks_of_the_system():
    stages = sample()
    errors = np.random.default_rng(1).random(4000) * 0.1
    rule = cascade(stages, risk=0.1, person=(20.0, errors), promise="system")
    who = rule.decide({name: g for name, (_, g, _) in stages.items()})
    lost = np.select([who == "small", who == "large"], [stages["small"][0], stages["large"][0]], errors)
    assert rule.risk == pytest.approx(lost.mean())
    assert "the person's with the error stated" in rule.guarantee
    # a person who errs as often as is allowed helps nobody
    assert not cascade(stages, risk=0.02, person=(20.0, 0.02), promise="system").feasible


def test_every_group_must_keep_the_promise():
    rng = np.random.default_rng(0)
    n = 9000
    bad = rng.random(n) < 0.2
    g = rng.random((2, n))
    stages = {
        "small": (rng.random(n) < 0.3 * (1 - g[0]) + 0.25 * bad, g[0], 1.0),
        "large": (rng.random(n) < 0.05 * (1 - g[1]) + 0.15 * bad, g[1], 10.0),
    }
    loose, strict = (cascade(stages, risk=0.2, person=(100.0, 0.0), groups=groups) for groups in (None, bad))
    risk = {}
    for rule in (loose, strict):
        who = rule.decide({name: x for name, (_, x, _) in stages.items()})
        lost = np.where(who == "small", stages["small"][0], stages["large"][0])
        risk[rule is strict] = lost[bad & (who != "person")].mean()
    assert risk[False] > 0.25
    assert risk[True] < 0.2
    assert "in each of 2 groups" in strict.guarantee
    assert strict.cost > loose.cost


def test_clusters_ask_for_more():
    stages = sample()
    plain = cascade(stages, **RULE)
    alone = cascade(stages, **RULE, clusters=np.arange(4000))
    copies = {name: (np.repeat(l, 10), np.repeat(g, 10), c) for name, (l, g, c) in sample(400).items()}
    repeated = cascade(copies, risk=0.15, person=(100.0, 0.0), clusters=np.repeat(np.arange(400), 10))
    assert alone.feasible
    assert alone.cost < 1.2 * plain.cost
    assert not repeated.feasible or repeated.cost > 1.2 * plain.cost  # ten copies of 400 say no more than 400
    assert "largest here (10)" in (repeated.guarantee or "largest here (10)")


def test_many_stages_coarsen_the_grid_and_say_so():
    rng = np.random.default_rng(0)
    g = rng.random((5, 3000))
    stages = {str(j): (rng.random(3000) < 0.4 / (j + 1), g[j], float(j + 1)) for j in range(5)}
    rule = cascade(stages, risk=0.3, person=(100.0, 0.0))
    assert "coarsened to 14 thresholds by stage" in rule.note
    assert "coarsened" not in cascade(dict(list(stages.items())[:2]), risk=0.3, person=(100.0, 0.0)).note
    with pytest.raises(InputError, match="1 to 19 stages"):
        cascade({str(j): (g[0] < 0.1, g[0], 1.0) for j in range(20)}, risk=0.3, person=(1.0, 0.0))


def test_one_stage_is_a_threshold():
    """With one stage there is nothing to share: the threshold that `select_threshold` finds."""
    loss, g, _ = sample()["small"]
    rule = cascade({"only": (loss, g, 1.0)}, risk=0.2, person=(10.0, 0.0))
    assert rule.thresholds["only"] == abstain.select_threshold(loss, g, risk=0.2, delta=0.05).value


def test_the_same_seed_gives_the_same_rule():
    stages = sample()
    one, two = (cascade(stages, **RULE, rng=3).to_json() for _ in range(2))
    assert one == two
    generator = cascade(stages, **RULE, rng=np.random.default_rng(3))
    assert generator.to_json() == one
