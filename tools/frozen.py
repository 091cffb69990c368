"""Freeze the results of every public name on fixed inputs, and check later that none of them has changed.

    python tools/frozen.py freeze tests/frozen/results.json.gz
    python tools/frozen.py check tests/frozen/results.json.gz --without spark,dask

Only public names are called, so that files may move. A number has changed when it differs by more than 1e-12 of
itself (or of 1); an input that raises is frozen as the error's class and message. What is meant to change is listed
in `EXPECTED` with its reason; results that are new are counted and not compared.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import fnmatch
import gzip
import importlib
import inspect
import io
import itertools
import json
import logging
import math
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

# one thread, so that sums are made in one order; before numpy is imported, or it is too late
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", COLUMNS="100")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

import abstain

EXPECTED: dict[str, str] = {
    "evaluate/*/notes": "few errors are told of",
    "thresholds/refused/percent/error": "a risk that is no number is refused by name",
    "intervals/*/n": "a sample without weight is no draw",
    "bands/*/n": "as above",
    "formats/*/dtype": "whole numbers of tables stay whole",
    "cli/convert/*/dtype": "as above",
    "formats/written/table/.[cjt]s*": "as above, and are written so",
    "formats/*/broken-csv/message": "a cell of text has a remedy",
    "cli/*broken.csv*/errors": "as above",
    "cli/compare/*--engine files*/errors": "it is told that ids are not read",
    "[dfs]*/table/errors-3/notes": "as above, by dask, files and spark",
    "cli/evaluate/*/notes": "as above",
    "cli/evaluate/strong.npz --csv/output/*": "as above, in a column",
    "report/*/steps/by": "shares by class and by group are tables of their own (steps/parts), with errors",
    "report/*/steps/by_class": "as above",
    "report/*/steps/class_totals": "as above",
    "report/*/steps/classes": "as above",
    "cli/report/*/steps/by": "as above",
    "cli/report/*/steps/by_class": "as above",
    "cli/report/*/steps/class_totals": "as above",
    "cli/report/*/steps/classes": "as above",
    "cli/version/*": "plotly is not used any more; versions of what is installed",
    "thresholds/refused/risk": "a risk in percent is an error with its remedy",
    "thresholds/refused/risk/*": "as above",
    "sklearn/classifier/risk/*": "no certified threshold: predict without abstain_label is refused",
    "sklearn/classifier/risk": "as above",
    "sklearn/classifier/sgr/*": "as above",
    "sklearn/classifier/sgr": "as above",
    "ensembles/*/low*": "members and the averaged predictor have the limits of one model, on its scale",
    "ensembles/*/high*": "as above",
    "ensembles/*/text": "as above",
    "bands/refused/*": "curve_band has one method, and no parameter for it",
    "evaluate/display/intervals/high/*": "few effective errors: upper limits allow for errors on top that were missed",
    "evaluate/select/*/cell": "as above",
    "spark/refused/column/error": "a column that is not there is told in our words, as by every engine",
    "spark/refused/folder/error": "so is a folder without files",
    "costs/curve/*batch/*": "finding 16: a batch is refused in one clear line",
    "thresholds/*/format": "stored rules know their score and their data: format 2",
    "cli/threshold/*/format": "as above",
    "cli/threshold/weak.npz --check rule.json/code": "an alarm has an exit code of its own",
    "cli/threshold/*answers.csv*": "its clusters are the unit of the promise; they were ignored",
    "names/abstain/jax": "modules that need an extra are not in `__all__`",
    "names/abstain/sklearn": "as above",
    "names/abstain/torch": "as above",
    "names/abstain/paper": "the paper's experiments are in reproduction/, not in the package",
    "names/abstain.evaluation/Quantity": "an Interval says the same",
    "metrics/aurc_given_cdf/refused/message": "a CDF that is NaN is refused too, and the message says so",
    "metrics/naurc/2sele/*": "the best order is no better than the mean: refused, where 0 was a perfect score",
    "metrics/risk_at_coverage/1.0/*-fractional-weights": "rounding of fractional weights no longer stops short of 1",
    "jax/aurc_loss/float32/1/values/*": "gradients in float32: XLA fuses otherwise, the last bit differs",
    "torch/metrics/*_at_*/interval/*": "points have intervals in closed form, where they had a bootstrap",
    "torch/huggingface/stopping": "progress is paired, so the callback takes the metrics object, which has the samples",
    "torch/lightning": "progress is paired, and the metric is reset when a validation begins, not when it ends",
    "torch/*aurc_low": "the one error bar",
    "torch/*aurc_high": "as above",
    "scores/tune/normalised_max_logit/grid/*": "at p = 1 many rows are 1/2 but for rounding, which orders them anew",
    "sklearn/scorers/*/text": "a scorer's text names the metric, not a private function",
    "theory/plan_sample_size/*pilot/*": "finding 16: a pilot is planned with its own value, ties and all",
    "*/aurc_loss/*/refused/message": "one vocabulary: `target` of the loss is `labels`",
    "formats/read*/weight*": "the field is called sample_weight, as the argument",
    "formats/read*/notes": "was always empty and is gone",
    "formats/read*/used/group": "roles are called as the arguments: groups, sample_weight, clusters",
    "formats/read*/used/cluster": "as above",
    "formats/names/1*": "as above",
    "formats/limits/message": '"1 kB" is 1000 bytes; the flag is --memory',
    "cli/convert/*/weight": "the field is called sample_weight, as the argument",
    "cli/convert/*/notes": "was always empty and is gone",
    "cli/convert/*/used/*": "roles are called as the arguments: groups, sample_weight, clusters",
    "cli/evaluate/answers.csv --preview/output": "as above",
    "cli/evaluate/strong.npz --max-memory */errors": '"1 kB" is 1000 bytes; the flag is --memory',
    "*/evaluate/*/mass": "an evaluation does not show the sum of weights",
    "*/evaluate/*/loo": "nor where an interval is centred",
    "*/evaluate/loo-expected": "`evaluate` takes estimators by name; ties: see */aurc/loo-expected",
    "*/evaluate/ties/*/values/*/1": "weighted 0/1 losses have error bars for every metric",
    "*/evaluate/errors-0/values/naurc/1": "no error bar where nothing is known",
    "*/table/*/entries/*/low": "the interval of memory, on every engine",
    "*/table/*/entries/*/high": "as above",
    "*/table/*/entries/*/method": "as above",
    "*/table/*/entries/*/reason": "as above",
    "*/table/*/entries/*/standard_error": "as above",
    "*/table/groups/entries/*/estimate": "AUROC of weighted samples",
    "*/table/logits/entries/*": "in the order of memory: loss, metric, score",
    "*/compare*/p_value": "the one p-value (Student, degrees of freedom of the difference), in place of a normal one",
    "*/compare*/interval/*": "as above",
    "*/compare*/90%/*": "as above",
    "*/compare*/metric": "the label names the estimator",
    "intervals/*/low": "one home of the interval: few errors widen it, points and average precision in closed form",
    "intervals/*/high": "as above",
    "intervals/*/method": "points and average precision need no bootstrap; a mean over groups keeps to its scale",
    "intervals/*/centre": "as above",
    "intervals/*_at_*/standard_error": "as above: from the width of the closed form",
    "intervals/aupr_*/standard_error": "as above: from the influence function",
    "intervals/aupr_*/bca/*": "average precision has an influence function, so BCa is defined",
    "intervals/*_at_*/message": "a point refuses other methods in one sentence",
    "intervals/*/macro/standard_error": "clusters that cross groups are added up over groups",
    "i*/*aurc/*fractional-weights*": "finding 1: no scale of fractional weights shows in the oracle",
    "influence/standard_error/*aurc/*fractional-weights": "as above",
    "intervals/*aurc/groups-clusters-weights/*": "as above",
    "differences/*aurc/*/weights/*": "as above",
    "*/refused/*message": "points have closed forms; the message no longer sends to the bootstrap",
    "differences/*/low": "limits on the metric's scale, degrees of freedom of the difference, no verdict on few errors",
    "differences/*/high": "as above",
    "differences/*/p_value": "as above",
    "differences/*/significant": "as above",
    "evaluate/*/low": "closed forms for the points, the one interval for the rest",
    "evaluate/*/high": "as above; with few effective errors upper limits widen",
    "evaluate/*/standard_error": "as above",
    "evaluate/*/method": "as above: points are pointwise, precision has a logit interval",
    "evaluate/*/reason": "as above: numbers that had no interval have one",
    "evaluate/said/frame/low/*": "as above",
    "evaluate/said/frame/high/*": "as above",
    "evaluate/said/frame/standard_error/*": "as above",
    "evaluate/said/frame/method/*": "as above",
    "evaluate/said/t*": "as above, as text",
    "evaluate/grid/*": "as above",
    "evaluate/best/*/cell": "as above",
    "compare/*/low": "limits from those of either side, no verdict on few effective errors",
    "compare/*aurc/weights/*": "finding 1: no scale of fractional weights shows in the oracle",
    "compare/*/high": "limits on the metric's scale, degrees of freedom of the difference, no verdict on few errors",
    "compare/*/p_value": "as above",
    "compare/*/p_adjusted": "as above",
    "compare/*/different": "as above",
    "compare/*/samples_needed": "as above",
    "compare/*/group": "as above",
    "compare/*/rank_*": "as above",
    "compare/said/*frame/*": "as above",
    "compare/said/grid/*": "as above",
    "compare/said/t*": "as above, as text",
    "compare/said/sentences": "as above",
    "compare/pairs/*/weights/*/estimate": "oracles of fractional weights are those of the metrics",
    "compare/pairs/*/weights/*/difference": "as above",
    "compare/pairs/*/weights/*/standard_error": "as above",
    "compare/*/note": "says why there is no verdict",
    "compare/said/*": "as above",
    "differences/*/note": "as above",
    "differences/text/*": "as above",
    "intervals/text/*": "as above",
    "cli/help/*": "flags are called as the arguments: --memory, --rng, --groups; one text for a shared option",
    "cli/evaluate/*--replicates*": "`evaluate` needs no bootstrap: its flags are gone",
    "cli/evaluate/*--csv*/output/*/[6-9]": "one error bar (see _BARS), as columns",
    "cli/compare/*--csv/output/*/[4678]": "as above, and no verdict below ten errors",
    "cli/compare/strong.npz weak.npz*/output": "as above, as text",
    "cli/compare/answers.csv answers2.csv/output": "as above",
    "cli/evaluate/answers.csv/output": "as above",
    "cli/evaluate/strong.npz/output": "as above",
    "cli/evaluate/strong.npz --latex/output": "as above",
    "cli/evaluate/strong.npz -o told.txt/told.txt": "as above",
    "cli/evaluate/unclear.csv/output": "as above",
    "cli/evaluate/../engines/ties/output": "as above",
    "cli/demo/*/output": "as above",
    "report/two/comparison/winners": "no verdict below ten errors",
    "formats/names/0": "Excel workbooks are read",
    "cli/compare/*--csv/output/*": "differences from the best are columns, too",
    "compare/said/frame/*": "as above",
    "costs/clinical*/text": "one renderer of tables",
    "costs/clinical_table/value": "kept as JSON since it has that; frame and columns agree",
    "cli/compare/strong.npz/errors": "one spelling of an option: --score",
    "cli/compare/strong.npz other.npz/errors": "one message for labels, groups, clusters and ids that differ",
    "cli/evaluate/strong.npz --metrics accuracy/errors": "one spelling of an option: --metric",
    "cli/evaluate/strong.npz --scores guess/errors": "one spelling of an option: --score",
}
"""Glob pattern of the changed path (as `check` prints it) -> why it was meant to change."""

_BARS = {
    "entries": "standard_error low high method reason",
    "contestants": "low high rank_low rank_high group",
    "pairs": "low high p_value p_adjusted different",
    "forest": "low high",
    "estimators": "low high centre",
}
EXPECTED |= {
    f"{section}/*/{part}/*/{key}": "one error bar: intervals, p-values and verdicts of one home"
    for section in ("cli", "report")
    for part, keys in _BARS.items()
    for key in keys.split()
}

TOLERANCE = 1e-12
LONG = 128  # longer arrays are kept as samples of their values with their sum
SAMPLES = 64
SECTIONS: dict[str, Callable[[Record], None]] = {}

ESTIMATORS = ("harmonic", "log", "loo", "sele", "2sele")
TIES = ("threshold", "expected")
ORACLES = ("empirical", "asymptotic")
SMOOTH = ("aurc", "augrc", "risk", "oracle_aurc", "e_aurc", "naurc", "auroc", "prediction_rejection_ratio")
POINTS = {
    "risk_at_coverage": {"coverage": 0.7},
    "coverage_at_risk": {"risk": 0.1},
    "aupr_error": {},
    "aupr_success": {},
    "fpr_at_tpr": {"tpr": 0.9},
}


# values as JSON -------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """What JSON can hold, without the names of classes, which may change."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, (list, tuple, range, set, frozenset)):
        return _sequence(list(value))
    if hasattr(value, "columns") and hasattr(value, "to_dict"):
        return {str(name): _sequence(value[name].tolist()) for name in value.columns}
    return _array(value)


def _fields(value: Any) -> dict[str, Any]:
    """Fields and properties of a result; functions it carries are left out."""
    names = [field.name for field in dataclasses.fields(value)]
    names += [n for n, _ in inspect.getmembers(type(value), lambda member: isinstance(member, property))]
    found = {}
    for name in names:
        if name.startswith("_"):
            continue
        try:
            part = getattr(value, name)
        except Exception as error:
            part = _raised(error)
        if not callable(part):
            found[name] = plain(part)
    return found


def _sequence(values: list[Any]) -> Any:
    if len(values) > LONG and all(isinstance(v, (int, float)) for v in values):
        return _sampled(np.asarray(values, dtype=float))
    return [plain(v) for v in values]


def _array(value: Any) -> dict[str, Any]:
    library = type(value).__module__.split(".")[0]
    if library == "torch":
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    if array.dtype == object and array.shape == ():
        raise TypeError(f"cannot freeze a {type(value).__name__}")
    found = {"library": library, "dtype": str(array.dtype), "shape": list(array.shape)}
    numbers = array.dtype.kind in "biuf"
    if array.size > LONG and numbers:
        return found | _sampled(array.astype(float).ravel())
    return found | {"values": array.tolist()}


def _sampled(values: np.ndarray) -> dict[str, Any]:
    """Values at even distances, and sums that every value has a part in."""
    places = np.linspace(0, len(values) - 1, SAMPLES).astype(int)
    return _sums(values) | {"sample": values[places].tolist()}


