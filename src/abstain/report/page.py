"""Self-contained HTML pages and the report.

All pages share `assets/frame.html`. They work offline, by keyboard and in print, in a light and a dark theme. All text
from the user is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from abstain._tables import count_noun, count_samples, in_clusters
from abstain.evaluation import Comparison
from abstain.evaluation.chance import chance_warnings
from abstain.formats import replacing
from abstain.losses import loss_words
from abstain.metrics.definitions import by_name
from abstain.report.certified import border_text, count_ranked_last
from abstain.report.content import (
    ESTIMATORS,
    Content,
    ModelContent,
    risk_where,
    versions,
)
from abstain.report.decision import (
    decision_card,
    format_risk,
    is_before_and_after,
    model_menu,
    summary,
    verdicts,
)
from abstain.report.markup import (
    Cell,
    csv_number,
    estimate_cell,
    estimate_decimals,
    fill,
    framed,
    html_table,
    list_items,
    name_cells,
    percent,
    text,
    with_code,
    with_limits,
)
from abstain.report.page_data import embedded

_LINKS = {
    "decision": "Findings",
    "curves": "Curves",
    "line": "Any threshold",
    "parts": "Groups",
    "clinical": "Clinical",
    "scores": "Scores",
    "ranking": "Ranking",
    "reliability": "Reliability",
    "ties": "Ties",
    "method": "Method",
}
_REPORTED_PACKAGES = ("numpy", "scipy", "pyarrow", "torch")
_TABLE_COVERAGES = tuple(k / 10 for k in range(1, 11))  # columns of the curves' table
_JUMPS = (0.5, 0.7, 0.8, 0.9, 0.95, 1)  # coverages to which the slider has a button


def about_ties(model: ModelContent) -> list[str]:
    """Return sentences, at least one, about what equal confidences mean for this model, and notes of its evaluation.

    Notes that the page shows elsewhere are left out. `model` holds everything that the page shows of one model.
    Sentences are plain text. `curve.n` counts the samples, and `curve.count` those that each threshold accepts.
    """
    curve = model.curve  # its points are thresholds, the strictest first
    last_count = count_ranked_last(
        model.predictions, curve
    )  # samples without a confidence of their own, or 0
    distinct_count = len(curve.threshold) - (last_count > 0)
    top_count = int(curve.count[0])  # samples that share the highest confidence
    sharing_count = curve.n - last_count
    sentences = [
        f"{sharing_count:,} samples share {count_noun(distinct_count, 'different confidence')} ({model.score})."
    ]
    if last_count:
        verb = "ranks" if last_count == 1 else "rank"
        sentences.append(f"{count_noun(last_count, 'sample')} without a confidence {verb} below all of them.")
    if distinct_count == curve.n:
        sentences = [
            f"All {curve.n:,} samples have different confidences ({model.score}): there are no ties."
        ]
    if top_count > 1:
        # The first point of the curve is the strictest threshold; its confidence is that of the samples at the top. The
        # text is a number such as "0.83".
        top = border_text(model.predictions, model.score, curve, 0)
        sentences.append(
            f"{top_count:,} of them ({percent(top_count / curve.n)}) tie at the very top, "
            f"{top}. No threshold can separate them, so coverage starts at "
            f"{percent(float(curve.coverage[0]))}, and the risk there, {format_risk(model, curve.risk[0])}, is that "
            f"of the smallest set that can be accepted. A program that sorts and cumulates would give a number that "
            f"depends on the order of the rows."
        )
    # rankings that are worse than chance: these notes are at the top of the page
    shown_above = chance_warnings(model.evaluation.notes)
    for note in model.evaluation.notes:
        says_ties_at_top = "tie at the top of" in note  # the sentence above says it with more numbers
        if not says_ties_at_top and note not in shown_above:
            sentences.append(note)
    return sentences


def scores_table(model: ModelContent, loss: str) -> str:
    """Make a table, as HTML, with a row for each metric and a column for each score, of the loss of this name.

    The score that paired tests find better than all others is bold. `model` holds everything that the page shows of one
    model; its `best` maps (loss, metric) to that score. A metric that is undefined for every score has no row.
    """
    evaluation = model.evaluation
    rows: list[list[str | Cell]] = []
    for entries in evaluation.rows(loss):  # a row is of one metric, with an entry for each score
        direction = "lower" if entries[0].lower_is_better else "higher"
        title = f'{text(entries[0].label)}<br><span class="span">{direction} is better</span>'
        best = model.best.get((loss, entries[0].metric))  # None if no score is better than all others
        places = estimate_decimals(entries)  # by which the median estimate of the row shows three digits
        cells = [estimate_cell(entry, places, best=entry.score == best) for entry in entries]
        # in the CSV file that the reader can save, the title of a row is the label alone
        rows.append([Cell(title, csv=(entries[0].label,)), *cells])
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
    """What the metrics on the page are: a list that can be folded."""
    names = dict.fromkeys(name for model in content.models for name in model.evaluation.metrics)
    entries = ""
    for name in names:
        metric = by_name(name)
        entries += f"<li>{text(metric.full_label)}: {text(metric.summary)}.</li>"
    return f"<details open><summary>What these numbers are</summary><ul class='soft'>{entries}</ul></details>"


def curves_table(content: Content) -> str:
    """Make a table, as HTML, of the selective risk at every tenth of coverage: the text alternative of the curves.

    A dash means that no threshold has this coverage, because of abstentions. `content` holds everything that the page
    shows. Coverage is the share of all samples that are answered; the risk is an error rate where `zero_one` is True,
    otherwise a mean loss.
    """
    name_cell = model_cells(content)
    rows: list[list[str | Cell]] = []
    for model in content.models:
        cells: list[str | Cell] = [name_cell[model.predictions.name]]
        for coverage in _TABLE_COVERAGES:
            # at the strictest threshold that accepts at least this share; None if there is none
            risk = risk_where(model.curve, coverage)
            if risk is None:
                shown_risk = "–"
            elif model.zero_one:
                shown_risk = percent(risk, 2)
            else:
                shown_risk = f"{risk:.3g}"
            cells.append(Cell(shown_risk, csv=(csv_number(risk),)))
        rows.append(cells)
    head = ["model", *(f"{coverage:.0%}" for coverage in _TABLE_COVERAGES)]
    caption = "Selective risk when at least this share is answered"
    return html_table(head, rows, caption, number_columns=range(1, len(head)))


def groups_section(content: Content) -> str:
    """Make a section with tables of accepted samples by group and class, which the script fills as the slider moves.

    Empty if no model has groups or classes. `content` holds everything that the page shows. The section has as many
    tables as the model with the most of them; the script hides those that the selected model does not have.
    """
    # `parts` are the tables of one model: by group, by true class, by both or neither
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
<div class="cards">{cards}</div></section>"""


