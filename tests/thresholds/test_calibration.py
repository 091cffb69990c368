"""Calibration data: bounds, weights and the table of candidates."""

import numpy as np
import pytest

import abstain
from abstain.errors import InputError, ShapeError
from tests.thresholds.test_select import sample


def test_array_libraries_lists_and_scaled_losses_agree():
    torch = pytest.importorskip("torch")
    wrong, g = sample(1000, 5, lambda b: 0.1 * (1 - b))
    t = abstain.select_threshold(wrong, g, risk=0.1)
    for loss, conf in (
        (wrong.tolist(), g.tolist()),
        (wrong.astype(int), g),
        (wrong.astype(np.float32), g),
        (torch.from_numpy(wrong), torch.from_numpy(g)),
    ):
        assert abstain.select_threshold(loss, conf, risk=0.1).value == t.value
    scaled = abstain.select_threshold(wrong * 8.0 - 3, g, risk=0.1 * 8 - 3, bounded=(-3, 5))
    assert scaled.value == t.value
    assert scaled.risk == pytest.approx(8 * t.risk - 3)


def test_losses_beyond_the_bound_are_refused():
    with pytest.raises(InputError, match="bounded"):
        abstain.select_threshold([0.0, 2.5], [0.3, 0.5], risk=0.1)
    with pytest.raises(InputError, match="finite"):
        abstain.select_threshold([0, 1], [0.3, np.nan], risk=0.1)
    with pytest.raises(ShapeError):
        abstain.select_threshold(np.zeros((2, 3)), np.zeros((2, 3)), risk=0.1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["ltt", "sgr"])
@pytest.mark.parametrize("loss", [[0, 1, 1], [0.2, 0.7, 0.4]])
def test_nothing_proves_that_there_is_no_loss(loss, method):
    assert not abstain.select_threshold(loss, [0.5] * 3, risk=0, method=method).feasible
