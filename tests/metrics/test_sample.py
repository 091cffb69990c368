"""Groups of any labels: pandas columns, categoricals, missing ones. The oracle is the metric of each part."""

from __future__ import annotations

import inspect
import math
from functools import partial

import numpy as np
import pytest

import abstain
from abstain.errors import InputError, ShapeError

LOSS = np.asarray([1.0, 0, 0, 1, 0, 1, 0])
CONFIDENCE = np.asarray([0.1, 0.5, 0.3, 0.9, 0.7, 0.2, 0.6])
FIRST, SECOND, MISSING = [0, 3, 4], [1, 2], [5, 6]


def _labels(first, second, missing):
    found = np.empty(len(LOSS), dtype=object)
    for places, label in ((FIRST, first), (SECOND, second), (MISSING, missing)):
        for i in places:
            found[i] = label
    return found


def _check(groups, first, second, missing):
    result = abstain.aurc(LOSS, CONFIDENCE, groups=groups)
    assert list(result.values) == [first, second, missing]
    for label, places in ((first, FIRST), (second, SECOND), (missing, MISSING)):
        assert result.values[label] == abstain.aurc(LOSS[places], CONFIDENCE[places])
        assert result.counts[label] == len(places)


def test_object_arrays_of_strings():
    _check(_labels("a", "b", "c"), "a", "b", "c")


@pytest.mark.parametrize("missing", [None, math.nan, np.nan, np.datetime64("NaT")], ids=repr)
@pytest.mark.parametrize("kind", [list, np.asarray])
def test_missing_labels_are_the_group_none_and_stand_last(missing, kind):
    _check(kind(_labels("a", "b", missing)), "a", "b", None)
    _check(kind(_labels(1, 2, missing)), 1, 2, None)


def test_numbers_with_nan():
    _check(_labels(1.0, 2.0, math.nan).astype(np.float64), 1.0, 2.0, None)


def test_kinds_of_missing_are_one_group():
    labels = _labels("a", "b", None)
    labels[MISSING[0]] = math.nan
    _check(labels, "a", "b", None)


def test_labels_that_cannot_be_sorted_together():
    _check(_labels(7, "b", None), 7, "b", None)


@pytest.mark.parametrize("dtype", ["object", "category", "string"])
def test_pandas_columns(dtype):
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(list(_labels("a", "b", "c"))).astype(dtype)
    _check(column, "a", "b", "c")
    _check(column.where(column != "c"), "a", "b", None)
    if dtype == "category":
        _check(pandas.Categorical(column), "a", "b", "c")


def test_pandas_nullable_numbers():
    pandas = pytest.importorskip("pandas")
    _check(pandas.Series(list(_labels(1, 2, None)), dtype="Int64"), 1, 2, None)


def test_torch_labels():
    torch = pytest.importorskip("torch")
    _check(torch.as_tensor(_labels(0, 1, 2).astype(int)), 0, 1, 2)


def test_options_are_split_with_the_samples():
    weight = np.arange(1.0, 8.0)
    labels = _labels("a", "b", None)
    result = abstain.aurc(list(LOSS), list(CONFIDENCE), groups=labels, sample_weight=list(weight))
    for label, places in (("a", FIRST), ("b", SECOND), (None, MISSING)):
        assert result.values[label] == abstain.aurc(
            LOSS[places], CONFIDENCE[places], sample_weight=weight[places]
        )


def test_metrics_that_need_no_confidence():
    result = abstain.risk(LOSS, groups=_labels("a", "b", "c"))
    assert result.values == {"a": LOSS[FIRST].mean(), "b": LOSS[SECOND].mean(), "c": LOSS[MISSING].mean()}
    assert list(abstain.metrics.oracle_aurc(LOSS, groups=_labels("a", "b", "c")).values) == ["a", "b", "c"]


def test_no_groups_at_all():
    assert abstain.aurc(LOSS, CONFIDENCE, groups=None) == abstain.aurc(LOSS, CONFIDENCE)


