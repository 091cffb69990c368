"""Ensembles and posterior samples: the members' mean AURC, the averaged predictor beside it, and the gain."""

from __future__ import annotations

from typing import Any

import numpy as np

from abstain._arrays import Array, to_host
from abstain._check import check_fraction, class_indices
from abstain.display import CurveLine, thinned
from abstain.errors import InputError, ShapeError
from abstain.evaluation.results import ExpectedAURC
from abstain.evaluation.table import read_model
from abstain.inference import influence
from abstain.inference.limits import SCALED_BY_LOSS, Facts, Spread, freedom, interval_of, student
from abstain.inference.records import Interval
from abstain.inference.standard_errors import error_size_of, gather, measure, power_sums
from abstain.metrics.points import risk_coverage_curve
from abstain.metrics.registry import Metric, by_name
from abstain.scores import pooled_log_probs

_GRID = 100


def expected_aurc(
    probs: Array | None = None,
    labels: Array | None = None,
    *,
    logits: Array | None = None,
    loss: Any = "zero_one",
    confidence: Array | None = None,
    averaged: tuple[Array, Array] | None = None,
    score: Any = "max_softmax",
    metric: Any = "aurc",
    classes: Any = None,
    level: float = 0.95,
) -> ExpectedAURC:
    r"""Mean AURC over the members of an ensemble (or posterior samples), beside that of their averaged prediction.

    .. math:: E_f[\mathrm{AURC}(f)] \approx \frac1M \sum_m \mathrm{AURC}(f_m)

    By Fubini it is also the mean over ranks of the members' mean selective risk, members sharing thresholds by rank.

    Parameters
    ----------
    probs, logits : array, shape (M, n, K)
        One of them, members first. Of binary models (M, n, 1) will do: the probabilities or log-odds of class 1.
    labels : array, shape (n,)
        Class indices, or names from `classes`.
    loss : name or function, or array of shape (M, n)
        With `confidence` the members' own losses; no probabilities are needed then.
    confidence : array, shape (M, n), optional
        The members' own confidences.
    averaged : (loss, confidence), optional
        Of the averaged predictor, where the members come as losses and confidences.
    score : name or function
        The confidence computed from probabilities or logits.
    metric : str
        Any with an influence function: "aurc", "aurc:loo", "augrc", "naurc" ...
    classes : sequence, optional
        The class names in the order of the columns, where labels are words or numbers other than 0 ... K-1.
    level : float
        Of the intervals.

    Returns
    -------
    ExpectedAURC
        Errors of the mean: over members :math:`s/\sqrt M`, over data from the mean of the influence functions;
        its interval adds the two squares. Lower is better; a positive gain means that averaging helps.

    Examples
    --------
    >>> loss = [[0, 0, 1, 1], [0, 1, 0, 1]]
    >>> sure = [[4, 3, 2, 1], [4, 3, 2, 1]]
    >>> expected_aurc(loss=loss, confidence=sure).members  # prefix risks 0 0 1/3 1/2 and 0 1/2 1/3 1/2
    (0.20833333333333331, 0.3333333333333333)
    """
    level = check_fraction("expected_aurc", "level", level, open_high=True)
    chosen = by_name(metric)
    if not chosen.smooth:
        raise InputError(f"expected_aurc: {chosen.name} has no influence function.")
    pooled: Any = averaged
    if confidence is not None:
        l, g = (np.asarray(to_host(x)) for x in (loss, confidence))
        if l.ndim != 2 or l.shape != g.shape or l.dtype.kind not in "biuf":
            raise ShapeError(
                f"expected_aurc: `loss` and `confidence` must be of shape (members, samples), got {l.shape} and "
                f"{g.shape}."
            )
        pairs, name = list(zip(l, g)), "own losses"
        pooled = None if averaged is None else tuple(np.asarray(to_host(x)) for x in averaged)
    elif (probs is None) == (logits is None) or labels is None:
        raise InputError(
            "expected_aurc: takes probabilities or `logits=` of shape (members, samples, classes) with `labels`, or "
            "`loss=` and `confidence=` of shape (members, samples)."
        )
    else:
        labels = class_indices("expected_aurc", labels, classes)
        mean = pooled_log_probs(logits, probs=probs)
        kind, stack = ("probs", probs) if logits is None else ("logits", logits)
        assert stack is not None
        pairs = [_one(labels, loss, score, **{kind: member})[1] for member in stack]
        name, pooled = _one(labels, loss, score, logits=mean)
    return _measure(pairs, pooled, chosen, name, level)


Vectors = tuple[np.ndarray, np.ndarray]


