"""Run the tutorials: each source in docs/tutorials becomes a page with figures and a notebook.

    python docs/generate/tutorials.py               run all, write pages, figures and notebooks
    python docs/generate/tutorials.py clinic        only this one
    python docs/generate/tutorials.py --check       run all, and fail if a page shows something else
    python docs/generate/tutorials.py --notebooks   execute the notebooks in Jupyter (needs nbclient and ipykernel)

A source is Python in percent format: `# %%` starts a cell of code, `# %% [markdown]` a cell of text in comments.
Some tutorials use real data if ABSTAIN_DATA is a folder that has them, and otherwise simulate; they print which data
they used. The pages in the repository were made with that folder. Without it, `--check` runs these tutorials but
compares only their notebooks and figures. Notebooks are executed without it.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt

from abstain.display import save_figure

FOLDER = Path(__file__).resolve().parents[1] / "tutorials"
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
TOLERANCE = 0.05  # relative: other versions of torch, BLAS and scikit-learn move the last digits
SMALL = 0.02  # absolute: the same for shares near 0
PAGE_LETTERS = 90  # of a code block that are shown without scrolling; docs/tutorials/ruff.toml has it too
NOTEBOOK_SECONDS = 300  # after which a cell is stopped


class Cell(NamedTuple):
    """One cell of a source: text in Markdown, or code."""

    is_code: bool
    text: str


def read_cells(source: Path) -> list[Cell]:
    """The cells of a source in percent format; ValueError for text that is not in comments."""
    cells = []
    parts = re.split(r"^# %%(.*)$", source.read_text(), flags=re.M)
    for kind, body in zip(parts[1::2], parts[2::2]):
        if kind.strip() == "":
            cells.append(Cell(is_code=True, text=body.strip("\n")))
            continue
        lines = body.strip("\n").splitlines()
        if kind.strip() != "[markdown]" or not all(line.startswith("#") for line in lines):
            raise ValueError(
                f"{source.name}: a cell is code, or [markdown] in comments, got {kind.strip()!r}."
            )
        cells.append(Cell(is_code=False, text="\n".join(line[1:].removeprefix(" ") for line in lines)))
    return cells


def source_names() -> list[str]:
    """Names of all tutorials."""
    return sorted(path.stem for path in FOLDER.glob("*.py"))


# notebooks -----------------------------------------------------------------------------------------------


def notebook_text(name: str) -> str:
    """The notebook of a tutorial as JSON, without outputs."""
    cells: list[dict[str, Any]] = []
    for place, cell in enumerate(read_cells(FOLDER / f"{name}.py")):
        record: dict[str, Any] = {"id": f"cell-{place}", "metadata": {}}
        record["source"] = cell.text.splitlines(keepends=True)
        if cell.is_code:
            record |= {"cell_type": "code", "execution_count": None, "outputs": []}
        else:
            record["cell_type"] = "markdown"
        cells.append(record)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def execute_notebook(name: str) -> None:
    """Execute a notebook in Jupyter, in an empty folder and without ABSTAIN_DATA; raises if a cell fails."""
    import nbclient
    import nbformat

    notebook = nbformat.reads(notebook_text(name), as_version=4)
    environment = {key: value for key, value in os.environ.items() if key != "ABSTAIN_DATA"}
    environment["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(
            notebook,
            timeout=NOTEBOOK_SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
        )
        client.execute(env=environment)


# pages ---------------------------------------------------------------------------------------------------


def run_cell(code: str, names: dict[str, Any], file_name: str) -> str:
    """Run a cell in the namespace `names`; what it printed, then the value of its last line if that is an expression.

    Figures stay open in matplotlib.
    """
    body = ast.parse(code).body
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), file_name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), file_name, "eval"), names)
            if value is not None:
                print(repr(value))
    return printed.getvalue()


def wrap_lines(printed: str) -> str:
    """Break lines that would not fit the page; what follows is indented."""
    lines = []
    for line in printed.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        wrapped = textwrap.wrap(line, PAGE_LETTERS, subsequent_indent=indent, drop_whitespace=True)
        lines += [line] if len(line) <= PAGE_LETTERS else wrapped
    return "\n".join(lines)


def alternative_text(code: str) -> str:
    """What a figure shows, for people who do not see it: the comment on the first line of its cell."""
    first_line = code.splitlines()[0]
    if not first_line.startswith("# "):
        raise ValueError(
            f"a cell that draws must begin with a comment that says what it shows, got {first_line!r}."
        )
    return first_line.removeprefix("# ")


def run_page(name: str, figures: Path) -> str:
    """Run a tutorial in an empty folder, write its figures into `figures`, and return the page in Markdown."""
    names: dict[str, Any] = {"__name__": "__main__"}
    parts: list[str] = []
    figure_count = 0
    start = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for cell in read_cells(FOLDER / f"{name}.py"):
                if not cell.is_code:
                    parts.append(cell.text)
                    continue
                parts.append(f"```python\n{cell.text}\n```")
                printed = wrap_lines(run_cell(cell.text, names, f"{name}.py").rstrip())
                if printed:
                    parts.append(f"```text\n{printed}\n```")
                for number in plt.get_fignums():
                    figure_count += 1
                    file_name = f"{name}-{figure_count}.svg"
                    save_figure(plt.figure(number).axes[0], figures / file_name)
                    parts.append(f"![{alternative_text(cell.text)}](images/{file_name})")
                plt.close("all")
        finally:
            os.chdir(start)
    made_by = f"*Also as a [notebook]({name}.ipynb), from the same [source]({name}.py).*"
    title, rest = parts[0].split("\n", 1)
    return "\n\n".join([title, made_by, rest.strip("\n"), *parts[1:]]) + "\n"


def first_difference(stored: str, made: str) -> str | None:
    """The first place where two pages differ, numbers by more than the last digits; None if they agree."""
    stored_lines = stored.splitlines()
    made_lines = made.splitlines()
    for stored_line, made_line in zip(stored_lines, made_lines):
        same_words = NUMBER.sub("0", stored_line).split() == NUMBER.sub("0", made_line).split()
        number_pairs = zip(NUMBER.findall(stored_line), NUMBER.findall(made_line))
        if not same_words or not all(is_close(*pair) for pair in number_pairs):
            return f"stored: {stored_line}\nmade:   {made_line}"
    if len(stored_lines) != len(made_lines):
        return f"stored: {len(stored_lines)} lines\nmade:   {len(made_lines)} lines"
    return None


def is_close(stored: str, made: str) -> bool:
    """Are two printed numbers equal up to `TOLERANCE` or `SMALL`?"""
    first = float(stored.replace(",", ""))
    second = float(made.replace(",", ""))
    return abs(first - second) <= max(SMALL, TOLERANCE * abs(first))


def check_page(name: str) -> str | None:
    """Run a tutorial again; what is wrong with its page, notebook or figures in the repository, or None."""
    if (FOLDER / f"{name}.ipynb").read_text() != notebook_text(name):
        return "the notebook is not that of the source"
    with tempfile.TemporaryDirectory() as folder:
        made = run_page(name, Path(folder))
        missing = [
            path.name for path in Path(folder).iterdir() if not (FOLDER / "images" / path.name).exists()
        ]
    if missing:
        return f"figures are missing: {', '.join(missing)}"
    if "ABSTAIN_DATA" not in os.environ and "ABSTAIN_DATA" in made:
        return None  # the page shows the numbers of real data
    return first_difference((FOLDER / f"{name}.md").read_text(), made)


def write_page(name: str) -> None:
    """Run a tutorial and write its page, figures and notebook."""
    images = FOLDER / "images"
    images.mkdir(exist_ok=True)
    for old_figure in images.glob(f"{name}-*.svg"):
        old_figure.unlink()
    (FOLDER / f"{name}.md").write_text(run_page(name, images))
    (FOLDER / f"{name}.ipynb").write_text(notebook_text(name))


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tutorials.")
    parser.add_argument("names", nargs="*", help="tutorials; all by default")
    parser.add_argument("--check", action="store_true", help="compare with the pages in the repository")
    parser.add_argument("--notebooks", action="store_true", help="execute the notebooks in Jupyter")
    options = parser.parse_args()
    plt.switch_backend("svg")  # draw to files only
    failures = 0
    whole_start = time.monotonic()
    for name in options.names or source_names():
        start = time.monotonic()
        problem = None
        if options.notebooks:
            execute_notebook(name)
        elif options.check:
            problem = check_page(name)
        else:
            write_page(name)
        print(f"{name:<26} {time.monotonic() - start:5.1f} s  {problem or 'ok'}", flush=True)
        failures += 1 if problem else 0
    print(f"{'together':<26} {time.monotonic() - whole_start:5.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
