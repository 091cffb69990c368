"""Tables and figures of the pages on forecasts and detections, computed from the folder beyond/ of ABSTAIN_DATA.

    python docs/generate/beyond.py    writes the figures, and prints the tables that the pages show

The tests compute the tables again and look for them on the pages.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq
from figures import STYLE
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import abstain
from abstain import _tables
from abstain.evaluation import precision_recall
from abstain.inference import paired_difference
from abstain.sklearn import SelectiveRegressor

FACTOR_OF_TWO = np.log(
    2
)  # a forecast is off by more than this on the log scale if it is twice or half the truth
LAST_SEASON = "2025-08-01"  # forecasts made from here on are of the season 2025-26
DETECTORS = {"Faster R-CNN": "faster-rcnn-resnet-50", "SSD": "ssd-resnet-50"}
CLASSES = {1: "person", 3: "car", 7: "train", 17: "cat", 18: "dog", 25: "giraffe"}  # by the numbers of COCO
IMAGES = Path(__file__).parents[1] / "images"


def read_columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a parquet file by name."""
    table = pq.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


# forecasts of influenza admissions -------------------------------------------------------------------


class Forecasts(NamedTuple):
    """Forecasts of all models for the same weeks, locations and horizons, in one order.

    Attributes
    ----------
    median, width : dict of ndarray
        By model: the median forecast, and the width of its central 95% interval, both as log(1 + admissions).
    truth : ndarray
        What was observed, as log(1 + admissions).
    location, week, made : ndarray of str
        Where, the week that was forecast (by its last day), and when the forecast was made.
    horizon : ndarray of int
        Weeks ahead, 0 to 3.
    """

    median: dict[str, np.ndarray]
    width: dict[str, np.ndarray]
    truth: np.ndarray
    location: np.ndarray
    week: np.ndarray
    made: np.ndarray
    horizon: np.ndarray

    def loss(self, model: str) -> np.ndarray:
        """The absolute error of the median on the log scale: 0.69 is a factor of two."""
        return np.abs(self.median[model] - self.truth)

    def confidence(self, model: str) -> np.ndarray:
        """Minus the width of the model's own 95% interval."""
        return -self.width[model]

    @property
    def clusters(self) -> list[np.ndarray]:
        """Two crossed kinds of clusters: errors of one location, and of one week, depend on each other."""
        return [self.location, self.week]


def read_forecasts(folder: Path) -> Forecasts:
    """Read the forecasts that all eight models made."""
    columns = read_columns(folder / "beyond" / "flusight.parquet")
    places = list(zip(columns["reference_date"], columns["location"], columns["horizon"]))
    models = np.unique(columns["model"])
    row_of = {(model, place): row for row, (model, place) in enumerate(zip(columns["model"], places))}
    complete = sorted(place for place in set(places) if all((model, place) in row_of for model in models))
    rows = {model: np.asarray([row_of[model, place] for place in complete]) for model in models}
    first = rows[models[0]]

    def log_scale(name: str, model: str) -> np.ndarray:
        return np.log1p(np.maximum(columns[name][rows[model]].astype(np.float64), 0.0))

    return Forecasts(
        median={model: log_scale("median", model) for model in models},
        width={model: log_scale("q975", model) - log_scale("q025", model) for model in models},
        truth=log_scale("truth", models[0]),
        location=columns["location"][first],
        week=columns["target_end_date"][first],
        made=columns["reference_date"][first],
        horizon=columns["horizon"][first],
    )


def rank_forecasts(forecasts: Forecasts) -> abstain.evaluation.Comparison:
    """The eight models, ranked by AURC with two-way clusters."""
    models = {name: (forecasts.loss(name), forecasts.confidence(name)) for name in forecasts.median}
    return abstain.compare(models, clusters=forecasts.clusters)


def ranking_table(forecasts: Forecasts) -> str:
    """A row for each model: rank, AURC with its interval, mean error of all and of the surest half."""
    rows: dict[str, list[str]] = {"rank": [], "model": [], "AURC": [], "all": [], "surest half": [], "": []}
    for contestant in rank_forecasts(forecasts).contestants:
        loss = forecasts.loss(contestant.name)
        half = abstain.risk_at_coverage(loss, forecasts.confidence(contestant.name), coverage=0.5)
        ranks = sorted({contestant.rank_low, contestant.rank_high})
        rows["rank"].append("-".join(map(str, ranks)))
        rows["model"].append(contestant.name)
        rows["AURC"].append(f"{contestant.estimate:.3f} [{contestant.low:.3f}, {contestant.high:.3f}]")
        rows["all"].append(f"{loss.mean():.3f}")
        rows["surest half"].append(f"{half:.3f}")
        rows[""].append(contestant.group)
    return _tables.markdown_table(rows)


