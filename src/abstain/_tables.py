"""Results as a data frame, aligned text, Markdown, LaTeX, HTML or CSV, and text that is safe to print.

Nothing here knows about metrics: a table is a mapping from column names to cells.
"""

from __future__ import annotations

import csv
import html
import importlib.util
import io
import math
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar

from abstain.errors import AbstainWarning, InputError, import_optional

# at the end of a cell: * best of its row, t depends on how ties are counted
_CELL_MARKS = re.compile(r"( [*t])*$")
_NOT_ASCII_TEXT = re.compile(r"[^ -~]")  # everything else is printable ASCII
_ONLY_NUMBERS = re.compile(r"[-+\d.,e\[\]() ]*\d[-+\d.,e\[\]() ]*")
_LATEX_COMMAND = re.compile(r"\\(?:phantom\{0*\}|textless\{\}|textgreater\{\}|%)")
_NUMBER = re.compile(r"(?<![\w.])(\d+)(\.\d+|)(?![\w.])")
Columns = Mapping[str, Sequence[Any]]
TextColumns = Mapping[str, Sequence[str]]

_LATEX_NAMES = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater"}
_LATEX = {c: rf"\text{name}{{}}" for c, name in _LATEX_NAMES.items()} | {c: rf"\{c}" for c in "{}_%&#$"}
_LATEX["−"] = "$-$"  # a minus sign that a text holds already, as in "1 − 3e-09"
_NOTEBOOK_ROWS = 20  # of a table in a notebook
GROUPS_SHOWN = 24  # rows in a table of groups; groups beyond these are only counted


def escape_controls(text: object, keep: str = "") -> str:
    """Replace every character that cannot be printed by its escape sequence, except those in `keep`.

    These are control characters (they move a terminal's cursor), marks of writing direction (they make a name look
    like another one), and halves of surrogate pairs (they stand for bytes of a file name that are not text and cannot
    be encoded). Terminal, repr, CSV, LaTeX, Markdown, HTML and pages all call this function.

    >>> escape_controls("a\\x1b[31m\\nb"), escape_controls("exe\\u202egpj")
    ('a\\\\x1b[31m\\\\nb', 'exe\\\\u202egpj')
    """

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character.isprintable() or character in keep:
            return character
        return character.encode("unicode_escape").decode()

    # The pattern finds everything but printable ASCII, so that most texts need no call of `escape`.
    return _NOT_ASCII_TEXT.sub(escape, str(text))


def escape_html(value: object) -> str:
    """Escape text for HTML, attributes included, and its control characters."""
    return html.escape(escape_controls(value, keep="\n"), quote=True)


