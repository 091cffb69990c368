"""Every policy of the grid by cumulative sums, against counting one policy at a time."""

from itertools import product

import numpy as np
import pytest

from abstain.cascades.inputs import collect_data
from abstain.cascades.search import (
    CascadePromise,
    PolicyGrid,
    certify,
    choose_cuts,
    divide_delta,
    draw_split_seed,
    find_answering_stage,
    find_frontier,
    fit_logistic,
    limit_cuts,
)


def drawn(stages, n=60, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    g = rng.random((stages, n))
    g = np.round(g * 4) / 4 if ties else g
    away = rng.random((stages, n)) < 0.2
    loss = rng.random((stages, n)).round(2)
    cost = rng.random((stages, n)) * 10
    return g, away, loss, cost, rng.random(n) * 50, rng.random(n)


def counted(g, away, loss, cost, person_cost, person_error, thresholds):
    """Answers, loss of the answers, loss with the person's, and cost, sample by sample."""
    answers, lost, system, spent = 0, 0.0, 0.0, 0.0
    for i in range(g.shape[1]):
        for j, t in enumerate(thresholds):
            if t == np.inf:
                continue
            spent += cost[j, i]
            if not away[j, i] and g[j, i] >= t:
                answers, lost, system = answers + 1, lost + loss[j, i], system + loss[j, i]
                break
        else:
            spent += person_cost[i]
            system += person_error[i]
    return answers, lost, system, spent


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("promise", ["answered", "system"])
def test_the_grid_counts_every_policy(stages, ties, promise):
    data = drawn(stages, ties=ties)
    g, away, loss, cost, person_cost, person_error = data
    entries = {str(j): (loss[j], g[j], cost[j]) for j in range(stages)}
    abstained = {str(j): away[j] for j in range(stages)}
    cascade_data = collect_data(
        "test", entries, (person_cost, person_error), promise, (0, 1), abstained=abstained
    )
    cuts = choose_cuts(cascade_data, 4)
    grid = PolicyGrid(cascade_data, cuts)
    answers, total, costs = (
        grid.count_counted_answers(),
        grid.sum_over_counted_answers(cascade_data.losses),
        grid.total_costs(),
    )
    assert answers.size == np.prod([len(c) + 1 for c in cuts])
    for place in product(*(range(len(c) + 1) for c in cuts)):
        thresholds = [np.append(c, np.inf)[i] for c, i in zip(cuts, place)]
        assert grid.thresholds_of(np.ravel_multi_index(place, grid.shape)) == tuple(thresholds)
        count, lost, system, spent = counted(*data, thresholds)
        at = (len(person_cost), system) if promise == "system" else (count, lost)
        assert (answers[place], total[place], costs[place]) == pytest.approx((*at, spent), abs=1e-9)


def test_who_answers_sample_by_sample():
    g = [np.array([0.9, 0.5, -np.inf, 0.1]), np.array([0.9, 0.2, 0.3, 0.2])]
    assert find_answering_stage(g, (0.5, 0.3)).tolist() == [0, 0, 1, 2]
    assert find_answering_stage(g, (-np.inf, 0.3)).tolist() == [
        0,
        0,
        1,
        0,
    ]  # no answer is below minus infinity, too
    assert find_answering_stage(g, (np.inf, -np.inf)).tolist() == [1, 1, 1, 1]


def test_grids_have_at_most_a_million_policies():
    assert limit_cuts(2, 80) == 80
    for stages in range(2, 20):
        cuts = limit_cuts(stages, 10**5)
        assert (cuts + 1) ** stages <= 10**6 < (cuts + 2) ** stages


def test_the_frontier_is_what_nothing_cheaper_is_as_safe_as():
    rng = np.random.default_rng(1)
    cost, z = rng.integers(0, 12, 80).astype(float), rng.integers(0, 12, 80).astype(float)
    path = find_frontier(cost, z)
    kept = [
        k for k in range(80)
        if not any((cost[i] < cost[k] and z[i] >= z[k]) or (cost[i] == cost[k] and z[i] > z[k]) for i in range(80))
    ]  # fmt: skip
    assert {(cost[k], z[k]) for k in path} == {(cost[k], z[k]) for k in kept}
    assert (np.diff(z[path]) < 0).all()
    assert (np.diff(cost[path]) < 0).all()


def test_logistic_finds_the_coefficients():
    rng = np.random.default_rng(0)
    x = rng.random(200_000) - 0.5
    chance = 1 / (1 + np.exp(-(0.3 - 2 * x)))
    assert fit_logistic([np.ones_like(x), x], chance) == pytest.approx([0.3, -2.0], abs=1e-3)


def test_the_shares_of_delta_add_up():
    for stages in range(1, 6):
        assert sum(divide_delta(stages)) == pytest.approx(1)
        assert len(divide_delta(stages)) == stages + 1


def test_smoothed_losses_are_near_the_true_ones():
    rng = np.random.default_rng(0)
    n = 20_000
    g = rng.random((2, n))
    chance = np.stack([0.5 * (1 - g[0]), 0.3 * (1 - g[1])])
    entries = {str(j): (rng.random(n) < chance[j], g[j], 1.0) for j in range(2)}
    cascade_data = collect_data("test", entries, (9.0, 0.0), "answered", (0, 1))
    grid = PolicyGrid(cascade_data, choose_cuts(cascade_data, 10))
    risk = grid.sum_of_expected_losses() / np.maximum(grid.count_counted_answers(), 1)
    true = grid.sum_over_counted_answers([*chance, np.zeros(n)]) / np.maximum(grid.count_counted_answers(), 1)
    assert np.abs(risk - true)[grid.count_counted_answers() > 1000].max() < 0.02


def test_the_split_does_not_follow_the_numbers_of_the_same_seed():
    """Samples drawn with the seed that the split is made with must not be split by their confidence."""
    for seed in range(5):
        g = np.random.default_rng(seed).random(2000)
        cascade_data = collect_data("test", {"a": (g < 0.1, g, 1.0)}, (9.0, 0.0), "answered", (0, 1))
        first, second = cascade_data.split(0.5, draw_split_seed(seed))
        assert abs(first.confidences[0].mean() - second.confidences[0].mean()) < 0.06
        assert first.sample_count + second.sample_count == 2000


def test_clusters_stay_in_one_piece():
    rng = np.random.default_rng(0)
    g, clusters = rng.random(500), rng.integers(0, 40, 500)
    cascade_data = collect_data(
        "test", {"a": (g < 0.1, g, 1.0)}, (9.0, 0.0), "answered", (0, 1), clusters=clusters
    )
    first, second = cascade_data.split(0.5, 7)
    assert not set(first.clusters) & set(second.clusters)
    assert first.sample_count + second.sample_count == 500


def test_too_few_samples_certify_nothing():
    cascade_data = collect_data("test", {"a": ([0], [1.0], 1.0)}, (9.0, 0.0), "answered", (0, 1))
    assert certify([CascadePromise(cascade_data, 0.2)], 0.05, 10, 0) == []
