"""Predictions: what one file says about one model on one test set, ready for `evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import DataError
from abstain.formats.building import Building
from abstain.formats.columns import Source, Values, Words
from abstain.formats.limits import Limits, shown
from abstain.formats.opening import open_source
from abstain.formats.roles import Choice, UncertainError, assign


@dataclass(frozen=True, repr=False)
class Predictions:
    """Logits or probabilities with labels, or losses with confidences, and what goes along the samples.

    `used` says which column was taken for what; `label_words` holds labels given as words where no class
    scores come with them.
    """

    name: str
    path: str
    format: str
    n: int
    logits: np.ndarray | None = None
    probs: np.ndarray | None = None
    labels: np.ndarray | None = None
    loss: np.ndarray | None = None
    confidence: np.ndarray | None = None
    abstained: np.ndarray | None = None
    groups: Values | None = None
    weight: np.ndarray | None = None
    clusters: np.ndarray | None = None
    label_words: Words | None = None
    loss_name: str = "loss"
    classes: tuple[str, ...] = ()
    used: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What the ranking comes from: "logits", "probs" or "confidence"."""
        return "logits" if self.logits is not None else "probs" if self.probs is not None else "confidence"

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `abstain.evaluate`."""
        own: dict[str, Any] = {
            "logits": self.logits, "probs": self.probs, "labels": self.labels if self.kind != "confidence" else None,
            "abstained": self.abstained, "sample_weight": self.weight, "clusters": self.clusters,
            "groups": group_labels(self.groups),
        }  # fmt: skip
        if self.loss is not None:
            own["loss"] = {self.loss_name: self.loss}
        if self.confidence is not None:
            own["confidence"] = {"confidence": self.confidence}
        return {name: value for name, value in own.items() if value is not None}

    def __repr__(self) -> str:
        return f"Predictions({self.name}, n = {self.n}, {self.kind}, from {self.format})"


def group_labels(groups: Values | None) -> np.ndarray | None:
    """Group names (or numbers) one per sample, as an array."""
    if isinstance(groups, Words):
        return (
            np.array(groups.values, dtype=str)[groups.codes] if len(groups.values) <= 10_000 else groups.codes
        )
    return groups


def read_predictions(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    kind: str | None = None,
    labels: str | Path | None = None,
    classes: tuple[str, ...] = (),
    name: str | None = None,
    format: str | None = None,  # noqa: A002
    limits: Limits | None = None,
) -> Predictions:
    """Read a file of predictions: npz, npy, csv, tsv, json, jsonl, parquet, arrow, feather, safetensors, pt.

    Parameters
    ----------
    columns : mapping of role to column name, optional
        Where the names do not say it: `{"confidence": "p_max", "labels": "truth", "probs": "class_*"}`.
    kind : {"logits", "probs", "confidence"}, optional
        What the one array of an npy file is.
    labels : path, optional
        A second file that holds the labels.
    classes : names, optional
        Class names in the order of the class scores, needed when labels are words.

    Raises
    ------
    DataError
        One line that names the file, what is wrong and what to do. Nothing in a file is ever executed, and
        no more memory is taken than `limits` allow.
    """
    limits = limits or Limits()
    source = open_source(path, format=format, limits=limits)
    roles = assign(source, columns or {}, kind)
    loaded = {role: _load(source, role, choice) for role, choice in roles.items() if _wanted(role, roles)}
    if labels is not None:
        loaded["labels"] = _labels_of(labels, limits)
    scores = next((r for r in ("logits", "probs") if r in loaded and "labels" in loaded), None)
    names = _class_names(classes, loaded.pop("classes", None), roles.get(scores or ""), source)
    built = Building(source, loaded, names)
    fields = built.from_scores(scores) if scores else built.from_table(roles)
    used = {role: str(roles[role]) for role in loaded if role in roles}
    if labels is not None:
        used["labels"] = shown(Path(labels).name)
    return Predictions(
        name=name or Path(path).name.split(".")[0] or Path(path).name,
        path=str(path), format=source.format, used=used, notes=tuple(built.notes), **fields,
    )  # fmt: skip


def _wanted(role: str, roles: dict[str, Choice]) -> bool:
    """Logits say all that probabilities say, so these are not read beside them."""
    return not (role == "probs" and "logits" in roles)


def _load(source: Source, role: str, choice: Choice) -> Values:
    if len(choice.names) == 1:
        return source.columns[choice.names[0]].load()
    parts = [source.columns[name].load() for name in choice.names]
    for name, part in zip(choice.names, parts):
        if isinstance(part, Words) or part.ndim != 1:
            raise DataError(f"{shown(source.path)}: column `{shown(name)}` must hold numbers for the {role}.")
    if len({len(part) for part in parts}) > 1:
        raise DataError(f"{shown(source.path)}: the columns of the {role} must have one length.")
    return np.stack(parts, axis=1)  # type: ignore[arg-type]


def _labels_of(path: str | Path, limits: Limits) -> Values:
    source = open_source(path, limits=limits)
    roles = assign(source, {}, "labels")
    if "labels" not in roles and len(source.columns) == 1:
        return next(iter(source.columns.values())).load()
    if "labels" not in roles:
        raise UncertainError(
            f"{shown(path)}: must have a column of labels, it has {source.listed()}.", source
        )
    return _load(source, "labels", roles["labels"])


def _class_names(
    stated: tuple[str, ...], inside: Values | None, choice: Choice | None, source: Source
) -> tuple[str, ...]:
    if stated:
        return stated
    if isinstance(inside, Words):
        return tuple(inside.row(i) for i in range(len(inside)))
    if inside is not None:
        return tuple(str(x) for x in np.asarray(inside).reshape(-1).tolist())
    return source.classes or (choice.suffixes if choice else ())