class Printable:
    """A result whose `__repr__` may quote the user's names: control characters are escaped in it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own_repr = vars(cls).get("__repr__")
        if own_repr is not None:
            setattr(cls, "__repr__", _with_escaped_controls(own_repr))  # noqa: B010 - mypy cannot assign a method


def _with_escaped_controls(make_repr: Callable[[Any], str]) -> Callable[[Any], str]:
    """Wrap a `__repr__` so that control characters in its text are escaped."""

    @wraps(make_repr)
    def make_safe_repr(self: Any) -> str:
        return escape_controls(make_repr(self), keep="\n")

    return make_safe_repr


def display_name(text: object, max_length: int = 120) -> str:
    """The name of a file, a column or a model for a message: on one line, printable, shortened in the middle.

    >>> display_name("a\\x1b[31m\\nb")
    'a\\\\x1b[31m\\\\nb'
    """
    line = escape_controls(text)
    if len(line) <= max_length:
        return line
    return line[: max_length - 40] + "..." + line[-37:]


def count_noun(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun in the right number; `plural` is needed only where an s is not enough.

    >>> count_noun(1, "answer"), count_noun(1200, "answer"), count_noun(2, "class", "classes")
    ('1 answer', '1,200 answers', '2 classes')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def count_samples(n: int, clusters: Sequence[int]) -> str:
    """A number of samples, and of the clusters they are in: one number for each kind of clusters, none for no clusters.

    >>> count_samples(5000, ()), count_samples(5000, (1000,)), count_samples(5000, (60, 12))
    ('5,000 samples', '5,000 samples in 1,000 clusters', '5,000 samples in 60 and 12 clusters')
    """
    return count_noun(n, "sample") + in_clusters(clusters)


def in_clusters(clusters: Sequence[int]) -> str:
    """Words after a number of samples: in how many clusters they are; empty without clusters.

    >>> in_clusters((1000,)), in_clusters(())
    (' in 1,000 clusters', '')
    """
    if not clusters:
        return ""
    plural = "cluster" if tuple(clusters) == (1,) else "clusters"
    return f" in {' and '.join(f'{count:,}' for count in clusters)} {plural}"


def has_or_have(count: int) -> str:
    """The verb that follows a count: "has" after 1, otherwise "have"."""
    return "has" if count == 1 else "have"


def is_or_are(count: int) -> str:
    """The verb that follows a count: "is" after 1, otherwise "are"."""
    return "is" if count == 1 else "are"


def csv_text(columns: Columns, *, delimiter: str = ",") -> str:
    """Write columns as CSV with all digits and return the text, a line of titles first.

    `columns` are cells by title, all of one length. Text that a spreadsheet would run as a formula gets a ' in front,
    with an AbstainWarning.
    """
    output = io.StringIO()
    formula_cells: list[str] = []

    def make_cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        cell = escape_controls(value)
        if cell.startswith(("=", "+", "-", "@")) and not is_number(cell):  # "-1" as text is no formula
            formula_cells.append(cell)
            return f"'{cell}"
        return cell

    writer = csv.writer(output, delimiter=delimiter, lineterminator="\n")
    writer.writerow(map(make_cell, columns))
    writer.writerows(map(make_cell, row) for row in zip(*columns.values()))
    if formula_cells:
        begin = "begins" if len(formula_cells) == 1 else "begin"
        message = (
            f"{count_noun(len(formula_cells), 'cell')} {begin} as a formula does, such as {formula_cells[0]!r}; "
            f"a ' is put in front."
        )
        warnings.warn(message, AbstainWarning, stacklevel=2)
    return output.getvalue()


def is_number(text: str) -> bool:
    """True if the text of a cell is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def make_frame(columns: Columns, library: str | None = None) -> Any:
    """Make a pandas or polars data frame, or a dict of lists.

    `library` is "pandas", "polars" or "dict". None: the one the program has imported already, else one that is
    installed (pandas first), else the dict. Nothing is imported before this call. Raises InputError for another name,
    MissingDependencyError if the library is not installed.
    """
    if library not in (None, "pandas", "polars", "dict"):
        raise InputError(f'frame: `library` must be "pandas", "polars" or "dict", got {library!r}.')
    chosen_library = library or _default_frame_library()
    lists = {name: list(values) for name, values in columns.items()}
    if chosen_library == "dict":
        return lists
    # the module pandas or polars; `extra` is the name of the extra that brings it, for the message
    frames = import_optional(chosen_library, feature=f"frame(library={chosen_library!r})", extra="all")
    if chosen_library == "polars":
        return frames.DataFrame(lists, strict=False)  # a column may mix numbers of several types
    return frames.DataFrame(lists)


def _default_frame_library() -> str:
    libraries = ("pandas", "polars")
    imported = [name for name in libraries if name in sys.modules]
    return next(iter(imported or filter(importlib.util.find_spec, libraries)), "dict")


def collect_columns(records: Sequence[Any], names: Sequence[str]) -> dict[str, list[Any]]:
    """Make a column of each named attribute, with one cell per record."""
    return {name: [getattr(record, name) for record in records] for name in names}


def text_table(columns: TextColumns, indent: str = "  ") -> str:
    """Align columns of text: words to the left, numbers to the right."""
    return "\n".join(indent + "  ".join(line).rstrip() for line in _align_cells(columns))


def markdown_table(columns: TextColumns) -> str:
    """Make a Markdown table; vertical bars in the text are escaped."""
    safe = {_escape_bar(name): [_escape_bar(cell) for cell in cells] for name, cells in columns.items()}
    header, *body = _align_cells(safe)
    rule = [
        ("-" * (len(title) - 1) + ":") if _is_numeric(safe[name]) else "-" * len(title)
        for name, title in zip(safe, header)
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, rule, *body]) + "\n"


