"""Self-contained HTML pages and the report.

All pages share `assets/frame.html`. They work offline, by keyboard and in print, in a light and a dark theme. All text
from the user is escaped.
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
from abstain._tables import count_noun, escape_controls, escape_html, format_fixed
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

# the browser may fetch nothing; scripts and styles are inside the page
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
_VALUE_WITH_LIMITS = re.compile(r"(\S+) \[(\S+), (\S+)\]")
_REPORTED_PACKAGES = ("numpy", "scipy", "pyarrow", "torch")
_TABLE_COVERAGES = tuple(k / 10 for k in range(1, 11))  # columns of the curves' table
_JUMPS = (0.5, 0.7, 0.8, 0.9, 0.95, 1)  # coverages to which the slider has a button


def percent(value: float, digits: int = 1) -> str:
    """Format a share as a percentage; small ones keep two significant digits.

    >>> percent(0.8512), percent(0.00123), percent(0.0)
    ('85.1%', '0.12%', '0.0%')
    """
    if 0 < abs(value) < 10 ** -(digits + 1):
        return f"{100 * value:.2g}%"
    return f"{100 * value:.{digits}f}%"


def summary(content: Content) -> list[str]:
    """Return the findings as a few sentences of plain text: which model is best, and what abstaining gains.

    `content` has at least one model; with several it has a comparison.
    """
    if len(content.models) == 1:
        model = content.models[0]
        entry = model.evaluation[model.score, model.evaluation.losses[0], "aurc"]
        limits = "" if entry.low is None else f", {_describe_interval(entry, content.level)}"
        name = model.predictions.name
        return [f"{name} has AURC {entry.estimate:.3g}{limits} (lower is better).", _describe_gain(model)]
    comparison = content.comparison
    assert comparison is not None
    best = comparison.names[0]
    rivals = [name for name in comparison.winners if name != best]
    verdict = "It is better than every other model here, as far as the tests can tell."
    if rivals:
        listed = " and ".join(filter(None, (", ".join(rivals[:-1]), rivals[-1])))
        verdict = f"With these data it cannot be told apart from {listed}."
    best_model = next(model for model in content.models if model.predictions.name == best)
    direction = "lower" if comparison.lower_is_better else "higher"
    return [
        f"{describe_first_place(comparison)}; {direction} is better.",
        verdict,
        _describe_gain(best_model),
    ]


def describe_first_place(comparison: Comparison) -> str:
    """Which model leads the ranking, and its number with its interval; without a full stop."""
    best = comparison.contestants[0]
    limits = "" if best.low is None else f" ({_describe_interval(best, comparison.level)})"
    return f"{best.name} ranks first with {comparison.label} {best.estimate:.3g}{limits}"


def _describe_interval(interval: Any, level: float) -> str:
    return f"{level:.0%} interval {interval.low:.3g} to {interval.high:.3g}"


def verdicts(content: Content) -> str:
    """Make a table, as HTML, of the first model of the ranking against each other one.

    Its columns are the difference, its interval, p, and what they mean in words. Empty for a single model. `content`
    holds everything that the page shows.
    """
    comparison = content.comparison
    if comparison is None or len(content.models) < 2:
        return ""
    first = comparison.names[0]
    name_cell = name_cells(comparison.names)
    pairs = [comparison.pair(name, first) for name in comparison.names[1:]]
    printed_numbers = []
    for pair in pairs:
        printed_numbers += [pair.difference, pair.low, pair.high]
    places = decimals(printed_numbers)
    rows: list[list[str | Cell]] = []
    for pair in pairs:
        difference = format_fixed(pair.difference, places, sign=True)
        low = format_fixed(pair.low, places, sign=True)
        high = format_fixed(pair.high, places, sign=True)
        p_value = "< 0.001" if pair.p_adjusted < 0.001 else f"{pair.p_adjusted:.3f}"
        rows.append(
            [
                name_cell[pair.a],
                Cell(difference, (csv_number(pair.difference),)),
                Cell(f"{low} to {high}", (csv_number(pair.low), csv_number(pair.high))),
                Cell(text(p_value), (csv_number(pair.p_adjusted),)),
                f'<span class="said">{text(_describe_pair(pair, first))}</span>',
            ]
        )
    pair_count = len(comparison.pairs)
    correction = f"; interval and p corrected for all {pair_count} pairs" if pair_count > 1 else ""
    caption = f"{text(comparison.label)} minus that of {name_cell[first].html}{correction}"
    head = ["model", "difference", f"{comparison.level:.0%} interval", "p", "in words"]
    return f'<div class="card">{html_table(head, rows, caption, number_columns=(1, 2, 3))}</div>'


def _describe_pair(pair: Any, first: str) -> str:
    """What the comparison of a model with the first one means, in words."""
    if pair.note:
        return f"no verdict: it {pair.note}"
    if pair.different:
        return f"{first} is better"
    samples_needed = int(float(f"{pair.samples_needed or 0:.2g}"))  # an estimate this rough has two digits
    if samples_needed:
        return f"cannot be told apart; about {samples_needed:,} samples would be needed"
    return "cannot be told apart"


def decimals(values: Sequence[float]) -> int:
    """How many decimals a column needs so that its median number shows three digits.

    >>> decimals([0.0123, 0.1]), decimals([12.5]), decimals([])
    (4, 1, 0)
    """
    sizes = sorted(abs(value) for value in values if value)
    if not sizes:
        return 0
    return max(0, min(6, 2 - math.floor(math.log10(sizes[(len(sizes) - 1) // 2]))))


class Cell(NamedTuple):
    """A cell of a table: its HTML, and its values in the CSV file, which may be several (a value and its limits)."""

    html: str
    csv: tuple[str, ...]


def csv_number(value: float | None) -> str:
    """Format a number for a CSV file with six digits; -0 becomes 0, None becomes empty."""
    return "" if value is None else f"{value + 0.0:.6g}"


def name_cells(names: Iterable[str]) -> dict[str, Cell]:
    """Cells with shortened, distinct names; the tooltip and the CSV file have the full name."""
    cells = {}
    for name, short in short_names(names).items():
        html_name = text(name) if short == name else f'<span title="{text(name)}">{text(short)}</span>'
        cells[name] = Cell(html_name, (name,))
    return cells


def _describe_gain(model: ModelContent) -> str:
    """Make a sentence with the risk of all answers and that of about the most confident 80% of them.

    `model` holds everything that the page shows of one model.
    """
    curve = model.curve
    target = 0.8 * curve.coverage[-1]
    index = int(min(range(len(curve.coverage)), key=lambda i: abs(curve.coverage[i] - target)))
    noun = "error rate" if model.zero_one else "mean loss"
    full_risk = _format_risk(model, curve.risk[-1])
    reduced_risk = _format_risk(model, curve.risk[index])
    share = percent(float(curve.coverage[index]), 0)
    return (
        f"Its {noun} is {full_risk} if it answers everything, and {reduced_risk} if it answers the most confident "
        f"{share}."
    )


def _format_risk(model: ModelContent, risk: float) -> str:
    return percent(float(risk)) if model.zero_one else f"{risk:.4g}"


def about_ties(model: ModelContent) -> list[str]:
    """Return sentences about what equal confidences mean for this model, and the notes of its evaluation.

    Notes that the page shows elsewhere are left out. `model` holds everything that the page shows of one model.
    """
    curve = model.curve
    distinct_count = len(curve.threshold)
    top_count = int(curve.count[0])  # samples that share the highest confidence
    sentences = [f"{curve.n:,} samples share {distinct_count:,} different confidences ({model.score})."]
    if distinct_count == curve.n:
        sentences = [
            f"All {curve.n:,} samples have different confidences ({model.score}): there are no ties."
        ]
    if top_count > 1:
        sentences.append(
            f"{top_count:,} of them ({percent(top_count / curve.n)}) tie at the very top, "
            f"{model.slider.threshold_text[0]}. No threshold can separate them, so coverage starts at "
            f"{percent(float(curve.coverage[0]))}, and the risk there, {_format_risk(model, curve.risk[0])}, is that "
            f"of the smallest set that can be accepted. A program that sorts and cumulates would give a number that "
            f"depends on the order of the rows."
        )
    shown_above = chance_warnings(model.evaluation.notes)  # these are at the top of the page
    for note in model.evaluation.notes:
        says_ties_at_top = "tie at the top of" in note  # the sentence above says it with more numbers
        if not says_ties_at_top and note not in shown_above:
            sentences.append(note)
    return sentences


def text(value: object) -> str:
    """Escape text for HTML; see `abstain._tables.escape_html`."""
    return escape_html(value)


def with_code(value: str) -> str:
    """Escape text for HTML and set what stands between backticks as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", text(value))


