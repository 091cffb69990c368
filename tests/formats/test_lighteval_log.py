"""Details of lighteval, of current and of older versions, written with pyarrow."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))
from written import LIKELY, RIGHT

from abstain.formats import open_source, read_log, read_predictions

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

SOFTMAX = [np.exp(max(x)) / np.exp(x).sum() for x in np.array(LIKELY)]


def current(**metric_values) -> list[dict]:
    likely = [*LIKELY[:5], LIKELY[5][:2]]  # questions may have different numbers of options
    return [
        {
            "doc": {"query": f"Q{k}", "choices": ["a", "b", "c"][: len(x)], "gold_index": 0},
            "metric": {"acc": float(right), "acc_norm": 1.0 - right} | metric_values,
            "model_response": {"text": [], "logprobs": x},
        }
        for k, (right, x) in enumerate(zip(RIGHT, likely))
    ]


def write(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_current_details(tmp_path):
    path = write(
        tmp_path / "org__m" / "run" / "details_arc:easy|0_2025-11-05T14-43-47.148527.parquet", current()
    )
    log = read_log(path)
    assert (log.tool, (1 - log.loss).tolist(), log.column_of_role["task"]) == (
        "lighteval",
        RIGHT,
        "arc:easy|0",
    )
    assert log.signals["softmax"].tolist()[:5] == pytest.approx(SOFTMAX[:5], abs=1e-15)
    assert log.signals["softmax"][5] == pytest.approx(1 / (1 + np.exp(-9 + 0.3)), abs=1e-15)
    assert open_source(path).facts.model == "org__m"
    assert not read_log(path, columns={"correct": "acc_norm"}).signals


def test_older_details(tmp_path):
    rows = [
        {
            "example": f"Q{k}",
            "full_prompt": "?",
            "gold_index": 0,
            "predictions": x,
            "metrics": {"acc": float(right)},
        }
        for k, (right, x) in enumerate(zip(RIGHT, LIKELY))
    ]
    log = read_log(write(tmp_path / "details.parquet", rows))
    assert (1 - log.loss).tolist() == RIGHT
    assert log.signals["softmax"].tolist() == pytest.approx(SOFTMAX, abs=1e-15)


def test_a_generative_task_has_no_confidence(tmp_path):
    rows = current()
    for row in rows:
        row["metric"] = {"extractive_match": row["metric"]["acc"]}
        row["model_response"] = {"text": ["4"], "logprobs": [-0.1, -0.2, -0.3]}
    log = read_log(write(tmp_path / "details.parquet", rows))
    assert ((1 - log.loss).tolist(), log.signals) == (RIGHT, {})


def test_fields_of_structs_are_columns_of_any_parquet_file(tmp_path):
    rows = [{"judge": {"ok": right, "meta": {"sure": 0.1 * k}}} for k, right in enumerate(RIGHT)]
    path = write(tmp_path / "judged.parquet", [*rows, {"judge": None}])
    columns = open_source(path).columns
    assert set(columns) == {"judge.ok", "judge.meta.sure"}  # in which order, pyarrow decides
    assert columns["judge.ok"].load().tolist()[:6] == RIGHT
    path = write(tmp_path / "judged.parquet", rows)
    read = read_predictions(path, columns={"correct": "judge.ok", "confidence": "judge.meta.sure"})
    assert read.confidence.tolist() == pytest.approx([0.1 * k for k in range(6)])
