"""Train and evaluate with PyTorch: AURC as a loss for any batch, and torchmetrics metrics that scale.

>>> import torch
>>> from abstain.torch import AURCLoss
>>> criterion = AURCLoss()  # where CrossEntropyLoss() stood
>>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]], requires_grad=True)
>>> criterion(logits, torch.tensor([0, 0])).backward()
"""

from __future__ import annotations

import importlib
from typing import Any

from abstain.errors import MissingDependencyError

try:
    import torch as _torch  # noqa: F401
except ImportError as problem:  # pragma: no cover - torch is present wherever the tests run
    raise MissingDependencyError("abstain.torch", "torch", "torch") from problem

# public name -> file that defines it, loaded on use: the metrics need torchmetrics.
# For trainers: `abstain.torch.lightning` and `abstain.torch.huggingface`.
_HOME = {
    "AUGRC": "metrics",
    "AURC": "metrics",
    "AURCLoss": "modules",
    "CoverageAtRisk": "metrics",
    "EAURC": "metrics",
    "FailureAUROC": "metrics",
    "LinearWarmup": "schedule",
    "NAURC": "metrics",
    "RiskAtCoverage": "metrics",
    "aurc_loss": "losses",
    "smooth_zero_one": "criteria",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"abstain.torch.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'abstain.torch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
