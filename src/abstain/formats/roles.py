"""What a column can be, and which names of columns say so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from abstain.errors import InputError
from abstain.formats.safety import display_name

# role -> names that state it, compared without case and with - . and blanks as _
NAMES: dict[str, tuple[str, ...]] = {
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
    "question": ("question_id", "question_index", "doc_id"),
    "task": ("task",),
    "epoch": ("epoch",),
    "groups": ("groups", "group", "subgroup"),
    "sample_weight": ("sample_weight", "sample_weights", "weight", "weights"),
    "clusters": ("clusters", "cluster"),
    "classes": ("classes", "class_names"),
    "ids": ("id", "ids", "sample_id", "row_id", "example_id", "image_id", "question_id", "uid", "index"),
}
AGREEMENT = "agreement"  # a confidence made from the answers to repeated questions
ROLES = tuple(NAMES)
"""What a column can be: the arguments of `evaluate`, and what they can be made from."""
_PER_CLASS = {  # one column per class: logit_0, logit_1 ... or prob_cat, prob_dog ...
    "logits": re.compile(r"^(?:y_)?logits?_(.+)$"),
    "probs": re.compile(r"^(?:y_)?(?:probs?|proba|probability|p)_(.+)$"),
}


@dataclass(frozen=True)
class RoleColumns:
    """Columns of one role, in class order, and the class names their own names carry."""

    names: tuple[str, ...]
    suffixes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if len(self.names) > 3:
            return f"{display_name(self.names[0])} ... {display_name(self.names[-1])} ({len(self.names)} columns)"
        return ", ".join(map(display_name, self.names))


def plain(name: str) -> str:
    """A name as it is compared."""
    return re.sub(r"[\s.\-/]+", "_", name.strip().lower())


def states_truth(name: str) -> str | None:
    """The role of a column whose name says that it holds the truth (labels, correct, loss, error); else None."""
    for role in ("labels", "correct", "loss", "error"):
        if plain(name) in (role, *NAMES[role]):
            return role
    return None


def role_of(name: str) -> str:
    """The role that a name states.

    >>> role_of("group"), role_of("y_true")
    ('groups', 'labels')
    """
    for role, names in NAMES.items():
        if plain(name) in (role, *names):
            return role
    raise InputError(f"a column's role must be one of {', '.join(ROLES)}, got {name!r}.")


def _each_role_once(columns: Mapping[str, str]) -> dict[str, str]:
    """Columns by role; two names of one role are refused."""
    by_role: dict[str, str] = {}
    for title, pattern in columns.items():
        role = role_of(title)
        if role in by_role:
            raise InputError(
                f"columns: {role} is given twice, {by_role[role]!r} and {pattern!r}. Name one column."
            )
        by_role[role] = pattern
    return by_role


def in_stated_order(columns: RoleColumns, classes: tuple[str, ...]) -> RoleColumns:
    """The columns in the order of the stated class names, where these are the names that the columns have."""
    if not classes or sorted(classes) != sorted(columns.suffixes):
        return columns
    place = dict(zip(columns.suffixes, columns.names))
    return RoleColumns(tuple(place[name] for name in classes), tuple(classes))


def _in_class_order(names: list[str], suffixes: list[str]) -> RoleColumns:
    """Those that end in 0 ... K-1 by number, where there are such; else all in file order, named by their endings."""
    if len(names) == 1:
        return RoleColumns((names[0],))
    numbered = {int(end): name for end, name in zip(suffixes, names) if end.isdecimal()}
    if len(numbered) > 1 and sorted(numbered) == list(range(len(numbered))):  # beside them, say, logit_scale
        return RoleColumns(tuple(numbered[k] for k in range(len(numbered))))
    return RoleColumns(tuple(names), tuple(suffixes))
