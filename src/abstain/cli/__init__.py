"""The command line: parse, call, print, exit code.

Exit codes: 0 ok, 1 interrupted, 2 usage (or a missing optional package), 3 bad data, 4 no feasible threshold.
"""

from abstain.cli.main import cli, main

__all__ = ["cli", "main"]
