"""What `expected_aurc` answers with: the members, their mean, the averaged predictor and the gain."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from abstain import _tables
from abstain.display import CurveLine, RiskCoverageDisplay
from abstain.errors import InputError
from abstain.evaluation.results import line_from

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FORMAT = "abstain.ExpectedAURC/1"


@dataclass(frozen=True)
class Quantity:
    """An estimate with its standard error and interval."""

    estimate: float
    standard_error: float
    low: float
    high: float

    def __repr__(self) -> str:
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True, repr=False)
class ExpectedAURC:
    """The mean over members, and what averaging their predictions gains.

    `mean` carries both errors: `error_members` (other members could have been drawn) and `error_data` (other
    samples could have been). `averaged` and `gain` (mean less averaged, positive when ensembling helps) carry the
    error over data, for these members.
    """

    metric: str
    label: str
    loss: str
    level: float
    n: int
    members: tuple[float, ...]
    mean: Quantity
    error_members: float
    error_data: float
    averaged: Quantity | None
    gain: Quantity | None
    curves: tuple[CurveLine, ...]

    def __repr__(self) -> str:
        head = (
            f"Expected {self.label} of {len(self.members)} members, {self.n} samples ({self.loss})\n"
            f"  members   {self.mean!r}, standard error {self.error_members:.2g} over members, "
            f"{self.error_data:.2g} over data"
        )
        if self.averaged is None:
            return head + "\n  averaged  not given"
        return f"{head}\n  averaged  {self.averaged!r}\n  gain      {self.gain!r}"

    def frame(self, library: str | None = None) -> Any:
        """One row per member, then the mean, the averaged predictor and the gain."""
        rows: list[tuple[str, float, float | None, float | None, float | None]] = [
            (f"member {k}", value, None, None, None) for k, value in enumerate(self.members)
        ]
        for name, q in (("mean", self.mean), ("averaged", self.averaged), ("gain", self.gain)):
            if q is not None:
                rows.append((name, q.estimate, q.standard_error, q.low, q.high))
        names = ("name", "estimate", "standard_error", "low", "high")
        return _tables.frame({name: [row[i] for row in rows] for i, name in enumerate(names)}, library)

    def display(self) -> RiskCoverageDisplay:
        """The curves behind `plot`: the members' mean selective risk at each coverage, and the averaged one."""
        return RiskCoverageDisplay(self.curves, f"selective risk ({self.loss})")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the members' mean curve and the averaged predictor's; returns the axes."""
        return self.display().plot(ax)

    def to_json(self) -> str:
        """As JSON; `from_json` gives it back."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> ExpectedAURC:
        """What `to_json` wrote."""
        data = json.loads(text)
        if not isinstance(data, dict) or data.pop("format", None) != _FORMAT:
            raise InputError(f"ExpectedAURC.from_json: not written by `to_json` ({_FORMAT}).")
        for name in ("mean", "averaged", "gain"):
            data[name] = None if data[name] is None else Quantity(**data[name])
        data["members"] = tuple(data["members"])
        data["curves"] = tuple(line_from(c) for c in data["curves"])
        return cls(**data)
