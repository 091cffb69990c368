"""Tables for people: every form holds the same cells, and names from the user cannot break out of them."""

from __future__ import annotations

import importlib.util

import pandas as pd
import polars as pl
import pytest

from abstain import _tables
from abstain.errors import InputError, MissingDependencyError

COLUMNS = {"name": ["a_b", "<script>x|y</script> & 50%"], "value": ["0.5", "12"]}


def test_frame_in_three_forms():
    assert isinstance(_tables.frame(COLUMNS, "pandas"), pd.DataFrame)
    assert isinstance(_tables.frame(COLUMNS, "polars"), pl.DataFrame)
    assert _tables.frame(COLUMNS, "dict") == COLUMNS
    assert _tables.frame(COLUMNS, "pandas").to_dict("list") == _tables.frame(COLUMNS, "polars").to_dict(
        as_series=False
    )
    with pytest.raises(InputError, match="library"):
        _tables.frame(COLUMNS, "numpy")


def test_frame_without_either_library_is_a_dict(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name in ("pandas", "polars"):
        monkeypatch.delitem(_tables.sys.modules, name)
    assert _tables.frame(COLUMNS) == COLUMNS
    monkeypatch.setitem(_tables.sys.modules, "polars", None)  # as Python marks what cannot be imported
    with pytest.raises(MissingDependencyError, match="pip install"):
        _tables.frame(COLUMNS, "polars")


def test_frame_takes_the_library_already_imported(monkeypatch):
    monkeypatch.delitem(_tables.sys.modules, "pandas")
    assert isinstance(_tables.frame(COLUMNS), pl.DataFrame)


def test_text_is_aligned():
    lines = _tables.text({"name": ["a", "long"], "value": ["1", "22"]}).split("\n")
    assert lines == ["  name  value", "  a         1", "  long     22"]


def test_markdown_escapes_bars_and_aligns_numbers():
    table = _tables.markdown(COLUMNS)
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
    page = _tables.latex(COLUMNS, "50% of a_b")
    assert r"a\_b" in page
    assert r"\& 50\%" in page
    assert r"\caption{50\% of a\_b}" in page
    assert page.count("{lr}") == 1
    assert (
        _tables.latex({"x": ["\\{^~"]}).count(r"\textbackslash{}\{\textasciicircum{}\textasciitilde{}") == 1
    )
