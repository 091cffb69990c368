"""One look of a series of checks: the state is read and saved under a lock, and each file counts once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.text import Text

from abstain import _tables
from abstain._outputs import locked
from abstain.cli import options as opt
from abstain.cli.main import ALARM, print_error
from abstain.cli.screen import deliver, show_notes, write_file
from abstain.errors import AbstainError, DataError
from abstain.formats import Predictions
from abstain.formats.safety import display_name, file_error, sha256_of
from abstain.thresholds import Check, GroupChecks
from abstain.thresholds.counted_rows import CountedAgain, find_counted_again, fingerprint_rows
from abstain.thresholds.monitoring import FILE_DIGITS, with_files, with_rows, without_clusters

# Long fields of a check that are not results.
_STATE_FIELDS = ("clusters_seen", "files", "rows_seen", "recent_looks")
_ABOUT_ALL = 0.75  # their number is estimated from some hundred of them: of 500 copies it may be 400


@dataclass(frozen=True, kw_only=True)
class Look:
    """The data of one look, and where its series is saved. A look is one check of a rule on new data.

    Attributes
    ----------
    files : sequence of str
        The files of this look, one for each model.
    only : mapping
        Which rows were read (`--only`), empty for all: other rows of a file are other data.
    calibration : sequence of str
        SHA-256 of the files that the rule was made from.
    state : str or None
        The file that holds the series, if there is one.
    rows : ndarray or None
        Fingerprints of the rows that count, to find them again in a later look; None where repeated rows are no matter.
    """

    files: Sequence[str]
    only: Mapping[str, str]
    calibration: Sequence[str]
    state: str | None
    rows: np.ndarray | None = None

    def hashes(self) -> dict[str, str]:
        """Map a hash of the rows that were read from each file to its path.

        With `only` (column -> the value whose rows were read; empty for all rows) it is the hash of the file and of the
        selection, since other rows of a file are other data. `calibration` holds the SHA-256 of the files that the rule
        was made from. Raises DataError for such a file; if only some of its rows are read, a note is printed instead.
        """
        path_by_hash = {}
        for path in self.files:
            digest = sha256_of(path)
            if digest in self.calibration and not self.only:
                raise file_error(
                    path, "the rule was made from these data, so they cannot check it. Give later data."
                )
            if digest in self.calibration:
                opt.say(
                    f"note: the rule was made from {display_name(path)}; --only must leave those rows out."
                )
            if self.only:
                rows = json.dumps(sorted(self.only.items()))
                digest = hashlib.sha256(f"{digest} {rows}".encode()).hexdigest()
            path_by_hash[digest] = path
        return path_by_hash


def note_calibration_files(files: Sequence[str], calibration: Sequence[str | None]) -> None:
    """Print a note for each of these files from which the rule was made: what it decides there says little.

    `calibration` holds the SHA-256 of the files that the rule was made from, None where it is not known.
    """
    for path in files:
        if os.path.isfile(path) and sha256_of(path) in calibration:
            opt.say(
                f"note: the rule was made from {display_name(path)}: how it does on these rows says nothing about "
                f"new data."
            )


def fingerprint_predictions(predictions: Predictions, score: str | None) -> np.ndarray:
    """Return a fingerprint of each row of a file, by its confidence and, where the file has ids, its id.

    `score` names the confidence that is computed from class scores; None for a column of confidences.
    """
    ids = None if predictions.ids is None else predictions.ids.as_texts().tolist()
    has_own_ids = ids is not None and len(ids) == predictions.n
    return fingerprint_rows(predictions.compute_or_take_confidence(score), ids if has_own_ids else None)


def run_look(
    check: Callable[[Any], Any],
    check_type: type[Check] | type[GroupChecks],
    look: Look,
    output: opt.Output,
    notes: list[str],
) -> None:
    """Check a rule on the data of one look, print the verdict, and only then save the state of the series.

    A file that the series has counted before adds nothing: the verdict is that of the series so far. So it is for a
    file with all rows of an earlier look, such as an export that grows, which is an error too. The verdict is
    printed, and an alarm ends the program with exit code 5, even if the state cannot be locked, read or written.
    That is reported as well, the look is not saved, and without an alarm the first problem is raised. Raises DataError
    for a look of calibration rows, of which there is no verdict.

    Parameters
    ----------
    check : callable
        Takes the result of the looks before this one (None for the first) and returns the result after it. Raises
        AbstainError if the earlier looks checked another rule.
    check_type : type
        Of the result: `Check`, or `GroupChecks` for a rule by group.
    look : Look
        The files of this look, and the file of the series.
    output : Output
        Where the verdict goes.
    notes : list of str
        Sentences to print after it.
    """
    path_by_hash = look.hashes()
    problems: list[Exception] = []  # reported after the verdict
    with ExitStack() as stack:
        previous = None
        if look.state is not None:
            try:
                stack.enter_context(locked(look.state))
            except AbstainError as error:
                problems.append(error)
            try:
                previous = check_type.load(look.state) if os.path.lexists(look.state) else None
            except (AbstainError, OSError) as error:
                problems.append(error)
                opt.say("note: the series could not be read, so this look is checked by itself.")
        result: Check | GroupChecks
        counted_hashes = () if previous is None else previous.files  # of all looks before
        repeated = [path for digest, path in path_by_hash.items() if digest[:FILE_DIGITS] in counted_hashes]
        again = None
        if previous is not None and look.rows is not None:
            again = find_counted_again(previous.rows_seen, look.rows)
        if previous is not None and repeated:
            check(without_clusters(previous))  # raises if the series was begun with another rule
            result = previous
            opt.say(
                f"note: {display_name(repeated[0])} was counted in this series before, so nothing is added."
            )
        elif previous is not None and again is not None and again.holds_whole_look:
            check(without_clusters(previous))
            result = previous
            problems.append(_repeated_rows_error(look, again))
        else:
            result = check(previous)
            refuse_calibration_rows(look.files[0], *_count_calibration_rows(result, previous))
            result = with_files(result, path_by_hash)
            if look.rows is not None:
                result = with_rows(result, previous, look.rows)
            if again is not None:
                opt.say(
                    f"note: {again.found} of {again.remembered} rows that the series remembers of earlier looks are in "
                    f"{display_name(look.files[0])} too and count again. Give only rows that came since."
                )
        can_save = look.state is not None and not problems
        try:
            show_check(result, output, notes)
        except Exception as error:
            problems.append(error)
        if can_save and not repeated:
            try:
                write_file(str(look.state), result.to_json())
            except (AbstainError, OSError) as error:
                problems.append(error)
                can_save = False
    if look.state is not None and not can_save:
        opt.say(f"abstain: this look is not saved in {display_name(look.state)}.")
    if not result.holds:
        for problem in problems:
            print_error(problem)
        click.get_current_context().exit(ALARM)
    if problems:
        raise problems[0]


def refuse_calibration_rows(file: str, from_calibration: int, n: int) -> None:
    """Raise DataError if about all of n samples are rows of the calibration data: the rule was made to fit them."""
    if from_calibration > _ABOUT_ALL * n:
        raise file_error(
            file,
            f"about {from_calibration:,} of its {n:,} samples are rows that the rule was made from, which proves "
            f"nothing about it. Give data that came after the calibration.",
        )


def _count_calibration_rows(
    result: Check | GroupChecks, previous: Check | GroupChecks | None
) -> tuple[int, int]:
    """Return about how many samples of the last look are calibration rows, and how many samples it has.

    `result` is the series with that look, `previous` the series before it, None where that look is the first. Both
    numbers are summed over groups or promises, so that of several promises each counts every sample. Calibration rows
    are those that the rule was made from; a check recognises them by their confidences.
    """

    def count(series: Check | GroupChecks | None) -> np.ndarray:
        # an empty `Check` counts nothing
        checks = list(series.checks.values()) if isinstance(series, GroupChecks) else [series or Check()]
        return np.array([[check.from_calibration, check.n] for check in checks]).sum(axis=0)

    # both counts are over all looks so far, so what the last look added is their difference
    from_calibration, n = count(result) - count(previous)
    return int(from_calibration), int(n)


def _repeated_rows_error(look: Look, again: CountedAgain) -> DataError:
    """Make the error for a file that holds an earlier look as a whole."""
    return file_error(
        look.files[0],
        f"holds the rows of an earlier look again ({again.found} of the {again.remembered} that the series remembers), "
        f"and a row may count only once, so nothing is added. Give only the rows that came since.",
    )


def show_check(result: Check | GroupChecks, output: opt.Output, notes: list[str]) -> None:
    """Print or write the verdict of a check, with one row per group ("all" without groups) as CSV.

    `notes` are sentences printed after it on the screen. `output` says in which form the result is written, and to
    which file. With a file, one line per alarm (or one in all) goes to stderr too. The caller exits on an alarm.
    """
    check_by_group: dict[Any, Check] = {"all": result} if isinstance(result, Check) else {}
    if isinstance(result, GroupChecks):
        check_by_group = {group: result.checks[group] for group in result.worst_first()}
    # what the next look needs to know of this one (its files, clusters and fingerprints of rows) is left out
    names = [field.name for field in fields(Check) if field.name not in _STATE_FIELDS]
    columns = _tables.collect_columns(list(check_by_group.values()), [*names, "holds"])
    columns = {"group": list(map(str, check_by_group)), **columns}

    def draw(console: Console) -> None:
        console.print(Text(repr(result)))
        show_notes(console, notes)

    verdict = "holds" if result.holds else "alarm"
    if output.path is not None:  # the file may not be looked at, or written
        for label, check in check_by_group.items():
            if isinstance(result, Check) or not check.holds:
                in_group = "" if isinstance(result, Check) else f"{label}: "
                opt.say(in_group + repr(check).splitlines()[0])
        if isinstance(result, GroupChecks) and result.holds:
            opt.say(f"Check: no alarm in {_tables.count_noun(len(check_by_group), 'group')}")
    deliver(output, result, quiet=verdict, draw=draw, columns=columns, latex=repr(result))
