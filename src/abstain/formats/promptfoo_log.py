"""Logs of promptfoo: its JSON exports wrap one list of results in five ways, its CSV has a column for each model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from abstain.formats.columns import Column, LogFacts, OpenedTable, TextValues, text_or_none
from abstain.formats.log_rows import (
    DOLLARS,
    MEAN_TOKEN_LOGPROB,
    SECONDS,
    SEQUENCE_LOGPROB,
    TOKENS,
    LoadJson,
    LogContent,
    Row,
    float_or_none,
    get_nested,
    names_of_columns_from_0_to_1,
    only_text_or_empty,
    summarise_token_logprobs,
)
from abstain.formats.safety import Limits, count_noun, file_error, is_or_are

_CALL_FAILED = 2  # promptfoo's `failureReason` where the model could not be called
_MILLISECONDS_PER_SECOND = 1000
# How a cell of a CSV export begins: the verdict, and the score where promptfoo writes it.
_CELL_START = re.compile(r"\[(PASS|FAIL|ERROR)\](?:\s*\((-?\d+(?:\.\d+)?)\))?\s*")
# "[provider] prompt", the title of such a column
_MODEL_TITLE = re.compile(r"\[([^\]]+)\]\s*(.*)", re.DOTALL)


def is_promptfoo_log(content: Any) -> bool:
    """Return whether parsed JSON is an export of promptfoo."""
    return _find_results(content) is not None


def _find_results(content: Any) -> list[Any] | None:
    """Return the list of results of an export, whichever way it is wrapped; None where it is none of promptfoo.

    The list lies under results.results or results, which may lie under data. Its first entry decides: it must have the
    fields that promptfoo writes. `content` is a parsed JSON value of any kind. `get_nested` follows keys and indices,
    and gives None where one is missing.
    """
    export = get_nested(content, "data") or content
    results = get_nested(export, "results", "results") or get_nested(export, "results")
    if not isinstance(results, list):
        return None
    first_result = get_nested(results, 0)
    has_verdict = isinstance(get_nested(first_result, "success"), bool)
    has_question = any(get_nested(first_result, name) is not None for name in ("vars", "testCase"))
    promptfoo_names = ("prompt", "provider", "failureReason", "gradingResult")
    has_promptfoo_name = any(get_nested(first_result, name) is not None for name in promptfoo_names)
    return results if has_verdict and has_question and has_promptfoo_name else None


def is_promptfoo_without_results(content: Any) -> bool:
    """Return whether parsed JSON is an export of promptfoo whose list of results is empty."""
    inner = get_nested(content, "data") or content
    has_no_results = [] in (get_nested(inner, "results"), get_nested(inner, "results", "results"))
    has_promptfoo_name = any(get_nested(inner, name) is not None for name in ("evalId", "prompts", "config"))
    return has_no_results and has_promptfoo_name


def refuse_without_results(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Raise DataError for an export that holds no results."""
    raise file_error(
        path,
        "is an export of promptfoo without results. Export the evaluation with `promptfoo export eval ID -o FILE`.",
    )


