"""Slips in the paper or its published code that could mislead a reader, each confirmed by a number."""

from __future__ import annotations

import numpy as np

import abstain
from abstain import theory
from reproduction.claims.ledger import Claim, Evidence, Finding, share
from reproduction.published import TABLE


def _score_pair(evidence: Evidence, published: str, meant: str) -> Finding:
    ratios = [
        m["score_aurc"][published]["01"] / m["score_aurc"][meant]["01"]
        for m in evidence.models.values()
        if published in m["score_aurc"] and meant in m["score_aurc"]
    ]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return Finding(
        max(abs(r - 1) for r in ratios) > 0.05, f"0/1 AURC, published reading over the other: {spread}"
    )


def _entropy(evidence: Evidence) -> Finding:
    return _score_pair(evidence, "clamped_logit_entropy", "negative_entropy")


def _norm(evidence: Evidence) -> Finding:
    return _score_pair(evidence, "probability_norm", "logit_norm")


def _squared_bias(evidence: Evidence) -> Finding:
    ratios = []
    for loss in ("01", "ce"):
        pairs = zip(
            evidence.cells("mse", loss, "harmonic"), evidence.cells("bias", loss, "harmonic"), strict=True
        )
        ratios += [mse[0] / bias[0] ** 2 for (_, n, mse), (*_, bias) in pairs if n == 128 and bias[0]]
    return Finding(
        min(ratios) > 2,
        f"true MSE over squared bias at n = 128: {min(ratios):.0f} to {max(ratios):.0f} times",
    )


def _frozen_weights(_: Evidence) -> Finding:
    got = float(np.mean(abstain.metrics.rank_weights(128)[:16]))
    return Finding(
        got < 0.1, f"a last batch of 16 under weights made for 128 counts {100 * got:.0f}% of its loss"
    )


def _off_by_one(_: Evidence) -> Finding:
    loss, confidence = np.array([0, 1, 0, 0, 1.0]), np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    theirs, right = abstain.compat.geifman_aurc(loss, confidence), abstain.aurc(loss, confidence)
    return Finding(abs(theirs - right) > 1e-3, f"five points: {theirs:.5f} instead of {right:.5f}")


def _units(evidence: Evidence) -> Finding:
    """Which loss and unit each half of the table can be, by the values that real networks have."""
    spans = {}
    for dataset in ("cifar10", "cifar100"):
        good = [
            m
            for name, m in evidence.models.items()
            if name.startswith(f"{dataset}__") and m["accuracy"] > _GOOD[dataset]
        ]
        if not good:
            return Finding(None, "needs the CIFAR models of the data folder")
        for loss in ("01", "ce"):
            values = [m["finite"][loss]["population"] for m in good]
            spans[dataset, loss] = (min(values), max(values))
    ten = [c["ce"].mean for c in TABLE["cifar10"].values()]
    hundred = [c["ce"].mean for c in TABLE["cifar100"].values()]
    fits = {key: _within(ten if key[0] == "cifar10" else hundred, span) for key, span in spans.items()}
    text = ", ".join(
        f"{d} {'0/1' if k == '01' else 'CE'} {low:.4f}-{high:.4f}" for (d, k), (low, high) in spans.items()
    )
    return Finding(
        fits["cifar10", "ce"]
        and not fits["cifar10", "01"]
        and fits["cifar100", "01"]
        and not fits["cifar100", "ce"],
        text,
    )


_GOOD = {"cifar10": 0.9, "cifar100": 0.65}


def _within(printed: list[float], span: tuple[float, float]) -> bool:
    """Do the printed values, in 1e-2, overlap what networks have?"""
    return min(printed) / 100 < span[1] * 1.5 and max(printed) / 100 > span[0] / 1.5


def _repeated_row(_: Evidence) -> Finding:
    row = TABLE["cifar100"]["wideresnet28_10"]
    same = row["log"] == row["sele"] and row["harmonic"].std == row["ce"].std
    return Finding(
        same,
        f"log and SELE both {row['log'].mean} ± {row['log'].std}; harmonic and CE both ± {row['ce'].std}",
    )


def _paired_sees(evidence: Evidence) -> Finding:
    tests = [evidence.study["equivalence"][loss] for loss in ("01", "ce")]
    text = ", ".join(
        f"p = {t['paired_p']:.2g}, AURC_p above in {100 * t['share_p_above_a']:.0f}%" for t in tests
    )
    return Finding(all(t["paired_p"] < 0.05 for t in tests), f"paired (0/1, CE): {text}")


def _counterexample_factor(_: Evidence) -> Finding:
    e = theory.sele_counterexample(5)
    printed = float(np.sum(abstain.metrics.rank_weights(5) * e.loss))
    return Finding(
        abs(printed - 5 * e.aurc) < 1e-12 and e.aurc > e.twice_sele,
        f"printed {printed:.4f} is 5 times the estimate {e.aurc:.4f}; the inequality stands",
    )


def _log_lower_mse(evidence: Evidence) -> Finding:
    flags = [v[1] < v[0] for loss in ("01", "ce") for *_, v in evidence.cells("mse", loss, "harmonic", "log")]
    return Finding(
        share(flags) > 0.9, f"the log plug-in has the lower MSE in {100 * share(flags):.0f}% of cases"
    )


CLAIMS = tuple(
    Claim(key, where, statement, check, slip=True)
    for key, where, statement, check in (
        (
            "slip-entropy",
            "Table csfs, code",
            "Negative entropy is written on logits and computed on clamped logits; it is meant on probabilities.",
            _entropy,
        ),
        (
            "slip-norm",
            "code",
            "The code takes the l2 norm of probabilities where the table has logits.",
            _norm,
        ),
        (
            "slip-mse",
            "Figs. mse*, code",
            "The MSE figures plot (mean - truth)^2, the squared bias.",
            _squared_bias,
        ),
        ("slip-batch", "code", "The loss modules keep the weights of one batch size.", _frozen_weights),
        ("slip-geifman", "code", "The reference AURC divides by a count that is off by one.", _off_by_one),
        (
            "slip-units",
            "Table finetune",
            "One unit and loss for both halves cannot be: CIFAR-10 reads as CE in 1e-2, CIFAR-100 as 0/1 in 1e-2.",
            _units,
        ),
        (
            "slip-row",
            "Table finetune",
            "The CIFAR-100 WideResNet row repeats SELE's value and CE's spread.",
            _repeated_row,
        ),
        (
            "slip-t-test",
            "A.5",
            "The unpaired t-test cannot see a small systematic difference; a paired one does.",
            _paired_sees,
        ),
        (
            "slip-counterexample",
            "A.2",
            "The SELE counterexample leaves out the factor 1/n on both sides.",
            _counterexample_factor,
        ),
        (
            "slip-mse-text",
            "4",
            '"A higher MSE than that of alpha-hat" must read alpha-hat-prime, which has the lower MSE in practice.',
            _log_lower_mse,
        ),
    )
)
