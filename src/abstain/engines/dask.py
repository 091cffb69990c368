"""Exact metrics by a Dask cluster, from two processes on a laptop to an existing cluster without a change.

The plan is executed as futures: Dask places the work, moves samples between workers and repeats the tasks of a lost
worker. Only histograms and sums come to the client.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from operator import itemgetter
from typing import Any

from abstain._progress import Bars, progress_bars
from abstain.engines import cluster
from abstain.engines.cluster import Bundle, RangeNumbers, Task
from abstain.engines.engine import FUNCTIONS
from abstain.engines.finish import EngineRequest
from abstain.engines.paired import RangeInfluence
from abstain.engines.ranges import RangeSums
from abstain.engines.read import Fields, Loader, file_parts
from abstain.errors import import_optional
from abstain.evaluation import Evaluation, register_engine
from abstain.formats.table_files import find_files

__all__ = [*FUNCTIONS, "on"]
_MERGED_AT_ONCE = 16  # results merged at a time, on the workers


@contextmanager
def connect(client: Any) -> Iterator[Any]:
    """Yield the Dask client to use.

    `client` is a `distributed.Client`, which is yielded as it is; the address of a scheduler, to which a new client
    connects; or None, for the current client, or a new local cluster if there is none. New clients and clusters are
    closed on exit.
    """
    # MissingDependencyError where Dask is not installed
    distributed = import_optional("distributed", 'engine="dask"', "dask")
    if client is None:
        client = _current_client(distributed)  # None if there is none
    if client is not None and not isinstance(client, str):
        yield client
        return
    options: dict[str, Any] = {}
    if client is None:
        # Of a new local cluster. Errors are raised here, so workers need not log them as well. Any free port will do
        # for the dashboard; the usual one may belong to another cluster.
        options = {"processes": True, "silence_logs": logging.CRITICAL, "dashboard_address": ":0"}
    with ExitStack() as stack:
        # so that a later Ctrl-C reaches this process alone, which then stops the workers
        with _shielded_from_ctrl_c():
            new_client = stack.enter_context(distributed.Client(client, **options))
        yield new_client


def _current_client(distributed: Any) -> Any:
    """Return the Dask client of this process or of the task that runs here, None if there is none."""
    try:
        return distributed.get_client()
    except ValueError:
        return None


@contextmanager
def _shielded_from_ctrl_c() -> Iterator[None]:
    """Block SIGINT (Ctrl-C) while worker processes are started.

    The workers inherit the block, so that Ctrl-C does not reach them: this process stops them itself. Here a Ctrl-C is
    delayed until the block ends. Does nothing on Windows.
    """
    set_mask = getattr(signal, "pthread_sigmask", None)  # not on Windows
    if set_mask:
        # a helper process of Python's multiprocessing: started inside the block, it would lift the mask
        resource_tracker.ensure_running()
        previous_mask = set_mask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if set_mask:
            set_mask(signal.SIG_SETMASK, previous_mask)


def partitions(function: str, data: Any, client: Any, fields: Fields) -> list[Any]:
    """The partitions of the data, each a task's input: parts of files, or futures of frames.

    `data` is a Dask DataFrame (only the columns of `fields` are computed, as futures of `client`), a list of futures of
    frames, or whatever names files. `function` is the public function that messages name.
    """
    import distributed

    if hasattr(data, "to_delayed"):  # a Dask DataFrame, which becomes a future for each of its partitions
        return list(client.compute(data[fields.names].to_delayed()))
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], distributed.Future):
        return list(data)
    # workers may run in another folder; `find_files` raises DataError if there are no files
    files = [os.path.abspath(file) for file in find_files(function, data)]
    # whole row groups of Parquet files, or whole files of another format
    return list(file_parts(files, cluster.SAMPLES_PER_PARTITION))


class DaskRun(cluster.ClusterRun):
    """The plan executed by one client, over parts of files or futures of frames."""

    def __init__(self, client: Any, parts: Sequence[Any], bars: Bars) -> None:
        self.client = client
        self.parts = parts
        self.bars = bars
        self.cores = len(client.ncores())

    def submit(self, function: Task, *arguments: Any) -> Any:
        """The future of a task. A task depends on its arguments only, so any worker may repeat it."""
        return self.client.submit(function, *arguments, pure=False)

    def reduce_partitions(self, task: Task, load: Loader, merge: Task, stage: str) -> Any:
        """`task(groups)` of the samples of each partition; `merge(results)` of all, a few at a time, on the workers."""
        # at least one: a Dask frame has a partition, and lists of futures or files are not empty
        futures = [self.submit(_load_and_call, task, load, part) for part in self.parts]
        self._show_progress(stage, futures)
        return self._merge_futures(merge, futures)

    def sort_into_bundles(self, load: Loader, numbering: RangeNumbers, stage: str) -> tuple[Any, RangeSums]:
        """Second pass: a future of (samples by bundle, sums) per partition, and the sums over all partitions."""
        shared_numbering = self.submit(_identity, numbering)  # sent once, and made again if lost
        pieces = [self.submit(cluster.split_partition, part, load, shared_numbering) for part in self.parts]
        self._show_progress(f"{stage}partition", pieces)
        sums = [self.submit(itemgetter(1), piece) for piece in pieces]
        return pieces, self._merge_futures(cluster.merge_sums, sums)

    def pass_to_second_model(
        self,
        bundled_samples: Any,
        influences: Mapping[int, Mapping[int, RangeInfluence]],
        request: EngineRequest,
        numbering: RangeNumbers,
    ) -> Any:
        """Move all samples to the bundles of the second model, each with its influence on the first area.

        `bundled_samples` are futures of (samples by bundle of the first model, sums of its ranges), one per partition;
        `influences` holds for each of its bundles (the ranges that one task finishes) what the influences of its
        samples need from outside their range, by number of the range, and `numbering` the second model's ranges.
        Returns such futures for the second model, one for each bundle of the first. `request` says what to compute.
        """
        shared_numbering = self.submit(_identity, numbering)  # a future: sent once, and made again if lost
        return [
            # (samples by bundle of the second model, sums of its ranges)
            self.submit(
                cluster.pass_bundle_to_second_model,
                self._pieces_of_bundle(bundled_samples, bundle),
                bundle_influences,
                request,
                shared_numbering,
            )
            for bundle, bundle_influences in influences.items()
        ]

    def map_bundles(
        self, bundled_samples: Any, task: Task, arguments: Mapping[int, Any], stage: str
    ) -> Iterable[Any]:
        """`task(pieces, argument)` for each bundle in `arguments`, as Dask tasks; the results come to this process.

        `bundled_samples` are futures of (samples by bundle, sums of ranges), one per partition; a bundle is the ranges
        that one task finishes. `pieces` is what they hold of it, one list of (number of the range, its samples) per
        partition. `stage` is the title of the progress bar.
        """
        # `_pieces_of_bundle`: a future for each partition; Dask calls `task` with what they hold. A result comes as one
        # string of bytes, because Dask would send every small array in it as a message of its own.
        futures = [
            self.submit(_call_and_pickle, task, self._pieces_of_bundle(bundled_samples, bundle), argument)
            for bundle, argument in arguments.items()
        ]
        self._show_progress(stage, futures)
        return map(pickle.loads, self.client.gather(futures))

    def _pieces_of_bundle(self, bundled_samples: Sequence[Any], bundle: int) -> list[Any]:
        """Futures of what each partition holds of a bundle."""
        return [self.submit(_select_bundle, piece, bundle) for piece in bundled_samples]

    def _show_progress(self, stage: str, futures: Sequence[Any]) -> None:
        """Wait for futures and count them on a progress bar, if there is one; results stay on the workers."""
        if not self.bars.is_shown or not futures:
            return
        from distributed import as_completed

        self.bars.set(stage, 0, len(futures))
        for _ in as_completed(futures):
            self.bars.advance(stage, 1, len(futures))

    def _merge_futures(self, merge: Task, futures: Sequence[Any]) -> Any:
        """Merge the results of `futures` on the workers by `merge(list of results)`, a few at a time; fetch the last.

        There must be at least one future; a single one is merged too, once. `merge` takes its own results too: each
        round merges those of the round before, until there is only one.
        """
        while True:
            batches = [
                futures[start : start + _MERGED_AT_ONCE] for start in range(0, len(futures), _MERGED_AT_ONCE)
            ]
            futures = [self.submit(merge, batch) for batch in batches]
            if len(futures) == 1:
                return futures[0].result()


def _identity(value: Any) -> Any:
    return value


def _call_and_pickle(function: Task, *arguments: Any) -> bytes:
    """The result as one string of bytes: Dask would send every small array in it as a message of its own."""
    return pickle.dumps(function(*arguments))


def _select_bundle(partition: tuple[list[Bundle], RangeSums], bundle: int) -> Bundle:
    bundles, _ = partition
    return bundles[bundle]


def _load_and_call(task: Task, load: Loader, part: Any) -> Any:
    return task(load(part))


@contextmanager
def _start_run(
    function: str, data: Any, fields: Fields, client: Any = None, progress: bool | None = None
) -> Iterator[DaskRun]:
    """Yield the run over the partitions of the data; `client` is None, a client or an address."""
    with connect(client) as connection, progress_bars(progress) as bars:
        yield DaskRun(connection, partitions(function, data, connection, fields), bars)


_ENGINE = cluster.make_engine("dask", _start_run, "client")
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


def on(client: Any) -> Callable[..., Evaluation]:
    """The engine for `abstain.evaluate(data, engine=...)` on a cluster.

    Parameters
    ----------
    client
        A `distributed.Client`, or the address of a scheduler; None for the current client or a new local cluster.
        Nothing is connected before the evaluation starts.

    Returns
    -------
    callable
        `abstain.evaluate` calls it with the data and its own arguments.

    Examples
    --------
    >>> callable(on("tcp://127.0.0.1:8786"))  # for `abstain.evaluate("folder/", engine=on(...))`
    True
    """
    return _ENGINE.evaluator(client=client)


register_engine("dask", on(None))
