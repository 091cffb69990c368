"""Cascades: does the promise hold, is it worth it, how long does it take? Printed as markdown tables.

    python benchmarks/cascades.py held                      2,000 simulated data sets a setting
    ABSTAIN_DATA=... python benchmarks/cascades.py real      500 calibration sets of 3,000 real questions
    ABSTAIN_DATA=... python benchmarks/cascades.py worth     50 pairs of language models, and one of them closely
    ABSTAIN_DATA=... python benchmarks/cascades.py cifar10   two networks, and the people of CIFAR-10H
    ABSTAIN_DATA=... python benchmarks/cascades.py tried     the same pairs with other choices inside the search
    python benchmarks/cascades.py speed                     three stages, 50 thresholds each, a million samples

`--runs` and `--only` make them smaller; `--plot FILE` draws the curve of cifar10.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import abstain

DELTA = 0.1
ATOMS = 20_000  # a population is so many kinds of sample, each with its own chances of error
COSTS = (1.0, 10.0, 30.0)
PERSON = (100.0, 0.0)


# simulated populations ------------------------------------------------------------------------------


class Population(NamedTuple):
    """Kinds of sample, equally frequent: confidences and chances of error by stage, (stages, kinds)."""

    confidence: np.ndarray
    chance: np.ndarray
    clusters: int = 1  # samples of one cluster
    shared: float = 0.0  # share of clusters whose samples are all right or wrong together
    group: np.ndarray | None = None
    bounded: bool = False  # losses are uniform around their mean instead of 0 or 1


class Draw(NamedTuple):
    stages: dict[str, tuple[np.ndarray, np.ndarray, float]]
    more: dict[str, Any]


def names(population: Population) -> list[str]:
    return [f"stage {j}" for j in range(len(population.confidence))]


def draw(population: Population, n: int, rng: np.random.Generator) -> Draw:
    """A calibration set."""
    size = population.clusters
    kind = rng.integers(0, population.confidence.shape[1], n)
    chance = population.chance[:, kind]
    luck = rng.random((1, n))  # one draw of luck: what is wrong early tends to be wrong late
    if size > 1:
        together = np.repeat(rng.random(-(-n // size)) < population.shared, size)[:n]
        luck = np.where(together, np.repeat(rng.random(-(-n // size)), size)[:n], luck)
    loss = (luck < chance).astype(np.float64)
    if population.bounded:
        loss = chance + np.minimum(chance, 1 - chance) * (2 * rng.random(chance.shape) - 1)
    entries = zip(names(population), loss, population.confidence[:, kind], COSTS)
    more: dict[str, Any] = {"clusters": np.arange(n) // size} if size > 1 else {}
    if population.group is not None:
        more["groups"] = population.group[kind]
    return Draw({name: (l, g, c) for name, l, g, c in entries}, more)


def true_risk(population: Population, found: abstain.Cascade, person: float | None = None) -> float:
    """Of a policy; the worst over groups. With the person's error for a promise about the system."""
    confidences = dict(zip(names(population), population.confidence))
    who = found.decide(confidences)
    chance = np.full(len(who), np.nan if person is None else person)
    for name, own in zip(names(population), population.chance):
        chance[who == name] = own[who == name]
    spoken = np.isfinite(chance)
    groups = np.zeros(len(who), int) if population.group is None else population.group
    risks = [
        chance[spoken & (groups == k)].mean() for k in np.unique(groups) if (spoken & (groups == k)).any()
    ]
    return float(max(risks, default=0.0))


def uniform(stages: int, dependent: float, seed: int = 1) -> np.ndarray:
    """Confidences: the same for all stages with probability `dependent`, otherwise each its own."""
    rng = np.random.default_rng(seed)
    own, shared = rng.random((stages, ATOMS)), rng.random(ATOMS)
    return np.where(rng.random((stages, ATOMS)) < dependent, shared, own)


def _two(dependent: float, levels: int | None = None) -> Population:
    g = uniform(2, dependent)
    g = g if levels is None else np.ceil(g * levels) / levels
    return Population(g, np.stack([0.6 * (1 - g[0]), 0.3 * (1 - g[1])]))


def _three(dependent: float) -> Population:
    g = uniform(3, dependent)
    return Population(g, np.asarray([[0.6], [0.4], [0.25]]) * (1 - g))


