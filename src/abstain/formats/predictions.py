"""Predictions: what one file says about one model on one test set, checked and ready for `evaluate`."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from abstain import losses, scores
from abstain._check import sum_tolerance
from abstain._tables import is_number
from abstain.errors import AbstainWarning, DataError
from abstain.evaluation import Evaluation, evaluate, register_engine
from abstain.formats.arrow import find_files, kind_of
from abstain.formats.columns import (
    ROLES,
    TRUTH,
    Column,
    RoleColumns,
    Source,
    UncertainError,
    Values,
    Words,
    assign,
    role_of,
)
from abstain.formats.limits import Limits, file_error, shown, values_of
from abstain.formats.logs import Log, Rules, as_texts, is_log, log_of, rows_of, signal_names
from abstain.formats.readers import ENDINGS, column_names, is_run, open_source

_ROUNDED = 0.1  # sums of rounded probabilities that are further from one are nobody's rounding


@dataclass(frozen=True, repr=False)
class Predictions:
    """Logits or probabilities with labels, or losses with confidences, and what goes along the samples.

    Parameters
    ----------
    name : str
        The model's name: that of the file unless stated.
    path, format : str
        Where it was read.
    n : int
        Number of samples.
    logits, probs : array, shape (n, classes), optional
    labels : array of int, shape (n,), optional
    loss, confidence : array, shape (n,), optional
        The columns of a plain table.
    abstained, sample_weight, clusters : array, shape (n,), optional
        As `evaluate` takes them.
    groups : array or Words, shape (n,), optional
    label_words : Words, optional
        Labels given as words where no class scores come with them.
    prediction : array or Words, shape (n,), optional
        The model's answers, where a plain table has them.
    loss_name : str
        "zero_one" where the losses were made from right and wrong, else "loss".
    classes : tuple of str
        Names of the classes, where they are known.
    used : dict
        Which column was taken for what.
    ids : Column, optional
        What tells the samples apart, loaded when files are put in one order.
    signals : dict of array, shape (n,)
        Where answers come with several confidences, all of them; `confidence` is the first.
    log : Log, optional
        The answers that this was made from.

    Examples
    --------
    >>> read = Predictions("mine", "t.csv", "csv", 3, loss=np.array([0.0, 1.0, 0.0]),
    ...                    confidence=np.array([0.9, 0.5, 0.7]))
    >>> read
    Predictions(mine, n = 3, confidence, from csv)
    >>> sorted(read.arguments())
    ['confidence', 'loss']
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
    sample_weight: np.ndarray | None = None
    clusters: np.ndarray | None = None
    label_words: Words | None = None
    prediction: Values | None = None
    loss_name: str = "loss"
    classes: tuple[str, ...] = ()
    used: dict[str, str] = field(default_factory=dict)
    ids: Column | None = None
    signals: dict[str, np.ndarray] = field(default_factory=dict)
    log: Log | None = None

    @property
    def kind(self) -> str:
        """What the ranking comes from: "logits", "probs" or "confidence"."""
        return "logits" if self.logits is not None else "probs" if self.probs is not None else "confidence"

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `abstain.evaluate`."""
        names = ("logits", "probs", "abstained", "sample_weight", "clusters")
        own: dict[str, Any] = {name: getattr(self, name) for name in names}
        own |= {"groups": self.group_labels(), "labels": None if self.kind == "confidence" else self.labels}
        if self.loss is not None:
            own["loss"] = {self.loss_name: self.loss}
        if self.confidence is not None:
            own["confidence"] = self.signals or {"confidence": self.confidence}
        return {name: value for name, value in own.items() if value is not None}

    def group_labels(self) -> np.ndarray | None:
        """Group names (or numbers) one per sample, as an array."""
        return None if self.groups is None else _plain(self.groups)

    def class_scores(self) -> np.ndarray:
        """Logits or probabilities."""
        return np.asarray(self.probs if self.logits is None else self.logits)

    def ranked_by(self, score: str | None) -> np.ndarray:
        """A confidence for every sample: by a score where the file has class scores, its own column otherwise."""
        if self.kind == "confidence" or score is None:
            return np.asarray(self.confidence)
        return np.asarray(scores.by_name(score)(self.logits, probs=self.probs))

    def samples(self, score: str, loss: str) -> tuple[np.ndarray, np.ndarray]:
        """Loss and confidence of every sample: by a score and a loss where the file has class scores, its own
        columns otherwise."""
        with values_of(self.path):
            found = self.loss
            if self.kind != "confidence":
                found = losses.by_name(loss)(self.logits, self.labels, probs=self.probs)
            return np.asarray(found), self.ranked_by(score)

    def answers(self) -> tuple[np.ndarray, np.ndarray]:
        """The true class and the model's answer of every sample, by name where the classes have names."""
        labels = self.labels if self.label_words is None else self.label_words
        said = self.prediction
        if labels is None or (said is None and self.kind == "confidence"):
            raise file_error(
                self.path, "needs labels beside class scores, or columns of labels and predictions."
            )
        if said is not None:
            return _plain(labels), _plain(said)
        values = self.class_scores()
        names = np.array(self.classes or range(values.shape[1]))
        return names[np.asarray(labels).astype(int)], names[values.argmax(axis=1)]

    def answered(self) -> Predictions:
        """Without the samples that the model abstained on."""
        if self.abstained is None or not self.abstained.any():
            return self
        rows = ~self.abstained
        if not rows.any():
            raise file_error(self.path, "every sample has abstained; nothing is left to measure.")
        return self.rows(np.flatnonzero(rows))

    def rows(self, places: np.ndarray) -> Predictions:
        """Some of the samples, in this order."""
        own: Any = {k: v[places] for k, v in vars(self).items() if isinstance(v, np.ndarray | Words)}
        own["signals"] = {name: signal[places] for name, signal in self.signals.items()}
        return replace(self, n=len(places), **own)

    def __repr__(self) -> str:
        return f"Predictions({self.name}, n = {self.n}, {self.kind}, from {self.format})"


