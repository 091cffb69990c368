"""`abstain reproduce ...`: the experiments of the paper."""

from __future__ import annotations

import click


@click.command(
    "reproduce",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Repeat the experiments of the paper; `abstain reproduce --help` lists them."""
    try:
        from abstain.paper.__main__ import main
    except ImportError as error:
        from abstain.errors import MissingDependencyError

        raise MissingDependencyError("`abstain reproduce`", error.name or "torch", "paper") from error
    click.get_current_context().exit(main(list(arguments)))
