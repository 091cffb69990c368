"""Links between pages lead somewhere, to the heading they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/tutorials").glob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)")


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    found = []
    for target, heading in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path = page.parent / target if target else page
        if target.startswith("_generated/"):
            drawn = (ROOT / "docs/generate/figures.py").read_text()
            if f'"{Path(target).stem}"' not in drawn:
                found.append(target)
        elif not path.exists():
            found.append(target)
        elif heading and path.suffix == ".md" and heading not in anchors(path):
            found.append(f"{target}#{heading}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_of_the_page(page):
    assert broken(page) == []


def test_every_page_is_in_the_contents():
    listed = set(re.findall(r"^((?:tutorials/)?[\w-]+)$", (ROOT / "docs/index.md").read_text(), re.M))
    docs = ROOT / "docs"
    pages = {page.relative_to(docs).with_suffix("").as_posix() for page in docs.glob("*.md")}
    pages |= {page.relative_to(docs).with_suffix("").as_posix() for page in docs.glob("tutorials/*.md")}
    assert pages - listed == {"index"}


def test_a_broken_link_is_caught(tmp_path):
    (tmp_path / "other.md").write_text("# A title, with: signs\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](missing.md) [b](other.md#nowhere) [c](other.md#a-title-with-signs) [d](https://e.org)\n"
    )
    assert broken(page) == ["missing.md", "other.md#nowhere"]
