"""Everything that needs no training, in one go: study, figures, tables, claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reproduction import claims
from reproduction.claims.ledger import Evidence
from reproduction.data import data_folder
from reproduction.figures import draw_all
from reproduction.kept import KeptOutputs
from reproduction.outputs import Outputs, digits_outputs, find_outputs
from reproduction.page import finetune_section, page, score_table
from reproduction.runs import kept_outputs, load_paired, load_runs, save_study
from reproduction.study import FAMILIES, study_all

Report = Callable[[str], None]


@contextmanager
def progress(title: str) -> Iterator[Report]:
    """A line in the terminal that shows what is being done and for how long."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(title), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns) as bar:
        task = bar.add_task("")
        yield lambda what: bar.update(task, description=what)


def all_outputs(folder: str | Path | None, report: Report) -> Sequence[Outputs | KeptOutputs]:
    """Outputs of the data folder and of the networks trained here; without the folder, digits classifiers."""
    try:
        where = data_folder(folder)
    except ValueError:
        return digits_outputs(report=report)
    outputs: list[Outputs | KeptOutputs] = [*find_outputs(where), *kept_outputs()]
    return [one for one in outputs if one.dataset in FAMILIES]


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
    runs = load_runs()
    (to / "finetune.md").write_text(finetune_section(runs))
    (to / "csfs.md").write_text(score_table(study))
    return [*drawn, to / "finetune.md", to / "csfs.md"]


def make_all(folder: str | Path | None, to: Path) -> list[claims.Judged]:
    """Study, figures, tables and the page with all claims, under `to`; the verdicts are returned."""
    to.mkdir(parents=True, exist_ok=True)
    study = make_study(folder, to / "study.json.gz")
    make_figures(study, to)
    runs = load_runs()
    (to / "paper.md").write_text(page(study, runs, ""))
    return claims.judge(claims.LEDGER, Evidence(study, runs, load_paired()))
