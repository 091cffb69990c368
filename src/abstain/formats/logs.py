"""Answers of a language model: right or wrong, given or refused, and how sure it was by each of its signals.

a harness's log, or a table with stated columns  ->  Log  ->  Predictions, as everything else reads them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from abstain._check import check_choice
from abstain._tables import Printable
from abstain.formats.columns import Column, Values, Words, as_texts
from abstain.formats.safety import display_name, file_error

# largest value, largest fraction
_SCALES = {"percent": (100.0, 100.0), "fraction": (1.0, 1.0), "mixed": (100.0, 1.0)}
_GRADES = {"right": 0.0, "wrong": 1.0, "unanswered": np.nan}  # the loss
_CHOICES: dict[str, Sequence[str]] = {
    "unanswered": ("abstained", "wrong"),
    "missing": ("left_out", "last"),
    "scale": list(_SCALES),
    "outside": ("refused", "missing"),
    "grades": list(_GRADES),
}
DEFAULTS = {
    "one file": {"unanswered": "abstained", "missing": "left_out"},
    "compared": {"unanswered": "wrong", "missing": "last"},
    "cascade": {"unanswered": "abstained", "missing": "last"},
}
"""How unanswered questions and missing confidences are taken where the user does not say it, by the purpose of reading.

One file alone is measured on what it answered. Models that are compared must see the same questions, and refusing the
hard ones must be no gain. A cascade passes a refused question on, and every model sees the same questions.
"""


@dataclass(frozen=True)
class Rules:
    """How answers are to be taken where more than one way makes sense.

    Parameters
    ----------
    only : dict
        Column -> value: the rows to read, {"filter": "strict-match"}.
    unanswered : {"abstained", "wrong"}, optional
        A question without an answer is never accepted and kept in the coverage, or wrong and ranked last. By default
        the first for one file, the second where several are compared (`DEFAULTS`).
    missing : {"left_out", "last"}, optional
        An answer without a confidence is left out, or ranked last. By default the first for one file, the second where
        several are compared; a plain table of losses and confidences must have them all unless this is stated.
    scale : dict
        Signal (or "" for each) -> "percent", "fraction" or "mixed": it is a number that the model stated. Mixed: up
        to 1 it is a fraction, above a percentage. A signal without a scale is only ranked.
    outside : {"refused", "missing"}, optional
        What becomes of stated numbers outside their scale; refused by default.
    grades : dict
        Text of the column of correctness -> "right", "wrong" or "unanswered".

    Examples
    --------
    >>> Rules(unanswered="wrong").settled().missing
    'left_out'
    >>> Rules().settled("compared").unanswered
    'wrong'
    """

    only: Mapping[str, str] = field(default_factory=dict)
    unanswered: str | None = None
    missing: str | None = None
    scale: Mapping[str, str] = field(default_factory=dict)
    outside: str | None = None
    grades: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            setting = getattr(self, name)
            values = setting.values() if isinstance(setting, Mapping) else [setting]
            for value in values:
                if value is not None:
                    check_choice("Rules", name, value, choices)

    def settled(self, purpose: str = "one file", loss_name: str = "zero_one") -> Rules:
        """These rules with everything chosen that was left open; other losses than 0/1 have no "wrong"."""
        defaults = dict(DEFAULTS[purpose])
        if loss_name == "loss":
            defaults["unanswered"] = "abstained"
        open_choices: dict[str, Any] = {
            name: value for name, value in defaults.items() if getattr(self, name) is None
        }
        return replace(self, **open_choices)


@dataclass(frozen=True, repr=False)
class Log(Printable):
    """Answers to questions, one row each.

    Parameters
    ----------
    path, tool : str
        Where it was read, and who wrote it.
    loss : array, shape (n,)
        0 right, 1 wrong, between them partly right; NaN where nobody scored the answer.
    answered : array of bool, shape (n,)
        Whether there is an answer at all.
    signals : dict of array, shape (n,)
        Confidences by name; NaN where an answer has none.
    question, task, groups : array or Words, shape (n,), optional
        Questions with one name (of one task) are repeats of each other.
    epoch, sample_weight, clusters : array, shape (n,), optional
    loss_name : str
        "zero_one" where every answer is right or wrong.
    labels, prediction : array or Words, shape (n,), optional
        The right answers and the given ones.
    ids : Column, shape (n,), optional
        What tells the rows apart, where no column names the questions; loaded when files are put in one order.
    rules : Rules
        How unanswered questions and missing confidences are taken.
    absent : tuple of str
        Confidences that were asked for and that no answer has.
    used : dict
        Role -> what was taken for it.
    notes : tuple of str
        What was counted, left out or could be stated otherwise.

    Examples
    --------
    >>> log = Log("t.csv", "csv", np.array([0.0, 1.0, 0.0, 1.0]), np.array([True, True, True, False]),
    ...           {"stated": np.array([0.9, 0.4, np.nan, np.nan])})
    >>> log.accuracy, log.unanswered
    (0.5, 0.25)
    >>> read = log.fields()  # what `Predictions` is made of; the third answer has no confidence
    >>> read["loss"].tolist(), read["confidence"].tolist()[:2], read["abstained"].tolist()
    ([0.0, 1.0, 1.0], [0.9, 0.4], [False, False, True])
    """

    path: str
    tool: str
    loss: np.ndarray
    answered: np.ndarray
    signals: dict[str, np.ndarray]
    question: Values | None = None
    task: Values | None = None
    groups: Values | None = None
    epoch: np.ndarray | None = None
    sample_weight: np.ndarray | None = None
    clusters: np.ndarray | None = None
    loss_name: str = "zero_one"
    labels: Values | None = None
    prediction: Values | None = None
    ids: Column | None = None
    rules: Rules = field(default_factory=lambda: Rules().settled())
    absent: tuple[str, ...] = ()
    used: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.loss)

    @property
    def scored(self) -> np.ndarray:
        """Rows that were scored, or need not be since there is no answer."""
        return ~np.isnan(self.loss) | ~self.answered

    @property
    def accuracy(self) -> float:
        """Over the scored rows; no answer is wrong."""
        return 1 - float(self.losses(self.scored).mean())

    @property
    def accuracy_answered(self) -> float:
        """Over the scored answers; NaN where there is none."""
        rows = self.scored & self.answered
        return 1 - float(self.losses(rows).mean()) if rows.any() else float("nan")

    @property
    def unanswered(self) -> float:
        """Share of the scored rows without an answer."""
        return float((~self.answered[self.scored]).mean())

    @property
    def without_confidence(self) -> float:
        """Share of the scored answers that lack at least one of the confidences."""
        rows = self.answered & self.scored
        complete = np.all([np.isfinite(signal) for signal in self.signals.values()], axis=0)
        return float((~complete[rows]).mean()) if rows.any() and self.signals else 0.0

    def losses(self, rows: np.ndarray) -> np.ndarray:
        """Losses of some rows, no answer being wrong."""
        return np.where(self.answered, self.loss, 1.0)[rows]

    def repeats(self) -> np.ndarray | None:
        """The name of each question, with its task, where some question was asked more than once; else None."""
        if self.question is None:
            return self.clusters
        names = as_texts(self.question).tolist()
        if self.task is not None:
            names = [f"{task}: {name}" for task, name in zip(as_texts(self.task).tolist(), names)]
        return np.array(names, dtype=object) if len(set(names)) < self.n else self.clusters

    def row_ids(self) -> Column | None:
        """What tells the rows apart: the question, with its task and epoch where questions repeat.

        Where that does not tell them apart either, a column of ids, if there is one.
        """
        if self.question is None:
            return self.ids
        keys = told_apart(as_texts(self.question).tolist(), {"task": self.task, "epoch": self.epoch})
        if len(set(keys)) < self.n and self.ids is not None:
            return self.ids
        return Column.of(Words.of(keys))

    @property
    def questions(self) -> int:
        """How many different ones there are."""
        repeats = self.repeats()
        return self.n if repeats is None else len(np.unique(repeats))

    def summary_lines(self) -> list[str]:
        """What was taken for what, and what was counted, a line each."""
        return ["; ".join(f"{role}: {what}" for role, what in self.used.items()) + ".", *self.notes]

    def fields(self, rules: Rules | None = None) -> dict[str, Any]:
        """What `Predictions` holds of it: all signals on the same rows. `rules` instead of those it was read by."""
        rules = (rules or self.rules).settled(loss_name=self.loss_name)
        if rules.unanswered == "wrong" and self.loss_name == "loss":
            told = "an unanswered question can count as wrong among right and wrong only."
            raise file_error(self.path, told)
        present = np.all([np.isfinite(s) for s in self.signals.values()], axis=0) | ~self.answered
        rows = self.scored & (present | (rules.missing == "last"))
        if not (rows & (self.answered | (rules.unanswered == "wrong"))).any():
            raise file_error(self.path, "no question has an answer with a score and a confidence.")
        ranked = {name: _ranked(s, self.answered)[rows] for name, s in self.signals.items()}
        along = {k: getattr(self, k) for k in ("groups", "sample_weight", "prediction")}
        along["label_words" if isinstance(self.labels, Words) else "labels"] = self.labels
        along["clusters"] = self.repeats()
        first = next(iter(ranked.values()))
        found: dict[str, Any] = {"n": int(rows.sum()), "signals": ranked, "confidence": first}
        found |= {"loss": self.losses(rows), "loss_name": self.loss_name}
        found |= {k: v[rows] for k, v in along.items() if v is not None}
        if rules.unanswered == "abstained" and not self.answered[rows].all():
            found["abstained"] = ~self.answered[rows]
        if (ids := self.row_ids()) is not None:
            found["ids"] = ids.rows(rows)
        return found

    def __repr__(self) -> str:
        return (
            f"Log({display_name(self.path)}, {self.n:,} rows, {', '.join(self.signals) or 'no confidence'}, "
            f"{self.tool})"
        )


def _ranked(signal: np.ndarray, answered: np.ndarray) -> np.ndarray:
    """Numbers that rank alike, with everything that has no rank of its own tied below the rest."""
    own = np.isfinite(signal) & answered
    lowest = np.nextafter(signal[own].min(), -np.inf) if own.any() else 0.0
    return np.where(own, signal, lowest)


def told_apart(ids: list[str], columns: Mapping[str, Values | None]) -> list[str]:
    """Ids with the values of these columns behind them, one column after the other, as long as some ids repeat."""
    for title, column in columns.items():
        if column is not None and len(set(ids)) < len(ids):
            ids = [f"{key}, {title} {part}" for key, part in zip(ids, as_texts(column).tolist())]
    return ids
