"""Logs of promptfoo: its exports wrap one list of results in five ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from abstain.formats.columns import LogFacts, text_of
from abstain.formats.log_rows import (
    MEAN_TOKEN_LOGPROB,
    SEQUENCE_LOGPROB,
    LoadJson,
    LogContent,
    Row,
    as_number,
    find_scorers,
    get_nested,
    summarise_token_logprobs,
)
from abstain.formats.safety import count_noun, file_error, is_or_are

_CALL_FAILED = 2  # promptfoo's `failureReason` where the model could not be called


def is_promptfoo_log(content: Any) -> bool:
    """Return whether parsed JSON is an export of promptfoo."""
    return _find_results(content) is not None


def _find_results(content: Any) -> list[Any] | None:
    """Return the list of results of an export, whichever way it is wrapped; None where it is none of promptfoo.

    The list lies under results.results or results, which may lie under data. Its first entry decides: it must have the
    fields that promptfoo writes.
    """
    inner = get_nested(content, "data") or content
    results = get_nested(inner, "results", "results") or get_nested(inner, "results")
    if not isinstance(results, list):
        return None
    first = get_nested(results, 0)
    has_verdict = isinstance(get_nested(first, "success"), bool)
    has_question = any(get_nested(first, name) is not None for name in ("vars", "testCase"))
    promptfoo_names = ("prompt", "provider", "failureReason", "gradingResult")
    has_promptfoo_name = any(get_nested(first, name) is not None for name in promptfoo_names)
    return results if has_verdict and has_question and has_promptfoo_name else None


def read_promptfoo(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Read an export of promptfoo: one row per result, grouped by provider where there are several.

    Results whose model could not be called are left out, which a note says. DataError where a result does not say
    whether it succeeded. `load_json` is not used, since an export is one file.
    """
    rows: list[Row] = []
    failed_count = 0
    for index, result in enumerate(_find_results(content) or ()):
        if as_number(get_nested(result, "success")) is None:
            raise file_error(path, f"result {index + 1} of promptfoo must say `success` or not.")
        if _has_failed(result):
            failed_count += 1
        else:
            rows.append(_make_row(result))
    has_several_providers = len({row["provider"] for row in rows}) > 1
    notes = []
    if failed_count:
        notes.append(f"{count_noun(failed_count, 'result')} failed and {is_or_are(failed_count)} left out.")
    roles = {"correct": "correct", "question": "question"}
    if has_several_providers:
        roles["groups"] = "provider"
    facts = LogFacts(
        tool="promptfoo",
        roles=roles,
        scorers=find_scorers(rows, ["correct", "score"]),
        signals=("namedScores.confidence", SEQUENCE_LOGPROB, MEAN_TOKEN_LOGPROB),
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
    """Return one result as a row: "correct", "score" and named scores, the question, and token log-probabilities.

    `result` must have "success". The question is the text of its variables, so that equal variables are one question.
    """
    variables = get_nested(result, "vars") or get_nested(result, "testCase", "vars")
    row: Row = {
        "question": json.dumps(variables, sort_keys=True),
        "correct": as_number(result["success"]),
    }
    named_scores = get_nested(result, "namedScores")
    if isinstance(named_scores, dict):
        row |= {f"namedScores.{name}": as_number(score) for name, score in named_scores.items()}
    row["provider"] = text_of(get_nested(result, "provider", "id"))
    row["prompt"] = text_of(get_nested(result, "prompt", "label"))
    row |= summarise_token_logprobs(get_nested(_find_response(result), "logProbs"))
    row["score"] = as_number(get_nested(result, "score"))
    return row
