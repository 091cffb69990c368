"""VGG networks with batch norm (Simonyan & Zisserman, 2014), the 32x32 form with one linear layer."""

from __future__ import annotations

from torch import nn

from abstain._arrays import Array
from abstain.paper.models.layers import Head, start_like_he

# convolutions per stage; the widths are the same in all of them
_STAGES = {13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_WIDTHS = (64, 128, 256, 512, 512)


class VGG(nn.Module):  # type: ignore[misc]
    """Five stages of 3x3 convolutions, each ended by 2x2 pooling; 32x32 images shrink to one pixel."""

    def __init__(self, depth: int, classes: int) -> None:
        super().__init__()
        layers: list[Array] = []
        inside = 3
        for count, width in zip(_STAGES[depth], _WIDTHS, strict=True):
            for _ in range(count):
                layers += [
                    nn.Conv2d(inside, width, 3, padding=1),
                    nn.BatchNorm2d(width),
                    nn.ReLU(inplace=True),
                ]
                inside = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.head = Head(512, classes)
        start_like_he(self)

    def forward(self, x: Array) -> Array:
        """Logits of a batch of images."""
        return self.head(self.features(x).flatten(1))
