"""Which risks can be promised, and what to say of others; needs no numpy."""


def percent_hint(value: float) -> str:
    """A sentence for a message if the number looks like a percentage, with a space in front; otherwise empty."""
    return f" Write {value / 100:g} for {value:g}%." if 1 <= value < 100 else ""


def explain_wrong_risk(value: float, low: float = 0.0, high: float = 1.0) -> str:
    """Say what is wrong with a risk to be promised, to follow its name in a message; the empty text if nothing is.

    `low` and `high` are the bounds of the loss. Every mean loss is at most `high`, so `high` promises nothing.
    """
    if low <= value < high:
        return ""
    if value < low:
        return f"must be at least {low:g}, the smallest possible loss, got {value:g}."
    hint = percent_hint(value) if (low, high) == (0, 1) else ""
    return f"must be below {high:g}, the largest possible loss, got {value:g}.{hint}"
