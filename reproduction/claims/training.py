"""Claims about fine-tuning (the paper's table)."""

from __future__ import annotations

from collections.abc import Callable

from reproduction.claims.ledger import Claim, Evidence, Finding
from reproduction.published import TABLE
from reproduction.table import BEFORE, NAMES, best, gap_to_start, seed_gap

_MISSING = Finding(None, "no finished runs")


def _decided(low: float, high: float) -> bool | None:
    """Below zero: it lowers. Above: it does not. Zero inside: these runs cannot tell."""
    return True if high < 0 else False if low > 0 else None


def _improves(model: str, objective: str, quantity: str) -> Callable[[Evidence], Finding]:
    """Does tuning with an objective lower the test AURC beside CE?

    Judged by the interval over seeds where there are three or more, else by the interval over test samples.
    """

    def check(evidence: Evidence) -> Finding:
        row, base = evidence.tuned(model, objective), evidence.tuned(model, "ce")
        if row is None or base is None or quantity not in row.against_ce:
            return _MISSING
        gap = row.against_ce[quantity]
        over, (low, high) = "seeds", (gap.low, gap.high)
        if gap.seeds < 3 and quantity in row.on_test:
            over, (low, high) = "test samples", row.on_test[quantity]
        scale = 1000 if quantity == "aurc_01" else 100
        printed = TABLE["cifar10"][model]
        paper = 100 * (printed[objective].mean / printed["ce"].mean - 1)
        text = (
            f"{scale * base.mean[quantity]:.3f} to {scale * row.mean[quantity]:.3f} "
            f"({100 * gap.mean / base.mean[quantity]:+.1f}%; difference [{scale * low:+.3f}, {scale * high:+.3f}] over "
            f"{over}, {gap.seeds} seeds); paper {paper:+.1f}%"
        )
        return Finding(_decided(low, high), text)

    return check


def _accuracy_kept(model: str) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
        row, base = evidence.tuned(model, "harmonic"), evidence.tuned(model, "ce")
        if row is None or base is None or "accuracy" not in row.against_ce:
            return _MISSING
        gap = row.against_ce["accuracy"]
        text = f"{100 * base.mean['accuracy']:.2f}% to {100 * row.mean['accuracy']:.2f}%"
        return Finding(gap.mean > -0.003, f"{text} [{100 * gap.low:+.2f}, {100 * gap.high:+.2f}]")

    return check


def _best_objective(model: str, quantity: str) -> Callable[[Evidence], Finding]:
    """Is one of the paper's objectives the best? If another leads, its lead over the paper's best must be clear."""

    def check(evidence: Evidence) -> Finding:
        rows = [r for r in evidence.table() if (r.dataset, r.model) == ("cifar10", model)]
        theirs = [r for r in rows if r.objective in ("harmonic", "log", "sele")]
        if not theirs:
            return _MISSING
        top, own = best(rows, "cifar10", model, quantity), best(theirs, "cifar10", model, quantity)
        scale = 1000 if quantity == "aurc_01" else 100
        text = f"best: {NAMES[top.objective]} {scale * top.mean[quantity]:.3f}"
        if top.objective == own.objective:
            return Finding(True, text)
        gap = seed_gap(evidence.runs, model, top.objective, own.objective, quantity)
        if gap is None:
            return _MISSING
        ends = f"[{scale * gap.low:+.3f}, {scale * gap.high:+.3f}]"
        text += f", {scale * gap.mean:+.3f} {ends} beside {NAMES[own.objective]}"
        return Finding(False if gap.high < 0 else None, text)

    return check


def _beside_start(model: str) -> Callable[[Evidence], Finding]:
    """Is the gain a gain over the network each run started from, or only over CE tuning? By the interval over seeds."""

    def check(evidence: Evidence) -> Finding:
        start = evidence.tuned(model, BEFORE)
        parts, verdicts = [], []
        for quantity, name in (("aurc_01", "0/1"), ("aurc_ce", "CE")):
            ce, own = (gap_to_start(evidence.runs, model, o, quantity) for o in ("ce", "harmonic"))
            if start is None or ce is None or own is None:
                return _MISSING
            scale = 100 / start.mean[quantity]
            ends = f"[{scale * own.low:+.1f}, {scale * own.high:+.1f}]"
            parts.append(f"{name}: CE {scale * ce.mean:+.1f}%, harmonic {scale * own.mean:+.1f}% {ends}")
            verdicts.append(_decided(own.low, own.high))
        decided = False if False in verdicts else None if None in verdicts else True
        return Finding(decided, "; ".join(parts))

    return check


_TITLE = {"resnet18": "ResNet-18", "vgg16_bn": "VGG16-BN"}
_WORDS = {"aurc_01": "0/1 AURC (1e-3)", "aurc_ce": "CE AURC (1e-2)"}

CLAIMS = tuple(
    Claim(
        f"tune-{model}-{objective}-{quantity}",
        "Table finetune",
        f"{_TITLE[model]}: tuning with {NAMES[objective]} lowers the test {_WORDS[quantity]} beside CE.",
        _improves(model, objective, quantity),
    )
    for model in _TITLE
    for objective in ("harmonic", "log", "sele")
    for quantity in _WORDS
) + tuple(
    claim
    for model in _TITLE
    for claim in (
        Claim(
            f"start-{model}",
            "not in the paper",
            f"{_TITLE[model]}: harmonic tuning lowers both AURCs beside the pre-trained network, not only beside CE.",
            _beside_start(model),
        ),
        Claim(
            f"accuracy-{model}",
            "Table finetune",
            f"{_TITLE[model]}: accuracy is kept (within 0.3 points).",
            _accuracy_kept(model),
        ),
        *(
            Claim(
                f"best-{model}-{quantity}",
                "Table finetune",
                f"{_TITLE[model]}: one of the paper's objectives gives the lowest {_WORDS[quantity]} of all we tried.",
                _best_objective(model, quantity),
            )
            for quantity in _WORDS
        ),
    )
)
