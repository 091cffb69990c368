"""Count the package's code: files, and lines without docstrings, comments and blanks.

    python tools/count_code.py --max-files 115 --max-lines 14500

Also shown: the longest files, `fmt: skip`, class names used more than once, imports of abstain inside functions.
The exit status is 1 when a limit is passed. `--brought-by A..B` tells, by git blame, how many of the lines the commits
of a range brought, and how many are left without them: what a capability costs, say.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tokenize
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "abstain"
_LAYOUT = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.COMMENT,
    tokenize.ENDMARKER,
}


class Counted(NamedTuple):
    path: Path
    code: set[int]  # numbers of the lines of code
    all_lines: int
    skips: int
    classes: list[str]
    late_imports: list[int]

    @property
    def lines(self) -> int:
        return len(self.code)


def docstring_lines(tree: ast.AST) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
                found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


def code_lines(text: str, tree: ast.AST) -> set[int]:
    """Lines that some token of the program stands on; a string or a bracket over several lines counts them all."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            found.update(range(token.start[0], token.end[0] + 1))
    return found - docstring_lines(tree)


def imports_in_functions(tree: ast.AST) -> list[int]:
    found = set()
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for node in ast.walk(function):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    names = ["abstain" if node.level else node.module or ""]
                if any(name.split(".")[0] == "abstain" for name in names):
                    found.add(node.lineno)
    return sorted(found)


def count(path: Path) -> Counted:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return Counted(
        path.relative_to(SOURCE),
        code_lines(text, tree),
        len(text.splitlines()),
        text.count("fmt: skip"),
        classes,
        imports_in_functions(tree),
    )


def show(files: list[Counted], longest: int) -> None:
    packages: dict[str, list[Counted]] = defaultdict(list)
    for file in files:
        packages[file.path.parts[0] if len(file.path.parts) > 1 else "(top)"].append(file)
    print("| package | files | lines of code | all lines |\n| --- | ---: | ---: | ---: |")
    for name, held in sorted(packages.items()):
        print(
            f"| {name} | {len(held)} | {sum(f.lines for f in held):,} | {sum(f.all_lines for f in held):,} |"
        )
    print(f"| total | {len(files)} | {sum(f.lines for f in files):,} | {sum(f.all_lines for f in files):,} |")

    print("\nLongest files (all lines):")
    for file in sorted(files, key=lambda f: -f.all_lines)[:longest]:
        print(f"  {file.all_lines:>5}  {file.path.as_posix()}")

    uses = Counter(name for file in files for name in file.classes)
    twice = sorted(name for name, times in uses.items() if times > 1)
    print(f"\n`fmt: skip`: {sum(f.skips for f in files)}")
    print(f"class names used more than once: {len(twice)}  {' '.join(twice)}")
    late = [f"{f.path.as_posix()}:{line}" for f in files for line in f.late_imports]
    print(f"imports of abstain inside functions: {len(late)}")
    for place in late:
        print(f"  {place}")


def show_origin(files: list[Counted], span: str) -> None:
    """Lines of code by who wrote them last: commits of the range, or others.

    A file with less than a tenth of its lines from before the range was made by it, whoever edited it since.
    """
    first, _, last = span.partition("..")
    before, until = (set(_git("rev-list", commit).split()) for commit in (first, last))
    house, brought, own = 0, 0, 0
    for file in files:
        blamed = _git("blame", "-s", "-l", "-w", "-M", "-C", str(SOURCE / file.path)).splitlines()
        writers = [
            line.split()[0].lstrip("^") for number, line in enumerate(blamed, 1) if number in file.code
        ]
        kinds = Counter("before" if w in before else "range" if w in until else "after" for w in writers)
        made = kinds["range"] > 0 and 10 * kinds["before"] < len(writers)
        own += made
        mine = len(writers) if made else kinds["range"]
        brought, house = brought + mine, house + len(writers) - mine
    print(f"\nbrought by {span}: {brought:,} lines of code, and {own} files that it made")
    print(f"the rest: {house:,} lines of code in {len(files) - own} files")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=SOURCE, capture_output=True, text=True, check=True)
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--max-files", type=int)
    parser.add_argument("--max-lines", type=int, help="of code, in all files together")
    parser.add_argument("--max-file-lines", type=int, help="all lines of one file, docstrings included")
    parser.add_argument("--max-skips", type=int, help="of `fmt: skip`")
    parser.add_argument("--longest", type=int, default=10, metavar="N", help="how many long files to name")
    parser.add_argument("--brought-by", metavar="A..B", help="a range of commits")
    limits = parser.parse_args()
    files = [count(path) for path in sorted(SOURCE.rglob("*.py"))]
    show(files, limits.longest)
    if limits.brought_by:
        show_origin(files, limits.brought_by)
    measured = [
        ("files", len(files), limits.max_files),
        ("lines of code", sum(f.lines for f in files), limits.max_lines),
        ("lines of the longest file", max(f.all_lines for f in files), limits.max_file_lines),
        ("`fmt: skip`", sum(f.skips for f in files), limits.max_skips),
    ]
    over = [
        f"{value:,} {what}, at most {most:,}"
        for what, value, most in measured
        if most is not None and value > most
    ]
    for line in over:
        print(f"OVER: {line}")
    return 1 if over else 0


if __name__ == "__main__":
    raise SystemExit(main())
