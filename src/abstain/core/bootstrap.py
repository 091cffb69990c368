"""Resampling after one sort: counts are drawn for sorted samples, so no replicate is sorted again.

A replicate is a table of rows whose masses are the counts drawn; every metric that reads rows can read replicates, many
at a time. When there are few distinct pairs of confidence and loss, the pairs are drawn instead of the samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from abstain.core import sorting
from abstain.core.area_estimators import area_terms
from abstain.core.influence import RankedLoss
from abstain.core.rows import Rows, rank_confidences

_COUNTS_AT_ONCE = 1 << 17  # counts in one table: it stays in cache
_LONG_REPLICATE = 2048  # units, from which counting line by line is faster than all lines at once
_MIN_SAMPLES_PER_PAIR = 8  # from here on, drawing distinct pairs is faster than drawing samples


class Replicates(NamedTuple):
    """Several replicates, one per line.

    Attributes
    ----------
    rows : Rows
        Rows by confidence, most confident first; arrays of shape (replicates, rows).
    total_mass : ndarray, shape (replicates,)
        Mass of each replicate, abstained samples included (`rows.total_mass` is that of the answered ones alone).
    rows_by_loss : callable
        Returns rows ordered by loss, smallest first, as the oracle orders them.
    """

    rows: Rows
    total_mass: np.ndarray
    rows_by_loss: Callable[[], Rows]


class Resampler:
    """Sorted samples from which replicates are drawn, each as large as the data set.

    What is drawn are units: samples, or clusters, or, where few distinct pairs of confidence and loss occur, how often
    each pair occurs.

    Parameters
    ----------
    loss, confidence, weight : ndarray, shape (n,)
        Samples that were answered, in any order. `weight` None: all weights are 1.
    abstained_weight : ndarray, shape (m,), optional
        Weights of samples that abstained. They are drawn and count in the total mass, but belong to no row.
    clusters, strata : ndarray of int, shape (n + m,), optional
        Numbers from 0; the abstained samples come last. Whole clusters are drawn, and from each stratum as many units
        as it has. All samples of a cluster must lie in one stratum.
    """

    def __init__(
        self,
        loss: np.ndarray,
        confidence: np.ndarray,
        weight: np.ndarray | None = None,
        abstained_weight: np.ndarray | None = None,
        clusters: np.ndarray | None = None,
        strata: np.ndarray | None = None,
    ) -> None:
        """Sort the answered samples, most confident first, and the clusters and strata with them.

        `loss`, `confidence` and `weight` (None: 1 for all) are those of the answered samples, in any order;
        `abstained_weight` holds the weights of the abstained ones (None: no sample abstained). `clusters` and `strata`
        (None: there are none) number those of all samples from 0, the abstained ones last. Where few distinct pairs of
        confidence and loss occur, pairs are drawn instead of samples.
        """
        order = sorting.argsort_descending(confidence)
        self.loss = loss[order].astype(np.float64)
        self.confidence = confidence[order]
        self.weight = None if weight is None else weight[order].astype(np.float64)
        # None also where all weights are 1: then the number of abstained samples, in `counts`, is enough
        self.abstained_weight = abstained_weight if weight is not None else None
        abstained_count = 0 if abstained_weight is None else len(abstained_weight)
        # sorted answered samples first, then the abstained ones in their order
        order_of_all = np.concatenate([order, np.arange(len(order), len(order) + abstained_count)])
        self.clusters = None if clusters is None else clusters[order_of_all]
        self.strata = None if strata is None else strata[order_of_all]
        self.sample_count = len(order_of_all)
        # how often each pair occurs in the data, if pairs are drawn
        self.pair_counts: np.ndarray | None = None
        # with many samples per pair, this replaces `self.loss` and `self.confidence` and sets `self.pair_counts`
        if weight is None and clusters is None and strata is None:
            self._replace_samples_by_pairs_if_few(abstained_count)
        # a row is a run of equal confidences: the index of its first sample (or pair)
        self.row_starts = np.flatnonzero(sorting.mark_run_starts(self.confidence))
        self._loss_order: np.ndarray | None = None  # indices that sort by loss, computed when first needed

    def _replace_samples_by_pairs_if_few(self, abstained_count: int) -> None:
        """Replace the samples by their distinct pairs of confidence and loss, if a pair occurs often on average.

        A bootstrap replicate draws as many samples as the data set has. Samples of equal confidence and loss are
        interchangeable, so the method `counts` can draw how often each pair occurs, from a multinomial law with the
        probabilities `self.pair_counts / self.sample_count`. With few pairs that is faster than drawing samples.

        Sets `self.confidence` and `self.loss` to those of the pairs, most confident first, and `self.pair_counts` to
        how often each pair occurs, with the number of abstained samples at the end if there are any. Otherwise changes
        nothing. Only for samples without weights, clusters and strata.
        """
        order = np.lexsort((self.loss, -self.confidence))
        confidence = self.confidence[order]
        loss = self.loss[order]
        # a new pair starts where either of the two changes
        is_first_of_pair = sorting.mark_run_starts(confidence) | sorting.mark_run_starts(loss)
        if np.count_nonzero(is_first_of_pair) * _MIN_SAMPLES_PER_PAIR > len(loss):
            return  # fewer than 8 samples per pair
        first_of_pair = np.flatnonzero(is_first_of_pair)
        self.confidence = confidence[first_of_pair]
        self.loss = loss[first_of_pair]
        pair_counts = np.diff(np.append(first_of_pair, len(loss)))
        self.pair_counts = np.append(pair_counts, abstained_count) if abstained_count else pair_counts

    @property
    def counts_per_replicate(self) -> int:
        """How many counts are drawn per replicate."""
        return self.sample_count if self.pair_counts is None else len(self.pair_counts)

    def batches(self, replicates: int) -> list[int]:
        """How many replicates to draw at a time, so that their counts stay in cache; the numbers add up."""
        step = max(1, _COUNTS_AT_ONCE // self.counts_per_replicate)
        return [min(step, replicates - drawn) for drawn in range(0, replicates, step)]

    def draw(self, rng: np.random.Generator, size: int) -> Replicates:
        """Draw `size` replicates."""
        return self.tabulate(self.counts(rng, size))

    def tabulate(self, counts: np.ndarray) -> Replicates:
        """Make bootstrap replicates in which sample (or pair of confidence and loss) k occurs `counts[:, k]` times.

        `counts` has one line per replicate, and one column for each answered sample, most confident first, then one for
        each abstained sample. Where pairs are drawn instead (`self.pair_counts` is not None), it has one column per
        pair and, if samples abstained, a last one for their number.

        The rows of the result, one per distinct confidence, hold answered samples alone. Its total mass, of which
        coverage is a share, includes the abstained ones. `self.loss` and `self.row_starts` (the index of the first
        sample of each row) count pairs where pairs are drawn; there are no weights then.
        """
        answered_counts = counts[:, : len(self.loss)]
        abstained_counts = counts[:, len(self.loss) :]
        if self.weight is None:
            mass = answered_counts.astype(np.float64)
        else:
            mass = answered_counts * self.weight
        total_mass = mass.sum(axis=1)  # of the answered samples; the abstained ones are added
        if abstained_counts.shape[1]:
            if self.abstained_weight is None:  # all weights are 1
                total_mass = total_mass + abstained_counts.sum(axis=1)
            else:
                total_mass = total_mass + abstained_counts @ self.abstained_weight
        rows = _rows_of_replicates(mass, self.loss, self.row_starts)
        # `rows.total_mass` is that of the answered samples; the rows of the best order are made when they are needed
        return Replicates(rows=rows, total_mass=total_mass, rows_by_loss=lambda: self._rows_by_loss(mass))

    def counts(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw how often each sample (or pair) occurs in each of `size` replicates, shape (size, samples or pairs).

        Answered samples come first, most confident first, abstained ones last. Units, which are clusters where there
        are any and samples otherwise, are drawn with replacement, as many as there are, in total or from each stratum.
        All samples of a cluster get the count of their cluster. `self.clusters` and `self.strata` number those of each
        sample from 0, in the same order.
        """
        if self.pair_counts is not None:  # distinct pairs of confidence and loss are drawn, not samples
            # the last count is that of the abstained samples, if there are any
            return rng.multinomial(self.sample_count, self.pair_counts / self.sample_count, size=size)
        if self.clusters is None:
            return _draw_counts(rng, self.sample_count, size, self.strata)
        cluster_count = int(self.clusters.max()) + 1
        stratum_of_cluster = None
        if self.strata is not None:
            # all samples of a cluster lie in one stratum
            stratum_of_cluster = np.zeros(cluster_count, dtype=np.int64)
            stratum_of_cluster[self.clusters] = self.strata
        return _draw_counts(rng, cluster_count, size, stratum_of_cluster)[:, self.clusters]

    def _rows_by_loss(self, mass: np.ndarray) -> Rows:
        """Make the rows of replicates ordered by loss, smallest first, as the best possible confidence orders them.

        `mass` is the mass of each answered sample (or pair) in each replicate, shape (replicates, samples). Samples of
        equal loss are added up in one row if their weights are whole numbers, which are repetitions: areas are then
        taken with ties="expected", as if these were accepted one by one. That rule needs whole numbers. With other
        weights areas are taken with ties="threshold", which accepts the samples of a row all at once, so each sample is
        a row; equal losses are ordered by weight, so that the result does not depend on the order of the input.
        """
        if self._loss_order is None:  # kept for later calls
            # lexsort sorts by the last column first
            sort_columns = (self.loss,) if self.weight is None else (self.weight, self.loss)
            self._loss_order = np.lexsort(sort_columns)
        loss = self.loss[self._loss_order]
        has_whole_weights = self.weight is None or bool(np.all(self.weight == np.floor(self.weight)))
        # the index, in the order by loss, of the first sample of each row
        if has_whole_weights:
            row_starts = np.flatnonzero(sorting.mark_run_starts(loss))
        else:
            row_starts = np.arange(len(loss))
        return _rows_of_replicates(mass[:, self._loss_order], loss, row_starts)


