"""Runs on disk: written while training, carried between machines, kept in results/, read again and checked."""

from __future__ import annotations

import gzip
import json
import os
import platform
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import abstain
from abstain.errors import DataError
from reproduction.kept import (
    KeptOutputs,
    Samples,
    keep_runs,
    keep_samples,
    read_runs,
    read_samples,
    samples_of,
)
from reproduction.outputs import Outputs
from reproduction.study import aurc_by_score, shortened

# Each folder has an archive of runs and, but for EARLIER, one of samples.
RESULTS = Path(__file__).parent / "results"
TUNING = RESULTS / "tuning"
EARLIER = RESULTS / "earlier"  # finished runs of networks that were trained and tuned anew since
STUDY = RESULTS / "study.json.gz"

# -------------------------------- the store: a killed process leaves the old file or the new, never a part of one


class Store:
    """Folders `checkpoints/`, `results/` and `outputs/` under one root."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        for part in ("checkpoints", "results", "outputs"):
            (self.root / part).mkdir(parents=True, exist_ok=True)

    def checkpoint(self, name: str) -> Path:
        """Weights, moments and log of a run."""
        return self.root / "checkpoints" / f"{name}.pt"

    def result(self, name: str) -> Path:
        """The small JSON of a run."""
        return self.root / "results" / f"{name}.json"

    def output(self, name: str) -> Path:
        """Test-set logits of a finished run."""
        return self.root / "outputs" / f"{name}.npz"

    def save_state(self, name: str, state: dict[str, Any]) -> None:
        """Keep a run's state."""
        import torch

        _replace(self.checkpoint(name), lambda path: torch.save(state, path))

    def load_state(self, name: str) -> dict[str, Any] | None:
        """State of a run, or None if it never reached the end of an epoch."""
        import torch

        path = self.checkpoint(name)
        return torch.load(path, map_location="cpu", weights_only=True) if path.is_file() else None

    def weights(self, name: str) -> dict[str, Any]:
        """Weights of a run that others start from."""
        state, result = self.load_state(name), self.load_result(name)
        if state is None or result is None or not result["finished"]:
            raise DataError(f"weights: {name} is not finished under {self.root}. Run the pre-training first.")
        return dict(state["weights"])

    def save_result(self, name: str, result: dict[str, Any]) -> None:
        """Keep a run's numbers."""
        _replace(self.result(name), lambda path: path.write_text(json.dumps(result, indent=1) + "\n"))

    def load_result(self, name: str) -> dict[str, Any] | None:
        """Numbers of a run, if there are any."""
        path = self.result(name)
        return json.loads(path.read_text()) if path.is_file() else None

    def save_output(self, name: str, logits: dict[str, np.ndarray]) -> None:
        """Keep logits as float16, by the name of what they are of."""

        def write(path: Path) -> None:
            half: dict[str, Any] = {part: z.astype(np.float16) for part, z in logits.items()}
            with path.open("wb") as file:
                np.savez_compressed(file, **half)

        _replace(self.output(name), write)

    def load_output(self, name: str) -> dict[str, np.ndarray]:
        """Logits of a finished run, as float32."""
        with np.load(self.output(name)) as file:
            return {part: file[part].astype(np.float32) for part in file.files}


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    write(part)
    os.replace(part, path)


# -------------------------------- which code, data and machine a result came from


def commit() -> str:
    """Commit of the code: the variable ABSTAIN_COMMIT, or what git says, or "unknown"."""
    named = os.environ.get("ABSTAIN_COMMIT")
    if named:
        return named
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True,
            timeout=10, check=False,
        )  # fmt: skip
    except OSError:
        return "unknown"
    return asked.stdout.strip() or "unknown"


