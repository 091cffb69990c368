"""The first screen of a report: the verdict, the risk to choose with its promise, and which models differ."""

from __future__ import annotations

from typing import Any

from abstain._tables import format_fixed
from abstain.evaluation import Comparison
from abstain.report.certified import (
    describe_promise,
    describe_rule,
    risk_text,
    rule_border,
    share_text,
)
from abstain.report.content import Content, ModelContent, short_names
from abstain.report.markup import (
    Cell,
    csv_number,
    decimals,
    fill,
    html_table,
    name_cells,
    percent,
    text,
    with_code,
)

_MAX_RIVALS = 2  # models that the verdict names; more are counted


def summary(content: Content) -> list[str]:
    """Return the findings as a few sentences of plain text: the verdict first, then the numbers behind it.

    `content` has at least one model; with several it has a comparison. AURC is the area under the risk-coverage curve.
    The ranking may be by another metric.
    """
    if len(content.models) == 1:
        model = content.models[0]
        only_loss = model.evaluation.losses[0]  # a page has one loss
        entry = model.evaluation[model.score, only_loss, "aurc"]
        limits = "" if entry.low is None else f", {_describe_interval(entry, content.level)}"
        risks = _compare_risk_of_all_and_of_top_80_percent(model, subject=model.predictions.name)
        return [risks, f"AURC {entry.estimate:.3g}{limits}; lower is better."]
    comparison = content.comparison
    assert comparison is not None
    best_model = _best_model(content)  # the first of the ranking
    direction = "lower" if comparison.lower_is_better else "higher"
    # before and after: a learned confidence next to the confidences of the same file, so of one model
    noun = "confidences" if is_before_and_after(content) else "models"
    verdict = _describe_verdict(comparison, noun)  # which one leads, and which ones may be as good
    if content.by_risk is not None:  # the models compared by their risk when everything is answered
        # a sentence if another model has a smaller risk, else ""
        verdict += _describe_other_leader(content.by_risk, best_model)
    risks = _compare_risk_of_all_and_of_top_80_percent(best_model, subject="It")
    return [verdict, f"{_describe_best_value(comparison)}; {direction} is better. {risks}"]


def is_before_and_after(content: Content) -> bool:
    """True if the page shows a learned confidence next to the confidences of the same file."""
    first = content.models[0].predictions
    paths_of_later_models = [model.predictions.path for model in content.models[1:]]
    return first.learned is not None and set(paths_of_later_models) == {first.path}


def _best_model(content: Content) -> ModelContent:
    """The model that ranks first; the only one if there is no ranking of models."""
    if content.comparison is None or len(content.models) == 1:
        return content.models[0]
    best = content.comparison.names[0]
    return next(model for model in content.models if model.predictions.name == best)


def _describe_verdict(comparison: Comparison, noun: str) -> str:
    """Which model leads, and which others might be as good, in one sentence.

    `noun` is what the contestants are called: "models", or "confidences" if all are of one model. Of many others only
    the number is told (`_MAX_RIVALS`).
    """
    best = comparison.names[0]  # the names come best first
    rivals = [name for name in comparison.winners if name != best]  # winners: all that may be the best
    count = len(comparison.names)
    if not rivals:
        return f"{best} is the best of {count} {noun}, as far as the tests can tell."
    if len(rivals) > _MAX_RIVALS:
        named = f"{len(rivals)} others"
    else:
        named = " and ".join(rivals)
    return f"{best} ranks first of {count} {noun}, but these data cannot tell it apart from {named}."


def _describe_other_leader(by_risk: Comparison, best_model: ModelContent) -> str:
    """A sentence for the verdict if another model has a smaller risk, when everything is answered, than the first one.

    `best_model` is the first one: it ranks first by the area. Empty if it also has the smallest risk. `by_risk` ranks
    the same models by their risk: the mean loss, or the error rate for 0/1 losses. Every estimate in it is a number.
    The sentence begins with a blank, to follow another.
    """
    first = by_risk[best_model.predictions.name]
    leader = by_risk.contestants[0]  # the smallest risk: contestants are best first
    if leader.estimate >= first.estimate:
        return ""
    noun = "makes fewer errors" if best_model.zero_one else "has a smaller mean loss"
    # `different`: a test tells the two apart
    certainty = "" if by_risk.pair(leader.name, first.name).different else ", which may be chance"
    return (
        f" If everything is answered, {leader.name} {noun}: {format_risk(best_model, leader.estimate)} against "
        f"{format_risk(best_model, first.estimate)}{certainty}."
    )


