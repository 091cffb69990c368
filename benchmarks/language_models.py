"""What 68 language models on 12,032 questions show: the tables of docs/language-results.md.

    python benchmarks/language_models.py            prints them
    python benchmarks/language_models.py --write    puts them on the page, between its marks

Needs ABSTAIN_DATA (llm/mmlu_pro). An unanswered question is wrong and ranked last, and so is an answer without a
confidence, so that all questions count for every model.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np

import abstain
from abstain.formats import Rules, read_predictions

PAGE = Path(__file__).parents[1] / "docs" / "language-results.md"
START, END = "<!-- benchmarks/language_models.py -->\n", "<!-- end -->\n"
SIGNALS = {
    "logit_perplexity_confidence": "token probability",
    "verbal_numerical_confidence": "stated number",
    "verbal_linguistic_confidence": "stated in words",
}
COLUMNS = {
    "labels": "correct_answer",
    "prediction": "extracted_answer",
    "question": "question_index",
    "confidence": ",".join(SIGNALS),
}
RISKS, DELTA = (0.05, 0.1, 0.2), 0.05


class Model:
    """One model: its losses, its signals where it has them, and its answers."""

    def __init__(self, path: Path) -> None:
        read = read_predictions(path, columns=COLUMNS, rules=Rules(unanswered="wrong", missing="last"))
        self.name, self.loss, self.log = read.name, read.loss, read.log
        self.signals = {
            SIGNALS[name]: signal for name, signal in read.signals.items() if len(np.unique(signal)) > 2
        }

    def compared(self, metric: str = "aurc") -> abstain.Comparison | None:
        """Its signals with each other, on the same answers."""
        if len(self.signals) < 2:
            return None
        return abstain.compare({name: (self.loss, g) for name, g in self.signals.items()}, metric=metric)


def models(folder: Path) -> list[Model]:
    found = [Model(path) for path in sorted(folder.glob("*.parquet"))]
    return [model for model in found if model.signals]


def table(head: list[str], rows: list[str]) -> str:
    """In Markdown, numbers to the right."""
    return "\n".join([f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1), *rows])


def best_signals(found: list[Model]) -> str:
    """For how many models each signal is the best, and how much the best is worth."""
    ranked = [(m, c) for m in found if (c := m.compared()) is not None]
    rows = []
    for name in SIGNALS.values():
        have = [(m, c) for m, c in ranked if name in c.names]
        alone = sum(c.winners == (name,) for _, c in have)
        first = sum(c.names[0] == name for _, c in have)
        worst = sum(c.names[-1] == name and c.pair(name, c.names[0]).different for _, c in have)
        naurc = np.array([abstain.naurc(m.loss, m.signals[name]) for m, _ in have])
        bars = [abstain.inference.interval("naurc", m.loss, m.signals[name]) for m, _ in have]
        useless = sum(bar.high >= 1 for bar in bars)
        rows.append(
            f"| {name} | {len(have)} | {first} | {alone} | {worst} | {np.median(naurc):.2f} | {useless} |"
        )
    head = [
        "signal",
        "models",
        "lowest AURC",
        "significantly lowest",
        "highest, significantly above the lowest",
    ]
    return table([*head, "median NAURC", "no better than chance"], rows)


def flips(found: list[Model]) -> tuple[int, int, int, str]:
    """Models whose verdict between stated number and token probability depends on the rule for ties."""
    a, b = SIGNALS["verbal_numerical_confidence"], SIGNALS["logit_perplexity_confidence"]
    both = [m for m in found if a in m.signals and b in m.signals]
    changed, sides, example = 0, 0, ""
    for m in both:
        pairs = [
            c.pair(a, b) for metric in ("aurc", "aurc:expected") if (c := m.compared(metric)) is not None
        ]
        said = [np.sign(p.difference) * p.different for p in pairs]
        changed += said[0] != said[1]
        sides += bool(np.sign(pairs[0].difference) != np.sign(pairs[1].difference))
        if m.name == "gpt-4.1-mini":
            stated = m.log.signals["verbal_numerical_confidence"]
            values = len(np.unique(stated[np.isfinite(stated)]))
            low, high = extremes(m.loss, m.signals[a])
            together, random = (abstain.aurc(m.loss, m.signals[a], ties=t) for t in ("threshold", "expected"))
            token = abstain.aurc(m.loss, m.signals[b])
            example = (
                f"GPT-4.1-mini states {values} different numbers\nin {len(m.loss):,} answers: sorting and cumulating "
                f"gives an AURC between {low:.3f} and {high:.3f}, depending on the\norder of the rows. With ties "
                f"together it is {together:.3f}, in random order {random:.3f}; by token probability {token:.3f}."
            )
    return len(both), changed, sides, example


def extremes(loss: np.ndarray, confidence: np.ndarray) -> tuple[float, float]:
    """What sort-and-cumulate makes of the luckiest and of the unluckiest order of the rows."""
    found = []
    for sign in (1, -1):
        order = np.lexsort((sign * loss, -confidence))
        found.append(float(np.mean(np.cumsum(loss[order]) / np.arange(1, len(loss) + 1))))
    return found[0], found[1]


def certified(found: list[Model]) -> str:
    """What answering only above a threshold certified on half of the questions buys, on the other half."""
    rng = np.random.default_rng(0)
    rows = []
    for signal in SIGNALS.values():
        have = [m for m in found if signal in m.signals]
        for risk in RISKS:
            shares, kept, broken = [], 0, 0
            for m in have:
                half = rng.permutation(len(m.loss))
                fit, later = half[: len(half) // 2], half[len(half) // 2 :]
                g = m.signals[signal]
                rule = abstain.select_threshold(m.loss[fit], g[fit], risk=risk, delta=DELTA)
                if not rule.feasible:
                    continue
                taken = rule.accepts(g[later])
                kept += 1
                shares.append(float(taken.mean()))
                broken += bool(m.loss[later][taken].mean() > risk)
            median = f"{np.median(shares):.0%}" if shares else "–"
            rows.append(f"| {signal} | {risk:.0%} | {kept} of {len(have)} | {median} | {broken} |")
    head = ["signal", "guaranteed error rate", "models with a threshold", "median share answered"]
    return table([*head, "above the guaranteed rate"], rows)


def page(folder: Path) -> str:
    found = models(folder)
    both, changed, sides, example = flips(found)
    answered = [m.log.unanswered for m in found]
    refused = f"{sum(x > 0 for x in answered)} of them left questions unanswered, at most {max(answered):.1%}"
    return f"""{len(found)} models have at least one usable signal on the same {len(found[0].loss):,} questions of
