"""Pages and notebooks of the tutorials are those of their sources. `make tutorials` runs them."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorials"


def load_builder():
    """The script that runs the tutorials, as a module."""
    spec = importlib.util.spec_from_file_location("tutorials", ROOT / "docs/generate/tutorials.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


builder = load_builder()
NAMES = builder.source_names()


def without_outputs(page: str) -> str:
    """The page without what the code printed and drew."""
    text = re.sub(r"^```text\n.*?^```\n\n?", "", page, flags=re.M | re.S)
    return re.sub(r"^!\[[^\n]*\]\(images/[^\n]*\)\n\n?", "", text, flags=re.M)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_the_cells_of_its_source(name):
    expected = []
    for cell in builder.read_cells(FOLDER / f"{name}.py"):
        expected += [f"```python\n{cell.text}\n```" if cell.is_code else cell.text]
    title, intro = expected[0].split("\n", 1)
    page = without_outputs((FOLDER / f"{name}.md").read_text())
    shown_title, made_by, rest = page.split("\n\n", 2)
    assert shown_title == title
    assert f"({name}.ipynb)" in made_by
    assert rest.split() == "\n\n".join([intro, *expected[1:]]).split()


@pytest.mark.parametrize("name", NAMES)
def test_the_notebook_has_the_cells_of_its_source(name):
    stored = (FOLDER / f"{name}.ipynb").read_text()
    assert stored == builder.notebook_text(name)
    cells = json.loads(stored)["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert all(cell["cell_type"] == "markdown" or cell["outputs"] == [] for cell in cells)


@pytest.mark.parametrize("name", NAMES)
def test_code_and_output_fit_the_page(name):
    page = (FOLDER / f"{name}.md").read_text()
    blocks = re.findall(r"^```(?:python|text)\n(.*?)^```$", page, flags=re.M | re.S)
    assert len(blocks) > 8
    wide = [line for line in "".join(blocks).splitlines() if len(line) > builder.PAGE_LETTERS]
    assert wide == []


def test_every_figure_is_on_a_page_and_there():
    shown = set()
    for name in NAMES:
        figures = re.findall(r"!\[(.*?)\]\(images/(.*?)\)", (FOLDER / f"{name}.md").read_text())
        assert figures, name
        assert all(len(words) > 20 for words, _ in figures)  # for people who do not see it
        shown |= {file for _, file in figures}
    assert shown == {path.name for path in (FOLDER / "images").iterdir()}
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 1_000_000


def test_cells_are_read_and_run(tmp_path):
    source = tmp_path / "small.py"
    source.write_text("# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 2\nprint(x)\nx + 1\n")
    text, code = builder.read_cells(source)
    assert text == builder.Cell(is_code=False, text="# Title\n\nText.")
    names = {}
    assert builder.run_cell(code.text, names, "small.py") == "2\n3\n"
    assert names["x"] == 2
    for wrong in ("# %% [markdown]\nnot a comment\n", "# %% [raw]\n# text\n"):
        source.write_text(wrong)
        with pytest.raises(ValueError, match="a cell is code"):
            builder.read_cells(source)
    with pytest.raises(ValueError, match="must begin with a comment"):
        builder.alternative_text("ax = table.plot()")


@pytest.mark.parametrize(
    ("stored", "made", "agrees"),
    [
        ("AURC 0.1234 [0.1, 0.2]", "AURC 0.1236 [0.1, 0.2]", True),
        ("1,000 rows", "1,020 rows", True),
        ("1,000 rows", "1,200 rows", False),
        ("p = 3e-80", "p = 2e-75", True),
        ("alarm for: none", "alarm for: ['a']", False),
        ("one line", "one line\nanother", False),
    ],
)
def test_pages_are_compared_up_to_the_last_digits(stored, made, agrees):
    assert (builder.first_difference(stored, made) is None) == agrees


def test_long_lines_are_broken():
    wrapped = builder.wrap_lines("  " + "word " * 40).splitlines()
    assert max(map(len, wrapped)) <= builder.PAGE_LETTERS
    assert wrapped[1].startswith("      word")
    assert builder.wrap_lines("short\n  lines") == "short\n  lines"
