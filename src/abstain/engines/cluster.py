"""The plan as tasks for a cluster: small functions of one partition or one bundle, and the passes in their order.

Dask and Spark execute the tasks and move samples between machines; the driver sees histograms and sums only. The
ranges of all groups have one numbering. A bundle is the ranges that one task finishes: small groups share a task,
large ones are cut into several, so the number of tasks depends on the samples, not on the groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from abstain.core.part_sums import Totals
from abstain.engines import finish, paired
from abstain.engines.engine import Engine
from abstain.engines.finish import Answer, EngineRequest, RangePosition, RangeResult
from abstain.engines.histogram import empty_histogram, merge_histograms
from abstain.engines.paired import PairComparison, PairRequest, RangeInfluence
from abstain.engines.ranges import (
    Columns,
    Groups,
    RangeSums,
    Survey,
    choose_cuts,
    concatenate_columns,
    empty_sums,
    has_one_confidence,
    split_into_ranges,
)
from abstain.engines.read import Fields, Loader
from abstain.errors import InputError
from abstain.evaluation.results import Comparison

SAMPLES_PER_RANGE = 4_000_000
SAMPLES_PER_PARTITION = 4_000_000
MAX_GROUPS = 2_000  # about two kilobytes each come to the driver
MAX_POINTS = 200_000  # of all curves together, 32 bytes each
_MAX_TASKS = 4096
_MIN_SAMPLES_PER_TASK = 10_000
_SURVEYED_PER_PARTITION = 1 << 16  # samples of a partition that enter the histogram
_MAX_BINS = 1 << 12  # of the histograms of all groups together
_MIN_BINS = 4  # a group with fewer, a thousandth of all samples, is never cut, so its histogram is dropped

Bundle = list[tuple[int, Columns]]  # samples of some ranges, each with the number of its range
Task = Callable[..., Any]


# the survey -------------------------------------------------------------------------------------------------


def survey_groups(groups: Groups, function: str) -> Survey:
    """The survey of one partition: of each group, the number of samples and a histogram of their confidences.

    The histogram is made of a sample of about `_SURVEYED_PER_PARTITION` rows, seeded by the number of rows so that a
    repeated task gives the same result, and scaled up to the number of all rows. InputError if there are too many
    groups; `function` is what errors name. A group of which no row was drawn has no histogram.
    """
    _check_group_count(function, len(groups))
    sample_count = sum(columns.sample_count for columns in groups.values())
    survey = Survey()
    stride = max(1, sample_count // _SURVEYED_PER_PARTITION)  # every so many samples enter the histogram
    # adds each group's number of samples and histogram, and its smallest and largest weight
    survey.add(groups, stride=stride, rng=np.random.default_rng(sample_count))
    for group, histogram in survey.histograms.items():
        # The mass of a bin is its number of samples: a survey counts each sample once, whatever its weight. Scaled up,
        # a partition counts by all of its samples, however few of them entered the histogram.
        surveyed_count = histogram.mass.sum()
        scale = groups[group].sample_count / surveyed_count
        # the rows of `sums` are mass and loss by bin
        survey.histograms[group] = replace(histogram, sums=histogram.sums * scale)
    return _limit_histograms(survey)  # the same survey, with coarser histograms where there are many groups


def merge_surveys(surveys: Sequence[Survey], function: str) -> Survey:
    """One survey of several partitions."""
    survey = Survey().include(*surveys)
    _check_group_count(function, len(survey.sample_counts))
    return _limit_histograms(survey)


def _check_group_count(function: str, group_count: int) -> None:
    """InputError for too many groups, such as a column of ids, before each gets a histogram."""
    if group_count > MAX_GROUPS:
        raise InputError(
            f"{function}: `groups` must name a column of at most {MAX_GROUPS:,} groups, got more. The answers of all "
            f"groups come to the driver. Take coarser groups, or `abstain.engines.files`, which has no such limit."
        )


def _limit_histograms(survey: Survey) -> Survey:
    """Coarsen the histograms of many groups, in place, so that all together stay about as large as that of one.

    Bins are shared out by number of samples. A group too small to be cut into ranges loses its histogram. `survey`
    holds what the first pass found of each group: number of samples, histogram of confidences, weights. Returns the
    same survey.
    """
    if len(survey.sample_counts) > 1:
        for group, histogram in list(survey.histograms.items()):
            # the group's share of `_MAX_BINS` (4,096); with fewer than four its ranges would not be cut
            max_bins = _MAX_BINS * survey.sample_counts[group] // survey.sample_count
            if max_bins < _MIN_BINS:
                del survey.histograms[group]
            else:
                # of a single histogram this joins neighbouring bins, until at most `max_bins` are left
                survey.histograms[group] = merge_histograms([histogram], max_bins)
    return survey


# the numbering of ranges ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RangeNumbers:
    """One numbering of the ranges of all groups.

    Parameters
    ----------
    range_starts : dict
        Where the ranges of each group start, ascending (the first range has no start).
    first_range : dict
        The number of each group's first range.
    bundle_of_range : ndarray, shape (ranges,)
        The bundle of each range.
    """

    range_starts: dict[Any, np.ndarray]
    first_range: dict[Any, int]
    bundle_of_range: np.ndarray

    @property
    def groups(self) -> list[Any]:
        """All groups; only None, which stands for all samples, where there is no column of groups."""
        return list(self.first_range)

    @property
    def range_count(self) -> int:
        """Number of ranges."""
        return len(self.bundle_of_range)

    @property
    def bundle_count(self) -> int:
        """Number of bundles."""
        return int(self.bundle_of_range[-1]) + 1

    def ranges_of(self, group: Any) -> slice:
        """The numbers of a group's ranges."""
        start = self.first_range[group]
        return slice(start, start + len(self.range_starts[group]) + 1)

    def by_bundle(self, values: Mapping[int, Any]) -> dict[int, dict[int, Any]]:
        """Values by number of the range, grouped by bundle."""
        values_of_bundle: dict[int, dict[int, Any]] = {}
        for number, value in values.items():
            values_of_bundle.setdefault(int(self.bundle_of_range[number]), {})[number] = value
        return values_of_bundle

    def positions(self, sums: RangeSums) -> dict[int, RangePosition]:
        """The position of each range that holds samples, by number of the range.

        A position holds mass and loss above the range, and the totals, both within its group: groups are ranked apart.
        `sums` has a column for every range. The dict goes group by group, and through each group from the most
        confident range down; callers rely on that order.
        """
        positions = {}
        # numbers of ranges ascend with the confidence within a group
        for group, first_number in self.first_range.items():
            group_sums = sums.select(self.ranges_of(group))
            mass_above, loss_above = group_sums.above()  # by range of the group, least confident first
            totals = group_sums.totals()
            # places of the ranges that hold samples, ascending
            filled_places = np.flatnonzero(group_sums.count)
            for place in filled_places[::-1].tolist():
                positions[first_number + place] = RangePosition(
                    mass_above=float(mass_above[place]), loss_above=float(loss_above[place]), totals=totals
                )
        return positions