def along(models: Sequence[Predictions]) -> dict[str, Any]:
    """What goes along the samples of each model, as `compare` takes it; nothing of what no model has."""
    plain: Any = {"sample_weight": np.ones, "clusters": np.arange, "abstained": lambda n: np.zeros(n, bool)}
    found: dict[str, Any] = {}
    for name, make in plain.items():
        given = {m.name: getattr(m, name) for m in models}
        if any(values is not None for values in given.values()):
            found[name] = {m.name: make(m.n) if given[m.name] is None else given[m.name] for m in models}
    return found


def aligned(models: Sequence[Predictions]) -> list[Predictions]:
    """The same samples in the same order, by their ids where all files have them; else as far as the files tell."""
    first, *others = models
    ids = [_ids_of(m) for m in models]
    if all(own and len(set(own)) == len(own) for own in ids):
        place = {text: k for k, text in enumerate(ids[0])}
        found = [first]
        for other, own in zip(others, ids[1:]):
            for lone in place.keys() ^ set(own):
                raise _not_the_same(first, other, f"id {shown(lone)!r} is in one of them only")
            order = np.argsort([place[text] for text in own])
            if (np.diff(order) < 0).any():
                told = f"{shown(other.name)} was put in the order of {shown(first.name)} by its ids."
                warnings.warn(told, AbstainWarning, stacklevel=2)
            found.append(other.rows(order))
        return found
    sure = not others
    for what in ("labels", "label_words", "groups", "clusters"):
        held = [(m, _plain(getattr(m, what))) for m in models if getattr(m, what) is not None]
        sure |= len(held) == len(models)
        for other, values in held[1:]:
            if not np.array_equal(values, held[0][1]):
                named = what.replace("label_words", "labels")
                raise _not_the_same(held[0][0], other, f"they have different {named}")
    if not sure:
        told = "Nothing in the files says that their rows are the same samples in the same order; a column `id` would."
        warnings.warn(told, AbstainWarning, stacklevel=2)
    return list(models)


