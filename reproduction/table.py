"""The fine-tuning table, assembled from whatever runs exist: means over seeds, paired differences to CE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction.published import TABLE
from reproduction.recipe import COST, OBJECTIVES, PAPERS

Network = tuple[str, str]  # image set and architecture
_NAMES = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "amazon": "Amazon reviews",
    "transformer": "small transformer",
    "resnet18": "ResNet-18",
    "resnet34": "ResNet-34",
    "resnet50": "ResNet-50",
    "vgg16_bn": "VGG16-BN",
    "vgg19_bn": "VGG19-BN",
    "wideresnet28_10": "WideResNet-28-10",
    **{f"preresnet{depth}": f"PreResNet-{depth}" for depth in (20, 56, 110, 164)},
}


def network_name(network: Network) -> str:
    """The name that tables show.

    >>> network_name(("cifar100", "vgg16_bn"))
    'VGG16-BN, CIFAR-100'
    """
    dataset, model = (_NAMES.get(part, part) for part in network)
    return f"{model}, {dataset}"


BEFORE = "before"  # the pre-trained network itself, in place of an objective
NAMES = {
    BEFORE: "before fine-tuning",
    "ce": "CE",
    "sele": "SELE",
    "harmonic": "harmonic",
    "log": "log",
    "loo": "leave-one-out",
    "soft": "soft ranks",
    "smooth01": "soft ranks, smooth 0/1 + 0.1 CE",
}
QUANTITIES = ("accuracy", "aurc_01", "aurc_ce")


@dataclass(frozen=True)
class Paired:
    """Mean difference to CE over the seeds both have, with a t interval; `wins` counts seeds below zero."""

    mean: float
    low: float
    high: float
    wins: int
    seeds: int


@dataclass(frozen=True)
class Row:
    """One objective on one network: means, spreads and differences by quantity."""

    dataset: str
    model: str
    objective: str
    seeds: tuple[int, ...]
    mean: dict[str, float]
    std: dict[str, float]
    against_ce: dict[str, Paired]
    on_test: dict[str, tuple[float, float]]  # 95% interval of the same difference over test samples


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "seed"), counted(2, "seed")
    ('1 seed', '2 seeds')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def final(run: dict[str, Any], quantity: str) -> float:
    """A run's value after its last epoch."""
    return float(run["log"][-1][quantity])


def table_rows(runs: Sequence[dict[str, Any]], on_test: Sequence[dict[str, Any]] = ()) -> list[Row]:
    """Rows for every network and objective that has at least one finished run; `on_test` as from `load_paired`."""
    intervals = {
        (t["dataset"], t["model"], t["objective"]): {q: (t[q][1], t[q][2]) for q in ("aurc_01", "aurc_ce")}
        for t in on_test
    }
    tuned = [run for run in runs if run["kind"] == "finetune"]
    networks = sorted({(run["dataset"], run["model"]) for run in tuned})
    rows = []
    for dataset, model in networks:
        own = [run for run in tuned if (run["dataset"], run["model"]) == (dataset, model)]
        rows += _before((dataset, model, BEFORE), own, {run["name"]: run for run in runs})
        for objective in OBJECTIVES:
            by_seed = {run["seed"]: run for run in own if run["objective"] == objective}
            base = {run["seed"]: run for run in own if run["objective"] == "ce"}
            if by_seed:
                key = (dataset, model, objective)
                rows.append(_row(key, by_seed, base, intervals.get(key, {})))
    return rows


def _before(
    key: tuple[str, str, str], tuned: Sequence[dict[str, Any]], by_name: dict[str, dict[str, Any]]
) -> list[Row]:
    """The networks that tuning started from, each counted as often as seeds began there."""
    starts = {run["seed"]: by_name[run["start"]] for run in tuned if run["start"] in by_name}
    if not starts:
        return []
    distinct = {run["seed"]: run for run in starts.values()}
    mean = {q: float(np.mean([final(run, q) for run in starts.values()])) for q in QUANTITIES}
    return [_row(key, distinct, {}, {}, mean)]


