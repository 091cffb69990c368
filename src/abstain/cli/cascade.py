"""`abstain cascade FILE FILE ...`."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import click
from rich.text import Text

import abstain
from abstain import Check
from abstain.cascades import Cascade
from abstain.cli.compare import named_files
from abstain.cli.main import INFEASIBLE
from abstain.cli.options import (
    Documented,
    InputFile,
    Output,
    ReadOptions,
    input_file,
    output,
    output_file,
    reading,
    shared,
    stated,
    tell_first,
    tell_unread,
)
from abstain.cli.screen import deliver, working, write
from abstain.cli.series import Look, hold_look
from abstain.cli.threshold import columns_for, draw_facts, facts_of, fitting
from abstain.formats import Predictions
from abstain.formats.alignment import align_models
from abstain.formats.safety import naming_file
from abstain.thresholds import Origin, decision_record


def _numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(x) for x in (value or "").split(",") if x.strip())
    except ValueError:
        raise click.BadParameter(f"must be numbers between commas, got {value!r}.") from None


@click.command("cascade", cls=Documented)
@click.argument("files", nargs=-1, required=True, type=InputFile())
@click.option("--cost", callback=_numbers, metavar="A,B,...", help="What asking each model costs.")
@click.option("--person-cost", type=float, help="What a person's answer costs.")
@click.option("--person-error", type=float, help="A person's mean loss.")
@click.option("--risk", type=float, help="Largest risk of the answers.")
@click.option("--delta", type=float, default=0.05, help="Chance that the promise fails.")
@click.option("--promise", type=click.Choice(["answered", "system"]), default="answered", help="Whose risk.")
@shared("score", "loss", "names")
@click.option("--bounded", type=(float, float), default=(0.0, 1.0), help="Losses lie between these.")
@click.option("--unit", default="", help="Of the costs.")
@click.option("--groups", is_flag=True, help="The promise is to hold in every group.")
@click.option("--rng", "--seed", "rng", type=int, default=0, help="Seed of the split.")
@output_file("--save", kind="json", help="Keep the rule as JSON.")
@output_file(
    "--record", kind="markdown", help="Write a page to be filed beside the rule, as for `threshold`."
)
@input_file("--apply", "applied", help="Say who answers each sample by a saved rule.")
@input_file("--check", help="Hold this data against a saved rule.")
@output_file(
    "--state", kind="json", verdict_first=True, help="Where --check goes on from, and keeps what it saw."
)
@reading
@output
def cascade(files: tuple[str, ...], how: ReadOptions, out: Output, **given: Any) -> None:
    """Choose when a cheap model answers, when a dear one, and when a person; say what that promises.

    FILES are the models' outputs on the same calibration data, in the order in which they are asked.

    Examples:
      abstain cascade small.npz large.npz --cost 1,10 --person-cost 100 --person-error 0 --risk 0.1
      abstain cascade small.npz large.npz --cost 1,10 --person-cost 100 --person-error 0 --risk 0.1 --save rule.json
      abstain cascade small.npz large.npz --apply rule.json -o who.csv --csv
          who answers each sample; no labels are needed
      abstain cascade small.npz large.npz --check rule.json --state series.json
          does the promise still hold? Each run goes on where the last one stopped.

    When nothing can be certified, that is the answer: exit code 4. An alarm of --check is exit code 5.
    """
    saved = given["applied"] or given["check"]
    if sum(bool(given[name]) for name in ("applied", "check", "save")) > 1:
        raise click.UsageError("--save goes with a new rule; give one of --save, --apply, --check.")
    if saved and given["record"]:
        raise click.UsageError("--record goes with a new rule.")
    if given["state"] and not given["check"]:
        raise click.UsageError("--state goes with --check.")
    rule = Cascade.load(saved) if saved else None
    names = given["names"] or (rule.names if rule and len(rule.names) == len(files) else ())
    named = named_files(files, names)
    applied = bool(given["applied"])
    with working(f"reading {len(files)} files"):
        if applied:
            read = [replace(how.read_unlabelled(f)[0], name=name) for name, f in named.items()]
        else:
            read = [how.read(f, name, purpose="cascade") for name, f in named.items()]
        models = {model.name: model for model in align_models(read)}
    for model in models.values():
        tell_first(model)
    tell_unread(next(iter(models.values())), "sample_weight")
    used = dict.fromkeys(models, given["score"])
    if rule:
        asked: dict[str, Any] = {"score": stated("score"), "plain": False}
        used = {n: fitting(saved, rule.scores.get(n), m.kind, **asked) for n, m in models.items()}
    away = {name: m.abstained for name, m in models.items() if m.abstained is not None}
    if rule and applied:
        return _apply(rule, models, away, out)
    losses = {name: m.samples(used[name] or "", given["loss"])[0] for name, m in models.items()}
    clusters = next((m.clusters for m in models.values() if m.clusters is not None), None)
    if rule:
        entries = {name: (losses[name], columns_for(m, None)) for name, m in models.items()}
        calibration = [origin.sha256 for origin in rule.origins.values() if origin.sha256]
        look = Look(files=files, only=how.only, calibration=calibration, state=given["state"])
        check = partial(_checked, rule, entries, away, clusters)
        return hold_look(check, Check, look, out, [])
    return _choose(models, losses, away, clusters, given, out)


def _checked(
    rule: Cascade, entries: dict[str, Any], away: Any, clusters: Any, previous: Check | None
) -> Check:
    return rule.check(entries, abstained=away, clusters=clusters, previous=previous)


def _choose(
    models: dict[str, Predictions], losses: dict[str, Any], away: Any, clusters: Any, given: Any, out: Output
) -> None:
    """A new rule, and what it promises."""
    needed = ("cost", "person_cost", "person_error", "risk")
    missing = [f"--{name.replace('_', '-')}" for name in needed if given[name] in (None, ())]
    if missing:
        raise click.UsageError(f"needs {', '.join(missing)}.")
    if len(given["cost"]) != len(models):
        raise click.UsageError(f"--cost must give {len(models)} numbers, one per file.")
    groups = next((m.group_labels() for m in models.values() if m.groups is not None), None)
    if given["groups"] and groups is None:
        raise click.UsageError("--groups needs a column of groups; name it with --column groups=NAME.")
    stages: dict[str, Any] = {}
    for (name, model), cost in zip(models.items(), given["cost"]):
        columns = columns_for(model, None)
        if model.kind == "confidence":
            stages[name] = (losses[name], columns["confidence"], cost)
        else:
            stages[name] = {**columns, "loss": losses[name], "score": given["score"], "cost": cost}
    result = abstain.cascade(
        stages,
        person=(given["person_cost"], given["person_error"]),
        abstained=away,
        clusters=clusters,
        groups=groups if given["groups"] else None,
        **{name: given[name] for name in ("risk", "delta", "promise", "bounded", "unit", "rng")},
    )
    origins = {}
    for name, model in models.items():
        kind: Any = model.kind
        origins[name] = Origin(kind, **facts_of(str(model.path), model, given["score"], given["loss"]))
    result = result.made_from(origins)
    if given["save"]:
        write(given["save"], result.to_json())
    if given["record"]:
        write(given["record"], decision_record(result, saved_as=given["save"]))
    quiet = repr(result.cost) if result.feasible else "none"
    facts = {name: [text] for name, text in result.facts()}
    draw = partial(draw_facts, result=result, notes=[])
    deliver(out, result, quiet, draw, columns=facts, latex=repr(result))
    if not result.feasible:
        click.get_current_context().exit(INFEASIBLE)


def _apply(rule: Cascade, models: dict[str, Predictions], away: Any, out: Output) -> None:
    """Who answers each sample."""
    columns: dict[str, dict[str, Any]] = {"confidence": {}, "logits": {}, "probs": {}}
    for name, model in models.items():
        columns[model.kind][name] = columns_for(model, None)[model.kind]
    logits = columns["logits"]
    probs = columns["probs"]
    with naming_file(next(iter(models.values())).path):
        who = rule.decide(columns["confidence"], logits=logits, probs=probs, abstained=away).tolist()
    told = ", ".join(f"{name} {who.count(name):,}" for name in (*rule.names, "person"))
    forms: Any = {"json": json.dumps(who), "columns": {"answered_by": who}, "latex": told}
    deliver(out, rule, "\n".join(who), lambda on: on.print(Text(f"answered by: {told}")), **forms)
