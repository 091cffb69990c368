"""One expected answer for every engine, by sums over the definition."""

from __future__ import annotations

import numpy as np
import pytest

from abstain.engines import Sketch, files

from .conftest import told
from .definitions import by_definition, oracle


@pytest.fixture
def tiny_ranges(monkeypatch):
    """Budgets so small that even little data is cut into ranges, spilled and refined."""
    from abstain.engines import files

    monkeypatch.setattr(files, "samples_that_fit", lambda *a: 1500)
    import abstain.engines.files as filerun

    monkeypatch.setattr(filerun, "_fits_in_memory", lambda *a: False)


OPTIONS = {"coverages": (0.5,), "risks": (0.2,), "points": 20}


@pytest.mark.parametrize("engine", ["files", "spilled"])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_machine_agrees_with_the_definition(engine, weighted, shape, stored, request):
    _name, l, g, w = shape
    if engine == "spilled":
        request.getfixturevalue("tiny_ranges")
    found = told(files, stored, sample_weight="w" if weighted else None, repetitions=weighted, **OPTIONS)
    assert (found.ranges > 5) == (engine == "spilled")
    check(found, l, g, w if weighted else np.ones_like(w))


@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_a_cluster_agrees_with_the_definition(engine, shape, stored, request):
    """Ten partitions, one empty; real losses (a second pass by loss) and the heavy ties with weights."""
    name, l, g, w = shape
    weighted = name in ("heavily_tied", "real_losses")
    if engine == "dask":
        from abstain.engines import dask as module

        where = {"client": request.getfixturevalue("dask_client")}
    else:
        from abstain.engines import spark as module

        where = {"session": request.getfixturevalue("spark_session")}
    found = told(
        module, stored, sample_weight="w" if weighted else None, repetitions=weighted, **where, **OPTIONS
    )
    assert found.ranges > 1
    check(found, l, g, w if weighted else np.ones_like(w))


def check(found, l, g, w):
    truth = by_definition(l, g, w)
    assert found["aurc"].estimate == pytest.approx(truth["aurc"], rel=1e-12)
    assert found["aurc"].standard_error == pytest.approx(truth["error"], rel=1e-9)
    assert found["augrc"].estimate == pytest.approx(truth["augrc"], rel=1e-12)
    assert found["risk"].estimate == pytest.approx(truth["risk"], rel=1e-12)
    best = oracle(l, w)
    assert found["oracle_aurc"].estimate == pytest.approx(best, rel=1e-11)
    assert found["e_aurc"].estimate == pytest.approx(truth["aurc"] - best, rel=1e-9)
    assert found["naurc"].estimate == pytest.approx((truth["aurc"] - best) / (truth["risk"] - best), rel=1e-9)
    coverage, curve = truth["coverage"], truth["curve"]
    at = np.flatnonzero(coverage >= 0.5)[-1]
    assert found.risk_at_coverage[0.5] == pytest.approx(curve[at], rel=1e-12)
    assert found.coverage_at_risk[0.2] == pytest.approx(
        np.max(coverage, where=curve <= 0.2, initial=0), rel=1e-12
    )
    assert found.n == len(l)
    assert found.mass == pytest.approx(w.sum())
    exact = dict(zip(coverage.round(12), curve))
    assert len(found.curve.coverage) >= 15
    for c, r in zip(found.curve.coverage, found.curve.risk):
        assert exact[round(c, 12)] == pytest.approx(r, rel=1e-12)


def test_the_sketch_bounds_contain_the_truth(shape):
    name, l, g, w = shape
    for weight in (None, w, w / 3.7):
        truth = by_definition(l, g, np.ones_like(w) if weight is None else weight)
        sketch = Sketch(size=40_000)
        for part in np.array_split(np.arange(len(l)), 7):
            sketch.update(l[part], g[part], sample_weight=None if weight is None else weight[part])
        for found, value in ((sketch.aurc(), truth["aurc"]), (sketch.augrc(), truth["augrc"])):
            assert found.low * (1 - 1e-12) <= value <= found.high * (1 + 1e-12)
            assert found.low <= found.estimate <= found.high
            assert found.gap < 0.1 * value
        at = np.flatnonzero(truth["coverage"] >= 0.5 - 1e-12)[-1]
        found = sketch.risk_at_coverage(0.5)
        assert found.low * (1 - 1e-12) <= truth["curve"][at] <= found.high * (1 + 1e-12)
        assert sketch.risk().estimate == pytest.approx(truth["risk"], rel=1e-12)
        assert sketch.standard_error() == pytest.approx(truth["error"], rel=0.02)
        assert len(sketch.to_bytes()) <= 40_000
        if name == "heavily_tied":
            assert sketch.exact
            assert sketch.aurc().estimate == pytest.approx(truth["aurc"], rel=1e-12)
