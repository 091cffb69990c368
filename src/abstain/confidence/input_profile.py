"""How the inputs were distributed in the rows that a confidence was learned on, and whether new rows resemble them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from abstain._stored import Share, Within
from abstain.confidence.input_table import InputTable
from abstain.confidence.signal_ranks import RankReference
from abstain.errors import InputError

_MIN_ROWS = 30  # fewer rows say little about a distribution
# A share or a distribution counts as changed if it differs by more than the tolerance and more than the noise.
_TOLERATED_SHARE = 0.05  # change of the share of missing values
_TOLERATED_DISTANCE = 0.1  # largest difference of two cumulative distributions
_STANDARD_ERRORS_TOLERATED = 4.0  # standard errors of a share; exceeded by chance once in 16,000
_KOLMOGOROV_FACTOR = 2.2  # of the Kolmogorov-Smirnov distance; exceeded by chance once in 8,000


@dataclass(frozen=True, eq=False, kw_only=True)
class InputProfile:
    """The inputs of a learned confidence and their distribution in the rows it was learned on.

    Attributes
    ----------
    n : int
        Number of these rows.
    numbers : dict of RankReference
        Distribution of each signal and feature, by name.
    features : tuple of str
        Which of the numbers are features: they need not rise with confidence.
    categories : dict of dict
        Share of the rows by level, for each category.
    kind : {"logits", "probs"} or None
        What the class scores were, if there were any.
    class_count : int or None
        Number of classes, if there were class scores.
    """

    n: Annotated[int, Within(1)]
    numbers: dict[str, RankReference]
    features: tuple[str, ...]
    categories: dict[str, dict[str, Share]]
    kind: Literal["logits", "probs"] | None
    class_count: Annotated[int, Within(2)] | None

    @classmethod
    def of(cls, table: InputTable, weight: np.ndarray) -> InputProfile:
        """Describe how the inputs of a table are distributed; `weight` is the mass of each row, not all 0.

        `table` holds the inputs of all rows by name: `features` (numbers that are no confidences), `numbers` (signals
        and features) and categories, and class scores. A number must have a value in some row. A missing label is a
        level of its own, "(missing)". `kind` and `class_count` are None without class scores.
        """
        categories = {}  # by name: the share of each level
        for name, labels in table.categories.items():
            # levels in increasing order: models look them up by bisection
            levels, codes = np.unique(labels, return_inverse=True)
            shares = np.bincount(codes, weights=weight) / weight.sum()
            categories[name] = {str(level): float(share) for level, share in zip(levels, shares)}
        kind: Literal["logits", "probs"] | None = None
        if table.class_scores is not None:
            kind = "logits" if table.class_scores.kind == "logits" else "probs"
        return cls(
            n=table.row_count,
            # of each number: ranks of its values, and the share of rows that lack it
            numbers={name: RankReference.of(column, weight) for name, column in table.numbers.items()},
            features=tuple(table.features),
            categories=categories,
            kind=kind,
            class_count=table.class_count,
        )

    def restricted_to(self, table: InputTable) -> InputProfile:
        """The profile of those inputs that a table has; the table must have no others (KeyError).

        A profile holds the distribution of each input in the rows that a confidence was learned on. The order becomes
        that of the table. Only the names of the table's inputs are read, not their values. Table and profile have
        inputs by name: `features` (numbers that are no confidences), `numbers` (signals and features) and categories.
        `kind` ("logits" or "probs") and `class_count` are those of class scores, if any.
        """
        has_class_scores = table.class_scores is not None
        return replace(
            self,
            numbers={name: self.numbers[name] for name in table.numbers},
            features=tuple(name for name in self.features if name in table.features),
            categories={name: self.categories[name] for name in table.categories},
            kind=self.kind if has_class_scores else None,
            class_count=self.class_count if has_class_scores else None,
        )

    @property
    def signal_names(self) -> tuple[str, ...]:
        """The signals: numbers that are confidences themselves."""
        return tuple(name for name in self.numbers if name not in self.features)

    @property
    def names(self) -> tuple[str, ...]:
        """All inputs: signals, features, categories, and "logits" or "probs"."""
        class_scores = () if self.kind is None else (self.kind,)
        return (*self.numbers, *self.categories, *class_scores)

    def check_names(self, function: str, table: InputTable) -> None:
        """Raise InputError unless a table has these inputs; further ones are allowed. `function` is for the message.

        `self.names` are all inputs of the confidence: signals, other numbers, categories, and "logits" or "probs" last.
        A column that lacks values in some rows is there; only whole columns are asked for.
        `table` holds the inputs of all rows: by name `numbers` (signals and others) and categories, and class scores.
        These must be of the same kind as in learning, "logits" or "probs", and have as many classes.
        """
        input_names = [*table.numbers, *table.categories]
        if table.kind is not None:
            input_names.append(table.kind)  # "logits" or "probs"
        for name in self.names:
            if name not in input_names:
                listed = ", ".join(input_names) or "none"
                raise InputError(
                    f"{function}: this confidence reads {', '.join(self.names)}, got {listed}. "
                    f"Pass {name!r} too, with NaN in rows that lack it."
                )
        reads_class_scores = self.kind is not None
        if reads_class_scores and table.class_count != self.class_count:
            raise InputError(
                f"{function}: this confidence was learned on {self.class_count} classes, got {table.class_count}. "
                f"Learn one for this model."
            )

    def find_changes(self, table: InputTable) -> list[str]:
        """Say in which inputs new rows differ from those of this profile, one sentence each; [] if they do not.

        Levels of a category that were never seen are always reported. Missing shares and distributions need at least 30
        rows, and a difference that is both large and beyond chance. `self.numbers` holds the distribution of each
        signal and feature in learning, `self.categories` the share of each level of each category, and `self.n` is the
        number of rows. `table.numbers` and `table.categories` hold the new rows, one vector per input of these names;
        the table must have all of them. The caller shows each sentence as a warning.
        """
        changes = []
        for name, shares in self.categories.items():
            labels = table.categories[name]
            is_new = ~np.isin(labels, list(shares))  # `shares` are those of the levels in learning, by level
            if is_new.any():
                example = labels[is_new][0]
                changes.append(
                    f"{int(is_new.sum()):,} of {len(labels):,} rows have a {name!r} that was not seen in learning, "
                    f"such as {str(example)!r}: it gets weight 0."
                )
        if table.row_count < _MIN_ROWS:
            return changes
        # a change must be above what is tolerated (5% of missing rows, a distance of 10%) and the noise on top
        for name, reference in self.numbers.items():
            column = table.numbers[name]  # NaN where missing
            missing_share = float(np.mean(np.isnan(column)))  # `reference.missing` is that in learning
            # standard error of the difference of two shares, of which 4 are tolerated
            noise = math.sqrt(
                missing_share * (1 - missing_share) / len(column)
                + reference.missing * (1 - reference.missing) / self.n
            )
            if abs(missing_share - reference.missing) > _TOLERATED_SHARE + _STANDARD_ERRORS_TOLERATED * noise:
                changes.append(
                    f"{name!r} is missing in {missing_share:.0%} of the rows, in learning in {reference.missing:.0%}."
                )
            distance = reference.distance(column)  # largest difference of the cumulative shares of rows
            # by chance the distance exceeds this once in 8,000 (Kolmogorov-Smirnov)
            noise_of_distance = _KOLMOGOROV_FACTOR * math.sqrt(1 / table.row_count + 1 / self.n)
            if distance > _TOLERATED_DISTANCE + noise_of_distance:
                changes.append(
                    f"{name!r} is distributed otherwise than in learning: cumulative shares differ by up to "
                    f"{distance:.0%}."
                )
        return changes

    @property
    def is_consistent(self) -> bool:
        """Do the parts fit each other, as after `of`?"""
        names = [*self.numbers, *self.categories]
        return (
            bool(self.names)
            and len(set(names)) == len(names)
            and set(self.features) <= set(self.numbers)
            and (self.kind is None) == (self.class_count is None)
            and all(reference.is_consistent for reference in self.numbers.values())
        )
