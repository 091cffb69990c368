"""Which combination of signals needs no labels: the shipped weights where they apply, otherwise the mean of ranks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import InputTable
from abstain.confidence.rank_model import RankModel
from abstain.confidence.shipped_weights import load_shipped_weights
from abstain.confidence.signal_ranks import MIDDLE_RANK

MEAN_OF_RANKS = "mean of ranks"
SHIPPED_WEIGHTS = "shipped weights"
_MIN_ROWS = 50  # fewer rows do not tell whether signals behave as in learning


class Combination(NamedTuple):
    """A combination of signals, what it is called, and why this one was taken."""

    model: RankModel
    name: str
    reason: str


def mean_of_ranks(profile: InputProfile, reason: str) -> Combination:
    """The mean of the ranks of all signals of a profile; a missing signal counts as the lowest rank.

    A rank is the share of the rows below a value and half of those equal to it. `reason` says why this combination was
    taken; notes show it. `profile` holds the distribution of every input in the rows that are learned from, and must
    have a signal.
    """
    names = profile.signal_names  # inputs that are confidences, without other numbers
    share = np.full(len(names), 1 / len(names))
    # it adds up, for each signal: linear * rank + square * rank^2, and `missing` where the signal is missing
    model = RankModel(
        references={name: profile.numbers[name] for name in names},
        linear=share,
        square=np.zeros(len(names)),
        missing=-MIDDLE_RANK * share,  # a missing signal has the middle rank, which this takes away
    )
    return Combination(model, MEAN_OF_RANKS, reason)


def choose_combination(table: InputTable, profile: InputProfile) -> Combination:
    """The shipped weights if these rows resemble those they were learned on, otherwise the mean of ranks.

    The shipped weights come with the package and were learned on other data. A role is one of their inputs, such as
    "token_probability", whatever the user calls it. `profile` holds the distribution of every input of the table.
    `table` holds the inputs of all rows: signals (confidences), other numbers and categories by name, and class scores.
    Both must have at least one signal. The second argument of `mean_of_ranks` is the reason that is shown to the user.
    """
    shipped = load_shipped_weights()
    # the name of the input of each role; or a text that says which one is missing
    names = shipped.find_columns(tuple(table.numbers))  # of the signals and the other numbers
    if isinstance(names, str):
        return mean_of_ranks(profile, f"no weights were learned for these signals: {names}")
    if table.row_count < _MIN_ROWS:  # 50
        too_few = f"{table.row_count} rows do not tell whether the signals behave as in learning"
        return mean_of_ranks(profile, f"{too_few}, it takes {_MIN_ROWS}")
    columns = {role: table.numbers[name] for role, name in names.items()}
    references = {role: profile.numbers[name] for role, name in names.items()}
    refusal = shipped.refusal(columns, references)  # why these rows are too different; "" if they are not
    if refusal:
        return mean_of_ranks(profile, f"the shipped weights are not for such rows: {refusal}")
    return with_shipped_weights(profile)


def with_shipped_weights(profile: InputProfile) -> Combination:
    """The combination by shipped weights; the profile must have all of its inputs."""
    shipped = load_shipped_weights()
    names = shipped.find_columns(tuple(profile.numbers))
    assert not isinstance(names, str)
    references = {role: profile.numbers[name] for role, name in names.items()}
    reason = f"version {shipped.version}, learned on {shipped.learned_on}"
    return Combination(shipped.make_model(names, references), SHIPPED_WEIGHTS, reason)
