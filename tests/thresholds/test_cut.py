"""A rule decides by the calibration's own blocks whatever form its data come in, or refuses.

Rules are made from {logits, probs, rank keys, plain numbers} x {float16, bfloat16, float32, float64} and applied to
each of these forms of the same samples. The oracle compares numpy numbers of the calibration form with the threshold.
bfloat16 are torch tensors; a file has no such type and holds the same numbers as float32.
"""

from __future__ import annotations

import collections
import itertools

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.errors import DataError, DtypeError, InputError
from abstain.sklearn import SelectiveClassifier

SOURCES = ("logits", "probs", "key", "plain")
DTYPES = ("float16", "bfloat16", "float32", "float64")
FORMS = tuple(itertools.product(SOURCES, DTYPES))
KINDS = ("separate", "close", "saturated", "continuous")


def rounded(numbers, dtype):
    """Float64 numbers stored in a type of fewer bits."""
    if dtype == "bfloat16":
        return torch.from_numpy(np.asarray(numbers)).to(torch.bfloat16)
    return np.asarray(numbers).astype(dtype)


def logits_of(rng, kind, n):
    """Rows of three logits: tied in a few levels (far apart, close or beyond float32 probabilities), or all distinct."""
    margins = {
        "separate": np.cumsum(rng.uniform(0.5, 1.5, 6)),
        "close": 2 + np.cumsum(10.0 ** rng.uniform(-7, -0.5, 6)),
        "saturated": rng.uniform(10, 20) + np.cumsum(rng.uniform(0.2, 4, 6)),
        "continuous": rng.uniform(0.3, 12, n),
    }[kind]
    margin = margins if kind == "continuous" else rng.choice(margins, n)
    z = np.zeros((n, 3))
    z[:, 1] = -margin
    z[:, 2] = -margin - 1
    return z + rng.choice([0.0, 3.0, -7.3])


def forms_of(z):
    """The same samples in every form, as keyword arguments of `accepts`."""
    shifted = np.exp(z - z.max(1, keepdims=True))
    probs = shifted / shifted.sum(1, keepdims=True)
    key = abstain.scores.max_softmax(z)
    columns = {"logits": z, "probs": probs, "key": key, "plain": probs.max(1)}
    made = {}
    for source, dtype in FORMS:
        values = rounded(columns[source], dtype)
        if source in ("logits", "probs"):
            made[source, dtype] = {source: values}
        else:
            made[source, dtype] = {"confidence": values, "units": source}
    return made


def calibrated(wrong, columns, **options):
    confidence = columns.get("confidence")
    others = {name: x for name, x in columns.items() if name != "confidence"}
    return abstain.select_threshold(wrong, confidence, score="max_softmax", **others, **options)


def own_numbers(columns):
    """The confidences of a form, as `abstain.scores` computes them."""
    if "confidence" in columns:
        values = columns["confidence"]
        return np.asarray(values.float() if torch.is_tensor(values) else values, dtype=np.float64)
    if "probs" in columns:
        return np.asarray(abstain.scores.max_softmax(probs=columns["probs"]), dtype=np.float64)
    return np.asarray(abstain.scores.max_softmax(columns["logits"]), dtype=np.float64)


