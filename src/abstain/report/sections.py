"""The page's sections, one function each."""

from __future__ import annotations

from abstain.report import tables, words
from abstain.report.content import REPLICATES, Content
from abstain.report.tables import text, with_code
from abstain.report.versions import versions

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
        inner = "".join(tables.scores_table(found, loss) for loss in found.losses)
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
<div class="card">{tables.estimators_table(content)}</div></section>"""


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
<div class="card">{tables.ranking_table(found)}<ul>{told}</ul></div></section>"""


def ties(content: Content) -> str:
    """Ties and saturation in words."""
    blocks = []
    for k, model in enumerate(content.models):
        told = "".join(f"<p>{with_code(s)}</p>" for s in words.ties(model))
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
<div class="card">{tables.files_table(content)}
<ul>
<li>Coverage is the share of all samples that is answered; selective risk the mean loss of the answered;
generalised risk
the same loss per sample of all. AURC is the mean selective risk over all thresholds, AUGRC the mean
generalised risk.</li>
<li>Intervals come from influence functions, on the log scale for areas; metrics without one from {REPLICATES}
bootstrap replicates.
The curve's band is simultaneous, from {content.replicates} replicates; seed {content.seed}.</li>
<li>Differences are tested on the same samples where the files hold the same samples, and corrected after Holm.</li>
</ul>
{again}
<h3>Versions</h3><p class="soft">{found}</p></div></section>"""