def _not_the_same(one: Predictions, other: Predictions, why: str) -> Exception:
    return DataError(
        f"{shown(one.name)} and {shown(other.name)} are not the same samples in the same order: {why}. "
        f"For different test sets use --unpaired."
    )


def _ids_of(model: Predictions) -> list[Any]:
    values = None if model.ids is None else _plain(model.ids.load())
    return [] if values is None or values.shape != (model.n,) else values.tolist()


def _plain(values: Values) -> np.ndarray:
    return values.texts() if isinstance(values, Words) else values


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
    tolerance: float | None = None,
    rules: Rules | None = None,
) -> Predictions:
    """Read a file of predictions: npz, npy, csv, tsv, xlsx, json, jsonl, parquet, arrow, feather, safetensors, pt.

    Parameters
    ----------
    path : str or Path
        The file; "-" is standard input.
    columns : mapping of role to column name, optional
        Where the names do not say it: `{"confidence": "p_max", "labels": "truth", "probs": "class_*"}`.
    kind : {"logits", "probs", "confidence"}, optional
        What the one array of an npy file is.
    labels : str or Path, optional
        A second file that holds the labels.
    classes : tuple of str, optional
        Class names in the order of the class scores, needed when labels are words.
    name : str, optional
        The model's name; by default that of the file.
    format : str, optional
        One of `FORMATS`, where neither the file's name nor its first bytes say it.
    limits : Limits, optional
        What the file may cost; 4 GB of memory unless said.
    tolerance : float, optional
        How far a row of probabilities may be from summing to one; it is divided by its sum. By default as far as
        rounding to the 2, 3 or 4 decimals they have can bring it.
    rules : Rules, optional
        For answers of language models: which rows, and how refusals, missing and stated confidences are taken.

    Returns
    -------
    Predictions
        Checked; `arguments()` are those of `abstain.evaluate`.

    Raises
    ------
    DataError
        One line that names the file, what is wrong and what to do. Nothing in a file is ever executed, and
        no more memory is taken than `limits` allow.

    Examples
    --------
    >>> import abstain, tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "answers.csv"
    ...     _ = path.write_text("is_right,confidence\\n1,0.9\\n0,0.2\\n1,0.7\\n")
    ...     read = read_predictions(path, columns={"correct": "is_right"})
    >>> read
    Predictions(answers, n = 3, confidence, from csv)
    >>> abstain.evaluate(**read.arguments(), metrics=["risk"]).best("risk").estimate
    0.3333333333333333
    """
    limits = limits or Limits()
    source = open_source(path, format=format, limits=limits)
    roles = assign(source, columns or {}, kind)
    if "logits" in roles:
        roles.pop("probs", None)  # logits say all that probabilities say
    rules = rules or Rules()
    head = (name or model_name(path), str(path), source.format)
    labelled = labels is not None or "labels" in roles
    by = next((r for r in ("logits", "probs") if r in roles and labelled), "")
    named = {role_of(role) for role in columns or ()}
    if (not by or {"correct", "confidence"} <= named) and is_log(source, roles, rules):
        right = None if labels is None else open_source(labels, limits=limits)
        log = answers_of(source, roles, rules, right, named)
        if not log.signals:
            raise UncertainError(_no_confidence(log), source)
        return Predictions(*head, used=log.used, log=log, **log.fields(rules))
    ids = source.columns[roles.pop("ids").names[0]] if "ids" in roles else None
    loaded = {role: _load(source, role, choice) for role, choice in roles.items()}
    if labels is not None:
        loaded["labels"] = _labels_of(labels, limits)
    names = classes or _class_names(loaded.pop("classes", None)) or source.classes
    names = names or (roles[by].suffixes if by else ())
    columns_read = _Loaded(source, roles, loaded, names, named, tolerance)
    fields = columns_read.class_scores(by) if by else columns_read.plain_table()
    used = {role: str(roles[role]) for role in loaded if role in roles}
    if labels is not None:
        used["labels"] = shown(Path(labels).name)
    return Predictions(*head, used=used, ids=ids, **fields)


