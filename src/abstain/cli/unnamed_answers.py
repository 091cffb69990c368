"""Files of new answers for which the user forgot to name the column that says which questions were answered."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from abstain._tables import count_noun
from abstain.cli.options import say
from abstain.formats import Predictions
from abstain.formats.columns import has_value
from abstain.formats.safety import display_name, file_error
from abstain.thresholds.later_options import answer_columns


def refuse_unnamed_answers(
    rule_file: str, command: str | None, predictions: Predictions, columns: Mapping[str, np.ndarray]
) -> None:
    """Raise DataError if a rule was made with a column that says which questions have an answer, unnamed this time.

    A question without an answer would be accepted by its confidence then, though the rule is about answers.
    `command` is the command line that made the rule, None if it is not known; `columns` are those of the new file by
    name. Where the file has no such column, all its rows may be answers, and a note is printed. A column of predictions
    without gaps is not asked for.
    """
    if predictions.tells_unanswered:
        return
    # the columns that the command named: "prediction" (empty without an answer), or "answered" or "abstained" (yes/no)
    for role, name in answer_columns(command).items():
        option = f"-c {role}={display_name(name)}"
        reason = (
            f"{display_name(rule_file)} was made with {option}, which says which questions have an answer"
        )
        if name not in columns:
            say(
                f"note: {reason}. {display_name(predictions.path)} has no such column, so every row counts as "
                f"answered."
            )
        elif role != "prediction":
            raise file_error(predictions.path, f"{reason}. Name the column here too: {option}.")
        else:
            empty_count = _count_empty(columns[name])
            if empty_count:
                raise file_error(
                    predictions.path,
                    f"{reason}, and {count_noun(empty_count, 'row')} here {'has' if empty_count == 1 else 'have'} "
                    f"none. Name the column here too: {option}.",
                )


def _count_empty(values: np.ndarray) -> int:
    """Return the number of rows whose cell is empty: a blank text, None or NaN."""
    if values.dtype.kind in "biuf":
        return int((~has_value(values)).sum())
    return sum(value is None or not str(value).strip() for value in values.ravel().tolist())
