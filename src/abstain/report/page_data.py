"""What the report's scripts read (`assets/page.js`), as JSON: curves, sliders, rules to save, and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from abstain.report.certified import (
    apply_command,
    certified_point,
    describe_promise,
    describe_rule,
    make_command,
    pack_texts,
    risk_text,
    rule_texts,
)
from abstain.report.content import Content, ModelContent, short_names
from abstain.report.slider import round_six, spread_points

_CURVE_POINTS = 600  # for one model; all models together have at most four times as many
_LOG_DECADES = 1.5  # risks that span more decades are drawn on a log scale at first
_SETTLED_COVERAGE = (
    0.1  # below it a few samples decide the risk, which says nothing about the scale to draw on
)
_MAX_RULE_CHARACTERS = (
    200_000  # of rules that can be saved from one page, packed; those of the best models come first
)


def embedded(content: Content, command: str = "") -> dict[str, Any]:
    """Return the data that the page's scripts read (`assets/page.js`): dicts, lists, text and numbers.

    The scripts find entries by their names. Models are in the order of `content.models`. `command` is the command line
    that made the page, which the rules in it remember ("" for none). `content` has at least one model; their names
    differ. A rule is a threshold with a promise. `content.level` is the confidence level of the intervals.
    """
    zero_one = all(model.zero_one for model in content.models)
    risk_noun = "error rate" if zero_one else "mean loss"
    loss_noun = "errors" if zero_one else "loss"
    names = [model.predictions.name for model in content.models]
    # Best first if there is a ranking, otherwise in the order of the files. The comparison of a single model ranks its
    # scores.
    ranked = names
    if content.comparison is not None and len(names) > 1:
        ranked = list(content.comparison.names)
    short = short_names(names)
    # the page has room for the rules of some models only: those of the best ones
    best_first = sorted(content.models, key=lambda model: ranked.index(model.predictions.name))
    packed_rules = _pack_rules(best_first, command)
    models = []
    for model in content.models:
        name = model.predictions.name
        data = _model_data(model, short[name], model_count=len(names), command=command)
        # the rules to save, compressed; None: the page shows the command that makes the rule instead
        models.append({**data, "packed": packed_rules.get(name)})
    is_whole_percent = round(content.level, 2) == content.level
    return {
        "level": f"{content.level:.0%}" if is_whole_percent else f"{content.level:.1%}",
        "zero_one": zero_one,
        "words": {
            "risk": f"selective risk: {risk_noun} of the answered",
            "generalised": f"generalised risk: {loss_noun} of the answered, per sample of all",
        },
        "best": names.index(ranked[0]),  # the model that the slider starts with
        "log": spans_decades(content.models),  # whether curves are drawn on a log scale at first
        "models": models,
        "forest": _forest_data(content),  # the rows of the figure of all scores with their intervals
    }


def spans_decades(models: Sequence[ModelContent]) -> bool:
    """True if the risks of the models span so many powers of ten that a linear scale would hide the small ones.

    Risks of less than 10% of the samples are not looked at: a few errors decide them.
    """
    risks = np.concatenate([model.curve.risk[model.curve.coverage >= _SETTLED_COVERAGE] for model in models])
    positive = risks[risks > 0]
    if not len(positive) or bool((risks < 0).any()):
        return False
    return bool(np.log10(positive.max() / positive.min()) > _LOG_DECADES)


def _pack_rules(best_first: Sequence[ModelContent], command: str) -> dict[str, str]:
    """Return, by model, its certified rules as text for the page, for as many models as fit.

    `best_first` are the models in the order of the ranking: the first with a rule always has its rules in the page.
    `command` is the command line that made the page. "Fit" is a limit of 200,000 characters for all rules of the page.
    """
    packed_rules: dict[str, str] = {}
    character_count = 0
    for model in best_first:
        if not model.certified.is_any_feasible:  # no risk can be promised
            continue
        predictions = model.predictions
        # the JSON of its rules, compressed into one text
        packed = pack_texts(rule_texts(model.certified, predictions, model.score, model.loss, command))
        character_count += len(packed)
        if packed_rules and character_count > _MAX_RULE_CHARACTERS:
            # the models after this one have none either
            break
        packed_rules[predictions.name] = packed
    return packed_rules


def _rule_data(model: ModelContent) -> list[dict[str, Any]]:
    """Return the certified thresholds of one model by rising risk, by the names that the page's scripts read.

    "step" is the step of the threshold slider that has the same threshold, counted from 0, None where a risk cannot be
    promised. `model` holds everything that the page shows of one model. A rule is feasible if its risk can be promised.
    `certified.answered_share` is the share of all samples that the model answered. The coverage of a rule is a share of
    these; `describe_promise` multiplies both, to say how many of all cases are answered.
    """
    rules = []
    for rule in model.certified.rules:
        step = None
        if rule.feasible:
            # the share of all samples that the rule accepts: a point of the curve lies at its threshold
            coverage = model.curve.coverage[certified_point(model.curve, rule)]
            # The slider has a step at each certified threshold (`make_slider`), equal but for rounding. Its steps come
            # by rising coverage.
            step = int(np.searchsorted(model.slider.coverage, coverage - 1e-12))
        rules.append(
            {
                "risk": rule.target,
                "risk_text": risk_text(rule.target, model.zero_one),
                "promise": describe_promise(rule, model.certified.answered_share, is_zero_one=model.zero_one),
                "facts": describe_rule(
                    rule, model.predictions, model.score, model.curve, is_zero_one=model.zero_one
                ),
                "guarantee": rule.guarantee or "",
                "step": step,
            }
        )
    return rules


def _reliability_data(model: ModelContent) -> dict[str, Any] | None:
    """Return the reliability diagram of one model by the names that the page's scripts read; None if there is none.

    Each list has one entry per bin of confidences, with the limits of the accuracy and the number of answers in it.
    Numbers are rounded to six digits, to keep the page small. `model` holds everything that the page shows of one
    model.
    """
    curve = model.reliability
    if curve is None:
        return None
    return {
        "confidence": round_six(np.asarray(curve.confidence)),
        "accuracy": round_six(np.asarray(curve.accuracy)),
        "low": round_six(np.asarray(curve.low)),
        "high": round_six(np.asarray(curve.high)),
        "count": list(curve.count),
    }


def _model_data(model: ModelContent, short_name: str, model_count: int, command: str) -> dict[str, Any]:
    """Return the curve and the sliders of one model, by the names that the page's scripts read.

    "start" is the step at which the threshold slider stands first. It is that of the certified threshold that is shown
    first (`certified.start`, its index), or, where there is none or its risk cannot be promised, the first that accepts
    80% of all that can be accepted. `model` holds everything that the page shows of one model; with a larger
    `model_count` its curve has fewer points. `command` made the page.
    """
    curve = model.curve
    slider = asdict(model.slider)
    point_count = min(_CURVE_POINTS, 4 * _CURVE_POINTS // model_count)  # at most 4 * _CURVE_POINTS in all
    # indices of points of the curve that are evenly spread in coverage
    points = spread_points(curve, lowest_coverage=curve.coverage[0], point_count=point_count)
    rules = _rule_data(model)
    # by rising coverage; the last step accepts all that can be accepted, and rounding is allowed for
    start_step = int(np.searchsorted(slider["coverage"], 0.8 * slider["coverage"][-1] - 1e-12))
    data = {
        "name": model.predictions.name,
        "short": short_name,
        "n": model.predictions.n,
        "steps": slider,
        "start": min(start_step, len(slider["coverage"]) - 1),
        "rules": rules,  # one for each risk that can be chosen; empty where no test is possible
        "rule_start": model.certified.start,
        "no_rules": model.certified.reason,
        # the command that applies a saved rule, and, without its risk, the one that makes and saves a rule
        "apply": apply_command(model.predictions, command),
        "make": make_command(model.predictions, command),
        "reliability": _reliability_data(model),
        "risk": {
            "coverage": round_six(curve.coverage[points]),
            "value": round_six(curve.risk[points]),
            "band": _band_data(model),
        },
    }
    if rules and rules[model.certified.start]["step"] is not None:  # None: its risk cannot be promised
        data["start"] = rules[model.certified.start]["step"]
    return data


def _band_data(model: ModelContent) -> dict[str, Any] | None:
    """Return the band of a model's curve of selective risk; None if there is none.

    `model` holds everything that the page shows of one model. The band has limits of the risk at a grid of coverages;
    each list here has one entry per coverage.
    """
    band = model.band
    if band is None:
        return None
    # no threshold accepts fewer samples than the first point of the curve; rounding is allowed for
    is_reached = band.coverage >= model.curve.coverage[0] - 1e-12
    return {
        "coverage": round_six(band.coverage[is_reached]),
        "low": round_six(band.low[is_reached]),
        "high": round_six(band.high[is_reached]),
    }


def _forest_data(content: Content) -> list[dict[str, Any]]:
    """Return AURC with its interval, for each model by each of its scores, in the order of the models.

    The loss is the first of the model's table. "first" marks the score of the curve, "colour" is the
    model's index. Undefined values are left out; limits may be None. `content` holds everything that the page shows.
    AURC is the area under the risk-coverage curve; every table has it.
    """
    rows = []
    for index, model in enumerate(content.models):
        table = model.evaluation
        for score in table.scores:
            entry = table[score, table.losses[0], "aurc"]
            if entry.estimate is None:
                continue
            rows.append(
                {
                    "model": model.predictions.name,
                    "score": score,
                    "colour": index,
                    "first": score == model.score,
                    "estimate": entry.estimate,
                    "low": entry.low,
                    "high": entry.high,
                }
            )
    return rows
