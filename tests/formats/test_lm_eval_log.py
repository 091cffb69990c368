"""Logs of lm-evaluation-harness in all shapes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))
from written import (
    LIKELY,
    RIGHT,
    lines,
    option_record,
    text_records,
    write_out_record,
)

from abstain.errors import DataError
from abstain.formats import Rules, read_log


@pytest.fixture
def put(tmp_path):
    def write(name: str, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


@pytest.mark.parametrize("name", ["samples_t.jsonl", "samples_t.json", "anything.txt.json"])
@pytest.mark.parametrize("shape", ["lines", "array", "pretty"])
def test_lm_eval_options(put, name, shape):
    records = [option_record(k) for k in range(6)]
    content = {"lines": lines(records), "array": json.dumps(records).encode(),
               "pretty": json.dumps(records, indent=2).encode()}[shape]  # fmt: skip
    log = read_log(put(name, content))
    assert log.tool == "lm-evaluation-harness"
    assert (1 - log.loss).tolist() == RIGHT
    assert log.answered.all()
    for k, likely in enumerate(LIKELY):
        p = np.exp(likely) / np.exp(likely).sum()
        assert log.signals["softmax"][k] == pytest.approx(p.max(), abs=1e-12)
        assert log.signals["margin"][k] == pytest.approx(np.sort(likely)[-1] - np.sort(likely)[-2], abs=1e-12)
        assert log.signals["loglikelihood"][k] == max(likely)
    assert "acc_norm" in log.column_of_role["correct"]


def test_length_normalisation_belongs_to_acc_norm(put):
    path = put("s.jsonl", lines([option_record(k) for k in range(6)]))
    log = read_log(path, columns={"correct": "acc_norm"})
    assert list(log.signals) == ["softmax_norm"]
    assert (1 - log.loss).tolist() == [1 - r for r in RIGHT]
    x = np.array(LIKELY[0]) / len("option A")
    assert log.signals["softmax_norm"][0] == pytest.approx(np.exp(x.max()) / np.exp(x).sum(), abs=1e-12)


def test_real_numbers_and_files_of_2024(put):
    records = [option_record(k) for k in range(6)]
    for k, record in enumerate(records):
        record["filtered_resps"] = [[x, False] for x in LIKELY[k]]
        del record["filter"], record["metrics"]
        record |= {"f1": [0, 1], "hallucination": "truthful", "acc": bool(RIGHT[k])}
    log = read_log(put("old.json", lines(records)))
    assert (1 - log.loss).tolist() == RIGHT
    assert "hallucination" not in log.column_of_role["correct"]


def test_a_column_of_lists_scores_no_answer(put):
    path = put("lists.jsonl", lines([option_record(k) | {"f1": [0, 1], "metrics": ["f1"]} for k in range(6)]))
    named = r"no answer was scored: `f1` has no number in any row \(lists, no score of an answer\)"
    with pytest.raises(DataError, match=named):
        read_log(path, columns={"correct": "f1"})
    records = [option_record(k) | {"f1": [0, 1], "metrics": ["f1"]} for k in range(6)]
    for record in records:
        del record["acc"], record["acc_norm"]
    with pytest.raises(DataError, match=r"`f1` \(6 empty cells\)"):
        read_log(put("none.jsonl", lines(records)))


def test_an_option_without_a_likelihood_takes_the_confidence_and_no_answers_away(put):
    records = [option_record(k) for k in range(6)]
    records[2]["filtered_resps"][1][0] = "-inf"
    log = read_log(put("odd.jsonl", lines(records)))
    assert log.answered.all()
    assert np.isnan(log.signals["softmax"]).tolist() == [False, False, True, False, False, False]
    assert (1 - log.loss).tolist() == RIGHT


def test_one_row_for_each_filter(put):
    path = put("gen.jsonl", lines(text_records()))
    log = read_log(path)
    assert log.n == 6
    assert log.column_of_role["filter"] == "strict (others: loose)"
    assert log.answered.tolist() == [True, False, True, True, False, True]
    assert log.unanswered == pytest.approx(2 / 6)
    assert log.signals["agreement"].tolist() == pytest.approx([1, 2 / 3, 1, 2 / 3, 1, 2 / 3])
    other = read_log(path, rules=Rules(only={"filter": "loose"}))
    assert other.answered.all()
    assert (1 - other.loss).tolist() == RIGHT
    with pytest.raises(DataError, match="which holds loose, strict"):
        read_log(path, rules=Rules(only={"filter": "nothing"}))


def test_a_results_file_that_holds_the_samples_of_tasks_with_different_metrics(put):
    normalised = [{**option_record(k), "metrics": ["acc_norm"]} for k in range(6)]
    for record in normalised:
        del record["acc"]
    samples = {
        "mc": [option_record(k) for k in range(6)],
        "gen": text_records()[6:],
        "norm": normalised,
        "lists": [{**record, "metrics": ["bleu"], "bleu": [1, 2]} for record in text_records()[6:]],
    }
    log = read_log(put("results.json", {"results": {}, "n-shot": {}, "model_name": "m", "samples": samples}))
    tasks = log.task.texts()
    assert (log.n, log.questions) == (24, 24)
    for task, right in {"mc": RIGHT, "gen": RIGHT, "norm": [1 - value for value in RIGHT]}.items():
        assert (1 - log.loss[tasks == task]).tolist() == right
    assert np.isnan(log.loss[tasks == "lists"]).all()
    assert "6 of 24 answers have no score and are left out." in log.notes
    used = log.column_of_role["correct"]
    assert used.startswith(
        "task_metric (acc of 1 task, exact_match of 1 task, acc_norm of 1 task) (others: acc, "
    )
    # each metric has the confidences of the answer that it judges
    with_softmax = {str(task) for task in tasks[np.isfinite(log.signals["softmax"])]}
    with_norm = {str(task) for task in tasks[np.isfinite(log.signals["softmax_norm"])]}
    assert (with_softmax, with_norm) == ({"mc"}, {"norm"})
    # of a stated metric, only the tasks that have it are scored
    log = read_log(put("results.json", {"samples": samples}), columns={"correct": "exact_match"})
    assert (int(log.scored.sum()), "softmax" in log.signals) == (6, False)


def test_a_results_file_of_one_task(put):
    samples = {"mc": [option_record(k) for k in range(6)]}
    one = {"results": {}, "n-shot": {}, "samples": {"mc": samples["mc"]}}
    log = read_log(put("one.json", one))
    assert ((1 - log.loss).tolist(), log.column_of_role["task"]) == (RIGHT, "mc")
    with pytest.raises(DataError, match="a summary of lm-evaluation-harness without answers"):
        read_log(put("none.json", one | {"samples": {}}))


@pytest.mark.parametrize("wrapped", [False, True])
def test_what_versions_before_0_4_wrote(put, wrapped):
    records = [write_out_record(k) for k in range(6)]
    content = {"results": {}, "write_out_info": {"mc": records}} if wrapped else records
    log = read_log(put("mc_write_out_info.json", content))
    assert ((1 - log.loss).tolist(), log.column_of_role["task"]) == (RIGHT, "mc")
    softmax = [np.exp(max(x)) / np.exp(x).sum() for x in np.array(LIKELY)]
    assert log.signals["softmax"].tolist() == pytest.approx(softmax, abs=1e-15)


def test_an_old_record_with_the_likelihood_of_the_right_answer_has_no_confidence(put):
    records = [write_out_record(k) | {"truth": " yes"} for k in range(6)]
    assert not read_log(put("t_write_out_info.json", records)).signals


@pytest.mark.parametrize(("filter_name", "share"), [("strict", 1 / 4), ("maj@4", 1 / 2)])
def test_agreement_is_that_of_the_reply_that_is_scored(put, filter_name, share):
    """The first reply, which one of four replies equals; a vote scores the most frequent one."""
    records = [record for record in text_records() if record["filter"] == "strict"]
    for number, record in enumerate(records):
        record["filter"] = filter_name
        record["resps"] = [["7", "7", "7", "7"] if number == 0 else ["#### 159", "It is 3.", "It is 3.", "7"]]
    log = read_log(put("repeats.jsonl", lines(records)))
    assert log.signals["agreement"].tolist() == [1, *[share] * (len(records) - 1)]
