"""Guesses of `abstain describe`: columns of a plain table that may say right or wrong, or be a confidence.

They are only to be tried and shown: nothing is read by such a guess.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from abstain.errors import AbstainError
from abstain.formats import OpenedTable, TextValues
from abstain.formats.columns import has_value
from abstain.formats.loaded_columns import TRUTH_WORDS, explain_grades
from abstain.formats.safety import count_noun, display_name

_MAX_ATTEMPTS = 12  # combinations of columns that are tried for a table without known columns
_MAX_GUESSED_SIZE = 64 << 20  # bytes of a file that is read again for each of these
# Words in the names of columns that may hold right or wrong, a confidence, an uncertainty, right and given answers.
_PLAIN_VERDICT_WORDS = ("correct", "right", "match", "acc", "success", "pass", "resolved")
_VERDICT_WORDS = (*_PLAIN_VERDICT_WORDS, "reward", "score")
_PLAIN_CONFIDENCE_WORDS = ("conf", "prob", "certain", "sure", "likelihood", "agreement")
_CONFIDENCE_WORDS = (*_PLAIN_CONFIDENCE_WORDS, "score")
_UNCERTAINTY_WORDS = ("uncertain", "entropy", "perplexity", "variance")
_LABEL_WORDS = ("truth", "label", "target", "gold", "expected", "reference", "correct_answer", "standard")
_PREDICTION_WORDS = ("pred", "extracted", "response", "output", "answer")
# Names that say right or wrong by themselves, and words that say it in longer names; others may be any score.
_VERDICT_NAMES = {"correct", "is_correct", "success", "resolved", "passed", "pass", "match", "acc"}
_WORDS_THAT_SAY_VERDICT = _VERDICT_NAMES | {"right", "reward", "successful"}
# Words in names of columns that are neither: what was counted, numbered or measured of a row, and what went wrong.
_COUNT_OR_FAULT_WORDS = {
    "id", "ids", "idx", "index", "length", "len", "count", "error", "errors", "fail", "fails", "failed", "failure",
    "failures", "incorrect", "wrong",
}  # fmt: skip
_SUMMARY_WORDS = {
    "accuracy", "mean", "avg", "average", "std", "stderr", "stdev", "rate", "rates", "auroc", "auc", "ece", "aurc",
    "bin", "bins", "coverage",
}  # fmt: skip
_MIN_SHARE_JUDGED = 0.1  # of the rows; with fewer, the column is one of a single test or step
_MAX_SUMMARY_ROWS = 100
_LISTED_SUMMARY_NAMES = 4
_PLAIN_GRADE_WORDS = ("grade", "verdict", "judgement", "judgment")
_GRADE_WORDS = (*_PLAIN_GRADE_WORDS, "label")
_MAX_GRADES = 6  # different words in a column of grades
_MAX_GRADE_LENGTH = 20  # characters of one of them


class GuessedColumns:
    """Guesses about the columns of an opened plain table that is not too large to be read again for each."""

    def __init__(self, source: OpenedTable) -> None:
        self._source = source
        self._values = _load_vectors(source)  # by name of the column
        numeric_names = [name for name, values in self._values.items() if not isinstance(values, TextValues)]
        other_names = [name for name in self._values if name not in numeric_names]
        self._names = [*numeric_names, *other_names]
        self._verdicts = self._find_verdicts()  # columns that may say right or wrong, the likeliest first
        self._answers = self._find_answers()  # choices of a column of labels with one of predictions

    def choices(self) -> list[dict[str, str]]:
        """Return choices of columns, by role, that the names of columns make likely; at most `_MAX_ATTEMPTS`.

        Each has either a column of right and wrong, or right and given answers; and a confidence or an uncertainty, if
        the name of some column makes it likely. Columns of different tables of a JSON file are not combined. The
        likeliest come first. Empty where the table looks like a summary. `self._verdicts` are columns that may say
        right or wrong, the likeliest first, and `self._answers` choices of labels with predictions.
        """
        if self.explain_summary():
            return []
        # columns that may say right or wrong; less likely are constant ones whose names do not say it plainly
        likely = [name for name in self._verdicts if _says_verdict(name) or _is_varying(self._values[name])]
        unlikely = [name for name in self._verdicts if name not in likely]
        verdicts = (
            [{"correct": name} for name in likely] + self._answers + [{"correct": name} for name in unlikely]
        )
        ranked = []
        for number, verdict in enumerate(verdicts):
            table = self._table_of(next(iter(verdict.values())))  # all columns of a choice are of one table
            for position, confidence in enumerate(self._find_confidences(table) or [{}]):
                # No column twice: a word such as "score" may stand for right and wrong, and for a confidence.
                # Several confidences are one text, as in {"confidence": "a,b"}.
                if set(verdict.values()).isdisjoint(",".join(confidence.values()).split(",")):
                    ranked.append((number + position, number, {**verdict, **confidence}))
        # in pairs: the first verdicts with the first confidences, before all confidences of one verdict
        ranked.sort(key=lambda choice: choice[:2])
        return [columns for _, _, columns in ranked[:_MAX_ATTEMPTS]]

    def explain_grades(self) -> str:
        """Return the sentence that asks what the words of a column of grades mean; "" where there is none."""
        column = self._find_grades()
        return explain_grades(column, self._values[column].distinct_texts) if column else ""

    def explain_summary(self) -> str:
        """Return a sentence on a table that looks like a summary, which says nothing of single answers; "" for others.

        It has few rows, several columns of numbers whose names are those of summaries (accuracy, mean, rate, bins), and
        neither a column with right and wrong answers nor right and given ones. `self._values` holds the loaded columns
        by name. `self._verdicts` are those that may say right or wrong, and `self._answers` choices of a column of
        labels with one of predictions.
        """
        row_count = max((len(values) for values in self._values.values()), default=0)
        summary_columns = [
            name
            for name in self._names
            if not isinstance(self._values[name], TextValues) and _SUMMARY_WORDS & _words_of(name)
        ]
        has_verdicts = any(
            _says_verdict(name)
            and _holds_truth_values(self._values[name])
            and _is_varying(self._values[name])
            for name in self._verdicts
        )
        has_answers = any(set(choice.values()).isdisjoint(summary_columns) for choice in self._answers)
        if not 0 < row_count <= _MAX_SUMMARY_ROWS or len(summary_columns) < 2 or has_verdicts or has_answers:
            return ""
        listed = ", ".join(f"`{display_name(name)}`" for name in summary_columns[:_LISTED_SUMMARY_NAMES])
        return (
            f"looks like a summary of {count_noun(row_count, 'row')} ({listed}), which says nothing of single answers. "
            f"Name the file that has one row per answer, with a column of right (1) and wrong (0)."
        )

    def _find_verdicts(self) -> list[str]:
        """Return the columns that may say right or wrong, the likeliest first.

        Those whose names say it come before others, values of both kinds before a constant, right and wrong before
        numbers between them. `self._names` are the columns, those of numbers first, and `self._values` their values by
        name.
        """
        names = [
            name
            for name in _find_named(self._names, _VERDICT_WORDS)
            if not _says_something_else(name)
            and _holds_truth_values_or_shares(self._values[name])
            and has_value(self._values[name]).mean() >= _MIN_SHARE_JUDGED
        ]

        def rank(name: str) -> tuple[int, bool, bool]:
            values = self._values[name]
            return _rank_of_name(name), not _is_varying(values), not _holds_truth_values(values)

        # the name of a confidence, such as `confidence_score`, says right or wrong only by a word of its own
        names = [
            name for name in names if _says_verdict(name) or not _find_named([name], _PLAIN_CONFIDENCE_WORDS)
        ]
        return sorted(names, key=rank)

    def _find_answers(self) -> list[dict[str, str]]:
        """Return choices of right and given answers of one kind and one table, where names make them likely.

        Where a column holds grades, right answers that are free text are left out: a judge has graded the meaning of
        the given answers, which need not be equal to them.
        """
        names = [name for name in self._names if not _says_something_else(name)]
        labels = _find_named(names, _LABEL_WORDS)
        predictions = [name for name in _find_named(names, _PREDICTION_WORDS) if name not in labels]
        # two columns of each at most, since every choice is tried by reading the file again
        choices = [
            {"labels": label, "prediction": name}
            for label in labels[:2]
            for name in predictions[:2]
            if isinstance(self._values[label], TextValues) == isinstance(self._values[name], TextValues)
            and self._table_of(label) == self._table_of(name)
            and (_is_varying(self._values[label]) or _is_varying(self._values[name]))
        ]
        if self._find_grades():
            choices = [choice for choice in choices if not _is_free_text(self._values[choice["labels"]])]
        return choices

    def _find_grades(self) -> str:
        """Return the column of few short words whose name is that of grades; "" where there is none.

        A column called `label` is one only beside others with the right and the given answers, and if no given answer
        is one of its words: otherwise it holds right answers itself.
        """
        for name in _find_named(self._names, _GRADE_WORDS):
            values = self._values[name]
            words = (
                {text for text in values.distinct_texts if text} if isinstance(values, TextValues) else set()
            )
            is_word_like = all(len(word) <= _MAX_GRADE_LENGTH and not _is_a_number(word) for word in words)
            if not 1 < len(words) <= _MAX_GRADES or not is_word_like or _holds_truth_values(values):
                continue
            if _find_named([name], _PLAIN_GRADE_WORDS):
                return name
            further_columns = [column for column in self._names if column != name]
            predictions = _find_named(further_columns, _PREDICTION_WORDS)
            given_answers = {text for column in predictions for text in _distinct_texts(self._values[column])}
            has_right_answers = bool(_find_named(further_columns, _LABEL_WORDS))
            if predictions and has_right_answers and words.isdisjoint(given_answers):
                return name
        return ""

    def _find_confidences(self, table: str) -> list[dict[str, str]]:
        """Return choices of a confidence or an uncertainty among the columns of one table, the confidences first."""
        names = [
            name
            for name, values in self._values.items()
            if self._table_of(name) == table
            and varies(values)
            and not _COUNT_OR_FAULT_WORDS & _words_of(name)
        ]
        # a name with words of both is that of a confidence, and one that says right or wrong must say confidence, too
        uncertainties = [
            name for name in _find_named(names, _UNCERTAINTY_WORDS) if "conf" not in name.lower()
        ]
        confidences = [
            name
            for name in _find_named(names, _CONFIDENCE_WORDS)
            if name not in uncertainties and (not _says_verdict(name) or _says_confidence(name))
        ]
        choices = [{"confidence": name} for name in confidences]
        if len(confidences) > 1:  # the second choice is all of them: the evaluation has a column for each
            choices.insert(1, {"confidence": ",".join(confidences)})
        return choices + [{"uncertainty": name} for name in uncertainties]

    def _table_of(self, name: str) -> str:
        """The path of the table that a column belongs to, where a JSON file holds several; "" otherwise."""
        paths = [table for table in self._source.tables if name.startswith(f"{table}.")]
        return max(paths, key=len, default="")


def _load_vectors(source: OpenedTable) -> dict[str, Any]:
    """Return the columns with one number or text per row that hold anything, by name; empty for a large file."""
    if not source.path.is_file() or source.path.stat().st_size > _MAX_GUESSED_SIZE:
        return {}
    vectors = {}
    for name, column in source.columns.items():
        try:
            values = column.load()
        except AbstainError:  # objects, or a mixture of texts and numbers
            continue
        if (isinstance(values, TextValues) or values.ndim == 1) and has_value(values).any():
            vectors[name] = values
    return vectors


def _words_of(name: str) -> set[str]:
    """Return the words in the last part of a dotted name, in lower case.

    >>> sorted(_words_of("metricsScores.passRate_2"))
    ['2', 'pass', 'rate']
    """
    own_name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.rpartition(".")[2])
    return set(re.split(r"[^a-z0-9]+", own_name.lower()))


def _rank_of_name(name: str) -> int:
    """Return 0 for a name that says right or wrong by itself, 1 by a word, 2 by a part, 3 for a score or the like.

    >>> [_rank_of_name(name) for name in ("metrics.success", "db_match", "passes.relevance", "judge_score")]
    [0, 1, 2, 3]
    """
    own_name = name.rpartition(".")[2].lower()
    if own_name in _VERDICT_NAMES:
        return 0
    if _words_of(name) & _WORDS_THAT_SAY_VERDICT:
        return 1
    return 2 if _find_named([name], _PLAIN_VERDICT_WORDS) else 3


def _says_verdict(name: str) -> bool:
    """Return whether the name of a column says right or wrong by itself, or by a word of its own."""
    return _rank_of_name(name) < 2


def _says_something_else(name: str) -> bool:
    """Return whether a name says that the column holds an uncertainty, a number, a count or what went wrong."""
    own_name = name.rpartition(".")[2]
    return bool(_COUNT_OR_FAULT_WORDS & _words_of(name)) or bool(_find_named([own_name], _UNCERTAINTY_WORDS))


def _says_confidence(name: str) -> bool:
    """Return whether the last part of a dotted name says that the column is a confidence."""
    return bool(_find_named([name.rpartition(".")[2]], _PLAIN_CONFIDENCE_WORDS))


def _find_named(names: list[str], words: tuple[str, ...]) -> list[str]:
    """Return the names that contain one of the words, in any case."""
    return [name for name in names if any(word in name.lower() for word in words)]


def varies(values: Any) -> bool:
    """True for a column of numbers with at least two different values."""
    return not isinstance(values, TextValues) and len(np.unique(values[np.isfinite(values)])) > 1


def _is_varying(values: Any) -> bool:
    """Return whether a column of numbers or texts holds at least two different values besides empty ones."""
    return len(_distinct_texts(values)) > 1 if isinstance(values, TextValues) else varies(values)


def _distinct_texts(values: Any) -> list[str]:
    """Return the different texts of a column but the empty one; none for numbers."""
    return [text for text in values.distinct_texts if text.strip()] if isinstance(values, TextValues) else []


def _holds_truth_values(values: Any) -> bool:
    """Return whether a column holds 0 and 1 or words for yes and no, besides empty cells."""
    if isinstance(values, TextValues):
        return all(text.strip().lower() in TRUTH_WORDS for text in values.distinct_texts)
    numbers = np.asarray(values, np.float64)
    return bool(np.isin(numbers[~np.isnan(numbers)], (0, 1)).all())


def _holds_truth_values_or_shares(values: Any) -> bool:
    """Return whether the values are right or wrong, or numbers between 0 and 1."""
    if isinstance(values, TextValues):
        return _holds_truth_values(values)
    numbers = np.asarray(values, np.float64)
    present = numbers[~np.isnan(numbers)]
    return bool(((present >= 0) & (present <= 1)).all())


def _is_free_text(values: Any) -> bool:
    """Return whether most texts of a column differ from row to row, as sentences do and letters do not."""
    return isinstance(values, TextValues) and 2 * len(values.distinct_texts) > len(values)


def _is_a_number(text: str) -> bool:
    """Return whether a text begins like a number."""
    return re.match(r"[-+.]?[0-9]", text) is not None