def test_balanced_weights_take_the_same_labels():
    weights = abstain.metrics.balanced_weights(_labels("a", "b", None))
    for places in (FIRST, SECOND, MISSING):
        assert weights[places].sum() == pytest.approx(len(LOSS) / 3)


def test_labels_must_be_a_vector_of_plain_values():
    with pytest.raises(ShapeError, match="one label per sample"):
        abstain.aurc(LOSS, CONFIDENCE, groups=np.zeros((7, 2)))
    with pytest.raises(InputError, match="plain labels"):
        abstain.aurc([0, 1], [1, 2], groups=[{}, {}])


def test_a_group_of_no_weight_is_no_group_in_memory_or_in_files(tmp_path):
    weight = np.ones(len(LOSS))
    weight[SECOND] = 0
    labels = _labels("a", "b", "c")
    rows = zip(LOSS, CONFIDENCE, weight, labels)
    (tmp_path / "x.csv").write_text(
        "loss,confidence,w,kind\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in rows)
    )
    by_metric = abstain.aurc(LOSS, CONFIDENCE, groups=labels, sample_weight=weight)
    by_interval = abstain.inference.interval("risk", LOSS, CONFIDENCE, groups=labels, sample_weight=weight)
    table = abstain.evaluate(
        loss=LOSS, confidence=CONFIDENCE, groups=labels, sample_weight=weight, metrics=["risk"]
    )
    files = abstain.engines.files.aurc(tmp_path / "x.csv", groups="kind", sample_weight="w")
    assert list(by_metric.values) == list(by_interval.intervals) == list(files.values) == ["a", "c"]
    assert {entry.group for entry in table.entries} == {None, "a", "c"}
    assert files.values == pytest.approx(by_metric.values)
    assert files.counts == by_metric.counts
    with pytest.raises(InputError, match="must have some mass"):
        abstain.aurc(LOSS, CONFIDENCE, groups=labels, sample_weight=0 * weight)


def _functions_with_groups():
    """Every public metric that takes `groups=`, and `interval`, by name; the options that they require are set."""
    options = {
        "risk_at_coverage": {"coverage": 0.5},
        "coverage_at_risk": {"risk": 0.5},
        "rejection_cost": {"cost": 0.3},
    }
    functions = {"interval": partial(abstain.interval, "aurc")}
    for name in {*abstain.__all__, *abstain.metrics.__all__}:
        function = getattr(abstain, name, None) or getattr(abstain.metrics, name)
        is_metric = getattr(function, "__module__", "").startswith("abstain.metrics")
        if (
            is_metric
            and "groups" in inspect.signature(function).parameters
            and hasattr(function, "__wrapped__")
        ):
            functions[name] = partial(function, **options.get(name, {}))
    return functions


@pytest.mark.parametrize("name", sorted(_functions_with_groups()))
def test_columns_of_another_length_are_refused(name):
    function = _functions_with_groups()[name]
    n = 40
    loss = (np.arange(n) % 3 == 0).astype(float)
    columns = {
        "confidence": np.arange(n) % 7 / 7,
        "sample_weight": np.ones(n),
        "abstained": np.zeros(n, dtype=bool),
        "clusters": np.arange(n) // 2,
        "strata": np.arange(n) % 4,
    }
    parameters = inspect.signature(function).parameters
    has_confidence = "confidence" in parameters

    def call(argument, values):
        arrays = [columns["confidence"]] if has_confidence else []
        if argument == "confidence":
            arrays = [values]
        further = {} if argument == "confidence" else {argument: values}
        return function(loss, *arrays, groups=np.arange(n) % 2, **further)

    checked = [argument for argument in columns if argument in parameters]
    assert checked
    for argument in checked:
        call(argument, columns[argument])
        for values in (columns[argument][:-1], np.append(columns[argument], columns[argument][:1])):
            with pytest.raises(ShapeError, match=argument):
                call(argument, values)
