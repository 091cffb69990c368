"""The page of a cascade: which model answers what, what that costs, what is promised, and how to use the rule."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from abstain._tables import format_number
from abstain.cascades import Cascade, CostRiskCurve
from abstain.cascades.inputs import PERSON
from abstain.formats import replacing
from abstain.report.certified import describe_help, risk_text
from abstain.report.markup import Cell, csv_number, framed, html_table, percent, text, with_code
from abstain.report.slider import round_six
from abstain.thresholds.rules import key_text

_LINKS = {
    "decision": "Decision",
    "costs": "Costs",
    "promise-section": "Promise",
    "use": "Use",
    "data-section": "Data",
}
_TABLE_ROWS = 9  # risks of the cost-risk curve in the table
_RATIO_FOR_LOG_SCALE = (
    30.0  # costs that differ by more are drawn on a log scale at first: about one and a half decades
)


def cascade_page(
    rule: Cascade,
    *,
    curve: CostRiskCurve | None = None,
    no_curve: str = "",
    title: str = "Cascade",
    command: str = "",
    made: str = "",
) -> str:
    """Make the page of a cascade.

    Parameters
    ----------
    rule : Cascade
        From `abstain.cascade`.
    curve : CostRiskCurve, optional
        From `abstain.cascades.cost_risk_curve` of the same stages: the picture of cost against risk.
    no_curve : str
        Why there is no curve; shown in its place.
    title, command, made : str
        The headline, the command that makes the page again, the date.

    Returns
    -------
    str
        One HTML document with scripts, styles and data inside. Its button saves the rule as `rule.save` does.

    Examples
    --------
    >>> import abstain
    >>> g = [i / 200 for i in range(200)]
    >>> rule = abstain.cascade({"only": ([x < 0.1 for x in g], g, 1.0)}, risk=0.2, person=(10.0, 0.0))
    >>> "<title>Mine</title>" in cascade_page(rule, title="Mine")
    True
    """
    parts = rule.record_parts("rule.json")
    fields = {  # the fields of `assets/cascade.html`
        "promise": text(describe_cascade(rule)),
        "facts": text(_describe_costs(rule)),
        "stages": _stages_table(rule),
        "curve_missing": f"<p>{text(no_curve)}</p>" if curve is None else "",
        "curve_hidden": " hidden" if curve is None else "",
        "curve_table": "" if curve is None else _curve_table(curve),
        "guarantee": _markdown_list(parts.promise),
        "assumptions": _markdown_list(parts.assumptions),
        "voids": _markdown_list(parts.voids),
        "decide": text(parts.decide),
        "check": text(parts.check),
        "data": _markdown_list(parts.data),
        "again": f"<h3>Make this page again</h3><pre>{text(command)}</pre>" if command else "",
    }
    count = "1 model" if len(rule.names) == 1 else f"{len(rule.names)} models"
    return framed(
        "cascade",
        title=title,
        subtitle=f"{count} and a person, {rule.n:,} labelled cases",
        made=made,
        links=_LINKS,
        data=_page_data(rule, curve),
        fields=fields,
    )


def save_cascade_page(rule: Cascade, path: str | Path, **options: Any) -> None:
    """Write the page of a cascade to a file, completely or not at all.

    Parameters
    ----------
    rule : Cascade
        From `abstain.cascade`.
    path : str or Path
        The HTML file.
    **options
        Those of `cascade_page`.

    Examples
    --------
    >>> import tempfile
    >>> import abstain
    >>> g = [i / 200 for i in range(200)]
    >>> rule = abstain.cascade({"only": ([x < 0.1 for x in g], g, 1.0)}, risk=0.2, person=(10.0, 0.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_cascade_page(rule, f"{folder}/cascade.html")
    """
    encoded_page = cascade_page(rule, **options).encode("utf-8")
    with replacing(path) as stream:
        stream.write(encoded_page)


def describe_cascade(rule: Cascade) -> str:
    """One sentence: for at most this risk, who is asked, at which cost, promised with which confidence."""
    limit = f"at most {risk_text(rule.target, rule.zero_one)} " + ("errors" if rule.zero_one else "mean loss")
    of_whom = " of the models" if rule.promise == "answered" else " of all answers"
    if not rule.feasible:
        return f"{limit[0].upper()}{limit[1:]}{of_whom} cannot be promised with these data."
    names = [*rule.stages_in_use, f"a {PERSON}"]
    order = f"ask {names[0]}" if len(names) > 1 else "leave everything to a person"
    order += "".join(f", then {name}" for name in names[1:])
    confidence = f"{100 * (1 - rule.delta):.4g}%"
    return f"For {limit}{of_whom}: {order}. The risk is promised with {confidence} confidence."


def _describe_costs(rule: Cascade) -> str:
    """What the rule costs and did on the calibration data; for a risk that cannot be promised, what would help.

    A rule sends each case through the models, and those that no model answers to a person. Costs are means per case, in
    `rule.unit` ("" if the user named none). A rule is feasible if its risk can be promised.
    """
    unit = f" {rule.unit}" if rule.unit else ""
    cost_of_person, _ = rule.person  # the other is the mean loss of a person's answers
    person_cost = f"A person alone would cost {format_number(cost_of_person)}{unit} a case."
    if not rule.feasible:
        if rule.advice is None:  # it is not known what would help
            return person_cost
        advice = describe_help(rule.advice, rule.n, rule.clusters, is_zero_one=rule.zero_one)
        return f"{advice} {person_cost}"
    low, high = rule.cost_interval  # always at level 0.95
    cost = f"A case costs {format_number(rule.cost)}{unit} on average"
    interval = f"95% interval {format_number(low)} to {format_number(high)}"
    # `risk` is None only where the rule is not feasible
    observed = risk_text(rule.risk or 0.0, rule.zero_one)
    outcome = f"{observed} of the answers are wrong" if rule.zero_one else f"the mean loss is {observed}"
    note = f" {rule.note}" if rule.note else ""  # such as why a single model is enough
    return f"{cost} ({interval}; no cost is promised). {person_cost} On these data {outcome}.{note}"


def _stages_table(rule: Cascade) -> str:
    """Make a table, as HTML, of who answers when, and which share of the cases: each model, then the person.

    `rule.shares` holds the share of the calibration cases that each answers, by name, 0 for one that is not in it. The
    rule may be one without a threshold, where the person answers everything.
    """
    # a cell is HTML; one with a number also has its value in the CSV file that the reader can save
    rows: list[list[str | Cell]] = []
    for name in rule.names:
        share = rule.shares.get(name, 0.0)
        share_cell = Cell(percent(share), csv=(csv_number(share),))
        # such as "where max_softmax is at least 0.9", or "never asked" for a model that is not in the cascade
        rows.append([text(name), text(_describe_stage(rule, name)), share_cell])
    share = rule.shares.get(PERSON, 0.0)
    cost_of_person, _ = rule.person  # the other is the mean loss of a person's answers
    cost = f"what no model answers, at {format_number(cost_of_person)} {rule.unit}".strip()
    rows.append([PERSON, text(cost), Cell(percent(share), csv=(csv_number(share),))])
    head = ["who", "answers", "share"]
    return html_table(head, rows, "In the order in which they are asked", number_columns=(2,))


def _describe_stage(rule: Cascade, name: str) -> str:
    """When a model answers, in words and the numbers that people know."""
    threshold = (rule.thresholds or {}).get(name, math.inf)
    if threshold == math.inf:
        return "never asked"
    if threshold == -math.inf:
        return "whatever reaches it"
    cut = rule.cuts[name]
    score = None if cut.source == "plain" else cut.score
    return f"where {cut.score or 'its confidence'} is at least {key_text(score, threshold)}"


def _curve_table(curve: CostRiskCurve) -> str:
    """Make a table, as HTML, of the cost at some risks: of the cascade with its limits, and of each model alone.

    `curve.target` holds the risks, `curve.cost` the least cost of the cascade for each of them with its limits, and
    `curve.alone` for each model the same of that model with a person. All are arrays with one entry for each risk, by
    rising risk; costs are means per case.
    """
    rows: list[list[str | Cell]] = []
    # points of the curve that are evenly spread, each once: there may be fewer points than rows
    for index in np.unique(np.linspace(0, len(curve.target) - 1, _TABLE_ROWS).astype(np.int64)):
        risk = float(curve.target[index])
        cost = float(curve.cost[index])
        limits = (float(curve.cost_low[index]), float(curve.cost_high[index]))
        shown_limits = (
            f'<br><span class="span">{format_number(limits[0])} to {format_number(limits[1])}</span>'
        )
        row: list[str | Cell] = [
            Cell(f"{risk:.3g}", csv=(csv_number(risk),)),
            Cell(format_number(cost) + shown_limits, csv=(csv_number(cost), *map(csv_number, limits))),
        ]
        costs_alone = [float(cost_of_stage[index]) for cost_of_stage in curve.alone.values()]
        # the columns of the models are in the order of `head` below
        row += [Cell(format_number(cost), csv=(csv_number(cost),)) for cost in costs_alone]
        rows.append(row)
    head = ["risk", "cascade", *(f"{text(name)} alone" for name in curve.alone)]
    caption = f"Least cost of a case for each risk, with {curve.level:.0%} intervals"
    return html_table(head, rows, caption, number_columns=range(len(head)))


def _markdown_list(lines: list[str]) -> str:
    """Turn the lines of a decision record into HTML: items of a list where they start with a dash, otherwise a text.

    A line that is indented continues the item before it. The list comes after all other lines. `with_code` escapes
    HTML, and makes code of what stands between backquotes.
    """
    items: list[str] = []
    paragraphs = ""
    for line in lines:
        if line.startswith("- "):
            items.append(line[2:])
        elif line.startswith("  ") and items:
            items[-1] += " " + line.strip()
        else:
            paragraphs += f"<p>{with_code(line)}</p>"
    listed = "".join(f"<li>{with_code(item)}</li>" for item in items)
    return paragraphs + (f"<ul>{listed}</ul>" if listed else "")


def _page_data(rule: Cascade, curve: CostRiskCurve | None) -> dict[str, Any]:
    """Return what `assets/cascade.js` reads: the rule as JSON text, and the lines of the picture.

    The picture shows cost against risk. `curve.target` holds the risks, and `curve.cost` the least cost of the cascade
    for each of them. `curve.alone` holds for each model the same of that model with a person; where no threshold keeps
    the risk, the person answers everything. `curve.everything` holds one point for each model, its risk and cost if it
    answers everything. "chosen" is the risk and the cost of the rule, and "alone" has one line for each model. Without
    a curve the page has no picture.
    """
    data: dict[str, Any] = {
        "rule": rule.to_json() if rule.feasible else None,
        "zero_one": rule.zero_one,
        "unit": rule.unit,
        "chosen": [rule.target, rule.cost] if rule.feasible else None,
        "curve": None,
    }
    if curve is None:
        return data
    # two vectors, with one entry per model
    risk_of_everything, cost_of_everything = np.asarray(list(curve.everything.values())).T
    by_risk = np.argsort(risk_of_everything)  # indices of the models, the smallest risk first
    costs = np.concatenate([curve.cost, *curve.alone.values(), cost_of_everything])
    positive = costs[costs > 0]
    # a log scale where the largest cost is that many times the smallest one above 0
    data["log"] = bool(len(positive) and positive.max() > _RATIO_FOR_LOG_SCALE * positive.min())
    data["curve"] = {
        "level": f"{curve.level:.0%}",
        "risk": round_six(curve.target),
        "cost": round_six(curve.cost),
        "low": round_six(curve.cost_low),
        "high": round_six(curve.cost_high),
        "alone": [{"name": name, "cost": round_six(cost)} for name, cost in curve.alone.items()],
        # Each model answers everything: tossing a coin between two of them gives the line between their points. The
        # page joins each model with the next by risk, also one that is worse than a coin between two others.
        "coin": {
            "risk": round_six(risk_of_everything[by_risk]),
            "cost": round_six(cost_of_everything[by_risk]),
        },
    }
    return data