def clinical(content: Content) -> str:
    """Make a section with sensitivity, specificity and predictive values of models of two classes.

    Empty if there is no such model. `content` holds everything that the page shows. `model.clinical` is a table with a
    row for each share of the answered samples, None for a model of other than two classes.
    """
    cards = ""
    for model in content.models:
        if model.clinical is not None:
            grid = model.clinical.grid()  # cells of text by column, such as "0.5 [0.4, 0.6]"
            name = model_cells(content)[model.predictions.name].html
            caption = f"{name}, positive: {text(model.clinical.positive)}, {content.level:.0%} intervals"
            # `with_limits` puts the limits of a cell on a second line
            rows = [[with_limits(cell) for cell in row] for row in zip(*grid.values())]
            table = html_table(list(grid), rows, caption, number_columns=range(len(grid)))
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
    everything that the page shows. `ESTIMATORS` maps the names of all estimators to what they are, in plain text.
    """
    # `model.estimators` holds pairs: the name of an estimator, and the interval of AURC by it
    names = [name for name in ESTIMATORS if any(name in dict(model.estimators) for model in content.models)]
    intervals = [interval for model in content.models for _, interval in model.estimators]
    places = estimate_decimals(intervals)
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
    """Make a table of the ranking, as HTML, best first; models that share a letter cannot be told apart.

    A contestant is a model, or a score of a single model. `rank_low` and `rank_high` are the ranks that it may have.
    Cells are HTML: `text` escapes what may need it, and `name_cells` has done so. The estimates are aligned as numbers.
    """
    name_cell = name_cells(comparison.names)
    places = estimate_decimals(comparison.contestants)
    rows: list[list[str | Cell]] = []
    for contestant in comparison.contestants:
        rank = str(contestant.rank_low)
        if contestant.rank_low != contestant.rank_high:
            rank = f"{contestant.rank_low} to {contestant.rank_high}"
        estimate = estimate_cell(contestant, places)
        letters = contestant.group  # such as "ab": those that share one cannot be told apart
        rows.append([rank, name_cell[contestant.name], estimate, text(letters)])
    head = ["rank", "name", text(comparison.label), "letters"]
    return html_table(head, rows, "Ranking, best first", number_columns=(2,))


def files_table(content: Content) -> str:
    """Make a table of the files, as HTML: format, samples, and which column was read as what.

    `content` holds everything that the page shows. `column_of_role` maps what a column was read as ("confidence") to
    its name. `in_clusters` returns words on the number of clusters, "" without.
    """
    name_cell = model_cells(content)
    rows: list[list[str | Cell]] = []
    previous: tuple[str, dict[str, str]] | None = None  # file and columns of the row above
    for model in content.models:
        predictions = model.predictions
        roles = "; ".join(
            f"{text(role)}: <code>{text(column)}</code>"
            for role, column in predictions.column_of_role.items()
        )
        columns = f'<span class="roles">{roles}</span>'
        if previous == (predictions.path, predictions.column_of_role):  # several confidences of one file
            columns = "as above"
        previous = (predictions.path, predictions.column_of_role)
        file_name = f"<code>{text(Path(predictions.path).name)}</code>"
        shown_count = f"{predictions.n:,}{in_clusters(model.evaluation.clusters)}"
        sample_count = Cell(shown_count, csv=(str(predictions.n),))
        kind = f"{text(predictions.kind)} ({text(predictions.format)})"
        rows.append([name_cell[predictions.name], file_name, sample_count, kind, columns])
    head = ["model", "file", "samples", "read as", "columns"]
    return html_table(head, rows, "Where the numbers come from", number_columns=(2,))


def ranking(content: Content) -> str:
    """Make a section with the ranking of the models, or of the scores of one model.

    Empty if there is nothing to compare. `content` holds everything that the page shows. The remarks are sentences on
    pairs that cannot be told apart, and notes of the comparison; `list_items` escapes them.
    """
    comparison = content.comparison
    if comparison is None:
        return ""
    contestants = "scores of one model" if len(content.models) == 1 else "models"
    data = "on different test sets (Welch's test)"
    if comparison.paired:
        data = f"on the same {count_samples(comparison.n, comparison.clusters)} (paired tests)"
    shown_above = chance_warnings(comparison.notes)  # these are at the top of the page
    remarks = [*comparison.sentences(), *(note for note in comparison.notes if note not in shown_above)]
    return f"""