def list_items(lines: Sequence[str]) -> str:
    """The lines as items of an HTML list."""
    return "".join(f"<li>{text(line)}</li>" for line in lines)


def html_table(
    head: Sequence[str], rows: Sequence[Sequence[str | Cell]], caption: str, number_columns: Sequence[int]
) -> str:
    """Make a table as HTML, from titles, cells and a caption that are HTML already.

    Columns in `number_columns`, counted from 0, are aligned to the right. A column of the page becomes as many columns
    of the CSV file as its cells have values at most: one, two (limits) or three (a value and its limits).
    """
    class_attributes = [' class="num"' if index in number_columns else "" for index in range(len(head))]
    csv_widths = [
        max((len(cell.csv) for cell in column if isinstance(cell, Cell)), default=1) for column in zip(*rows)
    ]
    csv_attributes = [_csv_attribute(_csv_titles(name, width)) for name, width in zip(head, csv_widths)]
    header = "".join(
        f'<th scope="col"{class_attribute}{csv_attribute}>{title}</th>'
        for class_attribute, title, csv_attribute in zip(class_attributes, head, csv_attributes)
    )
    body = ""
    for row in rows:
        cells = (
            f"<td{class_attribute}{_cell_tail(cell)}</td>"
            for class_attribute, cell in zip(class_attributes, row)
        )
        body += f"<tr>{''.join(cells)}</tr>"
    top = f"<caption><span>{caption}</span></caption><thead><tr>{header}</tr></thead>"
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


