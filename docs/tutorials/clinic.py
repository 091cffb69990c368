# %% [markdown]
# # A clinical classifier: groups, patients, a record and a monitor
#
# For a clinician or a hospital's engineer: a model reads images, and below some confidence a person must look.
#
# - **You have** cases with the model's answer, its confidence and the truth: some patients with several images, some
#   groups of patients that are harder.
# - **You want** a rule that the ethics board can read, that holds in every group, and that tells you when it stops to hold.
# - **You do**: see what a small set can promise, take patients as what is drawn, give every group its own threshold, file
#   the decision, and check it month by month.
#
# The first part uses real data that come with scikit-learn: 569 breast biopsies from Wisconsin. They have one row per
# patient and no groups, so the rest is a **simulation**, and says so: patients with several mammograms, in two age groups.
# No number on this page is a medical result.

# %%
from datetime import UTC, datetime

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import abstain

# %% [markdown]
# ## What can 285 biopsies promise?
#
# Half of the biopsies train the model, the other half choose the threshold: a guarantee needs cases that were not used for
# training.

# %%
data = load_breast_cancer()
malignant = (data.target == 0).astype(int)
X_train, X_cal, y_train, y_cal = train_test_split(
    data.data, malignant, test_size=0.5, stratify=malignant, random_state=0
)
model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1)).fit(X_train, y_train)
score = model.decision_function(X_cal)
prediction = (score > 0).astype(int)
confidence = np.abs(score)  # distance from the border between the two answers
wrong = prediction != y_cal
print(f"If all {len(y_cal)} cases are answered, {wrong.sum()} answers are wrong.")

for risk in (0.005, 0.02, 0.05):  # the error rate that is acceptable among the answered
    threshold = abstain.select_threshold(wrong, confidence, risk=risk, delta=0.1)
    if threshold.feasible:
        coverage, error_rate = f"{threshold.coverage:.0%}", f"{threshold.risk:.1%}"
        print(
            f"At most {risk:.1%} errors: answer {coverage}; {error_rate} are wrong here."
        )
    else:
        print(f"At most {risk:.1%} errors: no threshold. {threshold.advice}")

# %% [markdown]
# A small set can promise little, however good the model is: if all of 100 answers are right, the error rate may still be
# 3%. The advice says how many cases the promise would need.
#
# Physicians ask for sensitivity and predictive values. `clinical_table` has them for the answered cases, with intervals:

# %%
clinical = abstain.clinical_table(
    y_cal, prediction, confidence, thresholds=[0.0, float(threshold.value)]
)
columns = clinical.frame("dict")
for place, name in enumerate(("all answered", "at most 5% errors")):
    print(f"{name}: coverage {columns['coverage'][place]:.1%}")
    for measure in ("sensitivity", "specificity", "ppv", "npv"):
        value, low, high = (
            columns[key][place] for key in (measure, f"{measure}_low", f"{measure}_high")
        )
        print(f"  {measure:<12} {value:.1%} [{low:.1%}, {high:.1%}]")

# %% [markdown]
# ## A screening programme (simulated)
#
# 3,000 women, each with one to five mammograms. Images of one woman are alike: if the model is misled by her tissue once,
# it is misled again. In women under 50 the tissue is denser, and the model's signal weaker.


# %%
def simulate(patients, seed, weaker=0.0):
    """Images with answer and confidence; `weaker` is taken off the model's signal."""
    rng = np.random.default_rng(seed)
    images = rng.integers(1, 6, patients)
    patient = np.repeat(np.arange(patients), images) + 10_000 * seed
    age = np.repeat(
        np.where(rng.random(patients) < 0.35, "under 50", "50 and over"), images
    )
    sick = np.repeat(rng.random(patients) < 0.2, images).astype(int)
    strength = np.where(age == "under 50", 2.2, 3.2) - weaker
    misled = np.repeat(
        rng.normal(scale=0.9, size=patients), images
    )  # the same for all images of a woman
    evidence = (
        (2 * sick - 1) * strength + misled + rng.normal(scale=1.2, size=len(patient))
    )
    answer = (evidence > 0).astype(int)
    return {
        "patient": patient, "age": age, "truth": sick, "answer": answer,
        "confidence": np.abs(evidence), "wrong": (answer != sick).astype(float),
    }  # fmt: skip


