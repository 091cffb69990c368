"""The page's tables, written out in HTML; every string of the user's is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from abstain.evaluation import Comparison, Entry, Evaluation
from abstain.report.content import Content, ModelContent
from abstain.report.words import estimator_note


def text(value: object) -> str:
    """A string that stays text in HTML, in attributes too."""
    return html.escape(str(value), quote=True)


def with_code(value: str) -> str:
    """The same, with what stands between backticks set as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", text(value))


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "", numbers: Sequence[int] = ()
) -> str:
    """Cells are HTML already; `numbers` are columns set to the right."""
    side = [' class="num"' if k in numbers else "" for k in range(len(head))]
    top = "".join(f'<th scope="col"{side[k]}>{cell}</th>' for k, cell in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f"<td{side[k]}>{cell}</td>" for k, cell in enumerate(row)) + "</tr>" for row in rows
    )
    title = f"<caption>{caption}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table>{title}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def number(estimate: float | None, low: float | None, high: float | None, best: bool = False) -> str:
    """An estimate with its interval below."""
    if estimate is None:
        return "–"
    mark = ' class="best"' if best else ""
    below = "" if low is None or high is None else f'<br><span class="span">{low:.3g} to {high:.3g}</span>'
    return f"<span{mark}>{estimate:.4g}</span>{below}"


def _cell(entry: Entry, best: float | None) -> str:
    return number(entry.estimate, entry.low, entry.high, best is not None and entry.estimate == best)


def scores_table(found: Evaluation, loss: str) -> str:
    """Metrics down, scores across."""
    rows = []
    for metric in found.metrics:
        entries = found.select(loss=loss, metric=metric)
        if all(e.estimate is None for e in entries):
            continue
        values = {e.estimate for e in entries if e.estimate is not None}
        best = found.best(metric, loss=loss).estimate if len(values) > 1 else None
        way = "lower" if entries[0].lower_is_better else "higher"
        title = f'{text(entries[0].label)}<br><span class="span">{way} is better</span>'
        rows.append([title, *(_cell(e, best) for e in entries)])
    return table(["", *map(text, found.scores)], rows, f"{text(loss)} loss")


def estimators_table(content: Content) -> str:
    """Estimators of AURC across, models down."""
    names = list(dict.fromkeys(name for m in content.models for name, _ in m.estimators))
    rows = []
    for model in content.models:
        own = dict(model.estimators)
        cells = [number(own[n].estimate, own[n].low, own[n].high) if n in own else "–" for n in names]
        rows.append([text(model.read.name), *cells])
    told = "".join(f"<li><code>{n}</code>: {text(estimator_note(n))}</li>" for n in names)
    return table(["model", *names], rows) + f"<ul class='soft'>{told}</ul>"


def ranking_table(found: Comparison) -> str:
    """Best first; those that share a letter cannot be told apart."""
    rows = []
    for c in found.contestants:
        rank = str(c.rank_low) if c.rank_low == c.rank_high else f"{c.rank_low} to {c.rank_high}"
        rows.append([rank, text(c.name), number(c.estimate, c.low, c.high), text(c.group)])
    return table(["rank", "name", text(found.label), "group"], rows)


def files_table(content: Content) -> str:
    """Where the numbers come from."""
    rows = [_file_row(m) for m in content.models]
    return table(["model", "file", "samples", "read as", "columns"], rows, numbers=(2,))


def _file_row(model: ModelContent) -> list[str]:
    read = model.read
    used = "<br>".join(f"{text(role)}: <code>{text(name)}</code>" for role, name in read.used.items())
    return [
        text(read.name),
        f"<code>{text(read.path)}</code>",
        f"{read.n:,}",
        f"{text(read.kind)} ({text(read.format)})",
        used,
    ]
