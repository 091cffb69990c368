"""Sixty damaged logs: each is read or refused in one line that names it, within the memory that is allowed."""

from __future__ import annotations

import copy
import io
import json
import struct
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abstain
from abstain.errors import AbstainError
from abstain.formats import Limits, read_log, read_predictions

sys.path.insert(0, str(Path(__file__).parent))
from written import (
    archive,
    evaleval,
    inspect_header,
    inspect_json,
    inspect_members,
    lines,
    openai_evals,
    option_record,
    promptfoo,
    promptfoo_csv,
    swe_bench,
    tau2_bench,
    tau_bench,
    text_records,
    uqlm,
    uqlm_lists,
    write_out_record,
    zstd_archive,
)

ALLOWED = 20 * 10**6
BOMB = b" " * (120 * 10**6)  # six times what is allowed
DEEP = b"[" * 100_000 + b"]" * 100_000


def options() -> list[dict[str, Any]]:
    return [option_record(k) for k in range(6)]


def records(**changes: Any) -> bytes:
    """Samples of lm-evaluation-harness, the third of them changed."""
    found = options()
    found[2] |= changes
    return lines(found)


def inspect(**changes: Any) -> bytes:
    """A log of Inspect, its third sample changed."""
    content = inspect_json()
    content["samples"][2] |= changes
    return json.dumps(content).encode()


def nested(depth: int) -> bytes:
    return b'{"doc_id": 0, "resps": ' + b"[" * depth + b"]" * depth + b', "filtered_resps": ["a"], "acc": 1}'


def bomb_archive(pack: Any) -> bytes:
    return pack(inspect_members() | {"samples/q9_epoch_1.json": BOMB})


def lying_size(data: bytes, size: int) -> bytes:
    """An archive whose directory claims another unpacked size for every member."""
    found = bytearray(data)
    place = data.find(b"PK\1\2")
    while place >= 0:
        found[place + 24 : place + 28] = struct.pack("<I", size)
        place = data.find(b"PK\1\2", place + 4)
    return bytes(found)


def many_members() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("header.json", json.dumps(inspect_header(3000)))
        for k in range(3000):
            file.writestr(f"samples/{k}_epoch_1.json", json.dumps({"id": k, "scores": {}}))
    return data.getvalue()


def wide() -> bytes:
    content = inspect_json()
    content["samples"][0]["metadata"] = {f"key{k}": k for k in range(101_000)}
    return json.dumps(content).encode()


def uqlm_changed(**data: Any) -> bytes:
    content = copy.deepcopy(uqlm())
    content["data"] |= data
    return json.dumps(content).encode()


