"""Metrics of graded answers against the formulas that benchmarks publish, on small and on real logs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from abstain.errors import InfeasibleError, InputError
from abstain.metrics import ANSWER_METRICS, AnswerMetric, answer_metric
from abstain.metrics.answer_metrics import grade_answers, metrics_for_answers, score_at_target


def published(right: int, wrong: int, declined: int) -> dict[str, Fraction | None]:
    """The formulas as they are published, in fractions; None where a denominator is 0."""
    n = right + wrong + declined
    c, i = Fraction(right, n), Fraction(wrong, n)
    given = Fraction(right, right + wrong) if right + wrong else None
    harmonic = None
    if given is not None:
        harmonic = 2 / (1 / c + 1 / given) if right else Fraction(0)
    return {
        "accuracy": c,
        "wrong": i,
        "not_attempted": 1 - c - i,
        "accuracy_given_attempted": given,
        "simpleqa_f": harmonic if given is not None else Fraction(0),
        "hallucination_rate": i / (1 - c) if c < 1 else None,
        "omniscience_index": 100 * (c - i),
        "score_at_target@0.5": c - i,
        "score_at_target@0.75": c - 3 * i,
        "score_at_target@0.9": c - 9 * i,
        "score_at_price@2": c - 2 * i,
    }


def check_counts(right: int, wrong: int, declined: int) -> None:
    answers = grade_answers(
        "test", [1] * right + [0] * (wrong + declined), [True] * (right + wrong) + [False] * declined
    )
    for key, expected in published(right, wrong, declined).items():
        if expected is None:
            with pytest.raises(InfeasibleError):
                answer_metric(key).value(answers)
        else:
            assert answer_metric(key).value(answers) == pytest.approx(float(expected), abs=1e-12), key


@pytest.mark.parametrize("counts", [(6, 3, 1), (0, 4, 2), (5, 0, 3), (4, 0, 0), (0, 0, 3), (1, 2, 0)])
def test_every_metric_is_its_published_formula(counts):
    check_counts(*counts)


def test_abstention_metrics_count_unanswerable_questions():
    unanswerable = [True] * 5 + [False] * 7
    answered = [False] * 3 + [True] * 2 + [False] * 2 + [True] * 5  # 3 of 5 declined rightly, 2 more wrongly
    answers = grade_answers("test", [0] * 12, answered, unanswerable)
    assert answer_metric("abstention_recall").value(answers) == pytest.approx(3 / 5)
    assert answer_metric("abstention_precision").value(answers) == pytest.approx(3 / 5)
    assert answer_metric("abstention_f1").value(answers) == pytest.approx(3 / 5)
    with pytest.raises(InputError, match="unanswerable"):
        answer_metric("abstention_f1").value(grade_answers("test", [0, 1]))


def test_real_logs(data_dir):
    """68 models on MMLU-Pro, four on Czech SimpleQA, ten of bplaut, twenty vision-language models: counts by hand."""
    parquet = pytest.importorskip("pyarrow.parquet")
    compute = pytest.importorskip("pyarrow.compute")
    folder = data_dir / "llm"
    checked = 0
    for path in sorted((folder / "mmlu_pro").glob("*.parquet")):
        table = parquet.read_table(path, columns=["correct_answer", "extracted_answer"])
        right = compute.sum(compute.equal(table["correct_answer"], table["extracted_answer"])).as_py() or 0
        declined = table["extracted_answer"].null_count
        check_counts(right, len(table) - right - declined, declined)
        checked += 1
    grades = {"simpleqa_cz": ("A", "B", "C"), "bplaut": ("Correct", "Wrong", "Unparseable")}
    for name, (right_word, wrong_word, declined_word) in grades.items():
        for path in sorted((folder / name).glob("*.parquet")):
            if path.stem == "questions":
                continue
            column = parquet.read_table(path, columns=["grade"])["grade"]
            count_of = {pair["values"]: pair["counts"] for pair in compute.value_counts(column).to_pylist()}
            counts = [count_of.get(word, 0) for word in (right_word, wrong_word, declined_word)]
            assert sum(counts) == len(column)
            check_counts(*counts)
            checked += 1
    letters = np.array(list("ABCDEF"))
    for path in sorted((folder / "vlm").glob("*.parquet")):
        if path.stem.startswith("questions"):
            continue
        table = parquet.read_table(path)
        logits = np.column_stack([table[f"logit_{letter}"].to_numpy() for letter in letters])
        answer = letters[logits.argmax(axis=1)]
        right = int((answer == table["answer"].to_numpy(zero_copy_only=False)).sum())
        declined = int((answer == "E").sum())
        check_counts(right, len(answer) - right - declined, declined)
        checked += 1
    assert checked == 68 + 4 + 10 + 20


def test_default_metrics_are_those_that_say_something():
    names = [metric.key for metric in metrics_for_answers(grade_answers("test", [1, 0]))]
    assert names[0] == "accuracy"
    assert "not_attempted" not in names
    all_kinds = grade_answers("test", [1, 0], [True, False], [False, True])
    assert {metric.key for metric in metrics_for_answers(all_kinds)} >= set(ANSWER_METRICS)


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("acuracy", "accuracy"),
        ("accuracy@2", "takes no number"),
        ("score_at_target", "needs a number"),
        ("score_at_target@1", "target"),
    ],
)
def test_unknown_metrics_are_refused(metric, words):
    with pytest.raises(InputError, match=words):
        answer_metric(metric)


def test_a_denominator_must_hold_what_the_numerator_counts():
    with pytest.raises(InputError, match="must count every question"):
        AnswerMetric(
            name="bad", label="", summary="", numerator={"right": 1.0}, denominator={"not_attempted": 1.0}
        )
    with pytest.raises(InputError, match="'rihgt'"):
        AnswerMetric(name="bad", label="", summary="", numerator={"rihgt": 1.0})


def test_which_metrics_tell_wrong_answers_from_unanswered_questions():
    alike = {name for name, metric in ANSWER_METRICS.items() if not metric.tells_wrong_from_unanswered}
    assert alike == {"accuracy"}
    assert not score_at_target(0.0).tells_wrong_from_unanswered
    assert score_at_target(0.5).tells_wrong_from_unanswered
