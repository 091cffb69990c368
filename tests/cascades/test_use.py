"""The classifier of scikit-learn and the command."""

import csv
import io
import json
from unittest import SkipTest

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from abstain.cascades import Cascade, cascade
from abstain.cli.main import cli
from abstain.errors import AbstainError, AbstainWarning, InputError
from abstain.sklearn import CascadeClassifier

X, Y = make_classification(6000, n_features=8, n_informative=4, class_sep=0.9, random_state=0)
STAGES = [("small", LogisticRegression()), ("large", GaussianNB())]


@pytest.mark.filterwarnings("ignore:.*left to the person:abstain.errors.AbstainWarning")
@parametrize_with_checks([CascadeClassifier(risk=0.3, delta=0.2, random_state=0)])
def test_estimator_contract(estimator, check):
    try:
        check(estimator)
    except SkipTest as reason:  # only the checks that need an array API mode nobody has switched on
        if "SCIPY_ARRAY_API" not in str(reason):
            raise


class Counting(GaussianNB):
    """Counts the samples it is asked about."""

    asked = 0

    def predict_proba(self, X):
        Counting.asked += len(X)
        return super().predict_proba(X)


def test_predictions_are_those_of_who_answers():
    clf = CascadeClassifier(STAGES, costs=[1, 5], risk=0.1, cv=0.5, person=(50, 0), random_state=0).fit(X, Y)
    assert clf.cascade_.feasible
    who = clf.decide(X)
    prediction, answered = clf.predict_selective(X)
    assert (answered == (who != "person")).all()
    for (name, _), model in zip(STAGES, clf.estimators_):
        assert (prediction[who == name] == model.predict(X)[who == name]).all()
    g = {name: clf_confidence(model, X) for (name, _), model in zip(STAGES, clf.estimators_)}
    assert (clf.cascade_.decide(g, units="key") == who).all()
    probs = {name: model.predict_proba(X) for (name, _), model in zip(STAGES, clf.estimators_)}
    assert (clf.cascade_.decide(probs=probs) == who).all()
    assert (prediction[answered] != Y[answered]).mean() < 0.12
    assert clf.guarantee_ == clf.cascade_.guarantee
    assert clf.cascade_.scores == {"small": "max_softmax", "large": "max_softmax"}


def clf_confidence(model, x):
    from abstain.scores import max_softmax

    return max_softmax(probs=model.predict_proba(x))


def test_an_expensive_stage_sees_only_what_reaches_it():
    fitted = [
        ("small", LogisticRegression().fit(X[:2000], Y[:2000])),
        ("large", Counting().fit(X[:2000], Y[:2000])),
    ]
    clf = CascadeClassifier(fitted, costs=[1, 50], risk=0.18, cv="prefit", person=(100, 0)).fit(
        X[2000:], Y[2000:]
    )
    Counting.asked = 0
    who = clf.decide(X[:1000])
    expected = (who != "small").sum() if "large" in clf.cascade_.stages_in_use else 0
    assert Counting.asked == expected < 1000


def test_the_deferred_label():
    clf = CascadeClassifier(STAGES, costs=[1, 5], risk=0.08, cv=0.5, person=(50, 0), random_state=0).fit(X, Y)
    who = clf.decide(X)
    assert (who == "person").any()
    assert (who != "person").any()
    for label in (-1, "ask a person"):
        clf.abstain_label = label
        said = clf.predict(X)
        assert (said[who == "person"] == label).all()
        assert (said[who != "person"] == clf.predict_selective(X)[0][who != "person"]).all()


def test_the_deferred_label_is_no_class():
    with pytest.raises(InputError, match="`abstain_label` must not be one of the classes"):
        CascadeClassifier(STAGES, risk=0.2, abstain_label=1).fit(X, Y)


@pytest.mark.parametrize("cv", [5, 1.0, "fit", None])
def test_a_cascade_is_calibrated_on_a_share_or_on_everything(cv):
    """A number of folds would be read as a number of samples to hold out."""
    with pytest.raises(InputError, match="`cv` must be 'prefit' or a share"):
        CascadeClassifier(STAGES, risk=0.2, cv=cv).fit(X, Y)
    with pytest.raises(NotFittedError):
        CascadeClassifier(STAGES, risk=0.2, cv="prefit").fit(X, Y)


@pytest.mark.parametrize("stages", [[], [("a", GaussianNB()), ("a", LogisticRegression())]])
def test_stages_have_names_of_their_own(stages):
    with pytest.raises(InputError, match="each name once"):
        CascadeClassifier(stages, risk=0.2).fit(X, Y)


