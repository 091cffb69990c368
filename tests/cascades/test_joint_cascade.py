"""Several promises by one cascade: what is certified, violations over populations, records, later checks, the command."""

import json

import numpy as np
import pytest
import scipy.stats
from click.testing import CliRunner

import abstain
from abstain.cascades import Cascade, JointCascade, build, cascade, load_cascade
from abstain.cascades.inputs import collect_data
from abstain.cascades.search import PolicyGrid, choose_cuts, find_answering_stage
from abstain.cli.main import cli
from abstain.errors import DataError, InputError, ShapeError
from abstain.thresholds import GroupChecks, decision_record

PERSON = (100.0, 0.0)
RISKS = {"errors": 0.15, "hours": 0.06}


def sample(n=4000, seed=0, small=0.5, large=0.2):
    """Two stages with errors and hours lost; hours are at most 1 and only lost by errors."""
    rng = np.random.default_rng(seed)
    hard = rng.random(n)
    stages = {}
    for name, chance, cost in (("small", small, 1.0), ("large", large, 10.0)):
        wrong = rng.random(n) < chance * hard
        hours = np.where(wrong, rng.random(n), 0.0)
        stages[name] = ({"errors": wrong, "hours": hours}, -hard - 0.2 * rng.normal(size=n), cost)
    return stages


def look_at(stages):
    """The same stages as `check` takes them: without costs."""
    return {name: entry[:2] for name, entry in stages.items()}


