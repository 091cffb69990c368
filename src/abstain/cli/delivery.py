"""Results to the screen or to a file, in the form that was asked for."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from abstain.cli.options import Output


def as_csv(columns: Mapping[str, Sequence[Any]]) -> str:
    """Columns as comma-separated text, every digit."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values()))
    return text.getvalue()


def deliver(output: Output, forms: Mapping[str, Callable[[], str]], screen: Callable[[Any], None]) -> None:
    """Print, or write whole or not at all. `screen` draws on a rich console."""
    if output.form == "screen" and output.path is None:
        from abstain.cli.screen import console

        screen(console())
        return
    text = _drawn(screen) if output.form == "screen" else forms[output.form]()
    text = text if text.endswith("\n") else text + "\n"
    if output.path is None:
        click.echo(text, nl=False)
        return
    from abstain.formats import replacing

    with replacing(output.path) as stream:
        stream.write(text.encode("utf-8"))
    click.echo(f"wrote {click.format_filename(output.path)}", err=True)


def _drawn(screen: Callable[[Any], None]) -> str:
    from abstain.cli.screen import console

    text = io.StringIO()
    on = console(file=text)
    on.width = 100
    screen(on)
    return text.getvalue()