def _row(
    key: tuple[str, str, str],
    by_seed: dict[int, dict[str, Any]],
    base: dict[int, dict[str, Any]],
    on_test: dict[str, tuple[float, float]],
    mean: dict[str, float] | None = None,
) -> Row:
    values = {q: np.array([final(run, q) for run in by_seed.values()]) for q in QUANTITIES}
    shared = sorted(set(by_seed) & set(base)) if key[2] != "ce" else []
    against = {
        q: paired(np.array([final(by_seed[s], q) - final(base[s], q) for s in shared]))
        for q in QUANTITIES
        if shared
    }
    mean = mean or {q: float(v.mean()) for q, v in values.items()}
    std = {q: float(v.std(ddof=1)) if len(v) > 1 else float("nan") for q, v in values.items()}
    return Row(*key, tuple(sorted(by_seed)), mean, std, against, on_test)


def paired(differences: np.ndarray, level: float = 0.95) -> Paired:
    """Mean of differences with Student's interval; one seed has no interval."""
    from scipy.special import stdtrit

    n, mean = len(differences), float(differences.mean())
    half = float("nan")
    if n > 1:
        half = float(stdtrit(n - 1, (1 + level) / 2) * differences.std(ddof=1) / np.sqrt(n))
    return Paired(mean, mean - half, mean + half, int(np.sum(differences < 0)), n)


def seed_gap(
    runs: Sequence[dict[str, Any]], network: Network, a: str, b: str, quantity: str
) -> Paired | None:
    """Objective a minus objective b over the seeds both have."""
    own = {
        (r["objective"], r["seed"]): final(r, quantity)
        for r in runs
        if (r["kind"], r["dataset"], r["model"]) == ("finetune", *network)
    }
    seeds = [s for o, s in own if o == a and (b, s) in own]
    return paired(np.array([own[a, s] - own[b, s] for s in seeds])) if seeds else None


def gap_to_start(
    runs: Sequence[dict[str, Any]], network: Network, objective: str, quantity: str
) -> Paired | None:
    """Tuned minus the pre-trained network it began with, over the seeds of an objective."""
    by_name = {run["name"]: run for run in runs}
    pairs = [
        (run, by_name[run["start"]])
        for run in runs
        if (run["kind"], run["dataset"], run["model"], run["objective"]) == ("finetune", *network, objective)
        and run["start"] in by_name
    ]
    return paired(np.array([final(a, quantity) - final(b, quantity) for a, b in pairs])) if pairs else None


def best(rows: Sequence[Row], network: Network, quantity: str) -> Row:
    """The objective with the lowest mean; objectives with fewer seeds than others are left out of the comparison."""
    tuned = [row for row in rows if (row.dataset, row.model) == network and row.objective != BEFORE]
    most_seeds = max(len(row.seeds) for row in tuned)
    compared = [row for row in tuned if len(row.seeds) == most_seeds]
    return min(compared, key=lambda row: row.mean[quantity])


