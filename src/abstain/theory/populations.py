r"""Risk profiles, and populations whose AURC is known: an estimator's bias there, and the variance AURC tends to.

A profile is the expected loss given the population rank percentile beta. Everything is done in q = 1 - beta (the share
of samples surer than this one), because all the weights are decided near q = 0; panels halve towards 0, so that
logarithms there integrate to rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from abstain import _tables
from abstain._arrays import Array, to_host
from abstain._check import check_choice
from abstain.core.area_estimators import ESTIMATORS, Estimator, area, rank_weights
from abstain.core.influence import AREA_OF, metric_line
from abstain.core.rows import Blocks
from abstain.core.stretch import combined, stacked, stretch_of, table_of_blocks
from abstain.errors import InputError
from abstain.metrics._sample import prepare
from abstain.theory.weights import bias_given, check_size

METRICS = ("aurc", "augrc", "risk")
_ESTIMATOR_OF = {"aurc": "harmonic", "augrc": "sele"}
_POINTS = 16
_STEPS = 400  # a pilot sample is summarised by at most about this many steps


@dataclass(frozen=True)
class Profile:
    """Expected loss as a function of q = 1 - beta, with the places where it jumps; `pilot` is where it came from."""

    at: Callable[[np.ndarray], np.ndarray]
    jumps: tuple[float, ...] = ()
    source: str = "an assumed profile, 0/1 loss"
    pilot: Blocks | None = field(default=None, repr=False)


def as_profile(name: str, curve: Any) -> Profile:
    """A profile from a number, a named population, a function of beta, a risk-coverage curve or a pilot sample."""
    if isinstance(curve, str):
        if curve not in NAMED:
            raise InputError(f"{name}: unknown population {curve!r}, the named ones are {', '.join(NAMED)}.")
        curve = NAMED[curve]
    if isinstance(curve, Population):
        return Profile(curve.given_above, source=f"{curve!r}")
    if isinstance(curve, (int, float)):
        return as_profile(name, Population(((float(curve), 0.0),)))
    if hasattr(curve, "generalised_risk") and hasattr(curve, "coverage"):
        return _from_steps(np.asarray(curve.coverage), np.asarray(curve.generalised_risk), None)
    if callable(curve):
        return Profile(functools.partial(_checked, name, curve))
    if isinstance(curve, tuple) and len(curve) == 2:
        return _from_pilot(name, *curve)
    raise InputError(
        f"{name}: `curve` must be a function of beta, a number, a Population or its name, a RiskCoverageCurve, "
        f"or a pilot sample (loss, confidence), got {type(curve).__name__}."
    )


def _checked(name: str, curve: Callable[[np.ndarray], Any], above: np.ndarray) -> np.ndarray:
    value = np.broadcast_to(np.asarray(curve(1 - above), dtype=np.float64), above.shape)
    if not np.all((value >= 0) & (value <= 1)):
        raise InputError(
            f"{name}: an assumed profile is the chance of an error given beta and must lie in [0, 1], got "
            f"{value.min():g} to {value.max():g}. For other losses give a pilot sample (loss, confidence)."
        )
    return value


def _from_pilot(name: str, loss: Array, confidence: Array) -> Profile:
    pilot = prepare(name, to_host(loss), to_host(confidence), vector=True)
    blocks = Blocks.from_samples(pilot.loss, pilot.confidence)
    rows = blocks.rows()
    return _from_steps(rows.accepted_mass / rows.total_mass, rows.accepted_loss / rows.total_mass, blocks)


def _from_steps(coverage: np.ndarray, accepted: np.ndarray, pilot: Blocks | None) -> Profile:
    """Steps that end at coverages chosen evenly in coverage and, near 0, evenly in its logarithm."""
    grid = np.concatenate([np.linspace(0, 1, _STEPS // 2), np.geomspace(coverage[0], 1, _STEPS // 2)])
    last = len(coverage) - 1
    ends = np.union1d(np.minimum(np.searchsorted(coverage, grid), last), [last])
    edges = np.concatenate([[0.0], coverage[ends] / coverage[-1]])  # of the attainable coverage
    heights = np.diff(np.concatenate([[0.0], accepted[ends] / coverage[-1]])) / np.diff(edges)

    def at(above: np.ndarray) -> np.ndarray:
        place = np.clip(np.searchsorted(edges, above, side="left") - 1, 0, len(heights) - 1)
        return np.asarray(heights[place])

    if pilot is None:
        return Profile(at, tuple(edges[1:-1]), "a risk-coverage curve, 0/1 loss")
    return Profile(at, tuple(edges[1:-1]), f"a pilot of {int(pilot.count.sum())} samples", pilot)


@dataclass(frozen=True)
class Panels:
    """Gauss-Legendre nodes q and weights, one row per panel, panels ascending in q; `low` is left out below."""

    q: np.ndarray
    w: np.ndarray
    half: np.ndarray
    low: float

    def integral(self, values: np.ndarray) -> float:
        """Over (low, 1)."""
        return float(np.sum(self.w * values))

    def cumulated(self, values: np.ndarray) -> np.ndarray:
        """From `low` up to each node."""
        inner = values @ _cumulation_matrix().T * self.half
        before = np.concatenate([[0.0], np.cumsum(np.sum(self.w * values, axis=-1))[:-1]])
        return np.asarray(inner + before[:, None])


def panels(n: float, jumps: tuple[float, ...] = ()) -> Panels:
    """Panels for integrands that change on the scale 1/n and have logarithms at q = 0."""
    depth = int(np.ceil(np.log2(max(n, 2)))) + 52
    edges = np.union1d(2.0 ** -np.arange(depth, -1, -1.0), np.asarray(jumps, dtype=np.float64))
    edges = edges[edges >= 2.0**-depth]
    x, w = np.polynomial.legendre.leggauss(_POINTS)
    half = np.diff(edges)[:, None] / 2
    return Panels(edges[:-1, None] + half * (1 + x), half * w, half, float(edges[0]))


@functools.lru_cache(maxsize=1)
def _cumulation_matrix() -> np.ndarray:
    """Row i holds the weights of the integral from -1 to node i, exact for polynomials through the nodes."""
    x, w = np.polynomial.legendre.leggauss(_POINTS)
    P = np.polynomial.legendre.legvander(x, _POINTS)
    primitive = P @ np.polynomial.legendre.legint(np.eye(_POINTS), lbnd=-1)
    scale = np.arange(_POINTS) + 0.5
    return np.asarray(primitive @ (scale[:, None] * P[:, :_POINTS].T) * w)


@dataclass(frozen=True)
class Population(_tables.Notebook):
    r"""0/1 losses with :math:`P(l=1 \mid \beta) = \sum_j c_j (1-\beta)^{p_j}`, confidence = beta ~ U(0, 1).

    Each term adds :math:`c/(p+1)` to the risk, :math:`c/(p+1)^2` to AURC and :math:`c/((p+1)(p+2))` to AUGRC; there are
    no ties.

    Parameters
    ----------
    terms : tuple of (c, p)
        Coefficients and exponents, at least 0, the coefficients adding up to at most 1.

    Examples
    --------
    >>> quadratic = power(0.6, 2)
    >>> round(quadratic.risk, 6), round(quadratic.aurc, 6), round(quadratic.augrc, 6)
    (0.2, 0.066667, 0.05)
    """

    terms: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if any(c < 0 or p < 0 for c, p in self.terms) or sum(c for c, _ in self.terms) > 1:
            raise InputError(
                f"Population: terms c (1-beta)^p need c >= 0, p >= 0 and coefficients that add up to at most 1 "
                f"(they are chances of an error), got {self.terms}."
            )

    def __call__(self, beta: np.ndarray) -> np.ndarray:
        """Chance of an error given beta."""
        return self.given_above(1 - np.asarray(beta, dtype=np.float64))

    def given_above(self, above: np.ndarray) -> np.ndarray:
        """Chance of an error given 1 - beta, for values of beta too near 1 to be told from it."""
        return _series(self.terms, above)

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
        return _series([(c / (p + 1), p) for c, p in self.terms], coverage)

    def aurc_at_levels(self, levels: int) -> float:
        """Population AURC when the confidence is rounded to `levels` equally likely values: thresholds at those."""
        return float(np.mean(self.selective_risk(np.arange(1, levels + 1) / levels)))

    def sample(
        self, shape: int | tuple[int, ...], /, *, rng: int | np.random.Generator, levels: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Losses (0/1) and confidences, of this shape; `levels` rounds the confidence to that many values."""
        generator = np.random.default_rng(rng)
        beta = generator.random(shape)
        loss = (generator.random(shape) < self(beta)).astype(np.float64)
        return loss, beta if levels is None else np.floor(beta * levels) / levels

    def __repr__(self) -> str:
        text = " + ".join(f"{c:g}" if p == 0 else f"{c:g}(1-b)^{p:g}" for c, p in self.terms)
        return f"Population({text}: risk {self.risk:.4g}, AURC {self.aurc:.4g}, AUGRC {self.augrc:.4g})"


