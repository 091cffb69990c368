"""A weighted sum of the ranks of signals: a confidence that needs no label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from abstain._stored import Within
from abstain.confidence.signal_ranks import RankReference


@dataclass(frozen=True, eq=False, kw_only=True)
class RankModel:
    """Adds up, for each signal, `linear * u + square * u^2` of its rank u, or `missing` where it is missing.

    Attributes
    ----------
    references : dict of RankReference
        By name: the distribution of each signal, among which ranks are taken.
    linear, square, missing : ndarray
        Weights, one entry per signal in the order of `references`. A missing signal has the middle rank.
    version : int
        Of the shipped weights; 0 for the mean of ranks.
    """

    references: dict[str, RankReference]
    linear: Annotated[np.ndarray, Within()]
    square: Annotated[np.ndarray, Within()]
    missing: Annotated[np.ndarray, Within()]
    version: Annotated[int, Within(0)] = 0

    def apply(self, numbers: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the weighted sum for each row; `numbers` has a vector for each name, NaN where missing."""
        total = 0.0
        for index, (name, reference) in enumerate(self.references.items()):
            column = numbers[name]
            ranks = reference.rank(column)
            total = total + self.linear[index] * ranks + self.square[index] * ranks * ranks
            total = total + self.missing[index] * np.isnan(column)
        return np.asarray(total)

    @property
    def is_mean_of_ranks(self) -> bool:
        """Is it the mean of ranks, and not a combination by shipped weights?"""
        return self.version == 0

    def fits(self, names: tuple[str, ...]) -> bool:
        """Are its signals among these names, with one weight of each kind per signal?"""
        count = len(self.references)
        lengths = {len(self.linear), len(self.square), len(self.missing)}
        is_known = set(self.references) <= set(names)
        return (
            count > 0
            and lengths == {count}
            and is_known
            and all(reference.is_consistent for reference in self.references.values())
        )