def as_markdown(rows: Sequence[Row]) -> str:
    """The table: 0/1 AURC in 1e-3 and CE AURC in 1e-2, with differences to CE, beside the paper's numbers."""
    titles = ["network", "objective", "seeds", "accuracy %"]
    for name in ("0/1 AURC x1e3", "CE AURC x1e2"):
        titles += [name, "minus CE-tuned [95%, seeds]", "[95%, test samples]"]
    lines = [f"| {' | '.join([*titles, 'paper'])} |", "| --- " * (len(titles) + 1) + "|"]
    for row in rows:
        printed = TABLE.get(row.dataset, {}).get(row.model, {}).get(row.objective)
        name = network_name((row.dataset, row.model))
        cells = [name, NAMES[row.objective], str(len(row.seeds)), _cell(row, "accuracy", 100, 2)]
        for quantity, scale in (("aurc_01", 1000), ("aurc_ce", 100)):
            cells += [
                _cell(row, quantity, scale, 3),
                _gap(row, quantity, scale),
                _on_test(row, quantity, scale),
            ]
        cells.append(f"{printed.mean:.3f} ± {printed.std:.3f}" if printed else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


# of 0/1 AURC, by which the numbers that the paper prints come to the size of ours
UNITS = {"cifar10": 1e3, "cifar100": 1e2}


def beside_the_paper(rows: Sequence[Row]) -> str:
    """The paper's table with ours in it: 0/1 AURC of each objective, ours over the paper's, and the gain over CE."""
    titles = ["network", "seeds", *(NAMES[o] for o in PAPERS), "harmonic beside CE [95%, seeds]", "paper"]
    lines = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    for dataset, networks in TABLE.items():
        for model, printed in networks.items():
            own = {r.objective: r for r in rows if (r.dataset, r.model) == (dataset, model)}
            cells = [network_name((dataset, model)), str(len(own["ce"].seeds)) if own else "not run"]
            cells += [f"{_ours(own, o, UNITS[dataset])} / {printed[o].mean:.2f}" for o in PAPERS]
            cells += [_share(own), f"{100 * (printed['harmonic'].mean / printed['ce'].mean - 1):+.1f}%"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _ours(rows_by_objective: dict[str, Row], objective: str, unit: float) -> str:
    """Mean 0/1 AURC of an objective times `unit`, "-" if it was not run; fewer seeds than CE has are named."""
    if objective not in rows_by_objective:
        return "-"
    row = rows_by_objective[objective]
    mean = f"{unit * row.mean['aurc_01']:.2f}"
    if len(row.seeds) < len(rows_by_objective["ce"].seeds):
        return f"{mean} ({counted(len(row.seeds), 'seed')})"
    return mean


def tuned_before(rows: Sequence[Row]) -> str:
    """What networks gave that were trained and tuned anew since, so that nobody need trust the later ones alone."""
    told = []
    for key in dict.fromkeys((r.dataset, r.model) for r in rows):
        own = {r.objective: r for r in rows if (r.dataset, r.model) == key}
        told.append(f"{network_name(key)} {_share(own)} ({counted(len(own['ce'].seeds), 'seed')})")
    return (
        f"{len(told)} of these networks were trained and tuned once before, from other starts "
        f"(`reproduction/results/earlier`); harmonic beside CE was then: {'; '.join(told)}.\n"
    )


def _share(own: dict[str, Row]) -> str:
    """Harmonic minus CE in percent of CE."""
    if "harmonic" not in own:
        return ""
    gap, scale = own["harmonic"].against_ce["aurc_01"], 100 / own["ce"].mean["aurc_01"]
    share = f"{scale * gap.mean:+.1f}%"
    return share if np.isnan(gap.low) else f"{share} [{scale * gap.low:+.1f}, {scale * gap.high:+.1f}]"


def _cell(row: Row, quantity: str, scale: float, digits: int) -> str:
    mean, std = scale * row.mean[quantity], scale * row.std[quantity]
    return f"{mean:.{digits}f}" + ("" if np.isnan(std) else f" ± {std:.{digits}f}")


def _gap(row: Row, quantity: str, scale: float) -> str:
    gap = row.against_ce.get(quantity)
    if gap is None:
        return ""
    text = f"{scale * gap.mean:+.3f}"
    return text if np.isnan(gap.low) else f"{text} [{scale * gap.low:+.3f}, {scale * gap.high:+.3f}]"


def _on_test(row: Row, quantity: str, scale: float) -> str:
    ends = row.on_test.get(quantity)
    return "" if ends is None else f"[{scale * ends[0]:+.3f}, {scale * ends[1]:+.3f}]"


def projected_minutes(
    runs: Sequence[dict[str, Any]], model: str, count: int, *, start: bool = False, epochs: int = 30
) -> float:
    """Minutes that `count` more runs would take on the machine of these: timed, or scaled from the timed network
    closest in cost.

    With `start`, 50 epochs of pre-training come on top.
    """
    timed: dict[str, list[float]] = {}
    for run in runs:
        if run["kind"] == "finetune":
            timed.setdefault(run["model"], []).append(float(np.median([e["seconds"] for e in run["log"]])))
    if not timed:
        return float("nan")
    closest = min(timed, key=lambda name: abs(np.log(COST[name] / COST[model])))
    each = float(np.median(timed[closest])) * COST[model] / COST[closest]
    return each * (count * epochs + 50 * start) / 60
