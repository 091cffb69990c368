"""One self-contained HTML page, from `assets/page.html`. Works offline, by keyboard, in print, light and dark.

Every string of the user's is escaped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from abstain.errors import needed
from abstain.evaluation import Comparison, Evaluation
from abstain.formats import replacing
from abstain.report.content import Content, ModelContent, embedded, safe_json, versions

# nothing may be fetched from anywhere; scripts and styles are the page's own
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_LINKS = {"curves": "Curves", "line": "Threshold", "scores": "Scores", "ranking": "Ranking", "ties": "Ties",
          "method": "Method"}  # fmt: skip
_USED = ("numpy", "scipy", "plotly", "pyarrow", "torch")
_JUMPS = (0.5, 0.7, 0.8, 0.9, 0.95, 1)  # of the slider, in coverage
_ESTIMATORS = {
    "harmonic": "the classical empirical AURC: the mean of all selective risks",
    "log": "weights -ln(1 - rank/(n + 1))",
    "loo": "leave-one-out: the least biased; intervals are centred here",
    "sele": "rank/n: this is the empirical AUGRC, a different area, shown for comparison",
}


def percent(value: float, digits: int = 1) -> str:
    """A share for people; small ones keep two significant digits.

    >>> percent(0.8512), percent(0.00123), percent(0.0)
    ('85.1%', '0.12%', '0.0%')
    """
    if 0 < abs(value) < 10 ** -(digits + 1):
        return f"{100 * value:.2g}%"
    return f"{100 * value:.{digits}f}%"


def summary(content: Content) -> list[str]:
    """The findings in a few sentences."""
    if len(content.models) == 1:
        model = content.models[0]
        first = model.evaluation[model.score, model.evaluation.losses[0], "aurc"]
        bar = (
            "" if first.low is None else f", {content.level:.0%} interval {first.low:.3g} to {first.high:.3g}"
        )
        told = f"{model.read.name} has AURC {first.estimate:.3g}{bar} (lower is better)."
        return [told, _gain(model)]
    comparison = content.comparison
    assert comparison is not None
    best = comparison.contestants[0]
    bar = "" if best.low is None else f" ({content.level:.0%} interval {best.low:.3g} to {best.high:.3g})"
    rivals = [name for name in comparison.winners if name != best.name]
    listed = " and ".join(filter(None, (", ".join(rivals[:-1]), *rivals[-1:])))
    return [
        f"{best.name} ranks first with AURC {best.estimate:.3g}{bar}.",
        f"With these data it cannot be told apart from {listed}."
        if rivals
        else "No other model can be as good, as far as the tests can tell.",
        _gain(next(m for m in content.models if m.read.name == best.name)),
    ]


def _gain(model: ModelContent) -> str:
    curve = model.curve
    at = int(min(range(len(curve.coverage)), key=lambda i: abs(curve.coverage[i] - 0.8 * curve.coverage[-1])))
    whole, less = float(curve.risk[-1]), float(curve.risk[at])
    name = "error rate" if model.zero_one else "mean loss"
    show = percent if model.zero_one else (lambda x: f"{x:.4g}")
    return (
        f"Answering everything, its {name} is {show(whole)}; "
        f"answering the surest {percent(float(curve.coverage[at]), 0)}, {show(less)}."
    )


def about_ties(model: ModelContent) -> list[str]:
    """What equal confidences mean for this model."""
    n, steps = model.curve.n, model.steps
    top = int(model.curve.count[0])
    told = []
    if model.distinct == n:
        told.append(f"All {n:,} samples have different confidences ({model.score}): nothing ties.")
    else:
        told.append(f"{n:,} samples share {model.distinct:,} different confidences ({model.score}).")
    if top > 1:
        told.append(
            f"{top:,} of them ({percent(top / n)}) tie at the very top, {steps.shown[0]}. No threshold can separate "
            f"them, so coverage starts at {percent(float(model.curve.coverage[0]))}, and the risk there, "
            f"{percent(float(model.curve.risk[0])) if model.zero_one else f'{model.curve.risk[0]:.4g}'}, "
            f"is that of the smallest set that can be accepted. A program that sorts and cumulates would give a number "
            f"that depends on the order of the rows."
        )
    told += [note for note in model.evaluation.notes if "tie at the top of" not in note]
    return told


def text(value: object) -> str:
    """A string that stays text in HTML, in attributes too."""
    return html.escape(str(value), quote=True)


def with_code(value: str) -> str:
    """The same, with what stands between backticks set as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", text(value))


