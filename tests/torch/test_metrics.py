"""torchmetrics' own habits: per batch, accumulated, reset, pickled, half precision, collections."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from metric_cases import ARGUMENTS, collection, metrics
from sklearn.metrics import roc_auc_score

import abstain
from abstain.errors import AbstainError, AbstainWarning, DtypeError, InfeasibleError, InputError, ShapeError
from abstain.metrics.definitions import METRICS
from abstain.metrics.metric import Metric
from abstain.torch import (
    AUGRC,
    AURC,
    AUROC,
    EAURC,
    NAURC,
    CoverageAtRisk,
    RiskAtCoverage,
    SelectiveMetric,
)

NAMES = tuple(metrics())


def draw(n: int, classes: int = 5, seed: int = 0):
    """Logits of a model that is right more often when it is sure."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((n, classes)) * 2
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    target = [rng.choice(classes, p=row) for row in p]
    return torch.tensor(logits, dtype=torch.float32), torch.tensor(target)


def by_hand(name: str, logits, target) -> float:
    """The metric from numpy inputs made without this package's torch code."""
    z = logits.double().numpy()
    others = np.sort(np.exp(z - z.max(1, keepdims=True)), axis=1)[:, :-1]
    loss = z.argmax(1) != target.numpy()
    return float(getattr(abstain, name)(loss, -others.sum(1), **ARGUMENTS.get(name, {})))


@pytest.mark.parametrize("name", NAMES)
def test_per_batch_and_accumulated(name):
    metric = metrics()[name]
    logits, target = draw(300)
    for a in range(0, 300, 64):
        part = slice(a, a + 64)
        assert metric(logits[part], target[part]).item() == pytest.approx(
            by_hand(name, logits[part], target[part])
        )
    assert metric.compute().item() == pytest.approx(by_hand(name, logits, target), rel=1e-12)
    metric.reset()
    metric.update(logits[:50], target[:50])
    assert metric.compute().item() == pytest.approx(by_hand(name, logits[:50], target[:50]), rel=1e-12)


def test_failure_auroc_is_that_of_scikit_learn():
    logits, target = draw(400)
    metric = AUROC()
    metric.update(logits, target)
    right = (logits.argmax(1) == target).numpy()
    margin = logits.double().softmax(1).max(1).values.numpy()
    assert metric.compute().item() == pytest.approx(roc_auc_score(right, margin), abs=1e-12)


@pytest.mark.parametrize("estimator", ["harmonic", "log", "loo", "sele", "2sele"])
@pytest.mark.parametrize("ties", ["threshold", "expected"])
def test_estimators(estimator, ties):
    logits, target = draw(80)
    metric = AURC(estimator=estimator, ties=ties)
    metric.update(logits, target)
    loss = (logits.argmax(1) != target).numpy()
    expected = abstain.aurc(loss, abstain.scores.max_softmax(logits.numpy()), estimator=estimator, ties=ties)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("thresholds", [None, 1000])
def test_pickled_and_copied_with_their_state(thresholds):
    logits, target = draw(100)
    both = collection(thresholds=thresholds)
    both.update(logits[:60], target[:60])
    again = pickle.loads(pickle.dumps(both))
    twin = both.clone()
    for copy in (both, again, twin):
        copy.update(logits[60:], target[60:])
    for name, value in both.compute().items():
        assert again.compute()[name].item() == twin.compute()[name].item() == value.item()


@pytest.mark.parametrize("thresholds", [None, 1000])
def test_one_state_serves_a_whole_collection(thresholds):
    logits, target = draw(200)
    both = collection(thresholds=thresholds)
    for a in range(0, 200, 50):
        both.update(logits[a : a + 50], target[a : a + 50])
    assert len(both.compute_groups) == 1
    for name, metric in metrics(thresholds=thresholds).items():
        metric.update(logits, target)
        assert both.compute()[name].item() == pytest.approx(metric.compute().item(), rel=1e-12)
    both.reset()
    with (
        pytest.warns(UserWarning, match="before the"),
        pytest.raises(InputError, match="at least one sample"),
    ):
        both.compute()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_predictions_and_metrics(dtype):
    logits, target = draw(200)
    metric = AURC().half().set_dtype(torch.float16)
    metric.update(logits.to(dtype), target)
    expected = by_hand("aurc", logits.to(dtype), target)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-12)
    assert metric.confidence[0].dtype is torch.float64


