"""Claims about fine-tuning (the paper's table)."""

from __future__ import annotations

from collections.abc import Callable

from abstain.paper.claims.ledger import Claim, Finding
from abstain.paper.evidence import Evidence
from abstain.paper.finetuned import BEFORE, NAMES, best
from abstain.paper.published import TABLE

_MISSING = Finding(None, "no finished runs")


def _improves(model: str, objective: str, quantity: str) -> Callable[[Evidence], Finding]:
    """Does tuning with an objective lower the test AURC beside CE? The interval must be below zero to agree."""

    def check(evidence: Evidence) -> Finding:
        row, base = evidence.tuned(model, objective), evidence.tuned(model, "ce")
        if row is None or base is None or quantity not in row.against_ce:
            return _MISSING
        gap = row.against_ce[quantity]
        scale = 1000 if quantity == "aurc_01" else 100
        relative = 100 * gap.mean / base.mean[quantity]
        printed = TABLE["cifar10"][model]
        paper = 100 * (printed[objective].mean / printed["ce"].mean - 1)
        text = (
            f"{scale * base.mean[quantity]:.3f} to {scale * row.mean[quantity]:.3f} ({relative:+.1f}%; difference "
            f"[{scale * gap.low:+.3f}, {scale * gap.high:+.3f}], {gap.seeds} seeds); paper {paper:+.1f}%"
        )
        return Finding(gap.high < 0 if gap.seeds > 1 else gap.mean < 0, text)

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


def _best_objective(model: str) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
        rows = [r for r in evidence.table() if (r.dataset, r.model) == ("cifar10", model)]
        if len(rows) < 2:
            return _MISSING
        tops = {q: best(rows, "cifar10", model, q) for q in ("aurc_01", "aurc_ce")}
        text = (
            f"0/1: {NAMES[tops['aurc_01'].objective]} ({1000 * tops['aurc_01'].mean['aurc_01']:.3f}e-3), "
            f"CE: {NAMES[tops['aurc_ce'].objective]} ({100 * tops['aurc_ce'].mean['aurc_ce']:.3f}e-2)"
        )
        return Finding(all(t.objective in ("harmonic", "log", "sele") for t in tops.values()), text)

    return check


def _beside_start(model: str) -> Callable[[Evidence], Finding]:
    """Is the gain a gain over the network that all runs started from, or only over CE tuning?"""

    def check(evidence: Evidence) -> Finding:
        rows = [evidence.tuned(model, name) for name in (BEFORE, "ce", "harmonic")]
        if any(row is None for row in rows):
            return _MISSING
        start, ce, own = (row.mean for row in rows if row is not None)
        parts = [
            f"{name}: CE {100 * (ce[q] / start[q] - 1):+.1f}%, harmonic {100 * (own[q] / start[q] - 1):+.1f}%"
            for q, name in (("aurc_01", "0/1"), ("aurc_ce", "CE"))
        ]
        return Finding(all(own[q] < start[q] for q in ("aurc_01", "aurc_ce")), "; ".join(parts))

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
        Claim(
            f"best-{model}",
            "Table finetune",
            f"{_TITLE[model]}: one of the paper's objectives is the best of all we tried.",
            _best_objective(model),
        ),
    )
)
