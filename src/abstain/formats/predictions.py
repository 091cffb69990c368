"""Predictions: what one file says about one model on one test set, checked and ready for `evaluate`."""

from __future__ import annotations

import importlib
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from abstain import losses, scores
from abstain._tables import Printable
from abstain.errors import AbstainWarning, DataError, MemoryLimitError
from abstain.evaluation import Evaluation, evaluate, register_engine
from abstain.formats.arrow import batches, find_files, kind_of
from abstain.formats.columns import (
    ROLES,
    Column,
    Loaded,
    RoleColumns,
    Source,
    UncertainError,
    Values,
    Words,
    in_stated_order,
    role_of,
    text_of,
    with_changed_signs,
)
from abstain.formats.logs import (
    Log,
    Rules,
    answers_of,
    is_log,
    rows_chosen,
    rows_of,
    told_apart,
    unjudged,
    verdict_roles,
)
from abstain.formats.readers import ENDINGS, column_names, is_run, open_source
from abstain.formats.safety import Limits, counted, file_error, shown, values_of
from abstain.formats.tables import open_table


@dataclass(frozen=True, repr=False)
class Predictions(Printable):
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
        return None if self.groups is None else plain_values(self.groups)

    def class_scores(self) -> np.ndarray:
        """Logits or probabilities."""
        return np.asarray(self.probs if self.logits is None else self.logits)

    def ranked_by(self, score: str | None) -> np.ndarray:
        """A confidence for every sample: by a score where the file has class scores, its own column otherwise."""
        if self.kind == "confidence" or score is None:
            return np.asarray(self.signals.get(score or "", self.confidence))
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
            return plain_values(labels), plain_values(said)
        self.samples("max_softmax", "zero_one")  # which objects to labels that are no classes
        classes = np.asarray(labels)
        classes = classes.astype(int) if classes.ndim == 1 else classes.argmax(axis=1)  # one-hot rows
        return self._class_names()[classes], self.likeliest()

    def likeliest(self) -> np.ndarray:
        """The class of the largest score of every sample, by name where the classes have names."""
        return self._class_names()[self.class_scores().argmax(axis=1)]

    def _class_names(self) -> np.ndarray:
        return np.array(self.classes or range(self.class_scores().shape[1]))

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
        chosen: Any = {k: v[places] for k, v in vars(self).items() if isinstance(v, np.ndarray | Words)}
        chosen["signals"] = {name: signal[places] for name, signal in self.signals.items()}
        chosen["ids"] = None if self.ids is None else self.ids.rows(places)
        return replace(self, n=len(places), **chosen)

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


def reading_notes(models: Sequence[Predictions]) -> list[str]:
    """How refusals and missing confidences of these models were counted, for every table and page that shows them."""
    logs = [(shown(m.name), m.log) for m in models if m.log is not None]
    unanswered = {name: log.unanswered for name, log in logs if log.unanswered}
    missing = {name: log.without_confidence for name, log in logs if log.without_confidence}
    notes = []
    for rule, (meaning, other) in _UNANSWERED.items():
        shares = {
            name: unanswered[name]
            for name, log in logs
            if name in unanswered and log.rules.unanswered == rule
        }
        if shares:
            notes.append(
                f"Unanswered questions {meaning} (--unanswered {other} for the other view): {_shares(shares)}."
            )
    for rule, meaning in (("last", "ranked last"), ("left_out", "left out")):
        shares = {name: missing[name] for name, log in logs if name in missing and log.rules.missing == rule}
        if shares:
            notes.append(f"Answers without a confidence are {meaning}: {_shares(shares)}.")
    for model in models:
        if model.abstained is not None and model.abstained.any() and shown(model.name) not in unanswered:
            share = 1 - float(model.abstained.mean())
            notes.append(
                f"{shown(model.name)} answered {share:.1%} of the samples; areas are over the coverage it can attain."
            )
    return notes


_UNANSWERED = {
    "wrong": ("count as wrong and are ranked last", "abstained"),
    "abstained": ("count as abstentions, and areas are over the coverage that is left", "wrong"),
}
_LISTED = 6  # models that are named in one note


