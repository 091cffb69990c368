"""Results for people and for files: columns as a data frame, aligned text, Markdown, LaTeX or HTML.

Knows nothing of metrics.
"""

from __future__ import annotations

import csv
import html
import importlib.util
import io
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar

from abstain.errors import AbstainWarning, InputError, import_optional

_MARKS = re.compile(r"( [*t])*$")  # of a cell: the best of its row; it depends on how ties are counted
_DOUBTFUL = re.compile(r"[^ -~]")  # the rest of ASCII is safe
_NUMBER = re.compile(r"(?<![\w.])(\d+)(\.\d+|)(?![\w.])")
Columns = Mapping[str, Sequence[Any]]

_SPELT = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater"}
_LATEX = {c: rf"\text{name}{{}}" for c, name in _SPELT.items()} | {c: rf"\{c}" for c in "{}_%&#$"}


def escape_controls(text: object, keep: str = "") -> str:
    """A text in which every character that steers instead of showing is spelt out; all but those in `keep`.

    These are control characters (they move a terminal's cursor), marks of writing direction (they make a name look like
    another one), and halves of surrogate pairs (they stand for bytes of a file name that are no text and cannot be
    encoded). This is the one home of the rule: terminal, repr, CSV, LaTeX, Markdown, HTML and pages all call it.

    >>> escape_controls("a\\x1b[31m\\nb"), escape_controls("exe\\u202egpj")
    ('a\\\\x1b[31m\\\\nb', 'exe\\\\u202egpj')
    """

    def spelt_out(match: re.Match[str]) -> str:
        character = match[0]
        if character.isprintable() or character in keep:
            return character
        return character.encode("unicode_escape").decode()

    return _DOUBTFUL.sub(spelt_out, str(text))


def escape_html(value: object) -> str:
    """Text for HTML, in attributes too: it stays text, and every character in it shows."""
    return html.escape(escape_controls(value, keep="\n"), quote=True)


class Printable:
    """A result whose `__repr__` may quote the user's names: characters that steer a terminal are spelt out in it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        written = vars(cls).get("__repr__")
        if written is not None:
            setattr(cls, "__repr__", _spelling_out(written))  # noqa: B010 - a method, which mypy cannot assign


def _spelling_out(written: Callable[[Any], str]) -> Callable[[Any], str]:
    @wraps(written)
    def spelt_out(self: Any) -> str:
        return escape_controls(written(self), keep="\n")

    return spelt_out


def display_name(text: object, most: int = 120) -> str:
    """A user's string on one line of a message: characters that steer a terminal spelt out, and of bounded length.

    >>> display_name("a\\x1b[31m\\nb")
    'a\\\\x1b[31m\\\\nb'
    """
    line = escape_controls(text)
    return line if len(line) <= most else line[: most - 40] + "..." + line[-37:]


def count_noun(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun in the right number; `plural` is needed only where an s is not enough.

    >>> count_noun(1, "answer"), count_noun(1200, "answer"), count_noun(2, "class", "classes")
    ('1 answer', '1,200 answers', '2 classes')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def has_or_have(count: int) -> str:
    """The verb that follows a count: "has" after 1, otherwise "have"."""
    return "has" if count == 1 else "have"


def is_or_are(count: int) -> str:
    """The verb that follows a count: "is" after 1, otherwise "are"."""
    return "is" if count == 1 else "are"


def csv_text(columns: Columns, *, delimiter: str = ",") -> str:
    """Columns as lines of cells, every digit. Text that a spreadsheet would run as a formula gets a ' in front."""
    lines, defused = io.StringIO(), []

    def cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        shown = escape_controls(value)
        if shown.startswith(("=", "+", "-", "@")) and not is_number(shown):
            defused.append(shown)
            return f"'{shown}"
        return shown

    writer = csv.writer(lines, delimiter=delimiter, lineterminator="\n")
    writer.writerow(map(cell, columns))
    writer.writerows(map(cell, row) for row in zip(*columns.values()))
    if defused:
        told = (
            f"{len(defused):,} cells begin as a formula does, such as {defused[0]!r}; they have a ' in front."
        )
        warnings.warn(told, AbstainWarning, stacklevel=2)
    return lines.getvalue()


