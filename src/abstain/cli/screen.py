"""Print results on the screen or write them to files: tables for 80 columns, without colour, in any encoding."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from abstain import _tables
from abstain._tables import csv_text, escape_controls
from abstain.cli.options import Output, say
from abstain.formats import replacing


class SafeConsole(Console):
    """A console that escapes control characters in all text, because names come from files."""

    def render(self, *renderables: Any, **options: Any) -> Iterator[Segment]:
        """Yield pieces of text with their styles."""
        for segment in super().render(*renderables, **options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=escape_controls(segment.text, keep="\n"))


def make_console(*, stderr: bool = False, file: Any = None, width: int | None = None) -> Console:
    """Make a console of at least 80 columns. Rich omits colours if it is not a terminal or NO_COLOR is set."""
    console = SafeConsole(stderr=stderr, file=file, width=width, highlight=False, soft_wrap=False)
    if not console.is_terminal and console.width < 80:
        console.width = 80
    return console


def format_limits(console: Console, interval: Any) -> str:
    """Format the limits of an interval as short as possible; empty if it has none, or one of them is infinite.

    `interval` has `low`, `high` and `standard_error`, each of which may be None. The standard error says how many
    digits are shown. Of `console` only the encoding is read.

    >>> from types import SimpleNamespace
    >>> interval = SimpleNamespace(low=0.0081, high=0.0105, standard_error=0.0006)
    >>> format_limits(Console(file=io.TextIOWrapper(io.BytesIO(), "ascii")), interval)
    '0.00810..0.01050'
    """
    # the dash is ".." where the console cannot show it; after "-0.1–" a minus sign would be hard to tell from it
    is_negative = interval.low is not None and interval.low < 0
    return _tables.format_limits(interval, separator=" to " if is_negative else range_dash(console))


def range_dash(console: Console) -> str:
    """The mark between two limits: a dash, or two dots if the encoding has ASCII only."""
    return "–" if "utf" in (console.encoding or "").lower() else ".."


def stacked_cell(console: Console, value: float | None, interval: Any, mark: str = "") -> Text:
    """Make a cell with a number and, below it, its limits if it has any; a marked number is bold.

    `interval` has `low`, `high` and `standard_error`, which may be None.
    """
    cell = Text(_tables.format_estimate(value, interval.standard_error) + mark, style="bold" if mark else "")
    limits = format_limits(console, interval)
    return cell.append(f"\n{limits}", style="not bold dim") if limits else cell


def plain_table(
    columns: Mapping[str, Sequence[Any]], *, right: Iterable[str] = (), first_width: int | None = None
) -> Table:
    """Make a table from cells by title, which are never read as markup; all columns have the same length.

    Markup is what rich takes for a style, such as "[bold]"; names of files and models may look so. Long cells are
    broken. Cells are `Text` or anything that `str` can print. Columns whose titles are in `right` are aligned to the
    right; `first_width` is the largest width of the first column in characters, None for any.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, name in enumerate(columns):
        alignment: Any = "right" if name in right else "left"
        max_width = first_width if index == 0 else None
        table.add_column(Text(name), justify=alignment, overflow="fold", max_width=max_width)
    for row in zip(*columns.values()):
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return table


def show_preview(source: Any, *, stderr: bool = False) -> None:
    """Print the first values of each column of a file."""
    console = make_console(stderr=stderr)
    console.print(Text(f"{source.path.name} ({source.format})", style="bold"))
    console.print(plain_table(source.preview()))


def show_notes(console: Console, notes: Iterable[str]) -> None:
    """Print one line per note."""
    for note in notes:
        console.print(Text(f"- {note}"))


@contextmanager
def show_working(text: str) -> Iterator[None]:
    """Show a spinner on stderr during the work, if stderr is a terminal."""
    console = make_console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(Text(text)):
        yield


def deliver(
    output: Output,
    result: Any,
    quiet: str,
    draw: Callable[[Console], None],
    *,
    json: str | None = None,
    columns: Mapping[str, Sequence[Any]] | None = None,
    latex: str | None = None,
) -> None:
    """Print a result, or write it to a file completely or not at all.

    Without a form and a file, `draw` prints to the screen. Only the requested form is made. Control characters are
    escaped, except for line ends. DataError if the file cannot be written.

    Parameters
    ----------
    output : Output
        Where it goes (`path`, None for the screen) and in which form: "json", "csv", "latex", "quiet", or None for
        what the screen shows.
    result
        Has `to_json`, `frame` and `to_latex`, except where `json`, `columns` or `latex` replace them.
    quiet : str
        The main number, for --quiet.
    draw : callable
        Prints the result on a console.
    json, columns, latex : optional
        The result in these forms; `columns` are for CSV.
    """
    if output.is_screen:
        draw(make_console())
        return
    text_by_form: dict[str | None, Callable[[], str]] = {
        None: lambda: _draw_to_text(draw),
        "json": lambda: json or result.to_json(),
        "csv": lambda: csv_text(columns or result.frame("dict")),
        "latex": lambda: latex or result.to_latex(),
        "quiet": lambda: quiet,
    }
    text = text_by_form[output.form]()
    # to standard output where `path` is None
    write_text(output.path, escape_controls(text if text.endswith("\n") else text + "\n", keep="\n"))


def _draw_to_text(draw: Callable[[Console], None]) -> str:
    """Return what a screen of 100 columns would show."""
    page = io.StringIO()
    draw(make_console(file=page, width=100))
    return page.getvalue()


def write_text(path: str | None, text: str) -> None:
    """Print text, or write it to a file if `path` is not None."""
    if path is None:
        click.echo(text, nl=False)
    else:
        write_file(path, text)


def write_file(path: str, text: str) -> None:
    """Write a text file completely or not at all, and print a line about it."""
    with replacing(path) as stream:
        stream.write(escape_controls(text, keep="\n").encode("utf-8"))
    say(f"wrote {path}")
