"""One self-contained HTML page: works offline, by keyboard, in print, light and dark."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from abstain.errors import MissingDependencyError
from abstain.formats import replacing
from abstain.report import sections, words
from abstain.report.content import Content
from abstain.report.embedded import embedded, safe_json
from abstain.report.tables import text
from abstain.report.versions import versions

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
        "curves": sections.curves(content), "line": sections.threshold(content), "scores": sections.scores(content),
        "ranking": sections.ranking(content), "ties": sections.ties(content),
        "method": sections.method(content, command),
    }  # fmt: skip
    links = "".join(f'<a href="#{name}">{label}</a>' for name, label in _PARTS.items() if parts[name])
    told = "".join(f'<p class="lead">{text(s)}</p>' for s in words.summary(content))
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
