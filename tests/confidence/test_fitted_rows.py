from __future__ import annotations

import numpy as np

from abstain.confidence.fitted_rows import FittedRows
from abstain.thresholds.cut import NO_CONFIDENCE


def test_rows_of_the_fit_are_recognised_also_in_float32_and_among_others():
    rng = np.random.default_rng(0)
    fitted = rng.normal(size=3000)
    known = FittedRows.of(fitted)
    assert known.share_known(fitted) == 1
    assert known.share_known(fitted.astype(np.float32)) > 0.8
    assert known.share_known(rng.normal(size=3000)) == 0
    mixed = np.concatenate([rng.normal(size=900), fitted[:100]])
    assert 0.08 < known.share_known(mixed) < 0.12


def test_few_values_and_missing_ones_prove_nothing():
    rng = np.random.default_rng(1)
    stated = rng.integers(0, 20, 1000) / 20
    known = FittedRows.of(np.append(stated, NO_CONFIDENCE))
    assert known.share_known(rng.integers(0, 20, 500) / 20) == 0
    coarse = FittedRows.of(rng.normal(size=1000).round(2))  # many values, many of them shared
    assert coarse.share_known(rng.normal(size=1000).round(2)) == 0


def test_of_many_rows_a_sample_is_remembered():
    rng = np.random.default_rng(2)
    fitted = rng.normal(size=60_000)
    known = FittedRows.of(fitted)
    assert len(known.confidences) <= 20_000
    assert known.share_known(fitted) == 1
    assert known.share_known(fitted[:5000]) > 0.95
    assert known.share_known(rng.normal(size=5000)) == 0
