"""`abstain report FILE ...`, gathered with progress, written whole or not at all; `abstain demo`, of real outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.text import Text

from abstain import compare, evaluate, select_threshold
from abstain._progress import progress_bars
from abstain.cli import options as opt
from abstain.cli.compare import draw_comparison, named_files
from abstain.cli.evaluate import draw_evaluation
from abstain.cli.screen import console
from abstain.cli.threshold import draw_facts, in_words
from abstain.errors import DataError
from abstain.formats import Predictions, read_predictions
from abstain.formats.predictions import reading_notes
from abstain.report import gather, save_page


@click.command("report", cls=opt.Documented)
@click.argument("files", nargs=-1, required=True, type=opt.InputFile())
@opt.output_file(
    "-o", "--output", "target", kind="page", default="abstain-report.html", help="Where the page goes."
)
@click.option("--title", default="Selective prediction report")
@opt.shared("names", "score", "loss", "level", "rng", "open")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@opt.reading
def report(
    files: tuple[str, ...],
    how: opt.ReadOptions,
    names: tuple[str, ...],
    quiet: bool,
    open_it: bool,
    **page: Any,
) -> None:
    """One interactive HTML page that works offline.

    Risk-coverage curves with bands, a threshold slider, scores and estimators with intervals, a ranking that
    says what cannot be told apart, ties explained, and how it was made.

    Examples:
      abstain report preds.npz
      abstain report a.npz b.npz c.npz -o models.html --title "Three models"
      abstain report answers.csv --open
    """
    purpose = "compared" if len(files) > 1 else "one file"
    models, apart = how.read_several(named_files(files, names), purpose)
    for model in models:
        opt.tell_first(model)
    if not models:
        raise DataError(" ".join(apart))
    opt.no_names_for_own_confidences(*models)
    write_report(
        models, notes=[*apart, *reading_notes(models)], command=opt.typed("--open", "-q", "--quiet"), **page
    )
    if not quiet:
        opt.say(f"wrote {page['target']}")
    if open_it:
        show_page(page["target"])


def write_report(
    models: Sequence[Predictions],
    target: str,
    *,
    title: str,
    command: str,
    notes: Sequence[str] = (),
    **how: Any,
) -> None:
    """The page, with a bar while its numbers are gathered; notes say how the files were read."""
    with progress_bars(None) as shown:
        content = gather(models, progress=lambda _: shown.advance("models", 1, len(models) + 1), **how)
    if len(models) > 1 and content.comparison is not None and not content.comparison.paired:
        opt.say("note: the files hold different samples, so they are compared as different test sets.")
    made = datetime.now(UTC).strftime("%d %B %Y")
    content = replace(content, notes=(*content.notes, *notes))
    save_page(content, target, title=title, command=command, made=made)


def show_page(target: str) -> None:
    """Open a page in the browser."""
    click.launch(Path(target).absolute().as_uri())


class Demo(NamedTuple):
    """Outputs that come along: what they are, where they lie, and a risk worth asking for."""

    about: str
    title: str
    files: str
    names: dict[str, str]
    classes: tuple[str, ...]
    risk: float


DEMOS = {
    "cifar10": Demo(
        "Two ResNet-18 on the 10,000 test images of CIFAR-10, fine-tuned from one start: one by cross-entropy, "
        "one by AURC.",
        "A network tuned to know when it is wrong",
        "cifar10_resnet18_*.npz",
        {"cifar10_resnet18_aurc": "tuned by AURC", "cifar10_resnet18_ce": "tuned by cross-entropy"},
        ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        0.01,
    ),
    "digits": Demo(
        "Five classifiers of handwritten digits, trained on 300 images, on 1,200 they have not seen.",
        "Five readers of digits",
        "demo/*.npz",
        {},
        (),
        0.03,
    ),
}
_DATA = "Two networks on CIFAR-10, or five classifiers of digits."
_SCORE = {"score": "max_softmax", "loss": "zero_one"}


@click.command("demo", cls=opt.Documented)
@click.option("--data", type=click.Choice(list(DEMOS)), default="cifar10", help=_DATA)
@opt.output_file(
    "-o", "--output", "target", kind="page", default="abstain-demo.html", help="Where the page goes."
)
@click.option("--no-report", is_flag=True, help="Only the tables.")
@opt.shared("open")
def demo(data: str, target: str, no_report: bool, open_it: bool) -> None:
    """Real model outputs that come along: tables here, an interactive report on disk."""
    chosen = DEMOS[data]
    models = demo_models(chosen)
    draw_tables(chosen, models)
    if no_report:
        return
    again = "abstain demo" + ("" if data == "cifar10" else f" --data {data}")
    write_report(models, target, title=chosen.title, command=again, **_SCORE)
    click.echo(f"\nInteractive report: {click.format_filename(target)}")
    if open_it:
        show_page(target)


def demo_models(demo: Demo) -> list[Predictions]:
    """The outputs, read as any file."""
    folder = Path(str(resources.files("abstain") / "data"))
    found = []
    for path in sorted(folder.glob(demo.files)):
        read = read_predictions(path, classes=demo.classes, name=demo.names.get(path.stem))
        found.append(replace(read, path=f"abstain/data/{path.relative_to(folder).as_posix()}"))
    return found


def draw_tables(demo: Demo, models: list[Predictions]) -> None:
    """Three questions and their answers."""
    on = console()
    on.print(Text(demo.about + "\n"))
    samples = {m.name: m.samples(**_SCORE) for m in models}
    result = compare(samples)
    on.print(Text("1. Which model knows best when it is wrong?\n", style="bold"))
    draw_comparison(on, result)
    best = next(m for m in models if m.name == result.names[0])
    on.print(Text("\n2. The best one in full\n", style="bold"))
    metrics = ["aurc", "augrc", "auroc", "risk", "risk_at_coverage@0.8"]
    table = evaluate(**best.arguments(), metrics=metrics, losses=["zero_one"])
    draw_evaluation(on, table, best)
    asked = f"an error rate of at most {demo.risk:.0%}"
    on.print(Text(f"\n3. Below which confidence should it abstain, for {asked}?\n", style="bold"))
    rule = select_threshold(*samples[best.name], risk=demo.risk)
    draw_facts(on, rule, [in_words(rule, _SCORE["score"])])
