"""Logs of evaluation harnesses as columns, known by what is in them and not by their names.

lm-evaluation-harness, HELM, promptfoo, UQLM and Inspect; none of them is imported. A reader turns each answer into a
flat row; which columns say right or wrong and which are confidences is kept beside them in `LogFacts`, to be shown,
and to be overruled by whoever knows better.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abstain.errors import DataError, needed
from abstain.formats.columns import AGREEMENT, Column, LogFacts, Source, Words, states_truth, text_of
from abstain.formats.safety import Limits, are, counted, decoded, file_error, have, reading, shown

Row = dict[str, Any]
Load = Callable[[Path], Any]  # the parsed content of a JSON file, within the limits
Read = tuple[list[Row], LogFacts]
SEQUENCE, MEAN_TOKEN = "sequence_logprob", "mean_token_logprob"


def at(content: Any, *places: Any) -> Any:
    """What lies under these keys and indices; None where anything on the way is missing or of another kind."""
    for place in places:
        if isinstance(content, dict):
            content = content.get(place)
        elif isinstance(content, list) and isinstance(place, int) and place < len(content):
            content = content[place]
        else:
            return None
    return content


def number(value: Any) -> float | None:
    """A number or a truth value as a number; None for everything else."""
    return float(value) if isinstance(value, (bool, int, float)) else None


def token_signals(logprobs: Any) -> Row:
    """Sum and mean of the log-probabilities of the tokens that were generated."""
    found = [number(at(token, "logprob") if isinstance(token, dict) else token) for token in logprobs or ()]
    values = [x for x in found if x is not None]
    if not values or len(values) < len(found):
        return {}
    return {SEQUENCE: math.fsum(values), MEAN_TOKEN: math.fsum(values) / len(values)}


def agreement(questions: Sequence[Hashable], answers: Sequence[Hashable | None]) -> list[float | None]:
    """Of the answers to one question, the share that are the same as this one; None where there is no answer."""
    asked = Counter(questions)
    same = Counter(zip(questions, answers))
    return [None if a is None else same[q, a] / asked[q] for q, a in zip(questions, answers)]


def source_of(path: Path, limits: Limits, rows: Sequence[Row], facts: LogFacts) -> Source:
    """Rows as columns: numbers where every value is one (a missing one is NaN), text otherwise."""
    if not rows:
        raise file_error(path, f"is a log of {facts.tool} that holds no answers.")
    names = list(dict.fromkeys(name for row in rows for name in row))
    limits.check_columns(path, len(names))
    limits.check(path, 40 * len(names) * len(rows))
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    scorers, signals = (tuple(n for n in some if n in columns) for some in (facts.scorers, facts.signals))
    return Source(path, "log", columns, log=replace(facts, scorers=scorers, signals=signals))


def _column(values: list[Any]) -> Column:
    if all(v is None or isinstance(v, (bool, int, float)) for v in values):
        return Column.of(np.array([math.nan if v is None else float(v) for v in values]))
    return Column.of(Words.of("" if v is None else str(v) for v in values))


def shares(rows: Sequence[Row], names: Sequence[str]) -> tuple[str, ...]:
    """Of these columns, those that may say how right an answer is: numbers, all of them from 0 to 1."""
    found = []
    for name in names:
        values = [row[name] for row in rows if row.get(name) is not None and not math.isnan(row[name])]
        if values and min(values) >= 0 and max(values) <= 1:
            found.append(name)
    return tuple(found)


def preferred(found: Sequence[str], *known: str) -> dict[str, str]:
    """The column to take for correctness: a known one, or the only one; none where it must be stated."""
    best = next((name for name in known if name in found), found[0] if len(found) == 1 else None)
    return {} if best is None else {"correct": best}


# lm-evaluation-harness: one record per document and filter

_LM_EVAL = ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics")
_OF_OPTIONS = ("softmax", "margin", "loglikelihood")


def read_lm_eval(path: Path, records: list[Any], load: Load) -> Read:
    """Samples of lm-evaluation-harness, as a file or the harness itself holds them."""
    rows: list[Row] = []
    metrics: dict[str, None] = {}
    leaking = 0
    for place, record in enumerate(records):
        if not isinstance(record, dict) or text_of(record.get("doc_id")) is None:
            raise file_error(path, f"record {place + 1} is no sample of lm-evaluation-harness (no doc_id).")
        told = record.get("metrics")
        others = (n for n in record if n not in _LM_EVAL and not n.endswith("_hash"))
        names = told if isinstance(told, list) else others
        scores = {str(name): number(record.get(str(name))) for name in names}
        metrics |= dict.fromkeys(name for name, value in scores.items() if value is not None)
        answer = _first_text(record.get("filtered_resps"))
        row = {"question": text_of(record["doc_id"]), "filter": text_of(record.get("filter")), **scores}
        likelihoods = _option_likelihoods(record)
        if likelihoods is None:
            answered = answer is not None and answer.strip() not in ("", "[invalid]")
            row |= {"answer": answer, "answered": answered, **_repeats(record)}
        elif len(likelihoods) == 1:  # of the right answer alone: whoever ranks by it has seen the label
            row["answered"] = True
            leaking += 1
        else:
            row |= _option_signals(likelihoods, "acc_norm" in record)
        rows.append(row)
    scorers = shares(rows, list(metrics))
    roles = preferred(scorers, "acc", "exact_match", "pass@1") | {"question": "question"}
    if texts := any("answered" in row for row in rows):
        rows = [{"answered": True, **row} for row in rows]  # an option is always chosen
    notes = _promised(path, len({row["question"] for row in rows}), load)
    if leaking:
        notes += (
            f"{counted(leaking, 'row')} {have(leaking)} one log-likelihood, that of the right answer, which the model "
            f"does not know: it is no confidence.",
        )
    return rows, LogFacts(
        "lm-evaluation-harness",
        roles | ({"answered": "answered"} if texts else {}),
        scorers,
        signals=(*_OF_OPTIONS, "softmax_norm", AGREEMENT),
        not_with={"acc_norm": _OF_OPTIONS, "acc": ("softmax_norm",)},
        variant="filter" if any(row["filter"] for row in rows) else "",
        about={"answered": "the filtered reply is neither empty nor [invalid]"},
        task=_task_of(path),
        notes=notes,
    )


def _first_text(replies: Any) -> str | None:
    for _ in range(3):
        replies = replies[0] if isinstance(replies, list) and replies else replies
    return replies if isinstance(replies, str) else None


def _repeats(record: Row) -> Row:
    """How far several replies to one prompt agree, word for word."""
    replies = at(record, "resps", 0)
    if not isinstance(replies, list) or len(replies) < 2 or not all(isinstance(r, str) for r in replies):
        return {}
    return {AGREEMENT: Counter(r.strip() for r in replies).most_common(1)[0][1] / len(replies)}


class Option(NamedTuple):
    """One continuation that the model was asked to score."""

    loglikelihood: float
    length: int  # characters, without the blank before it; 0 where the log does not say


def _option_likelihoods(record: Row) -> list[Option] | None:
    """What each request of a document scored; None where the record holds text.

    A multiple-choice task scores every option. A task of kind `loglikelihood` (LAMBADA, ASDiv) scores one text: the
    right answer.
    """
    pairs = record.get("filtered_resps") or [None]
    if not isinstance(pairs, list) or not all(map(_is_scored, pairs)):
        return None
    options = []
    for k, (loglikelihood, _) in enumerate(pairs):
        request = at(record, "arguments", f"gen_args_{k}")
        if k and at(request, "arg_0") == "":  # unconditional, for the mutual information: no option
            continue
        text = at(request, "arg_1")
        length = len(text.removeprefix(" ")) if isinstance(text, str) else 0
        options.append(Option(float(loglikelihood), length))
    return options


def _is_scored(pair: Any) -> bool:
    """A log-likelihood beside whether it is the greedy continuation; numbers and truth values may be text."""
    if not isinstance(pair, list) or len(pair) != 2 or str(pair[1]) not in ("True", "False"):
        return False
    try:
        float(pair[0])
    except (TypeError, ValueError):
        return False
    return True


def _option_signals(options: list[Option], normalised: bool) -> Row:
    """Confidences from the log-likelihoods of all options, whichever of them is right."""
    values = [option.loglikelihood for option in options]
    if not all(map(math.isfinite, values)):
        return {"softmax": None}
    second, first = sorted(values)[-2:]
    signals = {"softmax": _softmax(values), "margin": first - second}
    if normalised and min(option.length for option in options) > 0:
        signals["softmax_norm"] = _softmax([option.loglikelihood / option.length for option in options])
    return signals | {"loglikelihood": first}


def _softmax(x: list[float]) -> float:
    """The largest probability of a softmax; of one short row, so without arrays."""
    return 1 / math.fsum(math.exp(value - max(x)) for value in x)


def _task_of(path: Path) -> str:
    found = re.match(r"samples_(.+)_\d{4}-\d\d-\d\dT", path.name)
    return found[1] if found else ""


def _promised(path: Path, held: int, load: Load) -> tuple[str, ...]:
    """What the results file beside a samples file says of its number of documents."""
    task, stamp = _task_of(path), re.search(r"\d{4}-\d\d-\d\dT[\d.-]*\d", path.name)
    for other in sorted(path.parent.glob(f"*{stamp[0]}.json")) if stamp else ():
        if other.is_file() and not other.name.startswith("samples_"):
            try:
                count = number(at(load(other), "n-samples", task, "effective"))
            except (DataError, ValueError, RecursionError):  # it is not what was asked for
                continue
            if count is not None and count != held:
                return (
                    f"{shown(other.name)} promises {counted(int(count), 'document')}, the file holds {held:,}.",
                )
    return ()


def _no_samples(path: Path, content: Any, load: Load) -> Read:
    told = "is a summary of lm-evaluation-harness without answers. Name the samples_*.jsonl that"
    raise file_error(path, f"{told} `lm_eval --log_samples` writes beside it.")


# HELM: a folder of JSON files for one run

HELM = "per_instance_stats.json"
# How a model was asked where `logprob` is that of its own reply; elsewhere it may be that of the right answer.
_HELM_GENERATES = ("generation", "multiple_choice_joint", "chat")
_HELM_PARTS = ("run_spec.json", "scenario.json", "scenario_state.json", "stats.json")


def _helm(path: Path, instances: list[Any], load: Load) -> Read:
    outputs = _helm_outputs(load(state)) if (state := path.with_name("scenario_state.json")).is_file() else {}
    rows: list[Row] = []
    for place, instance in enumerate(instances):
        if text_of(at(instance, "instance_id")) is None or not isinstance(at(instance, "stats"), list):
            raise file_error(path, f"entry {place + 1} is no instance of a HELM run.")
        key = (text_of(instance["instance_id"]), at(instance, "train_trial_index"))
        answered = outputs.get(key, True) if outputs else None
        stats = ((at(s, "name", "name"), number(at(s, "mean"))) for s in instance["stats"])
        row: Row = {"question": key[0], "epoch": number(key[1]), "answered": answered}
        rows.append(row | {name: x for name, x in stats if isinstance(name, str) and x is not None})
    names = dict.fromkeys(name for row in rows for name in row)
    scorers = shares(rows, [name for name in names if re.search("match|correct|accuracy|f1", name)])
    spec = path.with_name("run_spec.json")
    method = at(load(spec), "adapter_spec", "method") if spec.is_file() else None
    generates = isinstance(method, str) and method in _HELM_GENERATES
    roles = ("question", "epoch", "answered") if outputs else ("question", "epoch")
    return rows, LogFacts(
        "HELM",
        preferred(scorers, "exact_match") | dict(zip(roles, roles)),
        scorers,
        signals=("max_prob", "logprob") if generates else ("max_prob",),
        task=path.absolute().parent.name,
        about={"answered": "the reply is one of the options"},
    )


def _helm_outputs(state: Any) -> dict[Any, bool]:
    """Which requests with options were answered by one of them."""
    found = {}
    for request in at(state, "request_states") or ():
        options, reply = at(request, "output_mapping"), at(request, "result", "completions", 0, "text")
        if isinstance(options, dict) and isinstance(reply, str):
            key = (text_of(at(request, "instance", "id")), at(request, "train_trial_index"))
            found[key] = reply.strip() in options
    return found


# promptfoo: five shapes around one list of results


def _promptfoo_results(content: Any) -> list[Any] | None:
    inner = at(content, "data") or content
    found = at(inner, "results", "results") or at(inner, "results")
    first = at(found, 0) if isinstance(found, list) else None
    asked = at(first, "vars") is not None or at(first, "testCase") is not None
    known = any(
        at(first, name) is not None for name in ("prompt", "provider", "failureReason", "gradingResult")
    )
    return found if isinstance(at(first, "success"), bool) and asked and known else None


def _promptfoo(path: Path, content: Any, load: Load) -> Read:
    rows: list[Row] = []
    failed = 0
    for result in _promptfoo_results(content) or ():
        response = at(result, "response") or at(result, "providerResponse")
        if number(at(result, "success")) is None:
            raise file_error(path, f"result {len(rows) + failed + 1} of promptfoo must say `success` or not.")
        if at(result, "failureReason") == 2 or (at(result, "error") and at(response, "output") is None):
            failed += 1
            continue
        asked = at(result, "vars") or at(result, "testCase", "vars")
        given = {"provider": at(result, "provider", "id"), "prompt": at(result, "prompt", "label")}
        row = {"question": json.dumps(asked, sort_keys=True), "correct": number(result["success"])}
        named = at(result, "namedScores")
        row |= {f"namedScores.{k}": number(v) for k, v in (named if isinstance(named, dict) else {}).items()}
        row |= {k: text_of(v) for k, v in given.items()} | token_signals(at(response, "logProbs"))
        rows.append(row | {"score": number(at(result, "score"))})
    several = len({row["provider"] for row in rows}) > 1
    return rows, LogFacts(
        "promptfoo",
        {"correct": "correct", "question": "question"} | ({"groups": "provider"} if several else {}),
        shares(rows, ["correct", "score"]),
        signals=("namedScores.confidence", SEQUENCE, MEAN_TOKEN),
        about={"correct": "success", "question": "the values of vars"},
        notes=(f"{counted(failed, 'result')} failed and {are(failed)} left out.",) if failed else (),
    )


# UQLM: parallel lists, no correctness


def _uqlm_parts(content: Any) -> dict[str, Any]:
    parts = {"": content} if isinstance(at(content, "data"), dict) else content
    if not isinstance(parts, dict) or not parts:
        return {}
    lists = [(at(p, "data", "responses"), at(p, "data", "prompts")) for p in parts.values()]
    return parts if all(isinstance(a, list) and isinstance(b, list) for a, b in lists) else {}


def _uqlm(path: Path, content: Any, load: Load) -> Read:
    rows: list[Row] = []
    signals: dict[str, None] = {}
    for part, held in _uqlm_parts(content).items():
        lists: dict[str, Any] = {k: v for k, v in held["data"].items() if isinstance(v, list)}
        if len(set(map(len, lists.values()))) != 1:
            raise file_error(path, "the lists of a UQLM result must be of one length.")
        lists["tokens"] = lists.pop("logprobs", None) or at(held, "metadata", "logprobs") or []
        for k, prompt in enumerate(lists["prompts"]):
            row: Row = {"part": part} if part else {}
            row |= {"question": text_of(prompt), "answer": text_of(at(lists, "responses", k))}
            numbers = {name: number(at(values, k)) for name, values in lists.items()}
            row |= {name: x for name, x in numbers.items() if x is not None}
            row |= token_signals(at(lists, "tokens", k))
            signals |= dict.fromkeys(name for name in row if name not in ("part", "question", "answer"))
            rows.append(row)
    verdicts = [name for name in signals if states_truth(name)]
    scorers = shares(rows, [name for name in verdicts if states_truth(name) == "correct"])
    return rows, LogFacts(
        "UQLM",
        preferred(scorers) | {"question": "question", "prediction": "answer"},
        scorers,
        signals=tuple(s for s in signals if s not in verdicts and not _is_entropy(s)),
        variant="part" if "part" in rows[0] else "",
    )


def _is_entropy(name: str) -> bool:
    """Entropies rise as a model gets less sure; UQLM gives a confidence beside each."""
    return "entropy" in name.lower() and "negentropy" not in name.lower()


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
    pa = needed("pyarrow", f"Reading {shown(path.name)}, whose parts are packed by zstd,", "files")
    with path.open("rb") as file:
        file.seek(member.header_offset + 26)  # the lengths of the name and of the extra field
        file.seek(sum(struct.unpack("<HH", file.read(4))), 1)
        packed = file.read(member.compress_size)
    with pa.input_stream(pa.py_buffer(packed), compression="zstd") as stream:
        data = stream.read(member.file_size + 1)
    if len(data) != member.file_size:
        raise file_error(path, f"`{shown(member.filename)}` is not of the size that the archive states.")
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
    notes = [] if status == "success" else [f"the run has status {shown(status)}."]
    if promised is not None and promised != held:
        notes.append(f"the header promises {counted(int(promised), 'sample')}, the file holds {held:,}.")
    reasons = {"failed": "failed", "have no score": f"{have(without['have no score'])} no score"}
    notes += [
        f"{counted(count, 'sample')} {reasons[why]} and {are(count)} left out."
        for why, count in without.items()
        if count
    ]
    return tuple(notes)


# which of them a file is


def _lm_eval_records(content: Any) -> bool:
    first = at(content, 0)
    return at(first, "doc_id") is not None and ("resps" in first or "filtered_resps" in first)


TOOLS: list[tuple[Callable[[Any], Any], Callable[[Path, Any, Load], Read]]] = [
    (_is_inspect, _inspect),
    (_lm_eval_records, read_lm_eval),
    (lambda c: isinstance(at(c, "results"), dict) and isinstance(at(c, "n-shot"), dict), _no_samples),
    (lambda c: at(c, 0, "instance_id") is not None and at(c, 0, "stats") is not None, _helm),
    (_promptfoo_results, _promptfoo),
    (_uqlm_parts, _uqlm),
]


def read_json_log(path: Path, content: Any, limits: Limits, load: Load) -> Source | None:
    """The log that a JSON file holds; None where it is a table or anything else."""
    if path.name in _HELM_PARTS and path.with_name(HELM).is_file():
        raise file_error(path, f"is a part of a HELM run. Name its folder, or {HELM} beside it.")
    single = content[0] if isinstance(content, list) and len(content) == 1 else [content]
    for candidate in (content, single):
        for fits, read in TOOLS:
            if fits(candidate):
                return source_of(path, limits, *read(path, candidate, load))
    return None
