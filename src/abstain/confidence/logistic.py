"""Ridge logistic regression by Newton's method, for shares as well as for 0/1 outcomes."""

from __future__ import annotations

import numpy as np

_MAX_STEPS = 50  # Newton's method needs about eight; more only if the outcomes are nearly separated
_SMALLEST_STEP = 1e-6  # share of a Newton step below which halving it stops
_RELATIVE_DECREASE = 1e-8  # of the objective: smaller ones do not change a ranking


def fit_logistic(
    features: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    penalty: np.ndarray,
    start: np.ndarray | None = None,
) -> np.ndarray:
    r"""Return the coefficients b that minimise the penalised logistic loss.

    .. math:: \sum_i w_i \left(\ln(1 + e^{x_i b}) - y_i\, x_i b\right) + \tfrac12 \sum_j \lambda_j b_j^2

    Parameters
    ----------
    features : ndarray, shape (n, columns)
        The x; a column of ones is the intercept.
    target : ndarray, shape (n,)
        The y, from 0 (wrong) to 1 (right).
    weight : ndarray, shape (n,)
        The w, not negative.
    penalty : ndarray, shape (columns,)
        The lambda, positive: how strongly each coefficient is held at 0.
    start : ndarray, shape (columns,), optional
        Coefficients to start from; the solution does not depend on them. By default 0.

    Returns
    -------
    ndarray, shape (columns,)
        The coefficients. The objective is strictly convex, so there is one solution, and Newton's method with step
        halving finds it. If it has not come to rest after 50 steps (`_MAX_STEPS`), the last coefficients are returned.
    """
    coefficients = np.zeros(features.shape[1]) if start is None else start.copy()
    linear = features @ coefficients  # log-odds of each row
    # the penalised loss that is minimised
    objective = _objective(linear, coefficients, target, weight, penalty)
    for _ in range(_MAX_STEPS):
        probability = sigmoid(linear)
        gradient = features.T @ (weight * (target - probability)) - penalty * coefficients
        curvature = weight * probability * (1 - probability)
        hessian = features.T @ (features * curvature[:, None])
        hessian[np.diag_indices_from(hessian)] += penalty
        step = np.linalg.solve(hessian, gradient)
        share = 1.0  # of the Newton step; halved until the objective does not rise
        while True:
            new_coefficients = coefficients + share * step
            new_linear = features @ new_coefficients
            new_objective = _objective(new_linear, new_coefficients, target, weight, penalty)
            # a millionth of a step that still raises it: only rounding is left
            if new_objective <= objective or share < _SMALLEST_STEP:
                break
            share /= 2
        decrease = objective - new_objective
        if decrease < 0:  # rounding: no step improves any more, so that the coefficients before it are kept
            break
        coefficients = new_coefficients
        linear = new_linear
        objective = new_objective
        # changes of a hundred-millionth or less do not change a ranking
        if decrease <= _RELATIVE_DECREASE * abs(objective):
            break
    return coefficients


def _objective(
    linear: np.ndarray, coefficients: np.ndarray, target: np.ndarray, weight: np.ndarray, penalty: np.ndarray
) -> float:
    """Penalised logistic loss of these coefficients, whose log-odds are `linear`."""
    fit = float(weight @ (np.logaddexp(0.0, linear) - target * linear))
    return fit + 0.5 * float(penalty @ (coefficients * coefficients))


def sigmoid(log_odds: np.ndarray) -> np.ndarray:
    """Convert log-odds to probabilities; neither end overflows."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * log_odds)))