def _shares(shares: Mapping[str, float]) -> str:
    """The largest shares with their models."""
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{name} {share:.1%}" for name, share in ranked[:_LISTED])
    rest = len(ranked) - _LISTED
    return listed + (f" and {counted(rest, 'other model')}" if rest > 0 else "")


class OtherSamplesError(DataError):
    """Files that hold different samples, so that their rows cannot be paired.

    Examples
    --------
    >>> raise OtherSamplesError("a and b are not the same samples in the same order: they have no id in common.")
    Traceback (most recent call last):
    ...
    abstain.formats.predictions.OtherSamplesError: a and b are not the same samples in the same order: ...
    """


def aligned(models: Sequence[Predictions]) -> list[Predictions]:
    """The same samples in the same order: matched by their ids, or by position where no file has ids.

    An id that is repeated, empty or missing in one of the files is an error that names it. Position is confirmed by
    labels, groups or clusters where every file has them; a warning says so where nothing confirms it.
    """
    if len(models) < 2:
        return list(models)
    keys = [sample_keys(model) for model in models]
    without = [model for model, ids in zip(models, keys) if ids is None]
    if not without:
        return _matched_by_id(models, [ids for ids in keys if ids is not None])
    if len(without) < len(models):
        named = next(model for model, ids in zip(models, keys) if ids is not None)
        raise DataError(
            f"{shown(without[0].name)} has no ids and {shown(named.name)} has: rows are matched by id in all files or "
            f"in none. Name the column with -c ids=NAME, or remove the ids from the other files."
        )
    return _matched_by_position(models)


def _matched_by_id(models: Sequence[Predictions], keys: Sequence[list[str]]) -> list[Predictions]:
    """Every file in the order of the first."""
    first = models[0]
    place = {key: k for k, key in enumerate(keys[0])}
    matched = [first]
    for other, ids in zip(models[1:], keys[1:]):
        if place.keys().isdisjoint(ids):
            raise _not_the_same(first, other, f"they have no id in common (such as {shown(ids[0])!r})")
        for key, holder, lacking in _unmatched(first, place, other, ids):
            raise DataError(
                f"{shown(holder.name)} has id {shown(key)!r} and {shown(lacking.name)} has not: every id must be in "
                f"every file. Different test sets can be compared with `abstain compare --unpaired`."
            )
        order = np.argsort([place[key] for key in ids])
        if (np.diff(order) < 0).any():
            message = f"{shown(other.name)} was put in the order of {shown(first.name)} by its ids."
            warnings.warn(message, AbstainWarning, stacklevel=3)
        matched.append(other.rows(order))
    return matched


def _unmatched(
    first: Predictions, place: Mapping[str, int], other: Predictions, ids: Sequence[str]
) -> Iterator[tuple[str, Predictions, Predictions]]:
    """Ids of one file that the other one lacks, with the file that has it and the one that lacks it."""
    known = set(ids)
    yield from ((key, first, other) for key in place if key not in known)
    yield from ((key, other, first) for key in ids if key not in place)


def _matched_by_position(models: Sequence[Predictions]) -> list[Predictions]:
    """The files as they are, where nothing in them says that their rows differ."""
    first = models[0]
    for other in models[1:]:
        if other.n != first.n:
            raise _not_the_same(first, other, f"they have {first.n:,} and {other.n:,} rows and no ids")
    if confirming_columns(models) is None:
        message = (
            "Nothing in the files says that their rows are the same samples in the same order: they have no ids, so "
            "rows are paired by position. Add a column `id` to match them."
        )
        warnings.warn(message, AbstainWarning, stacklevel=3)
    return list(models)


