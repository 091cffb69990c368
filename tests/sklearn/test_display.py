"""Displays of predictions take labels and probabilities."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.errors import InputError


def test_the_display_of_predictions_takes_labels_and_probabilities():
    labels, p = [1, 1, 0, 1], [0.9, 0.8, 0.1, 0.3]
    for display in (abstain.RiskCoverageDisplay, pytest.importorskip("abstain.sklearn").RiskCoverageDisplay):
        both = display.from_predictions(labels, np.column_stack([1 - np.array(p), p]))
        for shown in (both, display.from_predictions(labels, p)):
            assert shown.lines[0].risk[-1] == 0.25  # one of four is wrong; read as losses it would be 0.75
            assert shown.lines[0].risk[0] == 0
        with pytest.raises(InputError, match="from_losses"):
            display.from_predictions([0.2, 0.7, 0.1, 0.4], p)
        with pytest.raises(InputError, match="from_losses"):
            display.from_predictions(labels, [3.0, 2.0, 1.0, 5.0])
