"""One self-contained HTML page: words, tables, sections. Works offline, by keyboard, in print, light and dark."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from abstain.errors import MissingDependencyError
from abstain.evaluation import Comparison, Entry, Evaluation
from abstain.formats import replacing
from abstain.report.content import REPLICATES, Content, ModelContent, embedded, safe_json, versions


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
    told = []
    comparison = content.comparison
    if len(content.models) == 1:
        model = content.models[0]
        first = model.evaluation[model.score, model.evaluation.losses[0], "aurc"]
        bar = (
            f", {content.level:.0%} interval {first.low:.3g} to {first.high:.3g}"
            if first.low is not None
            else ""
        )
        told.append(f"{model.read.name} has AURC {first.estimate:.3g}{bar} (lower is better).")
        told.append(_gain(model))
        return told
    if comparison is not None:
        best = comparison.contestants[0]
        told.append(
            f"{best.name} ranks first with AURC {best.estimate:.3g}"
            + (
                f" ({content.level:.0%} interval {best.low:.3g} to {best.high:.3g})."
                if best.low is not None
                else "."
            )
        )
        rivals = [name for name in comparison.winners if name != best.name]
        if rivals:
            told.append(f"With these data it cannot be told apart from {_listed(rivals)}.")
        else:
            told.append("No other model can be as good, as far as the tests can tell.")
        told.append(_gain(next(m for m in content.models if m.read.name == best.name)))
    return told


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


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


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


def estimator_note(name: str) -> str:
    """What an estimator of AURC is."""
    return {
        "harmonic": "the classical empirical AURC: the mean of all selective risks",
        "log": "weights -ln(1 - rank/(n + 1))",
        "loo": "leave-one-out: the least biased; intervals are centred here",
        "sele": "rank/n: this is the empirical AUGRC, a different area, shown for comparison",
    }[name]


# tables -------------------------------------------------------------------------------------------
#
# The page's tables, written out in HTML; every string of the user's is escaped.


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


# sections -----------------------------------------------------------------------------------------
#
# The page's sections, one function each.


_USED = ("numpy", "scipy", "plotly", "pyarrow", "torch")


def _dot(k: int) -> str:
    return f'<span class="dot" data-k="{k}"></span>'


def curves(content: Content) -> str:
    """Risk-coverage curves with bands."""
    chips = "".join(
        f'<button type="button" class="chip" data-model="{k}" aria-pressed="true">{_dot(k)}{text(m.read.name)}</button>'
        for k, m in enumerate(content.models)
    )
    return f"""
<section id="curves"><h2>Risk against coverage</h2>
<p>The model answers only where its confidence reaches a threshold. Moving left, it answers less and should err less.
Shaded: the whole curve lies inside with probability about {content.level:.0%}.</p>
<div class="card">
<div class="row controls">
<div class="switch" role="group" aria-label="View">
<button type="button" data-view="risk" aria-pressed="true">Selective risk</button>
<button type="button" data-view="generalised" aria-pressed="false">Generalised risk</button></div>
<div class="switch"><button type="button" id="bands" aria-pressed="true">Bands</button></div>
{chips}</div>
<div id="curve-chart" class="chart" role="img" aria-label="Risk-coverage curves"></div>
</div></section>"""


def threshold(content: Content) -> str:
    """The slider, its numbers, and shares by class."""
    options = "".join(
        f'<option value="{k}">{text(m.read.name)}</option>' for k, m in enumerate(content.models)
    )
    choice = f'<label>Model <select id="model">{options}</select></label>' if len(content.models) > 1 else ""
    jumps = "".join(
        f'<button type="button" data-jump="{c}">{c:.0%}</button>' for c in (0.5, 0.7, 0.8, 0.9, 0.95, 1)
    )
    return f"""