<section id="ranking"><h2>Ranking</h2>
<p>The {contestants} compared by {text(comparison.label)} {data}, corrected after Holm at
{comparison.level:.0%}. Those that share a letter cannot be told apart with these data.</p>
<div class="card">{ranking_table(comparison)}<ul>{list_items(remarks)}</ul></div></section>
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
    sections = {
        "ranking": ranking(content),
        "parts": groups_section(content),
        "clinical": clinical(content),
        "reliability": reliability(content),
    }
    # a section that is empty has no link
    links = {section: link for section, link in _LINKS.items() if sections.get(section, True)}
    lead, *numbers = summary(content)
    fields = {  # the fields of `assets/page.html`
        **sections,
        "clinical": sections["clinical"] + more,
        "summary": f'<p class="lead">{text(lead)}</p>' + "".join(f"<p>{text(line)}</p>" for line in numbers),
        "decision": decision_card(content),
        "notes": _notes(content),
        "dependence": _dependence(content),
        "verdicts": verdicts(content),
        "crowd": " (for the selected model if there are many)" if model_count > 3 else "",
        "points": curves_table(content),
        "observed": _observed(content),
        "level": f"{content.level:.0%}",
        "chips": "".join(
            f'<button type="button" class="chip" data-model="{index}" aria-pressed="true">{key}{name}</button>'
            for index, (key, name) in enumerate(zip(line_keys, html_names))
        ),
        "choice": model_menu(content, label="Model", element_id="model"),
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
        data=embedded(content, command),
        fields=fields,
    )


def _observed(content: Content) -> str:
    """A sentence on why coverage at a risk is larger than the coverage that is promised; empty without that metric."""
    metrics = {name for model in content.models for name in model.evaluation.metrics}
    if not any(name.startswith("coverage_at_risk") for name in metrics):
        return ""
    return (
        " Coverage at a risk is what these samples would have allowed; the promise above is smaller, since it holds "
        "for new ones."
    )


def _dependence(content: Content) -> str:
    """Words after what limits are said to be: how they count clusters; empty without clusters."""
    if any(model.evaluation.clusters for model in content.models):
        return ", with each cluster as one independent draw"
    return ""


def _notes(content: Content) -> str:
    """How the files were read and what to beware of, as a list; empty if there is nothing to say."""
    if not content.notes:
        return ""
    heading = "<h2>Before and after</h2>" if is_before_and_after(content) else ""
    return f'{heading}<ul class="notes">{list_items(content.notes)}</ul>'