@cache
def origin(device: str) -> dict[str, Any]:
    """Commit, date, command, hardware and library versions; asked once per process."""
    import numpy as np
    import torch

    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return {
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": shlex.join(["python", "-m", "reproduction", *sys.argv[1:]]),
        "device": name,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


# -------------------------------- the numbers of one network


def score_logits(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Accuracy, cross-entropy, and AURC of the MSP under 0/1 and cross-entropy loss (harmonic estimator).

    >>> numbers = score_logits(np.array([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), np.array([0, 1, 1]))
    >>> round(numbers["accuracy"], 4), round(numbers["aurc_01"], 4)  # only the least confident one is wrong
    (0.6667, 0.1111)
    """
    confidence = abstain.scores.max_softmax(logits)
    wrong = abstain.losses.zero_one(logits, labels)
    entropy = abstain.losses.cross_entropy(logits, labels)
    return {
        "accuracy": 1 - float(np.mean(wrong)),
        "nll": float(np.mean(entropy)),
        "aurc_01": float(abstain.aurc(wrong, confidence)),
        "aurc_ce": float(abstain.aurc(entropy, confidence)),
    }


# -------------------------------- few files of limited size, to carry from one machine to another

LIMIT = 15 * 2**20


def pack(folder: str | Path, to: str | Path) -> list[Path]:
    """`results.tar.gz` and `outputs-0.tar`, `outputs-1.tar` ... under `to`, each below 15 MiB."""
    folder, to = Path(folder), Path(to)
    to.mkdir(parents=True, exist_ok=True)
    written = [to / "results.tar.gz"]
    with tarfile.open(written[0], "w:gz") as archive:
        for path in sorted((folder / "results").glob("*.json")):
            archive.add(path, f"results/{path.name}")
    lots: list[list[Path]] = [[]]
    size = 0
    for path in sorted((folder / "outputs").glob("*.npz")):
        if size + path.stat().st_size > LIMIT:
            lots.append([])
            size = 0
        lots[-1].append(path)
        size += path.stat().st_size + 1024
    for i, lot in enumerate(lots):
        written.append(to / f"outputs-{i}.tar")
        with tarfile.open(written[-1], "w") as archive:
            for path in lot:
                archive.add(path, f"outputs/{path.name}")
    return written


def unpack(archives: str | Path, folder: str | Path) -> None:
    """Undo `pack`: every `*.tar*` under `archives` into `folder`."""
    for path in sorted(Path(archives).glob("*.tar*")):
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")


# -------------------------------- luck of the test set
#
# Seeds say how much training varies, with few of them at little certainty; the test samples say how much of a
# difference could be due to which 10,000 images were drawn. The two are different questions; the table shows both.

_Z = 1.959963984540054  # 97.5% point of the normal distribution


def paired_on_test(
    store: Store, runs: Sequence[dict[str, Any]], labels: dict[str, np.ndarray]
) -> list[dict[str, Any]]:
    """Mean difference to CE over shared seeds, with the interval over test samples, for every objective.

    The influence of a sample on the mean difference is the mean of its influences, so one interval holds for all
    seeds together.
    """
    tuned = [run for run in runs if run["kind"] == "finetune" and run["finished"]]
    rows = []
    for dataset, model in sorted({(r["dataset"], r["model"]) for r in tuned}):
        own = {
            (r["objective"], r["seed"]): r["name"]
            for r in tuned
            if (r["dataset"], r["model"]) == (dataset, model)
        }
        pulls = {key: _pulls(store, name, labels[dataset]) for key, name in own.items()}
        for objective in sorted({o for o, _ in own} - {"ce"}):
            seeds = [s for o, s in own if o == objective and ("ce", s) in own]
            if seeds:
                shared = {"dataset": dataset, "model": model, "objective": objective, "seeds": sorted(seeds)}
                rows.append({**shared, **_differences(pulls, objective, seeds)})
    return rows


def _pulls(store: Store, name: str, labels: np.ndarray) -> dict[str, Any]:
    logits = store.load_output(name)["logits"]
    confidence = abstain.scores.max_softmax(logits)
    losses = {
        "aurc_01": np.asarray(abstain.losses.zero_one(logits, labels), dtype=np.float64),
        "aurc_ce": abstain.losses.cross_entropy(logits, labels),
    }
    return {key: abstain.inference.influence("aurc", loss, confidence) for key, loss in losses.items()}


def _differences(
    pulls: dict[Any, dict[str, Any]], objective: str, seeds: Sequence[int]
) -> dict[str, list[float]]:
    found = {}
    for quantity in ("aurc_01", "aurc_ce"):
        pairs = [(pulls[objective, s][quantity], pulls["ce", s][quantity]) for s in seeds]
        found[quantity] = mean_difference(pairs)
    return found


def mean_difference(pairs: Sequence[tuple[Any, Any]]) -> list[float]:
    """Mean over seeds of the difference of two influences on the same samples, and its 95% interval over samples."""
    mean = float(np.mean([a.estimate - b.estimate for a, b in pairs]))
    each = np.mean([a.values - b.values for a, b in pairs], axis=0)
    half = _Z * float(np.sqrt(np.sum(each**2))) / len(each)
    return [mean, mean - half, mean + half]


# -------------------------------- from a training machine into results/

# The paper's networks, whose test samples are kept, and the two networks that the demo shows, whose logits are kept.
PAPERS_NETWORKS = (
    "vgg16_bn", "preresnet20", "preresnet56", "preresnet110", "preresnet164", "wideresnet28_10",
)  # fmt: skip
DEMO = {"ce": "cifar10_resnet18_ce", "harmonic": "cifar10_resnet18_aurc"}


def adopt(
    archives: Path,
    labels: dict[str, np.ndarray],
    scratch: Path,
    results: Path = RESULTS,
    demo: Path | None = None,
) -> int:
    """Unpack, add every run and the test samples of the paper's networks to the archives; the number of runs.

    `labels` are those of each test set. What is there already stays, unless a run of the same name came back.
    Differences over test samples need the outputs of all seeds of a network, so the archives must hold those of its
    earlier seeds too.
    """
    unpack(archives, scratch)
    store = Store(scratch)
    runs = [json.loads(path.read_text()) for path in sorted((scratch / "results").glob("*.json"))]
    samples: dict[str, Samples] = {}
    for run in runs:
        test_labels = labels[run["dataset"]]
        if _is_in_study(run):
            logits = store.load_output(run["name"])["logits"]
            samples[run["name"]] = samples_of(logits, test_labels, cross_entropy=True)
            outputs = Outputs(run["dataset"], run["model"], "", test_labels, logits)
            run["aurc_by_score"] = shortened(aurc_by_score(outputs))
        if demo and run["finished"] and _is_demo(run):
            logits = store.load_output(run["name"])["logits"]
            _keep_logits(logits, test_labels, run["name"], demo / f"{DEMO[run['objective']]}.npz")
    keep_runs(runs, results)
    keep_samples(samples, results)
    _renew(results / "paired.json", shortened(paired_on_test(store, runs, labels)))
    return len(runs)


def _is_in_study(run: dict[str, Any]) -> bool:
    """Is this a finished pre-training of a network of the paper? The study averages over its first five seeds."""
    is_paper_network = run["kind"] == "pretrain" and run["model"] in PAPERS_NETWORKS
    return bool(run["finished"] and is_paper_network and run["seed"] < 5)


def _renew(path: Path, rows: list[dict[str, Any]]) -> None:
    """Put rows in the place of those for the same network and objective."""

    def key(row: dict[str, Any]) -> tuple[str, ...]:
        return row["dataset"], row["model"], row["objective"]

    old = json.loads(path.read_text()) if path.is_file() else []
    both = {key(row): row for row in (*old, *rows)}
    path.write_text(json.dumps([both[k] for k in sorted(both)], indent=1) + "\n")


def _is_demo(run: dict[str, object]) -> bool:
    return (
        (run["kind"], run["dataset"], run["model"]) == ("finetune", "cifar10", "resnet18")
        and run["seed"] == 0
        and run["objective"] in DEMO
    )


def _keep_logits(logits: np.ndarray, labels: np.ndarray, run: str, to: Path) -> None:
    """Float16 logits with the labels and the name of the run they come from, for `verify`."""
    to.parent.mkdir(parents=True, exist_ok=True)
    half = logits.astype(np.float16)
    np.savez_compressed(to, logits=half, labels=labels.astype(np.uint8), run=np.array(run))


# -------------------------------- results that come with the repository


def load_runs(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Results of all finished runs of an experiment, sorted by name.

    `folder` holds the archive that comes with the repository, or one JSON file per run, as training writes them.
    """
    runs = read_runs(folder) or [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [run for run in runs if run.get("finished")]


def load_paired(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Differences to CE with their intervals over test samples, from `paired_on_test`."""
    path = folder / "paired.json"
    return list(json.loads(path.read_text())) if path.is_file() else []


def save_study(study: dict[str, Any], path: Path) -> None:
    """Write a study, compressed when the name ends in .gz; the same numbers give the same bytes."""
    content = json.dumps(study, separators=(",", ":")).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def load_study(path: Path = STUDY) -> dict[str, Any]:
    """Read a study written by `save_study`."""
    if not path.is_file():
        raise DataError(f"load_study: {path} not found. Make it with `python -m reproduction study`.")
    content = path.read_bytes()
    return dict(json.loads(gzip.decompress(content) if path.suffix == ".gz" else content))


def kept_outputs(folder: Path = RESULTS) -> list[KeptOutputs]:
    """Test samples of the networks trained here, for the studies over several models of one architecture."""
    runs = {run["name"]: run for run in load_runs(folder)}
    outputs = [
        KeptOutputs(
            dataset=runs[name]["dataset"],
            model=runs[name]["model"],
            source=f"trained-seed{runs[name]['seed']}",
            samples=samples,
            aurc_by_score=runs[name]["aurc_by_score"],
        )
        for name, samples in read_samples(folder).items()
    ]
    return sorted(outputs, key=lambda kept: kept.name)


@dataclass(frozen=True)
class Checked:
    """Numbers of one run, computed again, and their largest difference from what the run wrote down."""

    run: str
    gap: float
    numbers: dict[str, float]

    @property
    def good(self) -> bool:
        """Equal up to rounding: cross-entropies are kept as float32."""
        return self.gap < 1e-8


def verify(results: Path | None = None) -> list[Checked]:
    """Recompute accuracy and AURC from all kept samples and the demo's logits, and compare them with the runs' records.

    `results` is the folder with the archives of the paper's runs; those of tuning are in its folder `tuning`.
    """
    folder = RESULTS if results is None else results
    runs = {run["name"]: run for run in (*load_runs(folder), *load_runs(folder / TUNING.name))}
    numbers = {name: samples.numbers() for name, samples in read_samples(folder).items()}
    numbers |= {name: samples.numbers() for name, samples in read_samples(folder / TUNING.name).items()}
    for path in sorted((Path(str(files("abstain"))) / "data").glob("*.npz")):
        with np.load(path) as file:
            if "run" in file:
                logits = file["logits"].astype(np.float32)
                numbers[str(file["run"])] = score_logits(logits, file["labels"].astype(np.int64))
    return [Checked(name, _largest_gap(found, runs[name]), found) for name, found in numbers.items()]


def _largest_gap(numbers: dict[str, float], run: dict[str, Any]) -> float:
    """The largest absolute difference between numbers and those that the run wrote down for its float16 logits."""
    written = run["from_float16"]
    of_test_set = written.get("test", written)  # tuning's runs were judged on held-out images too
    return max(abs(value - of_test_set[key]) for key, value in numbers.items())
