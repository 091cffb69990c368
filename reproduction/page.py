"""The page on the paper: claims, slips, the fine-tuning table, scores, and the manifest; generated, never edited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reproduction import claims, manifest, table
from reproduction.claims.ledger import Evidence
from reproduction.recipe import PAPERS
from reproduction.runs import EARLIER, PAPERS_NETWORKS, load_paired, load_runs
from reproduction.study import SCORES
from reproduction.tuned import load_tuned, percent, seeds_apart

# seeds wanted of each network of the paper's table, under each of its objectives
_WANTED: dict[table.Network, int] = {
    (dataset, model): 5 if model in ("resnet18", "vgg16_bn") else 2
    for dataset in ("cifar10", "cifar100")
    for model in ("resnet18", "vgg16_bn", "vgg19_bn", "resnet34", "resnet50", "wideresnet28_10")
}


def page(study: dict[str, Any], runs: Sequence[dict[str, Any]], pictures: str = "images/") -> str:
    """The whole page as markdown; `pictures` goes before the names of picture files."""
    evidence = Evidence(study, runs, load_paired())
    judged = claims.judge(claims.LEDGER, evidence)
    return "\n".join([
        "# The paper, reproduced",
        "",
        "The paper: Zhou, Van Landeghem, Popordanoska, Blaschko, *A Novel Characterization of the Population Area",
        "Under the Risk Coverage Curve (AURC) and Rates of Finite Sample Estimators*, ICML 2025. This page is",
        "written by `python -m reproduction page`; every number is read from the results in the repository, every",
        "verdict is a predicate on them.",
        "",
        _in_short(judged, evidence),
        _table_one(runs),
        _figures(pictures),
        claims.as_markdown(judged),
        finetune_section(runs),
        equivalence_section(study),
        "## Scores",
        "",
        score_table(study),
        "## Every figure and table",
        "",
        "<details><summary>Which file shows which figure or table of the paper, and with which networks</summary>",
        "",
        manifest.as_markdown(),
        "</details>",
        "",
    ])  # fmt: skip


def _in_short(judged: Sequence[claims.Judged], evidence: Evidence) -> str:
    """The page in a few sentences."""
    gaps = []
    for network in dict.fromkeys((r.dataset, r.model) for r in evidence.table()):
        start = evidence.tuned(network, table.BEFORE)
        beside = table.gap_to_start(evidence.runs, network, "harmonic", "aurc_01")
        if start is None or beside is None or beside.seeds < 3:
            continue
        mean, low, high = (100 / start.mean["aurc_01"] * x for x in (beside.mean, beside.low, beside.high))
        gaps.append(f"{table.network_name(network)} {mean:+.1f}% [{low:+.1f}, {high:+.1f}]")
    differing = [j.claim.statement for j in judged if j.verdict == claims.DIFFERS and not j.claim.slip]
    points = [
        f"{_counts(judged)} The theory of the weights and the order of the estimators hold.",
        _beside_ce(evidence),
        f"Over five seeds the harmonic objective changes the 0/1 AURC of its start by: {'; '.join(gaps)}.",
        f"What differs: *{'* *'.join(differing)}*",
        _architectures(),
    ]
    return "**In short**\n\n" + "".join(f"- {point}\n" for point in points)


def _beside_ce(evidence: Evidence) -> str:
    """Where the gain over CE comes from, over all networks that were tuned."""
    changes = []  # of the 0/1 AURC beside the start, in percent: under CE and under harmonic
    for network in dict.fromkeys((r.dataset, r.model) for r in evidence.table()):
        found = [evidence.tuned(network, o) for o in (table.BEFORE, "ce", "harmonic")]
        start, ce, own = (row.mean["aurc_01"] if row else float("nan") for row in found)
        changes.append((100 * (ce / start - 1), 100 * (own / start - 1)))
    lower = sum(own < ce for ce, own in changes)
    worse = sum(ce > (ce - own) / 2 > 0 for ce, own in changes)
    tuned = [own for _, own in changes]
    return (
        "Tuning with the harmonic objective ends at a lower 0/1 AURC than tuning with cross-entropy on "
        f"{lower} of the {len(changes)} networks we tuned; on {worse} of them more than half of the gap is "
        "cross-entropy tuning making the network worse. Beside the network that tuning starts from the change is "
        f"{max(tuned):+.1f}% to {min(tuned):+.1f}%."
    )


def _architectures() -> str:
    same, all_of_them = manifest.own_architectures()
    if same == all_of_them:
        return f"All {same} networks in the paper's CIFAR figures are of their own architecture here."
    return (
        f"{same} of the {all_of_them} networks in the paper's CIFAR figures are of their own architecture here; the "
        "others have stand-ins."
    )


def _table_one(runs: Sequence[dict[str, Any]]) -> str:
    """The paper's fine-tuning table with ours in it."""
    return "\n".join([
        "## The fine-tuning table beside the paper's",
        "",
        "Test AURC, ours / the paper's. Ours is of the 0/1 loss, in 1e-3 on CIFAR-10 and in 1e-2 on CIFAR-100: the",
        "paper prints one unit and names no loss, and these are the units its numbers fit (see Slips). Differences are",
        "paired by seed.",
        "",
        table.beside_the_paper(table.table_rows(runs)),
        table.tuned_before(table.table_rows(load_runs(EARLIER))),
        _missing(runs),
        "",
    ])  # fmt: skip


