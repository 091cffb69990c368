"""Everything that needs no training, in one go: study, figures, tables, claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from abstain.paper import claims, finetuned
from abstain.paper.datasets.digits import digits_outputs
from abstain.paper.datasets.images import data_folder
from abstain.paper.datasets.outputs import Outputs, find_outputs
from abstain.paper.evidence import Evidence
from abstain.paper.figures import draw_all
from abstain.paper.kept import kept_outputs, save_study
from abstain.paper.page import finetune_section, page, score_table
from abstain.paper.study.everything import FAMILIES, study_all

Report = Callable[[str], None]


@contextmanager
def progress(title: str) -> Iterator[Report]:
    """A line in the terminal that shows what is being done and for how long."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(title), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns) as bar:
        task = bar.add_task("")
        yield lambda what: bar.update(task, description=what)


def all_outputs(folder: str | Path | None, report: Report) -> list[Outputs]:
    """Outputs of the data folder and of the networks trained here; without the folder, digits classifiers."""
    try:
        where = data_folder(folder)
    except ValueError:
        return digits_outputs(report=report)
    return [o for o in [*find_outputs(where), *kept_outputs()] if o.dataset in FAMILIES]


def make_study(folder: str | Path | None, to: Path) -> dict[str, Any]:
    """Run every experiment on every model and write the numbers."""
    with progress("study") as report:
        models = all_outputs(folder, report)
        study = study_all(models, report=report)
    save_study(study, to)
    return study


def make_figures(study: dict[str, Any], to: Path) -> list[Path]:
    """All figures, and the two tables, under `to`."""
    with progress("figures") as report:
        drawn = draw_all(study, to, report)
    runs = finetuned.load_runs()
    (to / "finetune.md").write_text(finetune_section(runs, ""))
    (to / "csfs.md").write_text(score_table(study))
    return [*drawn, to / "finetune.md", to / "csfs.md"]


def make_all(folder: str | Path | None, to: Path) -> list[claims.Judged]:
    """Study, figures, tables and the page with all claims, under `to`; the verdicts are returned."""
    to.mkdir(parents=True, exist_ok=True)
    study = make_study(folder, to / "study.json.gz")
    make_figures(study, to)
    runs = finetuned.load_runs()
    (to / "paper.md").write_text(page(study, runs, ""))
    return claims.judge(claims.LEDGER, Evidence(study, runs, finetuned.load_paired()))
