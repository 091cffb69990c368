"""`abstain report FILE ...`: gathered with progress, written whole or not at all."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from abstain._progress import bars
from abstain.cli.compare import model_names
from abstain.cli.options import Documented, InputFile, ReadOptions, reading, say, shared
from abstain.formats import Predictions
from abstain.report import gather, save_page


@click.command("report", cls=Documented)
@click.argument("files", nargs=-1, required=True, type=InputFile())
@click.option("-o", "--output", "target", metavar="FILE", default="abstain-report.html",
              type=click.Path(dir_okay=False), help="Where the page goes.")  # fmt: skip
@click.option("--title", default="Selective prediction report")
@shared("names", "score", "loss", "level", "rng", "open")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@reading
@click.pass_context
def command(context: click.Context, /, files: tuple[str, ...], target: str, names: tuple[str, ...], quiet: bool,
            open_it: bool, how: ReadOptions, **options: Any) -> None:  # fmt: skip
    """One interactive HTML page that works offline.

    Risk-coverage curves with bands, a threshold slider, scores and estimators with intervals, a ranking that
    says what cannot be told apart, ties explained, and how it was made.

    Examples:
      abstain report preds.npz
      abstain report a.npz b.npz c.npz -o models.html --title "Three models"
      abstain report answers.csv --open
    """
    models = [how.read(file, name) for file, name in zip(files, model_names(files, names))]
    typed = [a for a in context.meta["abstain.arguments"] if a not in ("--open", "-q", "--quiet")]
    write_report(models, target, command=shlex.join(["abstain", *typed]), **options)
    if not quiet:
        say(f"wrote {target}")
    if open_it:
        show_page(target)


def write_report(models: Sequence[Predictions], target: str, *, title: str, command: str, **how: Any) -> None:
    """The page, with a bar while its numbers are gathered."""
    with bars(None) as shown:
        content = gather(models, progress=lambda _: shown.advance("models", 1, len(models) + 1), **how)
    made = datetime.now(UTC).strftime("%d %B %Y")
    save_page(content, target, title=title, command=command, made=made)


def show_page(target: str) -> None:
    """Open a page in the browser."""
    click.launch(Path(target).absolute().as_uri())