def _sums(values: np.ndarray) -> dict[str, Any]:
    """The second sum also feels the order."""
    finite = np.where(np.isfinite(values), values, 0.0)
    return {
        "length": len(values),
        "not finite": int((~np.isfinite(values)).sum()),
        "sums": [math.fsum(finite), math.fsum(finite * np.cos(np.arange(len(finite))))],
        "size": math.fsum(np.abs(finite)),
    }


def _raised(error: BaseException) -> dict[str, Any]:
    return {"error": type(error).__name__, "message": str(error)}


class Record:
    """Results by readable path. Folders that differ from run to run are taken out of texts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.values: dict[str, Any] = {}

    def __call__(self, key: str, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
        """Call, keep the result under `key`, and hand it on (None after an error)."""
        if key in self.values:
            raise KeyError(f"{key} is kept twice")
        result = None
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                result = function(*arguments, **options)
                found = plain(result)
            except Exception as error:
                found = _raised(error)
        self.values[key] = self._clean(found)
        ours = [str(w.message) for w in told if issubclass(w.category, abstain.errors.AbstainWarning)]
        if ours:
            self.values[f"{key}/warnings"] = self._clean(ours)
        return result

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            # which part of a folder is read first is left to chance; engines are known once they were used
            value = re.sub(r"part-\d", "part-N", value.replace(str(self.folder), "<folder>"))
            return re.sub(r"\(registered: [^)]*\)", "(registered: ...)", value)
        if isinstance(value, dict):
            return {self._clean(name): self._clean(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self._clean(part) for part in value]
        return value


def said(result: Any) -> dict[str, Any]:
    """All that a result can say of itself: its text, tables, JSON, and whether JSON brings it back."""
    found: dict[str, Any] = {"text": repr(result)}
    for name in ("frame", "pairs_frame", "grid", "sentences", "facts", "to_markdown", "to_latex", "columns"):
        method = getattr(result, name, None)
        if callable(method):
            with contextlib.suppress(TypeError):  # `grid` of an evaluation needs a loss
                found[name] = method()
    if hasattr(result, "to_json"):
        text = result.to_json()
        found["json"] = json.loads(text)
        found["json brings it back"] = type(result).from_json(text).to_json() == text
    else:
        found["value"] = result
    return found


def as_json(result: Any) -> Any:
    """A result by its own JSON. Curves are left out of tables: they have a section of their own."""
    return {name: part for name, part in json.loads(result.to_json()).items() if name != "curves"}


def section(name: str) -> Callable[[Callable[[Record], None]], Callable[[Record], None]]:
    """Name the part of the net that a function freezes; its keys begin with that name."""

    def add(function: Callable[[Record], None]) -> Callable[[Record], None]:
        SECTIONS[name] = function
        return function

    return add


# inputs ---------------------------------------------------------------------------------------------------------------


def zero_one_sample(n: int, seed: int, levels: int | None = None, scale: float = 0.6) -> tuple[Any, Any]:
    """Losses 0 and 1, fewer errors where surer; `levels` makes ties."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(n)
    wrong = rng.random(n) < scale * (1 - confidence) ** 2
    if levels:
        confidence = np.round(confidence * levels) / levels
    return wrong.astype(float), confidence


def with_errors(count: int, n: int = 200) -> tuple[Any, Any]:
    """Exactly so many errors, at low confidences for the most part."""
    rng = np.random.default_rng(count)
    confidence = rng.random(n)
    loss = np.zeros(n)
    loss[np.argsort(confidence + 0.3 * rng.random(n))[:count]] = 1
    return loss, confidence


def samples() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Losses, confidences and options common to all metrics, of every kind."""
    rng = np.random.default_rng(0)
    tied, ties = zero_one_sample(200, 1, levels=20)
    whole, fractional = rng.integers(0, 4, 200), rng.random(200) + 0.01
    away = rng.random(200) < 0.15
    z = rng.normal(10, 9, 2000)
    saturated = (rng.random(2000) < 0.4 * np.exp(-np.abs(z) / 6), (1 / (1 + np.exp(-z))).astype(np.float32))
    real = (rng.random(200) * (1 - ties) + 0.05 * rng.random(200), ties)
    heavy = (rng.exponential(1, 200) ** 2 * (1.2 - ties), rng.normal(size=200))
    found = {
        "one-right": ([0.0], [0.3], {}),
        "one-wrong": ([1.0], [0.3], {}),
        "two": ([1, 0], [0.1, 0.9], {}),
        "two-upside-down": ([1, 0], [0.9, 0.1], {}),
        "three": ([0, 1, 0], [0.9, 0.5, 0.5], {}),
        "seven": ([0, 0, 1, 0, 1, 1, 0], [7, 6, 6, 5, 2, 2, 2], {}),
        "distinct-50": (*zero_one_sample(50, 2), {}),
        "all-tied-50": (zero_one_sample(50, 3)[0], np.full(50, 0.5), {}),
        "all-wrong-50": (np.ones(50), rng.random(50), {}),
        "integers-50": (rng.integers(0, 2, 50), rng.integers(-5, 6, 50), {}),
        "boolean-200": (tied.astype(bool), ties, {}),
        "negative-50": (rng.normal(size=50), rng.normal(size=50), {}),
        "ties-200": (tied, ties, {}),
        "float32-200": (real[0].astype(np.float32), real[1].astype(np.float32), {}),
        "real-200": (*real, {}),
        "unbounded-200": (*heavy, {}),
        "distinct-2000": (*zero_one_sample(2000, 4), {}),
        "saturated-2000": (*saturated, {}),
        "ties-whole-weights": (tied, ties, {"sample_weight": whole}),
        "ties-fractional-weights": (tied, ties, {"sample_weight": fractional}),
        "real-whole-weights": (*real, {"sample_weight": whole}),
        "real-fractional-weights": (*real, {"sample_weight": fractional}),
        "ties-abstained": (tied, ties, {"abstained": away}),
        "ties-abstained-weights": (tied, ties, {"abstained": away, "sample_weight": whole}),
        "real-abstained-weights": (*real, {"abstained": away, "sample_weight": fractional}),
        "batch": (rng.random((3, 50)) < 0.3, rng.integers(0, 25, (3, 50)) / 25, {}),
        "batch-weights": (
            rng.random((2, 40)),
            rng.integers(0, 25, (2, 40)) / 25,
            {"sample_weight": rng.integers(1, 4, (2, 40)), "abstained": rng.random((2, 40)) < 0.1},
        ),
    }
    return found | {f"errors-{count}": (*with_errors(count), {}) for count in (0, 1, 3, 15)}


def bad_samples() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Inputs that are refused."""
    good = [0.0, 1.0, 0.0]
    return {
        "empty": ([], [], {}),
        "nan-confidence": (good, [0.1, math.nan, 0.3], {}),
        "infinite-confidence": (good, [0.1, math.inf, 0.3], {}),
        "nan-loss": ([0.0, math.nan, 1.0], good, {}),
        "other-length": (good, [0.1, 0.2], {}),
        "class-scores": (good, np.zeros((3, 4)), {}),
        "words": (good, ["a", "b", "c"], {}),
        "complex": (good, np.array([1j, 2, 3]), {}),
        "negative-weights": (good, good, {"sample_weight": [1, -1, 1]}),
        "no-weight": (good, good, {"sample_weight": [0, 0, 0]}),
        "nan-weight": (good, good, {"sample_weight": [1, math.nan, 0]}),
        "other-weights": (good, good, {"sample_weight": [1, 2]}),
        "all-abstained": (good, good, {"abstained": [True] * 3}),
        "odd-mask": (good, good, {"abstained": [0.5, 0, 1]}),
    }


def metric_options() -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Every metric with every choice of its options, by name."""
    for estimator, ties in itertools.product(ESTIMATORS, TIES):
        yield f"aurc/{estimator}/{ties}", abstain.aurc, {"estimator": estimator, "ties": ties}
        for oracle in ORACLES:
            options = {"estimator": estimator, "ties": ties, "oracle": oracle}
            for metric in (abstain.e_aurc, abstain.naurc):
                yield f"{metric.__name__}/{estimator}/{ties}/{oracle}", metric, options
    for estimator, oracle in itertools.product(ESTIMATORS, ORACLES):
        options = {"estimator": estimator, "oracle": oracle}
        yield f"oracle_aurc/{estimator}/{oracle}", abstain.oracle_aurc, options
    for ties in TIES:
        yield f"augrc/{ties}", abstain.augrc, {"ties": ties}
    for name in ("risk", "auroc", "aupr_error", "aupr_success", "prediction_rejection_ratio"):
        yield name, getattr(abstain, name), {}
    for coverage in (0.1, 0.5, 0.9, 1.0):
        yield f"risk_at_coverage/{coverage}", abstain.risk_at_coverage, {"coverage": coverage}
    for risk in (0.0, 0.05, 0.2, 1.0):
        yield f"coverage_at_risk/{risk}", abstain.coverage_at_risk, {"risk": risk}
    for tpr in (0.5, 0.95, 1.0):
        yield f"fpr_at_tpr/{tpr}", abstain.fpr_at_tpr, {"tpr": tpr}
    for threshold in (None, 0.4):
        options = {"cost": 0.2, "threshold": threshold}
        yield f"rejection_cost/{threshold}", abstain.rejection_cost, options
        yield f"rejection_cost/free/{threshold}", abstain.rejection_cost, options | {"cost": 0.0}


def default_metrics() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Every metric once."""
    needed = POINTS | {"rejection_cost": {"cost": 0.2}}
    names = (*SMOOTH, *needed)
    return {name: (getattr(abstain, name), needed.get(name, {})) for name in names}


def class_scores(n: int = 60, classes: int = 5, seed: int = 0, signal: float = 2.0) -> tuple[Any, Any]:
    """Logits and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes))
    logits[np.arange(n), labels] += signal
    return logits, labels


def softmax(logits: Any) -> Any:
    """Probabilities, each row by its own largest logit."""
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    return odds / odds.sum(-1, keepdims=True)


# names ----------------------------------------------------------------------------------------------------------------


@section("names")
def names(keep: Record) -> None:
    """Public names: one that vanishes is a change, one that is new is none."""
    homes = """metrics inference scores losses thresholds evaluation engines engines.files engines.dask engines.spark
        torch jax sklearn theory compat formats display report errors"""
    for home in ("abstain", *(f"abstain.{part}" for part in homes.split())):
        keep(
            f"names/{home}",
            lambda home=home: dict.fromkeys(public_names(importlib.import_module(home)), "public"),
        )


def public_names(module: Any) -> list[str]:
    """Those it lists, or else those it defines."""
    own = [
        name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    ]
    return sorted(getattr(module, "__all__", None) or [name for name in own if not name.startswith("_")])


# metrics, scores, losses ----------------------------------------------------------------------------------------------


@section("metrics")
def metrics(keep: Record) -> None:
    """Every metric with every option on every sample, and what is refused."""
    for case, (loss, confidence, more) in samples().items():
        for name, metric, options in metric_options():
            keep(f"metrics/{name}/{case}", metric, loss, confidence, **options, **more)
        keep(f"metrics/aurc_given_cdf/{case}", abstain.aurc_given_cdf, loss, confidence)
        keep(f"metrics/best_rejection/{case}", abstain.best_rejection, loss, confidence, cost=0.2, **more)
        keep(f"metrics/risk_without_confidence/{case}", abstain.risk, loss, **more)
        keep(f"metrics/oracle_without_confidence/{case}", abstain.oracle_aurc, loss, **more)
    for case, (loss, confidence, more) in bad_samples().items():
        for name, (metric, options) in default_metrics().items():
            keep(f"metrics/{name}/refused/{case}", metric, loss, confidence, **options, **more)
    loss, confidence, _ = samples()["ties-200"]
    own_cdf = {"cdf": lambda g: 0.9 * g, "sample_weight": np.arange(200) % 3}
    keep("metrics/aurc_given_cdf/own", abstain.aurc_given_cdf, loss, confidence, **own_cdf)
    keep("metrics/aurc_given_cdf/refused", abstain.aurc_given_cdf, loss, confidence, cdf=lambda g: g)
    wrong = {
        "aurc/estimator": (abstain.aurc, {"estimator": "best"}),
        "aurc/ties": (abstain.aurc, {"ties": "row order"}),
        "aurc/unknown": (abstain.aurc, {"nonsense": 4}),
        "e_aurc/oracle": (abstain.e_aurc, {"oracle": "delphi"}),
        "risk_at_coverage/two": (abstain.risk_at_coverage, {"coverage": 2}),
        "risk_at_coverage/none": (abstain.risk_at_coverage, {"coverage": 0}),
        "coverage_at_risk/negative": (abstain.coverage_at_risk, {"risk": -1}),
        "fpr_at_tpr/two": (abstain.fpr_at_tpr, {"tpr": 2}),
        "rejection_cost/negative": (abstain.rejection_cost, {"cost": -1}),
    }
    for name, (metric, options) in wrong.items():
        keep(f"metrics/refused-options/{name}", metric, loss, confidence, **options)


@section("groups")
def groups(keep: Record) -> None:
    """Every metric by group."""
    loss, confidence, _ = samples()["ties-200"]
    real = samples()["real-200"][0]
    rng = np.random.default_rng(8)
    labels = {
        "numbers": rng.integers(0, 3, 200),
        "words": np.array(["law", "art", "war"])[rng.integers(0, 3, 200)],
    }
    more = {"sample_weight": rng.integers(1, 4, 200), "abstained": rng.random(200) < 0.1}
    for name, (metric, options) in default_metrics().items():
        for kind, given in labels.items():
            keep(f"groups/{name}/{kind}", metric, loss, confidence, groups=given, **options)
        keep(f"groups/{name}/columns", metric, loss, confidence, groups=given, **options, **more)
        keep(f"groups/{name}/real", metric, real, confidence, groups=given, **options)
        keep(f"groups/{name}/refused", metric, loss, confidence, groups=given[:5], **options)
    keep("groups/text", lambda: repr(abstain.aurc(loss, confidence, groups=given)))
    keep("groups/lists", abstain.aurc, loss.tolist(), confidence.tolist(), groups=given.tolist())
    keep("groups/balanced_weights", abstain.balanced_weights, given)


@section("arrays")
def arrays(keep: Record) -> None:
    """The same metrics from other array libraries, other dtypes and read-only memory."""
    import jax.numpy as jnp
    import torch

    loss, confidence, _ = samples()["real-200"]
    zero_one = samples()["ties-200"][0]
    frozen = confidence.copy()
    frozen.flags.writeable = False
    kinds = {
        "torch64": (torch.tensor(zero_one), torch.tensor(confidence)),
        "torch32": (torch.tensor(zero_one).float(), torch.tensor(confidence).float()),
        "torch-batch": (torch.tensor(zero_one).reshape(4, 50), torch.tensor(confidence).reshape(4, 50)),
        "jax": (jnp.asarray(zero_one), jnp.asarray(confidence)),
        "read-only": (zero_one, frozen),
        "lists": (zero_one.tolist(), confidence.tolist()),
        "float16": (zero_one.astype(np.float16), confidence.astype(np.float16)),
        "uint8": (zero_one.astype(np.uint8), (confidence * 20).astype(np.uint8)),
        "fortran": (np.asfortranarray(zero_one.reshape(4, 50)), np.asfortranarray(confidence.reshape(4, 50))),
        "strided": (zero_one[::2], confidence[::2]),
    }
    for kind, (l, g) in kinds.items():
        for name, (metric, options) in default_metrics().items():
            keep(f"arrays/{name}/{kind}", metric, l, g, **options)
        keep(f"arrays/curve/{kind}", abstain.risk_coverage_curve, l, g)
        keep(f"arrays/weights/{kind}", abstain.weights, g)
    real = (torch.tensor(loss), torch.tensor(confidence))
    for estimator, ties in itertools.product(ESTIMATORS, TIES):
        options = {"estimator": estimator, "ties": ties}
        keep(f"arrays/aurc/torch-real/{estimator}/{ties}", abstain.aurc, *real, **options)


@section("curves")
def curves(keep: Record) -> None:
    """All columns of the curve, and the lines that are drawn."""
    for case, (loss, confidence, more) in (samples() | bad_samples()).items():
        keep(f"curves/{case}", abstain.risk_coverage_curve, loss, confidence, **more)
        keep(f"curves/display/{case}", _display_frame, loss, confidence, **more)
    loss, confidence, _ = samples()["ties-200"]
    curve = abstain.risk_coverage_curve(loss, confidence)
    keep(
        "curves/from_curves",
        lambda: abstain.RiskCoverageDisplay.from_curves({"a": curve, "b": curve}).frame(),
    )
    long = np.linspace(0, 1, 5000)
    keep("curves/thinned", abstain.display.thinned, "a", long, long**2)
    keep("curves/thinned/20", abstain.display.thinned, "a", long, long**2, 20)
    rows = abstain.display.IntervalDisplay(
        ("a", "b"), (0.1, 0.2), (0.05, None), (0.2, None), "AURC", ("", "x")
    )
    keep("curves/intervals", rows.frame)


def _display_frame(loss: Any, confidence: Any, **more: Any) -> Any:
    return abstain.RiskCoverageDisplay.from_losses(loss, confidence, name="model", **more).frame()


@section("pictures")
def pictures(keep: Record) -> None:
    """What is drawn, by the data of its lines and its words; not how it looks."""
    loss, confidence, _ = samples()["ties-200"]
    first, a, second, b = two_models()
    models = {"a": (first, a), "b": (second, b)}
    options = {"progress": False}
    table = abstain.evaluate(
        loss=loss, confidence={"x": confidence, "y": -confidence}, metrics="aurc", **options
    )
    makers = {
        "curve": abstain.RiskCoverageDisplay.from_losses(loss, confidence, name="model"),
        "intervals": abstain.compare(models).display(),
        "comparison": abstain.compare(models),
        "evaluation": table,
        "threshold": abstain.select_threshold(loss, confidence, risk=0.3),
        "cost_curve": abstain.cost_curve(loss, confidence, cost=0.2),
        "ensemble": abstain.expected_aurc(loss=[first, second], confidence=[a, b]),
    }
    for name, made in makers.items():
        keep(f"pictures/{name}", drawn, made.plot)


def drawn(plot: Callable[..., Any]) -> dict[str, Any]:
    """Lines and words of a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, ax = pyplot.subplots()
    plot(ax)
    legend = ax.get_legend()
    found = {
        "lines": [[line.get_label(), line.get_xdata(), line.get_ydata()] for line in ax.lines],
        "words": [ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), *(text.get_text() for text in ax.texts)],
        "legend": [text.get_text() for text in legend.get_texts()] if legend else [],
        "ticks": [text.get_text() for text in ax.get_yticklabels()],
    }
    pyplot.close(figure)
    return found