def _rows_of_replicates(mass: np.ndarray, loss: np.ndarray, row_starts: np.ndarray) -> Rows:
    """Make the rows of replicates from the mass of each sample in each replicate, shape (replicates, samples).

    `loss` is the loss of each sample, and `row_starts` the index of the first sample of each row; samples are in the
    order of the rows.

    The rows above the first sample that a replicate holds accept nothing: their mass and loss are 0. Their accepted
    mass is set to 1, so that their risk is 0 / 1. `has_empty_rows=False` tells formulas that no accepted mass is 0,
    though rows may have mass 0. Other results of these rows, such as `accepted_mass - mass`, would be wrong, but do
    not count: formulas multiply them by the mass or the loss of the row, or skip rows of mass 0.
    """
    row_mass = mass
    row_loss = mass * loss
    if len(row_starts) < len(loss):  # otherwise every sample is a row
        row_mass = np.add.reduceat(mass, row_starts, axis=1)
        row_loss = np.add.reduceat(row_loss, row_starts, axis=1)
    accepted_mass = np.cumsum(row_mass, axis=1)
    accepted_loss = np.cumsum(row_loss, axis=1)
    total_mass = accepted_mass[:, -1:].copy()  # a copy, since the next line writes into the array
    if not accepted_mass[:, 0].all():  # accepted masses rise, so the first row has a 0 if any row has one
        accepted_mass[accepted_mass == 0] = 1.0
    return Rows(
        mass=row_mass,
        loss=row_loss,
        accepted_mass=accepted_mass,
        accepted_loss=accepted_loss,
        total_mass=total_mass,
        has_empty_rows=False,
    )


