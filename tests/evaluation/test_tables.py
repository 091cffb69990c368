"""Tables for people: every form holds the same cells, and names from the user cannot break out of them."""

from __future__ import annotations

import importlib.util
import re

import pandas as pd
import polars as pl
import pytest

from abstain import _tables
from abstain.errors import InputError, MissingDependencyError

COLUMNS = {"name": ["a_b", "<script>x|y</script> & 50%"], "value": ["0.5", "12"]}


def test_frame_in_three_forms():
    assert isinstance(_tables.make_frame(COLUMNS, "pandas"), pd.DataFrame)
    assert isinstance(_tables.make_frame(COLUMNS, "polars"), pl.DataFrame)
    assert _tables.make_frame(COLUMNS, "dict") == COLUMNS
    assert _tables.make_frame(COLUMNS, "pandas").to_dict("list") == _tables.make_frame(
        COLUMNS, "polars"
    ).to_dict(as_series=False)
    with pytest.raises(InputError, match="library"):
        _tables.make_frame(COLUMNS, "numpy")


def test_frame_without_either_library_is_a_dict(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name in ("pandas", "polars"):
        monkeypatch.delitem(_tables.sys.modules, name)
    assert _tables.make_frame(COLUMNS) == COLUMNS
    monkeypatch.setitem(_tables.sys.modules, "polars", None)  # as Python marks what cannot be imported
    with pytest.raises(MissingDependencyError, match="pip install"):
        _tables.make_frame(COLUMNS, "polars")


def test_frame_takes_the_library_already_imported(monkeypatch):
    monkeypatch.delitem(_tables.sys.modules, "pandas")
    assert isinstance(_tables.make_frame(COLUMNS), pl.DataFrame)


def test_text_is_aligned():
    lines = _tables.text_table({"name": ["a", "long"], "value": ["1", "22"]}).split("\n")
    assert lines == ["  name  value", "  a         1", "  long     22"]


def test_markdown_escapes_bars_and_aligns_numbers():
    table = _tables.markdown_table(COLUMNS)
    head, rule, first, second = table.strip().split("\n")
    assert "x\\|y" in second
    assert rule.endswith("---: |")
    assert len({len(line) for line in (head, rule, first, second)}) == 1


def test_html_escapes_everything():
    page = _tables.html_table({"<b>": COLUMNS["name"]}, "<i>")
    assert "<script>" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;" in page


def test_latex_escapes_what_latex_reads():
    page = _tables.latex_table(COLUMNS, "50% of a_b")
    assert r"a\_b" in page
    assert r"\& 50\%" in page
    assert r"\caption{50\% of a\_b}" in page
    assert page.count("{lr}") == 1
    assert (
        _tables.latex_table({"x": ["\\{^~"]}).count(r"\textbackslash{}\{\textasciicircum{}\textasciitilde{}")
        == 1
    )


def shown_by_latex(row: str) -> str:
    """A row as set in digits of one width: phantoms leave their space, commands none."""
    plain = re.sub(r"\\phantom\{(0+)\}", lambda found: " " * len(found[1]), row)
    return re.sub(r"\\phantom\{\\textsuperscript\{t\*\}\}|\\textsuperscript\{t\*\}", " ", plain)


def test_latex_sets_points_below_each_other_and_explains_its_marks():
    cells = ["0.007432 t *", "12.0675", "-"]
    page = _tables.latex_table(
        {"metric": ["AURC", "risk", "none"], "x": cells}, "a table", "* best of its row"
    )
    rows = [shown_by_latex(line) for line in page.splitlines() if line.startswith(("AURC", "risk"))]
    points = [[m.start() for m in re.finditer(r"\.", row)] for row in rows]
    assert len(points[0]) == 1
    assert points[0] == points[1]
    assert r"0.007432\textsuperscript{t*}" in page
    assert page.index(r"\end{tabular}") < page.index("* best of its row")


def test_latex_has_no_holes_in_cells_with_an_interval():
    page = _tables.latex_table({"x": ["0.007432 [0.005, 0.0109]", "12.0675 [0.0545, 0.08]"]})
    assert "12.0675 [0.0545, 0.08]" in page
    assert "0.007432 [0.005, 0.0109]" in page


def test_latex_sets_signs_of_numbers_and_hyphens_of_names():
    cells = ["-0.5 [-1.5, 0.25]", "1-3", "2.6e-17", "-", "resnet-50", "<1e-300"]
    page = _tables.latex_table({"x": cells})
    shown = [line.removesuffix(r" \\") for line in page.splitlines()[4:10]]
    assert shown[0] == "$-$0.5 [$-$1.5, 0.25]"
    assert shown[1:5] == ["1--3", r"$2.6\times10^{-17}$", "-", "resnet-50"]
    assert shown[5] == r"\textless{}$1\times10^{-300}$"


def test_latex_leaves_numbers_in_names_alone():
    page = _tables.latex_table({"model": ["resnet 50", "resnet 101"], "n": ["5", "1200"]})
    assert "resnet 50 &" in page
    assert r"\phantom{000}5" in page
