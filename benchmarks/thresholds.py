"""Does the promise hold, and what does it cost? 5,000 simulated calibrations per setting, and the speed at 1e7.

    python benchmarks/thresholds.py                # the whole table (some minutes)
    python benchmarks/thresholds.py --sims 500     # a quick look
    python benchmarks/thresholds.py --speed        # select_threshold against one aurc, n = 1e7

Many calibrations are computed at once from the library's own plan, p-values and walk; in every setting some of them
are repeated through `abstain.select_threshold` and must agree to the sample.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from rich.progress import track

import abstain
from abstain.thresholds import testing
from abstain.thresholds.testing import least_p_value, plan, walk

DELTA = 0.05
RISKS = (0.01, 0.05, 0.10)
SIZES = (100, 300, 1000, 3000, 10000)
LEVELS = 20  # distinct confidences when scores are heavily tied
METHODS = ("ltt", "sgr", "crc", "empirical")


# risk profiles: expected loss at the top share c of the confidences ------------------------------------------------


def _confident_errors(c):
    """A few very confident errors: the risk falls, then rises."""
    return np.where(c < 0.02, 0.3, 0.01 + 0.08 * c)


PROFILES = {
    ".3(1-b)": lambda c: 0.3 * c,
    ".03+.3(1-b)^2": lambda c: 0.03 + 0.3 * c**2,
    "confident errors": _confident_errors,
    "flat, .0501": lambda c: np.full_like(c, 0.0501),  # at r* = 5% every threshold breaks the promise, barely
}
_FINE = np.linspace(0, 1, 200001)


class Profile(NamedTuple):
    name: str
    grid_risk: np.ndarray  # risk of the top share c, on a fine grid of c

    @classmethod
    def of(cls, name):
        eta = PROFILES[name](_FINE)
        area = np.concatenate([[0.0], np.cumsum((eta[1:] + eta[:-1]) / 2) * (_FINE[1] - _FINE[0])])
        return cls(name, np.concatenate([[eta[0]], area[1:] / _FINE[1:]]))

    def risk(self, coverage):
        return np.interp(coverage, _FINE, self.grid_risk)

    def best(self, target, tied):
        at = np.arange(1, LEVELS + 1) / LEVELS if tied else _FINE[1:]
        good = at[self.risk(at) <= target + 1e-12]
        return float(good.max()) if len(good) else 0.0


# many calibrations at once -----------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Rows are calibrations, most confident first. `share` is the population share above each sample."""

    share: np.ndarray
    loss: np.ndarray
    cum: np.ndarray
    level: np.ndarray | None
    above: np.ndarray | None  # samples strictly above each level

    @property
    def n(self):
        return self.loss.shape[1]

    def cut(self, ranks):
        """Samples accepted and the population's coverage when all above the (rank + 1)-th are accepted."""
        line = np.arange(len(self.loss))[:, None]
        inside = np.minimum(ranks, self.n - 1)
        if self.level is None:
            count, coverage = np.broadcast_to(ranks, (len(line), ranks.shape[-1])), self.share[line, inside]
        else:
            at = self.level[line, inside]
            count, coverage = self.above[line, at], at / LEVELS
        whole = ranks >= self.n
        return np.where(whole, self.n, count), np.where(whole, 1.0, coverage)

    def sums(self, count):
        line = np.arange(len(self.loss))[:, None]
        return np.where(count > 0, self.cum[line, np.maximum(count, 1) - 1], 0)


def simulate(profile, bounded, tied, n, sims, rng):
    gaps = rng.standard_exponential((sims, n + 1))
    np.cumsum(gaps, axis=1, out=gaps)
    share = gaps[:, :-1] / gaps[:, -1:]  # sorted uniforms: 0 is the most confident
    eta = PROFILES[profile](share)
    loss = rng.beta(2 * eta, 2 * (1 - eta)) if bounded else rng.random((sims, n)) < eta
    cum = np.cumsum(loss, axis=1, dtype=np.float64 if bounded else np.int32)
    if not tied:
        return Batch(share, loss, cum, None, None)
    level = np.minimum((share * LEVELS).astype(np.int64), LEVELS - 1)  # 0 is the most confident
    counts = np.stack([np.bincount(row, minlength=LEVELS) for row in level])
    above = np.cumsum(counts, axis=1) - counts
    return Batch(share, loss, cum, level, above)


class Bets(NamedTuple):
    """Log wealth of every stake after every sample, per calibration: (sims, n + 1, stakes)."""

    logs: np.ndarray
    stakes: np.ndarray


