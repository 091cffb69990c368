"""`combine_signals`: one confidence from several signals, without a single label."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from abstain._arrays import ArrayLike
from abstain._check import check_choice, refuse_other_row_order
from abstain.confidence.combinations import choose_combination, mean_of_ranks
from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import Columns, read_inputs, read_row_weights
from abstain.confidence.learned import LearnedConfidence
from abstain.confidence.models import ConfidenceModel
from abstain.errors import InputError

_NAME = "combine_signals"
Weights = Literal["auto", "ranks"]


@refuse_other_row_order
def combine_signals(
    *,
    signals: Columns,
    features: Columns | None = None,
    weights: Weights = "auto",
    sample_weight: ArrayLike | None = None,
) -> LearnedConfidence:
    """Combine several signals into one confidence without labels.

    Each signal is replaced by its rank among these rows; the mean of the ranks is the confidence, and a missing signal
    has the lowest rank. Language models' token probability, stated number, stated words and length of the answer have
    weights that come with the package, learned on other models. They are used where the signals are there, are missing
    as rarely, and correlate as they did in learning; otherwise the mean of ranks is, and the notes say why.

    Parameters
    ----------
    signals : dict of array, shape (n,)
        Confidences by name, higher = surer; None or NaN where missing. The shipped weights are for
        "token_probability", "stated_number" and "stated_words".
    features : dict of array, shape (n,), optional
        Other numbers; only "length" is read, by the shipped weights.
    weights : {"auto", "ranks"}
        "ranks": always the mean of ranks.
    sample_weight : array, shape (n,), optional
        The mass of each row in the distributions that ranks refer to.

    Returns
    -------
    LearnedConfidence
        Call it with the same inputs. New rows are ranked among the rows given here, so it may be applied to one row.
        `kept` says which combination it is, `notes` why.

    Raises
    ------
    InputError, ShapeError, DtypeError
        If there is no signal that varies, or inputs do not fit each other.

    Examples
    --------
    >>> combined = combine_signals(signals={"token": [0.9, 0.8, 0.1], "stated": [90, None, 50]})
    >>> combined.kept
    'mean of ranks'
    >>> combined(signals={"token": [0.9, 0.1], "stated": [90, 50]}).round(3).tolist()
    [0.792, 0.208]
    """
    check_choice(_NAME, "weights", weights, get_args(Weights))
    table = read_inputs(_NAME, signals=signals, features=features)
    row_weight = read_row_weights(_NAME, sample_weight, table.row_count)
    notes = []
    for name, column in table.numbers.items():
        values = column[~np.isnan(column)]
        if not len(values) or bool(np.all(values == values[0])):
            notes.append(f"{name!r} was left out: it is constant or missing everywhere.")
            table = table.without(name)
    if not table.signals:
        raise InputError(f"{_NAME}: needs a signal that varies, got none. {' '.join(notes)}".rstrip())
    profile = InputProfile.of(table, row_weight)
    if weights == "ranks":
        combination = mean_of_ranks(profile, "asked for")
    else:
        combination = choose_combination(table, profile)
    used = [name for name in table.numbers if name in combination.model.references]
    for name in table.numbers:
        if name not in used:
            notes.append(f"{name!r} was not used: the {combination.name} does not read it.")
            table = table.without(name)
    notes.append(f"{combination.name.capitalize()}: {combination.reason}.")
    return LearnedConfidence(
        model=ConfidenceModel(profile=profile.restricted_to(table), combination=combination.model),
        kept=combination.name,
        keep="lowest",
        candidates=(),
        contributions=(),
        level=0.95,
        n=table.row_count,
        clusters=None,
        folds=0,
        fitted=None,
        notes=tuple(notes),
    )
