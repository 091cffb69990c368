"""`abstain report FILE ...`: gathered with progress, written whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click
from rich.progress import BarColumn, Progress, TextColumn

from abstain.cli.options import Fraction, Names, known_loss, known_score, reading, taken
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


# report -------------------------------------------------------------------------------------------
#
# `abstain report FILE ...`.


_EPILOG = """\b
Examples:
  abstain report preds.npz
  abstain report a.npz b.npz c.npz -o models.html --title "Three models"
  abstain report answers.csv --open
"""


@click.command("report", epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("-o", "--output", "target", metavar="FILE", default="abstain-report.html", show_default=True,
              type=click.Path(dir_okay=False), help="Where the page goes.")  # fmt: skip
@click.option("--title", default="Selective prediction report", show_default=True)
@click.option("--names", metavar="A,B,...", help="Names of the models; by default those of the files.")
@click.option(
    "--score",
    type=Names(known_score, False),
    default="max_softmax",
    show_default=True,
    help="Confidence used for the curves.",
)
@click.option(
    "--loss",
    type=Names(known_loss, False),
    default="zero_one",
    show_default=True,
    help="Loss used for the curves.",
)
@click.option("--level", type=Fraction(), default=0.95, show_default=True, help="Of intervals and bands.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the bootstrap.")
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@reading
def command(files: tuple[str, ...], **options: Any) -> None:
    """One interactive HTML page that works offline.

    Risk-coverage curves with bands, a threshold slider, scores and estimators with intervals, a ranking that
    says what cannot be told apart, ties explained, and how it was made.
    """
    from abstain.cli.compare import model_names

    given = dict(options)
    how, _ = taken(options)
    models = [how.read(file, name) for file, name in zip(files, model_names(files, options["names"]))]
    write_report(models, options["target"], options, again(files, given))
    if not options["quiet"]:
        click.echo(f"wrote {click.format_filename(options['target'])}", err=True)
    if options["open_it"]:
        from pathlib import Path

        click.launch(Path(options["target"]).absolute().as_uri())


def again(files: tuple[str, ...], given: dict[str, Any]) -> str:
    """The command that makes this page again."""
    import shlex

    parts = ["abstain", "report", *files, "-o", given["target"]]
    plain = {"title": "--title", "names": "--names", "level": "--level", "seed": "--seed", "kind": "--as",
             "labels": "--labels", "classes": "--classes", "file_format": "--format"}  # fmt: skip
    parameters = {p.name: p for p in click.get_current_context().command.params}
    context = click.get_current_context()
    for name, flag in plain.items():
        if given[name] not in (None, "", parameters[name].get_default(context)):
            parts += [flag, str(given[name])]
    for name in ("score", "loss"):
        if given[name][0] != parameters[name].get_default(context):
            parts += [f"--{name}", given[name][0]]
    parts += [x for role, column in given["column"].items() for x in ("-c", f"{role}={column}")]
    return " ".join(shlex.quote(part) for part in parts)
