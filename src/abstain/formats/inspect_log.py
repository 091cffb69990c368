"""Logs of Inspect: `.eval` (a zip archive with a JSON file for each sample) and `.json`."""

from __future__ import annotations

import json
import math
import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from abstain.errors import import_optional
from abstain.formats.columns import LogFacts, OpenedTable, text_or_none
from abstain.formats.log_rows import (
    LETTERS_SUFFIX,
    MEAN_TOKEN_LOGPROB,
    SECONDS,
    SEQUENCE_LOGPROB,
    TOKENS,
    UNANSWERABLE,
    LoadJson,
    LogContent,
    Row,
    agreement,
    assign_correct_role,
    float_or_none,
    get_nested,
    make_log_source,
    names_of_columns_from_0_to_1,
    read_unanswerable,
    summarise_token_logprobs,
)
from abstain.formats.roles import AGREEMENT
from abstain.formats.safety import (
    Limits,
    count_noun,
    decode_json,
    display_name,
    file_error,
    has_or_have,
    is_or_are,
    reporting_damage,
)

GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Inspect's letters: correct, incorrect, partially correct, no answer."""
_NO_ANSWER = "N"
# Zip's number for the compression of current versions, which zipfile before Python 3.14 does not read
_ZSTD = 93
# Members with the header of a log; a run that was killed has written the second one only.
_HEADER_NAMES = ("header.json", "_journal/start.json")
_ALLOWED_MEMBERS_PER_COLUMN = 100  # how many more members than columns a file may have
# Where a zip member's local header holds the lengths of its name and of its extra field
_OFFSET_OF_NAME_AND_EXTRA_LENGTHS = 26


def is_inspect_log(content: Any) -> bool:
    """Return whether parsed JSON is a log of Inspect."""
    if not isinstance(get_nested(content, "eval"), dict):
        return False
    has_plan = isinstance(get_nested(content, "plan"), dict)
    has_samples = isinstance(get_nested(content, "samples"), list)
    has_status = isinstance(get_nested(content, "status"), str)
    return has_plan or has_samples or has_status


def is_inspect_archive(path: Path) -> bool:
    """Return whether this zip archive is a log of Inspect."""
    with zipfile.ZipFile(path) as archive:
        return any(name in archive.namelist() for name in _HEADER_NAMES)


def read_inspect(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Read a log that is one JSON object, `content`; `load_json` is not used, since the log is one file."""
    samples = content.get("samples")
    return _read_samples(path, content, samples if isinstance(samples, list) else [])


def open_inspect_archive(path: Path, limits: Limits) -> OpenedTable:
    """Read a log in a zip archive, one sample at a time; only the scores and numbers of a sample are kept.

    DataError where the archive has no header, is damaged, holds no scored sample, or would need more memory or members
    than `limits` allow.
    """
    with reporting_damage(path, "a log of Inspect"), zipfile.ZipFile(path) as archive:
        members = archive.infolist()  # a header, and one member for each sample
        # A member is a row, of which more are allowed than of columns: 100 times as many as the limit of columns.
        limits.check_columns(path, len(members) // _ALLOWED_MEMBERS_PER_COLUMN)
        # `file_size` is what the archive states; `_read_member` reads no more than that
        limits.check_memory(path, sum(member.file_size for member in members), "decompressing it")
        header_member = _find_header(members)
        if header_member is None:
            raise file_error(path, "is a zip archive but not a log of Inspect (it has no header.json).")
        header = json.loads(_read_member(path, archive, header_member, limits))
        samples = (  # parsed one at a time, while `_read_samples` makes the rows
            json.loads(_read_member(path, archive, member, limits))
            for member in members
            if member.filename.startswith("samples/") and member.filename.endswith(".json")
        )
        content = _read_samples(path, header, samples)  # a row for each sample, and what the columns are
        return make_log_source(path, limits, content)


def _find_header(members: list[zipfile.ZipInfo]) -> zipfile.ZipInfo | None:
    """Return the archive's member with the header: that of a finished run, where there is one."""
    for name in _HEADER_NAMES:
        for member in members:
            if member.filename == name:
                return member
    return None


def _read_member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, limits: Limits) -> str:
    """Return the text of one JSON member of the archive.

    zipfile does not read members compressed by zstd (before Python 3.14), so these are found in the file and
    decompressed by pyarrow. DataError where parsing the text would need more memory than `limits` allow, or where a
    zstd member is not of the size that the archive states. MissingDependencyError where zstd needs pyarrow.
    """
    if member.compress_type != _ZSTD:
        with archive.open(member) as stream:
            # Without the size, read() would return more than the archive states.
            return decode_json(path, stream.read(member.file_size), limits)
    # begins the message where pyarrow is missing
    feature = f"Reading {display_name(path.name)}, whose parts are compressed by zstd,"
    pyarrow = import_optional("pyarrow", feature=feature, extra="files")
    # In the file: the member's local header, its name, an extra field, then its data. The lengths of the name and of
    # the extra field are two little-endian 16-bit numbers in the header.
    with path.open("rb") as file:
        file.seek(member.header_offset + _OFFSET_OF_NAME_AND_EXTRA_LENGTHS)
        name_length, extra_length = struct.unpack("<HH", file.read(4))
        file.seek(name_length + extra_length, 1)
        compressed = file.read(member.compress_size)
    with pyarrow.input_stream(pyarrow.py_buffer(compressed), compression="zstd") as stream:
        data = stream.read(member.file_size + 1)  # one byte more shows that there is more
    if len(data) != member.file_size:
        raise file_error(
            path, f"`{display_name(member.filename)}` does not have the size that the archive states."
        )
    return decode_json(path, data, limits)


