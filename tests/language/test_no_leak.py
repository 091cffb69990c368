"""No label reaches a signal: with the labels of a log permuted, every confidence stays what it was.

A harness also writes what it computes from the label. So with its label, a record passes on its scores and, in tasks of
kind `loglikelihood`, the one log-likelihood that the harness logs: that of the right answer.
"""

from __future__ import annotations

import copy
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from written import (
    helm_run,
    inspect_json,
    lines,
    option_record,
    promptfoo,
    text_records,
    uqlm,
)

from abstain.errors import AbstainError, DataError
from abstain.formats import Limits, read_log, read_predictions
from abstain.formats.inspect_log import _read_member

LM_EVAL_INPUTS = {"doc_id", "filter", "metrics", "resps", "filtered_resps", "arguments"}


def likelihood_record(k: int, likely: dict[str, float], target: str) -> dict[str, Any]:
    """A document of a `loglikelihood` task: the model scores the target and nothing else."""
    pair = [str(likely[target]), str(likely[target] == max(likely.values()))]
    request = {"gen_args_0": {"arg_0": f"Q{k}", "arg_1": f" {target}"}}
    right = float(pair[1] == "True")
    return {"doc_id": k, "doc": {}, "target": target, "arguments": request, "resps": [[pair]],
            "filtered_resps": [pair], "filter": "none", "metrics": ["acc"], "acc": right}  # fmt: skip


def swapped(records: list[dict[str, Any]], names: Any, order: np.ndarray) -> list[dict[str, Any]]:
    """Records in their places with some values of other records."""
    moved = []
    for record, place in zip(records, order):
        other = records[int(place)]
        moved.append(record | {name: other[name] for name in names(record) if name in other})
    return moved


def label_fields(record: dict[str, Any]) -> set[str]:
    """What a record of lm-evaluation-harness owes to its label."""
    scored_alone = len(record["filtered_resps"]) == 1 and isinstance(record["filtered_resps"][0], list)
    kept = LM_EVAL_INPUTS - ({"resps", "filtered_resps", "arguments"} if scored_alone else set())
    return set(record) - kept


def relabelled(content: Any, seed: int) -> Any:
    """The same log after its labels were permuted over its records."""
    rng = np.random.default_rng(seed)
    content = copy.deepcopy(content)
    if isinstance(content, list) and "doc_id" in content[0]:
        for name in dict.fromkeys(record.get("filter") for record in content):
            places = [k for k, record in enumerate(content) if record.get("filter") == name]
            group = swapped([content[k] for k in places], label_fields, rng.permutation(len(places)))
            for k, record in zip(places, group):
                content[k] = record
    elif isinstance(content, list):  # HELM
        for k, stats in enumerate(_permuted(rng, [entry["stats"] for entry in content])):
            own = [s for s in content[k]["stats"] if "match" not in s["name"]["name"]]
            content[k] = content[k] | {"stats": own + [s for s in stats if "match" in s["name"]["name"]]}
    elif "samples" in content:  # Inspect
        scored = [s for s in content["samples"] if s.get("scores")]
        values = [(s["target"], {name: x["value"] for name, x in s["scores"].items()}) for s in scored]
        for sample, (target, grades) in zip(scored, _permuted(rng, values)):
            sample["target"] = target
            for name, score in sample["scores"].items():
                if not isinstance(score["value"], dict):  # an object may hold a stated confidence
                    score["value"] = grades.get(name, score["value"])
    elif "data" in content and "prompts" in content["data"]:  # UQLM
        if "correct" in content["data"]:
            content["data"]["correct"] = _permuted(rng, content["data"]["correct"])
    else:  # promptfoo
        inner = content.get("data") or content
        results = inner["results"] if isinstance(inner["results"], list) else inner["results"]["results"]
        asked = [r for r in results if r.get("failureReason") != 2]
        for result, other in zip(asked, _permuted(rng, [dict(r) for r in asked])):
            result |= {name: other[name] for name in ("success", "score") if name in other}
    return content


def _permuted(rng: np.random.Generator, values: list[Any]) -> list[Any]:
    return [values[int(k)] for k in rng.permutation(len(values))]


