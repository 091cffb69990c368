"""The decision record: what was decided, on which data, with which promise, in words that a committee can file."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from abstain.errors import InputError
from abstain.thresholds.later_options import cluster_column, reading_options
from abstain.thresholds.rules import GroupThresholds, Origin, Threshold, key_text

NO_GROUP = ""  # stands for the label of a group where there are no groups


@dataclass(frozen=True, kw_only=True)
class RecordParts:
    """What a page says of one kind of rule, a list of lines for each section; `decision_record` lays it out.

    `decide` and `check` are the commands that apply the rule and that hold later data against it. `would_help` says
    what would help if nothing could be promised; it is empty for a rule that answers.
    """

    title: str
    rule: list[str]
    promise: list[str]
    data: list[str]
    assumptions: list[str]
    voids: list[str]
    decide: str
    check: str
    delta: float
    would_help: list[str] = field(default_factory=list)


@runtime_checkable
class Recorded(Protocol):
    """A rule of another package that writes its own parts, as `abstain.Cascade` does."""

    def record_parts(self, saved_as: str) -> RecordParts:
        """The parts of its page; `saved_as` is the name of the rule's file."""

    def to_json(self) -> str:
        """The content of the rule's file."""


def decision_record(
    rule: Threshold | GroupThresholds | Recorded,
    *,
    saved_as: str | None = None,
    date: datetime | None = None,
    model: str | None = None,
) -> str:
    """A page of Markdown to be filed beside a rule: date, data, promise, assumptions, what voids it, how to check it.

    Parameters
    ----------
    rule : Threshold, GroupThresholds or Cascade
        What `select_threshold` or `cascade` gave; `made_from` tells it its data.
    saved_as : str, optional
        The name of the rule's file, for the commands that the page shows. Without it the page says that the rule was
        saved nowhere, or elsewhere; the hash of the rule is on the page in any case.
    date : datetime, optional
        When the decision was made, with its time zone; shown in UTC. By default now.
    model : str, optional
        The model's name and version, as the reader knows it; without it the page leaves room for it.

    Returns
    -------
    str
        Markdown, readable as plain text.

    Examples
    --------
    >>> from abstain import select_threshold
    >>> t = select_threshold([0] * 99 + [1], range(100, 0, -1), risk=0.2)
    >>> print("\\n".join(decision_record(t, date=datetime(2026, 5, 4, 9, 30, tzinfo=UTC)).splitlines()[:3]))
    # Decision record: when the model's answer is accepted
    <BLANKLINE>
    Date: 2026-05-04 09:30 UTC
    """
    if date is not None and date.tzinfo is None:
        raise InputError(f"decision_record: `date` must have a time zone, got {date}. Give tzinfo=UTC.")
    moment = (date or datetime.now(UTC)).astimezone(UTC)
    file_name = Path(saved_as or "rule.json").name  # others read the page: name no folder of the author
    if isinstance(rule, Recorded):
        parts = rule.record_parts(file_name)
    else:
        parts = _describe_thresholds(rule, file_name)
    model_line = f"- model: {model or '____________________ (name and version, to be filled in)'}"
    rule_hash = hashlib.sha256(rule.to_json().encode()).hexdigest()
    file_line = f"- file of this rule: {file_name}, SHA-256 {rule_hash}"
    if saved_as is None:
        file_line = (
            f"- file of this rule: none was named; `{file_name}` below stands for it. As the rule is now, its SHA-256 "
            f"is {rule_hash}"
        )
    sections = {
        "The rule": parts.rule,
        "The promise": parts.promise,
        "The data": [model_line, *parts.data, file_line],
    }
    if parts.would_help:  # there is no promise: nothing ends it, and nothing is to be checked
        sections["What would help"] = parts.would_help
    else:
        sections["What is assumed"] = parts.assumptions
        sections["What voids it"] = parts.voids
        sections["How to check it later"] = [
            f"- Decide on new cases: `{parts.decide}`",
            f"- Hold labelled cases against it: `{parts.check}`",
            "- The series goes on from one run to the next and may be looked at as often as one likes. While the",
            "  promise holds and the confidences are distributed as in calibration, it ever raises an alarm with",
            f"  probability at most {parts.delta:g}.",
            "- Each run also shows the risk of its own data alone, which a long good time before does not hide.",
            "- Exit code 5 is an alarm: stop using the answers, read what it says about the recent risk, and find",
            "  out what changed. If the risk is still too high or no cause is found, calibrate again.",
        ]
    lines = [f"# {parts.title}", "", f"Date: {moment:%Y-%m-%d %H:%M} UTC"]
    for heading, text in sections.items():
        lines += ["", f"## {heading}", "", *text]
    return "\n".join(lines) + "\n"


