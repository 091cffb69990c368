"""Comparisons of models while samples come in: the looks so far, and the samples themselves, fed in batches.

Tests hold at every look (`abstain.inference.anytime`), so one may stop at the first look that decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import numpy as np

from abstain._arrays import ArrayLike
from abstain._check import check_count, check_fraction, refuse_other_row_order
from abstain._stored import Chance, Stored, Within
from abstain._tables import Notebook, count_noun
from abstain.errors import InputError, ShapeError
from abstain.evaluation.comparison import compare
from abstain.evaluation.results import Comparison, Pair
from abstain.evaluation.vectors import flat
from abstain.inference.anytime import DEFAULT_PLANNED
from abstain.metrics.definitions import by_name

Planned = Annotated[int, Within(1)]


@dataclass(frozen=True)
class ComparisonLook:
    """One look at a comparison that grows.

    Parameters
    ----------
    n : int
        Samples so far.
    pairs : tuple of Pair
        Differences of all pairs at this look, in the order of the names of the series; they hold at every look.

    Examples
    --------
    >>> ComparisonLook(200, (Pair("a", "b", -0.02, 0.005, -0.03, -0.01, 6e-5, 6e-5, True, None),)).n
    200
    """

    n: int
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, repr=False)
class ComparisonSeries(Stored, Notebook):
    """The looks at a comparison that grows, and what they have decided.

    Parameters
    ----------
    names : tuple of str
        The contestants, in the order of the first ranking.
    metric, loss : str
        What they are compared by.
    lower_is_better : bool
        The direction of the metric.
    level : float
        Level of the tests, which hold at every look together.
    planned : int
        Planned number of samples.
    looks : tuple of ComparisonLook
        Oldest first, each with more samples than the one before.
    has_clusters : bool
        Whether samples shared clusters at the last look. Then they do at later looks, which hold the same samples.

    Examples
    --------
    >>> import abstain
    >>> loss, sure = [0, 0, 1, 0, 1, 0, 0, 1] * 40, [8, 7, 3, 6, 2, 5, 4, 1] * 40
    >>> models = {"good": (loss, sure), "bad": (loss, sure[::-1])}
    >>> series = ComparisonSeries.begin(abstain.compare(models, anytime=True, planned=400))
    >>> series
    good is better than bad: decided at look 1, with 320 samples
    >>> series.decided, series.winner
    (True, 'good')
    """

    _noun: ClassVar[str] = "a series of comparisons"
    _number: ClassVar[int] = 2
    _has_checksum: ClassVar[bool] = True

    names: tuple[str, ...]
    metric: str
    loss: str
    lower_is_better: bool
    level: Chance
    planned: Planned
    looks: tuple[ComparisonLook, ...]
    has_clusters: bool = False

    @classmethod
    def begin(cls, comparison: Comparison) -> ComparisonSeries:
        """Start a series with its first look; InputError unless it was made with `anytime=True`.

        A look is an evaluation of the data that came in so far.
        """
        if comparison.planned is None:
            raise InputError(
                "ComparisonSeries: takes comparisons that hold at every look, got one for a single look. "
                "Use `compare(..., anytime=True)`."
            )
        empty = cls(
            names=comparison.names,
            metric=comparison.metric,
            loss=comparison.loss,
            lower_is_better=comparison.lower_is_better,
            level=comparison.level,
            planned=comparison.planned,  # number of samples at which one hopes to stop
            looks=(),
        )
        return empty.add(comparison)

    def add(self, comparison: Comparison) -> ComparisonSeries:
        """A new series with one more look, at all samples so far; this one stays as it is.

        A comparison of as many samples as the last look is no new look: the series is returned as it is. Raises
        InputError if other models, another metric, loss, level or planned size are compared, or fewer samples, or
        without the clusters of the looks so far. A look is an evaluation of the data that came in so far.
        """
        got = {
            "models": sorted(comparison.names),
            "metric": comparison.metric,
            "loss": comparison.loss,
            "level": comparison.level,
            "planned size": comparison.planned,
        }
        expected = {
            "models": sorted(self.names),
            "metric": self.metric,
            "loss": self.loss,
            "level": self.level,
            "planned size": self.planned,
        }
        for what, value in expected.items():
            if got[what] != value:
                raise InputError(
                    f"ComparisonSeries: every look must have the same {what}, {value}, got {got[what]}. "
                    f"Begin another series."
                )
        has_clusters = len(comparison.clusters) > 0  # numbers of clusters, one for each kind of them
        if self.has_clusters and not has_clusters:
            raise InputError(
                "ComparisonSeries: samples of the looks so far share clusters, those of this one do not. Give the "
                "clusters of all samples at every look."
            )
        if comparison.n < self.n:  # `self.n`: of the last look, 0 before the first
            raise InputError(
                f"ComparisonSeries: a look must hold all samples so far, at least {self.n:,}, got {comparison.n:,}. "
                f"Compare all of them, not only the new ones."
            )
        if comparison.n == self.n:
            return self
        # differences in the order of the names in this series, which may not be that of the new ranking
        pairs = tuple(
            comparison.pair(name, later_name)
            for place, name in enumerate(self.names)
            for later_name in self.names[place + 1 :]
        )
        looks = (*self.looks, ComparisonLook(n=comparison.n, pairs=pairs))
        return replace(self, looks=looks, has_clusters=has_clusters)

    @classmethod
    def _upgraded(cls, record: Any) -> Any:
        """The parsed JSON of format 1, which did not say whether there are clusters, in today's format."""
        if isinstance(record, dict) and record.get("format") == "abstain.ComparisonSeries/1":
            return {**record, "format": cls._format(), "has_clusters": False}
        return record

    @property
    def n(self) -> int:
        """Samples at the last look; 0 without one."""
        return self.looks[-1].n if self.looks else 0

    def deciding_look(self, a: str, b: str) -> int | None:
        """Number of the first look (from 1) at which two contestants were told apart; None if there is none.

        InputError for a name that is not in the series, or for twice the same name. A look is an evaluation of the data
        that came in so far.
        """
        for name in (a, b):
            if name not in self.names:
                raise InputError(f"ComparisonSeries: no contestant {name!r}, it has {', '.join(self.names)}.")
        if a == b:
            raise InputError(f"ComparisonSeries: {a!r} cannot be compared with itself.")
        for number, look in enumerate(self.looks, 1):
            if any(pair.different and {pair.a, pair.b} == {a, b} for pair in look.pairs):
                return number
        return None

    @property
    def decided(self) -> bool:
        """Has every pair been told apart, at this look or an earlier one?"""
        pairs = self.looks[-1].pairs if self.looks else ()
        return bool(pairs) and all(self.deciding_look(pair.a, pair.b) is not None for pair in pairs)

    @property
    def winner(self) -> str | None:
        """The contestant that was found better than every other one; None if there is none yet."""
        for name in self.names:
            rivals = [rival for rival in self.names if rival != name]
            if all(self._better(name, rival) == name for rival in rivals):
                return name
        return None

    def _better(self, a: str, b: str) -> str | None:
        """Which of two contestants was better at the look that told them apart; None if no look has."""
        number = self.deciding_look(a, b)
        if number is None:
            return None
        pair = next(pair for pair in self.looks[number - 1].pairs if {pair.a, pair.b} == {a, b})
        is_first_lower = pair.difference < 0  # the difference is that of the pair's first minus its second
        first_is_better = is_first_lower == self.lower_is_better
        return pair.a if first_is_better else pair.b

    def sentences(self) -> list[str]:
        """A sentence for each pair: which is better and since which look, or that the comparison is open.

        A look is an evaluation of the data that came in so far.
        """
        lines = []
        for pair in self.looks[-1].pairs if self.looks else ():
            number = self.deciding_look(pair.a, pair.b)  # from 1; None if no look told them apart
            if number is None:
                looks = count_noun(len(self.looks), "look")
                lines.append(
                    f"{pair.a} and {pair.b}: open after {looks}, with {self.n:,} samples "
                    f"(difference {pair.difference:.3g} [{pair.low:.3g}, {pair.high:.3g}])"
                )
                continue
            better = self._better(pair.a, pair.b)  # at that look, whatever later ones say; so it is not None
            worse = pair.b if better == pair.a else pair.a
            sample_count = self.looks[number - 1].n
            lines.append(
                f"{better} is better than {worse}: decided at look {number}, with {sample_count:,} samples"
            )
        return lines

    def __repr__(self) -> str:
        return "\n".join(self.sentences()) or "ComparisonSeries without a look"

    def _rules(self) -> dict[str, Any]:
        sizes = [look.n for look in self.looks]
        pair_count = len(self.names) * (len(self.names) - 1) // 2
        return {
            "looks must have more and more samples.": all(a < b for a, b in pairwise(sizes)),
            "every look must have all pairs.": all(len(look.pairs) == pair_count for look in self.looks),
        }


