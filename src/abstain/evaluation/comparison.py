"""Is A better than B? Many models, or many scores of one model, ranked with ties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from abstain._arrays import Array, to_host
from abstain._check import check_fraction
from abstain.errors import InputError, ShapeError
from abstain.evaluation.results import Comparison, Contestant, Pair
from abstain.evaluation.table import read_model
from abstain.inference import influence, interval
from abstain.inference.influence import codes
from abstain.losses import by_name as loss_by_name
from abstain.metrics.registry import Metric, by_name
from abstain.theory import samples_to_tell_apart

_RELATIVE = 1e-6  # below this share of the variances, a difference's variance is computed from the difference


def difference_errors(pulls: np.ndarray) -> np.ndarray:
    r"""Norms of all differences of rows: :math:`\|v_a - v_b\|^2 = G_{aa} + G_{bb} - 2 G_{ab}`, one product for all."""
    gram = pulls @ pulls.T
    own = np.diag(gram)
    square = own[:, None] + own[None, :] - 2 * gram
    close = np.argwhere(np.triu(square < _RELATIVE * (own[:, None] + own[None, :]), 1))
    for a, b in close:  # near twins: the subtraction above has few digits left
        gap = pulls[a] - pulls[b]
        square[a, b] = square[b, a] = gap @ gap
    np.fill_diagonal(square, 0.0)
    return np.sqrt(np.maximum(square, 0.0))


def paired_errors(pulls: list[np.ndarray], a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors of differences on the same units, and their degrees of freedom."""
    return difference_errors(np.stack(pulls))[a, b], np.full(len(a), len(pulls[0]) - 1.0)


