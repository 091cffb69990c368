"""Weights for combining signals without labels, learned on other models, and when they may be used.

`benchmarks/signal_weights.py` made the file; it says on which models and questions.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Annotated, Any, ClassVar

import numpy as np

from abstain._stored import Share, Stored, Within
from abstain.confidence.rank_model import RankModel
from abstain.confidence.signal_ranks import RankReference

_FILE = "signal_weights.json"
# Names under which the inputs of the weights come in logs; the first of each is the name in the file.
ROLE_NAMES: dict[str, tuple[str, ...]] = {
    "token_probability": (
        "token_probability",
        "mean_token_probability",
        "mean_token_logprob",
        "logit_perplexity_confidence",
    ),
    "stated_number": ("stated_number", "stated_confidence", "verbal_numerical_confidence"),
    "stated_words": ("stated_words", "verbal_linguistic_confidence"),
    "length": ("length", "token_length", "answer_length"),
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ShippedWeights(Stored):
    """Weights of the ranks of signals, and how these signals behaved in the models that the weights come from.

    Attributes
    ----------
    version : int
        Rises when the weights change.
    signals : tuple of str
        The inputs, by the first name in `ROLE_NAMES`.
    linear, square, missing : ndarray
        The weights of `RankModel`, one per input.
    largest_missing : float
        The weights are used only if every input is missing in at most this share of the rows.
    correlation, spread : ndarray
        Mean and standard deviation over models of the rank correlation of each pair of inputs: (0, 1), (0, 2), ...
    largest_deviation : float
        The weights are used only if every correlation is within so many standard deviations of its mean: those between
        models and that of a correlation of as many rows, taken together.
    learned_on : str
        Which models and questions, in words.

    Examples
    --------
    >>> weights = load_shipped_weights()
    >>> weights.version, weights.signals
    (1, ('token_probability', 'stated_number', 'stated_words', 'length'))
    """

    _noun: ClassVar[str] = "shipped weights"
    _has_checksum: ClassVar[bool] = True

    version: Annotated[int, Within(1)]
    signals: tuple[str, ...]
    linear: Annotated[np.ndarray, Within()]
    square: Annotated[np.ndarray, Within()]
    missing: Annotated[np.ndarray, Within()]
    largest_missing: Share
    correlation: Annotated[np.ndarray, Within(-1, 1)]
    spread: Annotated[np.ndarray, Within(0, closed=False)]
    largest_deviation: Annotated[float, Within(0, closed=False)]
    learned_on: str

    def find_columns(self, names: tuple[str, ...]) -> dict[str, str] | str:
        """Return by role the name that the user gave this input, or a sentence that names the first one missing.

        A role is an input of the weights, such as "token_probability"; `self.signals` are all roles, and `names` are
        the user's inputs. `ROLE_NAMES` lists what each role may be called. The caller tells the two results apart by
        their type.
        """
        name_of_role = {}
        for role in self.signals:
            # the first of the user's inputs that may be this role
            name = next((name for name in names if name in ROLE_NAMES[role]), None)
            if name is None:
                accepted_names = " or ".join(repr(alias) for alias in ROLE_NAMES[role])
                return f"there is no input called {accepted_names}"
            name_of_role[role] = name
        return name_of_role

    def refusal(self, columns: Mapping[str, np.ndarray], references: Mapping[str, RankReference]) -> str:
        """Say why these rows do not resemble those that the weights were learned on; "" if they do.

        A role is an input of the weights, such as "token_probability", whatever the user calls it. `columns` holds one
        vector per role in the order of `signals`, NaN where missing. `references` holds for each role how it is
        distributed in these rows: the ranks of its values, and the share of rows that lack it. `largest_deviation` is
        in standard deviations. There must be at least two rows and two roles; the caller asks for 50 rows, and four
        roles are shipped.
        """
        for role, reference in references.items():
            if reference.missing > self.largest_missing:  # both are shares of the rows
                return (
                    f"{role} is missing in {reference.missing:.0%} of the rows, in learning in at most "
                    f"{self.largest_missing:.0%}"
                )
        # of each pair of inputs, in the order of `self.correlation` and `self.spread`: their means and
        # standard deviations over the models that were learned from
        correlations = rank_correlations(columns, references)
        # a correlation of few rows is uncertain itself: its variance adds to that between models
        row_count = len(next(iter(columns.values())))
        sampling_variance = (1 - self.correlation**2) ** 2 / (row_count - 1)
        deviations = np.abs(correlations - self.correlation) / np.sqrt(self.spread**2 + sampling_variance)
        worst = int(np.argmax(deviations))
        if deviations[worst] > self.largest_deviation:
            first, second = np.triu_indices(len(self.signals), 1)  # the inputs of each pair
            pair = f"{self.signals[first[worst]]} and {self.signals[second[worst]]}"
            return (
                f"the rank correlation of {pair} is {correlations[worst]:.2f}, in learning about "
                f"{self.correlation[worst]:.2f}"
            )
        return ""

    def make_model(self, names: Mapping[str, str], references: Mapping[str, RankReference]) -> RankModel:
        """The combination with these weights; `names` are the user's names of the inputs, by role."""
        return RankModel(
            references={names[role]: references[role] for role in self.signals},
            linear=self.linear,
            square=self.square,
            missing=self.missing,
            version=self.version,
        )

    def _rules(self) -> dict[str, Any]:
        count = len(self.signals)
        pair_count = count * (count - 1) // 2
        lengths = {len(self.linear), len(self.square), len(self.missing)}
        return {
            "`signals` must be known roles.": set(self.signals) <= set(ROLE_NAMES),
            "there must be one weight per signal.": lengths == {count},
            "there must be one correlation per pair.": len(self.correlation)
            == len(self.spread)
            == pair_count,
        }

    def __repr__(self) -> str:
        return f"ShippedWeights(version {self.version}, {', '.join(self.signals)}; {self.learned_on})"


def rank_correlations(
    columns: Mapping[str, np.ndarray], references: Mapping[str, RankReference]
) -> np.ndarray:
    """Rank correlation of each pair of inputs, in the order (0, 1), (0, 2), ...; missing values have the middle rank.

    0 where an input is constant. A role is an input of the shipped weights, such as "token_probability", whatever the
    user calls it. `columns` has one vector per role, with an entry per row. `references` has the distribution of each
    over these same rows; its order is that of the pairs.
    """
    # shape (roles, rows): the share of the rows below a value and half of those equal to it
    ranks = np.stack([reference.rank(columns[role]) for role, reference in references.items()])
    deviations = ranks - ranks.mean(axis=1, keepdims=True)
    lengths = np.sqrt((deviations * deviations).sum(axis=1))
    products = deviations @ deviations.T
    sizes = np.outer(lengths, lengths)
    correlations = np.where(sizes > 0, products / np.where(sizes > 0, sizes, 1.0), 0.0)
    # rounding may exceed 1
    return np.asarray(np.clip(correlations[np.triu_indices(len(ranks), 1)], -1.0, 1.0))


@functools.cache
def load_shipped_weights() -> ShippedWeights:
    """Read the weights that come with the package, every field checked."""
    text = resources.files("abstain").joinpath("data", _FILE).read_text(encoding="utf-8")
    return ShippedWeights.from_json(text)
