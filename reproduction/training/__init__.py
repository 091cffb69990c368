"""Training selective classifiers: the paper's fine-tuning table."""