def confirming_columns(models: Sequence[Predictions]) -> str | None:
    """The first of labels, groups and clusters that every file has and that agree; None where none does.

    Columns that contradict each other are an error: the rows are not the same samples.
    """
    confirmed = None
    for what in ("labels", "label_words", "groups", "clusters"):
        columns = [(m, plain_values(getattr(m, what))) for m in models if getattr(m, what) is not None]
        title = what.replace("label_words", "labels")
        for other, values in columns[1:]:
            if not np.array_equal(values, columns[0][1]):
                raise _not_the_same(columns[0][0], other, f"they have different {title}")
        if len(columns) == len(models):
            confirmed = confirmed or title
    return confirmed


def _not_the_same(one: Predictions, other: Predictions, why: str) -> OtherSamplesError:
    return OtherSamplesError(
        f"{shown(one.name)} and {shown(other.name)} are not the same samples in the same order: {why}. "
        f"Different test sets can be compared with `abstain compare --unpaired`."
    )


def sample_keys(model: Predictions) -> list[str] | None:
    """One id per sample as text, all different; None where the file has no ids."""
    if model.ids is None:
        return None
    ids = model.ids.as_texts().tolist()
    if len(ids) != model.n:
        raise file_error(model.path, f"the ids must have {model.n:,} rows as the rest, got {len(ids):,}.")
    for row, key in enumerate(ids, 1):
        if key in ("", "nan"):
            raise file_error(
                model.path, f"row {row:,} has no id, so rows cannot be matched by id. Fill it in."
            )
    if len(set(ids)) < len(ids):
        key, count = Counter(ids).most_common(1)[0]
        raise file_error(
            model.path,
            f"id {shown(key)!r} is in {count:,} rows, so rows cannot be matched by id. Number the repeats in a column "
            f"and name it (-c epoch=NAME), keep one of each (--only NAME=VALUE), or name another column (-c ids=NAME).",
        )
    return ids


PAIRED_BY_POSITION = "No file has ids: rows are paired by position."


def check_same_ids(path: str | Path, other: str | Path, stated: Mapping[str, str]) -> bool:
    """Check that two tables have the same ids row by row, a batch at a time; False where neither has ids."""
    files = [find_files("compare", side) for side in (path, other)]
    roles = [column_names(own[0]).roles(stated) for own in files]
    columns = [next((own[r].names[0] for r in ("ids", "question") if r in own), None) for own in roles]
    if columns == [None, None]:
        return False
    if None in columns:
        lacking = path if columns[0] is None else other
        raise file_error(lacking, "has no ids and the other table has. Name the column with -c ids=NAME.")
    streams = [_id_batches(own, str(column)) for own, column in zip(files, columns)]
    row = 0
    left: list[str] = []
    right: list[str] = []
    while True:
        left = left or next(streams[0], [])
        right = right or next(streams[1], [])
        size = min(len(left), len(right))
        if size == 0:
            break
        for place, (one, two) in enumerate(zip(left[:size], right[:size]), row + 1):
            if one != two:
                raise DataError(
                    f"row {place:,} has id {shown(one)!r} in {shown(path)} and {shown(two)!r} in {shown(other)}: an "
                    f"engine pairs rows by position. Sort both by id, or compare them in memory."
                )
        row += size
        left = left[size:]
        right = right[size:]
    if left or right:
        raise DataError(
            f"{shown(path)} and {shown(other)} must have as many rows each: one ends at row {row:,}."
        )
    return True


def _id_batches(files: Sequence[str], column: str) -> Iterator[list[str]]:
    for file in files:
        for batch in batches(Path(file), kind_of(file), lambda schema: [column], 1 << 16, None):
            yield [str(text_of(value)) for value in batch.column(0).to_pylist()]


def plain_values(values: Values) -> np.ndarray:
    """One value per sample, as an array."""
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
    purpose: str = "one file",
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
        Class names in the order of the class scores, needed when labels are words. Where the columns carry these names
        themselves (`prob_cat`), in the order of the numbers that the labels are.
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
        Which rows; for answers of language models also how refusals, missing and stated confidences are taken.
    purpose : {"one file", "compared", "cascade"}
        What it is read for, which decides how unanswered questions and missing confidences are taken where `rules`
        leave that open (`abstain.formats.logs.DEFAULTS`).

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
    return predictions_of(
        source,
        columns=columns,
        kind=kind,
        labels=labels,
        classes=classes,
        name=name or model_name(path),
        path=str(path),
        limits=limits,
        tolerance=tolerance,
        rules=rules,
        purpose=purpose,
    )