def is_number(text: str) -> bool:
    """Does a cell hold a number?"""
    try:
        float(text)
    except ValueError:
        return False
    return True


def make_frame(columns: Columns, library: str | None = None) -> Any:
    """A pandas or polars frame, or a dict of lists.

    Without `library`: the one the program has imported already, else one that is installed (pandas first),
    else the dict. Nothing is imported before this call.
    """
    if library not in (None, "pandas", "polars", "dict"):
        raise InputError(f'frame: `library` must be "pandas", "polars" or "dict", got {library!r}.')
    chosen = library or _available()
    held = {name: list(values) for name, values in columns.items()}
    if chosen == "dict":
        return held
    loose = {"strict": False} if chosen == "polars" else {}
    return import_optional(chosen, f"frame(library={chosen!r})", "all").DataFrame(held, **loose)


def _available() -> str:
    libraries = ("pandas", "polars")
    imported = [name for name in libraries if name in sys.modules]
    return next(iter(imported or filter(importlib.util.find_spec, libraries)), "dict")


def collect_columns(records: Sequence[Any], names: Sequence[str]) -> dict[str, list[Any]]:
    """Some attributes of records, each as a column."""
    return {name: [getattr(record, name) for record in records] for name in names}


def text_table(columns: Mapping[str, Sequence[str]], indent: str = "  ") -> str:
    """Aligned columns: words to the left, numbers to the right."""
    return "\n".join(indent + "  ".join(line).rstrip() for line in _aligned(columns))


def markdown_table(columns: Mapping[str, Sequence[str]]) -> str:
    """A Markdown table; vertical bars in the text are escaped."""
    safe = {_bar(k): [_bar(v) for v in values] for k, values in columns.items()}
    head, *body = _aligned(safe)
    rule = [
        ("-" * (len(cell) - 1) + ":") if _is_numeric(safe[k]) else "-" * len(cell)
        for k, cell in zip(safe, head)
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *body]) + "\n"


