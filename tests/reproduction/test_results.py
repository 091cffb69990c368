"""Kept results: the table's arithmetic, outputs that give the numbers again, the page that is up to date."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from reproduction.__main__ import main
from reproduction.kept import keep_samples, read_samples
from reproduction.page import _beside_start, page
from reproduction.recipe import OBJECTIVES, PAPERS
from reproduction.runs import (
    DEMO,
    EARLIER,
    RESULTS,
    Store,
    adopt,
    kept_outputs,
    load_paired,
    load_runs,
    load_study,
    pack,
    paired_on_test,
    save_study,
    verify,
)
from reproduction.table import (
    BEFORE,
    as_markdown,
    beside_the_paper,
    best,
    gap_to_start,
    paired,
    projected_minutes,
    table_rows,
)

ROOT = Path(__file__).parents[2]


def test_paired_differences_are_student_s():
    d = np.array([-0.1, -0.3, -0.15, 0.02])
    found = paired(d)
    low, high = stats.t.interval(0.95, 3, d.mean(), stats.sem(d))
    assert (found.mean, found.low, found.high) == pytest.approx((d.mean(), low, high))
    assert (found.wins, found.seeds) == (3, 4)
    assert np.isnan(paired(d[:1]).low)  # one seed has no spread


def test_the_table_uses_the_last_epoch_and_pairs_by_seed():
    runs = load_runs()
    runs = [run for run in runs if run["dataset"] == "cifar10"]
    rows = {(r.model, r.objective): r for r in table_rows(runs, load_paired())}
    by = {(r["model"], r["objective"], r["seed"]): r["log"][-1] for r in runs if r["kind"] == "finetune"}
    row = rows["resnet18", "harmonic"]
    values = [by["resnet18", "harmonic", s]["aurc_01"] for s in row.seeds]
    base = [by["resnet18", "ce", s]["aurc_01"] for s in row.seeds]
    assert row.mean["aurc_01"] == pytest.approx(np.mean(values))
    assert row.std["aurc_01"] == pytest.approx(np.std(values, ddof=1))
    assert row.against_ce["aurc_01"].mean == pytest.approx(np.mean(np.subtract(values, base)))
    starts = [r["log"][-1]["accuracy"] for r in runs if r["kind"] == "pretrain" and r["model"] == "resnet18"]
    assert rows["resnet18", BEFORE].seeds == (0, 5)
    assert max(starts) >= 0.95  # the other start came to 94.8%
    text = as_markdown(list(rows.values()))
    assert "0/1 AURC" in text
    assert "CE AURC" in text
    assert "4.473 ± 0.030" in text
    assert best(list(rows.values()), ("cifar10", "resnet18"), "aurc_01").objective != BEFORE


def test_objectives_with_fewer_seeds_say_so_and_are_not_called_best():
    def run(objective, seed, aurc):
        entry = {"accuracy": 0.9, "nll": 0.3, "aurc_01": aurc, "aurc_ce": aurc}
        return {
            "kind": "finetune", "dataset": "cifar10", "model": "wideresnet28_10", "objective": objective,
            "seed": seed, "name": f"{objective}-{seed}", "start": "none", "log": [entry],
        }  # fmt: skip

    runs = [
        run("ce", 0, 0.004), run("ce", 1, 0.006), run("harmonic", 0, 0.003), run("harmonic", 1, 0.005),
        run("log", 0, 0.0031),
    ]  # fmt: skip
    rows = table_rows(runs)
    assert best(rows, ("cifar10", "wideresnet28_10"), "aurc_01").objective == "harmonic"
    printed = next(
        line for line in beside_the_paper(rows).splitlines() if "WideResNet-28-10, CIFAR-10 " in line
    )
    assert "| 2 | 5.00 / 4.14 | - / 3.87 | 4.00 / 3.86 | 3.10 (1 seed) / 3.86 | -20.0%" in printed


def test_every_run_kept_is_whole_and_of_one_data_set():
    runs = load_runs()
    assert len(runs) >= 40
    digests = {r["dataset"]: r["data"] for r in runs}
    assert all(r["data"] == digests[r["dataset"]] for r in runs)
    for run in runs:
        assert [e["epoch"] for e in run["log"]] == list(range(1, run["recipe"]["epochs"] + 1))
        assert run["commit"] not in ("", "unknown")
        assert run["device"]
        if run["kind"] == "finetune":
            assert (run["recipe"]["epochs"], run["recipe"]["peak"], run["recipe"]["batch"]) == (30, 1e-3, 128)
    tuned = {}
    for r in (r for r in runs if r["kind"] == "finetune"):
        tuned.setdefault((r["dataset"], r["model"]), set()).add((r["objective"], r["seed"]))
    for model in ("resnet18", "vgg16_bn"):
        assert tuned["cifar10", model] == {(o, s) for o in OBJECTIVES for s in range(5)}
    for model in ("resnet18", "vgg16_bn"):
        assert tuned["cifar100", model] == {(o, s) for o in PAPERS for s in range(5)}
    for network in itertools.product(("cifar10", "cifar100"), ("resnet34", "vgg19_bn")):
        assert tuned[network] == {(o, s) for o in PAPERS for s in range(2)}
    assert tuned["cifar10", "resnet50"] == {(o, s) for o in PAPERS for s in range(2)}
    assert tuned["cifar100", "resnet50"] == {(o, 0) for o in PAPERS}
    for dataset in ("cifar10", "cifar100"):
        assert tuned[dataset, "wideresnet28_10"] == {(o, s) for o in PAPERS for s in range(2)}


def test_every_run_names_where_it_came_from():
    runs = [*load_runs(), *load_runs(EARLIER)]
    assert len(runs) >= 223
    for run in runs:
        assert all(run[fact] for fact in ("commit", "device", "data", "command")), run["name"]


def test_runs_of_the_second_set_name_their_command():
    for run in (r for r in load_runs() if r["dataset"] == "cifar100"):
        assert run["command"].startswith(("python -m reproduction plan ", "python -m reproduction finetune "))
        assert "--dataset cifar100" in run["command"]


def test_kept_outputs_give_their_runs_numbers_again():
    checked = {c.run: c for c in verify()}
    assert len(checked) >= 20 + 67 + 2  # the paper's networks, tuned networks, and the demo's two
    assert all(c.good for c in checked.values())
    demo = {f"finetune-cifar10-resnet18-{objective}-seed0" for objective in DEMO}
    assert demo <= checked.keys()
    with_cross_entropy = {name for name, c in checked.items() if "aurc_ce" in c.numbers}
    assert with_cross_entropy == demo | read_samples(RESULTS).keys()
    assert main(["verify"]) == 0


def test_samples_that_were_tampered_with_are_found(tmp_path, monkeypatch, capsys):
    results = tmp_path / "results"
    shutil.copytree(RESULTS, results)
    name, samples = next(iter(read_samples(results).items()))
    flipped = samples.wrong.copy()
    flipped[0] = 1 - flipped[0]
    keep_samples({name: replace(samples, wrong=flipped)}, results)
    monkeypatch.setattr("reproduction.runs.RESULTS", results)
    assert main(["verify"]) == 1
    assert f"BAD {name}" in capsys.readouterr().out


def test_kept_outputs_agree_with_the_architecture_they_are_named_after():
    """Networks of one architecture err on the same images more than networks of two do."""
    outputs = [o for o in kept_outputs() if o.dataset == "cifar10" and o.model in ("vgg16_bn", "preresnet20")]
    wrong = np.array([o.loss("01") for o in outputs], dtype=float)
    together = np.corrcoef(wrong)
    same = np.array([[a.model == b.model for b in outputs] for a in outputs]) & ~np.eye(
        len(outputs), dtype=bool
    )
    for i in range(len(outputs)):
        other = ~same[i]
        other[i] = False
        assert together[i][same[i]].min() > together[i][other].max()


def test_the_page_is_what_the_generator_writes():
    """docs/paper.md is generated: `python -m reproduction page --to docs/paper.md`."""
    assert (ROOT / "docs" / "paper.md").read_text() == page(load_study(), load_runs())


def test_a_study_survives_being_written(tmp_path):
    study = {"a": [1, 2.5], "b": {"c": "d"}}
    for name in ("s.json", "s.json.gz"):
        save_study(study, tmp_path / name)
        assert load_study(tmp_path / name) == study
    assert (tmp_path / "s.json.gz").read_bytes() == _again(study, tmp_path)


def _again(study, tmp_path):
    save_study(study, tmp_path / "t.json.gz")
    return (tmp_path / "t.json.gz").read_bytes()


def test_what_was_not_run_has_projected_minutes():
    runs = load_runs()
    wide, small = (projected_minutes(runs, m, 6) for m in ("wideresnet28_10", "vgg19_bn"))
    assert 0.5 < small < wide < 600


def test_adopting_packed_runs(tmp_path):
    labels = np.arange(40) % 10
    rng = np.random.default_rng(0)
    store = Store(tmp_path / "runs")
    for kind, model, objective in (
        ("finetune", "resnet18", "ce"), ("finetune", "resnet18", "harmonic"), ("pretrain", "vgg16_bn", "ce"),
    ):  # fmt: skip
        name = f"{kind}-{model}-{objective}"
        entry = {"epoch": 1, "accuracy": 1 / 3}
        run = {
            "name": name,
            "kind": kind,
            "model": model,
            "objective": objective,
            "seed": 0,
            "dataset": "cifar10",
        }
        store.save_result(name, {**run, "finished": True, "log": [entry]})
        store.save_output(name, {"logits": rng.normal(size=(40, 10))})
    pack(tmp_path / "runs", tmp_path / "packed")
    count = adopt(
        tmp_path / "packed",
        {"cifar10": labels},
        tmp_path / "scratch",
        tmp_path / "results",
        tmp_path / "demo",
    )
    assert count == 3
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == [
        "cifar10_resnet18_aurc.npz",
        "cifar10_resnet18_ce.npz",
    ]
    (kept,) = kept_outputs(tmp_path / "results")
    assert kept.name == "cifar10__vgg16_bn__trained-seed0"
    logits = store.load_output("pretrain-vgg16_bn-ce")["logits"].astype(np.float64)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(np.argsort(kept.score()), np.argsort(probs.max(axis=1)))
    np.testing.assert_array_equal(kept.loss("01"), probs.argmax(axis=1) != labels)
    np.testing.assert_allclose(kept.loss("ce"), -np.log(probs[np.arange(40), labels]), rtol=1e-6)
    of_score = kept.aurc_by_score["max_softmax"]
    assert of_score["01"] == pytest.approx(kept.samples.numbers()["aurc_01"], rel=1e-6)
    (difference,) = json.loads((tmp_path / "results" / "paired.json").read_text())
    assert difference["objective"] == "harmonic"
    assert difference["aurc_01"][1] < difference["aurc_01"][0] < difference["aurc_01"][2]


def test_adopting_more_runs_leaves_the_others(tmp_path):
    labels, rng = np.arange(40) % 10, np.random.default_rng(0)
    for lot, model in (("first", "resnet18"), ("second", "vgg16_bn")):
        store = Store(tmp_path / lot)
        for objective in ("ce", "log"):
            run = {"name": f"finetune-{model}-{objective}", "kind": "finetune", "model": model, "seed": 0}
            more = {
                "objective": objective,
                "dataset": "cifar10",
                "finished": True,
                "log": [{"accuracy": 0.5}],
            }
            store.save_result(run["name"], {**run, **more})
            store.save_output(run["name"], {"logits": rng.normal(size=(40, 10))})
        pack(tmp_path / lot, tmp_path / f"{lot}-packed")
        adopt(
            tmp_path / f"{lot}-packed", {"cifar10": labels}, tmp_path / f"{lot}-scratch", tmp_path / "results"
        )
    assert len(load_runs(tmp_path / "results")) == 4
    rows = json.loads((tmp_path / "results" / "paired.json").read_text())
    assert [row["model"] for row in rows] == ["resnet18", "vgg16_bn"]


def test_the_start_counts_once_for_every_seed_that_began_there():
    def run(kind, seed, accuracy, start=None):
        last = {"accuracy": accuracy, "aurc_01": 1 - accuracy, "aurc_ce": 2 - accuracy}
        name = f"{kind}{seed}"
        return {"name": name, "kind": kind, "dataset": "d", "model": "m", "objective": "ce", "seed": seed,
                "start": start, "log": [last]}  # fmt: skip

    runs = [run("pretrain", 0, 0.5), run("pretrain", 5, 0.8), run("pretrain", 7, 0.1)]
    runs += [run("finetune", s, 0.6, "pretrain0") for s in range(3)] + [run("finetune", 3, 0.6, "pretrain5")]
    before = table_rows(runs)[0]
    assert before.objective == BEFORE
    assert before.seeds == (0, 5)
    assert before.mean["accuracy"] == pytest.approx((3 * 0.5 + 0.8) / 4)
    assert before.std["aurc_01"] == pytest.approx(np.std([0.5, 0.2], ddof=1))


@pytest.mark.parametrize(
    ("start", "ce", "harmonic", "share"),
    [
        (5.0, 6.0, 4.0, "; 50% of the gain over CE is what CE tuning loses."),
        (6.5, 6.3, 6.4, "harmonic -1.5%."),  # CE ends lowest: no gain over it to take a share of
        (6.5, 6.3, 6.0, "harmonic -7.7%."),
    ],
)
def test_a_share_of_the_gain_over_ce_is_told_only_where_ce_tuning_loses(start, ce, harmonic, share):
    def run(name, objective, value):
        last = {"accuracy": 0.9, "aurc_01": value, "aurc_ce": value}
        kind = "pretrain" if name == "p" else "finetune"
        return {"name": name, "kind": kind, "dataset": "cifar10", "model": "resnet18", "objective": objective,
                "seed": 0, "start": "p", "log": [last]}  # fmt: skip

    runs = [run("p", "ce", start), run("c", "ce", ce), run("h", "harmonic", harmonic)]
    assert all(line.endswith(share) for line in _beside_start(table_rows(runs)).strip().split("\n\n"))


def test_the_gap_to_the_start_is_taken_seed_by_seed():
    def run(name, kind, seed, value, start=None):
        return {"name": name, "kind": kind, "dataset": "cifar10", "model": "m", "objective": "log", "seed": seed,
                "start": start, "log": [{"aurc_01": value}]}  # fmt: skip

    runs = [run("p", "pretrain", 0, 0.5), run("q", "pretrain", 5, 0.9)]
    runs += [
        run("a", "finetune", 0, 0.4, "p"),
        run("b", "finetune", 1, 0.3, "p"),
        run("c", "finetune", 2, 0.8, "q"),
    ]
    found = gap_to_start(runs, ("cifar10", "m"), "log", "aurc_01")
    assert found.mean == pytest.approx(np.mean([-0.1, -0.2, -0.1]))
    half = (
        4.302652729696142 * np.std([-0.1, -0.2, -0.1], ddof=1) / np.sqrt(3)
    )  # t table, 2 degrees of freedom
    assert found.high - found.mean == pytest.approx(half)
    assert gap_to_start(runs, ("cifar10", "m"), "ce", "aurc_01") is None


def test_the_interval_over_test_samples_is_the_paired_one_when_there_is_one_seed(tmp_path):
    import abstain

    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 300)
    store, runs, logits = Store(tmp_path), [], {}
    for objective in ("ce", "log"):
        logits[objective] = (rng.normal(size=(300, 3)) + 1.5 * np.eye(3)[labels]).astype(np.float16)
        runs.append({"kind": "finetune", "finished": True, "dataset": "d", "model": "m", "objective": objective,
                     "seed": 0, "name": objective})  # fmt: skip
        store.save_output(objective, {"logits": logits[objective]})
    (found,) = paired_on_test(store, runs, {"d": labels})
    parts = []
    for z in (logits["log"].astype(np.float32), logits["ce"].astype(np.float32)):
        parts += [abstain.losses.zero_one(z, labels).astype(float), abstain.scores.max_softmax(z)]
    expected = abstain.inference.paired_difference(*parts)
    assert found["aurc_01"][0] == pytest.approx(expected.difference)
    # Student's t with 299 degrees of freedom there, the normal here
    assert found["aurc_01"][2] - found["aurc_01"][0] == pytest.approx(
        1.96 * expected.standard_error, rel=1e-3
    )
