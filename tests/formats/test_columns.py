"""Which column has which role: by its name or by what the user states."""

from __future__ import annotations

import pytest

from abstain.formats import UncertainError, read_predictions


def test_column_flags_and_wildcards(tmp_path):
    (tmp_path / "t.csv").write_text("truth,score,z1,z0\n1,0.5,1,2\n0,0.25,3,4\n")
    read = read_predictions(tmp_path / "t.csv", columns={"labels": "truth", "logits": "z*"})
    assert read.logits.tolist() == [[2, 1], [4, 3]]
    read = read_predictions(tmp_path / "t.csv", columns={"error": "truth", "confidence": "score"})
    assert read.loss.tolist() == [1, 0]
    with pytest.raises(UncertainError, match="no column `nothing`"):
        read_predictions(tmp_path / "t.csv", columns={"confidence": "nothing"})


def test_two_columns_for_one_thing_are_uncertain(tmp_path):
    (tmp_path / "t.csv").write_text("correct,confidence,conf\n1,0.5,0.2\n")
    with pytest.raises(UncertainError, match="could both be the confidence") as caught:
        read_predictions(tmp_path / "t.csv")
    assert caught.value.source.preview()["first values"] == ["1", "0.5", "0.2"]
    assert read_predictions(tmp_path / "t.csv", columns={"confidence": "conf"}).confidence.tolist() == [0.2]