def _one(labels: Array, loss: Any, score: Any, **outputs: Array) -> tuple[str, Vectors]:
    found = read_model("expected_aurc", labels=labels, scores=[score], losses=[loss], **outputs)
    ((name, l),), (confidence,) = found.losses.items(), found.scores.values()
    return name, (l, confidence)


def _measure(
    pairs: list[Vectors], pooled: Vectors | None, metric: Metric, loss: str, level: float
) -> ExpectedAURC:
    options = dict(metric.options)

    # members without an error have the size of one from the others
    size = error_size_of(np.concatenate([l for l, _ in pairs]))
    scale = size if size is not None and metric.name in SCALED_BY_LOSS else 1.0

    def measured(l: np.ndarray, g: np.ndarray) -> tuple[Spread, Facts]:
        units = gather("expected_aurc", metric.name, l, g, options=options, error_size=size)
        return measure("expected_aurc", units)

    found = [influence(metric.name, l, g, **options) for l, g in pairs]
    values = np.array([f.estimate for f in found])
    pull = np.mean([f.values for f in found], axis=0)
    n, count = len(pull), len(values)
    over_data, freedom = _spread(pull)
    over_members = float(np.std(values, ddof=1) / np.sqrt(count)) if count > 1 else 0.0

    both = over_members**4 / max(count - 1, 1) + over_data**4 / freedom  # by Welch, as the excess is
    spreads, facts = zip(*(measured(l, g) for l, g in pairs))
    if size is None:
        spreads = tuple(s.times(f.error_size) for s, f in zip(spreads, facts))
        facts = tuple(
            f._replace(
                risk=f.error_size * f.risk,
                largest=f.error_size * f.largest,
                zero_one=False,
                error_size=1.0,
            )
            for f in facts
        )
    error2 = over_members**2 + over_data**2
    # the members' errors are on the same samples: together they rest on as many as one of them
    reach, reach2 = (float(np.mean([getattr(s, name) for s in spreads])) for name in ("reach", "reach2"))
    centre = None if spreads[0].centre is None else float(np.mean([s.centre for s in spreads]))
    known = facts[0]._replace(
        zero_one=all(f.zero_one for f in facts),
        negative=any(f.negative for f in facts),
        risk=float(np.mean([f.risk for f in facts])),
        errors=float(np.mean([f.errors for f in facts])),
        largest=max(f.largest for f in facts),
    )
    spread = Spread(
        estimate=float(values.mean()) / scale,
        second=error2 / scale**2,
        excess=2 * both / scale**4,
        reach=reach,
        reach2=reach2,
        centre=centre,
    )
    mean = interval_of(metric.name, spread, known, level)
    averaged = gain = None
    curves = [_mean_curve(pairs)]
    if pooled is not None:
        if len(pooled[0]) != n:
            raise ShapeError(
                f"expected_aurc: `averaged` must have the members' {n} samples, got {len(pooled[0])}."
            )
        own = influence(metric.name, *pooled, **options)
        averaged = interval_of(metric.name, *measured(*pooled), level)
        error, gap = _spread(pull - own.values)[0], mean.estimate - own.estimate
        step = float(student(max(1.0, n - 1.0), level)) * error
        gain = Interval(metric.name, gap, error, gap - step, gap + step, level, "normal", n)
        curve = risk_coverage_curve(*pooled)
        curves.append(thinned("averaged prediction", curve.coverage, curve.risk))
    return ExpectedAURC(
        metric.key, metric.label, loss, level, n, tuple(values.tolist()), mean, over_members, over_data,
        averaged, gain, tuple(curves),
    )  # fmt: skip


def _spread(values: np.ndarray) -> tuple[float, float]:
    """Standard error of a mean of influences, and its degrees of freedom."""
    second, fourth = power_sums(values.__getitem__, len(values))
    n = len(values)
    return float(np.sqrt(second)) / n, freedom(second, fourth - second**2 / n, n)


def _mean_curve(pairs: list[Vectors]) -> CurveLine:
    """Mean over members of the selective risk at each coverage (the least attainable one, where ties coarsen it)."""
    grid = np.arange(1, _GRID + 1) / _GRID
    total = np.zeros(_GRID)
    for l, g in pairs:
        curve = risk_coverage_curve(l, g)
        place = np.searchsorted(curve.coverage, grid * (1 - 1e-12))
        total += curve.risk[np.minimum(place, len(curve.risk) - 1)]
    return CurveLine("mean of members", tuple(grid.tolist()), tuple((total / len(pairs)).tolist()))
