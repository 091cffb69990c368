"""The command lines that apply a cascade to later files, and check it: with the reading options of its own command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from abstain.thresholds.rules import Origin

# Options that say how files are read; the others choose a rule, or say where the result goes.
_COLUMN_OPTIONS = ("-c", "--column")
_READING_OPTIONS = (
    *_COLUMN_OPTIONS,
    "--as",
    "--classes",
    "--confidence",
    "--format",
    "--grades",
    "--memory",
    "--missing",
    "--only",
    "--outside",
    "--refusals",
    "--scale",
    "--tolerance",
    "--unanswered",
)
_TRUTH_ROLES = ("labels", "correct", "loss", "error")  # columns that new cases do not have yet


def later_command(
    names: Sequence[str], origins: Mapping[str, Origin], *, action: Sequence[str], has_truth: bool
) -> str:
    """Return a command line for later files of the stages: how they are read, then `action`.

    Files are called later-NAME with the ending of the calibration file (.csv where that is not known). Without
    `has_truth`, columns of right answers and grades are left out.
    """
    files = []
    for name in names:
        data = origins[name].data if name in origins else None
        files.append(f"later-{name}{Path(data or '').suffix or '.csv'}")
    command = next((origin.command for origin in origins.values() if origin.command), "")
    options = _reading_options(command, has_truth=has_truth)
    return shlex.join(["abstain", "cascade", *files, *options, *action])


def _reading_options(command: str, *, has_truth: bool) -> list[str]:
    """Return the arguments of a command line that say how files are read, in their order; [] for an empty one.

    >>> _reading_options("abstain cascade a.csv b.csv -c labels=y -c confidence=p --cost 1,2", has_truth=False)
    ['-c', 'confidence=p']
    """
    options: list[str] = []
    words = iter(shlex.split(command))
    for word in words:
        flag, has_value, value = word.partition("=")
        if flag not in _READING_OPTIONS or not flag.startswith("-"):
            continue
        if not has_value:
            value = next(words, "")
        is_truth = flag in _COLUMN_OPTIONS and value.partition("=")[0].strip() in _TRUTH_ROLES
        if has_truth or not (is_truth or flag == "--grades"):
            options += [flag, value]
    return options