def _cell_tail(cell: str | Cell) -> str:
    """What follows the class in a cell's tag: its CSV values, the end of the tag, and its content."""
    return f"{_csv_attribute(cell.csv)}>{cell.html}" if isinstance(cell, Cell) else f">{cell}"


def _csv_attribute(columns: Sequence[str]) -> str:
    return f' data-csv="{text(json.dumps([escape_controls(column) for column in columns]))}"'


def _csv_titles(name: str, width: int) -> list[str]:
    """Titles of the CSV columns of one column of the page: one value, two limits, or a value with two limits."""
    name = html.unescape(name)
    limits = [f"{name} low", f"{name} high"]
    return {1: [name], 2: limits, 3: [name, *limits]}[width]


def estimate_cell(entry: Any, places: int, best: bool = False) -> Cell:
    """A cell with an estimate and its interval below; `best` makes it bold.

    `entry` has `estimate`, `low` and `high`, each of which may be None; or it is None.
    """
    if entry is None or entry.estimate is None:
        return Cell("–", ("", "", ""))
    mark = ' class="best"' if best else ""
    content = f"<span{mark}>{format_fixed(entry.estimate, places)}</span>"
    if entry.low is not None and entry.high is not None:
        content += second_line(format_fixed(entry.low, places), format_fixed(entry.high, places))
    return Cell(content, (csv_number(entry.estimate), csv_number(entry.low), csv_number(entry.high)))


def second_line(low: str, high: str) -> str:
    """Limits as the second line of a cell."""
    return f'<br><span class="span">{low} to {high}</span>'


def with_limits(value: str) -> str | Cell:
    """Make a cell with limits below from "0.5 [0.4, 0.6]"; any other text stays as it is."""
    match = _VALUE_WITH_LIMITS.fullmatch(value)
    if match is None:
        return text(value)
    estimate, low, high = match.groups()
    return Cell(estimate + second_line(low, high), (estimate, low, high))


def _estimate_decimals(entries: Sequence[Any]) -> int:
    """Decimals for the estimates of a column; entries may be None, or have none."""
    return decimals([entry.estimate for entry in entries if entry is not None and entry.estimate is not None])


