"""Does `abstain.torch.fine_tune` help a small transformer on text? The reviews, the network, and the runs.

A start is trained by AdamW on nine tenths of the training reviews; `fine_tune` goes on from there with its default
options and looks at the tenth held out. The test reviews are read once, when a run is finished.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from abstain.torch import fine_tune
from reproduction import Array
from reproduction.data import Split, data_folder, split
from reproduction.networks import Head
from reproduction.outputs import read_reviews
from reproduction.runs import Store, origin, score_logits
from reproduction.sessions import make_ready
from reproduction.training import halved
from reproduction.tuning import difference

# -------------------------------- reviews as token numbers

DATASET = "amazon"
MODEL = "transformer"
CLASSES = 5  # stars
_LENGTH = 64  # tokens of a review that are read; longer ones are cut
_VOCABULARY = 8192
_PADDING = 0
_UNKNOWN = 1


@dataclass(frozen=True)
class TextSet:
    """Reviews as token numbers, int64 (n, 64), padded with 0 at the end, and labels 0 ... 4 as int64."""

    train_tokens: np.ndarray
    train_labels: np.ndarray
    test_tokens: np.ndarray
    test_labels: np.ndarray

    def digest(self) -> str:
        """First 16 hex digits of the sha256 of all tokens and labels: which data a result belongs to."""
        hasher = hashlib.sha256()
        for part in (self.train_tokens, self.train_labels, self.test_tokens, self.test_labels):
            hasher.update(np.ascontiguousarray(part, dtype=np.int64).tobytes())
        return hasher.hexdigest()[:16]


def words_of(text: str) -> list[str]:
    """Words and punctuation marks of a text in lower case.

    >>> words_of("Too small, sadly!")
    ['too', 'small', ',', 'sadly', '!']
    """
    return re.findall(r"\w+|[^\w\s]", text.lower())


def load_texts(folder: str | Path | None = None, limit: int | None = None) -> TextSet:
    """The Amazon reviews under `folder`/text, or the first `limit` of each part.

    The vocabulary is the 8,190 most frequent words of the training part; equally frequent ones in alphabetical order.
    """
    text_folder = data_folder(folder) / "text"
    train_texts, train_labels = read_reviews(text_folder / "amazon2023_fashion_val.csv.xz")
    test_texts, test_labels = read_reviews(text_folder / "amazon2023_fashion_test.csv.xz")
    train_words = [words_of(text) for text in train_texts[:limit]]
    test_words = [words_of(text) for text in test_texts[:limit]]
    counts = Counter(word for words in train_words for word in words)
    by_frequency = sorted(counts, key=lambda word: (-counts[word], word))
    first_number = _UNKNOWN + 1
    numbers = {word: k for k, word in enumerate(by_frequency[: _VOCABULARY - first_number], first_number)}
    return TextSet(
        train_tokens=_tokens(train_words, numbers),
        train_labels=train_labels[:limit].astype(np.int64),
        test_tokens=_tokens(test_words, numbers),
        test_labels=test_labels[:limit].astype(np.int64),
    )


def _tokens(texts: Sequence[Sequence[str]], numbers: dict[str, int]) -> np.ndarray:
    """Token numbers (n, 64) of texts given as words; a text without words is one unknown token."""
    tokens = np.full((len(texts), _LENGTH), _PADDING, dtype=np.int64)
    for row, words in zip(tokens, texts, strict=True):
        known = [numbers.get(word, _UNKNOWN) for word in words[:_LENGTH]] or [_UNKNOWN]
        row[: len(known)] = known
    return tokens


class Batches:
    """Batches of (tokens, labels) that can be read again and again.

    With a seed they are shuffled anew each time, and one word in ten is hidden: the augmentation of training.
    """

    def __init__(self, tokens: Array, labels: Array, *, size: int, seed: int | None = None) -> None:
        self.tokens, self.labels, self.size = tokens, labels, size
        self.generator = None
        if seed is not None:
            self.generator = torch.Generator(tokens.device).manual_seed(seed)

    def __len__(self) -> int:
        return -(-len(self.labels) // self.size)

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        if self.generator is None:
            yield from zip(self.tokens.split(self.size), self.labels.split(self.size), strict=True)
            return
        device = self.tokens.device
        order = torch.randperm(len(self.labels), generator=self.generator, device=device)
        for indices in order.split(self.size):
            tokens = self.tokens[indices]
            is_hidden = torch.rand(tokens.shape, generator=self.generator, device=device) < 0.1
            yield torch.where(is_hidden & (tokens != _PADDING), _UNKNOWN, tokens), self.labels[indices]


# -------------------------------- the network


class _Layer(nn.Module):  # type: ignore[misc]
    """Attention and a perceptron, each added to what it reads after a layer norm."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.mixed = nn.Linear(width, width)
        perceptron = [
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Linear(2 * width, width),
        ]
        self.perceptron = nn.Sequential(*perceptron)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Array, is_word: Array) -> Array:
        """`x` is (n, length, width); `is_word` (n, length) is false at padding, which nothing attends to."""
        n, length, width = x.shape
        parts = self.query_key_value(self.attention_norm(x)).reshape(n, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mask = is_word[:, None, None, :]
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        attended = attended.transpose(1, 2).reshape(n, length, width)
        x = x + self.dropout(self.mixed(attended))
        return x + self.dropout(self.perceptron(x))


class Transformer(nn.Module):  # type: ignore[misc]
    """Word and place vectors, layers of attention, the mean over words, a linear head."""

    def __init__(self, *, width: int = 128, depth: int = 4, heads: int = 4, dropout: float = 0.2) -> None:
        super().__init__()
        self.words = nn.Embedding(_VOCABULARY, width)
        self.places = nn.Parameter(0.02 * torch.randn(_LENGTH, width))
        nn.init.normal_(self.words.weight, std=0.02)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList([_Layer(width, heads, dropout) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = Head(width, CLASSES)

    def forward(self, tokens: Array) -> Array:
        """Logits (n, 5) of token numbers (n, 64)."""
        is_word = tokens != _PADDING
        x = self.dropout(self.words(tokens) + self.places)
        for layer in self.layers:
            x = layer(x, is_word)
        share = is_word / is_word.sum(1, keepdim=True)
        return self.head((self.norm(x) * share[..., None]).sum(1))


# -------------------------------- runs

START_EPOCHS = 12
TUNING_EPOCHS = 20
_BATCH = 128
# method -> share of cross-entropy in the loss of `fine_tune`; the rest is the AURC loss
METHODS = {"fine_tune_ce": 1.0, "fine_tune_half": 0.5}


@dataclass(frozen=True)
class TextRuns:
    """The reviews on the device, how they are split, and where results go."""

    parts: Split
    inputs: dict[str, Array]  # tokens of the parts "trained", "held_out" and "test"
    trained_labels: Array
    data: dict[str, Any]  # what a result file says of the reviews
    store: Store
    device: str

    def batches(self, part: str, seed: int | None = None) -> Batches:
        """Batches of a part: shuffled, with words hidden, if there is a seed; otherwise in order."""
        labels = self.trained_labels
        if part != "trained":
            labels = torch.from_numpy(self.parts.labels[part]).to(self.device)
        return Batches(self.inputs[part], labels, size=_BATCH if seed is not None else 1000, seed=seed)

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def logits(self, network: Array) -> dict[str, np.ndarray]:
        """Logits of a network for the held-out and for the test reviews, float32."""
        network.eval()
        found = {}
        for part in self.parts.labels:
            lots = [network(tokens) for tokens, _ in self.batches(part)]
            found[part] = np.asarray(torch.cat(lots).cpu().numpy())
        return found

    def publish(
        self, method: str, seed: int, logits: dict[str, np.ndarray], seconds: float, **facts: Any
    ) -> None:
        """Write logits and result of a finished run; recipes also say how they differ from their start."""
        labels = self.parts.labels
        name = run_name(method, seed)
        kept = {part: halved(z) for part, z in logits.items()}
        result = {
            "name": name, "kind": "start" if method == "start" else "tune", "dataset": DATASET, "model": MODEL,
            "method": method, "seed": seed, "finished": True, "seconds": seconds, "log": [], **self.data,
            **origin(self.device), **facts,
            **{part: score_logits(z, labels[part]) for part, z in logits.items()},
            "from_float16": {part: score_logits(z, labels[part]) for part, z in kept.items()},
        }  # fmt: skip
        if method != "start":
            start = self.store.load_output(run_name("start", seed))
            result["minus_start"] = {
                part: difference(z, start[part], labels[part]) for part, z in kept.items()
            }
        self.store.save_output(name, logits)
        self.store.save_result(name, result)


def run_name(method: str, seed: int) -> str:
    """File name stem of a run.

    >>> run_name("start", 0), run_name("fine_tune_ce", 1)
    ('start-amazon-transformer-seed0', 'tune-amazon-transformer-fine_tune_ce-start1-seed1')
    """
    if method == "start":
        return f"start-{DATASET}-{MODEL}-seed{seed}"
    return f"tune-{DATASET}-{MODEL}-{method}-start{seed}-seed{seed}"


def open_texts(texts: TextSet, folder: str, *, device: str = "cpu") -> TextRuns:
    """Put the reviews on the device and get the folder ready."""
    make_ready(device)
    parts = split(texts)
    inputs = {
        "trained": texts.train_tokens[parts.trained],
        "held_out": texts.train_tokens[parts.held_out],
        "test": texts.test_tokens,
    }
    return TextRuns(
        parts=parts,
        inputs={part: torch.from_numpy(tokens).to(device) for part, tokens in inputs.items()},
        trained_labels=torch.from_numpy(texts.train_labels[parts.trained]).to(device),
        data={
            "data": texts.digest(), "split": parts.digest(), "trained_on": len(parts.trained),
            "held_out_texts": len(parts.held_out),
        },
        store=Store(folder),
        device=device,
    )  # fmt: skip


def train_and_tune(runs: TextRuns, seed: int, *, epochs: int | None = None) -> None:
    """Train the start of one seed, and tune a copy of it with each share of cross-entropy; results go to the store.

    `epochs` replaces the numbers of epochs of start and tuning, for a trial.
    """
    start_epochs = epochs or START_EPOCHS
    tuning_epochs = epochs or TUNING_EPOCHS
    began = time.monotonic()
    torch.manual_seed(seed)
    network = Transformer().to(runs.device)
    train_start(network, runs.batches("trained", seed), start_epochs)
    recipe = {"epochs": start_epochs, "batch": _BATCH, "optimiser": "AdamW", "peak": 1e-3}
    runs.publish("start", seed, runs.logits(network), time.monotonic() - began, recipe=recipe, start=None)
    for method, mix in METHODS.items():
        began = time.monotonic()
        copy = deepcopy(network)
        train_batches = runs.batches("trained", seed=1000 + seed)  # not the order that the start has seen
        verdict = fine_tune(copy, train_batches, runs.batches("held_out"), epochs=tuning_epochs, mix=mix)
        runs.publish(
            method, seed, runs.logits(copy), time.monotonic() - began,
            recipe={"epochs": tuning_epochs, "batch": _BATCH, "mix": mix}, start=run_name("start", seed),
            improved=verdict.improved, chosen_epoch=verdict.epoch, looks=verdict.looks,
        )  # fmt: skip


def train_start(network: Array, batches: Batches, epochs: int) -> None:
    """Train a new network with cross-entropy by AdamW, one cycle of the rate with a peak of 1e-3; changes it."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.01)
    steps = epochs * len(batches)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=1e-3, total_steps=steps)
    network.train()
    for _ in range(epochs):
        for tokens, labels in batches:
            optimiser.zero_grad()
            functional.cross_entropy(network(tokens), labels).backward()
            optimiser.step()
            schedule.step()
