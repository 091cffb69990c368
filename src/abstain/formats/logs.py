"""Answers of a language model: right or wrong, given or refused, and each of its confidences ("signals").

The log of a harness, or a table whose columns the user states, becomes a `Log` (in `answers`); a `Log` becomes
`Predictions`, which everything else reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from abstain._check import check_choice
from abstain._tables import Printable
from abstain.errors import InputError
from abstain.formats.columns import Column, TextValues, Values, as_texts, has_value
from abstain.formats.safety import display_name, file_error
from abstain.metrics.answer_metrics import GradedAnswers


class StatedScale(NamedTuple):
    """The scale of a confidence that a model stated in words, such as "85%"."""

    highest: float  # largest number that may be stated
    percent_above: float  # larger numbers are percentages, others fractions


SCALES = {
    "percent": StatedScale(highest=100.0, percent_above=-np.inf),
    "fraction": StatedScale(highest=1.0, percent_above=np.inf),
    "mixed": StatedScale(highest=100.0, percent_above=1.0),
}
MIN_ROWS_TO_JUDGE_SCALE = 8  # new answers; with fewer, percentages may all be 1 or less
EVERY_ROW = "every row"  # what is said of which rows are answered where nothing says it
LOSS_OF_GRADE = {"right": 0.0, "wrong": 1.0, "unanswered": np.nan}
_CHOICES: dict[str, Sequence[str]] = {
    "unanswered": ("abstained", "wrong"),
    "missing": ("left_out", "last"),
    "scale": list(SCALES),
    "outside": ("refused", "missing"),
    "grades": list(LOSS_OF_GRADE),
}
DEFAULTS = {
    "one file": {"unanswered": "abstained", "missing": "left_out"},
    "several confidences": {"unanswered": "abstained", "missing": "last"},
    "compared": {"unanswered": "wrong", "missing": "last"},
    "cascade": {"unanswered": "abstained", "missing": "last"},
    "learning": {"unanswered": "abstained", "missing": "last"},
}
"""How unanswered questions and missing confidences are counted by default, by the purpose of reading.

One file alone is measured on what it answered. Where it has several confidences, all of them rank the same answers, and
one that is missing on hard answers must not decide which answers the others are judged on. Models that are compared
must see the same questions, and refusing the hard ones must be no gain. A cascade passes a refused question on, and
every model sees the same questions. A confidence is learned from several others, and an answer that lacks one of them
is still ranked by the others.
"""


def find_fractions(name: str, numbers: np.ndarray, *, min_rows_to_judge: int = 1) -> str:
    """Return a sentence where a confidence that is stated to hold percentages seems to hold fractions; otherwise "".

    It seems so where at least `min_rows_to_judge` of its numbers are finite, none exceeds 1, and not all are 0. The
    sentence, with the confidence's `name`, has no remedy: callers add theirs. `numbers` holds the confidences of a
    file, NaN where one is missing. Callers ask for several rows, since few percentages may all be 1 or less.
    """
    finite = numbers[np.isfinite(numbers)]
    if finite.size < min_rows_to_judge or not 0 < finite.max(initial=0.0) <= 1:
        return ""
    return (
        f"`{display_name(name)}` is stated to hold percentages, and its largest value is {finite.max():g}: these are "
        f"fractions."
    )


@dataclass(frozen=True)
class Rules:
    """How answers are counted where more than one way makes sense.

    Parameters
    ----------
    only : dict
        Column -> value: the rows to read, {"filter": "strict-match"}.
    unanswered : {"abstained", "wrong"}, optional
        A question without an answer is never accepted and stays in the coverage, or is wrong and ranked last. By
        default the first for one file, the second where several are compared (`DEFAULTS`).
    missing : {"left_out", "last"}, optional
        An answer without a confidence is left out, or ranked last. By default the first for one confidence of one file,
        the second where several confidences or files are compared; a plain table of losses and confidences must have
        them all unless this is stated.
    scale : dict
        Confidence (or "" for each) -> "percent", "fraction" or "mixed": it is a number that the model stated. Mixed: up
        to 1 it is a fraction, above a percentage. A confidence without a scale is only ranked.
    outside : {"refused", "missing"}, optional
        Whether stated numbers outside their scale are an error (the default) or count as missing.
    grades : dict
        Text of the column of correctness -> "right", "wrong" or "unanswered".
    refusals : tuple of str
        Predictions that are no answers: words such as "I don't know" (case, blanks around them and marks at their ends
        do not count; * stands for any text), or the names of classes that mean abstention.

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
    refusals: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            setting = getattr(self, name)
            values = setting.values() if isinstance(setting, Mapping) else [setting]
            for value in values:
                if value is not None:
                    check_choice("Rules", name, value, choices)
        if isinstance(self.refusals, str):
            raise InputError(
                f"Rules: `refusals` must be a sequence of texts, got the text {self.refusals!r}."
            )

    def settled(self, purpose: str = "one file", loss_name: str = "zero_one") -> Rules:
        """Return these rules with `unanswered` and `missing` set by the purpose where the user left them open (None).

        `purpose` says what the file is read for: "one file", "several confidences" (of one file), "compared", "cascade"
        or "learning". Each has defaults: unanswered questions count as "abstained" or "wrong", answers without a
        confidence are "left_out" or ranked "last". With losses other than right and wrong (`loss_name` "loss"), an
        unanswered question is an abstention by default, whatever the purpose. What the user set stays, and these rules
        themselves are not changed. KeyError for another purpose.
        """
        defaults = dict(DEFAULTS[purpose])  # values of "unanswered" and "missing"
        if loss_name == "loss":
            defaults["unanswered"] = "abstained"
        defaults_that_apply: dict[str, Any] = {
            name: value for name, value in defaults.items() if getattr(self, name) is None
        }
        return replace(self, **defaults_that_apply)


