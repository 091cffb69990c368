"""Thresholds that keep a promise, one for each of a few risks: what a reader of a report may choose from.

The page holds each rule as the JSON that `abstain threshold --save` writes, so that a button can save it.
"""

from __future__ import annotations

import base64
import decimal
import gzip
import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abstain import Threshold, scores, select_threshold
from abstain._tables import count_noun, is_number
from abstain.errors import AbstainError
from abstain.formats import Predictions
from abstain.formats.safety import sha256_of
from abstain.metrics.points import RiskCoverageCurve
from abstain.thresholds import GroupThresholds
from abstain.thresholds.advice import Advice
from abstain.thresholds.later_options import reading_options
from abstain.thresholds.rules import key_text

# risks that people ask for; the page shows those between "not even this can be promised" and "answer everything"
RISKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
USUAL_RISK = 0.05  # where the page starts if the user asks for no risk
EVERY_ANSWER = "every answer with a confidence"  # a rule that rejects only what a rule for gaps ranks last
_EVERYTHING = "everything"  # a point of a curve that accepts these, too
_SHARED_PART = (
    "\u0001"  # stands for the part that all rules of a model share; JSON never holds this character
)


@dataclass(frozen=True, kw_only=True)
class CertifiedSteps:
    """Thresholds of one model for several risks, each chosen by itself by `abstain.select_threshold`.

    Attributes
    ----------
    rules : tuple of Threshold
        By rising risk (`target`). A rule without a threshold (`feasible` is False) says what would help: that is the
        first, unless the user asks for another such risk. Only the last accepts everything. If no risk can be
        promised, there is one rule; if no test is possible, none.
    start : int
        Index of the rule that the page shows first.
    reason : str
        Why no test is possible; "" if there are rules.
    answered_share : float
        Share of all samples, by weight, that the model answered at all. The coverage of a rule is a share of these.
    """

    rules: tuple[Threshold, ...]
    start: int
    reason: str
    answered_share: float

    @property
    def is_any_feasible(self) -> bool:
        """True if at least one of the risks can be promised."""
        return any(rule.feasible for rule in self.rules)


def choose_threshold(
    predictions: Predictions, score: str, loss: str, *, groups: Any = None, **options: Any
) -> Threshold | GroupThresholds:
    """Call `select_threshold` with the columns of a file: losses and confidences, or class scores and labels.

    `predictions` holds what a file says of one model, without samples on which it abstained: class scores or
    confidences, labels or losses, weights and clusters. `score` and `loss` name what is computed from class scores.
    `groups` is the group of each sample, None for one threshold. `options` are those of `select_threshold`: one of
    risk, coverage and cost, and delta, method, bounded. Raises what `select_threshold` raises. The result is one
    threshold, or one for each group.
    """
    columns: dict[str, Any] = {
        "sample_weight": predictions.sample_weight,
        "clusters": predictions.clusters,
        "groups": groups,
    }
    if not predictions.has_class_scores:
        losses, confidence = predictions.loss_and_confidence(score, loss)
        # the rule remembers a learned confidence and refuses any other; None for a plain column
        return select_threshold(losses, confidence, score=predictions.learned, **columns, **options)
    # some refusals count as wrong and are ranked last: their losses and ranks do not follow from their class scores
    if predictions.refused is not None:
        # computed confidences are rank keys ("key"), which order as the score does and do not round to 1
        losses, confidence = predictions.loss_and_confidence(score, loss)
        return select_threshold(losses, confidence, score=score, units="key", **columns, **options)
    class_scores: dict[str, Any] = {
        predictions.kind: predictions.class_scores(),  # as `logits` or as `probs`
        "labels": predictions.labels,
    }
    return select_threshold(**class_scores, score=score, loss_name=loss, **columns, **options)


