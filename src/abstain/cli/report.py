"""The commands `abstain report` and `abstain demo`."""

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
from abstain._outputs import file_error, replacing
from abstain._progress import progress_bars
from abstain._risk import explain_wrong_risk
from abstain.cli import options as opt
from abstain.cli.compare import draw_comparison, name_files
from abstain.cli.evaluate import draw_evaluation
from abstain.cli.screen import make_console
from abstain.cli.threshold import describe_plain_threshold, draw_facts
from abstain.errors import DataError
from abstain.formats import Predictions, read_predictions
from abstain.formats.predictions import LEARNED, reading_notes
from abstain.report import gather, save_page

_METRICS_HELP = "Metrics in the tables of scores, in addition to aurc. By default those of `evaluate`."


@click.command("report", cls=opt.DocumentedCommand)
@click.argument("files", nargs=-1, required=True, type=opt.InputFile())
@opt.output_option(
    "-o", "--output", "target", kind="page", default="abstain-report.html", help="The HTML file to write."
)
@click.option("--title", default="Selective prediction report", help="Title of the page.")
@opt.name_option("metrics", _METRICS_HELP, several=True)
@opt.fraction_option(
    "--risk",
    "The risk at which the page starts to choose a threshold. [default: 5%, if possible]",
    explain_refusal=explain_wrong_risk,
)
@opt.delta_option("Probability that the promise of a threshold fails.")
@opt.shared_options("names", "score", "loss", "level", "repetitions", "rng", "open")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@opt.with_read_options
def report(
    files: tuple[str, ...],
    read_options: opt.ReadOptions,
    names: tuple[str, ...],
    quiet: bool,
    open_it: bool,
    **page_options: Any,
) -> None:
    """One interactive HTML page that works offline.

    The first screen has the verdict, a slider for the risk that you accept, the threshold that keeps it with its
    promise, a button that saves this rule, and the risk-coverage curve. Below are groups, scores with intervals, a
    ranking with tests, a reliability diagram, ties, and how the page was made.

    Examples:
      abstain report preds.npz
      abstain report preds.npz --risk 0.02
      abstain report a.npz b.npz c.npz -o models.html --title "Three models"
      abstain report answers.csv --open
    """
    purpose = "compared" if len(files) > 1 else "one file"  # decides how unanswered questions count
    # `notes` name the files without a confidence, which are left out of the page
    models, notes = read_options.read_several(name_files(files, names), purpose)
    # how unanswered questions and missing confidences count, and their shares
    notes = [*notes, *reading_notes(models)]
    # ranked by --confidence, which is shown next to the confidences of the file
    if len(models) == 1 and models[0].learned is not None:
        notes = [before_and_after_note(models[0]), *notes]
        models = before_and_after(models[0])
    for model in models:
        opt.note_chosen_confidence(model)  # of several confidences the first is used; says so on stderr
    if not models:  # no file has a confidence, which the notes say
        raise DataError(" ".join(notes))
    opt.refuse_unused_names(*models)  # usage error for --score or --loss without class scores
    write_report(
        models,
        notes=notes,
        command=opt.typed_command("--open", "-q", "--quiet"),
        **page_options,  # "target", the file of the page, and what `write_report` passes on to `gather`
    )
    if not quiet:
        opt.say(f"wrote {page_options['target']}")
    if open_it:
        open_page(page_options["target"])


def before_and_after(model: Predictions) -> list[Predictions]:
    """Return the same samples once for each confidence, the learned one first; a page then compares them in pairs.

    `model` is what `Predictions.with_confidence(learned, keep_others=True)` returned: its `signals` are all confidences
    by name, and `learned` is the saved model that computed the first. `model` is not changed.
    """
    rankings = []
    for name, confidence in model.signals.items():  # it has put the learned confidence first
        title = f"{model.name}: {name} confidence" if name == LEARNED else f"{model.name}: {name}"
        is_learned = name == LEARNED
        rankings.append(
            replace(
                model,
                name=title,
                confidence=confidence,
                signals={},  # all confidences by name; empty where `confidence` is the only one
                log=None,  # it holds the confidences of the file, which would be read instead of this one
                learned=model.learned if is_learned else None,
            )
        )
    return rankings


