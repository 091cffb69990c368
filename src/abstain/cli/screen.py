"""Results to the screen or to a file: tables readable at 80 columns, without colour, and in any encoding."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from abstain._tables import csv_text, escape_controls
from abstain.cli.options import Output, say
from abstain.formats import replacing


class SafeConsole(Console):
    """Whatever the text says, only rich itself steers the terminal: names come from files."""

    def render(self, *what: Any, **how: Any) -> Iterator[Segment]:
        """Pieces of text with their styles."""
        for piece in super().render(*what, **how):
            yield piece if piece.control else piece._replace(text=escape_controls(piece.text, keep="\n"))


def console(*, stderr: bool = False, file: Any = None, width: int | None = None) -> Console:
    """Where to print. Rich leaves colours out when it is no terminal or NO_COLOR is set."""
    made = SafeConsole(stderr=stderr, file=file, width=width, highlight=False, soft_wrap=False)
    if not made.is_terminal and made.width < 80:
        made.width = 80
    return made


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


def span(on: Console, found: Any) -> str:
    """An interval, as short as it stays clear; a dash where the encoding has more than ASCII.

    >>> from types import SimpleNamespace
    >>> found = SimpleNamespace(low=0.0081, high=0.0105, standard_error=0.0006)
    >>> span(Console(file=io.TextIOWrapper(io.BytesIO(), "ascii")), found)
    '0.00810..0.01050'
    """
    if found.low is None or found.high is None:
        return ""
    digits = decimals(found.standard_error or (found.high - found.low) / 4)
    between = " to " if found.low < 0 else dash(on)
    return f"{found.low:.{digits}f}{between}{found.high:.{digits}f}"


def dash(on: Console) -> str:
    """What stands between two ends."""
    return "–" if "utf" in (on.encoding or "").lower() else ".."


def stacked(on: Console, value: float | None, found: Any, mark: str = "") -> Text:
    """A number with its interval below it; one that is marked stands out."""
    text = Text(estimate(value, found.standard_error) + mark, style="bold" if mark else "")
    below = span(on, found)
    return text.append(f"\n{below}", style="not bold dim") if below else text


def plain_table(
    columns: Mapping[str, Sequence[Any]], *, right: Iterable[str] = (), first: int | None = None
) -> Table:
    """A table of texts, which are never read as markup; the first column may be given its largest width."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, name in enumerate(columns):
        side: Any = "right" if name in right else "left"
        table.add_column(Text(name), justify=side, overflow="fold", max_width=None if place else first)
    for row in zip(*columns.values()):
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return table


def show_preview(source: Any, *, stderr: bool = False) -> None:
    """What a file holds."""
    on = console(stderr=stderr)
    on.print(Text(f"{source.path.name} ({source.format})", style="bold"))
    on.print(plain_table(source.preview()))


def show_notes(on: Console, notes: Iterable[str]) -> None:
    """A line for each, whatever characters it has."""
    for note in notes:
        on.print(Text(f"- {note}"))


@contextmanager
def working(text: str) -> Iterator[None]:
    """A spinner on stderr while something takes its time; nothing when stderr is no terminal."""
    on = console(stderr=True)
    if not on.is_terminal:
        yield
        return
    with on.status(Text(text)):
        yield


def deliver(
    out: Output,
    result: Any,
    quiet: str,
    draw: Callable[[Console], None],
    *,
    json: str | None = None,
    columns: Mapping[str, Sequence[Any]] | None = None,
    latex: str | None = None,
) -> None:
    """Print a result, or write it whole or not at all. `draw` shows it on a console; `quiet` is its one number.

    The others replace what a result says by itself: to_json, frame (for csv), to_latex.
    """
    if out.form is None and out.path is None:
        draw(console())
        return
    forms: dict[str | None, Callable[[], str]] = {
        None: lambda: _drawn(draw),
        "json": lambda: json or result.to_json(),
        "csv": lambda: csv_text(columns or result.frame("dict")),
        "latex": lambda: latex or result.to_latex(),
        "quiet": lambda: quiet,
    }
    text = forms[out.form]()
    put(out.path, escape_controls(text if text.endswith("\n") else text + "\n", keep="\n"))


def _drawn(draw: Callable[[Console], None]) -> str:
    """What a screen of 100 columns would show."""
    page = io.StringIO()
    draw(console(file=page, width=100))
    return page.getvalue()


def put(path: str | None, text: str) -> None:
    """To the screen, or into a file."""
    if path is None:
        click.echo(text, nl=False)
    else:
        write(path, text)


def write(path: str, text: str) -> None:
    """A file, whole or not at all, and a word about it."""
    with replacing(path) as stream:
        stream.write(escape_controls(text, keep="\n").encode("utf-8"))
    say(f"wrote {path}")
