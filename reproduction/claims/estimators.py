"""Claims about the estimators on real model outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction.claims.ledger import Claim, Evidence, Finding, share
from reproduction.published import T_TEST_P

_LOSSES = ("01", "ce")
_PAPER_SCORES = (
    "max_softmax",
    "negative_entropy",
    "max_logit",
    "softmax_margin",
    "logit_norm",
    "negative_gini",
)


def _percent(value: float) -> str:
    return f"{100 * value:.0f}%"


def _sele_below(evidence: Evidence) -> Finding:
    below = [v[0] < 0 for loss in _LOSSES for _, n, v in evidence.cells("bias", loss, "sele") if n >= 256]
    return Finding(share(below) > 0.95, f"below in {_percent(share(below))} of models and losses at n >= 256")


def _twice_sele_above(evidence: Evidence) -> Finding:
    above = {
        loss: share([v[0] > 0 for _, n, v in evidence.cells("bias", loss, "2sele") if n >= 256])
        for loss in _LOSSES
    }
    text = ", ".join(f"{name}: {_percent(above[loss])}" for loss, name in (("01", "0/1"), ("ce", "CE")))
    return Finding(above["01"] > 0.95, f"above at n >= 256, {text}")


def _log_lower(evidence: Evidence) -> Finding:
    lower = [v[1] <= v[0] for loss in _LOSSES for *_, v in evidence.cells("mean", loss, "harmonic", "log")]
    return Finding(all(lower), f"in {_percent(share(lower))} of {len(lower)} cases")


def _both_converge(evidence: Evidence) -> Finding:
    shrinks = []
    for loss in _LOSSES:
        for model in evidence.models.values():
            sizes = model["finite"][loss]["sizes"]
            first, last = sizes[min(sizes, key=int)], sizes[max(sizes, key=int)]
            shrinks += [abs(last[e]["bias"]) < abs(first[e]["bias"]) / 4 for e in ("harmonic", "log")]
    return Finding(
        share(shrinks) > 0.95,
        f"bias at most a quarter at the largest n in {_percent(share(shrinks))}",
    )


def _losses_differ(evidence: Evidence) -> Finding:
    ratios = []
    for model in evidence.models.values():
        ce, wrong = (model["finite"][loss]["sizes"]["128"]["harmonic"]["std"] for loss in ("ce", "01"))
        ratios.append(ce / wrong)
    return Finding(
        min(ratios) > 1,
        f"spread under CE over spread under 0/1 at n = 128: {min(ratios):.1f} to {max(ratios):.1f}",
    )


def _falls(evidence: Evidence, quantity: str, estimator: str) -> float:
    flags = []
    for loss in _LOSSES:
        for model in evidence.models.values():
            values = [by[estimator][quantity] for by in model["finite"][loss]["sizes"].values()]
            flags.append(bool(np.all(np.diff(values) < 0)))
    return share(flags)


def _mae_falls(evidence: Evidence) -> Finding:
    plug_in = min(_falls(evidence, "mae", e) for e in ("harmonic", "log"))
    sele = _falls(evidence, "mae", "sele")
    return Finding(
        plug_in > 0.95 and sele < plug_in,
        f"MAE falls at every doubling of n: plug-in {_percent(plug_in)}, SELE {_percent(sele)} of models and losses",
    )


def _mse_falls(evidence: Evidence) -> Finding:
    gains: dict[str, list[float]] = {"harmonic": [], "log": [], "sele": []}
    for loss in _LOSSES:
        for model in evidence.models.values():
            sizes = model["finite"][loss]["sizes"]
            low, high = sizes["128"], sizes[max(sizes, key=int)]
            for name, values in gains.items():
                values.append(low[name]["mse"] / high[name]["mse"])
    middle = {name: float(np.median(v)) for name, v in gains.items()}
    return Finding(
        middle["harmonic"] > 3 and middle["sele"] < middle["harmonic"] / 2,
        f"MSE at n = 128 over that at the largest n (median): harmonic {middle['harmonic']:.1f}, "
        f"SELE {middle['sele']:.1f}",
    )


def _better_than_sele(evidence: Evidence) -> Finding:
    better = {}
    for n in (8, 128, 1024):
        cells = [
            v
            for loss in _LOSSES
            for _, size, v in evidence.cells("mae", loss, "harmonic", "sele")
            if size == n
        ]
        better[n] = share([v[0] < v[1] for v in cells])
    text = ", ".join(f"n = {n}: {_percent(v)}" for n, v in better.items() if not np.isnan(v))
    return Finding(
        all(v > 0.5 for v in better.values()), f"harmonic has the lower MAE in {text} of models and losses"
    )


def _loo_better(evidence: Evidence) -> Finding:
    cells = [v for loss in _LOSSES for _, n, v in evidence.cells("bias", loss, "harmonic", "loo") if n == 8]
    ratios = [abs(v[0]) / max(abs(v[1]), 1e-12) for v in cells]
    return Finding(
        float(np.median(ratios)) > 3,
        f"n = 8: harmonic's bias is {np.median(ratios):.0f} times leave-one-out's (median)",
    )


def _with_scores(evidence: Evidence) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for model in evidence.of("amazon2023", "imagenet5k").values():
        for score in _PAPER_SCORES:
            if score in model["scores"]:
                found += [(loss, model["scores"][score][loss]) for loss in _LOSSES]
    return found


def _scores_bias(evidence: Evidence) -> Finding:
    flags = []
    for _, cell in _with_scores(evidence):
        bias = {e: abs(v["bias"]) for e, v in cell["estimators"].items()}
        flags.append(max(bias["harmonic"], bias["log"]) < min(bias["sele"], bias["2sele"]))
    return Finding(
        share(flags) > 0.95, f"in {_percent(share(flags))} of {len(flags)} models, scores and losses"
    )


def _scores_sele_low(evidence: Evidence) -> Finding:
    ratios = [cell["estimators"]["sele"]["mean"] / cell["population"] for _, cell in _with_scores(evidence)]
    return Finding(max(ratios) < 0.9, f"SELE over population value: {min(ratios):.2f} to {max(ratios):.2f}")


def _scores_twice_sele(evidence: Evidence) -> Finding:
    above: dict[str, list[bool]] = {loss: [] for loss in _LOSSES}
    for loss, cell in _with_scores(evidence):
        above[loss].append(cell["estimators"]["2sele"]["bias"] > 0)
    rates = {loss: share(v) for loss, v in above.items()}
    everything = share([f for v in above.values() for f in v])
    return Finding(
        0.5 < everything < 1,
        f"2 SELE above the population value: 0/1 {_percent(rates['01'])}, CE {_percent(rates['ce'])}",
    )


def _loss_matters_more(evidence: Evidence) -> Finding:
    by_score, by_loss = [], []
    for model in evidence.of("amazon2023", "imagenet5k").values():
        values = {
            loss: [model["score_aurc"][s][loss] for s in _PAPER_SCORES if s in model["score_aurc"]]
            for loss in _LOSSES
        }
        by_score += [max(v) / min(v) for v in values.values()]
        by_loss.append(np.mean(values["ce"]) / np.mean(values["01"]))
    return Finding(
        min(by_loss) > float(np.median(by_score)),
        f"scores change AURC by a factor {np.median(by_score):.2f} (median), the loss by {np.median(by_loss):.2f}",
    )


def _identical(evidence: Evidence) -> Finding:
    parts, good = [], True
    for loss, name in (("01", "0/1"), ("ce", "CE")):
        t = evidence.study["equivalence"][loss]
        good = good and t["largest_relative"] < 0.01
        parts.append(
            f"{name}: largest difference {t['largest_difference']:.1e} ({100 * t['largest_relative']:.2f}%)"
        )
    return Finding(good, "; ".join(parts))


def _t_test(evidence: Evidence) -> Finding:
    p = {loss: evidence.study["equivalence"][loss]["unpaired_p"] for loss in _LOSSES}
    text = ", ".join(f"{n} {p[k]:.4f} (paper {T_TEST_P[k]})" for k, n in (("01", "0/1"), ("ce", "CE")))
    return Finding(
        min(p.values()) > 0.95,
        f"unpaired p: {text}, over {evidence.study['equivalence']['01']['models']} models",
    )


CLAIMS = (
    Claim("sele-below", "4, Fig. amazon", "SELE underestimates the population AURC as n grows.", _sele_below),
    Claim("twice-sele-above", "4, Fig. amazon", "2 SELE overestimates it (0/1 loss).", _twice_sele_above),
    Claim("log-lower", "4", "The log plug-in is a lower bound of the harmonic one.", _log_lower),
    Claim("both-converge", "4", "Both plug-ins converge to the population value as n grows.", _both_converge),
    Claim("losses-differ", "4", "CE loss gives another magnitude of variance than 0/1.", _losses_differ),
    Claim(
        "mae-falls",
        "4, Fig. cifar10absbias01loss",
        "The plug-ins' MAE falls consistently with n, SELE's does not always.",
        _mae_falls,
    ),
    Claim(
        "mse-falls",
        "4, Fig. mseimagenet",
        "The plug-ins' MSE declines with n, SELE's does not converge.",
        _mse_falls,
    ),
    Claim("better-than-sele", "5", "Both plug-ins perform better than SELE, at every n.", _better_than_sele),
    Claim(
        "scores-bias",
        "4, Fig. csfamazon_compare",
        "Both plug-ins have lower bias than SELE and 2 SELE under every score.",
        _scores_bias,
    ),
    Claim(
        "scores-sele-low",
        "4",
        "SELE is substantially below the population value under every score.",
        _scores_sele_low,
    ),
    Claim("scores-2sele", "4", "2 SELE is more likely to overestimate, but not always.", _scores_twice_sele),
    Claim(
        "loss-matters", "4", "The loss changes the estimates more than the score does.", _loss_matters_more
    ),
    Claim("forms-equal", "A.5, Fig. aurc_p", "AURC_a and AURC_p agree on test sets (to 1%).", _identical),
    Claim("forms-t-test", "A.5", "A two-sided t-test does not tell AURC_a from AURC_p.", _t_test),
    Claim("loo", "not in the paper", "Ours: leave-one-out removes most of the bias at small n.", _loo_better),
)
