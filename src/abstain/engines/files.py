"""Exact metrics of prediction files larger than memory: Parquet, Arrow and CSV.

Two passes over the data (a histogram of the confidences, then every sample to the range it belongs to) and
one over the ranges, none of which needs more memory than allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from abstain.core.estimators import Estimator, Ties
from abstain.engines.answers import picked, value_of
from abstain.engines.asking import Model, PairOptions, Reading, ask_for, fields_for, pair
from abstain.engines.filerun import run_files
from abstain.engines.finish import Ask
from abstain.engines.paired import Paired
from abstain.engines.pairedfiles import compare_files
from abstain.engines.summary import Summary
from abstain.metrics.curve import RiskCoverageCurve
from abstain.metrics.groups import Grouped

__all__ = [
    "augrc",
    "aurc",
    "compare",
    "coverage_at_risk",
    "e_aurc",
    "evaluate",
    "naurc",
    "risk",
    "risk_at_coverage",
    "risk_coverage_curve",
]


class Means(TypedDict, total=False):
    """What a run may take, and whether it shows how far it is; see `evaluate`."""

    memory: str | float
    spill: str | None
    resume: str | None
    progress: bool | None


class FilePairOptions(PairOptions, total=False):
    """Options of `compare`; see there."""

    other: Any
    memory: str | float
    spill: str | None


class FileOptions(Reading, Means, total=False):
    """Options every function here takes; see `evaluate`."""


def evaluate(
    path: Any,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    coverages: Sequence[float] = (),
    risks: Sequence[float] = (),
    points: int = 0,
    **reading: Unpack[FileOptions],
) -> Summary | dict[Any, Summary]:
    """Every area with its standard error, and points of the curve, exactly, of files larger than memory.

    Parameters
    ----------
    path : str, path or list of them
        A file, a folder or a glob of Parquet, Arrow (feather, ipc) and CSV files.
    estimator, ties : str
        As in `abstain.aurc`.
    coverages, risks : sequences of float
        Where to read off risks at coverages and coverages at risks.
    points : int
        About how many points of the risk-coverage curve to keep (exact ones, evenly spaced in coverage).
    confidence, loss, sample_weight, groups : str
        Names of columns ("confidence" and "loss" unless said). `correct` names a column of 1 (right) and 0
        in place of the losses. Instead of both: `logits` (columns, or
        one column of lists) and `label`, with `score` (a name of `abstain.scores`, "max_softmax") and
        `loss_name` (of `abstain.losses`, "zero_one").
    memory : str or number
        Budget of this process, "1GB" unless said.
    spill : str, optional
        Folder for intermediate data (as large as the columns read); removed afterwards, also after an error.
    resume : str, optional
        Folder that keeps intermediate data when the work is interrupted; the same call takes it up again.
    progress : bool, optional
        Show a progress bar; by default when the terminal can and the work is long.

    Returns
    -------
    Summary, or a dict of them by group.
    """
    ask = ask_for("files.evaluate", estimator, ties, True, coverages, risks, points)
    result: Summary | dict[Any, Summary] = _answer("files.evaluate", path, ask, reading)
    return result


def aurc(
    path: Any,
    /,
    *,
    estimator: Estimator = "harmonic",
    ties: Ties = "threshold",
    **reading: Unpack[FileOptions],
) -> float | Grouped:
    """Area under the risk-coverage curve; lower is better. Options as in `evaluate`."""
    ask = ask_for("files.aurc", estimator, ties, spread=False)
    return value_of("aurc", _answer("files.aurc", path, ask, reading))


def augrc(path: Any, /, *, ties: Ties = "threshold", **reading: Unpack[FileOptions]) -> float | Grouped:
    """Area under the generalised risk-coverage curve, by the mean rule; lower is better."""
    ask = ask_for("files.augrc", "sele", ties, spread=False)
    return value_of("aurc", _answer("files.augrc", path, ask, reading), "augrc")


def risk(path: Any, /, **reading: Unpack[FileOptions]) -> float | Grouped:
    """Mean loss; lower is better."""
    return value_of("risk", _answer("files.risk", path, Ask(), reading))


def e_aurc(
    path: Any, /, *, estimator: Estimator = "harmonic", **reading: Unpack[FileOptions]
) -> float | Grouped:
    """Excess AURC over the best ordering of the same losses; lower is better."""
    return value_of("e_aurc", _answer("files.e_aurc", path, Ask(estimator), reading))


def naurc(
    path: Any, /, *, estimator: Estimator = "harmonic", **reading: Unpack[FileOptions]
) -> float | Grouped:
    """Normalised AURC: 0 for the best ordering, 1 for a useless confidence; lower is better."""
    return value_of("naurc", _answer("files.naurc", path, Ask(estimator), reading))


def risk_at_coverage(path: Any, /, *, coverage: float, **reading: Unpack[FileOptions]) -> float | Grouped:
    """Selective risk at the least attainable coverage that is at least `coverage`; lower is better."""
    ask = ask_for("files.risk_at_coverage", "harmonic", "threshold", False, coverages=(coverage,))
    answer = _answer("files.risk_at_coverage", path, ask, reading)
    return picked("risk_at_coverage", answer, lambda s: s.risk_at_coverage[ask.coverages[0]])


def coverage_at_risk(path: Any, /, *, risk: float, **reading: Unpack[FileOptions]) -> float | Grouped:
    """Largest coverage whose selective risk is at most `risk`, 0 when no threshold does it; higher is
    better."""
    ask = ask_for("files.coverage_at_risk", "harmonic", "threshold", False, risks=(risk,))
    answer = _answer("files.coverage_at_risk", path, ask, reading)
    return picked(
        "coverage_at_risk", answer, lambda s: s.coverage_at_risk[ask.risks[0]], lower_is_better=False
    )


def risk_coverage_curve(
    path: Any, /, *, points: int = 1000, **reading: Unpack[FileOptions]
) -> RiskCoverageCurve | dict[Any, RiskCoverageCurve]:
    """About `points` exact points of the risk-coverage curve, evenly spaced in coverage (a dict by group)."""
    answer = _answer("files.risk_coverage_curve", path, Ask(spread=False, points=int(points)), reading)
    if isinstance(answer, dict):
        return {group: summary.curve for group, summary in answer.items()}
    curve: RiskCoverageCurve = answer.curve
    return curve


def compare(path: Any, /, *, first: Model, second: Model, **options: Unpack[FilePairOptions]) -> Paired:
    """Is the first model's AURC lower than the second's on the same samples?

    Parameters
    ----------
    path : str, path or list of them
        Files that hold the columns of both models, as in `evaluate`.
    first, second : (str, str)
        The columns (confidence, loss) of each model.
    other : str, path or list of them, optional
        Files that hold the second model's columns instead, sample by sample in the same order.
    estimator, ties, sample_weight, memory, spill, progress
        As in `evaluate`; intermediate data takes about 40 bytes for each sample.

    Returns
    -------
    Paired
        Both areas, their difference with its standard error, an interval and a p-value.
    """
    own: dict[str, Any] = dict(options)
    means = {key: own.pop(key) for key in ("other", "memory", "spill") if key in own}
    return compare_files(pair("files.compare", first, second, own), path, **means)


def _answer(name: str, path: Any, ask: Ask, reading: FileOptions) -> Any:
    options: dict[str, Any] = dict(reading)
    means = {key: options.pop(key, None) for key in ("spill", "resume", "progress")}
    memory = options.pop("memory", "1GB")
    return run_files(name, path, fields_for(name, options), ask, memory, **means)


def _register() -> None:
    from abstain.engines.evaluating import engine
    from abstain.evaluation import register_engine

    register_engine("files", engine(evaluate))


_register()
