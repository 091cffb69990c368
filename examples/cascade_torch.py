"""A small network answers when it is confident, otherwise a large one, otherwise a person.

Two PyTorch networks read handwritten digits (scikit-learn's). With probability 95% at most 8% of the answers are wrong,
at the lowest cost: 1 for an answer of the small network, 20 for the large one, 200 for a person.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

import abstain

WIDTHS = {"small": 4, "large": 128}
COSTS = {"small": 1.0, "large": 20.0}


@torch.enable_grad()
def train_network(width: int, images: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    """A trained network with one hidden layer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=1e-3)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return model.eval()


@torch.no_grad()
def main() -> tuple[abstain.Cascade, float]:
    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, calibration, new = order[:500], order[500:1500], order[1500:]
    images = images.float() / 16
    models = {name: train_network(width, images[train], labels[train]) for name, width in WIDTHS.items()}
    stages = {name: {"logits": models[name](images[calibration]), "cost": COSTS[name]} for name in models}
    rule = abstain.cascade(stages, labels=labels[calibration], risk=0.08, person=(200.0, 0.0))
    print(rule)

    small_logits = models["small"](images[new])
    passed_on = torch.tensor(rule.decide(logits={"small": small_logits}) != "small")
    large_logits = models["large"](images[new][passed_on])  # the large network sees only these
    stage = rule.decide(logits={"small": small_logits[passed_on], "large": large_logits})
    answers = small_logits.argmax(1)
    answers[passed_on] = large_logits.argmax(1)
    answered = ~passed_on
    answered[passed_on] = torch.tensor(stage != "person")
    error_rate = (answers != labels[new])[answered].float().mean().item()
    print(f"\nOf {len(new)} new images the large network saw {int(passed_on.sum())},")
    print(f"{int(answered.sum())} were answered, {error_rate:.1%} of these wrongly.")
    return rule, error_rate


if __name__ == "__main__":
    main()
