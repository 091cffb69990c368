"""Pick a threshold for a clinic: below which confidence should a person look?

Data: scikit-learn's breast cancer set (569 biopsies, 212 malignant). Half of them train the model, the other half
choose the threshold: a guarantee needs samples that were not used for training.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import abstain


def main() -> abstain.Threshold:
    data = load_breast_cancer()
    malignant = (data.target == 0).astype(int)
    X_train, X_cal, y_train, y_cal = train_test_split(
        data.data, malignant, test_size=0.5, stratify=malignant, random_state=0
    )
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1)).fit(X_train, y_train)
    score = model.decision_function(X_cal)
    prediction = (score > 0).astype(int)
    confidence = np.abs(score)
    wrong = prediction != y_cal
    print(f"Answering all {len(y_cal)} cases, the model is wrong on {wrong.sum()}.\n")

    for risk in (0.005, 0.02, 0.05):  # acceptable error rates among the answered
        threshold = abstain.select_threshold(wrong, confidence, risk=risk, delta=0.1)
        if threshold.feasible:
            coverage, error_rate = f"{threshold.coverage:.0%}", f"{threshold.risk:.2%}"
            print(f"At most {risk:.1%} errors: answer {coverage} of the cases, {error_rate} wrong here.")
        else:
            print(f"At most {risk:.1%} errors: no threshold. {threshold.advice}")
    print(f"\n{threshold}\n")

    # For the physician: among the answered cases, how reliable are "malignant" and "benign"?
    print(abstain.clinical_table(y_cal, prediction, confidence, thresholds=[0.0, float(threshold.value)]))
    return threshold


if __name__ == "__main__":
    main()