def sample_of(seed, n=240):
    rng = np.random.default_rng(seed)
    z = logits_of(rng, KINDS[seed % 4], n)
    margin = z[:, 0] - z[:, 1]
    rank = margin.argsort().argsort() / n
    wrong = rng.random(n) < np.where(
        margin >= np.quantile(margin, rng.uniform(0.3, 0.7)), 0.005, 0.5 - 0.2 * rank
    )
    asked = [{"risk": 0.1}, {"coverage": 0.5, "method": "empirical"}, {"risk": 0.1, "method": "sgr"}]
    return z, wrong, asked[seed // 4 % 3]


def outcome(expected, decide):
    """ "equal", "refused", or what went wrong."""
    try:
        decisions = np.asarray(decide())
    except (InputError, DataError) as refusal:
        return "refused" if "\n" not in str(refusal) else "refused in several lines"
    if (decisions & ~expected).any():
        return "ACCEPTS A REJECTED BLOCK"
    return "equal" if (decisions == expected).all() else "rejects an accepted block"


def must_be_equal(kind, made, applied):
    """Cells that may not be refused: the same form, and float32 and float64 of blocks that are far apart."""
    wide = {made[1], applied[1]} <= {"float32", "float64"}
    return made == applied or (kind == "separate" and wide)


def thresholds_of(seed, tally, rules=16):
    """Cells of one data set for `Threshold`: so many rules, each applied to all 16 forms."""
    z, wrong, options = sample_of(seed)
    forms = forms_of(z)
    made_from = np.random.default_rng(seed).permutation(len(FORMS))[:rules]
    for made in (FORMS[k] for k in made_from):
        columns = forms[made]
        rule = calibrated(wrong, columns, **options)
        if not rule.feasible:
            tally["Threshold", "no rule"] += 1
            continue
        expected = own_numbers(columns) >= rule.value
        assert expected.mean() == pytest.approx(rule.coverage)
        for rows in (
            [int(made_from[0])],
            np.arange(len(z))[:: int(made_from[1]) + 7],
        ):  # parts of the same form
            part = {name: x if name == "units" else x[rows] for name, x in columns.items()}
            assert (rule.accepts(**part) == expected[rows]).all(), (seed, made)
        for applied, others in forms.items():
            result = outcome(expected, lambda rule=rule, others=others: rule.accepts(**others))
            tally["Threshold", result] += 1
            if result == "refused":
                assert not must_be_equal(KINDS[seed % 4], made, applied), (seed, made, applied)
            if applied[1] == "bfloat16":
                stored = {name: as_stored(x) for name, x in others.items()}
                result = outcome(expected, lambda rule=rule, stored=stored: rule.accepts(**stored))
                tally["Threshold, stored", result] += 1


def others_of(seed, tally, folder):
    """Some cells of one data set for everything else that holds a confidence against a cut."""
    z, wrong, options = sample_of(seed)
    forms = forms_of(z)
    rng = np.random.default_rng(seed)
    made, applied = (FORMS[k] for k in rng.integers(0, 16, 2))
    columns, others = forms[made], forms[applied]
    groups = np.where(np.arange(len(z)) % 2, "a", "b")
    rules = calibrated(wrong, columns, **options, groups=groups)
    if rules.feasible:
        values = np.where(groups == "a", rules["a"].value, rules["b"].value)
        expected = own_numbers(columns) >= values
        tally["GroupThresholds", outcome(expected, lambda: rules.accepts(**others, groups=groups))] += 1
    stage_of(seed, tally, wrong, columns, others)
    classifier_of(seed, tally, z, wrong, made[1], applied[1])
    rule = calibrated(wrong, forms[("logits", "probs")[seed % 2], made[1]], **options)
    if rule.feasible:
        rule.save(folder / "rule.json")
        expected = own_numbers(forms[("logits", "probs")[seed % 2], made[1]]) >= rule.value
        result = outcome(expected, lambda: decided(folder, others, applied))
        tally["decide", result] += 1


def stage_of(seed, tally, wrong, columns, others):
    if "confidence" in columns:
        stages = {"one": (wrong, columns["confidence"], 1.0)}
        asked = {"scores": {"one": "max_softmax"}, "units": columns["units"]}
    else:
        stages, asked = {"one": {**columns, "loss": wrong, "cost": 1.0}}, {}
    rule = abstain.cascade(stages, risk=0.15, person=(50.0, 0.0), rng=seed, **asked)
    if not rule.feasible:
        return
    expected = own_numbers(columns) >= rule.thresholds["one"]
    if "confidence" in others:
        given = {"confidences": {"one": others["confidence"]}, "units": others["units"]}
    else:
        given = {kind: {"one": values} for kind, values in others.items()}
    tally["Cascade", outcome(expected, lambda: rule.decide(**given) == "one")] += 1


class Stored:
    """A fitted classifier that says what it was given, in one precision."""

    classes_ = np.arange(3)

    def __init__(self, dtype="float64"):
        self.dtype = dtype

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        values = rounded(X, self.dtype)
        return np.asarray(values.float()) if torch.is_tensor(values) else values

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def __sklearn_is_fitted__(self):
        return True

    def get_params(self, deep=False):
        return {"dtype": self.dtype}

    def __sklearn_tags__(self):
        from sklearn.dummy import DummyClassifier

        return DummyClassifier().__sklearn_tags__()


def classifier_of(seed, tally, z, wrong, made, applied):
    probs = np.asarray(forms_of(z)["probs", "float64"]["probs"])
    model = Stored(made)
    clf = SelectiveClassifier(model, coverage=0.5, method="empirical", cv="prefit")
    try:
        clf.fit(probs, wrong.astype(int))
    except InputError:  # float16 and bfloat16 rows that do not sum to one as their float32 copies should
        tally["SelectiveClassifier", "refused"] += 1
        return
    expected = abstain.scores.max_softmax(probs=model.predict_proba(probs)) >= clf.threshold_.value
    clf.estimator_ = Stored(applied)
    tally["SelectiveClassifier", outcome(expected, lambda: clf.accepts(probs))] += 1


def as_stored(values):
    """What a file holds: it has no bfloat16, so that such numbers are stored as float32."""
    return np.asarray(values.float()) if torch.is_tensor(values) else values


def decided(folder, columns, form):
    """By the command, from a file."""
    numbers = {name: x for name, x in columns.items() if name != "units"}
    arrays = {name: as_stored(x) for name, x in numbers.items()}
    np.savez(folder / "new.npz", **arrays)
    extra = ["--score", "max_softmax"] if form[0] in ("key", "plain") else []
    if form[0] == "key":
        raise InputError("the command takes no rank keys: --score says that a column holds plain numbers")
    run = CliRunner().invoke(cli, ["decide", str(folder / "rule.json"), str(folder / "new.npz"), *extra])
    if run.exit_code:
        raise DataError(run.stderr.strip())
    lines = run.stdout.splitlines()
    place = lines[0].split(",").index("accepted")
    return np.asarray([line.split(",")[place] == "1" for line in lines[1:]])


def shown(tally):
    for (name, result), count in sorted(tally.items()):
        print(f"{name:20} {result:28} {count:>9,}")


def run_matrix(seeds, folder, rules=16):
    tally = collections.Counter()
    for seed in seeds:
        thresholds_of(seed, tally, rules)
        others_of(seed, tally, folder)
    shown(tally)
    fine = ("equal", "refused", "no rule")
    wrong = {cell for cell in tally if cell[1] not in fine}
    assert not wrong, tally
    return tally


def test_every_cell_is_the_calibrations_own_decision_or_refused(tmp_path):
    tally = run_matrix(range(12), tmp_path)
    assert tally["Threshold", "equal"] > 0.4 * (tally["Threshold", "equal"] + tally["Threshold", "refused"])


@pytest.mark.slow
def test_every_cell_over_2000_data_sets(tmp_path):
    run_matrix(range(2000), tmp_path, rules=4)


SHORT_NUMBERS = {
    17: ("probs", "float64", "plain"),  # all probabilities round to 0.84375
    889: ("probs", "float32", "logits"),  # all logits round to whole numbers
    1045: ("probs", "float64", "plain"),
    1449: ("probs", "float16", "logits"),
    981: ("logits", "float32", "logits"),  # the rule's own form, as far as a file tells
    6: ("plain", "float32", "plain"),  # all probabilities round to 1
    661: ("probs", "float64", "key"),
}


@pytest.mark.parametrize("seed", SHORT_NUMBERS)
def test_numbers_so_short_that_they_may_be_bfloat16_are_refused_near_the_threshold(seed):
    """bfloat16 numbers stored as float32 do not tell that they were rounded when all are whole or short fractions."""
    source, dtype, applied_source = SHORT_NUMBERS[seed]
    z, wrong, options = sample_of(seed)
    forms = forms_of(z)
    rule = calibrated(wrong, forms[source, dtype], **options)
    stored = {name: as_stored(x) for name, x in forms[applied_source, "bfloat16"].items()}
    message = f"in {dtype}, got .* so short that they may be bfloat16: rounding hides"
    with pytest.raises(InputError, match=message):
        rule.accepts(**stored)


def test_short_numbers_far_from_the_threshold_are_decided():
    confidence = np.linspace(0.1, 0.9, 2001)
    wrong = np.arange(2001) < 1000
    rule = abstain.select_threshold(wrong, confidence, coverage=0.5, method="empirical")
    assert rule.accepts(np.repeat([0.0, 0.25, 0.75, 1.0], 50)).tolist() == [False] * 100 + [True] * 100
    assert rule.accepts([0.5]).tolist() == [rule.value <= 0.5]  # one sample shows nothing about its precision
    with pytest.raises(InputError, match="got confidences so short that they may be bfloat16"):
        rule.accepts(np.repeat(0.5, 50))


# single findings ------------------------------------------------------------------------------------------------


def verbalised(n=4000):
    """Three levels of stated confidence; the middle one is wrong in 40% of the cases and must stay out at 5%."""
    rng = np.random.default_rng(0)
    p = rng.choice([0.95, 0.9, 0.6], n, p=[0.5, 0.3, 0.2])
    wrong = rng.random(n) < np.select([p == 0.95, p == 0.9], [0.02, 0.4], 0.6)
    return p, np.stack([p, 1 - p], axis=1), wrong


def test_a_cascade_keeps_the_rejected_block_out_in_plain_numbers():
    p, probs, wrong = verbalised()
    key = abstain.scores.max_softmax(probs=probs)
    stages = {"small": (wrong, key, 1.0)}
    rule = abstain.cascade(stages, risk=0.05, person=(50.0, 0.0), scores={"small": "max_softmax"})
    for given in (
        {"confidences": {"small": key}, "units": "key"},
        {"confidences": {"small": p}, "units": "plain"},
    ):
        assert ((rule.decide(**given) == "small") == (p == 0.95)).all()
    q = np.float32([1 - 1e-7, 1 - 2e-8, 1 - 1e-9])
    key = np.repeat(-np.log([1e-7, 2e-8, 1e-9]), 500)
    stages = {"a": (np.repeat([1.0, 1.0, 0.0], 500), key, 1.0)}
    rule = abstain.cascade(stages, risk=0.05, person=(50.0, 0.0), scores={"a": "max_softmax"})
    assert rule.decide({"a": key[::500]}, units="key").tolist() == ["person", "person", "a"]
    with pytest.raises(InputError, match="rounding hides"):
        rule.decide({"a": q}, units="plain")


@pytest.mark.parametrize("made", ["float32", "float64"])
def test_another_precision_neither_lets_a_block_in_nor_alarms(made):
    p, probs, wrong = verbalised()
    rules = [
        abstain.select_threshold(wrong, probs=probs.astype(made), risk=0.05),
        abstain.select_threshold(
            wrong, abstain.scores.max_softmax(probs=probs.astype(made)), risk=0.05
        ).made_from("probs", score="max_softmax"),
    ]
    for rule in rules:
        for dtype in DTYPES:
            assert (rule.accepts(probs=rounded(probs, dtype)) == (p == 0.95)).all()
            assert (rule.accepts(rounded(p, dtype), units="plain") == (p == 0.95)).all()
            assert rule.check(wrong, probs=rounded(probs, dtype)).drift_p > 0.5
            key = abstain.scores.max_softmax(probs=rounded(probs, dtype))
            assert rule.check(wrong, key, units="key").drift_p > 0.5
        assert rule.check(wrong[p < 0.95], probs=probs[p < 0.95]).drift_alarm


def test_keys_and_plain_numbers_are_never_guessed(tmp_path):
    _, probs, wrong = verbalised()
    rule = abstain.select_threshold(wrong, probs=probs, risk=0.05)
    for value in (0.7, 0.95, 2.9):  # one number per call
        with pytest.raises(InputError, match="need `units`"):
            rule.accepts([value])
    with pytest.raises(InputError, match="need `units`"):
        rule.check(wrong, probs.max(1))
    key = abstain.scores.max_softmax(probs=probs)
    own = abstain.select_threshold(wrong, probs.max(1), risk=0.05)
    with pytest.raises(InputError, match=r"calibrated on confidences within \[0, 1\], got"):
        own.accepts(key)
    with pytest.raises(InputError, match=r"within \[0, 1\], got 95"):
        own.accepts(100 * probs.max(1))
    keys = abstain.select_threshold(wrong, key, risk=0.05)
    with pytest.warns(abstain.errors.AbstainWarning, match=r"none of 4,000 .* all lie in \[0, 1\]"):
        assert not keys.accepts(probs.max(1)).any()
    negative = abstain.select_threshold(wrong, -key, coverage=0.5, method="empirical")
    with pytest.raises(InputError, match="at or below 0, got"):
        negative.accepts(key)
    clf = SelectiveClassifier(Stored(), coverage=0.5, method="empirical", cv="prefit").fit(
        probs, wrong.astype(int)
    )
    clf.threshold_.save(tmp_path / "rule.json")
    served = abstain.load_rule(tmp_path / "rule.json")
    assert (served.cut.score, served.cut.source, served.cut.classes) == ("max_softmax", "probs", 2)
    assert (served.accepts(probs=probs) == clf.accepts(probs)).all()
    with pytest.raises(InputError, match="need `units`"):
        served.accepts(probs.max(1))


def test_probabilities_as_logits_and_other_classes_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(800, 10)) + 6 * np.eye(10)[rng.integers(0, 10, 800)]
    probs = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    y = z.argmax(1)
    rule = abstain.select_threshold(logits=z, labels=y, risk=0.1)
    groups = np.where(np.arange(800) % 2, "a", "b")
    by_group = abstain.select_threshold(logits=z, labels=y, risk=0.1, groups=groups)
    stages = {"one": {"logits": z, "cost": 1.0}}
    cascade = abstain.cascade(stages, labels=y, risk=0.1, person=(9.0, 0.0))
    assert (cascade.decide(logits={"one": z}) == "one").mean() > 0.5
    decisions = [
        lambda **given: rule.accepts(**given),
        lambda **given: by_group.accepts(**given, groups=groups[: len(next(iter(given.values())))]),
        lambda **given: cascade.decide(**{name: {"one": x} for name, x in given.items()}),
    ]
    for decide in decisions:
        for rows in (1, 800):
            with pytest.raises(InputError, match="probabilities"):
                decide(logits=probs[:rows])
        with pytest.raises(InputError, match="calibrated on 10 classes, got 5"):
            decide(logits=z[:, :5])
        with pytest.raises(InputError, match="calibrated on 10 classes, got 2"):
            decide(probs=np.stack([probs[:, 0], 1 - probs[:, 0]], axis=1))
    with pytest.raises(InputError, match="probabilities"):
        abstain.select_threshold(logits=probs, labels=y, risk=0.1)
    rule.save(tmp_path / "rule.json")
    with pytest.raises(DataError, match="calibrated on 10 classes, got 5"):
        decided(tmp_path, {"logits": z[:, :5]}, ("logits", "float64"))


