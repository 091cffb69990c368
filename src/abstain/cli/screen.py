"""Results to the screen or to a file: tables readable at 80 columns, without colour, and in any encoding."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from abstain.cli.options import Output


def console(*, stderr: bool = False, file: Any = None) -> Console:
    """Where to print. Rich leaves colours out when it is no terminal or NO_COLOR is set."""
    made = Console(stderr=stderr, file=file, highlight=False, soft_wrap=False)
    if not made.is_terminal and made.width < 80:
        made.width = 80
    return made


def can_draw(on: Console) -> bool:
    """Does the encoding have more than ASCII?"""
    return "utf" in (on.encoding or "").lower()


def decimals(error: float | None) -> int:
    """Digits after the point that two significant digits of the error call for."""
    if not error or not math.isfinite(error):
        return 4
    return min(12, max(0, 1 - math.floor(math.log10(error))))


def estimate(value: float | None, error: float | None) -> str:
    """A number with as many digits as its error leaves meaningful.

    >>> estimate(0.0092134, 0.00061), estimate(None, None)
    ('0.00921', '-')
    """
    if value is None:
        return "-"
    return f"{value:.{decimals(error)}f}" if error else f"{value:.4g}"


def span(low: float | None, high: float | None, error: float | None, unicode: bool) -> str:
    """An interval, as short as it stays clear.

    >>> span(0.0081, 0.0105, 0.0006, False)
    '0.00810..0.01050'
    """
    if low is None or high is None:
        return ""
    digits = decimals(error if error else (high - low) / 4)
    return f"{low:.{digits}f}{'–' if unicode else '..'}{high:.{digits}f}"


def plain_table(columns: Mapping[str, Sequence[str]], *, right: Iterable[str] = (), title: str = "") -> Table:
    """A table of texts; the texts are never read as markup."""
    table = Table(
        box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False, show_edge=False
    )
    for name in columns:
        side: Any = "right" if name in right else "left"
        table.add_column(Text(name), justify=side, overflow="fold")
    for row in zip(*columns.values()):
        table.add_row(*(Text(str(cell)) for cell in row))
    return table


def show_preview(source: Any, *, stderr: bool = False) -> None:
    """What a file holds."""
    on = console(stderr=stderr)
    on.print(Text(f"{source.path.name} ({source.format})", style="bold"))
    on.print(plain_table(source.preview()))


@contextmanager
def working(text: str) -> Iterator[None]:
    """A spinner on stderr while something takes its time; nothing when stderr is no terminal."""
    on = console(stderr=True)
    if not on.is_terminal:
        yield
        return
    with on.status(Text(text)):
        yield


# delivery -----------------------------------------------------------------------------------------
#
# Results to the screen or to a file, in the form that was asked for.


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

    text = io.StringIO()
    on = console(file=text)
    on.width = 100
    screen(on)
    return text.getvalue()
