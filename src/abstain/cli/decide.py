"""`abstain decide RULE FILE`."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from abstain import GroupThresholds, scores
from abstain._tables import as_csv
from abstain.cli import options as opt
from abstain.cli.screen import put, working
from abstain.cli.threshold import fitting
from abstain.errors import DataError
from abstain.formats.limits import shown, values_of
from abstain.thresholds import load_rule


@click.command("decide", cls=opt.Documented)
@click.argument("rule", type=click.Path(exists=True, dir_okay=False))
@click.argument("file", type=opt.InputFile())
@opt.named("scores", "Says that a column of confidences holds plain numbers of this score.")
@opt.reading
@opt.file("-o", "--output", "path", help="Write the table there instead of to the screen.")
def command(rule: str, file: str, how: opt.ReadOptions, score: str | None, path: str | None) -> None:
    """Apply a saved rule to new data, which needs no labels: one more column, `accepted`, 1 or 0.

    RULE is what `abstain threshold --save` wrote. It knows its score: class scores are reduced by it, anything
    else is refused. The table that is written (CSV) holds the columns of FILE, class scores aside.

    Examples:
      abstain decide rule.json new.csv -o decided.csv
      abstain decide rule.json new.npz > decided.csv
      abstain decide rule.json table.csv --column confidence=p_max --score max_softmax
    """
    saved = load_rule(rule)
    with working(f"reading {shown(file)}"):
        read, rest = how.read_unlabelled(file)
    name = fitting(rule, saved, read.kind, score)
    given: dict[str, Any] = {}
    if isinstance(saved, GroupThresholds):
        if read.groups is None:
            raise DataError(f"{shown(rule)}: this rule is per group, and {shown(file)} has no groups.")
        given["groups"] = read.group_labels()
    told: dict[str, Any] = {}
    with values_of(file):
        confidence = read.ranked_by(name)
        if name is not None and read.kind != "confidence":
            given["units"] = "key"
            told = {"prediction": read.class_scores().argmax(axis=1), name: scores.display(name, confidence)}
        accepted = saved.accepts(confidence, **given)
    if read.abstained is not None:
        accepted &= ~read.abstained
    kept = {name: x for name, x in rest.items() if x.shape in ((len(accepted),), (len(accepted), 1))}
    columns = kept | {k: v for k, v in told.items() if k not in kept} | {"accepted": accepted.astype(int)}
    text = as_csv({name: np.asarray(x).reshape(-1).tolist() for name, x in columns.items()})
    put(path, text)
    click.echo(f"accepted {int(accepted.sum()):,} of {len(accepted):,} ({accepted.mean():.1%})", err=True)
