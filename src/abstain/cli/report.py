"""`abstain report FILE ...`: gathered with progress, written whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from abstain._progress import bars
from abstain.cli import options as opt
from abstain.cli.compare import named_files
from abstain.formats import Predictions
from abstain.report import gather, save_page


@click.command("report", cls=opt.Documented)
@click.argument("files", nargs=-1, required=True, type=opt.InputFile())
@opt.file("-o", "--output", "target", default="abstain-report.html", help="Where the page goes.")
@click.option("--title", default="Selective prediction report")
@opt.shared("names", "score", "loss", "level", "rng", "open")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@opt.reading
def command(
    files: tuple[str, ...],
    how: opt.ReadOptions,
    names: tuple[str, ...],
    quiet: bool,
    open_it: bool,
    **page: Any,
) -> None:
    """One interactive HTML page that works offline.

    Risk-coverage curves with bands, a threshold slider, scores and estimators with intervals, a ranking that
    says what cannot be told apart, ties explained, and how it was made.

    Examples:
      abstain report preds.npz
      abstain report a.npz b.npz c.npz -o models.html --title "Three models"
      abstain report answers.csv --open
    """
    models = [how.read(file, name) for name, file in named_files(files, names).items()]
    write_report(models, command=opt.typed("--open", "-q", "--quiet"), **page)
    if not quiet:
        opt.say(f"wrote {page['target']}")
    if open_it:
        show_page(page["target"])


def write_report(models: Sequence[Predictions], target: str, *, title: str, command: str, **how: Any) -> None:
    """The page, with a bar while its numbers are gathered."""
    with bars(None) as shown:
        content = gather(models, progress=lambda _: shown.advance("models", 1, len(models) + 1), **how)
    made = datetime.now(UTC).strftime("%d %B %Y")
    save_page(content, target, title=title, command=command, made=made)


def show_page(target: str) -> None:
    """Open a page in the browser."""
    click.launch(Path(target).absolute().as_uri())
