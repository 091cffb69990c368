"""Where images, texts and model outputs come from."""

from abstain.paper.datasets.images import ImageSet, load_images, packed_cifar10

__all__ = ["ImageSet", "load_images", "packed_cifar10"]
