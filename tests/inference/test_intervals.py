"""Intervals: by hand, at the edges, by group, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import abstain
from abstain.core.rows import Blocks
from abstain.errors import InfeasibleError, InputError, ShapeError
from abstain.inference import (
    curve_band,
    influence,
    interval,
    interval_from_blocks,
    paired_difference,
    standard_error,
    unpaired_difference,
)
from abstain.metrics import METRICS


def sample(n=500, seed=0, levels=None):
    rng = np.random.default_rng(seed)
    b = rng.random(n)
    return rng.random(n) < 0.6 * (1 - b) ** 2, b if levels is None else np.floor(b * levels) / levels


# without spread ----------------------------------------------------------------------------------------


def test_equal_losses_other_than_zero_one_have_no_width():
    found = interval("aurc", np.full(10, 0.5), np.arange(10.0))
    assert found.low == pytest.approx(0.5)
    assert found.high == pytest.approx(0.5)


# block tables, groups, arrays ---------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["aurc", "augrc", "risk", "naurc", "e_aurc", "auroc"])
@pytest.mark.parametrize("levels", [None, 12])
def test_block_tables_give_the_same_interval(metric, levels):
    l, g = sample(400, 5, levels)
    table = Blocks.from_samples(l[:100], g[:100]).merge(Blocks.from_samples(l[100:], g[100:]))
    ours, theirs = interval_from_blocks(metric, table), interval(metric, l, g)
    for field in ("estimate", "standard_error", "low", "high"):
        assert getattr(ours, field) == pytest.approx(getattr(theirs, field), rel=1e-9)
    assert (ours.n, ours.method, ours.centre) == (theirs.n, theirs.method, theirs.centre)


def test_block_tables_refuse_what_they_cannot_know():
    table = Blocks.from_samples(np.asarray([0.2, 0.4, 0.9]), np.arange(3.0))
    with pytest.raises(InputError, match="samples themselves"):
        interval_from_blocks("naurc", table)
    with pytest.raises(InputError, match="samples themselves"):
        interval_from_blocks("aurc", table, method="bca")


def test_groups():
    l, g = sample(600, 6)
    groups = np.where(np.arange(600) < 200, "a", "b")
    found = interval("aurc", l, g, groups=groups)
    assert found["a"] == interval("aurc", l[:200], g[:200])
    assert found["b"] == interval("aurc", l[200:], g[200:])
    assert found.macro.estimate == pytest.approx((found["a"].estimate + found["b"].estimate) / 2)
    both = math.hypot(found["a"].standard_error, found["b"].standard_error) / 2
    assert found.macro.standard_error == pytest.approx(both)
    assert "macro" in repr(found)
    with pytest.raises(ShapeError, match="one label"):
        interval("aurc", l, g, groups=groups[:-1])


def test_other_arrays_and_functions_as_metrics():
    torch = pytest.importorskip("torch")
    l, g = sample(100, 7)
    expected = interval("aurc", l, g)
    assert interval(abstain.aurc, torch.as_tensor(l), torch.as_tensor(g)) == expected
    assert interval("aurc", l.tolist(), g.tolist()) == expected
    assert standard_error("aurc", l, g) == expected.standard_error
    tracked = torch.as_tensor(l * 1.0).requires_grad_()
    assert interval("aurc", tracked, torch.as_tensor(g)) == expected


def test_array_api_inputs():
    strict = pytest.importorskip("array_api_strict")
    l, g = sample(50, 12)
    assert interval("aurc", strict.asarray(l), strict.asarray(g)) == interval("aurc", l, g)


def test_a_perfect_ranking_of_other_losses_says_normal():
    l = np.arange(1.0, 21.0)
    found = interval("e_aurc", l, -l)
    assert found.estimate == pytest.approx(0, abs=1e-12)
    assert found.method == "normal"


def test_strata_take_off_what_lies_between_them():
    l, g = sample(400, 8)
    strata = (g > 0.5).astype(int)
    values = influence("aurc", l, g).values
    within = sum((strata == s).sum() * np.var(values[strata == s], ddof=1) for s in (0, 1))
    found = interval("aurc", l, g, strata=strata)
    assert found.standard_error == pytest.approx(math.sqrt(within) / 400, rel=1e-10)
    assert found.standard_error < interval("aurc", l, g).standard_error
    resampled = interval("aurc", l, g, strata=strata, method="bootstrap", rng=0)
    assert resampled.standard_error == pytest.approx(found.standard_error, rel=0.1)


def test_strata_of_few_samples_have_the_standard_error_that_repeated_draws_have():
    rng = np.random.default_rng(5)
    strata = np.repeat(np.arange(40), 3)
    error_rate = np.repeat(rng.uniform(0.2, 0.8, 40), 3)
    confidence = rng.random(120)
    draws = [(rng.random(120) < error_rate).astype(float) for _ in range(2000)]
    variances = [interval("risk", l, confidence, strata=strata).standard_error ** 2 for l in draws[:300]]
    assert np.mean(variances) == pytest.approx(np.var([l.mean() for l in draws]), rel=0.08)


def test_a_stratum_of_one_sample_keeps_its_whole_effect():
    l, g = sample(60, 3)
    strata = np.r_[0, np.ones(59, dtype=int)]
    effects = influence("risk", l, g).values / 60
    rest = effects[1:]
    variance = effects[0] ** 2 + 59 * np.var(rest, ddof=1)
    assert interval("risk", l, g, strata=strata).standard_error == pytest.approx(
        math.sqrt(variance), rel=1e-10
    )


@pytest.mark.parametrize("clusters_in_stratum", [1, 2, 10])
def test_the_mean_over_groups_takes_clusters_within_strata(clusters_in_stratum):
    l, g = sample(240, 5)
    clusters = np.arange(240) // 4
    design = {"clusters": clusters, "strata": clusters // clusters_in_stratum}
    one_group = interval("risk", l, g, groups=np.zeros(240), **design).macro
    assert one_group.standard_error == pytest.approx(
        interval("risk", l, g, **design).standard_error, rel=1e-10
    )
    groups = np.random.default_rng(0).integers(0, 3, 240)
    sizes = np.bincount(groups)
    means = np.bincount(groups, l) / sizes
    totals = np.bincount(
        clusters, (l - means[groups]) / sizes[groups] / 3
    )  # what each cluster does to the mean
    variance = np.sum(totals**2)
    if clusters_in_stratum > 1:
        strata_totals = totals.reshape(-1, clusters_in_stratum)
        variance = clusters_in_stratum * np.sum(np.var(strata_totals, axis=1, ddof=1))
    found = interval("risk", l, g, groups=groups, **design).macro
    assert found.standard_error == pytest.approx(math.sqrt(variance), rel=1e-10)


@pytest.mark.parametrize("options", [{}, {"method": "bootstrap"}])
def test_clusters_that_lie_in_two_strata_are_refused(options):
    l, g = sample(20, 13)
    with pytest.raises(abstain.errors.InputError, match="one stratum"):
        interval("aurc", l, g, clusters=np.arange(20) // 4, strata=np.arange(20) // 5, **options)


def test_points_have_closed_forms_and_the_bootstrap_on_request():
    l, g = sample(500, 9)
    for metric, options in (("risk_at_coverage", {"coverage": 0.7}), ("coverage_at_risk", {"risk": 0.1})):
        value = abstain.metrics.by_name(metric)(l, g, **options)
        found = interval(metric, l, g, **options)
        drawn = interval(metric, l, g, method="bootstrap", replicates=500, **options)
        assert (found.method, found.estimate) == ("pointwise", pytest.approx(value, rel=1e-12))
        assert (drawn.method, drawn.estimate) == ("bootstrap", value)
        assert found.low < value < found.high
        assert found.high - found.low == pytest.approx(drawn.high - drawn.low, rel=0.4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda l, g: interval("aurcc", l, g), InputError, "metric"),
        (lambda l, g: interval("aurc", l, g, method="exact"), InputError, "method"),
        (lambda l, g: interval("aurc", l, g, level=95), InputError, "percent"),
        (lambda l, g: interval("aurc", l, g, tpr=0.5), InputError, "no option of aurc"),
        (lambda l, g: interval("risk_at_coverage", l, g), InputError, "needs `coverage=`"),
        (lambda l, g: interval("aurc", l[:1], g[:1]), InputError, "at least two"),
        (lambda l, g: interval("aurc", l, g[:-1]), ShapeError, "one length"),
        (lambda l, g: interval("aurc", np.stack([l, l]), np.stack([g, g])), ShapeError, "one vector"),
        (lambda l, g: interval("auroc", np.zeros(20), g[:20]), InfeasibleError, "only one kind"),
        (lambda l, g: interval("auroc", l * 0.5, g), InputError, "0 .right. or 1"),
        (lambda l, g: interval("aurc", l, g, clusters=[1, 2]), ShapeError, "clusters"),
        (lambda l, g: interval("aurc", l, g, clusters=np.zeros(len(l))), InputError, "at least two"),
        (lambda l, g: interval("naurc", l * 0.5, g, oracle="asymptotic"), InputError, "0/1"),
        (
            lambda l, g: interval("aurc", l, g, estimator="loo", sample_weight=l + 0.5),
            InputError,
            "needs weights that are repetitions",
        ),
        (lambda l, g: interval("aurc", l, g, method="logit"), InputError, "bounded"),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call(*sample(30, 11))


def _numbers(found):
    return found.estimate, found.low, found.high, found.standard_error


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("metric", ["aurc", "augrc", "risk", "e_aurc", "naurc", "prediction_rejection_ratio"])
def test_a_sample_without_weight_is_no_draw(metric, graded):
    rng = np.random.default_rng(3)
    loss = rng.choice([0, 0.5, 1, 2], 20) if graded else (rng.random(20) < 0.4).astype(float)
    confidence, weight = rng.random(20), rng.integers(0, 3, 20)
    some = weight > 0
    found = interval(metric, loss, confidence, sample_weight=weight)
    alone = interval(metric, loss[some], confidence[some], sample_weight=weight[some])
    assert _numbers(found) == pytest.approx(_numbers(alone), rel=1e-9)
    assert found.n == alone.n == some.sum()
    table = abstain.evaluate(loss=loss, confidence=confidence, sample_weight=weight, metrics=metric)
    assert _numbers(table["confidence", "loss", metric]) == pytest.approx(_numbers(alone), rel=1e-9)


@pytest.mark.parametrize("metric", ["oracle_aurc", "e_aurc", "naurc"])
def test_the_error_of_an_oracle_does_not_depend_on_the_order_of_samples_that_are_alike(metric):
    rng = np.random.default_rng(4)
    loss, confidence, weight = rng.choice([0, 0.5, 1], 20), rng.random(20), rng.choice([0.3, 0.7], 20)
    found = interval(metric, loss, confidence, sample_weight=weight)
    for _ in range(5):
        p = rng.permutation(20)
        other = interval(metric, loss[p], confidence[p], sample_weight=weight[p])
        assert _numbers(other) == pytest.approx(_numbers(found), rel=1e-9)


@pytest.mark.parametrize(
    ("metric", "point"),
    [
        ("risk_at_coverage", {"coverage": 0.5}),
        ("coverage_at_risk", {"risk": 0.3}),
        ("fpr_at_tpr", {"tpr": 0.5}),
    ],
)
def test_points_of_clusters_do_not_depend_on_the_order_of_equals(metric, point):
    rng = np.random.default_rng(5)
    loss, confidence = (rng.random(60) < 0.4).astype(float), rng.integers(0, 4, 60)
    clusters, weight = rng.integers(0, 20, 60), rng.random(60) + 0.1
    found = interval(metric, loss, confidence, clusters=clusters, sample_weight=weight, **point)
    for _ in range(5):
        p = rng.permutation(60)
        other = interval(
            metric, loss[p], confidence[p], clusters=clusters[p], sample_weight=weight[p], **point
        )
        assert _numbers(other) == pytest.approx(_numbers(found), rel=1e-9)


def test_fpr_at_tpr_does_not_depend_on_the_scale_of_the_weights():
    """Where a window holds errors alone, the right ones in it are a difference of sums that round."""
    loss, confidence = [0, 1, 1, 0, 1, 0], [0.5, 0.5, 0.1, 0.7, 0.2, 0.4]
    weight = np.array([0.8294289095, 0.2573181434, 0.4220632899, 3.4904101214, 0.4657872676, 0.5221839123])
    ones = [interval("fpr_at_tpr", loss, confidence, sample_weight=k * weight) for k in (1, 1e-6, 7.3, 0.1)]
    for other in ones[1:]:
        assert _numbers(other) == pytest.approx(_numbers(ones[0]), rel=1e-9)
    given = {"strata": [0, 1] * 30, "tpr": 1.0}  # all are accepted: strata have nothing to explain
    rng = np.random.default_rng(0)
    for _ in range(20):
        loss, confidence, weight = rng.random(60) < 0.3, rng.integers(0, 2, 60), rng.choice([0.3, 0.7], 60)
        one, other = (
            interval("fpr_at_tpr", loss, confidence, sample_weight=k * weight, **given) for k in (1, 1e-6)
        )
        assert _numbers(other) == pytest.approx(_numbers(one), rel=1e-9)


def test_the_rejection_ratio_of_any_loss_lies_between_minus_one_and_one():
    found = interval("prediction_rejection_ratio", [0.1, 1.2, 0.3, 0.2, 5.0], [5, 2, 4, 3, 1])
    assert -1 <= found.low <= found.estimate <= found.high <= 1
    worst = interval("prediction_rejection_ratio", [1.0, 2.0, 0.0], [0.3, 0.5, 0.2])  # -1, but for rounding
    assert -1 <= worst.low <= worst.high <= 1


def test_naurc_has_no_interval_where_its_scale_is_empty():
    loss, confidence = [1, 1, 1, 0], [4, 3, 2, 1]
    with pytest.raises(InfeasibleError, match="nothing to divide the excess by"):
        interval("naurc", loss, confidence, estimator="2sele")
    cell = abstain.evaluate(loss=loss, confidence=confidence, metrics="naurc:2sele").entries[0]
    assert cell.estimate is None
    assert "nothing to divide" in cell.reason


def test_the_jackknife_of_single_precision_losses_is_worked_out_in_double():
    loss, confidence = np.linspace(0.1, 2, 20).astype(np.float32), np.arange(20.0)
    found, wide = (
        interval("risk", l, confidence, method="jackknife") for l in (loss, loss.astype(np.float64))
    )
    assert _numbers(found) == pytest.approx(_numbers(wide), rel=1e-12)


def test_missing_strata_are_one_stratum_however_they_are_written():
    pandas = pytest.importorskip("pandas")
    loss, confidence = sample(40)
    words = ["x", "a", "b", "a"] * 10
    missing = [None, "a", "b", "a"] * 10
    found = _numbers(interval("aurc", loss, confidence, strata=words))
    column = pandas.Series(missing)
    for labels in (missing, column, column.astype("category"), column.astype("string")):
        assert _numbers(interval("aurc", loss, confidence, strata=labels)) == pytest.approx(found)


@pytest.mark.parametrize("missing", [None, np.nan, "", " "])
def test_missing_clusters_are_refused_and_not_taken_for_one(missing):
    loss, confidence = sample(40)
    known = [1.0, 2.0, 3.0] if isinstance(missing, float) else ["a", "b", "c"]
    as_list = [missing, *known] * 10
    as_array = np.array(as_list)
    two_kinds = [list(range(40)), as_list]
    problem = "for 10 of 40. Give each of these a name of its own"
    for clusters in (as_list, as_array, two_kinds):
        with pytest.raises(InputError, match=f"interval: `clusters` .* {problem}"):
            interval("aurc", loss, confidence, clusters=clusters)
        with pytest.raises(InputError, match=f"evaluate: `clusters` .* {problem}"):
            abstain.evaluate(loss=loss, confidence=confidence, clusters=clusters)
    with pytest.raises(InputError, match=f"select_threshold: `clusters` .* {problem}"):
        abstain.select_threshold(loss, confidence, risk=0.5, clusters=as_list)


# the scale of weights -----------------------------------------------------------------------------------

SCALES = (1e-150, 1e-100, 0.1, 100.0, 1e22, 1e150)
POINT_OPTIONS = {"risk_at_coverage": {"coverage": 0.7}, "coverage_at_risk": {"risk": 0.2}}


def weighted_sample(kind):
    rng = np.random.default_rng(5)
    g = rng.integers(0, 30, 120) / 30
    loss = (rng.random(120) < 0.5 * (1 - g)).astype(float)
    weight = {
        "fractions": rng.exponential(size=120),
        "whole": rng.integers(1, 4, 120).astype(float),
        "equal": np.ones(120),
    }[kind]
    return loss, g, weight


@pytest.mark.parametrize("kind", ["fractions", "whole", "equal"])
@pytest.mark.parametrize("metric", METRICS)
def test_no_interval_depends_on_the_scale_of_the_weights(metric, kind):
    loss, g, weight = weighted_sample(kind)
    options = POINT_OPTIONS.get(metric, {})
    clusters = np.arange(120) // 3
    refused = g < 0.1 if metric in ("coverage_at_risk", "augrc") else None
    for more in ({}, {"clusters": clusters}, {"abstained": refused}):
        given = options | more
        plain = interval(metric, loss, g, sample_weight=None if kind == "equal" else weight, **given)
        for factor in SCALES:
            scaled = interval(metric, loss, g, sample_weight=weight * factor, **given)
            ends = (scaled.estimate, scaled.standard_error, scaled.low, scaled.high, scaled.n)
            expected = (plain.estimate, plain.standard_error, plain.low, plain.high, plain.n)
            assert ends == pytest.approx(expected, rel=1e-10, abs=1e-12), factor


@pytest.mark.parametrize("factor", SCALES)
def test_no_difference_band_threshold_or_table_depends_on_the_scale_of_the_weights(factor, tmp_path):
    loss, g, weight = weighted_sample("fractions")
    other = np.random.default_rng(1).permutation(g)

    def answers(w):
        paired = paired_difference(loss, g, loss, other, sample_weight=w)
        unpaired = unpaired_difference(loss, g, loss, other, sample_weight_a=w, sample_weight_b=weight)
        band = curve_band(loss, g, sample_weight=w, replicates=100, rng=0)
        drawn = interval("aurc", loss, g, sample_weight=w, method="bca", replicates=100, rng=0)
        rule = abstain.select_threshold(loss, g, risk=0.4, delta=0.3, sample_weight=w)
        curve = abstain.risk_coverage_curve(loss, g, sample_weight=w)
        sketch = abstain.engines.Sketch()
        for part in np.array_split(np.arange(120), 3):
            sketch.update(loss[part], g[part], sample_weight=w[part])
        path = tmp_path / f"{w[0]:g}.csv"
        rows = "".join(f"{a!r},{b!r},{c!r}\n" for a, b, c in zip(loss.tolist(), g.tolist(), w.tolist()))
        path.write_text("loss,confidence,w\n" + rows)
        table = abstain.engines.files.evaluate(str(path), sample_weight="w").entries
        found = [(d.difference, d.low, d.high, d.p_value) for d in (paired, unpaired)]
        found += [band.low, band.high, (drawn.low, drawn.high), (rule.value or 0, rule.coverage)]
        found += [curve.coverage, curve.risk, (sketch.aurc().estimate, sketch.standard_error())]
        found += [sketch.merge(sketch).augrc().estimate]
        found += [[x or 0 for e in table for x in (e.estimate, e.low, e.high)], len(rule.guarantee or "")]
        return np.concatenate([np.ravel(np.asarray(x, dtype=float)) for x in found])

    np.testing.assert_allclose(answers(weight * factor), answers(weight), rtol=1e-9, atol=1e-12)


# numbers that samples of weight 0 must not change, from the loss and confidence of two models
WEIGHTED_RESULTS = {
    "interval": lambda a, b, **options: interval("aurc", *a, **options),
    "selective risk": lambda a, b, **options: interval("risk_at_coverage", *a, coverage=0.7, **options),
    "bootstrap": lambda a, b, **options: interval(
        "risk", *a, method="bootstrap", replicates=100, rng=1, **options
    ),
    "groups": lambda a, b, **options: interval("aurc", *a, groups=a[1] > 0.4, **options),
    "paired_difference": lambda a, b, **options: paired_difference(*a, *b, **options),
    "curve_band": lambda a, b, **options: curve_band(*a, replicates=100, rng=1, **options).high.tolist(),
    "evaluate": lambda a, b, **options: abstain.evaluate(
        loss=a[0], confidence=a[1], groups=a[1] > 0.4, **options
    ).to_json(),
    "compare": lambda a, b, **options: abstain.compare({"a": a, "b": b}, **options).to_json(),
}


TAKES_NO = {"strata": ("evaluate", "compare"), "two kinds": ("bootstrap", "curve_band")}


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        (name, drawn)
        for name in WEIGHTED_RESULTS
        for drawn in ("clusters", "two kinds of clusters", "strata", "clusters in strata", "alone")
        if not any(words in drawn and name in names for words, names in TAKES_NO.items())
    ],
)
def test_samples_of_weight_0_have_no_influence(name, drawn):
    rng = np.random.default_rng(3)
    n = 240
    loss_a, sure_a = sample(n, seed=1, levels=9)
    loss_b, sure_b = sample(n, seed=2)
    weight = rng.integers(0, 3, n).astype(float)
    clusters = np.arange(n) // 4
    weight[clusters % 5 == 0] = 0  # whole clusters, and the whole of the first stratum
    strata = np.where(clusters == 0, -1, clusters // 15)
    options = {
        "clusters": {"clusters": clusters},
        "two kinds of clusters": {"clusters": np.stack([clusters, np.arange(n) % 7], axis=1)},
        "strata": {"strata": strata},
        "clusters in strata": {"clusters": clusters, "strata": strata},
        "alone": {},
    }[drawn]

    def result(rows):
        columns = {key: column[rows] for key, column in options.items()}
        models = (loss_a[rows], sure_a[rows]), (loss_b[rows], sure_b[rows])
        return WEIGHTED_RESULTS[name](*models, sample_weight=weight[rows], **columns)

    assert result(slice(None)) == result(weight > 0)


def test_log_weights_treat_ties_alike_under_either_rule_and_so_do_their_limits():
    rng = np.random.default_rng(0)
    confidence = np.round(6 * rng.random(4000)) / 6
    loss = (rng.random(4000) < 0.05 + 0.6 * (1 - confidence)).astype(float)
    together, at_random = (
        interval("aurc:log", loss, confidence, ties=ties) for ties in ("threshold", "expected")
    )
    assert (together.estimate, together.low, together.high) == pytest.approx(
        (at_random.estimate, at_random.low, at_random.high), rel=1e-12
    )
    # the intervals of two estimators that differ by 3e-5 differ hardly more
    leave_one_out = interval("aurc:loo", loss, confidence, ties="expected")
    assert (together.low, together.high) == pytest.approx((leave_one_out.low, leave_one_out.high), abs=1e-4)
