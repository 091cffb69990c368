"""The page of a leaderboard: many models ranked by one metric, readable with a hundred of them.

One self-contained HTML page like the report: a table to search and sort, intervals, and one model picked out against
the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from abstain.display import CurveLine
from abstain.errors import InputError
from abstain.evaluation import Comparison
from abstain.formats import replacing
from abstain.report.content import safe_json, versions
from abstain.report.page import POLICY, asset, items, text


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
    for what, given in {
        "curves": {"": curves or {}},
        "columns": columns or {},
        "groups": groups or {},
    }.items():
        for name in {name for values in given.values() for name in values} - set(comparison.names):
            raise InputError(f"board: `{what}` has {name!r}, which is not in the comparison.")
    way = "lower" if comparison.lower_is_better else "higher"
    data = {
        "label": comparison.label,
        "level": f"{comparison.level:.0%}",
        "lower": comparison.lower_is_better,
        "models": [
            {
                "name": c.name, "estimate": c.estimate, "low": c.low, "high": c.high, "letters": c.group,
                "rank": [c.rank_low, c.rank_high],
                "curve": _line((curves or {}).get(c.name)),
                "more": [values.get(c.name) for values in (columns or {}).values()],
                "groups": [values.get(c.name) for values in (groups or {}).values()],
            }
            for c in comparison.contestants
        ],
        "columns": list(columns or {}),
        "groups": list(groups or {}),
        "equal": _equals(comparison),
    }  # fmt: skip
    filled = {
        "policy": POLICY,
        "version": text(versions()["abstain"]),
        "title": text(title),
        "subtitle": text(", ".join(filter(None, (_subtitle(comparison, way), made and f"made {made}")))),
        "notes": items([*_summary(comparison), *notes]),
        "label": text(comparison.label),
        "level": f"{comparison.level:.0%}",
        "way": way,
        "again": f"<h2>Make this page again</h2><pre>{text(command)}</pre>" if command else "",
        "style": asset("page.css"),
        "data": safe_json(data),
        "script": asset("figures.js") + "\n" + asset("board.js"),
    }
    return Template(asset("board.html")).substitute(filled)


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
    return {
        "coverage": [round(v, 4) for v in curve.coverage],
        "risk": [float(f"{v:.4g}") for v in curve.risk],
    }


def _equals(comparison: Comparison) -> list[list[int]]:
    """For each contestant the places of those it cannot be told apart from."""
    place = {name: k for k, name in enumerate(comparison.names)}
    found: list[list[int]] = [[] for _ in place]
    for pair in comparison.pairs:
        if not pair.different:
            found[place[pair.a]].append(place[pair.b])
            found[place[pair.b]].append(place[pair.a])
    return [sorted(members) for members in found]


def _summary(comparison: Comparison) -> list[str]:
    first, others = comparison.contestants[0], len(comparison.winners) - 1
    told = f"{first.name} ranks first with {comparison.label} {first.estimate:.3g}"
    if first.low is not None:
        told += f" ({comparison.level:.0%} interval {first.low:.3g} to {first.high:.3g})"
    alone = "every other model can be told apart from it"
    return [f"{told}; {f'{others} more cannot be told apart from it' if others else alone}."]


def _subtitle(comparison: Comparison, way: str) -> str:
    kind = f"the same {comparison.n:,} samples" if comparison.paired else "different test sets"
    return f"{len(comparison.names)} models by {comparison.label} ({way} is better) on {kind}"
