"""Install lines work before the first release, and the extras hold what the pages use."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest
from blocks import blocks_of

from abstain.errors import MissingDependencyError

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").rglob("*.py")),
]
CALLED = {"sklearn": "scikit-learn", "distributed": "distributed", "pytorch_lightning": "lightning"}
# a frame may be of polars, and a harness or a logger is where its plug-ins are used
BESIDE = {"abstain", "reproduction", "polars", "inspect_ai", "lm_eval"}
BESIDE |= {"mlflow", "wandb", "evaluate", "datasets", "skore"}


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w-]+", line)[0] for line in requirements}


def test_all_is_every_extra_but_inspect():
    (line,) = EXTRAS["all"]
    listed = set(re.search(r"\[(.*)\]", line)[1].split(","))
    # Inspect pins versions that other extras do not take, so its extra is installed separately
    assert listed == set(EXTRAS) - {"all", "inspect"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_extras_hold_what_the_page_imports(page):
    installed = names(PROJECT["dependencies"]).union(*(names(lines) for lines in EXTRAS.values()))
    text = page.read_text(encoding="utf-8")
    code = text if page.suffix == ".py" else "\n".join(block.text for block in blocks_of(page))
    found = re.findall(r"^(?:>>> |\.\.\. )?\s*(?:import|from) (\w+)", code, re.M)
    used = {CALLED.get(name, name) for name in found}
    assert used - set(sys.stdlib_module_names) - BESIDE <= installed


@pytest.mark.parametrize("file", ["Makefile", "tools/check_dist.sh", "README.md", "CONTRIBUTING.md"])
def test_install_lines_name_extras_that_exist(file):
    """pip only warns of an extra that does not exist, and installs nothing for it."""
    lines = [
        line for line in (ROOT / file).read_text(encoding="utf-8").splitlines() if "install" in line.lower()
    ]
    named = {
        name
        for line in lines
        for group in re.findall(r"(?:\.|file)\[([\w,]+)\]", line)
        for name in group.split(",")
    }
    assert named <= set(EXTRAS)
    assert file != "README.md" or {"all", "inspect"} <= named


def test_readme_lists_what_all_holds():
    (line,) = EXTRAS["all"]
    inside = re.search(r"\[(.*)\]", line)[1].split(",")
    (listed,) = re.findall(
        r"pip install '\.\[all\]' +# any of: (.*)", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    assert listed.split() == inside


def test_messages_name_extras_that_exist():
    call = re.compile(r"""(?:import_optional|MissingDependencyError)\(.*"(\w+)"\)""")
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    extras = {extra for text in texts for extra in call.findall(text)}
    assert {"files", "plot"} <= extras
    assert extras <= set(EXTRAS)


INDEX = re.compile(r"abstain\[\w|(?:pip|uv|pipx)\S* (?:install|add) [^`\n]*\babstain\b")
TEXTS = [*PAGES, *(ROOT / "src").rglob("*.py"), *ROOT.glob("*.md")]


@pytest.mark.parametrize(
    "text", ["pip install abstain", "pip install -U 'abstain[torch]'", "uv add abstain", "abstain[all]"]
)
def test_the_search_finds_lines_that_install_from_an_index(text):
    assert INDEX.search(text)


def test_nothing_tells_a_reader_to_install_from_an_index():
    """Nothing is published under this name: anyone who registers it could run code on the reader's machine."""
    assert "pip install '.[plot]'" in str(MissingDependencyError("Plotting", "matplotlib", "plot"))
    for page in TEXTS:
        for line in page.read_text(encoding="utf-8").splitlines():
            if INDEX.search(line) and page.name != "release.md":
                pytest.fail(f"{page.name} installs from an index that has no abstain yet: {line}")
    assert "no release on PyPI yet" in (ROOT / "README.md").read_text(encoding="utf-8")