def certify_steps(
    predictions: Predictions,
    *,
    score: str,
    loss: str,
    delta: float,
    full_risk: float,
    answered_share: float,
    asked_risk: float | None = None,
) -> CertifiedSteps:
    """Choose a threshold for each of the usual risks that say something about this model.

    Goes from the first risk at which everything is answered down to the first that cannot be promised.

    Parameters
    ----------
    predictions : Predictions
        What a file says of one model; samples on which it abstained are left out here.
    score, loss : str
        Names of what is computed from class scores.
    delta : float
        Probability with which a promise may fail, for each risk by itself.
    full_risk : float
        Mean loss if everything is answered; no smaller risk accepts all, so the search starts there.
    answered_share : float
        Share of all samples that the model answered, by weight.
    asked_risk : float, optional
        A risk that the user asks for. It gets a step of its own, at which the page starts.
    """
    answered = predictions.without_abstentions()
    risks = sorted({*RISKS, *([] if asked_risk is None else [asked_risk])})
    rule_of_risk: dict[float, Threshold] = {}

    def choose(risk: float) -> Threshold:
        if risk not in rule_of_risk:
            rule = choose_threshold(answered, score, loss, risk=risk, delta=delta)
            assert isinstance(rule, Threshold)
            rule_of_risk[risk] = rule
        return rule_of_risk[risk]

    try:
        above = [risk for risk in risks if risk >= full_risk] or risks[-1:]
        largest = next((risk for risk in above if _accepts_all(choose(risk))), risks[-1])
        for risk in reversed([risk for risk in risks if risk <= largest]):
            if not choose(risk).feasible:
                break
        if asked_risk is not None:
            choose(asked_risk)
        if not any(rule.feasible for rule in rule_of_risk.values()):
            only_risk = asked_risk or USUAL_RISK
            rule_of_risk = {only_risk: choose(only_risk)}
    except AbstainError as error:
        return CertifiedSteps(
            rules=(), start=0, reason=_without_function(error), answered_share=answered_share
        )
    rules_by_risk = [
        rule
        for risk, rule in sorted(rule_of_risk.items())
        if risk == asked_risk or not _says_less(rule, rule_of_risk.values())
    ]
    return CertifiedSteps(
        rules=tuple(rules_by_risk),
        start=_find_index_shown_first(rules_by_risk, asked_risk),
        reason="",
        answered_share=answered_share,
    )


def _accepts_all(rule: Threshold) -> bool:
    """True if a threshold was found and accepts every sample."""
    return rule.feasible and rule.coverage >= 1


def _says_less(rule: Threshold, rules: Any) -> bool:
    """True if another rule makes this one idle on a page.

    That is a rule that accepts all at a smaller risk, or one that has no threshold at a larger risk.
    """
    if _accepts_all(rule):
        return any(_accepts_all(rival) and rival.target < rule.target for rival in rules)
    return not rule.feasible and any(not rival.feasible and rival.target > rule.target for rival in rules)


def _find_index_shown_first(rules: Sequence[Threshold], asked_risk: float | None) -> int:
    """Return the index of the rule that a page shows first; 0 if there is no rule.

    `rules` are by rising risk; a rule is feasible if its risk can be promised. The one for `asked_risk`, the user's, is
    taken, whether it can be promised or not (None: the user asked for no risk); otherwise the promised rule with the
    largest risk of at most 5% (`USUAL_RISK`) that does not accept everything; otherwise that with the smallest risk
    that can be promised. `rule.target` is the risk that was asked for. If nothing can be promised, it is the first
    rule.
    """
    feasible = [index for index, rule in enumerate(rules) if rule.feasible]
    at_usual_risk = [
        index for index in feasible if rules[index].target <= USUAL_RISK and not _accepts_all(rules[index])
    ]
    for_asked_risk = [index for index, rule in enumerate(rules) if rule.target == asked_risk]
    if for_asked_risk:
        return for_asked_risk[0]
    if at_usual_risk:
        return at_usual_risk[-1]
    return feasible[0] if feasible else 0


