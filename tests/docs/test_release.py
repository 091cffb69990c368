"""One version, and an archive that holds what it should and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import abstain

ROOT = Path(__file__).parents[2]


def test_one_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M).group(1)
    assert cited == abstain.__version__
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()
    assert f"## {abstain.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_extra_of_the_readme_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    readme = (ROOT / "README.md").read_text()
    named = re.search(r"any of: ([\w ]+)", readme).group(1).split()
    apart = re.findall(
        r"pip install '\.\[(\w+)\]'", readme
    )  # such as those that want an environment of their own
    assert {*named, *apart} == set(extras)


def declared() -> dict[str, str]:
    """The lowest version of each package that pyproject.toml declares for use (not for development), by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    requirements = [requirement for requirements in lists for requirement in requirements]
    return dict(re.findall(r"^([\w-]+)>=([\d.]+)$", "\n".join(requirements), re.M))


def pinned(name: str) -> dict[str, str]:
    """The versions in a file of constraints, by name."""
    return dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / name).read_text(), re.M))


def same_release(version: str, lowest: str) -> bool:
    """Does a version such as 3.1.0 belong to the release that 3.1 names?"""
    return f"{version}.".startswith(f"{lowest}.")


def test_the_oldest_versions_are_those_declared():
    oldest = pinned("constraints-oldest.txt")
    lowest = declared()
    # They need torch or pin what other extras do not take, so they are not in that environment.
    left_out = {"torch", "torchmetrics", "lightning", "transformers", "accelerate", "inspect_ai"}
    assert lowest.keys() - oldest.keys() == left_out
    assert oldest.keys() - lowest.keys() == {"jaxlib", "pandas"}  # what jax, dask and spark bring along
    differing = {
        name for name in lowest.keys() & oldest.keys() if not same_release(oldest[name], lowest[name])
    }
    assert differing == set()


def test_hooks_have_the_versions_of_the_constraints():
    constraints = pinned("constraints.txt")
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    for name in ("ruff", "codespell", "zizmor"):
        (version,) = re.findall(rf"repo: \S+/{name}(?:-pre-commit)?\n +rev: v(\S+)", hooks)
        assert version == constraints[name], name


def test_the_recipe_asks_for_what_the_package_needs():
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    run = recipe[recipe.index("  run:") : recipe.index("tests:")]
    needed = [requirement.replace(">=", " >=") for requirement in project["dependencies"]]
    assert re.findall(r"- (.+)", run) == ["python >=${{ python_min }}", *needed]
    assert f'version: "{abstain.__version__}"' in recipe
    assert f'python_min: "{project["requires-python"].removeprefix(">=")}"' in recipe


def test_the_paper_for_the_journal_has_its_sections_and_cites_what_it_lists():
    paper = (ROOT / "paper" / "paper.md").read_text()
    listed = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text(), re.M))
    body = paper.split("---", 2)[2]
    assert set(re.findall(r"@(\w+)", body)) == listed
    assert re.findall(r"^# (.+)$", body, re.M) == [
        "Summary", "Statement of need", "State of the field", "Software design", "Research impact statement",
        "AI usage disclosure", "Acknowledgements", "References",
    ]  # fmt: skip
    assert 750 <= len(body.split()) <= 1750  # the journal's limits


def test_pictures_of_the_pages_are_small():
    """A clone stays small: `python tools/shrink_images.py docs/images/*.png`."""
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs" / "images").iterdir()}
    assert {name: size for name, size in sizes.items() if size > 300_000} == {}


@pytest.mark.slow
def test_wheel_and_source_archive(tmp_path):
    """Built, opened, installed into empty environments, and the demo run there."""
    build = [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    wheel, archive = next(tmp_path.glob("*.whl")), next(tmp_path.glob("*.tar.gz"))
    inside = zipfile.ZipFile(wheel).namelist()
    assert "abstain/data/demo/neural-network.npz" in inside
    assert "abstain/py.typed" in inside
    assert not [name for name in inside if "tests/" in name or "__pycache__" in name]
    assert not [name for name in inside if "paper" in name or "reproduction" in name]
    assert wheel.stat().st_size < 2_000_000
    with tarfile.open(archive) as opened:
        packed = opened.getnames()
    assert any(name.endswith("tests/core/test_laws.py") for name in packed)
    assert any(name.endswith("reproduction/results/paired.json") for name in packed)
    assert not [name for name in packed if "__pycache__" in name or "/.venv/" in name]
    done = subprocess.run(
        ["sh", str(ROOT / "tools/check_dist.sh"), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok:") == 2
