"""Is A better than B? Many models, or many scores of one model, ranked with ties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from abstain._arrays import Array
from abstain._check import check_fraction
from abstain.core.influence import Ranked
from abstain.core.rows import rank_confidences
from abstain.errors import InputError, ShapeError
from abstain.evaluation.chance import worse_than_chance
from abstain.evaluation.results import Comparison, Contestant, Pair
from abstain.evaluation.table import flat, gap_of_ties, read_model
from abstain.inference.differences import Tests, compared, side_of, with_one_error_size
from abstain.inference.limits import SCALED_BY_LOSS, interval_of, scale_of
from abstain.inference.standard_errors import Units, facts, gather, spread_by_sample
from abstain.losses import by_name as loss_by_name
from abstain.metrics.registry import Metric, by_name
from abstain.theory import samples_to_tell_apart


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


def compare(
    models: Any = None,
    labels: Any = None,
    *,
    probs: Any = None,
    scores: Any = "max_softmax",
    loss: Any = "zero_one",
    metric: Any = "aurc",
    level: float = 0.95,
    sample_weight: Any = None,
    repetitions: bool = False,
    clusters: Any = None,
    abstained: Any = None,
    classes: Any = None,
    paired: bool = True,
) -> Comparison:
    r"""Rank models (or scores) by a metric, and say which cannot be told apart.

    .. math:: t_{ab} = \frac{\phi(T_a) - \phi(T_b)}{\|x_a - x_b\|}, \qquad
              x_a = (\phi'(T_a)\, w_i\,\mathrm{IF}^a_i / W)_i

    Each contestant is sorted once for its influence function; all pairs then follow from a few products of
    matrices. :math:`\phi` is the metric's scale. P-values are two-sided, Student's t, corrected after Holm for the
    number of pairs. Intervals of differences are corrected too: they cover together with probability `level`, and
    leave 0 out exactly where the corrected p-value is below 1 - level. A pair with fewer than eleven effective
    errors on either side gets no verdict, and says so.

    Parameters
    ----------
    models : dict of arrays (..., K), one array, or dict of (loss, confidence)
        Logits by model name; the logits of one model, to compare `scores`; or, without `labels`, each contestant's
        own losses and confidences.
    labels : array, optional
        Class indices of the same samples for all; with `paired=False` a dict of labels by name.
    probs : dict of arrays (..., K), or one array
        Probabilities instead of logits. A vector holds those of class 1 of a binary model, and a vector of logits its
        log-odds.
    scores : name(s) or function(s)
        Several, with several models, compare every combination, "model / score".
    loss, metric : str
        The metric must have an influence function: aurc ("aurc:loo"), augrc, e_aurc, naurc, auroc, risk,
        prediction_rejection_ratio.
    level : float
        Of intervals and tests.
    sample_weight : array, optional
        The mass of each sample, relative to the others.
    repetitions : bool
        Is a weight a number of repetitions? "aurc:loo" and "aurc:log" need that.
    clusters : array, optional
        One label per sample: samples of one cluster are not independent.
    abstained : bool array, or dict of them by model, optional
        Samples a model refused: never accepted, kept in the coverage.
    classes : sequence, optional
        The class names in the order of the columns, where labels are words or numbers other than 0 ... K-1.
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
        remedy = "compare by an area, AUROC or risk"
        raise InputError(f"compare: {chosen.name} has no influence function; {remedy}.")
    if chosen.needs_zero_one and labels is not None and loss_by_name(loss).name not in ("zero_one", "top_k"):
        raise InputError(f"compare: {chosen.name} needs a 0/1 loss, got {loss!r}.")
    columns = {"labels": labels, "sample_weight": sample_weight, "clusters": clusters, "abstained": abstained}
    if models is not None and probs is not None:
        raise InputError("compare: takes models or `probs=`, one of them, got both.")
    outputs, kind = (models, "logits") if probs is None else (probs, "probs")
    entries = _entries(outputs, kind, columns, repetitions, scores, loss, chosen, paired, classes)
    if len(entries) < 2:
        raise InputError(f"compare: needs at least two contestants, got {len(entries)}.")
    name = "own losses" if labels is None else loss_by_name(loss).name
    return _compare(entries, chosen, name, level, paired)


# inputs ---------------------------------------------------------------------------------------------------


def _entries(
    models: Any,
    kind: str,
    columns: dict[str, Any],
    repetitions: bool,
    scores: Any,
    loss: Any,
    metric: Metric,
    paired: bool,
    classes: Any,
) -> dict[str, Units]:
    """Each contestant's checked samples, sorted once for its influences and its interval."""
    if not isinstance(models, Mapping):
        if models is None or columns["labels"] is None:
            raise InputError("compare: takes a dict of models, or the logits of one model with `labels`.")
        models = {"": models}
    for name, column in columns.items():
        if not (paired or name == "labels" or column is None or isinstance(column, Mapping)):
            raise InputError(f"compare: with paired=False `{name}` must be a dict by contestant.")
    found: dict[str, Units] = {}
    for name, model in models.items():
        along = {k: _of(column, name) for k, column in columns.items()}
        vectors = _vectors(str(name), model, kind, along.pop("labels"), scores, loss, classes)
        along = {k: None if v is None else flat(v) for k, v in along.items()}
        for title, (l, g) in vectors.items():
            found[title] = gather(
                "compare",
                metric.name,
                flat(l),
                flat(g),
                **along,
                options=dict(metric.options),
                repetitions=repetitions,
            )
    found = dict(zip(found, with_one_error_size(list(found.values()))))
    for title, units in found.items():
        ranked = Ranked(rank_confidences(units.confidence), units.loss, units.weight)
        found[title] = units._replace(ranked=ranked)
    if paired and len({units.n for units in found.values()}) > 1:
        told = ", ".join(f"{k} {units.n}" for k, units in found.items())
        raise ShapeError(
            f"compare: the contestants must see the same samples, got {told}. Or use paired=False."
        )
    return found


def _of(column: Any, name: Any) -> Any:
    if not isinstance(column, Mapping):
        return column
    if name not in column:
        known = ", ".join(map(str, column))
        raise InputError(f"compare: nothing for {name!r} in the dict given, it has {known}.")
    return column[name]


def _vectors(
    name: str, model: Any, kind: str, labels: Array | None, scores: Any, loss: Any, classes: Any
) -> dict[str, tuple[Array, Array]]:
    """Loss and confidence of each contestant that a model enters."""
    if labels is None:
        if kind == "probs" or not (isinstance(model, (tuple, list)) and len(model) == 2):
            raise InputError(f"compare: without `labels` {name!r} must be (loss, confidence).")
        return {name: (model[0], model[1])}
    outputs = {kind: model}
    found = read_model("compare", labels=labels, scores=scores, losses=[loss], classes=classes, **outputs)
    l, several = next(iter(found.losses.values())), len(found.scores) > 1
    return {f"{name} / {k}" if name and several else name or k: (l, g) for k, g in found.scores.items()}


# the comparison -------------------------------------------------------------------------------------------


def _compare(units: dict[str, Units], metric: Metric, loss: str, level: float, paired: bool) -> Comparison:
    found = {k: side_of(u) for k, u in units.items()}
    sign = 1 if metric.lower_is_better else -1
    names = sorted(found, key=lambda k: sign * found[k].estimate)  # equals keep the order given
    a, b = np.triu_indices(len(names), 1)
    negative = any(bool((u.loss < 0).any()) for u in units.values())
    scale = scale_of(metric.name, all(u.zero_one for u in units.values()), negative)
    if metric.name in SCALED_BY_LOSS:
        scale = scale.times(next(iter(units.values())).error_size)
    tests = compared([found[k] for k in names], a, b, scale, level, paired)
    sizes = [units[k].counted for k in names]
    pairs = tuple(
        pair_of(names[i], names[j], tests, k, level, max(sizes[i], sizes[j]))
        for k, (i, j) in enumerate(zip(a, b))
    )
    different = np.zeros((len(names), len(names)), dtype=bool)
    different[a, b] = different[b, a] = tests.p_adjusted < 1 - level
    letters = [""] * len(names)
    for k, members in enumerate(groups_of_equals(different)):
        for i in members:
            letters[i] += chr(ord("a") + k) if k < 26 else f"({k + 1})"
    contestants = []
    for i, name in enumerate(names):
        u, side = units[name], found[name]
        own = interval_of(metric.name, spread_by_sample("compare", u), facts(u), level)
        ranks = (1 + int(different[i, :i].sum()), len(names) - int(different[i, i + 1 :].sum()))
        told = (side.estimate, side.error, own.low, own.high, own.n)
        contestants.append(Contestant(name, *told, *ranks, letters[i]))
    head = (metric.key, metric.label, metric.lower_is_better, loss)
    notes: tuple[str, ...] = ()
    if metric.key == "aurc" and any(_ties_matter(u, found[k].error) for k, u in units.items()):
        random = [side_of(units[k]._replace(options={"ties": "expected"})) for k in names]
        notes = _depending_on_ties(pairs, compared(random, a, b, scale, level, paired), level)
    chance = (worse_than_chance(name, units[name]) for name in names)
    notes = (*(warning for warning in chance if warning is not None), *notes)
    return Comparison(tuple(contestants), pairs, *head, level, max(sizes), paired, notes)


def _ties_matter(units: Units, error: float) -> bool:
    """Is the area in random order more than a standard error away?"""
    if not units.whole or units.ranked is None or units.ranked.place is None:
        return False
    rows = units.ranked.rows
    return abs(units.error_size * gap_of_ties(rows.accepted_mass, rows.accepted_loss)) > error


def _depending_on_ties(pairs: Sequence[Pair], tests: Tests, level: float) -> tuple[str, ...]:
    """Pairs of which something else would be said if equal confidences came in random order."""
    different = tests.p_adjusted < 1 - level
    changed = []
    for pair, other, gap in zip(pairs, different, tests.difference):
        said, now = np.sign(pair.difference) * pair.different, np.sign(gap) * other
        if said != now:
            verdict = "not told apart" if not now else f"{pair.a if now < 0 else pair.b} is lower"
            changed.append(
                f"{pair.a} against {pair.b} ({pair.difference:.3g}; in random order {gap:.3g}, {verdict})"
            )
    if not changed:
        return (
            "Some areas depend on how equal confidences are counted; no verdict between two of them does.",
        )
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    told = f"{len(changed)} of {len(pairs)} verdicts depend on how equal confidences are counted: "
    return (told + "; ".join(changed[:5]) + more + ".",)


def pair_of(a: str, b: str, tests: Tests, k: int, level: float, n: int) -> Pair:
    """The k-th of the pairs that were tested together."""
    equal = tests.p_adjusted >= 1 - level
    gap = float(tests.difference[k])
    error = float(tests.standard_error[k])
    samples_needed = None
    if equal[k] and gap != 0 and error > 0 and not tests.note[k]:
        left = 1 - (1 - level) / int(equal.sum())  # the level that the correction leaves the open pairs
        samples_needed = samples_to_tell_apart(gap, error, n, level=left)
    return Pair(
        a=a,
        b=b,
        difference=gap,
        standard_error=error,
        low=float(tests.low[k]),
        high=float(tests.high[k]),
        p_value=float(tests.p_value[k]),
        p_adjusted=float(tests.p_adjusted[k]),
        different=not equal[k],
        samples_needed=samples_needed,
        note=tests.note[k],
    )
