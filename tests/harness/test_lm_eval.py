"""A real run of lm-evaluation-harness with a scripted model, and its results beside a brute-force definition."""

from __future__ import annotations

import json

import lm_eval
import numpy as np
import pytest
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask

from abstain.lm_eval import add_selective

COUNT = 30


class Scripted(LM):
    """Log-likelihoods that depend on the length of the option only, in eighths: their differences are exact."""

    def loglikelihood(self, requests):
        return [(-(len(r.args[1]) * 0.375 % 5) - 0.125, False) for r in requests]

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError

    def generate_until(self, requests):
        return ["#" * (len(r.args[0]) % 7) for r in requests]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    rng = np.random.default_rng(0)
    file = tmp_path_factory.mktemp("task") / "questions.jsonl"
    rows = [
        {
            "q": f"question {k}",
            "options": ["x" * int(n) for n in rng.integers(1, 30, 3)],
            "right": int(rng.integers(3)),
            "is_impossible": k % 5 == 0,
        }
        for k in range(COUNT)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = ConfigurableTask(
        config={
            "task": "lengths", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(file)}},
            "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "{{q}}",
            "doc_to_choice": "{{options}}", "doc_to_target": "{{right}}", "metric_list": [{"metric": "acc"}],
        }
    )  # fmt: skip
    return lm_eval.simple_evaluate(model=Scripted(), tasks=[task], log_samples=True, bootstrap_iters=0)


def test_results_gain_aurc_in_one_line(results):
    found = add_selective(results)["results"]["lengths"]
    samples = results["samples"]["lengths"]
    wrong = np.array([1 - s["acc"] for s in samples])
    options = [np.array([float(x) for x, _ in s["filtered_resps"]]) for s in samples]
    sure = np.array([np.exp(o.max()) / np.exp(o).sum() for o in options]).round(12)
    assert found["acc,none"] == pytest.approx(1 - wrong.mean())
    assert found["aurc,none"] == pytest.approx(np.mean([wrong[sure >= g].mean() for g in sure]), abs=1e-9)
    assert found["aurc_low,none"] < found["aurc,none"] < found["aurc_high,none"]
    assert 0 <= found["risk_at_0.8,none"] <= 1
    assert "softmax" in results["selective"]["lengths"][0]


def test_scores_of_graded_answers_and_calibration(results):
    metrics = ["score_at_target@0.75", "calibration_error", "abstention_recall"]
    found = add_selective(results, metrics=metrics)["results"]["lengths"]
    right = np.array([sample["acc"] for sample in results["samples"]["lengths"]])
    assert found["score_at_target@0.75,none"] == pytest.approx(right.mean() - 3 * (1 - right.mean()))
    assert found["abstention_recall,none"] == 0  # a multiple-choice task always has an answer
    assert 0 < found["abstention_recall_high,none"] < 0.5  # of the six that the data set calls impossible
    assert found["calibration_error_low,none"] <= found["calibration_error,none"]
