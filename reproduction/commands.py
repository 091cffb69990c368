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
        ("text", text, "outputs of a head on the packaged sentence encoder, for review texts"),
        ("imagenet", imagenet, "outputs of a timm network on an ImageNet validation folder"),
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
        if name == "text":
            _text_options(parser)
        if name == "imagenet":
            _imagenet_options(parser)
        if name == "table":
            parser.add_argument("--runs", type=Path, default=None, help="folder of result files")


def _text_options(parser: ArgumentParser) -> None:
    parser.add_argument("--train", type=Path, required=True, help="csv (or csv.xz) with stars and text")
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--head", choices=("linear", "mlp"), default="linear")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=None, help="only the first N texts of each")
    parser.add_argument(
        "--to", type=Path, required=True, help="npz to write, named dataset__model__source.npz"
    )


def _imagenet_options(parser: ArgumentParser) -> None:
    parser.add_argument("--model", default="ViT-Small", help="the paper's name or timm's own")
    parser.add_argument("--images", type=Path, required=True, help="folder with one sub-folder per class")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--to", type=Path, required=True, help="npz to write, named dataset__model__source.npz"
    )


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


def text(given: Namespace) -> int:
    """Embed reviews, fit a head, keep its outputs."""
    from abstain.paper.datasets.text import embed, read_reviews, text_outputs
    from abstain.paper.reproduce import progress

    parts = []
    with progress("texts") as report:
        for path in (given.train, given.test):
            texts, labels = read_reviews(path)
            parts.append((embed(texts[: given.limit], report=report), labels[: given.limit]))
    return _keep(text_outputs(*parts, head=given.head, seed=given.seed), given.to)


def imagenet(given: Namespace) -> int:
    """Run a network over a folder, keep its outputs."""
    from abstain.paper.datasets.imagenet import imagenet_outputs
    from abstain.paper.reproduce import progress

    with progress("images") as report:
        outputs = imagenet_outputs(given.model, given.images, device=given.device, report=report)
    return _keep(outputs, given.to)


def _keep(outputs: Any, to: Path) -> int:
    import numpy as np

    to.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(to, logits=outputs.logits, labels=outputs.labels)
    print(f"{outputs}: accuracy {1 - outputs.loss('01').mean():.4f}, written to {to}")
    return 0
