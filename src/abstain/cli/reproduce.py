"""`abstain reproduce ...`: the experiments of the paper."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

import abstain


@click.command(
    "reproduce",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Repeat the experiments of the paper; `abstain reproduce --help` lists them."""
    from abstain.cli.main import USAGE
    from abstain.errors import MissingDependencyError

    context = click.get_current_context()
    root = checkout()
    if root is None:
        click.echo(
            "abstain: the paper's experiments are not in the package; they are in a checkout of its repository: "
            "run `pip install -e .` there",
            err=True,
        )
        context.exit(USAGE)
    if sys.path[:1] != [str(root)]:
        sys.path.insert(0, str(root))  # before the working directory, which may have a folder of that name
    try:
        code = importlib.import_module("reproduction.__main__").main(list(arguments))
    except ModuleNotFoundError as error:
        raise MissingDependencyError("`abstain reproduce`", str(error.name), "all") from error
    context.exit(code)


def checkout() -> Path | None:
    """The root of the checkout that an editable install points at, known by what lies beside `src`; else None."""
    package = Path(abstain.__file__).resolve().parent
    root = package.parent.parent
    here = package.parent.name == "src" and (root / "reproduction" / "__main__.py").is_file()
    return root if here else None