def number_ranges(survey: Survey, task_count: int) -> RangeNumbers:
    """Cut every group into ranges of confidence, number them and fill bundles with them.

    A range holds at most about `1 / task_count` of all samples, and a bundle, the ranges that one task finishes, about
    as many. A group without a histogram is too small to be cut: all of it is one range. A range that can hold only one
    confidence may hold more samples, but counts as empty, because its sums are enough and its samples are not sent.
    `survey` is the first pass over the data: numbers of samples and histograms of confidences by group.
    """
    all_samples = survey.sample_count
    range_starts: dict[Any, np.ndarray] = {}  # by group, ascending; the range below the first has no start
    first_range: dict[Any, int] = {}  # by group, the number of its first range
    sizes: list[float] = []  # about how many samples each range has, by its number
    for group, group_samples in survey.sample_counts.items():
        histogram = survey.histograms.get(group, empty_histogram())
        ranges_for_size = -(-group_samples * task_count // all_samples)  # rounded up
        cuts = choose_cuts(histogram, ranges_for_size)  # no cut where the histogram is empty
        range_starts[group] = cuts
        first_range[group] = len(sizes)
        range_count = len(cuts) + 1
        if len(histogram):
            # a bin counts for the range in which its smallest confidence lies
            range_of_bin = np.searchsorted(cuts, histogram.low, "right")
            mass = np.bincount(range_of_bin, histogram.mass, range_count)
            # scaled up: samples of partitions that drew none of this group are not in the histogram
            range_sizes = mass * (group_samples / max(mass.sum(), 1.0))
        else:
            range_sizes = np.full(range_count, group_samples / range_count)
        # by range: is it between a number and the next float, so that it can hold only one confidence?
        range_sizes = np.where(has_one_confidence(cuts), 0.0, range_sizes)
        sizes += range_sizes.tolist()
    bundle_of_range = _fill_bundles(sizes, samples_per_bundle=all_samples / task_count)
    return RangeNumbers(range_starts, first_range, bundle_of_range)


def _fill_bundles(sizes: Sequence[float], samples_per_bundle: float) -> np.ndarray:
    """The number of each range's bundle, for ranges with about `sizes` samples.

    A bundle is the ranges that one task finishes. Ranges follow one another; a new bundle starts when the next range
    would bring it above `samples_per_bundle`. So a larger range is a bundle of its own (but for ranges of size 0), and
    numbers ascend from 0 without gaps.
    """
    bundle_of_range = []
    bundle = 0
    samples_in_bundle = 0.0
    for size in sizes:
        # a range that is larger than `samples_per_bundle` must not leave an empty bundle before it
        if samples_in_bundle and samples_in_bundle + size > samples_per_bundle:
            bundle += 1
            samples_in_bundle = 0.0
        bundle_of_range.append(bundle)
        samples_in_bundle += size
    return np.asarray(bundle_of_range)


def split_into_bundles(
    groups: Mapping[Any, Columns], numbering: RangeNumbers, keep_tied_samples: bool = False
) -> tuple[list[Bundle], RangeSums]:
    """Sort samples by group into ranges and bundles.

    Returns a list of all bundles, by number, each a list of (number of the range, its samples), and the sums of every
    range, both over the samples of `groups` alone. A bundle is the ranges that one task finishes. Ranges without
    samples are left out of the bundles; their sums are 0. Ranges that can hold only one confidence are left out too,
    because their sums are enough to finish them, unless `keep_tied_samples`: a comparison of two models reads every
    sample. `numbering` has the cuts of all groups, and the number and the bundle of each range.
    """
    bundles: list[Bundle] = [[] for _ in range(numbering.bundle_count)]
    all_sums = empty_sums(numbering.range_count)
    for group, columns in groups.items():
        group_ranges = numbering.ranges_of(group)  # a slice of the numbers of all ranges
        # `sums` has a column per range of the group; `low` and `high` are the smallest and largest confidence in each
        parts, sums = split_into_ranges(
            columns, numbering.range_starts[group], keep_tied_samples=keep_tied_samples
        )
        all_sums.sums[:, group_ranges] = sums.sums
        all_sums.low[group_ranges] = sums.low
        all_sums.high[group_ranges] = sums.high
        # one part per range of the group, least confident first, as the numbers ascend
        for number, part in enumerate(parts, group_ranges.start):
            if part.sample_count:
                bundles[numbering.bundle_of_range[number]].append((number, part))
    return bundles, all_sums


def join_pieces_by_range(pieces: Sequence[Bundle]) -> Iterator[tuple[int, Columns]]:
    """Number and samples of each range of a bundle, in ascending order of the number.

    A bundle is the ranges that one task finishes; `pieces` holds it from every partition, as lists of (number of the
    range, its samples). Samples are copied together one range at a time, not all ranges at once.
    """
    columns_of_range: dict[int, list[Columns]] = {}
    for piece in pieces:
        for number, columns in piece:
            columns_of_range.setdefault(number, []).append(columns)
    for number in sorted(columns_of_range):
        yield number, concatenate_columns(columns_of_range[number])


# tasks ------------------------------------------------------------------------------------------------------


def plan_ranges(
    function: str, fields: Fields, survey: Survey, request: EngineRequest, min_tasks: int
) -> RangeNumbers:
    """Choose the ranges of every group: enough to keep each small and every worker busy.

    `min_tasks` is how many tasks keep all workers busy; small data gets fewer. InputError, naming `function`, for data
    without samples, for more points of curves than the driver takes, and for weights that do not suit the estimator.
    `fields` names the columns to read. `survey` holds what the first pass found of each group: number of samples,
    histogram of confidences, weights. `request` says what to compute. Returns the numbers of all ranges, and which
    ranges (a bundle) each task finishes.
    """
    rows = survey.sample_count
    group_count = len(survey.sample_counts)
    if not rows:
        raise InputError(f"{function}: needs at least one sample, the data holds none.")
    if request.curve_points * group_count > MAX_POINTS:
        raise InputError(
            f"{function}: `points` must be at most {MAX_POINTS // group_count:,} for {group_count:,} groups, "
            f"got {request.curve_points:,}. The points of all curves come to the driver."
        )
    finish.check_weights(function, fields, survey, request)
    # both rounded up: a range of at most 4 million samples, a task of at least 10,000
    tasks_for_size = -(-rows // SAMPLES_PER_RANGE)
    tasks_for_workers = min(min_tasks, -(-rows // _MIN_SAMPLES_PER_TASK))
    # the second argument is the number of tasks: a range holds at most about one task's share of all samples
    return number_ranges(survey, min(max(tasks_for_size, tasks_for_workers), _MAX_TASKS))


def split_partition(part: Any, load: Loader, numbering: RangeNumbers) -> tuple[list[Bundle], RangeSums]:
    """Second pass over one partition: its samples by bundle, and the sums of every range.

    `load` reads the partition. `numbering` is the numbering of the ranges of all groups.
    """
    compares_models = load.second_fields is not None
    return split_into_bundles(load(part), numbering, keep_tied_samples=compares_models)


def merge_sums(parts: Sequence[RangeSums]) -> RangeSums:
    """The sums over all partitions."""
    return parts[0].merge(*parts[1:])


def finish_bundle(
    pieces: Sequence[Bundle], positions: Mapping[int, RangePosition], request: EngineRequest
) -> dict[int, RangeResult]:
    """The results of a bundle's ranges, by number of the range.

    A bundle is the ranges that one task finishes; `pieces` holds it from every partition, as lists of (number of the
    range, its samples). `positions` has the mass and loss above each range, and the totals of its group, by number.
    Ranges without a position (those already finished from their sums) are skipped. `request` says what to compute.
    """
    results = {}
    # the samples of one range at a time, from all partitions
    for number, columns in join_pieces_by_range(pieces):
        if number in positions:
            results[number] = finish.finish_range(columns, positions[number], request)
    return results


def pass_bundle_to_second_model(
    pieces: Sequence[Bundle],
    influences: Mapping[int, RangeInfluence],
    request: EngineRequest,
    numbering: RangeNumbers,
) -> tuple[list[Bundle], RangeSums]:
    """Move the samples of a bundle of the first model to the bundles of the second, with their first influence.

    A bundle is the ranges that one task finishes. `pieces` holds the bundle from every partition, as lists of (number
    of the range, its samples). The influence of a sample on the area of the first model depends on the samples of other
    ranges through a few sums; `influences` has them for each range with samples, by its number. A moved sample has the
    second confidence and loss, and this influence. `numbering` has the cuts of the second model's ranges, and the
    bundle of each. Returns all bundles of the second model, with these samples only, and the sums of its ranges over
    them. There are no groups: all samples are under None. `request` says what to compute.
    """
    moved = [
        paired.pass_to_second_model(columns, influences[number], request)
        for number, columns in join_pieces_by_range(pieces)
    ]
    # no group where the bundle has no samples: all bundles of the second model are then empty
    groups = {None: concatenate_columns(moved)} if moved else {}
    # `joint_sums_of_bundle` reads both influences of every sample, also of those in a range with one confidence
    return split_into_bundles(groups, numbering, keep_tied_samples=True)


def joint_sums_of_bundle(
    pieces: Sequence[Bundle],
    influences: Mapping[int, RangeInfluence],
    request: EngineRequest,
    scale_derivatives: tuple[float, float],
) -> np.ndarray:
    """Sums over a bundle of the second model of (a - b)^2, e^2 and e^4, which the test of the difference needs.

    a and b are what a sample does to the first and the second area. e is the same for the difference of both areas on
    the scale of the test (log, logit or plain): scale_derivatives[0] a - scale_derivatives[1] b, with the derivatives
    of that scale at the two areas. `pieces` holds the bundle from every task that moved samples to it, each sample with
    its first influence. `influences` is what each range needs from outside to compute the second one, by number of the
    range; every range with samples is there. `request` says what to compute.
    """
    sums = np.zeros(3)
    for number, columns in join_pieces_by_range(pieces):
        sums = sums + paired.joint_sums(columns, influences[number], request, scale_derivatives)
    return sums


# passes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PlanResult:
    """What one execution of the plan returns.

    `bundled_samples` are the samples by bundle (the ranges that one task finishes), in the form the engine keeps them.
    """

    survey: Survey
    numbering: RangeNumbers
    sums: RangeSums
    results: dict[int, RangeResult]
    request: EngineRequest
    bundled_samples: Any

    @property
    def groups(self) -> list[Any]:
        """All groups; only None, which stands for all samples, where there is no column of groups."""
        return self.numbering.groups

    def answer(self, group: Any, oracle: PlanResult | None = None) -> Answer:
        """The answer for a group; `oracle` is the result of the pass in the order of the losses."""
        oracle_results = [] if oracle is None else oracle.results_of(group)
        return Answer(self.totals_of(group), self.request, self.results_of(group), oracle_results)

    def totals_of(self, group: Any) -> Totals:
        """The totals of a group."""
        return self.sums.select(self.numbering.ranges_of(group)).totals()

    def results_of(self, group: Any) -> list[RangeResult]:
        """The range results of a group, most confident range first."""
        ranges = self.numbering.ranges_of(group)
        descending = range(ranges.stop - 1, ranges.start - 1, -1)
        return [self.results[number] for number in descending if number in self.results]

    def influences_by_bundle(self) -> dict[int, dict[int, RangeInfluence]]:
        """What the influences of samples need from outside their range: by bundle, then by number of the range.

        The influence of a sample is what it does to the area. Only for a plan without groups. Results and positions are
        both ordered from the most confident range down.
        """
        positions = self.numbering.positions(self.sums)  # by number, of the ranges that hold samples
        # one item per range with samples, in the same order; all samples are the group None
        influences = paired.range_influences(self.results_of(None), list(positions.values()), self.request)
        return self.numbering.by_bundle(dict(zip(positions, influences)))


class ClusterRun(ABC):
    """The plan over some data; Dask and Spark define how samples and results are moved."""

    cores: int

    @abstractmethod
    def reduce_partitions(self, task: Task, load: Loader, merge: Task, stage: str) -> Any:
        """`task(groups)` of each partition, merged a few at a time; None if there is no partition."""

    @abstractmethod
    def sort_into_bundles(self, load: Loader, numbering: RangeNumbers, stage: str) -> tuple[Any, RangeSums]:
        """The samples by bundle, stored wherever the engine likes, and the sums of every range."""

    @abstractmethod
    def pass_to_second_model(
        self,
        bundled_samples: Any,
        influences: Mapping[int, Mapping[int, RangeInfluence]],
        request: EngineRequest,
        numbering: RangeNumbers,
    ) -> Any:
        """The stored samples, with their influences on the first model's area, by the bundles of a second model."""

    @abstractmethod
    def map_bundles(
        self, bundled_samples: Any, task: Task, arguments: Mapping[int, Any], stage: str
    ) -> Iterable[Any]:
        """`task(pieces, arguments[bundle])` of each bundle."""

    def execute(self, load: Loader, request: EngineRequest, stage: str = "") -> PlanResult:
        """Run the whole plan: survey the data, cut it into ranges, sum these up, and finish each where it is stored.

        A range is the samples of a group whose confidences lie between two thresholds. Ranges with one confidence are
        finished here from their sums, all others by tasks, each of which finishes a bundle of ranges. `load` reads a
        partition as checked columns by group. The ranges are those of the confidence in `load.fields`. For a comparison
        `load` also reads the columns of a second model, which are stored with the samples; the second model has an
        execution of its own. Finishing a range means to compute its part of what `request` asks for: areas, the sums
        behind their error bars, points of curves. `stage` is a prefix for the titles of progress bars. InputError for
        data without samples, too many groups or points of curves, and weights that do not suit the request.
        """
        survey_task = partial(survey_groups, function=load.function)
        merge_task = partial(merge_surveys, function=load.function)
        # what is surveyed (confidences, losses, weights and groups) comes from `load.fields` alone
        first_model = load._replace(second_fields=None)
        survey = self.reduce_partitions(survey_task, first_model, merge_task, f"{stage}survey")
        if survey is None:  # there is no partition; `plan_ranges` raises for data without samples
            survey = Survey()
        # two tasks per core, so that a core that finishes early has another one to do
        min_tasks = 2 * max(1, self.cores)
        # the cuts of all groups, and the number and the bundle of each range
        numbering = plan_ranges(load.function, load.fields, survey, request, min_tasks)
        # From here on the weights of each group are divided by its unit as they are read: 1 for repetitions, otherwise
        # the weight itself if all are equal, or the power of two that brings the largest into [1, 2).
        load = load._replace(weight_units=survey.weight_units(load.fields.repetitions))
        bundled_samples, sums = self.sort_into_bundles(load, numbering, stage)
        results: dict[int, RangeResult] = {}
        positions_to_finish: dict[int, RangePosition] = {}
        # of each range that holds samples: the mass and loss above it, and the totals of its group
        for number, position in numbering.positions(sums).items():
            # A range with one confidence: its column of `sums.sums` is enough, the sums of w^p l^j (weight w, loss l)
            # and the numbers of samples that `ranges.SUMS` names.
            if sums.is_tied[number]:
                confidence = float(sums.low[number])
                results[number] = finish.finish_tie(sums.sums[:, number], confidence, position, request)
            else:
                positions_to_finish[number] = position
        if positions_to_finish:
            finish_task = partial(finish_bundle, request=request)
            # by bundle: the positions of its ranges by number; the task returns their results by number
            arguments = numbering.by_bundle(positions_to_finish)
            for bundle_results in self.map_bundles(bundled_samples, finish_task, arguments, f"{stage}finish"):
                results |= bundle_results
        return PlanResult(
            survey=survey,
            numbering=numbering,
            sums=sums,
            results=results,
            request=request,
            bundled_samples=bundled_samples,
        )

    def joint_sums(
        self, first: PlanResult, second: PlanResult, scale_derivatives: tuple[float, float]
    ) -> np.ndarray:
        """The three sums over all samples that the test of the difference needs: of (a - b)^2, e^2 and e^4.

        a and b are what a sample does to the first and the second area (its influence), and
        e = scale_derivatives[0] a - scale_derivatives[1] b, with the derivatives of the scale of the test (log, logit
        or plain) at the two areas. A bundle is the ranges that one task finishes. Every sample is moved from its bundle
        of the first model, with its influence on the first area, to its bundle of the second. What the influences need
        from outside their range is passed by bundle, and in it by number of the range.
        """
        # the samples by bundle of the second model, stored wherever the engine likes
        moved = self.pass_to_second_model(
            first.bundled_samples, first.influences_by_bundle(), first.request, second.numbering
        )
        # of a bundle, an array of its three sums
        task = partial(joint_sums_of_bundle, request=second.request, scale_derivatives=scale_derivatives)
        return np.sum(list(self.map_bundles(moved, task, second.influences_by_bundle(), "joint")), axis=0)


def make_engine(
    name: str, connect: Callable[..., AbstractContextManager[ClusterRun]], connection_option: str
) -> Engine:
    """The engine of a kind of cluster, from the function that connects to it.

    `connect(function, data, fields, **options)` is a context manager that yields the run over the data. Its options
    are `progress` and `connection_option`, the name of the option for an existing connection, such as "client".
    `name` is what messages call the engine.
    """

    def answer(
        function: str, data: Any, fields: Fields, request: EngineRequest, **options: Any
    ) -> dict[Any, Answer]:
        """The answer for each group (None: all samples); where needed by a second execution for the oracle.

        `function` is the public function that messages name. `data` is whatever `connect` reads. `fields` names the
        columns to read. `request` says what to compute. `options` are those of `connect`. The oracle is the best
        possible order of the samples: by loss, smallest first. In its execution minus the loss takes the place of the
        confidence.
        """
        with connect(function, data, fields, **options) as run:
            load = Loader(function, fields)
            result = run.execute(load, request)
            oracle = None  # without a second execution
            # `fields.repetitions`: are weights declared as numbers of repetitions? Equal weights are counts as well.
            weights_are_counts = result.survey.weights_are_counts(fields.repetitions)
            # None where no metric needs the best order, or where its area has a closed form: losses of 0 and 1 in all
            # groups (`survey.zero_one`), with weights that are counts
            oracle_request = request.for_oracle(result.survey.zero_one, weights_are_counts)
            if oracle_request is not None:
                totals = [result.totals_of(group) for group in result.groups]
                # Are the losses of each group 0 or one number c? That includes losses of 0 and 1 with weights that are
                # no counts. The loader then orders errors of unequal weight by weight, lightest first; other losses are
                # ordered by the loss alone.
                zero_one_in_units_of_c = all(total.in_error_units().zero_one for total in totals)
                load_by_loss = load._replace(oracle_zero_one=zero_one_in_units_of_c)
                oracle = run.execute(load_by_loss, oracle_request, stage="oracle: ")
            return {group: result.answer(group, oracle) for group in result.groups}

    def compare_pair(pair: PairRequest, data: Any, **options: Any) -> Comparison:
        """Execute the plan for each model, then add up the sums over both influences of each sample.

        `pair` names the columns and the metric of both models; `data`, which `connect` reads, holds all of them. There
        are no groups.
        """
        with connect(pair.function, data, pair.first, **options) as run:
            # The samples stored for the first model also hold loss and confidence of the second. `joint_sums` moves
            # them to the ranges of the second model, so that its own execution need not store the first one's.
            first_load = Loader(pair.function, pair.first, second_fields=pair.second)
            first = run.execute(first_load, pair.request, stage="first: ")
            second = run.execute(Loader(pair.function, pair.second), pair.request, stage="second: ")
            # all samples are the group None
            comparison = PairComparison(pair, first.answer(None), second.answer(None))
            # derivatives, at the two areas, of the scale on which their difference is tested
            scale_derivatives = comparison.scale_derivatives
            difference_sums = run.joint_sums(first, second, scale_derivatives)
            return comparison.compare(difference_sums)

    # what users may pass on to `connect`: `options` by way of `answer`, `pair_options` by way of `compare_pair`
    options = (connection_option, "progress")
    return Engine(name=name, answer=answer, compare_pair=compare_pair, options=options, pair_options=options)
