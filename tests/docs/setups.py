"""What a page tells its reader to have already: names for its code, beside those of every page (see conftest)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np


def training() -> dict[str, Any]:
    """A small network that takes vectors and pictures, and batches of both; real digits."""
    import torch
    import torch.nn.functional as F
    from sklearn.datasets import load_digits

    digits = load_digits()
    x, y = torch.tensor(digits.data[:256] / 16, dtype=torch.float32), torch.tensor(digits.target[:256])
    torch.manual_seed(0)
    by_sample, by_pixel = torch.nn.Linear(64, 10), torch.nn.Conv2d(1, 3, 3, padding=1)
    pictures = torch.tensor(digits.images[:32, None] / 16, dtype=torch.float32)
    masks = (pictures[:, 0] * 2.99).long()

    network = torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    )
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x[:128], y[:128]), 32, shuffle=True)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for _ in range(5):  # "finished" training
        for inputs, target in batches:
            optimizer.zero_grad()
            F.cross_entropy(network(inputs), target).backward()
            optimizer.step()

    def model(inputs: Any) -> Any:
        return by_pixel(inputs) if inputs.ndim == 4 else by_sample(inputs)

    return {
        "torch": torch, "F": F, "model": model, "x": x[:128], "y": y[:128], "x_val": x[128:], "y_val": y[128:],
        "parts": x[:128].split(48), "targets": y[:128].split(48), "sizes": [48, 48, 32],
        "network": network, "batches": batches,
        "loader": [(pictures[:16], masks[:16]), (pictures[16:], masks[16:])],
    }  # fmt: skip


def first_page() -> dict[str, Any]:
    """A small network with its optimiser, and batches of inputs and targets."""
    import torch

    torch.manual_seed(0)
    train_batches, held_out_batches = (
        [(torch.randn(64, 8), torch.randint(3, (64,))) for _ in range(2)] for _ in range(2)
    )
    network = torch.nn.Linear(8, 3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    names = {"torch": torch, "network": network, "optimizer": optimizer}
    return {**names, "train_batches": train_batches, "held_out_batches": held_out_batches}


def billion() -> dict[str, Any]:
    """A stream, the sketch of another worker, and folders of files (in the current folder)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import abstain
    from abstain.engines import Sketch

    with np.load("preds.npz") as data:
        probs, labels = data["probs"], data["labels"]
    loss = abstain.losses.zero_one(probs=probs, labels=labels).astype(np.float32)
    confidence = abstain.scores.max_softmax(probs=probs)
    country = pa.array(np.where(labels < 5, "A", "B"))
    pq.write_table(
        pa.table({"loss": loss, "confidence": confidence, "country": country}), "predictions/part-0.parquet"
    )
    from pathlib import Path

    for folder in ("outputs", "both", "answers"):
        Path(folder).mkdir()
    pq.write_table(pa.table({"is_right": loss == 0, "confidence": confidence}), "answers/part-0.parquet")
    pair = comparing()
    both = {
        f"{new}_{k}": pair[f"{old}_{k}"]
        for new, old in (("conf", "confidence"), ("err", "loss"))
        for k in "ab"
    }
    pq.write_table(pa.table(both), "both/part-0.parquet")
    logits = pa.array(np.log(probs + 1e-12).tolist(), pa.list_(pa.float32()))
    pq.write_table(pa.table({"logits": logits, "label": labels.astype(np.int64)}), "outputs/part-0.parquet")
    other = Sketch()
    other.update(loss, confidence)
    return {"batches": list(zip(np.split(loss, 4), np.split(confidence, 4))), "other": other}


def shipping() -> dict[str, Any]:
    """Later confidences and what came of them; another reader of the same digits in the place of people."""
    from importlib.resources import files

    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import RandomForestClassifier

    with np.load(str(files("abstain") / "data/demo/nearest-neighbours.npz")) as data:
        human = data["probs"]
    return {
        "new_logits": 9 * human, "probabilities": human,
        "more_loss": np.zeros(5), "more_logits": 9 * human[:5],
        "human": human, "n": len(human), "RandomForestClassifier": partial(RandomForestClassifier, random_state=0),
        "X_new": load_breast_cancer().data[:9],
    }  # fmt: skip


def monitoring() -> dict[str, Any]:
    """What the page on shipping has, and the rule that it saved (in the current folder)."""
    import abstain

    names = shipping()
    with np.load("preds.npz") as data:
        logits = np.log(np.maximum(data["probs"].astype(np.float64), 1e-30))
        # the page checks later data: rows like these, but not the same
        logits += np.random.default_rng(0).normal(0, 0.05, logits.shape)
        abstain.select_threshold(logits=logits, labels=data["labels"], risk=0.05).save("rule.json")
    Path("march.csv").write_text("patient_id,finding\nA,1\nA,\nB,2\n")
    return names


def comparing() -> dict[str, Any]:
    """Two bundled models that are hard to tell apart: a random forest and a logistic regression."""
    from importlib.resources import files

    import abstain

    names: dict[str, Any] = {}
    for suffix, model in (("a", "random-forest"), ("b", "logistic-regression")):
        with np.load(str(files("abstain") / f"data/demo/{model}.npz")) as data:
            names[f"loss_{suffix}"] = abstain.losses.zero_one(probs=data["probs"], labels=data["labels"])
            names[f"confidence_{suffix}"] = abstain.scores.max_softmax(probs=data["probs"])
    return names


SETUPS = {
    "README.md": first_page,
    "how-sure.md": comparing,
    "train.md": training,
    "billion.md": billion,
    "ship.md": shipping,
    "asking-people.md": shipping,
    "scikit-learn.md": shipping,
    "monitoring.md": monitoring,
}
