"""Train and evaluate with PyTorch: AURC as a loss for any batch, and torchmetrics metrics that scale.

>>> import torch
>>> from abstain.torch import AURCLoss
>>> criterion = AURCLoss()  # instead of CrossEntropyLoss()
>>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]], requires_grad=True)
>>> criterion(logits, torch.tensor([0, 0])).backward()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from abstain.errors import import_optional

import_optional("torch", "abstain.torch", "torch")

# The names below are imported when they are first used, because the metrics need torchmetrics.
# For trainers: `abstain.torch.lightning` and `abstain.torch.huggingface`.
if TYPE_CHECKING:
    from abstain.torch.confidence_head import ConfidenceHead
    from abstain.torch.loss import AURCLoss, LinearWarmup, aurc_loss, smooth_zero_one
    from abstain.torch.metrics import (
        AUGRC,
        AURC,
        AUROC,
        EAURC,
        NAURC,
        CoverageAtRisk,
        RiskAtCoverage,
        SelectiveMetric,
    )
    from abstain.torch.tuning import Tuned, fine_tune

__all__ = [
    "AUGRC",
    "AURC",
    "AUROC",
    "EAURC",
    "NAURC",
    "AURCLoss",
    "ConfidenceHead",
    "CoverageAtRisk",
    "LinearWarmup",
    "RiskAtCoverage",
    "SelectiveMetric",
    "Tuned",
    "aurc_loss",
    "fine_tune",
    "smooth_zero_one",
]
# the module of each name; names that are not listed are in `metrics`
_MODULE_OF_NAME = {
    "AURCLoss": "loss",
    "ConfidenceHead": "confidence_head",
    "LinearWarmup": "loss",
    "aurc_loss": "loss",
    "smooth_zero_one": "loss",
    "Tuned": "tuning",
    "fine_tune": "tuning",
}

if not TYPE_CHECKING:  # hidden from type checkers, so that they report a name that does not exist

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'abstain.torch' has no attribute {name!r}")
        module = importlib.import_module(f"abstain.torch.{_MODULE_OF_NAME.get(name, 'metrics')}")
        value = getattr(module, name)
        globals()[name] = value  # the next access does not come here
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
