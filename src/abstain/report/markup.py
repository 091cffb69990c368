"""HTML that all pages share: the frame, tables with their CSV values, escaped text, and data for the scripts.

All text from the user is escaped. Pages are self-contained: the browser fetches nothing.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any, NamedTuple

from abstain import __version__
from abstain._tables import escape_controls, escape_html, format_fixed
from abstain.report.content import short_names

# the browser may fetch nothing; scripts and styles are inside the page
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_VALUE_WITH_LIMITS = re.compile(r"(\S+) \[(\S+), (\S+)\]")


def framed(
    name: str,
    *,
    title: str,
    subtitle: str,
    made: str,
    links: Mapping[str, str],
    data: Any,
    fields: Mapping[str, Any],
) -> str:
    """Make a page: `assets/NAME.html` in the frame of all pages, with `assets/NAME.js` and its data.

    Parameters
    ----------
    name : str
        "page", "board", "cascade" or "folder".
    title, subtitle : str
        Text for the head of the page.
    made : str
        The date; omitted if empty.
    links : mapping
        Titles of the links to sections, by the ids of the sections, in order; at least one.
    data
        What the script reads, as JSON.
    fields : mapping
        HTML for the fields of `assets/NAME.html`: every field of it.

    Returns
    -------
    str
        One HTML document. Titles are escaped here; `links` and `fields` have to be HTML already.
    """
    first_section = next(iter(links))
    return fill(
        "frame.html",
        policy=POLICY,  # the content security policy: the page loads nothing
        version=__version__,
        title=text(title),
        subtitle=text(f"{subtitle}, made {made}" if made else subtitle),
        # the target and the end of "Skip to the ...", a link for those who use the keyboard
        first=first_section,
        where=links[first_section].lower(),
        links="".join(f'<a href="#{section}">{link}</a>' for section, link in links.items()),
        body=fill(f"{name}.html", **fields),
        style=asset("page.css"),
        data=safe_json(data),
        script=asset("figures.js") + "\n" + asset(f"{name}.js"),
    )


def fill(name: str, /, **fields: Any) -> str:
    """Fill in the fields of an asset."""
    return Template(asset(name)).substitute(fields)


def asset(name: str) -> str:
    """Read a file of `assets`."""
    return (resources.files("abstain.report") / "assets" / name).read_text(encoding="utf-8")


def safe_json(data: Any) -> str:
    """Write JSON that cannot end the script element it is in, whatever text it holds.

    >>> safe_json({"name": "</script><script>"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003cscript\\\\u003e"}'
    """
    json_text = json.dumps(_to_plain(data), allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        json_text = json_text.replace(character, f"\\u{ord(character):04x}")
    return json_text


def _to_plain(data: Any) -> Any:
    """Convert data to what JSON can hold and a page may show: infinities become None, control characters escaped."""
    if isinstance(data, dict):
        return {_to_plain(key): _to_plain(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_to_plain(value) for value in data]
    if isinstance(data, str):
        return escape_controls(data, keep="\n")
    return None if isinstance(data, float) and not math.isfinite(data) else data


def text(value: object) -> str:
    """Escape text for HTML; see `abstain._tables.escape_html`."""
    return escape_html(value)


def with_code(value: str) -> str:
    """Escape text for HTML and set what stands between backticks as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", text(value))


def list_items(lines: Sequence[str]) -> str:
    """The lines as items of an HTML list."""
    return "".join(f"<li>{text(line)}</li>" for line in lines)


def percent(value: float, digits: int = 1) -> str:
    """Format a share as a percentage; small ones keep two significant digits.

    >>> percent(0.8512), percent(0.00123), percent(0.0)
    ('85.1%', '0.12%', '0.0%')
    """
    if 0 < abs(value) < 10 ** -(digits + 1):
        return f"{100 * value:.2g}%"
    return f"{100 * value:.{digits}f}%"


def decimals(values: Sequence[float]) -> int:
    """How many decimals a column needs so that its median number shows three digits.

    >>> decimals([0.0123, 0.1]), decimals([12.5]), decimals([])
    (4, 1, 0)
    """
    sizes = sorted(abs(value) for value in values if value)
    if not sizes:
        return 0
    return max(0, min(6, 2 - math.floor(math.log10(sizes[(len(sizes) - 1) // 2]))))


def estimate_decimals(entries: Sequence[Any]) -> int:
    """Decimals for the estimates of a column; entries may be None, or have none."""
    return decimals([entry.estimate for entry in entries if entry is not None and entry.estimate is not None])


class Cell(NamedTuple):
    """A cell of a table: its HTML, and its values in the CSV file, which may be several (a value and its limits)."""

    html: str
    csv: tuple[str, ...]


def csv_number(value: float | None) -> str:
    """Format a number for a CSV file with six digits; -0 becomes 0, None becomes empty."""
    return "" if value is None else f"{value + 0.0:.6g}"


def name_cells(names: Iterable[str]) -> dict[str, Cell]:
    """Cells with shortened, distinct names; the tooltip and the CSV file have the full name."""
    cells = {}
    for name, short in short_names(names).items():
        html_name = text(name) if short == name else f'<span title="{text(name)}">{text(short)}</span>'
        cells[name] = Cell(html_name, csv=(name,))
    return cells


def html_table(
    head: Sequence[str], rows: Sequence[Sequence[str | Cell]], caption: str, number_columns: Sequence[int]
) -> str:
    """Make a table as HTML, from titles, cells and a caption that are HTML already.

    Columns in `number_columns`, counted from 0, are aligned to the right. A column of the page becomes as many columns
    of the CSV file as its cells have values at most: one, two (limits) or three (a value and its limits). A cell is
    HTML, whose text is also its value in the CSV file, or a `Cell` with other values there. Rows are as long as `head`.
    """
    class_attributes = [' class="num"' if index in number_columns else "" for index in range(len(head))]
    csv_widths = []  # columns of the CSV file, for each column of the page; 1 without rows
    for index in range(len(head)):
        cells = [row[index] for row in rows]
        csv_widths.append(max((len(cell.csv) for cell in cells if isinstance(cell, Cell)), default=1))
    # the titles of the columns of the CSV file, such as "AURC", "AURC low", "AURC high", in an attribute from which the
    # page's script reads them
    csv_attributes = [_csv_attribute(_csv_titles(name, width)) for name, width in zip(head, csv_widths)]
    header = "".join(
        f'<th scope="col"{class_attribute}{csv_attribute}>{title}</th>'
        for class_attribute, title, csv_attribute in zip(class_attributes, head, csv_attributes)
    )
    body = ""
    for row in rows:
        # in the tag of a cell the CSV values follow the class
        row_cells = (
            f"<td{class_attribute}{_rest_of_tag_and_content(cell)}</td>"
            for class_attribute, cell in zip(class_attributes, row)
        )
        body += f"<tr>{''.join(row_cells)}</tr>"
    top = f"<caption><span>{caption}</span></caption><thead><tr>{header}</tr></thead>"
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


def _rest_of_tag_and_content(cell: str | Cell) -> str:
    """What follows the class in a cell's tag: its CSV values, the end of the tag, and its content."""
    return f"{_csv_attribute(cell.csv)}>{cell.html}" if isinstance(cell, Cell) else f">{cell}"


def _csv_attribute(columns: Sequence[str]) -> str:
    """The attribute with a cell's values for a CSV file, as a JSON list.

    It stands in single quotes, so that the double quotes of JSON, of which a page has thousands, need no escape.
    """
    values = text(json.dumps([escape_controls(column) for column in columns])).replace("&quot;", '"')
    return f" data-csv='{values}'"


def _csv_titles(name: str, width: int) -> list[str]:
    """Titles of the CSV columns of one column of the page: one value, two limits, or a value with two limits."""
    name = html.unescape(name)
    limits = [f"{name} low", f"{name} high"]
    return {1: [name], 2: limits, 3: [name, *limits]}[width]


def estimate_cell(entry: Any, places: int, best: bool = False) -> Cell:
    """A cell with an estimate and its interval below; `best` makes it bold.

    `entry` has `estimate`, `low` and `high`, each of which may be None; or it is None. `places` is the number of
    decimals on the page; the CSV file has six digits.
    """
    if entry is None or entry.estimate is None:
        return Cell("–", csv=("", "", ""))  # empty values of the estimate and its limits
    mark = ' class="best"' if best else ""
    content = f"<span{mark}>{format_fixed(entry.estimate, places)}</span>"
    if entry.low is not None and entry.high is not None:
        content += second_line(format_fixed(entry.low, places), format_fixed(entry.high, places))
    return Cell(content, csv=(csv_number(entry.estimate), csv_number(entry.low), csv_number(entry.high)))


def second_line(low: str, high: str) -> str:
    """Limits as the second line of a cell."""
    return f'<br><span class="span">{low} to {high}</span>'


def with_limits(value: str) -> str | Cell:
    """Make a cell with limits below from "0.5 [0.4, 0.6]"; any other text stays as it is."""
    match = _VALUE_WITH_LIMITS.fullmatch(value)
    if match is None:
        return text(value)
    estimate, low, high = match.groups()
    return Cell(estimate + second_line(low, high), csv=(estimate, low, high))
