"""The paper's experiments on model outputs, as numbers; figures and claims read what these return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import abstain
from abstain import theory
from reproduction.kept import KeptOutputs
from reproduction.outputs import LOSSES, Outputs

# -------------------------------- estimators on small batches of one model's outputs

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
ESTIMATORS = ("harmonic", "log", "sele", "2sele", "loo")


def batches(n: int, size: int, rng: np.random.Generator, divisions: int = 1) -> np.ndarray:
    """Random divisions of n samples into batches, as indices (batches, size); what is left over stays out."""
    orders = [rng.permutation(n)[: n // size * size].reshape(-1, size) for _ in range(divisions)]
    return np.concatenate(orders)


def batch_estimates(
    loss: np.ndarray, confidence: np.ndarray, estimators: Sequence[str] = ESTIMATORS
) -> dict[str, np.ndarray]:
    """Every estimator on every batch: (batches, n) in, one value per batch out."""
    twice = {"2sele": "sele"}
    values: dict[str, np.ndarray] = {}
    for name in estimators:
        base: Any = twice.get(name, name)
        if base not in values:
            values[base] = np.asarray(abstain.aurc(loss, confidence, estimator=base))
        if name in twice:
            values[name] = 2 * values[base]
    return {name: values[name] for name in estimators}


def summary(values: np.ndarray, truth: float) -> dict[str, float]:
    """Mean and spread of batch estimates, and their errors against the population value.

    `mse` is the mean of squared errors, spread included; the paper's code plots the square of `bias` under
    that name.
    """
    error = values - truth
    bias = float(np.mean(error))
    return {
        "mean": float(np.mean(values)),
        "std": float(np.std(values)),
        "bias": bias,
        "mse": float(np.mean(error**2)),
        "mae": float(np.mean(np.abs(error))),
    }


def finite_study(
    outputs: Outputs | KeptOutputs,
    *,
    rng: int | np.random.Generator,
    sizes: Sequence[int] = SIZES,
    estimators: Sequence[str] = ESTIMATORS,
    divisions: int = 1,
) -> dict[str, Any]:
    """For both losses and every batch size: mean, spread, bias, MSE and MAE of every estimator.

    The population value is the harmonic estimator on the whole test set, as in the paper, which divides the
    test set once; more `divisions` make the means steadier.

    Returns
    -------
    {loss: {"population": value, "sizes": {n: {estimator: summary}}}}
    """
    generator = np.random.default_rng(rng)
    confidence = outputs.score()
    losses = {kind: outputs.loss(kind) for kind in LOSSES}
    study: dict[str, Any] = {
        kind: {"population": abstain.aurc(loss, confidence), "sizes": {}} for kind, loss in losses.items()
    }
    for size in (s for s in sizes if s <= len(outputs)):
        index = batches(len(outputs), size, generator, divisions)
        picked = confidence[index]
        for kind, loss in losses.items():
            values = batch_estimates(loss[index], picked, estimators)
            truth = study[kind]["population"]
            study[kind]["sizes"][size] = {name: summary(v, truth) for name, v in values.items()}
    return study


# -------------------------------- the six confidence scores at batch size 128, in both readings of norm and entropy

# the paper's names; "as published" marks the reading of its code where that differs from the text
SCORES = {
    "max_softmax": "MSP",
    "negative_entropy": "Negative entropy",
    "max_logit": "MaxLogit",
    "softmax_margin": "Softmax margin",
    "logit_norm": "Logit l2 norm",
    "normalised_max_logit": "MaxLogit / l2 norm",
    "negative_gini": "Negative Gini",
    "clamped_logit_entropy": "Entropy of logits (as published)",
    "probability_norm": "Softmax l2 norm (as published)",
}
NEEDS_LOGITS = ("max_logit", "logit_norm", "normalised_max_logit", "clamped_logit_entropy")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def score_study(outputs: Outputs, *, rng: int | np.random.Generator, size: int = 128) -> dict[str, Any]:
    """Batch estimates under every score and both losses, with quantiles for box plots.

    Returns
    -------
    {score: {loss: {"population": value, "estimators": {name: {summary..., "quantiles": [...]}}}}}
    """
    generator = np.random.default_rng(rng)
    index = batches(len(outputs), size, generator)
    losses = {kind: outputs.loss(kind) for kind in LOSSES}
    study: dict[str, Any] = {}
    for score in SCORES:
        if outputs.logits is None and score in NEEDS_LOGITS:
            continue
        confidence = outputs.score(score)
        study[score] = {kind: _one(loss, confidence, index) for kind, loss in losses.items()}
    return study


def _one(loss: np.ndarray, confidence: np.ndarray, index: np.ndarray) -> dict[str, Any]:
    truth = abstain.aurc(loss, confidence)
    estimators = {
        name: {**summary(values, truth), "quantiles": np.quantile(values, QUANTILES).tolist()}
        for name, values in batch_estimates(loss[index], confidence[index], ESTIMATORS).items()
    }
    return {"population": truth, "estimators": estimators}


# -------------------------------- AURC_a against AURC_p over many models


def two_forms(outputs: Outputs | KeptOutputs) -> dict[str, dict[str, float]]:
    """Both forms on one model's whole test set: AURC_p (harmonic weights) and AURC_a (-ln(1-G), G = r/(n+1))."""
    confidence = outputs.score()
    forms = {}
    for kind in LOSSES:
        loss = outputs.loss(kind)
        forms[kind] = {
            "p": abstain.aurc(loss, confidence),
            "a": abstain.metrics.aurc_given_cdf(loss, confidence),
        }
    return forms


