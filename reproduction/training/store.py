"""Where runs live on disk: checkpoints to go on from, results to keep, outputs to check them by.

Every file is written beside its place and moved there in one step: a killed process leaves the old file or the new.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import DataError


class Store:
    """Folders `checkpoints/`, `results/` and `outputs/` under one root."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        for part in ("checkpoints", "results", "outputs"):
            (self.root / part).mkdir(parents=True, exist_ok=True)

    def checkpoint(self, name: str) -> Path:
        """Weights, moments and log of a run."""
        return self.root / "checkpoints" / f"{name}.pt"

    def result(self, name: str) -> Path:
        """The small JSON of a run."""
        return self.root / "results" / f"{name}.json"

    def output(self, name: str) -> Path:
        """Test-set logits of a finished run."""
        return self.root / "outputs" / f"{name}.npz"

    def save_state(self, name: str, state: dict[str, Any]) -> None:
        """Keep a run's state."""
        import torch

        _replace(self.checkpoint(name), lambda path: torch.save(state, path))

    def load_state(self, name: str) -> dict[str, Any] | None:
        """State of a run, or None if it never reached the end of an epoch."""
        import torch

        path = self.checkpoint(name)
        return torch.load(path, map_location="cpu", weights_only=True) if path.is_file() else None

    def weights(self, name: str) -> dict[str, Any]:
        """Weights of a run that others start from."""
        state = self.load_state(name)
        if state is None:
            raise DataError(
                f"weights: no checkpoint of {name} under {self.root}. Run the pre-training first."
            )
        return dict(state["weights"])

    def save_result(self, name: str, result: dict[str, Any]) -> None:
        """Keep a run's numbers."""
        _replace(self.result(name), lambda path: path.write_text(json.dumps(result, indent=1) + "\n"))

    def load_result(self, name: str) -> dict[str, Any] | None:
        """Numbers of a run, if there are any."""
        path = self.result(name)
        return json.loads(path.read_text()) if path.is_file() else None

    def save_output(self, name: str, logits: np.ndarray) -> None:
        """Keep test-set logits as float16."""

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.savez_compressed(file, logits=logits.astype(np.float16))

        _replace(self.output(name), write)


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    write(part)
    os.replace(part, path)
