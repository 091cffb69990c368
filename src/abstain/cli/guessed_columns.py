"""Guesses of `abstain describe`: columns of a plain table that may say right or wrong, or be a confidence.

They are only to be tried and shown: nothing is read by such a guess.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from abstain.errors import AbstainError
from abstain.formats import OpenedTable, TextValues
from abstain.formats.columns import has_value
from abstain.formats.loaded_columns import MAX_GRADES, TRUTH_WORDS, explain_grades
from abstain.formats.safety import count_noun, display_name

_MAX_ATTEMPTS = 12  # combinations of columns that are tried for a table without known columns
_MAX_GUESSED_SIZE = 64 << 20  # bytes of a file that is read again for each of these
# Words in the names of columns that may hold right or wrong, a confidence, an uncertainty, right and given answers.
_PLAIN_VERDICT_WORDS = ("correct", "right", "match", "accura", "success", "pass", "resolved")
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
_MEAN_WORDS = {"mean", "avg", "average"}
_ERROR_BAR_WORDS = {"stderr", "stdev", "std"}
# Metrics that only a set of answers has, and counts of a confusion matrix.
_SET_METRIC_WORDS = {"stderr", "auroc", "auc", "ece", "aurc"}
_CONFUSION_WORDS = {"tp", "fp", "tn", "fn"}
_SHARE_WORDS = {"accuracy", "rate", "rates", "coverage"}
_SUMMARY_WORDS = {
    *_MEAN_WORDS, *_ERROR_BAR_WORDS, *_SET_METRIC_WORDS, *_CONFUSION_WORDS, *_SHARE_WORDS, "bin", "bins",
}  # fmt: skip
_MIN_SHARE_JUDGED = 0.1  # of the rows; with fewer, the column is one of a single test or step
_MAX_SUMMARY_ROWS = 100  # of a table that is a summary only by several weaker signs
_MANY_SUMMARY_COLUMNS = 4  # beside which only a plain name such as `correct` says right or wrong
_MIN_LARGE_COUNT = 100  # a number of right answers like this is no number of attempts at one question
_LISTED_SUMMARY_NAMES = 4
_PLAIN_GRADE_WORDS = ("grade", "verdict", "judgement", "judgment")
_GRADE_WORDS = (*_PLAIN_GRADE_WORDS, "label")
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
        # choices of a column of labels with one of predictions, and those of them that are equal in no row
        self._answers, self._unequal_answers = self._find_answers()
        # path of a table that looks like a summary ("" where there is one table) -> its columns that say so
        self._summaries = self._find_summaries()

    def choices(self) -> list[dict[str, str]]:
        """Return choices of columns, by role, that the names of columns make likely; at most `_MAX_ATTEMPTS`.

        Each has either a column of right and wrong, or right and given answers; and a confidence or an uncertainty, if
        the name of some column makes it likely. Columns of different tables of a JSON file are not combined, and tables
        that look like summaries are left out. The likeliest come first. `self._verdicts` are columns that may say right
        or wrong, the likeliest first, and `self._answers` choices of labels with predictions. The caller tries
        them in this order, by reading the file again. A choice such as {"correct": "acc", "confidence": "p_max"} maps
        roles to columns.
        """
        # columns that may say right or wrong; constants and means are less likely if their names do not say it plainly
        likely = [
            name
            for name in self._verdicts
            if _says_verdict(name) or (_is_varying(self._values[name]) and not _MEAN_WORDS & _words_of(name))
        ]
        unlikely = [name for name in self._verdicts if name not in likely]
        # Free text is seldom equal word by word, so any verdict comes before it.
        free_texts = [choice for choice in self._answers if _is_free_text(self._values[choice["labels"]])]
        verdicts = [
            *({"correct": name} for name in likely),
            # a preference runs from 1 to 2, so one less is a number between wrong (0) and right (1)
            *({"correct": f"{name}-1"} for name in self._find_preferences()),
            *(choice for choice in self._answers if choice not in free_texts),
            *({"correct": name} for name in unlikely),
            *free_texts,
        ]
        ranked = []
        for number, verdict in enumerate(verdicts):
            table = self._table_of(next(iter(verdict.values())))  # all columns of a choice are of one table
            if table in self._summaries:
                continue
            # without a confidence, the verdict alone is a choice
            for position, confidence in enumerate(self._find_confidences(table, verdict) or [{}]):
                # No column twice: a word such as "score" may stand for right and wrong, and for a confidence.
                # Several confidences are one text, as in {"confidence": "a,b"}.
                if set(verdict.values()).isdisjoint(",".join(confidence.values()).split(",")):
                    ranked.append((number + position, number, {**verdict, **confidence}))
        # in pairs: the first verdicts with the first confidences, before all confidences of one verdict
        ranked.sort(key=lambda choice: choice[:2])
        return [columns for _, _, columns in ranked[:_MAX_ATTEMPTS]]

    def explain_grades(self) -> str:
        """Return the sentence that asks what the words or numbers of a column of grades mean; "" without such a one."""
        column = self._find_grades()
        if not column:
            return ""
        values = self._values[column]
        if isinstance(values, TextValues):
            return explain_grades(column, values.distinct_texts)
        return explain_grades(column, [f"{number:g}" for number in np.unique(values[~np.isnan(values)])])

    def explain_unequal_answers(self) -> str:
        """Return the sentence on right and given answers that are never equal; "" if there is another way to read."""
        if not self._unequal_answers or self.choices():
            return ""
        names = [f"`{display_name(self._unequal_answers[0][role])}`" for role in ("prediction", "labels")]
        return (
            f"{' and '.join(names)} are equal in no row, so no command compares them. Free text has to be graded by a "
            f"judge or a person: name the column of the verdicts with -c correct=NAME."
        )

    def explain_summary(self) -> str:
        """Return a sentence on tables that look like summaries, which say nothing of single answers.

        "" where there are none, or where another table of the file may hold answers. `self._summaries` maps the path of
        such a table ("" where the file has one table) to its columns that look like those of a summary, at least one.
        """
        if not self._summaries or self.choices():
            return ""
        names = [name for columns in self._summaries.values() for name in columns]
        row_count = max(len(self._values[name]) for name in names)
        listed = ", ".join(f"`{display_name(name)}`" for name in names[:_LISTED_SUMMARY_NAMES])
        return (
            f"looks like a summary of {count_noun(row_count, 'row')} ({listed}), which says nothing of single answers. "
            f"Name the file that has one row per answer, with a column of right (1) and wrong (0)."
        )

    def _find_summaries(self) -> dict[str, list[str]]:
        """Return the tables that look like summaries of answers, each with the columns that say so.

        Such a table has neither a column of right and wrong nor right and given answers, and one of these: a metric
        that only a set of answers has (AUROC, ECE), counts of a confusion matrix, large numbers of right answers beside
        an accuracy, many accuracies and rates, or few rows with several names such as mean, rate and accuracy. A column
        of standard errors makes it a summary in any case.

        A table is the path of a list in a JSON file, "" where the file has one table. Only columns of numbers count,
        by the words in their names; the constants of this module hold these words.
        """
        summaries = {}
        for table in dict.fromkeys(map(self._table_of, self._names)):  # each table once
            words_by_name = {
                name: self._all_words_of(name)
                for name in self._names
                if self._table_of(name) == table and not isinstance(self._values[name], TextValues)
            }
            columns = [name for name, words in words_by_name.items() if words & _SUMMARY_WORDS]
            share_count = sum(bool(words & _SHARE_WORDS) for words in words_by_name.values())
            words: set[str] = set().union(*words_by_name.values())
            has_few_rows = all(len(self._values[name]) <= _MAX_SUMMARY_ROWS for name in columns)
            has_counts = any(
                _says_verdict(name) and _holds_large_counts(self._values[name]) for name in words_by_name
            )
            says_summary = (
                bool(words & _SET_METRIC_WORDS)
                or len(words & _CONFUSION_WORDS) > 1
                or (has_counts and bool(columns))
                or share_count >= _MANY_SUMMARY_COLUMNS
                or (has_few_rows and len(columns) > 1)
            )
            # many such columns in few rows: then a score is no verdict, and only a plain name such as `correct` is one
            is_large = has_few_rows and len(columns) >= _MANY_SUMMARY_COLUMNS
            if "stderr" in words or (says_summary and not self._has_answers(table, columns, is_large)):
                summaries[table] = columns
        return summaries

    def _has_answers(self, table: str, summary_columns: list[str], is_large: bool) -> bool:
        """Return whether a table has right and wrong answers, or right and given ones.

        `summary_columns` are its columns that are named as those of summaries; answers are not among them. `is_large`
        says that there are many of them in few rows, so that only a plain name such as `correct` says right and wrong.
        `table` is the path of a table in a JSON file, "" where there is one. `self._verdicts` are columns that may say
        right or wrong, and `self._answers` choices such as {"labels": "gold", "prediction": "answer"}.
        """
        has_verdicts = any(
            self._table_of(name) == table
            # rank 0: the whole name says right or wrong; `_says_verdict`: at least a word of it does
            and (_rank_of_name(name) == 0 if is_large else _says_verdict(name))
            and _holds_truth_values(self._values[name])
            and _is_varying(self._values[name])
            for name in self._verdicts
        )
        return has_verdicts or any(
            self._table_of(choice["labels"]) == table and set(choice.values()).isdisjoint(summary_columns)
            for choice in self._answers
        )

    def _find_verdicts(self) -> list[str]:
        """Return the columns that may say right or wrong, the likeliest first.

        Those whose names say it come before others, means last, values of both kinds before a constant, right and wrong
        before numbers between them. In a table whose name says that its answers are the wrong ones, such as `errors`, a
        constant says nothing. `self._names` are the columns, those of numbers first, and `self._values` their values by
        name. "Verdict" stands for right or wrong everywhere here. A table is the path of a list in a JSON file, ""
        where there is one; it comes before a dot in the names of its columns.
        """
        names = [
            name
            for name in self._names
            if _may_say_verdict(self._name_in_table(name))
            and not _says_something_else(name)  # an uncertainty, a number, a count or a fault
            # whole words of the name, such as "ece" or "stderr"
            and not (_SET_METRIC_WORDS | _ERROR_BAR_WORDS) & _words_of(name)
            and _holds_truth_values_or_shares(self._values[name])
            and has_value(self._values[name]).mean() >= _MIN_SHARE_JUDGED  # share of rows that are not empty
            and (_is_varying(self._values[name]) or not _says_something_else(self._table_of(name)))
        ]

        def rank(name: str) -> tuple[int, bool, bool, bool]:
            values = self._values[name]
            is_mean = bool(_MEAN_WORDS & _words_of(name))
            # smaller comes first; `_rank_of_name` is 0 for the plainest name and 3 for a score or the like
            return _rank_of_name(name), is_mean, not _is_varying(values), not _holds_truth_values(values)

        # the name of a confidence, such as `confidence_score`, says right or wrong only by a word of its own
        names = [
            name for name in names if _says_verdict(name) or not _find_named([name], _PLAIN_CONFIDENCE_WORDS)
        ]
        return sorted(names, key=rank)

    def _find_preferences(self) -> list[str]:
        """Return the columns of preferences from 1 to 2: which of two answers a judge prefers, as AlpacaEval writes."""
        return [
            name
            for name in self._names
            if _is_preference(name)
            and varies(self._values[name])
            and np.nanmin(self._values[name]) >= 1
            and np.nanmax(self._values[name]) <= 2
        ]

    def _find_answers(self) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
        """Return choices of right and given answers of one kind and one table, where names make them likely.

        A choice, such as {"labels": "gold", "prediction": "answer"}, is two columns: both of texts or both of numbers.
        A table is a list in a JSON file. The second list holds the choices that are equal in no row, so that nothing
        comes of comparing them. Where a column holds grades, right answers that are free text are left out: a judge has
        graded the meaning of the given answers, which need not be equal to them.
        """
        # without those named as an uncertainty, a number of a row, a count or a fault, such as `error`
        names = [name for name in self._names if not _says_something_else(name)]
        # names that contain one of the words, in the order of `names`
        labels = _find_named(names, _LABEL_WORDS)
        predictions = [name for name in _find_named(names, _PREDICTION_WORDS) if name not in labels]
        # two columns of each at most, since every choice is tried by reading the file again
        choices = [
            {"labels": label, "prediction": name}
            for label in labels[:2]
            for name in predictions[:2]
            if isinstance(self._values[label], TextValues) == isinstance(self._values[name], TextValues)
            and self._table_of(label) == self._table_of(name)
            # at least two different values in one of them: two constants say nothing
            and (_is_varying(self._values[label]) or _is_varying(self._values[name]))
        ]
        if self._find_grades():
            choices = [choice for choice in choices if not _is_free_text(self._values[choice["labels"]])]
        agreeing = [
            choice
            for choice in choices
            if _ever_equal(self._values[choice["labels"]], self._values[choice["prediction"]])
        ]
        return agreeing, [choice for choice in choices if choice not in agreeing]

    def _find_grades(self) -> str:
        """Return the column of grades, whose words or numbers the user has to explain; "" where there is none.

        It holds few short words under a name such as `grade` or `verdict` (`_PLAIN_GRADE_WORDS`). Under the name
        `label`, the only further one in `_GRADE_WORDS`, such words are grades only beside columns with the right and
        the given answers, and if no given answer is one of them: otherwise the column holds right answers itself. Where
        no column has such words, one of few whole numbers with an unclear meaning is taken, such as -1, 0 and 1.
        """
        for name in _find_named(self._names, _GRADE_WORDS):
            values = self._values[name]
            words = (
                {text for text in values.distinct_texts if text} if isinstance(values, TextValues) else set()
            )
            is_word_like = all(len(word) <= _MAX_GRADE_LENGTH and not _is_a_number(word) for word in words)
            # truth values (0, 1, true, false, yes, no) need no explanation
            if not 1 < len(words) <= MAX_GRADES or not is_word_like or _holds_truth_values(values):
                continue
            if _find_named([name], _PLAIN_GRADE_WORDS):
                return name
            further_columns = [column for column in self._names if column != name]
            predictions = _find_named(further_columns, _PREDICTION_WORDS)
            given_answers = {text for column in predictions for text in _distinct_texts(self._values[column])}
            has_right_answers = bool(_find_named(further_columns, _LABEL_WORDS))
            if predictions and has_right_answers and words.isdisjoint(given_answers):
                return name
        return next(filter(self._holds_number_grades, self._names), "")  # the first such column

    def _holds_number_grades(self, name: str) -> bool:
        """Return whether a column holds few whole numbers that have to be explained before they say right or wrong.

        Either its name says right or wrong and some numbers are negative, or it is a preference that may be 0, a draw.
        The user explains them by --grades. Every column here has at least one number.
        """
        values = self._values[name]
        if isinstance(values, TextValues) or _says_something_else(name):
            return False
        numbers = np.unique(values[~np.isnan(values)])  # in rising order
        is_whole = bool((numbers == np.floor(numbers)).all())
        is_unclear = (_says_verdict(name) and numbers[0] < 0) or (_is_preference(name) and numbers[0] == 0)
        return is_whole and 1 < len(numbers) <= MAX_GRADES and is_unclear

    def _find_confidences(self, table: str, verdict: dict[str, str]) -> list[dict[str, str]]:
        """Return choices of a confidence or an uncertainty among the columns of one table, the confidences first.

        Columns of true and false are verdicts or conditions, and those that end in the letter of an option hold one
        probability per option; neither is a confidence. A score may be one, but not a mean score, and not beside a
        verdict that is said by a score as well. `verdict` maps "correct", or "labels" and "prediction", to columns.
        `table` is the path of a table in a JSON file, "" where there is one. A choice maps "confidence" or
        "uncertainty" to a column, or to several with commas between them.
        """
        # 3 is the rank of a score or the like; without "correct" the verdict is two columns of answers, and no score
        is_verdict_by_score = _rank_of_name(verdict.get("correct", "correct")) == 3
        column_by_name = {}  # by the name within the table: a word in the table's own name says nothing of its columns
        for column, values in self._values.items():
            name = self._name_in_table(column)
            if (
                self._table_of(column) == table
                and varies(values)  # at least two different numbers
                and not _holds_truth_values(values)
                and not _COUNT_OR_FAULT_WORDS & _words_of(name)
            ):
                column_by_name[name] = column
        names = _leave_out_options(list(column_by_name))
        # a name with words of both is that of a confidence, and one that says right or wrong must say confidence, too
        uncertainties = [
            name for name in _find_named(names, _UNCERTAINTY_WORDS) if "conf" not in name.lower()
        ]
        # the words for confidences without "score", which may be a verdict as well
        plain_names = _find_named(names, _PLAIN_CONFIDENCE_WORDS)
        confidences = [
            column_by_name[name]
            for name in _find_named(names, _CONFIDENCE_WORDS)
            if name not in uncertainties
            and (not _says_verdict(name) or _says_confidence(name))
            and (name in plain_names or not (is_verdict_by_score or _MEAN_WORDS & _words_of(name)))
        ]
        choices = [{"confidence": column} for column in confidences]
        if len(confidences) > 1:  # the second choice is all of them: the evaluation has a column for each
            choices.insert(1, {"confidence": ",".join(confidences)})
        return choices + [{"uncertainty": column_by_name[name]} for name in uncertainties]

    def _name_in_table(self, name: str) -> str:
        """The name of a column without the path of its table, where a JSON file holds several."""
        return name.removeprefix(f"{self._table_of(name)}.")

    def _all_words_of(self, name: str) -> set[str]:
        """Return the words in all parts of a dotted name but the path of its table."""
        return set().union(*map(_words_of, self._name_in_table(name).split(".")))

    def _table_of(self, name: str) -> str:
        """The path of the table that a column belongs to, where a JSON file holds several; "" otherwise."""
        paths = [table for table in self._source.tables if name.startswith(f"{table}.")]
        return max(paths, key=len, default="")


def _load_vectors(source: OpenedTable) -> dict[str, Any]:
    """Return the columns with one number or text per row that hold anything, by name; empty for a large file.

    Texts come as TextValues, numbers as an array. Files of more than `_MAX_GUESSED_SIZE` bytes would be too slow to
    read again for each guess. Empty for a folder, too.
    """
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
    own_name = name.rpartition(".")[2].lower()  # the last part of a dotted name, as for `_words_of` below
    if own_name in _VERDICT_NAMES:
        return 0
    if _words_of(name) & _WORDS_THAT_SAY_VERDICT:
        return 1
    # 2 where one of these is anywhere in the whole name, also inside a word
    return 2 if _find_named([name], _PLAIN_VERDICT_WORDS) else 3


def _may_say_verdict(name: str) -> bool:
    """Return whether a name contains what may stand for right or wrong; a score of the truth does not.

    >>> [_may_say_verdict(name) for name in ("Acc@10", "judge_score", "accepted", "target_scores.A")]
    [True, True, False, False]
    """
    if _rank_of_name(name) < 3:
        return True
    return bool(_find_named([name], _VERDICT_WORDS)) and not _find_named([name], _LABEL_WORDS)


def _says_verdict(name: str) -> bool:
    """Return whether the name of a column says right or wrong by itself, or by a word of its own."""
    return _rank_of_name(name) < 2


def _is_preference(name: str) -> bool:
    """Return whether the last part of a dotted name is `preference`."""
    return name.rpartition(".")[2].lower() == "preference"


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


def _leave_out_options(names: list[str]) -> list[str]:
    """Return the names without those of columns that hold one number per option: `p.A`, `p.B`.

    >>> _leave_out_options(["p.A", "p.B", "conf_a", "sure"])
    ['conf_a', 'sure']
    """
    # the part before a single letter, by name
    stem_of_name = {name: name[:-1] for name in names if re.search(r"[._ -][A-Za-z]$", name)}
    counts = Counter(stem_of_name.values())
    return [name for name in names if counts[stem_of_name.get(name, "")] < 2]


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


def _holds_large_counts(values: Any) -> bool:
    """Return whether a column of numbers holds whole numbers, some of which are large."""
    numbers = np.asarray(values, np.float64)
    present = numbers[np.isfinite(numbers)]
    is_whole = bool((present == np.floor(present)).all())
    return is_whole and bool((present >= _MIN_LARGE_COUNT).any())


def _ever_equal(labels: Any, predictions: Any) -> bool:
    """Return whether right and given answers, both texts or both numbers, are equal in some row.

    Blank texts, and white space around others, do not count.
    """
    if len(labels) != len(predictions):
        return False
    if isinstance(labels, TextValues):
        pairs = zip(labels.texts(), predictions.texts())
        return any(right.strip() == given.strip() != "" for right, given in pairs)
    return bool((labels == predictions).any())


def _is_free_text(values: Any) -> bool:
    """Return whether most texts of a column differ from row to row, as sentences do and letters do not."""
    return isinstance(values, TextValues) and 2 * len(values.distinct_texts) > len(values)


def _is_a_number(text: str) -> bool:
    """Return whether a text begins like a number."""
    return re.match(r"[-+.]?[0-9]", text) is not None