def read_promptfoo(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Read an export of promptfoo: one row per result, grouped by provider where there are several.

    Results whose model could not be called are left out, which a note says; `success` is False for a wrong answer too.
    DataError where a result does not say whether it succeeded. `content` is the parsed file, which was recognised as an
    export; `load_json` is not used, since an export is one file. The facts in the result say what the columns of the
    rows mean; a column in `column_of_role` is taken for its role without being asked.
    """
    rows: list[Row] = []
    failed_count = 0
    for index, result in enumerate(_find_results(content) or ()):
        # a truth value, or a number that stands for one
        if float_or_none(get_nested(result, "success")) is None:
            raise file_error(path, f"result {index + 1} of promptfoo must say `success` or not.")
        if _has_failed(result):  # the call failed, so that there is no answer to judge
            failed_count += 1
        else:
            rows.append(_make_row(result))
    providers = {row["provider"] for row in rows}
    notes = []
    if failed_count:
        notes.append(f"{count_noun(failed_count, 'result')} failed and {is_or_are(failed_count)} left out.")
    column_of_role = {"correct": "correct", "question": "question"}
    if len(providers) > 1:
        column_of_role["groups"] = "provider"
    facts = LogFacts(
        tool="promptfoo",
        column_of_role=column_of_role,
        possible_correctness_columns=names_of_columns_from_0_to_1(rows, ["correct", "score"]),
        # in order of preference; those that no row has are taken out later
        possible_confidence_columns=("namedScores.confidence", SEQUENCE_LOGPROB, MEAN_TOKEN_LOGPROB),
        model=only_text_or_empty(providers),  # "" where there are several
        model_column="provider" if len(providers) > 1 else "",
        descriptions={"correct": "success", "question": "the values of vars"},
        notes=tuple(notes),
    )
    return LogContent(rows, facts)


def _find_response(result: Any) -> Any:
    """Return what the provider answered, under the name of either version."""
    return get_nested(result, "response") or get_nested(result, "providerResponse")


def _has_failed(result: Any) -> bool:
    """Return whether the model could not be called, so that there is no answer to judge."""
    if get_nested(result, "failureReason") == _CALL_FAILED:
        return True
    return bool(get_nested(result, "error")) and get_nested(_find_response(result), "output") is None


def _make_row(result: Any) -> Row:
    """Return one result as a row: question, correct, answer, provider, prompt, score, its cost, and what else it has.

    `result` must have "success" (whether the answer was right). Each of these keys is in the row, with None where the
    result does not say it; named scores ("namedScores.NAME") and log-probabilities of tokens are added where there are
    any. The question is the text of its variables, so that equal variables are one question. `float_or_none` gives None
    for anything but a number or a truth value, `text_or_none` for anything but a text or a number.
    """
    variables = get_nested(result, "vars") or get_nested(result, "testCase", "vars")
    row: Row = {
        "question": json.dumps(variables, sort_keys=True),
        "correct": float_or_none(result["success"]),
    }
    named_scores = get_nested(result, "namedScores")
    if isinstance(named_scores, dict):
        row |= {f"namedScores.{name}": float_or_none(score) for name, score in named_scores.items()}
    response = _find_response(result)  # what the model returned
    row["answer"] = text_or_none(get_nested(response, "output"))
    row["provider"] = text_or_none(get_nested(result, "provider", "id"))
    # version 1 has no label, but the text of the prompt with and without its variables
    prompts = [text_or_none(get_nested(result, "prompt", key)) for key in ("label", "display", "raw")]
    row["prompt"] = next(filter(None, prompts), None)
    row |= summarise_token_logprobs(get_nested(response, "logProbs"))
    row["score"] = float_or_none(get_nested(result, "score"))
    latency = float_or_none(get_nested(result, "latencyMs"))
    # TOKENS, DOLLARS and SECONDS are names of columns, any of which can serve as the cost of an answer
    row[TOKENS] = float_or_none(get_nested(response, "tokenUsage", "total"))
    row[DOLLARS] = float_or_none(get_nested(result, "cost"))
    row[SECONDS] = None if latency is None else latency / _MILLISECONDS_PER_SECOND
    return row


def is_promptfoo_table(source: OpenedTable) -> bool:
    """Return whether a text table is a CSV export: the first row of some column begins with a verdict."""
    return bool(_find_verdict_columns(source))


def _find_verdict_columns(source: OpenedTable) -> dict[str, TextValues]:
    """Return the columns of a table whose first cell begins with [PASS], [FAIL] or [ERROR], loaded, by name."""
    columns = {}
    for name, column in source.columns.items():
        values = column.load() if column.is_text else None
        if isinstance(values, TextValues) and len(values) and _CELL_START.match(values.row(0)):
            columns[name] = values
    return columns


def read_promptfoo_table(source: OpenedTable, limits: Limits) -> LogContent:
    """Read a CSV export: one row for each row of the table and each column of verdicts.

    The question is the text of the other columns, promptfoo's variables. Columns of verdicts are titled by provider and
    prompt. Cells without a verdict are left out, and so are failed calls, which a note counts. `limits` are not used,
    since the table is in memory already. `source` is the opened file, which was recognised as an export. Rows with
    equal variables are one question, also across columns of verdicts.
    """
    # title -> its cells as `TextValues`, at least one; cells begin with [PASS], [FAIL] or [ERROR]
    verdict_columns = _find_verdict_columns(source)
    variables: dict[str, Column] = {
        name: column for name, column in source.columns.items() if name not in verdict_columns
    }
    questions = _make_questions(variables, row_count=len(next(iter(verdict_columns.values()))))
    rows: list[Row] = []
    failed_count = 0
    for title, cells in verdict_columns.items():
        model_title = _MODEL_TITLE.fullmatch(title)  # "[provider] prompt"; any other title serves for both
        for index, question in enumerate(questions):
            start = _CELL_START.match(cells.row(index))  # the verdict, and the score where there is one
            if start is None:
                continue
            verdict, score = start[1], start[2]
            if verdict == "ERROR":
                failed_count += 1
                continue
            row: Row = {
                "question": question,
                "correct": float(verdict == "PASS"),
                "provider": model_title[1] if model_title else title,
                "prompt": model_title[2] if model_title else title,
            }
            if score is not None:
                row["score"] = float(score)
            rows.append(row)
    notes = []
    if failed_count:
        notes.append(f"{count_noun(failed_count, 'result')} failed and {is_or_are(failed_count)} left out.")
    column_of_role = {"correct": "correct", "question": "question"}
    providers = {row["provider"] for row in rows}
    if len(providers) > 1:
        column_of_role["groups"] = "provider"
    facts = LogFacts(
        tool="promptfoo",
        column_of_role=column_of_role,
        possible_correctness_columns=names_of_columns_from_0_to_1(rows, ["correct", "score"]),
        model=only_text_or_empty(providers),  # "" where there are several
        model_column="provider" if len(providers) > 1 else "",
        descriptions={"correct": "PASS or FAIL", "question": "the values of the variables"},
        notes=tuple(notes),
    )
    return LogContent(rows, facts)


def _make_questions(variables: dict[str, Column], row_count: int) -> list[str]:
    """Return one text per row with the values of all variables; the number of the row where there are none."""
    texts = {name: column.as_texts().tolist() for name, column in variables.items()}
    if not texts:
        return [str(index + 1) for index in range(row_count)]
    return [
        json.dumps({name: values[index] for name, values in texts.items()}, sort_keys=True)
        for index in range(row_count)
    ]