def _flat(stages: int, **more: Any) -> Population:
    """Every policy breaks the promise by a hair: whatever is certified is a violation."""
    g = uniform(stages, 0.5)
    return Population(g, np.full(g.shape, 0.2 * (1 + 1e-9)), **more)


def _wave() -> Population:
    """Risk that goes up and down around the target as more is answered."""
    g = uniform(2, 0.0)
    return Population(g, 0.2 + 0.1 * np.sin(2 * math.pi * 7 * g))


def _trap() -> Population:
    """The confident are safe, and the cheap stage is worst where the dear one is sure."""
    g = uniform(2, 0.0)
    small = np.where(g[0] > 0.7, 0.02 + 0.5 * (g[1] > 0.6), 0.5)
    return Population(g, np.stack([small, np.where(g[1] > 0.5, 0.1, 0.35)]))


def _cliff() -> Population:
    """Just safe enough down to the middle, then nearly all wrong."""
    g = uniform(2, 0.8)
    return Population(g, np.where(g > 0.5, 0.19, 0.9))


def _groups() -> Population:
    """One group in five is wrong more often."""
    g = uniform(2, 0.5)
    group = (np.arange(ATOMS) % 5 == 0).astype(int)
    return Population(g, np.stack([0.5 * (1 - g[0]), 0.25 * (1 - g[1])]) + 0.1 * group, group=group)


class Setting(NamedTuple):
    make: Callable[[], Population]
    n: int = 1000
    options: dict[str, Any] = {}  # noqa: RUF012


_PEOPLE = {"promise": "system", "person": (100.0, 0.05)}
SETTINGS = {
    "two stages, independent": Setting(lambda: _two(0.0)),
    "two stages, dependent": Setting(lambda: _two(0.8)),
    "two stages, one ranking": Setting(lambda: _two(1.0)),
    "three stages, independent": Setting(lambda: _three(0.0)),
    "three stages, dependent": Setting(lambda: _three(0.8)),
    "8 levels of ties": Setting(lambda: _two(0.8, levels=8)),
    "2 levels of ties": Setting(lambda: _two(0.8, levels=2)),
    "n = 100": Setting(lambda: _two(0.8), n=100),
    "n = 100, risk .2 everywhere": Setting(lambda: _flat(2), n=100),
    "two stages, risk .2 everywhere": Setting(lambda: _flat(2)),
    "three stages, risk .2 everywhere": Setting(lambda: _flat(3)),
    "risk up and down around .2": Setting(_wave),
    "sure and wrong where the next is sure": Setting(_trap),
    "a cliff at half the coverage": Setting(_cliff),
    "clusters of 10": Setting(lambda: _two(0.8)._replace(clusters=10, shared=0.5), n=3000),
    "clusters of 10, risk .2 everywhere": Setting(lambda: _flat(2, clusters=10, shared=0.7), n=3000),
    "losses in [0, 1]": Setting(lambda: _two(0.8)._replace(bounded=True)),
    "losses in [0, 1], risk .2 everywhere": Setting(lambda: _flat(2, bounded=True)),
    "groups": Setting(_groups, n=4000),
    "groups, risk .2 everywhere": Setting(lambda: _flat(2, group=np.arange(ATOMS) % 3), n=2000),
    "with the person's errors": Setting(lambda: _two(0.8), options=_PEOPLE),
    "with the person's errors, risk .2 everywhere": Setting(
        lambda: _flat(2), options={"promise": "system", "person": (100.0, 0.2 * (1 + 1e-9))}
    ),
}


class Held(NamedTuple):
    violated: float
    certified: float
    cascades: float
    coverage: float


@contextmanager
def without_advice() -> Iterator[None]:
    """What would be needed where nothing is certified takes most of the time, and is not looked at here."""
    select = importlib.import_module("abstain.cascades.build")
    advise = select._advise
    select._advise = lambda *_: None
    yield
    select._advise = advise


@without_advice()
def held(setting: Setting, runs: int, risk: float = 0.2) -> Held:
    """How often the true risk is above the promised one."""
    population = setting.make()
    options = {"person": PERSON, **setting.options}
    person = options["person"][1] if options.get("promise") == "system" else None
    found = []
    for run in range(runs):
        rng = np.random.default_rng([run, setting.n])
        stages, more = draw(population, setting.n, rng)
        rule = abstain.cascade(stages, risk=risk, delta=DELTA, rng=rng, **options, **more)
        bad = rule.feasible and true_risk(population, rule, person) > risk
        found.append((bad, rule.feasible, len(rule.stages_in_use) > 1, rule.coverage))
    return Held(*(float(x) for x in np.mean(found, axis=0)))


