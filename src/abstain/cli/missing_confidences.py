"""Whether the best of several confidences depends on how answers without a confidence count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import abstain
from abstain._tables import count_noun
from abstain.errors import AbstainError
from abstain.evaluation import Comparison, Pair
from abstain.formats import Log, Predictions
from abstain.formats.alignment import comparison_arguments
from abstain.formats.predictions import unnamed_predictions
from abstain.formats.safety import display_name
from abstain.metrics.definitions import by_name

_MAX_LISTED = 5  # verdicts, or models, that one sentence names
_MEANING = {"last": "ranked last", "left_out": "left out"}
_OTHER_RULE = {"last": "left_out", "left_out": "last"}


class OtherRule(NamedTuple):
    """What the other rule for answers without a confidence gives, as sentences; empty where it changes nothing."""

    areas: list[str]  # one sentence: the metric of each confidence
    changed_verdicts: list[str]  # one sentence, where the comparison of two confidences comes out differently


def measure_other_rule(log: Log, metric: str, level: float) -> OtherRule:
    """Rank the answers of a log by each of its confidences, where answers without one count the other way.

    They are ranked last or left out, by `log.rules.missing`. Left out are answers that lack any of the confidences, so
    that all are on the same rows by both rules. `metric` is one of a ranking, and `level` the confidence level of
    intervals and tests. A verdict is another one if the difference is significant by one of the rules only, or has the
    opposite sign.
    """
    if not log.has_confidence or not log.share_without_confidence:
        return OtherRule([], [])
    rule = str(log.rules.missing)  # "last" or "left_out"
    other_rule = _OTHER_RULE[rule]
    try:
        other = _read_by_rule(log, other_rule)
        table = abstain.evaluate(**other.arguments(), metrics=[metric], level=level, progress=False)
    except AbstainError:  # no answer has all the confidences, for example
        return OtherRule([], [])
    cells = ", ".join(
        f"{display_name(entry.score)} {entry.cell.removesuffix(entry.mark)}"
        for entry in table.entries
        if entry.group is None
    )
    row_count = int(log.scored.sum())
    rows = f"all {row_count:,} rows" if other.n == row_count else f"{other.n:,} of {row_count:,} rows"
    areas = (
        f"{by_name(metric).label} if answers without a confidence are {_MEANING[other_rule]} (--missing {other_rule}), "
        f"on {rows}: {cells}."
    )
    if len(log.signals) == 1:
        return OtherRule([areas], [])
    try:
        comparison = _compare_confidences(_read_by_rule(log, rule), metric, level)
        other_comparison = _compare_confidences(other, metric, level)
    except AbstainError:  # too few answers for a test
        return OtherRule([areas], [])
    changed = []
    for pair in comparison.pairs:
        other_pair = other_comparison.pair(pair.a, pair.b)
        is_lower_better = comparison.lower_is_better
        if find_better(pair, is_lower_better) != find_better(other_pair, is_lower_better):
            changed.append(
                f"{display_name(pair.a)} against {display_name(pair.b)} "
                f"({_MEANING[rule]}: {_describe(pair, is_lower_better)}; "
                f"{_MEANING[other_rule]}: {_describe(other_pair, is_lower_better)})"
            )
    if not changed:
        return OtherRule([areas], [])
    verdicts = (
        f"{len(changed)} of {count_noun(len(comparison.pairs), 'verdict')} between confidences "
        f"{'depends' if len(changed) == 1 else 'depend'} on how answers without a confidence count: "
        f"{'; '.join(changed[:_MAX_LISTED])}"
    )
    hidden_count = len(changed) - _MAX_LISTED
    return OtherRule(
        [areas], [f"{verdicts} and {hidden_count} more." if hidden_count > 0 else f"{verdicts}."]
    )


def missing_confidence_notes(models: Sequence[Predictions], metric: str, level: float) -> list[str]:
    """Sentences for a comparison of the confidences of one or more models, about answers without a confidence.

    One model alone has the metric by the other rule, too. Of several models, only those are named of which a verdict
    between two of their confidences changes. Empty for a learned confidence, which every answer has.
    """
    by_model: dict[str, OtherRule] = {
        display_name(model.name): measure_other_rule(model.log, metric, level)
        for model in models
        if model.log is not None and model.learned is None
    }
    if len(models) == 1:
        return [sentence for other in by_model.values() for part in other for sentence in part]
    changed_models = [name for name, other in by_model.items() if other.changed_verdicts]
    if not changed_models:
        return []
    listed = ", ".join(changed_models[:_MAX_LISTED])
    hidden_count = len(changed_models) - _MAX_LISTED
    if hidden_count > 0:
        listed += f" and {hidden_count} more"
    return [
        f"Which confidence of a model is better depends on how answers without a confidence count, for "
        f"{count_noun(len(changed_models), 'model')}: {listed}. Compare one file alone to see it by both rules."
    ]


def _read_by_rule(log: Log, missing: str) -> Predictions:
    """The answers of a log as predictions, where answers without a confidence count by this rule."""
    return unnamed_predictions(log, rules=replace(log.rules, missing=missing))


def _compare_confidences(predictions: Predictions, metric: str, level: float) -> Comparison:
    """Compare all confidences of one file with each other, in pairs on the same answers."""
    contestants = [
        replace(predictions, name=name, confidence=signal) for name, signal in predictions.signals.items()
    ]
    entries = {model.name: (model.loss, model.confidence) for model in contestants}
    return abstain.compare(entries, metric=metric, level=level, **comparison_arguments(contestants))


def find_better(pair: Pair, is_lower_better: bool) -> str | None:
    """The name of the better one of two; None where they cannot be told apart."""
    if not pair.different:
        return None
    return pair.a if (pair.difference < 0) == is_lower_better else pair.b


def _describe(pair: Pair, is_lower_better: bool) -> str:
    """The difference of two in words, such as "-0.0246, a is better"."""
    better = find_better(pair, is_lower_better)
    verdict = "cannot be told apart" if better is None else f"{display_name(better)} is better"
    return f"{pair.difference:.3g}, {verdict}"
