"""From a range's samples, and what lies above it, to its part of every answer; from all parts to the answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from abstain import losses, scores
from abstain.core import points
from abstain.core.bins import harmonic_spread
from abstain.core.estimators import area_terms, needs_whole_weights, oracle_rows, reads_block_loss
from abstain.core.influence import (
    Line,
    Moments,
    Piece,
    combined,
    half_mass_piece,
    moments_of_blocks,
    moments_of_samples,
    of_zero_one_oracle,
    piece_of,
)
from abstain.core.points import reaches
from abstain.core.rows import Blocks, Rows, row_pieces, sort_once
from abstain.core.tally import Counted
from abstain.display import CurveLine, thinned
from abstain.engines.ranges import Columns, RangeSums, split
from abstain.errors import InfeasibleError, InputError
from abstain.evaluation.results import Entry, Evaluation
from abstain.evaluation.table import ONE_KIND, listed, metrics_for
from abstain.inference.limits import Scale, student
from abstain.metrics.groups import Grouped
from abstain.metrics.points import RiskCoverageCurve
from abstain.metrics.registry import METRICS, Metric, by_name


@dataclass(frozen=True)
class Ask:
    """What to work out. `spread`: standard errors, AUGRC and rejection ratio beside the area."""

    estimator: str = "harmonic"
    ties: str = "threshold"
    spread: bool = True
    coverages: tuple[float, ...] = ()
    risks: tuple[float, ...] = ()
    points: int = 0  # points of the curve, over all ranges
    by_loss: bool = False  # the oracle's pass: confidence is minus the loss, every sample a block of its own

    @property
    def area_only(self) -> bool:
        """Nothing but one number?"""
        return not (self.spread or self.coverages or self.risks or self.points or self.by_loss)


class Place(NamedTuple):
    """Where a range stands: mass and loss above it, mass of the whole set."""

    N: float
    S: float
    W: float


@dataclass(frozen=True)
class Part:
    """A range's part of the answers. Points of the curve are columns (threshold, mass accepted, loss,
    count)."""

    area: float
    pieces: dict[str, Piece] = field(default_factory=dict)
    half: float = 0.0
    at_coverage: dict[float, tuple[float, float]] = field(default_factory=dict)
    at_risk: dict[float, float] = field(default_factory=dict)
    curve: np.ndarray | None = None
    count: int = 0
    loo: float = 0.0  # the same area by the least biased weights: where intervals are centred


def finish(columns: Columns, place: Place, ask: Ask) -> Part:
    """The part of a range with samples."""
    if ask.by_loss:
        return _oracle_part(columns, place, ask)
    if ask.area_only:
        return Part(_area(columns, place, ask))
    if ask.points:
        blocks = Blocks.from_samples(*columns.samples)
        return _part(moments_of_blocks(blocks), blocks.confidence[::-1], blocks.count[::-1], place, ask)
    return _part(moments_of_samples(*columns.samples), None, None, place, ask)


def finish_tie(sums: np.ndarray, confidence: float, place: Place, ask: Ask) -> Part:
    """The part of a range that is one tie, from its sums alone (in the order of `ranges.SUMS`)."""
    m, L, w2, w2l, w2ll = (sums[i : i + 1] for i in range(5))
    moments = Moments(Rows(m, L, m, L, m), w2, w2l, w2ll, False)
    if ask.by_loss:  # equal losses are not one block: any order among them gives the same area
        return _oracle_of_tie(moments, place, ask)
    return _part(moments, np.asarray([confidence]), sums[5:6], place, ask)


def finish_counted(blocks: Counted, place: Place, ask: Ask) -> Part:
    """The part of blocks that were counted, not sorted."""
    m, L = blocks.mass, blocks.wrong
    rows = Rows(m, L, np.cumsum(m), np.cumsum(L), m, np, False)
    if ask.area_only:
        return Part(float(np.sum(area_terms(_placed(rows, place), ask.estimator, ask.ties))))
    return _part(Moments(rows, m, L, L, True), blocks.confidence.astype(np.float64), m, place, ask)


def _placed(rows: Rows, place: Place) -> Rows:
    return Rows(rows.m, rows.L, rows.N + place.N, rows.S + place.S, np.asarray([place.W]), np, False)


def _area(columns: Columns, place: Place, ask: Ask) -> float:
    """A sum over pieces that stay in cache."""
    samples = sort_once(*columns.samples)
    pieces = row_pieces(samples, reads_block_loss(ask.estimator, ask.ties))
    return math.fsum(
        float(np.sum(area_terms(_placed(rows, place), ask.estimator, ask.ties))) for rows in pieces
    )


def _part(
    moments: Moments, threshold: np.ndarray | None, count: np.ndarray | None, place: Place, ask: Ask
) -> Part:
    rows = _placed(moments.rows, place)
    columns = (moments.w2, moments.w2l, moments.w2ll)
    pieces, half = {}, 0.0
    if ask.spread:
        pieces = {"area": piece_of(rows, *columns, ask.estimator, ask.ties)}
        pieces["sele"] = piece_of(rows, *columns, "sele", ask.ties)
        pieces["half"] = half_mass_piece(rows, *columns)
        half = pieces["half"].terms / place.W
    share = rows.N / place.W
    found = {}
    for coverage in ask.coverages:
        reach = reaches(share, coverage)
        if reach.any():
            first = int(np.argmax(reach))
            found[coverage] = (float(rows.N[first]), float(rows.S[first]))
    feasible = {}
    for risk in ask.risks:
        good = reaches(-rows.risk, -risk)
        feasible[risk] = float(np.max(np.where(good, rows.N, 0.0)))
    area = pieces["area"].terms if pieces else float(np.sum(area_terms(rows, ask.estimator, ask.ties)))
    samples = 0 if count is None else int(count.sum())
    loo = float(np.sum(area_terms(rows, "loo", ask.ties))) if ask.spread else 0.0
    curve = _points(rows, threshold, count, place, ask)
    return Part(area, pieces, half, found, feasible, curve, samples, loo)


def _points(
    rows: Rows, threshold: np.ndarray | None, count: np.ndarray | None, place: Place, ask: Ask
) -> np.ndarray | None:
    """Rows nearest to evenly spaced coverages, first and last included."""
    if threshold is None or count is None or not ask.points:
        return None
    step = place.W / ask.points
    tick = np.floor(rows.N / step)
    keep = np.diff(tick, prepend=math.floor(place.N / step)) > 0
    keep[0] |= place.N == 0  # the most confident block is always shown
    keep[-1] |= reaches(rows.N[-1] / place.W, 1.0)  # and so is coverage 1
    return np.stack([threshold, rows.N, rows.S, np.cumsum(count)])[:, keep]


def _oracle_part(columns: Columns, place: Place, ask: Ask) -> Part:
    import array_api_compat.numpy as xp

    rows = oracle_rows(xp, columns.loss, columns.weight)
    w = rows.m
    l = rows.L / np.where(w > 0, w, 1.0)
    return _oracle_of(Moments(rows, w * w, w * w * l, w * w * l * l, False), place, ask)


def _oracle_of(moments: Moments, place: Place, ask: Ask) -> Part:
    rows = _placed(moments.rows, place)
    piece = piece_of(rows, moments.w2, moments.w2l, moments.w2ll, ask.estimator, ask.ties)
    return Part(piece.terms, {"area": piece}, float(points.half_mass_area(rows)))


def _oracle_of_tie(moments: Moments, place: Place, ask: Ask) -> Part:
    """All losses equal: whole masses are spread over their positions; other masses as if very small."""
    part = _oracle_of(moments, place, ask)
    if ask.ties == "expected" or ask.estimator != "harmonic":
        return part
    return replace(part, area=float(np.sum(harmonic_spread(_placed(moments.rows, place)))))


# summary ------------------------------------------------------------------------------------------
#
# From the parts of all ranges to the answers.


@dataclass(frozen=True)
class Value:
    """An estimate and its standard error (None where it was not worked out)."""

    estimate: float
    standard_error: float | None = None

    def __float__(self) -> float:
        return self.estimate

    def __repr__(self) -> str:
        error = "" if self.standard_error is None else f" ± {self.standard_error:.2g}"
        return f"{self.estimate:.6g}{error}"


@dataclass(frozen=True)
class Summary:
    """Exact answers over a data set. Lower is better for all values but auroc and
    prediction_rejection_ratio."""

    n: int
    mass: float
    values: dict[str, Value]
    risk_at_coverage: dict[float, float] = field(default_factory=dict)
    coverage_at_risk: dict[float, float] = field(default_factory=dict)
    curve: RiskCoverageCurve | None = None
    ranges: int = 1
    loo: float | None = None  # AURC by the least biased weights: where its interval is centred

    def __getitem__(self, metric: str) -> Value:
        return self.values[metric]

    def frame(self) -> list[dict[str, Any]]:
        """One record per metric, ready for a data frame."""
        return [
            {"metric": name, "estimate": v.estimate, "standard_error": v.standard_error}
            for name, v in self.values.items()
        ]

    def __repr__(self) -> str:
        lines = [f"  {name:<28}{value!r}" for name, value in self.values.items()]
        lines += [f"  {f'risk at coverage {c:g}':<28}{r:.6g}" for c, r in self.risk_at_coverage.items()]
        lines += [f"  {f'coverage at risk {r:g}':<28}{c:.6g}" for r, c in self.coverage_at_risk.items()]
        return "\n".join([f"n = {self.n:,}", *lines])


def summarise(sums: RangeSums, parts: Sequence[Part], ask: Ask, oracle: Sequence[Part] | None) -> Summary:
    """`parts` and `oracle` from the most confident range (the smallest losses) down, ranges without samples
    left out."""
    mass, loss, w2, w2l, w2ll, count, graded = (float(x) for x in sums.sums.sum(axis=1))
    values = {"aurc": Value(math.fsum(p.area for p in parts) / mass)}
    if ask.spread:
        values = _with_errors(np.asarray([mass, loss, w2, w2l, w2ll]), parts, ask)
        if graded == 0 and mass == count == w2:  # then the sum of (w - 1)^2 is 0: every weight is 1
            values |= _zero_one_oracle(mass, loss, parts, ask, values)
        elif oracle is not None:
            values |= _oracle(mass, loss, parts, oracle, values)
    return Summary(
        int(count),
        float(mass),
        values,
        {c: _at_coverage(parts, c) for c in ask.coverages},
        {r: max(p.at_risk[r] for p in parts) / mass for r in ask.risks},
        _curve(parts, float(mass), int(count)) if ask.points else None,
        len(parts),
        math.fsum(p.loo for p in parts) / mass if ask.spread else None,
    )


def _with_errors(totals: np.ndarray, parts: Sequence[Part], ask: Ask) -> dict[str, Value]:
    mass, loss, w2, w2l, w2ll = totals
    risk = loss / mass
    spread = math.sqrt(max(w2ll - 2 * risk * w2l + risk * risk * w2, 0.0)) / mass
    return {
        "risk": Value(float(risk), float(spread)),
        "aurc": Value(*combined([p.pieces["area"] for p in parts])),
        "augrc": Value(*combined([p.pieces["sele"] for p in parts])),
    }


def _zero_one_oracle(
    mass: float, loss: float, parts: Sequence[Part], ask: Ask, values: dict[str, Value]
) -> dict[str, Value]:
    """The oracle of a 0/1 loss is a function of the risk: its influence is a straight line in the loss."""
    one = np.asarray([mass])
    best = of_zero_one_oracle(Rows(one, np.asarray([loss]), one, np.asarray([loss]), one), ask.estimator)
    oracle, const, slope = float(best.estimate), float(best.const[0]), float(best.slope[0])
    pieces = [p.pieces["area"] for p in parts]
    excess = values["aurc"].estimate - oracle
    risk = values["risk"].estimate
    room = risk - oracle
    result = {"oracle_aurc": Value(oracle, combined(pieces, Line(0.0, const, slope))[1])}
    result["e_aurc"] = Value(excess, combined(pieces, Line(1.0, -const, -slope))[1])
    if room <= 1e-14 * risk:  # all right or all wrong: no order is better than another
        return result | {"naurc": Value(0.0, 0.0), "prediction_rejection_ratio": Value(0.0, 0.0)}
    ratio = excess / room  # delta method: (excess' - ratio * (risk' - oracle')) / room
    line = Line(1 / room, (-const - ratio * (-risk - const)) / room, (-slope - ratio * (1 - slope)) / room)
    result["naurc"] = Value(ratio, combined(pieces, line)[1])
    return result | _separation(risk, parts)


def _separation(risk: float, parts: Sequence[Part]) -> dict[str, Value]:
    """Rejection ratio and AUROC of a 0/1 loss: (R/2 - A) / (R/2 - R^2/2), and the mean of that with 1."""
    half = [p.pieces["half"] for p in parts]
    most = risk * (1 - risk) / 2
    ratio = (risk / 2 - math.fsum(p.half for p in parts)) / most
    rate = (0.5 - ratio * (0.5 - risk)) / most  # derivative in the risk, itself of influence l - R
    error = combined(half, Line(-1 / most, -rate * risk, rate))[1]
    return {"auroc": Value((1 + ratio) / 2, error / 2), "prediction_rejection_ratio": Value(ratio, error)}


def _oracle(
    mass: float, loss: float, parts: Sequence[Part], oracle: Sequence[Part], values: dict[str, Value]
) -> dict[str, Value]:
    """From the second pass, keyed by loss."""
    best = math.fsum(p.area for p in oracle) / mass
    risk = loss / mass
    excess, room = values["aurc"].estimate - best, risk - best
    some = room > 1e-14 * abs(risk)
    half, half_best = (math.fsum(p.half for p in side) for side in (parts, oracle))
    gain, most = risk / 2 - half, risk / 2 - half_best
    return {
        "oracle_aurc": Value(best),
        "e_aurc": Value(excess),
        "naurc": Value(excess / room if some else 0.0),
        "prediction_rejection_ratio": Value(gain / most if most > 1e-15 * abs(risk) / 2 else 0.0),
    }


def _at_coverage(parts: Sequence[Part], coverage: float) -> float:
    found = [part.at_coverage[coverage] for part in parts if coverage in part.at_coverage]
    if found:
        N, S = min(found)
        return S / N
    raise InfeasibleError(f"risk_at_coverage: coverage {coverage:g} cannot be reached.")


def _curve(parts: Sequence[Part], mass: float, n: int) -> RiskCoverageCurve:
    columns, done = [], 0.0
    for part in parts:
        if part.curve is not None:
            points = part.curve.copy()
            points[3] += done
            columns.append(points)
        done += part.count
    threshold, N, S, count = np.concatenate(columns, axis=1)
    return RiskCoverageCurve(N / mass, S / N, S / mass, threshold, count.astype(np.int64), n, 0.0)


# answers ------------------------------------------------------------------------------------------
#
# One number out of a summary, or out of the summaries of all groups.


def value_of(metric: str, answer: Any, name: str = "") -> float | Grouped:
    """The estimate of a metric of which less is better."""
    return picked(name or metric, answer, lambda summary: summary[metric].estimate)


def picked(
    name: str, answer: Any, pick: Callable[[Summary], float], lower_is_better: bool = True
) -> float | Grouped:
    """Any number of a summary; `Grouped` where there is a summary for each group."""
    if not isinstance(answer, dict):
        return float(pick(answer))
    values = {group: float(pick(summary)) for group, summary in answer.items()}
    return Grouped(name, values, {group: summary.n for group, summary in answer.items()}, lower_is_better)


# local --------------------------------------------------------------------------------------------
#
# The plan in one piece: samples that fit in memory, finished as one range.


def is_whole(weight: np.ndarray | None) -> bool:
    """Are the weights repetitions?"""
    return weight is None or bool(np.all(weight == np.floor(weight)))


def check_whole(name: str, whole: bool, ask: Ask) -> None:
    """Some estimators count neighbours."""
    who = needs_whole_weights(ask.estimator, ask.ties)
    if who and not whole:
        raise InputError(f"{name}: {who} takes whole-number weights only (a weight means a repetition).")


def oracle_ask(ask: Ask, whole: bool) -> Ask:
    """The question of the pass keyed by loss."""
    ties = "expected" if whole else "threshold"
    return replace(ask, by_loss=True, ties=ties, coverages=(), risks=(), points=0)


def needs_oracle_pass(ask: Ask, zero_one: bool, weighted: bool) -> bool:
    """0/1 losses of unit weight have a closed form."""
    return ask.spread and not (zero_one and not weighted)


def keyed_by_loss(columns: Columns) -> Columns:
    """Confidence replaced by minus the loss: the order of the oracle."""
    loss = columns.loss.astype(np.float64)
    return Columns(loss, -loss, columns.weight)


def summary_of(name: str, columns: Columns, ask: Ask) -> Summary:
    """All answers about samples at hand."""
    whole = is_whole(columns.weight)
    check_whole(name, whole, ask)
    sums = split(columns, np.empty(0))[1]
    oracle = None
    if needs_oracle_pass(ask, columns.loss.dtype == bool, columns.weight is not None):
        by_loss = keyed_by_loss(columns)
        oracle = [_one_part(by_loss, split(by_loss, np.empty(0))[1], oracle_ask(ask, whole))]
    return summarise(sums, [_one_part(columns, sums, ask)], ask, oracle)


def _one_part(columns: Columns, sums: RangeSums, ask: Ask):  # type: ignore[no-untyped-def]
    place = Place(0.0, 0.0, float(sums.sums[0, 0]))
    if sums.tied[0]:
        return finish_tie(sums.sums[:, 0], float(sums.low[0]), place, ask)
    return finish(columns, place, ask)


# evaluating ---------------------------------------------------------------------------------------
#
# `abstain.evaluate(data, engine=...)`: the table of an evaluation from summaries of data that stays where it is.
#
# The first argument is what the engine reads; `loss`, `confidence`, `sample_weight` and `groups` are names of columns.
# `progress` is the engine's own.
# With `labels` (a column) the model's outputs are read from the column "logits", one list per sample.


Evaluate = Callable[..., Any]
_POINTS = 400
_MISSING = "(missing)"  # the group of samples without a name; None stands for all samples in an evaluation
_LOGIT = {"auroc": (0.0, 1.0), "risk": (0.0, 1.0), "prediction_rejection_ratio": (-1.0, 1.0)}  # of 0/1 losses


def engine(summarise: Evaluate) -> Callable[..., Evaluation]:
    """The function that `evaluate` calls, from an engine's own `evaluate`."""

    def evaluation(
        *, logits: Any = None, level: float = 0.95, metrics: Sequence[str] | None = None, **given: Any
    ) -> Evaluation:
        if logits is None:
            raise InputError("evaluate: give the data first, e.g. `evaluate('folder', engine='files')`.")
        wanted = None if metrics is None else [by_name(m) for m in listed(metrics, (), tuple(METRICS))]
        entries: list[Entry] = []
        curves: list[tuple[str, str, CurveLine]] = []
        count = 0
        for names, columns in _questions(given):
            whole, parts = _found(summarise, logits, columns, wanted)
            count, curve, zero_one = whole.n, whole.curve, "auroc" in whole.values
            for group, summary in {None: whole, **parts}.items():
                entries += [
                    _entry(metric, names, summary, level, group, zero_one)
                    for metric in metrics_for(wanted, zero_one)
                ]
            if curve is not None:
                curves.append((*names, thinned(names[0], curve.coverage, curve.risk)))
        return Evaluation(tuple(entries), tuple(curves), count, level, 0.0, ())

    return evaluation