def model_name(path: str | Path) -> str:
    """A model's name from that of its file: without the endings that say what kind of file it is.

    >>> model_name("runs/gpt-4.1-mini.parquet"), model_name("a.csv.gz")
    ('gpt-4.1-mini', 'a')
    """
    name = Path(path).name
    while Path(name).suffix.lower() in ENDINGS:
        name = Path(name).stem
    return name


def read_log(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    labels: str | Path | None = None,
    format: str | None = None,  # noqa: A002
    limits: Limits | None = None,
    rules: Rules | None = None,
) -> Log:
    """Read the answers of a language model: the log of a harness, or a table whose columns are stated.

    Parameters
    ----------
    path : str or Path
        A file, or the folder of a HELM run.
    columns, labels, format, limits, rules
        As `read_predictions` takes them; `labels` may also hold right answers by question.

    Returns
    -------
    Log
        With or without confidences; `read_predictions` needs one.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "graded.csv"
    ...     _ = path.write_text("grade\\nA\\nB\\nC\\nA\\n")
    ...     grades = {"A": "right", "B": "wrong", "C": "unanswered"}
    ...     log = read_log(path, columns={"correct": "grade"}, rules=Rules(grades=grades))
    >>> log.accuracy, log.unanswered
    (0.5, 0.25)
    """
    limits = limits or Limits()
    source = open_source(path, format=format, limits=limits)
    right = None if labels is None else open_source(labels, limits=limits)
    named = {role_of(role) for role in columns or ()}
    return answers_of(source, assign(source, columns or {}), rules or Rules(), right, named)


def answers_of(
    source: Source,
    roles: dict[str, RoleColumns],
    rules: Rules,
    right: Source | None,
    stated: Set[str] = frozenset(),
) -> Log:
    """The answers of a file: its columns loaded, the rows that are asked for chosen."""
    facts = source.log
    if facts and "correct" in roles and (column := facts.answered.get(roles["correct"].names[0])):
        roles.setdefault("answered", RoleColumns((column,)))
    rows, told = rows_of(source, rules)
    roles = {role: choice for role, choice in roles.items() if role not in ("ids", "classes")}
    along = {r: _load(source, r, choice) for r, choice in roles.items() if r != "confidence"}
    names = signal_names(source, roles)
    held: dict[str, Any] = {n: source.columns[n].load() for n in names if n in source.columns}
    if right is not None:
        along["labels"] = _right_answers(right, along)
    if rows is not None:
        along, held = ({k: v[rows] for k, v in part.items()} for part in (along, held))
    signals = {n: held.get(n) for n in names}
    losses_of = _Loaded(source, roles, along, (), stated, None).losses
    log = log_of(source, roles, along, signals, rules, losses_of)
    if right is not None:
        told["labels"] = shown(right.path.name)
    return replace(log, used=log.used | told)


def _right_answers(right: Source, along: Mapping[str, Values]) -> Values:
    """Right answers by question, where their file names the questions, else in the order of the rows."""
    keys = next((c for c in ("question", "prompt", "prompts") if c in right.columns), None)
    found = assign(right, {}).get("labels") or RoleColumns(tuple(c for c in right.columns if c != keys))
    if len(found.names) > 1:
        raise UncertainError(f"must have one column of right answers, it has {right.listed()}.", right)
    texts = as_texts(_load(right, "labels", found))
    if keys is None or "question" not in along:
        return Words.of(texts.tolist())
    answers = dict(zip(as_texts(right.columns[keys].load()).tolist(), texts.tolist()))
    asked = as_texts(along["question"]).tolist()
    unknown = [q for q in asked if q not in answers]
    if unknown:
        raise file_error(
            right.path, f"has no answer to {len(unknown):,} questions, such as {shown(unknown[0])!r}."
        )
    return Words.of(answers[q] for q in asked)


