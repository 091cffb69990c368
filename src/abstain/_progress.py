"""Progress bars on the terminal, one per stage of long work."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_DELAY = 2.0  # seconds before a bar appears, unless the user asked for one


class Bars:
    """One progress bar per stage, counted in the units of that stage. Without a display every call does nothing.

    `display` is a `rich.progress.Progress`; it starts after `delay` seconds.
    """

    def __init__(self, display: Any = None, delay: float = 0.0) -> None:
        self._display = display
        self._tasks: dict[str, Any] = {}
        self._start_time = time.monotonic() + delay
        self._started = False

    @property
    def is_shown(self) -> bool:
        """True if anything will be drawn."""
        return self._display is not None

    def advance(self, stage: str, count: int, total: int | None) -> None:
        """Add `count` to what is done of a stage; `total` is all of it, None if unknown."""
        if self._display is not None:
            self._display.advance(self._task(stage, total), count)

    def set(self, stage: str, done: int, total: int | None) -> None:
        """Set how much of a stage is done (`done`); `total` is all of it, None if unknown."""
        if self._display is not None:
            self._display.update(self._task(stage, total), completed=done, total=total)

    def _task(self, stage: str, total: int | None) -> Any:
        if stage not in self._tasks:
            self._tasks[stage] = self._display.add_task(stage, total=total)
        if not self._started and time.monotonic() >= self._start_time:
            self._display.start()
            self._started = True
        return self._tasks[stage]

    def close(self) -> None:
        """Remove the bars; where there is no terminal but bars were requested, print their last state."""
        if self._started:
            self._display.stop()


@contextmanager
def progress_bars(progress: bool | None) -> Iterator[Bars]:
    """Yield progress bars if `progress` is True; if None, only on a terminal and after two seconds of work."""
    bars = _make_bars(progress)
    try:
        yield bars
    finally:
        bars.close()


def _make_bars(progress: bool | None) -> Bars:
    """Make bars that appear at once (`progress` True), never (False), or on a terminal after two seconds (None)."""
    # the rule of rich, before rich is loaded
    is_terminal = sys.stderr.isatty() or os.environ.get("FORCE_COLOR")
    if progress is False or (progress is None and not is_terminal):
        return Bars()  # without a display, all its methods do nothing
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    display = Progress(*columns, console=console, transient=console.is_terminal)
    return Bars(display, delay=0.0 if progress else _DELAY)  # seconds before the display appears
