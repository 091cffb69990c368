"""Each bad input is a domain error that names function, argument, value and remedy."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import abstain
from abstain.errors import DtypeError, InputError, ShapeError
from abstain.metrics import METRICS

GOOD = ([0.0, 1.0, 0.0], [0.1, 0.2, 0.3])
CASES = {
    "empty": (([], []), {}, InputError, r"aurc: needs at least one sample, got shape \(0,\)"),
    "lengths": (([0, 1, 0], [0.1, 0.2]), {}, ShapeError, r"one length .*got shapes \(3,\) and \(2,\)"),
    "class scores": (([0, 1, 0], np.zeros((3, 2))), {}, ShapeError, r"Reduce class scores .*max_softmax"),
    "scalar": ((0.0, 1.0), {}, ShapeError, r"got shapes \(\) and \(\)"),
    "nan confidence": (
        ([0, 1, 0], [0.1, np.nan, 0.3]),
        {},
        InputError,
        "`confidence` must be finite, got nan at index 1",
    ),
    "inf confidence": (([0, 1], [0.1, np.inf]), {}, InputError, "got inf at index 1 .*negate an uncertainty"),
    "nan in a batch": (([[0, 1], [0, 1]], [[1, 2], [3, np.nan]]), {}, InputError, r"at index \(1, 1\)"),
    "nan loss": (
        ([0, np.nan, 0], [0.1, 0.2, 0.3]),
        {},
        InputError,
        "`loss` must be finite, got nan at index 1",
    ),
    "inf loss": (([0, np.inf], [0.1, 0.2]), {}, InputError, "`loss` must be finite, got inf"),
    "objects": (
        (np.array([0, None, 1], object), [1, 2, 3]),
        {},
        DtypeError,
        "`loss` must hold real numbers, got dtype object",
    ),
    "strings": (([0, 1], ["a", "b"]), {}, DtypeError, "`confidence` must hold real numbers"),
    "complex": (([0, 1], [1j, 2]), {}, DtypeError, "complex128"),
    "negative weight": (GOOD, {"sample_weight": [1, -1, 1]}, InputError, "must not be negative, got -1"),
    "no weight at all": (GOOD, {"sample_weight": [0, 0, 0]}, InputError, "some mass, got all zeros"),
    "nan weight": (GOOD, {"sample_weight": [1, np.nan, 0]}, InputError, "`sample_weight` must be finite"),
    "weight shape": (GOOD, {"sample_weight": [1, 1]}, ShapeError, r"got \(2,\) and \(3,\)"),
    "fractional for loo": (
        GOOD,
        {"sample_weight": [0.5, 1, 1], "estimator": "loo"},
        InputError,
        "needs weights that are repetitions",
    ),
    "fractional for expected": (
        GOOD,
        {"sample_weight": [0.5, 1, 1], "ties": "expected"},
        InputError,
        "Pass `repetitions=True`",
    ),
    "unknown estimator": (GOOD, {"estimator": "best"}, InputError, '`estimator` must be one of "harmonic"'),
    "unknown ties": (
        GOOD,
        {"ties": "random"},
        InputError,
        '`ties` must be one of "threshold", "expected", got \'random\'',
    ),
    "mask shape": (GOOD, {"abstained": [True]}, ShapeError, "`abstained` must have the shape of `loss`"),
    "mask dtype": (GOOD, {"abstained": [0.1, 0.2, 0.3]}, DtypeError, "`abstained` must be boolean"),
    "groups shape": (GOOD, {"groups": ["a"]}, ShapeError, "one label per sample"),
}


@pytest.mark.parametrize("case", CASES)
def test_clear_error(case):
    arguments, options, error, message = CASES[case]
    with pytest.raises(error, match=message) as caught:
        abstain.aurc(*arguments, **options)
    assert str(caught.value).startswith("aurc: ")
    assert isinstance(caught.value, (ValueError, abstain.errors.AbstainError))


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        (abstain.risk_at_coverage, {"coverage": 0}, r"`coverage` must lie in \(0, 1\], got 0"),
        (abstain.risk_at_coverage, {"coverage": 80}, "not in percent"),
        (abstain.risk_at_coverage, {"coverage": "all"}, "must be a number between 0 and 1"),
        (abstain.coverage_at_risk, {"risk": -0.1}, "at least 0, got -0.1"),
        (abstain.metrics.rejection_cost, {"cost": float("nan")}, "finite number"),
        (abstain.metrics.fpr_at_tpr, {"tpr": 1.5}, r"`tpr` must lie in \(0, 1\]"),
        (abstain.auroc, {}, "must be 0 .right. or 1 .wrong."),
    ],
)
def test_clear_error_of_options(metric, options, message):
    with pytest.raises(InputError, match=message):
        metric([0.0, 0.5, 1.0], [1, 2, 3], **options)


def test_device_arrays_are_checked_too():
    torch = pytest.importorskip("torch")
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(InputError, match="must be finite"):
        abstain.aurc(torch.tensor([0.0, 1.0]), torch.tensor([float("nan"), 1.0]))
    with pytest.raises(InputError, match="must be finite"):
        abstain.aurc(strict.asarray([0.0, 1.0]), strict.asarray([float("nan"), 1.0]))


@pytest.mark.parametrize("n", [0, -3, 2.5])
def test_rank_weights_need_a_whole_number(n):
    with pytest.raises(InputError, match="whole number, at least 1"):
        abstain.metrics.rank_weights(n)


def test_every_error_is_in_the_tree():
    for name in abstain.errors.__all__:
        kind = getattr(abstain.errors, name)
        assert issubclass(kind, (abstain.errors.AbstainError, abstain.errors.AbstainWarning))
    missing = abstain.errors.MissingDependencyError("plot()", "matplotlib", "plot")
    assert "pip install '.[plot]'" in str(missing)


def _with_mask(x):
    return np.ma.masked_array(x, np.arange(np.size(x)) == 1)


LOSS, CONFIDENCE = np.array([0.0, 1, 0, 1, 0, 0]), np.arange(6.0)


@pytest.mark.parametrize("name", METRICS)
def test_masked_arrays_are_refused_by_every_metric(name):
    call = METRICS[name]
    masked_confidence = [] if name == "oracle_aurc" else [(LOSS, _with_mask(CONFIDENCE), {})]  # it takes none
    for loss, confidence, options in (
        (_with_mask(LOSS), CONFIDENCE, {}),
        *masked_confidence,
        (LOSS, CONFIDENCE, {"sample_weight": _with_mask(np.ones(6))}),
        (LOSS, CONFIDENCE, {"abstained": _with_mask(np.zeros(6, dtype=bool))}),
    ):
        with pytest.raises(DtypeError, match=r"must not be masked.*abstained="):
            call(loss, confidence, **options)


@pytest.mark.parametrize(
    "call",
    [
        lambda: abstain.select_threshold(_with_mask(LOSS), CONFIDENCE, risk=0.5),
        lambda: abstain.select_threshold(LOSS, _with_mask(CONFIDENCE), risk=0.5, groups=list("aabbcc")),
        lambda: abstain.thresholds.cost_curve(LOSS, CONFIDENCE, cost=_with_mask(np.ones(6))),
        lambda: abstain.inference.interval("aurc", LOSS, _with_mask(CONFIDENCE)),
        lambda: abstain.scores.max_softmax(_with_mask(np.zeros(12)).reshape(6, 2)),
        lambda: abstain.evaluate(_with_mask(np.zeros(12)).reshape(6, 2), np.zeros(6, dtype=int)),
        lambda: abstain.engines.Sketch().update(LOSS, _with_mask(CONFIDENCE)),
    ],
)
def test_masked_arrays_are_refused_wherever_arrays_come_in(call):
    with pytest.raises(DtypeError, match="must not be masked"):
        call()


def test_whole_confidences_that_floats_cannot_tell_apart_are_refused():
    near = 2**53
    assert abstain.aurc([1, 0], [near, near - 1]) == 0.75
    for big in ([near, near + 1], [-near, -near - 1], np.array([2**64 - 1, 2**64 - 2], dtype=np.uint64)):
        with pytest.raises(InputError, match=r"aurc: `confidence` must not exceed 2\^53 in whole numbers"):
            abstain.aurc([1, 0], big)


def test_a_data_frame_of_one_column_is_not_read_as_batches():
    pd = pytest.importorskip("pandas")
    loss, confidence = pd.DataFrame({"loss": [0, 1, 0]}), pd.DataFrame({"confidence": [0.1, 0.2, 0.3]})
    for call in (abstain.aurc, abstain.risk_coverage_curve, abstain.engines.Sketch().update):
        with pytest.raises(ShapeError, match="must be vectors, got a data frame"):
            call(loss, confidence)
    assert abstain.aurc(loss["loss"], confidence["confidence"]) == abstain.aurc([0, 1, 0], [0.1, 0.2, 0.3])


@pytest.mark.parametrize("cdf", [[np.nan, 0.5], lambda g: g * np.nan, [0.5, 1.0], [-0.1, 0.5]])
def test_a_cdf_outside_its_range_is_refused(cdf):
    with pytest.raises(InputError, match="aurc_given_cdf: `cdf` must lie in"):
        abstain.metrics.aurc_given_cdf([1, 0], [0.2, 0.3], cdf=cdf)


@pytest.mark.parametrize("loss", [[0, 1, 0], [False, True, False], [0.0, 1.0, 0.0]])
def test_a_risk_in_percent_is_refused_for_right_and_wrong(loss):
    sure = [0.9, 0.5, 0.7]
    for call in (abstain.coverage_at_risk, functools.partial(abstain.inference.interval, "coverage_at_risk")):
        with pytest.raises(InputError, match=r"`risk` must lie in \[0, 1\], .* got 5. Write 0.05 for 5%."):
            call(loss, sure, risk=5)
    assert abstain.coverage_at_risk([0.0, 7.0, 0.0], sure, risk=5) == 1.0


def test_a_threshold_that_is_no_number_is_refused():
    with pytest.raises(InputError, match="rejection_cost: `threshold` must be a number"):
        abstain.metrics.rejection_cost([0, 1], [0.9, 0.1], cost=0.3, threshold=float("nan"))
