"""Hugging Face: tune a trained model for selective prediction, and keep the result only if it ranks errors better."""

import torch
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from abstain.torch import Tuned
from abstain.torch.huggingface import TrainerTuning, trainer_loss


def sentences(n: int) -> list[dict]:
    """Five tokens each; the label is the third of the vocabulary that most of them come from."""
    part = torch.randint(0, 3, (n,))
    third = torch.where(torch.rand(n, 5) < 0.6, part[:, None], torch.randint(0, 3, (n, 5)))
    tokens = 10 * third + torch.randint(1, 10, (n, 5))
    return [{"input_ids": t, "labels": y} for t, y in zip(tokens, part)]


def main(folder: str = "checkpoints", epochs: int = 6) -> Tuned:
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertForSequenceClassification(BertConfig(vocab_size=40, num_labels=3, **size))
    same = {"report_to": [], "use_cpu": True, "save_strategy": "no", "per_device_train_batch_size": 32}
    data = sentences(600)
    first = TrainingArguments(folder, num_train_epochs=3, learning_rate=1e-2, **same)
    Trainer(model, first, train_dataset=data).train()
    tuning = TrainerTuning(DataLoader(sentences(1000), 500))
    constant = {"learning_rate": 1e-3, "lr_scheduler_type": "constant"}
    then = TrainingArguments(folder, num_train_epochs=epochs, **constant, **same)
    Trainer(
        model, then, train_dataset=data, compute_loss_func=trainer_loss(mix=0.5), callbacks=[tuning]
    ).train()
    return tuning.result


if __name__ == "__main__":
    print(main())