def _without_function(error: AbstainError) -> str:
    """The message of an error of `select_threshold` as a sentence, without the name of the function before it."""
    message = str(error)
    function_name, colon, explanation = message.partition(": ")
    sentence = explanation if colon and function_name.isidentifier() else message
    return sentence[:1].upper() + sentence[1:]


# the sentences of the page


def share_text(share: float) -> str:
    """A share in percent with no more digits than bring it within 1% of its value; only all is written as 100%.

    >>> share_text(0.05), share_text(0.9184), share_text(0.005), share_text(1.0), share_text(0.99996)
    ('5%', '92%', '0.5%', '100%', '99.996%')
    """
    percentage = 100 * share
    for digits in range(6):
        rounded = f"{percentage:.{digits}f}"
        is_close = abs(float(rounded) - percentage) <= 0.01 * percentage
        claims_all = float(rounded) >= 100 and share < 1
        if is_close and not claims_all:
            return f"{rounded}%"
    return f"{percentage:g}%"


def describe_promise(rule: Threshold, answered_share: float, *, is_zero_one: bool) -> str:
    """One sentence: which share to answer, at most which risk, promised with which confidence; or that it cannot be.

    `answered_share` is the share of all samples that the model answered, and `rule.coverage` the share of these that
    the rule accepts. `is_zero_one` says that losses are errors. `rule.target` is the risk that was asked for, and a
    rule is feasible if it can be promised; `rule.delta` is the allowed probability of a broken promise.
    """
    risk = risk_text(rule.target, is_zero_one)
    if not rule.feasible:
        return (
            f"At most {risk} {'errors' if is_zero_one else 'mean loss'} cannot be promised with these data."
        )
    answered = f"{share_text(rule.coverage * answered_share)} of the cases"
    if rule.coverage * answered_share >= 1:
        answered = "everything"
    outcome = f"the mean loss of the answers is at most {risk}"
    if is_zero_one:
        outcome = f"at most {risk} of the answers are wrong"
    return f"Answer {answered}: then {outcome} (promised with {100 * (1 - rule.delta):.4g}% confidence)."


def describe_rule(
    rule: Threshold, predictions: Predictions, score: str, curve: RiskCoverageCurve, *, is_zero_one: bool
) -> str:
    """What the rule is and what it did on these data; for a risk that cannot be promised, what would help.

    `predictions` is the file that the rule was made from, and `curve` its risk-coverage curve; `score` names the
    confidence that is computed from its class scores. `is_zero_one` says that losses are errors. A rule is feasible if
    its risk can be promised. Sentences of plain text; "" where nothing is known to help.
    """
    if not rule.feasible:
        if rule.advice is None:  # it is not known what would help
            return ""
        return describe_help(rule.advice, rule.n, rule.clusters, is_zero_one=is_zero_one)
    answered_count = predictions.without_abstentions().n
    # the coverage is a share of the cases that the model answered
    accepted = round(rule.coverage * answered_count)
    observed_risk = risk_text(rule.risk or 0.0, is_zero_one)  # `risk` is None only without a threshold
    outcome = (
        f"{observed_risk} of these answers are wrong"
        if is_zero_one
        else f"their mean loss is {observed_risk}"
    )
    has_weights = rule.evidence.heaviest_sample is not None  # the largest weight; None without weights
    if not has_weights:  # only then is the share of accepted cases also their number over that of all
        data = f"On these data that is {accepted:,} of {count_noun(predictions.n, 'case')}, and {outcome}."
    else:
        data = f"On these data, by weight, {outcome}."
    # the condition is a sentence such as "Answer where the confidence is at least 0.83."
    return f"{_describe_condition(rule, predictions, score, curve)} {data}"


def apply_command(predictions: Predictions, command: str) -> str:
    """The command that applies a saved rule of this model to new data, read as by `command`, which made the page."""
    options = _options_of_model(predictions, command, has_truth=False)
    return shlex.join(["abstain", "decide", "rule.json", "NEW_FILE", *options])


