"""`abstain compare FILE FILE ...`."""

from __future__ import annotations

from typing import Any

import click

from abstain.cli.options import (
    Fraction,
    Names,
    known_loss,
    known_metric,
    known_score,
    no_folders,
    output,
    reading,
    taken,
)

_EPILOG = """\b
Examples:
  abstain compare a.npz b.npz c.npz
  abstain compare gpt.csv claude.csv --metric augrc
  abstain compare preds.npz --scores max_softmax,max_logit,energy
  abstain compare a.npz b.npz --unpaired          different test sets
  abstain compare a.parquet b.parquet --engine files
"""


@click.command("compare", epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True))
@click.option(
    "--metric", type=Names(known_metric, False), default="aurc", show_default=True, help="Rank by this one."
)
@click.option("--scores", type=Names(known_score, False), default="max_softmax", show_default=True,
              metavar="A,B,...", help="Confidences computed from class scores; several are compared, too.")  # fmt: skip
@click.option(
    "--loss",
    type=Names(known_loss, False),
    default="zero_one",
    show_default=True,
    help="Where there are class scores.",
)
@click.option("--names", metavar="A,B,...", help="Names of the models; by default those of the files.")
@click.option("--level", type=Fraction(), default=0.95, show_default=True, help="Of intervals and tests.")
@click.option("--engine", type=click.Choice(["memory", "files"]), default="memory", show_default=True,
              help="Who computes. files: two tables of losses and confidences, of any size.")  # fmt: skip
@click.option("--unpaired", is_flag=True, help="The files are different test sets.")
@reading
@output
def command(files: tuple[str, ...], **options: Any) -> None:
    """Rank models by AURC (or another metric) on the same samples, with ties where the data leave them.

    P-values are two-sided and corrected after Holm. Models that share a letter cannot be told apart.
    """
    from abstain.cli.comparing import compared, draw_comparison
    from abstain.cli.delivery import as_csv, deliver

    how, out = taken(options)
    if options["engine"] == "memory":
        no_folders(files)
    result, notes = compared(files, how, options)
    forms = {
        "json": result.to_json,
        "csv": lambda: as_csv(result.frame("dict")),
        "latex": result.to_latex,
        "quiet": lambda: "\n".join(result.winners),
    }
    deliver(out, forms, lambda on: draw_comparison(on, result, notes))
