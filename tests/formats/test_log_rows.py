"""What the readers of all harnesses share: nested values, token confidences, agreement, correctness_columns, columns."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from abstain.errors import DataError
from abstain.formats.columns import LogFacts
from abstain.formats.log_rows import (
    LogContent,
    agreement,
    assign_correct_role,
    float_or_none,
    get_nested,
    make_log_source,
    names_of_columns_from_0_to_1,
    read_unanswerable,
    summarise_token_logprobs,
)
from abstain.formats.safety import Limits


def test_get_nested_never_fails():
    content = {"a": [{"b": 1}], "c": "text"}
    assert get_nested(content, "a", 0, "b") == 1
    assert get_nested(content, "a", 1, "b") is None
    assert get_nested(content, "c", 0) is None
    assert get_nested(content, "a", "b") is None
    assert get_nested(None, "a") is None


def test_as_number_takes_truth_values_and_no_text():
    assert [float_or_none(value) for value in (True, 2, 0.5, "0.5", None, [1])] == [
        1.0,
        2.0,
        0.5,
        None,
        None,
        None,
    ]


def test_token_signals_are_sum_and_mean():
    expected = {"sequence_logprob": -0.75, "mean_token_logprob": -0.25}
    assert summarise_token_logprobs([-0.25, -0.25, -0.25]) == expected
    assert summarise_token_logprobs([{"logprob": -0.25}] * 3) == expected


@pytest.mark.parametrize("logprobs", [None, [], [-0.5, None], [{"token": "a"}], [-0.5, "x"]])
def test_token_signals_need_every_token(logprobs):
    assert summarise_token_logprobs(logprobs) == {}


def test_agreement_by_counting_pairs():
    questions = ["q", "q", "q", "r", "r"]
    answers = ["a", "b", "a", None, "a"]
    for row, share in enumerate(agreement(questions, answers)):
        if answers[row] is None:
            assert share is None
            continue
        repeats = [k for k, question in enumerate(questions) if question == questions[row]]
        equal = [k for k in repeats if answers[k] == answers[row]]
        assert share == len(equal) / len(repeats)


def test_scorers_lie_between_0_and_1():
    rows = [
        {"acc": 1.0, "bleu": 30.0, "loss": -0.5, "empty": None},
        {"acc": math.nan, "bleu": 0.5, "loss": 0.5, "empty": None},
    ]
    assert names_of_columns_from_0_to_1(rows, ["acc", "bleu", "loss", "empty", "absent"]) == ("acc",)


def test_a_scorer_is_chosen_only_where_that_is_clear():
    assert assign_correct_role(["f1", "acc"], prefer=("acc", "exact_match")) == {"correct": "acc"}
    assert assign_correct_role(["f1"], prefer=("acc",)) == {"correct": "f1"}
    assert assign_correct_role(["f1", "rouge"], prefer=("acc",)) == {}
    assert assign_correct_role([]) == {}


def test_columns_hold_numbers_or_text():
    rows = [{"question": "a", "acc": True}, {"question": None, "acc": None, "extra": 2}]
    facts = LogFacts(
        tool="mine",
        column_of_role={},
        possible_correctness_columns=("acc", "absent"),
        possible_confidence_columns=("extra", "absent"),
    )
    source = make_log_source(Path("t.json"), Limits(), LogContent(rows, facts))
    assert source.columns["question"].load().texts().tolist() == ["a", ""]
    np.testing.assert_array_equal(source.columns["acc"].load(), [1.0, np.nan])
    np.testing.assert_array_equal(source.columns["extra"].load(), [np.nan, 2.0])
    assert source.facts.possible_correctness_columns == ("acc",)
    assert source.facts.possible_confidence_columns == ("extra",)


def test_a_log_without_answers_or_beyond_the_limits_is_refused():
    facts = LogFacts(tool="mine", column_of_role={})
    with pytest.raises(DataError, match="is a log of mine that holds no answers"):
        make_log_source(Path("t.json"), Limits(), LogContent([], facts))
    rows = [{f"column {k}": k for k in range(5)}]
    with pytest.raises(DataError, match="has 5 columns, more than the limit of 4"):
        make_log_source(Path("t.json"), Limits(columns=4), LogContent(rows, facts))
    with pytest.raises(DataError, match="more than the limit"):
        make_log_source(Path("t.json"), Limits(memory=100), LogContent(rows, facts))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ({"text": "?", "is_impossible": True}, {"unanswerable": True}),
        ({"Is Answerable": True}, {"unanswerable": False}),
        ({"unanswerable": "yes"}, {}),
        ("unanswerable", {}),
        (None, {}),
    ],
)
def test_a_question_says_by_a_truth_value_that_it_has_no_answer(question, expected):
    assert read_unanswerable(question) == expected
