"""`abstain convert IN OUT`."""

from __future__ import annotations

from typing import Any

import click

from abstain.cli.options import reading, taken

_EPILOG = """\b
Examples:
  abstain convert preds.json preds.parquet
  abstain convert model.pt preds.npz
  abstain convert table.csv table.npz -c confidence=p_max -c correct=is_right
"""


@click.command("convert", epilog=_EPILOG)
@click.argument("source", metavar="IN", type=click.Path(exists=True, dir_okay=False))
@click.argument("target", metavar="OUT", type=click.Path(dir_okay=False))
@reading
def command(source: str, target: str, **options: Any) -> None:
    """Write a file of predictions in another format, under the standard names.

    OUT ends in .npz, .csv, .tsv, .parquet, .arrow, .feather, .json, .jsonl or .safetensors.
    """
    from pathlib import Path

    from abstain.formats import WRITABLE, write_predictions

    if Path(target).suffix.lower() not in WRITABLE:
        raise click.UsageError(f"OUT must end in one of {', '.join(WRITABLE)}.")
    how, _ = taken(options)
    read = how.read(source)
    write_predictions(read, target)
    click.echo(f"wrote {click.format_filename(target)}: {read.n:,} samples, {read.kind}", err=True)
