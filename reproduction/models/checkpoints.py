"""Public checkpoints in our networks: other names for the same layers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch

from abstain._arrays import Array
from abstain.errors import DataError
from abstain.paper.models.preresnet import wide_resnet
from abstain.paper.models.resnet import cifar_resnet

Names = tuple[tuple[str, str], ...]

# He et al. networks: conv1, bn1, layer1.0.conv1 ... linear (or fc)
_RESNET: Names = (
    (r"^conv1\.", "stem.0."),
    (r"^bn1\.", "stem.1."),
    (r"\.conv1\.", ".body.0."),
    (r"\.bn1\.", ".body.1."),
    (r"\.conv2\.", ".body.3."),
    (r"\.bn2\.", ".body.4."),
    (r"^(linear|fc)\.", "head."),
)
# pre-activation networks: layer1.layer.0.bn1 ... bn1, linear
_WIDE: Names = (
    (r"^conv1\.", "stem."),
    (r"^bn1\.", "last.0."),
    (r"\.layer\.", "."),
    (r"\.bn1\.", ".first.0."),
    (r"\.conv1\.", ".body.0."),
    (r"\.bn2\.", ".body.1."),
    (r"\.conv2\.", ".body.3."),
    (r"\.convShortcut\.", ".shortcut."),
    (r"^linear\.", "head."),
)


def load_checkpoint(path: Path, classes: int = 10) -> Array:
    """The network of a weights-only npz named like cifar10__resnet20__source.npz, ready to evaluate."""
    kind = path.stem.split("__")[1]
    with np.load(path) as file:
        weights = {key: torch.from_numpy(file[key]) for key in file.files}
    resnet, wide = re.fullmatch(r"resnet(\d+)", kind), re.fullmatch(r"wrn(\d+)-(\d+)", kind)
    if resnet:
        shortcut = "B" if any("shortcut" in key for key in weights) else "A"
        names = _RESNET
        model: Array = cifar_resnet(int(resnet[1]), classes, shortcut)
    elif wide:
        names = _WIDE
        model = wide_resnet(int(wide[1]), int(wide[2]), classes)
    else:
        raise DataError(f"load_checkpoint: no network for {kind!r} (from the name of {path.name}).")
    renamed = {_renamed(key, names): value for key, value in weights.items()}
    missing, unknown = model.load_state_dict(renamed, strict=False)
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]
    if missing or unknown:
        raise DataError(
            f"load_checkpoint: {path.name} does not fit {kind}: missing {missing}, unknown {unknown}."
        )
    return model.eval()


def _renamed(key: str, names: Names) -> str:
    for pattern, replacement in names:
        key = re.sub(pattern, replacement, key)
    return re.sub(r"^layer(\d)\.", lambda found: f"stages.{int(found[1]) - 1}.", key)
