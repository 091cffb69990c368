r"""Risk profiles and populations with a known AURC: the bias of an estimator, and the asymptotic variance of AURC.

A profile is the expected loss given the population rank percentile beta. Everything is computed in q = 1 - beta (the
share of the population that is more confident), because the weights vary most near q = 0. Integrals use panels whose
width halves towards 0, so that logarithms there are integrated to rounding error.
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
from abstain.core.part_sums import combine_parts, stack_parts, sum_area, table_from_blocks
from abstain.core.rows import Blocks
from abstain.errors import InputError
from abstain.metrics._sample import prepare
from abstain.metrics.definitions import by_name
from abstain.theory.weights import check_size, compute_weight_bias

METRICS = ("aurc", "augrc", "risk")
_ESTIMATOR_OF = {"aurc": "harmonic", "augrc": "sele"}
_NODES_PER_PANEL = 16
_MOST_STEPS = 400  # of a profile that summarises a pilot sample or a curve


@dataclass(frozen=True)
class Profile:
    """The expected loss as a function of q = 1 - beta.

    Attributes
    ----------
    expected_loss : callable
        Maps an array of q to the expected losses there.
    jumps : tuple of float
        The values of q, ascending, at which the expected loss jumps.
    source : str
        Where the profile comes from, in words.
    pilot : Blocks or None
        The pilot sample that the profile summarises, if there is one.
    """

    expected_loss: Callable[[np.ndarray], np.ndarray]
    jumps: tuple[float, ...] = ()
    source: str = "an assumed profile, 0/1 loss"
    pilot: Blocks | None = field(default=None, repr=False)


def as_profile(name: str, curve: Any) -> Profile:
    """Make a profile (the expected loss as a function of q = 1 - beta) from what the user passed as `curve`.

    beta is the share of the population that is less confident, q the share that is more confident. Users state
    functions of beta, which `_evaluate_and_check` evaluates at 1 - q; `Population.error_rate_at` takes q.

    `curve` may be the name of a population in `NAMED`, a `Population`, a number (a constant chance of an error), a
    function of beta, a risk-coverage curve (an object with `coverage` and `generalised_risk`), or a pilot sample (loss,
    confidence). `name` is the function in error messages.

    Raises InputError for anything else, an unknown name, and a number outside [0, 1]. A function is checked when the
    profile is evaluated.
    """
    if isinstance(curve, str):
        if curve not in NAMED:
            raise InputError(f"{name}: unknown population {curve!r}, the named ones are {', '.join(NAMED)}.")
        curve = NAMED[curve]
    if isinstance(curve, Population):
        return Profile(curve.error_rate_at, source=f"{curve!r}")
    if isinstance(curve, (int, float)):
        # `Population` raises for a number outside [0, 1]
        return as_profile(name, Population(terms=((float(curve), 0.0),)))  # c (1 - beta)^0
    if hasattr(curve, "generalised_risk") and hasattr(curve, "coverage"):
        coverage = np.asarray(curve.coverage)
        return _profile_from_steps(coverage, np.asarray(curve.generalised_risk), pilot=None)
    if callable(curve):
        return Profile(functools.partial(_evaluate_and_check, name, curve))
    if isinstance(curve, tuple) and len(curve) == 2:
        loss, confidence = curve
        return _profile_from_pilot(name, loss, confidence)
    raise InputError(
        f"{name}: `curve` must be a function of beta, a number, a Population or its name, a RiskCoverageCurve, "
        f"or a pilot sample (loss, confidence), got {type(curve).__name__}."
    )


def _evaluate_and_check(name: str, curve: Callable[[np.ndarray], Any], q: np.ndarray) -> np.ndarray:
    """Evaluate a user's function of beta at 1 - q; raise InputError unless all values lie in [0, 1]."""
    value = np.broadcast_to(np.asarray(curve(1 - q), dtype=np.float64), q.shape)
    if not np.all((value >= 0) & (value <= 1)):
        raise InputError(
            f"{name}: an assumed profile is the chance of an error given beta and must lie in [0, 1], got "
            f"{value.min():g} to {value.max():g}. For other losses give a pilot sample (loss, confidence)."
        )
    return value


