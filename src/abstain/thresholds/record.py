"""The decision record: what was decided, on which data, with which promise, in words that a committee can file."""

from __future__ import annotations

from typing import Any

from abstain.thresholds.threshold import GroupThresholds, Origin, Threshold


def decision_record(rule: Threshold | GroupThresholds, *, saved_as: str | None = None) -> str:
    """A page of Markdown to be filed beside a rule: data, promise, assumptions, what voids it, how to check it.

    Parameters
    ----------
    rule : Threshold or GroupThresholds
        What `select_threshold` gave; `made_from` tells it its data.
    saved_as : str, optional
        The name of the rule's file, for the commands that the page shows.

    Returns
    -------
    str
        Markdown, readable as plain text.

    Examples
    --------
    >>> from abstain import select_threshold
    >>> t = select_threshold([0] * 99 + [1], range(100, 0, -1), risk=0.2)
    >>> print(decision_record(t).splitlines()[0])
    # Decision record: when the model's answer is accepted
    """
    rules = rule.thresholds if isinstance(rule, GroupThresholds) else {"": rule}
    first = next(iter(rules.values()))
    origin = first.origin or Origin("confidence")
    lines = ["# Decision record: when the model's answer is accepted", "", "## The rule", ""]
    for group, t in rules.items():
        of = f" for group {group}" if group != "" else ""
        plain = ""
        if origin.score and t.origin and t.origin.plain is not None:
            from_where = "above" if t.lies_above else "at least"
            plain = f" (as a plain {origin.score}: {from_where} {t.origin.plain:.6g})"
        lines.append(f"- Accept{of}: {t.rule}{plain}. All other cases go to a person.")
        if t.feasible:
            seen = f"coverage {t.coverage:.4f}, risk {t.risk:.4g}, n = {t.n:,}"
            lines.append(f"  On the calibration data: {seen}.")
    lines += ["", "## The promise", "", rule.guarantee or "None: this rule promises nothing."]
    if isinstance(rule, GroupThresholds):
        lines += [f"- {group}: {t.guarantee or 'none'}" for group, t in rules.items()]
    lines += [f"- Note: {t.note}" for t in rules.values() if t.note]
    lines += ["", "## The data", "", *_data(rules, origin, rule.delta)]
    lines += ["", "## What is assumed", "", *_assumed(first, rules)]
    lines += ["", "## What voids it", "", *_voids(first, origin), "", "## How to check it later", ""]
    file = saved_as or "rule.json"
    lines += [
        f"- Decide on new cases: `abstain decide {file} new.csv -o decided.csv`",
        f"- Hold labelled cases against it: `abstain threshold later.csv --check {file} --state series.json`",
        "- The series goes on from one run to the next and may be looked at as often as one likes. While the promise",
        f"  holds, its risk ever raises an alarm with probability at most {rule.delta:g}, and so do its confidences.",
        "- Exit code 5 is an alarm: stop accepting, find out what changed, and calibrate again.",
    ]
    return "\n".join(lines) + "\n"


def _of_group(group: Any) -> str:
    return f" of group {group}" if group != "" else ""


def _data(rules: dict[Any, Threshold], origin: Origin, delta: float) -> list[str]:
    rule = next(iter(rules.values()))
    (low, high), loss = rule.bounded, origin.loss or "the user's own"
    known = {
        "file": origin.data,
        "SHA-256": origin.sha256,
        "samples": f"{sum(t.n for t in rules.values()):,}",
        **{
            f"clusters{_of_group(group)}": t.clusters
            and f"{t.clusters:,}, the largest of {t.largest:g} samples"
            for group, t in rules.items()
        },
        "input": origin.kind,
        "score": origin.score or "confidences of the user's own",
        "loss": f"{loss}, between {low:g} and {high:g}",
        "asked for": f"{rule.form} {rule.target:g}, method {rule.method}, delta {delta:g}",
        "command": origin.command and f"`{origin.command}`",
        "abstain": origin.version,
    }
    return [f"- {name}: {text}" for name, text in known.items() if text]


def _assumed(rule: Threshold, rules: dict[Any, Threshold]) -> list[str]:
    unit = "samples" if rule.clusters is None else "clusters (whole patients, documents, sites)"
    drawn = "independent draws from one population"
    if any(t.reference.n != t.n for t in rules.values()):
        drawn = "independent draws, later ones from the population that the sample weights stand for"
    lines = [
        f"- Calibration {unit} and later ones are {drawn}.",
        "- The calibration data were not used to train or tune the model, its score or its temperature.",
        "- The model, its preprocessing and its score stay as they were.",
    ]
    for group, t in rules.items() if rule.clusters is not None else ():
        most = f"- No later cluster{_of_group(group)} holds more than {t.largest:g} samples."
        lines.append(f"{most} Within one, anything may depend.")
    if rule.method == "sgr":
        lines.append("- The risk never falls as more is accepted.")
    return lines


def _voids(rule: Threshold, origin: Origin) -> list[str]:
    lines = [
        f"- Another model, another version of it, or another score than {origin.score or 'confidence'}.",
        "- Another population: another scanner, hospital, language or season than in the calibration data.",
        "- Choosing among several such rules by what they did on these data, or looking again until one passes.",
        "- An alarm of the check below.",
    ]
    if rule.clusters is None:
        lines.append("- Samples of one patient (document, site) counted as independent.")
    return lines
