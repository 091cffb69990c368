"""Calibration metrics of a table are the functions of the package."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.calibration import brier_score, calibration_error
from abstain.calibration.table_metrics import CALIBRATION_METRICS
from abstain.errors import InputError


def test_they_are_the_functions_of_the_package():
    rng = np.random.default_rng(0)
    confidence = rng.random(200)
    right = (rng.random(200) < confidence).astype(float)
    cluster = np.repeat(np.arange(100), 2)
    brier = CALIBRATION_METRICS["brier_score"].measure(right, confidence, 0.9, cluster)
    assert brier == brier_score(right, confidence, level=0.9, clusters=cluster).score
    error = CALIBRATION_METRICS["calibration_error"].measure(right, confidence, 0.9, None)
    assert error == calibration_error(right, confidence, level=0.9).root
    assert error.estimate == pytest.approx(np.sqrt(max(0, error.estimate**2)))
    assert {name: metric.key for name, metric in CALIBRATION_METRICS.items()} == {
        name: name for name in CALIBRATION_METRICS
    }


@pytest.mark.parametrize("metric", ["brier_score", "calibration_error"])
def test_samples_without_a_confidence_of_their_own_are_left_out(metric):
    """A number that only ranks a sample below all others is no probability that the model stated."""
    rng = np.random.default_rng(1)
    confidence = rng.uniform(0.3, 1, 400)
    loss = (rng.random(400) > confidence).astype(float)
    groups = np.repeat(["a", "b"], 200)
    abstained = np.arange(400) % 9 == 0
    has_own = rng.random(400) > 0.2
    stand_in = np.where(has_own, confidence, np.nextafter(0.3, 0))
    table = abstain.evaluate(
        loss=loss,
        confidence={"stated": stand_in, "other": confidence},
        has_confidence={"stated": has_own},
        metrics=["aurc", metric],
        groups=groups,
        abstained=abstained,
    )
    measure = CALIBRATION_METRICS[metric].measure
    for group in (None, "a", "b"):
        rows = ~abstained & ((groups == group) | (group is None))
        stated = table.select(score="stated", metric=metric, group=group)[0]
        expected = measure(1 - loss[rows & has_own], confidence[rows & has_own], 0.95, None)
        assert stated.estimate == pytest.approx(expected.estimate, abs=1e-15)
        assert (stated.low, stated.high) == pytest.approx((expected.low, expected.high))
        assert stated.n == (rows & has_own).sum()
        other = table.select(score="other", metric=metric, group=group)[0]
        assert other.estimate == pytest.approx(
            measure(1 - loss[rows], confidence[rows], 0.95, None).estimate, abs=1e-15
        )
    ranking = abstain.metrics.aurc(loss, stand_in, abstained=abstained)
    assert table["stated", "loss", "aurc"].estimate == pytest.approx(ranking)
    count = (~abstained & has_own).sum()
    assert f"Calibration of stated is measured on the {count} of 400 samples that have it." in table.notes


def test_has_confidence_is_checked():
    columns = {"loss": [0, 1, 1, 0], "metrics": ["brier_score"]}
    with pytest.raises(InputError, match="names 'other', which is no confidence; there are: confidence"):
        abstain.evaluate(**columns, confidence=[0.5, 0.2, 0.3, 0.9], has_confidence={"other": [True] * 4})
    with pytest.raises(InputError, match="must have 4 values"):
        abstain.evaluate(**columns, confidence=[0.5, 0.2, 0.3, 0.9], has_confidence=[True] * 3)
    with pytest.raises(InputError, match="says which samples have a `confidence`, got none"):
        abstain.evaluate(**columns, has_confidence=[True] * 4)
    with pytest.raises(InputError, match="engines do not take `has_confidence` yet"):
        abstain.evaluate("table.parquet", engine="files", has_confidence=[True] * 4)
    table = abstain.evaluate(**columns, confidence=[0.5, 0.2, 0.3, 0.9], has_confidence=[False] * 4)
    assert table.entries[0].reason == "no answer has a confidence of its own"
