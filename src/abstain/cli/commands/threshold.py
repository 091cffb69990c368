"""`abstain threshold FILE`."""

from __future__ import annotations

from typing import Any

import click

from abstain.cli.options import Fraction, Names, known_loss, known_score, output, reading, taken

_EPILOG = """\b
Examples:
  abstain threshold preds.npz --risk 0.05
      risk of the accepted at most 5%, with probability 95%
  abstain threshold answers.csv --risk 0.1 --delta 0.01
  abstain threshold preds.npz --coverage 0.8
  abstain threshold preds.npz --cost 0.2
      a rejection costs 0.2, an error 1
  abstain threshold preds.npz --risk 0.05 --save rule.json
  abstain threshold later.npz --check rule.json
      does the promise still hold?

When no threshold can be certified, that is the answer: exit code 4.
"""


@click.command("threshold", epilog=_EPILOG)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--risk", type=click.FloatRange(min=0, min_open=True), help="Largest risk of the accepted.")
@click.option("--coverage", type=Fraction(), help="Smallest share to accept.")
@click.option("--cost", type=click.FloatRange(min=0), help="What a rejection costs, an error costing 1.")
@click.option(
    "--delta", type=Fraction(), default=0.05, show_default=True, help="Chance that the promise fails."
)
@click.option("--method", type=click.Choice(["ltt", "sgr", "crc", "empirical"]), default="ltt", show_default=True,
              help="How the promise is made.")  # fmt: skip
@click.option(
    "--score",
    type=Names(known_score, False),
    default="max_softmax",
    show_default=True,
    help="Where there are class scores.",
)
@click.option(
    "--loss",
    type=Names(known_loss, False),
    default="zero_one",
    show_default=True,
    help="Where there are class scores.",
)
@click.option("--bounded", type=(float, float), default=(0.0, 1.0), show_default=True, metavar="LOW HIGH",
              help="Losses lie between these, known beforehand.")  # fmt: skip
@click.option("--per-group", is_flag=True, help="One threshold for each group, all promises at once.")
@click.option(
    "--save", metavar="FILE", type=click.Path(dir_okay=False), help="Keep the rule and its promise as JSON."
)
@click.option(
    "--check",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Hold this data against a saved rule.",
)
@reading
@output
def command(file: str, **options: Any) -> None:
    """Choose the threshold below which to abstain; say what it promises.

    FILE is calibration data: not used to train the model. Accept a sample when its confidence is at least
    the threshold.
    """
    from abstain.cli.choosing import checked, chosen, draw_facts, forms_of

    how, out = taken(options)
    if sum(options[name] is not None for name in ("risk", "coverage", "cost", "check")) != 1:
        raise click.UsageError("give one of --risk, --coverage, --cost (or --check).")
    low, high = options["bounded"]
    if options["risk"] is not None and not low < options["risk"] < high:
        hint = (
            f" Write {options['risk'] / 100:g} for {options['risk']:g}%."
            if 1 <= options["risk"] < 100
            else ""
        )
        raise click.UsageError(f"--risk must lie between {low:g} and {high:g}, the bounds of the loss.{hint}")
    if options["check"]:
        checked(file, how, options, out)
        return
    result, note = chosen(file, how, options)
    from abstain.cli.delivery import deliver

    deliver(out, forms_of(result), lambda on: draw_facts(on, result, note))
    if options["save"]:
        from abstain.formats import replacing

        with replacing(options["save"]) as stream:
            stream.write(result.to_json().encode())
        click.echo(f"wrote {click.format_filename(options['save'])}", err=True)
    if not result.feasible:
        from abstain.cli.main import INFEASIBLE

        click.get_current_context().exit(INFEASIBLE)