@section("weights")
def weights(keep: Record) -> None:
    """Weights by rank and by confidence."""
    for estimator in (*ESTIMATORS, "best"):
        for n in (0, 1, 2, 3, 7, 50, 2000):
            keep(f"weights/rank_weights/{estimator}/{n}", abstain.rank_weights, n, estimator=estimator)
        for ties in TIES:
            for case in (
                "one-right",
                "seven",
                "ties-200",
                "ties-whole-weights",
                "ties-fractional-weights",
                "batch",
            ):
                _, confidence, more = samples()[case]
                options = {"estimator": estimator, "ties": ties, **more}
                keep(f"weights/weights/{estimator}/{ties}/{case}", abstain.weights, confidence, **options)


@section("scores")
def scores(keep: Record) -> None:
    """Every score of logits and probabilities: keys, displayed numbers, options, tuning."""
    rng = np.random.default_rng(3)
    logits, _ = class_scores(30)
    kinds = {
        "usual": logits,
        "float32": logits.astype(np.float32),
        "float16": logits.astype(np.float16),
        "saturated": np.concatenate([logits * 40, logits * 400]),
        "two-classes": logits[:, :2],
        "ties": np.round(logits),
        "integers": np.round(logits).astype(int),
        "images": logits.reshape(3, 10, 5),
        "minus-infinity": np.where(rng.random(logits.shape) < 0.2, -np.inf, logits),
        "many-classes": rng.normal(size=(10, 1000)) * 3,
        "one-row": logits[0],
        "nan": np.full((2, 3), np.nan),
        "one-class": logits[:, :1],
    }
    probs = {
        "usual": softmax(logits),
        "float32": softmax(logits).astype(np.float32),
        "saturated": softmax(logits * 40),
        "one-hot": np.eye(5)[[0, 1, 1]],
        "not-normalised": softmax(logits) * 1.1,
        "negative": logits,
    }
    one = (*abstain.scores.NAMES, *abstain.scores.READING_NAMES)
    for name in one:
        function = getattr(abstain.scores, name)
        for kind, given in kinds.items():
            key = keep(f"scores/{name}/logits/{kind}", function, given)
            if key is not None:
                keep(f"scores/{name}/logits/{kind}/display", abstain.scores.display, name, key)
        for kind, given in probs.items():
            keep(f"scores/{name}/probs/{kind}", function, probs=given)
        for parameter, values in {
            "temperature": (0.5, 3.0, 0.0),
            "p": (1.0, 3.0, -1.0),
            "floor": (1e-3,),
        }.items():
            for value in values if parameter in inspect.signature(function).parameters else ():
                keep(f"scores/{name}/{parameter}/{value}", function, logits, **{parameter: value})
        keep(f"scores/{name}/by_name", abstain.scores.by_name(name), logits)
        keep(f"scores/{name}/both", function, logits, probs=softmax(logits))
        keep(f"scores/{name}/nothing", function)
        keep(
            f"scores/{name}/facts",
            lambda name=name: [repr(abstain.scores.by_name(name)), abstain.scores.by_name(name)],
        )
    members = np.stack([class_scores(30, signal=s)[0] + 0.3 * rng.normal(size=(30, 5)) for s in (1, 2, 3)])
    for name in (*abstain.scores.ENSEMBLE_NAMES, "pooled_log_probs"):
        function = getattr(abstain.scores, name)
        for kind, given in {
            "usual": members,
            "saturated": members * 50,
            "one": members[:1],
            "flat": members[0, 0],
        }.items():
            keep(f"scores/{name}/logits/{kind}", function, given)
        keep(f"scores/{name}/probs", function, probs=softmax(members))
        if name != "pooled_log_probs":
            keep(f"scores/{name}/display", lambda n=name, f=function: abstain.scores.display(n, f(members)))
    _more_scores(keep, logits)


def _more_scores(keep: Record, logits: Any) -> None:
    labels = class_scores(30)[1]
    keep("scores/by_name/unknown", abstain.scores.by_name, "guess")
    keep("scores/by_name/own", lambda: abstain.scores.by_name(lambda z: z[..., 0])(logits))
    keep("scores/saturation/confidence", abstain.scores.saturation, samples()["saturated-2000"][1])
    keep("scores/saturation/probs", abstain.scores.saturation, probs=softmax(logits * 40))
    keep("scores/saturation/none", abstain.scores.saturation, np.arange(5.0))
    for name in ("max_softmax", "probability_norm", "normalised_max_logit", "energy", "max_logit"):
        keep(f"scores/tune/{name}", abstain.scores.tune, name, logits, labels)
        options = {"grid": (0.5, 1, 2, 4), "loss": "brier", "metric": "augrc"}
        keep(f"scores/tune/{name}/grid", abstain.scores.tune, name, logits, labels, **options)
    keep("scores/tune/probs", abstain.scores.tune, "max_softmax", labels=labels, probs=softmax(logits))


@section("losses")
def losses(keep: Record) -> None:
    """Every loss of logits, probabilities and targets."""
    logits, labels = class_scores(30)
    kinds = {
        "usual": logits,
        "float32": logits.astype(np.float32),
        "saturated": logits * 100,
        "ties": np.round(logits),
        "two-classes": np.round(logits[:, :2]),
    }
    options = {
        "zero_one": [{}],
        "top_k": [{}, {"k": 1}, {"k": 2}, {"k": 0}],
        "cross_entropy": [{}, {"temperature": 2.0}, {"clip": 0.5}, {"temperature": 0.0}],
        "brier": [{}, {"temperature": 2.0}],
    }
    for name, function in ((name, getattr(abstain.losses, name)) for name in abstain.losses.NAMES):
        for kind, given in kinds.items():
            truth = labels % given.shape[1]
            for more in options[name]:
                told = "".join(f"/{k}-{v}" for k, v in more.items())
                keep(f"losses/{name}/logits/{kind}{told}", function, given, truth, **more)
                keep(f"losses/{name}/probs/{kind}{told}", function, None, truth, probs=softmax(given), **more)
        keep(f"losses/{name}/images", function, logits.reshape(3, 10, 5), labels.reshape(3, 10))
        keep(f"losses/{name}/by_name", abstain.losses.by_name(name), logits, labels)
        keep(
            f"losses/{name}/facts",
            lambda n=name: [repr(abstain.losses.by_name(n)), abstain.losses.by_name(n)],
        )
        keep(f"losses/{name}/refused/labels", function, logits, labels + 5)
        keep(f"losses/{name}/refused/shape", function, logits, labels[:7])
        keep(f"losses/{name}/refused/floats", function, logits, labels + 0.5)
    for name in abstain.losses.REGRESSION_NAMES:
        function = getattr(abstain.losses, name)
        keep(f"losses/{name}", function, logits[:, 0], logits[:, 1])
        keep(f"losses/{name}/integers", function, labels, labels[::-1])
        keep(f"losses/{name}/refused", function, labels, labels[:5])
    keep("losses/by_name/unknown", abstain.losses.by_name, "regret")


# error bars -----------------------------------------------------------------------------------------------------------


def inference_samples() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Those samples that are vectors, with clusters and strata besides."""
    found = {name: case for name, case in samples().items() if not name.startswith("batch")}
    rng = np.random.default_rng(9)
    tied, ties, _ = found["ties-200"]
    real = found["real-200"][0]
    clusters, strata = np.sort(rng.integers(0, 40, 200)), rng.integers(0, 3, 200)
    weight = rng.random(200)
    return found | {
        "ties-clusters": (tied, ties, {"clusters": clusters}),
        "real-clusters-weights": (real, ties, {"clusters": clusters, "sample_weight": weight}),
        "ties-clusters-abstained": (tied, ties, {"clusters": clusters, "abstained": rng.random(200) < 0.1}),
        "ties-strata": (tied, ties, {"strata": strata}),
        "ties-word-clusters": (tied, ties, {"clusters": np.array(list("abcdefgh"))[clusters % 8]}),
    }


@section("influence")
def influence(keep: Record) -> None:
    """Influence functions and standard errors."""
    for case, (loss, confidence, more) in inference_samples().items():
        own = {k: v for k, v in more.items() if k != "strata"}
        for metric in SMOOTH:
            keep(
                f"influence/standard_error/{metric}/{case}",
                abstain.inference.standard_error,
                metric,
                loss,
                confidence,
                **own,
            )
            if "clusters" not in own and not case.startswith(("distinct", "saturated")):
                keep(
                    f"influence/{metric}/{case}",
                    abstain.inference.influence,
                    metric,
                    loss,
                    confidence,
                    **own,
                )
    loss, confidence, _ = samples()["ties-200"]
    for metric, estimator, ties in itertools.product(("aurc", "naurc"), ESTIMATORS, TIES):
        options = {"estimator": estimator, "ties": ties}
        keep(
            f"influence/{metric}/{estimator}/{ties}",
            abstain.inference.influence,
            metric,
            loss,
            confidence,
            **options,
        )
    keep(
        "influence/refused",
        abstain.inference.influence,
        "risk_at_coverage",
        loss,
        confidence,
        coverage=0.5,
    )
    for oracle in ORACLES:
        keep(
            f"influence/e_aurc/{oracle}",
            abstain.inference.influence,
            "e_aurc",
            loss,
            confidence,
            oracle=oracle,
        )


@section("intervals")
def intervals(keep: Record) -> None:
    """Intervals of every metric by every method."""
    interval = abstain.inference.interval
    for case, (loss, confidence, more) in inference_samples().items():
        for metric in SMOOTH:
            keep(f"intervals/{metric}/default/{case}", interval, metric, loss, confidence, **more)
        for metric, options in POINTS.items():
            rest = {"replicates": 100, "rng": 1, **options, **more}
            keep(f"intervals/{metric}/default/{case}", interval, metric, loss, confidence, **rest)
    some = ("ties-200", "real-200", "errors-3", "errors-0", "negative-50", "ties-clusters", "ties-abstained-weights",
            "real-fractional-weights", "ties-strata", "seven")  # fmt: skip
    for case in some:
        loss, confidence, more = inference_samples()[case]
        for metric, method in itertools.product(
            SMOOTH, ("log", "logit", "normal", "jackknife", "bootstrap", "bca")
        ):
            rest = {"replicates": 100, "rng": 2, **more}
            keep(
                f"intervals/{metric}/{method}/{case}",
                interval,
                metric,
                loss,
                confidence,
                method=method,
                **rest,
            )
        for metric, options in POINTS.items():
            rest = {"replicates": 100, "rng": 2, **options, **more}
            keep(f"intervals/{metric}/bca/{case}", interval, metric, loss, confidence, method="bca", **rest)
    _interval_options(keep)


def _interval_options(keep: Record) -> None:
    interval = abstain.inference.interval
    loss, confidence, _ = samples()["ties-200"]
    for metric, estimator, ties in itertools.product(("aurc", "e_aurc", "naurc"), ESTIMATORS, TIES):
        options = {"estimator": estimator, "ties": ties}
        keep(f"intervals/{metric}/{estimator}/{ties}", interval, metric, loss, confidence, **options)
        if metric == "aurc":
            rest = {"method": "bootstrap", "replicates": 100, "rng": 3, **options}
            keep(
                f"intervals/{metric}/{estimator}/{ties}/bootstrap", interval, metric, loss, confidence, **rest
            )
    for metric in ("e_aurc", "naurc", "oracle_aurc"):
        keep(f"intervals/{metric}/asymptotic", interval, metric, loss, confidence, oracle="asymptotic")
    labels = np.arange(200) % 3
    rest = {"clusters": np.arange(200) // 5, "sample_weight": np.arange(200) % 4 + 0.5}
    for metric in SMOOTH:
        keep(f"intervals/{metric}/groups", interval, metric, loss, confidence, groups=labels)
        keep(
            f"intervals/{metric}/groups-clusters-weights",
            interval,
            metric,
            loss,
            confidence,
            groups=labels,
            **rest,
        )
    for level in (0.5, 0.9, 0.999, 0.0, 1.0):
        keep(f"intervals/aurc/level/{level}", interval, "aurc", loss, confidence, level=level)
    for bound in (None, 1.0, 5.0):
        keep(
            f"intervals/aurc/loss_bound/{bound}",
            interval,
            "aurc",
            np.zeros(30),
            np.arange(30),
            loss_bound=bound,
        )
    keep("intervals/aurc/function", interval, abstain.aurc, loss, confidence)
    keep("intervals/aurc/generator", interval, "aurc", loss, confidence, method="bootstrap", replicates=100,
         rng=np.random.default_rng(5))  # fmt: skip
    keep(
        "intervals/refused/replicates", interval, "aurc", loss, confidence, method="bootstrap", replicates=20
    )
    keep("intervals/refused/metric", interval, "accuracy", loss, confidence)
    keep("intervals/refused/method", interval, "aurc", loss, confidence, method="magic")
    keep("intervals/refused/option", interval, "aurc", loss, confidence, coverage=0.5)
    keep("intervals/refused/batch", interval, "aurc", loss.reshape(2, 100), confidence.reshape(2, 100))
    keep("intervals/text", lambda: repr(interval("aurc", loss, confidence)))
    keep("intervals/text/groups", lambda: repr(interval("aurc", loss, confidence, groups=labels)))


def two_models(n: int = 200, seed: int = 20) -> tuple[Any, Any, Any, Any]:
    """Loss and confidence of two models on the same samples, the second with ties and better."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    a, b = z + rng.normal(size=n), np.round(z + 0.6 * rng.normal(size=n), 1)
    first, second = ((rng.random(n) < 0.5 / (1 + np.exp(1.5 * z))).astype(float) for _ in range(2))
    return first, a, second, b


