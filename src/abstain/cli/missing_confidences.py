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
    of a ranking, `level` the confidence level. One sentence has the metric of each confidence by the other rule, one
    the verdicts on two confidences that change, if any does. Both lists are empty where every answer has a confidence.
    A verdict says which of two confidences has the better metric, by a test. The log is not changed.
    """
    nothing_changes = NotesByOtherRule(area_sentences=[], verdict_sentences=[])
    if not log.has_confidence or not log.share_without_confidence:
        return nothing_changes
    rule = str(log.rules.missing)
    other_rule = _OTHER_RULE[rule]
    try:
        by_other_rule = _read_by_rule(log, other_rule)  # predictions with all confidences of the log
        table = abstain.evaluate(**by_other_rule.arguments(), metrics=[metric], level=level, progress=False)
    except AbstainError:  # no answer has all the confidences, for example
        return nothing_changes
    # each confidence with its metric and interval, over all rows
    cells = ", ".join(
        f"{display_name(entry.score)} {entry.cell.removesuffix(entry.mark)}"  # without " t", the mark of ties
        for entry in table.entries
        if entry.group is None
    )
    row_count = int(log.scored.sum())  # rows that have a grade, or need none since there is no answer
    rows = f"{by_other_rule.n:,} of {row_count:,} rows"
    if by_other_rule.n == row_count:
        rows = f"all {row_count:,} rows"
    # `_MEANING` has each rule in words: "ranked last", "left out"
    area_sentence = (
        f"{by_name(metric).label} if answers without a confidence are {_MEANING[other_rule]} (--missing {other_rule}), "
        f"on {rows}: {cells}."
    )
    if len(log.signals) == 1:  # there is no second confidence to compare it with
        return NotesByOtherRule([area_sentence], verdict_sentences=[])
    try:
        comparisons = {
            rule: _compare_confidences(_read_by_rule(log, rule), metric, level),
            other_rule: _compare_confidences(by_other_rule, metric, level),
        }
    except AbstainError:  # too few answers for a test
        return NotesByOtherRule([area_sentence], verdict_sentences=[])
    return NotesByOtherRule([area_sentence], verdict_sentences=_describe_changed_verdicts(comparisons))


def _describe_changed_verdicts(comparisons: dict[str, Comparison]) -> list[str]:
    """Return a sentence that lists the pairs of confidences whose verdict depends on the rule; none if no pair's does.

    `comparisons` has two items: the rule in use for answers without a confidence ("last" or "left_out") and then the
    other one, each with the comparison of the same confidences by that rule. A verdict changes if the difference of the
    two confidences is significant by one rule only, or has the opposite sign. Of many changes `_MAX_LISTED` are named.
    """
    (rule, comparison), (other_rule, other_comparison) = comparisons.items()
    is_lower_better = comparison.lower_is_better
    changes = []
    for pair in comparison.pairs:
        other_pair = other_comparison.pair(pair.a, pair.b)
        # `find_better` returns the name of the confidence that is significantly better, or None
        if find_better(pair, is_lower_better) != find_better(other_pair, is_lower_better):
            changes.append(
                f"{display_name(pair.a)} against {display_name(pair.b)} "
                f"({_MEANING[rule]}: {_describe(pair, is_lower_better)}; "
                f"{_MEANING[other_rule]}: {_describe(other_pair, is_lower_better)})"
            )
    if not changes:
        return []
    sentence = (
        f"{len(changes)} of {count_noun(len(comparison.pairs), 'verdict')} between confidences "
        f"{'depends' if len(changes) == 1 else 'depend'} on how answers without a confidence count: "
        f"{'; '.join(changes[:_MAX_LISTED])}"
    )
    hidden_count = len(changes) - _MAX_LISTED
    return [f"{sentence} and {hidden_count} more." if hidden_count > 0 else f"{sentence}."]


def missing_confidence_notes(models: Sequence[Predictions], metric: str, level: float) -> list[str]:
    """Sentences for a comparison of the confidences of one or more models, about answers without a confidence.

    Such answers are ranked last or left out; the other rule is the one of these two that is not in use. For one model,
    the sentences tell its metric by the other rule and the verdicts that change. For several, one sentence names the
    models of which a verdict changes. Empty for a learned confidence, which every answer has. `metric` is one of a
    ranking ("aurc"), and `level` the confidence level. A model has no `log` where its file is a plain table or holds
    class scores; nothing is missing there. A verdict says which of two confidences is better, by a test.
    """
    notes_by_model: dict[str, NotesByOtherRule] = {
        display_name(model.name): measure_by_other_rule(model.log, metric, level)
        for model in models
        if model.log is not None and model.learned is None
    }
    if len(models) == 1:
        return [
            sentence
            for notes in notes_by_model.values()
            for sentence in (*notes.area_sentences, *notes.verdict_sentences)
        ]
    changed_models = [name for name, notes in notes_by_model.items() if notes.verdict_sentences]
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
