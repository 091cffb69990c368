"""Hugging Face Trainer: the loss, AURC among the evaluation metrics, stopping by its paired error."""

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from abstain.torch.huggingface import AURCStopping, TrainerMetrics, trainer_loss


def sentences(n: int) -> list[dict]:
    """Five tokens each; the label is the third of the vocabulary that most of them come from."""
    part = torch.randint(0, 3, (n,))
    third = torch.where(torch.rand(n, 5) < 0.6, part[:, None], torch.randint(0, 3, (n, 5)))
    tokens = 10 * third + torch.randint(1, 10, (n, 5))
    return [{"input_ids": t, "labels": y} for t, y in zip(tokens, part)]


def main(folder: str = "checkpoints", epochs: int = 6) -> Trainer:
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertForSequenceClassification(BertConfig(vocab_size=40, num_labels=3, **size))
    batches = {"per_device_train_batch_size": 32, "per_device_eval_batch_size": 200, "learning_rate": 1e-2}
    often = {"eval_strategy": "epoch", "logging_strategy": "epoch", "save_strategy": "no"}
    metrics = TrainerMetrics()
    trainer = Trainer(
        model,
        TrainingArguments(folder, num_train_epochs=epochs, report_to=[], use_cpu=True, **batches, **often),
        train_dataset=sentences(300),
        eval_dataset=sentences(200),
        compute_loss_func=trainer_loss(estimator="loo"),
        compute_metrics=metrics,
        callbacks=[AURCStopping(metrics, patience=3)],
    )
    trainer.train()
    return trainer


if __name__ == "__main__":
    main()
