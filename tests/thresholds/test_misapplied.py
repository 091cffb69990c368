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
from abstain.errors import DataError, InputError
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


def thresholds_of(seed, tally):
    """All 256 cells of one data set for `Threshold`."""
    z, wrong, options = sample_of(seed)
    forms = forms_of(z)
    for made, columns in forms.items():
        rule = calibrated(wrong, columns, **options)
        if not rule.feasible:
            tally["Threshold", "no rule"] += 1
            continue
        expected = own_numbers(columns) >= rule.value
        assert expected.mean() == pytest.approx(rule.coverage)
        for applied, others in forms.items():
            result = outcome(expected, lambda rule=rule, others=others: rule.accepts(**others))
            tally["Threshold", result] += 1
            if result == "refused":
                assert not must_be_equal(KINDS[seed % 4], made, applied), (seed, made, applied)


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
        tally["decide", outcome(expected, lambda: decided(folder, others, applied))] += 1


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


def decided(folder, columns, form):
    """By the command, from a file."""
    numbers = {name: x for name, x in columns.items() if name != "units"}
    arrays = {name: np.asarray(x.float()) if torch.is_tensor(x) else x for name, x in numbers.items()}
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


def run_matrix(seeds, folder):
    tally = collections.Counter()
    for seed in seeds:
        thresholds_of(seed, tally)
        others_of(seed, tally, folder)
    shown(tally)
    wrong = {cell for cell in tally if cell[1] not in ("equal", "refused", "no rule")}
    assert not wrong, tally
    return tally


def test_every_cell_is_the_calibrations_own_decision_or_refused(tmp_path):
    tally = run_matrix(range(12), tmp_path)
    assert tally["Threshold", "equal"] > 0.4 * (tally["Threshold", "equal"] + tally["Threshold", "refused"])


@pytest.mark.slow
def test_every_cell_over_2000_data_sets(tmp_path):
    run_matrix(range(2000), tmp_path)