<section id="line"><h2>Where to draw the line</h2>
<p>Move the slider by mouse or arrow keys. A sample is answered when its confidence is at least the threshold.
The limits of the risk are exact (Clopper-Pearson, 0/1 losses) for one threshold fixed beforehand; a threshold
chosen by looking needs
<code>abstain threshold</code>, which makes a promise that survives the choice.</p>
<div class="card">
<div class="row controls">{choice}<span class="soft">Coverage of at least</span>{jumps}</div>
<input type="range" id="slider" min="0" max="1" step="1" value="0" aria-label="Threshold, from strict to lenient">
<div class="ends"><span>strict: answer few</span><span>lenient: answer all</span></div>
<div class="tiles">
<div class="tile"><div class="what">Threshold</div><output id="threshold"></output>
<div class="more">on the confidence</div></div>
<div class="tile"><div class="what">Coverage</div><output id="coverage"></output>
<div class="more">of all samples</div></div>
<div class="tile"><div class="what">Risk</div><output id="risk"></output><div class="more" id="bound"></div></div>
<div class="tile"><div class="what">Accepted</div><output id="accepted"></output><div class="more" id="wrong">
</div></div>
<div class="tile"><div class="what">Rejected</div><output id="rejected"></output>
<div class="more">left to somebody else</div></div>
</div></div>
<div class="card" id="classes-card"><h3>Who is answered, by <span id="classes-by"></span></h3>
<div class="scroll"><table class="classes"><thead><tr><th scope="col">name</th><th scope="col">share answered</th>
<th scope="col" class="num"></th><th scope="col" class="num">accepted</th>
<th scope="col" class="num">rejected</th></tr></thead>
<tbody id="classes"></tbody></table></div></div>
</section>"""


def scores(content: Content) -> str:
    """Scores and estimators with intervals."""
    details = []
    for k, model in enumerate(content.models):
        found = model.evaluation
        inner = "".join(scores_table(found, loss) for loss in found.losses)
        if len(content.models) == 1:
            details.append(inner)
            continue
        state = " open" if k == 0 else ""
        details.append(
            f"<details{state}><summary>{_dot(k)} {text(model.read.name)}</summary>{inner}</details>"
        )
    rows = sum(len(m.evaluation.scores) for m in content.models)
    height = f"height:{min(60, 5 + 1.5 * rows):.1f}rem"
    return f"""
<section id="scores"><h2>Scores and estimators</h2>
<p>Each way of turning the model's output into a confidence, with {content.level:.0%} intervals; bold is the
best of its row.
Filled points are the score used on this page.</p>
<div class="card">
<div id="forest" class="chart" style="{height}" role="img" aria-label="AURC of every score with intervals"></div></div>
<div class="card">{"".join(details)}</div>
<h3>Estimators of AURC</h3>
<div class="card">{estimators_table(content)}</div></section>"""


def ranking(content: Content) -> str:
    """The ranking with its groups of equals; nothing when there is nothing to compare."""
    found = content.comparison
    if found is None:
        return ""
    told = "".join(f"<li>{text(s)}</li>" for s in found.sentences())
    kind = "scores of one model" if len(content.models) == 1 else "models"
    how = (
        f"on the same {found.n:,} samples (paired tests)"
        if found.paired
        else "on different test sets (Welch's test)"
    )
    return f"""
<section id="ranking"><h2>Ranking</h2>
<p>The {kind} compared by {text(found.label)} {how}, corrected after Holm at {found.level:.0%}. Those that
share a letter
cannot be told apart with these data.</p>
<div class="card">{ranking_table(found)}<ul>{told}</ul></div></section>"""


def ties(content: Content) -> str:
    """Ties and saturation in words."""
    blocks = []
    for k, model in enumerate(content.models):
        told = "".join(f"<p>{with_code(s)}</p>" for s in about_ties(model))
        head = f"<h3>{_dot(k)} {text(model.read.name)}</h3>" if len(content.models) > 1 else ""
        blocks.append(f"<div>{head}{told}</div>")
    return f"""
