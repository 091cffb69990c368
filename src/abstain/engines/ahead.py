"""Reading ahead: the next batch is decoded by another thread while this one is worked on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from abstain.core.packed import threads

Item = TypeVar("Item")
_NONE = object()


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items in the same order, one of them in the making; errors surface where they would have."""
    if threads() == 1:
        yield from items
        return
    source = iter(items)
    with ThreadPoolExecutor(1) as other:
        coming = other.submit(next, source, _NONE)
        while (item := coming.result()) is not _NONE:
            coming = other.submit(next, source, _NONE)
            yield item  # type: ignore[misc]