def _draw_counts(rng: np.random.Generator, n: int, size: int, strata: np.ndarray | None = None) -> np.ndarray:
    """How often each of n units (samples or clusters) is drawn with replacement in n draws, for `size` replicates.

    The result has shape (size, n). `strata` holds the stratum number (from 0) of each unit, and as many units are drawn
    from each stratum as it has.
    """
    if strata is not None:
        counts = np.zeros((size, n), dtype=np.int64)
        for stratum in range(int(strata.max()) + 1):
            members = np.flatnonzero(strata == stratum)
            counts[:, members] = _draw_counts(rng, len(members), size)
        return counts
    if n > _LONG_REPLICATE:  # more than 2048; counting one replicate after the other is then faster
        return np.stack([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(size)])
    # unit u of replicate k has the number u + n k, so that one count serves all replicates
    numbers = rng.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
    return np.bincount(numbers.reshape(-1), minlength=size * n).reshape(size, n)


# jackknife ----------------------------------------------------------------------------------------
#
# Every area with one sample left out, for all samples in O(n): the rows above the sample stay as they are, and those
# below it accept one sample less.
#
# The term of a row is linear in its loss L and in the loss S accepted there. So the rows below the sample need two
# running sums: of the terms with the losses as they are, and of the terms with S = 1 and L = 0. Only the row of the
# sample itself is new.


