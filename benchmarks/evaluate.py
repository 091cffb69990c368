"""Speed of `evaluate` and `compare`, and of what they are made of, as ratios in one run on one thread.

    python benchmarks/evaluate.py

Each line: what, its time, the time of what it is measured against, their ratio, and the bound it is held to.
Both sides are timed in turns, in processor time of this thread, so that a busy machine slows both alike.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from scipy.special import log_softmax

import abstain
from abstain import scores
from abstain.scores.catalogue import outputs

SCORES = ("max_softmax", "softmax_margin", "negative_entropy", "max_logit")
LOSSES = ("zero_one", "cross_entropy")
FAILED: list[str] = []


def made_up(n: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of a model that is often right, and labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, n)
    logits = rng.standard_normal((n, classes), dtype=np.float32)
    logits *= 3
    logits[np.arange(n), labels] += 8
    return logits, labels


def in_turns(*calls: Callable[[], object], least: int = 5, seconds: float = 2.0) -> list[float]:
    """Smallest time of each call."""
    times: list[list[float]] = [[] for _ in calls]
    start = time.perf_counter()
    while len(times[0]) < least or (time.perf_counter() - start < seconds and len(times[0]) < 200):
        for call, kept in zip(calls, times):
            begin = time.thread_time()
            call()
            kept.append(time.thread_time() - begin)
    return [min(kept) for kept in times]


def line(what: str, ours: Callable[[], object], other: Callable[[], object], bound: float | None) -> None:
    """Time two calls and print their ratio."""
    a, b = in_turns(ours, other)
    missed = bound is not None and a / b > bound
    if missed:
        FAILED.append(what)
    held = "" if bound is None else f"at most {bound:g}" + ("  MISSED" if missed else "")
    print(f"{what:<58} {a * 1e3:10.2f} ms {b * 1e3:10.2f} ms {a / b:8.2f}  {held}")


def passes_over_logits() -> None:
    """All default scores and losses, and one score, beside scipy's log_softmax of the same array."""
    for n, classes, bound in ((50_000, 1_000, 1.6), (10_000, 10, None), (1_000_000, 10, None)):
        logits, labels = made_up(n, classes)
        size = f"{n:,} x {classes:,}"

        def softmax(z: np.ndarray = logits) -> np.ndarray:
            return log_softmax(z, axis=-1)

        def everything(z: np.ndarray = logits, y: np.ndarray = labels) -> object:
            return outputs(z, y, scores=SCORES, losses=LOSSES)

        def one(z: np.ndarray = logits) -> object:
            return scores.max_softmax(z)

        line(f"scores and losses of {size} / log_softmax", everything, softmax, bound)
        line(f"max_softmax of {size} / log_softmax", one, softmax, bound and 1.3)


def whole_tables() -> None:
    """`evaluate` with all its defaults, beside one interval of as many samples, or the softmax of the array."""
    for n, classes, bound in ((10_000, 10, 40.0), (1_000_000, 10, 14.0)):
        logits, labels = made_up(n, classes)
        loss, sure = abstain.losses.zero_one(logits, labels), scores.max_softmax(logits)

        def table(z: np.ndarray = logits, y: np.ndarray = labels) -> object:
            return abstain.evaluate(z, y, progress=False)

        def one(l: np.ndarray = loss, g: np.ndarray = sure) -> object:
            return abstain.inference.interval("aurc", l, g)

        line(f"evaluate {n:,} x {classes:,} / interval of AURC", table, one, bound)
    logits, labels = made_up(50_000, 1_000)
    line(
        "evaluate 50,000 x 1,000 / log_softmax",
        lambda: abstain.evaluate(logits, labels, progress=False),
        lambda: log_softmax(logits, axis=-1),
        2.2,
    )


def many_models() -> None:
    """Fifty models on the same samples, beside one model's scores and loss."""
    rng = np.random.default_rng(1)
    logits, labels = made_up(10_000, 10)
    models = {str(k): logits + rng.standard_normal(logits.shape, dtype=np.float32) for k in range(50)}
    line(
        "compare 50 models x 10,000 x 10 / scores and loss of one",
        lambda: abstain.compare(models, labels),
        lambda: outputs(logits, labels, scores=SCORES, losses=["zero_one"]),
        150.0,
    )


