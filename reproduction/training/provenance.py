"""Which code, data and machine a result came from."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any


def commit() -> str:
    """Commit of the code: the variable ABSTAIN_COMMIT, or what git says, or "unknown"."""
    named = os.environ.get("ABSTAIN_COMMIT")
    if named:
        return named
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True,
            timeout=10, check=False,
        )  # fmt: skip
    except OSError:
        return "unknown"
    return asked.stdout.strip() or "unknown"


@cache
def origin(device: str) -> dict[str, Any]:
    """Commit, hardware and library versions; asked once per process."""
    import numpy as np
    import torch

    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return {
        "commit": commit(),
        "device": name,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