def test_a_cascade_that_promises_nothing_says_so():
    with pytest.warns(AbstainWarning, match="left to the person"):
        clf = CascadeClassifier(STAGES, risk=1e-4, random_state=0).fit(X, Y)
    assert set(clf.decide(X[:50])) == {"person"}


def test_a_risk_for_each_class_that_is_answered():
    words = np.asarray(["no", "yes"])[Y]
    clf = CascadeClassifier(STAGES, risk={"no": 0.2, "yes": 0.15}, cv="prefit", random_state=0)
    clf.estimators = [(name, model.fit(X[:2000], words[:2000])) for name, model in clf.estimators]
    clf.fit(X[2000:], words[2000:])
    prediction, answered = clf.predict_selective(X[2000:])
    assert answered.any()
    for label in ("no", "yes"):
        counted = answered & (prediction == label)
        assert clf.cascade_[label].counted_answers == counted.sum()
        assert clf.cascade_.risks[label] == pytest.approx((words[2000:][counted] != label).mean())
    with pytest.raises(InputError, match="must be a number, or a dict by class"):
        CascadeClassifier(STAGES, risk={"no": 0.2, "maybe": 0.1}).fit(X, words)


def test_costs_and_stages_must_agree():
    with pytest.raises(InputError, match="needs 2 costs"):
        CascadeClassifier(STAGES, costs=[1], risk=0.1).fit(X, Y)


# the command ----------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for part, n in (("cal", 4000), ("new", 1500)):
        y = rng.integers(0, 4, n)
        for name, shift in (("small", 1.2), ("large", 2.5)):
            z = rng.normal(size=(n, 4))
            z[np.arange(n), y] += shift
            np.savez(tmp_path / f"{part}_{name}.npz", logits=z, labels=y)
            np.savez(tmp_path / f"bare_{part}_{name}.npz", logits=z)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli, ["cascade", *map(str, arguments)])


ASKED = (
    "--names",
    "small,large",
    "--cost",
    "1,10",
    "--person-cost",
    "100",
    "--person-error",
    "0",
    "--risk",
    "0.15",
)


def both(folder, part):
    return folder / f"{part}_small.npz", folder / f"{part}_large.npz"


def test_the_command_chooses_applies_and_checks(files):
    rule = files / "rule.json"
    made = run(*both(files, "cal"), *ASKED, "--save", rule)
    assert made.exit_code == 0, made.output
    assert "error rate of what the stages answer is at most 0.15" in " ".join(made.output.split())
    saved = Cascade.load(rule)
    assert saved.names == ("small", "large")
    assert saved.scores == {"small": "max_softmax", "large": "max_softmax"}
    applied = run(*both(files, "bare_new"), "--apply", rule, "--json")
    assert applied.exit_code == 0, applied.output
    who = json.loads(applied.stdout)
    from abstain.scores import max_softmax

    g = {name: max_softmax(np.load(path)["logits"]) for name, path in zip(saved.names, both(files, "new"))}
    assert who == saved.decide(g, units="key").tolist()
    table = list(csv.DictReader(io.StringIO(run(*both(files, "bare_new"), "--apply", rule, "--csv").stdout)))
    assert [row["answered_by"] for row in table] == who
    logits = {name: np.load(path)["logits"] for name, path in zip(saved.names, both(files, "new"))}
    for number, (name, row) in enumerate(zip(who, table)):
        if name == "person":
            assert (row["prediction"], row["confidence"]) == ("", "")
            continue
        scores_of_row = logits[name][number]
        assert row["prediction"] == str(scores_of_row.argmax())
        confidence = np.exp(scores_of_row.max()) / np.exp(scores_of_row).sum()
        assert float(row["confidence"]) == pytest.approx(confidence)
    looked = run(*both(files, "new"), "--check", rule, "--state", files / "state.json")
    assert looked.exit_code == 0, looked.output
    assert "no alarm (n = 1500, look 1)" in looked.output
    again = run(*both(files, "new"), "--check", rule, "--state", files / "state.json")
    assert "was counted in this series before" in again.output  # the same files count once
    assert "n = 1500, look 1" in again.output
    grown = []  # exports that hold the rows of the first look and new ones
    for name in ("small", "large"):
        older = np.load(files / f"new_{name}.npz")
        newer = np.load(files / f"cal_{name}.npz")
        grown.append(files / f"grown_{name}.npz")
        np.savez(
            grown[-1], **{key: np.concatenate([older[key], newer[key][:500]]) for key in ("logits", "labels")}
        )
    refused = run(*grown, "--check", rule, "--state", files / "state.json")
    assert refused.exit_code == 3
    assert "rows of an earlier look" in refused.output
    assert run(*both(files, "cal"), *ASKED, "-q").output.strip() == repr(saved.cost)
    assert "95%" in run(*both(files, "cal"), *ASKED, "--delta", "0.95").output  # is meant as 0.05