cases = simulate(3000, seed=1)
women = len(np.unique(cases["patient"]))
images = len(cases["patient"])
print(f"{images:,} images of {women:,} women, {cases['wrong'].mean():.2%} wrong")

# %% [markdown]
# ## Women are drawn, not images
#
# The next woman is a new draw; her fourth image is not. With `clusters=` the interval knows that.

# %%
for title, clusters in (("images as draws", None), ("women as draws", cases["patient"])):
    interval = abstain.interval(
        "risk", cases["wrong"], cases["confidence"], clusters=clusters
    )
    low, high = f"{interval.low:.2%}", f"{interval.high:.2%}"
    print(f"error rate, {title}: {interval.estimate:.2%} [{low}, {high}]")

# %% [markdown]
# ## Is every group served?

# %%
table = abstain.evaluate(
    loss=cases["wrong"],
    confidence=cases["confidence"],
    groups=cases["age"],
    clusters=cases["patient"],
    metrics=["risk", "aurc", "risk_at_coverage@0.8"],
)
print(table)

# %% [markdown]
# A threshold for all would be too low for one group: the promise would hold on average, and be broken for the younger women.
# So each group gets its own, and both promises hold together with probability 90%.

# %%
common = abstain.select_threshold(
    cases["wrong"], cases["confidence"], risk=0.02, delta=0.1, clusters=cases["patient"]
)
rules = abstain.select_threshold(
    cases["wrong"],
    cases["confidence"],
    risk=0.02,
    delta=0.1,
    groups=cases["age"],
    clusters=cases["patient"],
)
for group in ("50 and over", "under 50"):
    in_group = cases["age"] == group
    accepted = common.accepts(cases["confidence"]) & in_group
    error_rate, rule = cases["wrong"][accepted].mean(), rules[group]
    print(f"{group:<12} one threshold for all: {error_rate:.2%} wrong.", end=" ")
    print(f"Its own: answer {rule.coverage:.0%}, {rule.risk:.2%} wrong here.")

# %%
# Error rate of the answered images against coverage, in both age groups
curves = {}
for group in ("50 and over", "under 50"):
    rows = cases["age"] == group
    curves[group] = abstain.risk_coverage_curve(
        cases["wrong"][rows], cases["confidence"][rows]
    )
ax = abstain.RiskCoverageDisplay.from_curves(curves).plot(size=(6.4, 3.4))
_ = ax.axhline(0.02, color="0.45", linewidth=1)

# %% [markdown]
# ## File the decision
#
# The record is a page of plain text for people who were not there: the rule, the promise, the data, what is assumed, what
# voids it and how to check it.

# %%
rules.save("mammograms.json")
record = abstain.decision_record(
    rules, saved_as="mammograms.json", date=datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
)
print(record.partition("## The data")[0])  # the first half of the page

# %% [markdown]
# ## Watch it
#
# Each month the biopsies of earlier cases come back. From the fifth month on, a new scanner weakens the signal (simulated).
# `check` may be called every month, for years: the whole series raises a false alarm with probability at most 10%.

# %%
deployed = abstain.load_rule("mammograms.json")
seen = None
for month in range(1, 9):
    new = simulate(600, seed=1 + month, weaker=0.0 if month < 5 else 0.9)
    seen = deployed.check(
        new["wrong"],
        new["confidence"],
        new["age"],
        clusters=new["patient"],
        previous=seen,
    )
    accepted = deployed.accepts(new["confidence"], new["age"])
    alarms = [
        group
        for group, check in seen.checks.items()
        if check is not None and not check.holds
    ]
    error_rate = new["wrong"][accepted].mean()
    print(f"month {month}: {error_rate:.2%} of the answered are wrong; alarm: {alarms}")

# %% [markdown]
# ## What it says, and what it does not say
#
# - It says: of the images answered in each age group, at most 2% are wrong, for women like those who were studied.
# - It does not say which error is worse. A missed cancer and a false alarm count the same here; give your own losses to
#   `select_threshold` (`bounded=`), or promise several things at once ([how](../ship.md)).
# - It does not hold for a hospital that was not studied, nor for a new scanner. The check finds such a change after some
#   labels, not before.
# - Labels that come only for some cases (only for women who were called back) make every number on this page wrong. See
#   [weights](../ship.md).
#
# Next: [when should the model not answer](../ship.md), [does the guarantee still hold](../monitoring.md),
# [clinical numbers](../clinical.md).
