"""Results of UQLM: parallel lists of prompts, responses and confidences, mostly without correctness."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from abstain.formats.columns import LogFacts, text_or_none
from abstain.formats.log_rows import (
    LoadJson,
    LogContent,
    Row,
    assign_correct_role,
    float_or_none,
    get_nested,
    names_of_columns_from_0_to_1,
    summarise_token_logprobs,
)
from abstain.formats.roles import truth_role_of
from abstain.formats.safety import file_error

_TEXT_COLUMNS = ("part", "question", "answer")  # columns of a row that are neither confidences nor verdicts
_UQLM_CORRECTNESS_NAMES = (
    "correct_indicators",
    "response_correct",
)  # UQLM's names for right (1) and wrong (0)
_MAX_DEPTH = 4  # objects inside each other in which lists of numbers are looked for
_ANSWER_LISTS = ("responses", "prompts", "sampled_responses")


def is_uqlm_log(content: Any) -> bool:
    """Return whether parsed JSON is one result of UQLM, or several by name."""
    return bool(_find_parts(content))


def _find_parts(content: Any) -> dict[str, Any]:
    """Return the lists of each result of a file, by its name ("" for a single one); empty where there are none.

    A result is {"data": {"prompts": [...], "responses": [...], ...}, ...}, or has these lists itself.
    """
    parts = {"": content} if _is_part(content) else content
    if not isinstance(parts, dict) or not parts or not all(map(_is_part, parts.values())):
        return {}
    return parts


def _is_part(part: Any) -> bool:
    """Return whether this is one result: a list of responses, and one of prompts or of sampled responses."""
    data = get_nested(part, "data") or part
    has_questions = any(isinstance(get_nested(data, name), list) for name in _ANSWER_LISTS[1:])
    return isinstance(get_nested(data, "responses"), list) and has_questions


def read_uqlm(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Read results of UQLM: one row per response of each result.

    All columns of numbers are confidences, except those whose names say that they hold the truth, and entropies.
    `content` is the parsed file, which `is_uqlm_log` has accepted. DataError where the lists of a result have different
    lengths. `load_json` is not used, since the log is one file. A result holds lists with one entry per response;
    the facts say what the columns of the rows mean, and the user chooses among the possible confidences.
    """
    rows: list[Row] = []
    for part_name, part in _find_parts(content).items():  # the results by name, "" for a single one
        rows += _make_rows(path, part_name, part)
    # all columns but the name of the result, the question and the answer
    number_names = dict.fromkeys(name for row in rows for name in row if name not in _TEXT_COLUMNS)
    # `truth_role_of` returns "labels", "correct", "loss" or "error" for a name that states it, otherwise None
    truth_names = [name for name in number_names if truth_role_of(name) or name in _UQLM_CORRECTNESS_NAMES]
    correct_names = [
        name for name in truth_names if truth_role_of(name) == "correct" or name in _UQLM_CORRECTNESS_NAMES
    ]
    correctness_columns = names_of_columns_from_0_to_1(rows, correct_names)
    # a larger entropy means less sure
    confidence_columns = [name for name in number_names if name not in truth_names and not _is_entropy(name)]
    facts = LogFacts(
        tool="UQLM",
        column_of_role={
            # {"correct": the only column}; empty where there are several, of which the user has to name one
            **assign_correct_role(correctness_columns),
            "question": "question",
            "prediction": "answer",
        },
        possible_correctness_columns=correctness_columns,
        possible_confidence_columns=tuple(confidence_columns),
        # of several results in a file, one is read at a time
        variant_column="part" if any("part" in row for row in rows) else "",
    )
    return LogContent(rows, facts)


def _make_rows(path: Path, part_name: str, part: Any) -> Iterator[Row]:
    """Yield a row for each response of one result; DataError where its lists have different lengths.

    The result holds lists with one entry per response: "prompts", "responses", and lists of numbers, each of which
    becomes a column; those in objects inside it have dotted names and count where they have as many entries. `part` is
    the result and `part_name` its name, "" for the only one of a file. Log-probabilities of tokens add their sum and
    mean as columns, unless the log has none for the response. Without prompts, a response is numbered, from 1.
    `get_nested` gives None where a key or an index is missing, `float_or_none` None for what is no number. There is a
    list of responses, by which the file was recognised.
    """
    data = get_nested(part, "data") or part  # the lists lie in the result or under "data"
    lists: dict[str, Any] = {name: values for name, values in data.items() if isinstance(values, list)}
    if len(set(map(len, lists.values()))) != 1:
        raise file_error(path, "the lists of a UQLM result must have one length.")
    row_count = len(lists["responses"])
    for name, content in data.items():
        if isinstance(content, dict):
            lists |= _find_number_lists(content, f"{name}.", row_count)
    # for each response the log-probabilities of its tokens, or one number
    token_logprobs = lists.pop("logprobs", None) or get_nested(part, "metadata", "logprobs") or []
    for index in range(row_count):
        row: Row = {"part": part_name} if part_name else {}
        row["question"] = text_or_none(get_nested(lists, "prompts", index)) or str(index + 1)
        row["answer"] = text_or_none(get_nested(lists, "responses", index))
        # texts are no numbers, and give no column; "tokens" is one where the log has a number for each response
        for name, values in {**lists, "tokens": token_logprobs}.items():
            number = float_or_none(get_nested(values, index))
            if number is not None:
                row[name] = number
        # {} for anything but a list with a number for each token
        row |= summarise_token_logprobs(get_nested(token_logprobs, index))
        yield row


def _find_number_lists(content: Any, prefix: str, length: int, depth: int = 0) -> dict[str, list[Any]]:
    """Return the lists of `length` numbers inside an object, at most `_MAX_DEPTH` (4) objects deep, by dotted name.

    Only the first entry of a list is looked at. `prefix` is put before each name, and `depth` counts the objects around
    this one. `content` is a parsed JSON object. The list "b" of the object "a" is called "a.b", after the prefix; lists
    of another length do not describe the responses and are passed over.
    """
    lists: dict[str, list[Any]] = {}
    for name, value in content.items():
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            lists |= _find_number_lists(value, f"{prefix}{name}.", length, depth + 1)
        elif (
            isinstance(value, list)
            and len(value) == length
            and float_or_none(get_nested(value, 0)) is not None
        ):
            lists[f"{prefix}{name}"] = value
    return lists


def _is_entropy(name: str) -> bool:
    """Return whether a column is an entropy: it rises as a model gets less sure, so it is no confidence.

    UQLM writes a confidence next to each.
    """
    return "entropy" in name.lower() and "negentropy" not in name.lower()