def leave_one_out_areas(
    loss: np.ndarray, confidence: np.ndarray, estimator: str = "harmonic", ties: str = "threshold"
) -> np.ndarray:
    """AURC without sample i, for each i in the order of the input; unit weights, at least two samples.

    Rows, one per distinct confidence and most confident first, have mass m, loss L, and accepted mass N and loss S when
    the threshold is put at them. Without a sample of loss l, the rows above its row keep their terms, its own row has
    m - 1, L - l, N - 1 and S - l, and the rows below have N - 1 and S - l. A term is linear in (L, S), so the last ones
    need two sums over the rows below: with (L, S) as they are, and with (0, 1), which is subtracted l times.
    `estimator` is "harmonic", "loo", "log", "sele" or "2sele" (how a loss counts by its rank), `ties` "threshold"
    (equal confidences are accepted together) or "expected" (one by one, in random order).
    """
    ranked = RankedLoss(rank_confidences(confidence), loss)  # sorted, with the sums of each row
    m = ranked.rows.mass
    L = ranked.rows.loss
    N = ranked.rows.accepted_mass
    S = ranked.rows.accepted_loss
    # of each sample, most confident first: its loss, and the index of its row
    l = ranked.loss
    row = np.arange(len(l)) if ranked.row_of_sample is None else ranked.row_of_sample
    total_mass = np.asarray([len(loss) - 1.0])

    def terms(m: np.ndarray, L: np.ndarray, N: np.ndarray, S: np.ndarray) -> np.ndarray:
        """What rows with these sums add to `total_mass * AURC`, with one sample less in all."""
        rows = Rows(mass=m, loss=L, accepted_mass=N, accepted_loss=S, total_mass=total_mass)
        return np.asarray(area_terms(rows, estimator, ties))

    sum_above = np.cumsum(np.append(0.0, terms(m, L, N, S)))[:-1]  # over the rows strictly above each
    # N - 1, except in the top row, where N = m. That row lies below no sample, so its terms are not used, and m keeps
    # the formulas from a mass above the row of -1.
    one_less = np.maximum(N - 1, m)
    # over the rows strictly below each
    sum_below = _sum_below(terms(m, L, one_less, S))
    sum_below_per_loss = _sum_below(terms(m, np.zeros_like(L), one_less, np.ones_like(S)))
    # 0 if the row had a single sample, whose mass and loss are then 0: `has_empty_rows` is True by default, so that a
    # quotient by an accepted mass of 0 counts as 0
    own_term = terms(m[row] - 1, L[row] - l, N[row] - 1, S[row] - l)
    areas = (sum_above[row] + own_term + sum_below[row] - l * sum_below_per_loss[row]) / total_mass
    return ranked.in_input_order(areas)


def _sum_below(terms: np.ndarray) -> np.ndarray:
    """Sum over the rows strictly below each, for rows most confident first."""
    return np.append(np.cumsum(terms[::-1])[::-1][1:], 0.0)