@dataclass(frozen=True, repr=False)
class GrowingComparison(Stored, Notebook):
    """Models on the same samples, which are fed in batches; every batch ends with a look at the comparison.

    A rank depends on all samples, so all of them are kept: about 80 bytes of JSON per sample and two models.

    Parameters
    ----------
    metric : str
        What the models are compared by, a name as in `compare`.
    level : float
        Level of the tests, which hold at every look together.
    planned : int
        Number of samples at which one hopes to stop. Chosen before the first look.
    losses, confidences : dict of arrays
        Of each model, by its name; all samples so far.
    clusters : tuple of str or None
        Cluster of each sample, as text.
    sample_weight : array or None
        Weight of each sample.
    series : ComparisonSeries or None
        The looks so far; None before the first.

    Examples
    --------
    >>> growing = GrowingComparison.begin(planned=400)
    >>> loss, sure = [0, 0, 1, 0, 1, 0, 0, 1] * 20, [8, 7, 3, 6, 2, 5, 4, 1] * 20
    >>> for batch in range(4):
    ...     growing = growing.add({"good": (loss, sure), "bad": (loss, sure[::-1])})
    >>> growing.n, growing.decided, growing.series.winner
    (640, True, 'good')
    >>> GrowingComparison.from_json(growing.to_json()).n
    640
    """

    _noun: ClassVar[str] = "a comparison that grows"
    _has_checksum: ClassVar[bool] = True

    metric: str
    level: Chance
    planned: Planned
    losses: dict[str, np.ndarray]
    confidences: dict[str, np.ndarray]
    clusters: tuple[str, ...] | None
    sample_weight: np.ndarray | None
    series: ComparisonSeries | None

    @classmethod
    def begin(
        cls, *, metric: str = "aurc", level: float = 0.95, planned: int = DEFAULT_PLANNED
    ) -> GrowingComparison:
        """A comparison without samples, by a metric's name, at a level, with a planned number of samples.

        InputError for an unknown metric, a level outside (0, 1) and a planned number below 1.
        """
        function = "GrowingComparison.begin"  # in error messages
        return cls(
            metric=by_name(metric, function).key,  # its name with its options, such as "aurc:loo"
            level=check_fraction(function, "level", level, open_high=True),
            planned=check_count(function, "planned", planned),
            losses={},
            confidences={},
            clusters=None,
            sample_weight=None,
            series=None,
        )

    @refuse_other_row_order  # InputError for pandas columns whose rows are in different orders
    def add(
        self,
        models: Mapping[str, tuple[ArrayLike, ArrayLike]],
        /,
        *,
        clusters: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> GrowingComparison:
        """The comparison with one more batch of samples, and one more look: an evaluation of all samples so far.

        Returns a new comparison; this one stays as it is.

        Parameters
        ----------
        models : dict of (loss, confidence)
            Of each model on the samples of this batch; the same models in every batch.
        clusters, sample_weight : array, optional
            One entry per sample of the batch; in every batch or in none.

        Raises
        ------
        InputError, ShapeError
            For other models than before, for columns that only some batches have, or where lengths differ.
        """
        function = "GrowingComparison.add"
        # arrays by the name of the model, all of one length
        losses, confidences = _read_batch(function, models)
        size = len(next(iter(losses.values())))
        # the new samples alone, as a comparison that nobody has looked at
        batch = replace(
            self,
            losses=losses,
            confidences=confidences,
            # as text, which is the same for the labels 1 and 1.0 of two batches
            clusters=None if clusters is None else tuple(map(_label_text, flat(clusters).tolist())),
            sample_weight=None
            if sample_weight is None
            else np.asarray(flat(sample_weight), dtype=np.float64),
            series=None,
        )
        for name, column in (("clusters", batch.clusters), ("sample_weight", batch.sample_weight)):
            if column is not None and len(column) != size:
                raise ShapeError(f"{function}: `{name}` must have {size} entries, got {len(column)}.")
        # raises unless the batch has the models of the samples so far, and clusters and weights where these have them
        all_samples = self._with_samples_of(function, batch)
        # `self.series` holds the looks so far, at the samples of `self`; None before the first
        return all_samples._with_new_look(previous=self.series)

    def merge(self, later: GrowingComparison) -> GrowingComparison:
        """Both comparisons as one: the samples of this one, then those of `later`, and one look at all of them.

        The looks at either part alone are dropped: they were looks at other data. InputError where metric, level,
        planned size or models differ. A look is an evaluation of the data that came in so far.
        """
        function = "GrowingComparison.merge"
        for field in ("metric", "level", "planned"):
            if getattr(self, field) != getattr(later, field):
                raise InputError(
                    f"{function}: both must have the same {field}, got {getattr(self, field)} and "
                    f"{getattr(later, field)}."
                )
        # raises where models differ, or only one has clusters or weights; keeps the looks of `self`, replaced below
        merged = self._with_samples_of(function, later)
        if not merged.n:  # both are without samples, and there is nothing to look at
            return merged
        return merged._with_new_look(previous=None)  # this look is the first

    def _with_samples_of(self, function: str, later: GrowingComparison) -> GrowingComparison:
        """The samples of this comparison, then those of `later`, without a new look.

        `series` of the result holds the looks of this comparison; those of `later` are dropped. InputError, in the name
        of `function`, if both have samples, but of other models, or if only one of them has clusters or weights.
        """
        if not later.n:
            return self
        # callers make sure that both have one metric, one level and one planned size
        if not self.n:  # there is nothing to agree with
            return replace(later, series=self.series)
        if set(self.losses) != set(later.losses):
            raise InputError(
                f"{function}: every batch must have the same models, {', '.join(self.losses)}, got "
                f"{', '.join(later.losses)}."
            )
        for name in ("clusters", "sample_weight"):
            if (getattr(self, name) is None) != (getattr(later, name) is None):
                raise InputError(f"{function}: `{name}` must be given for every batch or for none.")
        # from here on, both have a column or neither has it
        clusters: tuple[str, ...] | None = None  # one label per sample
        if self.clusters is not None and later.clusters is not None:
            clusters = (*self.clusters, *later.clusters)
        weight = None
        if self.sample_weight is not None and later.sample_weight is not None:
            weight = np.concatenate([self.sample_weight, later.sample_weight])
        return replace(
            self,
            losses=_concatenate(self.losses, later.losses),
            confidences=_concatenate(self.confidences, later.confidences),
            clusters=clusters,
            sample_weight=weight,
        )

    def _with_new_look(self, previous: ComparisonSeries | None) -> GrowingComparison:
        """The same samples with a look at all of them, after the `previous` looks (None: the first look)."""
        comparison = self.comparison()
        series = ComparisonSeries.begin(comparison) if previous is None else previous.add(comparison)
        return replace(self, series=series)

    def comparison(self) -> Comparison:
        """Compare the models on all samples so far; intervals and tests hold at every look."""
        return compare(
            {name: (loss, self.confidences[name]) for name, loss in self.losses.items()},
            metric=self.metric,
            level=self.level,
            clusters=None if self.clusters is None else np.asarray(self.clusters),
            sample_weight=self.sample_weight,
            anytime=True,
            planned=self.planned,
        )

    @property
    def n(self) -> int:
        """Samples so far."""
        return len(next(iter(self.losses.values()), ()))

    @property
    def decided(self) -> bool:
        """Has every pair of models been told apart, at this look or an earlier one?"""
        return self.series is not None and self.series.decided

    def __repr__(self) -> str:
        if self.series is None:
            return f"GrowingComparison without samples, planned for {self.planned:,}"
        return repr(self.series)

    def _rules(self) -> dict[str, Any]:
        """The rules of a stored comparison: whether it keeps a rule, by the sentence that says the rule.

        The reader of stored files raises DataError with the sentence of the first rule that is not kept. `self.n` is
        the number of losses of the first model.
        """
        # one entry per sample in each; None: no clusters, or no weights
        columns: list[Sequence[Any] | np.ndarray | None] = [
            *self.losses.values(),
            *self.confidences.values(),
            self.clusters,
            self.sample_weight,
        ]
        return {
            "losses and confidences must be of the same models.": self.losses.keys()
            == self.confidences.keys(),
            "all columns must have one length.": all(
                column is None or len(column) == self.n for column in columns
            ),
        }


def _read_batch(
    function: str, models: Mapping[str, tuple[ArrayLike, ArrayLike]]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The losses and the confidences of a batch, by the name of the model.

    Raises, in the name of `function`, InputError for anything but pairs of numbers by name, and ShapeError for fewer
    than two models, or for one whose numbers are not as many as those of the first. Values are not checked here (nan,
    infinity): the comparison does that.
    """
    losses: dict[str, np.ndarray] = {}
    confidences: dict[str, np.ndarray] = {}
    pairs = models if isinstance(models, Mapping) else {}
    if not pairs or not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs.values()):
        raise InputError(f"{function}: takes a dict with (loss, confidence) of each model.")
    for name, pair in pairs.items():
        try:
            losses[name], confidences[name] = (np.asarray(flat(column), dtype=np.float64) for column in pair)
        except (TypeError, ValueError):
            raise InputError(f"{function}: losses and confidences of {name} must be numbers.") from None
    if len(losses) < 2:
        raise ShapeError(f"{function}: takes at least two models, got {len(losses)}.")
    first_name, size = next((name, len(loss)) for name, loss in losses.items())
    for name, loss in losses.items():
        if len(loss) != size or len(confidences[name]) != size:
            raise ShapeError(
                f"{function}: models must see the same samples, got {size} losses of {first_name}, and of {name} "
                f"{len(loss)} losses and {len(confidences[name])} confidences."
            )
    return losses, confidences


def _label_text(label: Any) -> str:
    """The label of a cluster as text; whole numbers have the same text in every batch, whatever their type."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _concatenate(first: Mapping[str, np.ndarray], later: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays by name, those of `later` behind those of `first`; both have the same names."""
    return {name: np.concatenate([values, later[name]]) for name, values in first.items()}
