"""The decision record: what was decided, on which data, with which promise, in words that a committee can file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from abstain.errors import InputError
from abstain.thresholds.rules import GroupThresholds, Origin, Threshold


@dataclass(frozen=True, kw_only=True)
class RecordParts:
    """What a page says of one kind of rule, a list of lines for each section; `decision_record` lays it out.

    `decide` and `check` are the commands that apply the rule and that hold later data against it.
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


class Recorded(Protocol):
    """A rule of another package that writes its own parts, as `abstain.Cascade` does."""

    def record_parts(self, saved_as: str) -> RecordParts:
        """The parts of its page; `saved_as` is the name of the rule's file."""


def decision_record(
    rule: Threshold | GroupThresholds | Recorded,
    *,
    saved_as: str | None = None,
    date: datetime | None = None,
) -> str:
    """A page of Markdown to be filed beside a rule: date, data, promise, assumptions, what voids it, how to check it.

    Parameters
    ----------
    rule : Threshold, GroupThresholds or Cascade
        What `select_threshold` or `cascade` gave; `made_from` tells it its data.
    saved_as : str, optional
        The name of the rule's file, for the commands that the page shows.
    date : datetime, optional
        When the decision was made, with its time zone; shown in UTC. By default now.

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
    file = Path(
        saved_as or "rule.json"
    ).name  # the page is passed on: it names files, not the author's folders
    parts = _parts(rule, file) if isinstance(rule, (Threshold, GroupThresholds)) else rule.record_parts(file)
    later = [
        f"- Decide on new cases: `{parts.decide}`",
        f"- Hold labelled cases against it: `{parts.check}`",
        "- The series goes on from one run to the next and may be looked at as often as one likes. While the promise",
        "  holds and the confidences are distributed as in calibration, it ever raises an alarm with probability at",
        f"  most {parts.delta:g}.",
        "- Exit code 5 is an alarm: stop accepting, find out what changed, and calibrate again.",
    ]
    sections = {
        "The rule": parts.rule,
        "The promise": parts.promise,
        "The data": parts.data,
        "What is assumed": parts.assumptions,
        "What voids it": parts.voids,
        "How to check it later": later,
    }
    lines = [f"# {parts.title}", "", f"Date: {moment:%Y-%m-%d %H:%M} UTC"]
    for heading, text in sections.items():
        lines += ["", f"## {heading}", "", *text]
    return "\n".join(lines) + "\n"


def facts_as_list(facts: dict[str, Any]) -> list[str]:
    """A line for each fact that is known."""
    return [f"- {name}: {text}" for name, text in facts.items() if text]


def assumptions_of(
    clusters: int | None, draws: str = "independent draws from one population", models: str = "model"
) -> list[str]:
    """What every promise assumes."""
    unit = "samples" if clusters is None else "clusters (whole patients, documents, sites)"
    return [
        f"- Calibration {unit} and later ones are {draws}.",
        f"- The calibration data were not used to train or tune the {models}, a score or a temperature.",
        f"- The {models}, preprocessing and scores stay as they were.",
    ]


def voids_of(clusters: int | None, scores: str, models: str = "model") -> list[str]:
    """What ends every promise."""
    lines = [
        f"- Another {models}, another version, or another score than {scores}.",
        "- Another population: another scanner, hospital, language or season than in the calibration data.",
        "- Choosing among several such rules by what they did on these data, or looking again until one passes.",
        "- An alarm of the check below.",
    ]
    if clusters is None:
        lines.append("- Samples of one patient (document, site) counted as independent.")
    return lines


def largest_cluster(largest: float | None, group: Any = "") -> str:
    """What a promise about clusters assumes of their size."""
    size = f"- No later cluster{_of_group(group)} holds more than {largest:g} samples."
    return f"{size} Within one, anything may depend."


def _of_group(group: Any) -> str:
    return f" of group {group}" if group != "" else ""


def _parts(rule: Threshold | GroupThresholds, file: str) -> RecordParts:
    """The parts for a threshold, or for one in each group."""
    rules = rule.thresholds if isinstance(rule, GroupThresholds) else {"": rule}
    first = next(iter(rules.values()))
    origin = first.origin or Origin("confidence")
    promise = [rule.guarantee or "None: this rule promises nothing."]
    if isinstance(rule, GroupThresholds):
        promise += [f"- {group}: {t.guarantee or 'none'}" for group, t in rules.items()]
    promise += [f"- Note: {t.note}" for t in rules.values() if t.note]
    return RecordParts(
        title="Decision record: when the model's answer is accepted",
        rule=_rule_lines(rules, origin),
        promise=promise,
        data=_data(rules, origin, rule.delta),
        assumptions=_assumed(first, rules),
        voids=voids_of(first.clusters, origin.score or "confidence"),
        decide=f"abstain decide {file} new.csv -o decided.csv",
        check=f"abstain threshold later.csv --check {file} --state series.json",
        delta=rule.delta,
    )


def _rule_lines(rules: dict[Any, Threshold], origin: Origin) -> list[str]:
    lines = []
    for group, t in rules.items():
        where = f" for group {group}" if group != "" else ""
        plain = ""
        if origin.score and t.origin and t.origin.plain is not None:
            comparison = "above" if t.lies_above else "at least"
            plain = f" (as a plain {origin.score}: {comparison} {t.origin.plain:.6g})"
        lines.append(f"- Accept{where}: {t.rule}{plain}. All other cases go to a person.")
        if t.feasible:
            lines.append(
                f"  On the calibration data: coverage {t.coverage:.4f}, risk {t.risk:.4g}, n = {t.n:,}."
            )
    return lines


def _data(rules: dict[Any, Threshold], origin: Origin, delta: float) -> list[str]:
    rule = next(iter(rules.values()))
    low, high = rule.bounded
    loss = origin.loss or "the user's own"
    clusters = {
        f"clusters{_of_group(group)}": t.clusters and f"{t.clusters:,}, the largest of {t.largest:g} samples"
        for group, t in rules.items()
    }
    return facts_as_list(
        {
            "file": origin.data,
            "SHA-256": origin.sha256,
            "samples": f"{sum(t.n for t in rules.values()):,}",
            **clusters,
            "input": origin.kind,
            "score": origin.score or "confidences of the user's own",
            "loss": f"{loss}, between {low:g} and {high:g}",
            "asked for": f"{rule.form} {rule.target:g}, method {rule.method}, delta {delta:g}",
            "command": origin.command and f"`{origin.command}`",
            "abstain": origin.version,
        }
    )


def _assumed(rule: Threshold, rules: dict[Any, Threshold]) -> list[str]:
    draws = "independent draws from one population"
    if any(t.reference.n != t.n for t in rules.values()):
        draws = "independent draws, later ones from the population that the sample weights stand for"
    lines = assumptions_of(rule.clusters, draws)
    if rule.clusters is not None:
        lines += [largest_cluster(t.largest, group) for group, t in rules.items()]
    if rule.method == "sgr":
        lines.append("- The risk never falls as more is accepted.")
    return lines