def make_command(predictions: Predictions, command: str) -> str:
    """The beginning of the command that makes a rule of this model, read as by `command`, which made the page."""
    file = Path(predictions.path).name
    return shlex.join(
        ["abstain", "threshold", file, *_options_of_model(predictions, command, has_truth=True)]
    )


def _options_of_model(predictions: Predictions, command: str, *, has_truth: bool) -> list[str]:
    """The options by which one model's file is read: a page of several models names a learned confidence for each."""
    words = reading_options(command, has_truth=has_truth, labels=None)
    pairs = [(flag, value) for flag, value in zip(words[::2], words[1::2]) if flag != "--confidence"]
    if predictions.learned is not None:
        pairs.append(("--confidence", "LEARNED.json"))
    return [word for pair in pairs for word in pair]


def _describe_condition(
    rule: Threshold, predictions: Predictions, score: str, curve: RiskCoverageCurve
) -> str:
    """Say when the rule answers, in the number that people know: a probability, not its rank key."""
    if rule.value == -np.inf:
        return "Answer every case."
    name = score if predictions.has_class_scores else "the confidence"
    border = rule_border(rule, predictions, score, curve)
    if border == EVERY_ANSWER:
        return f"Accept {EVERY_ANSWER}."
    return f"Answer where {name} is {border if border.startswith('above') else f'at least {border}'}."


def certified_point(curve: RiskCoverageCurve, rule: Threshold) -> int:
    """Index of the point of a model's curve at which a certified threshold of the same samples lies.

    The coverage of the rule is a share of the answered samples, that of the curve one of all samples.
    """
    coverage = rule.coverage * curve.coverage[-1]
    return int(np.argmin(np.abs(curve.coverage - coverage)))


def count_ranked_last(predictions: Predictions, curve: RiskCoverageCurve) -> int:
    """How many samples at the last point of a curve have no confidence of their own; 0 unless all of them have none.

    They are unanswered questions that count as wrong, and answers without a confidence: all are tied below all others,
    at a number that the file does not hold. Samples that abstained, or have weight 0, are not on the curve.
    """
    has_own = predictions.has_own_confidence()  # None: all have one
    if has_own is None:
        return 0
    is_in_curve = np.ones(len(has_own), dtype=bool)
    if predictions.abstained is not None:
        is_in_curve &= ~predictions.abstained
    if predictions.sample_weight is not None:
        is_in_curve &= predictions.sample_weight > 0
    lacking_count = int(np.count_nonzero(is_in_curve & ~has_own))
    last_count = int(np.diff(curve.count, prepend=0)[-1])
    return lacking_count if lacking_count == last_count else 0


def rule_border(rule: Threshold, predictions: Predictions, score: str, curve: RiskCoverageCurve) -> str:
    """The threshold of a rule as a number that accepts the same samples: "0.8271", or "above 0.8".

    A case is answered from the number on, except after "above": that is for a rule that lies just above a rejected
    confidence (`rule.lies_above`), where this has few digits. `EVERY_ANSWER` stands for a rule that rejects only what
    has no confidence and is ranked last. The number is a plain value of the score (a probability,
    say), while the rule and the curve hold its rank key, which orders as the score does. The rule must be feasible.
    """
    # index of the point of the curve with the samples that the rule accepts
    point = certified_point(curve, rule)
    rejects_last_point_alone = point + 2 == len(curve.threshold)
    if rejects_last_point_alone and count_ranked_last(predictions, curve):
        return EVERY_ANSWER
    if not rule.lies_above:
        return border_text(predictions, score, curve, point)
    name = score if predictions.has_class_scores else None
    # the threshold is the next floating-point number above the rejected confidence (`or` is for type checkers)
    rejected = float(np.nextafter(float(rule.value or 0.0), -np.inf))
    shown = key_text(name, rejected)  # the plain value in few digits; "above" it is right only if it is exact
    if is_number(shown) and float(shown) == _plain_value(name, rejected):
        return f"above {shown}"
    # the shortest number above the rejected confidence and not above the lowest accepted one
    return _number_between(name, rejected, float(curve.threshold[point]), is_near_rejected=True)


