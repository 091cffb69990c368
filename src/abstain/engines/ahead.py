"""Reading ahead: the next batch is decoded by another thread while this one is worked on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from queue import Full, Queue
from threading import Event, Thread
from typing import Any, TypeVar

from abstain.core.packed import threads

Item = TypeVar("Item")
_END = object()


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items in the same order, the next in the making; errors surface where they would have.

    Nobody waits for the reader when the work is broken off: it may hang on a disk or a network.
    """
    if threads() == 1:
        yield from items
        return
    made: Queue[tuple[Any, BaseException | None]] = Queue(1)
    over = Event()
    Thread(target=_read, args=(items, made, over), daemon=True).start()
    try:
        while (got := made.get())[0] is not _END:
            yield got[0]
        if got[1] is not None:
            raise got[1]
    finally:
        over.set()


def _read(items: Iterable[Any], made: Queue[tuple[Any, BaseException | None]], over: Event) -> None:
    error: BaseException | None = None
    try:
        for item in items:
            _put((item, None), made, over)
            if over.is_set():
                return
    except BaseException as problem:  # whatever it is, it belongs to whoever reads
        error = problem
    _put((_END, error), made, over)


def _put(got: tuple[Any, BaseException | None], made: Queue[Any], over: Event) -> None:
    while not over.is_set():
        try:
            return made.put(got, timeout=0.1)
        except Full:
            continue