<section id="ties"><h2>Ties and saturation</h2>
<p>A confident network's largest probability rounds to exactly 1, and voting models know few different
confidences. Samples
of equal confidence are answered or rejected together; every number here respects that.</p>
<div class="card">{"".join(blocks)}</div></section>"""


def method(content: Content, command: str) -> str:
    """Files, method, versions and the command."""
    found = ", ".join(f"{text(k)} {text(v)}" for k, v in versions(*_USED).items())
    again = f"<h3>Make this page again</h3><pre>{text(command)}</pre>" if command else ""
    return f"""
<section id="method"><h2>Data and method</h2>
<div class="card">{files_table(content)}
<ul>
<li>Coverage is the share of all samples that is answered; selective risk the mean loss of the answered;
generalised risk
the same loss per sample of all. AURC is the mean selective risk over all thresholds, AUGRC the mean
generalised risk.</li>
<li>Intervals come from influence functions, on the log scale for areas; metrics without one from {REPLICATES}
bootstrap replicates.
The curve's band is simultaneous, from {content.replicates} replicates; seed {content.rng}.</li>
<li>Differences are tested on the same samples where the files hold the same samples, and corrected after Holm.</li>
</ul>
{again}
<h3>Versions</h3><p class="soft">{found}</p></div></section>"""


# page ---------------------------------------------------------------------------------------------
#
# One self-contained HTML page: works offline, by keyboard, in print, light and dark.


# nothing may be fetched from anywhere; scripts and styles are the page's own
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_PARTS = {
    "curves": "Curves",
    "line": "Threshold",
    "scores": "Scores",
    "ranking": "Ranking",
    "ties": "Ties",
    "method": "Method",
}


def _plotly() -> str:
    try:
        return (resources.files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    except ModuleNotFoundError as error:
        raise MissingDependencyError("The report", "plotly", "report") from error


def _asset(name: str) -> str:
    return (resources.files("abstain.report") / "assets" / name).read_text(encoding="utf-8")


def page(
    content: Content, *, title: str = "Selective prediction report", command: str = "", made: str = ""
) -> str:
    """The whole page as text."""
    plotly = _plotly()
    parts = {
        "curves": curves(content), "line": threshold(content), "scores": scores(content),
        "ranking": ranking(content), "ties": ties(content),
        "method": method(content, command),
    }  # fmt: skip
    links = "".join(f'<a href="#{name}">{label}</a>' for name, label in _PARTS.items() if parts[name])
    told = "".join(f'<p class="lead">{text(s)}</p>' for s in summary(content))
    return f"""<!doctype html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="abstain {text(versions()["abstain"])}">
<title>{text(title)}</title>
<link rel="icon" href="data:,">
<style>
{_asset("page.css")}
</style>
</head>
<body>
<a class="skip" href="#curves">Skip to the curves</a>
<nav aria-label="Sections"><div>{links}<span class="grow"></span><button id="theme" type="button">Dark</button>
</div></nav>
<main>
<header><h1>{text(title)}</h1><p class="soft">{text(_subtitle(content, made))}</p></header>
{told}
<noscript><p>Charts and the slider need JavaScript; all tables below do without.</p></noscript>
{"".join(parts.values())}
</main>
<footer>Made with abstain {text(versions()["abstain"])}. This page asks nothing of the network.</footer>
<script type="application/json" id="data">{safe_json(embedded(content))}</script>
<script>{plotly}</script>
<script>
{_asset("charts.js")}
{_asset("controls.js")}
</script>
</body>
</html>
"""


def save_page(content: Content, path: str | Path, **options: str) -> None:
    """Write the page, whole or not at all."""
    written = page(content, **options).encode("utf-8")
    with replacing(path) as stream:
        stream.write(written)


def _subtitle(content: Content, made: str) -> str:
    count = len(content.models)
    sizes = sorted({m.read.n for m in content.models})
    samples = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    one = content.models[0]
    told = f"{count} model{'s' if count > 1 else ''}, {samples} samples, confidence by {one.score}, {one.loss} loss"
    return told + (f", made {made}" if made else "")