# real data: language models on MMLU-Pro ---------------------------------------------------------------


class Model(NamedTuple):
    """Of one language model on the 12,032 questions."""

    wrong: np.ndarray
    confidence: np.ndarray
    abstained: np.ndarray


TRIOS = (
    ("gpt-4.1-mini", "gpt-4.1"),
    ("Qwen3-4B", "Qwen3-32B"),
    ("gemma-2-9b-it", "gemini-1.5-pro"),
    ("Qwen3-1.7B", "Qwen3-8B", "Qwen3-235B-A22B-fp8-tput"),
)


def folder() -> Path:
    return Path(os.environ["ABSTAIN_DATA"]) / "llm" / "mmlu_pro"


@cache
def model(name: str) -> Model | None:
    """By the mean token probability; None for a model without it, or with fewer than 30% of answers."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder() / f"{name}.parquet")
    given, right = (table[c].to_pylist() for c in ("extracted_answer", "correct_answer"))
    g = table["logit_perplexity_confidence"].to_numpy(zero_copy_only=False).astype(np.float64)
    answered = np.asarray([a is not None for a in given]) & np.isfinite(g)
    if answered.mean() < 0.3:
        return None
    wrong = np.asarray([a != b for a, b in zip(given, right)])
    return Model(wrong, g, ~answered)


def stages_of(chain: tuple[str, ...], rows: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of `cascade`; costs 1, 10, 30."""
    models = {name: model(name) for name in chain}
    entries = {k: (m.wrong[rows], m.confidence[rows], c) for (k, m), c in zip(models.items(), COSTS) if m}
    return entries, {k: m.abstained[rows] for k, m in models.items() if m}


def on(chain: tuple[str, ...], rows: np.ndarray, thresholds: dict[str, float]) -> tuple[float, float]:
    """Cost and risk of thresholds on some questions, worked out without the library."""
    left, cost, wrong, answered = np.ones(len(rows), bool), 0.0, 0, 0
    for name, price in zip(chain, COSTS):
        m = model(name)
        assert m is not None
        if thresholds[name] == math.inf:
            continue
        cost += price * left.sum()
        taken = left & ~m.abstained[rows] & (m.confidence[rows] >= thresholds[name])
        wrong, answered, left = wrong + m.wrong[rows][taken].sum(), answered + taken.sum(), left & ~taken
    return (cost + PERSON[0] * left.sum()) / len(rows), wrong / max(1, answered)


@without_advice()
def real(chain: tuple[str, ...], risk: float, runs: int, n: int = 3000) -> Held:
    """As `held`, with calibration sets drawn from real questions, which are the population."""
    everything = np.arange(len(model(chain[0]).wrong))  # type: ignore[union-attr]
    found = []
    for run in range(runs):
        rng = np.random.default_rng([run, n])
        rows = rng.choice(everything, n)
        stages, abstained = stages_of(chain, rows)
        rule = abstain.cascade(stages, risk=risk, delta=DELTA, person=PERSON, abstained=abstained, rng=rng)
        bad = rule.thresholds is not None and on(chain, everything, rule.thresholds)[1] > risk
        found.append((bad, rule.feasible, len(rule.stages_in_use) > 1, rule.coverage))
    return Held(*(float(x) for x in np.mean(found, axis=0)))


def pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Drawn at random from all models with token probabilities; the less accurate of the two is the cheap one."""
    known = {p.stem: model(p.stem) for p in sorted(folder().glob("*.parquet"))}
    error = {k: m.wrong[~m.abstained].mean() for k, m in known.items() if m}
    every = [(a, b) for a in error for b in error if error[a] > error[b]]
    return [every[k] for k in np.random.default_rng(seed).choice(len(every), count, replace=False)]


class Worth(NamedTuple):
    chain: tuple[str, ...]
    risk: float
    single: float  # cost of the better single stage, each certified at delta / 2
    cascade: float
    oracle: float  # cost of the best policy of a fine grid whose risk on all questions is at most the target
    asked: int


def certified_alone(chain: tuple[str, ...], rows: np.ndarray, risk: float) -> list[dict[str, float]]:
    """Each stage by itself at delta / 2."""
    found = []
    for name in chain:
        m = model(name)
        assert m is not None
        own = rows[~m.abstained[rows]]
        t = abstain.select_threshold(m.wrong[own], m.confidence[own], risk=risk, delta=DELTA / 2)
        if t.value is not None:
            found.append({**dict.fromkeys(chain, math.inf), name: t.value})
    return found


def worth(
    chain: tuple[str, ...],
    risk: float,
    calibration: np.ndarray,
    test: np.ndarray,
    seed: int,
    best: bool = True,
) -> Worth:
    """Costs on the test questions; everything goes to the person where nothing is certified."""
    alone = certified_alone(chain, calibration, risk)
    single = min([PERSON[0], *(on(chain, test, t)[0] for t in alone)])
    stages, abstained = stages_of(chain, calibration)
    rule = abstain.cascade(stages, risk=risk, delta=DELTA, person=PERSON, abstained=abstained, rng=seed)
    cost = PERSON[0] if rule.thresholds is None else min(PERSON[0], on(chain, test, rule.thresholds)[0])
    return Worth(
        chain, risk, single, cost, oracle(chain, risk) if best else math.nan, len(rule.stages_in_use)
    )


@cache
def oracle(chain: tuple[str, ...], risk: float, cuts: int = 150) -> float:
    """The least cost at that risk, on all questions, counted policy by policy."""
    small, large = (model(name) for name in chain)
    assert small is not None
    assert large is not None
    best = PERSON[0]
    n = len(small.wrong)
    order = [m.confidence[~m.abstained] for m in (small, large)]
    steps = [np.append(np.quantile(g, np.arange(cuts) / cuts, method="lower"), math.inf) for g in order]
    for t in steps[0]:
        taken = ~small.abstained & (small.confidence >= t)
        rest = ~taken
        g = np.where(large.abstained[rest], -math.inf, large.confidence[rest])
        rank = np.argsort(-g)
        wrong = np.append(0, np.cumsum(large.wrong[rest][rank]))
        answered = np.searchsorted(-g[rank], -steps[1], side="right")
        lost, count = small.wrong[taken].sum() + wrong[answered], taken.sum() + answered
        asked = (steps[1] < math.inf) * COSTS[1] * rest.sum() + (t < math.inf) * COSTS[0] * n
        cost = (asked + PERSON[0] * (n - count)) / n
        best = min(best, cost[lost <= risk * count].min(initial=math.inf))
    return float(best)


def worth_of_pairs(
    count: int, risks: tuple[float, ...] = (0.2, 0.3, 0.4), best: bool = True
) -> Iterator[Worth]:
    """Half of the questions for calibration, the cost on the other half."""
    for k, chain in enumerate(pairs(count)):
        order = np.random.default_rng(k).permutation(len(model(chain[0]).wrong))  # type: ignore[union-attr]
        half = len(order) // 2
        for risk in risks:
            yield worth(chain, risk, order[:half], order[half:], k, best)


def worth_of_one(splits: int, chain: tuple[str, ...] = TRIOS[0], risk: float = 0.2) -> list[float]:
    """All questions for calibration: cost over that of the better single stage, over splits inside `cascade`."""
    rows = np.arange(len(model(chain[0]).wrong))  # type: ignore[union-attr]
    found = [worth(chain, risk, rows, rows, seed) for seed in range(splits)]
    return [w.cascade / w.single for w in found]


# real data: CIFAR-10 with people ------------------------------------------------------------------------

NETWORKS = {"small": ("cifar10__wrn10-1__karanchahal", 1.0), "large": ("cifar10__resnet56__akamaster", 8.0)}
PEOPLE = 50.0  # what a person's answer costs


class Images(NamedTuple):
    stages: dict[str, tuple[np.ndarray, np.ndarray, float]]
    human: np.ndarray  # share of the people who named another class, by image


def images() -> Images:
    """Errors and confidences of two networks, and of the people who were shown the same 10,000 images."""
    data = Path(os.environ["ABSTAIN_DATA"])
    stages = {}
    for name, (file, cost) in NETWORKS.items():
        with np.load(data / "logits" / f"{file}.npz") as z:
            logits, labels = z["logits"].astype(np.float64), z["labels"].astype(np.int64)
        stages[name] = (logits.argmax(1) != labels, abstain.scores.max_softmax(logits), cost)
    with np.load(data / "images" / "cifar10h_human_probs.npz") as z:
        people = z[z.files[0]]
    return Images(stages, 1 - people[np.arange(len(labels)), labels])


def show_cifar10(plot: str | None) -> None:
    stages, human = images()
    person = (PEOPLE, human)
    errors = {name: loss.mean() for name, (loss, _, _) in stages.items()} | {"a person": human.mean()}
    prices = [cost for _, _, cost in stages.values()] + [PEOPLE]
    alone = [f"{e:.4f}" for e in errors.values()]
    table({"alone": list(errors), "error": alone, "cost": [f"{c:g}" for c in prices]})
    rows = []
    for promise in ("system", "answered"):
        for risk in (0.01, 0.02, 0.03, 0.04, 0.05, 0.08):
            rule = abstain.cascade(stages, risk=risk, person=person, promise=promise, unit="units")
            told = "none" if not rule.feasible else f"{rule.cost:.2f}"
            shares = [f"{100 * share:.1f}%" if rule.feasible else "-" for share in rule.shares.values()]
            rows.append(
                (promise, f"{risk:g}", told, "-" if rule.risk is None else f"{rule.risk:.4f}", *shares)
            )
    head = (
        "guarantee for",
        "risk",
        "cost",
        "observed risk",
        "small answers",
        "large answers",
        "people answer",
    )
    table({name: list(column) for name, column in zip(head, zip(*rows))})
    curve = abstain.cascades.cost_risk_curve(stages, person=person, promise="system", risks=(0.03, 0.1))
    print(curve)
    if plot:
        curve.plot().figure.savefig(plot, dpi=110)


# what was tried -----------------------------------------------------------------------------------------


def _cubic(plain: Callable[..., Any]) -> Callable[..., Any]:
    return lambda ranks: [*plain(ranks), *(r**3 for r in ranks)]


def tried(count: int) -> None:
    """The same pairs with one choice inside the search changed at a time."""
    search = importlib.import_module("abstain.cascades.search")
    raw = lambda grid: grid.sum_over_counted_answers(grid.data.losses)  # noqa: E731
    changes: dict[str, tuple[Any, str, Any]] = {
        "as it is": (search, "ORDERING_SHARE", 0.2),
        "raw losses instead of smoothed ones": (search.PolicyGrid, "sum_of_expected_losses", raw),
        "cubes of the ranks besides": (search, "_quadratic_features", _cubic(search._quadratic_features)),
        "penalty 100 instead of 0.1": (search, "RIDGE_PENALTY", 100.0),
        "start at z = 5 instead of 8": (search, "START_MARGINS", (5.0, 0.0)),
        "start at z = 20": (search, "START_MARGINS", (20.0, 0.0)),
        "a tenth chooses": (search, "ORDERING_SHARE", 0.1),
        "three tenths choose": (search, "ORDERING_SHARE", 0.3),
        "a cut for 40 samples": (search, "SAMPLES_PER_CUT", 40),
        "45% of delta for cascades, 45% for the last": (search, "DELTA_SHARES", (0.1, 0.45, 0.45)),
        "25% for cascades, 65% for the last": (search, "DELTA_SHARES", (0.1, 0.65, 0.25)),
    }
    rows: list[tuple[str, ...]] = []
    stages, human = images()
    for name, (where, what, value) in changes.items():
        kept = getattr(where, what)
        setattr(where, what, value)
        ratio = np.asarray([w.cascade / w.single for w in worth_of_pairs(count, best=False)])
        cifar10 = np.mean(
            [abstain.cascade(stages, risk=r, person=(PEOPLE, human)).cost for r in (0.02, 0.03, 0.04)]
        )
        setattr(where, what, kept)
        rows.append((name, f"{ratio.mean():.4f}", f"{100 * (ratio > 1.03).mean():.1f}%", f"{cifar10:.2f}"))
    head = ("change", "mean ratio", "above 1.03", "cost of CIFAR-10 at risks .02 to .04")
    table({name: list(column) for name, column in zip(head, zip(*rows))})


# speed ------------------------------------------------------------------------------------------------


def speed(n: int = 10**6, cuts: int = 50, repeats: int = 3) -> float:
    """Three stages on a million samples, in merge sorts of a million floats, which take as long on every processor."""
    rng = np.random.default_rng(0)
    g = rng.random((3, n))
    stages = {
        f"stage {j}": (rng.random(n) < p * (1 - g[j]), g[j], c)
        for j, (p, c) in enumerate(zip((0.6, 0.4, 0.2), COSTS))
    }

    def timed(work: Callable[[], Any]) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    ours, sort = [], []
    for _ in range(repeats):
        sort.append(timed(lambda: np.argsort(g[0], kind="stable")))
        ours.append(timed(lambda: abstain.cascade(stages, risk=0.15, person=PERSON, cuts=cuts)))
        sort.append(timed(lambda: np.argsort(g[0], kind="stable")))
    return min(ours) / min(sort)


# tables -------------------------------------------------------------------------------------------------


def table(columns: dict[str, list[str]]) -> None:
    print("| " + " | ".join(columns) + " |")
    print("|" + " --- |" * len(columns))
    for row in zip(*columns.values()):
        print("| " + " | ".join(row) + " |", flush=True)
    if any(columns.values()):
        print(flush=True)


def show_held(rows: Iterator[tuple[str, Held]]) -> None:
    """A line for each as it is done."""
    table({"setting": [], "violated": [], "certified": [], "by a cascade": [], "coverage": []})
    for name, h in rows:
        shares = " | ".join(f"{100 * x:.2f}%" for x in h[:3])
        print(f"| {name} | {shares} | {h.coverage:.3f} |", flush=True)
    print(flush=True)


def show_worth(found: list[Worth]) -> None:
    ratio = np.asarray([w.cascade / w.single for w in found])
    best = np.asarray([min(1.0, w.oracle / w.single) for w in found])
    risk = np.asarray([w.risk for w in found])
    rows = [*(risk == r for r in np.unique(risk)), risk > 0]
    table(
        {
            "risk": [*(f"{r:g}" for r in np.unique(risk)), "all"],
            "mean ratio": [f"{ratio[k].mean():.3f}" for k in rows],
            "ratio of the best policy": [f"{best[k].mean():.3f}" for k in rows],
            "above 1.03": [f"{100 * (ratio[k] > 1.03).mean():.1f}%" for k in rows],
            "no gain (0.99 or more)": [f"{100 * (ratio[k] >= 0.99).mean():.0f}%" for k in rows],
            "largest": [f"{ratio[k].max():.2f}" for k in rows],
        }
    )
    order = np.argsort(ratio)
    some = [*order[:5], *order[len(order) // 2 - 2 : len(order) // 2 + 3], *order[-5:]]
    table(
        {
            "cheap, expensive": [", ".join(found[k].chain) for k in some],
            "risk": [f"{found[k].risk:g}" for k in some],
            "single": [f"{found[k].single:.2f}" for k in some],
            "cascade": [f"{found[k].cascade:.2f}" for k in some],
            "ratio": [f"{ratio[k]:.3f}" for k in some],
            "best policy": [f"{found[k].oracle:.2f}" for k in some],
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["held", "real", "worth", "cifar10", "tried", "speed"])
    parser.add_argument("--plot")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    if asked.what == "held":
        chosen = {k: s for k, s in SETTINGS.items() if asked.only in k}
        show_held((k, held(s, asked.runs or 2000)) for k, s in chosen.items())
    elif asked.what == "real":
        chains = [(chain, risk) for chain in TRIOS for risk in (0.2, 0.3)]
        show_held((f"{', '.join(c)} at {r:g}", real(c, r, asked.runs or 500)) for c, r in chains)
    elif asked.what == "worth":
        show_worth(list(worth_of_pairs(asked.runs or 50)))
        ratio = worth_of_one(20)
        print(
            f"{' then '.join(TRIOS[0])} at .2, all questions: mean {np.mean(ratio):.3f}, largest {max(ratio):.3f}"
        )
    elif asked.what == "tried":
        tried(asked.runs or 50)
    elif asked.what == "cifar10":
        show_cifar10(asked.plot)
    else:
        print(f"three stages, 50 thresholds each, a million samples: {speed():.1f} merge sorts of a million")


if __name__ == "__main__":
    main()