def test_probabilities_are_stated_not_guessed():
    logits, target = draw(150)
    metric = AURC(input="probs")
    metric.update(logits.double().softmax(1), target)
    assert metric.compute().item() == pytest.approx(by_hand("aurc", logits, target), rel=1e-9)
    with pytest.raises(InputError, match="If these are logits"):
        AURC(input="probs").update(logits, target)
    with pytest.raises(InputError, match="needs logits"):
        AURC(input="probs", score="max_logit")


def test_pixels_and_ignored_targets():
    logits = torch.randn(2, 4, 5, 6)
    target = torch.randint(0, 4, (2, 5, 6))
    target[1, :2] = 255
    metric = AURC(ignore_index=255)
    metric.update(logits, target)
    flat, kept = logits.movedim(1, -1).reshape(-1, 4), target.reshape(-1) != 255
    assert metric.compute().item() == pytest.approx(
        by_hand("aurc", flat[kept], target.reshape(-1)[kept]), rel=1e-12
    )
    metric.update(logits, torch.full_like(target, 255))  # a batch with nothing in it changes nothing
    assert metric.compute().item() == pytest.approx(
        by_hand("aurc", flat[kept], target.reshape(-1)[kept]), rel=1e-12
    )


def test_own_confidence_and_class_numbers():
    logits, target = draw(90)
    confidence = torch.rand(90)
    loss = (logits.argmax(1) != target).numpy()
    expected = abstain.aurc(loss, confidence.numpy())
    for preds in (logits, logits.argmax(1)):
        metric = AURC()
        metric.update(preds, target, confidence=confidence)
        assert metric.compute().item() == pytest.approx(expected, rel=1e-12)
    with pytest.raises(DtypeError, match="confidence="):
        AURC().update(logits.argmax(1), target)
    with pytest.raises(DtypeError, match="zero_one"):
        AURC(loss="brier").update(logits.argmax(1), target, confidence=confidence)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (
            lambda z, y: (z.softmax(1), y),
            {},
            r'`preds` must be scores before the softmax.* to AURC\(input="probs"\)',
        ),
        (
            lambda z, y: (z, y),
            {"input": "probs"},
            r'`preds` must not be negative.* pass them to AURC\(input="logits"\)',
        ),
        (lambda z, y: (z / 0, y), {}, "`preds` must be finite"),
        (lambda z, y: (z, y + 1), {}, "`target` must be whole numbers from 0 to 4.* subtract 1"),
        (
            lambda z, y: (z.numpy(), y),
            {},
            r"`preds` must be a torch tensor, got ndarray.* `torch.as_tensor\(preds\)`",
        ),
        (lambda z, y: (z, y.numpy()), {}, "`target` must be a torch tensor"),
        (lambda z, y: (z, torch.nn.functional.one_hot(y, 5)), {}, r"one-hot labels .*`target.argmax\(1\)`"),
        (
            lambda z, y: (z, torch.nn.functional.one_hot(y, 5) * 1.0),
            {},
            r"probabilities pass `target.argmax\(1\)`",
        ),
    ],
)
def test_mistakes_are_named_in_words_of_the_metric(change, options, words):
    with pytest.raises(AbstainError, match=f"^AURC: .*{words}") as caught:
        AURC(**options).update(*change(*draw(90)))
    assert "zero_one" not in str(caught.value)


@pytest.mark.parametrize("loss", ["cross_entropy", "brier"])
@pytest.mark.parametrize("cls", [AURC, AUGRC, EAURC, NAURC])
def test_other_losses(loss, cls):
    logits, target = draw(70)
    metric = cls(loss=loss)
    metric.update(logits, target)
    values = getattr(abstain.losses, loss)(logits.numpy(), target.numpy())
    expected = getattr(abstain, cls.metric_name)(values, abstain.scores.max_softmax(logits.numpy()))
    assert metric.compute().item() == pytest.approx(expected, rel=1e-10)