def test_files_are_matched_with_stages_by_their_names(files):
    """In swapped order the large model's confidences would be held against the small one's threshold."""
    for name in ("small", "large"):
        for part, columns in (("cal", "cal"), ("new", "bare_new")):
            (files / part).mkdir(exist_ok=True)
            (files / part / f"{name}.npz").write_bytes((files / f"{columns}_{name}.npz").read_bytes())
    rule = files / "rule.json"
    run(files / "cal" / "small.npz", files / "cal" / "large.npz", *ASKED[2:], "--save", rule)
    in_order = run(files / "new" / "small.npz", files / "new" / "large.npz", "--apply", rule, "--json")
    swapped = run(files / "new" / "large.npz", files / "new" / "small.npz", "--apply", rule, "--json")
    assert json.loads(swapped.stdout) == json.loads(in_order.stdout)
    assert "matched by their names" in swapped.stderr
    assert "matched by their names" not in in_order.stderr
    small, large = both(files, "bare_new")
    for how in ("--apply", "--check"):
        refused = run(large, small, how, rule)
        assert refused.exit_code == 2
        assert "is given for the stage 'small' and has 'large' in its name" in " ".join(
            refused.stderr.split()
        )
    stated = run(large, small, "--apply", rule, "--json", "--names", "large,small")
    assert json.loads(stated.stdout) == json.loads(in_order.stdout)


def test_a_rule_is_applied_by_ids_and_to_what_it_was_made_from(files):
    """In another order, or in other units, the same numbers would send other samples to the person."""
    rng, folder = np.random.default_rng(1), files
    for part, n in (("cal", 4000), ("new", 1500)):
        for name in ("small", "large"):
            z, y = (np.load(folder / f"{part}_{name}.npz")[k] for k in ("logits", "labels"))
            p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
            rows = [f"x{i},{p[i].max()},{p[i].argmax() == y[i]:d}" for i in range(n)]
            if (part, name) == ("new", "large"):
                rows = [rows[i] for i in rng.permutation(n)]
            (folder / f"{part}_{name}.csv").write_text("id,confidence,correct\n" + "\n".join(rows))
    tables = [folder / f"new_{name}.csv" for name in ("small", "large")]
    for ending, of in (("npz", "max_softmax of class scores"), ("csv", "a column of confidences")):
        made = run(
            *(path.with_suffix(f".{ending}") for path in both(folder, "cal")),
            *ASKED,
            "--save",
            folder / ending,
        )
        assert made.exit_code == 0, made.output
        others = tables if ending == "npz" else both(folder, "new")
        for how in ("--apply", "--check"):
            refused = run(*others, how, folder / ending)
            assert refused.exit_code == 3
            assert f"this rule is for {of}, and the file holds" in refused.stderr
    applied = run(*tables, "--apply", folder / "csv", "--json")
    assert "put in the order of small by its ids" in applied.stderr
    assert json.loads(applied.stdout) == json.loads(
        run(*both(folder, "new"), "--apply", folder / "npz", "--json").stdout
    )
    energy = run(*both(folder, "new"), "--check", folder / "npz", "--score", "energy")
    assert "is for max_softmax, not for energy" in energy.stderr


def test_answers_without_a_confidence_keep_their_place(tmp_path):
    """Left out, as `evaluate` does, they would leave the files with different questions."""
    rng, n = np.random.default_rng(2), 800
    hard = rng.random(n)
    for name, strength in (("small", 0.4), ("large", 0.2)):
        right, sure = rng.random(n) > strength * hard, 1 - hard + rng.normal(0, 0.1, n)
        rows = [
            f"q{i},{'ab'[int(right[i])]},b,{'' if rng.random() < 0.02 else sure[i]}"
            for i in rng.permutation(n)
        ]
        (tmp_path / f"{name}.csv").write_text("question_id,prediction,label,confidence\n" + "\n".join(rows))
    files = [tmp_path / f"{name}.csv" for name in ("small", "large")]
    made = run(*files, *ASKED, "--save", tmp_path / "rule.json", "--json")
    assert made.exit_code == 0, made.stderr
    assert "have no `confidence` and are ranked last by it" in made.stderr
    found = json.loads(made.stdout)
    assert found["n"] == n
    applied = run(*files, "--apply", tmp_path / "rule.json", "--json")
    assert "put in the order of small by its ids" in applied.stderr
    assert json.loads(applied.stdout).count("small") == pytest.approx(dict(found["shares"])["small"] * n)