def welch_errors(pulls: list[np.ndarray], a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors of differences of independent estimates, and Welch's degrees of freedom."""
    second = np.array([float(p @ p) for p in pulls])
    own = np.array([max(1.0, len(p) - 1.0) for p in pulls])
    spread = second[a] ** 2 / own[a] + second[b] ** 2 / own[b]
    square = second[a] + second[b]
    return np.sqrt(square), np.where(spread > 0, square**2 / np.where(spread > 0, spread, 1.0), 1.0)


def holm(p_values: np.ndarray) -> np.ndarray:
    """P-values corrected for their number, step down (Holm): the k-th smallest times (m - k + 1), never falling.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


def groups_of_equals(different: np.ndarray) -> list[list[int]]:
    """Largest sets in which no two members differ, every member in at least one (insert and absorb).

    >>> groups_of_equals(np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool))
    [[0, 1], [1, 2]]
    """
    sets = [frozenset(range(len(different)))]
    for a, b in np.argwhere(np.triu(different, 1)):
        split: list[frozenset[int]] = []
        for members in sets:
            if a in members and b in members:
                split += [members - {int(a)}, members - {int(b)}]
            else:
                split.append(members)
        distinct = list(dict.fromkeys(split))
        sets = [s for s in distinct if not any(s < other for other in distinct)]
    return sorted(sorted(s) for s in sets)


@dataclass(frozen=True)
class PairTests:
    """Differences of all pairs a < b, and what the tests say."""

    difference: np.ndarray
    error: np.ndarray
    reach: np.ndarray
    p_value: np.ndarray
    p_adjusted: np.ndarray


def student_tests(
    gap: np.ndarray, error: np.ndarray, scale: np.ndarray, freedom: np.ndarray, level: float
) -> PairTests:
    """Two-sided Student tests of the given differences; without any spread see `paired_difference`."""
    from scipy.special import stdtr, stdtrit

    freedom = np.maximum(freedom, 1.0)
    flat = error <= 1e-13 * scale
    gap = np.where(flat & (np.abs(gap) <= 1e-13 * scale), 0.0, gap)
    tail = 2 * stdtr(freedom, -np.abs(gap) / np.where(flat, 1.0, error))
    certain = np.where(gap == 0, 1.0, np.minimum(1.0, 2.0 ** (1 - np.minimum(1000, freedom + 1))))
    p = np.where(flat, certain, tail)
    return PairTests(gap, error, stdtrit(freedom, (1 + level) / 2) * error, p, holm(p))


def letter(k: int) -> str:
    """Name of the k-th group: a ... z, then (27), (28) ..."""
    return chr(ord("a") + k) if k < 26 else f"({k + 1})"


# ranking ------------------------------------------------------------------------------------------
#
# Is A better than B? Many models, or many scores of one model, ranked with ties.


class _Entry(NamedTuple):
    """Losses and confidences of one contestant, with what goes along them."""

    loss: np.ndarray
    confidence: np.ndarray
    weight: np.ndarray | None
    clusters: np.ndarray | None
    abstained: np.ndarray | None


def compare(
    models: Any,
    labels: Any = None,
    /,
    *,
    probs: bool = False,
    scores: Any = "max_softmax",
    loss: Any = "zero_one",
    metric: Any = "aurc",
    level: float = 0.95,
    sample_weight: Any = None,
    clusters: Any = None,
    abstained: Any = None,
    paired: bool = True,
) -> Comparison:
    r"""Rank models (or scores) by a metric, and say which cannot be told apart.

    .. math:: z_{ab} = \frac{T_a - T_b}{\|v_a - v_b\|/W}, \qquad v_a = (w_i\,\mathrm{IF}^a_i)_i

    Each contestant is sorted once for its influence function; all pairs then follow from one product of
    matrices. P-values are two-sided, Student's t, corrected after Holm for the number of pairs.

    Parameters
    ----------
    models : dict of arrays (..., K), one array, or dict of (loss, confidence)
        Logits by model name (probabilities with `probs=True`); the logits of one model, to compare `scores`; or,
        without `labels`, each contestant's own losses and confidences.
    labels : array, optional
        Class indices of the same samples for all; with `paired=False` a dict of labels by name.
    scores : name(s) or function(s)
        Several, with several models, compare every combination, "model / score".
    loss, metric : str
        The metric must have an influence function: aurc ("aurc:loo"), augrc, e_aurc, naurc, auroc, risk,
        prediction_rejection_ratio.
    clusters : array, optional
        One label per sample: samples of one cluster are not independent.
    abstained : bool array, or dict of them by model, optional
        Samples a model refused: never accepted, kept in the coverage.
    paired : bool
        False: every contestant has its own test set (Welch's test; weights and clusters by name).

    Returns
    -------
    Comparison
        Best first, with `frame()`, `pairs_frame()`, `pair(a, b)`, `winners`, `plot()`, `to_markdown()` ...

    Examples
    --------
    >>> loss = [0, 0, 1, 0, 1, 1, 0, 0]
    >>> good, bad = [9, 8, 3, 7, 2, 1, 6, 5], [1, 2, 3, 4, 5, 6, 7, 8]
    >>> compare({"good": (loss, good), "bad": (loss, bad)}).names
    ('good', 'bad')
    """
    level = check_fraction("compare", "level", level, open_high=True)
    chosen = by_name(metric)
    if not chosen.smooth:
        raise InputError(
            f"compare: {chosen.name} has no influence function; compare by an area, AUROC or risk."
        )
    columns = (labels, sample_weight, clusters, abstained)
    entries = _entries(models, columns, probs, scores, loss, paired)
    if len(entries) < 2:
        raise InputError(f"compare: needs at least two contestants, got {len(entries)}.")
    if chosen.needs_zero_one and labels is not None and loss_by_name(loss).name not in ("zero_one", "top_k"):
        raise InputError(f"compare: {chosen.name} needs a 0/1 loss, got {loss!r}.")
    name = "own losses" if labels is None else loss_by_name(loss).name
    return _compare(entries, chosen, name, level, paired)


# inputs ---------------------------------------------------------------------------------------------------


def _entries(
    models: Any, columns: tuple[Any, Any, Any, Any], probs: bool, scores: Any, loss: Any, paired: bool
) -> dict[str, _Entry]:
    if not isinstance(models, Mapping):
        if columns[0] is None:
            raise InputError("compare: takes a dict of models, or the logits of one model with `labels`.")
        models = {"": models}
    if not paired:
        for name, column in zip(("sample_weight", "clusters", "abstained"), columns[1:]):
            if column is not None and not isinstance(column, Mapping):
                raise InputError(f"compare: with paired=False `{name}` must be a dict by contestant.")
    found: dict[str, _Entry] = {}
    for name, model in models.items():
        labels, weight, clusters, mask = (_of(column, name) for column in columns)
        w = None if weight is None else np.asarray(to_host(weight), dtype=np.float64).reshape(-1)
        away = None if mask is None else np.asarray(to_host(mask)).reshape(-1)
        for title, l, g in _vectors(str(name), model, labels, probs, scores, loss):
            found[title] = _Entry(l, g, w, codes("compare", "clusters", clusters, len(l)), away)
    if paired and len({len(e.loss) for e in found.values()}) > 1:
        told = ", ".join(f"{k} {len(e.loss)}" for k, e in found.items())
        raise ShapeError(
            f"compare: the contestants must see the same samples, got {told}. Or use paired=False."
        )
    return found


def _of(column: Any, name: Any) -> Any:
    if not isinstance(column, Mapping):
        return column
    if name not in column:
        raise InputError(
            f"compare: nothing for {name!r} in the dict given, it has {', '.join(map(str, column))}."
        )
    return column[name]


def _vectors(
    name: str, model: Any, labels: Array | None, probs: bool, scores: Any, loss: Any
) -> list[tuple[str, np.ndarray, np.ndarray]]:
    if labels is None:
        if not (isinstance(model, (tuple, list)) and len(model) == 2):
            raise InputError(f"compare: without `labels` {name!r} must be (loss, confidence).")
        l, g = (np.asarray(to_host(x)).reshape(-1) for x in model)
        return [(name, l, g)]
    given: tuple[Any, Any] = (None, model) if probs else (model, None)
    found = read_model("compare", given[0], labels, given[1], scores, [loss])
    l, several = next(iter(found.losses.values())), len(found.scores) > 1
    return [(f"{name} / {k}" if name and several else name or k, l, g) for k, g in found.scores.items()]


# the comparison -------------------------------------------------------------------------------------------


def _compare(entries: dict[str, _Entry], metric: Metric, loss: str, level: float, paired: bool) -> Comparison:
    options = dict(metric.options)
    found = {
        k: influence(
            metric.name, e.loss, e.confidence, sample_weight=e.weight, abstained=e.abstained, **options
        )
        for k, e in entries.items()
    }
    sign = 1 if metric.lower_is_better else -1
    names = sorted(found, key=lambda k: sign * found[k].estimate)  # equals keep the order given
    value = np.array([found[k].estimate for k in names])
    pulls = [_pull(entries[k], found[k].values) for k in names]
    a, b = np.triu_indices(len(names), 1)
    errors = paired_errors if paired else welch_errors
    error, freedom = errors(pulls, a, b)
    scale = np.abs(value[a]) + np.abs(value[b])
    test = student_tests(value[a] - value[b], error, scale, freedom, level)
    sizes = [len(entries[k].loss) for k in names]
    pairs = tuple(
        _pair(names[i], names[j], test, k, level, max(sizes[i], sizes[j]))
        for k, (i, j) in enumerate(zip(a, b))
    )
    different = np.zeros((len(names), len(names)), dtype=bool)
    different[a, b] = different[b, a] = test.p_adjusted < 1 - level
    contestants = _contestants(names, entries, metric, level, different, pulls, found)
    arrow = metric.lower_is_better
    return Comparison(contestants, pairs, metric.key, metric.label, arrow, loss, level, max(sizes), paired)


def _pull(entry: _Entry, values: np.ndarray) -> np.ndarray:
    """What each independent unit does to the estimate; the norm of this is the standard error."""
    total = float(len(values)) if entry.weight is None else float(entry.weight.sum())
    own = values if entry.weight is None else values * entry.weight
    if entry.clusters is None:
        return own / total
    summed = np.bincount(entry.clusters, own)
    if len(summed) < 2:
        raise InputError("compare: `clusters` must name at least two clusters, got one.")
    return np.asarray(summed / total * np.sqrt(len(summed) / (len(summed) - 1)))


def _pair(a: str, b: str, test: PairTests, k: int, level: float, n: int) -> Pair:
    gap, error, reach = (float(x[k]) for x in (test.difference, test.error, test.reach))
    equal = test.p_adjusted >= 1 - level
    needed = None
    if equal[k] and gap != 0 and error > 0:  # at the level the correction leaves for the pairs still open
        needed = samples_to_tell_apart(gap, error, n, level=1 - (1 - level) / int(equal.sum()))
    limits = (gap - reach, gap + reach)
    p = (float(test.p_value[k]), float(test.p_adjusted[k]))
    return Pair(a, b, gap, error, *limits, *p, not equal[k], needed)


def _contestants(
    names: list[str],
    entries: dict[str, _Entry],
    metric: Metric,
    level: float,
    different: np.ndarray,
    pulls: list[np.ndarray],
    found: dict[str, Any],
) -> tuple[Contestant, ...]:
    letters = [""] * len(names)
    for k, members in enumerate(groups_of_equals(different)):
        for i in members:
            letters[i] += letter(k)
    return tuple(
        _contestant(
            name, entries[name], metric, level, different, i, pulls[i], letters[i], found[name].estimate
        )
        for i, name in enumerate(names)
    )


def _contestant(
    name: str,
    entry: _Entry,
    metric: Metric,
    level: float,
    different: np.ndarray,
    place: int,
    pull: np.ndarray,
    letters: str,
    estimate: float,
) -> Contestant:
    columns: dict[str, Any] = {
        "sample_weight": entry.weight,
        "clusters": entry.clusters,
        "abstained": entry.abstained,
    }
    own = interval(metric.name, entry.loss, entry.confidence, level=level, **columns, **dict(metric.options))
    better, worse = int(different[place, :place].sum()), int(different[place, place + 1 :].sum())
    ranks = (1 + better, len(different) - worse)
    error = float(np.sqrt(pull @ pull))
    return Contestant(name, estimate, error, own.low, own.high, len(entry.loss), *ranks, letters)