def _read_samples(path: Path, header: Any, samples: Iterable[Any]) -> LogContent:
    """Make one row of each scored sample of a log, and say what the columns mean.

    `header` is the parsed header of the log, and `samples` are its parsed samples. Columns: one per scorer (and per key
    of a scorer whose value is a dict), numbers of the metadata, confidences from token log-probabilities, and the
    agreement of repeated answers. A note says how many samples failed or have no score. DataError where a sample has
    no id, or where no sample was scored.
    """
    rows: list[Row] = []
    failed_count = 0
    unscored_count = 0
    for index, sample in enumerate(samples):
        if text_or_none(get_nested(sample, "id")) is None:
            raise file_error(path, f"sample {index + 1} is not a sample of Inspect (it has no id).")
        if isinstance(get_nested(sample, "scores"), dict) and sample["scores"]:
            rows.append(_make_row(sample))
        elif get_nested(sample, "error"):
            failed_count += 1
        else:
            unscored_count += 1
    notes = _make_notes(header, len(rows), failed_count, unscored_count)
    if not rows:
        raise file_error(path, f"is a log of Inspect without scored samples; {' '.join(notes)}")
    word_grade_columns = _grade_letters_in_place(rows)  # columns that grade by words of unknown meaning
    names = list(dict.fromkeys(name for row in rows for name in row))
    stated_confidences = [
        name
        for name in names
        if name.endswith(".confidence")
        and not name.startswith("metadata.")
        and name not in word_grade_columns
    ]
    other_columns = {
        "question",
        "epoch",
        "answer",
        SEQUENCE_LOGPROB,
        MEAN_TOKEN_LOGPROB,
        TOKENS,
        SECONDS,
        UNANSWERABLE,
    }
    other_columns |= {*stated_confidences, *word_grade_columns}
    candidates = [
        name for name in names if not name.endswith((".answered", LETTERS_SUFFIX)) and "metadata." not in name
    ]
    correctness_columns = names_of_columns_from_0_to_1(
        rows, [name for name in candidates if name not in other_columns]
    )
    answered_column_by_correctness = {
        name: f"{name}.answered" for name in correctness_columns if f"{name}.answered" in names
    }
    for row in rows:
        for column in answered_column_by_correctness.values():
            row.setdefault(column, True)
    _add_agreement(rows)
    headline_scorer = text_or_none(get_nested(header, "results", "headline", "score")) or ""
    facts = LogFacts(
        tool="Inspect",
        column_of_role={
            **assign_correct_role(correctness_columns, prefer=(headline_scorer, *correctness_columns)),
            "question": "question",
            "epoch": "epoch",
        },
        possible_correctness_columns=correctness_columns,
        possible_confidence_columns=(SEQUENCE_LOGPROB, MEAN_TOKEN_LOGPROB, AGREEMENT, *stated_confidences),
        word_grade_columns=word_grade_columns,
        answered_column_by_correctness=answered_column_by_correctness,
        task=text_or_none(get_nested(header, "eval", "task")) or "",
        model=text_or_none(get_nested(header, "eval", "model")) or "",
        notes=notes,
    )
    return LogContent(rows, facts)