def _no_confidence(log: Log) -> str:
    told = " ".join(log.notes)
    return (
        f"holds no confidence to rank by: accuracy {log.accuracy:.4g} of {log.n:,} rows. {told} State a column with "
        f"-c confidence=NAME; `abstain describe` lists what there is."
    )


def read_unlabelled(
    path: str | Path,
    *,
    columns: Mapping[str, str],
    kind: str | None,
    format: str | None,  # noqa: A002
    limits: Limits,
    tolerance: float | None = None,
) -> tuple[Predictions, dict[str, np.ndarray]]:
    """Class scores or a confidence, with groups and refusals, where no truth is known yet; and all other columns."""
    source = open_source(path, format=format, limits=limits)
    wanted = ("logits", "probs", "confidence", "groups", "abstained")
    roles = {role: choice for role, choice in assign(source, columns, kind).items() if role in wanted}
    values = {role: _load(source, role, choice) for role, choice in roles.items()}
    held = _Loaded(source, roles, values, (), tolerance=tolerance)
    found: dict[str, Any] = {role: held.numbers(role) for role in roles if role in wanted[:3]}
    if not found:
        raise UncertainError(f"needs logits, probs or a confidence, it has {source.listed()}.", source)
    if "probs" in found and found["probs"].ndim == 2:
        found["probs"] = held.summing_to_one(found["probs"])
    if "logits" in found:
        found.pop("probs", None)
    n = len(next(iter(found.values())))
    found |= {"groups": values.get("groups"), "abstained": held.refused()}
    used = {name for role in wanted[:2] if role in roles for name in roles[role].names}
    rest = {name: _plain(column.load()) for name, column in source.columns.items() if name not in used}
    return Predictions(model_name(path), str(path), source.format, n, **found), rest


def _load(source: Source, role: str, choice: RoleColumns) -> Values:
    parts = [source.columns[name].load() for name in choice.names]
    if len(parts) == 1:
        return parts[0]
    for name, part in zip(choice.names, parts):
        if isinstance(part, Words) or part.ndim != 1:
            raise file_error(source.path, f"column `{shown(name)}` must hold numbers for the {role}.")
    if len({len(part) for part in parts}) > 1:
        raise file_error(source.path, f"the columns of the {role} must have one length.")
    return np.stack(parts, axis=1)  # type: ignore[arg-type]


def _labels_of(path: str | Path, limits: Limits) -> Values:
    source = open_source(path, limits=limits)
    choice = assign(source, {}, "labels").get("labels") or RoleColumns(tuple(source.columns))
    if len(choice.names) > 1:
        raise UncertainError(f"must have a column of labels, it has {source.listed()}.", source)
    return _load(source, "labels", choice)


def _class_names(inside: Values | None) -> tuple[str, ...]:
    return () if inside is None else tuple(map(str, _plain(inside).reshape(-1).tolist()))


def _comparable(labels: Values, prediction: Values) -> bool:
    return isinstance(labels, Words) == isinstance(prediction, Words) and len(labels) == len(prediction)