class NoConfidenceError(DataError):
    """A file of answers none of which has the confidence that was asked for, so that its model cannot be ranked.

    Examples
    --------
    >>> raise NoConfidenceError("b.csv: no answer has `stated`.")
    Traceback (most recent call last):
    ...
    abstain.formats.predictions.NoConfidenceError: b.csv: no answer has `stated`.
    """


def predictions_of(
    source: Source,
    *,
    name: str,
    path: str,
    columns: Mapping[str, str] | None = None,
    kind: str | None = None,
    labels: str | Path | None = None,
    classes: tuple[str, ...] = (),
    limits: Limits | None = None,
    tolerance: float | None = None,
    rules: Rules | None = None,
    purpose: str = "one file",
) -> Predictions:
    """Predictions from columns that are open already; arguments as those of `read_predictions`.

    Every argument is obeyed for every kind of file, or refused.
    """
    limits = limits or Limits()
    rules = rules or Rules()
    stated = {role_of(role) for role in columns or ()}
    check_kind(source, kind)
    source = with_changed_signs(source, columns or {})
    roles = verdict_roles(source, source.roles(columns or {}, kind), stated)
    by = _class_scores_role(roles, stated, labelled=labels is not None or "labels" in roles)
    if by == "logits":
        roles.pop("probs", None)  # logits say all that probabilities say
    head = (name, path, source.format)
    options = _Options(source, by, stated=stated, tolerance=tolerance, classes=classes, rules=rules)
    if not by and is_log(source, roles, rules):
        options.check("answers", _ANSWER_ROLES)
        right = None if labels is None else open_source(labels, limits=limits)
        log = answers_of(source, roles, rules, right, stated, purpose)
        if not log.signals:
            raise UncertainError(_no_confidence(log), source)
        if purpose != "one file":
            check_ranked(log)
        return Predictions(*head, used=log.used, log=log, **log.fields())
    if by:
        usable = _SCORE_ROLES if "ids" in roles else _SCORE_ROLES - {"task", "epoch"}  # which tell ids apart
        options.check("class scores", usable | {by})
    else:
        options.check("a plain table", _TABLE_ROLES, with_labels="labels" in roles)
        if labels is not None and "confidence" in roles:
            raise file_error(
                source.path, "--labels needs class scores or a column of predictions (-c prediction=NAME)."
            )
    rows, rows_used = rows_of(source, rules)
    ids = source.columns[roles.pop("ids").names[0]] if "ids" in roles else None
    if by:
        roles[by] = in_stated_order(roles[by], classes)
    loaded = {role: source.load(role, choice) for role, choice in roles.items()}
    if labels is not None:
        loaded["labels"] = _labels_of(labels, limits)
    stated_names = classes or _class_names(loaded.pop("classes", None)) or source.classes
    if rows is not None:
        loaded = rows_chosen(source, loaded, rows)
        ids = None if ids is None else ids.rows(rows)
    if ids is not None:
        ids = _with_task_and_epoch(ids, loaded)
    columns_read = Loaded(
        source=source,
        roles=roles,
        values=loaded,
        classes=stated_names or (roles[by].suffixes if by else ()),
        stated=stated,
        tolerance=tolerance,
        classes_stated=bool(stated_names),
    )
    fields = columns_read.class_scores(by) if by else columns_read.plain_table()
    used = {role: str(roles[role]) for role in loaded if role in roles} | rows_used
    if labels is not None:
        used["labels"] = shown(Path(labels).name)
    return Predictions(*head, used=used, ids=ids, **fields)


_SCORE_ROLES = {"labels", "abstained", "answered", "groups", "sample_weight", "clusters", "classes", "ids"}
_SCORE_ROLES |= {"confidence", "task", "epoch"}
_TABLE_ROLES = {"confidence", "correct", "loss", "error", "labels", "prediction", "abstained", "groups"}
_TABLE_ROLES |= {"sample_weight", "clusters", "classes", "ids"}
_ANSWER_ROLES = _TABLE_ROLES - {"classes"} | {"answered", "question", "task", "epoch"}