def _make_row(sample: Row) -> Row:
    """Return what is kept of a parsed sample: the value of each score, and numbers that may be confidences.

    `sample["scores"]` maps names of scorers to {"value": ..., "answer": ..., "metadata": ...}. A score that holds
    several values by key gives a column for each, `scorer.key`. Values that are texts (letters, words) stay texts,
    others become floats, or None where they are no number. The answer is the first that a score states. The sample must
    have an id and scores.
    """
    row: Row = {
        "question": text_or_none(sample["id"]),
        "epoch": float_or_none(sample.get("epoch")),
        "answer": None,
    }
    for scorer, score in sample["scores"].items():
        value = get_nested(score, "value")
        row["answer"] = row["answer"] or text_or_none(get_nested(score, "answer"))
        values_by_key = value if isinstance(value, dict) else {"": value}  # "" for a score with one value
        for key, part in values_by_key.items():
            column = f"{scorer}.{key}" if key else scorer
            row[column] = part if isinstance(part, str) else float_or_none(part)
        # one column for each number directly in the metadata that a judge or the task states, such as a confidence
        row |= _select_numbers(get_nested(score, "metadata"), prefix=f"{scorer}.metadata.")
    # what the data set says of the question
    row |= _select_numbers(sample.get("metadata"), prefix="metadata.")
    row |= read_unanswerable(sample.get("metadata"))  # one column, where the metadata say it
    # the log-probabilities of the reply: their sum and their mean, where the log has them
    row |= summarise_token_logprobs(get_nested(sample, "output", "choices", 0, "logprobs", "content"))
    # what the sample cost; None where the log does not say it
    row[TOKENS] = _count_tokens(sample)
    row[SECONDS] = float_or_none(sample.get("total_time"))
    return row


def _count_tokens(sample: Row) -> float | None:
    """Return the tokens that all models used for a sample, or those of its output; None where the log has neither."""
    usage_by_model = sample.get("model_usage")
    if isinstance(usage_by_model, dict) and usage_by_model:
        counts = [float_or_none(get_nested(usage, "total_tokens")) for usage in usage_by_model.values()]
        return math.fsum(count for count in counts if count is not None)
    return float_or_none(get_nested(sample, "output", "usage", "total_tokens"))


def _select_numbers(content: Any, prefix: str) -> Row:
    """Return the numbers (no truth values) of a dict under their names with a prefix; empty where it is no dict."""
    if not isinstance(content, dict):
        return {}
    return {f"{prefix}{name}": float(value) for name, value in content.items() if type(value) in (int, float)}


def _grade_letters_in_place(rows: list[Row]) -> tuple[str, ...]:
    """Turn Inspect's letters in all columns of the rows into numbers, in place; return the columns that hold words.

    Where a column without numbers holds any other word, C may mean something else than correct (SimpleQA: not
    attempted), so all its words stay, and its name is returned. In a column that mixes numbers and texts, texts other
    than the letters become None. For the letter N the row's column `NAME.answered` is set to False. The letters
    themselves stay in the column `NAME.letters`. A row maps names of columns to numbers, texts or None.
    """
    word_grade_columns = []
    names = dict.fromkeys(name for row in rows for name in row if name not in ("question", "answer"))
    for name in names:
        values = [row.get(name) for row in rows]
        words = {value for value in values if isinstance(value, str)}
        has_numbers = any(isinstance(value, float) for value in values)
        # words other than the letters: C correct (1.0), P partly (0.5), I incorrect and N no answer (0.0)
        other_words = words - GRADES.keys()
        if other_words and not has_numbers:
            word_grade_columns.append(name)
            continue
        for row in rows:
            word = row.get(name)
            if isinstance(word, str):
                row[f"{name}{LETTERS_SUFFIX}"] = word
                row[name] = GRADES.get(word)
                if word == _NO_ANSWER:
                    row[f"{name}.answered"] = False
    return tuple(word_grade_columns)


def _add_agreement(rows: list[Row]) -> None:
    """Add the column "agreement" to each row, in place, where questions were asked more than once.

    It is the share of the rows of the same question that have the same answer; None for a row without an answer.
    """
    questions = [row["question"] for row in rows]
    if len(set(questions)) == len(questions):
        return
    answers = [row["answer"] for row in rows]
    for row, share in zip(rows, agreement(questions, answers)):
        row[AGREEMENT] = share


def _make_notes(header: Any, scored_count: int, failed_count: int, unscored_count: int) -> tuple[str, ...]:
    """Return sentences on what a user must know before trusting a number; none where all is well.

    They say that the run did not finish, that the file holds another number of samples than its header states, and
    how many samples failed or have no score. The counts are of samples in the file; each sample is in one of them.
    `header` is the parsed header of the log.
    """
    notes = []
    # "success", "started", "cancelled" or "error"; None where the header lacks it, which is told as well
    status = get_nested(header, "status")
    if status != "success":
        notes.append(f"the run has status {display_name(status)}.")
    expected_count = float_or_none(get_nested(header, "results", "total_samples"))
    sample_count = scored_count + failed_count + unscored_count
    # The header counts samples and epochs together. None where the run did not get that far.
    if expected_count is not None and expected_count != sample_count:
        expected = count_noun(int(expected_count), "sample")
        notes.append(f"the header promises {expected}, the file holds {sample_count:,}.")
    if failed_count:
        notes.append(f"{count_noun(failed_count, 'sample')} failed and {is_or_are(failed_count)} left out.")
    if unscored_count:
        notes.append(
            f"{count_noun(unscored_count, 'sample')} {has_or_have(unscored_count)} no score and "
            f"{is_or_are(unscored_count)} left out."
        )
    return tuple(notes)
