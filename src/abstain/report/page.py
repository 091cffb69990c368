"""Self-contained HTML pages, framed by `assets/frame.html`: offline, by keyboard, in print, light and dark; the report.

Every string of the user's is escaped.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from abstain import __version__
from abstain._tables import escape_controls, escape_html, format_fixed
from abstain.evaluation import Comparison
from abstain.evaluation.chance import chance_warnings
from abstain.formats import replacing
from abstain.losses import loss_words
from abstain.metrics.definitions import by_name
from abstain.report.content import (
    ESTIMATORS,
    Content,
    ModelContent,
    embedded,
    risk_where,
    short_names,
    versions,
)

# nothing may be fetched from anywhere; scripts and styles are the page's own
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_LINKS = {
    "decision": "Findings",
    "curves": "Curves",
    "line": "Threshold",
    "parts": "Groups",
    "clinical": "Clinical",
    "scores": "Scores",
    "ranking": "Ranking",
    "ties": "Ties",
    "method": "Method",
}
_BRACKETS = re.compile(r"(\S+) \[(\S+), (\S+)\]")
_USED = ("numpy", "scipy", "pyarrow", "torch")
_GRID = tuple(k / 10 for k in range(1, 11))  # coverages of the curves' table
_JUMPS = (0.5, 0.7, 0.8, 0.9, 0.95, 1)  # of the slider, in coverage


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
        bar = "" if first.low is None else f", {_interval(first, content.level)}"
        told = f"{model.read.name} has AURC {first.estimate:.3g}{bar} (lower is better)."
        return [told, _gain(model)]
    comparison = content.comparison
    assert comparison is not None
    best = comparison.names[0]
    rivals = [name for name in comparison.winners if name != best]
    told = "It is better than every other model here, as far as the tests can tell."
    if rivals:
        listed = " and ".join(filter(None, (", ".join(rivals[:-1]), rivals[-1])))
        told = f"With these data it cannot be told apart from {listed}."
    gain = _gain(next(m for m in content.models if m.read.name == best))
    return [f"{first_place(comparison)}; lower is better.", told, gain]


def first_place(comparison: Comparison) -> str:
    """Who leads, and by which number."""
    best = comparison.contestants[0]
    bar = "" if best.low is None else f" ({_interval(best, comparison.level)})"
    return f"{best.name} ranks first with {comparison.label} {best.estimate:.3g}{bar}"


def _interval(found: Any, level: float) -> str:
    return f"{level:.0%} interval {found.low:.3g} to {found.high:.3g}"


def verdicts(content: Content) -> str:
    """The first model against each other: difference, interval, p and what they mean; nothing for a single model."""
    found = content.comparison
    if found is None or len(content.models) < 2:
        return ""
    first = found.names[0]
    names = name_cells(found.names)
    rows: list[list[str | Cell]] = []
    from_first = [found.pair(name, first) for name in found.names[1:]]
    places = decimals([x for p in from_first for x in (p.difference, p.low, p.high)])
    for p in from_first:
        if p.note:
            meaning = f"no verdict: it {p.note}"
        elif p.different:
            meaning = f"{first} is better"
        else:
            about = int(float(f"{p.samples_needed or 0:.2g}"))  # more digits than such a guess holds
            need = f"; about {about:,} samples would be needed" if about else ""
            meaning = f"cannot be told apart{need}"
        difference, low, high = (format_fixed(x, places, sign=True) for x in (p.difference, p.low, p.high))
        chance = "< 0.001" if p.p_adjusted < 0.001 else f"{p.p_adjusted:.3f}"
        said = f'<span class="said">{text(meaning)}</span>'
        rows.append(
            [
                names[p.a],
                Cell(difference, (plain(p.difference),)),
                Cell(f"{low} to {high}", (plain(p.low), plain(p.high))),
                Cell(text(chance), (plain(p.p_adjusted),)),
                said,
            ]
        )
    pairs = len(found.pairs)
    corrected = f"; interval and p corrected for all {pairs} pairs" if pairs > 1 else ""
    caption = f"{text(found.label)} minus that of {names[first].html}{corrected}"
    head = ["model", "difference", f"{found.level:.0%} interval", "p", "in words"]
    return f'<div class="card">{table(head, rows, caption, (1, 2, 3))}</div>'


def decimals(values: Sequence[float]) -> int:
    """So many that the typical number of a column shows three digits, and all have the same.

    >>> decimals([0.0123, 0.1]), decimals([12.5]), decimals([])
    (4, 1, 0)
    """
    sizes = sorted(abs(v) for v in values if v)
    if not sizes:
        return 0
    return max(0, min(6, 2 - math.floor(math.log10(sizes[(len(sizes) - 1) // 2]))))


class Cell(NamedTuple):
    """A cell of a table: HTML, and what its CSV holds, which may be several columns (a value and its limits)."""

    html: str
    csv: tuple[str, ...]


def plain(value: float | None) -> str:
    """A number for a CSV file: six digits, no sign at zero, nothing where there is none."""
    return "" if value is None else f"{value + 0.0:.6g}"


def name_cells(names: Iterable[str]) -> dict[str, Cell]:
    """Names cut to what fits a cell, and still different; the whole of each in its tooltip and in the CSV."""
    cells = {}
    for name, short in short_names(names).items():
        whole = text(name) if short == name else f'<span title="{text(name)}">{text(short)}</span>'
        cells[name] = Cell(whole, (name,))
    return cells


def _gain(model: ModelContent) -> str:
    curve = model.curve
    at = int(min(range(len(curve.coverage)), key=lambda i: abs(curve.coverage[i] - 0.8 * curve.coverage[-1])))
    name = "error rate" if model.zero_one else "mean loss"
    whole, less = (_risk(model, curve.risk[k]) for k in (-1, at))
    surest = percent(float(curve.coverage[at]), 0)
    return f"Answering everything, its {name} is {whole}; answering the surest {surest}, {less}."


def _risk(model: ModelContent, risk: float) -> str:
    return percent(float(risk)) if model.zero_one else f"{risk:.4g}"


def about_ties(model: ModelContent) -> list[str]:
    """What equal confidences mean for this model."""
    curve, distinct = model.curve, len(model.curve.threshold)
    n, top = curve.n, int(curve.count[0])
    told = [f"{n:,} samples share {distinct:,} different confidences ({model.score})."]
    if distinct == n:
        told = [f"All {n:,} samples have different confidences ({model.score}): nothing ties."]
    if top > 1:
        told.append(
            f"{top:,} of them ({percent(top / n)}) tie at the very top, {model.steps.shown[0]}. No threshold can "
            f"separate them, so coverage starts at {percent(float(curve.coverage[0]))}, and the risk there, "
            f"{_risk(model, curve.risk[0])}, is that of the smallest set that can be accepted. A program that sorts "
            f"and cumulates would give a number that depends on the order of the rows."
        )
    said = chance_warnings(model.evaluation.notes)  # at the top of the page
    told += [note for note in model.evaluation.notes if "tie at the top of" not in note and note not in said]
    return told


def text(value: object) -> str:
    """A string that stays text in HTML, in attributes too; see `abstain._tables.escaped`."""
    return escape_html(value)


def with_code(value: str) -> str:
    """The same, with what stands between backticks set as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", text(value))