def t_tests(p: Sequence[float], a: Sequence[float]) -> dict[str, float]:
    """Two-sided p-values of "same mean": unpaired (as in the paper) and paired, and the largest difference.

    The unpaired test weighs the difference against the spread *between models*, which is a thousand times larger
    than any difference within one; the paired test looks at the differences themselves.
    """
    from scipy.special import stdtr

    first, second = np.asarray(p, dtype=np.float64), np.asarray(a, dtype=np.float64)
    n, gap = len(first), first - second
    pooled = (np.var(first, ddof=1) + np.var(second, ddof=1)) / 2
    unpaired = float(np.mean(gap) / np.sqrt(2 * pooled / n))
    paired = float(np.mean(gap) / np.sqrt(np.var(gap, ddof=1) / n))
    return {
        "models": n,
        "unpaired_p": float(2 * stdtr(2 * n - 2, -abs(unpaired))),
        "paired_p": float(2 * stdtr(n - 1, -abs(paired))),
        "mean_difference": float(np.mean(gap)),
        "largest_difference": float(np.max(np.abs(gap))),
        "largest_relative": float(np.max(np.abs(gap) / first)),
        "share_p_above_a": float(np.mean(gap > 0)),
    }


def expected_gap(n: int) -> float:
    """Mean weight that AURC_a lacks: 1 - mean(-ln(1 - r/(n+1))), about (ln(2 pi n)/2 - 1)/n.

    AURC_p minus AURC_a is this times the mean loss of the samples it falls on, the most confident ones.
    """
    return float(1 - np.mean(abstain.metrics.rank_weights(n, estimator="log")))