def border_text(predictions: Predictions, score: str, curve: RiskCoverageCurve, point: int) -> str:
    """The threshold at a point of a curve as people know it: for class scores the value of the score, not its rank key.

    The number is not above the confidences that the point accepts, and above those that it rejects, however it is
    rounded. A point that accepts even what has no confidence, and is ranked last, is "everything".
    """
    name = score if predictions.has_class_scores else None
    is_last = point + 1 == len(curve.threshold)
    if is_last and count_ranked_last(predictions, curve):
        return _EVERYTHING
    rejected = -np.inf if is_last else float(curve.threshold[point + 1])
    return _number_between(name, rejected, float(curve.threshold[point]), is_near_rejected=False)


def _plain_value(score: str | None, key: float) -> float:
    """The number that people know, such as a probability; without a score the confidence itself."""
    return key if score is None or key == -np.inf else float(scores.display(score, key))


def _number_between(score: str | None, rejected: float, accepted: float, *, is_near_rejected: bool) -> str:
    """The number with the fewest digits that lies above one rank key and not above another, as text.

    A rank key is a number that orders like the score and does not round to 1; `rejected` and `accepted` are keys, and
    the text is a plain value of the score. Probabilities that would round to 1 are written by their distance from it,
    as `key_text` does: "1 − 3e-09". Where numbers cannot tell the keys apart, the text is that of the accepted key.
    `is_near_rejected` says from which of the two the number is rounded; `score` is None for a column of confidences.
    """
    accepted_text = key_text(score, accepted)
    if accepted_text.startswith("1 − "):
        # distances from 1, with the other sign: exact where probabilities are not. The key of a probability p is
        # -ln(1 - p). The digits are the fewest that are tried, as many as `key_text` shows.
        digits = 2
        low = -float(np.exp(-rejected))
        high = -float(np.exp(-accepted))
    else:
        # as many as `key_text` shows; only scores that saturate, which round to 1 when they are sure, have rank keys
        digits = 6 if score is None or not scores.by_name(score).saturates else 4
        low = _plain_value(score, rejected)
        high = _plain_value(score, accepted)
    nearest = low if is_near_rejected else high
    # above `low` and not above `high`; None if no decimal is
    number = _shortest_decimal(low, high, nearest, digits)
    if number is None:
        return accepted_text
    return f"1 − {number.removeprefix('-')}" if accepted_text.startswith("1 − ") else number


def _shortest_decimal(low: float, high: float, nearest: float, digits: int) -> str | None:
    """The decimal above `low`, not above `high`, of the fewest digits, but at least `digits`; None if there is none.

    Decimals are `nearest` (one of the two limits) rounded to significant digits; zeros at the end are not written.

    >>> _shortest_decimal(0.82708, 0.82808, 0.82708, 4), _shortest_decimal(0.82708, 0.82808, 0.82808, 4)
    ('0.8271', '0.828')
    """
    if not (math.isfinite(nearest) and low < high):
        return None
    for digit_count in range(digits, 18):  # 17 digits tell all floating-point numbers apart
        for rounding in (decimal.ROUND_HALF_EVEN, decimal.ROUND_FLOOR, decimal.ROUND_CEILING):
            context = decimal.Context(prec=digit_count, rounding=rounding)
            rounded = float(context.create_decimal_from_float(nearest))
            if low < rounded <= high:
                return f"{rounded:.{digit_count}g}"
    return None