def before_and_after_note(model: Predictions) -> str:
    """Return the sentences that say what the learned confidence of a model is, and where it may be judged.

    The model must be ranked by a learned confidence (`Predictions.with_confidence`). Of this, `inputs` are the names of
    what it was learned from, and `verdict` is a sentence, with its full stop, on whether it helped.
    """
    learned = model.learned
    assert learned is not None
    return (
        f"The confidence learned from {', '.join(learned.inputs)} is shown next to each confidence of the file, on the "
        f"same samples. When it was learned: {learned.verdict} The rows it was fitted on flatter it; judge "
        f"it on others."
    )


def write_report(
    models: Sequence[Predictions],
    target: str,
    *,
    title: str,
    command: str,
    notes: Sequence[str] = (),
    **gather_options: Any,
) -> None:
    """Gather the numbers of a report, with a progress bar, and write the page to the file `target`.

    `command` is the command line that makes the page again, `notes` say how the files were read, and `gather_options`
    (score, loss, metrics, level ...) are those of `abstain.report.gather`. Prints a note on stderr if several files
    hold different samples.
    """
    with progress_bars(None) as bars:  # None: only on a terminal, after two seconds
        stage_count = len(models) + 1  # each model, and the comparison
        content = gather(
            models,
            # called before each stage, with its name
            progress=lambda _: bars.advance("models", count=1, total=stage_count),
            **gather_options,
        )
    if len(models) > 1 and content.comparison is not None and not content.comparison.paired:
        opt.say("note: the files hold different samples, so they are compared as different test sets.")
    date = datetime.now(UTC).strftime("%d %B %Y")
    content = replace(content, notes=(*content.notes, *notes))
    save_page(content, target, title=title, command=command, made=date)


def open_page(target: str) -> None:
    """Open a page in the browser."""
    click.launch(Path(target).absolute().as_uri())


class Demo(NamedTuple):
    """Model outputs that come with the package.

    Attributes
    ----------
    about : str
        What they are, in a sentence.
    title : str
        Title of the report.
    files : str
        Pattern of their files in the data folder.
    names : dict
        Names of the models by the stems of their files; those that are missing keep the stem.
    classes : tuple of str
        Class names.
    risk : float
        The error rate for which the demo chooses a threshold.
    """

    about: str
    title: str
    files: str
    names: dict[str, str]
    classes: tuple[str, ...]
    risk: float


DEMOS = {
    "cifar10": Demo(
        about="Two ResNet-18 on the 10,000 test images of CIFAR-10, fine-tuned from the same weights: one by "
        "cross-entropy, one by AURC.",
        title="A network tuned to know when it is wrong",
        files="cifar10_resnet18_*.npz",
        names={"cifar10_resnet18_aurc": "tuned by AURC", "cifar10_resnet18_ce": "tuned by cross-entropy"},
        classes=(
            "airplane",
            "automobile",
            "bird",
            "cat",
            "deer",
            "dog",
            "frog",
            "horse",
            "ship",
            "truck",
        ),
        risk=0.01,
    ),
    "digits": Demo(
        about="Five classifiers of handwritten digits, trained on 300 images, on 1,200 they have not seen.",
        title="Five readers of digits",
        files="demo/*.npz",
        names={},
        classes=(),
        risk=0.03,
    ),
}
_DATA_HELP = "Two networks on CIFAR-10, or five classifiers of digits."
_COPY_HELP = "Only write the model outputs as npz files to this folder, to try the other commands on them."
_DATA_FOLDER = Path(str(resources.files("abstain") / "data"))
_SCORE = "max_softmax"
_LOSS = "zero_one"