EVAL = archive(inspect_members())
ZSTD = zstd_archive(inspect_members())
GEN = lines(text_records())
# name -> content, and a word of the refusal ("" where it may be read)
DAMAGED: dict[str, tuple[bytes, str]] = {
    "lines-cut.jsonl": (lines(options())[:-40], "line 6 is not JSON"),
    "lines-cut.json": (lines(options())[:-40], "cannot be read as json"),
    "array-cut.json": (json.dumps(options()).encode()[:-9], "json"),
    "first-line-only-half.jsonl": (lines(options())[:300], "line 1 is not JSON"),
    "a-line-of-text.jsonl": (lines(options()) + b"\nhello", "line 7 is not JSON"),
    "a-number-among-records.jsonl": (lines([*options(), 5]), "record 7"),
    "no-doc-id.jsonl": (lines([*options(), {"resps": []}]), "record 7"),
    "doc-id-object.jsonl": (records(doc_id={"a": 1}), "record 3"),
    "resps-number.jsonl": (records(filtered_resps=7), ""),
    "pairs-of-three.jsonl": (records(filtered_resps=[[1, 2, 3]]), ""),
    "loglikelihood-words.jsonl": (records(filtered_resps=[["low", "False"], ["high", "True"]]), ""),
    "loglikelihood-inf.jsonl": (records(filtered_resps=[["-inf", "False"], ["-1", "True"]]), ""),
    "loglikelihood-huge.jsonl": (records(filtered_resps=[["-1e308", "False"], ["1e308", "True"]]), ""),
    "metric-text.jsonl": (records(acc="yes"), ""),
    "metric-five.jsonl": (records(acc=5), ""),
    "metric-huge-integer.jsonl": (records(acc=0).replace(b'"acc": 0', b'"acc": 1' + b"0" * 400), "too large"),
    "metric-endless-integer.jsonl": (records(acc=0).replace(b'"acc": 0', b'"acc": ' + b"9" * 9000), "digit"),
    "metric-infinity.jsonl": (records(acc=float("inf")), ""),
    "metrics-object.jsonl": (records(metrics={"acc": 1}), ""),
    "deep.jsonl": (nested(100_000), "nested too deeply"),
    "deep.json": (DEEP, "nested too deeply"),
    "filter-list.jsonl": (GEN.replace(b'"filter": "strict"', b'"filter": ["strict"]'), ""),
    "not-utf8.jsonl": (lines(options()).replace(b"Q3", b"\xff\xfe"), "must be UTF-8"),
    "many-brackets.json": (b"[" + b"[]," * 400_000 + b"[]]", "parsing it would take"),
    "eval-cut.eval": (EVAL[: len(EVAL) // 2], "damaged"),
    "eval-zstd-cut.eval": (ZSTD[: len(ZSTD) // 2], "damaged"),
    "eval-no-header.eval": (archive({"samples/1_epoch_1.json": b"{}"}), "no header.json"),
    "eval-header-list.eval": (archive(inspect_members() | {"header.json": b"[]"}), ""),
    "eval-header-cut.eval": (archive(inspect_members() | {"header.json": b'{"eval": '}), "damaged"),
    "eval-sample-text.eval": (archive(inspect_members() | {"samples/q9_epoch_1.json": b'"hello"'}), "sample 7"),
    "eval-sample-deep.eval": (archive(inspect_members() | {"samples/q9_epoch_1.json": DEEP[:5000]}), "nested too deeply"),
    "eval-bomb.eval": (bomb_archive(archive), "more than the limit"),
    "eval-bomb-zstd.eval": (bomb_archive(zstd_archive), "more than the limit"),
    "eval-bomb-lying.eval": (lying_size(bomb_archive(archive), 1000), "damaged"),
    "eval-bomb-lying-zstd.eval": (zstd_archive(inspect_members() | {"samples/q9_epoch_1.json": BOMB}, states=1000),
                                  "not have the size"),
    "eval-empty-samples.eval": (many_members(), "without scored samples"),
    "inspect-scores-list.json": (inspect(scores=[1, 2]), ""),
    "inspect-scores-of-numbers.json": (inspect(scores={"match": 3}), ""),
    "inspect-id-null.json": (inspect(id=None), "sample 3"),
    "inspect-samples-object.json": (json.dumps(inspect_header(6) | {"samples": {"a": 1}}).encode(), "without scored"),
    "inspect-total-text.json": (json.dumps(inspect_json(total="many")).encode(), ""),  # type: ignore[arg-type]
    "inspect-logprobs-text.json": (inspect(output={"choices": [{"logprobs": {"content": "abc"}}]}), ""),
    "inspect-too-many-columns.json": (wide(), "columns, more than the limit"),
    "promptfoo-success-text.json": (json.dumps(promptfoo(2)).replace("false", '"no"').encode(), "must say `success`"),
    "promptfoo-all-failed.json": (json.dumps({"results": [promptfoo(1)["results"][-1]]}).encode(), "holds no answers"),
    "uqlm-lengths.json": (uqlm_changed(responses=["yes"]), "one length"),
    "uqlm-objects.json": (uqlm_changed(noncontradiction=[{}] * 6), "--labels FILE"),
    "write-out-no-doc-id.json": (json.dumps([write_out_record(0), {"logit_0": 1.0}]).encode(), "record 2 has no doc_id"),
    "write-out-logit-text.json": (json.dumps([write_out_record(0) | {"logit_1": "low"}]).encode(), ""),
    "results-samples-list.json": (json.dumps({"results": {}, "n-shot": {}, "samples": [1]}).encode(), "without answers"),
    "promptfoo-cells.csv": (promptfoo_csv().replace(b"[FAIL] (0.00) no", b"lost"), ""),
    "tau-reward-text.json": (json.dumps(tau_bench()).replace('"reward": 1.0', '"reward": "yes"').encode(), ""),
    "tau-huge-reward.json": (json.dumps(tau_bench()).replace('"reward": 1.0', '"reward": 5').encode(), "0 (wrong) and 1"),
    "tau-simulations-object.json": (json.dumps(tau2_bench() | {"simulations": {"a": 1}}).encode(), ""),
    "evaleval-no-id.jsonl": (lines([*evaleval(), {"evaluation": {}}]), "record 7"),
    "evaleval-tokens-text.jsonl": (lines([e | {"token_usage": "many"} for e in evaleval()]), ""),
    "oaieval-data-list.jsonl": (lines([e | {"data": [1]} for e in openai_evals()]), "without an event that scores"),
    "swe-ids-numbers.json": (json.dumps(swe_bench() | {"resolved_ids": [1, 2]}).encode(), ""),
    "simple-evals-examples.json": (json.dumps({"score": 1, "metrics": 1, "htmls": 1, "convos": 1, "metadata": {
        "example_level_metadata": [None, 3, {"score": "x"}]}}).encode(), ""),
    "helm-stats-object.json": (json.dumps([{"instance_id": "a", "stats": {"x": 1}}]).encode(), "entry 1"),
}  # fmt: skip


def test_there_are_sixty():
    assert len(DAMAGED) >= 60


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_refused_in_one_line_or_read(name, tmp_path):
    content, word = DAMAGED[name]
    path = tmp_path / name
    path.write_bytes(content)
    del content
    tracemalloc.start()
    try:
        said = outcome(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * ALLOWED
    if word:
        assert said is not None
        assert word in said
    if said is not None:
        assert name in said
        assert "\n" not in said


def outcome(path: Path) -> str | None:
    """The objection, if there is one; what was read must be fit for a metric."""
    try:
        read_log(path, limits=Limits(memory=ALLOWED))
        read = read_predictions(path, limits=Limits(memory=ALLOWED))
    except AbstainError as error:
        return str(error)
    abstain.evaluate(**read.arguments(), metrics=["aurc"])
    return None


@pytest.mark.parametrize("whole", [lines(options()), EVAL, ZSTD, json.dumps(inspect_json()).encode()], ids=["lines", "eval", "zstd", "json"])  # fmt: skip
def test_random_damage(whole, tmp_path):
    rng = np.random.default_rng(0)
    name = "log.eval" if whole[:2] == b"PK" else "log.jsonl"
    refused = 0
    for _ in range(60):
        data = bytearray(whole)
        a, b = sorted(rng.integers(0, len(data), 2).tolist())
        if rng.integers(2):
            for place in rng.integers(0, len(data), 4):
                data[place] = int(rng.integers(256))
        else:
            del data[a : min(b, a + 60)]
        path = tmp_path / name
        path.write_bytes(bytes(data))
        said = outcome(path)
        refused += said is not None
        assert said is None or "\n" not in said
    assert refused > 10


OTHER_VALUES = [1, 0, -3, True, None, 0.5, float("inf"), "x", "", [], {}, ["a", "a"], [0.1], {"a": 1}, [{"a": 1}], [[1, 2], [3]]]  # fmt: skip
WHOLE_LOGS: dict[str, Any] = {
    "tau": tau_bench(), "tau2": tau2_bench(), "evaleval": evaleval(), "oaieval": openai_evals(), "swe": swe_bench(),
    "uqlm": uqlm_lists(), "write out": [write_out_record(k) for k in range(6)], "promptfoo": promptfoo(3),
    "inspect": inspect_json(), "results": {"results": {}, "n-shot": {}, "samples": {"mc": options(), "gen": text_records()}},
}  # fmt: skip


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The keys that lead to each value inside a parsed log."""
    keys: Any = ()
    if isinstance(content, dict):
        keys = list(content)
    elif isinstance(content, list):
        keys = range(len(content))
    return [path, *(place for key in keys for place in places(content[key], (*path, key)))]


@pytest.mark.parametrize("name", WHOLE_LOGS)
def test_another_value_anywhere_is_read_or_refused_by_its_meaning(name, tmp_path):
    """No reader fails on a value that it does not expect: a refusal never blames damage that is not there."""
    rng = np.random.default_rng(0)
    every_place = places(WHOLE_LOGS[name])[1:]
    for number in rng.integers(0, len(every_place), 40):
        content = copy.deepcopy(WHOLE_LOGS[name])
        *keys, last = every_place[number]
        parent = content
        for key in keys:
            parent = parent[key]
        parent[last] = OTHER_VALUES[int(rng.integers(len(OTHER_VALUES)))]
        path = tmp_path / "log.json"
        path.write_text(json.dumps(content))
        refusal = ""
        try:
            read_log(path)
        except AbstainError as error:
            refusal = str(error)
        assert "damaged" not in refusal
        assert "\n" not in refusal