def _figures(pictures: str) -> str:
    """The main figures, and what the paper reports of them."""
    shown = (
        (
            "cifa10resultsseed5",
            "Estimates of AURC against batch size, CIFAR-10, 0/1 loss",
            "The paper reports that both plug-in estimators close in on the population value as the batch grows, "
            "that SELE ends below it and twice SELE above. Ours do the same.",
        ),
        (
            "cifar100absbiasceloss",
            "Mean absolute error against batch size, CIFAR-100",
            "The paper reports that the plug-ins' error falls with every doubling of the batch and SELE's does not. "
            "Ours agree; in small batches SELE's error is the smaller one, which the paper does not say.",
        ),
        (
            "finetuning",
            "Test AURC by epoch: under CE it rises on most networks, under the other objectives it stays or falls",
            "The paper reports the last epoch alone, as a gain over CE.",
        ),
    )
    lines = ["## Main figures", ""]
    for name, title, text in shown:
        lines += [f"![{title}]({pictures}{name}.png)", "", f"{title}. {text}", ""]
    return "\n".join(lines)


def _counts(judged: Sequence[claims.Judged]) -> str:
    own = [j.verdict for j in judged if not j.claim.slip]
    slips = [j for j in judged if j.claim.slip and j.verdict == claims.AGREES]
    return (
        f"Of {len(own)} claims {own.count(claims.AGREES)} agree, {own.count(claims.DIFFERS)} differ, "
        f"{own.count(claims.UNTESTED)} cannot be tested here; {len(slips)} slips are confirmed."
    )


def finetune_section(runs: Sequence[dict[str, Any]]) -> str:
    """All fine-tuning runs, and what they rest on."""
    rows = table.table_rows(runs, load_paired())
    if not rows:
        return "## Fine-tuning\n\nNo runs yet.\n"
    text = [
        "## Fine-tuning",
        "",
        "Test AURC (MSP, harmonic) after fine-tuning, all that was run: 30 epochs, learning rate 1e-3, batch 128;",
        "runs of one seed start from the same pre-trained network and see the same batches. Means ± deviations",
        "over seeds, differences to the CE-tuned run of the same seed with Student's 95% interval over seeds, and the",
        "interval of their mean over test samples (influence functions, paired). The paper's column is as printed.",
        "",
        table.as_markdown(rows),
        _machines(runs),
        _starts(runs),
        _beside_start(rows),
        _best(rows),
        "",
        _beyond(),
    ]
    return "\n".join(text) + "\n"