def _questions(given: dict[str, Any]) -> list[tuple[tuple[str, str], dict[str, Any]]]:
    """(score, loss) names and the columns that give them."""
    refused = [name for name in ("probs", "abstained", "clusters") if given.get(name) is not None]
    if refused:
        raise InputError(f"evaluate: engines do not take `{refused[0]}` yet. Evaluate it in memory.")
    more = {key: given[key] for key in ("sample_weight", "groups", "progress") if given.get(key) is not None}
    if given.get("labels") is None:
        confidence, key = (
            given.get("confidence") or "confidence",
            "correct" if given.get("correct") else "loss",
        )
        loss = given.get(key) or "loss"
        return [((confidence, loss), {"confidence": confidence, key: loss, **more})]
    takes_logits = [s for s in scores.NAMES if "logits" in scores.by_name(s).takes]
    asked = listed(given.get("scores"), ["max_softmax"], takes_logits)
    return [
        ((s, l), {"logits": "logits", "label": given["labels"], "score": s, "loss_name": l, **more})
        for s, l in product(asked, listed(given.get("losses"), ["zero_one"], losses.NAMES))
    ]


def _found(
    summarise: Evaluate, data: Any, columns: dict[str, Any], wanted: list[Metric] | None
) -> tuple[Summary, dict[Any, Summary]]:
    """The summary of all samples, with a curve, and those of the groups, by name."""
    plain = {key: value for key, value in columns.items() if key != "groups"}
    whole = _summaries(summarise, data, plain | {"points": _POINTS}, wanted)[None]
    if "groups" not in columns:
        return whole, {}
    parts = _summaries(summarise, data, columns, wanted)
    ordered = sorted(parts, key=lambda group: (group is None, group))
    return whole, {_MISSING if group is None else group: parts[group] for group in ordered}


