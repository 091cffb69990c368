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
