"""A learned confidence of logits as a module: the same numbers as in numpy, on any device."""

from __future__ import annotations

import torch

from abstain.confidence import LearnedConfidence
from abstain.confidence.boosted_trees import LEAVES_PER_TREE, QUESTIONS_PER_TREE
from abstain.confidence.logit_features import features_of_rows
from abstain.confidence.model_columns import ColumnPlan
from abstain.errors import InputError


class ConfidenceHead(torch.nn.Module):  # type: ignore[misc]
    """Computes a confidence that `abstain.learn_confidence` learned from logits, inside a network.

    Its weights are buffers: they move with the module and are not trained.

    Parameters
    ----------
    learned : LearnedConfidence
        Learned from logits alone; anything but the p-norm was kept.

    Raises
    ------
    InputError
        If the confidence reads signals, features or categories, or was learned from probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> import abstain
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(2000, 3)) * [3.0, 1.0, 1.0]
    >>> right = rng.random(2000) < np.where(logits.argmax(1) == 0, 0.95, 0.5)
    >>> learned = abstain.learn_confidence(right, logits=logits)
    >>> head = ConfidenceHead(learned)
    >>> confidence = head(torch.tensor(logits))
    >>> bool(np.allclose(confidence.numpy(), learned(logits=logits), atol=1e-6))
    True
    """

    slopes: torch.Tensor
    constant: torch.Tensor
    tree_leaves: torch.Tensor

    def __init__(self, learned: LearnedConfidence) -> None:
        """Copy the numbers of the kept model: a linear model, alone or with trees, or a temperature of max softmax."""
        super().__init__()
        if learned.inputs != ("logits",):
            raise InputError(
                f"ConfidenceHead: the confidence must be learned from logits alone, got {', '.join(learned.inputs)}."
            )
        self.class_count = learned.model.profile.class_count  # of the logits that it was learned from
        self.fingerprint = learned.fingerprint  # names this confidence; a rule made for one refuses another
        self.temperature = 1.0  # max softmax is that of logits divided by it; not used with a linear model
        # a linear model or a single score with its parameter, whichever was kept: at least one of them is None
        linear = learned.model.linear
        single = learned.model.single
        trees = learned.model.trees  # None unless there is a linear model, to which they are added
        self.is_linear = linear is not None
        # flags: which kinds of inputs the linear model reads; not used without one
        self.inputs_of_linear_model = ColumnPlan() if linear is None else linear.plan
        # of the linear model: one slope per input, in the order in which `forward` joins them
        slopes = torch.zeros(0, dtype=torch.float64)
        constant = 0.0
        if linear is not None:
            # its weights are those of standardised columns, (column - centre) / scale
            slopes = torch.as_tensor(linear.weights / linear.scale, dtype=torch.float64)
            constant = float(linear.intercept - (linear.weights / linear.scale) @ linear.centre)
        elif single is not None and single.score == "max_softmax":
            # the parameter of max softmax is its temperature
            self.temperature = 1.0 if single.parameter is None else float(single.parameter)
        else:
            raise InputError(
                f"ConfidenceHead: the confidence must be a model of logits or max softmax, got {learned.kept!r}."
            )
        # What the trees ask, three questions for each tree in turn: a column, and the cut that it must lie above for a
        # yes, or the class that it must be. Columns are the features of the logits, then the predicted class and the
        # class with the second largest logit. Each tree has eight leaves, for all combinations of answers: a yes to its
        # first question counts 4 in the number of the leaf, to the second 2, to the third 1.
        self.questions: list[tuple[int, float]] = []
        leaves = torch.zeros(0, dtype=torch.float64)  # a vector, eight values for each tree in turn
        if trees is not None:
            self.questions = list(zip(trees.columns.tolist(), trees.cuts.tolist()))
            leaves = torch.as_tensor(trees.leaves, dtype=torch.float64)
        self.register_buffer("slopes", slopes)
        self.register_buffer("constant", torch.tensor(constant, dtype=torch.float64))
        self.register_buffer("tree_leaves", leaves)

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        """Return one confidence per row of logits, shape (n, K), higher = surer, in double precision.

        It is that of the linear model, plus the sum of its boosted trees if it has some. If max softmax was kept in
        learning, alone or at another temperature, there is no linear model, and the confidence is -log(1 - p) of the
        largest probability p. Raises InputError if the number of classes is not that of learning.
        """
        if logits.ndim != 2 or logits.shape[1] != self.class_count:
            raise InputError(
                f"ConfidenceHead: `logits` must have shape (n, {self.class_count}), got {tuple(logits.shape)}."
            )
        rows = logits.double()
        if not self.is_linear:
            return _minus_log_error_probability(rows / self.temperature)
        # logits, unlike probabilities, have an overall size, for which the model has learned weights
        features = features_of_rows(torch, rows, has_size=True)
        predicted = rows.argmax(1)
        is_prediction = torch.nn.functional.one_hot(predicted, logits.shape[1])
        runner_up = rows.masked_fill(is_prediction.bool(), float("-inf")).argmax(1)
        # inputs of the linear model, in the order of `slopes`; `inputs_of_linear_model` has a flag for each kind
        columns = []
        if self.inputs_of_linear_model.logits:  # features of the logits
            columns.append(features)
        if self.inputs_of_linear_model.classes:  # a column of 0/1 for each class: is it the predicted one?
            columns.append(is_prediction.double())
        if self.inputs_of_linear_model.runner_up:  # the same for the class with the second largest logit
            columns.append(torch.nn.functional.one_hot(runner_up, logits.shape[1]).double())
        confidence = self.constant + torch.cat(columns, 1) @ self.slopes
        if self.questions:  # of the boosted trees
            confidence = confidence + self._add_trees(features, [predicted, runner_up])
        return confidence

    def _add_trees(self, features: torch.Tensor, classes: list[torch.Tensor]) -> torch.Tensor:
        """Return the sum of the boosted trees for each row.

        `features` are those of the logits, shape (n, features), `classes` the predicted class of each row and the class
        with the second largest logit. A question of a tree is "is this feature above the cut?" or, for a column beyond
        the features, "is the class this one?". The three answers, as bits with the first one highest, number the leaf.
        `self.questions` holds (column, cut or class) three by three, `self.tree_leaves` eight values per tree.
        """
        feature_count = features.shape[1]
        total = torch.zeros(len(features), dtype=torch.float64, device=features.device)
        leaf = torch.zeros(len(features), dtype=torch.int64, device=features.device)
        for number, (column, cut) in enumerate(self.questions):
            if column < feature_count:
                answer = features[:, column] > cut
            else:
                answer = classes[column - feature_count] == cut
            leaf = torch.where(answer, 2 * leaf + 1, 2 * leaf)
            if number % QUESTIONS_PER_TREE == QUESTIONS_PER_TREE - 1:  # the last question of a tree
                tree = number // QUESTIONS_PER_TREE
                total = total + self.tree_leaves[LEAVES_PER_TREE * tree + leaf]
                leaf = torch.zeros_like(leaf)
        return total


def _minus_log_error_probability(logits: torch.Tensor) -> torch.Tensor:
    """-log(1 - p) of the largest softmax probability p of each row: it orders rows as p does and does not saturate."""
    largest, predicted = logits.max(1)
    is_prediction = torch.nn.functional.one_hot(predicted, logits.shape[1]).bool()
    other_logits = logits.masked_fill(is_prediction, float("-inf"))
    log_odds = largest - torch.logsumexp(other_logits, 1)
    # log(1 + e^x); beyond the threshold it is x to all digits
    return torch.nn.functional.softplus(log_odds, threshold=40.0)
