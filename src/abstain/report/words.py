"""Sentences for the reader: what was found, what ties do, how each number was made."""

from __future__ import annotations

from abstain.report.content import Content, ModelContent


def percent(value: float, digits: int = 1) -> str:
    """A share for people; small ones keep two significant digits.

    >>> percent(0.8512), percent(0.00123), percent(0.0)
    ('85.1%', '0.12%', '0.0%')
    """
    if 0 < abs(value) < 10 ** -(digits + 1):
        return f"{100 * value:.2g}%"
    return f"{100 * value:.{digits}f}%"


def summary(content: Content) -> list[str]:
    """The findings in a few sentences."""
    told = []
    comparison = content.comparison
    if len(content.models) == 1:
        model = content.models[0]
        first = model.evaluation[model.score, model.evaluation.losses[0], "aurc"]
        bar = (
            f", {content.level:.0%} interval {first.low:.3g} to {first.high:.3g}"
            if first.low is not None
            else ""
        )
        told.append(f"{model.read.name} has AURC {first.estimate:.3g}{bar} (lower is better).")
        told.append(_gain(model))
        return told
    if comparison is not None:
        best = comparison.contestants[0]
        told.append(
            f"{best.name} ranks first with AURC {best.estimate:.3g}"
            + (
                f" ({content.level:.0%} interval {best.low:.3g} to {best.high:.3g})."
                if best.low is not None
                else "."
            )
        )
        rivals = [name for name in comparison.winners if name != best.name]
        if rivals:
            told.append(f"With these data it cannot be told apart from {_listed(rivals)}.")
        else:
            told.append("No other model can be as good, as far as the tests can tell.")
        told.append(_gain(next(m for m in content.models if m.read.name == best.name)))
    return told


def _gain(model: ModelContent) -> str:
    curve = model.curve
    at = int(min(range(len(curve.coverage)), key=lambda i: abs(curve.coverage[i] - 0.8 * curve.coverage[-1])))
    whole, less = float(curve.risk[-1]), float(curve.risk[at])
    name = "error rate" if model.zero_one else "mean loss"
    show = percent if model.zero_one else (lambda x: f"{x:.4g}")
    return (
        f"Answering everything, its {name} is {show(whole)}; "
        f"answering the surest {percent(float(curve.coverage[at]), 0)}, {show(less)}."
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def ties(model: ModelContent) -> list[str]:
    """What equal confidences mean for this model."""
    n, steps = model.curve.n, model.steps
    top = int(model.curve.count[0])
    told = []
    if model.distinct == n:
        told.append(f"All {n:,} samples have different confidences ({model.score}): nothing ties.")
    else:
        told.append(f"{n:,} samples share {model.distinct:,} different confidences ({model.score}).")
    if top > 1:
        told.append(
            f"{top:,} of them ({percent(top / n)}) tie at the very top, {steps.shown[0]}. No threshold can separate "
            f"them, so coverage starts at {percent(float(model.curve.coverage[0]))}, and the risk there, "
            f"{percent(float(model.curve.risk[0])) if model.zero_one else f'{model.curve.risk[0]:.4g}'}, "
            f"is that of the smallest set that can be accepted. A program that sorts and cumulates would give a number "
            f"that depends on the order of the rows."
        )
    told += [note for note in model.evaluation.notes if "tie at the top of" not in note]
    return told


def estimator_note(name: str) -> str:
    """What an estimator of AURC is."""
    return {
        "harmonic": "the classical empirical AURC: the mean of all selective risks",
        "log": "weights -ln(1 - rank/(n + 1))",
        "loo": "leave-one-out: the least biased; intervals are centred here",
        "sele": "rank/n: this is the empirical AUGRC, a different area, shown for comparison",
    }[name]