def latex_table(columns: TextColumns, caption: str = "", note: str = "") -> str:
    """Make a LaTeX `tabular` with booktabs rules and aligned digits, from cells of plain text by title.

    Columns in which every cell is one number are aligned to the right, others to the left. With a caption it stands
    inside a `table`, with `note` below, which explains its marks; without one, `note` is ignored. Special characters
    are escaped.
    """
    alignment = "".join("r" if _is_numeric(cells) else "l" for cells in columns.values())
    # `_align_latex_digits` escapes the cells of a column as well
    rows = [f"{' & '.join(line)} \\\\" for line in zip(*map(_align_latex_digits, columns.values()))]
    header = f"{' & '.join(map(_escape_latex, columns))} \\\\"
    lines = [
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        header,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if caption:
        note_lines = [rf"\par\smallskip\footnotesize {_escape_latex(note)}"] if note else []
        title = rf"\caption{{{_escape_latex(caption)}}}"
        lines = [r"\begin{table}", r"\centering", title, *lines, *note_lines, r"\end{table}"]
    return "\n".join(lines) + "\n"


def _align_latex_digits(cells: Sequence[str]) -> list[str]:
    """Make LaTeX of the cells of one column; if they differ only in their numbers, decimal points are aligned.

    Signs and ranges of numbers are those of mathematics: a minus sign, an en dash, a power of ten. Marks at the end of
    a cell (" *", " t") become superscripts; cells without one get invisible ones of the same width. Cells without a
    number, such as a dash, are not aligned and do not prevent it.
    """
    # the pattern finds marks at the end of a cell, or the empty text there, so that it always matches
    marks = ["".join(_CELL_MARKS.search(cell)[0].split()) for cell in cells]  # type: ignore[index]
    texts = [_escape_latex(_CELL_MARKS.sub("", cell)) for cell in cells]
    texts_with_numbers = [text for text in texts if _NUMBER.search(text)]
    shapes = {_NUMBER.sub("0", text) for text in texts_with_numbers}  # e.g. "0 [0, 0]"
    # only cells that start with a number: padding would tear words with numbers apart
    if len(shapes) == 1 and shapes.pop()[:1] in "0-[":
        # a pair for each number of a cell: the most characters before its decimal point, and from the point on
        widths = _number_widths(texts_with_numbers)
        texts = [_pad_numbers(text, widths) for text in texts]
    widest_mark = max(marks, key=len, default="")
    blank = rf"\phantom{{\textsuperscript{{{widest_mark}}}}}" if widest_mark else ""
    superscripts = [rf"\textsuperscript{{{mark}}}" if mark else blank for mark in marks]
    # `_set_signs` makes minus signs and ranges of hyphens, in cells of nothing but numbers
    return [_set_signs(text) + superscript for text, superscript in zip(texts, superscripts)]


def _set_signs(text: str) -> str:
    """Replace the hyphens of numbers in LaTeX: by minus signs, en dashes in ranges, and powers of ten.

    Only where the cell holds nothing but numbers, so that names keep their hyphens.

    >>> _set_signs("-0.5"), _set_signs("1-2"), _set_signs("2.6e-17"), _set_signs("resnet-50")
    ('$-$0.5', '1--2', '$2.6\\\\times10^{-17}$', 'resnet-50')
    """
    if not _ONLY_NUMBERS.fullmatch(_LATEX_COMMAND.sub("", text)):
        return text
    # Powers of ten first, since their exponents may be negative; then ranges; a hyphen that is left is a
    # minus sign where a number follows, unless it stands behind a letter, a digit, a dot, or in a power or an en dash.
    text = re.sub(r"(\d+(?:\.\d+)?)e([-+])0*(\d+)", _power_of_ten, text)
    text = re.sub(r"^(\d+)-(\d+)$", r"\1--\2", text)
    return re.sub(r"(?<![\w.{^-])-(?=\d|\\phantom)", "$-$", text)


def _power_of_ten(match: re.Match[str]) -> str:
    """A number with an exponent, such as 2.6e-17, as LaTeX."""
    digits, sign, exponent = match.groups()
    return rf"${digits}\times10^{{{'-' if sign == '-' else ''}{exponent}}}$"


def _number_widths(texts: Sequence[str]) -> list[tuple[int, int]]:
    """For each number of a cell, the largest count of characters before its decimal point, and from the point on."""
    numbers_by_cell = [_NUMBER.findall(text) for text in texts]
    widths = []
    for numbers in zip(*numbers_by_cell):
        whole_parts, decimal_parts = zip(*numbers)
        widths.append((max(map(len, whole_parts)), max(map(len, decimal_parts))))
    return widths


def _pad_numbers(text: str, widths: Sequence[tuple[int, int]]) -> str:
    """Pad each number in a cell with invisible digits on the left to its width, and a single one on the right too.

    Behind one of several numbers in a cell they would be a hole before the comma or the bracket.
    `widths` has one pair for each number of the cell: characters before its decimal point, and from the point on.
    """
    remaining_widths = iter(widths)  # `pad` is called for each number of the cell, from left to right

    def pad(match: re.Match[str]) -> str:
        whole_part, decimal_part = match.groups()
        whole_width, decimal_width = next(remaining_widths)
        left = _invisible_digits(whole_width - len(whole_part))
        right = _invisible_digits(decimal_width - len(decimal_part)) if len(widths) == 1 else ""
        return left + whole_part + decimal_part + right

    return _NUMBER.sub(pad, text)


def _invisible_digits(count: int) -> str:
    return rf"\phantom{{{'0' * count}}}" if count > 0 else ""


def html_table(columns: TextColumns, caption: str = "") -> str:
    """Make an HTML table from cells of plain text by title; all text is escaped, since names come from the user.

    Columns in which every cell is one number are aligned to the right, others to the left.
    """
    alignment = {name: "right" if _is_numeric(cells) else "left" for name, cells in columns.items()}
    header = "".join(f'<th style="text-align:{alignment[name]}">{escape_html(name)}</th>' for name in columns)
    rows = []
    for line in zip(*columns.values()):
        cells = (
            f'<td style="text-align:{alignment[name]}">{escape_html(cell)}</td>'
            for name, cell in zip(columns, line)
        )
        rows.append("<tr>" + "".join(cells) + "</tr>")
    title = f"<caption>{escape_html(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{header}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def html_page(headline: str, tables: Mapping[str, TextColumns], notes: Sequence[str]) -> str:
    """Make an HTML fragment: a headline, tables by their captions, and a list of notes."""
    title = f"<p>{escape_html(headline)}</p>" if headline else ""
    body = "".join(html_table(columns, caption) for caption, columns in tables.items())
    note_items = "".join(f"<li>{escape_html(note)}</li>" for note in notes)
    return f"<div>{title}{body}<ul>{note_items}</ul></div>"


def format_number(value: float | None, digits: int = 4) -> str:
    """Format a number for a table, with so many significant digits; None becomes a dash.

    Large numbers are whole, without an exponent: they are costs and counts.

    >>> format_number(0.12345), format_number(-0.0), format_number(None), format_number(109467.2)
    ('0.1235', '0', '-', '109,500')
    """
    if value is None:
        return "-"
    number = f"{value + 0.0:.{digits}g}"  # adding 0.0 turns -0.0 into 0.0
    if "e+" in number and abs(value) < 1e15:  # beyond that an exponent is easier to read
        return f"{float(number):,.0f}"
    return number


def decimals_shown(standard_error: float | None) -> int:
    """Digits after the decimal point that show two significant digits of the error; 4 if there is no error."""
    if not standard_error or not math.isfinite(standard_error):
        return 4
    return min(12, max(0, 1 - math.floor(math.log10(standard_error))))


def format_estimate(value: float | None, standard_error: float | None) -> str:
    """Format a number with as many digits as its error leaves meaningful; None becomes a dash.

    A number that rounds to zero has no minus sign.

    >>> format_estimate(0.0092134, 0.00061), format_estimate(None, None), format_estimate(-1e-17, 0.01)
    ('0.00921', '-', '0.000')
    """
    if value is None:
        return "-"
    return f"{value:z.{decimals_shown(standard_error)}f}" if standard_error else f"{value:z.4g}"


def format_limits(interval: Any, separator: str) -> str:
    """Format the limits of an interval with the digits of its estimate; empty if it has none, or one is infinite.

    `interval` has `low`, `high` and `standard_error`, which may be None.
    """
    if interval.low is None or interval.high is None or not math.isfinite(interval.high - interval.low):
        return ""
    # so many that two digits of the standard error can be seen; a 95% interval is about four standard errors wide
    digits = decimals_shown(interval.standard_error or (interval.high - interval.low) / 4)
    return f"{interval.low:.{digits}f}{separator}{interval.high:.{digits}f}"


_SMALLEST_P_VALUE = 1e-300  # of those that are written; smaller ones may be 0, which no p-value is


def p_value_text(p_value: float, level: float | None = None) -> str:
    """A p-value of any size, in words: with three digits, or as `format_p_value` writes it beside a limit.

    >>> p_value_text(0.00248), p_value_text(0.0501, 0.95), p_value_text(0.0)
    ('p = 0.00248', 'p = 0.0501', 'p < 1e-300')
    """
    if p_value < _SMALLEST_P_VALUE:
        return f"p < {_SMALLEST_P_VALUE:g}"
    return f"p = {p_value:.3g}" if level is None else f"p = {format_p_value(p_value, level)}"


def format_p_value(p_value: float, level: float = 0.95) -> str:
    """Format a p-value with two digits, or with as many as it takes not to read as 1 - level, its limit.

    >>> format_p_value(0.0251), format_p_value(0.0501), format_p_value(0.04996), format_p_value(1.0)
    ('0.025', '0.0501', '0.04996', '1')
    >>> format_p_value(0.0)  # too small for a floating-point number, and no p-value is 0
    '<1e-300'
    """
    if p_value < _SMALLEST_P_VALUE:
        return f"<{_SMALLEST_P_VALUE:g}"
    limit = float(f"{1 - level:.12g}")  # 1 - 0.95 is 0.05 only up to rounding
    for digits in range(2, 18):  # 17 digits tell all float64 apart
        text = f"{p_value:.{digits}g}"
        if float(text) != limit:
            return text
    return f"{p_value:.2g}"  # it is the limit itself


def format_fixed(value: float, places: int, sign: bool = False) -> str:
    """Format a number with so many decimals, with a + if `sign`; what rounds to zero has no sign.

    >>> format_fixed(-0.00001, 3), format_fixed(0.5, 2, sign=True), format_fixed(-0.00001, 3, sign=True)
    ('0.000', '+0.50', '0.000')
    """
    rounded = round(value, places) + 0.0
    return f"{rounded:+.{places}f}" if sign and rounded else f"{rounded:.{places}f}"


def _align_cells(columns: TextColumns) -> list[list[str]]:
    """Return the lines of a table, titles first, with the cells of a column padded to one width."""
    padded_columns = []
    for name, values in columns.items():
        cells = [escape_controls(cell) for cell in (name, *values)]
        width = max(map(len, cells))
        side = ">" if _is_numeric(values) else "<"
        padded_columns.append([f"{cell:{side}{width}}" for cell in cells])
    return [list(line) for line in zip(*padded_columns)]


def _is_numeric(cells: Sequence[str]) -> bool:
    """True if all cells are plain numbers; a number with its interval reads better from the left."""
    return bool(cells) and all(str(cell)[:1] in "0123456789+-.<" and " " not in str(cell) for cell in cells)


def _escape_bar(text: str) -> str:
    return escape_controls(text).replace("|", "\\|")


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in escape_controls(text))