def difference_table(forecasts: Forecasts) -> str:
    """The ensemble minus the baseline, with no clusters, one kind of clusters, and two."""
    ensemble, baseline = "FluSight-ensemble", "FluSight-baseline"
    kinds: dict[str, Any] = {
        "none: every forecast is one draw": None,
        "location": forecasts.location,
        "week": forecasts.week,
        "location and week": forecasts.clusters,
    }
    rows: dict[str, list[str]] = {"clusters": [], "difference of AURC": [], "p": []}
    for name, clusters in kinds.items():
        difference = paired_difference(
            forecasts.loss(ensemble),
            forecasts.confidence(ensemble),
            forecasts.loss(baseline),
            forecasts.confidence(baseline),
            clusters=clusters,
        )
        rows["clusters"].append(name)
        rows["difference of AURC"].append(
            f"{difference.difference:.3f} [{difference.low:.3f}, {difference.high:.3f}]"
        )
        rows["p"].append(f"{difference.p_value:.0e}")
    return _tables.markdown_table(rows)


def promise_table(forecasts: Forecasts) -> str:
    """Thresholds for forecasts of the current week: mean error clipped at 1, and errors beyond a factor of two."""
    model = "UMass-flusion"
    now = forecasts.horizon == 0
    loss = forecasts.loss(model)[now]
    confidence = forecasts.confidence(model)[now]
    promises = {
        "mean error, clipped at 1": (np.minimum(loss, 1.0), (0.25, 0.3, 0.4)),
        "off by a factor of two": (loss > FACTOR_OF_TWO, (0.1, 0.2)),
    }
    rows: dict[str, list[str]] = {"loss": [], "promised": [], "forecasts as draws": [], "weeks as draws": []}
    for name, (promised_loss, targets) in promises.items():
        for target in targets:
            rows["loss"].append(name)
            rows["promised"].append(f"{target:g}")
            for column, clusters in (("forecasts as draws", None), ("weeks as draws", forecasts.week[now])):
                rule = abstain.select_threshold(promised_loss, confidence, risk=target, clusters=clusters)
                rows[column].append(f"{rule.coverage:.0%}" if rule.feasible else "none")
    return _tables.markdown_table(rows)


def regressor_table(forecasts: Forecasts) -> str:
    """A regression on the medians and widths of all models: fitted on earlier seasons, held against the last one."""
    features = np.column_stack([*forecasts.median.values(), *forecasts.width.values(), forecasts.horizon])
    earlier = forecasts.made < LAST_SEASON
    regressor = SelectiveRegressor(
        LinearRegression(),
        uncertainty=RandomForestRegressor(50, min_samples_leaf=20, random_state=0),
        coverage=0.5,
        method="empirical",
        cv=0.5,
        random_state=0,
    )
    regressor.fit(features[earlier], forecasts.truth[earlier], clusters=forecasts.made[earlier])
    later = ~earlier
    prediction, accepted = regressor.predict_selective(features[later])
    error = np.abs(prediction - forecasts.truth[later])
    is_far_off = error > FACTOR_OF_TWO
    rows = {
        "forecasts of 2025-26": ["all", "accepted", "rejected"],
        "share": [f"{share:.0%}" for share in (1.0, accepted.mean(), 1 - accepted.mean())],
        "mean error": [f"{error[rows].mean():.3f}" for rows in (slice(None), accepted, ~accepted)],
        "off by a factor of two": [
            f"{is_far_off[rows].mean():.1%}" for rows in (slice(None), accepted, ~accepted)
        ],
    }
    return _tables.markdown_table(rows)


def draw_forecasts(forecasts: Forecasts, path: Path) -> None:
    """Mean error of the accepted forecasts against coverage, one line for each model."""
    with plt.rc_context(STYLE):
        figure, ax = plt.subplots()
        for contestant in rank_forecasts(forecasts).contestants:
            name = contestant.name
            curve = abstain.risk_coverage_curve(forecasts.loss(name), forecasts.confidence(name))
            kept = np.linspace(0, len(curve.coverage) - 1, 200).astype(int)
            shown = kept[curve.coverage[kept] >= 0.05]  # fewer than 5% of the forecasts are noise
            is_main = name in ("FluSight-ensemble", "FluSight-baseline")
            ax.plot(curve.coverage[shown], curve.risk[shown], lw=2.2 if is_main else 1, label=name)
        ax.set(xlabel="coverage", ylabel="mean |log error| of the accepted", xlim=(0, 1), ylim=(0, None))
        ax.legend(fontsize="x-small", ncols=2)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


# detections on COCO ----------------------------------------------------------------------------------


class Detections(NamedTuple):
    """The detections of one network on the 5,000 images of COCO val2017, one entry per box."""

    right: np.ndarray  # whether a true box of the same class overlaps with IoU of at least 0.6
    score: np.ndarray  # from 0.3 to 1
    image: np.ndarray  # number of the image
    category: np.ndarray  # name of the class; "" for classes that are not in `CLASSES`


def read_detections(folder: Path) -> dict[str, Detections]:
    """The detections of both networks by name."""
    detections = {}
    for name, file in DETECTORS.items():
        columns = read_columns(folder / "beyond" / f"coco_{file}_iou60.parquet")
        detections[name] = Detections(
            right=columns["matched"],
            score=columns["score"].astype(np.float64),
            image=columns["image"],
            category=np.asarray([CLASSES.get(number, "") for number in columns["cls"].tolist()]),
        )
    return detections