def scores_table(model: ModelContent, loss: str) -> str:
    """Make a table, as HTML, with a row for each metric and a column for each score, of the loss of this name.

    The score that paired tests find better than all others is bold. `model` holds everything that the page shows of one
    model.
    """
    evaluation = model.evaluation
    rows: list[list[str | Cell]] = []
    for entries in evaluation.rows(loss):
        direction = "lower" if entries[0].lower_is_better else "higher"
        title = f'{text(entries[0].label)}<br><span class="span">{direction} is better</span>'
        best = model.best.get((loss, entries[0].metric))
        places = _estimate_decimals(entries)
        cells = [estimate_cell(entry, places, best=entry.score == best) for entry in entries]
        rows.append([Cell(title, (entries[0].label,)), *cells])
    caption = f"{text(model.predictions.name)}: {text(loss_words(loss))}"
    head = ["metric", *map(text, evaluation.scores)]
    return html_table(head, rows, caption, number_columns=range(1, len(head)))


def undefined_list(model: ModelContent) -> str:
    """The metrics that are not defined for these data, with the reasons."""
    lines = model.evaluation.undefined()
    if not lines:
        return ""
    return f"<p>Not defined for these data:</p><ul>{list_items(lines)}</ul>"


def model_cells(content: Content) -> dict[str, Cell]:
    """The names of the models as cells."""
    return name_cells(model.predictions.name for model in content.models)


def glossary(content: Content) -> str:
    """What the metrics on the page are, folded."""
    names = dict.fromkeys(name for model in content.models for name in model.evaluation.metrics)
    entries = ""
    for name in names:
        metric = by_name(name)
        entries += f"<li>{text(metric.full_label)}: {text(metric.summary)}.</li>"
    return f"<details><summary>What these numbers are</summary><ul class='soft'>{entries}</ul></details>"


def curves_table(content: Content) -> str:
    """Make a table, as HTML, of the selective risk at every tenth of coverage: the text alternative of the curves.

    A dash means that no threshold has this coverage, because of abstentions. `content` holds everything that the page
    shows.
    """
    name_cell = model_cells(content)
    rows: list[list[str | Cell]] = []
    for model in content.models:
        cells: list[str | Cell] = [name_cell[model.predictions.name]]
        for coverage in _TABLE_COVERAGES:
            risk = risk_where(model.curve, coverage)
            if risk is None:
                shown_risk = "–"
            elif model.zero_one:
                shown_risk = percent(risk, 2)
            else:
                shown_risk = f"{risk:.3g}"
            cells.append(Cell(shown_risk, (csv_number(risk),)))
        rows.append(cells)
    head = ["model", *(f"{coverage:.0%}" for coverage in _TABLE_COVERAGES)]
    caption = "Selective risk when at least this share is answered"
    return html_table(head, rows, caption, number_columns=range(1, len(head)))


def parts(content: Content) -> str:
    """Make a section with tables of accepted samples by group and class, which the script fills as the slider moves.

    Empty if no model has groups or classes. `content` holds everything that the page shows.
    """
    table_count = max(len(model.slider.parts) for model in content.models)
    if not table_count:
        return ""
    zero_one = all(model.zero_one for model in content.models)
    risk = "error rate" if zero_one else "mean loss"
    wrong = "wrong" if zero_one else "loss"
    cards = "".join(fill("part.html", k=index, risk=risk, wrong=wrong) for index in range(table_count))
    return f"""<section id="parts"><h2>Who is answered, and how often wrongly</h2>
<p>At the threshold chosen above, each row with its own limits. A guarantee for all samples is not a guarantee for each
group: look at the first rows.</p>
{cards}</section>"""


def clinical(content: Content) -> str:
    """Make a section with sensitivity, specificity and predictive values of models of two classes.

    Empty if there is no such model. `content` holds everything that the page shows.
    """
    cards = ""
    for model in content.models:
        if model.clinical is not None:
            grid = model.clinical.grid()  # cells of text by column, such as "0.5 [0.4, 0.6]"
            name = model_cells(content)[model.predictions.name].html
            caption = f"{name}, positive: {text(model.clinical.positive)}, {content.level:.0%} intervals"
            rows = [[with_limits(cell) for cell in row] for row in zip(*grid.values())]
            table = html_table(list(grid), rows, caption, number_columns=range(7))
            cards += f'<div class="card">{table}</div>'
    if not cards:
        return ""
    explanation = (
        "Of accepted samples only, each interval on its own. "
        "A rejected sample counts neither as found nor as missed."
    )
    return f'<section id="clinical"><h2>Sensitivity and predictive values</h2><p>{explanation}</p>{cards}</section>'