def _with_task_and_epoch(ids: Column, loaded: Mapping[str, Values]) -> Column:
    """Ids that are made different by task and epoch where they repeat; worked out when files are put in one order."""
    parts = {role: loaded[role] for role in ("task", "epoch") if role in loaded}
    if not parts:
        return ids

    def load() -> Values:
        return Words.of(told_apart(ids.as_texts().tolist(), parts))

    return Column(ids.shape, ids.kind, load)


def check_kind(source: Source, kind: str | None) -> None:
    """`--as` is for an array without a name."""
    if kind is not None and "array" not in source.columns:
        raise file_error(
            source.path,
            f"--as is for an array without a name, and the columns have names: {source.listed()}. Name one with "
            f"-c {kind}=NAME.",
        )


def check_ranked(log: Log) -> None:
    """Refuse to rank a model beside others where none of its answers has the confidence that was asked for."""
    answered = log.answered & log.scored
    ranked = any(bool((np.isfinite(signal) & answered).any()) for signal in log.signals.values())
    if answered.any() and not ranked:
        listed = ", ".join(f"`{shown(name)}`" for name in log.signals)
        raise NoConfidenceError(f"{shown(log.path)}: no answer has {listed}, so the model cannot be ranked.")


def _class_scores_role(roles: Mapping[str, RoleColumns], stated: Set[str], *, labelled: bool) -> str:
    """ "logits" or "probs" where class scores and labels are what is to be read; "" for everything else.

    A stated confidence beside a stated column of right and wrong counts more than class scores of the same file.
    """
    if "confidence" in stated and stated & {"correct", "loss", "error"}:
        return ""
    return next((role for role in ("logits", "probs") if role in roles and labelled), "")


@dataclass(frozen=True)
class _Options:
    """What the user said about a file, to be refused where a file of its kind cannot obey it."""

    source: Source
    by: str
    stated: Set[str]
    tolerance: float | None
    classes: tuple[str, ...]
    rules: Rules

    def check(self, kind: str, roles: Set[str], *, with_labels: bool = False) -> None:
        """Refuse each option that would be ignored for a file of this kind, which uses columns of these roles."""
        for role in sorted(self.stated - roles):
            raise self.refusal(f"-c {role}", f"the file is read as {kind}, which {_uses(kind)}")
        if self.tolerance is not None and self.by != "probs":
            raise self.refusal("--tolerance", "it is for probabilities")
        if self.classes and not self.by and not (kind == "a plain table" and with_labels):
            raise self.refusal("--classes", "it is for class scores, or labels beside predictions")
        if self.by:
            self.check_rules()

    def check_rules(self) -> None:
        """Class scores have an answer and a confidence in every row."""
        instead = "name your own with -c correct=NAME -c confidence=NAME"
        if self.rules.grades:
            raise self.refusal(
                "--grades", f"right and wrong come from the labels and the {self.by}; {instead}"
            )
        if self.rules.scale or self.rules.outside:
            raise self.refusal("--scale", f"the confidence comes from the {self.by}; {instead}")
        if self.rules.missing:
            raise self.refusal("--missing", f"every row has {self.by}")
        if self.rules.unanswered == "wrong":
            raise self.refusal("--unanswered wrong", f"every row has an answer, that of its {self.by}")

    def refusal(self, option: str, reason: str) -> DataError:
        """One line that names the option."""
        return file_error(self.source.path, f"{option} has no effect here: {reason}. Leave it out.")