def items(lines: Sequence[str]) -> str:
    return "".join(f"<li>{text(line)}</li>" for line in lines)


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


def number(found: Any, best: float | None = None) -> str:
    """An estimate with its interval below."""
    if found is None or found.estimate is None:
        return "–"
    mark = ' class="best"' if best is not None and found.estimate == best else ""
    absent = found.low is None or found.high is None
    below = "" if absent else f'<br><span class="span">{found.low:.3g} to {found.high:.3g}</span>'
    return f"<span{mark}>{found.estimate:.4g}</span>{below}"


def scores_table(found: Evaluation, loss: str) -> str:
    """Metrics down, scores across."""
    rows = []
    for entries, best in found.rows(loss):
        way = "lower" if entries[0].lower_is_better else "higher"
        title = f'{text(entries[0].label)}<br><span class="span">{way} is better</span>'
        rows.append([title, *(number(e, best) for e in entries)])
    return table(["", *map(text, found.scores)], rows, f"{text(loss)} loss")


def estimators_table(content: Content) -> str:
    """Estimators of AURC across, models down."""
    names = list(dict.fromkeys(name for m in content.models for name, _ in m.estimators))
    rows = [
        [text(m.read.name), *(number(dict(m.estimators).get(name)) for name in names)] for m in content.models
    ]
    told = "".join(f"<li><code>{n}</code>: {text(_ESTIMATORS[n])}</li>" for n in names)
    return table(["model", *names], rows) + f"<ul class='soft'>{told}</ul>"


def ranking_table(found: Comparison) -> str:
    """Best first; those that share a letter cannot be told apart."""
    rows = []
    for c in found.contestants:
        rank = str(c.rank_low) if c.rank_low == c.rank_high else f"{c.rank_low} to {c.rank_high}"
        rows.append([rank, text(c.name), number(c), text(c.group)])
    return table(["rank", "name", text(found.label), "group"], rows)


def files_table(content: Content) -> str:
    """Where the numbers come from."""
    rows = []
    for read in (m.read for m in content.models):
        used = "<br>".join(f"{text(role)}: <code>{text(name)}</code>" for role, name in read.used.items())
        kind = f"{text(read.kind)} ({text(read.format)})"
        rows.append([text(read.name), f"<code>{text(read.path)}</code>", f"{read.n:,}", kind, used])
    return table(["model", "file", "samples", "read as", "columns"], rows, numbers=(2,))


def ranking(content: Content) -> str:
    """The ranking with its groups of equals; nothing when there is nothing to compare."""
    found = content.comparison
    if found is None:
        return ""
    kind = "scores of one model" if len(content.models) == 1 else "models"
    same, other = f"on the same {found.n:,} samples (paired tests)", "on different test sets (Welch's test)"
    return f"""
<section id="ranking"><h2>Ranking</h2>
<p>The {kind} compared by {text(found.label)} {same if found.paired else other}, corrected after Holm at
{found.level:.0%}. Those that share a letter cannot be told apart with these data.</p>
<div class="card">{ranking_table(found)}<ul>{items(found.sentences())}</ul></div></section>
"""