@section("differences")
def differences(keep: Record) -> None:
    """Paired and unpaired tests."""
    paired, unpaired = abstain.inference.paired_difference, abstain.inference.unpaired_difference
    rng = np.random.default_rng(21)
    four = two_models()
    three = (with_errors(3)[0], four[1], with_errors(15)[0], four[3])
    real = (four[0] * rng.random(200), four[1], four[2] * rng.random(200), four[3])
    weight, clusters, away = rng.random(200), np.arange(200) // 4, rng.random(200) < 0.1
    columns = {
        "plain": {},
        "weights": {"sample_weight": weight},
        "clusters": {"clusters": clusters},
        "strata": {"strata": np.arange(200) % 3},
        "abstained": {"abstained_a": away, "abstained_b": away[::-1]},
        "level": {"level": 0.8},
    }
    apart = {
        "plain": {},
        "weights": {"sample_weight_a": weight, "sample_weight_b": weight[::-1]},
        "clusters": {"clusters_a": clusters, "clusters_b": clusters // 2},
        "abstained": {"abstained_a": away},
    }
    kinds = {"zero-one": four, "few-errors": three, "real": real, "same": (*four[:2], *four[:2])}
    for (kind, given), metric in itertools.product(kinds.items(), SMOOTH):
        for name, more in columns.items():
            keep(f"differences/paired/{metric}/{kind}/{name}", paired, *given, metric=metric, **more)
        for name, more in apart.items():
            keep(f"differences/unpaired/{metric}/{kind}/{name}", unpaired, *given, metric=metric, **more)
    for estimator, ties in itertools.product(ESTIMATORS, TIES):
        options = {"estimator": estimator, "ties": ties}
        keep(f"differences/paired/aurc/{estimator}/{ties}", paired, *four, **options)
    other = (*four[:2], four[2][:150], four[3][:150])
    keep("differences/unpaired/other-length", unpaired, *other)
    keep("differences/refused/length", paired, *other)
    keep("differences/refused/metric", paired, *four, metric="risk_at_coverage", coverage=0.5)
    keep("differences/text", lambda: [repr(paired(*four)), repr(unpaired(*four))])


@section("bands")
def bands(keep: Record) -> None:
    """Bands around the curve."""
    for case, (loss, confidence, more) in inference_samples().items():
        keep(f"bands/{case}", abstain.inference.curve_band, loss, confidence, replicates=100, rng=4, **more)
    loss, confidence, _ = samples()["ties-200"]
    grid = {"coverage": [0.2, 0.5, 1.0], "level": 0.8, "replicates": 100}
    keep("bands/grid", abstain.inference.curve_band, loss, confidence, **grid)
    keep("bands/refused", abstain.inference.curve_band, loss, confidence, method="magic")
    keep("bands/text", lambda: repr(abstain.inference.curve_band(loss, confidence, replicates=100)))


# tables ---------------------------------------------------------------------------------------------------------------


@section("evaluate")
def evaluate(keep: Record) -> None:
    """The table of one model."""
    logits, labels = class_scores(120)
    rng = np.random.default_rng(30)
    columns = {
        "weights": {"sample_weight": rng.random(120) + 0.1},
        "whole-weights": {"sample_weight": rng.integers(1, 4, 120)},
        "abstained": {"abstained": rng.random(120) < 0.1},
        "groups": {"groups": np.array(["a", "b"])[rng.integers(0, 2, 120)]},
        "clusters": {"clusters": np.arange(120) // 4},
        "all": {
            "groups": rng.integers(0, 2, 120),
            "sample_weight": rng.integers(1, 3, 120),
            "abstained": rng.random(120) < 0.1,
        },
    }
    options = {"progress": False}
    run = lambda *given, **more: as_json(abstain.evaluate(*given, **options, **more))  # noqa: E731
    keep("evaluate/said", lambda: said(abstain.evaluate(logits, labels, groups=labels % 2, **options)))
    keep("evaluate/logits", run, logits, labels)
    keep("evaluate/logits/everything", run, logits, labels, scores="all", losses="all", metrics="all")
    keep("evaluate/probs", run, labels=labels, probs=softmax(logits))
    for name, more in columns.items():
        keep(
            f"evaluate/logits/{name}",
            run,
            logits,
            labels,
            **more,
            metrics=["aurc", "naurc", "auroc", "risk_at_coverage"],
        )
    for case in (
        "seven",
        "ties-200",
        "real-200",
        "negative-50",
        "saturated-2000",
        "errors-0",
        "errors-3",
        "all-wrong-50",
    ):
        loss, confidence, _ = samples()[case]
        keep(f"evaluate/loss/{case}", run, loss=loss, confidence=confidence, metrics="all")
    loss, confidence, _ = samples()["ties-200"]
    named = {"confidence": {"a": confidence, "b": confidence**2}, "loss": {"x": loss, "y": 1 - loss}}
    keep(
        "evaluate/named",
        run,
        **named,
        metrics=["aurc:loo", "risk_at_coverage@0.9", "coverage_at_risk@0.2"],
        level=0.9,
    )
    keep(
        "evaluate/custom", run, logits, labels, scores=[lambda z: z[..., 0]], losses=["brier"], metrics="aurc"
    )
    keep("evaluate/no-bootstrap", lambda: as_json(abstain.evaluate(logits, labels)))
    found = abstain.evaluate(
        logits, labels, groups=labels % 2, scores=["max_softmax", "max_logit"], **options
    )
    keep("evaluate/best", lambda: [found.best(), found.best("auroc"), found.worst_group()])
    keep("evaluate/select", found.select, metric="aurc", loss="zero_one")
    keep("evaluate/grid", found.grid, "zero_one")
    abstain.evaluation.register_engine(
        "frozen", lambda **given: found if given["metrics"] == ["aurc"] else given
    )
    keep("evaluate/engine", lambda: as_json(abstain.evaluate("a file", engine="frozen", metrics=["aurc"])))
    for kind in ("curves", "intervals"):
        keep(f"evaluate/display/{kind}", lambda kind=kind: found.display(kind, loss="zero_one").frame())
    for name, given in {
        "nothing": {},
        "metric": {"metrics": "accuracy"},
        "score": {"scores": "guess"},
        "probs": {"probs": logits},
        "engine": {"engine": "no_such_engine"},
        "level": {"level": 95},
    }.items():
        keep(
            f"evaluate/refused/{name}",
            abstain.evaluate,
            *(() if name == "nothing" else (logits, labels)),
            **given,
        )


@section("compare")
def compare(keep: Record) -> None:
    """Models compared."""
    labels = class_scores(150)[1]
    models = {name: class_scores(150, signal=s)[0] for name, s in (("strong", 3.0), ("weak", 1.0))}
    models["noisy"] = models["strong"] + np.random.default_rng(31).normal(size=(150, 5))
    rng = np.random.default_rng(32)
    run = lambda *given, **more: as_json(abstain.compare(*given, **more))  # noqa: E731
    for metric in (*SMOOTH, "aurc:loo", "risk_at_coverage", "accuracy"):
        keep(f"compare/{metric}", run, models, labels, metric=metric)
    for name, more in {
        "scores": {"scores": ["max_softmax", "max_logit", "negative_entropy"]},
        "loss": {"losses": "cross_entropy"},
        "level": {"level": 0.8},
        "weights": {"sample_weight": rng.random(150)},
        "clusters": {"clusters": np.arange(150) // 5},
        "abstained": {"abstained": rng.random(150) < 0.1},
        "abstained-by-name": {"abstained": {name: rng.random(150) < 0.1 for name in models}},
    }.items():
        keep(f"compare/{name}", run, models, labels, **more)
    keep("compare/said", lambda: said(abstain.compare(models, labels)))
    keep("compare/probs", run, labels=labels, probs={name: softmax(z) for name, z in models.items()})
    keep("compare/one-model", run, models["weak"], labels, scores=["max_softmax", "max_logit"])
    first, a, second, b = two_models()
    pairs = {"a": (first, a), "b": (second, b)}
    for metric in SMOOTH:
        keep(f"compare/pairs/{metric}", run, pairs, metric=metric)
        keep(f"compare/pairs/{metric}/weights", run, pairs, metric=metric, sample_weight=rng.random(200))
    few = {f"m{k}": (with_errors(k)[0], np.random.default_rng(k).random(200)) for k in (0, 1, 3, 15)}
    keep("compare/few-errors", run, few)
    keep("compare/unpaired", run, pairs | {"c": (first[:80], a[:80])}, paired=False)
    weights = {"a": rng.random(200), "b": rng.random(200)}
    keep("compare/unpaired/weights", run, pairs, paired=False, sample_weight=weights)
    keep("compare/pair", lambda: abstain.compare(pairs).pair("b", "a"))
    keep("compare/display", lambda: abstain.compare(pairs).display().frame())
    keep("compare/refused/one", abstain.compare, {"a": (first, a)})
    keep("compare/refused/length", abstain.compare, pairs | {"c": (first[:80], a[:80])})


@section("ensembles")
def ensembles(keep: Record) -> None:
    """An ensemble beside its members."""
    rng = np.random.default_rng(33)
    logits, labels = class_scores(100)
    members = logits + rng.normal(size=(4, 100, 5))
    run = lambda *given, **more: said(abstain.expected_aurc(*given, **more))  # noqa: E731
    keep("ensembles/probs", run, probs=softmax(members), labels=labels)
    keep("ensembles/logits", run, logits=members, labels=labels)
    for metric, loss, score in (
        ("augrc", "zero_one", "max_logit"),
        ("aurc:loo", "brier", "negative_entropy"),
    ):
        options = {"metric": metric, "losses": loss, "score": score, "level": 0.9}
        keep(f"ensembles/{metric}/{loss}/{score}", run, logits=members, labels=labels, **options)
    loss, sure = rng.random((3, 50)), rng.random((3, 50))
    keep("ensembles/own", run, loss=loss, confidence=sure)
    keep("ensembles/own/averaged", run, loss=loss, confidence=sure, averaged=(loss[0], sure[1]))
    keep("ensembles/one", run, loss=loss[:1], confidence=sure[:1])
    keep("ensembles/refused", abstain.expected_aurc, loss=loss[0], confidence=sure[0])


# thresholds -----------------------------------------------------------------------------------------------------------


@section("thresholds")
def thresholds(keep: Record) -> None:
    """Every method and form of a threshold; storing, checking and grouping it."""
    select = abstain.select_threshold
    names = """seven ties-200 distinct-2000 saturated-2000 real-200 errors-0 errors-3 all-wrong-50
        ties-fractional-weights ties-whole-weights"""
    cases = {name: samples()[name] for name in names.split()}
    for case, (loss, confidence, more) in cases.items():
        for method, risk in itertools.product(("ltt", "sgr", "crc", "empirical"), (0.05, 0.15, 0.5)):
            keep(
                f"thresholds/risk-{risk}/{method}/{case}",
                _told_threshold,
                loss,
                confidence,
                risk=risk,
                method=method,
                **more,
            )
        for method, coverage in itertools.product(("ltt", "empirical"), (0.3, 0.9)):
            options = {"coverage": coverage, "method": method, **more}
            keep(
                f"thresholds/coverage-{coverage}/{method}/{case}",
                _told_threshold,
                loss,
                confidence,
                **options,
            )
        for cost in (0.0, 0.1, 0.4):
            keep(f"thresholds/cost-{cost}/{case}", _told_threshold, loss, confidence, cost=cost, **more)
    loss, confidence, _ = samples()["distinct-2000"]
    for delta in (0.01, 0.2):
        keep(f"thresholds/delta/{delta}", _told_threshold, loss, confidence, risk=0.15, delta=delta)
    keep("thresholds/said", lambda: said(select(loss, confidence, risk=0.15)))
    keep("thresholds/bounded", _told_threshold, loss * 10, confidence, risk=1.5, bounded=(0, 10))
    keep(
        "thresholds/bounded/shifted", _told_threshold, loss - 0.5, confidence, risk=-0.3, bounded=(-0.5, 0.5)
    )
    for name, given in {
        "nothing": {},
        "both": {"risk": 0.1, "coverage": 0.2},
        "method": {"risk": 0.1, "method": "magic"},
        "risk": {"risk": -1},
        "percent": {"risk": "5%"},
        "coverage": {"coverage": 2},
        "delta": {"risk": 0.1, "delta": 1},
        "bounds": {"risk": 0.1, "bounded": (0, 0.5)},
    }.items():
        keep(f"thresholds/refused/{name}", select, loss, confidence, **given)
    keep("thresholds/refused/sample", select, [0, math.nan], [0, 1], risk=0.1)
    _stored_thresholds(keep)


def _told_threshold(*given: Any, **options: Any) -> dict[str, Any]:
    """The rule with its promise; of the table of candidates what there is in a column."""
    found = abstain.select_threshold(*given, **options)
    text = found.to_json()
    table = {name: _sums(np.asarray(column, dtype=float)) for name, column in found.frame("dict").items()}
    return {
        "facts": found.facts(),
        "rule": found.rule,
        "feasible": found.feasible,
        "accepts": int(found.accepts(np.asarray(given[1])).sum()),
        "fields": {
            name: part for name, part in json.loads(text).items() if name not in ("table", "reference")
        },
        "table": table,
        "json brings it back": type(found).from_json(text).to_json() == text,
    }


def _stored_thresholds(keep: Record) -> None:
    loss, confidence, _ = samples()["distinct-2000"]
    rule = abstain.select_threshold(loss, confidence, risk=0.15)
    path = keep.folder / "rule.json"
    rule.save(path)
    again = abstain.Threshold.load(path)
    keep("thresholds/saved", lambda: again.to_json() == rule.to_json())
    keep("thresholds/saved/refused", abstain.Threshold.from_json, "{}")
    later = {
        "same": zero_one_sample(500, 40),
        "worse": zero_one_sample(500, 41, scale=2.0),
        "drifted": (zero_one_sample(300, 42)[0], zero_one_sample(300, 42)[1] ** 3),
        "ties": zero_one_sample(300, 43, levels=10),
    }
    for name, (l, g) in later.items():
        first = keep(f"thresholds/check/{name}", again.check, l, g)
        keep(f"thresholds/check/{name}/text", lambda first=first: repr(first))
        keep(f"thresholds/check/{name}/next", again.check, *later["same"], previous=first)
    keep("thresholds/check/refused", again.check, [0, 1], [0.5])
    labels = np.array(["a", "b", "c"])[np.arange(2000) % 3]
    for method in ("ltt", "empirical", "crc", "sgr"):
        grouped = abstain.select_threshold(loss, confidence, risk=0.15, groups=labels, method=method)
        keep(
            f"thresholds/groups/{method}",
            lambda g=grouped: {k: [t.value, t.risk, t.facts()] for k, t in g.thresholds.items()},
        )
        keep(f"thresholds/groups/{method}/rest", lambda g=grouped: [
            g.feasible, g.guarantee, repr(g), g.accepts(confidence, labels),
            type(g).from_json(g.to_json()).to_json() == g.to_json(),
        ])  # fmt: skip


@section("costs")
def costs(keep: Record) -> None:
    """Cost curves, best rejections, class costs, clinical tables."""
    cases = (
        "seven",
        "ties-200",
        "real-200",
        "ties-whole-weights",
        "ties-fractional-weights",
        "errors-0",
        "batch",
    )
    rng = np.random.default_rng(50)
    for case in cases:
        loss, confidence, more = samples()[case]
        keep(f"costs/curve/{case}", abstain.cost_curve, loss, confidence, cost=0.2, **more)
        options = {"cost": rng.random(np.shape(loss)), "person_loss": 0.1, **more}
        keep(f"costs/curve/each/{case}", abstain.cost_curve, loss, confidence, **options)
        for cost in (0.0, 0.05, 0.5, -1.0):
            keep(
                f"costs/best_rejection/{cost}/{case}",
                abstain.best_rejection,
                loss,
                confidence,
                cost=cost,
                **more,
            )
    loss, confidence, _ = samples()["ties-200"]
    away = {"abstained": rng.random(200) < 0.2}
    keep("costs/best_rejection/abstained", abstain.best_rejection, loss, confidence, cost=0.1, **away)
    keep("costs/curve/said", lambda: said(abstain.cost_curve(loss, confidence, cost=0.2)))
    labels, predictions = rng.integers(0, 3, 60), rng.integers(0, 3, 60)
    errors = [[0, 1, 2], [3, 0, 1], [5, 1, 0]]
    keep("costs/class_costs", abstain.class_costs, labels, predictions, errors=errors)
    rejections = {"rejections": [0.1, 0.2, 0.3]}
    keep(
        "costs/class_costs/rejections", abstain.class_costs, labels, predictions, errors=errors, **rejections
    )
    keep("costs/class_costs/refused", abstain.class_costs, labels + 1, predictions, errors=errors)
    truth, answer = rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    keep("costs/clinical_table", lambda: said(abstain.clinical_table(truth, answer, confidence)))
    options = {"thresholds": [0.0, 0.3, 0.9, 2.0], "level": 0.8, "positive": 0}
    keep("costs/clinical_table/options", abstain.clinical_table, truth, answer, confidence, **options)
    words = np.array(["ill", "well"])
    keep(
        "costs/clinical_table/words",
        abstain.clinical_table,
        words[truth],
        words[answer],
        confidence,
        positive="ill",
    )
    keep("costs/clinical_table/refused", abstain.clinical_table, truth, answer, confidence, positive=7)
    for hits, trials in ((0, 10), (3, 10), (10, 10), (0, 0)):
        keep(f"costs/clopper_pearson/{hits}-{trials}", abstain.thresholds.clopper_pearson, hits, trials)
    keep(
        "costs/clopper_pearson/many", abstain.thresholds.clopper_pearson, np.arange(50), np.full(50, 49), 0.9
    )


# theory and other packages --------------------------------------------------------------------------------------------


@section("theory")
def theory(keep: Record) -> None:
    """Bias, weights, sample sizes, populations."""
    t = abstain.theory
    beta = np.array([0.0, 0.01, 0.3, 0.5, 0.9, 0.999])
    keep("theory/population_weight", t.population_weight, beta)
    for n in (1, 2, 7, 50, 2000):
        keep(f"theory/mse_order/{n}", t.mse_order, beta, n)
        keep(f"theory/mean_mse_order/{n}", t.mean_mse_order, n)
        for estimator in (*ESTIMATORS, "best"):
            own = {"estimator": estimator}
            keep(f"theory/weight_bias/{estimator}/{n}", t.weight_bias, beta, n, **own)
            keep(f"theory/expected_weight/{estimator}/{n}", t.expected_weight, beta, n, **own)
            keep(f"theory/weight_mse/{estimator}/{n}", t.weight_mse, np.arange(1, n + 1), n, **own)
            keep(f"theory/mean_weight_mse/{estimator}/{n}", t.mean_weight_mse, n, **own)
    keep("theory/monte_carlo_weights", t.monte_carlo_weights, 7, draws=200, rng=1)
    loss, confidence, _ = samples()["ties-200"]
    profiles = {
        "number": 0.2,
        "quadratic": "quadratic",
        "root": "root",
        "unrelated": "unrelated",
        "floor": "floor",
        "steep": "steep",
        "function": lambda b: 0.5 * (1 - b),
        "curve": abstain.risk_coverage_curve(loss, confidence),
        "pilot": samples()["distinct-2000"][:2],
        "real-pilot": samples()["unbounded-200"][:2],
        "unknown": "cubic",
        "word": [1, 2],
    }
    for name, curve in profiles.items():
        for n in (10, 1000):
            keep(f"theory/expected_bias/{name}/{n}", t.expected_bias, n, curve)
            for estimator in ESTIMATORS:
                keep(
                    f"theory/estimator_bias/{name}/{estimator}/{n}",
                    t.estimator_bias,
                    n,
                    curve,
                    estimator=estimator,
                )
        for metric, method in itertools.product(("aurc", "augrc", "risk", "e_aurc"), ("log", "normal")):
            options = {"width": 0.02, "curve": curve, "metric": metric, "method": method}
            keep(f"theory/plan_sample_size/{name}/{metric}/{method}", t.plan_sample_size, **options)
        keep(
            f"theory/plan_sample_size/{name}/relative",
            t.plan_sample_size,
            width=0.2,
            curve=curve,
            relative=True,
        )
    keep("theory/plan/text", lambda: repr(t.plan_sample_size(width=0.02, curve="steep", level=0.9)))
    keep("theory/bias/frame", lambda: t.expected_bias(100, "steep").frame())
    keep("theory/samples_to_tell_apart", t.samples_to_tell_apart, 0.01, 0.008, 500)
    keep(
        "theory/samples_to_tell_apart/power", t.samples_to_tell_apart, 0.01, 0.008, 500, level=0.9, power=0.95
    )
    keep("theory/samples_to_tell_apart/none", t.samples_to_tell_apart, 0.0, 0.008, 500)
    for n in (3, 5, 50):
        keep(f"theory/sele_counterexample/{n}", t.sele_counterexample, n)
    population = t.Population(((0.05, 0), (0.5, 3)))
    keep("theory/population", lambda: population)
    keep(
        "theory/population/values", lambda: [population(beta), population.given_above(beta), repr(population)]
    )
    keep("theory/population/selective_risk", population.selective_risk, beta[1:])
    keep("theory/population/levels", population.aurc_at_levels, 10)
    keep("theory/population/sample", population.sample, 300, rng=1)
    keep("theory/population/sample/levels", population.sample, (2, 30), rng=1, levels=5)
    keep("theory/population/power", lambda: t.populations.power(0.6, 2))
    keep("theory/population/refused", t.Population, ((2.0, 0),))


@section("compat")
def compat(keep: Record) -> None:
    """Other packages' numbers."""
    names = [n for n in abstain.compat.__all__ if n.endswith(("aurc", "augrc", "auarc", "auc"))]
    for case, (loss, confidence, _) in (samples() | bad_samples()).items():
        for name in names:
            keep(f"compat/{name}/{case}", getattr(abstain.compat, name), loss, confidence)
        keep(f"compat/table/{case}", abstain.compat.table, loss, confidence)
    keep("compat/text", lambda: repr(abstain.compat.table(*samples()["seven"][:2])))


# PyTorch, JAX, scikit-learn -------------------------------------------------------------------------------------------


def loss_options() -> dict[str, dict[str, Any]]:
    """Options of the training loss that torch and jax share."""
    found: dict[str, dict[str, Any]] = {f"estimator-{e}": {"estimator": e} for e in ESTIMATORS}
    scores = "softmax_margin negative_entropy negative_gini max_logit energy guess"
    found |= {f"score-{s}": {"score": s} for s in scores.split()}
    found |= {f"reduction-{r}": {"reduction": r} for r in ("mean", "sum", "none", "median")}
    found |= {f"soft-{t}": {"rank": "soft", "temperature": t} for t in (0.1, 1.0, -1.0)}
    found |= {
        "smoothed": {"label_smoothing": 0.1},
        "mixed": {"mix": 0.3},
        "soft-mixed-loo": {"rank": "soft", "mix": 0.5, "estimator": "loo"},
    }
    return found


def loss_batches() -> dict[str, tuple[Any, Any]]:
    """Batches of logits and targets, awkward ones included."""
    logits, labels = class_scores(12, 4, seed=60)
    ignored = np.where(np.arange(12) % 5 == 0, -100, labels)
    return {
        "usual": (logits, labels),
        "ties": (np.round(logits), labels),
        "saturated": (logits * 60, labels),
        "ignored": (logits, ignored),
        "one": (logits[:1], labels[:1]),
        "all-ignored": (logits, np.full(12, -100)),
        "refused": (logits, labels + 4),
    }


@section("torch")
def torch_losses(keep: Record) -> None:
    """The training loss with its gradients, metrics exact and binned, what Trainers get."""
    import torch

    from abstain.torch import AURCLoss, LinearWarmup, aurc_loss, smooth_zero_one

    torch.set_num_threads(1)

    def graded(function: Callable[..., Any], logits: Any, labels: Any, **options: Any) -> list[Any]:
        given = torch.tensor(logits, requires_grad=True)
        value = function(given, torch.tensor(labels), **options)
        value.sum().backward()
        return [value, given.grad]

    weight = torch.tensor([1.0, 2.0, 0.5, 1.0], dtype=torch.float64)
    own = {"class-weights": {"weight": weight}, "criterion": {"criterion": smooth_zero_one}}
    for name, options in (loss_options() | own).items():
        batches = loss_batches()
        some = batches if name in ("estimator-harmonic", "soft-0.1") else ("usual", "ties", "ignored")
        for kind, (logits, labels) in ((kind, batches[kind]) for kind in some):
            keep(f"torch/aurc_loss/{name}/{kind}", graded, aurc_loss, logits, labels, **options)
    logits, labels = loss_batches()["usual"]
    keep("torch/aurc_loss/float32", graded, aurc_loss, logits.astype(np.float32), labels)
    keep("torch/aurc_loss/half", graded, aurc_loss, logits.astype(np.float16), labels)
    images = np.moveaxis(logits.reshape(2, 3, 2, 4), -1, 1)
    keep("torch/aurc_loss/images", graded, aurc_loss, images, labels.reshape(2, 3, 2))
    keep("torch/aurc_loss/own-score", graded, aurc_loss, logits, labels, score=lambda z: z[..., 0])
    keep("torch/smooth_zero_one", graded, smooth_zero_one, logits, labels)
    keep("torch/warmup", lambda: [LinearWarmup(10)(k) for k in range(12)])
    keep("torch/warmup/own", lambda: [LinearWarmup(4, 0.5, 0.1)(k) for k in range(6)])
    keep("torch/AURCLoss", lambda: graded(AURCLoss(estimator="loo", mix=0.2), logits, labels))

    def steps() -> list[Any]:
        criterion = AURCLoss(mix=LinearWarmup(3))
        found = [repr(criterion)]
        for _ in range(4):
            found += [criterion.current_mix, *graded(criterion, logits, labels)]
            criterion.step()
        return found

    keep("torch/AURCLoss/schedule", steps)
    _torch_metrics(keep)
    _trainers(keep)


def _torch_metrics(keep: Record) -> None:
    import torch

    import abstain.torch as at

    made = {
        "aurc": (at.AURC, {}),
        "aurc-loo": (at.AURC, {"estimator": "loo"}),
        "aurc-expected": (at.AURC, {"ties": "expected"}),
        "augrc": (at.AUGRC, {}),
        "e_aurc": (at.EAURC, {}),
        "naurc": (at.NAURC, {}),
        "risk_at_coverage": (at.RiskAtCoverage, {"coverage": 0.7}),
        "coverage_at_risk": (at.CoverageAtRisk, {"risk": 0.3}),
        "auroc": (at.AUROC, {}),
    }
    kinds = {
        "usual": {},
        "binned": {"thresholds": 200},
        "brier": {"loss": "brier"},
        "brier-binned": {"loss": "brier", "thresholds": 200},
        "cross-entropy-binned": {"loss": "cross_entropy", "thresholds": 200},
        "max-logit": {"score": "max_logit"},
        "max-logit-binned": {"score": "max_logit", "thresholds": 500},
        "probs": {"input": "probs"},
        "ignored": {"ignore_index": 1},
        "refused": {"input": "words"},
        "few-bins": {"thresholds": 3},
    }
    logits, labels = (torch.tensor(x) for x in class_scores(300, 4, seed=61))

    def run(metric: Any, options: dict[str, Any], kind: str) -> dict[str, Any]:
        preds = logits.softmax(-1) if kind == "probs" else logits
        parts = [metric(**options) for _ in range(3)]
        for part, given, truth in zip(parts, preds.chunk(3), labels.chunk(3)):
            for half, of_half in zip(given.chunk(2), truth.chunk(2)):
                part.update(half, of_half)
        alone = metric(**options)
        alone.update(preds, labels)
        for part in parts[1:]:
            parts[0].merge_state(part)
        found = {"merged": parts[0].compute(), "alone": alone.compute()}
        if "thresholds" in options:
            return found | {"bounds": alone.compute_bounds()}
        return found | {
            "interval": alone.compute_with_interval(
                **({} if alone.function in SMOOTH else {"replicates": 100})
            )
        }

    for (name, (metric, own)), (kind, options) in itertools.product(made.items(), kinds.items()):
        keep(f"torch/metrics/{name}/{kind}", run, metric, own | options, kind)

    def given_confidence() -> Any:
        metric = at.AURC()
        metric.update(labels.roll(1), labels, confidence=logits[:, 0])
        return metric.compute()

    keep("torch/metrics/aurc/given-confidence", given_confidence)
    keep("torch/metrics/aurc/empty", lambda: at.AURC().compute())


def _trainers(keep: Record) -> None:
    """What Trainers of other packages get; without these packages there is nothing to freeze."""
    import torch

    try:
        from abstain.torch import huggingface
    except ImportError:
        return
    from types import SimpleNamespace

    logits, labels = class_scores(60, 4, seed=62)
    outputs = SimpleNamespace(logits=torch.tensor(logits))
    keep("torch/huggingface/loss", lambda: huggingface.trainer_loss()(outputs, torch.tensor(labels)))
    keep(
        "torch/huggingface/loss/items",
        lambda: huggingface.trainer_loss(estimator="loo")(outputs, torch.tensor(labels), 90),
    )
    seen = SimpleNamespace(predictions=logits, label_ids=np.where(np.arange(60) % 7, labels, -100))
    keep("torch/huggingface/metrics", huggingface.TrainerMetrics(level=0.9), seen)

    def stopping() -> list[Any]:
        rule, found = huggingface.AURCStopping(patience=2), []
        for step, value in enumerate((0.3, 0.2, 0.199, 0.198, 0.197)):
            control = SimpleNamespace(should_save=False, should_training_stop=False)
            rule.on_evaluate(
                None, SimpleNamespace(global_step=step), control, {"eval_aurc": value, "eval_aurc_se": 0.01}
            )
            found.append([control.should_save, control.should_training_stop, rule.best_step])
        return found

    keep("torch/huggingface/stopping", stopping)

    def monitored() -> list[Any]:
        from abstain.torch import AURC
        from abstain.torch.lightning import AURCMonitor

        rule, found = AURCMonitor(patience=2), []
        module = SimpleNamespace(val_aurc=AURC(), log_dict=lambda values, **more: found.append(values))
        trainer = SimpleNamespace(sanity_checking=False, should_stop=False)
        for noise in (0.0, 0.5, 0.0, 3.0):
            module.val_aurc.update(torch.tensor(logits) * (1 - noise), torch.tensor(labels))
            rule.on_validation_epoch_end(trainer, module)
            found.append([trainer.should_stop, rule.state_dict()])
        return found

    keep("torch/lightning", monitored)


@section("jax")
def jax_losses(keep: Record) -> None:
    """The training loss with its gradients."""
    import jax
    import jax.numpy as jnp

    from abstain.jax import aurc_loss, linear_warmup, smooth_zero_one

    def graded(logits: Any, labels: Any, **options: Any) -> list[Any]:
        def call(z: Any) -> Any:
            value = aurc_loss(z, jnp.asarray(labels), **options)
            return value.sum(), value

        (_, value), slope = jax.jit(jax.value_and_grad(call, has_aux=True))(jnp.asarray(logits))
        return [value, slope]

    x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with x64(True):  # few batches each: compiling takes long
        for name, options in (loss_options() | {"criterion": {"criterion": smooth_zero_one}}).items():
            batches = loss_batches()
            some = (
                ("ties", "ignored", "saturated") if name in ("estimator-harmonic", "soft-0.1") else ("ties",)
            )
            for kind, (logits, labels) in ((kind, batches[kind]) for kind in some):
                keep(f"jax/aurc_loss/{name}/{kind}", graded, logits, labels, **options)
        logits, labels = loss_batches()["usual"]
        keep("jax/smooth_zero_one", lambda: smooth_zero_one(jnp.asarray(logits), jnp.asarray(labels)))
        keep("jax/warmup", lambda: [linear_warmup(4, 0.5, 0.1)(k) for k in range(6)])
    logits, labels = loss_batches()["usual"]
    keep("jax/aurc_loss/float32", graded, logits.astype(np.float32), labels)
    for kind in ("usual", "all-ignored", "refused"):  # values are looked at outside of jit only
        keep(f"jax/aurc_loss/eager/{kind}", lambda k=kind: aurc_loss(*map(jnp.asarray, loss_batches()[k])))


@section("sklearn")
def sklearn_estimators(keep: Record) -> None:
    """Selective estimators, scorers, the display."""
    from sklearn.linear_model import BayesianRidge
    from sklearn.model_selection import cross_val_score
    from sklearn.naive_bayes import GaussianNB
    from sklearn.svm import LinearSVC

    import abstain.sklearn as sk

    rng = np.random.default_rng(70)
    X = rng.normal(size=(400, 4))
    y = np.argmax(X[:, :3] + 0.8 * rng.normal(size=(400, 3)), axis=1)
    weight = rng.random(400)

    def selective(estimator: Any, **options: Any) -> dict[str, Any]:
        model = sk.SelectiveClassifier(estimator, random_state=0, **options).fit(X[:300], y[:300])
        prediction, accepted = model.predict_selective(X[300:])
        return {
            "threshold": [model.threshold_.value, model.threshold_.risk, model.threshold_.coverage],
            "promise": model.guarantee_,
            "note": model.threshold_.note,
            "confidence": model.confidence(X[300:]),
            "prediction": prediction,
            "accepted": accepted,
            "predict": model.predict(X[300:]),
            "score": [
                model.score(X[300:], y[300:]),
                model.score(X[300:], y[300:], sample_weight=weight[300:]),
            ],
        }

    bayes = GaussianNB()
    for name, options in {
        "risk": {"risk": 0.3},
        "coverage": {"coverage": 0.6},
        "sgr": {"risk": 0.3, "method": "sgr", "delta": 0.1},
        "empirical": {"risk": 0.2, "method": "empirical"},
        "folds": {"risk": 0.3, "cv": 4},
        "label": {"coverage": 0.5, "abstain_label": -1},
        "entropy": {"coverage": 0.5, "score": "negative_entropy"},
        "infeasible": {"risk": 1e-4, "abstain_label": -1},
        "nothing": {},
    }.items():
        keep(f"sklearn/classifier/{name}", selective, bayes, **options)
    keep("sklearn/classifier/decision", selective, LinearSVC(random_state=0), coverage=0.5, score="max_logit")
    fitted = GaussianNB().fit(X[:150], y[:150])
    keep("sklearn/classifier/prefit", selective, fitted, risk=0.3, cv="prefit")

    def regressor(**options: Any) -> dict[str, Any]:
        target = X[:, 0] + (0.1 + np.abs(X[:, 1])) * rng_of_targets
        model = sk.SelectiveRegressor(BayesianRidge(), random_state=0, **options).fit(X[:300], target[:300])
        value, accepted = model.predict_selective(X[300:])
        return {
            "promise": model.guarantee_,
            "confidence": model.confidence(X[300:]),
            "value": value,
            "accepted": accepted,
        }

    rng_of_targets = rng.normal(size=400)
    for name, options in {
        "risk": {"tolerance": 0.7, "risk": 0.3, "cv": 0.5},
        "coverage": {"coverage": 0.5},
        "std": {"coverage": 0.5, "uncertainty": "std"},
        "folds": {"coverage": 0.5, "cv": 3},
        "refused": {"risk": 0.1},
    }.items():
        keep(f"sklearn/regressor/{name}", regressor, **options)
    scorers = {
        "aurc": sk.aurc_scorer(),
        "aurc-entropy": sk.aurc_scorer(score="negative_entropy"),
        "augrc": sk.augrc_scorer(),
        "risk_at_coverage": sk.risk_at_coverage_scorer(0.7),
        "coverage_at_risk": sk.coverage_at_risk_scorer(0.2),
    }
    for name, scorer in scorers.items():
        keep(f"sklearn/scorers/{name}", scorer, fitted, X, y)
        keep(f"sklearn/scorers/{name}/weights", scorer, fitted, X, y, sample_weight=weight)
        keep(f"sklearn/scorers/{name}/folds", cross_val_score, bayes, X, y, scoring=scorer, cv=3)
        keep(f"sklearn/scorers/{name}/text", repr, scorer)
    keep("sklearn/display", lambda: sk.RiskCoverageDisplay.from_estimator(fitted, X, y).frame())


# engines --------------------------------------------------------------------------------------------------------------


def write_parts(folder: Path, columns: dict[str, Any], parts: int = 4) -> str:
    """A folder of Parquet files of one table, the last of them empty."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    n = len(next(iter(columns.values())))
    edges = [*np.linspace(0, n, parts).astype(int), n]
    for k, (a, b) in enumerate(itertools.pairwise(edges)):
        pq.write_table(pa.table({c: v[a:b] for c, v in columns.items()}), folder / f"part-{k}.parquet")
    return str(folder)


def engine_tables(folder: Path) -> dict[str, str]:
    """Folders of samples of every kind, written once."""
    home = folder / "engines"
    rng = np.random.default_rng(80)
    n = 3000
    labels, words = rng.integers(0, 3, n), np.array(["law", "art", "war"])
    columns = {
        "w": rng.integers(1, 4, n).astype(float),
        "f": rng.random(n),
        "kind": words[labels],
        "number": labels,
    }
    smooth = dict(zip(("loss", "confidence"), zero_one_sample(n, 81)))
    ties = dict(zip(("loss", "confidence"), zero_one_sample(n, 82, levels=50)))
    real = {"loss": np.round(rng.exponential(1, n), 3), "confidence": rng.normal(size=n).astype(np.float32)}
    first, a, second, b = two_models(n, 83)
    logits, truth = class_scores(n, 4, seed=84)
    few = {f"errors-{k}": dict(zip(("loss", "confidence"), with_errors(k))) for k in (0, 1, 3, 15)}
    tables = {
        "smooth": smooth | columns,
        "ties": ties | columns,
        "real": real | columns,
        "correct": {"correct": 1 - smooth["loss"], "confidence": smooth["confidence"]},
        "pair": {"g1": a, "l1": first, "g2": b, "l2": second, "w": columns["w"]},
        "logits": {"logits": list(logits), "label": truth},
        "wide": {f"z{k}": logits[:, k] for k in range(4)} | {"label": truth},
        "refused": {"loss": np.array([0, math.nan]), "confidence": np.array([0.1, 0.2])},
        **few,
    }
    return {
        name: str(home / name) if (home / name).exists() else write_parts(home / name, t)
        for name, t in tables.items()
    }


def engine_answers(engine: Any, data: Any, *, points: int = 0, **given: Any) -> Any:
    """The numbers of an engine's `evaluate` and the points of its curve; groups apart."""
    coverages, risks = given.pop("coverages", ()), given.pop("risks", ())
    named = [f"risk_at_coverage@{c}" for c in coverages] + [f"coverage_at_risk@{r}" for r in risks]
    found = engine.evaluate(data, metrics=[*SMOOTH, *named], **given)
    curve = engine.risk_coverage_curve(data, points=points, **given) if points else None
    answers = {}
    for group in found.groups or (None,):
        values, places = {}, {"risk_at_coverage": {}, "coverage_at_risk": {}}
        for entry in found.select(group=group):
            name, _, number = entry.metric.partition("@")
            if number:
                places[name][float(number)] = entry.estimate
            elif entry.estimate is not None:
                values[name] = [entry.estimate, entry.standard_error]
        own = curve[group] if isinstance(curve, dict) else curve
        n = found.select(group=group)[0].n
        answers[str(group)] = {"n": n, "values": values, "curve": own} | places
    return answers if found.groups else answers["None"]


def engine_pair(engine: Any, data: Any, **given: Any) -> Any:
    """The numbers of an engine's `compare`."""
    found, wide = (
        engine.compare(data, **given),
        engine.compare(data, level=0.9, **given).pair("first", "second"),
    )
    pair, sides = found.pair("first", "second"), (found["first"], found["second"])
    told = {name: getattr(pair, name) for name in ("difference", "standard_error", "p_value")}
    own = {"first": sides[0].estimate, "second": sides[1].estimate, "n": found.n, "metric": found.label}
    errors = {"own_errors": tuple(side.standard_error for side in sides)}
    return told | own | errors | {"interval": (pair.low, pair.high), "90%": (wide.low, wide.high)}


def _any_engine(keep: Record, name: str, engine: Any, own: dict[str, Any]) -> None:
    """What all engines that read folders answer."""
    tables = engine_tables(keep.folder)
    asked = {"coverages": (0.5, 0.9), "risks": (0.05, 0.2), "points": 20, "progress": False, **own}
    run = lambda *given, **more: engine_answers(engine, *given, **asked, **more)  # noqa: E731
    slow = name == "spark"  # a call is a dozen jobs there: each kind of question once
    for kind in (
        ("ties", "errors-0") if slow else ("smooth", "ties", "errors-0", "errors-1", "errors-3", "errors-15")
    ):
        keep(f"{name}/evaluate/{kind}", run, tables[kind])
    for kind in ("real",) if slow else ("ties", "real"):
        keep(f"{name}/evaluate/{kind}/weights", run, tables[kind], sample_weight="w")
        keep(f"{name}/evaluate/{kind}/fractional", run, tables[kind], sample_weight="f")
        keep(f"{name}/evaluate/{kind}/groups", run, tables[kind], groups="kind")
    keep(f"{name}/evaluate/ties/groups-weights", run, tables["ties"], groups="number", sample_weight="w")
    keep(f"{name}/evaluate/correct", run, tables["correct"], correct="correct")
    keep(
        f"{name}/evaluate/logits", run, tables["logits"], logits="logits", labels="label", scores="max_logit"
    )
    more = {"logits": [f"z{k}" for k in range(4)], "labels": "label", "losses": "cross_entropy"}
    keep(f"{name}/evaluate/wide", run, tables["wide"], **more)
    keep(f"{name}/refused/nan", run, tables["refused"])
    keep(f"{name}/refused/column", run, tables["smooth"], loss="gain")
    keep(f"{name}/refused/folder", run, str(keep.folder / "nowhere"))
    quiet = {"progress": False, **own}
    for estimator in ("2sele",) if slow else ESTIMATORS:
        keep(f"{name}/aurc/{estimator}", engine.aurc, tables["ties"], estimator=estimator, **quiet)
    both_ways = {"estimator": "loo", "ties": "expected"}
    keep(f"{name}/aurc/loo-expected", engine.aurc, tables["ties"], **both_ways, **quiet)
    keep(f"{name}/aurc/groups", engine.aurc, tables["ties"], groups="kind", **quiet)
    both = {"first": ("g1", "l1"), "second": ("g2", "l2")}
    pair = lambda **more: engine_pair(engine, tables["pair"], **both, **quiet, **more)  # noqa: E731
    keep(f"{name}/compare", pair)
    keep(f"{name}/compare/weights", pair, sample_weight="w", estimator="loo" if slow else "harmonic")
    if not slow:
        keep(f"{name}/compare/loo", pair, estimator="loo")


def _by_engine(keep: Record, name: str, engine: Any) -> None:
    """`abstain.evaluate(folder, engine=...)`."""
    tables = engine_tables(keep.folder)
    metrics = [*SMOOTH, "aurc:loo", "aurc:sele", "risk_at_coverage@0.7", "coverage_at_risk@0.1"]
    run = lambda data, **more: as_json(abstain.evaluate(data, engine=engine, progress=False, **more))  # noqa: E731
    for kind in ("errors-3",) if name == "spark" else ("ties", "errors-3", "errors-0"):
        keep(f"{name}/table/{kind}", run, tables[kind], metrics=metrics)
    keep(
        f"{name}/table/groups",
        run,
        tables["ties"],
        groups="kind",
        sample_weight="w",
        metrics=["aurc", "naurc", "auroc"],
    )
    if name != "spark":
        keep(f"{name}/table/default", run, tables["real"])
        more = {"labels": "label", "scores": ["max_softmax", "energy"], "losses": ["zero_one", "brier"]}
        keep(f"{name}/table/logits", run, tables["logits"], metrics=["aurc", "auroc"], **more)
    keep(f"{name}/table/refused", run, tables["ties"], clusters="kind")


@section("files")
def files_engine(keep: Record) -> None:
    """Folders of Parquet, one file, CSV; in memory, resumed and spilled."""
    from abstain.engines import files

    _any_engine(keep, "files", files, {})
    _by_engine(keep, "files", "files")
    tables = engine_tables(keep.folder)
    quiet = {"progress": False}
    for name, options in {"augrc": {}, "risk": {}, "e_aurc": {}, "naurc": {}, "risk_at_coverage": {"coverage": 0.6},
                          "coverage_at_risk": {"risk": 0.1}}.items():  # fmt: skip
        for kind in ("ties", "real"):
            keep(f"files/{name}/{kind}", getattr(files, name), tables[kind], **options, **quiet)
        keep(f"files/{name}/groups", getattr(files, name), tables["ties"], groups="kind", **options, **quiet)
    keep("files/curve", files.risk_coverage_curve, tables["ties"], **quiet)
    keep("files/curve/20", files.risk_coverage_curve, tables["smooth"], points=20, **quiet)
    resumed = {"resume": str(keep.folder / "resumed"), "points": 20}
    keep("files/evaluate/resumed", engine_answers, files, tables["real"], **resumed, **quiet)
    rng = np.random.default_rng(85)
    n = 200_000  # more than the least budget holds, so that ranges are cut and spilled
    large = {
        "loss": rng.exponential(1, n),
        "confidence": rng.normal(size=n),
        "wrong": (rng.random(n) < 0.1) * 1.0,
    }
    path = write_parts(keep.folder / "engines" / "large", large)
    spilled = {"memory": "1MB", "points": 20, "coverages": (0.5,), "risks": (0.9,), **quiet}
    keep("files/evaluate/large", engine_answers, files, path, **spilled)
    keep("files/evaluate/large/zero-one", engine_answers, files, path, loss="wrong", **spilled)
    keep("files/refused/memory", files.aurc, path, memory="much")
    keep("files/refused/option", files.aurc, path, nonsense=1)
    one = abstain.formats.read_predictions
    keep("files/one-file", files.aurc, str(Path(tables["ties"]) / "part-0.parquet"), **quiet)
    keep("files/list", files.aurc, [str(Path(tables["ties"]) / f"part-{k}.parquet") for k in (0, 1)], **quiet)
    csv_path = keep.folder / "engines" / "table.csv"
    abstain.formats.write_predictions(
        one(Path(tables["ties"]) / "part-0.parquet", columns={"loss": "loss"}), csv_path
    )
    keep("files/csv", files.aurc, str(csv_path), **quiet)


@section("dask")
def dask_engine(keep: Record) -> None:
    """The same questions to a Dask cluster inside this process."""
    import distributed

    from abstain.engines import dask

    logging.getLogger("distributed").setLevel(
        logging.CRITICAL
    )  # samples that are refused would be told twice

    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        _any_engine(keep, "dask", dask, {"client": client})
        _by_engine(keep, "dask", dask.on(client))


@section("spark")
def spark_engine(keep: Record) -> None:
    """The same questions, fewer of them, to a local Spark session."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    from abstain.engines import spark

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.sql.codegen.wholeStage": "false",  # little data: compiling costs more than it saves
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL + 1)
    try:
        _any_engine(keep, "spark", spark, {"session": session})
        _by_engine(keep, "spark", spark.on(session))
    finally:
        session.stop()


@section("sketch")
def sketches(keep: Record) -> None:
    """The certified stream: whole, merged, stored."""
    Sketch = abstain.engines.Sketch

    def answers(sketch: Any) -> dict[str, Any]:
        points = [sketch.risk_at_coverage(c) for c in (0.1, 0.5, 0.999)]
        errors = {m: sketch.standard_error(m) for m in ("aurc", "augrc")}
        return {"exact": sketch.exact, "aurc": sketch.aurc(), "augrc": sketch.augrc(), "risk": sketch.risk(),
                "points": points, "curve": sketch.curve(), "errors": errors}  # fmt: skip

    def streamed(loss: Any, confidence: Any, size: int, weight: Any = None) -> Any:
        sketch = Sketch(size=size)
        for part in np.array_split(np.arange(len(loss)), 5):
            own = None if weight is None else weight[part]
            sketch.update(np.asarray(loss)[part], np.asarray(confidence)[part], sample_weight=own)
        return sketch

    names = """seven ties-200 real-200 negative-50 distinct-2000 saturated-2000 ties-whole-weights
        real-fractional-weights errors-0"""
    for case in names.split():
        loss, confidence, more = samples()[case]
        for size in (20_000, 1_000_000):
            given = (loss, confidence, size, more.get("sample_weight"))
            keep(f"sketch/{case}/{size}", lambda given=given: answers(streamed(*given)))
    loss, confidence = zero_one_sample(20_000, 90)
    whole = streamed(loss, confidence, 20_000)
    keep("sketch/large", answers, whole)
    halves = [streamed(loss[a::2], confidence[a::2], 20_000) for a in (0, 1)]
    keep("sketch/merged", lambda: answers(halves[0].merge(halves[1])))
    keep("sketch/bytes", lambda: answers(Sketch.from_bytes(whole.to_bytes())))
    keep("sketch/json", lambda: answers(Sketch.from_json(whole.to_json())))
    keep("sketch/text", repr, whole)
    keep("sketch/refused/metric", whole.standard_error, "risk")
    keep("sketch/empty", lambda: Sketch().aurc())
    keep("sketch/refused/size", Sketch, 3)
    keep("sketch/refused/loss", lambda: Sketch().update([math.nan], [0.5]))


# files, pages, commands -----------------------------------------------------------------------------------------------


def write_inputs(folder: Path) -> Path:
    """Files that the readers and the commands are given."""
    home = folder / "inputs"
    if home.exists():
        return home
    home.mkdir()
    for name, seed, signal in (("strong", 0, 3.0), ("weak", 0, 1.0), ("other", 5, 2.0)):
        logits, labels = class_scores(300, 4, seed=seed, signal=signal)
        np.savez(home / f"{name}.npz", logits=logits, labels=labels)
    logits, labels = class_scores(300, 4, signal=2.0)
    words = np.array(["ant", "bee", "cat", "dog"])
    np.savez(home / "probs.npz", probs=softmax(logits), y_true=labels)
    np.savez(home / "words.npz", logits=logits, labels=words[labels])
    np.save(home / "logits.npy", logits)
    np.save(home / "labels.npy", labels)
    for name, seed in (("answers", 7), ("answers2", 8)):
        loss, confidence = zero_one_sample(400, seed, levels=40)
        rng = np.random.default_rng(9)
        rows = zip(1 - loss.astype(int), confidence, np.where(rng.random(400) < 0.5, "law", "art"),
                   rng.integers(1, 4, 400), rng.integers(0, 60, 400), (rng.random(400) < 0.05).astype(int))  # fmt: skip
        with open(home / f"{name}.csv", "w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["correct", "confidence", "group", "weight", "cluster", "abstained"])
            writer.writerows([*map(str, row)] for row in rows)
    loss, confidence = samples()["unbounded-200"][:2]
    (home / "losses.json").write_text(json.dumps({"loss": loss.tolist(), "confidence": confidence.tolist()}))
    lines = [
        json.dumps({"label": int(y), "prediction": int(z.argmax()), "confidence": float(z.max())})
        for z, y in zip(logits, labels)
    ]
    (home / "lines.jsonl").write_text("\n".join(lines))
    header = ",".join(["truth", *(f"class_{w}" for w in words)])
    table = [",".join(map(str, (words[y], *p))) for y, p in zip(labels, softmax(logits))]
    (home / "classes.csv").write_text("\n".join([header, *table]))
    (home / "tabs.tsv").write_text(
        "error\tconfidence\n" + "\n".join(f"{k % 3 == 0:d}\t{k / 7}" for k in range(30))
    )
    (home / "unclear.csv").write_text("correct,confidence,p_max\n1,0.3,0.2\n0,0.2,0.1\n")
    (home / "broken.csv").write_text("correct,confidence\n1,high\n")
    (home / "broken.npz").write_bytes(b"PK not a zip file")
    (home / "empty.csv").write_text("")
    return home


READINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "npz": ("strong.npz", {}),
    "npz-probs": ("probs.npz", {"name": "mine"}),
    "npz-words": ("words.npz", {"classes": ("ant", "bee", "cat", "dog")}),
    "npz-words-unordered": ("words.npz", {}),
    "npy": ("logits.npy", {"kind": "logits", "labels": "labels.npy"}),
    "npy-unstated": ("logits.npy", {}),
    "csv": ("answers.csv", {}),
    "csv-classes": ("classes.csv", {"columns": {"probs": "class_*", "labels": "truth"}}),
    "csv-columns": ("unclear.csv", {"columns": {"confidence": "p_max"}}),
    "csv-unclear": ("unclear.csv", {}),
    "csv-missing": ("answers.csv", {"columns": {"loss": "regret"}}),
    "tsv": ("tabs.tsv", {}),
    "json": ("losses.json", {}),
    "jsonl": ("lines.jsonl", {}),
    "broken-csv": ("broken.csv", {}),
    "broken-npz": ("broken.npz", {}),
    "empty-csv": ("empty.csv", {}),
    "no-file": ("nowhere.csv", {}),
    "other-format": ("answers.csv", {"format": "json"}),
}


@section("formats")
def formats(keep: Record) -> None:
    """Every reader and writer."""
    home = write_inputs(keep.folder)
    f = abstain.formats
    for name, (file, options) in READINGS.items():
        given = {k: home / v if k == "labels" else v for k, v in options.items()}
        keep(f"formats/read/{name}", f.read_predictions, home / file, **given)
        keep(
            f"formats/text/{name}",
            lambda file=file, given=given: repr(f.read_predictions(home / file, **given)),
        )
    keep("formats/limits", f.read_predictions, home / "strong.npz", limits=f.Limits(memory=1000))
    read = {
        name: f.read_predictions(home / file)
        for name, file in (("logits", "strong.npz"), ("table", "answers.csv"), ("losses", "losses.json"))
    }
    read["words"] = f.read_predictions(home / "words.npz", classes=("ant", "bee", "cat", "dog"))
    out = keep.folder / "written"
    out.mkdir(exist_ok=True)
    for (kind, predictions), ending in itertools.product(read.items(), (*f.WRITABLE, ".xyz")):
        path = out / f"{kind}{ending}"
        keep(f"formats/write/{kind}/{ending}", f.write_predictions, predictions, path)
        if path.exists():
            keep(f"formats/read-back/{kind}/{ending}", f.read_predictions, path)
            if ending in (".csv", ".tsv", ".json", ".jsonl"):
                keep(f"formats/written/{kind}/{ending}", lambda path=path: path.read_text()[:600])
    for ending in (".csv", ".jsonl"):
        packed = out / f"table{ending}.gz"
        packed.write_bytes(gzip.compress((out / f"table{ending}").read_bytes()))
        keep(f"formats/read-packed/{ending}", f.read_predictions, packed)
    import torch

    torch.save({"logits": torch.ones(3, 2), "labels": torch.tensor([0, 1, 1])}, out / "tensors.pt")
    keep("formats/read/pt", f.read_predictions, out / "tensors.pt")
    torch.save({"logits": print}, out / "code.pt")
    keep("formats/read/pt-code", f.read_predictions, out / "code.pt")
    for file in ("strong.npz", "answers.csv", "lines.jsonl"):
        source = f.open_source(home / file)
        keep(
            f"formats/source/{file}",
            lambda s=source: [
                s.format,
                s.listed(),
                s.preview(),
                [c.shape for c in s.columns.values()],
                list(s.columns),
            ],
        )
    keep("formats/arguments", lambda: sorted(read["table"].arguments()))
    keep("formats/names", lambda: [sorted(f.FORMATS), sorted(f.ROLES), sorted(f.WRITABLE)])


def page_data(page: str) -> Any:
    """The numbers inside a report, without its layout."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1]) if found else "no data in the page"


@section("report")
def report(keep: Record) -> None:
    """The report's numbers."""
    home = write_inputs(keep.folder)
    read = {
        name: abstain.formats.read_predictions(home / name)
        for name in ("strong.npz", "weak.npz", "answers.csv", "losses.json")
    }
    for name, given, options in (
        ("two", ("strong.npz", "weak.npz"), {}),
        ("one", ("strong.npz",), {"score": "max_logit", "loss": "cross_entropy", "level": 0.9}),
        ("table", ("answers.csv",), {"rng": 3}),
        ("losses", ("losses.json",), {}),
    ):
        content = abstain.report.gather([read[file] for file in given], **options)
        keep(
            f"report/{name}/data",
            lambda content=content: page_data(abstain.report.page(content, made="today")),
        )
        keep(
            f"report/{name}/estimators", lambda content=content: [dict(m.estimators) for m in content.models]
        )
        keep(f"report/{name}/comparison", lambda content=content: content.comparison)
    abstain.report.save_page(content, keep.folder / "saved.html", title="Mine")
    keep("report/saved", lambda: page_data((keep.folder / "saved.html").read_text())["level"])
    keep("report/refused", abstain.report.gather, [])


COMMANDS = {
    "evaluate": [
        "strong.npz",
        "strong.npz --json",
        "strong.npz --csv",
        "strong.npz --latex",
        "strong.npz --quiet",
        "strong.npz -o told.txt",
        "strong.npz --json -o told.json",
        "strong.npz --metrics all --scores all --losses all --replicates 100 --csv",
        "strong.npz --metrics aurc,aurc:loo,risk_at_coverage@0.9 --scores max_logit --losses brier --level 0.9 --json",
        "strong.npz --seed 3 --replicates 100 --json --metrics aupr_error",
        "probs.npz --json",
        "words.npz --classes ant,bee,cat,dog --quiet",
        "words.npz",
        "logits.npy --as logits --labels labels.npy --quiet",
        "logits.npy",
        "answers.csv",
        "answers.csv --json",
        "answers.csv --csv --metrics aurc,augrc",
        "answers.csv --preview",
        "classes.csv -c probs=class_* -c labels=truth --json",
        "unclear.csv",
        "unclear.csv -c confidence=p_max --quiet",
        "losses.json",
        "losses.json --json",
        "lines.jsonl --quiet",
        "tabs.tsv --json",
        "broken.csv",
        "broken.npz",
        "empty.csv",
        "nowhere.csv",
        "strong.npz --metrics accuracy",
        "strong.npz --scores guess",
        "strong.npz --level 95",
        "strong.npz --max-memory 1KB",
        "strong.npz --max-memory much",
        "../engines/ties",
        "../engines/ties --json",
        "../engines/smooth --engine files --csv --metrics aurc,risk",
        "../engines/ties --engine sketch --json",
        "../engines/logits --engine files -c labels=label --json",
        "../engines/ties --engine memory",
    ],
    "compare": [
        "strong.npz weak.npz",
        "strong.npz weak.npz --json",
        "strong.npz weak.npz --csv",
        "strong.npz weak.npz --latex",
        "strong.npz weak.npz --quiet",
        "strong.npz weak.npz --metric auroc --level 0.9 --names a,b --json",
        "strong.npz weak.npz --scores max_softmax,max_logit --loss brier --json",
        "strong.npz other.npz",
        "strong.npz other.npz --unpaired --json",
        "answers.csv answers2.csv",
        "answers.csv answers2.csv --json",
        "strong.npz",
        "strong.npz weak.npz --metric risk_at_coverage",
        "../engines/smooth ../engines/ties --engine files --json",
        "../engines/smooth ../engines/ties",
    ],
    "threshold": [
        "strong.npz --risk 0.1",
        "strong.npz --risk 0.1 --json",
        "strong.npz --risk 0.1 --csv",
        "strong.npz --risk 0.1 --latex",
        "strong.npz --risk 0.1 --quiet",
        "strong.npz --risk 0.1 --save rule.json",
        "weak.npz --check rule.json",
        "strong.npz --check rule.json --json",
        "strong.npz --coverage 0.8 --json",
        "strong.npz --cost 0.2 --json",
        *(f"strong.npz --risk 0.15 --method {m} --delta 0.1 --json" for m in ("ltt", "sgr", "crc", "empirical")),
        "strong.npz --risk 0.15 --score max_logit --quiet",
        "weak.npz --risk 0.001",
        "weak.npz --risk 0.001 --json",
        "answers.csv --risk 0.2",
        "answers.csv --risk 0.2 --per-group",
        "answers.csv --risk 0.2 --per-group --json",
        "losses.json --risk 2 --bounded 0 40 --json",
        "losses.json --risk 2",
        "strong.npz",
        "strong.npz --risk 0.1 --coverage 0.5",
    ],
    "report": [
        "strong.npz weak.npz -o page.html",
        "answers.csv -o page.html --seed 2 --level 0.9 -q",
        "broken.csv -o page.html",
    ],
    "demo": ["--data digits --no-report", "--no-report"],
    "convert": [
        "strong.npz strong.csv",
        "strong.npz strong.parquet",
        "answers.csv answers.jsonl",
        "logits.npy out.json --as logits --labels labels.npy",
        "strong.npz strong.xyz",
    ],
    "version": ["", "--json"],
    "guess": [""],
}  # fmt: skip
WRITTEN = (
    "told.txt",
    "told.json",
    "rule.json",
    "page.html",
    "strong.csv",
    "strong.parquet",
    "answers.jsonl",
    "out.json",
)


@section("cli")
def commands(keep: Record) -> None:
    """Every command, with its help."""
    home = write_inputs(keep.folder)
    engine_tables(keep.folder)
    with contextlib.chdir(home):
        for command, lines in COMMANDS.items():
            for line in lines:
                keep(f"cli/{command}/{line}", invoke, [command, *line.split()])
        for command in ("", "evaluate", "compare", "threshold", "report", "demo", "convert", "version"):
            keep(f"cli/help/{command}", invoke, [*command.split(), "--help"])


def invoke(arguments: list[str]) -> dict[str, Any]:
    """Exit code, what was printed (as values where it is JSON or CSV), and what was written."""
    from click.testing import CliRunner

    from abstain.cli import cli

    done = CliRunner().invoke(cli, arguments, prog_name="abstain")
    found: dict[str, Any] = {
        "code": done.exit_code,
        "output": printed(arguments, done.stdout),
        "errors": done.stderr,
    }
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        found["raised"] = _raised(done.exception)
    for name in WRITTEN:
        path = Path(name)
        if name in arguments and path.exists() and "--check" not in arguments:
            found[name] = written(path)
    return found


def printed(arguments: list[str], text: str) -> Any:
    """Standard output, as values where it is JSON or CSV."""
    if arguments[0] == "version":  # which versions is not ours to freeze
        text = re.sub(r"\d[\w.+-]*", "N", text)
    with contextlib.suppress(ValueError):
        if "--json" in arguments:
            found = json.loads(text)
            return (
                found
                if "told.json" in arguments
                else {k: v for k, v in found.items() if k not in ("curves", "reference", "table")}
            )
        if "--csv" in arguments:
            return [[number(cell) for cell in row] for row in csv.reader(io.StringIO(text))]
    return text


def number(cell: str) -> float | str:
    """A cell of a table."""
    try:
        return float(cell)
    except ValueError:
        return cell


def written(path: Path) -> Any:
    """A file that a command has written, as values."""
    if path.suffix == ".html":
        return page_data(path.read_text())
    if path.suffix in (".parquet", ".csv", ".jsonl"):
        return abstain.formats.read_predictions(path)
    return json.loads(path.read_text()) if path.suffix == ".json" else path.read_text()


# comparing ------------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")


def close(old: float, new: float, size: float = 0.0) -> bool:
    """Equal to 1e-12 of the number, of 1, or of the size of what was added up."""
    if math.isnan(old) or math.isnan(new):
        return math.isnan(old) and math.isnan(new)
    return old == new or abs(old - new) <= TOLERANCE * max(1.0, abs(old), size)


def same_text(old: str, new: str) -> bool:
    """The same words, and numbers that are equal when read: a text may hold every digit."""
    if old == new:
        return True
    if _NUMBER.sub("#", old) != _NUMBER.sub("#", new):
        return False
    return all(close(float(a), float(b)) for a, b in zip(_NUMBER.findall(old), _NUMBER.findall(new)))


def changes(path: str, old: Any, new: Any, size: float = 0.0) -> Iterator[tuple[str, Any, Any]]:
    """Paths at which the values differ, with both. What is new in a dict is no change."""
    if isinstance(old, dict) and isinstance(new, dict):
        size = old["size"] if "sums" in old else 0.0
        for name, part in old.items():
            if name in new:
                yield from changes(f"{path}/{name}", part, new[name], size)
            else:
                yield f"{path}/{name}", part, "(missing)"
        if "error" in new and "error" not in old:
            yield f"{path}/error", "(no error)", new
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for k, (a, b) in enumerate(zip(old, new)):
            yield from changes(f"{path}/{k}", a, b, size)
    elif isinstance(old, bool) or isinstance(new, bool):
        if old is not new:
            yield path, old, new
    elif isinstance(old, (int, float)) and isinstance(new, (int, float)):
        if not close(old, new, size):
            yield path, old, new
    elif isinstance(old, str) and isinstance(new, str):
        if not same_text(old, new):
            yield path, old, new
    elif old != new:
        yield path, old, new


def compute(wanted: list[str], told: bool, strict: bool) -> dict[str, Any]:
    """All results of these sections; a section that breaks off is an error only when `strict`."""
    folder = Path(tempfile.mkdtemp(prefix="frozen-")).resolve()
    keep = Record(folder)
    try:
        for name in wanted:
            begun = time.perf_counter()
            before = len(keep.values)
            try:
                SECTIONS[name](keep)
            except Exception:  # what the section did not reach is missing then, and told so
                if strict:
                    raise
                print(f"{name} broke off:\n{traceback.format_exc(limit=-3)}", file=sys.stderr)
            if told:
                spent = time.perf_counter() - begun
                print(
                    f"{name:<12} {len(keep.values) - before:>6} results {spent:>7.1f} s",
                    file=sys.stderr,
                    flush=True,
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return json.loads(json.dumps(keep.values))


def freeze(path: Path, found: dict[str, Any], wanted: list[str]) -> int:
    """Write the results; those of sections that were not run stay as they are in the file."""
    if path.exists():
        old = json.loads(gzip.decompress(path.read_bytes()))
        found = {key: value for key, value in old.items() if key.split("/")[0] not in wanted} | found
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, separators=(",", ":"), sort_keys=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))  # no date: the same results, the same file
    print(f"{path}: {len(found)} results of {abstain.__file__}, {path.stat().st_size / 1000:.0f} kB")
    return 0


def check(path: Path, found: dict[str, Any], wanted: list[str], most: int) -> int:
    """Print what differs; 1 when anything does that is not in EXPECTED."""
    frozen = json.loads(gzip.decompress(path.read_bytes()))
    frozen = {key: value for key, value in frozen.items() if key.split("/")[0] in wanted}
    differences: list[tuple[str, Any, Any]] = []
    for key, old in frozen.items():
        differences += changes(key, old, found[key]) if key in found else [(key, old, "(missing)")]
    reasons = {place: _reason(place) for place, _, _ in differences}
    surprises = [d for d in differences if reasons[d[0]] is None]
    for place, old, new in surprises[:most]:
        print(f"{place}\n    was {_short(old)}\n    is  {_short(new)}")
    if len(surprises) > most:
        print(f"... and {len(surprises) - most} more (--most {len(surprises)} shows them)")
    hit = {reasons[place] for place in reasons} - {None}
    for pattern in EXPECTED:
        count = sum(fnmatch.fnmatchcase(place, pattern) for place in reasons)
        print(f"expected: {pattern}: {count} values ({EXPECTED[pattern]})")
    new = sum(key not in frozen for key in found)
    results = len({_key(place, frozen) for place, _, _ in surprises})
    print(
        f"{len(frozen)} results compared with {abstain.__file__}: {len(surprises)} values in {results} results differ, "
        f"{len(differences) - len(surprises)} as expected by {len(hit)} of {len(EXPECTED)} patterns, "
        f"{new} results are new."
    )
    return 1 if surprises else 0


def _reason(place: str) -> str | None:
    return next((pattern for pattern in EXPECTED if fnmatch.fnmatchcase(place, pattern)), None)


def _key(place: str, frozen: dict[str, Any]) -> str:
    """The result that a path lies in."""
    while place not in frozen:
        place = place.rpartition("/")[0]
    return place


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 300 else f"{text[:300]} ... ({len(text)} characters)"


def main() -> int:
    """The command line of this script."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["freeze", "check"])
    parser.add_argument("path", type=Path)
    parser.add_argument("--only", default="", help=f"sections, with commas between: {', '.join(SECTIONS)}")
    parser.add_argument("--without", default="", help="sections to leave out")
    parser.add_argument("--most", type=int, default=40, help="differences to print")
    parser.add_argument("--quiet", action="store_true", help="no times of sections")
    given = parser.parse_args()
    only, without = ([n for n in text.split(",") if n] for text in (given.only, given.without))
    unknown = sorted({*only, *without} - set(SECTIONS))
    if unknown:
        parser.error(f"unknown section {unknown[0]!r}, there are {', '.join(SECTIONS)}")
    wanted = [name for name in SECTIONS if (not only or name in only) and name not in without]
    wanted.sort(
        key=lambda name: name != "spark"
    )  # it starts a process, which is safe before the threads of jax only
    found = compute(wanted, not given.quiet, given.action == "freeze")
    if given.action == "freeze":
        return freeze(given.path, found, wanted)
    return check(given.path, found, wanted, given.most)


if __name__ == "__main__":
    sys.exit(main())