def estimators_table(content: Content) -> str:
    """Make a table of AURC with a column for each estimator and a row for each model, and what the estimators are.

    An estimator that no model has is left out; one that some models do not have gets a dash there. `content` holds
    everything that the page shows.
    """
    names = [name for name in ESTIMATORS if any(name in dict(model.estimators) for model in content.models)]
    intervals = [interval for model in content.models for _, interval in model.estimators]
    places = _estimate_decimals(intervals)
    name_cell = model_cells(content)
    rows = []
    for model in content.models:
        interval_by_estimator = dict(model.estimators)
        cells = [estimate_cell(interval_by_estimator.get(name), places) for name in names]
        rows.append([name_cell[model.predictions.name], *cells])
    table = html_table(["model", *names], rows, "AURC by estimator", number_columns=range(1, 1 + len(names)))
    explanations = "".join(f"<li><code>{name}</code>: {text(ESTIMATORS[name])}</li>" for name in names)
    return f"{table}<ul class='soft'>{explanations}</ul>"


def ranking_table(comparison: Comparison) -> str:
    """Make a table of the ranking, as HTML, best first; models that share a letter cannot be told apart."""
    name_cell = name_cells(comparison.names)
    places = _estimate_decimals(comparison.contestants)
    rows: list[list[str | Cell]] = []
    for contestant in comparison.contestants:
        rank = str(contestant.rank_low)
        if contestant.rank_low != contestant.rank_high:
            rank = f"{contestant.rank_low} to {contestant.rank_high}"
        estimate = estimate_cell(contestant, places)
        rows.append([rank, name_cell[contestant.name], estimate, text(contestant.group)])
    head = ["rank", "name", text(comparison.label), "letters"]
    return html_table(head, rows, "Ranking, best first", number_columns=(2,))


def files_table(content: Content) -> str:
    """Make a table of the files, as HTML: format, samples, and which column was read as what.

    `content` holds everything that the page shows.
    """
    name_cell = model_cells(content)
    rows: list[list[str | Cell]] = []
    for model in content.models:
        predictions = model.predictions
        columns = "<br>".join(
            f"{text(role)}: <code>{text(column)}</code>" for role, column in predictions.used.items()
        )
        file_name = f"<code>{text(Path(predictions.path).name)}</code>"
        sample_count = Cell(f"{predictions.n:,}", (str(predictions.n),))
        kind = f"{text(predictions.kind)} ({text(predictions.format)})"
        rows.append([name_cell[predictions.name], file_name, sample_count, kind, columns])
    head = ["model", "file", "samples", "read as", "columns"]
    return html_table(head, rows, "Where the numbers come from", number_columns=(2,))


def ranking(content: Content) -> str:
    """Make a section with the ranking of the models, or of the scores of one model.

    Empty if there is nothing to compare. `content` holds everything that the page shows.
    """
    comparison = content.comparison
    if comparison is None:
        return ""
    contestants = "scores of one model" if len(content.models) == 1 else "models"
    data = "on different test sets (Welch's test)"
    if comparison.paired:
        data = f"on the same {count_noun(comparison.n, 'sample')} (paired tests)"
    return f"""
<section id="ranking"><h2>Ranking</h2>
<p>The {contestants} compared by {text(comparison.label)} {data}, corrected after Holm at
{comparison.level:.0%}. Those that share a letter cannot be told apart with these data.</p>
<div class="card">{ranking_table(comparison)}<ul>{list_items(comparison.sentences())}</ul></div></section>
"""


