"""Claims about fine-tuning (the paper's table)."""

from __future__ import annotations

from collections.abc import Callable

from reproduction.claims.ledger import Claim, Evidence, Finding
from reproduction.published import TABLE
from reproduction.table import BEFORE, NAMES, Network, best, gap_to_start, network_name, seed_gap

_MISSING = Finding(None, "no finished runs")


def _decided(low: float, high: float) -> bool | None:
    """Below zero: it lowers. Above: it does not. Zero inside: these runs cannot tell."""
    return True if high < 0 else False if low > 0 else None


def _improves(network: Network, objective: str, quantity: str) -> Callable[[Evidence], Finding]:
    """Does tuning with an objective lower the test AURC beside CE?

    Judged by the interval over seeds where there are three or more, else by the interval over test samples.
    """

    def check(evidence: Evidence) -> Finding:
        row, base = evidence.tuned(network, objective), evidence.tuned(network, "ce")
        if row is None or base is None or quantity not in row.against_ce:
            return _MISSING
        gap = row.against_ce[quantity]
        over, (low, high) = "seeds", (gap.low, gap.high)
        if gap.seeds < 3 and quantity in row.on_test:
            over, (low, high) = "test samples", row.on_test[quantity]
        scale = 1000 if quantity == "aurc_01" else 100
        printed = TABLE[network[0]][network[1]]
        paper = 100 * (printed[objective].mean / printed["ce"].mean - 1)
        text = (
            f"{scale * base.mean[quantity]:.3f} to {scale * row.mean[quantity]:.3f} "
            f"({100 * gap.mean / base.mean[quantity]:+.1f}%; difference [{scale * low:+.3f}, {scale * high:+.3f}] over "
            f"{over}, {gap.seeds} seeds); paper {paper:+.1f}%"
        )
        return Finding(_decided(low, high), text)

    return check


def _accuracy_kept(network: Network) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
        row, base = evidence.tuned(network, "harmonic"), evidence.tuned(network, "ce")
        if row is None or base is None or "accuracy" not in row.against_ce:
            return _MISSING
        gap = row.against_ce["accuracy"]
        text = f"{100 * base.mean['accuracy']:.2f}% to {100 * row.mean['accuracy']:.2f}%"
        return Finding(gap.mean > -0.003, f"{text} [{100 * gap.low:+.2f}, {100 * gap.high:+.2f}]")

    return check


def _best_objective(network: Network, quantity: str) -> Callable[[Evidence], Finding]:
    """Is one of the paper's objectives the best? If another leads, its lead over the paper's best must be clear."""

    def check(evidence: Evidence) -> Finding:
        rows = [r for r in evidence.table() if (r.dataset, r.model) == network]
        theirs = [r for r in rows if r.objective in ("harmonic", "log", "sele")]
        if not theirs:
            return _MISSING
        top, own = best(rows, network, quantity), best(theirs, network, quantity)
        scale = 1000 if quantity == "aurc_01" else 100
        text = f"best: {NAMES[top.objective]} {scale * top.mean[quantity]:.3f}"
        if top.objective == own.objective:
            return Finding(True, text)
        gap = seed_gap(evidence.runs, network, top.objective, own.objective, quantity)
        if gap is None:
            return _MISSING
        ends = f"[{scale * gap.low:+.3f}, {scale * gap.high:+.3f}]"
        text += f", {scale * gap.mean:+.3f} {ends} beside {NAMES[own.objective]}"
        return Finding(False if gap.high < 0 else None, text)

    return check


def _beside_start(network: Network) -> Callable[[Evidence], Finding]:
    """Is the gain a gain over the network each run started from, or only over CE tuning? By the interval over seeds."""

    def check(evidence: Evidence) -> Finding:
        start = evidence.tuned(network, BEFORE)
        parts, verdicts = [], []
        for quantity, name in (("aurc_01", "0/1"), ("aurc_ce", "CE")):
            ce, own = (gap_to_start(evidence.runs, network, o, quantity) for o in ("ce", "harmonic"))
            if start is None or ce is None or own is None:
                return _MISSING
            scale = 100 / start.mean[quantity]
            ends = f"[{scale * own.low:+.1f}, {scale * own.high:+.1f}]"
            parts.append(f"{name}: CE {scale * ce.mean:+.1f}%, harmonic {scale * own.mean:+.1f}% {ends}")
            verdicts.append(_decided(own.low, own.high))
        decided = False if False in verdicts else None if None in verdicts else True
        return Finding(decided, "; ".join(parts))

    return check


_NETWORKS: tuple[Network, ...] = tuple(
    (dataset, model) for dataset in ("cifar10", "cifar100") for model in ("resnet18", "vgg16_bn")
)
_WORDS = {"aurc_01": "0/1 AURC (1e-3)", "aurc_ce": "CE AURC (1e-2)"}


def _key(network: Network) -> str:
    return "-".join(part for part in network if part != "cifar10")


CLAIMS = tuple(
    Claim(
        f"tune-{_key(network)}-{objective}-{quantity}",
        "Table finetune",
        f"{network_name(network)}: tuning with {NAMES[objective]} lowers the test {_WORDS[quantity]} beside CE.",
        _improves(network, objective, quantity),
    )
    for network in _NETWORKS
    for objective in ("harmonic", "log", "sele")
    for quantity in _WORDS
) + tuple(
    claim
    for network in _NETWORKS
    for claim in (
        Claim(
            f"start-{_key(network)}",
            "not in the paper",
            f"{network_name(network)}: harmonic tuning lowers both AURCs beside the pre-trained network, too.",
            _beside_start(network),
        ),
        Claim(
            f"accuracy-{_key(network)}",
            "Table finetune",
            f"{network_name(network)}: accuracy is kept (within 0.3 points).",
            _accuracy_kept(network),
        ),
        *(
            Claim(
                f"best-{_key(network)}-{quantity}",
                "Table finetune",
                f"{network_name(network)}: of all we tried one of the paper's objectives gives the lowest "
                f"{_WORDS[quantity]}.",
                _best_objective(network, quantity),
            )
            for quantity in _WORDS
            if network[0] == "cifar10"  # on CIFAR-100 only the paper's objectives were run
        ),
    )
)
