"""The ledger: every verdict is a predicate on results, and each predicate can come out the other way."""

from __future__ import annotations

import copy

import pytest

from reproduction.claims import AGREES, DIFFERS, LEDGER, UNTESTED, as_markdown, judge
from reproduction.claims.ledger import Evidence
from reproduction.published import TABLE
from reproduction.runs import load_paired, load_runs, load_study


@pytest.fixture(scope="module")
def kept():
    return Evidence(load_study(), load_runs(), load_paired())


def verdicts(evidence):
    return {j.claim.key: j.verdict for j in judge(LEDGER, evidence)}


def one(evidence, key):
    claim = next(c for c in LEDGER if c.key == key)
    return judge([claim], evidence)[0].verdict


def changed(kept, change):
    study = copy.deepcopy(kept.study)
    change(study)
    return Evidence(study, kept.runs, kept.on_test)


def each_cell(study):
    for model in study["models"].values():
        for loss in ("01", "ce"):
            yield from model["finite"][loss]["sizes"].values()


def test_keys_are_distinct_and_every_slip_is_there():
    keys = [c.key for c in LEDGER]
    assert len(set(keys)) == len(keys)
    slips = {c.key for c in LEDGER if c.slip}
    assert slips == {
        "slip-entropy", "slip-norm", "slip-mse", "slip-batch", "slip-geifman", "slip-units", "slip-row",
        "slip-t-test", "slip-counterexample", "slip-mse-text",
    }  # fmt: skip


def test_the_theory_holds_and_the_slips_are_confirmed(kept):
    found = verdicts(kept)
    theory = (
        "mean-weight",
        "log-below",
        "bias-signs",
        "weight-mse",
        "mse-order",
        "average-mse",
        "rate",
        "counterexample",
    )
    assert {found[k] for k in theory} == {AGREES}
    assert {v for k, v in found.items() if k.startswith("slip-")} == {AGREES}


def test_without_runs_the_table_cannot_be_judged(kept):
    found = verdicts(Evidence(kept.study))
    tuned = {v for k, v in found.items() if k.startswith(("tune-", "accuracy-", "best-", "start-"))}
    assert tuned == {UNTESTED}


def swap_estimators(study):
    for cell in each_cell(study):
        cell["harmonic"], cell["sele"] = cell["sele"], cell["harmonic"]


def negate_bias(study):
    for cell in each_cell(study):
        for values in cell.values():
            values["bias"] = -values["bias"]


def spoil_rates(study):
    for population in study["convergence"].values():
        population["slope"]["harmonic"] = -0.2


def spoil_tests(study):
    for loss in ("01", "ce"):
        study["equivalence"][loss].update(unpaired_p=0.01, paired_p=0.9, largest_relative=0.2)


def spoil_weights(study):
    for row in study["weights"]["rows"]:
        row["mean_absolute_bias"]["sele"] = 0.0
        row["mean_mse"]["log"] = 0.0
        row["bias_at_0"]["harmonic"] = -1.0
        row["harmonic_over_n"] *= 1.01


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        (swap_estimators, ["mae-falls", "log-lower"]),
        (negate_bias, ["sele-below", "twice-sele-above"]),
        (spoil_rates, ["rate"]),
        (spoil_tests, ["forms-equal", "forms-t-test", "slip-t-test"]),
        (spoil_weights, ["sele-bias", "log-mse", "bias-signs", "average-mse"]),
    ],
)
def test_other_numbers_give_other_verdicts(kept, change, keys):
    spoiled = changed(kept, change)
    for key in keys:
        assert one(kept, key) == AGREES, key
        assert one(spoiled, key) == DIFFERS, key


def fake_run(objective, seed, aurc, kind="finetune"):
    numbers = {"epoch": 1, "accuracy": 0.95, "aurc_01": aurc, "aurc_ce": 10 * aurc, "seconds": 1.0}
    return {
        "kind": kind, "dataset": "cifar10", "model": "resnet18", "objective": objective, "seed": seed, "finished": True,
        "name": f"{kind}-{objective}-{seed}", "start": "pretrain-ce-0", "log": [numbers],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [
        ((-0.002, -0.0021, -0.0019), AGREES),
        ((0.002, 0.0021, 0.0019), DIFFERS),
        ((0.002, -0.002, 0.001), UNTESTED),
    ],
)
def test_fine_tuning_is_judged_by_the_paired_interval(kept, gaps, verdict):
    base = (0.006, 0.007, 0.008)
    runs = [fake_run("ce", s, b) for s, b in enumerate(base)]
    runs += [fake_run("harmonic", s, b + g) for s, (b, g) in enumerate(zip(base, gaps))]
    assert one(Evidence(kept.study, runs), "tune-resnet18-harmonic-aurc_01") == verdict


def test_the_page_lists_every_claim(kept):
    text = as_markdown(judge(LEDGER, kept))
    assert all(c.statement in text for c in LEDGER)
    assert text.index("## Claims") < text.index("## Slips")


def test_the_printed_table_is_the_paper_s():
    assert TABLE["cifar10"]["resnet18"]["ce"] == (4.967, 0.038)
    assert TABLE["cifar10"]["resnet18"]["harmonic"] == (4.473, 0.030)
    assert TABLE["cifar10"]["vgg16_bn"]["harmonic"] == (7.064, 0.014)


@pytest.mark.data
def test_the_printed_table_is_in_the_paper_s_source(data_dir):
    source = data_dir.parent / "paper.txt"
    if not source.is_file():
        pytest.skip("the paper's source is not beside the data folder")
    text = source.read_text()
    for rows in TABLE.values():
        for row in rows.values():
            for mean, std in row.values():
                assert f"{mean:.3f}_{{\\pm {std:.3f}}}" in text
