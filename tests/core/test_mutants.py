"""The suite is itself checked: each planted bug, in a copy of the package, must turn it red.

    make test-mutants       all of them; `make test` plants the handful in `ALWAYS`

A bug is a line that is replaced by a wrong one, and the few tests that must notice: the whole suite would take a day.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import abstain

ROOT = Path(__file__).parents[2]
PACKAGE = Path(abstain.__file__).parent

# name: (file, right, wrong)
CORE = {
    "rank one too low": (
        "core/area_estimators.py",
        "rank = np.arange(1.0, n + 1)",
        "rank = np.arange(0.0, n)",
    ),
    "rank one too high": (
        "core/area_estimators.py",
        "above = n - rank ",
        "above = np.maximum(n - rank - 1, 0) ",
    ),
    "position one too low": (
        "core/rows.py",
        "accepted_mass = row_ends + (start + 1.0)",
        "accepted_mass = row_ends + (start + 0.5)",
    ),
    "n for n + 1 in the log weight of a rank": (
        "core/area_estimators.py",
        "(above + 1) / (n + 1))",
        "(above + 1) / n)",
    ),
    "n for n + 1 in the log estimator": (
        "core/area_estimators.py",
        "rows.loss * (xp.log(rows.total_mass + 1)",
        "rows.loss * (xp.log(rows.total_mass)",
    ),
    "reversed order": (
        "core/sorting.py",
        "np.subtract(largest_bits, ascending_bits(confidence, has_negative), out=out)",
        "np.subtract(ascending_bits(confidence, has_negative), 0, out=out)",
    ),
    "reversed order, generic": ("core/rows.py", "descending=True", "descending=False"),
    "cumulation inside ties": (
        "core/sorting.py",
        "np.not_equal(keys[1:], keys[:-1], out=is_run_end[: len(keys) - 1])",
        "is_run_end[:] = True",
    ),
    "cumulation inside ties, generic": (
        "core/rows.py",
        "sorting.mark_run_ends(confidence, xp), weight)",
        "xp.ones_like(confidence, dtype=xp.bool), weight)",
    ),
    "ties of a batch ignored": ("core/area_estimators.py", "if equals_next.any():", "if False:"),
    "dropped top block": (
        "core/rows.py",
        "list(iterate_rows(read_by_confidence(loss, confidence, weight)))",
        "list(iterate_rows(read_by_confidence(loss, confidence, weight)))[1:]",
    ),
    "dropped top block of the area": (
        "core/area_estimators.py",
        "area_terms(rows, estimator, ties).sum()) for",
        "area_terms(rows, estimator, ties)[1:].sum()) for",
    ),
    "harmonic weight": ("core/area_estimators.py", "above, n + 0 * above)", "above, n + 1 + 0 * above)"),
    "harmonic area": ("core/area_estimators.py", "else rows.mass * rows.risk", "else rows.risk"),
    "ties taken for single samples": (
        "core/rows.py",
        "is_untied = samples.read_weight is None and len(row_ends) == stop - start",
        "is_untied = samples.read_weight is None",
    ),
    "loo weight": ("core/area_estimators.py", "above, n - 1 + 0 * above)", "above, n + 0 * above)"),
    "loo area": (
        "core/area_estimators.py",
        "loss_of_others = rows.mass * rows.accepted_loss - rows.loss",
        "loss_of_others = rows.mass * rows.accepted_loss",
    ),
    "log area": (
        "core/area_estimators.py",
        "log_factorial_difference(xp, N - rows.mass, N)",
        "log_factorial_difference(xp, N - 1, N)",
    ),
    "sele weight": ("core/area_estimators.py", "weight = rank / n", "weight = (rank - 1) / n"),
    "sele area": (
        "core/area_estimators.py",
        "return rows.mass * rows.accepted_loss / rows.total_mass",
        "return rows.mass * (rows.accepted_loss - rows.loss) / rows.total_mass",
    ),
    "2sele area": ("core/area_estimators.py", 'BaseEstimator("sele", 2.0)', 'BaseEstimator("sele", 1.0)'),
    "expected harmonic area": (
        "core/area_estimators.py",
        "rows.mass - mass_above * g, g)",
        "rows.mass - rows.accepted_mass * g, g)",
    ),
    "expected sele area": (
        "core/area_estimators.py",
        "rows.loss * (rows.mass + 1) / 2",
        "rows.loss * rows.mass / 2",
    ),
    "weights of samples": (
        "core/area_estimators.py",
        "share = safe_divide(xp, rows.mass, rows.accepted_mass)",
        "share = safe_divide(xp, rows.mass, rows.accepted_mass + 1)",
    ),
}

# name: (file, right, wrong, tests that must go red)
THRESHOLDS = {
    "one error fewer in the binomial test": (
        "thresholds/testing.py",
        "bdtr(errors.astype(np.float64), trials",
        "bdtr(errors.astype(np.float64) - 1, trials",
        "tests/thresholds/test_testing.py::test_binomial_p_value_is_the_sum_of_its_terms",
    ),
    "a failed walk keeps its level": (
        "thresholds/testing.py",
        "is_skipped = smallest_possible_p > level",
        "is_skipped = True",
        "tests/thresholds/test_testing.py::test_walk_is_the_story",
    ),
    "every start at full level": (
        "thresholds/testing.py",
        "* (delta / len(starts))",
        "* delta",
        "tests/thresholds/test_testing.py::test_plan_spends_delta_and_never_starts_where_nothing_can_pass",
    ),
    "the sample at the cut is accepted": (
        "core/sorting.py",
        'np.searchsorted(self.sorted_keys, tau_keys, side="left")',
        'np.searchsorted(self.sorted_keys, tau_keys, side="right")',
        "tests/thresholds/test_choosing.py::test_default_method_equals_the_slow_version",
    ),
    "the threshold at the sample left out": (
        "core/sorting.py",
        "np.nextafter(tau, tau.dtype.type(np.inf))",
        "(tau)",
        "tests/thresholds/test_choosing.py::test_default_method_equals_the_slow_version",
    ),
    "conformal without the sample to come": (
        "thresholds/choosing.py",
        "(accepted_loss + 1) / (calibration.n + 1)",
        "accepted_loss / calibration.n",
        "tests/thresholds/test_choosing.py::test_conformal_leaves_room_for_the_sample_to_come",
    ),
    "coverage of one sample too many": (
        "thresholds/testing.py",
        "betainc(accepted, np.maximum(n - accepted + 1, 1)",
        "betainc(accepted + 1, np.maximum(n - accepted + 1, 1)",
        "tests/thresholds/test_testing.py::test_coverage_with_probability_is_a_sum_of_binomial_terms",
    ),
    "each group at full delta": (
        "thresholds/select.py",
        "delta=level / len(group_names)",
        "delta=level",
        "tests/thresholds/test_select.py::test_groups_are_corrected",
    ),
    "bentkus without its factor": (
        "thresholds/testing.py",
        "bentkus = np.e * binomial",
        "bentkus = binomial",
        "tests/thresholds/test_testing.py::test_hoeffding_bentkus_is_the_smaller_of_two_bounds",
    ),
    "bounded losses: the smaller p without its price": (
        "thresholds/testing.py",
        "np.minimum(1.0, 2 * smaller)",
        "np.minimum(1.0, smaller)",
        "tests/thresholds/test_testing.py::test_the_better_of_two_bounds_has_its_price",
    ),
    "betting on high losses": (
        "thresholds/testing.py",
        "gain = risk - ranked.loss[start:stop].astype(np.float64)",
        "gain = ranked.loss[start:stop].astype(np.float64) - risk",
        "tests/thresholds/test_testing.py::test_bounded_p_values_are_valid_and_useful",
    ),
    "both tails in one": (
        "thresholds/testing.py",
        "tail = (1 - level) / 2",
        "tail = 1 - level",
        "tests/thresholds/test_testing.py::test_clopper_pearson_is_the_textbook",
    ),
    "band of one threshold": (
        "thresholds/testing.py",
        "math.log(2 / delta) / (2 * n)",
        "math.log(1 / delta) / (2 * n)",
        "tests/thresholds/test_testing.py::test_the_band_of_coverage_is_that_of_massart",
    ),
    "an alarm is forgotten": (
        "thresholds/monitoring.py",
        "peak = max(before.log_peak, ",
        "peak = max(0.0, ",
        "tests/thresholds/test_monitoring.py::test_an_alarm_is_not_taken_back",
    ),
    "new bets start with wealth that nobody kept": (
        "thresholds/bets.py",
        "handed_out = -np.diff(wealth_not_yet_bet(settled + np.arange(len(terms) + 1)))",
        "handed_out = wealth_not_yet_bet(settled + 1 + np.arange(len(terms)))",
        "tests/thresholds/test_monitoring.py::test_wealth_is_the_sum_over_all_bets_written_out",
    ),
    "no new bets start": (
        "thresholds/bets.py",
        "starts = np.log(handed_out / odds_count)",
        "starts = np.log(1e-300 * handed_out / odds_count)",
        "tests/thresholds/test_bets.py::test_a_change_after_a_good_time_is_found_soon",
    ),
    "one kept promise is enough": (
        "thresholds/choosing.py",
        "decisive_p_values = np.max(p_values, axis=0)",
        "decisive_p_values = np.min(p_values, axis=0)",
        "tests/thresholds/test_joint.py::test_a_threshold_passes_where_the_largest_p_value_does",
    ),
    "a promise about a class counts all samples": (
        "thresholds/choosing.py",
        "counted = requirement.count_accepted(value)",
        "counted = np.minimum(count, requirement.counted_samples.n)",
        "tests/thresholds/test_joint.py::test_a_promise_about_a_class_counts_its_samples_only",
    ),
    "a cascade keeps one of its promises": (
        "cascades/search.py",
        "p_values = np.max([policy_p_values(",
        "p_values = np.min([policy_p_values(",
        "tests/cascades/test_joint_cascade.py::test_some_promise_is_broken_in_at_most_delta",
    ),
    "a cascade counts answers that a promise is not about": (
        "cascades/search.py",
        "values = [value * mask for value, mask in zip(values, self.data.is_counted)]",
        "values = list(values)",
        "tests/cascades/test_joint_cascade.py::test_answers_are_counted_policy_by_policy",
    ),
    "looks do not share delta": (
        "thresholds/monitoring.py",
        "delta / _TESTS_SHARING_DELTA / (look * (look + 1))",
        "delta / _TESTS_SHARING_DELTA",
        "tests/thresholds/test_monitoring.py::test_drift_false_alarms_over_series_of_looks",
    ),
    "risk and confidences have all of delta each": (
        "thresholds/monitoring.py",
        "_TESTS_SHARING_DELTA = 2",
        "_TESTS_SHARING_DELTA = 1",
        "tests/thresholds/test_monitoring.py::test_risk_and_confidences_each_have_half_of_delta",
    ),
    "a file counts whenever it is given": (
        "cli/series.py",
        "for digest, path in path_by_hash.items() if digest[:FILE_DIGITS] in counted_hashes]",
        "for digest, path in path_by_hash.items() if False]",
        "tests/cli/test_series.py::test_a_file_is_counted_once",
    ),
    "runs at the same time do not wait for each other": (
        "cli/series.py",
        "stack.enter_context(locked(look.state))",
        "pass",
        "tests/cli/test_series.py::test_looks_at_the_same_time_are_all_counted",
    ),
    "a state that is not kept hides the alarm": (
        "cli/series.py",
        "    if not result.holds:\n",
        "    if not result.holds and not problems:\n",
        "tests/cli/test_series.py::test_an_alarm_is_told_whatever_fails",
    ),
    "a cluster counts again in every look": (
        "thresholds/monitoring.py",
        "is_new = ~np.isin(fingerprints, seen)",
        "is_new = np.ones(len(fingerprints), dtype=bool)",
        "tests/thresholds/test_monitoring.py::test_a_cluster_counts_once",
    ),
    "rejections cost where samples are accepted": (
        "thresholds/outcomes.py",
        "np.asarray(accepted_part[-1] - accepted_part)",
        "np.asarray(accepted_part)",
        "tests/thresholds/test_outcomes.py::test_cost_curve_is_the_sum_over_samples",
    ),
    "twice the wealth that a bet on clusters has": (
        "thresholds/testing.py",
        "share_of_stake = 0.5 ** np.arange(1, 9)",
        "share_of_stake = 0.5 ** np.arange(0, 8)",
        "tests/thresholds/test_clusters.py::test_the_p_value_is_the_wealth_written_out",
    ),
    "clusters are taken for samples": (
        "thresholds/choosing.py",
        "    if samples.clusters is not None and planning_risk < 1:",
        "    if False:",
        "tests/thresholds/test_clusters.py::test_sixty_patients_of_twenty_images_promise_nothing_false",
    ),
    "confidences of one cluster are taken for independent": (
        "thresholds/monitoring.py",
        "self.n / largest_cluster, m / largest_cluster",
        "self.n, m",
        "tests/thresholds/test_monitoring.py::test_confidences_of_whole_clusters_rarely_alarm_wrongly",
    ),
    "rounding lets in a block that is rejected": (
        "thresholds/cut.py",
        "exact.low > self._calibration_bounds(self.rejected, rounding).high",
        "exact.high > self._calibration_bounds(self.rejected, rounding).low",
        "tests/thresholds/test_cut.py::test_another_precision_neither_lets_a_block_in_nor_alarms",
    ),
    "a rule takes any score": (
        "thresholds/cut.py",
        "if score is not None and score != self.score:",
        "if False:",
        "tests/thresholds/test_rules.py::test_another_score_or_unit_is_refused",
    ),
    "a coarser precision is compared exactly": (
        "thresholds/cut.py",
        "if rounding is not None or has_calibration_form:",
        "if True:",
        "tests/thresholds/test_cut.py::test_numbers_that_were_rounded_before_they_were_stored_are_noticed",
    ),
    "a promise may be rewritten": (
        "thresholds/rules.py",
        "self.guarantee == promise,",
        "True,",
        "tests/thresholds/test_promise.py::test_no_sentence_and_no_count_can_be_edited",
    ),
    "stored numbers may be anything": (
        "_stored.py",
        "inside = self.low <= x <= self.high if self.closed else self.low < x < self.high",
        "inside = True",
        "tests/thresholds/test_rules.py::test_a_tampered_field_is_refused_in_one_line",
    ),
}

INTERVALS = {
    "one tail for two": (
        "inference/limits.py",
        "return stdtrit(freedom, (1 + level) / 2)",
        "return stdtrit(freedom, level)",
        "tests/inference/test_intervals.py tests/inference/test_limits.py tests/metrics/test_limit_rules.py",
    ),
    "half the degrees of freedom": (
        "inference/limits.py",
        "2 * np.square(variance)",
        "np.square(variance)",
        "tests/inference/test_intervals.py tests/inference/test_limits.py tests/metrics/test_limit_rules.py",
    ),
    "one more draw without an error": (
        "metrics/summaries.py",
        "math.log1p(-level) / draws",
        "math.log1p(-level) / (draws + 1)",
        "tests/inference/test_intervals.py tests/inference/test_limits.py tests/metrics/test_limit_rules.py",
    ),
    "errors unseen do not sit on top": (
        "metrics/summaries.py",
        "return risk * (1 - math.log(risk))",
        "return risk * (1 - 0 * math.log(risk))",
        "tests/inference/test_intervals.py tests/inference/test_limits.py tests/metrics/test_limit_rules.py",
    ),
    "p-value of one side": (
        "inference/limits.py",
        "2 * stdtr(df, -edge)",
        "stdtr(df, -edge)",
        "tests/inference/test_differences.py",
    ),
    "a verdict from few errors": (
        "metrics/few_draws.py",
        "if draws >= ENOUGH:",
        "if draws >= 0:",
        "tests/inference/test_differences.py",
    ),
    "a part adds to its own rows what it adds to rows above": (
        "core/part_sums.py",
        "np.cumsum(for_parts_above[::-1], axis=0)[::-1] - for_parts_above",
        "np.cumsum(for_parts_above[::-1], axis=0)[::-1]",
        "tests/inference/test_evidence.py",
    ),
    "influences that do not add up to zero": (
        "core/part_sums.py",
        "return LossLine(constant - mean_influence, slope)",
        "return LossLine(constant, slope)",
        "tests/inference/test_evidence.py tests/inference/test_intervals.py",
    ),
    "no local risk at the cut": (
        "inference/point_limits.py",
        "const = rejected - local_risk / cut.accepted_mass",
        "const = rejected - cut.risk / cut.accepted_mass",
        "tests/inference/test_point_limits.py",
    ),
    "a share without its half": (
        "inference/point_limits.py",
        "few_draws.beta_limits(share, size, level, pseudo=0.5)",
        "few_draws.beta_limits(share, size, level, pseudo=0.0)",
        "tests/inference/test_point_limits.py",
    ),
    "intersections of two kinds of clusters count twice": (
        "inference/clusters.py",
        "first + second - intersections",
        "first + second + intersections",
        "tests/inference/test_clusters.py",
    ),
    "the kind with more clusters decides": (
        "inference/clusters.py",
        "np.minimum(first.degrees_of_freedom(), second.degrees_of_freedom())",
        "np.maximum(first.degrees_of_freedom(), second.degrees_of_freedom())",
        "tests/inference/test_clusters.py",
    ),
    "an interval for every look as narrow as at the planned size": (
        "inference/anytime.py",
        "return np.asarray(n) * (log_term",
        "return self.planned * (log_term",
        "tests/inference/test_anytime.py",
    ),
    "p-value of one look": (
        "inference/differences.py",
        "p_value = anytime_test.p_value(p_value)",
        "pass",
        "tests/inference/test_anytime.py",
    ),
    "a decision that is taken back": (
        "evaluation/growing.py",
        "for number, look in enumerate(self.looks, 1):",
        "for number, look in list(enumerate(self.looks, 1))[-1:]:",
        "tests/evaluation/test_growing.py",
    ),
    "a gate that reads the estimate": (
        "evaluation/release_gate.py",
        "if high < largest_allowed:",
        "if (low + high) / 2 < largest_allowed:",
        "tests/evaluation/test_release_gate.py",
    ),
    "a gate for two sides": (
        "evaluation/release_gate.py",
        "return 1 - 2 * stated_error",
        "return level",
        "tests/evaluation/test_release_gate.py",
    ),
    "few errors show all of their variance": (
        "metrics/few_draws.py",
        "return share_for_few(draws) * max(2 * largest_of_one_draw / draws - seen, 0.0) / (draws + 1)",
        "return 0.0",
        "tests/metrics/test_few_draws.py",
    ),
}

ENGINES = {
    "a range lies above itself": (
        "engines/ranges.py",
        "np.cumsum(mass_and_loss[:, ::-1], axis=1)[:, ::-1] - mass_and_loss",
        "np.cumsum(mass_and_loss[:, ::-1], axis=1)[:, ::-1]",
        "tests/engines/test_files.py::test_every_format_gives_the_same_number",
    ),
    "loss above a range is forgotten": (
        "engines/finish.py",
        "accepted_loss=rows.accepted_loss + self.loss_above",
        "accepted_loss=rows.accepted_loss",
        "tests/engines/test_files.py::test_the_siblings_agree_with_the_functions_in_memory",
    ),
    "a cut belongs to the range below": (
        "engines/ranges.py",
        "number += confidence >= cut",
        "number += confidence > cut",
        "tests/engines/test_ranges.py::test_counted_and_sorted_ranges_give_the_whole",
    ),
    "ranges that look tied when merged": (
        "engines/ranges.py",
        "low = np.minimum(low, part.low)",
        "low = np.maximum(low, part.low)",
        "tests/engines/test_files.py::test_every_format_gives_the_same_number",
    ),
    "losses with the moments of 0/1": (
        "engines/ranges.py",
        "zero_one=graded == 0,",
        "zero_one=True,",
        "tests/engines/test_finish.py::test_losses_with_the_moments_of_a_zero_one_loss_are_not_taken_for_one",
    ),
    "right and wrong change places in the tally": (
        "core/tally.py",
        "wrong = words >> _HALF_WORD",
        "wrong = (words & _LOW_HALF) - (words >> _HALF_WORD)",
        "tests/core/test_tally.py",
    ),
    "bounds of bins without their own loss": (
        "core/confidence_bins.py",
        "peak = safe_divide(xp, S + L, loss_end)",
        "peak = safe_divide(xp, S, loss_end)",
        "tests/core/test_confidence_bins.py",
    ),
}

MUTANTS = {name: (*bug, "tests/core/test_area_estimators.py") for name, bug in CORE.items()}
MUTANTS |= THRESHOLDS | INTERVALS | ENGINES
# planted by `make test`, each with the one test that must go red
ALWAYS = {
    "reversed order": "tests/core/test_area_estimators.py::test_numbers_of_the_five_points",
    "cumulation inside ties": "tests/core/test_area_estimators.py::test_numbers_of_the_five_points",
    "loo area": "tests/core/test_area_estimators.py::test_numbers_of_the_five_points",
    "a failed walk keeps its level": "tests/thresholds/test_testing.py::test_walk_is_the_story",
    "each group at full delta": "tests/thresholds/test_select.py::test_groups_are_corrected",
    "one more draw without an error": "tests/metrics/test_limit_rules.py::test_no_loss_at_all_gives_the_valid_bound",
    "p-value of one side": "tests/inference/test_differences.py::test_the_p_value_is_the_level_at_which_a_limit_is_zero",
    "right and wrong change places in the tally": "tests/core/test_tally.py",
}


def _run(package_parent: Path, tests: set[str]) -> subprocess.CompletedProcess[str]:
    options = "-x -q -n 0 -p no:cacheprovider --hypothesis-profile=mutants -k not\\ threads -m not\\ slow"
    files = {file for some in tests for file in some.split()}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(package_parent), "HYPOTHESIS_STORAGE_DIRECTORY": str(package_parent)}
    command = [sys.executable, "-m", "pytest", *shlex.split(options), *sorted(files)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done


def _copy(tmp_path: Path) -> Path:
    shutil.copytree(PACKAGE, tmp_path / "abstain", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "abstain"


def _marked(names: tuple[str, ...] | dict[str, object]) -> list[object]:
    return [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.mutant) for name in names]


def test_an_untouched_copy_is_green(tmp_path):
    _copy(tmp_path)
    done = _run(tmp_path, set(ALWAYS.values()))
    assert done.returncode == 0, done.stdout


@pytest.mark.mutant
def test_an_untouched_copy_is_green_for_every_mutant(tmp_path):
    _copy(tmp_path)
    done = _run(tmp_path, {tests for *_, tests in MUTANTS.values()})
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", _marked(MUTANTS))
def test_planted_bug_turns_the_suite_red(name, tmp_path):
    file, right, wrong, tests = MUTANTS[name]
    target = _copy(tmp_path) / file
    source = target.read_text()
    assert right in source, f"the mutant {name!r} no longer finds its place in {file}"
    target.write_text(source.replace(right, wrong, 1))
    done = _run(tmp_path, {ALWAYS.get(name, tests)})
    print(done.stdout[-400:])
    assert done.returncode == 1, f"nobody noticed: {name}"
