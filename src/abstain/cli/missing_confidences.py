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


class NotesByOtherRule(NamedTuple):
    """Sentences on what changes if answers without a confidence count the other way; empty lists for nothing."""

    area_sentences: list[str]  # one: the metric of each confidence by the other rule
    verdict_sentences: list[str]  # one, where two confidences compare differently by the other rule


def measure_by_other_rule(log: Log, metric: str, level: float) -> NotesByOtherRule:
    """Rank the answers of a log by each confidence, with the other rule for answers without one; return sentences.

    There are two rules, "last" (such answers are ranked last) and "left_out"; `log.rules.missing` is the one in use.
    Left out are answers that lack any of the confidences, so that all confidences are on the same rows. `metric` is one
    of a ranking, `level` the confidence level. The verdict on two confidences changes if their difference is
    significant by one rule only, or has the opposite sign. Both lists are empty where every answer has a confidence.
    Rows in `log.scored` have a grade, or need none since there is no answer.
    """
    if not log.has_confidence or not log.share_without_confidence:
        return NotesByOtherRule([], [])
    rule = str(log.rules.missing)  # "last" or "left_out"
    other_rule = _OTHER_RULE[rule]
    try:
        other = _read_by_rule(log, other_rule)
        table = abstain.evaluate(**other.arguments(), metrics=[metric], level=level, progress=False)
    except AbstainError:  # no answer has all the confidences, for example
        return NotesByOtherRule([], [])
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
        return NotesByOtherRule([areas], [])
    try:
        comparison = _compare_confidences(_read_by_rule(log, rule), metric, level)
        other_comparison = _compare_confidences(other, metric, level)
    except AbstainError:  # too few answers for a test
        return NotesByOtherRule([areas], [])
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
        return NotesByOtherRule([areas], [])
    verdicts = (
        f"{len(changed)} of {count_noun(len(comparison.pairs), 'verdict')} between confidences "
        f"{'depends' if len(changed) == 1 else 'depend'} on how answers without a confidence count: "
        f"{'; '.join(changed[:_MAX_LISTED])}"
    )
    hidden_count = len(changed) - _MAX_LISTED
    return NotesByOtherRule(
        [areas], [f"{verdicts} and {hidden_count} more." if hidden_count > 0 else f"{verdicts}."]
    )


def missing_confidence_notes(models: Sequence[Predictions], metric: str, level: float) -> list[str]:
    """Sentences for a comparison of the confidences of one or more models, about answers without a confidence.

    Such answers are ranked last or left out; the other rule is the one of these two that is not in use. For one model,
    the sentences tell its metric by the other rule and the verdicts that change. For several, one sentence names the
    models of which a verdict changes. Empty for a learned confidence, which every answer has.
    """
    by_model: dict[str, NotesByOtherRule] = {
        display_name(model.name): measure_by_other_rule(model.log, metric, level)
        for model in models
        if model.log is not None and model.learned is None
    }
    if len(models) == 1:
        return [
            sentence
            for other in by_model.values()
            for sentence in (*other.area_sentences, *other.verdict_sentences)
        ]
    changed_models = [name for name, other in by_model.items() if other.verdict_sentences]
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