def reliability(content: Content) -> str:
    """Make a section with the reliability diagram of each model whose confidence may be read as a probability.

    Empty if there is no such model. The script draws the diagram of the selected model. `model.reliability` is a curve
    of accuracy by bins of confidence, None for other models; `curve.count` has the number of answers in each bin.
    """
    curves = {
        model.predictions.name: model.reliability for model in content.models if model.reliability is not None
    }
    if not curves:
        return ""
    name_cell = model_cells(content)
    rows: list[list[str | Cell]] = []
    for name, curve in curves.items():
        bin_count = len(curve.count)
        outside_count = len(curve.outside)  # bins whose limits exclude the confidence
        verdict = "none" if not outside_count else f"{outside_count} of {bin_count}"
        # in the CSV file that the reader can save, the last column is the number alone
        rows.append([name_cell[name], str(bin_count), Cell(verdict, csv=(str(outside_count),))])
    head = ["model", "bins", "bins off the diagonal"]
    caption = f"Bins whose {content.level:.0%} limits exclude the confidence"
    table = html_table(head, rows, caption, number_columns=(1, 2))
    return f"""
<section id="reliability"><h2>Is a confidence of 80% right in 80% of the cases?</h2>
<p>Points on the diagonal mean that a confidence can be read as a probability of being right. That matters where the
number itself is used; it does not matter for ranking answers or for the thresholds above, which only need the order.
The limits hold for all bins at once, with probability {content.level:.0%}.</p>
<div class="card tables"><div class="narrow needs-script">
<div class="chart"><svg id="reliability-chart" data-figure data-paper="400"></svg></div>
<p class="soft" id="reliability-told"></p></div><div>{table}</div></div></section>
"""


def _scores_by_model(content: Content, line_keys: Sequence[str], html_names: Sequence[str]) -> str:
    """Make the tables of scores of each model, as HTML, folded by model if there are several.

    `line_keys` are images of the lines by which the figures draw the models, `html_names` the models' names as HTML,
    both in the order of `content.models`. The first model is unfolded.
    """
    parts_by_model = []
    for index, model in enumerate(content.models):
        tables = "".join(f"<div>{scores_table(model, loss)}</div>" for loss in model.evaluation.losses)
        # what the metrics mean is said once, to the right of the first model
        glossary_part = f'<div class="narrow">{glossary(content)}</div>' if index == 0 else ""
        # then the metrics that are undefined, with the reasons
        model_part = f'<div class="tables">{tables}{glossary_part}</div>{undefined_list(model)}'
        if len(content.models) > 1:
            open_attribute = " open" if index == 0 else ""
            heading = f"{line_keys[index]} {html_names[index]}"
            model_part = f"<details{open_attribute}><summary>{heading}</summary>{model_part}</details>"
        parts_by_model.append(f'<div class="card">{model_part}</div>')
    return "".join(parts_by_model)


def _ties_by_model(content: Content, line_keys: Sequence[str], html_names: Sequence[str]) -> str:
    """Make sentences about ties, as HTML, with a heading for each model if there are several.

    `line_keys` are images of the lines by which the figures draw the models, `html_names` the models' names as HTML,
    both in the order of `content.models`. Sentences are plain text: `with_code` escapes HTML, and makes <code> of what
    stands between backquotes. There is at least one sentence about each model.
    """
    parts_by_model = []
    for index, model in enumerate(content.models):
        model_part = "".join(f"<p>{with_code(sentence)}</p>" for sentence in about_ties(model))
        if len(content.models) > 1:
            model_part = f"<h3>{line_keys[index]} {html_names[index]}</h3>{model_part}"
        # a block for each model
        parts_by_model.append(f"<div>{model_part}</div>")
    return "".join(parts_by_model)


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
    encoded_page = page(content, **options).encode("utf-8")
    with replacing(path) as stream:
        stream.write(encoded_page)


def _subtitle(content: Content) -> str:
    """Say how many models and samples there are, and which confidence and loss the first model shows.

    `model.evaluation.clusters` holds the number of clusters, one for each kind of clusters and none without; it is said
    where it is the same for all models. A learned confidence next to those of the same file is one model. `first.score`
    is "confidence" for a column without a name of its own, which goes without saying. Plain text.
    """
    models = count_noun(len(content.models), "model")
    if is_before_and_after(content):
        models = f"1 model with {count_noun(len(content.models), 'confidence')}"
    sizes = sorted({model.predictions.n for model in content.models})
    samples = count_noun(sizes[-1], "sample")
    if len(sizes) > 1:
        samples = f"{sizes[0]:,} to {samples}"
    first = content.models[0]
    if all(model.evaluation.clusters == first.evaluation.clusters for model in content.models):
        samples += in_clusters(first.evaluation.clusters)
    confidence = "" if first.score == "confidence" else f"confidence by {first.score}, "
    return f"{models}, {samples}, {confidence}{loss_words(first.loss)}"
