"""Results of UQLM."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))
from written import RIGHT, uqlm, uqlm_lists

from abstain.errors import DataError
from abstain.formats import read_log
from abstain.formats.columns import UncertainError


@pytest.fixture
def put(tmp_path):
    def write(name: str, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


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


@pytest.mark.parametrize(
    ("verdicts", "responses"),
    [
        ("101101", None),
        (("True", "False", "True", "True", "False", "True"), None),
        ("101101", ["30", "8", "a", "b", "c", "d"]),
    ],
)
@pytest.mark.parametrize("by_question", [False, True])
def test_a_second_file_may_say_which_answers_are_right(put, verdicts, responses, by_question):
    content = uqlm()
    if responses:
        content["data"]["responses"] = responses
    path = put("uqlm.json", content)
    lines = [f"Q{k},{verdict}" if by_question else verdict for k, verdict in enumerate(verdicts)]
    if by_question:
        lines.reverse()
    truth = put("truth.csv", "\n".join(["question,correct" if by_question else "correct", *lines]).encode())
    log = read_log(path, labels=truth)
    assert (1 - log.loss).tolist() == [1, 0, 1, 1, 0, 1]
    assert log.column_of_role["correct"] == "truth.csv"


def test_right_answers_in_a_column_called_correct_are_compared(put):
    content = uqlm()
    content["data"]["responses"] = ["1", "0", "1", "0", "7", "0"]
    truth = put("truth.csv", "\n".join(["correct", *"101101"]).encode())
    assert (1 - read_log(put("uqlm.json", content), labels=truth).loss).tolist() == [1, 1, 1, 0, 0, 0]
    answers = put("answers.csv", "\n".join(["answer", *"101101"]).encode())
    with pytest.raises(DataError, match=r"answers\.csv.*0 and 1.*no answer is.*call the column `correct`"):
        read_log(put("uqlm.json", uqlm()), labels=answers)


def test_a_log_without_prompts_says_that_it_holds_no_answers(put):
    empty = {key: [] if isinstance(value, list) else value for key, value in uqlm()["data"].items()}
    with pytest.raises(DataError, match=r"no answers|holds no|empty|no rows"):
        read_log(put("nothing.json", uqlm() | {"data": empty}))


def test_lists_without_a_wrapper_and_verdicts_of_their_own(put):
    log = read_log(put("bs.json", uqlm_lists()))
    assert (1 - log.loss).tolist() == RIGHT
    assert list(log.signals) == ["confidence_scores", "scores.judge_1"]
    # a scorer that says right and wrong does not rank its own verdicts
    for stated in ({"correct": "scores.judge_1"}, {"correct": "scores.judge_1/1", "confidence": "*"}):
        log = read_log(put("judged.json", uqlm_lists()), columns=stated)
        assert list(log.signals) == ["confidence_scores"]
    lists = uqlm_lists()
    del lists["prompts"]
    lists["sampled_responses"] = [["yes"]] * 6
    assert read_log(put("similarity.json", lists)).questions == 6
