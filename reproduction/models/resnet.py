"""Residual networks with the activation after the sum (He et al., 2016): ResNet-18/34/50 and ResNet-20/56/110/164."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from abstain._arrays import Array
from abstain.paper.models.layers import Head, ZeroPadShortcut, conv, start_like_he


class _Block(nn.Module):  # type: ignore[misc]
    """A residual block: `body` plus `shortcut`, then the activation."""

    growth = 1

    def __init__(self, inside: int, width: int, stride: int, shortcut: str) -> None:
        super().__init__()
        outside = width * self.growth
        self.body = nn.Sequential(*self.layers(inside, width, stride))
        self.shortcut: Array = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = (
                ZeroPadShortcut(inside, outside, stride)
                if shortcut == "A"
                else nn.Sequential(conv(inside, outside, 1, stride), nn.BatchNorm2d(outside))
            )
        self.act = nn.ReLU(inplace=True)

    def layers(self, inside: int, width: int, stride: int) -> list[Array]:
        raise NotImplementedError

    def forward(self, x: Array) -> Array:
        """Residual sum."""
        return self.act(self.body(x) + self.shortcut(x))


class BasicBlock(_Block):
    """Two 3x3 convolutions."""

    def layers(self, inside: int, width: int, stride: int) -> list[Array]:
        """The residual branch."""
        return [
            conv(inside, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            conv(width, width, 3), nn.BatchNorm2d(width),
        ]  # fmt: skip


class Bottleneck(_Block):
    """1x1 down, 3x3, 1x1 up to four times the width."""

    growth = 4

    def layers(self, inside: int, width: int, stride: int) -> list[Array]:
        """The residual branch."""
        return [
            conv(inside, width, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            conv(width, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width),
        ]  # fmt: skip


class ResNet(nn.Module):  # type: ignore[misc]
    """Stem, stages of residual blocks, global mean, linear head."""

    def __init__(
        self,
        block: type[_Block],
        depths: Sequence[int],
        widths: Sequence[int],
        classes: int,
        shortcut: str = "B",
    ) -> None:
        super().__init__()
        inside = widths[0]
        self.stem = nn.Sequential(conv(3, inside, 3), nn.BatchNorm2d(inside), nn.ReLU(inplace=True))
        stages = []
        for i, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            blocks = []
            for j in range(depth):
                blocks.append(block(inside, width, 2 if i and not j else 1, shortcut))
                inside = width * block.growth
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.head = Head(inside, classes)
        start_like_he(self)

    def forward(self, x: Array) -> Array:
        """Logits of a batch of images."""
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


def resnet(depth: int, classes: int) -> ResNet:
    """ResNet-18, -34 or -50 with a 3x3 stem and no pooling, as is usual for 32x32 images."""
    depths = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}[depth]
    return ResNet(Bottleneck if depth == 50 else BasicBlock, depths, (64, 128, 256, 512), classes)


def cifar_resnet(depth: int, classes: int, shortcut: str = "A") -> ResNet:
    """He et al.'s thin CIFAR network: basic blocks up to depth 110, bottlenecks for 164."""
    block, layers = (Bottleneck, 9) if depth >= 164 else (BasicBlock, 6)
    each = (depth - 2) // layers
    # zero padding cannot serve a bottleneck's first shortcut alone, so those networks use projections
    return ResNet(block, (each,) * 3, (16, 32, 64), classes, "B" if block is Bottleneck else shortcut)