def _summaries(
    summarise: Evaluate, data: Any, options: dict[str, Any], wanted: list[Metric] | None
) -> dict[Any, Summary]:
    """One summary for each group (None: all samples), with a pass for every estimator that was asked for."""
    metrics = [*metrics_for(wanted, True), *metrics_for(wanted, False)]
    asked = [dict(m.options) for m in metrics]
    ask = {
        "coverages": sorted({o["coverage"] for o in asked if "coverage" in o}),
        "risks": sorted({o["risk"] for o in asked if "risk" in o}),
    }
    kinds = {(o.get("estimator", "harmonic"), o.get("ties", "threshold")) for o in asked} or {
        ("harmonic", "threshold")
    }
    result: dict[Any, Summary] = {}
    for estimator, ties in sorted(kinds):
        answer = summarise(data, estimator=estimator, ties=ties, **ask, **options)
        for group, summary in (answer if isinstance(answer, dict) else {None: answer}).items():
            known = result.setdefault(group, summary)
            values = {_named(name, estimator, ties): value for name, value in summary.values.items()}
            result[group] = replace(known, values=known.values | values)
    return result


def _named(name: str, estimator: str, ties: str) -> str:
    """Areas by other weights are kept under the name with its options."""
    plain = name in ("risk", "auroc", "prediction_rejection_ratio") or (estimator, ties) == (
        "harmonic",
        "threshold",
    )
    return name if plain else f"{name}/{estimator}/{ties}"


