# %% [markdown]
# # A language model: from its log to a leaderboard, a learned confidence and a cascade
#
# For a researcher or an engineer who has the log of an evaluation: which answers were right, and numbers that may say
# something about it.
#
# - **You have** one file per model: the right answer, the model's answer (or none), and signals: a token probability, a
#   number that the model stated, how decisive its wording is.
# - **You want** to know which model knows best when it is right, to get the most out of the signals, and to let a cheap
#   model answer what it can.
# - **You do**: read the logs, compare the signals of one model, rank the models, learn a confidence from 2,000 labels,
#   and build a cascade with a guarantee.
#
# If `ABSTAIN_DATA` is a folder with `llm/mmlu_pro/`, these are answers of real models to the 12,032 questions of MMLU-Pro
# (Linwei94/LLM-Calibration-Study, MIT licence). Otherwise a simulation of six models with the same columns takes their
# place, and your numbers will differ from those on this page. The first line of output says which data were used.

# %%
import csv
import os
from pathlib import Path

import numpy as np

import abstain
from abstain.formats import Rules, read_predictions

REAL = [
    "gpt-4.1",
    "gpt-4.1-mini",
    "gemini-1.5-pro",
    "gemini-1.5-flash",
    "Qwen3-32B",
    "Qwen3-8B",
]


def simulate_log(path, ability, seed, n=4000):
    """Write answers of a model of this ability; all models get the same questions."""
    questions = np.random.default_rng(0)  # the same questions for all models
    difficulty = questions.normal(size=n)
    subject = questions.choice(["law", "physics", "history"], n)
    own = np.random.default_rng(seed)
    right = own.random(n) < 1 / (
        1 + np.exp(difficulty - ability - 0.5 * (subject == "history"))
    )
    hint = right - 0.5 + own.normal(scale=0.9, size=n)  # what every signal sees
    token = 1 / (1 + np.exp(-1.5 - 0.6 * hint - own.normal(scale=0.6, size=n)))
    stated = (
        np.round(np.clip(0.8 + 0.1 * hint + own.normal(scale=0.06, size=n), 0.05, 1) * 20)
        / 20
    )
    wording = np.round(
        np.clip(0.7 + 0.15 * hint + own.normal(scale=0.1, size=n), 0, 1), 2
    )
    length = own.integers(100, 900, n) + np.where(right, 0, 200)
    answer = np.where(
        own.random(n) < 0.01, "", np.where(right, "A", "B")
    )  # "" is no answer
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["question_index", "category", "correct_answer", "extracted_answer",
             "logit_perplexity_confidence", "verbal_numerical_confidence",
             "verbal_linguistic_confidence", "token_length"]
        )  # fmt: skip
        for row in zip(
            range(n), subject, ["A"] * n, answer, token, stated, wording, length
        ):
            writer.writerow(row)


real = Path(os.environ.get("ABSTAIN_DATA", "")) / "llm" / "mmlu_pro"
if real.exists():
    print("Data: real answers to MMLU-Pro, from ABSTAIN_DATA.")
    logs = {name: real / f"{name}.parquet" for name in REAL}
else:
    print("Data: simulated answers, since ABSTAIN_DATA is not set.")
    logs = {f"simulated {letter}": Path(f"{letter}.csv") for letter in "ABCDEF"}
    for place, path in enumerate(logs.values()):
        simulate_log(path, ability=1.5 - 0.3 * place, seed=place + 1)
expensive, cheap, *_ = logs  # for the cascade below

# %% [markdown]
# ## Read a log
#
# Say which column is what. `-c labels=correct_answer ...` does the same on the command line, and `abstain describe FILE`
# lists the columns of a file that you do not know. Logs of lm-evaluation-harness, Inspect, HELM and others need none of
# this: [they are recognised](../language-models.md#what-is-read).

# %%
SIGNALS = {
    "logit_perplexity_confidence": "token probability",
    "verbal_numerical_confidence": "stated number",
    "verbal_linguistic_confidence": "wording",
}
columns = {
    "labels": "correct_answer",
    "prediction": "extracted_answer",
    "question": "question_index",
    "confidence": ",".join(SIGNALS),
    "features": "token_length",
    "categories": "category",
}
# a question without an answer is wrong; an answer without a signal is ranked last
rules = Rules(unanswered="wrong", missing="last")
answers = {
    name: read_predictions(path, columns=columns, rules=rules)
    for name, path in logs.items()
}
for name, read in answers.items():
    print(f"{name:<17} {read.n:,} questions, {1 - read.loss.mean():.1%} right")

# %% [markdown]
# ## Which signal of one model is best?
#
# We take the model that a service would like to use because it is cheap.

# %%
model = answers[cheap]
print(f"{cheap}:")
by_signal = abstain.compare(
    {SIGNALS[name]: (model.loss, signal) for name, signal in model.signals.items()}
)
print(by_signal)

# %% [markdown]
# AURC is the mean error rate over all coverages; lower is better, and signals that share a letter cannot be told apart. A
# stated number takes few different values, so many answers are tied: they are accepted together. Where a verdict depends
# on how ties are counted, the last line says so.
#
# ## A leaderboard
#
# By accuracy, models are ranked by what they know. By AURC, they are ranked by what they know *and* by how well they know
# what they do not know. Both with paired tests on the same questions:

# %%
by_accuracy = abstain.evaluation.compare_answers(
    {name: 1 - read.loss for name, read in answers.items()}
)
signal = "logit_perplexity_confidence"
by_area = abstain.compare(
    {name: (read.loss, read.signals[signal]) for name, read in answers.items()}
)
for title, ranking in (("accuracy", by_accuracy), ("AURC by token probability", by_area)):
    print(title)
    for model_row in ranking.contestants:
        interval = f"{model_row.estimate:.3f} [{model_row.low:.3f}, {model_row.high:.3f}]"
        print(
            f"  {model_row.ranks:>4}  {model_row.name:<17} {interval}  {model_row.group}"
        )

# %%
# Left: error rate against coverage of six models. Right: differences from the best
panels = by_area.plot_panels()

# %% [markdown]
# The same as a page that can be searched and sorted: `abstain compare *.parquet -c ... --html board.html`
# ([the command](../language-models.md)).
#
# ## A better confidence from 2,000 labels
#
# Each signal says something that the others do not. `learn_confidence` combines them with the length of the answer and the
# subject, and tests on rows that it was not fitted on whether the result is better than the best single signal.

# %%
order = np.random.default_rng(0).permutation(model.n)
fit, rest = order[:2000], order[2000:]


def inputs(read, rows):
    """What is known about these answers without their labels; a missing signal is NaN."""
    known = read.learning_inputs()
    return {
        "signals": {
            SIGNALS[name]: values[rows] for name, values in known["signals"].items()
        },
        "features": {"length": known["features"]["token_length"][rows]},
        "categories": {"subject": known["categories"]["category"][rows]},
    }


learned = abstain.learn_confidence(1 - model.loss[fit], **inputs(model, fit))
print(learned.verdict)

# %%
# Error rate against coverage on the other answers: learned confidence and signals
confidences = {"learned": learned(**inputs(model, rest))}
confidences |= {SIGNALS[name]: values[rest] for name, values in model.signals.items()}
on_the_rest = abstain.compare(
    {name: (model.loss[rest], values) for name, values in confidences.items()}
)
print(
    on_the_rest.pair(
        "learned", next(name for name in on_the_rest.names if name != "learned")
    )
)
ax = on_the_rest.plot(kind="curves", size=(6.4, 3.6))

# %% [markdown]
# The labels that it was learned from are used up: its threshold must be chosen on other answers. `select_threshold` with
# `score=learned` refuses the old ones.

# %%
half = len(rest) // 2
for name in ("token probability", "learned"):
    wrong, confidence = model.loss[rest], confidences[name]
    rule = abstain.select_threshold(wrong[:half], confidence[:half], risk=0.1, delta=0.1)
    if rule.feasible:
        accepted = rule.accepts(confidence[half:])
        share, error_rate = accepted.mean(), wrong[half:][accepted].mean()
        result = f"answers {share:.0%} of later questions, {error_rate:.1%} wrong"
    else:
        result = "no threshold"
    print(f"at most 10% errors by {name}: {result}")

# %% [markdown]
# ## A cascade: the cheap model first
#
# The cheap model (GPT-4.1 mini) answers when it is confident, otherwise the expensive one (GPT-4.1), otherwise a person. We say that the answers cost 1, 5 and
# 100, and that 25% of the models' answers may be wrong, promised with 90%. The thresholds are chosen on half of the
# questions and tried on the other half.

# %%
wrong = {name: answers[name].loss for name in (cheap, expensive)}
sure = {name: answers[name].signals[signal] for name in wrong}
cost = {cheap: 1.0, expensive: 5.0}
calibration, later = order[: model.n // 2], order[model.n // 2 :]
stages = {
    name: (wrong[name][calibration], sure[name][calibration], cost[name])
    for name in wrong
}
cascade = abstain.cascade(stages, risk=0.25, delta=0.1, person=(100.0, 0.0), unit="cents")
print(
    f"cost {cascade.cost:.2f} cents a question; answered by",
    {k: f"{v:.0%}" for k, v in cascade.shares.items()},
)

who = cascade.decide({name: sure[name][later] for name in sure})
errors = np.concatenate([wrong[name][later][who == name] for name in wrong])
print(f"on the other half {errors.mean():.1%} of the models' answers are wrong")
for name in wrong:  # what each model costs if it is the only one
    alone = abstain.select_threshold(*stages[name][:2], risk=0.25, delta=0.1)
    per_question = cost[name] + 100 * (1 - alone.coverage) if alone.feasible else 100.0
    print(f"{name} and a person, without the other model: {per_question:.2f} cents")

# %%
# Least cost for each risk: cascade, each model with a person, a coin between them
curve = abstain.cascades.cost_risk_curve(stages, person=(100.0, 0.0), unit="cents")
ax = curve.plot(size=(6.4, 3.6))

# %% [markdown]
# ## What it says, and what it does not say
#
# - A rank in the leaderboard is a rank on *these* questions. Models that share a letter may change places on others.
# - The gain of a learned confidence is proven for answers of the same model to the same kind of questions. Another prompt
#   is another model.
# - A part of the gain comes from ties: the learned confidence can be cut anywhere, the stated number at few places.
# - The promise of the cascade is about the answers of both models together. It assumes that later questions are draws from
#   the same population, and that costs are what we said.
#
# Next: [language models](../language-models.md), [a better confidence](../better-confidence.md),
# [cascades](../cascades.md).