def test_interval_is_that_of_the_library():
    logits, target = draw(300)
    metric = AURC(estimator="loo")
    metric.update(logits[:100], target[:100])
    metric.update(logits[100:], target[100:])
    found = metric.compute_with_interval(level=0.9)
    loss = (logits.argmax(1) != target).numpy()
    key = abstain.scores.max_softmax(logits.numpy())
    expected = abstain.inference.interval("aurc", loss, key, level=0.9, estimator="loo")
    assert found == expected
    assert found.low < metric.compute().item() < found.high
    risk = RiskAtCoverage(coverage=0.5)
    risk.update(logits, target)
    assert risk.compute_with_interval().method == "pointwise"
    assert risk.compute_with_interval(method="bootstrap", replicates=200, rng=1).method == "bootstrap"
    binned = AURC(thresholds=500)
    binned.update(logits, target)
    with pytest.raises(InfeasibleError, match="compute_bounds"):
        binned.compute_with_interval()


def test_auroc_of_one_kind_is_nan_with_a_warning_and_does_not_raise():
    logits = 2 * torch.eye(3)
    for thresholds in (None, 500):
        metric = AUROC(thresholds=thresholds)
        metric.update(logits, torch.arange(3))
        with pytest.warns(AbstainWarning, match="only one kind"):
            assert torch.isnan(metric.compute())


def test_plot_returns_a_figure():
    import matplotlib as mpl

    mpl.use("Agg")
    logits, target = draw(50)
    metric = AURC()
    values = [metric(logits, target), metric(logits, target)]
    figure, _ = metric.plot(values)
    assert figure.axes


@pytest.mark.parametrize(
    ("preds", "target", "confidence"),
    [
        (torch.randn(4, 3), torch.zeros(5, dtype=torch.long), None),
        (torch.randn(4), torch.zeros(4, dtype=torch.long), None),
        (torch.randn(4, 3), torch.zeros(4, dtype=torch.long), torch.rand(3)),
        (torch.zeros(4, dtype=torch.long), torch.zeros(5, dtype=torch.long), torch.rand(5)),
    ],
)
def test_shapes_that_do_not_fit(preds, target, confidence):
    with pytest.raises(ShapeError):
        AURC().update(preds, target, confidence=confidence)


def test_a_risk_or_coverage_in_percent_is_refused_with_the_remedy():
    with pytest.raises(InputError, match=r"Write 0\.05 for 5%"):
        CoverageAtRisk(risk=5)
    with pytest.raises(InputError, match=r"\[0, 2\], the bounds of the loss"):
        CoverageAtRisk(risk=5, loss="brier")
    assert CoverageAtRisk(risk=5, loss="cross_entropy").risk == 5  # nats have no upper bound
    with pytest.raises(InputError, match="not in percent"):
        RiskAtCoverage(coverage=80)


def test_bad_options():
    with pytest.raises(InputError, match="thresholds"):
        AURC(thresholds=3)
    with pytest.raises(InputError, match="estimator"):
        AURC(estimator="mean")
    with pytest.raises(InputError, match="harmonic"):
        AURC(estimator="loo", thresholds=1000)
    with pytest.raises(InputError, match="loss"):
        AUROC(loss="brier")
    with pytest.raises(InputError, match="`target`"):
        AURC().update(torch.randn(2, 3), torch.tensor([0, 3]))


@pytest.mark.parametrize("thresholds", [None, 100])
def test_a_confidence_that_is_no_number_is_refused(thresholds):
    """Where it counts: that of an ignored target is never looked at."""
    for wrong in (torch.nan, torch.inf):
        metric = AURC(thresholds=thresholds, ignore_index=-1)
        confidence = torch.tensor([0.5, wrong])
        with pytest.raises(InputError, match="`confidence` must be finite"):
            metric.update(torch.tensor([0, 1]), torch.tensor([0, 1]), confidence=confidence)
        metric.update(torch.tensor([0, 1]), torch.tensor([0, -1]), confidence=confidence)
        assert metric.compute() == 0


def log_weighted_risk(rows, options):
    """Mean loss in which the samples at the top of the ranking count more, by -log of the coverage."""
    weight = -np.log(rows.accepted_mass / (rows.total_mass[0] + 1))
    return float((weight * rows.loss).sum() / rows.total_mass[0])


OWN = Metric(
    name="log_weighted_risk",
    label="log-weighted risk",
    summary="the mean loss, in which confident samples count more",
    lower_is_better=True,
    value=log_weighted_risk,
)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_works_by_its_name(name):
    logits, target = draw(200)
    metric = SelectiveMetric(name)
    metric.update(logits[:150], target[:150])
    metric.update(logits[150:], target[150:])
    loss = (logits.argmax(1) != target).numpy()
    expected = METRICS[name](loss, abstain.scores.max_softmax(logits.numpy()))
    assert metric.compute().item() == pytest.approx(float(expected), rel=1e-12)
    assert metric.higher_is_better is not METRICS[name].lower_is_better


