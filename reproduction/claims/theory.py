"""Claims about weights, their bias and error, and rates."""

from __future__ import annotations

import numpy as np

import abstain
from abstain import theory
from reproduction.claims.ledger import Claim, Evidence, Finding


def _mean_weights(_: Evidence) -> Finding:
    gaps = [abs(float(np.mean(abstain.metrics.rank_weights(n))) - 1) for n in (1, 5, 128, 10_000)]
    log = [float(np.mean(abstain.metrics.rank_weights(n, estimator="log"))) for n in (8, 128, 10_000)]
    good = max(gaps) < 1e-12 and all(v < 1 for v in log) and log == sorted(log)
    return Finding(
        good, f"harmonic: off by at most {max(gaps):.0e}; log: {', '.join(f'{v:.4f}' for v in log)}"
    )


def _log_below_harmonic(_: Evidence) -> Finding:
    gaps = [
        np.min(abstain.metrics.rank_weights(n) - abstain.metrics.rank_weights(n, estimator="log"))
        for n in (1, 2, 8, 128, 1024)
    ]
    return Finding(min(gaps) > 0, f"smallest harmonic minus log weight {min(gaps):.2g}")


def _bias_signs(evidence: Evidence) -> Finding:
    rows = evidence.weight_rows()
    names = ("harmonic", "log", "sele")
    good = all(r["bias_at_0"][e] > 0 > r["bias_near_1"][e] for r in rows for e in names)
    first = rows[0]
    text = f"n = {first['n']}, harmonic: {first['bias_at_0']['harmonic']:+.3f} at beta = 0, "
    return Finding(good, text + f"{first['bias_near_1']['harmonic']:+.2f} at beta = 0.9995")


def _bias_shrinks(evidence: Evidence) -> Finding:
    rows = evidence.weight_rows()
    sizes = {e: [r["mean_absolute_bias"][e] for r in rows] for e in ("harmonic", "log")}
    good = all(v == sorted(v, reverse=True) for v in sizes.values())
    h = sizes["harmonic"]
    return Finding(good, f"mean absolute bias of harmonic {h[0]:.3f} (n = 8) to {h[-1]:.5f} (n = 1024)")


def _sele_most_biased(evidence: Evidence) -> Finding:
    rows = [r["mean_absolute_bias"] for r in evidence.weight_rows()]
    good = all(r["sele"] > max(r["harmonic"], r["log"], r["loo"]) for r in rows)
    last = rows[-1]
    return Finding(
        good, f"n = 1024: SELE {last['sele']:.3f}, log {last['log']:.4f}, harmonic {last['harmonic']:.4f}"
    )


def _weight_mse(_: Evidence) -> Finding:
    rng = np.random.default_rng(1)
    n, draws = 32, 40_000
    beta = np.sort(rng.random((draws, n)), axis=-1)
    measured = np.mean((abstain.metrics.rank_weights(n) + np.log1p(-beta)) ** 2, axis=0)
    ratio = measured / theory.weight_mse(np.arange(1, n + 1), n)
    return Finding(
        bool(np.all(np.abs(ratio - 1) < 0.1)),
        f"simulated over exact MSE at n = 32: {ratio.min():.3f} to {ratio.max():.3f}",
    )


def _mse_order(_: Evidence) -> Finding:
    ratios = []
    for n in (8, 128, 1024, 8192):
        rank = np.arange(1, n + 1)
        ratios.append(
            np.asarray(theory.weight_mse(rank, n)) / np.asarray(theory.mse_order(rank / (n + 1), n))
        )
    low, high = min(r.min() for r in ratios), max(r.max() for r in ratios)
    return Finding(low > 0.2 and high < 5, f"MSE over beta/(n(1-beta)+1): between {low:.2f} and {high:.2f}")


