# %% [markdown]
# # Forecasts: which ones can be used?
#
# For somebody who gets forecasts of a number, each with an interval, and may leave those that are too uncertain.
#
# - **You have** forecasts with the model's own interval, and what came true later.
# - **You want** to know which model knows when it is right, and a rule for which forecasts to use.
# - **You do**: make one loss and one confidence of each forecast. Everything else works as for classes.
#
# If `ABSTAIN_DATA` is a folder with `beyond/flusight.parquet`, these are the weekly hospital admissions for influenza in 53
# US locations, forecast by eight models of the CDC's FluSight hub (MIT licence) from October 2023 to May 2026: the forecasts
# that all eight made, for the current week and up to three weeks ahead. Otherwise a simulation of three models takes their
# place, and your numbers will differ from those on this page. The first line of output says which data were used.

# %%
import os
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import abstain
from abstain.sklearn import SelectiveRegressor


def read_real(path):
    """Forecasts that all models made, in one order: median and width by model, ..."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    keys = np.char.add(
        columns["reference_date"].astype(str), columns["location"].astype(str)
    )
    keys = np.char.add(keys, columns["horizon"].astype(str))
    models = np.unique(columns["model"])
    distinct, counts = np.unique(keys, return_counts=True)
    complete = distinct[counts == len(models)]
    log = {
        name: np.log1p(np.maximum(columns[name].astype(float), 0.0))
        for name in ("median", "q025", "q975", "truth")
    }
    median, width = {}, {}
    for model in models:
        rows = np.flatnonzero(columns["model"] == model)
        sorted_rows = rows[np.argsort(keys[rows])]
        order = sorted_rows[np.searchsorted(keys[sorted_rows], complete)]
        median[model] = log["median"][order]
        width[model] = (log["q975"] - log["q025"])[order]
    about = {
        name: columns[name][order]
        for name in ("location", "target_end_date", "reference_date")
    }
    return median, width, log["truth"][order], about, columns["horizon"][order]


def simulate():
    """Three models, 20 places, 80 weeks; errors of a week or a place go together."""
    rng = np.random.default_rng(0)
    week, place = (grid.ravel() for grid in np.meshgrid(np.arange(80), np.arange(20)))
    truth = 3 + rng.normal(size=len(week))
    together = (
        rng.normal(scale=0.3, size=80)[week] + rng.normal(scale=0.15, size=20)[place]
    )
    median, width = {}, {}
    for model, spread in (
        ("simulated A", 0.3),
        ("simulated B", 0.35),
        ("simulated C", 0.6),
    ):
        scale = spread * rng.uniform(0.4, 1.6, len(week))
        median[model] = truth + scale * rng.normal(size=len(week)) + together
        width[model] = 4 * scale * rng.lognormal(sigma=spread, size=len(week))
    dates = np.array(
        [f"2025-{10 + number // 40}-{number % 40:02d}" for number in range(80)]
    )[week]
    about = {"location": place, "target_end_date": week, "reference_date": dates}
    return median, width, truth, about, np.zeros(len(week), dtype=int)


real = Path(os.environ.get("ABSTAIN_DATA", "")) / "beyond" / "flusight.parquet"
print(
    "Data:",
    "forecasts of the FluSight hub, from ABSTAIN_DATA."
    if real.exists()
    else "simulated.",
)
median, width, truth, about, horizon = read_real(real) if real.exists() else simulate()
location, week, made = (
    about[name] for name in ("location", "target_end_date", "reference_date")
)
places, weeks = len(np.unique(location)), len(np.unique(week))
print(
    f"{len(truth):,} forecasts of {len(median)} models, {places} locations, {weeks} weeks"
)

# %% [markdown]
# ## One loss, one confidence
#
# - **Loss**: the absolute error on the log scale, |log(1 + median) - log(1 + truth)|. An error of 0.69 is a factor of two.
# - **Confidence**: minus the width of the model's own 95% interval, on the same scale.

# %%
loss = {model: np.abs(median[model] - truth) for model in median}
confidence = {model: -width[model] for model in median}

# %% [markdown]
# ## Which model knows when it is right?
#
# Forecasts of one location share their errors, and so do forecasts of one week: when the season turns, all states are wrong
# together. With `clusters=[location, week]` both are taken into account.

# %%
ranking = abstain.compare(
    {model: (loss[model], confidence[model]) for model in median},
    clusters=[location, week],
)
print("rank  model              AURC                  all    surest half")
for contestant in ranking.contestants:
    name = contestant.name
    half = abstain.risk_at_coverage(loss[name], confidence[name], coverage=0.5)
    area = f"{contestant.estimate:.3f} [{contestant.low:.3f}, {contestant.high:.3f}]"
    means = f"{loss[name].mean():.3f}  {half:.3f}"
    print(f"{contestant.ranks:<5} {name:<18} {area}  {means}  {contestant.group}")

# %%
# Mean error of the accepted forecasts against coverage, and differences from the best
curve_panel, difference_panel = ranking.plot_panels(size=(7.0, 3.4))
_ = curve_panel.set_ylabel("mean error of the accepted")

# %% [markdown]
# AURC is the mean error over all coverages; lower is better, and models that share a letter cannot be told apart. The order
# by AURC is not the order by mean error ("all"): UMass-flusion and the ensemble have nearly the same mean error, but
# UMass-flusion knows better which of its forecasts are good. UM-DeepOutbreak is *worse* on its surest half than on all
# forecasts: the widths of its intervals mislead.
#
# ## How many draws are there?
#
# The same difference, the ensemble minus the baseline, with each idea of what is drawn:

# %%
pair = ("simulated B", "simulated C")
if real.exists():
    pair = ("FluSight-ensemble", "FluSight-baseline")
kinds = {
    "forecasts": None,
    "locations": location,
    "weeks": week,
    "locations and weeks": [location, week],
}
for name, clusters in kinds.items():
    difference = abstain.paired_difference(
        loss[pair[0]],
        confidence[pair[0]],
        loss[pair[1]],
        confidence[pair[1]],
        clusters=clusters,
    )
    interval = f"[{difference.low:.3f}, {difference.high:.3f}]"
    print(
        f"{name:<20} {difference.difference:.3f} {interval}  p = {difference.p_value:.0e}"
    )

# %% [markdown]
# The difference is real either way. But without clusters its interval is far too narrow: there are as many draws as
# weeks, not as forecasts.
#
# ## A threshold with a guarantee
#
# An unbounded loss has no guarantee, so bound it: clip the error at 1, or count the forecasts that are off by more than a
# factor of two. Here for forecasts of the current week by the best model of the
# ranking, promised with 95%:

# %%
best, now = ranking.names[0], horizon == 0
clipped = np.minimum(loss[best][now], 1.0)
far_off = loss[best][now] > np.log(2)
narrow = confidence[best][now]
promises = [("mean error, clipped", clipped, r) for r in (0.25, 0.3, 0.4)]
promises += [("off by a factor of two", far_off, r) for r in (0.1, 0.2)]
for name, bounded_loss, risk in promises:
    shares = {}
    for unit, clusters in (("forecasts", None), ("weeks", week[now])):
        rule = abstain.select_threshold(
            bounded_loss, narrow, risk=risk, clusters=clusters
        )
        shares[unit] = f"{rule.coverage:.0%}" if rule.feasible else "none"
    verdict = f"{shares['forecasts']} by forecasts, {shares['weeks']} by weeks"
    print(f"{name}, at most {risk}: use {verdict}")

# %% [markdown]
# The first number treats the forecasts of one week as independent, and its promise is not valid. With whole weeks as draws,
# a few dozen weeks can promise only what even the worst weeks keep. Choose the unit that your next data will be drawn in.
#
# ## A regressor that abstains
#
# `SelectiveRegressor` wraps any scikit-learn regressor. Here a linear regression combines the medians of all models, and a
# random forest predicts its error from medians and widths. It is fitted on the earlier forecasts, uses the half with the
# smallest predicted errors, and is tried on the later ones.

# %%
features = np.column_stack([*median.values(), *width.values(), horizon])
earlier = made < ("2025-08-01" if real.exists() else np.sort(made)[int(0.7 * len(made))])
regressor = SelectiveRegressor(
    LinearRegression(),
    uncertainty=RandomForestRegressor(50, min_samples_leaf=20, random_state=0),
    coverage=0.5,
    method="empirical",
    cv=0.5,
    random_state=0,
)
regressor.fit(features[earlier], truth[earlier], clusters=made[earlier])
prediction, used = regressor.predict_selective(features[~earlier])
error = np.abs(prediction - truth[~earlier])
for name, rows in (("all", np.full(len(used), True)), ("used", used), ("left", ~used)):
    mean_error, twofold = error[rows].mean(), (error[rows] > np.log(2)).mean()
    errors = f"mean error {mean_error:.3f}, off by a factor of two {twofold:.1%}"
    print(f"{name:<5} {rows.mean():4.0%}  {errors}")

# %% [markdown]
# ## What it says, and what it does not say
#
# - `coverage=0.5` promises a share, nothing about the error. With `risk=0.2, tolerance=np.log(2), clusters=made` the same
#   regressor may well abstain from everything: half of its weeks calibrate it, and some dozens of draws prove little.
# - A season is not drawn from the seasons before it. Every interval here is about weeks *like these*.
#
# Next: [how sure are you](../how-sure.md), [ship a threshold](../ship.md).
