"""What a user does with the selective classifier and regressor."""

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
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import abstain
from abstain.errors import AbstainWarning, InfeasibleError, InputError
from abstain.sklearn import (
    RiskCoverageDisplay,
    SelectiveClassifier,
    SelectiveRegressor,
    augrc_scorer,
    aurc_scorer,
    coverage_at_risk_scorer,
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
    from sklearn.model_selection import train_test_split

    X_train, _, y_train, _ = train_test_split(X, y, test_size=0.5, random_state=0)
    return X_train, y_train


def test_folds_use_all_data_and_promise_nothing(data):
    X, y = data
    clf = SelectiveClassifier(risk=0.2, cv=4).fit(X, y)
    assert clf.threshold_.n == len(y)
    assert clf.guarantee_ is None
    assert "out-of-fold" in clf.threshold_.note
    np.testing.assert_allclose(clf.predict_proba(X), LogisticRegression().fit(X, y).predict_proba(X))


def test_predict_abstains_only_with_a_label(data):
    X, y = data
    clf = SelectiveClassifier(coverage=0.6, cv=0.3, random_state=0).fit(X, y)
    prediction, accepted = clf.predict_selective(X)
    assert 0.5 < accepted.mean() < 0.75
    np.testing.assert_array_equal(accepted, clf.confidence(X) >= clf.threshold_.value)
    np.testing.assert_array_equal(clf.predict(X), prediction)
    told = clone(clf).set_params(abstain_label=-1).fit(X, y).predict(X)
    np.testing.assert_array_equal(told == -1, ~accepted)
    np.testing.assert_array_equal(told[accepted], prediction[accepted])
    assert clf.score(X, y) == pytest.approx((prediction == y)[accepted].mean())


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
        assert (clf.predict(X) == 0).mean() > (plain.predict(X) == 0).mean() + 0.1
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
    told = clone(reg).set_params(abstain_value=np.nan).fit(X[:3000], y[:3000]).predict(X[3000:])
    np.testing.assert_array_equal(np.isnan(told), ~accepted)


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


def test_a_classifier_without_a_certified_threshold_answers_nothing_by_mistake(data):
    X, y = data
    clf = SelectiveClassifier(risk=1e-4, cv=0.3, random_state=0)
    with pytest.warns(AbstainWarning, match="smallest risk"):
        clf.fit(X, y)
    assert not clf.accepts(X).any()
    with pytest.raises(InfeasibleError, match="abstain_label"):
        clf.predict(X)
    assert (clf.predict(X, abstain_label=-1) == -1).all()
    assert not clf.predict_selective(X)[1].any()


@pytest.mark.parametrize("risk", [5, -1, 1.5, 100])
def test_percents_are_refused_with_the_remedy(data, risk):
    X, y = data
    with pytest.raises(InputError, match=r"`risk` must lie in \[0, 1\]"):
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
    said = pipe.predict(X, abstain_label=-1)
    accepted = pipe[-1].accepts(pipe[:-1].transform(X))
    assert 0.4 < accepted.mean() < 0.8
    assert (said[~accepted] == -1).all()
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