def test_numbers_that_were_rounded_before_they_were_stored_are_noticed():
    """bfloat16 logits saved as float32: the type says float32, the numbers do not."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2000, 3)).astype(np.float32)
    z[:, 0] += 3 * rng.random(2000, dtype=np.float32)
    y = np.where(rng.random(2000) < 0.9, z.argmax(1), 0)
    rule = abstain.select_threshold(logits=z, labels=y, coverage=0.5, method="empirical")
    assert rule.cut.precision == "float32"
    stored = np.asarray(torch.from_numpy(z).to(torch.bfloat16).float())
    with pytest.raises(
        InputError, match=r"got logits in bfloat16: rounding hides .* Calibrate on logits in bfloat16"
    ):
        rule.accepts(logits=stored)
    assert rule.accepts(logits=z).mean() == rule.coverage
    assert (rule.accepts(logits=z.astype(np.float64)) == rule.accepts(logits=z)).all()
    coarse = abstain.select_threshold(logits=stored, labels=y, coverage=0.5, method="empirical")
    assert coarse.cut.precision == "bfloat16"
    one_by_one = [bool(coarse.accepts(logits=row[None])[0]) for row in stored[:50]]
    assert one_by_one == coarse.accepts(logits=stored)[:50].tolist()


@pytest.mark.parametrize("decimals", [1, 2, 3, 4])
@pytest.mark.parametrize("made", ["logits", "key", "plain", "own", "binary"])
def test_numbers_that_were_written_with_few_decimals_are_noticed(made, decimals):
    """A threshold of 0.9034 must not accept all that a CSV file with two decimals writes as 0.90."""
    p = np.random.default_rng(0).uniform(0.5, 1.0, 4000)
    wrong = np.random.default_rng(1).random(4000) < np.where(p > 0.8, 0.01, 0.4)
    given = {
        "logits": {"logits": np.stack([np.log(p), np.log1p(-p)], 1), "score": "max_softmax"},
        "key": {"confidence": -np.log1p(-p), "score": "max_softmax", "units": "key"},
        "plain": {"confidence": p, "score": "max_softmax", "units": "plain"},
        "own": {"confidence": p},
        "binary": {"probs": p, "score": "max_softmax"},
    }[made]

    def column(numbers):
        if made == "binary":
            return {"probs": numbers}
        return {"confidence": numbers} if made == "own" else {"confidence": numbers, "units": "plain"}

    rule = abstain.select_threshold(wrong, **given, risk=0.05)
    expected = rule.accepts(**column(p))
    short = p.round(decimals)
    noun = {"own": "confidences", "binary": "probabilities of class 1"}.get(made, "plain numbers")
    form = f"{noun} with {decimals} decimal{'s' * (decimals > 1)}"
    with pytest.raises(InputError, match=f"float64, got {form}: rounding hides .* Calibrate on {form}, or"):
        rule.accepts(**column(short))
    # rows whose side shows in spite of the rounding are decided
    is_far = np.abs(p - p[expected].min()) > 1.1 * 10.0**-decimals
    assert (rule.accepts(**column(short[is_far])) == expected[is_far]).all()
    # a rule made from so few decimals decides on them, on more and on fewer that are chance
    coarse = abstain.select_threshold(wrong, **column(short), score=given.get("score"), risk=0.05)
    assert coarse.accepts(**column(short)).mean() == pytest.approx(coarse.coverage)
    assert coarse.accepts(**column(p)).any()
    assert coarse.accepts(**column(np.repeat([0.6, 0.7, 0.9], 10))).shape == (30,)


def test_a_binary_column_is_the_same_rule():
    rng = np.random.default_rng(1)
    p = rng.choice([0.02, 0.3, 0.8, 0.97], 2000)
    wrong = rng.random(2000) < np.where(np.abs(p - 0.5) > 0.4, 0.01, 0.4)
    rule = abstain.select_threshold(wrong, probs=p[:, None], risk=0.05)
    expected = (p == 0.02) | ((p == 0.97) & (rule.coverage > 0.5))
    for given in ({"probs": p}, {"probs": np.stack([1 - p, p], 1)}, {"logits": np.log(p / (1 - p))}):
        assert (rule.accepts(**given) == expected).all()
        assert (rule.accepts(**{name: x.astype(np.float32) for name, x in given.items()}) == expected).all()


def blocks_of_logits(n=3000):
    """Logits in forty tied blocks, their softmax, and labels drawn from it."""
    rng = np.random.default_rng(0)
    z = (2 * rng.normal(size=(40, 5)))[rng.integers(0, 40, n)]
    probs = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    labels = (probs.cumsum(1) > rng.random((n, 1))).argmax(1)
    return z, probs, labels


def test_logits_larger_than_in_calibration_let_no_block_in():
    """A number added to all logits changes no softmax, but float32 then keeps fewer digits of their differences."""
    z, _, labels = blocks_of_logits()
    rule = abstain.select_threshold(logits=z, labels=labels, risk=0.25)
    expected = abstain.scores.max_softmax(z) >= rule.value
    assert 0.2 < expected.mean() < 0.8
    for shift in (0.0, 1e3, 1e4):
        assert (rule.accepts(logits=(z + shift).astype(np.float32)) == expected).all()
    with pytest.raises(InputError, match="got logits in float32: rounding hides"):
        rule.accepts(logits=(z + 1e5).astype(np.float32))


def test_a_decision_does_not_depend_on_the_other_rows():
    """A rule made from probabilities knows no logits; a large logit is the matter of its own row."""
    z, probs, labels = blocks_of_logits()
    rule = abstain.select_threshold(probs=probs, labels=labels, risk=0.25)
    expected = abstain.scores.max_softmax(probs=probs[:120]) >= rule.value
    logits = z[:120].astype(np.float32)
    logits[7] = [1e6, 0.0, 0.0, 0.0, 0.0]
    expected[7] = True
    assert rule.accepts(logits=logits).tolist() == expected.tolist()
    assert [bool(rule.accepts(logits=row[None])[0]) for row in logits] == expected.tolist()
    for rows in (logits[8:9], logits[:8], logits):  # bfloat16 hides this threshold, in one row as in many
        with pytest.raises(InputError, match="got logits in bfloat16: rounding hides"):
            rule.accepts(logits=rounded(rows, "bfloat16"))


def test_one_row_of_whole_logits_is_no_probability():
    """Quantised logits (0, 1) look like a one-hot probability when they come alone; the batch decides them."""
    rng = np.random.default_rng(0)
    z = rng.integers(-6, 7, size=(2000, 2)).astype(np.float32)
    labels = np.where(rng.random(2000) < 0.95, z.argmax(1), 0)
    rule = abstain.select_threshold(logits=z, labels=labels, coverage=0.5, method="empirical")
    alone = [bool(rule.accepts(logits=row[None])[0]) for row in z[:300]]
    assert [0.0, 1.0] in z[:300].tolist()
    assert alone == rule.accepts(logits=z)[:300].tolist()
    with pytest.raises(InputError, match=r"rows in \[0, 1\] that sum to one"):
        rule.accepts(logits=np.float32([[0.0, 1.0], [1.0, 0.0]]))


def test_one_row_without_its_axis_says_how_to_pass_it():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 500)
    logits = rng.normal(size=(500, 5)) + 4 * np.eye(5)[labels]
    rule = abstain.select_threshold(logits=logits, labels=labels, risk=0.2)
    with pytest.raises(InputError, match=r"one row of 5 class scores .* got a vector of 5\..*`x\[None\]`"):
        rule.accepts(logits=logits[0])
    with pytest.raises(InputError, match="calibrated on 5 classes, got 2"):
        rule.accepts(logits=logits[:, :2])


@pytest.mark.parametrize(
    "confidence",
    [np.array([0.9 + 1j, 0.1]), np.array([1, 0], dtype="m8[s]"), np.array([1, 0], dtype="M8[D]")],
    ids=["complex", "timedelta", "datetime"],
)
def test_confidences_that_are_no_real_numbers_are_refused(confidence):
    """Numpy converts them: complex numbers by their real parts, times to whole numbers."""
    rule = abstain.select_threshold([0, 1, 0, 0], [0.9, 0.2, 0.8, 0.7], risk=0.1, method="empirical")
    with pytest.raises(DtypeError, match=r"Threshold.accepts: `confidence` must hold real numbers"):
        rule.accepts(confidence)


def test_the_number_that_is_off_the_scale_is_named():
    rule = abstain.select_threshold([0] * 99, np.linspace(0.1, 0.9, 99), risk=0.2)
    with pytest.raises(InputError, match="got -1"):
        rule.accepts([-1.0, 0.95])
