"""Real logs and real models: every file is read or refused in one line, and the numbers are those of the READMEs."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

import abstain
from abstain.errors import AbstainError
from abstain.formats import Rules, read_log, read_predictions

pytestmark = pytest.mark.data

# path (its beginning and its end) -> rows that are read and accuracy, or the reason in the refusal
READ = {
    "generated/inspect_ai_0.3.285/2026-11-15T17-19-58": (60, 0.666667),
    "generated/inspect_ai_0.3.285/2026-11-15T17-20-00": (20, 0.75),
    "generated/lm_eval_0.4.13/samples_pens_gen": (25, 0.56),
    "generated/lm_eval_0.4.13/samples_pens_mc": (25, 0.56),
    "helm/commonsense*/per_instance_stats.json": (10, 0.3),
    "helm/mmlu*/per_instance_stats.json": (10, 0.1),
    "helm/*/run_spec.json": "part of a HELM run",
    "helm/*/scenario.json": "part of a HELM run",
    "helm/*/scenario_state.json": "part of a HELM run",
    "helm/*/stats.json": "part of a HELM run",
    "inspect/docent/log.eval": (15, 0.6),
    "inspect/every_eval_ever/data_arc_qwen.json": (3, 0.333333),
    "inspect/every_eval_ever/data_arc_sonnet.json": (5, 1.0),
    "inspect/every_eval_ever/data_cyse2": (1, 0.65),
    "inspect/every_eval_ever/data_pubmedqa": (2, 1.0),
    "inspect/every_eval_ever/data_with_llm_scoring.json": "the header promises 1,000 samples, the file holds 0",
    "inspect/inspect_ai/2024-08-29": "status error. the header promises 1 sample, the file holds 0",
    "inspect/inspect_ai/2025-02-11T15-17-00": "10 samples have no score",
    "inspect/inspect_ai/2025-02-11T15-18-04": (10, 0.8),
    "inspect/inspect_ai/2025-05-12T20-28-13-04-00_no-samples.json": "status cancelled. the header promises 3 samples",
    "inspect/inspect_ai/2025-05-12T20-28-13-04-00_popularity.json": (3, 0.666667),
    "inspect/inspect_ai/log_formats": (1, 0.0),
    "inspect/inspect_ai/log_message_deduplication.eval": (1, 0.0),
    "inspect/inspect_ai/log_read_sample": (1, 1.0),
    "inspect/inspect_ai/log_streaming.eval": (4, 0.75),
    "inspect/inspect_ai/mmlu-summary-choices.eval": (1, 0.0),
    "inspect/inspect_scout/*popularity": (100, 0.63),
    "inspect/inspect_scout/*security": (16, 0.6875),
    "lm_eval/*/results_": "a summary of lm-evaluation-harness without answers",
    "lm_eval/harness_pr3032/truthfulqa_gen_neo125": "a summary of lm-evaluation-harness without answers",
    "lm_eval/harness_pr3506/masakhaner": "a summary of lm-evaluation-harness without answers",
    "lm_eval/every_eval_ever/samples_math": (10, 0.0),
    "lm_eval/harness_pr1974/samples_bias": (609, 0.510673),
    "lm_eval/harness_pr3032/samples_truthfulqa": "State one: -c correct=bleu_acc",
    "lm_eval/harness_pr3144/samples_polymer": "nothing from 0 to 1 that says right or wrong",
    "lm_eval/harness_pr3506/samples_masakhaner": "nothing from 0 to 1 that says right or wrong",
    "lm_eval/harness_pr3936/samples_negotiationtom_belief": (20, 0.45),
    "lm_eval/harness_pr3936/samples_negotiationtom_intention": (20, 0.2),
    "promptfoo/config-multishot": (8, 1.0),
    "promptfoo/replicate": (10, 1.0),
    "promptfoo/simple-cli": (8, 1.0),
    "promptfoo/v3eval": (8, 1.0),
    "promptfoo/v4eval": (8, 1.0),
    "uqlm/": "State right answers with --labels FILE",
}  # fmt: skip
PROMISES = {
    "inspect/docent/log.eval": "the header promises 790 samples, the file holds 15.",
    "inspect/every_eval_ever/data_cyse2": "the header promises 2,340 samples, the file holds 1.",
    "lm_eval/every_eval_ever/samples_math": "promises 5,000 documents, the file holds 10.",
}
MORE = {  # what other scores, filters and scorers of the files give
    "generated/lm_eval_0.4.13/samples_pens_mc": ({"correct": "acc_norm"}, {}, 0.6),
    "lm_eval/harness_pr1974/samples_bias": ({"correct": "acc_norm"}, {}, 0.510673),
    "lm_eval/harness_pr3032/samples_truthfulqa": ({"correct": "bleu_acc"}, {}, 0.5),
    "generated/inspect_ai_0.3.285/2026-11-15T17-20-00": ({"correct": "maybe_unscored"}, {}, 0.789474),
}
SIGNALS = ("verbal_numerical_confidence", "logit_perplexity_confidence", "verbal_linguistic_confidence")
COLUMNS = {"labels": "correct_answer", "prediction": "extracted_answer"}


@pytest.fixture(scope="module")
def logs(data_dir) -> Path:
    return data_dir / "llm" / "raw_logs"


def fits(path: str, pattern: str) -> bool:
    return re.match(re.escape(pattern).replace(r"\*", ".*"), path) is not None


def found(logs: Path, pattern: str) -> Path:
    (path,) = [p for p in logs.rglob("*") if p.is_file() and fits(str(p.relative_to(logs)), pattern)]
    return path


def test_every_file_is_read_or_refused_in_one_line(logs):
    met = set()
    for path in sorted(p for p in logs.rglob("*") if p.is_file() and p.name != "README.md"):
        name = str(path.relative_to(logs))
        (pattern,) = [p for p in READ if fits(name, p)]
        met.add(pattern)
        expected = READ[pattern]
        if isinstance(expected, str):
            with pytest.raises(AbstainError, match=re.escape(expected)) as refused:
                read_log(path)
            assert "\n" not in str(refused.value)
            continue
        log = read_log(path)
        assert (log.n, log.accuracy) == (expected[0], pytest.approx(expected[1], abs=5e-7)), name
        assert {"correct", "confidence", "answered", "question", "epoch", "task"} <= set(log.column_of_role)
    assert met == set(READ)


@pytest.mark.parametrize("pattern", PROMISES)
def test_both_counts_are_told(logs, pattern):
    assert any(PROMISES[pattern] in note for note in read_log(found(logs, pattern)).notes)


@pytest.mark.parametrize("pattern", MORE)
def test_other_scores(logs, pattern):
    columns, only, accuracy = MORE[pattern]
    log = read_log(found(logs, pattern), columns=columns, rules=Rules(only=only))
    assert log.accuracy == pytest.approx(accuracy, abs=5e-7)


@pytest.mark.parametrize(
    ("name", "accuracy"), [("strict-match", 0.56), ("flexible-extract", 0.68), ("maj@5", 0.76)]
)
def test_filters(logs, name, accuracy):
    log = read_log(
        found(logs, "generated/lm_eval_0.4.13/samples_pens_gen"), rules=Rules(only={"filter": name})
    )
    assert (log.n, log.accuracy) == (25, pytest.approx(accuracy))


@pytest.mark.parametrize(
    ("pattern", "softmax", "margin", "top"),
    [
        ("lm_eval/harness_pr1974/samples", 0.41659720810155254, 0.41659720810155254, 0.39909139203325295),
        ("lm_eval/harness_pr3936/samples_negotiationtom_belief", 0.28583333333333333, 0.3358333333333333, 0.3358333333333333),
        ("generated/lm_eval_0.4.13/samples_pens_mc", 0.3007529769717278, 0.2731563356268027, 0.523529011394821),
    ],
)  # fmt: skip
def test_areas_of_log_likelihoods(logs, pattern, softmax, margin, top):
    read = read_predictions(found(logs, pattern))
    for name, area in (("softmax", softmax), ("margin", margin), ("loglikelihood", top)):
        assert abstain.aurc(read.loss, read.signals[name]) == pytest.approx(area, abs=1e-9)


@pytest.fixture(scope="module")
def summary(data_dir) -> list[dict[str, str]]:
    with (data_dir / "llm" / "mmlu_pro" / "summary.csv").open() as file:
        return list(csv.DictReader(file))


def test_all_models_have_the_numbers_of_the_summary(data_dir, summary):
    assert len(summary) == 68
    areas = 0
    for row in summary:
        path = data_dir / "llm" / "mmlu_pro" / f"{row['model']}.parquet"
        log = read_log(path, columns=COLUMNS)
        assert log.accuracy == pytest.approx(float(row["accuracy_all_rows"]), abs=1e-9)
        assert log.unanswered == pytest.approx(float(row["unanswered_share"]), abs=1e-9)
        if row["accuracy_answered"]:
            assert log.accuracy_answered == pytest.approx(float(row["accuracy_answered"]), abs=1e-9)
        for signal in SIGNALS:
            if not row[f"{signal}.aurc"]:
                with pytest.raises(AbstainError, match="no question has an answer"):
                    read_predictions(path, columns=COLUMNS | {"confidence": signal})
                continue
            read = read_predictions(path, columns=COLUMNS | {"confidence": signal})
            assert read.name == row["model"]
            area = abstain.aurc(read.loss, read.confidence, abstained=read.abstained)
            assert area == pytest.approx(float(row[f"{signal}.aurc"]), abs=1e-9)
            areas += 1
    assert areas > 180


def brute_force(loss: np.ndarray, confidence: np.ndarray) -> float:
    """Mean over j of the mean loss of all rows whose confidence is at least that of row j, pair by pair."""
    total = 0.0
    for j in range(len(loss)):
        total += loss[confidence >= confidence[j]].mean()
    return total / len(loss)


@pytest.mark.parametrize("model", ["gpt-4.1-mini", "grok-3-mini-beta", "Mixtral-8x7B-v0.1"])
def test_areas_by_brute_force(data_dir, model):
    import pyarrow.parquet as pq

    path = data_dir / "llm" / "mmlu_pro" / f"{model}.parquet"
    table = pq.read_table(path).to_pylist()
    for signal in SIGNALS:
        rows = [r for r in table if r["extracted_answer"] is not None and r[signal] is not None]
        loss = np.array([r["extracted_answer"] != r["correct_answer"] for r in rows], float)
        area = brute_force(loss, np.array([r[signal] for r in rows]))
        read = read_predictions(path, columns=COLUMNS | {"confidence": signal})
        assert abstain.aurc(read.loss, read.confidence, abstained=read.abstained) == pytest.approx(
            area, abs=1e-9
        )


def test_unanswered_as_wrong_keeps_all_questions(data_dir):
    path = data_dir / "llm" / "mmlu_pro" / "grok-3-mini-beta.parquet"
    rules = Rules(unanswered="wrong", missing="last")
    read = read_predictions(path, columns=COLUMNS | {"confidence": "*_confidence"}, rules=rules)
    assert (read.n, read.abstained, list(read.signals)) == (12032, None, list(SIGNALS))
    assert read.loss.sum() == 12032 - round(read.log.accuracy * 12032)
    refused = ~read.log.answered
    for values in read.signals.values():
        assert values[refused].max() < values[~refused & (values > values.min())].min()
        assert len(np.unique(values[refused])) == 1


def test_grades_of_a_task(data_dir):
    folder = data_dir / "llm" / "bplaut"
    with (folder / "summary.csv").open() as file:
        rows = [r for r in csv.DictReader(file) if r["model"] in ("Mistral", "gpt-4-turbo")]
    assert len(rows) > 30
    grades = {"Correct": "right", "Wrong": "wrong", "Unparseable": "unanswered"}
    for row in rows:
        only = {key: row[key] for key in ("setting", "task", "prompt")}
        read = read_predictions(folder / f"{row['model']}.parquet", columns={"correct": "grade", "confidence": "msp"},
                                rules=Rules(only=only, grades=grades))  # fmt: skip
        assert read.log.unanswered == pytest.approx(float(row["unanswered_share"]), abs=1e-12)
        area = abstain.aurc(read.loss, read.confidence, abstained=read.abstained)
        assert area == pytest.approx(float(row["aurc_msp"]), abs=1e-9)


def test_answers_of_one_question_are_a_cluster_within_a_task(data_dir):
    path = data_dir / "llm" / "bplaut" / "Yi-6b.parquet"
    grades = {"Correct": "right", "Wrong": "wrong", "Unparseable": "unanswered"}
    read = read_predictions(
        path, columns={"correct": "grade", "confidence": "msp"}, rules=Rules(grades=grades)
    )
    assert len(np.unique(read.clusters)) == 2590 + 6000 + 6000 + 817 + 6000
    alone = abstain.inference.interval("aurc", read.loss, read.confidence, abstained=read.abstained)
    together = abstain.inference.interval(
        "aurc", read.loss, read.confidence, abstained=read.abstained, clusters=read.clusters
    )
    assert together.standard_error > 1.2 * alone.standard_error


def test_other_files_of_answers(data_dir):
    folder = data_dir / "llm"
    read = read_predictions(folder / "medqa" / "baseline_results.json.gz")
    assert read.log.accuracy == pytest.approx(0.49332285938727416, abs=1e-12)
    assert abstain.aurc(read.loss, read.confidence) == pytest.approx(0.3500416826231787, abs=1e-9)
    rules = Rules(grades={"A": "right", "B": "wrong", "C": "unanswered"})
    columns = {"correct": "grade", "question": "problem_index"}
    log = read_log(folder / "simpleqa_cz" / "claude-3-5-haiku-20241022.parquet", columns=columns, rules=rules)
    assert (log.accuracy, log.accuracy_answered, log.unanswered) == (
        pytest.approx(0.078132, abs=5e-7), pytest.approx(0.116032, abs=5e-7), pytest.approx(0.326630, abs=5e-7)
    )  # fmt: skip
