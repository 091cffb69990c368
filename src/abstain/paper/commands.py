"""Commands without training. Each function takes parsed arguments and returns an exit code."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any


def add_to(commands: Any) -> None:
    """Put the commands under `python -m abstain.paper`."""
    for name, function, help_ in (
        ("all", everything, "study, figures, tables and claims, in a few minutes"),
        ("study", study, "every experiment on every model, as numbers"),
        ("figures", figures, "figures and tables from a study"),
        ("table", table, "the fine-tuning table from the runs that exist"),
        ("claims", ledger, "each claim of the paper and our verdict"),
        ("page", write_page, "the page with claims, table and manifest"),
        ("manifest", print_manifest, "which file shows which figure or table"),
        ("verify", verify, "recompute AURC from the outputs that come with the package"),
    ):
        parser: ArgumentParser = commands.add_parser(name, help=help_)
        parser.set_defaults(run=function)
        if name in ("all", "study"):
            parser.add_argument(
                "--data", default=None, help="data folder; default: ABSTAIN_DATA, else digits"
            )
        if name in ("all", "figures"):
            parser.add_argument("--out", type=Path, default=Path("out/paper"))
        if name in ("study", "page"):
            parser.add_argument("--to", type=Path, required=True, help="file to write")
        if name in ("figures", "claims", "page"):
            parser.add_argument("--study", type=Path, default=None, help="default: the one that comes along")
        if name == "table":
            parser.add_argument("--runs", type=Path, default=None, help="folder of result files")


def _study(given: Namespace) -> Any:
    from abstain.paper.kept import STUDY, load_study

    return load_study(given.study or STUDY)


def everything(given: Namespace) -> int:
    """Regenerate all that needs no training."""
    from abstain.paper.reproduce import make_all

    judged = make_all(given.data, given.out)
    _print_verdicts(judged)
    print(f"\nfigures, tables and paper.md are in {given.out}")
    return 0


def study(given: Namespace) -> int:
    """Numbers only."""
    from abstain.paper.reproduce import make_study

    make_study(given.data, given.to)
    return 0


def figures(given: Namespace) -> int:
    """Pictures only."""
    from abstain.paper.reproduce import make_figures

    for path in make_figures(_study(given), given.out):
        print(path)
    return 0


def table(given: Namespace) -> int:
    """The fine-tuning table."""
    from abstain.paper.finetuned import load_runs
    from abstain.paper.page import finetune_section

    print(finetune_section(load_runs(given.runs)))
    return 0


def ledger(given: Namespace) -> int:
    """Verdicts."""
    from abstain.paper.claims import LEDGER, judge
    from abstain.paper.evidence import Evidence
    from abstain.paper.finetuned import load_paired, load_runs

    _print_verdicts(judge(LEDGER, Evidence(_study(given), load_runs(), load_paired())))
    return 0


def _print_verdicts(judged: Any) -> None:
    for j in judged:
        verdict = (
            {"agrees": "slip confirmed", "differs": "slip not seen"}.get(j.verdict) if j.claim.slip else None
        )
        print(f"{verdict or j.verdict:>21}  {j.claim.statement}  [{j.number}]")


def write_page(given: Namespace) -> int:
    """The page."""
    from abstain.paper.finetuned import load_runs
    from abstain.paper.page import page

    given.to.write_text(page(_study(given), load_runs()))
    return 0


def print_manifest(given: Namespace) -> int:
    """The manifest."""
    from abstain.paper.manifest import as_markdown

    print(as_markdown())
    return 0


def verify(given: Namespace) -> int:
    """Recompute; exit code 1 if any number differs."""
    from abstain.paper.kept import verify as check

    checked = check()
    for c in checked:
        print(
            f"{'ok ' if c.good else 'BAD'} {c.name}: accuracy {c.numbers['accuracy']:.4f}, 0/1 AURC "
            f"{c.numbers['aurc_01']:.6f}, CE AURC {c.numbers['aurc_ce']:.5f} (largest gap {c.gap:.1e})"
        )
    return 0 if checked and all(c.good for c in checked) else 1