LIKELY = [{"a": -0.1 * (k + 1), "b": -2.0 - 0.3 * k, "c": -5.0 + 0.2 * k} for k in range(8)]
FIXTURES: dict[str, Any] = {
    "lm-eval options": [option_record(k) for k in range(6)],
    "lm-eval text": text_records(),
    "lm-eval loglikelihood": [likelihood_record(k, LIKELY[k], "abc"[k % 3]) for k in range(8)],
    "Inspect": inspect_json(),
    "HELM": None,
    "promptfoo": promptfoo(3),
    "UQLM": uqlm()
    | {"data": uqlm()["data"] | {"correct": [1, 0, 1, 1, 0, 1], "semantic_entropy": [0.1] * 6}},
}


def signals_of(path: Path) -> dict[str, str]:
    """Every digit of every signal; as text, so that a missing one equals itself."""
    return {name: repr(values.tolist()) for name, values in read_log(path).signals.items()}


def written_to(path: Path, content: Any) -> Path:
    many = isinstance(content, list) and "doc_id" in content[0]
    path.write_bytes(lines(content) if many else json.dumps(content).encode())
    return path


@pytest.mark.parametrize("kind", FIXTURES)
def test_permuted_labels_change_no_signal(tmp_path, kind):
    if kind == "HELM":
        path = helm_run(tmp_path / "run") / "per_instance_stats.json"
        content = json.loads(path.read_text())
    else:
        content = FIXTURES[kind]
        path = written_to(tmp_path / "log.json", content)
    before = signals_of(path)
    losses = read_log(path).loss
    changed = 0
    for seed in range(8):
        written_to(path, relabelled(content, seed))
        assert signals_of(path) == before
        changed += not np.array_equal(read_log(path).loss, losses, equal_nan=True)
    assert changed >= 4  # the labels did move


def test_the_likelihood_of_the_right_answer_is_no_confidence(tmp_path):
    records = FIXTURES["lm-eval loglikelihood"]
    log = read_log(written_to(tmp_path / "lambada.jsonl", records))
    assert (1 - log.loss).tolist() == [record["acc"] for record in records]
    assert (log.signals, log.answered.all()) == ({}, True)
    assert any("8 rows have one log-likelihood, that of the right answer" in note for note in log.notes)
    with pytest.raises(DataError, match="no confidence to rank by"):
        read_predictions(tmp_path / "lambada.jsonl")


def test_two_numbers_that_a_model_wrote_are_no_likelihood(tmp_path):
    records = text_records()
    for record in records:
        record["filtered_resps"] = [["5", "6"]]
    log = read_log(written_to(tmp_path / "t.jsonl", records))
    assert list(log.signals) == ["agreement"]


def raw_content(path: Path) -> Any:
    """A raw log as JSON, an archive of Inspect included."""
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as archive:
            members = {m.filename: m for m in archive.infolist()}
            samples = [m for name, m in members.items() if name.startswith("samples/")]
            header = json.loads(_read_member(path, archive, members["header.json"], Limits()))
            return header | {
                "samples": [json.loads(_read_member(path, archive, m, Limits())) for m in samples]
            }
    text = path.read_text()
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


@pytest.mark.data
def test_permuted_labels_change_no_signal_of_a_real_log(data_dir, tmp_path):
    seen: dict[str, int] = {}
    for path in sorted((data_dir / "llm" / "raw_logs").rglob("*")):
        if path.suffix not in (".eval", ".json", ".jsonl"):
            continue
        try:
            log = read_log(path)
        except AbstainError:
            continue
        target = tmp_path / "per_instance_stats.json" if log.tool == "HELM" else tmp_path / "log.json"
        content = raw_content(path)
        before = signals_of(written_to(target, content))
        for seed in range(3):
            assert signals_of(written_to(target, relabelled(content, seed))) == before, path
        seen[log.tool] = seen.get(log.tool, 0) + 1
        target.unlink()
    print(seen)
    assert set(seen) == {"lm-evaluation-harness", "Inspect", "HELM", "promptfoo"}
    assert sum(seen.values()) >= 20
