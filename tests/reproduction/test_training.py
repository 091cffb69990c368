"""Training: what a batch holds, that runs side by side are runs alone, and that an interrupt loses nothing."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from abstain.errors import DataError, InputError
from reproduction.recipe import OBJECTIVES, Recipe, RunSpec, objective, pretraining
from reproduction.runs import Store, pack, unpack
from reproduction.sessions import (
    asked_plan,
    finetune_specs,
    h200_plan,
    open_session,
    pretrain_spec,
    projected_seconds,
    run_plan,
    without,
)
from reproduction.training import Feed, Pixels, train

SHORT = Recipe(epochs=3, batch=16, peak=0.05)
START = RunSpec("tiny", "tiny", "ce", 0, SHORT)


def tuned(name: str, seed: int = 0) -> RunSpec:
    return RunSpec("tiny", "tiny", name, seed, replace(SHORT, peak=1e-3), START.name)


def quiet(_: str) -> None:
    pass


def session(images, folder, **options):
    return open_session(images, str(folder), report=quiet, **options)


# ---------------------------------------------------------------- batches


def test_a_batch_is_the_cropped_and_flipped_images_of_its_plan(tiny):
    feed = Feed(Pixels(tiny.train_images, tiny.train_labels, {}, "cpu"), seed=5)
    feed.start_epoch(2)
    first, labels = feed.batch(10)
    second, _ = feed.batch(7)
    order, down, right, flip = feed.plan[:4].numpy()
    values = tiny.train_images.reshape(-1, 3).astype(float)
    mean, std = values.mean(0), values.std(0)
    padded = np.pad(tiny.train_images, ((0, 0), (4, 4), (4, 4), (0, 0)), mode="reflect")
    for k, image in enumerate(torch.cat([first, second]).numpy()):
        i = order[k]
        crop = padded[i, down[k] : down[k] + 8, right[k] : right[k] + 8].astype(float)
        crop = crop[:, ::-1] if flip[k] else crop
        expected = (crop - mean) / std
        np.testing.assert_allclose(image, expected.transpose(2, 0, 1), atol=1e-5)
    assert labels.tolist() == tiny.train_labels[order[:10]].tolist()
    assert first.permute(0, 2, 3, 1).is_contiguous()  # channels last in memory


@pytest.mark.parametrize(("mode", "needed"), [("plain", 128), ("graph", 384), ("branches", 384)])
def test_too_few_images_for_a_batch_are_refused(tiny, tmp_path, mode, needed):
    setting = session(tiny, tmp_path, mode=mode)
    with pytest.raises(InputError, match=f"needs at least {needed} training images, . x 128, got 96"):
        train([replace(START, recipe=replace(SHORT, batch=128))], setting)


def test_an_epoch_shows_every_image_once_and_depends_on_seed_and_epoch_alone(tiny):
    pixels = Pixels(tiny.train_images, tiny.train_labels, {}, "cpu")
    plans = []
    for seed, epoch in ((0, 0), (0, 0), (0, 1), (1, 0)):
        feed = Feed(pixels, seed)
        feed.start_epoch(epoch)
        assert sorted(feed.plan[0].tolist()) == list(range(len(tiny.train_labels)))
        plans.append(feed.plan.clone())
    assert torch.equal(plans[0], plans[1])
    assert not torch.equal(plans[0], plans[2])
    assert not torch.equal(plans[0], plans[3])
    offsets = plans[0][1:3]
    assert offsets.min() == 0
    assert offsets.max() == 8


def test_cutout_blanks_one_square(tiny):
    pixels = Pixels(tiny.train_images, tiny.train_labels, {}, "cpu")
    plain, cut = Feed(pixels, 0), Feed(pixels, 0, cutout=4)
    plain.start_epoch(0)
    cut.start_epoch(0)
    whole, holes = plain.batch(20)[0], cut.batch(20)[0]
    for k in range(20):
        row, column = (int(v) for v in cut.plan[4:, k])
        inside = torch.zeros(8, 8, dtype=torch.bool)
        inside[max(row - 2, 0) : row + 3, max(column - 2, 0) : column + 3] = True
        assert (holes[k][:, inside] == 0).all()
        assert torch.equal(holes[k][:, ~inside], whole[k][:, ~inside])


def test_the_schedules():
    cycle = pretraining(10)
    assert [round(cycle.rate(p), 6) for p in (0, 0.125, 0.25, 0.625, 1)] == [0, 0.2, 0.4, 0.2, 0]
    assert {Recipe().rate(p) for p in (0, 0.5, 1)} == {1e-3}
    assert (Recipe().epochs, Recipe().batch) == (30, 128)  # the paper's


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_is_finite_and_pulls_towards_the_label(name):
    logits = torch.tensor([[2.0, 0, 0], [0, 1.0, 0], [0.3, 0, 0.1], [0, 0, 3.0]], requires_grad=True)
    labels = torch.tensor([0, 1, 2, 2])
    loss = objective(name)(logits, labels)
    loss.backward()
    assert loss.shape == ()
    assert math.isfinite(loss.item())
    pull = logits.grad[torch.arange(4), labels]
    least = 2  # leave-one-out gives the least confident sample no weight
    assert (pull[[i for i in range(4) if name != "loo" or i != least]] < 0).all()
    assert pull[least] <= 0


# ---------------------------------------------------------------- runs


def test_runs_side_by_side_are_the_runs_alone(tiny, tmp_path):
    together, alone = session(tiny, tmp_path / "a"), session(tiny, tmp_path / "b")
    # seeds interleaved: runs of one seed share their batches, wherever they stand in the list
    specs = [tuned(name, seed) for name in ("ce", "harmonic", "soft") for seed in (1, 0)]
    assert run_plan([[START], specs], together)
    assert run_plan([[START], *([s] for s in specs)], alone)
    for spec in specs:
        a, b = (np.load(s.store.output(spec.name))["logits"] for s in (together, alone))
        np.testing.assert_array_equal(a, b)
    ce, other = (np.load(together.store.output(tuned(n).name))["logits"] for n in ("ce", "harmonic"))
    assert not np.array_equal(ce, other)


def test_a_result_says_where_it_comes_from_and_can_be_recomputed(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_COMMIT", "abc123")
    setting = session(tiny, tmp_path)
    run_plan([[START], [tuned("log")]], setting)
    result = setting.store.load_result(tuned("log").name)
    assert result["finished"]
    assert result["start"] == START.name
    assert (result["objective"], result["seed"], result["data"]) == ("log", 0, tiny.digest())
    assert [entry["epoch"] for entry in result["log"]] == [1, 2, 3]
    logits = np.load(setting.store.output(tuned("log").name))["logits"].astype(np.float32)
    wrong = logits.argmax(1) != tiny.test_labels
    assert result["from_float16"]["accuracy"] == pytest.approx(1 - wrong.mean())
    p = np.exp(logits - logits.max(1, keepdims=True))
    msp = (p / p.sum(1, keepdims=True)).max(1)
    selective = [wrong[msp >= t].mean() for t in msp]  # the definition: one threshold at every sample
    assert result["from_float16"]["aurc_01"] == pytest.approx(np.mean(selective), abs=1e-6)


def test_training_learns_something(tiny, tmp_path):
    setting = session(tiny, tmp_path)
    run_plan([[replace(START, recipe=replace(SHORT, epochs=12))]], setting)
    log = setting.store.load_result(START.name)["log"]
    assert log[-1]["train_loss"] < log[0]["train_loss"]
    assert log[-1]["accuracy"] > 0.5


def test_after_a_deadline_it_goes_on_where_it_stopped(tiny, tmp_path):
    whole, halting = session(tiny, tmp_path / "a"), session(tiny, tmp_path / "b")
    run_plan([[START], [tuned("harmonic")]], whole)
    seen = []
    for _ in range(6):
        _one_epoch_only(replace(halting, report=seen.append))
    assert whole.store.load_result(START.name)["log"][-1]["aurc_ce"] == pytest.approx(
        halting.store.load_result(START.name)["log"][-1]["aurc_ce"], abs=0
    )
    for spec in (START, tuned("harmonic")):
        a, b = (np.load(s.store.output(spec.name))["logits"] for s in (whole, halting))
        np.testing.assert_array_equal(a, b)
    assert any("goes on after epoch 1" in m for m in seen)
    epochs = [m for m in seen if " epoch " in m and START.name in m and "loss" in m]
    assert len(epochs) == 3  # none was done twice


def _one_epoch_only(setting):
    """Let one epoch of one run happen, as if the time were up after it."""
    from reproduction import training

    done = {"epochs": 0}
    original = training._one_epoch

    def counted(*arguments):
        if done["epochs"]:
            raise KeyboardInterrupt
        done["epochs"] += 1
        return original(*arguments)

    training._one_epoch = counted
    try:
        run_plan([[START], [tuned("harmonic")]], setting)
    except KeyboardInterrupt:
        pass
    finally:
        training._one_epoch = original


def test_stopped_between_last_checkpoint_and_result_only_the_result_is_written(tiny, tmp_path):
    setting = session(tiny, tmp_path)
    run_plan([[START]], setting)
    before = json.loads(setting.store.result(START.name).read_text())
    setting.store.result(START.name).unlink()
    setting.store.output(START.name).unlink()
    said = []
    run_plan([[START]], replace(setting, report=said.append))
    after = json.loads(setting.store.result(START.name).read_text())
    assert not any("loss" in m for m in said)
    assert after == before
    assert setting.store.output(START.name).is_file()


def test_fine_tuning_without_its_start_says_so(tiny, tmp_path):
    with pytest.raises(DataError, match="pre-training first"):
        run_plan([[tuned("ce")]], session(tiny, tmp_path))


def test_runs_of_different_length_cannot_go_together(tiny, tmp_path):
    with pytest.raises(InputError, match="Split them"):
        run_plan([[START, replace(START, seed=1, recipe=Recipe(epochs=1))]], session(tiny, tmp_path))


def test_a_mode_that_fails_is_replaced_by_the_next(tiny, tmp_path):
    said = []
    setting = replace(session(tiny, tmp_path), mode="graph", report=said.append)  # there is no CUDA here
    if torch.cuda.is_available():
        pytest.skip("graphs work on this machine")
    assert run_plan([[START]], setting, fallback=("plain",))
    assert any("mode graph failed; trying plain" in m for m in said)


def test_a_wave_that_would_not_end_in_time_is_passed_over(tiny, tmp_path):
    setting = session(tiny, tmp_path)
    run_plan([[START]], setting)
    assert projected_seconds([START], setting.store) == 0  # it is done
    long = [replace(tuned("ce"), recipe=replace(SHORT, epochs=10**7))]
    said = []
    assert not run_plan([long], replace(setting, deadline=time.monotonic() + 60, report=said.append))
    assert said[0].startswith("not run, projected")


def test_packing_keeps_everything_in_small_files(tiny, tmp_path, monkeypatch):
    setting = session(tiny, tmp_path / "runs")
    run_plan([[START], [tuned(n) for n in ("ce", "log", "loo")]], setting)
    monkeypatch.setattr("reproduction.runs.LIMIT", 2500)
    written = pack(tmp_path / "runs", tmp_path / "out")
    assert len([p for p in written if p.name.startswith("outputs")]) > 1
    unpack(tmp_path / "out", tmp_path / "back")
    for part in ("results", "outputs"):
        names = sorted(p.name for p in (tmp_path / "runs" / part).iterdir())
        assert sorted(p.name for p in (tmp_path / "back" / part).iterdir()) == names
        for name in names:
            same = (tmp_path / "back" / part / name).read_bytes() == (
                tmp_path / "runs" / part / name
            ).read_bytes()
            assert same


def test_the_plan_has_what_the_table_needs():
    specs = [spec for wave in h200_plan() for spec in wave]
    names = [spec.name for spec in specs]
    assert len(set(names)) == len(names)
    for model in ("resnet18", "vgg16_bn"):
        wanted = {s.name for s in finetune_specs(model, "cifar10", OBJECTIVES, range(5))}
        assert wanted <= set(names)
        for spec in specs:
            if spec.start is not None:
                assert names.index(spec.start) < names.index(spec.name)
    for model in ("vgg16_bn", "preresnet20"):
        assert all(pretrain_spec(model, "cifar10", seed).name in names for seed in range(5))


def test_what_is_finished_elsewhere_is_not_run_again_but_a_start_is_while_it_is_needed():
    specs = [spec for wave in h200_plan() for spec in wave]
    tuned = {s.name for s in specs if s.model == "resnet18" and s.seed < 3 and s.start}
    start = pretrain_spec("resnet18", "cifar10").name
    left = [spec.name for wave in without(h200_plan(), tuned | {start}) for spec in wave]
    assert set(left) == {s.name for s in specs} - tuned - {start}
    one_missing = tuned - {min(tuned)} | {start}
    left = [spec.name for wave in without(h200_plan(), one_missing) for spec in wave]
    assert {min(tuned), start} <= set(left)


# ---------------------------------------------------------------- killed

HERE = Path(__file__).parent
SCRIPT = """
import sys
sys.path[:0] = [{here!r}, {root!r}]
import torch
torch.set_num_threads(1)
from conftest import Tiny, tiny_images
from reproduction.networks import MODELS
MODELS["tiny"] = Tiny
from reproduction.recipe import Recipe, RunSpec
from reproduction.sessions import open_session, run_plan
recipe = Recipe(epochs=6, batch=4, peak=0.01)
start = RunSpec("tiny", "tiny", "ce", 0, recipe)
tuned = [[RunSpec("tiny", "tiny", name, 0, recipe, start.name)] for name in ("ce", "harmonic", "soft")]
setting = open_session(tiny_images(), {folder!r}, report=lambda m: print(m, flush=True))
run_plan([[start], *tuned], setting)
"""


def _start(folder):
    code = SCRIPT.format(here=str(HERE), root=str(HERE.parents[1]), folder=str(folder))
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env)


def test_killed_at_random_moments_it_loses_at_most_one_epoch_of_one_run(tmp_path):
    reference = _start(tmp_path / "whole")
    lines = [line for line in reference.stdout if " loss " in line]
    assert len(lines) == 24  # four runs of six epochs
    rng, done = random.Random(4), []
    for _ in range(2):
        process = _start(tmp_path / "killed")
        wanted = rng.randint(3, 10)
        for line in process.stdout:
            if " loss " in line:
                done.append(line)
                wanted -= 1
            if wanted == 0:
                time.sleep(rng.random() * 0.05)  # somewhere inside an epoch, an evaluation or a write
                process.send_signal(signal.SIGKILL)
                break
        done += [line for line in process.stdout if " loss " in line]
        process.wait()
    last = _start(tmp_path / "killed")
    done += [line for line in last.stdout if " loss " in line]
    assert last.wait() == 0
    repeated = len(done) - len({line.split(" loss ")[0] for line in done})
    assert repeated <= 2  # one for each kill
    a, b = Store(tmp_path / "whole"), Store(tmp_path / "killed")
    for path in sorted((tmp_path / "whole" / "results").glob("*.json")):
        name = path.stem
        np.testing.assert_array_equal(np.load(a.output(name))["logits"], np.load(b.output(name))["logits"])
        for one, other in zip(a.load_result(name)["log"], b.load_result(name)["log"], strict=True):
            assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_a_planned_stop_loses_no_epoch_whatever_the_checkpoints(tiny, tmp_path, monkeypatch):
    hours = iter(range(100))  # a clock that moves on each time it is read
    setting = session(tiny, tmp_path, checkpoint_every=10, deadline=4)
    with monkeypatch.context() as patch:
        patch.setattr("reproduction.training.time", SimpleNamespace(monotonic=lambda: next(hours)))
        assert not train([START], setting)
    done = len(setting.store.load_result(START.name)["log"])
    assert 0 < done < START.recipe.epochs
    assert setting.store.load_state(START.name)["epoch"] == done
    again = session(tiny, tmp_path, checkpoint_every=10)
    assert run_plan([[START]], again)
    assert [entry["epoch"] for entry in again.store.load_result(START.name)["log"]] == [1, 2, 3]


def test_plans_by_name():
    networks, starts, *table = asked_plan(
        ["network:preresnet20+preresnet56", "start:vgg16_bn", "table:vgg16_bn"], "cifar100"
    )
    assert [(s.model, s.seed, s.recipe.epochs) for s in networks] == [
        ("preresnet20", 0, 30),
        ("preresnet56", 0, 30),
    ]
    assert [(s.seed, s.recipe.epochs) for s in starts] == [(0, 50), (5, 50)]
    runs = [spec for wave in table for spec in wave]
    assert {(s.objective, s.seed) for s in runs} == {
        (o, s) for o in ("ce", "sele", "harmonic", "log") for s in range(5)
    }
    first, second = (s.name for s in starts)
    assert {s.seed for s in runs if s.start == first} == {0, 1}
    assert {s.seed for s in runs if s.start == second} == {2, 3, 4}
    (start,), *waves = asked_plan(["start:resnet34", "table:resnet34"], "cifar100")
    assert (start.seed, start.recipe.epochs) == (0, 50)
    assert [[(s.objective, s.seed, s.start) for s in wave] for wave in waves] == [
        [(o, seed, start.name) for o in ("ce", "sele", "harmonic", "log")] for seed in (0, 1)
    ]
    (more,) = asked_plan(["seeds:preresnet20"], "cifar100")
    assert [(s.seed, s.recipe.epochs) for s in more] == [(1, 30), (2, 30), (3, 30), (4, 30)]
    assert all(s.recipe.epochs == 7 for wave in asked_plan(["table:resnet18"], "cifar10", 7) for s in wave)
    with pytest.raises(InputError, match="parts"):
        asked_plan(["nonsense:resnet18"], "cifar10")