def _beyond() -> str:
    """What the paper did not try: what it takes to beat the network that tuning starts from."""
    gaps = {
        network: gap
        for network, methods in load_tuned().items()
        if (gap := seeds_apart(methods, "average_ce", "start")) is not None
    }
    found = "; ".join(
        f"{model} on {dataset} {percent(gap.mean, gap.low, gap.high)}"
        for (dataset, model), gap in gaps.items()
    )
    others = [
        f"ResNet-18 on CIFAR-10 trained with {name} {percent(gap.mean, gap.low, gap.high)}"
        for start, name in (("mixup", "mixup"), ("smoothing", "label smoothing"))
        if (gap := seeds_apart(load_tuned()["cifar10", "resnet18"], f"{start}_average_ce", start)) is not None
    ]
    return (
        "Not in the paper: cross-entropy tuning at a constant rate of 0.02 with averaged weights lowers the 0/1 AURC\n"
        f"of the network it starts from (relative change over seeds, 95%): {found};\n{'; '.join(others)}. "
        "See [Train for it](train.md)."
    )


def _machines(runs: Sequence[dict[str, Any]]) -> str:
    tuned = [run for run in runs if run["kind"] == "finetune"]
    times = ", ".join(
        f"{table.network_name(network)} {np.median([e['seconds'] for r in own for e in r['log']]):.2f} s per epoch"
        for network, own in _by_network(tuned).items()
    )
    notes = {run["note"]: sum(r.get("note") == run["note"] for r in runs) for run in runs if "note" in run}
    remarks = "".join(f" Note on {count} pre-trained networks: {note}." for note, count in notes.items())
    return f"{len(tuned)} runs on {', '.join(sorted({r['device'] for r in tuned}))}: {times}.{remarks}\n"


def _starts(runs: Sequence[dict[str, Any]]) -> str:
    """Which seeds share a pre-trained network."""
    lines = []
    for network, own in _by_network([run for run in runs if run["kind"] == "finetune"]).items():
        seeds: dict[str, set[int]] = {}
        for run in own:
            seeds.setdefault(run["start"], set()).add(run["seed"])
        if len(seeds) > 1:
            lots = "; ".join(", ".join(map(str, sorted(lot))) for _, lot in sorted(seeds.items()))
            name = table.network_name(network)
            lines.append(f"{name} was pre-trained {len(seeds)} times: seeds by start {lots}.")
    return "\n\n".join(lines) + "\n"


def _by_network(runs: Sequence[dict[str, Any]]) -> dict[table.Network, list[dict[str, Any]]]:
    found: dict[table.Network, list[dict[str, Any]]] = {}
    for run in sorted(runs, key=lambda run: (run["dataset"], run["model"])):
        found.setdefault((run["dataset"], run["model"]), []).append(run)
    return found


def _beside_start(rows: Sequence[table.Row]) -> str:
    """How much of the gain over CE is a gain over the network that all started from."""
    lines = []
    for start in (row for row in rows if row.objective == table.BEFORE):
        network = (start.dataset, start.model)
        by = {r.objective: r.mean for r in rows if (r.dataset, r.model) == network}
        for quantity, name in (("aurc_01", "0/1 AURC"), ("aurc_ce", "CE AURC")):
            before, ce, own = (m[quantity] for m in (start.mean, by["ce"], by["harmonic"]))
            share = ""
            if ce > max(before, own):  # else there is no gain over CE, or CE tuning loses nothing
                lost = 100 * (ce - before) / (ce - own)
                share = f"; {lost:.0f}% of the gain over CE is what CE tuning loses"
            lines.append(
                f"{table.network_name(network)}, {name} beside the pre-trained network: CE tuning "
                f"{100 * (ce / before - 1):+.1f}%, harmonic {100 * (own / before - 1):+.1f}%{share}."
            )
    return "\n\n".join(lines) + "\n"


