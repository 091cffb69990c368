"""Names of columns, and the roles that they state: labels, confidence, ...

This file loads no numpy, so that the command line can list the roles quickly.
"""

from __future__ import annotations

import re

from abstain.errors import InputError

# Role -> names of columns that state it; names are compared after `normalise_name`.
COLUMN_NAMES: dict[str, tuple[str, ...]] = {
    "logits": ("logits", "y_logits", "logit"),
    "probs": ("probs", "probabilities", "probability", "y_probs", "y_prob", "y_proba", "proba", "pred_probs"),
    "labels": ("labels", "label", "y_true", "y", "target", "targets", "true_label", "ground_truth"),
    "prediction": ("prediction", "predictions", "predicted", "pred", "y_pred", "predicted_label"),
    "correct": ("correct", "is_correct"),
    "loss": ("loss", "losses"),
    "error": ("error", "errors", "wrong", "is_error"),
    "confidence": ("confidence", "confidences", "conf"),
    "abstained": ("abstained", "abstain", "refused"),
    "answered": ("answered",),
    "unanswerable": ("unanswerable", "is_unanswerable", "is_impossible", "should_abstain"),
    "answerable": ("answerable", "is_answerable"),  # the same, the other way round
    "question": ("question_id", "question_index", "doc_id"),
    "task": ("task",),
    "epoch": ("epoch",),
    "groups": ("groups", "group", "subgroup"),
    "sample_weight": ("sample_weight", "sample_weights", "weight", "weights"),
    "clusters": ("clusters", "cluster"),
    "cost": (),  # what an answer cost; only a cascade uses it, so no name of a column states it
    "features": (),  # numbers that a confidence is learned from, such as a length; the user names them
    "categories": (),  # labels that a confidence is learned from, such as a topic; the user names them
    "classes": ("classes", "class_names"),
    "ids": ("id", "ids", "sample_id", "row_id", "example_id", "image_id", "question_id", "uid", "index"),
}
ROLES = tuple(COLUMN_NAMES)
"""What a column can be: the arguments of `evaluate`, and what they can be made from."""
UNCERTAINTY = "uncertainty"
"""Name by which a user states a confidence whose sign is to be changed, such as an entropy."""


def normalise_name(name: str) -> str:
    """Return a column name as it is compared: lower case, with blanks, dots, dashes and slashes as underscores."""
    return re.sub(r"[\s.\-/]+", "_", name.strip().lower())


def role_of(name: str) -> str:
    """Return the role (what a column is for, such as "labels") that a name states; InputError where it states none.

    An uncertainty is a confidence with the other sign.

    >>> role_of("group"), role_of("y_true"), role_of("uncertainty")
    ('groups', 'labels', 'confidence')
    """
    # `normalise_name` removes differences of case and marks: "Y-True" and "y_true" are one name
    if normalise_name(name) == UNCERTAINTY:
        return "confidence"
    # a role is stated by its own name or by a familiar name of such columns, all of them as `normalise_name` writes
    # them
    for role, column_names in COLUMN_NAMES.items():
        if normalise_name(name) in (role, *column_names):
            return role
    raise InputError(f"a column's role must be one of {', '.join(ROLES)}, got {name!r}.")
