"""Guesses of `abstain describe`: which columns of a plain table may say right or wrong, or be a confidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abstain.cli.guessed_columns import GuessedColumns
from abstain.formats import open_source

VERDICTS = [True, False, True, True, False, True, False, True]
SHARES = [0.5, 0.25, 0.75, 1.0, 0.5, 0.0, 0.25, 0.6]


def guess(folder: Path, content: Any) -> GuessedColumns:
    path = folder / "table.json"
    path.write_text(json.dumps(content))
    return GuessedColumns(open_source(path))


@pytest.mark.parametrize(
    ("columns", "choices"),
    [
        pytest.param(
            {"urgencyCorrect": VERDICTS, "certaintyCorrect": VERDICTS[::-1]},
            [{"correct": "urgencyCorrect"}, {"correct": "certaintyCorrect"}],
            id="a verdict is no confidence",
        ),
        pytest.param(
            {"best_score": [1] * 8, "mean_score": SHARES},
            [{"correct": "best_score"}, {"correct": "mean_score"}],
            id="a mean score is no confidence",
        ),
        pytest.param(
            {"judge_score": VERDICTS, "other_score": SHARES, "judge_confidence": SHARES},
            [
                {"correct": "judge_score", "confidence": "judge_confidence"},
                {"correct": "other_score", "confidence": "judge_confidence"},
            ],
            id="a score is no confidence of another score",
        ),
        pytest.param(
            {"is_correct": VERDICTS, "all_probs": [{"A": p, "B": 1 - p} for p in SHARES], "sure": SHARES},
            [{"correct": "is_correct", "confidence": "sure"}],
            id="probabilities of options are no confidences",
        ),
        pytest.param(
            {"target_scores": [{"2": int(k), "7": int(not k)} for k in VERDICTS], "accepted": VERDICTS},
            [],
            id="neither the truth nor a decision is a verdict",
        ),
        pytest.param(
            {
                "preference": [1, 2, 2, 1, 1, 2, 1.5, 2],
                "target": ["output_1"] * 8,
                "output_1": list("abcdefgh"),
            },
            [{"correct": "preference-1"}],
            id="a preference from 1 to 2 is one",
        ),
        pytest.param({"preference": [0, 2, 2, 1, 1, 2, 1, 2]}, [], id="a preference of 0 is none"),
        pytest.param(
            {"expected_answer": list("abcdefgh"), "answer": list("abcdefg!"), "best_score": [1] * 8},
            [{"correct": "best_score"}, {"labels": "expected_answer", "prediction": "answer"}],
            id="any verdict comes before free text",
        ),
        pytest.param(
            {"truth": [1, 2, 3, 1, 2, 3, 1, 2], "pred": [2, 3, 1, 2, 3, 1, 2, 3]},
            [],
            id="numbers never equal",
        ),
        pytest.param(
            {"truth": ["a ", "b", "", *"bbbbb"], "pred": ["a", *"aaaaaa", ""]},
            [{"labels": "truth", "prediction": "pred"}],
            id="white space does not count",
        ),
    ],
)
def test_choices(tmp_path, columns, choices):
    rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
    assert guess(tmp_path, rows).choices() == choices


@pytest.mark.parametrize(("name", "lowest"), [("judged_correct", -1), ("preference", 0)])
def test_numbers_that_need_an_explanation_are_asked_about(tmp_path, name, lowest):
    rows = [
        {name: judged + lowest + 1, "answer": f"it is {number}", "gold": f"it is {number % 6}"}
        for number, judged in enumerate((-1, 0, 1, 1, 0, 1, 0, 1))
    ]
    guesses = guess(tmp_path, rows)
    assert guesses.choices() == []  # texts are not compared where a judge has graded them
    assert f"--grades {lowest}=MEANING,{lowest + 1}=MEANING,{lowest + 2}=MEANING" in guesses.explain_grades()


def test_words_in_the_name_of_a_table_say_nothing_of_its_columns(tmp_path):
    rows = [
        {"is_correct": right, "confidence": share, "length": number * 1.5}
        for number, (right, share) in enumerate(zip(VERDICTS, SHARES))
    ]
    wrong = [row | {"is_correct": False} for row in rows]
    assert guess(tmp_path, {"low_confidence": rows, "high_confidence_wrong": wrong}).choices() == [
        {"correct": "low_confidence.is_correct", "confidence": "low_confidence.confidence"}
    ]


@pytest.mark.parametrize(
    "names",
    [
        ("acc", "unc_ece"),
        ("acc", "acc_stderr"),
        ("Overall_Acc", "TP", "FN"),
        ("correct", "accuracy"),
        ("a_accuracy", "b_accuracy", "c_accuracy", "error_rate"),
    ],
    ids=", ".join,
)
def test_a_summary_may_have_many_rows(tmp_path, names):
    rng = np.random.default_rng(0)
    columns = {
        name: (rng.random(300) * (500 if name in ("TP", "FN", "correct") else 1)).tolist() for name in names
    }
    if "correct" in columns:
        columns["correct"] = [int(number) for number in columns["correct"]]
    if "acc_stderr" in columns:  # 0 and 1 of single samples
        columns["acc"] = [number % 2 for number in range(300)]
    guesses = guess(tmp_path, columns)
    assert guesses.choices() == []
    assert guesses.explain_summary().startswith("looks like a summary of 300 rows")


def test_a_summary_beside_a_table_of_answers(tmp_path):
    models = [{"certaintyAccuracy": {"value": 0.5}, "coverage": {"value": 1}, "riskRate": 0.2, "meanAccuracy": 0.4,
               "standardCorrectDeferrals": number} for number in (0, 1)]  # fmt: skip
    answers = [{"grade_correct": right} for right in VERDICTS]
    guesses = guess(tmp_path, {"models": models, "transcripts": answers})
    assert guesses.choices() == [{"correct": "transcripts.grade_correct"}]
    assert guesses.explain_summary() == ""
