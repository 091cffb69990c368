"""How expensive the networks are beside each other, before any of them was timed."""

# multiply-adds of one 32x32 image in units of 1e9, raised where memory traffic rather than arithmetic decides
COST = {
    "resnet18": 0.56,
    "resnet34": 1.16,
    "resnet50": 2.3,  # an epoch of pre-training took twice ResNet-34's
    "vgg13_bn": 0.23,
    "vgg16_bn": 0.31,
    "vgg19_bn": 0.40,
    "preresnet20": 0.1,
    "wideresnet28_10": 5.2,
}
