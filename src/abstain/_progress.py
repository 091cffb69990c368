"""Progress bars on the terminal: one per stage, for work that lasts."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PATIENCE = 2.0  # seconds before a bar appears that nobody asked for


class Bars:
    """One bar per stage, counted in whatever the stage is made of. Without a display every call does nothing."""

    def __init__(self, display: Any = None, patience: float = 0.0) -> None:
        self._display, self._tasks = display, dict[str, Any]()
        self._from = time.monotonic() + patience
        self._started = False

    @property
    def shown(self) -> bool:
        """Will anything be drawn?"""
        return self._display is not None

    def advance(self, stage: str, count: int, total: int | None) -> None:
        """So much more of a stage is done."""
        if self._display is not None:
            self._display.advance(self._task(stage, total), count)

    def set(self, stage: str, done: int, total: int | None) -> None:
        """So much of a stage is done in all."""
        if self._display is not None:
            self._display.update(self._task(stage, total), completed=done, total=total)

    def _task(self, stage: str, total: int | None) -> Any:
        if stage not in self._tasks:
            self._tasks[stage] = self._display.add_task(stage, total=total)
        if not self._started and time.monotonic() >= self._from:
            self._display.start()
            self._started = True
        return self._tasks[stage]

    def close(self) -> None:
        """Take the bars away; asked for where there is no terminal, their last state is printed."""
        if self._started:
            self._display.stop()


@contextmanager
def progress_bars(progress: bool | None) -> Iterator[Bars]:
    """Bars as told; by default on a terminal, once the work has lasted a while."""
    drawn = _display(progress)
    try:
        yield drawn
    finally:
        drawn.close()


def _display(progress: bool | None) -> Bars:
    terminal = sys.stderr.isatty() or os.environ.get("FORCE_COLOR")  # as rich sees it, before rich is loaded
    if progress is False or (progress is None and not terminal):
        return Bars()
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    display = Progress(*columns, console=console, transient=console.is_terminal)
    return Bars(display, 0.0 if progress else _PATIENCE)
