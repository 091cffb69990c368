"""`abstain demo`."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click


@click.command("demo")
@click.option("-o", "--output", "target", metavar="FILE", default="abstain-demo.html", show_default=True,
              type=click.Path(dir_okay=False), help="Where the page goes.")  # fmt: skip
@click.option("--no-report", is_flag=True, help="Only the tables.")
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser.")
def command(target: str, no_report: bool, open_it: bool) -> None:
    """Real model outputs that come along: tables here, an interactive report on disk.

    Five classifiers of handwritten digits, trained on 300 images, on 1,200 they have not seen.
    """
    from dataclasses import replace

    from rich.text import Text

    from abstain import compare, evaluate, select_threshold
    from abstain.cli.choosing import draw_facts
    from abstain.cli.comparing import draw_comparison
    from abstain.cli.evaluating import draw_evaluation
    from abstain.cli.screen import console
    from abstain.formats import read_predictions
    from abstain.formats.vectors import pair_of

    on = console()
    models = [replace(read_predictions(path), path=f"abstain/data/demo/{path.name}") for path in demo_files()]
    result = compare({m.name: pair_of(m, "max_softmax", "zero_one")[:2] for m in models})
    on.print(Text("1. Which model knows best when it is wrong?\n", style="bold"))
    draw_comparison(on, result)
    best = next(m for m in models if m.name == result.names[0])
    on.print(Text("\n2. The best one in full\n", style="bold"))
    metrics = ["aurc", "augrc", "auroc", "risk", "risk_at_coverage@0.8"]
    draw_evaluation(
        on, evaluate(**best.arguments(), metrics=metrics, losses=["zero_one"], replicates=200), best
    )
    on.print(
        Text(
            "\n3. Below which confidence should it abstain, for an error rate of at most 3%?\n", style="bold"
        )
    )
    pair = pair_of(best, "max_softmax", "zero_one")
    draw_facts(on, select_threshold(pair.loss, pair.confidence, risk=0.03), "")
    if no_report:
        return
    from abstain.cli.reporting import write_report

    options = {
        "score": ["max_softmax"],
        "loss": ["zero_one"],
        "level": 0.95,
        "seed": 0,
        "title": "Five readers of digits",
    }
    write_report(models, target, options, "abstain demo")
    on.print(Text(f"\nInteractive report: {click.format_filename(target)}", style="bold"))
    if open_it:
        click.launch(Path(target).absolute().as_uri())


def demo_files() -> list[Path]:
    """The outputs that come along."""
    folder = Path(str(resources.files("abstain") / "data" / "demo"))
    return sorted(folder.glob("*.npz"))
