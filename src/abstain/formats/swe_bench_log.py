"""Reports of SWE-bench: lists of instances that were submitted, resolved, or left without a patch, or one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from abstain.formats.columns import LogFacts
from abstain.formats.log_rows import LoadJson, LogContent, Row, float_or_none, get_nested
from abstain.formats.safety import file_error

# Names of the lists in the report of a run, and in the older results of the leaderboard.
_NAMES_OF_RESOLVED = ("resolved_ids", "resolved")
_NAMES_OF_SUBMITTED = ("submitted_ids", "generated")
_NAMES_OF_WITHOUT_PATCH = ("empty_patch_ids", "no_generation")


def is_swe_bench_report(content: Any) -> bool:
    """Return whether parsed JSON is a report with the lists of submitted and of resolved instances."""
    return (
        _first_list_of_ids(content, _NAMES_OF_RESOLVED) is not None
        and _first_list_of_ids(content, _NAMES_OF_SUBMITTED) is not None
    )


def is_instance_reports(content: Any) -> bool:
    """Return whether parsed JSON has the reports of instances by their ids, one or several of them."""
    if not isinstance(content, dict) or not content:
        return False
    return all(
        isinstance(get_nested(report, "resolved"), bool)
        and isinstance(get_nested(report, "patch_exists"), bool)
        for report in content.values()
    )


def read_instance_reports(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Read reports of instances: one row per instance, "resolved" as it is reported; without a patch, no answer.

    `content` maps the id of each instance to its report, which has the truth values "resolved" and "patch_exists" (the
    file was recognised by them). `path` and `load_json`, which all readers of logs take, are not used. "resolved" is
    1.0 or 0.0, "answered" a truth value.
    """
    # the rows, and what their columns mean: right or wrong, the question, whether there is an answer
    return _make_content(
        {
            "question": instance_id,
            "resolved": float(report["resolved"]),
            "answered": report["patch_exists"],
        }
        for instance_id, report in content.items()
    )


def lists_resolved_only(content: Any) -> bool:
    """Return whether parsed JSON is a result of the leaderboard that lists the resolved instances alone.

    Such a file has the lists "resolved", "no_generation" and "no_logs" and no other list of instances.
    """
    if is_swe_bench_report(content):
        return False
    return all(
        _first_list_of_ids(content, (name,)) is not None for name in ("resolved", "no_generation", "no_logs")
    )


def refuse_resolved_only(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Raise DataError: the instances that failed are not named, so that nothing is known of them."""
    raise file_error(
        path,
        "is a result of SWE-bench that names the resolved instances and not those that failed. Name the report of the "
        "run, which has submitted_ids.",
    )


def _first_list_of_ids(content: Any, names: tuple[str, ...]) -> list[str] | None:
    """Return the list of ids under the first of these names that the report has; None where it has none."""
    for name in names:
        ids = get_nested(content, name)
        if isinstance(ids, list) and all(isinstance(instance_id, str) for instance_id in ids):
            return ids
    return None


def read_swe_bench(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Read a report: one row per submitted instance, "resolved" where its tests pass; without a patch, no answer.

    Instances that were not submitted are not in the report's lists; a note says how many. DataError where an instance
    is resolved that was not submitted. `content` is the parsed file; `load_json`, which all readers of logs take, is
    not used. The constants `_NAMES_OF_...` hold the names that versions of the report give a list.
    """
    # each list of ids is found by the name of the current or of an older version
    resolved = set(_first_list_of_ids(content, _NAMES_OF_RESOLVED) or ())
    without_patch = set(_first_list_of_ids(content, _NAMES_OF_WITHOUT_PATCH) or ())
    # in the order of the report, without repeats; in older reports, those without a patch are not in the list
    submitted = list(
        dict.fromkeys([*(_first_list_of_ids(content, _NAMES_OF_SUBMITTED) or ()), *without_patch])
    )
    if not resolved <= set(submitted):
        raise file_error(path, "names resolved instances that were not submitted.")
    rows: list[Row] = [
        {
            "question": instance_id,
            "resolved": float(instance_id in resolved),
            "answered": instance_id not in without_patch,
        }
        for instance_id in submitted
    ]
    notes = []
    expected_count = float_or_none(get_nested(content, "total_instances"))
    if expected_count is not None and len(rows) < expected_count < math.inf:
        notes.append(
            f"{len(rows):,} of {int(expected_count):,} instances were submitted; the others are left out."
        )
    return _make_content(rows, notes)


def _make_content(rows: Iterable[Row], notes: Iterable[str] = ()) -> LogContent:
    """Return the rows of instances with what their columns mean, and notes."""
    facts = LogFacts(
        tool="SWE-bench",
        column_of_role={"correct": "resolved", "answered": "answered", "question": "question"},
        possible_correctness_columns=("resolved",),
        descriptions={"answered": "there is a patch"},
        notes=tuple(notes),
    )
    return LogContent(list(rows), facts)
