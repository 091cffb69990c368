"""Exact metrics of prediction files larger than memory: Parquet, Arrow and CSV.

Data that fits into the memory budget is read and sorted at once. Otherwise there are two passes over the files (a
histogram of the confidences, then every sample is written to the file of its range) and one over the ranges, none of
which needs more memory than allowed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from abstain._progress import progress_bars
from abstain._size import free_bytes, parse_size
from abstain.core.part_sums import Totals, totals_from_samples
from abstain.core.tally import bytes_between
from abstain.engines import finish, paired, ranges, read
from abstain.engines.engine import FUNCTIONS, Engine
from abstain.engines.finish import Answer, EngineRequest, RangePosition, RangeResult
from abstain.engines.histogram import Histogram, empty_histogram
from abstain.engines.paired import PairComparison, PairRequest, RangeInfluence
from abstain.engines.ranges import Columns, Groups, RangeSums, Survey
from abstain.engines.read import Fields, Loader
from abstain.engines.spill import CountedRange, RangeFiles, Spill, StoredRange, choose_cuts_that_fit
from abstain.errors import InputError
from abstain.evaluation import Comparison, register_engine
from abstain.formats.alignment import PAIRED_BY_POSITION, check_same_ids, check_same_weights
from abstain.formats.arrow import Contents
from abstain.formats.table_files import find_files

__all__ = [*FUNCTIONS]

# All numbers of samples.
_SORTED_AT_ONCE = 1 << 24  # sorting more at once is slower: fresh memory pages cost more than another range
_MIN_COUNTED = 1 << 22  # a table of counters does not pay for fewer
_MIN_FOR_PROGRESS_BAR = 20_000_000  # from here on a progress bar is worth showing
_ASSUMED_ROWS = 50_000_000  # where the files do not tell
_MIN_FOR_PARTIAL_SURVEY = 1 << 24  # from here on a survey of parts of the files is enough
_PAIRED_BATCH = 1 << 18  # of two models, read at a time

_SHARE_FOR_COUNTERS = 0.45  # of the free memory; ranges that must be sorted get the larger part
_SURVEYED_PARTS = 16  # parts of `read.BATCH` samples in such a survey
_PROGRESS_FILE = "progress.json"


class RangeCuts(NamedTuple):
    """Where the ranges of a group start, ascending, and which of them is counted, if any.

    Of a counted range memory holds the numbers of samples and of errors at each float32 value; its samples are not
    stored.
    """

    starts: np.ndarray
    counted_range: CountedRange | None


class ColumnTypes(NamedTuple):
    """What the types of the columns tell about the samples before any file is read."""

    zero_one: bool  # losses are certainly 0/1
    is_double: bool  # confidences may need a float64
    has_weights: bool


def samples_that_fit(memory: int, request: EngineRequest, types: ColumnTypes) -> int:
    """Number of samples that a range may hold; `memory` is the budget of this process in bytes."""
    return int(0.9 * free_bytes(memory)) // request.bytes_per_sample(*types)


@dataclass
class Run:
    """One execution of a request over files.

    Parameters
    ----------
    function : str
        The public function that errors name.
    files : list
        Whatever `read` takes.
    read : callable
        Yields the samples of a file, batch by batch.
    sample_count : int or None
        Number of samples in all files, where they tell.
    request : EngineRequest
        What to compute.
    memory : int
        Budget of this process in bytes.
    advance : callable
        Called with the name of a stage and the number of samples done, for the progress bars.
    fields : Fields
        The columns.
    weight_units : dict
        What to divide the weights of each group by; known after the survey.
    """

    function: str
    files: list[Any]
    read: Callable[[Any], Iterator[Groups]]
    sample_count: int | None
    request: EngineRequest
    memory: int
    advance: Callable[[str, int], None]
    fields: Fields
    weight_units: dict[Any, float] = field(default_factory=dict)

    def batches(self, stage: str, file: Any) -> Iterator[Groups]:
        """The samples of a file by group, with progress reported after each batch."""
        for groups in read.read_ahead(self.read(file)):
            yield ranges.in_units(groups, self.weight_units)
            self.advance(stage, sum(columns.sample_count for columns in groups.values()))

    def survey(self) -> Survey:
        """First pass over the files."""
        return self._survey(two_models=False)[0]

    def survey_two_models(self) -> tuple[Survey, Survey]:
        """First pass over the files of two models: a survey of each."""
        first, second = self._survey(two_models=True)
        return first, second

    def _survey(self, two_models: bool) -> list[Survey]:
        """First pass over the files: survey the samples, check the weights, and set `self.weight_units` from them.

        Returns the survey of the first model, and with `two_models` also that of the second, whose losses and
        confidences are attached to the same samples. InputError if there is no sample, or if the weights do not suit
        the request.

        `fields` names the columns and `sample_count` is the number of samples in all files, None where they do not
        tell. Batches are samples by group. The survey of a model holds, for each group, the number of samples, a
        histogram of the confidences of some of them, and the range of the weights.
        """
        self.weight_units = {}  # weights must be read as they are, so `self.batches` divides them by nothing
        surveys = [Survey(), Survey()] if two_models else [Survey()]
        rng = np.random.default_rng(0)
        sample_count = _ASSUMED_ROWS if self.sample_count is None else self.sample_count
        stride = max(1, sample_count // ranges.SURVEY_SAMPLES)  # every so many samples enter the histogram
        for file in self.files:
            for groups in self.batches("survey", file):  # samples by group, with the progress bar
                surveys[0].add(groups, stride=stride, rng=rng)
                if two_models:  # a comparison has no groups: all samples are under None
                    surveys[1].add({None: groups[None].second_model()}, stride=stride, rng=rng)
        if not surveys[0].sample_count:
            raise InputError(f"{self.function}: needs at least one sample, the files hold none.")
        # both models have the weights of the samples
        finish.check_weights(self.function, self.fields, surveys[0], self.request)
        self.weight_units = surveys[0].weight_units(self.fields.repetitions)
        return surveys

    def samples_per_range(self, survey: Survey, reserved_bytes: int = 0) -> int:
        """Samples that a range may hold, besides `reserved_bytes` for other use."""
        types = ColumnTypes(survey.zero_one, survey.is_double, survey.has_weights)
        return samples_that_fit(self.memory - reserved_bytes, self.request, types)

    def choose_cuts(self, survey: Survey, may_count: bool = True) -> dict[Any, RangeCuts]:
        """Cut each group into ranges (samples with confidences between two thresholds) that fit the memory budget.

        Where many samples share few float32 values, counting them takes less than sorting them: such a window of values
        becomes a range of its own that is counted, unless `may_count` is False. (Confidences that need a float64 are
        never counted.) The other ranges share the memory that its counters leave. Large groups are cut into a few
        ranges even if memory would take fewer, because sorting too many samples at once is slower; at most
        `ranges.MAX_COMPARED_CUTS`, up to which comparing a confidence with all thresholds finds its range fast.

        Returns for each group where its ranges start (confidences, ascending) and which range is counted, if any.
        `survey` holds what the first pass found of each group: number of samples, histogram of confidences, weights.
        """
        # by group where counting pays: first and last value of the window
        windows = self._choose_windows(survey) if may_count else {}
        # one counter for each float32 from the first to the last value of a window
        counter_bytes = sum(bytes_between(*window) for window in windows.values())
        samples_per_range = self.samples_per_range(survey, reserved_bytes=counter_bytes)

        def cut_for_sorting(histogram: Histogram, sample_count: int) -> np.ndarray:
            """Where ranges start whose samples are sorted: as many as memory needs, or more where that is faster."""
            min_ranges = min(ranges.MAX_COMPARED_CUTS, sample_count // _SORTED_AT_ONCE)
            # ranges of about three quarters of `samples_per_range`, so that few turn out too large
            return choose_cuts_that_fit(histogram, sample_count, samples_per_range, min_ranges)

        cuts_of_group: dict[Any, RangeCuts] = {}
        for group, sample_count in survey.sample_counts.items():
            histogram = survey.histograms.get(group, empty_histogram())
            window = windows.get(group)
            if window is None:
                starts = cut_for_sorting(histogram, sample_count)
                cuts_of_group[group] = RangeCuts(starts, counted_range=None)
                continue
            # the histogram without the bins of the window
            not_counted = ranges.outside_window(histogram, window)
            # the histogram counts some of the samples, each with mass 1
            sorted_samples = int(sample_count * not_counted.mass.sum() / histogram.mass.sum())
            starts = cut_for_sorting(not_counted, sorted_samples)
            # the window becomes a range of its own; `place` counts the ranges of the group from the least confident
            starts, place = ranges.cut_at_window(starts, window)
            cuts_of_group[group] = RangeCuts(starts, CountedRange(place, window))
        return cuts_of_group

    def _choose_windows(self, survey: Survey) -> dict[Any, tuple[float, float]]:
        """For each group where counting pays, the first and last float32 value of the window to count.

        Only 0/1 losses at float32 confidences without weights can be counted. Groups share the memory for counters by
        their number of samples. `survey` holds what a first pass over the samples found of each group: number of
        samples, histogram of confidences, weights. In the pass for the oracle, which reads the samples in the order of
        their losses, minus the loss as float64 takes the place of the confidence, so nothing is counted there.
        """
        if not survey.zero_one or survey.is_double or survey.has_weights:
            return {}
        # `free_bytes`: what this process does not use of its budget, less what reading files takes
        counter_bytes = int(_SHARE_FOR_COUNTERS * free_bytes(self.memory))
        windows = {}
        # the histogram of a group is that of the confidences of some of its samples
        for group, histogram in survey.histograms.items():
            group_samples = survey.sample_counts[group]
            if group_samples < _MIN_COUNTED:  # 4 million
                continue
            group_bytes = counter_bytes * group_samples // survey.sample_count
            window = ranges.choose_window(histogram, group_samples, group_bytes)
            if window is not None:  # None: counting does not pay
                windows[group] = window
        return windows

    def partition(self, spill: Spill, cuts: dict[Any, RangeCuts], key: str | None) -> dict[Any, RangeFiles]:
        """Second pass over the files: write every sample to the file of its range, and add up the sums of the ranges.

        A range is the samples of a group whose confidences lie between two thresholds; `cuts` says for each group where
        its ranges start and which of them is counted, if any. With a `key`, a hash of the files and the request,
        progress is saved after each file, and an interrupted pass with the same key goes on where it stopped, with its
        own cuts instead of `cuts`; None saves nothing. Saved arrays have the order of the groups in `cuts`. With a key
        no range may be counted: counters are not saved. `spill` is the folder of intermediate data.

        A counted range has no file: memory holds the numbers of samples and of errors at each of its float32 values.
        """
        # how far an interrupted run came; None if there was none, or nothing is to be saved
        progress = None if key is None else _load_progress(spill, key)
        # the sums of a range with one confidence are enough for its areas, but a comparison reads every sample again
        keep_tied_samples = self.request.compares_two_models
        files_of_group = {}
        for place, (group, group_cuts) in enumerate(cuts.items()):
            if progress is None:
                files_of_group[group] = RangeFiles(
                    spill,
                    group_cuts.starts,
                    counted_range=group_cuts.counted_range,
                    keep_tied_samples=keep_tied_samples,
                )
                continue
            # of the interrupted run: where its ranges start, and the fields of `RangeSums` so far; new cuts would
            # differ if this process had more or less memory
            starts, sums, low, high = progress.arrays[place]
            range_files = RangeFiles(spill, starts, counted_range=None, keep_tied_samples=keep_tied_samples)
            range_files.sums = RangeSums(sums, low, high)
            files_of_group[group] = range_files
        # files that were read whole before the interruption are skipped
        done_files = 0 if progress is None else progress.done_files
        for file in self.files[done_files:]:
            for groups in self.batches("partition", file):
                for group, columns in groups.items():
                    # writes the samples to the files of their ranges and adds them to the sums
                    files_of_group[group].add(columns)
            done_files += 1
            if key is not None:
                _save_progress(spill, key, done_files, files_of_group)
        return files_of_group

    def execute(
        self,
        survey: Survey,
        cuts: dict[Any, RangeCuts],
        spill_folder: str | None,
        resume_folder: str | None = None,
        key: str | None = None,
    ) -> dict[Any, tuple[Totals, list[RangeResult]]]:
        """Second pass over the files, and the pass over the ranges.

        Intermediate data goes to a temporary folder in `spill_folder` (None: the system's), or to `resume_folder`,
        which is kept if the work is interrupted; `key` then identifies the work. `cuts` says for each group where its
        ranges start (a range: the samples with confidences between two thresholds) and which one is counted. Returns
        for each group its totals and the results of its ranges, most confident first. `survey` holds what the first
        pass found of each group: number of samples, histogram of confidences, weights.
        """
        results = {}
        with Spill(spill_folder, resume_folder) as spill:
            files_of_group = self.partition(spill, cuts, key)
            for group in list(files_of_group):
                # popped, so that the counters of a group are freed once they are read
                range_files = files_of_group.pop(group)
                # depends on the memory that is free now, which grows as counters are freed
                samples_per_range = self.samples_per_range(survey)
                advance = partial(self.advance, "finish")
                # the results of all ranges, most confident first; `finish` also returns the stored ranges, which only a
                # comparison of two models reads again
                _, range_results = range_files.finish(samples_per_range, self.request, advance)
                # read after `finish`, which adds counted samples to the sums
                totals = range_files.sums.totals()
                results[group] = (totals, range_results)
        return results

    def compare(self, pair: PairRequest, spill: Spill) -> Comparison:
        """Compare two models whose losses and confidences are read together, without groups.

        There are two passes over the files (survey, samples by range of the first model) and two over the ranges of
        each model. The first finishes the areas. The second computes the influence of each sample: of the first model
        it moves every sample, with its influence on the first area, to its range of the second; of the second model it
        adds up the sums over both influences that the test of the difference needs. Intermediate data goes to `spill`.
        `pair` names the columns and the metric of both models. "first", "second", "move" and "joint" are titles on the
        progress bar.

        The second passes read every sample. So no range is counted, which would store numbers of samples instead of the
        samples, and samples of ranges with one confidence are stored too, though sums are enough for their areas.
        """
        # of each model: the number of samples, and a histogram of the confidences
        first_survey, second_survey = self.survey_two_models()
        samples_per_range = self.samples_per_range(first_survey)

        def choose_starts(survey: Survey) -> np.ndarray:
            """Where the ranges of a model start, ascending, so that each fits into memory."""
            histogram = survey.histograms.get(None, empty_histogram())
            return choose_cuts_that_fit(histogram, survey.sample_count, samples_per_range)

        first_cuts = {None: RangeCuts(choose_starts(first_survey), counted_range=None)}
        # `self.request.compares_two_models` makes `partition` store the samples of all ranges
        first_files = self.partition(spill, first_cuts, key=None)[None]
        second_files = RangeFiles(spill, choose_starts(second_survey), keep_tied_samples=True)
        # the ranges with samples and their results, most confident first
        first_ranges, first_results = first_files.finish(
            samples_per_range, self.request, partial(self.advance, "first")
        )
        # The position of every range has the totals of the whole set. There is a range: the survey raises for data
        # without samples.
        first_answer = Answer(first_ranges[0].position.totals, self.request, first_results)
        # `outside`: what the influences of these samples need from the other ranges
        for columns, outside in self._samples_and_influences(
            first_files, first_ranges, first_results, "move"
        ):
            # the samples with loss and confidence of the second model, and their influence on the first area
            second_files.add(paired.pass_to_second_model(columns, outside, self.request))
        second_ranges, second_results = second_files.finish(
            samples_per_range, self.request, partial(self.advance, "second")
        )
        second_answer = Answer(second_ranges[0].position.totals, self.request, second_results)
        comparison = PairComparison(pair, first_answer, second_answer)
        # derivatives, at the two areas, of the scale on which their difference is tested
        scale_derivatives = comparison.scale_derivatives
        # Over all samples, with a and b what a sample does to the first and the second area: sums of (a - b)^2, e^2 and
        # e^4, where e = scale_derivatives[0] a - scale_derivatives[1] b.
        difference_sums = np.zeros(3)
        for columns, outside in self._samples_and_influences(
            second_files, second_ranges, second_results, "joint"
        ):
            difference_sums += paired.joint_sums(columns, outside, self.request, scale_derivatives)
        return comparison.compare(difference_sums)

    def _samples_and_influences(
        self, files: RangeFiles, stored_ranges: list[StoredRange], results: list[RangeResult], stage: str
    ) -> Iterator[tuple[Columns, RangeInfluence]]:
        """The samples of all ranges, with what their influences (on the area) need from outside their range.

        `files` holds the samples by range. `stored_ranges` and `results` belong together, most confident first, with
        one result each. Samples come range by range: those of a range with one confidence in pieces (with the mass and
        loss of the whole range in `tie_sums`), others in one piece. A range is the samples whose confidences lie
        between two thresholds; its file is removed once it is read. `stage` is the title of the progress bar.
        """
        positions = [stored.position for stored in stored_ranges]
        # one for each range, in their order: what the influences of its samples need from the other ranges
        influences = paired.range_influences(results, positions, self.request)
        for stored, outside in zip(stored_ranges, influences):
            if stored.is_tied:  # its samples come in pieces, so the mass and loss of all of them come along
                mass_and_loss = stored.sums[:2]
                outside = outside._replace(tie_sums=mass_and_loss)
            # the samples have `extra` values too, as they were stored: those of the second model, or influences
            for columns in files.read(stored):
                yield columns, outside
                self.advance(stage, columns.sample_count)
            files.spill.drop(stored.number)  # removes its file: this run, a comparison, is never resumed


class _Progress(NamedTuple):
    """How far an interrupted second pass came.

    Attributes
    ----------
    done_files : int
        How many of the files, from the first, have been read whole.
    arrays : list
        For each group, in the order of its cuts: where its ranges start, and the fields of its `RangeSums`
        (`sums`, `low`, `high`).
    """

    done_files: int
    arrays: list[list[np.ndarray]]


def _save_progress(spill: Spill, key: str, done_files: int, files_of_group: dict[Any, RangeFiles]) -> None:
    """Write how far the second pass has come, so that `_load_progress` can read it after an interruption.

    `key` identifies the work, `done_files` is the number of files read so far, and `files_of_group` holds the ranges of
    each group. Buffered samples are written to disk first, and the sizes of all range files are saved, so that whatever
    is written later can be cut off. The progress file is replaced in one step: an interruption leaves the old one or
    the new one. `spill` is the folder of intermediate data.

    For each group four arrays are saved: where its ranges start, and of its ranges, so far, the sums over the samples
    (a row for each name in `ranges.SUMS`), the smallest and the largest confidence. Groups are saved by their order
    alone. A run with the same key reads the same files in the same order, so it has the same groups in this order.
    """
    arrays = []
    for range_files in files_of_group.values():
        sums = range_files.sums
        # `cuts` are the starts of its ranges; `_load_progress` reads the four in this order
        arrays.append([range_files.cuts.tolist(), sums.sums.tolist(), sums.low.tolist(), sums.high.tolist()])
    # `flush` returns the size of each range file in bytes, by number of the range
    state = {"key": key, "done_files": done_files, "sizes": spill.flush(), "arrays": arrays}
    path = spill.folder / _PROGRESS_FILE
    new_path = path.with_suffix(".new")
    new_path.write_text(json.dumps(state))
    new_path.replace(path)


def _load_progress(spill: Spill, key: str) -> _Progress | None:
    """How far an earlier, interrupted run with the same key came; None if there is none.

    The range files in the folder are cut back to the sizes saved with it, or emptied if there is no such run. `spill`
    is the folder of intermediate data.
    """
    path = spill.folder / _PROGRESS_FILE
    # no run has an empty key
    state: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"key": ""}
    if state["key"] != key:
        spill.rewind({})  # empties all range files
        return None
    spill.rewind({int(number): size for number, size in state["sizes"].items()})
    # for each group four arrays: the starts of its ranges, and of these the sums (a row for each name in
    # `ranges.SUMS`), the smallest and the largest confidence; `done_files` is how many files, from the first, were read
    # whole
    arrays = [[np.asarray(array, dtype=np.float64) for array in group] for group in state["arrays"]]
    return _Progress(state["done_files"], arrays)


def _answer(
    function: str,
    path: Any,
    fields: Fields,
    request: EngineRequest,
    memory: str | float = "1GB",
    spill: str | None = None,
    resume: str | None = None,
    progress: bool | None = None,
) -> dict[Any, Answer]:
    """The answer for each group (None: all samples), in memory if everything fits, otherwise through the disk.

    Parameters
    ----------
    function : str
        The public function that errors name.
    path
        A file, a folder, a glob or a list of files.
    fields : Fields
        The columns.
    request : EngineRequest
        What to compute.
    memory : str or float
        Budget of this process, "1GB" or a number of bytes.
    spill, resume : str, optional
        Folder for intermediate data, and folder that keeps them if the work is interrupted.
    progress : bool, optional
        Show progress bars; by default only for many samples or an unknown number.
    """
    files = find_files(function, path)
    load = Loader(function, fields)
    contents = [read.describe_file(file) for file in files]
    rows = _total_rows(contents)
    budget = parse_size(function, memory)
    types = _column_types(contents, fields)
    is_short = rows is not None and rows < _MIN_FOR_PROGRESS_BAR
    is_quiet = progress is False or (progress is None and is_short)
    with nullcontext() if is_quiet else progress_bars(progress) as bars:
        advance = partial(bars.advance, total=rows) if bars else lambda stage, count: None
        run = Run(
            function=function,
            files=files,
            read=load.batches,
            sample_count=rows,
            request=request,
            memory=budget,
            advance=advance,
            fields=fields,
        )
        fits_in_memory = False
        may_sample = False  # is a survey of some parts of the files enough, to choose where ranges are cut?
        if rows is not None and not fields.group:
            fits_in_memory = resume is None and _fits_in_memory(rows, budget, request, types)
            may_sample = rows >= _MIN_FOR_PARTIAL_SURVEY and types.zero_one
        may_count = may_sample and not types.is_double
        # where counting is possible, it may be faster than sorting even if all samples fit: the cuts decide
        if fits_in_memory and not may_count:
            return {None: _answer_in_memory(run)}
        survey = _survey_some_parts(load, files, rows or 0, types) if may_sample else run.survey()
        cuts = run.choose_cuts(survey, may_count=resume is None)  # counters do not survive an interruption
        if fits_in_memory and not any(group_cuts.counted_range for group_cuts in cuts.values()):
            return {None: _answer_in_memory(run)}
        key = None if resume is None else _resume_key(files, fields, request, budget)
        results = run.execute(survey, cuts, spill, resume, key)
        oracle_results: dict[Any, tuple[Totals, list[RangeResult]]] = {}
        oracle_request = request.for_oracle(survey.zero_one, survey.weights_are_counts(fields.repetitions))
        if oracle_request is not None:
            # The best order of the samples: the same passes once more, with minus the loss as confidence. If the losses
            # of each group are 0 or one number (1 or another), errors are ordered by weight, lightest first.
            zero_one = all(total.in_error_units().zero_one for total, _ in results.values())
            run.read = load._replace(oracle_zero_one=zero_one).batches
            run.request = oracle_request
            loss_survey = run.survey()
            oracle_results = run.execute(loss_survey, run.choose_cuts(loss_survey), spill)
    answers = {}
    for group, (total, range_results) in results.items():
        group_oracle = oracle_results[group][1] if oracle_results else ()
        answers[group] = Answer(total, request, range_results, group_oracle)
    return answers


def _compare(
    pair: PairRequest,
    path: Any,
    other: Any = None,
    ids: str | None = None,
    memory: str | float = "1GB",
    spill: str | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Compare two models whose columns lie in the same files; those of the second may lie in `other` files.

    Both sides must then hold the same samples in the same order. If both have a column of ids, named by `ids` or found
    by its name, it must agree row by row (`check_same_ids` raises otherwise); without ids the result has a note. So
    must a column of weights, if both have one of that name. `pair` names the columns of both models and the metric,
    `path` is a file, a folder, a glob or a list of files. `memory` is the budget of this process, `spill` a folder for
    intermediate data, `progress` whether to show bars (None: if it takes long).
    """
    function = pair.function
    load = Loader(function, pair.first, second_fields=pair.second)
    files: list[Any] = find_files(function, path)
    # number of rows of all files; None if one does not tell
    rows = _total_rows([read.describe_file(file) for file in files])
    has_ids = True  # the columns of one file belong together row by row without ids
    if other is not None:
        # False where neither side has a column of ids
        has_ids = check_same_ids(path, other, {} if ids is None else {"ids": ids})
        if pair.first.weight is not None:
            check_same_weights(path, other, pair.first.weight)
        # the files of both sides are read row by row together, as if they were one
        files = [(files, find_files(function, other))]

    def read_batches(file: Any) -> Iterator[Groups]:
        if other is None:
            return load.batches(file, _PAIRED_BATCH)
        return read.read_two_models(load, file, _PAIRED_BATCH)

    with progress_bars(progress) as bars, Spill(spill) as store:
        run = Run(
            function=function,
            files=files,
            read=read_batches,
            sample_count=rows,
            request=pair.request,
            memory=parse_size(function, memory),
            advance=partial(bars.advance, total=rows),
            fields=pair.first,
        )
        comparison = run.compare(pair, store)
    if has_ids:
        return comparison
    return replace(comparison, notes=(*comparison.notes, PAIRED_BY_POSITION))


def _total_rows(contents: Sequence[Contents]) -> int | None:
    """Number of rows of all files; None if one of them does not tell."""
    total = 0
    for file_contents in contents:
        if file_contents.row_group_sizes is None:
            return None
        total += sum(file_contents.row_group_sizes)
    return total


def _column_types(contents: Sequence[Contents], fields: Fields) -> ColumnTypes:
    """What the types of the columns tell about the samples, before any value is read.

    A claim is made only if the type of the column is known in all files (Arrow's names of types: "bool", "float"):
    losses are certainly 0/1 if all are booleans, confidences fit a float32 if all are of single or half precision.
    `contents` has an item per file, at least one. No claim is made where values are computed, from logits or by a
    learned confidence (`fields.learned`), nor with weights: the claims decide whether samples can be counted, which
    weighted ones never are. `fields` names the columns to read.
    """
    if fields.logits or fields.weight or fields.learned is not None:
        return ColumnTypes(zero_one=False, is_double=True, has_weights=fields.weight is not None)
    # None for a file that does not tell; as it is in neither of the sets below, no claim is made then
    confidence_types = {file_contents.column_types.get(fields.confidence) for file_contents in contents}
    loss_types = {file_contents.column_types.get(fields.loss) for file_contents in contents}
    return ColumnTypes(
        zero_one=loss_types <= {"bool"},
        is_double=not confidence_types <= {"float", "halffloat"},
        has_weights=False,
    )


def _survey_some_parts(load: Loader, files: list[str], rows: int, types: ColumnTypes) -> Survey:
    """A survey of about sixteen parts of the files, for many samples with 0/1 losses, without groups or weights.

    `rows`, the number of samples in all files, and `types`, from the heads of the files, say of all samples what the
    parts alone cannot: their number, and whether any confidence needs a float64. Ranges that turn out too large are cut
    again later. `load` reads files or frames as checked columns by group, and there is only the group None.
    """
    all_parts = read.file_parts(files, read.BATCH)  # of about a million samples each
    # evenly spaced among all parts
    parts = all_parts[:: max(1, len(all_parts) // _SURVEYED_PARTS)]
    survey = Survey()
    rng = np.random.default_rng(0)
    # every so many samples enter the histogram; a part has at most about `read.BATCH` of them
    stride = max(1, len(parts) * read.BATCH // ranges.SURVEY_SAMPLES)
    for groups in read.read_ahead(groups for part in parts for groups in load.batches(part)):
        survey.add(groups, stride=stride, rng=rng)
    survey.sample_counts[None] = rows  # there are no groups: all samples are under None
    survey.is_double = types.is_double
    return survey


def _fits_in_memory(sample_count: int, memory: int, request: EngineRequest, types: ColumnTypes) -> bool:
    """Can all samples be one range, as far as the types of the columns tell?"""
    return sample_count <= samples_that_fit(memory, request, types)


def _answer_in_memory(run: Run) -> Answer:
    """The answer for the files of a run, without groups, that fit in memory: all samples are one range.

    Raises InputError if there is no sample, or if the weights do not suit the request. Relative weights are divided by
    their unit (the weight itself if all are equal, otherwise the power of two that brings the largest into [1, 2));
    repetitions are not. `run.sample_count`, the number of samples in all files, must be known.

    The oracle is the best possible order of the samples: by loss, smallest first. Its area is read from the samples in
    that order if the request needs it and there is no closed form, which there is for losses of 0 and 1 with whole
    weights.
    """
    assert run.sample_count is not None
    request = run.request
    # without groups all samples are the group None
    batches = (groups[None] for file in run.files for groups in run.read(file))
    # one vector each of loss, confidence and weight (None: no weights)
    columns = ranges.collect_columns(batches, run.sample_count)
    if not columns.sample_count:
        raise InputError(f"{run.function}: needs at least one sample, the files hold none.")
    if columns.weight is not None:
        survey = Survey()
        # the smallest and the largest weight, and one that is not a whole number
        survey.note_weights(None, columns.weight)
        finish.check_weights(run.function, run.fields, survey, request)
        weight_unit = survey.weight_units(run.fields.repetitions)[None]  # of the group None: all samples
        columns = columns.in_units(weight_unit)
    loss, _, weight = columns.samples
    # the oracle may need all totals; with weights, the mass is not the number of samples
    if request.is_area_without_error_bar and not request.needs_oracle and weight is None:
        # an area without error bar reads only the count, the mass and the loss, so the passes for the other totals are
        # skipped; and `zero_one` has no effect there
        totals = Totals(
            sample_count=columns.sample_count,
            total_mass=float(columns.sample_count),
            loss_sum=float(loss.sum(dtype=np.float64)),
            squared_weight_moments=(),
            fourth_power_moments=(),
            zero_one=True,
        )
    else:
        totals = totals_from_samples(loss, weight, zero_one=loss.dtype == bool)
    # nothing lies above the only range
    position = RangePosition(mass_above=0.0, loss_above=0.0, totals=totals)
    oracle_results: tuple[RangeResult, ...] = ()
    # None where the area of the oracle is not needed or has the closed form
    oracle_request = request.for_oracle(totals.zero_one, totals.has_whole_weights)
    if oracle_request is not None:
        # Where losses are 0 or one number (1 or another), errors of unequal weight are ordered by weight, lightest
        # first. The closed form is used for losses of 0 and 1 only, so `for_oracle` needs to know of these alone.
        zero_one = totals.in_error_units().zero_one
        by_loss = columns.ordered_by_loss(zero_one)
        oracle_results = (finish.finish_range(by_loss, position, oracle_request),)
    return Answer(totals, request, [finish.finish_range(columns, position, request)], oracle_results)


def _resume_key(files: list[str], fields: Fields, request: EngineRequest, memory: int) -> str:
    """A hash that changes whenever the files, the columns, the request or the memory budget do."""
    stamps = [(file, os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files]
    return hashlib.sha256(repr((stamps, fields, request, memory, ranges.SUMS)).encode()).hexdigest()


_ENGINE = Engine(
    name="files",
    answer=_answer,
    compare_pair=_compare,
    options=("memory", "spill", "progress", "resume"),
    pair_options=("memory", "spill", "progress", "other", "ids"),
)
evaluate = _ENGINE.evaluate
compare = _ENGINE.compare
risk_coverage_curve = _ENGINE.risk_coverage_curve
aurc = _ENGINE.aurc
augrc = _ENGINE.augrc
e_aurc = _ENGINE.e_aurc
naurc = _ENGINE.naurc
risk = _ENGINE.risk
risk_at_coverage = _ENGINE.risk_at_coverage
coverage_at_risk = _ENGINE.coverage_at_risk
register_engine("files", _ENGINE.evaluator())