def page(
    content: Content,
    *,
    title: str = "Selective prediction report",
    command: str = "",
    made: str = "",
    more: str = "",
) -> str:
    """Make the page of a report.

    Parameters
    ----------
    content : Content
        From `gather`.
    title : str
        The headline.
    command : str
        The command that makes the page again; omitted if empty.
    made : str
        The date; omitted if empty.
    more : str
        Additional sections, as HTML, after those by group (`CostRiskCurve.to_html` makes one).

    Returns
    -------
    str
        One HTML document with scripts, styles and data inside.

    Examples
    --------
    >>> import numpy as np
    >>> from abstain.formats import Predictions
    >>> from abstain.report import gather
    >>> predictions = Predictions(
    ...     "mine", "t.csv", "csv", 2, loss=np.array([0.0, 1.0]), confidence=np.array([0.9, 0.5])
    ... )
    >>> "<title>Mine</title>" in page(gather([predictions]), title="Mine")
    True
    """
    model_count = len(content.models)
    line_keys = [
        f'<svg class="key" data-k="{index}" width="26" height="10" aria-hidden="true"></svg>'
        for index in range(model_count)
    ]
    name_cell = model_cells(content)
    html_names = [name_cell[model.predictions.name].html for model in content.models]
    sections = {"ranking": ranking(content), "parts": parts(content), "clinical": clinical(content)}
    # a section that is empty has no link
    links = {section: link for section, link in _LINKS.items() if sections.get(section, True)}
    sentences = (*summary(content), *content.notes)
    fields = {  # the fields of `assets/page.html`
        **sections,
        "clinical": sections["clinical"] + more,
        "summary": "".join(f'<p class="lead">{text(sentence)}</p>' for sentence in sentences),
        "verdicts": verdicts(content),
        "crowd": " (for the selected model if there are many)" if model_count > 3 else "",
        "points": curves_table(content),
        "words": glossary(content),
        "picked": _model_menu(content, label="Select", element_id="picked"),
        "level": f"{content.level:.0%}",
        "chips": "".join(
            f'<button type="button" class="chip" data-model="{index}" aria-pressed="true">{key}{name}</button>'
            for index, (key, name) in enumerate(zip(line_keys, html_names))
        ),
        "choice": _model_menu(content, label="Model", element_id="model"),
        "jumps": "".join(
            f'<button type="button" data-jump="{coverage}">{coverage:.0%}</button>' for coverage in _JUMPS
        ),
        "scores": _scores_by_model(content, line_keys, html_names),
        "estimators": estimators_table(content),
        "ties": _ties_by_model(content, line_keys, html_names),
        "files": files_table(content),
        "replicates": content.replicates,
        "rng": content.rng,
        "again": f"<h3>Make this page again</h3><pre>{text(command)}</pre>" if command else "",
        "versions": ", ".join(
            f"{text(name)} {text(number)}" for name, number in versions(*_REPORTED_PACKAGES).items()
        ),
    }
    return framed(
        "page",
        title=title,
        subtitle=_subtitle(content),
        made=made,
        links=links,
        data=embedded(content),
        fields=fields,
    )


def _model_menu(content: Content, label: str, element_id: str) -> str:
    """A menu of the models; empty for a single model.

    `content` holds everything that the page shows.
    """
    if len(content.models) == 1:
        return ""
    short = short_names(model.predictions.name for model in content.models)
    options = "".join(
        f'<option value="{index}">{text(short[model.predictions.name])}</option>'
        for index, model in enumerate(content.models)
    )
    return f'<label>{label} <select data-choose id="{element_id}">{options}</select></label>'


def _scores_by_model(content: Content, line_keys: Sequence[str], html_names: Sequence[str]) -> str:
    """Make the tables of scores of each model, as HTML, folded by model if there are several.

    `line_keys` are images of the lines by which the figures draw the models, `html_names` the models' names as HTML,
    both in the order of `content.models`.
    """
    parts_by_model = []
    for index, model in enumerate(content.models):
        tables = "".join(scores_table(model, loss) for loss in model.evaluation.losses)
        model_part = tables + undefined_list(model)
        if len(content.models) > 1:
            open_attribute = " open" if index == 0 else ""
            heading = f"{line_keys[index]} {html_names[index]}"
            model_part = f"<details{open_attribute}><summary>{heading}</summary>{model_part}</details>"
        parts_by_model.append(model_part)
    return "".join(parts_by_model)