def describe_first_place(comparison: Comparison) -> str:
    """Which model leads the ranking, and its number with its interval; without a full stop."""
    return f"{comparison.names[0]} ranks first with {_describe_best_value(comparison)}"


def _describe_best_value(comparison: Comparison) -> str:
    """The metric of the model that leads the ranking, with its interval."""
    best = comparison.contestants[0]
    limits = "" if best.low is None else f" ({_describe_interval(best, comparison.level)})"
    return f"{comparison.label} {best.estimate:.3g}{limits}"


def _describe_interval(interval: Any, level: float) -> str:
    return f"{level:.0%} interval {interval.low:.3g} to {interval.high:.3g}"


def _compare_risk_of_all_and_of_top_80_percent(model: ModelContent, subject: str) -> str:
    """Make a sentence with the risk of all answers and that of about the most confident 80% of them.

    `model` holds everything that the page shows of one model; `subject` is its name, or "It". Risk is the error rate,
    or the mean loss where losses are no errors (`zero_one` is False). Coverage is the share of all samples answered.
    """
    curve = model.curve  # its points are thresholds, the strictest first; the last accepts every answer
    target = 0.8 * curve.coverage[-1]  # of what can be answered, which is less than 1 with abstentions
    # the point of the curve whose coverage is nearest
    index = int(min(range(len(curve.coverage)), key=lambda i: abs(curve.coverage[i] - target)))
    full_risk = format_risk(model, curve.risk[-1])
    reduced_risk = format_risk(model, curve.risk[index])
    share = percent(float(curve.coverage[index]), 0)  # in whole percent
    if not model.zero_one:
        return (
            f"{subject} has a mean loss of {full_risk} if it answers everything, and of {reduced_risk} if it answers "
            f"the most confident {share}."
        )
    return (
        f"{subject} is wrong in {full_risk} of the cases if it answers everything, and in {reduced_risk} if it "
        f"answers the most confident {share}."
    )


def format_risk(model: ModelContent, risk: float) -> str:
    """A risk of this model: in percent for errors, as a number for any other loss."""
    return percent(float(risk)) if model.zero_one else f"{risk:.4g}"


def decision_card(content: Content) -> str:
    """Make the card in which the reader chooses a risk: the promise, a slider, the rule to save, a table of all risks.

    It shows the best model first; the script changes it. If nothing can be promised, it says why and what would help.
    `content` holds everything that the page shows. The arguments of `fill` are the fields of `assets/decision.html`,
    as HTML: `text` and `with_code` escape plain text. A rule is a threshold with a promise for one risk.
    """
    best = _best_model(content)
    rules = best.certified.rules  # one for each risk that may be asked for; there may be none
    start = best.certified.start  # index of the rule that the page shows first, 0 without rules
    promise = f"No threshold with a promise for {best.predictions.name}."
    facts = best.certified.reason  # why there is no rule; empty if there is one
    asked_risk = ""
    guarantee = ""
    if rules:
        rule = rules[start]
        # a sentence; a model may have answered only `answered_share` of all samples, and `rule.coverage` is of these
        promise = describe_promise(rule, best.certified.answered_share, is_zero_one=best.zero_one)
        facts = describe_rule(rule, best.predictions, best.score, best.curve, is_zero_one=best.zero_one)
        asked_risk = risk_text(rule.target, best.zero_one)
        guarantee = rule.guarantee or ""
    return fill(
        "decision.html",
        promise=text(promise),
        picked=model_menu(content, label="Model", element_id="picked"),
        asked_label="Accept at most this share of errors:"
        if best.zero_one
        else "Accept at most this mean loss:",
        risk=asked_risk,
        last=max(0, len(rules) - 1),
        start=start,
        more_hidden="" if rules else " hidden",
        facts=with_code(facts),
        guarantee=text(guarantee),
        steps="".join(_steps_table(model, is_shown=model is best) for model in content.models),
    )