def peers() -> None:
    """One metric at a time beside scikit-learn's and torch-uncertainty's, where they are installed."""
    for n in (10_000, 1_000_000):
        logits, labels = made_up(n, 10)
        wrong, sure = abstain.losses.zero_one(logits, labels), scores.max_softmax(logits)
        for name, ours, theirs in (*_of_scikit_learn(wrong, sure), *_of_torch_uncertainty(wrong, sure)):
            line(f"{name} of {n:,}", lambda ours=ours, l=wrong, g=sure: ours(l, g), theirs, None)


Peer = tuple[str, Callable[..., object], Callable[[], object]]


def _of_scikit_learn(wrong: np.ndarray, sure: np.ndarray) -> list[Peer]:
    try:
        from sklearn.metrics import average_precision_score, roc_auc_score
    except ImportError as reason:
        print(f"scikit-learn does not import here: {reason}")
        return []
    return [
        ("auroc / scikit-learn's", abstain.auroc, lambda: roc_auc_score(wrong, -sure)),
        (
            "aupr_error / scikit-learn's",
            abstain.metrics.aupr_error,
            lambda: average_precision_score(wrong, -sure),
        ),
    ]


def _of_torch_uncertainty(wrong: np.ndarray, sure: np.ndarray) -> list[Peer]:
    """Its metrics' files alone, as the package as a whole wants torchvision; what was given to them is stored."""
    found = importlib.util.find_spec("torch_uncertainty")
    if found is None:
        print("torch-uncertainty is not here: pip install --no-deps torch-uncertainty")
        return []
    import torch

    folder = Path(found.submodule_search_locations[0]) / "metrics" / "classification"
    modules = {}
    for name in ("risk_coverage", "fpr"):
        spec = importlib.util.spec_from_file_location(f"torch_uncertainty_{name}", folder / f"{name}.py")
        modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[name])
    torch.set_num_threads(1)
    confidence = torch.from_numpy(
        0.5 + 0.5 * np.argsort(np.argsort(sure)) / len(sure)
    )  # same order, in (1/2, 1)
    probs, errors = torch.stack([confidence, 1 - confidence], -1), torch.from_numpy(wrong.astype(np.int64))
    areas, fpr = modules["risk_coverage"], modules["fpr"].FPR95(pos_label=1)
    fpr.update(confidence, 1 - errors)
    metrics = {
        "aurc": areas.AURC(),
        "augrc": areas.AUGRC(),
        "coverage_at_risk": areas.CovAt5Risk(),
        "risk_at_coverage": areas.RiskAt80Cov(),
    }
    for metric in metrics.values():
        metric.update(probs, errors)
    given = {"coverage_at_risk": {"risk": 0.05}, "risk_at_coverage": {"coverage": 0.8}}

    def computed(metric: Any) -> Callable[[], object]:
        def compute() -> object:
            metric._computed = None  # else the first answer is handed out again
            return metric.compute()

        return compute

    return [
        (
            f"{name} / torch-uncertainty's",
            partial(getattr(abstain, name), **given.get(name, {})),
            computed(metric),
        )
        for name, metric in {**metrics, "fpr_at_tpr": fpr}.items()
    ]


def terminal() -> None:
    """`abstain evaluate` of a file of 10,000 rows, beside a Python that only imports what it needs."""
    logits, labels = made_up(10_000, 10)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.npz"
        np.savez(path, logits=logits, labels=labels)
        command = [sys.executable, "-m", "abstain", "evaluate", str(path)]
        bare = [sys.executable, "-c", "import abstain, scipy.special"]
        seconds: dict[str, list[float]] = {"command": [], "bare": []}
        for _ in range(3):
            for name, call in (("command", command), ("bare", bare)):
                begin = time.perf_counter()
                subprocess.run(call, check=True, capture_output=True)
                seconds[name].append(time.perf_counter() - begin)
    ours, other = (min(x) for x in seconds.values())
    late = ours - other > 1
    if late:
        FAILED.append("abstain evaluate in the terminal")
    held = "at most 1 s more" + ("  MISSED" if late else "")
    what = "abstain evaluate of 10,000 rows / import"
    print(f"{what:<58} {ours * 1e3:10.2f} ms {other * 1e3:10.2f} ms {ours / other:8.2f}  {held}")


SECTIONS = (passes_over_logits, whole_tables, many_models, peers, terminal)


def main() -> int:
    """Print all sections; 1 if a bound is missed."""
    print(f"numpy {np.__version__}, Python {platform.python_version()}, one thread, float32 logits")
    for section in SECTIONS:
        section()
    print("all bounds held" if not FAILED else "missed: " + "; ".join(FAILED))
    return bool(FAILED)


if __name__ == "__main__":
    sys.exit(main())
