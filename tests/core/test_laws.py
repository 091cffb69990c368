"""Laws that hold for every metric, run over all of them."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import abstain

SCALES = (1e-150, 1e-100, 0.1, 100.0, 1e22, 1e150)  # of weights
NUMBERS = {"coverage": 0.3, "risk": 0.2, "tpr": 0.9, "max_rejection": 0.4}


def settings_to_try(metric):
    """Options of a metric under the laws: each word of each option, both rules for ties, and one number."""
    if not any(option.is_required for option in metric.options):
        yield {}
    words = {option.name: option.choices for option in metric.options if option.choices}
    for name, choices in words.items():
        yield from ({name: choice} for choice in choices)
    for estimator in words.get("estimator", ()):
        if "ties" in words:
            yield {"estimator": estimator, "ties": "expected"}
    for option in metric.options:
        if not option.choices:
            yield {option.name: (0.25, 0.8) if isinstance(option.default, tuple) else NUMBERS[option.name]}


def metrics_under_the_laws():
    """Every definition, registered ones included, by its key; and the one function that is no metric by name."""
    found = {}
    for definition in abstain.metrics.METRICS.values():
        for settings in settings_to_try(definition):
            metric = definition.with_options(**settings)
            found[metric.key] = (metric, {})
    return {**found, "rejection_cost": (abstain.metrics.rejection_cost, {"cost": 0.2})}


def takes_repetitions(metric):
    function = getattr(abstain.metrics, metric.__name__, metric)
    return "repetitions" in inspect.signature(function).parameters


METRICS = metrics_under_the_laws()
every_metric = pytest.mark.parametrize(("metric", "options"), METRICS.values(), ids=METRICS)


@pytest.fixture
def sample():
    rng = np.random.default_rng(7)
    confidence = rng.integers(0, 40, 200) / 40
    return rng.random(200) < 0.5 * (1 - confidence), confidence


def test_every_public_metric_is_under_the_laws():
    covered = {metric.__name__ for metric, _ in METRICS.values()}

    def measures_groups(function):
        """Has it the option `groups=`, as every metric and nothing else?"""
        if not inspect.isfunction(function):
            return False
        groups = inspect.signature(function).parameters.get("groups")
        return groups is not None and groups.kind is inspect.Parameter.KEYWORD_ONLY

    public = {name for name in abstain.metrics.__all__ if measures_groups(getattr(abstain.metrics, name))}
    assert public == covered


@every_metric
def test_order_of_rows_does_not_matter(metric, options, sample):
    loss, confidence = sample
    p = np.random.default_rng(0).permutation(len(loss))
    assert metric(loss[p], confidence[p], **options) == metric(loss, confidence, **options)


@every_metric
def test_increasing_maps_of_confidence_change_nothing(metric, options, sample):
    loss, confidence = sample
    for mapped in (np.exp(3 * confidence), confidence * 1e6 - 5, np.float32(confidence)):
        assert metric(loss, mapped, **options) == metric(loss, confidence, **options)


@every_metric
def test_weights_stated_as_repetitions_are_repetitions(metric, options, sample):
    loss, confidence = sample
    w = np.random.default_rng(1).integers(0, 4, len(loss))
    repeated = metric(np.repeat(loss, w), np.repeat(confidence, w), **options)
    stated = {"repetitions": True} if takes_repetitions(metric) else {}
    weighted = metric(loss, confidence, sample_weight=w, **stated, **options)
    assert weighted == pytest.approx(repeated, rel=1e-12)
    if stated:
        with pytest.raises(abstain.errors.InputError, match=r"whole numbers with repetitions=True, got 0\.5"):
            metric(loss, confidence, sample_weight=w + 0.5, **stated, **options)


@every_metric
@pytest.mark.parametrize("kind", ["fractions", "whole numbers", "equal"])
def test_the_scale_of_the_weights_changes_nothing(metric, options, sample, kind):
    loss, confidence = sample
    rng = np.random.default_rng(1)
    weights = {
        "fractions": rng.exponential(size=len(loss)),
        "whole numbers": rng.integers(0, 4, len(loss)).astype(float),
        "equal": np.ones(len(loss)),
    }[kind]
    if kind == "equal":
        value = metric(loss, confidence, **options)  # weights that do not differ say nothing
    elif getattr(metric, "counting_option", ""):
        with pytest.raises(abstain.errors.InputError, match="needs weights that are repetitions"):
            metric(loss, confidence, sample_weight=weights, **options)
        return
    else:
        value = metric(loss, confidence, sample_weight=weights, **options)
    for factor in SCALES:
        scaled = metric(loss, confidence, sample_weight=weights * factor, **options)
        assert scaled == pytest.approx(value, rel=1e-12, abs=1e-12), factor


@every_metric
def test_a_batch_is_a_loop(metric, options):
    rng = np.random.default_rng(3)
    confidence = rng.integers(0, 25, (4, 3, 60)) / 25
    loss = rng.random((4, 3, 60)) < 0.4
    values = metric(loss, confidence, **options)
    assert values.shape == (4, 3)
    looped = [[metric(loss[i, j], confidence[i, j], **options) for j in range(3)] for i in range(4)]
    assert values == pytest.approx(np.asarray(looped), rel=1e-12)


@every_metric
def test_mask_equals_subset_for_a_batch_and_a_vector(metric, options):
    rng = np.random.default_rng(4)
    confidence, loss = rng.integers(0, 25, (3, 60)) / 25, rng.random((3, 60)) < 0.4
    out = rng.random((3, 60)) < 0.2
    vectors = [metric(loss[i], confidence[i], abstained=out[i], **options) for i in range(3)]
    assert metric(loss, confidence, abstained=out, **options) == pytest.approx(vectors, rel=1e-12)
    if metric.__name__ not in ("coverage_at_risk", "risk_at_coverage", "rejection_cost", "augrc"):
        subsets = [metric(loss[i][~out[i]], confidence[i][~out[i]], **options) for i in range(3)]
        assert vectors == pytest.approx(subsets, rel=1e-12)


@every_metric
def test_groups_are_subsets(metric, options, sample):
    loss, confidence = sample
    groups = np.arange(len(loss)) % 3
    result = metric(loss, confidence, groups=groups, **options)
    for g in range(3):
        assert result.values[g] == metric(loss[groups == g], confidence[groups == g], **options)


@every_metric
def test_read_only_and_lists_and_integers_are_taken(metric, options, sample):
    loss, confidence = sample
    value = metric(loss, confidence, **options)
    frozen = confidence.copy()
    frozen.flags.writeable = False
    assert metric(loss.astype(int).tolist(), frozen.tolist(), **options) == pytest.approx(value, rel=1e-13)
    before = (loss.copy(), confidence.copy())
    metric(loss, frozen, **options)
    assert np.array_equal(before[0], loss)
    assert np.array_equal(before[1], confidence)


@pytest.mark.parametrize("constant", [0.3, 2.0])
@pytest.mark.parametrize("estimator", ["harmonic", "loo"])
def test_constant_loss_gives_the_mean_weight_times_it(constant, estimator):
    n = 50
    value = abstain.aurc(np.full(n, constant), np.arange(n), estimator=estimator)
    assert value == pytest.approx(constant * abstain.metrics.rank_weights(n, estimator=estimator).mean())
