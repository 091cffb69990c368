"""Rows of a harness's log: what the readers of all harnesses share.

A reader of a harness's log turns each answer into a `Row` and returns `LogContent`: the rows, and `LogFacts` that say
which columns are right or wrong and which are confidences. `make_log_source` makes columns of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abstain._roles import COLUMN_NAMES, normalise_name
from abstain.formats.columns import Column, LogFacts, OpenedTable, TextValues
from abstain.formats.safety import Limits, file_error

Row = dict[str, Any]
"""One answer: column name -> number, truth value, text or None."""
LoadJson = Callable[[Path], Any]
"""Returns the parsed content of another JSON file, within the limits."""
SEQUENCE_LOGPROB = "sequence_logprob"
MEAN_TOKEN_LOGPROB = "mean_token_logprob"
OPTION_CONFIDENCES = ("softmax", "margin", "loglikelihood")
"""Confidences of a multiple-choice question, made by `confidences_of_options`."""
LETTERS_SUFFIX = ".letters"
"""Ending of the column with the letters of a scorer whose own column holds the numbers that they stand for."""
TOKENS = "tokens"
DOLLARS = "dollars"
SECONDS = "seconds"
COST_COLUMNS = (TOKENS, DOLLARS, SECONDS)
"""What an answer cost, as columns of a row; a cascade takes one of them as the cost of a stage."""
UNANSWERABLE = "unanswerable"
"""Column (and role) of a log that says whether a question has no answer; see `read_unanswerable`."""
_BYTES_PER_VALUE = 40  # memory that one value of a row needs


class LogContent(NamedTuple):
    """What a reader makes of a log: one row per answer, and what the columns of the rows mean."""

    rows: list[Row]
    facts: LogFacts


def get_nested(content: Any, *keys: Any) -> Any:
    """Return what lies under these keys (of dicts) and indices (of lists), one after the other.

    None where anything on the way is missing or is neither a dict nor a list. `content` is a parsed JSON value. The
    content itself where there are no keys.
    """
    for key in keys:
        if isinstance(content, dict):
            content = content.get(key)
        elif isinstance(content, list) and isinstance(key, int) and key < len(content):
            content = content[key]
        else:
            return None
    return content


def float_or_none(value: Any) -> float | None:
    """Return a number or a truth value as a float; None for everything else."""
    return float(value) if isinstance(value, (bool, int, float)) else None


def summarise_token_logprobs(logprobs: Any) -> Row:
    """Return the sum and the mean of the log-probabilities of the generated tokens, as two columns of a row.

    The columns, "sequence_logprob" and "mean_token_logprob", serve as confidences. `logprobs` is a list with a number
    for each token, or a dict for each with a number under "logprob"; or anything else. The result is empty where there
    are no tokens, or where one of them has no number.
    """
    tokens = logprobs if isinstance(logprobs, list) else []
    # `float_or_none` gives None for what is no number
    numbers = [float_or_none(token.get("logprob") if isinstance(token, dict) else token) for token in tokens]
    values = [value for value in numbers if value is not None]
    if not values or len(values) < len(numbers):
        return {}
    total = math.fsum(values)
    return {SEQUENCE_LOGPROB: total, MEAN_TOKEN_LOGPROB: total / len(values)}


class ScoredOption(NamedTuple):
    """One text whose log-likelihood the harness asked the model for."""

    loglikelihood: float
    length: int  # characters, without the blank before it; 0 where the log does not say


def confidences_of_options(options: list[ScoredOption], is_normalised: bool) -> Row:
    """Return confidences from the log-likelihoods of two or more options, whichever of them is right.

    "softmax" is the largest probability, "margin" the largest log-likelihood less the second, "loglikelihood" the
    largest. "softmax_norm", from log-likelihoods per character, is added only with `is_normalised` (the record has a
    normalised accuracy) and where all lengths are known (an option's `length` in characters is 0 where it is not).
    {"softmax": None} where a log-likelihood is not finite. The result is part of a row: column name -> value.
    """
    loglikelihoods = [option.loglikelihood for option in options]
    if not all(map(math.isfinite, loglikelihoods)):
        return {"softmax": None}  # the column exists, and this row has a gap in it
    second_largest, largest = sorted(loglikelihoods)[-2:]
    # of a softmax over the options
    confidences = {"softmax": _largest_softmax(loglikelihoods), "margin": largest - second_largest}
    if is_normalised and min(option.length for option in options) > 0:
        per_character = [option.loglikelihood / option.length for option in options]
        confidences["softmax_norm"] = _largest_softmax(per_character)
    confidences["loglikelihood"] = largest
    return confidences


def _largest_softmax(logits: list[float]) -> float:
    """Return the largest probability of a softmax; without arrays, which are slow for one short row."""
    return 1 / math.fsum(math.exp(logit - max(logits)) for logit in logits)


def agreement(questions: Sequence[Hashable], answers: Sequence[Hashable | None]) -> list[float | None]:
    """Return for each row the share of the rows of its question that have the same answer; None without an answer.

    Both sequences hold one entry per row. Rows without an answer (None) count in the denominator.
    """
    row_counts = Counter(questions)
    equal_counts = Counter(zip(questions, answers))
    shares: list[float | None] = []
    for question, answer in zip(questions, answers):
        shares.append(None if answer is None else equal_counts[question, answer] / row_counts[question])
    return shares


def read_unanswerable(question: Any) -> Row:
    """Return the column `UNANSWERABLE` of a question, the dict in which a log keeps what its data set says of it.

    Empty unless the dict has a truth value whose name says it: "unanswerable", "is_impossible" ..., or "is_answerable",
    which is inverted. The first such name counts. `COLUMN_NAMES` lists the names of a column by role, in a normal form
    without case and marks, which `normalise_name` makes.
    """
    if not isinstance(question, dict):
        return {}
    for name, value in question.items():
        if not isinstance(value, bool):
            continue
        if normalise_name(name) in COLUMN_NAMES["unanswerable"]:
            return {UNANSWERABLE: value}
        if normalise_name(name) in COLUMN_NAMES["answerable"]:
            return {UNANSWERABLE: not value}
    return {}


def make_log_source(path: Path, limits: Limits, content: LogContent) -> OpenedTable:
    """Make columns of the rows of a log: numbers where every value is one (NaN where it is missing), text otherwise.

    `path` names the log in messages. Columns come in the order in which rows first have them. Scorers (columns of
    correctness) and columns of confidences that no row has are removed from the facts. DataError where there
    are no rows, or where they would need more memory or columns than `limits` allow. `content` has one dict per answer,
    and the facts: which tool wrote the log, and what its columns mean. Neither is changed.
    """
    rows, facts = content
    if not rows:
        raise file_error(path, f"is a log of {facts.tool} that holds no answers.")
    names = list(dict.fromkeys(name for row in rows for name in row))
    limits.check_columns(path, len(names))
    # 40 bytes a value
    limits.check_memory(path, _BYTES_PER_VALUE * len(names) * len(rows))  # raises, as the line above does
    # a row without the column counts as None
    columns = {name: _make_column([row.get(name) for row in rows]) for name in names}
    column_of_role = dict(facts.column_of_role)
    if UNANSWERABLE in columns:  # the name of the column and of its role
        column_of_role[UNANSWERABLE] = UNANSWERABLE
    present_facts = replace(
        facts,
        column_of_role=column_of_role,
        possible_correctness_columns=tuple(
            name for name in facts.possible_correctness_columns if name in columns
        ),
        possible_confidence_columns=tuple(
            name for name in facts.possible_confidence_columns if name in columns
        ),
    )
    return OpenedTable(path=path, format="log", columns=columns, log=present_facts)


def _make_column(values: list[Any]) -> Column:
    """Make a column of one value per row; None is a missing value."""
    if all(value is None for value in values):  # such as lists, which no row keeps
        return replace(Column.of(np.full(len(values), np.nan)), kind="empty cells")
    if all(value is None or isinstance(value, (bool, int, float)) for value in values):
        return Column.of(np.array([math.nan if value is None else float(value) for value in values]))
    return Column.of(TextValues.of("" if value is None else str(value) for value in values))


def only_text_or_empty(texts: Collection[str | None]) -> str:
    """Return the one text of a set; "" where there are several or none, or where it is None.

    >>> only_text_or_empty({"law"}), only_text_or_empty({"law", "art"}), only_text_or_empty({None})
    ('law', '', '')
    """
    return (next(iter(texts)) or "") if len(texts) == 1 else ""


def names_of_columns_from_0_to_1(rows: Sequence[Row], names: Sequence[str]) -> tuple[str, ...]:
    """Return those of the named columns that may say how right an answer is: all their numbers lie between 0 and 1.

    The columns hold numbers, None or NaN; a column without any number is left out.
    """
    correctness_columns = []
    for name in names:
        values = [row[name] for row in rows if row.get(name) is not None and not math.isnan(row[name])]
        if values and min(values) >= 0 and max(values) <= 1:
            correctness_columns.append(name)
    return tuple(correctness_columns)


def assign_correct_role(correctness_columns: Sequence[str], *, prefer: Sequence[str] = ()) -> dict[str, str]:
    """Return {"correct": column}: the first name in `prefer` that is one of these columns, or the only column.

    The result is empty where several remain, since the user has to name one, and where there is none.
    """
    for name in prefer:
        if name in correctness_columns:
            return {"correct": name}
    if len(correctness_columns) == 1:
        return {"correct": correctness_columns[0]}
    return {}
