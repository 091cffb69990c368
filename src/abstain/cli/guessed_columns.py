"""Guesses of `abstain describe`: columns of a plain table that may say right or wrong, or be a confidence.

They are only to be tried and shown: nothing is read by such a guess.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from abstain._tables import is_number
from abstain.cli.grade_words import look_like_grades, meanings_of_grades
from abstain.errors import AbstainError
from abstain.formats import OpenedTable, TextValues
from abstain.formats.columns import TRUTH_WORDS, as_texts, has_value
from abstain.formats.free_text import are_sentences, is_free_text, is_seldom
from abstain.formats.loaded_columns import MAX_GRADES, explain_grades
from abstain.formats.safety import count_noun, display_name

_MAX_ATTEMPTS = 12  # combinations of columns that are tried for a table without known columns
_MAX_GUESSED_SIZE = 64 << 20  # bytes of a file that is read again for each of these
# Words in the names of columns that may hold right or wrong, a confidence, an uncertainty, right and given answers.
_PLAIN_VERDICT_WORDS = ("correct", "right", "match", "accura", "success", "pass", "solved")
_VERDICT_WORDS = (*_PLAIN_VERDICT_WORDS, "reward", "score")
_PLAIN_CONFIDENCE_WORDS = ("conf", "prob", "certain", "sure", "likelihood", "agreement")
_CONFIDENCE_WORDS = (*_PLAIN_CONFIDENCE_WORDS, "score")
_UNCERTAINTY_WORDS = ("uncertain", "entropy", "perplexity", "variance", "disagreement", "inconsistency")
_LABEL_WORDS = ("truth", "label", "target", "gold", "expected", "reference", "correct_answer", "standard")
_CONDITION_WORDS = ("answerable", "answered")  # of columns that say whether there is an answer, and not which
_PREDICTION_WORDS = ("pred", "extracted", "response", "output", "answer")
# Names that say right or wrong by themselves, and words that say it in longer names; others may be any score.
_VERDICT_NAMES = {
    "correct", "is_correct", "success", "resolved", "solved", "passed", "pass", "match", "acc", "true_false",
}  # fmt: skip
_WORDS_THAT_SAY_VERDICT = _VERDICT_NAMES | {"right", "reward", "successful"}
# Words in names of columns that are neither: what was counted, numbered or measured of a row, and what went wrong.
_COUNT_OR_FAULT_WORDS = {
    "id", "ids", "idx", "index", "length", "len", "count", "error", "errors", "fail", "fails", "failed", "failure",
    "failures", "incorrect", "wrong", "unsolved", "unresolved",
}  # fmt: skip
# Words in names of columns of a detector: a number says how likely it takes an answer for wrong.
_DETECTOR_WORDS = {"hall", "hallucination", "hallucinations", "hallucinated"}
# A column that says which answers are wrong has a name of these words alone, such as `is_hallucination`.
_WORDS_FOR_WRONG = {"hallucination", "hallucinated", "incorrect", "wrong"}
_WORDS_BESIDE_WRONG = {"is", "was", "has"}
_MEAN_WORDS = {"mean", "avg", "average"}
_ERROR_BAR_WORDS = {"stderr", "stdev", "std"}
# Metrics that only a set of answers has, and counts of a confusion matrix.
_SET_METRIC_WORDS = {"stderr", "auroc", "auc", "ece", "aurc"}
_CONFUSION_WORDS = {"tp", "fp", "tn", "fn"}
_RETRIEVAL_WORDS = {"precision", "recall"}  # both together, where no column holds what was asked or answered
_TEXT_WORDS = {
    "question",
    "query",
    "prompt",
    "problem",
    "input",
    "answer",
    "response",
    "output",
    "prediction",
    "text",
}
_TOTAL_WORDS = {"total", "count", "n", "num"}  # of columns that hold of how many answers so many are right
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
_MIN_ROWS_OF_COPY = 20  # that are all equal; in fewer rows a model may be right every time
_MIN_ROWS_OF_SEPARATED = (
    20  # right and wrong ones, at least two of each, which a score separates by no chance
)
_MIN_ROWS_OF_CLASS_SCORE = 8  # that agree with the prediction by no chance


class GuessedColumns:
    """Guesses about the columns of an opened plain table that is not too large to be read again for each."""

    def __init__(self, source: OpenedTable) -> None:
        # In this order: a guess reads what was set before it. A file that is too large has no values, and no guesses.
        self._source = source
        self._values = _load_vectors(source)  # by name of the column; without those that cannot be loaded
        numeric_names = [name for name, values in self._values.items() if not isinstance(values, TextValues)]
        other_names = [name for name in self._values if name not in numeric_names]
        self._names = [*numeric_names, *other_names]
        self._grades = (
            self._find_grades()
        )  # column of grades whose words or numbers need a meaning; "" for none
        # column of grades whose words have a plain meaning ("" for none), and the meaning of each word
        self._plain_grades, self._meanings = self._find_plain_grades()
        self._verdicts = self._find_verdicts()  # columns that may say right or wrong, the likeliest first
        self._errors = self._find_errors()  # columns that say which answers are wrong
        # choices of a column of labels with one of predictions; those of them that say nothing when they are compared
        self._answers, self._incomparable_answers = self._find_answers()
        # path of a table that looks like a summary ("" where there is one table) -> its columns that say so
        self._summaries = self._find_summaries()

    def choices(self) -> list[dict[str, str]]:
        """Return choices of columns, by role, that the names of columns make likely; at most `_MAX_ATTEMPTS` (12).

        Each has either a column of right and wrong (or of errors), or right and given answers; and a confidence or an
        uncertainty, if the name of some column makes it likely. Right answers may also go with the score of class 1.
        Columns of different tables of a JSON file are not combined, and tables that look like summaries are left out.
        The likeliest come first, and the caller tries them in this order, by reading the file again. A choice such as
        {"correct": "acc", "confidence": "p_max"} maps roles to columns; `grades_of` says whether it needs the meanings
        of words. `self._verdicts` are columns that may say right or wrong, the likeliest first, and `self._answers`
        choices of labels with predictions.
        """
        # columns that may say right or wrong; constants and means are less likely if their names do not say it plainly
        verdict_names = [name for name in self._verdicts if not self._is_score_beside_verdicts(name)]
        likely = [
            name
            for name in verdict_names
            if _says_verdict(name) or (_is_varying(self._values[name]) and not _MEAN_WORDS & _words_of(name))
        ]
        unlikely = [name for name in verdict_names if name not in likely]
        # Free text is seldom equal word by word, so any verdict comes before it.
        free_texts = [choice for choice in self._answers if _is_free_text(self._values[choice["labels"]])]
        plain_grades = [self._plain_grades] if self._plain_grades else []
        verdicts = [
            *({"correct": name} for name in plain_grades),
            *({"correct": name} for name in likely),
            *({"error": name} for name in self._errors),
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
                    choice = {**verdict, **confidence}
                    if "probs" in choice:  # the score of class 1 says the prediction, too
                        del choice["prediction"]
                    ranked.append((number + position, number, choice))
        # in pairs: the first verdicts with the first confidences, before all confidences of one verdict
        ranked.sort(key=lambda choice: choice[:2])
        return [columns for _, _, columns in ranked[:_MAX_ATTEMPTS]]

    def grades_of(self, choice: dict[str, str]) -> dict[str, str]:
        """Return what the words of the column of correctness of a choice mean; empty where they are 0 and 1 or shares.

        The meanings are right, wrong and unanswered, by word.
        """
        is_graded = bool(self._plain_grades) and choice.get("correct") == self._plain_grades
        return self._meanings if is_graded else {}

    def explain_grades(self) -> str:
        """Return the sentence that asks what the words or numbers of a column of grades mean; "" without such a one.

        "" also where the meaning is plain, so that `choices` has the column with it.
        """
        column = self._grades
        if not column or self._plain_grades:
            return ""
        values = self._values[column]
        if isinstance(values, TextValues):
            return explain_grades(column, values.distinct_texts)
        return explain_grades(column, [f"{number:g}" for number in np.unique(values[~np.isnan(values)])])

    def explain_incomparable_answers(self) -> str:
        """Return the sentence on right and given answers that say nothing when they are compared.

        They are equal in no row or by chance, or one is a copy of the other. "" if there is another way to read.
        """
        if not self._incomparable_answers or self.choices():
            return ""
        choice = self._incomparable_answers[0]
        labels, predictions = (self._values[choice[role]] for role in ("labels", "prediction"))
        names = " and ".join(f"`{display_name(choice[role])}`" for role in ("prediction", "labels"))
        if _is_copy(labels, predictions):
            return (
                f"{names} are equal in every row, so one seems to be a copy of the other. Name the column of the given "
                f"answers with -c prediction=NAME, or that of the verdicts with -c correct=NAME."
            )
        equal_count = int(_find_equal_rows(labels, predictions).sum())
        extent = f"{equal_count:,} of {count_noun(len(labels), 'row')}" if equal_count else "no row"
        return (
            f"{names} are equal in {extent}, so no command compares them. Free text has to be graded by a judge or a "
            f"person: name the column of the verdicts with -c correct=NAME."
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
        that only a set of answers has (AUROC, ECE), counts of a confusion matrix, numbers of right answers beside an
        accuracy, precision and recall without what was asked, many accuracies and rates, or few rows with several names
        such as mean, rate and accuracy. Many are four, few rows at most 100. A column of standard errors makes it a
        summary in any case.

        A table is the path of a list in a JSON file, "" where the file has one table. Only columns of numbers count,
        by the words in their names; the constants of this module hold these words.
        """
        summaries = {}
        for table in dict.fromkeys(map(self._table_of, self._names)):  # each table once
            names = [name for name in self._names if self._table_of(name) == table]
            words_by_name = {
                name: self._all_words_of(name) for name in names if _holds_numbers(self._values[name])
            }
            summary_words = set(_SUMMARY_WORDS)
            if self._holds_precision_and_recall(table):
                summary_words |= _RETRIEVAL_WORDS
            columns = [name for name, words in words_by_name.items() if words & summary_words]
            share_count = sum(bool(words & _SHARE_WORDS) for words in words_by_name.values())
            words: set[str] = set().union(*words_by_name.values())
            has_few_rows = all(len(self._values[name]) <= _MAX_SUMMARY_ROWS for name in columns)
            has_counts = any(self._holds_counts(name) for name in words_by_name)
            says_summary = (
                bool(words & _SET_METRIC_WORDS)
                or len(words & _CONFUSION_WORDS) > 1
                or bool(summary_words & _RETRIEVAL_WORDS)
                or (has_counts and bool(columns))
                or share_count >= _MANY_SUMMARY_COLUMNS
                or (has_few_rows and len(columns) > 1)
            )
            # many such columns in few rows: then a score is no verdict, and only a plain name such as `correct` is one
            is_large = has_few_rows and len(columns) >= _MANY_SUMMARY_COLUMNS
            if "stderr" in words or (says_summary and not self._has_answers(table, columns, is_large)):
                summaries[table] = columns
        return summaries

    def _holds_precision_and_recall(self, table: str) -> bool:
        """Return whether a table has columns of precision and recall, and none of what was asked or answered.

        Of a single answer, precision and recall are given with its question. `table` is the path of a table in a JSON
        file, "" where there is one; `self._values` are the loaded columns by name. _RETRIEVAL_WORDS are "precision" and
        "recall"; _TEXT_WORDS are "question", "answer" and the like.
        """
        words_of_numbers: set[str] = set()  # in the names of columns of numbers that say precision or recall
        for name, values in self._values.items():
            if self._table_of(name) != table:
                continue
            words = self._all_words_of(name)  # of all parts of a dotted name, but for the path of its table
            if _holds_numbers(values) and words & _RETRIEVAL_WORDS:
                words_of_numbers |= words
            elif words & _TEXT_WORDS:
                return False
        return words_of_numbers >= _RETRIEVAL_WORDS

    def _holds_counts(self, name: str) -> bool:
        """Return whether a column holds how many answers are right: large numbers, or numbers of varying totals.

        Large are whole numbers, missing ones aside, of which some reach 100. A total is a column of the same table that
        is called so (`_TOTAL_WORDS`) and is nowhere smaller; then no number may be missing. The same total in every row
        may be that of the attempts at one question.
        """
        values = self._values[name]
        if isinstance(values, TextValues) or not _says_verdict(name):
            return False
        if _holds_large_counts(values):
            return True
        totals = [
            self._values[column]
            for column in self._names
            if self._table_of(column) == self._table_of(name)
            and _words_of(column) & _TOTAL_WORDS
            and varies(self._values[column])
        ]
        is_count = bool((values == np.floor(values)).all()) and not _holds_truth_values(values)
        return is_count and any(
            len(total) == len(values) and bool((total >= values).all()) for total in totals
        )

    def _has_answers(self, table: str, summary_columns: list[str], is_large: bool) -> bool:
        """Return whether a table has right and wrong answers, or right and given ones.

        `summary_columns` are its columns that are named as those of summaries; answers are not among them. `is_large`
        says that there are many of them in few rows, so that only a plain name such as `correct` says right and wrong.
        `table` is the path of a table in a JSON file, "" where there is one. `self._verdicts` are columns that may say
        right or wrong, and `self._answers` choices such as {"labels": "gold", "prediction": "answer"}.
        """
        has_verdicts = any(
            self._table_of(name) == table for name in (self._plain_grades, *self._errors) if name
        )
        has_verdicts |= any(
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

    def _is_score_beside_verdicts(self, name: str) -> bool:
        """Return whether a column is a score between 0 and 1 in a table that says right or wrong by other columns.

        These are a column of errors, or right and given answers that are options or classes. The score is then one of
        a detector or of the model: it says how likely an answer is right, or how good it is otherwise. `self._errors`
        are columns of errors, and `self._answers` choices such as {"labels": "gold", "prediction": "answer"}. A table
        is a list in a JSON file; other files have one table.
        """
        # below 3 the name says right or wrong, by itself or by a word or a part of it; columns of 0 and 1 say it too
        if _rank_of_name(name) < 3 or _holds_truth_values(self._values[name]):  # 3: a score or the like
            return False
        table = self._table_of(name)
        if any(self._table_of(error) == table for error in self._errors):
            return True
        return any(
            self._table_of(choice["labels"]) == table and not _is_free_text(self._values[choice["labels"]])
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
            # contains `correct`, `score` or the like, perhaps inside another word
            if _may_say_verdict(self._name_in_table(name))
            and not _says_something_else(name)  # an uncertainty, a number, a count or a fault
            and not _DETECTOR_WORDS & _words_of(name)
            and not self._is_success_of_a_step(name)
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

    def _is_success_of_a_step(self, name: str) -> bool:
        """Return whether a field of an inner object says that something succeeded, beside the `success` of the record.

        Such as `calls.search_success`: it is that of a step or of a tool, and no verdict on the answer.
        """
        path, _, own_name = self._name_in_table(name).rpartition(".")
        table = self._table_of(name)
        whole = f"{table}.success" if table else "success"
        is_qualified = own_name.lower() != "success" and "success" in _words_of(own_name)
        return bool(path) and is_qualified and whole in self._source.columns

    def _find_errors(self) -> list[str]:
        """Return the columns that say which answers are wrong, such as `is_hallucination`.

        None of a table with a column of yes and no whose name says right or wrong, or with grades of a plain meaning
        (`self._plain_grades`, "" for none): beside that, such a column may be about some of the wrong answers alone.
        `self._verdicts` are columns that may say right or wrong. `_says_wrong`: the name says wrong and nothing else.
        At least a tenth of the rows must hold a value.
        """
        tables_with_verdicts = {
            self._table_of(name)
            for name in self._verdicts
            if _says_verdict(name) and _holds_truth_values(self._values[name])
        }
        if self._plain_grades:
            tables_with_verdicts.add(self._table_of(self._plain_grades))
        return [
            name
            for name in self._names
            if self._table_of(name) not in tables_with_verdicts
            and _says_wrong(name)
            and _holds_truth_values(self._values[name])
            and _is_varying(self._values[name])
            and has_value(self._values[name]).mean() >= _MIN_SHARE_JUDGED
        ]

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
        A table is a list in a JSON file. The second list holds the choices of which nothing comes when they are
        compared: they are equal in no row, or hold sentences that are equal by chance, or one is a copy of the other.
        Where a column holds grades that the user has to explain (`self._grades`), right answers that are free text are
        left out: a judge has graded the meaning of the given answers, which need not be equal to them.
        """
        # without those named as an uncertainty, a number of a row, a count or a fault, such as `error`, and without the
        # column of grades with a plain meaning
        names = [
            name for name in self._names if not _says_something_else(name) and name != self._plain_grades
        ]
        # names that contain one of the words, in the order of `names`
        labels = [name for name in _find_named(names, _LABEL_WORDS) if not _says_confidence(name)]
        # they say whether there is an answer, and not which: `answerable`, `answered`
        conditions = _find_named(names, _CONDITION_WORDS)
        predictions = [
            name for name in _find_named(names, _PREDICTION_WORDS) if name not in (*labels, *conditions)
        ]
        # two columns of each at most, since every choice is tried by reading the file again
        copies = [
            {"labels": label, "prediction": name}
            for label in labels[:2]
            for name in predictions
            if self._are_of_one_table_and_kind(label, name)
            and _is_copy(self._values[label], self._values[name])
        ]
        copied_names = {choice["prediction"] for choice in copies}
        predictions = [name for name in predictions if name not in copied_names]
        choices = [
            {"labels": label, "prediction": name}
            for label in labels[:2]
            for name in predictions[:2]
            if self._are_of_one_table_and_kind(label, name)
            # at least two different values in one of them: two constants say nothing
            and (_is_varying(self._values[label]) or _is_varying(self._values[name]))
        ]
        if self._grades:
            choices = [choice for choice in choices if not _is_free_text(self._values[choice["labels"]])]
        comparable = [
            choice
            for choice in choices
            if _says_something_when_compared(
                self._values[choice["labels"]], self._values[choice["prediction"]]
            )
        ]
        return comparable, [*(choice for choice in choices if choice not in comparable), *copies]

    def _are_of_one_table_and_kind(self, label: str, prediction: str) -> bool:
        """Return whether two columns are both of texts or both of numbers, in one table of a JSON file."""
        is_text = [isinstance(self._values[name], TextValues) for name in (label, prediction)]
        return is_text[0] == is_text[1] and self._table_of(label) == self._table_of(prediction)

    def _find_grades(self) -> str:
        """Return the column of grades, whose words or numbers the user has to explain; "" where there is none.

        Where no column has words that grade (`_find_word_grades`), one of few whole numbers with an unclear meaning is
        taken, such as -1, 0 and 1.
        """
        names = self._find_word_grades() or [name for name in self._names if self._holds_number_grades(name)]
        return next(iter(names), "")

    def _find_plain_grades(self) -> tuple[str, dict[str, str]]:
        """Return the first column of grades whose words have a plain meaning, such as `incorrect`, and the meanings.

        These are right, wrong or unanswered, by word. ("", {}) where there is no such column.
        """
        for name in self._find_word_grades():
            meanings = meanings_of_grades(_distinct_texts(self._values[name]))
            if meanings:
                return name, meanings
        return "", {}

    def _find_word_grades(self) -> list[str]:
        """Return the columns whose words grade answers.

        Such a column holds 2 to 6 short words under a name such as `grade` or `verdict` (`_PLAIN_GRADE_WORDS`).
        `look_like_grades` says that some word grades ("mostly right"), or that all are codes of one or two letters;
        "college" and "school" do not grade. Under a name with `label`, the only further one in `_GRADE_WORDS`, such
        words are grades only beside columns with the right and the given answers, and if no given answer is one of
        them: otherwise the column holds right answers itself.
        """
        columns = []
        for name in _find_named(self._names, _GRADE_WORDS):
            values = self._values[name]
            words = set(_distinct_texts(values))
            is_word_like = all(len(word) <= _MAX_GRADE_LENGTH and not _is_a_number(word) for word in words)
            # truth values (0, 1, true, false, yes, no) need no explanation
            if not 1 < len(words) <= MAX_GRADES or not is_word_like or _holds_truth_values(values):
                continue
            if look_like_grades(words) and (
                _find_named([name], _PLAIN_GRADE_WORDS) or self._has_both_answers_besides(name, words)
            ):
                columns.append(name)
        return columns

    def _has_both_answers_besides(self, column: str, words: set[str]) -> bool:
        """Return whether further columns hold the right and the given answers, and no given answer is one of `words`.

        By their names, which contain a word such as "gold" or "response", perhaps inside another word. They may be
        columns that cannot be loaded, such as mixtures of texts and numbers: `self._values` holds the loaded ones.
        """
        further_columns = [name for name in self._source.columns if name != column]
        labels = _find_named(further_columns, _LABEL_WORDS)
        predictions = [name for name in _find_named(further_columns, _PREDICTION_WORDS) if name not in labels]
        given_answers = {
            text
            for name in predictions
            if name in self._values
            for text in _distinct_texts(self._values[name])
        }
        return bool(predictions) and bool(labels) and words.isdisjoint(given_answers)

    def _holds_number_grades(self, name: str) -> bool:
        """Return whether a column holds 2 to 6 whole numbers that have to be explained before they say right or wrong.

        Either its name says right or wrong and some numbers are negative, or it is a preference that may be 0, a draw.
        The user explains them by --grades. Every column here has at least one number.
        """
        values = self._values[name]
        # the latter: the name says an uncertainty, a count or a fault
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
        verdict that is said by a score as well. `verdict` maps "correct" or "error", or "labels" and "prediction", to
        columns. `table` is the path of a table in a JSON file, "" where there is one. A choice maps "confidence" or
        "uncertainty" to a column, or to several with commas between them, or "probs" to the score of class 1. Such a
        score is left out unless it is a probability above 1/2 exactly where the prediction is 1: otherwise it says
        another class than the file.
        """
        # 3 is the rank of a score or the like; without "correct" the verdict is two columns of answers, and no score
        is_verdict_by_score = _rank_of_name(verdict.get("correct", "correct")) == 3
        column_by_name = {}  # by the name within the table: a word in the table's own name says nothing of its columns
        for column in self._values:
            if self._table_of(column) == table and self._may_rank(column, verdict):
                column_by_name[self._name_in_table(column)] = column
        names = _leave_out_options(list(column_by_name))  # without `p.A`, `p.B`
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
        class_scores = [column for column in confidences if self._is_score_of_class_1(column, verdict)]
        confidences = [column for column in confidences if column not in class_scores]
        choices = [{"confidence": column} for column in confidences]
        if len(confidences) > 1:  # the second choice is all of them: the evaluation has a column for each
            choices.insert(1, {"confidence": ",".join(confidences)})
        choices += [{"probs": column} for column in class_scores if self._says_class_by_half(column, verdict)]
        return choices + [{"uncertainty": column_by_name[name]} for name in uncertainties]

    def _may_rank(self, column: str, verdict: dict[str, str]) -> bool:
        """Return whether a column of numbers may rank the answers of a verdict, whatever word says so in its name.

        Not so counts and faults, numbers beside the right answers (`gold.agreement`, but `label_pred.agreement` is
        beside given ones), numbers of a detector unless they are called its confidence, numbers of another prediction
        or verdict of the table, and the score that the verdict was made from. `verdict` maps "correct" or "error", or
        "labels" and "prediction", to columns.
        """
        values = self._values[column]
        if not varies(values) or _holds_truth_values(values):  # at least two different numbers
            return False
        name = self._name_in_table(column)
        parent = name.rpartition(".")[0]
        is_of_right_answers = _find_named([parent], _LABEL_WORDS) and not _find_named([parent], ("pred",))
        is_of_detector = _DETECTOR_WORDS & _words_of(name) and "conf" not in name.lower()
        if _COUNT_OR_FAULT_WORDS & _words_of(name) or is_of_right_answers or is_of_detector:
            return False
        is_source = not _says_confidence(name) and self._was_made_from(verdict, values)
        return not (is_source or self._is_of_another(column, verdict))

    def _is_of_another(self, column: str, verdict: dict[str, str]) -> bool:
        """Return whether a name begins as that of another prediction or verdict of its table does, and not as its own.

        Of `base_pred` and `large_pred`, or `base.correct` and `large.correct`, the names differ in how they begin, and
        `large_score` goes with the second alone. `verdict` maps roles to columns.
        """
        # of all tables; those of other tables are passed over below
        if "prediction" in verdict:
            scored_column = verdict["prediction"]
            rival_columns = _find_named(self._names, _PREDICTION_WORDS)
        elif "correct" in verdict:
            scored_column = verdict["correct"]
            rival_columns = list(filter(_says_verdict, self._verdicts))
        else:
            return False
        words = _words_in_order(self._name_in_table(column))
        scored_words = _words_in_order(self._name_in_table(scored_column))
        for rival in rival_columns:
            if rival == scored_column or self._table_of(rival) != self._table_of(scored_column):
                continue
            rival_words = _words_in_order(self._name_in_table(rival))
            scored_start, rival_start = _different_starts(scored_words, rival_words)
            if scored_start and rival_start and words[: len(rival_start)] == rival_start:
                return True
        return False

    def _was_made_from(self, verdict: dict[str, str], numbers: Any) -> bool:
        """Return whether all right rows have larger numbers than all wrong ones, or all smaller: no chance does that.

        The verdict then says on which side of a threshold the number lies. False where either kind has one row or none,
        or both have fewer than 20, and where right and wrong come from comparing answers ("labels" and "prediction").
        `verdict` maps roles to columns. `numbers` has one number per row, which may be missing.
        """
        column = verdict.get("correct") or verdict.get("error") or ""
        values = self._values.get(column)
        if values is None or not _holds_truth_values(values):
            return False
        truth = _as_truth(values)
        parts = [numbers[np.isfinite(numbers) & (truth == value)] for value in (0, 1)]
        if min(map(len, parts)) < 2 or sum(map(len, parts)) < _MIN_ROWS_OF_SEPARATED:
            return False
        return bool(parts[0].max() < parts[1].min() or parts[1].max() < parts[0].min())

    def _is_score_of_class_1(self, column: str, verdict: dict[str, str]) -> bool:
        """Return whether predictions of 0 and 1 say on which side of a threshold a column of numbers lies.

        Its numbers are then how likely class 1 is, and not how sure the prediction: they are larger where it is 1. Of
        predictions that are all 0, numbers between 0 and one half are those of class 1. `verdict` maps "prediction" to
        a column; without it, False, and in fewer than 8 rows, which chance may explain.
        """
        prediction = self._values.get(verdict.get("prediction", ""))
        if prediction is None or not _holds_truth_values(prediction):
            return False
        numbers = self._values[column]
        parts = [numbers[np.isfinite(numbers) & (_as_truth(prediction) == value)] for value in (0, 1)]
        if sum(map(len, parts)) < _MIN_ROWS_OF_CLASS_SCORE or not len(parts[0]):
            return False
        if not len(parts[1]):
            return bool(parts[0].min() >= 0 and parts[0].max() < 0.5)
        return min(map(len, parts)) > 1 and bool(parts[0].max() < parts[1].min())

    def _says_class_by_half(self, column: str, verdict: dict[str, str]) -> bool:
        """Return whether a score of class 1 is a probability above one half exactly where the prediction is 1.

        Right answers must be numbers 0 and 1, too. `verdict` maps "labels" and "prediction" to columns. The column was
        found by `_is_score_of_class_1`, so that predictions are known to hold 0 and 1, or words for no and yes.
        """
        labels, prediction = (self._values[verdict[role]] for role in ("labels", "prediction"))
        probs = self._values[column]
        is_probability = bool((probs >= 0).all() and (probs <= 1).all())  # False where one is missing
        has_two_classes = _holds_truth_values(labels) and not isinstance(labels, TextValues)
        return (
            is_probability and has_two_classes and bool(((probs > 0.5) == (_as_truth(prediction) == 1)).all())
        )

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


def _words_in_order(name: str) -> list[str]:
    """Return the words of a whole dotted name, in lower case.

    >>> _words_in_order("base.isCorrect_2")
    ['base', 'is', 'correct', '2']
    """
    separated = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return [word for word in re.split(r"[^a-z0-9]+", separated.lower()) if word]


def _different_starts(first: list[str], second: list[str]) -> tuple[list[str], list[str]]:
    """Return what stands before the words in which two names end alike; two empty lists where they end differently.

    >>> _different_starts(["base", "pred"], ["large", "pred"]), _different_starts(["a", "x"], ["a", "y"])
    ((['base'], ['large']), ([], []))
    """
    alike = 0
    while alike < min(len(first), len(second)) and first[-1 - alike] == second[-1 - alike]:
        alike += 1
    return (first[: len(first) - alike], second[: len(second) - alike]) if alike else ([], [])


def _says_wrong(name: str) -> bool:
    """Return whether a name says of its column that it tells which answers are wrong, and nothing else.

    >>> [_says_wrong(name) for name in ("is_hallucination", "judge.wrong", "direct_hallucination", "is_correct")]
    [True, True, False, False]
    """
    words = _words_of(name) - _WORDS_BESIDE_WRONG
    return bool(words) and words <= _WORDS_FOR_WRONG


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


def _holds_numbers(values: Any) -> bool:
    """Return whether a column holds numbers, or texts all of which are numbers."""
    return not isinstance(values, TextValues) or all(map(is_number, _distinct_texts(values)))


def _as_truth(values: Any) -> np.ndarray:
    """Return a column of 0 and 1, or of words for yes and no, as numbers, NaN where empty."""
    if isinstance(values, TextValues):
        truth = [TRUTH_WORDS[text.strip().lower()] for text in values.distinct_texts]
        return np.array(truth)[values.code_of_row]
    return np.asarray(values, np.float64)


def _find_equal_rows(labels: Any, predictions: Any) -> np.ndarray:
    """Return for each row whether right and given answers, both texts or both numbers, are equal.

    Blank texts, and white space around others, do not count. All rows are False where the two differ in length.
    """
    if len(labels) != len(predictions):
        return np.zeros(len(labels), bool)
    if isinstance(labels, TextValues):
        right_texts = as_texts(labels.stripped())
        predicted_texts = as_texts(predictions.stripped())
        return (right_texts == predicted_texts) & (predicted_texts != "")
    return np.asarray(labels == predictions)


def _is_copy(labels: Any, predictions: Any) -> bool:
    """Return whether two columns are equal in every row that has a label, in at least `_MIN_ROWS_OF_COPY` (20)."""
    is_labelled = has_value(labels)
    is_equal = _find_equal_rows(labels, predictions)
    return int(is_labelled.sum()) >= _MIN_ROWS_OF_COPY and bool(is_equal[is_labelled].all())


def _says_something_when_compared(labels: Any, predictions: Any) -> bool:
    """Return whether right and given answers are equal in some row, and if these are sentences, by more than chance."""
    is_equal = _find_equal_rows(labels, predictions)
    if not is_equal.any():
        return False
    if not isinstance(predictions, TextValues):
        return True
    is_compared = has_value(labels) & has_value(predictions)
    is_by_chance = is_seldom(float(is_equal[is_compared].mean()))
    return not (is_by_chance and is_free_text(predictions) and are_sentences(predictions))


def _is_free_text(values: Any) -> bool:
    """Return whether most texts of a column differ from row to row, as sentences do and letters do not."""
    return isinstance(values, TextValues) and 2 * len(values.distinct_texts) > len(values)


def _is_a_number(text: str) -> bool:
    """Return whether a text begins like a number."""
    return re.match(r"[-+.]?[0-9]", text) is not None