def _series(terms: Sequence[tuple[float, float]], x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(sum(c * x**p for c, p in terms) + np.zeros_like(x))


def power(coefficient: float, exponent: float) -> Population:
    """The population with error chance `coefficient * (1-beta)^exponent`.

    Parameters
    ----------
    coefficient, exponent : float
        At least 0; the coefficient at most 1.

    Returns
    -------
    Population

    Examples
    --------
    >>> power(0.6, 2)
    Population(0.6(1-b)^2: risk 0.2, AURC 0.06667, AUGRC 0.05)
    """
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
class SeleCounterexample(_tables.Notebook):
    """Samples on which twice SELE is below the empirical AURC, so that it is no upper bound.

    Attributes
    ----------
    loss, confidence : array
        The samples.
    aurc, twice_sele : float
        Both estimates.

    Examples
    --------
    >>> sele_counterexample(4).loss.tolist()
    [0.0, 0.0, 0.0, 1.0]
    """

    loss: np.ndarray
    confidence: np.ndarray
    aurc: float
    twice_sele: float


def sele_counterexample(n: int = 5) -> SeleCounterexample:
    """Only the most confident of n samples is wrong: its weight is H_n, and 2 SELE gives it 2 (so n >= 4 will do).

    Parameters
    ----------
    n : int
        How many samples, at least 4.

    Returns
    -------
    SeleCounterexample
        The samples and both estimates.

    Examples
    --------
    >>> example = sele_counterexample()
    >>> round(5 * example.aurc, 4), round(5 * example.twice_sele, 4)
    (2.2833, 2.0)
    """
    if int(n) != n or n < 4:
        raise InputError(f"sele_counterexample: needs at least 4 samples (H_3 < 2 < H_4), got n = {n!r}.")
    rank = np.arange(1, n + 1)
    loss = (rank == n).astype(np.float64)
    aurc, twice_sele = (float(np.mean(rank_weights(n, name) * loss)) for name in ("harmonic", "2sele"))
    return SeleCounterexample(loss, rank / (n + 1), aurc, twice_sele)


def _bias(profile: Profile, grid: Panels, n: float, estimator: str) -> float:
    return grid.integral(bias_given(1 - grid.q, grid.q, np.asarray(n), estimator) * profile.at(grid.q))


def estimator_bias(n: int, curve: Any, /, *, estimator: Estimator = "harmonic") -> float:
    r"""Bias of the plug-in estimator of AURC at sample size n: its mean less the population AURC.

    .. math:: \int_0^1 \mathrm{Bias}(\hat\alpha \mid \beta)\, E[\ell \mid \beta]\, d\beta

    Parameters
    ----------
    n : int
        Sample size.
    curve : callable, number, Population or its name, RiskCoverageCurve, or (loss, confidence)
        The expected loss given beta. Confidence is taken to have no ties.
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights.

    Returns
    -------
    float
        Near 0 is better.

    Examples
    --------
    >>> round(estimator_bias(8, "quadratic"), 4), round(estimator_bias(8, "quadratic", estimator="loo"), 4)
    (0.0244, -0.0006)
    >>> abs(estimator_bias(8, "unrelated")) < 1e-12  # unbiased when loss ignores confidence
    True
    """
    check_choice("estimator_bias", "estimator", estimator, ESTIMATORS)
    size = float(check_size("estimator_bias", n))
    profile = as_profile("estimator_bias", curve)
    return _bias(profile, panels(size, profile.jumps), size, estimator)


@dataclass(frozen=True)
class ExpectedBias(_tables.Notebook):
    """Bias of every estimator at one n, beside what it is to be compared with; made by `expected_bias`.

    Attributes
    ----------
    n : int
        Sample size.
    aurc, risk : float
        Of the population.
    standard_deviation : float
        Of an estimate of AURC at this n, by the normal limit.
    bias : dict
        Estimator to bias.
    source : str
        What was assumed, in words.

    Examples
    --------
    >>> round(expected_bias(100, "quadratic").bias["harmonic"], 5)
    0.002
    """

    n: int
    aurc: float
    risk: float
    standard_deviation: float
    bias: dict[Estimator, float]
    source: str

    @property
    def best(self) -> Estimator:
        """The least biased of the consistent estimators (SELE tends to AUGRC)."""
        consistent: tuple[Estimator, ...] = ("harmonic", "log", "loo")
        return min(consistent, key=lambda name: abs(self.bias[name]))

    @property
    def advice(self) -> str:
        """One sentence on whether the choice matters at this n."""
        sd = self.standard_deviation
        share = abs(self.bias["harmonic"]) / sd if sd else float("inf")
        if share < 0.1:
            return f"harmonic is off by {share:.1%} of a standard deviation: any choice will do at this n."
        return f"harmonic is off by {share:.0%} of a standard deviation; {self.best} is the least biased."

    def frame(self, library: str | None = None) -> Any:
        """One row per estimator: bias, relative to AURC and in standard deviations."""
        columns: dict[str, list[Any]] = {"estimator": list(self.bias), "bias": list(self.bias.values())}
        for name, scale in (("relative", self.aurc), ("in_sd", self.standard_deviation)):
            columns[name] = [value / scale if scale else None for value in self.bias.values()]
        return _tables.make_frame(columns, library)

    def __repr__(self) -> str:
        sd, scale = f"{self.standard_deviation:.3g}", self.aurc or 1.0
        lines = [
            f"Bias of the AURC estimators at n = {self.n} ({self.source})",
            f"  AURC {self.aurc:.5g}, risk {self.risk:.4g}, standard deviation of an estimate {sd}",
            *(f"  {name:<9} {v:+.3e}  ({v / scale:+.1%} of AURC)" for name, v in self.bias.items()),
        ]
        return "\n".join([*lines, f"  {self.advice}"])


def expected_bias(n: int, curve: Any, /) -> ExpectedBias:
    r"""Which estimator at this n? The bias of each, on an assumed profile or on a pilot sample.

    .. math:: \int_0^1 \mathrm{Bias}(\hat\alpha \mid \beta)\, E[\ell \mid \beta]\, d\beta

    Parameters
    ----------
    n : int
        Size of the test set (or of the batch) the estimator will see.
    curve : callable, number, Population or its name, RiskCoverageCurve, or (loss, confidence)
        A function of beta in [0, 1] (0 = least confident) giving the chance of an error, or a pilot to read
        it from. A pilot should be several times larger than n: its own profile is taken as the population's.

    Returns
    -------
    ExpectedBias
        The bias of each estimator beside AURC and the standard deviation of an estimate.

    Examples
    --------
    >>> answer = expected_bias(8, "quadratic")
    >>> answer.best
    'loo'
    >>> answer
    Bias of the AURC estimators at n = 8 (Population(0.6(1-b)^2: risk 0.2, AURC 0.06667, AUGRC 0.05))
      AURC 0.066667, risk 0.2, standard deviation of an estimate 0.0783
      harmonic  +2.444e-02  (+36.7% of AURC)
      log       +1.670e-02  (+25.0% of AURC)
      loo       -5.556e-04  (-0.8% of AURC)
      sele      +2.083e-03  (+3.1% of AURC)
      2sele     +7.083e-02  (+106.2% of AURC)
      harmonic is off by 31% of a standard deviation; loo is the least biased.
    """
    size = float(check_size("expected_bias", n))
    profile = as_profile("expected_bias", curve)
    grid = panels(size, profile.jumps)
    aurc, risk = value_and_risk(replace(profile, pilot=None), "aurc")
    deviation = asymptotic_deviation(profile, "aurc") / np.sqrt(size)
    bias = {name: _bias(profile, grid, size, name) for name in ESTIMATORS}
    return ExpectedBias(int(size), aurc, risk, float(deviation), bias, profile.source)


def _weight(metric: str, q: np.ndarray) -> np.ndarray:
    return {"aurc": -np.log(q), "augrc": 1 - q, "risk": np.ones_like(q)}[metric]


def value_and_risk(profile: Profile, metric: str) -> tuple[float, float]:
    """The metric and the risk of a profile; of a pilot its own, ties and all."""
    if profile.pilot is not None:
        rows = profile.pilot.rows()
        risk = float(rows.accepted_loss[-1] / rows.total_mass[0])
        return risk if metric == "risk" else float(area(rows, _ESTIMATOR_OF[metric])), risk
    grid = panels(2, profile.jumps)
    rho = profile.at(grid.q)
    return grid.integral(_weight(metric, grid.q) * rho), grid.integral(rho)


def asymptotic_deviation(profile: Profile, metric: str) -> float:
    r""":math:`\sigma` such that the estimate's standard deviation is about :math:`\sigma/\sqrt n`."""
    variance = _of_profile(profile, metric) if profile.pilot is None else _of_pilot(profile.pilot, metric)
    return float(np.sqrt(max(variance, 0.0)))


def _of_pilot(blocks: Blocks, metric: str) -> float:
    table, area = table_of_blocks(blocks), AREA_OF[metric]
    W, S = float(table.rows.total_mass[0]), float(table.rows.accepted_loss[-1])
    every = stacked([stretch_of(table, area)])
    return W * combined(every, metric_line(metric, float(every.terms[0]) / W, S / W)).second


def _of_profile(profile: Profile, metric: str) -> float:
    """Mean square of `const + slope * loss` for a 0/1 loss, whose second moment is its mean."""
    grid = panels(2, profile.jumps)
    rho = profile.at(grid.q)
    # loss accepted per sample, at a threshold with q above it
    accepted = rho[0, 0] * grid.low + grid.cumulated(rho)
    slope, const = _weight(metric, grid.q), np.zeros_like(rho)
    if metric == "augrc":
        const = accepted
    elif metric == "aurc":
        drift = accepted / grid.q**2
        const = accepted / grid.q - (grid.integral(drift) - grid.cumulated(drift))
    centred = const - grid.integral(const + slope * rho)
    return grid.integral(centred**2 + 2 * centred * slope * rho + slope**2 * rho)