def bets(batch, risk):
    """Nothing for a 0/1 loss."""
    if batch.loss.dtype == bool:
        return None
    stakes = testing.doubling_stakes(batch.n, risk)
    logs = np.zeros(
        (len(batch.loss), batch.n + 1, len(stakes)), dtype=np.float32 if batch.n > 10**5 else np.float64
    )
    gain = risk - batch.loss
    for j, stake in enumerate(stakes):
        np.cumsum(np.log1p(stake * gain), axis=1, out=logs[:, 1:, j])
    return Bets(logs, stakes)


def p_values(batch, count, risk, made):
    sums = batch.sums(count)
    if made is None:
        return testing.binomial(sums, count, risk)
    at = made.logs[np.arange(len(count))[:, None], count]
    bet = testing.wealth_p(at, count, risk, made.stakes)
    return np.minimum(1.0, 2 * np.minimum(testing.hoeffding_bentkus(sums, count, risk), bet))


def largest(count, coverage, passed):
    """Accepted samples and population coverage of the largest that passed; 0 and 0 where none did."""
    best = np.argmax(np.where(passed & (count > 0), count, -1), axis=1)[:, None]
    some = (passed & (count > 0)).any(axis=1)
    take = [np.take_along_axis(x, best, axis=1)[:, 0] for x in (count, coverage)]
    return tuple(np.where(some, x, 0) for x in take)


def ltt(batch, risk, made):
    ranks, weights = plan(batch.n, risk, DELTA)
    if not len(ranks):
        return np.zeros(len(batch.loss), int), np.zeros(len(batch.loss))
    count, coverage = batch.cut(ranks)
    return largest(
        count, coverage, walk(p_values(batch, count, risk, made), weights, least_p_value(count, risk)).passed
    )


def sgr(batch, risk, made):
    steps = max(1, math.ceil(math.log2(batch.n)))
    low, high = np.zeros(len(batch.loss), int), np.full(len(batch.loss), batch.n)
    seen = []
    for _ in range(steps):
        middle = (low + high + 1) // 2
        count, coverage = batch.cut(middle[:, None])
        passed = p_values(batch, count, risk, made)[:, 0] <= DELTA / steps
        seen.append((count[:, 0], coverage[:, 0], passed))
        low, high = np.where(passed, middle, low), np.where(passed, high, np.maximum(low, middle - 1))
    return largest(*(np.stack(x, axis=1) for x in zip(*seen)))


def _last(batch, good):
    """Largest whole block where `good` holds; the deployed threshold is its smallest confidence."""
    n = batch.n
    if batch.level is not None:
        ends = np.ones_like(good)
        ends[:, :-1] = batch.level[:, 1:] != batch.level[:, :-1]
        good = good & ends
    place = n - 1 - np.argmax(good[:, ::-1], axis=1)
    some = good.any(axis=1)
    line = np.arange(len(good))
    coverage = batch.share[line, place] if batch.level is None else (batch.level[line, place] + 1) / LEVELS
    return np.where(some, place + 1, 0), np.where(some, coverage, 0.0)


def empirical(batch, risk, made):
    k = np.arange(1, batch.n + 1)
    return _last(batch, batch.cum <= risk * k * (1 + 1e-12))


def crc(batch, risk, made):
    return _last(batch, (batch.cum + 1) / (batch.n + 1) <= risk)


RUN = {"ltt": ltt, "sgr": sgr, "crc": crc, "empirical": empirical}


# the table ---------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    profile: str
    loss: str
    scores: str
    n: int
    risk: float
    best: float
    method: str
    violations: float
    share: float  # mean coverage / best possible
    none: float  # how often "no threshold" is the answer
    error: float  # simulation error of `share`
    per_sample: float  # mean of the accepted loss per sample of all: what crc controls


def _agrees(batch, risk, method, count, how_many):
    """The same answer through the public function, to the sample."""
    for i in range(how_many):
        g = -batch.share[i] if batch.level is None else -batch.level[i].astype(float)
        t = abstain.select_threshold(batch.loss[i], g, risk=risk, delta=DELTA, method=method)
        accepted = int(t.accepts(g).sum())
        if accepted != count[i]:
            raise SystemExit(
                f"batch and library disagree: {method} n={batch.n} r={risk}: {count[i]} and {accepted}"
            )


def settings() -> Iterator[tuple[str, bool, bool, int]]:
    for n in SIZES:
        for name in PROFILES:
            for bounded in (False, True):
                for tied in (False, True):
                    yield name, bounded, tied, n