def describe_help(advice: Advice, n: int, clusters: int | None, *, is_zero_one: bool) -> str:
    """What would help where a risk cannot be promised: more labels, or another model; and what can be promised.

    `n` and `clusters` count the calibration samples and their clusters, None without clusters. `is_zero_one` says that
    losses are errors. `advice.unit`, "samples" or "clusters", is what `advice.samples` counts: how many would be enough
    for the risk that was asked for, with `advice.samples_coverage` the share that would then be accepted.
    """
    unit = "labelled cases" if advice.unit == "samples" else "clusters of labelled cases"
    count = n if advice.unit == "samples" else clusters
    # where `samples` is None, `why_none` says why no number can be named
    if advice.samples is not None:
        needed = f"About {advice.samples:,} {unit} would be enough; there are {count:,} now."
        if advice.samples_coverage is not None:
            needed += f" They would let it answer about {share_text(advice.samples_coverage)} of the cases."
    elif advice.why_none == "few":  # "risk" otherwise: the risk seen is not clearly below the one asked for
        needed = f"There are too few {unit} to tell how many would be enough; there are {count:,} now."
    else:
        needed = f"By what was seen, no number of {unit} would be enough: the model or its confidence has to improve."
    # `risk` is the smallest risk that can be promised, `coverage` the share that is then accepted
    if advice.risk is None:
        return f"{needed} No other risk can be promised with these data either."
    smallest = f"The smallest risk that can be promised here is {risk_text(advice.risk, is_zero_one)}"
    if advice.coverage == 1:
        return f"{needed} {smallest}, if everything is answered."
    return f"{needed} {smallest}, for {share_text(advice.coverage or 0.0)} of the cases."


def risk_text(risk: float, is_zero_one: bool) -> str:
    """A risk in percent for errors, as a number for any other loss."""
    return share_text(risk) if is_zero_one else f"{risk:.3g}"


# the rules as JSON inside the page


def rule_texts(
    certified: CertifiedSteps, predictions: Predictions, score: str, loss: str, command: str
) -> list[str]:
    """The JSON of each feasible rule, as `abstain threshold --save` writes it; "" for a risk that cannot be promised.

    The rule remembers the file, its hash, and `command`, the command line that made the page ("" if there is none).
    """
    facts = origin_facts(predictions, score, loss, command)
    kind: Any = predictions.kind
    return [rule.made_from(kind, **facts).to_json() if rule.feasible else "" for rule in certified.rules]


def origin_facts(predictions: Predictions, score: str, loss: str, command: str) -> dict[str, Any]:
    """What a rule remembers about the data it was made from, by field of `abstain.thresholds.Origin`.

    The file's name, its hash if the file is still there, the score and the loss, and `command`, the command line that
    was run ("" if there was none). `score` and `loss` name what is computed from class scores. Later checks refuse a
    file with this hash, since the rule was made to fit it.
    """
    names = {"score": score, "loss": loss}
    if not predictions.has_class_scores:  # a column of confidences has no score, and a loss of its own
        names = {"loss": predictions.loss_name}
    file = Path(predictions.path)
    return {
        "data": file.name,
        "sha256": sha256_of(file) if file.is_file() else None,
        "command": command or None,
        **names,
    }


def pack_texts(texts: Sequence[str]) -> str:
    """Compress the JSON of rules to text for the page; the function `unpackRules` of `assets/page.js` reads it.

    `texts` has the JSON of each rule, an empty text for a risk that cannot be promised. Rules are written with the
    default separators of `json.dumps`, so that the shared part is found in them. The summary of the calibration
    confidences, the value of "reference", is the same in all rules of a model and about half of each: it is stored
    once, at the front, and replaced by a short mark in each text. The result is base64 of the gzip of a JSON list of
    texts.
    """
    reference = ""  # the summary, written as it stands in each text; "" if there is no rule
    first_rule = next(filter(None, texts), None)
    if first_rule is not None:
        reference = json.dumps(json.loads(first_rule)["reference"])
    shortened = [text.replace(reference, _SHARED_PART) if reference else text for text in texts]
    # no time of making in the file, so that the same rules give the same page
    packed = gzip.compress(json.dumps([reference, *shortened]).encode("utf-8"), mtime=0)
    return base64.b64encode(packed).decode("ascii")
