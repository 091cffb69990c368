"""Every result has a view for notebooks, whatever strings it holds."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re

import numpy as np
import pytest

import abstain

LOSS, SURE = [0, 0, 1, 0, 1, 0, 0, 1], [8, 7, 3, 6, 2, 5, 4, 1]
EVIL = "<script>x</script>"


def results() -> dict[str, object]:
    inference, theory = abstain.inference, abstain.theory
    groups = [EVIL] * 4 + ["b"] * 4
    rule = abstain.select_threshold(LOSS * 20, SURE * 20, risk=0.5)
    return {
        "interval": inference.interval("aurc", LOSS, SURE),
        "groups": inference.interval("risk", LOSS, SURE, groups=groups),
        "difference": inference.paired_difference(LOSS, SURE, LOSS, SURE[::-1]),
        "band": inference.curve_band(LOSS * 5, SURE * 5, replicates=100, rng=0, progress=False),
        "curve": abstain.risk_coverage_curve(LOSS, SURE),
        "evaluation": abstain.evaluate(loss={EVIL: LOSS}, confidence=SURE),
        "comparison": abstain.compare({EVIL: (LOSS, SURE), "b": (LOSS, SURE[::-1])}),
        "threshold": rule,
        "check": rule.check(LOSS, SURE),
        "by group": abstain.select_threshold(LOSS * 20, SURE * 20, risk=0.5, groups=groups * 20),
        "cost": abstain.thresholds.cost_curve(LOSS, SURE),
        "three ways": abstain.evaluation.three_way([1, 0, 1, 1]),
        "targets": abstain.evaluation.score_by_target([1, 0, 1, 1]),
        "calibration": abstain.calibration.calibration_error([1, 0, 1, 1], [0.9, 0.4, 0.8, 0.7]),
        "brier": abstain.calibration.brier_score([1, 0, 1, 1], [0.9, 0.4, 0.8, 0.7]),
        "reliability": abstain.calibration.reliability_curve([1, 0, 1, 1], [0.9, 0.4, 0.8, 0.7]),
        "plan": theory.plan_sample_size(width=0.01, curve="quadratic"),
        "bias": theory.expected_bias(100, "quadratic"),
        "population": theory.Population(((0.6, 2),)),
    }


@pytest.fixture(scope="module")
def made():
    return results()


@pytest.mark.parametrize("name", list(results()))
def test_a_notebook_shows_it(made, name):
    view = made[name]._repr_html_()
    assert view.startswith("<")
    assert "<script>" not in view
    assert len(view) > 60


def test_the_rows_of_the_frame_are_there(made):
    view = made["curve"]._repr_html_()
    assert view.count("<tr>") == 1 + len(abstain.risk_coverage_curve(LOSS, SURE).coverage)


def test_long_frames_are_cut():
    rng = np.random.default_rng(0)
    view = abstain.risk_coverage_curve(rng.random(500) < 0.2, rng.random(500))._repr_html_()
    assert view.count("<tr>") == 21
    assert "480 more rows" in view


def test_a_curve_is_shown_from_its_start_to_its_end():
    """Not its first rows, where next to nobody is accepted and every number is zero."""
    loss = [0] * 800 + [1] * 200
    curve = abstain.risk_coverage_curve(loss, -np.arange(1000))
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", curve._repr_html_())
    coverage = [float(x) for x in cells[::5]]
    assert coverage == sorted(coverage)
    assert (coverage[0], coverage[-1]) == (0.001, 1.0)
    assert max(np.diff(coverage)) < 0.06
    assert float(cells[-4]) == 0.2  # the risk when all is accepted


@pytest.mark.parametrize("lowest", [0.0, -1.0])
def test_curves_and_bands_draw_themselves(lowest):
    rng = np.random.default_rng(0)
    loss = np.where(rng.random(300) < 0.2, 1.0, lowest)
    curve = abstain.risk_coverage_curve(loss, rng.random(300))
    ax = curve.plot(name="mine")
    line = ax.lines[0]
    assert line.get_xdata()[-1] == 1
    assert line.get_ydata()[-1] == pytest.approx(loss.mean())
    assert len(line.get_xdata()) <= 201
    below, above = ax.get_ylim()
    assert below < min(0, min(line.get_ydata())) < max(line.get_ydata()) < above  # nothing lies on the frame
    assert curve.plot(ax=ax, name="again") is ax
    assert ax.lines[0].get_linestyle() != ax.lines[1].get_linestyle()
    if lowest == 0:
        band = abstain.inference.curve_band(loss, rng.random(300), replicates=100, rng=0, progress=False)
        assert len(band.plot().collections) == 1


def test_figures_speak_as_people_do_and_differ_by_dashes():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 100)
    table = abstain.evaluate(rng.normal(size=(100, 3)), labels, losses="zero_one")
    ax = table.plot()
    assert ax.get_ylabel() == "selective risk (0/1 loss)"
    styles = [line.get_linestyle() for line in ax.lines]
    assert len(set(styles[:4])) == min(4, len(styles))
    assert "zero_one" not in table.plot(kind="intervals").get_xlabel()


def test_no_result_was_forgotten():
    """Public dataclasses that functions of the package answer with."""
    views = set()
    for module in ("inference", "evaluation", "calibration", "thresholds", "theory", "metrics", "cascades"):
        package = importlib.import_module(f"abstain.{module}")
        for name in package.__all__:
            found = getattr(package, name)
            if dataclasses.is_dataclass(found) and not hasattr(found, "_repr_html_"):
                views.add(f"{module}.{name}")
    parts = {
        "evaluation.Contestant",
        "evaluation.Entry",
        "evaluation.Pair",
        "evaluation.TopTies",
        "metrics.AnswerMetric",
        "metrics.Metric",
        "metrics.Option",
        "thresholds.Candidates",
        "thresholds.Cut",
        "thresholds.Origin",
        "evaluation.ComparisonLook",
    }  # parts of results, and definitions
    assert views - parts == set()
    assert len(list(pkgutil.iter_modules(abstain.__path__))) > 10
