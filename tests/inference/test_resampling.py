"""Jackknife against brute deletion; bootstrap replicates against samples written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import abstain
from abstain.core.bootstrap import leave_one_out_areas
from abstain.errors import InputError
from abstain.inference import curve_band, interval
from abstain.inference.point_limits import pointwise_level
from abstain.inference.resampling import (
    compute_replicates,
    delete_each_unit,
    make_resampler,
    metric_of_draw,
)
from abstain.inference.standard_errors import gather


def sample(n=60, seed=0, levels=None, zero_one=True):
    rng = np.random.default_rng(seed)
    g = rng.random(n) if levels is None else rng.integers(0, levels, n) / levels
    l = (rng.random(n) < 0.35) * 1.0 if zero_one else rng.integers(0, 12, n) / 4
    l[:2] = 0, 1
    return l, g


# jackknife ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 7, 40])
@pytest.mark.parametrize("levels", [None, 1, 4])
@pytest.mark.parametrize("ties", ["threshold", "expected"])
@pytest.mark.parametrize("estimator", ["harmonic", "log", "loo", "sele", "2sele"])
def test_leaving_one_out_equals_deletion(estimator, ties, levels, n):
    l, g = sample(n, n, levels, zero_one=False)
    brute = [abstain.aurc(np.delete(l, i), np.delete(g, i), estimator=estimator, ties=ties) for i in range(n)]
    np.testing.assert_allclose(leave_one_out_areas(l, g, estimator, ties), brute, rtol=1e-11, atol=1e-14)


def test_jackknife_interval_from_deletions():
    l, g = sample(50, 3)
    n = len(l)
    without = np.asarray([abstain.aurc(np.delete(l, i), np.delete(g, i)) for i in range(n)])
    found = interval("aurc", l, g, method="jackknife")
    assert found.standard_error == pytest.approx(
        np.sqrt((n - 1) ** 2 / n * np.var(without, ddof=1)), rel=1e-10
    )
    corrected = n * abstain.aurc(l, g) - (n - 1) * without.mean()
    assert np.sqrt(found.low * found.high) == pytest.approx(corrected, rel=1e-9)  # middle of a log interval


# bootstrap ----------------------------------------------------------------------------------------------


def test_weights_and_abstentions_travel_with_their_samples():
    l, g = sample(50, 4)
    rng = np.random.default_rng(5)
    w, out = rng.integers(1, 5, 50) * 0.5, rng.random(50) < 0.3
    for metric in ("aurc", "augrc", "risk_at_coverage"):
        options = {"coverage": 0.2} if metric == "risk_at_coverage" else {}
        samples = gather("interval", metric, l, g, w, out, options=options)
        source = make_resampler(samples)
        counts = source.counts(np.random.default_rng(0), 8)
        ours = metric_of_draw(samples)(source.tabulate(counts))
        kept, idle = np.flatnonzero(~out), np.flatnonzero(out)
        arranged = np.concatenate([kept[np.argsort(-g[kept], kind="stable")], idle])
        for value, c in zip(ours, counts):
            take = np.repeat(arranged, c)
            expected = abstain.metrics.by_name(metric)(
                l[take], g[take], sample_weight=w[take], abstained=out[take], **options
            )
            assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("levels", [None, 6])
def test_bootstrap_error_agrees_with_the_analytic_one(levels):
    rng = np.random.default_rng(8)
    b = rng.random(800)
    l = rng.random(800) < 0.6 * (1 - b) ** 2
    g = b if levels is None else np.floor(levels * b)
    for metric in ("aurc", "augrc", "naurc", "auroc"):
        analytic = interval(metric, l, g)
        resampled = interval(metric, l, g, method="bootstrap", replicates=2000, rng=3)
        assert resampled.standard_error == pytest.approx(analytic.standard_error, rel=0.1)
        assert resampled.estimate == pytest.approx(analytic.estimate, rel=1e-12)


def test_clustered_bootstrap_agrees_with_the_clustered_error():
    rng = np.random.default_rng(9)
    b = rng.random((100, 8))
    l = (rng.random((100, 1)) < 0.6 * (1 - b) ** 2).reshape(-1)
    clusters = np.repeat(np.arange(100), 8)
    analytic = interval("aurc", l, b.reshape(-1), clusters=clusters)
    resampled = interval("aurc", l, b.reshape(-1), clusters=clusters, method="bootstrap", rng=1)
    naive = interval("aurc", l, b.reshape(-1))
    assert resampled.standard_error == pytest.approx(analytic.standard_error, rel=0.12)
    assert analytic.standard_error > 1.5 * naive.standard_error


def test_same_seed_same_interval_other_seed_another():
    l, g = sample(100, 10)
    first = interval("aurc", l, g, method="bca", rng=5, replicates=500)
    assert first == interval("aurc", l, g, method="bca", rng=5, replicates=500)
    assert first == interval("aurc", l, g, method="bca", rng=np.random.default_rng(5), replicates=500)
    assert first != interval("aurc", l, g, method="bca", rng=6, replicates=500)


def test_bca_shifts_percentiles_by_its_formula():
    from scipy.special import ndtr, ndtri

    l, g = sample(80, 11)
    found = interval("aurc", l, g, method="bca", rng=2, replicates=1000)
    samples = gather("interval", "aurc", l, g)
    values = compute_replicates(samples, metric_of_draw(samples), 1000, np.random.default_rng(2), False)
    without = np.asarray([abstain.aurc(np.delete(l, i), np.delete(g, i)) for i in range(80)])
    pull = without.mean() - without
    a = np.sum(pull**3) / (6 * np.sum(pull**2) ** 1.5)
    z0 = ndtri(np.mean(values < found.estimate))
    tails = [ndtr(z0 + (z0 + z) / (1 - a * (z0 + z))) for z in ndtri([0.025, 0.975])]
    assert [found.low, found.high] == pytest.approx(np.quantile(values, tails).tolist(), rel=1e-9)


def test_progress_is_shown_on_standard_error_when_asked(capsys):
    l, g = sample(50, 12)
    interval("aurc", l, g, method="bootstrap", replicates=200, progress=True)
    shown = capsys.readouterr()
    assert "resampling" in shown.err
    assert shown.out == ""
    interval("aurc", l, g, method="bootstrap", replicates=200)
    assert capsys.readouterr().err == ""


def test_bad_requests_say_what_to_do():
    l, g = sample(20, 13)
    with pytest.raises(abstain.errors.InputError, match="at least 100"):
        interval("aurc", l, g, method="bootstrap", replicates=10)
    with pytest.raises(abstain.errors.InputError, match="smooth"):
        interval("risk_at_coverage", l, g, coverage=0.5, method="bca")


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"strata": ["b"] * 59 + ["a"]}, r"two samples in each stratum .* got one in stratum 'a'. Merge it"),
        ({"strata": np.arange(60)}, "got one in stratum 0. Merge"),
        ({"strata": [1] * 57 + [2] * 3, "clusters": [*range(57), 99, 99, 99]}, "two clusters .* stratum 2"),
        ({"strata": [1] * 58 + [2] * 2, "sample_weight": [1] * 59 + [0]}, "got one in stratum 2"),
        ({"clusters": [7] * 60}, "at least two samples"),
    ],
)
def test_what_cannot_be_redrawn_with_any_spread_is_refused(columns, problem):
    l, g = sample(60, 4)
    for method in ("bootstrap", "bca"):
        with pytest.raises(InputError, match=problem):
            interval("aurc", l, g, method=method, replicates=100, **columns)
    with pytest.raises(InputError, match=problem):
        curve_band(l, g, replicates=100, **columns)


@pytest.mark.parametrize("metric", ["oracle_aurc", "e_aurc", "naurc"])
@pytest.mark.parametrize("method", ["bootstrap", "bca"])
def test_a_bootstrap_of_fractional_weights_is_of_the_metric_itself(metric, method):
    rng = np.random.default_rng(0)
    loss, confidence, weight = rng.choice([0, 0.5, 1], 30), rng.random(30), rng.random(30) + 0.1
    found = interval(metric, loss, confidence, sample_weight=weight, method=method, replicates=100)
    exact = abstain.metrics.by_name(metric)(loss, confidence, sample_weight=weight)
    assert found.estimate == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"replicates": 0}, "`replicates` must be a whole number"),
        ({"replicates": 50}, "`replicates` must be at least 100"),
        ({"coverage": [0.5, np.nan]}, "`coverage` must lie in"),
    ],
)
def test_a_band_says_what_it_cannot_take(options, problem):
    with pytest.raises(InputError, match=f"curve_band: {problem}"):
        curve_band([0, 1, 0, 1], [4, 3, 2, 1], **options)


# bands with few errors ----------------------------------------------------------------------------------


def test_a_band_without_errors_ends_above_the_interval_at_every_coverage():
    n = 300
    band = curve_band(np.zeros(n), np.arange(n), replicates=100)
    points = [interval("risk_at_coverage", np.zeros(n), np.arange(n), coverage=c) for c in band.coverage[::9]]
    assert (band.high[::9] > [point.high for point in points]).all()
    assert band.high[-1] < 2.5 * points[-1].high  # right everywhere at once costs a factor of about two


@pytest.mark.parametrize("flip", [False, True], ids=["few errors", "few right"])
def test_a_band_of_few_errors_knows_no_unit_and_counts_clusters(flip):
    rng = np.random.default_rng(1)
    g = rng.random(200)
    loss = np.zeros(200)
    loss[:3] = 1
    loss = 1 - loss if flip else loss
    band = curve_band(loss, g, replicates=200)
    tenfold = curve_band(10 * loss, g, replicates=200)
    np.testing.assert_allclose(tenfold.low, 10 * band.low, rtol=1e-9)
    np.testing.assert_allclose(tenfold.high, 10 * band.high, rtol=1e-9)
    # each patient seen three times says no more than once
    repeated = curve_band(
        np.tile(np.zeros(200), 3), np.tile(g, 3), clusters=np.tile(np.arange(200), 3), replicates=100
    )
    once = curve_band(np.zeros(200), g, replicates=100, coverage=repeated.coverage)
    np.testing.assert_allclose(repeated.high, once.high, rtol=0.02)


@pytest.mark.parametrize("first", [10, 100])
def test_pointwise_limits_at_the_simultaneous_level_hold_together(first):
    """Means of the first k of n standard normals, k from `first` on, drawn 4,000 times."""
    n = 1000
    rng = np.random.default_rng(first)
    k = np.arange(first, n + 1)
    sums = np.cumsum(rng.standard_normal((4000, n), dtype=np.float32), axis=1)[:, first - 1 :]
    largest = np.max(np.abs(sums) / np.sqrt(k), axis=1)
    quantile = norm.isf((1 - pointwise_level(0.95, np.log(n / first), len(k))) / 2)
    assert 0.94 < np.mean(largest <= quantile) < 0.98
    few_cuts = norm.isf((1 - pointwise_level(0.95, np.log(n / first), 2)) / 2)
    assert few_cuts == pytest.approx(norm.isf(0.0125))


# chance of an error at rank b, and the selective risk at coverage c; n samples
PROFILES = {
    "one error": lambda n: (lambda b: 1 / n + 0 * b, lambda c: 1 / n + 0 * c),
    "four errors": lambda n: (lambda b: 4 / n + 0 * b, lambda c: 4 / n + 0 * c),
    "twelve errors": lambda n: (lambda b: 12 / n + 0 * b, lambda c: 12 / n + 0 * c),
    "three right": lambda n: (lambda b: 1 - 3 / n + 0 * b, lambda c: 1 - 3 / n + 0 * c),
    "five at the bottom": lambda n: (lambda b: 15 / n * (1 - b) ** 2, lambda c: 5 / n * c**2),
    "confident errors": lambda n: (lambda b: 0.5 * (1 - b) ** 9, lambda c: 0.05 * c**9),
    "a fifth wrong": lambda n: (lambda b: 0.6 * (1 - b) ** 2, lambda c: 0.2 * c**2),
    "no skill": lambda n: (lambda b: 0.3 + 0 * b, lambda c: 0.3 + 0 * c),
}


def band_covers(profile, n, runs, replicates):
    """Share of runs in which the whole true curve lies inside, and the mean width."""
    chance, risk = PROFILES[profile](n)
    rng = np.random.default_rng(n)
    inside = 0
    width = 0.0
    for _ in range(runs):
        b = rng.random(n)
        band = curve_band(rng.random(n) < chance(b), b, replicates=replicates, rng=rng)
        truth = risk(band.coverage)
        inside += bool(np.all((band.low <= truth) & (truth <= band.high)))
        width += float(np.mean(band.high - band.low)) / runs
    return inside / runs, width


@pytest.mark.parametrize("profile", ["one error", "four errors", "three right", "a fifth wrong"])
def test_a_band_holds_the_whole_curve_however_few_errors_small(profile):
    inside, width = band_covers(profile, 200, 150, 100)
    assert inside >= 0.93 - 3 * 0.021
    assert width < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 200, 500, 2000])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_band_holds_the_whole_curve_however_few_errors(profile, n):
    inside, width = band_covers(profile, n, 2000, 200)
    print(f"{profile}, n {n}: {inside:.1%} inside, mean width {width:.4f}")
    assert inside >= 0.93


@pytest.mark.parametrize("weighted", [False, True])
def test_deletions_compare_with_the_best_order_of_the_samples_that_are_left(weighted):
    """A metric that reads the best order of the losses, without each sample in turn, against calls of the metric."""
    rng = np.random.default_rng(5)
    loss = rng.random(12)
    confidence = rng.integers(0, 5, 12) / 4
    weight = rng.integers(1, 4, 12).astype(float) if weighted else None
    samples = gather("interval", "e_aurc", loss, confidence, weight, repetitions=weighted)
    estimate, without_sample = delete_each_unit(samples)

    def e_aurc(kept):
        kept_weight = None if weight is None else weight[kept]
        return abstain.e_aurc(loss[kept], confidence[kept], sample_weight=kept_weight, repetitions=weighted)

    everything = np.arange(12)
    assert estimate == pytest.approx(e_aurc(everything), rel=1e-12)
    expected = [e_aurc(np.delete(everything, i)) for i in range(12)]
    assert without_sample == pytest.approx(expected, rel=1e-9)
