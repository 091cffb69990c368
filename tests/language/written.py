"""Small logs in the formats of the harnesses that are read, written from scratch."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

RIGHT = [1, 0, 1, 1, 0, 1]
LIKELY = [[-0.2, -2.0, -4.0], [-1.1, -1.0, -3.0], [-0.1, -6.0, -7.0], [-2.0, -0.5, -3.0], [-1.0, -1.2, -1.1], [-0.3, -9.0, -2.0]]  # fmt: skip
LETTERS = "ABC"


def option_record(k: int) -> dict[str, Any]:
    """A document of a multiple-choice task, as lm-evaluation-harness writes it."""
    pairs = [[str(x), "False"] for x in LIKELY[k]]
    asked = {f"gen_args_{j}": {"arg_0": f"Q{k}", "arg_1": f" option {LETTERS[j]}"} for j in range(3)}
    return {
        "doc_id": k, "doc": {"question": f"Q{k}"}, "target": "0", "arguments": asked, "resps": [[p] for p in pairs],
        "filtered_resps": pairs, "filter": "none", "metrics": ["acc", "acc_norm"],
        "acc": float(RIGHT[k]), "acc_norm": 1.0 - RIGHT[k],
    }  # fmt: skip


def text_records() -> list[dict[str, Any]]:
    """Documents with three replies each, through two filters; the first filter finds nothing in two of them."""
    found = []
    for name in ("strict", "loose"):
        for k, right in enumerate(RIGHT):
            lost = name == "strict" and k in (1, 4)
            replies = ["4", "4", "5"] if k % 2 else ["7", " 7", "7 "]
            found.append(
                {"doc_id": k, "resps": [replies], "filtered_resps": ["[invalid]" if lost else "4"], "filter": name,
                 "target": "4", "metrics": ["exact_match"], "exact_match": 0.0 if lost else float(right)}
            )  # fmt: skip
    return found


def inspect_sample(k: int, epoch: int = 1) -> dict[str, Any]:
    """A sample of Inspect with a grade, a stated confidence and log-probabilities."""
    grade = ["C", "I", "C", "P", "N", "C"][k]
    tokens = [{"token": "x", "logprob": -0.1 * (k + 1)}, {"token": "y", "logprob": -0.3 * epoch}]
    return {
        "id": f"q{k}", "epoch": epoch, "input": "?", "target": "!",
        "scores": {"match": {"value": grade, "answer": f"a{k if epoch == 1 else 0}", "metadata": {"confidence": 0.1 * (k + 1)}},
                   "other": {"value": float(k % 2)}},
        "metadata": {"difficulty": k}, "output": {"choices": [{"logprobs": {"content": tokens}}]},
    }  # fmt: skip


def inspect_header(total: int, status: str = "success") -> dict[str, Any]:
    return {"version": 2, "status": status, "eval": {"task": "adding", "model": "mock"}, "plan": {},
            "results": {"total_samples": total, "scores": []}}  # fmt: skip


def inspect_json(total: int = 6, **more: Any) -> dict[str, Any]:
    return inspect_header(total, **more) | {"samples": [inspect_sample(k) for k in range(6)]}


def archive(members: dict[str, bytes]) -> bytes:
    """A zip archive with deflated members."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return data.getvalue()


def zstd_archive(members: dict[str, bytes], states: int | None = None) -> bytes:
    """A zip archive whose members are packed by zstd, which `zipfile` before Python 3.14 cannot write.

    `states`: the unpacked size that the archive claims, where it is to lie.
    """
    import pyarrow as pa

    body, central = b"", b""
    for name, content in members.items():
        packed = pa.compress(content, codec="zstd", asbytes=True)
        size = len(content) if states is None else states
        facts = struct.pack("<HHHHIIIHH", 0, 93, 0, 0, zlib.crc32(content), len(packed), size, len(name), 0)
        central += (
            b"PK\1\2"
            + struct.pack("<HH", 63, 63)
            + facts
            + struct.pack("<HHHII", 0, 0, 0, 0, len(body))
            + name.encode()
        )
        body += b"PK\3\4" + struct.pack("<H", 63) + facts + name.encode() + packed
    counts = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(central), len(body), 0)
    return body + central + b"PK\5\6" + counts


def inspect_members(epochs: int = 1, total: int | None = None) -> dict[str, bytes]:
    samples = {f"samples/q{k}_epoch_{e}.json": json.dumps(inspect_sample(k, e)).encode()
               for e in range(1, epochs + 1) for k in reversed(range(6))}  # fmt: skip
    header = json.dumps(inspect_header(6 * epochs if total is None else total)).encode()
    return {"_journal/start.json": header, **samples, "header.json": header}


def helm_run(folder: Path, prob: float | None = None) -> Path:
    """The folder of a HELM run; without `prob` every instance has its own max_prob."""
    folder.mkdir(parents=True)
    instances, states = [], []
    for k, right in enumerate(RIGHT):
        held = {"exact_match": right, "max_prob": prob or 0.3 + 0.1 * k, "num_bytes": 3}
        stats = [{"name": {"name": n, "split": "test"}, "count": 1, "mean": v} for n, v in held.items()]
        stats.append({"name": {"name": "training_co2_cost"}, "count": 0, "sum": 0})
        instances.append({"instance_id": f"id{k}", "train_trial_index": 0, "stats": stats})
        reply = " A" if k != 1 else " I cannot say"
        states.append({"instance": {"id": f"id{k}"}, "train_trial_index": 0, "output_mapping": {"A": "x", "B": "y"},
                       "result": {"completions": [{"text": reply}]}})  # fmt: skip
    (folder / "per_instance_stats.json").write_text(json.dumps(instances))
    (folder / "scenario_state.json").write_text(json.dumps({"request_states": states}))
    (folder / "run_spec.json").write_text(json.dumps({"name": "run", "adapter_spec": {}}))
    return folder