def _best(rows: Sequence[table.Row]) -> str:
    lines = []
    for network in dict.fromkeys((row.dataset, row.model) for row in rows):
        tops = [table.NAMES[table.best(rows, network, q).objective] for q in ("aurc_01", "aurc_ce")]
        lines.append(f"Best of {table.network_name(network)}: {tops[0]} (0/1 AURC), {tops[1]} (CE AURC).")
    return " ".join(lines) + "\n"


def _missing(runs: Sequence[dict[str, Any]]) -> str:
    """What was wanted and not run, with the minutes it would take on the same machine.

    Weights are not kept and objectives are compared from one start, so a network with any gap is run anew.
    """
    there = {(r["dataset"], r["model"], r["objective"], r["seed"]) for r in runs if r["kind"] == "finetune"}
    lines = []
    for network, seeds in _WANTED.items():
        lacking = [(o, s) for s in range(seeds) for o in PAPERS if (*network, o, s) not in there]
        if lacking:
            minutes = table.projected_minutes(runs, network[1], seeds * len(PAPERS), start=True)
            names = ", ".join(table.NAMES[o] for o in PAPERS if any(o == other for other, _ in lacking))
            count = table.counted(len({s for _, s in lacking}), "seed")
            lines.append(f"- {table.network_name(network)} ({names}; {count}): {minutes:.0f} minutes")
    for dataset in ("cifar10", "cifar100"):
        for model in PAPERS_NETWORKS:
            if not any((r["kind"], r["dataset"], r["model"]) == ("pretrain", dataset, model) for r in runs):
                minutes = table.projected_minutes(runs, model, 1)
                name = table.network_name((dataset, model))
                lines.append(f"- {name}, pre-training for the figures: {minutes:.0f} minutes")
    title = (
        "Not run, with the minutes of an H200 that the runs timed so far project. Weights are not kept, so they are\n"
        "those of the network's start and of all its objectives and seeds:"
    )
    return "\n".join([title, "", *lines])


def equivalence_section(study: dict[str, Any]) -> str:
    """AURC_a beside AURC_p: both t-tests, the largest difference, and where it comes from."""
    tests = study["equivalence"]
    lines = [
        "## AURC_a and AURC_p",
        "",
        "| loss | models | unpaired p | paired p | largest difference | relative |",
    ]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for loss, name in (("01", "0/1"), ("ce", "CE")):
        t = tests[loss]
        lines.append(
            f"| {name} | {t['models']} | {t['unpaired_p']:.4f} | {t['paired_p']:.2g} | {t['largest_difference']:.2g} "
            f"| {100 * t['largest_relative']:.3f}% |"
        )
    gap = tests["expected_gap"]
    lines += [
        "",
        "AURC_p is the larger one on every model. The weights -ln(1 - r/(n+1)) of AURC_a average to less than 1",
        f"(by {gap['weight']:.2g} at n = {gap['n']}), and what they lack lies on the most confident samples; the",
        "difference is that gap times the loss of those samples. The unpaired test weighs it against the spread",
        "between models, which is thousands of times larger, and so cannot see it.",
        "",
    ]
    return "\n".join(lines)


def score_table(study: dict[str, Any]) -> str:
    """AURC under every score, mean over the models of each dataset; MSP = 1."""
    datasets = sorted({name.split("__")[0] for name in study["models"]})
    lines = [
        "AURC (0/1 loss) under each score, relative to the MSP, averaged over the models with logits.",
        "",
        f"| score | {' | '.join(datasets)} |",
        f"| --- |{' --- |' * len(datasets)}",
    ]
    for score, name in SCORES.items():
        cells = []
        for dataset in datasets:
            tables = [m["score_aurc"] for n, m in study["models"].items() if n.startswith(f"{dataset}__")]
            ratios = [t[score]["01"] / t["max_softmax"]["01"] for t in tables if score in t]
            cells.append(f"{np.mean(ratios):.3f}" if ratios else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