def list_facts(facts: dict[str, Any]) -> list[str]:
    """A Markdown list item for each fact; facts without a text are left out."""
    return [f"- {name}: {text}" for name, text in facts.items() if text]


def list_assumptions(
    clusters: int | None, draws: str = "independent draws from one population", models: str = "model"
) -> list[str]:
    """Return Markdown list items on what every promise assumes.

    `clusters` is the number of calibration clusters, None without clusters. `draws` says how calibration and later data
    were drawn, after "are". `models` names what was calibrated: "model" or "models".
    """
    unit = "samples" if clusters is None else "clusters (whole ones, with all of their samples)"
    return [
        f"- Calibration {unit} and later ones are {draws}.",
        f"- The calibration data were not used to train or tune the {models}, a score or a temperature.",
        f"- The {models}, preprocessing and scores stay as they were.",
    ]


def list_void_conditions(clusters: int | None, scores: str, models: str = "model") -> list[str]:
    """Return Markdown list items on what ends every promise.

    `clusters` is the number of calibration clusters, None without clusters. `scores` names the confidence scores of the
    rule, `models` what was calibrated: "model" or "models".
    """
    other_models = "Another model" if models == "model" else f"Other {models}"
    lines = [
        f"- {other_models}, another version, or another score than {scores}.",
        "- Another population: cases from other sources or of other kinds than in the calibration data.",
        "- Choosing among several such rules by what they did on these data, or looking again until one passes.",
        "- An alarm of the check below.",
    ]
    if clusters is None:
        lines.append(
            "- Samples that depend on each other (several of one source, copies) counted as independent."
        )
    return lines


def state_cluster_limit(largest: float | None, group: Any = NO_GROUP) -> str:
    """A list item on the size of clusters that a promise assumes; `group` is empty without groups."""
    size = f"- No later cluster{_of_group(group)} holds more than {largest:g} samples."
    return f"{size} Within one, anything may depend."


def describe_clusters(count: int, largest: float | None, command: str | None) -> str:
    """Say how many calibration clusters there are, the size of the largest, and what a cluster is.

    `command` is the command line that made the rule, which names their column; None if it is not known.
    """
    column = cluster_column(command)
    meaning = "" if column is None else f"; a cluster is a `{column}`"
    return f"{count:,}, the largest of {largest:g} samples{meaning}"


def _of_group(group: Any) -> str:
    """Words that name a group; nothing without groups, which is an empty label."""
    return f" of group {group}" if group != NO_GROUP else ""


def decide_command(file_name: str, command: str | None) -> str:
    """Return the command line that applies the rule of a file to new data, read as `command`, which made it, did."""
    options = reading_options(command, has_truth=False)
    return shlex.join(["abstain", "decide", file_name, "new.csv", *options, "-o", "decided.csv"])


def check_command(file_name: str, command: str | None) -> str:
    """Return the command line that checks the rule of a file on later data, read as `command`, which made it, did."""
    options = reading_options(command, has_truth=True)
    return shlex.join(
        ["abstain", "threshold", "later.csv", *options, "--check", file_name, "--state", "series.json"]
    )