def latex_table(columns: Mapping[str, Sequence[str]], caption: str = "", note: str = "") -> str:
    """A LaTeX `tabular` with booktabs rules, digits below each other; inside a `table` when there is a caption, with
    a note below that explains its marks."""
    sides = "".join("r" if _is_numeric(values) else "l" for values in columns.values())
    rows = [f"{' & '.join(line)} \\\\" for line in zip(*map(_digits_aligned, columns.values()))]
    head = f"{' & '.join(map(_tex, columns))} \\\\"
    body = [
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        head,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if caption:
        below = [rf"\par\smallskip\footnotesize {_tex(note)}"] if note else []
        title = rf"\caption{{{_tex(caption)}}}"
        body = [r"\begin{table}", r"\centering", title, *body, *below, r"\end{table}"]
    return "\n".join(body) + "\n"


def _digits_aligned(cells: Sequence[str]) -> list[str]:
    """Cells in LaTeX; where they differ in their numbers only, the points of these stand below each other."""
    marks = ["".join(_MARKS.search(cell)[0].split()) for cell in cells]  # type: ignore[index]
    texts = [_tex(_MARKS.sub("", cell)) for cell in cells]
    numbers = [found for text in texts if (found := _NUMBER.findall(text))]
    shapes = {_NUMBER.sub("0", text) for text in texts if _NUMBER.search(text)}
    if len(shapes) == 1 and shapes.pop()[:1] in "0-[":
        widths = [[max(map(len, part)) for part in zip(*place)] for place in zip(*numbers)]
        texts = [_widened(text, widths) for text in texts]
    widest = max(marks, key=len, default="")
    blank = rf"\phantom{{\textsuperscript{{{widest}}}}}" if widest else ""
    return [t + (rf"\textsuperscript{{{mark}}}" if mark else blank) for t, mark in zip(texts, marks)]


def _widened(text: str, widths: list[list[int]]) -> str:
    """Each number as wide as the widest in its place: invisible digits before it and after it."""
    wide = iter(widths)

    def one(found: re.Match[str]) -> str:
        whole, decimals = found.groups()
        before, after = next(wide)
        space = [rf"\phantom{{{'0' * n}}}" * (n > 0) for n in (before - len(whole), after - len(decimals))]
        return space[0] + whole + decimals + space[1]

    return _NUMBER.sub(one, text)


def html_table(columns: Mapping[str, Sequence[str]], caption: str = "") -> str:
    """An HTML table; every cell is escaped, since names come from the user."""
    side = {name: "right" if _is_numeric(values) else "left" for name, values in columns.items()}
    head = "".join(f'<th style="text-align:{side[name]}">{escape_html(name)}</th>' for name in columns)
    rows = []
    for line in zip(*columns.values()):
        cells = (f'<td style="text-align:{side[k]}">{escape_html(v)}</td>' for k, v in zip(columns, line))
        rows.append("<tr>" + "".join(cells) + "</tr>")
    title = f"<caption>{escape_html(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def html_page(head: str, tables: Mapping[str, Mapping[str, Sequence[str]]], notes: Sequence[str]) -> str:
    """A line of text, tables by their captions, and a list of notes."""
    title = f"<p>{escape_html(head)}</p>" if head else ""
    body = "".join(html_table(columns, caption) for caption, columns in tables.items())
    listed = "".join(f"<li>{escape_html(note)}</li>" for note in notes)
    return f"<div>{title}{body}<ul>{listed}</ul></div>"


def format_number(value: float | None, digits: int = 4) -> str:
    """A number for a table; a dash for one that is absent. Adding 0.0 turns -0.0 into 0.0.

    >>> format_number(0.12345), format_number(-0.0), format_number(None)
    ('0.1235', '0', '-')
    """
    return "-" if value is None else f"{value + 0.0:.{digits}g}"


def format_fixed(value: float, places: int, sign: bool = False) -> str:
    """A number with so many decimals; what rounds to zero has no sign.

    >>> format_fixed(-0.00001, 3), format_fixed(0.5, 2, sign=True), format_fixed(-0.00001, 3, sign=True)
    ('0.000', '+0.50', '0.000')
    """
    rounded = round(value, places) + 0.0
    return f"{rounded:+.{places}f}" if sign and rounded else f"{rounded:.{places}f}"


def _aligned(columns: Mapping[str, Sequence[str]]) -> list[list[str]]:
    filled = []
    for name, values in columns.items():
        cells = [escape_controls(cell) for cell in (name, *values)]
        width, side = max(map(len, cells)), ">" if _is_numeric(values) else "<"
        filled.append([f"{cell:{side}{width}}" for cell in cells])
    return [list(line) for line in zip(*filled)]


def _is_numeric(values: Sequence[str]) -> bool:
    """Plain numbers only: a number with its interval reads better from the left."""
    return bool(values) and all(str(v)[:1] in "0123456789+-.<" and " " not in str(v) for v in values)


def _bar(value: str) -> str:
    return escape_controls(value).replace("|", "\\|")


def _tex(value: str) -> str:
    return "".join(_LATEX.get(c, c) for c in escape_controls(value))


class Notebook(Printable):
    """A result that a notebook shows: what it says of itself, above the rows of its frame where it has one."""

    _rows_all_along: ClassVar[bool] = False  # True: show rows from the start to the end, not the first ones

    def _repr_html_(self) -> str:
        make = getattr(self, "frame", None)
        columns = {} if make is None else make("dict")
        count = max((len(values) for values in columns.values()), default=0)
        rows = list(range(min(count, _ROWS)))
        if self._rows_all_along and count > _ROWS:
            rows = [round(k * (count - 1) / (_ROWS - 1)) for k in range(_ROWS)]
        shown = {
            name: [_cell(values[k]) for k in rows if k < len(values)] for name, values in columns.items()
        }
        more = f"<p>{count - _ROWS:,} more rows in frame()</p>" if count > _ROWS else ""
        table = html_table(shown) if shown else ""
        return f"<div><pre>{escape_html(repr(self))}</pre>{table}{more}</div>"


_ROWS = 20  # of a table in a notebook


def _cell(value: Any) -> str:
    return format_number(value) if value is None or isinstance(value, float) else str(value)
