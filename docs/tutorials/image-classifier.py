# %% [markdown]
# # An image classifier: from logits to a shipped threshold
#
# For an engineer who has a trained network and must decide when its answers may be used without a person looking.
#
# - **You have** the network's logits on a test set that it was not trained on, and the labels.
# - **You want** at most 2% errors among the answers that are used, and to use as many as possible.
# - **You do**: look at the errors, choose a confidence, compare with the other network, choose a threshold with a
#   guarantee, save it, and try it on images that were not used for any of this.
#
# The data come with the package: the logits of two ResNet-18 networks on the 10,000 test images of CIFAR-10. Both were
# trained by us for the [reproduction](../paper.md), one with cross-entropy to the end, the other tuned with the AURC loss.
# Every number on this page is printed by the code above it.

# %%
from importlib.resources import files

import numpy as np

import abstain

logits = {}
for name in ("ce", "aurc"):
    stored = np.load(files("abstain") / "data" / f"cifar10_resnet18_{name}.npz")
    logits[name] = stored[
        "logits"
    ]  # float16: half precision, as networks are often served
    labels = stored["labels"].astype(int)

# three parts, for three purposes; the last one plays the customers
choosing, calibration, later = slice(0, 3000), slice(3000, 8000), slice(8000, None)
print({name: array.shape for name, array in logits.items()})

# %% [markdown]
# ## How often is it wrong, and does it know?
#
# `evaluate` computes every confidence that logits can give, and the error rate at full coverage and at 80%.

# %%
scores = ["max_softmax", "softmax_margin", "negative_entropy", "max_logit", "energy"]
table = abstain.evaluate(
    logits["ce"][choosing],
    labels[choosing],
    losses=["zero_one"],
    scores=scores,
    metrics=["risk", "aurc", "risk_at_coverage@0.8"],
)
for score in scores:
    cells = [
        table[score, "zero_one", metric].cell
        for metric in ("risk", "aurc", "risk_at_coverage@0.8")
    ]
    print(f"{score:<17}", "   ".join(cells))
print("lowest AURC:", table.best("aurc").score)

# %% [markdown]
# The first column is the error rate of all answers: it does not depend on the confidence. AURC, the mean error rate over
# all coverages, does. The last column says what an engineer asks first: how often the network is wrong on the 80% of images
# that it is surest about. In brackets are 95% intervals. Confidences whose intervals overlap widely are not worth a
# discussion; `max_softmax` is a safe choice, and the next picture shows how it ranks.

# %%
# Error rate of the answered against coverage, five confidences, logarithmic scale
ax = table.plot(size=(6.4, 3.6), risk_scale="log")

# %% [markdown]
# ## Which network?
#
# Two networks on the same images are compared in pairs, image by image. That sees much smaller differences than two separate
# intervals do.

# %%
networks = {
    "cross-entropy": logits["ce"][choosing],
    "tuned by AURC": logits["aurc"][choosing],
}
comparison = abstain.compare(networks, labels[choosing])
print(comparison)

# %%
# Left: curves of the two networks. Right: their difference of AURC with its interval
panels = comparison.plot_panels(risk_scale="log")

# %% [markdown]
# If the interval of the difference leaves out 0, the data tell the networks apart. If it does not, the sentence below the
# table says about how many images would be needed. Take the better one, or the cheaper one; here we go on with the best of
# the ranking.

# %%
chosen = {"cross-entropy": "ce", "tuned by AURC": "aurc"}[comparison.names[0]]
print("we go on with:", comparison.names[0])

# %% [markdown]
# ## A threshold with a guarantee
#
# The error rate on the accepted images of *this* test set is easy to bring below 2%. The guarantee is about *later* images
# of the same kind: with probability 95%, at most 2% of the accepted answers are wrong. It needs images that were not used
# to choose anything before: the second part.

# %%
rule = abstain.select_threshold(
    logits=logits[chosen][calibration], labels=labels[calibration], risk=0.02, delta=0.05
)
print(
    f"answer {rule.coverage:.1%} of the images; {rule.risk:.2%} of these are wrong here"
)
print(rule.guarantee)

# %%
# Risk against coverage: thresholds that passed the test, the target and the choice
ax = rule.plot(size=(6.4, 3.2))

# %% [markdown]
# What would stricter or looser promises cost? (Decide before you look which one you need. With the same images you may
# look at several, but the 95% is about each one alone.)

# %%
for risk in (0.005, 0.01, 0.02, 0.05):
    other = abstain.select_threshold(
        logits=logits[chosen][calibration], labels=labels[calibration], risk=risk
    )
    verdict = (
        f"answer {other.coverage:.1%} of the images" if other.feasible else "no threshold"
    )
    print(f"at most {risk:.1%} errors: {verdict}")

# %% [markdown]
# ## Ship it
#
# The rule is a small JSON file. Whoever loads it needs numpy and this package, not the network's framework. It stores the
# confidence, the number of classes and the precision of its data, and refuses inputs that do not fit.

# %%
rule.save("rule.json")
deployed = abstain.Threshold.load("rule.json")
accepted = deployed.accepts(logits=logits[chosen][later])
wrong = logits[chosen][later].argmax(axis=1) != labels[later]
print(f"{len(wrong):,} later images: {accepted.mean():.1%} are answered,", end=" ")
print(f"{wrong[accepted].mean():.2%} of these wrongly;")
print(f"of the others, {wrong[~accepted].mean():.1%} would have been wrong")

# %% [markdown]
# ## Keep watching
#
# When labels of deployed images come in, `check` tests whether the promise still holds. It may be called after every batch.
# Here the later images come in four batches; then one batch of noisy logits plays a broken camera.

# %%
check = None
for batch in np.array_split(np.arange(8000, 10000), 4):
    loss = abstain.losses.zero_one(logits[chosen][batch], labels[batch])
    check = deployed.check(loss, logits=logits[chosen][batch], previous=check)
print(check, "\n")

rng = np.random.default_rng(0)
noisy = (logits[chosen][choosing] + rng.normal(scale=4.0, size=(3000, 10))).astype(
    np.float16
)
loss = abstain.losses.zero_one(noisy, labels[choosing])
check = deployed.check(loss, logits=noisy, previous=check)
print(check)

# %% [markdown]
# ## What it says, and what it does not say
#
# - It says: of all later images *like these*, at most 2% of the answered ones are wrong, unless we were unlucky with the
#   5,000 images that chose the threshold, which happens once in twenty times.
# - It does not say that 2% of the *cars* or of the *night pictures* are wrong at most. Ask for `groups=` if you need that.
# - It does not hold for another camera or another country. That is what `check` is for.
#
# Next: [what is guaranteed](../ship.md), [other confidences](../better-confidence.md), [the same on the command
# line](../cli.md).
