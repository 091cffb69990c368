"""`abstain clinical FILE`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import click
import numpy as np
from rich.text import Text

from abstain import clinical_table, scores
from abstain._tables import is_number
from abstain.cli.options import Documented, InputFile, Output, ReadOptions, output, reading, shared
from abstain.cli.screen import dash, deliver, plain_table
from abstain.formats.limits import values_of


@click.command("clinical", cls=Documented)
@click.argument("file", type=InputFile())
@click.option("--positive", required=True, metavar="CLASS", help="The class that is looked for.")
@shared("score", "level")
@reading
@output
def command(file: str, how: ReadOptions, out: Output, positive: str, score: str, level: float) -> None:
    """Sensitivity, specificity and predictive values among the accepted, threshold by threshold.

    FILE holds class scores with labels, or columns of labels, predictions and confidences. One row for each coverage
    of 100%, 90% ... 10%; every interval is exact on its own.

    Examples:
      abstain clinical scans.npz --positive 1
      abstain clinical scans.csv --positive ill --latex
    """
    read = how.read(file).answered()
    labels, said = read.answers()
    confidence = read.samples(score, "zero_one")[1]
    wanted: Any = float(positive) if labels.dtype.kind in "biuf" and is_number(positive) else positive
    with values_of(file):
        table = clinical_table(labels, said, confidence, positive=wanted, level=level)
    if read.kind != "confidence":  # people know another number than the rank key
        known = np.asarray(scores.display(score, table.threshold))
        table = replace(table, threshold=known, positive=positive)
    grid = table.grid()

    def draw(on: Any) -> None:
        told = f"Among the accepted, positive: {positive}, {table.n:,} samples, {level:.0%} intervals below"
        on.print(Text(told, style="bold"))
        below = {
            k: [re.sub(r" \[(.*), (.*)\]", rf"\n\1{dash(on)}\2", cell) for cell in v] for k, v in grid.items()
        }
        on.print(plain_table({name: cells for name, cells in below.items() if name != "prevalence"}))

    deliver(out, table, "\n".join(grid["sensitivity"]), draw)
