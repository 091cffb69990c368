"""`python -m abstain.paper COMMAND`: reproduce the paper, whole or in parts."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from abstain.paper import commands as evaluation
from abstain.paper.training import commands as training


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run, exit code."""
    parser = ArgumentParser(
        prog="python -m abstain.paper", description="Reproduce the paper on population AURC."
    )
    commands = parser.add_subparsers(title="commands", required=True)
    evaluation.add_to(commands)
    training.add_to(commands)
    given = parser.parse_args(arguments)
    return int(given.run(given))


if __name__ == "__main__":
    sys.exit(main())
