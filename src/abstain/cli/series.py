"""A look of a series of checks: state read and kept under a lock, every file counted once, the verdict first."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from abstain import _tables
from abstain._outputs import locked
from abstain.cli import options as opt
from abstain.cli.main import ALARM, complain
from abstain.cli.screen import deliver, show_notes, write
from abstain.errors import AbstainError
from abstain.formats.safety import display_name, file_error
from abstain.thresholds import Check, GroupChecks
from abstain.thresholds.monitoring import with_files, without_clusters

_MEMORY = ("clusters_seen", "files")  # fields that are no result, and long


def sha256_of(path: str | Path) -> str:
    """The hash of a file, as `sha256sum` prints it."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True, kw_only=True)
class Look:
    """The data of one look, and where its series is kept.

    Attributes
    ----------
    files : sequence of str
        The files of this look, one for each model.
    only : mapping
        The rows that were read, where not all of them were (`--only`): other rows of a file are other data.
    calibration : sequence of str
        SHA-256 of the files that the rule was made from.
    state : str or None
        Where the series is kept.
    """

    files: Sequence[str]
    only: Mapping[str, str]
    calibration: Sequence[str]
    state: str | None

    def hashes(self) -> dict[str, str]:
        """The files by the hash under which they are remembered. The calibration file is refused."""
        by_hash = {}
        for path in self.files:
            digest = sha256_of(path)
            if digest in self.calibration and not self.only:
                message = (
                    "these are the data that the rule was made from, which cannot check it. Give later data."
                )
                raise file_error(path, message)
            if digest in self.calibration:
                opt.say(
                    f"note: the rule was made from {display_name(path)}; --only must leave those rows out."
                )
            if self.only:
                rows = json.dumps(sorted(self.only.items()))
                digest = hashlib.sha256(f"{digest} {rows}".encode()).hexdigest()
            by_hash[digest] = path
        return by_hash


def hold_look(
    check: Callable[[Any], Any],
    kind: type[Check] | type[GroupChecks],
    look: Look,
    out: opt.Output,
    notes: list[str],
) -> None:
    """Check the data of a look, say the verdict, and only then keep the state.

    Whatever fails around it, the verdict is said and an alarm is exit code 5. A state that cannot be locked, read or
    written is reported as well, and the look is not kept.

    Parameters
    ----------
    check : callable
        Takes the check before this look (or None) and gives the one after it.
    kind : type
        `Check`, or `GroupChecks` for a rule by group.
    look : Look
        The data.
    out, notes
        How to print, and what else to say.
    """
    hashes = look.hashes()
    problems: list[Exception] = []
    with ExitStack() as stack:
        previous = None
        if look.state is not None:
            try:
                stack.enter_context(locked(look.state))
            except AbstainError as error:
                problems.append(error)
            try:
                previous = kind.load(look.state) if os.path.lexists(look.state) else None
            except (AbstainError, OSError) as error:
                problems.append(error)
                opt.say("note: the series could not be read, so this look is checked by itself.")
        result: Check | GroupChecks
        counted = () if previous is None else previous.files
        repeated = [path for digest, path in hashes.items() if digest in counted]
        if previous is not None and repeated:
            check(without_clusters(previous))  # refuses a series that was begun with another rule
            result = previous
            opt.say(
                f"note: {display_name(repeated[0])} was counted in this series before, so nothing is added."
            )
        else:
            result = with_files(check(previous), hashes)
        may_keep = look.state is not None and not problems
        try:
            show_check(result, out, notes)
        except Exception as error:
            problems.append(error)
        if may_keep and not repeated:
            try:
                write(str(look.state), result.to_json())
            except (AbstainError, OSError) as error:
                problems.append(error)
                may_keep = False
    if look.state is not None and not may_keep:
        opt.say(f"abstain: this look is not kept in {display_name(look.state)}.")
    if not result.holds:
        for problem in problems:
            complain(problem)
        click.get_current_context().exit(ALARM)
    if problems:
        raise problems[0]


def show_check(result: Check | GroupChecks, out: opt.Output, notes: list[str]) -> None:
    """Print or write what later data say."""
    rows = result.checks if isinstance(result, GroupChecks) else {"all": result}
    names = [*(f.name for f in fields(Check) if f.name not in _MEMORY), "holds"]
    columns = {"group": list(map(str, rows)), **_tables.collect_columns(list(rows.values()), names)}

    def draw(on: Console) -> None:
        on.print(Text(repr(result)))
        show_notes(on, notes)

    deliver(out, result, "holds" if result.holds else "alarm", draw, columns=columns, latex=repr(result))