def study(sims, seed=0, sizes=SIZES, check=3):
    rng = np.random.default_rng(seed)
    rows = []
    todo = [s for s in settings() if s[3] in sizes]
    for name, bounded, tied, n in track(todo, description="calibrations"):
        profile = Profile.of(name)
        step = max(1, min(sims, (1_000_000 if bounded else 4_000_000) // n))
        found = {(r, m): [] for r in RISKS for m in METHODS}
        for start in range(0, sims, step):
            batch = simulate(name, bounded, tied, n, min(step, sims - start), rng)
            for r in RISKS:
                made = bets(batch, r)
                for m in METHODS:
                    count, coverage = RUN[m](batch, r, made)
                    if start == 0:
                        _agrees(batch, r, m, count, check)
                    found[r, m].append(coverage)
        for (r, m), parts in found.items():
            rows.append(_row(profile, bounded, tied, n, r, m, np.concatenate(parts)))
    return rows


def _row(profile, bounded, tied, n, r, method, coverage):
    true = np.where(coverage > 0, profile.risk(coverage), 0.0)
    best = profile.best(r, tied)
    return Row(
        profile.name, "bounded" if bounded else "0/1", "tied" if tied else "continuous", n, r, best, method,
        float((true > r + 1e-9).mean()), float(coverage.mean() / best) if best else math.nan,
        float((coverage == 0).mean()), float(coverage.std() / best / len(coverage) ** 0.5) if best else math.nan,
        float((true * coverage).mean()),
    )  # fmt: skip


def report(rows, sims):
    margin = 3 * math.sqrt(DELTA * (1 - DELTA) / sims)
    worst = {m: max(r.violations for r in rows if r.method == m) for m in METHODS}
    print(f"\n{sims} calibrations per setting, delta = {DELTA}, simulation error (3 sigma) {margin:.4f}")
    print("worst violation rate:", ", ".join(f"{m} {v:.4f}" for m, v in worst.items()))
    excess = max(r.per_sample - r.risk for r in rows if r.method == "crc")
    print(f"crc: mean accepted loss per sample minus target, worst: {excess:+.5f}")
    by = {(r.profile, r.loss, r.scores, r.n, r.risk, r.method): r for r in rows}
    named = (".3(1-b)", ".03+.3(1-b)^2")
    hard = [
        r.share for r in rows if r.method == "ltt" and r.n == 10000 and r.risk >= 0.05 and r.profile in named
    ]
    if hard:
        print(f"ltt, n = 10,000, r* >= 5%, both profiles, least share of the best possible: {min(hard):.3f}")
    against = [(r, by[(*r[:5], "sgr")]) for r in rows if r.method == "ltt" and r.best]
    behind = [(a, b) for a, b in against if a.share < 0.98 * b.share - 3 * math.hypot(a.error, b.error)]
    ratio = min(a.share / b.share for a, b in against if b.share > 0.01)
    print(
        f"ltt behind 0.98 sgr in {len(behind)} of {len(against)} settings; least ratio where sgr > 0.01: {ratio:.3f}"
    )
    print("\n| profile | loss | scores | n | r* | best | ltt | sgr | crc | empirical |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for r in rows:
        if r.method != "ltt":
            continue
        cells = [by[(*r[:5], m)] for m in METHODS]
        shown = [
            f"{c.share:.3f} ({c.violations:.3f})" if r.best else f"- ({c.violations:.3f})" for c in cells
        ]
        print(
            f"| {r.profile} | {r.loss} | {r.scores} | {r.n} | {r.risk:.0%} | {r.best:.3f} | {' | '.join(shown)} |"
        )
    return worst, margin, behind, hard


def speed(n=10**7):
    rng = np.random.default_rng(0)
    g = rng.random(n, dtype=np.float32)
    wrong = rng.random(n, dtype=np.float32) < 0.3 * (1 - g)
    soft = (wrong * rng.random(n)).astype(np.float32)
    for name, loss, conf in (
        ("0/1, float32", wrong, g),
        ("0/1, float64", wrong, g.astype(np.float64)),
        ("bounded", soft, g),
    ):
        pairs = []
        for _ in range(5):
            a = time.perf_counter()
            abstain.aurc(loss, conf)
            b = time.perf_counter()
            abstain.select_threshold(loss, conf, risk=0.05)
            pairs.append((b - a, time.perf_counter() - b))
        one, two = (sorted(x)[len(x) // 2] for x in zip(*pairs))
        print(
            f"n = {n:.0e}, {name:<13} aurc {one:.2f} s, select_threshold {two:.2f} s, ratio {two / one:.2f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sims", type=int, default=5000)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    if options.speed:
        speed()
    else:
        report(study(options.sims, sizes=options.sizes), options.sims)