def _steps_table(model: ModelContent, is_shown: bool) -> str:
    """Make a table, as HTML, of the risks that may be asked of one model, each with what it would answer.

    This is what is printed in place of the slider. `is_shown` is False for models that the reader has not selected.
    `model` holds everything that the page shows of one model. A rule is a threshold for one risk, `rule.target`; it is
    feasible if that risk can be promised. Without rules the table is left out.
    """
    # A cell is HTML for the page and, in `csv`, its value in the CSV file that the reader can save. `text` escapes
    # HTML; `risk_text` and `share_text` return numbers, which need no escape.
    rows: list[list[str | Cell]] = []
    for rule in model.certified.rules:
        risk_limit = Cell(risk_text(rule.target, model.zero_one), csv=(csv_number(rule.target),))
        if not rule.feasible:
            rows.append(
                [risk_limit, Cell("not possible", csv=("",)), Cell("–", csv=("",)), Cell("–", csv=("",))]
            )
            continue
        # the coverage of a rule is a share of the cases that the model answered at all
        share_of_all_cases = rule.coverage * model.certified.answered_share
        threshold = Cell("none needed", csv=("",))  # for a rule that accepts everything
        if rule.coverage < 1:
            # a plain value of the score, such as "0.83" or "above 0.8"
            shown_threshold = rule_border(rule, model.predictions, model.score, model.curve)
            # the CSV file has the number by which the rule decides, which may be a rank key of the score
            threshold = Cell(text(shown_threshold), csv=(csv_number(rule.value),))
        rows.append(
            [
                risk_limit,
                Cell(share_text(share_of_all_cases), csv=(csv_number(share_of_all_cases),)),
                Cell(risk_text(rule.risk or 0.0, model.zero_one), csv=(csv_number(rule.risk),)),
                threshold,
            ]
        )
    noun = "errors" if model.zero_one else "mean loss"
    head = [f"{noun} at most", "cases answered", f"{noun} here", "threshold"]
    # the allowed probability of a broken promise, the same for all rules
    delta = model.certified.rules[0].delta if rows else 0.0
    caption = f"{text(model.predictions.name)}: what can be promised with {100 * (1 - delta):.4g}% confidence"
    table = html_table(head, rows, caption, number_columns=(0, 1, 2, 3)) if rows else ""
    hidden = "" if is_shown else " hidden"
    return f'<div class="model-steps"{hidden}>{table}</div>'


def model_menu(content: Content, label: str, element_id: str) -> str:
    """A menu of the models, as HTML; empty for a single model.

    `content` holds everything that the page shows. The value of an option is the index of the model in
    `content.models`, and the page's script finds the menu by `data-choose`. `label` and `element_id` must be HTML
    already.
    """
    if len(content.models) == 1:
        return ""
    short = short_names(model.predictions.name for model in content.models)
    options = "".join(
        f'<option value="{index}">{text(short[model.predictions.name])}</option>'
        for index, model in enumerate(content.models)
    )
    return f'<label>{label} <select data-choose id="{element_id}">{options}</select></label>'


def verdicts(content: Content) -> str:
    """Make a table, as HTML, of the first model of the ranking against each other one.

    Its columns are the difference, its interval, p, and what they mean in words. Empty for a single model, whose scores
    `content.comparison` compares. `content` holds everything that the page shows.
    """
    comparison = content.comparison
    if comparison is None or len(content.models) < 2:
        return ""
    first = comparison.names[0]
    name_cell = name_cells(comparison.names)  # by name: a cell with the name, shortened on the page
    # of each pair, `a` is the model called `name`, and the difference is its metric minus that of the first model
    pairs = [comparison.pair(name, first) for name in comparison.names[1:]]
    printed_numbers = []
    for pair in pairs:  # all numbers of the table have the same decimals
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
                f'<span class="said">{text(_describe_pair(pair, first))}</span>',
                Cell(difference, csv=(csv_number(pair.difference),)),
                Cell(f"{low} to {high}", csv=(csv_number(pair.low), csv_number(pair.high))),
                Cell(text(p_value), csv=(csv_number(pair.p_adjusted),)),
            ]
        )
    pair_count = len(comparison.pairs)
    correction = f"; interval and p corrected for all {pair_count} pairs" if pair_count > 1 else ""
    caption = f"{text(comparison.label)} minus that of {name_cell[first].html}{correction}"
    head = ["model", "in words", "difference", f"{comparison.level:.0%} interval", "p"]
    table = html_table(head, rows, caption, number_columns=(2, 3, 4))
    return f'<div class="card" id="verdicts">{table}</div>'


def _describe_pair(pair: Any, first: str) -> str:
    """What the comparison of a model with the first one means, in words."""
    if pair.note:
        return f"no verdict: it {pair.note}"
    if pair.different:
        return f"{first} is better"
    if pair.is_equal:
        return "equal throughout these data"
    return f"cannot be told apart; {pair.need}" if pair.need else "cannot be told apart"