def equivalence_study(forms: dict[str, dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Tests for each loss from the two forms of every model."""
    tests = {}
    for kind in LOSSES:
        pairs = [form[kind] for form in forms.values()]
        tests[kind] = t_tests([f["p"] for f in pairs], [f["a"] for f in pairs])
    return tests


# -------------------------------- how fast the estimators converge, where the population AURC is known exactly

RATE_SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
RATE_ESTIMATORS: tuple[Any, ...] = ("harmonic", "log", "loo", "sele")


def convergence_study(
    *, rng: int | np.random.Generator, sizes: Sequence[int] = RATE_SIZES, draws: int = 2**21
) -> dict[str, Any]:
    """Root mean squared error at each sample size, on the known populations, and its slope on log-log axes.

    About `draws` samples are drawn for every size, so that all points are equally well known.
    """
    generator = np.random.default_rng(rng)
    study: dict[str, Any] = {}
    for name in ("quadratic", "root", "unrelated"):
        population = theory.populations.NAMED[name]
        errors: dict[str, list[float]] = {e: [] for e in RATE_ESTIMATORS}
        for n in sizes:
            loss, confidence = population.sample((max(draws // n, 64), n), rng=generator)
            for estimator in RATE_ESTIMATORS:
                values = np.asarray(abstain.aurc(loss, confidence, estimator=estimator))
                errors[estimator].append(float(np.sqrt(np.mean((values - population.aurc) ** 2))))
        slopes = {e: slope(sizes[3:], v[3:]) for e, v in errors.items()}
        study[name] = {"aurc": population.aurc, "sizes": list(sizes), "rmse": errors, "slope": slopes}
    return study


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Least-squares slope of log(value) against log(size): -0.5 is the rate of a mean."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def weight_study(sizes: Sequence[int] = (8, 16, 32, 64, 128, 256, 512, 1024)) -> dict[str, Any]:
    """Average MSE of the weights against H_n/n, the paper's integral and (ln n)/n; crossings of the bias."""
    beta = np.linspace(0, 1, 2001)[:-1]
    rows = []
    for n in sizes:
        bias = {
            e: np.asarray(theory.weight_bias(beta, n, estimator=e))
            for e in ("harmonic", "log", "loo", "sele")
        }
        rows.append({
            "n": n,
            "mean_mse": {e: theory.mean_weight_mse(n, estimator=e) for e in ("harmonic", "log")},
            "harmonic_over_n": float(np.sum(1 / np.arange(1, n + 1)) / n),
            "integral": theory.mean_mse_order(n),
            "ln_over_n": float(np.log(n) / n),
            "mean_absolute_bias": {e: float(np.mean(np.abs(b))) for e, b in bias.items()},
            "bias_at_0": {e: float(b[0]) for e, b in bias.items()},
            "bias_near_1": {e: float(b[-1]) for e, b in bias.items()},
        })  # fmt: skip
    return {"rows": rows}


# -------------------------------- all experiments over all models, as one plain dictionary

FAMILIES = ("cifar10", "cifar100", "imagenet5k", "amazon2023", "digits")
WITH_SCORES = ("amazon2023", "imagenet5k", "digits")  # where the paper draws box plots
SEED = 20250713


def study_all(
    models: Sequence[Outputs | KeptOutputs],
    *,
    seed: int = SEED,
    divisions: int = 4,
    report: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Every experiment on every model; `report` is told what is being done."""
    results: dict[str, Any] = {}
    for outputs in models:
        report(outputs.name)
        results[outputs.name] = study_one(outputs, seed, divisions)
    report("theory and convergence")
    size = max(len(outputs) for outputs in models)
    return shortened({
        "seed": seed,
        "divisions": divisions,
        "models": results,
        "equivalence": {
            **equivalence_study({name: r["forms"] for name, r in results.items()}),
            "expected_gap": {"n": size, "weight": expected_gap(size)},
        },
        "convergence": convergence_study(rng=seed),
        "weights": weight_study(),
    })  # fmt: skip


def study_one(outputs: Outputs | KeptOutputs, seed: int, divisions: int) -> dict[str, Any]:
    """Every experiment on one model."""
    result = {
        "n": len(outputs),
        "accuracy": 1 - float(np.mean(outputs.loss("01"))),
        "finite": finite_study(outputs, rng=seed, divisions=divisions),
        "forms": two_forms(outputs),
        "score_aurc": outputs.aurc_by_score if isinstance(outputs, KeptOutputs) else aurc_by_score(outputs),
    }
    if isinstance(outputs, Outputs) and outputs.dataset in WITH_SCORES:
        result["scores"] = score_study(outputs, rng=seed)
    return result


def aurc_by_score(outputs: Outputs) -> dict[str, dict[str, float]]:
    """AURC of the whole test set: {score: {loss: value}}, for the scores that the outputs allow."""
    table = {}
    for score in SCORES:
        if outputs.logits is not None or score not in NEEDS_LOGITS:
            confidence = outputs.score(score)
            table[score] = {kind: float(abstain.aurc(outputs.loss(kind), confidence)) for kind in LOSSES}
    return table


def shortened(value: Any, digits: int = 7) -> Any:
    """Plain JSON values with floats cut to a few significant digits and string keys."""
    if isinstance(value, dict):
        return {str(k): shortened(v, digits) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(v, digits) for v in value]
    if isinstance(value, np.integer):
        return int(value)
    return float(f"{float(value):.{digits}g}") if isinstance(value, float | np.floating) else value