def _describe_thresholds(rule: Threshold | GroupThresholds, file_name: str) -> RecordParts:
    """Write the parts of the page for a threshold, or for one threshold in each group.

    Groups share score, data and request, so these are read from any of them. `origin` is where a rule comes from:
    score, data and command. A `cut` with a `learned_name` is that of a learned confidence. `clusters` is the number of
    calibration clusters, None without clusters. `file_name` is that of the rule, for the commands on the page.
    """
    threshold_of_group = rule.thresholds if isinstance(rule, GroupThresholds) else {NO_GROUP: rule}
    any_threshold = next(iter(threshold_of_group.values()))
    # None: nothing is known but that there were confidences
    origin = any_threshold.origin or Origin(kind="confidence")
    # `learned_name` is None unless the rule is for a learned confidence
    score_name = origin.score or any_threshold.cut.learned_name or "confidence"
    any_feasible = any(threshold.feasible for threshold in threshold_of_group.values())
    if isinstance(rule, GroupThresholds):
        promise = _promise_lines_of_groups(rule)
        for group, threshold in threshold_of_group.items():
            promise.append(f"- {group}: {threshold.guarantee or 'none'}")
    else:
        promise = promise_lines(rule)
    promise += [
        f"- Note{_of_group(group)}: {threshold.note}"
        for group, threshold in threshold_of_group.items()
        if threshold.note
    ]
    return RecordParts(
        title="Decision record: when the model's answer is accepted",
        rule=_rule_lines(threshold_of_group),
        promise=promise,
        data=_data_lines(threshold_of_group, origin, rule.delta),
        assumptions=_assumption_lines(threshold_of_group),
        voids=list_void_conditions(any_threshold.clusters, scores=score_name),
        decide=decide_command(file_name, origin.command),
        check=check_command(file_name, origin.command),
        delta=rule.delta,
        would_help=[] if any_feasible else list_advice(threshold_of_group),
    )


def list_advice(rule_of_group: Mapping[Any, Any]) -> list[str]:
    """Markdown list items on what would be feasible, for rules that accept nothing.

    The rules, each with one promise or several, are by group; the only key is `NO_GROUP` without groups. A rule's
    `advice`, as text, says which risk its data certify; None or empty if there is nothing to say.
    """
    lines = []
    for group, rule in rule_of_group.items():
        if rule.advice:
            prefix = "" if group == NO_GROUP else f"{group}: "
            lines.append(f"- {prefix}{rule.advice}")
    return [  # the last line holds for every rule, also for one without advice
        *lines,
        "- Ask for less, calibrate on more labelled samples, or use a better model or confidence.",
    ]


def promise_lines(threshold: Threshold) -> list[str]:
    """State the promise of a threshold in everyday words, then in full, as lines of Markdown.

    `guarantee` is the full sentence, None if nothing is promised.
    """
    if threshold.guarantee is None:
        return ["None: this rule promises nothing."]
    return _words_and_guarantee({NO_GROUP: threshold}, threshold.delta, threshold.guarantee)


def _promise_lines_of_groups(rule: GroupThresholds) -> list[str]:
    """State the joint promise of all groups in everyday words, then in full, as lines of Markdown.

    The promise of each group follows on the page. `guarantee` is the full sentence, None if nothing is promised.
    """
    if rule.guarantee is None:
        return ["None: this rule promises nothing."]
    feasible = {group: threshold for group, threshold in rule.thresholds.items() if threshold.feasible}
    return _words_and_guarantee(feasible, rule.delta, rule.guarantee)


