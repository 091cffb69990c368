"""What the recipes of `tuning` did: runs that came back are checked and kept, and tables are made from what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import abstain
from abstain.errors import DataError
from reproduction.data import ImageSet, load_images, split
from reproduction.kept import Samples, keep_runs, keep_samples, read_samples, samples_of
from reproduction.runs import TUNING, Store, load_runs, mean_difference, score_logits, unpack
from reproduction.table import Network, Paired, counted, network_name, paired
from reproduction.texts import DATASET as TEXTS
from reproduction.texts import TextSet, load_texts
from reproduction.tuning import STARTS, start_of

# -------------------------------- what comes back from a training machine


def adopt(archives: Path, data: str | Path | None, scratch: Path, to: Path = TUNING) -> int:
    """Check what `pack` wrote against its own logits and add it to the archives under `to`; the number of runs."""
    unpack(archives, scratch)
    store = Store(scratch)
    runs = load_runs(scratch / "results")
    samples: dict[str, Samples] = {}
    for dataset in sorted({run["dataset"] for run in runs}):
        test_set: ImageSet | TextSet = load_texts(data) if dataset == TEXTS else load_images(dataset, data)
        labels = split(test_set).labels
        digest = test_set.digest()
        for run in (run for run in runs if run["dataset"] == dataset):
            if run["data"] != digest:
                raise DataError(f"adopt: {run['name']} was trained on data {run['data']}, not {digest}.")
            kept_its_start = (
                run.get("improved") is False
            )  # `fine_tune` gave the network its first weights back
            if not kept_its_start and store.output(run["name"]).is_file():
                samples[run["name"]] = _checked_samples(run, store.load_output(run["name"]), labels)
    keep_runs(runs, to)
    keep_samples(samples, to)
    return len(runs)


def _checked_samples(
    run: dict[str, Any], logits: dict[str, np.ndarray], labels: dict[str, np.ndarray]
) -> Samples:
    """The test samples of a run; DataError if its logits do not give the numbers that it wrote down.

    `logits` and `labels` are those of each part: "held_out" and "test".
    """
    for part, written in run["from_float16"].items():
        numbers = score_logits(logits[part], labels[part])
        if any(abs(numbers[key] - written[key]) > 1e-12 for key in numbers):
            raise DataError(f"adopt: {run['name']} says {written} ({part}), its logits say {numbers}.")
    return samples_of(logits["test"], labels["test"], cross_entropy=False)


Ranks = dict[str, tuple[np.ndarray, np.ndarray]]


def load_ranks(folder: Path = TUNING) -> Ranks:
    """0/1 losses and ranks of confidence of the test images, by name of run."""
    return {name: (samples.wrong, samples.rank) for name, samples in read_samples(folder).items()}


# -------------------------------- tables

Methods = dict[str, dict[int, dict[str, Any]]]  # method -> seed -> run
Runs = dict[Network, Methods]

# whose difference in test AURC is of interest beside that to the start
_AGAINST = (
    ("average_half", "average_ce"),
    ("average_ce", "scratch"),
    ("average_half", "scratch"),
    ("average_sharp", "average_ce"),
    ("harmonic", "ce"),
    ("smoothing_average_half", "smoothing_average_ce"),
    ("mixup_average_half", "mixup_average_ce"),
)
_OVER_IMAGES = (("average_ce", "start"), ("average_half", "start"), ("average_half", "average_ce"))


def load_tuned(folder: Path = TUNING) -> Runs:
    """Kept runs, sorted by data set, network, method and seed."""
    found: Runs = {}
    runs = load_runs(folder)
    for run in sorted(runs, key=lambda r: (r["dataset"], r["model"], r["method"], r["seed"])):
        methods = found.setdefault((run["dataset"], run["model"]), {})
        methods.setdefault(run["method"], {})[run["seed"]] = run
    return found


def seeds_apart(
    methods: Methods,
    a: str,
    b: str,
    quantity: str = "aurc_01",
    part: str = "test",
    relative: bool = True,
) -> Paired | None:
    """Method a beside method b over the seeds both have: a/b - 1, or a - b; None if they share none, or b is 0."""
    one, other = methods.get(a, {}), methods.get(b, {})
    pairs = [(one[s][part][quantity], other[s][part][quantity]) for s in sorted(one.keys() & other.keys())]
    if not pairs or (relative and min(y for _, y in pairs) == 0):
        return None
    return paired(np.array([x / y - 1 if relative else x - y for x, y in pairs]))


def images_apart(methods: Methods, a: str, b: str, ranks: Ranks) -> tuple[float, float, float] | None:
    """Mean over seeds of the difference in 0/1 test AURC and its 95% interval over test images, over the mean of b."""
    one, other = methods.get(a, {}), methods.get(b, {})
    names = [(one[s]["name"], other[s]["name"]) for s in sorted(one.keys() & other.keys())]
    influence = abstain.inference.influence
    pulls = [
        (influence("aurc", *ranks[x]), influence("aurc", *ranks[y]))
        for x, y in names
        if {x, y} <= ranks.keys()
    ]
    if not pulls:
        return None
    base = float(np.mean([pull.estimate for _, pull in pulls]))
    mean, low, high = (value / base for value in mean_difference(pulls))
    return mean, low, high


def percent(mean: float, low: float, high: float) -> str:
    """Mean and interval in percent.

    >>> percent(-0.2, -0.25, -0.15)
    '-20.0% [-25.0%, -15.0%]'
    """
    return f"{100 * mean:+.1f}% [{100 * low:+.1f}%, {100 * high:+.1f}%]"


def _beside(methods: Methods, a: str, b: str, quantity: str = "aurc_01", part: str = "test") -> str:
    """The relative difference of two methods as text: with its interval over seeds, or alone if there is one seed."""
    gap = seeds_apart(methods, a, b, quantity, part)
    if gap is None:
        return ""
    return f"{100 * gap.mean:+.1f}%" if gap.seeds == 1 else percent(gap.mean, gap.low, gap.high)


def _gain(methods: Methods, method: str) -> str:
    gap = seeds_apart(methods, method, start_of(method), "accuracy", relative=False)
    if gap is None:
        return ""
    if gap.seeds == 1:
        return f"{100 * gap.mean:+.2f}"
    return f"{100 * gap.mean:+.2f} [{100 * gap.low:+.2f}, {100 * gap.high:+.2f}]"


def _mean(seeds: dict[int, dict[str, Any]], quantity: str) -> float:
    return float(np.mean([run["test"][quantity] for run in seeds.values()]))


def _markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def tables(folder: Path = TUNING) -> str:
    """Every method beside its start, methods beside each other over seeds, and the same over test images."""
    runs, ranks = load_tuned(folder), load_ranks(folder)
    each, against, over = [], [], []
    for (dataset, model), methods in runs.items():
        for method, seeds in methods.items():
            tuned = method not in STARTS
            start = start_of(method)
            row = [dataset, model, method, str(len(seeds)), f"{1e3 * _mean(seeds, 'aurc_01'):.2f}"]
            row += [_beside(methods, method, start) if tuned else ""]
            row += [f"{100 * _mean(seeds, 'accuracy'):.2f}", _gain(methods, method) if tuned else ""]
            row += [_beside(methods, method, start, "aurc_ce") if tuned else ""]
            row += [_beside(methods, method, start, part="held_out") if tuned else ""]
            each.append(row)
    for a, b in _AGAINST:
        for (dataset, model), methods in runs.items():
            if cell := _beside(methods, a, b):
                against.append([dataset, model, f"{a} relative to {b}", cell])
    for (dataset, model), methods in runs.items():
        pairs = [*_OVER_IMAGES, *((method, start_of(method)) for method in _of_other_starts(methods))]
        for a, b in pairs:
            if found := images_apart(methods, a, b, ranks):
                over.append([dataset, model, f"{a} relative to {b}", percent(*found)])
    titles = ["set", "network", "method", "seeds", "test AURC x1e3", "relative to its start", "test accuracy"]
    titles += ["gain, points", "CE AURC relative", "held-out AURC relative"]
    beside = ["set", "network", "difference in test AURC"]
    return "\n".join([
        _markdown(titles, each),
        _markdown([*beside, "over seeds"], against),
        _markdown([*beside, "over test images, mean of seeds"], over),
    ])  # fmt: skip


# -------------------------------- the part of docs/train.md that rests on these runs

_RECIPE_NAMES = {
    "average_ce": "cross-entropy, **averaged weights**, rate 0.02",
    "average_half": "half cross-entropy, half AURC loss, **averaged weights**, rate 0.02",
    "average_sharp": "cross-entropy, sharpness-aware, averaged weights, rate 0.02",
    "ce": "cross-entropy, rate 1e-3",
    "harmonic": "AURC loss, rate 1e-3",
    "scratch": "control: from scratch, as many epochs as start and tuning",
    "average_strong": "cross-entropy, RegMixup, sharpness-aware, **averaged weights**, rate 0.02",
}
_PAIR_NAMES = {
    ("average_half", "average_ce"): "half AURC loss against cross-entropy alone, both averaged",
    ("average_ce", "scratch"): "cross-entropy averaged against the control",
    ("harmonic", "ce"): "AURC loss against cross-entropy, both at 1e-3",
}


def summary(folder: Path = TUNING) -> str:
    """What works and by how much, what does not, after how many epochs, and on other starts, in Markdown."""
    runs, ranks = load_tuned(folder), load_ranks(folder)
    from_plain_start = _of_plain_starts(runs)
    return "\n".join([
        _setting(from_plain_start),
        _changes(from_plain_start),
        _beside_each_other(from_plain_start, ranks),
        _by_epoch(from_plain_start),
        _other_starts(runs, ranks),
        _texts(runs),
    ])  # fmt: skip


def _of_plain_starts(runs: Runs) -> Runs:
    """The plain starts, trained with cross-entropy alone, and what was made of them."""
    return {
        network: {method: seeds for method, seeds in methods.items() if start_of(method) == "start"}
        for network, methods in runs.items()
        if "start" in methods and network[0] != TEXTS
    }


def _of_other_starts(methods: Methods) -> list[str]:
    """Those of the methods that tune another start than the plain one."""
    return [method for method in methods if method not in STARTS and start_of(method) != "start"]


_START_NAMES = {
    "smoothing": "label smoothing 0.1",
    "mixup": "mixup, Beta(1, 1)",
    "strong": "RegMixup and sharpness-aware steps, 120 epochs",
}


def _other_starts(runs: Runs, ranks: Ranks) -> str:
    """What tuning does to networks that were trained with more than cross-entropy; "" if there are none."""
    rows = []
    for network, methods in runs.items():
        for method in _of_other_starts(methods):
            start = start_of(method)
            before = methods[start]
            after = methods[method]
            over_images = images_apart(methods, method, start, ranks)
            recipe = _RECIPE_NAMES[method.removeprefix(f"{start}_")]
            rows.append([
                f"{_START_NAMES[start]} ({network_name(network)}, {counted(len(after), 'seed')})",
                f"{recipe}, {next(iter(after.values()))['recipe']['epochs']} epochs",
                f"{1e3 * _mean(before, 'aurc_01'):.2f} -> {1e3 * _mean(after, 'aurc_01'):.2f}",
                _beside(methods, method, start),
                percent(*over_images) if over_images else "",
                f"{100 * _mean(before, 'accuracy'):.2f} -> {100 * _mean(after, 'accuracy'):.2f}",
            ])  # fmt: skip
    if not rows:
        return ""
    titles = ["another start", "tuned with", "AURC", "change, over seeds", "over test images", "accuracy %"]
    return _markdown(titles, rows)


def _texts(runs: Runs) -> str:
    """What `fine_tune` did to the transformers on text, as one paragraph; "" if there are none."""
    tuned = []
    changes = []  # of the best look at the held-out texts, relative to the start
    for (dataset, _), methods in runs.items():
        if dataset != TEXTS:
            continue
        for method in (m for m in methods if m not in STARTS):
            for seed, run in methods[method].items():
                tuned.append(run)
                best_aurc = min(aurc for _, aurc in run["looks"])
                changes.append(best_aurc / methods["start"][seed]["held_out"]["aurc_01"] - 1)
    if not tuned:
        return ""
    seeds = len({run["seed"] for run in tuned})
    improved = sum(run["improved"] for run in tuned)
    return (
        f"On text (a transformer of four layers, {tuned[0]['trained_on']:,} Amazon reviews, five classes, {seeds} "
        f"seeds, `fine_tune` with its defaults\nand with `mix=1.0`) the averaged weights were shown to be better in "
        f"{improved} of {len(tuned)} runs; otherwise `fine_tune` keeps the start. At\ntheir best the averaged weights "
        f"had a held-out AURC {100 * min(changes):+.1f}% to {100 * max(changes):+.1f}% relative to the start.\n"
    )


def _setting(runs: Runs) -> str:
    every = [run for methods in runs.values() for seeds in methods.values() for run in seeds.values()]
    cards, days = (", ".join(sorted({run[key] for run in every})) for key in ("device", "date"))
    tuned = {run["recipe"]["epochs"] for run in every if run["kind"] == "tune"}
    starts = [run for run in every if run["kind"] == "start"]
    [(trained, held_out, epochs)] = {
        (r["trained_on"], r["held_out_images"], r["recipe"]["epochs"]) for r in starts
    }
    return (
        f"{len(every)} runs on an {cards}, {days}. Starting networks: {epochs} epochs on {trained:,} images, a full "
        f"schedule.\nRecipes: {' or '.join(map(str, sorted(tuned)))} more epochs on the same images; the last epoch is "
        f"used. Nothing is selected on the {held_out:,} held-out\nimages or on the test set. AURC is that of 0/1 loss "
        "and maximum softmax on the test set, x1e3. Change is the mean over seeds of\ntuned / start - 1, each seed "
        "against its own start, with Student's 95% interval.\n"
    )


def _changes(runs: Runs) -> str:
    rows = []
    for network, methods in runs.items():
        title = network_name(network)
        for method in (m for m in _RECIPE_NAMES if m in methods):
            seeds, start = methods[method], methods["start"]
            values = [(1e3 * _mean(s, "aurc_01"), 100 * _mean(s, "accuracy")) for s in (start, seeds)]
            (aurc, accuracy), (new_aurc, new_accuracy) = values
            rows.append([
                title, _RECIPE_NAMES[method], f"{aurc:.2f} -> {new_aurc:.2f}", _beside(methods, method, "start"),
                f"{accuracy:.2f} -> {new_accuracy:.2f}",
            ])  # fmt: skip
            title = ""
    count = min(len(seeds) for methods in runs.values() for seeds in methods.values())
    return _markdown(["network", f"recipe, {count} seeds", "AURC", "change", "accuracy %"], rows)


def _beside_each_other(runs: Runs, ranks: Ranks) -> str:
    rows = []
    for (a, b), title in _PAIR_NAMES.items():
        for network, methods in runs.items():
            if cell := _beside(methods, a, b):
                over = images_apart(methods, a, b, ranks)
                held_out = _beside(methods, a, b, part="held_out")
                rows.append([title, network_name(network), cell, percent(*over) if over else "", held_out])
                title = ""
    titles = ["one recipe against another", "network", "test AURC, over seeds", "over test images"]
    return _markdown([*titles, "held-out AURC, over seeds"], rows)


def _by_epoch(runs: Runs) -> str:
    """Held-out AURC at every look, and what the last weights do when they are not averaged."""
    rows, looks = [], []
    for network, methods in runs.items():
        start = np.mean([run["held_out"]["aurc_01"] for run in methods["start"].values()])
        for method in ("average_ce", "average_half"):
            logs = [[e for e in run["log"] if "held_out" in e] for run in methods.get(method, {}).values()]
            if not logs:
                continue
            looks = [f"after {e['epoch']}" for e in logs[0]]
            shown = [
                float(np.mean([log[k]["held_out"]["aurc_01"] for log in logs])) for k in range(len(looks))
            ]
            last = float(np.mean([log[-1]["held_out_not_averaged"]["aurc_01"] for log in logs]))
            cells = [f"{1e3 * value:.2f}" for value in (start, *shown, last)]
            rows.append([f"{network_name(network)}, {_RECIPE_NAMES[method].split(', **')[0]}", *cells])
    return _markdown(
        ["held-out AURC x1e3 by epoch, averaged weights", "start", *looks, "last, not averaged"], rows
    )