def _average_mse(evidence: Evidence) -> Finding:
    rows = evidence.weight_rows()
    exact = max(abs(r["mean_mse"]["harmonic"] / r["harmonic_over_n"] - 1) for r in rows)
    ratios = [r["mean_mse"]["harmonic"] / r["ln_over_n"] for r in rows]
    good = exact < 1e-6 and max(ratios) < 2 and min(ratios) > 0.5
    return Finding(
        good, f"exactly H_n/n; over (ln n)/n: {ratios[0]:.2f} (n = 8) to {ratios[-1]:.2f} (n = 1024)"
    )


def _log_mse_larger(evidence: Evidence) -> Finding:
    rows = [r["mean_mse"] for r in evidence.weight_rows()]
    return Finding(
        all(r["log"] > r["harmonic"] for r in rows),
        f"n = 8: {rows[0]['log']:.4f} against {rows[0]['harmonic']:.4f}; n = 1024: {rows[-1]['log']:.5f} "
        f"against {rows[-1]['harmonic']:.5f}",
    )


def _rate(evidence: Evidence) -> Finding:
    slopes = [p["slope"][e] for p in evidence.study["convergence"].values() for e in ("harmonic", "log")]
    text = f"slope of log error against log n: {min(slopes):.3f} to {max(slopes):.3f}; n^(-1/2), without the logarithm"
    return Finding(max(slopes) < -0.45, text)


def _sele_converges_elsewhere(evidence: Evidence) -> Finding:
    slopes = [p["slope"]["sele"] for p in evidence.study["convergence"].values()]
    return Finding(
        max(map(abs, slopes)) < 0.1, f"slope of its error {min(slopes):.3f} to {max(slopes):.3f}: it stays"
    )


def _counterexample(_: Evidence) -> Finding:
    example = theory.sele_counterexample(5)
    return Finding(
        example.aurc > example.twice_sele, f"n = 5: {5 * example.aurc:.4f}/5 > {5 * example.twice_sele:.0f}/5"
    )


def _monte_carlo(_: Evidence) -> Finding:
    rng = np.random.default_rng(7)
    drawn = -np.log1p(-np.sort(rng.random((20_000, 16)), axis=-1)).mean(0)
    gap = float(np.max(np.abs(drawn / abstain.metrics.rank_weights(16) - 1)))
    return Finding(gap < 0.05, f"largest relative difference at n = 16 after 20,000 draws: {gap:.3f}")


CLAIMS = (
    Claim(
        "mean-weight",
        "3.4, 3.5",
        "The harmonic weights average to exactly 1, the log weights to less than 1, approaching it.",
        _mean_weights,
    ),
    Claim("log-below", "3.5", "The log weights are below the harmonic ones (Jensen).", _log_below_harmonic),
    Claim(
        "monte-carlo",
        "3.5",
        "Averaging -ln(1-beta) over sorted uniforms gives the harmonic weights.",
        _monte_carlo,
    ),
    Claim(
        "bias-signs",
        "Fig. bias_alpha",
        "Weight bias is positive for small beta, negative for large beta.",
        _bias_signs,
    ),
    Claim("bias-shrinks", "Fig. bias_alpha", "The bias shrinks as n grows.", _bias_shrinks),
    Claim("sele-bias", "3.6", "SELE's weight has the largest bias.", _sele_most_biased),
    Claim(
        "weight-mse",
        "Prop. msehatalpha",
        "MSE of the harmonic weight is psi'(n+1-r) - psi'(n+1).",
        _weight_mse,
    ),
    Claim("mse-order", "Prop. msehatalpha", "That MSE is of order beta/(n(1-beta)+1).", _mse_order),
    Claim("average-mse", "Prop. msehatalphasum", "The average MSE over ranks is O(ln(n)/n).", _average_mse),
    Claim("log-mse", "3.6", "The log weight's MSE is larger than the harmonic one's.", _log_mse_larger),
    Claim(
        "rate",
        "Prop. convergehatalpha",
        "Plug-in estimators converge at least as fast as sqrt(ln(n)/n).",
        _rate,
    ),
    Claim("sele-rate", "4", "SELE does not converge to AURC.", _sele_converges_elsewhere),
    Claim("counterexample", "A.2", "2 SELE is no upper bound of the empirical AURC.", _counterexample),
)
