"""Code blocks of a Markdown page: found, run in order in one namespace, and held to the output they show."""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import re
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```", re.M | re.S)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is where its text starts."""

    language: str
    options: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    text = page.read_text()
    found = []
    for match in FENCE.finditer(text):
        language, _, options = match["info"].strip().partition(" ")
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(language, options.strip(), match["text"], line))
    return found


def run_page(page: Path, names: dict[str, Any]) -> list[str]:
    """What is wrong with the page's code, one entry each; `names` is what the reader is told to have."""
    problems: list[str] = []
    for block in blocks_of(page):
        where = f"{page.name}:{block.line}"
        needed_package = block.options.removeprefix("needs-") if block.options.startswith("needs-") else None
        # Installed packages, not importable names: a test may have put benchmarks/ with its evaluate.py on the path.
        if needed_package is not None and needed_package not in packages_distributions():
            continue  # tests/harness/test_integrations.py runs the page where all packages are installed
        if "no-run" in block.options:
            if not block.text.lstrip().startswith("#"):
                problems.append(
                    f"{where}: a block that is not run must say why in a comment on its first line"
                )
        elif block.language == "pycon":
            problems += _run_session(block, names, where)
        elif block.language == "python":
            problems += _run_script(block, names, where)
        elif ">>> " in block.text:
            problems.append(f"{where}: a session must be fenced as pycon, or it is not checked")
    return problems


def _run_session(block: Block, names: dict[str, Any], where: str) -> list[str]:
    test = doctest.DocTestParser().get_doctest(block.text, {}, where, str(where), block.line - 1)
    if not test.examples:
        return [f"{where}: a session without a prompt"]
    test.globs = names
    out = io.StringIO()
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=out.write, clear_globs=False)
    return [out.getvalue()] if out.getvalue() else []


def _run_script(block: Block, names: dict[str, Any], where: str) -> list[str]:
    """Statement by statement. Comment lines right below an expression are the output it shows."""
    lines = block.text.splitlines()
    checker = doctest.OutputChecker()
    for node in ast.parse(block.text).body:
        try:
            printed = _execute(node, names)
        except Exception as error:
            return [f"{where} line {node.lineno}: {type(error).__name__}: {error}"]
        shown = _comments_below(lines, node.end_lineno or 0)
        if isinstance(node, ast.Expr) and shown and not checker.check_output(shown, printed, FLAGS):
            return [f"{where} line {node.lineno}: shows\n{shown}but gives\n{printed}"]
    return []


def _execute(node: ast.stmt, names: dict[str, Any]) -> str:
    """Run one statement; what it printed, then the value it leaves, as a prompt would show it."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if isinstance(node, ast.Expr):
            value = eval(compile(ast.Expression(node.value), "page", "eval"), names)
            if value is not None:
                print(repr(value))
        else:
            exec(compile(ast.Module([node], []), "page", "exec"), names)
    return out.getvalue()


def _comments_below(lines: list[str], after: int) -> str:
    shown = []
    for line in lines[after:]:
        if not line.startswith("#"):
            break
        shown.append(line[1:].removeprefix(" "))
    return "".join(f"{line}\n" for line in shown)
