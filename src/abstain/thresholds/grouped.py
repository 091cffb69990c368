"""A threshold for each group, all promises at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain._arrays import Array, to_host
from abstain.errors import InputError, ShapeError
from abstain.thresholds.threshold import Threshold


@dataclass(frozen=True, eq=False)
class GroupThresholds:
    """One threshold per group, each at delta / groups, so that all guarantees hold together with 1 - delta."""

    thresholds: dict[Any, Threshold]
    delta: float

    def __getitem__(self, label: Any) -> Threshold:
        return self.thresholds[label]

    @property
    def feasible(self) -> bool:
        """Has every group a threshold?"""
        return all(t.feasible for t in self.thresholds.values())

    @property
    def guarantee(self) -> str | None:
        """The joint promise; None unless every group has one (a group without a threshold accepts nothing)."""
        some = [t for t in self.thresholds.values() if t.feasible]
        if not some or any(t.guarantee is None for t in some):
            return None
        silent = [str(g) for g, t in self.thresholds.items() if not t.feasible]
        tail = f" Nothing is accepted in: {', '.join(silent)}." if silent else ""
        return (
            f"With probability at least {1 - self.delta:.4g} over the calibration data, the promise of each of "
            f"{len(some)} groups holds, all at once (each was chosen at {some[0].delta:.4g}).{tail}"
        )

    def accepts(self, confidence: Array, groups: Array) -> np.ndarray:
        """Which samples to accept, each by its own group's threshold; an unknown group is an error."""
        g, labels = np.asarray(to_host(confidence), dtype=np.float64), np.asarray(to_host(groups))
        if g.shape != labels.shape:
            raise ShapeError(f"accepts: needs one group per confidence, got {g.shape} and {labels.shape}.")
        result = np.zeros(g.shape, dtype=bool)
        for label in np.unique(labels):
            if label.item() not in self.thresholds:
                known = ", ".join(map(str, self.thresholds))
                raise InputError(
                    f"accepts: `groups` must be among those calibrated ({known}), got {label.item()!r}."
                )
            mine = labels == label
            result[mine] = self.thresholds[label.item()].accepts(g[mine])
        return result

    def to_json(self) -> str:
        """All groups in one document."""
        from abstain.thresholds.stored import group_to_json

        return group_to_json(self)

    @classmethod
    def from_json(cls, text: str) -> GroupThresholds:
        """What `to_json` wrote."""
        from abstain.thresholds.stored import group_from_json

        return cls(*group_from_json(text))

    def __repr__(self) -> str:
        lines = [
            f"  {label!s:<16} {t.rule:<32} coverage {t.coverage:.4f}  (n = {t.n})"
            for label, t in self.thresholds.items()
        ]
        return "\n".join(["GroupThresholds", *lines, f"  guarantee: {self.guarantee or 'none'}"])
