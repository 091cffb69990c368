"""scikit-learn's own checks of its estimator contract."""

from unittest import SkipTest

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from abstain.sklearn import SelectiveClassifier, SelectiveRegressor


@pytest.mark.filterwarnings("ignore:.*no threshold could be certified:abstain.errors.AbstainWarning")
@parametrize_with_checks(
    [
        SelectiveClassifier(coverage=0.8, cv=0.25, abstain_label=None, random_state=0),
        SelectiveClassifier(coverage=1.0, method="empirical", cv=2),
        SelectiveClassifier(LogisticRegression(C=10.0), risk=0.6, delta=0.5, cv=3, abstain_label=-7),
        SelectiveClassifier(
            LinearSVC(), coverage=0.5, method="empirical", abstain_label=None, random_state=0
        ),
        SelectiveRegressor(Ridge(), coverage=0.8, abstain_label=None, random_state=0),
        SelectiveRegressor(risk=0.2, tolerance=1.0, cv=3, abstain_label=0.0),
    ]
)
def test_estimator_contract(estimator, check):
    try:
        check(estimator)
    except SkipTest as reason:  # only the checks that need an array API mode nobody has switched on
        if "SCIPY_ARRAY_API" not in str(reason):
            raise
