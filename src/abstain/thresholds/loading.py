"""Load a stored rule, whichever kind of threshold it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from abstain._stored import parse_json, read_record_text
from abstain.errors import DataError
from abstain.thresholds.joint import JointGroupThresholds, JointThreshold
from abstain.thresholds.rules import GroupThresholds, Threshold


def load_rule(path: Any) -> Threshold | GroupThresholds | JointThreshold:
    """The rule that `save` or the command line wrote: a threshold or one per group, with one promise or several.

    Parameters
    ----------
    path : str or path
        A JSON file.

    Returns
    -------
    Threshold, GroupThresholds, JointThreshold or JointGroupThresholds
        Every field checked; anything else is a `DataError`. `JointGroupThresholds` is a kind of `GroupThresholds`.

    Examples
    --------
    >>> import tempfile
    >>> from abstain import select_threshold
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     select_threshold([0, 0, 1], [0.9, 0.8, 0.1], coverage=0.5, method="empirical").save(folder + "/rule.json")
    ...     load_rule(folder + "/rule.json").rule
    'confidence >= 0.8'
    """
    text = read_record_text(path)  # raises DataError if there is no such file, or a huge one
    name = repr(Path(path).name[:60])
    try:
        record = parse_json("load_rule", text)
    except DataError as error:
        reason = str(error).removeprefix("load_rule: ").rstrip(".")
        raise DataError(
            f"load_rule: {name} is no stored rule ({reason}). Give the file that `abstain threshold --save` or `save` "
            f"wrote; `abstain decide` takes the rule first, then the data."
        ) from None
    format_name = str(record.get("format")) if isinstance(record, dict) else ""
    if format_name.startswith(("abstain.Cascade/", "abstain.JointCascade/")):
        remedy = (
            "Load it with `abstain.cascades.load_cascade`, or apply it with `abstain cascade ... --apply`"
        )
        raise DataError(f"load_rule: {name} holds a cascade, not a threshold. {remedy}.")
    if format_name.startswith(("abstain.Check/", "abstain.GroupChecks/")):
        remedy = "It goes with --state; give the rule that it checks"
        raise DataError(f"load_rule: {name} holds a series of checks, not a rule. {remedy}.")
    if format_name.startswith("abstain.LearnedConfidence/"):
        remedy = "Give the rule that was made with it, and this file as --confidence FILE"
        raise DataError(f"load_rule: {name} holds a learned confidence, not a rule. {remedy}.")
    if format_name.startswith("abstain.GroupThresholds/"):
        return GroupThresholds.from_json(text)
    if format_name.startswith("abstain.JointGroupThresholds/"):
        return JointGroupThresholds.from_json(text)
    if format_name.startswith("abstain.JointThreshold/"):
        return JointThreshold.from_json(text)
    return Threshold.from_json(text)  # raises DataError for any other format
