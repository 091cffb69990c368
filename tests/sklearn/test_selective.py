"""What a user does with the selective classifier and regressor."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, train_test_split
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import abstain
from abstain.errors import AbstainWarning, InfeasibleError, InputError
from abstain.metrics.definitions import METRICS
from abstain.metrics.metric import Metric
from abstain.sklearn import (
    RiskCoverageDisplay,
    SelectiveClassifier,
    SelectiveRegressor,
    augrc_scorer,
    aurc_scorer,
    coverage_at_risk_scorer,
    metric_scorer,
    risk_at_coverage_scorer,
)


@pytest.fixture(scope="module")
def data():
    return make_classification(
        3000, 8, n_informative=5, n_classes=3, class_sep=1.2, flip_y=0.05, random_state=1
    )


def test_the_threshold_is_that_of_the_held_out_part(data):
    X, y = data
    clf = SelectiveClassifier(LogisticRegression(), risk=0.3, cv="prefit")
    clf.estimator.fit(X[:1000], y[:1000])
    clf.fit(X[1000:], y[1000:])
    assert clf.estimator_ is clf.estimator
    p = clf.estimator.predict_proba(X[1000:])
    by_hand = abstain.select_threshold(p.argmax(1) != y[1000:], abstain.scores.max_softmax(probs=p), risk=0.3)
    assert clf.threshold_.value == by_hand.value
    assert clf.guarantee_ == by_hand.guarantee
    assert "2000 calibration samples" in clf.guarantee_


def test_a_share_is_held_out_of_training_and_carries_the_guarantee(data):
    X, y = data
    clf = SelectiveClassifier(risk=0.2, cv=0.5, random_state=0).fit(X, y)
    assert clf.threshold_.n == 1500
    assert clf.guarantee_ is not None
    half = LogisticRegression().fit(*_train_part(X, y))
    np.testing.assert_allclose(clf.predict_proba(X), half.predict_proba(X))


def _train_part(X, y):
    X_train, _, y_train, _ = train_test_split(X, y, test_size=0.5, random_state=0)
    return X_train, y_train


def test_folds_use_all_data_and_promise_nothing(data):
    X, y = data
    clf = SelectiveClassifier(risk=0.2, cv=4).fit(X, y)
    assert clf.threshold_.n == len(y)
    assert clf.guarantee_ is None
    assert "out-of-fold" in clf.threshold_.note
    np.testing.assert_allclose(clf.predict_proba(X), LogisticRegression().fit(X, y).predict_proba(X))


@pytest.mark.parametrize(
    ("names", "label"),
    [
        ([0, 1, 2], -1),
        ([-1, 0, 1], -2),
        ([0.0, 1.0, 2.0], np.nan),
        (["ant", "bee", "cat"], "abstain"),
        ([False, True, True], -1),
    ],
)
def test_abstaining_is_the_default(data, names, label):
    X, y = data
    classes = np.asarray(names)[y]
    clf = SelectiveClassifier(coverage=0.6, cv=0.3, random_state=0).fit(X, classes)
    prediction, accepted = clf.predict_selective(X)
    assert 0.5 < accepted.mean() < 0.75
    np.testing.assert_array_equal(accepted, clf.confidence(X) >= clf.threshold_.value)
    np.testing.assert_array_equal(clf.predict_all(X), prediction)
    answers = clf.predict(X)
    abstained = answers != answers if label != label else answers == label
    np.testing.assert_array_equal(abstained, ~accepted)
    assert (answers == prediction)[accepted].all()
    assert clf.score(X, classes) == pytest.approx((prediction == classes)[accepted].mean())
    always = clone(clf).set_params(abstain_label=None).fit(X, classes)
    np.testing.assert_array_equal(always.predict(X), prediction)


def test_a_class_named_abstain_asks_for_another_label(data):
    X, y = data
    names = np.asarray(["abstain", "bee", "cat"])[y]
    with pytest.raises(InputError, match="`abstain_label` must be set, got a class named 'abstain'"):
        SelectiveClassifier(coverage=0.6, random_state=0).fit(X, names)
    clf = SelectiveClassifier(coverage=0.6, abstain_label="?", random_state=0).fit(X, names)
    assert (clf.predict(X) == "?").any()


@pytest.mark.parametrize("label", ["don't know", None, -1])
def test_string_labels(data, label):
    X, y = data
    names = np.asarray(["ant", "bee", "cat"])[y]
    clf = SelectiveClassifier(coverage=0.5, abstain_label=label, cv=0.3, random_state=0).fit(X, names)
    said = clf.predict(X)
    expected = {"ant", "bee", "cat"} | ({label} if label is not None else set())
    assert set(said.tolist()) == expected
    assert clf.classes_.tolist() == ["ant", "bee", "cat"]


def test_nothing_is_accepted_when_nothing_can_be_promised(data):
    X, y = data
    clf = SelectiveClassifier(risk=1e-4, abstain_label=-1, cv=0.3, random_state=0)
    with pytest.warns(AbstainWarning, match="nothing will be accepted"):
        clf.fit(X, y)
    assert clf.threshold_.value is None
    assert (clf.predict(X) == -1).all()
    assert clf.score(X, y) == 0.0
    assert clf.guarantee_ is None


@pytest.mark.filterwarnings("ignore:.*no threshold could be certified")
def test_the_promise_holds_on_later_data(data):
    """Fixed seeds; over 60 trainings the error rate of the accepted may exceed r* in at most delta of them."""
    X, y = make_classification(60_000, 6, n_informative=4, class_sep=0.9, flip_y=0.02, random_state=3)
    rng = np.random.default_rng(0)
    broken = 0
    for _ in range(60):
        order = rng.permutation(len(y))
        clf = SelectiveClassifier(GaussianNB(), risk=0.1, delta=0.1, cv=0.5, random_state=0)
        clf.fit(X[order[:2000]], y[order[:2000]])
        prediction, accepted = clf.predict_selective(X[order[2000:]])
        broken += accepted.any() and (prediction != y[order[2000:]])[accepted].mean() > 0.1
    assert broken <= 6 + 3 * np.sqrt(60 * 0.1 * 0.9)


def test_clone_keeps_every_parameter_and_score_stays_a_method():
    clf = SelectiveClassifier(LogisticRegression(C=3), score="softmax_margin", risk=0.1, abstain_label=-1)
    other = clone(clf)
    assert other.get_params(deep=False)["score"] == "softmax_margin"
    assert other.get_params()["estimator__C"] == 3
    assert callable(other.score)
    other.set_params(score="negative_entropy", estimator__C=5)
    assert other.get_params()["score"] == "negative_entropy"
    assert other.estimator.C == 5
    assert clf.estimator.C == 3
    assert "score='softmax_margin'" in repr(clf)


def test_in_and_around_pipelines(data):
    X, y = data
    inside = make_pipeline(StandardScaler(), SelectiveClassifier(coverage=0.7, cv=0.3, random_state=0)).fit(
        X, y
    )
    around = SelectiveClassifier(
        make_pipeline(StandardScaler(), LogisticRegression()), coverage=0.7, cv=0.3, random_state=0
    )
    around.fit(X, y)
    assert abs(inside.score(X, y) - around.score(X, y)) < 0.02


def test_text_pipeline_with_sparse_features():
    texts = ["good fine great"] * 60 + ["bad awful poor"] * 60 + ["good bad"] * 8
    y = np.asarray([1] * 60 + [0] * 60 + [0, 1] * 4)
    clf = SelectiveClassifier(
        make_pipeline(CountVectorizer(), MultinomialNB()), coverage=0.8, cv=0.4, random_state=0
    )
    clf.fit(texts, y)
    prediction, accepted = clf.predict_selective(["great good fine", "awful bad poor"])
    assert prediction.tolist() == [1, 0]
    assert accepted.all()


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array, sp.coo_array])
@pytest.mark.parametrize("cv", [0.3, 3])
def test_sparse_input_equals_dense(data, make, cv):
    X, y = data
    X = np.where(np.abs(X) > 1, X, 0.0)[:600]
    a = SelectiveClassifier(coverage=0.6, cv=cv, random_state=0).fit(X, y[:600])
    b = SelectiveClassifier(coverage=0.6, cv=cv, random_state=0).fit(make(X), y[:600])
    assert b.threshold_.value == pytest.approx(a.threshold_.value, rel=1e-3)


def test_decision_values_serve_where_there_are_no_probabilities(data):
    X, y = data
    clf = SelectiveClassifier(LinearSVC(), score="logit_margin", coverage=0.5, cv=0.3, random_state=0).fit(
        X, y
    )
    d = np.sort(clf.decision_function(X), axis=1)
    np.testing.assert_allclose(clf.confidence(X), d[:, -1] - d[:, -2])
    assert not hasattr(clf, "predict_proba")
    binary = SelectiveClassifier(LinearSVC(), coverage=0.5, cv=0.3, random_state=0).fit(X, y == 0)
    order = np.argsort(np.abs(binary.decision_function(X)))
    assert (np.diff(binary.confidence(X)[order]) >= -1e-12).all()


def test_own_score_function(data):
    X, y = data
    clf = SelectiveClassifier(score=lambda p: p[:, 0], coverage=0.5, cv=0.3, random_state=0).fit(X, y)
    np.testing.assert_allclose(clf.confidence(X), clf.predict_proba(X)[:, 0])


def test_grid_search_by_scorers_and_by_own_score(data):
    X, y = data
    for scoring in (
        aurc_scorer(),
        coverage_at_risk_scorer(0.1),
        risk_at_coverage_scorer(0.5),
        augrc_scorer(),
        None,
    ):
        search = GridSearchCV(
            SelectiveClassifier(LogisticRegression(), coverage=0.7, cv=0.3, random_state=0),
            {"estimator__C": [1e-5, 1.0], "score": ["max_softmax", "negative_entropy"]},
            scoring=scoring, cv=3, error_score="raise",
        ).fit(X, y)  # fmt: skip
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["estimator__C"] == 1.0


def test_scorers_are_the_metrics_with_higher_better(data):
    X, y = data
    model = RandomForestClassifier(20, random_state=0).fit(X[:1500], y[:1500])
    p = model.predict_proba(X[1500:])
    wrong, g = model.predict(X[1500:]) != y[1500:], abstain.scores.max_softmax(probs=p)
    args = (model, X[1500:], y[1500:])
    assert aurc_scorer()(*args) == -abstain.aurc(wrong, g)
    assert augrc_scorer()(*args) == -abstain.augrc(wrong, g)
    assert risk_at_coverage_scorer(0.5)(*args) == -abstain.risk_at_coverage(wrong, g, coverage=0.5)
    assert coverage_at_risk_scorer(0.1)(*args) == abstain.coverage_at_risk(wrong, g, risk=0.1)
    w = np.arange(1, 1501.0)
    assert aurc_scorer()(*args, sample_weight=w) == -abstain.aurc(wrong, g, sample_weight=w)
    assert cross_val_score(model, X, y, cv=3, scoring=aurc_scorer()).max() < 0


def test_metadata_routing(data):
    X, y = data
    w = np.where(y == 0, 100.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        clf = SelectiveClassifier(inner, coverage=0.7, cv=0.3, random_state=0).fit(X, y, sample_weight=w)
        plain = SelectiveClassifier(LogisticRegression(), coverage=0.7, cv=0.3, random_state=0).fit(X, y)
        assert (clf.predict_all(X) == 0).mean() > (plain.predict_all(X) == 0).mean() + 0.1
        scorer = aurc_scorer().set_score_request(sample_weight=True)
        search = GridSearchCV(clf, {"estimator__C": [0.1, 1.0]}, scoring=scorer, cv=3, error_score="raise")
        search.fit(X, y, sample_weight=w)
        with pytest.raises(TypeError):
            SelectiveClassifier(LogisticRegression(), coverage=0.7).fit(X, y, unknown=w)
    # without routing the weights go straight to the estimator, split like the data
    direct = SelectiveClassifier(LogisticRegression(), coverage=0.7, cv=0.3, random_state=0).fit(
        X, y, sample_weight=w
    )
    np.testing.assert_allclose(direct.predict_proba(X), clf.predict_proba(X))


def test_display_from_estimator_and_from_losses(data):
    X, y = data
    clf = SelectiveClassifier(coverage=0.7, cv=0.3, abstain_label=-1, random_state=0).fit(X, y)
    shown = RiskCoverageDisplay.from_estimator(clf, X, y, name="mine")
    wrong = clf.estimator_.predict(X) != y
    assert shown.lines[0].risk[-1] == pytest.approx(wrong.mean())
    same = RiskCoverageDisplay.from_losses(wrong, clf.confidence(X), name="mine")
    assert same.lines == shown.lines
    assert isinstance(same, RiskCoverageDisplay)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one"),
        ({"risk": 0.1, "coverage": 0.5}, "exactly one"),
        ({"risk": 0.1, "cv": 1}, "cv"),
        ({"risk": 0.1, "cv": "none"}, "cv"),
        ({"risk": 0.1, "cv": True}, "cv"),
        ({"risk": 0.1, "score": "no such"}, "score"),
    ],
)
def test_bad_options_are_refused_in_fit(data, options, message):
    X, y = data
    with pytest.raises(InputError, match=message):
        SelectiveClassifier(**options).fit(X[:200], y[:200])


# regression ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uneven():
    """Noise grows with the first feature, so that an error model has something to find."""
    rng = np.random.default_rng(0)
    X = rng.random((4000, 3))
    return X, X @ [1.0, 2.0, 3.0] + rng.normal(size=4000) * (0.02 + X[:, 0])


def test_regressor_keeps_errors_within_tolerance(uneven):
    X, y = uneven
    reg = SelectiveRegressor(BayesianRidge(), tolerance=0.5, risk=0.1, cv=0.5, random_state=0).fit(
        X[:3000], y[:3000]
    )
    value, accepted = reg.predict_selective(X[3000:])
    assert 0.2 < accepted.mean() < 0.95
    assert (np.abs(value - y[3000:])[accepted] > 0.5).mean() < 0.13
    assert (np.abs(value - y[3000:]) > 0.5).mean() > 0.13
    assert "error rate" in reg.guarantee_
    np.testing.assert_array_equal(np.isnan(reg.predict(X[3000:])), ~accepted)
    assert (reg.predict(X[3000:], abstain_label=-99.0)[~accepted] == -99).all()
    always = clone(reg).set_params(abstain_label=None).fit(X[:3000], y[:3000])
    np.testing.assert_array_equal(always.predict(X[3000:]), value)
    assert reg.score(X[3000:], y[3000:]) == always.score(X[3000:], y[3000:]) > 0.5


def test_regressor_by_coverage_and_by_own_std(uneven):
    X, y = uneven
    reg = SelectiveRegressor(coverage=0.5, cv=0.5, random_state=0).fit(X, y)
    assert reg.threshold_.risk_upper is None
    accepted = reg.predict_selective(X)[1]
    assert X[accepted, 0].mean() < X[~accepted, 0].mean() - 0.2
    own = SelectiveRegressor(
        GaussianProcessRegressor(), uncertainty="std", coverage=0.5, cv=0.5, random_state=0
    )
    own.fit(X[:200], y[:200])
    std = own.estimator_.predict(X[:200], return_std=True)[1]
    np.testing.assert_allclose(own.confidence(X[:200]), -std)


def test_regressor_folds_promise_nothing(uneven):
    X, y = uneven
    assert SelectiveRegressor(coverage=0.5, cv=3).fit(X, y).guarantee_ is None
    assert SelectiveRegressor(tolerance=0.5, risk=0.2, cv=3).fit(X, y).guarantee_ is None


def test_regressor_refuses_a_risk_without_tolerance_and_unknown_uncertainty(uneven):
    X, y = uneven
    with pytest.raises(InputError, match="tolerance"):
        SelectiveRegressor(risk=0.1).fit(X, y)
    with pytest.raises(InputError, match="uncertainty"):
        SelectiveRegressor(coverage=0.5, uncertainty="magic").fit(X, y)
    with pytest.raises(InputError, match="prefit"):
        SelectiveRegressor(BayesianRidge().fit(X, y), coverage=0.5, cv="prefit").fit(X, y)


def test_make_regression_is_accepted_as_it_comes():
    X, y = make_regression(300, 4, noise=5.0, random_state=0)
    assert SelectiveRegressor(coverage=0.5, random_state=0).fit(X, y).predict(X).shape == (300,)


def test_the_number_of_samples_that_is_advised_counts_calibration_samples(data):
    X, y = data
    advice = r"about [\d,]+ calibration samples would certify the target.*Of the samples that `fit` gets, the share cv=0\.5"
    with pytest.warns(AbstainWarning, match=advice):
        SelectiveClassifier(LogisticRegression(), risk=0.18, cv=0.5, random_state=0).fit(X, y)


def test_a_classifier_without_a_certified_threshold_answers_nothing_by_mistake(data):
    X, y = data
    clf = SelectiveClassifier(risk=1e-4, cv=0.3, abstain_label=None, random_state=0)
    with pytest.warns(AbstainWarning, match="smallest risk"):
        clf.fit(X, y)
    assert not clf.accepts(X).any()
    with pytest.raises(InfeasibleError, match="abstain_label"):
        clf.predict(X)
    assert (clf.predict(X, abstain_label=-1) == -1).all()
    assert not clf.predict_selective(X)[1].any()


@pytest.mark.parametrize("risk", [5, -1, 1, 1.5, 100])
def test_percents_are_refused_with_the_remedy(data, risk):
    X, y = data
    with pytest.raises(
        InputError, match=r"`risk` must be (below 1, the largest|at least 0, the smallest) possible loss"
    ):
        SelectiveClassifier(risk=risk, random_state=0).fit(X, y)


def test_the_abstain_label_is_no_class(data):
    X, y = data
    for label in np.unique(y).tolist():
        with pytest.raises(InputError, match="must not be one of the classes"):
            SelectiveClassifier(coverage=0.8, abstain_label=label, random_state=0).fit(X, y)
    clf = SelectiveClassifier(coverage=0.8, random_state=0).fit(X, y)
    with pytest.raises(InputError, match="must not be one of the classes"):
        clf.predict(X, abstain_label=int(y[0]))
    names = np.asarray(["ant", "bee", "cat"])[y % 3]
    with pytest.raises(InputError, match="ant"):
        SelectiveClassifier(coverage=0.8, abstain_label="ant", random_state=0).fit(X, names)


def test_a_pipeline_can_say_that_it_abstained(data):
    X, y = data
    pipe = make_pipeline(StandardScaler(), SelectiveClassifier(coverage=0.6, cv=0.3, random_state=0)).fit(
        X, y
    )
    said = pipe.predict(X, abstain_label=-9)
    accepted = pipe[-1].accepts(pipe[:-1].transform(X))
    assert 0.4 < accepted.mean() < 0.8
    assert (said[~accepted] == -9).all()
    assert (pipe.predict(X)[~accepted] == -1).all()
    np.testing.assert_array_equal(said[accepted], pipe.predict(X)[accepted])


def test_scorers_do_not_take_an_abstention_for_an_error():
    """Inside a Pipeline `predict` says "?" of what is rejected; the answer behind it is what is scored."""
    X, y = make_classification(400, n_classes=3, n_informative=5, random_state=0)
    names = np.asarray(["a", "b", "c"])[y]
    inner = SelectiveClassifier(coverage=0.5, cv=0.5, random_state=0, abstain_label="?")
    scaled = StandardScaler().fit_transform(X)
    for given, steps in ((scaled, [StandardScaler(), inner]), (X, [inner])):
        expected = aurc_scorer()(clone(inner).fit(given, names), given, names)
        pipeline = make_pipeline(*steps).fit(X, names)
        assert (pipeline.predict(X) == "?").any()
        assert aurc_scorer()(pipeline, X, names) == pytest.approx(expected)


# groups and clusters ------------------------------------------------------------------------------------------------


class Recorder(LogisticRegression):
    """Remembers what its `fit` was given besides X and y."""

    def fit(self, X, y, sample_weight=None, **more):
        self.more_ = sorted(more)
        self.rows_ = len(y)
        return super().fit(X, y, sample_weight=sample_weight)


def test_groups_get_thresholds_of_their_own_and_the_model_never_sees_them(data):
    X, y = data
    rng = np.random.default_rng(0)
    site = np.where(rng.random(len(y)) < 0.5, "north", "south")
    y = np.where(
        (site == "south") & (rng.random(len(y)) < 0.1), (y + 1) % 3, y
    )  # labels are worse in the south
    clf = SelectiveClassifier(Recorder(), risk=0.35, delta=0.1, cv=0.5, random_state=0)
    clf.fit(X, y, groups=site, sample_weight=np.ones(len(y)))
    assert clf.estimator_.more_ == []
    train, kept = train_test_split(np.arange(len(y)), test_size=0.5, random_state=0)
    inner = LogisticRegression().fit(X[train], y[train])
    key = abstain.scores.max_softmax(probs=inner.predict_proba(X[kept]))
    wrong = inner.predict(X[kept]) != y[kept]
    for group in ("north", "south"):
        here = site[kept] == group
        by_hand = abstain.select_threshold(wrong[here], key[here], risk=0.35, delta=0.05)  # delta / 2 groups
        assert clf.threshold_[group].value == by_hand.value
    assert clf.threshold_["north"].value < clf.threshold_["south"].value
    accepted = clf.accepts(X, groups=site)
    cut = np.where(site == "north", clf.threshold_["north"].value, clf.threshold_["south"].value)
    np.testing.assert_array_equal(accepted, clf.confidence(X) >= cut)
    np.testing.assert_array_equal(clf.predict(X, groups=site) == -1, ~accepted)
    assert "each of 2 groups" in clf.guarantee_
    assert clf.score(X, y, groups=site) > 0.65
    with pytest.raises(InputError, match="needs `groups`, one per sample, since `fit` got them"):
        clf.predict(X)
    with pytest.raises(InputError, match="one label for each of 3000 samples"):
        SelectiveClassifier(risk=0.2).fit(X, y, groups=site[:10])
    plain = SelectiveClassifier(coverage=0.5, random_state=0).fit(X, y)
    with pytest.raises(InputError, match="takes `groups` only if `fit` got them"):
        plain.predict(X, groups=site)


@pytest.mark.parametrize("cv", [0.4, 4, "prefit"])
def test_clusters_are_the_unit_of_the_promise_and_are_never_split(data, cv):
    X, y = data
    patient = np.arange(len(y)) // 3
    estimator = Recorder().fit(X[:300], y[:300]) if cv == "prefit" else Recorder()
    clf = SelectiveClassifier(estimator, risk=0.3, delta=0.2, cv=cv, random_state=0).fit(
        X, y, clusters=patient
    )
    assert clf.estimator_.more_ == []
    calibrated = {0.4: 400, 4: 1000, "prefit": 1000}[cv]
    assert clf.threshold_.clusters == calibrated
    assert clf.threshold_.largest == 3
    assert clf.threshold_.n == 3 * calibrated  # whole clusters
    if cv != 4:
        assert f"{calibrated} calibration clusters" in clf.guarantee_


@pytest.mark.parametrize("cv", [0.5, 3])
def test_the_regressor_takes_groups_and_clusters(uneven, cv):
    X, y = uneven
    site = np.where(X[:, 1] < 0.5, "a", "b")
    options = {"tolerance": 0.5, "risk": 0.2, "cv": cv, "random_state": 0}
    reg = SelectiveRegressor(**options).fit(X, y, groups=site)
    assert set(reg.threshold_.thresholds) == {"a", "b"}
    np.testing.assert_array_equal(np.isnan(reg.predict(X, groups=site)), ~reg.accepts(X, groups=site))
    clustered = SelectiveRegressor(**options | {"delta": 0.3}).fit(X, y, clusters=np.arange(len(y)) // 2)
    assert clustered.threshold_.clusters == (1000 if cv == 0.5 else 2000)


def test_groups_and_clusters_reach_the_promise_through_pipelines_and_routing(data):
    X, y = data
    site = np.where(np.arange(len(y)) % 2, "a", "b")
    patient = np.arange(len(y)) // 3
    inner = SelectiveClassifier(risk=0.3, delta=0.2, cv=0.5, random_state=0)
    pipe = make_pipeline(StandardScaler(), inner)
    pipe.fit(X, y, selectiveclassifier__groups=site)
    assert set(pipe[-1].threshold_.thresholds) == {"a", "b"}
    assert (pipe.predict(X, groups=site) == -1).any()
    with sklearn.config_context(enable_metadata_routing=True):
        asking = clone(inner).set_fit_request(clusters=True, groups=False)
        routed = make_pipeline(StandardScaler(), asking).fit(X, y, clusters=patient)
        assert routed[-1].threshold_.clusters == 500
        direct = clone(inner).set_params(estimator=Recorder()).fit(X, y, clusters=patient)
        assert direct.estimator_.more_ == []
        assert direct.threshold_.clusters == 500


def test_an_inner_model_gets_groups_only_if_it_asks_for_them(data):
    X, y = data

    class Asking(LogisticRegression):
        def fit(self, X, y, groups=None):
            self.groups_ = groups
            return super().fit(X, y)

    site = np.where(np.arange(len(y)) % 2, "a", "b")
    clf = SelectiveClassifier(Asking(), risk=0.3, cv=0.5, random_state=0).fit(X, y, groups=site)
    assert len(clf.estimator_.groups_) == len(y) // 2
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=GroupKFold(3))
        clf = SelectiveClassifier(search, risk=0.3, cv=0.5, random_state=0)
        clf.fit(
            X,
            y,
            groups=np.where(np.arange(len(y)) % 3 == 0, "a", np.where(np.arange(len(y)) % 3 == 1, "b", "c")),
        )
        assert set(clf.threshold_.thresholds) == {"a", "b", "c"}


@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC()])
@pytest.mark.parametrize("binary", [False, True])
def test_a_saved_rule_of_a_classifier_knows_its_score(data, tmp_path, estimator, binary):
    X, y = data
    y = y == 0 if binary else y
    clf = SelectiveClassifier(estimator, risk=0.25, cv=0.5, random_state=0).fit(X, y)
    accepted = clf.accepts(X)
    assert 0.05 < accepted.mean() <= 1
    clf.threshold_.save(tmp_path / "rule.json")
    rule = abstain.load_rule(tmp_path / "rule.json")
    assert rule.origin.score == "max_softmax"
    probs = hasattr(clf, "predict_proba")
    outputs = {"probs": clf.predict_proba(X)} if probs else {"logits": clf.decision_function(X)}
    np.testing.assert_array_equal(rule.accepts(**outputs), accepted)
    one_by_one = [bool(clf.accepts(row[None])[0]) for row in X[:200]]
    assert one_by_one == accepted[:200].tolist()
    with pytest.raises(InputError, match="units"):
        rule.accepts(clf.confidence(X))
    with pytest.raises(InputError, match="classes"):
        rule.accepts(logits=np.random.default_rng(0).normal(size=(9, 5)))


def test_a_function_of_the_users_own_is_no_named_score(data):
    X, y = data

    def max_softmax(p):
        return p[:, 0]

    clf = SelectiveClassifier(score=max_softmax, coverage=0.5, cv=0.3, random_state=0).fit(X, y)
    np.testing.assert_allclose(clf.confidence(X), clf.predict_proba(X)[:, 0])
    np.testing.assert_array_equal(clf.accepts(X), clf.confidence(X) >= clf.threshold_.value)


def mean_rank_of_errors(rows, options):
    """Mean share of the samples that are at least as confident as an error; larger is better."""
    return float((rows.loss * rows.accepted_mass).sum() / (rows.loss.sum() * rows.total_mass[0]))


OWN = Metric(
    name="mean_rank_of_errors",
    label="mean rank of errors",
    summary="the mean rank of errors, as a share",
    lower_is_better=False,
    value=mean_rank_of_errors,
)


@pytest.mark.parametrize("metric", [*METRICS.values(), OWN])
def test_a_scorer_of_any_metric_has_its_direction(data, metric):
    X, y = data
    model = LogisticRegression().fit(X, y)
    value = metric(model.predict(X) != y, abstain.scores.max_softmax(probs=model.predict_proba(X)))
    sign = -1 if metric.lower_is_better else 1
    assert metric_scorer(metric)(model, X, y) == pytest.approx(sign * float(value), rel=1e-12)
    again = pickle.loads(pickle.dumps(metric_scorer(metric)))
    assert again(model, X, y) == metric_scorer(metric)(model, X, y)


def test_a_scorer_of_a_users_own_metric_goes_into_a_search(data):
    X, y = data
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=metric_scorer(OWN), cv=3)
    assert np.isfinite(search.fit(X, y).best_score_)
    with pytest.raises(InputError, match="unknown metric"):
        metric_scorer("no such metric")


# several promises ----------------------------------------------------------------------------------


@pytest.mark.parametrize("score", ["max_softmax", lambda probs: probs.max(axis=1)], ids=["named", "own"])
@pytest.mark.parametrize("names", [None, ["low", "middle", "high"]], ids=["numbers", "words"])
def test_a_risk_for_each_predicted_class(data, score, names):
    X, y = data
    y = y if names is None else np.asarray(names)[y]
    classes = np.unique(y)
    risk = {classes[0]: 0.2, classes[2]: 0.25}
    clf = SelectiveClassifier(
        RandomForestClassifier(40, random_state=0), risk=risk, score=score, random_state=0, cv=0.5
    )
    _, calibration = train_test_split(np.arange(len(y)), test_size=0.5, random_state=0)
    clf.fit(X, y)
    rule = clf.threshold_
    assert rule.feasible
    prediction, accepted = clf.predict_selective(X[calibration])
    for label in risk:
        counted = accepted & (prediction == label)
        assert rule.counted[label].accepted == counted.sum()
        assert rule.risks[label] == pytest.approx((y[calibration][counted] != label).mean())
    assert str(classes[2]) in clf.guarantee_
    assert (clf.predict(X[calibration])[accepted] == prediction[accepted]).all()
    assert clone(clf).get_params()["risk"] == risk


def test_risks_by_class_in_groups_folds_and_with_a_learned_score(data):
    X, y = data
    risk = {0: 0.4, 1: 0.4}
    site = np.where(np.arange(len(y)) % 2, "a", "b")
    grouped = SelectiveClassifier(risk=risk, cv=0.5, random_state=0).fit(X, y, groups=site)
    assert set(grouped.threshold_.thresholds) == {"a", "b"}
    assert grouped.accepts(X, site).any()
    with pytest.warns(AbstainWarning, match="are rows of the calibration data"):
        checks = grouped.threshold_.check(
            grouped.predict_all(X) != y, groups=site, probs=grouped.predict_proba(X)
        )
    assert set(checks.checks) == {"a: 0", "a: 1", "b: 0", "b: 1"}
    folded = SelectiveClassifier(risk=risk, cv=3).fit(X, y)
    assert folded.guarantee_ is None
    assert folded.accepts(X).any()
    learned = SelectiveClassifier(risk=risk, score="learned", cv=0.5, random_state=0).fit(X, y)
    assert learned.accepts(X).any()
    with pytest.raises(InputError, match=r"must be a number, or a dict by class \(0, 1, 2\), got 'ill'"):
        SelectiveClassifier(risk={"ill": 0.1, 0: 0.2}).fit(X, y)
    with pytest.warns(
        AbstainWarning, match="no threshold could be certified.*0: The smallest risk these data certify"
    ):
        SelectiveClassifier(risk={0: 1e-4, 1: 0.4}, random_state=0).fit(X, y)


def test_a_risk_for_each_tolerance():
    X, y = make_regression(3000, 5, noise=10.0, random_state=0)
    risk = {"far": 0.05, "off": 0.5}
    reg = SelectiveRegressor(risk=risk, tolerance={"far": 25.0, "off": 10.0}, cv=0.5, random_state=0).fit(
        X, y
    )
    _, calibration = train_test_split(np.arange(3000), test_size=0.5, random_state=0)
    prediction, accepted = reg.predict_selective(X[calibration])
    error = np.abs(prediction - y[calibration])[accepted]
    assert reg.threshold_.risks == pytest.approx({"far": (error > 25).mean(), "off": (error > 10).mean()})
    with pytest.raises(InputError, match="`risk` and `tolerance` must be dicts of the same names"):
        SelectiveRegressor(risk=risk, tolerance=10.0).fit(X, y)