def _ties_by_model(content: Content, line_keys: Sequence[str], html_names: Sequence[str]) -> str:
    """Make sentences about ties, as HTML, with a heading for each model if there are several.

    `line_keys` are images of the lines by which the figures draw the models, `html_names` the models' names as HTML,
    both in the order of `content.models`.
    """
    parts_by_model = []
    for index, model in enumerate(content.models):
        model_part = "".join(f"<p>{with_code(sentence)}</p>" for sentence in about_ties(model))
        if len(content.models) > 1:
            model_part = f"<h3>{line_keys[index]} {html_names[index]}</h3>{model_part}"
        parts_by_model.append(f"<div>{model_part}</div>")
    return "".join(parts_by_model)


def framed(
    name: str,
    *,
    title: str,
    subtitle: str,
    made: str,
    links: Mapping[str, str],
    data: Any,
    fields: Mapping[str, Any],
) -> str:
    """Make a page: `assets/NAME.html` in the frame of all pages, with `assets/NAME.js` and its data.

    Parameters
    ----------
    name : str
        "page" or "board".
    title, subtitle : str
        Text for the head of the page.
    made : str
        The date; omitted if empty.
    links : mapping
        Titles of the links to sections, by the ids of the sections, in order; at least one.
    data
        What the script reads, as JSON.
    fields : mapping
        HTML for the fields of `assets/NAME.html`.
    """
    first_section = next(iter(links))
    return fill(
        "frame.html",
        policy=POLICY,
        version=__version__,
        title=text(title),
        subtitle=text(f"{subtitle}, made {made}" if made else subtitle),
        first=first_section,
        where=links[first_section].lower(),
        links="".join(f'<a href="#{section}">{link}</a>' for section, link in links.items()),
        body=fill(f"{name}.html", **fields),
        style=asset("page.css"),
        data=safe_json(data),
        script=asset("figures.js") + "\n" + asset(f"{name}.js"),
    )


def safe_json(data: Any) -> str:
    """Write JSON that cannot end the script element it is in, whatever text it holds.

    >>> safe_json({"name": "</script><script>"})
    '{"name": "\\\\u003c/script\\\\u003e\\\\u003cscript\\\\u003e"}'
    """
    json_text = json.dumps(_to_plain(data), allow_nan=False)
    for character in "<>&":
        json_text = json_text.replace(character, f"\\u{ord(character):04x}")
    return json_text


def _to_plain(data: Any) -> Any:
    """Convert data to what JSON can hold and a page may show: infinities become None, control characters escaped."""
    if isinstance(data, dict):
        return {_to_plain(key): _to_plain(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_to_plain(value) for value in data]
    if isinstance(data, str):
        return escape_controls(data, keep="\n")
    return None if isinstance(data, float) and not math.isfinite(data) else data


def fill(name: str, /, **fields: Any) -> str:
    """Fill in the fields of an asset."""
    return Template(asset(name)).substitute(fields)


def asset(name: str) -> str:
    """Read a file of `assets`."""
    return (resources.files("abstain.report") / "assets" / name).read_text(encoding="utf-8")


def save_page(content: Content, path: str | Path, **options: str) -> None:
    """Write the page to a file, completely or not at all.

    Parameters
    ----------
    content : Content
        From `gather`.
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
    >>> predictions = Predictions(
    ...     "mine", "t.csv", "csv", 2, loss=np.array([0.0, 1.0]), confidence=np.array([0.9, 0.5])
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_page(gather([predictions]), f"{folder}/report.html", title="Mine")
    """
    written = page(content, **options).encode("utf-8")
    with replacing(path) as stream:
        stream.write(written)


def _subtitle(content: Content) -> str:
    """Say how many models and samples there are, and which confidence and loss the first model shows."""
    models = count_noun(len(content.models), "model")
    sizes = sorted({model.predictions.n for model in content.models})
    samples = count_noun(sizes[-1], "sample")
    if len(sizes) > 1:
        samples = f"{sizes[0]:,} to {samples}"
    first = content.models[0]
    return f"{models}, {samples}, confidence by {first.score}, {loss_words(first.loss)}"