MMLU-Pro. {refused}. An unanswered question counts as
wrong and is ranked last.

**Which signal is best?** The table compares the AURC of each signal of a model, on the same answers, by paired
tests with Holm's correction:

{best_signals(found)}

NAURC is 0 for the best possible ranking and 1 for a random one. "No better than chance" means that its 95% interval
reaches 1.

**How much do ties matter?** {both} models have both a stated number and a token probability. For {changed} of them, the
verdict between the two depends on the rule for ties; for {sides}, even the sign of the difference does. {example}

**How many questions can a model answer with a guarantee?** The threshold is chosen on half of the questions, with a
guarantee that holds with probability {1 - DELTA:.0%}, and used on the other half:

{certified(found)}

The last column counts models whose error rate on the other half is above the guaranteed one. That half has its own
sampling error.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the tables on the page")
    asked = parser.parse_args()
    data = os.environ.get("ABSTAIN_DATA")
    if not data:
        print("ABSTAIN_DATA is not set: no data, no tables.", file=sys.stderr)
        return 1
    text = page(Path(data) / "llm" / "mmlu_pro")
    print(text)
    if asked.write:
        whole = PAGE.read_text()
        before, rest = whole.split(START)
        PAGE.write_text(before + START + "\n" + text + "\n" + END + rest.split(END)[1])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