def _entry(
    metric: Metric, names: tuple[str, str], summary: Summary, level: float, group: Any, zero_one: bool
) -> Entry:
    options = dict(metric.options)
    head = (*names, metric.key, metric.label, metric.lower_is_better)
    more: dict[str, Any] = {"n": summary.n, "group": group}
    if metric.name in ("risk_at_coverage", "coverage_at_risk"):
        points = getattr(summary, metric.name)
        value = points[next(iter(v for k, v in options.items() if k in ("coverage", "risk")))]
        return Entry(*head, value, reason="no interval: the bootstrap needs the samples", **more)
    estimator, ties = options.get("estimator", "harmonic"), options.get("ties", "threshold")
    found = summary.values.get(_named(metric.name, estimator, ties))
    if found is None:
        reason = ONE_KIND if zero_one and metric.needs_both else "not worked out by this engine for this loss"
        return Entry(*head, None, reason=reason, **more)
    if not found.standard_error:
        return Entry(*head, found.estimate, reason="no interval: no standard error here", **more)
    centre = summary.loo if metric.name == "aurc" and summary.loo else found.estimate
    bounded = metric.name in _LOGIT and zero_one
    scale = Scale("logit", *_LOGIT[metric.name]) if bounded else Scale("log")
    scale = scale if scale.holds(centre) else Scale("normal")
    step = student(summary.n - 1, level) * found.standard_error * scale.rate(centre)
    low, high = (float(scale.shifted(centre, x)) for x in (-step, step))
    return Entry(*head, found.estimate, found.standard_error, low, high, scale.name, **more)