class Notebook(Printable):
    """A result that a notebook shows as its repr, above the rows of its frame if it has one."""

    # True: show rows spread from start to end instead of the first ones
    _shows_rows_spread_out: ClassVar[bool] = False

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows: the repr, and at most `_NOTEBOOK_ROWS` rows of the frame.

        These are the first rows, or rows spread from start to end where `_shows_rows_spread_out`, as for curves.
        """
        to_frame = getattr(self, "frame", None)
        # values by name of the column; none for a class without a method `frame`
        columns = {} if to_frame is None else to_frame("dict")
        row_count = max((len(values) for values in columns.values()), default=0)
        rows = list(range(min(row_count, _NOTEBOOK_ROWS)))
        if self._shows_rows_spread_out and row_count > _NOTEBOOK_ROWS:
            last = row_count - 1
            # from the first row to the last, at about equal distances
            rows = [round(k * last / (_NOTEBOOK_ROWS - 1)) for k in range(_NOTEBOOK_ROWS)]
        cells = {}
        for name, values in columns.items():
            # a short text; `html_table` escapes it
            cells[name] = [_notebook_cell(values[row]) for row in rows if row < len(values)]
        table = html_table(cells) if cells else ""
        hidden_rows = row_count - _NOTEBOOK_ROWS
        remainder = f"<p>{hidden_rows:,} more rows in frame()</p>" if hidden_rows > 0 else ""
        return f"<div><pre>{escape_html(repr(self))}</pre>{table}{remainder}</div>"


def _notebook_cell(value: Any) -> str:
    return format_number(value) if value is None or isinstance(value, float) else str(value)