def detector_table(detections: dict[str, Detections]) -> str:
    """Precision, recall and F1 of both networks at four scores."""
    rows: dict[str, list[str]] = {"network": [], "score": [], "coverage": []}
    rows |= {"precision": [], "recall": [], "F1": []}
    for name, boxes in detections.items():
        table = precision_recall(
            boxes.right, boxes.score, thresholds=[0.3, 0.5, 0.7, 0.9], clusters=boxes.image
        )
        for column in table.scores:
            rows["network"].append(name)
            rows["score"].append(column)
            [coverage] = table.select(metric="coverage", score=column)
            rows["coverage"].append(f"{coverage.estimate:.2f}")
            for metric, heading in (("precision", "precision"), ("recall", "recall"), ("f1", "F1")):
                [entry] = table.select(metric=metric, score=column)
                rows[heading].append(f"{entry.estimate:.3f} [{entry.low:.3f}, {entry.high:.3f}]")
    return _tables.markdown_table(rows)


def class_table(detections: dict[str, Detections]) -> str:
    """A threshold for each of six classes with a promised precision of 65%, by image clusters, worst class first."""
    rows: dict[str, list[str]] = {"network": [], "class": [], "boxes": [], "accept a score of": []}
    rows |= {"coverage": [], "precision": [], "recall": [], "F1": []}
    for name, boxes in detections.items():
        listed = boxes.category != ""
        rules = abstain.select_threshold(
            ~boxes.right[listed],
            boxes.score[listed],
            risk=0.35,
            delta=0.1,
            groups=boxes.category[listed],
            clusters=boxes.image[listed],
        )
        for category in rules.worst_first():
            rule = rules[category]
            rows["network"].append(name)
            rows["class"].append(category)
            rows["boxes"].append(f"{rule.n:,}")
            cells = ["none", "0", "-", "-", "-"]
            if rule.value is not None:
                in_class = boxes.category == category
                table = precision_recall(
                    boxes.right[in_class], boxes.score[in_class], thresholds=[rule.value]
                )
                measured = [
                    f"{table[metric].estimate:.2f}" for metric in ("coverage", "precision", "recall", "f1")
                ]
                cells = [f"{rule.value:.3f}", *measured]
            for heading, cell in zip(list(rows)[3:], cells):
                rows[heading].append(cell)
    return _tables.markdown_table(rows)


def difference_of_detectors(detections: dict[str, Detections]) -> str:
    """AURC of both networks, with images as draws and with boxes as draws."""
    rows: dict[str, list[str]] = {"network": [], "AURC, images as draws": [], "boxes as draws": []}
    for name, boxes in detections.items():
        rows["network"].append(name)
        for heading, clusters in (("AURC, images as draws", boxes.image), ("boxes as draws", None)):
            interval = abstain.interval("aurc", ~boxes.right, boxes.score, clusters=clusters)
            rows[heading].append(f"{interval.estimate:.4f} [{interval.low:.4f}, {interval.high:.4f}]")
    return _tables.markdown_table(rows)


def draw_detections(detections: dict[str, Detections], path: Path) -> None:
    """Precision against coverage of both networks: all classes, and people alone."""
    with plt.rc_context(STYLE):
        figure, ax = plt.subplots()
        for color, (name, boxes) in zip(("C0", "C1"), detections.items()):
            for style, label, rows in (
                ("-", "all classes", slice(None)),
                ("--", "people", boxes.category == "person"),
            ):
                curve = abstain.risk_coverage_curve(~boxes.right[rows], boxes.score[rows])
                kept = np.linspace(0, len(curve.coverage) - 1, 200).astype(int)
                shown = kept[curve.coverage[kept] >= 0.02]
                ax.plot(curve.coverage[shown], 1 - curve.risk[shown], color + style, label=f"{name}, {label}")
        ax.set(xlabel="coverage (share of the boxes with score of at least 0.3)", ylabel="precision")
        ax.set(xlim=(0, 1), ylim=(0.4, 1.01))
        ax.legend(fontsize="small")
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def make_tables(folder: Path) -> dict[str, list[str]]:
    """The tables of each page, as Markdown; `folder` is that of ABSTAIN_DATA."""
    forecasts = read_forecasts(folder)
    detections = read_detections(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abstain.errors.AbstainWarning)
        return {
            "forecasts.md": [
                ranking_table(forecasts),
                difference_table(forecasts),
                promise_table(forecasts),
                regressor_table(forecasts),
            ],
            "detections.md": [
                difference_of_detectors(detections),
                detector_table(detections),
                class_table(detections),
            ],
        }


if __name__ == "__main__":
    data_folder = Path(os.environ["ABSTAIN_DATA"])
    draw_forecasts(read_forecasts(data_folder), IMAGES / "forecasts.svg")
    draw_detections(read_detections(data_folder), IMAGES / "detections.svg")
    for page, page_tables in make_tables(data_folder).items():
        print(f"== {page}\n")
        print("\n\n".join(page_tables) + "\n")
