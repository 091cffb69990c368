"""Results of UQLM: parallel lists of prompts, responses and confidences, mostly without correctness."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from abstain.formats.columns import LogFacts, text_of
from abstain.formats.log_rows import (
    LoadJson,
    LogContent,
    Row,
    as_number,
    choose_correct_column,
    find_scorers,
    get_nested,
    summarise_token_logprobs,
)
from abstain.formats.roles import truth_role_of
from abstain.formats.safety import file_error

_NOT_NUMBERS = ("part", "question", "answer")  # columns of a row that are neither confidences nor verdicts


def is_uqlm_log(content: Any) -> bool:
    """Return whether parsed JSON is one result of UQLM, or several by name."""
    return bool(_find_parts(content))


def _find_parts(content: Any) -> dict[str, Any]:
    """Return the results of a file by name ("" for a single one); empty where it is none of UQLM.

    Each result must be {"data": {"prompts": [...], "responses": [...], ...}, ...}.
    """
    parts = {"": content} if isinstance(get_nested(content, "data"), dict) else content
    if not isinstance(parts, dict) or not parts:
        return {}
    for part in parts.values():
        responses = get_nested(part, "data", "responses")
        prompts = get_nested(part, "data", "prompts")
        if not isinstance(responses, list) or not isinstance(prompts, list):
            return {}
    return parts


def read_uqlm(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Read results of UQLM: one row per prompt of each result.

    All columns of numbers are confidences, except those whose names say that they hold the truth, and entropies.
    `content` is the parsed file, which `is_uqlm_log` has accepted. DataError where the lists of a result have different
    lengths, IndexError where there is no prompt. `load_json` is not used, since the log is one file.
    """
    rows: list[Row] = []
    for part_name, part in _find_parts(content).items():
        rows += _make_rows(path, part_name, part)
    number_names = dict.fromkeys(name for row in rows for name in row if name not in _NOT_NUMBERS)
    truth_names = [name for name in number_names if truth_role_of(name)]
    scorers = find_scorers(rows, [name for name in truth_names if truth_role_of(name) == "correct"])
    signals = [name for name in number_names if name not in truth_names and not _is_entropy(name)]
    facts = LogFacts(
        tool="UQLM",
        roles={**choose_correct_column(scorers), "question": "question", "prediction": "answer"},
        scorers=scorers,
        signals=tuple(signals),
        variant="part" if any("part" in row for row in rows) else "",
    )
    return LogContent(rows, facts)


def _make_rows(path: Path, part_name: str, part: Any) -> Iterator[Row]:
    """Yield a row for each prompt of one result; DataError where its lists have different lengths.

    `part["data"]` holds lists with one entry per prompt: "prompts", "responses", and lists of numbers, each of which
    becomes a column. `part_name` is the result's name, or "" for the only one of a file. Log-probabilities of tokens
    add their sum and mean as columns.
    """
    lists: dict[str, Any] = {
        name: values for name, values in part["data"].items() if isinstance(values, list)
    }
    if len(set(map(len, lists.values()))) != 1:
        raise file_error(path, "the lists of a UQLM result must have one length.")
    token_logprobs = lists.pop("logprobs", None) or get_nested(part, "metadata", "logprobs") or []
    for index, prompt in enumerate(lists["prompts"]):
        row: Row = {"part": part_name} if part_name else {}
        row["question"] = text_of(prompt)
        row["answer"] = text_of(get_nested(lists, "responses", index))
        for name, values in {**lists, "tokens": token_logprobs}.items():
            number = as_number(get_nested(values, index))
            if number is not None:
                row[name] = number
        row |= summarise_token_logprobs(get_nested(token_logprobs, index))
        yield row


def _is_entropy(name: str) -> bool:
    """Return whether a column is an entropy: it rises as a model gets less sure, so it is no confidence.

    UQLM writes a confidence next to each.
    """
    return "entropy" in name.lower() and "negentropy" not in name.lower()
