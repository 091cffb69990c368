"""Lightning: early stopping and checkpoint selection on validation AURC with its standard error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from abstain.errors import InputError, MissingDependencyError
from abstain.torch.metrics import ErrorAwarePatience, SelectiveMetric

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback
    except ImportError as problem:  # pragma: no cover - Lightning is present wherever the tests run
        raise MissingDependencyError("abstain.torch.lightning", "lightning", "lightning") from problem

__all__ = ["AURCMonitor"]


class AURCMonitor(Callback):  # type: ignore[misc]
    """Watches an `AURC` metric that the module updates in `validation_step`.

    At the end of each validation it logs `<metric>`, `<metric>_se`, `<metric>_low` and `<metric>_high`, saves a
    checkpoint when AURC has fallen by more than `sigmas` standard errors, and stops after `patience` validations
    without such progress. In the module: `self.val_aurc = AURC()` and `self.val_aurc.update(logits, y)`; the callback
    computes (over all processes) and resets.

    Parameters
    ----------
    metric : str
        Attribute of the module that holds the metric.
    patience : int, optional
        None never stops.
    dirpath : path, optional
        Folder for the best checkpoint, `best.ckpt`; None saves nothing.
    sigmas : float
        How many standard errors count as progress; 0 is the usual rule.
    level : float
        Of the interval; see `abstain.inference.interval`.

    Examples
    --------
    >>> AURCMonitor("val_aurc", patience=3).path is None  # Trainer(..., callbacks=[AURCMonitor(...)])
    True
    """

    def __init__(
        self,
        metric: str = "val_aurc",
        *,
        patience: int | None = None,
        dirpath: str | Path | None = None,
        sigmas: float = 1.0,
        level: float = 0.95,
    ) -> None:
        self.metric, self.level = metric, level
        self.rule = ErrorAwarePatience(patience, sigmas)
        self.path = None if dirpath is None else Path(dirpath) / "best.ckpt"

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Compute, log, decide."""
        metric = getattr(pl_module, self.metric, None)
        if not isinstance(metric, SelectiveMetric):
            raise InputError(
                f"AURCMonitor: the module must hold a metric in `{self.metric}`, got {type(metric).__name__}. "
                f"Set `self.{self.metric} = abstain.torch.AURC()` in its __init__."
            )
        if trainer.sanity_checking:
            metric.reset()
            return
        found = metric.compute_with_interval(self.level)
        metric.reset()
        values = {"": found.estimate, "_se": found.standard_error, "_low": found.low, "_high": found.high}
        named = {f"{self.metric}{end}": float(value) for end, value in values.items()}
        pl_module.log_dict(named, rank_zero_only=True)
        if self.rule.improved(found.estimate, found.standard_error) and self.path is not None:
            trainer.save_checkpoint(self.path)
        if self.rule.exhausted:
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        """Progress, for resuming."""
        return self.rule.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume."""
        self.rule.load_state_dict(state_dict)