def promptfoo(shape: int) -> dict[str, Any]:
    """The same results in the shapes of versions 1 to 3, wrapped in `data` (4) and of the database (5)."""
    reply = "providerResponse" if shape == 5 else "response"
    results = [
        {"vars": {"q": k // 2}, "prompt": {"label": f"p{k % 2}"}, "provider": {"id": "mock"}, "success": bool(right),
         reply: {"output": "x", "logProbs": [-0.1 * k, -0.2]}, "score": float(right), "namedScores": {}}
        for k, right in enumerate(RIGHT)
    ]  # fmt: skip
    results.append({"vars": {"q": 9}, "success": False, "failureReason": 2, "error": "timeout"})
    if shape in (1, 5):
        return {"version": 1, "results": results}
    inner = {"results": {"version": shape, "results": results}}
    return {"data": inner} if shape == 4 else inner


def uqlm() -> dict[str, Any]:
    data = {"prompts": [f"Q{k}" for k in range(6)], "responses": ["yes", "no", "yes", "no", "yes", "no"],
            "noncontradiction": [0.9, 0.1, 0.8, 0.7, 0.3, 0.95], "sampled_responses": [["yes"]] * 6}  # fmt: skip
    return {"data": data, "metadata": {"temperature": 1.0}}


def uqlm_lists() -> dict[str, Any]:
    """A result of UQLM without the wrapper `data`, with verdicts, and scores of judges in an object."""
    data = uqlm()["data"]
    return {
        "prompts": data["prompts"], "responses": data["responses"], "confidence_scores": data["noncontradiction"],
        "correct_indicators": [bool(r) for r in RIGHT], "scores": {"judge_1": [0.1 * k for k in range(6)]},
        "optimized_parameters": {"weights": [0.8, 0.2]},
    }  # fmt: skip


def write_out_record(k: int) -> dict[str, Any]:
    """A document as lm-evaluation-harness before 0.4 wrote it: metrics are texts."""
    logits = {f"logit_{j}": x for j, x in enumerate(LIKELY[k])}
    return {
        "doc_id": k,
        "prompt_0": f"Q{k}",
        **logits,
        "truth": 0,
        "acc": str(float(RIGHT[k])),
        "acc_norm": "False",
    }


def promptfoo_csv() -> bytes:
    """Two models in columns, three questions in rows; the second model could not be called once."""
    rows = ["q,[mock:a] Say {{q}},[mock:b] Say {{q}}"]
    cells = [
        ("[PASS] (1.00) yes", "[FAIL] (0.25) no"),
        ("[FAIL] (0.00) no", "[ERROR] timeout"),
        ("[PASS] (1.00) x", "[PASS] (1.00) y"),
    ]
    rows += [f'{k},"{a}","{b}\n---\nmore"' for k, (a, b) in enumerate(cells)]
    return "\n".join(rows).encode()  # fmt: skip


def tau_bench(trials: int = 2) -> list[dict[str, Any]]:
    return [
        {"task_id": k, "trial": t, "reward": float(RIGHT[k] and t == 0), "info": {"user_cost": 0.1}, "traj": []}
        for t in range(trials) for k in range(6)
    ]  # fmt: skip


def tau2_bench() -> dict[str, Any]:
    runs = [
        {"id": str(k), "task_id": str(k), "trial": 0, "reward_info": {"reward": float(r)}, "messages": [],
         "agent_cost": 0.5 * k, "duration": 2.0 * k}
        for k, r in enumerate(RIGHT)
    ]  # fmt: skip
    runs.append({"id": "6", "task_id": "6", "trial": 0, "reward_info": None, "messages": []})
    info = {"environment_info": {"domain_name": "airline"}, "agent_info": {"llm": "mock"}}
    return {"info": info, "tasks": [{"id": "0"}], "simulations": runs}


def evaleval() -> list[dict[str, Any]]:
    return [
        {"schema_version": "0.3.0", "evaluation_id": "e", "model_id": "org/m", "evaluation_name": "sums",
         "sample_id": f"s{k}", "output": {"raw": ["x"]}, "answer_attribution": [{"extracted_value": f"a{k}"}],
         "evaluation": {"score": 0.5 * right, "is_correct": bool(right)},
         "token_usage": {"total_tokens": 10 * k}, "performance": {"latency_ms": 500.0}}
        for k, right in enumerate(RIGHT)
    ]  # fmt: skip


def openai_evals() -> list[dict[str, Any]]:
    """A log of oaieval: a specification, events of samples in any order, and a report at the end."""
    events: list[dict[str, Any]] = [{"spec": {"eval_name": "sums.dev.v0", "completion_fns": ["mock"]}}]
    for k, right in enumerate(RIGHT):
        same = {"run_id": "r", "sample_id": f"sums.{k}", "event_id": 2 * k}
        events.append(
            same | {"type": "sampling", "data": {"sampled": [f"a{k}"], "usage": {"total_tokens": 7}}}
        )
        events.append(
            same | {"type": "match", "data": {"correct": bool(right), "expected": "x", "sampled": f"a{k}"}}
        )
    return [*events, {"final_report": {"accuracy": 0.5}}]


def swe_bench() -> dict[str, Any]:
    return {"total_instances": 9, "submitted_ids": [f"i{k}" for k in range(6)], "schema_version": 2,
            "resolved_ids": [f"i{k}" for k, r in enumerate(RIGHT) if r], "empty_patch_ids": ["i1"]}  # fmt: skip


def lines(records: list[Any]) -> bytes:
    return "\n".join(json.dumps(r) for r in records).encode()