def _words_and_guarantee(
    threshold_of_group: Mapping[Any, Threshold], delta: float, guarantee: str
) -> list[str]:
    """Lines of Markdown that state a promise in everyday words, where it has a short form, then the full `guarantee`.

    All groups have the same request, and each a threshold; the only key is `NO_GROUP` without groups. `delta` is the
    probability that any of these promises fails.

    Of each threshold, `form` is "risk" or "coverage" (a cost promises nothing), and `target` how much of it is
    promised, a risk on the user's scale. `method` "crc" bounds a mean over calibration sets. `evidence` says what the
    promise rests on: `heaviest_sample` is None without sample weights, `zero_one` says that the loss takes only the two
    values `bounded`. `clusters` is the number of calibration clusters, None without clusters.
    """
    thresholds = list(threshold_of_group.values())
    first = thresholds[0]
    has_weights = any(threshold.evidence.heaviest_sample is not None for threshold in thresholds)
    if first.method == "crc" or has_weights:
        # a mean over calibration sets ("crc"), or a promise about reweighted data: neither has a shorter form
        return [guarantee]
    by_group = NO_GROUP not in threshold_of_group
    n = sum(threshold.n for threshold in thresholds)
    count = f"{n:,} cases"
    if by_group:
        count = f"the {count} of {len(thresholds)} groups"
    elif first.clusters is not None:
        count = f"{first.clusters:,} clusters ({count})"
    where = " in each group" if by_group else ""
    kinds = "some kinds of cases within a group" if by_group else "some kinds of cases only"
    if first.form == "coverage":
        promised = f"the model answers at least {first.target:.4g} of all cases{where}"
        scope = "This says nothing about how many of its answers are wrong."
    elif first.evidence.zero_one and first.bounded == (0.0, 1.0):
        promised = f"at most {100 * first.target:.4g}% of the answers that the model gives{where} are wrong"
        scope = f"It is not about a single answer, the count of one month, or {kinds}."
    else:
        promised = f"the mean loss of the answers that the model gives{where} is at most {first.target:.4g}"
        scope = f"It is not about a single answer, the mean of one month, or {kinds}."
    made = "rules were" if by_group else "rule was"
    kept = "rules that keep their promise in every group" if by_group else "a rule that keeps its promise"
    return explain_promise(f"{promised}. {scope}", f"the {made} made from {count}", kept, delta, guarantee)


def explain_promise(promised: str, made_from: str, kept: str, delta: float, guarantee: str) -> list[str]:
    """Lines of Markdown that state a promise in everyday words, then how sure it is, then the full `guarantee`.

    `promised` goes on after "In the long run," and brings its full stop; `made_from` says from what the rule was made,
    and `kept` what most sets of cases lead to, all but a share `delta`.
    """
    return [
        f"In the long run, {promised}",
        "",
        f"How sure this is: {made_from}, drawn at random. Of all such sets of cases, at least "
        f"{100 * (1 - delta):.4g}% lead to {kept}. Whether this set is one of them, nobody can know.",
        "",
        f"In full: {guarantee}",
    ]


def state_rule(threshold: Threshold, rule: str, group: Any = NO_GROUP) -> str:
    """A Markdown list item that states a rule: the number that people know first, then the one that is compared.

    `rule` is the rule in one line; `group` the label that it is for, `NO_GROUP` without groups. `threshold.origin` says
    how the confidences were made, None if that is not known. Its `score` is the name of their score (None for the
    user's own confidences, which have no other number), and its `plain` the threshold as the number that people know,
    such as a probability (None if that was not stored). `threshold.lies_above` says that the threshold is the next
    floating-point number above a confidence that must be rejected. The two look the same in six digits, so the words
    are "above" that number; otherwise an accepted confidence is the threshold, and the words are "at least".
    """
    for_group = "" if group == NO_GROUP else f" for group {group}"
    of_group = _of_group(group)  # the same with "of"
    others = "Cases that are not accepted are not answered by the model."
    if not threshold.feasible:
        return f"- There is no threshold{for_group}: the model answers no case."
    if threshold.value == -np.inf:
        return f"- Accept everything{of_group} that has a confidence. {others}"
    plain = threshold.origin.plain if threshold.origin else None
    if threshold.origin is None or not threshold.origin.score or plain is None:
        return f"- Accept{for_group}: {rule}. {others}"
    comparison = "above" if threshold.lies_above else "at least"
    in_keys = "" if plain == threshold.value else f" (in the rule's file, as a rank key: {rule})"
    number = f"{plain:.6g}"
    if in_keys and number == "1":  # it rounds to 1, but is below: write its distance, such as "1 − 3e-09"
        # not None here; `or` is for type checkers
        number = key_text(threshold.origin.score, float(threshold.value or 0.0))
    return f"- Accept{for_group}: {threshold.origin.score} {comparison} {number}{in_keys}. {others}"


