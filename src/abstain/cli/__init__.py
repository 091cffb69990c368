"""The command line: parse options, call the library, print, return an exit code (listed in `cli/main.py`)."""

from abstain.cli.main import cli, main

__all__ = ["cli", "main"]
