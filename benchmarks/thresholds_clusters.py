"""Promises for whole clusters: how often one is certified, how often wrongly, and at which coverage.

    python benchmarks/thresholds_clusters.py --runs 200

Patients of twenty images each; confidences and losses depend within a patient (latent correlations 0.3 and `rho`).
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import ndtr

import abstain

SETTINGS = {  # error rate given the confidence's quantile b; how the losses of one patient depend
    ".3(1-b)^4": (lambda b: 0.3 * (1 - b) ** 4, 0.3),
    ".3(1-b)^2": (lambda b: 0.3 * (1 - b) ** 2, 0.3),
    "6%, wrong together": (lambda b: np.full_like(b, 0.06), 0.95),
}


def patients(rng, count, wrong, rho):
    who = np.repeat(np.arange(count), 20)
    own, alone = rng.normal(size=(2, count)), rng.normal(size=(2, len(who)))
    b = ndtr(np.sqrt(0.3) * own[0][who] + np.sqrt(0.7) * alone[0])
    return ndtr(np.sqrt(rho) * own[1][who] + np.sqrt(1 - rho) * alone[1]) < wrong(b), b, who


def best(wrong, risk):
    """The largest coverage whose true risk is within the promise."""
    b = 1 - (np.arange(100_000) + 0.5) / 100_000
    within = np.flatnonzero(np.cumsum(wrong(b)) <= risk * np.arange(1, 100_001))
    return (within[-1] + 1) / 100_000 if len(within) else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    print("| error rate | patients | taken as | certified | wrongly | coverage then | best coverage |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, (wrong, rho) in SETTINGS.items():
        limit = best(wrong, 0.05)
        for count in (60, 200, 300, 500):
            for clustered in (False, True):
                rng, found = np.random.default_rng(count), []
                for _ in range(runs):
                    l, b, who = patients(rng, count, wrong, rho)
                    t = abstain.select_threshold(l, b, risk=0.05, clusters=who if clustered else None)
                    found += [1 - max(t.value, 0.0)] if t.feasible else []
                wrongly = np.mean([c > limit for c in found] + [False] * (runs - len(found)))
                cells = [name, count, "clusters" if clustered else "samples", f"{len(found) / runs:.0%}",
                         f"{wrongly:.1%}", f"{np.mean(found):.2f}" if found else "", f"{limit:.2f}"]  # fmt: skip
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
