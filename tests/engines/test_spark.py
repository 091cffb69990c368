"""Spark: what it refuses, in our words."""

from __future__ import annotations

import pytest


def test_spark_refuses_decimals_strings_and_missing_columns_in_our_words(spark_session):
    from decimal import Decimal

    from abstain.engines import spark
    from abstain.errors import DataError

    rows = [(Decimal("0.5"), "0.5", 1.0, None), (Decimal("0.1"), "x", 0.0, 1.0)]
    data = spark_session.createDataFrame(rows, "d decimal(10,2), s string, x double, gap double")
    for column, said in (
        ("d", "must hold numbers"),
        ("s", "must hold numbers"),
        ("gap", "must be finite, got None"),
    ):
        with pytest.raises(DataError, match=f"spark.aurc: `{column}` {said}"):
            spark.aurc(data, confidence="x", loss=column)
        with pytest.raises(DataError, match=f"spark.aurc: `{column}` {said}"):
            spark.aurc(data, confidence=column, loss="x")
    with pytest.raises(DataError, match=r"spark.aurc: the data has no column 'y'; it has d, s, x, gap\."):
        spark.aurc(data, confidence="x", loss="y")