@dataclass(frozen=True)
class _Loaded:
    """The columns of a file on their way to `Predictions`; each method checks one thing and says so."""

    source: Source
    roles: dict[str, RoleColumns]
    values: dict[str, Values]
    classes: tuple[str, ...]
    stated: Set[str] = frozenset()
    tolerance: float | None = None

    def class_scores(self, kind: str) -> dict[str, Any]:
        """Logits or probabilities with labels."""
        found = self.numbers(kind)
        if found.ndim != 2:
            more = " For an ensemble use `abstain.expected_aurc` in Python." if found.ndim == 3 else ""
            raise self.error(f"the {kind} must have shape (samples, classes), got {found.shape}.{more}")
        n, count = found.shape
        if n == 0:
            raise self.error("has no rows.")
        if count < 2:
            raise self.error(
                f"the {kind} must have at least two classes, got one. One column p becomes 1 - p and p."
            )
        if self.classes and len(self.classes) != count:
            raise self.error(f"has {len(self.classes)} class names for {count} classes.")
        labels = self.label_numbers()
        if len(labels) != n:
            raise self.error(f"the labels must have {n} rows as the {kind}, got {len(labels)}.")
        if labels.ndim == 1 and {"correct", "error"} & self.values.keys():
            alone = (found == found.max(axis=1, keepdims=True)).sum(axis=1) == 1
            self.check_verdict(found.argmax(axis=1) != labels, alone)
        found = self.summing_to_one(found) if kind == "probs" else found
        return {"n": n, kind: found, "labels": labels, "classes": self.classes, **self.along(n)}

    def summing_to_one(self, probs: np.ndarray) -> np.ndarray:
        """Probabilities that were rounded when they were written are divided by their sums, and that is told."""
        total = probs.sum(axis=1, keepdims=True, dtype=np.float64)
        off, allowed = float(np.abs(total - 1).max()), self.tolerance
        if not sum_tolerance(probs) < off <= (_ROUNDED if allowed is None else allowed):
            return probs  # as it is; where that is too far off, `evaluate` objects
        if allowed is None:
            some = probs[:10_000].astype(np.float64)
            digits = (d for d in (2, 3, 4) if np.abs(some * 10**d - np.rint(some * 10**d)).max() < 1e-4)
            if off > 0.5 * probs.shape[1] * 10.0 ** -next(digits, 9) * (1 + 1e-9):
                return probs
        told = f"{shown(self.source.path)}: rows of probabilities were divided by their sums, which are off by up to"
        warnings.warn(f"{told} {off:.2g} (rounded numbers?).", AbstainWarning, stacklevel=4)
        return np.asarray(probs / total)

    def check_verdict(self, wrong: np.ndarray, known: Any = True) -> None:
        """A column of right and wrong must not contradict the labels, unless it was stated to count."""
        if "abstained" in self.values:
            known = known & (self.truth("abstained") != 1)
        for role in {"correct", "error"} & self.values.keys() - self.stated:
            truth = self.truth(role)
            said = truth == (role == "correct")  # is it said to be right?
            if said.shape != wrong.shape or not (against := known & (said == wrong) & ~np.isnan(truth)).any():
                continue
            name = shown(self.roles[role].names[0])
            raise self.error(
                f"`{name}` contradicts the labels in {int(against.sum()):,} rows, first in row "
                f"{int(np.argmax(against)) + 1}. Leave one of them out, or say that it counts: --column {role}={name}."
            )

    def plain_table(self) -> dict[str, Any]:
        """Correct (or loss, or label and prediction) beside a confidence."""
        if "confidence" not in self.values:
            raise UncertainError(self.missing(), self.source)
        loss, name = self.losses()
        confidence = self.numbers("confidence")
        if confidence.ndim != 1 or loss.ndim != 1:
            raise self.error(f"needs one confidence per row, got shape {confidence.shape}.")
        if len(confidence) == 0:
            raise self.error("has no rows.")
        found = self.along(len(confidence), loss=loss)
        if "abstained" in found:  # what a model that refused would have said is not read: any number serves
            away = found["abstained"]
            found |= {"loss": np.where(away, 0.0, loss), "confidence": np.where(away, 0.0, confidence)}
        labels, found["prediction"] = self.values.get("labels"), self.values.get("prediction")
        if isinstance(labels, Words):
            found["label_words"] = labels
        elif labels is not None and labels.ndim == 1:
            found["labels"] = labels
        return {"n": len(confidence), "loss_name": name, "classes": self.classes, **found}

    def losses(self) -> tuple[np.ndarray, str]:
        """The losses of a plain table and their name."""
        held = self.values
        labels, prediction = held.get("labels"), held.get("prediction")
        if labels is not None and prediction is not None and _comparable(labels, prediction):
            self.check_verdict(self.disagreement(labels, prediction) == 1)
        if "correct" in held:
            return 1 - self.truth("correct"), "zero_one"
        if "error" in held:
            return self.truth("error"), "zero_one"
        if "loss" in held:
            values = self.numbers("loss")
            return values.astype(np.float64) if values.dtype.kind == "b" else values, "loss"
        if "labels" in held and "prediction" in held:
            return self.disagreement(held["labels"], held["prediction"]), "zero_one"
        raise UncertainError(self.missing(), self.source)

    def disagreement(self, labels: Values, prediction: Values) -> np.ndarray:
        """1 where the prediction is not the label."""
        if not _comparable(labels, prediction):
            raise self.error("labels and predictions must be of one kind and length to be compared.")
        if isinstance(labels, Words) and isinstance(prediction, Words):
            return (labels.codes != prediction.numbered(labels.values)).astype(np.float64)
        return np.asarray(labels != prediction).astype(np.float64)

    def along(self, n: int, **found: Any) -> dict[str, Any]:
        """What goes along the samples, each of the right length."""
        if (refused := self.refused()) is not None:
            found["abstained"] = refused
        if "clusters" in self.values:
            clusters = self.values["clusters"]
            found["clusters"] = clusters.codes if isinstance(clusters, Words) else clusters.reshape(-1)
        if "groups" in self.values:
            found["groups"] = self.values["groups"]
        for role in ("sample_weight", "confidence"):
            if role in self.values:
                found[role] = self.numbers(role).reshape(-1)
        for role, values in found.items():
            if len(values) != n:
                raise self.error(f"`{role}` must have {n} rows as the rest, got {len(values)}.")
        return found

    def refused(self) -> np.ndarray | None:
        """Where the model abstained, if a column says so; an empty cell says that it did not."""
        return np.nan_to_num(self.truth("abstained")).astype(bool) if "abstained" in self.values else None

    def label_numbers(self) -> np.ndarray:
        """Labels as class numbers; words need the order of the classes."""
        labels = self.values["labels"]
        if isinstance(labels, np.ndarray):
            if labels.ndim != 1 or not self.classes or not all(c.isdigit() for c in self.classes):
                return labels
            labels = Words.of(f"{v:g}" for v in labels.tolist())
        if not self.classes:
            raise self.error(
                "the labels are words, so the order of the classes must be known. "
                "State it with --classes first,second,... or a `classes` array in the file."
            )
        found = labels.numbered(self.classes)
        if (found < 0).any():
            unknown, known = labels.row(int(np.argmin(found))), ", ".join(self.classes)
            raise self.error(f"label {shown(unknown)!r} is none of the classes {shown(known)}.")
        return found

    def numbers(self, role: str) -> np.ndarray:
        """A column of numbers; text is refused."""
        values = self.values[role]
        if isinstance(values, Words):
            bad = next((v for v in values.values if not is_number(v)), None)
            if bad is None:
                raise self.error(f"the {role} must be numbers, got numbers in quotes. Write them without.")
            raise self.error(f"the {role} must be numbers, got text such as {shown(bad)!r}.")
        return values

    def truth(self, role: str) -> np.ndarray:
        """1 for true and 0 for false in each row, from booleans, 0 and 1, or the words; an empty cell is NaN."""
        values = self.values[role]
        if isinstance(values, Words):
            for word in values.values:
                if word.strip().lower() not in TRUTH:
                    raise self.error(f"`{role}` must be true or false, got {shown(word)!r}.")
            return np.array([TRUTH[word.strip().lower()] for word in values.values])[values.codes]
        flat = values.reshape(-1).astype(np.float64)
        wrong = ~((flat == 0) | (flat == 1) | np.isnan(flat))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise self.error(f"`{role}` must be 0 or 1, got {flat[at]:g} in row {at + 1}.")
        return flat

    def missing(self) -> str:
        """What to say when the columns do not make predictions."""
        has = self.source.listed()
        if what := next((role for role in ("logits", "probs") if role in self.roles), None):
            return f"has {what} and no labels. State them with --labels FILE or --column labels=NAME; it has {has}."
        if "array" in self.source.columns:
            return "holds an array without a name. State what it is with --as logits or --as probs, and --labels FILE."
        return (
            f"needs `logits` or `probs` with `labels`, or `correct` (or `loss`) with `confidence`, and has {has}. "
            f"State which is which with --column ROLE=NAME."
        )

    def error(self, text: str) -> Exception:
        """An objection that names the file."""
        return file_error(self.source.path, text)


