"""Lightning: tune a trained network for selective prediction, and keep the result only if it ranks errors better."""

import lightning as L
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from abstain.torch import AURCLoss, Tuned
from abstain.torch.lightning import SelectiveTuning


class Classifier(L.LightningModule):
    def __init__(self, model, rate, criterion):
        super().__init__()
        self.model = model
        self.rate = rate
        self.criterion = criterion

    def training_step(self, batch, _):
        return self.criterion(self.model(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.rate, momentum=0.9)


def main(epochs: int = 20) -> Tuned:
    torch.manual_seed(0)
    x, y = (torch.tensor(part) for part in load_digits(return_X_y=True))
    train, held_out = (DataLoader(p, 32) for p in random_split(TensorDataset(x.float() / 16, y), [900, 897]))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.BatchNorm1d(64), nn.Linear(64, 10))
    plain = {"logger": False, "enable_checkpointing": False, "accelerator": "cpu"}
    L.Trainer(max_epochs=10, **plain).fit(Classifier(model, 0.2, nn.CrossEntropyLoss()), train)
    tuning = SelectiveTuning(held_out)
    trainer = L.Trainer(max_epochs=epochs, callbacks=[tuning], **plain)
    trainer.fit(Classifier(model, 0.02, AURCLoss(mix=0.5)), train)
    return tuning.result


if __name__ == "__main__":
    print(main())