def _profile_from_pilot(name: str, loss: Array, confidence: Array) -> Profile:
    """Make a profile from the losses and confidences of a pilot sample; raise InputError if they are not valid."""
    pilot = prepare(name, to_host(loss), to_host(confidence), vector=True)
    blocks = Blocks.from_samples(pilot.loss, pilot.confidence)
    rows = blocks.rows()
    coverage = rows.accepted_mass / rows.total_mass
    generalised_risk = rows.accepted_loss / rows.total_mass
    return _profile_from_steps(coverage, generalised_risk, blocks)


def _profile_from_steps(coverage: np.ndarray, generalised_risk: np.ndarray, pilot: Blocks | None) -> Profile:
    """Make a profile, the expected loss as a function of q, that is constant between some of the coverages.

    q is the share of the population that is more confident. Coverages ascend and are above 0.

    The steps end at coverages chosen evenly in coverage and, near 0, evenly in its logarithm, at most 400 in all.
    The height of a step is the mean loss of the samples between its ends. `generalised_risk` is the loss of accepted
    samples per sample, at each coverage. A curve may end below coverage 1, since samples can be marked as abstained;
    its largest coverage is then taken for 1. `pilot` is the table of the pilot sample if the curve comes from one, else
    None.
    """
    target_coverages = np.concatenate(
        [np.linspace(0, 1, _MOST_STEPS // 2), np.geomspace(coverage[0], 1, _MOST_STEPS // 2)]
    )
    # the first coverage that reaches each target, as indices into `coverage`, ascending and each once
    last = len(coverage) - 1
    step_ends = np.union1d(np.minimum(np.searchsorted(coverage, target_coverages), last), [last])
    edges = np.concatenate([[0.0], coverage[step_ends] / coverage[-1]])
    loss_up_to_edge = np.concatenate([[0.0], generalised_risk[step_ends] / coverage[-1]])
    heights = np.diff(loss_up_to_edge) / np.diff(edges)

    def expected_loss(q: np.ndarray) -> np.ndarray:
        """Height of the step at each q in [0, 1]; a step includes its upper end."""
        step = np.clip(np.searchsorted(edges, q, side="left") - 1, 0, len(heights) - 1)
        return np.asarray(heights[step])

    if pilot is None:
        source = "a risk-coverage curve, 0/1 loss"
    else:
        source = f"a pilot of {int(pilot.count.sum())} samples"
    return Profile(expected_loss, jumps=tuple(edges[1:-1]), source=source, pilot=pilot)


@dataclass(frozen=True)
class Panels:
    """Gauss-Legendre quadrature on panels that ascend in q.

    Attributes
    ----------
    q, weight : array, shape (panels, nodes)
        The nodes and their quadrature weights.
    half_width : array, shape (panels, 1)
        Half the width of each panel.
    low : float
        The lower end of the first panel; the integral below it is left out.
    """

    q: np.ndarray
    weight: np.ndarray
    half_width: np.ndarray
    low: float

    def integral(self, values: np.ndarray) -> float:
        """Integrate over (low, 1), from the values of the integrand at the nodes."""
        return float(np.sum(self.weight * values))

    def cumulated(self, values: np.ndarray) -> np.ndarray:
        """Integrate from `low` to each node, from the values of the integrand at the nodes."""
        within_panel = values @ _cumulation_matrix().T * self.half_width
        panel_integrals = np.sum(self.weight * values, axis=-1)
        before_panel = np.concatenate([[0.0], np.cumsum(panel_integrals)[:-1]])
        return np.asarray(within_panel + before_panel[:, None])


def make_panels(n: float, jumps: tuple[float, ...] = ()) -> Panels:
    """Make panels on (0, 1) for integrands that change on the scale 1/n, have logarithms at q = 0 and jump at `jumps`.

    Panels halve in width towards 0, down to about 2^-52 / n; below that the integral is left out. Every jump, a number
    in (0, 1), is an end of a panel. Nodes `q` and their `weight` have shape (panels, 16), `half_width` (panels, 1);
    `low` is the lower end of the first panel.
    """
    halvings = int(np.ceil(np.log2(max(n, 2)))) + 52  # 52: the bits of a float64 number
    edges = np.union1d(2.0 ** -np.arange(halvings, -1, -1.0), np.asarray(jumps, dtype=np.float64))
    edges = edges[edges >= 2.0**-halvings]  # a jump may lie below the first panel
    node, node_weight = np.polynomial.legendre.leggauss(_NODES_PER_PANEL)  # on (-1, 1)
    half_width = np.diff(edges)[:, None] / 2
    return Panels(
        q=edges[:-1, None] + half_width * (1 + node),
        weight=half_width * node_weight,
        half_width=half_width,
        low=float(edges[0]),
    )


@functools.lru_cache(maxsize=1)
def _cumulation_matrix() -> np.ndarray:
    r"""Return the square matrix whose row i holds the weights of the integral from -1 to node i, of a panel on (-1, 1).

    The rule is exact for polynomials through the nodes. Expand a function in Legendre polynomials, whose coefficients
    are :math:`c_k = (k + 1/2) \sum_j w_j P_k(x_j) f(x_j)`, and integrate each polynomial from -1 to the nodes.
    """
    x, w = np.polynomial.legendre.leggauss(_NODES_PER_PANEL)
    # P[j, k] is P_k(x_j), for the degrees of the expansion, and one more, which its integral has
    P = np.polynomial.legendre.legvander(x, _NODES_PER_PANEL)
    # row j, column k: the integral of P_k from -1 to node j, itself a sum of such polynomials
    integral_of_polynomial = P @ np.polynomial.legendre.legint(np.eye(_NODES_PER_PANEL), lbnd=-1)
    scale = np.arange(_NODES_PER_PANEL) + 0.5  # k + 1/2
    # entry [i, j]: the sum over k of (integral of P_k up to node i) (k + 1/2) P_k(x_j) w_j
    return np.asarray(integral_of_polynomial @ (scale[:, None] * P[:, :_NODES_PER_PANEL].T) * w)


@dataclass(frozen=True)
class Population(_tables.Notebook):
    r"""0/1 losses with :math:`P(l=1 \mid \beta) = \sum_j c_j (1-\beta)^{p_j}`, confidence = beta ~ U(0, 1).

    Each term adds :math:`c/(p+1)` to the risk, :math:`c/(p+1)^2` to AURC and :math:`c/((p+1)(p+2))` to AUGRC; there are
    no ties.

    Parameters
    ----------
    terms : tuple of (c, p)
        Coefficients and exponents, all at least 0; the coefficients add up to at most 1.

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
        """Return the chance of an error given beta."""
        return self.error_rate_at(1 - np.asarray(beta, dtype=np.float64))

    def error_rate_at(self, q: np.ndarray) -> np.ndarray:
        """Return the chance of an error given q = 1 - beta, which may be too small to compute from beta."""
        return _sum_powers(self.terms, q)

    @property
    def risk(self) -> float:
        """Mean loss: each term c (1-beta)^p adds c / (p+1)."""
        return sum(c / (p + 1) for c, p in self.terms)

    @property
    def aurc(self) -> float:
        """Population AURC, for a confidence without ties: each term c (1-beta)^p adds c / (p+1)^2."""
        return sum(c / (p + 1) ** 2 for c, p in self.terms)

    @property
    def augrc(self) -> float:
        """Population AUGRC, for a confidence without ties: each term c (1-beta)^p adds c / ((p+1)(p+2))."""
        return sum(c / ((p + 1) * (p + 2)) for c, p in self.terms)

    @property
    def oracle_aurc(self) -> float:
        """AURC of the best ordering: R + (1-R) ln(1-R), with R the risk."""
        if self.risk >= 1:
            return 1.0
        return self.risk + (1 - self.risk) * float(np.log1p(-self.risk))

    def selective_risk(self, coverage: np.ndarray) -> np.ndarray:
        """Return the risk of the most confident share `coverage`, in (0, 1]."""
        return _sum_powers([(c / (p + 1), p) for c, p in self.terms], coverage)

    def aurc_at_levels(self, levels: int) -> float:
        """Return the population AURC if the confidence is rounded to `levels` equally likely values."""
        return float(np.mean(self.selective_risk(np.arange(1, levels + 1) / levels)))

    def sample(
        self, shape: int | tuple[int, ...], /, *, rng: int | np.random.Generator, levels: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw losses (0/1) and confidences of this shape; `levels` rounds the confidence to that many values."""
        generator = np.random.default_rng(rng)
        beta = generator.random(shape)
        loss = (generator.random(shape) < self(beta)).astype(np.float64)
        return loss, beta if levels is None else np.floor(beta * levels) / levels

    def __repr__(self) -> str:
        text = " + ".join(f"{c:g}" if p == 0 else f"{c:g}(1-b)^{p:g}" for c, p in self.terms)
        return f"Population({text}: risk {self.risk:.4g}, AURC {self.aurc:.4g}, AUGRC {self.augrc:.4g})"


def _sum_powers(terms: Sequence[tuple[float, float]], x: np.ndarray) -> np.ndarray:
    """Return the sum of c * x**p over the terms (c, p)."""
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(sum(c * x**p for c, p in terms) + np.zeros_like(x))


def power(coefficient: float, exponent: float) -> Population:
    """Make the population whose chance of an error is `coefficient * (1-beta)^exponent`.

    beta is the share of the population that is less confident, from 0 (least confident) to 1; the confidence is beta
    itself, so there are no ties. InputError for numbers outside the ranges below.

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
    return Population(terms=((coefficient, exponent),))  # a sum of one term


# from a useful classifier to a useless one; "floor" makes errors at the highest confidences, where weights are largest
NAMED = {
    "quadratic": power(0.6, 2),
    "root": power(0.3, 0.5),
    "unrelated": power(0.2, 0),
    "floor": Population(((0.05, 0), (0.5, 3))),
    "steep": power(0.5, 9),
}


@dataclass(frozen=True)
class SeleCounterexample(_tables.Notebook):
    """Samples on which twice SELE is below the empirical AURC, so that it is not an upper bound.

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
    """Make n samples of which only the most confident is wrong: its weight in AURC is H_n, in 2 SELE it is 2.

    H_n is 1 + 1/2 + ... + 1/n, above 2 from n = 4 on. So twice SELE, whose weight of rank r is 2 r / n, is below the
    empirical AURC of these samples, and no upper bound of it.

    Parameters
    ----------
    n : int
        How many samples, at least 4.

    Returns
    -------
    SeleCounterexample
        The samples and both estimates.

    Raises
    ------
    InputError
        If n is not a whole number of at least 4.

    Examples
    --------
    >>> example = sele_counterexample()
    >>> round(5 * example.aurc, 4), round(5 * example.twice_sele, 4)
    (2.2833, 2.0)
    """
    if int(n) != n or n < 4:
        raise InputError(f"sele_counterexample: needs at least 4 samples (H_3 < 2 < H_4), got n = {n!r}.")
    rank = np.arange(1, n + 1)  # 1 is the least confident
    loss = (rank == n).astype(np.float64)
    return SeleCounterexample(
        loss=loss,
        confidence=rank / (n + 1),
        aurc=float(np.mean(rank_weights(n, "harmonic") * loss)),
        twice_sele=float(np.mean(rank_weights(n, "2sele") * loss)),
    )


def _integrate_bias(profile: Profile, panels: Panels, n: float, estimator: str) -> float:
    """Integrate the bias of the weights at sample size n, times the expected loss, over beta."""
    weight_bias = compute_weight_bias(beta=1 - panels.q, q=panels.q, n=np.asarray(n), estimator=estimator)
    return panels.integral(weight_bias * profile.expected_loss(panels.q))


def estimator_bias(n: int, curve: Any, /, *, estimator: Estimator = "harmonic") -> float:
    r"""Bias of the plug-in estimator of AURC at sample size n: its mean less the population AURC.

    .. math:: \int_0^1 \mathrm{Bias}(\hat\alpha \mid \beta)\, E[\ell \mid \beta]\, d\beta

    beta is the share of the population that is less confident than a sample, alpha the weight of the sample's loss.

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
    profile = as_profile("estimator_bias", curve)  # the expected loss as a function of 1 - beta
    panels = make_panels(size, profile.jumps)  # the nodes of the quadrature
    # integrates the bias of the weight at each node, times the expected loss there
    return _integrate_bias(profile, panels, size, estimator)


@dataclass(frozen=True)
class ExpectedBias(_tables.Notebook):
    """Bias of every estimator at one n, with AURC and its standard deviation; returned by `expected_bias`.

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
        """One sentence on whether the choice of estimator matters at this n."""
        if self.standard_deviation:
            bias_in_deviations = abs(self.bias["harmonic"]) / self.standard_deviation
        else:
            bias_in_deviations = float("inf")
        if bias_in_deviations < 0.1:
            return f"harmonic is off by {bias_in_deviations:.1%} of a standard deviation: any choice will do at this n."
        return f"harmonic is off by {bias_in_deviations:.0%} of a standard deviation; {self.best} is the least biased."

    def frame(self, library: str | None = None) -> Any:
        """Return a table with one row per estimator: its bias, relative to AURC and in standard deviations."""
        biases = list(self.bias.values())
        columns: dict[str, list[Any]] = {
            "estimator": list(self.bias),
            "bias": biases,
            "relative": [bias / self.aurc if self.aurc else None for bias in biases],
            "in_sd": [bias / self.standard_deviation if self.standard_deviation else None for bias in biases],
        }
        return _tables.make_frame(columns, library)

    def __repr__(self) -> str:
        """List the bias of each estimator, in units of AURC and as a share of it, and the advice."""
        aurc_or_one = self.aurc or 1.0  # without losses, AURC and all biases are 0
        # `self.bias` maps the name of an estimator to its bias, `self.source` says what was assumed of the population
        lines = [
            f"Bias of the AURC estimators at n = {self.n} ({self.source})",
            f"  AURC {self.aurc:.5g}, risk {self.risk:.4g}, "
            f"standard deviation of an estimate {self.standard_deviation:.3g}",
        ]
        lines += [
            f"  {name:<9} {bias:+.3e}  ({bias / aurc_or_one:+.1%} of AURC)"
            for name, bias in self.bias.items()
        ]
        lines.append(f"  {self.advice}")
        return "\n".join(lines)


def expected_bias(n: int, curve: Any, /) -> ExpectedBias:
    r"""Compute the bias of each estimator of AURC at sample size n, to help choose one.

    .. math:: \int_0^1 \mathrm{Bias}(\hat\alpha \mid \beta)\, E[\ell \mid \beta]\, d\beta

    beta is the share of the population that is less confident than a sample, alpha the weight of the sample's loss.

    Parameters
    ----------
    n : int
        Size of the test set (or of the batch) the estimator will see.
    curve : callable, number, Population or its name, RiskCoverageCurve, or (loss, confidence)
        The chance of an error as a function of beta in [0, 1] (0 = least confident), or a pilot sample from which to
        estimate it. A pilot should be several times larger than n: its profile is used as the population's.

    Returns
    -------
    ExpectedBias
        The bias of each estimator, AURC, and the standard deviation of an estimate.

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
    profile = as_profile("expected_bias", curve)  # the expected loss as a function of 1 - beta
    panels = make_panels(size, profile.jumps)  # the nodes of the quadrature
    # Without the pilot sample that a profile may summarise, AURC and risk are integrals over the profile, as the biases
    # are. With it they would be those of the pilot, with its ties.
    aurc, risk = value_and_risk(replace(profile, pilot=None), "aurc")
    # sqrt(n) times the standard deviation of an estimate; with the pilot again, whose own losses and ties decide it
    deviation = asymptotic_deviation(profile, "aurc") / np.sqrt(size)
    return ExpectedBias(
        n=int(size),
        aurc=aurc,
        risk=risk,
        standard_deviation=float(deviation),
        bias={name: _integrate_bias(profile, panels, size, name) for name in ESTIMATORS},
        source=profile.source,
    )


def _population_weight(metric: str, q: np.ndarray) -> np.ndarray:
    """Return the weight of the loss at q = 1 - beta in the metric, which is the integral of weight times loss."""
    if metric == "aurc":
        return -np.log(q)
    if metric == "augrc":
        return 1 - q
    return np.ones_like(q)  # risk


def value_and_risk(profile: Profile, metric: str) -> tuple[float, float]:
    """Return the metric ("aurc", "augrc" or "risk") and the risk of a profile.

    If the profile comes from a pilot sample, they are those of the pilot, with its ties; otherwise they are integrals
    over the profile, for a confidence without ties. The variable of integration is q, the share of the population that
    is more confident. The risk is the integral of the expected loss, the metric that of weight times expected loss:
    `_population_weight` is -ln q for AURC, 1 - q for AUGRC and 1 for the risk.
    """
    if profile.pilot is not None:
        # One row per distinct confidence, most confident first: `accepted_loss` is the sum of losses from the top to
        # this row, `total_mass` (a vector of one entry) the number of samples in the pilot.
        rows = profile.pilot.rows()
        risk = float(rows.accepted_loss[-1] / rows.total_mass[0])
        if metric == "risk":
            return risk, risk
        # "sele" for AUGRC, which is what that estimator of AURC computes
        return float(area(rows, _ESTIMATOR_OF[metric])), risk
    # Nothing here depends on a sample size. Panels end where the expected loss jumps.
    panels = make_panels(n=2, jumps=profile.jumps)
    expected_loss = profile.expected_loss(panels.q)
    value = panels.integral(_population_weight(metric, panels.q) * expected_loss)
    return value, panels.integral(expected_loss)


def asymptotic_deviation(profile: Profile, metric: str) -> float:
    r"""Return :math:`\sigma` such that the standard deviation of an estimate is about :math:`\sigma/\sqrt n`."""
    if profile.pilot is None:
        variance = _variance_of_profile(profile, metric)
    else:
        variance = _variance_of_pilot(profile.pilot, metric)
    return float(np.sqrt(max(variance, 0.0)))


def _variance_of_pilot(blocks: Blocks, metric: str) -> float:
    """Return the variance of the influence function of the metric, estimated from a pilot sample.

    The influence of a sample is how much the metric changes with a little more weight on it. The variance is the total
    mass times the sum over samples of (weight * influence / total mass)^2, from which the error bar of the pilot is
    computed too. `metric` is "aurc", "augrc" or "risk".
    """
    # the rows are those of distinct confidences, most confident first; the total mass is a vector of one entry
    table = table_from_blocks(blocks)
    total_mass = float(table.rows.total_mass[0])
    total_loss = float(table.rows.accepted_loss[-1])
    definition = by_name(metric)  # its `area` says which area under the curve the metric is made of
    # sums that the area and its influences are made of; of one part, which is the whole ranking
    sums = stack_parts([sum_area(table, definition.area)])
    area = float(sums.mass_times_area[0]) / total_mass
    # how the metric follows from its area and the risk; none of the three compares with the area of the best order
    derivative = definition.derivative(area, risk=total_loss / total_mass, best=None)
    # sums of powers of (weight * influence / total mass) over the samples
    influence_sums = combine_parts(sums, definition.area, derivative)
    return total_mass * influence_sums.square_sum


def _variance_of_profile(profile: Profile, metric: str) -> float:
    r"""Return the variance of the influence function, `constant + slope * loss` at each q, for a 0/1 loss.

    q is the share of the population that is more confident, and `metric` is "aurc", "augrc" or "risk". With A(q) the
    loss of accepted samples per sample, the threshold at q, the constant is :math:`A(q)/q - \int_q^1 A(t)/t^2\,dt` for
    AURC, A(q) for AUGRC and 0 for the risk, up to a number that makes the mean influence 0. The slope is the weight of
    the loss in the metric (`_population_weight`): -ln q for AURC, 1 - q for AUGRC, 1 for the risk. A 0/1 loss equals
    its square, so its second moment is the expected loss too.
    """
    panels = make_panels(n=2, jumps=profile.jumps)  # nothing here depends on a sample size
    q = panels.q  # nodes of the quadrature; `cumulated` integrates from the first panel to each node
    expected_loss = profile.expected_loss(q)
    # loss of accepted samples, per sample, with the threshold at q; below the first panel the profile is constant, as
    # at its first node
    accepted_loss = expected_loss[0, 0] * panels.low + panels.cumulated(expected_loss)
    slope = _population_weight(metric, q)
    constant = np.zeros_like(expected_loss)
    if metric == "augrc":
        constant = accepted_loss
    elif metric == "aurc":
        integrand = accepted_loss / q**2
        integral_from_q = panels.integral(integrand) - panels.cumulated(integrand)
        constant = accepted_loss / q - integral_from_q
    centred = constant - panels.integral(constant + slope * expected_loss)  # now the mean influence is 0
    # mean of (centred + slope * loss)^2
    return panels.integral(centred**2 + 2 * centred * slope * expected_loss + slope**2 * expected_loss)
