"""`abstain cascade FILE FILE ...`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

import abstain
from abstain import scores
from abstain.cascades import Cascade
from abstain.cli.compare import model_names
from abstain.cli.main import INFEASIBLE
from abstain.cli.options import (
    Documented,
    Output,
    ReadOptions,
    between_commas,
    fraction,
    output,
    reading,
    shared,
)
from abstain.cli.screen import as_csv, deliver, working, write
from abstain.formats import Predictions
from abstain.formats.columns import assign
from abstain.formats.limits import Limits, file_error, shown, values_of
from abstain.formats.readers import open_source


def _costs(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(x) for x in between_commas(ctx, param, value))
    except ValueError:
        raise click.BadParameter(f"must be numbers between commas, got {value!r}.") from None


@click.command("cascade", cls=Documented)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--cost", callback=_costs, metavar="A,B,...", help="What asking each model costs.")
@click.option("--person-cost", type=click.FloatRange(min=0), help="What a person's answer costs.")
@click.option("--person-error", type=float, help="A person's mean loss.")
@click.option("--risk", type=float, help="Largest risk of the answers.")
@fraction("--delta", "Chance that the promise fails.", 0.05)
@click.option("--promise", type=click.Choice(["answered", "system"]), default="answered",
              help="Whose risk: what the models answer, or all answers with the person's.")  # fmt: skip
@shared("score", "loss", "names")
@click.option("--bounded", type=(float, float), default=(0.0, 1.0), metavar="LOW HIGH",
              help="Losses lie between these, known beforehand.")  # fmt: skip
@click.option("--unit", default="", help="Of the costs.")
@click.option("--groups", is_flag=True, help="The promise is to hold in every group.")
@click.option("--rng", "--seed", "rng", type=int, default=0, help="Seed of the split.")
@click.option("--save", metavar="FILE", type=click.Path(dir_okay=False), help="Keep the rule as JSON.")
@click.option("--apply", "apply_", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
              help="Say who answers each sample by a saved rule.")  # fmt: skip
@click.option("--check", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
              help="Hold this data against a saved rule.")  # fmt: skip
@reading
@output
def command(files: tuple[str, ...], how: ReadOptions, out: Output, names: tuple[str, ...], score: str, loss: str,
            save: str | None, apply_: str | None, check: str | None, **asked: Any) -> None:  # fmt: skip
    """Choose when a cheap model answers, when a dear one, and when a person; say what that promises.

    FILES are the models' outputs on the same calibration data, in the order in which they are asked.

    Examples:
      abstain cascade small.npz large.npz --cost 1,10 --person-cost 100 --person-error 0 --risk 0.1
      abstain cascade small.npz large.npz --cost 1,10 --person-cost 100 --person-error 0 --risk 0.1 --save rule.json
      abstain cascade small.npz large.npz --apply rule.json --csv
          who answers each sample
      abstain cascade small.npz large.npz --check rule.json
          does the promise still hold?

    When nothing can be certified, that is the answer: exit code 4.
    """
    saved = check or apply_
    needed = ("cost", "person_cost", "person_error", "risk")
    missing = [f"--{name.replace('_', '-')}" for name in needed if asked[name] in (None, ())]
    if (check and apply_) or (not saved and missing):
        raise click.UsageError(
            f"needs {', '.join(missing)}." if not saved else "give one of --apply, --check."
        )
    if not saved and len(asked["cost"]) != len(files):
        raise click.UsageError(
            f"--cost must give {len(files)} numbers, one per file, got {len(asked['cost'])}."
        )
    rule = Cascade.from_json(Path(saved).read_text(encoding="utf-8", errors="replace")) if saved else None
    stated = names or (rule.names if rule and len(rule.names) == len(files) else ())
    named = dict(zip(model_names(files, stated), files))
    used = {name: rule.scores.get(name, score) if rule else score for name in named}
    if apply_ and rule:
        _apply(rule, {name: unlabelled(file, how, used[name]) for name, file in named.items()}, out)
        return
    models: list[Predictions] = []
    for name, file in named.items():
        with working(f"reading {shown(file)}"):
            models.append(how.read(file, name))
    entries = {m.name: m.samples(used[m.name], loss) for m in models}
    away = {m.name: m.abstained for m in models if m.abstained is not None}
    if rule is not None:
        for name, mask in away.items():
            entries[name] = (entries[name][0], np.where(mask, np.nan, entries[name][1]))
        _check(rule, entries, out)
        return
    by_group = [m.group_labels() for m in models if m.groups is not None]
    if asked.pop("groups") and not by_group:
        raise click.UsageError("--groups needs a column of groups; name it with --column groups=NAME.")
    person, costs = (asked.pop("person_cost"), asked.pop("person_error")), asked.pop("cost")
    with working(f"choosing among policies on {models[0].n:,} samples"):
        result = abstain.cascade(
            {name: (*entry, cost) for (name, entry), cost in zip(entries.items(), costs)}, person=person,
            abstained=away, clusters=next((m.clusters for m in models if m.clusters is not None), None),
            groups=by_group[0] if by_group else None,
            scores={m.name: used[m.name] for m in models if m.kind != "confidence"}, **asked,
        )  # fmt: skip
    facts = dict(result.facts())
    deliver(
        out, result, lambda: f"{result.cost!r}" if result.feasible else "none", lambda on: _draw(on, result),
        csv=lambda: as_csv({name: [text] for name, text in facts.items()}), latex=lambda: repr(result),
    )  # fmt: skip
    if save:
        write(save, result.to_json())
    if not result.feasible:
        click.get_current_context().exit(INFEASIBLE)


def _draw(on: Console, result: Cascade) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, text in result.facts():
        grid.add_row(Text(name), Text(text))
    on.print(Text(repr(result).partition("\n")[0], style="bold"))
    on.print(grid)


def _check(rule: Cascade, entries: dict[str, Any], out: Output) -> None:
    """Does the promise still hold?"""
    looked = rule.check(entries)
    facts = asdict(looked) | {"holds": looked.holds}
    deliver(
        out, looked, lambda: "holds" if looked.holds else "alarm", lambda on: on.print(Text(repr(looked))),
        json=lambda: json.dumps(facts), latex=lambda: repr(looked),
        csv=lambda: as_csv({name: [value] for name, value in facts.items()}),
    )  # fmt: skip


def unlabelled(file: str, how: ReadOptions, score: str) -> np.ndarray:
    """The confidences of a file that need not say what is right; NaN where its model gave no answer."""
    source = open_source(file, format=how.format, limits=Limits(memory=how.memory))
    roles = assign(source, how.columns, how.kind)
    kind = next((role for role in ("logits", "probs", "confidence") if role in roles), None)
    if kind is None:
        raise file_error(file, f"needs `logits`, `probs` or `confidence`, and has {source.listed()}.")
    columns = [np.asarray(source.columns[name].load(), dtype=np.float64) for name in roles[kind].names]
    values = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
    with values_of(file):
        given = {"logits": None, "probs": None, kind: values}
        found = (
            values if kind == "confidence" else scores.by_name(score)(given["logits"], probs=given["probs"])
        )
    if "abstained" in roles:
        away = np.asarray(source.columns[roles["abstained"].names[0]].load(), dtype=bool)
        found = np.where(away, np.nan, found)
    return found


def _apply(rule: Cascade, confidences: dict[str, np.ndarray], out: Output) -> None:
    """Who answers each sample."""
    who = rule.decide(confidences).tolist()
    counts = {name: who.count(name) for name in (*rule.names, "person")}
    told = ", ".join(f"{name} {count:,} ({count / len(who):.1%})" for name, count in counts.items())
    deliver(
        out, rule, lambda: "\n".join(who), lambda on: on.print(Text(f"answered by: {told}")),
        json=lambda: json.dumps(who), csv=lambda: as_csv({"answered_by": who}), latex=lambda: told,
    )  # fmt: skip