def _uses(kind: str) -> str:
    by_kind = {
        "class scores": "takes right and wrong from its labels; name your own with -c correct=NAME -c confidence=NAME",
        "a plain table": "has one row per sample, its loss and its confidence",
        "answers": "has no class scores",
    }
    return by_kind[kind]


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
    stated = {role_of(role) for role in columns or ()}
    source = with_changed_signs(source, columns or {})
    return answers_of(source, source.roles(columns or {}), rules or Rules(), right, stated)


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
    classes: tuple[str, ...] = (),
    tolerance: float | None = None,
    rules: Rules | None = None,
) -> tuple[Predictions, dict[str, np.ndarray]]:
    """Class scores or a confidence, with groups and refusals, where no truth is known yet; and all other columns."""
    source = open_source(path, format=format, limits=limits)
    check_kind(source, kind)
    source = with_changed_signs(source, columns)
    chosen = source.roles(columns, kind)
    by = next((role for role in ("logits", "probs", "confidence") if role in chosen), None)
    if by is None:
        raise UncertainError(f"needs logits, probs or a confidence, it has {source.listed()}.", source)
    chosen[by] = in_stated_order(chosen[by], classes)
    rules = rules or Rules()
    scored = by if by != "confidence" else ""
    options = _Options(source, scored, stated=frozenset(), tolerance=tolerance, classes=classes, rules=rules)
    options.check("answers", frozenset())
    if scored and rules.only:
        raise file_error(path, "every row is decided: --only is for data that are measured.")
    if by == "confidence" and is_log(source, chosen, rules):  # as they were taken when the rule was made
        found: dict[str, Any] = unjudged(source, chosen, rules)
    else:
        roles = {role: chosen[role] for role in (by, "abstained") if role in chosen}
        values = {role: source.load(role, choice) for role, choice in roles.items()}
        held = Loaded(source, roles, values, (), tolerance=tolerance)
        outputs = held.numbers(by) if by == "confidence" else held.by_class(by)
        found = {by: outputs, "abstained": held.refused()}
    if by == "probs" and found["probs"].ndim == 2:
        found["probs"] = held.summing_to_one(found["probs"])
    found["groups"] = source.load("groups", chosen["groups"]) if "groups" in chosen else None
    told = source.load("classes", chosen["classes"]) if "classes" in chosen else None
    found["classes"] = classes or _class_names(told) or source.classes or chosen[by].suffixes
    by_name = next((chosen[role] for role in ("question", "ids") if role in chosen), None)
    found["ids"] = None if by_name is None else source.columns[by_name.names[0]]
    used = {name for role in ("logits", "probs") if role in chosen for name in chosen[role].names}
    others = {name: column for name, column in source.columns.items() if name not in used}
    rest = {name: plain_values(column.texts or column.load()) for name, column in others.items()}
    return Predictions(model_name(path), str(path), source.format, len(found[by]), **found), rest


def _labels_of(path: str | Path, limits: Limits) -> Values:
    source = open_source(path, limits=limits)
    choice = source.roles({}, "labels").get("labels") or RoleColumns(tuple(source.columns))
    if len(choice.names) > 1:
        raise UncertainError(f"must have a column of labels, it has {source.listed()}.", source)
    return source.load("labels", choice)


def _class_names(inside: Values | None) -> tuple[str, ...]:
    return () if inside is None else tuple(map(str, plain_values(inside).reshape(-1).tolist()))


# a path given to `evaluate`


# how many times larger the values of a file are than the file, at least; the files that an engine reads
_GROWTH_IN_MEMORY = {".parquet": 2, ".arrow": 1, ".feather": 1, ".csv": 4}


def engine_for(path: str | Path, memory: int = Limits().memory) -> str:
    """Folders, and files larger than the memory allowed, go to the engine that needs little of it."""
    if not os.path.isfile(path):
        return "memory" if str(path) == "-" or is_run(path) else "files"
    times = _GROWTH_IN_MEMORY.get(Path(path).suffix.lower(), 0)
    return "files" if times * os.path.getsize(path) > memory else "memory"


def engine_reads(path: str | Path) -> bool:
    """Can the engine of files read this file, where it proves too large for memory?"""
    return os.path.isfile(path) and Path(path).suffix.lower() in _GROWTH_IN_MEMORY