def page(
    content: Content, *, title: str = "Selective prediction report", command: str = "", made: str = ""
) -> str:
    """The whole page as text.

    Parameters
    ----------
    content : Content
        What `gather` gave.
    title : str
        Its headline.
    command : str
        The command that makes it again; left out when empty.
    made : str
        The day it was made; left out when empty.

    Returns
    -------
    str
        One HTML document with scripts, styles and data inside.

    Examples
    --------
    >>> import numpy as np
    >>> from abstain.formats import Predictions
    >>> from abstain.report import gather
    >>> read = Predictions("mine", "t.csv", "csv", 2, loss=np.array([0.0, 1.0]), confidence=np.array([0.9, 0.5]))
    >>> "<title>Mine</title>" in page(gather([read]), title="Mine")
    True
    """
    needed("plotly", "The report", "report")
    several = len(content.models) > 1
    dots = [f'<span class="dot" data-k="{k}"></span>' for k in range(len(content.models))]
    named = [(dot, text(m.read.name), m) for dot, m in zip(dots, content.models)]
    options = "".join(f'<option value="{k}">{name}</option>' for k, (_, name, _) in enumerate(named))
    tables = [
        "".join(scores_table(m.evaluation, loss) for loss in m.evaluation.losses) for m in content.models
    ]
    ties = ["".join(f"<p>{with_code(line)}</p>" for line in about_ties(m)) for m in content.models]
    if several:
        tables = [
            f"<details{'' if k else ' open'}><summary>{dot} {name}</summary>{inner}</details>"
            for k, ((dot, name, _), inner) in enumerate(zip(named, tables))
        ]
        ties = [f"<h3>{dot} {name}</h3>{told}" for (dot, name, _), told in zip(named, ties)]
    rows = sum(len(m.evaluation.scores) for m in content.models)
    ranked = ranking(content)
    parts = {
        "policy": _POLICY,
        "version": text(versions()["abstain"]),
        "title": text(title),
        "subtitle": text(_subtitle(content, made)),
        "links": "".join(f'<a href="#{k}">{v}</a>' for k, v in _LINKS.items() if ranked or k != "ranking"),
        "summary": "".join(f'<p class="lead">{text(s)}</p>' for s in summary(content)),
        "level": f"{content.level:.0%}",
        "chips": "".join(
            f'<button type="button" class="chip" data-model="{k}" aria-pressed="true">{dot}{name}</button>'
            for k, (dot, name, _) in enumerate(named)
        ),
        "choice": f'<label>Model <select id="model">{options}</select></label>' if several else "",
        "jumps": "".join(f'<button type="button" data-jump="{c}">{c:.0%}</button>' for c in _JUMPS),
        "height": f"height:{min(60, 5 + 1.5 * rows):.1f}rem",
        "scores": "".join(tables),
        "estimators": estimators_table(content),
        "ranking": ranked,
        "ties": "".join(f"<div>{told}</div>" for told in ties),
        "files": files_table(content),
        "replicates": content.replicates,
        "rng": content.rng,
        "again": f"<h3>Make this page again</h3><pre>{text(command)}</pre>" if command else "",
        "versions": ", ".join(f"{text(k)} {text(v)}" for k, v in versions(*_USED).items()),
        "style": _asset("page.css"),
        "data": safe_json(embedded(content)),
        "plotly": _asset("plotly.min.js", "plotly", "package_data"),
        "script": _asset("charts.js") + "\n" + _asset("controls.js"),
    }
    return Template(_asset("page.html")).substitute(parts)


def _asset(name: str, package: str = "abstain.report", folder: str = "assets") -> str:
    return (resources.files(package) / folder / name).read_text(encoding="utf-8")


def save_page(content: Content, path: str | Path, **options: str) -> None:
    """Write the page, whole or not at all.

    Parameters
    ----------
    content : Content
        What `gather` gave.
    path : str or Path
        The HTML file.
    **options : str
        Those of `page`: title, command, made.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from abstain.formats import Predictions
    >>> from abstain.report import gather
    >>> read = Predictions("mine", "t.csv", "csv", 2, loss=np.array([0.0, 1.0]), confidence=np.array([0.9, 0.5]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_page(gather([read]), f"{folder}/report.html", title="Mine")
    """
    written = page(content, **options).encode("utf-8")
    with replacing(path) as stream:
        stream.write(written)


def _subtitle(content: Content, made: str) -> str:
    count = len(content.models)
    sizes = sorted({m.read.n for m in content.models})
    samples = " to ".join(f"{n:,}" for n in dict.fromkeys([sizes[0], sizes[-1]]))
    one = content.models[0]
    told = f"{count} model{'s' if count > 1 else ''}, {samples} samples, confidence by {one.score}, {one.loss} loss"
    return told + (f", made {made}" if made else "")
