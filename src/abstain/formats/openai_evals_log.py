"""Logs of OpenAI evals (`oaieval`, one event per line) and the results of simple-evals."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from abstain.formats.columns import LogFacts, text_or_none
from abstain.formats.log_rows import (
    TOKENS,
    LoadJson,
    LogContent,
    Row,
    assign_correct_role,
    float_or_none,
    get_nested,
    names_of_columns_from_0_to_1,
)
from abstain.formats.safety import file_error

_SCORING_EVENTS = ("match", "metrics")
_ALL_RESULTS_FIELDS = ("htmls", "convos", "metrics")  # which simple-evals writes besides the score


def is_openai_evals_log(content: Any) -> bool:
    """Return whether parsed JSON lines are a log of `oaieval`: its specification, or events of samples."""
    if not isinstance(content, list):
        return False
    if any(isinstance(get_nested(line, "spec", "eval_name"), str) for line in content[:1]):
        return True
    first = get_nested(content, 0)
    return all(get_nested(first, name) is not None for name in ("run_id", "event_id", "sample_id", "type"))


def read_openai_evals(path: Path, lines: list[Any], load_json: LoadJson) -> LogContent:
    """Read the events of a run: one row for each event that scores a sample.

    A `match` says whether the answer is "correct"; `metrics` hold numbers by name. A sample that was scored several
    times by events of one kind has several rows, numbered in "epoch"; other numbers join the row of their sample. The
    number of tokens is that of all sampling events of the sample. DataError where no sample was scored. `load_json` is
    not used.
    """
    specification: Any = None
    matches: dict[str, list[Row]] = {}  # by sample
    metrics: dict[str, list[Row]] = {}
    answers: dict[str, str | None] = {}
    tokens: dict[str, float] = {}
    for line in lines:
        specification = specification or get_nested(line, "spec")
        question = text_or_none(get_nested(line, "sample_id"))
        event = get_nested(line, "type")
        data = get_nested(line, "data")
        if question is None or not isinstance(data, dict):
            continue
        if event == "match":
            matches.setdefault(question, []).append(_read_match(data))
        elif event == "metrics":
            numbers = {str(name): float_or_none(value) for name, value in data.items()}
            metrics.setdefault(question, []).append(
                {name: value for name, value in numbers.items() if value is not None}
            )
        elif event == "sampling":
            answers[question] = _first_text(data.get("sampled"))
            token_count = float_or_none(get_nested(data, "usage", "total_tokens"))
            if token_count is not None:
                tokens[question] = tokens.get(question, 0.0) + token_count
    if not matches and not metrics:
        raise file_error(
            path, f"is a log of OpenAI evals without an event that scores ({_list_events(lines)})."
        )
    rows: list[Row] = []
    for question in dict.fromkeys([*matches, *metrics]):
        scored = matches.get(question) or metrics[question]
        joined = metrics.get(question, [{}])[0] if question in matches else {}
        for epoch, scores in enumerate(scored, 1):
            row: Row = {"question": question, "epoch": float(epoch), "answer": answers.get(question)}
            row |= joined | scores
            row[TOKENS] = tokens.get(question)
            rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    not_scores = ("question", "epoch", "answer", TOKENS)
    correctness_columns = names_of_columns_from_0_to_1(
        rows, [name for name in names if name not in not_scores]
    )
    completion_functions = get_nested(specification, "completion_fns")
    facts = LogFacts(
        tool="OpenAI evals",
        column_of_role={
            **assign_correct_role(correctness_columns, prefer=("correct", "accuracy", "score")),
            "question": "question",
            "epoch": "epoch",
        },
        possible_correctness_columns=correctness_columns,
        task=text_or_none(get_nested(specification, "eval_name")) or "",
        model=_first_text(completion_functions) or "",
    )
    return LogContent(rows, facts)


def _read_match(data: Row) -> Row:
    """Return the columns of a `match` event: "correct", and what was picked or sampled as the "answer"."""
    row: Row = {"correct": float_or_none(data.get("correct"))}
    answer = _first_text(data.get("picked")) or _first_text(data.get("sampled"))
    if answer is not None:
        row["answer"] = answer
    return row


def _first_text(value: Any) -> str | None:
    """Return a text, or the first of a list of texts; None for everything else."""
    return text_or_none(value[0] if isinstance(value, list) and value else value)


def _list_events(lines: list[Any]) -> str:
    """Return the kinds of events of a log with their counts, in words."""
    counts = Counter(str(get_nested(line, "type")) for line in lines if get_nested(line, "type"))
    return ", ".join(f"{count:,} {event}" for event, count in counts.most_common(4)) or "no events"


def is_simple_evals_results(content: Any) -> bool:
    """Return whether parsed JSON is what simple-evals writes for a whole evaluation."""
    return isinstance(content, dict) and all(name in content for name in (*_ALL_RESULTS_FIELDS, "score"))


def read_simple_evals(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Read the examples of simple-evals: one row each, with the numbers that its metadata hold.

    DataError where the evaluation kept no metadata of its examples, as most do. `content` is the parsed file;
    `load_json`, which all readers of logs take, is not used. A row is a dict, column name -> value. Columns of
    correctness are those whose numbers all lie between 0 and 1; "score" is taken if it is one of them, or the only one,
    and otherwise the user has to name one.
    """
    examples = get_nested(content, "metadata", "example_level_metadata")
    if not isinstance(examples, list) or not any(isinstance(example, dict) for example in examples):
        raise file_error(
            path,
            "holds the scores of a whole evaluation of simple-evals, without those of its answers. Log each answer "
            "with its score in a table of your own.",
        )
    rows: list[Row] = []
    for index, example in enumerate(examples):
        fields = example if isinstance(example, dict) else {}  # an example without metadata may be None
        numbers = {name: float_or_none(value) for name, value in fields.items()}  # None for what is no number
        row: Row = {"question": text_or_none(get_nested(example, "prompt_id")) or str(index)}
        row |= {name: number for name, number in numbers.items() if number is not None}
        row[TOKENS] = float_or_none(get_nested(example, "usage", "total_tokens"))
        rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    correctness_columns = names_of_columns_from_0_to_1(
        rows, [name for name in names if name not in ("question", TOKENS)]
    )
    facts = LogFacts(
        tool="simple-evals",
        column_of_role={
            # {"correct": column}; empty where the user has to name one
            **assign_correct_role(correctness_columns, prefer=("score",)),
            "question": "question",
        },
        possible_correctness_columns=correctness_columns,
    )
    return LogContent(rows, facts)
