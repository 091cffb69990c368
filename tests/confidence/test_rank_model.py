from __future__ import annotations

import numpy as np

from abstain.confidence.rank_model import RankModel
from abstain.confidence.signal_ranks import RankReference


def test_it_adds_weighted_ranks_squares_and_flags():
    rows = {"a": np.array([1.0, 2.0, np.nan, 4.0]), "b": np.array([9.0, 9.0, 1.0, 2.0])}
    references = {name: RankReference.of(column) for name, column in rows.items()}
    model = RankModel(
        references=references,
        linear=np.array([2.0, -1.0]),
        square=np.array([0.5, 3.0]),
        missing=np.array([7.0, 0.0]),
    )
    ranks = {name: references[name].rank(column) for name, column in rows.items()}
    expected = 2 * ranks["a"] + 0.5 * ranks["a"] ** 2 - ranks["b"] + 3 * ranks["b"] ** 2 + [0, 0, 7, 0]
    np.testing.assert_allclose(model.apply(rows), expected)
    assert model.fits(("a", "b", "c"))
    assert not model.fits(("a",))
