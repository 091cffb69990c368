"""The calibration error of Humanity's Last Exam against its published rule, written down once more."""

from __future__ import annotations

import numpy as np
import pytest

from abstain.compat import hle_calibration_error
from abstain.errors import InputError


def published_rule(confidence, correct, size=100, stops_short=True):
    """Bins of `size` along the sorted confidences, the last one longer; the loop stops one bin short."""
    order = np.argsort(confidence)
    starts = list(range(0, len(order) - len(order) % size, size))
    ends = [*starts[1:], len(order)]
    total = 0.0
    places = list(zip(starts, ends))
    for start, end in places[:-1] if stops_short else places:
        rows = order[start:end]
        gap = np.average(confidence[rows]) - np.average(correct[rows])
        total += len(rows) / len(order) * gap**2
    return total**0.5


@pytest.mark.parametrize("n", [100, 199, 200, 250, 1234])
def test_it_is_the_published_rule(n):
    rng = np.random.default_rng(n)
    stated = rng.choice([0.5, 0.8, 0.9, 1.0], n)
    right = rng.random(n) < 0.6
    assert hle_calibration_error(right, stated) == pytest.approx(published_rule(stated, right), abs=1e-12)
    if n < 200:
        assert hle_calibration_error(right, stated) == 0


def test_every_model_of_the_real_logs(data_dir):
    parquet = pytest.importorskip("pyarrow.parquet")
    compute = pytest.importorskip("pyarrow.compute")
    missed = []
    for path in sorted((data_dir / "llm" / "mmlu_pro").glob("*.parquet")):
        names = ["correct_answer", "extracted_answer", "verbal_numerical_confidence"]
        truth, answer, stated_column = parquet.read_table(path, columns=names).columns
        right = compute.fill_null(compute.equal(truth, answer), False).to_numpy()
        stated = stated_column.to_numpy()
        kept = (stated >= 0) & (stated <= 1) & compute.is_valid(answer).to_numpy()
        if kept.sum() < 100:
            continue
        found = hle_calibration_error(right[kept], stated[kept])
        assert found == pytest.approx(published_rule(stated[kept], right[kept]), abs=1e-12), path.stem
        missed.append(1 - found / published_rule(stated[kept], right[kept], stops_short=False))
    assert len(missed) == 67  # one model has no answers
    assert 0.002 < np.median(missed) < 0.03  # what the bin that is never counted would add
    print(f"the last bin would add {np.median(missed):.1%} (median), at most {max(missed):.1%}")


def test_too_few_answers_are_refused():
    with pytest.raises(InputError, match="at least 100 answers, got 99"):
        hle_calibration_error([1] * 99, [0.5] * 99)