def _rule_lines(threshold_of_group: dict[Any, Threshold]) -> list[str]:
    """Return Markdown list items that state each group's rule, and what it did on the calibration data.

    The only key is `NO_GROUP` if there are no groups. A group without a threshold (not `feasible`) has only the item
    that says so. Risks are on the user's scale.
    """
    lines = []
    for group, threshold in threshold_of_group.items():
        lines.append(state_rule(threshold, threshold.rule, group))
        if threshold.feasible:
            numbers = f"coverage {threshold.coverage:.4f}, risk {threshold.risk:.4g}, n = {threshold.n:,}"
            lines.append(f"  On the calibration data: {numbers}.")
    return lines


def _data_lines(threshold_of_group: dict[Any, Threshold], origin: Origin, delta: float) -> list[str]:
    """Return Markdown list items on the calibration data and on what was asked for.

    All groups share the same request; the only key is `NO_GROUP` if there are no groups. `delta` is that of all groups
    together. `origin` names the score, the loss, the file and the command behind the rules; what is not known is None,
    and left out of the list. `form`, `target` and `method` are what was asked for; a `cut` with a `learned_name` is
    that of a learned confidence. `bounded` are the bounds of the loss. `clusters` is the number of calibration
    clusters, `largest` the samples of the largest; both None without clusters.
    """
    any_threshold = next(iter(threshold_of_group.values()))
    low, high = any_threshold.bounded
    clusters = {}  # facts on the clusters of each group, by heading: "clusters of group a"
    for group, threshold in threshold_of_group.items():
        if threshold.clusters is not None:
            sizes = describe_clusters(threshold.clusters, threshold.largest, origin.command)
            clusters[f"clusters{_of_group(group)}"] = sizes
    score_name = origin.score or any_threshold.cut.learned_name or "confidences of the user's own"
    asked_for = f"{any_threshold.form} {any_threshold.target:g}, method {any_threshold.method}"
    loss_name = origin.loss or "the user's own"
    sample_count = sum(threshold.n for threshold in threshold_of_group.values())
    return list_facts(
        {
            "file": origin.data,
            "SHA-256": origin.sha256,
            "samples": f"{sample_count:,}",
            **clusters,
            "input": origin.kind,
            "score": score_name,
            "loss": f"{loss_name}, between {low:g} and {high:g}",
            "asked for": f"{asked_for}, delta {delta:g}",
            "command": None if origin.command is None else f"`{origin.command}`",
            "abstain": origin.version,
        }
    )


def _assumption_lines(threshold_of_group: dict[Any, Threshold]) -> list[str]:
    """Return Markdown list items on what the promise assumes of weights, clusters and the method.

    The only key is `NO_GROUP` if there are no groups. All groups have the same method, and all come in clusters or
    none; `clusters` is their number, None without clusters. Method "sgr" searches over ranks and does not test each.
    """
    any_threshold = next(iter(threshold_of_group.values()))
    # `reference.n` adds up weights over the largest weight: it equals the number of samples `n` if all weigh the same
    has_weights = any(threshold.reference.n != threshold.n for threshold in threshold_of_group.values())
    draws = "independent draws from one population"
    if has_weights:
        draws = "independent draws, later ones from the population that the sample weights stand for"
    lines = list_assumptions(any_threshold.clusters, draws)
    if any_threshold.clusters is not None:
        for group, threshold in threshold_of_group.items():
            samples_in_largest_cluster = threshold.largest
            lines.append(state_cluster_limit(samples_in_largest_cluster, group))
    if any_threshold.method == "sgr":
        lines.append("- The risk never falls as more is accepted.")
    return lines
