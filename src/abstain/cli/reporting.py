"""Behind `abstain report` and `abstain demo`: gather with progress, write whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn

from abstain.cli.screen import console
from abstain.formats import Predictions
from abstain.formats.limits import shown
from abstain.report import gather, save_page


def write_report(models: Sequence[Predictions], target: str, options: dict[str, Any], command: str) -> Any:
    """The page, and what it shows."""
    on = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn())
    with Progress(*columns, console=on, transient=True, disable=not on.is_terminal) as bar:
        task = bar.add_task("", total=len(models) + 1)

        def step(what: str) -> None:
            bar.update(task, description=shown(what))
            bar.advance(task)

        content = gather(
            models, score=options["score"][0], loss=options["loss"][0], level=options["level"],
            seed=options["seed"], progress=step,
        )  # fmt: skip
        made = datetime.now(UTC).strftime("%d %B %Y")
        save_page(content, target, title=options["title"], command=command, made=made)
    return content