def items(lines: Sequence[str]) -> str:
    return "".join(f"<li>{text(line)}</li>" for line in lines)


def table(
    head: Sequence[str], rows: Sequence[Sequence[str | Cell]], caption: str, numbers: Sequence[int]
) -> str:
    """Cells are HTML already; `numbers` are columns set to the right."""
    side = [' class="num"' if k in numbers else "" for k in range(len(head))]
    widths = [max((len(c.csv) for c in column if isinstance(c, Cell)), default=1) for column in zip(*rows)]
    titles = [_csv_attribute(_csv_titles(name, width)) for name, width in zip(head, widths)]
    top = "".join(f'<th scope="col"{kind}{csv}>{cell}</th>' for kind, cell, csv in zip(side, head, titles))
    lines = ["".join(f"<td{kind}{_csv_of(cell)}</td>" for kind, cell in zip(side, row)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    title = f"<caption><span>{caption}</span></caption><thead><tr>{top}</tr></thead>"
    return f'<div class="scroll"><table>{title}<tbody>{body}</tbody></table></div>'


def _csv_of(cell: str | Cell) -> str:
    """The rest of a cell's tag, and its content."""
    return f"{_csv_attribute(cell.csv)}>{cell.html}" if isinstance(cell, Cell) else f">{cell}"


def _csv_attribute(columns: Sequence[str]) -> str:
    return f' data-csv="{text(json.dumps([escape_controls(column) for column in columns]))}"'


def _csv_titles(name: str, width: int) -> list[str]:
    """Names of the CSV columns that one column of the page becomes: a value with limits, or limits alone."""
    name = html.unescape(name)
    ends = [f"{name} low", f"{name} high"]
    return {1: [name], 2: ends, 3: [name, *ends]}[width]


def number(found: Any, places: int, best: bool = False) -> Cell:
    """An estimate with its interval below."""
    if found is None or found.estimate is None:
        return Cell("–", ("", "", ""))
    mark = ' class="best"' if best else ""
    shown = f"<span{mark}>{format_fixed(found.estimate, places)}</span>"
    if found.low is not None and found.high is not None:
        shown += below(format_fixed(found.low, places), format_fixed(found.high, places))
    return Cell(shown, (plain(found.estimate), plain(found.low), plain(found.high)))


def below(low: str, high: str) -> str:
    """Limits as a second line of a cell."""
    return f'<br><span class="span">{low} to {high}</span>'


def with_limits(value: str) -> str | Cell:
    """ "0.5 [0.4, 0.6]" as a cell with its limits below; any other text as it is."""
    found = _BRACKETS.fullmatch(value)
    if found is None:
        return text(value)
    return Cell(found[1] + below(found[2], found[3]), found.groups())


def _places(found: Sequence[Any]) -> int:
    return decimals([e.estimate for e in found if e is not None and e.estimate is not None])


def scores_table(model: ModelContent, loss: str) -> str:
    """Metrics down, scores across."""
    evaluation = model.evaluation
    rows: list[list[str | Cell]] = []
    for entries in evaluation.rows(loss):
        way = "lower" if entries[0].lower_is_better else "higher"
        title = f'{text(entries[0].label)}<br><span class="span">{way} is better</span>'
        best = model.best.get((loss, entries[0].metric))
        places = _places(entries)
        cells = [number(e, places, e.score == best) for e in entries]
        rows.append([Cell(title, (entries[0].label,)), *cells])
    caption = f"{text(model.read.name)}: {text(loss_words(loss))}"
    head = ["metric", *map(text, evaluation.scores)]
    return table(head, rows, caption, range(1, len(head)))


def not_computed(model: ModelContent) -> str:
    """Numbers that these data do not define, with the reasons."""
    lines = model.evaluation.undefined()
    if not lines:
        return ""
    return f"<p>Not defined for these data:</p><ul>{items(lines)}</ul>"


def model_cells(content: Content) -> dict[str, Cell]:
    """The names of the models as cells."""
    return name_cells(m.read.name for m in content.models)


def words(content: Content) -> str:
    """What the metrics on the page are."""
    seen = dict.fromkeys(name for m in content.models for name in m.evaluation.metrics)
    told = "".join(f"<li>{text(by_name(m).full_label)}: {text(by_name(m).summary)}.</li>" for m in seen)
    return f"<details><summary>What these numbers are</summary><ul class='soft'>{told}</ul></details>"


def curves_table(content: Content) -> str:
    """Selective risk at every tenth of coverage: the text alternative of the curves."""
    names = model_cells(content)
    rows: list[list[str | Cell]] = []
    for m in content.models:
        show = (lambda risk: percent(risk, 2)) if m.zero_one else "{:.3g}".format
        risks = [risk_where(m.curve, wanted) for wanted in _GRID]
        cells = [Cell("–" if risk is None else show(risk), (plain(risk),)) for risk in risks]
        rows.append([names[m.read.name], *cells])
    head = ["model", *(f"{c:.0%}" for c in _GRID)]
    return table(head, rows, "Selective risk when at least so much is answered", range(1, 11))


def parts(content: Content) -> str:
    """Tables of who is answered, filled as the slider moves."""
    most = max(len(m.steps.parts) for m in content.models)
    if not most:
        return ""
    zero_one = all(m.zero_one for m in content.models)
    risk, wrong = ("error rate", "wrong") if zero_one else ("mean loss", "loss")
    cards = "".join(fill("part.html", k=k, risk=risk, wrong=wrong) for k in range(most))
    return f"""<section id="parts"><h2>Who is answered, and how often wrongly</h2>
<p>At the threshold chosen above, each row with its own limits. A promise for all samples is no promise for each
group: look at the first rows.</p>
{cards}</section>"""


def clinical(content: Content) -> str:
    """What a clinic reads, for models of two classes."""
    cards = ""
    for m in content.models:
        if m.clinical is not None:
            grid = m.clinical.grid()
            name = model_cells(content)[m.read.name].html
            caption = f"{name}, positive: {text(m.clinical.positive)}, {content.level:.0%} intervals"
            rows = [[with_limits(cell) for cell in row] for row in zip(*grid.values())]
            cards += f'<div class="card">{table(list(grid), rows, caption, range(7))}</div>'
    told = "Of the accepted only, each interval on its own. What is left to somebody else is neither found nor missed."
    head = f"<h2>Sensitivity and predictive values</h2><p>{told}</p>"
    return f'<section id="clinical">{head}{cards}</section>' if cards else ""


def estimators_table(content: Content) -> str:
    """Estimators of AURC across, models down."""
    names = [name for name in ESTIMATORS if any(name in dict(m.estimators) for m in content.models)]
    places = _places([found for m in content.models for _, found in m.estimators])
    titles = model_cells(content)
    rows = [
        [titles[m.read.name], *(number(dict(m.estimators).get(name), places) for name in names)]
        for m in content.models
    ]
    told = "".join(f"<li><code>{n}</code>: {text(ESTIMATORS[n])}</li>" for n in names)
    made = table(["model", *names], rows, "AURC by estimator", range(1, 1 + len(names)))
    return f"{made}<ul class='soft'>{told}</ul>"


def ranking_table(found: Comparison) -> str:
    """Best first; those that share a letter cannot be told apart."""
    names = name_cells(found.names)
    places = _places(found.contestants)
    rows: list[list[str | Cell]] = []
    for c in found.contestants:
        rank = str(c.rank_low) if c.rank_low == c.rank_high else f"{c.rank_low} to {c.rank_high}"
        rows.append([rank, names[c.name], number(c, places), text(c.group)])
    return table(["rank", "name", text(found.label), "letters"], rows, "Ranking, best first", (2,))


def files_table(content: Content) -> str:
    """Where the numbers come from."""
    names = model_cells(content)
    rows: list[list[str | Cell]] = []
    for read in (m.read for m in content.models):
        used = "<br>".join(f"{text(role)}: <code>{text(name)}</code>" for role, name in read.used.items())
        kind = f"{text(read.kind)} ({text(read.format)})"
        count = Cell(f"{read.n:,}", (str(read.n),))
        rows.append([names[read.name], f"<code>{text(Path(read.path).name)}</code>", count, kind, used])
    head = ["model", "file", "samples", "read as", "columns"]
    return table(head, rows, "Where the numbers come from", (2,))


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
    content: Content,
    *,
    title: str = "Selective prediction report",
    command: str = "",
    made: str = "",
    more: str = "",
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
    more : str
        Sections of one's own, as HTML, after those by group (`CostRiskCurve.to_html` makes one).

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
    several = len(content.models) > 1
    dots = [
        f'<svg class="key" data-k="{k}" width="26" height="10" aria-hidden="true"></svg>'
        for k in range(len(content.models))
    ]
    names = [model_cells(content)[m.read.name].html for m in content.models]
    shown = short_names(m.read.name for m in content.models)
    options = "".join(
        f'<option value="{k}">{text(shown[m.read.name])}</option>' for k, m in enumerate(content.models)
    )

    def choice(label: str, place: str) -> str:
        inner = f'{label} <select data-choose id="{place}">{options}</select>'
        return f"<label>{inner}</label>" if several else ""

    tables = [
        "".join(scores_table(m, loss) for loss in m.evaluation.losses) + not_computed(m)
        for m in content.models
    ]
    ties = ["".join(f"<p>{with_code(line)}</p>" for line in about_ties(m)) for m in content.models]
    if several:
        heads = [f"{dot} {name}" for dot, name in zip(dots, names)]
        tables = [f"<details><summary>{h}</summary>{inner}</details>" for h, inner in zip(heads, tables)]
        tables[0] = tables[0].replace("<details>", "<details open>", 1)
        ties = [f"<h3>{head}</h3>{told}" for head, told in zip(heads, ties)]
    sections = {"ranking": ranking(content), "parts": parts(content), "clinical": clinical(content)}
    links = {place: name for place, name in _LINKS.items() if sections.get(place, True)}
    filled = {
        **sections,
        "clinical": sections["clinical"] + more,
        "summary": "".join(f'<p class="lead">{text(s)}</p>' for s in (*summary(content), *content.notes)),
        "verdicts": verdicts(content),
        "crowd": " (of the model picked out, where there are many)" if len(content.models) > 3 else "",
        "points": curves_table(content),
        "words": words(content),
        "picked": choice("Pick out", "picked"),
        "level": f"{content.level:.0%}",
        "chips": "".join(
            f'<button type="button" class="chip" data-model="{k}" aria-pressed="true">{dot}{name}</button>'
            for k, (dot, name) in enumerate(zip(dots, names))
        ),
        "choice": choice("Model", "model"),
        "jumps": "".join(f'<button type="button" data-jump="{c}">{c:.0%}</button>' for c in _JUMPS),
        "scores": "".join(tables),
        "estimators": estimators_table(content),
        "ties": "".join(f"<div>{told}</div>" for told in ties),
        "files": files_table(content),
        "replicates": content.replicates,
        "rng": content.rng,
        "again": f"<h3>Make this page again</h3><pre>{text(command)}</pre>" if command else "",
        "versions": ", ".join(f"{text(k)} {text(v)}" for k, v in versions(*_USED).items()),
    }
    return framed("page", title, _subtitle(content), made, links, embedded(content), **filled)


def framed(
    name: str, title: str, told: str, made: str, links: Mapping[str, str], data: Any, **fields: Any
) -> str:
    """`assets/NAME.html` filled with HTML, in the frame that all pages have, with NAME.js and the data it draws."""
    first = next(iter(links))
    return fill(
        "frame.html",
        policy=POLICY,
        version=__version__,
        title=text(title),
        subtitle=text(f"{told}, made {made}" if made else told),
        first=first,
        where=links[first].lower(),
        links="".join(f'<a href="#{place}">{link}</a>' for place, link in links.items()),
        body=fill(f"{name}.html", **fields),
        style=asset("page.css"),
        data=safe_json(data),
        script=asset("figures.js") + "\n" + asset(f"{name}.js"),
    )


def safe_json(data: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever strings it holds.

    >>> safe_json({"name": "</script><script>"})
    '{"name": "\\\\u003c/script\\\\u003e\\\\u003cscript\\\\u003e"}'
    """
    text = json.dumps(_plain(data), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _plain(data: Any) -> Any:
    """Data that JSON can hold and a page may show: no infinities, no text that steers."""
    if isinstance(data, dict):
        return {_plain(key): _plain(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_plain(value) for value in data]
    if isinstance(data, str):
        return escape_controls(data, keep="\n")
    return None if isinstance(data, float) and not math.isfinite(data) else data


def fill(name: str, /, **fields: Any) -> str:
    """An asset with its fields filled in."""
    return Template(asset(name)).substitute(fields)


def asset(name: str) -> str:
    """The text of a file that pages are made of."""
    return (resources.files("abstain.report") / "assets" / name).read_text(encoding="utf-8")


def save_page(content: Content, path: str | Path, **options: str) -> None:
    """Write the page, whole or not at all.

    Parameters
    ----------
    content : Content
        What `gather` gave.
    path : str or Path
        The HTML file.
    **options : str
        Those of `page`: title, command, made, more.

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


def _subtitle(content: Content) -> str:
    count = len(content.models)
    sizes = sorted({m.read.n for m in content.models})
    samples = " to ".join(f"{n:,}" for n in dict.fromkeys([sizes[0], sizes[-1]]))
    one = content.models[0]
    what = f"{count} model{'s' if count > 1 else ''}, {samples} samples"
    return f"{what}, confidence by {one.score}, {loss_words(one.loss)}"
