"""ImageNet outputs from a validation folder and timm's pre-trained networks, where both are installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import DataError, MissingDependencyError
from abstain.paper.datasets.outputs import Outputs

# the paper's networks by their names in timm, all at 224 pixels
TIMM_NAMES = {
    "ViT-Small": "vit_small_patch16_224",
    "ViT-Large": "vit_large_patch16_224",
    "Swin-Tiny": "swin_tiny_patch4_window7_224",
    "Swin-Base": "swin_base_patch4_window7_224",
}
_ENDINGS = (".jpeg", ".jpg", ".png")


def validation_files(folder: Path) -> list[tuple[Path, int]]:
    """Images and class numbers of a folder with one sub-folder per class (sorted names are classes 0, 1, ...)."""
    classes = sorted(part for part in folder.iterdir() if part.is_dir())
    files = [
        (path, number)
        for number, part in enumerate(classes)
        for path in sorted(part.iterdir())
        if path.suffix.lower() in _ENDINGS
    ]
    if not files:
        raise DataError(
            f"validation_files: {folder} must hold one folder per class with images in it, found none."
        )
    return files


def imagenet_outputs(
    model: str, folder: Path, *, batch: int = 64, device: str = "cpu", report: Callable[[str], None] = print
) -> Outputs:
    """Logits of a timm network (by the paper's name or timm's own) on a validation folder."""
    try:
        import timm
    except ImportError:
        raise MissingDependencyError("ImageNet outputs", "timm", "paper") from None
    name = TIMM_NAMES.get(model, model)
    network = timm.create_model(name, pretrained=True).eval().to(device)
    prepare = timm.data.create_transform(**timm.data.resolve_model_data_config(network))
    files = validation_files(folder)
    parts = list(_logits(network, prepare, files, batch, device, report))
    labels = np.array([number for _, number in files])
    return Outputs("imagenet", name, "timm", labels, logits=np.concatenate(parts))


def _logits(
    network: Any,
    prepare: Any,
    files: list[tuple[Path, int]],
    batch: int,
    device: str,
    report: Callable[[str], None],
) -> Iterator[np.ndarray]:
    import torch
    from PIL import Image

    with torch.inference_mode():
        for start in range(0, len(files), batch):
            images = [prepare(Image.open(path).convert("RGB")) for path, _ in files[start : start + batch]]
            yield network(torch.stack(images).to(device)).float().cpu().numpy()
            report(f"{start + len(images)} of {len(files)} images")
