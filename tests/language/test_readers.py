"""Every harness's log gives the same rows whatever its name, its shape or its packing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from written import (
    LIKELY,
    RIGHT,
    archive,
    helm_run,
    inspect_json,
    inspect_members,
    lines,
    option_record,
    promptfoo,
    text_records,
    uqlm,
    zstd_archive,
)

from abstain.errors import DataError, MissingDependencyError
from abstain.formats import Rules, read_log, read_predictions
from abstain.formats.columns import UncertainError


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
    assert "acc_norm" in log.used["correct"]


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
    assert "hallucination" not in log.used["correct"]


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
    assert log.used["filter"] == "strict (others: loose)"
    assert log.answered.tolist() == [True, False, True, True, False, True]
    assert log.unanswered == pytest.approx(2 / 6)
    assert log.signals["agreement"].tolist() == pytest.approx([1, 2 / 3, 1, 2 / 3, 1, 2 / 3])
    other = read_log(path, rules=Rules(only={"filter": "loose"}))
    assert other.answered.all()
    assert (1 - other.loss).tolist() == RIGHT
    with pytest.raises(DataError, match="it holds loose, strict"):
        read_log(path, rules=Rules(only={"filter": "nothing"}))


def test_scores_that_are_no_correctness_are_refused(put):
    records = [
        {"doc_id": k, "resps": [["x"]], "filtered_resps": ["x"], "metrics": ["mae"], "mae": float("inf")}
        for k in range(3)
    ]
    with pytest.raises(
        UncertainError, match=r"nothing from 0 to 1 that says right or wrong.*-c correct=NAME"
    ):
        read_log(put("mae.jsonl", lines(records)))
    for record in records:
        record |= {"metrics": ["bleu_acc", "rouge_acc"], "bleu_acc": 1, "rouge_acc": 0}
    path = put("two.jsonl", lines(records))
    with pytest.raises(UncertainError, match=r"bleu_acc, rouge_acc. State one: -c correct=bleu_acc"):
        read_log(path)
    assert read_log(path, columns={"correct": "rouge_acc"}).accuracy == 0


@pytest.mark.parametrize("pack", [archive, zstd_archive])
def test_inspect_archives(put, pack):
    log = read_log(put("run.eval", pack(inspect_members(epochs=2))))
    assert log.tool == "Inspect"
    assert log.used["correct"] == "match (others: other)"
    assert log.n == 12
    assert log.accuracy == pytest.approx((3 + 0.5) / 6)  # C, I, C, P, N, C
    assert log.loss_name == "partial_credit"
    assert log.unanswered == pytest.approx(1 / 6)
    assert len(np.unique(log.repeats())) == 6
    row = 6 + 5 - 2  # epoch 2 of q2; samples lie in the archive from the last to the first
    assert log.signals["sequence_logprob"][row] == pytest.approx(-0.3 - 0.6)
    assert log.signals["mean_token_logprob"][row] == pytest.approx(-0.45)
    assert log.signals["match.metadata.confidence"][row] == pytest.approx(0.3)
    same = [1.0 if k == 0 else 0.5 for k in reversed(range(6))]  # a0 in both epochs of q0, else a0 beside a_k
    assert log.signals["agreement"].tolist() == same * 2


def test_names_do_not_matter(put):
    import gzip

    for name in ("run.zip", "run", "run.eval"):
        assert read_log(put(name, archive(inspect_members()))).tool == "Inspect"
    packed = gzip.compress(json.dumps(inspect_json()).encode())
    assert read_log(put("log.json.gz", packed)).n == 6
    assert read_log(put("log", json.dumps(inspect_json()).encode())).n == 6


def test_inspect_json_and_what_a_header_promises(put):
    log = read_log(put("log.json", inspect_json(total=40, status="cancelled")))
    assert log.n == 6
    assert "the header promises 40 samples, the file holds 6." in log.notes
    assert any("cancelled" in note for note in log.notes)
    assert read_log(put("log.json", inspect_json()), columns={"correct": "other"}).accuracy == 0.5


def test_inspect_values_of_every_kind(put):
    content = inspect_json()
    values = [True, 0.25, float("nan"), {"exact": 1, "confidence": 0.7}, [1], "odd"]
    for sample, value in zip(content["samples"], values):
        sample["scores"] = {"mine": {"value": value}}
    content["samples"].append({"id": 7, "epoch": 1, "error": {"message": "it broke"}})
    content["samples"].append({"id": 8, "epoch": 1})
    log = read_log(put("log.json", content), columns={"correct": "mine"})
    assert log.loss[:2].tolist() == [0, 0.75]
    assert np.isnan(log.loss[2:]).all()
    assert "1 sample failed and is left out." in log.notes
    assert "1 sample has no score and is left out." in log.notes
    assert "4 of 6 answers have no score and are left out." in log.notes


def test_zstd_without_the_extra_gives_the_install_line(put, monkeypatch):
    path = put("run.eval", zstd_archive(inspect_members()))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install '\.\[files\]'"):
        read_log(path)


def test_helm(tmp_path):
    folder = helm_run(tmp_path / "run")
    for path in (folder, folder / "per_instance_stats.json"):
        log = read_log(path)
        assert (1 - log.loss).tolist() == RIGHT
        assert log.answered.tolist() == [True, False, True, True, True, True]
        assert list(log.signals) == ["max_prob"]
    with pytest.raises(DataError, match="Name its folder"):
        read_log(folder / "run_spec.json")
    constant = read_log(helm_run(tmp_path / "other", prob=1.0))
    assert not constant.signals
    assert any("`max_prob` is the same in every row" in note for note in constant.notes)
    with pytest.raises(DataError, match=r"no confidence to rank by: accuracy 0\.\d+ of 6"):
        read_predictions(tmp_path / "other")


@pytest.mark.parametrize("shape", [1, 2, 3, 4, 5])
def test_promptfoo(put, shape):
    log = read_log(put("out.json", promptfoo(shape)))
    assert log.tool == "promptfoo"
    assert (1 - log.loss).tolist() == RIGHT
    assert len(np.unique(log.repeats())) == 3
    assert log.signals["sequence_logprob"].tolist() == pytest.approx([-0.2 - 0.1 * k for k in range(6)])
    assert "1 result failed and is left out." in log.notes


def test_uqlm_is_joined_with_right_answers(put):
    path = put("uqlm.json", uqlm())
    with pytest.raises(UncertainError, match="--labels FILE"):
        read_log(path)
    right = ["yes", "no", "no", "no", "no", "no"]
    want = [1, 1, 0, 1, 0, 1]
    in_order = put("right.csv", "\n".join(["labels", *right]).encode())
    assert (1 - read_log(path, labels=in_order).loss).tolist() == want
    rows = [f"Q{k},{answer}" for k, answer in reversed(list(enumerate(right)))]
    by_question = put("by.csv", "\n".join(["question,labels", *rows]).encode())
    log = read_log(path, labels=by_question)
    assert (1 - log.loss).tolist() == want
    assert list(log.signals) == ["noncontradiction"]
    short = put("short.csv", "\n".join(["question,labels", *rows[:4]]).encode())
    with pytest.raises(DataError, match="has no answer to 2 questions, such as 'Q0'"):
        read_log(path, labels=short)


def test_records_under_one_name(put):
    rows = [{"q": k, "is_right": bool(r), "conf_pct": 10 * k} for k, r in enumerate(RIGHT)]
    path = put("results.json", {"accuracy": 0.66, "predictions": rows})
    read = read_predictions(path, columns={"correct": "is_right", "confidence": "conf_pct"})
    assert (1 - read.loss).tolist() == RIGHT


def test_a_line_separator_inside_a_text_ends_no_line(put):
    rows = [
        {"correct": 1, "confidence": 0.5, "text": "a\u2028b"},
        {"correct": 0, "confidence": 0.25, "text": ""},
    ]
    content = "\n".join(json.dumps(r, ensure_ascii=False) for r in rows).encode()
    assert read_predictions(put("t.jsonl", content)).n == 2


def test_no_harness_is_imported(put):
    path = put("run.json", inspect_json())
    code = f"import sys; from abstain.formats import read_log; read_log({str(path)!r}); " \
           "assert not {'inspect_ai', 'lm_eval', 'helm', 'uqlm'} & set(sys.modules)"  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=True)