def binary(n=5000, seed=0):
    """Logits of two classifiers, the second better, and the labels."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    stages = {}
    for name, noise, cost in (("small", 3.0, 1.0), ("large", 1.5, 10.0)):
        margin = (label - 0.5) * 4 + noise * rng.normal(size=n)
        stages[name] = {"logits": np.stack([-margin / 2, margin / 2], axis=1), "cost": cost}
    return stages, label


# what is certified ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"promise": "system"}, {"clusters": np.arange(4000) // 4}, {"groups": np.arange(4000) % 2}],
    ids=["samples", "system", "clusters", "groups"],
)
def test_the_same_promise_twice_is_one_promise(options):
    stages = {name: (losses["errors"], g, cost) for name, (losses, g, cost) in sample().items()}
    both = cascade(stages, risk={"a": 0.15, "b": 0.15}, person=PERSON, **options)
    alone = cascade(stages, risk=0.15, person=PERSON, **options)
    assert alone.feasible
    assert both.thresholds == alone.thresholds
    assert both.cost == alone.cost
    assert both["b"].to_json() == alone.to_json()


def test_each_promise_has_the_risk_of_its_own_loss():
    stages = sample()
    rule = cascade(stages, risk=RISKS, person=PERSON)
    who = rule.decide({name: g for name, (_, g, _) in stages.items()})
    for promise in ("errors", "hours"):
        loss = np.select(
            [who == name for name in stages], [losses[promise] for losses, _, _ in stages.values()]
        )
        assert rule.risks[promise] == pytest.approx(loss[who != "person"].mean())
    assert rule.targets == RISKS
    # each promise alone allows at least as much
    for promise, target in RISKS.items():
        one_loss = {name: (losses[promise], g, cost) for name, (losses, g, cost) in stages.items()}
        assert cascade(one_loss, risk=target, person=PERSON).cost <= rule.cost


def test_promises_about_classes_count_the_answers_of_who_answers():
    stages, label = binary()
    rule = cascade(stages, labels=label, risk={0: 0.08, 1: 0.05}, person=PERSON)
    logits = {name: entry["logits"] for name, entry in stages.items()}
    who = rule.decide(logits=logits)
    answer = np.select([who == name for name in stages], [x.argmax(axis=1) for x in logits.values()], -1)
    for name in (0, 1):
        assert rule.risks[name] == pytest.approx((label[answer == name] != name).mean())
        assert rule[name].counted_answers == int((answer == name).sum())
    assert "the error rate of the stages' answers of class 1 is at most 0.05" in rule.guarantee
    masks = {}
    for name, number in (("no", 0), ("yes", 1)):
        masks[name] = {stage: x.argmax(axis=1) == number for stage, x in logits.items()}
    entries = {}
    for stage, x in logits.items():
        entries[stage] = (x.argmax(axis=1) != label, abstain.scores.max_softmax(x), stages[stage]["cost"])
    by_mask = cascade(entries, risk={"no": 0.08, "yes": 0.05}, among=masks, person=PERSON)
    assert by_mask.thresholds == rule.thresholds
    among = "the answers that it is about, among what the stages answer, is at most 0.05"
    assert f"yes: the mean loss of {among}" in by_mask.guarantee


def test_a_promise_about_some_samples_of_a_single_stage_is_tested_exactly():
    """One stage is a threshold: the same as `select_threshold` with the same masks."""
    stages = sample(3000)
    losses, g, _ = stages["large"]
    some = np.random.default_rng(3).random(3000) < 0.5
    options = {"risk": {"errors": 0.12, "hours": 0.08}, "among": {"errors": some}}
    rule = cascade({"large": stages["large"]}, person=PERSON, **options)
    threshold = abstain.select_threshold(losses=losses, confidence=g, **options)
    assert rule.thresholds["large"] == threshold.value
    assert rule["errors"].counted_answers == threshold.counted["errors"].accepted


def test_answers_are_counted_policy_by_policy():
    """Sums over the grid of policies are those of each policy by itself, over the answers that the promise is about."""
    rng = np.random.default_rng(4)
    stages = {name: (losses["errors"], g, cost) for name, (losses, g, cost) in sample(200).items()}
    counted = {name: rng.random(200) < 0.5 for name in ("small", "large", "person")}
    data = collect_data("test", stages, (9.0, 0.5), "system", (0, 1), counted=counted)
    grid = PolicyGrid(data, choose_cuts(data, 4))
    counts = grid.count_counted_answers()
    lost = grid.sum_over_counted_answers(data.losses)
    for policy in range(counts.size):
        answering = find_answering_stage(data.confidences, grid.thresholds_of(policy))
        is_counted = np.choose(answering, list(counted.values()))
        assert counts.reshape(-1)[policy] == is_counted.sum()
        loss = np.choose(answering, data.losses)
        assert lost.reshape(-1)[policy] == pytest.approx(loss[is_counted].sum())


# violations over populations -----------------------------------------------------------------------

TARGETS = {"a": 0.1, "b": 0.2}


def populations():
    """Twenty populations: levels of confidence, chances of a loss, and the share of samples that promise b is about.

    Both stages have uniform, independent confidences in 40 steps, or in 6 with many ties. Chances are by stage and
    promise, at each level. Where one promise or stage is safe the other often is not.
    """
    for step_count in (40, 6):
        g = (np.arange(step_count) + 0.5) / step_count
        same = np.ones(step_count)
        wave = 0.5 + 0.5 * np.sin(12 * g)
        just_above = (0.1 + 1e-6) * same, (0.2 + 1e-6) * same
        profiles = [
            (just_above, just_above),
            ((just_above[0], 0.02 * same), (just_above[0], 0.02 * same)),
            ((0.02 * same, just_above[1]), (0.02 * same, just_above[1])),
            ((0.3 * (1 - g), 0.5 * (1 - g)), (0.2 * (1 - g), 0.4 * (1 - g))),
            (just_above, (0.05 * same, 0.25 * same)),
            ((0.05 * same, 0.25 * same), (0.15 * same, 0.1 * same)),
            ((0.2 * wave, 0.4 * (1 - wave)), (0.2 * (1 - wave), 0.4 * wave)),
            ((0.2 * g, 0.4 * (1 - g)), (0.2 * (1 - g), 0.4 * g)),
            ((0.11 * (g > 0.8) + 0.09 * (g <= 0.8), 0.1 * same), (0.09 * same, 0.25 * (g > 0.5) + 0.1)),
            ((0.3 * (1 - g) ** 3, 0.21 * same), (0.12 * same, 0.3 * (1 - g) ** 2 + 0.12)),
        ]
        for number, (small, large) in enumerate(profiles):
            yield g, {"small": small, "large": large}, 0.4 if number % 2 else 1.0


def true_risks(g, chances, thresholds):
    """Mean loss of each promise over what the stages answer, in the population."""
    small = np.broadcast_to(g[:, None] >= thresholds["small"], (len(g), len(g)))
    large = (g[None, :] >= thresholds["large"]) & ~small
    answered = small.sum() + large.sum()
    risks = []
    for promise in (0, 1):
        lost = (small * chances["small"][promise][:, None]).sum() + (large * chances["large"][promise]).sum()
        risks.append(lost / answered)
    return risks


def count_violations(population, runs, rng, n=500, delta=0.1):
    """In how many of the runs the chosen cascade breaks some promise."""
    g, chances, share = population
    violations = 0
    for _ in range(runs):
        stages = {}
        for stage, cost in (("small", 1.0), ("large", 5.0)):
            level = rng.integers(0, len(g), n)
            first, second = chances[stage]
            common = rng.random(n)  # losses of one sample depend on each other
            losses = {"a": common < first[level], "b": common < second[level]}
            stages[stage] = (losses, g[level], cost)
        options = {} if share == 1.0 else {"among": {"b": rng.random(n) < share}}
        rule = cascade(stages, risk=TARGETS, person=PERSON, delta=delta, rng=rng, **options)
        if rule.feasible:
            risk_a, risk_b = true_risks(g, chances, rule.thresholds)
            violations += risk_a > TARGETS["a"] + 1e-12 or risk_b > TARGETS["b"] + 1e-12
    return violations


@pytest.fixture
def without_advice(monkeypatch):
    """Advice on what would be feasible takes ten times as long as the choice of a cascade."""
    monkeypatch.setattr(build, "_advise", lambda *_: None)


@pytest.mark.usefixtures("without_advice")
def test_some_promise_is_broken_in_at_most_delta():
    for number in (0, 2, 14):
        population = list(populations())[number]
        violations = count_violations(population, 60, np.random.default_rng(number))
        assert violations <= scipy.stats.binom.ppf(0.999, 60, 0.1)


@pytest.mark.slow
@pytest.mark.usefixtures("without_advice")
@pytest.mark.parametrize("half", [0, 1])
def test_some_promise_is_broken_in_at_most_delta_in_twenty_populations(half):
    for number, population in enumerate(populations()):
        if number // 10 == half:
            violations = count_violations(population, 2000, np.random.default_rng(number))
            print(f"population {number + 1}: some promise broken in {violations} of 2000 (delta 0.1)")
            assert violations <= scipy.stats.binom.ppf(0.999, 2000, 0.1)


# records and later data ----------------------------------------------------------------------------


@pytest.mark.parametrize("risk", [RISKS, {"errors": 1e-4, "hours": 0.06}], ids=["feasible", "infeasible"])
def test_a_rule_comes_back_from_json(risk, tmp_path):
    rule = cascade(sample(), risk=risk, person=PERSON, unit="USD")
    rule.save(tmp_path / "rule.json")
    again = load_cascade(tmp_path / "rule.json")
    assert isinstance(again, JointCascade)
    assert again.to_json() == rule.to_json()
    assert repr(again) == repr(rule)
    assert rule.frame("pandas").shape == (2, 4)
    record = decision_record(rule)
    if rule.feasible:
        assert f"risk of hours {rule.risks['hours']:.4g}" in record
        assert (
            "asked for: risk of errors at most 0.15, risk of hours at most 0.06 of what the stages" in record
        )
        assert f"In full: {rule.guarantee}" in record
        assert "all of these hold: the mean of errors over the models' answers is at most 0.15; the" in record
    else:
        assert "None: this rule promises nothing." in record
        assert rule["errors"].advice is not None
        assert rule["hours"].advice is None
        assert rule.guarantee is None
        assert "feasible errors" in repr(rule)


def test_a_tampered_rule_is_refused():
    stored = json.loads(cascade(sample(), risk=RISKS, person=PERSON).to_json())
    with pytest.raises(DataError, match="promises must be at `delta`"):
        JointCascade.from_json(json.dumps({**stored, "delta": 0.01}))
    stored["promises"] = stored["promises"][:1]
    with pytest.raises(DataError, match="there must be two promises"):
        JointCascade.from_json(json.dumps(stored))


def test_a_file_is_loaded_as_what_it_holds(tmp_path):
    one_loss = {name: (losses["errors"], g, cost) for name, (losses, g, cost) in sample().items()}
    rule = cascade(one_loss, risk=0.15, person=PERSON)
    rule.save(tmp_path / "one.json")
    assert isinstance(load_cascade(tmp_path / "one.json"), Cascade)
    abstain.select_threshold([0] * 9, range(9), coverage=0.5).save(tmp_path / "threshold.json")
    with pytest.raises(DataError, match="holds a threshold, not a cascade"):
        load_cascade(tmp_path / "threshold.json")


def test_later_data_are_held_against_each_promise():
    rule = cascade(sample(8000), risk=RISKS, person=PERSON)
    later = sample(4000, seed=9)
    fine = rule.check(look_at(later))
    assert fine.holds
    assert {check.delta for check in fine.checks.values()} == {0.025}
    worse = {}
    for name, (losses, g, cost) in later.items():
        hours = np.where(losses["errors"], 1.0, 0.0)  # as many errors, each at its worst
        worse[name] = ({"errors": losses["errors"], "hours": hours}, g, cost)
    seen = rule.check(look_at(worse), previous=GroupChecks.from_json(fine.to_json()))
    assert seen["hours"].risk_alarm
    assert not seen["errors"].risk_alarm
    assert seen["errors"].n == 8000


def test_later_data_of_classes():
    stages, label = binary()
    rule = cascade(stages, labels=label, risk={0: 0.08, 1: 0.05}, person=PERSON)
    later, later_label = binary(seed=1)
    look = {}
    for name, entry in later.items():
        look[name] = (entry["logits"].argmax(axis=1) != later_label, {"logits": entry["logits"]})
    seen = rule.check(look)
    assert seen.holds
    logits = {name: entry["logits"] for name, entry in later.items()}
    who = rule.decide(logits=logits)
    answer = np.select([who == name for name in logits], [x.argmax(axis=1) for x in logits.values()], -1)
    assert seen[1].counted == int((answer == 1).sum())
    assert seen[1].risk == pytest.approx((later_label[answer == 1] != 1).mean())
    with pytest.raises(InputError, match="this promise is one of several, about some answers"):
        rule[1].check(look)
    with pytest.raises(InputError, match="`among` must fit the promises, got none for 0"):
        rule.check(look, among={})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"risk": {"errors": 0.1}}, InputError, "at least two promises, got 1"),
        (
            {"risk": {"errors": 0.1, "hours": 3}},
            InputError,
            r"`risk` must lie inside bounded=\(0, 1\), got 3",
        ),
        ({"risk": {"errors": 0.1, "days": 0.1}}, InputError, "`losses` must have the names of the promises"),
        ({"risk": RISKS, "person": (9.0, {"errors": 0.0})}, InputError, "`person`: `losses` must have"),
        ({"risk": RISKS, "among": {"days": [True] * 4000}}, InputError, "must name promises"),
        ({"risk": RISKS, "among": {"hours": [True]}}, ShapeError, "one truth value per sample"),
        ({"risk": RISKS, "among": {"hours": {"small": [True] * 4000}}}, InputError, "a mask for 'large'"),
        (
            {
                "risk": RISKS,
                "among": {"hours": {"small": [True] * 4000, "large": [True] * 4000}},
                "promise": "system",
            },
            InputError,
            "a mask for 'person'",
        ),
        ({"risk": 0.1, "among": {}}, InputError, "go with a dict of risks"),
    ],
)
def test_what_cannot_be_promised_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        cascade(sample(), **{"person": PERSON} | options)


def test_classes_need_class_scores_and_answers_of_stages():
    stages, label = binary(500)
    with pytest.raises(InputError, match='take promise="answered", got "system"'):
        cascade(stages, labels=label, risk={0: 0.1, 1: 0.1}, person=PERSON, promise="system")
    with pytest.raises(InputError, match="stage 'small': promises about predicted classes need `among=`"):
        cascade(stages, labels=label, risk={"no": 0.1, "yes": 0.1}, person=PERSON)


# the command ---------------------------------------------------------------------------------------

COSTS = ["--cost", "1,10", "--person-cost", "100", "--person-error", "0"]


def run(*arguments):
    return CliRunner().invoke(cli, ["cascade", *map(str, arguments)])


def test_the_command_promises_for_classes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for prefix, seed in (("", 0), ("later-", 1)):
        stages, label = binary(seed=seed)
        for name, entry in stages.items():
            np.savez(f"{prefix}{name}.npz", logits=entry["logits"], labels=label)
    chosen = run(
        "small.npz", "large.npz", *COSTS, "--risk", "0=0.08", "--risk", "1=0.05", "--save", "rule.json"
    )
    assert chosen.exit_code == 0, chosen.output
    rule = load_cascade("rule.json")
    stages, label = binary()
    same = cascade(stages, labels=label, risk={0: 0.08, 1: 0.05}, person=PERSON)
    assert rule.thresholds == same.thresholds
    assert rule.risks == {str(name): risk for name, risk in same.risks.items()}
    assert rule.guarantee == same.guarantee
    later = ["later-small.npz", "later-large.npz"]
    checked = run(*later, "--check", "rule.json", "--state", "series.json")
    assert checked.exit_code == 0, checked.output
    assert set(GroupChecks.load("series.json").checks) == {"0", "1"}
    applied = run(*later, "--apply", "rule.json")
    assert applied.exit_code == 0
    unknown = run("small.npz", "large.npz", *COSTS, "--risk", "0=0.08,7=0.05")
    assert "must be classes of the answers (0, 1), got" in unknown.output


def test_the_command_promises_for_columns_of_losses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stages = sample(3000)
    for name, (losses, g, _) in stages.items():
        rows = [
            f"{i},{c!r},{int(e)},{h!r}"
            for i, (c, e, h) in enumerate(zip(g.tolist(), losses["errors"], losses["hours"].tolist()))
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,confidence,errors,hours", *rows]))
    chosen = run("small.csv", "large.csv", *COSTS, "--risk", "errors=0.15,hours=0.06", "--save", "rule.json")
    assert chosen.exit_code == 0, chosen.output
    same = cascade(stages, risk=RISKS, person=PERSON)
    assert load_cascade("rule.json").thresholds == same.thresholds
    assert load_cascade("rule.json").risks == pytest.approx(same.risks)
    refused = run("small.csv", "large.csv", "--check", "rule.json")
    assert "the rule was made from these data" in refused.output
