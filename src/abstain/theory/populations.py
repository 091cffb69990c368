r"""Populations whose AURC is known exactly: beta uniform, expected loss a sum of powers of 1 - beta."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abstain.errors import InputError


@dataclass(frozen=True)
class Population:
    r"""0/1 losses with :math:`P(l=1 \mid \beta) = \sum_j c_j (1-\beta)^{p_j}`, confidence = beta ~ U(0, 1).

    Each term adds :math:`c/(p+1)` to the risk, :math:`c/(p+1)^2` to AURC and :math:`c/((p+1)(p+2))` to AUGRC.

    >>> quadratic = power(0.6, 2)
    >>> round(quadratic.risk, 6), round(quadratic.aurc, 6), round(quadratic.augrc, 6)
    (0.2, 0.066667, 0.05)
    """

    terms: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if any(c < 0 or p < 0 for c, p in self.terms) or sum(c for c, _ in self.terms) > 1:
            raise InputError(
                f"Population: terms c (1-beta)^p need c >= 0, p >= 0 and coefficients that add up to at "
                f"most 1 "
                f"(they are chances of an error), got {self.terms}."
            )

    def __call__(self, beta: np.ndarray) -> np.ndarray:
        """Chance of an error given beta."""
        return self.given_above(1 - np.asarray(beta, dtype=np.float64))

    def given_above(self, above: np.ndarray) -> np.ndarray:
        """Chance of an error given 1 - beta, for values of beta too near 1 to be told from it."""
        above = np.asarray(above, dtype=np.float64)
        return np.asarray(sum(c * above**p for c, p in self.terms) + np.zeros_like(above))

    @property
    def risk(self) -> float:
        """Mean loss."""
        return sum(c / (p + 1) for c, p in self.terms)

    @property
    def aurc(self) -> float:
        """Population AURC (confidence without ties)."""
        return sum(c / (p + 1) ** 2 for c, p in self.terms)

    @property
    def augrc(self) -> float:
        """Population AUGRC (confidence without ties)."""
        return sum(c / ((p + 1) * (p + 2)) for c, p in self.terms)

    @property
    def oracle_aurc(self) -> float:
        """AURC of the best ordering: R + (1-R) ln(1-R)."""
        return self.risk + (1 - self.risk) * float(np.log1p(-self.risk)) if self.risk < 1 else 1.0

    def selective_risk(self, coverage: np.ndarray) -> np.ndarray:
        """Risk of the most confident share `coverage` in (0, 1]."""
        coverage = np.asarray(coverage, dtype=np.float64)
        return np.asarray(sum(c / (p + 1) * coverage**p for c, p in self.terms) + np.zeros_like(coverage))

    def aurc_at_levels(self, levels: int) -> float:
        """Population AURC when the confidence is rounded to `levels` equally likely values: thresholds at
        those."""
        return float(np.mean(self.selective_risk(np.arange(1, levels + 1) / levels)))

    def sample(
        self,
        shape: int | tuple[int, ...],
        /,
        *,
        rng: int | np.random.Generator,
        levels: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Losses (0/1) and confidences, of this shape; `levels` rounds the confidence to that many values."""
        generator = np.random.default_rng(rng)
        beta = generator.random(shape)
        loss = (generator.random(shape) < self(beta)).astype(np.float64)
        return loss, beta if levels is None else np.floor(beta * levels) / levels

    def __repr__(self) -> str:
        text = " + ".join(f"{c:g}" if p == 0 else f"{c:g}(1-b)^{p:g}" for c, p in self.terms)
        return f"Population({text}: risk {self.risk:.4g}, AURC {self.aurc:.4g}, AUGRC {self.augrc:.4g})"


def power(coefficient: float, exponent: float) -> Population:
    """The population with error chance `coefficient * (1-beta)^exponent`."""
    return Population(((coefficient, exponent),))


# from a useful classifier to a useless one; "floor" errs at the very top, where AURC's weights are largest
NAMED = {
    "quadratic": power(0.6, 2),
    "root": power(0.3, 0.5),
    "unrelated": power(0.2, 0),
    "floor": Population(((0.05, 0), (0.5, 3))),
    "steep": power(0.5, 9),
}


@dataclass(frozen=True)
class SeleCounterexample:
    """Samples on which twice SELE is below the empirical AURC, so that it is no upper bound."""

    loss: np.ndarray
    confidence: np.ndarray
    aurc: float
    twice_sele: float


def sele_counterexample(n: int = 5) -> SeleCounterexample:
    """Only the most confident of n samples is wrong: its weight is H_n, and 2 SELE gives it 2 (so n >= 4 will
    do).

    >>> example = sele_counterexample()
    >>> round(5 * example.aurc, 4), round(5 * example.twice_sele, 4)
    (2.2833, 2.0)
    """
    from abstain.core.weights import rank_weights

    if int(n) != n or n < 4:
        raise InputError(f"sele_counterexample: needs at least 4 samples (H_3 < 2 < H_4), got n = {n!r}.")
    loss = np.zeros(n)
    loss[-1] = 1.0
    confidence = np.arange(1, n + 1) / (n + 1)
    values = [float(np.mean(rank_weights(n, name) * loss)) for name in ("harmonic", "2sele")]
    return SeleCounterexample(loss, confidence, *values)
