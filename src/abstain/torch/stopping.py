"""Has validation AURC improved by more than its noise? The rule behind the callbacks."""

from __future__ import annotations

from abstain._check import check_nonnegative
from abstain.errors import InputError


class ErrorAwarePatience:
    """Counts evaluations since AURC last fell by more than `sigmas` standard errors.

    A validation AURC has an error bar; taking every small dip for progress keeps the luckiest checkpoint, not the
    best. The best is compared with its last accepted value, so many small steps in one direction still add up. The
    standard error is that of one evaluation; two evaluations on the same samples differ by less, so the rule is
    on the careful side.

    >>> rule = ErrorAwarePatience(patience=2)
    >>> [rule.improved(value, 0.01) for value in (0.20, 0.15, 0.145, 0.142)]
    [True, True, False, False]
    >>> rule.exhausted, rule.best
    (True, 0.15)
    """

    def __init__(self, patience: int | None = None, sigmas: float = 1.0) -> None:
        if patience is not None and (int(patience) != patience or patience < 1):
            raise InputError(
                f"ErrorAwarePatience: `patience` must be a whole number, at least 1, got {patience!r}."
            )
        self.patience, self.sigmas = patience, check_nonnegative("ErrorAwarePatience", "sigmas", sigmas)
        self.best: float | None = None
        self.best_error = 0.0
        self.since = 0

    def improved(self, value: float, standard_error: float) -> bool:
        """Take in one evaluation; is it better than the best by more than the noise?"""
        if self.best is None or value < self.best - self.sigmas * standard_error:
            self.best, self.best_error, self.since = value, standard_error, 0
            return True
        self.since += 1
        return False

    @property
    def exhausted(self) -> bool:
        """Has there been no progress for `patience` evaluations?"""
        return self.patience is not None and self.since >= self.patience

    def state_dict(self) -> dict[str, float | int | None]:
        """For checkpoints."""
        return {"best": self.best, "best_error": self.best_error, "since": self.since}

    def load_state_dict(self, state: dict[str, float | int | None]) -> None:
        """From a checkpoint."""
        self.best, self.best_error, self.since = (
            state["best"],
            float(state["best_error"] or 0),
            int(state["since"] or 0),
        )
