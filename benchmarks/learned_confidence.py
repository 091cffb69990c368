"""What a learned confidence is worth on real data, and that it is not kept where there is nothing to learn.

    python benchmarks/learned_confidence.py PART [--every K] [--start S] [--save RECORDS.json]
    python benchmarks/learned_confidence.py PART --pool RECORDS.json RECORDS.json ...

PART is one of
    language   68 language models: test AURC beside the single signal chosen on the same labels, and what a threshold
               certified on 2,000 further labels covers
    unlabelled no labels, and 50: combinations of signals, weights learned on other families and other questions
    elsewhere  combine_signals and learn_confidence on the sets bplaut, medqa and vlm
    logits     every file of logits with at least 100 errors, half to fit
    nothing    simulated: signals that carry nothing beyond the baseline
    cascades   pairs of language models, with single signals and with learned confidences
    speed      fit and application, beside `evaluate`

--every K takes every K-th model, file or run, from the S-th on. `language`, `unlabelled`, `logits` and `nothing` can
save one record per run; --pool prints the tables of several such files together. What can be tuned was chosen on the
models and files with even numbers, so the tables of the odd ones are printed as well. Needs ABSTAIN_DATA, except for
`nothing` and `speed`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from signal_weights import SIGNALS, LanguageModel, halves_of_questions, learn_weights, load_models

import abstain
from abstain.confidence import LearnedConfidence, combinations, learn_confidence
from abstain.errors import InputError

SEEDS = (0, 1, 2)
DELTA = 0.1
LAST = -1e300  # confidence of a row without the signal


def rank_missing_last(signal: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(signal), LAST, signal)


def inputs_of(model: LanguageModel, rows: np.ndarray, prefix: str = "") -> dict[str, Any]:
    """Keywords of `learn_confidence`; a prefix hides the names that the shipped weights know."""
    return {
        "signals": {prefix + role: model.inputs[role][rows] for role in model.signals},
        "features": {prefix + "length": model.inputs["length"][rows]},
        "categories": {"category": model.category[rows]},
    }


def best_signal(model: LanguageModel, rows: np.ndarray) -> str:
    areas = {
        role: abstain.aurc(model.loss[rows], rank_missing_last(model.inputs[role][rows]))
        for role in model.signals
    }
    return min(areas, key=lambda role: areas[role])


def describe(changes: list[float]) -> str:
    """Mean, range and share of improvements of relative changes."""
    values = np.asarray(changes)
    return (
        f"mean {values.mean():+.1%}, best {values.min():+.1%}, worst {values.max():+.1%}, "
        f"better in {np.mean(values < 0):.0%} of {len(values)}"
    )


Record = dict[str, Any]  # one run: numbers and names by name


def mean_by_name(records: list[Record], field: str) -> list[float]:
    """Mean over seeds of one field, for each model or file."""
    values: dict[str, list[float]] = {}
    for record in records:
        values.setdefault(record["name"], []).append(record[field])
    return [float(np.mean(entries)) for entries in values.values()]


def in_parts(records: list[Record]) -> dict[str, list[Record]]:
    """All records, and those of the models or files with odd numbers, on which nothing was chosen."""
    return {"all": records, "odd numbers only": [record for record in records if record["number"] % 2 == 1]}


def language(every: int, start: int) -> list[Record]:
    """One record per model, seed and number of labels."""
    records = []
    models = load_models()
    for number in range(start, len(models), every):
        model = models[number]
        for seed in SEEDS:
            shuffled = np.random.default_rng(seed).permutation(len(model.loss))
            for label_count in (500, 1000, 2000):
                fit, certify, test = np.split(shuffled, [label_count, label_count + 2000])
                judged = np.concatenate([certify, test])
                single = best_signal(model, fit)
                confidence = learn(model, fit)
                loss = model.loss[judged]
                before = rank_missing_last(model.inputs[single][judged])
                after = confidence(**inputs_of(model, judged, "own_"))
                record: Record = {"name": model.name, "number": number, "seed": seed, "labels": label_count}
                record["change"] = abstain.aurc(loss, after) / abstain.aurc(loss, before) - 1
                record["change_ties_expected"] = (
                    abstain.aurc(loss, after, ties="expected") / abstain.aurc(loss, before, ties="expected")
                    - 1
                )
                record["proven"] = confidence.proven
                # keep="proven" keeps the same candidate or the baseline here: candidates differ little
                record["change_if_proven"] = record["change"] if confidence.proven else 0.0
                if label_count == 2000:
                    record["thresholds"] = certify_thresholds(loss, rankdata(before), rankdata(after))
                records.append(record)
    return records


def certify_thresholds(loss: np.ndarray, single: np.ndarray, learned: np.ndarray) -> Record:
    """Thresholds on the first 2,000 rows: by risk and kind, whether there is one, its coverage and risk on the rest."""
    found = {}
    for risk in (0.1, 0.2):
        for kind, scores in (("single", single), ("learned", learned)):
            rule = abstain.select_threshold(loss[:2000], scores[:2000], risk=risk, delta=DELTA)
            accepted = scores[2000:] >= (np.inf if rule.value is None else rule.value)
            is_violated = bool(accepted.any()) and bool(loss[2000:][accepted].mean() > risk)
            found[f"{risk} {kind}"] = {
                "feasible": bool(rule.feasible),
                "coverage": float(accepted.mean()),
                "violated": bool(rule.feasible) and is_violated,
            }
    return found


def report_language(records: list[Record]) -> None:
    for title, part in in_parts(records).items():
        model_count = len({record["name"] for record in part})
        print(f"{title}: {model_count} models, beside the single signal chosen on the same labels")
        for label_count in (500, 1000, 2000):
            runs = [record for record in part if record["labels"] == label_count]
            if not runs:
                continue
            share = np.mean([record["proven"] for record in runs])
            worst = max(record["change"] for record in runs)
            print(f"  {label_count} labels: {describe(mean_by_name(runs, 'change'))} (models)")
            print(f"      worst single run {worst:+.1%}, proven {share:.0%} of {len(runs)} runs")
            print(f"      keep=proven: {describe(mean_by_name(runs, 'change_if_proven'))} (models)")
            print(
                f"      ties in random order: {describe(mean_by_name(runs, 'change_ties_expected'))} (models)"
            )
        runs = [record for record in part if "thresholds" in record]
        print(f"  threshold certified on 2,000 further labels, delta {DELTA}")
        for risk in (0.1, 0.2):
            for kind in ("single", "learned"):
                rules = [record["thresholds"][f"{risk} {kind}"] for record in runs]
                feasible = sum(rule["feasible"] for rule in rules)
                violated = sum(rule["violated"] for rule in rules)
                coverage = np.mean([rule["coverage"] for rule in rules])
                print(
                    f"      risk {risk}, {kind}: mean coverage {coverage:.3f}, {feasible} of {len(rules)} runs with a "
                    f"threshold, {violated} violated; {count_models(runs, f'{risk} {kind}')}"
                )


def count_models(runs: list[Record], rule: str) -> str:
    """How many models have a threshold by this rule ("0.1 learned", ...) in any seed, in most, and in all."""
    seeds_by_model: dict[str, int] = {}
    for run in runs:
        seeds_by_model.setdefault(run["name"], 0)
        seeds_by_model[run["name"]] += run["thresholds"][rule]["feasible"]
    any_seed, most, all_seeds = (
        sum(seeds >= least for seeds in seeds_by_model.values()) for least in (1, 2, len(SEEDS))
    )
    return f"models with one: {any_seed} in any seed, {most} in most, {all_seeds} in all"


def learn(model: LanguageModel, rows: np.ndarray) -> LearnedConfidence:
    """Without the shipped weights, which were learned on these models."""
    return learn_confidence(model.loss[rows] == 0, **inputs_of(model, rows, "own_"), contributions=False)


def unlabelled(every: int, start: int) -> list[Record]:
    """One record per model without labels, and one per model, seed and number of labels; `start` counts in a family."""
    models = [model for model in load_models() if len(model.signals) == len(SIGNALS)]
    number_of = {model.name: number for number, model in enumerate(models)}
    learning_rows, judging_rows = halves_of_questions()
    records = []
    for family in sorted({model.family for model in models}):
        others = [model for model in models if model.family != family]
        weights = learn_weights(others, learning_rows, "{model_count} other models")
        combinations.load_shipped_weights = lambda weights=weights: weights
        for model in [model for model in models if model.family == family][start::every]:
            loss = model.loss[judging_rows]
            best = lowest_area(model, judging_rows)
            inputs = inputs_of(model, judging_rows)
            inputs.pop("categories")
            token = rank_missing_last(model.inputs["token_probability"][judging_rows])
            record: Record = {"name": model.name, "number": number_of[model.name], "labels": 0}
            record["token probability alone"] = abstain.aurc(loss, token) / best - 1
            for name, choice in (("mean of ranks", "ranks"), ("shipped weights with their guard", "auto")):
                combined = abstain.combine_signals(**inputs, weights=choice)
                needed = {
                    key: inputs[key] for key in inputs if key == "signals" or combined.model.profile.features
                }
                record[name] = abstain.aurc(loss, combined(**needed)) / best - 1
                record["used shipped weights"] = combined.kept == combinations.SHIPPED_WEIGHTS
            records.append(record)
            for label_count in (50, 300):
                for seed in SEEDS:
                    shuffled = np.random.default_rng(seed).permutation(judging_rows)
                    fit, test = np.split(shuffled, [label_count])
                    single, learned = judge_few(model, fit, test)
                    records.append(
                        {
                            "name": model.name,
                            "number": number_of[model.name],
                            "labels": label_count,
                            "beside the single signal chosen on them": learned / single - 1,
                            "beside the best single signal in hindsight": learned / lowest_area(model, test)
                            - 1,
                        }
                    )
    return records


def lowest_area(model: LanguageModel, rows: np.ndarray) -> float:
    """AURC of the best single signal on these rows, in hindsight."""
    return min(
        abstain.aurc(model.loss[rows], rank_missing_last(model.inputs[role][rows])) for role in SIGNALS
    )


def report_unlabelled(records: list[Record]) -> None:
    for title, part in in_parts(records).items():
        without = [record for record in part if record["labels"] == 0]
        print(
            f"{title}: no labels, weights from other families and other questions, beside the best single signal in "
            f"hindsight"
        )
        for name in ("mean of ranks", "shipped weights with their guard", "token probability alone"):
            print(f"  {name}: {describe([record[name] for record in without])}")
        used = sum(record["used shipped weights"] for record in without)
        print(f"  the guard let the weights pass for {used} of {len(without)} models")
        for label_count in (50, 300):
            runs = [record for record in part if record["labels"] == label_count]
            print(f"  {label_count} labels, {len(runs)} runs")
            for beside in (
                "beside the single signal chosen on them",
                "beside the best single signal in hindsight",
            ):
                changes = [record[beside] for record in runs]
                print(f"      {beside}: {describe(mean_by_name(runs, beside))} (models)")
                print(
                    f"          single runs: better in {np.mean(np.less(changes, 0)):.0%}, worst {max(changes):+.1%}"
                )


def judge_few(model: LanguageModel, fit: np.ndarray, test: np.ndarray) -> tuple[float, float]:
    """Test AURC of the single signal chosen on few labels, and of what is learned from them.

    Where there are too few errors to learn from, the combination without labels is taken, as the message says.
    """
    loss = model.loss[test]
    single = abstain.aurc(loss, rank_missing_last(model.inputs[best_signal(model, fit)][test]))
    try:
        confidence = learn_confidence(model.loss[fit] == 0, **inputs_of(model, fit), contributions=False)
    except InputError:
        inputs = inputs_of(model, fit)
        confidence = abstain.combine_signals(signals=inputs["signals"], features=inputs["features"])
    return single, abstain.aurc(loss, confidence(**inputs_of(model, test)))


def logits(every: int, start: int) -> list[Record]:
    """One record per file and seed."""
    paths = sorted((Path(os.environ["ABSTAIN_DATA"]) / "logits").glob("*.npz"))
    records = []
    for number in range(start, len(paths), every):
        stored = np.load(paths[number])
        kind = "logits" if "logits" in stored else "probs"
        scores = stored[kind].astype(np.float64)
        if kind == "probs":
            scores /= scores.sum(axis=1, keepdims=True)
        loss = (scores.argmax(axis=1) != stored["labels"]).astype(np.float64)
        if loss.sum() < 100:
            continue
        for seed in SEEDS:
            shuffled = np.random.default_rng(seed).permutation(len(loss))
            fit, test = np.split(shuffled, 2 * [len(loss) // 2])[::2]
            confidence = learn_confidence(
                loss[fit] == 0, **{kind: scores[fit]}, contributions=False, rng=seed
            )
            before = abstain.scores.max_softmax(**{"probs": scores[test]}) if kind == "probs" else None
            if before is None:
                before = abstain.scores.max_softmax(scores[test])
            after = confidence(**{kind: scores[test]})
            change = abstain.aurc(loss[test], after) / abstain.aurc(loss[test], before) - 1
            records.append(
                {
                    "name": paths[number].stem,
                    "number": number,
                    "classes": scores.shape[1],
                    "change": change,
                    "change_if_proven": change if confidence.proven else 0.0,
                    "kept": confidence.kept,
                }
            )
    return records


def report_logits(records: list[Record]) -> None:
    for name in dict.fromkeys(record["name"] for record in records):
        runs = [record for record in records if record["name"] == name]
        kept = ", ".join(record["kept"] for record in runs)
        change = np.mean([record["change"] for record in runs])
        print(f"  {name:44} {runs[0]['classes']:5} classes {change:+.1%}  {kept}")
    for title, part in in_parts(records).items():
        worst = max(record["change"] for record in part)
        print(
            f"{title}, keep=lowest: {describe(mean_by_name(part, 'change'))} (files), worst run {worst:+.1%}"
        )
        print(f"{title}, keep=proven: {describe(mean_by_name(part, 'change_if_proven'))} (files)")


NOTHING_RUNS = {300: 400, 1000: 200, 5000: 100}  # number of simulated samples by their size


def nothing(every: int, start: int) -> list[Record]:
    """Signals that are functions of the baseline, noise features, noise categories; clusters share their outcome."""
    records = []
    for n, run_count in NOTHING_RUNS.items():
        for has_clusters in (False, True):
            for seed in range(start, run_count, every):
                rng = np.random.default_rng([seed, n])
                is_proven, cost = run_without_gain(rng, n, has_clusters)
                records.append({"n": n, "clusters": has_clusters, "proven": is_proven, "cost": cost})
    return records


def report_nothing(records: list[Record]) -> None:
    for n in NOTHING_RUNS:
        for has_clusters in (False, True):
            runs = [record for record in records if record["n"] == n and record["clusters"] == has_clusters]
            if not runs:
                continue
            costs = np.asarray([record["cost"] for record in runs])
            print(
                f"  n = {n}, clusters {has_clusters}: keep=proven keeps a candidate in "
                f"{np.mean([record['proven'] for record in runs]):.1%}, keep=lowest costs {costs.mean():+.2%} of AURC "
                f"(standard error {costs.std() / np.sqrt(len(costs)):.2%}, {len(runs)} runs)"
            )


def run_without_gain(rng: np.random.Generator, n: int, has_clusters: bool) -> tuple[bool, float]:
    """Is anything proven, and how much higher is the AURC in the population by what "lowest" keeps?"""

    def draw(count: int) -> tuple[np.ndarray, dict[str, Any], np.ndarray]:
        cluster = np.arange(count) // 5
        shared = rng.normal(size=count // 5 + 1)[cluster] if has_clusters else 0.0
        signal = rng.normal(size=count) + shared
        right = signal + rng.logistic(size=count) > -0.8
        if has_clusters:  # outcomes of a cluster depend on each other, beyond the signal
            common = rng.logistic(size=count // 5 + 1)[cluster]
            right = signal + np.where(rng.random(count) < 0.5, common, rng.logistic(size=count)) > -0.8
        inputs = {
            "signals": {"signal": signal, "noise": rng.normal(size=count)},
            "features": {"length": rng.normal(size=count)},
            "categories": {"topic": rng.integers(0, 10, count)},
        }
        return right, inputs, cluster

    right, inputs, cluster = draw(n)
    learned = learn_confidence(
        right, **inputs, clusters=cluster if has_clusters else None, contributions=False, rng=rng
    )
    proven = any(result.is_proven(0.95) for result in learned.candidates)
    fresh_right, fresh, _ = draw(20_000)
    before = abstain.aurc(~fresh_right, fresh["signals"]["signal"])
    return proven, abstain.aurc(~fresh_right, learned(**fresh)) / before - 1


def cascades(every: int, start: int) -> None:
    models = [model for model in load_models() if model.loss.mean() < 0.7]
    rng = np.random.default_rng(start)
    ratios: dict[float, list[float]] = {0.2: [], 0.3: []}
    pairs = 0
    while pairs < 50 // every:
        cheap, dear = rng.choice(len(models), 2, replace=False)
        if models[cheap].loss.mean() < models[dear].loss.mean() + 0.05:
            continue
        pairs += 1
        shuffled = rng.permutation(len(models[cheap].loss))
        fit, certify = shuffled[:2000], shuffled[2000:6000]
        stages: dict[str, dict[str, Any]] = {"single": {}, "learned": {}}
        for name, model, cost in (("cheap", models[cheap], 1.0), ("dear", models[dear], 10.0)):
            single = rankdata(rank_missing_last(model.inputs[best_signal(model, fit)][certify]))
            learned = learn(model, fit)(**inputs_of(model, certify, "own_"))
            stages["single"][name] = (model.loss[certify], single, cost)
            stages["learned"][name] = (model.loss[certify], learned, cost)
        for risk, costs in ratios.items():
            rules = {
                kind: abstain.cascade(entry, risk=risk, delta=DELTA, person=(100.0, 0.0))
                for kind, entry in stages.items()
            }
            cost = {kind: rule.cost if rule.feasible else 100.0 for kind, rule in rules.items()}
            costs.append(cost["learned"] / cost["single"] - 1)
    for risk, changes in ratios.items():
        print(
            f"  risk {risk}, costs 1, 10 and 100 for a person: cost beside single signals {describe(changes)}"
        )


def elsewhere(every: int, start: int) -> None:
    from pyarrow import parquet

    folder = Path(os.environ["ABSTAIN_DATA"]) / "llm"
    for path in sorted((folder / "bplaut").glob("*.parquet"))[start::every]:
        table = parquet.read_table(path).to_pydict()
        rows = np.flatnonzero(np.asarray(table["setting"]) == "zero_shot")
        rows = np.random.default_rng(0).permutation(rows)[:8000]
        column = {name: np.asarray(values, dtype=object)[rows] for name, values in table.items()}
        loss = (column["grade"] != "Correct").astype(np.float64)
        signals = {"msp": column["msp"].astype(float)}
        if any(value is not None for value in column["max_logit"]):
            signals["max_logit"] = column["max_logit"].astype(float)
        question = np.asarray([f"{t}/{q}" for t, q in zip(column["task"], column["question_index"])])
        report_elsewhere(
            f"bplaut {path.stem}", loss, {"signals": signals}, {"task": column["task"]}, question
        )
    table = parquet.read_table(folder / "medqa" / "baseline_results.parquet").to_pydict()
    probs = np.asarray([table[f"p_{letter}"] for letter in "ABCD"]).T
    loss = 1.0 - np.asarray(table["is_correct"], dtype=float)
    report_elsewhere("medqa", loss, {"probs": probs / probs.sum(axis=1, keepdims=True)}, {}, None)
    for path in sorted((folder / "vlm").glob("*.parquet"))[start::every]:
        if path.stem.startswith("questions"):
            continue
        table = parquet.read_table(path).to_pydict()
        scores = np.asarray([table[f"logit_{letter}"] for letter in "ABCDEF"], dtype=np.float64).T
        loss = (np.asarray(list("ABCDEF"))[scores.argmax(axis=1)] != np.asarray(table["answer"])).astype(
            float
        )
        report_elsewhere(
            f"vlm {path.stem}", loss, {"logits": scores}, {"task": np.asarray(table["task"])}, None
        )


def report_elsewhere(
    name: str, loss: np.ndarray, inputs: dict[str, Any], categories: dict[str, np.ndarray], cluster: Any
) -> None:
    """Half of the questions to fit, the other half to judge, beside the baseline chosen on the first half."""
    unit = np.arange(len(loss)) if cluster is None else np.unique(cluster, return_inverse=True)[1]
    in_fit = np.random.default_rng(0).random(unit.max() + 1) < 0.5
    is_fit = in_fit[unit]

    def take(mask: np.ndarray, with_categories: bool = True) -> dict[str, Any]:
        taken: dict[str, Any] = {}
        for key, value in inputs.items():
            taken[key] = {n: c[mask] for n, c in value.items()} if isinstance(value, dict) else value[mask]
        if categories and with_categories:
            taken["categories"] = {n: c[mask] for n, c in categories.items()}
        return taken

    learned = learn_confidence(
        loss=loss[is_fit],
        **take(is_fit),
        clusters=None if cluster is None else unit[is_fit],
        contributions=False,
    )
    test = ~is_fit
    if "signals" in inputs:
        single = min(
            inputs["signals"].values(),
            key=lambda signal: abstain.aurc(loss[is_fit], rank_missing_last(signal[is_fit])),
        )
        baseline = rank_missing_last(single[test])
    else:
        baseline = abstain.scores.max_softmax(inputs.get("logits"), probs=inputs.get("probs"))[test]
    before = abstain.aurc(loss[test], baseline)
    after = abstain.aurc(loss[test], learned(**take(test)))
    text = f"  {name:45} learned {after / before - 1:+.1%} ({learned.kept}, proven {learned.proven})"
    if "signals" in inputs and len(inputs["signals"]) > 1:
        signals = take(test, with_categories=False)["signals"]
        combined = abstain.combine_signals(signals=signals)
        best = min(abstain.aurc(loss[test], rank_missing_last(signal)) for signal in signals.values())
        text += f"; {combined.kept} {abstain.aurc(loss[test], combined(signals=signals)) / best - 1:+.1%}"
    print(text, flush=True)


def speed(every: int, start: int) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2000, 20))
    right = features[:, 0] + features[:, 1] + rng.logistic(size=2000) > 0
    columns = {f"x{place}": column for place, column in enumerate(features.T)}
    signals = {"x0": columns.pop("x0")}
    learn_confidence(right, signals=signals, features=columns)  # the first call loads modules
    for contributions in (False, True):
        began = time.process_time()
        learn_confidence(right, signals=signals, features=columns, contributions=contributions)
        seconds = time.process_time() - began
        print(f"  2,000 x 20, five folds, contributions={contributions}: {seconds:.2f} s of one core")
    labels = rng.integers(0, 10, 1_000_000)
    scores = rng.normal(size=(1_000_000, 10)) + 2 * np.eye(10)[labels]
    scores[:, :5] *= 2  # so that there is something to learn: half of the classes are overconfident
    learned = learn_confidence(labels=labels[:5000], logits=scores[:5000])
    began = time.process_time()
    abstain.evaluate(scores, labels)
    evaluated = time.process_time() - began
    began = time.process_time()
    learned(logits=scores)
    applied = time.process_time() - began
    print(f"  1,000,000 x 10 logits: evaluate {evaluated:.2f} s, apply {learned.kept!r} {applied:.2f} s")


PARTS = {
    "language": language,
    "unlabelled": unlabelled,
    "elsewhere": elsewhere,
    "logits": logits,
    "nothing": nothing,
    "cascades": cascades,
    "speed": speed,
}
REPORTS = {
    "language": report_language,
    "unlabelled": report_unlabelled,
    "logits": report_logits,
    "nothing": report_nothing,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--pool", type=Path, nargs="+")
    options = parser.parse_args()
    warnings.simplefilter("ignore", abstain.errors.AbstainWarning)
    if options.pool:
        records = [record for path in options.pool for record in json.loads(path.read_text())]
    else:
        records = PARTS[options.part](options.every, options.start)
    if options.save:
        options.save.write_text(json.dumps(records))
    if options.part in REPORTS:
        REPORTS[options.part](records)


if __name__ == "__main__":
    main()
