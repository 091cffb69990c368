"""Plain PyTorch: AURC as the loss, AURC with an error bar as the validation metric."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from abstain.torch import AURC, AURCLoss, LinearWarmup


def main(epochs: int = 8) -> float:
    torch.manual_seed(0)
    centres = torch.randn(3, 8) * 1.5
    y = torch.randint(0, 3, (1100,))
    x = centres[y] + torch.randn(1100, 8)
    train = DataLoader(TensorDataset(x[:603], y[:603]), batch_size=64, shuffle=True)  # the last batch has 27

    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    criterion = AURCLoss(mix=LinearWarmup(3))  # cross-entropy at first, AURC from the third epoch on
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    metric = AURC()
    for epoch in range(epochs):
        for inputs, target in train:
            optimiser.zero_grad()
            criterion(model(inputs), target).backward()
            optimiser.step()
        criterion.step()
        with torch.no_grad():
            metric.update(model(x[603:]), y[603:])
        print(f"epoch {epoch}: {metric.compute_with_interval()}")
        value = metric.compute().item()
        metric.reset()
    return value


if __name__ == "__main__":
    main()