def engine_columns(
    path: str | Path,
    stated: Mapping[str, str],
    kind: str | None = None,
    format: str | None = None,  # noqa: A002
    refusal: Callable[[str], Exception] = DataError,
    classes: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The columns of a table (or of the first of a folder) that an engine is to read, by argument."""
    first = find_files("evaluate", path)[0]
    kind_of(first)  # an error that names the formats
    source = column_names(first, format=format)
    named = {role_of(role) for role in stated}
    roles = verdict_roles(source, source.roles(stated, kind), named)
    for role in ("abstained", "clusters", "answered", "question"):  # left out, they would change the number
        if role in roles:
            raise refusal(
                f"engines do not read a column of {role} yet: leave {roles[role].names[0]!r} out of the table, or "
                f"evaluate one file in memory (--engine memory)."
            )
    one = {role: choice.names[0] for role, choice in roles.items()}
    found: dict[str, Any] = {role: one[role] for role in ("sample_weight", "groups") if role in one}
    by_logits = _class_scores_role(roles, named, labelled="labels" in roles) == "logits"
    loss = next((role for role in ("correct", "error", "loss") if role in roles), None)
    used = {"sample_weight", "groups"} | ({"logits", "labels"} if by_logits else {loss, "confidence"})
    for role in sorted(named - used - {"ids"}):
        raise refusal(
            f"engines do not use a column of {role} here: leave -c {role} out, or evaluate in memory."
        )
    if by_logits:
        by_class = in_stated_order(roles["logits"], classes)
        if by_class.suffixes and by_class.suffixes != classes:
            raise refusal(
                f"an engine reads numbers as labels, and columns named {by_class} do not say which number is which "
                f"class. State the names in the order of the numbers: --classes first,second,..."
            )
        several = list(by_class.names)
        return found | {"logits": several if len(several) > 1 else several[0], "labels": one["labels"]}
    if loss is None or "confidence" not in roles:
        raise refusal(
            "an engine reads columns of losses (or correct) and confidences, or of logits and labels."
        )
    if len(roles["confidence"].names) > 1:
        raise refusal("an engine ranks by one confidence: name one with -c confidence=NAME.")
    if "prediction" in one:
        told = f"Engines do not read `{shown(one['prediction'])}`: a row without a prediction counts as an answer."
        warnings.warn(told, AbstainWarning, stacklevel=2)
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


def evaluate_path(logits: str | Path, **arguments: Any) -> Evaluation:
    """`abstain.evaluate(path)`: what `abstain evaluate` does; arguments may name columns."""
    named_columns, classes, options = _sorted_arguments(arguments)
    engine = engine_for(logits)
    if engine == "memory":
        try:
            read = read_predictions(logits, columns=named_columns, classes=classes)
        except MemoryLimitError:
            if not engine_reads(logits):
                raise
            engine = "files"
    if engine == "files":
        columns = engine_columns(logits, named_columns, classes=classes)
        return evaluate_by("files", logits, columns, **options)
    return _evaluate_read(read, options)


def evaluate_table(logits: Any, **arguments: Any) -> Evaluation:
    """`abstain.evaluate(frame)`: as a file of that content is evaluated; arguments may name columns."""
    named_columns, classes, options = _sorted_arguments(arguments)
    source = open_table(logits)
    name = str(source.path)
    read = predictions_of(source, name=name, path=name, columns=named_columns, classes=classes)
    return _evaluate_read(read, options)


def _sorted_arguments(arguments: dict[str, Any]) -> tuple[dict[str, str], tuple[str, ...], dict[str, Any]]:
    """Arguments of `evaluate` that name columns, the class names, and all the others."""
    named_columns = {
        role: name for role, name in arguments.items() if role in ROLES and isinstance(name, str)
    }
    options = {name: value for name, value in arguments.items() if name not in named_columns}
    classes = tuple(str(name) for name in options.pop("classes", ()))
    return named_columns, classes, options


def _evaluate_read(read: Predictions, options: dict[str, Any]) -> Evaluation:
    with values_of(read.path):
        return evaluate(**{**read.arguments(), **options})


register_engine("path", evaluate_path)
register_engine("table", evaluate_table)
