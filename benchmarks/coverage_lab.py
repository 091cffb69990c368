"""Do intervals hold the truth, how wide are they beside the true sampling range? All metrics of one sample at once.

    python benchmarks/coverage_lab.py --runs 2000

A scratch version of the simulation: samples become one table, every interval is made by the one home.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from abstain.core import stretch as st
from abstain.core.rows import Rows
from abstain.inference import limits as home
from abstain.inference import points

SMOOTH = (
    "aurc",
    "augrc",
    "risk",
    "oracle_aurc",
    "e_aurc",
    "naurc",
    "auroc",
    "prediction_rejection_ratio",
    "aupr_error",
    "aupr_success",
)


def table(l, g, w=None):
    order = np.argsort(-g, kind="stable")
    l, g = l[order].astype(float), g[order]
    w = None if w is None else w[order]
    starts = np.flatnonzero(np.r_[True, g[1:] != g[:-1]])
    tot = (lambda x: np.add.reduceat(x, starts)) if len(starts) < len(l) else (lambda x: x)
    zo = bool(np.all((l == 0) | (l == 1)))
    if w is None:
        m = tot(np.ones(len(l)))
        L = tot(l)
        if zo:
            sq, fo = [m, L, L], [m, L, L, L, L]
        else:
            p = [tot(l**j) for j in range(5)]
            sq, fo = p[:3], p
    else:
        m, L = tot(w), tot(w * l)
        if zo:
            a, b, c, d = tot(w**2), tot(w**2 * l), tot(w**4), tot(w**4 * l)
            sq, fo = [a, b, b], [c, d, d, d, d]
        else:
            sq, fo = [tot(w**2 * l**j) for j in range(3)], [tot(w**4 * l**j) for j in range(5)]
    N = np.cumsum(m)
    return st.Table(Rows(m, L, N, np.cumsum(L), N[-1:], np, False), sq, fo), zo


def all_intervals(l, g, w=None, level=0.95, coverages=(), risks=(), tprs=(), metrics=SMOOTH, oracle=None):
    t, zo = table(l, g, w)
    r = t.rows
    W, S = float(r.N[-1]), float(r.S[-1])
    n = len(l)
    unit = w is None
    areas = {"area": st.area_stretch(t), "sele": st.area_stretch(t, "sele")}
    if zo and 0 < S < W:
        areas |= {
            "half": st.half_stretch(t),
            "aupr_error": st.precision_stretch(t, S, True),
            "aupr_success": st.precision_stretch(t, S, False),
        }
    val = {k: v.terms / W for k, v in areas.items()}
    w2, w2l = float(t.squares[0].sum()), float(t.squares[1].sum())
    if not unit and zo:
        import array_api_compat.numpy as xp
        from abstain.core.oracle import oracle_area

        oracle = float(oracle_area(xp, l.astype(float), w))
    total = st.Totals(W, S, None, oracle, unit)
    pairs = min(S * S / w2l if w2l else 0, (W - S) ** 2 / (w2 - w2l) if w2 > w2l else 0) if zo else 1
    samp = home.Sample(n, n, W * W / w2, zo, False, S / W, max(pairs, 1e-9))
    out = {}
    for m in metrics:
        if m in ("auroc", "aupr_error", "aupr_success") and not 0 < S < W:
            continue
        if not zo and m not in ("aurc", "augrc", "risk"):
            continue
        line = st.metric_line(m, val, total, "harmonic", "empirical")
        if line.area not in areas:
            line = line._replace(area="area")
        sums = st.combined([areas[line.area]], line)
        centre = areas["area"].loo / W if m == "aurc" and unit else None
        out[m] = home.interval_of(m, home.spread_of(line.estimate, sums, n, centre), samp, level)
    cum = points.Readings(
        r.m,
        r.N,
        r.S,
        np.stack([np.cumsum(x) for x in t.squares]),
        np.stack([np.cumsum(x) for x in t.fourths]),
    )
    whole = points.Whole(W, w2, float(t.fourths[0].sum()), n, zo)
    for c in coverages:
        pos = points.positions(np.asarray([c]), W, w2, n)
        found = points.read(cum, r.N, pos)
        low, high, _ = points.risk_limits(found, np.asarray([c]), whole, level)
        out["risk_at_coverage", c] = home.Interval(
            "risk_at_coverage",
            float(found.S[0, 0] / found.N[0, 0]),
            0,
            float(low[0]),
            float(high[0]),
            level,
            "x",
            n,
        )
    if risks:
        cs = points.coverages(1.0)
        found = points.read(cum, r.N, points.positions(cs, W, w2, n))
    for q in risks:
        low, high = points.coverage_limits(found, cs, whole, q, level)
        est = float(np.max(np.where(q >= r.S / r.N, r.N, 0))) / W
        out["coverage_at_risk", q] = home.Interval(
            "coverage_at_risk", est, 0, min(low, est), max(high, est), level, "x", n
        )
    for tpr in tprs:
        if 0 < S < W:
            pos = points.positions(np.asarray([tpr]), W - S, w2 - w2l, n)
            f = points.read(cum, r.N - r.S, pos)
            low, high = points.fpr_limits(f, tpr, whole, (S, w2l, float(t.fourths[1].sum())), level)
            out["fpr_at_tpr", tpr] = home.Interval(
                "fpr_at_tpr", float(f.S[0, 0] / S), 0, low, high, level, "x", n
            )
    return out


# truth ------------------------------------------------------------------------------------------------------

PROFILES = {
    ".3(1-b)": (lambda b: 0.3 * (1 - b), lambda c: 0.15 * c**2),
    ".6(1-b)^2": (lambda b: 0.6 * (1 - b) ** 2, lambda c: 0.2 * c**3),
    ".5(1-b)^9": (lambda b: 0.5 * (1 - b) ** 9, lambda c: 0.05 * c**10),
    "top1": (lambda b: 0.10 * (1 - b) + (b > 0.99) * 0.5, None),
    "top2": (lambda b: 0.12 * (1 - b) + (b > 0.98) * 0.4, None),
    "top3": (lambda b: 0.3 * (1 - b) ** 2 + (b > 0.97) * 0.3, None),
}


def truth(name, levels, coverages=(), risks=(), tprs=(), M=400_000):
    """Population values by a fine grid of ranks, the most confident first."""
    p = PROFILES[name][0]
    b = 1 - (np.arange(M) + 0.5) / M
    f = p(b) / M
    m = np.full(M, 1 / M)
    if levels:
        k = M // levels
        f, m = f.reshape(levels, k).sum(1), m.reshape(levels, k).sum(1)
    N, S = np.cumsum(m), np.cumsum(f)
    R = S[-1]
    out = {"aurc": np.sum(m * S / N), "augrc": np.sum(m * S), "risk": R}
    out["oracle_aurc"] = best = R + (1 - R) * math.log1p(-R)
    out["e_aurc"] = out["aurc"] - best
    out["naurc"] = out["e_aurc"] / (R - best)
    right = m - f
    out["auroc"] = np.sum(right * (R - S + f / 2)) / (R * (1 - R))
    out["prediction_rejection_ratio"] = 2 * out["auroc"] - 1
    out["aupr_success"] = np.sum(right * (N - S) / N) / (1 - R)
    seen, got = 1 - N + m, R - S + f
    out["aupr_error"] = np.sum(f * got / seen) / R
    for c in coverages:
        i = np.searchsorted(N, c - 1e-9)
        out["risk_at_coverage", c] = S[i] / N[i]
    for r in risks:
        ok = r >= S / N
        out["coverage_at_risk", r] = float(np.max(np.where(ok, N, 0)))
    for t in tprs:
        i = np.searchsorted((N - S) / (1 - R), t - 1e-9)
        out["fpr_at_tpr", t] = S[i] / R
    return out


def draw(name, n, levels, rng):
    b = rng.random(n)
    l = rng.random(n) < PROFILES[name][0](b)
    return l, b if not levels else np.floor(b * levels) / levels


def run(
    name,
    n,
    levels,
    runs,
    seed=0,
    weights=None,
    coverages=(0.5, 0.8),
    risks=(0.05, 0.1),
    tprs=(0.95,),
    metrics=SMOOTH,
):
    rng = np.random.default_rng([seed, n, levels or 0, *name.encode()])
    true = truth(name, levels, coverages, risks, tprs)
    hits, width, est, below, above, count = {}, {}, {}, {}, {}, {}
    for _ in range(runs):
        l, g = draw(name, n, levels, rng)
        w = None if weights is None else weights(rng, n)
        for k, i in all_intervals(
            l, g, w, coverages=coverages, risks=risks, tprs=tprs, metrics=metrics
        ).items():
            t = true[k]
            below[k] = below.get(k, 0) + (i.high < t - 1e-12)
            above[k] = above.get(k, 0) + (i.low > t + 1e-12)
            count[k] = count.get(k, 0) + 1
            width.setdefault(k, []).append(min(i.high, 10) - i.low)
            est.setdefault(k, []).append(i.estimate)
    out = {}
    for k in count:
        lo, hi = np.quantile(est[k], [0.025, 0.975])
        out[k] = (
            1 - (below[k] + above[k]) / count[k],
            below[k] / count[k],
            above[k] / count[k],
            np.mean(width[k]) / max(hi - lo, 1e-12),
        )
    return out


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--runs", type=int, default=1000)
    ap.add_argument("--n", type=int, nargs="*", default=[200, 1000])
    ap.add_argument("--profiles", nargs="*", default=list(PROFILES)[:3])
    ap.add_argument("--levels", type=int, nargs="*", default=[0, 20])
    ap.add_argument("--weights", default=None)
    a = ap.parse_args()
    weights = {
        None: None,
        "uniform": lambda r, n: r.random(n),
        "lognormal": lambda r, n: r.lognormal(0, 1, n),
    }[a.weights]
    for name in a.profiles:
        for levels in a.levels:
            for n in a.n:
                found = run(name, n, levels, a.runs, weights=weights)
                print(
                    f"## {name} n={n} levels={levels} errors={n * truth(name, None)['risk']:.0f}", flush=True
                )
                for k, (c, b, ab, wd) in found.items():
                    flag = "<<" if c < 0.925 else (">>" if c > 0.975 else "")
                    flag += " WIDE" if wd > 1.25 else ""
                    print(
                        f"  {k!s:<32}{100 * c:6.1f}  missed high {100 * b:4.1f} low {100 * ab:4.1f}  width {wd:.2f} {flag}",
                        flush=True,
                    )
