"""Names of columns that look like a role and are none."""

from __future__ import annotations

import numpy as np
import pytest

from abstain.errors import InputError
from abstain.formats import read_predictions
from abstain.formats.roles import columns_by_role


def risk_of(path, **options) -> float:
    read = read_predictions(path, **options)
    return float(np.mean(read.own_or_zero_one_losses()))


def test_labels_are_class_names_of_many_digits(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("prob_1234567,prob_1234568,label\n0.9,0.1,1234567\n0.6,0.4,1234568\n")
    assert read_predictions(path).labels.tolist() == [0, 1]


@pytest.mark.parametrize("extra", ["logit_scale", "logit_bias"])
def test_a_column_named_like_the_logits_is_no_class(tmp_path, extra):
    path = tmp_path / "t.csv"
    path.write_text(f"logit_0,{extra},logit_1,label\n2,100,0,0\n0,100,3,1\n1,100,0,1\n")
    read = read_predictions(path)
    assert read.logits.tolist() == [[2, 0], [0, 3], [1, 0]]
    assert risk_of(path) == pytest.approx(1 / 3)


def test_numbered_columns_take_numbers_as_labels(tmp_path):
    path = tmp_path / "numbered.csv"
    path.write_text("label,prob_class1,prob_class2\n1,0.9,0.1\n2,0.2,0.8\n2,0.6,0.4\n")
    assert read_predictions(path).own_or_zero_one_losses().tolist() == [False, False, True]


@pytest.mark.parametrize("first", ["confidence", "uncertainty"])
def test_an_uncertainty_beside_a_confidence_in_either_order(first):
    columns = {"confidence": "stated", "uncertainty": "entropy"}
    names = {"confidence": "stated", "uncertainty": "-entropy"}
    second = next(role for role in columns if role != first)
    by_role = columns_by_role({first: columns[first], second: columns[second]})
    assert by_role == {"confidence": f"{names[first]},{names[second]}"}


def test_two_names_of_one_role_are_refused():
    with pytest.raises(InputError, match="given twice, 'a,-b' and 'c'"):
        columns_by_role({"confidence": "a", "uncertainty": "b", "conf": "c"})
