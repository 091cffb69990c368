"""Lightning: the loss in training_step, early stopping and the best checkpoint by AURC and its paired error."""

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset, random_split

from abstain.torch import AURC, AURCLoss
from abstain.torch.lightning import AURCMonitor


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(8, 3)
        self.criterion = AURCLoss()
        self.val_aurc = AURC()

    def training_step(self, batch, _):
        return self.criterion(self.model(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.val_aurc.update(self.model(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main(folder: str = "checkpoints", epochs: int = 60) -> L.Trainer:
    torch.manual_seed(0)
    y = torch.randint(0, 3, (1100,))
    data = TensorDataset(torch.randn(3, 8)[y] + torch.randn(1100, 8), y)
    train, validate = random_split(data, [603, 497])
    monitor = AURCMonitor("val_aurc", patience=3, dirpath=folder)
    trainer = L.Trainer(max_epochs=epochs, callbacks=[monitor], logger=False, default_root_dir=folder)
    trainer.fit(Classifier(), DataLoader(train, 64, shuffle=True), DataLoader(validate, 256))
    print(f"best AURC {monitor.rule.best:.4f}, in {monitor.path}")
    return trainer


if __name__ == "__main__":
    main()
