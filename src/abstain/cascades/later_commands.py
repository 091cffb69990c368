"""The command lines that apply a cascade to later files, and check it: with the reading options of its own command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from abstain.thresholds.later_options import reading_options
from abstain.thresholds.rules import Origin


def later_command(
    names: Sequence[str], origins: Mapping[str, Origin], *, action: Sequence[str], has_truth: bool
) -> str:
    """Return a command line for later files of the stages: how they are read, then `action`.

    `names` are those of the stages, in their order. `origins` holds by stage the name of its calibration file (`data`)
    and the command that was run, as far as they are known: later files are read by the options of that command. They
    are called later-NAME with the ending of the calibration file (.csv where that is not known). Without `has_truth`,
    columns of right answers and grades are left out. The text is quoted for a shell; it is shown in the decision
    record.
    """
    files = []
    for name in names:
        data = origins[name].data if name in origins else None
        files.append(f"later-{name}{Path(data or '').suffix or '.csv'}")
    command = next((origin.command for origin in origins.values() if origin.command), "")
    # the options of that command that say how files are read; none of an empty command
    options = reading_options(command, has_truth=has_truth)
    return shlex.join(["abstain", "cascade", *files, *options, *action])
