"""Learn the weights that `abstain.combine_signals` ships: src/abstain/data/signal_weights.json.

    python benchmarks/signal_weights.py            prints them
    python benchmarks/signal_weights.py --write    writes the file

Needs ABSTAIN_DATA (llm/mmlu_pro). A logistic model of "right" on the ranks of token probability, stated number, stated
words and length, and their squares, with an intercept for each language model, on one random half of the questions.
Half of the mean of ranks is added, each in units of its spread: that costs nothing on models like those learned on,
and limits the damage on others.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet

from abstain.confidence.logistic import fit_logistic
from abstain.confidence.shipped_weights import ShippedWeights, rank_correlations
from abstain.confidence.signal_ranks import RankReference

TARGET = Path(__file__).parents[1] / "src" / "abstain" / "data" / "signal_weights.json"
COLUMN_OF_ROLE = {
    "token_probability": "logit_perplexity_confidence",
    "stated_number": "verbal_numerical_confidence",
    "stated_words": "verbal_linguistic_confidence",
    "length": "token_length",
}
ROLES = tuple(COLUMN_OF_ROLE)
SIGNALS = ROLES[:3]  # the length is no confidence
FAMILIES = {
    "claude": ("claude",),
    "deepseek": ("deepseek",),
    "gemini": ("gemini",),
    "gemma": ("gemma",),
    "grok": ("grok",),
    "llama": ("llama",),
    "mistral": ("mistral", "mixtral"),
    "openai": ("gpt-", "o1-", "o3-"),
    "phi": ("phi",),
    "qwen": ("qwen",),
}
ROWS_PER_MODEL = 1500
LARGEST_MISSING_IN_LEARNING = 0.1  # models that lack a signal more often are not learned from
LARGEST_MISSING = 0.2
LARGEST_DEVIATION = 2.5
SMALLEST_SPREAD = 0.02  # of a correlation over models
SHARE_OF_MEAN_OF_RANKS = 0.5


class LanguageModel:
    """Answers of one language model: loss (an unanswered question is wrong), inputs by role, category."""

    def __init__(self, path: Path) -> None:
        table = parquet.read_table(path)
        self.name = path.stem
        answers = [table[name].to_pylist() for name in ("correct_answer", "extracted_answer")]
        self.loss = np.asarray([true != given for true, given in zip(*answers)], dtype=np.float64)
        self.category = np.asarray(table["category"].to_pylist())
        self.inputs = {
            role: table[column].to_numpy(zero_copy_only=False).astype(np.float64)
            for role, column in COLUMN_OF_ROLE.items()
        }

    @property
    def family(self) -> str:
        return next(
            family for family, words in FAMILIES.items() if any(w in self.name.lower() for w in words)
        )

    @property
    def signals(self) -> list[str]:
        """The signals it has: present in some rows, with more than two values."""
        return [role for role in SIGNALS if len(np.unique(_known(self.inputs[role]))) > 2]

    @property
    def is_usable(self) -> bool:
        """Has it a signal, and right and wrong answers?"""
        return bool(self.signals) and 0 < self.loss.mean() < 1


def _known(column: np.ndarray) -> np.ndarray:
    return column[~np.isnan(column)]


def load_models() -> list[LanguageModel]:
    folder = Path(os.environ["ABSTAIN_DATA"]) / "llm" / "mmlu_pro"
    models = [LanguageModel(path) for path in sorted(folder.glob("*.parquet"))]
    return [model for model in models if model.is_usable]


def halves_of_questions(count: int = 12_032) -> tuple[np.ndarray, np.ndarray]:
    """Questions to learn weights on, and questions to judge on: the same for all models."""
    shuffled = np.random.default_rng(0).permutation(count)
    return shuffled[: count // 2], shuffled[count // 2 :]


def columns_of(
    model: LanguageModel, rows: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, RankReference]]:
    columns = {role: column[rows] for role, column in model.inputs.items()}
    return columns, {role: RankReference.of(column) for role, column in columns.items()}


def learn_weights(models: list[LanguageModel], rows: np.ndarray, learned_on: str) -> ShippedWeights:
    """Weights from these models with all three signals, on these questions."""
    rows = np.random.default_rng(1).permutation(rows)[:ROWS_PER_MODEL]
    designs, targets, correlations, mean_ranks = [], [], [], []
    for model in models:
        if len(model.signals) < len(SIGNALS):
            continue
        columns, references = columns_of(model, rows)
        if max(reference.missing for reference in references.values()) > LARGEST_MISSING_IN_LEARNING:
            continue
        ranks = [references[role].rank(columns[role]) for role in ROLES]
        is_missing = [np.isnan(columns[role]).astype(np.float64) for role in ROLES]
        designs.append(np.column_stack([*ranks, *(rank * rank for rank in ranks), *is_missing]))
        targets.append(1 - model.loss[rows])
        correlations.append(rank_correlations(columns, references))
        mean_ranks.append(np.mean([rank * (1 - gap) for rank, gap in zip(ranks[:3], is_missing[:3])], axis=0))
    model_count = len(designs)
    intercepts = np.repeat(np.eye(model_count), len(rows), axis=0)
    design = np.column_stack([np.concatenate(designs) - 0.5, intercepts])
    column_count = designs[0].shape[1]
    penalty = np.concatenate([np.ones(column_count), np.full(model_count, 1e-3)])
    target = np.concatenate(targets)
    weights = fit_logistic(design, target, np.ones(len(target)), penalty)[:column_count]
    weights /= np.mean([(x @ weights).std() for x in designs])
    linear, square, missing = weights.reshape(3, len(ROLES))
    added = SHARE_OF_MEAN_OF_RANKS / len(SIGNALS) / np.mean([x.std() for x in mean_ranks])
    linear[: len(SIGNALS)] += added
    missing[: len(SIGNALS)] -= 0.5 * added
    return ShippedWeights(
        version=1,
        signals=ROLES,
        linear=linear.round(4),
        square=square.round(4),
        missing=missing.round(4),
        largest_missing=LARGEST_MISSING,
        correlation=np.mean(correlations, axis=0).round(4),
        spread=np.maximum(np.std(correlations, axis=0), SMALLEST_SPREAD).round(4),
        largest_deviation=LARGEST_DEVIATION,
        learned_on=learned_on.format(model_count=model_count),
    )


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    learning_rows, _ = halves_of_questions()
    weights = learn_weights(
        load_models(), learning_rows, "{model_count} language models' answers to 1,500 questions of MMLU-Pro"
    )
    print(weights)
    print(weights.to_json())
    if options.write:
        TARGET.write_text(weights.to_json() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