# a path given to `evaluate`


def engine_for(path: str | Path, memory: int = Limits().memory) -> str:
    """Folders, and files larger than the memory allowed, go to the engine that needs little of it."""
    if not os.path.isfile(path):
        return "memory" if str(path) == "-" or is_run(path) else "files"
    times = {".parquet": 2, ".arrow": 1, ".feather": 1, ".csv": 4}.get(Path(path).suffix.lower(), 0)
    return "files" if times * os.path.getsize(path) > memory else "memory"


def engine_columns(
    path: str | Path,
    stated: Mapping[str, str],
    kind: str | None = None,
    format: str | None = None,  # noqa: A002
    refusal: Callable[[str], Exception] = DataError,
) -> dict[str, Any]:
    """The columns of a table (or of the first of a folder) that an engine is to read, by argument."""
    first = find_files("evaluate", path)[0]
    kind_of(first)  # an error that names the formats
    roles = assign(column_names(first, format=format), stated, kind)
    for role in ("abstained", "clusters", "answered", "question"):  # left out, they would change the number
        if role in roles:
            raise refusal(
                f"engines do not read a column of {role} yet: leave {roles[role].names[0]!r} out of the table, or "
                f"evaluate one file in memory (--engine memory)."
            )
    one = {role: choice.names[0] for role, choice in roles.items()}
    found: dict[str, Any] = {role: one[role] for role in ("sample_weight", "groups") if role in one}
    if "logits" in roles and "labels" in roles:
        several = list(roles["logits"].names)
        return found | {"logits": several if len(several) > 1 else several[0], "labels": one["labels"]}
    loss = next((role for role in ("loss", "error", "correct") if role in roles), None)
    if loss is None or "confidence" not in roles:
        raise refusal(
            "an engine reads columns of losses (or correct) and confidences, or of logits and labels."
        )
    return found | {"correct" if loss == "correct" else "loss": one[loss], "confidence": one["confidence"]}


def evaluate_by(engine: str, path: str | Path, columns: dict[str, Any], **options: Any) -> Evaluation:
    """The table by files, Dask or Spark, under the names that memory gives."""
    module = importlib.import_module(f"abstain.engines.{engine}")
    table: Evaluation = module.evaluate(os.path.abspath(path), **columns, **options)
    if "logits" in columns:
        return table
    entries = tuple(replace(entry, score="confidence", loss="loss") for entry in table.entries)
    curves = tuple(("confidence", "loss", curve) for _, _, curve in table.curves)
    return replace(table, entries=entries, curves=curves)


def evaluate_path(logits: str | Path, **given: Any) -> Evaluation:
    """`abstain.evaluate(path)`: what `abstain evaluate` does; arguments may name columns."""
    stated = {role: name for role, name in given.items() if role in ROLES and isinstance(name, str)}
    options = {name: value for name, value in given.items() if name not in stated}
    if engine_for(logits) == "files":
        return evaluate_by("files", logits, engine_columns(logits, stated), **options)
    read = read_predictions(logits, columns=stated)
    with values_of(read.path):
        return evaluate(**read.arguments(), **options)


register_engine("path", evaluate_path)
