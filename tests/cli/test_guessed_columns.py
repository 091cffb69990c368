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
MANY_VERDICTS = [number % 3 > 0 for number in range(40)]
NAMES = [f"name {number}" for number in range(40)]
SENTENCES = [f"It is, as far as I know, the {number}th." for number in range(40)]
NOISE = [(number * 7 % 40) / 40 for number in range(40)]  # says nothing of the verdicts


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
        pytest.param(
            {
                "gold_answer": NAMES,
                "answer": NAMES,
                "direct_answer": SENTENCES,
                "direct_correct": MANY_VERDICTS,
            },
            [{"correct": "direct_correct"}],
            id="a copy of the labels is no prediction",
        ),
        pytest.param(
            {"gold": NAMES[::-1], "model_output": [NAMES[-1], *SENTENCES[1:]]},
            [],
            id="a sentence that equals a name by luck",
        ),
        pytest.param(
            {
                "gold": NAMES[::-1],
                "model_output": [NAMES[-1], *["I cannot tell it from this text."] * 15, *SENTENCES[16:]],
            },
            [],
            id="sentences and one refusal that is in many rows",
        ),
        pytest.param(
            {"gold": list("ABCD") * 10, "model_output": [*"ABCD" * 4, *SENTENCES[16:]]},
            [{"labels": "gold", "prediction": "model_output"}],
            id="letters and sentences",
        ),
        pytest.param(
            {
                "gold_answers": [["a", "a", "b"], ["b", "b"], ["c", "d", "d", "d"], ["a"]] * 5,
                "output": list("abba") * 5,
            },
            [{"labels": "gold_answers.answer", "prediction": "output"}],
            id="the agreement of right answers is no confidence of the model",
        ),
        pytest.param(
            {
                "truth": list(range(2)) * 20,
                "fusion_pred": [0] * 40,
                "fusion_score": [share / 4 for share in NOISE],
                "mini_pred": [int(share > 0.7) for share in NOISE],
                "mini_score_hall": NOISE,
            },
            [{"labels": "truth", "probs": "fusion_score"}, {"labels": "truth", "prediction": "mini_pred"}],
            id="scores of two detectors",
        ),
        pytest.param(
            {"gold": list("ABCD") * 10, "pred": list("ABBA") * 10, "score": NOISE},
            [{"labels": "gold", "prediction": "pred", "confidence": "score"}],
            id="a score beside answers that can be compared is no verdict",
        ),
        pytest.param(
            {
                "base_correct": MANY_VERDICTS,
                "large_correct": MANY_VERDICTS[::-1],
                "base_conf": NOISE,
                "large_conf": NOISE[::-1],
            },
            [
                {"correct": "base_correct", "confidence": "base_conf"},
                {"correct": "large_correct", "confidence": "large_conf"},
            ],
            id="each verdict has the confidence of its own",
        ),
        pytest.param(
            {
                "is_hallucination": MANY_VERDICTS,
                "answer": SENTENCES,
                "truth": NAMES,
                "disagreement": NOISE,
                "faithfulness_score": [
                    0.8 * (not wrong) + share / 10 for wrong, share in zip(MANY_VERDICTS, NOISE)
                ],
            },
            [{"error": "is_hallucination", "uncertainty": "disagreement"}],
            id="errors, and the score that they were made from",
        ),
        pytest.param(
            {"direct_correct": VERDICTS, "direct_hallucination": VERDICTS[::-1], "is_incorrect": VERDICTS},
            [{"correct": "direct_correct"}],
            id="errors beside a verdict are those of some wrong answers",
        ),
        pytest.param({"is_solved": VERDICTS}, [{"correct": "is_solved"}], id="solved"),
        pytest.param({"true_false": VERDICTS}, [{"correct": "true_false"}], id="true or false"),
        pytest.param({"unsolved": VERDICTS, "n": SHARES}, [], id="unsolved"),
        pytest.param(
            {"success": [True] * 8, "calls": [{"search_success": right} for right in VERDICTS]},
            [{"correct": "success"}],
            id="the success of a step",
        ),
        pytest.param(
            {
                "label": ["Correct Answer", "Refusal", "Incorrect Answer", "Correct Answer"] * 2,
                "model_answer": SENTENCES[:8],
                "gold_answer": [1, "a few", 2, "none", 3, 4, 5, "all"],
                "sure": SHARES,
            },
            [{"correct": "label", "confidence": "sure"}],
            id="words of a verdict beside right answers of two kinds",
        ),
        pytest.param(
            {"label": ["positive", "negative"] * 4, "output": SENTENCES[:8], "reference": NAMES[:8]},
            [],
            id="words of a label that grade nothing",
        ),
        pytest.param(
            {"is_answerable": VERDICTS, "gold_answers": [{"agreement": share} for share in SHARES]},
            [],
            id="whether there is an answer is no answer",
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


def test_words_with_a_plain_meaning_are_not_asked_about(tmp_path):
    words = ["CORRECT", "NOT_ATTEMPTED", "INCORRECT", "CORRECT"] * 2
    guesses = guess(tmp_path, [{"grade": word, "grader_raw": word[0]} for word in words])
    assert guesses.choices() == [{"correct": "grade"}]
    assert guesses.grades_of({"correct": "grade"}) == {
        "CORRECT": "right", "NOT_ATTEMPTED": "unanswered", "INCORRECT": "wrong",
    }  # fmt: skip
    assert guesses.grades_of({"correct": "other"}) == {}
    assert guesses.explain_grades() == ""


@pytest.mark.parametrize(
    ("words", "is_asked_about"),
    [(["college", "high school"], False), (["mostly right", "no"], True), (["A", "F"], True)],
    ids=str,
)
def test_grades_of_a_school_are_none_of_answers(tmp_path, words, is_asked_about):
    guesses = guess(tmp_path, [{"grade": word} for word in words * 4])
    assert ("--grades" in guesses.explain_grades()) == is_asked_about


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (NAMES, "`answer` and `gold` are equal in every row, so one seems to be a copy of the other."),
        (
            ["name 0", *SENTENCES[1:]],
            "`answer` and `gold` are equal in 1 of 40 rows, so no command compares them.",
        ),
    ],
)
def test_answers_that_say_nothing_when_compared_are_explained(tmp_path, given, told):
    guesses = guess(tmp_path, {"gold": NAMES, "answer": given})
    assert guesses.choices() == []
    assert guesses.explain_incomparable_answers().startswith(told)


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
        ("precision", "recall", "f1_score"),
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


