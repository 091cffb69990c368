"""Logs of Inspect: `.eval` (a zip archive with a JSON file for each sample) and `.json`."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from abstain.errors import import_optional
from abstain.formats.columns import LogFacts, Source, text_of
from abstain.formats.log_rows import (
    MEAN_TOKEN,
    SEQUENCE,
    Load,
    Read,
    Row,
    agreement,
    at,
    number,
    preferred,
    shares,
    source_of,
    token_signals,
)
from abstain.formats.roles import AGREEMENT
from abstain.formats.safety import (
    Limits,
    count_noun,
    decoded,
    display_name,
    file_error,
    has_or_have,
    is_or_are,
    reading,
)

# Inspect: `.eval` (a zip archive with a JSON file for each sample) and `.json`

_ZSTD = 93  # the compression that current versions use, and Python's zipfile before 3.14 does not read
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}  # correct, incorrect, partially, no answer
_HEADERS = ("header.json", "_journal/start.json")  # a run that was killed has written the second one only


def _is_inspect(content: Any) -> bool:
    return isinstance(at(content, "eval"), dict) and any(
        isinstance(at(content, key), kind)
        for key, kind in (("plan", dict), ("samples", list), ("status", str))
    )


def is_archive(path: Path) -> bool:
    """Is this a zip archive of Inspect?"""
    with zipfile.ZipFile(path) as archive:
        return any(name in archive.namelist() for name in _HEADERS)


def _inspect(path: Path, content: Any, load: Load) -> Read:
    samples = content.get("samples")
    return _inspect_samples(path, content, samples if isinstance(samples, list) else [])


def open_eval(path: Path, limits: Limits) -> Source:
    """A log in a zip archive; one sample at a time is unpacked, and what is not needed of it is dropped."""
    with reading(path, "a log of Inspect"), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        limits.check_columns(path, len(members) // 100)
        limits.check(path, sum(member.file_size for member in members), "unpacking it")
        header = next((m for name in _HEADERS for m in members if m.filename == name), None)
        if header is None:
            raise file_error(path, "is a zip archive and no log of Inspect (no header.json).")
        told = json.loads(_member(path, archive, header, limits))
        named = (m for m in members if m.filename.startswith("samples/") and m.filename.endswith(".json"))
        samples = (json.loads(_member(path, archive, m, limits)) for m in named)
        return source_of(path, limits, *_inspect_samples(path, told, samples))


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, limits: Limits) -> str:
    if member.compress_type != _ZSTD:
        with archive.open(member) as stream:
            return decoded(path, stream.read(member.file_size), limits)  # without a number it may unpack more
    pa = import_optional(
        "pyarrow", f"Reading {display_name(path.name)}, whose parts are packed by zstd,", "files"
    )
    with path.open("rb") as file:
        file.seek(member.header_offset + 26)  # the lengths of the name and of the extra field
        file.seek(sum(struct.unpack("<HH", file.read(4))), 1)
        packed = file.read(member.compress_size)
    with pa.input_stream(pa.py_buffer(packed), compression="zstd") as stream:
        data = stream.read(member.file_size + 1)
    if len(data) != member.file_size:
        raise file_error(
            path, f"`{display_name(member.filename)}` is not of the size that the archive states."
        )
    return decoded(path, data, limits)


def _inspect_samples(path: Path, header: Any, samples: Iterable[Any]) -> Read:
    rows: list[Row] = []
    without = {"failed": 0, "have no score": 0}
    for place, sample in enumerate(samples):
        if text_of(at(sample, "id")) is None:
            raise file_error(path, f"sample {place + 1} is no sample of Inspect (no id).")
        if isinstance(at(sample, "scores"), dict) and sample["scores"]:
            rows.append(_inspect_row(sample))
        else:
            without["failed" if at(sample, "error") else "have no score"] += 1
    notes = _inspect_notes(header, len(rows), without)
    if not rows:
        raise file_error(path, f"is a log of Inspect without scored samples; {' '.join(notes)}")
    worded = _grade(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    stated = [
        n for n in names if n.endswith(".confidence") and not n.startswith("metadata.") and n not in worded
    ]
    own = {"question", "epoch", "answer", SEQUENCE, MEAN_TOKEN, *stated}
    own |= set(worded)
    graded = (n for n in names if not n.endswith(".answered") and "metadata." not in n)
    scorers = shares(rows, [n for n in graded if n not in own])
    answered = {name: f"{name}.answered" for name in scorers if f"{name}.answered" in names}
    for row in rows:
        row |= {column: row.get(column, True) for column in answered.values()}
    ids = [row["question"] for row in rows]
    if len(set(ids)) < len(ids):
        for row, share in zip(rows, agreement(ids, [row["answer"] for row in rows])):
            row[AGREEMENT] = share
    headline = text_of(at(header, "results", "headline", "score")) or ""
    return rows, LogFacts(
        "Inspect",
        preferred(scorers, headline, *scorers) | {"question": "question", "epoch": "epoch"},
        scorers,
        signals=(SEQUENCE, MEAN_TOKEN, AGREEMENT, *stated),
        worded=worded,
        answered=answered,
        task=text_of(at(header, "eval", "task")) or "",
        notes=notes,
    )


def _inspect_row(sample: Row) -> Row:
    """What is kept of a sample: the number of each score, and numbers that may be confidences."""
    row = {"question": text_of(sample["id"]), "epoch": number(sample.get("epoch")), "answer": None}
    for name, score in sample["scores"].items():
        value = at(score, "value")
        row["answer"] = row["answer"] or text_of(at(score, "answer"))
        for key, part in (value if isinstance(value, dict) else {"": value}).items():
            column = f"{name}.{key}" if key else name
            row[column] = part if isinstance(part, str) else number(part)
        row |= _numbers(f"{name}.metadata.", at(score, "metadata"))
    tokens = at(sample, "output", "choices", 0, "logprobs", "content")
    return row | _numbers("metadata.", sample.get("metadata")) | token_signals(tokens)


def _grade(rows: list[Row]) -> tuple[str, ...]:
    """Turn Inspect's letters into numbers, in place; return the scorers that grade by other words.

    Where a scorer uses any other word, C may mean something else than correct (SimpleQA: not attempted).
    """
    worded = []
    for name in dict.fromkeys(name for row in rows for name in row if name not in ("question", "answer")):
        values = [row.get(name) for row in rows]
        words = {value for value in values if isinstance(value, str)}
        if words - GRADES.keys() and not any(isinstance(value, float) for value in values):
            worded.append(name)
            continue
        for row in rows:
            if isinstance(word := row.get(name), str):
                row[name] = GRADES.get(word)
                if word == "N":
                    row[f"{name}.answered"] = False
    return tuple(worded)


def _numbers(head: str, content: Any) -> Row:
    found = content if isinstance(content, dict) else {}
    return {f"{head}{name}": float(x) for name, x in found.items() if type(x) in (int, float)}


def _inspect_notes(header: Any, scored: int, without: dict[str, int]) -> tuple[str, ...]:
    status, promised = at(header, "status"), number(at(header, "results", "total_samples"))
    held = scored + sum(without.values())
    notes = [] if status == "success" else [f"the run has status {display_name(status)}."]
    if promised is not None and promised != held:
        notes.append(f"the header promises {count_noun(int(promised), 'sample')}, the file holds {held:,}.")
    reasons = {"failed": "failed", "have no score": f"{has_or_have(without['have no score'])} no score"}
    notes += [
        f"{count_noun(count, 'sample')} {reasons[why]} and {is_or_are(count)} left out."
        for why, count in without.items()
        if count
    ]
    return tuple(notes)
