"""`abstain decide RULE FILE`."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from abstain import GroupThresholds, scores
from abstain.cli.options import Documented, InputFile, ReadOptions, named, reading
from abstain.cli.screen import as_csv, working, write
from abstain.cli.threshold import fitting
from abstain.errors import DataError
from abstain.formats import Limits
from abstain.formats.limits import shown, values_of
from abstain.formats.predictions import read_unlabelled
from abstain.thresholds import load_rule


@click.command("decide", cls=Documented)
@click.argument("rule", type=click.Path(exists=True, dir_okay=False))
@click.argument("file", type=InputFile())
@named("scores", "Says that a column of confidences holds plain numbers of this score.")
@reading
@click.option("-o", "--output", "path", metavar="FILE", type=click.Path(dir_okay=False),
              help="Write the table there instead of to the screen.")  # fmt: skip
def command(rule: str, file: str, how: ReadOptions, score: str | None, path: str | None) -> None:
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
        own = {k: getattr(how, k) for k in ("columns", "kind", "format", "tolerance")}
        found, rest = read_unlabelled(file, **own, limits=Limits(memory=how.memory))
    kind = next(k for k in ("logits", "probs", "confidence") if k in found)
    name = fitting(rule, saved, kind, score)
    given: dict[str, Any] = {}
    if isinstance(saved, GroupThresholds):
        if "groups" not in found:
            raise DataError(f"{shown(rule)}: this rule is per group, and {shown(file)} has no groups.")
        given["groups"] = found["groups"]
    told: dict[str, Any] = {}
    with values_of(file):
        confidence = found[kind]
        if name is not None and kind != "confidence":
            outputs = {"probs": confidence} if kind == "probs" else {}
            confidence = np.asarray(scores.by_name(name)(None if outputs else confidence, **outputs))
            given["units"] = "key"
            told = {"prediction": found[kind].argmax(axis=1), name: scores.display(name, confidence)}
        accepted = saved.accepts(confidence, **given)
    if "abstained" in found:
        accepted &= ~found["abstained"]
    kept = {name: x for name, x in rest.items() if x.shape in ((len(accepted),), (len(accepted), 1))}
    columns = kept | {k: v for k, v in told.items() if k not in kept} | {"accepted": accepted.astype(int)}
    text = as_csv({name: np.asarray(x).reshape(-1).tolist() for name, x in columns.items()})
    if path is None:
        click.echo(text, nl=False)
    else:
        write(path, text)
    click.echo(f"accepted {int(accepted.sum()):,} of {len(accepted):,} ({accepted.mean():.1%})", err=True)