def test_a_metric_of_the_users_own_works_with_its_interval():
    logits, target = draw(80)
    metric = SelectiveMetric(OWN)
    metric.update(logits, target)
    loss = (logits.argmax(1) != target).numpy()
    confidence = abstain.scores.max_softmax(logits.numpy())
    value = metric.compute()
    assert isinstance(value, torch.Tensor)
    assert value.item() == pytest.approx(float(OWN(loss, confidence)), rel=1e-12)
    expected = abstain.inference.interval(OWN, loss, confidence, level=0.9)
    assert metric.compute_with_interval(level=0.9) == expected
    again = pickle.loads(pickle.dumps(metric))
    assert again.compute() == value


def test_options_are_written_in_the_name_and_the_named_classes_agree():
    logits, target = draw(100)
    for by_name, named in (
        (SelectiveMetric("aurc:loo"), AURC(estimator="loo")),
        (
            SelectiveMetric("risk_at_coverage@0.7", thresholds=500),
            RiskAtCoverage(coverage=0.7, thresholds=500),
        ),
        (SelectiveMetric("naurc", thresholds=500), NAURC(thresholds=500)),
    ):
        by_name.update(logits, target)
        named.update(logits, target)
        assert torch.equal(by_name.compute(), named.compute())
        assert by_name.compute_bounds() == named.compute_bounds()


@pytest.mark.parametrize("metric", [OWN, "aupr_error", "aurc@0.5-1", "aurc:loo", "aurc:expected"])
def test_bins_refuse_what_they_cannot_certify(metric):
    with pytest.raises(InputError, match="Use thresholds=None"):
        SelectiveMetric(metric, thresholds=500)
    with pytest.raises(InputError, match="unknown metric"):
        SelectiveMetric("no such metric")


@pytest.mark.parametrize("thresholds", [None, 512])
def test_shards_merge_to_the_metric_of_all_samples(thresholds):
    logits, target = draw(300)
    for name, metric in metrics(thresholds=thresholds).items():
        shard, whole = metrics(thresholds=thresholds)[name], metrics(thresholds=thresholds)[name]
        metric.update(logits[:120], target[:120])
        shard.update(logits[120:], target[120:])
        whole.update(logits, target)
        from_dict = pickle.loads(pickle.dumps(metric))
        metric.merge_state(shard)
        from_dict.merge_state(shard.metric_state)
        assert metric.compute() == from_dict.compute() == whole.compute()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"loss": "cross_entropy"}, "loss='zero_one' and loss='cross_entropy'"),
        ({"score": "negative_entropy"}, "score='max_softmax' and score='negative_entropy'"),
        ({"input": "probs"}, "input='logits' and input='probs'"),
        ({"ignore_index": 255}, "ignore_index=None and ignore_index=255"),
        ({"thresholds": 512}, "thresholds=None and thresholds=512"),
    ],
)
def test_metrics_with_other_samples_do_not_merge(options, says):
    with pytest.raises(InputError, match=rf"^AURC: metrics with {says} cannot be merged\. .*\.$"):
        AURC().merge_state(AURC(**options))


@pytest.mark.parametrize(("thresholds", "other"), [(None, 512), (512, None), (512, 1024)])
def test_states_of_other_bins_do_not_merge(thresholds, other):
    with pytest.raises(InputError, match="a state of other `thresholds` cannot be merged"):
        AURC(thresholds=thresholds).merge_state(AURC(thresholds=other).metric_state)


@pytest.mark.parametrize("confidence", [None, torch.rand(40)])
def test_the_label_that_losses_ignore_is_refused_with_the_remedy(confidence):
    logits, target = draw(40)
    preds = logits if confidence is None else logits.argmax(1)
    marked = torch.where(torch.arange(40) < 10, -100, target)
    with pytest.raises(InputError, match="Pass ignore_index=-100"):
        AURC().update(preds, marked, confidence)
    metric = AURC(ignore_index=-100)
    metric.update(preds, marked, confidence)
    assert len(metric.samples()[0]) == 30


def test_soft_targets_are_refused_with_the_remedy():
    logits, _ = draw(40)
    with pytest.raises(ShapeError, match=r"target\.argmax\(1\)"):
        AURC().update(logits, logits.softmax(1))
