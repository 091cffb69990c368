"""`abstain version`."""

from __future__ import annotations

import click


@click.command("version")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Versions of abstain and of what it uses."""
    from abstain.report.content import versions

    found = versions()
    if as_json:
        import json

        click.echo(json.dumps(found))
        return
    width = max(map(len, found))
    for name, version in found.items():
        click.echo(f"{name:<{width}}  {version}")
