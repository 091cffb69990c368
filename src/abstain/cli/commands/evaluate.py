"""`abstain evaluate FILE`."""

from __future__ import annotations

from typing import Any

import click

from abstain.cli.options import Fraction, Names, known_loss, known_metric, known_score, output, reading, taken

_EPILOG = """\b
Examples:
  abstain evaluate preds.npz                      logits or probs, and labels
  abstain evaluate answers.csv                    columns correct, confidence
  abstain evaluate out.parquet -c confidence=p_max -c correct=is_right
  abstain evaluate logits.npy --as logits --labels labels.npy
  abstain evaluate preds.npz --metrics aurc,risk_at_coverage@0.9 --scores all
  abstain evaluate preds.npz --json -o table.json
  abstain evaluate predictions/                   a folder of tables
"""


@click.command("evaluate", epilog=_EPILOG)
@click.argument("file", type=click.Path(exists=True))
@click.option("--metrics", type=Names(known_metric), metavar="A,B,...",
              help="Such as aurc, aurc:loo, augrc, auroc, risk_at_coverage@0.9, or all.")  # fmt: skip
@click.option("--scores", type=Names(known_score), metavar="A,B,...",
              help="Confidences computed from class scores, such as max_softmax, max_logit, or all.")  # fmt: skip
@click.option(
    "--losses", type=Names(known_loss), metavar="A,B,...", help="Such as zero_one, cross_entropy, brier."
)
@click.option("--level", type=Fraction(), default=0.95, show_default=True, help="Of the intervals.")
@click.option("--engine", type=click.Choice(["memory", "files", "dask", "spark", "sketch"]),
              help="Who computes. By default memory, and files for a table larger than --max-memory.")  # fmt: skip
@click.option("--replicates", type=click.IntRange(0), help="Of the bootstrap, where a metric needs one.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the bootstrap.")
@click.option("--preview", is_flag=True, help="Show what the file holds and how it would be read, and stop.")
@reading
@output
def command(file: str, **options: Any) -> None:
    """Everything about how well a model knows when it is wrong, as a table with intervals.

    FILE holds logits or probabilities with labels, or a plain table: correct (0/1) or loss, confidence, and
    if you like abstained and group. It may be a folder of tables, which an engine reads (--engine).
    """
    from abstain.cli.delivery import as_csv, deliver
    from abstain.cli.evaluating import draw_evaluation, evaluated

    how, out = taken(options)
    if options.pop("preview"):
        from abstain.cli.evaluating import draw_preview

        draw_preview(file, how)
        return
    table, read = evaluated(file, how, options)
    forms = {
        "json": table.to_json,
        "csv": lambda: as_csv(table.frame("dict")),
        "latex": table.to_latex,
        "quiet": lambda: _one_number(table),
    }
    deliver(out, forms, lambda on: draw_evaluation(on, table, read))


def _one_number(table: Any) -> str:
    metric = "aurc" if "aurc" in table.metrics else table.metrics[0]
    entry = table.select(score=table.scores[0], loss=table.losses[0], metric=metric)[0]
    return "-" if entry.estimate is None else repr(float(entry.estimate))
