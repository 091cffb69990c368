"""Residual networks with the activation first (He et al., 2016b), and Wide ResNets (Zagoruyko & Komodakis, 2016)."""

from __future__ import annotations

from torch import nn

from abstain._arrays import Array
from abstain.paper.models.layers import Head, conv, start_like_he


class PreBlock(nn.Module):  # type: ignore[misc]
    """norm-relu-conv repeated; the first activation also feeds a projected shortcut."""

    def __init__(self, inside: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outside = 4 * width if bottleneck else width
        self.first = nn.Sequential(nn.BatchNorm2d(inside), nn.ReLU(inplace=True))
        layers = [conv(inside, width, 1 if bottleneck else 3, 1 if bottleneck else stride)]
        if bottleneck:
            layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True), conv(width, width, 3, stride)]
        layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True), conv(width, outside, 1 if bottleneck else 3)]
        self.body = nn.Sequential(*layers)
        projected = stride != 1 or inside != outside
        self.shortcut = conv(inside, outside, 1, stride) if projected else None

    def forward(self, x: Array) -> Array:
        """Residual sum."""
        ready = self.first(x)
        return self.body(ready) + (x if self.shortcut is None else self.shortcut(ready))


class PreResNet(nn.Module):  # type: ignore[misc]
    """Stem, three stages of pre-activation blocks, norm, global mean, linear head."""

    def __init__(self, each: int, widen: int, bottleneck: bool, classes: int) -> None:
        super().__init__()
        inside = 16
        self.stem = conv(3, inside, 3)
        stages = []
        for i, width in enumerate((16 * widen, 32 * widen, 64 * widen)):
            blocks = []
            for j in range(each):
                blocks.append(PreBlock(inside, width, 2 if i and not j else 1, bottleneck))
                inside = 4 * width if bottleneck else width
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.last = nn.Sequential(nn.BatchNorm2d(inside), nn.ReLU(inplace=True))
        self.head = Head(inside, classes)
        start_like_he(self)

    def forward(self, x: Array) -> Array:
        """Logits of a batch of images."""
        return self.head(self.last(self.stages(self.stem(x))).mean((2, 3)))


def preresnet(depth: int, classes: int) -> PreResNet:
    """PreResNet-20/56/110 with basic blocks, PreResNet-164 with bottlenecks."""
    bottleneck = depth >= 164
    return PreResNet((depth - 2) // (9 if bottleneck else 6), 1, bottleneck, classes)


def wide_resnet(depth: int, widen: int, classes: int) -> PreResNet:
    """WideResNet-depth-widen, basic blocks, no dropout."""
    return PreResNet((depth - 4) // 6, widen, False, classes)