@click.command("demo", cls=opt.DocumentedCommand)
@click.option("--data", type=click.Choice(list(DEMOS)), default="cifar10", help=_DATA_HELP)
@opt.output_option(
    "-o", "--output", "target", kind="page", default="abstain-demo.html", help="The HTML file to write."
)
@click.option("--no-report", is_flag=True, help="Print the tables only.")
@click.option("--copy", "copy_folder", metavar="FOLDER", help=_COPY_HELP)
@opt.shared_options("open")
def demo(data: str, target: str, no_report: bool, copy_folder: str | None, open_it: bool) -> None:
    """Try it on real model outputs: tables here, an interactive report on disk.

    Examples:
      abstain demo
      abstain demo --data digits -o digits.html --open
      abstain demo --copy .            then run the other commands on its files
    """
    chosen_demo = DEMOS[data]
    if copy_folder is not None:  # with --copy there are no tables and no page
        copies = copy_outputs(chosen_demo, Path(copy_folder))  # one file for each model, sorted by name
        for path in copies:
            click.echo(f"wrote {click.format_filename(path)}")
        opt.suggest_commands(
            {
                ("evaluate", str(copies[0])): "how well does the model know when it is wrong?",
                ("compare", *map(str, copies[:2])): "which model is better, and is that significant?",
                ("threshold", str(copies[0]), "--risk", str(chosen_demo.risk)): "when should it not answer?",
            }
        )
        return
    models = demo_models(chosen_demo)
    draw_tables(chosen_demo, models)
    if no_report:
        return
    command = "abstain demo" + ("" if data == "cifar10" else f" --data {data}")
    # by maximum softmax and the 0/1 loss, like the tables
    write_report(models, target, title=chosen_demo.title, command=command, score=_SCORE, loss=_LOSS)
    click.echo(f"\nInteractive report: {click.format_filename(target)}")
    if open_it:
        open_page(target)


def demo_files(demo: Demo) -> list[Path]:
    """Return the files of a demo inside the installed package, sorted by name."""
    return sorted(_DATA_FOLDER.glob(demo.files))


def copy_outputs(demo: Demo, folder: Path) -> list[Path]:
    """Copy the model outputs of a demo to a folder, which is made if needed; return the copies.

    Raises DataError if the folder or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_error(folder, f"cannot be made ({error.strerror or error}).") from error
    copies = []
    for path in demo_files(demo):
        copy = folder / path.name
        # a stream of bytes; the file appears, or is replaced, only when all is written
        with replacing(copy) as stream:
            stream.write(path.read_bytes())
        copies.append(copy)
    return copies


def demo_models(demo: Demo) -> list[Predictions]:
    """Read the outputs of a demo."""
    models = []
    for path in demo_files(demo):
        predictions = read_predictions(path, classes=demo.classes, name=demo.names.get(path.stem))
        shown_path = f"abstain/data/{path.relative_to(_DATA_FOLDER).as_posix()}"
        models.append(replace(predictions, path=shown_path))
    return models


def draw_tables(demo: Demo, models: list[Predictions]) -> None:
    """Print three questions about the models of a demo and their answers: a ranking, the best model, a threshold.

    `demo` holds a title, a text about the data (`about`) and the error rate that the threshold has to keep (`risk`).
    The models have class scores and labels, and at least one of them. _SCORE is maximum softmax, _LOSS the 0/1 loss.
    """
    console = make_console()
    console.print(Text(demo.about + "\n"))
    # by model: 0/1 losses and confidences by maximum softmax, a pair of arrays
    samples = {model.name: model.loss_and_confidence(_SCORE, _LOSS) for model in models}
    comparison = compare(samples)
    console.print(Text("1. Which model knows best when it is wrong?\n", style="bold"))
    draw_comparison(console, comparison)
    best = next(model for model in models if model.name == comparison.names[0])  # the names come best first
    console.print(Text("\n2. The best one in full\n", style="bold"))
    metrics = ["aurc", "augrc", "auroc", "risk", "risk_at_coverage@0.8"]
    # `best.arguments()` are its class scores and labels, by argument of `evaluate`
    table = evaluate(**best.arguments(), metrics=metrics, losses=[_LOSS])
    draw_evaluation(console, table, best)
    question = f"Below which confidence should it abstain, for an error rate of at most {demo.risk:.0%}?"
    console.print(Text(f"\n3. {question}\n", style="bold"))
    threshold = select_threshold(*samples[best.name], risk=demo.risk)
    # what it promises and how it did on these data, then a sentence on what to do with it
    draw_facts(console, threshold, [describe_plain_threshold(threshold, _SCORE)])
