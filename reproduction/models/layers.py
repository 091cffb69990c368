"""The few layers all networks share."""

from __future__ import annotations

import torch
from torch import nn

from abstain._arrays import Array


class Head(nn.Linear):  # type: ignore[misc]
    """Last linear layer, always in float32: bfloat16 logits would tie confidences that differ."""

    def forward(self, x: Array) -> Array:
        """Logits of pooled features."""
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.float())


class ZeroPadShortcut(nn.Module):  # type: ignore[misc]
    """He et al.'s option A: take every second pixel, fill new channels with zeros; no parameters."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.stride, self.before = stride, (outside - inside) // 2
        self.after = outside - inside - self.before

    def forward(self, x: Array) -> Array:
        """Subsample and pad."""
        picked = x[:, :, :: self.stride, :: self.stride]
        return nn.functional.pad(picked, (0, 0, 0, 0, self.before, self.after))


def conv(inside: int, outside: int, size: int, stride: int = 1) -> Array:
    """A convolution that keeps the image size (up to its stride), without bias: batch norm follows or leads."""
    return nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)


def start_like_he(model: Array) -> Array:
    """He initialisation for convolutions, ones and zeros for batch norm."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.ones_(layer.weight)
            nn.init.zeros_(layer.bias)
    return model