@dataclass(frozen=True, repr=False)
class Log(Printable):
    """Answers to questions, one row each.

    Parameters
    ----------
    path, tool : str
        Where it was read, and the harness that wrote it.
    loss : array, shape (n,)
        0 right, 1 wrong, between them partly right; NaN where the answer was not scored.
    answered : array of bool, shape (n,)
        Whether there is an answer at all.
    signals : dict of array, shape (n,)
        Confidences by name; NaN where an answer has none.
    question, task, groups : array or TextValues, shape (n,), optional
        Questions with one name (of one task) are repeats of each other.
    epoch, sample_weight, clusters : array, shape (n,), optional
    cost : array, shape (n,), optional
        What each answer cost; NaN where the file does not say it.
    unanswerable : array of bool, shape (n,), optional
        Whether the question has no answer, so that not answering it is right.
    loss_name : {"zero_one", "partial_credit", "loss"}
        Whether every answer is right or wrong, some are partly right, or the file has losses of another kind.
    labels, prediction : array or TextValues, shape (n,), optional
        The right answers and the given ones.
    features : dict of array, shape (n,)
        Numbers that are no confidences, such as a length, by column name; a confidence can be learned from them.
    categories : dict of array of str, shape (n,)
        Labels, such as a topic, by column name; a confidence can be learned from them.
    ids : Column, shape (n,), optional
        What tells the rows apart, where no column names the questions; loaded when files are put in one order.
    rules : Rules
        How unanswered questions and missing confidences are counted.
    absent : tuple of str
        Confidences that the user named and that no answer has.
    model_count : int
        How many models gave the answers, by a column of the file; 1 where none says it.
    column_of_role : dict
        Role -> the column that was taken for it, in words: its name, several names, or a name with an explanation in
        brackets.
    notes : tuple of str
        What was counted or left out, and how the user can change it.

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
    cost: np.ndarray | None = None
    unanswerable: np.ndarray | None = None
    loss_name: str = "zero_one"
    labels: Values | None = None
    prediction: Values | None = None
    features: dict[str, np.ndarray] = field(default_factory=dict)
    categories: dict[str, np.ndarray] = field(default_factory=dict)
    ids: Column | None = None
    rules: Rules = field(default_factory=lambda: Rules().settled())
    absent: tuple[str, ...] = ()
    model_count: int = 1
    column_of_role: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.loss)

    @property
    def has_confidence(self) -> bool:
        """Whether there is at least one column of confidences in `signals`."""
        return bool(self.signals)

    @property
    def is_graded(self) -> bool:
        """Whether losses say right (0), wrong (1) or partly right; False for losses of another kind."""
        return self.loss_name != "loss"

    @property
    def scored(self) -> np.ndarray:
        """True for rows that were scored, or need no score since there is no answer."""
        return ~np.isnan(self.loss) | ~self.answered

    @property
    def accuracy(self) -> float:
        """Accuracy over the scored rows, where no answer counts as wrong."""
        return 1 - float(self.losses_with_unanswered_wrong(self.scored).mean())

    @property
    def accuracy_answered(self) -> float:
        """Accuracy over the scored answers; NaN where there are none."""
        rows = self.scored & self.answered
        return 1 - float(self.losses_with_unanswered_wrong(rows).mean()) if rows.any() else float("nan")

    @property
    def unanswered(self) -> float:
        """Share of the scored rows without an answer."""
        return float((~self.answered[self.scored]).mean())

    @property
    def share_without_confidence(self) -> float:
        """Share of the scored answers that lack at least one of the confidences; 0 where there are no confidences."""
        rows = self.answered & self.scored
        if not self.has_confidence or not rows.any():
            return 0.0
        return float((~self._has_all_confidences()[rows]).mean())

    def _has_all_confidences(self) -> np.ndarray:
        """Return for each row whether it has every confidence."""
        return np.all([np.isfinite(signal) for signal in self.signals.values()], axis=0)

    def losses_with_unanswered_wrong(self, rows: np.ndarray) -> np.ndarray:
        """Return the losses of the rows of a mask, where no answer counts as wrong."""
        return np.where(self.answered, self.loss, 1.0)[rows]

    def graded_answers(self) -> GradedAnswers:
        """Return the scored rows as graded answers, one each; a question without an answer is not attempted.

        Scored rows have a grade, or need none since there is no answer. Only for answers that are right, wrong or
        partly right (`is_graded`), whose losses lie between 0 (right) and 1 (wrong). `unanswerable` says of each row
        whether its question has no answer; None where the file does not say it.
        """
        rows = self.scored  # a mask
        attempted = self.answered[rows]
        return GradedAnswers(
            # how right each answer is, from 0 to 1
            right=np.where(attempted, 1 - self.losses_with_unanswered_wrong(rows), 0.0),
            attempted=attempted,
            unanswerable=None if self.unanswerable is None else self.unanswerable[rows],
        )

    def find_clusters(self) -> np.ndarray | None:
        """Return the cluster of each row: its question (with its task), where some question was asked more than once.

        Otherwise the clusters of the file, or None where it has none. A row that does not name its question is a
        cluster of its own.
        """
        if self.question is None:
            return self.clusters
        is_named = has_value(self.question)  # for each row: is the cell neither empty nor NaN?
        names = [
            name if is_named[row] else f"(row {row + 1})"
            for row, name in enumerate(as_texts(self.question).tolist())
        ]
        if self.task is not None:
            names = [f"{task}: {name}" for task, name in zip(as_texts(self.task).tolist(), names)]
        # fewer names than rows (`n`): some question repeats
        return np.array(names, dtype=object) if len(set(names)) < self.n else self.clusters

    def row_ids(self) -> Column | None:
        """Return what tells the rows apart: the question, with its task and epoch where questions repeat.

        Where that does not tell them apart either, a column of ids, if there is one.
        """
        if self.question is None:
            return self.ids
        keys = make_distinct(as_texts(self.question).tolist(), {"task": self.task, "epoch": self.epoch})
        if len(set(keys)) < self.n and self.ids is not None:
            return self.ids
        return Column.of(TextValues.of(keys))

    @property
    def questions(self) -> int:
        """Number of different questions."""
        repeats = self.find_clusters()
        return self.n if repeats is None else len(np.unique(repeats))

    def summary_lines(self) -> list[str]:
        """Return which column was taken for what, and what was counted, a line each."""
        columns_used = "; ".join(
            f"{role}: {description}" for role, description in self.column_of_role.items()
        )
        return [f"{columns_used}.", *self.notes]

    def fields(self, rules: Rules | None = None) -> dict[str, Any]:
        """Return keyword arguments of `Predictions` for the rows that count; all confidences are on the same rows.

        Rows that were not scored are left out, and answers that lack one of the confidences too unless `rules.missing`
        is "last". A question that the model did not answer is, by `rules.unanswered`, "wrong" and ranked last (its row
        is marked in "refused"), or "abstained" (marked in "abstained", and its loss is never read). "unanswerable"
        marks questions that have no right answer, whatever the model did. `rules` replace those that the log was read
        by; what they leave open (None) gets the default for one file. The log must have a confidence. `answered` is a
        mask of the rows with an answer, `scored` one of those that have a loss or need none since there is no answer.

        DataError where no row is left, or where an unanswered question is to count as wrong and the losses are not
        those of right and wrong answers.
        """
        rules = (rules or self.rules).settled(loss_name=self.loss_name)  # fills in what they leave open
        if rules.unanswered == "wrong" and not self.is_graded:
            raise file_error(
                self.path, "an unanswered question can count as wrong only where answers are right or wrong."
            )
        rows = self.scored  # a mask of the rows that count
        if rules.missing != "last":
            rows = rows & (self._has_all_confidences() | ~self.answered)
        # the loss of an abstention is never read
        rows_with_loss = rows if rules.unanswered == "wrong" else rows & self.answered
        if not rows_with_loss.any():
            raise file_error(self.path, "no question has an answer with a score and a confidence.")
        # the same numbers, and one below all others for a row without an answer or a confidence
        filled_signals = {
            name: _fill_with_lowest(signal, self.answered)[rows] for name, signal in self.signals.items()
        }
        fields: dict[str, Any] = {
            "n": int(rows.sum()),
            "signals": filled_signals,  # confidences by name
            "gapped_signals": {  # the same, NaN for a missing one
                name: np.where(np.isfinite(signal), signal, np.nan)[rows]
                for name, signal in self.signals.items()
            },
            "features": {name: numbers[rows] for name, numbers in self.features.items()},
            "categories": {name: texts[rows] for name, texts in self.categories.items()},
            "confidence": next(iter(filled_signals.values())),  # the first ranks the answers
            "loss": self.losses_with_unanswered_wrong(rows),
            "loss_name": self.loss_name,
        }
        columns = {
            "groups": self.groups,
            "sample_weight": self.sample_weight,
            "cost": self.cost,  # of each answer
            "unanswerable": self.unanswerable,
            "prediction": self.prediction,
            "label_words" if isinstance(self.labels, TextValues) else "labels": self.labels,
            "clusters": self.find_clusters(),
        }
        fields |= {name: values[rows] for name, values in columns.items() if values is not None}
        if rules.unanswered == "abstained" and not self.answered[rows].all():
            fields["abstained"] = ~self.answered[rows]
        elif not self.answered[rows].all():  # they count as wrong
            fields["refused"] = ~self.answered[rows]
        ids = self.row_ids()  # a column, loaded only where files are put in one order
        if ids is not None:
            fields["ids"] = ids.rows(rows)
        return fields

    def __repr__(self) -> str:
        signals = ", ".join(self.signals) or "no confidence"
        return f"Log({display_name(self.path)}, {self.n:,} rows, {signals}, {self.tool})"


def _fill_with_lowest(confidence: np.ndarray, answered: np.ndarray) -> np.ndarray:
    """Return a confidence in which rows without an answer or without a finite number are tied below all others.

    They get the next float below the smallest confidence; 0 where no row has an answer with a confidence.
    """
    has_rank = np.isfinite(confidence) & answered
    lowest = np.nextafter(confidence[has_rank].min(), -np.inf) if has_rank.any() else 0.0
    return np.where(has_rank, confidence, lowest)


def make_distinct(ids: list[str], columns: Mapping[str, Values | None]) -> list[str]:
    """Append the values of columns to ids, one column after the other, as long as some ids repeat.

    `columns` maps the titles that are written before the values to the columns; None where a column is missing.
    """
    for title, column in columns.items():
        if column is not None and len(set(ids)) < len(ids):
            ids = [
                f"{sample_id}, {title} {value}" for sample_id, value in zip(ids, as_texts(column).tolist())
            ]
    return ids