@pytest.mark.parametrize(
    ("column", "choices"), [("question", [{"correct": "f1_score"}]), ("model", [])], ids=str
)
def test_precision_and_recall_of_single_answers(tmp_path, column, choices):
    rows = [
        {column: f"{number}", "precision": share, "recall": 1 - share, "f1_score": share}
        for number, share in enumerate(SHARES * 20)
    ]
    assert guess(tmp_path, rows).choices() == choices


@pytest.mark.parametrize(
    ("rate", "totals"), [("accuracy", [3, 9, 5]), ("correct_rate", [3, 9, 5])], ids=["text", "number"]
)
def test_numbers_of_right_answers_and_totals_are_a_summary(tmp_path, rate, totals):
    groups = [
        {
            "total": total,
            "correct": right,
            rate: f"{right / total:.2f}" if rate == "accuracy" else right / total,
        }
        for total, right in zip(totals, (1, 6, 4))
    ]
    guesses = guess(tmp_path, groups)
    assert guesses.choices() == []
    assert guesses.explain_summary().startswith("looks like a summary of 3 rows")


def test_a_summary_beside_a_table_of_answers(tmp_path):
    models = [{"certaintyAccuracy": {"value": 0.5}, "coverage": {"value": 1}, "riskRate": 0.2, "meanAccuracy": 0.4,
               "standardCorrectDeferrals": number} for number in (0, 1)]  # fmt: skip
    answers = [{"grade_correct": right} for right in VERDICTS]
    guesses = guess(tmp_path, {"models": models, "transcripts": answers})
    assert guesses.choices() == [{"correct": "transcripts.grade_correct"}]
    assert guesses.explain_summary() == ""
