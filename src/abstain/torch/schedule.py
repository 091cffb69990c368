"""How much plain cross-entropy is mixed in, and when."""

from __future__ import annotations

from dataclasses import dataclass

from abstain.errors import InputError


@dataclass(frozen=True)
class LinearWarmup:
    """From plain loss to AURC: the share of the plain loss falls linearly from `start` to `stop` in `steps` steps.

    Ranks carry little meaning before a network has learned anything; a warm-up starts with cross-entropy and hands
    over. Give it as `AURCLoss(mix=LinearWarmup(5))` and call `criterion.step()` once per epoch (or per batch:
    a step is whatever you count).

    >>> schedule = LinearWarmup(4)
    >>> [schedule(step) for step in range(6)]
    [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """

    steps: int
    start: float = 1.0
    stop: float = 0.0

    def __post_init__(self) -> None:
        if int(self.steps) != self.steps or self.steps < 1:
            raise InputError(f"LinearWarmup: `steps` must be a whole number, at least 1, got {self.steps!r}.")
        for name in ("start", "stop"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"LinearWarmup: `{name}` must lie in [0, 1], got {getattr(self, name)!r}.")

    def __call__(self, step: int) -> float:
        """Share of the plain loss at this step."""
        done = min(max(step, 0), self.steps) / self.steps
        return self.start + (self.stop - self.start) * done
