"""From a file to `Predictions` or a `Log`."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import DataError
from abstain.formats.answers import answers_of, is_log, rows_chosen, rows_of, unjudged, verdict_roles
from abstain.formats.columns import Column, Source, UncertainError, Values, Words, with_changed_signs
from abstain.formats.loaded_columns import Loaded
from abstain.formats.logs import Log, Rules, told_apart
from abstain.formats.predictions import Predictions, plain_values
from abstain.formats.readers import ENDINGS, open_source
from abstain.formats.roles import RoleColumns, in_stated_order, role_of
from abstain.formats.safety import Limits, display_name, file_error


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
    abstain.formats.read_files.NoConfidenceError: b.csv: no answer has `stated`.
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
        used["labels"] = display_name(Path(labels).name)
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
        listed = ", ".join(f"`{display_name(name)}`" for name in log.signals)
        raise NoConfidenceError(
            f"{display_name(log.path)}: no answer has {listed}, so the model cannot be ranked."
        )


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