def test_what_the_command_says_when_nothing_can_be_certified(files):
    answer = run(*both(files, "cal"), *ASKED[:-1], "0.0005")
    assert answer.exit_code == 4
    assert "No feasible cascade" in answer.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--risk", "0.1"), "needs --cost, --person-cost, --person-error"),
        ((*ASKED, "--cost", "1"), "--cost must give 2 numbers"),
        ((*ASKED, "--cost", "a*b,1"), "write NUMBER*COLUMN, got 'a*b'"),
        ((*ASKED, "--groups"), "--groups needs a column"),
        ((*ASKED, "--state", "s.json"), "--state goes with --check"),
        (("--apply", "r.json", "--check", "r.json"), "give one of --save, --apply, --check"),
        (("--apply", "r.json", "--save", "s.json"), "--save goes with a new rule"),
    ],
)
def test_what_the_command_refuses(files, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.json").write_text("{}")  # a rule must exist before anything else is said
    answer = run(*both(files, "cal"), *arguments)
    assert answer.exit_code == 2
    assert message in answer.output


def test_deferring_is_the_default_and_clusters_reach_the_promise():
    options = {"costs": [1, 5], "risk": 0.1, "delta": 0.2, "cv": 0.5, "person": (50, 0), "random_state": 0}
    clf = CascadeClassifier(STAGES, **options).fit(X, Y, clusters=np.arange(len(Y)) // 2)
    person = clf.decide(X) == "person"
    assert person.any()
    np.testing.assert_array_equal(clf.predict(X) == -1, person)
    np.testing.assert_array_equal(clf.predict_all(X), clf.predict_selective(X)[0])
    assert clf.cascade_.clusters == len(Y) // 4
    assert clf.cascade_.largest == 2
    always = CascadeClassifier(STAGES, **options, abstain_label=None).fit(X, Y)
    np.testing.assert_array_equal(always.predict(X), always.predict_all(X))
    site = np.arange(len(Y)) % 2
    by_site = CascadeClassifier(STAGES, **options | {"risk": 0.15}).fit(X, Y, groups=site)
    assert "group" in by_site.guarantee_


def _two_stages():
    rng = np.random.default_rng(0)
    confidence = {name: rng.random(2000) for name in ("small", "large")}
    worst = {"small": 0.6, "large": 0.2}
    wrong = {name: rng.random(2000) < worst[name] * (1 - g) for name, g in confidence.items()}
    stages = {
        "small": (wrong["small"], confidence["small"], 1.0),
        "large": (wrong["large"], confidence["large"], 5.0),
    }
    return cascade(stages, risk=0.12, person=(50.0, 0.0)), wrong, confidence


@pytest.mark.parametrize(
    ("abstained", "message"),
    [
        ({"smal": [True, True]}, r"must be a dict by stage \(small, large\), got smal"),
        ({"small": [True]}, r"`abstained` needs one mark per sample, got shapes \(1,\) and \(2,\)"),
        ({"small": True}, r"needs one mark per sample, got shapes \(\) and"),
        ({"small": ["0", "0"]}, "`abstained` must be boolean"),
    ],
)
def test_marks_of_missing_answers_are_never_dropped(abstained, message):
    """A misspelt stage would let answers through that were never given."""
    rule, _, _ = _two_stages()
    confidences = {"small": [0.99, 0.98], "large": [0.99, 0.98]}
    assert rule.decide(confidences).tolist() == ["small", "small"]
    assert rule.decide(confidences, abstained={"small": [True, False]}).tolist() == ["large", "small"]
    assert rule.decide({"small": [0.99]}, abstained={"large": [True]}).tolist() == ["small"]
    with pytest.raises(AbstainError, match=message) as refused:
        rule.decide(confidences, abstained=abstained)
    assert "\n" not in str(refused.value)


def test_a_check_that_lacks_something_is_refused_in_one_line():
    rule, wrong, g = _two_stages()
    stages = {name: (wrong[name], g[name]) for name in g}
    assert rule.check(stages).holds
    bad = {
        "needs every stage": {"small": stages["small"]},
        "must be .loss, confidence.": stages | {"large": None},
        "needs one loss per sample": stages | {"large": (wrong["large"][:7], g["large"])},
        "`kind` must be one of": stages | {"large": (wrong["large"], {"logit": g["large"]})},
    }
    for message, given in bad.items():
        with pytest.raises(AbstainError, match=message) as refused:
            rule.check(given)
        assert "\n" not in str(refused.value)
    with pytest.raises(AbstainError, match="`stage` must be one of"):
        rule.answers("medium", [0.9])
