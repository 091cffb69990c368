"""The page of a leaderboard: many models ranked by one metric, readable with a hundred of them.

One self-contained HTML page like the report: a table to search and sort, intervals, and one model picked out against
the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abstain.display import CurveLine, thinned
from abstain.errors import AbstainError, InputError
from abstain.evaluation import Comparison
from abstain.evaluation.chance import chance_warnings
from abstain.formats import Predictions, Rules, replacing
from abstain.metrics import risk_coverage_curve
from abstain.metrics.definitions import by_name
from abstain.metrics.metric import Metric
from abstain.report.content import risk_where, short_names
from abstain.report.page import first_place, framed, items, text

_LINKS = {"table": "Table", "picked-section": "One model", "intervals": "Intervals"}
_POINTS = 60  # of a curve


def board(
    comparison: Comparison,
    *,
    curves: Mapping[str, CurveLine] | None = None,
    columns: Mapping[str, Mapping[str, float | None]] | None = None,
    groups: Mapping[str, Mapping[str, float | None]] | None = None,
    notes: Sequence[str] = (),
    title: str = "Leaderboard",
    command: str = "",
    made: str = "",
) -> str:
    """The whole page as text.

    Parameters
    ----------
    comparison : Comparison
        The ranking, as `abstain.compare` gives it.
    curves : dict of CurveLine, optional
        Risk-coverage curves by contestant; `abstain.display.thinned` makes them small.
    columns : dict of dict, optional
        More numbers by column and contestant: {"accuracy": {"a": 0.8, ...}, ...}; None where there is none. A column
        whose name ends in "%" holds shares and is shown in percent.
    groups : dict of dict, optional
        The metric by group and contestant: {"law": {"a": 0.2, ...}, ...}.
    notes : sequence of str
        Sentences above the table.
    title, command, made : str
        Its headline, the command that makes it again, the day it was made.

    Returns
    -------
    str
        One HTML document with scripts, styles and data inside.

    Examples
    --------
    >>> import abstain
    >>> loss, sure = [0, 0, 1, 0, 1, 0, 0, 1], [8, 7, 3, 6, 2, 5, 4, 1]
    >>> found = abstain.compare({"good": (loss, sure), "bad": (loss, sure[::-1])})
    >>> "<title>Two models</title>" in board(found, title="Two models")
    True
    """
    curves, columns, groups = curves or {}, columns or {}, groups or {}
    for what, given in {"curves": {"": curves}, "columns": columns, "groups": groups}.items():
        for name in {name for values in given.values() for name in values} - set(comparison.names):
            raise InputError(f"board: `{what}` has {name!r}, which is not in the comparison.")
    models = []
    shortened = short_names(comparison.names)
    tiny = short_names(comparison.names, 20)  # beside the figure on a phone
    for c in comparison.contestants:
        more, by_group = ([values.get(c.name) for values in x.values()] for x in (columns, groups))
        own = {name: getattr(c, name) for name in ("name", "estimate", "low", "high")}
        own["short"] = shortened[c.name]
        own["tiny"] = tiny[c.name]
        own |= {"letters": c.group, "rank": [c.rank_low, c.rank_high], "curve": _line(curves.get(c.name))}
        models.append(own | {"more": more, "groups": by_group})
    level, lower = f"{comparison.level:.0%}", comparison.lower_is_better
    data = {"label": comparison.label, "level": level, "lower": lower, "models": models}
    data |= {"columns": list(columns), "groups": list(groups), "equal": _equals(comparison)}
    way = "lower" if lower else "higher"
    filled = {
        "notes": items([_summary(comparison), *chance_warnings(comparison.notes), *notes]),
        "label": text(comparison.label),
        "level": level,
        "way": way,
        "again": f"<h2>Make this page again</h2><pre>{text(command)}</pre>" if command else "",
    }
    return framed("board", title, _subtitle(comparison, way), made, _LINKS, data, **filled)


def board_content(
    comparison: Comparison, models: Mapping[str, tuple[Predictions, str]], loss: str = "zero_one"
) -> dict[str, Any]:
    """What `board` shows beside a ranking, from the files that were compared.

    Parameters
    ----------
    comparison : Comparison
        The ranking.
    models : dict of (Predictions, score)
        By the names of the ranking: what was read, and the score it is ranked by.
    loss : str
        Computed from class scores, where there are any.

    Returns
    -------
    dict
        `curves`, `columns` and `groups` of `board`.

    Examples
    --------
    >>> import numpy as np
    >>> import abstain
    >>> from abstain.formats import Predictions
    >>> files = {name: Predictions(name, "t.csv", "csv", 4, loss=np.array([0.0, 1.0, 0.0, 0.0]), confidence=sure)
    ...          for name, sure in (("a", np.array([4.0, 1, 3, 2])), ("b", np.array([1.0, 4, 3, 2])))}
    >>> found = abstain.compare({name: (read.loss, read.confidence) for name, read in files.items()})
    >>> board_content(found, {name: (read, "confidence") for name, read in files.items()})["columns"]
    {'risk %': {'a': 0.25, 'b': 0.25}, 'risk of the surest 80%': {'a': 0.25, 'b': 0.25}}
    """
    metric = by_name(comparison.metric)
    curves: dict[str, CurveLine] = {}
    columns: dict[str, dict[str, float | None]] = {}
    groups: dict[str, dict[str, float | None]] = {}
    for name, (read, score) in models.items():
        losses, confidence = read.samples(score, loss)
        own: Any = {"sample_weight": read.sample_weight, "abstained": read.abstained}
        curve = risk_coverage_curve(losses, confidence, **own)
        curves[name] = thinned(name, curve.coverage, curve.risk, _POINTS)
        told = {"risk %": float(curve.risk[-1]), "risk of the surest 80%": risk_where(curve, 0.8)}
        if read.log is not None:
            told["unanswered %"] = read.log.unanswered
            told[f"{comparison.label}, answered only"] = _other_view(read, metric)
        for column, value in told.items():
            columns.setdefault(column, {})[name] = value
        labels = read.group_labels()
        for group in () if labels is None else np.unique(labels):
            here = labels == group
            mine = {k: None if v is None else v[here] for k, v in own.items()}
            groups.setdefault(str(group), {})[name] = _value(metric, losses[here], confidence[here], mine)
    return {"curves": curves, "columns": columns, "groups": groups}


def _other_view(read: Predictions, metric: Metric) -> float | None:
    """The metric over answers alone: an unanswered question is an abstention, one without a confidence is left out."""
    if read.log is None or not read.log.signals:
        return None
    try:
        fields = read.log.fields(Rules())
    except AbstainError:  # nothing was answered
        return None
    signal = next(iter(read.signals), "")
    own = {"sample_weight": fields.get("sample_weight"), "abstained": fields.get("abstained")}
    return _value(metric, fields["loss"], fields["signals"].get(signal, fields["confidence"]), own)


def _value(metric: Metric, losses: np.ndarray, confidence: np.ndarray, own: dict[str, Any]) -> float | None:
    try:
        return float(metric(losses, confidence, **own))
    except AbstainError:  # undefined there: all right, all refused
        return None


def save_board(comparison: Comparison, path: str | Path, **options: Any) -> None:
    """Write the page, whole or not at all.

    Parameters
    ----------
    comparison : Comparison
        The ranking.
    path : str or Path
        The HTML file.
    **options
        Those of `board`.

    Examples
    --------
    >>> import tempfile
    >>> import abstain
    >>> loss, sure = [0, 0, 1, 0, 1, 0, 0, 1], [8, 7, 3, 6, 2, 5, 4, 1]
    >>> found = abstain.compare({"good": (loss, sure), "bad": (loss, sure[::-1])})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_board(found, f"{folder}/board.html", title="Two models")
    """
    written = board(comparison, **options).encode("utf-8")
    with replacing(path) as stream:
        stream.write(written)


def _line(curve: CurveLine | None) -> dict[str, list[float]] | None:
    if curve is None:
        return None
    risk = [float(f"{v:.4g}") for v in curve.risk]
    return {"coverage": [round(v, 4) for v in curve.coverage], "risk": risk}


def _equals(comparison: Comparison) -> list[list[int]]:
    """For each contestant the places of those it cannot be told apart from."""
    place = {name: k for k, name in enumerate(comparison.names)}
    found: list[list[int]] = [[] for _ in place]
    for pair in comparison.pairs:
        if not pair.different:
            found[place[pair.a]].append(place[pair.b])
            found[place[pair.b]].append(place[pair.a])
    return [sorted(members) for members in found]


def _summary(comparison: Comparison) -> str:
    others = len(comparison.winners) - 1
    told = f"{others} more cannot be" if others else "every other model can be"
    return f"{first_place(comparison)}; {told} told apart from it."


def _subtitle(comparison: Comparison, way: str) -> str:
    kind = f"the same {comparison.n:,} samples" if comparison.paired else "different test sets"
    return f"{len(comparison.names)} models by {comparison.label} ({way} is better) on {kind}"
