"""Exact metrics by a Dask cluster, from a laptop's two processes to an existing cluster without a change.

The plan is executed as futures: Dask places the work, moves samples between workers and does again what a lost
worker took with it. Only histograms and sums come to the client.
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
from abstain.engines.cluster import Bundle, Numbering, Work
from abstain.engines.engine import FUNCTIONS
from abstain.engines.finish import Ask
from abstain.engines.ranges import RangeSums
from abstain.engines.read import Fields, Loader, file_parts
from abstain.errors import import_optional
from abstain.evaluation import Evaluation, register_engine
from abstain.formats.table_files import find_files

__all__ = [*FUNCTIONS, "on"]
_FAN_IN = 16  # results merged at a time, on the workers


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """The client to use; one made here is closed here."""
    distributed = import_optional("distributed", 'engine="dask"', "dask")
    if client is None:
        try:
            yield distributed.get_client()
            return
        except ValueError:  # no current client
            pass
    if client is None or isinstance(client, str):
        # errors come back as such: what workers of our own log of them would be a second account; any free port
        # will do for their page, while the usual one may be another cluster's
        own = {"processes": True, "silence_logs": logging.CRITICAL, "dashboard_address": ":0"}
        with ExitStack() as stack:
            with _undisturbed():
                made = stack.enter_context(distributed.Client(client, **({} if client else own)))
            yield made
    else:
        yield client


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits until the workers are up, and never reaches them: whoever started them stops them."""
    mask = getattr(signal, "pthread_sigmask", None)  # not on Windows
    if mask:
        resource_tracker.ensure_running()  # started later it would lift the mask
        before = mask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if mask:
            mask(signal.SIG_SETMASK, before)


def partitions(name: str, data: Any, client: Any, fields: Fields) -> list[Any]:
    """Parts of files, or futures of frames."""
    import distributed

    if hasattr(data, "to_delayed"):
        return list(client.compute(data[fields.names].to_delayed()))
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], distributed.Future):
        return list(data)
    files = [os.path.abspath(file) for file in find_files(name, data)]  # workers may stand in another folder
    return list(file_parts(files, cluster.SAMPLES_PER_PARTITION))


class DaskRun(cluster.ClusterRun):
    """By one client, over parts of files or futures of frames."""

    def __init__(self, client: Any, parts: Sequence[Any], bars: Bars) -> None:
        self.client, self.parts, self.bars, self.cores = client, parts, bars, len(client.ncores())

    def submit(self, function: Work, *arguments: Any) -> Any:
        """Tasks may be repeated anywhere: each is a function of its arguments."""
        return self.client.submit(function, *arguments, pure=False)

    def merged(self, work: Work, load: Loader, merge: Work, stage: str) -> Any:
        """Merged on the workers."""
        futures = [self.submit(_of_part, work, load, part) for part in self.parts]
        self._follow(stage, futures)
        return self._reduced(merge, futures)

    def split(self, load: Loader, numbering: Numbering, stage: str) -> tuple[Any, RangeSums]:
        """Futures of the pieces of each partition."""
        everywhere = self.submit(_same, numbering)  # sent once, and made again if lost
        pieces = [self.submit(cluster.split_part, part, load, everywhere) for part in self.parts]
        self._follow(f"{stage}partition", pieces)
        sums = [self.submit(itemgetter(1), piece) for piece in pieces]
        return pieces, self._reduced(cluster.sums_of, sums)

    def turned(self, held: Any, own: Mapping[int, Any], ask: Ask, numbering: Numbering) -> Any:
        """Futures again."""
        everywhere = self.submit(_same, numbering)
        turn = cluster.turn_bundle
        return [self.submit(turn, self._shares(held, n), mine, ask, everywhere) for n, mine in own.items()]

    def collected(self, held: Any, work: Work, own: Mapping[int, Any], stage: str) -> Iterable[Any]:
        """A task for each bundle."""
        futures = [self.submit(_packed, work, self._shares(held, n), mine) for n, mine in own.items()]
        self._follow(stage, futures)
        return map(pickle.loads, self.client.gather(futures))

    def _shares(self, pieces: Sequence[Any], number: int) -> list[Any]:
        """What each partition holds of a bundle."""
        return [self.submit(_share, piece, number) for piece in pieces]

    def _follow(self, stage: str, futures: Sequence[Any]) -> None:
        """Count what is done, where it is to be seen; results stay where they are."""
        if not self.bars.is_shown or not futures:
            return
        from distributed import as_completed

        self.bars.set(stage, 0, len(futures))
        for _ in as_completed(futures):
            self.bars.advance(stage, 1, len(futures))

    def _reduced(self, merge: Work, futures: Sequence[Any]) -> Any:
        """Merge a few at a time, down to one."""
        while True:
            groups = [futures[i : i + _FAN_IN] for i in range(0, len(futures), _FAN_IN)]
            futures = [self.submit(merge, group) for group in groups]
            if len(futures) == 1:
                return futures[0].result()


def _same(value: Any) -> Any:
    return value


def _packed(function: Work, *arguments: Any) -> bytes:
    """In one piece: Dask would send every small array of the answer as a message of its own."""
    return pickle.dumps(function(*arguments))


def _share(pieces: tuple[list[Bundle], RangeSums], number: int) -> Bundle:
    return pieces[0][number]


def _of_part(work: Work, load: Loader, part: Any) -> Any:
    return work(load(part))


@contextmanager
def _run(
    name: str, data: Any, fields: Fields, client: Any = None, progress: bool | None = None
) -> Iterator[DaskRun]:
    with connected(client) as connection, progress_bars(progress) as shown:
        yield DaskRun(connection, partitions(name, data, connection, fields), shown)


_ENGINE = cluster.engine("dask", _run, "client")
evaluate, compare, risk_coverage_curve = _ENGINE.evaluate, _ENGINE.compare, _ENGINE.risk_coverage_curve
aurc, augrc, e_aurc, naurc, risk = _ENGINE.aurc, _ENGINE.augrc, _ENGINE.e_aurc, _ENGINE.naurc, _ENGINE.risk
risk_at_coverage, coverage_at_risk = _ENGINE.risk_at_coverage, _ENGINE.coverage_at_risk


def on(client: Any) -> Callable[..., Evaluation]:
    """The engine for `abstain.evaluate(data, engine=...)` on a cluster.

    Parameters
    ----------
    client
        A `distributed.Client`, or the address of a scheduler.

    Returns
    -------
    callable

    Examples
    --------
    >>> callable(on("tcp://127.0.0.1:8786"))  # for `abstain.evaluate("folder/", engine=on(...))`
    True
    """
    return _ENGINE.on(client=client)


register_engine("dask", on(None))
